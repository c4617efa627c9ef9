//! `sluice-server`: arguments, configuration, wiring; nothing else.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod alloc;
mod aof;
mod check;
mod check_move;
mod cli;
mod clients;
mod connection;
#[allow(unsafe_code)]
mod crash;
#[allow(unsafe_code)]
mod daemon;
mod host;
mod iothreads;
mod iteration;
mod iteration_stats;
mod lazyfree;
mod listen;
mod loader;
mod log;
mod memory_parts;
mod metrics;
mod migrate;
mod named_file;
mod net;
mod oom_score;
mod os;
mod pipeline_depth;
mod progress;
mod replica;
mod signals;
mod slow_reads;
mod start;
mod storage;
mod supervisor;
mod syslog;
mod test_switches;
mod threads;
#[allow(unsafe_code)]
mod title;
mod users;

fn main() -> std::process::ExitCode {
    match start::run(std::env::args_os().skip(1).collect()) {
        Ok(status) => std::process::ExitCode::from(status),
        Err(failure) => {
            eprint!("{}", failure.text);
            std::process::ExitCode::from(1)
        }
    }
}
