//! poll(2) as a [`Poller`] for the readiness driver, for systems without a better interface. Each wait costs
//! O(descriptors).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::io::Errno;
use sluice_base::heap;

use super::readiness::{Poller, Readiness};
use super::wake::{WAKE_KEY, WakeFd};

/// The driver over poll(2).
pub type Poll = Readiness<PollSet>;

/// The descriptors and the events of the last wait. Entry 0 is the waker's.
#[derive(Debug)]
pub struct PollSet {
    wake: Arc<WakeFd>,
    fds: Vec<libc::pollfd>,
    keys: Vec<u64>,
    /// Entry of each source by its index, or [`NOWHERE`].
    entries: Vec<u32>,
    ready: Vec<(u64, PollFlags)>,
    ready_max: usize,
    /// The entry at which the next scan begins, so that the limit on events per iteration favours no
    /// descriptor.
    start: usize,
}

impl PollSet {
    fn entry_of(&self, key: u64) -> Option<usize> {
        let entry = *self.entries.get(key as u32 as usize)?;
        (entry != NOWHERE).then_some(entry as usize)
    }

    fn collect(&mut self) {
        let len = self.fds.len();
        for step in 0..len {
            let entry = (self.start + step) % len;
            let bits = self.fds[entry].revents;
            if bits == 0 {
                continue;
            }
            if self.ready.len() == self.ready_max {
                self.start = entry;
                return;
            }
            // No closed descriptor should be in the set; if one is, its next operation reports the error.
            let bits = if bits & libc::POLLNVAL != 0 { bits | libc::POLLERR } else { bits };
            self.ready.push((self.keys[entry], PollFlags::from_bits_truncate(bits as _)));
        }
        self.start = 0;
    }
}

impl Poller for PollSet {
    const NAME: &'static str = "poll";

    fn footprint(&self) -> usize {
        heap::vec(&self.fds) + heap::vec(&self.keys) + heap::vec(&self.entries) + heap::vec(&self.ready)
    }

    fn open(wake: &Arc<WakeFd>, max: usize) -> io::Result<PollSet> {
        Ok(PollSet {
            wake: wake.clone(),
            fds: vec![libc::pollfd { fd: wake.as_raw_fd(), events: libc::POLLIN, revents: 0 }],
            keys: vec![WAKE_KEY],
            entries: Vec::new(),
            ready: Vec::with_capacity(max),
            ready_max: max,
            start: 0,
        })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno> {
        let index = key as u32 as usize;
        if self.entries.len() <= index {
            self.entries.resize(index + 1, NOWHERE);
        }
        self.entries[index] = self.fds.len() as u32;
        self.fds.push(libc::pollfd { fd: fd.as_raw_fd(), events: flags.bits() as _, revents: 0 });
        self.keys.push(key);
        Ok(())
    }

    fn modify(&mut self, _fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno> {
        let entry = self.entry_of(key).ok_or(Errno::NOENT)?;
        self.fds[entry].events = flags.bits() as _;
        Ok(())
    }

    fn delete(&mut self, _fd: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        self.forget(key);
        Ok(())
    }

    fn forget(&mut self, key: u64) {
        let Some(entry) = self.entry_of(key) else { return };
        self.entries[key as u32 as usize] = NOWHERE;
        self.fds.swap_remove(entry);
        self.keys.swap_remove(entry);
        if let Some(moved) = self.keys.get(entry) {
            self.entries[*moved as u32 as usize] = entry as u32;
        }
    }

    fn wait(&mut self, timeout_ns: Option<u64>) -> Result<usize, Errno> {
        self.ready.clear();
        let done = wait_raw(&mut self.fds, timeout_ns);
        if done < 0 {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
            return Err(Errno::from_raw_os_error(errno));
        }
        if done > 0 {
            self.collect();
            if self.fds[0].revents != 0 {
                // The wake descriptor is level-triggered, so it has to be drained.
                self.wake.drain();
            }
        }
        Ok(self.ready.len())
    }

    #[inline]
    fn ready(&self, index: usize) -> Option<(u64, PollFlags)> {
        self.ready.get(index).copied()
    }
}

/// One call of ppoll.
#[cfg(not(target_vendor = "apple"))]
fn wait_raw(fds: &mut [libc::pollfd], timeout_ns: Option<u64>) -> i32 {
    let time = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array is as long as announced; the time is null or lives during the call; no signal mask.
    // JUSTIFICATION: the safe wrapper wants the descriptors borrowed for as long as the array lives.
    unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, time, std::ptr::null()) }
}

/// The timeout is rounded up to milliseconds, because this system has no finer call.
#[cfg(target_vendor = "apple")]
fn wait_raw(fds: &mut [libc::pollfd], timeout_ns: Option<u64>) -> i32 {
    let ms = timeout_ns.map_or(-1, |ns| i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: the array is as long as announced.
    // JUSTIFICATION: as above.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, ms) }
}

const NOWHERE: u32 = u32::MAX;
