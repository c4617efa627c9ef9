//! `sluice-check-aof` checks an append-only file (called *log* here): a log of one file, or the files that
//! a manifest names.

use crate::cli;
use crate::console::{Checked, Console, PIECE_BYTES, Stop, reason};
use crate::rdb::{SnapshotReport, read_options};
use sluice_persist::aof::{
    AofFileKind, LogError, LogItem, LogOptions, LogProblem, LogProgress, LogReader, Manifest,
};
use sluice_persist::rdb::{LoadError, MAGICS, Problem};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Checks a log according to the arguments, without the program's name; returns the exit status.
pub fn check_aof(words: &[OsString], console: &mut Console<'_>) -> i32 {
    let checked = run(words, console);
    match (checked, console.out.flush()) {
        (Ok(()), Ok(())) => 0,
        (Ok(()) | Err(Stop::Said | Stop::Report(_)), _) => 1,
    }
}

/// What to do with a file that is faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The fault is reported, and the file stays as it is.
    Check,
    /// The file is cut off after its last valid command.
    Fix,
    /// The commands after this time (seconds since the epoch) are cut off.
    TruncateTo(i64),
}

/// One of the files of a log.
struct LogFile {
    path: PathBuf,
    /// The file's name in the report.
    name: String,
    /// The kind in the report's line about the file: `AOF`, `BASE AOF` or `INCR AOF`.
    kind: &'static str,
    is_last: bool,
}

fn run(words: &[OsString], console: &mut Console<'_>) -> Checked<()> {
    let usage = format!("Usage: {} {}", console.program, include_str!("usage_aof.txt").trim_end());
    let texts: Vec<Option<&str>> = words.iter().map(|word| word.to_str()).collect();
    let (mode, path) = match (texts.as_slice(), words) {
        ([Some("-v" | "--version")], _) => return console.say(&cli::version(&console.program)),
        ([Some("-h" | "--help")], _) => return console.say(&usage),
        (_, [path]) => (Mode::Check, path),
        ([Some("--fix"), _], [_, path]) => (Mode::Fix, path),
        ([Some("--truncate-to-timestamp"), Some(time), _], [_, _, path]) => match time.parse() {
            Ok(time) => (Mode::TruncateTo(time), path),
            Err(_) => return console.fail("Invalid timestamp, aborting..."),
        },
        _ => return console.fail(&usage),
    };
    let path = PathBuf::from(path);
    match kind_of(&path) {
        Ok(true) => check_manifest(&path, mode, console),
        Ok(false) => {
            console.say("Start checking Old-Style AOF")?;
            let name = path.display().to_string();
            check_file(&LogFile { path, name, kind: "AOF", is_last: true }, mode, console)
        }
        Err(error) => console.fail(&format!("Cannot open file {}: {}", path.display(), reason(&error))),
    }
}

/// Whether a file is a manifest. The extension of its name decides or, as in the reference, the first line
/// that is no comment.
fn kind_of(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if path.extension() == Some(OsStr::new("manifest")) {
        return Ok(true);
    }
    let mut lines = BufReader::new(file);
    loop {
        let mut line = Vec::new();
        let len = Read::by_ref(&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if len == 0 || line.first() != Some(&b'#') {
            return Ok(line.starts_with(b"file"));
        }
    }
}

fn check_manifest(path: &Path, mode: Mode, console: &mut Console<'_>) -> Checked<()> {
    console.say("Start checking Multi Part AOF")?;
    let manifest = read_manifest(path, console)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let count = manifest.loaded().count();
    let mut said_incr = false;
    for (index, (file, kind)) in manifest.loaded().enumerate() {
        let name = OsStr::from_bytes(&file.name);
        let mut log = LogFile {
            path: folder.join(name),
            name: name.display().to_string(),
            kind: "INCR AOF",
            is_last: index + 1 == count,
        };
        if kind == AofFileKind::Base {
            log.kind = "BASE AOF";
            let form = match begins_with_snapshot(&log.path) {
                Ok(true) => "RDB",
                Ok(false) => "RESP",
                Err(error) => return log.cannot_open(&error, console),
            };
            console.say(&format!("Start to check BASE AOF ({form} format)."))?;
        } else if !said_incr {
            said_incr = true;
            console.say("Start to check INCR files.")?;
        }
        check_file(&log, mode, console)?;
    }
    console.say("All AOF files and manifest are valid")
}

fn read_manifest(path: &Path, console: &mut Console<'_>) -> Checked<Manifest> {
    let text = File::open(path).and_then(|file| {
        let mut text = Vec::new();
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text)?;
        Ok(text)
    });
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            return console.fail(&format!("Cannot open file {}: {}", path.display(), reason(&error)));
        }
    };
    let error = match Manifest::parse(&text) {
        Ok(manifest) => return Ok(manifest),
        Err(error) => error,
    };
    console.say("\n*** FATAL AOF MANIFEST FILE ERROR ***")?;
    if let Some((number, line)) = &error.line {
        console.say(&format!("Reading the manifest file, at line {number}"))?;
        console.say(&format!(">>> '{}'", line.escape_ascii()))?;
    }
    console.fail(&error.to_string())
}

