//! Loading: a keyspace filled from the snapshot file, at the start and for DEBUG RELOAD.
//!
//! Invariants: (1) a keyspace that is filled is seen by nobody before the file was read to its end, unless the caller merges
//! the file into the one in use; (2) keys that have expired are left out; (3) nothing of it is an effect: no client is told,
//! nothing is propagated, no change is counted; (4) memory beside the keyspace: one piece, and the value that is read.

use crate::control::Control;
use crate::engine::Engine;
use crate::process::{LogLevel, Process, SnapshotSource};
use crate::saving::SAID_EVERY_NS;
use crate::snapshot::Kept;
use sluice_base::Now;
use sluice_base::num::parse_i64;
use sluice_config::choice::RdbVersionCheck;
use sluice_config::param;
use sluice_keyspace::{CLOCK_MASK, Keyspace, NewValue};
use sluice_persist::rdb::{
    Item, LoadError, Loaded, LoadedEntry, Problem, ReadOptions, ReadProgress, Reader, Unknown, Usage,
};
use std::time::Duration;

/// What a load brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Keys that were loaded.
    pub loaded: u64,
    /// Keys that had expired.
    pub expired: u64,
    /// Keys whose values had no elements.
    pub empty: u64,
    /// Keys whose values are of types that are not there.
    pub skipped: u64,
}

/// Why nothing was loaded; the log says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// The file is no good, or cannot be read.
    Failed,
    /// The caller did not want to go on.
    Stopped,
}

/// What a file brought beside the keys.
pub(crate) struct Brought {
    /// Numbers for INFO.
    pub counts: LoadCounts,
    /// What is written again.
    pub kept: Kept,
}

/// What becomes of a key that the keyspace has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// The file is no good.
    Refused,
    /// The file's value replaces what is there.
    Replace,
}

