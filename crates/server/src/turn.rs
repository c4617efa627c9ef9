//! The server's turn: wait, execute what came, do what is due, send, reap.
//!
//! Invariants: (1) input is executed as it is received, in the loop's buffer; what is left of a request is copied once, into
//! the connection's `carry`, or, of a large argument, into what will be its value; (2) replies leave in `write`, after everything of the turn was executed; (3) sockets are
//! closed in `reap` and nowhere else.

use crate::bio::Garbage;
use crate::host::Host;
use crate::inbound::{Input, Kept};
use crate::iothreads::{Batch, Policy, Pool, Settings, ToMain, ToWorker};
use crate::listen::{self, Kind, Listener};
use crate::longest::thread_ns;
use crate::signals::Signals;
use crate::supervisor;
use crate::switches;
use crate::wire::{CLIENT_CLOSED, Place, Wire, into_send, key_of, read_failed, token_of, write_failed};
use sluice_config::choice::shutdown;
use sluice_config::param;
use sluice_engine::{Action, Closing, Connection, Crash, Engine, Flow, LogLevel, Process, SessionKey};
use sluice_evloop::{AnyLoop, Deadline, Event, Gathering, Received, SendBuf, Sending, Sent, Source, Token};
use sluice_resp::{Limits, Outbox, Requests, State};
use std::os::fd::OwnedFd;
use std::sync::Arc;

mod durable;
mod remote;

/// Tokens of what is no client: above every session's, whose generation begins at 1 and stays far below.
const LISTENER_BASE: u64 = u64::MAX - 1024;
const SIGNAL_TOKEN: Token = Token(u64::MAX);

/// The phases of a turn in order. Input is executed as it is collected; replies are sent after that, so that a turn's
/// replies of one client leave together.
pub const PHASES: &[(&str, fn(&mut Server))] = &[
    ("collect and execute", Server::collect),
    ("cron", Server::cron),
    ("act", Server::act),
    ("write", Server::write),
    ("reap", Server::reap),
    ("show", Server::show),
];

/// The server: the engine, the event loop, and the connections between them.
pub struct Server {
    engine: Engine,
    host: Host,
    event_loop: AnyLoop,
    signals: Signals,
    wires: Vec<Option<Box<Wire>>>,
    /// By the token's distance from [`LISTENER_BASE`]; places of closed ones are used again.
    listeners: Vec<Option<(Source, Listener)>>,
    requests: Requests,
    ready: Vec<SessionKey>,
    to_close: Vec<SessionKey>,
    actions: Vec<Action>,
    spare_carry: Vec<Vec<u8>>,
    next_cron_ns: u64,
    next_sample_ns: u64,
    turn_began_ns: u64,
    turn_busy: bool,
    ending: Option<i32>,
    pool: Pool,
    policy: Policy,
    /// What the workers were told of the configuration, and the limits it was made from.
    settings: Arc<Settings>,
    told: Arc<sluice_engine::Limits>,
    messages: Vec<ToMain>,
    /// Those of them whose keys are prefetched together.
    group: Vec<ToMain>,
    /// Batches of workers, executed in this turn.
    #[allow(clippy::vec_box, reason = "they travel on as they came")]
    executed: Vec<Box<Batch>>,
    load: remote::Load,
    depth: Depth,
    /// Holds replies until they are durable; none without a log.
    gate: Option<Box<durable::Gate>>,
}

/// How many requests a receive brings, in sixteenths.
#[derive(Debug, Default)]
struct Depth {
    /// Mean over the last turns.
    mean: u64,
    /// From this mean on, waits gather.
    wanted: u64,
    /// Commands executed and receives made when it was last looked at.
    commands: u64,
    reads: u64,
}

const DEPTH_UNIT: u64 = 16;

/// Buffers kept for connections whose next request is cut by the end of a receive.
const SPARE_CARRIES: usize = 16;
/// Room for input that a connection is given first. It keeps the room until it is idle.
const CARRY_BYTES: usize = 16 * 1024;
/// Room beyond this is given back by a connection that has not used half of it lately.
const CARRY_KEPT_BYTES: usize = 32 * 1024;
/// A reply that shares so many values, a mebibyte of pages, lets go of them on another thread.
const SHARED_FREED_ELSEWHERE: usize = 16;
/// Time between two looks at the numbers of the process.
const SAMPLE_NS: u64 = 10_000_000;
/// Seconds without a byte after which a connection gives its room back.
pub const CARRY_IDLE_S: i64 = 2;

