//! The interface between the io_uring driver and the kernel, for which tests can substitute a scripted ring.

// JUSTIFICATION: operations carry addresses, whose validity only their owner can guarantee; no unsafe block
// is here.
#![allow(unsafe_code, reason = "declares the contract")]

use std::io;
use std::os::fd::RawFd;

use crate::config::Config;
use crate::file::Part;

/// One completion queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe {
    /// The user data of the operation.
    pub user_data: u64,
    /// The result, or a negated errno.
    pub result: i32,
    /// Flags of the completion, `IORING_CQE_F_…`.
    pub flags: u32,
}

impl Cqe {
    /// More completions of the same operation follow.
    #[inline]
    pub fn more(&self) -> bool {
        self.flags & CQE_MORE != 0
    }

    /// Whether the socket holds more bytes.
    #[inline]
    pub(crate) fn nonempty(&self) -> bool {
        self.flags & CQE_SOCK_NONEMPTY != 0
    }

    /// The provided buffer that was used.
    #[inline]
    pub fn buffer(&self) -> Option<u16> {
        (self.flags & CQE_BUFFER != 0).then_some((self.flags >> 16) as u16)
    }
}

/// Flag `IORING_CQE_F_BUFFER`: the upper 16 bits have a buffer's id.
pub(crate) const CQE_BUFFER: u32 = 1;
/// Flag `IORING_CQE_F_MORE`: more completions of the operation follow.
pub(crate) const CQE_MORE: u32 = 2;
/// Flag `IORING_CQE_F_SOCK_NONEMPTY`: the socket holds more bytes.
pub(crate) const CQE_SOCK_NONEMPTY: u32 = 4;

/// Operations without a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A multishot receive into provided buffers: it repeats until the operation ends.
    RecvMulti {
        /// The socket to receive from.
        fd: RawFd,
    },
    /// A multishot accept: accepted sockets are nonblocking and close-on-exec, and the operation repeats
    /// until it ends.
    AcceptMulti {
        /// The listener to accept from.
        fd: RawFd,
    },
    /// Reports the readiness of a descriptor once.
    Poll {
        /// The descriptor to poll.
        fd: RawFd,
        /// Conditions of poll(2): `POLLIN` and the like.
        events: u32,
    },
    /// Reports the readiness of a descriptor at each change (edge-triggered), until the operation ends.
    PollMulti {
        /// The descriptor to poll.
        fd: RawFd,
        /// Conditions of poll(2): `POLLIN` and the like.
        events: u32,
    },
    /// Asks the operation pushed with `target` to end. The cancellation itself completes within `enter`.
    Cancel {
        /// User data of the operation.
        target: u64,
    },
    /// Waits until all bytes written to the file are on the storage medium.
    Sync {
        /// The file to sync.
        fd: RawFd,
        /// Whether the file's metadata need not be synced.
        data_only: bool,
    },
    /// Closes the descriptor. Completes within `enter`.
    Close {
        /// The descriptor, owned by the operation.
        fd: RawFd,
    },
}

/// The behaviour of a send on a full socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Does not wait: the send completes within `enter`, even if it is short or fails with `EAGAIN`.
    None,
    /// Waits until everything is sent, as far as the kernel supports this.
    All,
}

/// How long `enter` may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Does not block, but lets the kernel do its deferred work.
    No,
    /// Blocks until there are `completions` completions, or until `until_ns` if it is given. If `min_wait_us`
    /// is not 0, one completion suffices once `min_wait_us` has passed.
    For {
        /// Completions to wait for; at least 1.
        completions: u32,
        /// The caller's present time, nanoseconds of `CLOCK_MONOTONIC`.
        now_ns: u64,
        /// End of the wait, nanoseconds of `CLOCK_MONOTONIC`; `None` for no limit.
        until_ns: Option<u64>,
        /// Microseconds for which `enter` gathers completions; 0 for no such limit.
        min_wait_us: u32,
    },
    /// Blocks until there is a completion, but for at most `ns` nanoseconds from now, independent of the
    /// caller's clock.
    Within {
        /// Maximum wait from now, nanoseconds.
        ns: u64,
    },
}

