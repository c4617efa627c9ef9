//! The indexes of a database: one table over all its keys, or one for each hash slot.
//!
//! Invariants: (1) with [`Layout::One`] every entry is in `one`; with [`Layout::PerSlot`] `one` stays empty,
//! and an entry is in the table of its slot; (2) with [`Layout::PerSlot`] `slots` is made when the first key
//! is stored, so a new database has no tables of slots; (3) in `slots` each kind of index has a `Census`,
//! which counts the entries in all indexes of the kind, and whose bits mark the tables that are not empty;
//! (4) an index of a slot that has become empty owns no memory; (5) adding, removing or looking up an entry
//! does not check whether its slot is hidden; scans, random choices and counts of shown entries do.
//!
//! The hash of a key contains its slot ([`crate::KeyHasher`]), so the hash alone selects the table.

use super::Store;
use crate::hasher::{Layout, slot_of};
use crate::imports::HiddenSlots;
use sluice_base::Rng;
use sluice_base::crc16::SLOT_COUNT;
use sluice_collections::index::{Index, IndexStats, Position};
use sluice_collections::slab::Handle;
use std::sync::Arc;

/// An index over keys and an index over the keys with an expiry.
#[derive(Default)]
pub(crate) struct Table {
    index: Index,
    expires: Index,
}

const _: () = assert!(size_of::<Table>() == 16, "an empty table is small: there are 16,384 of them");

/// One of the two indexes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexKind {
    /// The index over all keys.
    Keys,
    /// The index over keys with an expiry.
    Expires,
}

/// The tables of a database.
pub(crate) struct Tables {
    one: Table,
    /// The tables of the hash slots; `None` until the first key is stored, and with [`Layout::One`].
    slots: Option<Box<Slots>>,
    layout: Layout,
    /// Slots whose entries are excluded from scans, random choices and counts; `None` if no slot is hidden.
    pub(crate) hidden: Option<Arc<HiddenSlots>>,
}

/// A table for each hash slot.
struct Slots {
    tables: Box<[Table; SLOTS]>,
    keys: Census,
    expires: Census,
    /// Slot at which the next [`Tables::shrink_step`] continues.
    shrink_at: usize,
}

impl Table {
    #[inline(always)]
    pub(super) fn index(&self, kind: IndexKind) -> &Index {
        match kind {
            IndexKind::Keys => &self.index,
            IndexKind::Expires => &self.expires,
        }
    }

    #[inline(always)]
    pub(super) fn index_mut(&mut self, kind: IndexKind) -> &mut Index {
        match kind {
            IndexKind::Keys => &mut self.index,
            IndexKind::Expires => &mut self.expires,
        }
    }

    /// Continues the resizes that are due in the two indexes, by at most `budget` buckets in each; the result
    /// is whether more work is left.
    fn step(&mut self, budget: usize, store: &Store) -> bool {
        let a = self.index.step(budget, |h| store.rehash(h), |h| store.slab.prefetch(h));
        let b = self.expires.step(budget, |h| store.rehash(h), |h| store.slab.prefetch(h));
        a || b
    }
}

impl Tables {
    pub(crate) fn new(layout: Layout) -> Tables {
        Tables { one: Table::default(), slots: None, layout, hidden: None }
    }

    /// The table for a hash. Costs one branch, which always goes the same way.
    #[inline(always)]
    fn table(&self, hash: u64) -> &Table {
        match &self.slots {
            None => &self.one,
            Some(slots) => &slots.tables[slot_of(hash)],
        }
    }

    #[inline(always)]
    fn table_mut(&mut self, hash: u64) -> &mut Table {
        match &mut self.slots {
            None => &mut self.one,
            Some(slots) => &mut slots.tables[slot_of(hash)],
        }
    }

    /// The index of all hashes, if there are no tables of slots.
    #[inline(always)]
    pub(crate) fn single(&self, kind: IndexKind) -> Option<&Index> {
        self.slots.is_none().then(|| self.one.index(kind))
    }

