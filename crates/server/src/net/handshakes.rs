//! TLS handshakes of clients and of cluster bus links. A separate thread performs them, because a
//! signature takes up to a millisecond.
//!
//! ```text
//!  accepted ──Begin──► the thread's event loop: bytes ⇄ session ──established──► detached ──Established──► a client's connection
//!                           └── deadline, alert, end of the peer ──Failed──► a line for the log
//! ```
//!
//! Invariants: (1) a connection in its handshake belongs to the thread alone, by value; (2) the thread's
//! table is bounded, because a client counts for `maxclients` from the moment when it is accepted, and
//! handshakes of the bus are limited to `HANDSHAKES_MAX`; (3) a handshake ends after the time that was
//! passed to [`Handshakes::on`], however slowly it progresses; (4) the bytes that arrived with the
//! handshake's last packet are passed on with the connection, and later bytes wait in the kernel until the
//! connection is served, so that the number of bytes decoded here is bounded; (5) if there are too few
//! processors, the clients' handshake thread gets a third of the time that other threads get, so that new
//! connections do not delay connected clients.

use crate::net::{Endpoint, Stream, TlsCodec, send_now};
use crate::threads::{self, Thread};
use sluice_base::SessionKey;
use sluice_clock::Clock;
use sluice_evloop::{
    AnyLoop, Deadline, Event, Mailbox, Received, SendBuf, Sender, Sending, Sent, Source, Waker,
};
use sluice_storage::plain_error;
use sluice_tls::{Buffers, Context, NameField, Session};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

/// This server's part in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeRole {
    /// The peer is a client that has connected to this server.
    Server,
    /// The peer is a cluster node that has connected to this server.
    Node,
    /// This server has connected to the peer.
    Dialler,
}

/// A connection whose TLS handshake is to begin.
pub struct NewHandshake<T> {
    /// The connected socket, which the thread owns during the handshake.
    pub stream: Stream,
    /// The TLS context of the session.
    pub context: Context,
    /// This server's part in the handshake.
    pub role: HandshakeRole,
    /// The field of a client's certificate whose names are requested, if any.
    pub field: Option<NameField>,
    /// The main thread's data about the connection, returned with the outcome.
    pub origin: T,
}

/// The result of a handshake.
pub enum HandshakeOutcome<T> {
    /// The handshake has succeeded, and the connection can be served.
    Established {
        /// The socket, with its codec.
        stream: Stream,
        /// Plain bytes that arrived with the end of the handshake.
        plain: Vec<u8>,
        /// The requested names of the client's certificate; `None` if there is no certificate, or no
        /// name was requested.
        names: Option<Vec<Vec<u8>>>,
        /// The value of [`NewHandshake::origin`].
        origin: T,
    },
    /// The handshake has failed, and the connection is closed.
    Failed {
        /// The reason, for the log.
        reason: String,
        /// The value of [`NewHandshake::origin`].
        origin: T,
    },
}

/// The main thread's side of the handshakes under way.
pub struct Handshakes<T> {
    /// The kind of the thread, which determines its name and processors.
    row: Thread<'static>,
    /// How long one handshake may take.
    at_most: Duration,
    thread: Option<HandshakeLink<T>>,
    in_progress: usize,
    /// A second of the monotonic clock, and the number of handshakes that have failed in that second.
    told: (u64, u32),
}

struct HandshakeLink<T> {
    sender: Sender<NewHandshake<T>>,
    outcomes: mpsc::Receiver<HandshakeOutcome<T>>,
}

