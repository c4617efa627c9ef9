//! Exports of slots: for each slot migration (job) a stream of commands that transfers the slots' keys to
//! another node, each key before its changes (A-82, A-83). `engine/cluster/exports.rs` drives them; the owner
//! of an export handles the link to the other node and its messages.
//!
//! ```text
//!  begin ─► slots are walked, one after the other ─► SNAPSHOT-EOF ─► changes ─request_pause─► PAUSED ─► end
//!           a slot's changes are in the stream                       writers are held for moments:
//!           from its walk on                                         `Convergence`
//! ```
//!
//! A walk visits the keys of one slot after the other. Before the walk reaches a slot, nothing of the slot is
//! in the stream, because its keys are sent as they are when the walk arrives. So one rule suffices: *the
//! walk of a slot begins between two commands or transactions, and from then on each change of the slot is
//! appended after the keys that the walk has captured*. The keyspace captures an entry before its first
//! change ([`begin_slot_walk`](sluice_keyspace::Keyspace::begin_slot_walk)).
//!
//! Invariants: (1) a slot belongs to at most one job; (2) only one slot of one job is walked at a time; the
//! next slot is taken from the oldest job whose link lacks data; (3) after PAUSED only protocol messages of
//! the nodes are appended; (4) `tapped` has exactly the slots, of all jobs, whose walk has begun.

mod stream;

pub use stream::ExportStream;

use crate::persistence::saving::key_delay_us;
use sluice_cluster::{Convergence, HashSlot, JobName, SlotSet};
use std::collections::VecDeque;

/// The exports in progress, oldest first, and the events that their owners have not read yet.
#[derive(Default)]
pub struct SlotExports {
    jobs: Vec<SlotExport>,
    tapped: SlotSet,
    news: VecDeque<(ExportId, ExportNews)>,
    last_id: u64,
    pace: WalkPace,
    /// Time that [`SlotExports::note_time`] last recorded, in ns of the monotonic clock.
    looked_ns: u64,
    /// Durations for which writers were held.
    pub holds: HoldStatistics,
}

/// The delay that `rdb-key-save-delay` adds to walks, because a walk counts as a snapshot. Tests use this.
#[derive(Default)]
struct WalkPace {
    /// Number of keys walked while a delay was set.
    keys: u64,
    /// No key is walked before this time, in ns of the monotonic clock.
    until_ns: u64,
}

/// Durations for which writers of exported slots were held, that is, had to wait, since the start or CONFIG
/// RESETSTAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldStatistics {
    /// Duration of the last hold, in ns.
    pub last_ns: u64,
    /// Duration of the longest hold, in ns.
    pub max_ns: u64,
    /// Number of writes that were held.
    pub writes: u64,
}

/// Identifies an export, uniquely until the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportId(u64);

/// Events that the owner of an export needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportNews {
    /// The walk over the slots has begun.
    SnapshotBegan,
    /// The stream contains all keys, and SNAPSHOT-EOF after them.
    SnapshotWhole,
    /// Writers of the slots are held until the export ends, and the stream contains PAUSED.
    Paused {
        /// Bytes of the stream before PAUSED that have not left this node.
        unsent: u64,
    },
    /// The export has failed for this reason.
    Failed(String),
}

/// The export of some slots to another node.
pub struct SlotExport {
    /// Identifies the export in [`ExportNews`] and in look-ups.
    pub id: ExportId,
    /// The migration job that owns the stream; `None` in tests.
    pub owner: Option<JobName>,
    slots: SlotSet,
    /// Slots whose walk has not begun.
    to_walk: SlotSet,
    /// The state of the walk over the slots.
    pub walk: ExportWalk,
    /// The commands for the other node.
    pub stream: ExportStream,
    /// Number of keys appended to the stream by the walk.
    pub keys: u64,
    /// Value of [`Keyspace::exchanges`](sluice_keyspace::Keyspace::exchanges) at the start of the export.
    exchanges: u64,
    /// Decides when writers are held; `None` until the other node has requested the pause.
    pub convergence: Option<Convergence>,
    /// Bytes that the link has taken but not yet sent.
    pub in_link: u64,
    /// The stream contains PAUSED.
    is_paused: bool,
    /// The other node may already own the slots, so a failure of the stream no longer matters.
    is_granted: bool,
}

