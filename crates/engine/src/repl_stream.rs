//! The replication stream: what replicas are sent.
//!
//! ```text
//!  command ──► unit (`UnitCommands`) ──close──► pending ──deliver, once an iteration──► shared block
//! ```
//!
//! Invariants: (1) the stream is a function of the execution units, and of what it adds of its own: pings and questions to
//! replicas; (2) a unit of several commands is wrapped in MULTI and EXEC; (3) SELECT stands before the first command of
//! another database; (4) a byte of the stream is written once: every replica sends the same shared block; (5) `offset` counts
//! the bytes of `pending` too: it moves when a unit closes, not when its bytes are delivered; (6) without a replica nothing is
//! added, and the offset stands still.

use crate::session_key::SessionKey;
use crate::snapshot::StreamPoint;
use crate::unit_commands::{Audience, BUFFER_KEPT_BYTES, Grouping, UnitCommands, push_command};
use sluice_base::{Bytes, heap};
use std::collections::VecDeque;

/// The stream and its receivers.
#[derive(Debug, Default)]
pub struct ReplicationStream {
    /// Sessions that receive it, in order of arrival.
    pub replicas: Vec<SessionKey>,
    /// Bytes of the history so far.
    pub offset: u64,
    /// Id of the history: 40 hexadecimal digits.
    pub replid: String,
    /// The history before, as the files told that were loaded, and the offset of the first byte that is none of it.
    pub(crate) earlier: Option<(String, u64)>,
    /// Whether a replica has ever been attached: the history begins with the first.
    begun: bool,
    /// This server is itself a replica: the stream has its primary's bytes and none of its own.
    has_primary: bool,
    /// Database selected in the stream.
    selected: Option<usize>,
    /// The same in the stream of the primary of this server.
    relayed_db: usize,
    /// Bytes of closed units that no replica has been given yet.
    pending: Vec<u8>,
    /// Blocks that were delivered lately, oldest first: their memory is used again once every replica has sent them.
    delivered: VecDeque<Bytes>,
}

impl ReplicationStream {
    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        let blocks: usize = self.delivered.iter().map(Bytes::footprint).sum();
        heap::vec(&self.replicas) + heap::vec(&self.pending) + heap::deque(&self.delivered) + blocks
    }

    /// An empty stream of the history `replid`.
    pub fn new(replid: String) -> ReplicationStream {
        ReplicationStream { replid, ..ReplicationStream::default() }
    }

    /// Whether it has a receiver.
    #[inline]
    pub(crate) fn is_fed(&self) -> bool {
        !self.replicas.is_empty()
    }

    /// Whether the history has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether the commands of this server belong into the stream: somebody is to be sent them, and no primary sends its own.
    #[inline]
    pub(crate) fn generates(&self) -> bool {
        self.is_fed() && !self.has_primary
    }

    /// Says whether this server has a primary: while it has one, neither its commands nor its pings are part of the stream, which
    /// consists of what [`ReplicationStream::relay`] is given.
    pub fn set_has_primary(&mut self, has_primary: bool) {
        self.has_primary = has_primary;
        // What follows from the other source names its database itself.
        self.selected = None;
    }

    /// Appends bytes of the primary's stream as they are: replicas of this server follow the same history.
    pub fn relay(&mut self, bytes: &[u8]) {
        debug_assert!(self.has_primary);
        self.pending.extend_from_slice(bytes);
        self.offset += bytes.len() as u64;
    }

    /// The database that the primary's bytes have selected so far.
    pub(crate) fn set_relayed_db(&mut self, db: usize) {
        self.relayed_db = db;
    }

    /// The data are those of a primary that stands behind `offset` bytes of the history `replid`: a full synchronisation has ended.
    /// Nothing is known of what came before. Replicas of this server have other data and must be closed by the caller.
    pub fn adopt_history(&mut self, replid: String, offset: u64) {
        self.pending.clear();
        self.selected = None;
        self.replid = replid;
        self.earlier = None;
        self.offset = offset;
        self.begun = true;
    }

    /// This server is promoted: the history goes on under another id. Who followed it until now may go on from here.
    pub fn shift_history(&mut self, replid: String) {
        let old = std::mem::replace(&mut self.replid, replid);
        self.earlier = Some((old, self.offset + 1));
        self.selected = None;
    }

    /// The primary goes on with the same history under another id (`+CONTINUE <id>`): the old one stays valid up to here. With
    /// the id that is known already nothing changes.
    pub fn continue_history(&mut self, replid: String) {
        if replid != self.replid {
            self.shift_history(replid);
        }
    }

    /// Begins the history under an id.
    pub fn begin(&mut self, replid: String) {
        self.replid = replid;
        self.earlier = None;
        self.begun = true;
    }

    /// The data that were loaded stand behind `offset` bytes of that history. What follows is a history of its own: replicas may
    /// have been sent more of the one before than the files know.
    pub(crate) fn resume(&mut self, replid: String, offset: u64) {
        self.offset = offset;
        self.earlier = Some((replid, offset + 1));
    }

    /// Where the data stand in the history: known while somebody is fed, because what nobody is fed counts nothing.
    pub(crate) fn point(&self) -> Option<StreamPoint<'_>> {
        let db = if self.has_primary { self.relayed_db } else { self.selected.unwrap_or(0) };
        (self.is_fed() || self.has_primary).then(|| StreamPoint {
            db,
            replid: &self.replid,
            offset: self.offset,
        })
    }

    /// Database selected in the stream.
    pub(crate) fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Sends the stream to a session from the next unit on, which names its database again. What is pending must have
    /// been delivered.
    pub fn attach(&mut self, key: SessionKey) {
        debug_assert!(self.pending.is_empty());
        self.replicas.push(key);
        self.selected = None;
    }

    /// Adds a command that belongs to no unit and no database: a ping, a question.
    pub(crate) fn command_of_its_own<'a>(&mut self, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
        let before = self.pending.len();
        push_command(&mut self.pending, argv);
        self.offset += (self.pending.len() - before) as u64;
    }

    /// Adds a unit that has ended.
    pub(crate) fn add_unit(&mut self, unit: &UnitCommands, grouping: Grouping) {
        if self.generates() {
            let before = self.pending.len();
            unit.write_to(Audience::Replicas, grouping, &mut self.selected, &mut self.pending);
            self.offset += (self.pending.len() - before) as u64;
        }
    }

    /// Whether closed units wait to be delivered.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Takes the bytes of the units that were closed since the last call, to be shared by all receivers. Allocates
    /// nothing once the block before the last has been sent by everybody.
    pub fn take(&mut self) -> Bytes {
        let oldest = if self.delivered.len() == BLOCKS_KEPT { self.delivered.pop_front() } else { None };
        // A replica that is slower than the stream keeps its block.
        let mut spare = oldest.and_then(|block| block.into_vec().ok()).unwrap_or_default();
        spare.clear();
        let block = Bytes::from_vec(std::mem::replace(&mut self.pending, spare));
        if block.capacity() <= BUFFER_KEPT_BYTES {
            self.delivered.push_back(block.clone());
        }
        block
    }
}

