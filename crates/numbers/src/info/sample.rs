//! A sample: every number of the server at one moment, for the metrics endpoint. The main thread makes it,
//! and another thread makes text of it.

use super::fields::field;
use crate::facts::ProcessNumbers;
use crate::info::families::{FamilyId, family};
use crate::info::fields::FieldId;
use crate::info::sink::Sink;
use crate::info::value::{FieldValue, Number, difference, ratio};
use sluice_base::Histogram;
use std::fmt::Display;

/// Commands whose durations are shown as histograms and percentiles: those with most calls. The others are
/// counted and timed alone.
pub const LATENCIES_MAX: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct MetricsSample {
    pub(super) numbers: Vec<SampleNumber>,
    /// Each list of labels, of one number or several.
    pub(super) labels: Vec<Vec<(&'static str, Box<str>)>>,
    /// Durations of the commands that ran.
    pub latencies: Vec<CommandLatencies>,
    /// Whether the server should be sent clients.
    pub health: Health,
}

/// A number of a family.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleNumber {
    pub family: FamilyId,
    /// A position in the lists of labels, behind 0 for none.
    pub labels: u32,
    pub number: Number,
}

/// Durations of a command.
#[derive(Debug)]
pub struct CommandLatencies {
    /// Name of the command.
    pub command: &'static str,
    /// How many there were.
    pub count: u64,
    /// Sum of the durations, microseconds.
    pub sum_us: u64,
    /// How many there were by power of two, as [`Histogram::by_power_of_two`] has them.
    pub by_power: [u64; Histogram::POWERS],
    /// Percentiles and their microseconds.
    pub percentiles: Vec<(f64, f64)>,
}

/// Whether the server should be sent clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    #[default]
    Fine,
    /// It loads its data.
    Loading,
    /// It is a replica without a link to its primary.
    LinkDown,
    /// It refuses writes, because the append-only file cannot be written.
    AofFailed,
}

impl Health {
    /// The state in a word or some.
    pub fn text(self) -> &'static str {
        match self {
            Health::Fine => "ok",
            Health::Loading => "loading",
            Health::LinkDown => "the link to the primary is down",
            Health::AofFailed => "the append-only file cannot be written",
        }
    }
}

/// A sample that is made: where the sections write their fields.
#[derive(Default)]
pub struct Sampler {
    /// What has been written so far.
    pub sample: MetricsSample,
    /// The labels of [`Sink::set_labels`], as [`SampleNumber::labels`].
    current: u32,
}

/// What a sample of a server takes at the start, about.
const NUMBERS: usize = 512;

impl Sampler {
    /// An empty sample, with room for the numbers of a server at its start.
    pub fn new() -> Sampler {
        let mut sampler = Sampler::default();
        sampler.sample.numbers.reserve(NUMBERS);
        sampler
    }

    /// Keeps labels, for [`Sampler::number`].
    pub fn keep_labels(&mut self, labels: Vec<(&'static str, Box<str>)>) -> u32 {
        if labels.is_empty() {
            return 0;
        }
        self.sample.labels.push(labels);
        self.sample.labels.len() as u32
    }

    /// A number that no field of INFO has.
    pub fn number(&mut self, family: FamilyId, labels: u32, number: Number) {
        let number = number.over(family.family().divisor);
        self.sample.numbers.push(SampleNumber { family, labels, number });
    }

    /// A family whose labels are what is told.
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
    /// Every number: its family, its labels, itself.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (FamilyId, &[(&'static str, Box<str>)], Number)> {
        self.numbers.iter().map(|number| {
            let labels = number.labels.checked_sub(1).map(|index| self.labels[index as usize].as_slice());
            (number.family, labels.unwrap_or_default(), number.number)
        })
    }

    /// Durations, command by command.
    pub(crate) fn latencies(&self) -> &[CommandLatencies] {
        &self.latencies
    }

    /// Puts in what the thread that has the sample has read of the process: the main thread need not read it
    /// (`Process::sample_facts` of the engine). What follows from it follows anew.
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

    /// Notes how long the main thread took for it, nanoseconds.
    pub fn took(&mut self, ns: u64) {
        let number = Number::Uint(ns).over(family::SAMPLE_DURATION.family().divisor);
        self.numbers.push(SampleNumber { family: family::SAMPLE_DURATION, labels: 0, number });
    }
}
