//! I/O threads: threads that own connections. An I/O thread polls, receives, parses, looks commands up
//! and hashes keys for its clients, and sends *batches* of prepared requests to the main thread; the main
//! thread sends back batches with replies.
//!
//! ```text
//!            adopt, reply, push, release    (a ring of its own for each: queue::spsc)
//!   main  ------------------------------>  I/O thread: its own event loop, its own connections
//!         <------------------------------
//!            batch, usage, ended, released  (a lane for each, with one notification word: queue::lanes)
//! ```
//!
//! Invariants: (1) a connection belongs to one thread at a time; of a connection that an I/O thread has, the
//! main thread keeps only the key and the id of the I/O thread (C-1); (2) a batch is owned by the thread
//! that has its `Box`; only the settings are shared, and they are immutable; (3) a connection has at most
//! one batch at the main thread, so its replies are in order; (4) no thread ever waits for room in a ring:
//! when a ring is full, the sender keeps further messages in order on its own side; (5) the executed part of
//! a connection's input is counted in bytes (C-2), and a look-up with the key of a client that is gone finds
//! nothing (C-3).

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

/// The main thread's name for an I/O thread, valid from the thread's start to its last message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoThreadId(pub usize);
