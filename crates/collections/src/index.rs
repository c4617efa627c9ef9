//! A hash index by linear hashing, from hashes to handles. The index needs no second table and makes no pause
//! to double.
//!
//! The index holds 32-bit handles and one byte of each hash. Keys and full hashes stay with the caller,
//! which compares candidates (`eq`) and computes hashes again (`rehash`) when a bucket is split.
//!
//! ```text
//!  buckets  0 ............ split ............ mask | mask+1 ....... mask+split
//!           already split │ not yet, addressed    │ the other halves of the split ones
//!           (mask*2+1)    │ by mask               │ (mask*2+1)
//! ```
//!
//! Invariants:
//! 1. `table.len() == mask + 1 + split`, `split <= mask`, `mask + 1` a power of two. An entry is in the
//!    chain of bucket `hash & mask`, or of bucket `hash & (mask*2+1)` if bucket `hash & mask` is already
//!    split (its number is below `split`).
//! 2. A chain is the bucket in the table, followed by buckets of the overflow pool. All of them are full
//!    except the first overflow bucket; the table's bucket may have holes only if it is alone. So an insert
//!    touches only the first two buckets of a chain, and a removal touches these and the bucket of the entry,
//!    however long the chain is.
//! 3. The pool has no holes: when a bucket becomes free, the pool's last bucket takes its place. So
//!    memory shrinks, and a lane (a place for one entry) that is drawn uniformly is a uniform sample. The
//!    buckets are numbered from 1.
//! 4. *Growing:* a *level* is the time in which the table doubles from 2^level buckets. Bucket `s` is split
//!    once `len >= 8*2^level + 4*(s+1)`: the first at 8 entries a bucket, the last at 12; the table then
//!    has twice the buckets, with 6 entries each. There is one split for every four inserts, and at most two
//!    in one insert. *Shrinking:* begins below 2.5 entries a bucket and ends at 5, with at most two merges
//!    for each removal.
//! 5. *Scanning:* let `r(h)` be a hash with its bits reversed. The hashes of bucket `i` with mask `m` are
//!    those that end in the bits of `i`: an interval of the values of `r`. A cursor is a value of `r`, and
//!    [`Index::scan`] visits the whole interval around the cursor and returns the interval's end. A split
//!    halves an interval and a merge joins two halves; neither moves a hash to the other side of a returned
//!    cursor. So an entry that is present throughout is visited by the call whose interval contains it. A
//!    merge may cause some entries to be visited twice; no entry is left out.
//!
//! 6. *Walking:* [`Index::walk`] visits buckets by their numbers. A halving lays bucket `i + half` onto
//!    bucket `i`, so at most two buckets that are still to be walked meet there, and a walk that removes
//!    the entries it visits keeps chains short. With a scan (5) that removes the entries it visits, the
//!    remaining hashes would end in the same bits, and a halving would gather them in a few long chains. A
//!    walk has a price: a merge may move an entry to a bucket that was walked already, so only a walk without
//!    merges is sure to visit all entries that stay. A caller repeats the walk until nothing is left.
//!
//! Equal hashes are allowed, and cost time linear in their number for each lookup; the caller must
//! use a keyed hash.

mod bucket;
mod buckets;
mod lazy;

pub use lazy::Index;

use sluice_base::Rng;

use crate::slab::Handle;
use bucket::{Bucket, LANES};
use buckets::{Buckets, OverflowPool};

/// The location of an entry. Valid until the next change of the index other than [`Index::replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    found: Handle,
    /// The table's bucket that the chain begins with.
    home: u32,
    /// The number of the overflow bucket; 0 if the entry is in the table's bucket.
    overflow: u32,
    lane: u32,
}

impl Position {
    /// The handle that the look-up found. Costs nothing, unlike [`Index::handle`], which reads
    /// the bucket again.
    #[inline(always)]
    pub fn handle(self) -> Handle {
        self.found
    }
}

