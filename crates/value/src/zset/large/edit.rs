//! Changes of a large set: elements are added, moved and removed; nodes are split and joined.

use std::mem::replace;
use std::ops::Range;

use sluice_base::HashSeed;
use triomphe::Arc;

use super::{
    Branch, CAPACITY, FANOUT, FreeNumbers, INNER_BYTES, InnerNode, Large, Link, MEMBERS_AHEAD,
    ROW_BYTES_SPARSE, SLOTS_AHEAD, SPARSE, child_before, child_of_rank, hash,
};
use crate::zset::edge::Edge;
use crate::zset::index::MemberIndex;
use crate::zset::leaf::{ROW_BYTES_FILLED, ROW_BYTES_MAX, RowLeaf};
use crate::zset::paged::PagedArray;
use crate::zset::part::{ZsetPart, ZsetWork};
use crate::zset::row::{self, RowIter, RowPosition};

/// The parts of a set that an operation changes in addition to the nodes.
pub(super) struct LargeParts<'l, 'w> {
    pub(super) paged: &'l mut PagedArray<RowLeaf>,
    pub(super) index: &'l mut MemberIndex,
    numbers: &'l mut u32,
    free: &'l mut FreeNumbers,
    pub(super) remains: &'l mut Vec<Link>,
    pub(super) seed: HashSeed,
    pub(super) work: ZsetWork<'w>,
}

/// An element that is to be added to a leaf.
#[derive(Clone, Copy)]
pub(super) struct Entering<'m> {
    pub(super) member: &'m [u8],
    pub(super) score: f64,
    /// Hash of the member.
    pub(super) hash: u32,
    /// For an element that only moves: the number of the leaf that the index still names, and the index of
    /// the entry in its page. `None` for a new element.
    pub(super) from: Option<(u32, usize)>,
}

impl Large {
    /// The set of these elements, which are in order and have distinct members.
    pub(in crate::zset) fn build<'m>(
        elements: impl Iterator<Item = (&'m [u8], f64)>,
        seed: HashSeed,
        garbage: &mut Vec<ZsetPart>,
    ) -> Large {
        let mut large = Large {
            top: Arc::new(InnerNode::of([])),
            count: 0,
            paged: PagedArray::default(),
            index: MemberIndex::default(),
            numbers: 0,
            free: FreeNumbers::default(),
            seed,
            heap: INNER_BYTES,
            remains: Vec::new(),
            pops_next: [0; SLOTS_AHEAD],
        };
        let (mut parts, _, count) = large.parts(garbage);
        let mut level: Vec<Branch> = Vec::new();
        let (mut row, mut held, mut hashes) = (Vec::new(), 0, Vec::new());
        for (member, score) in elements {
            let need = row::entry_len(member, score);
            if held > 0 && row.len() + need > ROW_BYTES_FILLED {
                level.push(parts.built_leaf(&row, held, &hashes));
                row.clear();
                hashes.clear();
                held = 0;
            }
            let at = row.len();
            row.resize(at + need, 0);
            row::write(&mut row[at..], member, score);
            hashes.push(hash(parts.seed, member));
            held += 1;
            *count += 1;
        }
        if held > 0 {
            level.push(parts.built_leaf(&row, held, &hashes));
        }
        let mut heap = parts.work.heap;
        while level.len() > FANOUT {
            let parts = level.len().div_ceil(FANOUT);
            let each = level.len().div_ceil(parts);
            let mut above = Vec::with_capacity(parts);
            let mut rest = level.into_iter().peekable();
            while rest.peek().is_some() {
                above.push(Branch::of(InnerNode::of(rest.by_ref().take(each))));
                heap += INNER_BYTES;
            }
            level = above;
        }
        large.top = Arc::new(InnerNode::of(level));
        large.heap = heap;
        large
    }

    pub(super) fn parts<'l, 'w>(
        &'l mut self,
        garbage: &'w mut Vec<ZsetPart>,
    ) -> (LargeParts<'l, 'w>, &'l mut Arc<InnerNode>, &'l mut usize) {
        let Large { top, count, paged, index, numbers, free, seed, heap, remains, pops_next: _ } = self;
        let work = ZsetWork { garbage, heap: *heap };
        (LargeParts { paged, index, numbers, free, remains, seed: *seed, work }, top, count)
    }

    /// Adds an element with an absent member; `hash` is the member's hash. Cost: O(log n).
    pub(in crate::zset) fn insert(
        &mut self,
        member: &[u8],
        score: f64,
        hash: u32,
        garbage: &mut Vec<ZsetPart>,
    ) {
        self.clear_remains(CLEARED_BY_CHANGE, garbage);
        self.enter(Entering { member, score, hash, from: None }, garbage);
        self.count += 1;
    }

