//! The time of day and the monotonic time for the price of one counter read. Only this crate
//! reads the machine's clocks.
//!
//! [`Clock::now`] gives a monotonic and a wall time from one reading of the processor's counter and an
//! *anchor*: a triple of counter, `CLOCK_MONOTONIC` and `CLOCK_REALTIME` taken together at most a millisecond
//! ago.
//!
//! Invariants: (1) within one clock the monotonic time never decreases, and the wall time decreases only
//! when the kernel's wall clock is set back by more than a millisecond; (2) the monotonic time is
//! `CLOCK_MONOTONIC`'s, so it may be compared with deadlines that the kernel waits for; (3) an anchor is
//! taken between two counter reads that lie close together, so being descheduled between reads shifts
//! nothing; (4) a counter that is not trusted, or ceases to be, is not used. There is no shared state: each
//! thread has its own clock.
//!
//! # How wrong a reading may be
//!
//! A reading differs from the kernel's clock at the instant of the reading by at most 2 us, which is the
//! sum of
//!
//! | part | bound |
//! |---|---|
//! | anchor: its kernel readings lie somewhere between two counter readings at most 2 us apart, and count as taken in the middle | 1.0 us |
//! | rate: measured over at least 10 ms between two such anchors, 2 us in 10 ms, used for at most 1 ms | 0.2 us |
//! | slewing: NTP changes the kernel's rate by at most 500 ppm, within the same 1 ms | 0.5 us |
//! | granularity: one tick of the slowest counter, 19.2 MHz | 0.06 us |
//! | rounding: rate to 2^-32 ns per tick, sum to a nanosecond | 0.002 us |
//!
//! together 1.76 us. The wall time is then cut to whole microseconds, as the kernel's would be. The rate's
//! share falls as the baseline grows, to 2 ppm after a second. The bound does not hold in the millisecond
//! after an anchor whose four tries were all descheduled between their readings; the bound is then half the
//! shortest of the four brackets. A clock that is pushed back by less than a millisecond (a correction of an
//! estimate, not a step) stands still until the true time has caught up; the error then stays within the
//! bound, because the correction does. Tests check all of this on a fake machine whose counter runs at 19.2
//! MHz to 5 GHz, with preemption, freezing, jumps, slewing and wrap-around.

#![deny(unsafe_code)]

mod clock;
mod machine;

pub use clock::{Clock, News, SourceWatch, TimeSource};
pub use machine::{Machine, System};