impl Server {
    /// Puts the parts together; listeners begin to accept.
    pub fn new(engine: Engine, host: Host, mut event_loop: AnyLoop, mut signals: Signals) -> Server {
        if let Some(fd) = signals.take_descriptor() {
            signals.source = Some(event_loop.attach(fd, SIGNAL_TOKEN));
        }
        let backend = crate::start::backend_of(engine.config());
        let ring = switches::number(switches::RING).unwrap_or(0) as usize;
        let pool = Pool::new(event_loop.waker(), backend, ring);
        let told = engine.limits().clone();
        let settings = remote::settings_of(&engine);
        let mut server = Server {
            engine,
            host,
            event_loop,
            signals,
            wires: Vec::new(),
            listeners: Vec::new(),
            requests: Requests::new(),
            ready: Vec::new(),
            to_close: Vec::new(),
            actions: Vec::new(),
            spare_carry: Vec::new(),
            next_cron_ns: 0,
            next_sample_ns: 0,
            turn_began_ns: 0,
            turn_busy: false,
            ending: None,
            pool,
            policy: Policy::new(0),
            settings,
            told,
            messages: Vec::new(),
            group: Vec::new(),
            executed: Vec::new(),
            load: Default::default(),
            depth: Depth::default(),
            gate: durable::Gate::for_tests(),
        };
        server.configure_loop();
        server.configure_workers();
        server.take_listeners();
        server
    }

    /// Runs until told to end; the process's exit status.
    pub fn run(&mut self) -> i32 {
        self.watch_signals();
        let mut now_ns = self.host.now().mono_ns;
        loop {
            // What was wished for after the phase of wishes does not wait for an event.
            let until = match self.engine.has_actions() {
                true => Deadline::PAST,
                false => self.rest(Deadline::at_ns(self.next_cron_ns)),
            };
            let wait = self.event_loop.wait(now_ns, until);
            let began = self.host.now();
            self.turn_began_ns = began.mono_ns;
            if let Err(error) = wait {
                self.host.note(LogLevel::Warning, &format!("the event loop failed: {error}; ending"));
                return 1;
            }
            for (_, phase) in PHASES {
                phase(self);
            }
            now_ns = self.account_turn();
            if let Some(status) = self.ending {
                return self.end(status);
            }
        }
    }

    fn account_turn(&mut self) -> u64 {
        let end = self.host.now().mono_ns;
        let spent = end.saturating_sub(self.turn_began_ns);
        self.host.counts.cycles += 1;
        self.host.cycle_ns += spent;
        self.host.command_ns += self.engine.take_command_nanos();
        self.host.longest_turn.note(spent, thread_ns);
        if std::mem::take(&mut self.turn_busy) {
            self.host.active_ns += spent;
            self.account_batches(spent);
            self.learn_depth();
        }
        end
    }

    /// Learns how many requests a receive brings, and lets waits gather while that is enough: a wait that is spread
    /// over a pipeline's replies costs them little, a single reply would feel it.
    fn learn_depth(&mut self) {
        let (commands, reads) = (self.engine.commands_executed(), self.host.reads);
        let receives = reads.saturating_sub(self.depth.reads);
        let new = commands.saturating_sub(self.depth.commands) * DEPTH_UNIT;
        if let Some(each) = new.checked_div(receives) {
            let each = each.min(1 << 20);
            self.depth.mean = (self.depth.mean * 7 + each) / 8;
            self.event_loop.gather(match self.depth.mean >= self.depth.wanted {
                true => Gathering::Wanted,
                false => Gathering::Unwanted,
            });
        }
        self.depth.commands = commands;
        self.depth.reads = reads;
    }

    /// Sets the loop's numbers as the configuration has them.
    fn configure_loop(&mut self) {
        let config = self.engine.config();
        let accepts = config.int(param::MAX_NEW_CONNECTIONS_PER_CYCLE) as u32;
        let wait_us = config.int(param::EVENT_LOOP_BATCH_WAIT_US) as u32;
        let depth = config.uint(param::EVENT_LOOP_BATCH_WAIT_DEPTH);
        let keepalive_s = config.int(param::TCP_KEEPALIVE);
        self.event_loop.set_accepts_per_turn(accepts);
        self.listeners.iter().flatten().for_each(|(_, listener)| listen::tune(listener, keepalive_s));
        self.event_loop.set_batch_wait(wait_us);
        self.event_loop.gather(Gathering::Unwanted);
        self.depth.wanted = depth * DEPTH_UNIT;
    }

