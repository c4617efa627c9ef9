//! Progress of long work: numbers computed from the amount done, the total and the time spent, and their
//! text for a log and for one line of a terminal.
//!
//! Invariants: (1) time is an argument; (2) no number panics or overflows, whatever files and peers claim,
//! and a total that is too low counts as reached; (3) text for a terminal has no control character except
//! those that [`TerminalLine`] inserts.

use std::fmt;

/// Progress of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkProgress {
    /// The amount done so far, in `unit`s.
    pub done: u64,
    /// The whole amount, in `unit`s; `None` where it is unknown.
    pub total: Option<u64>,
    /// The unit of both amounts.
    pub unit: ProgressUnit,
    /// Time since the work began, nanoseconds.
    pub spent_ns: u64,
}

/// The unit in which progress is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressUnit {
    /// Bytes of a file or of a transfer.
    Bytes,
    /// Keys of the keyspace.
    Keys,
    /// Milliseconds of a wait that has a known end.
    Milliseconds,
}

impl ProgressUnit {
    /// Name of the unit, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            ProgressUnit::Bytes => "bytes",
            ProgressUnit::Keys => "keys",
            ProgressUnit::Milliseconds => "milliseconds",
        }
    }
}

impl WorkProgress {
    /// The amount done in percent, 0 to 100; `None` where the total is unknown.
    pub fn percent(&self) -> Option<f64> {
        let total = self.total?;
        if self.done >= total {
            return Some(100.0);
        }
        Some(self.done as f64 * 100.0 / total as f64)
    }

    /// The amount done per second, on average since the work began.
    pub fn rate(&self) -> f64 {
        // A time below one millisecond counts as one, to avoid absurd rates.
        self.done as f64 / self.seconds().max(1e-3)
    }

    /// Seconds that the remaining work takes at the average rate so far; `None` if the total is unknown, or
    /// if something is left and nothing is done yet.
    pub fn seconds_left(&self) -> Option<f64> {
        let left = self.total?.saturating_sub(self.done);
        match (left, self.done) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            (left, _) => Some(left as f64 / self.rate()),
        }
    }

    /// Seconds since the work began.
    pub fn seconds(&self) -> f64 {
        self.spent_ns as f64 / 1e9
    }

    /// Whether the whole amount is done. The work may still have to finish, for example by forcing a
    /// file to disk.
    fn is_counted_out(&self) -> bool {
        self.total.is_some_and(|total| self.done >= total && total > 0)
    }
}

/// Writes `41.2% of 900 MB, 150.0 MB/s, 4 seconds left`, without the parts that are unknown. Once all is
/// done, `finishing` stands in place of the time left; before anything is known, only the time spent is
/// written: `3 seconds so far`. For milliseconds the form is `1 second of 10 minutes at most`.
impl fmt::Display for WorkProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unit == ProgressUnit::Milliseconds {
            let total = self.total.map(|total| span((total / 1000) as f64));
            write!(f, "{}", span((self.done / 1000) as f64))?;
            return total.map_or(Ok(()), |total| write!(f, " of {total} at most"));
        }
        match (self.percent(), self.total, self.done) {
            (Some(percent), Some(total), _) => {
                write!(f, "{percent:.1}% of {}", Amount(total as f64, 0, self.unit))?
            }
            (_, _, 0) => return write!(f, "{} so far", span(self.seconds())),
            _ => write!(f, "{}", Amount(self.done as f64, 0, self.unit))?,
        }
        write!(f, ", {}/s", Amount(self.rate(), 1, self.unit))?;
        match self.seconds_left() {
            _ if self.is_counted_out() => write!(f, ", finishing"),
            Some(seconds) => write!(f, ", {} left", span(seconds)),
            None => Ok(()),
        }
    }
}

/// An amount, the number of decimals for megabytes, and the unit.
struct Amount(f64, usize, ProgressUnit);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Amount(number, decimals, unit) = *self;
        match unit {
            // A size in whole megabytes is rounded down.
            ProgressUnit::Bytes if decimals == 0 => write!(f, "{} MB", (number / 1e6).floor()),
            ProgressUnit::Bytes => write!(f, "{:.decimals$} MB", number / 1e6),
            ProgressUnit::Keys | ProgressUnit::Milliseconds => write!(f, "{number:.0} {}", unit.name()),
        }
    }
}

