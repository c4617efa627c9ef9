//! The work of an application whose event loop reports readiness: it receives, sends, accepts, and counts its
//! system calls.

use std::net::TcpListener;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::pace::CHUNK_BYTES;
use crate::app::App;
use crate::machine::Counters;

/// The application with its sockets.
pub struct Sockets {
    pub app: App,
    listener: TcpListener,
    peers: Vec<Peer>,
    scratch: Box<[u8]>,
    pub counters: Counters,
}

#[derive(Default)]
struct Peer {
    fd: Option<OwnedFd>,
    /// Bytes of `out` that were sent.
    sent: usize,
    blocked: bool,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// As many bytes as requested were received, so there may be more.
    Full,
    /// Fewer bytes than requested were received, so there is nothing more to read for now.
    Short,
    Nothing,
    /// The end of the stream, or an error.
    End,
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    All,
    /// The socket is full, and was not full before this flush.
    Blocked,
    StillBlocked,
    /// The socket was full before, and now everything is sent.
    Unblocked,
    /// No more can be sent, so the connection must be closed.
    Over,
}

impl Sockets {
    pub fn new(listener: TcpListener, app: App) -> Sockets {
        let scratch = vec![0; CHUNK_BYTES].into_boxed_slice();
        Sockets { app, listener, peers: Vec::new(), scratch, counters: Counters::default() }
    }

    pub fn listener(&self) -> &TcpListener {
        &self.listener
    }

    pub fn fd(&self, id: u32) -> Option<&OwnedFd> {
        self.peers.get(id as usize)?.fd.as_ref()
    }

    /// Accepts one connection; `None` when none is waiting, or after an error, which is printed.
    pub fn accept(&mut self) -> Option<u32> {
        self.counters.system_calls += 1;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = match rustix::net::accept_with(&self.listener, flags) {
            Ok(fd) => fd,
            Err(Errno::AGAIN) => return None,
            Err(error) => {
                eprintln!("accept: {error}");
                return None;
            }
        };
        let id = self.app.opened();
        let peer = Peer { fd: Some(fd), ..Peer::default() };
        match self.peers.get_mut(id as usize) {
            Some(old) => *old = peer,
            None => self.peers.push(peer),
        }
        Some(id)
    }

    /// Receives once, into a chunk or into a large value.
    pub fn read(&mut self, id: u32) -> Reads {
        let Some(fd) = &self.peers[id as usize].fd else { return Reads::Nothing };
        self.counters.system_calls += 1;
        if let Some(wanted) = self.app.wants(id) {
            let value = self.app.value(id);
            let to = spare_capacity(value);
            return match rustix::net::recv(fd, to, RecvFlags::DONTWAIT) {
                Ok((_, bytes)) if bytes > 0 => {
                    self.counters.fills += 1;
                    self.app.filled(id, bytes);
                    // A full read is reported even if it completes a message, because the next message may
                    // follow in the socket's buffer.
                    if bytes < wanted { Reads::Short } else { Reads::Full }
                }
                Err(Errno::AGAIN | Errno::INTR) => Reads::Nothing,
                Ok(_) | Err(_) => Reads::End,
            };
        }
        match rustix::net::recv(fd, &mut self.scratch[..], RecvFlags::DONTWAIT) {
            Ok((bytes, _)) if bytes > 0 => {
                self.app.received(id, &self.scratch[..bytes]);
                if bytes < CHUNK_BYTES { Reads::Short } else { Reads::Full }
            }
            Err(Errno::AGAIN | Errno::INTR) => Reads::Nothing,
            Ok(_) | Err(_) => Reads::End,
        }
    }

    /// Sends the pending bytes, as far as the socket takes them.
    pub fn flush(&mut self, id: u32) -> Flushed {
        let peer = &mut self.peers[id as usize];
        let Some(fd) = &peer.fd else { return Flushed::All };
        let out = self.app.out(id);
        if !out.is_empty() && peer.sent == 0 {
            self.counters.sends += 1;
        }
        while peer.sent < out.len() {
            self.counters.system_calls += 1;
            match rustix::net::send(fd, &out[peer.sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => peer.sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let was = std::mem::replace(&mut peer.blocked, true);
                    return if was { Flushed::StillBlocked } else { Flushed::Blocked };
                }
                Err(_) => return Flushed::Over,
            }
        }
        out.clear();
        peer.sent = 0;
        if self.app.is_ending(id) {
            return Flushed::Over;
        }
        if std::mem::replace(&mut peer.blocked, false) { Flushed::Unblocked } else { Flushed::All }
    }

    /// Whether a flush waits for room in the socket.
    pub fn is_blocked(&self, id: u32) -> bool {
        self.peers[id as usize].blocked
    }

    pub fn close(&mut self, id: u32) {
        if self.peers[id as usize].fd.take().is_some() {
            self.counters.system_calls += 1;
        }
        self.app.closed(id);
    }

    pub fn answer_marks(&mut self) {
        let counters = self.counters;
        self.app.answer_marks(|| counters.with_cpu());
    }
}
