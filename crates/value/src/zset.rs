//! The sorted set: members, each with a score, in order of score and member.
//!
//! A small set is a row of elements, either *inline* in the block of its entry ([`ZsetRef::Inline`]) or
//! one leaf outside of it. A large set is a tree of leaves with an index by members.
//!
//! Invariants: (1) [`Zset::share`] costs O(1), and neither set sees changes of the other; (2) the reported
//! encoding follows the reference's thresholds and never goes back, no matter how the elements are stored;
//! (3) replaced parts that are shared or large go to [`ZsetContext`]: changing a set frees none of them; (4)
//! no score is NaN, and no command stores -0 in a set that reports a listpack.

mod edge;
mod index;
mod iter;
mod large;
mod leaf;
mod limits;
mod marks;
mod paged;
mod part;
mod row;

use std::mem::replace;
use std::ops::Range;

use sluice_base::{HashSeed, heap};

pub use edge::Edge;
use iter::RowSource;
pub use iter::{Direction, ZsetIter};
use large::Large;
use leaf::RowLeaf;
pub use limits::{ZsetEncoding, ZsetLimits};
use part::ZsetPart;
use row::RowIter;

/// A sorted set outside of its entry. One word wide.
#[derive(Debug)]
pub struct Zset(Box<ZsetRoot>);

#[derive(Debug)]
struct ZsetRoot {
    encoding: ZsetEncoding,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Small(RowLeaf),
    Large(Box<Large>),
    /// Not a set, but parts that edits have replaced, to be freed.
    Garbage(Vec<ZsetPart>),
}

/// Settings for a change of a sorted set, and the garbage that the change leaves.
#[derive(Debug, Default)]
pub struct ZsetContext {
    /// The thresholds in force.
    pub limits: ZsetLimits,
    /// Seed for hashing the members of a set that becomes large.
    pub seed: HashSeed,
    garbage: Vec<ZsetPart>,
}

impl ZsetContext {
    /// A context for changes with these thresholds.
    pub fn new(limits: ZsetLimits, seed: HashSeed) -> ZsetContext {
        ZsetContext { limits, seed, garbage: Vec::new() }
    }

    /// The replaced parts, to be freed on another thread; `None` if there are none.
    pub fn take_garbage(&mut self) -> Option<Zset> {
        if self.garbage.is_empty() {
            return None;
        }
        let body = Body::Garbage(std::mem::take(&mut self.garbage));
        Some(Zset(Box::new(ZsetRoot { encoding: ZsetEncoding::Skiplist, body })))
    }
}

/// A sorted set for reading, inside its keyspace entry or outside of it.
#[derive(Clone, Copy, Debug)]
pub enum ZsetRef<'a> {
    /// A sorted set in the block of its entry.
    Inline {
        /// The bytes that [`Zset::write_inline`] wrote.
        bytes: &'a [u8],
        /// The encoding to report, from the head of the entry.
        encoding: ZsetEncoding,
    },
    /// A value outside of the entry's block.
    Value(&'a Zset),
}

