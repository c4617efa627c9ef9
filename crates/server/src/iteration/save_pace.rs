//! The share of the main thread's time that a save gets.
//!
//! While clients send commands, a save gets between a 24th and a quarter of the time. Within these bounds,
//! it gets as much time as keeps the threads that format and write the file busy for half of the time. If
//! the clients leave a processor free and capturing takes less than a quarter of the time, such a save takes
//! about twice as long as a save without clients. If the clients use all processors, or the disk is slow,
//! more of the main thread's time would not help the save, so the clients keep this time. Without clients,
//! slices follow each other immediately. Times are monotonic nanoseconds.
//!
//! ```text
//!  look (each iteration): is all written that was captured? ──► share of a window in which it was
//!                                                                  │ above a half: more time for the save
//!                                                                  └ below three eighths: less
//! ```

/// While clients send commands, a save gets at least 1/`PARTS_MAX` of the time.
const PARTS_MAX: u64 = 24;
/// While clients send commands, a save gets at most 1/`PARTS_MIN` of the time. Measurements with `behave
/// save` on two processors: if a save gets a third, writers keep 0.4 to 0.5 of their throughput; if it
/// gets an eighth, they keep 0.65.
const PARTS_MIN: u64 = 4;
/// The time for which the threads' idle time is measured before the share may change.
const WINDOW_NS: u64 = 10_000_000;
/// Clients count as sending commands if a command was executed within this time.
const WORKING_NS: u64 = 5_000_000;
/// A slice shorter than this is not worth its cost, because capturing reads the clock every 10 µs.
const SLICE_MIN_NS: u64 = 30_000;
/// Maximum time of a slice. Clients have to wait for about this time.
const SLICE_MAX_NS: u64 = 250_000;

/// The pace of one save: when its next slice is due, and how much time the slice may take.
#[derive(Debug)]
pub struct SavePace {
    /// When the next slice is due; `None` while there is nothing to capture.
    next_ns: Option<u64>,
    /// The time that the save may use, computed at `seen_ns`. Slices may use more, so that the value
    /// becomes negative; the next slice then waits until enough time has passed.
    credit_ns: i64,
    seen_ns: u64,
    /// The number of commands that had been executed at the last call of `budget`.
    commands: u64,
    /// When `budget` last found that commands had been executed since the previous call.
    worked_ns: u64,
    /// The save gets 1/`parts` of the time.
    parts: u64,
    /// The part of the present window that has passed.
    window_ns: u64,
    /// The part of `window_ns` in which the threads of the save had nothing to do.
    starved_ns: u64,
}

impl Default for SavePace {
    fn default() -> SavePace {
        SavePace {
            next_ns: None,
            credit_ns: 0,
            seen_ns: 0,
            commands: 0,
            worked_ns: 0,
            parts: PARTS_MAX,
            window_ns: 0,
            starved_ns: 0,
        }
    }
}

impl SavePace {
    /// Whether `budget` was called since this value was made.
    pub fn has_begun(&self) -> bool {
        self.seen_ns != 0
    }

    /// The time until which the event loop may wait; `u64::MAX` if no slice is planned.
    pub fn next_ns(&self) -> u64 {
        self.next_ns.unwrap_or(u64::MAX)
    }

    /// The time that a slice may take now; `None` before the slice is due. `commands`: the number of
    /// commands executed since the start. `is_starved`: whether all captured entries have been written.
    pub fn budget(&mut self, now_ns: u64, commands: u64, is_starved: bool) -> Option<u64> {
        if std::mem::replace(&mut self.commands, commands) != commands {
            self.worked_ns = now_ns;
        }
        if self.worked_ns == 0 || now_ns.saturating_sub(self.worked_ns) >= WORKING_NS {
            self.seen_ns = now_ns;
            return Some(SLICE_MAX_NS);
        }
        let seen_ns = std::mem::replace(&mut self.seen_ns, now_ns);
        let passed = if seen_ns == 0 { 0 } else { now_ns.saturating_sub(seen_ns) };
        self.watch(passed, is_starved);
        let earned = (passed / self.parts).min(SLICE_MAX_NS) as i64;
        self.credit_ns = (self.credit_ns + earned).min(SLICE_MAX_NS as i64);
        let short = SLICE_MIN_NS as i64 - self.credit_ns;
        if short > 0 {
            self.next_ns = Some(now_ns.saturating_add((short as u64).saturating_mul(self.parts)));
            return None;
        }
        Some(self.credit_ns as u64)
    }

