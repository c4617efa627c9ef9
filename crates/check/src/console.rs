//! What a checker says, asks and shows meanwhile.

use sluice_base::progress::{ProgressDisplay, ProgressUnit, TerminalLine, WorkProgress, bar};
use std::io::{self, BufRead, Write};

/// The user's side.
pub struct Console<'a> {
    /// Where the report goes.
    pub out: &'a mut dyn Write,
    /// Where answers come from.
    pub answers: &'a mut dyn BufRead,
    /// Where is shown how far the check is, if anybody looks.
    pub meter: Option<Meter<'a>>,
    /// The time, ms since the epoch.
    pub now_ms: i64,
    /// The name that the program was called by.
    pub program: String,
}

/// Shows how far a check is, away from the report.
pub struct Meter<'a> {
    out: &'a mut dyn Write,
    display: ProgressDisplay,
    /// Letters of a line of the terminal.
    columns: usize,
    /// The time, monotonic ns.
    clock: &'a mut dyn FnMut() -> u64,
    line: TerminalLine,
    /// When the file was begun, and when it was shown last.
    began_ns: u64,
    shown_ns: u64,
}

impl<'a> Meter<'a> {
    /// Shows it on a terminal of so many columns.
    pub fn new(
        out: &'a mut dyn Write,
        display: ProgressDisplay,
        columns: usize,
        clock: &'a mut dyn FnMut() -> u64,
    ) -> Meter<'a> {
        Meter { out, display, columns, clock, line: TerminalLine::default(), began_ns: 0, shown_ns: 0 }
    }

    /// A meter in place of this one, for a console that lives shorter.
    pub(crate) fn lend(&mut self) -> Meter<'_> {
        Meter::new(&mut *self.out, self.display, self.columns, &mut *self.clock)
    }

    fn begin(&mut self) {
        self.began_ns = (self.clock)();
        self.shown_ns = self.began_ns;
    }

    /// A part of a file was read.
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
        // What cannot be shown is no reason to stop.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
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

    /// A file is begun.
    pub(crate) fn begin(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.begin();
        }
    }

    /// Shows how much of the file was read.
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
/// What is done, in front of a bar.
const NAME: &str = "Checking";
/// Time between two looks of a bar, and between two lines where there is no bar.
const BAR_EVERY_NS: u64 = 100_000_000;
const LINE_EVERY_NS: u64 = 5_000_000_000;
