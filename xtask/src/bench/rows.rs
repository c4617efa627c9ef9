//! The rows: what is measured, in the order in which the table shows it.

use std::time::Duration;

use super::load::{self, Idle, Load, Shape, Template};
use super::process::{self, Time};
use crate::Result;
use crate::server::Server;

/// One row of the table.
pub(crate) struct Row {
    /// What `--only` and `--list` call it.
    pub(crate) name: &'static str,
    /// What the table calls it.
    pub(crate) about: &'static str,
    setup: &'static [Fill],
    work: Work,
}

/// Requests that a server gets before it is measured.
struct Fill {
    request: &'static str,
    count: u64,
    /// Whether `--scale` changes `count`: what is consumed while it is measured has to last.
    consumed: bool,
}

/// What is measured.
enum Work {
    /// Processor time per request, and the rate of requests.
    Requests { request: &'static str, shape: Shape, count: u64 },
    /// Processor time per connection that makes one request.
    Churn { request: &'static str, count: u64 },
    /// Resident bytes per item that these requests make.
    Memory { request: &'static str, count: u64 },
    /// Resident bytes per idle connection.
    Connections { count: usize },
    /// How long another client waits.
    Pause { request: &'static str },
}

/// What a row's figure counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Microseconds,
    Milliseconds,
    Bytes,
}

impl Unit {
    /// For the table.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Unit::Microseconds => "µs of processor time",
            Unit::Milliseconds => "ms of waiting",
            Unit::Bytes => "bytes",
        }
    }
}

/// What one measurement found.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    /// In the row's unit; less is better.
    pub(crate) cost: f64,
    /// Requests a second; not a number where a row has none.
    pub(crate) rate: f64,
}

impl Default for Figures {
    fn default() -> Figures {
        Figures { cost: f64::NAN, rate: f64::NAN }
    }
}

impl Row {
    /// What the row counts.
    pub(crate) fn unit(&self) -> Unit {
        match self.work {
            Work::Requests { .. } | Work::Churn { .. } => Unit::Microseconds,
            Work::Memory { .. } | Work::Connections { .. } => Unit::Bytes,
            Work::Pause { .. } => Unit::Milliseconds,
        }
    }

    /// Rounds that the row gets of those asked for: one where a measurement is mostly waiting.
    pub(crate) fn rounds(&self, asked: usize) -> usize {
        if matches!(self.work, Work::Connections { .. }) { 1 } else { asked }
    }

    /// Makes every template of the row, which panics on one that is malformed.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for fill in self.setup {
            Template::new(fill.request);
        }
        match self.work {
            Work::Requests { request, .. }
            | Work::Churn { request, .. }
            | Work::Memory { request, .. }
            | Work::Pause { request } => drop(Template::new(request)),
            Work::Connections { .. } => {}
        }
    }
}

/// Fills a fresh server and measures it.
pub(crate) fn run(row: &Row, server: &Server, scale: f64) -> Result<Figures> {
    let scaled = |count: u64| ((count as f64 * scale) as u64).max(1000);
    for Fill { request, count, consumed } in row.setup {
        let count = if *consumed { scaled(*count) } else { *count };
        load::fill(server.port, &Template::new(request), count)?;
    }
    match &row.work {
        Work::Requests { request, shape, count } => requests(server, request, *shape, scaled(*count)),
        Work::Churn { request, count } => {
            let (template, count) = (Template::new(request), scaled(*count));
            let before = Time::of(server.pid())?;
            load::churn(server.port, &template, count)?;
            let spent = Time::of(server.pid())?.since(before);
            Ok(Figures { cost: spent / count as f64 * 1e6, ..Figures::default() })
        }
        Work::Memory { request, count } => {
            let before = process::memory(server.pid())?;
            let count = scaled(*count);
            load::fill(server.port, &Template::new(request), count)?;
            std::thread::sleep(SETTLE);
            let cost = (process::memory(server.pid())? - before) / count as f64;
            Ok(Figures { cost, ..Figures::default() })
        }
        Work::Connections { count } => {
            let count = (*count).min(process::open_files_max().saturating_sub(100));
            let before = process::memory(server.pid())?;
            let idle = Idle::open(server.port, count)?;
            std::thread::sleep(SETTLE_IDLE);
            let cost = (process::memory(server.pid())? - before) / count as f64;
            drop(idle);
            Ok(Figures { cost, ..Figures::default() })
        }
        Work::Pause { request } => {
            let waited = load::wait_behind(server.port, &Template::new(request))?;
            Ok(Figures { cost: waited * 1e3, ..Figures::default() })
        }
    }
}

/// Processor time per request and requests a second; a twentieth of the requests first, which is not counted.
fn requests(server: &Server, request: &str, shape: Shape, count: u64) -> Result<Figures> {
    let template = Template::new(request);
    let mut load = Load::open(server.port, shape)?;
    load.run(&template, count / 20)?;
    let before = Time::of(server.pid())?;
    let (sent, seconds) = load.run(&template, count)?;
    let spent = Time::of(server.pid())?.since(before);
    if spent <= 0.0 {
        return Err("the kernel counted no processor time for the server".into());
    }
    Ok(Figures { cost: spent / sent as f64 * 1e6, rate: sent as f64 / seconds })
}