impl<'a> ZsetRef<'a> {
    fn source(self) -> RowSource<'a> {
        match self {
            ZsetRef::Inline { bytes, .. } => RowSource::One(inline_parts(bytes).1),
            ZsetRef::Value(zset) => match &zset.0.body {
                Body::Small(leaf) => RowSource::One(leaf.row()),
                Body::Large(large) => RowSource::Tree(large),
                Body::Garbage(_) => RowSource::One(&[]),
            },
        }
    }

    /// Number of elements. O(1).
    pub fn len(self) -> usize {
        match self {
            ZsetRef::Inline { bytes, .. } => inline_parts(bytes).0,
            ZsetRef::Value(zset) => zset.len(),
        }
    }

    /// Whether there is no element. Never true of a set in the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(self) -> ZsetEncoding {
        match self {
            ZsetRef::Inline { encoding, .. } => encoding,
            ZsetRef::Value(zset) => zset.0.encoding,
        }
    }

    /// The score of a member. Cost: O(1), or O(n) in a small set.
    #[inline]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self.source() {
            RowSource::One(row) => row::find(row, member).map(|position| position.score),
            RowSource::Tree(large) => large.score(member),
        }
    }

    /// Calls `visit` with the score of each of these members, in order. Cost for each member: the same as for
    /// [`ZsetRef::score`], but in a large set the cache misses of several look-ups overlap.
    pub fn score_each<'n>(self, members: impl Iterator<Item = &'n [u8]>, mut visit: impl FnMut(Option<f64>)) {
        match self.source() {
            RowSource::One(_) => members.for_each(|member| visit(self.score(member))),
            RowSource::Tree(large) => large.score_each(members, visit),
        }
    }

    /// Prefetches the parts of a large set that looking up these members will read.
    pub fn prefetch<'n>(self, members: impl Iterator<Item = &'n [u8]>) {
        if let RowSource::Tree(large) = self.source() {
            large.prefetch(members);
        }
    }

    /// Rank of a member, counted from the lowest score, and the member's score. Cost: O(log n).
    pub fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self.source() {
            RowSource::One(row) => row::find(row, member).map(|position| (position.index, position.score)),
            RowSource::Tree(large) => large.rank(member),
        }
    }

    /// Number of elements before an edge. Cost: O(log n).
    pub fn count_before(self, edge: Edge<'_>) -> usize {
        match self.source() {
            RowSource::One(row) => row::gap_of(row, edge).index,
            RowSource::Tree(large) => large.count_before(edge),
        }
    }

    /// The elements of these ranks. `ranks` may reach past the end. Cost to begin: O(log n).
    pub fn iter(self, ranks: Range<usize>, direction: Direction) -> ZsetIter<'a> {
        let end = ranks.end.min(self.len());
        ZsetIter::new(self.source(), ranks.start.min(end)..end, direction)
    }

    /// All elements, from the lowest score to the highest.
    pub fn iter_all(self) -> ZsetIter<'a> {
        self.iter(0..usize::MAX, Direction::Up)
    }

    /// Visits some elements from a cursor on and returns the next cursor. The cursor 0 begins a scan, and is
    /// returned at its end. An element that exists throughout a scan is visited at least once, even if its
    /// score changes. A small set is visited completely.
    pub fn scan(self, cursor: u64, visit: &mut dyn FnMut(&[u8], f64)) -> u64 {
        match self.source() {
            RowSource::One(row) => {
                RowIter::new(row).for_each(|entry| visit(entry.member, entry.score));
                0
            }
            RowSource::Tree(large) => u64::from(large.scan(cursor as u32, visit)),
        }
    }
}

impl Default for Zset {
    fn default() -> Zset {
        Zset::new(ZsetEncoding::Listpack)
    }
}

impl Zset {
    /// An empty set that reports this encoding.
    pub fn new(encoding: ZsetEncoding) -> Zset {
        Zset(Box::new(ZsetRoot { encoding, body: Body::Small(RowLeaf::of_row(&[], 0, 0)) }))
    }

    /// A set of these elements, which are in order and have distinct members. Cost: O(n).
    pub fn from_sorted<'m>(
        elements: impl ExactSizeIterator<Item = (&'m [u8], f64)> + Clone,
        encoding: ZsetEncoding,
        context: &mut ZsetContext,
    ) -> Zset {
        let clean = move |score| cleaned(score, encoding);
        Zset::from_packed(elements.map(|(member, score)| (member, clean(score))), encoding, context)
    }

    /// Like [`Zset::from_sorted`], but keeps each score as it is, because elements from a listpack may have
    /// the score -0, which no command stores in a listpack.
    pub fn from_packed<'m>(
        elements: impl ExactSizeIterator<Item = (&'m [u8], f64)> + Clone,
        encoding: ZsetEncoding,
        context: &mut ZsetContext,
    ) -> Zset {
        let count = elements.len();
        let bytes: usize = elements.clone().map(|(member, score)| row::entry_len(member, score)).sum();
        let body = if bytes > small_bytes_max(encoding) {
            Body::Large(Box::new(Large::build(elements, context.seed, &mut context.garbage)))
        } else {
            let mut row = vec![0; bytes];
            let mut rest = &mut row[..];
            for (member, score) in elements {
                let written = row::write(rest, member, score);
                rest = &mut rest[written..];
            }
            Body::Small(RowLeaf::of_row(&row, count, 0))
        };
        Zset(Box::new(ZsetRoot { encoding, body }))
    }

