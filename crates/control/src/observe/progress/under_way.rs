//! The list of long work in progress, computed from the state of loads, saves, rewrites, replicas and
//! a pending shutdown.

use crate::Control;
use crate::cluster::shown_moves::{ShownMove, shown_moves};
use crate::persistence::background::JobNumbers;
use crate::persistence::ending::EndStage;
use crate::persistence::loading::LoadUnderWay;
use crate::replication::role::ReplicaRole;
use sluice_base::Now;
use sluice_base::progress::{ProgressUnit, WorkProgress};
use sluice_keyspace::Keyspace;
use sluice_numbers::facts::SyncFacts;
use sluice_numbers::progress::{AwaitedAtEnd, LongWork, SlotWork, WorkKind};
use sluice_replication::{FeedSource, LinkState, SnapshotProgress};
use sluice_session::Sessions;

/// The text of a migration's slot ranges is cut to at most this many bytes.
const SLOTS_BYTES_MAX: usize = 64;

/// The state from which the list is computed.
pub struct WorkSources<'a> {
    /// The present time, up to which durations are computed.
    pub now: Now,
    /// The state of loads, rewrites and saves.
    pub control: &'a Control,
    /// The keys, to count those of migrating slots.
    pub keyspace: &'a Keyspace,
    /// The sessions of replicas.
    pub sessions: &'a Sessions,
    /// Numbers of the background job, if one runs.
    pub job: Option<JobNumbers>,
    /// The snapshot being received from the primary, if any.
    pub sync: Option<SyncFacts>,
}

/// Whether there may be long work. Cost: some comparisons.
#[inline]
pub fn is_any(control: &Control) -> bool {
    let (persistence, replication) = (&control.persistence, &control.replication);
    persistence.load.is_some()
        || persistence.is_writing
        || persistence.rewriting.began_s.is_some()
        || persistence.pending_end.is_some()
        || !replication.full_syncs.readers.is_empty()
        || replication.replica.as_deref().is_some_and(is_receiving)
        || control.cluster.as_deref().is_some_and(|mode| mode.moves.are_under_way())
}

fn is_receiving(role: &ReplicaRole) -> bool {
    role.link.state() == LinkState::Transfer
}

