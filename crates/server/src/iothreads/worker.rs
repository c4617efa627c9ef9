//! A worker: an event loop, the connections it owns, and the two rings to the executing thread.
//!
//! A turn: take what the executing thread sent; receive, parse and prepare; show what was gathered, all at once, and wake the
//! executing thread if it sleeps. While batches are at the executing thread the worker dozes for some microseconds at a
//! time instead of sleeping until it is woken: answers come soon, and a kick costs the executing thread more than all the
//! rest of a request.

use super::job::{Adopted, Batch, Ended, Push, Settings, ToMain, ToWorker, Traffic};
use crate::inbound::{Inbound, Input, Kept};
use crate::turn::CARRY_IDLE_S;
use crate::wire::{CLIENT_CLOSED, into_send, key_of, read_failed, token_of, write_failed};
use nix::sys::prctl;
use sluice_clock::Clock;
use sluice_engine::SessionKey;
use sluice_evloop::{AnyLoop, Deadline, Event, Received, Sending, Sent, Source, Waker};
use sluice_queue::lanes::Lane;
use sluice_queue::{Rung, spsc};
use sluice_resp::{Admission, Limits, Outbox, Parser, State};
use sluice_value::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What a worker publishes about itself: written by it alone, read by the executing thread for INFO and the policy. All
/// relaxed: it only informs.
#[derive(Debug, Default)]
pub struct Published {
    /// Nanoseconds in turns that had work.
    pub active_ns: AtomicU64,
    /// Times it slept until woken.
    pub parks: AtomicU64,
    /// Waits of its loop that found something.
    pub polls: AtomicU64,
    /// Messages that found the lane full.
    pub full: AtomicU64,
}

/// Adds to a counter that this thread alone writes: no read-modify-write is needed.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// What a worker starts with.
pub struct Seat {
    /// What the executing thread calls it.
    pub seat: usize,
    /// From the executing thread.
    pub inbox: spsc::Consumer<ToWorker>,
    /// To the executing thread.
    pub lane: Lane<ToMain>,
    /// Wakes the executing thread.
    pub main: Waker,
    /// What it publishes.
    pub published: Arc<Published>,
    /// The limits in force.
    pub settings: Arc<Settings>,
}

/// A worker.
pub struct Worker {
    seat: Seat,
    event_loop: AnyLoop,
    clock: Clock,
    connections: Vec<Option<Box<Connection>>>,
    count: usize,
    /// Batches that are at the executing thread.
    away: usize,
    #[allow(
        clippy::vec_box,
        reason = "batches travel as boxes: unpacking one to keep it would copy it twice"
    )]
    spare: Vec<Box<Batch>>,
    spare_carry: Vec<Vec<u8>>,
    /// Messages that the lane had no room for, oldest first. Bounded by what there is to say: for each connection a batch, a
    /// `Partial`, and its end; a `Traffic` for each 16 KiB of output that it has, and ten a second.
    overflow: VecDeque<ToMain>,
    /// Connections with bytes that were sent and not told, each once.
    untold: Vec<SessionKey>,
    /// When they are told at the latest.
    tell_at_ns: u64,
    /// It ends when the last connection has gone.
    stopping: bool,
    /// It has said that it ends.
    said_so: bool,
    empty_dozes: u32,
    busy: bool,
    /// Something was told since the executing thread was shown what there is.
    told: bool,
    /// When this turn began, monotonic nanoseconds.
    began_ns: u64,
    /// Mean number of requests in a batch lately, in sixteenths.
    depth: u64,
    /// Values to be freed when the turn's work is done.
    garbage: Vec<Value>,
}

