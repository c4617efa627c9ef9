//! A client connection: transport, input and output. The main thread and the I/O threads use the same
//! type: they call the functions of this file for the connections that they own, and differ only in their
//! [`ConnectionHost`].
//!
//! A connection moves between threads as a whole, and only while it is at rest: no output waits or is in
//! flight, no batch is at the main thread, no buffer of a large argument is in the event loop, and the
//! connection is not closing.
//!
//! Invariants: (1) the thread that has the `Box<Connection>` owns the socket, and no other thread uses the
//! connection or the socket (C-1); (2) input is executed in the order of its arrival, and replies and
//! messages are sent in the order in which they were pushed; (3) a connection that leaves its owner executes
//! nothing more there.

pub mod input;
pub mod output;
mod plain_output;
pub mod spare;
pub mod transport;

use crate::net::{PeerSide, Stream};
use input::{Input, InputState};
use output::{NextOutput, Output, OutputPiece};
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_evloop::{AnyLoop, Event, Received, SendBuf, Sending, Sent};
use sluice_resp::{AuthState, Outbox};
use sluice_storage::plain_error;
use spare::SpareBuffers;
use transport::{CodedSend, Transport};

/// A client's connection, owned by the main thread or by an I/O thread.
pub struct Connection {
    /// The key of the client's session.
    pub key: SessionKey,
    /// The socket, with TLS or plain.
    pub transport: Transport,
    /// Received bytes that are not executed.
    pub input: Input,
    /// Output that waits to be sent.
    pub output: Output,
    /// Whether the client has authenticated, as far as the owner knows. An I/O thread learns of AUTH when
    /// the batch comes back from the main thread.
    pub authentication: AuthState,
    /// Numbers of bytes sent and received that the main thread has not counted yet.
    pub unreported: Traffic,
    /// Seconds for which the client had been silent at the last `trim`.
    pub idle_s: u32,
    /// Maximum number of bytes of the query buffer that were in use since the last `trim`.
    pub query_buf_peak: u32,
    /// Whether the connection stays with its owner, or is leaving.
    pub residence: Residence,
    /// Whether the owner's list of connections with unreported traffic has this connection.
    pub is_listed: bool,
    /// Whether a report of the query buffer's usage waits for room in the ring to the main thread.
    pub usage_waits: bool,
    /// Whether receiving is paused, because the owner has bytes that must be processed before those of the
    /// socket.
    pub is_receive_paused: bool,
}

/// Bound of the memory that each connection takes, even when idle, apart from its session.
const _: () = assert!(size_of::<Connection>() <= 192);

/// Numbers of bytes that were sent and received over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of bytes of output that finished sends have sent, counted before encoding.
    pub sent: usize,
    /// Number of bytes that the connection has received, counted after decoding.
    pub received: usize,
}

/// Whether a connection stays with the thread that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// The connection stays, and executes requests.
    Staying,
    /// The connection leaves as soon as it is at rest. No more requests are parsed; while output waits or
    /// is in flight, bytes are still received and kept.
    Leaving,
    /// The event loop was asked to release the connection's socket.
    Detached,
}

/// A thread that owns connections. The methods are the operations that differ between the main thread and I/O
/// threads.
pub trait ConnectionHost {
    /// The owner's event loop.
    fn event_loop(&mut self) -> &mut AnyLoop;

    /// The owner's empty buffers for connections.
    fn spare(&mut self) -> &mut SpareBuffers;

    /// Takes a connection out of the owner's table; `None` if the table does not have the connection (any
    /// more).
    fn take(&mut self, key: SessionKey) -> Option<Box<Connection>>;

    /// Puts a connection back into the owner's table.
    fn put(&mut self, connection: Box<Connection>);

    /// Executes the complete requests of the query buffer and `fresh`, or sends them to the main thread,
    /// and keeps the remaining bytes. Called while the state of the input is `Open` or `Large`.
    fn process(&mut self, connection: &mut Connection, fresh: &[u8]);

