//! E6: connect, one request, close.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::measure::ARMS;
use crate::args::Args;
use crate::load::{Set, connect};
use crate::machine::{Counters, Server, now_ns};
use crate::report::{Column, Histogram, Report, Table};
use crate::wire::{Kind, message};

const AT_ONCE: usize = 64;
const BYTES: usize = 64;

const COLUMNS: [Column; 7] = [
    Column::Wide("conns/s"),
    Column::Wide("cpu s/Mconn"),
    Column::Mid("calls/conn"),
    Column::Mid("FIN p50 us"),
    Column::Mid("FIN p99 us"),
    Column::Mid("FIN p999 us"),
    Column::Mid("conns/cpu s"),
];

/// The side that closes a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ender {
    Client,
    Server,
}

pub fn run(args: &Args, report: &mut Report) {
    for (ender, who) in [(Ender::Client, "client"), (Ender::Server, "server")] {
        run_case(args, report, ender, who);
    }
}

fn run_case(args: &Args, report: &mut Report, ender: Ender, who: &str) {
    let mut running: Vec<_> = ARMS.iter().map(|arm| (Server::start(arm), Churn::new(ender))).collect();
    let ns = args.window_ns(100);
    let mut before = Vec::new();
    for (server, churn) in &mut running {
        churn.window(server.port, ns / 2);
        before.push(server.census());
    }
    let title = format!("E6 churn, {AT_ONCE} at once, one echo of {BYTES} B each, the {who} ends it");
    let mut table = Table::new(title, &COLUMNS, &ARMS);
    for _ in 0..args.rounds {
        for (arm, (server, churn)) in running.iter_mut().enumerate() {
            let start = server.mark();
            let (conns, wall_ns, fin) = churn.window(server.port, ns);
            let spent = server.mark().since(&start);
            table.add(arm, &figures(conns, wall_ns, &fin, &spent));
        }
    }
    report.table(&table);
    for ((server, churn), before) in running.iter_mut().zip(&before) {
        let after = server.census();
        let leaked = after.descriptors as i64 - before.descriptors as i64;
        let text = format!(
            "{}: {leaked} descriptors leaked in {} connections ({} open before and {} after)",
            server.name, churn.total, before.descriptors, after.descriptors
        );
        let is_ours = ["epoll", "io_uring"].contains(&server.name.as_str());
        report.gate(is_ours.then_some(leaked == 0), &text);
    }
    let ratio = table.ratio("io_uring", "epoll", "conns/cpu s");
    let text = format!(
        "multishot accept (io_uring) over epoll, connections per processor second: {:.3} ({:.3} .. {:.3}); gate >= 1",
        ratio.mid, ratio.low, ratio.high
    );
    report.gate(Some(ratio.mid >= 1.0), &text);
}

fn figures(conns: u64, wall_ns: u64, fin: &Histogram, spent: &Counters) -> [f64; 7] {
    let conns = conns as f64;
    [
        conns * 1e9 / wall_ns as f64,
        spent.cpu_ns as f64 / 1e3 / conns,
        spent.system_calls as f64 / conns,
        fin.us(0.5),
        fin.us(0.99),
        fin.us(0.999),
        conns * 1e9 / spent.cpu_ns as f64,
    ]
}

/// The clients that connect, request and close.
struct Churn {
    set: Set,
    clients: Vec<Option<Client>>,
    ender: Ender,
    request: Vec<u8>,
    total: u64,
}

struct Client {
    stream: TcpStream,
    got: usize,
    /// The time at which the wait for the end of the connection begins: when the client has closed its side,
    /// or when the last byte of the reply has arrived.
    asked_ns: u64,
}

impl Churn {
    fn new(ender: Ender) -> Churn {
        let kind = match ender {
            Ender::Client => Kind::Echo,
            Ender::Server => Kind::Last,
        };
        Churn { set: Set::new(), clients: Vec::new(), ender, request: message(kind, BYTES), total: 0 }
    }

    /// Runs for `ns`; returns the number of connections, the nanoseconds, and the times until the server's
    /// close arrived.
    fn window(&mut self, port: u16, ns: u64) -> (u64, u64, Histogram) {
        let mut fin = Histogram::new();
        let before = self.total;
        let began = now_ns();
        let until = began + ns;
        self.clients.clear();
        for index in 0..AT_ONCE {
            self.clients.push(None);
            self.open(port, index);
        }
        let mut busy = AT_ONCE;
        while busy > 0 {
            for (index, _) in self.set.wait(None) {
                if !self.pull(index, &mut fin) {
                    continue;
                }
                self.total += 1;
                self.clients[index] = None;
                if now_ns() < until {
                    self.open(port, index);
                } else {
                    busy -= 1;
                }
            }
        }
        (self.total - before, now_ns() - began, fin)
    }

    fn open(&mut self, port: u16, index: usize) {
        let mut stream = connect(port, self.total as usize + index);
        stream.write_all(&self.request).expect("an empty socket takes a request");
        stream.set_nonblocking(true).expect("a socket option");
        self.set.add(&stream, index);
        self.clients[index] = Some(Client { stream, got: 0, asked_ns: 0 });
    }

    /// Receives from a client's connection; returns whether the end of the connection has arrived.
    fn pull(&mut self, index: usize, fin: &mut Histogram) -> bool {
        let Some(client) = &mut self.clients[index] else { return false };
        let mut reply = [0; BYTES];
        match client.stream.read(&mut reply) {
            Ok(0) => {
                assert_eq!(client.got, BYTES, "the reply comes before the end");
                fin.record(now_ns() - client.asked_ns, 1);
                return true;
            }
            Ok(bytes) => client.got += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("receive: {error}"),
        }
        if client.got == BYTES {
            client.asked_ns = now_ns();
            if self.ender == Ender::Client {
                client.stream.shutdown(Shutdown::Write).expect("a connected socket");
            }
        }
        false
    }
}