fn begins_with_snapshot(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(6).read_to_end(&mut start)?;
    Ok(MAGICS.iter().any(|magic| start.starts_with(magic)))
}

/// The reason why the reading of a file ended.
enum ReadingEnd {
    /// The file was read up to its end; the last command may be incomplete.
    End,
    /// The commands after the time of `--truncate-to-timestamp` begin at this offset.
    Later(u64),
    /// The file has this error.
    Wrong(LogError),
}

fn check_file(log: &LogFile, mode: Mode, console: &mut Console<'_>) -> Checked<()> {
    let opened = File::open(&log.path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, mut file) = match opened {
        Ok(opened) => opened,
        Err(error) => return log.cannot_open(&error, console),
    };
    if metadata.is_dir() {
        return log.cannot_open(&io::ErrorKind::IsADirectory.into(), console);
    }
    let size = metadata.len();
    if size == 0 {
        return console.say(&format!("{} {} is empty", log.kind, log.name));
    }
    console.begin();
    // The server's configuration may allow longer arguments than the default, but none is longer
    // than the file.
    let arg_bytes_max = LogOptions::default().arg_bytes_max.max(size);
    let mut reader = LogReader::new(LogOptions { preamble: read_options(), arg_bytes_max });
    let ended = read_log(log, mode, &mut file, size, &mut reader, console)?;
    let tail = reader.tail();
    let valid = tail.valid_up_to;
    if let (ReadingEnd::Later(end), Mode::TruncateTo(time)) = (&ended, mode) {
        return log.truncate_to_time(time, *end, console);
    }
    let is_valid = matches!(ended, ReadingEnd::End) && tail.is_complete();
    if let (true, Mode::TruncateTo(time)) = (is_valid, mode) {
        console.say(&format!("Truncate nothing in AOF {} to timestamp {time}", log.name))?;
        return console.say(&format!("{} {} is valid", log.kind, log.name));
    }
    match &ended {
        ReadingEnd::Wrong(error) => log.describe(error, console)?,
        ReadingEnd::End if tail.unfinished > 0 => console.say(&format!(
            "0x{:>16x}: Unexpected end of file: {} bytes of the last record are present, the rest is missing",
            size - tail.unfinished,
            tail.unfinished
        ))?,
        ReadingEnd::End if !is_valid => {
            console.say(&format!("0x{size:>16x}: Reached EOF before reading EXEC for MULTI"))?;
        }
        ReadingEnd::End | ReadingEnd::Later(_) => {}
    }
    if !is_valid && let Some(begin) = tail.transaction {
        console.say(&format!("An incomplete transaction begins at byte {begin}"))?;
    }
    console.say(&format!(
        "AOF analyzed: filename={}, size={size}, ok_up_to={valid}, ok_up_to_line={}, diff={}",
        log.name,
        tail.valid_lines + 1,
        size - valid
    ))?;
    if is_valid {
        return console.say(&format!("{} {} is valid", log.kind, log.name));
    }
    if let ReadingEnd::Wrong(error) = &ended {
        log.print_what_follows(&mut file, error.offset, size, console)?;
    }
    match mode {
        Mode::Fix => log.fix(valid, size, console),
        Mode::Check | Mode::TruncateTo(_) => {
            console.fail(&format!("AOF {} is not valid. Use the --fix option to try fixing it.", log.name))
        }
    }
}