    /// The index that a hash belongs to.
    #[inline(always)]
    pub(crate) fn index(&self, kind: IndexKind, hash: u64) -> &Index {
        self.table(hash).index(kind)
    }

    /// Adds an entry, which must be readable in `store` already.
    #[inline]
    pub(crate) fn insert(&mut self, kind: IndexKind, hash: u64, handle: Handle, store: &Store) {
        if self.slots.is_none() && self.layout == Layout::PerSlot {
            self.slots = Some(Slots::new());
        }
        let index = self.table_mut(hash).index_mut(kind);
        index.insert(hash, handle, |h| store.rehash(h), |h| store.slab.prefetch(h));
        if let Some(slots) = &mut self.slots {
            slots.count_in(kind, slot_of(hash));
        }
    }

    /// Makes room for `entries` entries in an empty index. Does nothing with a table for each slot:
    /// their sizes are unknown, and they grow as needed.
    pub(crate) fn reserve(&mut self, kind: IndexKind, entries: usize) {
        if self.layout == Layout::One {
            self.one.index_mut(kind).reserve(entries);
        }
    }

    /// Removes the entry at `position`; `hash` is the hash of its key.
    #[inline]
    pub(crate) fn remove(&mut self, kind: IndexKind, hash: u64, position: Position, store: &Store) {
        self.table_mut(hash).index_mut(kind).remove(position, |h| store.rehash(h));
        if let Some(slots) = &mut self.slots {
            slots.count_out(kind, slot_of(hash));
        }
    }

    /// Replaces the block at `position`; `hash` is the hash of the entry's key.
    #[inline]
    pub(crate) fn replace(&mut self, kind: IndexKind, hash: u64, position: Position, new: Handle) {
        self.table_mut(hash).index_mut(kind).replace(position, new);
    }

