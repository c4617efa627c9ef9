//! The durability barrier: under `appendfsync always`, output waits until what it tells is durable (C-5).
//!
//! The engine says which position of the append-only file must be on disk before a client's output is sent: that of the last
//! write of what the client has read or written. Output whose position is durable is sent at once, whatever others wait for;
//! other output is *deferred* and goes out when the thread of the file has synced that far. No iteration waits for the disk.
//!
//! Without `always` there is no barrier: `Server::barrier` is `None`, which costs a look per phase.
//!
//! Invariants: (1) output is taken out of its session when it is deferred: later output of a client has an entry of its own;
//! (2) the position of a client never falls, and entries are released by position, so a connection's bytes stay in order;
//! (3) what is released in an iteration is released before new output is looked at, so that nothing overtakes it;
//! (4) released output whose connection is between two threads waits in `in_transit`, in order, until the connection has arrived
//! or a batch of it goes back.

mod deferred;

pub(super) use deferred::Barrier;

use super::Server;
use super::batches::after_push;
use crate::clients::SocketOwner;
use crate::connection::{self, Flushed, Owner, Stay};
use crate::iothreads::{Batch, IoThreadId, Push, ToIoThread};
use deferred::{Deferred, Output};
use sluice_engine::{Closing, SessionKey};
use sluice_resp::Outbox;

impl Server {
    /// Releases what is durable by now, then sends or defers the iteration's output.
    pub(super) fn write_when_durable(&mut self) {
        let strict = self.host.aof.as_ref().filter(|_| self.engine.is_aof_strict());
        let durable = strict.map_or(u64::MAX, |aof| aof.shared().durable());
        self.release_durable(durable);
        // What was listed before there was a barrier.
        self.send_multicasts();
        let mut executed = self.take_executed();
        for mut batch in executed.drain(..) {
            let needs = self.engine.output_position(batch.key);
            self.finish_batch(&mut batch);
            self.send_or_defer(needs, Deferred::Batch(batch));
        }
        self.put_back_executed(executed);
        let mut ready = std::mem::take(&mut self.sockets.ready);
        self.engine.take_ready(&mut ready);
        for key in ready.drain(..) {
            self.release_in_transit(key);
            self.take_and_send(key);
        }
        ready.append(&mut self.sockets.ready);
        self.sockets.ready = ready;
        if durable == u64::MAX {
            // What is between two threads is sent when it has arrived: until then the barrier stays.
            self.barrier.take_if(|barrier| barrier.is_empty());
        }
    }

    /// Sends or defers what a session has for its client.
    fn take_and_send(&mut self, key: SessionKey) {
        let needs = self.engine.output_position(key);
        let Some((outbox, closing)) = self.engine.take_output(key) else { return };
        if outbox.is_empty() && closing == Closing::No {
            return self.engine.recycle(outbox);
        }
        self.send_or_defer(needs, Deferred::Output(Output { key, outbox, closing }));
        self.engine.check_output_limit(key, &mut self.host);
    }

    fn send_or_defer(&mut self, needs: u64, what: Deferred) {
        let Some(barrier) = &mut self.barrier else { return };
        if needs <= barrier.durable {
            return self.send_released(what);
        }
        barrier.order += 1;
        barrier.deferred.insert((needs, barrier.order), what);
    }

    fn release_durable(&mut self, durable: u64) {
        let Some(barrier) = &mut self.barrier else { return };
        barrier.durable = durable;
        while let Some(barrier) = &mut self.barrier
            && let Some(first) = barrier.deferred.first_entry()
            && first.key().0 <= durable
        {
            let what = first.remove();
            self.send_released(what);
        }
    }

    fn send_released(&mut self, what: Deferred) {
        match what {
            Deferred::Batch(batch) => {
                self.push_before_batch(&batch);
                self.return_batch(batch);
            }
            Deferred::Output(output) => {
                let key = output.key;
                if let Some(barrier) = &mut self.barrier {
                    barrier.in_transit.push_back(output);
                }
                self.release_in_transit(key);
            }
        }
    }

    /// Sends what was released for a connection, unless that is between two threads.
    fn release_in_transit(&mut self, key: SessionKey) {
        loop {
            let Some(barrier) = &self.barrier else { return };
            let Some(first) = barrier.in_transit.iter().position(|output| output.key == key) else { return };
            let owner = self.sockets.clients.owner(key);
            match owner {
                Some(SocketOwner::Main(connection)) if connection.stay != Stay::Yes => return,
                Some(SocketOwner::LeavingIoThread(_) | SocketOwner::InHand) => return,
                Some(SocketOwner::Main(_) | SocketOwner::IoThread(_)) | None => {}
            }
            let io_thread = owner.and_then(SocketOwner::io_thread);
            let is_gone = owner.is_none();
            let Some(barrier) = &mut self.barrier else { return };
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

    /// Nothing has to wait any more: everything goes out.
    pub(super) fn release_all(&mut self) {
        self.release_durable(u64::MAX);
    }
}
