//! Exports of slots: for each job one stream of commands that gives another node the slots' keys, each key
//! ahead of its changes (A-82, A-83). What drives them is `engine/cluster/exports.rs`; the link to the
//! other node, and what is said on it, belongs to whoever begins an export.
//!
//! ```text
//!  begin ──► slots are walked, one after the other ──► SNAPSHOT-EOF ──► changes ──request_pause──► PAUSED ──► end
//!            a slot's changes are in the stream from its walk on        writers are held for moments: `Convergence`
//! ```
//!
//! Of a slot that the walk has not come to nothing is in the stream: its keys are sent as they are then. So
//! one rule suffices, *the walk of a slot begins between two units, and from then on each change of the slot
//! is appended, after what the walk has captured*: the keyspace captures an entry ahead of its first change
//! ([`begin_slot_walk`](sluice_keyspace::Keyspace::begin_slot_walk)).
//!
//! Invariants: (1) a slot belongs to one job at most; (2) one slot of one job is walked at a time, of the
//! oldest job whose link has not enough to take; (3) after PAUSED nothing but words of the nodes is
//! appended; (4) `tapped` has the slots whose walk has begun, of all jobs.

mod stream;

pub use stream::ExportStream;

use crate::persistence::saving::key_delay_us;
use sluice_cluster::{Convergence, HashSlot, JobName, SlotSet};
use std::collections::VecDeque;

/// All exports.
#[derive(Default)]
pub struct SlotExports {
    jobs: Vec<SlotExport>,
    tapped: SlotSet,
    news: VecDeque<(ExportId, ExportNews)>,
    last_id: u64,
    pace: WalkPace,
    /// The time of the last look at the streams, ns.
    looked_ns: u64,
    /// How writers have waited.
    pub holds: HoldStatistics,
}

/// How `rdb-key-save-delay` slows the walks down, which stand for snapshots: for tests.
#[derive(Default)]
struct WalkPace {
    /// Keys that were walked under a delay.
    keys: u64,
    /// Until when no key is walked, monotonic ns.
    until_ns: u64,
}

/// How writers of slots that leave have waited, since the start or CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldStatistics {
    /// The length of the last hold, ns.
    pub last_ns: u64,
    /// That of the longest, ns.
    pub max_ns: u64,
    /// Writes that had to wait.
    pub writes: u64,
}

/// Names an export, as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportId(u64);

/// What whoever has begun an export has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportNews {
    /// The walk over the slots has begun.
    SnapshotBegan,
    /// All keys are in the stream, and SNAPSHOT-EOF after these.
    SnapshotWhole,
    /// Writers of the slots are held until the export ends; PAUSED is in the stream, with so many bytes of
    /// it not taken.
    Paused {
        /// Bytes.
        unsent: u64,
    },
    /// The export has ended without success: this is why.
    Failed(String),
}

/// An export.
pub struct SlotExport {
    /// Its name.
    pub id: ExportId,
    /// The move whose stream this is; none where a test drives it.
    pub owner: Option<JobName>,
    slots: SlotSet,
    /// Slots whose walk has not begun.
    to_walk: SlotSet,
    /// How far the walk is.
    pub walk: ExportWalk,
    /// What is given to the other node.
    pub stream: ExportStream,
    /// Keys whose images were given to the stream.
    pub keys: u64,
    /// [`Keyspace::exchanges`](sluice_keyspace::Keyspace::exchanges) when it began.
    exchanges: u64,
    /// When writers are held; none before the other node has asked for the pause.
    pub convergence: Option<Convergence>,
    /// Bytes that the link has taken and not sent.
    pub in_link: u64,
    /// PAUSED is in the stream.
    is_paused: bool,
    /// The other node may own the slots: what becomes of the stream does not matter any more.
    is_granted: bool,
}

/// How far the walk over the slots of an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportWalk {
    /// No slot is walked just now.
    Between,
    /// This one is.
    In(HashSlot),
    /// All slots were walked.
    Done,
}

/// Why an export ends when a database was emptied or exchanged (A-60).
pub const FLUSHED: &str = "Data was flushed";
/// A change of the slots came after PAUSED: the other node will not have the change.
pub const WRITTEN_TO: &str = "The slots were written to during the pause";