/// A time in seconds, minutes or hours, in words.
fn span(seconds: f64) -> String {
    let (number, unit) = match seconds {
        seconds if seconds < 120.0 => (seconds, "second"),
        seconds if seconds < 7200.0 => (seconds / 60.0, "minute"),
        seconds => (seconds / 3600.0, "hour"),
    };
    let ending = if number.round() == 1.0 { "" } else { "s" };
    format!("{number:.0} {unit}{ending}")
}

/// A terminal line of at most `columns` columns for a piece of work: its name, a bar if the total is
/// known and there is room, and the numbers.
pub fn bar(name: &str, progress: &WorkProgress, columns: usize) -> String {
    let text = progress.to_string();
    // The last column stays free, because some terminals start another line there.
    let columns = columns.saturating_sub(1);
    let room = columns.saturating_sub(name.chars().count() + text.len() + BAR_FRAME);
    let line = match progress.percent() {
        Some(percent) if room >= BAR_MIN => {
            let cells = room.min(BAR_MAX);
            let filled = ((percent / 100.0 * cells as f64) as usize).min(cells);
            format!("{name} [{}{}] {text}", "#".repeat(filled), ".".repeat(cells - filled))
        }
        _ => format!("{name}: {text}"),
    };
    printable(&line).chars().take(columns).collect()
}

/// Replaces control characters by spaces, because names come from peers, and terminals obey control
/// characters.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Columns of the brackets and blanks around a bar.
const BAR_FRAME: usize = 4;
/// The fewest cells of a bar; with less room no bar is drawn.
const BAR_MIN: usize = 8;
const BAR_MAX: usize = 40;

/// Progress of a program, shown to the user on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressDisplay {
    /// No display, because the stream is no terminal.
    Nothing,
    /// As lines, one after another.
    Lines,
    /// As one line that is drawn again and again.
    Bar,
}

impl ProgressDisplay {
    /// The display that suits a stream. `term` and `no_color` are the environment variables of those names,
    /// if they are set. A nonempty `NO_COLOR` forbids escape codes, and a terminal of type `dumb` does not
    /// know them.
    pub fn of(is_terminal: bool, term: Option<&[u8]>, no_color: Option<&[u8]>) -> ProgressDisplay {
        let is_plain = term == Some(b"dumb") || no_color.is_some_and(|value| !value.is_empty());
        match (is_terminal, is_plain) {
            (false, _) => ProgressDisplay::Nothing,
            (true, true) => ProgressDisplay::Lines,
            (true, false) => ProgressDisplay::Bar,
        }
    }
}

/// The terminal line that is redrawn, and removed before anything else is written.
#[derive(Debug, Default)]
pub struct TerminalLine {
    is_drawn: bool,
}

impl TerminalLine {
    /// The bytes that put `text` in the place of the text drawn last.
    pub fn draw(&mut self, text: &str) -> String {
        self.is_drawn = true;
        format!("\r{text}{CLEAR_REST}")
    }

    /// The bytes that remove the line, if one is drawn.
    pub fn clear(&mut self) -> Option<&'static str> {
        std::mem::take(&mut self.is_drawn).then_some(CLEAR_LINE)
    }
}

