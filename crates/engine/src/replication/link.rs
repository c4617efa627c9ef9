//! The link to the primary in the engine: the inputs of its state machine, and the decisions that the
//! engine carries out.
//!
//! The machine belongs to the role ([`ReplicaRole`](sluice_control::replication::role::ReplicaRole)). The
//! machine alone keeps the primary's address, the state of the link and whether a file is being committed.
//! Its outputs wait in order in `ReplicationState::link_outputs`. The engine carries out decisions about
//! data, history and clients. Orders about connections are for the process, which
//! [`LinkDriver`](crate::replication::transport::LinkDriver) drives.

use crate::core::Core;
use crate::persistence::background::Jobs;
use crate::persistence::rewriting::Rewrites;
use crate::replication::failover::FailoverSteps;
use crate::replication::replicas::ReplicaFeeds;
use crate::replication::role::RoleChanges;
use sluice_base::version::COMPATIBLE;
use sluice_config::choice::{DisklessLoad, ReplCompression};
use sluice_config::{Config, param};
use sluice_control::Control;
use sluice_control::process::Process;
use sluice_control::replication::role::SyncSource;
use sluice_replication::{
    Credentials, Input, LinkDecision, LinkOutput, LinkState, ReplicaLink, Surroundings, SyncFailure,
    TransportOrder,
};
use sluice_snapshot::NotLoaded;

/// The steps of the link to the primary.
pub(crate) struct LinkSteps<'a> {
    core: &'a mut Core,
}

impl<'a> LinkSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> LinkSteps<'a> {
        LinkSteps { core }
    }
}

impl LinkSteps<'_> {
    /// As [`Engine::step_link`](crate::engine::Engine::step_link).
    pub(crate) fn step_link(&mut self, input: Input<'_>, last_activity_ns: u64, process: &mut dyn Process) {
        let resume = self.core.control.replication.resume_point();
        let may_connect = !self.core.is_loading();
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
            last_activity_ns,
            credentials: (!password.is_empty())
                .then_some(Credentials { user: (!user.is_empty()).then_some(user), password }),
            port: u16::try_from(port).unwrap_or(0),
            address: config.bytes(param::REPLICA_ANNOUNCE_IP),
            node_id: node_id.as_deref().map(str::as_bytes),
            version: COMPATIBLE,
            dual_channel: config.bool(param::DUAL_CHANNEL_REPLICATION_ENABLED),
            skips_checksum,
            codecs: codecs_of(config),
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
            // `as_mut` marks the replication state as changed, because derived flags depend on the state of
            // the link.
            let _ = replication.replica.as_mut();
        }
    }

    pub(crate) fn take_transport_order(&mut self, process: &mut dyn Process) -> Option<TransportOrder> {
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
                    RoleChanges::of(self.core).apply_role(process);
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
            LinkDecision::Load if self.core.is_loading() => {
                self.step_link(
                    Input::Failed(attempt_of(&self.core.control), SyncFailure::Transfer),
                    0,
                    process,
                );
            }
            LinkDecision::Load => RoleChanges::of(self.core).replace_data(SyncSource::File, process),
            LinkDecision::Adopt(point) => {
                self.core.control.replication.link_counts.snapshots += 1;
                RoleChanges::of(self.core).adopt_history(point, process);
            }
            LinkDecision::Continue(replid) => {
                self.core.control.replication.link_counts.continued += 1;
                ReplicaFeeds::of(self.core).continue_history(replid);
            }
            LinkDecision::HandedOver => FailoverSteps::of(self.core).note_handed_over(process),
            LinkDecision::NotHandedOver => {
                FailoverSteps::of(self.core).give_failover_up(
                    "Failover target rejected psync request",
                    None,
                    process,
                );
            }
            LinkDecision::Acknowledge => RoleChanges::of(self.core).acknowledge(),
            LinkDecision::Commit => {
                if let Some(role) = self.core.control.replication.replica.quietly() {
                    role.commit_waits = true;
                }
            }
        }
    }

    /// Reports to the link how the load of its snapshot has ended (D-9). The link's outputs are carried out
    /// with the next order, so the link adopts the history of the data before a role that has waited for
    /// the load is taken up.
    pub(crate) fn tell_link_of_load(&mut self, result: Result<(), NotLoaded>, process: &mut dyn Process) {
        let attempt = attempt_of(&self.core.control);
        match result {
            Ok(()) => {
                // This input changes nothing if the snapshot was loaded from its file.
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

    /// Whether the received snapshot is to replace the RDB file now. The replacement waits while the RDB
    /// file is about to become the base of the append-only file. Returns `true` only once for a snapshot, and
    /// then ends a background save.
    pub(crate) fn takes_commit(&mut self, process: &mut dyn Process) -> bool {
        if !self.core.control.replication.replica.as_ref().is_some_and(|role| role.commit_waits)
            || Rewrites::of(self.core).is_snapshot_wanted(process)
        {
            return false;
        }
        self.core.control.replication.forget_commit();
        Jobs::of(self.core).break_off_save(process);
        self.core.control.persistence.saving.scheduled = false;
        true
    }

    /// How a snapshot is loaded from the connection; `None` if it is received into a file.
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

    /// Whether a snapshot from the primary needs no checksum: TLS checks the bytes, and no file is kept.
    pub(crate) fn skips_checksum(&self) -> bool {
        self.core.control.config.bool(param::TLS_REPLICATION) && self.memory_load().is_some()
    }
}

/// Compression methods offered to the primary, as capabilities.
fn codecs_of(config: &Config) -> &'static [&'static [u8]] {
    match config.choice(param::REPL_COMPRESSION) {
        ReplCompression::No => &[],
        ReplCompression::Yes | ReplCompression::Lz4 => &[b"lz4"],
        ReplCompression::Zstd => &[b"lz4", b"zstd"],
    }
}

/// Number of the link's current attempt; 0 without a primary.
pub(crate) fn attempt_of(control: &Control) -> u64 {
    control.replication.link().map_or(0, ReplicaLink::attempt)
}

const SECOND_NS: u64 = 1_000_000_000;
