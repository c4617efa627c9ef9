//! What memory is used for: the numbers behind INFO memory and MEMORY STATS.

use super::client_memory::ClientMemory;
use super::view::View;
use sluice_keyspace::Db;
use sluice_replication::Backlog;

/// Where the memory goes, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryReport {
    /// Given out by the allocator.
    pub used: u64,
    /// Most so far.
    pub peak: u64,
    /// Before there was data.
    pub startup: u64,
    /// Clients other than replicas.
    pub clients: u64,
    /// Replicas.
    pub replicas: u64,
    /// The backlog.
    pub backlog: u64,
    /// What it keeps beyond its size because replicas are behind.
    pub replica_buffers: u64,
    /// What replicas were queued and have not received.
    pub replica_queues: u64,
    /// What the links of a cluster have queued, and keep of unfinished messages.
    pub links: u64,
    /// What the connections of moves of slots to this node take.
    pub slot_imports: u64,
    /// What the streams of exports of slots have in memory, and their connections take.
    pub slot_exports: u64,
    /// Everything that is not data: startup, clients, links, indexes of the keyspace.
    pub overhead: u64,
    /// The rest.
    pub dataset: u64,
    /// Keys.
    pub keys: u64,
}

impl MemoryReport {
    /// The numbers now. O(databases), and O(clients) where their memory is not known.
    pub fn new(view: &View<'_>) -> MemoryReport {
        let facts = view.facts;
        let used = facts.used_memory as u64;
        let mut report = MemoryReport {
            used,
            peak: used.max(facts.used_memory_peak as u64),
            startup: facts.used_memory_startup as u64,
            ..MemoryReport::default()
        };
        let memory = view.client_memory.unwrap_or_else(|| {
            let mut memory = ClientMemory::default();
            view.sessions.iter().chain(view.asker).for_each(|session| memory.add(session));
            memory
        });
        (report.clients, report.replicas) = (memory.clients, memory.replicas);
        report.replica_queues = memory.replica_queues;
        let kept = view.control.replication.stream.backlog().map_or(0, Backlog::footprint) as u64;
        let has_replicas = !view.control.replication.stream.replicas.is_empty();
        report.backlog = if has_replicas { kept.min(view.control.limits.backlog_bytes) } else { kept };
        let spooled = view.control.replication.stream.spooled.memory_bytes() as u64;
        report.replica_buffers = kept - report.backlog + spooled + facts.stream_buffer.bytes;
        report.links = view.control.cluster.as_ref().map_or(0, |mode| mode.machine.link_bytes()) as u64;
        let streams = view.control.cluster.as_ref().map_or(0, |mode| mode.exports().memory_bytes()) as u64;
        (report.slot_imports, report.slot_exports) = (memory.slot_imports, memory.slot_exports + streams);
        let moves = report.slot_imports + report.slot_exports;
        let buffers = moves + report.backlog + report.replica_buffers + report.links;
        report.overhead = report.startup + report.clients + report.replicas + buffers;
        for (_, db) in view.keyspace.iter() {
            report.keys += db.len() as u64;
            report.overhead += index_bytes(db);
        }
        report.dataset = used.saturating_sub(report.overhead);
        report
    }

    /// Share of the data in what was added since the start, percent.
    pub(crate) fn dataset_percent(&self) -> f64 {
        percent(self.dataset, self.used.saturating_sub(self.startup))
    }

    /// Share of the peak in use now, percent.
    pub(crate) fn peak_percent(&self) -> f64 {
        percent(self.used, self.peak)
    }
}

/// Bytes of both indexes of a database.
pub(crate) fn index_bytes(db: &Db) -> u64 {
    (db.index_bytes() + db.expires_bytes()) as u64
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
