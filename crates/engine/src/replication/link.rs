//! The link to the primary in the engine: what a step of its machine can see, and what of its wishes the
//! engine does itself.
//!
//! The machine belongs to the role
//! ([`ReplicaRole`](sluice_control::replication::role::ReplicaRole)): who is followed, how far the link is
//! and whether a file is committed is asked of the machine, and noted nowhere else. What it wants done
//! waits in order in `ReplicationState::link_outputs`. The engine does what concerns data, history and
//! clients; what concerns connections is for the process, which
//! [`LinkDriver`](crate::replication::transport::LinkDriver) drives.

use crate::engine::Engine;
use sluice_base::version::COMPATIBLE;
use sluice_config::choice::DisklessLoad;
use sluice_config::param;
use sluice_control::Control;
use sluice_control::process::Process;
use sluice_control::replication::role::{LinkCounts, SyncSource};
use sluice_replication::{
    Credentials, HistoryPoint, Input, LinkDecision, LinkOutput, LinkState, Primary, ReplicaLink,
    Surroundings, SyncFailure, TransportOrder,
};
use sluice_snapshot::NotLoaded;

impl Engine {
    /// How far the link to the primary is.
    pub fn link_state(&self) -> LinkState {
        self.core.control.replication.link().map_or(LinkState::None, ReplicaLink::state)
    }

    /// The number of the link's attempt under way; 0 without a primary.
    pub fn link_attempt(&self) -> u64 {
        self.core.control.replication.link().map_or(0, ReplicaLink::attempt)
    }

    /// What has come of the links so far.
    pub fn link_counts(&self) -> LinkCounts {
        self.core.control.replication.link_counts
    }

    /// When time is told to the link next, monotonic ns; `u64::MAX` without a primary.
    pub fn link_tick_ns(&self) -> u64 {
        self.core.control.replication.replica.as_ref().map_or(u64::MAX, |role| role.next_tick_ns)
    }

    /// Takes a step of the machine of the link. Orders about
    /// connections come from [`Engine::next_transport_order`].
    /// `heard_ns`: when something was heard last on a connection that others read.
    pub fn step_link(&mut self, input: Input<'_>, heard_ns: u64, process: &mut dyn Process) {
        let resume = self.core.control.replication.resume_point();
        let may_connect = !self.is_loading();
        let skips_checksum = self.skips_checksum();
        let node_id = self.core.control.cluster.as_ref().map(|mode| mode.id().to_string());
        let Control { replication, config, .. } = &mut self.core.control;
        let Some(role) = replication.replica.quietly().as_mut() else { return };
        let (user, password) = (config.bytes(param::PRIMARYUSER), config.bytes(param::PRIMARYAUTH));
        let announced = config.int(param::REPLICA_ANNOUNCE_PORT);
        let served = if config.bool(param::TLS_REPLICATION) { param::TLS_PORT } else { param::PORT };
        let port = if announced > 0 { announced } else { config.int(served) };
        let around = Surroundings {
            now_ns: process.recent().mono_ns,
            timeout_ns: config.uint(param::REPL_TIMEOUT).saturating_mul(SECOND_NS),
            heard_ns,
            credentials: (!password.is_empty())
                .then_some(Credentials { user: (!user.is_empty()).then_some(user), password }),
            port: u16::try_from(port).unwrap_or(0),
            address: config.bytes(param::REPLICA_ANNOUNCE_IP),
            node_id: node_id.as_deref().map(str::as_bytes),
            version: COMPATIBLE,
            dual_channel: config.bool(param::DUAL_CHANNEL_REPLICATION_ENABLED),
            skips_checksum,
            may_connect,
            resume: resume.as_ref(),
        };
        let seen = |link: &ReplicaLink| (link.state(), link.is_committed());
        let (was_up, before) = (role.is_up(), seen(&role.link));
        role.link.step(input, &around);
        replication.link_outputs.extend(role.link.take_outputs());
        if was_up && !role.is_up() {
            role.down_since_s = process.recent().unix_s();
        }
        let after = seen(&role.link);
        if before.0 != after.0 && after.0 == LinkState::Transfer {
            role.transfer_since_ns = around.now_ns;
        }
        if before != after {
            // Others draw conclusions from how far the link is.
            let _ = replication.replica.as_mut();
        }
    }

