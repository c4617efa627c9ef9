//! Replies that wait until what they tell is durable (C-5).
//!
//! When a log must be on disk before a client learns of a write, the output of each turn is *held* with the log's offset
//! at that moment, whoever it is for: a read may tell what another client wrote. It goes out, in order, when the log is
//! durable up to there; until then the log may be written by another thread, and nobody's turn waits for it.
//!
//! There is no log yet, so nothing is held: `gate` is `None`, which costs a look per phase. The tests hold a log that is slow
//! on purpose ([`SlowLog`]) against it, with and without workers.
//!
//! Invariants: (1) output is sealed when it is held: what a client is told later has an entry of its own; (2) entries are
//! released in the order in which they were held, so a connection's bytes stay in order; (3) released output whose
//! connection cannot take it just now (a send is in flight, it is between two loops) waits in `sealed`, in order.

use super::{Closing, Outbox, Server, SessionKey};
use crate::iothreads::{Batch, Push, ToWorker};
use crate::switches;
use crate::wire::Place;
use std::collections::VecDeque;

/// See the module.
pub(super) struct Gate {
    log: SlowLog,
    held: VecDeque<(u64, Held)>,
    sealed: VecDeque<Output>,
}

enum Held {
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
            self.durable = offset;
        }
    }
}

impl Gate {
    /// The gate that a test asks for; none in a release build.
    pub(super) fn for_tests() -> Option<Box<Gate>> {
        let delay_us = switches::number(switches::FSYNC_US)?;
        let log = SlowLog { delay_ns: delay_us * 1000, pending: VecDeque::new(), written: 0, durable: 0 };
        Some(Box::new(Gate { log, held: VecDeque::new(), sealed: VecDeque::new() }))
    }

    /// When something will be released that waits now.
    pub(super) fn due_ns(&self) -> u64 {
        self.log.pending.front().map_or(u64::MAX, |(_, due_ns)| *due_ns)
    }
}

impl Server {
    /// Holds the turn's replies, and releases what is durable by now.
    pub(super) fn write_durably(&mut self) {
        let (written, now_ns) = (self.engine.written(), self.turn_began_ns);
        let Some(gate) = &mut self.gate else { return };
        gate.log.write(written, now_ns);
        let mut executed = std::mem::take(&mut self.executed);
        for mut batch in executed.drain(..) {
            self.finish_batch(&mut batch);
            self.hold(Held::Batch(batch));
        }
        self.executed = executed;
        let mut ready = std::mem::take(&mut self.ready);
        self.engine.take_ready(&mut ready);
        for key in ready.drain(..) {
            self.hand_over_sealed(key);
            self.hold_output(key);
        }
        ready.append(&mut self.ready);
        self.ready = ready;
        self.release();
    }

    /// Seals what a session has for its client.
    pub(super) fn hold_output(&mut self, key: SessionKey) {
        let Some((outbox, closing)) = self.engine.take_output(key) else { return };
        if outbox.is_empty() && closing == Closing::No {
            return self.engine.recycle(outbox);
        }
        self.hold(Held::Output(Output { key, outbox, closing }));
        self.engine.check_output_limit(key, &mut self.host);
    }

    fn hold(&mut self, what: Held) {
        let needs = self.engine.written();
        if let Some(gate) = &mut self.gate {
            gate.held.push_back((needs, what));
        }
    }

    fn release(&mut self) {
        while let Some(gate) = &mut self.gate
            && let durable = gate.log.durable
            && let Some((_, what)) = gate.held.pop_front_if(|(needs, _)| *needs <= durable)
        {
            match what {
                Held::Batch(batch) => self.return_batch(batch),
                Held::Output(output) => {
                    let key = output.key;
                    gate.sealed.push_back(output);
                    self.hand_over_sealed(key);
                }
            }
        }
    }

    /// Hands on what was released for a connection, as far as it can take it.
    pub(super) fn hand_over_sealed(&mut self, key: SessionKey) {
        loop {
            let wire = self.wires.get(key.slot as usize).and_then(Option::as_ref);
            let wire = wire.filter(|wire| wire.key == key).map(|wire| (wire.place, wire.sending));
            let waits = matches!(wire, Some((Place::Here, true) | (Place::Leaving | Place::Returning(_), _)));
            let Some(gate) = self.gate.as_mut().filter(|_| !waits) else { return };
            let Some(first) = gate.sealed.iter().position(|output| output.key == key) else { return };
            let Some(Output { outbox, closing, .. }) = gate.sealed.remove(first) else { return };
            match wire {
                Some((Place::Worker(seat), _)) => {
                    let then_close = closing != Closing::No;
                    self.pool.tell(seat, ToWorker::Push(Box::new(Push { key, outbox, then_close })));
                }
                Some(_) => self.send_outbox(key, outbox, closing),
                None => self.engine.recycle(outbox),
            }
        }
    }

    /// Forgets what waits for a connection that has ended.
    pub(super) fn forget_sealed(&mut self, key: SessionKey) {
        if let Some(gate) = &mut self.gate {
            gate.sealed.retain(|output| output.key != key);
        }
    }

    /// The log is whole: everything goes out.
    pub(super) fn release_all(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.log.durable = u64::MAX;
            self.write_durably();
        }
    }
}
