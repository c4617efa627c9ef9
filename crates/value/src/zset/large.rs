//! The large form: a counted B+ tree over leaves in order of score and member, and an index from members to leaves.
//!
//! ```text
//!  top ──► inner nodes: for each child its count, its first score ──► numbers of leaves
//!  index: hash of a member ──► number of a leaf          shelf: number ──► leaf
//! ```
//!
//! BranchNode nodes name leaves by number, and the shelf owns the leaves: so that the index can name them too. Scores alone stand in
//! inner nodes. Where scores are equal, the first member of a child is looked up in its first leaf.
//!
//! A long range is cut off in O(log n), and what is left of it cleared later: see `large/cut.rs`.
//!
//! Invariants: (1) all leaves are at the same depth; (2) no leaf and no inner node is empty, except the top of an empty set;
//! (3) each member has one entry in the index, which names its leaf, as those that were cut off have; (4) nothing that has a second
//! owner is dropped here: it goes to the garbage; (5) `heap` is what the parts have allocated.

#[cfg(test)]
mod check;
mod cut;
mod in_form;

use std::mem::replace;
use std::ops::Range;

use sluice_base::{HashSeed, heap, siphash13};
use triomphe::Arc;

use super::edge::Edge;
use super::index::MemberIndex;
use super::leaf::{ROW_BYTES_MAX, RowLeaf};
use super::row::{self, RowIter, RowPlace};
use super::shelf::{Shelf, ShelfNode, Shelved};
use super::{ZsetPart, ZsetWork};
use cut::CLEARED_BY_CHANGE;
use in_form::PLACES_AHEAD;

/// Children of an inner node at most.
const FANOUT: usize = 32;
/// Room for those that an insertion adds before the node is split.
const CAPACITY: usize = FANOUT + 4;
/// An inner node with fewer children is joined with a neighbour.
const SPARSE: usize = FANOUT / 4;
/// A leaf whose row has no more bytes may be joined with a neighbour.
const ROW_BYTES_SPARSE: usize = ROW_BYTES_MAX / 4;
/// Bytes of the row that a leaf has after the set was built in order: some room for what is added.
const BUILT_BYTES: usize = ROW_BYTES_MAX / 8 * 7;

/// A sorted set with an index.
#[derive(Clone, Debug)]
pub(super) struct Large {
    top: Arc<BranchNode>,
    count: usize,
    shelf: Shelf<RowLeaf>,
    index: MemberIndex,
    /// Numbers that leaves have had: all below are taken, or on the list of free ones.
    numbers: u32,
    free: FreeNumbers,
    seed: HashSeed,
    heap: usize,
    /// What was cut off: leaves stand on the shelf and in the index still, and are cleared a few at a time.
    remains: Vec<Link>,
    /// Hashes of members that are probably popped soon. A hint: nothing but a prefetch depends on them.
    pops_next: [u32; PLACES_AHEAD],
}

/// Numbers of leaves that are gone. A share copies them: they are few, since a set that shrinks much is built anew.
#[derive(Clone, Debug, Default)]
struct FreeNumbers(Arc<Vec<u32>>);

/// An inner node.
#[derive(Debug)]
pub(super) struct BranchNode {
    children: Vec<Branch>,
}

impl Clone for BranchNode {
    fn clone(&self) -> BranchNode {
        BranchNode::of(self.children.iter().cloned())
    }
}

impl BranchNode {
    fn of(from: impl IntoIterator<Item = Branch>) -> BranchNode {
        let mut children = Vec::with_capacity(CAPACITY);
        children.extend(from);
        BranchNode { children }
    }
}

/// Bytes of an inner node.
pub(super) const INNER_BYTES: usize =
    heap::block(8 + size_of::<BranchNode>()) + heap::block(CAPACITY * size_of::<Branch>());

#[derive(Clone, Debug)]
struct Branch {
    link: Link,
    count: usize,
    /// Score of the first element.
    first: f64,
}

#[derive(Clone, Debug)]
enum Link {
    Leaf(u32),
    Inner(Arc<BranchNode>),
}

impl Shelved for RowLeaf {
    fn part(node: ShelfNode<RowLeaf>) -> ZsetPart {
        ZsetPart::Leaves(node)
    }

