//! A connected socket, TCP or unix: who may read and write it, and how.
//!
//! ```text
//!  accepted ─┐            ┌─ attach ──► the event loop (`Transport`, a link's `Source`) ── Detached ─┐
//!            ├─► Stream ──┤                                                                          ├─► Stream
//!  connect ──┤            └─ block ───► BlockingStream, on a thread ────────── release ──────────────┘
//!  dial ─────┘   (attached before there is a connection, and watched until there is)
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
//! A connection that speaks TLS carries its [`Codec`] along: `attach` gives it to the `Transport`, and a
//! [`BlockingStream`] reads and writes through it. A [`StreamRemote`] shares it under a lock, since a sign of
//! life has to be encoded too; (7) what is encoded first is sent first: whoever encodes holds the lock until
//! the kernel has the bytes.

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

/// A connection between two holders. Dropped, it is closed.
#[derive(Debug)]
pub struct Stream {
    socket: Fd,
    codec: Option<Box<dyn Codec>>,
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
    /// How long each address of the host may take, and then the handshake of TLS.
    pub timeout: Duration,
    /// By what TLS is spoken; none: the connection is plain.
    pub tls: Option<Context>,
}

impl Stream {
    /// A connection that the event loop has accepted. It is nonblocking, and has its options from the
    /// listener (`options::tune_listener`).
    pub fn accepted(socket: OwnedFd) -> Stream {
        Stream { socket: socket.into(), codec: None }
    }

    /// A connection that an event loop has let go of; its codec is elsewhere, or it has none.
    pub fn detached(socket: Fd) -> Stream {
        Stream { socket, codec: None }
    }

    /// A connection that an event loop has let go of, with its codec.
    pub fn with_codec(socket: Fd, codec: Option<Box<dyn Codec>>) -> Stream {
        Stream { socket, codec }
    }

    /// Whether bytes go through TLS, which notices by itself when one is changed on the way.
    pub fn is_tls(&self) -> bool {
        self.codec.is_some()
    }

    /// Tries the addresses of the host one after the other. Blocks: names are looked up, and hosts may not
    /// answer.
    ///
    /// # Errors
    /// That of the last address, or of the name.
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

    /// Begins a connection, and does not wait: the socket is writable when there is one or none
    /// ([`Stream::dialled`]). `source` is the address that it is made from; empty: any.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn dial(address: SocketAddr, source: &str) -> io::Result<Stream> {
        let socket = socket_for(address, source)?;
        socket.set_nonblocking(true)?;
        // Ahead of the connection: the first message leaves when it is made.
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
            Err(error) => return Err(error),
        }
        Ok(Stream { socket: OwnedFd::from(socket).into(), codec: None })
    }

    /// What became of [`Stream::dial`], of a socket that is writable.
    ///
    /// # Errors
    /// Why there is no connection.
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

    /// Does the client's side of a handshake of TLS. Blocks, `timeout` at most.
    ///
    /// # Errors
    /// The system's, the time is over, or the peer is not accepted.
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
                        // The peer learns why, where there is room for it.
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

    /// Belongs to an event loop from now on, whose events carry this endpoint. Returns the codec, through
    /// which all bytes go.
    pub fn attach(self, event_loop: &mut AnyLoop, endpoint: Endpoint) -> (Source, Option<Box<dyn Codec>>) {
        (event_loop.attach(self.socket, endpoint.token()), self.codec)
    }

    /// Belongs to one thread from now on, which waits in reads and writes.
    ///
    /// # Errors
    /// The system's; the connection is closed then.
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

    /// The descriptor's number, as CLIENT LIST shows it.
    pub fn number(&self) -> i32 {
        self.socket.as_fd().as_raw_fd()
    }

    /// Says a last word without waiting for room, and closes.
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
        // A peer that has left no room, or is gone, is closed without it.
        send_now(self.socket.as_fd(), bytes);
    }

    /// Sends the line end that a primary takes for a sign of life. A socket that is full has something to
    /// read, and needs none.
    pub fn keep_alive(&mut self) {
        keep_alive(self.socket.as_fd(), self.codec.as_deref_mut());
    }
}

