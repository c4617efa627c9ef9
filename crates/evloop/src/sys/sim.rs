//! A scripted ring: the driver's own code over a kernel that misbehaves on purpose, in the same way for
//! the same seed.
//!
//! The ring works on real descriptors, whose state in a single-threaded test is deterministic. It often does
//! what a real ring may do but seldom does: short sends, no buffers, multishot operations that end without
//! cause, completions that are late and out of order, submission of only some operations, and cancellations
//! that come too late. It never does what a ring must not do: order within one operation is kept, and every
//! operation ends exactly once. Only tests use it, through the feature `sim`.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use sluice_base::Rng;

use super::uring::Uring;
use super::uring::kernel::{CQE_BUFFER, CQE_MORE, CQE_SOCK_NONEMPTY, Cqe, Kernel, Op, Patience, Wait};
use crate::config::Config;
use crate::file::Part;

/// The io_uring driver over the scripted ring, for tests; the seed is `Config::sim_seed`.
pub(crate) type Sim = Uring<SimRing>;

/// A scripted ring; see the module.
#[derive(Debug)]
pub struct SimRing {
    rng: Rng,
    queued: VecDeque<SimEntry>,
    armed: Vec<SimEntry>,
    /// Completions that the driver cannot reap yet.
    late: Vec<Cqe>,
    shown: VecDeque<Cqe>,
    free: VecDeque<(u16, Box<[u8]>)>,
    /// Buffers that were filled but not yet taken by the driver.
    filled: Vec<(u16, Box<[u8]>)>,
    with_caller: Vec<u16>,
}

/// An operation; the caller of the push guarantees that its memory is valid.
#[derive(Clone, Copy, Debug)]
struct SimEntry {
    what: What,
    user_data: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Plain(Op),
    Send { fd: RawFd, bytes: *const u8, len: usize, patience: Patience, sent: usize },
    SendMsg { fd: RawFd, msg: *const libc::msghdr, patience: Patience },
    Recv { fd: RawFd, to: *mut u8, len: usize, got: usize },
    Part { fd: RawFd, part: Part },
}

/// The result of trying an operation.
enum Tried {
    /// The operation has ended; all its completions are queued.
    Ended,
    /// The operation would block.
    Waits,
}