    fn own_bytes(&self) -> usize {
        if self.is_shared() { 0 } else { self.heap_bytes() }
    }
}

/// What an operation works on beside the nodes.
struct LargeParts<'l, 'w> {
    shelf: &'l mut Shelf<RowLeaf>,
    index: &'l mut MemberIndex,
    numbers: &'l mut u32,
    free: &'l mut FreeNumbers,
    remains: &'l mut Vec<Link>,
    seed: HashSeed,
    work: ZsetWork<'w>,
}

/// Where a member is.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundMember {
    hash: u32,
    /// Where in its page the index had the entry: a hint.
    slot: usize,
    /// The leaf, and the place in its row.
    place: Option<(u32, RowPlace)>,
}

impl FoundMember {
    pub(super) fn score(self) -> Option<f64> {
        self.place.map(|(_, place)| place.score)
    }

    pub(super) fn hash(self) -> u32 {
        self.hash
    }
}

/// An element on its way to its leaf.
#[derive(Clone, Copy)]
struct Entering<'m> {
    member: &'m [u8],
    score: f64,
    /// Of the member.
    hash: u32,
    /// The leaf that the index names, of an element that only moves, and where in its page.
    from: Option<(u32, usize)>,
}

fn hash(seed: HashSeed, member: &[u8]) -> u32 {
    siphash13(seed, member) as u32
}

impl Large {
    /// The set of these elements, which are in order and differ in their members.
    pub(super) fn build<'m>(
        elements: impl Iterator<Item = (&'m [u8], f64)>,
        seed: HashSeed,
        garbage: &mut Vec<ZsetPart>,
    ) -> Large {
        let mut large = Large {
            top: Arc::new(BranchNode::of([])),
            count: 0,
            shelf: Shelf::default(),
            index: MemberIndex::default(),
            numbers: 0,
            free: FreeNumbers::default(),
            seed,
            heap: INNER_BYTES,
            remains: Vec::new(),
            pops_next: [0; PLACES_AHEAD],
        };
        let (mut parts, _, count) = large.parts(garbage);
        let mut level: Vec<Branch> = Vec::new();
        let (mut row, mut held, mut hashes) = (Vec::new(), 0, Vec::new());
        for (member, score) in elements {
            let need = row::entry_len(member, score);
            if held > 0 && row.len() + need > BUILT_BYTES {
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
                above.push(Branch::of(BranchNode::of(rest.by_ref().take(each))));
                heap += INNER_BYTES;
            }
            level = above;
        }
        large.top = Arc::new(BranchNode::of(level));
        large.heap = heap;
        large
    }

    fn parts<'l, 'w>(
        &'l mut self,
        garbage: &'w mut Vec<ZsetPart>,
    ) -> (LargeParts<'l, 'w>, &'l mut Arc<BranchNode>, &'l mut usize) {
        let Large { top, count, shelf, index, numbers, free, seed, heap, remains, pops_next: _ } = self;
        let work = ZsetWork { garbage, heap: *heap };
        (LargeParts { shelf, index, numbers, free, remains, seed: *seed, work }, top, count)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.heap + self.free.heap_bytes() + heap::vec(&self.remains)
    }

    pub(super) fn is_shared(&self) -> bool {
        !self.top.is_unique() || self.shelf.is_shared() || self.index.is_shared()
    }

    /// Bytes that have no other owner.
    pub(super) fn own_bytes(&self) -> usize {
        own_bytes(&self.top) + self.remains_own_bytes() + self.shelf.own_bytes() + self.index.own_bytes()
    }

    /// Where a member is, if it is.
    #[inline]
    pub(super) fn find(&self, member: &[u8]) -> FoundMember {
        let hash = hash(self.seed, member);
        let found = self.index.candidates(hash).find_map(|(slot, number)| {
            let place = row::find(self.shelf.get(number as usize)?.row(), member)?;
            self.is_live(number, place.score, member).then_some((slot, (number, place)))
        });
        match found {
            Some((slot, place)) => FoundMember { hash, slot, place: Some(place) },
            None => FoundMember { hash, slot: 0, place: None },
        }
    }