/// The state of the walk over an export's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportWalk {
    /// No slot of this export is being walked.
    Between,
    /// The walk of this slot is in progress.
    In(HashSlot),
    /// The walk of all slots is complete.
    Done,
}

/// The failure of exports when a database was emptied or exchanged (A-60).
pub const FLUSHED: &str = "Data was flushed";
/// The failure of an export when its slots were changed after PAUSED: the other node lacks the change.
pub const WRITTEN_TO: &str = "The slots were written to during the pause";

impl SlotExports {
    /// Begins an export. `None` if `slots` is empty or one of them is in another export.
    pub fn begin(&mut self, slots: &SlotSet, exchanges: u64) -> Option<ExportId> {
        let is_taken = |job: &SlotExport| slots.iter().any(|slot| job.slots.contains(slot));
        if slots.is_empty() || self.jobs.iter().any(is_taken) {
            return None;
        }
        self.last_id += 1;
        let id = ExportId(self.last_id);
        self.jobs.push(SlotExport {
            id,
            owner: None,
            slots: slots.clone(),
            to_walk: slots.clone(),
            walk: ExportWalk::Between,
            stream: ExportStream::default(),
            keys: 0,
            exchanges,
            convergence: None,
            in_link: 0,
            is_paused: false,
            is_granted: false,
        });
        Some(id)
    }

    /// Slots whose changes are appended to a stream.
    #[inline]
    pub fn tapped(&self) -> &SlotSet {
        &self.tapped
    }

    /// All exports, oldest first.
    pub fn jobs(&mut self) -> impl Iterator<Item = &mut SlotExport> {
        self.jobs.iter_mut()
    }

    /// An export that began when [`Keyspace::exchanges`](sluice_keyspace::Keyspace::exchanges) had another
    /// value than `exchanges`, because a database was emptied or exchanged since. Granted exports are
    /// skipped, because the other node may own the slots.
    pub fn begun_ahead_of(&self, exchanges: u64) -> Option<ExportId> {
        self.jobs.iter().find(|job| job.exchanges != exchanges && !job.is_granted).map(|job| job.id)
    }

    /// The export with this id, to be changed.
    pub fn job(&mut self, id: ExportId) -> Option<&mut SlotExport> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    /// The export with this id.
    pub fn of(&self, id: ExportId) -> Option<&SlotExport> {
        self.jobs.iter().find(|job| job.id == id)
    }

    /// Bytes of an export that have not left this node.
    pub fn left(&self, id: ExportId) -> Option<u64> {
        self.of(id).map(SlotExport::unsent_bytes)
    }

    /// Sets the present time, in ns of the monotonic clock, for the durations of holds.
    pub fn note_time(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
    }

    /// Records the end of a hold that began at `since_ns`.
    pub fn note_hold(&mut self, since_ns: u64) {
        self.holds.last_ns = self.looked_ns.saturating_sub(since_ns);
        self.holds.max_ns = self.holds.max_ns.max(self.holds.last_ns);
    }

    /// Number of slots with slowed-down writers.
    pub(crate) fn braked_slots(&self) -> u64 {
        let braked = self.jobs.iter().filter(|job| job.is_braked());
        braked.map(|job| u64::from(job.slots.len())).sum()
    }

    /// The export whose stream gets the changes of a slot; `None` if the slot's walk has not begun.
    pub fn job_of(&mut self, slot: HashSlot) -> Option<&mut SlotExport> {
        if !self.tapped.contains(slot) {
            return None;
        }
        self.jobs.iter_mut().find(|job| job.slots.contains(slot))
    }

