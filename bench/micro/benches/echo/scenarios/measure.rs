//! One window of load on a server, and the figures of closed-loop load.

use crate::load::{Load, Window};
use crate::machine::{Counters, Server};
use crate::report::Column;

/// The arms that most scenarios compare.
pub const ARMS: [&str; 4] = ["epoll", "io_uring", "mio", "polling"];

/// The columns of closed-loop load.
pub const LOADED: [Column; 7] = [
    Column::Wide("ops/s"),
    Column::Wide("cpu s/Mop"),
    Column::Mid("calls/op"),
    Column::Mid("p50 us"),
    Column::Mid("p99 us"),
    Column::Mid("p999 us"),
    Column::Mid("ops/cpu s"),
];

/// Runs one window of load on a server; also returns the server's costs.
pub fn measure(server: &mut Server, load: &mut Load, ns: u64) -> (Window, Counters) {
    let before = server.mark();
    let window = load.window(ns);
    let spent = server.mark().since(&before);
    (window, spent)
}

/// The figures of [`LOADED`].
pub fn loaded(window: &Window, spent: &Counters) -> [f64; 7] {
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