/// Clears the line from the cursor on.
const CLEAR_REST: &str = "\x1b[K";
const CLEAR_LINE: &str = "\r\x1b[K";

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn bytes(done: u64, total: Option<u64>, seconds: u64) -> WorkProgress {
        WorkProgress { done, total, unit: ProgressUnit::Bytes, spent_ns: seconds.saturating_mul(SECOND) }
    }

    #[test]
    fn numbers_follow_from_what_was_done_and_when() {
        let progress = bytes(250_000_000, Some(1_000_000_000), 5);
        assert_eq!(progress.percent(), Some(25.0));
        assert_eq!(progress.rate(), 50e6);
        assert_eq!(progress.seconds_left(), Some(15.0));
        assert_eq!(progress.seconds(), 5.0);
    }

    #[test]
    fn what_is_unknown_is_not_guessed() {
        let progress = bytes(250_000_000, None, 5);
        assert_eq!((progress.percent(), progress.seconds_left()), (None, None));
        assert_eq!(progress.rate(), 50e6);
        assert_eq!(bytes(0, Some(10), 5).seconds_left(), None, "nothing was done yet");
        assert_eq!(bytes(0, Some(10), 5).percent(), Some(0.0));
        assert_eq!(bytes(0, Some(0), 0).percent(), Some(100.0), "there is nothing to do");
        assert_eq!(bytes(0, Some(0), 0).seconds_left(), Some(0.0));
    }

    #[test]
    fn no_number_overflows() {
        for (done, total, seconds) in [
            (u64::MAX, Some(1), 0),
            (u64::MAX, Some(u64::MAX), u64::MAX),
            (1, Some(u64::MAX), u64::MAX),
            (0, None, 0),
            (u64::MAX, None, 0),
        ] {
            let progress = bytes(done, total, seconds);
            let percent = progress.percent().unwrap_or(0.0);
            assert!((0.0..=100.0).contains(&percent), "{progress:?}");
            assert!(progress.rate().is_finite() && progress.rate() >= 0.0, "{progress:?}");
            assert!(progress.seconds_left().is_none_or(|left| left >= 0.0), "{progress:?}");
            assert!(!progress.to_string().contains("NaN"), "{progress}");
            assert!(bar("Loading", &progress, 80).chars().count() < 80, "{progress}");
        }
        assert_eq!(bytes(11, Some(10), 1).percent(), Some(100.0), "more came than was announced");
    }

    #[test]
    fn the_text_has_what_is_known() {
        let text = |done, total, seconds| bytes(done, total, seconds).to_string();
        assert_eq!(text(250_000_000, Some(1_000_000_000), 5), "25.0% of 1000 MB, 50.0 MB/s, 15 seconds left");
        assert_eq!(text(250_000_000, None, 5), "250 MB, 50.0 MB/s");
        assert_eq!(text(0, Some(1_999_999), 5), "0.0% of 1 MB, 0.0 MB/s");
        assert_eq!(text(0, None, 12), "12 seconds so far");
        assert_eq!(text(9_000_000, Some(9_000_000), 3), "100.0% of 9 MB, 3.0 MB/s, finishing");
        assert_eq!(text(1_000_000, Some(601_000_000), 1), "0.2% of 601 MB, 1.0 MB/s, 10 minutes left");
        let keys = WorkProgress { unit: ProgressUnit::Keys, ..bytes(500, Some(2000), 5) };
        assert_eq!(keys.to_string(), "25.0% of 2000 keys, 100 keys/s, 15 seconds left");
        let wait = WorkProgress { unit: ProgressUnit::Milliseconds, ..bytes(1500, Some(600_000), 1) };
        assert_eq!(wait.to_string(), "1 second of 10 minutes at most");
    }

    #[test]
    fn a_bar_fills_its_line_and_no_more() {
        let progress = bytes(250_000_000, Some(1_000_000_000), 5);
        let numbers = "25.0% of 1000 MB, 50.0 MB/s, 15 seconds left";
        let dots = ".".repeat(30);
        assert_eq!(bar("Loading", &progress, 200), format!("Loading [##########{dots}] {numbers}"));
        assert_eq!(bar("Loading", &progress, 80), format!("Loading [######{}] {numbers}", ".".repeat(18)));
        assert_eq!(bar("Loading", &progress, 60), format!("Loading: {numbers}"), "no room for a bar");
        assert_eq!(bar("Loading", &progress, 10), "Loading: ");
        assert_eq!(bar("Loading", &progress, 0), "");
        assert_eq!(bar("Loading", &bytes(7_000_000, None, 1), 80), "Loading: 7 MB, 7.0 MB/s");
        assert_eq!(bar("a\x1b]0;b\nc", &bytes(7_000_000, None, 1), 80), "a ]0;b c: 7 MB, 7.0 MB/s");
    }

    #[test]
    fn a_line_is_drawn_in_place_and_taken_away_once() {
        let mut line = TerminalLine::default();
        assert_eq!(line.clear(), None);
        assert_eq!(line.draw("abc"), "\rabc\x1b[K");
        assert_eq!((line.clear(), line.clear()), (Some("\r\x1b[K"), None));
    }

    #[test]
    fn a_terminal_without_escape_codes_has_lines() {
        assert_eq!(ProgressDisplay::of(false, None, None), ProgressDisplay::Nothing);
        assert_eq!(ProgressDisplay::of(true, Some(b"xterm"), Some(b"")), ProgressDisplay::Bar);
        assert_eq!(ProgressDisplay::of(true, Some(b"dumb"), None), ProgressDisplay::Lines);
        assert_eq!(ProgressDisplay::of(true, None, Some(b"1")), ProgressDisplay::Lines);
    }
}