    /// Records that some of the received bytes were not executed.
    fn note_unfinished(&mut self, connection: &Connection);

    /// Counts bytes that a connection received.
    fn count_received(&mut self, connection: &mut Connection, bytes: usize);

    /// Counts bytes of output, before encoding, whose send has finished.
    fn count_sent(&mut self, connection: &mut Connection, bytes: usize);

    /// Called when a send in flight has finished and all output of the connection was sent.
    fn output_is_idle(&mut self, key: SessionKey);

    /// Takes back a buffer that was sent.
    fn recycle(&mut self, buf: SendBuf);

    /// Reports the usage of the query buffer if it has changed. The main thread ends a client whose usage
    /// exceeds the limit.
    fn report_usage(&mut self, connection: &mut Connection);

    /// Seconds since the last input of the client, as far as the owner knows.
    fn idle_s(&mut self, connection: &Connection) -> i64;

    /// Ends a connection; `why` is for the log.
    fn end(&mut self, connection: Box<Connection>, why: &str);

    /// Called when the client has ended its sending side; the client may still read. If replies are
    /// outstanding that can be sent, the connection ends after them. Otherwise the connection ends at
    /// once, and output that is still being sent is lost.
    fn input_ended(&mut self, connection: Box<Connection>);

    /// Takes a connection whose socket has left the event loop.
    fn detached(&mut self, connection: Box<Connection>, stream: Stream);
}

/// After more than this many seconds of silence, the memory of a connection's query buffer is freed.
pub const QUERY_BUF_IDLE_S: i64 = 2;
/// A query buffer with a capacity above this is shrunk if less than half of the capacity was in use since the
/// last `trim`.
const QUERY_BUF_KEPT_BYTES: usize = 32 * 1024;

/// At most this many parts of a large reply are encoded and sent without a pause. Together they have a
/// mebibyte, which takes about 0.4 ms.
const PARTS_AT_ONCE: u32 = 4;

/// The reason, for the log, of a connection's end when the client closed it.
pub const CLIENT_CLOSED: &str = "Client closed connection";
/// The reason, for the log, of a connection's end after the last reply.
const CLOSED_AFTER_REPLY: &str = "Closed after its last reply";

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = (self.input.state(), self.residence);
        f.debug_struct("Connection").field("key", &self.key).field("state", &state).finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection without input or output; the client counts as unauthenticated.
    pub fn new(key: SessionKey, transport: Transport) -> Box<Connection> {
        Box::new(Connection {
            key,
            transport,
            input: Input::new(),
            output: Output::default(),
            authentication: AuthState::Unauthenticated,
            unreported: Traffic::default(),
            idle_s: 0,
            query_buf_peak: 0,
            residence: Residence::Staying,
            is_listed: false,
            usage_waits: false,
            is_receive_paused: false,
        })
    }

    /// Heap bytes of the connection, without shared values and without the buffers that the event loop has.
    pub fn footprint(&self) -> usize {
        heap::boxed::<Connection>()
            + self.input.footprint()
            + self.output.footprint()
            + self.transport.footprint()
    }

    /// Whether the connection can move to another thread now.
    pub fn is_at_rest(&self) -> bool {
        let input = match self.input.state() {
            InputState::Open | InputState::Large | InputState::Deferred => true,
            InputState::Filling | InputState::Executing | InputState::Shut => false,
        };
        input && self.output.is_idle() && !self.output.closes_when_sent()
    }

    /// Makes the event loop receive as the connection's state requires.
    #[inline]
    pub fn receive(&mut self, event_loop: &mut AnyLoop) {
        let wanted = match self.residence {
            _ if self.is_receive_paused || self.output.has_answers() => self.input.receive_nothing(),
            Residence::Staying if self.transport.is_coded() => self.input.receive_chunks(),
            Residence::Staying => self.input.receive(),
            // While output waits, bytes are still received, because a client that writes a whole pipeline
            // before it reads takes no output until all its bytes are received.
            Residence::Leaving if !self.output.is_idle() => self.input.receive_chunks(),
            Residence::Leaving | Residence::Detached => self.input.receive_nothing(),
        };
        self.transport.receive(event_loop, wanted);
    }

    /// Makes the connection leave its owner as soon as it is at rest.
    pub fn begin_leaving(&mut self, event_loop: &mut AnyLoop) {
        if self.residence == Residence::Staying {
            self.residence = Residence::Leaving;
            if self.input.state() == InputState::Filling {
                // An event returns the buffer of the large argument, with the bytes received so far.
                self.transport.end_filling(event_loop);
            }
            self.receive(event_loop);
        }
    }

    /// Requests that the event loop releases the socket, if the connection is leaving and at rest.
    #[inline]
    pub fn detach_if_at_rest(&mut self, event_loop: &mut AnyLoop) {
        if self.residence == Residence::Leaving && self.is_at_rest() {
            self.residence = Residence::Detached;
            self.transport.detach(event_loop);
        }
    }

    /// Attaches the connection to the event loop of its new owner.
    ///
    /// # Panics
    /// If the connection is not at rest.
    pub fn arrive(&mut self, event_loop: &mut AnyLoop, stream: Stream) {
        assert!(self.is_at_rest(), "only a connection at rest changes its owner");
        self.residence = Residence::Staying;
        // These flags refer to lists of the former owner, in which the connection is not looked up any more.
        (self.is_listed, self.usage_waits) = (false, false);
        self.transport.move_to(event_loop, stream, self.key);
    }

    /// Shuts the connection's input, and ends the connection when all output was sent.
    pub fn close_when_sent(&mut self) {
        self.input.shut();
        self.output.close_when_sent();
    }
}

