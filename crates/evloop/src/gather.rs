//! Decides when a wait gathers events, that is, lasts a little longer in order to return several: it does so
//! when many connections are active, and several receives are expected during the wait.
//!
//! A server that is faster than its clients sleeps and is woken for nearly every request. Sleeping a
//! little longer lets several requests share one wake-up; with few clients it would only delay them.

use crate::driver::GatherPlan;
use crate::handle::Token;

/// Counts the receives in windows of [`WINDOW_NS`].
#[derive(Debug)]
pub(crate) struct Gather {
    wait_us: u32,
    window_began_ns: u64,
    now: Window,
    last: Window,
    /// One bit per hash of a token that was active in this window.
    seen: [u64; SEEN_WORDS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    receives: u32,
    /// Number of distinct connections, slightly too small if hashes collide.
    active: u32,
}

impl Gather {
    pub(crate) const fn new(wait_us: u32) -> Gather {
        let empty = Window { receives: 0, active: 0 };
        Gather { wait_us, window_began_ns: 0, now: empty, last: empty, seen: [0; SEEN_WORDS] }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.wait_us != 0
    }

    /// Counts a receive of this connection.
    #[inline]
    pub(crate) fn note(&mut self, token: Token) {
        let hash = token.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 10);
        let (word, bit) = ((hash >> 6) as usize % SEEN_WORDS, 1 << (hash & 63));
        self.now.receives = self.now.receives.saturating_add(1);
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.now.active += 1;
        }
    }

    /// Decides whether the wait that begins now gathers events.
    pub(crate) fn plan(&mut self, now_ns: u64) -> GatherPlan {
        let age_ns = now_ns.saturating_sub(self.window_began_ns);
        if age_ns >= WINDOW_NS {
            // After a long silence the counts of the last window are outdated.
            self.last = if age_ns < 2 * WINDOW_NS { self.now } else { Window::default() };
            self.now = Window::default();
            self.seen = [0; SEEN_WORDS];
            self.window_began_ns = now_ns;
        }
        let expected = (u64::from(self.last.receives) * u64::from(self.wait_us)).div_ceil(WINDOW_NS / 1000);
        if self.last.active < ACTIVE_MIN || expected < EXPECTED_MIN {
            return GatherPlan::default();
        }
        GatherPlan { wait_us: self.wait_us, completions: self.last.active }
    }
}

const WINDOW_NS: u64 = 8_000_000;
const ACTIVE_MIN: u32 = 24;
const EXPECTED_MIN: u64 = 3;
const SEEN_WORDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan after a window with this many receives from this many connections.
    fn after(receives: u64, connections: u64) -> GatherPlan {
        let mut gather = Gather::new(30);
        assert_eq!(gather.plan(100_000_000), GatherPlan::default());
        for receive in 0..receives {
            gather.note(Token(receive % connections));
        }
        gather.plan(100_000_000 + WINDOW_NS)
    }

    #[test]
    fn gathers_only_for_many_connections_that_speak_often() {
        assert_eq!(after(800, 50).wait_us, 30);
        assert_eq!(after(800, 16).wait_us, 0, "few connections");
        assert_eq!(after(500, 50).wait_us, 0, "few requests");
        assert_eq!(after(0, 1).wait_us, 0);
    }

    #[test]
    fn a_silence_ends_it() {
        let mut gather = Gather::new(30);
        let _ = gather.plan(100_000_000);
        (0..1000).for_each(|token| gather.note(Token(token % 60)));
        assert_eq!(gather.plan(100_000_000 + 3 * WINDOW_NS), GatherPlan::default());
        assert_eq!(gather.plan(100_000_000 + 5 * WINDOW_NS), GatherPlan::default());
    }
}
