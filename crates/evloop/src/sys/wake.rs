//! The descriptor that ends a loop's wait from outside: an eventfd, or a kqueue with a user event.
//!
//! A kick makes the descriptor readable. Edge-triggered drivers never read it; level-triggered drivers drain
//! it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// The wake-up descriptor; see the module. It lives as long as the last waker, so a kick never writes to
/// a reused descriptor.
#[derive(Debug)]
pub struct WakeFd(OwnedFd);

#[cfg(target_os = "linux")]
impl WakeFd {
    pub(crate) fn open() -> Result<WakeFd, Errno> {
        use rustix::event::{EventfdFlags, eventfd};
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(WakeFd)
    }

    /// Makes the descriptor readable. Any thread may call this.
    #[inline]
    pub(crate) fn kick(&self) {
        // The write fails only with EAGAIN, when the counter is full; the descriptor is then readable anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable, for level-triggered drivers.
    pub(crate) fn drain(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

#[cfg(not(target_os = "linux"))]
impl WakeFd {
    pub(crate) fn open() -> Result<WakeFd, Errno> {
        use rustix::event::kqueue::{EventFlags, UserFlags, kqueue};
        let this = WakeFd(kqueue()?);
        rustix::io::fcntl_setfd(&this.0, rustix::io::FdFlags::CLOEXEC)?;
        // The event is added and triggered by two calls, because FreeBSD does not do both in one.
        this.change(EventFlags::ADD | EventFlags::CLEAR, UserFlags::empty())?;
        Ok(this)
    }

    /// Makes the descriptor readable. Any thread may call this.
    pub(crate) fn kick(&self) {
        use rustix::event::kqueue::{EventFlags, UserFlags};
        let _ = self.change(EventFlags::empty(), UserFlags::TRIGGER);
    }

    /// Makes the descriptor unreadable, for level-triggered drivers.
    pub(crate) fn drain(&self) {
        let mut events = Vec::with_capacity(1);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: no descriptor is named by the changes, since there are none.
        // JUSTIFICATION: rustix declares the function unsafe, since a change may name a descriptor that is
        // already closed.
        let _ = unsafe {
            let into = rustix::buffer::spare_capacity(&mut events);
            rustix::event::kqueue::kevent_timespec(&self.0, &[], into, Some(&now))
        };
    }

    fn change(
        &self,
        flags: rustix::event::kqueue::EventFlags,
        user: rustix::event::kqueue::UserFlags,
    ) -> Result<(), Errno> {
        use rustix::event::kqueue::{Event, EventFilter, UserDefinedFlags, kevent_timespec};
        let filter = EventFilter::User { ident: 0, flags: user, user_flags: UserDefinedFlags::new(0) };
        let key = WAKE_KEY as usize as *mut std::ffi::c_void;
        let change = Event::new(filter, flags, key);
        let mut none: [Event; 0] = [];
        // SAFETY: the change names no descriptor.
        // JUSTIFICATION: as above.
        unsafe { kevent_timespec(&self.0, &[change], &mut none[..], None) }.map(drop)
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for WakeFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The key under which the wake-up descriptor is registered; no slot of the loop has this key.
pub(super) const WAKE_KEY: u64 = u64::MAX;