/// Handles an event of a connection. A connection's requests to the event loop cause only the kinds of
/// events that are handled here.
#[inline(always)]
pub fn handle<O: ConnectionHost>(owner: &mut O, key: SessionKey, event: Event) {
    match event {
        Event::Received { received, .. } => receive(owner, key, received),
        Event::Sent { sent, .. } => send_is_over(owner, key, sent),
        Event::Ready { .. } => has_room(owner, key),
        Event::Filled { buf, error, .. } => filled(owner, key, buf, error.is_some()),
        Event::Detached { fd, .. } => {
            if let Some(connection) = owner.take(key) {
                owner.detached(connection, Stream::detached(fd));
            }
        }
        _ => {}
    }
}

#[inline(always)]
fn receive<O: ConnectionHost>(owner: &mut O, key: SessionKey, received: Received) {
    let chunk = match received {
        Received::Data(chunk) => chunk,
        Received::Eof => return end_input(owner, key),
        Received::Failed(error) => {
            return end(owner, key, &format!("Reading from client: {}", plain_error(&error)));
        }
    };
    let Some(mut connection) = owner.take(key) else { return owner.event_loop().give_back(chunk) };
    if connection.transport.is_coded() {
        let decoded = receive_coded(owner, &mut connection, &chunk);
        owner.event_loop().give_back(chunk);
        return match decoded {
            Ok(PeerSide::Open) => note_received(owner, connection),
            // A connection with a codec may see the peer's end while requests before the end are still
            // executed, so the end is recorded. A plain connection receives nothing while requests are
            // executed, and sees the end afterwards.
            Ok(PeerSide::Ended) => {
                connection.transport.note_peer_end();
                match end_is_due(&connection) {
                    true => owner.input_ended(connection),
                    false => note_received(owner, connection),
                }
            }
            Err(why) => owner.end(connection, &why),
        };
    }
    owner.count_received(&mut connection, chunk.len());
    process(owner, &mut connection, &chunk);
    owner.event_loop().give_back(chunk);
    note_received(owner, connection);
}

/// Finishes a receive whose bytes were processed.
#[inline(always)]
fn note_received<O: ConnectionHost>(owner: &mut O, connection: Box<Connection>) {
    if !connection.input.query_buf.is_empty() {
        owner.note_unfinished(&connection);
    }
    go_on_receiving(owner, connection);
}

