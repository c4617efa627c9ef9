//! The durability barrier: replies that wait until the changes that they report are durable (C-5).
//!
//! When a log must be on disk before a client learns of a write, the output of each iteration is *deferred* with the log's offset
//! at that moment, whichever client it is for: a read may report what another client wrote. It goes out, in order, when the log is
//! durable up to there; until then the log may be written by another thread, and no iteration waits for it.
//!
//! There is no log yet, so nothing is deferred: `Server::barrier` is `None`, which costs a look per phase. The tests hold a log
//! that is slow on purpose ([`SlowLog`]) against it, with and without I/O threads.
//!
//! Invariants: (1) output is taken out of its session when it is deferred: later output of a client has an entry of its own;
//! (2) entries are released in the order in which they were deferred, so a connection's bytes stay in order; (3) released
//! output whose connection is between two threads waits in `in_transit`, in order, until the connection has arrived or a batch of
//! it goes back.

use super::Server;
use super::batches::after_push;
use crate::clients::SocketOwner;
use crate::connection::{self, Flushed, Owner, Stay};
use crate::iothreads::{Batch, IoThreadId, Push, ToIoThread};
use crate::switches;
use sluice_engine::{Closing, SessionKey};
use sluice_resp::Outbox;
use std::collections::VecDeque;

/// See the module. Bounded by the output limits: what is deferred counts as output of its client.
pub(super) struct Barrier {
    log: SlowLog,
    /// Output, and the offset that must be durable first.
    deferred: VecDeque<(u64, Deferred)>,
    in_transit: VecDeque<Output>,
}

enum Deferred {
    /// With its replies in it.
    Batch(Box<Batch>),
    Output(Output),
}

struct Output {
    key: SessionKey,
    outbox: Outbox,
    closing: Closing,
}

/// A log whose every write is durable so many nanoseconds later.
struct SlowLog {
    delay_ns: u64,
    /// Offsets and when they will be durable.
    pending: VecDeque<(u64, u64)>,
    written: u64,
    durable: u64,
}

impl SlowLog {
    fn write(&mut self, offset: u64, now_ns: u64) {
        if offset > self.written {
            self.written = offset;
            self.pending.push_back((offset, now_ns + self.delay_ns));
        }
        while let Some((offset, _)) = self.pending.pop_front_if(|(_, due_ns)| *due_ns <= now_ns) {
            self.durable = self.durable.max(offset);
        }
    }
}

impl Barrier {
    /// The barrier that a test asks for; none in a release build.
    pub(super) fn from_switches() -> Option<Box<Barrier>> {
        let delay_us = switches::number(switches::FSYNC_US)?;
        let log = SlowLog { delay_ns: delay_us * 1000, pending: VecDeque::new(), written: 0, durable: 0 };
        Some(Box::new(Barrier { log, deferred: VecDeque::new(), in_transit: VecDeque::new() }))
    }

    /// When something will be released that waits now.
    pub(super) fn due_ns(&self) -> u64 {
        self.log.pending.front().map_or(u64::MAX, |(_, due_ns)| *due_ns)
    }

    /// Forgets what waits for a connection that has ended.
    pub(super) fn forget(&mut self, key: SessionKey) {
        self.in_transit.retain(|output| output.key != key);
    }
}

impl Server {
    /// Defers the iteration's replies, and releases what is durable by now.
    pub(super) fn write_when_durable(&mut self) {
        let (written, now_ns) = (self.engine.written(), self.timing.began_ns);
        let Some(barrier) = &mut self.barrier else { return };
        barrier.log.write(written, now_ns);
        let mut executed = self.take_executed();
        for mut batch in executed.drain(..) {
            self.finish_batch(&mut batch);
            self.defer(Deferred::Batch(batch));
        }
        self.put_back_executed(executed);
        let mut ready = std::mem::take(&mut self.sockets.ready);
        self.engine.take_ready(&mut ready);
        for key in ready.drain(..) {
            self.release_in_transit(key);
            self.defer_output(key);
        }
        ready.append(&mut self.sockets.ready);
        self.sockets.ready = ready;
        self.release_durable();
    }

