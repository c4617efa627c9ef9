//! I/O threads: threads that own connections. An I/O thread polls, receives, parses, looks commands up and
//! hashes keys for its clients, and sends the main thread *batches* of prepared requests; the main thread
//! sends back batches of replies.
//!
//! ```text
//!            adopt, reply, push, release    (a ring of its own for each: queue::spsc)
//!   main  ------------------------------>  I/O thread: its own event loop, its own connections
//!         <------------------------------
//!            batch, usage, ended, released  (a lane for each, with one notification word: queue::lanes)
//! ```
//!
//! Invariants: (1) a connection belongs to one thread at a time; what the main thread keeps of it is a key
//! and the id of its I/O thread (C-1); (2) a batch is owned by the thread that has the box: nothing is shared
//! but the settings, which are immutable; (3) a connection has at most one batch at the main thread, so its
//! replies are in order; (4) neither side ever waits for the other: a full ring makes the sender keep its
//! messages in order on its own side; (5) progress is counted in bytes (C-2), and a stale key finds nothing
//! (C-3).

mod balance;
pub mod main_share;
mod manager;
mod message;
mod policy;
mod pool;
pub mod spin;
mod thread;

pub use manager::{MainSockets, Manager};
pub use message::{AfterPush, Batch, BatchOutcome, Moving, Push, ToIoThread, ToMain};

/// What the main thread calls an I/O thread: from its start to its last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoThreadId(pub usize);
