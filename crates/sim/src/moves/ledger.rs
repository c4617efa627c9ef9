//! The answered writes of clients, and the reasons for which they may be lost.
//!
//! A write counts when it was answered, under `appendfsync always`, and acknowledged by a replica where
//! the plan has replicas. The loss of these writes is excused: (1) writes of a replaced primary that its
//! replica does not have, if no replica had acknowledged them, if an operator has forced the failover, or if
//! the primary's log has reported that the replica lacks moved slots; (2) writes that FLUSHALL deletes; (3)
//! writes that a node answers while another node claims the slot with an epoch that is not lower, or may
//! claim it by a grant that the node has forgotten: the price of a claim without consensus while the two do
//! not receive each other's messages; (4) writes that a crashing primary has only in memory, because its
//! append-only file has had no base since its full sync.

use super::view::{KeyName, slot_of};
use std::collections::{BTreeMap, BTreeSet};

/// The reason that a write may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    Failover,
    /// A failover forced by an operator: a replica without a link takes over with the data it has.
    Forced,
    /// A failover of a node that has received slots, and has logged that a replica lacks them.
    LeftOut,
    Flush,
    Claims,
    Base,
}

/// A write that was answered.
#[derive(Clone, Copy, Debug)]
struct Written {
    id: u64,
    /// The last id that had been drawn when the write was answered. Writes with later ids were sent after the
    /// answer.
    answered_by: u64,
    is_confirmed: bool,
    excuse: Option<Excuse>,
}

/// The answered writes of each key, in the order of the answers.
#[derive(Debug, Default)]
pub struct Ledger {
    keys: BTreeMap<KeyName, Vec<Written>>,
    /// By slot, the last id drawn before a flush. It is kept because a write that was executed before the
    /// flush may be answered after it.
    flushed: BTreeMap<u16, u64>,
    /// Writes whose loss is excused, with the reason. Some of these writes are answered only later.
    lost: BTreeMap<u64, Excuse>,
    last_id: u64,
}

impl Ledger {
    /// Draws the ids for `count` writes.
    pub fn new_ids(&mut self, count: u64) -> Vec<u64> {
        let first = self.last_id + 1;
        self.last_id += count;
        (first..=self.last_id).collect()
    }

    /// Notes answered writes; `excuse` is the reason that they may be lost, if any.
    pub fn answered(&mut self, key: &KeyName, ids: &[u64], excuse: Option<Excuse>) {
        let flushed = self.flushed.get(&slot_of(key)).copied().unwrap_or(0);
        let lost = &self.lost;
        let excuse = |id| excuse.or(lost.get(&id).copied()).or((id <= flushed).then_some(Excuse::Flush));
        let answered_by = self.last_id;
        let written =
            ids.iter().map(|id| Written { id: *id, answered_by, is_confirmed: false, excuse: excuse(*id) });
        self.keys.entry(key.clone()).or_default().extend(written);
    }

    /// Marks writes as confirmed: from now on their loss is an error, unless it is excused.
    pub fn confirmed(&mut self, key: &KeyName, ids: &[u64]) {
        let all = self.keys.entry(key.clone()).or_default();
        for written in all.iter_mut().filter(|written| ids.contains(&written.id)) {
            written.is_confirmed = true;
        }
    }

    /// Excuses the loss of writes of a key.
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

    /// Excuses the loss of all writes to a slot that were sent so far.
    pub fn flushed(&mut self, slot: u16) {
        self.flushed.insert(slot, self.last_id);
        for written in self.keys.iter_mut().filter(|(key, _)| slot_of(key) == slot).flat_map(|(_, all)| all) {
            written.excuse.get_or_insert(Excuse::Flush);
        }
    }

    /// All keys that have answered writes.
    pub fn keys(&self) -> Vec<KeyName> {
        self.keys.keys().cloned().collect()
    }

    /// Confirmed writes of a key whose loss is not excused.
    pub fn owed(&self, key: &KeyName) -> impl Iterator<Item = u64> + '_ {
        self.counted(key).map(|written| written.id)
    }

    /// Two confirmed writes in the wrong order in a key: one was answered before the other was sent, but
    /// follows it.
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

    /// Number of confirmed writes that are excused for this reason; with `None`, of all confirmed writes.
    pub fn counts(&self, excuse: Option<Excuse>) -> u64 {
        let all = self.keys.values().flatten().filter(|written| written.is_confirmed);
        all.filter(|written| excuse.is_none() || written.excuse == excuse).count() as u64
    }
}
