//! An I/O thread: an event loop, the connections that it owns, and the two rings to the main thread.
//!
//! In an iteration, an I/O thread takes the main thread's messages, receives, parses and prepares requests,
//! flushes all gathered messages at once, and wakes the main thread if the main thread sleeps. While batches
//! are at the main thread, the I/O thread waits for some microseconds at a time instead of sleeping until it
//! is woken, because the replies arrive soon, and a wake-up costs the main thread more than all its other
//! work for a request. If processors are free (`spin.rs`), the thread first polls for some microseconds.

mod multicast;

use super::IoThreadId;
use super::message::{
    AfterPush, Batch, BatchOutcome, BrokenRequest, Moving, Push, Settings, ToIoThread, ToMain,
};
use crate::connection::input::InputState;
use crate::connection::spare::SpareBuffers;
use crate::connection::{self, Connection, ConnectionHost, Flushed, Residence, Traffic};
use crate::net::{Endpoint, Stream};
use crate::pipeline_depth::Depth;
use crate::test_switches;
use multicast::Copies;
use nix::sys::prctl;
use sluice_base::SessionKey;
use sluice_base::heap;
use sluice_clock::Clock;
use sluice_engine::SHOWN_INPUT_BYTES;
use sluice_evloop::{AnyLoop, Deadline, SendBuf, Waker};
use sluice_queue::lanes::Lane;
use sluice_queue::{Notified, spsc};
use sluice_resp::{AuthState, Outbox, ParseLimits, Parser, State};
use sluice_storage::plain_error;
use sluice_value::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters of an I/O thread, which only this thread writes, and which the main thread reads for INFO and
/// the policy. All accesses are relaxed, because they order no other accesses.
#[derive(Debug, Default)]
pub struct Published {
    /// Nanoseconds in iterations that had work.
    pub active_ns: AtomicU64,
    /// Nanoseconds in which the thread polled for work and found none.
    pub spun_ns: AtomicU64,
    /// How often the thread slept in its event loop.
    pub parks: AtomicU64,
    /// Number of waits of the thread's event loop that found an event.
    pub polls: AtomicU64,
    /// How often a message found the ring to the main thread full. Messages that are then queued after this
    /// message are not counted.
    pub full: AtomicU64,
    /// Heap bytes of the thread; 0 unless the memory of each part of the server is measured.
    pub footprint: AtomicU64,
}

/// Adds to a counter that only this thread writes, so no atomic read-modify-write is needed.
fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// The channels and settings with which an I/O thread starts.
pub struct Channels {
    /// The main thread's name for the I/O thread.
    pub id: IoThreadId,
    /// The ring of messages from the main thread.
    pub inbox: spsc::Consumer<ToIoThread>,
    /// The lane of messages to the main thread.
    pub lane: Lane<ToMain>,
    /// Wakes the main thread.
    pub main: Waker,
    /// The counters that this thread publishes.
    pub published: Arc<Published>,
    /// The settings in force.
    pub settings: Arc<Settings>,
}

/// The state of an I/O thread.
pub struct IoThread {
    channels: Channels,
    event_loop: AnyLoop,
    clock: Clock,
    connections: Vec<Option<Box<Connection>>>,
    count: usize,
    /// Number of batches that the main thread has.
    batches_at_main: usize,
    #[allow(
        clippy::vec_box,
        reason = "batches travel as boxes: unpacking one to keep it would copy it twice"
    )]
    spare_batches: Vec<Box<Batch>>,
    spare: SpareBuffers,
    /// Messages for which the ring had no room, oldest first. Their number is bounded: for each
    /// connection one batch, one `Usage`, and one `Ended` or `Released`; also one `Traffic` for each 16
    /// KiB of the connection's output, and ten more `Traffic` a second.
    overflow: VecDeque<ToMain>,
    /// Connections with unreported traffic. Each is in the list once.
    unreported: Vec<SessionKey>,
    /// When the traffic of the connections in `unreported` is reported at the latest, monotonic ns.
    report_at_ns: u64,
    /// Whether the thread ends when its last connection has ended or left.
    stopping: bool,
    /// Whether [`ToMain::Stopped`] was sent.
    said_so: bool,
    /// The reason why the event loop has failed, if it has.
    failure: Option<Box<str>>,
    empty_waits: u32,
    /// Whether the present iteration, or the last one, had work.
    had_work: bool,
    /// Monotonic ns at the end of the last iteration that had work.
    worked_ns: u64,
    /// Whether this iteration polls, without a wait.
    spins: bool,
    /// Whether a message was sent since the last flush of the ring.
    unflushed: bool,
    /// When this iteration began, monotonic ns.
    began_ns: u64,
    /// The average number of requests in a batch.
    depth: Depth,
    /// Values that are freed at the end of the iteration.
    garbage: Vec<Value>,
    /// Whether the thread publishes its memory.
    sums_memory: bool,
    /// Buffers reused for messages to many connections.
    copies: Copies,
}