/// The fill and layout of an index, counted by walking it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Lanes, the places for entries: twelve a bucket, in the table and in the used overflow buckets.
    pub lanes: usize,
    /// Entries that the index holds.
    pub used: usize,
    /// Buckets of the table.
    pub buckets: usize,
    /// Overflow buckets in use.
    pub overflow_buckets: usize,
    /// Buckets in the longest chain; 1 without overflow.
    pub chain_max: usize,
    /// Number of chains by their number of buckets: `[i]` counts chains of `i + 1`; the last element
    /// counts all longer ones.
    pub chains: [usize; 8],
    /// Number of chains by their number of entries: `[i]` counts chains of `i`; the last element counts
    /// all longer ones.
    pub entries: [usize; 32],
    /// Whether a doubling has begun and not ended.
    pub is_growing: bool,
    /// Whether a halving has begun and not ended.
    pub is_shrinking: bool,
}

impl IndexStats {
    /// Adds the counts of another index. `chain_max` becomes the larger of both.
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

/// The index proper, which [`Index`] allocates with its first entry or reservation.
struct Linear {
    table: Buckets,
    pool: OverflowPool,
    mask: usize,
    /// Number of buckets that this level has split so far, which is also the number of the next
    /// bucket to split.
    split: u32,
    len: u32,
    /// `len` at which the next split is due.
    grow_at: u32,
    is_shrinking: bool,
}

// `Linear` fits the allocator's class of 64 bytes, because a node of a cluster may have one for each of the
// 16,384 hash slots.
const _: () = assert!(size_of::<Linear>() <= 64);

impl Linear {
    /// An index without entries, which has one bucket.
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

    /// Buckets of the table, without overflow buckets.
    #[inline]
    fn buckets(&self) -> usize {
        self.table.len()
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + self.pool.bytes()
    }

    /// The entry with this hash for which `eq` returns true. `eq` is called for every entry of the chain
    /// with the same tag: the wanted entry, and about one in 255 of the others.
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

    /// The handle that is at `position` now, including a handle that [`Linear::replace`] has stored.
    ///
    /// # Panics
    /// If the index has changed since the position was returned, and the bucket is gone or the lane was
    /// never filled. Another stale position may return another entry, or the removed one.
    #[inline]
    fn handle(&self, position: Position) -> Handle {
        self.bucket(position).handle(position.lane).expect("a position is used before the next change")
    }

    /// Stores at `position` the handle of another entry with the same hash, and returns the old handle.
    #[inline]
    fn replace(&mut self, position: Position, handle: Handle) -> Handle {
        let old = self.handle(position);
        self.bucket_mut(position).replace(position.lane, handle);
        old
    }

    /// Adds an absent entry. The entry must be readable already, because `rehash` may be called for it.
    /// At most two buckets are split; `prefetch` is called for their entries first.
    ///
    /// # Panics
    /// At 2^31 overflow buckets. A slab has too few blocks for that, because all buckets of a chain but one
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
        // The next bucket to split is prefetched two inserts ahead and its entries one insert ahead, so
        // that the split finds them in the cache.
        if self.len() + 2 >= self.grow_at() {
            self.grow(&rehash, &prefetch);
        }
    }

    /// Removes the entry at `position`. At most two buckets are merged into others, and at most one overflow
    /// bucket moves, for which `rehash` is called with one of its entries.
    ///
    /// # Panics
    /// In the same cases as [`Linear::handle`].
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

