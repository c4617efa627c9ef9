//! Executes the batches of requests from I/O threads, and sends the batches back with their replies.

mod lists;

pub(super) use lists::Batches;

use super::Server;
use super::main_thread::end_of_executed;
use crate::clients::SocketOwner;
use crate::connection::Traffic;
use crate::connection::input::QueryBufUsage;
use crate::iothreads::{AfterPush, Batch, BatchOutcome, IoThreadId, Push, ToIoThread, ToMain};
use crate::lazyfree::Garbage;
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_control::process::ProcessClock;
use sluice_engine::Flow;
use sluice_session::Closing;
use sluice_value::Value;

/// Maximum number of messages in a group. The keys of the group's batches are prefetched together. The number
/// is high enough to hide the cache misses.
const PREFETCH_BATCHES: usize = 32;
/// A group of batches is complete when it has this many keys. The number is low enough that the prefetched
/// lines stay in the cache.
const PREFETCH_KEYS: usize = 128;

/// A value of up to this many bytes is freed on the main thread if no I/O thread gets a batch.
const FREED_HERE_BYTES: usize = 64 << 10;

impl Server {
    /// Handles the messages of the I/O threads, and executes their batches. Not inlined, because the calling
    /// loop also runs where there are no I/O threads.
    #[inline(never)]
    pub(super) fn collect_from_io_threads(&mut self) {
        let mut messages = std::mem::take(&mut self.batches.messages);
        self.io_threads.pool.collect(&mut messages);
        if !messages.is_empty() {
            self.timing.is_busy = true;
            self.host.shown.io_threads.reads_pending = messages.len() as u64;
            let mut group = std::mem::take(&mut self.batches.group);
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
                group.drain(..).for_each(|message| self.handle_message(message));
            }
            drop(rest);
            self.batches.group = group;
            self.host.shown.io_threads.reads_pending = 0;
        }
        self.batches.messages = messages;
    }

    /// Prefetches the keys of a group's batches together, if there are at least two keys and
    /// `prefetch-batch-max-size` permits prefetching.
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

    fn handle_message(&mut self, message: ToMain) {
        match message {
            ToMain::Batch(batch) => self.execute_batch(batch),
            ToMain::Usage(key, usage) => {
                // The client has sent bytes only if the buffer has grown.
                let known = self.engine.session(key).map_or(0, |session| session.caller.traffic.input_bytes);
                if usage.used > known {
                    self.engine.touch_last_interaction(key, self.host.recent());
                }
                self.note_usage(key, usage);
            }
            ToMain::Traffic(key, traffic) => self.count_traffic(key, traffic),
            ToMain::Ended(key, why) => self.connection_lost(key, &why),
            ToMain::Released(moving) => self.returned(*moving),
            ToMain::Stopped(id, failure) => self.io_thread_stopped(id, failure.as_deref()),
        }
    }

    /// Handles the end of an I/O thread. If the thread still has connections, they are lost. This occurs
    /// only when its event loop has failed.
    fn io_thread_stopped(&mut self, id: IoThreadId, failure: Option<&str>) {
        if self.io_threads.pool.stopped(id) {
            let text = match failure {
                Some(reason) => {
                    format!("The event loop of an I/O thread failed ({reason}): its clients are closed.")
                }
                None => "An I/O thread ended unexpectedly: its clients are closed.".to_owned(),
            };
            self.host.note(LogLevel::Warning, &text);
        }
        let is_lost = |owner: &SocketOwner| owner.io_thread() == Some(id);
        let lost = self.sockets.clients.iter().filter(|(_, owner)| is_lost(owner));
        let lost: Vec<SessionKey> = lost.map(|(key, _)| key).collect();
        lost.into_iter().for_each(|key| self.end_client(key));
    }

    pub(super) fn count_traffic(&mut self, key: SessionKey, traffic: Traffic) {
        self.host.work.counts.net_input_bytes += traffic.received as u64;
        if traffic.sent > 0 {
            self.host.work.counts.net_output_bytes += traffic.sent as u64;
            self.engine.sent(key, traffic.sent, self.host.recent());
        }
    }

    fn execute_batch(&mut self, mut batch: Box<Batch>) {
        let key = batch.key;
        self.engine.recycle(std::mem::take(&mut batch.reply));
        self.host.shown.io_threads.reads += 1;
        self.host.work.reads += 1;
        self.host.shown.io_threads.wait_ns += self.timing.began_ns.saturating_sub(batch.at_ns);
        self.count_traffic(key, batch.traffic);
        let mut flow = Flow::Continue;
        if self.ending.is_some() {
            batch.outcome = BatchOutcome::Close;
            return self.return_batch(batch);
        }
        if !batch.requests.is_empty() {
            let Batch { input, requests, prepared, .. } = &*batch;
            let done = self.engine.submit_prepared(key, input, requests, prepared, &mut self.host);
            flow = done.flow;
            batch.done = end_of_executed(&batch.requests, done.executed, &batch.input);
        }
        batch.outcome = match (flow, batch.failed.take()) {
            (Flow::Continue, None) => BatchOutcome::GoOn,
            (Flow::Continue, Some(broken)) => {
                self.engine.protocol_error(key, &broken.error.message(), &broken.input, &mut self.host);
                BatchOutcome::Close
            }
            (Flow::Waiting, _) => BatchOutcome::Deferred,
            (Flow::Closing, _) => BatchOutcome::Close,
        };
        if self.note_usage(key, batch.usage) {
            // The outcome is `Close`, because the I/O thread must not parse the rest of the batch again
            // while the order to close the connection is being sent.
            batch.outcome = BatchOutcome::Close;
        }
        self.batches.executed.push(batch);
    }

    /// Records the usage of a query buffer that an I/O thread has. Returns whether the client is ended
    /// because of the usage.
    fn note_usage(&mut self, key: SessionKey, usage: QueryBufUsage) -> bool {
        self.host.note_input(usage.room);
        self.engine.publish_input(key, usage.used, usage.room.saturating_sub(usage.used));
        let is_overlong = usage.used > self.engine.limits().client_query_buffer;
        if is_overlong && !self.is_ending(key) {
            self.end_overlong(key);
        }
        is_overlong
    }

    fn is_ending(&self, key: SessionKey) -> bool {
        self.engine.session(key).is_none_or(|session| session.caller.closing != Closing::No)
    }

    /// Whether a request of a client is deferred, so that the requests after it wait. False while a debugger
    /// has stopped a script, because the requests after EVAL are for the debugger.
    pub(super) fn is_deferred(&self, key: SessionKey) -> bool {
        self.engine.session(key).is_some_and(|session| session.waiting.is_some()) && !self.engine.debugs(key)
    }

    /// Frees a value on an I/O thread that gets a batch in any case. If there is no such thread, frees a
    /// small value here, and a large value on the lazy free thread.
    pub(super) fn free_value(&mut self, value: Value) {
        // The I/O threads take turns, so that none of them frees all values.
        let turn = self.host.shown.io_threads.freed as usize;
        match self.batches.executed.len() {
            // No batch is sent to an I/O thread in this iteration. Freeing a small value here costs less
            // than a message to the lazy free thread.
            0 if value.heap_bytes() <= FREED_HERE_BYTES => drop(value),
            0 => self.free(Garbage::Value(value)),
            n => {
                self.host.shown.io_threads.freed += 1;
                self.batches.executed[turn % n].garbage.push(value);
            }
        }
    }

    /// Sends the batches of this iteration back with their replies.
    pub(super) fn return_batches(&mut self) {
        if self.batches.executed.is_empty() {
            return;
        }
        let mut executed = std::mem::take(&mut self.batches.executed);
        for batch in executed.drain(..) {
            self.batches.has_served = true;
            let needs = match self.engine.output_bound() {
                // With `u64::MAX` no output waits for a sync of the append-only file.
                u64::MAX => 0,
                _ => self.engine.output_position(batch.key),
            };
            self.return_when_durable(batch, needs);
        }
        self.batches.executed = executed;
    }

    /// Sends a batch back with its replies, or keeps it until the replies are durable. While a batch is
    /// kept, its connection receives nothing, does not move, and has no other batch. `needs`: the position
    /// of the append-only file that must be durable before the replies are sent.
    fn return_when_durable(&mut self, mut batch: Box<Batch>, needs: u64) {
        let key = batch.key;
        let is_durable = needs <= self.engine.output_bound();
        if let Some((outbox, closing)) = self.engine.take_output(key) {
            if is_durable {
                batch.reply = outbox;
            } else if !outbox.is_empty() {
                // This output is older than the replies to the batch's requests, and is durable.
                let push = Push { key, outbox, then: AfterPush::Stay };
                self.io_threads.pool.send(batch.from, ToIoThread::Push(Box::new(push)));
            }
            if closing == Closing::AfterReply {
                batch.outcome = BatchOutcome::Close;
            }
        }
        if !is_durable {
            self.batches.kept.insert(key, (needs, batch));
            return self.engine.check_output_limit(key, &mut self.host);
        }
        batch.authentication = self.engine.authentication(key);
        self.host.shown.io_threads.writes += 1;
        self.host.work.writes += 1;
        self.return_batch(batch);
    }

    /// Continues the kept batch of a client whose output has become durable or grown. Returns whether the
    /// client has a kept batch.
    pub(super) fn go_on_with_kept(&mut self, key: SessionKey) -> bool {
        if self.batches.kept.is_empty() {
            return false;
        }
        let Some((needs, batch)) = self.batches.kept.remove(&key) else { return false };
        self.return_when_durable(batch, needs);
        true
    }

    /// Sends a finished batch back to its I/O thread.
    fn return_batch(&mut self, mut batch: Box<Batch>) {
        if batch.outcome == BatchOutcome::Deferred && !self.is_deferred(batch.key) {
            // The deferred request has ended since it was executed.
            batch.outcome = BatchOutcome::Resumed;
        }
        self.io_threads.pool.send(batch.from, ToIoThread::Reply(batch));
    }

    /// Sends published messages to clients of I/O threads. Called before batches and outboxes are sent,
    /// because the messages were published earlier.
    pub(super) fn send_multicasts(&mut self) {
        while let Some(output) = self.engine.take_multicast(&mut self.host) {
            self.host.work.writes += output.receivers;
            self.host.shown.io_threads.writes += output.receivers;
            let id = IoThreadId(usize::from(output.group.0));
            self.io_threads.pool.send(id, ToIoThread::Multicast(output.multicasts));
        }
    }

    /// Sends output that belongs to no batch to a client of an I/O thread.
    pub(super) fn push_output(&mut self, key: SessionKey, id: IoThreadId) {
        let Some((outbox, closing)) = self.engine.take_output(key) else { return };
        if outbox.is_empty() && closing == Closing::No {
            self.engine.check_output_limit(key, &mut self.host);
            return self.engine.recycle(outbox);
        }
        self.host.work.writes += 1;
        self.host.shown.io_threads.writes += 1;
        let then = after_push(closing);
        self.io_threads.pool.send(id, ToIoThread::Push(Box::new(Push { key, outbox, then })));
        self.engine.check_output_limit(key, &mut self.host);
    }
}

/// What an I/O thread does with the client after a push.
pub(super) fn after_push(closing: Closing) -> AfterPush {
    match closing {
        Closing::No => AfterPush::Stay,
        Closing::AfterReply | Closing::Now => AfterPush::Close,
    }
}