    /// Whether a member occurs twice, which is possible only in a set built from a file. Cost: O(n), or
    /// O(n²) in a small set.
    pub fn has_duplicates(&self) -> bool {
        match &self.0.body {
            Body::Small(leaf) => {
                let mut rest = leaf.iter();
                while let Some(entry) = rest.next() {
                    if rest.clone().any(|other| other.member == entry.member) {
                        return true;
                    }
                }
                false
            }
            Body::Large(large) => large.has_duplicates(),
            Body::Garbage(_) => false,
        }
    }

    /// The set that [`Zset::write_inline`] wrote. Malformed bytes give an arbitrary set.
    pub fn from_inline(bytes: &[u8], encoding: ZsetEncoding) -> Zset {
        let (count, row) = inline_parts(bytes);
        Zset(Box::new(ZsetRoot {
            encoding,
            body: Body::Small(RowLeaf::of_row(row, count, INLINE_LEN_MAX / 4)),
        }))
    }

    /// Replaces the contents by those that [`Zset::write_inline`] wrote, and reuses the memory if possible.
    /// Only for a set that is not the value of a key, because the old contents are dropped at once.
    pub fn load_inline(&mut self, bytes: &[u8], encoding: ZsetEncoding) {
        let (count, row) = inline_parts(bytes);
        self.0.encoding = encoding;
        if let Body::Small(leaf) = &mut self.0.body
            && leaf.load(row, count)
        {
            return;
        }
        self.0.body = Body::Small(RowLeaf::of_row(row, count, INLINE_LEN_MAX / 4));
    }

    /// The number of bytes that [`Zset::write_inline`] writes; `None` for a set with an index, and for
    /// another set that is too large for the block of an entry. O(1).
    pub fn inline_len(&self) -> Option<usize> {
        match &self.0.body {
            Body::Small(leaf) => {
                let len = INLINE_HEADER_LEN + leaf.row().len();
                (len <= INLINE_LEN_MAX).then_some(len)
            }
            Body::Large(_) | Body::Garbage(_) => None,
        }
    }

    /// Writes the inline form of the set. `out` has the length [`Zset::inline_len`].
    pub fn write_inline(&self, out: &mut [u8]) {
        if let Body::Small(leaf) = &self.0.body {
            let (header, rest) = out.split_at_mut(INLINE_HEADER_LEN);
            header.copy_from_slice(&(leaf.count() as u16).to_le_bytes());
            rest.copy_from_slice(leaf.row());
        }
    }

    /// A second owner of the set's contents. O(1).
    #[must_use]
    pub fn share(&self) -> Zset {
        let body = match &self.0.body {
            Body::Small(leaf) => Body::Small(leaf.clone()),
            Body::Large(large) => Body::Large(large.clone()),
            Body::Garbage(_) => Body::Garbage(Vec::new()),
        };
        Zset(Box::new(ZsetRoot { encoding: self.0.encoding, body }))
    }

