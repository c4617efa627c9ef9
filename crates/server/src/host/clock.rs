//! The clock of the process: the time now, the time that was read last, and how the time is read.

use sluice_base::{LogLevel, Now};
use sluice_clock::{Clock, News, SourceWatch};

/// See the module.
pub struct HostClock {
    source: Clock,
    watch: SourceWatch,
    recent: Now,
    started_ns: u64,
}

impl HostClock {
    /// A clock that runs.
    pub(super) fn new() -> HostClock {
        let mut source = Clock::system();
        let recent = source.now();
        HostClock { source, watch: SourceWatch::default(), recent, started_ns: recent.mono_ns }
    }

    /// Reads the time.
    #[inline]
    pub fn now(&mut self) -> Now {
        self.recent = self.source.now();
        self.recent
    }

    /// The time that was read last.
    #[inline]
    pub fn recent(&self) -> Now {
        self.recent
    }

    /// When the process started, monotonic nanoseconds.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// How the time is read, for INFO and the log.
    pub fn describe(&self) -> String {
        self.source.describe()
    }

    /// A line for the log on how the time is read: as soon as that is known (a counter's rate takes some
    /// milliseconds to learn), and once more when the counter was given up.
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
