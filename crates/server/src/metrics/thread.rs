//! The thread of the metrics endpoint: connections, their deadlines, and the replies to requests.
//!
//! Invariants: (1) there are at most [`CONNECTIONS_MAX`] connections. If all are taken, a new connection
//! replaces the connection that has been without a request for longest. If each has a request, it replaces
//! the connection whose client has been reading its reply for longest, so that silent strangers do not block
//! others. If all wait for a sample, the new connection is refused;
//! (2) every connection has a deadline in every state: for the head of a request, for a sample from the main
//! thread, for reading a reply, for the next request, and for the client's end after the last reply; (3) a
//! connection keeps at most the bytes of one head while a request waits or a reply is sent, and the bytes of
//! the reply that the socket has not taken yet. `samples.rs` decides when the main thread is asked for a
//! sample.

use super::facts;
use super::http::{
    self, CONNECTIONS_MAX, HEAD_BYTES_MAX, HttpContent, HttpRequest, HttpStatus, ParsedHead, ReplyForm,
    Resource,
};
use super::message::{MainThread, MetricsSettings, ToEndpoint};
use super::page::PageFile;
use super::samples::Samples;
use crate::listen::listeners::Listeners;
use crate::net::{Endpoint, Stream};
use crate::threads::{self, Thread};
use sluice_base::{Now, SessionKey};
use sluice_clock::Clock;
use sluice_evloop::{
    AnyLoop, Deadline, Event, Mailbox, Received, SendBuf, Sender, Sending, Sent, Shutdown, Source,
};
use sluice_numbers::info::sample::{Health, MetricsSample};
use sluice_numbers::info::text::EndpointNumbers;
use sluice_numbers::page::details::PageDetails;
use sluice_tls::{Buffers, Session};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

const SECOND_NS: u64 = 1_000_000_000;
/// How long the head of a request may take, including the TLS handshake.
pub(super) const HEAD_NS_MAX: u64 = 5 * SECOND_NS;
/// How long a connection may be without a request.
pub(super) const IDLE_NS_MAX: u64 = 120 * SECOND_NS;
/// How long a client may take to read a reply.
pub(super) const REPLY_NS_MAX: u64 = 10 * SECOND_NS;
/// How long a connection is kept after its last reply, so that the client can read the reply.
const LINGER_NS_MAX: u64 = SECOND_NS;
/// How long a request waits for a new sample before it is answered with the last sample.
pub(super) const ANSWER_NS_MAX: u64 = SECOND_NS / 2;
/// How long a request for the page's data waits for a sample. This time is longer, because a sample that
/// was requested earlier may lack the data, so that only the next sample has them.
pub(super) const PAGE_ANSWER_NS_MAX: u64 = 2 * SECOND_NS;

/// Starts the thread. Returns the sender of messages to the thread. The thread wakes `main` when it wants a
/// sample.
///
/// # Errors
/// The thread, or its event loop, cannot be started.
pub(super) fn start(main: MainThread) -> io::Result<Sender<ToEndpoint>> {
    // The thread ends on `ToEndpoint::End`, or with the process.
    threads::start_with_loop(Thread::Metrics, move |event_loop, inbox| {
        EndpointThread::new(event_loop, inbox, main).run();
    })
}

struct EndpointThread {
    event_loop: AnyLoop,
    clock: Clock,
    inbox: Mailbox<ToEndpoint>,
    main: MainThread,
    listeners: Listeners,
    token: Option<Box<[u8]>>,
    tls: Option<sluice_tls::Context>,
    /// The value of [`MetricsSettings::is_guarded`].
    is_guarded: bool,
    page: PageFile,
    table: Vec<HttpSlot>,
    samples: Samples,
    /// Number of requests for `/metrics` that were answered, or failed because there was no sample.
    scrapes: u64,
    /// Number of requests and connections that were refused, and of connections closed to make room for
    /// others.
    refused: u64,
    buffers: Buffers,
}

#[derive(Default)]
struct HttpSlot {
    generation: u32,
    connection: Option<HttpConnection>,
}