    /// The score of a member.
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).score()
    }

    /// Rank and score of a member. Cost: O(log n).
    pub(super) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (number, place) = self.find(member).place?;
        let edge = Edge::BehindElement(place.score, member);
        let (before, leaf) = self.leaf_before(edge);
        if leaf == Some(number) {
            return Some((before + place.index, place.score));
        }
        Some((self.count_before(Edge::Element(place.score, member)), place.score))
    }

    /// The leaf in which an edge lies, and how many elements are in front of the leaf.
    fn leaf_before(&self, edge: Edge<'_>) -> (usize, Option<u32>) {
        let (mut inner, mut before) = (&*self.top, 0);
        loop {
            let at = child_before(&inner.children, edge, &self.shelf);
            before += inner.children[..at].iter().map(|child| child.count).sum::<usize>();
            match inner.children.get(at).map(|child| &child.link) {
                None => return (before, None),
                Some(Link::Inner(next)) => inner = next,
                Some(Link::Leaf(number)) => return (before, Some(*number)),
            }
        }
    }

    /// How many elements lie before an edge. Cost: O(log n).
    pub(super) fn count_before(&self, edge: Edge<'_>) -> usize {
        let (before, number) = self.leaf_before(edge);
        let leaf = number.and_then(|number| self.shelf.get(number as usize));
        before + leaf.map_or(0, |leaf| leaf.gap_of(edge).index)
    }

    /// The leaf with the element of a rank, and the element's index in the leaf.
    pub(super) fn leaf_at(&self, mut rank: usize) -> Option<(&RowLeaf, usize)> {
        let mut inner = &*self.top;
        loop {
            let (at, before) = child_of_rank(&inner.children, rank)?;
            rank -= before;
            match &inner.children[at].link {
                Link::Inner(next) => inner = next,
                Link::Leaf(number) => return Some((self.shelf.get(*number as usize)?, rank)),
            }
        }
    }

    /// Adds an element whose member is absent. `hash` is the member's. Cost: O(log n).
    pub(super) fn insert(&mut self, member: &[u8], score: f64, hash: u32, garbage: &mut Vec<ZsetPart>) {
        self.clear_remains(CLEARED_BY_CHANGE, garbage);
        self.enter(Entering { member, score, hash, from: None }, garbage);
        self.count += 1;
    }

    /// The hash of a member.
    pub(super) fn hash_of(&self, member: &[u8]) -> u32 {
        hash(self.seed, member)
    }

    fn enter(&mut self, entering: Entering<'_>, garbage: &mut Vec<ZsetPart>) {
        if self.enter_leaf(entering, garbage) {
            return;
        }
        let (mut parts, top, _) = self.parts(garbage);
        let edge = Edge::Element(entering.score, entering.member);
        let after = parts.insert(top, edge, entering);
        if !after.is_empty() {
            let first = Branch::of_arc(top.clone());
            // The clone above and this replacement leave the old top with one owner.
            *top = Arc::new(BranchNode::of(std::iter::once(first).chain(after)));
            parts.work.heap += INNER_BYTES;
        }
        self.heap = parts.work.heap;
    }

    /// Removes a member; its score. Cost: O(log n).
    pub(super) fn remove(&mut self, member: &[u8], garbage: &mut Vec<ZsetPart>) -> Option<f64> {
        let found = self.find(member);
        let (number, place) = found.place?;
        self.clear_remains(CLEARED_BY_CHANGE, garbage);
        if self.take(member, number, place, garbage) {
            let (parts, _, count) = self.parts(garbage);
            let LargeParts { index, mut work, .. } = parts;
            index.remove(found.hash, (number, found.slot), &mut work);
            *count -= 1;
            self.heap = work.heap;
        }
        Some(place.score)
    }

    /// Takes a member out of its leaf and leaves its entry in the index; whether it did, which is always.
    fn take(&mut self, member: &[u8], number: u32, place: RowPlace, garbage: &mut Vec<ZsetPart>) -> bool {
        if self.leave_leaf(member, number, place, garbage) {
            return true;
        }
        let (mut parts, top, _) = self.parts(garbage);
        let edge = Edge::BehindElement(place.score, member);
        let taken = parts.take(top, edge, number, place.at..place.end);
        debug_assert!(taken, "the index names the leaf that the order names");
        parts.lower(top);
        self.heap = parts.work.heap;
        taken
    }

    /// Removes the elements of these ranks, which there are. Cost: O(removed), and of many O(log n).
    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>, garbage: &mut Vec<ZsetPart>) {
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

    /// The set of what is left; the whole old one is garbage.
    fn rebuild_without(&mut self, ranks: Range<usize>, garbage: &mut Vec<ZsetPart>) {
        let kept = self.entries(0).take(ranks.start).chain(self.entries(ranks.end));
        let new = Large::build(kept, self.seed, garbage);
        garbage.push(ZsetPart::Whole(Box::new(replace(self, new))));
    }

    /// The elements from a rank on.
    pub(super) fn entries(&self, rank: usize) -> impl Iterator<Item = (&[u8], f64)> {
        let mut rank = rank;
        let mut row = RowIter::new(&[]);
        std::iter::from_fn(move || {
            loop {
                if let Some(entry) = row.next() {
                    rank += 1;
                    return Some((entry.member, entry.score));
                }
                let (leaf, at) = self.leaf_at(rank)?;
                row = RowIter::new(&leaf.row()[leaf.offset_of(at)..]);
            }
        })
    }

    /// Whether a member appears twice. Cost: O(n).
    pub(super) fn has_duplicates(&self) -> bool {
        let mut cursor = 0;
        loop {
            let mut found = Vec::new();
            cursor = self.index.scan(cursor, &mut |hash, leaf| found.push((hash, leaf)));
            found.sort_unstable();
            for same in found.chunk_by(|one, other| one.0 == other.0).filter(|same| same.len() > 1) {
                let leaves: std::collections::BTreeSet<u32> = same.iter().map(|(_, leaf)| *leaf).collect();
                let leaves = leaves.into_iter().filter_map(|leaf| self.shelf.get(leaf as usize));
                let members = leaves.flat_map(RowLeaf::iter).map(|entry| entry.member);
                let mut members: Vec<&[u8]> =
                    members.filter(|member| hash(self.seed, member) == same[0].0).collect();
                members.sort_unstable();
                if members.windows(2).any(|pair| pair[0] == pair[1]) {
                    return true;
                }
            }
            if cursor == 0 {
                return false;
            }
        }
    }

    /// Some elements from a cursor on, each with its score, and the next cursor; 0 starts and ends.
    pub(super) fn scan(&self, cursor: u32, visit: &mut dyn FnMut(&[u8], f64)) -> u32 {
        let mut found = Vec::new();
        let next = self.index.scan(cursor, &mut |hash, leaf| found.push((leaf, hash)));
        found.sort_unstable();
        found.dedup();
        for of_leaf in found.chunk_by(|one, other| one.0 == other.0) {
            let number = of_leaf[0].0;
            let Some(leaf) = self.shelf.get(number as usize) else { continue };
            let first = leaf.iter().next();
            if first.is_some_and(|entry| !self.is_live(number, entry.score, entry.member)) {
                continue;
            }
            for entry in leaf.iter() {
                let hash = hash(self.seed, entry.member);
                if of_leaf.iter().any(|(_, wanted)| *wanted == hash) {
                    visit(entry.member, entry.score);
                }
            }
        }
        next
    }
}