    /// Whether the entries of a slot are hidden.
    #[inline]
    pub(crate) fn hides(&self, slot: usize) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.has(slot))
    }

    /// Number of entries in all indexes of a kind. O(1).
    #[inline]
    pub(crate) fn len(&self, kind: IndexKind) -> usize {
        match &self.slots {
            None => self.one.index(kind).len(),
            Some(slots) => slots.census(kind).len,
        }
    }

    /// Number of entries of a kind, without hidden slots. O(1); if slots are hidden, one step for each
    /// hidden slot with entries.
    pub(crate) fn shown_len(&self, kind: IndexKind) -> usize {
        let len = self.len(kind);
        match (&self.slots, self.hidden.as_deref()) {
            (Some(slots), Some(hidden)) => len - slots.hidden_len(kind, hidden),
            (None, _) | (_, None) => len,
        }
    }

    /// Bytes of all indexes of a kind; for [`IndexKind::Keys`] also those of the array of tables and of
    /// the counts of entries. Cost: one step for each table that is not empty.
    pub(crate) fn bytes(&self, kind: IndexKind) -> usize {
        let fixed = match (&self.slots, kind) {
            (Some(_), IndexKind::Keys) => size_of::<Slots>() + size_of::<[Table; SLOTS]>(),
            (Some(_), IndexKind::Expires) | (None, _) => 0,
        };
        fixed + self.indexes(kind, None).map(Index::bytes).sum::<usize>()
    }

    /// Statistics of all indexes of a kind, summed. Cost: one step for each bucket.
    pub(crate) fn stats(&self, kind: IndexKind) -> IndexStats {
        self.indexes(kind, None).fold(IndexStats::default(), |mut sum, index| {
            sum.add(&index.stats());
            sum
        })
    }

    /// Every entry of a kind.
    pub(crate) fn iter(&self, kind: IndexKind) -> impl Iterator<Item = Handle> + '_ {
        self.indexes(kind, None).flat_map(Index::iter)
    }

    /// Every entry of a kind, without hidden slots.
    pub(crate) fn iter_shown(&self, kind: IndexKind) -> impl Iterator<Item = Handle> + '_ {
        self.indexes(kind, self.hidden.as_deref()).flat_map(Index::iter)
    }

    /// The indexes that are not empty, in the order of slots, without those of `hidden` slots.
    fn indexes<'a>(
        &'a self,
        kind: IndexKind,
        hidden: Option<&'a HiddenSlots>,
    ) -> impl Iterator<Item = &'a Index> {
        let one = (self.len(kind) > 0 && self.slots.is_none()).then(|| self.one.index(kind));
        let slots = self.slots.iter();
        one.into_iter().chain(slots.flat_map(move |slots| {
            let occupied = std::iter::successors(slots.census(kind).next_shown(0, hidden), move |slot| {
                slots.census(kind).next_shown(slot + 1, hidden)
            });
            occupied.map(move |slot| slots.tables[slot].index(kind))
        }))
    }

    /// Replaces the table of a slot with an empty one and returns the old one; `None` if the slot has no
    /// keys, or with [`Layout::One`]. O(1).
    pub(crate) fn take_table(&mut self, slot: u16) -> Option<Table> {
        let (slots, slot) = (self.slots.as_deref_mut()?, usize::from(slot));
        let table = std::mem::take(slots.tables.get_mut(slot).filter(|table| !table.index.is_empty())?);
        slots.keys.forget(slot, table.index.len());
        slots.expires.forget(slot, table.expires.len());
        Some(table)
    }

    /// The index over the keys of a slot; `None` if there are no tables of slots.
    pub(crate) fn of_slot(&self, slot: u16) -> Option<&Index> {
        Some(&self.slots.as_ref()?.tables.get(usize::from(slot))?.index)
    }

    /// The first slot at or after `slot` that has keys and is not hidden; `None` if there is none, or with
    /// [`Layout::One`].
    pub(crate) fn next_slot(&self, slot: u16) -> Option<u16> {
        let census = self.slots.as_ref()?.census(IndexKind::Keys);
        let next = census.next_shown(usize::from(slot), self.hidden.as_deref())?;
        u16::try_from(next).ok()
    }

    /// Visits the entries of one bucket and returns the next cursor, which for a single table is that of
    /// [`Index::scan`]. With a table for each slot, the low 14 bits of the cursor are the slot and the
    /// rest is the cursor in that table; empty tables and those of hidden slots are skipped. An entry
    /// that exists during the whole scan keeps its table from being empty, so the scan reaches it.
    pub(crate) fn scan(&self, kind: IndexKind, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.visit_bucket(kind, cursor, |index, within| index.scan(within, visit))
    }

    /// Visits entries as [`Tables::scan`] does, with [`Index::walk`] in each table.
    pub(crate) fn walk(&self, kind: IndexKind, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.visit_bucket(kind, cursor, |index, within| index.walk(within, visit))
    }

    /// Calls `visit` with the table that `cursor` selects and the cursor within that table.
    fn visit_bucket(&self, kind: IndexKind, cursor: u64, visit: impl FnOnce(&Index, u64) -> u64) -> u64 {
        let Some(slots) = &self.slots else {
            return match self.layout {
                Layout::One => visit(self.one.index(kind), cursor),
                Layout::PerSlot => 0,
            };
        };
        let census = slots.census(kind);
        let (start, within) = ((cursor as usize) % SLOTS, cursor >> SLOT_BITS);
        let hidden = self.hidden.as_deref();
        let Some(slot) = census.next_shown(start, hidden) else { return 0 };
        // A table that has become empty or hidden is skipped, and the cursor within it is dropped.
        let within = if slot == start { within } else { 0 };
        let within = visit(slots.tables[slot].index(kind), within);
        if within != 0 {
            return within << SLOT_BITS | slot as u64;
        }
        census.next_shown(slot + 1, hidden).map_or(0, |next| next as u64)
    }

    /// A random entry, uniformly distributed, never of a hidden slot; `None` if there is none.
    pub(crate) fn sample(&self, kind: IndexKind, rng: &mut Rng) -> Option<Handle> {
        let Some(slots) = &self.slots else { return self.one.index(kind).sample(rng) };
        let slot = slots.random_shown_slot(kind, self.hidden.as_deref(), rng)?;
        slots.tables[slot].index(kind).sample(rng)
    }

    /// Visits up to `count` entries near a place that the random number `draw` chooses. With a single table,
    /// all of them are different; with a table for each slot, they come from random tables that are not
    /// hidden. The result is the number of visited entries, which is below `count` if there are few entries
    /// or an index is very sparse.
    #[inline]
    pub(crate) fn sample_from(
        &self,
        kind: IndexKind,
        draw: u64,
        count: usize,
        mut visit: impl FnMut(Handle),
    ) -> usize {
        let Some(slots) = &self.slots else { return self.one.index(kind).sample_from(draw, count, visit) };
        let (mut rng, mut left) = (Rng::new(draw), count);
        // Several slots may be needed, because a slot's table may have fewer entries than are wanted.
        for _ in 0..count {
            if left == 0 {
                break;
            }
            let slot = slots.random_shown_slot(kind, self.hidden.as_deref(), &mut rng);
            let Some(slot) = slot else { break };
            left -= slots.tables[slot].index(kind).sample_from(rng.next_u64(), left, &mut visit);
        }
        count - left
    }

    /// Prefetches the memory that [`Tables::sample_from`] with the same `draw` reads first, if there is a
    /// single table.
    #[inline]
    pub(crate) fn prefetch_sample(&self, kind: IndexKind, draw: u64) {
        self.one.index(kind).prefetch_sample(draw);
    }

    /// Continues resizes that are due, by at most `budget` buckets of an index; the result is whether more
    /// work is left. With a table for each slot, a call resizes one table, and checks at most `budget` tables
    /// to find it. A pass over all tables takes several calls, and `true` means that the pass has not ended.
    pub(crate) fn shrink_step(&mut self, budget: usize, store: &Store) -> bool {
        match &mut self.slots {
            None => self.one.step(budget, store),
            Some(slots) => slots.shrink_step(budget, store),
        }
    }

    /// Checks invariants (1), (3) and (4); for tests. O(n).
    pub(crate) fn check(&self, store: &Store) {
        let Some(slots) = &self.slots else {
            assert!(self.layout == Layout::One || self.one.index.is_empty());
            return;
        };
        assert!(self.layout == Layout::PerSlot && self.one.index.is_empty() && self.one.expires.is_empty());
        for kind in [IndexKind::Keys, IndexKind::Expires] {
            let census = slots.census(kind);
            let mut counted = Census::EMPTY;
            for (slot, table) in slots.tables.iter().enumerate() {
                let index = table.index(kind);
                assert!(!index.is_empty() || index.bytes() == 0, "an empty index owns nothing (4)");
                for handle in index.iter() {
                    assert_eq!(slot, usize::from(sluice_base::key_slot(store.key(handle))));
                    counted.add(slot);
                    counted.set_occupied(slot, true);
                }
            }
            assert_eq!(census.len, counted.len);
            assert_eq!(census.sums, counted.sums);
            assert_eq!(census.groups, counted.groups);
            assert_eq!(census.occupied, counted.occupied);
        }
    }
}