    /// The set for reading.
    pub fn view(&self) -> ZsetRef<'_> {
        ZsetRef::Value(self)
    }

    /// Number of elements. O(1).
    pub fn len(&self) -> usize {
        match &self.0.body {
            Body::Small(leaf) => leaf.count(),
            Body::Large(large) => large.len(),
            Body::Garbage(_) => 0,
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports.
    pub fn encoding(&self) -> ZsetEncoding {
        self.0.encoding
    }

    /// Bytes allocated for the set, including shared parts. O(1), or O(parts) for garbage.
    pub fn heap_bytes(&self) -> usize {
        let body = match &self.0.body {
            Body::Small(leaf) => leaf.heap_bytes(),
            Body::Large(large) => heap::boxed::<Large>() + large.heap_bytes(),
            Body::Garbage(parts) => heap::vec(parts) + parts.iter().map(ZsetPart::bytes).sum::<usize>(),
        };
        heap::boxed::<ZsetRoot>() + body
    }

    /// Whether the top of one of the set's structures has another owner. O(1), or O(parts) for garbage.
    pub(crate) fn is_shared(&self) -> bool {
        match &self.0.body {
            Body::Small(leaf) => leaf.is_shared(),
            Body::Large(large) => large.is_shared(),
            Body::Garbage(parts) => parts.iter().any(ZsetPart::is_shared),
        }
    }

    /// Bytes of the replaced parts that still have another owner; parts below them count only if a whole set
    /// was replaced. Only for the garbage of an edit; 0 for a set. Cost: O(parts).
    pub fn copied_bytes(&self) -> usize {
        match &self.0.body {
            Body::Garbage(parts) => parts.iter().filter(|part| part.is_shared()).map(ZsetPart::bytes).sum(),
            Body::Small(_) | Body::Large(_) => 0,
        }
    }

    /// Bytes allocated that have no other owner; the parts of garbage do not count. Cost: one step for each
    /// part that is not shared.
    pub(crate) fn own_bytes(&self) -> usize {
        let body = match &self.0.body {
            Body::Small(leaf) if leaf.is_shared() => 0,
            Body::Small(leaf) => leaf.heap_bytes(),
            Body::Large(large) => heap::boxed::<Large>() + large.own_bytes(),
            Body::Garbage(_) => 0,
        };
        heap::boxed::<ZsetRoot>() + body
    }

    /// Whether the set is in one piece, however large.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self.0.body, Body::Small(_))
    }

    /// To be called before a command adds up to `count` elements, the longest member of which has
    /// `longest` bytes. If these alone would be too large for a listpack, the set reports a skiplist
    /// from now on, even if the elements are not added.
    pub fn convert_before_adding(&mut self, count: usize, longest: usize, limits: ZsetLimits) {
        if limits.encoding_for(count, longest) == ZsetEncoding::Skiplist {
            self.0.encoding = ZsetEncoding::Skiplist;
        }
    }

    /// Adds an element with an absent member. Cost: O(log n).
    pub fn insert(&mut self, member: &[u8], score: f64, context: &mut ZsetContext) {
        self.count_one_more(member.len(), context.limits);
        self.0.put(member, score, context);
    }

    /// Sets the score of a member to the result of `new_score`, which gets the present score, if any.
    /// `None` leaves the set unchanged. In a large set the member is looked up only once. Cost: O(log n).
    pub fn change(
        &mut self,
        member: &[u8],
        context: &mut ZsetContext,
        new_score: impl FnOnce(Option<f64>) -> Option<f64>,
    ) {
        if let Body::Large(large) = &mut self.0.body {
            let found = large.find(member);
            let Some(score) = new_score(found.score()) else { return };
            let clean = cleaned(score, self.0.encoding);
            match found.score() {
                Some(_) => large.update(member, clean, found, &mut context.garbage),
                None => {
                    self.count_one_more(member.len(), context.limits);
                    if let Body::Large(large) = &mut self.0.body {
                        let clean = cleaned(score, self.0.encoding);
                        large.insert(member, clean, found.hash(), &mut context.garbage);
                    }
                }
            }
            return;
        }
        let old = self.view().score(member);
        let Some(score) = new_score(old) else { return };
        match old {
            None => self.insert(member, score, context),
            Some(_) => {
                self.take(member, context);
                self.0.put(member, score, context);
            }
        }
    }

    /// Sets the encoding that one more member requires.
    fn count_one_more(&mut self, member_len: usize, limits: ZsetLimits) {
        if self.0.encoding == ZsetEncoding::Listpack {
            self.0.encoding = limits.encoding_for(self.len() + 1, member_len);
        }
    }

    /// Removes a member and returns its score. Cost: O(log n).
    pub fn remove(&mut self, member: &[u8], context: &mut ZsetContext) -> Option<f64> {
        let score = self.take(member, context)?;
        self.0.shrink(context);
        Some(score)
    }

    fn take(&mut self, member: &[u8], context: &mut ZsetContext) -> Option<f64> {
        match &mut self.0.body {
            Body::Small(leaf) => {
                let position = row::find(leaf.row(), member)?;
                remove_from_leaf(leaf, position.index..position.index + 1, context);
                Some(position.score)
            }
            Body::Large(large) => large.remove(member, &mut context.garbage),
            Body::Garbage(_) => None,
        }
    }

    /// Whether the set still holds memory of elements that were cut off. Every change of the set and
    /// [`Zset::clear_remains`] free some of it.
    pub fn has_remains(&self) -> bool {
        matches!(&self.0.body, Body::Large(large) if large.has_remains())
    }

    /// Frees the memory of up to `leaves` cut-off leaves, each of some dozens of elements; returns
    /// whether there are more.
    pub fn clear_remains(&mut self, leaves: usize, context: &mut ZsetContext) -> bool {
        match &mut self.0.body {
            Body::Large(large) => large.clear_remains(leaves, &mut context.garbage),
            Body::Small(_) | Body::Garbage(_) => false,
        }
    }

    /// Removes the elements of these ranks, which must exist. Cost: O(removed) for up to a few thousand,
    /// O(log n) for more.
    pub fn remove_ranks(&mut self, ranks: Range<usize>, context: &mut ZsetContext) {
        if ranks.is_empty() {
            return;
        }
        match &mut self.0.body {
            Body::Small(leaf) => remove_from_leaf(leaf, ranks, context),
            Body::Large(large) => large.remove_ranks(ranks, &mut context.garbage),
            Body::Garbage(_) => {}
        }
        self.0.shrink(context);
    }
}

