//! Calls of the process about clients that wait.

use crate::engine::Engine;
use crate::waiting::migration::MigrationEnds;
use crate::waiting::slow_reads::{SLOW_READER_NS, SlowReadSteps};
use sluice_base::{Now, SessionKey};
use sluice_commands::MigrationOutcome;
use sluice_control::process::Process;
use sluice_resp::Outbox;
use sluice_session::slow_reads::PieceRoom;

impl Engine {
    /// Notes that a migration has ended. To be called while no command or transaction is in progress. While
    /// writes are held (by CLIENT PAUSE, a failover of the cluster, or a move of slots), a migration that is
    /// to delete its keys keeps them for now; the cron ends the migration when writes are no longer held.
    pub fn end_migration(&mut self, id: u64, outcome: MigrationOutcome, process: &mut dyn Process) {
        MigrationEnds::of(&mut self.core).settle_migration(id, outcome, process);
        self.serve_waiting(process);
    }

    /// Sets how many slow reads can be produced at a time.
    pub fn set_slow_read_threads(&mut self, threads: usize) {
        self.core.control.clients.slow_reads.threads = threads;
    }

    /// Whether the thread that produces a client's reply has waited for the client rather than worked.
    pub fn is_slow_reader(&self, key: SessionKey) -> bool {
        let producing = self.core.sessions.get(key).and_then(|session| session.producing());
        producing.is_some_and(|producing| producing.waited_ns >= SLOW_READER_NS)
    }

    /// Sets how many of the threads wait for slow readers.
    pub fn set_slow_reads_held(&mut self, held: usize) {
        self.core.control.clients.slow_reads.held = held;
    }

    /// Notes that a thread that produced a slow read has dropped its references to values, so that the next
    /// slow read can begin.
    pub fn slow_thread_is_free(&mut self, process: &mut dyn Process) {
        let reads = &mut self.core.control.clients.slow_reads;
        reads.running = reads.running.saturating_sub(1);
        self.core.control.clients.blocking.thread_is_free();
        self.serve_waiting(process);
    }

    /// Reports the memory that only slow reads hold. `each_alone` is the sum, over the reads, of the bytes
    /// that only one read holds. `holding` are the clients whose reads still refer to values.
    ///
    /// Bytes that two reads share are not in the sum. So with several reads, another number is used if it is
    /// larger: the bytes of values that the keyspace has left to other owners since the first of the reads
    /// began. During a snapshot that number would be far too large, so the sum is used.
    pub fn set_slow_read_retained(&mut self, each_alone: usize, holding: impl Iterator<Item = SessionKey>) {
        SlowReadSteps::of(&mut self.core).set_slow_read_retained(each_alone, holding)
    }

    /// Whether a client can be given the next piece of its reply.
    pub fn piece_room(&mut self, key: SessionKey, now: Now) -> PieceRoom {
        SlowReadSteps::of(&mut self.core).piece_room(key, now)
    }

    /// Appends a piece to a client's reply.
    pub fn take_piece(&mut self, key: SessionKey, piece: Outbox, process: &mut dyn Process) {
        SlowReadSteps::of(&mut self.core).take_piece(key, piece, process)
    }

    /// Notes that the client was given the last piece of its reply, which took `produced_ns` of processor
    /// time, so that the client continues. The key of a client that is gone is ignored.
    pub fn end_slow_read(&mut self, key: SessionKey, produced_ns: u64, process: &mut dyn Process) {
        SlowReadSteps::of(&mut self.core).end_slow_read(key, produced_ns, process)
    }
}
