//! Decides which new connections become clients in which iteration, and which are refused.
//!
//! ```text
//!  accepted ─┬─ by TLS ──► a handshake on a thread, of `priority-subnets` on one of their own ──► a client
//!            ├─ by a unix socket, or from `priority-subnets` ───────────────────────────────────► a client
//!            └─ any other ──► waits for its turn ───────────────────────────────────────────────► a client
//! ```
//!
//! Invariants: (1) a connection counts for `maxclients` from the moment when it is accepted, so that no more
//! connections wait than can become clients, and a connection beyond the bound is refused at once; (2) an
//! iteration accepts at most [`ACCEPTS_PER_ITERATION`] connections, and makes clients of at most
//! `max-new-connections-per-cycle` waiting connections and `max-new-tls-connections-per-cycle` completed
//! handshakes: existing clients are served in between; (3) connections through a unix socket or from
//! `priority-subnets` do not wait for a turn; (4) all other connections become clients in the order in which
//! they were accepted or, with TLS, in which their handshakes were completed.
//!
//! An iteration accepts more connections than it makes clients, because the kernel has one queue for all new
//! connections. While that queue is full, the kernel ignores further connections, and their clients try
//! again a second later.

use super::Server;
use crate::arrivals::{ACCEPTS_PER_ITERATION, Newcomer};
use crate::connection::transport::Transport;
use crate::connection::{self, Connection, ConnectionHost};
use crate::listen::{self, Accepted, ConnectionRefusal, ListenerKind, TakenConnections};
use crate::net::handshakes::{HandshakeOutcome, HandshakeRole, NewHandshake};
use crate::net::{Stream, tls};
use sluice_base::LogLevel;
use sluice_cluster::Cluster;
use sluice_config::param;
use sluice_control::process::ProcessClock;
use sluice_evloop::Event;
use sluice_session::Medium;
use sluice_storage::plain_error;

impl Server {
    pub(super) fn listener_event(&mut self, slot: u32, generation: u32, event: Event) {
        match event {
            Event::Accepted { socket, .. } => accept(self, slot, generation, Stream::accepted(socket)),
            Event::AcceptFailed { error, .. } => note_accept_failure(self, &error),
            _ => {}
        }
    }

    /// Makes clients of those connections that have waited longest, up to the number for one iteration.
    pub(super) fn take_waiting(&mut self) {
        if self.arrivals.waiting.is_empty() {
            return;
        }
        for _ in 0..self.engine.config().uint(param::MAX_NEW_CONNECTIONS_PER_CYCLE) {
            let Some((newcomer, stream)) = self.arrivals.waiting.pop_front() else {
                return self.arrivals.waiting.shrink_to(ACCEPTS_PER_ITERATION as usize);
            };
            self.timing.is_busy = true;
            // Connections that need not wait for a turn may have taken the last free places for clients in
            // the meantime.
            if let Some(stream) = unless_refused(self, &newcomer.accepted, stream) {
                admit(self, newcomer, stream, &[], None);
            }
        }
    }

    /// Takes the connections whose TLS handshake has ended.
    pub(super) fn take_handshakes(&mut self) {
        while let Some(outcome) = self.arrivals.first_handshakes.take() {
            end_handshake(self, outcome);
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
                Some(outcome) => end_handshake(self, outcome),
            }
        }
    }
}

#[cold]
fn note_accept_failure(server: &mut Server, error: &std::io::Error) {
    let text = format!("Accepting client connection: {}", plain_error(error));
    server.host.note(LogLevel::Warning, &text);
}

fn accept(server: &mut Server, slot: u32, generation: u32, stream: Stream) {
    let Some(listener) = server.listeners.get(slot, generation) else { return };
    if listener.is_of_bus() {
        return server.accept_on_bus(stream);
    }
    let accepted = listen::inspect(&stream, &listener.kind, &server.arrivals.priority_subnets);
    if server.host.log.wants(LogLevel::Verbose) {
        server.host.note(LogLevel::Verbose, &format!("Accepted {}", accepted.addr));
    }
    let newcomer = Newcomer { accepted, unix: matches!(listener.kind, ListenerKind::Unix(_)) };
    if listener.is_tls() {
        return begin_handshake(server, newcomer, stream);
    }
    let Some(stream) = unless_refused(server, &newcomer.accepted, stream) else { return };
    match newcomer.comes_first() {
        true => admit(server, newcomer, stream, &[], None),
        false => server.arrivals.waiting.push_back((newcomer, stream)),
    }
}

