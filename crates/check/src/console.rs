//! What a checker says, asks and shows meanwhile.

use std::io::{self, BufRead, Write};

/// The user's side.
pub struct Console<'a> {
    /// Where the report goes.
    pub out: &'a mut dyn Write,
    /// Where answers come from.
    pub answers: &'a mut dyn BufRead,
    /// Where the progress bar is drawn: a terminal, if there is one.
    pub bar: Option<&'a mut dyn Write>,
    /// The time, ms since the epoch.
    pub now_ms: i64,
    /// The name that the program was called by.
    pub program: String,
}

/// Why a check ended before its end, or how it ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It was said why; the exit status is 1.
    Said,
    /// The report cannot be written.
    Report(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Report(error)
    }
}

/// A check, or a part of it.
pub(crate) type Checked<T> = Result<T, Stop>;

impl Console<'_> {
    /// Says a line.
    pub(crate) fn say(&mut self, line: &str) -> Checked<()> {
        self.clear_bar();
        Ok(writeln!(self.out, "{line}")?)
    }

    /// Says a line, and ends the check.
    pub(crate) fn fail<T>(&mut self, line: &str) -> Checked<T> {
        self.say(line)?;
        Err(Stop::Said)
    }

    /// Asks a question; whether the answer begins with a y.
    pub(crate) fn agrees(&mut self, question: &str) -> Checked<bool> {
        self.clear_bar();
        write!(self.out, "{question}")?;
        self.out.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.starts_with(['y', 'Y']))
    }

    /// Shows how much of a file was read.
    pub(crate) fn progress(&mut self, done: u64, size: u64) {
        let Some(bar) = &mut self.bar else { return };
        let share = done.min(size).saturating_mul(100).checked_div(size).unwrap_or(100);
        let filled = usize::try_from(share).unwrap_or(0) * BAR_WIDTH / 100;
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(
            bar,
            "\r[{:<BAR_WIDTH$}] {share:3}% {} of {} MB ",
            "#".repeat(filled),
            done / 1_000_000,
            size / 1_000_000
        );
        let _ = bar.flush();
    }

    fn clear_bar(&mut self) {
        if let Some(bar) = &mut self.bar {
            let _ = write!(bar, "\r\x1b[K");
            let _ = bar.flush();
        }
    }
}

/// The system's reason without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" (os error ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

/// Bytes that are read at once.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// Letters of the progress bar.
const BAR_WIDTH: usize = 40;
