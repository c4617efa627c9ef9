//! IO threads: workers that own connections. A worker polls, receives, parses, looks commands up and hashes keys for its
//! clients, and hands the executing thread *batches* of prepared requests; the executing thread hands back batches of
//! replies.
//!
//! ```text
//!            adopt, reply, push, release    (a private ring per worker: queue::spsc)
//!   main  ------------------------------>  worker: its own event loop, its own connections
//!         <------------------------------
//!            batch, sent, gone, released    (a lane per worker and a doorbell: queue::lanes)
//! ```
//!
//! Invariants: (1) a connection's socket belongs to one thread at a time; what the executing thread holds of it is a key and the
//! number of its worker (C-1); (2) a batch is owned by whoever holds the box: nothing is shared but the settings, which are
//! immutable; (3) a connection has at most one batch at the executing thread, so its replies are in order; (4) neither side
//! ever waits for the other: a full ring makes the sender keep its messages in order on its own side; (5) progress is
//! counted in bytes (C-2), and a stale key finds nothing (C-3).

mod balance;
mod job;
mod policy;
mod pool;
mod worker;

pub use balance::Balance;
pub use job::{Adopted, Batch, Ended, Push, Settings, ToMain, ToWorker, Traffic};
pub use policy::{Policy, Signals};
pub use pool::Pool;