struct HttpConnection {
    source: Source,
    peer: Option<SocketAddr>,
    tls: Option<Session>,
    /// Received bytes that are not a complete head yet.
    input: Vec<u8>,
    /// Bytes that are to be sent after the send in flight.
    output: Vec<u8>,
    is_sending: bool,
    /// Whether the client has ended its sending side.
    is_half_closed: bool,
    state: HttpState,
    /// When the connection entered its state, monotonic ns.
    since_ns: u64,
    /// When the connection must have left its state, monotonic ns.
    deadline_ns: u64,
}

enum HttpState {
    /// The connection has no request.
    Reading,
    /// A request of the connection waits for a sample.
    Waiting(HttpRequest),
    /// A reply is being sent. `stays`: whether the connection stays open afterwards.
    Replying { stays: bool },
    /// The sending side was shut down; received bytes are ignored.
    Ending,
}

impl EndpointThread {
    fn new(event_loop: AnyLoop, inbox: Mailbox<ToEndpoint>, main: MainThread) -> EndpointThread {
        EndpointThread {
            event_loop,
            clock: Clock::system(),
            inbox,
            main,
            listeners: Listeners::default(),
            token: None,
            tls: None,
            is_guarded: false,
            page: PageFile::new(),
            table: Vec::new(),
            samples: Samples::default(),
            scrapes: 0,
            refused: 0,
            buffers: Buffers::default(),
        }
    }

    fn run(mut self) {
        self.samples.history.begin(self.clock.now());
        loop {
            let now_ns = self.clock.now().mono_ns;
            let due_ns = self.samples.due_ns(self.waiting().next().is_some());
            let late = self.connections().map(|(_, connection)| connection.deadline_ns);
            let until = late.chain(due_ns).min().map_or(Deadline::NEVER, Deadline::at_ns);
            if self.event_loop.wait(now_ns, until).is_err() {
                return;
            }
            let now = self.clock.now();
            let messages: Vec<ToEndpoint> = self.inbox.drain().collect();
            for message in messages {
                match message {
                    ToEndpoint::Settings(settings) => self.apply(*settings),
                    ToEndpoint::Sample(sample, details) => self.take_sample(sample, details, now),
                    ToEndpoint::End => return self.listeners.close(&mut self.event_loop),
                }
            }
            while let Some(event) = self.event_loop.next_event(now.mono_ns) {
                self.handle(event, now.mono_ns);
            }
            self.end_late(now.mono_ns);
            self.ask_if_due(now.mono_ns);
        }
    }

    /// The requests that wait for a sample.
    fn waiting(&self) -> impl Iterator<Item = &HttpRequest> {
        self.table.iter().filter_map(|slot| match &slot.connection.as_ref()?.state {
            HttpState::Waiting(request) => Some(request),
            HttpState::Reading | HttpState::Replying { .. } | HttpState::Ending => None,
        })
    }

