//! A connected TCP or unix socket. The type shows which part of the server currently holds the socket, and
//! how this part reads and writes.
//!
//! ```text
//!  accepted ─┐            ┌─ attach ──► the event loop (`Transport`, a link's `Source`) ── Detached ─┐
//!            ├─► Stream ──┤                                                                          ├─► Stream
//!  connect ──┤            └─ block ───► BlockingStream, on a thread ────────── release ──────────────┘
//!  dial ─────┘   (attached before there is a connection, and watched until there is)
//! ```
//!
//! Invariants: (1) a stream has one holder, by value; a thread that sends a stream to another thread no
//! longer has it; (2) a [`Stream`] is nonblocking and is being passed between two holders: nothing is
//! read from it, and only a keep-alive or a last text is written to it; (3) bytes are read and written by
//! the event loop to which the stream was attached, or by the single thread that has the
//! [`BlockingStream`]; (4) in addition to that thread, the holder of the [`StreamRemote`] may end the
//! connection, which ends the thread's wait, and may send a keep-alive while the thread writes nothing;
//! (5) received bytes that were not read are passed on together with the stream; (6) the peer sees the end
//! when the last holder drops the stream.
//!
//! The [`Codec`] of a TLS connection moves with the stream: `attach` passes it to the `Transport`, and a
//! [`BlockingStream`] reads and writes through it. A [`StreamRemote`] shares it under a lock, because a
//! keep-alive must also be encoded. Invariant (7): bytes are sent in the order in which they were
//! encoded, because the encoding thread holds the lock until the kernel has the bytes.

use super::{Codec, Endpoint, PeerSide, TlsCodec};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use sluice_clock::{Clock, System};
use sluice_evloop::{AnyLoop, Fd, Source};
use sluice_tls::{Buffers, Context};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A connection that is being passed between two holders. Dropping this value closes the connection.
#[derive(Debug)]
pub struct Stream {
    socket: Fd,
    codec: Option<Box<dyn Codec>>,
}

/// The addresses of both ends; `None` for a unix socket, or if the system does not report them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The peer's address.
    pub peer: Option<SocketAddr>,
    /// This server's own address.
    pub own: Option<SocketAddr>,
}

impl Ends {
    /// Gets the addresses of an open socket from the system.
    pub fn of(socket: BorrowedFd<'_>) -> Ends {
        let socket = SockRef::from(&socket);
        let show = |address: io::Result<SockAddr>| address.ok().and_then(|address| address.as_socket());
        Ends { peer: show(socket.peer_addr()), own: show(socket.local_addr()) }
    }

    /// The addresses as text: the peer's, then this server's; `?:0` for an unknown address.
    pub fn shown(self) -> (String, String) {
        let text = |address: Option<SocketAddr>| address.map_or_else(|| "?:0".to_owned(), |a| a.to_string());
        (text(self.peer), text(self.own))
    }
}

/// Target and source of a connection to be made.
#[derive(Debug)]
pub struct ConnectPlan {
    /// Name or address of the target.
    pub host: String,
    pub port: u16,
    /// The local address from which the connection is made; empty for any address.
    pub source: String,
    /// How long connecting to each address of the host may take, and how long the TLS handshake may take
    /// after that.
    pub timeout: Duration,
    /// The TLS context; `None` for a plain connection.
    pub tls: Option<Context>,
}

impl Stream {
    /// A connection that the event loop has accepted. The socket is nonblocking, and has inherited its
    /// options from the listener (`options::tune_listener`).
    pub fn accepted(socket: OwnedFd) -> Stream {
        Stream { socket: socket.into(), codec: None }
    }

    /// A connection that an event loop has released. The connection has no codec, or the caller keeps the
    /// codec.
    pub fn detached(socket: Fd) -> Stream {
        Stream { socket, codec: None }
    }

    /// A connection that an event loop has released, with its codec.
    pub fn with_codec(socket: Fd, codec: Option<Box<dyn Codec>>) -> Stream {
        Stream { socket, codec }
    }

    /// Whether bytes pass through TLS, which detects changed bytes by itself.
    pub fn is_tls(&self) -> bool {
        self.codec.is_some()
    }