/// Reads a whole file into `keyspace`; `go_on` is asked between two pieces. Cost: O(file).
pub(crate) fn load(
    source: &mut dyn SnapshotSource,
    keyspace: &mut Keyspace,
    control: &Control,
    duplicates: Duplicates,
    process: &mut dyn Process,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Brought, NotLoaded> {
    let now = process.now();
    let mut loading = Loading::new(control, duplicates, now);
    let mut piece = vec![0; PIECE_BYTES];
    let (size, mut read, mut said_ns) = (source.size(), 0u64, now.mono_ns);
    loop {
        if !go_on() {
            return Err(NotLoaded::Stopped);
        }
        let len = source.read(&mut piece).map_err(|reason| {
            let text = format!("Reading the RDB file failed behind byte {read}: {reason}");
            process.log(LogLevel::Warning, &text);
            NotLoaded::Failed
        })?;
        if len == 0 {
            loading.end_of_file(process);
            return Err(NotLoaded::Failed);
        }
        read += len as u64;
        loading.note_head(&piece[..len]);
        if loading.take(&piece[..len], keyspace, process)? {
            return Ok(loading.finish(process));
        }
        let now_ns = process.now().mono_ns;
        if now_ns.saturating_sub(said_ns) >= SAID_EVERY_NS {
            said_ns = now_ns;
            process.log(LogLevel::Notice, &progress(read, size, now_ns.saturating_sub(now.mono_ns)));
        }
    }
}

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 * 1024;

/// How far a load is: percentage, rate and what is left.
pub(crate) fn progress(read: u64, size: u64, spent_ns: u64) -> String {
    let seconds = (spent_ns as f64 / 1e9).max(1e-3);
    let rate = read as f64 / seconds;
    let left_s = size.saturating_sub(read) as f64 / rate.max(1.0);
    let percent = read as f64 * 100.0 / size.max(1) as f64;
    format!(
        "Loading: {percent:.1}% of {} MB, {:.1} MB/s, {left_s:.0} seconds left",
        size / 1_000_000,
        rate / 1e6
    )
}

/// A load under way.
struct Loading {
    reader: Reader,
    duplicates: Duplicates,
    now: Now,
    lfu: bool,
    /// Setting `rdb-version-check relaxed`.
    relaxed: bool,
    db: usize,
    counts: LoadCounts,
    kept: Kept,
    /// The first bytes of the file.
    head: Vec<u8>,
    /// Whether the header was found good and the log said so.
    said_version: bool,
}

impl Loading {
    fn new(control: &Control, duplicates: Duplicates, now: Now) -> Loading {
        let config = &control.config;
        let relaxed = config.choice::<RdbVersionCheck>(param::RDB_VERSION_CHECK) == RdbVersionCheck::Relaxed;
        let options = ReadOptions {
            unknown: if relaxed { Unknown::Skip } else { Unknown::Refuse },
            checksum: config.bool(param::RDBCHECKSUM) && !control.skip_checksum,
            list: control.limits.list,
        };
        Loading {
            reader: Reader::new(options),
            duplicates,
            now,
            lfu: control.limits.lfu,
            relaxed,
            db: 0,
            counts: LoadCounts::default(),
            kept: Kept::default(),
            head: Vec::new(),
            said_version: false,
        }
    }

    fn note_head(&mut self, piece: &[u8]) {
        let room = MAGIC_BYTES - self.head.len();
        self.head.extend_from_slice(&piece[..room.min(piece.len())]);
    }

    /// Takes the next bytes; whether the file has ended with them.
    fn take(
        &mut self,
        bytes: &[u8],
        keyspace: &mut Keyspace,
        process: &mut dyn Process,
    ) -> Result<bool, NotLoaded> {
        let Loading { reader, duplicates, now, lfu, db, counts, kept, .. } = self;
        let mut target = LoadTarget {
            keyspace,
            duplicates: *duplicates,
            now: *now,
            lfu: *lfu,
            keeps_expired: false,
            db,
            counts,
            kept,
        };
        reader.feed(bytes);
        let failure = loop {
            match reader.next() {
                Ok(ReadProgress::Item(item)) => {
                    if let Err(line) = target.item(item, process) {
                        break Failure::Target(line);
                    }
                }
                Ok(ReadProgress::End) => return Ok(true),
                Ok(ReadProgress::More(_)) => {
                    if !self.said_version && self.reader.version() != 0 {
                        self.said_version = true;
                        process.log(LogLevel::Verbose, "RDB signature and version check passed");
                    }
                    return Ok(false);
                }
                Err(error) => break Failure::File(error),
            }
        };
        match failure {
            Failure::Target(line) => process.log(LogLevel::Warning, &line),
            Failure::File(error) => self.say_why(&error, process),
        }
        Err(NotLoaded::Failed)
    }

    /// The file has ended before its end.
    fn end_of_file(&mut self, process: &mut dyn Process) {
        let error = match self.reader.next() {
            Ok(ReadProgress::More(offset)) => LoadError { offset, problem: Problem::CutOff },
            Ok(ReadProgress::Item(_) | ReadProgress::End) => return,
            Err(error) => error,
        };
        self.say_why(&error, process);
    }

    /// Says in the log what is wrong with the file, last in the reference's words where scripts look for them.
    fn say_why(&self, error: &LoadError, process: &mut dyn Process) {
        let version = self.reader.version();
        let mut say = |text: String| process.log(LogLevel::Warning, &text);
        match &error.problem {
            Problem::Magic => {
                say(format!("Wrong signature trying to load DB from file: {}", self.head.escape_ascii()));
            }
            Problem::Version(version) => say(format!("Can't handle RDB format version {version}")),
            Problem::CutOff => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
                say("Short read or OOM loading DB. Unrecoverable error, aborting now.".to_owned());
            }
            Problem::Unknown(code) if self.relaxed && (12..80).contains(&version) => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
                say(format!("Can't handle foreign type or opcode {code} in RDB with version {version}"));
            }
            Problem::Unknown(_) => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
                say("Unknown type or opcode when loading DB. Unrecoverable error, aborting now.".to_owned());
            }
            Problem::Checksum => {
                say(format!("Internal error in RDB reading offset {} -> RDB CRC error", error.offset));
            }
            Problem::Unsupported { .. }
            | Problem::OldFunction
            | Problem::Length
            | Problem::Compression
            | Problem::List
            | Problem::Module => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
            }
        }
    }

    fn finish(self, process: &mut dyn Process) -> Brought {
        let LoadCounts { loaded, expired, empty, skipped } = self.counts;
        let mut text = format!(
            "Done loading RDB, keys loaded: {loaded}, keys expired: {expired}, all fields expired hashes: 0"
        );
        if empty > 0 {
            text += &format!(", empty keys skipped: {empty}");
        }
        if skipped > 0 {
            text += &format!(", keys of unsupported types skipped: {skipped}");
        }
        process.log(LogLevel::Notice, &format!("{text}."));
        Brought { counts: self.counts, kept: self.kept }
    }
}

