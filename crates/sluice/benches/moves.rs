//! The cost for other clients when connections change their owner: the main thread's own processor time in
//! one iteration, while a given number of connections move to I/O threads and back.
//!
//! Method: the server, built for release, runs on a free port with the given number of idle connections.
//! `CONFIG SET io-threads` moves all of them to I/O threads, and another `CONFIG SET` moves them back, five
//! times each. The benchmark prints INFO's `eventloop_iteration_max_cpu_usec` (CLOCK_THREAD_CPUTIME_ID of the
//! longest iteration since the start), and beside it the figure in wall-clock time. `CONFIG SET` itself
//! starts or ends threads, and accepting the connections counts too; the first printed line, without
//! connections to move, shows this cost.
//!
//! `cargo bench -p sluice --bench moves [-- CONNECTIONS…]`
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const DEADLINE: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    control: BufReader<TcpStream>,
    port: u16,
}

impl Server {
    fn start() -> Server {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap().port();
        let child = Command::new(env!("CARGO_BIN_EXE_sluice-server"))
            .args(["--port", &port.to_string(), "--maxclients", "40000", "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(began.elapsed() < DEADLINE, "{error}"),
            }
        };
        Server { child, control: BufReader::new(stream), port }
    }

    fn ask(&mut self, line: &str) -> String {
        self.control.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut first = String::new();
        self.control.read_line(&mut first).unwrap();
        let Some(len) = first.strip_prefix('$').and_then(|len| len.trim().parse::<usize>().ok()) else {
            return first;
        };
        let mut bytes = vec![0; len + 2];
        self.control.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn info(&mut self, field: &str) -> i64 {
        let text = self.ask("INFO server debug");
        let line =
            text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {field}")).parse().unwrap()
    }

    /// Moves every connection to I/O threads, or back, and waits for the end of the moves.
    fn move_all(&mut self, threads: usize) {
        let set = format!("CONFIG SET io-threads {threads} io-threads-always-active yes");
        assert!(self.ask(&set).starts_with("+OK"));
        let began = Instant::now();
        let wanted = if threads > 1 { 1 } else { 0 };
        loop {
            assert!(began.elapsed() < DEADLINE);
            if self.info("io_threads_active") == wanted {
                break;
            }
        }
        // Each iteration moves more connections, so that all moves are finished after a thousand idle round
        // trips.
        for _ in 0..1000 {
            assert!(self.ask("PING").starts_with("+PONG"));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() {
    let mut counts: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![0, 1_000, 10_000];
    }
    println!(
        "longest iteration of the main thread while all connections move to I/O threads and back, microseconds"
    );
    println!("{:>12} {:>15} {:>10}", "connections", "processor time", "wall clock");
    for count in counts {
        let mut server = Server::start();
        let port = server.port;
        let idle: Vec<TcpStream> = (0..count)
            .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("descriptors for all"))
            .collect();
        for _ in 0..ROUNDS {
            server.move_all(3);
            server.move_all(1);
        }
        let (cpu, wall) =
            (server.info("eventloop_iteration_max_cpu_usec"), server.info("eventloop_iteration_max_usec"));
        println!("{count:12} {cpu:15} {wall:10}");
        drop(idle);
    }
}
