//! The entries of a stream: macro nodes in an ordered tree, and the last node beside the tree.

mod trim;

use super::macro_node::{EntryPairs, EntryPosition, EntryPositions, MacroNode};
use super::tree::{SharedTree, TreeItem, TreeIter, Weight};
use super::{StreamId, StreamLimits};
use sluice_base::heap;
use sluice_base::num::digits_i64;
use sluice_collections::listpack::Element;
use std::cmp::Ordering;
use triomphe::Arc;

/// The entries, and counters that outlive deleted entries.
#[derive(Debug, Default)]
pub struct EntryLog {
    nodes: SharedTree<NodeItem>,
    /// The node of the last entries, whose ids are all greater than those in the tree.
    tail: Option<Arc<MacroNode>>,
    len: u64,
    pub(super) last_id: StreamId,
    first_id: StreamId,
    pub(super) max_deleted_id: StreamId,
    pub(super) entries_added: u64,
}

/// A macro node in the tree.
#[derive(Clone, Debug)]
pub(super) struct NodeItem(Arc<MacroNode>);

/// Bytes of a macro node without its row.
const NODE_BYTES: usize = heap::block(size_of::<usize>() + size_of::<MacroNode>());

impl TreeItem for NodeItem {
    type Key = StreamId;
    type Probe = StreamId;
    fn key(&self) -> StreamId {
        self.0.master
    }
    fn compare(key: &StreamId, probe: &StreamId) -> Ordering {
        key.cmp(probe)
    }
    fn is_beside(&self, probe: &StreamId) -> Ordering {
        self.0.master.cmp(probe)
    }
    fn weight(&self) -> Weight {
        Weight { items: 1, entries: u64::from(self.0.live), heap: NODE_BYTES + self.0.heap_bytes() }
    }
    fn own_bytes(&self) -> usize {
        if self.0.is_unique() { NODE_BYTES + self.0.heap_bytes() } else { 0 }
    }
}

/// The entries that trimming keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// The last entries, this many of them; more entries stay if only whole nodes are removed.
    Len(u64),
    /// The entries from this id on.
    MinId(StreamId),
}

/// The precision of trimming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimExtent {
    /// Trimming is exact to the entry, also within a node.
    Exact,
    /// Only whole nodes are removed, and at most this many entries; 0 stands for no limit.
    Nodes(u64),
}

/// An entry for reading.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    node: &'a MacroNode,
    position: EntryPosition,
}

impl<'a> EntryRef<'a> {
    /// Id of the entry.
    pub fn id(self) -> StreamId {
        self.position.id
    }

    /// Number of the entry's fields.
    #[allow(clippy::len_without_is_empty, reason = "an entry has a field at least")]
    pub fn len(self) -> usize {
        self.position.pairs
    }

    /// Bytes of the entry's fields and values.
    pub fn bytes(self) -> u64 {
        let len = |element| match element {
            Element::Int(number) => digits_i64(number) as u64,
            Element::Bytes(bytes) => bytes.len() as u64,
        };
        self.pairs().map(|(field, value)| len(field) + len(value)).sum()
    }

    /// The entry's fields with their values.
    pub fn pairs(self) -> EntryPairs<'a> {
        self.node.pairs(self.position)
    }
}

fn writable<'a>(node: &'a mut Arc<MacroNode>, copied: &mut u64) -> &'a mut MacroNode {
    if !node.is_unique() {
        *copied += (NODE_BYTES + node.heap_bytes()) as u64;
    }
    Arc::make_mut(node)
}

impl EntryLog {
    /// Number of entries. O(1).
    #[allow(clippy::len_without_is_empty, reason = "a stream may be empty, and nobody asks for that alone")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The id that new entries must exceed. It is the id of the last entry added, unless `set_ids` has
    /// changed it.
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// The id of the first entry; [`StreamId::MIN`] if there is none.
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The greatest id of an entry that was deleted by its id, not by trimming, unless `set_ids` has changed
    /// it.
    pub fn max_deleted_id(&self) -> StreamId {
        self.max_deleted_id
    }

    /// Number of entries that were ever added, unless `set_ids` has changed it.
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// Number of macro nodes. O(1).
    pub fn node_count(&self) -> usize {
        self.nodes.weight().items + usize::from(self.tail.is_some())
    }

    /// A log of these nodes, to be dropped.
    pub(super) fn of(nodes: SharedTree<NodeItem>) -> EntryLog {
        EntryLog { nodes, ..EntryLog::default() }
    }

    pub(super) fn share(&self) -> EntryLog {
        EntryLog { nodes: self.nodes.share(), tail: self.tail.clone(), ..*self }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let tail = self.tail.as_ref().map_or(0, |tail| NODE_BYTES + tail.heap_bytes());
        self.nodes.weight().heap + tail
    }

