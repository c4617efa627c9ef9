//! The cluster's bus: connections with other nodes, the file `nodes.conf`, names that are looked up. What is
//! said there, and when, is the engine's affair; here are its sockets, its file and its threads.
//!
//! ```text
//!              ┌─ Dial, Send, Close ─► links ──── event loop ──── other nodes
//!  engine ─────┼─ Persist ───────────► file ───── thread ──────── nodes.conf
//!  (BusOrder)  └─ Resolve ───────────► resolver ─ thread ──────── name server
//!     ▲                                   │
//!     └───────────── ClusterInput ────────┘
//! ```
//!
//! Invariants: (1) a link has one place from its order or its accept to its end, and an event of an older one
//! in that place finds nothing; (2) received bytes go to the engine as they come: nothing is kept here;
//! (3) of what the engine has queued, each link has 64 KiB with the kernel at most; (4) the main thread waits
//! for no other node, no disk and no name server; (5) what the other end says is not believed to be a node's
//! before the engine has said so: without TLS nobody is authenticated.

pub mod lanes;
pub mod links;
pub mod node_file;
pub mod resolver;
pub mod start;

use crate::net::BusPlace;
use crate::net::handshakes::{Handshakes, NODE_HANDSHAKE_MAX};
use crate::threads::Thread;
use links::BusLinks;
use node_file::FileWriter;
use resolver::Resolver;
use sluice_base::heap;
use sluice_cluster::IpText;

/// Handshakes of TLS under way at a time, at most.
pub const HANDSHAKES_MAX: usize = 256;

/// What is known of a connection in its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusPeer {
    /// Another node has connected, or somebody who wants to pass for one.
    Accepted,
    /// This server has connected.
    Dialled(BusPlace),
}

/// A dial that waits.
pub struct HeldDial {
    /// The place of the connection.
    pub place: BusPlace,
    /// The address.
    pub ip: IpText,
    /// The port of the bus.
    pub port: u16,
}

/// See the module. Empty on a server that is no node of a cluster.
pub struct Bus {
    /// The connections.
    pub links: BusLinks,
    /// Handshakes of connections that speak TLS.
    pub handshakes: Handshakes<BusPeer>,
    /// The writer of `nodes.conf`; none on a server that is no node of a cluster.
    pub file: Option<FileWriter>,
    /// Names that are looked up.
    pub resolver: Resolver,
    /// Connections with something to send, each once.
    ready: Vec<BusPlace>,
    /// A buffer for the next write.
    pub spare: Vec<u8>,
    /// Dials until the data are loaded; `None`: they need not wait.
    pub held: Option<Vec<HeldDial>>,
}

impl Bus {
    /// Nothing yet.
    pub fn new() -> Bus {
        Bus {
            links: BusLinks::default(),
            handshakes: Handshakes::on(Thread::BusHandshake, NODE_HANDSHAKE_MAX),
            file: None,
            resolver: Resolver::default(),
            ready: Vec::new(),
            spare: Vec::new(),
            held: None,
        }
    }

    /// Whether this server is a node.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Notes that a connection may have something to send.
    pub fn note_ready(&mut self, place: BusPlace) {
        if let Some(link) = self.links.get_mut(place)
            && !std::mem::replace(&mut link.is_ready, true)
        {
            self.ready.push(place);
        }
    }

    /// Takes out who may have something to send.
    pub fn take_ready(&mut self) -> Vec<BusPlace> {
        let ready = std::mem::take(&mut self.ready);
        for place in &ready {
            if let Some(link) = self.links.get_mut(*place) {
                link.is_ready = false;
            }
        }
        ready
    }

    /// Whether a connection has something to send and is not waiting for the kernel.
    pub fn has_more_to_send(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Bytes that the allocator has given, without messages, which links share.
    pub fn footprint(&self) -> usize {
        self.links.footprint() + heap::vec(&self.ready) + heap::vec(&self.spare)
    }
}
