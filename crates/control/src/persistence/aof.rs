//! The append-only file (AOF) as the engine knows it: bytes to append, and how far they are durable. The
//! process owns the file.
//!
//! ```text
//!  command ──► unit (`UnitCommands`) ──close──► pending ──taken, once an iteration──► the process: write, fsync
//!                                       │                                                  │
//!                                       └── position: its end          durable ◄── reported ┘
//! ```
//!
//! Commands of a unit may be *promised*: their length counts where they run, their bytes are made in slices.
//! The process is given nothing from the beginning of such a unit on before the unit is whole.
//!
//! A *position* counts all bytes that were ever appended, from the start of the process on, whatever file
//! they are in.
//!
//! Invariants: (1) whole units are appended, in the order in which they closed; (2) a file begins with
//! SELECT, because a file is loaded on its own; (3) the offset of the replication stream does not count these
//! bytes; (4) under `appendfsync always` each reply has a position that must be durable before the reply is
//! sent (`Engine::output_position`): the end of the last unit that wrote
//! what the command has read, or of the command's own unit; (5) without `always` no command pays for (4): the
//! gate's check `durable` is not armed.

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

/// See the module.
#[derive(Debug, Default)]
pub struct AofStream {
    /// Advanced where the file begins or ends, and with what is reported of the disk.
    epoch: Epoch,
    is_on: bool,
    /// Database selected in the file.
    selected: Option<usize>,
    /// Bytes of closed units that were not taken yet, up to the first one that is promised.
    pending: Vec<u8>,
    /// Promised units, each with the units that follow.
    promised: VecDeque<PromisedUnit>,
    /// End of the last unit.
    position: u64,
    /// End of what was taken.
    taken: u64,
    /// Time of the last annotation in the file, seconds since the epoch.
    stamped_s: Option<i64>,
    /// Where in the history of replication the file stands, by its last annotation: id, offset.
    noted: Option<([u8; 40], u64)>,
    /// The database that the primary's stream has selected, as the file says.
    noted_db: Option<usize>,
    /// Units were appended behind that annotation.
    has_unnoted: bool,
    /// There was a history when the file was begun: it is gone on in from the file's first record on.
    has_begun_in_history: bool,
    /// Which keys were written where; there under `appendfsync always` alone.
    written_at: Option<Box<WrittenAt>>,
    /// What the process has reported.
    report: AofReport,
    /// Sessions whose output waits, by the position that must be durable first; some of them may be gone.
    awaited: BTreeMap<u64, Vec<SessionKey>>,
}

/// A unit with commands whose bytes are made later.
#[derive(Debug)]
struct PromisedUnit {
    /// The unit's bytes as far as they are made, with room for all of them.
    made: Vec<u8>,
    commands: PromisedCommands,
    /// What follows the commands in the unit.
    end: Vec<u8>,
    /// Bytes of the units that follow, up to the next promised one.
    following: Vec<u8>,
}

impl PromisedUnit {
    fn is_whole(&self) -> bool {
        self.commands.left() == 0
    }
}

/// How far the append-only file is: reported by the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AofReport {
    /// Position up to which it is durable.
    pub durable: u64,
    /// Why nothing can be written just now: the system's reason.
    pub fault: Option<String>,
    /// Whether more may be appended.
    pub backlog: AofBacklog,
}

/// The position of the last write of each key, by the key's hash. Keys share slots of this table: a reply may
/// wait for a write of another key, never too short.
#[derive(Debug)]
struct WrittenAt {
    slots: Box<[u64]>,
    /// Every slot counts as this position at least.
    floor: u64,
    /// Slots whose keys the unit under way has written.
    touched: Vec<u16>,
    /// The unit under way has written what no key names.
    touched_all: bool,
}

/// Slots of the table: 512 KiB. A client that writes a million keys a second at 100 µs an fsync has about 100
/// of them open.
const SLOTS: usize = 1 << 16;

impl WrittenAt {
    fn new(floor: u64) -> WrittenAt {
        let slots = vec![0; SLOTS].into_boxed_slice();
        WrittenAt { slots, floor, touched: Vec::new(), touched_all: false }
    }

