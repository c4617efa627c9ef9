//! The turn's part for connections that workers own.

use super::Server;
use crate::bio::Garbage;
use crate::inbound::{Input, Kept};
use crate::iothreads::{Adopted, Balance, Batch, Ended, Push, Settings, Signals, ToMain, ToWorker, Traffic};
use crate::wire::{Place, Wire, token_of};
use sluice_config::param;
use sluice_engine::{Closing, Engine, Flow, LogLevel, Process, SessionKey};
use sluice_evloop::{Deadline, Fd, Source};
use sluice_resp::Parser;
use sluice_value::Value;
use std::sync::Arc;
use std::time::Duration;

/// What the policy's samples are made of.
#[derive(Debug, Default)]
pub(super) struct Load {
    at_ns: u64,
    main_ns: u64,
    workers_ns: u64,
    commands: u64,
    idle_ticks: u64,
    /// When the workers' load was looked at.
    sampled_ns: u64,
    balance: Balance,
    /// Batches were executed in this turn.
    served: bool,
    /// Workers that the configuration asks for.
    configured: usize,
    /// When threads that could not be started are tried again.
    spawn_again_ns: u64,
    always: bool,
}

/// Batches whose keys are prefetched together, at most: enough to hide the misses.
const PREFETCH_BATCHES: usize = 32;
/// No batch is added to so many keys: few enough that their lines stay in the cache.
const PREFETCH_KEYS: usize = 128;
/// When threads could not be started, they are tried again after so long.
const SPAWN_AGAIN_NS: u64 = 10_000_000_000;
/// How long the end of the server waits for clients to take their last replies.
const FINISH_NS_MAX: u64 = 500_000_000;
/// How often it looks meanwhile.
const FINISH_DOZE: Duration = Duration::from_micros(100);

/// How long a sample usually is: the cron's period.
const SAMPLE_NS: u64 = 100_000_000;
/// Samples that are closer together tell too little.
const SAMPLE_NS_MIN: u64 = 50_000_000;
/// Values above this many bytes travel to a worker with a batch that goes there, and are freed by it.
const FREED_BY_WORKERS_BYTES: usize = 1024;

/// What workers need to know of an engine's configuration.
pub(super) fn settings_of(engine: &Engine) -> Arc<Settings> {
    let limits = engine.limits();
    Arc::new(Settings {
        preparer: engine.preparer(),
        limits: limits.clone(),
        gather_depth: match engine.config().int(param::EVENT_LOOP_BATCH_WAIT_US) {
            0 => u64::from(u32::MAX),
            _ => engine.config().uint(param::EVENT_LOOP_BATCH_WAIT_DEPTH),
        },
    })
}

impl Server {
    /// Until when the turn may wait in the event loop; a worker that has something wakes it (T-6). It does not doze to let
    /// batches gather, as workers do: that was measured, and cost the executing thread a quarter more for each request.
    pub(super) fn rest(&self, until: Deadline) -> Deadline {
        match self.pool.has_messages() || self.pool.is_behind() {
            true => Deadline::PAST,
            false => match &self.gate {
                Some(gate) => until.min(Deadline::at_ns(gate.due_ns())),
                None => until,
            },
        }
    }

    /// Brings the threads in line with `io-threads`. Always succeeds, now or by and by (T-7).
    pub(super) fn configure_workers(&mut self) {
        let config = self.engine.config();
        let configured = config.int(param::IO_THREADS_NUM).max(1) as usize - 1;
        self.load.always = config.bool(param::IO_THREADS_ALWAYS_ACTIVE);
        if configured == self.load.configured {
            return;
        }
        self.load.configured = configured;
        let cap = configured.min(processors().saturating_sub(1));
        self.policy.set_cap(cap);
        let before = self.pool.active();
        if self.pool.stop_above(configured) {
            self.recall();
        }
        self.host.io_threads.shrunk += u64::from(self.pool.active() < before);
        if configured == 0 {
            let text = "io-threads 1: the executing thread does everything; the workers end";
            self.host.note(LogLevel::Notice, text);
        }
        if configured > 0 {
            self.spawn_workers(configured);
            self.tell_workers(configured, cap);
        }
        self.note_workers();
    }

