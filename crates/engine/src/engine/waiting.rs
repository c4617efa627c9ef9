//! What the process tells the engine of clients that wait.

use crate::engine::Engine;
use crate::waiting::migration::MigrationEnds;
use crate::waiting::slow_reads::{SLOW_READER_NS, SlowReadSteps};
use sluice_base::{Now, SessionKey};
use sluice_commands::MigrationOutcome;
use sluice_control::process::Process;
use sluice_resp::Outbox;
use sluice_session::slow_reads::PieceRoom;

impl Engine {
    /// A migration has ended. To be called between units. While CLIENT PAUSE or a failover of the cluster
    /// keeps writes back, the migration keeps its keys: the cron ends the migration behind the pause.
    pub fn end_migration(&mut self, id: u64, outcome: MigrationOutcome, process: &mut dyn Process) {
        MigrationEnds::of(&mut self.core).settle_migration(id, outcome, process);
        self.serve_waiting(process);
    }

    /// So many slow reads can be produced at a time.
    pub fn set_slow_read_threads(&mut self, threads: usize) {
        self.core.control.clients.slow_reads.threads = threads;
    }

    /// Whether the thread that produces a client's reply has waited for the client rather than worked.
    pub fn is_slow_reader(&self, key: SessionKey) -> bool {
        let producing = self.core.sessions.get(key).and_then(|session| session.producing());
        producing.is_some_and(|producing| producing.waited_ns >= SLOW_READER_NS)
    }

    /// So many of the threads wait for slow readers.
    pub fn set_slow_reads_held(&mut self, held: usize) {
        self.core.control.clients.slow_reads.held = held;
    }

    /// A thread that produced a slow read has no roots any more: the next one can begin.
    pub fn slow_thread_is_free(&mut self, process: &mut dyn Process) {
        let reads = &mut self.core.control.clients.slow_reads;
        reads.running = reads.running.saturating_sub(1);
        self.core.control.clients.blocking.thread_is_free();
        self.serve_waiting(process);
    }

    /// What slow reads hold alone: `each_alone` is the sum of what every one of them holds, and nobody else,
    /// not even another one. `holding`: those that still have their roots.
    ///
    /// What two reads hold together is not in that sum. The bytes that keys have lost to others since the
    /// first of them began are an upper bound of all. A cut loses far more than reads, so that beside one the
    /// sum has to do.
    pub fn set_slow_read_retained(&mut self, each_alone: usize, holding: impl Iterator<Item = SessionKey>) {
        SlowReadSteps::of(&mut self.core).set_slow_read_retained(each_alone, holding)
    }

    /// Whether a client is to be given the next piece of its reply.
    pub fn piece_room(&mut self, key: SessionKey, now: Now) -> PieceRoom {
        SlowReadSteps::of(&mut self.core).piece_room(key, now)
    }

    /// Takes a piece of a client's reply.
    pub fn take_piece(&mut self, key: SessionKey, piece: Outbox, process: &mut dyn Process) {
        SlowReadSteps::of(&mut self.core).take_piece(key, piece, process)
    }

    /// The client was given the last piece of its reply, which took so much processor time: it goes on. A
    /// client that is gone is none of it.
    pub fn end_slow_read(&mut self, key: SessionKey, produced_ns: u64, process: &mut dyn Process) {
        SlowReadSteps::of(&mut self.core).end_slow_read(key, produced_ns, process)
    }
}
