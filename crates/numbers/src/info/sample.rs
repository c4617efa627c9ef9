//! A sample: every number of the server at one moment, for the metrics endpoint. The main thread makes
//! the sample, and another thread renders it.

use super::fields::field;
use crate::facts::ProcessNumbers;
use crate::info::families::{FamilyId, family};
use crate::info::fields::FieldId;
use crate::info::sink::Sink;
use crate::info::value::{FieldValue, Number, difference, ratio};
use sluice_base::Histogram;
use std::fmt::Display;

/// A sample has histograms and percentiles of durations for at most this many commands, which are the ones
/// with the most calls. For the other commands only calls and total time are shown.
pub const LATENCIES_MAX: usize = 64;

/// All numbers of the server at one moment.
#[derive(Debug, Default)]
pub struct MetricsSample {
    pub(super) numbers: Vec<SampleNumber>,
    /// Lists of labels, each used by one number or several.
    pub(super) labels: Vec<Vec<(&'static str, Box<str>)>>,
    /// Durations for each of at most [`LATENCIES_MAX`] commands that have run; empty while `latency-tracking`
    /// is off.
    pub latencies: Vec<CommandLatencies>,
    /// Whether clients should be sent to this server.
    pub health: Health,
}

/// One number with its family and labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleNumber {
    pub family: FamilyId,
    /// Index in the lists of labels plus 1; 0 for no labels.
    pub labels: u32,
    pub number: Number,
}

/// Durations of one command.
#[derive(Debug)]
pub struct CommandLatencies {
    /// Full name of the command.
    pub command: &'static str,
    /// Number of durations in the command's histogram.
    pub count: u64,
    /// Time spent in all executions of the command, in microseconds.
    pub sum_us: u64,
    /// Number of durations for each power of two, as in [`Histogram::by_power_of_two`].
    pub by_power: [u64; Histogram::POWERS],
    /// Percentiles, in percent, with their durations in microseconds.
    pub percentiles: Vec<(f64, f64)>,
}

/// Whether clients should be sent to this server, and why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// The server serves clients: none of the other states applies.
    #[default]
    Fine,
    /// The server is loading data, and does not serve the old data while it does so.
    Loading,
    /// The server is a replica whose link to its primary is not up.
    LinkDown,
    /// Writes are refused because the append-only file cannot be written.
    AofFailed,
}

impl Health {
    /// The state in one or more words.
    pub fn text(self) -> &'static str {
        match self {
            Health::Fine => "ok",
            Health::Loading => "loading",
            Health::LinkDown => "the link to the primary is down",
            Health::AofFailed => "the append-only file cannot be written",
        }
    }
}

/// A sample under construction, to which sections write their fields.
#[derive(Default)]
pub struct Sampler {
    /// The numbers written so far.
    pub sample: MetricsSample,
    /// Labels for the numbers that follow, set by [`Sink::set_labels`]; an index as [`SampleNumber::labels`].
    current: u32,
}

/// Approximate count of numbers of a newly started server.
const NUMBERS: usize = 512;

impl Sampler {
    /// An empty sample, with room for the numbers of a newly started server.
    pub fn new() -> Sampler {
        let mut sampler = Sampler::default();
        sampler.sample.numbers.reserve(NUMBERS);
        sampler
    }