/// A connection that a worker owns.
struct Connection {
    source: Source,
    key: SessionKey,
    inbound: Inbound,
    /// Whether it has authenticated itself, as far as is known here: AUTH is known when its batch comes back.
    authentication: Admission,
    /// Bytes received since the last batch.
    received: usize,
    /// Output that waits for the send in flight.
    waiting: VecDeque<Outbox>,
    sending: bool,
    close_when_sent: bool,
    /// Bytes sent and not told yet.
    untold: usize,
    /// It is among those of which that is to be told.
    listed: bool,
    /// A `Partial` of it is in the overflow: it will tell what is kept then.
    partial_waits: bool,
    /// Seconds for which it had been silent at the last `Trim`.
    idle_s: i64,
    /// It goes back to the executing thread as soon as it is at rest: nothing more is parsed.
    leaving: bool,
    /// Its socket is on the way out of the loop.
    detached: bool,
}

impl Connection {
    fn is_at_rest(&self) -> bool {
        matches!(self.inbound.input, Input::Open | Input::Held) && !self.sending && self.waiting.is_empty()
    }
}

/// What became of a connection's output.
enum Output {
    /// It was sent, or is being sent.
    Kept,
    /// The connection is over, and why.
    Over(String),
}

/// Requests in a batch at most: enough for the deepest usual pipeline, few enough that replies start soon.
const BATCH_REQUESTS: usize = 128;
/// How long a doze lasts.
const DOZE: Duration = Duration::from_micros(40);
/// How long it lets input gather between two turns that had work, under pipelines: then the executing thread is woken for
/// more batches at a time, which costs it a fifth less for each (measured: 15, 30 and 60 us alike, so the shortest).
const GATHER: Duration = Duration::from_micros(15);
/// What `depth` is counted in.
const DEPTH_UNIT: u64 = 16;
/// Dozes that find nothing before the worker sleeps until it is woken.
const EMPTY_DOZES_MAX: u32 = 16;
/// Sent bytes are told with the next batch, or by themselves from this many on.
const UNTOLD_BYTES_MAX: usize = 16 * 1024;
/// Or when so much time has passed.
const TELL_EVERY_NS: u64 = 100_000_000;
/// How long a doze lasts while the executing thread has not emptied a full lane for some time.
const FULL_LANE_DOZE: Duration = Duration::from_millis(1);
const SPARES_MAX: usize = 64;
const SPARE_CARRY_BYTES: usize = 64 * 1024;

impl Worker {
    /// A worker on the thread that calls this.
    pub fn new(seat: Seat, event_loop: AnyLoop) -> Worker {
        // Dozes are shorter than the default slack of timers. Where it cannot be set, they are longer.
        let _ = prctl::set_timerslack(1);
        Worker {
            seat,
            event_loop,
            clock: Clock::system(),
            connections: Vec::new(),
            count: 0,
            away: 0,
            spare: Vec::new(),
            spare_carry: Vec::new(),
            overflow: VecDeque::new(),
            untold: Vec::new(),
            tell_at_ns: 0,
            stopping: false,
            said_so: false,
            empty_dozes: 0,
            busy: false,
            told: false,
            began_ns: 0,
            depth: 0,
            garbage: Vec::new(),
        }
    }

    /// Works until told to stop.
    pub fn run(mut self) {
        let mut now_ns = self.clock.now().mono_ns;
        loop {
            let until = self.rest();
            match self.event_loop.wait(now_ns, until) {
                Ok(turn) if turn.ready > 0 => add(&self.seat.published.polls, 1),
                Ok(_) => {}
                // A broken loop can serve nobody: every connection is given up.
                Err(_) => return self.give_up(),
            }
            let began = self.clock.now().mono_ns;
            self.began_ns = began;
            self.busy = false;
            self.take_messages();
            while let Some(event) = self.event_loop.next_event(began) {
                self.busy = true;
                self.handle(event);
            }
            if !self.untold.is_empty() {
                self.tell_sent(began);
            }
            self.show();
            // Replies went out and the executing thread has its batches: now nobody waits for this.
            self.garbage.clear();
            now_ns = if self.busy { self.clock.now().mono_ns } else { began };
            if self.busy {
                self.empty_dozes = 0;
                add(&self.seat.published.active_ns, now_ns.saturating_sub(began));
            } else {
                self.empty_dozes = self.empty_dozes.saturating_add(1);
            }
            if self.stopping && self.count == 0 && self.ended() {
                return;
            }
        }
    }

