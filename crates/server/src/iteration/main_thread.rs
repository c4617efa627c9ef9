//! The main thread as an owner of connections. It executes requests in the buffer in which they were
//! received.

use super::turns::ServesInTurns;
use super::{SENT_BYTES_MAX, SHORT_OUTPUT, Server};
use crate::clients::SocketOwner;
use crate::connection::input::InputState;
use crate::connection::spare::SpareBuffers;
use crate::connection::{self, Connection, ConnectionHost, Flushed, Residence};
use crate::lazyfree::Garbage;
use crate::net::Stream;
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_control::process::ProcessClock;
use sluice_engine::Flow;
use sluice_evloop::{AnyLoop, SendBuf, Shared};
use sluice_resp::{AuthState, Outbox, ParseLimits, Parser, Requests, State};
use sluice_session::Closing;

/// A reply that is the last owner of at least this many shared values (a mebibyte of pages) is dropped on the
/// lazy free thread.
const SHARED_FREED_ELSEWHERE: usize = 16;

impl Server {
    /// Parses `bytes` and executes the requests in them. Returns how many bytes were consumed.
    #[inline]
    fn execute(&mut self, connection: &mut Connection, bytes: &[u8]) -> usize {
        let key = connection.key;
        let mut used = 0;
        while connection.input.is_open() {
            let rest = &bytes[used..];
            let authentication = connection.authentication;
            let limits = self.parse_limits(authentication);
            let requests = &mut self.sockets.requests;
            let progress = connection.input.parser.parse(rest, &limits, requests);
            if !requests.is_empty() {
                let done = self.engine.submit(key, rest, requests, &mut self.host);
                connection.authentication = done.admission;
                match done.flow {
                    Flow::Continue => {}
                    Flow::Closing => self.shut_input(connection),
                    Flow::Waiting => {
                        // The engine has the deferred request. The bytes after the request are parsed again
                        // when the request has ended.
                        connection.input.defer();
                        return used + end_of_executed(&self.sockets.requests, done.executed, rest);
                    }
                }
            }
            used += progress.consumed;
            match progress.state {
                State::Full => {}
                // After a RESET the remaining bytes are parsed again, as those of an unauthenticated client.
                State::Starved if used < bytes.len() && connection.authentication != authentication => {
                    connection.input.parser = Parser::new();
                }
                State::Starved => break,
                State::Failed(error) => {
                    if connection.input.is_open() {
                        let broken = &bytes[used..];
                        self.engine.protocol_error(key, &error.message(), broken, &mut self.host);
                    }
                    self.shut_input(connection);
                }
            }
        }
        if connection.input.state() == InputState::Shut { bytes.len() } else { used }
    }

    fn parse_limits(&self, authentication: AuthState) -> ParseLimits {
        let numbers = self.engine.limits();
        let admission = numbers.admission(authentication);
        ParseLimits::new(admission, numbers.proto_max_bulk_len as u64, numbers.prefetch_batch)
    }

    /// Stops reading after the client's last request. If no reply waits, the phase `write` ends the client.
    #[cold]
    fn shut_input(&mut self, connection: &mut Connection) {
        connection.input.shut();
        self.sockets.ready.push(connection.key);
    }

    /// Executes the complete requests of the query buffer and keeps the rest. The buffer keeps its
    /// memory, because the request is likely to arrive in more pieces.
    fn execute_query_buf(&mut self, connection: &mut Connection) {
        let mut query_buf = std::mem::take(&mut connection.input.query_buf);
        let peak = u32::try_from(query_buf.len()).unwrap_or(u32::MAX);
        connection.query_buf_peak = connection.query_buf_peak.max(peak);
        let used = self.execute(connection, &query_buf);
        query_buf.drain(..used);
        connection.input.query_buf = query_buf;
        connection.input.move_out_large_argument();
    }

    /// Sends the output of a client, whichever thread owns the connection.
    #[inline]
    pub(super) fn send_output(&mut self, key: SessionKey) {
        let Some(connection) = self.take(key) else { return self.send_output_elsewhere(key) };
        if connection.output.is_idle() && connection.residence == Residence::Staying {
            self.send_own_output(connection);
        } else {
            // The output stays in the session until the send in flight is over, or the connection has
            // arrived at its new owner. The check of the output limit detects a client that reads too
            // slowly.
            self.put(connection);
            self.engine.check_output_limit(key, &mut self.host);
        }
    }

