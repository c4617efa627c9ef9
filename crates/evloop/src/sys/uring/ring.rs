//! The real ring: set-up, submission, completion, and the group of provided buffers.
//!
//! Invariants: (1) the ring is used by the thread that opened it; (2) a buffer in the group belongs to the
//! kernel until a completion names it; (3) an operation that found no room in the submission queue waits in
//! `spill` and is submitted in order; (4) deferred work runs only inside `enter` with `GETEVENTS`, so every
//! call passes that flag.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::squeue::Entry;
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, FsyncFlags};
use io_uring::{IoUring, opcode};

use super::kernel::{Cqe, Kernel, Op, Patience, Wait, refused_by};
use crate::config::Config;
use crate::file::Part;

/// A ring of the kernel.
pub struct KernelRing {
    /// This is the first field, so that the ring is closed before `group` frees the memory that is registered
    /// with the ring.
    ring: IoUring,
    /// The ring's number for `enter`: its index among the registered descriptors, or its descriptor.
    enter_fd: i32,
    /// Flags for every `enter`.
    enter_flags: u32,
    abs_timer: bool,
    min_wait: bool,
    /// Number of bytes after which a multishot receive ends; 0 if it has no such limit.
    recv_cap: u32,
    spill: VecDeque<Entry>,
    group: BufferGroup,
}

impl KernelRing {
    /// Opens a ring with `entries` submission entries, or with fewer where memory is limited, and a group of
    /// `buffers` provided buffers, a power of two. Errors say in one line what the machine lacks.
    pub(super) fn with_sizes(entries: u32, buffers: u16) -> io::Result<KernelRing> {
        let ring = set_up(entries)?;
        let params = ring.params();
        if !params.is_feature_nodrop() || !params.is_feature_ext_arg() {
            let line = "the kernel's io_uring lacks NODROP or EXT_ARG";
            return Err(io::Error::new(io::ErrorKind::Unsupported, line));
        }
        let mut enter_flags = GETEVENTS;
        if params.is_feature_no_iowait() {
            enter_flags |= NO_IOWAIT;
        }
        // The absolute timer has no feature bit of its own, so the feature bit of the minimum wait is tested,
        // which came with the same kernel version.
        let recent = params.is_feature_min_timeout();
        // Operations that the kernel unexpectedly hands to worker threads must not start hundreds of them.
        let _ = ring.submitter().register_iowq_max_workers(&mut [4, 2]);
        let group = BufferGroup::new(buffers);
        // SAFETY: the memory is page-aligned, holds `buffers` entries, and lives as long as the ring.
        // JUSTIFICATION: multishot receiving needs buffers that the kernel picks.
        let registered = unsafe {
            ring.submitter().register_buf_ring_with_flags(group.entries.as_ptr() as u64, buffers, GROUP_ID, 0)
        };
        registered.map_err(|error| refused_by("registering buffers", &error))?;
        let mut ring = KernelRing {
            enter_fd: ring.as_raw_fd(),
            enter_flags,
            abs_timer: recent,
            min_wait: recent,
            recv_cap: 0,
            spill: VecDeque::new(),
            group,
            ring,
        };
        ring.register_itself();
        Ok(ring)
    }