/// Submission and completion queues with one group of provided buffers.
pub trait Kernel: Sized {
    /// The driver's name in configuration and INFO.
    const NAME: &'static str;

    /// Opens the ring on the thread that will use it.
    fn open(config: &Config) -> io::Result<Self>;

    /// Limits each multishot receive that is pushed later: it ends after `bytes` bytes in total; 0 for no
    /// limit. Without a limit, one socket whose peer floods it could take all buffers of the group in one
    /// `enter`, in which the kernel would copy for a millisecond. Linux supports this limit since 6.17;
    /// earlier versions reject it.
    fn cap_receives(&mut self, bytes: u32);

    /// Queues an operation. Never fails for lack of room.
    fn push(&mut self, op: Op, user_data: u64);

    /// Queues a send of `len` bytes.
    ///
    /// # Safety
    /// The bytes stay valid and unchanged until the operation's completion has been reaped.
    unsafe fn push_send(
        &mut self,
        fd: RawFd,
        bytes: *const u8,
        len: usize,
        patience: Patience,
        user_data: u64,
    );

    /// Queues a gathered send.
    ///
    /// # Safety
    /// The header and all it points to stay valid and unchanged until the operation's completion has been
    /// reaped.
    unsafe fn push_sendmsg(
        &mut self,
        fd: RawFd,
        msg: *const libc::msghdr,
        patience: Patience,
        user_data: u64,
    );

    /// Queues a receive that waits for `len` bytes. It yields fewer bytes if the stream ends or fails, if the
    /// operation is cancelled, or if `len` is too large for one operation.
    ///
    /// # Safety
    /// The memory stays valid, and no other code uses it, until the operation's completion has been reaped.
    unsafe fn push_recv(&mut self, fd: RawFd, to: *mut u8, len: usize, user_data: u64);

    /// Queues a read or a write of a file. Push a sync as [`Op::Sync`] instead, because it has no memory to
    /// keep valid.
    ///
    /// # Safety
    /// The memory stays valid until the operation's completion has been reaped. Until then no other code
    /// accesses the memory of a read, and none changes the memory of a write.
    unsafe fn push_part(&mut self, fd: RawFd, part: Part, user_data: u64);

    /// Whether operations wait to be submitted.
    fn unsubmitted(&self) -> bool;

    /// Whether completions can be reaped now, or could be reaped after an `enter` that does not wait.
    fn pending(&self) -> bool;

    /// Submits queued operations and waits. Interruptions and time-outs are no errors.
    fn enter(&mut self, wait: Wait) -> io::Result<()>;

    /// Moves completions out of the queue until `into` holds `max` of them.
    fn reap(&mut self, into: &mut Vec<Cqe>, max: usize);

    /// Whether `enter` must run before more completions can be seen.
    fn has_deferred_work(&self) -> bool;

    /// Whether `enter` supports `min_wait_us`.
    fn gathers(&self) -> bool;

    /// Number of buffers that the group lacks.
    fn buffers_missing(&self) -> usize;

    /// Number of buffers that are with the kernel.
    fn buffers(&self) -> usize;

    /// Adds a buffer to the group; frees it when the group is full.
    fn buffer_put(&mut self, storage: Box<[u8]>);

    /// Removes and returns the buffer that a completion named.
    fn buffer_take(&mut self, id: u16) -> Option<Box<[u8]>>;

    /// Makes the buffers that were put since the last `buffers_publish` visible to the kernel.
    fn buffers_publish(&mut self);

    /// Abandons the memory that the kernel may still touch, without freeing it.
    fn leak_buffers(&mut self);
}

/// An error whose text says in one line which call failed and why, with the usual cause.
pub(super) fn refused_by(what: &str, error: &io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::EPERM) | Some(libc::EACCES) => "denied by seccomp or by kernel.io_uring_disabled",
        Some(libc::ENOSYS) => "not in this kernel, or denied by seccomp",
        Some(libc::EINVAL) => "the kernel is older than 6.1",
        Some(libc::ENOMEM) => "no memory: see RLIMIT_MEMLOCK",
        _ => "failed",
    };
    io::Error::new(error.kind(), format!("{what}: {why} ({error})"))
}