    #[inline]
    fn send_own_output(&mut self, mut connection: Box<Connection>) {
        let key = connection.key;
        let Some((outbox, closing)) = self.engine.take_output(key) else { return self.put(connection) };
        if outbox.is_empty() {
            self.engine.recycle(outbox);
            self.put(connection);
            match closing {
                // The limit is checked although nothing can be sent now, because replies that wait for
                // durability also count as output.
                Closing::No => self.engine.check_output_limit(key, &mut self.host),
                Closing::AfterReply | Closing::Now => self.end_client(key),
            }
            return;
        }
        if closing == Closing::AfterReply {
            connection.close_when_sent();
        }
        self.host.work.writes += 1;
        self.sockets.sent_bytes += outbox.len();
        let sent = connection::send(self, &mut connection, outbox);
        let in_flight = connection.output.is_sending();
        self.put(connection);
        match sent {
            Flushed::Open if in_flight => self.engine.check_output_limit(key, &mut self.host),
            Flushed::Open => {}
            Flushed::Over(why) => self.connection_lost(key, &why),
        }
    }

    /// Sends the output of a client that an I/O thread owns.
    fn send_output_elsewhere(&mut self, key: SessionKey) {
        if self.go_on_with_kept(key) {
            return;
        }
        match self.sockets.clients.owner(key) {
            Some(SocketOwner::IoThread(id)) => {
                let id = *id;
                self.push_output(key, id);
            }
            // The output waits in the session until the connection has arrived at the main thread.
            Some(SocketOwner::LeavingIoThread(_)) => self.engine.check_output_limit(key, &mut self.host),
            Some(SocketOwner::Main(_) | SocketOwner::InHand) | None => {}
        }
    }

    /// Ends a client whose connection is lost. The engine is informed now, and the socket is closed at
    /// the end of the iteration.
    pub(super) fn connection_lost(&mut self, key: SessionKey, why: &str) {
        if self.host.log.wants(LogLevel::Verbose)
            && let Some(session) = self.engine.session(key)
        {
            self.host.note(LogLevel::Verbose, &format!("{why} {}", session.caller.origin.addr));
        }
        self.end_client(key);
    }

    /// Ends a client without a log line.
    pub(super) fn end_client(&mut self, key: SessionKey) {
        self.engine.client_lost(key, &mut self.host);
        self.sockets.to_close.push(key);
    }

    /// Ends a client with more input that waits to be executed than `client-query-buffer-limit` allows.
    #[cold]
    pub(super) fn end_overlong(&mut self, key: SessionKey) {
        self.engine.count_query_buffer_disconnection(key, &mut self.host);
        self.end_client(key);
    }
}

impl ServesInTurns for Server {
    #[inline]
    fn send(&mut self, client: SessionKey) {
        self.send_output(client);
    }

    fn is_short(&self, client: SessionKey) -> bool {
        // A replica needs no turn, because it gets one window of its stream at a time, and because WAIT
        // and failovers wait for its offset.
        self.engine
            .session(client)
            .is_none_or(|session| session.caller.replica.is_some() || session.output_bytes() <= SHORT_OUTPUT)
    }

    #[inline]
    fn is_spent(&self) -> bool {
        self.sockets.sent_bytes >= SENT_BYTES_MAX
    }
}

impl ConnectionHost for Server {
    #[inline]
    fn event_loop(&mut self) -> &mut AnyLoop {
        &mut self.sockets.event_loop
    }

    fn spare(&mut self) -> &mut SpareBuffers {
        &mut self.sockets.spare
    }

    #[inline]
    fn take(&mut self, key: SessionKey) -> Option<Box<Connection>> {
        self.sockets.clients.take(key)
    }

    #[inline(always)]
    fn put(&mut self, mut connection: Box<Connection>) {
        connection.detach_if_at_rest(&mut self.sockets.event_loop);
        self.sockets.clients.put(connection);
    }

