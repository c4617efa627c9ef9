//! Pauses between a replica's attempts to synchronise with its primary. Each failed full synchronisation
//! costs the primary a snapshot, so the pauses double, and jitter keeps replicas apart. If a link that was
//! up is lost, the replica connects again at once, because until then FAILOVER to the replica fails, WAIT
//! does not count the replica, and `min-replicas-to-write` may refuse writes. A pause follows only if links
//! are lost soon after they were up, several times in a row.

use sluice_base::Rng;
use sluice_base::mistake::{self, Mistake};

/// The pauses between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    rng: Rng,
    /// Number of full synchronisations that failed since the link was last up.
    failures: u32,
    /// Number of consecutive links that were lost within [`SHORT_NS`].
    short: u32,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Backoff {
        Backoff { rng: Rng::new(seed), failures: 0, short: 0 }
    }

    /// Records that the link is up, so that the next failed synchronisation counts as the first one.
    pub(crate) fn succeed(&mut self) {
        self.failures = 0;
    }

    /// Nanoseconds until the next attempt, if the last one cost the primary little because no snapshot was
    /// requested.
    pub(crate) fn after_refusal(&mut self) -> u64 {
        self.jittered(REFUSED_NS)
    }

    /// Nanoseconds until the next attempt when a link was lost that had been up for `lasted_ns`.
    pub(crate) fn after_loss(&mut self, lasted_ns: u64) -> u64 {
        self.short = if lasted_ns < SHORT_NS { self.short.saturating_add(1) } else { 0 };
        let most = if mistake::is_made(Mistake::ShortLinkPaused) { 0 } else { SHORT_MAX };
        if self.short > most { self.after_refusal() } else { 0 }
    }

    /// Nanoseconds until the next attempt when a full synchronisation has failed.
    pub(crate) fn after_failed_sync(&mut self) -> u64 {
        let pause_ns = FIRST_NS << self.failures.min(DOUBLINGS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.jittered(pause_ns)
    }

    /// A random pause between half of `pause_ns` and all of it.
    fn jittered(&mut self, pause_ns: u64) -> u64 {
        pause_ns / 2 + self.rng.below(pause_ns / 2 + 1)
    }
}

/// The longest pause after the first failed synchronisation, ns.
const FIRST_NS: u64 = 500_000_000;
/// The pause stops doubling after this many failures, at 64 seconds.
const DOUBLINGS_MAX: u32 = 7;
/// The longest pause after a primary could not be reached or has refused the replica, ns.
const REFUSED_NS: u64 = 1_000_000_000;
/// A link that was up for less than this counts as short, ns.
const SHORT_NS: u64 = 1_000_000_000;
/// After each of up to this many consecutive short links the replica connects again without a pause;
/// after further short links there is a pause. A few short links are usual when roles change, because
/// each end may kill the connection, each primary of a chain may end its history, and an order to follow
/// another primary may arrive at the same time. More short links in a row mean that a primary accepts
/// links and drops them.
const SHORT_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new(7);
        let mut last_max = 0;
        for failure in 0..20 {
            let max = FIRST_NS << u32::min(failure, DOUBLINGS_MAX);
            let pause = backoff.after_failed_sync();
            assert!((max / 2..=max).contains(&pause), "{pause} after failure {failure}");
            last_max = max;
        }
        assert_eq!(last_max, 64_000_000_000);
        backoff.succeed();
        assert!(backoff.after_failed_sync() <= FIRST_NS);
    }

    #[test]
    fn short_links_in_a_row_have_a_pause_behind_them_and_few_have_none() {
        let mut backoff = Backoff::new(7);
        for _ in 0..3 {
            let pauses: Vec<u64> = (0..8).map(|_| backoff.after_loss(SHORT_NS - 1)).collect();
            let (at_once, later) = pauses.split_at(SHORT_MAX as usize);
            assert!(at_once.iter().all(|pause| *pause == 0), "{pauses:?}");
            assert!(later.iter().all(|pause| *pause >= REFUSED_NS / 2), "{pauses:?}");
            // After a link that was up for long, the count of short links begins again.
            assert_eq!(backoff.after_loss(SHORT_NS), 0);
        }
    }

    #[test]
    fn two_replicas_do_not_keep_step() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..8).map(|_| backoff.after_failed_sync()).collect::<Vec<_>>()
        };
        assert_ne!(pauses(1), pauses(2));
        assert_eq!(pauses(1), pauses(1));
    }
}
