//! The table of the bus's connections: by place for events, by key for orders.

use super::lanes::{LaneBytes, OutputLanes};
use crate::net::{BusPlace, Codec};
use sluice_base::heap;
use sluice_cluster::LinkKey;
use sluice_evloop::Source;
use std::collections::BTreeMap;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusLinkPhase {
    /// A dial that begins when the data are loaded.
    Held,
    /// The kernel makes it.
    Dialling,
    /// The event loop lets go of it, for the handshake of TLS.
    Leaving,
    /// Its handshake goes on elsewhere.
    Shaking,
    /// Messages flow.
    Open,
}

/// One connection.
pub struct BusConnection {
    /// The engine's name for it.
    pub key: LinkKey,
    /// The socket, in phases in which the event loop has it.
    pub source: Source,
    /// How far it is.
    pub phase: BusLinkPhase,
    /// By what bytes are encoded; none: they go as they are.
    pub codec: Option<Box<dyn Codec>>,
    /// Messages that wait.
    pub lanes: OutputLanes,
    /// What the write under way has of each lane.
    pub in_flight: Option<LaneBytes>,
    /// Whether the bus has noted that this connection may have something to send.
    pub is_ready: bool,
    /// Encoded bytes that leave ahead of the next message: what TLS answers.
    pub answers: Vec<u8>,
}

impl BusConnection {
    /// A connection of which nothing is there yet.
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

/// See the module.
#[derive(Default)]
pub struct BusLinks {
    slots: Vec<LinkSlot>,
    free: Vec<u32>,
    by_key: BTreeMap<LinkKey, BusPlace>,
}

#[derive(Default)]
struct LinkSlot {
    /// How often the slot was given away.
    generation: u32,
    link: Option<Box<BusConnection>>,
}

impl BusLinks {
    /// Gives a connection a place.
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

    /// The connection that has this place still.
    pub fn get_mut(&mut self, place: BusPlace) -> Option<&mut BusConnection> {
        let slot = self.slots.get_mut(place.slot as usize)?;
        slot.link.as_deref_mut().filter(|_| slot.generation == place.generation)
    }

    /// The place of a link.
    pub fn place_of(&self, key: LinkKey) -> Option<BusPlace> {
        self.by_key.get(&key).copied()
    }

    /// Takes a connection away; its place is free.
    pub fn remove(&mut self, place: BusPlace) -> Option<BusConnection> {
        let slot = self.slots.get_mut(place.slot as usize)?;
        let link = slot.link.take_if(|_| slot.generation == place.generation)?;
        self.free.push(place.slot);
        self.by_key.remove(&link.key);
        Some(*link)
    }

    /// Bytes that the allocator has given, without messages.
    pub fn footprint(&self) -> usize {
        let links = self.slots.iter().filter_map(|slot| slot.link.as_deref());
        heap::vec(&self.slots) + heap::vec(&self.free) + links.map(BusConnection::footprint).sum::<usize>()
    }
}
