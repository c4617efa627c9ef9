//! `sluice-check-rdb`, and the part of `sluice-check-aof` that reads a snapshot at the beginning of a log.

use crate::cli;
use crate::console::{Checked, Console, Meter, PIECE_BYTES, Stop, reason};
use crate::stats::{FileStats, Format, KeyFigures};
use sluice_base::num::IntBuffer;
use sluice_persist::rdb::{
    ENVELOPES, ForeignType, Item, LoadError, Loaded, LoadedEntry, ModuleType, Problem, ReadOptions,
    ReadProgress, Reader, Unknown,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Checks an RDB file according to the arguments, without the program's name; returns the exit status.
pub fn check_rdb(words: &[OsString], console: &mut Console<'_>) -> i32 {
    match run(words, console) {
        Ok(()) => 0,
        Err(Stop::Said | Stop::Report(_)) => 1,
    }
}

struct CheckOptions {
    path: PathBuf,
    stats: Option<Format>,
    output: Option<PathBuf>,
}

fn run(words: &[OsString], console: &mut Console<'_>) -> Checked<()> {
    let usage = format!("Usage: {} {}", console.program, include_str!("usage_rdb.txt").trim_end());
    if let [word] = words {
        match word.to_str() {
            Some("-v" | "--version") => return console.say(&cli::version(&console.program)),
            Some("-h" | "--help") => return console.say(&usage),
            _ => {}
        }
    }
    let Some(options) = options(words) else { return console.fail(&usage) };
    let Some(output) = &options.output else { return check_file(&options, console) };
    let file = match create_beside(output, &options.path) {
        Ok(file) => file,
        Err(error) => {
            let line = format!("Cannot open file {}: {}", output.display(), reason(&error));
            return console.fail(&line);
        }
    };
    let mut file = BufWriter::new(file);
    let mut to_file = Console {
        out: &mut file,
        answers: &mut *console.answers,
        meter: console.meter.as_mut().map(Meter::lend),
        now_ms: console.now_ms,
        program: console.program.clone(),
    };
    let checked = check_file(&options, &mut to_file);
    file.flush()?;
    checked
}

/// Creates the file of the report, replacing a file of this name, unless that is the file to check.
fn create_beside(output: &Path, checked: &Path) -> io::Result<File> {
    let of = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    if of(output).is_some_and(|there| Some(there) == of(checked)) {
        return Err(io::Error::other("this is the file to check, which the report would replace"));
    }
    File::create(output)
}

fn options(words: &[OsString]) -> Option<CheckOptions> {
    let (path, mut words) = words.split_first()?;
    let (mut wanted, mut format, mut output) = (false, Format::Table, None);
    while let Some((word, rest)) = words.split_first() {
        words = rest;
        match word.to_str()? {
            "--stats" => wanted = true,
            "--format" => {
                let (name, rest) = words.split_first()?;
                words = rest;
                format = match name.to_str()? {
                    "table" => Format::Table,
                    "info" => Format::Info,
                    "csv" => Format::Csv,
                    _ => return None,
                };
            }
            "--output" => {
                let (name, rest) = words.split_first()?;
                (words, output) = (rest, Some(PathBuf::from(name)));
            }
            _ => return None,
        }
    }
    Some(CheckOptions { path: path.into(), stats: wanted.then_some(format), output })
}

fn check_file(options: &CheckOptions, console: &mut Console<'_>) -> Checked<()> {
    let mut report = SnapshotReport::new(console.now_ms);
    let checked = read_file(&options.path, &mut report, console);
    if let (Ok(()), Some(format)) = (&checked, options.stats) {
        write!(console.out, "{}", report.stats.render(format))?;
    }
    console.out.flush()?;
    checked
}

fn read_file(path: &Path, report: &mut SnapshotReport, console: &mut Console<'_>) -> Checked<()> {
    console.say(&format!("[offset 0] Checking RDB file {}", path.display()))?;
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (size, mut file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            console.say(&format!("[offset 0] Cannot open file {}: {}", path.display(), reason(&error)))?;
            return report.failed(0, console);
        }
    };
    console.begin();
    let mut reader = Reader::new(read_options());
    let mut piece = vec![0; PIECE_BYTES];
    let mut fed = 0;
    loop {
        let line = match reader.next() {
            Ok(ReadProgress::Item(item)) => report.item(&item),
            Ok(ReadProgress::End) => {
                let rest = reader.rest().len() as u64;
                return report.end(&file, fed - rest, size, console);
            }
            Ok(ReadProgress::More(missing_at)) => {
                let len = match file.read(&mut piece) {
                    Ok(len) => len,
                    Err(error) => {
                        console.say(&format!("[offset {fed}] Cannot read the file: {}", reason(&error)))?;
                        return report.failed(fed, console);
                    }
                };
                let new = piece.get(..len).unwrap_or_default();
                if fed == 0 && !report.compressed(new, console)? {
                    report.header(new, console)?;
                }
                if len == 0 {
                    let error = LoadError { offset: missing_at, problem: Problem::CutOff };
                    let missing = reader.missing();
                    if missing_at < fed {
                        report.note = Some(format!(
                            "[info] the item at byte {missing_at} has {} bytes, which is {missing} more than the file has",
                            fed - missing_at + missing
                        ));
                    }
                    return report.error(&error, reader.under_way(), console);
                }
                reader.feed(new);
                fed += len as u64;
                console.progress(fed, size);
                continue;
            }
            Err(error) => {
                let end = error.offset + CHECKSUM_LEN;
                if error.problem == Problem::Checksum && end < size {
                    report.note = Some(format!(
                        "[info] {} bytes follow the end of the snapshot at byte {end}: some of them may belong to it",
                        size - end
                    ));
                }
                return report.error(&error, reader.under_way(), console);
            }
        };
        if reader.is_compressed() {
            report.version = reader.version();
        }
        let offset = fed - reader.rest().len() as u64;
        report.took(offset);
        if let Some(line) = line {
            console.say(&format!("[offset {offset}] {line}"))?;
        }
    }
}