    /// Brings the loop's listeners in line with the process's; connections stay.
    fn take_listeners(&mut self) {
        let Some(wanted) = self.host.listening.take_change() else { return };
        let same = |a: &Listener, b: &Listener| Arc::ptr_eq(&a.socket, &b.socket);
        for place in &mut self.listeners {
            if let Some((source, _)) = place.take_if(|(_, old)| !wanted.iter().any(|new| same(new, old))) {
                self.event_loop.close(source);
            }
        }
        for listener in wanted {
            if self.listeners.iter().flatten().any(|(_, old)| same(old, &listener)) {
                continue;
            }
            let index = self.listeners.iter().position(Option::is_none).unwrap_or_else(|| {
                self.listeners.push(None);
                self.listeners.len() - 1
            });
            let source = self.event_loop.attach(listener.socket.clone(), Token(LISTENER_BASE + index as u64));
            self.event_loop.accept_start(source);
            self.listeners[index] = Some((source, listener));
        }
    }

    fn watch_signals(&mut self) {
        if let Some(source) = self.signals.source {
            self.event_loop.watch(source, sluice_evloop::Interest::READABLE);
        }
    }

    fn collect(&mut self) {
        while let Some(event) = self.event_loop.next_event(self.turn_began_ns) {
            self.turn_busy = true;
            match event {
                Event::Received { token, received } => self.received(key_of(token), received),
                Event::Sent { token, sent } => self.sent(key_of(token), sent),
                Event::Accepted { token, socket } => self.accepted(token, socket),
                Event::Filled { token, buf, error } => self.filled(key_of(token), buf, error),
                Event::AcceptFailed { error, .. } => {
                    self.host.note(
                        LogLevel::Warning,
                        &format!("Accepting client connection: {}", crate::host::plain_error(&error)),
                    );
                }
                Event::Ready { .. } => self.signalled(),
                Event::Detached { token, fd } => self.left_the_loop(key_of(token), fd),
                Event::Timer { .. } | Event::FileDone { .. } | Event::ProcessEnded { .. } => {}
            }
        }
        if self.pool.is_running() {
            self.collect_from_workers();
        }
    }

    fn wire(&mut self, key: SessionKey) -> Option<&mut Box<Wire>> {
        self.wires.get_mut(key.slot as usize)?.as_mut().filter(|wire| wire.key == key)
    }

    fn take_wire(&mut self, key: SessionKey) -> Option<Box<Wire>> {
        let place = self.wires.get_mut(key.slot as usize)?;
        if place.as_ref()?.key == key { place.take() } else { None }
    }

    fn accepted(&mut self, token: Token, socket: OwnedFd) {
        let index = (token.0 - LISTENER_BASE) as usize;
        let Some((_, listener)) = self.listeners.get(index).and_then(Option::as_ref) else { return };
        let config = self.engine.config();
        let dressed = listen::dress(&socket, &listener.kind);
        if self.host.log.wants(LogLevel::Verbose) {
            self.host.note(LogLevel::Verbose, &format!("Accepted {}", dressed.addr));
        }
        if let Some(text) = listen::refusal(&dressed, self.engine.connections(), config) {
            self.engine.count_rejected();
            refuse(socket, text);
            return;
        }
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let unix = matches!(listener.kind, Kind::Unix(_));
        let connection = Connection { addr: dressed.addr, laddr: dressed.laddr, fd, unix };
        let key = self.engine.connect(connection, &mut self.host);
        let slot = key.slot as usize;
        if self.wires.len() <= slot {
            self.wires.resize_with(slot + 1, || None);
        }
        if self.pool.active() > 0 {
            self.host.io_threads.accepts += 1;
            let mut wire = Wire::new(Source::NONE, key);
            self.hand_over(&mut wire, socket.into());
            self.wires[slot] = Some(wire);
            return;
        }
        let source = self.event_loop.attach(socket, token_of(key));
        self.event_loop.recv_start(source);
        self.wires[slot] = Some(Wire::new(source, key));
    }

