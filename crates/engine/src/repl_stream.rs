//! The replication stream: what replicas are sent (and, later, the append-only file).
//!
//! ```text
//!  command ──► unit (commands of the unit under way) ──close──► pending ──deliver, once an iteration──► shared block
//! ```
//!
//! Invariants: (1) the stream is a function of the execution units and nothing else; (2) a unit of several commands is
//! wrapped in MULTI and EXEC; (3) SELECT stands before the first command of another database; (4) a byte of the stream
//! is written once: every replica sends the same shared block; (5) `offset` counts the bytes of `pending` too: it moves
//! when a unit closes, not when its bytes are delivered.

use crate::session_key::SessionKey;
use sluice_base::{Bytes, heap};
use sluice_keyspace::Argv;
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
    /// Whether a replica has ever been attached: the history begins with the first.
    begun: bool,
    /// Database selected in the stream.
    selected: Option<usize>,
    /// Commands of the unit under way, without MULTI and EXEC.
    unit: Vec<u8>,
    /// How many commands these are, SELECT left out.
    unit_commands: usize,
    /// Bytes of closed units that no replica has been given yet.
    pending: Vec<u8>,
    /// Blocks that were delivered lately, oldest first: their memory is used again once every replica has sent them.
    delivered: VecDeque<Bytes>,
}

/// How the commands of a unit stand in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Between MULTI and EXEC where there is more than one.
    Transaction,
    /// One by one: the unit met these keys by chance.
    Loose,
}

impl ReplicationStream {
    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        let blocks: usize = self.delivered.iter().map(Bytes::footprint).sum();
        let buffers = heap::vec(&self.unit) + heap::vec(&self.pending);
        heap::vec(&self.replicas) + buffers + heap::deque(&self.delivered) + blocks
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

    /// Begins the history under an id.
    pub fn begin(&mut self, replid: String) {
        self.replid = replid;
        self.begun = true;
    }

    /// Database selected in the stream.
    pub(crate) fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// Sends the stream to a session from the next unit on, which names its database again. What is pending must have
    /// been delivered.
    pub fn attach(&mut self, key: SessionKey) {
        debug_assert!(self.unit.is_empty());
        debug_assert!(self.pending.is_empty());
        self.replicas.push(key);
        self.selected = None;
    }

    /// Adds a command of database `db` to the unit.
    pub fn command<'a>(&mut self, db: usize, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
        if self.selected != Some(db) {
            self.selected = Some(db);
            let number = db.to_string();
            push_command(&mut self.unit, [&b"SELECT"[..], number.as_bytes()].into_iter());
        }
        self.raw(argv);
    }

    /// Adds a command that belongs to no database.
    pub fn raw<'a>(&mut self, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
        push_command(&mut self.unit, argv);
        self.unit_commands += 1;
    }

    /// Adds a rewritten command.
    pub fn argv(&mut self, db: usize, argv: &Argv) {
        self.command(db, argv.iter().map(Vec::as_slice));
    }

    /// Whether the unit under way has commands.
    #[inline]
    pub(crate) fn has_unit(&self) -> bool {
        self.unit_commands > 0
    }

    /// Ends the unit.
    pub(crate) fn close_unit(&mut self, grouping: Grouping) {
        let wrap = self.unit_commands > 1 && grouping == Grouping::Transaction;
        let before = self.pending.len();
        if wrap {
            push_command(&mut self.pending, [&b"MULTI"[..]].into_iter());
        }
        self.pending.append(&mut self.unit);
        if wrap {
            push_command(&mut self.pending, [&b"EXEC"[..]].into_iter());
        }
        self.offset += (self.pending.len() - before) as u64;
        self.unit_commands = 0;
        if self.unit.capacity() > BUFFER_KEPT_BYTES {
            self.unit = Vec::new();
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

/// Writes a command as a RESP array of bulk strings.
pub(crate) fn push_command<'a>(out: &mut Vec<u8>, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
    out.push(b'*');
    sluice_base::num::push_u64(out, argv.len() as u64);
    out.extend_from_slice(b"\r\n");
    for arg in argv {
        out.push(b'$');
        sluice_base::num::push_u64(out, arg.len() as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// Blocks whose memory is kept for the next ones: one is filled while the one before is sent.
const BLOCKS_KEPT: usize = 2;
/// A buffer is not kept beyond this size.
const BUFFER_KEPT_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(stream: &mut ReplicationStream) -> String {
        String::from_utf8(stream.take().to_vec()).unwrap()
    }

    #[test]
    fn select_stands_inside_a_transaction() {
        let mut stream = ReplicationStream::default();
        stream.command(0, [&b"DEL"[..], b"a"].into_iter());
        stream.command(0, [&b"DEL"[..], b"b"].into_iter());
        stream.close_unit(Grouping::Transaction);
        let text = text(&mut stream);
        let places = ["MULTI", "SELECT", "DEL", "EXEC"].map(|word| text.find(word).unwrap());
        assert!(places.is_sorted());
    }

    #[test]
    fn one_command_and_loose_ones_stand_alone() {
        let mut stream = ReplicationStream::default();
        stream.command(0, [&b"DEL"[..], b"a"].into_iter());
        stream.close_unit(Grouping::Transaction);
        stream.command(0, [&b"DEL"[..], b"b"].into_iter());
        stream.command(0, [&b"DEL"[..], b"c"].into_iter());
        stream.close_unit(Grouping::Loose);
        assert!(!text(&mut stream).contains("MULTI"));
    }

    #[test]
    fn select_stands_before_the_first_command_of_another_database() {
        let mut stream = ReplicationStream::default();
        for (db, key) in [(0, &b"a"[..]), (0, b"b"), (3, b"c")] {
            stream.command(db, [&b"DEL"[..], key].into_iter());
            stream.close_unit(Grouping::Transaction);
        }
        let offset = stream.offset;
        let text = text(&mut stream);
        assert_eq!(text.matches("SELECT").count(), 2);
        assert!(text.starts_with("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
        assert_eq!(offset, text.len() as u64);
    }

    #[test]
    fn a_block_is_used_again_once_nobody_holds_it() {
        let mut stream = ReplicationStream::default();
        let mut places = Vec::new();
        for _ in 0..8 {
            stream.raw([&b"ping"[..]].into_iter());
            stream.close_unit(Grouping::Transaction);
            places.push(stream.take().as_ptr());
        }
        places.sort_unstable();
        places.dedup();
        assert!(places.len() <= BLOCKS_KEPT + 1, "blocks in use: {}", places.len());
    }

    #[test]
    fn a_block_that_is_held_is_left_alone() {
        let mut stream = ReplicationStream::default();
        let mut held = Vec::new();
        for i in 0..8u8 {
            stream.raw([&[b'0' + i][..]].into_iter());
            stream.close_unit(Grouping::Transaction);
            held.push(stream.take());
        }
        for (i, block) in held.iter().enumerate() {
            assert!(block.ends_with(format!("{i}\r\n").as_bytes()));
        }
    }
}
