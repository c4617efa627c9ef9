//! Decides when the writers of an export's slots are held back, so that the rest of its stream can
//! be sent (A-86).
//!
//! ```text
//!  flowing ──estimate ≤ 10 ms──► holding ──unsent ≤ limit──► paused
//!     ▲ braked, if nothing helped       │
//!     │ for 1 s                         │ 20 ms over
//!     └──────── 50 ms later ────────────┘
//! ```
//!
//! The estimate is the time to send the unsent bytes at the rate of the last 100 ms. All times are of
//! the monotonic clock.

use std::collections::VecDeque;

const MS: u64 = 1_000_000;
/// A hold begins when the estimate is at most this long, or at once if the export has no limit.
const HOLD_BELOW_NS: u64 = 10 * MS;
/// A hold ends if it has not led to the pause after this time.
const HOLD_NS_MAX: u64 = 20 * MS;
/// The next hold begins no sooner than this after the end of a hold.
const BETWEEN_HOLDS_NS: u64 = 50 * MS;
/// The brake is applied when the estimate has reached no new minimum for this long.
const PATIENCE_NS: u64 = 1_000 * MS;
/// The longest time that the brake makes a writer wait, and the longest for which it saves up unused credit.
const BRAKED_NS_MAX: u64 = 5 * MS;
/// The period over which the sending rate is measured.
const RATE_OVER_NS: u64 = 100 * MS;
/// The shortest time between two samples of the bytes sent.
const SAMPLE_NS: u64 = 5 * MS;
/// The brake limits writes to [`BRAKE_OF`] / [`BRAKE_TO`] of the rate at which the stream is sent.
const BRAKE_OF: u64 = 4;
const BRAKE_TO: u64 = 5;

/// The state of one export's convergence towards its pause.
#[derive(Debug)]
pub struct Convergence {
    /// The most unsent bytes at which the pause may begin; `None` for no limit.
    limit: Option<u64>,
    stage: ConvergenceStage,
    /// Times, and the bytes sent by then, oldest first.
    samples: VecDeque<(u64, u64)>,
    /// Time and bytes sent at the last step.
    latest: (u64, u64),
    /// The lowest estimate so far and when it was reached, both ns.
    lowest: Option<(u64, u64)>,
    brake: Option<Brake>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConvergenceStage {
    /// No writer waits for the pause (but perhaps for the brake). No hold begins before this time.
    Flowing {
        not_before_ns: u64,
    },
    Holding {
        since_ns: u64,
    },
    Paused {
        since_ns: u64,
    },
}

/// Limits the rate of writes to a fraction of the rate at which the stream is sent.
#[derive(Clone, Copy, Debug)]
struct Brake {
    /// Bytes that may be written now; negative after an excess.
    credit: i64,
    /// Time at which credit was last added, ns.
    credited_ns: u64,
    /// Time since which no writer is let in, ns; `None` while writers are let in.
    closed_since_ns: Option<u64>,
}

/// The action after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvergenceStep {
    /// Writers stay as they are.
    Stay,
    /// Writers that waited may continue.
    LetGo,
    /// Few enough bytes are unsent: the pause begins.
    Pause,
}

impl Convergence {
    /// A convergence at its beginning; the pause begins once at most `limit` bytes are unsent.
    pub fn new(limit: Option<u64>) -> Convergence {
        Convergence {
            limit,
            stage: ConvergenceStage::Flowing { not_before_ns: 0 },
            samples: VecDeque::new(),
            latest: (0, 0),
            lowest: None,
            brake: None,
        }
    }

    /// Whether writers have to wait now, for the pause or for the brake.
    pub fn holds(&self) -> bool {
        match self.stage {
            ConvergenceStage::Flowing { .. } => {
                self.brake.is_some_and(|brake| brake.closed_since_ns.is_some())
            }
            ConvergenceStage::Holding { .. } | ConvergenceStage::Paused { .. } => true,
        }
    }

    /// Time since which writers wait for the pause, ns. The brake's waiting time does not count.
    pub fn holds_since_ns(&self) -> Option<u64> {
        match self.stage {
            ConvergenceStage::Flowing { .. } => None,
            ConvergenceStage::Holding { since_ns } | ConvergenceStage::Paused { since_ns } => Some(since_ns),
        }
    }

    /// Whether the brake limits the rate of writes.
    pub fn is_braked(&self) -> bool {
        self.brake.is_some()
    }

