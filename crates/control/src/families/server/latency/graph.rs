//! A character graph of samples: four rows of three levels, and under each column the sample's
//! age, read downwards.

use sluice_numbers::latency::Series;
use std::fmt::Write;

const ROWS: usize = 4;
/// The characters for the levels within a row. Each cell below the top of its column is `|`.
const LEVELS: [char; 3] = ['_', 'o', '#'];
/// Columns of a line, after which the graph continues below.
const COLUMNS: usize = 80;

/// The graph of an event's samples at `now_s`.
pub(super) fn draw(event: &str, series: &Series, now_s: i64) -> String {
    let high = series.samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
    let low = series.samples.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{event} - high {high} ms, low {low} ms (all time high {} ms)", series.max_ms);
    text.push_str(&"-".repeat(COLUMNS));
    text.push('\n');
    let columns: Vec<(usize, String)> = series
        .samples
        .iter()
        .map(|(time_s, ms)| (level(*ms, low, high), age(now_s.saturating_sub(*time_s))))
        .collect();
    columns.chunks(COLUMNS).for_each(|part| rows(part, &mut text));
    text
}

/// The level of a value, counted over all rows from the bottom.
fn level(ms: u64, low: u64, high: u64) -> usize {
    let steps = ROWS * LEVELS.len();
    if high == low {
        return 0;
    }
    let share = (ms - low) as f64 / (high - low) as f64;
    ((share * steps as f64) as usize).min(steps - 1)
}

fn rows(columns: &[(usize, String)], text: &mut String) {
    for row in (0..ROWS).rev() {
        let cell = |(level, _): &(usize, String)| match level.checked_sub(row * LEVELS.len()) {
            None => ' ',
            Some(within) => LEVELS.get(within).copied().unwrap_or('|'),
        };
        text.extend(columns.iter().map(cell));
        text.push('\n');
    }
    text.push_str(&" ".repeat(columns.len()));
    text.push('\n');
    let deepest = columns.iter().map(|(_, age)| age.len()).max().unwrap_or(0);
    for line in 0..deepest {
        text.extend(
            columns.iter().map(|(_, age)| age.as_bytes().get(line).map_or(' ', |byte| char::from(*byte))),
        );
        text.push('\n');
    }
}

fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[(i64, u64)]) -> Series {
        let max_ms = samples.iter().map(|s| s.1).max().unwrap_or(0);
        Series { samples: samples.iter().copied().collect(), max_ms, sum_ms: 0, count: 0 }
    }

    #[test]
    fn one_sample_lies_at_the_bottom() {
        let text = draw("command", &series(&[(100, 10)]), 100);
        let head = format!("command - high 10 ms, low 10 ms (all time high 10 ms)\n{}\n", "-".repeat(80));
        assert_eq!(text, format!("{head} \n \n \n_\n \n0\ns\n"));
    }

    #[test]
    fn ages_are_read_downwards() {
        let text = draw("e", &series(&[(0, 1), (840, 1)]), 841);
        assert!(text.ends_with("__\n  \n11\n4s\nm \n"), "{text}");
    }
}
