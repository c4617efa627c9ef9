//! Makes a connection on a thread of its own: names are looked up there, and nobody waits for a host that does not answer.

use crate::os::plain_error;
use crate::threads::Thread;
use sluice_evloop::Waker;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// A connection that is made.
pub struct Connecting {
    result: Receiver<Result<OwnedFd, String>>,
}

/// Where to, and from where.
pub struct ConnectPlan {
    /// Name or address.
    pub host: String,
    pub port: u16,
    /// The address that it is made from; empty: any.
    pub source: String,
    /// How long it may take.
    pub timeout: Duration,
}

impl Connecting {
    /// Begins; `waker` is used at the end.
    pub fn start(plan: ConnectPlan, waker: Waker) -> io::Result<Connecting> {
        let (sender, result) = channel();
        Thread::Connect.start(move || {
            let made = connect(&plan).map_err(|error| plain_error(&error));
            // Nobody may be left who wants it.
            if sender.send(made).is_ok() {
                waker.wake();
            }
        })?;
        Ok(Connecting { result })
    }

    /// The connection, or why there is none; `None`, while it is made.
    pub fn take(&self) -> Option<Result<OwnedFd, String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("its thread has ended".to_owned())),
        }
    }
}

/// Tries the addresses of the host one after the other.
pub fn connect(plan: &ConnectPlan) -> io::Result<OwnedFd> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (plan.host.as_str(), plan.port).to_socket_addrs()? {
        match connect_to(address, plan) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(address: SocketAddr, plan: &ConnectPlan) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Ok(source) = plan.source.parse::<IpAddr>() {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&address.into(), plan.timeout)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