impl FreeNumbers {
    fn pop(&mut self) -> Option<u32> {
        if self.0.is_empty() { None } else { Arc::make_mut(&mut self.0).pop() }
    }

    fn push(&mut self, number: u32) {
        Arc::make_mut(&mut self.0).push(number);
    }

    fn heap_bytes(&self) -> usize {
        heap::block(8 + size_of::<Vec<u32>>()) + heap::vec(&self.0)
    }
}

/// The child in which an edge lies: the last whose first element is before the edge, or the first child.
#[inline]
fn child_before(children: &[Branch], edge: Edge<'_>, shelf: &Shelf<RowLeaf>) -> usize {
    let is_before = |child: &Branch| edge.is_behind(child.first, || first_member(&child.link, shelf));
    let (Edge::Element(score, _) | Edge::BehindElement(score, _)) = edge else {
        return children.partition_point(is_before).saturating_sub(1);
    };
    // Few children have the very score: their members are looked at last.
    let lower = children.partition_point(|child| child.first < score);
    let rest = children.get(lower..).unwrap_or_default();
    let same = match rest.first() {
        Some(child) if child.first == score => {
            rest.partition_point(|child| child.first == score && is_before(child))
        }
        _ => 0,
    };
    (lower + same).saturating_sub(1)
}