/// Blocks whose memory is kept for the next ones: one is filled while the one before is sent.
const BLOCKS_KEPT: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn fed() -> ReplicationStream {
        let mut stream = ReplicationStream::default();
        stream.attach(SessionKey { slot: 0, generation: 1 });
        stream
    }

    #[test]
    fn the_offset_counts_what_replicas_are_given_and_nothing_without_one() {
        let mut unit = UnitCommands::default();
        unit.command(0, Audience::All, [&b"DEL"[..], b"a"].into_iter());
        let mut stream = fed();
        stream.add_unit(&unit, Grouping::Transaction);
        stream.command_of_its_own([&b"ping"[..]].into_iter());
        let text = stream.take();
        assert!(text.starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
        assert_eq!(stream.offset, text.len() as u64);
        let mut alone = ReplicationStream::default();
        alone.add_unit(&unit, Grouping::Transaction);
        assert_eq!((alone.offset, alone.has_pending()), (0, false));
    }

    #[test]
    fn a_server_with_a_primary_relays_its_bytes_and_adds_nothing() {
        let mut stream = fed();
        stream.set_has_primary(true);
        stream.adopt_history("a".repeat(40), 1000);
        let mut unit = UnitCommands::default();
        unit.command(0, Audience::All, [&b"DEL"[..], b"a"].into_iter());
        stream.add_unit(&unit, Grouping::Transaction);
        stream.relay(b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(&stream.take()[..], b"*1\r\n$4\r\nPING\r\n");
        assert_eq!((stream.offset, stream.generates()), (1014, false));
    }

    #[test]
    fn a_promotion_keeps_the_history_before_up_to_here() {
        let (old, new) = ("a".repeat(40), "b".repeat(40));
        let mut stream = fed();
        stream.set_has_primary(true);
        stream.adopt_history(old.clone(), 7);
        stream.continue_history(old.clone());
        assert_eq!((&stream.replid, &stream.earlier), (&old, &None));
        stream.set_has_primary(false);
        stream.shift_history(new.clone());
        assert_eq!((&stream.replid, &stream.earlier), (&new, &Some((old, 8))));
    }

    #[test]
    fn a_block_is_used_again_once_nobody_holds_it() {
        let mut stream = fed();
        let mut places = Vec::new();
        for _ in 0..8 {
            stream.command_of_its_own([&b"ping"[..]].into_iter());
            places.push(stream.take().as_ptr());
        }
        places.sort_unstable();
        places.dedup();
        assert!(places.len() <= BLOCKS_KEPT + 1, "blocks in use: {}", places.len());
    }

    #[test]
    fn a_block_that_is_held_is_left_alone() {
        let mut stream = fed();
        let mut held = Vec::new();
        for i in 0..8u8 {
            stream.command_of_its_own([&[b'0' + i][..]].into_iter());
            held.push(stream.take());
        }
        for (i, block) in held.iter().enumerate() {
            assert!(block.ends_with(format!("{i}\r\n").as_bytes()));
        }
    }
}
