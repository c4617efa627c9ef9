//! Inputs and outputs of the loop: conditions, outcomes, events.

use std::io;
use std::os::fd::OwnedFd;

use crate::chunk::Chunk;
use crate::handle::{Fd, FileOpId, ProcessId, Token};
use crate::send_buf::SendBuf;
use crate::timers::TimerId;

/// A set of readiness conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// The empty set; watching for it ends a watch.
    pub const NONE: Interest = Interest(0);
    /// Bytes, a connection or the end of the stream can be read.
    pub const READABLE: Interest = Interest(1);
    /// Urgent data (`POLLPRI`).
    pub const PRIORITY: Interest = Interest(2);
    /// Bytes can be written, or a connect is done.
    pub const WRITABLE: Interest = Interest(4);
    /// An error is pending. Reported without being requested; not a condition to watch for.
    pub const ERROR: Interest = Interest(8);
    /// Both directions are shut. Reported without being requested; not a condition to watch for.
    pub const HANGUP: Interest = Interest(16);

    /// The union of both sets.
    #[must_use]
    pub const fn or(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Interest) -> Interest {
        Interest(self.0 & other.0)
    }

    /// Whether any condition of `other` is in this set.
    pub const fn intersects(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Directions of a stream to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// The receiving side: no more is received.
    Read,
    /// The sending side; the peer sees the end of the stream after the bytes already sent.
    Write,
    /// Both the receiving and the sending side.
    Both,
}

/// The result of a receive.
#[derive(Debug)]
pub enum Received {
    /// At least one byte; receiving continues.
    Data(Chunk),
    /// The peer will send no more; receiving has stopped.
    Eof,
    /// The stream failed; receiving has stopped. Never `EAGAIN` or `EINTR`.
    Failed(io::Error),
}

/// A finished send: the buffer is returned, still full, for the caller to clear and use again.
#[derive(Debug)]
pub struct Sent {
    /// The buffer that was handed in, unchanged.
    pub buf: SendBuf,
    /// Bytes that the kernel took: all of them unless `error` is set.
    pub bytes: usize,
    /// The reason why the rest was not sent; the stream can send no more.
    pub error: Option<io::Error>,
}

/// The immediate result of a send.
#[derive(Debug)]
#[must_use = "a send that is done brings its buffer home here, and no event follows"]
pub enum Sending {
    /// The send is finished; no event follows.
    Done(Sent),
    /// The send continues; [`Event::Sent`] follows.
    InFlight,
}

/// A finished operation on a file; the buffer is returned.
#[derive(Debug)]
pub struct FileDone {
    /// The operation that has finished.
    pub id: FileOpId,
    /// The buffer that was handed in; a read has filled `buf[from..from + bytes]`.
    pub buf: Vec<u8>,
    /// Bytes moved. Fewer than requested, without an error, means that the file ended.
    pub bytes: usize,
    /// The reason why no more bytes were moved: `ECANCELED` for a cancelled operation, `EBADF` for a file
    /// that was closed before, `ENOSPC` also for a write that moved nothing without an error. Always has
    /// an errno, unless a thread of the pool panicked.
    pub error: Option<io::Error>,
}

/// How a wait for a process ended.
#[derive(Debug)]
pub enum Exit {
    /// The process ended by exiting.
    Exited {
        /// The id of the process, which another process may have now.
        pid: i32,
        /// The exit code, 0..=255.
        code: i32,
    },
    /// A signal ended the process.
    Killed {
        /// The id of the process, which another process may have now.
        pid: i32,
        /// The number of the signal.
        signal: i32,
        /// Whether the process left a core dump.
        core_dumped: bool,
    },
    /// There is no such child, or it was reaped already (`ECHILD`).
    NoChild,
    /// The wait was cancelled.
    Cancelled,
    /// Waiting for the process failed.
    Failed(io::Error),
}

/// One completion, or one due timer.
#[derive(Debug)]
pub enum Event {
    /// A listener has a new connection: nonblocking, close-on-exec, not attached yet.
    Accepted {
        /// The token of the listener.
        token: Token,
        /// The new connection's descriptor.
        socket: OwnedFd,
    },
    /// Accepting failed, most often for want of descriptors; the loop tries again after a pause that grows
    /// from 10 to 500 ms.
    AcceptFailed {
        /// The token of the listener.
        token: Token,
        /// The error of the failed accept.
        error: io::Error,
    },
    /// A source under [`Loop::recv_start`](crate::Loop::recv_start) received or ended.
    Received {
        /// The token of the receiving source.
        token: Token,
        /// The bytes, the end of the stream, or an error.
        received: Received,
    },
    /// A [`Loop::recv_into`](crate::Loop::recv_into) has ended.
    Filled {
        /// The token of the receiving source.
        token: Token,
        /// The buffer, with the received bytes appended.
        buf: Vec<u8>,
        /// `None` when the wanted bytes were received or
        /// [`Loop::recv_into_end`](crate::Loop::recv_into_end) was called; otherwise the reason why bytes
        /// are missing: `UnexpectedEof` for the end of the stream, or the stream's failure.
        error: Option<io::Error>,
    },
    /// A send that was in flight has ended.
    Sent {
        /// The token of the sending source.
        token: Token,
        /// The buffer and the outcome of the send.
        sent: Sent,
    },
    /// A watched source is ready; the watch has ended and must be renewed.
    Ready {
        /// The token of the watched source.
        token: Token,
        /// The conditions of the watch that hold, with `ERROR` and `HANGUP` added where they
        /// hold. Never empty.
        ready: Interest,
    },
    /// A descriptor that [`Loop::detach`](crate::Loop::detach) has released.
    Detached {
        /// The token of the detached source.
        token: Token,
        /// The descriptor, still open.
        fd: Fd,
    },
    /// An operation of [`Loop::file_start`](crate::Loop::file_start) has ended.
    FileDone {
        /// The token of the file operation.
        token: Token,
        /// The buffer and the outcome of the operation.
        done: FileDone,
    },
    /// A [`Loop::process_wait`](crate::Loop::process_wait) has ended.
    ProcessEnded {
        /// The token of the wait.
        token: Token,
        /// The wait that has ended.
        id: ProcessId,
        /// The end of the process, or of the wait.
        exit: Exit,
    },
    /// A timer is due.
    Timer {
        /// The token of the timer.
        token: Token,
        /// The timer, which is no longer set.
        id: TimerId,
    },
}

impl Event {
    /// The token of the source, operation or timer that the event is about.
    #[inline(always)]
    pub fn token(&self) -> Token {
        match self {
            // Nearly all events are receives, which cost one comparison here; the compiler can merge it
            // with the caller's own `match`.
            Event::Received { token, .. } => *token,
            other => other.rarer_token(),
        }
    }

    fn rarer_token(&self) -> Token {
        match self {
            Event::Received { token, .. }
            | Event::Sent { token, .. }
            | Event::Filled { token, .. }
            | Event::Accepted { token, .. }
            | Event::AcceptFailed { token, .. }
            | Event::Ready { token, .. }
            | Event::Detached { token, .. }
            | Event::FileDone { token, .. }
            | Event::ProcessEnded { token, .. }
            | Event::Timer { token, .. } => *token,
        }
    }
}
