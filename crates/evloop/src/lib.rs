//! The event loop: operations are submitted, completions are returned, on any driver that the machine allows.
//!
//! Invariants: (1) one loop belongs to one thread; other threads reach it only through a [`Waker`]; (2) the
//! driver owns every byte the kernel may touch until the completion is delivered; (3) an iteration is
//! bounded: a fixed number of ready descriptors, accepted connections and timers, whatever the peers do; (4)
//! the loop never reads a clock: the caller passes the time in, in nanoseconds of `CLOCK_MONOTONIC`; (5)
//! after [`Loop::close`] no event carries that source's token any more; (6) in steady state no operation on a
//! socket or timer allocates, locks, or looks anything up by hash.
//!
//! The loop knows nothing of the protocol or of clients: a source is a descriptor and the caller's [`Token`].

#![deny(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "what only the ring uses"))]
#![allow(unexpected_cfgs, reason = "models of the waker are built with --cfg loom")]

mod any;
mod blocking;
mod chunk;
mod config;
mod driver;
mod event;
mod event_loop;
mod file;
mod gather;
mod handle;
mod mailbox;
mod metrics;
mod pool;
mod process;
mod send_buf;
mod slab;
mod sys;
mod timers;
mod waker;

pub use any::{AnyDriver, AnyLoop, Backend, Opened};
pub use chunk::Chunk;
pub use config::Config;
pub use driver::{Driver, GatherPlan, Sleep};
pub use event::{Event, Exit, FileDone, Interest, Received, Sending, Sent, Shutdown};
pub use event_loop::{Deadline, GatherMode, Iteration, Loop};
pub use file::{FileOp, FileWork};
pub use handle::{Fd, FileId, FileOpId, ProcessId, Source, Token};
pub use mailbox::{Mailbox, Sender};
pub use metrics::Metrics;
pub use pool::{
    Cancel, Finished, JobHandle, JobOutcome, JobState, PoolRefusal, PoolStatistics, RejectedJob, Worker,
    WorkerPool,
};
pub use send_buf::{SendBuf, Shared};
#[cfg(target_os = "linux")]
pub use sys::epoll::Epoll;
#[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "dragonfly"))]
pub use sys::kqueue::Kqueue;
pub use sys::poll::Poll;
#[cfg(target_os = "linux")]
pub use sys::uring::Uring;
pub use timers::{TimerId, Timers};
pub use waker::Waker;
