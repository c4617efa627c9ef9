//! Connections of the bus: ordered bytes that arrive late and in pieces, wait while nodes are cut off
//! from each other in one direction or in both, and are lost with their connection.
//!
//! Invariants: (1) in each direction of a connection bytes arrive in order and none arrives twice; (2) the
//! two connections of a pair of nodes are independent of each other (W-15); (3) an end whose process has
//! ended does not answer until the host starts again.

use crate::cluster::act::Link;
use crate::cluster::clock::MS;
use crate::cluster::queue::{ConnId, Event, HostId, Queue};
use sluice_base::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The delays of the pieces in which messages arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delays {
    /// Longest usual delay of a piece, ms.
    pub(super) usual_ms: u64,
    /// One of this many pieces is late; 0 for none.
    pub(super) late_one_in: u64,
    pub(super) late_ms: u64,
    /// One of this many directions of connections stays slow; 0 for none.
    pub(super) slow_one_in: u64,
    pub(super) slow_ms: u64,
    /// One of this many messages is split into pieces; 0 for none.
    pub(super) split_one_in: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) host: HostId,
    pub(super) boot: u64,
    /// The name of the link in the process; `None` until the process has accepted the connection.
    pub(super) link: Option<Link>,
}

struct Piece {
    due_ns: u64,
    message: Arc<[u8]>,
    range: Range<usize>,
}

#[derive(Default)]
struct Pipe {
    queue: VecDeque<Piece>,
    last_ns: u64,
    end_ns: Option<u64>,
    slow_ns: u64,
}

/// A connection, which its end 0 has dialled.
pub(super) struct Conn {
    pub(super) ends: [Option<End>; 2],
    /// The hosts at both ends, also after an end is closed.
    pub(super) hosts: [Option<HostId>; 2],
    pub(super) ip: String,
    /// Bytes under way, by the sender's end.
    pipes: [Pipe; 2],
}

/// The next event at an end of a connection.
pub(super) enum Found {
    /// A message, and the range of its bytes that has arrived.
    Bytes(Arc<[u8]>, Range<usize>),
    End,
    Nothing,
}

#[derive(Default)]
pub(super) struct Net {
    conns: BTreeMap<ConnId, Conn>,
    next: ConnId,
    /// Pairs of sender and receiver between which nothing arrives.
    cuts: BTreeSet<(HostId, HostId)>,
    pub(super) delays: Delays,
    /// Whether a connection is lost when a MEET is sent on it.
    pub(super) eats_meets: bool,
    /// Slow connections of a scene: the delay of the dialler's messages, ns, by dialling and dialled host.
    pub(super) slow_ways: BTreeMap<(HostId, HostId), u64>,
}

impl Net {
    pub(super) fn get(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(&id)
    }

    pub(super) fn open(&mut self, end: End, ip: String, rng: &mut Rng) -> ConnId {
        self.next += 1;
        let mut pipes: [Pipe; 2] = Default::default();
        for pipe in &mut pipes {
            if self.delays.slow_one_in > 0 && rng.below(self.delays.slow_one_in) == 0 {
                pipe.slow_ns = rng.below(self.delays.slow_ms + 1) * MS;
            }
        }
        self.conns
            .insert(self.next, Conn { ends: [Some(end), None], hosts: [Some(end.host), None], ip, pipes });
        self.next
    }

    /// Draws the delay of a piece, ns.
    pub(super) fn delay_ns(&self, rng: &mut Rng) -> u64 {
        let delays = &self.delays;
        let is_late = delays.late_one_in > 0 && rng.below(delays.late_one_in) == 0;
        let most_ms = if is_late { delays.late_ms } else { delays.usual_ms };
        rng.below(most_ms * MS + 1) + MS / 10
    }

    /// Sends a message, whole or in pieces.
    pub(super) fn send(
        &mut self,
        (id, side): (ConnId, usize),
        message: &Arc<[u8]>,
        now_ns: u64,
        (rng, queue): (&mut Rng, &mut Queue),
    ) {
        let is_meet = message.get(12..14) == Some(&[0, 2]);
        if is_meet && self.eats_meets {
            return self.kill(id, now_ns, (rng, queue));
        }
        let mut from = 0;
        while from < message.len() {
            let left = message.len() - from;
            let is_split = self.delays.split_one_in > 0 && rng.below(self.delays.split_one_in) == 0;
            let len = if is_split { 1 + rng.below(left as u64) as usize } else { left };
            let due_ns = now_ns + self.delay_ns(rng);
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let way = conn.hosts[side].zip(conn.hosts[1 - side]);
            let slow_ns =
                way.filter(|_| side == 0).and_then(|way| self.slow_ways.get(&way)).copied().unwrap_or(0);
            let pipe = &mut conn.pipes[side];
            if pipe.end_ns.is_some() {
                return;
            }
            pipe.last_ns = pipe.last_ns.max(due_ns + pipe.slow_ns.max(slow_ns));
            pipe.queue.push_back(Piece {
                due_ns: pipe.last_ns,
                message: Arc::clone(message),
                range: from..from + len,
            });
            queue.push(pipe.last_ns, Event::Pipe(id, side));
            from += len;
        }
    }

