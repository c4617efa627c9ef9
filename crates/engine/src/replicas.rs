//! Feeding the replicas: what each is queued of the stream, and when one is cut because it is too slow.
//!
//! A replica is queued the stream from the backlog, up to a window ahead of what it has received. So a slow one costs nothing but
//! the bytes that the backlog has to keep for it beyond its size: these the output limit is about. Writers never wait for a
//! replica: it is closed when it passes the limit, and comes back with PSYNC.

use crate::engine::{Engine, hex};
use crate::output_limit::exceeds;
use crate::process::{LogLevel, Process};
use crate::repl_stream::{Backlog, WINDOW_BYTES};
use crate::session::{Closing, Session, SyncStage};
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
        let is_held = backlog.end() - needed.min(backlog.end()) > control.limits.backlog_bytes;
        control.stream.offered(needed, control.limits.backlog_bytes);
        if is_held {
            self.limit_replicas(process);
        }
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

    /// A replica has gone.
    pub(crate) fn detach_replica(&mut self, key: SessionKey, session: &Session) {
        self.control.stream.detach(key);
        self.leave_full_sync(session);
        self.refresh();
    }
}
