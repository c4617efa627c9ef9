//! LATENCY DOCTOR: the samples explained in words.

use crate::Control;
use sluice_numbers::latency::Series;
use std::fmt::Write;

/// The report, with advice for each event.
pub(super) fn report(control: &Control) -> String {
    let threshold = control.limits.latency_threshold_ms;
    let events = control.latency.iter();
    if threshold == 0 && events.len() == 0 {
        return "The latency monitor is off in this server: CONFIG SET latency-monitor-threshold <milliseconds> \
                turns it on.\n"
            .into();
    }
    if events.len() == 0 {
        return format!("No event took {threshold} ms or longer so far.\n");
    }
    let mut text = format!("Events that took {threshold} ms or longer:\n\n");
    let mut advice: Vec<&str> = Vec::new();
    for (number, (name, series)) in events.enumerate() {
        let (mean, deviation, period_s) = spread(series);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}. {name}: {} latency spikes (average {mean}ms, mean deviation {deviation}ms, period {period_s:.2} sec). \
             Worst all time event {}ms.",
            number + 1,
            series.samples.len(),
            series.max_ms
        );
        for line in advice_on(name, control) {
            if !advice.contains(line) {
                advice.push(line);
            }
        }
    }
    text.push_str("\nWhat may help:\n\n");
    advice.iter().for_each(|line| {
        let _ = writeln!(text, "- {line}");
    });
    text
}

/// Mean and mean deviation in milliseconds, and the mean number of seconds between samples.
fn spread(series: &Series) -> (u64, u64, f64) {
    let count = series.samples.len().max(1) as u64;
    let mean = series.samples.iter().map(|(_, ms)| ms).sum::<u64>() / count;
    let deviation = series.samples.iter().map(|(_, ms)| ms.abs_diff(mean)).sum::<u64>() / count;
    let span = match (series.samples.front(), series.samples.back()) {
        (Some((first, _)), Some((last, _))) => (last - first).max(1),
        _ => 1,
    };
    (mean, deviation, span as f64 / count as f64)
}

fn advice_on(event: &str, control: &Control) -> &'static [&'static str] {
    let slow = control.limits.slow_ns;
    let logs_less = slow < 0 || slow as u64 / 1_000_000 > control.limits.latency_threshold_ms;
    match event {
        "command" if logs_less => &[
            "Slow commands are logged from a higher threshold than this monitor has: lower slowlog-log-slower-than.",
            "SLOWLOG GET names the commands. Large values that are deleted at once can be split, or removed by UNLINK.",
        ],
        "command" => &[
            "SLOWLOG GET names the commands. Large values that are deleted at once can be split, or removed by UNLINK.",
        ],
        "fast-command" => &[
            "Commands that do little took long: the machine is short of processor time, or of memory and swapping.",
        ],
        "expire-cycle" => {
            &["Many keys expire at the same time: spread their times, or lower active-expire-effort."]
        }
        "slow-read" => &[
            "Replies of many elements take long: the values are very large, or the threads that produce replies get no processor.",
        ],
        "slow-read-wait" => &[
            "Reads of many elements wait for a thread: INFO's slow_reads_* count them, the flags p and b in CLIENT LIST show their \
             clients. More slow-read-threads or a higher slow-read-elements let fewer wait.",
        ],
        _ => &["The machine may be short of processor time."],
    }
}
