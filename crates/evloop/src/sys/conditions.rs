//! Converts interests to the kernel's conditions and back. The conditions are those of poll(2), which epoll
//! and io_uring share.

use rustix::event::PollFlags;

use crate::event::Interest;

/// The conditions that a caller can watch.
pub(super) const WATCHABLE: Interest = Interest::READABLE.or(Interest::WRITABLE).or(Interest::PRIORITY);

/// The conditions to ask the kernel for.
pub(super) fn flags_of(interest: Interest) -> PollFlags {
    let mut flags = PollFlags::empty();
    if interest.intersects(Interest::READABLE) {
        flags |= PollFlags::IN;
    }
    if interest.intersects(Interest::PRIORITY) {
        flags |= PollFlags::PRI;
    }
    if interest.intersects(Interest::WRITABLE) {
        flags |= PollFlags::OUT;
    }
    flags
}

/// The readiness that a watcher sees. A failure makes both directions ready, because an operation in either
/// direction reports the failure.
pub(super) fn readiness(flags: PollFlags) -> Interest {
    let failed = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    let mut ready = Interest::NONE;
    if flags.intersects(PollFlags::IN | failed) {
        ready = ready.or(Interest::READABLE);
    }
    if flags.intersects(PollFlags::PRI) {
        ready = ready.or(Interest::PRIORITY);
    }
    if flags.intersects(PollFlags::OUT | failed) {
        ready = ready.or(Interest::WRITABLE);
    }
    ready
}

/// The failures among the conditions.
pub(super) fn trouble(flags: PollFlags) -> Interest {
    let mut trouble = Interest::NONE;
    if flags.intersects(PollFlags::ERR | PollFlags::NVAL) {
        trouble = trouble.or(Interest::ERROR);
    }
    if flags.intersects(PollFlags::HUP) {
        trouble = trouble.or(Interest::HANGUP);
    }
    trouble
}
