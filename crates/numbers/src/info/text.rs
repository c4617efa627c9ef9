//! The text of a sample: OpenMetrics 1.0, and the format of Prometheus before it (0.0.4).
//!
//! Invariants: (1) the lines of a family are adjacent, after its `# TYPE`; (2) no two lines of a family
//! have the same labels; (3) in OpenMetrics a counter ends in `_total`. Counters of redis_exporter
//! without that suffix have an unknown type there, because dashboards use their names; (4) the number of
//! series is bounded, whatever clients do: by fields, databases, commands, error codes (`ERROR_CODES_MAX`,
//! and those of the server itself), latency events, replicas, I/O threads, slot migrations and hash slots.

use crate::info::families::{Family, FamilyId, FamilyKind, family};
use crate::info::fields::FieldUnit;
use crate::info::sample::{CommandLatencies, MetricsSample, SampleNumber};
use crate::info::value::Number;
use crate::page::keys::{LargeSlot, SlotLook};
use sluice_base::Histogram;
use std::collections::HashSet;
use std::fmt::Write;

/// A text format of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `text/plain; version=0.0.4`.
    Prometheus,
}

impl MetricsFormat {
    /// The media type for the HTTP header.
    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Numbers about the endpoint itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointNumbers {
    /// Memory limit of the process's control groups, in bytes; 0 means no limit.
    pub memory_limit: u64,
    /// Age of the sample, nanoseconds.
    pub age_ns: u64,
    /// Time that the request waited for the sample, in nanoseconds.
    pub waited_ns: u64,
    /// Number of samples that the main thread has made.
    pub samples: u64,
    /// Number of requests for metrics.
    pub scrapes: u64,
    /// Number of open connections.
    pub connections: u64,
    /// Number of requests refused and connections closed to make room.
    pub refused: u64,
}

impl EndpointNumbers {
    /// The end of a text that begins with [`MetricsSample::text`].
    pub fn text(&self, format: MetricsFormat) -> String {
        let seconds = |ns: u64| Number::Float(ns as f64 / 1e9);
        let mut out = MetricsText { out: String::with_capacity(1024), format };
        for (id, number) in [
            (family::MEMORY_LIMIT, Number::Uint(self.memory_limit)),
            (family::SAMPLE_AGE, seconds(self.age_ns)),
            (family::SAMPLES, Number::Uint(self.samples)),
            (family::SCRAPES, Number::Uint(self.scrapes)),
            (family::SCRAPE_DURATION, seconds(self.waited_ns)),
            (family::ENDPOINT_CONNECTIONS, Number::Uint(self.connections)),
            (family::ENDPOINT_REFUSED, Number::Uint(self.refused)),
        ] {
            let family = id.family();
            out.head(&family);
            out.line(family.name, "", number);
        }
        let family = family::SCRAPE_ERROR.family();
        out.head(&family);
        out.line(family.name, "err=\"\"", Number::Uint(0));
        if format == MetricsFormat::OpenMetrics {
            out.out.push_str("# EOF\n");
        }
        out.out
    }
}

const SLOT_KEYS: Family = Family {
    name: "sluice_slot_keys",
    kind: FamilyKind::Gauge,
    help: "keys of a hash slot, in all databases",
    unit: FieldUnit::Count,
    divisor: 1,
};
const SLOT_MEMORY: Family = Family {
    name: "sluice_slot_memory_bytes",
    kind: FamilyKind::Gauge,
    help: "memory of a hash slot's keys, as MEMORY USAGE answers it",
    unit: FieldUnit::Bytes,
    divisor: 1,
};

const SLOT_LOOK_END: Family = Family {
    name: "sluice_slot_look_end_timestamp_seconds",
    kind: FamilyKind::Gauge,
    help: "when the last look at all keys ended, since the epoch; 0 before the first has",
    unit: FieldUnit::Count,
    divisor: 1,
};

/// The complete text about keys and memory of hash slots, with the time of the scan. Cost: some hundred
/// nanoseconds for each slot.
pub fn slot_sizes_text(look: &SlotLook, format: MetricsFormat) -> String {
    let slots = &look.slots;
    let mut out = MetricsText { out: String::with_capacity(1024 + 80 * slots.len()), format };
    out.head(&SLOT_LOOK_END);
    out.line(SLOT_LOOK_END.name, "", Number::Int(look.ended_s));
    let numbers: [(&Family, fn(&LargeSlot) -> u64); 2] =
        [(&SLOT_KEYS, |slot| slot.keys), (&SLOT_MEMORY, |slot| slot.bytes)];
    for (family, number) in numbers {
        out.head(family);
        for slot in slots.iter() {
            let _ = writeln!(out.out, "{}{{slot=\"{}\"}} {}", family.name, slot.slot, number(slot));
        }
    }
    if format == MetricsFormat::OpenMetrics {
        out.out.push_str("# EOF\n");
    }
    out.out
}

impl MetricsSample {
    /// The text without its end, which [`EndpointNumbers::text`] makes. Cost: some hundred microseconds.
    pub fn text(&self, format: MetricsFormat) -> String {
        let mut out = MetricsText { out: String::with_capacity(64 * 1024), format };
        let labels: Vec<String> = self.labels.iter().map(|labels| shown(labels)).collect();
        let labels_of = |number: &SampleNumber| match number.labels.checked_sub(1) {
            Some(index) => labels[index as usize].as_str(),
            None => "",
        };
        let mut numbers: Vec<&SampleNumber> = self.numbers.iter().collect();
        numbers.sort_by_key(|number| number.family);
        let mut seen: HashSet<&str> = HashSet::new();
        let mut last: Option<FamilyId> = None;
        let mut name = "";
        for number in numbers {
            if last != Some(number.family) {
                let family = number.family.family();
                out.head(&family);
                seen.clear();
                name = family.name;
                last = Some(number.family);
            }
            let labels = labels_of(number);
            // Of numbers with equal labels only the first is written, because two replicas may have the same
            // address, and two error codes may be rendered alike.
            if seen.insert(labels) {
                out.line(name, labels, number.number);
            }
        }
        if !self.latencies.is_empty() {
            out.latencies(&self.latencies);
        }
        out.out
    }
}

/// A text under construction.
struct MetricsText {
    out: String,
    format: MetricsFormat,
}

impl MetricsText {
    /// The `# HELP` and `# TYPE` lines before a family's samples, and in OpenMetrics a `# UNIT` line if the
    /// name ends in the unit.
    fn head(&mut self, family: &Family) {
        let (name, kind) = self.declared(family);
        self.head_of(name, kind, family);
    }