    /// Requests a sample from the main thread if a request or the history needs one now.
    fn ask_if_due(&mut self, now_ns: u64) {
        let due_ns = self.samples.due_ns(self.waiting().next().is_some());
        if due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            let waiting: Vec<HttpRequest> = self.waiting().cloned().collect();
            let page = self.samples.ask(waiting.iter(), now_ns);
            self.main.ask(page);
        }
    }

    fn apply(&mut self, settings: MetricsSettings) {
        let MetricsSettings { listeners, token, tls, is_guarded } = settings;
        self.listeners.replace(&mut self.event_loop, listeners);
        (self.token, self.tls, self.is_guarded) = (token, tls, is_guarded);
    }

    fn handle(&mut self, event: Event, now_ns: u64) {
        let endpoint = Endpoint::of(event.token());
        match (endpoint, event) {
            (Some(Endpoint::Listener { .. }), Event::Accepted { socket, .. }) => self.accept(socket, now_ns),
            (Some(Endpoint::Client(key)), Event::Received { received: Received::Data(chunk), .. }) => {
                self.receive(key, &chunk, now_ns);
                self.event_loop.give_back(chunk);
            }
            // A client that has sent a request and then ended its sending side still gets the reply.
            (Some(Endpoint::Client(key)), Event::Received { received: Received::Eof, .. }) => {
                let waits = self.connection(key).is_some_and(|connection| {
                    matches!(connection.state, HttpState::Waiting(_) | HttpState::Replying { .. })
                });
                match self.connection(key).filter(|_| waits) {
                    Some(connection) => connection.is_half_closed = true,
                    None => self.close(key),
                }
            }
            (Some(Endpoint::Client(key)), Event::Received { received: Received::Failed(_), .. }) => {
                self.close(key);
            }
            (Some(Endpoint::Client(key)), Event::Sent { sent, .. }) => {
                if let Some(connection) = self.connection(key) {
                    connection.is_sending = false;
                }
                match sent.error {
                    None => {
                        self.send(key, now_ns);
                        self.read(key, now_ns);
                    }
                    Some(_) => self.close(key),
                }
            }
            _ => {}
        }
    }

    fn accept(&mut self, socket: OwnedFd, now_ns: u64) {
        let peer = socket2::SockRef::from(&socket).peer_addr().ok().and_then(|peer| peer.as_socket());
        let tls = match self.tls.as_ref().map(|context| context.accept()) {
            None => None,
            Some(Ok(session)) => Some(session),
            Some(Err(_)) => return,
        };
        let Some(slot) = self.free_slot() else {
            // The new connection is refused, because each of the other connections has a request that
            // waits for a sample.
            self.refused += 1;
            return;
        };
        let entry = &mut self.table[slot];
        entry.generation = entry.generation.wrapping_add(1);
        let key = SessionKey { slot: slot as u32, generation: entry.generation };
        let (source, _) = Stream::accepted(socket).attach(&mut self.event_loop, Endpoint::Client(key));
        self.event_loop.recv_start(source);
        entry.connection = Some(HttpConnection {
            source,
            tls,
            input: Vec::new(),
            output: Vec::new(),
            peer,
            is_sending: false,
            is_half_closed: false,
            state: HttpState::Reading,
            since_ns: now_ns,
            deadline_ns: now_ns + HEAD_NS_MAX,
        });
    }

    /// A slot for a new connection: a free slot, or the slot of a connection that is closed for the new one;
    /// `None` if the requests of all connections wait for a sample.
    fn free_slot(&mut self) -> Option<usize> {
        if let Some(slot) = self.table.iter().position(|slot| slot.connection.is_none()) {
            return Some(slot);
        }
        if self.table.len() < CONNECTIONS_MAX {
            self.table.push(HttpSlot::default());
            return Some(self.table.len() - 1);
        }
        // Connections without a request are closed first, then those whose clients are slow to read a
        // reply. Connections whose request waits for a sample are not closed, because they are answered
        // soon.
        let rank = |connection: &HttpConnection| match connection.state {
            HttpState::Reading | HttpState::Ending => Some((0, connection.since_ns)),
            HttpState::Replying { .. } => Some((1, connection.since_ns)),
            HttpState::Waiting(_) => None,
        };
        let others = self.connections().filter_map(|(key, connection)| Some((rank(connection)?, key)));
        let (_, key) = others.min_by_key(|(rank, _)| *rank)?;
        self.refused += 1;
        self.close(key);
        Some(key.slot as usize)
    }

    fn connections(&self) -> impl Iterator<Item = (SessionKey, &HttpConnection)> {
        self.table.iter().enumerate().filter_map(|(slot, entry)| {
            let key = SessionKey { slot: slot as u32, generation: entry.generation };
            Some((key, entry.connection.as_ref()?))
        })
    }

    fn connection(&mut self, key: SessionKey) -> Option<&mut HttpConnection> {
        let slot = self.table.get_mut(key.slot as usize)?;
        slot.connection.as_mut().filter(|_| slot.generation == key.generation)
    }

    fn close(&mut self, key: SessionKey) {
        let slot = self.table.get_mut(key.slot as usize).filter(|slot| slot.generation == key.generation);
        if let Some(connection) = slot.and_then(|slot| slot.connection.take()) {
            self.event_loop.close(connection.source);
        }
    }

    fn receive(&mut self, key: SessionKey, bytes: &[u8], now_ns: u64) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let Some(connection) = self.connection(key) else {
            self.buffers = buffers;
            return;
        };
        let plain = match &mut connection.tls {
            None => Ok(bytes),
            Some(session) => {
                let received = session.receive(bytes, &mut buffers);
                connection.output.extend_from_slice(&buffers.answer);
                received.map(|_| buffers.plain.as_slice()).map_err(drop)
            }
        };
        let is_fine = plain.is_ok_and(|plain| connection.keep(plain, now_ns));
        buffers.plain.clear();
        buffers.answer.clear();
        self.buffers = buffers;
        self.send(key, now_ns);
        match is_fine {
            true => self.read(key, now_ns),
            // `send` has sent the TLS alert, if the socket had room for it.
            false => self.close(key),
        }
    }

    /// Handles the requests received so far, in order.
    fn read(&mut self, key: SessionKey, now_ns: u64) {
        loop {
            let Some(connection) = self.connection(key) else { return };
            if !matches!(connection.state, HttpState::Reading) {
                return;
            }
            match http::head(&connection.input) {
                ParsedHead::Partial => return,
                ParsedHead::Request { mut request, used } => {
                    connection.input.drain(..used);
                    if let Some(shown) = &mut request.credentials {
                        shown.peer = connection.peer.map(|peer| peer.to_string()).unwrap_or_default().into();
                    }
                    let is_of_page = matches!(request.resource, Some(Resource::PageData { .. }));
                    let answer_ns_max = if is_of_page { PAGE_ANSWER_NS_MAX } else { ANSWER_NS_MAX };
                    connection.enter(HttpState::Waiting(request), now_ns, answer_ns_max);
                    self.take_up(key, now_ns);
                }
                ParsedHead::Refused(status) => {
                    connection.input = Vec::new();
                    self.refused += 1;
                    self.reply(key, http::refuse(status), false, now_ns);
                }
            }
        }
    }

    /// Answers a request at once, or lets it wait for the main thread's next sample.
    fn take_up(&mut self, key: SessionKey, now_ns: u64) {
        let Some(HttpConnection { state: HttpState::Waiting(request), .. }) = self.connection(key) else {
            return;
        };
        let request = request.clone();
        if let Some((status, text)) = self.refusal(&request) {
            self.refused += 1;
            let form = ReplyForm { is_head: request.is_head, stays: request.stays };
            return self.reply(key, http::say(status, text, form), form.stays, now_ns);
        }
        if self.samples.serves(&request, now_ns) {
            return self.answer(key, now_ns);
        }
        self.ask_if_due(now_ns);
    }

    /// The refusal of a request; `None` if it is served.
    fn refusal(&self, request: &HttpRequest) -> Option<(HttpStatus, &'static str)> {
        let Some(resource) = request.resource else {
            return Some((HttpStatus::NotFound, "there is /, /metrics, /metrics/slots and /healthz"));
        };
        if resource.is_guarded() && !self.is_guarded && !request.names_own_host {
            // A foreign page could make its host name resolve to this machine, and send requests through a
            // visitor's browser.
            return Some((
                HttpStatus::Forbidden,
                "without metrics-token, ask for http://127.0.0.1, http://localhost or another address, not for a name",
            ));
        }
        if resource.is_for_the_page() && !request.is_from_page {
            return Some((
                HttpStatus::Forbidden,
                "only the status page may request this: the header Sluice-Page is missing",
            ));
        }
        if resource == Resource::SlotMetrics && request.is_from_some_page {
            // This reply costs more than a sample, so no page may make a visitor's browser request it.
            return Some((
                HttpStatus::Forbidden,
                "web pages may not request this: it is for scrapers, such as Prometheus",
            ));
        }
        let is_allowed = match (&self.token, &request.token) {
            (None, _) => true,
            (Some(wanted), Some(shown)) => http::is_token(wanted, shown),
            (Some(_), None) => false,
        };
        (resource.is_guarded() && !is_allowed)
            .then_some((HttpStatus::Unauthorized, "the token is missing or wrong"))
    }

    fn take_sample(&mut self, mut sample: Box<MetricsSample>, details: Option<Box<PageDetails>>, now: Now) {
        facts::complete(&mut sample);
        self.samples.take(sample, details, now);
        let served = |connection: &HttpConnection| match &connection.state {
            HttpState::Waiting(request) => self.samples.serves(request, now.mono_ns),
            HttpState::Reading | HttpState::Replying { .. } | HttpState::Ending => false,
        };
        let waiting = self.connections().filter(|(_, connection)| served(connection));
        let keys: Vec<SessionKey> = waiting.map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.answer_and_go_on(key, now.mono_ns));
        self.samples.keep();
    }

    fn answer_and_go_on(&mut self, key: SessionKey, now_ns: u64) {
        self.answer(key, now_ns);
        self.read(key, now_ns);
    }

    /// Answers a waiting request with the last sample, or with an error if there is none.
    fn answer(&mut self, key: SessionKey, now_ns: u64) {
        let Some(connection) = self.connection(key) else { return };
        let HttpState::Waiting(request) = &connection.state else { return };
        let (request, waited_ns) = (request.clone(), now_ns.saturating_sub(connection.since_ns));
        let form = ReplyForm { is_head: request.is_head, stays: request.stays };
        let bytes = match request.resource {
            Some(Resource::Metrics) => self.metrics(&request, waited_ns, form, now_ns),
            Some(Resource::SlotMetrics) => self.slot_metrics(&request, form),
            Some(Resource::Health) => self.health(form, now_ns),
            Some(Resource::Page) => http::reply(HttpStatus::Ok, self.page.content(), form),
            Some(Resource::PageData { .. }) => self.page_data(&request, form, now_ns),
            Some(Resource::PageHistory { since, of }) => {
                json(&[self.samples.history.json(since, of).as_bytes()], form)
            }
            None => http::refuse(HttpStatus::NotFound),
        };
        self.reply(key, bytes, form.stays, now_ns);
    }

    fn metrics(&mut self, request: &HttpRequest, waited_ns: u64, form: ReplyForm, now_ns: u64) -> Vec<u8> {
        self.scrapes += 1;
        let connections = self.connections().count() as u64;
        let Samples { last: Some(last), count, .. } = &mut self.samples else {
            return http::say(HttpStatus::Unavailable, NO_ANSWER, form);
        };
        let numbers = EndpointNumbers {
            // The limit is read each time, because it may change while the process runs.
            memory_limit: sluice_daemon::usage::memory_limit().unwrap_or(0),
            age_ns: now_ns.saturating_sub(last.at_ns),
            waited_ns,
            samples: *count,
            scrapes: self.scrapes,
            connections,
            refused: self.refused,
        };
        let (format, end) = (request.format, numbers.text(request.format));
        let body = [last.text(format).as_bytes(), end.as_bytes()];
        http::reply(
            HttpStatus::Ok,
            HttpContent { kind: format.content_type(), headers: "", body: &body },
            form,
        )
    }

    fn slot_metrics(&self, request: &HttpRequest, form: ReplyForm) -> Vec<u8> {
        let Some(last) = &self.samples.last else {
            return http::say(HttpStatus::Unavailable, NO_ANSWER, form);
        };
        let (format, text) = (request.format, last.slots_text(request.format));
        let content = HttpContent { kind: format.content_type(), headers: "", body: &[text.as_bytes()] };
        http::reply(HttpStatus::Ok, content, form)
    }

    fn health(&self, form: ReplyForm, now_ns: u64) -> Vec<u8> {
        match self.samples.young(now_ns).map(|last| last.sample.health) {
            Some(Health::Fine) => http::say(HttpStatus::Ok, Health::Fine.text(), form),
            Some(health) => http::say(HttpStatus::Unavailable, health.text(), form),
            None => http::say(HttpStatus::Unavailable, NO_ANSWER, form),
        }
    }

    /// The page's data, preceded by their age in milliseconds.
    fn page_data(&mut self, request: &HttpRequest, form: ReplyForm, now_ns: u64) -> Vec<u8> {
        let age_ms =
            self.samples.last.as_ref().map_or(0, |last| now_ns.saturating_sub(last.at_ns) / 1_000_000);
        match self.samples.last.as_mut() {
            Some(last) => {
                let text = last.json(request.credentials.as_ref());
                let head = format!("{{\"age_ms\":{age_ms},");
                // The opening brace of the text is in `head`.
                json(&[head.as_bytes(), text.as_bytes().get(1..).unwrap_or_default()], form)
            }
            None => http::say(HttpStatus::Unavailable, NO_ANSWER, form),
        }
    }

    /// Queues and sends a reply. `stays`: whether the connection stays open afterwards.
    fn reply(&mut self, key: SessionKey, bytes: Vec<u8>, stays: bool, now_ns: u64) {
        let Some(connection) = self.connection(key) else { return };
        let is_encoded = match &mut connection.tls {
            Some(session) => session.send([bytes.as_slice()].into_iter(), &mut connection.output).is_ok(),
            None => {
                // If no output waits, which is nearly always the case, the buffer is taken without a copy.
                match connection.output.is_empty() {
                    true => connection.output = bytes,
                    false => connection.output.extend_from_slice(&bytes),
                }
                true
            }
        };
        if !is_encoded {
            return self.close(key);
        }
        let stays = stays && !connection.is_half_closed;
        connection.enter(HttpState::Replying { stays }, now_ns, REPLY_NS_MAX);
        self.send(key, now_ns);
    }

    /// Sends waiting bytes. After a completely sent reply, the connection waits for a request again, or ends.
    fn send(&mut self, key: SessionKey, now_ns: u64) {
        let Some(connection) = self.connection(key).filter(|connection| !connection.is_sending) else {
            return;
        };
        let source = connection.source;
        if !connection.output.is_empty() {
            let head = std::mem::take(&mut connection.output);
            match self.event_loop.send(source, SendBuf { head, shared: Vec::new() }) {
                Sending::InFlight => {
                    if let Some(connection) = self.connection(key) {
                        connection.is_sending = true;
                    }
                    return;
                }
                Sending::Done(Sent { error: Some(_), .. }) => return self.close(key),
                Sending::Done(_) => {}
            }
        }
        let Some(connection) = self.connection(key) else { return };
        match connection.state {
            HttpState::Replying { stays: true } => {
                connection.enter(HttpState::Reading, now_ns, IDLE_NS_MAX);
                if !connection.input.is_empty() {
                    connection.deadline_ns = now_ns + HEAD_NS_MAX;
                }
            }
            HttpState::Replying { stays: false } => self.end(key, now_ns),
            HttpState::Reading | HttpState::Waiting(_) | HttpState::Ending => {}
        }
    }

    /// Shuts down the sending side of a connection. The socket is not closed at once, because the kernel
    /// would discard the reply if the client then sent more bytes.
    fn end(&mut self, key: SessionKey, now_ns: u64) {
        let Some(connection) = self.connection(key) else { return };
        let source = connection.source;
        connection.enter(HttpState::Ending, now_ns, LINGER_NS_MAX);
        if let Some(session) = &mut connection.tls {
            let mut head = Vec::new();
            session.close(&mut head);
            let _ = self.event_loop.send(source, SendBuf { head, shared: Vec::new() });
        }
        self.event_loop.shutdown(source, Shutdown::Write);
    }

    /// Handles connections whose deadline has passed. A waiting request is answered with the last sample;
    /// other connections are closed.
    fn end_late(&mut self, now_ns: u64) {
        let late = self.connections().filter(|(_, connection)| connection.deadline_ns <= now_ns);
        let late: Vec<(SessionKey, bool)> = late.map(|(key, it)| (key, it.is_waiting())).collect();
        for (key, is_waiting) in late {
            match is_waiting {
                true => self.answer_and_go_on(key, now_ns),
                false => self.close(key),
            }
        }
    }
}