/// Maximum number of requests in a batch. It is high enough for the deepest usual pipeline, and low
/// enough that replies start soon.
const BATCH_REQUESTS: usize = 128;
/// Length of a bounded wait for batches at the main thread.
const WAIT: Duration = Duration::from_micros(40);
/// Length of the wait between two iterations that had work, so that more input gathers if clients use
/// pipelines. The main thread is then woken for more batches at a time, which saves a fifth of its time
/// for each batch. Measurements showed waits of 15, 30 and 60 us to be equally good, so the shortest is
/// used.
const GATHER: Duration = Duration::from_micros(15);
/// Number of bounded waits without an event before the I/O thread sleeps until it is woken.
const EMPTY_WAITS_MAX: u32 = 16;
/// The number of sent bytes is reported with the next batch, or, when it is at least this, in a message of
/// its own.
const UNREPORTED_BYTES_MAX: usize = 16 * 1024;
/// Unreported traffic is reported after this time at the latest.
const REPORT_EVERY_NS: u64 = 100_000_000;
/// Length of a wait while the ring to the main thread stays full.
const FULL_RING_WAIT: Duration = Duration::from_millis(1);
/// Weight of the running mean of the number of requests in a batch, compared with the newest value.
const DEPTH_WEIGHT: u64 = 31;
const SPARE_BATCHES_MAX: usize = 64;
const SPARE_REPLY_BYTES: usize = 64 * 1024;

impl IoThread {
    /// The state of an I/O thread. Called on the thread itself.
    pub fn new(channels: Channels, event_loop: AnyLoop) -> IoThread {
        // The slack of timers is reduced, because its default is longer than a bounded wait. If that fails,
        // the waits are only longer.
        let _ = prctl::set_timerslack(1);
        IoThread {
            channels,
            event_loop,
            clock: Clock::system(),
            connections: Vec::new(),
            count: 0,
            batches_at_main: 0,
            spare_batches: Vec::new(),
            spare: SpareBuffers::default(),
            overflow: VecDeque::new(),
            unreported: Vec::new(),
            report_at_ns: 0,
            stopping: false,
            said_so: false,
            failure: None,
            empty_waits: 0,
            had_work: false,
            worked_ns: 0,
            spins: false,
            unflushed: false,
            began_ns: 0,
            depth: Depth::default(),
            garbage: Vec::new(),
            sums_memory: test_switches::number(test_switches::PARTS).is_some(),
            copies: Copies::default(),
        }
    }

    /// Publishes how much memory this thread has, if the memory of each part of the server is measured.
    fn publish_footprint(&self) {
        if self.sums_memory {
            // Relaxed, because the number orders nothing.
            self.channels.published.footprint.store(self.footprint() as u64, Relaxed);
        }
    }

    /// Heap bytes of this thread's state.
    fn footprint(&self) -> usize {
        let connections: usize =
            self.connections.iter().flatten().map(|connection| connection.footprint()).sum();
        let batches: usize = self.spare_batches.iter().map(|batch| batch.footprint()).sum();
        let lists =
            heap::vec(&self.connections) + heap::vec(&self.spare_batches) + heap::vec(&self.unreported);
        lists
            + connections
            + batches
            + heap::deque(&self.overflow)
            + heap::vec(&self.garbage)
            + self.event_loop.footprint()
            + self.spare.footprint()
            + self.copies.footprint()
    }

