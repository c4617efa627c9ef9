//! The cluster bus: connections with other nodes, the file `nodes.conf`, and name lookups. The engine
//! decides on messages and their time; this module has the sockets, the file and the threads.
//!
//! ```text
//!              ┌─ Dial, Send, Close ─► links ──── event loop ──── other nodes
//!  engine ─────┼─ Persist ───────────► file ───── thread ──────── nodes.conf
//!  (BusOrder)  └─ Resolve ───────────► resolver ─ thread ──────── name server
//!     ▲                                   │
//!     └───────────── ClusterInput ────────┘
//! ```
//!
//! Invariants: (1) a link has the same place ([`BusPlace`]) from the moment when it is dialled or accepted
//! until it ends, and an event of an earlier link in the same slot is ignored; (2) received bytes are
//! passed to the engine at once and not stored here; (3) of each link's queued bytes, at most 64 KiB at a
//! time are handed to the kernel; (4) the main thread never waits for another node, a name server or,
//! before the end of the server, the disk; (5) a peer does not count as a node before the engine has
//! accepted it, because without TLS no peer is authenticated.

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

/// Maximum number of TLS handshakes of the bus that are under way at the same time.
pub const HANDSHAKES_MAX: usize = 256;

/// The origin of a connection in its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusPeer {
    /// The peer has connected, and need not be a node.
    Accepted,
    /// This server has dialled the peer.
    Dialled(BusPlace),
}

/// A dial that waits until the data are loaded.
pub struct HeldDial {
    /// The place of the connection.
    pub place: BusPlace,
    /// The address to dial.
    pub ip: IpText,
    /// The port of the bus.
    pub port: u16,
}

/// The sockets, file and threads of the cluster bus. Empty on a server that is no cluster node.
pub struct Bus {
    /// The connections with other nodes.
    pub links: BusLinks,
    /// TLS handshakes of the bus.
    pub handshakes: Handshakes<BusPeer>,
    /// The writer of `nodes.conf`; `None` on a server that is no cluster node.
    pub file: Option<FileWriter>,
    /// The resolver that looks up the names of nodes.
    pub resolver: Resolver,
    /// Connections that may have messages to send. Each is in the list once.
    ready: Vec<BusPlace>,
    /// A reused buffer for the next write.
    pub spare: Vec<u8>,
    /// Dials that wait until the data are loaded; `None` if dials need not wait.
    pub held: Option<Vec<HeldDial>>,
}

impl Bus {
    /// A bus that is off, with neither connections nor a file.
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

    /// Whether this server is a cluster node.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Records that a connection may have messages to send.
    pub fn note_ready(&mut self, place: BusPlace) {
        if let Some(link) = self.links.get_mut(place)
            && !std::mem::replace(&mut link.is_ready, true)
        {
            self.ready.push(place);
        }
    }

    /// Takes the connections that may have messages to send.
    pub fn take_ready(&mut self) -> Vec<BusPlace> {
        let ready = std::mem::take(&mut self.ready);
        for place in &ready {
            if let Some(link) = self.links.get_mut(*place) {
                link.is_ready = false;
            }
        }
        ready
    }

    /// Whether a connection may have messages to send that the kernel can take at once.
    pub fn has_more_to_send(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Heap bytes of the links and of the buffers for sending, without the messages, which links share.
    pub fn footprint(&self) -> usize {
        self.links.footprint() + heap::vec(&self.ready) + heap::vec(&self.spare)
    }
}
