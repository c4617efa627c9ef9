//! Feeding the replicas: the part of the stream that is queued for each, and closing replicas that
//! are too slow.
//!
//! For each replica the stream is queued from the backlog, up to a window ahead of the bytes that it has
//! received. So a slow replica costs only the bytes that the backlog keeps for that replica beyond
//! `repl-backlog-size`, and the output limit applies to these bytes. Writers never wait for a replica: a
//! replica that passes the limit is closed, and returns with PSYNC. While a replica still takes a snapshot,
//! the stream after that snapshot does not count, because the bytes that exceed the backlog's size are
//! written to disk (`stream/spooled.rs` of the crate `replication`).

use crate::core::Core;
use crate::replication::full_sync::FullCopies;
use crate::session::output_limit::exceeds;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_base::SessionKey;
use sluice_base::hex;
use sluice_config::param;
use sluice_control::process::{Process, SaveError};
use sluice_control::replication::acks::online_replicas;
use sluice_control::{Control, ReplicationState};
use sluice_replication::Backlog;
use sluice_session::replica_feed::StreamTaken;
use sluice_session::{Closing, NOT_ACKED, ReplicaState, Session};

/// Steps that feed the replicas and close those that are too slow.
pub(crate) struct ReplicaFeeds<'a> {
    core: &'a mut Core,
}

impl<'a> ReplicaFeeds<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> ReplicaFeeds<'a> {
        ReplicaFeeds { core }
    }
}