    /// Runs iterations until the thread has been ordered to end and has no connection, or until the event
    /// loop fails.
    pub fn run(mut self) {
        let mut now_ns = self.clock.now().mono_ns;
        self.publish_footprint();
        loop {
            let until = self.wait_deadline(now_ns);
            let waits_from_ns = now_ns;
            match self.event_loop.wait(now_ns, until) {
                Ok(waited) if waited.ready > 0 => add(&self.channels.published.polls, 1),
                Ok(_) => {}
                // The event loop is broken and can serve no connection, so all connections are given up.
                Err(error) => return self.give_up(&error),
            }
            let began = self.clock.now().mono_ns;
            self.began_ns = began;
            self.had_work = false;
            self.take_messages();
            while let Some(event) = self.event_loop.next_event(began) {
                self.had_work = true;
                connection::handle(&mut self, Endpoint::client(event.token()), event);
            }
            if !self.unreported.is_empty() {
                self.report_all_traffic(began);
            }
            self.flush();
            // The values are freed after the replies and batches were sent, so that no client waits while
            // they are freed.
            self.garbage.clear();
            self.publish_footprint();
            now_ns = if self.had_work { self.clock.now().mono_ns } else { began };
            if self.had_work {
                self.empty_waits = 0;
                self.worked_ns = now_ns;
                add(&self.channels.published.active_ns, now_ns.saturating_sub(began));
            } else if self.spins {
                add(&self.channels.published.spun_ns, now_ns.saturating_sub(waits_from_ns));
            } else {
                self.empty_waits = self.empty_waits.saturating_add(1);
            }
            if self.stopping && self.count == 0 && self.ended() {
                return;
            }
        }
    }

    /// The deadline of the next wait in the event loop; does a bounded wait first if one is due.
    fn wait_deadline(&mut self, now_ns: u64) -> Deadline {
        self.spins = false;
        if self.had_work {
            if self.depth.is_at_least(self.channels.settings.gather_depth) {
                std::thread::sleep(GATHER);
            }
            return Deadline::PAST;
        }
        if now_ns < self.worked_ns.saturating_add(self.channels.settings.spin_ns) {
            self.spins = true;
            return Deadline::PAST;
        }
        if (self.batches_at_main > 0 || !self.overflow.is_empty()) && self.empty_waits < EMPTY_WAITS_MAX {
            std::thread::sleep(WAIT);
            return Deadline::PAST;
        }
        if !self.overflow.is_empty() {
            // The wait is bounded, because the main thread does not report when the ring has room again.
            std::thread::sleep(FULL_RING_WAIT);
            return Deadline::PAST;
        }
        add(&self.channels.published.parks, 1);
        if self.unreported.is_empty() { Deadline::NEVER } else { Deadline::at_ns(self.report_at_ns) }
    }

    /// Sends the thread's last message. Returns whether the ring has taken the message.
    fn ended(&mut self) -> bool {
        if !std::mem::replace(&mut self.said_so, true) {
            let failure = self.failure.take();
            self.send(ToMain::Stopped(self.channels.id, failure));
            self.flush();
        }
        self.overflow.is_empty()
    }

    fn take_messages(&mut self) {
        while let Some(message) = self.channels.inbox.pop() {
            self.had_work = true;
            match message {
                ToIoThread::Adopt(moving) => self.adopt(*moving),
                ToIoThread::Reply(batch) => self.replied(batch),
                ToIoThread::Push(push) => self.push(*push),
                ToIoThread::Multicast(multicasts) => self.multicast(*multicasts),
                ToIoThread::Resume(key, authentication) => self.resume(key, authentication),
                ToIoThread::Close(key) => {
                    if let Some(connection) = self.take(key) {
                        self.close(*connection);
                    }
                }
                ToIoThread::Trim(key, idle_s) => connection::trim(self, key, i64::from(idle_s)),
                ToIoThread::FillPackets(key) => connection::fill_packets(self, key),
                ToIoThread::Settings(settings) => self.channels.settings = settings,
                ToIoThread::Release(key) => self.release(key),
                ToIoThread::Stop => self.stopping = true,
                ToIoThread::Finish => self.finish(),
            }
        }
    }