/// Reads a file up to its end, its first error, or a time. An error in the snapshot at the beginning
/// ends the check.
fn read_log(
    log: &LogFile,
    mode: Mode,
    file: &mut File,
    size: u64,
    reader: &mut LogReader,
    console: &mut Console<'_>,
) -> Checked<ReadingEnd> {
    let mut snapshot: Option<SnapshotReport> = None;
    let mut piece = vec![0; PIECE_BYTES];
    let mut fed = 0;
    loop {
        // If a timestamp is next, the file may be cut off here, after the last whole transaction or command.
        let before = reader.tail().valid_up_to;
        let line = match reader.next() {
            Ok(LogProgress::Item(LogItem::Timestamp(time))) => match mode {
                Mode::TruncateTo(last) if time > last => return Ok(ReadingEnd::Later(before)),
                Mode::TruncateTo(_) | Mode::Check | Mode::Fix => continue,
            },
            Ok(LogProgress::Item(LogItem::Command(_) | LogItem::Annotation(_))) => continue,
            Ok(LogProgress::Item(LogItem::Preamble(item))) => {
                snapshot.as_mut().and_then(|report| report.item(&item))
            }
            Ok(LogProgress::Item(LogItem::PreambleEnd)) => {
                if let Some(report) = &mut snapshot {
                    report.end(file, reader.offset(), reader.offset(), console)?;
                }
                console.say("RDB preamble is OK, proceeding with AOF tail...")?;
                continue;
            }
            Ok(LogProgress::More) => {
                // A server may append commands during the check, so only the first `size` bytes are checked.
                let left = usize::try_from(size.saturating_sub(fed)).unwrap_or(usize::MAX).min(PIECE_BYTES);
                let len = match file.read(piece.get_mut(..left).unwrap_or_default()) {
                    Ok(len) => len,
                    Err(error) => return log.cannot_read(fed, &error, console),
                };
                if len == 0 {
                    let problem = Problem::CutOff;
                    return match snapshot {
                        Some(report) if reader.tail().valid_up_to == 0 => {
                            bad_snapshot(report, &LoadError { offset: fed, problem }, reader, console)
                        }
                        _ => Ok(reader.end().map_or_else(ReadingEnd::Wrong, |_| ReadingEnd::End)),
                    };
                }
                let new = piece.get(..len).unwrap_or_default();
                if fed == 0 {
                    snapshot = log.begin_snapshot(new, console)?;
                }
                reader.feed(new);
                fed += len as u64;
                console.progress(fed, size);
                continue;
            }
            Err(LogError { problem: LogProblem::Preamble(error), .. }) => {
                let report = snapshot.unwrap_or_else(|| SnapshotReport::new(console.now_ms));
                return bad_snapshot(report, &error, reader, console);
            }
            Err(error) => return Ok(ReadingEnd::Wrong(error)),
        };
        let offset = reader.offset();
        if let Some(report) = &mut snapshot {
            report.took(offset);
        }
        if let Some(line) = line {
            console.say(&format!("[offset {offset}] {line}"))?;
        }
    }
}

/// Reports an error in the snapshot of a log and ends the check; `--fix` cannot repair such a log.
fn bad_snapshot<T>(
    mut report: SnapshotReport,
    error: &LoadError,
    reader: &LogReader,
    console: &mut Console<'_>,
) -> Checked<T> {
    match report.error::<()>(error, reader.under_way_in_preamble(), console) {
        Err(Stop::Report(error)) => Err(Stop::Report(error)),
        Ok(()) | Err(Stop::Said) => console.fail("RDB preamble of AOF file is not sane, aborting."),
    }
}