    /// Registers the ring's descriptor, which saves the kernel a look-up per call. A failure is harmless.
    fn register_itself(&mut self) {
        let mut update = RsrcUpdate { offset: u32::MAX, resv: 0, data: self.ring.as_raw_fd() as u64 };
        // SAFETY: the argument is one valid update structure, which the call reads and writes.
        // JUSTIFICATION: saves a look-up and a reference count of the descriptor per `enter`.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                self.ring.as_raw_fd(),
                REGISTER_RING_FDS,
                &raw mut update,
                1_u32,
            )
        };
        if done == 1 {
            self.enter_fd = update.offset as i32;
            self.enter_flags |= REGISTERED_RING;
        }
    }

    fn push_entry(&mut self, entry: Entry) {
        if !self.spill.is_empty() {
            self.spill.push_back(entry);
            return;
        }
        // SAFETY: the callers guarantee that the memory of the entry is valid.
        // JUSTIFICATION: the `io_uring` crate has no other way to queue an operation.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            self.spill.push_back(entry);
        }
    }

    /// Moves spilled operations into the queue, as far as the queue has room now.
    #[cold]
    fn unspill(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.spill.front() {
            // SAFETY: the caller of the push guarantees that the entry's memory is valid until
            // its completion.
            // JUSTIFICATION: as above.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.spill.pop_front();
        }
    }

    /// Makes the system call. Returns the number of submitted entries, or the errno.
    fn enter_raw(
        &self,
        to_submit: u32,
        completions: u32,
        flags: u32,
        arg: Option<&EnterArg>,
    ) -> Result<u32, i32> {
        let (pointer, size) = match arg {
            Some(arg) => (std::ptr::from_ref(arg).cast::<libc::c_void>(), size_of::<EnterArg>()),
            None => (std::ptr::null(), 0),
        };
        // SAFETY: the argument is valid during the call, or null; whoever pushed an entry guarantees that the
        // memory it points to is valid.
        // JUSTIFICATION: the `io_uring` crate remembers a registered descriptor only in a `Submitter`, which
        // borrows the ring, so it cannot be stored beside the ring.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                to_submit,
                completions,
                self.enter_flags | flags,
                pointer,
                size,
            )
        };
        if done >= 0 { Ok(done as u32) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
    }

    fn queued(&mut self) -> u32 {
        self.ring.submission().len() as u32
    }

    /// Submits the spilled entries and all entries queued before them, as far as the kernel takes them,
    /// without waiting.
    #[cold]
    fn drain_spill(&mut self) -> io::Result<()> {
        while !self.spill.is_empty() {
            let queued = self.queued();
            let submitted = self.enter_raw(queued, 0, 0, None);
            self.unspill();
            match submitted {
                Ok(count) if count > 0 => {}
                // The kernel takes no more entries before completions are reaped, so the next iteration
                // continues.
                Ok(_) => break,
                Err(errno) if harmless(errno) => break,
                Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(())
    }
}

impl Kernel for KernelRing {
    const NAME: &'static str = "io_uring";

    fn open(config: &Config) -> io::Result<KernelRing> {
        let caps = super::preflight::check(KernelRing::with_sizes(8, 2)?)?;
        let mut ring = KernelRing::with_sizes(config.ring_entries, config.ring_buffers)?;
        if caps.ends_receives {
            ring.cap_receives((config.chunk_bytes * CHUNKS_PER_RECEIVE) as u32);
        }
        Ok(ring)
    }

    fn cap_receives(&mut self, bytes: u32) {
        self.recv_cap = bytes;
    }

    #[inline]
    fn push(&mut self, op: Op, user_data: u64) {
        let entry = match op {
            Op::RecvMulti { fd } => capped(opcode::RecvMulti::new(Fd(fd), GROUP_ID).build(), self.recv_cap),
            Op::AcceptMulti { fd } => {
                opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC).build()
            }
            Op::Poll { fd, events } => opcode::PollAdd::new(Fd(fd), events).build(),
            Op::PollMulti { fd, events } => opcode::PollAdd::new(Fd(fd), events).multi(true).build(),
            Op::Cancel { target } => opcode::AsyncCancel2::new(CancelBuilder::user_data(target)).build(),
            Op::Sync { fd, data_only } => {
                let flags = if data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(Fd(fd)).flags(flags).build()
            }
            Op::Close { fd } => opcode::Close::new(Fd(fd)).build(),
        };
        self.push_entry(entry.user_data(user_data));
    }

    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn push_send(
        &mut self,
        fd: RawFd,
        bytes: *const u8,
        len: usize,
        patience: Patience,
        user_data: u64,
    ) {
        let len = u32::try_from(len).unwrap_or(SEND_MAX).min(SEND_MAX);
        let entry = opcode::Send::new(Fd(fd), bytes, len).flags(send_flags(patience)).build();
        self.push_entry(entry.user_data(user_data));
    }

    /// # Safety
    /// As the trait says.
    unsafe fn push_sendmsg(
        &mut self,
        fd: RawFd,
        msg: *const libc::msghdr,
        patience: Patience,
        user_data: u64,
    ) {
        let entry = opcode::SendMsg::new(Fd(fd), msg).flags(send_flags(patience) as u32).build();
        self.push_entry(entry.user_data(user_data));
    }

    /// # Safety
    /// As the trait says.
    unsafe fn push_recv(&mut self, fd: RawFd, to: *mut u8, len: usize, user_data: u64) {
        let len = u32::try_from(len).unwrap_or(SEND_MAX).min(SEND_MAX);
        let entry = opcode::Recv::new(Fd(fd), to, len).flags(libc::MSG_WAITALL).build();
        self.push_entry(entry.user_data(user_data));
    }

    /// # Safety
    /// As the trait says.
    unsafe fn push_part(&mut self, fd: RawFd, part: Part, user_data: u64) {
        let cap = |len: usize| u32::try_from(len).unwrap_or(SEND_MAX).min(SEND_MAX);
        let entry = match part {
            Part::Read { to, len, at } => {
                opcode::Read::new(Fd(fd), to, cap(len)).offset(at.unwrap_or(CURRENT)).build()
            }
            Part::Write { bytes, len, at } => {
                opcode::Write::new(Fd(fd), bytes, cap(len)).offset(at.unwrap_or(CURRENT)).build()
            }
            Part::Sync { data_only } => return self.push(Op::Sync { fd, data_only }, user_data),
        };
        self.push_entry(entry.user_data(user_data));
    }

    #[inline]
    fn unsubmitted(&self) -> bool {
        // SAFETY: no other view of the queue exists, since each lives within one call of a method.
        // JUSTIFICATION: a look at the length needs no exclusive borrow.
        !self.spill.is_empty() || unsafe { !self.ring.submission_shared().is_empty() }
    }

    #[inline]
    fn has_deferred_work(&self) -> bool {
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        let queue = unsafe { self.ring.submission_shared() };
        queue.taskrun() || queue.cq_overflow()
    }

    #[inline]
    fn pending(&self) -> bool {
        // SAFETY: as above, for the completion queue.
        // JUSTIFICATION: as above.
        let empty = unsafe { self.ring.completion_shared().is_empty() };
        !empty || self.has_deferred_work()
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        if !self.spill.is_empty() {
            self.drain_spill()?;
        }
        let queued = self.queued();
        let (completions, min_wait_us, timeout) = match wait {
            Wait::No => return self.enter_raw(queued, 0, 0, None).map(drop).or_else(harmless_or_error),
            Wait::Within { ns } => (1, 0, Some((ns, 0))),
            Wait::For { completions, now_ns, until_ns, min_wait_us } => {
                let timeout = until_ns.map(|until_ns| match self.abs_timer {
                    true => (until_ns, ABS_TIMER),
                    false => (until_ns.saturating_sub(now_ns), 0),
                });
                (completions, min_wait_us, timeout)
            }
        };
        let mut flags = EXT_ARG;
        let mut time = Timespec { sec: 0, nsec: 0 };
        let mut arg = EnterArg { sigmask: 0, sigmask_len: 0, min_wait_us: 0, timespec: 0 };
        if let Some((ns, flag)) = timeout {
            flags |= flag;
            time = Timespec { sec: (ns / 1_000_000_000) as i64, nsec: (ns % 1_000_000_000) as i64 };
            arg.timespec = (&raw const time) as u64;
        }
        if self.min_wait {
            arg.min_wait_us = min_wait_us;
        }
        let entered = self.enter_raw(queued, completions, flags, Some(&arg));
        // Keeps the time's storage alive beyond the call that reads it.
        let _ = &time;
        entered.map(drop).or_else(harmless_or_error)
    }

    #[inline]
    fn reap(&mut self, into: &mut Vec<Cqe>, max: usize) {
        let room = max.saturating_sub(into.len());
        let queue = self.ring.completion();
        into.extend(queue.take(room).map(|entry| Cqe {
            user_data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        }));
    }

    #[inline]
    fn gathers(&self) -> bool {
        self.min_wait
    }

    #[inline]
    fn buffers_missing(&self) -> usize {
        self.group.vacant.len()
    }

    #[inline]
    fn buffers(&self) -> usize {
        self.group.buffers.len() - self.group.vacant.len()
    }

    fn buffer_put(&mut self, storage: Box<[u8]>) {
        self.group.put(storage);
    }

    #[inline]
    fn buffer_take(&mut self, id: u16) -> Option<Box<[u8]>> {
        self.group.take(id)
    }

    #[inline]
    fn buffers_publish(&mut self) {
        self.group.publish();
    }

    fn leak_buffers(&mut self) {
        self.group.leaked = true;
    }
}

