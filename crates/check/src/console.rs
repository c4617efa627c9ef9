//! The output of a checker, its questions to the user, and the display of its progress.

use sluice_base::progress::{ProgressDisplay, ProgressUnit, TerminalLine, WorkProgress, bar};
use std::io::{self, BufRead, Write};

/// The streams of a check, the time, and the program's name.
pub struct Console<'a> {
    /// The stream that receives the report.
    pub out: &'a mut dyn Write,
    /// The stream that the user's answers are read from.
    pub answers: &'a mut dyn BufRead,
    /// The display of the progress; `None` shows no progress.
    pub meter: Option<Meter<'a>>,
    /// The time, ms since the epoch.
    pub now_ms: i64,
    /// The name that the program was called by.
    pub program: String,
}

/// Shows the progress of a check, on another stream than the report.
pub struct Meter<'a> {
    out: &'a mut dyn Write,
    display: ProgressDisplay,
    /// Width of the terminal in characters.
    columns: usize,
    /// A monotonic clock, ns.
    clock: &'a mut dyn FnMut() -> u64,
    line: TerminalLine,
    /// `began_ns`: start of the current file. `shown_ns`: time of the last display. Both are in ns of
    /// `clock`.
    began_ns: u64,
    shown_ns: u64,
}

impl<'a> Meter<'a> {
    /// A meter that writes to `out`, for a terminal of `columns` characters.
    pub fn new(
        out: &'a mut dyn Write,
        display: ProgressDisplay,
        columns: usize,
        clock: &'a mut dyn FnMut() -> u64,
    ) -> Meter<'a> {
        Meter { out, display, columns, clock, line: TerminalLine::default(), began_ns: 0, shown_ns: 0 }
    }

    /// A meter with the same stream and clock, for a console with a shorter lifetime.
    pub(crate) fn lend(&mut self) -> Meter<'_> {
        Meter::new(&mut *self.out, self.display, self.columns, &mut *self.clock)
    }

    fn begin(&mut self) {
        self.began_ns = (self.clock)();
        self.shown_ns = self.began_ns;
    }

    /// Shows `done` of `size` bytes, unless the last display is too recent.
    fn show(&mut self, done: u64, size: u64) {
        let every_ns = match self.display {
            ProgressDisplay::Nothing => return,
            ProgressDisplay::Lines => LINE_EVERY_NS,
            ProgressDisplay::Bar => BAR_EVERY_NS,
        };
        let now_ns = (self.clock)();
        if now_ns.saturating_sub(self.shown_ns) < every_ns {
            return;
        }
        self.shown_ns = now_ns;
        let spent_ns = now_ns.saturating_sub(self.began_ns);
        let progress = WorkProgress { done, total: Some(size), unit: ProgressUnit::Bytes, spent_ns };
        let text = match self.display {
            ProgressDisplay::Bar => self.line.draw(&bar(NAME, &progress, self.columns)),
            ProgressDisplay::Nothing | ProgressDisplay::Lines => format!("{NAME}: {progress}\n"),
        };
        self.write(&text);
    }

    fn clear(&mut self) {
        if let Some(text) = self.line.clear() {
            self.write(text);
        }
    }

    fn write(&mut self, text: &str) {
        // A check continues when its progress cannot be shown.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// The reason why a check ended early or with a failure.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The report states the reason; the exit status is 1.
    Said,
    /// The report could not be written, or the user's answer could not be read.
    Report(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Report(error)
    }
}

/// The result of a check or of a part of it.
pub(crate) type Checked<T> = Result<T, Stop>;

impl Console<'_> {
    /// Writes a line of the report.
    pub(crate) fn say(&mut self, line: &str) -> Checked<()> {
        self.clear_bar();
        Ok(writeln!(self.out, "{line}")?)
    }

    /// Writes a line of the report, and ends the check with a failure.
    pub(crate) fn fail<T>(&mut self, line: &str) -> Checked<T> {
        self.say(line)?;
        Err(Stop::Said)
    }

    /// Asks the user a question: `true` if the answer begins with a y.
    pub(crate) fn agrees(&mut self, question: &str) -> Checked<bool> {
        self.clear_bar();
        write!(self.out, "{question}")?;
        self.out.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.starts_with(['y', 'Y']))
    }

    /// Starts the meter for a file.
    pub(crate) fn begin(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.begin();
        }
    }

    /// Shows that `done` of `size` bytes of the file are read.
    pub(crate) fn progress(&mut self, done: u64, size: u64) {
        if let Some(meter) = &mut self.meter {
            meter.show(done, size);
        }
    }

    fn clear_bar(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.clear();
        }
    }
}

/// The text of an I/O error without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" (os error ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

/// Bytes in one read of a file.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// The text before the progress bar.
const NAME: &str = "Checking";
/// Time between two updates of the bar, and between two lines where no bar is shown.
const BAR_EVERY_NS: u64 = 100_000_000;
const LINE_EVERY_NS: u64 = 5_000_000_000;
