//! How the end of the server is waited for.
//!
//! ```text
//!  OpenUnit ─its end─► Replicas ─they have all─► saves, ends
//!                         │ FAILOVER, on a primary: one has all
//!                         ├──────────► TakingOver ─demoted─► Leaving ─clients gone, or time─► saves, ends
//!                         └ FAILOVER, on a replica ────────────^
//! ```
//!
//! A step that takes too long is skipped: the server ends as if the order had been a plain one. So it does
//! where SHUTDOWN NOSAVE breaks a unit off that stands open.

use crate::cluster::driver::ClusterDriver;
use crate::core::Core;
use crate::persistence::saving::Saves;
use crate::replication::replicas::ReplicaFeeds;
use crate::waiting::ending::WaitEnds;
use sluice_base::LogLevel;
use sluice_control::Control;
use sluice_control::action::Action;
use sluice_control::between_units::BetweenUnits;
use sluice_control::persistence::ending::begin::{begin, has_to_wait, is_refused};
use sluice_control::persistence::ending::readiness::{
    EndStep, has_legacy_replicas, log_replicas, next_step, successors,
};
use sluice_control::persistence::ending::{EndOrder, EndStage, NOT_ENDED, PendingEnd};
use sluice_control::process::Process;

/// Milliseconds for which a node that has handed over sends its clients away, at most.
const LEAVING_MS_MAX: u64 = 3_000;
/// Milliseconds for which a node without clients stays all the same: other nodes have to hear that it leaves.
const LEAVING_MS_MIN: u64 = 200;

/// What becomes of an order to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndBegun {
    /// Something is waited for. The end comes as [`Action::Shutdown`].
    Waits,
    /// Nothing is left to do: the process may end.
    Ends,
    /// The server does not end; the log says why.
    Refused,
}

/// The end of the server, while it is waited for.
pub(crate) struct ServerEnd<'a> {
    core: &'a mut Core,
}

impl<'a> ServerEnd<'a> {
    /// Works on this core.
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> ServerEnd<'a> {
        ServerEnd { core }
    }
}

