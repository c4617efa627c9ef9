//! The rows in the order of the table. `measure.rs` measures them.

use super::load::Shape;
#[cfg(test)]
use super::load::Template;

/// One measurement, for one line of the table or several.
pub(crate) struct Row {
    /// The row's name in `--only` and `--list`.
    pub(crate) name: &'static str,
    /// The row's name in the table.
    pub(crate) about: &'static str,
    pub(super) setup: &'static [Fill],
    /// Options for both servers.
    pub(super) options: &'static [&'static str],
    pub(super) work: Work,
}

/// Requests that fill a server before it is measured.
pub(super) struct Fill {
    pub(super) request: &'static str,
    pub(super) count: u64,
    /// Whether the measurement consumes the items. If so, `--scale` also changes `count`, so that there are
    /// enough items.
    pub(super) consumed: bool,
}

/// The kind of measurement.
pub(crate) enum Work {
    /// Processor time per request, and the rate of requests.
    Requests { request: &'static str, shape: Shape, count: u64 },
    /// Processor time per request of a server with I/O threads: the main thread, the whole process, and the
    /// process at rest afterwards.
    Threads { request: &'static str, shape: Shape, count: u64 },
    /// Processor time per message published, with subscribers that read all of them.
    Publish { request: &'static str, shape: Shape, subscribers: usize, count: u64 },
    /// The 99th percentile of one client's waits for its replies while others send the same request.
    Latency { request: &'static str, shape: Shape, probes: usize },
    /// Processor time per connection that makes one request.
    Churn { request: &'static str, count: u64 },
    /// Resident bytes per item that these requests make.
    Memory { request: &'static str, count: u64 },
    /// Resident bytes per idle connection.
    Connections { count: usize },
    /// Resident bytes per stored byte, after each of [`PHASES`].
    Fragment { keys: u64 },
    /// The longest wait of another client during one request and half a second after it.
    Pause { request: &'static str },
    /// The longest wait of another client during all these requests.
    Growth { request: &'static str, count: u64 },
}

/// The unit of a line's figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Processor,
    P99,
    Waiting,
    Bytes,
    Share,
    Percent,
}

impl Unit {
    /// The unit's name in the table.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Unit::Processor => "µs of processor time",
            Unit::P99 => "µs, p99",
            Unit::Waiting => "ms of waiting",
            Unit::Bytes => "bytes",
            Unit::Share => "bytes per byte",
            Unit::Percent => "% of a processor",
        }
    }

    /// A figure in this unit, as in the table.
    pub(crate) fn figure(self, figure: f64) -> String {
        match self {
            Unit::Processor => format!("{figure:.3}"),
            Unit::Share => format!("{figure:.2}"),
            Unit::Waiting | Unit::Bytes | Unit::Percent => format!("{figure:.1}"),
            Unit::P99 => format!("{figure:.0}"),
        }
    }
}

impl Row {
    /// The lines of the row, each with its unit.
    pub(crate) fn lines(&self) -> Vec<(String, Unit)> {
        let one = |unit| vec![(self.about.to_string(), unit)];
        match self.work {
            Work::Requests { .. } | Work::Churn { .. } | Work::Publish { .. } => one(Unit::Processor),
            Work::Memory { .. } | Work::Connections { .. } => one(Unit::Bytes),
            Work::Pause { .. } | Work::Growth { .. } => one(Unit::Waiting),
            Work::Latency { .. } => one(Unit::P99),
            Work::Fragment { .. } => {
                PHASES.iter().map(|phase| (format!("{}: {phase}", self.about), Unit::Share)).collect()
            }
            Work::Threads { .. } => [
                ("processor time of the main thread", Unit::Processor),
                ("of the whole process", Unit::Processor),
                ("processor use at rest, after that load", Unit::Percent),
            ]
            .map(|(what, unit)| (format!("{}: {what}", self.about), unit))
            .to_vec(),
        }
    }

    /// Number of rounds of the row if `asked` rounds were requested; only one if a measurement is mostly
    /// waiting.
    pub(crate) fn rounds(&self, asked: usize) -> usize {
        if matches!(self.work, Work::Connections { .. } | Work::Fragment { .. }) { 1 } else { asked }
    }

    /// Whether the server may use every processor. On a single processor, its threads would only take turns.
    pub(crate) fn takes_all_processors(&self) -> bool {
        matches!(self.work, Work::Threads { .. })
    }

    /// Parses every template of the row; panics on a malformed one.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for fill in self.setup {
            Template::new(fill.request);
        }
        match self.work {
            Work::Requests { request, .. }
            | Work::Threads { request, .. }
            | Work::Latency { request, .. }
            | Work::Publish { request, .. }
            | Work::Churn { request, .. }
            | Work::Memory { request, .. }
            | Work::Growth { request, .. }
            | Work::Pause { request } => drop(Template::new(request)),
            Work::Connections { .. } | Work::Fragment { .. } => {}
        }
    }
}

/// The phases of a row about fragmentation, in order.
pub(super) const PHASES: [&str; 6] = [
    "filled with 64 bytes each",
    "nine of ten deleted at random",
    "a third more keys, of 200 bytes",
    "all overwritten four times, larger each time",
    "all overwritten four times, smaller each time",
    "nine of ten deleted at random again",
];

const fn row(name: &'static str, about: &'static str, setup: &'static [Fill], work: Work) -> Row {
    Row { name, about, setup, options: &[], work }
}

const fn requests(
    name: &'static str,
    about: &'static str,
    setup: &'static [Fill],
    request: &'static str,
    shape: Shape,
    count: u64,
) -> Row {
    row(name, about, setup, Work::Requests { request, shape, count })
}

/// The memory of a million items, each made by `request`.
const fn memory(name: &'static str, about: &'static str, request: &'static str) -> Row {
    row(name, about, &[], Work::Memory { request, count: 1_000_000 })
}

const fn pause(
    name: &'static str,
    about: &'static str,
    setup: &'static [Fill],
    request: &'static str,
) -> Row {
    row(name, about, setup, Work::Pause { request })
}

/// The wait of one client's GET beside a load of other clients.
const fn latency(name: &'static str, about: &'static str, shape: Shape) -> Row {
    row(name, about, STRINGS, Work::Latency { request: "GET key:#", shape, probes: 3000 })
}

const fn publish(name: &'static str, about: &'static str, subscribers: usize, count: u64) -> Row {
    let work = Work::Publish { request: "PUBLISH channel $64", shape: shape(50, 8, 1), subscribers, count };
    row(name, about, &[], work)
}

const fn threads(name: &'static str, about: &'static str, options: &'static [&'static str]) -> Row {
    let work = Work::Threads { request: "GET key:#", shape: PLAIN, count: 100_000 };
    Row { name, about, setup: STRINGS, options, work }
}

const fn shape(clients: usize, depth: usize, keys: u64) -> Shape {
    Shape { clients, depth, keys }
}

const fn fill(request: &'static str, count: u64) -> Fill {
    Fill { request, count, consumed: false }
}

const STRINGS: &[Fill] = &[fill("SET key:# $64", 100_000)];
const STRINGS_512: &[Fill] = &[fill("SET key:# $512", 100_000)];
const MILLION: &[Fill] = &[fill("SET key:# $64", 1_000_000)];
const LIST: &[Fill] = &[fill("RPUSH list $3", 700)];
const LONG_LIST: &[Fill] = &[Fill { request: "RPUSH list $64", count: 1_400_000, consumed: true }];
const LIST_MILLION: &[Fill] = &[fill("RPUSH list element:#", 1_000_000)];

/// One request at a time on each of fifty connections, as clients without pipelines do.
const PLAIN: Shape = shape(50, 1, 100_000);
/// Sixteen outstanding requests on each of fifty connections.
const DEEP: Shape = shape(50, 16, 100_000);
/// Sixteen outstanding requests on each of fifty connections, among a million keys.
const DEEP_MILLION: Shape = shape(50, 16, 1_000_000);
/// Requests with long replies.
const LONG_REPLIES: Shape = shape(50, 4, 1);

const MGET: &str = "MGET key:# key:# key:# key:# key:# key:# key:# key:# key:# key:#";
const MSET: &str = "MSET key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64";

pub(crate) const ROWS: &[Row] = &[
    requests("get", "GET, no pipeline", STRINGS, "GET key:#", PLAIN, 100_000),
    requests("set", "SET, no pipeline", &[], "SET key:# $64", PLAIN, 100_000),
    requests("incr", "INCR, no pipeline", &[], "INCR counter:#", PLAIN, 100_000),
    requests("get-512", "GET of 512 bytes, no pipeline", STRINGS_512, "GET key:#", PLAIN, 100_000),
    requests("set-512", "SET of 512 bytes, no pipeline", &[], "SET key:# $512", PLAIN, 100_000),
    requests(
        "conn-400",
        "GET, 400 connections, no pipeline",
        STRINGS,
        "GET key:#",
        shape(400, 1, 100_000),
        100_000,
    ),
    requests("get-p16", "GET, pipeline of 16", STRINGS, "GET key:#", DEEP, 1_000_000),
    requests(
        "get-p16-1m",
        "GET among a million keys, pipeline of 16",
        MILLION,
        "GET key:#",
        DEEP_MILLION,
        1_000_000,
    ),
    requests("set-p16", "SET, pipeline of 16", &[], "SET key:# $64", DEEP, 1_000_000),
    requests("incr-p16", "INCR, pipeline of 16", &[], "INCR counter:#", DEEP, 1_000_000),
    requests(
        "mget-p16",
        "MGET of ten among a million keys, pipeline of 16",
        MILLION,
        MGET,
        DEEP_MILLION,
        100_000,
    ),
    requests("mset-p16", "MSET of ten, pipeline of 16", &[], MSET, DEEP, 150_000),
    requests("lpush-p16", "LPUSH, pipeline of 16", &[], "LPUSH list $64", DEEP, 1_000_000),
    requests("rpop-p16", "RPOP, pipeline of 16", LONG_LIST, "RPOP list", DEEP, 1_000_000),
    requests("lrange-100", "LRANGE of 100, pipeline of 4", LIST, "LRANGE list 0 99", LONG_REPLIES, 50_000),
    requests("lrange-600", "LRANGE of 600, pipeline of 4", LIST, "LRANGE list 0 599", LONG_REPLIES, 15_000),
    publish("publish-1", "PUBLISH of 64 bytes to one subscriber, pipeline of 8", 1, 400_000),
    publish("publish-100", "PUBLISH of 64 bytes to a hundred subscribers, pipeline of 8", 100, 20_000),
    row(
        "churn",
        "a connection that makes one request",
        STRINGS,
        Work::Churn { request: "GET key:#", count: 10_000 },
    ),
    latency("p99", "a GET beside 50 clients, no pipeline", PLAIN),
    latency("p99-p16", "a GET beside 50 clients, pipelines of 16", DEEP),
    threads(
        "threads-2",
        "GET, no pipeline, one I/O thread forced active",
        &["--io-threads", "2", "--io-threads-always-active", "yes"],
    ),
    threads("threads-8", "GET, no pipeline, io-threads 8", &["--io-threads", "8"]),
    memory("memory-3", "memory per key, 16-byte key and 3-byte value", "SET key:# $3"),
    memory("memory-64", "memory per key, 16-byte key and 64-byte value", "SET key:# $64"),
    memory("memory-128", "memory per key, 16-byte key and 128-byte value", "SET key:# $128"),
    memory("memory-list", "memory per element of one list, 20 bytes each", "RPUSH list element:#"),
    row(
        "memory-connection",
        "memory per idle connection, 30 s after its request, one round",
        &[],
        Work::Connections { count: 10_000 },
    ),
    row(
        "fragment",
        "resident memory per byte of keys and values, one round",
        &[],
        Work::Fragment { keys: 1_000_000 },
    ),
    pause("pause-keys", "what another client waits: KEYS of a million", MILLION, "KEYS *"),
    pause("pause-lrange", "the same: LRANGE of a million", LIST_MILLION, "LRANGE list 0 -1"),
    pause("pause-del", "the same: DEL of a list of a million", LIST_MILLION, "DEL list"),
    pause("pause-flushall", "the same: FLUSHALL of a million keys", MILLION, "FLUSHALL"),
    row(
        "pause-grow",
        "the longest wait of another client while the database grows by a million keys",
        &[],
        Work::Growth { request: "SET key:# $64", count: 1_000_000 },
    ),
];
