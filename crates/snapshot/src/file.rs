//! A snapshot file, read into a keyspace: what a load does on its thread.

use crate::foreign::DroppedRecords;
use crate::history::LeftOut;
use crate::outcome::{LoadCounts, LoadResult, NotLoaded};
use crate::progress::Reporter;
use crate::source::SnapshotSource;
use crate::staged::Staged;
use sluice_base::num::parse_i64;
use sluice_base::{LogLevel, Now};
use sluice_config::{Config, param};
use sluice_keyspace::{CLOCK_MASK, Key, Keyspace, Layout, NewValue, SlotImport};
use sluice_persist::rdb::{
    Item, LoadError, Loaded, LoadedEntry, Mended, Problem, ReadOptions, ReadProgress, Reader, Usage,
};
use sluice_value::HashContext;
use std::sync::atomic::Ordering::Relaxed;

/// Most bytes that are read at once. A smaller `loading-process-events-interval-bytes` has the numbers of
/// INFO brought up to date more often: clients are served all the time.
const PIECE_BYTES_MAX: usize = 256 * 1024;

/// Bytes that are read at once.
pub fn piece_bytes(config: &Config) -> usize {
    let interval = usize::try_from(config.int(param::LOADING_PROCESS_EVENTS_INTERVAL_BYTES));
    interval.unwrap_or(PIECE_BYTES_MAX).clamp(1, PIECE_BYTES_MAX)
}

/// What becomes of a key that the keyspace has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// The file is no good.
    Refused,
    /// The file's value replaces what is there.
    Replace,
}

/// How a file is to be read.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// What the reader of the format needs.
    pub reading: ReadOptions,
    /// Keys that the keyspace has already.
    pub duplicates: Duplicates,
    /// When the load happens: keys expire by it.
    pub now: Now,
    /// Access clocks are frequencies, not times.
    pub lfu: bool,
    /// Setting `rdb-version-check relaxed`.
    pub is_relaxed: bool,
    /// Bytes that are read at once: [`piece_bytes`].
    pub piece_bytes: usize,
    /// The file's name, for the log.
    pub name: Vec<u8>,
    /// Whether the process ends where the file is no good.
    pub ends_process: bool,
    /// Keys past their expiry are loaded too.
    pub keeps_expired: bool,
    /// The file comes by a connection that checks what it carries: a checksum is not asked for.
    pub is_checked_on_the_way: bool,
    /// A save may replace the file: one of which records are dropped is kept under a second name.
    pub replaces_file: bool,
}

/// A file that is read.
pub struct FileLoad {
    options: LoadOptions,
    reader: Reader,
    state: LoadState,
    /// Bytes of the file that are not read yet, where the file's size is known: what bounds its hints.
    left: u64,
    /// The first bytes of the file.
    head: Vec<u8>,
    /// Whether the header was found good, and the main thread told so.
    is_accepted: bool,
}

impl FileLoad {
    /// A load that has not begun.
    pub fn new(options: LoadOptions) -> FileLoad {
        FileLoad {
            reader: Reader::new(options.reading),
            options,
            state: LoadState::default(),
            left: 0,
            head: Vec::new(),
            is_accepted: false,
        }
    }

    /// Reads the whole file into `keyspace`. Cost: O(file).
    pub fn run(
        mut self,
        source: &mut dyn SnapshotSource,
        keyspace: &mut Keyspace,
        out: &mut Reporter<'_>,
    ) -> Result<LoadResult, NotLoaded> {
        let opened = source.open().map_err(|reason| {
            let text = format!("Opening the RDB file {} failed: {reason}", self.options.name.escape_ascii());
            out.log(LogLevel::Warning, text);
            NotLoaded::Failed
        })?;
        let size = opened.ok_or(NotLoaded::Missing)?;
        out.progress.bytes_total.store(size, Relaxed);
        let mut piece = vec![0; self.options.piece_bytes];
        let mut read = 0u64;
        loop {
            if out.is_stopped() {
                return Err(NotLoaded::Stopped);
            }
            let len = source.read(&mut piece).map_err(|reason| {
                out.log(
                    LogLevel::Warning,
                    format!("Reading the RDB file failed behind byte {read}: {reason}"),
                );
                NotLoaded::Failed
            })?;
            if len == 0 {
                self.end_of_file(out);
                return Err(NotLoaded::Failed);
            }
            self.left = size.saturating_sub(read);
            read += len as u64;
            self.note_head(&piece[..len]);
            let has_ended = self.take(&piece[..len], keyspace, out)?;
            self.publish(read, keyspace, out);
            if has_ended {
                source.end();
                let replaces_file = self.options.replaces_file;
                let mut brought = self.finish(out);
                match replaces_file {
                    true => keep_dropped(source, &mut brought.counts, out),
                    false => brought.counts.dropped = 0,
                }
                return Ok(brought);
            }
        }
    }