    /// What INFO shows of the workers, and what follows from how many there are.
    fn note_workers(&mut self) {
        // A small value is not worth a message that takes it away; with a batch it travels for nothing.
        let above = match self.pool.active() {
            0 => sluice_keyspace::LAZY_FREE_BYTES,
            _ => FREED_BY_WORKERS_BYTES,
        };
        self.engine.set_lazyfree_threshold(above);
        let reason = self.workers_reason();
        let shown = &mut self.host.io_threads;
        shown.reason = reason;
        shown.active = self.pool.active();
        let counts = self.pool.counts();
        (shown.parks, shown.polls) = (counts.parks, counts.polls);
        shown.full = [self.pool.full(), counts.full];
        // One line for each worker there may be. What others had is kept for when they come back.
        shown.active_us = self.pool.active_ns().iter().map(|ns| ns / 1000).collect();
        shown.active_us.resize(self.load.configured, 0);
    }

    /// Says what to expect of the workers: nothing to see of them is ordinary.
    fn tell_workers(&mut self, configured: usize, cap: usize) {
        let when = match self.load.always {
            true => "all take connections at once".to_owned(),
            false => format!(
                "up to {cap} of them will be used (this process has {} processors), by themselves, when the executing thread is \
                 the bottleneck and a processor is free; io_threads_reason of INFO server says why or why not",
                processors()
            ),
        };
        let text = format!("io-threads {}: workers ready: {}; {when}", configured + 1, self.pool.threads());
        self.host.note(LogLevel::Notice, &text);
    }

    fn spawn_workers(&mut self, count: usize) {
        self.settings = settings_of(&self.engine);
        self.told = self.engine.limits().clone();
        let settings = self.settings.clone();
        if let Err(error) = self.pool.spawn_up_to(count, &settings) {
            let got = self.pool.threads();
            let text = format!("Could not start all IO threads: {error}. {got} of {count} run.");
            self.host.note(LogLevel::Warning, &text);
            self.load.spawn_again_ns = self.turn_began_ns + SPAWN_AGAIN_NS;
        }
    }

    /// Has connections of a worker go elsewhere that is busier than the others.
    fn even_out(&mut self) {
        let wall_ns = self.turn_began_ns.saturating_sub(self.load.sampled_ns);
        if wall_ns < SAMPLE_NS_MIN {
            return;
        }
        self.load.sampled_ns = self.turn_began_ns;
        let shares = self.pool.sample(wall_ns);
        let Some(wanted) = self.load.balance.step(&shares) else { return };
        let place = Place::Worker(wanted.seat);
        let theirs = self.wires.iter_mut().flatten().filter(|wire| wire.place == place);
        for (_, wire) in theirs.enumerate().filter(|(number, _)| wanted.takes(*number)) {
            wire.place = Place::Returning(wanted.seat);
            self.pool.tell(wanted.seat, ToWorker::Release(wire.key));
            self.host.io_threads.balanced += 1;
        }
    }

    /// Has connections come back from workers that take none any more, and what others have beyond their share.
    fn recall(&mut self) {
        let mut surplus: Vec<(usize, usize)> = Vec::new();
        for wire in self.wires.iter_mut().flatten() {
            let Place::Worker(seat) = wire.place else { continue };
            if self.pool.is_active(seat) {
                let known = surplus.iter().position(|(s, _)| *s == seat).unwrap_or_else(|| {
                    surplus.push((seat, self.pool.surplus(seat)));
                    surplus.len() - 1
                });
                if surplus[known].1 == 0 {
                    continue;
                }
                surplus[known].1 -= 1;
            }
            wire.place = Place::Returning(seat);
            self.pool.tell(seat, ToWorker::Release(wire.key));
        }
    }

    /// Tells the workers about other limits.
    pub(super) fn tell_settings(&mut self) {
        self.told = self.engine.limits().clone();
        self.settings = settings_of(&self.engine);
        let settings = self.settings.clone();
        self.pool.publish(&settings);
    }

