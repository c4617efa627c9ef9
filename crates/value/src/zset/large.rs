//! The large form: a counted B+ tree over leaves in order of score and member, and an index from
//! members to leaves.
//!
//! ```text
//!  top ──► inner nodes: for each child its count, its first score ──► numbers of leaves
//!  index: hash of a member ──► number of a leaf          paged array: number ──► leaf
//! ```
//!
//! Inner nodes name leaves by number, and the paged array owns the leaves, so that the index can name
//! them, too. Inner nodes hold only scores. Where scores are equal, the first member of a child is read
//! from its first leaf.
//!
//! This file has the parts and the look-ups; `large/edit.rs` has the changes. A long range is cut off in
//! O(log n), and its leaves are cleared later: see `large/cut.rs`.
//!
//! Invariants: (1) all leaves are at the same depth; (2) no leaf and no inner node is empty, except the top
//! of an empty set; (3) each member, even one that was cut off, has one entry in the index, which names the
//! member's leaf; (4) parts with a second owner are not dropped here, but go to the garbage; (5) `heap` is
//! the number of bytes allocated for inner nodes, leaves, the paged array and the index.

#[cfg(test)]
mod check;
mod cut;
mod edit;
mod in_form;

use sluice_base::{HashSeed, heap, siphash13};
use triomphe::Arc;

use super::edge::Edge;
use super::index::MemberIndex;
use super::leaf::{ROW_BYTES_MAX, RowLeaf};
use super::paged::{PagedArray, Shelved};
use super::row::{self, RowIter, RowPosition};

/// The most children of an inner node.
const FANOUT: usize = 32;
/// Capacity for the children that an insertion adds before the node is split.
const CAPACITY: usize = FANOUT + 4;
/// An inner node with fewer children is joined with a neighbour if both fit into one node.
const SPARSE: usize = FANOUT / 4;
/// A leaf whose row has at most this many bytes may be joined with a neighbour.
const ROW_BYTES_SPARSE: usize = ROW_BYTES_MAX / 4;

/// Number of members that are looked up together; a processor handles about as many cache misses at once.
const MEMBERS_AHEAD: usize = 16;

/// Number of pops between the prefetch of an index page's slot and the prefetch of the page's entries.
const SLOTS_AHEAD: usize = 3;

/// A sorted set with an index.
#[derive(Clone, Debug)]
pub(super) struct Large {
    top: Arc<InnerNode>,
    count: usize,
    paged: PagedArray<RowLeaf>,
    index: MemberIndex,
    /// Number of leaf numbers that were ever used; each number below this one is in use or free.
    numbers: u32,
    free: FreeNumbers,
    seed: HashSeed,
    heap: usize,
    /// Subtrees that were cut off. Their leaves are still in the paged array and in the index, and are
    /// cleared a few at a time.
    remains: Vec<Link>,
    /// Hashes of members that are probably popped soon. A hint, used only for prefetching.
    pops_next: [u32; SLOTS_AHEAD],
}

/// Free numbers of leaves. The first change after a share copies the list, which is short because a set that
/// shrinks much is rebuilt.
#[derive(Clone, Debug, Default)]
struct FreeNumbers(Arc<Vec<u32>>);

/// A node of the tree above the leaves.
#[derive(Debug)]
pub(super) struct InnerNode {
    children: Vec<Branch>,
}

impl Clone for InnerNode {
    fn clone(&self) -> InnerNode {
        InnerNode::of(self.children.iter().cloned())
    }
}

impl InnerNode {
    fn of(from: impl IntoIterator<Item = Branch>) -> InnerNode {
        let mut children = Vec::with_capacity(CAPACITY);
        children.extend(from);
        InnerNode { children }
    }
}

/// Bytes of an inner node.
pub(super) const INNER_BYTES: usize =
    heap::block(8 + size_of::<InnerNode>()) + heap::block(CAPACITY * size_of::<Branch>());

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
    Inner(Arc<InnerNode>),
}

impl Shelved for RowLeaf {
    fn own_bytes(&self) -> usize {
        if self.is_shared() { 0 } else { self.heap_bytes() }
    }
}

/// The result of looking up a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundMember {
    hash: u32,
    /// Index of the entry in its index page. This is only a hint.
    slot: usize,
    /// The leaf's number, and the member's position in its row; `None` for an absent member.
    position: Option<(u32, RowPosition)>,
}

impl FoundMember {
    pub(super) fn score(self) -> Option<f64> {
        self.position.map(|(_, position)| position.score)
    }

    pub(super) fn hash(self) -> u32 {
        self.hash
    }
}

fn hash(seed: HashSeed, member: &[u8]) -> u32 {
    siphash13(seed, member) as u32
}

