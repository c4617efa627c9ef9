//! The time series on the metrics endpoint's web page: rates between two samples, and numbers of single
//! samples.
//!
//! Percentiles of durations cover the commands between two samples, as far as the samples have histograms of
//! them. They are computed from counts by power of two; within a power, durations are assumed to be spread
//! evenly on a logarithmic scale. So a percentile above 64 ns is wrong by a factor of two at most, mostly by
//! far less. Durations above a second count as a second.

use crate::info::families::{FamilyId, family};
use crate::info::fields::field;
use crate::info::sample::MetricsSample;
use crate::info::value::Number;
use serde_json::{Value, json};
use sluice_base::Histogram;

/// The way in which several numbers become one.
#[derive(Clone, Copy)]
enum SeriesKind {
    /// The sum over labels.
    Sum,
    /// The largest number over all labels.
    Max,
    /// The growth of the sum per second.
    Rate,
}

/// The drawn series: a name, the way to combine, and the families of the numbers.
const SERIES: &[(&str, SeriesKind, &[FamilyId])] = &[
    ("commands", SeriesKind::Rate, &[FamilyId::of(field::TOTAL_COMMANDS_PROCESSED)]),
    ("errors", SeriesKind::Rate, &[FamilyId::of(field::TOTAL_ERROR_REPLIES)]),
    ("input", SeriesKind::Rate, &[FamilyId::of(field::TOTAL_NET_INPUT_BYTES)]),
    ("output", SeriesKind::Rate, &[FamilyId::of(field::TOTAL_NET_OUTPUT_BYTES)]),
    ("hits", SeriesKind::Rate, &[FamilyId::of(field::KEYSPACE_HITS)]),
    ("misses", SeriesKind::Rate, &[FamilyId::of(field::KEYSPACE_MISSES)]),
    ("expired", SeriesKind::Rate, &[FamilyId::of(field::EXPIRED_KEYS)]),
    ("evicted", SeriesKind::Rate, &[FamilyId::of(field::EVICTED_KEYS)]),
    ("cpu", SeriesKind::Rate, &[FamilyId::of(field::USED_CPU_SYS), FamilyId::of(field::USED_CPU_USER)]),
    ("main_thread", SeriesKind::Rate, &[FamilyId::of(field::USED_ACTIVE_TIME_MAIN_THREAD)]),
    ("used_memory", SeriesKind::Sum, &[FamilyId::of(field::USED_MEMORY)]),
    ("resident_memory", SeriesKind::Sum, &[FamilyId::of(field::USED_MEMORY_RSS)]),
    ("clients", SeriesKind::Sum, &[FamilyId::of(field::CONNECTED_CLIENTS)]),
    ("blocked_clients", SeriesKind::Sum, &[FamilyId::of(field::BLOCKED_CLIENTS)]),
    ("keys", SeriesKind::Sum, &[family::DB_KEYS]),
    ("replica_lag", SeriesKind::Max, &[family::CONNECTED_SLAVE_LAG]),
];

/// The drawn percentiles, with their names.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("p999", 99.9)];

/// The numbers of one sample that are drawn.
#[derive(Clone, Debug)]
pub struct HistoryTotals {
    /// Time of the sample, in ns of the monotonic clock.
    at_ns: u64,
    numbers: [f64; SERIES.len()],
    /// Number of durations by power of two, of all commands that have a histogram in the sample.
    by_power: [u64; Histogram::POWERS],
}

impl HistoryTotals {
    /// Extracts the drawn numbers from `sample`, made at `at_ns` of the monotonic clock.
    pub fn new(sample: &MetricsSample, at_ns: u64) -> HistoryTotals {
        let mut numbers = [0.0; SERIES.len()];
        for (id, _, number) in sample.numbers() {
            for ((_, fold, families), folded) in SERIES.iter().zip(&mut numbers) {
                if families.contains(&id) {
                    *folded = match fold {
                        SeriesKind::Sum | SeriesKind::Rate => *folded + as_f64(number),
                        SeriesKind::Max => as_f64(number).max(*folded),
                    };
                }
            }
        }
        let mut by_power = [0u64; Histogram::POWERS];
        for one in sample.latencies() {
            by_power.iter_mut().zip(&one.by_power).for_each(|(sum, count)| *sum += count);
        }
        HistoryTotals { at_ns, numbers, by_power }
    }
}

/// The values of all series at one moment.
#[derive(Clone, Debug)]
pub struct ChartPoint {
    /// Number of the point; later points have greater numbers.
    pub id: u64,
    /// Time of the point, in ms since the epoch.
    pub unix_ms: i64,
    numbers: [Option<f64>; SERIES.len()],
    percentiles_us: Option<[f64; PERCENTILES.len()]>,
}

impl ChartPoint {
    /// The point for `totals`. Rates and percentiles cover the time since `before`. They are missing if
    /// `before` is `None`, rates also if no time has passed, and percentiles also if no command has been
    /// measured.
    pub fn new(id: u64, unix_ms: i64, totals: &HistoryTotals, before: Option<&HistoryTotals>) -> ChartPoint {
        let seconds = before.map(|before| totals.at_ns.saturating_sub(before.at_ns) as f64 / 1e9);
        let numbers = std::array::from_fn(|index| match SERIES[index].1 {
            SeriesKind::Sum | SeriesKind::Max => Some(totals.numbers[index]),
            SeriesKind::Rate => {
                let (before, seconds) = (before?, seconds.filter(|seconds| *seconds > 0.0)?);
                Some(grown(totals.numbers[index], before.numbers[index]) / seconds)
            }
        });
        let grown: Option<[u64; Histogram::POWERS]> =
            before.map(|before| std::array::from_fn(|i| new_counts(totals.by_power[i], before.by_power[i])));
        let percentiles_us = grown.as_ref().and_then(percentiles);
        ChartPoint { id, unix_ms, numbers, percentiles_us }
    }

