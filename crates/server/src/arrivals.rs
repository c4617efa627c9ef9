//! Connections that are not clients yet: connections that wait for their turn, and connections in a TLS
//! handshake. `iteration/arrivals.rs` decides on their order.

use crate::listen::{Accepted, TakenConnections};
use crate::net::Stream;
use crate::net::handshakes::{CLIENT_HANDSHAKE_MAX, Handshakes};
use crate::threads::Thread;
use sluice_base::heap;
use sluice_config::{Config, Subnets, param};
use sluice_session::SessionCounts;
use std::collections::VecDeque;

/// Maximum number of connections that an iteration of the event loop accepts. Accepting and checking this
/// many takes about half a millisecond.
pub const ACCEPTS_PER_ITERATION: u32 = 128;

/// All connections that are not clients yet.
pub struct Arrivals {
    /// Connections that wait for their turn, in the order in which they were accepted.
    pub waiting: VecDeque<(Newcomer, Stream)>,
    /// TLS connections during the handshake.
    pub handshakes: Handshakes<Newcomer>,
    /// Handshakes of connections from `priority-subnets`. A separate thread does these handshakes; the
    /// first of them starts the thread.
    pub first_handshakes: Handshakes<Newcomer>,
    /// Whether finished handshakes may still have to be taken, because the last iteration took the maximum
    /// number.
    pub more_handshakes: bool,
    /// The addresses of the directive `priority-subnets`.
    pub priority_subnets: Subnets,
    /// Number of places within `maxclients` that are reserved for clients from `priority-subnets`.
    reserved: usize,
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals {
            waiting: VecDeque::new(),
            handshakes: Handshakes::on(Thread::TlsHandshake, CLIENT_HANDSHAKE_MAX),
            first_handshakes: Handshakes::on(Thread::TlsHandshake, CLIENT_HANDSHAKE_MAX),
            more_handshakes: false,
            priority_subnets: Subnets::default(),
            reserved: 0,
        }
    }
}

impl Arrivals {
    /// Applies the configuration. Existing connections keep their priority.
    pub fn configure(&mut self, config: &Config) {
        let text = config.text(param::PRIORITY_SUBNETS).unwrap_or_default();
        self.priority_subnets = Subnets::parse(text).unwrap_or_default();
        // Even if the configuration reserves all places, one place stays free, so that an administrator can
        // connect and correct the configuration.
        let reserved_max = config.uint(param::MAXCLIENTS).saturating_sub(1);
        let reserved = config.uint(param::MAXCLIENTS_RESERVED).min(reserved_max) as usize;
        self.reserved = if self.priority_subnets.is_empty() { 0 } else { reserved };
    }

    /// Heap bytes of the queue of waiting connections, without the texts of their addresses. Handshakes are
    /// not counted.
    pub fn footprint(&self) -> usize {
        heap::deque(&self.waiting)
    }

    /// Whether a handshake is under way, or a finished handshake may not have been taken yet.
    pub fn have_handshakes(&self) -> bool {
        self.more_handshakes || self.handshakes.in_progress() + self.first_handshakes.in_progress() > 0
    }

    /// Whether waiting connections or finished handshakes may remain for another iteration.
    pub fn are_waiting(&self) -> bool {
        self.more_handshakes || !self.waiting.is_empty()
    }

    /// The counts for `maxclients`: clients with the connections that may become clients, connections of the
    /// bus, and reserved places.
    pub fn taken(&self, clients: SessionCounts, of_bus: usize) -> TakenConnections {
        let first = self.first_handshakes.in_progress();
        TakenConnections {
            clients: clients.all + self.waiting.len() + self.handshakes.in_progress() + first,
            with_priority: clients.priority + first,
            of_bus,
            reserved: self.reserved,
        }
    }

    /// The group of handshakes to which a newcomer's handshake belongs, by the priority of the newcomer.
    pub fn handshakes_for(&mut self, newcomer: &Newcomer) -> &mut Handshakes<Newcomer> {
        match newcomer.comes_first() {
            true => &mut self.first_handshakes,
            false => &mut self.handshakes,
        }
    }
}

/// An accepted connection that is not a client yet.
pub struct Newcomer {
    /// The addresses of both ends, and the properties that follow from them.
    pub accepted: Accepted,
    /// Whether the connection was accepted on a unix socket.
    pub unix: bool,
}

impl Newcomer {
    /// Whether the connection becomes a client without waiting for a turn.
    pub fn comes_first(&self) -> bool {
        self.unix || self.accepted.has_priority
    }
}
