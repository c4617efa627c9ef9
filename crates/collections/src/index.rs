//! A hash index by linear hashing: from hashes to handles, without a second table and without a doubling
//! pause.
//!
//! It holds 32-bit handles and one byte of each hash; keys and full hashes stay with the caller, which
//! compares candidates (`eq`) and computes hashes anew (`rehash`) when a bucket is split.
//!
//! ```text
//!  buckets  0 ............ split ............ mask | mask+1 ....... mask+split
//!           already split │ not yet, addressed    │ the other halves of the split ones
//!           (mask*2+1)    │ by mask               │ (mask*2+1)
//! ```
//!
//! Invariants:
//! 1. `table.len() == mask + 1 + split`, `split <= mask`, `mask + 1` a power of two. An entry is in the chain
//!    of bucket `hash & mask`, or `hash & (mask*2+1)` if the former is below `split`.
//! 2. A chain is the bucket in the table, then buckets of the overflow pool. All of them are full but the
//!    first of the pool's; the table's may have holes only if it is alone. So inserting and removing never
//!    walk a chain.
//! 3. The pool has no holes (so that a uniform slot is a uniform sample, and memory shrinks): the bucket at
//!    its end moves into a slot that becomes free. Its buckets are numbered from 1.
//! 4. *Growing:* bucket `s` of a level is split once `len >= 8*2^level + 4*(s+1)`: it begins at 8 entries a
//!    bucket and is through at 12, that is, at 6 for each of twice the buckets. One split for every four
//!    inserts; two at most. *Shrinking:* begins below 2.5 entries a bucket and ends at 5, with at most two
//!    merges for each removal.
//! 5. *Scanning:* let `r(h)` be a hash with its bits reversed. The hashes of bucket `i` with mask `m` are
//!    those that end in the bits of `i`: an interval of `r`. A cursor is a point of that line, and
//!    [`Index::scan`] visits the whole interval around it and returns its end. Whatever was split or merged
//!    between two calls, what one call leaves unvisited lies at or behind its answer, and intervals only
//!    change at their ends: an element that is present all the time is visited by the call whose interval
//!    contains it. A merge may visit some entries twice; no entry is left out.
//!
//! 6. *Walking:* [`Index::walk`] visits buckets by their numbers. What is left to walk is then spread over
//!    the numbers that a halving leaves, so that a walk that removes what it meets keeps chains short. Behind
//!    a scan that removes, what is left ends in the same bits, and a halving gathers it in a few long chains.
//!    The price: a merge may move an entry back behind the walk, so that only a walk without merges is sure
//!    to meet all that stays. A caller walks until nothing is left.
//!
//! Equal hashes are correct and cost time linear in their number for each lookup; keyed hashing is the
//! caller's duty.

mod bucket;
mod buckets;
mod lazy;

pub use lazy::Index;

use sluice_base::Rng;

use crate::slab::Handle;
use bucket::{Bucket, LANES};
use buckets::{Buckets, OverflowPool};

/// Where an entry is. Valid until the next change of the index other than [`Index::replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    found: Handle,
    /// The table's bucket at which the chain begins.
    home: u32,
    /// The pool's bucket, or 0 when it is in the table's.
    overflow: u32,
    lane: u32,
}

impl Position {
    /// The handle that was found there; free, where [`Index::handle`] looks again.
    #[inline(always)]
    pub fn handle(self) -> Handle {
        self.found
    }
}

/// How full an index is and how it is laid out; counted by walking it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Lanes of the table and of the overflow buckets in use.
    pub lanes: usize,
    /// Entries.
    pub used: usize,
    /// Buckets of the table.
    pub buckets: usize,
    /// Overflow buckets in use.
    pub overflow_buckets: usize,
    /// Buckets in the longest chain; 1 without overflow.
    pub chain_max: usize,
    /// Chains by their number of buckets: `[i]` of `i + 1`; the last counts all longer ones.
    pub chains: [usize; 8],
    /// Chains by their number of entries: `[i]` of `i`; the last counts all longer ones.
    pub entries: [usize; 32],
    /// Whether a doubling has begun and not ended.
    pub is_growing: bool,
    /// Whether a halving has begun and not ended.
    pub is_shrinking: bool,
}

