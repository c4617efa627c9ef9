//! The append-only file (AOF) as the engine sees it: bytes to append, and the position up to which they
//! are durable. The process owns the file.
//!
//! ```text
//!  command ──► unit (`UnitCommands`) ──close──► pending ──taken, once an iteration──► the process: write, fsync
//!                                       │                                                  │
//!                                       └── position: its end          durable ◄── reported ┘
//! ```
//!
//! A *unit* is a command, a transaction or a script with all its changes. Commands of a unit may be
//! *promised*: their length is added to the position at execution, and their bytes are made later in slices.
//! Until such a unit is complete, the process receives neither its bytes nor those of the units after it.
//!
//! A *position* counts all bytes appended since the start of the process, in whatever file they are.
//!
//! Invariants: (1) whole units are appended, in the order in which they close; (2) the first command in each
//! file is SELECT, because each file is loaded on its own; (3) the offset of the replication stream does not
//! count these bytes; (4) under `appendfsync always` each reply has a position that must be durable before
//! the reply is sent (`Engine::output_position`): the end of the last unit that wrote data the command has
//! read, or the end of the command's own unit; (5) without `always`, (4) costs a command nothing, because the
//! check before each command (the gate, `engine/src/exec/gate.rs`) then skips it: the bit
//! `NOTES_DURABILITY` is off.

use crate::process::AofBacklog;
use sluice_base::Epoch;
use sluice_base::SessionKey;
use sluice_base::mistake::{self, Mistake};
use sluice_base::{Now, heap};
use sluice_command::derive::keys::{key_row, keys};
use sluice_command::specs::{generic, scripting, transactions};
use sluice_command::{Flags, Spec, is_word};
use sluice_commands::Args;
use sluice_keyspace::{Key, KeyHasher, Keyspace, PromisedCommands};
use sluice_persist::aof::{NO_HISTORY, ReplicationNote};
use sluice_replication::ReplicationStream;
use sluice_replication::{Audience, Grouping, UnitCommands};
use sluice_scripts::shebang::runs_script;
use sluice_value::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The stream of bytes for the append-only file.
#[derive(Debug, Default)]
pub struct AofStream {
    /// The epoch of the control plane. This stream advances it when the file is turned on or off, and when
    /// the process reports a fault or its backlog.
    epoch: Epoch,
    is_on: bool,
    /// Database selected at the end of the file; `None` at the start of a file.
    selected: Option<usize>,
    /// Bytes of closed units, not yet taken, up to the first promised unit.
    pending: Vec<u8>,
    /// Promised units, each with the units that follow it.
    promised: VecDeque<PromisedUnit>,
    /// Position of the end of everything appended so far: units and history notes.
    position: u64,
    /// Position of the end of the taken bytes.
    taken: u64,
    /// Time of the last timestamp in the file, in Unix seconds.
    stamped_s: Option<i64>,
    /// Replication id and offset in the file's last history note (see [`AofStream::note_history`]).
    noted: Option<([u8; 40], u64)>,
    /// The database selected by the replication stream, according to the file's last note.
    noted_db: Option<usize>,
    /// Whether units were appended after the last history note.
    has_unnoted: bool,
    /// A replication history existed when the file was begun, so the file's first unit already belongs to it.
    has_begun_in_history: bool,
    /// Position of each key's last write; present only under `appendfsync always`.
    written_at: Option<Box<WrittenAt>>,
    /// The last reports of the process.
    report: AofReport,
    /// Sessions whose output waits, by the position that must become durable; some may no longer exist.
    awaited: BTreeMap<u64, Vec<SessionKey>>,
}

/// A unit with commands whose bytes are made later.
#[derive(Debug)]
struct PromisedUnit {
    /// The bytes made so far; the vector has capacity for the whole unit.
    made: Vec<u8>,
    commands: PromisedCommands,
    /// The bytes after the promised commands in the unit.
    end: Vec<u8>,
    /// Bytes of the units that follow, up to the next promised one.
    following: Vec<u8>,
}

