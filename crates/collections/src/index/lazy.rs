//! The index as others see it: eight bytes as long as it never held anything.
//!
//! Invariant: `linear` is there from the first insert on.

use sluice_base::Rng;

use super::{IndexStats, Linear, Position};
use crate::slab::Handle;

/// The index; see the module's notes.
#[derive(Default)]
pub struct Index {
    linear: Option<Box<Linear>>,
}

impl Index {
    /// An empty index; it allocates nothing.
    pub const fn new() -> Index {
        Index { linear: None }
    }

    /// Entries held.
    #[inline]
    pub fn len(&self) -> usize {
        self.linear.as_ref().map_or(0, |linear| linear.len())
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Buckets of the table, overflow not counted.
    #[inline]
    pub fn buckets(&self) -> usize {
        self.linear.as_ref().map_or(0, |linear| linear.buckets())
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.linear.as_ref().map_or(0, |linear| size_of::<Linear>() + linear.bytes())
    }

    /// The entry with this hash for which `eq` says so. `eq` sees every entry of the bucket that has the same
    /// tag: one in about 255 of the others.
    #[inline(always)]
    pub fn find(&self, hash: u64, eq: impl FnMut(Handle) -> bool) -> Option<Position> {
        self.linear.as_deref()?.find(hash, eq)
    }

    /// The handle that is at `position` now, after a [`Index::replace`] too.
    ///
    /// # Panics
    /// When the index has changed since the position was given, at the latest when its bucket is gone.
    #[inline]
    pub fn handle(&self, position: Position) -> Handle {
        self.linear.as_deref().expect(STALE).handle(position)
    }

    /// Puts another handle at `position`, of an entry with the same hash, and returns the old one.
    #[inline]
    pub fn replace(&mut self, position: Position, handle: Handle) -> Handle {
        self.linear.as_deref_mut().expect(STALE).replace(position, handle)
    }

    /// Adds an entry that is not there yet. The entry must be readable already: `rehash` may be asked for its
    /// hash. At most two buckets are split, with `prefetch` called for their entries first.
    ///
    /// # Panics
    /// At 2^31 overflow buckets, which take more entries than a slab has blocks for: all of a chain but one
    /// are full.
    #[inline]
    pub fn insert(
        &mut self,
        hash: u64,
        handle: Handle,
        rehash: impl Fn(Handle) -> u64,
        prefetch: impl Fn(Handle),
    ) {
        self.linear.get_or_insert_with(begin).insert(hash, handle, rehash, prefetch);
    }

    /// Makes room for so many entries ahead, where there is none yet: inserting them splits no bucket. Where
    /// fewer come, [`Index::step`] gives the room back. Cost: one step for each eight entries.
    pub fn reserve(&mut self, entries: usize) {
        if entries > 0 {
            self.linear.get_or_insert_with(begin).reserve(entries);
        }
    }

    /// Takes the entry at `position` out. At most two buckets are merged, and at most one overflow bucket
    /// moves (for which `rehash` is asked for the hash of one of its entries).
    ///
    /// # Panics
    /// As [`Index::handle`].
    #[inline]
    pub fn remove(&mut self, position: Position, rehash: impl Fn(Handle) -> u64) -> Handle {
        self.linear.as_deref_mut().expect(STALE).remove(position, rehash)
    }

    /// Takes the entries of one bucket out, for a caller that takes all of them out. The memory of the index
    /// shrinks with it. `rehash` is asked for hashes of entries that stay. Cost: O(entries taken).
    pub fn take_bucket(&mut self, taken: &mut Vec<Handle>, rehash: impl Fn(Handle) -> u64) {
        if let Some(linear) = self.linear.as_deref_mut() {
            linear.take_last(taken, rehash);
        }
    }

    /// Carries on with a doubling or halving that is due, by at most `budget` buckets. Returns whether more
    /// is due.
    pub fn step(&mut self, budget: usize, rehash: impl Fn(Handle) -> u64, prefetch: impl Fn(Handle)) -> bool {
        self.linear.as_deref_mut().is_some_and(|linear| linear.step(budget, rehash, prefetch))
    }

    /// Whether [`Index::step`] would do anything.
    pub fn needs_step(&self) -> bool {
        self.linear.as_deref().is_some_and(Linear::needs_step)
    }

    /// Visits the entries of one bucket and returns the cursor to go on with; begin with 0, and 0 means the
    /// end. An element that is present from the first call to the last is visited at least once, whatever
    /// happens in between; some may be visited twice (5). Any cursor is allowed.
    pub fn scan(&self, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.linear.as_deref().map_or(0, |linear| linear.scan(cursor, visit))
    }

    /// Visits the entries of one bucket and returns the cursor to go on with; begin with 0, and 0 means the
    /// end. For a caller that removes most of what it meets: chains stay short behind it. An element that
    /// stays is visited, unless the index shrinks meanwhile: then perhaps by a later walk (6). Any cursor is
    /// allowed.
    pub fn walk(&self, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.linear.as_deref().map_or(0, |linear| linear.walk(cursor, visit))
    }

    /// A random entry, all of them alike; none when there are none. Tries random slots: at most three on
    /// average in an index that is not about to shrink.
    pub fn sample(&self, rng: &mut Rng) -> Option<Handle> {
        self.linear.as_deref()?.sample(rng)
    }

    /// Visits up to `count` different entries: those that follow the location in memory that `draw`, a random
    /// number, chooses. Returns how many; fewer than asked for only if the index is smaller or very sparse.
    /// Much cheaper than as many [`Index::sample`]s, and good enough where neighbours in the order of hashes
    /// are as random as any.
    #[inline]
    pub fn sample_from(&self, draw: u64, count: usize, visit: impl FnMut(Handle)) -> usize {
        self.linear.as_deref().map_or(0, |linear| linear.sample_from(draw, count, visit))
    }

    /// Asks the processor for what [`Index::sample_from`] of the same draw will look at first.
    #[inline]
    pub fn prefetch_sample(&self, draw: u64) {
        if let Some(linear) = self.linear.as_deref() {
            linear.prefetch_sample(draw);
        }
    }

    /// Asks the processor for the buckets of hashes, ahead of [`Index::prefetch_candidates`].
    #[inline(always)]
    pub fn prefetch_buckets(&self, hashes: impl Iterator<Item = u64>) {
        if let Some(linear) = self.linear.as_deref() {
            hashes.for_each(|hash| linear.prefetch_bucket(hash));
        }
    }

    /// Calls `candidate` for each entry that [`Index::find`] will compare first for one of the hashes, so
    /// that the caller can prefetch it; if the bucket itself has none, asks for the next bucket of the chain.
    #[inline(always)]
    pub fn prefetch_candidates(&self, hashes: impl Iterator<Item = u64>, mut candidate: impl FnMut(Handle)) {
        if let Some(linear) = self.linear.as_deref() {
            hashes.for_each(|hash| linear.prefetch_candidates(hash, &mut candidate));
        }
    }

    /// All entries, in the order of memory.
    pub fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.linear.iter().flat_map(|linear| linear.iter())
    }

    /// Counts; cost: one step for each bucket.
    pub fn stats(&self) -> IndexStats {
        self.linear.as_deref().map(Linear::stats).unwrap_or_default()
    }
}

#[cold]
fn begin() -> Box<Linear> {
    Box::new(Linear::new())
}

const STALE: &str = "a position is used before the next change";
