//! The append-only file (AOF) as the engine knows it: bytes to append, and how far they are durable. The process owns the file.
//!
//! ```text
//!  command ──► unit (`UnitCommands`) ──close──► pending ──taken, once an iteration──► the process: write, fsync
//!                                       │                                                  │
//!                                       └── position: its end          durable ◄── reported ┘
//! ```
//!
//! A *position* counts all bytes that were ever appended, from the start of the process on, whatever file they are in.
//!
//! Invariants: (1) whole units are appended, in the order in which they closed; (2) a file begins with SELECT, because a file is
//! loaded on its own; (3) the offset of the replication stream does not count these bytes; (4) under `appendfsync always` each
//! reply has a position that must be durable before the reply is sent ([`Engine::output_position`]): the end of the last unit
//! that wrote what the command has read, or of the command's own unit; (5) without `always` no command pays for (4): the
//! gate's check `durable` is not armed.

use crate::args::Args;
use crate::control::Control;
use crate::engine::Engine;
use crate::process::{LogLevel, Process};
use crate::repl_stream::ReplicationStream;
use crate::session::{Caller, Session};
use crate::session_key::SessionKey;
use crate::snapshot::{self, RdbAux};
use crate::unit_commands::{Audience, Grouping, UnitCommands};
use sluice_base::mistake::{self, Mistake};
use sluice_base::{Now, heap};
use sluice_command::derive::keys::{key_row, keys};
use sluice_command::specs::transactions;
use sluice_command::{Flags, Spec};
use sluice_keyspace::{KeyHasher, Keyspace};
use sluice_persist::aof::{NO_HISTORY, ReplicationNote};
use sluice_persist::rdb::Version;
use std::ops::{ControlFlow, Range};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct AofStream {
    is_on: bool,
    /// Database selected in the file.
    selected: Option<usize>,
    /// Bytes of closed units that were not taken yet.
    pending: Vec<u8>,
    /// End of the last unit.
    position: u64,
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
}

/// How far the append-only file is: reported by the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AofReport {
    /// Position up to which it is durable.
    pub durable: u64,
    /// Why nothing can be written just now: the system's reason.
    pub fault: Option<String>,
    /// Whether more may be appended.
    pub backlog: AofBacklog,
}

/// Whether the process takes more bytes for the append-only file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AofBacklog {
    /// It does.
    #[default]
    Fine,
    /// The disk is so far behind that commands that write wait.
    Full,
    /// Another increment begins behind the cut of a rewrite: what is written meanwhile would lie in the memory of the process until
    /// the disk has what is before the cut, so commands that write wait.
    Changing,
}

/// The position of the last write of each key, by the key's hash. Keys share slots of this table: a reply may wait for a write of another
/// key, never too short.
#[derive(Debug)]
struct WrittenAt {
    places: Box<[u64]>,
    /// Every slot counts as this position at least.
    floor: u64,
    /// Slots whose keys the unit under way has written.
    touched: Vec<u16>,
    /// The unit under way has written what no key names.
    touched_all: bool,
}

/// Slots of the table: 512 KiB. A client that writes a million keys a second at 100 µs an fsync has about 100 of them open.
const PLACES: usize = 1 << 16;

impl WrittenAt {
    fn new(floor: u64) -> WrittenAt {
        let places = vec![0; PLACES].into_boxed_slice();
        WrittenAt { places, floor, touched: Vec::new(), touched_all: false }
    }

    fn place(hash: u64) -> u16 {
        // The index of a table takes the lower bits of a hash and its tags the upper ones: any 16 bits do here.
        (hash >> 16) as u16
    }

    fn of(&self, hash: u64) -> u64 {
        self.places[usize::from(Self::place(hash))].max(self.floor)
    }

    fn close_unit(&mut self, end: u64) {
        for place in self.touched.drain(..) {
            self.places[usize::from(place)] = end;
        }
        if std::mem::take(&mut self.touched_all) {
            self.floor = end;
        }
    }
}