impl PromisedUnit {
    fn is_whole(&self) -> bool {
        self.commands.left() == 0
    }
}

/// The state of the append-only file, as reported by the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AofReport {
    /// Everything up to this position is durable.
    pub durable: u64,
    /// The operating system's error because of which nothing can be written at present; `None` if writing
    /// works.
    pub fault: Option<String>,
    /// Whether the process accepts more bytes.
    pub backlog: AofBacklog,
}

/// The position of the last write of each key, by hash. Several keys share an entry of the table, so a
/// reply may wait for the write of another key, but never too briefly.
#[derive(Debug)]
struct WrittenAt {
    slots: Box<[u64]>,
    /// Position of the last write without a key, or of the beginning of this table: it counts as a write of
    /// every key.
    floor: u64,
    /// Table indexes of keys that the open unit has written.
    touched: Vec<u16>,
    /// The open unit has made a write without a key.
    touched_all: bool,
}

/// Number of entries of the table, which takes 512 KiB. With a million written keys a second and 100 µs an
/// fsync, about 100 entries await durability at a time, so few replies wait for the write of another key.
const SLOTS: usize = 1 << 16;

impl WrittenAt {
    fn new(floor: u64) -> WrittenAt {
        let slots = vec![0; SLOTS].into_boxed_slice();
        WrittenAt { slots, floor, touched: Vec::new(), touched_all: false }
    }

    fn slot_of(hash: u64) -> u16 {
        // The keyspace's hash tables use the lowest bits of a hash as index and the highest ones as tag. This
        // table may use any 16 bits.
        (hash >> 16) as u16
    }

    fn of(&self, hash: u64) -> u64 {
        self.slots[usize::from(Self::slot_of(hash))].max(self.floor)
    }

    fn close_unit(&mut self, end: u64) {
        for slot in self.touched.drain(..) {
            self.slots[usize::from(slot)] = end;
        }
        if std::mem::take(&mut self.touched_all) {
            self.floor = end;
        }
    }
}

impl AofStream {
    pub(crate) fn new(epoch: Epoch) -> AofStream {
        AofStream { epoch, ..AofStream::default() }
    }

    /// Bytes of heap memory that the stream takes.
    pub fn footprint(&self) -> usize {
        let written_at = self.written_at.as_deref().map_or(0, |written_at| {
            heap::boxed::<WrittenAt>()
                + heap::block(SLOTS * size_of::<u64>())
                + heap::vec(&written_at.touched)
        });
        let entry = size_of::<(u64, Vec<SessionKey>)>() + size_of::<SessionKey>();
        self.promised_bytes() + heap::vec(&self.pending) + written_at + self.awaited.len() * entry
    }

    /// Bytes of heap memory that promised units and the units after them take. Cost: O(promises).
    pub fn promised_bytes(&self) -> usize {
        let unit = |unit: &PromisedUnit| {
            heap::vec(&unit.made)
                + heap::vec(&unit.end)
                + heap::vec(&unit.following)
                + unit.commands.heap_bytes()
        };
        heap::deque(&self.promised) + self.promised.iter().map(unit).sum::<usize>()
    }

    /// Whether the append-only file is on, so that units are appended.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Turns the file on: units are appended from the next one on. The file is empty or ends with
    /// a whole unit.
    pub fn begin(&mut self) {
        self.is_on = true;
        self.epoch.advance();
    }

    /// Turns the file off. Pending bytes can still be taken.
    pub fn end(&mut self) {
        self.is_on = false;
        self.epoch.advance();
    }

    /// Begins another file with the next unit; all bytes of the previous file were taken. `stream` shows
    /// whether a replication history exists now.
    pub fn begin_file(&mut self, stream: &ReplicationStream) {
        debug_assert!(self.taken == self.position);
        self.has_begun_in_history = stream.point().is_some();
        self.selected = None;
        self.stamped_s = None;
        self.noted = None;
        self.noted_db = None;
    }

