//! E8: messages of one publisher to many subscribers.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::measure::ARMS;
use crate::args::Args;
use crate::load::{Set, connect};
use crate::machine::{Server, now_ns};
use crate::report::{Column, Histogram, Report, Table};
use crate::wire::{HEADER, Kind, message};

const BYTES: usize = 64;

const COLUMNS: [Column; 7] = [
    Column::Wide("deliveries/s"),
    Column::Wide("cpu s/Mdeliv"),
    Column::Mid("sends/call"),
    Column::Mid("calls/turn"),
    Column::Mid("turns/publ"),
    Column::Mid("last p50 us"),
    Column::Mid("last p99 us"),
];

pub fn run(args: &Args, report: &mut Report) {
    let counts: &[usize] = if args.quick { &[1, 100] } else { &[1, 10, 100, 1000] };
    for &subscribers in counts {
        run_case(args, report, subscribers);
    }
}

fn run_case(args: &Args, report: &mut Report, subscribers: usize) {
    let mut running: Vec<(Server, Fan)> = Vec::new();
    for arm in ARMS {
        let server = Server::start(arm);
        let fan = Fan::open(server.port, subscribers);
        running.push((server, fan));
    }
    let ns = args.window_ns(80);
    for (_, fan) in &mut running {
        fan.window(ns / 2);
    }
    let title =
        format!("E8 fan-out of {BYTES} B to {subscribers}; the time until the last subscriber has it");
    let mut table = Table::new(title, &COLUMNS, &ARMS);
    for _ in 0..args.rounds {
        for (arm, (server, fan)) in running.iter_mut().enumerate() {
            let before = server.mark();
            let (published, wall_ns, last) = fan.window(ns);
            let spent = server.mark().since(&before);
            let deliveries = published as f64 * subscribers as f64;
            let figures = [
                deliveries * 1e9 / wall_ns as f64,
                spent.cpu_ns as f64 / 1e3 / deliveries,
                spent.sends as f64 / spent.system_calls as f64,
                spent.system_calls as f64 / spent.iterations as f64,
                spent.iterations as f64 / published as f64,
                last.us(0.5),
                last.us(0.99),
            ];
            table.add(arm, &figures);
        }
    }
    report.table(&table);
    let calls = table.spread("io_uring", "calls/turn").mid;
    let text = format!("io_uring: {calls:.3} system calls per turn; gate: one enter per turn (<= 1.05)");
    report.gate(Some(calls <= 1.05), &text);
    let cpu = table.ratio("io_uring", "epoll", "cpu s/Mdeliv");
    let tail = table.ratio("io_uring", "epoll", "last p99 us");
    let text = format!(
        "io_uring over epoll: processor time per delivery {:.3} ({:.3} .. {:.3}), p99 of the last {:.3} ({:.3} .. {:.3})",
        cpu.mid, cpu.low, cpu.high, tail.mid, tail.low, tail.high
    );
    report.gate(None, &text);
}

/// A publisher and its subscribers.
struct Fan {
    set: Set,
    /// The connections: the publisher first, then the subscribers.
    streams: Vec<TcpStream>,
    /// Bytes of the current message that each connection has received.
    got: Vec<usize>,
    request: Vec<u8>,
    scratch: Vec<u8>,
}

impl Fan {
    fn open(port: u16, subscribers: usize) -> Fan {
        let set = Set::new();
        let mut streams = Vec::new();
        for index in 0..=subscribers {
            let mut stream = connect(port, index);
            if index > 0 {
                stream.write_all(&message(Kind::Subscribe, HEADER)).expect("the server lives");
                stream.read_exact(&mut [0; HEADER]).expect("the server answers");
            }
            stream.set_nonblocking(true).expect("a socket option");
            set.add(&stream, index);
            streams.push(stream);
        }
        let got = vec![0; streams.len()];
        Fan { set, streams, got, request: message(Kind::Publish, BYTES), scratch: vec![0; 4096] }
    }

    /// Publishes for `ns`, and sends each message after all subscribers have received the previous one.
    /// Returns the number of messages, the nanoseconds, and the times until the last subscriber had a message
    /// and the publisher its reply.
    fn window(&mut self, ns: u64) -> (u64, u64, Histogram) {
        let mut last = Histogram::new();
        let began = now_ns();
        let mut published = 0;
        let mut now = began;
        while now < began + ns {
            let sent = now;
            self.got.fill(0);
            self.streams[0].write_all(&self.request).expect("an empty socket takes a request");
            let mut missing = self.streams.len();
            while missing > 0 {
                for (index, _) in self.set.wait(None) {
                    missing -= usize::from(self.pull(index));
                }
            }
            now = now_ns();
            last.record(now - sent, 1);
            published += 1;
        }
        (published, now - began, last)
    }

    /// Receives; returns whether this connection now has the whole message.
    fn pull(&mut self, index: usize) -> bool {
        let bytes = match self.streams[index].read(&mut self.scratch) {
            Ok(0) => panic!("the server hung up"),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("receive: {error}"),
        };
        self.got[index] += bytes;
        self.got[index] == if index == 0 { HEADER } else { BYTES }
    }
}