    /// Brings the numbers up to date that other threads see.
    fn publish(&self, read: u64, keyspace: &Keyspace, out: &Reporter<'_>) {
        let progress = out.progress;
        progress.bytes_read.store(read, Relaxed);
        progress.keys_loaded.store(self.state.brought.counts.loaded, Relaxed);
        progress.keys_expired.store(self.state.brought.counts.expired, Relaxed);
        progress.publish_memory(keyspace);
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
        out: &mut Reporter<'_>,
    ) -> Result<bool, NotLoaded> {
        let LoadOptions { duplicates, now, lfu, .. } = self.options;
        let expired = match (self.options.keeps_expired, self.options.ends_process) {
            (true, _) => ExpiredKeys::Loaded,
            (false, true) => ExpiredKeys::ToldToReplicas,
            (false, false) => ExpiredKeys::LeftOut,
        };
        let rules = LoadRules { duplicates, now, lfu, expired, left: self.left };
        let FileLoad { reader, state, is_accepted, .. } = self;
        let mut target = LoadTarget { keyspace, rules, state };
        reader.feed(bytes);
        let failure = loop {
            if !*is_accepted && reader.version() != 0 {
                *is_accepted = true;
                out.accept();
            }
            match reader.next() {
                Ok(ReadProgress::Item(item)) => {
                    if let Err(line) = target.item(item, out) {
                        break LoadFailure::Target(line);
                    }
                }
                Ok(ReadProgress::End) => match target.insert_staged() {
                    Ok(()) => return Ok(true),
                    Err(line) => break LoadFailure::Target(line),
                },
                Ok(ReadProgress::More(_)) => match target.insert_staged() {
                    Ok(()) => return Ok(false),
                    Err(line) => break LoadFailure::Target(line),
                },
                Err(error) => break LoadFailure::File(error),
            }
            if out.is_stopped() {
                return Err(NotLoaded::Stopped);
            }
        };
        match failure {
            LoadFailure::Target(line) => out.log(LogLevel::Warning, line),
            LoadFailure::File(error) => self.log_cause(&error, out),
        }
        Err(NotLoaded::Failed)
    }

    /// The file has ended before its end.
    fn end_of_file(&mut self, out: &mut Reporter<'_>) {
        let error = match self.reader.next() {
            Ok(ReadProgress::More(offset)) => LoadError { offset, problem: Problem::CutOff },
            Ok(ReadProgress::Item(_) | ReadProgress::End) => return,
            Err(error) => error,
        };
        self.log_cause(&error, out);
    }

