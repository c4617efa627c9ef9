//! Where systems differ in how they spell the same: accepting without blocking, and sending without a signal.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;

/// One accept; the connection is nonblocking and close-on-exec.
#[cfg(not(target_vendor = "apple"))]
#[inline]
pub(super) fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    use rustix::net::SocketFlags;
    rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
}

/// The same in three steps.
#[cfg(target_vendor = "apple")]
pub(super) fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::accept(listener)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&socket, rustix::fs::OFlags::NONBLOCK)?;
    Ok(socket)
}

/// Flags of every send: it neither blocks nor raises a signal when the peer is gone.
#[cfg(not(target_vendor = "apple"))]
pub(super) const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
/// The signal is the socket's affair there: see [`attached`].
#[cfg(target_vendor = "apple")]
pub(super) const SEND: SendFlags = SendFlags::DONTWAIT;

/// What a descriptor needs once, before it is sent on.
#[cfg(not(target_vendor = "apple"))]
#[inline(always)]
pub(super) fn attached(_: BorrowedFd<'_>) {}

/// Fails for what is no socket, which is not sent on either.
#[cfg(target_vendor = "apple")]
pub(super) fn attached(fd: BorrowedFd<'_>) {
    let _ = rustix::net::sockopt::set_socket_nosigpipe(fd, true);
}