impl Large {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.heap + self.free.heap_bytes() + heap::vec(&self.remains)
    }

    pub(super) fn is_shared(&self) -> bool {
        !self.top.is_unique() || self.paged.is_shared() || self.index.is_shared()
    }

    /// Bytes that have no other owner.
    pub(super) fn own_bytes(&self) -> usize {
        own_bytes(&self.top) + self.remains_own_bytes() + self.paged.own_bytes() + self.index.own_bytes()
    }

    /// Looks up a member.
    #[inline]
    pub(super) fn find(&self, member: &[u8]) -> FoundMember {
        self.find_hashed(hash(self.seed, member), member)
    }

    #[inline]
    fn find_hashed(&self, hash: u32, member: &[u8]) -> FoundMember {
        let found = self.index.candidates(hash).find_map(|(slot, number)| {
            let position = row::find(self.paged.get(number as usize)?.row(), member)?;
            self.is_live(number, position.score, member).then_some((slot, (number, position)))
        });
        match found {
            Some((slot, position)) => FoundMember { hash, slot, position: Some(position) },
            None => FoundMember { hash, slot: 0, position: None },
        }
    }

    /// The score of a member.
    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.find(member).score()
    }

    /// Calls `visit` with the score of each of these members, in order. Cost for each member: the same as for
    /// [`Large::score`], but the cache misses of several look-ups overlap.
    pub(super) fn score_each<'n>(
        &self,
        mut members: impl Iterator<Item = &'n [u8]>,
        mut visit: impl FnMut(Option<f64>),
    ) {
        while let Some((group, len)) = self.prefetch_some(&mut members) {
            group[..len].iter().for_each(|(hash, member)| visit(self.find_hashed(*hash, member).score()));
        }
    }

    /// Prefetches the parts that looking up these members will read.
    pub(super) fn prefetch<'n>(&self, mut members: impl Iterator<Item = &'n [u8]>) {
        while self.prefetch_some(&mut members).is_some() {}
    }

    /// Prefetches the next few members, and returns them with their hashes; `None` after the last. A
    /// look-up reads four things, each of which names the next: the slot of a page of the index, the page,
    /// the slot of a leaf, the leaf.
    fn prefetch_some<'n>(
        &self,
        members: &mut impl Iterator<Item = &'n [u8]>,
    ) -> Option<([(u32, &'n [u8]); MEMBERS_AHEAD], usize)> {
        let mut group = [(0, &b""[..]); MEMBERS_AHEAD];
        let mut len = 0;
        for (pair, member) in group.iter_mut().zip(members) {
            *pair = (hash(self.seed, member), member);
            self.index.prefetch_slot(pair.0);
            len += 1;
        }
        if len == 0 {
            return None;
        }
        let hashes = || group[..len].iter().map(|(hash, _)| *hash);
        hashes().for_each(|hash| self.index.prefetch(hash));
        let mut leaves = [None; MEMBERS_AHEAD];
        for (leaf, hash) in leaves.iter_mut().zip(hashes()) {
            *leaf = self.index.candidates(hash).next().map(|(_, number)| number as usize);
            if let Some(number) = leaf {
                self.paged.prefetch(*number);
            }
        }
        let leaves = leaves.into_iter().flatten().filter_map(|number| self.paged.get(number));
        leaves.for_each(RowLeaf::prefetch);
        Some((group, len))
    }

    /// Rank and score of a member. Cost: O(log n).
    pub(super) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let (number, position) = self.find(member).position?;
        let edge = Edge::AfterElement(position.score, member);
        let (before, leaf) = self.leaf_before(edge);
        if leaf == Some(number) {
            return Some((before + position.index, position.score));
        }
        Some((self.count_before(Edge::Element(position.score, member)), position.score))
    }

    /// The leaf in which an edge lies, and the number of elements in front of that leaf.
    fn leaf_before(&self, edge: Edge<'_>) -> (usize, Option<u32>) {
        let (mut inner, mut before) = (&*self.top, 0);
        loop {
            let at = child_before(&inner.children, edge, &self.paged);
            before += inner.children[..at].iter().map(|child| child.count).sum::<usize>();
            match inner.children.get(at).map(|child| &child.link) {
                None => return (before, None),
                Some(Link::Inner(next)) => inner = next,
                Some(Link::Leaf(number)) => return (before, Some(*number)),
            }
        }
    }

    /// Number of elements before an edge. Cost: O(log n).
    pub(super) fn count_before(&self, edge: Edge<'_>) -> usize {
        let (before, number) = self.leaf_before(edge);
        let leaf = number.and_then(|number| self.paged.get(number as usize));
        before + leaf.map_or(0, |leaf| leaf.gap_of(edge).index)
    }

    /// The leaf with the element of a rank, and the element's index in that leaf.
    pub(super) fn leaf_at(&self, mut rank: usize) -> Option<(&RowLeaf, usize)> {
        let mut inner = &*self.top;
        loop {
            let (at, before) = child_of_rank(&inner.children, rank)?;
            rank -= before;
            match &inner.children[at].link {
                Link::Inner(next) => inner = next,
                Link::Leaf(number) => return Some((self.paged.get(*number as usize)?, rank)),
            }
        }
    }

    /// The hash of a member.
    pub(super) fn hash_of(&self, member: &[u8]) -> u32 {
        hash(self.seed, member)
    }

    /// The elements from a rank on, in order.
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

    /// Whether a member occurs twice. Cost: O(n).
    pub(super) fn has_duplicates(&self) -> bool {
        let mut cursor = 0;
        loop {
            let mut found = Vec::new();
            cursor = self.index.scan(cursor, &mut |hash, leaf| found.push((hash, leaf)));
            found.sort_unstable();
            for same in found.chunk_by(|one, other| one.0 == other.0).filter(|same| same.len() > 1) {
                let leaves: std::collections::BTreeSet<u32> = same.iter().map(|(_, leaf)| *leaf).collect();
                let leaves = leaves.into_iter().filter_map(|leaf| self.paged.get(leaf as usize));
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

    /// Visits some elements with their scores from a cursor on and returns the next cursor. The cursor 0
    /// begins a scan, and is returned at its end.
    pub(super) fn scan(&self, cursor: u32, visit: &mut dyn FnMut(&[u8], f64)) -> u32 {
        let mut found = Vec::new();
        let next = self.index.scan(cursor, &mut |hash, leaf| found.push((leaf, hash)));
        found.sort_unstable();
        found.dedup();
        for of_leaf in found.chunk_by(|one, other| one.0 == other.0) {
            let number = of_leaf[0].0;
            let Some(leaf) = self.paged.get(number as usize) else { continue };
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
    fn heap_bytes(&self) -> usize {
        heap::block(8 + size_of::<Vec<u32>>()) + heap::vec(&self.0)
    }
}

/// The child in which an edge lies: the last child whose first element is before the edge, or the first one.
#[inline]
fn child_before(children: &[Branch], edge: Edge<'_>, paged: &PagedArray<RowLeaf>) -> usize {
    let is_before = |child: &Branch| edge.is_after(child.first, || first_member(&child.link, paged));
    let (Edge::Element(score, _) | Edge::AfterElement(score, _)) = edge else {
        return children.partition_point(is_before).saturating_sub(1);
    };
    // The scores are compared first; only for the few children that begin with exactly this score, first
    // members are compared as well.
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

/// The first member below a node.
fn first_member<'s>(link: &Link, paged: &'s PagedArray<RowLeaf>) -> &'s [u8] {
    let mut link = link;
    loop {
        match link {
            Link::Inner(inner) => match inner.children.first() {
                Some(child) => link = &child.link,
                None => return &[],
            },
            Link::Leaf(number) => {
                let first = paged.get(*number as usize).and_then(|leaf| row::read(leaf.row()));
                return first.map_or(&[], |entry| entry.member);
            }
        }
    }
}

/// The child that holds the element of a rank, and the number of elements in front of that child.
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

fn own_bytes(inner: &Arc<InnerNode>) -> usize {
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
    fn of(inner: InnerNode) -> Branch {
        Branch::of_arc(Arc::new(inner))
    }

    fn of_arc(inner: Arc<InnerNode>) -> Branch {
        let count = inner.children.iter().map(|child| child.count).sum();
        let first = inner.children.first().map_or(0.0, |child| child.first);
        Branch { link: Link::Inner(inner), count, first }
    }

    /// Updates the first score.
    fn refresh_first(&mut self, paged: &PagedArray<RowLeaf>) {
        self.first = match &self.link {
            Link::Inner(inner) => inner.children.first().map_or(0.0, |child| child.first),
            Link::Leaf(number) => {
                let first = paged.get(*number as usize).and_then(|leaf| row::read(leaf.row()));
                first.map_or(0.0, |entry| entry.score)
            }
        };
    }

    /// Updates the count and the first score.
    fn refresh(&mut self, paged: &PagedArray<RowLeaf>) {
        self.count = match &self.link {
            Link::Inner(inner) => inner.children.iter().map(|child| child.count).sum(),
            Link::Leaf(number) => paged.get(*number as usize).map_or(0, RowLeaf::count),
        };
        self.refresh_first(paged);
    }
}