fn remove_from_leaf(leaf: &mut RowLeaf, ranks: Range<usize>, context: &mut ZsetContext) {
    let range = leaf.offset_of(ranks.start)..leaf.offset_of(ranks.end);
    leaf.remove(range, ranks.len(), &mut context.garbage);
}

impl ZsetRoot {
    /// Adds an element, in the form that the set's size requires.
    fn put(&mut self, member: &[u8], score: f64, context: &mut ZsetContext) {
        let score = cleaned(score, self.encoding);
        if let Body::Small(leaf) = &mut self.body {
            let len = leaf.row().len() + row::entry_len(member, score);
            if len <= small_bytes_max(self.encoding) || leaf.count() == 0 {
                let edge = Edge::Element(score, member);
                let at = leaf.gap_of(edge).at;
                return leaf.insert(at, member, score, &mut context.garbage);
            }
            let elements = leaf.iter().map(|entry| (entry.member, entry.score));
            let large = Large::build(elements, context.seed, &mut context.garbage);
            if let Body::Small(leaf) = replace(&mut self.body, Body::Large(Box::new(large))) {
                leaf.discard(&mut context.garbage);
            }
        }
        match &mut self.body {
            Body::Large(large) => large.insert(member, score, large.hash_of(member), &mut context.garbage),
            Body::Small(_) | Body::Garbage(_) => {}
        }
    }

    /// Converts a large set that has become small to a row.
    fn shrink(&mut self, context: &mut ZsetContext) {
        let Body::Large(large) = &self.body else { return };
        if large.len() > SHRUNK_COUNT_MAX {
            return;
        }
        let bytes: usize = large.entries(0).map(|(member, score)| row::entry_len(member, score)).sum();
        if bytes > SHRUNK_BYTES_MAX {
            return;
        }
        let mut row = vec![0; bytes];
        let mut rest = &mut row[..];
        for (member, score) in large.entries(0) {
            let written = row::write(rest, member, score);
            rest = &mut rest[written..];
        }
        let leaf = RowLeaf::of_row(&row, large.len(), 0);
        if let Body::Large(large) = replace(&mut self.body, Body::Small(leaf)) {
            context.garbage.push(ZsetPart::Whole(large));
        }
    }
}

/// The score as a set of this encoding stores it; a listpack stores -0 as 0.
fn cleaned(score: f64, encoding: ZsetEncoding) -> f64 {
    match encoding {
        ZsetEncoding::Listpack => score + 0.0,
        ZsetEncoding::Skiplist => score,
    }
}

/// Number of elements and row of an inline set.
fn inline_parts(bytes: &[u8]) -> (usize, &[u8]) {
    match bytes.split_first_chunk() {
        Some((count, row)) => (usize::from(u16::from_le_bytes(*count)), row),
        None => (0, &[]),
    }
}

/// Maximum bytes of the row of a set without an index. Looking up a member may walk all of it.
fn small_bytes_max(encoding: ZsetEncoding) -> usize {
    match encoding {
        ZsetEncoding::Listpack => 8 << 10,
        ZsetEncoding::Skiplist => 2 << 10,
    }
}

/// Bytes in front of the row of an inline set, which hold the number of elements.
const INLINE_HEADER_LEN: usize = 2;
/// Bytes of the largest inline set.
const INLINE_LEN_MAX: usize = 900;
/// Maximum number of elements with which a large set becomes a row again.
const SHRUNK_COUNT_MAX: usize = 32;
/// Maximum bytes of elements with which a large set becomes a row again.
const SHRUNK_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests;