    /// Says in the log what is wrong with the file, last in the reference's words where scripts look for
    /// them.
    fn log_cause(&self, error: &LoadError, out: &mut Reporter<'_>) {
        // What is not supported is named with its key.
        if !matches!(error.problem, Problem::Unsupported { .. })
            && let Some(line) = under_way_line(self.reader.under_way(), Some(self.state.db))
        {
            out.log(LogLevel::Warning, line);
        }
        let version = self.reader.version();
        let mut say = |text: String| out.log(LogLevel::Warning, text);
        match &error.problem {
            Problem::Magic => {
                say(format!("Wrong signature trying to load DB from file: {}", self.head.escape_ascii()));
            }
            Problem::Version(version) => say(format!("Can't handle RDB format version {version}")),
            Problem::Envelope => say("Can't handle the compression of the RDB file".to_owned()),
            Problem::CutOff => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
                say("Short read or OOM loading DB. Unrecoverable error, aborting now.".to_owned());
            }
            Problem::Unknown(code) if self.options.is_relaxed && (12..80).contains(&version) => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
                say(format!("Can't handle foreign type or opcode {code} in RDB with version {version}"));
            }
            Problem::Unknown(_) => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
                say("Unknown type or opcode when loading DB. Unrecoverable error, aborting now.".to_owned());
            }
            Problem::Checksum => {
                say(format!("Internal error in RDB reading offset {} -> RDB CRC error", error.offset));
                self.log_damage(error.offset, out);
            }
            Problem::Length
            | Problem::ImportName
            | Problem::ImportRange { .. }
            | Problem::Frame(_)
            | Problem::Compression
            | Problem::List
            | Problem::Hash
            | Problem::Zipmap
            | Problem::Stream(_)
            | Problem::Zset
            | Problem::ZsetZiplist
            | Problem::Set => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
                self.log_damage(error.offset, out);
            }
            Problem::Unsupported { .. } | Problem::OldFunction | Problem::Module => {
                say(format!("Internal error in RDB reading offset {} -> {error}", error.offset));
            }
        }
    }

    /// What scripts look for where a file is damaged, and what an operator can do about it.
    fn log_damage(&self, offset: u64, out: &mut Reporter<'_>) {
        let text = format!(
            "RDB file integrity check failed at byte {offset}: sluice-check-rdb says how much before is in order"
        );
        out.log(LogLevel::Warning, text);
        if self.options.ends_process {
            out.log(LogLevel::Warning, "Terminating server after rdb file reading failure.");
        }
    }

    fn finish(mut self, out: &mut Reporter<'_>) -> LoadResult {
        let LoadCounts { loaded, expired, empty, skipped, dropped: _ } = self.state.brought.counts;
        let mut text = format!(
            "Done loading RDB, keys loaded: {loaded}, keys expired: {expired}, all fields expired hashes: 0"
        );
        if empty > 0 {
            text += &format!(", empty keys skipped: {empty}");
        }
        if skipped > 0 {
            text += &format!(", keys of unsupported types skipped: {skipped}");
        }
        out.log(LogLevel::Notice, format!("{text}."));
        self.state.log_dropped(out);
        if self.reader.is_unsummed() {
            let why = match self.options.is_checked_on_the_way {
                true => "skipped checksum for this transfer",
                false => "no check performed.",
            };
            out.log(LogLevel::Notice, format!("RDB file was saved with checksum disabled: {why}"));
        }
        self.state.brought
    }
}

/// Which value is malformed, for the log: the key whose value was under way, the value's type, its database
/// where that is known.
pub fn under_way_line(under_way: Option<(&[u8], &str)>, db: Option<usize>) -> Option<String> {
    let (key, kind) = under_way?;
    let db = db.map_or_else(String::new, |db| format!(" in database {db}"));
    Some(format!(
        "The value that cannot be loaded is that of key '{}'{db}, of type {kind}",
        key.escape_ascii()
    ))
}

/// Why a load ended.
enum LoadFailure {
    /// What the file asks for cannot be had: a line for the log.
    Target(String),
    /// The file is no good.
    File(LoadError),
}

/// Bytes of a file's signature.
const MAGIC_BYTES: usize = 9;

/// What becomes of keys past their expiry.
#[derive(Clone, Copy)]
enum ExpiredKeys {
    LeftOut,
    /// Left out. Where the file belongs to a history, replicas that go on behind the file have these keys,
    /// and these fields of hashes: the stream begins with their deletions.
    ToldToReplicas,
    /// Loaded: a log goes on behind them.
    Loaded,
}

/// How the keys of a file are taken.
#[derive(Clone, Copy)]
struct LoadRules {
    duplicates: Duplicates,
    now: Now,
    lfu: bool,
    expired: ExpiredKeys,
    /// Bytes of the file that are left, or more: what bounds its hints.
    left: u64,
}

/// How far a file is loaded, and what it has brought.
#[derive(Default)]
struct LoadState {
    db: usize,
    /// Keys so far, whatever became of them.
    entries: u64,
    brought: LoadResult,
    /// Strings that are not in the keyspace yet.
    staged: Staged,
    dropped: DroppedRecords,
    /// Values that were put right.
    mended: u64,
}