    /// Parses received bytes, and sends complete requests to the main thread.
    fn parse(&mut self, connection: &mut Connection) {
        if !connection.input.is_open() || connection.input.query_buf.is_empty() {
            return;
        }
        let settings = self.channels.settings.clone();
        let numbers = &settings.limits;
        let admission = numbers.admission(connection.authentication);
        let limits = ParseLimits::new(admission, numbers.proto_max_bulk_len as u64, BATCH_REQUESTS);
        let mut batch = match self.spare_batches.pop() {
            Some(mut spare) => {
                spare.renew(connection.key);
                spare
            }
            None => Batch::new(connection.key),
        };
        let input = &mut connection.input;
        let progress = input.parser.parse(&input.query_buf, &limits, &mut batch.requests);
        batch.failed = match progress.state {
            State::Failed(error) => {
                let broken = &input.query_buf[progress.consumed..];
                let input = broken[..broken.len().min(SHOWN_INPUT_BYTES + 1)].to_vec();
                Some(Box::new(BrokenRequest { error, input }))
            }
            State::Full | State::Starved => None,
        };
        if batch.requests.is_empty() && batch.failed.is_none() {
            input.query_buf.drain(..progress.consumed);
            input.move_out_large_argument();
            return self.spend(batch);
        }
        // The batch takes the buffer; the bytes after its requests begin the next buffer.
        let behind = &input.query_buf[progress.consumed..];
        let mut rest = Vec::new();
        if !behind.is_empty() {
            rest = self.spare.query_buf();
            rest.extend_from_slice(behind);
        }
        std::mem::swap(&mut batch.input, &mut input.query_buf);
        // The bytes copied to `rest` must not stay in the batch, because the bytes of a deferred batch are
        // put before `rest` again.
        batch.input.truncate(progress.consumed);
        let mut spent = std::mem::replace(&mut input.query_buf, rest);
        self.spare.keep_query_buf(&mut spent);
        let Batch { requests, input: bytes, prepared, .. } = &mut *batch;
        settings.preparer.prepare_all(requests.iter(bytes), prepared);
        self.depth.learn(batch.requests.len() as u64, 1, DEPTH_WEIGHT);
        batch.from = self.channels.id;
        batch.at_ns = self.began_ns;
        batch.traffic = std::mem::take(&mut connection.unreported);
        // The batch carries the usage, so no separate report of it is needed.
        batch.usage = input.usage();
        let _ = input.unreported();
        input.begin_executing();
        self.batches_at_main += 1;
        self.send(ToMain::Batch(batch));
    }

    fn replied(&mut self, mut batch: Box<Batch>) {
        let reply = std::mem::take(&mut batch.reply);
        self.garbage.append(&mut batch.garbage);
        // The batch may be one that an earlier thread with this id has sent. Such a batch was not counted
        // here, so the count is then one too low.
        self.batches_at_main = self.batches_at_main.saturating_sub(1);
        let Some(mut connection) = self.take(batch.key) else { return self.spend(batch) };
        let before = std::mem::replace(&mut connection.authentication, batch.authentication);
        connection.input.end_executing();
        if before == AuthState::Authenticated && batch.authentication == AuthState::Unauthenticated {
            // After a RESET the remaining bytes are parsed again, as those of an unauthenticated client.
            connection.input.parser = Parser::new();
        }
        match batch.outcome {
            BatchOutcome::GoOn => {}
            BatchOutcome::Deferred | BatchOutcome::Resumed => {
                // The bytes after the deferred request are parsed again when the request has ended, which may
                // have happened already (`Resumed`).
                let mut query_buf = batch.input.split_off(batch.done.min(batch.input.len()));
                query_buf.append(&mut connection.input.query_buf);
                connection.input.query_buf = query_buf;
                connection.input.parser = Parser::new();
                if batch.outcome == BatchOutcome::Deferred {
                    connection.input.defer();
                }
            }
            BatchOutcome::Close => connection.close_when_sent(),
        }
        self.spend(batch);
        match connection::send(self, &mut connection, reply) {
            Flushed::Open => connection::resume(self, connection),
            Flushed::Over(why) => self.end(connection, &why),
        }
    }

    fn push(&mut self, push: Push) {
        let Some(mut connection) = self.take(push.key) else { return };
        if push.then == AfterPush::Close {
            connection.close_when_sent();
            connection.receive(&mut self.event_loop);
        }
        match connection::send(self, &mut connection, push.outbox) {
            Flushed::Open => self.put(connection),
            Flushed::Over(why) => self.end(connection, &why),
        }
    }

    fn resume(&mut self, key: SessionKey, authentication: AuthState) {
        let Some(mut connection) = self.take(key) else { return };
        connection.authentication = authentication;
        connection.input.resume();
        connection::resume(self, connection);
    }