/// Why a load ended.
enum Failure {
    /// What the file asks for cannot be had: a line for the log.
    Target(String),
    /// The file is no good.
    File(LoadError),
}

/// Bytes of a file's signature.
const MAGIC_BYTES: usize = 9;

/// Where the items of a file go.
pub(crate) struct LoadTarget<'a> {
    pub keyspace: &'a mut Keyspace,
    pub duplicates: Duplicates,
    pub now: Now,
    pub lfu: bool,
    /// Keys past their expiry are loaded too: a log goes on behind them.
    pub keeps_expired: bool,
    pub db: &'a mut usize,
    pub counts: &'a mut LoadCounts,
    pub kept: &'a mut Kept,
}

impl LoadTarget<'_> {
    /// Takes an item. Errors: a line for the log.
    pub(crate) fn item(&mut self, item: Item<'_>, process: &mut dyn Process) -> Result<(), String> {
        match item {
            Item::Aux(name, value) => self.field(&name, &value, process),
            Item::Db(number) => {
                let databases = self.keyspace.databases();
                *self.db = usize::try_from(number).ok().filter(|number| *number < databases).ok_or(format!(
                    "FATAL: Data file was created with a Server configured to handle more than {databases} databases. \
                     Exiting"
                ))?;
            }
            // Hints: tables grow as keys come. An import of slots belongs to a cluster, which has ended with its server.
            Item::Sizes(..) | Item::Slot(_) | Item::SlotImport { .. } => {}
            Item::Function(code) => self.kept.libraries.push(code.into_owned()),
            Item::LoadedEntry(entry) => return self.entry(entry),
            Item::Empty { key } => {
                self.counts.empty += 1;
                if self.counts.empty <= SAID_KEYS_MAX {
                    let text = format!("rdbLoadObject skipping empty key: {}", key.escape_ascii());
                    process.log(LogLevel::Notice, &text);
                }
            }
            Item::Skipped { key, kind, offset, .. } => {
                self.counts.skipped += 1;
                if self.counts.skipped <= SAID_KEYS_MAX {
                    let key = key.escape_ascii();
                    let text = format!(
                        "Skipped key '{key}' at byte {offset}: its type is {kind}, which this version lacks"
                    );
                    process.log(LogLevel::Warning, &text);
                }
            }
        }
        Ok(())
    }

    fn field(&mut self, name: &[u8], value: &[u8], process: &mut dyn Process) {
        let mut say = |text: String| process.log(LogLevel::Notice, &text);
        match name {
            b"valkey-ver" => say(format!("Loading RDB produced by Valkey version {}", value.escape_ascii())),
            b"redis-ver" => say(format!("Loading RDB produced by Redis version {}", value.escape_ascii())),
            b"ctime" => {
                let age_s = parse_i64(value).map_or(0, |at| self.now.unix_s().saturating_sub(at));
                say(format!("RDB age {} seconds", age_s.max(0)));
            }
            b"used-mem" => {
                let mb = parse_i64(value).unwrap_or(0) as f64 / f64::from(1 << 20);
                say(format!("RDB memory usage when created {mb:.2} Mb"));
            }
            // Facts about the writer, or about its replication, which nothing here can go on with.
            b"aof-base" if value == b"1" => say("RDB is base AOF".to_owned()),
            b"redis-bits" | b"aof-base" | b"aof-preamble" => {}
            b"repl-stream-db" | b"repl-id" | b"repl-offset" => {}
            _ => self.kept.fields.push((name.to_vec(), value.to_vec())),
        }
    }

    fn entry(&mut self, entry: LoadedEntry<'_>) -> Result<(), String> {
        let LoadedEntry { key, value, expiry_ms, usage } = entry;
        if !self.keeps_expired && expiry_ms.is_some_and(|at| at < self.now.unix_ms()) {
            self.counts.expired += 1;
            return Ok(());
        }
        let number = *self.db;
        if self.keyspace.is_nearly_full(number) {
            return Err(format!("Database {number} has no room for the keys of the RDB file"));
        }
        if self.duplicates == Duplicates::Replace {
            self.keyspace.unload(number, &key);
        }
        let (expiry, clock) = (expiry_ms.map(|at| at.max(0)), self.clock(usage));
        let keyspace = &mut *self.keyspace;
        let is_new = match value {
            Loaded::Str(text) => keyspace.load(number, &key, NewValue::Str(&text), expiry, clock),
            Loaded::Pages(pages) => keyspace.load(number, &key, NewValue::Pages(pages), expiry, clock),
            Loaded::List(list) => keyspace.load(number, &key, NewValue::List(list), expiry, clock),
        };
        if !is_new {
            return Err(format!("RDB has duplicated key '{}' in DB {number}", key.escape_ascii()));
        }
        self.counts.loaded += 1;
        Ok(())
    }

    /// The access clock of a key that was last used so.
    fn clock(&self, usage: Usage) -> u32 {
        let now_s = self.now.unix_s();
        let minutes = (now_s / 60) as u16;
        match (usage, self.lfu) {
            (Usage::Frequency(counter), true) => u32::from(minutes) << 8 | u32::from(counter),
            (Usage::Idle(idle_s), false) => (now_s as u32).wrapping_sub(idle_s as u32) & CLOCK_MASK,
            // A new key's.
            (Usage::Unsaid | Usage::Idle(_), true) => u32::from(minutes) << 8 | 5,
            (Usage::Unsaid | Usage::Frequency(_), false) => now_s as u32 & CLOCK_MASK,
        }
    }
}