impl AofStream {
    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        let written_at = self.written_at.as_deref().map_or(0, |written_at| {
            heap::boxed::<WrittenAt>()
                + heap::block(PLACES * size_of::<u64>())
                + heap::vec(&written_at.touched)
        });
        heap::vec(&self.pending) + written_at
    }

    /// Whether units are appended.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether replies wait until they are durable.
    pub(crate) fn is_strict(&self) -> bool {
        self.written_at.is_some()
    }

    /// Lets replies wait, or not.
    pub(crate) fn set_strict(&mut self, strict: bool) {
        let strict = strict && self.is_on;
        if strict != self.is_strict() {
            // What was written before may not be durable yet.
            self.written_at = strict.then(|| Box::new(WrittenAt::new(self.position)));
        }
    }

    /// End of the last unit.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whether everything up to this position is on disk; no position is in a file that is off.
    pub(crate) fn is_durable(&self, position: u64) -> bool {
        self.is_on && self.report.durable >= position
    }

    /// What the process has reported.
    pub(crate) fn report(&self) -> &AofReport {
        &self.report
    }

    /// Appends a unit that has ended; `stamp`: with the time before it, where that is another second than the last.
    pub(crate) fn add_unit(&mut self, unit: &UnitCommands, grouping: Grouping, stamp: Option<Now>) {
        if !self.is_on || !unit.changes_data() {
            return;
        }
        self.has_unnoted = true;
        let before = self.pending.len();
        if let Some(now) = stamp
            && self.stamped_s.is_none_or(|last_s| now.unix_s() > last_s)
        {
            self.stamped_s = Some(now.unix_s());
            self.pending.extend_from_slice(format!("#TS:{}\r\n", now.unix_s()).as_bytes());
        }
        unit.write_to(Audience::All, grouping, &mut self.selected, &mut self.pending);
        self.position += (self.pending.len() - before) as u64;
        if let Some(written_at) = &mut self.written_at {
            written_at.close_unit(self.position);
        }
    }

    /// Notes where in the history of replication the data stand with all units so far, for a restart. A unit that is not followed
    /// by such a note takes the data away from there, so the note belongs into the block of its units.
    pub(crate) fn note_history(&mut self, stream: &ReplicationStream) {
        let Some(point) = stream.point().filter(|_| self.is_on) else { return };
        let Ok(id) = point.replid.as_bytes().try_into() else { return };
        if self.noted == Some((id, point.offset)) && !self.has_unnoted {
            return;
        }
        let before = self.pending.len();
        if self.noted.is_none() && !self.has_begun_in_history && self.report.fault.is_none() {
            // The history begins here. Without this line the file would look as one that goes on in a history of which the files before
            // it have lost all, as they may have behind a sync that has failed.
            ReplicationNote::Id(NO_HISTORY).push(&mut self.pending);
        }
        if self.noted.is_none_or(|(known, _)| known != id) {
            ReplicationNote::Id(id).push(&mut self.pending);
        }
        // A primary of today may be a replica when the file is loaded: what follows then is in this database.
        let is_left_out = mistake::is_made(Mistake::DbNotNoted) && !stream.has_primary();
        if self.noted_db != Some(point.db) && !is_left_out {
            self.noted_db = Some(point.db);
            ReplicationNote::Db(point.db as u64).push(&mut self.pending);
        }
        ReplicationNote::Offset(point.offset).push(&mut self.pending);
        self.position += (self.pending.len() - before) as u64;
        self.noted = Some((id, point.offset));
        self.has_unnoted = false;
    }

    /// See [`Engine::take_aof`].
    pub(crate) fn take(&mut self, buffer: &mut Vec<u8>) -> Option<Range<u64>> {
        if self.pending.is_empty() {
            return None;
        }
        debug_assert!(buffer.is_empty());
        std::mem::swap(buffer, &mut self.pending);
        Some(self.position - buffer.len() as u64..self.position)
    }

    /// Notes that the unit under way has written a key.
    pub(crate) fn note_key(&mut self, hash: u64) {
        if let Some(written_at) = &mut self.written_at {
            written_at.touched.push(WrittenAt::place(hash));
        }
    }

    /// Notes that the unit under way has run a command that writes.
    pub(crate) fn note_command(&mut self, args: &Args<'_>) {
        let Some(written_at) = &mut self.written_at else { return };
        let touched = &mut written_at.touched;
        let found =
            args.spec().map(|spec| for_each_key(spec, *args, |hash| touched.push(WrittenAt::place(hash))));
        written_at.touched_all |= found != Some(KeysFound::Some);
    }

    /// The position that must be durable before the reply of a command that is about to run, its own changes left out: that of
    /// the last write of each of its keys, or of anything where the command looks at more than its keys.
    pub(crate) fn needed_by(&self, spec: &Spec, args: Args<'_>) -> u64 {
        let Some(written_at) = &self.written_at else { return 0 };
        let mut needed = 0;
        let looks_beyond =
            spec.flags.has_any(Flags::PUBSUB.or(Flags::PROTECTED)) || spec.id == transactions::EXEC.id;
        match for_each_key(spec, args, |hash| needed = needed.max(written_at.of(hash))) {
            KeysFound::Some if !looks_beyond => needed,
            KeysFound::None if !looks_beyond && !spec.flags.has_any(Flags::READONLY.or(Flags::WRITE)) => 0,
            KeysFound::Some | KeysFound::None | KeysFound::Invalid => self.position,
        }
    }
}