impl Slots {
    #[cold]
    fn new() -> Box<Slots> {
        let tables: Vec<Table> = (0..SLOTS).map(|_| Table::default()).collect();
        let Ok(tables) = <Box<[Table; SLOTS]>>::try_from(tables.into_boxed_slice()) else {
            unreachable!("as many were made")
        };
        Box::new(Slots { tables, keys: Census::EMPTY, expires: Census::EMPTY, shrink_at: 0 })
    }

    fn census(&self, kind: IndexKind) -> &Census {
        match kind {
            IndexKind::Keys => &self.keys,
            IndexKind::Expires => &self.expires,
        }
    }

    fn parts(&mut self, kind: IndexKind, slot: usize) -> (&mut Census, &mut Index) {
        let index = self.tables[slot].index_mut(kind);
        match kind {
            IndexKind::Keys => (&mut self.keys, index),
            IndexKind::Expires => (&mut self.expires, index),
        }
    }

    /// Counts an entry that was added.
    #[inline(never)]
    fn count_in(&mut self, kind: IndexKind, slot: usize) {
        let (census, index) = self.parts(kind, slot);
        census.add(slot);
        if index.len() == 1 {
            census.set_occupied(slot, true);
        }
    }

    /// Counts an entry that was removed; if the index is then empty, it releases its memory.
    #[inline(never)]
    fn count_out(&mut self, kind: IndexKind, slot: usize) {
        let (census, index) = self.parts(kind, slot);
        census.subtract(slot);
        if index.is_empty() {
            census.set_occupied(slot, false);
            *index = Index::new();
        }
    }

