//! When the writers of an export's slots are held back, so that the rest of its stream can leave (A-86).
//!
//! ```text
//!  flowing ──estimate ≤ 10 ms──► holding ──unsent ≤ limit──► paused
//!     ▲ braked, if nothing helped       │
//!     │ for 1 s                         │ 20 ms over
//!     └──────── 50 ms later ────────────┘
//! ```
//!
//! The estimate: the bytes that have not left, at the rate of the last 100 ms. All times are of the monotonic
//! clock.

use std::collections::VecDeque;

const MS: u64 = 1_000_000;
/// Writers are held when the rest is expected to leave in so long.
const HOLD_BELOW_NS: u64 = 10 * MS;
/// A hold that has not led to the pause by then ends.
const HOLD_NS_MAX: u64 = 20 * MS;
/// Between two holds.
const BETWEEN_HOLDS_NS: u64 = 50 * MS;
/// The brake is put on when the estimate has not fallen for so long.
const PATIENCE_NS: u64 = 1_000 * MS;
/// A writer waits so long for the brake at most.
const BRAKED_NS_MAX: u64 = 5 * MS;
/// What leaves is measured over so long.
const RATE_OVER_NS: u64 = 100 * MS;
/// Between two looks at how much has left.
const SAMPLE_NS: u64 = 5 * MS;
/// The share of what leaves that the brake lets come: so many of so many.
const BRAKE_OF: u64 = 4;
const BRAKE_TO: u64 = 5;

/// See the module.
#[derive(Debug)]
pub struct Convergence {
    /// Bytes that may be left at the pause; none: any number.
    limit: Option<u64>,
    stage: ConvergenceStage,
    /// Times, and what had left by then; the oldest is the first.
    samples: VecDeque<(u64, u64)>,
    /// The time, and what had left, at the last look.
    latest: (u64, u64),
    /// The lowest estimate so far, ns, and when it was met.
    lowest: Option<(u64, u64)>,
    brake: Option<Brake>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConvergenceStage {
    /// Writers write. No hold begins before this time.
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

/// What lets writers come at a part of the rate at which the stream leaves.
#[derive(Clone, Copy, Debug)]
struct Brake {
    /// Bytes that may be written now.
    credit: i64,
    /// When these were last added to.
    credited_ns: u64,
    /// Since when no writer is let in.
    closed_since_ns: Option<u64>,
}

/// What follows from a look at a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvergenceStep {
    /// Nothing.
    Stay,
    /// Writers that waited may go on.
    LetGo,
    /// What is left of the stream is little enough: the pause begins.
    Pause,
}

impl Convergence {
    /// Begins; the pause is to begin when at most `limit` bytes are left.
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

    /// Whether writers have to wait now.
    pub fn holds(&self) -> bool {
        match self.stage {
            ConvergenceStage::Flowing { .. } => {
                self.brake.is_some_and(|brake| brake.closed_since_ns.is_some())
            }
            ConvergenceStage::Holding { .. } | ConvergenceStage::Paused { .. } => true,
        }
    }

    /// Since when writers wait for the end, ns; what the brake makes them wait is apart.
    pub fn holds_since_ns(&self) -> Option<u64> {
        match self.stage {
            ConvergenceStage::Flowing { .. } => None,
            ConvergenceStage::Holding { since_ns } | ConvergenceStage::Paused { since_ns } => Some(since_ns),
        }
    }

    /// Whether writers are let in at a part of the rate at which the stream leaves.
    pub fn is_braked(&self) -> bool {
        self.brake.is_some()
    }

    /// A look at the stream, at most one for each iteration: so many bytes are left, and have left since the
    /// begin of the stream.
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

    /// Bytes have come.
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

    /// Bytes that have left within how many ns.
    fn rate(&self) -> (u64, u64) {
        let (to, after) = self.latest;
        let (from, before) = self.samples.front().copied().unwrap_or(self.latest);
        (after.saturating_sub(before), to.saturating_sub(from))
    }

    /// How long it takes until all has left, ns.
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

    /// Whether the brake lets writers go on that waited for it.
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
            // Who has waited so long owes nothing any more.
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

    /// A stream that leaves at a rate, under writers that fill it at another: what happens each millisecond.
    struct Flow {
        convergence: Convergence,
        now_ms: u64,
        unsent: u64,
        left: u64,
        drain_per_ms: u64,
        writes_per_ms: u64,
        /// For how long writers have waited in a row, ms; and the longest so far.
        waited: (u64, u64),
        /// Bytes that were written.
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

        /// A millisecond.
        fn pass(&mut self) -> ConvergenceStep {
            self.now_ms += 1;
            let now_ns = self.now_ms * MS;
            // Writers come in small pieces, and each asks.
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

        /// Milliseconds until the pause; none within `ms`.
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
        // What leaves stops at a moment when little is left.
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