/// What is known of the keys of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeysFound {
    Some,
    None,
    Invalid,
}

/// Visits the hash of each key of a call.
pub(crate) fn for_each_key(spec: &Spec, args: Args<'_>, mut visit: impl FnMut(u64)) -> KeysFound {
    // One key and nothing else, which most reads are.
    if args.len() == 2 && key_row(spec).first(2) == Some(1) {
        visit(args.key(1).hash);
        return KeysFound::Some;
    }
    let all: Vec<&[u8]> = args.iter_from(0).collect();
    let mut found = Vec::new();
    if keys(spec, &all, &mut found).is_err() {
        return KeysFound::Invalid;
    }
    found.iter().for_each(|(index, _)| visit(args.key(*index).hash));
    if found.is_empty() { KeysFound::None } else { KeysFound::Some }
}

/// Whether a client is sent what it did not ask for: messages, commands of others, the stream.
fn receives_pushes(caller: &Caller) -> bool {
    caller.subscribed.is_any() || caller.flags.monitor || caller.replica.is_some()
}

impl Session {
    /// The session's next output must not be sent before this position is durable.
    pub(crate) fn wait_until_durable(&mut self, position: u64) {
        self.durable_at = self.durable_at.max(position);
    }
}

impl Engine {
    /// Begins to append: from the next unit on, into a file that is empty or ends with a whole unit. To be called between units.
    pub fn begin_aof(&mut self) {
        self.control.aof.is_on = true;
        self.begin_aof_file();
        self.refresh();
    }

    /// Appends nothing from now on. What is pending can still be taken.
    pub fn end_aof(&mut self) {
        self.control.aof.is_on = false;
        self.refresh();
    }

    /// The next unit is the first of another file. To be called between units, after [`Engine::take_aof`].
    pub fn begin_aof_file(&mut self) {
        let Control { aof, stream, .. } = &mut self.control;
        debug_assert!(aof.pending.is_empty());
        aof.has_begun_in_history = stream.point().is_some();
        aof.selected = None;
        aof.stamped_s = None;
        aof.noted = None;
        aof.noted_db = None;
    }

    /// Whether output waits until it is durable: `appendfsync always`.
    pub fn is_aof_strict(&self) -> bool {
        self.control.aof.is_strict()
    }

    /// End of the last unit that was appended: a position.
    pub fn aof_position(&self) -> u64 {
        self.control.aof.position()
    }

    /// Takes the bytes of the units that have closed since the last call, and the positions where they begin and end. The
    /// caller gives an empty buffer in exchange. `None` where there are none.
    pub fn take_aof(&mut self, buffer: &mut Vec<u8>) -> Option<Range<u64>> {
        self.control.aof.take(buffer)
    }

