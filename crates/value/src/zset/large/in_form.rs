//! Changes that keep the tree's form: no leaf is split, joined or emptied, so one descent finds the leaf, and
//! a second descent updates counts and first scores. Most changes of a large set are of this kind. For all
//! others these functions return `false` without a change, and the caller goes on with the general functions
//! in `large/edit.rs`.

use std::ops::Range;

use triomphe::Arc;

use super::edit::{CLEARED_BY_CHANGE, Entering, LargeParts};
use super::{FoundMember, InnerNode, Large, Link, ROW_BYTES_SPARSE, SLOTS_AHEAD, child_before, hash};
use crate::zset::edge::Edge;
use crate::zset::leaf::{ROW_BYTES_FILLED, ROW_BYTES_MAX, RowLeaf};
use crate::zset::part::ZsetPart;
use crate::zset::row::{self, RowPosition};

/// The path from the top to a leaf.
#[derive(Clone, Copy, Debug)]
struct LeafPath {
    /// The index of the child in each node; a node has at most `CAPACITY` children.
    steps: [u8; DEPTH_MAX],
    depth: usize,
    leaf: u32,
    /// Whether this is the last leaf.
    is_last: bool,
}

/// The most nodes on the path to a leaf. It suffices, because the nodes below the top have at least `SPARSE`
/// children on average, and leaf numbers have 32 bits.
const DEPTH_MAX: usize = 12;

impl Large {
    /// Adds an element to its leaf if the leaf has room for it; returns whether it did.
    pub(super) fn enter_leaf(&mut self, entering: Entering<'_>, garbage: &mut Vec<ZsetPart>) -> bool {
        let Entering { member, score, .. } = entering;
        let edge = Edge::Element(score, member);
        let Some(path) = self.path_before(edge) else { return false };
        let Some(leaf) = self.paged.get(path.leaf as usize) else { return false };
        let Some(gap) = gap_with_room(leaf, path, (member, score)) else { return false };
        let (mut parts, top, _) = self.parts(garbage);
        parts.change_leaf(path.leaf, |leaf, garbage| leaf.insert(gap, member, score, garbage));
        parts.enter_index(entering, path.leaf);
        parts.follow(top, &path, usize::wrapping_add, (gap == 0).then_some(score));
        self.heap = parts.work.heap;
        true
    }

    /// Changes the score of a member that was looked up. Cost: O(log n).
    pub(in super::super) fn update(
        &mut self,
        member: &[u8],
        score: f64,
        found: FoundMember,
        garbage: &mut Vec<ZsetPart>,
    ) {
        let Some((number, position)) = found.position else { return };
        self.clear_remains(CLEARED_BY_CHANGE, garbage);
        let to = self.path_before(Edge::Element(score, member));
        let is_done = match to {
            Some(to) if to.leaf == number => self.update_in_leaf(number, position, (member, score), garbage),
            Some(to) => self.move_between(to, (member, score), found, garbage),
            None => false,
        };
        if is_done {
            return;
        }
        if self.take(member, number, position, garbage) {
            // The index still names the old leaf; its entry is changed when the member moves.
            let from = Some((number, found.slot));
            self.enter(Entering { member, score, hash: found.hash, from }, garbage);
        }
    }

    /// Moves a member that was looked up to another leaf if the tree keeps its form; returns whether it did.
    fn move_between(
        &mut self,
        to: LeafPath,
        (member, score): (&[u8], f64),
        found: FoundMember,
        garbage: &mut Vec<ZsetPart>,
    ) -> bool {
        let Some((number, position)) = found.position else { return false };
        let Some(target) = self.paged.get(to.leaf as usize) else { return false };
        let Some(gap) = gap_with_room(target, to, (member, score)) else { return false };
        if !self.leave_leaf(member, number, position, garbage) {
            return false;
        }
        let (mut parts, top, _) = self.parts(garbage);
        parts.change_leaf(to.leaf, |leaf, garbage| leaf.insert(gap, member, score, garbage));
        parts.index.moved(found.hash, (number, found.slot), to.leaf, &mut parts.work);
        parts.follow(top, &to, usize::wrapping_add, (gap == 0).then_some(score));
        self.heap = parts.work.heap;
        true
    }

    /// Removes a member from its leaf, but not its entry from the index, if the leaf then is neither
    /// empty nor to be joined; returns whether it did.
    pub(super) fn leave_leaf(
        &mut self,
        member: &[u8],
        number: u32,
        position: RowPosition,
        garbage: &mut Vec<ZsetPart>,
    ) -> bool {
        let Some(path) = self.path_before(Edge::AfterElement(position.score, member)) else { return false };
        let Some(leaf) = self.paged.get(number as usize) else { return false };
        let bytes = leaf.row().len();
        let left = bytes - (position.end - position.at);
        // Each time a sparse leaf has lost `JOIN_STEP` more bytes, the removal is left to the general
        // functions, which may join the leaf.
        let may_be_joined = left <= ROW_BYTES_SPARSE && left / JOIN_STEP != bytes / JOIN_STEP;
        if path.leaf != number || left == 0 || may_be_joined {
            return false;
        }
        let behind = row::read(&leaf.row()[position.end..]).map(|entry| entry.score);
        let new_first = if position.at == 0 { behind } else { None };
        let (mut parts, top, _) = self.parts(garbage);
        parts.change_leaf(number, |leaf, garbage| leaf.remove(position.at..position.end, 1, garbage));
        parts.follow(top, &path, usize::wrapping_sub, new_first);
        self.heap = parts.work.heap;
        true
    }

