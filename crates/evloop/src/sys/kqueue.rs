//! kqueue as a [`Poller`] for the readiness driver, for macOS, FreeBSD and DragonFly. This file has been
//! compiled, but never run by us.
//!
//! The queue is that of the waker ([`WakeFd`]), and contains the waker's user event from the start. A
//! descriptor has two filters, one per direction, both level-triggered, so an event has one direction.
//! Urgent data is not reported.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent_timespec};
use rustix::event::{PollFlags, Timespec};
use rustix::io::Errno;

use super::readiness::{Poller, Readiness};
use super::wake::WakeFd;

/// The driver over kqueue.
pub type Kqueue = Readiness<KqueueSet>;

/// A kqueue and the events of its last wait.
pub struct KqueueSet {
    queue: Arc<WakeFd>,
    events: Vec<Event>,
    /// The registered conditions of each source, by its index.
    filters: Vec<PollFlags>,
}

impl KqueueSet {
    /// Adds and removes filters until the source has those for `wanted`.
    fn set(&mut self, fd: RawFd, key: u64, wanted: PollFlags) -> Result<(), Errno> {
        let index = key as u32 as usize;
        if self.filters.len() <= index {
            self.filters.resize(index + 1, PollFlags::empty());
        }
        for flag in [PollFlags::IN, PollFlags::OUT] {
            let (has, wants) = (self.filters[index].contains(flag), wanted.contains(flag));
            if has == wants {
                continue;
            }
            let filter = if flag == PollFlags::IN { EventFilter::Read(fd) } else { EventFilter::Write(fd) };
            self.change(filter, key, if wants { EventFlags::ADD } else { EventFlags::DELETE })?;
            self.filters[index].toggle(flag);
        }
        Ok(())
    }

    fn change(&self, filter: EventFilter, key: u64, flags: EventFlags) -> Result<(), Errno> {
        let change = Event::new(filter, flags, key as usize as *mut c_void);
        let mut none: [Event; 0] = [];
        // SAFETY: the descriptor is borrowed by the caller, and the kernel removes it from the queue when it
        // is closed.
        // JUSTIFICATION: rustix cannot know how long the descriptors live, because changes name them by
        // number.
        unsafe { kevent_timespec(self.queue.as_fd(), &[change], &mut none[..], None) }.map(drop)
    }
}

impl Poller for KqueueSet {
    const NAME: &'static str = "kqueue";

    fn open(wake: &Arc<WakeFd>, max: usize) -> io::Result<KqueueSet> {
        Ok(KqueueSet { queue: wake.clone(), events: Vec::with_capacity(max), filters: Vec::new() })
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno> {
        self.set(fd.as_raw_fd(), key, flags)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, key: u64, flags: PollFlags) -> Result<(), Errno> {
        self.set(fd.as_raw_fd(), key, flags)
    }

    fn delete(&mut self, fd: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        self.set(fd.as_raw_fd(), key, PollFlags::empty())
    }

    fn forget(&mut self, key: u64) {
        if let Some(filters) = self.filters.get_mut(key as u32 as usize) {
            *filters = PollFlags::empty();
        }
    }

    fn wait(&mut self, timeout_ns: Option<u64>) -> Result<usize, Errno> {
        self.events.clear();
        let time = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed() as _,
        });
        // SAFETY: no descriptor is named by the changes, since there are none.
        // JUSTIFICATION: as above.
        unsafe {
            let into = spare_capacity(&mut self.events);
            kevent_timespec(self.queue.as_fd(), &[], into, time.as_ref())
        }
    }

    fn ready(&self, index: usize) -> Option<(u64, PollFlags)> {
        let event = self.events.get(index)?;
        let mut bits = match event.filter() {
            EventFilter::Read(_) => PollFlags::IN,
            EventFilter::Write(_) if event.flags().contains(EventFlags::EOF) => {
                PollFlags::OUT | PollFlags::HUP
            }
            EventFilter::Write(_) => PollFlags::OUT,
            _ => PollFlags::empty(),
        };
        if event.flags().contains(EventFlags::ERROR) {
            bits |= PollFlags::ERR;
        }
        Some((event.udata() as usize as u64, bits))
    }
}

/// The key of an event is stored in a pointer-sized field.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());