    /// Number of entries in hidden slots. Cost: one step for each hidden slot with entries.
    fn hidden_len(&self, kind: IndexKind, hidden: &HiddenSlots) -> usize {
        let census = self.census(kind);
        let mut sum = 0;
        for (at, occupied) in census.occupied.iter().enumerate() {
            let mut word = occupied & hidden.word(at);
            while word != 0 {
                sum += self.tables[at * 64 + word.trailing_zeros() as usize].index(kind).len();
                word &= word - 1;
            }
        }
        sum
    }

    /// A random slot, as [`Slots::random_slot`], but not a hidden one. If `SHOWN_TRIES` choices were all
    /// hidden, the tables that are not hidden are searched in order.
    fn random_shown_slot(
        &self,
        kind: IndexKind,
        hidden: Option<&HiddenSlots>,
        rng: &mut Rng,
    ) -> Option<usize> {
        let Some(hidden) = hidden else { return self.random_slot(kind, rng) };
        for _ in 0..SHOWN_TRIES {
            let slot = self.random_slot(kind, rng)?;
            if !hidden.has(slot) {
                return Some(slot);
            }
        }
        let census = self.census(kind);
        let shown = census.len - self.hidden_len(kind, hidden);
        let mut left = if shown == 0 { return None } else { rng.below(shown as u64) as usize };
        let mut slot = census.next_shown(0, Some(hidden))?;
        loop {
            match left.checked_sub(self.tables[slot].index(kind).len()) {
                Some(rest) => left = rest,
                None => return Some(slot),
            }
            slot = census.next_shown(slot + 1, Some(hidden))?;
        }
    }

    /// A random slot, with a probability proportional to its number of entries.
    fn random_slot(&self, kind: IndexKind, rng: &mut Rng) -> Option<usize> {
        let census = self.census(kind);
        if census.len == 0 {
            return None;
        }
        let (group, mut left) = census.group_of(rng.below(census.len as u64) as usize);
        for slot in group * PER_GROUP..(group + 1) * PER_GROUP {
            if census.is_occupied(slot) {
                let len = self.tables[slot].index(kind).len();
                if left < len {
                    return Some(slot);
                }
                left -= len;
            }
        }
        debug_assert!(false, "a group counts its tables' entries (3)");
        None
    }

    fn shrink_step(&mut self, budget: usize, store: &Store) -> bool {
        for _ in 0..budget {
            let Some(slot) = self.keys.next(self.shrink_at) else {
                self.shrink_at = 0;
                return false;
            };
            let table = &mut self.tables[slot];
            if table.index.needs_step() || table.expires.needs_step() {
                let has_more = table.step(budget, store);
                self.shrink_at = slot + usize::from(!has_more);
                return true;
            }
            self.shrink_at = slot + 1;
        }
        true
    }
}

/// The number of entries in all slots, in runs of slots, and in smaller groups. Adding or removing an entry
/// changes three numbers. With `occupied`, scans and random choices skip empty tables.
struct Census {
    /// Number of entries in all slots.
    len: usize,
    /// Number of entries in each run of `PER_SUM` slots.
    sums: [u32; SLOTS / PER_SUM],
    /// Number of entries in each run of `PER_GROUP` slots.
    groups: [u32; SLOTS / PER_GROUP],
    /// A bit for each slot that has entries.
    occupied: [u64; SLOTS / 64],
}