#[cold]
fn end_input<O: ConnectionHost>(owner: &mut O, key: SessionKey) {
    let Some(connection) = owner.take(key) else { return };
    // This event is ignored if the codec has already reported the peer's end and the connection cannot end
    // yet or is already shut.
    let is_shut = connection.input.state() == InputState::Shut;
    match connection.transport.peer_has_ended() && (is_shut || !end_is_due(&connection)) {
        true => owner.put(connection),
        false => owner.input_ended(connection),
    }
}

#[cold]
fn end<O: ConnectionHost>(owner: &mut O, key: SessionKey, why: &str) {
    if let Some(connection) = owner.take(key) {
        owner.end(connection, why);
    }
}

/// Decodes and processes received bytes. Errors: the reason why the connection is over.
#[inline(never)]
fn receive_coded<O: ConnectionHost>(
    owner: &mut O,
    connection: &mut Connection,
    chunk: &[u8],
) -> Result<PeerSide, String> {
    let mut buffers = owner.spare().decoded();
    let decoded = connection.transport.decode(chunk, &mut buffers);
    // Counts decoded bytes, as the reference does.
    owner.count_received(connection, buffers.plain.len());
    if decoded.is_err() {
        connection.transport.send_last(owner.event_loop(), &buffers.answer);
    } else if !buffers.answer.is_empty() {
        connection.output.push_answer(std::mem::take(&mut buffers.answer));
    }
    // Requests that arrived before undecodable bytes are executed, like requests before the peer's end.
    if !buffers.plain.is_empty() {
        process(owner, connection, &buffers.plain);
    }
    owner.spare().keep_decoded(buffers);
    let side = decoded?;
    match flush(owner, connection) {
        Flushed::Open => Ok(side),
        Flushed::Over(why) => Err(why),
    }
}

/// Executes the received requests, as far as the state of the input permits.
#[inline(always)]
fn process<O: ConnectionHost>(owner: &mut O, connection: &mut Connection, fresh: &[u8]) {
    match connection.input.state() {
        _ if connection.residence != Residence::Staying => connection.input.keep(fresh),
        InputState::Open | InputState::Large => owner.process(connection, fresh),
        InputState::Deferred => connection.input.keep(fresh),
        // In these states the event loop was asked to deliver no chunks. Bytes that arrive nevertheless are
        // kept while a batch is executed, and dropped otherwise.
        InputState::Executing => connection.input.keep(fresh),
        InputState::Filling | InputState::Shut => {}
    }
}

/// Makes the event loop receive according to the state, reports the usage of the query buffer, and puts the
/// connection back.
#[inline(always)]
pub fn go_on_receiving<O: ConnectionHost>(owner: &mut O, mut connection: Box<Connection>) {
    if !connection.input.is_open()
        || connection.residence != Residence::Staying
        || connection.output.has_answers()
    {
        connection.receive(owner.event_loop());
    }
    owner.report_usage(&mut connection);
    owner.put(connection);
}

/// Whether the codec has reported the peer's end, no batch is being executed, and all output was sent.
#[inline]
fn end_is_due(connection: &Connection) -> bool {
    connection.transport.peer_has_ended()
        && connection.input.state() != InputState::Executing
        && connection.output.is_idle()
}

/// Executes the requests in the kept bytes, makes the event loop receive again, and puts the connection back.
/// If the peer has ended and nothing is left to do, the connection ends instead.
pub fn resume<O: ConnectionHost>(owner: &mut O, mut connection: Box<Connection>) {
    process(owner, &mut connection, &[]);
    if end_is_due(&connection) {
        return owner.input_ended(connection);
    }
    connection.receive(owner.event_loop());
    owner.report_usage(&mut connection);
    owner.put(connection);
}