impl fmt::Debug for KernelRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("fd", &self.ring.as_raw_fd()).finish_non_exhaustive()
    }
}

/// The provided buffers. Each buffer is a separate allocation, so that a filled buffer can be given to the
/// caller and be replaced by another one. A caller that keeps chunks therefore cannot empty the group.
struct BufferGroup {
    entries: NonNull<BufRingEntry>,
    mask: u16,
    tail: u16,
    published: u16,
    /// The buffer of each id, while the buffer is with the kernel.
    buffers: Vec<Option<NonNull<[u8]>>>,
    vacant: Vec<u16>,
    leaked: bool,
}

impl BufferGroup {
    fn layout(count: u16) -> Layout {
        let size = usize::from(count) * size_of::<BufRingEntry>();
        Layout::from_size_align(size.next_multiple_of(PAGE), PAGE).expect("at most 2^15 entries of 16 bytes")
    }

    fn new(count: u16) -> BufferGroup {
        assert!(count.is_power_of_two());
        let layout = BufferGroup::layout(count);
        // SAFETY: the layout is not of size zero.
        // JUSTIFICATION: the kernel wants whole pages.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(entries) = NonNull::new(memory.cast::<BufRingEntry>()) else { handle_alloc_error(layout) };
        BufferGroup {
            entries,
            mask: count - 1,
            tail: 0,
            published: 0,
            buffers: vec![None; usize::from(count)],
            vacant: (0..count).rev().collect(),
            leaked: false,
        }
    }

