//! The stream of one export: whole commands in one order, from one producer to one consumer (A-82).
//!
//! ```text
//!  append ──► open ──► waiting: bytes, images ──make──► made: memory │ spool │ late ──take──► the link
//!                      (empty: straight to made)
//! ```
//!
//! An image, that is, a batch of captured entries, is formatted late, in slices, and later appends wait for
//! it. So commands leave in the order in which they were appended, and a large value does not stop the
//! server.
//!
//! Invariants: (1) the bytes taken so far are always a prefix of a sequence of whole commands, each in the
//! database of the SELECT before it; (2) the parts of `made` are in order: `memory`, spool, `late`; only
//! [`ExportStream::settle`] gives bytes to the spool; (3) at most `MEMORY_MAX` of the made bytes are in
//! memory and the others in the spool, except the bytes of the current iteration and those that the disk has
//! not accepted.

use crate::process::{Process, SaveError};
use sluice_base::mistake::{Mistake, is_made};
use sluice_base::{Bytes, heap};
use sluice_keyspace::Captured;
use sluice_replication::{NextPiece, StreamSpool};
use sluice_resp::command::push_command;
use sluice_snapshot::{ValuePosition, write_commands};
use std::collections::VecDeque;

/// At most this many made bytes are kept in memory, not counting the bytes appended in the current iteration.
const MEMORY_MAX: usize = 4 << 20;
/// A walk continues while nothing is spooled and fewer bytes than this wait for the link. Even with one more
/// piece of small values the stream stays below `MEMORY_MAX`, so only changes, and values of several
/// megabytes, are spooled.
const AHEAD_MAX: usize = 2 << 20;
/// Bytes at which a block is closed; a single longer command exceeds it.
const BLOCK_BYTES: usize = 64 << 10;
/// Images (captured entries) of at most this weight, in bytes, are formatted at once if no other image
/// waits.
const SMALL_IMAGE: usize = 16 << 10;

/// The commands of one export, formatted and spooled on demand.
#[derive(Default)]
pub struct ExportStream {
    /// The block that is being appended to.
    open: Vec<u8>,
    waiting: VecDeque<WaitingPart>,
    /// Bytes of `waiting`, with the estimated bytes of unformatted images.
    waiting_bytes: usize,
    /// Bytes of `waiting` without images.
    changes_bytes: usize,
    memory: VecDeque<Bytes>,
    memory_bytes: usize,
    spool: Option<Box<dyn StreamSpool>>,
    /// Bytes in the spool that have not been taken.
    spooled_bytes: u64,
    /// The spool is reading its next bytes, and will wake the event loop when it has them.
    spool_is_asked: bool,
    late: VecDeque<Bytes>,
    late_bytes: usize,
    /// The database selected at the end of the stream; `None` before the first SELECT.
    selected: Option<usize>,
    /// Bytes taken so far.
    taken: u64,
    /// The reason for which the stream cannot continue.
    failure: Option<String>,
}

/// An unformatted image, or a block that follows one.
enum WaitingPart {
    Bytes(Vec<u8>),
    Image(EntryImages),
}

/// Captured entries that are being formatted as commands.
struct EntryImages {
    piece: Captured,
    /// Number of entries completely formatted.
    done: usize,
    /// Position in the next entry.
    at: ValuePosition,
}