    fn received(&mut self, key: SessionKey, received: Received) {
        let chunk = match received {
            Received::Data(chunk) => chunk,
            Received::Eof => return self.lost(key, CLIENT_CLOSED),
            Received::Failed(error) => return self.lost(key, &read_failed(&error)),
        };
        self.host.counts.net_input_bytes += chunk.len() as u64;
        self.host.reads += 1;
        if let Some(mut wire) = self.take_wire(key) {
            match wire.inbound.input {
                // Whoever has it next executes it.
                Input::Open if wire.place == Place::Leaving => wire.inbound.carry.extend_from_slice(&chunk),
                Input::Open if wire.inbound.carry.is_empty() => {
                    let used = self.execute(&mut wire, &chunk);
                    self.keep(&mut wire, &chunk[used..]);
                }
                Input::Open | Input::Large => self.go_on(&mut wire, &chunk),
                Input::Held => wire.inbound.carry.extend_from_slice(&chunk),
                Input::Filling | Input::Away | Input::Shut => {}
            }
            if !wire.inbound.carry.is_empty() {
                self.engine.touch_last_interaction(key, self.host.recent());
            }
            if wire.place == Place::Here {
                self.after_input(&mut wire);
            }
            self.wires[key.slot as usize] = Some(wire);
        }
        self.event_loop.give_back(chunk);
    }

    fn lost(&mut self, key: SessionKey, why: &str) {
        if self.host.log.wants(LogLevel::Verbose)
            && let Some(session) = self.engine.session(key)
        {
            self.host.note(LogLevel::Verbose, &format!("{why} {}", session.caller.addr));
        }
        self.end_client(key);
    }

    /// Closes a connection at the end of the iteration; the engine learns of it now.
    fn end_client(&mut self, key: SessionKey) {
        self.engine.client_lost(key);
        self.to_close.push(key);
    }

    fn filled(&mut self, key: SessionKey, buf: Vec<u8>, error: Option<std::io::Error>) {
        let Some(mut wire) = self.take_wire(key) else { return };
        self.host.reads += 1;
        let come = wire.inbound.filled(buf);
        self.host.counts.net_input_bytes += come as u64;
        if error.is_some() {
            self.lost(key, CLIENT_CLOSED);
        } else {
            if come > 0 {
                self.engine.touch_last_interaction(key, self.host.recent());
            }
            if come == 0 && self.idle_s(key) > CARRY_IDLE_S {
                // It was ended early. What still comes goes the usual way, and the next large step makes room again.
                wire.inbound.shrink();
                self.publish_input(&mut wire);
                self.event_loop.recv_start(wire.source);
            } else {
                self.execute_carry(&mut wire);
                self.after_input(&mut wire);
                wire.inbound.receive(&mut self.event_loop, wire.source);
            }
        }
        self.wires[key.slot as usize] = Some(wire);
    }

    /// Seconds since a client was last heard; 0 for one that is gone.
    fn idle_s(&mut self, key: SessionKey) -> i64 {
        let now_s = self.host.recent().unix_s();
        self.engine.session(key).map_or(0, |session| now_s - session.caller.last_s)
    }