/// What was read of a snapshot so far, for the report.
pub(crate) struct SnapshotReport {
    now_ms: i64,
    version: u32,
    is_compressed: bool,
    db: u64,
    keys: u64,
    expires: u64,
    expired: u64,
    functions: u64,
    /// Number of records outside of the keys that each module has written.
    module_records: BTreeMap<ModuleType, u64>,
    /// Number of keys of each type that the server does not have.
    unsupported: BTreeMap<ForeignType, u64>,
    stats: FileStats,
    /// Length of the valid beginning of the file, in bytes.
    valid_up_to: u64,
    /// A line that is added to the report of an error.
    note: Option<String>,
}

impl SnapshotReport {
    pub(crate) fn new(now_ms: i64) -> SnapshotReport {
        SnapshotReport {
            now_ms,
            version: 0,
            is_compressed: false,
            db: 0,
            keys: 0,
            expires: 0,
            expired: 0,
            functions: 0,
            module_records: BTreeMap::new(),
            unsupported: BTreeMap::new(),
            stats: FileStats::default(),
            valid_up_to: 0,
            note: None,
        }
    }

    /// Whether a file begins as a compressed one; if so, reports it.
    pub(crate) fn compressed(&mut self, start: &[u8], console: &mut Console<'_>) -> Checked<bool> {
        self.is_compressed = ENVELOPES.iter().any(|magic| start.starts_with(magic));
        if self.is_compressed {
            console.say("[offset 0] Compressed as a whole: where a value is malformed, offsets count its decompressed bytes")?;
        }
        Ok(self.is_compressed)
    }

