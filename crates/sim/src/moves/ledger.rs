//! Writes that clients were answered, and which of them may be lost.
//!
//! A write counts when it was answered, under `appendfsync always`, and acknowledged by a replica where the
//! plan has replicas. Excused is (1) what the primary whose place a replica takes has and the replica has
//! not, where it was not acknowledged by a replica yet, an operator has forced the failover, or the primary's
//! log has said that the replica lacks slots which came; (2) what FLUSHALL deletes; (3) what a node answers
//! while another one claims the slot with an epoch not below the node's, or may claim it by a grant that the
//! node has forgotten: what a claim without consensus costs where the two do not hear each other; (4) what a
//! primary that crashes has in memory alone, because no base of its append-only file has been in force since
//! its full copy.

use super::view::{KeyName, slot_of};
use std::collections::{BTreeMap, BTreeSet};

/// Why a write may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    Failover,
    /// A failover that an operator has forced: a replica without a link takes over with what it has.
    Forced,
    /// A failover of a node that has taken slots and told its log that a replica lacks them.
    LeftOut,
    Flush,
    Claims,
    Base,
}

/// A write.
#[derive(Clone, Copy, Debug)]
struct Written {
    id: u64,
    /// The last id that was given out at the answer: writes of later ids were sent after it.
    answered_by: u64,
    is_confirmed: bool,
    excuse: Option<Excuse>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Ledger {
    keys: BTreeMap<KeyName, Vec<Written>>,
    /// The last id that was given out ahead of a flush, by slot: what was executed before it may be answered
    /// after it.
    flushed: BTreeMap<u16, u64>,
    /// Writes that somebody has lost, and why it may: some of them are answered later.
    lost: BTreeMap<u64, Excuse>,
    last_id: u64,
}

impl Ledger {
    /// Ids for so many writes.
    pub fn new_ids(&mut self, count: u64) -> Vec<u64> {
        let first = self.last_id + 1;
        self.last_id += count;
        (first..=self.last_id).collect()
    }

    /// Writes were answered; `excuse`: they may be lost.
    pub fn answered(&mut self, key: &KeyName, ids: &[u64], excuse: Option<Excuse>) {
        let flushed = self.flushed.get(&slot_of(key)).copied().unwrap_or(0);
        let lost = &self.lost;
        let excuse = |id| excuse.or(lost.get(&id).copied()).or((id <= flushed).then_some(Excuse::Flush));
        let answered_by = self.last_id;
        let written =
            ids.iter().map(|id| Written { id: *id, answered_by, is_confirmed: false, excuse: excuse(*id) });
        self.keys.entry(key.clone()).or_default().extend(written);
    }

    /// Writes count from now on.
    pub fn confirmed(&mut self, key: &KeyName, ids: &[u64]) {
        let all = self.keys.entry(key.clone()).or_default();
        for written in all.iter_mut().filter(|written| ids.contains(&written.id)) {
            written.is_confirmed = true;
        }
    }

    /// Excuses writes of a key.
    pub fn lost(&mut self, key: &KeyName, ids: &BTreeSet<u64>, excuse: Excuse) {
        ids.iter().for_each(|id| _ = self.lost.entry(*id).or_insert(excuse));
        for written in
            self.keys.get_mut(key).into_iter().flatten().filter(|written| ids.contains(&written.id))
        {
            if excuse != Excuse::Failover || !written.is_confirmed {
                written.excuse.get_or_insert(excuse);
            }
        }
    }

    /// Excuses all writes of a slot that were sent so far.
    pub fn flushed(&mut self, slot: u16) {
        self.flushed.insert(slot, self.last_id);
        for written in self.keys.iter_mut().filter(|(key, _)| slot_of(key) == slot).flat_map(|(_, all)| all) {
            written.excuse.get_or_insert(Excuse::Flush);
        }
    }

    /// Keys that somebody has written to.
    pub fn keys(&self) -> Vec<KeyName> {
        self.keys.keys().cloned().collect()
    }

    /// Confirmed writes of a key that are not excused.
    pub fn owed(&self, key: &KeyName) -> impl Iterator<Item = u64> + '_ {
        self.counted(key).map(|written| written.id)
    }

    /// Two confirmed writes that stand the wrong way round in a key: the first was answered before the second
    /// was sent.
    pub fn reversed(&self, key: &KeyName, ids: &[u64]) -> Option<(u64, u64)> {
        let answered_by: BTreeMap<u64, u64> =
            self.counted(key).map(|written| (written.id, written.answered_by)).collect();
        let mut last = 0;
        for id in ids {
            let Some(answered_by) = answered_by.get(id) else { continue };
            if *answered_by < last {
                return Some((*id, last));
            }
            last = last.max(*id);
        }
        None
    }

    fn counted<'a>(&'a self, key: &KeyName) -> impl Iterator<Item = &'a Written> + use<'a> {
        let all = self.keys.get(key).into_iter().flatten();
        all.filter(|written| written.is_confirmed && written.excuse.is_none())
    }

    /// How many confirmed writes there are, and how many are excused for this reason.
    pub fn counts(&self, excuse: Option<Excuse>) -> u64 {
        let all = self.keys.values().flatten().filter(|written| written.is_confirmed);
        all.filter(|written| excuse.is_none() || written.excuse == excuse).count() as u64
    }
}
