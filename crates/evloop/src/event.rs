//! What goes in and out of the loop: conditions, outcomes, events.

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
    /// Nothing.
    pub const NONE: Interest = Interest(0);
    /// Bytes, a connection or the end of the stream can be read.
    pub const READABLE: Interest = Interest(1);
    /// Urgent data (`POLLPRI`).
    pub const PRIORITY: Interest = Interest(2);
    /// Bytes can be written, or a connect is done.
    pub const WRITABLE: Interest = Interest(4);
    /// An error is pending; only in results.
    pub const ERROR: Interest = Interest(8);
    /// Both directions are shut; only in results.
    pub const HANGUP: Interest = Interest(16);

    /// Both sets together.
    #[must_use]
    pub const fn or(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// What is in both sets.
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

/// Which directions of a stream to shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// No more is received.
    Read,
    /// No more is sent; the peer sees the end of the stream after what was sent.
    Write,
    /// Both.
    Both,
}

/// What a receive brought.
#[derive(Debug)]
pub enum Received {
    /// At least one byte; receiving goes on.
    Data(Chunk),
    /// The peer will send no more; receiving has stopped.
    Eof,
    /// The stream failed; receiving has stopped. Never `EAGAIN` or `EINTR`.
    Failed(io::Error),
}

/// A finished send: the buffer comes home, still full, for the caller to clear and use again.
#[derive(Debug)]
pub struct Sent {
    /// The buffer that was handed in, unchanged.
    pub buf: SendBuf,
    /// Bytes the kernel took: all of them unless `error` is set.
    pub bytes: usize,
    /// Why the rest was not sent; the stream is of no further use for sending.
    pub error: Option<io::Error>,
}

/// What became of a send at once.
#[derive(Debug)]
#[must_use = "a send that is done brings its buffer home here, and no event follows"]
pub enum Sending {
    /// It is over already; no event follows.
    Done(Sent),
    /// It goes on; [`Event::Sent`] follows.
    InFlight,
}

/// A finished operation; the buffer comes home.
#[derive(Debug)]
pub struct FileDone {
    /// Which one.
    pub id: FileOpId,
    /// The buffer that was handed in; of a read, `buf[from..from + bytes]` is new.
    pub buf: Vec<u8>,
    /// Bytes that were moved. Fewer than asked for, without an error, means that the file ended.
    pub bytes: usize,
    /// Why no more were moved; `ECANCELED` when it was cancelled, `EBADF` when the file was closed before,
    /// `ENOSPC` also when a write moved nothing and the system said nothing. Always with an errno, unless a
    /// thread of the pool panicked.
    pub error: Option<io::Error>,
}

/// How a wait for a process ended.
#[derive(Debug)]
pub enum Exit {
    /// The process exited.
    Exited {
        /// Its id, which is free for another process now.
        pid: i32,
        /// What it returned, 0..=255.
        code: i32,
    },
    /// A signal ended the process.
    Killed {
        /// Its id, which is free for another process now.
        pid: i32,
        /// The signal's number.
        signal: i32,
        /// It left a core dump.
        core_dumped: bool,
    },
    /// There is no such child, or none any more (`ECHILD`).
    NoChild,
    /// The wait was cancelled.
    Cancelled,
    /// It could not be waited.
    Failed(io::Error),
}

/// One completion.
#[derive(Debug)]
pub enum Event {
    /// A listener has a new connection: nonblocking, close-on-exec, not attached yet.
    Accepted {
        /// The listener's token.
        token: Token,
        /// The connection.
        socket: OwnedFd,
    },
    /// Accepting failed, most often for want of descriptors; the loop tries again after a pause that grows
    /// from 10 to 500 ms.
    AcceptFailed {
        /// The listener's token.
        token: Token,
        /// The cause.
        error: io::Error,
    },
    /// A source under [`Loop::recv_start`](crate::Loop::recv_start) received or ended.
    Received {
        /// The source's token.
        token: Token,
        /// Bytes, end or error.
        received: Received,
    },
    /// A [`Loop::recv_into`](crate::Loop::recv_into) is over.
    Filled {
        /// The source's token.
        token: Token,
        /// The buffer, longer by what was received.
        buf: Vec<u8>,
        /// `None` when the wanted bytes are there; else the stream ended (`UnexpectedEof`) or failed before.
        error: Option<io::Error>,
    },
    /// A send that was in flight is over.
    Sent {
        /// The source's token.
        token: Token,
        /// Buffer and outcome.
        sent: Sent,
    },
    /// A watched source is ready; the watch is over and must be renewed.
    Ready {
        /// The source's token.
        token: Token,
        /// The part of the watch that came true, with `ERROR` and `HANGUP` added where they hold. Never
        /// empty.
        ready: Interest,
    },
    /// A descriptor that [`Loop::detach`](crate::Loop::detach) let go of.
    Detached {
        /// The source's token.
        token: Token,
        /// The descriptor, open.
        fd: Fd,
    },
    /// An operation of [`Loop::file_start`](crate::Loop::file_start) is over.
    FileDone {
        /// The operation's token.
        token: Token,
        /// Buffer and outcome.
        done: FileDone,
    },
    /// A [`Loop::process_wait`](crate::Loop::process_wait) is over.
    ProcessEnded {
        /// The wait's token.
        token: Token,
        /// Which one.
        id: ProcessId,
        /// What became of the process, or of the wait.
        exit: Exit,
    },
    /// A timer is due.
    Timer {
        /// The timer's token.
        token: Token,
        /// The timer, which is over.
        id: TimerId,
    },
}

impl Event {
    /// The token of the source, operation or timer that the event is about.
    #[inline(always)]
    pub fn token(&self) -> Token {
        match self {
            // Nearly all: one comparison, and the caller's own `match` need not be made again.
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