    #[inline]
    fn put(&mut self, mut storage: Box<[u8]>) {
        let Some(id) = self.vacant.pop() else { return };
        let (address, len) = (storage.as_mut_ptr() as u64, storage.len() as u32);
        self.buffers[usize::from(id)] = Some(NonNull::from(Box::leak(storage)));
        let index = usize::from(self.tail & self.mask);
        // SAFETY: the index is below the number of entries; the kernel reads entries only up to the published
        // tail. The fields are set one by one since the last bytes of entry 0 are the tail that the kernel
        // reads.
        // JUSTIFICATION: the ring is memory shared with the kernel.
        let entry = unsafe { &mut *self.entries.as_ptr().add(index) };
        entry.set_addr(address);
        entry.set_len(len);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    fn take(&mut self, id: u16) -> Option<Box<[u8]>> {
        let buffer = self.buffers.get_mut(usize::from(id))?.take()?;
        self.vacant.push(id);
        // SAFETY: it came from a box in `put`, and was taken out of the table, so this is the only owner; the
        // kernel is through with it, since a completion named it.
        // JUSTIFICATION: the buffer leaves with its bytes instead of being copied.
        Some(unsafe { Box::from_raw(buffer.as_ptr()) })
    }

    #[inline]
    fn publish(&mut self) {
        if self.published == self.tail {
            return;
        }
        self.published = self.tail;
        // SAFETY: the pointer is to the live first entry; the tail is aligned to two bytes within it, and all
        // accesses to it are atomic.
        // JUSTIFICATION: the kernel's side of the handshake is an acquiring load of it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for BufferGroup {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        for buffer in self.buffers.iter_mut().filter_map(Option::take) {
            // SAFETY: the ring is closed, and no operation was in flight, because `leaked` would be set
            // otherwise; so these are the only owners.
            // JUSTIFICATION: the counterpart of `put`.
            drop(unsafe { Box::from_raw(buffer.as_ptr()) });
        }
        // SAFETY: allocated in `new` with the same layout.
        // JUSTIFICATION: as above.
        unsafe { dealloc(self.entries.as_ptr().cast(), BufferGroup::layout(self.mask + 1)) };
    }
}

