//! Measures the event loop under load: echo, idle connections, churn, large values, fan-out and overload. Our
//! epoll, io_uring and poll drivers are compared with mio and polling. The application is the same in every
//! arm.
//!
//! Run it with `cargo bench -p sluice-micro --bench echo -- [--only e4,e10] [--rounds N] [--quick] [--json
//! FILE]`. The scenarios E4 and E10 also accept `[--arms epoll,io_uring,io_uring/32]`, and E4 `[--bytes
//! 16384]`.
//!
//! A server is a process with one thread on the first processor; the load generator is a thread on the second
//! processor. Rounds are interleaved (A B C … A B C …) over servers that run during the whole case; the
//! program prints medians and the middle 90 % of the rounds. Processor time is the server thread's own clock,
//! read by the thread; system calls are counted by our drivers and, in the other arms, by the code that makes
//! them. Microseconds are measured at the client.
#![allow(missing_docs)]

mod app;
mod args;
mod arms;
mod load;
mod machine;
mod report;
mod scenarios;
mod wire;

use args::Args;
use report::Report;

fn main() {
    let descriptors = machine::raise_descriptors();
    let mut args = Args { descriptors, ..Args::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--serve" => return arms::serve(&value()),
            "--hold" => return scenarios::hold(&value()),
            "--only" => args.only = value().split(',').map(str::to_lowercase).collect(),
            "--rounds" => args.rounds = value().parse().expect("--rounds needs a number"),
            "--quick" => args.quick = true,
            "--arms" => args.arms = value().split(',').map(str::to_string).collect(),
            "--bytes" => args.bytes = Some(value().parse().expect("--bytes needs a number")),
            "--json" => args.json = Some(value()),
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    if args.rounds == 0 {
        args.rounds = if args.quick { 2 } else { 20 };
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    machine::pin(1);
    println!(
        "{} rounds, interleaved; medians. {processors} processors, {descriptors} descriptors per process.",
        args.rounds
    );
    println!(
        "Server and client share one machine: with two processors ops/s is what the slower of both does, and the \
         figures that decide are those per operation (processor time, system calls)."
    );
    let mut report = Report::default();
    for (name, run) in scenarios::ALL {
        if args.only.is_empty() || args.only.iter().any(|only| only == name) {
            run(&args, &mut report);
        }
    }
    if let Some(path) = &args.json {
        std::fs::write(path, report.json()).expect("the file can be written");
    }
}