    /// The path to the leaf in which an edge lies; `None` in an empty set.
    fn path_before(&self, edge: Edge<'_>) -> Option<LeafPath> {
        let mut path = LeafPath { steps: [0; DEPTH_MAX], depth: 0, leaf: 0, is_last: true };
        let mut inner = &*self.top;
        loop {
            let at = child_before(&inner.children, edge, &self.paged);
            *path.steps.get_mut(path.depth)? = at as u8;
            path.depth += 1;
            path.is_last &= at + 1 == inner.children.len();
            match &inner.children.get(at)?.link {
                Link::Inner(next) => inner = next,
                Link::Leaf(number) => {
                    path.leaf = *number;
                    return Some(path);
                }
            }
        }
    }

    /// Changes the score of the member at a position if it stays in its leaf and the leaf's first element
    /// stays the same; returns whether it did. Neither the index nor the inner nodes change then.
    #[inline]
    fn update_in_leaf(
        &mut self,
        number: u32,
        position: RowPosition,
        (member, score): (&[u8], f64),
        garbage: &mut Vec<ZsetPart>,
    ) -> bool {
        let Some(leaf) = self.paged.get(number as usize) else { return false };
        let (old, need) = (position.end - position.at, row::entry_len(member, score));
        let gap = leaf.gap_of(Edge::Element(score, member)).at;
        if position.at == 0 || gap == 0 || leaf.row().len() - old + need > ROW_BYTES_MAX {
            return false;
        }
        let (mut parts, _, _) = self.parts(garbage);
        parts.change_leaf(number, |leaf, garbage| {
            if old == need && leaf.turn(position.at..position.end, gap, (member, score)) {
                return;
            }
            leaf.remove(position.at..position.end, 1, garbage);
            // The gap is adjusted to the row without the old element.
            let gap = if gap > position.at { gap - old } else { gap };
            leaf.insert(gap, member, score, garbage);
        });
        self.heap = parts.work.heap;
        true
    }

    /// After a pop, prefetches what later pops at this end will read in the index. For each member, the slot
    /// that points to its index page is prefetched first, and some pops later the page's entries. These
    /// members were not accessed before, so in a set of millions their entries are in no cache, and waiting
    /// for them would take a third of a pop's time.
    pub(super) fn prefetch_pop(&mut self, removed: Range<usize>) {
        let rank = match removed.start {
            _ if removed.len() > POPPED_ALONE => return,
            0 => POPS_AHEAD,
            start if start == self.count => self.count.wrapping_sub(1 + POPS_AHEAD),
            _ => return,
        };
        if let Some((leaf, index)) = self.leaf_at(rank)
            && let Some(entry) = row::read(&leaf.row()[leaf.offset_of(index)..])
        {
            let hash = hash(self.seed, entry.member);
            self.index.prefetch_slot(hash);
            self.index.prefetch(self.pops_next[0]);
            self.pops_next.rotate_left(1);
            self.pops_next[SLOTS_AHEAD - 1] = hash;
        }
    }
}

/// The gap for an element in the row of the leaf at the end of `path`. `None` if the row has no room, or if
/// the gap is at the end of the last leaf and the row would exceed `ROW_BYTES_FILLED`. Therefore an element
/// that arrives in order begins the next leaf.
#[inline]
fn gap_with_room(leaf: &RowLeaf, path: LeafPath, (member, score): (&[u8], f64)) -> Option<usize> {
    let row_bytes = leaf.row().len();
    let bytes = row_bytes + row::entry_len(member, score);
    if bytes > ROW_BYTES_MAX {
        return None;
    }
    let gap = leaf.gap_of(Edge::Element(score, member)).at;
    let is_full_in_order = path.is_last && gap == row_bytes && bytes > ROW_BYTES_FILLED;
    (!is_full_in_order).then_some(gap)
}

impl LargeParts<'_, '_> {
    /// Changes the counts on the path to a leaf by one, and the first scores if the leaf has a
    /// new first element.
    #[inline]
    fn follow(
        &mut self,
        top: &mut Arc<InnerNode>,
        path: &LeafPath,
        count: fn(usize, usize) -> usize,
        first: Option<f64>,
    ) {
        let steps = &path.steps[..path.depth];
        // A child on the path begins with the leaf's first element if the path takes the first child in every
        // node below that child.
        let leftmost = steps.iter().rposition(|step| *step > 0).unwrap_or(0);
        let mut node = top;
        for (depth, step) in steps.iter().enumerate() {
            let children = self.children(node);
            let Some(child) = children.and_then(|children| children.get_mut(usize::from(*step))) else {
                return;
            };
            child.count = count(child.count, 1);
            if let Some(first) = first
                && depth >= leftmost
            {
                child.first = first;
            }
            match &mut child.link {
                Link::Inner(next) => node = next,
                Link::Leaf(_) => return,
            }
        }
    }
}

/// Bytes that a sparse leaf loses between two attempts to join it.
const JOIN_STEP: usize = ROW_BYTES_SPARSE / 4;
/// A removal of more elements than this is not regarded as a pop that others will follow, so nothing is
/// prefetched after it.
const POPPED_ALONE: usize = 4;
/// A pop prefetches, for the element this many positions from the popped end, the slot that points to its
/// index page. A cache miss takes less time than two pops.
const POPS_AHEAD: usize = 6;