    /// Has the file say where in the history of replication the data stand: behind the units of an iteration.
    pub(crate) fn note_history(&mut self) {
        let Control { aof, stream, .. } = &mut self.control;
        aof.note_history(stream);
    }

    /// Whether there are bytes to be taken.
    #[inline]
    pub fn has_aof(&self) -> bool {
        !self.control.aof.pending.is_empty()
    }

    /// Learns that everything up to this position is on disk.
    #[inline]
    pub fn report_aof_durable(&mut self, position: u64, process: &mut dyn Process) {
        if position > self.control.aof.report.durable {
            self.control.aof.report.durable = position;
            self.control.blocking.replica_acknowledged();
            self.serve_waiting(process);
        }
    }

    /// Learns that nothing can be written just now, for this reason of the system, or that it can be again.
    pub fn report_aof_fault(&mut self, fault: Option<String>) {
        self.control.aof.report.fault = fault;
        self.refresh();
    }

    /// What [`Engine::report_aof_backlog`] was told last.
    pub fn aof_backlog(&self) -> AofBacklog {
        self.control.aof.report.backlog
    }

    /// Learns how far the disk is behind: commands that write wait while the backlog is full, and go on when it is not.
    #[inline]
    pub fn report_aof_backlog(&mut self, backlog: AofBacklog, process: &mut dyn Process) {
        if backlog != self.control.aof.report.backlog {
            self.change_aof_backlog(backlog, process);
        }
    }

    #[cold]
    fn change_aof_backlog(&mut self, backlog: AofBacklog, process: &mut dyn Process) {
        let before = std::mem::replace(&mut self.control.aof.report.backlog, backlog);
        match backlog {
            // It begins every rewrite, and is over when the disk has synced: no event for the log.
            AofBacklog::Changing => self.refresh(),
            AofBacklog::Full => {
                let text =
                    "The disk does not keep up with the AOF file: commands that write wait until it does.";
                process.log(LogLevel::Warning, text);
                self.refresh();
            }
            AofBacklog::Fine => {
                if before == AofBacklog::Full {
                    let text = "The disk keeps up with the AOF file again: commands that write go on.";
                    process.log(LogLevel::Notice, text);
                }
                self.refresh();
                self.control.blocking.end_pause();
                self.serve_waiting(process);
            }
        }
    }

    /// Notes for the latency monitor how long something took that the process did.
    pub fn report_latency(&mut self, event: &'static str, nanos: u64, process: &mut dyn Process) {
        let now = process.recent();
        self.note_latency(event, now, nanos);
    }

    /// Gives the data away as the base of an append-only file, piece by piece. Errors: those of `give`.
    pub fn write_aof_base(
        &mut self,
        give: &mut dyn FnMut(&[u8]) -> Result<(), String>,
        process: &mut dyn Process,
    ) -> Result<(), String> {
        let used_memory = process.used_memory(&self.keyspace);
        let about = RdbAux { now: process.now(), used_memory, stream: None, is_aof_base: true };
        let Control { config, kept, .. } = &self.control;
        let mut result = Ok(());
        snapshot::write(
            &self.keyspace,
            config,
            snapshot::options(config, Version::Valkey),
            &about,
            kept,
            &mut || {},
            &mut |piece| {
                result = give(&piece);
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        result
    }

    /// The position that must be durable before a session's output, as it is now, is sent. It never falls.
    pub fn output_position(&mut self, key: SessionKey) -> u64 {
        let newest = self.control.aof.position();
        if mistake::is_made(Mistake::AnsweredEarly) {
            return 0;
        }
        let Some(session) = self.sessions.get_mut(key) else { return 0 };
        if receives_pushes(&session.caller) {
            session.wait_until_durable(newest);
        }
        session.durable_at
    }
}

/// The hash of a key that no argument names.
pub(crate) fn hash_of(keyspace: &Keyspace, key: &[u8]) -> u64 {
    let hasher: KeyHasher = keyspace.hasher();
    hasher.hash(key)
}
