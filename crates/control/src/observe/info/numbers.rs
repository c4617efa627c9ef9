//! The use of memory: the numbers of INFO memory and MEMORY STATS.

use super::client_memory::ClientMemory;
use super::view::View;
use sluice_keyspace::Db;
use sluice_replication::Backlog;

/// The parts of used memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryReport {
    /// Bytes of memory in use, as the allocator counts them.
    pub used: u64,
    /// Greatest `used` so far.
    pub peak: u64,
    /// Bytes in use before data was loaded.
    pub startup: u64,
    /// Clients other than replicas and connections of slot migrations.
    pub clients: u64,
    /// Replicas, with the output queued for them.
    pub replicas: u64,
    /// The backlog, up to its configured size if there are replicas.
    pub backlog: u64,
    /// The backlog above its size, kept for slow replicas, and other buffers of the replication stream.
    pub replica_buffers: u64,
    /// Output queued for replicas and not yet received by them.
    pub replica_queues: u64,
    /// Queues and unfinished messages of cluster links.
    pub links: u64,
    /// Connections of slot migrations to this node.
    pub slot_imports: u64,
    /// Connections and streams of slot migrations from this node.
    pub slot_exports: u64,
    /// Everything except data: startup, clients, replicas, slot migrations, buffers, links, and indexes of
    /// the keyspace.
    pub overhead: u64,
    /// `used` minus `overhead`: the keys and values.
    pub dataset: u64,
    /// Number of keys in all databases.
    pub keys: u64,
}

impl MemoryReport {
    /// Computes the present numbers. O(databases), and O(clients) if the memory of clients is unknown.
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

    /// Size of the data in percent of the memory allocated since the start.
    pub(crate) fn dataset_percent(&self) -> f64 {
        percent(self.dataset, self.used.saturating_sub(self.startup))
    }

    /// Percentage of the peak that is in use now.
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