impl SlotExports {
    /// Begins an export; `None` where one of the slots belongs to another, or there is none.
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

    /// Slots whose changes go into a stream.
    #[inline]
    pub fn tapped(&self) -> &SlotSet {
        &self.tapped
    }

    /// All exports, the oldest first.
    pub fn jobs(&mut self) -> impl Iterator<Item = &mut SlotExport> {
        self.jobs.iter_mut()
    }

    /// An export that began when databases had been exchanged another number of times. One whose slots the
    /// other node may own has nothing to lose by that.
    pub fn begun_ahead_of(&self, exchanges: u64) -> Option<ExportId> {
        self.jobs.iter().find(|job| job.exchanges != exchanges && !job.is_granted).map(|job| job.id)
    }

    /// The export of this name.
    pub fn job(&mut self, id: ExportId) -> Option<&mut SlotExport> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    /// The export of this name, to look at.
    pub fn of(&self, id: ExportId) -> Option<&SlotExport> {
        self.jobs.iter().find(|job| job.id == id)
    }

    /// Bytes of an export that have not left this node.
    pub fn left(&self, id: ExportId) -> Option<u64> {
        self.of(id).map(SlotExport::unsent_bytes)
    }

    /// The time, ns of the monotonic clock: for what is counted of holds.
    pub fn note_time(&mut self, now_ns: u64) {
        self.looked_ns = now_ns;
    }

    /// Writers that were held since then go on.
    pub fn note_hold(&mut self, since_ns: u64) {
        self.holds.last_ns = self.looked_ns.saturating_sub(since_ns);
        self.holds.max_ns = self.holds.max_ns.max(self.holds.last_ns);
    }

    /// Slots whose writers are braked.
    pub(crate) fn braked_slots(&self) -> u64 {
        let braked = self.jobs.iter().filter(|job| job.is_braked());
        braked.map(|job| u64::from(job.slots.len())).sum()
    }

    /// The export whose stream is to have the changes of a slot.
    pub fn job_of(&mut self, slot: HashSlot) -> Option<&mut SlotExport> {
        if !self.tapped.contains(slot) {
            return None;
        }
        self.jobs.iter_mut().find(|job| job.slots.contains(slot))
    }

    /// Whether writers of some slot may have to wait.
    #[inline]
    pub fn may_hold(&self) -> bool {
        self.jobs.iter().any(|job| job.convergence.is_some())
    }

    /// Whether writers of some slot have to wait now.
    pub fn hold_any(&self) -> bool {
        self.jobs.iter().any(SlotExport::holds_writers)
    }

    /// Whether writers of this slot have to wait now (A-84).
    pub fn hold(&self, slot: HashSlot) -> bool {
        self.jobs.iter().any(|job| job.holds_writers() && job.slots.contains(slot))
    }

    /// Whether another node may own slots of an export.
    pub fn have_granted(&self) -> bool {
        self.jobs.iter().any(|job| job.is_granted)
    }

    /// The slot of the oldest job that is not through, whose walk is to begin; `None` while a walk is under
    /// way, and when nothing is left. The slot is tapped from now on.
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

    /// The oldest export that has a slot to begin with, and whose link has not enough to take.
    fn next_to_begin(&self) -> Option<usize> {
        self.jobs.iter().position(|job| job.walk == ExportWalk::Between && !job.stream.is_behind())
    }

    /// Whether the walk of a slot waits for its link. It goes on where another export waits for its end: what
    /// the link cannot take of this slot is spooled.
    pub fn walk_waits(&self) -> bool {
        let walked = self.jobs.iter().find(|job| matches!(job.walk, ExportWalk::In(_)));
        walked.is_some_and(|job| job.stream.is_behind()) && self.next_to_begin().is_none()
    }

    /// The export whose slot is walked.
    pub fn walking(&mut self) -> Option<&mut SlotExport> {
        self.jobs.iter_mut().find(|job| matches!(job.walk, ExportWalk::In(_)))
    }

    /// Has the walk wait for the keys that it has just captured, where `rdb-key-save-delay` is set.
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

