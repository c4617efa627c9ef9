//! Replicas and the history that they follow, as far as nothing but the control plane is needed.

use crate::between_units::BetweenUnits;
use crate::process::Process;
use crate::{Control, ReplicationState};
use sluice_base::{LogLevel, Now, hex};
use sluice_config::param;

impl Control {
    /// Frees the backlog when there has been no replica for `repl-backlog-ttl`, and ends the history with it:
    /// what is written from now on is in none, so that the next replica needs everything.
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

    /// Keeps no position any longer for replicas whose snapshot's client has gone a while ago, or from which
    /// more is kept than the output limit allows.
    pub fn forget_reserved(&mut self, now: Now) {
        let Control { replication: ReplicationState { stream, .. }, limits, .. } = self;
        let (end, hard) = (stream.offset, limits.output[1].hard as u64);
        let allowed = if hard > 0 { limits.backlog_bytes.saturating_add(hard) } else { u64::MAX };
        stream.reserved.retain(|reserved| {
            reserved.gone_s.is_none_or(|gone_s| now.unix_s() - gone_s < RESERVED_S)
                && end - reserved.offset <= allowed
        });
    }

    /// Asks the replicas how far they are, for the clients of WAIT; once an iteration however many there are.
    pub fn ask_replicas(&mut self) {
        if self.is_handing_over() || !std::mem::take(&mut self.replication.ask_replicas) {
            return;
        }
        let stream = &mut self.replication.stream;
        if stream.has_begun() {
            stream.command_of_its_own([&b"REPLCONF"[..], b"GETACK", b"*"].into_iter());
        } else {
            // The reference counts one byte for asking replicas when there is none: ROLE and INFO show the
            // byte.
            stream.offset += 1;
        }
    }

    /// Whether a replica of this node of a cluster waits for the end of the stream, to take over.
    pub fn is_handing_over(&self) -> bool {
        self.cluster.as_ref().is_some_and(|mode| mode.machine.is_handing_over())
    }
}

/// Seconds for which a position is kept for a replica whose snapshot's client has gone.
const RESERVED_S: i64 = 60;
