//! The interface between the loop and its drivers.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::config::Config;
use crate::event::{Event, Interest, Sending, Shutdown};
use crate::file::FileOp;
use crate::handle::{Fd, FileId, FileOpId, ProcessId, Source, Token};
use crate::metrics::Metrics;
use crate::send_buf::SendBuf;
use crate::sys::wake::WakeFd;
use crate::waker::Waker;

/// The time that a driver may block for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Only check for events, without blocking.
    No,
    /// Until this time, in nanoseconds of `CLOCK_MONOTONIC`.
    Until(u64),
    /// Until an event, without a limit of time.
    Forever,
}

/// A gathering wait: it lasts until `completions` events have arrived, but at most `wait_us` microseconds;
/// `wait_us` is 0 for no gathering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatherPlan {
    /// Microseconds to gather events for.
    pub wait_us: u32,
    /// Number of events after which gathering ends early, in drivers that count them.
    pub completions: u32,
}

/// A driver over one kernel interface, such as epoll. No operation on a source, file or process returns an
/// error: failures become events. The contracts of the operations are those of the methods of the same name
/// on [`Loop`](crate::Loop).
#[allow(missing_docs, reason = "documented where callers meet them, on Loop")]
pub trait Driver: Sized {
    /// The driver's name in configuration and INFO.
    fn name(&self) -> &'static str;

    /// Opens the driver on the thread that will use it; `wake` becomes readable when the loop must wake up.
    fn open(config: &Config, wake: &Arc<WakeFd>) -> io::Result<Self>;

    /// Waits for kernel events and resets the budgets of the iteration. Returns the number of events, the
    /// waker's included; 0 for an interrupted wait.
    fn wait(&mut self, now_ns: u64, sleep: Sleep) -> io::Result<usize>;

    /// The iteration's next event. May make the system call that produces it.
    fn next_event(&mut self, now_ns: u64) -> Option<Event>;

    /// The driver's counters; the loop itself keeps those of iterations, sleeps, events, timers, gathering
    /// and wake-ups.
    fn metrics(&mut self) -> &mut Metrics;

    /// Bytes that the allocator holds for the driver, as far as they can change while it runs.
    /// O(sends in flight).
    fn footprint(&self) -> usize;

    /// Time of the driver's next work that needs no kernel event; 0 for at once.
    fn due_ns(&self) -> u64;

    /// Makes the next wait, if it blocks, gather more events before it returns.
    fn batch(&mut self, batch: GatherPlan);

    fn set_accepts_per_iteration(&mut self, accepts: u32);
    fn attach(&mut self, fd: Fd, token: Token) -> Source;
    fn set_token(&mut self, source: Source, token: Token);
    fn fd(&self, source: Source) -> Option<BorrowedFd<'_>>;
    fn accept_start(&mut self, source: Source);
    fn recv_start(&mut self, source: Source);
    fn recv_stop(&mut self, source: Source);
    fn recv_into(&mut self, source: Source, buf: Vec<u8>, wanted: usize);
    fn recv_into_end(&mut self, source: Source);
    fn give_back(&mut self, chunk: Chunk);
    fn send(&mut self, source: Source, buf: SendBuf) -> Sending;
    fn has_sent(&mut self, source: Source) -> bool;
    fn watch(&mut self, source: Source, interest: Interest);
    fn shutdown(&mut self, source: Source, how: Shutdown);
    fn close(&mut self, source: Source);
    fn detach(&mut self, source: Source);
    fn file_open(&mut self, fd: Arc<OwnedFd>) -> FileId;
    fn file_start(&mut self, file: FileId, op: FileOp, token: Token) -> FileOpId;
    fn file_cancel(&mut self, id: FileOpId);
    fn file_close(&mut self, file: FileId);
    fn process_wait(&mut self, pid: i32, token: Token) -> ProcessId;
    fn process_cancel(&mut self, id: ProcessId);

    /// Sets the waker that helper threads use; called once, directly after `open`.
    fn use_waker(&mut self, waker: Waker);

    /// Called after the waker was used, because helper threads may have finished their work.
    fn woken(&mut self);
}
