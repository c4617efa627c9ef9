//! Reads a snapshot file into a keyspace. This is the part of a load that runs on the loading thread.

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

/// The most bytes that are read at once. A smaller `loading-process-events-interval-bytes` only refreshes
/// the numbers of INFO more often, because clients are served during the whole load.
const PIECE_BYTES_MAX: usize = 256 * 1024;

/// Bytes that are read at once, by the configuration.
pub fn piece_bytes(config: &Config) -> usize {
    let interval = usize::try_from(config.int(param::LOADING_PROCESS_EVENTS_INTERVAL_BYTES));
    interval.unwrap_or(PIECE_BYTES_MAX).clamp(1, PIECE_BYTES_MAX)
}

/// What a load does with a key that the keyspace has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// The file counts as malformed.
    Refused,
    /// The file's value replaces the value in the keyspace.
    Replace,
}

/// Options of a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Options of the format's reader.
    pub reading: ReadOptions,
    /// Treatment of keys that the keyspace has already.
    pub duplicates: Duplicates,
    /// Time of the load, by which keys count as expired.
    pub now: Now,
    /// Whether the keys' access clocks hold LFU frequencies instead of LRU times.
    pub lfu: bool,
    /// Whether the setting `rdb-version-check` is `relaxed`, for the wording of errors in the log.
    pub is_relaxed: bool,
    /// Bytes that are read at once, as [`piece_bytes`] computes them.
    pub piece_bytes: usize,
    /// The file's name, for the log.
    pub name: Vec<u8>,
    /// Whether a malformed file ends the process, as in a load at the start. Expired keys that are left out
    /// are recorded for replicas only in this case.
    pub ends_process: bool,
    /// Whether keys and fields past their expiry are loaded, too.
    pub keeps_expired: bool,
    /// Whether the connection that carries the file checks its bytes. A missing checksum is accepted in any
    /// case; if this is `true`, the log says that the checksum was skipped for this transfer.
    pub is_checked_on_the_way: bool,
    /// Whether a later save may replace the file. If so, a file from which records were dropped has to be
    /// kept under a second name.
    pub replaces_file: bool,
}

/// A load of one file.
pub struct FileLoad {
    options: LoadOptions,
    reader: Reader,
    state: LoadState,
    /// Bytes of the file from the piece being handled on; 0 if the size is unknown. The sizes that the file
    /// states are hints, which this number limits.
    left: u64,
    /// The first bytes of the file.
    head: Vec<u8>,
    /// Whether the header was found valid and the main thread was notified.
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
                    format!("Reading the RDB file failed after byte {read}: {reason}"),
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

    /// Updates the numbers that other threads see.
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