impl ReplicaFeeds<'_> {
    /// Queues new bytes of the stream for the replicas, and counts the good replicas if their number may have
    /// changed: once an iteration of the event loop.
    pub(crate) fn deliver_stream(&mut self, process: &mut dyn Process) {
        if self.core.control.replication.stream.has_news() {
            self.offer_stream(process);
        }
        if self.core.control.replication.count_good_replicas {
            self.count_good_replicas(process.recent());
        }
    }

    fn offer_stream(&mut self, process: &mut dyn Process) {
        self.spool_stream(process);
        let Core { control, sessions, stats, .. } = self.core;
        let replicas = std::mem::take(&mut control.replication.stream.replicas);
        let Some((backlog, spooled)) = control.replication.stream.sources() else {
            control.replication.stream.replicas = replicas;
            return;
        };
        let (mut needed, end) = (u64::MAX, backlog.end());
        for key in &replicas {
            let Some(session) =
                sessions.get_mut(*key).filter(|session| session.caller.closing != Closing::Now)
            else {
                continue;
            };
            match session.take_stream(backlog, spooled) {
                StreamTaken::Bytes(bytes) => stats.syncs.output_bytes += bytes,
                StreamTaken::Failed => {
                    session.caller.closing = Closing::Now;
                    control.clients.to_close.push(*key);
                    continue;
                }
            }
            session.note_output(&mut control.clients.ready);
            let state = session.caller.replica_state().filter(|replica| replica.spool.is_none());
            needed = state.map_or(needed, |replica| needed.min(replica.next));
        }
        control.replication.stream.replicas = replicas;
        needed = control
            .replication
            .stream
            .reserved
            .iter()
            .fold(needed, |needed, reserved| needed.min(reserved.offset));
        let is_held = end - needed.min(end) > control.limits.backlog_bytes;
        control.replication.stream.offered(needed, control.limits.backlog_bytes);
        if is_held || !self.core.control.replication.stream.spooled.is_empty() {
            self.limit_replicas(process);
        }
    }

    /// Makes the process spool the stream that exceeds the backlog, for replicas that take a snapshot.
    fn spool_stream(&mut self, process: &mut dyn Process) {
        let Core { control, sessions, .. } = self.core;
        let kept = control.limits.backlog_bytes + SPOOLED_FROM_BYTES;
        let bound = control.replication.stream.offset.saturating_sub(kept);
        let waiting: Vec<(SessionKey, u64)> = control
            .replication
            .stream
            .replicas
            .iter()
            .filter_map(|key| {
                let session = sessions.get(*key).filter(|session| session.waits_for_snapshot())?;
                let replica = session.caller.replica_state().filter(|replica| replica.spool.is_none())?;
                (replica.next < bound).then_some((*key, replica.next))
            })
            .collect();
        let Some((_, start)) = waiting.first().copied() else { return };
        // Replicas of another snapshot are handled in the next iteration.
        let group: Vec<SessionKey> =
            waiting.iter().filter(|(_, next)| *next == start).map(|(key, _)| *key).collect();
        if control.replication.stream.spooled.cannot {
            return;
        }
        match process.spool_stream(group.len()) {
            Ok(spool) => {
                let receivers = control.replication.stream.spooled.add(spool, group.len(), start);
                for (key, receiver) in group.into_iter().zip(receivers) {
                    let replica = sessions.get_mut(key).and_then(|session| session.caller.replica.as_mut());
                    if let Some(replica) = replica {
                        replica.spool = Some(receiver);
                    }
                }
            }
            Err(SaveError(line)) => {
                control.replication.stream.spooled.cannot = true;
                process.log(LogLevel::Warning, &line);
            }
        }
    }

    /// Memory that the backlog takes beyond its configured size, memory of the spooled stream, and memory of
    /// bytes that were queued for replicas and are not received yet. O(replicas).
    pub(crate) fn held_for_replicas(&self) -> usize {
        let stream = &self.core.control.replication.stream;
        let kept = stream.backlog().map_or(0, Backlog::footprint);
        let size = usize::try_from(self.core.control.limits.backlog_bytes).unwrap_or(usize::MAX);
        let sessions = stream.replicas.iter().filter_map(|key| self.core.sessions.get(*key));
        kept.saturating_sub(size)
            + stream.spooled.memory_bytes()
            + sessions.map(|session| session.outbox_capacity() + session.in_flight).sum::<usize>()
    }

    /// Closes each replica for which the backlog, or a spool in memory, keeps more bytes than the output
    /// limit of replicas allows.
    pub(crate) fn limit_replicas(&mut self, process: &mut dyn Process) {
        let now = process.recent();
        let Some(backlog) = self.core.control.replication.stream.backlog() else { return };
        let (end, keys) = (backlog.end(), self.core.control.replication.stream.replicas.clone());
        for line in self.core.control.replication.stream.spooled.warnings() {
            process.log(LogLevel::Warning, &line);
        }
        for key in keys {
            let Some(mut session) = self.core.sessions.take(key) else { continue };
            let Control { replication: ReplicationState { stream, .. }, limits, .. } = &mut self.core.control;
            let Some(replica) = session.caller.replica_state() else {
                self.core.sessions.put_back(session);
                continue;
            };
            let alone = match replica.spool {
                Some(receiver) => stream.spooled.unwritten_bytes(receiver),
                // The stream that waits for the end of a snapshot is written to disk instead.
                None if session.waits_for_snapshot() && !stream.spooled.cannot => 0,
                None => {
                    let behind = end.saturating_sub(replica.next).saturating_sub(limits.backlog_bytes);
                    usize::try_from(behind).unwrap_or(usize::MAX)
                }
            };
            let is_over = exceeds(alone, limits.output[1], &mut session.caller, now);
            if is_over && session.caller.closing != Closing::Now {
                self.disconnect_replica(&mut session, process);
            }
            self.core.sessions.put_back(session);
        }
    }

    fn disconnect_replica(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.caller.closing = Closing::Now;
        self.core.control.clients.to_close.push(session.key);
        self.core.log_output_limit(session, process);
    }

    /// Counts the replicas that `min-replicas-to-write` can rely on.
    pub(crate) fn count_good_replicas(&mut self, now: Now) {
        let control = &mut self.core.control;
        control.replication.count_good_replicas = false;
        let lag_s = control.config.int(param::MIN_REPLICAS_MAX_LAG);
        let is_good = |replica: &ReplicaState| replica.is_good(now.unix_s(), lag_s);
        let good = online_replicas(control, &self.core.sessions).filter(is_good).count() as i64;
        if good != *self.core.control.replication.good_replicas {
            *self.core.control.replication.good_replicas = good;
        }
    }

    /// Forgets a replica that has gone.
    pub(crate) fn detach_replica(&mut self, key: SessionKey, session: &Session) {
        self.core.control.replication.stream.detach(key);
        if let Some(receiver) = session.caller.replica_state().and_then(|replica| replica.spool) {
            self.core.control.replication.stream.spooled.leave(receiver);
        }
        self.core.control.replication.count_good_replicas = true;
        let id = session.caller.id;
        if let Some(reserved) =
            self.core.control.replication.stream.reserved.iter_mut().find(|reserved| reserved.client == id)
        {
            reserved.gone_s = Some(self.core.upkeep.cron.last_second);
        }
        FullCopies::of(self.core).leave_full_sync(session);
        self.restore_superseded(session);
    }

    /// When the latest connection of a replica has gone, earlier connections from the same address count
    /// again. Their old acknowledgements are forgotten, because the replica may have acknowledged more before
    /// it reconnected than it has now.
    fn restore_superseded(&mut self, gone: &Session) {
        let (ip, port) = gone.caller.replica_address();
        if !gone.caller.supersedes()
            || gone.caller.replica.as_ref().is_none_or(|own| own.superseded_at.is_some())
        {
            return;
        }
        let is_there = |session: &&Session| session.caller.is_reached_at(ip, port);
        let sessions = self.core.control.replicas().into_iter().filter_map(|key| self.core.sessions.get(key));
        let others: Vec<&Session> = sessions.filter(is_there).collect();
        let is_last = |session: &&Session| {
            session.caller.supersedes()
                && session.caller.replica.as_ref().is_some_and(|replica| replica.superseded_at.is_none())
        };
        if others.iter().any(is_last) {
            return;
        }
        let keys: Vec<SessionKey> = others.iter().map(|session| session.key).collect();
        for key in keys {
            let Some(session) = self.core.sessions.get_mut(key) else { continue };
            if let Some(replica) = &mut session.caller.replica
                && replica.superseded_at.take().is_some()
            {
                (replica.acked, replica.acked_aof) = (NOT_ACKED, 0);
            }
        }
    }

    /// Closes the connections of all replicas, which must then ask for the history again.
    pub(crate) fn close_replicas(&mut self) {
        let waiting: Vec<SessionKey> = self.core.control.replication.full_syncs.waiting().collect();
        for key in self.core.control.replication.stream.replicas.iter().copied().chain(waiting) {
            if let Some(session) = self.core.sessions.get_mut(key)
                && session.caller.closing != Closing::Now
            {
                session.caller.closing = Closing::Now;
                self.core.control.clients.to_close.push(key);
            }
        }
    }

    /// Leaves the replication history of the former data, which a snapshot has replaced, or which were
    /// dropped. `Engine::adopt_history` names the new history next; if the link has ended by then, no replica
    /// can resume from here.
    pub(crate) fn leave_history(&mut self, process: &mut dyn Process) {
        if let Some(role) = self.core.control.replication.replica.as_mut() {
            role.can_resume = false;
        }
        if self.core.control.replication.stream.has_begun() {
            self.close_replicas();
            self.core.control.replication.stream.begin(hex(&process.entropy()));
        }
    }

    /// Notes that the primary continues the history of the data, under another id if one is given.
    /// Replicas of this server then know the old id only, and must ask again.
    pub(crate) fn continue_history(&mut self, replid: Option<String>) {
        if let Some(replid) = replid {
            self.core.control.replication.stream.continue_history(replid);
            self.close_replicas();
        }
    }

    /// As [`Engine::check_output_limit`](crate::engine::Engine::check_output_limit).
    pub(crate) fn check_output_limit(&mut self, key: SessionKey, process: &mut dyn Process) {
        let Some(mut session) = self.core.sessions.take(key) else { return };
        self.core.limit_output(&mut session, process);
        let is_replica = session.caller.replica.is_some();
        self.core.sessions.put_back(session);
        if is_replica {
            self.limit_replicas(process);
        }
    }
}

/// Bytes beyond the backlog's size from which the stream that waits for the end of a snapshot is
/// written to disk.
const SPOOLED_FROM_BYTES: u64 = 1 << 20;