    /// Goes on with a request whose beginning is kept, and then with what is behind it.
    fn go_on(&mut self, wire: &mut Wire, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match wire.inbound.input {
                Input::Open if wire.inbound.carry.is_empty() => {
                    let used = self.execute(wire, bytes);
                    return self.keep(wire, &bytes[used..]);
                }
                Input::Open | Input::Large => {
                    bytes = wire.inbound.complete(bytes);
                    self.execute_carry(wire);
                }
                Input::Held => return wire.inbound.carry.extend_from_slice(bytes),
                Input::Filling | Input::Away | Input::Shut => return,
            }
        }
    }

    /// Executes what `carry` holds and keeps the rest. The room stays: more is likely to come in pieces.
    fn execute_carry(&mut self, wire: &mut Wire) {
        if !wire.inbound.is_ready() {
            return;
        }
        let mut carry = std::mem::take(&mut wire.inbound.carry);
        wire.carry_peak = wire.carry_peak.max(carry.len());
        let used = self.execute(wire, &carry);
        carry.drain(..used);
        wire.inbound.carry = carry;
        wire.inbound.part_carry();
    }

    /// Keeps the beginning of a request until the rest comes.
    fn keep(&mut self, wire: &mut Wire, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        if wire.inbound.carry.capacity() == 0 {
            wire.inbound.carry = self.spare_carry.pop().unwrap_or_else(|| Vec::with_capacity(CARRY_BYTES));
        }
        wire.inbound.keep_rest(rest);
    }

    /// Gives back room for input that a connection does not need.
    fn trim_input(&mut self, key: SessionKey, idle_s: i64) {
        let Some(mut wire) = self.take_wire(key) else { return };
        if let Place::Worker(seat) = wire.place {
            // It has the input, and says what it holds afterwards.
            self.pool.tell(seat, ToWorker::Trim(key, u32::try_from(idle_s).unwrap_or(0)));
        }
        if wire.place != Place::Here {
            self.wires[key.slot as usize] = Some(wire);
            return;
        }
        match wire.inbound.input {
            // The loop has the buffer. It gives it back, and `filled` sees whether anything has come.
            Input::Filling if idle_s > 0 => self.event_loop.recv_into_end(wire.source),
            Input::Filling => {}
            Input::Large if idle_s > CARRY_IDLE_S => {
                wire.inbound.shrink();
                self.publish_input(&mut wire);
            }
            Input::Large => {}
            Input::Open | Input::Away | Input::Held | Input::Shut => {
                let (peak, room) = (std::mem::take(&mut wire.carry_peak), wire.inbound.carry.capacity());
                if idle_s > CARRY_IDLE_S {
                    self.give_room_back(&mut wire);
                } else if room > CARRY_KEPT_BYTES && peak < room / 2 {
                    wire.inbound.carry.shrink_to(peak.max(CARRY_BYTES));
                }
                self.publish_input(&mut wire);
            }
        }
        self.wires[key.slot as usize] = Some(wire);
    }

    /// Leaves a connection no more than the bytes that it has.
    fn give_room_back(&mut self, wire: &mut Wire) {
        let is_spare = wire.inbound.carry.is_empty() && wire.inbound.carry.capacity() == CARRY_BYTES;
        if is_spare && self.spare_carry.len() < SPARE_CARRIES {
            self.spare_carry.push(std::mem::take(&mut wire.inbound.carry));
        } else {
            wire.inbound.carry.shrink_to_fit();
        }
    }

    /// Tells the engine what the connection holds, where that has changed.
    fn publish_input(&mut self, wire: &mut Wire) {
        let kept = wire.inbound.kept();
        publish_kept(&mut self.engine, &mut self.host, wire, kept);
    }

    /// Parses and executes `input`; returns the bytes that are done with.
    fn execute(&mut self, wire: &mut Wire, input: &[u8]) -> usize {
        let mut used = 0;
        while wire.inbound.input == Input::Open {
            let rest = &input[used..];
            let limits = self.parse_limits(wire.key);
            let progress = wire.inbound.parser.parse(rest, &limits, &mut self.requests);
            if !self.requests.is_empty() {
                let done = self.engine.submit(wire.key, rest, &self.requests, &mut self.host);
                match done.flow {
                    Flow::Continue => {}
                    Flow::Closing => wire.inbound.input = Input::Shut,
                    Flow::Waiting => {
                        // The engine has the request that waits. What stands behind it is parsed again when its time comes.
                        wire.inbound.input = Input::Held;
                        wire.inbound.parser = Default::default();
                        return used + offset_of(&self.requests, done.executed, rest);
                    }
                }
            }
            used += progress.consumed;
            match progress.state {
                State::Full => {}
                State::Starved => break,
                State::Failed(error) => {
                    if wire.inbound.input == Input::Open {
                        self.engine.protocol_error(wire.key, &error.message(), &mut self.host);
                    }
                    wire.inbound.input = Input::Shut;
                }
            }
        }
        if wire.inbound.input == Input::Shut { input.len() } else { used }
    }

    fn parse_limits(&self, key: SessionKey) -> Limits {
        let numbers = self.engine.limits();
        let admission = numbers.admission(self.engine.authentication(key));
        Limits::new(admission, numbers.proto_max_bulk_len as u64, numbers.prefetch_batch)
    }

    /// Decides how input goes on after a receive.
    fn after_input(&mut self, wire: &mut Wire) {
        let (input, used) = (wire.inbound.input, wire.inbound.kept().used);
        if input != Input::Shut && used > self.engine.limits().client_query_buffer {
            self.end_overlong(wire.key);
        } else if wire.inbound.is_unusual() {
            wire.inbound.receive(&mut self.event_loop, wire.source);
            if input == Input::Shut {
                // It may have no reply to wait for: then `write` ends it.
                self.ready.push(wire.key);
            }
        }
        self.publish_input(wire);
    }

    /// Ends a client that has sent more than `client-query-buffer-limit` of what cannot be executed yet.
    #[cold]
    fn end_overlong(&mut self, key: SessionKey) {
        self.engine.count_query_buffer_disconnection(key, &mut self.host);
        self.end_client(key);
    }

    fn cron(&mut self) {
        if self.turn_began_ns < self.next_cron_ns {
            return;
        }
        let wait_ms = self.engine.cron(&mut self.host);
        self.next_cron_ns = self.turn_began_ns + wait_ms.max(1) * 1_000_000;
        // The engine's cron comes more often while entries are moved together; reading the allocator's numbers costs as much
        // as a hundred commands.
        if self.turn_began_ns >= self.next_sample_ns {
            self.next_sample_ns = self.turn_began_ns + SAMPLE_NS;
            self.host.sample(&self.event_loop.metrics(), self.engine.keyspace());
        }
        self.manage_workers();
    }

    fn act(&mut self) {
        let configured = std::mem::take(&mut self.host.configured);
        if configured {
            self.configure_loop();
            self.take_listeners();
            self.configure_workers();
            self.arrange_always();
        }
        if self.pool.is_running() && (configured || !Arc::ptr_eq(&self.told, self.engine.limits())) {
            self.tell_settings();
        }
        if !self.engine.has_actions() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        self.engine.take_actions(&mut actions);
        for action in actions.drain(..) {
            match action {
                Action::FreeValue(value) => self.free_value(value),
                Action::FreeDb(db) => self.free(Garbage::Db(db)),
                Action::Resume(keys) => keys.into_iter().for_each(|key| self.resume(key)),
                Action::TrimInput { key, idle_s } => self.trim_input(key, idle_s),
                Action::Shutdown => self.ending = Some(0),
                Action::Crash(crash) => end_by(crash),
            }
        }
        self.actions = actions;
    }

    fn free(&mut self, garbage: Garbage) {
        match &self.host.bio {
            Some(bio) => bio.free(garbage),
            None => drop(garbage),
        }
    }

    /// The outbox whose bytes were sent. A reply may be the last owner of a large string's pages: many of them are let go
    /// elsewhere.
    fn outbox_back(&mut self, buf: SendBuf) -> Outbox {
        if buf.shared.len() >= SHARED_FREED_ELSEWHERE {
            self.free(Garbage::Reply(buf.shared));
        }
        Outbox::from_buffer(buf.head)
    }

    /// Lets a request go on that the engine had kept waiting.
    fn resume(&mut self, key: SessionKey) {
        let Some(mut wire) = self.take_wire(key) else { return };
        if let Place::Worker(seat) | Place::Returning(seat) = wire.place {
            self.pool.tell(seat, ToWorker::Resume(key));
        } else if wire.inbound.input == Input::Held && wire.place == Place::Here {
            wire.inbound.input = Input::Open;
            self.execute_carry(&mut wire);
            self.after_input(&mut wire);
            wire.inbound.receive(&mut self.event_loop, wire.source);
        }
        self.wires[key.slot as usize] = Some(wire);
    }

    fn write(&mut self) {
        self.engine.end_iteration(&mut self.host);
        if self.gate.is_some() {
            return self.write_durably();
        }
        // Sending can end sessions but not give them output, so one round is enough.
        if !self.executed.is_empty() {
            self.reply_to_workers();
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.engine.take_ready(&mut ready);
        for key in ready.drain(..) {
            self.send_output(key);
        }
        // What was put there meanwhile is for the next turn.
        ready.append(&mut self.ready);
        self.ready = ready;
    }

    fn send_output(&mut self, key: SessionKey) {
        let Some(wire) =
            self.wires.get_mut(key.slot as usize).and_then(Option::as_mut).filter(|w| w.key == key)
        else {
            return;
        };
        if wire.place != Place::Here {
            return self.send_elsewhere(key);
        }
        if wire.sending {
            // It stays in the outbox until the send in flight is over; a reader that lags is found out here.
            self.engine.check_output_limit(key, &mut self.host);
            return;
        }
        let Some((outbox, closing)) = self.engine.take_output(key) else { return };
        self.send_outbox(key, outbox, closing);
    }

    /// Sends a client of ours what it is told; no send is in flight.
    fn send_outbox(&mut self, key: SessionKey, outbox: Outbox, closing: Closing) {
        if outbox.is_empty() {
            self.engine.recycle(outbox);
            if closing != Closing::No {
                self.end_client(key);
            }
            return;
        }
        let Some(wire) = self.wires.get_mut(key.slot as usize).and_then(Option::as_mut) else { return };
        wire.close_when_sent = closing == Closing::AfterReply;
        self.host.writes += 1;
        match self.event_loop.send(wire.source, into_send(outbox)) {
            Sending::InFlight => {
                wire.sending = true;
                self.engine.check_output_limit(key, &mut self.host);
            }
            Sending::Done(sent) => self.finish_send(key, sent),
        }
    }

    fn sent(&mut self, key: SessionKey, sent: Sent) {
        let Some(wire) = self.wire(key) else { return };
        wire.sending = false;
        self.finish_send(key, sent);
        match self.gate.is_some() {
            true => self.hand_over_sealed(key),
            false => self.send_output(key),
        }
    }

    fn finish_send(&mut self, key: SessionKey, sent: Sent) {
        self.host.counts.net_output_bytes += sent.bytes as u64;
        self.engine.sent(key, sent.bytes, self.host.recent());
        let outbox = self.outbox_back(sent.buf);
        self.engine.recycle(outbox);
        if let Some(error) = sent.error {
            self.lost(key, &write_failed(&error));
        } else if self.wire(key).is_some_and(|wire| wire.close_when_sent) {
            self.end_client(key);
        }
    }

    fn reap(&mut self) {
        let mut to_close = std::mem::take(&mut self.to_close);
        self.engine.take_to_close(&mut to_close);
        for key in to_close.drain(..) {
            let Some(wire) = self.take_wire(key) else { continue };
            match wire.place {
                Place::Here | Place::Leaving => self.event_loop.close(wire.source),
                Place::Worker(seat) | Place::Returning(seat) => self.close_elsewhere(seat, key),
            }
            self.engine.disconnect(key);
            self.forget_sealed(key);
        }
        self.to_close = to_close;
    }

    fn signalled(&mut self) {
        let kind = self.signals.drain();
        self.watch_signals();
        let Some(signal) = kind else { return };
        self.host.note(LogLevel::Warning, &format!("Received {} scheduling shutdown...", signal.name()));
        let wishes = self.engine.config().flags(signal.wishes());
        let wanted = wishes & shutdown::SAVE != 0
            || wishes & shutdown::NOSAVE == 0 && !self.engine.config().save_points().is_empty();
        if wanted && self.engine.has_data() {
            self.host.note(LogLevel::Warning, sluice_engine::NOTHING_SAVED);
        }
        self.ending = Some(0);
    }

    fn end(&mut self, status: i32) -> i32 {
        self.host.note(LogLevel::Notice, "User requested shutdown...");
        supervisor::tell(self.engine.config(), "STOPPING=1\n", &mut self.host);
        self.release_all();
        // Replies of the last turn have been handed to the event loop already, and now to the kernel.
        let _ = self.event_loop.wait(self.turn_began_ns, Deadline::PAST);
        if self.pool.is_running() {
            self.finish_workers();
        }
        for (source, _) in std::mem::take(&mut self.listeners).into_iter().flatten() {
            self.event_loop.close(source);
        }
        self.host.remove_files();
        self.host.note(LogLevel::Warning, "Sluice is now ready to exit, bye bye...");
        status
    }
}

fn offset_of(requests: &Requests, executed: usize, input: &[u8]) -> usize {
    executed.checked_sub(1).map_or(0, |last| requests.end_of(last).min(input.len()))
}

/// Tells the engine what a connection holds of its input, if that is news.
fn publish_kept(engine: &mut Engine, host: &mut Host, wire: &mut Wire, kept: Kept) {
    if wire.inbound.tell(kept) {
        host.note_input(kept.room);
        engine.publish_input(wire.key, kept.used, kept.room - kept.used);
    }
}

/// Tells a connection why it is refused, without waiting, and closes it.
fn refuse(socket: OwnedFd, text: &[u8]) {
    use std::io::Write;
    let _ = std::net::TcpStream::from(socket).write_all(text);
}

fn end_by(crash: Crash) {
    match crash {
        Crash::Panic => panic!("called by DEBUG PANIC"),
        Crash::Assert => panic!("=== ASSERTION FAILED === called by DEBUG ASSERT"),
        Crash::Exit => std::process::exit(1),
        Crash::Segfault => crate::signals::raise_segfault(),
    }
}