impl LogFile {
    /// Reports that the file begins with a snapshot, if `start` is the beginning of one.
    fn begin_snapshot(&self, start: &[u8], console: &mut Console<'_>) -> Checked<Option<SnapshotReport>> {
        if !MAGICS.iter().any(|magic| start.starts_with(magic)) {
            return Ok(None);
        }
        console.say(&format!("[offset 0] Checking RDB file {}", self.path.display()))?;
        let mut report = SnapshotReport::new(console.now_ms);
        if !report.compressed(start, console)? {
            report.header(start, console)?;
        }
        Ok(Some(report))
    }

    fn cannot_open<T>(&self, error: &io::Error, console: &mut Console<'_>) -> Checked<T> {
        console.fail(&format!("Cannot open file {}: {}, aborting...", self.path.display(), reason(error)))
    }

    fn cannot_read<T>(&self, offset: u64, error: &io::Error, console: &mut Console<'_>) -> Checked<T> {
        console.fail(&format!("Error reading AOF {} at byte {offset}: {}", self.name, reason(error)))
    }

    /// Reports an error and its offset.
    fn describe(&self, error: &LogError, console: &mut Console<'_>) -> Checked<()> {
        let offset = error.offset;
        let what = match error.problem {
            LogProblem::Marker(_) => {
                console.say(&format!("AOF {} format error", self.name))?;
                error.to_string()
            }
            LogProblem::NestedMulti => format!("Unexpected MULTI in AOF {}", self.name),
            LogProblem::ExecWithoutMulti => format!("Unexpected EXEC in AOF {}", self.name),
            LogProblem::Preamble(_)
            | LogProblem::Count
            | LogProblem::Dollar(_)
            | LogProblem::Length
            | LogProblem::LineEnd
            | LogProblem::LineFeed
            | LogProblem::Annotation => error.to_string(),
        };
        console.say(&format!("0x{offset:>16x}: {what}"))
    }

    /// Reports the offset at which valid commands begin again after an error, because a repair removes these
    /// commands too.
    fn print_what_follows(
        &self,
        file: &mut File,
        offset: u64,
        size: u64,
        console: &mut Console<'_>,
    ) -> Checked<()> {
        let mut window = Vec::new();
        let read = file
            .seek(SeekFrom::Start(offset + 1))
            .and_then(|_| file.take(WINDOW_BYTES).read_to_end(&mut window));
        if let Err(error) = read {
            return self.cannot_read(offset, &error, console);
        }
        match commands_again(&window) {
            Some(behind) => {
                let at = offset + 1 + behind as u64;
                console.say(&format!(
                    "Valid commands begin again at byte {at}: --fix would remove them, too, {} bytes from there on",
                    size - at
                ))
            }
            None => Ok(()),
        }
    }

    fn fix(&self, valid: u64, size: u64, console: &mut Console<'_>) -> Checked<()> {
        if !self.is_last {
            return console
                .fail(&format!("Failed to truncate AOF {} because it is not the last file", self.name));
        }
        console.say(&format!(
            "This will shrink the AOF {} from {size} bytes, with {} bytes, to {valid} bytes",
            self.name,
            size - valid
        ))?;
        if !console.agrees("Continue? [y/N]: ")? {
            return console.fail("Aborting...");
        }
        self.cut(valid, console)?;
        console.say(&format!("Successfully truncated AOF {}", self.name))
    }

    fn truncate_to_time(&self, time: i64, valid: u64, console: &mut Console<'_>) -> Checked<()> {
        let path = self.path.display();
        if valid == 0 {
            return console.fail(&format!("AOF {path} has nothing before timestamp {time}, aborting..."));
        }
        if !self.is_last {
            console.say(&format!(
                "Failed to truncate AOF {path} to timestamp {time} to offset {valid} because it is not the last file."
            ))?;
            return console.fail(&format!(
                "If you insist, please delete all files after this file according to the manifest file and delete the \
                 corresponding records in manifest file manually. Then re-run {}.",
                console.program
            ));
        }
        self.cut(valid, console)?;
        console.say(&format!("Successfully truncated AOF {} to timestamp {time}", self.name))
    }