    /// Stores labels and returns their index for [`Sampler::number`].
    pub fn keep_labels(&mut self, labels: Vec<(&'static str, Box<str>)>) -> u32 {
        if labels.is_empty() {
            return 0;
        }
        self.sample.labels.push(labels);
        self.sample.labels.len() as u32
    }

    /// Adds a number that no field of INFO has. `labels` is a result of [`Sampler::keep_labels`].
    pub fn number(&mut self, family: FamilyId, labels: u32, number: Number) {
        let number = number.over(family.family().divisor);
        self.sample.numbers.push(SampleNumber { family, labels, number });
    }

    /// Adds the number 1 with labels that are the information.
    pub fn info(&mut self, family: FamilyId, labels: &[(&'static str, &str)]) {
        let labels = self.keep_labels(labels.iter().map(|(name, value)| (*name, (*value).into())).collect());
        self.number(family, labels, Number::Uint(1));
    }
}

impl Sink for Sampler {
    fn put(&mut self, field: FieldId, star: Option<&dyn Display>, value: FieldValue<'_>) {
        let row = field.row();
        if let FieldValue::Parts(parts) = value {
            if parts.iter().all(|part| part.family.is_none()) {
                return;
            }
            let of_star =
                star.filter(|_| !row.label.is_empty() && parts.iter().all(|part| part.label.is_none()));
            let of_star = of_star.map(|star| (row.label, star.to_string().into_boxed_str()));
            let of_parts = parts.iter().filter_map(|part| Some((part.label?, part.value.text().into())));
            let labels = self.keep_labels(of_star.into_iter().chain(of_parts).collect());
            for part in parts {
                if let (Some(family), Some(number)) = (part.family, part.value.number()) {
                    self.number(family, labels, number);
                }
            }
            return;
        }
        let Some(number) = value.number().filter(|_| !row.metric.is_empty()) else { return };
        let labels = match star {
            Some(star) => self.keep_labels(vec![(row.label, star.to_string().into())]),
            None => self.current,
        };
        self.sample.numbers.push(SampleNumber {
            family: field.into(),
            labels,
            number: number.over(row.divisor),
        });
    }

    fn set_labels(&mut self, labels: &[(&'static str, &str)]) {
        self.current =
            self.keep_labels(labels.iter().map(|(name, value)| (*name, (*value).into())).collect());
    }
}

impl MetricsSample {
    /// Every number with its family and labels.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (FamilyId, &[(&'static str, Box<str>)], Number)> {
        self.numbers.iter().map(|number| {
            let labels = number.labels.checked_sub(1).map(|index| self.labels[index as usize].as_slice());
            (number.family, labels.unwrap_or_default(), number.number)
        })
    }

    /// Durations of commands, one element for each command.
    pub(crate) fn latencies(&self) -> &[CommandLatencies] {
        &self.latencies
    }

    /// Replaces the numbers about the process. They are read by the thread that has the sample, so that the
    /// main thread need not read them (`Process::sample_facts` of the engine). Ratios and differences of
    /// these numbers are recomputed.
    pub fn set_process_numbers(&mut self, read: ProcessNumbers) {
        let ProcessNumbers { resident, sys, user, sys_children, user_children } = read;
        let bytes = |id: FieldId| match self.numbers.iter().find(|number| number.family == id.into()) {
            Some(SampleNumber { number: Number::Uint(bytes), .. }) => *bytes,
            Some(_) | None => 0,
        };
        let (used, allocator) = (bytes(field::USED_MEMORY), bytes(field::ALLOCATOR_RESIDENT));
        let rss = resident as u64;
        let seconds = |us: u64| Number::Float(us as f64 / 1e6);
        for (id, value) in [
            (field::USED_MEMORY_RSS, Number::Uint(rss)),
            (field::RSS_OVERHEAD_RATIO, Number::Float(ratio(rss, allocator))),
            (field::RSS_OVERHEAD_BYTES, Number::Int(difference(rss, allocator))),
            (field::MEM_FRAGMENTATION_RATIO, Number::Float(ratio(rss, used))),
            (field::MEM_FRAGMENTATION_BYTES, Number::Int(difference(rss, used))),
            (field::USED_CPU_SYS, seconds(sys)),
            (field::USED_CPU_USER, seconds(user)),
            (field::USED_CPU_SYS_CHILDREN, seconds(sys_children)),
            (field::USED_CPU_USER_CHILDREN, seconds(user_children)),
        ] {
            let number = self.numbers.iter_mut().find(|number| number.family == id.into());
            number.into_iter().for_each(|number| number.number = value);
        }
    }

    /// Adds the time that the main thread took to make the sample, in nanoseconds.
    pub fn took(&mut self, ns: u64) {
        let number = Number::Uint(ns).over(family::SAMPLE_DURATION.family().divisor);
        self.numbers.push(SampleNumber { family: family::SAMPLE_DURATION, labels: 0, number });
    }
}
