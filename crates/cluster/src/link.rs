//! Links of the bus: the node of each connection, and the bytes that wait on it.
//!
//! Invariants: (1) a key is never used twice, so that a late input about a closed link finds no link;
//! (2) an outgoing link has a node for its whole life; (3) links without a node are in a list of their
//! own, so that the cron does not search all links.

use crate::address::{IpText, NodeAddress};
use crate::id::NodeId;
use crate::link_key::LinkKey;
use crate::node::{Ms, NodeIx};
use crate::output::BusLane;
use crate::wire::ReceiveBuffer;
use std::collections::{BTreeSet, VecDeque};

/// The direction of a link, and its node as far as known.
#[derive(Clone, Debug)]
pub(crate) enum LinkKind {
    /// Dialled by this node.
    Out { node: NodeIx, target: DialTarget },
    /// Accepted by this node; a message of a known node binds it (G-5). `greeted_by` is the unknown node
    /// that sent a PING or MEET on it.
    In { node: Option<NodeIx>, greeted_by: Option<NodeId>, peer: IpText, local: IpText },
}

/// Which of a node's addresses was dialled: the announced one, or a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DialTarget {
    AnnouncedLabels,
    /// A possible address of the node (G-23).
    Candidate(NodeAddress),
}

/// A connection of the bus.
#[derive(Debug)]
pub(crate) struct BusLink {
    pub(crate) kind: LinkKind,
    pub(crate) since: Ms,
    /// Wall time of `since`, for CLUSTER LINKS.
    pub(crate) since_wall_ms: i64,
    /// Whether the connection is established.
    pub(crate) is_open: bool,
    /// Whether a message with EXT_DATA arrived on the link (W-9).
    pub(crate) reads_extensions: bool,
    /// Time at which the last PONG arrived on this link.
    pub(crate) pong_at: Option<Ms>,
    /// Whether the other node has bound this link, as far as this node can know. Only then may messages
    /// without a sender be sent on it (P-3).
    pub(crate) is_bound_there: bool,
    pub(crate) queue: SendQueue,
    /// The bytes of an incomplete message. The buffer is taken out while its messages are handled.
    pub(crate) inbox: ReceiveBuffer,
    /// Bytes of `inbox` that count against the limit for all links together.
    pub(crate) kept: usize,
}

/// Messages of a link that were given to the host and are not written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    /// For each message the bytes that are left to write, and its memory; the control lane is first.
    lanes: [VecDeque<(usize, usize)>; 2],
    /// Memory of the messages of each lane.
    memory: [usize; 2],
}

/// Memory of an empty queue, as the reference counts it (G-30).
pub(crate) const QUEUE_BASE_BYTES: usize = 48;
/// Memory that each queued message takes in addition to its bytes: the list's entry and the block's header.
const MESSAGE_OVERHEAD_BYTES: usize = 24 + 16;

impl SendQueue {
    /// Adds a message of `bytes` bytes, whose memory counts as `allocated` bytes.
    pub(crate) fn push(&mut self, bytes: usize, allocated: usize, lane: BusLane) {
        let memory = allocated + MESSAGE_OVERHEAD_BYTES;
        self.lanes[lane as usize].push_back((bytes, memory));
        self.memory[lane as usize] += memory;
    }

    /// Records that the next `bytes` bytes of a lane were written.
    pub(crate) fn written(&mut self, mut bytes: usize, lane: BusLane) {
        let messages = &mut self.lanes[lane as usize];
        while let Some((left, memory)) = messages.front_mut() {
            let part = bytes.min(*left);
            *left -= part;
            bytes -= part;
            if *left > 0 {
                return;
            }
            self.memory[lane as usize] -= *memory;
            messages.pop_front();
        }
    }

    /// Bytes of memory that `send-buffer-allocated` and the limit count (G-30, G-31).
    pub(crate) fn memory(&self) -> usize {
        QUEUE_BASE_BYTES + self.memory[0] + self.memory[1]
    }

    /// Whether a lane whose memory is limited to `limit` has room for a message of `bytes` bytes. An empty
    /// lane has room for any message.
    pub(crate) fn has_room(&self, bytes: usize, lane: BusLane, limit: u64) -> bool {
        let memory = self.memory[lane as usize];
        memory == 0 || (memory + bytes) as u64 <= limit
    }
}

