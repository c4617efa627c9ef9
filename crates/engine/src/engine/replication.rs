//! Calls of the process about replication: the primary, the replicas, and failovers.

use crate::engine::Engine;
use crate::replication::failover::FailoverSteps;
use crate::replication::link::{LinkSteps, attempt_of};
use crate::replication::replicas::ReplicaFeeds;
use crate::replication::role::RoleChanges;
use sluice_base::SessionKey;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;
use sluice_control::replication::role::{LinkCounts, ReplicaRole, SyncSource};
use sluice_replication::{HistoryPoint, Input, LinkState, Primary, ReplicaLink, TransportOrder};
use sluice_session::ClientAddress;

impl Engine {
    /// The primary that this server follows; `None` if it is a primary itself.
    pub fn primary(&self) -> Option<&Primary> {
        self.core.control.replication.replica.as_deref().map(ReplicaRole::primary)
    }

    /// As [`ReplicationState::resume_point`](sluice_control::ReplicationState::resume_point).
    pub fn resume_point(&self) -> Option<HistoryPoint> {
        self.core.control.replication.resume_point()
    }

    /// Hard limit on the output of a replica, bytes; `None` if there is none.
    pub fn replica_output_limit(&self) -> Option<usize> {
        Some(self.core.control.limits.output[1].hard).filter(|hard| *hard > 0)
    }

    /// Begins to load the snapshot of the primary: [`Action::Load`](sluice_control::action::Action::Load).
    /// Replicas of this server are closed, because their data are not those of the snapshot. The
    /// append-only file ends, because later commands belong to other data. The old data are freed when the
    /// snapshot's header has been accepted, or are kept until the snapshot is loaded.
    pub fn begin_sync_load(&mut self, from: SyncSource, process: &mut dyn Process) {
        RoleChanges::of(&mut self.core).replace_data(from, process);
        self.serve_waiting(process);
    }

    /// Notes that the data are those of the primary at this point of its history.
    pub fn adopt_history(&mut self, point: HistoryPoint, process: &mut dyn Process) {
        RoleChanges::of(&mut self.core).adopt_history(point, process);
        self.serve_waiting(process);
    }

    /// Adds the session of the link to the primary: requests on this connection are executed
    /// as the primary's.
    pub fn connect_primary(&mut self, connection: ClientAddress, process: &mut dyn Process) -> SessionKey {
        RoleChanges::of(&mut self.core).connect_primary(connection, process)
    }

    /// Acknowledges to the primary the offset that the data have reached.
    pub fn acknowledge(&mut self) {
        RoleChanges::of(&mut self.core).acknowledge()
    }

    /// State of the link to the primary.
    pub fn link_state(&self) -> LinkState {
        self.core.control.replication.link().map_or(LinkState::None, ReplicaLink::state)
    }

    /// Number of the link's current attempt; 0 without a primary.
    pub fn link_attempt(&self) -> u64 {
        attempt_of(&self.core.control)
    }

    /// Counters of the links so far.
    pub fn link_counts(&self) -> LinkCounts {
        self.core.control.replication.link_counts
    }

    /// When the link's state machine next needs the time, in ns of the monotonic clock; `u64::MAX` without a
    /// primary.
    pub fn link_tick_ns(&self) -> u64 {
        self.core.control.replication.replica.as_ref().map_or(u64::MAX, |role| role.next_tick_ns)
    }

    /// Takes a step of the link's state machine. Orders about connections come from
    /// [`Engine::next_transport_order`]. `last_activity_ns`: when bytes last arrived on a connection that
    /// other threads read.
    pub fn step_link(&mut self, input: Input<'_>, last_activity_ns: u64, process: &mut dyn Process) {
        LinkSteps::of(&mut self.core).step_link(input, last_activity_ns, process)
    }

    /// The next order about the link's connections. This call also carries out the link's decisions about the
    /// data, their history and the clients of this server. A role that has waited for the end of a load is
    /// taken up only after the last order, because the decisions before it give the loaded data their history
    /// and begin the stream of the link.
    pub fn next_transport_order(&mut self, process: &mut dyn Process) -> Option<TransportOrder> {
        let order = LinkSteps::of(&mut self.core).take_transport_order(process);
        self.serve_waiting(process);
        order
    }

    /// The point that the data have reached in their replication history; `None` if the data belong to no
    /// history, or a snapshot is about to replace them.
    pub fn history_point(&self) -> Option<HistoryPoint> {
        match self.core.control.replication.link() {
            Some(_) if self.core.control.replication.is_file_committed() => None,
            Some(_) => self.core.control.replication.resume_point(),
            None => self
                .core
                .control
                .replication
                .stream
                .point()
                .map(|point| HistoryPoint { replid: point.replid.to_owned(), offset: point.offset }),
        }
    }

    /// Whether the target of a failover was asked to take over.
    pub fn is_failing_over(&self) -> bool {
        self.core.control.replication.failover.as_ref().is_some_and(|failover| failover.is_in_progress)
    }

    /// Whether a failover is under way that a client of this server has asked for.
    pub fn has_failover(&self) -> bool {
        self.core.control.replication.failover.is_some()
    }

    /// Goes on with work that waits for a change of roles: once an iteration.
    #[inline]
    pub(crate) fn advance_failover(&mut self, process: &mut dyn Process) {
        let is_asked =
            self.core.control.replication.failover.is_some() || self.core.control.replication.failover_asked;
        if is_asked && self.core.control.between_units(BetweenUnits::Role) {
            self.advance_roles(process);
        }
    }

    #[cold]
    fn advance_roles(&mut self, process: &mut dyn Process) {
        if FailoverSteps::of(&mut self.core).takes_up_asked_role() {
            self.serve_waiting(process);
        }
        FailoverSteps::of(&mut self.core).take_failover_step(process);
        self.serve_waiting(process);
    }

    /// Notes that the target of the failover has taken over.
    pub fn end_failover(&mut self, process: &mut dyn Process) {
        FailoverSteps::of(&mut self.core).note_handed_over(process);
        self.serve_waiting(process);
    }

    /// Aborts a failover: this server is, or becomes again, a primary. To be called while no command or
    /// transaction is in progress.
    pub fn abort_failover(&mut self, reason: &str, process: &mut dyn Process) {
        FailoverSteps::of(&mut self.core).give_failover_up(reason, None, process);
        self.serve_waiting(process);
    }

    /// Whether a snapshot for replicas is being made.
    pub fn makes_full_sync(&self) -> bool {
        self.core.control.replication.full_syncs.began_s.is_some()
    }

    /// Marks a client to be closed if its output is beyond its limit.
    pub fn check_output_limit(&mut self, key: SessionKey, process: &mut dyn Process) {
        ReplicaFeeds::of(&mut self.core).check_output_limit(key, process)
    }
}
