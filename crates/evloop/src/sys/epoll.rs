//! epoll as a [`Poller`] for the readiness driver.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::readiness::{Poller, Readiness};
use super::wake::{WAKE_KEY, WakeFd};
use sluice_base::heap;

/// The driver over epoll, level-triggered.
pub type Epoll = Readiness<EpollSet>;

/// An epoll instance and the events of its last wait.
pub struct EpollSet {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    timeouts: Timeouts,
}

/// The resolution of the kernel's timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timeouts {
    /// `epoll_pwait2`, since Linux 5.11.
    Nanoseconds,
    /// `epoll_wait`: timeouts are rounded up, so that no wait ends before its deadline, which would make the
    /// loop spin.
    Milliseconds,
}

impl EpollSet {
    /// One system call to wait. Timeouts that are not whole milliseconds need the newer call; all others use
    /// the call that every kernel and filter allows.
    fn wait_raw(&mut self, timeout_ns: Option<u64>) -> Result<usize, Errno> {
        let whole = timeout_ns.is_none_or(|ns| ns % 1_000_000 == 0);
        if self.timeouts == Timeouts::Nanoseconds && !whole {
            let ns = timeout_ns.unwrap_or(0);
            let time = KernelTimespec { sec: (ns / 1_000_000_000) as i64, nsec: (ns % 1_000_000_000) as i64 };
            // SAFETY: room for as many events as are announced; the time lives during the call; no signal
            // mask.
            // JUSTIFICATION: the safe wrapper rounds to milliseconds or else requires Linux 5.11 at build
            // time.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.epoll.as_raw_fd(),
                    self.events.as_mut_ptr(),
                    self.events.capacity() as i32,
                    &raw const time,
                    std::ptr::null::<libc::sigset_t>(),
                    0_usize,
                )
            };
            return self.waited(done);
        }
        let ms = timeout_ns.map_or(-1, |ns| i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX));
        // SAFETY: as above; rustix's event has the layout of the C library's, since the kernel writes both.
        // JUSTIFICATION: as above.
        let done = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr().cast::<libc::epoll_event>(),
                self.events.capacity() as i32,
                ms,
            )
        };
        self.waited(i64::from(done))
    }

    #[inline]
    fn waited(&mut self, done: i64) -> Result<usize, Errno> {
        let Ok(count) = usize::try_from(done) else {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
            return Err(Errno::from_raw_os_error(errno));
        };
        // SAFETY: the kernel wrote that many events, which is at most the capacity.
        // JUSTIFICATION: as above.
        unsafe { self.events.set_len(count) };
        Ok(count)
    }
}

impl Poller for EpollSet {
    const NAME: &'static str = "epoll";

    fn open(wake: &Arc<WakeFd>, max: usize) -> io::Result<EpollSet> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // The wake-up descriptor is edge-triggered and never read: each write is one event, and its counter
        // cannot fill up in practice.
        epoll::add(&epoll, &**wake, EventData::new_u64(WAKE_KEY), EventFlags::IN | EventFlags::ET)?;
        let mut set = EpollSet { epoll, events: Vec::with_capacity(max), timeouts: Timeouts::Nanoseconds };
        // A wait of the shortest time tests whether the kernel, and a filter above it, allows the newer call.
        if !matches!(set.wait_raw(Some(1)), Ok(_) | Err(Errno::INTR)) {
            set.timeouts = Timeouts::Milliseconds;
        }
        Ok(set)
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(key), flags_of(flags))
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno> {
        epoll::modify(&self.epoll, fd, EventData::new_u64(key), flags_of(flags))
    }

    fn delete(&mut self, fd: BorrowedFd<'_>, _key: u64) -> Result<(), Errno> {
        epoll::delete(&self.epoll, fd)
    }

    fn forget(&mut self, _key: u64) {}

    fn footprint(&self) -> usize {
        heap::vec(&self.events)
    }

    #[inline]
    fn wait(&mut self, timeout_ns: Option<u64>) -> Result<usize, Errno> {
        self.events.clear();
        self.wait_raw(timeout_ns)
    }

    #[inline]
    fn ready(&self, index: usize) -> Option<(u64, PollFlags)> {
        let event = self.events.get(index)?;
        let flags = event.flags;
        Some((event.data.u64(), PollFlags::from_bits_retain(flags.bits() as u16)))
    }
}

/// The conditions of poll have the same values in epoll.
fn flags_of(flags: PollFlags) -> EventFlags {
    EventFlags::from_bits_retain(u32::from(flags.bits()))
}

/// The C structure `struct __kernel_timespec`.
#[repr(C)]
struct KernelTimespec {
    sec: i64,
    nsec: i64,
}
