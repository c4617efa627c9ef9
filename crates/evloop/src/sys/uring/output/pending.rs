//! Sends in flight.

use crate::send_buf::{Cursor, SendBuf};
use sluice_base::heap;

/// A send in flight. The kernel reads from the heap memory of `buf`, and from `message`; neither of them
/// moves.
#[derive(Debug)]
pub(in crate::sys::uring) struct Pending {
    pub(super) buf: SendBuf,
    pub(super) cursor: Cursor,
    pub(super) message: Option<Box<Message>>,
}

/// A gathered send's header and its slices.
pub(super) struct Message {
    pub(super) header: libc::msghdr,
    pub(super) slices: [libc::iovec; SLICES_MAX],
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message").field("slices", &self.header.msg_iovlen).finish_non_exhaustive()
    }
}

impl Pending {
    /// Bytes that the allocator holds for the send, without the shared values.
    pub(in crate::sys::uring) fn footprint(&self) -> usize {
        self.buf.footprint() + self.message.as_deref().map_or(0, |_| heap::boxed::<Message>())
    }
}

/// Maximum number of segments of one gathered send.
pub(super) const SLICES_MAX: usize = 64;
