//! The scenarios, each a function that runs its cases and states its gates.

mod churn;
mod echo;
mod fanout;
mod flood;
mod idle;
mod large;

pub use idle::hold;

use super::Args;
use super::load::{Load, Window};
use super::machine::{Counters, Server};
use super::report::{Column, Report};

/// A scenario's name and what runs it.
type Scenario = (&'static str, fn(&Args, &mut Report));

pub const ALL: [Scenario; 6] = [
    ("e4", echo::run),
    ("e5", idle::run),
    ("e6", churn::run),
    ("e7", large::run),
    ("e8", fanout::run),
    ("e10", flood::run),
];

const ARMS: [&str; 4] = ["epoll", "io_uring", "mio", "polling"];

/// The columns of closed-loop load.
const LOADED: [Column; 7] = [
    Column::Wide("ops/s"),
    Column::Wide("cpu s/Mop"),
    Column::Mid("calls/op"),
    Column::Mid("p50 us"),
    Column::Mid("p99 us"),
    Column::Mid("p999 us"),
    Column::Mid("ops/cpu s"),
];

/// One window of load on a server, and what the server spent on it.
fn measure(server: &mut Server, load: &mut Load, ns: u64) -> (Window, Counters) {
    let before = server.mark();
    let window = load.window(ns);
    let spent = server.mark().since(&before);
    (window, spent)
}

/// The figures of [`LOADED`].
fn loaded(window: &Window, spent: &Counters) -> [f64; 7] {
    let ops = window.ops as f64;
    [
        ops * 1e9 / window.wall_ns as f64,
        spent.cpu_ns as f64 / 1e3 / ops,
        spent.system_calls as f64 / ops,
        window.latency.us(0.5),
        window.latency.us(0.99),
        window.latency.us(0.999),
        ops * 1e9 / spent.cpu_ns as f64,
    ]
}
