//! The measurement of a row: the server's work, and the figures for it.

use std::time::Duration;

use sluice_base::Rng;

use super::load::{self, Idle, Load, Shape, Template, Writer};
use super::process::{self, Time};
use super::rows::{Fill, PHASES, Row, Work};
use crate::error::Result;
use crate::server::Server;

/// The figures of one measurement for one line.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    /// Cost in the line's unit; less is better.
    pub(crate) cost: f64,
    /// Requests a second; NaN for a line without a rate.
    pub(crate) rate: f64,
}

impl Figures {
    /// The figures of a line without a rate.
    fn cost(cost: f64) -> Figures {
        Figures { cost, rate: f64::NAN }
    }
}

/// Fills a fresh server and measures it. Returns the figures of the row's lines.
pub(crate) fn run(row: &Row, server: &Server, scale: f64) -> Result<Vec<Figures>> {
    let scaled = |count: u64| ((count as f64 * scale) as u64).max(1000);
    for Fill { request, count, consumed } in row.setup {
        let count = if *consumed { scaled(*count) } else { *count };
        load::fill(server.port, &Template::new(request), count)?;
    }
    let one = |cost: f64| Ok(vec![Figures::cost(cost)]);
    match row.work {
        Work::Requests { request, shape, count } => {
            let load = Load::open(server.port, shape)?;
            Ok(vec![requests(server, load, request, scaled(count))?.whole()])
        }
        Work::Threads { request, shape, count } => threads(server, request, shape, scaled(count)),
        Work::Publish { request, shape, subscribers, count } => {
            let mut load = Load::open(server.port, shape)?;
            load.subscribe(server.port, &Template::new("SUBSCRIBE channel"), subscribers)?;
            Ok(vec![requests(server, load, request, scaled(count))?.whole()])
        }
        Work::Latency { request, shape, probes } => {
            let load = Load::open(server.port, shape)?;
            let mut waits = load::probe(server.port, load, &Template::new(request), probes)?;
            one(percentile(&mut waits, 0.99) * 1e6)
        }
        Work::Churn { request, count } => {
            let (template, count) = (Template::new(request), scaled(count));
            let before = Time::of(server.pid())?;
            load::churn(server.port, &template, count)?;
            one(Time::of(server.pid())?.since(before) / count as f64 * 1e6)
        }
        Work::Memory { request, count } => {
            let before = process::memory(server.pid())?;
            let count = scaled(count);
            load::fill(server.port, &Template::new(request), count)?;
            std::thread::sleep(SETTLE);
            one((process::memory(server.pid())? - before) / count as f64)
        }
        Work::Connections { count } => {
            let count = count.min(process::open_files_max().saturating_sub(100));
            let before = process::memory(server.pid())?;
            let idle = Idle::open(server.port, count)?;
            std::thread::sleep(SETTLE_IDLE);
            let cost = (process::memory(server.pid())? - before) / count as f64;
            drop(idle);
            one(cost)
        }
        Work::Fragment { keys } => fragment(server, scaled(keys)),
        Work::Pause { request } => one(load::wait_behind(server.port, &Template::new(request))? * 1e3),
        Work::Growth { request, count } => {
            let waits = load::waits_beside_fill(server.port, &Template::new(request), scaled(count))?;
            one(waits.into_iter().fold(0.0, f64::max) * 1e3)
        }
    }
}

/// The cost of a load.
struct Spent {
    requests: u64,
    /// Seconds of wall-clock time.
    seconds: f64,
    /// Seconds of processor time of the process.
    all: f64,
    main: f64,
}

impl Spent {
    /// Processor time of the whole process per request, and the rate.
    fn whole(&self) -> Figures {
        let requests = self.requests as f64;
        Figures { cost: self.all / requests * 1e6, rate: requests / self.seconds }
    }
}

/// Makes `count` requests, after a warm-up with a twentieth of that number; the warm-up is not counted.
fn requests(server: &Server, mut load: Load, request: &str, count: u64) -> Result<Spent> {
    let template = Template::new(request);
    load.run(&template, count / 20)?;
    let (before, main) = (Time::of(server.pid())?, process::main_thread(server.pid())?);
    let (requests, seconds) = load.run(&template, count)?;
    let all = Time::of(server.pid())?.since(before);
    if all <= 0.0 {
        return Err("the kernel counted no processor time for the server".into());
    }
    Ok(Spent { requests, seconds, all, main: process::main_thread(server.pid())? - main })
}