fn filled<O: ConnectionHost>(owner: &mut O, key: SessionKey, buf: Vec<u8>, ended: bool) {
    let Some(mut connection) = owner.take(key) else { return };
    let come = connection.input.filled(buf);
    owner.count_received(&mut connection, come);
    if ended {
        return owner.input_ended(connection);
    }
    if come > 0 {
        owner.note_unfinished(&connection);
    }
    if come == 0 && owner.idle_s(&connection) > QUERY_BUF_IDLE_S && connection.residence == Residence::Staying
    {
        // `trim` ended the large receive early. Further bytes are received in chunks, and the next large
        // step makes room again.
        connection.input.shrink();
        let wanted = connection.input.receive_chunks();
        connection.transport.receive(owner.event_loop(), wanted);
        owner.report_usage(&mut connection);
        return owner.put(connection);
    }
    resume(owner, connection);
}

/// Makes the kernel fill the packets to a client (no `TCP_NODELAY`), at the price of a delay.
pub fn fill_packets<O: ConnectionHost>(owner: &mut O, key: SessionKey) {
    let Some(connection) = owner.take(key) else { return };
    connection.transport.fill_packets(owner.event_loop());
    owner.put(connection);
}

/// Frees memory for input that a client does not need. The client has been silent for `idle_s` seconds.
pub fn trim<O: ConnectionHost>(owner: &mut O, key: SessionKey, idle_s: i64) {
    let Some(mut connection) = owner.take(key) else { return };
    connection.idle_s = u32::try_from(idle_s).unwrap_or(0);
    let is_idle = idle_s > QUERY_BUF_IDLE_S;
    let peak = std::mem::take(&mut connection.query_buf_peak) as usize;
    match connection.input.state() {
        // The event loop has the buffer and is asked to return it. `filled` then sees whether any bytes have
        // arrived.
        InputState::Filling if idle_s > 0 => connection.transport.end_filling(owner.event_loop()),
        InputState::Filling | InputState::Executing => {}
        InputState::Open | InputState::Large | InputState::Deferred | InputState::Shut => {
            let query_buf = &mut connection.input.query_buf;
            if is_idle {
                owner.spare().keep_query_buf(query_buf);
                connection.input.shrink();
            } else if query_buf.capacity() > QUERY_BUF_KEPT_BYTES && peak < query_buf.capacity() / 2 {
                query_buf.shrink_to(peak.max(SpareBuffers::QUERY_BUF_BYTES));
            }
        }
    }
    owner.report_usage(&mut connection);
    owner.put(connection);
}

/// The state of a connection after output was sent.
#[must_use]
pub enum Flushed {
    /// The output was sent, is being sent, or waits for room in the socket.
    Open,
    /// The connection is over; the text is the reason.
    Over(String),
}

/// Sends output after any output that waits already.
#[inline]
pub fn send<O: ConnectionHost>(owner: &mut O, connection: &mut Connection, outbox: Outbox) -> Flushed {
    let piece = OutputPiece::Output(outbox);
    match connection.output.is_idle() {
        true => match start_send(owner, connection, piece) {
            Flushed::Open if connection.output.closes_when_sent() || connection.output.has_more() => {
                flush(owner, connection)
            }
            ended => ended,
        },
        false => {
            connection.output.push(piece);
            flush(owner, connection)
        }
    }
}

/// Sends the waiting output until a send is in flight, nothing waits, or a large reply has to pause.
#[inline(never)]
pub fn flush<O: ConnectionHost>(owner: &mut O, connection: &mut Connection) -> Flushed {
    let mut parts = 0;
    while !connection.output.is_sending() {
        if connection.output.next_is_rest() {
            parts += 1;
            if parts == PARTS_AT_ONCE {
                // The connection waits for its next turn, because a client that takes a large reply as fast
                // as it is encoded would otherwise block all other clients.
                connection.output.begin_send();
                connection.transport.watch_room(owner.event_loop());
                return Flushed::Open;
            }
        }
        let started = match connection.output.next() {
            NextOutput::Send(piece) => start_send(owner, connection, piece),
            NextOutput::Idle => return Flushed::Open,
            NextOutput::Close => return Flushed::Over(CLOSED_AFTER_REPLY.to_owned()),
        };
        if let Flushed::Over(why) = started {
            return Flushed::Over(why);
        }
    }
    Flushed::Open
}