    /// Reports, at intervals, the traffic of connections that no batch has reported.
    fn report_all_traffic(&mut self, now_ns: u64) {
        if now_ns < self.report_at_ns {
            return;
        }
        for key in std::mem::take(&mut self.unreported) {
            let Some(mut connection) = self.take(key) else { continue };
            connection.is_listed = false;
            self.report_traffic(&mut connection);
            self.put(connection);
        }
    }

    /// Lists a connection for the next report of traffic.
    fn list(&mut self, connection: &mut Connection) {
        if !connection.is_listed {
            connection.is_listed = true;
            if self.unreported.is_empty() {
                self.report_at_ns = self.began_ns + REPORT_EVERY_NS;
            }
            self.unreported.push(connection.key);
        }
    }

    /// Reports the bytes sent and received on a connection since the last report.
    fn report_traffic(&mut self, connection: &mut Connection) {
        let traffic = std::mem::take(&mut connection.unreported);
        if traffic != Traffic::default() {
            self.send(ToMain::Traffic(connection.key, traffic));
        }
    }

    /// Keeps a spent batch for reuse, unless enough batches are kept. The spent reply buffer in the batch
    /// is returned to the main thread when the batch is sent again.
    fn spend(&mut self, mut batch: Box<Batch>) {
        if self.spare_batches.len() < SPARE_BATCHES_MAX {
            batch.trim();
            self.spare_batches.push(batch);
        }
    }

    fn adopt(&mut self, moving: Moving) {
        let Moving { mut connection, stream } = moving;
        connection.arrive(&mut self.event_loop, stream);
        connection.idle_s = 0;
        self.count += 1;
        connection::resume(self, connection);
    }

    /// Begins to return a connection to the main thread.
    fn release(&mut self, key: SessionKey) {
        let Some(mut connection) = self.take(key) else { return };
        connection.begin_leaving(&mut self.event_loop);
        self.put(connection);
    }

    /// Closes the connections that have nothing to send; the others close when they have sent their output.
    fn finish(&mut self) {
        self.stopping = true;
        for slot in 0..self.connections.len() {
            let Some(mut connection) = self.connections[slot].take() else { continue };
            if connection.output.is_idle() {
                self.close(*connection);
            } else {
                connection.close_when_sent();
                connection.receive(&mut self.event_loop);
                self.put(connection);
            }
        }
    }

    fn close(&mut self, mut connection: Connection) {
        self.report_traffic(&mut connection);
        connection.transport.close(&mut self.event_loop);
        self.count -= 1;
    }

    /// Ends all connections after a failure of the event loop. The main thread ends the connections that
    /// it has sent and that this thread has not received.
    fn give_up(mut self, error: &io::Error) {
        self.failure = Some(plain_error(error).into());
        for slot in 0..self.connections.len() {
            if let Some(connection) = self.connections[slot].take() {
                self.end(connection, "the I/O thread's event loop failed");
            }
        }
        while !self.ended() {
            std::thread::sleep(FULL_RING_WAIT);
            self.flush();
        }
    }

    /// Sends a message, which is flushed at the end of the iteration at the latest. Returns whether the
    /// message waits for room in the ring.
    fn send(&mut self, message: ToMain) -> bool {
        self.unflushed = true;
        if self.overflow.is_empty() {
            let Err(full) = self.channels.lane.send(message) else { return false };
            add(&self.channels.published.full, 1);
            self.overflow.push_back(full.0);
        } else {
            self.overflow.push_back(message);
        }
        true
    }

    /// Updates a waiting usage message to the present usage, because no further message is made while one
    /// waits.
    fn freshen(&mut self, message: ToMain) -> ToMain {
        let ToMain::Usage(key, _) = message else { return message };
        let Some(connection) = self.connection(key) else { return message };
        let _ = connection.input.unreported();
        ToMain::Usage(key, connection.input.usage())
    }

    fn connection(&mut self, key: SessionKey) -> Option<&mut Connection> {
        self.connections.get_mut(key.slot as usize)?.as_deref_mut().filter(|connection| connection.key == key)
    }

