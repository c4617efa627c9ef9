//! Replicas and their replication history: operations that need only the control plane.

use crate::between_units::BetweenUnits;
use crate::process::Process;
use crate::{Control, ReplicationState};
use sluice_base::{LogLevel, Now, hex};
use sluice_config::param;

impl Control {
    /// Frees the backlog after `repl-backlog-ttl` without replicas, and ends the history: later writes
    /// are in no history, so the next replica needs a full synchronisation.
    pub fn end_idle_history(&mut self, now: Now, process: &mut dyn Process) {
        if !self.between_units(BetweenUnits::History) {
            return;
        }
        let stream = &mut self.replication.stream;
        if !stream.generates()
            || !stream.replicas.is_empty()
            || !self.replication.full_syncs.wanted.is_empty()
        {
            return;
        }
        let ttl_s = self.config.int(param::REPL_BACKLOG_TTL);
        let since_s = *stream.idle_since_s.get_or_insert(now.unix_s());
        if ttl_s > 0 && now.unix_s() - since_s > ttl_s {
            stream.end_history(hex(&process.entropy()));
            let text = format!("Replication backlog freed after {ttl_s} seconds without connected replicas.");
            process.log(LogLevel::Notice, &text);
        }
    }

    /// Drops positions of the stream that are reserved for a replica's second connection, if the connection
    /// for its snapshot has been closed for `RESERVED_S` seconds, or if more bytes are kept for them than the
    /// size of the backlog plus the hard output limit of replicas.
    pub fn forget_reserved(&mut self, now: Now) {
        let Control { replication: ReplicationState { stream, .. }, limits, .. } = self;
        let (end, hard) = (stream.offset, limits.output[1].hard as u64);
        let allowed = if hard > 0 { limits.backlog_bytes.saturating_add(hard) } else { u64::MAX };
        stream.reserved.retain(|reserved| {
            reserved.gone_s.is_none_or(|gone_s| now.unix_s() - gone_s < RESERVED_S)
                && end - reserved.offset <= allowed
        });
    }

    /// Asks the replicas for their offsets if a client, a shutdown or a slot migration waits for them, at
    /// most once an iteration. The replicas are not asked while one of them takes over.
    pub fn ask_replicas(&mut self) {
        if self.is_handing_over() || !std::mem::take(&mut self.replication.ask_replicas) {
            return;
        }
        let stream = &mut self.replication.stream;
        if stream.has_begun() {
            stream.command_of_its_own([&b"REPLCONF"[..], b"GETACK", b"*"].into_iter());
        } else {
            // Without a history, the reference counts one byte for this request, which ROLE and INFO show.
            stream.offset += 1;
        }
    }

    /// Whether a replica of this cluster node waits for the end of the stream in order to take over.
    pub fn is_handing_over(&self) -> bool {
        self.cluster.as_ref().is_some_and(|mode| mode.machine.is_handing_over())
    }
}

/// Time for which a position stays reserved after the connection for the replica's snapshot was closed, in
/// seconds.
const RESERVED_S: i64 = 60;