    /// Whether some export has reached the stage in which writers may be held.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.jobs.iter().any(|job| job.convergence.is_some())
    }

    /// Whether writers of any slot are held now.
    pub fn hold_any(&self) -> bool {
        self.jobs.iter().any(SlotExport::holds_writers)
    }

    /// Whether writers of this slot are held now (A-84).
    pub fn hold(&self, slot: HashSlot) -> bool {
        self.jobs.iter().any(|job| job.holds_writers() && job.slots.contains(slot))
    }

    /// Whether another node may own the slots of some export.
    pub fn have_granted(&self) -> bool {
        self.jobs.iter().any(|job| job.is_granted)
    }

    /// Begins the walk of the next slot, in the oldest export whose link lacks data, and returns the slot.
    /// From now on changes of this slot are appended to the stream. `None` while a slot is being walked, and
    /// if no export can begin a slot.
    pub fn next_walk(&mut self) -> Option<HashSlot> {
        if self.jobs.iter().any(|job| matches!(job.walk, ExportWalk::In(_))) {
            return None;
        }
        let at = self.next_to_begin()?;
        let job = &mut self.jobs[at];
        let slot = job.to_walk.iter().next()?;
        if job.to_walk.len() == job.slots.len() {
            self.news.push_back((job.id, ExportNews::SnapshotBegan));
        }
        job.to_walk.remove(slot);
        job.walk = ExportWalk::In(slot);
        self.tapped.insert(slot);
        Some(slot)
    }

    /// The oldest export that has another slot to walk and whose link lacks data.
    fn next_to_begin(&self) -> Option<usize> {
        self.jobs.iter().position(|job| job.walk == ExportWalk::Between && !job.stream.is_behind())
    }

    /// Whether the current walk waits for its link. It does not wait while another export could begin a
    /// slot: then the data that the link cannot take is spooled.
    pub fn walk_waits(&self) -> bool {
        let walked = self.jobs.iter().find(|job| matches!(job.walk, ExportWalk::In(_)));
        walked.is_some_and(|job| job.stream.is_behind()) && self.next_to_begin().is_none()
    }

    /// The export with a slot being walked.
    pub fn walking(&mut self) -> Option<&mut SlotExport> {
        self.jobs.iter_mut().find(|job| matches!(job.walk, ExportWalk::In(_)))
    }

    /// Delays the walk after it has captured `keys` keys, if `rdb-key-save-delay` is set.
    pub fn slow_down(&mut self, setting: i64, keys: usize, now_ns: u64) {
        if setting == 0 {
            return;
        }
        let pace = &mut self.pace;
        let numbers = pace.keys..pace.keys + keys as u64;
        pace.keys = numbers.end;
        let waits_us = numbers.map(|number| key_delay_us(setting, number)).fold(0, u64::saturating_add);
        pace.until_ns = now_ns.saturating_add(waits_us.saturating_mul(1000));
    }

    /// Whether the delay permits walking a key at `now_ns`.
    pub fn may_walk(&self, now_ns: u64) -> bool {
        now_ns >= self.pace.until_ns
    }

    /// Ends the walk of a slot; after the last slot the stream gets SNAPSHOT-EOF.
    pub fn end_walk(&mut self) {
        let Some(job) = self.walking() else { return };
        if !job.to_walk.is_empty() {
            job.walk = ExportWalk::Between;
            return;
        }
        job.walk = ExportWalk::Done;
        job.stream.end_snapshot();
        let id = job.id;
        self.news.push_back((id, ExportNews::SnapshotWhole));
    }

    /// Appends PAUSED, which follows the last command; writers of the slots are held until the export ends.
    pub fn pause(&mut self, id: ExportId) {
        let Some(job) = self.job(id).filter(|job| !job.is_paused) else { return };
        job.is_paused = true;
        let unsent = job.unsent_bytes();
        job.stream.say(b"PAUSED");
        self.news.push_back((id, ExportNews::Paused { unsent }));
    }

    /// Removes an export and returns it.
    pub fn remove(&mut self, id: ExportId) -> Option<SlotExport> {
        let at = self.jobs.iter().position(|job| job.id == id)?;
        let job = self.jobs.remove(at);
        for slot in job.slots.iter() {
            self.tapped.remove(slot);
        }
        self.news.retain(|(of, _)| *of != id);
        if let Some(since_ns) = job.convergence.as_ref().and_then(Convergence::holds_since_ns) {
            self.note_hold(since_ns);
        }
        Some(job)
    }

    /// Adds the news that an export has failed; the export itself was removed before.
    pub fn tell_failure(&mut self, id: ExportId, why: String) {
        self.news.push_back((id, ExportNews::Failed(why)));
    }

    /// Removes and returns the oldest news.
    pub fn next_news(&mut self) -> Option<(ExportId, ExportNews)> {
        self.news.pop_front()
    }

    /// The time at which walking or formatting is due, in ns of the monotonic clock; 0: at
    /// once; `None`: never.
    pub fn work_ns(&self) -> Option<u64> {
        if self.jobs.iter().any(|job| job.stream.has_waiting()) {
            return Some(0);
        }
        let is_under_way = self.jobs.iter().any(|job| matches!(job.walk, ExportWalk::In(_)));
        let may_go_on = if is_under_way { !self.walk_waits() } else { self.next_to_begin().is_some() };
        may_go_on.then_some(self.pace.until_ns)
    }

    /// Whether no export needs work in this iteration: none must fail because of `exchanges`, all walks are
    /// complete, nothing waits to be formatted or spooled, and the other nodes have not requested a pause.
    /// For `exchanges` see [`SlotExports::begun_ahead_of`].
    pub fn are_idle(&self, exchanges: u64) -> bool {
        let is_idle = |job: &SlotExport| {
            let is_walked = job.walk == ExportWalk::Done && (job.exchanges == exchanges || job.is_granted);
            is_walked && job.convergence.is_none() && job.stream.is_settled()
        };
        self.jobs.iter().all(is_idle)
    }

    /// Tapped slots without an export. By invariant (4) there are none.
    pub fn tapped_without_job(&self) -> impl Iterator<Item = HashSlot> + '_ {
        self.tapped.iter().filter(|slot| !self.jobs.iter().any(|job| job.slots.contains(*slot)))
    }

    /// The exports that a migration job owns, each with that job.
    pub fn owners(&self) -> impl Iterator<Item = (ExportId, JobName)> + '_ {
        self.jobs.iter().filter_map(|job| Some((job.id, job.owner?)))
    }

    /// Bytes of memory that all streams take.
    pub fn memory_bytes(&self) -> usize {
        self.jobs.iter().map(|job| job.stream.memory_bytes()).sum()
    }
}

