//! Processors, clocks, memory and descriptors of the machine; server processes and their counters.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use sluice_clock::{Machine, System};

use super::wire::{HEADER, Kind, message};

/// A server's own figures; all but the last two count from its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub cpu_ns: u64,
    pub system_calls: u64,
    pub iterations: u64,
    /// Number of sends that the application requested.
    pub sends: u64,
    /// Number of receives that found no buffer in the group.
    pub starvations: u64,
    /// Number of receives directly into a value.
    pub fills: u64,
    pub rss_bytes: u64,
    pub descriptors: u64,
}

const FIELDS: usize = 8;

impl Counters {
    /// The counters with the processor time of this thread.
    pub fn with_cpu(mut self) -> Counters {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        self.cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        self
    }

    pub fn take_census(&mut self) {
        let pages = fs::read_to_string("/proc/self/statm").ok();
        let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        self.rss_bytes = pages.unwrap_or(0) * rustix::param::page_size() as u64;
        self.descriptors = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    }

    pub fn to_bytes(self) -> [u8; FIELDS * 8] {
        let fields = [
            self.cpu_ns,
            self.system_calls,
            self.iterations,
            self.sends,
            self.starvations,
            self.fills,
            self.rss_bytes,
            self.descriptors,
        ];
        let mut bytes = [0; FIELDS * 8];
        for (to, field) in bytes.chunks_exact_mut(8).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; FIELDS * 8]) -> Counters {
        let mut fields = [0; FIELDS];
        for (field, from) in fields.iter_mut().zip(bytes.chunks_exact(8)) {
            *field = from.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        }
        let [cpu_ns, system_calls, iterations, sends, starvations, fills, rss_bytes, descriptors] = fields;
        Counters { cpu_ns, system_calls, iterations, sends, starvations, fills, rss_bytes, descriptors }
    }

    /// The counts since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            system_calls: self.system_calls - earlier.system_calls,
            iterations: self.iterations - earlier.iterations,
            sends: self.sends - earlier.sends,
            starvations: self.starvations - earlier.starvations,
            fills: self.fills - earlier.fills,
            ..*self
        }
    }
}

/// A server process with one thread, on the first processor, ended on drop.
pub struct Server {
    child: Child,
    control: TcpStream,
    pub port: u16,
    pub name: String,
}

impl Server {
    /// Starts a server with this setup, which `arms::serve` describes.
    pub fn start(setup: &str) -> Server {
        let (child, line) = respawn(&["--serve", setup]);
        let port = line.trim().parse().expect("the server tells its port");
        let control = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts");
        control.set_nodelay(true).expect("a socket option");
        Server { child, control, port, name: setup.to_string() }
    }

    /// The present counters, without memory and descriptors.
    pub fn mark(&mut self) -> Counters {
        self.ask(Kind::Mark)
    }

    /// The counters with memory and descriptors.
    pub fn census(&mut self) -> Counters {
        // Two other requests are made first, because a ring closes descriptors only in the next iteration.
        self.ask(Kind::Mark);
        self.ask(Kind::Mark);
        self.ask(Kind::Census)
    }

    fn ask(&mut self, kind: Kind) -> Counters {
        self.control.write_all(&message(kind, HEADER)).expect("the server lives");
        let mut bytes = [0; FIELDS * 8];
        self.control.read_exact(&mut bytes).expect("the server answers");
        Counters::from_bytes(&bytes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A process that holds idle connections to a server, ended on drop.
pub struct Holder(Child);

impl Holder {
    /// Opens `count` connections, each of which sends one request.
    pub fn start(port: u16, count: usize) -> Holder {
        let (child, line) = respawn(&["--hold", &format!("{port}:{count}")]);
        assert_eq!(line.trim(), "held", "the holder has its connections");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Starts this program again as a child; returns the child and the first line of its output.
fn respawn(args: &[&str]) -> (Child, String) {
    let program = std::env::current_exe().expect("a program has a path");
    let mut child =
        Command::new(program).args(args).stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("the child says a line");
    (child, line)
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Binds this thread to a processor; prints an error if the machine lacks it.
pub fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    if let Err(error) = sched_setaffinity(None, &set) {
        eprintln!("not pinned to processor {processor}: {error}");
    }
}

/// Raises the limit of descriptors to its maximum; returns the new limit.
pub fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Kernel memory in slabs of the whole machine, bytes.
pub fn slab_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

pub fn now_ns() -> u64 {
    System::without_counter().monotonic_ns()
}