impl BusLink {
    /// The node of the link, if it has one.
    pub(crate) fn node(&self) -> Option<NodeIx> {
        match self.kind {
            LinkKind::Out { node, .. } => Some(node),
            LinkKind::In { node, .. } => node,
        }
    }

    pub(crate) fn is_out(&self) -> bool {
        matches!(self.kind, LinkKind::Out { .. })
    }
}

/// All links of this node, by key.
#[derive(Debug, Default)]
pub(crate) struct Links {
    places: Vec<(u32, Option<Box<BusLink>>)>,
    free: Vec<u32>,
    live: usize,
    /// The sum of `kept` of all links.
    kept: usize,
    /// Positions of links without a node.
    without_node: BTreeSet<u32>,
}

impl Links {
    /// Adds a link and returns its new key.
    pub(crate) fn insert(&mut self, link: BusLink) -> LinkKey {
        self.live += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        if link.node().is_none() {
            self.without_node.insert(index);
        }
        let place = &mut self.places[index as usize];
        place.1 = Some(Box::new(link));
        LinkKey { index, generation: place.0 }
    }

    pub(crate) fn get(&self, key: LinkKey) -> Option<&BusLink> {
        let (generation, link) = self.places.get(key.index as usize)?;
        link.as_deref().filter(|_| *generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: LinkKey) -> Option<&mut BusLink> {
        let (generation, link) = self.places.get_mut(key.index as usize)?;
        link.as_deref_mut().filter(|_| *generation == key.generation)
    }

    /// Removes and returns a link, whose key is invalid from now on; `None` if the key was invalid already.
    pub(crate) fn remove(&mut self, key: LinkKey) -> Option<BusLink> {
        let place = self.places.get_mut(key.index as usize).filter(|place| place.0 == key.generation)?;
        let link = place.1.take()?;
        self.live -= 1;
        self.kept -= link.kept;
        self.without_node.remove(&key.index);
        if let Some(next) = place.0.checked_add(1) {
            place.0 = next;
            self.free.push(key.index);
        }
        Some(*link)
    }

    /// Gives a link its buffer back after the bytes in it were handled. The buffer is dropped if the link has
    /// been closed.
    pub(crate) fn keep(&mut self, key: LinkKey, inbox: ReceiveBuffer) {
        let kept = inbox.kept();
        let Some(link) = self.get_mut(key) else { return };
        let before = std::mem::replace(&mut link.kept, kept);
        link.inbox = inbox;
        self.kept = self.kept - before + kept;
    }

    /// Bytes of incomplete messages on all links, except published messages.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// Binds an incoming link to a node.
    pub(crate) fn bind(&mut self, key: LinkKey, ix: NodeIx) {
        if let Some(link) = self.get_mut(key)
            && let LinkKind::In { node, .. } = &mut link.kind
        {
            *node = Some(ix);
            self.without_node.remove(&key.index);
        }
    }

    /// Unbinds an incoming link; only tests do this.
    #[cfg(test)]
    pub(crate) fn unbind(&mut self, key: LinkKey) {
        if let Some(LinkKind::In { node, .. }) = self.get_mut(key).map(|link| &mut link.kind) {
            *node = None;
            self.without_node.insert(key.index);
        }
    }

    /// Links without a node. O(links without a node).
    pub(crate) fn without_node(&self) -> impl Iterator<Item = (LinkKey, &BusLink)> {
        self.without_node.iter().filter_map(|index| {
            let (generation, link) = &self.places[*index as usize];
            Some((LinkKey { index: *index, generation: *generation }, link.as_deref()?))
        })
    }

    /// The link without a node that has the most bytes of incomplete messages; `None` if none of them has
    /// any.
    pub(crate) fn fullest_without_node(&self) -> Option<LinkKey> {
        let without_node = self.without_node().filter(|(_, link)| link.kept > 0);
        without_node.max_by_key(|(_, link)| link.kept).map(|(key, _)| key)
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The first link without a node for which `is_wanted` holds.
    pub(crate) fn find_unbound(&self, is_wanted: impl Fn(&BusLink) -> bool) -> Option<LinkKey> {
        self.without_node().find(|(_, link)| is_wanted(link)).map(|(key, _)| key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkKey, &BusLink)> {
        self.places.iter().zip(0_u32..).filter_map(|((generation, link), index)| {
            Some((LinkKey { index, generation: *generation }, link.as_deref()?))
        })
    }
}