    /// Decides by the state of the stream: `unsent` bytes wait to be sent, and `left` bytes have been sent
    /// since the stream began. The caller calls this at most once in an event loop iteration.
    pub fn step(&mut self, now_ns: u64, unsent: u64, left: u64) -> ConvergenceStep {
        self.sample(now_ns, left);
        if let ConvergenceStage::Paused { .. } = self.stage {
            return ConvergenceStep::Stay;
        }
        let estimate = self.estimate_ns(unsent);
        let is_little = self.limit.is_none_or(|limit| unsent <= limit);
        let step = match self.stage {
            ConvergenceStage::Flowing { not_before_ns }
                if now_ns >= not_before_ns && (estimate <= HOLD_BELOW_NS || self.limit.is_none()) =>
            {
                self.stage = ConvergenceStage::Holding { since_ns: now_ns };
                ConvergenceStep::Stay
            }
            ConvergenceStage::Holding { since_ns } if now_ns.saturating_sub(since_ns) > HOLD_NS_MAX => {
                self.stage = ConvergenceStage::Flowing { not_before_ns: now_ns + BETWEEN_HOLDS_NS };
                ConvergenceStep::LetGo
            }
            _ => ConvergenceStep::Stay,
        };
        if let ConvergenceStage::Holding { since_ns } = self.stage
            && is_little
        {
            self.stage = ConvergenceStage::Paused { since_ns };
            return ConvergenceStep::Pause;
        }
        match self.step_brake(now_ns, estimate) {
            true => ConvergenceStep::LetGo,
            false => step,
        }
    }

    /// Records that writers have added `bytes` to the stream.
    pub fn written(&mut self, now_ns: u64, bytes: usize) {
        if let Some(brake) = &mut self.brake {
            brake.credit -= i64::try_from(bytes).unwrap_or(i64::MAX).min(i64::MAX / 4);
            if brake.credit < 0 {
                brake.closed_since_ns.get_or_insert(now_ns);
            }
        }
    }

    fn sample(&mut self, now_ns: u64, left: u64) {
        if self.samples.back().is_none_or(|(at, _)| now_ns.saturating_sub(*at) >= SAMPLE_NS) {
            self.samples.push_back((now_ns, left));
        }
        self.latest = (now_ns, left);
        while self.samples.len() > 2 && now_ns.saturating_sub(self.samples[1].0) >= RATE_OVER_NS {
            self.samples.pop_front();
        }
    }

    /// Bytes sent in the measured period, and the length of that period in ns.
    fn rate(&self) -> (u64, u64) {
        let (to, after) = self.latest;
        let (from, before) = self.samples.front().copied().unwrap_or(self.latest);
        (after.saturating_sub(before), to.saturating_sub(from))
    }