    /// Cuts the file durably to `len` bytes, after the bytes to be cut off have been copied to a new file
    /// in the same folder.
    fn cut(&self, len: u64, console: &mut Console<'_>) -> Checked<()> {
        let kept = match self.keep(len, console.now_ms / 1000) {
            Ok(kept) => kept,
            Err(error) => {
                return console.fail(&format!(
                    "Failed to truncate AOF {}: the end to cut off cannot be kept beside the file: {}. The file is unchanged.",
                    self.name,
                    reason(&error)
                ));
            }
        };
        let file = OpenOptions::new().write(true).open(&self.path);
        let cut = file.and_then(|file| {
            file.set_len(len)?;
            file.sync_all()
        });
        match cut {
            Ok(()) => console.say(&format!("The bytes that were cut off are kept in {}", kept.display())),
            Err(error) => console.fail(&format!("Failed to truncate AOF {}: {}", self.name, reason(&error))),
        }
    }

    /// Copies the bytes from offset `from` on to a new file in the same folder, durably; returns its path.
    fn keep(&self, from: u64, at_s: i64) -> io::Result<PathBuf> {
        let mut source = File::open(&self.path)?;
        source.seek(SeekFrom::Start(from))?;
        let (mut number, mut is_short) = (1, false);
        let (path, mut copy) = loop {
            let path = match is_short {
                true => self.path.with_file_name(format!("cut-{at_s}-{number}")),
                false => {
                    let mut path = self.path.clone().into_os_string();
                    path.push(format!(".cut-{at_s}"));
                    if number > 1 {
                        path.push(format!("-{number}"));
                    }
                    PathBuf::from(path)
                }
            };
            let options = OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
            match options.open(&path) {
                Ok(file) => break (path, file),
                // A shorter name is tried, because the name with the added time is longer than the file
                // system allows.
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename && !is_short => is_short = true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        };
        let copied = io::copy(&mut source, &mut copy).and_then(|copied| {
            let metadata = source.metadata()?;
            if metadata.len() != from + copied {
                return Err(io::Error::other("a server writes into it"));
            }
            copy.set_permissions(metadata.permissions())?;
            copy.sync_all()?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        });
        match copied {
            Ok(()) => Ok(path),
            Err(error) => {
                // The incomplete copy can be removed, because nothing has been cut off yet, so no byte is
                // lost.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }
}

/// The position in `window` of the first whole command that begins at the beginning of a line.
fn commands_again(window: &[u8]) -> Option<usize> {
    let begins = (0..window.len()).filter(|at| {
        let is_line = *at == 0 || window.get(at - 1) == Some(&b'\n');
        is_line && window.get(*at) == Some(&b'*')
    });
    begins.take(TRIES_MAX).find(|at| {
        let mut reader = LogReader::new(LogOptions::default());
        let rest = window.get(*at..).unwrap_or_default();
        reader.feed(rest.get(..TRY_BYTES).unwrap_or(rest));
        // An EXEC without MULTI counts as a command, too, because it may end a transaction whose beginning
        // was damaged by the error.
        matches!(
            reader.next(),
            Ok(LogProgress::Item(_)) | Err(LogError { problem: LogProblem::ExecWithoutMulti, .. })
        )
    })
}

/// At most this many bytes of a line at the beginning of a file are read to tell whether the file is a
/// manifest.
const LINE_BYTES_MAX: u64 = 1024;
/// At most this many bytes of a manifest are read; a manifest names only a few files.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// At most this many bytes after an error are searched for commands.
const WINDOW_BYTES: u64 = 4 << 20;
/// At most this many positions in the searched bytes are tried as the beginning of a command.
const TRIES_MAX: usize = 1000;
/// The search finds only commands of at most this many bytes.
const TRY_BYTES: usize = 64 << 10;