impl HttpConnection {
    fn enter(&mut self, state: HttpState, now_ns: u64, at_most_ns: u64) {
        self.state = state;
        (self.since_ns, self.deadline_ns) = (now_ns, now_ns + at_most_ns);
    }

    fn is_waiting(&self) -> bool {
        matches!(self.state, HttpState::Waiting(_))
    }

    /// Keeps received bytes. Returns false if there are too many. The first byte of a further request
    /// starts that request's deadline.
    fn keep(&mut self, bytes: &[u8], now_ns: u64) -> bool {
        match self.state {
            HttpState::Ending => return true,
            HttpState::Reading if self.input.is_empty() && !bytes.is_empty() => {
                self.deadline_ns = self.deadline_ns.min(now_ns + HEAD_NS_MAX);
            }
            HttpState::Reading => {}
            // All requests that arrive before an earlier request is answered share the room of one head.
            HttpState::Waiting(_) | HttpState::Replying { .. } => {
                if self.input.len() + bytes.len() > HEAD_BYTES_MAX {
                    return false;
                }
            }
        }
        self.input.extend_from_slice(bytes);
        true
    }
}

fn json(body: &[&[u8]], form: ReplyForm) -> Vec<u8> {
    http::reply(HttpStatus::Ok, HttpContent { kind: "application/json", headers: "", body }, form)
}

const NO_ANSWER: &str = "the main thread does not answer";

#[cfg(test)]
mod tests;
