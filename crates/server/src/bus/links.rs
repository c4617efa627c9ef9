//! The table of bus connections. Events name a connection by its place in the table, orders of the engine by
//! its key.

use super::lanes::{LaneBytes, OutputLanes};
use crate::net::{BusPlace, Codec};
use sluice_base::heap;
use sluice_cluster::LinkKey;
use sluice_evloop::Source;
use std::collections::BTreeMap;

/// The state of a bus connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusLinkPhase {
    /// The dial begins when the data are loaded.
    Held,
    /// The kernel is connecting to the node.
    Dialling,
    /// The event loop was asked to release the socket, so that the TLS handshake can begin.
    Leaving,
    /// The handshake thread has the socket.
    Shaking,
    /// Messages can be sent and received.
    Open,
}

/// A connection with a peer, accepted or dialled.
pub struct BusConnection {
    /// The key by which the engine names the connection.
    pub key: LinkKey,
    /// The socket, in the phases in which it belongs to the event loop.
    pub source: Source,
    /// The state of the connection.
    pub phase: BusLinkPhase,
    /// The TLS codec; `None` if bytes are sent unchanged.
    pub codec: Option<Box<dyn Codec>>,
    /// Messages that wait to be sent, by lane.
    pub lanes: OutputLanes,
    /// The number of bytes of each lane in the write under way; `None` if no write is under way.
    pub in_flight: Option<LaneBytes>,
    /// Whether the connection is in the bus's list of connections that may have messages to send.
    pub is_ready: bool,
    /// TLS protocol bytes that are sent before the next message.
    pub answers: Vec<u8>,
}

impl BusConnection {
    /// A connection in the phase `Held`, without a socket.
    pub fn new(key: LinkKey) -> BusConnection {
        BusConnection {
            key,
            source: Source::NONE,
            phase: BusLinkPhase::Held,
            codec: None,
            lanes: OutputLanes::default(),
            in_flight: None,
            is_ready: false,
            answers: Vec::new(),
        }
    }

    fn footprint(&self) -> usize {
        let codec = self.codec.as_ref().map_or(0, |codec| codec.footprint());
        heap::boxed::<BusConnection>() + self.lanes.footprint() + heap::vec(&self.answers) + codec
    }
}

/// All bus connections, by place and by key.
#[derive(Default)]
pub struct BusLinks {
    slots: Vec<LinkSlot>,
    free: Vec<u32>,
    by_key: BTreeMap<LinkKey, BusPlace>,
}

#[derive(Default)]
struct LinkSlot {
    /// The number of connections that have used this slot of the table. The place of an earlier connection
    /// has another generation.
    generation: u32,
    link: Option<Box<BusConnection>>,
}

impl BusLinks {
    /// Adds a connection, and returns its place.
    pub fn insert(&mut self, link: BusConnection) -> BusPlace {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(LinkSlot::default());
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        let place = BusPlace { slot, generation: entry.generation };
        self.by_key.insert(link.key, place);
        entry.link = Some(Box::new(link));
        place
    }

    /// The connection at this place; `None` if it has ended.
    pub fn get_mut(&mut self, place: BusPlace) -> Option<&mut BusConnection> {
        let slot = self.slots.get_mut(place.slot as usize)?;
        slot.link.as_deref_mut().filter(|_| slot.generation == place.generation)
    }

    /// The place of the connection with this key.
    pub fn place_of(&self, key: LinkKey) -> Option<BusPlace> {
        self.by_key.get(&key).copied()
    }

    /// Removes a connection, and frees its slot; `None` if the connection has ended already.
    pub fn remove(&mut self, place: BusPlace) -> Option<BusConnection> {
        let slot = self.slots.get_mut(place.slot as usize)?;
        let link = slot.link.take_if(|_| slot.generation == place.generation)?;
        self.free.push(place.slot);
        self.by_key.remove(&link.key);
        Some(*link)
    }

    /// Heap bytes of the connections, without the messages and without the index by key.
    pub fn footprint(&self) -> usize {
        let links = self.slots.iter().filter_map(|slot| slot.link.as_deref());
        heap::vec(&self.slots) + heap::vec(&self.free) + links.map(BusConnection::footprint).sum::<usize>()
    }
}
