//! A connected socket, TCP or unix: who may read and write it, and how.
//!
//! ```text
//!  accepted ─┐            ┌─ attach ──► the event loop (`Transport`, a link's `Source`) ── Detached ─┐
//!            ├─► Stream ──┤                                                                          ├─► Stream
//!  connect ──┘            └─ block ───► BlockingStream, on a thread ────────── release ──────────────┘
//! ```
//!
//! Invariants: (1) a stream has one holder, by value; what is sent to another thread is gone here; (2) a
//! [`Stream`] is nonblocking and nobody reads or writes it: it is on its way between holders; (3) bytes are
//! read and written by the event loop that it was attached to, or by the one thread that has the
//! [`BlockingStream`]; (4) beside that thread, whoever has the [`StreamRemote`] may end the connection, which
//! ends the thread's wait, and may send a sign of life while the thread writes nothing; (5) what has come and
//! was not read travels beside the stream, in the hands of the same holder; (6) the peer sees the end when
//! the last holder drops the stream.
//!
//! TLS will be a second field of these three types, a `connection::transport::Codec`, which moves along:
//! `attach` gives it to the `Transport`, [`BlockingStream`] reads and writes through it, and a
//! [`StreamRemote`] has its sending half.

use super::Endpoint;
use nix::sys::socket::{MsgFlags, send};
use sluice_evloop::{AnyLoop, Fd, Source};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A connection between two holders. Dropped, it is closed.
#[derive(Debug)]
pub struct Stream {
    socket: Fd,
}

/// The addresses of both ends; none for a unix socket, and where the system does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The peer's.
    pub peer: Option<SocketAddr>,
    /// This server's.
    pub own: Option<SocketAddr>,
}

impl Ends {
    /// Asks the system for the addresses of an open socket.
    pub fn of(socket: BorrowedFd<'_>) -> Ends {
        let socket = SockRef::from(&socket);
        let show = |address: io::Result<SockAddr>| address.ok().and_then(|address| address.as_socket());
        Ends { peer: show(socket.peer_addr()), own: show(socket.local_addr()) }
    }

    /// The addresses as they are shown: the peer's, then this server's.
    pub fn shown(self) -> (String, String) {
        let text = |address: Option<SocketAddr>| address.map_or_else(|| "?:0".to_owned(), |a| a.to_string());
        (text(self.peer), text(self.own))
    }
}

/// Where to connect to, and from where.
#[derive(Debug)]
pub struct ConnectPlan {
    /// Name or address.
    pub host: String,
    pub port: u16,
    /// The address that it is made from; empty: any.
    pub source: String,
    /// How long each address of the host may take.
    pub timeout: Duration,
}

impl Stream {
    /// A connection that the event loop has accepted. It is nonblocking, and has its options from the
    /// listener (`options::tune_listener`).
    pub fn accepted(socket: OwnedFd) -> Stream {
        Stream { socket: socket.into() }
    }

    /// A connection that an event loop has let go of.
    pub fn detached(socket: Fd) -> Stream {
        Stream { socket }
    }

    /// Tries the addresses of the host one after the other. Blocks: names are looked up, and hosts may not
    /// answer.
    ///
    /// # Errors
    /// That of the last address, or of the name.
    pub fn connect(plan: &ConnectPlan) -> io::Result<Stream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (plan.host.as_str(), plan.port).to_socket_addrs()? {
            match Stream::connect_to(address, plan) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn connect_to(address: SocketAddr, plan: &ConnectPlan) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if let Ok(source) = plan.source.parse::<IpAddr>() {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect_timeout(&address.into(), plan.timeout)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Stream { socket: OwnedFd::from(socket).into() })
    }

    /// Belongs to an event loop from now on, whose events carry this endpoint.
    pub fn attach(self, event_loop: &mut AnyLoop, endpoint: Endpoint) -> Source {
        event_loop.attach(self.socket, endpoint.token())
    }

    /// Belongs to one thread from now on, which waits in reads and writes.
    ///
    /// # Errors
    /// The system's; the connection is closed then.
    pub fn block(self) -> io::Result<BlockingStream> {
        SockRef::from(&self.socket).set_nonblocking(false)?;
        Ok(BlockingStream { socket: self.socket })
    }

    /// The addresses of both ends.
    pub fn ends(&self) -> Ends {
        Ends::of(self.socket.as_fd())
    }

    /// The descriptor's number, as CLIENT LIST shows it.
    pub fn number(&self) -> i32 {
        self.socket.as_fd().as_raw_fd()
    }

    /// Says a last word without waiting for room, and closes.
    pub fn close_with(self, text: &[u8]) {
        // A peer that has left no room, or is gone, is closed without it.
        let _ = send(self.number(), text, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
    }

    /// Sends the line end that a primary takes for a sign of life. A socket that is full has something to
    /// read, and needs none.
    pub fn keep_alive(&self) {
        keep_alive(self.socket.as_fd());
    }
}

/// A connection that one thread reads and writes, and waits for. Dropped, it is closed, once a
/// [`StreamRemote`] is dropped too.
#[derive(Debug)]
pub struct BlockingStream {
    socket: Fd,
}

impl BlockingStream {
    /// How long a read and a write may wait.
    ///
    /// # Errors
    /// The system's, or the time is zero.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        if timeout.is_zero() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let socket = SockRef::from(&self.socket);
        socket.set_write_timeout(Some(timeout))?;
        socket.set_read_timeout(Some(timeout))
    }

