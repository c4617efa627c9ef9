//! E5: many idle connections and a few active ones.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use super::measure::{ARMS, LOADED, loaded, measure};
use crate::args::Args;
use crate::load::{Load, connect};
use crate::machine::{Holder, Server, slab_bytes};
use crate::report::{Column, Report, Table};
use crate::wire::{Kind, message};

const ACTIVE: usize = 64;
const BYTES: usize = 64;
/// Descriptors of a process that are not used for idle connections.
const SPARE: u64 = 300;
/// Bytes that a fixed buffer per connection would take.
const FIXED_BUFFER: f64 = 16.0 * 1024.0;

const MEMORY: [Column; 4] = [
    Column::Mid("RSS B/conn"),
    Column::Mid("slab B/conn"),
    Column::Mid("RSS MiB"),
    Column::Mid("idle cpu us/s"),
];

pub fn run(args: &Args, report: &mut Report) {
    let limit = (args.descriptors - SPARE) as usize;
    let counts = if args.quick { vec![500] } else { vec![10_000, 50_000] };
    for count in counts {
        if count > limit {
            println!("\nE5 with {count} idle connections: the limit of descriptors allows {limit}, so these");
        }
        run_count(args, report, count.min(limit));
    }
}

fn run_count(args: &Args, report: &mut Report, idle: usize) {
    let title = format!("E5 {idle} idle connections: memory of the server");
    let mut memory = Table::new(title, &MEMORY, &ARMS);
    let message = message(Kind::Echo, BYTES);
    let mut running = Vec::new();
    for (arm, name) in ARMS.iter().enumerate() {
        let mut server = Server::start(name);
        let mut load = Load::open(server.port, ACTIVE, &message, 1, BYTES);
        // One window runs before the measurement, so that the loop and the active connections have
        // allocated their memory.
        measure(&mut server, &mut load, args.window_ns(100));
        let (before, slab) = (server.census(), slab_bytes());
        let holder = Holder::start(server.port, idle);
        let (after, slab_after) = (server.census(), slab_bytes());
        let quiet = args.window_ns(300);
        let start = server.mark();
        thread::sleep(Duration::from_nanos(quiet));
        let idle_ns = server.mark().since(&start).cpu_ns;
        let per_conn = |after: u64, before: u64| (after as f64 - before as f64) / idle as f64;
        memory.add(
            arm,
            &[
                per_conn(after.rss_bytes, before.rss_bytes),
                per_conn(slab_after, slab),
                after.rss_bytes as f64 / (1 << 20) as f64,
                idle_ns as f64 / 1e3 * 1e9 / quiet as f64,
            ],
        );
        running.push((server, load, holder));
    }
    report.table(&memory);
    for name in ARMS {
        let rss = memory.spread(name, "RSS B/conn").mid;
        let text = format!(
            "{name}: RSS per connection {rss:.0} B; gate <= 25 % of a fixed buffer of 16 KiB (4096 B)"
        );
        let is_ours = ["epoll", "io_uring"].contains(&name);
        report.gate(is_ours.then_some(rss <= FIXED_BUFFER / 4.0), &text);
    }
    let title = format!("E5 echo, 64 B, {ACTIVE} active among {idle} idle");
    let mut table = Table::new(title, &LOADED, &ARMS);
    let ns = args.window_ns(100);
    for _ in 0..args.rounds {
        for (arm, (server, load, _)) in running.iter_mut().enumerate() {
            let (window, spent) = measure(server, load, ns);
            table.add(arm, &loaded(&window, &spent));
        }
    }
    report.table(&table);
    let (cpu, p99) =
        (table.ratio("io_uring", "epoll", "ops/cpu s"), table.ratio("io_uring", "epoll", "p99 us"));
    let text = format!(
        "io_uring over epoll: ops per processor second {:.3} ({:.3} .. {:.3}), p99 {:.3} ({:.3} .. {:.3})",
        cpu.mid, cpu.low, cpu.high, p99.mid, p99.low, p99.high
    );
    report.gate(None, &text);
}

/// Opens `count` connections to `port` (`what` is `port:count`), sends one message on each, and holds them
/// until the process is ended.
pub fn hold(what: &str) {
    let (port, count) = what.split_once(':').expect("port:count");
    let (port, count) = (port.parse().expect("a port"), count.parse::<usize>().expect("a number"));
    let message = message(Kind::Echo, BYTES);
    let mut reply = [0; BYTES];
    let mut held = Vec::with_capacity(count);
    for number in 0..count {
        let mut stream = connect(port, number);
        stream.write_all(&message).expect("the server lives");
        stream.read_exact(&mut reply).expect("the server answers");
        held.push(stream);
    }
    println!("held");
    loop {
        thread::park();
    }
}