    /// Checks the version in the first bytes of a file. A version of other servers, or of a later Valkey, is
    /// reported. A version from 80 on after the magic `REDIS` is an error.
    pub(crate) fn header(&mut self, start: &[u8], console: &mut Console<'_>) -> Checked<()> {
        let head = start.get(..HEADER_LEN).unwrap_or_default();
        let (redis, digits) = match (head.strip_prefix(b"REDIS"), head.strip_prefix(b"VALKEY")) {
            (Some(digits), _) => (true, digits),
            (None, Some(digits)) => (false, digits),
            // An invalid magic is left to the reader, which reports the error.
            (None, None) => return Ok(()),
        };
        let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
        self.version = version.unwrap_or(0);
        match self.version {
            0 => Ok(()),
            VERSION_VALKEY.. if redis => {
                let error = LoadError { offset: HEADER_LEN as u64, problem: Problem::Version(self.version) };
                self.error(&error, None, console)
            }
            _ => match self.origin() {
                Some(origin) => {
                    let origin = capitalised(origin);
                    console.say(&format!("[offset 9] {origin} RDB version {} detected", self.version))
                }
                None => Ok(()),
            },
        }
    }

    /// The reference's word for a version that is not its own; `None` for its own versions.
    fn origin(&self) -> Option<&'static str> {
        match self.version {
            FOREIGN_FROM..VERSION_VALKEY => Some("foreign"),
            VERSION_VALKEY..=VERSION_VALKEY_READ | 0..FOREIGN_FROM => None,
            _ => Some("future"),
        }
    }

    /// Counts an item; returns the text that follows the item's offset in the report, if any.
    pub(crate) fn item(&mut self, item: &Item<'_>) -> Option<String> {
        match item {
            Item::Aux(name, value) => {
                Some(format!("AUX FIELD {} = '{}'", name.escape_ascii(), value.escape_ascii()))
            }
            Item::Db(db) => {
                self.db = *db;
                Some(format!("Selecting DB ID {db}"))
            }
            Item::Function(code) => {
                self.functions += 1;
                Some(described_library(code))
            }
            Item::ModuleRecord { module, bytes } => {
                *self.module_records.entry(*module).or_default() += 1;
                let version = module.encoding_version();
                Some(format!("Module record of {module} (encoding version {version}), {bytes} bytes"))
            }
            Item::Sizes(..) | Item::Slot(_) | Item::SlotImport { .. } => None,
            Item::LoadedEntry(entry) => {
                self.loaded(entry);
                let mended = entry.mended?;
                Some(format!("Key '{}', {mended} where the file is loaded", entry.key.escape_ascii()))
            }
            Item::Empty { key } => {
                self.keys += 1;
                Some(format!("Key '{}' has no element, and is skipped", key.escape_ascii()))
            }
            Item::Skipped { key, kind, expiry_ms, .. } => {
                *self.unsupported.entry(*kind).or_default() += 1;
                let kind = match kind {
                    ForeignType::PathHash => "hash",
                    ForeignType::Module(_) => "module",
                };
                self.key(kind, key.len(), *expiry_ms, None);
                None
            }
        }
    }

    /// Counts a key with its value.
    fn loaded(&mut self, entry: &LoadedEntry<'_>) {
        match &entry.value {
            Loaded::Str(text) => {
                let len = text.len() as u64;
                self.key("string", entry.key.len(), entry.expiry_ms, Some(&mut [len].into_iter()));
            }
            Loaded::Pages(pages) => {
                let len = pages.len() as u64;
                self.key("string", entry.key.len(), entry.expiry_ms, Some(&mut [len].into_iter()));
            }
            Loaded::List(list) => {
                let (mut elements, mut digits) = (list.view().iter(0..usize::MAX), IntBuffer::new());
                let mut sizes = std::iter::from_fn(|| {
                    elements.next().map(|element| element.bytes(&mut digits).len() as u64)
                });
                self.key("list", entry.key.len(), entry.expiry_ms, Some(&mut sizes));
            }
            Loaded::Set(set) => {
                let (members, mut digits) = (set.view().iter(), IntBuffer::new());
                let mut sizes = members.map(|member| member.bytes(&mut digits).len() as u64);
                self.key("set", entry.key.len(), entry.expiry_ms, Some(&mut sizes));
            }
            Loaded::Hash(hash) => {
                let (mut name, mut value) = (IntBuffer::new(), IntBuffer::new());
                let mut sizes = hash.view().iter().map(|field| {
                    (field.name.bytes(&mut name).len() + field.value.bytes(&mut value).len()) as u64
                });
                self.key("hash", entry.key.len(), entry.expiry_ms, Some(&mut sizes));
            }
            Loaded::Stream(stream) => {
                let mut sizes = stream.log().entries().map(|entry| entry.bytes());
                self.key("stream", entry.key.len(), entry.expiry_ms, Some(&mut sizes));
            }
            Loaded::Zset(zset) => {
                let mut sizes = zset.view().iter_all().map(|(member, _)| member.len() as u64);
                self.key("zset", entry.key.len(), entry.expiry_ms, Some(&mut sizes));
            }
        }
    }

    fn key(
        &mut self,
        kind: &str,
        bytes: usize,
        expiry_ms: Option<i64>,
        sizes: Option<&mut dyn Iterator<Item = u64>>,
    ) {
        let is_expired = expiry_ms.is_some_and(|at| at < self.now_ms);
        self.keys += 1;
        self.expires += u64::from(expiry_ms.is_some());
        self.expired += u64::from(is_expired);
        let key = KeyFigures { db: self.db, kind, bytes, has_expiry: expiry_ms.is_some(), is_expired };
        self.stats.add(&key, sizes);
    }

    /// Records that the last valid item ended at `offset`.
    pub(crate) fn took(&mut self, offset: u64) {
        self.valid_up_to = offset;
    }

    /// Reports an error and the valid part of the file before it, and ends the check.
    pub(crate) fn error<T>(
        &mut self,
        error: &LoadError,
        under_way: Option<(&[u8], &str)>,
        console: &mut Console<'_>,
    ) -> Checked<T> {
        console.say("--- RDB ERROR DETECTED ---")?;
        console.say(&format!("[offset {}] {}", error.offset, self.describe(error)))?;
        if let Some((key, kind)) = under_way {
            console.say(&format!("[additional info] Reading key '{}'", key.escape_ascii()))?;
            console.say(&format!("[additional info] Reading type {kind}"))?;
        }
        self.totals(console)?;
        if error.problem == Problem::Checksum {
            console.say("[info] the structure is valid, but some bytes differ from what was written")?;
        } else {
            console.say(&format!(
                "[info] the first {} bytes are valid and hold the {} keys read",
                self.valid_up_to, self.keys
            ))?;
        }
        if let Some(note) = &self.note {
            console.say(note)?;
        }
        self.failed(error.offset, console)
    }

    fn describe(&self, error: &LoadError) -> String {
        let version = self.version;
        match (&error.problem, self.origin()) {
            (Problem::Magic, _) => "Wrong signature trying to load DB from file".to_owned(),
            (Problem::Version(version), _) => format!("Can't handle RDB format version {version}"),
            (Problem::CutOff, _) => "Unexpected EOF reading RDB file".to_owned(),
            (Problem::Unknown(kind), Some(origin)) => {
                format!("Unknown object type {kind} in RDB file with {origin} version {version}")
            }
            (Problem::Unknown(kind), None) => format!("Invalid object type: {kind}"),
            (Problem::Checksum, _) => "RDB CRC error".to_owned(),
            (Problem::Envelope, _) => "Can't handle the compression of the RDB file".to_owned(),
            (Problem::OldFunction, _) => "Pre-release function format not supported".to_owned(),
            (
                Problem::Unsupported { .. }
                | Problem::Length
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
                | Problem::Set
                | Problem::Module,
                _,
            ) => error.to_string(),
        }
    }

    fn totals(&self, console: &mut Console<'_>) -> Checked<()> {
        console.say(&format!("[info] {} keys read", self.keys))?;
        console.say(&format!("[info] {} expires", self.expires))?;
        console.say(&format!("[info] {} already expired", self.expired))?;
        console.say(&format!("[info] {} functions", self.functions))
    }

    /// Reports the records that modules have written outside of the keys.
    fn module_totals(&self, console: &mut Console<'_>) -> Checked<()> {
        for (module, records) in &self.module_records {
            console.say(&format!(
                "[info] {records} records of module type {module} beside the keys: Sluice drops them, \
                 other servers need the module"
            ))?;
        }
        Ok(())
    }

    fn failed<T>(&self, offset: u64, console: &mut Console<'_>) -> Checked<T> {
        console.fail(&format!("[offset {offset}] Check RDB returned error code 1 (0 means success)"))
    }

    /// Reports that the snapshot is valid and ends at `offset`; the file has `size` bytes.
    pub(crate) fn end(
        &mut self,
        file: &File,
        offset: u64,
        size: u64,
        console: &mut Console<'_>,
    ) -> Checked<()> {
        if self.is_compressed {
            console.say(&format!("[offset {offset}] Compressed frame OK"))?;
        } else if self.version >= SUMMED_FROM {
            let mut sum = [0; 8];
            // The reader has read these bytes already, and has checked the sum unless it is 0. If this
            // second read fails, the sum is reported as checked.
            let is_there = file.read_exact_at(&mut sum, offset.saturating_sub(8)).is_ok();
            let what = if is_there && sum == [0; 8] {
                "RDB file was saved with checksum disabled: no check performed."
            } else {
                "Checksum OK"
            };
            console.say(&format!("[offset {offset}] {what}"))?;
        }
        console.say(&format!("[offset {offset}] Check RDB returned error code 0 (0 means success)"))?;
        match self.origin() {
            None => console.say(&format!("[offset {offset}] \\o/ RDB looks OK! \\o/"))?,
            Some(_) => {
                console.say(&format!(
                    "[offset {offset}] \\o/ RDB looks OK, but loading requires config 'rdb-version-check relaxed'"
                ))?;
                if self.version <= VERSION_REDIS_READ && self.unsupported.is_empty() {
                    console.say("[info] Sluice reads this version without it")?;
                }
            }
        }
        self.totals(console)?;
        for (kind, keys) in &self.unsupported {
            console.say(&format!(
                "[info] {keys} keys of type {kind}, which Sluice does not have: their values were not checked"
            ))?;
        }
        self.module_totals(console)?;
        if !self.unsupported.is_empty() {
            console
                .say("[info] Sluice loads the other keys, with config 'rdb-version-check relaxed' alone")?;
        }
        if size > offset {
            console.say(&format!("[info] {} bytes follow the snapshot", size - offset))?;
        }
        Ok(())
    }
}