    /// Whether replies wait until writes are durable (`appendfsync always`).
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.written_at.is_some()
    }

    /// Sets whether replies wait until writes are durable; they never do while the file is off.
    pub fn set_strict(&mut self, strict: bool) {
        let strict = strict && self.is_on;
        if strict != self.is_strict() {
            // The new table counts the present position as every key's last write, because earlier writes
            // may not be durable yet.
            self.written_at = strict.then(|| Box::new(WrittenAt::new(self.position)));
        }
    }

    /// Position of the end of everything appended so far.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether everything up to this position is on disk; false while the file is off.
    #[inline]
    pub fn is_durable(&self, position: u64) -> bool {
        self.is_on && self.report.durable >= position
    }

    /// Makes the output of a session wait until this position is durable.
    pub fn await_durable(&mut self, position: u64, key: SessionKey) {
        self.awaited.entry(position).or_default().push(key);
    }

    /// Removes and returns a session whose output waited for a position up to `durable`.
    #[inline]
    pub fn take_durable(&mut self, durable: u64) -> Option<SessionKey> {
        loop {
            let mut first = self.awaited.first_entry().filter(|first| *first.key() <= durable)?;
            match first.get_mut().pop() {
                Some(key) => return Some(key),
                None => drop(first.remove()),
            }
        }
    }

    /// The last reports of the process.
    #[inline]
    pub fn report(&self) -> &AofReport {
        &self.report
    }

    /// Records that everything up to this position is on disk. Returns whether the position is new.
    #[inline]
    pub fn report_durable(&mut self, position: u64) -> bool {
        let is_news = position > self.report.durable;
        if is_news {
            self.report.durable = position;
        }
        is_news
    }

    /// Records the operating system's error because of which nothing can be written, or `None` when writing
    /// is possible again.
    pub fn report_fault(&mut self, fault: Option<String>) {
        self.report.fault = fault;
        self.epoch.advance();
    }

    /// Records whether the disk keeps up. Returns the previous report.
    pub fn report_backlog(&mut self, backlog: AofBacklog) -> AofBacklog {
        self.epoch.advance();
        std::mem::replace(&mut self.report.backlog, backlog)
    }

    /// Appends a closed unit if the file is on and the unit changes data. With `stamp`, a timestamp precedes
    /// the unit if its second is later than the last timestamp's.
    pub fn add_unit(&mut self, unit: &UnitCommands, grouping: Grouping, stamp: Option<Now>) {
        if !self.is_on || !unit.changes_data() {
            return;
        }
        self.has_unnoted = true;
        let out = self.promised.back_mut().map_or(&mut self.pending, |unit| &mut unit.following);
        let before = out.len();
        if let Some(now) = stamp
            && self.stamped_s.is_none_or(|last_s| now.unix_s() > last_s)
        {
            self.stamped_s = Some(now.unix_s());
            out.extend_from_slice(format!("#TS:{}\r\n", now.unix_s()).as_bytes());
        }
        let promised = unit.write_to(Audience::File, grouping, &mut self.selected, out);
        let mut bytes = out.len() - before;
        if let Some((at, commands)) = promised {
            bytes += commands.left();
            let end = out.split_off(at);
            let mut made = Vec::with_capacity(bytes);
            made.extend(out.drain(before..));
            self.promised.push_back(PromisedUnit { made, commands, end, following: Vec::new() });
        }
        self.position += bytes as u64;
        if let Some(written_at) = &mut self.written_at {
            written_at.close_unit(self.position);
        }
    }

    /// Appends a note that says which offset of the replication history the data have reached after all units
    /// so far. A restart reads it. When a file ends with a unit that no note follows, the offset of its data
    /// is unknown. A note must therefore be taken by the process together with the units before it.
    pub fn note_history(&mut self, stream: &ReplicationStream) {
        let Some(point) = stream.point().filter(|_| self.is_on) else { return };
        let Ok(id) = point.replid.as_bytes().try_into() else { return };
        if self.noted == Some((id, point.offset)) && !self.has_unnoted {
            return;
        }
        let out = self.promised.back_mut().map_or(&mut self.pending, |unit| &mut unit.following);
        let before = out.len();
        if self.noted.is_none() && !self.has_begun_in_history && self.report.fault.is_none() {
            // The replication history begins at this point of the file. Without this note, the later notes
            // would look like the continuation of a history whose earlier part is missing, as after a failed
            // sync of the previous file.
            ReplicationNote::Id(NO_HISTORY).push(out);
        }
        if self.noted.is_none_or(|(known, _)| known != id) {
            ReplicationNote::Id(id).push(out);
        }
        // A primary notes the database, too, because it may be a replica when it loads the file; the next
        // commands of its own primary then belong in this database.
        let is_left_out = mistake::is_made(Mistake::DbNotNoted) && !stream.has_primary();
        if self.noted_db != Some(point.db) && !is_left_out {
            self.noted_db = Some(point.db);
            ReplicationNote::Db(point.db as u64).push(out);
        }
        ReplicationNote::Offset(point.offset).push(out);
        self.position += (out.len() - before) as u64;
        self.noted = Some((id, point.offset));
        self.has_unnoted = false;
    }

    /// Whether bytes are promised and not yet made.
    #[inline]
    pub fn has_promises(&self) -> bool {
        // The last unit decides, because units are completed in order.
        self.promised.back().is_some_and(|unit| !unit.is_whole())
    }

    /// Number of bytes promised and not yet made. Cost: O(promises).
    pub fn promised_left(&self) -> usize {
        self.promised.iter().map(|unit| unit.commands.left()).sum()
    }

    /// Makes about `bytes` of the promised bytes, oldest first. Values that are no longer needed are moved to
    /// `garbage`.
    pub fn keep_promises(&mut self, bytes: usize, garbage: &mut Vec<Value>) {
        let mut left = bytes;
        for unit in self.promised.iter_mut().filter(|unit| !unit.is_whole()) {
            while left > 0 && !unit.is_whole() {
                let before = unit.made.len();
                unit.commands.go_on(left, &mut unit.made, garbage);
                left = left.saturating_sub(unit.made.len() - before);
            }
            if !unit.is_whole() {
                return;
            }
            unit.made.append(&mut unit.end);
        }
    }

    /// Takes all bytes, after making the promised ones: see `Engine::take_aof`.
    pub fn take(&mut self, buffer: &mut Vec<u8>) -> Option<Range<u64>> {
        self.keep_promises(usize::MAX, &mut Vec::new());
        let start = self.taken;
        while let Some((bytes, _)) = self.take_made(Vec::new) {
            match buffer.is_empty() {
                true => *buffer = bytes,
                false => buffer.extend_from_slice(&bytes),
            }
        }
        (self.taken > start).then_some(start..self.taken)
    }

    /// Takes bytes that are already made: see `Engine::take_made_aof`.
    pub fn take_made(&mut self, buffer: impl FnOnce() -> Vec<u8>) -> Option<(Vec<u8>, Range<u64>)> {
        let bytes = match self.promised.front() {
            _ if !self.pending.is_empty() => std::mem::replace(&mut self.pending, buffer()),
            Some(unit) if unit.is_whole() => {
                let unit = self.promised.pop_front()?;
                self.pending = unit.following;
                unit.made
            }
            Some(_) | None => return None,
        };
        let start = self.taken;
        self.taken += bytes.len() as u64;
        Some((bytes, start..self.taken))
    }

    /// Records that the open unit has written a key.
    #[inline]
    pub fn note_key(&mut self, hash: u64) {
        if let Some(written_at) = &mut self.written_at {
            written_at.touched.push(WrittenAt::slot_of(hash));
        }
    }

    /// Records that the open unit has run a writing command.
    pub fn note_command(&mut self, args: &Args<'_>) {
        let Some(written_at) = &mut self.written_at else { return };
        let touched = &mut written_at.touched;
        let found = args
            .spec()
            .map(|spec| for_each_key(spec, *args, |key| touched.push(WrittenAt::slot_of(key.hash))));
        // A command with `ReadsBeyond` reads keys that are not among its arguments, but changes only keys
        // among them.
        written_at.touched_all |= !matches!(found, Some(KeysFound::Some | KeysFound::ReadsBeyond));
    }

    /// The position that must be durable before the reply of a command that is about to run, not counting the
    /// command's own changes: the position of the last write of any of its keys; for a command that shows
    /// libraries, that of the last write without a key; or the end of the stream if the command reads more
    /// than its keys. 0 for a script, for a command that reads no data, and without `appendfsync always`.
    pub fn needed_by(&self, spec: &Spec, args: Args<'_>) -> u64 {
        let Some(written_at) = &self.written_at else { return 0 };
        if shows_libraries(spec) {
            return written_at.floor;
        }
        // A script itself waits for nothing; the commands that it calls determine how long its reply waits.
        if runs_script(spec) {
            return 0;
        }
        let mut needed = 0;
        let looks_beyond =
            spec.flags.has_any(Flags::PUBSUB.or(Flags::PROTECTED)) || spec.id == transactions::EXEC.id;
        match for_each_key(spec, args, |key| needed = needed.max(written_at.of(key.hash))) {
            KeysFound::Some if !looks_beyond => needed,
            KeysFound::None if !looks_beyond && !spec.flags.has_any(Flags::READONLY.or(Flags::WRITE)) => 0,
            KeysFound::Some | KeysFound::ReadsBeyond | KeysFound::None | KeysFound::Invalid => self.position,
        }
    }
}

