//! The stream of one export: whole commands in one order, from one producer to one consumer (A-82).
//!
//! ```text
//!  append ──► open ──► waiting: bytes, images ──make──► made: memory │ spool │ late ──take──► the link
//!                      (empty: straight to made)
//! ```
//!
//! An image of entries is formatted late, in slices, and later appends wait for the image: so the
//! order is that of the appends, and a large value stops nobody.
//!
//! Invariants: (1) what was taken is at any moment the begin of a sequence of whole commands, each in the
//! database that the SELECT ahead of it names; (2) the parts of `made` are in order: `memory` ahead of the
//! spool, `late` after the spool; bytes are given to the spool by [`ExportStream::settle`] alone; (3) what
//! is more than [`MEMORY_MAX`] bytes is in the spool, but for the bytes of the iteration under way and those
//! that the disk has not taken.

use crate::process::{Process, SaveError};
use sluice_base::mistake::{Mistake, is_made};
use sluice_base::{Bytes, heap};
use sluice_keyspace::Captured;
use sluice_replication::{NextPiece, StreamSpool};
use sluice_resp::command::push_command;
use sluice_snapshot::{ValuePosition, write_commands};
use std::collections::VecDeque;

/// Bytes that are kept in memory, those of the iteration under way apart.
const MEMORY_MAX: usize = 4 << 20;
/// A walk goes on while the link has less than this to take: with another piece of small values it is less
/// than [`MEMORY_MAX`], so that changes and values of megabytes alone are spooled.
const AHEAD_MAX: usize = 2 << 20;
/// Bytes of a block, but for one command that is longer.
const BLOCK_BYTES: usize = 64 << 10;
/// Entries that weigh less are formatted at once.
const SMALL_IMAGE: usize = 16 << 10;

/// See the module.
#[derive(Default)]
pub struct ExportStream {
    /// What is appended to last.
    open: Vec<u8>,
    waiting: VecDeque<WaitingPart>,
    /// Bytes of `waiting`: those of images as if they were formatted.
    waiting_bytes: usize,
    /// Bytes of `waiting` without images.
    changes_bytes: usize,
    memory: VecDeque<Bytes>,
    memory_bytes: usize,
    spool: Option<Box<dyn StreamSpool>>,
    /// Bytes in the spool that were not taken.
    spooled_bytes: u64,
    /// The spool was asked for its next bytes, and wakes the event loop when it has them.
    spool_is_asked: bool,
    late: VecDeque<Bytes>,
    late_bytes: usize,
    /// The database of what is appended next.
    selected: Option<usize>,
    /// Bytes that were taken so far.
    taken: u64,
    /// Why the stream has ended early.
    failure: Option<String>,
}

/// A part of the stream that is not formatted, or comes after such a part.
enum WaitingPart {
    Bytes(Vec<u8>),
    Image(EntryImages),
}

/// Captured entries on their way to be commands.
struct EntryImages {
    piece: Captured,
    /// Entries that are whole.
    done: usize,
    /// Where the next one stands.
    at: ValuePosition,
}

impl ExportStream {
    /// Appends a command of database `db`; how many bytes that were.
    pub fn append<'a>(&mut self, db: usize, argv: impl ExactSizeIterator<Item = &'a [u8]>) -> usize {
        let before = self.open.len();
        self.select(db);
        push_command(&mut self.open, argv);
        let bytes = self.open.len() - before;
        self.close_full_block();
        bytes
    }

    /// Appends commands of database `db` that are encoded.
    pub fn append_encoded(&mut self, db: usize, commands: &[u8]) -> usize {
        let before = self.open.len();
        self.select(db);
        self.open.extend_from_slice(commands);
        let bytes = self.open.len() - before;
        self.close_full_block();
        bytes
    }

    /// Appends a word of one node to the other, which is of no database.
    pub fn say(&mut self, word: &[u8]) {
        push_command(&mut self.open, [&b"CLUSTER"[..], b"SYNCSLOTS", word].into_iter());
    }

    /// Says that all images are in the stream. What follows names its database anew: the other node goes on
    /// in database 0 (ours, because a stock source begins its changes there), or in that of the last image
    /// (stock).
    pub(super) fn end_snapshot(&mut self) {
        self.say(b"SNAPSHOT-EOF");
        self.selected = None;
    }

    /// Appends the commands that make these entries.
    pub fn append_images(&mut self, piece: Captured) {
        self.select(piece.number());
        let is_small = piece.weight() <= SMALL_IMAGE && self.waiting.is_empty();
        let mut images = EntryImages { piece, done: 0, at: ValuePosition::START };
        if is_small {
            // Whole, whatever the block has already.
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

    /// Formats what waits, until `is_over` says that the time is up, which is asked after each command; at
    /// least one command. Whether more waits.
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

    /// Whether nothing is to be formatted or spooled.
    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.late.is_empty() && self.failure.is_none()
    }

    /// Bytes of changes that wait in memory for an image in front of them: the spool takes them only once the
    /// image is formatted.
    pub fn changes_that_wait(&self) -> usize {
        self.changes_bytes
    }

    /// Whether something waits to be formatted.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has the process keep what is more than memory is for. To be called once an iteration.
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

    /// The next bytes for the link; `None`: nothing now.
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

    /// Whether [`ExportStream::take`] may have bytes now: those that the spool is about to read come with an
    /// event of their own.
    pub fn may_be_taken(&self) -> bool {
        if !self.memory.is_empty() {
            return true;
        }
        match self.spooled_bytes > 0 {
            true => !self.spool_is_asked && self.failure.is_none(),
            false => !self.late.is_empty() || self.waiting.is_empty() && !self.open.is_empty(),
        }
    }

    /// Bytes that were not taken: those of images as if they were formatted.
    pub fn unsent_bytes(&self) -> u64 {
        let here = self.memory_bytes + self.late_bytes + self.waiting_bytes + self.open.len();
        here as u64 + self.spooled_bytes
    }

    /// Bytes that were taken so far.
    pub fn taken_bytes(&self) -> u64 {
        self.taken
    }

    /// Bytes of the stream that take memory: of values that images share, what their formatting will take.
    pub fn memory_bytes(&self) -> usize {
        let spool = self.spool.as_ref().map_or(0, |spool| spool.memory_bytes());
        self.memory_bytes + self.late_bytes + self.waiting_bytes + heap::vec(&self.open) + spool
    }

    /// Whether the link has enough to take: a walk should wait. Keys that are not walked cost no memory and
    /// no disk, and the changes of a slot that has not begun need not be told.
    pub fn is_behind(&self) -> bool {
        self.spooled_bytes > 0 || self.memory_bytes + self.late_bytes + self.waiting_bytes >= AHEAD_MAX
    }

    /// Why the stream cannot go on, once.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }
}

impl EntryImages {
    /// Formats entries until `out` has so many bytes or `is_over`; whether all are whole.
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

/// The scratch file of a stream gives nothing back.
const UNREADABLE: &str = "The stream of a slot migration cannot be read back from its scratch file";