    pub(super) fn enter(&mut self, entering: Entering<'_>, garbage: &mut Vec<ZsetPart>) {
        if self.enter_leaf(entering, garbage) {
            return;
        }
        let (mut parts, top, _) = self.parts(garbage);
        let edge = Edge::Element(entering.score, entering.member);
        let after = parts.insert(top, edge, entering, true);
        if !after.is_empty() {
            let first = Branch::of_arc(top.clone());
            // The clone above becomes the only owner of the old top here.
            *top = Arc::new(InnerNode::of(std::iter::once(first).chain(after)));
            parts.work.heap += INNER_BYTES;
        }
        self.heap = parts.work.heap;
    }

    /// Removes a member and returns its score. Cost: O(log n).
    pub(in crate::zset) fn remove(&mut self, member: &[u8], garbage: &mut Vec<ZsetPart>) -> Option<f64> {
        let found = self.find(member);
        let (number, position) = found.position?;
        self.clear_remains(CLEARED_BY_CHANGE, garbage);
        if self.take(member, number, position, garbage) {
            let (parts, _, count) = self.parts(garbage);
            let LargeParts { index, mut work, .. } = parts;
            index.remove(found.hash, (number, found.slot), &mut work);
            *count -= 1;
            self.heap = work.heap;
        }
        Some(position.score)
    }

    /// Removes a member from its leaf, but not its entry from the index. Returns whether the member was
    /// found, which is always so.
    pub(super) fn take(
        &mut self,
        member: &[u8],
        number: u32,
        position: RowPosition,
        garbage: &mut Vec<ZsetPart>,
    ) -> bool {
        if self.leave_leaf(member, number, position, garbage) {
            return true;
        }
        let (mut parts, top, _) = self.parts(garbage);
        let edge = Edge::AfterElement(position.score, member);
        let taken = parts.take(top, edge, number, position.at..position.end);
        debug_assert!(taken, "the index names the leaf that the order names");
        parts.lower(top);
        self.heap = parts.work.heap;
        taken
    }

    /// Removes the elements of these ranks, which must exist. Cost: O(removed), but O(log n) for long ranges.
    pub(in crate::zset) fn remove_ranks(&mut self, ranks: Range<usize>, garbage: &mut Vec<ZsetPart>) {
        self.clear_remains(CLEARED_BY_CHANGE, garbage);
        if ranks.len() > REBUILT_FROM && self.count - ranks.len() <= REBUILT_MAX {
            return self.rebuild_without(ranks, garbage);
        }
        if ranks.len() > CUT_FROM {
            return self.cut(ranks, garbage);
        }
        let mut left = ranks.len();
        while left > 0 {
            let (mut parts, top, count) = self.parts(garbage);
            let removed = parts.remove_run(top, ranks.start, left);
            *count -= removed;
            parts.lower(top);
            self.heap = parts.work.heap;
            debug_assert!(removed > 0, "the ranks are there");
            if removed == 0 {
                return;
            }
            left -= removed;
        }
        self.prefetch_pop(ranks);
    }

    /// Rebuilds the set from the remaining elements; the whole old set becomes garbage.
    fn rebuild_without(&mut self, ranks: Range<usize>, garbage: &mut Vec<ZsetPart>) {
        let kept = self.entries(0).take(ranks.start).chain(self.entries(ranks.end));
        let new = Large::build(kept, self.seed, garbage);
        garbage.push(ZsetPart::Whole(Box::new(replace(self, new))));
    }
}

impl FreeNumbers {
    fn pop(&mut self) -> Option<u32> {
        if self.0.is_empty() { None } else { Arc::make_mut(&mut self.0).pop() }
    }

    fn push(&mut self, number: u32) {
        Arc::make_mut(&mut self.0).push(number);
    }
}