/// Tries a set-up with all flags. After EINVAL it tries again without the flag that only saves memory, and
/// after ENOMEM with half the entries. If no set-up works, another driver has to be used.
fn set_up(entries: u32) -> io::Result<IoUring> {
    let mut entries = entries.max(1).next_power_of_two();
    let mut array = Array::Without;
    loop {
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(entries * CQ_PER_SQ)
            .dontfork();
        if array == Array::Without {
            builder.setup_no_sqarray();
        }
        let error = match builder.build(entries) {
            Ok(ring) => return Ok(ring),
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EINVAL) if array == Array::Without => array = Array::With,
            Some(libc::ENOMEM) if entries > ENTRIES_MIN => entries /= 2,
            _ => return Err(refused_by("io_uring_setup", &error)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Array {
    Without,
    With,
}

/// A receive with a limit of bytes in total, for which the crate `io_uring` has no setter.
#[inline]
fn capped(mut entry: Entry, bytes: u32) -> Entry {
    const { assert!(size_of::<Entry>() == 64 && align_of::<Entry>() >= align_of::<u32>()) };
    // SAFETY: an entry is `struct io_uring_sqe` as the kernel lays it out, 64 bytes of plain integers, in
    // which the limit is the word at byte 44.
    // JUSTIFICATION: nothing else keeps one source from taking every buffer at once.
    unsafe { std::ptr::from_mut(&mut entry).cast::<u32>().add(11).write(bytes) };
    entry
}

fn send_flags(patience: Patience) -> i32 {
    match patience {
        Patience::None => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        Patience::All => libc::MSG_NOSIGNAL | libc::MSG_WAITALL,
    }
}

/// Whether a failed call is no error: it was interrupted, has timed out, or asks for completions to be
/// reaped first (a full completion queue, temporarily no memory for requests).
fn harmless(errno: i32) -> bool {
    matches!(errno, libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)
}

fn harmless_or_error(errno: i32) -> io::Result<()> {
    if harmless(errno) { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

#[repr(C)]
struct RsrcUpdate {
    offset: u32,
    resv: u32,
    data: u64,
}

/// The C structure `struct io_uring_getevents_arg`.
#[repr(C)]
struct EnterArg {
    sigmask: u64,
    sigmask_len: u32,
    min_wait_us: u32,
    timespec: u64,
}

/// The C structure `struct __kernel_timespec`.
#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}

const GROUP_ID: u16 = 0;
const PAGE: usize = 4096;
const CQ_PER_SQ: u32 = 8;
const ENTRIES_MIN: u32 = 64;
/// A multishot receive ends after this many chunks if the kernel can limit it. A limit of four would bound an
/// iteration better, but restarting the receive seemed to slow down messages of a whole chunk by 2 to 5 %, in
/// runs with noise of that size.
const CHUNKS_PER_RECEIVE: usize = 16;
/// Maximum number of bytes that one operation sends, receives, reads or writes; the driver continues with the
/// rest.
const SEND_MAX: u32 = 1 << 30;
/// The value for "no offset", which means the descriptor's own position.
const CURRENT: u64 = u64::MAX;
const REGISTER_RING_FDS: u32 = 20;
const GETEVENTS: u32 = 1 << 0;
const EXT_ARG: u32 = 1 << 3;
const REGISTERED_RING: u32 = 1 << 4;
const ABS_TIMER: u32 = 1 << 5;
const NO_IOWAIT: u32 = 1 << 7;
