//! What time it is, for one counter read: the only crate that asks the machine.
//!
//! [`Clock::now`] gives a monotonic and a wall time from one reading of the processor's counter and an *anchor*: a
//! triple of counter, `CLOCK_MONOTONIC` and `CLOCK_REALTIME` taken together at most a millisecond ago.
//!
//! Invariants: (1) within one clock the monotonic time never decreases, and the wall time does only when the kernel's
//! stepped by more than a millisecond; (2) the monotonic time is `CLOCK_MONOTONIC`'s, so it may be compared with deadlines
//! that the kernel waits for; (3) an anchor is taken between two counter reads that lie close together, so being
//! descheduled between reads shifts nothing; (4) a counter that is not trusted, or ceases to be, is not used. There is no
//! shared state: each thread has its own clock.

#![deny(unsafe_code)]

mod clock;
mod machine;

pub use clock::{Clock, Kind};
pub use machine::{Machine, System};