impl LoadState {
    /// Logs and counts what was dropped beside keys.
    fn log_dropped(&mut self, out: &mut Reporter<'_>) {
        self.brought.counts.dropped = self.dropped.with_data();
        self.dropped.lines().into_iter().for_each(|(level, line)| out.log(level, line));
    }
}

/// Keeps a file of which more than keys was dropped, before a save or a rewrite takes its place. Where that
/// fails, the count stays: no file may take the place of this one.
pub fn keep_dropped<S: SnapshotSource + ?Sized>(
    source: &mut S,
    counts: &mut LoadCounts,
    out: &mut Reporter<'_>,
) {
    if counts.dropped == 0 {
        return;
    }
    match source.keep() {
        Ok(None) => counts.dropped = 0,
        Ok(Some(name)) => {
            counts.dropped = 0;
            let text = format!(
                "The file as it was loaded, with what was dropped, stays as {name}, which no save replaces. Remove that file when \
                 nobody needs it"
            );
            out.log(LogLevel::Warning, text);
        }
        Err(reason) => {
            let text = format!(
                "WARNING: the file of which records were dropped cannot have a second name: {reason}. Nothing is saved in its place: \
                 move that file, or give another name (dbfilename, appendfilename), and start again"
            );
            out.log(LogLevel::Warning, text);
        }
    }
}

/// Where the items of a file go.
struct LoadTarget<'a> {
    keyspace: &'a mut Keyspace,
    rules: LoadRules,
    state: &'a mut LoadState,
}