/// A socket that has this address at its own end; a word that is no address means any.
fn socket_for(address: SocketAddr, source: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Ok(source) = source.parse::<IpAddr>() {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    Ok(socket)
}

/// A connection that one thread reads and writes, and waits for. Dropped, it is closed, once a
/// [`StreamRemote`] is dropped too.
#[derive(Debug)]
pub struct BlockingStream {
    socket: Fd,
    coded: Option<Coded>,
}

/// A codec on a thread, shared with whoever has the [`StreamRemote`].
type SharedCodec = Arc<Mutex<Option<Box<dyn Codec>>>>;

/// What a thread has of a connection with a codec.
#[derive(Debug)]
struct Coded {
    codec: SharedCodec,
    /// Decoded bytes.
    plain: Vec<u8>,
    /// How many bytes at the start of `plain` the caller of `read` has got already.
    read: usize,
    /// Room for bytes of the socket.
    received: Vec<u8>,
    has_ended: bool,
}

/// A lock that a panic has poisoned ends the process anyway.
fn lock(codec: &SharedCodec) -> MutexGuard<'_, Option<Box<dyn Codec>>> {
    codec.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlockingStream {
    /// How long a read and a write may wait; [`Duration::MAX`]: without end.
    ///
    /// # Errors
    /// The system's, or the time is zero.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        if timeout.is_zero() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let socket = SockRef::from(&self.socket);
        let timeout = (timeout != Duration::MAX).then_some(timeout);
        socket.set_write_timeout(timeout)?;
        socket.set_read_timeout(timeout)
    }

    /// For whoever may have to end the thread's wait.
    ///
    /// # Errors
    /// There is no further descriptor.
    pub fn remote(&self) -> io::Result<StreamRemote> {
        let codec = self.coded.as_ref().map(|coded| coded.codec.clone());
        Ok(StreamRemote { socket: self.socket.as_fd().try_clone_to_owned()?, codec })
    }

    /// Ends the connection, though others may have a [`StreamRemote`].
    pub fn end(&self) {
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
    }

    /// The thread is done with it. What was decoded and not read is appended to `rest`.
    pub fn release(self, rest: &mut Vec<u8>) -> Stream {
        // It was nonblocking before: that works again.
        let _ = SockRef::from(&self.socket).set_nonblocking(true);
        let codec = self.coded.and_then(|coded| {
            rest.extend_from_slice(&coded.plain[coded.read..]);
            // A remote that is left has nothing to encode by from now on.
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
        // Held until everything was sent: invariant 7.
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

/// What another thread may do to a connection that a thread has.
#[derive(Debug)]
pub struct StreamRemote {
    socket: OwnedFd,
    codec: Option<SharedCodec>,
}

impl StreamRemote {
    /// Ends the connection: a read of the thread that has it returns at once.
    pub fn end(&self) {
        // One that has ended does not mind.
        let _ = SockRef::from(&self.socket).shutdown(Shutdown::Both);
    }

    /// As [`Stream::keep_alive`].
    pub fn keep_alive(&self) {
        match &self.codec {
            None => keep_alive(self.socket.as_fd(), None),
            Some(codec) => {
                // A thread that writes is a sign of life itself; one that has given the connection back is
                // none of this remote's.
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
    // Bytes that were encoded have to be sent whole, or nothing can follow them.
    if has_room(socket) {
        let mut out = Vec::new();
        if codec.encode(&[b"\n"], &mut out).is_ok() {
            send_now(socket, &out);
        }
    }
}

/// Sends without waiting for room; how many bytes the kernel took.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    send(socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL).unwrap_or(0)
}

/// Whether the kernel takes a short text at once: it says so where a third of its buffer is free.
fn has_room(socket: BorrowedFd<'_>) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::POLLOUT)];
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        && asked[0].revents().is_some_and(|events| events == PollFlags::POLLOUT)
}

/// Sends some of the bytes. The end of the peer is an error here, and no signal.
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

/// Bytes that are received at once during a handshake.
const HANDSHAKE_BYTES: usize = 16 * 1024;
/// Bytes that are received at once by a thread, before they are decoded.
const RECEIVED_BYTES: usize = 256 * 1024;
/// Bytes that are encoded at once by a thread.
const WRITTEN_BYTES: usize = 256 * 1024;

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
