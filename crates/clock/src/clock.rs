//! The clock itself: anchors, the factor from ticks to nanoseconds, and the checks that the
//! counter is sound.
//!
//! The factor is not calibrated by waiting. A new clock answers from the kernel's clocks until its first
//! anchor is [`LEARN_NS`] old; then two anchors give the factor. Each later anchor is measured against the
//! older of these two, the base; the older the base is, the more exact the factor becomes. A base older than
//! [`BASE_MAX_NS`] is replaced, so that the factor follows a kernel clock that is being slewed.

use sluice_base::Now;

use crate::machine::{Machine, System};

/// The source that a clock takes its time from at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// The kernel's clocks, two calls per reading. Used while the rate of the counter is not known, if
    /// there is no trusted counter, and after the counter was given up.
    Posix,
    /// The processor's counter, between anchors that are at most a millisecond old.
    Counter {
        /// The counter's rate, rounded to the nearest tick per microsecond.
        ticks_per_us: u64,
    },
}

/// Watches from which source a clock takes its time, for the log. It reports the source once when it is
/// known, and once more when the counter is given up while the process runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceWatch {
    /// The last report; `None` before the first.
    said: Option<News>,
}

/// What a [`SourceWatch`] reports about a clock's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The counter is used.
    Counter,
    /// The kernel's clocks are used, from the start.
    NoCounter,
    /// The counter was used and contradicted the kernel's clocks, which are used from now on.
    CounterGivenUp,
}

impl SourceWatch {
    /// The report that is new since the last call; `None` if there is none, and while the clock learns its
    /// counter's rate.
    pub fn look<M: Machine>(&mut self, clock: &Clock<M>) -> Option<News> {
        if clock.is_learning() {
            return None;
        }
        let news = match (clock.kind(), self.said) {
            (TimeSource::Counter { .. }, _) => News::Counter,
            (TimeSource::Posix, Some(News::Counter | News::CounterGivenUp)) => News::CounterGivenUp,
            (TimeSource::Posix, None | Some(News::NoCounter)) => News::NoCounter,
        };
        (self.said.replace(news) != Some(news)).then_some(news)
    }
}

/// One thread's clock. Make one per thread, or clone it.
#[derive(Clone, Debug)]
pub struct Clock<M: Machine = System> {
    machine: M,
    /// Counter ticks after which the anchor must be renewed; 0 while the kernel's clocks are used, so that
    /// every reading takes the slow path.
    window_ticks: u64,
    /// Nanoseconds per tick, 32.32 fixed point.
    factor: u64,
    anchor: CommonInstant,
    /// The older end of the baseline that the factor is measured over.
    base: Option<CommonInstant>,
    last: Now,
    last_ticks: u64,
    /// Readings in a row that found the counter standing still.
    still: u32,
    /// Contradictions of the counter since it last agreed with the kernel's clock for [`BASE_MAX_NS`];
    /// [`DOUBTS_MAX`] of them are final.
    doubts: u32,
}

/// The counter and both kernel clocks at one instant.
#[derive(Clone, Copy, Debug, Default)]
struct CommonInstant {
    ticks: u64,
    mono_ns: u64,
    real_ns: i64,
    /// Ticks between the counter reads before and after the kernel's clocks, within which the instant is
    /// uncertain.
    bracket_ticks: u64,
}

impl Clock<System> {
    /// A clock of this machine. In its first 10 ms, and always if there is no trusted counter, a reading
    /// costs two calls of the kernel's vDSO.
    pub fn system() -> Clock<System> {
        Clock::new(System::probe())
    }
}

impl<M: Machine> Clock<M> {
    /// A clock of the given machine, which a test may fake.
    pub fn new(machine: M) -> Clock<M> {
        let mut clock = Clock {
            machine,
            window_ticks: 0,
            factor: 0,
            anchor: CommonInstant::default(),
            base: None,
            last: Now { mono_ns: 0, unix_us: i64::MIN },
            last_ticks: 0,
            still: 0,
            doubts: 0,
        };
        clock.now();
        clock
    }

    /// The current time. Cost with the counter: one counter read and a multiplication; once a millisecond a
    /// new anchor, about 0.1 us.
    #[inline]
    pub fn now(&mut self) -> Now {
        let Some(ticks) = self.machine.counter() else { return self.posix() };
        let delta = ticks.wrapping_sub(self.anchor.ticks);
        // A counter that ran backwards gives a delta beyond any window.
        if delta >= self.window_ticks || ticks == self.last_ticks {
            return self.renew(ticks);
        }
        self.last_ticks = ticks;
        self.at(delta)
    }

