//! How much of the main thread's time a save gets.
//!
//! While clients work, a save has a 24th of the time that passes: it takes longer, and they keep the
//! processors, which the thread that writes the file needs, too, in proportion to what is captured. Without
//! clients a save follows upon itself. Times are monotonic nanoseconds.

/// Of so many parts of the time that passes, a save gets one while clients work. Measured with `behave save`:
/// a third leaves writers 0.4 to 0.5 of their throughput, an eighth 0.65.
const SHARE: u64 = 24;
/// Clients work when a command was executed in so much time.
const WORKING_NS: u64 = 5_000_000;
/// Less than this is not worth a slice: a look at the clock comes every 10 µs of capturing.
const SLICE_MIN_NS: u64 = 30_000;
/// Most time of a slice: what a client may wait for it.
const SLICE_MAX_NS: u64 = 250_000;

/// See the module.
#[derive(Debug, Default)]
pub struct SavePace {
    /// When the next slice is due; none is where nothing is to be captured now.
    next_ns: Option<u64>,
    /// The time that the save may use, as of `seen_ns`. Slices overdraw it; what is short is waited for.
    credit_ns: i64,
    seen_ns: u64,
    /// Commands executed until a look, and the last look that found new ones.
    commands: u64,
    worked_ns: u64,
}

impl SavePace {
    /// Until when the event loop may wait, for the sake of the save.
    pub fn next_ns(&self) -> u64 {
        self.next_ns.unwrap_or(u64::MAX)
    }

    /// The time that a slice may take now; none before it is due. `commands`: how many were executed since
    /// the start.
    pub fn budget(&mut self, now_ns: u64, commands: u64) -> Option<u64> {
        if std::mem::replace(&mut self.commands, commands) != commands {
            self.worked_ns = now_ns;
        }
        if self.worked_ns == 0 || now_ns.saturating_sub(self.worked_ns) >= WORKING_NS {
            return Some(SLICE_MAX_NS);
        }
        let passed = now_ns.saturating_sub(std::mem::replace(&mut self.seen_ns, now_ns));
        let earned = (passed / SHARE).min(SLICE_MAX_NS) as i64;
        self.credit_ns = (self.credit_ns + earned).min(SLICE_MAX_NS as i64);
        let short = SLICE_MIN_NS as i64 - self.credit_ns;
        if short > 0 {
            self.next_ns = Some(now_ns.saturating_add((short as u64).saturating_mul(SHARE)));
            return None;
        }
        Some(self.credit_ns as u64)
    }

    /// A slice took from `began_ns` to `now_ns`; there `is_more` to capture.
    pub fn end(&mut self, began_ns: u64, now_ns: u64, is_more: bool) {
        // An overdraft of more than a long slice is forgiven: a save never stands still for long.
        let left = self.credit_ns.saturating_sub_unsigned(now_ns.saturating_sub(began_ns));
        self.credit_ns = left.max(-(SLICE_MAX_NS as i64));
        self.next_ns = is_more.then_some(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The share of a second that slices get, each of 20 µs more than it may take, when commands are executed
    /// every so often.
    fn share(command_every_ns: u64) -> f64 {
        let (mut pace, mut spent, mut now) = (SavePace::default(), 0, MS);
        while now < 1000 * MS {
            match pace.budget(now, now / command_every_ns) {
                Some(budget) => {
                    let took = budget + 20_000;
                    spent += took;
                    pace.end(now, now + took, true);
                    now += took;
                }
                None => now = pace.next_ns().min(now + 100_000),
            }
        }
        spent as f64 / (1000 * MS) as f64
    }

    #[test]
    fn a_save_has_a_24th_of_the_time_beside_clients_and_all_of_it_without() {
        let beside = share(1_000);
        assert!((0.03..0.07).contains(&beside), "{beside}");
        assert!(share(u64::MAX) > 0.95);
    }

    #[test]
    fn nothing_is_due_where_nothing_can_be_captured() {
        let mut pace = SavePace::default();
        assert_eq!(pace.budget(10 * MS, 0), Some(SLICE_MAX_NS));
        pace.end(10 * MS, 11 * MS, false);
        assert_eq!(pace.next_ns(), u64::MAX);
    }

    #[test]
    fn a_slice_that_took_long_is_forgiven() {
        let mut pace = SavePace::default();
        pace.budget(10 * MS, 1);
        pace.end(10 * MS, 5_000 * MS, true);
        assert_eq!(pace.budget(5_000 * MS, 2), None);
        assert!(pace.next_ns() <= 5_003 * MS);
    }
}