    /// Makes messages visible to the main thread, and wakes the main thread if it sleeps.
    fn flush(&mut self) {
        while let Some(message) = self.overflow.pop_front() {
            let message = self.freshen(message);
            let usage_of = match &message {
                ToMain::Usage(key, _) => Some(*key),
                _ => None,
            };
            if let Err(full) = self.channels.lane.send(message) {
                self.overflow.push_front(full.0);
                break;
            }
            if let Some(connection) = usage_of.and_then(|key| self.connection(key)) {
                connection.usage_waits = false;
            }
            self.unflushed = true;
        }
        let unflushed = std::mem::take(&mut self.unflushed);
        match self.channels.lane.publish() {
            Notified::First => drop(self.channels.main.wake()),
            // Another I/O thread has notified first and wakes the main thread. But that I/O thread may have
            // been descheduled before its wake-up, for a whole time slice if there are few processors. This
            // thread therefore wakes the main thread as well, if the main thread seems to sleep.
            Notified::Already if unflushed => drop(self.channels.main.wake_if_parked()),
            Notified::Already => {}
        }
    }
}

impl ConnectionHost for IoThread {
    fn event_loop(&mut self) -> &mut AnyLoop {
        &mut self.event_loop
    }

    fn spare(&mut self) -> &mut SpareBuffers {
        &mut self.spare
    }

    fn take(&mut self, key: SessionKey) -> Option<Box<Connection>> {
        self.connections.get_mut(key.slot as usize)?.take_if(|connection| connection.key == key)
    }

    fn put(&mut self, mut connection: Box<Connection>) {
        connection.detach_if_at_rest(&mut self.event_loop);
        let slot = connection.key.slot as usize;
        if self.connections.len() <= slot {
            self.connections.resize_with(slot + 1, || None);
        }
        self.connections[slot] = Some(connection);
    }

    fn process(&mut self, connection: &mut Connection, fresh: &[u8]) {
        let input = &mut connection.input;
        if input.query_buf.capacity() == 0 && !fresh.is_empty() {
            input.query_buf = self.spare.query_buf();
        }
        input.keep(fresh);
        self.parse(connection);
    }

    fn note_unfinished(&mut self, _: &Connection) {}

    fn count_received(&mut self, connection: &mut Connection, bytes: usize) {
        connection.unreported.received += bytes;
        self.list(connection);
    }

    fn count_sent(&mut self, connection: &mut Connection, bytes: usize) {
        connection.unreported.sent += bytes;
        if connection.unreported.sent >= UNREPORTED_BYTES_MAX {
            self.report_traffic(connection);
        } else {
            self.list(connection);
        }
    }

    fn output_is_idle(&mut self, _: SessionKey) {}

    fn recycle(&mut self, buf: SendBuf) {
        let Some(buffer) = self.copies.keep(buf.head) else { return };
        let outbox = Outbox::from_buffer(buffer);
        if outbox.capacity_bytes() <= SPARE_REPLY_BYTES
            && let Some(batch) =
                self.spare_batches.iter_mut().rev().find(|batch| batch.reply.capacity_bytes() == 0)
        {
            batch.reply = outbox;
        }
    }

    fn report_usage(&mut self, connection: &mut Connection) {
        // An empty buffer is kept for other connections; an unfinished request keeps its buffer.
        self.spare.keep_query_buf(&mut connection.input.query_buf);
        // While a batch is at the main thread, the usage is not reported, because the batch has reported
        // it.
        if connection.input.state() != InputState::Executing
            && !connection.usage_waits
            && let Some(usage) = connection.input.unreported()
        {
            connection.usage_waits = self.send(ToMain::Usage(connection.key, usage));
        }
    }

    fn idle_s(&mut self, connection: &Connection) -> i64 {
        i64::from(connection.idle_s)
    }

    fn end(&mut self, connection: Box<Connection>, why: &str) {
        let key = connection.key;
        self.close(*connection);
        self.send(ToMain::Ended(key, why.into()));
    }

    fn input_ended(&mut self, connection: Box<Connection>) {
        // The connection can end at once, because nothing is received while a batch is at the main
        // thread, so that no batch is pending when the end of the input is seen. Replies that are still
        // being sent are lost.
        self.end(connection, connection::CLIENT_CLOSED);
    }

    fn detached(&mut self, mut connection: Box<Connection>, stream: Stream) {
        debug_assert_eq!(connection.residence, Residence::Detached);
        self.count -= 1;
        self.report_traffic(&mut connection);
        connection.usage_waits = false;
        self.send(ToMain::Released(Box::new(Moving { connection, stream })));
    }
}

#[cfg(test)]
mod tests;
