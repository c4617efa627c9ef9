//! The end of an iteration of the event loop: the work that is done once an iteration, after the commands.
//!
//! Most servers have nothing to do here most of the time, and checking each step costs up to a tenth of the
//! time of a GET that arrives alone. So the reasons for the steps are of two kinds. *Standing* reasons (a
//! stream, a limit, a cluster, clients that track) are looked up after the epoch (a number that changes with
//! the control plane) has advanced, and from then on at the end of each iteration while one of them holds.
//! *Passing* reasons (a replica that is to be asked, a full copy that is wanted) are flags that each end
//! reads.
//!
//! Invariants: (1) code that gives a step something to do advances the epoch, or sets a flag of the passing
//! reasons; (2) after each advance of the epoch, at least one end of an iteration takes all steps; (3) builds
//! with debug assertions check that no standing reason holds when the steps are left out.

use crate::core::Core;
use crate::engine::Engine;
use crate::persistence::aof::Appending;
use crate::pubsub::tracking::TrackingSteps;
use crate::replication::full_sync::FullCopies;
use crate::replication::replicas::ReplicaFeeds;
use crate::upkeep::evict::Evictions;
use crate::upkeep::promised::PromisedSteps;
use sluice_control::process::Process;

impl Engine {
    /// Does the work of the end of an iteration, after its commands. For example, replicas get the snapshot
    /// that they ask for, and the bytes that commands have added to the replication stream. Cost: some reads
    /// if there is nothing to do.
    #[inline]
    pub fn end_iteration(&mut self, process: &mut dyn Process) {
        let epoch = self.core.control.epoch.now();
        if self.core.derived.plain_end == Some(epoch) && !has_passing_ends(&self.core) {
            debug_assert!(!has_standing_ends(&self.core), "an end of an iteration was left out");
            self.scripts().renew_script_share();
            return;
        }
        take_steps(self, process);
        self.core.derived.plain_end = (!has_standing_ends(&self.core)).then_some(epoch);
    }
}

/// Takes the steps of the end of an iteration; after [`Engine::stop`], only those before the full copies, and
/// the delivery of the stream.
#[inline(never)]
fn take_steps(engine: &mut Engine, process: &mut dyn Process) {
    engine.core.refresh_derived();
    PromisedSteps::of(&mut engine.core).make_slice();
    engine.scripts().renew_script_share();
    Appending::of(&mut engine.core).list_durable_output();
    TrackingSteps::of(&mut engine.core).advance_tracking(process);
    engine.advance_cluster(process);
    if engine.core.control.persistence.has_stopped {
        return ReplicaFeeds::of(&mut engine.core).deliver_stream(process);
    }
    FullCopies::of(&mut engine.core).serve_full_syncs(process);
    engine.core.control.ask_replicas();
    ReplicaFeeds::of(&mut engine.core).deliver_stream(process);
    engine.advance_end(process);
    engine.advance_failover(process);
    Appending::of(&mut engine.core).note_history();
    Evictions::of(&mut engine.core).evict_by_clock(false, process);
    // If a stream was evicted, clients that wait for a consumer group of the stream are served now.
    engine.serve_waiting(process);
    if engine.core.control.limits.maxmemory_clients > 0 {
        Evictions::of(&mut engine.core).evict_clients(process);
    }
}

/// Whether a step of the end of an iteration has something to do for a passing reason.
#[inline]
fn has_passing_ends(core: &Core) -> bool {
    let replication = &core.control.replication;
    replication.ask_replicas
        || replication.count_good_replicas
        || replication.failover_asked
        || replication.stream.has_news()
        || replication.full_syncs.are_under_way()
        || core.control.clients.blocking.is_due()
}

/// Whether a standing reason holds, for which each end of an iteration takes its steps.
fn has_standing_ends(core: &Core) -> bool {
    let control = &core.control;
    let tracking = &control.clients.tracking;
    control.persistence.has_stopped
        || control.persistence.aof.is_on()
        || control.persistence.pending_end.is_some()
        || control.replication.stream.generates()
        || control.replication.failover.is_some()
        || control.has_promises()
        || control.cluster.is_some()
        || tracking.is_active()
        || tracking.has_remains()
        || tracking.has_orphaned()
        || !tracking.broadcasts.is_idle()
        || control.limits.maxmemory > 0
        || control.limits.maxmemory_clients > 0
        || core.has_open_unit()
}

/// State of the engine that makes an iteration of the event loop do more than run clients' plain commands.
pub mod beside_commands {
    use crate::engine::Engine;

    /// A number that changes whenever the control plane changes in a way that derived flags depend on.
    #[inline]
    pub fn epoch(engine: &Engine) -> u32 {
        engine.core.control.epoch.now()
    }

    /// Whether the engine has actions for the process, a job is under way, scripts wait for their turn, or a
    /// change of role or an output of the link to a primary is pending.
    #[inline]
    pub fn has_news(engine: &Engine) -> bool {
        !engine.core.actions.is_empty()
            || engine.has_job()
            || engine.has_turns()
            || engine.core.control.replication.role_wanted.is_some()
            || !engine.core.control.replication.link_outputs.is_empty()
    }

    /// Whether this server has a primary, or a change of role or an output of a link to a primary is not
    /// carried out yet.
    pub fn has_link(engine: &Engine) -> bool {
        let replication = &engine.core.control.replication;
        replication.replica.is_some()
            || replication.role_wanted.is_some()
            || !replication.link_outputs.is_empty()
    }

    /// Whether a transaction or script is in progress, scripts wait for their turn, or a cycle of expiry is
    /// under way.
    pub fn has_more_slices(engine: &Engine) -> bool {
        engine.next_unit_ns() != u64::MAX || engine.core.upkeep.expiry.is_running
    }
}