    /// Asks the policy how many workers shall be active, and moves connections accordingly. Ten times a second.
    pub(super) fn manage_workers(&mut self) {
        if !self.pool.is_running() && self.load.configured == 0 {
            return;
        }
        let wanted = if self.load.always {
            self.policy.assume(self.load.configured);
            self.load.configured
        } else {
            match self.sample() {
                Some(signals) => self.policy.step(signals),
                None => self.pool.active(),
            }
        };
        if self.pool.threads() < self.load.configured && self.turn_began_ns >= self.load.spawn_again_ns {
            self.spawn_workers(self.load.configured);
        }
        self.arrange(wanted);
    }

    /// Workers that are to be active always are so as soon as it is said.
    pub(super) fn arrange_always(&mut self) {
        if self.load.always && self.load.configured > 0 {
            self.policy.assume(self.load.configured);
            self.arrange(self.load.configured);
        }
    }

    /// Lets so many workers take connections, and moves these accordingly.
    fn arrange(&mut self, wanted: usize) {
        let before = self.pool.active();
        self.pool.set_active(wanted);
        let now = self.pool.active();
        if now != before {
            self.host.io_threads.grown += u64::from(now > before);
            self.host.io_threads.shrunk += u64::from(now < before);
            let word = if now > before { "increased" } else { "decreased" };
            self.host.note(LogLevel::Debug, &format!("IO threads {word} from {} to {}", before + 1, now + 1));
            self.recall();
        }
        if now > 0 {
            self.even_out();
            self.move_out();
        }
        self.note_workers();
    }