    /// Counts elapsed time, and changes the save's share at the end of a window.
    fn watch(&mut self, passed_ns: u64, is_starved: bool) {
        self.window_ns += passed_ns;
        self.starved_ns += if is_starved { passed_ns } else { 0 };
        if self.window_ns < WINDOW_NS {
            return;
        }
        if self.starved_ns > self.window_ns / 2 {
            self.parts = (self.parts * 4 / 5).max(PARTS_MIN);
        } else if self.starved_ns < self.window_ns / 8 * 3 {
            self.parts = (self.parts + self.parts / 8 + 1).min(PARTS_MAX);
        }
        (self.window_ns, self.starved_ns) = (0, 0);
    }

    /// Records a slice that took from `began_ns` to `now_ns`. `is_more`: whether there are more entries to
    /// capture.
    pub fn end(&mut self, began_ns: u64, now_ns: u64, is_more: bool) {
        // The value does not fall below the negative time of one long slice, so that a save never stops for
        // long.
        let left = self.credit_ns.saturating_sub_unsigned(now_ns.saturating_sub(began_ns));
        self.credit_ns = left.max(-(SLICE_MAX_NS as i64));
        self.next_ns = is_more.then_some(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The share of a second that slices take, and the share for which the writing thread is busy, when a
    /// command is executed every `command_every_ns`. Each slice takes 20 µs more than its budget, and
    /// causes work for the writing thread that takes `work_of_slice` times the slice's own time.
    fn shares(command_every_ns: u64, work_of_slice: f64) -> (f64, f64) {
        let (mut pace, mut spent, mut busy, mut now, mut busy_until) = (SavePace::default(), 0, 0.0, MS, 0.0);
        while now < 1000 * MS {
            let is_starved = busy_until <= now as f64;
            match pace.budget(now, now / command_every_ns, is_starved) {
                Some(budget) => {
                    let took = budget + 20_000;
                    let work = took as f64 * work_of_slice;
                    (spent, busy) = (spent + took, busy + work);
                    busy_until = busy_until.max(now as f64) + work;
                    pace.end(now, now + took, true);
                    now += took;
                }
                None => now = pace.next_ns().min(now + 100_000),
            }
        }
        (spent as f64 / (1000 * MS) as f64, busy / (1000 * MS) as f64)
    }

    #[test]
    fn a_save_beside_clients_keeps_the_thread_busy_for_half_of_the_time() {
        for work_of_slice in [2.5, 4.0, 8.0] {
            let (spent, busy) = shares(1_000, work_of_slice);
            // The bounds are wide, because the state that one call of `budget` sees counts for all the
            // time since the previous call.
            assert!((0.42..0.85).contains(&busy), "{work_of_slice}: {spent}, {busy}");
        }
    }

    #[test]
    fn a_save_beside_clients_has_a_24th_of_the_time_at_least_and_a_quarter_at_most() {
        let (least, _) = shares(1_000, 100.0);
        assert!((0.03..0.07).contains(&least), "{least}");
        let (most, _) = shares(1_000, 0.1);
        assert!((0.2..0.3).contains(&most), "{most}");
    }

    #[test]
    fn a_save_without_clients_has_all_of_the_time() {
        assert!(shares(u64::MAX, 1.0).0 > 0.95);
    }

    #[test]
    fn nothing_is_due_where_nothing_can_be_captured() {
        let mut pace = SavePace::default();
        assert_eq!(pace.budget(10 * MS, 0, true), Some(SLICE_MAX_NS));
        pace.end(10 * MS, 11 * MS, false);
        assert_eq!(pace.next_ns(), u64::MAX);
    }

    #[test]
    fn a_slice_that_took_long_is_forgiven() {
        let mut pace = SavePace::default();
        pace.budget(10 * MS, 1, false);
        pace.end(10 * MS, 5_000 * MS, true);
        assert_eq!(pace.budget(5_000 * MS, 2, false), None);
        assert!(pace.next_ns() <= 5_010 * MS);
    }
}