impl SimRing {
    /// True with probability 1 in `n`.
    fn chance(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    fn post(&mut self, user_data: u64, result: i32, flags: u32) {
        self.late.push(Cqe { user_data, result, flags });
    }

    /// Tries an operation; a multishot operation is tried until it would block.
    fn attempt(&mut self, entry: &mut SimEntry) -> Tried {
        let data = entry.user_data;
        match &mut entry.what {
            What::Plain(op) => self.attempt_plain(*op, data),
            What::Part { fd, part } => self.attempt_part(*fd, *part, data),
            What::Send { fd, bytes, len, patience, sent } => {
                // SAFETY: the pusher guarantees that the bytes are valid until the completion is reaped.
                // JUSTIFICATION: a ring gets its operations as addresses.
                let all = unsafe { std::slice::from_raw_parts(*bytes, *len) };
                let (fd, patience) = (*fd, *patience);
                loop {
                    let rest = &all[*sent..];
                    let part = if self.chance(3) { rest.len().div_ceil(2) } else { rest.len() };
                    match rustix::net::send(borrow(fd), &rest[..part], send_flags()) {
                        Ok(count) => *sent += count,
                        Err(Errno::AGAIN) if patience == Patience::All && *sent < all.len() => {
                            return Tried::Waits;
                        }
                        Err(errno) if *sent == 0 => {
                            self.post(data, -errno.raw_os_error(), 0);
                            return Tried::Ended;
                        }
                        Err(_) => break,
                    }
                    if patience == Patience::None || *sent == all.len() {
                        break;
                    }
                }
                let sent = *sent as i32;
                self.post(data, sent, 0);
                Tried::Ended
            }
            What::SendMsg { fd, msg, patience } => {
                // SAFETY: as above, for the header and its slices.
                // JUSTIFICATION: as above.
                let sent = unsafe { libc::sendmsg(*fd, *msg, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
                let result = if sent < 0 { -errno() } else { sent as i32 };
                if result == -libc::EAGAIN && *patience == Patience::All {
                    return Tried::Waits;
                }
                self.post(data, result, 0);
                Tried::Ended
            }
            What::Recv { fd, to, len, got } => {
                while *got < *len {
                    // SAFETY: as above, for the memory to write to, of which `got` bytes are written.
                    // JUSTIFICATION: as above.
                    let room = unsafe { std::slice::from_raw_parts_mut(to.add(*got), *len - *got) };
                    match rustix::net::recv(borrow(*fd), room, RecvFlags::DONTWAIT) {
                        Ok((0, _)) => break,
                        Ok((count, _)) => *got += count,
                        Err(Errno::AGAIN) => return Tried::Waits,
                        Err(errno) => {
                            let result = if *got > 0 { *got as i32 } else { -errno.raw_os_error() };
                            self.post(data, result, 0);
                            return Tried::Ended;
                        }
                    }
                }
                let got = *got as i32;
                self.post(data, got, 0);
                Tried::Ended
            }
        }
    }

    /// A read or a write of a file, nonblocking if the file can be waited for: sometimes short,
    /// sometimes with `EAGAIN`.
    fn attempt_part(&mut self, fd: RawFd, part: Part, data: u64) -> Tried {
        let shorter = self.chance(3);
        let len = |len: usize| if shorter { len.div_ceil(2) } else { len };
        let offset = |at: Option<u64>| at.map(u64::cast_signed);
        let done = match part {
            Part::Read { to, len: all, at } => match offset(at) {
                // SAFETY: the pusher guarantees that the memory is valid until the completion is reaped.
                // JUSTIFICATION: as above.
                Some(at) => unsafe { libc::pread(fd, to.cast(), len(all), at) },
                // SAFETY: as above.
                // JUSTIFICATION: as above.
                None => unsafe { libc::read(fd, to.cast(), len(all)) },
            },
            Part::Write { bytes, len: all, at } => match offset(at) {
                // SAFETY: as above.
                // JUSTIFICATION: as above.
                Some(at) => unsafe { libc::pwrite(fd, bytes.cast(), len(all), at) },
                // SAFETY: as above.
                // JUSTIFICATION: as above.
                None => unsafe { libc::write(fd, bytes.cast(), len(all)) },
            },
            Part::Sync { data_only } => return self.attempt_plain(Op::Sync { fd, data_only }, data),
        };
        let result = if done < 0 { -errno() } else { done as i32 };
        if result == -libc::EAGAIN && !self.chance(3) {
            return Tried::Waits;
        }
        self.post(data, result, 0);
        Tried::Ended
    }

    fn attempt_plain(&mut self, op: Op, data: u64) -> Tried {
        match op {
            Op::RecvMulti { fd } => self.receive(fd, data),
            Op::AcceptMulti { fd } => self.accept(fd, data),
            Op::Poll { fd, events } | Op::PollMulti { fd, events } => {
                let mut entry = libc::pollfd { fd, events: events as i16, revents: 0 };
                // SAFETY: one entry, valid during the call.
                // JUSTIFICATION: the safe wrapper wants the conditions as flags of its own.
                let ready = unsafe { libc::poll(&raw mut entry, 1, 0) };
                if ready <= 0 {
                    return Tried::Waits;
                }
                if matches!(op, Op::PollMulti { .. }) {
                    // The scripted ring polls level-triggered, so the waker's counter must be read, or the
                    // poll would complete for ever.
                    let _ = rustix::io::read(borrow(fd), &mut [0; 8]);
                    self.post(data, i32::from(entry.revents), CQE_MORE);
                    return Tried::Waits;
                }
                self.post(data, i32::from(entry.revents), 0);
                Tried::Ended
            }
            Op::Cancel { target } => {
                // The cancellation sometimes misses, as the kernel's does for an operation that
                // is being tried.
                let misses = self.chance(3);
                let found = self.armed.iter().position(|entry| entry.user_data == target && !misses);
                match found {
                    Some(index) => {
                        let entry = self.armed.swap_remove(index);
                        let partial = match entry.what {
                            What::Recv { got, .. } if got > 0 => got as i32,
                            What::Send { sent, .. } if sent > 0 => sent as i32,
                            _ => -libc::ECANCELED,
                        };
                        self.post(entry.user_data, partial, 0);
                        self.post(data, 0, 0);
                    }
                    None => self.post(data, -libc::ENOENT, 0),
                }
                Tried::Ended
            }
            Op::Sync { fd, data_only } => {
                let done = match data_only {
                    true => rustix::fs::fdatasync(borrow(fd)),
                    false => rustix::fs::fsync(borrow(fd)),
                };
                self.post(data, done.map_or_else(|errno| -errno.raw_os_error(), |()| 0), 0);
                Tried::Ended
            }
            Op::Close { fd } => {
                // SAFETY: the operation owns the descriptor.
                // JUSTIFICATION: as above.
                let _ = unsafe { libc::close(fd) };
                self.post(data, 0, 0);
                Tried::Ended
            }
        }
    }

    fn receive(&mut self, fd: RawFd, data: u64) -> Tried {
        for _ in 0..32 {
            if self.chance(40) {
                self.post(data, -libc::ENOBUFS, 0);
                return Tried::Ended;
            }
            let Some((id, mut storage)) = self.free.pop_front() else {
                self.post(data, -libc::ENOBUFS, 0);
                return Tried::Ended;
            };
            let most = if self.chance(4) { 1 + self.rng.below(7) as usize } else { storage.len() };
            let most = most.min(storage.len());
            let done = rustix::net::recv(borrow(fd), &mut storage[..most], RecvFlags::DONTWAIT);
            self.free.push_front((id, storage));
            match done {
                Ok((0, _)) => {
                    self.post(data, 0, 0);
                    return Tried::Ended;
                }
                Ok((count, _)) => {
                    self.filled.extend(self.free.pop_front());
                    let ends = self.chance(30);
                    let more = if ends { 0 } else { CQE_MORE };
                    let flags = CQE_BUFFER | u32::from(id) << 16 | more | CQE_SOCK_NONEMPTY;
                    self.post(data, count as i32, flags);
                    if ends {
                        return Tried::Ended;
                    }
                }
                Err(Errno::AGAIN) => return Tried::Waits,
                Err(errno) => {
                    self.post(data, -errno.raw_os_error(), 0);
                    return Tried::Ended;
                }
            }
        }
        Tried::Waits
    }

    fn accept(&mut self, fd: RawFd, data: u64) -> Tried {
        loop {
            match rustix::net::accept_with(borrow(fd), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let ends = self.chance(5);
                    self.post(data, socket.into_raw_fd(), if ends { 0 } else { CQE_MORE });
                    if ends {
                        return Tried::Ended;
                    }
                }
                Err(Errno::AGAIN) => return Tried::Waits,
                Err(errno) => {
                    self.post(data, -errno.raw_os_error(), 0);
                    return Tried::Ended;
                }
            }
        }
    }

    /// Lets armed operations continue, in random order.
    fn run_armed(&mut self) {
        let mut armed = std::mem::take(&mut self.armed);
        for last in (1..armed.len()).rev() {
            armed.swap(last, self.rng.below(last as u64 + 1) as usize);
        }
        for mut entry in armed {
            match self.attempt(&mut entry) {
                Tried::Ended => {}
                Tried::Waits => self.armed.push(entry),
            }
        }
    }

    /// Moves all or some of the late completions to the queue. The completions of different operations are
    /// mixed; those of one operation stay in order.
    fn show(&mut self, all: Showing) {
        let mut rest = Vec::new();
        let mut blocked: Vec<u64> = Vec::new();
        let mut shown = Vec::new();
        for cqe in std::mem::take(&mut self.late) {
            let waits = blocked.contains(&cqe.user_data) || (all == Showing::Some && self.chance(4));
            if waits {
                blocked.push(cqe.user_data);
                rest.push(cqe);
            } else {
                shown.push(cqe);
            }
        }
        for last in (1..shown.len()).rev() {
            if shown[last].user_data != shown[last - 1].user_data && self.chance(2) {
                shown.swap(last, last - 1);
            }
        }
        self.late = rest;
        self.shown.extend(shown);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Showing {
    Some,
    All,
}

impl Kernel for SimRing {
    const NAME: &'static str = "sim";

    fn open(config: &Config) -> io::Result<SimRing> {
        Ok(SimRing {
            rng: Rng::new(config.sim_seed),
            queued: VecDeque::new(),
            armed: Vec::new(),
            late: Vec::new(),
            shown: VecDeque::new(),
            free: VecDeque::new(),
            filled: Vec::new(),
            with_caller: (0..config.ring_buffers).collect(),
        })
    }

    fn push(&mut self, op: Op, user_data: u64) {
        self.queued.push_back(SimEntry { what: What::Plain(op), user_data });
    }

    /// # Safety
    /// As the trait says.
    unsafe fn push_send(
        &mut self,
        fd: RawFd,
        bytes: *const u8,
        len: usize,
        patience: Patience,
        user_data: u64,
    ) {
        self.queued.push_back(SimEntry { what: What::Send { fd, bytes, len, patience, sent: 0 }, user_data });
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
        self.queued.push_back(SimEntry { what: What::SendMsg { fd, msg, patience }, user_data });
    }

    /// # Safety
    /// As the trait says.
    unsafe fn push_recv(&mut self, fd: RawFd, to: *mut u8, len: usize, user_data: u64) {
        self.queued.push_back(SimEntry { what: What::Recv { fd, to, len, got: 0 }, user_data });
    }

    /// # Safety
    /// As the trait says.
    unsafe fn push_part(&mut self, fd: RawFd, part: Part, user_data: u64) {
        self.queued.push_back(SimEntry { what: What::Part { fd, part }, user_data });
    }

    fn unsubmitted(&self) -> bool {
        !self.queued.is_empty()
    }

    fn pending(&self) -> bool {
        !self.shown.is_empty() || !self.late.is_empty()
    }

    fn has_deferred_work(&self) -> bool {
        !self.late.is_empty()
    }

    fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let part = if self.chance(8) { self.queued.len() / 2 } else { self.queued.len() };
        for _ in 0..part {
            let Some(mut entry) = self.queued.pop_front() else { break };
            match self.attempt(&mut entry) {
                Tried::Ended => {}
                Tried::Waits => self.armed.push(entry),
            }
        }
        self.run_armed();
        self.show(Showing::Some);
        // Like the kernel, the ring does not sleep if it has not submitted all queued operations.
        let most_ns = match wait {
            Wait::No => return Ok(()),
            Wait::Within { ns } => Some(ns),
            Wait::For { now_ns, until_ns, .. } => until_ns.map(|until_ns| until_ns.saturating_sub(now_ns)),
        };
        if !self.queued.is_empty() {
            return Ok(());
        }
        let mut slept_ns = 0;
        while self.shown.is_empty() && most_ns.is_none_or(|most_ns| slept_ns < most_ns) {
            self.run_armed();
            self.show(Showing::All);
            if self.shown.is_empty() {
                let step = rustix::thread::Timespec { tv_sec: 0, tv_nsec: STEP_NS as i64 };
                let _ = rustix::thread::nanosleep(&step);
                slept_ns += STEP_NS;
            }
        }
        Ok(())
    }

    fn reap(&mut self, into: &mut Vec<Cqe>, max: usize) {
        while into.len() < max
            && let Some(cqe) = self.shown.pop_front()
        {
            into.push(cqe);
        }
    }

    fn gathers(&self) -> bool {
        true
    }

    fn cap_receives(&mut self, _bytes: u32) {}

    fn buffers_missing(&self) -> usize {
        self.with_caller.len()
    }

    fn buffers(&self) -> usize {
        self.free.len() + self.filled.len()
    }

    fn buffer_put(&mut self, storage: Box<[u8]>) {
        if let Some(id) = self.with_caller.pop() {
            self.free.push_back((id, storage));
        }
    }

    fn buffer_take(&mut self, id: u16) -> Option<Box<[u8]>> {
        let index = self.filled.iter().position(|(other, _)| *other == id)?;
        self.with_caller.push(id);
        Some(self.filled.swap_remove(index).1)
    }

    fn buffers_publish(&mut self) {}

    fn leak_buffers(&mut self) {
        std::mem::forget(std::mem::take(&mut self.free));
    }
}

fn borrow(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the driver keeps a descriptor open while an operation on it is in flight, and it is used only
    // then.
    // JUSTIFICATION: a ring gets its descriptors as numbers.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

fn send_flags() -> SendFlags {
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

const STEP_NS: u64 = 50_000;