impl IndexStats {
    /// Adds those of another index: of both together then, and the longest chain of the two.
    pub fn add(&mut self, other: &IndexStats) {
        self.lanes += other.lanes;
        self.used += other.used;
        self.buckets += other.buckets;
        self.overflow_buckets += other.overflow_buckets;
        self.chain_max = self.chain_max.max(other.chain_max);
        self.chains.iter_mut().zip(other.chains).for_each(|(sum, more)| *sum += more);
        self.entries.iter_mut().zip(other.entries).for_each(|(sum, more)| *sum += more);
        self.is_growing |= other.is_growing;
        self.is_shrinking |= other.is_shrinking;
    }
}

/// The index, once it has had an entry; see the module's notes.
struct Linear {
    table: Buckets,
    pool: OverflowPool,
    mask: usize,
    /// Buckets of this level already split; the next one to split.
    split: u32,
    len: u32,
    /// `len` at which the next split is due.
    grow_at: u32,
    is_shrinking: bool,
}

// An allocator's class: there may be an index for each of 16,384 slots.
const _: () = assert!(size_of::<Linear>() <= 64);

impl Linear {
    /// Without entries: one bucket.
    fn new() -> Linear {
        let mut table = Buckets::new();
        table.push(Bucket::EMPTY);
        Linear {
            table,
            pool: OverflowPool::new(),
            mask: 0,
            split: 0,
            len: 0,
            grow_at: (GROW_FROM + GROW_PER_SPLIT) as u32,
            is_shrinking: false,
        }
    }