    pub(super) fn is_shared(&self) -> bool {
        self.nodes.is_shared() || self.tail.as_ref().is_some_and(|tail| !tail.is_unique())
    }

    pub(super) fn own_bytes(&self) -> usize {
        let tail = self.tail.as_ref().filter(|tail| tail.is_unique());
        self.nodes.own_bytes() + tail.map_or(0, |tail| NODE_BYTES + tail.heap_bytes())
    }

    /// Adds an entry, whose id must be greater than the last id. `pairs` has fields and values by turns, at
    /// least one pair.
    pub(super) fn append<'v>(
        &mut self,
        id: StreamId,
        pairs: impl Iterator<Item = &'v [u8]> + Clone,
        limits: StreamLimits,
        copied: &mut u64,
    ) {
        debug_assert!(id > self.last_id);
        let bytes: usize = pairs.clone().map(<[u8]>::len).sum();
        match &mut self.tail {
            Some(tail) if !limits.is_full(tail, bytes) => writable(tail, copied).append(id, pairs),
            _ => {
                let mut node = MacroNode::new(id, pairs.clone());
                node.append(id, pairs);
                self.push_node(node, copied);
            }
        }
        if self.len == 0 {
            self.first_id = id;
        }
        self.len += 1;
        self.entries_added = self.entries_added.wrapping_add(1);
        self.last_id = id;
    }

    /// Adds a node with entries after all others.
    pub(super) fn push_node(&mut self, node: MacroNode, copied: &mut u64) {
        let Some(mut full) = self.tail.replace(Arc::new(node)) else { return };
        // The node will not grow any more, so its spare room is freed, unless the node is shared.
        if let Some(node) = Arc::get_mut(&mut full) {
            node.fit();
        }
        let master = full.master;
        self.nodes.insert(&master, NodeItem(full), copied);
    }

    /// Appends a node that was read from a file.
    pub(super) fn load_node(&mut self, node: MacroNode) {
        if self.len == 0 {
            self.first_id = node.first;
        }
        self.len += u64::from(node.live);
        self.last_id = self.last_id.max(node.last);
        self.push_node(node, &mut 0);
    }

    /// Deletes an entry; returns whether it existed.
    pub(super) fn delete(&mut self, id: StreamId, copied: &mut u64) -> bool {
        let is_in_tail = self.tail.as_ref().is_some_and(|tail| id >= tail.master);
        let master = if is_in_tail {
            None
        } else {
            match self.nodes.iter_back(Some(&id)).next() {
                Some(item) => Some(item.0.master),
                None => return false,
            }
        };
        let Some(node) = (match &master {
            None => self.tail.as_ref(),
            Some(master) => self.nodes.get(master).map(|item| &item.0),
        }) else {
            return false;
        };
        let Some(position) = node.find(id) else { return false };
        match (node.live, master) {
            (1, None) => self.drop_tail(copied),
            (1, Some(master)) => drop(self.nodes.remove(&master, copied)),
            (_, None) => self.tail.iter_mut().for_each(|tail| writable(tail, copied).delete(position)),
            (_, Some(master)) => {
                self.nodes
                    .update(&master, copied, |item, copied| writable(&mut item.0, copied).delete(position));
            }
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        self.find_first();
        true
    }

    /// Drops the last node, whose only live entry is being deleted. The node before it is taken out of the
    /// tree and becomes the last one, because it may have room for more entries.
    fn drop_tail(&mut self, copied: &mut u64) {
        self.tail = self.nodes.pop_back(copied).map(|item| item.0);
    }

    fn find_first(&mut self) {
        let first = self.nodes.first().map(|item| &item.0).or(self.tail.as_ref());
        self.first_id = first.map_or(StreamId::MIN, |node| node.first);
    }

    /// The entry of this id.
    pub fn get(&self, id: StreamId) -> Option<EntryRef<'_>> {
        let node = match &self.tail {
            Some(tail) if id >= tail.master => tail,
            Some(_) | None => &self.nodes.iter_back(Some(&id)).next()?.0,
        };
        node.find(id).map(|position| EntryRef { node, position })
    }

    /// All entries in order.
    pub fn entries(&self) -> Entries<'_> {
        self.iter(StreamId::MIN, StreamId::MAX)
    }

    /// The entries from `start` to `end`, both included, in order. Cost to begin: O(log n) and one node.
    pub fn iter(&self, start: StreamId, end: StreamId) -> Entries<'_> {
        let from = self.nodes.iter_back(Some(&start)).next().map(|item| item.0.master);
        Entries {
            nodes: self.nodes.iter(from.as_ref()),
            tail: self.tail.as_deref(),
            current: None,
            start,
            end,
        }
    }

    /// The entries between two ids, both included, in reverse order.
    pub fn iter_rev(&self, start: StreamId, end: StreamId) -> EntriesBack<'_> {
        EntriesBack {
            tail: self.tail.as_deref().filter(|tail| tail.master <= end),
            nodes: self.nodes.iter_back(Some(&end)),
            current: None,
            positions: Vec::new(),
            start,
            end,
        }
    }

    /// Number of nodes in the radix tree that the reference would have over the macro nodes' keys. Exact
    /// for up to `RADIX_KEYS_MAX` keys; above that, one for each key and one for the root.
    pub fn radix_nodes(&self) -> usize {
        let count = self.node_count();
        if count == 0 || count > RADIX_KEYS_MAX {
            return count + 1;
        }
        let mut keys: Vec<[u8; 16]> = Vec::with_capacity(count);
        self.each_node(&mut |node| keys.push(node.master.to_bytes()));
        radix_nodes(&keys, 0)
    }

    pub(super) fn each_node(&self, visit: &mut dyn FnMut(&MacroNode)) {
        self.nodes.iter(None).for_each(|item| visit(&item.0));
        self.tail.iter().for_each(|node| visit(node));
    }

    /// Number of entries ever added up to the one with this id; `None` if that cannot be known without
    /// counting, as for an id between the first and the last entry, or after deletions.
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        match id.cmp(&self.last_id) {
            Ordering::Equal => return Some(self.entries_added),
            Ordering::Less if self.len == 0 => return Some(self.entries_added),
            Ordering::Less => {}
            Ordering::Greater => return None,
        }
        if id != StreamId::MIN && id < self.max_deleted_id {
            return None;
        }
        let no_gap = self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first_id;
        match id.cmp(&self.first_id) {
            Ordering::Less if no_gap => Some(self.entries_added.wrapping_sub(self.len)),
            Ordering::Equal if no_gap => Some(self.entries_added.wrapping_sub(self.len).wrapping_add(1)),
            Ordering::Less | Ordering::Equal | Ordering::Greater => None,
        }
    }

    /// Whether an entry with the id `from` or a greater one was deleted by its id. `false` for a stream
    /// without entries.
    pub fn has_gap_from(&self, from: StreamId) -> bool {
        self.len > 0 && self.max_deleted_id != StreamId::MIN && from <= self.max_deleted_id
    }
}

