//! The network between nodes: connections that deliver late and in pieces, stall, and are lost.
//!
//! Invariants: (1) within a connection bytes arrive in order, each once; (2) a lost connection loses the sent
//! bytes from a random byte on, although the sender has continued as if all had arrived; (3) between two
//! nodes that are cut off from each other nothing arrives, not even the end of a connection: sent bytes wait.

use sluice_base::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of a node, from 0 on.
pub type NodeId = usize;

/// The number of a connection; numbers are not reused.
pub type ConnId = u64;

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The node that opened the connection, such as a replica.
    Opener,
    /// The node that accepted the connection.
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

/// The result of a receive.
#[derive(Debug, Default)]
pub struct Arrived {
    pub bytes: Vec<u8>,
    /// Whether the other side has closed the connection and all its bytes have arrived.
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
    /// Bytes under way, by the sender's side.
    pipes: [Pipe; 2],
    /// For each side, whether it has closed the connection.
    closed: [bool; 2],
}

/// All connections between the nodes, and the cuts between nodes.
#[derive(Debug, Default)]
pub struct Net {
    conns: BTreeMap<ConnId, Conn>,
    next: ConnId,
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// Longest usual delay of a piece, ms.
    pub latency_ms: u64,
    /// Further delay of each piece, ns.
    pub slow_ns: u64,
    now_ns: u64,
}

impl Net {
    /// Sets the time of the network, ns.
    pub fn pass(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Opens a connection and returns its number.
    pub fn open(&mut self, opener: NodeId, acceptor: NodeId) -> ConnId {
        self.next += 1;
        let conn = Conn { nodes: [opener, acceptor], pipes: Default::default(), closed: [false; 2] };
        self.conns.insert(self.next, conn);
        self.next
    }

    /// Draws the delay of the next piece, ns.
    pub fn delay_ns(&self, rng: &mut Rng) -> u64 {
        let ms = if rng.below(30) == 0 {
            rng.below(self.latency_ms * 20 + 1)
        } else {
            rng.below(self.latency_ms + 1)
        };
        ms * 1_000_000 + self.slow_ns
    }

    /// Sends bytes in one piece or in several random ones.
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
                // The bytes are dropped, because the connection was lost, which this side does not know
                // yet.
                return;
            }
            pipe.last_ns = pipe.last_ns.max(due_ns);
            pipe.queue.push_back((pipe.last_ns, bytes));
            bytes = rest;
        }
    }

    /// The bytes that have arrived at a side, and whether the connection has ended.
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

    /// Closes a side. The other side finds the end after the bytes that were sent.
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

    /// Loses a connection, and some of the bytes under way.
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

    /// Loses a random connection, if there is any.
    pub fn kill_any(&mut self, rng: &mut Rng) -> Option<ConnId> {
        let at = rng.below(self.conns.len() as u64) as usize;
        let id = *self.conns.keys().nth(at)?;
        self.kill(id, rng);
        Some(id)
    }

    /// Ends all connections of a node that has ended.
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

    /// Cuts two nodes off from each other.
    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        self.cuts.insert((a.min(b), a.max(b)));
    }

    /// Ends all cuts.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Whether two nodes are cut off from each other.
    pub fn is_cut(&self, a: NodeId, b: NodeId) -> bool {
        is_cut(&self.cuts, a, b)
    }
}

fn is_cut(cuts: &BTreeSet<(NodeId, NodeId)>, a: NodeId, b: NodeId) -> bool {
    cuts.contains(&(a.min(b), a.max(b)))
}
