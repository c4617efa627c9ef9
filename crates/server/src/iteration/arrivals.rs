//! Connections that come: who becomes a client in which iteration, and who is refused.
//!
//! ```text
//!  accepted ─┬─ by TLS ──► a handshake on a thread, of `priority-subnets` on one of their own ──► a client
//!            ├─ by a unix socket, or from `priority-subnets` ───────────────────────────────────► a client
//!            └─ any other ──► waits for its turn ───────────────────────────────────────────────► a client
//! ```
//!
//! Invariants: (1) a connection counts for `maxclients` from its accept on, so that no more wait than can be
//! clients, and one too many is refused at once; (2) an iteration accepts at most [`ACCEPTS_PER_ITERATION`]
//! connections, and makes at most `max-new-connections-per-cycle` of those that wait clients, and
//! `max-new-tls-connections-per-cycle` of the handshakes that are over: clients that are there are served
//! meanwhile; (3) connections that come first have no turn to wait for; (4) all others have theirs in the
//! order of their coming.
//!
//! More are accepted than become clients because the kernel has one queue for all: while it is full, the
//! kernel ignores whoever comes, who tries again a second later.

use super::Server;
use crate::connection::transport::Transport;
use crate::connection::{self, Connection, ConnectionHost};
use crate::listen::{self, Accepted, ListenerKind, Refusal, TakenConnections};
use crate::net::handshakes::{HandshakeOutcome, HandshakeRole, Handshakes, NewHandshake};
use crate::net::{Stream, tls};
use crate::threads::Thread;
use sluice_base::LogLevel;
use sluice_cluster::Cluster;
use sluice_config::{Config, Subnets, param};
use sluice_control::process::ProcessClock;
use sluice_evloop::Event;
use sluice_session::Medium;
use sluice_storage::plain_error;
use std::collections::VecDeque;

/// Connections that an iteration takes from the kernel: about half a millisecond, with looking at each.
pub const ACCEPTS_PER_ITERATION: u32 = 128;

/// Connections that are no clients yet.
pub struct Arrivals {
    /// Those that wait for their turn.
    waiting: VecDeque<(Newcomer, Stream)>,
    /// Those that speak TLS.
    handshakes: Handshakes<Newcomer>,
    /// Those of them that come first: on a thread of their own, which starts with the first one.
    first_handshakes: Handshakes<Newcomer>,
    /// More handshakes may be over than the last iteration took up.
    more_handshakes: bool,
    /// `priority-subnets`.
    priority_subnets: Subnets,
    /// How many of `maxclients` are kept for these.
    reserved: usize,
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals {
            waiting: VecDeque::new(),
            handshakes: Handshakes::on(Thread::TlsHandshake),
            first_handshakes: Handshakes::on(Thread::TlsHandshake),
            more_handshakes: false,
            priority_subnets: Subnets::default(),
            reserved: 0,
        }
    }
}

impl Arrivals {
    /// Takes up the configuration. Who has come keeps what it was given.
    pub fn configure(&mut self, config: &Config) {
        let text = config.text(param::PRIORITY_SUBNETS).unwrap_or_default();
        self.priority_subnets = Subnets::parse(text).unwrap_or_default();
        let reserved = config.uint(param::MAXCLIENTS_RESERVED) as usize;
        self.reserved = if self.priority_subnets.is_empty() { 0 } else { reserved };
    }

    /// Whether another iteration has something to take up.
    pub fn are_waiting(&self) -> bool {
        self.more_handshakes || !self.waiting.is_empty()
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.waiting.len() + self.handshakes.in_progress() + self.first_handshakes.in_progress()
    }

    /// The handshakes among which those of such a newcomer are.
    fn handshakes_for(&mut self, newcomer: &Newcomer) -> &mut Handshakes<Newcomer> {
        match newcomer.comes_first() {
            true => &mut self.first_handshakes,
            false => &mut self.handshakes,
        }
    }
}

/// A connection that was accepted.
struct Newcomer {
    /// The addresses of both ends, and what follows from them.
    accepted: Accepted,
    /// It came by a unix socket.
    unix: bool,
}