/// Number of keys up to which the radix tree's nodes are counted exactly.
const RADIX_KEYS_MAX: usize = 4096;

/// Number of nodes of a radix tree over `keys`, which ascend and are equal in the bytes before `depth`. A run
/// of bytes without a branch is one node.
fn radix_nodes(keys: &[[u8; 16]], depth: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    if depth == first.len() {
        return 1;
    }
    let same = first[depth..].iter().zip(&last[depth..]).take_while(|(a, b)| a == b).count();
    if same > 0 {
        return 1 + radix_nodes(keys, depth + same);
    }
    let below = keys.chunk_by(|a, b| a[depth] == b[depth]);
    1 + below.map(|keys| radix_nodes(keys, depth + 1)).sum::<usize>()
}

/// Iterator over the entries of a range, in order of their ids.
pub struct Entries<'a> {
    nodes: TreeIter<'a, NodeItem>,
    tail: Option<&'a MacroNode>,
    current: Option<(&'a MacroNode, EntryPositions<'a>)>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for Entries<'a> {
    type Item = EntryRef<'a>;

    fn next(&mut self) -> Option<EntryRef<'a>> {
        loop {
            if let Some((node, positions)) = &mut self.current {
                let node = *node;
                match positions.find(|position| position.id >= self.start && !position.is_deleted()) {
                    Some(position) if position.id <= self.end => return Some(EntryRef { node, position }),
                    Some(_) => return None,
                    None => {}
                }
            }
            let node = self.nodes.next().map(|item| &*item.0).or_else(|| self.tail.take())?;
            if node.first > self.end {
                (self.current, self.tail) = (None, None);
                return None;
            }
            self.current = Some((node, node.positions()));
        }
    }
}

/// Iterator over entries in reverse order. Allocates the positions of one node.
pub struct EntriesBack<'a> {
    tail: Option<&'a MacroNode>,
    nodes: TreeIter<'a, NodeItem>,
    current: Option<&'a MacroNode>,
    /// Positions of the present node's unread entries.
    positions: Vec<EntryPosition>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for EntriesBack<'a> {
    type Item = EntryRef<'a>;

    fn next(&mut self) -> Option<EntryRef<'a>> {
        loop {
            if let Some(node) = self.current
                && let Some(position) = self.positions.pop()
            {
                return Some(EntryRef { node, position });
            }
            let node = self.tail.take().or_else(|| self.nodes.next().map(|item| &*item.0))?;
            if node.last < self.start {
                return None;
            }
            let (start, end) = (self.start, self.end);
            let wanted = node.positions().take_while(|position| position.id <= end);
            self.positions.extend(wanted.filter(|position| position.id >= start && !position.is_deleted()));
            self.current = Some(node);
        }
    }
}
