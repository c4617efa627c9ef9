//! The clock of the process: the current time, the time of the last reading, and the source of the time.

use sluice_base::{LogLevel, Now};
use sluice_clock::{Clock, News, SourceWatch};

/// The process's clock with its last reading.
pub struct HostClock {
    source: Clock,
    watch: SourceWatch,
    recent: Now,
    started_ns: u64,
}

impl HostClock {
    /// A running clock.
    pub(super) fn new() -> HostClock {
        let mut source = Clock::system();
        let recent = source.now();
        HostClock { source, watch: SourceWatch::default(), recent, started_ns: recent.mono_ns }
    }

    /// Reads the clock, and keeps the reading for `recent`.
    #[inline]
    pub fn now(&mut self) -> Now {
        self.recent = self.source.now();
        self.recent
    }

    /// The time of the last reading.
    #[inline]
    pub fn recent(&self) -> Now {
        self.recent
    }

    /// When the process started, monotonic nanoseconds.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// The clock's source, for INFO and the log.
    pub fn describe(&self) -> String {
        self.source.describe()
    }

    /// A log line about the clock's source. There is one when the source is known (measuring a counter's
    /// rate takes some milliseconds), and another one when the counter was given up.
    pub(super) fn take_news(&mut self) -> Option<(LogLevel, String)> {
        let (level, remark) = match self.watch.look(&self.source)? {
            News::Counter | News::NoCounter => (LogLevel::Notice, ""),
            News::CounterGivenUp => {
                (LogLevel::Warning, ", because the processor's counter contradicted it repeatedly")
            }
        };
        Some((level, format!("monotonic clock: {}{remark}", self.describe())))
    }
}