    /// Handles the next bytes; returns whether the file ends with them.
    fn take(
        &mut self,
        bytes: &[u8],
        keyspace: &mut Keyspace,
        out: &mut Reporter<'_>,
    ) -> Result<bool, NotLoaded> {
        let LoadOptions { duplicates, now, lfu, .. } = self.options;
        let expired = match (self.options.keeps_expired, self.options.ends_process) {
            (true, _) => ExpiredKeys::Loaded,
            (false, true) => ExpiredKeys::ReportedToReplicas,
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

    /// Logs why the file is malformed. If the reader has found no other fault, the file is truncated.
    fn end_of_file(&mut self, out: &mut Reporter<'_>) {
        let error = match self.reader.next() {
            Ok(ReadProgress::More(offset)) => LoadError { offset, problem: Problem::CutOff },
            Ok(ReadProgress::Item(_) | ReadProgress::End) => return,
            Err(error) => error,
        };
        self.log_cause(&error, out);
    }

    /// Logs the fault of the file, where possible in the reference's words, which scripts of operators look
    /// for.
    fn log_cause(&self, error: &LoadError, out: &mut Reporter<'_>) {
        // An unsupported value needs no line about its key, because its own line names the key.
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

    /// Logs that the file is damaged, and names the tool that examines it. If the process ends because of
    /// this, another line says so in the reference's words, which scripts of operators look for.
    fn log_damage(&self, offset: u64, out: &mut Reporter<'_>) {
        let text = format!(
            "RDB file integrity check failed at byte {offset}: sluice-check-rdb reports how many keys before are good"
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

/// A log line that names the malformed value: the key being read, the value's type, and its database if that
/// is known. `None` if no value was being read.
pub fn under_way_line(under_way: Option<(&[u8], &str)>, db: Option<usize>) -> Option<String> {
    let (key, kind) = under_way?;
    let db = db.map_or_else(String::new, |db| format!(" in database {db}"));
    Some(format!(
        "The value that cannot be loaded belongs to key '{}'{db}, of type {kind}",
        key.escape_ascii()
    ))
}

/// The reason why a load failed.
enum LoadFailure {
    /// The keyspace cannot take the contents of the file; the text is a line for the log.
    Target(String),
    /// The file is malformed.
    File(LoadError),
}

/// Bytes of a file's signature.
const MAGIC_BYTES: usize = 9;

/// The treatment of keys past their expiry.
#[derive(Clone, Copy)]
enum ExpiredKeys {
    LeftOut,
    /// Expired keys are left out. If the file belongs to a replication history, replicas that continue from
    /// the file still have these keys and fields of hashes, so the replication stream begins with their
    /// deletions.
    ReportedToReplicas,
    /// Expired keys are loaded, because the commands of an append-only file follow.
    Loaded,
}

/// The rules by which keys of a file are loaded.
#[derive(Clone, Copy)]
struct LoadRules {
    duplicates: Duplicates,
    now: Now,
    lfu: bool,
    expired: ExpiredKeys,
    /// Upper bound of the bytes of the file that are left. The sizes that the file states are hints, which
    /// this number limits.
    left: u64,
}

/// The state of a load: its present database, counts and results.
#[derive(Default)]
struct LoadState {
    db: usize,
    /// Keys read so far, including expired ones, but not those with empty or unsupported values.
    entries: u64,
    brought: LoadResult,
    /// Strings that wait to be inserted into the keyspace.
    staged: Staged,
    dropped: DroppedRecords,
    /// Values that were repaired.
    mended: u64,
}

impl LoadState {
    /// Logs the dropped records and fields, and counts those that may hold data; none of them are keys.
    fn log_dropped(&mut self, out: &mut Reporter<'_>) {
        self.brought.counts.dropped = self.dropped.with_data();
        self.dropped.lines().into_iter().for_each(|(level, line)| out.log(level, line));
    }
}

/// Keeps the file under a second name if parts with data were dropped, because a save or a rewrite may take
/// the file's place. The count of dropped parts becomes 0 then, and also if the snapshot is no file of this
/// server. If keeping the file fails, the count stays, and no file may take the place of this one.
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
                "The loaded file, with the dropped records, is kept as {name}, which no save replaces. \
                 Delete that file when it is not needed"
            );
            out.log(LogLevel::Warning, text);
        }
        Err(reason) => {
            let text = format!(
                "WARNING: records of the loaded file were dropped, and the file cannot have a second name: {reason}. \
                 No save replaces the file: move it, or set another dbfilename or appendfilename, and restart"
            );
            out.log(LogLevel::Warning, text);
        }
    }
}

/// The receiver of a file's items.
struct LoadTarget<'a> {
    keyspace: &'a mut Keyspace,
    rules: LoadRules,
    state: &'a mut LoadState,
}

impl LoadTarget<'_> {
    /// Handles an item of the file. The error is a line for the log.
    fn item(&mut self, item: Item<'_>, out: &mut Reporter<'_>) -> Result<(), String> {
        match item {
            Item::Aux(name, value) => self.field(&name, &value, out),
            Item::Db(number) => {
                self.insert_staged()?;
                let databases = self.keyspace.databases();
                self.state.db = usize::try_from(number).ok().filter(|number| *number < databases).ok_or(format!(
                    "FATAL: Data file was created with a Server configured to handle more than {databases} databases. \
                     Set databases, for a node of a cluster cluster-databases, to the number of the server that wrote \
                     the file"
                ))?;
            }
            Item::Sizes(keys, expires) => {
                // The file's number of keys is a hint that may be wrong, so it is limited by the number of
                // bytes, because a key takes at least `KEY_BYTES_MIN` bytes of the file.
                let bounded = |count: u64| count.min(self.rules.left / KEY_BYTES_MIN) as usize;
                self.keyspace.reserve(self.state.db, bounded(keys), bounded(expires));
            }
            // Sizes of slots are only hints, too, and are not used.
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

    /// Records an import of slots that was under way; the keys of these slots follow. The error is a line for
    /// the log.
    fn import(&mut self, name: &[u8], ranges: Vec<(u16, u16)>) -> Result<(), String> {
        if self.keyspace.hasher().layout() == Layout::One {
            return Err("The RDB file has an import of slots (opcode 243), which a server without cluster-enabled yes \
                        cannot load"
                .to_owned());
        }
        // The reader of the format accepts no other length.
        if let Ok(name) = name.try_into() {
            self.keyspace.import_marks().begin(SlotImport { name, source: None, ranges: ranges.into() });
        }
        Ok(())
    }

    /// Counts a repaired value, and logs the repair unless [`SAID_KEYS_MAX`] repairs are logged already.
    #[cold]
    fn note_mended(&mut self, key: &[u8], mended: Mended, out: &mut Reporter<'_>) {
        self.state.mended += 1;
        if self.state.mended <= SAID_KEYS_MAX {
            let (key, db) = (key.escape_ascii(), self.state.db);
            out.log(LogLevel::Warning, format!("Key '{key}' in database {db} was repaired: {mended}"));
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
            b"aof-base" if value == b"1" => say("RDB is base AOF".to_owned()),
            b"cluster-slot-states" => self.state.brought.slot_states = Some(value.to_vec()),
            // `slot-info` has the sizes of the slots that follow, a hint that is not used.
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
            ExpiredKeys::ReportedToReplicas => (false, self.state.brought.history.has_id()),
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

    /// Inserts the staged strings. The error is a line for the log.
    fn insert_staged(&mut self) -> Result<(), String> {
        let inserted = self.state.staged.insert(self.keyspace, self.state.db);
        self.state.brought.counts.loaded += inserted.map_err(|key| self.duplicated(&key))?;
        Ok(())
    }

    fn duplicated(&self, key: &[u8]) -> String {
        format!("RDB has duplicated key '{}' in DB {}", key.escape_ascii(), self.state.db)
    }

    /// The access clock of a key with this idle time or LFU counter.
    fn clock(&self, usage: Usage) -> u32 {
        let now_s = self.rules.now.unix_s();
        let minutes = (now_s / 60) as u16;
        match (usage, self.rules.lfu) {
            (Usage::Frequency(counter), true) => u32::from(minutes) << 8 | u32::from(counter),
            (Usage::Idle(idle_s), false) => (now_s as u32).wrapping_sub(idle_s as u32) & CLOCK_MASK,
            // In the other cases, the key gets the clock of a new key.
            (Usage::Absent | Usage::Idle(_), true) => u32::from(minutes) << 8 | 5,
            (Usage::Absent | Usage::Frequency(_), false) => now_s as u32 & CLOCK_MASK,
        }
    }
}

/// Loads the snapshot at the beginning of an append-only file, item by item, on the thread that replays
/// the commands after it.
pub struct PreambleLoad {
    rules: LoadRules,
    state: LoadState,
}

impl PreambleLoad {
    /// Begins the load of an append-only file of `size` bytes.
    pub fn new(now: Now, lfu: bool, size: u64) -> PreambleLoad {
        let (duplicates, expired) = (Duplicates::Refused, ExpiredKeys::Loaded);
        let rules = LoadRules { duplicates, now, lfu, expired, left: size };
        PreambleLoad { rules, state: LoadState::default() }
    }

    /// The results so far, for a change or to take them.
    pub fn brought(&mut self) -> &mut LoadResult {
        &mut self.state.brought
    }

    /// Handles an item of the snapshot. The error is a line for the log.
    pub fn item(
        &mut self,
        item: Item<'_>,
        keyspace: &mut Keyspace,
        out: &mut Reporter<'_>,
    ) -> Result<(), String> {
        self.target(keyspace).item(item, out)
    }

    /// Ends the snapshot and inserts the staged strings. Errors: a line for the log.
    pub fn finish(&mut self, keyspace: &mut Keyspace, out: &mut Reporter<'_>) -> Result<(), String> {
        self.target(keyspace).insert_staged()?;
        self.state.log_dropped(out);
        Ok(())
    }

    fn target<'a>(&'a mut self, keyspace: &'a mut Keyspace) -> LoadTarget<'a> {
        LoadTarget { keyspace, rules: self.rules, state: &mut self.state }
    }
}

/// Minimum number of bytes that a key takes in a file with its value: a type byte, an empty key and an empty
/// value.
const KEY_BYTES_MIN: u64 = 3;
/// Maximum number of empty keys that the log names, and likewise of skipped and of repaired keys.
const SAID_KEYS_MAX: u64 = 100;