impl SlotExport {
    /// The slots that the export transfers.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// Records that the other node may own the slots from now on: writers are held until the export ends,
    /// whatever happens to the stream.
    pub fn grant(&mut self) {
        self.is_granted = true;
    }

    /// Whether the other node may own the slots.
    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Whether the stream contains PAUSED.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Bytes of the stream that have not left this node.
    pub fn unsent_bytes(&self) -> u64 {
        self.stream.unsent_bytes() + self.in_link
    }

    /// Slots whose walk has not begun.
    pub(super) fn slots_left(&self) -> &SlotSet {
        &self.to_walk
    }

    /// Bytes of the stream that have left this node.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.stream.taken_bytes().saturating_sub(self.in_link)
    }

    /// Whether writers are slowed down.
    pub(super) fn is_braked(&self) -> bool {
        self.convergence.as_ref().is_some_and(Convergence::is_braked)
    }

    /// Records bytes that writers have added to the stream.
    pub fn note_written(&mut self, now_ns: u64, bytes: usize) {
        if let Some(convergence) = &mut self.convergence {
            convergence.written(now_ns, bytes);
        }
    }

    /// Whether writers are held now.
    pub(super) fn holds_writers(&self) -> bool {
        self.convergence.as_ref().is_some_and(Convergence::holds)
    }
}