/// The first member under a node.
fn first_member<'s>(link: &Link, shelf: &'s Shelf<RowLeaf>) -> &'s [u8] {
    let mut link = link;
    loop {
        match link {
            Link::Inner(inner) => match inner.children.first() {
                Some(child) => link = &child.link,
                None => return &[],
            },
            Link::Leaf(number) => {
                let first = shelf.get(*number as usize).and_then(|leaf| row::read(leaf.row()));
                return first.map_or(&[], |entry| entry.member);
            }
        }
    }
}

/// The child that holds the element of a rank, and how many elements are in front of the child.
fn child_of_rank(children: &[Branch], rank: usize) -> Option<(usize, usize)> {
    let mut before = 0;
    for (at, child) in children.iter().enumerate() {
        if rank < before + child.count {
            return Some((at, before));
        }
        before += child.count;
    }
    None
}

fn own_bytes(inner: &Arc<BranchNode>) -> usize {
    if !inner.is_unique() {
        return 0;
    }
    let below = inner.children.iter().map(|child| match &child.link {
        Link::Inner(inner) => own_bytes(inner),
        Link::Leaf(_) => 0,
    });
    INNER_BYTES + below.sum::<usize>()
}

impl Branch {
    fn of(inner: BranchNode) -> Branch {
        Branch::of_arc(Arc::new(inner))
    }

    fn of_arc(inner: Arc<BranchNode>) -> Branch {
        let count = inner.children.iter().map(|child| child.count).sum();
        let first = inner.children.first().map_or(0.0, |child| child.first);
        Branch { link: Link::Inner(inner), count, first }
    }

    /// Brings the score up to date.
    fn refresh_first(&mut self, shelf: &Shelf<RowLeaf>) {
        self.first = match &self.link {
            Link::Inner(inner) => inner.children.first().map_or(0.0, |child| child.first),
            Link::Leaf(number) => {
                let first = shelf.get(*number as usize).and_then(|leaf| row::read(leaf.row()));
                first.map_or(0.0, |entry| entry.score)
            }
        };
    }

    /// Brings count and score up to date.
    fn refresh(&mut self, shelf: &Shelf<RowLeaf>) {
        self.count = match &self.link {
            Link::Inner(inner) => inner.children.iter().map(|child| child.count).sum(),
            Link::Leaf(number) => shelf.get(*number as usize).map_or(0, RowLeaf::count),
        };
        self.refresh_first(shelf);
    }
}