    fn head_of(&mut self, name: &str, kind: &str, family: &Family) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "# HELP {name} {}\n# TYPE {name} {kind}\n", family.help);
        let unit = match family.unit {
            FieldUnit::Bytes => "bytes",
            FieldUnit::Seconds => "seconds",
            _ => return,
        };
        let is_named = name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
        if self.format == MetricsFormat::OpenMetrics && is_named {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
    }

    /// The name and the type in the `# TYPE` line.
    fn declared(&self, family: &Family) -> (&'static str, &'static str) {
        let name = family.name;
        match (self.format, family.kind) {
            (MetricsFormat::OpenMetrics, FamilyKind::Counter) => match name.strip_suffix("_total") {
                Some(name) => (name, "counter"),
                None => (name, "unknown"),
            },
            (MetricsFormat::OpenMetrics, FamilyKind::Info) => {
                (name.strip_suffix("_info").unwrap_or(name), "info")
            }
            (MetricsFormat::Prometheus, FamilyKind::Counter) => (name, "counter"),
            (_, FamilyKind::Gauge) | (MetricsFormat::Prometheus, FamilyKind::Info) => (name, "gauge"),
        }
    }

    fn line(&mut self, name: &str, labels: &str, number: Number) {
        let _ = match labels {
            "" => writeln!(self.out, "{name} {number}"),
            labels => writeln!(self.out, "{name}{{{labels}}} {number}"),
        };
    }

    fn latencies(&mut self, all: &[CommandLatencies]) {
        let histogram = family::LATENCIES.family();
        self.head_of(histogram.name, "histogram", &histogram);
        for one in all {
            self.histogram(histogram.name, one);
        }
        let family = family::PERCENTILES.family();
        if all.iter().any(|one| !one.percentiles.is_empty()) {
            self.head(&family);
        }
        for one in all {
            for (percent, us) in &one.percentiles {
                let labels = format!("cmd=\"{}\",quantile=\"{percent}\"", one.command);
                self.line(family.name, &labels, Number::Float(*us));
            }
        }
        let sum = |one: &CommandLatencies| one.sum_us;
        let count = |one: &CommandLatencies| one.count;
        self.each(all, family::PERCENTILES_SUM, sum);
        self.each(all, family::PERCENTILES_COUNT, count);
    }

    fn each(&mut self, all: &[CommandLatencies], id: FamilyId, number: impl Fn(&CommandLatencies) -> u64) {
        let family = id.family();
        self.head(&family);
        for one in all {
            self.line(family.name, &format!("cmd=\"{}\"", one.command), Number::Uint(number(one)));
        }
    }

    /// Writes the histogram of a command, in microseconds. Bucket bounds are the last nanosecond below a
    /// power of two, from 1,024 ns on, and infinity.
    fn histogram(&mut self, name: &str, one: &CommandLatencies) {
        let command = one.command;
        let mut below = 0;
        for (power, count) in one.by_power.iter().enumerate() {
            below += count;
            let bound_ns = Histogram::power_ends_at(power);
            if bound_ns >= 1023 {
                let bound_us = bound_ns as f64 / 1000.0;
                let _ = writeln!(self.out, "{name}_bucket{{cmd=\"{command}\",le=\"{bound_us}\"}} {below}");
            }
        }
        let CommandLatencies { count, sum_us, .. } = one;
        let _ = write!(
            self.out,
            "{name}_bucket{{cmd=\"{command}\",le=\"+Inf\"}} {count}\n{name}_count{{cmd=\"{command}\"}} {count}\n\
             {name}_sum{{cmd=\"{command}\"}} {sum_us}\n"
        );
    }
}

/// Labels in the form that appears between braces, with escapes.
fn shown(labels: &[(&'static str, Box<str>)]) -> String {
    let mut out = String::new();
    for (at, (name, value)) in labels.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                letter => out.push(letter),
            }
        }
        out.push('"');
    }
    out
}