impl Newcomer {
    /// Whether it does not wait for those that came before.
    fn comes_first(&self) -> bool {
        self.unix || self.accepted.has_priority
    }
}

impl Server {
    // Apart from the loop over events, which would compute addresses for it ahead, once an iteration.
    #[inline(never)]
    pub(super) fn listener_event(&mut self, slot: u32, generation: u32, event: Event) {
        match event {
            Event::Accepted { socket, .. } => self.accept(slot, generation, Stream::accepted(socket)),
            Event::AcceptFailed { error, .. } => self.note_accept_failure(&error),
            _ => {}
        }
    }

    #[cold]
    fn note_accept_failure(&mut self, error: &std::io::Error) {
        let text = format!("Accepting client connection: {}", plain_error(error));
        self.host.note(LogLevel::Warning, &text);
    }

    fn accept(&mut self, slot: u32, generation: u32, stream: Stream) {
        let Some(listener) = self.listeners.get(slot, generation) else { return };
        if listener.is_of_bus() {
            return self.accept_on_bus(stream);
        }
        let accepted = listen::inspect(&stream, &listener.kind, &self.arrivals.priority_subnets);
        if self.host.log.wants(LogLevel::Verbose) {
            self.host.note(LogLevel::Verbose, &format!("Accepted {}", accepted.addr));
        }
        let newcomer = Newcomer { accepted, unix: matches!(listener.kind, ListenerKind::Unix(_)) };
        if listener.is_tls() {
            return self.begin_handshake(newcomer, stream);
        }
        let Some(stream) = self.unless_refused(&newcomer.accepted, stream) else { return };
        match newcomer.comes_first() {
            true => self.admit(newcomer, stream, &[], None),
            false => self.arrivals.waiting.push_back((newcomer, stream)),
        }
    }

    /// Makes those clients whose turn it is.
    pub(super) fn take_arrivals(&mut self) {
        if self.arrivals.waiting.is_empty() {
            return;
        }
        for _ in 0..self.engine.config().uint(param::MAX_NEW_CONNECTIONS_PER_CYCLE) {
            let Some((newcomer, stream)) = self.arrivals.waiting.pop_front() else { return };
            self.timing.is_busy = true;
            // More may have come first meanwhile than there was room for.
            if let Some(stream) = self.unless_refused(&newcomer.accepted, stream) {
                self.admit(newcomer, stream, &[], None);
            }
        }
    }

    /// Has a thread do the handshake of a connection that speaks TLS.
    #[cold]
    fn begin_handshake(&mut self, newcomer: Newcomer, stream: Stream) {
        let taken = self.connections();
        let config = self.engine.config();
        let is_full = taken.leave_no_room_for(&newcomer.accepted, config);
        let Some(context) = self.host.settings.tls.context().cloned().filter(|_| !is_full) else {
            // Nothing can be said before the handshake, which is not worth it.
            return self.engine.count_rejected(taken.rejected(&newcomer.accepted, config));
        };
        let field = tls::name_field(config);
        let handshakes = self.arrivals.handshakes_for(&newcomer);
        let begin = NewHandshake { stream, context, role: HandshakeRole::Server, field, origin: newcomer };
        if let Err(error) = handshakes.begin(begin, self.sockets.event_loop.waker()) {
            let text =
                format!("Accepting client connection: no thread for handshakes: {}", plain_error(&error));
            self.host.note(LogLevel::Warning, &text);
        }
    }

    /// Takes up connections whose handshake is over.
    pub(super) fn take_handshakes(&mut self) {
        while let Some(outcome) = self.arrivals.first_handshakes.take() {
            self.end_handshake(outcome);
        }
        let most = self.engine.config().uint(param::MAX_NEW_TLS_CONNECTIONS_PER_CYCLE);
        self.arrivals.more_handshakes = false;
        for number in 0.. {
            if number == most {
                self.arrivals.more_handshakes = self.arrivals.handshakes.in_progress() > 0;
                return;
            }
            match self.arrivals.handshakes.take() {
                None => return,
                Some(outcome) => self.end_handshake(outcome),
            }
        }
    }