/// The figures of the three lines of a row about a server with I/O threads.
fn threads(server: &Server, request: &str, shape: Shape, count: u64) -> Result<Vec<Figures>> {
    let spent = requests(server, Load::open(server.port, shape)?, request, count)?;
    let before = Time::of(server.pid())?;
    std::thread::sleep(REST);
    let rest = Time::of(server.pid())?.since(before) / REST.as_secs_f64();
    let main = Figures::cost(spent.main / spent.requests as f64 * 1e6);
    Ok(vec![main, spent.whole(), Figures::cost(rest * 100.0)])
}

/// The figures of a row about fragmentation, one for each of [`PHASES`].
fn fragment(server: &Server, keys: u64) -> Result<Vec<Figures>> {
    let mut keyspace = RandomKeyspace::open(server.port)?;
    let before = process::memory(server.pid())?;
    let mut figures = Vec::new();
    for phase in 0..PHASES.len() {
        match phase {
            0 => keyspace.add(keys, 64)?,
            2 => keyspace.add(keys / 3, 200)?,
            3 => {
                for larger in 0..4 {
                    keyspace.overwrite(8 << larger, 60 << larger)?;
                }
            }
            4 => {
                for smaller in 0..4 {
                    keyspace.overwrite(400 >> smaller, 800 >> smaller)?;
                }
            }
            _ => keyspace.delete_nine_of_ten()?,
        }
        keyspace.writer.finish()?;
        std::thread::sleep(SETTLE_FRAGMENT);
        let resident = process::memory(server.pid())? - before;
        figures.push(Figures::cost(resident / keyspace.stored() as f64));
    }
    Ok(figures)
}

/// Keys with values of random lengths, the same for every server.
struct RandomKeyspace {
    writer: Writer,
    rng: Rng,
    /// Bytes of each key's value; `None` for a key that was deleted.
    lengths: Vec<Option<usize>>,
}

impl RandomKeyspace {
    fn open(port: u16) -> Result<RandomKeyspace> {
        Ok(RandomKeyspace { writer: Writer::open(port)?, rng: Rng::new(7), lengths: Vec::new() })
    }

    /// Bytes of all keys and values.
    fn stored(&self) -> usize {
        self.lengths.iter().flatten().map(|length| length + key(0).len()).sum()
    }

    fn add(&mut self, count: u64, length: usize) -> Result<()> {
        for _ in 0..count {
            let key = key(self.lengths.len());
            self.writer.push(&[b"SET", key.as_bytes(), &vec![b'v'; length]])?;
            self.lengths.push(Some(length));
        }
        Ok(())
    }

    /// Gives every key that was not deleted a value of `least` to `most` bytes.
    fn overwrite(&mut self, least: u64, most: u64) -> Result<()> {
        for (index, length) in self.lengths.iter_mut().enumerate() {
            let Some(length) = length else { continue };
            *length = (least + self.rng.below(most - least + 1)) as usize;
            self.writer.push(&[b"SET", key(index).as_bytes(), &vec![b'v'; *length]])?;
        }
        Ok(())
    }

    fn delete_nine_of_ten(&mut self) -> Result<()> {
        for (index, length) in self.lengths.iter_mut().enumerate() {
            if length.is_some() && self.rng.below(10) != 0 {
                *length = None;
                self.writer.push(&[b"DEL", key(index).as_bytes()])?;
            }
        }
        Ok(())
    }
}

/// A key of 16 bytes.
fn key(index: usize) -> String {
    format!("key:{index:012}")
}

/// The percentile `share`, from 0 to 1: the least of the numbers such that at least this share of them is not
/// greater. There must be at least one number.
fn percentile(numbers: &mut [f64], share: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let rank = (numbers.len() as f64 * share).ceil() as usize;
    numbers[rank.clamp(1, numbers.len()) - 1]
}

/// Time for memory to settle, because servers return pages about once a second.
const SETTLE: Duration = Duration::from_millis(1500);

/// Pause after each phase, because servers tidy up step by step after deletions and overwriting.
const SETTLE_FRAGMENT: Duration = Duration::from_secs(5);

/// Pause with idle connections. The reference frees their buffers after some seconds, and its allocator frees
/// the pages ten seconds later.
const SETTLE_IDLE: Duration = Duration::from_secs(30);

/// Time for which a resting server's use of the processor is counted.
const REST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn a_percentile_is_the_least_number_that_the_share_does_not_exceed() {
        let mut numbers: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut numbers, 0.99), 198.0);
        assert_eq!(percentile(&mut numbers, 1.0), 200.0);
        assert_eq!(percentile(&mut [5.0], 0.99), 5.0);
    }
}