impl Census {
    const EMPTY: Census = Census {
        len: 0,
        sums: [0; SLOTS / PER_SUM],
        groups: [0; SLOTS / PER_GROUP],
        occupied: [0; SLOTS / 64],
    };

    fn add(&mut self, slot: usize) {
        self.len += 1;
        self.sums[slot / PER_SUM] += 1;
        self.groups[slot / PER_GROUP] += 1;
    }

    fn subtract(&mut self, slot: usize) {
        self.len -= 1;
        self.sums[slot / PER_SUM] -= 1;
        self.groups[slot / PER_GROUP] -= 1;
    }

    /// Subtracts all `len` entries of a slot that are removed at once.
    fn forget(&mut self, slot: usize, len: usize) {
        self.len -= len;
        // No index has more entries than there are handles, so `len` fits.
        self.sums[slot / PER_SUM] -= len as u32;
        self.groups[slot / PER_GROUP] -= len as u32;
        self.set_occupied(slot, false);
    }

    fn set_occupied(&mut self, slot: usize, is_occupied: bool) {
        let bit = 1 << (slot % 64);
        let word = &mut self.occupied[slot / 64];
        *word = if is_occupied { *word | bit } else { *word & !bit };
    }

    fn is_occupied(&self, slot: usize) -> bool {
        self.occupied[slot / 64] >> (slot % 64) & 1 != 0
    }

    /// The first slot at or after `slot` that has entries.
    fn next(&self, slot: usize) -> Option<usize> {
        let first = slot / 64;
        let word = self.occupied.get(first)? & !0 << (slot % 64);
        if word != 0 {
            return Some(first * 64 + word.trailing_zeros() as usize);
        }
        let later = self.occupied[first + 1..].iter().position(|word| *word != 0)? + first + 1;
        Some(later * 64 + self.occupied[later].trailing_zeros() as usize)
    }

    /// The first slot at or after `slot` that has entries and is not hidden.
    fn next_shown(&self, slot: usize, hidden: Option<&HiddenSlots>) -> Option<usize> {
        let Some(hidden) = hidden else { return self.next(slot) };
        let mut mask = !0 << (slot % 64);
        for (at, occupied) in self.occupied.iter().enumerate().skip(slot / 64) {
            let word = occupied & !hidden.word(at) & mask;
            if word != 0 {
                return Some(at * 64 + word.trailing_zeros() as usize);
            }
            mask = !0;
        }
        None
    }

    /// The group that contains the entry number `number` in the order of slots, and the entry's number
    /// within that group.
    fn group_of(&self, number: usize) -> (usize, usize) {
        let (sum, left) = skip(&self.sums, number);
        let first = sum * (PER_SUM / PER_GROUP);
        let (group, left) = skip(&self.groups[first..], left);
        (first + group, left)
    }
}

/// The first position of `counts` at which the running sum exceeds `number`, and `number` less the sum of
/// the counts before this position.
fn skip(counts: &[u32], mut number: usize) -> (usize, usize) {
    for (at, count) in counts.iter().enumerate() {
        match number.checked_sub(*count as usize) {
            Some(left) => number = left,
            None => return (at, number),
        }
    }
    debug_assert!(false, "the number is below the sum of all");
    (0, 0)
}

const SLOTS: usize = SLOT_COUNT as usize;
const SLOT_BITS: u32 = SLOT_COUNT.trailing_zeros();
/// Number of random slots that are tried to find one that is not hidden, before the tables are searched in
/// order.
const SHOWN_TRIES: usize = 16;
/// Number of slots whose entries are counted together as a group.
const PER_GROUP: usize = 16;
/// Number of slots whose entries are counted together as a sum. With these numbers, a random choice reads at
/// most 32 sums, 32 groups and 16 tables.
const PER_SUM: usize = 512;