    /// Time to send all unsent bytes, ns; the greatest number if nothing was sent in the measured period.
    fn estimate_ns(&self, unsent: u64) -> u64 {
        match self.rate() {
            _ if unsent == 0 => 0,
            (0, _) => u64::MAX,
            (bytes, over_ns) => {
                let ns = u128::from(unsent) * u128::from(over_ns) / u128::from(bytes);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        }
    }

    /// Applies the brake or adds to its credit; `true` if writers that waited for the brake may continue.
    fn step_brake(&mut self, now_ns: u64, estimate: u64) -> bool {
        if self.lowest.is_none_or(|(lowest, _)| estimate < lowest) {
            self.lowest = Some((estimate, now_ns));
        }
        let (bytes, over_ns) = self.rate();
        let Some(brake) = &mut self.brake else {
            let since_ns = self.lowest.map_or(now_ns, |(_, at)| at);
            if now_ns.saturating_sub(since_ns) >= PATIENCE_NS {
                self.brake = Some(Brake { credit: 0, credited_ns: now_ns, closed_since_ns: None });
            }
            return false;
        };
        let passed_ns = now_ns.saturating_sub(brake.credited_ns);
        let share = |ns: u64| {
            let bytes = u128::from(bytes) * u128::from(ns) * u128::from(BRAKE_OF);
            let credit = bytes / (u128::from(over_ns.max(1)) * u128::from(BRAKE_TO));
            i64::try_from(credit).unwrap_or(i64::MAX)
        };
        brake.credited_ns = now_ns;
        brake.credit = brake.credit.saturating_add(share(passed_ns)).min(share(BRAKED_NS_MAX));
        let Some(since_ns) = brake.closed_since_ns else { return false };
        let has_waited = now_ns.saturating_sub(since_ns) >= BRAKED_NS_MAX;
        if brake.credit > 0 || has_waited {
            // A writer that has waited this long continues even without credit.
            brake.credit = brake.credit.max(0);
            brake.closed_since_ns = None;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated stream in steps of 1 ms: it is sent at one rate, and writers fill it at another.
    struct Flow {
        convergence: Convergence,
        now_ms: u64,
        unsent: u64,
        left: u64,
        drain_per_ms: u64,
        writes_per_ms: u64,
        /// Time that writers have waited without a break, ms: the present wait, and the longest one so far.
        waited: (u64, u64),
        /// Bytes added by writers.
        written: u64,
    }

    impl Flow {
        fn new(limit: Option<u64>, unsent: u64, drain_per_ms: u64, writes_per_ms: u64) -> Flow {
            let convergence = Convergence::new(limit);
            Flow {
                convergence,
                now_ms: 1_000,
                unsent,
                left: 0,
                drain_per_ms,
                writes_per_ms,
                waited: (0, 0),
                written: 0,
            }
        }

        /// Simulates one millisecond.
        fn pass(&mut self) -> ConvergenceStep {
            self.now_ms += 1;
            let now_ns = self.now_ms * MS;
            // Writers add small pieces, and ask `holds` before each piece.
            for _ in 0..16 {
                if !self.convergence.holds() {
                    let bytes = self.writes_per_ms / 16;
                    self.unsent += bytes;
                    self.written += bytes;
                    self.convergence.written(now_ns, bytes as usize);
                }
            }
            let leaves = self.drain_per_ms.min(self.unsent);
            self.unsent -= leaves;
            self.left += leaves;
            let step = self.convergence.step(now_ns, self.unsent, self.left);
            self.waited.0 = if self.convergence.holds() { self.waited.0 + 1 } else { 0 };
            self.waited.1 = self.waited.1.max(self.waited.0);
            step
        }

        /// Milliseconds until the pause; `None` if it does not begin within `ms`.
        fn until_pause(&mut self, ms: u64) -> Option<u64> {
            (0..ms).find(|_| self.pass() == ConvergenceStep::Pause)
        }
    }

    #[test]
    fn cb_a86_an_idle_stream_pauses_at_once() {
        assert_eq!(Flow::new(Some(0), 0, 1_000, 0).until_pause(10), Some(0));
    }

    #[test]
    fn cb_a45_without_a_limit_the_pause_begins_at_once() {
        assert_eq!(Flow::new(None, 1 << 30, 10, 1_000).until_pause(10), Some(0));
    }

    #[test]
    fn cb_a86_writers_are_held_when_little_is_left_and_the_pause_follows() {
        let mut flow = Flow::new(Some(0), 1_000_000, 10_000, 8_000);
        let ms = flow.until_pause(2_000).expect("it converges");
        assert!((400..600).contains(&ms), "2,000 more leave than come each ms: {ms}");
        assert!(flow.waited.1 <= 20, "{:?}", flow.waited);
        assert!(flow.convergence.brake.is_none());
        assert!(flow.convergence.holds());
    }

    #[test]
    fn cb_a86_a_hold_that_leads_nowhere_ends_and_another_begins_50_ms_later() {
        let mut flow = Flow::new(Some(0), 1_000_000, 10_000, 0);
        for _ in 0..5 {
            flow.pass();
        }
        // The sending stops when few bytes are unsent.
        (flow.unsent, flow.drain_per_ms) = (10_000, 0);
        flow.pass();
        assert!(flow.convergence.holds());
        let held = (0..100).find(|_| flow.pass() == ConvergenceStep::LetGo).expect("the hold ends");
        assert!((18..=21).contains(&held), "{held}");
        assert!(!flow.convergence.holds());
        flow.drain_per_ms = 1;
        (flow.unsent, flow.left) = (0, flow.left + 1);
        let ms = flow.until_pause(100).expect("the next try");
        assert!((48..=51).contains(&ms), "{ms}");
    }

    #[test]
    fn cb_a86_writers_faster_than_the_link_are_braked_after_a_second_and_the_pause_comes() {
        for writes_per_ms in [16_000, 64_000, 640_000] {
            let mut flow = Flow::new(Some(0), 4_000_000, 10_000, writes_per_ms);
            let ms = flow.until_pause(600_000).unwrap_or_else(|| panic!("{writes_per_ms}: never"));
            assert!(flow.convergence.brake.is_some() && ms >= 1_000, "{writes_per_ms}: {ms}");
        }
    }

    #[test]
    fn cb_a86_the_brake_keeps_no_writer_for_longer_than_5_ms() {
        let mut flow = Flow::new(Some(0), 4_000_000, 10_000, 64_000);
        (0..1_100).for_each(|_| _ = flow.pass());
        assert!(flow.convergence.brake.is_some());
        (flow.drain_per_ms, flow.waited) = (0, (0, 0));
        (0..500).for_each(|_| _ = flow.pass());
        assert!((4..=5).contains(&flow.waited.1), "{:?}", flow.waited);
    }

    #[test]
    fn cb_a86_the_brake_lets_four_fifths_of_what_leaves_come() {
        let mut flow = Flow::new(Some(0), 400_000_000, 10_000, 64_000);
        (0..1_200).for_each(|_| _ = flow.pass());
        let (written, left) = (flow.written, flow.left);
        (0..1_000).for_each(|_| _ = flow.pass());
        let share = 100 * (flow.written - written) / (flow.left - left);
        assert!((75..=85).contains(&share), "{share} of 100");
    }
}
