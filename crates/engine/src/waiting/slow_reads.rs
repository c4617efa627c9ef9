//! How a slow read begins, is produced and ends. A slow read is a command whose large reply another thread
//! produces, piece by piece, while the main thread goes on.

use crate::core::Core;
use crate::exec::finish::{CommandEnding, Ended};
use crate::replication::replicas::ReplicaFeeds;
use crate::waiting::ending::{ProducedTimes, WaitEnds};
use sluice_base::{Now, SessionKey};
use sluice_commands::{PIECE_BYTES, SlowRead, WaitFor};
use sluice_control::action::Action;
use sluice_control::process::Process;
use sluice_resp::{Outbox, Request};
use sluice_session::slow_reads::{PieceRoom, Producing};
use sluice_session::{Closing, Session};

/// Steps of slow reads.
pub(crate) struct SlowReadSteps<'a> {
    core: &'a mut Core,
}

impl<'a> SlowReadSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> SlowReadSteps<'a> {
        SlowReadSteps { core }
    }
}

impl SlowReadSteps<'_> {
    /// As [`Engine::set_slow_read_retained`](crate::engine::Engine::set_slow_read_retained).
    pub(crate) fn set_slow_read_retained(
        &mut self,
        each_alone: usize,
        holding: impl Iterator<Item = SessionKey>,
    ) {
        let sessions = &self.core.sessions;
        let producing = holding.filter_map(|key| sessions.get(key)?.producing());
        let (mut reads, mut roots, mut left_before) = (0, 0, u64::MAX);
        for read in producing.filter(|read| read.root_bytes > 0) {
            reads += 1;
            roots += read.root_bytes;
            left_before = left_before.min(read.left_before);
        }
        let left = self.core.effects.left_to_others().saturating_sub(left_before);
        let is_shared = reads > 1 && !self.core.has_job();
        let together = if is_shared { usize::try_from(left).unwrap_or(roots).min(roots) } else { 0 };
        self.core.control.clients.slow_reads.retained_bytes = each_alone.max(together);
    }

    /// Undoes the counting of a slow read for which no thread is free, because the command will run again.
    #[cold]
    pub(crate) fn postpone_slow_read(&mut self, session: &mut Session, request: Request<'_>) {
        let _ = self.core.effects.take_lookups();
        session.caller.traffic.net_in =
            session.caller.traffic.net_in.saturating_sub(request.wire_len() as u64);
    }

    /// Begins the production of a slow read's reply. A second owner (root) of each value that the reply needs
    /// was taken before, so that later writes do not change the reply. Returns what the client waits for.
    #[cold]
    pub(crate) fn begin_slow_read(
        &mut self,
        mut read: Box<SlowRead>,
        ended: Ended<'_>,
        session: &mut Session,
        now: &mut Now,
        process: &mut dyn Process,
    ) -> WaitFor {
        let unsent = std::mem::take(&mut session.outbox);
        session.front.get_or_insert_default().producing = Some(Producing {
            unsent,
            reply_bytes: 0,
            moment_ns: now.mono_ns,
            executing_ns: 0,
            full_since_ns: None,
            full_ns: 0,
            waited_ns: 0,
            is_unbounded: false,
            root_bytes: read.root_bytes(),
            left_before: self.core.effects.left_to_others(),
        });
        // MONITOR lines for the client itself follow the reply.
        let executing_ns = self.core.end_command(CommandEnding::Producing, ended, session, now, process);
        if let Some(producing) = session.producing_mut() {
            producing.executing_ns = executing_ns;
            producing.left_before = self.core.effects.left_to_others();
        }
        session.note_unsent(&mut self.core.control.clients.ready);
        read.proto = session.caller.proto;
        self.core.control.clients.slow_reads.running += 1;
        self.core.control.clients.slow_reads.total += 1;
        self.core.actions.push(Action::Produce(session.key, read));
        WaitFor::Reply
    }

    /// As [`Engine::piece_room`](crate::engine::Engine::piece_room).
    pub(crate) fn piece_room(&mut self, key: SessionKey, now: Now) -> PieceRoom {
        let (others_waited_ns, are_threads_held) =
            (self.longest_wait_ns(now), self.core.control.clients.slow_reads.are_threads_held());
        let Some(session) = self.core.sessions.get_mut(key) else { return PieceRoom::Gone };
        let in_flight = session.in_flight;
        if session.caller.closing == Closing::Now {
            return PieceRoom::Gone;
        }
        let Some(producing) = session.producing_mut() else { return PieceRoom::Gone };
        if producing.is_unbounded || producing.unsent.len() + in_flight + PIECE_BYTES <= AHEAD_BYTES {
            producing.note_room(now);
            return PieceRoom::Room;
        }
        let (full_ns, all_ns) = producing.note_full(now);
        let is_too_slow = match others_waited_ns {
            None => false,
            Some(PATIENCE_NS..) if are_threads_held => all_ns >= SLOW_READER_NS,
            // At least one thread is working and may soon be free for the read that waits, so this client
            // keeps its full time.
            Some(_) => all_ns >= PATIENCE_NS,
        };
        producing.is_unbounded = full_ns >= PATIENCE_NS || is_too_slow;
        match producing.is_unbounded {
            true => PieceRoom::Room,
            false => PieceRoom::Full,
        }
    }

    /// How long the first of the clients that wait for a thread has waited, ns.
    fn longest_wait_ns(&self, now: Now) -> Option<u64> {
        let first = self.core.sessions.get(self.core.control.clients.blocking.next_slow_read()?)?;
        let WaitFor::SlowRead { since_ns } = first.waiting.as_ref()?.on else { return None };
        Some(now.mono_ns.saturating_sub(since_ns))
    }

    /// As [`Engine::take_piece`](crate::engine::Engine::take_piece).
    pub(crate) fn take_piece(&mut self, key: SessionKey, mut piece: Outbox, process: &mut dyn Process) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let Some(producing) = session.producing_mut() else { return };
        producing.reply_bytes += piece.len();
        producing.unsent.append(&mut piece);
        session.note_unsent(&mut self.core.control.clients.ready);
        if session.output_bytes() >= self.core.control.limits.output_floor {
            ReplicaFeeds::of(self.core).check_output_limit(key, process);
        }
    }

    /// As [`Engine::end_slow_read`](crate::engine::Engine::end_slow_read).
    pub(crate) fn end_slow_read(&mut self, key: SessionKey, produced_ns: u64, process: &mut dyn Process) {
        let Some(mut session) = self.core.sessions.take(key) else { return };
        if let Some(mut producing) = session.take_producing() {
            let now = process.recent();
            self.core.control.note_latency("slow-read", now, producing.produced_ns(now));
            let Producing { mut unsent, reply_bytes, executing_ns, .. } = producing;
            unsent.append(&mut session.outbox);
            session.outbox = unsent;
            session.caller.traffic.last_s = now.unix_s();
            let duration_ns = executing_ns + produced_ns;
            let times = ProducedTimes { duration_ns, executing_ns, reply_bytes };
            WaitEnds::of(self.core).end_waiting(CommandEnding::Produced, times, &mut session, process);
            self.core.control.clients.tracking.release_held(key);
            WaitEnds::of(self.core).resume(&mut session, process);
        }
        self.core.sessions.put_back(session);
    }
}

/// Maximum bytes of a reply that wait in the session for the client to take them. The producing thread is
/// ahead by two more pieces, so there is at most 1 MiB in all.
const AHEAD_BYTES: usize = 512 << 10;

/// A client that has had no room for a piece for this time, ns, gets the whole rest of the reply into its
/// output. The time must be without a break; but if other reads wait for a thread, all such times of the
/// client are added up. While slow readers hold all threads and another read has waited this long, a total of
/// [`SLOW_READER_NS`] is enough.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Total time without room, ns, from which a client counts as a slow reader.
pub(crate) const SLOW_READER_NS: u64 = 20_000_000;