    /// The next event that has arrived from `side`.
    pub(super) fn receive(&mut self, id: ConnId, side: usize, now_ns: u64) -> Found {
        let Some(conn) = self.conns.get_mut(&id) else { return Found::Nothing };
        if let (Some(from), Some(to)) = (conn.hosts[side], conn.hosts[1 - side])
            && self.cuts.contains(&(from, to))
        {
            return Found::Nothing;
        }
        let pipe = &mut conn.pipes[side];
        if pipe.queue.front().is_some_and(|piece| piece.due_ns <= now_ns) {
            let Some(piece) = pipe.queue.pop_front() else { return Found::Nothing };
            return Found::Bytes(piece.message, piece.range);
        }
        let has_ended = pipe.queue.is_empty() && pipe.end_ns.is_some_and(|end_ns| end_ns <= now_ns);
        if has_ended { Found::End } else { Found::Nothing }
    }

    /// Closes an end. The other end notices this after it has received the bytes that were sent.
    pub(super) fn close(
        &mut self,
        id: ConnId,
        side: usize,
        now_ns: u64,
        (rng, queue): (&mut Rng, &mut Queue),
    ) {
        let delay_ns = self.delay_ns(rng);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.ends[side] = None;
        conn.pipes[1 - side].queue.clear();
        let pipe = &mut conn.pipes[side];
        let end_ns = *pipe.end_ns.get_or_insert(pipe.last_ns.max(now_ns + delay_ns));
        if conn.ends[1 - side].is_none() {
            self.conns.remove(&id);
        } else {
            queue.push(end_ns, Event::Pipe(id, side));
        }
    }

    /// Resets a connection. Some of the bytes under way are lost, possibly from the middle of a message on.
    pub(super) fn kill(&mut self, id: ConnId, now_ns: u64, (rng, queue): (&mut Rng, &mut Queue)) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        for (side, pipe) in conn.pipes.iter_mut().enumerate() {
            let kept = rng.below(pipe.queue.len() as u64 + 1) as usize;
            pipe.queue.truncate(kept);
            if let Some(last) = pipe.queue.back_mut() {
                last.range.end = last.range.start + rng.below(last.range.len() as u64 + 1) as usize;
            }
            let end_ns = now_ns.max(pipe.last_ns.min(now_ns + 50 * MS)) + rng.below(50) * MS;
            let end_ns = *pipe.end_ns.get_or_insert(end_ns);
            queue.push(end_ns, Event::Pipe(id, side));
        }
    }

    /// Resets the connections between two hosts.
    pub(super) fn kill_between(
        &mut self,
        one: HostId,
        other: HostId,
        now_ns: u64,
        (rng, queue): (&mut Rng, &mut Queue),
    ) {
        let is_theirs = |conn: &Conn| matches!(conn.hosts, [Some(from), Some(to)] if (from, to) == (one, other) || (from, to) == (other, one));
        let found: Vec<ConnId> =
            self.conns.iter().filter(|(_, conn)| is_theirs(conn)).map(|(id, _)| *id).collect();
        for id in found {
            self.kill(id, now_ns, (&mut *rng, &mut *queue));
        }
    }

    /// A random connection; `None` if there is none.
    pub(super) fn any(&self, rng: &mut Rng) -> Option<ConnId> {
        let at = rng.below(self.conns.len() as u64) as usize;
        self.conns.keys().nth(at).copied()
    }

    /// The connections of a host, each with the host's end.
    pub(super) fn of_host(&self, host: HostId) -> Vec<(ConnId, usize)> {
        let mut found = Vec::new();
        for (id, conn) in &self.conns {
            for side in 0..2 {
                if conn.ends[side].is_some_and(|end| end.host == host) {
                    found.push((*id, side));
                }
            }
        }
        found
    }

    pub(super) fn remove(&mut self, id: ConnId) {
        self.conns.remove(&id);
    }

    pub(super) fn cut(&mut self, from: HostId, to: HostId) {
        self.cuts.insert((from, to));
    }

    pub(super) fn is_cut(&self, from: HostId, to: HostId) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Ends the cuts for which `is_mended` is true. The waiting messages then arrive one after another.
    pub(super) fn mend(
        &mut self,
        is_mended: impl Fn(HostId, HostId) -> bool,
        now_ns: u64,
        queue: &mut Queue,
    ) {
        self.cuts.retain(|(from, to)| !is_mended(*from, *to));
        for (id, conn) in &self.conns {
            for side in 0..2 {
                for piece in &conn.pipes[side].queue {
                    queue.push(piece.due_ns.max(now_ns), Event::Pipe(*id, side));
                }
                if let Some(end_ns) = conn.pipes[side].end_ns {
                    queue.push(end_ns.max(now_ns), Event::Pipe(*id, side));
                }
            }
        }
    }
}
