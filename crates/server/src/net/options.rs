//! Socket options of connections. For connections that this server makes, `Stream::connect` and
//! `Stream::dial` set the options.

use socket2::{SockRef, Socket, TcpKeepalive};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Sets the socket options that connections inherit from a TCP listener: the kernel copies them to each
/// connection, which saves five system calls per connection. `keepalive_s`: seconds of silence before the
/// peer is probed; 0 means never.
pub fn tune_listener(socket: &Socket, keepalive_s: i64) {
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_keepalive(keepalive_s > 0);
    if keepalive_s > 0 {
        let seconds = keepalive_s as u64;
        // After one interval of silence, three probes are sent within the next interval, as in the reference.
        let probes = TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds))
            .with_interval(Duration::from_secs((seconds / 3).max(1)))
            .with_retries(3);
        let _ = socket.set_tcp_keepalive(&probes);
    }
}

/// Makes the kernel fill packets, at the price of a delay. This is meant for a replica, which receives a
/// stream and does not answer the commands in it. A unix socket has no packets and is not changed.
pub fn fill_packets(socket: BorrowedFd<'_>) {
    let _ = SockRef::from(&socket).set_tcp_nodelay(false);
}
