//! E7: large values with few ring buffers and with many.

use super::measure::measure;
use crate::args::Args;
use crate::load::Load;
use crate::machine::Server;
use crate::report::{Column, Report, Table};
use crate::wire::{HEADER, Kind, message};

const ARMS: [&str; 8] = [
    "io_uring",
    "io_uring/small",
    "io_uring/direct",
    "io_uring/small/direct",
    "epoll",
    "epoll/direct",
    "mio",
    "mio/direct",
];

const COLUMNS: [Column; 6] = [
    Column::Wide("MiB/s"),
    Column::Wide("cpu ms/GiB"),
    Column::Mid("calls/MiB"),
    Column::Mid("ENOBUFS/MiB"),
    Column::Mid("direct/value"),
    Column::Mid("p99 us"),
];

pub fn run(args: &Args, report: &mut Report) {
    let cases: &[(usize, usize)] = if args.quick { &[(1, 4)] } else { &[(1, 4), (1, 32), (4, 4), (16, 4)] };
    for &(mib, connections) in cases {
        run_case(args, report, mib, connections);
    }
}

fn run_case(args: &Args, report: &mut Report, mib: usize, connections: usize) {
    let message = message(Kind::Sink, mib << 20);
    let mut running: Vec<(Server, Load)> = Vec::new();
    for arm in ARMS {
        let server = Server::start(arm);
        let load = Load::open(server.port, connections, &message, 1, HEADER);
        running.push((server, load));
    }
    let ns = args.window_ns(60);
    for (server, load) in &mut running {
        measure(server, load, ns);
    }
    let title = format!(
        "E7 values of {mib} MiB, c = {connections}; 256 ring buffers of 16 KiB, small: 8; direct: received where they lie"
    );
    let mut table = Table::new(title, &COLUMNS, &ARMS);
    for _ in 0..args.rounds {
        for (arm, (server, load)) in running.iter_mut().enumerate() {
            let (window, spent) = measure(server, load, ns);
            let values = window.ops as f64;
            let sum = values * mib as f64;
            let figures = [
                sum * 1e9 / window.wall_ns as f64,
                spent.cpu_ns as f64 / 1e6 / (sum / 1024.0),
                spent.system_calls as f64 / sum,
                spent.starvations as f64 / sum,
                spent.fills as f64 / values,
                window.latency.us(0.99),
            ];
            table.add(arm, &figures);
        }
    }
    report.table(&table);
    for (small, large) in [("io_uring/small", "io_uring"), ("io_uring/small/direct", "io_uring/direct")] {
        let ratio = table.ratio(small, large, "MiB/s");
        let text = format!(
            "{small} over {large}, MiB/s: {:.3} ({:.3} .. {:.3}); gate >= 0.9",
            ratio.mid, ratio.low, ratio.high
        );
        report.gate(Some(ratio.mid >= 0.9), &text);
    }
}
