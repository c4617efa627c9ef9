//! Links of the bus: which connection belongs to which node, and what waits on it.
//!
//! Invariants: (1) a key is never given out twice, so that a late input about a closed link finds nothing;
//! (2) a link out has a node for as long as it lives; (3) links without a node are known apart, so that the
//! cron need not look at all.

use crate::address::{IpText, NodeAddress};
use crate::id::NodeId;
use crate::link_key::LinkKey;
use crate::node::{Ms, NodeIx};
use crate::output::BusLane;
use crate::wire::ReceiveBuffer;
use std::collections::{BTreeSet, VecDeque};

/// The direction of a link, and the other end as far as known.
#[derive(Clone, Debug)]
pub(crate) enum LinkKind {
    /// Dialled to the node.
    Out { node: NodeIx, target: DialTarget },
    /// Accepted; a message of a known node binds it (G-5). `greeted_by`: who has sent a PING or MEET on it
    /// and was not known yet.
    In { node: Option<NodeIx>, greeted_by: Option<NodeId>, peer: IpText, local: IpText },
}

/// Which address of a node was dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DialTarget {
    AnnouncedLabels,
    /// An address that may be the node's (G-23).
    Candidate(NodeAddress),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct BusLink {
    pub(crate) kind: LinkKind,
    pub(crate) since: Ms,
    /// Wall time of `since`, for CLUSTER LINKS.
    pub(crate) since_wall_ms: i64,
    /// Whether the connection is made.
    pub(crate) is_open: bool,
    /// Whether a message with EXT_DATA came on the link (W-9).
    pub(crate) reads_extensions: bool,
    /// When the last PONG came on this very link.
    pub(crate) pong_at: Option<Ms>,
    /// The other end has bound the link out, as far as can be told: messages without a sender may be sent on
    /// it (P-3).
    pub(crate) is_bound_there: bool,
    pub(crate) queue: SendQueue,
    /// Bytes of a message that is not whole. SlotsTaken out while its messages are handled.
    pub(crate) inbox: ReceiveBuffer,
    /// Bytes of `inbox` that count against the sum of all links.
    pub(crate) kept: usize,
}

/// Messages that were handed out for a link and are not written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    /// Bytes of each message that are left to write, and the message's memory: the control lane's, then the
    /// published ones.
    lanes: [VecDeque<(usize, usize)>; 2],
    /// Memory of the messages of each lane.
    memory: [usize; 2],
}

/// Memory of a queue without a message, as the reference counts (G-30).
pub(crate) const QUEUE_BASE_BYTES: usize = 48;
/// What each queued message adds: the entry of the list, the block's head.
const MESSAGE_OVERHEAD_BYTES: usize = 24 + 16;

impl SendQueue {
    /// Adds a message of `bytes`, for which `allocated` bytes count.
    pub(crate) fn push(&mut self, bytes: usize, allocated: usize, lane: BusLane) {
        let memory = allocated + MESSAGE_OVERHEAD_BYTES;
        self.lanes[lane as usize].push_back((bytes, memory));
        self.memory[lane as usize] += memory;
    }

    /// Takes off what was written of a lane.
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

    /// Bytes of memory, as `send-buffer-allocated` and the limit count them (G-30, G-31).
    pub(crate) fn memory(&self) -> usize {
        QUEUE_BASE_BYTES + self.memory[0] + self.memory[1]
    }

    /// Whether a lane has room for a message of `bytes`. A message that waits alone always fits.
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

/// All links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    places: Vec<(u32, Option<Box<BusLink>>)>,
    free: Vec<u32>,
    live: usize,
    /// The sum of what the links keep.
    kept: usize,
    /// Positions of links without a node.
    strangers: BTreeSet<u32>,
}

impl Links {
    /// Adds a link and names it.
    pub(crate) fn insert(&mut self, link: BusLink) -> LinkKey {
        self.live += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        if link.node().is_none() {
            self.strangers.insert(index);
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

    /// Takes a link away; its key names nothing from now on.
    pub(crate) fn remove(&mut self, key: LinkKey) -> Option<BusLink> {
        let place = self.places.get_mut(key.index as usize).filter(|place| place.0 == key.generation)?;
        let link = place.1.take()?;
        self.live -= 1;
        self.kept -= link.kept;
        self.strangers.remove(&key.index);
        if let Some(next) = place.0.checked_add(1) {
            place.0 = next;
            self.free.push(key.index);
        }
        Some(*link)
    }

    /// Gives a link its buffer back after its bytes were handled.
    pub(crate) fn keep(&mut self, key: LinkKey, inbox: ReceiveBuffer) {
        let kept = inbox.kept();
        let Some(link) = self.get_mut(key) else { return };
        let before = std::mem::replace(&mut link.kept, kept);
        link.inbox = inbox;
        self.kept = self.kept - before + kept;
    }

    /// Bytes that all links keep of messages that are not whole, without those for subscribers.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// Makes a link in the link of a node.
    pub(crate) fn bind(&mut self, key: LinkKey, ix: NodeIx) {
        if let Some(link) = self.get_mut(key)
            && let LinkKind::In { node, .. } = &mut link.kind
        {
            *node = Some(ix);
            self.strangers.remove(&key.index);
        }
    }

    /// Makes a link in a stranger's again, as nothing of the product does.
    #[cfg(test)]
    pub(crate) fn unbind(&mut self, key: LinkKey) {
        if let Some(LinkKind::In { node, .. }) = self.get_mut(key).map(|link| &mut link.kind) {
            *node = None;
            self.strangers.insert(key.index);
        }
    }

    /// Links without a node. O(these).
    pub(crate) fn strangers(&self) -> impl Iterator<Item = (LinkKey, &BusLink)> {
        self.strangers.iter().filter_map(|index| {
            let (generation, link) = &self.places[*index as usize];
            Some((LinkKey { index: *index, generation: *generation }, link.as_deref()?))
        })
    }

    /// The link without a node that keeps the most.
    pub(crate) fn fullest_stranger(&self) -> Option<LinkKey> {
        let strangers = self.strangers().filter(|(_, link)| link.kept > 0);
        strangers.max_by_key(|(_, link)| link.kept).map(|(key, _)| key)
    }

    /// How many links there are.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The first link without a node that is asked for.
    pub(crate) fn find_stranger(&self, is_wanted: impl Fn(&BusLink) -> bool) -> Option<LinkKey> {
        self.strangers().find(|(_, link)| is_wanted(link)).map(|(key, _)| key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkKey, &BusLink)> {
        self.places.iter().zip(0_u32..).filter_map(|((generation, link), index)| {
            Some((LinkKey { index, generation: *generation }, link.as_deref()?))
        })
    }
}