impl<T: Send + 'static> Handshakes<T> {
    /// A value without handshakes and without a thread. The first handshake starts the thread. Each
    /// handshake may take `at_most`.
    pub fn on(row: Thread<'static>, at_most: Duration) -> Handshakes<T> {
        Handshakes { row, at_most, thread: None, in_progress: 0, told: (0, 0) }
    }

    /// Number of handshakes under way.
    pub fn in_progress(&self) -> usize {
        self.in_progress
    }

    /// Counts a failed handshake. Returns whether the failure should be logged as a warning, which is true at
    /// most [`TOLD_MAX`] times a second.
    pub fn failure_is_told(&mut self, now_s: u64) -> bool {
        if self.told.0 != now_s {
            self.told = (now_s, 0);
        }
        self.told.1 = self.told.1.saturating_add(1);
        self.told.1 <= TOLD_MAX
    }

    /// Begins a handshake. `main` is woken when the handshake is over.
    ///
    /// # Errors
    /// The thread of the handshakes, or its event loop, cannot be started. The connection is then closed.
    pub fn begin(&mut self, begin: NewHandshake<T>, main: Waker) -> io::Result<()> {
        let running = match &mut self.thread {
            Some(running) => running,
            none => none.insert(start(self.row, self.at_most, main)?),
        };
        // The result only says whether the kernel had to be asked to wake the thread.
        let _ = running.sender.send(begin);
        self.in_progress += 1;
        Ok(())
    }

    /// The result of the next finished handshake. Cost: one comparison while no handshake is under way.
    pub fn take(&mut self) -> Option<HandshakeOutcome<T>> {
        if self.in_progress == 0 {
            return None;
        }
        match self.thread.as_ref()?.outcomes.try_recv() {
            Ok(outcome) => {
                self.in_progress -= 1;
                Some(outcome)
            }
            Err(mpsc::TryRecvError::Empty) => None,
            // The thread's event loop has failed, and its connections are closed. The next handshake
            // starts another thread.
            Err(mpsc::TryRecvError::Disconnected) => {
                (self.thread, self.in_progress) = (None, 0);
                None
            }
        }
    }
}

fn start<T: Send + 'static>(row: Thread<'_>, at_most: Duration, main: Waker) -> io::Result<HandshakeLink<T>> {
    let (reports, outcomes) = mpsc::channel();
    // The thread ends with the process, or if its event loop fails. The first TLS connection waits for the
    // start of the thread.
    let sender = threads::start_with_loop(row, move |event_loop, inbox| {
        let thread = HandshakeThread {
            event_loop,
            clock: Clock::system(),
            at_most,
            inbox,
            reports,
            main,
            table: Vec::new(),
            free: Vec::new(),
            deadlines: VecDeque::new(),
            buffers: Buffers::default(),
        };
        thread.run();
    })?;
    Ok(HandshakeLink { sender, outcomes })
}

/// The state of the handshake thread.
struct HandshakeThread<T> {
    event_loop: AnyLoop,
    clock: Clock,
    at_most: Duration,
    inbox: Mailbox<NewHandshake<T>>,
    reports: mpsc::Sender<HandshakeOutcome<T>>,
    main: Waker,
    table: Vec<HandshakeSlot<T>>,
    free: Vec<u32>,
    /// Deadlines of the handshakes, in the order in which the handshakes began.
    deadlines: VecDeque<(u64, SessionKey)>,
    buffers: Buffers,
}

struct HandshakeSlot<T> {
    generation: u32,
    handshake: Option<PendingHandshake<T>>,
}

/// A connection during its handshake.
struct PendingHandshake<T> {
    source: Source,
    session: Session,
    field: Option<NameField>,
    origin: T,
    /// Encoded bytes that are to be sent after the send in flight.
    waiting: Vec<u8>,
    is_sending: bool,
    /// Whether the peer has sent any bytes, or this server has dialled the peer. If not, the next
    /// received byte must be the first byte of a TLS handshake.
    has_begun: bool,
    /// Whether the peer has sent its closing message after its first requests.
    peer_has_ended: bool,
    /// Decoded bytes of the client's first requests.
    plain: Vec<u8>,
    stage: HandshakeStage,
}

impl<T> PendingHandshake<T> {
    fn is_other_than_tls(&self, bytes: &[u8]) -> bool {
        !self.has_begun && bytes.first().is_some_and(|first| *first != HANDSHAKE)
    }
}

/// The stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HandshakeStage {
    Shaking,
    /// The handshake is over, and the connection is released when all waiting bytes were sent.
    Established,
    /// The event loop was asked to release the socket.
    Leaving,
}

