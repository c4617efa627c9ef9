//! `sluice-server`: arguments, configuration, wiring; nothing else.
#![deny(unsafe_code)]

mod affinity;
#[allow(unsafe_code)]
mod alloc;
mod bio;
mod cli;
#[allow(unsafe_code)]
mod crash;
#[allow(unsafe_code)]
mod daemon;
mod host;
mod inbound;
mod iothreads;
mod listen;
mod log;
mod longest;
mod signals;
mod start;
mod supervisor;
mod switches;
mod syslog;
#[allow(unsafe_code)]
mod title;
mod turn;
mod wire;

fn main() -> std::process::ExitCode {
    match start::run(std::env::args_os().skip(1).collect()) {
        Ok(status) => std::process::ExitCode::from(status),
        Err(failure) => {
            eprint!("{}", failure.text);
            std::process::ExitCode::from(1)
        }
    }
}