    #[cold]
    fn end_handshake(&mut self, outcome: HandshakeOutcome<Newcomer>) {
        match outcome {
            HandshakeOutcome::Established { stream, plain, names, origin } => {
                self.timing.is_busy = true;
                if let Some(stream) = self.unless_refused(&origin.accepted, stream) {
                    self.admit(origin, stream, &plain, names.as_deref());
                }
            }
            HandshakeOutcome::Failed { reason, origin } => self.note_handshake_failure(&reason, &origin),
        }
    }

    #[cold]
    fn note_handshake_failure(&mut self, reason: &str, origin: &Newcomer) {
        let Accepted { addr, laddr, .. } = &origin.accepted;
        let text = format!("Error accepting a client connection: {reason} (addr={addr} laddr={laddr})");
        // Whoever can connect can fail: what they make the log say is bounded.
        let now_s = self.host.recent().mono_ns / 1_000_000_000;
        let is_told = self.arrivals.handshakes_for(origin).failure_is_told(now_s);
        let level = if is_told { LogLevel::Warning } else { LogLevel::Debug };
        self.host.note(level, &text);
    }

    /// Clients, and connections that are to be some.
    fn connections(&self) -> TakenConnections {
        let sessions = self.engine.connections();
        TakenConnections {
            clients: sessions.all + self.arrivals.count(),
            with_priority: sessions.priority + self.arrivals.first_handshakes.in_progress(),
            of_bus: self.engine.node().map_or(0, Cluster::connections_wanted),
            reserved: self.arrivals.reserved,
        }
    }

    /// A connection back, unless it is refused: then it is told why, and closed.
    fn unless_refused(&mut self, accepted: &Accepted, stream: Stream) -> Option<Stream> {
        let unguarded = self.engine.default_user_has_no_password();
        let refusal = listen::refusal(accepted, self.connections(), self.engine.config(), unguarded);
        let Some(Refusal { text, rejected }) = refusal else { return Some(stream) };
        self.engine.count_rejected(rejected);
        stream.close_with(text);
        None
    }

    /// Makes a connection a client's. `plain` has come already; `names` are those of the client's
    /// certificate.
    fn admit(&mut self, newcomer: Newcomer, stream: Stream, plain: &[u8], names: Option<&[Vec<u8>]>) {
        let Newcomer { accepted, unix } = newcomer;
        let fd = stream.number();
        // Nearly always the same as that of the client before.
        if *self.sockets.laddr != *accepted.laddr {
            self.sockets.laddr = accepted.laddr.into();
        }
        let laddr = self.sockets.laddr.clone();
        let medium = match (unix, stream.is_tls()) {
            (true, _) => Medium::Unix,
            (false, true) => Medium::Tls,
            (false, false) => Medium::Tcp,
        };
        let (addr, has_priority) = (accepted.addr, accepted.has_priority);
        let client = sluice_session::ClientAddress { addr, laddr, fd, medium, has_priority };
        let key = self.engine.connect(client, &mut self.host);
        self.sockets.clients.add(key);
        if let Some(names) = names {
            self.engine.log_in_by_certificate(key, names, &mut self.host);
        }
        if !self.io_threads.keeps_another(&self.engine) {
            self.host.shown.io_threads.placed.accepts += 1;
            let mut connection = Connection::new(key, Transport::detached());
            connection.input.keep(plain);
            return self.hand_over(connection, stream);
        }
        let transport = Transport::attach(&mut self.sockets.event_loop, stream, key);
        let mut connection = Connection::new(key, transport);
        connection.authentication = self.engine.authentication(key);
        if plain.is_empty() && !connection.transport.peer_has_ended() {
            connection.receive(&mut self.sockets.event_loop);
            return self.put(connection);
        }
        self.count_received(&mut connection, plain.len());
        connection.input.keep(plain);
        connection::resume(self, connection);
    }
}