    /// The reading `delta` ticks after the anchor; `delta` is below the window.
    #[inline]
    fn at(&mut self, delta: u64) -> Now {
        // The product fits in 64 bits at any rate, because the window is a millisecond: the product is below
        // 2^20 ns times 2^32.
        let ns = (delta * self.factor) >> 32;
        let unix_us = (self.anchor.real_ns + ns.cast_signed()) / 1000;
        self.settle(Now { mono_ns: self.anchor.mono_ns + ns, unix_us })
    }

    /// Makes sure that errors of estimates never make either of the two times decrease.
    #[inline]
    fn settle(&mut self, now: Now) -> Now {
        let mono_ns = now.mono_ns.max(self.last.mono_ns);
        let back_us = self.last.unix_us.saturating_sub(now.unix_us);
        let unix_us = if back_us > 0 && back_us <= STEP_US { self.last.unix_us } else { now.unix_us };
        self.last = Now { mono_ns, unix_us };
        self.last
    }

    /// The source of the time, for INFO.
    pub fn kind(&self) -> TimeSource {
        match self.window_ticks {
            0 => TimeSource::Posix,
            // factor = 2^32 ns per tick, so ticks per us = 1000 * 2^32 / factor.
            _ => TimeSource::Counter { ticks_per_us: ((1000 << 32) + self.factor / 2) / self.factor },
        }
    }

    /// Whether the kernel's clocks are used only until the counter's rate is known.
    pub(crate) fn is_learning(&self) -> bool {
        self.window_ticks == 0 && self.base.is_some() && !self.has_given_up()
    }

    /// Whether the counter was contradicted so often that it is not used again.
    fn has_given_up(&self) -> bool {
        self.doubts >= DOUBTS_MAX
    }

    /// The line of INFO: `X86 TSC @ 2445 ticks/us`, `ARM CNTVCT @ 1000 ticks/us` or `POSIX clock_gettime`.
    pub fn describe(&self) -> String {
        match self.kind() {
            TimeSource::Posix => "POSIX clock_gettime".to_owned(),
            TimeSource::Counter { ticks_per_us } => {
                format!("{} @ {ticks_per_us} ticks/us", self.machine.counter_name())
            }
        }
    }

    #[cold]
    fn posix(&mut self) -> Now {
        let mono_ns = self.machine.monotonic_ns();
        let unix_us = self.machine.real_ns().div_euclid(1000);
        self.settle(Now { mono_ns, unix_us })
    }

    /// The slow path, taken while the kernel's clocks are used, when the anchor is old, and when the
    /// counter behaves oddly.
    #[cold]
    fn renew(&mut self, ticks: u64) -> Now {
        if self.has_given_up() {
            return self.posix();
        }
        let standing = ticks == self.last_ticks;
        self.still = if standing { self.still.saturating_add(1) } else { 0 };
        self.last_ticks = ticks;
        let delta = ticks.wrapping_sub(self.anchor.ticks);
        // Two equal readings within one tick of a slow counter are no reason to doubt it; many in a row
        // lead to a new anchor, which is checked.
        if standing && self.still < STILL_MAX && delta < self.window_ticks {
            return self.at(delta);
        }
        self.still = 0;
        let fresh = self.take_anchor();
        self.learn(&fresh);
        self.anchor = fresh;
        self.last_ticks = fresh.ticks;
        self.settle(Now { mono_ns: fresh.mono_ns, unix_us: fresh.real_ns.div_euclid(1000) })
    }

    /// Reads both kernel clocks between two counter reads. Returns the first try whose counter reads are
    /// close enough together, or the closest of [`ANCHOR_TRIES`] tries.
    fn take_anchor(&mut self) -> CommonInstant {
        let mut best = CommonInstant { bracket_ticks: u64::MAX, ..CommonInstant::default() };
        for _ in 0..ANCHOR_TRIES {
            let before = self.machine.counter().unwrap_or(0);
            let mono_ns = self.machine.monotonic_ns();
            let real_ns = self.machine.real_ns();
            let after = self.machine.counter().unwrap_or(0);
            let bracket_ticks = after.wrapping_sub(before);
            if bracket_ticks < best.bracket_ticks {
                let ticks = before.wrapping_add(bracket_ticks / 2);
                best = CommonInstant { ticks, mono_ns, real_ns, bracket_ticks };
            }
            if self.ns_of(best.bracket_ticks) <= BRACKET_MAX_NS {
                break;
            }
        }
        best
    }