impl Control {
    /// Notes what a load brought, and whether the file holds more than that.
    pub(crate) fn note_loaded(&mut self, counts: LoadCounts) {
        self.last_load = counts;
        self.partly_loaded = (counts.skipped > 0).then(|| self.snapshot_place());
    }

    /// Folder and name of the snapshot file.
    pub(crate) fn snapshot_place(&self) -> (Vec<u8>, Vec<u8>) {
        (self.config.bytes(param::DIR).to_vec(), self.config.bytes(param::DBFILENAME).to_vec())
    }
}

/// Keys that are passed over and named in the log; the last line counts all.
const SAID_KEYS_MAX: u64 = 100;

impl Engine {
    /// Loads the snapshot file before the first client is served; a file that is not there is none. `go_on` is asked between
    /// two pieces. Errors: the log has said why, and the data are as before.
    pub fn load_at_start(
        &mut self,
        process: &mut dyn Process,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), NotLoaded> {
        let name = self.control.config.bytes(param::DBFILENAME).to_vec();
        let opened = process.open_snapshot(&name).map_err(|reason| {
            let text = format!("Opening the RDB file {} failed: {reason}", name.escape_ascii());
            process.log(LogLevel::Warning, &text);
            NotLoaded::Failed
        })?;
        let Some(mut source) = opened else { return Ok(()) };
        let start_ns = process.now().mono_ns;
        let mut keyspace = self.keyspace.empty_twin();
        let control = &self.control;
        let brought = load(source.as_mut(), &mut keyspace, control, Duplicates::Refused, process, go_on)?;
        self.keyspace = keyspace;
        self.control.kept = brought.kept;
        self.control.note_loaded(brought.counts);
        let spent = Duration::from_nanos(process.now().mono_ns.saturating_sub(start_ns));
        process.log(LogLevel::Notice, &format!("DB loaded from disk: {:.3} seconds", spent.as_secs_f64()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_percentage_rate_and_what_is_left() {
        let text = progress(250_000_000, 1_000_000_000, 5_000_000_000);
        assert_eq!(text, "Loading: 25.0% of 1000 MB, 50.0 MB/s, 15 seconds left");
        assert!(progress(0, 0, 0).starts_with("Loading: 0.0%"));
    }
}