    /// Connects to the first address of the host at which this succeeds. The call blocks, because names
    /// are looked up, and hosts may not answer.
    ///
    /// # Errors
    /// The error of the last address, or of the name lookup.
    pub fn connect(plan: &ConnectPlan) -> io::Result<Stream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (plan.host.as_str(), plan.port).to_socket_addrs()? {
            let connected = Stream::connect_to(address, plan).and_then(|stream| match &plan.tls {
                Some(context) => stream.shake_hands(context, plan.timeout),
                None => Ok(stream),
            });
            match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Begins a connection without waiting. The socket becomes writable when the connection is made or has
    /// failed ([`Stream::dialled`]). `source` is the local address from which the connection is made;
    /// empty for any address.
    ///
    /// # Errors
    /// An error that the system reports at once.
    pub fn dial(address: SocketAddr, source: &str) -> io::Result<Stream> {
        let socket = socket_for(address, source)?;
        socket.set_nonblocking(true)?;
        // The option is set before the connection is made, because the first message is sent at once.
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
            Err(error) => return Err(error),
        }
        Ok(Stream { socket: OwnedFd::from(socket).into(), codec: None })
    }

    /// The result of [`Stream::dial`], for a socket that has become writable.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub fn dialled(socket: BorrowedFd<'_>) -> io::Result<()> {
        SockRef::from(&socket).take_error()?.map_or(Ok(()), Err)
    }

    fn connect_to(address: SocketAddr, plan: &ConnectPlan) -> io::Result<Stream> {
        let socket = socket_for(address, &plan.source)?;
        socket.connect_timeout(&address.into(), plan.timeout)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Stream { socket: OwnedFd::from(socket).into(), codec: None })
    }

    /// Performs the client's side of a TLS handshake. Blocks for at most about `timeout`.
    ///
    /// # Errors
    /// An error of the system, a timeout, or a peer that is not accepted.
    fn shake_hands(self, context: &Context, timeout: Duration) -> io::Result<Stream> {
        let refused = |error: sluice_tls::SessionError| io::Error::other(error.to_string());
        let mut session = context.connect().map_err(refused)?;
        let mut plain = self.block()?;
        let mut clock = Clock::new(System::without_counter());
        let now_ns = |clock: &mut Clock<_>| clock.now().mono_ns;
        let until_ns =
            now_ns(&mut clock).saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let mut buffers = Buffers::default();
        session.start(&mut buffers).map_err(refused)?;
        let mut piece = vec![0; HANDSHAKE_BYTES];
        while !session.is_established() {
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns(&mut clock)));
            plain.set_timeout(left.max(Duration::from_millis(1)))?;
            plain.write_all(&std::mem::take(&mut buffers.answer))?;
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match plain.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => {
                    let received = session.receive(&piece[..len], &mut buffers);
                    if let Err(error) = received {
                        // The alert reports the reason to the peer.
                        let _ = plain.write_all(&buffers.answer);
                        return Err(refused(error));
                    }
                }
            }
        }
        plain.write_all(&buffers.answer)?;
        plain.set_timeout(Duration::MAX)?;
        let mut stream = plain.release(&mut Vec::new());
        stream.codec = Some(TlsCodec::with_unread(session, buffers.plain));
        Ok(stream)
    }

    /// Attaches the socket to an event loop, whose events for the socket name this endpoint. Returns the
    /// codec, if there is one. The caller must pass all bytes through the codec.
    pub fn attach(self, event_loop: &mut AnyLoop, endpoint: Endpoint) -> (Source, Option<Box<dyn Codec>>) {
        (event_loop.attach(self.socket, endpoint.token()), self.codec)
    }

    /// Makes the connection one for a single thread, which blocks in reads and writes.
    ///
    /// # Errors
    /// An error of the system. The connection is then closed.
    pub fn block(self) -> io::Result<BlockingStream> {
        SockRef::from(&self.socket).set_nonblocking(false)?;
        let coded = self.codec.map(|codec| Coded {
            codec: Arc::new(Mutex::new(Some(codec))),
            plain: Vec::new(),
            read: 0,
            received: Vec::new(),
            has_ended: false,
        });
        Ok(BlockingStream { socket: self.socket, coded })
    }

    /// The addresses of both ends.
    pub fn ends(&self) -> Ends {
        Ends::of(self.socket.as_fd())
    }

    /// The descriptor, as CLIENT LIST shows it.
    pub fn number(&self) -> i32 {
        self.socket.as_fd().as_raw_fd()
    }

    /// Sends a last text without waiting for room, and closes the connection.
    pub fn close_with(mut self, text: &[u8]) {
        let mut coded = Vec::new();
        let bytes = match &mut self.codec {
            None => text,
            Some(codec) => {
                let _ = codec.encode(&[text], &mut coded);
                codec.end(&mut coded);
                &coded
            }
        };
        // If the socket has no room, or the peer is gone, the text is lost.
        send_now(self.socket.as_fd(), bytes);
    }

    /// Sends the line end that a primary counts as a keep-alive. If the socket is full, the primary has
    /// bytes to read and needs no keep-alive.
    pub fn keep_alive(&mut self) {
        keep_alive(self.socket.as_fd(), self.codec.as_deref_mut());
    }
}