    /// Whether a key may be walked at that time.
    pub fn may_walk(&self, now_ns: u64) -> bool {
        now_ns >= self.pace.until_ns
    }

    /// The walk of a slot is through; after the last one the stream says so.
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

    /// Writers of the slots are held until the end: PAUSED is the last command.
    pub fn pause(&mut self, id: ExportId) {
        let Some(job) = self.job(id).filter(|job| !job.is_paused) else { return };
        job.is_paused = true;
        let unsent = job.unsent_bytes();
        job.stream.say(b"PAUSED");
        self.news.push_back((id, ExportNews::Paused { unsent }));
    }

    /// Forgets an export; the export, if there was one.
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

    /// Tells that an export has failed, which is forgotten already.
    pub fn tell_failure(&mut self, id: ExportId, why: String) {
        self.news.push_back((id, ExportNews::Failed(why)));
    }

    /// What has happened to an export, oldest first.
    pub fn next_news(&mut self) -> Option<(ExportId, ExportNews)> {
        self.news.pop_front()
    }

    /// When something is to be walked or formatted, monotonic ns; 0: at once; `None`: nothing is.
    pub fn work_ns(&self) -> Option<u64> {
        if self.jobs.iter().any(|job| job.stream.has_waiting()) {
            return Some(0);
        }
        let is_under_way = self.jobs.iter().any(|job| matches!(job.walk, ExportWalk::In(_)));
        let may_go_on = if is_under_way { !self.walk_waits() } else { self.next_to_begin().is_some() };
        may_go_on.then_some(self.pace.until_ns)
    }

    /// Whether an iteration has nothing to do for exports: all that is there is in streams, and no writer is
    /// about to be held. `exchanges`: as of [`SlotExports::begun_ahead_of`].
    pub fn are_idle(&self, exchanges: u64) -> bool {
        let is_idle = |job: &SlotExport| {
            let is_walked = job.walk == ExportWalk::Done && (job.exchanges == exchanges || job.is_granted);
            is_walked && job.convergence.is_none() && job.stream.is_settled()
        };
        self.jobs.iter().all(is_idle)
    }

    /// Slots whose changes go nowhere: none, by (4).
    pub fn tapped_without_job(&self) -> impl Iterator<Item = HashSlot> + '_ {
        self.tapped.iter().filter(|slot| !self.jobs.iter().any(|job| job.slots.contains(*slot)))
    }

    /// The exports that belong to a move, with its name.
    pub fn owners(&self) -> impl Iterator<Item = (ExportId, JobName)> + '_ {
        self.jobs.iter().filter_map(|job| Some((job.id, job.owner?)))
    }

    /// Bytes of memory that the streams take.
    pub fn memory_bytes(&self) -> usize {
        self.jobs.iter().map(|job| job.stream.memory_bytes()).sum()
    }
}

impl SlotExport {
    /// The slots.
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// The other node may own the slots from now on: writers are held until the export ends, whatever happens
    /// to the stream.
    pub fn grant(&mut self) {
        self.is_granted = true;
    }

    /// Whether the other node may own the slots.
    pub fn is_granted(&self) -> bool {
        self.is_granted
    }

    /// Whether PAUSED is in the stream.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Bytes that have not left this node.
    pub fn unsent_bytes(&self) -> u64 {
        self.stream.unsent_bytes() + self.in_link
    }

    /// Slots that the walk has not come to.
    pub(super) fn slots_left(&self) -> &SlotSet {
        &self.to_walk
    }

    /// Bytes that have left this node.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.stream.taken_bytes().saturating_sub(self.in_link)
    }

    /// Whether writers are let in more slowly than they come.
    pub(super) fn is_braked(&self) -> bool {
        self.convergence.as_ref().is_some_and(Convergence::is_braked)
    }

    /// Bytes have come into the stream from writers.
    pub fn note_written(&mut self, now_ns: u64, bytes: usize) {
        if let Some(convergence) = &mut self.convergence {
            convergence.written(now_ns, bytes);
        }
    }

    /// Whether writers wait.
    pub(super) fn holds_writers(&self) -> bool {
        self.convergence.as_ref().is_some_and(Convergence::holds)
    }
}