    /// What is to be done next about the link's connections, in order. What the link has decided about the
    /// data, their history and the clients of this server is done on the way. After the last order a role is
    /// taken up that has waited for the end of a load: the outputs name the history of the data that were
    /// loaded, and begin their stream.
    pub fn next_transport_order(&mut self, process: &mut dyn Process) -> Option<TransportOrder> {
        loop {
            match self.core.control.replication.link_outputs.pop_front() {
                Some(LinkOutput::Decision(decision)) => self.carry_out_decision(decision, process),
                Some(LinkOutput::Order(order)) => {
                    if order == TransportOrder::Close {
                        self.core.control.replication.forget_commit();
                    }
                    return Some(order);
                }
                None => {
                    self.apply_role(process);
                    if self.core.control.replication.link_outputs.is_empty() {
                        return None;
                    }
                }
            }
        }
    }

    fn carry_out_decision(&mut self, decision: LinkDecision, process: &mut dyn Process) {
        match decision {
            LinkDecision::Log(level, line) => process.log(level, &line),
            LinkDecision::Load if self.is_loading() => {
                self.step_link(Input::Failed(self.link_attempt(), SyncFailure::Transfer), 0, process);
            }
            LinkDecision::Load => self.begin_sync_load(SyncSource::File, process),
            LinkDecision::Adopt(point) => {
                self.core.control.replication.link_counts.snapshots += 1;
                self.adopt_history(point, process);
            }
            LinkDecision::Continue(replid) => {
                self.core.control.replication.link_counts.continued += 1;
                self.continue_history(replid);
            }
            LinkDecision::HandedOver => self.end_failover(process),
            LinkDecision::NotHandedOver => {
                self.abort_failover("Failover target rejected psync request", process);
            }
            LinkDecision::Acknowledge => self.acknowledge(),
            LinkDecision::Commit => {
                if let Some(role) = self.core.control.replication.replica.quietly() {
                    role.commit_waits = true;
                }
            }
        }
    }

    /// Tells the link how the load of its snapshot has ended (D-9). What it wants of its connections is done
    /// with the next order: the history of the data is the link's ahead of a role that has waited for the end
    /// of the load.
    pub(crate) fn tell_link_of_load(&mut self, result: Result<(), NotLoaded>, process: &mut dyn Process) {
        let attempt = self.link_attempt();
        match result {
            Ok(()) => {
                // This says nothing new where the snapshot was loaded from its file.
                self.step_link(Input::Accepted(attempt), 0, process);
                self.step_link(Input::Loaded(attempt), 0, process);
            }
            Err(_) => {
                let is_of_file = self.core.control.replication.is_file_committed();
                let failure = if is_of_file { SyncFailure::Load } else { SyncFailure::Stream };
                self.step_link(Input::Failed(attempt, failure), 0, process);
            }
        }
    }

    /// Whether the snapshot that was received is to take the place of the RDB file now: it waits while that
    /// file is about to become the base of the append-only file. `true` is said once.
    pub(crate) fn takes_commit(&mut self, process: &mut dyn Process) -> bool {
        if !self.core.control.replication.replica.as_ref().is_some_and(|role| role.commit_waits)
            || self.is_snapshot_wanted(process)
        {
            return false;
        }
        self.core.control.replication.forget_commit();
        self.break_off_save(process);
        self.core.control.persistence.saving.scheduled = false;
        true
    }

    /// How a snapshot is loaded from the connection, where it is.
    pub(crate) fn memory_load(&self) -> Option<DisklessLoad> {
        let wanted = self.core.control.config.choice::<DisklessLoad>(param::REPL_DISKLESS_LOAD);
        match wanted {
            DisklessLoad::Disabled => None,
            DisklessLoad::OnEmptyDb => {
                self.core.keyspace.iter().all(|(_, db)| db.is_empty()).then_some(wanted)
            }
            DisklessLoad::SwapDb | DisklessLoad::FlushBeforeLoad => Some(wanted),
        }
    }

    /// Whether a snapshot from the primary needs no checksum: TLS checks what it carries, and no file is
    /// kept.
    pub(crate) fn skips_checksum(&self) -> bool {
        self.core.control.config.bool(param::TLS_REPLICATION) && self.memory_load().is_some()
    }

    /// Where the data stand in a history, if they belong to one and no snapshot is about to replace them.
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

    /// A link to this primary, which the next tick makes.
    pub(super) fn new_link(&mut self, primary: Primary) -> ReplicaLink {
        let link =
            ReplicaLink::new(primary, self.core.rng.next_u64(), self.core.control.replication.link_attempts);
        match self.is_failing_over() {
            true => link.handing_over(),
            false => link,
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;