impl LoadTarget<'_> {
    /// Takes an item. Errors: a line for the log.
    fn item(&mut self, item: Item<'_>, out: &mut Reporter<'_>) -> Result<(), String> {
        match item {
            Item::Aux(name, value) => self.field(&name, &value, out),
            Item::Db(number) => {
                self.insert_staged()?;
                let databases = self.keyspace.databases();
                self.state.db = usize::try_from(number).ok().filter(|number| *number < databases).ok_or(format!(
                    "FATAL: Data file was created with a Server configured to handle more than {databases} databases. \
                     Set the directive databases, cluster-databases for a node of a cluster, to that of the server \
                     which wrote the file"
                ))?;
            }
            Item::Sizes(keys, expires) => {
                // A hint, which may lie: a key takes some bytes of the file.
                let bounded = |count: u64| count.min(self.rules.left / KEY_BYTES_MIN) as usize;
                self.keyspace.reserve(self.state.db, bounded(keys), bounded(expires));
            }
            // Hints, too.
            Item::Slot(_) => {}
            Item::SlotImport { name, ranges } => self.import(&name, ranges)?,
            Item::Function(code) => self.state.brought.libraries.push(code.into_owned().into()),
            Item::ModuleRecord { module, .. } => self.state.dropped.note_module(module),
            Item::LoadedEntry(entry) => {
                if let Some(mended) = entry.mended {
                    self.note_mended(&entry.key, mended, out);
                }
                self.entry(entry)?;
                self.state.entries += 1;
                out.delay(self.state.entries);
            }
            Item::Empty { key } => {
                self.state.brought.counts.empty += 1;
                if self.state.brought.counts.empty <= SAID_KEYS_MAX {
                    let text = format!("rdbLoadObject skipping empty key: {}", key.escape_ascii());
                    out.log(LogLevel::Notice, text);
                }
            }
            Item::Skipped { key, kind, offset, .. } => {
                self.state.brought.counts.skipped += 1;
                if self.state.brought.counts.skipped <= SAID_KEYS_MAX {
                    let key = key.escape_ascii();
                    let text = format!(
                        "Skipped key '{key}' at byte {offset}: its type is {kind}, which this version lacks"
                    );
                    out.log(LogLevel::Warning, text);
                }
            }
        }
        Ok(())
    }

    /// Notes an import of slots that was under way; the keys of these slots follow. Errors: a line for the
    /// log.
    fn import(&mut self, name: &[u8], ranges: Vec<(u16, u16)>) -> Result<(), String> {
        if self.keyspace.hasher().layout() == Layout::One {
            return Err("The RDB file has an import of slots (opcode 243), which a server without cluster-enabled yes \
                        cannot load"
                .to_owned());
        }
        // The reader of the format lets no other length pass.
        if let Ok(name) = name.try_into() {
            self.keyspace.import_marks().begin(SlotImport { name, source: None, ranges: ranges.into() });
        }
        Ok(())
    }

    /// Says what was put right in a value.
    #[cold]
    fn note_mended(&mut self, key: &[u8], mended: Mended, out: &mut Reporter<'_>) {
        self.state.mended += 1;
        if self.state.mended <= SAID_KEYS_MAX {
            let (key, db) = (key.escape_ascii(), self.state.db);
            out.log(LogLevel::Warning, format!("Key '{key}' in database {db}, put right: {mended}"));
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8], out: &mut Reporter<'_>) {
        let progress = out.progress;
        let mut say = |text: String| out.log(LogLevel::Notice, text);
        match name {
            b"valkey-ver" => say(format!("Loading RDB produced by Valkey version {}", value.escape_ascii())),
            b"redis-ver" => say(format!("Loading RDB produced by Redis version {}", value.escape_ascii())),
            b"ctime" => {
                let age_s = parse_i64(value).map_or(0, |at| self.rules.now.unix_s().saturating_sub(at));
                say(format!("RDB age {} seconds", age_s.max(0)));
            }
            b"used-mem" => {
                let bytes = parse_i64(value).unwrap_or(0);
                progress.rdb_used_memory.store(u64::try_from(bytes).unwrap_or(0), Relaxed);
                let mb = bytes as f64 / f64::from(1 << 20);
                say(format!("RDB memory usage when created {mb:.2} Mb"));
            }
            b"repl-id" => self.state.brought.history.note_id(value),
            b"repl-offset" => {
                if let Some(offset) = parse_i64(value).and_then(|offset| u64::try_from(offset).ok()) {
                    self.state.brought.history.note_offset(offset);
                }
            }
            // Facts about the writer.
            b"aof-base" if value == b"1" => say("RDB is base AOF".to_owned()),
            b"cluster-slot-states" => self.state.brought.slot_states = Some(value.to_vec()),
            // Sizes of slots to come, a hint.
            b"redis-bits" | b"aof-base" | b"aof-preamble" | b"slot-info" => {}
            b"repl-stream-db" => {
                let db = parse_i64(value).and_then(|db| usize::try_from(db).ok());
                self.state.brought.history.note_db(db);
            }
            _ => self.state.dropped.note_field(name),
        }
    }

    fn entry(&mut self, entry: LoadedEntry<'_>) -> Result<(), String> {
        let LoadedEntry { key, mut value, expiry_ms, usage, mended: _ } = entry;
        let (db, now_ms) = (self.state.db, self.rules.now.unix_ms());
        let (is_loaded, is_told) = match self.rules.expired {
            ExpiredKeys::LeftOut => (false, false),
            ExpiredKeys::ToldToReplicas => (false, self.state.brought.history.has_id()),
            ExpiredKeys::Loaded => (true, false),
        };
        let mut has_expired = !is_loaded && expiry_ms.is_some_and(|at| at < now_ms);
        let mut fields = Vec::new();
        if !has_expired
            && !is_loaded
            && let Loaded::Hash(hash) = &mut value
        {
            let note = |name: &[u8]| fields.extend(is_told.then(|| name.to_vec()));
            hash.remove_expired(now_ms, usize::MAX, &mut HashContext::default(), note);
            has_expired = hash.is_empty();
        }
        if is_told && (has_expired || !fields.is_empty()) {
            let fields = if has_expired { Vec::new() } else { fields };
            self.state.brought.history.note_expired(LeftOut { db, key: (&*key).into(), fields });
        }
        if has_expired {
            self.state.brought.counts.expired += 1;
            return Ok(());
        }
        let number = db;
        if self.keyspace.is_nearly_full(number) {
            return Err(format!("Database {number} has no room for the keys of the RDB file"));
        }
        let (expiry, clock) = (expiry_ms.map(|at| at.max(0)), self.clock(usage));
        let key = Key::hashed(&key, self.keyspace.hasher());
        if let Loaded::Str(text) = &value
            && self.rules.duplicates == Duplicates::Refused
            && Staged::takes(key.bytes, text)
        {
            let is_full = self.state.staged.push(self.keyspace, number, key, text, (expiry, clock));
            return if is_full { self.insert_staged() } else { Ok(()) };
        }
        if self.rules.duplicates == Duplicates::Replace {
            self.keyspace.unload(number, key.bytes);
        }
        let keyspace = &mut *self.keyspace;
        let is_new = match value {
            Loaded::Str(text) => keyspace.load_key(number, key, NewValue::Str(&text), expiry, clock),
            Loaded::Pages(pages) => keyspace.load_key(number, key, NewValue::Pages(pages), expiry, clock),
            Loaded::List(list) => keyspace.load_key(number, key, NewValue::List(list), expiry, clock),
            Loaded::Hash(hash) => keyspace.load_key(number, key, NewValue::Hash(hash), expiry, clock),
            Loaded::Stream(stream) => keyspace.load_key(number, key, NewValue::Stream(stream), expiry, clock),
            Loaded::Set(set) => keyspace.load_key(number, key, NewValue::Set(set), expiry, clock),
            Loaded::Zset(zset) => keyspace.load_key(number, key, NewValue::Zset(zset), expiry, clock),
        };
        if !is_new {
            return Err(self.duplicated(key.bytes));
        }
        self.state.brought.counts.loaded += 1;
        Ok(())
    }

    /// Inserts the strings that wait. Errors: a line for the log.
    fn insert_staged(&mut self) -> Result<(), String> {
        let inserted = self.state.staged.insert(self.keyspace, self.state.db);
        self.state.brought.counts.loaded += inserted.map_err(|key| self.duplicated(&key))?;
        Ok(())
    }

    fn duplicated(&self, key: &[u8]) -> String {
        format!("RDB has duplicated key '{}' in DB {}", key.escape_ascii(), self.state.db)
    }

    /// The access clock of a key that was last used so.
    fn clock(&self, usage: Usage) -> u32 {
        let now_s = self.rules.now.unix_s();
        let minutes = (now_s / 60) as u16;
        match (usage, self.rules.lfu) {
            (Usage::Frequency(counter), true) => u32::from(minutes) << 8 | u32::from(counter),
            (Usage::Idle(idle_s), false) => (now_s as u32).wrapping_sub(idle_s as u32) & CLOCK_MASK,
            // A new key's.
            (Usage::Unsaid | Usage::Idle(_), true) => u32::from(minutes) << 8 | 5,
            (Usage::Unsaid | Usage::Frequency(_), false) => now_s as u32 & CLOCK_MASK,
        }
    }
}