    fn slot_of(hash: u64) -> u16 {
        // The index of a table takes the lower bits of a hash and its tags the upper ones: any 16 bits do
        // here.
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

    /// Bytes that the allocator has given.
    pub fn footprint(&self) -> usize {
        let written_at = self.written_at.as_deref().map_or(0, |written_at| {
            heap::boxed::<WrittenAt>()
                + heap::block(SLOTS * size_of::<u64>())
                + heap::vec(&written_at.touched)
        });
        let entry = size_of::<(u64, Vec<SessionKey>)>() + size_of::<SessionKey>();
        self.promised_bytes() + heap::vec(&self.pending) + written_at + self.awaited.len() * entry
    }

    /// Bytes that the allocator has given for promised units and for the units that wait for these. Cost:
    /// O(promises).
    pub fn promised_bytes(&self) -> usize {
        let unit = |unit: &PromisedUnit| {
            heap::vec(&unit.made)
                + heap::vec(&unit.end)
                + heap::vec(&unit.following)
                + unit.commands.heap_bytes()
        };
        heap::deque(&self.promised) + self.promised.iter().map(unit).sum::<usize>()
    }

    /// Whether units are appended.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Units are appended from the next one on, into a file that is empty or ends with a whole unit.
    pub fn begin(&mut self) {
        self.is_on = true;
        self.epoch.advance();
    }

    /// Nothing is appended from now on. What is pending can still be taken.
    pub fn end(&mut self) {
        self.is_on = false;
        self.epoch.advance();
    }

    /// The next unit is the first of another file; the stream says whether there is a history by then. All
    /// of the one before was taken.
    pub fn begin_file(&mut self, stream: &ReplicationStream) {
        debug_assert!(self.taken == self.position);
        self.has_begun_in_history = stream.point().is_some();
        self.selected = None;
        self.stamped_s = None;
        self.noted = None;
        self.noted_db = None;
    }

    /// Whether replies wait until they are durable.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.written_at.is_some()
    }

    /// Lets replies wait, or not.
    pub fn set_strict(&mut self, strict: bool) {
        let strict = strict && self.is_on;
        if strict != self.is_strict() {
            // What was written before may not be durable yet.
            self.written_at = strict.then(|| Box::new(WrittenAt::new(self.position)));
        }
    }

    /// End of the last unit.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether everything up to this position is on disk; no position is in a file that is off.
    #[inline]
    pub fn is_durable(&self, position: u64) -> bool {
        self.is_on && self.report.durable >= position
    }

    /// Output of a session waits until this position is durable.
    pub fn await_durable(&mut self, position: u64, key: SessionKey) {
        self.awaited.entry(position).or_default().push(key);
    }

    /// Takes a session whose output waited for a position up to this one.
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

    /// What the process has reported.
    #[inline]
    pub fn report(&self) -> &AofReport {
        &self.report
    }

    /// The process says that everything up to this position is on disk: whether that is news.
    #[inline]
    pub fn report_durable(&mut self, position: u64) -> bool {
        let is_news = position > self.report.durable;
        if is_news {
            self.report.durable = position;
        }
        is_news
    }

    /// The process says that nothing can be written, for this reason of the system, or that it can be again.
    pub fn report_fault(&mut self, fault: Option<String>) {
        self.report.fault = fault;
        self.epoch.advance();
    }

    /// The process says whether the disk keeps up; the word that it has given before.
    pub fn report_backlog(&mut self, backlog: AofBacklog) -> AofBacklog {
        self.epoch.advance();
        std::mem::replace(&mut self.report.backlog, backlog)
    }

    /// Appends a unit that has ended; `stamp`: with the time before it, where that is another second than the
    /// last.
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