#[inline(always)]
fn start_send<O: ConnectionHost>(owner: &mut O, connection: &mut Connection, piece: OutputPiece) -> Flushed {
    if let OutputPiece::Output(outbox) = &piece
        && outbox.is_empty()
    {
        // The output of a batch without replies is empty, and is not sent.
        return Flushed::Open;
    }
    let sending = match connection.transport.is_coded() {
        false => connection.transport.send(owner.event_loop(), piece),
        true => match send_coded(owner, connection, piece) {
            Ok(sending) => sending,
            Err(why) => return Flushed::Over(why),
        },
    };
    match sending {
        Sending::InFlight => {
            connection.output.begin_send();
            Flushed::Open
        }
        Sending::Done(sent) => end_send(owner, connection, sent),
    }
}

/// Sends a piece through the codec. The rest of a large piece is sent next. Errors: the reason why the
/// connection is over.
#[inline(never)]
fn send_coded<O: ConnectionHost>(
    owner: &mut O,
    connection: &mut Connection,
    piece: OutputPiece,
) -> Result<Sending, String> {
    let out = owner.spare().encoded();
    let CodedSend { sending, rest, used } = connection.transport.send_coded(owner.event_loop(), piece, out);
    if let Some(rest) = rest {
        connection.output.push_front(rest);
    }
    if let Some(used) = used {
        // The buffer of the plain output becomes the buffer for the next encoded output, so that the two
        // buffers change places with each send.
        let SendBuf { head, shared } = used;
        owner.spare().keep_encoded(head);
        if !shared.is_empty() {
            owner.recycle(SendBuf { head: Vec::new(), shared });
        }
    }
    sending
}

/// Continues a large reply, which is encoded part by part, when the socket has room.
#[cold]
fn has_room<O: ConnectionHost>(owner: &mut O, key: SessionKey) {
    let Some(mut connection) = owner.take(key) else { return };
    connection.output.end_send();
    let flushed = flush(owner, &mut connection);
    flushed_after_send(owner, connection, flushed);
}

fn send_is_over<O: ConnectionHost>(owner: &mut O, key: SessionKey, sent: Sent) {
    let Some(mut connection) = owner.take(key) else { return };
    connection.output.end_send();
    let flushed = match end_send(owner, &mut connection, sent) {
        Flushed::Open => flush(owner, &mut connection),
        over => over,
    };
    flushed_after_send(owner, connection, flushed);
}

fn flushed_after_send<O: ConnectionHost>(owner: &mut O, mut connection: Box<Connection>, flushed: Flushed) {
    let key = connection.key;
    match flushed {
        Flushed::Open => {
            if connection.transport.is_coded() {
                // Receiving had stopped while protocol bytes of TLS waited to be sent.
                connection.receive(owner.event_loop());
            }
            if connection.output.is_idle() {
                owner.output_is_idle(key);
                if end_is_due(&connection) {
                    return owner.input_ended(connection);
                }
                if connection.residence == Residence::Leaving {
                    connection.receive(owner.event_loop());
                }
            }
            owner.put(connection);
        }
        Flushed::Over(why) => owner.end(connection, &why),
    }
}

#[inline(always)]
fn end_send<O: ConnectionHost>(owner: &mut O, connection: &mut Connection, sent: Sent) -> Flushed {
    let bytes = connection.transport.plain_sent(&sent);
    owner.count_sent(connection, bytes);
    owner.recycle(sent.buf);
    match sent.error {
        None => Flushed::Open,
        Some(error) => Flushed::Over(format!("Error writing to client: {}", plain_error(&error))),
    }
}

#[cfg(test)]
mod tests;