    /// Entries held.
    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline(always)]
    fn split(&self) -> usize {
        self.split as usize
    }

    #[inline(always)]
    fn grow_at(&self) -> usize {
        self.grow_at as usize
    }

    /// Buckets of the table, overflow not counted.
    #[inline]
    fn buckets(&self) -> usize {
        self.table.len()
    }

    /// Bytes allocated.
    fn bytes(&self) -> usize {
        self.table.bytes() + self.pool.bytes()
    }

    /// The entry with this hash for which `eq` says so. `eq` sees every entry of the bucket that has the same
    /// tag: one in about 255 of the others.
    #[inline(always)]
    fn find(&self, hash: u64, mut eq: impl FnMut(Handle) -> bool) -> Option<Position> {
        let tag = tag_of(hash);
        let home = self.home(hash);
        let mut bucket = self.table.at(home);
        let mut overflow = 0;
        loop {
            for lane in bucket.matching(tag) {
                if let Some(found) = bucket.handle(lane)
                    && eq(found)
                {
                    return Some(Position { found, home: home as u32, overflow, lane });
                }
            }
            overflow = bucket.link();
            if overflow == 0 {
                return None;
            }
            bucket = self.pool.at(overflow);
        }
    }

    /// The handle that is at `position` now, after a [`Linear::replace`] too.
    ///
    /// # Panics
    /// When the index has changed since the position was given, at the latest when its bucket is gone.
    #[inline]
    fn handle(&self, position: Position) -> Handle {
        self.bucket(position).handle(position.lane).expect("a position is used before the next change")
    }

    /// Puts another handle at `position`, of an entry with the same hash, and returns the old one.
    #[inline]
    fn replace(&mut self, position: Position, handle: Handle) -> Handle {
        let old = self.handle(position);
        self.bucket_mut(position).replace(position.lane, handle);
        old
    }

    /// Adds an entry that is not there yet. The entry must be readable already: `rehash` may be asked for its
    /// hash. At most two buckets are split, with `prefetch` called for their entries first.
    ///
    /// # Panics
    /// At 2^31 overflow buckets, which take more entries than a slab has blocks for: all of a chain but one
    /// are full.
    #[inline]
    fn insert(
        &mut self,
        hash: u64,
        handle: Handle,
        rehash: impl Fn(Handle) -> u64,
        prefetch: impl Fn(Handle),
    ) {
        self.put_in_chain(self.home(hash), tag_of(hash), handle, &mut 0);
        self.len += 1;
        // Two inserts ahead the bucket to split is asked for, one ahead its entries, so that splitting finds
        // them near.
        if self.len() + 2 >= self.grow_at() {
            self.grow(&rehash, &prefetch);
        }
    }

    /// Takes the entry at `position` out. At most two buckets are merged, and at most one overflow bucket
    /// moves (for which `rehash` is asked for the hash of one of its entries).
    ///
    /// # Panics
    /// As [`Linear::handle`].
    #[inline]
    fn remove(&mut self, position: Position, rehash: impl Fn(Handle) -> u64) -> Handle {
        let handle = self.handle(position);
        self.bucket_mut(position).clear(position.lane);
        self.len -= 1;
        if self.table.at(position.home as usize).link() != 0 {
            self.refill(position, &rehash);
        }
        if self.is_shrinking || 2 * self.len() < 5 * self.table.len() {
            self.shrink(MERGES_MAX);
        }
        handle
    }

    /// Takes the entries of the last bucket out, and the bucket with them where there is another one. Cost:
    /// one step for each bucket of the chain, each of which may ask for the hash of another entry.
    fn take_last(&mut self, taken: &mut Vec<Handle>, rehash: impl Fn(Handle) -> u64) {
        let before = taken.len();
        let last = match self.table.len() {
            0 | 1 => std::mem::replace(self.table.at_mut(0), Bucket::EMPTY),
            _ => self.drop_last().unwrap_or(Bucket::EMPTY),
        };
        taken.extend(last.handles());
        let (mut next, mut chain) = (last.link(), Vec::new());
        while next != 0 {
            let bucket = self.pool.at(next);
            taken.extend(bucket.handles());
            chain.push(next);
            next = bucket.link();
        }
        self.len -= (taken.len() - before) as u32;
        // The highest first: the bucket that moves into its place is of another chain.
        chain.sort_unstable();
        chain.into_iter().rev().for_each(|number| self.release(number, &rehash));
    }

    /// Carries on with a doubling or halving that is due, by at most `budget` buckets. Returns whether more
    /// is due.
    fn step(&mut self, budget: usize, rehash: impl Fn(Handle) -> u64, prefetch: impl Fn(Handle)) -> bool {
        let mut left = budget;
        while left > 0 && self.len() >= self.grow_at() {
            self.split_next(&rehash, &prefetch);
            left -= 1;
        }
        self.shrink(left);
        self.needs_step()
    }

    /// Whether [`Linear::step`] would do anything.
    fn needs_step(&self) -> bool {
        self.len() >= self.grow_at() || self.shrink_is_due()
    }

    /// Visits the entries of one bucket and returns the cursor to go on with; begin with 0, and 0 means the
    /// end. An element that is present from the first call to the last is visited at least once, whatever
    /// happens in between; some may be visited twice (5). Any cursor is allowed.
    fn scan(&self, cursor: u64, mut visit: impl FnMut(Handle)) -> u64 {
        let home = self.home(cursor);
        self.chain(home).flat_map(Bucket::handles).for_each(&mut visit);
        let is_split = (home & self.mask) < self.split();
        let mask = if is_split { self.mask * 2 + 1 } else { self.mask } as u64;
        // Adds one to the bucket's number, highest bit first: the start of the next interval.
        (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }

    /// Visits the entries of the bucket of this number, of bucket 0 where the table has become smaller, and
    /// returns the next number; 0 means the end (6).
    fn walk(&self, bucket: u64, visit: impl FnMut(Handle)) -> u64 {
        let home = usize::try_from(bucket).ok().filter(|home| *home < self.table.len()).unwrap_or(0);
        self.chain(home).flat_map(Bucket::handles).for_each(visit);
        ((home + 1) % self.table.len()) as u64
    }

    /// A random entry, all of them alike; none when there are none. Tries random slots: at most three on
    /// average in an index that is not about to shrink.
    fn sample(&self, rng: &mut Rng) -> Option<Handle> {
        if self.len() == 0 {
            return None;
        }
        for _ in 0..SAMPLE_TRIES {
            let slot = rng.below((self.bucket_count() * LANES) as u64) as usize;
            let (bucket, lane) = (self.bucket_at(slot / LANES), (slot % LANES) as u32);
            if bucket.tag(lane) != 0 {
                return bucket.handle(lane);
            }
        }
        // Very sparse: the first one from a random bucket on.
        let start = rng.below(self.bucket_count() as u64) as usize;
        (0..self.bucket_count())
            .find_map(|i| self.bucket_at((start + i) % self.bucket_count()).handles().next())
    }

    /// Visits up to `count` different entries: those that follow the location in memory that `draw`
    /// chooses, each draw another. Returns how many; fewer than asked for only if the index is smaller or
    /// very sparse. Much cheaper than as many [`Linear::sample`]s, and good enough where neighbours in the
    /// order of hashes are as random as any.
    #[inline]
    fn sample_from(&self, draw: u64, count: usize, mut visit: impl FnMut(Handle)) -> usize {
        let buckets = self.bucket_count();
        let (start, lane) = self.drawn(draw);
        // Not from the first lane on: entries of the last ones would hardly ever be drawn.
        let (tail, head) = (!0 << lane, !(!0 << lane));
        let between = buckets.min(count.saturating_mul(4).saturating_add(16));
        let (mut at, mut left) = (start, count);
        for step in 0..=between {
            let lanes = match step {
                0 => tail,
                _ if step == between => head,
                _ => !0,
            };
            let bucket = self.bucket_at(if step == between { start } else { at });
            for handle in bucket.filled().and(lanes).filter_map(|lane| bucket.handle(lane)) {
                if left == 0 {
                    return count;
                }
                visit(handle);
                left -= 1;
            }
            at = if at + 1 == buckets { 0 } else { at + 1 };
        }
        count - left
    }

    /// Asks for the cache line that [`Linear::sample_from`] will look at first.
    #[inline]
    fn prefetch_sample(&self, draw: u64) {
        self.bucket_at(self.drawn(draw).0).prefetch();
    }

    /// The bucket and the lane that a draw chooses, all of them alike.
    #[inline]
    fn drawn(&self, draw: u64) -> (usize, u32) {
        let lanes = (self.bucket_count() * LANES) as u64;
        let lane = ((u128::from(draw) * u128::from(lanes)) >> 64) as usize;
        (lane / LANES, (lane % LANES) as u32)
    }

    /// Asks for the cache line that [`Linear::find`] will look at first.
    #[inline]
    fn prefetch_bucket(&self, hash: u64) {
        self.table.at(self.home(hash)).prefetch();
    }

    /// Calls `candidate` for the entry that [`Linear::find`] will compare first, so that the caller can
    /// prefetch it; if the bucket itself has none, asks for the next bucket of the chain.
    #[inline(always)]
    fn prefetch_candidates(&self, hash: u64, mut candidate: impl FnMut(Handle)) {
        let bucket = self.table.at(self.home(hash));
        if let Some(handle) = bucket.matching(tag_of(hash)).first().and_then(|lane| bucket.handle(lane)) {
            candidate(handle);
        } else if bucket.link() != 0 {
            self.pool.at(bucket.link()).prefetch();
        }
    }

    /// All entries, in the order of memory.
    fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.table.iter().chain(self.pool.iter()).flat_map(Bucket::handles)
    }

    /// Counts; cost: one step for each bucket.
    fn stats(&self) -> IndexStats {
        let mut stats = IndexStats { used: self.len(), buckets: self.table.len(), ..IndexStats::default() };
        for home in 0..self.table.len() {
            let (mut buckets, mut entries) = (0, 0);
            for bucket in self.chain(home) {
                buckets += 1;
                entries += bucket.filled().count();
            }
            stats.overflow_buckets += buckets - 1;
            stats.chain_max = stats.chain_max.max(buckets);
            stats.chains[(buckets - 1).min(7)] += 1;
            stats.entries[entries.min(31)] += 1;
        }
        stats.lanes = (stats.buckets + stats.overflow_buckets) * LANES;
        stats.is_growing = self.split() != 0 && self.len() >= GROW_FROM * (self.mask + 1);
        stats.is_shrinking = self.is_shrinking;
        stats
    }

    /// The table's bucket for a hash, by invariant (1).
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        let low = hash as usize & self.mask;
        if (low as u32) < self.split { hash as usize & (self.mask * 2 + 1) } else { low }
    }

    #[inline(always)]
    fn bucket(&self, position: Position) -> &Bucket {
        match position.overflow {
            0 => self.table.at(position.home as usize),
            overflow => self.pool.at(overflow),
        }
    }

    #[inline(always)]
    fn bucket_mut(&mut self, position: Position) -> &mut Bucket {
        match position.overflow {
            0 => self.table.at_mut(position.home as usize),
            overflow => self.pool.at_mut(overflow),
        }
    }

    /// The buckets of a chain, the table's first.
    #[inline]
    fn chain(&self, home: usize) -> impl Iterator<Item = &Bucket> {
        std::iter::successors(Some(self.table.at(home)), |bucket| match bucket.link() {
            0 => None,
            next => Some(self.pool.at(next)),
        })
    }

    /// Buckets of the table and the pool together, numbered in this order.
    fn bucket_count(&self) -> usize {
        self.table.len() + self.pool.len()
    }

    fn bucket_at(&self, number: usize) -> &Bucket {
        match number.checked_sub(self.table.len()) {
            None => self.table.at(number),
            Some(overflow) => self.pool.at(overflow as u32 + 1),
        }
    }

    /// Puts an entry into a chain. `spare` begins a list of empty pool buckets to take before the pool's
    /// next.
    #[inline(always)]
    fn put_in_chain(&mut self, home: usize, tag: u8, handle: Handle, spare: &mut u32) {
        let bucket = self.table.at_mut(home);
        if let Some(lane) = bucket.vacant().first() {
            bucket.set(lane, tag, handle);
        } else {
            self.put_in_overflow(home, tag, handle, spare);
        }
    }

    #[cold]
    #[inline(never)]
    fn put_in_overflow(&mut self, home: usize, tag: u8, handle: Handle, spare: &mut u32) {
        let first = self.table.at(home).link();
        if first != 0 {
            let bucket = self.pool.at_mut(first);
            if let Some(lane) = bucket.vacant().first() {
                bucket.set(lane, tag, handle);
                return;
            }
        }
        let fresh = if *spare != 0 {
            let fresh = *spare;
            *spare = self.pool.at(fresh).link();
            fresh
        } else {
            assert!(self.pool.len() < OVERFLOW_MAX, "a link has 31 bits");
            self.pool.push(Bucket::EMPTY)
        };
        let bucket = self.pool.at_mut(fresh);
        bucket.set(0, tag, handle);
        bucket.set_link(first);
        self.table.at_mut(home).set_link(fresh);
    }

    /// Restores invariant (2) after `position` was emptied in a chain with overflow: the hole is filled from
    /// the chain's first overflow bucket, which goes when it is empty.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, position: Position, rehash: &impl Fn(Handle) -> u64) {
        let first = self.table.at(position.home as usize).link();
        if position.overflow != first {
            let donor = self.pool.at_mut(first);
            let Some(lane) = donor.filled().first() else { return };
            let (tag, moved) = (donor.tag(lane), donor.handle(lane));
            donor.clear(lane);
            if let Some(moved) = moved {
                self.bucket_mut(position).set(position.lane, tag, moved);
            }
        }
        let donor = self.pool.at(first);
        if donor.filled().is_empty() {
            let next = donor.link();
            self.table.at_mut(position.home as usize).set_link(next);
            self.release(first, rehash);
        }
    }

    /// Gives an empty pool bucket that no chain contains back, by invariant (3).
    fn release(&mut self, free: u32, rehash: &impl Fn(Handle) -> u64) {
        *self.pool.at_mut(free) = Bucket::EMPTY;
        let last = self.pool.last();
        if last == free {
            self.pool.pop();
            return;
        }
        let Some(member) = self.pool.at(last).handles().next() else { return };
        let home = self.home(rehash(member));
        let mut before = None;
        let mut next = self.table.at(home).link();
        while next != 0 && next != last {
            before = Some(next);
            next = self.pool.at(next).link();
        }
        debug_assert!(next != 0, "rehash gives the hash that the entry was inserted with");
        if next == 0 {
            return;
        }
        match before {
            None => self.table.at_mut(home).set_link(free),
            Some(before) => self.pool.at_mut(before).set_link(free),
        }
        *self.pool.at_mut(free) = *self.pool.at(last);
        self.pool.pop();
    }

    /// What an insert does about growing (4); called from two inserts before a split is due.
    #[inline(never)]
    fn grow(&mut self, rehash: &impl Fn(Handle) -> u64, prefetch: &impl Fn(Handle)) {
        match self.grow_at().saturating_sub(self.len()) {
            0 => {
                for _ in 0..SPLITS_MAX {
                    if self.len() >= self.grow_at() {
                        self.split_next(rehash, prefetch);
                    }
                }
            }
            1 => self.chain(self.split()).flat_map(Bucket::handles).for_each(prefetch),
            _ => self.table.at(self.split()).prefetch(),
        }
    }

    /// Makes the buckets that so many entries will have; only where there is no entry. Cost: one step for
    /// each bucket.
    fn reserve(&mut self, entries: usize) {
        if self.len() > 0 {
            return;
        }
        while entries >= self.grow_at() && self.table.len() < BUCKETS_RESERVED_MAX {
            self.table.push(Bucket::EMPTY);
            self.advance_split();
        }
    }

    /// One bucket more is split.
    fn advance_split(&mut self) {
        self.split += 1;
        if self.split() > self.mask {
            self.mask = self.mask * 2 + 1;
            self.split = 0;
        }
        self.is_shrinking = false;
        self.schedule();
    }

    /// Splits the next bucket in two.
    fn split_next(&mut self, rehash: &impl Fn(Handle) -> u64, prefetch: &impl Fn(Handle)) {
        let low = self.split();
        self.chain(low).flat_map(Bucket::handles).for_each(prefetch);
        let bit = (self.mask + 1) as u64;
        let old = *self.table.at(low);
        let high = self.table.push(Bucket::EMPTY);
        debug_assert_eq!(high, low + self.mask + 1);
        self.advance_split();
        if old.link() == 0 {
            for lane in old.filled() {
                if old.handle(lane).is_some_and(|handle| rehash(handle) & bit != 0) {
                    self.table.at_mut(low).clear(lane);
                    let Some(handle) = old.handle(lane) else { continue };
                    self.table.at_mut(high).set(lane, old.tag(lane), handle);
                }
            }
        } else {
            *self.table.at_mut(low) = Bucket::EMPTY;
            let free = self.deal(old, rehash);
            if free != 0 {
                self.release(free, rehash);
            }
        }
    }

    /// Distributes the entries of a chain taken out of the table, whose first bucket is `old`, to the buckets
    /// where they belong now. Returns an overflow bucket left over, or 0.
    ///
    /// No more than one is: all buckets of the chain but its first overflow bucket were full (2). The buckets
    /// emptied are those that are filled again, in step.
    #[cold]
    fn deal(&mut self, old: Bucket, rehash: &impl Fn(Handle) -> u64) -> u32 {
        let mut spare = 0;
        self.deal_bucket(&old, rehash, &mut spare);
        let mut next = old.link();
        while next != 0 {
            let number = next;
            let bucket = std::mem::replace(self.pool.at_mut(number), Bucket::EMPTY);
            next = bucket.link();
            self.pool.at_mut(number).set_link(spare);
            spare = number;
            self.deal_bucket(&bucket, rehash, &mut spare);
        }
        debug_assert!(spare == 0 || self.pool.at(spare).link() == 0);
        spare
    }

    fn deal_bucket(&mut self, bucket: &Bucket, rehash: &impl Fn(Handle) -> u64, spare: &mut u32) {
        for lane in bucket.filled() {
            if let Some(handle) = bucket.handle(lane) {
                self.put_in_chain(self.home(rehash(handle)), bucket.tag(lane), handle, spare);
            }
        }
    }

    /// Merges while a halving is under way or due, at most `budget` times.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self, budget: usize) {
        for _ in 0..budget {
            self.is_shrinking = self.shrink_is_due();
            if !self.is_shrinking {
                return;
            }
            self.merge_last();
        }
        self.is_shrinking = self.shrink_is_due();
    }

    fn shrink_is_due(&self) -> bool {
        let buckets = self.table.len();
        let enough =
            if self.is_shrinking { 2 * self.len() >= 10 * buckets } else { 2 * self.len() >= 5 * buckets };
        buckets > 1 && !enough
    }

    /// Merges the last bucket of the table into the one that it was split from. That needs no hash of a key.
    fn merge_last(&mut self) {
        let Some(gone) = self.drop_last() else { return };
        let home = self.split();
        // The overflow buckets first: what they free is what the entries of the others may need, and then
        // nothing can be left over, since a chain of all of them is at most as much shorter as the bucket
        // that went.
        let mut spare = 0;
        let mut next = gone.link();
        while next != 0 {
            let number = next;
            let bucket = std::mem::replace(self.pool.at_mut(number), Bucket::EMPTY);
            next = bucket.link();
            self.pool.at_mut(number).set_link(spare);
            spare = number;
            self.merge_bucket(home, &bucket, &mut spare);
        }
        self.merge_bucket(home, &gone, &mut spare);
        debug_assert_eq!(spare, 0);
    }

    fn merge_bucket(&mut self, home: usize, bucket: &Bucket, spare: &mut u32) {
        for lane in bucket.filled() {
            if let Some(handle) = bucket.handle(lane) {
                self.put_in_chain(home, bucket.tag(lane), handle, spare);
            }
        }
    }

    /// Takes the last of at least two buckets off the table: the hashes that it had belong to bucket `split`
    /// then.
    fn drop_last(&mut self) -> Option<Bucket> {
        let gone = self.table.pop();
        if self.split() == 0 {
            self.mask >>= 1;
            self.split = self.mask as u32 + 1;
        }
        self.split -= 1;
        self.schedule();
        gone
    }

    fn schedule(&mut self) {
        let due = GROW_FROM * (self.mask + 1) + GROW_PER_SPLIT * (self.split() + 1);
        // There are not more entries than handles.
        self.grow_at = u32::try_from(due).unwrap_or(u32::MAX);
    }
}

/// Buckets that are made ahead at most: for as many entries as there are handles.
const BUCKETS_RESERVED_MAX: usize = 1 << 29;

/// The byte of a hash that a bucket keeps: the highest, since the lowest bits choose the bucket; never 0.
#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 56) as u8;
    tag + u8::from(tag == 0)
}

/// Entries for each bucket of a level at which splitting it begins, and from one split to the next. From 1 M
/// to 2 M keys these give 9.8 bytes a key and at most 6 overflow buckets for 100; 9 and 5 give 9.0 bytes, but
/// up to 14 for 100, each of which is a third cache miss for some lookups.
const GROW_FROM: usize = 8;
const GROW_PER_SPLIT: usize = 4;
/// Splits that an insert makes at most.
const SPLITS_MAX: usize = 2;
/// Merges that a removal makes at most.
const MERGES_MAX: usize = 2;
/// Random slots looked at before a sample is searched for.
const SAMPLE_TRIES: usize = 64;
/// Overflow buckets that a link can name.
const OVERFLOW_MAX: usize = 1 << 31;

#[cfg(test)]
mod tests;
