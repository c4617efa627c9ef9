//! The load generators. Each is one thread with its own epoll set, the same for all arms.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::machine::now_ns;
use super::report::Histogram;

/// Connects to one of eight loopback addresses, chosen by `number`, so that no address runs out of ports.
pub fn connect(port: u16, number: usize) -> TcpStream {
    let stream =
        TcpStream::connect((Ipv4Addr::new(127, 0, 0, 1 + (number % 8) as u8), port)).expect("connect");
    stream.set_nodelay(true).expect("a socket option");
    stream
}

/// An epoll set of connections, each of which has an index.
pub struct Set {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
}

impl Set {
    pub fn new() -> Set {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        Set { epoll, ready: Vec::with_capacity(256) }
    }

    pub fn add(&self, stream: &TcpStream, index: usize) {
        epoll::add(&self.epoll, stream, EventData::new_u64(index as u64), EventFlags::IN).expect("epoll add");
    }

    fn also_writable(&self, stream: &TcpStream, index: usize, flags: EventFlags) {
        epoll::modify(&self.epoll, stream, EventData::new_u64(index as u64), EventFlags::IN | flags)
            .expect("epoll modify");
    }

    /// The ready connections with their events, after at most `timeout_ns`.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> Vec<(usize, EventFlags)> {
        self.ready.clear();
        let timeout = timeout_ns
            .map(|ns| Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 });
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.ready), timeout.as_ref())
            .expect("epoll wait");
        self.ready.iter().map(|event| (event.data.u64() as usize, event.flags)).collect()
    }
}

/// Connections that each send a batch of requests, wait for all replies, and send the next.
pub struct Load {
    set: Set,
    peers: Vec<Peer>,
    /// The bytes of a whole batch of requests.
    request: Vec<u8>,
    /// Length of one reply in bytes.
    reply: usize,
    depth: usize,
    scratch: Vec<u8>,
}

struct Peer {
    stream: TcpStream,
    /// Number of bytes of the batch that were sent; `got` counts the received bytes of the replies.
    sent: usize,
    got: usize,
    began_ns: u64,
    waits_for_room: bool,
}

/// The results of a window, that is, of load for a given time.
pub struct Window {
    pub ops: u64,
    pub wall_ns: u64,
    pub latency: Histogram,
}

impl Load {
    /// Opens `connections` connections, each of which sends `message` `depth` times and expects `reply` bytes
    /// for each.
    pub fn open(port: u16, connections: usize, message: &[u8], depth: usize, reply: usize) -> Load {
        let set = Set::new();
        let mut peers = Vec::new();
        for index in 0..connections {
            let stream = connect(port, index);
            stream.set_nonblocking(true).expect("a socket option");
            set.add(&stream, index);
            peers.push(Peer { stream, sent: 0, got: 0, began_ns: 0, waits_for_room: false });
        }
        Load { set, peers, request: message.repeat(depth), reply, depth, scratch: vec![0; 256 * 1024] }
    }

    /// Sends for `ns`, and then waits for the missing replies.
    pub fn window(&mut self, ns: u64) -> Window {
        let mut window = Window { ops: 0, wall_ns: 0, latency: Histogram::new() };
        let began = now_ns();
        let until = began + ns;
        for index in 0..self.peers.len() {
            self.begin(index);
        }
        let mut busy = self.peers.len();
        while busy > 0 {
            for (index, flags) in self.set.wait(None) {
                if flags.contains(EventFlags::OUT) {
                    self.push(index);
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
                    && self.pull(index, &mut window)
                {
                    if now_ns() < until {
                        self.begin(index);
                    } else {
                        busy -= 1;
                    }
                }
            }
        }
        window.wall_ns = now_ns() - began;
        window
    }

    fn begin(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        (peer.sent, peer.got) = (0, 0);
        peer.began_ns = now_ns();
        self.push(index);
    }

    /// Sends as much of the batch as the socket takes.
    fn push(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        while peer.sent < self.request.len() {
            match peer.stream.write(&self.request[peer.sent..]) {
                Ok(bytes) => peer.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("send: {error}"),
            }
        }
        let missing = peer.sent < self.request.len();
        if missing != peer.waits_for_room {
            peer.waits_for_room = missing;
            let flags = if missing { EventFlags::OUT } else { EventFlags::empty() };
            self.set.also_writable(&peer.stream, index, flags);
        }
    }

    /// Receives available bytes; returns whether the batch is answered completely.
    fn pull(&mut self, index: usize, window: &mut Window) -> bool {
        let peer = &mut self.peers[index];
        let bytes = match peer.stream.read(&mut self.scratch) {
            Ok(0) => panic!("the server hung up"),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("receive: {error}"),
        };
        let before = peer.got / self.reply;
        peer.got += bytes;
        let answered = (peer.got / self.reply - before) as u64;
        window.ops += answered;
        window.latency.record(now_ns() - peer.began_ns, answered);
        peer.got == self.reply * self.depth
    }
}