impl LargeParts<'_, '_> {
    /// The children of a node for writing; a shared node is copied first.
    pub(super) fn children<'i>(&mut self, inner: &'i mut Arc<InnerNode>) -> Option<&'i mut Vec<Branch>> {
        if !inner.is_unique() {
            let copy = Arc::new(InnerNode::clone(inner));
            self.work.garbage.push(ZsetPart::Inner(replace(inner, copy)));
        }
        Arc::get_mut(inner).map(|inner| &mut inner.children)
    }

    /// Adds a leaf to the paged array and returns its number.
    fn shelve(&mut self, leaf: RowLeaf) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            *self.numbers += 1;
            *self.numbers - 1
        });
        self.work.heap += leaf.heap_bytes();
        if let Some(slot) = self.paged.slot_mut(number as usize, &mut self.work) {
            *slot = Some(leaf);
        }
        number
    }

    fn built_leaf(&mut self, row: &[u8], count: usize, hashes: &[u32]) -> Branch {
        let number = self.shelve(RowLeaf::of_row(row, count, 0));
        hashes.iter().for_each(|hash| self.index.insert(*hash, number, &mut self.work));
        self.child_of(number)
    }

    fn child_of(&self, number: u32) -> Branch {
        let mut child = Branch { link: Link::Leaf(number), count: 0, first: 0.0 };
        child.refresh(self.paged);
        child
    }

    /// Changes a leaf, and accounts for its bytes.
    #[inline]
    pub(super) fn change_leaf(&mut self, number: u32, change: impl FnOnce(&mut RowLeaf, &mut Vec<ZsetPart>)) {
        let Some(Some(leaf)) = self.paged.slot_mut(number as usize, &mut self.work) else { return };
        let before = leaf.heap_bytes();
        change(leaf, self.work.garbage);
        self.work.heap = self.work.heap + leaf.heap_bytes() - before;
    }

    /// Removes a leaf from the paged array.
    pub(super) fn drop_leaf(&mut self, number: u32) {
        let Some(slot) = self.paged.slot_mut(number as usize, &mut self.work) else { return };
        if let Some(leaf) = slot.take() {
            self.work.heap -= leaf.heap_bytes();
            leaf.discard(self.work.garbage);
        }
        self.free.push(number);
    }

    /// Adds an element below a node. `is_last` says whether the node is the last of its level. Returns the
    /// new nodes that follow it.
    fn insert(
        &mut self,
        inner: &mut Arc<InnerNode>,
        edge: Edge<'_>,
        entering: Entering<'_>,
        is_last: bool,
    ) -> Vec<Branch> {
        let at = child_before(&inner.children, edge, self.paged);
        let Some(children) = self.children(inner) else { return Vec::new() };
        let is_last = is_last && at + 1 == children.len();
        let after = match children.get_mut(at) {
            None => {
                let number = self.shelve(RowLeaf::of_row(&[], 0, 0));
                let after = self.insert_in_leaf(number, edge, entering, true);
                children.push(self.child_of(number));
                after
            }
            Some(child) => {
                let after = match &mut child.link {
                    Link::Inner(next) => self.insert(next, edge, entering, is_last),
                    Link::Leaf(number) => self.insert_in_leaf(*number, edge, entering, is_last),
                };
                if after.is_empty() {
                    child.count += 1;
                    child.refresh_first(self.paged);
                } else {
                    child.refresh(self.paged);
                }
                after
            }
        };
        if after.is_empty() {
            return after;
        }
        children.splice(at + 1..at + 1, after);
        self.split(children)
    }

    /// Reduces `children` to the allowed number and returns nodes with the others.
    fn split(&mut self, children: &mut Vec<Branch>) -> Vec<Branch> {
        if children.len() <= FANOUT {
            return Vec::new();
        }
        let parts = children.len().div_ceil(FANOUT);
        let each = children.len().div_ceil(parts);
        let mut right = Vec::new();
        while children.len() > each {
            let last = (children.len() - 1) / each * each;
            right.push(Branch::of(InnerNode::of(children.drain(last..))));
            self.work.heap += INNER_BYTES;
        }
        right.reverse();
        // The capacity is set back, because `INNER_BYTES` assumes it.
        children.shrink_to(CAPACITY);
        right
    }

    /// Adds an element to a leaf. Returns the new leaves that follow it.
    #[inline]
    fn insert_in_leaf(
        &mut self,
        number: u32,
        edge: Edge<'_>,
        entering: Entering<'_>,
        is_last: bool,
    ) -> Vec<Branch> {
        let Entering { member, score, .. } = entering;
        let leaf = self.paged.get(number as usize);
        let row = leaf.map(RowLeaf::row).unwrap_or_default();
        let at = leaf.map_or(0, |leaf| leaf.gap_of(edge).at);
        let bytes = row.len() + row::entry_len(member, score);
        let is_full_in_order = is_last && at == row.len() && bytes > ROW_BYTES_FILLED;
        if row.is_empty() || bytes <= ROW_BYTES_MAX && !is_full_in_order {
            self.change_leaf(number, |leaf, garbage| leaf.insert(at, member, score, garbage));
            self.enter_index(entering, number);
            return Vec::new();
        }
        if is_full_in_order {
            // Elements that arrive in order fill leaves, so the full leaf is not split.
            let mut row = vec![0; row::entry_len(member, score)];
            row::write(&mut row, member, score);
            let next = self.shelve(RowLeaf::of_row(&row, 1, 0));
            self.enter_index(entering, next);
            return vec![self.child_of(next)];
        }
        let Some(leaf) = leaf else { return Vec::new() };
        let row = leaf.with(at, member, score);
        self.enter_index(entering, number);
        self.set_rows(number, &row)
    }

    /// Makes the index name the leaf of an element.
    #[inline]
    pub(super) fn enter_index(&mut self, entering: Entering<'_>, number: u32) {
        match entering.from {
            None => self.index.insert(entering.hash, number, &mut self.work),
            Some((from, _)) if from == number => {}
            Some(from) => self.index.moved(entering.hash, from, number, &mut self.work),
        }
    }

    /// Puts the first piece of a row into a leaf and the other pieces into new leaves. Returns the branches
    /// of the new leaves. Before the call, the index names this leaf for all elements of the row.
    fn set_rows(&mut self, number: u32, row: &[u8]) -> Vec<Branch> {
        let mut pieces = row::cut(row, ROW_BYTES_MAX).into_iter();
        if let Some((first, count)) = pieces.next() {
            self.change_leaf(number, |leaf, garbage| leaf.replace(RowLeaf::of_row(first, count, 0), garbage));
        }
        let mut after = Vec::new();
        for (piece, count) in pieces {
            let next = self.shelve(RowLeaf::of_row(piece, count, 0));
            let work = &mut self.work;
            each_entry(self.index, self.seed, piece, |index, hash| {
                index.moved(hash, (number, 0), next, work)
            });
            after.push(self.child_of(next));
        }
        after
    }

    /// Removes up to `max` elements from index `rank` on, all from one leaf; returns the number removed.
    /// A node that loses all elements has no children afterwards.
    fn remove_run(&mut self, inner: &mut Arc<InnerNode>, rank: usize, max: usize) -> usize {
        let Some((at, before)) = child_of_rank(&inner.children, rank) else { return 0 };
        let Some(children) = self.children(inner) else { return 0 };
        let removed = match &mut children[at].link {
            Link::Inner(next) => self.remove_run(next, rank - before, max),
            Link::Leaf(number) => self.remove_in_leaf(*number, rank - before, max),
        };
        self.after_removal(children, at, removed);
        removed
    }

    /// Updates a node, one of whose children has lost `removed` elements.
    fn after_removal(&mut self, children: &mut Vec<Branch>, at: usize, removed: usize) {
        let child = &mut children[at];
        child.count -= removed;
        child.refresh_first(self.paged);
        if child.count == 0 {
            match children.remove(at).link {
                Link::Leaf(number) => self.drop_leaf(number),
                Link::Inner(_) => self.work.heap -= INNER_BYTES,
            }
        } else if self.is_sparse(&child.link) {
            // The first and the last leaf of a node are not joined: one may be at an end of the set, where
            // pops empty it, and joining it would move members that are about to be removed.
            let is_end = at == 0 || at + 1 == children.len();
            if !is_end || matches!(children[at].link, Link::Inner(_)) {
                self.join(children, at);
            }
        }
    }

    /// Whether a child is small enough to be joined with a neighbour.
    fn is_sparse(&self, link: &Link) -> bool {
        match link {
            Link::Inner(inner) => inner.children.len() < SPARSE,
            Link::Leaf(number) => {
                self.paged.get(*number as usize).is_none_or(|leaf| leaf.row().len() <= ROW_BYTES_SPARSE)
            }
        }
    }

    /// Removes the element at `range` of the row of leaf `number`. `edge` is a position right after the
    /// element. Returns whether `edge` leads to that leaf.
    pub(super) fn take(
        &mut self,
        inner: &mut Arc<InnerNode>,
        edge: Edge<'_>,
        number: u32,
        range: Range<usize>,
    ) -> bool {
        let at = child_before(&inner.children, edge, self.paged);
        let Some(children) = self.children(inner) else { return false };
        let Some(child) = children.get_mut(at) else { return false };
        let taken = match &mut child.link {
            Link::Inner(next) => self.take(next, edge, number, range),
            Link::Leaf(here) if *here != number => false,
            Link::Leaf(_) => {
                self.change_leaf(number, |leaf, garbage| leaf.remove(range, 1, garbage));
                true
            }
        };
        if taken {
            self.after_removal(children, at, 1);
        }
        taken
    }

    /// Removes top nodes that have a single inner node as child.
    pub(super) fn lower(&mut self, top: &mut Arc<InnerNode>) {
        while let [Branch { link: Link::Inner(_), .. }] = top.children[..] {
            let Some(children) = self.children(top) else { break };
            let Some(Branch { link: Link::Inner(next), .. }) = children.pop() else { break };
            *top = next;
            self.work.heap -= INNER_BYTES;
        }
    }

    pub(super) fn remove_in_leaf(&mut self, number: u32, index: usize, max: usize) -> usize {
        let Some(leaf) = self.paged.get(number as usize) else { return 0 };
        let row = leaf.row();
        let start = leaf.offset_of(index);
        let (mut end, mut removed) = (start, 0);
        for entry in RowIter::new(&row[start..]).take(max) {
            end += entry.len;
            removed += 1;
        }
        let gone = &row[start..end];
        let work = &mut self.work;
        each_entry(self.index, self.seed, gone, |index, hash| index.remove(hash, (number, 0), work));
        self.change_leaf(number, |leaf, garbage| leaf.remove(start..end, removed, garbage));
        removed
    }

    /// Joins the child at `at` with a neighbour if one of the two is sparse and both fit into one.
    pub(super) fn join(&mut self, children: &mut Vec<Branch>, at: usize) {
        for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if left + 1 < children.len() && self.join_two(children, left) {
                children.remove(left + 1);
                children[left].refresh(self.paged);
                return;
            }
        }
    }

    /// Moves the contents of the child after `left` to the child at `left`, if one of the two is sparse and
    /// both fit into one; returns whether it did.
    fn join_two(&mut self, children: &mut [Branch], left: usize) -> bool {
        let (head, tail) = children.split_at_mut(left + 1);
        let (Some(one), Some(other)) = (head.last_mut(), tail.first_mut()) else { return false };
        match (&mut one.link, &mut other.link) {
            (Link::Leaf(one), Link::Leaf(other)) => self.join_leaves(*one, *other),
            (Link::Inner(one), Link::Inner(other)) => {
                let (ones, others) = (one.children.len(), other.children.len());
                if ones.min(others) >= SPARSE || ones + others > FANOUT / 4 * 3 {
                    return false;
                }
                let Some(moved) = self.children(other).map(std::mem::take) else { return false };
                self.work.heap -= INNER_BYTES;
                if let Some(children) = self.children(one) {
                    children.extend(moved);
                }
                true
            }
            (Link::Leaf(_), Link::Inner(_)) | (Link::Inner(_), Link::Leaf(_)) => false,
        }
    }

    fn join_leaves(&mut self, one: u32, other: u32) -> bool {
        let (Some(left), Some(right)) = (self.paged.get(one as usize), self.paged.get(other as usize)) else {
            return false;
        };
        let (left_len, right_len) = (left.row().len(), right.row().len());
        if left_len.min(right_len) > ROW_BYTES_SPARSE || left_len + right_len > ROW_BYTES_MAX / 4 * 3 {
            return false;
        }
        let row = [left.row(), right.row()].concat();
        let count = left.count() + right.count();
        let (moved, work) = (&row[left_len..], &mut self.work);
        each_entry(self.index, self.seed, moved, |index, hash| index.moved(hash, (other, 0), one, work));
        self.change_leaf(one, |leaf, garbage| leaf.replace(RowLeaf::of_row(&row, count, 0), garbage));
        self.drop_leaf(other);
        true
    }
}

