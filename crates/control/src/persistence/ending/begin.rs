//! The start of a shutdown: whether it has to wait, and whether it is refused.

use crate::Control;
use crate::between_units::BetweenUnits;
use crate::persistence::ending::{EndOrder, EndStage, PendingEnd};
use crate::persistence::saving::{Ending, in_place};
use crate::process::Process;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_config::param;
use sluice_session::Sessions;

/// Whether all replicas have acknowledged an offset of the stream, including replicas that still wait for a
/// snapshot or receive one.
pub(crate) fn are_replicas_at(control: &Control, sessions: &Sessions, offset: u64) -> bool {
    let states = control.replicas().into_iter().filter_map(|key| sessions.get(key)?.caller.replica_state());
    states.into_iter().all(|replica| u64::try_from(replica.acked).is_ok_and(|acked| acked >= offset))
}

/// Whether the shutdown has to wait for a takeover or for replicas before the server ends.
pub fn has_to_wait(order: &EndOrder, control: &Control, sessions: &Sessions) -> bool {
    if order.in_cluster.hands_over && control.cluster.is_some() {
        return true;
    }
    let is_off = order.at_once || control.config.int(param::SHUTDOWN_TIMEOUT) == 0;
    !is_off && !are_replicas_at(control, sessions, control.replication.stream.offset)
}

/// Whether the shutdown is refused: SAFE was given without FORCE, and this node's vote counts (M13). The
/// refusal is logged. A node that has handed its role over has no vote any more, so this is checked before
/// the handover.
pub fn is_refused(order: &EndOrder, control: &Control, process: &mut dyn Process) -> bool {
    let is_refused = !order.force && in_place::is_kept_as_voter(order, control);
    if is_refused {
        process.log(LogLevel::Notice, in_place::REQUESTED);
        in_place::refuse_as_voter(process);
    }
    is_refused
}

/// Makes the shutdown pending, and asks the replicas for their offsets if it waits for them.
pub fn begin(pending: PendingEnd, control: &mut Control, sessions: &Sessions, process: &mut dyn Process) {
    let has_time = pending.deadline_ms > pending.began_ns / 1_000_000;
    if has_time && !are_replicas_at(control, sessions, pending.offset) {
        process.log(LogLevel::Notice, "Waiting for replicas before shutting down.");
        control.replication.ask_replicas = true;
    }
    *control.persistence.pending_end = Some(Box::new(pending));
}

impl PendingEnd {
    /// Changes the shutdown for SHUTDOWN NOSAVE during a busy script: the shutdown no longer waits for the
    /// script. With `now` it does not wait for replicas either.
    pub(crate) fn give_up_saving(&mut self, now: Option<Now>) {
        self.order.ending = Ending::NoSave;
        if let Some(now) = now {
            self.deadline_ms = self.deadline_ms.min(now.mono_ns / 1_000_000);
        }
    }

    /// A shutdown that begins to wait at `now`.
    pub fn new(order: EndOrder, control: &Control, now: Now) -> PendingEnd {
        let timeout_s = u64::try_from(control.config.int(param::SHUTDOWN_TIMEOUT)).unwrap_or(0);
        let wait_ms = if order.at_once { 0 } else { timeout_s * 1000 };
        let stage = match control.between_units(BetweenUnits::End) {
            true => EndStage::Replicas,
            false => EndStage::OpenUnit,
        };
        PendingEnd {
            order,
            stage,
            offset: control.replication.stream.offset,
            began_ns: now.mono_ns,
            deadline_ms: now.mono_ns / 1_000_000 + wait_ms,
            clients: Vec::new(),
            is_aborted: false,
            is_over: false,
        }
    }
}