    /// For INFO: why so many workers are active.
    fn workers_reason(&self) -> &'static str {
        match (self.load.configured, self.load.always) {
            (0, _) => crate::host::NO_WORKERS,
            (_, true) => "io-threads-always-active is set",
            (_, false) => self.policy.reason(),
        }
    }

    /// What happened since the last sample; `None` where it was too short ago.
    fn sample(&mut self) -> Option<Signals> {
        let now_ns = self.turn_began_ns;
        let wall = now_ns.saturating_sub(self.load.at_ns);
        if wall < SAMPLE_NS_MIN {
            return None;
        }
        let (main_ns, workers_ns) = (self.host.active_ns, self.pool.active_ns().iter().sum::<u64>());
        let commands = self.engine.commands_executed();
        let active = self.pool.active();
        let main_busy = main_ns.saturating_sub(self.load.main_ns) as f64 / wall as f64;
        let workers_busy = match active {
            0 => 0.0,
            n => workers_ns.saturating_sub(self.load.workers_ns) as f64 / wall as f64 / n as f64,
        };
        // Asking the kernel costs some ten microseconds: only when the answer can matter.
        let mut idle_processors = 0.0;
        if main_busy > 0.5 || active > 0 {
            let ticks = idle_ticks();
            let known = std::mem::replace(&mut self.load.idle_ticks, ticks);
            if known != 0 {
                let idle_ns = ticks.saturating_sub(known) as f64 * tick_ns();
                // Under a quota a processor may be idle and still not ours.
                let ours = processors() as f64 - main_busy - workers_busy * active as f64;
                idle_processors = (idle_ns / wall as f64).min(ours).max(0.0);
            }
        } else {
            self.load.idle_ticks = 0;
        }
        let commands_seen = commands.saturating_sub(self.load.commands);
        let signals = Signals {
            main_busy,
            workers_busy,
            idle_processors,
            commands: (commands_seen as f64 * SAMPLE_NS as f64 / wall as f64) as u64,
        };
        self.load.at_ns = now_ns;
        self.load.main_ns = main_ns;
        self.load.workers_ns = workers_ns;
        self.load.commands = commands;
        Some(signals)
    }

    /// Starts to move connections that are at rest here to workers.
    fn move_out(&mut self) {
        if self.engine.connections() <= self.pool.all_connections() {
            // All are there, or on their way.
            return;
        }
        for wire in self.wires.iter_mut().flatten() {
            let at_rest = wire.place == Place::Here
                && matches!(wire.inbound.input, Input::Open | Input::Held)
                && !wire.sending
                && !wire.close_when_sent;
            if at_rest {
                wire.place = Place::Leaving;
                self.event_loop.detach(wire.source);
            }
        }
    }

    /// A connection's socket is out of our loop: it goes to a worker, or back in.
    pub(super) fn left_the_loop(&mut self, key: SessionKey, socket: Fd) {
        let Some(mut wire) = self.take_wire(key) else { return };
        if self.pool.active() > 0 {
            self.hand_over(&mut wire, socket);
        } else {
            self.take_in(&mut wire, socket);
        }
        self.wires[key.slot as usize] = Some(wire);
        self.ready.push(key);
    }

    /// Gives a connection to the active worker with the fewest.
    pub(super) fn hand_over(&mut self, wire: &mut Wire, socket: Fd) {
        let Some(worker) = self.pool.least_loaded() else { return self.take_in(wire, socket) };
        let adopted = Adopted {
            key: wire.key,
            socket,
            carry: std::mem::take(&mut wire.inbound.carry),
            authentication: self.engine.authentication(wire.key),
            held: self.waits(wire),
            received: 0,
        };
        wire.place = Place::Worker(worker);
        super::publish_kept(&mut self.engine, &mut self.host, wire, Kept::default());
        wire.source = Source::NONE;
        wire.inbound.parser = Parser::new();
        self.pool.tell(worker, ToWorker::Adopt(Box::new(adopted)));
    }

    /// Takes a connection into our own loop.
    fn take_in(&mut self, wire: &mut Wire, socket: Fd) {
        wire.source = self.event_loop.attach(socket, token_of(wire.key));
        wire.place = Place::Here;
        wire.inbound.parser = Parser::new();
        if wire.inbound.input == Input::Held && !self.waits(wire) {
            wire.inbound.input = Input::Open;
        }
        if wire.inbound.input == Input::Open {
            self.execute_carry(wire);
            self.after_input(wire);
        }
        wire.inbound.receive(&mut self.event_loop, wire.source);
    }

    /// Whether a connection's request still waits: what kept it may have ended while it was between two threads.
    fn waits(&self, wire: &Wire) -> bool {
        wire.inbound.input == Input::Held && self.is_waiting(wire.key)
    }

    fn is_waiting(&self, key: SessionKey) -> bool {
        self.engine.session(key).is_some_and(|session| session.waiting.is_some())
    }

    fn is_ending(&self, key: SessionKey) -> bool {
        self.engine.session(key).is_none_or(|session| session.caller.closing != Closing::No)
    }

    /// Executes what the workers have prepared.
    pub(super) fn collect_from_workers(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        self.pool.collect(&mut messages);
        if !messages.is_empty() {
            self.turn_busy = true;
            self.host.io_threads.reads_pending = messages.len() as u64;
            let mut group = std::mem::take(&mut self.group);
            let mut rest = messages.drain(..);
            loop {
                let mut keys = 0;
                while keys < PREFETCH_KEYS && group.len() < PREFETCH_BATCHES {
                    let Some(message) = rest.next() else { break };
                    if let ToMain::Batch(batch) = &message {
                        keys += batch.prepared.keys();
                    }
                    group.push(message);
                }
                if group.is_empty() {
                    break;
                }
                self.prefetch(&group);
                group.drain(..).for_each(|message| self.handle_worker_message(message));
            }
            drop(rest);
            self.group = group;
            self.host.io_threads.reads_pending = 0;
        }
        self.messages = messages;
    }

    /// Prefetches the keys of a group of batches together.
    fn prefetch(&mut self, group: &[ToMain]) {
        if self.engine.limits().prefetch_batch < 2 {
            return;
        }
        let mut keys = 0;
        for message in group {
            if let ToMain::Batch(batch) = message {
                self.engine.prefetch_buckets(batch.key, &batch.prepared);
                keys += batch.prepared.keys();
            }
        }
        if keys < 2 {
            return;
        }
        for message in group {
            if let ToMain::Batch(batch) = message {
                self.engine.prefetch_entries(batch.key, &batch.prepared);
            }
        }
        self.engine.count_prefetch_group();
    }

    fn handle_worker_message(&mut self, message: ToMain) {
        match message {
            ToMain::Batch(batch) => self.execute_batch(batch),
            ToMain::Partial(key, kept) => {
                self.engine.touch_last_interaction(key, self.host.recent());
                self.note_kept(key, kept);
                if kept.used > self.engine.limits().client_query_buffer && !self.is_ending(key) {
                    self.end_overlong(key);
                }
            }
            ToMain::Traffic(key, traffic) => self.count_traffic(key, traffic),
            ToMain::Gone(key, why) => self.lost(key, &why),
            ToMain::Released(adopted) => self.released(*adopted),
            ToMain::Stopped(seat) => self.stopped(seat),
        }
    }

    /// A worker has ended. Connections that it had then are lost: that happens only when its event loop failed.
    fn stopped(&mut self, seat: usize) {
        if self.pool.stopped(seat) {
            self.host.note(LogLevel::Warning, "An IO thread ended: its event loop failed.");
        }
        let place_is_lost =
            |place: &Place| matches!(place, Place::Worker(s) | Place::Returning(s) if *s == seat);
        let lost = self.wires.iter().flatten().filter(|wire| place_is_lost(&wire.place));
        let lost: Vec<SessionKey> = lost.map(|wire| wire.key).collect();
        lost.into_iter().for_each(|key| self.end_client(key));
    }

    fn count_traffic(&mut self, key: SessionKey, traffic: Traffic) {
        self.host.counts.net_input_bytes += u64::from(traffic.received);
        self.count_sent(key, traffic.sent as usize);
    }

    fn count_sent(&mut self, key: SessionKey, bytes: usize) {
        self.host.counts.net_output_bytes += bytes as u64;
        self.engine.sent(key, bytes, self.host.recent());
    }

    fn execute_batch(&mut self, mut batch: Box<Batch>) {
        let key = batch.key;
        self.engine.recycle(std::mem::take(&mut batch.reply));
        self.host.io_threads.reads += 1;
        self.host.reads += 1;
        self.host.counts.net_input_bytes += batch.received as u64;
        self.host.io_threads.wait_ns += self.turn_began_ns.saturating_sub(batch.at_ns);
        if batch.sent > 0 {
            self.count_sent(key, batch.sent);
        }
        let mut flow = Flow::Continue;
        if !batch.requests.is_empty() {
            let Batch { input, requests, prepared, .. } = &*batch;
            let done = self.engine.submit_prepared(key, input, requests, prepared, &mut self.host);
            flow = done.flow;
            batch.done = super::offset_of(&batch.requests, done.executed, &batch.input);
        }
        match flow {
            Flow::Continue => {
                if let Some(error) = batch.failed {
                    self.engine.protocol_error(key, &error.message(), &mut self.host);
                    batch.ended = Ended::AfterReply;
                } else if batch.too_much {
                    // Not to be parsed again while the news of its end is on the way.
                    batch.ended = Ended::AfterReply;
                    self.end_overlong(key);
                }
            }
            Flow::Waiting => batch.ended = Ended::Held,
            Flow::Closing => batch.ended = Ended::AfterReply,
        }
        self.note_kept(key, batch.kept);
        self.executed.push(batch);
    }

    fn note_kept(&mut self, key: SessionKey, kept: Kept) {
        let wire = self.wires.get_mut(key.slot as usize).and_then(Option::as_mut);
        if let Some(wire) = wire.filter(|wire| wire.key == key) {
            super::publish_kept(&mut self.engine, &mut self.host, wire, kept);
        }
    }

    /// Counts a turn's time for the batches it executed.
    pub(super) fn account_batches(&mut self, spent_ns: u64) {
        if std::mem::take(&mut self.load.served) {
            self.host.io_threads.service_ns += spent_ns;
        }
    }

    /// Has a value freed elsewhere: by a worker that gets a batch anyway, or by the background thread.
    pub(super) fn free_value(&mut self, value: Value) {
        // In turn, so that no worker gets all.
        let turn = self.host.io_threads.freed as usize;
        match self.executed.len() {
            // Nothing goes there: what is small is freed here, as it costs less than a message.
            0 if value.heap_bytes() <= sluice_keyspace::LAZY_FREE_BYTES => drop(value),
            0 => self.free(Garbage::Value(value)),
            n => {
                self.host.io_threads.freed += 1;
                self.executed[turn % n].garbage.push(value);
            }
        }
    }

    /// Sends the batches of this turn back with their replies.
    pub(super) fn reply_to_workers(&mut self) {
        let mut executed = std::mem::take(&mut self.executed);
        for mut batch in executed.drain(..) {
            self.finish_batch(&mut batch);
            self.return_batch(batch);
        }
        self.executed = executed;
    }

    /// Puts a batch's replies into it, and how its connection goes on.
    pub(super) fn finish_batch(&mut self, batch: &mut Batch) {
        self.load.served = true;
        if let Some((outbox, closing)) = self.engine.take_output(batch.key) {
            batch.reply = outbox;
            if closing == Closing::AfterReply {
                batch.ended = Ended::AfterReply;
            }
        }
        batch.authentication = self.engine.authentication(batch.key);
        self.host.io_threads.writes += 1;
        self.host.writes += 1;
    }

    /// Sends a finished batch back to its worker.
    pub(super) fn return_batch(&mut self, mut batch: Box<Batch>) {
        if batch.ended == Ended::Held && !self.is_waiting(batch.key) {
            // What it waited for has ended meanwhile.
            batch.ended = Ended::Resumed;
        }
        self.pool.tell(batch.worker, ToWorker::Reply(batch));
    }

    /// Sends output that no batch asked for.
    pub(super) fn send_elsewhere(&mut self, key: SessionKey) {
        let Some(wire) = self.wire(key) else { return };
        let Place::Worker(worker) = wire.place else {
            // Between two loops: its output waits until it has a place.
            self.ready.push(key);
            return self.engine.check_output_limit(key, &mut self.host);
        };
        let Some((outbox, closing)) = self.engine.take_output(key) else { return };
        let then_close = closing != Closing::No;
        if outbox.is_empty() && !then_close {
            return self.engine.recycle(outbox);
        }
        self.host.writes += 1;
        self.host.io_threads.writes += 1;
        self.pool.tell(worker, ToWorker::Push(Box::new(Push { key, outbox, then_close })));
        self.engine.check_output_limit(key, &mut self.host);
    }

    pub(super) fn close_elsewhere(&mut self, worker: usize, key: SessionKey) {
        self.pool.tell(worker, ToWorker::Close(key));
        self.pool.left(worker);
    }

    /// A worker gives a connection back.
    fn released(&mut self, adopted: Adopted) {
        let Adopted { key, socket, carry, held, received, .. } = adopted;
        self.host.counts.net_input_bytes += received as u64;
        // One that has ended meanwhile is closed by dropping its socket.
        let Some(mut wire) = self.take_wire(key) else { return };
        if let Place::Worker(seat) | Place::Returning(seat) = wire.place {
            self.pool.left(seat);
        }
        wire.inbound.carry = carry;
        wire.inbound.input = if held { Input::Held } else { Input::Open };
        if self.pool.active() > 0 {
            self.hand_over(&mut wire, socket);
        } else {
            self.take_in(&mut wire, socket);
        }
        self.wires[key.slot as usize] = Some(wire);
        self.ready.push(key);
    }

    /// Ends the workers, after they have sent what waits; for so long at most.
    pub(super) fn finish_workers(&mut self) {
        self.pool.finish();
        let deadline_ns = self.host.now().mono_ns + FINISH_NS_MAX;
        let mut messages = Vec::new();
        while self.pool.is_running() && self.host.now().mono_ns < deadline_ns {
            self.pool.show();
            self.pool.collect(&mut messages);
            for message in messages.drain(..) {
                if let ToMain::Stopped(seat) = message {
                    self.pool.stopped(seat);
                }
            }
            std::thread::sleep(FINISH_DOZE);
        }
    }

    /// Shows the workers what this turn has for them.
    pub(super) fn show(&mut self) {
        if self.pool.is_running() {
            self.pool.show();
        }
    }
}

/// Processors that this process may use: its affinity, and the quota of its control group, rounded up.
fn processors() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    allowed.max(1)
}

/// Idle time of the processors that this process may use since the machine started, in ticks; 0 where it is not told.
fn idle_ticks() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/stat") else { return 0 };
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok();
    let ours = |number: usize| allowed.is_none_or(|set| set.is_set(number).unwrap_or(false));
    let mut ticks = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        if number.is_some_and(ours) {
            // The columns are user, nice, system, idle, iowait.
            ticks += words.skip(3).take(2).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
        }
    }
    ticks
}

/// Nanoseconds of a tick, usually ten million.
fn tick_ns() -> f64 {
    let hz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    1e9 / hz.filter(|hz| *hz > 0).unwrap_or(100) as f64
}