/// Changes the index's entries of all elements of a row, several at a time, because in a large set each entry
/// is a cache miss, and the misses of several entries overlap.
fn each_entry(
    index: &mut MemberIndex,
    seed: HashSeed,
    row: &[u8],
    mut change: impl FnMut(&mut MemberIndex, u32),
) {
    let mut elements = RowIter::new(row);
    loop {
        let mut hashes = [0; MEMBERS_AHEAD];
        let mut len = 0;
        for (slot, element) in hashes.iter_mut().zip(&mut elements) {
            *slot = hash(seed, element.member);
            index.prefetch_slot(*slot);
            len += 1;
        }
        match len {
            0 => return,
            1 => {}
            _ => hashes[..len].iter().for_each(|hash| index.prefetch(*hash)),
        }
        hashes[..len].iter().for_each(|hash| change(index, *hash));
    }
}

/// Up to this many elements are removed leaf by leaf, however few elements stay.
const REBUILT_FROM: usize = 256;
/// If more elements than this stay, the set is not rebuilt.
const REBUILT_MAX: usize = 2048;
/// Up to this many elements are removed leaf by leaf, which takes less than half a millisecond; longer ranges
/// are cut off.
const CUT_FROM: usize = 2048;
/// Leaves of cut-off subtrees that each change clears.
pub(super) const CLEARED_BY_CHANGE: usize = 2;