    /// Nanoseconds of a number of ticks by the present factor. Before there is a factor, a tick
    /// counts as a nanosecond.
    fn ns_of(&self, ticks: u64) -> u64 {
        let factor = if self.factor == 0 { 1 << 32 } else { u128::from(self.factor) };
        u64::try_from((u128::from(ticks) * factor) >> 32).unwrap_or(u64::MAX)
    }

    /// Checks that the counter still agrees with the kernel's clock, and measures the factor over
    /// the baseline.
    fn learn(&mut self, fresh: &CommonInstant) {
        let Some(base) = self.base else {
            self.base = Some(*fresh);
            return;
        };
        if self.window_ticks != 0 && !self.plausible(fresh) {
            self.doubts += 1;
            self.base = Some(*fresh);
            self.window_ticks = 0;
            return;
        }
        let span_ns = fresh.mono_ns.saturating_sub(base.mono_ns);
        let span_ticks = fresh.ticks.wrapping_sub(base.ticks);
        if span_ns < LEARN_NS {
            return;
        }
        let factor = rounded_factor(span_ns, span_ticks);
        if !(FACTOR_MIN..=FACTOR_MAX).contains(&factor) {
            self.doubts += 1;
            self.base = Some(*fresh);
            self.window_ticks = 0;
            return;
        }
        self.factor = factor;
        self.window_ticks = ((u128::from(WINDOW_NS) << 32) / u128::from(factor)) as u64;
        if span_ns > BASE_MAX_NS {
            // A doubt replaces the base, so the counter has agreed since the base was taken. Earlier doubts
            // are forgotten, because they came from pauses or migrations of the machine, which may happen any
            // number of times.
            self.doubts = 0;
            self.base = Some(*fresh);
        }
    }

    /// Whether the counter advanced since the last anchor as far as the monotonic clock did.
    fn plausible(&self, fresh: &CommonInstant) -> bool {
        let real_ns = fresh.mono_ns.saturating_sub(self.anchor.mono_ns);
        let told_ns = self.ns_of(fresh.ticks.wrapping_sub(self.anchor.ticks));
        let off_ns = real_ns.abs_diff(told_ns);
        let brackets_ns = self.ns_of(fresh.bracket_ticks.saturating_add(self.anchor.bracket_ticks));
        off_ns <= real_ns / 100 + brackets_ns + SLACK_NS
    }
}

/// Nanoseconds per tick, 32.32 fixed point, to the nearest.
fn rounded_factor(span_ns: u64, span_ticks: u64) -> u64 {
    if span_ticks == 0 {
        return 0;
    }
    let scaled = (u128::from(span_ns) << 32) + u128::from(span_ticks / 2);
    u64::try_from(scaled / u128::from(span_ticks)).unwrap_or(u64::MAX)
}

/// Age at which an anchor is renewed.
const WINDOW_NS: u64 = 1_000_000;
/// Shortest baseline that the factor is measured over.
const LEARN_NS: u64 = 10_000_000;
/// Length of a baseline beyond which a new base replaces the old one.
const BASE_MAX_NS: u64 = 1_000_000_000;
/// Counter reads around an anchor that are this close together are good enough.
const BRACKET_MAX_NS: u64 = 2_000;
const ANCHOR_TRIES: u32 = 4;
/// A wall clock that goes back by more than this, in microseconds, was stepped: the decrease is not an error
/// of an estimate.
const STEP_US: i64 = 1_000;
/// Equal readings in a row after which the counter may have stopped.
const STILL_MAX: u32 = 64;
/// How many contradictions make the clock give the counter up; [`BASE_MAX_NS`] of agreement resets their
/// count.
const DOUBTS_MAX: u32 = 8;
/// The greatest difference between the counter and the kernel's clock at an anchor that is no reason for
/// doubt, in addition to one percent and the uncertainty of the anchors.
const SLACK_NS: u64 = 5_000;
/// Factor of the fastest counter that is trusted, 10 GHz: nanoseconds per tick, 32.32 fixed point.
const FACTOR_MIN: u64 = (1 << 32) / 10;
/// Factor of the slowest counter that is trusted, 1 MHz: nanoseconds per tick, 32.32 fixed point.
const FACTOR_MAX: u64 = 1000 << 32;

#[cfg(test)]
mod tests;