impl LargeParts<'_, '_> {
    /// The children to write to: the node has no second owner afterwards.
    fn children<'i>(&mut self, inner: &'i mut Arc<BranchNode>) -> Option<&'i mut Vec<Branch>> {
        if !inner.is_unique() {
            let copy = Arc::new(BranchNode::clone(inner));
            self.work.garbage.push(ZsetPart::Inner(replace(inner, copy)));
        }
        Arc::get_mut(inner).map(|inner| &mut inner.children)
    }

    /// Puts a leaf on the shelf; its number.
    fn shelve(&mut self, leaf: RowLeaf) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            *self.numbers += 1;
            *self.numbers - 1
        });
        self.work.heap += leaf.heap_bytes();
        if let Some(place) = self.shelf.place(number as usize, &mut self.work) {
            *place = Some(leaf);
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
        child.refresh(self.shelf);
        child
    }

    /// Changes a leaf, and keeps account of its bytes.
    fn change_leaf(&mut self, number: u32, change: impl FnOnce(&mut RowLeaf, &mut Vec<ZsetPart>)) {
        let Some(Some(leaf)) = self.shelf.place(number as usize, &mut self.work) else { return };
        let before = leaf.heap_bytes();
        change(leaf, self.work.garbage);
        self.work.heap = self.work.heap + leaf.heap_bytes() - before;
    }

    /// Takes a leaf from the shelf.
    fn drop_leaf(&mut self, number: u32) {
        let Some(place) = self.shelf.place(number as usize, &mut self.work) else { return };
        if let Some(leaf) = place.take() {
            self.work.heap -= leaf.heap_bytes();
            leaf.discard(self.work.garbage);
        }
        self.free.push(number);
    }

    /// Adds an element under a node; the nodes that follow this one now.
    fn insert(&mut self, inner: &mut Arc<BranchNode>, edge: Edge<'_>, entering: Entering<'_>) -> Vec<Branch> {
        let at = child_before(&inner.children, edge, self.shelf);
        let Some(children) = self.children(inner) else { return Vec::new() };
        let is_last = at + 1 == children.len();
        let after = match children.get_mut(at) {
            None => {
                let number = self.shelve(RowLeaf::of_row(&[], 0, 0));
                let after = self.insert_in_leaf(number, edge, entering, true);
                children.push(self.child_of(number));
                after
            }
            Some(child) => {
                let after = match &mut child.link {
                    Link::Inner(next) => self.insert(next, edge, entering),
                    Link::Leaf(number) => self.insert_in_leaf(*number, edge, entering, is_last),
                };
                if after.is_empty() {
                    child.count += 1;
                    child.refresh_first(self.shelf);
                } else {
                    child.refresh(self.shelf);
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

    /// Leaves a node as many children as it may have; nodes with the others.
    fn split(&mut self, children: &mut Vec<Branch>) -> Vec<Branch> {
        if children.len() <= FANOUT {
            return Vec::new();
        }
        let parts = children.len().div_ceil(FANOUT);
        let each = children.len().div_ceil(parts);
        let mut right = Vec::new();
        while children.len() > each {
            let last = (children.len() - 1) / each * each;
            right.push(Branch::of(BranchNode::of(children.drain(last..))));
            self.work.heap += INNER_BYTES;
        }
        right.reverse();
        // The bytes of a node are reckoned with this capacity.
        children.shrink_to(CAPACITY);
        right
    }

    /// Adds an element to a leaf; the leaves that follow it now.
    fn insert_in_leaf(
        &mut self,
        number: u32,
        edge: Edge<'_>,
        entering: Entering<'_>,
        is_last: bool,
    ) -> Vec<Branch> {
        let Entering { member, score, .. } = entering;
        let leaf = self.shelf.get(number as usize);
        let row = leaf.map(RowLeaf::row).unwrap_or_default();
        let at = leaf.map_or(0, |leaf| leaf.gap_of(edge).at);
        if row.is_empty() || row.len() + row::entry_len(member, score) <= ROW_BYTES_MAX {
            self.change_leaf(number, |leaf, garbage| leaf.insert(at, member, score, garbage));
            self.enter_index(entering, number);
            return Vec::new();
        }
        if is_last && at == row.len() {
            // Elements that arrive in order fill leaves: the full one stays as it is.
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

    /// Has the index name the leaf of an element.
    fn enter_index(&mut self, entering: Entering<'_>, number: u32) {
        match entering.from {
            None => self.index.insert(entering.hash, number, &mut self.work),
            Some((from, _)) if from == number => {}
            Some(from) => self.index.moved(entering.hash, from, number, &mut self.work),
        }
    }

    /// Gives a leaf the first piece of a row, and others the rest: their children. The index says so far that all of the row is
    /// in this leaf.
    fn set_rows(&mut self, number: u32, row: &[u8]) -> Vec<Branch> {
        let mut pieces = row::cut(row, ROW_BYTES_MAX).into_iter();
        if let Some((first, count)) = pieces.next() {
            self.change_leaf(number, |leaf, garbage| leaf.replace(RowLeaf::of_row(first, count, 0), garbage));
        }
        let mut after = Vec::new();
        for (piece, count) in pieces {
            let next = self.shelve(RowLeaf::of_row(piece, count, 0));
            for entry in RowIter::new(piece) {
                self.index.moved(hash(self.seed, entry.member), (number, 0), next, &mut self.work);
            }
            after.push(self.child_of(next));
        }
        after
    }

    /// Removes up to `max` elements from the one of a rank on, all from one leaf; how many. A node of which nothing is left has
    /// no children afterwards.
    fn remove_run(&mut self, inner: &mut Arc<BranchNode>, rank: usize, max: usize) -> usize {
        let Some((at, before)) = child_of_rank(&inner.children, rank) else { return 0 };
        let Some(children) = self.children(inner) else { return 0 };
        let removed = match &mut children[at].link {
            Link::Inner(next) => self.remove_run(next, rank - before, max),
            Link::Leaf(number) => self.remove_in_leaf(*number, rank - before, max),
        };
        self.after_removal(children, at, removed);
        removed
    }

    /// Brings a node up to date of which a child has lost so many elements.
    fn after_removal(&mut self, children: &mut Vec<Branch>, at: usize, removed: usize) {
        let child = &mut children[at];
        child.count -= removed;
        child.refresh_first(self.shelf);
        if child.count == 0 {
            match children.remove(at).link {
                Link::Leaf(number) => self.drop_leaf(number),
                Link::Inner(_) => self.work.heap -= INNER_BYTES,
            }
        } else if self.is_sparse(&child.link) {
            // Pops empty the leaf at an end: joining that moves members that are about to go.
            let is_end = at == 0 || at + 1 == children.len();
            if !is_end || matches!(children[at].link, Link::Inner(_)) {
                self.join(children, at);
            }
        }
    }

    /// Whether so little is below a link that it may be joined with a neighbour.
    fn is_sparse(&self, link: &Link) -> bool {
        match link {
            Link::Inner(inner) => inner.children.len() < SPARSE,
            Link::Leaf(number) => {
                self.shelf.get(*number as usize).is_none_or(|leaf| leaf.row().len() <= ROW_BYTES_SPARSE)
            }
        }
    }

    /// Takes the element at a range of a leaf's row out. `edge` is behind the element; whether it lies in that leaf.
    fn take(
        &mut self,
        inner: &mut Arc<BranchNode>,
        edge: Edge<'_>,
        number: u32,
        range: Range<usize>,
    ) -> bool {
        let at = child_before(&inner.children, edge, self.shelf);
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

    /// Takes inner nodes with a single inner node below them from the top.
    fn lower(&mut self, top: &mut Arc<BranchNode>) {
        while let [Branch { link: Link::Inner(_), .. }] = top.children[..] {
            let Some(children) = self.children(top) else { break };
            let Some(Branch { link: Link::Inner(next), .. }) = children.pop() else { break };
            *top = next;
            self.work.heap -= INNER_BYTES;
        }
    }

    fn remove_in_leaf(&mut self, number: u32, index: usize, max: usize) -> usize {
        let Some(leaf) = self.shelf.get(number as usize) else { return 0 };
        let row = leaf.row();
        let start = leaf.offset_of(index);
        let (mut end, mut removed) = (start, 0);
        for entry in RowIter::new(&row[start..]).take(max) {
            self.index.remove(hash(self.seed, entry.member), (number, 0), &mut self.work);
            end += entry.len;
            removed += 1;
        }
        self.change_leaf(number, |leaf, garbage| leaf.remove(start..end, removed, garbage));
        removed
    }

    /// Joins the child at a place with a neighbour where one of them is sparse.
    fn join(&mut self, children: &mut Vec<Branch>, at: usize) {
        for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if left + 1 < children.len() && self.join_two(children, left) {
                children.remove(left + 1);
                children[left].refresh(self.shelf);
                return;
            }
        }
    }

    /// Moves what the child behind `left` has to the one at `left`, where one of them is sparse; whether it did.
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
        let (Some(left), Some(right)) = (self.shelf.get(one as usize), self.shelf.get(other as usize)) else {
            return false;
        };
        let (left_len, right_len) = (left.row().len(), right.row().len());
        if left_len.min(right_len) > ROW_BYTES_SPARSE || left_len + right_len > ROW_BYTES_MAX / 4 * 3 {
            return false;
        }
        let row = [left.row(), right.row()].concat();
        let count = left.count() + right.count();
        for entry in RowIter::new(&row[left_len..]) {
            self.index.moved(hash(self.seed, entry.member), (other, 0), one, &mut self.work);
        }
        self.change_leaf(one, |leaf, garbage| leaf.replace(RowLeaf::of_row(&row, count, 0), garbage));
        self.drop_leaf(other);
        true
    }
}

/// Fewer elements are removed one leaf after the other, however few are left.
const REBUILT_FROM: usize = 256;
/// A set with more elements left is not built anew.
const REBUILT_MAX: usize = 2048;
/// Fewer elements are removed at once: that takes less than half a millisecond.
const CUT_FROM: usize = 2048;