impl ServerEnd<'_> {
    /// As [`Engine::begin_end`](crate::engine::Engine::begin_end).
    pub(crate) fn begin_end(&mut self, order: &EndOrder, process: &mut dyn Process) -> EndBegun {
        if self.core.control.persistence.pending_end.is_some() {
            return EndBegun::Waits;
        }
        if is_refused(order, &self.core.control, process) {
            return EndBegun::Refused;
        }
        if has_to_wait(order, &self.core.control, &self.core.sessions) {
            let pending = PendingEnd::new(*order, &self.core.control, process.recent());
            begin(pending, &mut self.core.control, &self.core.sessions, process);
            return EndBegun::Waits;
        }
        match Saves::of(self.core).prepare_end(order, process) {
            true => EndBegun::Ends,
            false => EndBegun::Refused,
        }
    }

    #[cold]
    pub(crate) fn advance_pending_end(&mut self, breaks_off: bool, process: &mut dyn Process) {
        let now_ms = process.recent().mono_ns / 1_000_000;
        loop {
            match next_step(&self.core.control, &self.core.sessions, breaks_off, now_ms) {
                EndStep::Wait => return,
                EndStep::CountWrites => {
                    if let Some(mode) = &mut self.core.control.cluster {
                        mode.machine.stay(process.recent());
                    }
                    ClusterDriver::of(self.core).take_cluster_outputs(process);
                    let offset = self.core.control.replication.stream.offset;
                    self.core.control.replication.ask_replicas = true;
                    change(&mut self.core.control, |pending| {
                        (pending.offset, pending.stage) = (offset, EndStage::Replicas);
                    });
                }
                EndStep::PastReplicas => {
                    let is_handed_over = self.hand_over_for_end(process);
                    change(&mut self.core.control, |pending| {
                        let has_time = is_handed_over && now_ms < pending.deadline_ms;
                        pending.stage = if has_time { EndStage::TakingOver } else { EndStage::Ready };
                    });
                }
                EndStep::Leave => {
                    if let Some(mode) = &mut self.core.control.cluster {
                        mode.machine.leave(process.recent());
                    }
                    ClusterDriver::of(self.core).take_cluster_outputs(process);
                    self.core.control.clients.blocking.release_postponed();
                    process.log(LogLevel::Notice, "Clients are sent to other nodes before this one ends.");
                    let (earliest_ms, until_ms) = (now_ms + LEAVING_MS_MIN, now_ms + LEAVING_MS_MAX);
                    change(&mut self.core.control, |pending| {
                        pending.stage = EndStage::Leaving { earliest_ms, until_ms };
                    });
                }
                EndStep::End => {
                    let Some(pending) = self.core.control.persistence.pending_end.as_deref() else { return };
                    if pending.stage == EndStage::TakingOver {
                        process.log(LogLevel::Warning, NOT_TAKEN_OVER);
                    }
                    let order = pending.order;
                    let ends = Saves::of(self.core).prepare_end(&order, process);
                    // Nothing is executed any more: who waits gets no answer. Or the end is given up.
                    change(&mut self.core.control, |pending| {
                        (pending.is_over, pending.is_aborted) = (ends, !ends)
                    });
                    self.core.actions.extend(ends.then_some(Action::Shutdown));
                }
                EndStep::GiveUp => {
                    let Some(pending) = self.core.control.persistence.pending_end.take() else { return };
                    if let Some(mode) = &mut self.core.control.cluster {
                        mode.machine.stay(process.recent());
                    }
                    ClusterDriver::of(self.core).take_cluster_outputs(process);
                    // The next signal is the first one again.
                    self.core.actions.push(Action::KeepRunning);
                    self.core.control.clients.blocking.release_postponed();
                    for client in pending.clients {
                        WaitEnds::of(self.core)
                            .end_wait(client, process, |reply| reply.error(&NOT_ENDED.wire()));
                    }
                    return;
                }
            }
        }
    }

    /// Replicas have what they have: orders one of them to take over, if the end is to be handed over. A
    /// replica has nothing to hand over but its readers. Whether that is waited for.
    fn hand_over_for_end(&mut self, process: &mut dyn Process) -> bool {
        let Some(pending) = self.core.control.persistence.pending_end.as_deref() else { return false };
        let (offset, hands_over) = (pending.offset, pending.order.in_cluster.hands_over);
        log_replicas(&self.core.control, &self.core.sessions, offset, process);
        let successors = successors(&self.core.control, &self.core.sessions, offset);
        let has_legacy = has_legacy_replicas(&self.core.control, &self.core.sessions);
        // The writes of a unit that stands open would follow the order, and be lost.
        let hands_over = hands_over && self.core.control.between_units(BetweenUnits::End);
        let Some(mode) = self.core.control.cluster.as_mut().filter(|_| hands_over) else { return false };
        if !mode.machine.is_primary() {
            return true;
        }
        let Some(id) = mode.machine.begin_handover(process.recent(), &successors) else {
            process.log(LogLevel::Notice, if has_legacy { LEGACY_REPLICAS } else { NO_REPLICA });
            return false;
        };
        // Writes are held back from here on, whatever becomes of this end.
        ClusterDriver::of(self.core).take_cluster_outputs(process);
        let id = id.to_string();
        let order = [&b"CLUSTER"[..], b"FAILOVER", b"FORCE", b"REPLICAID", id.as_bytes()];
        self.core.control.replication.stream.command_of_its_own(order.into_iter());
        ReplicaFeeds::of(self.core).deliver_stream(process);
        process.log(LogLevel::Notice, &format!("Perform auto failover to replica {id} on shutdown."));
        true
    }
}

fn change(control: &mut Control, change: impl FnOnce(&mut PendingEnd)) {
    if let Some(pending) = control.persistence.pending_end.as_deref_mut() {
        change(pending);
    }
}

/// No replica has all data, and is known and reached as a node.
const NO_REPLICA: &str = "Unable to find a replica to perform the auto failover on shutdown.";
/// The election of the replica takes too long, or has come to nothing.
const NOT_TAKEN_OVER: &str = "The replica has not taken over in time. Exit anyway.";
/// A replica is older than the order.
const LEGACY_REPLICAS: &str = "Unable to perform auto failover on shutdown since there are legacy replicas.";