impl WorkSources<'_> {
    /// All long work; work that delays more clients comes first. Cost: O(replicas, and migrating slots ·
    /// databases with keys).
    pub fn list(&self) -> Vec<LongWork> {
        let mut works = Vec::new();
        if !is_any(self.control) {
            return works;
        }
        works.extend(self.ending());
        works.extend(self.control.persistence.load.as_deref().map(|load| self.loading(load)));
        works.extend(self.receiving());
        works.extend(self.writing());
        self.sending(&mut works);
        self.moving(&mut works);
        works
    }

    fn since(&self, began_ns: u64) -> u64 {
        self.now.mono_ns.saturating_sub(began_ns)
    }

    fn loading(&self, load: &LoadUnderWay) -> LongWork {
        let (done, total) = load.bytes();
        let progress =
            WorkProgress { done, total, unit: ProgressUnit::Bytes, spent_ns: self.since(load.began_ns()) };
        LongWork { kind: WorkKind::Loading, progress }
    }

    /// A pending shutdown; its progress is the time waited so far, out of the time until the deadline.
    fn ending(&self) -> Option<LongWork> {
        let pending = self.control.persistence.pending_end.as_deref()?;
        let lacks = |key| self.sessions.get(key).is_some_and(|session| pending.is_awaited(session));
        let awaited = match pending.stage {
            EndStage::OpenUnit => AwaitedAtEnd::Unit,
            EndStage::Replicas => {
                match self.control.replicas().into_iter().filter(|key| lacks(*key)).count() {
                    0 => AwaitedAtEnd::Nothing,
                    count => AwaitedAtEnd::Replicas(count),
                }
            }
            EndStage::TakingOver => AwaitedAtEnd::TakeOver,
            EndStage::Leaving { .. } => AwaitedAtEnd::Clients,
            EndStage::Ready => AwaitedAtEnd::Nothing,
        };
        let spent_ns = self.since(pending.began_ns);
        let progress = WorkProgress {
            done: spent_ns / 1_000_000,
            total: Some(pending.deadline_ms.saturating_sub(pending.began_ns / 1_000_000)),
            unit: ProgressUnit::Milliseconds,
            spent_ns,
        };
        Some(LongWork { kind: WorkKind::Ending(awaited), progress })
    }

    /// The reception of a snapshot from the primary. Loading it is listed as a load.
    fn receiving(&self) -> Option<LongWork> {
        let role = self.control.replication.replica.as_deref().filter(|role| is_receiving(role))?;
        if self.control.persistence.load.is_some() {
            return None;
        }
        let primary = role.primary();
        let progress = WorkProgress {
            done: self.sync.map_or(0, |sync| sync.read_bytes),
            total: self.sync.and_then(|sync| u64::try_from(sync.total_bytes).ok()).filter(|total| *total > 0),
            unit: ProgressUnit::Bytes,
            spent_ns: self.since(role.transfer_since_ns),
        };
        let primary = format!("{}:{}", primary.host, primary.port);
        Some(LongWork { kind: WorkKind::Receiving { primary }, progress })
    }

    /// The background job: a save, a rewrite, or a snapshot for replicas.
    fn writing(&self) -> Option<LongWork> {
        let syncs = &self.control.replication.full_syncs;
        let rewrite_began_s = self.control.persistence.rewriting.began_s;
        let kind = match () {
            () if rewrite_began_s.is_some() => WorkKind::Rewriting,
            () if syncs.began_s.is_some() => WorkKind::Snapshot { replicas: syncs.readers.len() },
            () => WorkKind::Saving,
        };
        let unit = ProgressUnit::Keys;
        let progress = match (self.job, rewrite_began_s) {
            (Some(job), _) => WorkProgress {
                done: job.captured as u64,
                total: Some(job.total as u64),
                unit,
                spent_ns: self.since(job.began_ns),
            },
            // The rewrite has written its base file, but has not installed it yet.
            (None, Some(began_s)) => {
                let seconds = u64::try_from(self.now.unix_s().saturating_sub(began_s)).unwrap_or(0);
                WorkProgress { done: 0, total: None, unit, spent_ns: seconds.saturating_mul(1_000_000_000) }
            }
            (None, None) => return None,
        };
        Some(LongWork { kind, progress })
    }

    /// Snapshots being sent to replicas, until they are queued completely.
    fn sending(&self, works: &mut Vec<LongWork>) {
        let syncs = &self.control.replication.full_syncs;
        for session in syncs.readers.iter().filter_map(|key| self.sessions.get(*key)) {
            let Some(feed) = session.feed.as_deref() else { continue };
            let total = match (&feed.source, syncs.made()) {
                (FeedSource::Shared(_), SnapshotProgress::Whole(bytes)) => Some(bytes),
                (FeedSource::Shared(_) | FeedSource::WithoutKeys(_), _) => None,
            };
            let progress = WorkProgress {
                done: feed.taken_bytes,
                total,
                unit: ProgressUnit::Bytes,
                spent_ns: self.since(feed.began_ns),
            };
            let (ip, port) = session.caller.replica_address();
            let kind = WorkKind::Sending { ip: ip.to_owned(), port };
            works.push(LongWork { kind, progress });
        }
    }

    /// Slot migrations. The total of an import's keys is known only to the other node.
    fn moving(&self, works: &mut Vec<LongWork>) {
        let Some(mode) = self.control.cluster.as_deref() else { return };
        for ShownMove { row, progress } in shown_moves(mode, self.keyspace, self.sessions) {
            let Some(progress) = progress else { continue };
            let leaves = row.operation == "EXPORT";
            let other = row.nodes.map(|(target, source)| if leaves { target } else { source });
            let [(_, created_s), ..] = row.numbers;
            let seconds = u64::try_from(self.now.unix_s().saturating_sub(created_s)).unwrap_or(0);
            let slots = SlotWork {
                job: row.name.to_string(),
                slots: row.slots_text(SLOTS_BYTES_MAX),
                node: other.map(|id| id.to_string()).unwrap_or_default(),
            };
            let progress = WorkProgress {
                done: progress.keys,
                total: leaves.then_some(progress.keys.saturating_add(progress.keys_left)),
                unit: ProgressUnit::Keys,
                spent_ns: seconds.saturating_mul(1_000_000_000),
            };
            let kind = if leaves { WorkKind::Exporting(slots) } else { WorkKind::Importing(slots) };
            works.push(LongWork { kind, progress });
        }
    }
}
