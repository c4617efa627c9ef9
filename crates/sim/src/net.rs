//! The network between nodes: connections that deliver late, in pieces, stand still, and die.
//!
//! Invariants: (1) inside a connection bytes arrive in order, each once; (2) what one side has sent may be
//! lost with the connection from any byte on, though the sender has acted; (3) between two nodes that are cut
//! from each other nothing arrives, not even the end of a connection: what was sent waits.

use sluice_base::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of a node.
pub type NodeId = usize;

/// Number of a connection.
pub type ConnId = u64;

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The node that has opened it: a replica.
    Opener,
    /// The node that has accepted it.
    Acceptor,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Opener => Side::Acceptor,
            Side::Acceptor => Side::Opener,
        }
    }
}

/// What a side finds.
#[derive(Debug, Default)]
pub struct Arrived {
    pub bytes: Vec<u8>,
    /// Nothing more comes.
    pub has_ended: bool,
}

#[derive(Debug, Default)]
struct Pipe {
    queue: VecDeque<(u64, Vec<u8>)>,
    last_ns: u64,
    end_ns: Option<u64>,
}

#[derive(Debug)]
struct Conn {
    nodes: [NodeId; 2],
    /// By sender.
    pipes: [Pipe; 2],
    /// Sides that have closed it.
    closed: [bool; 2],
}

/// See the module.
#[derive(Debug, Default)]
pub struct Net {
    conns: BTreeMap<ConnId, Conn>,
    next: ConnId,
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// Most milliseconds that a piece takes.
    pub latency_ms: u64,
    /// Nanoseconds that each piece takes beside that.
    pub slow_ns: u64,
    now_ns: u64,
}

impl Net {
    /// Moves the clock.
    pub fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Opens a connection.
    pub fn open(&mut self, opener: NodeId, acceptor: NodeId) -> ConnId {
        self.next += 1;
        let conn = Conn { nodes: [opener, acceptor], pipes: Default::default(), closed: [false; 2] };
        self.conns.insert(self.next, conn);
        self.next
    }

    /// How long the next piece takes, ns.
    pub fn delay_ns(&self, rng: &mut Rng) -> u64 {
        let ms = if rng.below(30) == 0 {
            rng.below(self.latency_ms * 20 + 1)
        } else {
            rng.below(self.latency_ms + 1)
        };
        ms * 1_000_000 + self.slow_ns
    }

    /// Sends bytes, in one to three pieces.
    pub fn send(&mut self, id: ConnId, side: Side, mut bytes: Vec<u8>, rng: &mut Rng) {
        while !bytes.is_empty() {
            let cut =
                if rng.below(4) == 0 { 1 + rng.below(bytes.len() as u64) as usize } else { bytes.len() };
            let rest = bytes.split_off(cut);
            let due_ns = self.now_ns + self.delay_ns(rng);
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if conn.closed[side as usize] || conn.closed[side.other() as usize] {
                return;
            }
            let pipe = &mut conn.pipes[side as usize];
            if pipe.end_ns.is_some() {
                // It has died, which this side does not know yet.
                return;
            }
            pipe.last_ns = pipe.last_ns.max(due_ns);
            pipe.queue.push_back((pipe.last_ns, bytes));
            bytes = rest;
        }
    }

    /// What has arrived at a side.
    pub fn receive(&mut self, id: ConnId, side: Side) -> Arrived {
        let Some(conn) = self.conns.get_mut(&id) else {
            return Arrived { bytes: Vec::new(), has_ended: true };
        };
        if is_cut(&self.cuts, conn.nodes[0], conn.nodes[1]) {
            return Arrived::default();
        }
        let pipe = &mut conn.pipes[side.other() as usize];
        let mut bytes = Vec::new();
        while let Some((due_ns, _)) = pipe.queue.front()
            && *due_ns <= self.now_ns
        {
            bytes.extend(pipe.queue.pop_front().map(|(_, piece)| piece).unwrap_or_default());
        }
        let has_ended = pipe.queue.is_empty() && pipe.end_ns.is_some_and(|end_ns| end_ns <= self.now_ns);
        Arrived { bytes, has_ended }
    }

    /// A side closes the connection: the other finds the end behind what was sent.
    pub fn close(&mut self, id: ConnId, side: Side, rng: &mut Rng) {
        let delay_ns = self.delay_ns(rng);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.closed[side as usize] = true;
        let pipe = &mut conn.pipes[side as usize];
        pipe.end_ns.get_or_insert(pipe.last_ns.max(self.now_ns + delay_ns));
        conn.pipes[side.other() as usize].queue.clear();
        if conn.closed == [true; 2] {
            self.conns.remove(&id);
        }
    }

    /// The connection dies: of what is on its way, some is lost.
    pub fn kill(&mut self, id: ConnId, rng: &mut Rng) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        for pipe in &mut conn.pipes {
            let kept = rng.below(pipe.queue.len() as u64 + 1) as usize;
            pipe.queue.truncate(kept);
            if let Some((_, last)) = pipe.queue.back_mut() {
                last.truncate(rng.below(last.len() as u64 + 1) as usize);
            }
            pipe.end_ns.get_or_insert(self.now_ns + rng.below(800) * 1_000_000);
        }
    }

    /// Kills one connection, if there is any.
    pub fn kill_any(&mut self, rng: &mut Rng) -> Option<ConnId> {
        let at = rng.below(self.conns.len() as u64) as usize;
        let id = *self.conns.keys().nth(at)?;
        self.kill(id, rng);
        Some(id)
    }

    /// A node has gone: its connections die with it.
    pub fn leave(&mut self, node: NodeId, rng: &mut Rng) {
        let own: Vec<(ConnId, Side)> = self
            .conns
            .iter()
            .filter_map(|(id, conn)| match conn.nodes {
                [opener, _] if opener == node => Some((*id, Side::Opener)),
                [_, acceptor] if acceptor == node => Some((*id, Side::Acceptor)),
                _ => None,
            })
            .collect();
        for (id, side) in own {
            self.kill(id, rng);
            if let Some(conn) = self.conns.get_mut(&id) {
                conn.closed[side as usize] = true;
                if conn.closed == [true; 2] {
                    self.conns.remove(&id);
                }
            }
        }
    }

    /// Cuts two nodes from each other.
    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        self.cuts.insert((a.min(b), a.max(b)));
    }

    /// Joins all nodes again.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Whether nothing passes between two nodes.
    pub fn is_cut(&self, a: NodeId, b: NodeId) -> bool {
        is_cut(&self.cuts, a, b)
    }
}

fn is_cut(cuts: &BTreeSet<(NodeId, NodeId)>, a: NodeId, b: NodeId) -> bool {
    cuts.contains(&(a.min(b), a.max(b)))
}
