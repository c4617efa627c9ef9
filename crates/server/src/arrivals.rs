//! Connections that are no clients yet: those that wait for their turn, and those in a handshake of TLS.
//! `iteration/arrivals.rs` says who comes when.

use crate::listen::{Accepted, TakenConnections};
use crate::net::Stream;
use crate::net::handshakes::{CLIENT_HANDSHAKE_MAX, Handshakes};
use crate::threads::Thread;
use sluice_base::heap;
use sluice_config::{Config, Subnets, param};
use sluice_session::SessionCounts;
use std::collections::VecDeque;

/// Connections that an iteration takes from the kernel: about half a millisecond, with looking at each.
pub const ACCEPTS_PER_ITERATION: u32 = 128;

/// Connections that are no clients yet.
pub struct Arrivals {
    /// Connections that wait for their turn, in the order of their coming.
    pub waiting: VecDeque<(Newcomer, Stream)>,
    /// Connections that speak TLS, during the handshake.
    pub handshakes: Handshakes<Newcomer>,
    /// Handshakes of connections that come first: on another thread, which starts with the first one.
    pub first_handshakes: Handshakes<Newcomer>,
    /// Whether more handshakes may be over than the last iteration took up.
    pub more_handshakes: bool,
    /// `priority-subnets`.
    pub priority_subnets: Subnets,
    /// Clients of `maxclients` that are kept for `priority-subnets`.
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
    /// Takes up the configuration. Connections that have come keep their priority.
    pub fn configure(&mut self, config: &Config) {
        let text = config.text(param::PRIORITY_SUBNETS).unwrap_or_default();
        self.priority_subnets = Subnets::parse(text).unwrap_or_default();
        // A configuration that reserves everything leaves one place for whoever mends it.
        let reserved_max = config.uint(param::MAXCLIENTS).saturating_sub(1);
        let reserved = config.uint(param::MAXCLIENTS_RESERVED).min(reserved_max) as usize;
        self.reserved = if self.priority_subnets.is_empty() { 0 } else { reserved };
    }

    /// Bytes that the allocator has given for those that wait, texts of addresses left out.
    pub fn footprint(&self) -> usize {
        heap::deque(&self.waiting)
    }

    /// Whether a handshake is under way, or may be over and not taken up.
    pub fn have_handshakes(&self) -> bool {
        self.more_handshakes || self.handshakes.in_progress() + self.first_handshakes.in_progress() > 0
    }

    /// Whether another iteration has something to take up.
    pub fn are_waiting(&self) -> bool {
        self.more_handshakes || !self.waiting.is_empty()
    }

    /// What counts for `maxclients`: clients, connections that are to be some, and as many of the bus.
    pub fn taken(&self, clients: SessionCounts, of_bus: usize) -> TakenConnections {
        let first = self.first_handshakes.in_progress();
        TakenConnections {
            clients: clients.all + self.waiting.len() + self.handshakes.in_progress() + first,
            with_priority: clients.priority + first,
            of_bus,
            reserved: self.reserved,
        }
    }

    /// The handshakes among which those of such a newcomer are.
    pub fn handshakes_for(&mut self, newcomer: &Newcomer) -> &mut Handshakes<Newcomer> {
        match newcomer.comes_first() {
            true => &mut self.first_handshakes,
            false => &mut self.handshakes,
        }
    }
}

/// A connection that was accepted.
pub struct Newcomer {
    /// The addresses of both ends, and what follows from the addresses.
    pub accepted: Accepted,
    /// Whether the connection came by a unix socket.
    pub unix: bool,
}

impl Newcomer {
    /// Whether the connection has no turn to wait for.
    pub fn comes_first(&self) -> bool {
        self.unix || self.accepted.has_priority
    }
}