/// A socket bound to the address `source`. If `source` is not an address, the socket is not bound.
fn socket_for(address: SocketAddr, source: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Ok(source) = source.parse::<IpAddr>() {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    Ok(socket)
}

/// A connection that one thread reads and writes with blocking calls. The connection is closed when the
/// stream and its [`StreamRemote`], if any, are dropped.
#[derive(Debug)]
pub struct BlockingStream {
    socket: Fd,
    coded: Option<Coded>,
}

/// The codec of a thread's connection, shared with the holder of the [`StreamRemote`].
type SharedCodec = Arc<Mutex<Option<Box<dyn Codec>>>>;

/// The codec of a thread's connection, with its buffers.
#[derive(Debug)]
struct Coded {
    codec: SharedCodec,
    /// Decoded bytes, some of which may have been read.
    plain: Vec<u8>,
    /// Number of bytes at the start of `plain` that `read` has returned already.
    read: usize,
    /// Buffer for encoded bytes from the socket.
    received: Vec<u8>,
    has_ended: bool,
}

/// Locks the codec. The lock is never poisoned, because a panic ends the process.
fn lock(codec: &SharedCodec) -> MutexGuard<'_, Option<Box<dyn Codec>>> {
    codec.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlockingStream {
    /// Sets how long a read or a write may wait; [`Duration::MAX`] for no limit.
    ///
    /// # Errors
    /// An error of the system, or a time of zero.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        if timeout.is_zero() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let socket = SockRef::from(&self.socket);
        let timeout = (timeout != Duration::MAX).then_some(timeout);
        socket.set_write_timeout(timeout)?;
        socket.set_read_timeout(timeout)
    }

    /// A handle for another thread that may have to end this thread's wait.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn remote(&self) -> io::Result<StreamRemote> {
        let codec = self.coded.as_ref().map(|coded| coded.codec.clone());
        Ok(StreamRemote { socket: self.socket.as_fd().try_clone_to_owned()?, codec })
    }

    /// Ends the connection, even if a [`StreamRemote`] exists.
    pub fn end(&self) {
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
    }

    /// Releases the connection from the thread. Decoded bytes that were not read are appended to `rest`.
    pub fn release(self, rest: &mut Vec<u8>) -> Stream {
        // The socket was nonblocking before, so this call cannot fail.
        let _ = SockRef::from(&self.socket).set_nonblocking(true);
        let codec = self.coded.and_then(|coded| {
            rest.extend_from_slice(&coded.plain[coded.read..]);
            // From now on, a [`StreamRemote`] that still exists has no codec with which it could encode.
            lock(&coded.codec).take()
        });
        Stream { socket: self.socket, codec }
    }

    /// Receives from the socket and decodes, until there are decoded bytes or the peer has ended.
    fn decode_more(&mut self) -> io::Result<()> {
        let Some(coded) = &mut self.coded else { return Ok(()) };
        (coded.read, coded.received) = (0, std::mem::take(&mut coded.received));
        coded.plain.clear();
        coded.received.resize(RECEIVED_BYTES, 0);
        while coded.plain.is_empty() && !coded.has_ended {
            let len = (&*SockRef::from(&self.socket)).read(&mut coded.received)?;
            if len == 0 {
                coded.has_ended = true;
                break;
            }
            let mut codec = lock(&coded.codec);
            let Some(codec) = codec.as_deref_mut() else { break };
            let mut buffers = Buffers::default();
            std::mem::swap(&mut buffers.plain, &mut coded.plain);
            let decoded = codec.decode(&coded.received[..len], &mut buffers);
            std::mem::swap(&mut buffers.plain, &mut coded.plain);
            write_all(&self.socket, &buffers.answer)?;
            coded.has_ended = decoded.map_err(io::Error::other)? == PeerSide::Ended;
        }
        Ok(())
    }
}

