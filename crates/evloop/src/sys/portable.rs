//! System calls that the drivers share. Systems have different calls for an accept that does not block, and
//! for a send that raises no signal.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::event::Shutdown;

/// Accepts one connection, nonblocking and close-on-exec.
#[cfg(not(target_vendor = "apple"))]
#[inline]
pub(super) fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    use rustix::net::SocketFlags;
    rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
}

/// Accepts a connection and sets its flags, in three calls.
#[cfg(target_vendor = "apple")]
pub(super) fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::accept(listener)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&socket, rustix::fs::OFlags::NONBLOCK)?;
    Ok(socket)
}

/// Whether a failed accept says nothing about the next one: the call was interrupted, the connection was
/// closed in the backlog, or the failure is a pending network error of that connection.
pub(super) fn is_passing(errno: Errno) -> bool {
    [Errno::INTR, Errno::CONNABORTED, Errno::PROTO, Errno::NETDOWN, Errno::HOSTUNREACH].contains(&errno)
}

/// Ends one direction of a connection or both. A failure means that the connection has ended already.
pub(super) fn shutdown(socket: BorrowedFd<'_>, how: Shutdown) {
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    let _ = rustix::net::shutdown(socket, how);
}

/// Flags of every send: a send neither blocks nor raises a signal when the peer is gone.
#[cfg(not(target_vendor = "apple"))]
pub(super) const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
/// On this system the socket suppresses the signal: see [`attached`].
#[cfg(target_vendor = "apple")]
pub(super) const SEND: SendFlags = SendFlags::DONTWAIT;

/// Prepares a descriptor for sends; nothing to do on this system.
#[cfg(not(target_vendor = "apple"))]
#[inline(always)]
pub(super) fn attached(_: BorrowedFd<'_>) {}

/// Suppresses the signal. Fails without harm for descriptors that are no sockets, which do not need it
/// because nothing is sent on them.
#[cfg(target_vendor = "apple")]
pub(super) fn attached(fd: BorrowedFd<'_>) {
    let _ = rustix::net::sockopt::set_socket_nosigpipe(fd, true);
}
