//! How the server waits for the conditions of its end.
//!
//! ```text
//!  OpenUnit ─its end─► Replicas ─they have all─► saves, ends
//!                         │ FAILOVER, on a primary: one has all
//!                         ├──────────► TakingOver ─demoted─► Leaving ─clients gone, or time─► saves, ends
//!                         └ FAILOVER, on a replica ────────────^
//! ```
//!
//! A step that takes too long is skipped: the server then ends as after an order without FAILOVER. The same
//! happens if SHUTDOWN NOSAVE breaks off a busy script.

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

/// Maximum milliseconds for which a node that has handed over redirects its clients before it ends.
const LEAVING_MS_MAX: u64 = 3_000;
/// Minimum milliseconds for which a node that has handed over stays, even without clients, because other
/// nodes must learn that it leaves.
const LEAVING_MS_MIN: u64 = 200;

/// Result of an order to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndBegun {
    /// The server waits for a condition. The end is reported as [`Action::Shutdown`], and an end that is
    /// given up as [`Action::KeepRunning`].
    Waits,
    /// There is nothing left to wait for: the process may end.
    Ends,
    /// The server does not end; the log says why.
    Refused,
}

/// Steps of the end of the server.
pub(crate) struct ServerEnd<'a> {
    core: &'a mut Core,
}

impl<'a> ServerEnd<'a> {
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
                    process.log(LogLevel::Notice, "Clients are redirected before this node shuts down.");
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
                    // If the server ends, nothing is executed any more, and clients that wait get no
                    // reply. Otherwise the end is given up.
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
                    // The next signal counts as the first.
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

    /// Orders a replica with all data to take over, if the order to end says FAILOVER. A node that is a
    /// replica itself has only its readers to redirect. Returns whether to wait for the handover.
    fn hand_over_for_end(&mut self, process: &mut dyn Process) -> bool {
        let Some(pending) = self.core.control.persistence.pending_end.as_deref() else { return false };
        let (offset, hands_over) = (pending.offset, pending.order.in_cluster.hands_over);
        log_replicas(&self.core.control, &self.core.sessions, offset, process);
        let successors = successors(&self.core.control, &self.core.sessions, offset);
        let has_legacy = has_legacy_replicas(&self.core.control, &self.core.sessions);
        // Nothing is handed over while a transaction or script is in progress, because its writes would
        // follow the order to take over in the stream, and be lost.
        let hands_over = hands_over && self.core.control.between_units(BetweenUnits::End);
        let Some(mode) = self.core.control.cluster.as_mut().filter(|_| hands_over) else { return false };
        if !mode.machine.is_primary() {
            return true;
        }
        let Some(id) = mode.machine.begin_handover(process.recent(), &successors) else {
            process.log(LogLevel::Notice, if has_legacy { LEGACY_REPLICAS } else { NO_REPLICA });
            return false;
        };
        // Writes are held from here on, even if this end is given up later.
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

/// Log line if no replica both has all data and is a connected node of the cluster.
const NO_REPLICA: &str = "Unable to find a replica to perform the auto failover on shutdown.";
/// Log line if the election of the replica takes too long, or has failed.
const NOT_TAKEN_OVER: &str = "The replica has not taken over in time. Exit anyway.";
/// Log line if a replica's version is too old for the order to take over.
const LEGACY_REPLICAS: &str = "Unable to perform auto failover on shutdown since there are legacy replicas.";