/// Whether a command's reply depends on the libraries of functions. Changes of libraries are writes
/// without a key.
pub fn shows_libraries(spec: &Spec) -> bool {
    let commands = [
        &scripting::FCALL,
        &scripting::FCALL_RO,
        &scripting::FUNCTION_DUMP,
        &scripting::FUNCTION_LIST,
        &scripting::FUNCTION_STATS,
    ];
    commands.iter().any(|command| command.id == spec.id)
}

/// The result of looking for the keys of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysFound {
    /// All keys of the call were visited.
    Some,
    /// The call may also read keys that are named only by the data, not by the arguments.
    ReadsBeyond,
    /// The call has no keys.
    None,
    /// The arguments do not determine the keys.
    Invalid,
}

/// Whether a call may read keys named only by the data: SORT with a pattern in BY or GET.
pub fn reads_beyond(spec: &Spec, args: &[&[u8]]) -> bool {
    let is_sort = spec.id == generic::SORT.id || spec.id == generic::SORT_RO.id;
    let is_pattern =
        |pair: &[&[u8]]| (is_word(pair[0], "BY") || is_word(pair[0], "GET")) && pair[1].contains(&b'*');
    is_sort && args.windows(2).any(is_pattern)
}

/// Visits each key among the arguments of a call.
pub fn for_each_key<'a>(spec: &Spec, args: Args<'a>, mut visit: impl FnMut(Key<'a>)) -> KeysFound {
    // The usual case of a read: one key and nothing else.
    if args.len() == 2 && key_row(spec).first(2) == Some(1) {
        visit(args.key(1));
        return KeysFound::Some;
    }
    let all: Vec<&[u8]> = args.iter_from(0).collect();
    let mut found = Vec::new();
    if keys(spec, &all, &mut found).is_err() {
        return KeysFound::Invalid;
    }
    found.iter().for_each(|(index, _)| visit(args.key(*index)));
    match found.is_empty() {
        true => KeysFound::None,
        false if reads_beyond(spec, &all) => KeysFound::ReadsBeyond,
        false => KeysFound::Some,
    }
}

/// The hash of a key that is not an argument.
pub fn hash_of(keyspace: &Keyspace, key: &[u8]) -> u64 {
    let hasher: KeyHasher = keyspace.hasher();
    hasher.hash(key)
}