    /// Removes the entries of the last bucket, and the bucket unless it is the only one. Cost: one step
    /// for each bucket of the chain, each of which may call `rehash` once.
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
        // Buckets are released from the highest number down, so that the pool's last bucket, which fills
        // each gap, is never one of this chain's that is still to be released.
        chain.sort_unstable();
        chain.into_iter().rev().for_each(|number| self.release(number, &rehash));
    }

    /// Continues a doubling or halving that is due, by at most `budget` buckets. Returns whether more is due.
    fn step(&mut self, budget: usize, rehash: impl Fn(Handle) -> u64, prefetch: impl Fn(Handle)) -> bool {
        let mut left = budget;
        while left > 0 && self.len() >= self.grow_at() {
            self.split_next(&rehash, &prefetch);
            left -= 1;
        }
        self.shrink(left);
        self.needs_step()
    }

    /// Whether [`Linear::step`] has anything to do.
    fn needs_step(&self) -> bool {
        self.len() >= self.grow_at() || self.shrink_is_due()
    }

    /// Visits the entries of one bucket and returns the cursor to continue with; begin with 0, and 0
    /// means the end. An entry that is present from the first call to the last is visited at least once,
    /// whatever changes between calls; some may be visited twice (5). Any cursor is allowed.
    fn scan(&self, cursor: u64, mut visit: impl FnMut(Handle)) -> u64 {
        let home = self.home(cursor);
        self.chain(home).flat_map(Bucket::handles).for_each(&mut visit);
        let is_split = (home & self.mask) < self.split();
        let mask = if is_split { self.mask * 2 + 1 } else { self.mask } as u64;
        // Adds one to the bucket's number with its bits reversed, which gives the start of the next interval.
        (cursor | !mask).reverse_bits().wrapping_add(1).reverse_bits()
    }

    /// Visits the entries of the bucket with this number, or of bucket 0 if the table has become
    /// smaller, and returns the next number; 0 means the end (6).
    fn walk(&self, bucket: u64, visit: impl FnMut(Handle)) -> u64 {
        let home = usize::try_from(bucket).ok().filter(|home| *home < self.table.len()).unwrap_or(0);
        self.chain(home).flat_map(Bucket::handles).for_each(visit);
        ((home + 1) % self.table.len()) as u64
    }

    /// A random entry, chosen uniformly unless the index is very sparse; `None` in an empty index. Tries
    /// random lanes, on average at most five if no halving is due.
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
        // The index is very sparse, so the first entry from a random bucket on is taken.
        let start = rng.below(self.bucket_count() as u64) as usize;
        (0..self.bucket_count())
            .find_map(|i| self.bucket_at((start + i) % self.bucket_count()).handles().next())
    }

    /// Visits up to `count` different entries: those that follow the location in memory chosen by `draw`.
    /// Returns their number, which is less than `count` only if the index is smaller or very sparse. This is
    /// much cheaper than `count` calls of [`Linear::sample`], and sufficient where neighbours in the order of
    /// hashes are as random as any entries.
    #[inline]
    fn sample_from(&self, draw: u64, count: usize, mut visit: impl FnMut(Handle)) -> usize {
        let buckets = self.bucket_count();
        let (start, lane) = self.drawn(draw);
        // The visit begins at the drawn lane. If it always began at lane 0, entries in the last lanes would
        // hardly ever be drawn.
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

    /// Prefetches the cache line that [`Linear::sample_from`] will read first.
    #[inline]
    fn prefetch_sample(&self, draw: u64) {
        self.bucket_at(self.drawn(draw).0).prefetch();
    }

    /// The bucket and the lane that a draw chooses, uniformly.
    #[inline]
    fn drawn(&self, draw: u64) -> (usize, u32) {
        let lanes = (self.bucket_count() * LANES) as u64;
        let lane = ((u128::from(draw) * u128::from(lanes)) >> 64) as usize;
        (lane / LANES, (lane % LANES) as u32)
    }

    /// Prefetches the cache line that [`Linear::find`] will read first.
    #[inline]
    fn prefetch_bucket(&self, hash: u64) {
        self.table.at(self.home(hash)).prefetch();
    }

    /// Calls `candidate` for the entry that [`Linear::find`] will compare first, so that the caller can
    /// prefetch it. If the table's bucket has no candidate, prefetches the next bucket of the chain.
    #[inline(always)]
    fn prefetch_candidates(&self, hash: u64, mut candidate: impl FnMut(Handle)) {
        let bucket = self.table.at(self.home(hash));
        if let Some(handle) = bucket.matching(tag_of(hash)).first().and_then(|lane| bucket.handle(lane)) {
            candidate(handle);
        } else if bucket.link() != 0 {
            self.pool.at(bucket.link()).prefetch();
        }
    }

    /// All entries, in memory order.
    fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.table.iter().chain(self.pool.iter()).flat_map(Bucket::handles)
    }

    /// Counts the fill and layout. Cost: one step for each bucket.
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

    /// The buckets of a chain, beginning with the table's bucket.
    #[inline]
    fn chain(&self, home: usize) -> impl Iterator<Item = &Bucket> {
        std::iter::successors(Some(self.table.at(home)), |bucket| match bucket.link() {
            0 => None,
            next => Some(self.pool.at(next)),
        })
    }

    /// Number of buckets of the table and the pool together, numbered in this order.
    fn bucket_count(&self) -> usize {
        self.table.len() + self.pool.len()
    }

    fn bucket_at(&self, number: usize) -> &Bucket {
        match number.checked_sub(self.table.len()) {
            None => self.table.at(number),
            Some(overflow) => self.pool.at(overflow as u32 + 1),
        }
    }

    /// Adds an entry to a chain. `spare` is the head of a list of empty pool buckets, which are used
    /// before the pool grows.
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

    /// Restores invariant (2) after `position` was emptied in a chain with overflow. The hole is filled from
    /// the chain's first overflow bucket, which is removed when it becomes empty.
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

    /// Removes an empty pool bucket that belongs to no chain, by invariant (3).
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

    /// The part of an insert that grows the table (4). Called as soon as a split is at most two inserts away.
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

    /// Creates the buckets for `entries` entries, if the index is empty. Cost: one step for each bucket.
    fn reserve(&mut self, entries: usize) {
        if self.len() > 0 {
            return;
        }
        while entries >= self.grow_at() && self.table.len() < BUCKETS_RESERVED_MAX {
            self.table.push(Bucket::EMPTY);
            self.advance_split();
        }
    }

    /// Counts one more split bucket.
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

    /// Distributes the entries of a chain, which was removed from the table and whose first bucket is
    /// `old`, to the buckets they belong to now. Returns an overflow bucket left over, or 0.
    ///
    /// At most one bucket is left over, because all buckets of the chain except its first overflow bucket
    /// were full (2). Emptied buckets are reused at once.
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

    /// Merges buckets while a halving is under way or due, at most `budget` times.
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

    /// Merges the last bucket of the table into the bucket that it was split from. A merge computes no hash.
    fn merge_last(&mut self) {
        let Some(gone) = self.drop_last() else { return };
        let home = self.split();
        // The overflow buckets are emptied first, because they become free and the entries of the other
        // buckets may need them. No overflow bucket is left over, because the joined chain has as many
        // buckets as both chains had together, or one fewer, and this one is the table's bucket that was just
        // removed.
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

    /// Removes the last of at least two buckets from the table. Its hashes then belong to bucket `split`.
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
        // A bound above `u32::MAX` may be cut to it, because there are no more entries than handles.
        self.grow_at = u32::try_from(due).unwrap_or(u32::MAX);
    }
}

/// The most buckets that are created in advance: enough for as many entries as there are handles.
const BUCKETS_RESERVED_MAX: usize = 1 << 29;

/// The byte of a hash that a bucket stores: the highest one, because the lowest bits choose the
/// bucket; never 0.
#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 56) as u8;
    tag + u8::from(tag == 0)
}

/// Entries for each bucket of a level when its first split is due. From 1 M to 2 M keys, 8 and a
/// [`GROW_PER_SPLIT`] of 4 give 9.8 bytes a key and at most 6 overflow buckets for 100 buckets of the table;
/// 9 and 5 give 9.0 bytes, but up to 14 overflow buckets, each of which costs some lookups a third cache
/// miss.
const GROW_FROM: usize = 8;
/// Further entries until the next split is due.
const GROW_PER_SPLIT: usize = 4;
/// The most splits for one insert.
const SPLITS_MAX: usize = 2;
/// The most merges for one removal.
const MERGES_MAX: usize = 2;
/// Random lanes that are tried before an entry is searched linearly.
const SAMPLE_TRIES: usize = 64;
/// Number of overflow buckets to which a bucket's link can refer.
const OVERFLOW_MAX: usize = 1 << 31;

#[cfg(test)]
mod tests;
