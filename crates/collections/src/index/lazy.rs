//! The public form of the index, which takes eight bytes until an entry is added or room is reserved.
//!
//! Invariant: `linear` exists from the first [`Index::insert`] or [`Index::reserve`] on.

use sluice_base::Rng;

use super::{IndexStats, Linear, Position};
use crate::slab::Handle;

/// The index; see the documentation of the module `index`.
#[derive(Default)]
pub struct Index {
    linear: Option<Box<Linear>>,
}

impl Index {
    /// An empty index; it allocates nothing.
    pub const fn new() -> Index {
        Index { linear: None }
    }

    /// Number of entries. O(1).
    #[inline]
    pub fn len(&self) -> usize {
        self.linear.as_ref().map_or(0, |linear| linear.len())
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Buckets of the table, without overflow buckets.
    #[inline]
    pub fn buckets(&self) -> usize {
        self.linear.as_ref().map_or(0, |linear| linear.buckets())
    }

    /// Bytes allocated for the index.
    pub fn bytes(&self) -> usize {
        self.linear.as_ref().map_or(0, |linear| size_of::<Linear>() + linear.bytes())
    }

    /// The entry with this hash for which `eq` returns true. `eq` is called for every entry of the chain
    /// with the same tag: the wanted entry, and about one in 255 of the others.
    #[inline(always)]
    pub fn find(&self, hash: u64, eq: impl FnMut(Handle) -> bool) -> Option<Position> {
        self.linear.as_deref()?.find(hash, eq)
    }

    /// The handle that is at `position` now, including a handle that [`Index::replace`] has stored.
    ///
    /// # Panics
    /// If the index has changed since the position was returned, and the bucket is gone or the lane was
    /// never filled. Another stale position may return another entry, or the removed one.
    #[inline]
    pub fn handle(&self, position: Position) -> Handle {
        self.linear.as_deref().expect(STALE).handle(position)
    }

    /// Stores at `position` the handle of another entry with the same hash, and returns the old handle.
    #[inline]
    pub fn replace(&mut self, position: Position, handle: Handle) -> Handle {
        self.linear.as_deref_mut().expect(STALE).replace(position, handle)
    }

    /// Adds an absent entry. The entry must be readable already, because `rehash` may be called for it.
    /// At most two buckets are split; `prefetch` is called for their entries first.
    ///
    /// # Panics
    /// At 2^31 overflow buckets. A slab has too few blocks for that, because all buckets of a chain but one
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

    /// Makes room for `entries` entries in an empty index, so that inserting them splits no bucket; does
    /// nothing in an index with entries. If far fewer are inserted, [`Index::step`] frees the room. Cost: one
    /// step for about every eight entries.
    pub fn reserve(&mut self, entries: usize) {
        if entries > 0 {
            self.linear.get_or_insert_with(begin).reserve(entries);
        }
    }

    /// Removes the entry at `position`. At most two buckets are merged into others, and at most one overflow
    /// bucket moves, for which `rehash` is called with one of its entries.
    ///
    /// # Panics
    /// In the same cases as [`Index::handle`].
    #[inline]
    pub fn remove(&mut self, position: Position, rehash: impl Fn(Handle) -> u64) -> Handle {
        self.linear.as_deref_mut().expect(STALE).remove(position, rehash)
    }

    /// Removes the entries of one bucket, for a caller that empties the index. The memory of the index
    /// shrinks accordingly. `rehash` is called for entries that stay. Cost: O(entries removed).
    pub fn take_bucket(&mut self, taken: &mut Vec<Handle>, rehash: impl Fn(Handle) -> u64) {
        if let Some(linear) = self.linear.as_deref_mut() {
            linear.take_last(taken, rehash);
        }
    }

    /// Continues a doubling or halving that is due, by at most `budget` buckets. Returns whether more is due.
    pub fn step(&mut self, budget: usize, rehash: impl Fn(Handle) -> u64, prefetch: impl Fn(Handle)) -> bool {
        self.linear.as_deref_mut().is_some_and(|linear| linear.step(budget, rehash, prefetch))
    }

    /// Whether [`Index::step`] has anything to do.
    pub fn needs_step(&self) -> bool {
        self.linear.as_deref().is_some_and(Linear::needs_step)
    }

    /// Visits the entries of one bucket and returns the cursor to continue with; begin with 0, and 0
    /// means the end. An entry that is present from the first call to the last is visited at least once,
    /// whatever changes between calls; some may be visited twice (invariant 5 of the module `index`). Any
    /// cursor is allowed.
    pub fn scan(&self, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.linear.as_deref().map_or(0, |linear| linear.scan(cursor, visit))
    }

    /// Visits the entries of one bucket and returns the cursor to continue with; begin with 0, and 0 means
    /// the end. This is meant for a caller that removes most entries it visits, because the chains then stay
    /// short, unlike with [`Index::scan`]. An entry that stays in the index is visited, but perhaps only by a
    /// later walk if the index shrinks during this walk (invariant 6 of the module `index`). Any cursor is
    /// allowed.
    pub fn walk(&self, cursor: u64, visit: impl FnMut(Handle)) -> u64 {
        self.linear.as_deref().map_or(0, |linear| linear.walk(cursor, visit))
    }

    /// A random entry, chosen uniformly unless the index is very sparse; `None` in an empty index. Tries
    /// random lanes, on average at most five if no halving is due.
    pub fn sample(&self, rng: &mut Rng) -> Option<Handle> {
        self.linear.as_deref()?.sample(rng)
    }

    /// Visits up to `count` different entries: those that follow the location in memory chosen by
    /// `draw`, a random number. Returns their number, which is less than `count` only if the index is
    /// smaller or very sparse. This is much cheaper than `count` calls of [`Index::sample`], and sufficient
    /// where neighbours in the order of hashes are as random as any entries.
    #[inline]
    pub fn sample_from(&self, draw: u64, count: usize, visit: impl FnMut(Handle)) -> usize {
        self.linear.as_deref().map_or(0, |linear| linear.sample_from(draw, count, visit))
    }

    /// Prefetches the cache line that [`Index::sample_from`] with the same draw will read first.
    #[inline]
    pub fn prefetch_sample(&self, draw: u64) {
        if let Some(linear) = self.linear.as_deref() {
            linear.prefetch_sample(draw);
        }
    }

    /// Prefetches the buckets of these hashes; to be called before [`Index::prefetch_candidates`].
    #[inline(always)]
    pub fn prefetch_buckets(&self, hashes: impl Iterator<Item = u64>) {
        if let Some(linear) = self.linear.as_deref() {
            hashes.for_each(|hash| linear.prefetch_bucket(hash));
        }
    }

    /// Calls `candidate` for each entry that [`Index::find`] will compare first for one of the hashes,
    /// so that the caller can prefetch it. If the table's bucket has no candidate, prefetches the next
    /// bucket of the chain.
    #[inline(always)]
    pub fn prefetch_candidates(&self, hashes: impl Iterator<Item = u64>, mut candidate: impl FnMut(Handle)) {
        if let Some(linear) = self.linear.as_deref() {
            hashes.for_each(|hash| linear.prefetch_candidates(hash, &mut candidate));
        }
    }

    /// All entries, in memory order.
    pub fn iter(&self) -> impl Iterator<Item = Handle> + '_ {
        self.linear.iter().flat_map(|linear| linear.iter())
    }

    /// Counts how full the index is, and how long its chains are. Cost: one step for each bucket.
    pub fn stats(&self) -> IndexStats {
        self.linear.as_deref().map(Linear::stats).unwrap_or_default()
    }
}

#[cold]
fn begin() -> Box<Linear> {
    Box::new(Linear::new())
}

const STALE: &str = "a position is used before the next change";