    /// Dozes, or says how long the loop may sleep.
    fn rest(&mut self) -> Deadline {
        if self.busy {
            if self.depth >= self.seat.settings.gather_depth * DEPTH_UNIT {
                std::thread::sleep(GATHER);
            }
            return Deadline::PAST;
        }
        if (self.away > 0 || !self.overflow.is_empty()) && self.empty_dozes < EMPTY_DOZES_MAX {
            std::thread::sleep(DOZE);
            return Deadline::PAST;
        }
        if !self.overflow.is_empty() {
            // Nobody says when the lane has room again.
            std::thread::sleep(FULL_LANE_DOZE);
            return Deadline::PAST;
        }
        add(&self.seat.published.parks, 1);
        if self.untold.is_empty() { Deadline::NEVER } else { Deadline::at_ns(self.tell_at_ns) }
    }

    /// Says that this worker ends; whether that has gone out.
    fn ended(&mut self) -> bool {
        if !std::mem::replace(&mut self.said_so, true) {
            self.tell(ToMain::Stopped(self.seat.seat));
            self.show();
        }
        self.overflow.is_empty()
    }

    fn take_messages(&mut self) {
        while let Some(message) = self.seat.inbox.pop() {
            self.busy = true;
            match message {
                ToWorker::Adopt(adopted) => self.adopt(*adopted),
                ToWorker::Reply(batch) => self.replied(batch),
                ToWorker::Push(push) => self.push(*push),
                ToWorker::Resume(key) => self.resume(key),
                ToWorker::Close(key) => {
                    if let Some(mut connection) = self.take(key) {
                        self.close(&mut connection);
                    }
                }
                ToWorker::Trim(key, idle_s) => self.trim(key, i64::from(idle_s)),
                ToWorker::Settings(settings) => self.seat.settings = settings,
                ToWorker::Release(key) => self.release(key),
                ToWorker::Stop => self.stopping = true,
                ToWorker::Finish => self.finish(),
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Received { token, received } => self.received(key_of(token), received),
            Event::Sent { token, sent } => {
                if let Some(mut connection) = self.take(key_of(token)) {
                    connection.sending = false;
                    match self.sent(&mut connection, sent) {
                        None => self.send_and_keep(connection),
                        Some(why) => self.drop_connection(*connection, &why),
                    }
                }
            }
            Event::Filled { token, buf, error } => {
                let Some(mut connection) = self.take(key_of(token)) else { return };
                let come = connection.inbound.filled(buf);
                connection.received += come;
                if error.is_some() {
                    return self.drop_connection(*connection, CLIENT_CLOSED);
                }
                let is_idle = connection.idle_s > CARRY_IDLE_S;
                if come == 0 && is_idle && !connection.leaving && connection.inbound.input == Input::Large {
                    // It was ended early, by `trim`. What still comes goes the usual way.
                    connection.inbound.shrink();
                    self.event_loop.recv_start(connection.source);
                    return self.keep_and_tell(connection);
                }
                self.go_on(connection);
            }
            Event::Detached { token, fd } => self.detached(key_of(token), fd),
            Event::Accepted { .. }
            | Event::AcceptFailed { .. }
            | Event::Ready { .. }
            | Event::FileDone { .. }
            | Event::ProcessEnded { .. }
            | Event::Timer { .. } => {}
        }
    }

    fn received(&mut self, key: SessionKey, received: Received) {
        let Some(mut connection) = self.take(key) else { return };
        match received {
            Received::Data(chunk) => {
                connection.received += chunk.len();
                if connection.inbound.carry.capacity() == 0
                    && let Some(spare) = self.spare_carry.pop()
                {
                    connection.inbound.carry = spare;
                }
                connection.inbound.keep(&chunk);
                self.event_loop.give_back(chunk);
                self.go_on(connection);
            }
            Received::Eof => self.drop_connection(*connection, CLIENT_CLOSED),
            Received::Failed(error) => self.drop_connection(*connection, &read_failed(&error)),
        }
    }

    /// Parses what has come, receives on or not, and keeps the connection.
    fn go_on(&mut self, mut connection: Box<Connection>) {
        self.parse(&mut connection);
        self.receive_on(&mut connection);
        self.keep_and_tell(connection);
    }

    /// Keeps a connection, and tells what it holds if that is news.
    fn keep_and_tell(&mut self, mut connection: Box<Connection>) {
        let inbound = &mut connection.inbound;
        // A batch that is away told it already.
        if inbound.input != Input::Away && !connection.partial_waits && inbound.tell(inbound.kept()) {
            connection.partial_waits = self.tell(ToMain::Partial(connection.key, inbound.told()));
        }
        self.put(connection);
    }

    /// Gives back room for input that a client does not need; in the executing thread's loop `trim_input` does it.
    fn trim(&mut self, key: SessionKey, idle_s: i64) {
        let Some(mut connection) = self.take(key) else { return };
        connection.idle_s = idle_s;
        match connection.inbound.input {
            // The loop has the buffer. It gives it back, and `Filled` sees whether anything has come.
            Input::Filling if idle_s > 0 => self.event_loop.recv_into_end(connection.source),
            Input::Open | Input::Large | Input::Held if idle_s > CARRY_IDLE_S => connection.inbound.shrink(),
            _ => {}
        }
        self.keep_and_tell(connection);
    }

    /// Parses what has come, and hands it over when there is something to execute.
    fn parse(&mut self, connection: &mut Connection) {
        if connection.leaving && connection.inbound.input == Input::Large {
            connection.inbound.join();
        }
        if !connection.inbound.is_ready()
            || connection.inbound.input != Input::Open
            || connection.leaving
            || connection.inbound.carry.is_empty()
        {
            return;
        }
        let settings = self.seat.settings.clone();
        let numbers = &settings.limits;
        let admission = numbers.admission(connection.authentication);
        let limits = Limits::new(admission, numbers.proto_max_bulk_len as u64, BATCH_REQUESTS);
        let mut batch = match self.spare.pop() {
            Some(mut spare) => {
                spare.renew(connection.key);
                spare
            }
            None => Batch::new(connection.key),
        };
        let progress =
            connection.inbound.parser.parse(&connection.inbound.carry, &limits, &mut batch.requests);
        batch.failed = match progress.state {
            State::Failed(error) => Some(error),
            State::Full | State::Starved => None,
        };
        let supplied = connection.inbound.parser.apart().bytes();
        let unfinished = connection.inbound.carry.len() - progress.consumed + supplied;
        batch.too_much = unfinished > numbers.client_query_buffer;
        if batch.requests.is_empty() && batch.failed.is_none() && !batch.too_much {
            connection.inbound.carry.drain(..progress.consumed);
            connection.inbound.part_carry();
            self.spare.push(batch);
            return;
        }
        // The batch takes the buffer; what is behind its requests begins the next one.
        let behind = &connection.inbound.carry[progress.consumed..];
        let mut rest = Vec::new();
        if !behind.is_empty() {
            rest = self.spare_carry.pop().unwrap_or_default();
            rest.extend_from_slice(behind);
        }
        std::mem::swap(&mut batch.input, &mut connection.inbound.carry);
        // What went into `rest` must not be here too: a batch that has to wait is put before it again.
        batch.input.truncate(progress.consumed);
        let spent = std::mem::replace(&mut connection.inbound.carry, rest);
        self.keep_spare(spent);
        for index in 0..batch.requests.len() {
            let Batch { requests, input, prepared, .. } = &mut *batch;
            settings.preparer.prepare(&requests.at(index, input), prepared);
        }
        self.depth = (self.depth * 31 + batch.requests.len() as u64 * DEPTH_UNIT) / 32;
        batch.worker = self.seat.seat;
        batch.at_ns = self.began_ns;
        batch.received = std::mem::take(&mut connection.received);
        batch.sent = std::mem::take(&mut connection.untold);
        batch.kept = Kept { used: connection.inbound.carry.len(), room: connection.inbound.carry.capacity() };
        connection.inbound.tell(batch.kept);
        connection.inbound.input = Input::Away;
        self.away += 1;
        self.tell(ToMain::Batch(batch));
    }

    /// Lets the loop receive, or not, as the connection's state has it.
    fn receive_on(&mut self, connection: &mut Connection) {
        let inbound = &mut connection.inbound;
        if connection.leaving && matches!(inbound.input, Input::Open | Input::Held) {
            return self.event_loop.recv_stop(connection.source);
        }
        if inbound.input == Input::Open && inbound.carry.is_empty() {
            let spent = std::mem::take(&mut inbound.carry);
            inbound.receive(&mut self.event_loop, connection.source);
            return self.keep_spare(spent);
        }
        inbound.receive(&mut self.event_loop, connection.source);
    }

    fn replied(&mut self, mut batch: Box<Batch>) {
        // One from before this worker sat here would not have been counted.
        self.away = self.away.saturating_sub(1);
        let ended = batch.ended;
        let reply = std::mem::take(&mut batch.reply);
        self.garbage.append(&mut batch.garbage);
        let Some(mut connection) = self.take(batch.key) else { return self.spend(batch) };
        connection.authentication = batch.authentication;
        connection.inbound.input = match ended {
            // It was ended while the batch was away.
            _ if connection.inbound.input == Input::Shut => Input::Shut,
            Ended::No => Input::Open,
            Ended::Held | Ended::Resumed => {
                // The request that waits, and all behind it, is parsed again when its time comes.
                let mut carry = batch.input.split_off(batch.done.min(batch.input.len()));
                carry.append(&mut connection.inbound.carry);
                connection.inbound.carry = carry;
                connection.inbound.parser = Parser::new();
                if ended == Ended::Held { Input::Held } else { Input::Open }
            }
            Ended::AfterReply => {
                connection.close_when_sent = true;
                Input::Shut
            }
        };
        self.spend(batch);
        connection.waiting.push_back(reply);
        match self.send_waiting(&mut connection) {
            Output::Kept => self.go_on(connection),
            Output::Over(why) => self.drop_connection(*connection, &why),
        }
    }

    fn push(&mut self, push: Push) {
        let Some(mut connection) = self.take(push.key) else { return };
        connection.waiting.push_back(push.outbox);
        connection.close_when_sent |= push.then_close;
        if push.then_close {
            connection.inbound.input = Input::Shut;
            self.receive_on(&mut connection);
        }
        self.send_and_keep(connection);
    }

    fn send_and_keep(&mut self, mut connection: Box<Connection>) {
        match self.send_waiting(&mut connection) {
            Output::Kept => self.put(connection),
            Output::Over(why) => self.drop_connection(*connection, &why),
        }
    }

    fn resume(&mut self, key: SessionKey) {
        let Some(mut connection) = self.take(key) else { return };
        if connection.inbound.input == Input::Held {
            connection.inbound.input = Input::Open;
        }
        self.go_on(connection);
    }

    /// Sends what waits, one buffer after the other.
    fn send_waiting(&mut self, connection: &mut Connection) -> Output {
        while !connection.sending {
            let Some(outbox) = connection.waiting.pop_front() else {
                return match connection.close_when_sent {
                    true => Output::Over("Closed after its last reply".to_owned()),
                    false => Output::Kept,
                };
            };
            if outbox.is_empty() {
                self.recycle(outbox);
                continue;
            }
            match self.event_loop.send(connection.source, into_send(outbox)) {
                Sending::InFlight => connection.sending = true,
                Sending::Done(sent) => {
                    if let Some(why) = self.sent(connection, sent) {
                        return Output::Over(why);
                    }
                }
            }
        }
        Output::Kept
    }

    /// Counts a finished send; why it failed, if it did.
    fn sent(&mut self, connection: &mut Connection, sent: Sent) -> Option<String> {
        connection.untold += sent.bytes;
        if connection.untold >= UNTOLD_BYTES_MAX {
            self.tell_traffic(connection);
        } else if connection.untold > 0 && !connection.listed {
            connection.listed = true;
            if self.untold.is_empty() {
                self.tell_at_ns = self.clock.now().mono_ns + TELL_EVERY_NS;
            }
            self.untold.push(connection.key);
        }
        self.recycle(Outbox::from_buffer(sent.buf.head));
        sent.error.as_ref().map(write_failed)
    }

    /// Tells what was sent on connections that have had no batch since, now and then.
    fn tell_sent(&mut self, now_ns: u64) {
        if now_ns < self.tell_at_ns {
            return;
        }
        for key in std::mem::take(&mut self.untold) {
            let Some(mut connection) = self.take(key) else { continue };
            connection.listed = false;
            self.tell_traffic(&mut connection);
            self.put(connection);
        }
    }

    /// Tells what went over a connection since it was last told.
    fn tell_traffic(&mut self, connection: &mut Connection) {
        let part = |bytes: &mut usize| {
            let told = u32::try_from(*bytes).unwrap_or(u32::MAX);
            *bytes -= told as usize;
            told
        };
        let traffic =
            Traffic { sent: part(&mut connection.untold), received: part(&mut connection.received) };
        if traffic != Traffic::default() {
            self.tell(ToMain::Traffic(connection.key, traffic));
        }
    }

    /// Keeps a spent reply buffer in a spent batch, which takes it back to the executing thread.
    fn recycle(&mut self, outbox: Outbox) {
        if outbox.capacity_bytes() > SPARE_CARRY_BYTES {
            return;
        }
        if let Some(batch) = self.spare.iter_mut().rev().find(|batch| batch.reply.capacity_bytes() == 0) {
            batch.reply = outbox;
        }
    }

    fn spend(&mut self, batch: Box<Batch>) {
        if self.spare.len() < SPARES_MAX {
            self.spare.push(batch);
        }
    }

    fn keep_spare(&mut self, mut carry: Vec<u8>) {
        if self.spare_carry.len() < SPARES_MAX
            && carry.capacity() <= SPARE_CARRY_BYTES
            && carry.capacity() > 0
        {
            carry.clear();
            self.spare_carry.push(carry);
        }
    }

    fn adopt(&mut self, adopted: Adopted) {
        let Adopted { key, socket, carry, authentication, held, received } = adopted;
        let source = self.event_loop.attach(socket, token_of(key));
        let input = if held { Input::Held } else { Input::Open };
        let connection = Box::new(Connection {
            source,
            key,
            inbound: Inbound::new(carry, input),
            authentication,
            received,
            waiting: VecDeque::new(),
            sending: false,
            close_when_sent: false,
            untold: 0,
            listed: false,
            partial_waits: false,
            idle_s: 0,
            leaving: false,
            detached: false,
        });
        self.count += 1;
        self.go_on(connection);
    }

    /// The executing thread wants a connection back.
    fn release(&mut self, key: SessionKey) {
        let Some(mut connection) = self.take(key) else { return };
        connection.leaving = true;
        if connection.inbound.input == Input::Filling {
            // `Filled` follows, with what has come.
            self.event_loop.recv_into_end(connection.source);
        }
        self.receive_on(&mut connection);
        self.put(connection);
    }

    fn detached(&mut self, key: SessionKey, socket: sluice_evloop::Fd) {
        let Some(mut connection) = self.take(key) else { return };
        self.count -= 1;
        self.tell_traffic(&mut connection);
        let Connection { inbound, authentication, received, .. } = *connection;
        let (carry, held) = (inbound.carry, inbound.input == Input::Held);
        self.tell(ToMain::Released(Box::new(Adopted { key, socket, carry, authentication, held, received })));
    }

    /// Closes what has nothing to send; the rest follows when it has sent it.
    fn finish(&mut self) {
        self.stopping = true;
        for slot in 0..self.connections.len() {
            let Some(mut connection) = self.connections[slot].take() else { continue };
            if connection.sending || !connection.waiting.is_empty() {
                connection.close_when_sent = true;
                connection.leaving = false;
                connection.inbound.input = Input::Shut;
                self.receive_on(&mut connection);
                self.put(connection);
            } else {
                self.close(&mut connection);
            }
        }
    }

    fn drop_connection(&mut self, mut connection: Connection, why: &str) {
        self.close(&mut connection);
        self.tell(ToMain::Gone(connection.key, why.into()));
    }

    fn close(&mut self, connection: &mut Connection) {
        self.tell_traffic(connection);
        self.event_loop.close(connection.source);
        self.count -= 1;
    }

    /// The event loop is broken. The executing thread ends what this worker has not heard of yet.
    fn give_up(mut self) {
        for slot in 0..self.connections.len() {
            if let Some(connection) = self.connections[slot].take() {
                self.drop_connection(*connection, "the worker's event loop failed");
            }
        }
        while !self.ended() {
            std::thread::sleep(FULL_LANE_DOZE);
            self.show();
        }
    }

    fn take(&mut self, key: SessionKey) -> Option<Box<Connection>> {
        let place = self.connections.get_mut(key.slot as usize)?;
        if place.as_ref()?.key == key { place.take() } else { None }
    }

    /// Keeps a connection; one that leaves goes, if it is at rest.
    fn put(&mut self, mut connection: Box<Connection>) {
        if connection.leaving && !connection.detached && connection.is_at_rest() {
            connection.detached = true;
            // The socket follows by `Event::Detached`.
            self.event_loop.detach(connection.source);
        }
        let slot = connection.key.slot as usize;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(connection);
    }

    /// Sends a message, at the end of the turn at the latest; whether it has to wait for room in the lane.
    fn tell(&mut self, message: ToMain) -> bool {
        self.told = true;
        if self.overflow.is_empty() {
            let Err(full) = self.seat.lane.send(message) else { return false };
            add(&self.seat.published.full, 1);
            self.overflow.push_back(full.0);
        } else {
            self.overflow.push_back(message);
        }
        true
    }

    /// Brings a message that has waited up to date: what has come since told nothing, because this stands for it.
    fn freshen(&mut self, message: ToMain) -> ToMain {
        let ToMain::Partial(key, _) = message else { return message };
        let Some(connection) = self.connection(key) else { return message };
        let kept = connection.inbound.kept();
        connection.inbound.tell(kept);
        ToMain::Partial(key, kept)
    }

    /// Notes that a message has left the overflow.
    fn left_overflow(&mut self, partial: Option<SessionKey>) {
        if let Some(connection) = partial.and_then(|key| self.connection(key)) {
            connection.partial_waits = false;
        }
    }

    fn connection(&mut self, key: SessionKey) -> Option<&mut Connection> {
        self.connections.get_mut(key.slot as usize)?.as_deref_mut().filter(|connection| connection.key == key)
    }

    /// Shows the executing thread what was gathered, and wakes it if it sleeps.
    fn show(&mut self) {
        while let Some(message) = self.overflow.pop_front() {
            let message = self.freshen(message);
            let partial = match &message {
                ToMain::Partial(key, _) => Some(*key),
                _ => None,
            };
            if let Err(full) = self.seat.lane.send(message) {
                self.overflow.push_front(full.0);
                break;
            }
            self.left_overflow(partial);
            self.told = true;
        }
        let told = std::mem::take(&mut self.told);
        match self.seat.lane.publish() {
            Rung::First => drop(self.seat.main.wake()),
            // Another worker found the doorbell silent and wakes. It may have been descheduled before it could: on few
            // processors for a slice of the scheduler.
            Rung::Already if told => drop(self.seat.main.wake_if_parked()),
            Rung::Already => {}
        }
    }
}

#[cfg(test)]
mod tests;