/// How long memory gets to settle: servers give pages back once a second or so.
const SETTLE: Duration = Duration::from_millis(1500);

/// The same for idle connections: the reference frees their buffers after some seconds, its allocator the pages after
/// ten more.
const SETTLE_IDLE: Duration = Duration::from_secs(30);

const fn requests_row(
    name: &'static str,
    about: &'static str,
    setup: &'static [Fill],
    request: &'static str,
    shape: Shape,
    count: u64,
) -> Row {
    Row { name, about, setup, work: Work::Requests { request, shape, count } }
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
/// The same with sixteen on the way.
const DEEP: Shape = shape(50, 16, 100_000);

/// Every row.
pub(crate) const ROWS: &[Row] = &[
    requests_row("get", "GET, no pipeline", STRINGS, "GET key:#", PLAIN, 100_000),
    requests_row("set", "SET, no pipeline", &[], "SET key:# $64", PLAIN, 100_000),
    requests_row("incr", "INCR, no pipeline", &[], "INCR counter:#", PLAIN, 100_000),
    requests_row("get-512", "GET of 512 bytes, no pipeline", STRINGS_512, "GET key:#", PLAIN, 100_000),
    requests_row("set-512", "SET of 512 bytes, no pipeline", &[], "SET key:# $512", PLAIN, 100_000),
    requests_row(
        "conn-400",
        "GET, 400 connections, no pipeline",
        STRINGS,
        "GET key:#",
        shape(400, 1, 100_000),
        100_000,
    ),
    requests_row("get-p16", "GET, pipeline of 16", STRINGS, "GET key:#", DEEP, 1_000_000),
    requests_row(
        "get-p16-1m",
        "GET among a million keys, pipeline of 16",
        MILLION,
        "GET key:#",
        shape(50, 16, 1_000_000),
        1_000_000,
    ),
    requests_row("set-p16", "SET, pipeline of 16", &[], "SET key:# $64", DEEP, 1_000_000),
    requests_row("incr-p16", "INCR, pipeline of 16", &[], "INCR counter:#", DEEP, 1_000_000),
    requests_row(
        "mget-p16",
        "MGET of ten among a million keys, pipeline of 16",
        MILLION,
        "MGET key:# key:# key:# key:# key:# key:# key:# key:# key:# key:#",
        shape(50, 16, 1_000_000),
        100_000,
    ),
    requests_row(
        "mset-p16",
        "MSET of ten, pipeline of 16",
        &[],
        "MSET key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64 key:# $64",
        DEEP,
        150_000,
    ),
    requests_row("lpush-p16", "LPUSH, pipeline of 16", &[], "LPUSH list $64", DEEP, 1_000_000),
    requests_row("rpop-p16", "RPOP, pipeline of 16", LONG_LIST, "RPOP list", DEEP, 1_000_000),
    requests_row(
        "lrange-100",
        "LRANGE of 100, pipeline of 4",
        LIST,
        "LRANGE list 0 99",
        shape(50, 4, 1),
        50_000,
    ),
    requests_row(
        "lrange-600",
        "LRANGE of 600, pipeline of 4",
        LIST,
        "LRANGE list 0 599",
        shape(50, 4, 1),
        15_000,
    ),
    Row {
        name: "churn",
        about: "a connection that makes one request",
        setup: STRINGS,
        work: Work::Churn { request: "GET key:#", count: 10_000 },
    },
    Row {
        name: "memory-3",
        about: "memory per key, 16-byte key and 3-byte value",
        setup: &[],
        work: Work::Memory { request: "SET key:# $3", count: 1_000_000 },
    },
    Row {
        name: "memory-64",
        about: "memory per key, 16-byte key and 64-byte value",
        setup: &[],
        work: Work::Memory { request: "SET key:# $64", count: 1_000_000 },
    },
    Row {
        name: "memory-128",
        about: "memory per key, 16-byte key and 128-byte value",
        setup: &[],
        work: Work::Memory { request: "SET key:# $128", count: 1_000_000 },
    },
    Row {
        name: "memory-list",
        about: "memory per element of one list, 20 bytes each",
        setup: &[],
        work: Work::Memory { request: "RPUSH list element:#", count: 1_000_000 },
    },
    Row {
        name: "memory-connection",
        about: "memory per idle connection, 30 s after its request, one round",
        setup: &[],
        work: Work::Connections { count: 10_000 },
    },
    Row {
        name: "pause-keys",
        about: "what another client waits: KEYS of a million",
        setup: MILLION,
        work: Work::Pause { request: "KEYS *" },
    },
    Row {
        name: "pause-lrange",
        about: "the same: LRANGE of a million",
        setup: LIST_MILLION,
        work: Work::Pause { request: "LRANGE list 0 -1" },
    },
];