    #[inline]
    fn process(&mut self, connection: &mut Connection, mut fresh: &[u8]) {
        if self.ending.is_some() {
            // No more requests of this client are executed, because its last replies are being sent.
            return;
        }
        loop {
            match connection.input.state() {
                InputState::Open if connection.input.query_buf.is_empty() => {
                    let used = self.execute(connection, fresh);
                    let rest = &fresh[used..];
                    if !rest.is_empty() {
                        if connection.input.query_buf.capacity() == 0 {
                            connection.input.query_buf = self.sockets.spare.query_buf();
                        }
                        connection.input.keep_rest(rest);
                    }
                    return;
                }
                InputState::Open | InputState::Large => {
                    fresh = connection.input.complete(fresh);
                    if connection.input.is_open() {
                        self.execute_query_buf(connection);
                    }
                    if fresh.is_empty() {
                        return;
                    }
                }
                InputState::Deferred => return connection.input.keep(fresh),
                InputState::Filling | InputState::Executing | InputState::Shut => return,
            }
        }
    }

    fn note_unfinished(&mut self, connection: &Connection) {
        self.engine.touch_last_interaction(connection.key, self.host.recent());
    }

    #[inline]
    fn count_received(&mut self, connection: &mut Connection, bytes: usize) {
        if self.is_link(connection.key) {
            self.host.work.counts.net_repl_input_bytes += bytes as u64;
        }
        self.host.work.counts.net_input_bytes += bytes as u64;
        self.host.work.reads += 1;
    }

    #[inline]
    fn count_sent(&mut self, connection: &mut Connection, bytes: usize) {
        self.host.work.counts.net_output_bytes += bytes as u64;
        self.engine.sent(connection.key, bytes, self.host.recent());
    }

    fn output_is_idle(&mut self, key: SessionKey) {
        // Output that came up during the send waits in the session.
        self.sockets.ready.push(key);
    }

    /// Takes back a buffer that was sent. A reply may be the last owner of a large string's pages; if there
    /// are many such pages, another thread frees them.
    #[inline]
    fn recycle(&mut self, buf: SendBuf) {
        // Pages that are also part of a key's value are not freed with the reply, and do not count.
        let is_last_owner = |shared: &Shared| !shared.bytes.is_shared();
        if buf.shared.len() >= SHARED_FREED_ELSEWHERE
            && buf.shared.iter().filter(|shared| is_last_owner(shared)).count() >= SHARED_FREED_ELSEWHERE
        {
            self.free_shared(buf.shared);
        }
        self.engine.recycle(Outbox::from_buffer(buf.head));
    }

    #[inline]
    fn report_usage(&mut self, connection: &mut Connection) {
        if let Some(usage) = connection.input.unreported() {
            self.host.note_input(usage.room);
            self.engine.publish_input(connection.key, usage.used, usage.room - usage.used);
            let is_shut = connection.input.state() == InputState::Shut;
            let is_over = usage.used > self.engine.limits().client_query_buffer;
            if is_over && !is_shut && !self.is_link(connection.key) {
                connection.input.shut();
                self.end_overlong(connection.key);
            }
        }
    }

    fn idle_s(&mut self, connection: &Connection) -> i64 {
        let now_s = self.host.recent().unix_s();
        self.engine.session(connection.key).map_or(0, |session| now_s - session.caller.traffic.last_s)
    }

    fn end(&mut self, connection: Box<Connection>, why: &str) {
        let key = connection.key;
        self.put(connection);
        self.connection_lost(key, why);
    }

    #[cold]
    fn input_ended(&mut self, mut connection: Box<Connection>) {
        let key = connection.key;
        // If a client has not read its earlier output, it gets no more replies and is ended, because the
        // peer may be gone.
        let is_at_rest = connection.output.is_idle() && connection.residence == Residence::Staying;
        if is_at_rest && self.engine.input_ended(key, &mut self.host) {
            connection.input.shut();
            return self.put(connection);
        }
        self.end(connection, connection::CLIENT_CLOSED);
    }

    fn detached(&mut self, connection: Box<Connection>, stream: Stream) {
        self.assign_owner(connection, stream);
    }
}

impl Server {
    #[cold]
    fn free_shared(&mut self, shared: Vec<Shared>) {
        self.free(Garbage::Reply(shared));
    }
}

/// The end of the last executed request, as an offset in the parsed bytes; 0 if none was executed.
pub(super) fn end_of_executed(requests: &Requests, executed: usize, bytes: &[u8]) -> usize {
    executed.checked_sub(1).map_or(0, |last| requests.end_of(last).min(bytes.len()))
}
