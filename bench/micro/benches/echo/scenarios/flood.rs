//! E10: one connection floods the server while a hundred others send occasional pings.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::args::Args;
use crate::load::{Set, connect};
use crate::machine::{Server, now_ns};
use crate::report::{Column, Histogram, Report, Table, digits};
use crate::wire::{Kind, message};

const ARMS: [&str; 6] = ["epoll", "io_uring", "poll", "mio", "mio/drain", "polling"];
const PINGERS: usize = 100;
const BYTES: usize = 64;
/// Interval of each pinger, ns.
const PERIOD_NS: u64 = 10_000_000;
/// Length in bytes of the flooder's buffer of messages, which is written again and again.
const FLOOD_BYTES: usize = 16 * 1024;

const COLUMNS: [Column; 7] = [
    Column::Mid("p50 us"),
    Column::Wide("p90 us"),
    Column::Wide("p99 us"),
    Column::Mid("p999 us"),
    Column::Mid("max us"),
    Column::Mid("flood MiB/s"),
    Column::Mid("cpu %"),
];

/// Whether there is a flooder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flooder {
    Absent,
    Present,
}

pub fn run(args: &Args, report: &mut Report) {
    let arms =
        if args.arms.is_empty() { ARMS.to_vec() } else { args.arms.iter().map(String::as_str).collect() };
    let mut running: Vec<(Server, Pings)> = Vec::new();
    for arm in &arms {
        let server = Server::start(arm);
        let pings = Pings::open(server.port);
        running.push((server, pings));
    }
    let ns = args.window_ns(200).max(2 * PERIOD_NS);
    let title =
        |state| format!("E10 {PINGERS} pingers, one ping of {BYTES} B each in 10 ms, flooder {state}");
    let mut tables =
        [Table::new(title("absent"), &COLUMNS, &arms), Table::new(title("present"), &COLUMNS, &arms)];
    for _ in 0..args.rounds {
        for (arm, (server, pings)) in running.iter_mut().enumerate() {
            for (table, flooder) in tables.iter_mut().zip([Flooder::Absent, Flooder::Present]) {
                let before = server.mark();
                let seen = pings.window(ns, flooder);
                let spent = server.mark().since(&before);
                let wall = seen.wall_ns as f64;
                let figures = [
                    seen.latency.us(0.5),
                    seen.latency.us(0.9),
                    seen.latency.us(0.99),
                    seen.latency.us(0.999),
                    seen.latency.us(1.0),
                    seen.flooded as f64 / (1 << 20) as f64 * 1e9 / wall,
                    spent.cpu_ns as f64 * 100.0 / wall,
                ];
                table.add(arm, &figures);
            }
        }
    }
    let [absent, present] = &tables;
    report.table(absent);
    report.table(present);
    for arm in arms {
        gate(report, arm, absent, present);
    }
}

/// Checks the bound of a ping's wait: a ping waits at most for the current iteration and for the iteration
/// that reads the ping, and each of them reads one chunk of the flood. Other work of the machine only makes
/// waits longer, so the quietest rounds are compared with the bound.
fn gate(report: &mut Report, arm: &str, absent: &Table, present: &Table) {
    let flood = present.spread(arm, "flood MiB/s").mid;
    let busy = present.spread(arm, "cpu %").mid / 100.0;
    let chunk_us = busy * 1e6 / (flood.max(0.001) * 64.0);
    let (alone, flooded) = (absent.spread(arm, "p99 us"), present.spread(arm, "p99 us"));
    let bound = alone.low + 2.0 * chunk_us;
    let text = format!(
        "{arm}: pinger p99 in quiet rounds {} us alone, {} us beside the flooder; a chunk of the flood is {} us of a \
         iteration, so the bound is {} us",
        digits(alone.low),
        digits(flooded.low),
        digits(chunk_us),
        digits(bound)
    );
    let is_ours = ["epoll", "io_uring", "poll"].contains(&arm);
    report.gate(is_ours.then_some(flooded.low <= bound), &text);
}

struct Pings {
    set: Set,
    pingers: Vec<Pinger>,
    flooder: TcpStream,
    flood: Vec<u8>,
    /// Position of the next byte in `flood`.
    at: usize,
    request: Vec<u8>,
    next_pinger: usize,
}

struct Pinger {
    stream: TcpStream,
    got: usize,
    /// The time of the unanswered ping; 0 for none.
    began_ns: u64,
}

struct Seen {
    latency: Histogram,
    wall_ns: u64,
    flooded: u64,
}

impl Pings {
    fn open(port: u16) -> Pings {
        let set = Set::new();
        let mut pingers = Vec::new();
        for index in 0..PINGERS {
            let stream = connect(port, index);
            stream.set_nonblocking(true).expect("a socket option");
            set.add(&stream, index);
            pingers.push(Pinger { stream, got: 0, began_ns: 0 });
        }
        let flooder = connect(port, PINGERS);
        flooder.set_nonblocking(true).expect("a socket option");
        Pings {
            set,
            pingers,
            flooder,
            flood: message(Kind::Flood, BYTES).repeat(FLOOD_BYTES / BYTES),
            at: 0,
            request: message(Kind::Echo, BYTES),
            next_pinger: 0,
        }
    }

    /// Sends pings at fixed intervals for `ns`, and then waits for the missing replies.
    fn window(&mut self, ns: u64, flooder: Flooder) -> Seen {
        let mut seen = Seen { latency: Histogram::new(), wall_ns: 0, flooded: 0 };
        let began = now_ns();
        let mut due = began;
        let mut now = began;
        while now < began + ns {
            if now >= due {
                due += PERIOD_NS / PINGERS as u64;
                self.ping(now);
            }
            if flooder == Flooder::Present {
                seen.flooded += self.pour();
            }
            self.collect(&mut seen.latency);
            now = now_ns();
        }
        while self.pingers.iter().any(|pinger| pinger.began_ns != 0) {
            self.collect(&mut seen.latency);
        }
        seen.wall_ns = now_ns() - began;
        seen
    }

    /// Sends the next pinger's ping, unless the previous ping of this pinger is unanswered. In that case,
    /// only the one long wait of the previous ping counts.
    fn ping(&mut self, now: u64) {
        let pinger = &mut self.pingers[self.next_pinger];
        self.next_pinger = (self.next_pinger + 1) % PINGERS;
        if pinger.began_ns == 0 {
            pinger.began_ns = now;
            pinger.got = 0;
            pinger.stream.write_all(&self.request).expect("an empty socket takes a request");
        }
    }

    /// Sends as much of the flood as the socket takes; returns the number of bytes.
    fn pour(&mut self) -> u64 {
        match self.flooder.write(&self.flood[self.at..]) {
            Ok(bytes) => {
                self.at = (self.at + bytes) % self.flood.len();
                bytes as u64
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("send: {error}"),
        }
    }

    fn collect(&mut self, latency: &mut Histogram) {
        for (index, _) in self.set.wait(Some(0)) {
            let pinger = &mut self.pingers[index];
            let mut reply = [0; BYTES];
            match pinger.stream.read(&mut reply) {
                Ok(0) => panic!("the server hung up"),
                Ok(bytes) => pinger.got += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => panic!("receive: {error}"),
            }
            if pinger.got == BYTES {
                latency.record(now_ns() - pinger.began_ns, 1);
                pinger.began_ns = 0;
            }
        }
    }
}