/// A library of functions in the report: its first line, which has its name, and its size.
fn described_library(code: &[u8]) -> String {
    let head = code.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head = head.get(..HEAD_BYTES_MAX).unwrap_or(head);
    format!("Library of functions '{}', {} bytes", head.escape_ascii(), code.len())
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

/// The reader's options: a value of an unknown type is skipped if its format shows where it ends.
pub(crate) fn read_options() -> ReadOptions {
    ReadOptions { unknown: Unknown::Skip, ..ReadOptions::default() }
}

/// At most this many bytes of a library's first line, which has the library's name, are shown.
const HEAD_BYTES_MAX: usize = 120;
/// Length of the magic and the version, in bytes.
const HEADER_LEN: usize = 9;
/// RDB versions from this one on and below [`VERSION_VALKEY`] belong to other servers.
const FOREIGN_FROM: u32 = 12;
/// Length of the checksum at the end of a file, in bytes.
const CHECKSUM_LEN: u64 = 8;
/// The RDB version that this server writes.
const VERSION_VALKEY: u32 = 80;
/// The last RDB version of Valkey that is read by default.
const VERSION_VALKEY_READ: u32 = 81;
/// The last RDB version of Redis that is read by default.
const VERSION_REDIS_READ: u32 = 13;
/// Files have a checksum from this RDB version on.
const SUMMED_FROM: u32 = 5;