impl Read for BlockingStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.coded.as_ref().is_some_and(|coded| coded.read == coded.plain.len()) {
            self.decode_more()?;
        }
        match &mut self.coded {
            None => (&*SockRef::from(&self.socket)).read(into),
            Some(coded) => {
                let rest = &coded.plain[coded.read..];
                let len = rest.len().min(into.len());
                into[..len].copy_from_slice(&rest[..len]);
                coded.read += len;
                Ok(len)
            }
        }
    }
}

impl Write for BlockingStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(coded) = &self.coded else { return write_some(&self.socket, bytes) };
        // The lock is held until all bytes were sent (invariant 7).
        let mut codec = lock(&coded.codec);
        let Some(codec) = codec.as_deref_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
        let part = &bytes[..bytes.len().min(WRITTEN_BYTES)];
        let mut out = Vec::new();
        codec.encode(&[part], &mut out).map_err(io::Error::other)?;
        write_all(&self.socket, &out)?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A handle by which another thread can end a thread's connection, or keep it alive.
#[derive(Debug)]
pub struct StreamRemote {
    socket: OwnedFd,
    codec: Option<SharedCodec>,
}

impl StreamRemote {
    /// Ends the connection, so that a read of the owning thread returns at once.
    pub fn end(&self) {
        // The call fails without harm if the connection has ended.
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
    }

    /// Sends a keep-alive as [`Stream::keep_alive`] does, unless the owning thread is writing.
    pub fn keep_alive(&self) {
        match &self.codec {
            None => keep_alive(self.socket.as_fd(), None),
            Some(codec) => {
                // If the owning thread holds the lock, it is either writing, which also keeps the connection
                // alive, or decoding for a moment, so that a later call succeeds. If the codec is gone, the
                // thread has released the connection.
                if let Ok(mut codec) = codec.try_lock()
                    && let Some(codec) = codec.as_deref_mut()
                {
                    keep_alive(self.socket.as_fd(), Some(codec));
                }
            }
        }
    }
}

fn keep_alive(socket: BorrowedFd<'_>, codec: Option<&mut (dyn Codec + 'static)>) {
    let Some(codec) = codec else {
        send_now(socket, b"\n");
        return;
    };
    // Nothing is encoded without room in the socket, because encoded bytes must be sent completely, or no
    // later record can be decoded.
    if has_room(socket) {
        let mut out = Vec::new();
        if codec.encode(&[b"\n"], &mut out).is_ok() {
            send_now(socket, &out);
        }
    }
}

/// Sends bytes without waiting for room. Returns how many bytes the kernel has taken.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    send(socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).unwrap_or(0)
}

/// Whether the kernel takes a short text at once. The kernel reports a socket as writable if a third of
/// its buffer is free.
fn has_room(socket: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::POLLOUT)];
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        && asked[0].revents().is_some_and(|events| events == PollFlags::POLLOUT)
}

/// Sends some of the bytes. A peer that has ended causes an error instead of a signal.
fn write_some(socket: &Fd, bytes: &[u8]) -> io::Result<usize> {
    SockRef::from(socket).send_with_flags(bytes, MsgFlags::MSG_NOSIGNAL.bits())
}

fn write_all(socket: &Fd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write_some(socket, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Maximum number of bytes received at once during a handshake.
const HANDSHAKE_BYTES: usize = 16 * 1024;
/// Maximum number of encoded bytes that a thread receives at once.
const RECEIVED_BYTES: usize = 256 * 1024;
/// Maximum number of plain bytes that a thread encodes at once.
const WRITTEN_BYTES: usize = 256 * 1024;

#[cfg(test)]
impl<S: Into<OwnedFd>> From<S> for Stream {
    /// Makes a stream of a test's socket, which becomes nonblocking.
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
        ConnectPlan { host: "127.0.0.1".into(), port, source: "127.0.0.1".into(), timeout, tls: None }
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
        let stream = blocking.release(&mut Vec::new());
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