impl<T> HandshakeThread<T> {
    fn run(mut self) {
        loop {
            let until = match self.deadlines.front() {
                Some((at_ns, _)) => Deadline::at_ns(*at_ns),
                None => Deadline::NEVER,
            };
            let now_ns = self.clock.now().mono_ns;
            if self.event_loop.wait(now_ns, until).is_err() {
                return;
            }
            let now_ns = self.clock.now().mono_ns;
            let begun: Vec<NewHandshake<T>> = self.inbox.drain().collect();
            begun.into_iter().for_each(|begin| self.begin(begin, now_ns));
            while let Some(event) = self.event_loop.next_event(now_ns) {
                let key = Endpoint::client(event.token());
                self.handle(key, event);
            }
            self.end_late(now_ns);
        }
    }

    fn begin(&mut self, begin: NewHandshake<T>, now_ns: u64) {
        let NewHandshake { stream, context, role, field, origin } = begin;
        let mut first = Buffers::default();
        let begun = match role {
            HandshakeRole::Server => context.accept(),
            HandshakeRole::Node => context.accept_node(),
            HandshakeRole::Dialler => context.connect().and_then(|mut session| {
                session.start(&mut first)?;
                Ok(session)
            }),
        };
        let session = match begun {
            Ok(session) => session,
            Err(error) => return self.report(HandshakeOutcome::Failed { reason: error.to_string(), origin }),
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.table.push(HandshakeSlot { generation: 0, handshake: None });
            (self.table.len() - 1) as u32
        });
        let entry = &mut self.table[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let key = SessionKey { slot, generation: entry.generation };
        let (source, _) = stream.attach(&mut self.event_loop, Endpoint::Client(key));
        self.event_loop.recv_start(source);
        entry.handshake = Some(PendingHandshake {
            source,
            session,
            field,
            origin,
            waiting: first.answer,
            is_sending: false,
            // The first byte of a dialled server is not checked, because the server may answer with an
            // alert.
            has_begun: role == HandshakeRole::Dialler,
            peer_has_ended: false,
            plain: Vec::new(),
            stage: HandshakeStage::Shaking,
        });
        self.deadlines.push_back((now_ns + self.at_most.as_nanos() as u64, key));
        self.go_on(key);
    }

    fn handshake(&mut self, key: SessionKey) -> Option<&mut PendingHandshake<T>> {
        let slot = self.table.get_mut(key.slot as usize)?;
        slot.handshake.as_mut().filter(|_| slot.generation == key.generation)
    }

    fn is_shaking(&mut self, key: SessionKey) -> bool {
        self.handshake(key).is_some_and(|handshake| handshake.stage == HandshakeStage::Shaking)
    }

    fn take(&mut self, key: SessionKey) -> Option<PendingHandshake<T>> {
        let slot = self.table.get_mut(key.slot as usize).filter(|slot| slot.generation == key.generation)?;
        let handshake = slot.handshake.take()?;
        self.free.push(key.slot);
        Some(handshake)
    }

    fn handle(&mut self, key: SessionKey, event: Event) {
        match event {
            Event::Received { received: Received::Data(chunk), .. } => {
                let ended = self.receive(key, &chunk);
                self.event_loop.give_back(chunk);
                match ended {
                    Ok(()) => self.go_on(key),
                    Err(reason) => self.fail(key, reason),
                }
            }
            // The end of an established connection is ignored here, because the connection is passed on
            // with its first requests, and the next event loop reports the end again.
            Event::Received { received: Received::Eof, .. } if !self.is_shaking(key) => {}
            Event::Received { received: Received::Eof, .. } => self.fail(key, CLOSED.to_owned()),
            Event::Received { received: Received::Failed(error), .. } => self.fail(key, plain_error(&error)),
            Event::Sent { sent, .. } => {
                if let Some(handshake) = self.handshake(key) {
                    handshake.is_sending = false;
                    match sent.error {
                        None => self.go_on(key),
                        Some(error) => self.fail(key, plain_error(&error)),
                    }
                }
            }
            Event::Detached { fd, .. } => {
                if let Some(handshake) = self.take(key) {
                    let PendingHandshake { session, field, origin, plain, peer_has_ended, .. } = handshake;
                    let field = field.filter(|_| session.has_peer_certificate());
                    let names = field.map(|field| session.peer_names(field));
                    let stream = Stream::with_codec(fd, Some(TlsCodec::boxed(session, peer_has_ended)));
                    self.report(HandshakeOutcome::Established { stream, plain, names, origin });
                }
            }
            _ => {}
        }
    }