    /// Notes where in the history of replication the data stand with all units so far, for a restart. A unit
    /// that is not followed by such a note takes the data away from there, so the note belongs into the block
    /// of its units.
    pub fn note_history(&mut self, stream: &ReplicationStream) {
        let Some(point) = stream.point().filter(|_| self.is_on) else { return };
        let Ok(id) = point.replid.as_bytes().try_into() else { return };
        if self.noted == Some((id, point.offset)) && !self.has_unnoted {
            return;
        }
        let out = self.promised.back_mut().map_or(&mut self.pending, |unit| &mut unit.following);
        let before = out.len();
        if self.noted.is_none() && !self.has_begun_in_history && self.report.fault.is_none() {
            // The history begins here. Without this line the file would look as one that goes on in a history
            // of which the files before it have lost all, as they may have behind a sync that has failed.
            ReplicationNote::Id(NO_HISTORY).push(out);
        }
        if self.noted.is_none_or(|(known, _)| known != id) {
            ReplicationNote::Id(id).push(out);
        }
        // A primary of today may be a replica when the file is loaded: what follows then is in this database.
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

    /// Whether bytes are promised and not made.
    #[inline]
    pub fn has_promises(&self) -> bool {
        // The units are made in order.
        self.promised.back().is_some_and(|unit| !unit.is_whole())
    }

    /// Bytes that are promised and not made. Cost: O(promises).
    pub fn promised_left(&self) -> usize {
        self.promised.iter().map(|unit| unit.commands.left()).sum()
    }

    /// Makes about so many of the first bytes that are promised. Values that are not needed any more go to
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

    /// See `Engine::take_aof`.
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

    /// See `Engine::take_made_aof`.
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

    /// Notes that the unit under way has written a key.
    #[inline]
    pub fn note_key(&mut self, hash: u64) {
        if let Some(written_at) = &mut self.written_at {
            written_at.touched.push(WrittenAt::slot_of(hash));
        }
    }

    /// Notes that the unit under way has run a command that writes.
    pub fn note_command(&mut self, args: &Args<'_>) {
        let Some(written_at) = &mut self.written_at else { return };
        let touched = &mut written_at.touched;
        let found = args
            .spec()
            .map(|spec| for_each_key(spec, *args, |key| touched.push(WrittenAt::slot_of(key.hash))));
        // A command that reads keys beyond its own changes its own alone.
        written_at.touched_all |= !matches!(found, Some(KeysFound::Some | KeysFound::ReadsBeyond));
    }

    /// The position that must be durable before the reply of a command that is about to run, its own changes
    /// left out: that of the last write of each of its keys, or of anything where the command looks at more
    /// than its keys.
    pub fn needed_by(&self, spec: &Spec, args: Args<'_>) -> u64 {
        let Some(written_at) = &self.written_at else { return 0 };
        if shows_libraries(spec) {
            return written_at.floor;
        }
        // What a script has to wait for, the commands tell that it calls.
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

/// Whether the reply of a command depends on the libraries of functions. What changes those is a write that
/// no key names.
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

/// What is known of the keys of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysFound {
    /// The keys that were visited are all.
    Some,
    /// The call may read others besides, which only the data name.
    ReadsBeyond,
    /// The call names no keys.
    None,
    /// The arguments do not say which of them are keys.
    Invalid,
}

/// Whether a call may read keys whose names only the data tell: SORT with a pattern of BY or GET.
pub fn reads_beyond(spec: &Spec, args: &[&[u8]]) -> bool {
    let is_sort = spec.id == generic::SORT.id || spec.id == generic::SORT_RO.id;
    let is_pattern =
        |pair: &[&[u8]]| (is_word(pair[0], "BY") || is_word(pair[0], "GET")) && pair[1].contains(&b'*');
    is_sort && args.windows(2).any(is_pattern)
}

/// Visits each key of a call that the call names.
pub fn for_each_key<'a>(spec: &Spec, args: Args<'a>, mut visit: impl FnMut(Key<'a>)) -> KeysFound {
    // One key and nothing else, which most reads are.
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

/// The hash of a key that no argument names.
pub fn hash_of(keyspace: &Keyspace, key: &[u8]) -> u64 {
    let hasher: KeyHasher = keyspace.hasher();
    hasher.hash(key)
}