/// Hands a TLS connection to a thread for its handshake.
#[cold]
fn begin_handshake(server: &mut Server, newcomer: Newcomer, stream: Stream) {
    let taken = connections(server);
    let config = server.engine.config();
    let is_full = taken.leave_no_room_for(&newcomer.accepted, config);
    let Some(context) = server.host.settings.tls.context().cloned().filter(|_| !is_full) else {
        // A refused connection is closed without an error reply, because nothing can be sent before the
        // handshake, and a handshake would be too costly.
        let rejected = taken.rejected(&newcomer.accepted, config);
        return server.engine.count_rejected(rejected);
    };
    let field = tls::name_field(config);
    let handshakes = server.arrivals.handshakes_for(&newcomer);
    let begin = NewHandshake { stream, context, role: HandshakeRole::Server, field, origin: newcomer };
    if let Err(error) = handshakes.begin(begin, server.sockets.event_loop.waker()) {
        let text = format!("Accepting client connection: no thread for handshakes: {}", plain_error(&error));
        server.host.note(LogLevel::Warning, &text);
    }
}

#[cold]
fn end_handshake(server: &mut Server, outcome: HandshakeOutcome<Newcomer>) {
    match outcome {
        HandshakeOutcome::Established { stream, plain, names, origin } => {
            server.timing.is_busy = true;
            if let Some(stream) = unless_refused(server, &origin.accepted, stream) {
                admit(server, origin, stream, &plain, names.as_deref());
            }
        }
        HandshakeOutcome::Failed { reason, origin } => note_handshake_failure(server, &reason, &origin),
    }
}

#[cold]
fn note_handshake_failure(server: &mut Server, reason: &str, origin: &Newcomer) {
    let Accepted { addr, laddr, .. } = &origin.accepted;
    let text = format!("Error accepting a client connection: {reason} (addr={addr} laddr={laddr})");
    // The number of log lines about failures is bounded, because any peer that can connect can make
    // handshakes fail.
    let now_s = server.host.recent().mono_ns / 1_000_000_000;
    let is_told = server.arrivals.handshakes_for(origin).failure_is_told(now_s);
    let level = if is_told { LogLevel::Warning } else { LogLevel::Debug };
    server.host.note(level, &text);
}

/// The numbers of connections and reserved places that count for `maxclients`.
fn connections(server: &Server) -> TakenConnections {
    let of_bus = server.engine.node().map_or(0, Cluster::connections_wanted);
    server.arrivals.taken(server.engine.connections(), of_bus)
}

/// Returns the connection unless the server refuses it. A refused client gets the reason, and its connection
/// is closed.
fn unless_refused(server: &mut Server, accepted: &Accepted, stream: Stream) -> Option<Stream> {
    let unguarded = server.engine.default_user_has_no_password();
    let refusal = listen::refusal(accepted, connections(server), server.engine.config(), unguarded);
    let Some(ConnectionRefusal { text, rejected }) = refusal else { return Some(stream) };
    server.engine.count_rejected(rejected);
    stream.close_with(text);
    None
}

/// Makes a connection a client. `plain` are bytes that were received during the handshake; `names` are the
/// names in the client's certificate.
fn admit(server: &mut Server, newcomer: Newcomer, stream: Stream, plain: &[u8], names: Option<&[Vec<u8>]>) {
    let Newcomer { accepted, unix } = newcomer;
    let fd = stream.number();
    // The text is shared with the previous client, because both nearly always use the same address of the
    // server.
    if *server.sockets.laddr != *accepted.laddr {
        server.sockets.laddr = accepted.laddr.into();
    }
    let laddr = server.sockets.laddr.clone();
    let medium = match (unix, stream.is_tls()) {
        (true, _) => Medium::Unix,
        (false, true) => Medium::Tls,
        (false, false) => Medium::Tcp,
    };
    let (addr, has_priority) = (accepted.addr, accepted.has_priority);
    let client = sluice_session::ClientAddress { addr, laddr, fd, medium, has_priority };
    let key = server.engine.connect(client, &mut server.host);
    server.sockets.clients.add(key);
    if let Some(names) = names {
        server.engine.log_in_by_certificate(key, names, &mut server.host);
    }
    if !server.io_threads.keeps_another(&server.engine) {
        server.host.shown.io_threads.placed.accepts += 1;
        let mut connection = Connection::new(key, Transport::detached());
        connection.input.keep(plain);
        return server.hand_over(connection, stream);
    }
    let transport = Transport::attach(&mut server.sockets.event_loop, stream, key);
    let mut connection = Connection::new(key, transport);
    connection.authentication = server.engine.authentication(key);
    if plain.is_empty() && !connection.transport.peer_has_ended() {
        connection.receive(&mut server.sockets.event_loop);
        return server.put(connection);
    }
    server.count_received(&mut connection, plain.len());
    connection.input.keep(plain);
    connection::resume(server, connection);
}