    /// For whoever may have to end the thread's wait.
    ///
    /// # Errors
    /// There is no further descriptor.
    pub fn remote(&self) -> io::Result<StreamRemote> {
        Ok(StreamRemote { socket: self.socket.as_fd().try_clone_to_owned()? })
    }

    /// Ends the connection, though others may have a [`StreamRemote`].
    pub fn end(&self) {
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
    }

    /// The thread is done with it.
    pub fn release(self) -> Stream {
        // It was nonblocking before: that works again.
        let _ = SockRef::from(&self.socket).set_nonblocking(true);
        Stream { socket: self.socket }
    }
}

impl Read for BlockingStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*SockRef::from(&self.socket)).read(into)
    }
}

impl Write for BlockingStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The end of the peer is an error here, and no signal.
        SockRef::from(&self.socket).send_with_flags(bytes, MsgFlags::MSG_NOSIGNAL.bits())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What another thread may do to a connection that a thread has.
#[derive(Debug)]
pub struct StreamRemote {
    socket: OwnedFd,
}

impl StreamRemote {
    /// Ends the connection: a read of the thread that has it returns at once.
    pub fn end(&self) {
        // One that has ended does not mind.
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
    }

    /// As [`Stream::keep_alive`].
    pub fn keep_alive(&self) {
        keep_alive(self.socket.as_fd());
    }
}

fn keep_alive(socket: BorrowedFd<'_>) {
    let _ = send(socket.as_raw_fd(), b"\n", MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
}

#[cfg(test)]
impl<S: Into<OwnedFd>> From<S> for Stream {
    /// A socket of a test, which is made nonblocking.
    fn from(socket: S) -> Stream {
        let socket: OwnedFd = socket.into();
        SockRef::from(&socket).set_nonblocking(true).expect("an open socket");
        Stream::accepted(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn plan(port: u16) -> ConnectPlan {
        let timeout = Duration::from_secs(10);
        ConnectPlan { host: "127.0.0.1".into(), port, source: "127.0.0.1".into(), timeout }
    }

    fn pair() -> (Stream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = Stream::connect(&plan(listener.local_addr().unwrap().port())).unwrap();
        (stream, listener.accept().unwrap().0)
    }

    fn is_nonblocking(stream: &Stream) -> bool {
        SockRef::from(&stream.socket).nonblocking().unwrap()
    }

    #[test]
    fn it_is_nonblocking_between_holders_and_blocking_on_a_thread() {
        let (stream, mut peer) = pair();
        assert!(is_nonblocking(&stream) && SockRef::from(&stream.socket).tcp_nodelay().unwrap());
        let (number, ends) = (stream.number(), stream.ends());
        assert_eq!((ends.peer, ends.own), (peer.local_addr().ok(), peer.peer_addr().ok()));
        let mut blocking = stream.block().unwrap();
        peer.write_all(b"ab").unwrap();
        let mut got = [0; 2];
        blocking.read_exact(&mut got).unwrap();
        blocking.write_all(b"cd").unwrap();
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"cd");
        let stream = blocking.release();
        assert!(is_nonblocking(&stream));
        assert_eq!((stream.number(), stream.ends()), (number, ends));
        stream.close_with(b"bye");
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"bye");
    }

    #[test]
    fn a_remote_ends_the_wait_of_the_thread_that_reads() {
        let (stream, mut peer) = pair();
        let mut blocking = stream.block().unwrap();
        let remote = blocking.remote().unwrap();
        remote.keep_alive();
        peer.read_exact(&mut [0]).unwrap();
        let waiting = std::thread::spawn(move || blocking.read(&mut [0; 8]).unwrap());
        remote.end();
        assert_eq!(waiting.join().unwrap(), 0);
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the peer sees the end");
    }

    #[test]
    fn a_read_and_a_write_end_after_their_timeout() {
        let (stream, _peer) = pair();
        let mut blocking = stream.block().unwrap();
        assert!(blocking.set_timeout(Duration::ZERO).is_err());
        blocking.set_timeout(Duration::from_millis(20)).unwrap();
        let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        assert!(blocking.read(&mut [0; 8]).is_err_and(|error| is_timeout(&error)));
        let block = vec![0; 1 << 20];
        let error = (0..1000).find_map(|_| blocking.write_all(&block).err()).expect("nobody reads");
        assert!(is_timeout(&error), "{error}");
    }

    #[test]
    fn a_unix_socket_has_no_addresses_that_are_shown() {
        let (one, _other) = UnixStream::pair().unwrap();
        let stream = Stream::from(one);
        assert_eq!(stream.ends(), Ends { peer: None, own: None });
        assert_eq!(stream.ends().shown(), ("?:0".to_owned(), "?:0".to_owned()));
    }

    #[test]
    fn nobody_listens_is_an_error_and_not_a_wait() {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        assert_eq!(Stream::connect(&plan(port)).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