    /// Defers what a session has for its client.
    fn defer_output(&mut self, key: SessionKey) {
        let Some((outbox, closing)) = self.engine.take_output(key) else { return };
        if outbox.is_empty() && closing == Closing::No {
            return self.engine.recycle(outbox);
        }
        self.defer(Deferred::Output(Output { key, outbox, closing }));
        self.engine.check_output_limit(key, &mut self.host);
    }

    fn defer(&mut self, what: Deferred) {
        let needs = self.engine.written();
        if let Some(barrier) = &mut self.barrier {
            barrier.deferred.push_back((needs, what));
        }
    }

    fn release_durable(&mut self) {
        while let Some(barrier) = &mut self.barrier
            && let durable = barrier.log.durable
            && let Some((_, what)) = barrier.deferred.pop_front_if(|(needs, _)| *needs <= durable)
        {
            match what {
                Deferred::Batch(batch) => {
                    self.push_before_batch(&batch);
                    self.return_batch(batch);
                }
                Deferred::Output(output) => {
                    let key = output.key;
                    barrier.in_transit.push_back(output);
                    self.release_in_transit(key);
                }
            }
        }
    }

    /// Sends what was released for a connection, unless that is between two threads.
    fn release_in_transit(&mut self, key: SessionKey) {
        loop {
            let owner = self.sockets.clients.owner(key);
            match owner {
                Some(SocketOwner::Main(connection)) if connection.stay != Stay::Yes => return,
                Some(SocketOwner::LeavingIoThread(_) | SocketOwner::InHand) => return,
                Some(SocketOwner::Main(_) | SocketOwner::IoThread(_)) | None => {}
            }
            let io_thread = owner.and_then(SocketOwner::io_thread);
            let is_gone = owner.is_none();
            let Some(barrier) = &mut self.barrier else { return };
            let Some(first) = barrier.in_transit.iter().position(|output| output.key == key) else { return };
            let Some(Output { outbox, closing, .. }) = barrier.in_transit.remove(first) else { return };
            match io_thread {
                _ if is_gone => self.engine.recycle(outbox),
                Some(id) => self.push(id, key, outbox, closing),
                None => self.send_behind(key, outbox, closing),
            }
        }
    }

    /// Sends what waits in transit for a connection whose batch goes back: it came up before. The connection cannot have left
    /// its I/O thread while the batch was away.
    fn push_before_batch(&mut self, batch: &Batch) {
        let (key, id) = (batch.key, batch.from);
        while let Some(barrier) = &mut self.barrier
            && let Some(first) = barrier.in_transit.iter().position(|output| output.key == key)
            && let Some(Output { outbox, closing, .. }) = barrier.in_transit.remove(first)
        {
            self.push(id, key, outbox, closing);
        }
    }

    fn push(&mut self, id: IoThreadId, key: SessionKey, outbox: Outbox, closing: Closing) {
        let then = after_push(closing);
        self.io_threads.pool.send(id, ToIoThread::Push(Box::new(Push { key, outbox, then })));
    }

    /// Sends output on a connection of the main thread, behind what is in flight.
    fn send_behind(&mut self, key: SessionKey, outbox: Outbox, closing: Closing) {
        let Some(mut connection) = self.take(key) else { return };
        if closing != Closing::No {
            connection.close_when_sent();
        }
        let sent = connection::send(self, &mut connection, outbox);
        self.put(connection);
        if let Flushed::Over(why) = sent {
            self.lose(key, &why);
        }
    }

    /// The log is whole: everything goes out.
    pub(super) fn release_all(&mut self) {
        if let Some(barrier) = &mut self.barrier {
            barrier.log.durable = u64::MAX;
            self.write_when_durable();
        }
    }
}