impl ExportStream {
    /// Appends a command for database `db`. Returns the number of appended bytes.
    pub fn append<'a>(&mut self, db: usize, argv: impl ExactSizeIterator<Item = &'a [u8]>) -> usize {
        let before = self.open.len();
        self.select(db);
        push_command(&mut self.open, argv);
        let bytes = self.open.len() - before;
        self.close_full_block();
        bytes
    }

    /// Appends encoded commands for database `db`. Returns the number of appended bytes.
    pub fn append_encoded(&mut self, db: usize, commands: &[u8]) -> usize {
        let before = self.open.len();
        self.select(db);
        self.open.extend_from_slice(commands);
        let bytes = self.open.len() - before;
        self.close_full_block();
        bytes
    }

    /// Appends a protocol message for the other node. Such a message does not depend on the selected
    /// database.
    pub fn say(&mut self, word: &[u8]) {
        push_command(&mut self.open, [&b"CLUSTER"[..], b"SYNCSLOTS", word].into_iter());
    }

    /// Appends SNAPSHOT-EOF: all keys are in the stream. The next command selects its database again,
    /// because targets differ after SNAPSHOT-EOF: a Sluice node continues in database 0, where the changes of
    /// a Valkey source begin, and a Valkey node in the database of the last key.
    pub(super) fn end_snapshot(&mut self) {
        self.say(b"SNAPSHOT-EOF");
        self.selected = None;
    }

    /// Appends the commands that create these entries.
    pub fn append_images(&mut self, piece: Captured) {
        self.select(piece.number());
        let is_small = piece.weight() <= SMALL_IMAGE && self.waiting.is_empty();
        let mut images = EntryImages { piece, done: 0, at: ValuePosition::START };
        if is_small {
            // A small image is formatted completely, even if the block becomes longer than `BLOCK_BYTES`.
            images.format(&mut self.open, usize::MAX, &mut || false);
            return self.close_full_block();
        }
        self.close_block();
        self.waiting_bytes += images.piece.weight();
        self.waiting.push_back(WaitingPart::Image(images));
    }

    fn select(&mut self, db: usize) {
        let is_forgotten = self.selected.is_some() && is_made(Mistake::StreamOfOneDatabase);
        if self.selected != Some(db) && !is_forgotten {
            self.selected = Some(db);
            push_command(&mut self.open, [&b"SELECT"[..], db.to_string().as_bytes()].into_iter());
        }
    }

    fn close_full_block(&mut self) {
        if self.open.len() >= BLOCK_BYTES {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let block = std::mem::take(&mut self.open);
        if self.waiting.is_empty() {
            self.made(block);
        } else {
            self.waiting_bytes += block.len();
            self.changes_bytes += block.len();
            self.waiting.push_back(WaitingPart::Bytes(block));
        }
    }

    fn made(&mut self, block: Vec<u8>) {
        self.late_bytes += block.len();
        self.late.push_back(Bytes::from_vec(block));
    }

    /// Formats waiting parts until `is_over` returns true; `is_over` is called after commands of an image, so
    /// at least one command is formatted. Returns whether parts are left.
    pub fn make(&mut self, is_over: &mut dyn FnMut() -> bool) -> bool {
        while let Some(part) = self.waiting.pop_front() {
            match part {
                WaitingPart::Bytes(block) => {
                    self.waiting_bytes -= block.len();
                    self.changes_bytes -= block.len();
                    self.made(block);
                }
                WaitingPart::Image(mut images) => {
                    let mut block = Vec::new();
                    let mut stops = false;
                    let is_whole = images.format(&mut block, BLOCK_BYTES, &mut || {
                        stops = stops || is_over();
                        stops
                    });
                    let weight = images.piece.weight();
                    if !block.is_empty() {
                        self.made(block);
                    }
                    if !is_whole {
                        self.waiting.push_front(WaitingPart::Image(images));
                        if stops {
                            return true;
                        }
                        continue;
                    }
                    self.waiting_bytes -= weight;
                    if stops {
                        break;
                    }
                }
            }
        }
        !self.waiting.is_empty()
    }

    /// Whether nothing waits to be formatted or spooled, and the stream has not failed.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.late.is_empty() && self.failure.is_none()
    }

    /// Bytes of changes that wait in memory until the unformatted image ahead of them is formatted; the spool
    /// takes them only then.
    pub fn changes_that_wait(&self) -> usize {
        self.changes_bytes
    }

    /// Whether a part waits to be formatted.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Gives the bytes above `MEMORY_MAX` to the process's spool. Must be called once an iteration.
    pub fn settle(&mut self, process: &mut dyn Process) {
        if self.waiting.is_empty() {
            self.close_full_block();
        }
        while self.spooled_bytes == 0
            && let Some(block) = self.late.pop_front_if(|block| self.memory_bytes + block.len() <= MEMORY_MAX)
        {
            self.late_bytes -= block.len();
            self.memory_bytes += block.len();
            self.memory.push_back(block);
        }
        if self.late.is_empty() {
            return;
        }
        if self.spool.is_none() {
            match process.spool_stream(1) {
                Ok(spool) => self.spool = Some(spool),
                Err(SaveError(line)) => self.failure = Some(line),
            }
        }
        let Some(spool) = &mut self.spool else { return };
        for block in self.late.drain(..) {
            self.spooled_bytes += block.len() as u64;
            spool.give(block);
        }
        self.late_bytes = 0;
        if let Some(line) = spool.warning() {
            self.failure.get_or_insert(line);
        }
    }

    /// Removes and returns the next bytes for the link; `None` if there are none at present.
    pub fn take(&mut self) -> Option<Bytes> {
        let block = self.next_block()?;
        self.taken += block.len() as u64;
        Some(block)
    }

    fn next_block(&mut self) -> Option<Bytes> {
        if let Some(block) = self.memory.pop_front() {
            self.memory_bytes -= block.len();
            return Some(block);
        }
        if self.spooled_bytes > 0 {
            return match self.spool.as_mut()?.next(0) {
                NextPiece::Piece(block) => {
                    self.spool_is_asked = false;
                    self.spooled_bytes = self.spooled_bytes.saturating_sub(block.len() as u64);
                    Some(block)
                }
                NextPiece::Later => {
                    self.spool_is_asked = true;
                    None
                }
                NextPiece::End | NextPiece::Failed => {
                    self.failure.get_or_insert_with(|| UNREADABLE.to_owned());
                    None
                }
            };
        }
        if let Some(block) = self.late.pop_front() {
            self.late_bytes -= block.len();
            return Some(block);
        }
        let is_whole = self.waiting.is_empty() && !self.open.is_empty();
        is_whole.then(|| Bytes::from_vec(std::mem::take(&mut self.open)))
    }

    /// Whether [`ExportStream::take`] may return bytes now. Bytes that the spool is reading arrive with
    /// an event of their own.
    pub fn may_be_taken(&self) -> bool {
        if !self.memory.is_empty() {
            return true;
        }
        match self.spooled_bytes > 0 {
            true => !self.spool_is_asked && self.failure.is_none(),
            false => !self.late.is_empty() || self.waiting.is_empty() && !self.open.is_empty(),
        }
    }

    /// Bytes not yet taken, with the estimated bytes of unformatted images.
    pub fn unsent_bytes(&self) -> u64 {
        let here = self.memory_bytes + self.late_bytes + self.waiting_bytes + self.open.len();
        here as u64 + self.spooled_bytes
    }

    /// Bytes taken so far.
    pub fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// Bytes of memory of the stream, with the estimated formatted size of images.
    pub fn memory_bytes(&self) -> usize {
        let spool = self.spool.as_ref().map_or(0, |spool| spool.memory_bytes());
        self.memory_bytes + self.late_bytes + self.waiting_bytes + heap::vec(&self.open) + spool
    }

    /// Whether the link has enough data to send, so that a walk should wait. Keys not yet walked cost no
    /// memory and no disk, and changes of a slot whose walk has not begun need not be sent.
    pub fn is_behind(&self) -> bool {
        self.spooled_bytes > 0 || self.memory_bytes + self.late_bytes + self.waiting_bytes >= AHEAD_MAX
    }

    /// Removes and returns the reason for which the stream cannot continue.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }
}

impl EntryImages {
    /// Formats entries until `out` has `bytes_max` bytes or `is_over` returns true. Returns whether
    /// all are complete.
    fn format(&mut self, out: &mut Vec<u8>, bytes_max: usize, is_over: &mut dyn FnMut() -> bool) -> bool {
        let EntryImages { piece, done, at } = self;
        for entry in piece.iter().skip(*done) {
            let mut stop = |out: &mut Vec<u8>| out.len() >= bytes_max || is_over();
            match write_commands(entry.key(), entry.value(), entry.expiry(), *at, out, &mut stop) {
                Some(position) => {
                    *at = position;
                    return false;
                }
                None => (*done, *at) = (*done + 1, ValuePosition::START),
            }
            if out.len() >= bytes_max {
                return *done == piece.len();
            }
        }
        true
    }
}

/// The failure of an export whose scratch file cannot be read.
const UNREADABLE: &str = "The stream of a slot migration cannot be read back from its scratch file";