    fn row(&self) -> Value {
        let percentiles = (0..PERCENTILES.len()).map(|i| json!(self.percentiles_us.map(|all| all[i])));
        let numbers = self.numbers.iter().map(|number| json!(number));
        [json!(self.id), json!(self.unix_ms)].into_iter().chain(numbers).chain(percentiles).collect()
    }
}

/// Points as JSON: the id of their history, the names of the columns, and the rows.
pub fn history_json<'a>(of: i64, points: impl Iterator<Item = &'a ChartPoint>) -> String {
    let names = SERIES.iter().map(|(name, ..)| *name).chain(PERCENTILES.iter().map(|(name, _)| *name));
    let columns: Vec<&str> = ["id", "at"].into_iter().chain(names).collect();
    let points: Vec<Value> = points.map(ChartPoint::row).collect();
    json!({ "of": of, "columns": columns, "points": points }).to_string()
}

/// Growth of a counter. If the number is smaller than before, CONFIG RESETSTAT ran in between, and the
/// counter has grown from zero.
fn grown(now: f64, before: f64) -> f64 {
    if now >= before { now - before } else { now }
}

fn new_counts(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn percentiles(counts: &[u64; Histogram::POWERS]) -> Option<[f64; PERCENTILES.len()]> {
    let total: u64 = counts.iter().sum();
    (total > 0).then(|| PERCENTILES.map(|(_, percent)| percentile_us(counts, total, percent)))
}

/// The duration at a percentile, in microseconds, by the method that the head of this file describes; 0 for
/// no counts.
fn percentile_us(counts: &[u64; Histogram::POWERS], total: u64, percent: f64) -> f64 {
    let wanted = (percent / 100.0 * total as f64).ceil().max(1.0);
    let mut seen = 0.0;
    for (power, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = *count as f64;
        if seen + count >= wanted {
            let ends_at = (Histogram::power_ends_at(power) + 1) as f64;
            let share = (wanted - seen) / count;
            // The first power covers all durations below 64 ns.
            let begins_at = if power == 0 { 1.0 } else { ends_at / 2.0 };
            return begins_at * (ends_at / begins_at).powf(share) / 1000.0;
        }
        seen += count;
    }
    0.0
}

fn as_f64(number: Number) -> f64 {
    match number {
        Number::Uint(number) => number as f64,
        Number::Int(number) => number as f64,
        Number::Float(number) => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(at_s: u64, commands: f64, counts: &[(usize, u64)]) -> HistoryTotals {
        let mut totals = HistoryTotals {
            at_ns: at_s * 1_000_000_000,
            numbers: [0.0; SERIES.len()],
            by_power: [0; Histogram::POWERS],
        };
        totals.numbers[0] = commands;
        counts.iter().for_each(|(power, count)| totals.by_power[*power] = *count);
        totals
    }

    #[test]
    fn a_rate_is_what_was_added_in_a_second() {
        let before = totals(10, 100.0, &[]);
        assert_eq!(ChartPoint::new(1, 0, &before, None).numbers[0], None);
        assert_eq!(ChartPoint::new(2, 0, &totals(15, 600.0, &[]), Some(&before)).numbers[0], Some(100.0));
        // Two samples of the same moment give no rate.
        assert_eq!(ChartPoint::new(2, 0, &totals(10, 600.0, &[]), Some(&before)).numbers[0], None);
        // CONFIG RESETSTAT ran between the samples.
        assert_eq!(ChartPoint::new(2, 0, &totals(15, 50.0, &[]), Some(&before)).numbers[0], Some(10.0));
    }

    #[test]
    fn percentiles_are_those_of_the_commands_in_between() {
        let before = totals(10, 0.0, &[(3, 1_000_000)]);
        // Without commands in between there is no percentile, rather than 0.
        assert!(
            ChartPoint::new(1, 0, &totals(15, 0.0, &[(3, 1_000_000)]), Some(&before))
                .percentiles_us
                .is_none()
        );
        let after = totals(15, 0.0, &[(3, 1_000_000), (6, 990), (12, 10)]);
        let found = ChartPoint::new(1, 0, &after, Some(&before)).percentiles_us.unwrap();
        let bounds = |power: usize| {
            let end = (Histogram::power_ends_at(power) + 1) as f64 / 1000.0;
            (end / 2.0)..=end
        };
        assert!(bounds(6).contains(&found[0]), "{found:?}");
        assert!(bounds(6).contains(&found[1]), "{found:?}");
        assert!(bounds(12).contains(&found[2]), "{found:?}");
    }

    #[test]
    fn json_has_as_many_columns_as_a_row() {
        let point = ChartPoint::new(7, 8, &totals(1, 2.0, &[]), None);
        let parsed: Value = serde_json::from_str(&history_json(5, [point].iter())).unwrap();
        let columns = parsed["columns"].as_array().unwrap().len();
        assert_eq!(parsed["points"][0].as_array().unwrap().len(), columns);
        assert_eq!(parsed["points"][0][0], 7);
    }
}
