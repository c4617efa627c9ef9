//! E4: echo.

use super::measure::{ARMS, LOADED, loaded, measure};
use crate::args::Args;
use crate::load::Load;
use crate::machine::Server;
use crate::report::{Report, Table};
use crate::wire::{Kind, message};

/// The message size, the number of connections, and the number of requests in a batch.
#[derive(Clone, Copy)]
struct Case {
    bytes: usize,
    connections: usize,
    depth: usize,
}

const CONNECTIONS: [usize; 5] = [1, 16, 64, 256, 1024];
/// poll(2) costs time for each descriptor, so it is not measured with more connections than this.
const POLL_MAX: usize = 64;
/// Maximum bytes in flight; with more, the kernel's memory would be measured.
const UNDER_WAY_MAX: usize = 64 << 20;

fn cases(args: &Args) -> Vec<Case> {
    let mut cases = Vec::new();
    for (bytes, depth) in [(64, 1), (64, 16), (1024, 1), (16 * 1024, 1), (16 * 1024, 16)] {
        for connections in CONNECTIONS {
            let fits = bytes * depth * connections <= UNDER_WAY_MAX;
            let room = (connections as u64 + 100) * ARMS.len() as u64 <= args.descriptors;
            let quick = !args.quick || (bytes == 64 && [1, 64].contains(&connections));
            if fits && room && quick && args.bytes.is_none_or(|wanted| wanted == bytes) {
                cases.push(Case { bytes, connections, depth });
            }
        }
    }
    cases
}

pub fn run(args: &Args, report: &mut Report) {
    for case in cases(args) {
        run_case(args, report, case);
    }
}

fn run_case(args: &Args, report: &mut Report, case: Case) {
    let Case { bytes, connections, depth } = case;
    let mut arms: Vec<&str> = args.arms.iter().map(String::as_str).collect();
    let usual = arms.is_empty();
    if usual {
        arms.extend(ARMS);
        arms.extend((connections <= POLL_MAX).then_some("poll"));
    }
    let message = message(Kind::Echo, bytes);
    let mut running: Vec<(Server, Load)> = Vec::new();
    for arm in &arms {
        let server = Server::start(arm);
        let load = Load::open(server.port, connections, &message, depth, bytes);
        running.push((server, load));
    }
    let ns = args.window_ns(if connections <= 64 { 60 } else { 100 });
    for (server, load) in &mut running {
        measure(server, load, ns / 2);
    }
    let title = format!("E4 echo, {bytes} B, c = {connections}, pipeline {depth}");
    let mut table = Table::new(title, &LOADED, &arms);
    for _ in 0..args.rounds {
        for (arm, (server, load)) in running.iter_mut().enumerate() {
            let (window, spent) = measure(server, load, ns);
            table.add(arm, &loaded(&window, &spent));
        }
    }
    report.table(&table);
    let ratio = |arm, base| table.ratio(arm, base, "ops/cpu s");
    let uring = ratio("io_uring", "epoll");
    let figure = format!(
        "io_uring over epoll, ops per processor second: {:.3} ({:.3} .. {:.3})",
        uring.mid, uring.low, uring.high
    );
    match connections {
        ..50 => report.gate(None, &figure),
        _ => {
            report.gate(Some(uring.mid >= 1.15), &format!("{figure}; target >= 1.15"));
            report.gate(Some(uring.mid >= 0.97), &format!("{figure}; never below 0.97"));
        }
    }
    if !usual {
        return more(report, &table, &arms);
    }
    let (mio, polling) = (ratio("epoll", "mio"), ratio("epoll", "polling"));
    let text = format!(
        "epoll over mio: {:.3} ({:.3} .. {:.3}), over polling: {:.3} ({:.3} .. {:.3})",
        mio.mid, mio.low, mio.high, polling.mid, polling.low, polling.high
    );
    report.gate(None, &text);
}

/// Prints the ratio to epoll of each requested arm other than epoll and io_uring.
fn more(report: &mut Report, table: &Table, arms: &[&str]) {
    for arm in arms.iter().filter(|arm| !["epoll", "io_uring"].contains(arm)) {
        let ratio = table.ratio(arm, "epoll", "ops/cpu s");
        let text = format!(
            "{arm} over epoll, ops per processor second: {:.3} ({:.3} .. {:.3})",
            ratio.mid, ratio.low, ratio.high
        );
        report.gate(None, &text);
    }
}
