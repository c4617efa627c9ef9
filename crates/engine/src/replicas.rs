//! Feeding the replicas: what each is queued of the stream, and when one is cut because it is too slow.
//!
//! A replica is queued the stream from the backlog, up to a window ahead of what it has received. So a slow one costs nothing but
//! the bytes that the backlog has to keep for it beyond its size: these the output limit is about. Writers never wait for a
//! replica: it is closed when it passes the limit, and comes back with PSYNC.

use crate::control::Control;
use crate::engine::{Engine, hex};
use crate::families::replication::online_replicas;
use crate::output_limit::exceeds;
use crate::process::{LogLevel, Process};
use crate::repl_stream::{Backlog, WINDOW_BYTES};
use crate::session::{Closing, ReplicaState, Session, SyncStage};
use crate::session_key::SessionKey;
use sluice_base::Now;
use sluice_config::param;

impl Session {
    /// Queues what comes next of the stream, as far as the window allows; bytes.
    pub(crate) fn take_stream(&mut self, backlog: &Backlog) -> u64 {
        let owed = self.outbox.len() + self.in_flight;
        let Some(replica) = &mut self.caller.replica else { return 0 };
        let is_ready = replica.stage == SyncStage::Online && !replica.awaits_ack && self.feed.is_none();
        if !is_ready || replica.next >= backlog.end() || owed >= WINDOW_BYTES {
            return 0;
        }
        let from = replica.next;
        replica.next = backlog.read(from, WINDOW_BYTES - owed, &mut self.outbox);
        replica.next - from
    }
}

impl Engine {
    /// Offers the replicas what was added to the stream: once an iteration of the event loop.
    pub(crate) fn deliver_stream(&mut self, process: &mut dyn Process) {
        if self.control.stream.has_news() {
            self.offer_stream(process);
        }
        if self.control.count_good_replicas {
            self.count_good_replicas(process.recent());
        }
    }

    fn offer_stream(&mut self, process: &mut dyn Process) {
        let Engine { control, sessions, stats, .. } = self;
        let Some(backlog) = control.stream.backlog() else { return };
        let mut needed = u64::MAX;
        for key in &control.stream.replicas {
            let Some(session) =
                sessions.get_mut(*key).filter(|session| session.caller.closing != Closing::Now)
            else {
                continue;
            };
            stats.repl_output_bytes += session.take_stream(backlog);
            session.note_output(&mut control.ready);
            needed = session.caller.replica.as_deref().map_or(needed, |replica| needed.min(replica.next));
        }
        needed = control.stream.reserved.iter().fold(needed, |needed, reserved| needed.min(reserved.offset));
        let is_held = backlog.end() - needed.min(backlog.end()) > control.limits.backlog_bytes;
        control.stream.offered(needed, control.limits.backlog_bytes);
        if is_held {
            self.limit_replicas(process);
        }
    }

    /// Bytes that the backlog keeps beyond its size.
    pub(crate) fn held_for_replicas(&self) -> usize {
        let kept = self.control.stream.backlog().map_or(0, Backlog::len);
        usize::try_from(kept.saturating_sub(self.control.limits.backlog_bytes)).unwrap_or(usize::MAX)
    }

    /// Closes the replicas for which alone the backlog keeps more than their limit.
    pub(crate) fn limit_replicas(&mut self, process: &mut dyn Process) {
        let now = process.recent();
        let Some(backlog) = self.control.stream.backlog() else { return };
        let (end, keys) = (backlog.end(), self.control.stream.replicas.clone());
        for key in keys {
            let Some(mut session) = self.sessions.take(key) else { continue };
            let limits = &self.control.limits;
            let behind =
                session.caller.replica.as_deref().map_or(0, |replica| end.saturating_sub(replica.next));
            let alone = usize::try_from(behind.saturating_sub(limits.backlog_bytes)).unwrap_or(usize::MAX);
            let is_over = exceeds(alone, limits.output[1], &mut session.caller, now);
            if is_over && session.caller.closing != Closing::Now {
                self.cut_replica(&mut session, process);
            }
            self.sessions.put_back(session);
        }
    }

    fn cut_replica(&mut self, session: &mut Session, process: &mut dyn Process) {
        session.caller.closing = Closing::Now;
        self.control.to_close.push(session.key);
        self.tell_of_limit(session, process);
    }

    /// Frees the backlog when there has been no replica for `repl-backlog-ttl`, and ends the history with it: what is written from
    /// now on is in none, so that the next replica needs everything.
    pub(crate) fn end_idle_history(&mut self, now: Now, process: &mut dyn Process) {
        let stream = &mut self.control.stream;
        if !stream.generates() || !stream.replicas.is_empty() || !self.control.full_syncs.wanted.is_empty() {
            return;
        }
        let ttl_s = self.control.config.int(param::REPL_BACKLOG_TTL);
        let since_s = *stream.idle_since_s.get_or_insert(now.unix_s());
        if ttl_s > 0 && now.unix_s() - since_s > ttl_s {
            stream.end_history(hex(&process.entropy()));
            let text = format!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
            process.log(LogLevel::Notice, &text);
            self.refresh();
        }
    }

    /// Counts the replicas that `min-replicas-to-write` can rely on.
    fn count_good_replicas(&mut self, now: Now) {
        let control = &mut self.control;
        control.count_good_replicas = false;
        let lag_s = control.config.int(param::MIN_REPLICAS_MAX_LAG);
        let is_good = |replica: &ReplicaState| now.unix_s() - replica.acked_s <= lag_s;
        let good = online_replicas(control, &self.sessions).filter(is_good).count() as i64;
        if good != std::mem::replace(&mut self.control.good_replicas, good) {
            self.refresh();
        }
    }

    /// Keeps no place any longer for replicas whose snapshot's client has gone a while ago, or from which more is kept than the
    /// output limit allows.
    pub(crate) fn forget_reserved(&mut self, now: Now) {
        let Control { stream, limits, .. } = &mut self.control;
        let (end, hard) = (stream.offset, limits.output[1].hard as u64);
        let allowed = if hard > 0 { limits.backlog_bytes.saturating_add(hard) } else { u64::MAX };
        stream.reserved.retain(|reserved| {
            reserved.gone_s.is_none_or(|gone_s| now.unix_s() - gone_s < RESERVED_S)
                && end - reserved.offset <= allowed
        });
    }

    /// A replica has gone.
    pub(crate) fn detach_replica(&mut self, key: SessionKey, session: &Session) {
        self.control.stream.detach(key);
        self.control.count_good_replicas = true;
        let id = session.caller.id;
        if let Some(reserved) = self.control.stream.reserved.iter_mut().find(|reserved| reserved.client == id)
        {
            reserved.gone_s = Some(self.cron.last_second);
        }
        self.leave_full_sync(session);
        self.refresh();
    }
}

impl Control {
    /// Whether there are fewer good replicas than writes need.
    pub(crate) fn lacks_replicas(&self) -> bool {
        let needed = self.config.int(param::MIN_REPLICAS_TO_WRITE);
        needed > 0
            && self.config.int(param::MIN_REPLICAS_MAX_LAG) > 0
            && !self.stream.has_primary()
            && self.good_replicas < needed
    }

    /// All replicas, those that wait for a snapshot or read one included, in order of arrival.
    pub(crate) fn replicas(&self) -> Vec<SessionKey> {
        let mut keys = self.stream.replicas.clone();
        let syncs = &self.full_syncs;
        for key in syncs.waiting().chain(syncs.readers.iter().copied()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

/// Seconds for which a place is kept for a replica whose snapshot's client has gone.
const RESERVED_S: i64 = 60;
