//! The memory that each part of the engine takes. The sum must be what the allocator reports.
//!
//! Sizes are those of the allocator's blocks, which are rounded up (`sluice_base::heap`). The sum leaves out
//! texts of the configuration, which CONFIG SET replaces by texts of much the same length, and the pieces of
//! a snapshot that is under way.

use crate::engine::Engine;
use crate::exec::open_unit::OpenUnit;
use sluice_base::heap;
use sluice_commands::PreparedBatch;
use sluice_control::cluster::mode::ClusterMode;
use sluice_control::replication::failover::Failover;
use sluice_control::replication::role::ReplicaRole;
use sluice_replication::UnitCommands;
use sluice_resp::Outbox;
use sluice_scripts::state::RunBuffers;

/// A part of memory: its name, as INFO shows it, and its bytes.
pub type MemoryPart = (&'static str, usize);

impl Engine {
    /// The parts, each with its bytes. To be called between commands. O(sessions, databases, keys and
    /// values outside of the entries, topics, keys that are watched or waited for, entries of the logs).
    pub fn memory_parts(&self) -> Vec<MemoryPart> {
        let (entries, keyspace) = self.core.keyspace.footprint();
        let control = &self.core.control;
        let spare: usize = heap::vec(&self.core.units.spare_outboxes)
            + self.core.units.spare_outboxes.iter().map(Outbox::footprint).sum::<usize>();
        let lists = heap::vec(&control.clients.ready)
            + heap::vec(&control.clients.to_close)
            + heap::vec(&control.clients.monitors);
        let prepared = self
            .preparing
            .batch
            .as_deref()
            .map_or(0, |batch| heap::boxed::<PreparedBatch>() + batch.footprint());
        let work = self.core.effects.footprint()
            + prepared
            + heap::vec(&self.core.actions)
            + self.core.upkeep.eviction.footprint();
        let work = work + self.core.upkeep.expiry.footprint();
        let work = work + self.open.as_deref().map_or(0, OpenUnit::footprint);
        let syncs = &control.replication.full_syncs;
        let syncs = heap::vec(&syncs.wanted) + heap::vec(&syncs.readers) + heap::vec(&syncs.ended);
        let role = control.replication.replica.as_deref().map_or(0, ReplicaRole::footprint);
        let role = role + control.replication.failover.as_deref().map_or(0, Failover::footprint);
        let role = role + control.replication.local_expiries.footprint();
        let spare_of_scripts = self.scripting.spare.as_deref().map_or(0, RunBuffers::footprint)
            + self.scripting.debug_output.footprint();
        vec![
            ("entries", entries),
            ("keyspace", keyspace),
            ("sessions", self.core.sessions.footprint()),
            ("spare_outboxes", spare),
            ("lists", lists + work),
            ("pubsub", control.clients.pubsub.footprint() + control.clients.multicasts.footprint()),
            ("users", control.clients.users.footprint() + self.probes.footprint()),
            ("watching", control.clients.watching.footprint()),
            ("tracking", control.clients.tracking.footprint() + self.core.effects.listened_footprint()),
            ("blocking", control.clients.blocking.footprint()),
            ("commandlog", control.commandlog.footprint()),
            ("latency", control.latency.footprint()),
            ("hot_keys", control.clients.hot_keys.footprint()),
            (
                "replication",
                control.replication.stream.footprint()
                    + self.core.units.spare_commands.as_deref().map_or(0, UnitCommands::footprint_boxed)
                    + syncs
                    + role,
            ),
            ("cluster", control.cluster.as_deref().map_or(0, ClusterMode::footprint)),
            ("aof", control.persistence.aof.footprint()),
            ("stats", self.core.stats.footprint()),
            ("scripts", self.script_facts().bytes() + spare_of_scripts),
        ]
    }
}