/// The snapshot at the beginning of an append-only file, item by item, on the thread that replays the rest.
pub struct PreambleLoad {
    rules: LoadRules,
    state: LoadState,
}

impl PreambleLoad {
    /// The beginning of a log of `size` bytes.
    pub fn new(now: Now, lfu: bool, size: u64) -> PreambleLoad {
        let (duplicates, expired) = (Duplicates::Refused, ExpiredKeys::Loaded);
        let rules = LoadRules { duplicates, now, lfu, expired, left: size };
        PreambleLoad { rules, state: LoadState::default() }
    }

    /// What the items so far have brought, to be taken or changed.
    pub fn brought(&mut self) -> &mut LoadResult {
        &mut self.state.brought
    }

    /// Takes an item. Errors: a line for the log.
    pub fn item(
        &mut self,
        item: Item<'_>,
        keyspace: &mut Keyspace,
        out: &mut Reporter<'_>,
    ) -> Result<(), String> {
        self.target(keyspace).item(item, out)
    }

    /// The snapshot has ended. Errors: a line for the log.
    pub fn finish(&mut self, keyspace: &mut Keyspace, out: &mut Reporter<'_>) -> Result<(), String> {
        self.target(keyspace).insert_staged()?;
        self.state.log_dropped(out);
        Ok(())
    }

    fn target<'a>(&'a mut self, keyspace: &'a mut Keyspace) -> LoadTarget<'a> {
        LoadTarget { keyspace, rules: self.rules, state: &mut self.state }
    }
}

/// Bytes of a file that a key takes with its value at least: type, key and value of no bytes.
const KEY_BYTES_MIN: u64 = 3;
/// Keys that are passed over and named in the log; the last line counts all.
const SAID_KEYS_MAX: u64 = 100;