    fn receive(&mut self, key: SessionKey, bytes: &[u8]) -> Result<(), String> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let result = match self.handshake(key) {
            None => Ok(()),
            // No alert is sent, because a peer that does not use TLS could not interpret it.
            Some(handshake) if handshake.is_other_than_tls(bytes) => {
                Err("the client does not speak TLS".to_owned())
            }
            Some(handshake) => {
                handshake.has_begun = true;
                let received = handshake.session.receive(bytes, &mut buffers);
                handshake.waiting.extend_from_slice(&buffers.answer);
                handshake.plain.extend_from_slice(&buffers.plain);
                match received {
                    Ok(received) if received.closed && !handshake.session.is_established() => {
                        Err(CLOSED.to_owned())
                    }
                    Ok(received) => {
                        handshake.peer_has_ended |= received.closed;
                        if handshake.session.is_established() && handshake.stage == HandshakeStage::Shaking {
                            handshake.stage = HandshakeStage::Established;
                            // Receiving stops, because a client that does not read the last messages of
                            // the handshake keeps the connection here, and could send any amount of data
                            // in this time.
                            let source = handshake.source;
                            self.event_loop.recv_stop(source);
                        }
                        Ok(())
                    }
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        buffers.plain.clear();
        buffers.answer.clear();
        self.buffers = buffers;
        result
    }

    /// Sends the waiting bytes; then releases an established connection.
    fn go_on(&mut self, key: SessionKey) {
        let Some(handshake) = self.handshake(key) else { return };
        if handshake.is_sending {
            return;
        }
        let source = handshake.source;
        if !handshake.waiting.is_empty() {
            let head = std::mem::take(&mut handshake.waiting);
            match self.event_loop.send(source, SendBuf { head, shared: Vec::new() }) {
                Sending::InFlight => {
                    if let Some(handshake) = self.handshake(key) {
                        handshake.is_sending = true;
                    }
                    return;
                }
                Sending::Done(Sent { error: Some(error), .. }) => return self.fail(key, plain_error(&error)),
                Sending::Done(_) => {}
            }
        }
        if let Some(handshake) = self.handshake(key)
            && handshake.stage == HandshakeStage::Established
        {
            handshake.stage = HandshakeStage::Leaving;
            self.event_loop.detach(source);
        }
    }

    /// Ends a connection. A waiting alert is sent if the socket has room.
    fn fail(&mut self, key: SessionKey, reason: String) {
        let Some(handshake) = self.take(key) else { return };
        let PendingHandshake { source, waiting, origin, .. } = handshake;
        if !waiting.is_empty()
            && self.event_loop.has_sent(source)
            && let Some(socket) = self.event_loop.fd(source)
        {
            send_now(socket, &waiting);
        }
        self.event_loop.close(source);
        self.report(HandshakeOutcome::Failed { reason, origin });
    }

    fn end_late(&mut self, now_ns: u64) {
        while let Some((_, key)) = self.deadlines.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            let text = format!("no handshake within {} seconds", self.at_most.as_secs());
            self.fail(key, text);
        }
    }

    fn report(&self, outcome: HandshakeOutcome<T>) {
        // The send fails when the server is ending.
        if self.reports.send(outcome).is_ok() {
            self.main.wake();
        }
    }
}

/// The first byte of a TLS client's first record.
const HANDSHAKE: u8 = 0x16;
/// How long a client's handshake may take. Some clients connect first and begin the handshake with their
/// first command, so a pool of connections that was filled at the client's start may stay unused for many
/// seconds.
pub const CLIENT_HANDSHAKE_MAX: Duration = Duration::from_secs(60);
/// How long the handshake of a cluster bus link may take.
pub const NODE_HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Maximum number of failures that are logged as warnings in one second.
const TOLD_MAX: u32 = 10;
const CLOSED: &str = "the other end closed the connection during the handshake";

#[cfg(test)]
mod tests;
