//! The manifest: the files of an append-only file, in the order in which they are loaded.
//!
//! ```text
//! file appendonly.aof.2.base.rdb seq 2 type b
//! file appendonly.aof.1.incr.aof seq 1 type h
//! file appendonly.aof.2.incr.aof seq 2 type i
//! ```
//!
//! Invariants: (1) a manifest has at most one base; (2) sequence numbers of increments ascend; (3) a new base
//! has a larger number than each base that the manifest has had, and a new increment a larger one than each
//! increment; (4) a written manifest is read back as the same manifest, by this server and by the reference,
//! unless it has no files or a line is too long; (5) the memory of a manifest is proportional to its bytes.

use sluice_base::num;
use sluice_base::quote::{self, Dialect};
use std::fmt;

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AofFile {
    /// Name of the file, relative to the folder of the log.
    pub name: Vec<u8>,
    /// Sequence number of the file, not 0.
    pub seq: i64,
}

/// The role of a file in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofFileKind {
    /// The data at one moment.
    Base,
    /// A file that is no longer needed and is to be removed.
    History,
    /// Commands that follow the base.
    Incr,
}

/// The format of a base: setting `aof-use-rdb-preamble`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseFormat {
    /// An RDB snapshot; the setting is `yes`.
    Rdb,
    /// Commands that recreate the keyspace; the setting is `no`.
    Commands,
}

/// The files of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    base: Option<AofFile>,
    /// Files to be removed, newest first.
    history: Vec<AofFile>,
    /// Increments, oldest first.
    incr: Vec<AofFile>,
    /// The highest number of a base so far.
    base_seq: i64,
    /// The highest number of an increment so far.
    incr_seq: i64,
}

/// The reason why a manifest was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The number of the faulty line, counted from 1, and its text; `None` if the manifest is empty, or
    /// if the line is too long, has no line end or has a NUL.
    pub line: Option<(usize, Vec<u8>)>,
    /// The fault of the manifest or of that line.
    pub problem: ManifestProblem,
}

/// Faults of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestProblem {
    /// The manifest has no line.
    Empty,
    /// A line has more than 1,024 bytes, no line end, or a NUL.
    Line,
    /// A line does not consist of at least three pairs of words, or lacks a name, a type, or a number other
    /// than 0.
    Format,
    /// The name has a slash, a backslash or a NUL.
    Path,
    /// More than one file is a base.
    TwoBases,
    /// The number of an increment is not above 0 or not above that of the previous increment, or a number is
    /// above `SEQ_MAX`.
    Order,
    /// The type of a file is unknown.
    Kind,
}

impl Manifest {
    /// A manifest without files.
    pub fn new() -> Manifest {
        Manifest::default()
    }

    /// The manifest for a log of a single file, as versions before 7.0 wrote it; that file becomes the base.
    pub fn of_old_style(name: &[u8]) -> Manifest {
        Manifest { base: Some(AofFile { name: name.to_vec(), seq: 1 }), base_seq: 1, ..Manifest::default() }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// The first fault of the manifest.
    pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::new();
        let mut rest = text;
        let mut number = 0;
        while !rest.is_empty() {
            let line = next_line(&mut rest);
            number += 1;
            if line.first() == Some(&b'#') {
                continue;
            }
            if line.last() != Some(&b'\n') || line.contains(&0) {
                return Err(ManifestError { line: None, problem: ManifestProblem::Line });
            }
            let line = trimmed(line);
            manifest.add_line(line).map_err(|problem| {
                let line = Some((number, line.to_vec()));
                ManifestError { line, problem }
            })?;
        }
        if number == 0 {
            return Err(ManifestError { line: None, problem: ManifestProblem::Empty });
        }
        Ok(manifest)
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), ManifestProblem> {
        let (file, kind) = parse_line(line)?;
        match kind {
            AofFileKind::Base if self.base.is_some() => return Err(ManifestProblem::TwoBases),
            AofFileKind::Base => {
                self.base_seq = file.seq;
                self.base = Some(file);
            }
            AofFileKind::History => self.history.push(file),
            AofFileKind::Incr if file.seq <= self.incr_seq => return Err(ManifestProblem::Order),
            AofFileKind::Incr => {
                self.incr_seq = file.seq;
                self.incr.push(file);
            }
        }
        Ok(())
    }

    /// The bytes of the manifest's file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (file, kind) in self.files() {
            push_line(file, kind, &mut out);
        }
        out
    }

    /// All files, in the order of the manifest's lines.
    pub fn files(&self) -> impl Iterator<Item = (&AofFile, AofFileKind)> {
        let base = self.base.iter().map(|file| (file, AofFileKind::Base));
        let history = self.history.iter().map(|file| (file, AofFileKind::History));
        let incr = self.incr.iter().map(|file| (file, AofFileKind::Incr));
        base.chain(history).chain(incr)
    }

    /// The files that hold the data, in the order of loading.
    pub fn loaded(&self) -> impl Iterator<Item = (&AofFile, AofFileKind)> {
        self.files().filter(|(_, kind)| *kind != AofFileKind::History)
    }

    /// The base; `None` if the manifest names none.
    pub fn base(&self) -> Option<&AofFile> {
        self.base.as_ref()
    }

    /// The increments, oldest first.
    pub fn incr(&self) -> &[AofFile] {
        &self.incr
    }

    /// Moves the present base to the history, and adds a new base, which is returned. The new name begins
    /// with `appendfilename`.
    pub fn replace_base(&mut self, appendfilename: &[u8], format: BaseFormat) -> &AofFile {
        if let Some(old) = self.base.take() {
            self.history.insert(0, old);
        }
        self.base_seq = self.base_seq.max(0) + 1;
        let suffix: &[u8] = match format {
            BaseFormat::Rdb => b".base.rdb",
            BaseFormat::Commands => b".base.aof",
        };
        let file = AofFile { name: file_name(appendfilename, self.base_seq, suffix), seq: self.base_seq };
        self.base.insert(file)
    }

    /// Adds an increment, which is loaded last. Its name begins with `appendfilename`.
    pub fn add_incr(&mut self, appendfilename: &[u8]) -> &AofFile {
        self.incr_seq += 1;
        let seq = self.incr_seq;
        self.incr.push(AofFile { name: file_name(appendfilename, seq, b".incr.aof"), seq });
        self.incr.last().expect("one was pushed just now")
    }

    /// Moves all increments except the last `kept` to the history, because a written base holds their data.
    pub fn retire_incr(&mut self, kept: usize) {
        let count = self.incr.len().saturating_sub(kept);
        for old in self.incr.drain(..count) {
            self.history.insert(0, old);
        }
    }

    /// Raises the counters so that later files get other numbers than those of `other`.
    #[must_use]
    pub fn numbered_behind(mut self, other: &Manifest) -> Manifest {
        self.base_seq = self.base_seq.max(other.base_seq);
        self.incr_seq = self.incr_seq.max(other.incr_seq);
        self
    }

    /// Removes the history from the manifest and returns it.
    pub fn take_history(&mut self) -> Vec<AofFile> {
        std::mem::take(&mut self.history)
    }
}

/// The next line with its line end, but at most the bytes that the reference reads at once.
fn next_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let window = &rest[..rest.len().min(LINE_BYTES_MAX)];
    let len = memchr::memchr(b'\n', window).map_or(window.len(), |end| end + 1);
    let (line, tail) = rest.split_at(len);
    *rest = tail;
    line
}

fn trimmed(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r' | b'\n', tail @ ..] = line {
        line = tail;
    }
    while let [head @ .., b' ' | b'\t' | b'\r' | b'\n'] = line {
        line = head;
    }
    line
}

fn parse_line(line: &[u8]) -> Result<(AofFile, AofFileKind), ManifestProblem> {
    let words = quote::split_args(line, Dialect::Config).map_err(|_| ManifestProblem::Format)?;
    if words.len() < 6 || !words.len().is_multiple_of(2) {
        return Err(ManifestProblem::Format);
    }
    let (mut name, mut seq, mut kind) = (None, 0, None);
    for pair in words.chunks_exact(2) {
        let [key, value] = pair else { continue };
        if key.eq_ignore_ascii_case(b"file") {
            if !is_base_name(value) {
                return Err(ManifestProblem::Path);
            }
            name = Some(value);
        } else if key.eq_ignore_ascii_case(b"seq") {
            seq = leading_integer(value);
        } else if key.eq_ignore_ascii_case(b"type") {
            kind = value.first();
        }
    }
    // Unknown pairs, which later versions may write, are ignored.
    let (Some(name), Some(kind)) = (name, kind) else { return Err(ManifestProblem::Format) };
    if seq == 0 {
        return Err(ManifestProblem::Format);
    }
    if seq > SEQ_MAX {
        return Err(ManifestProblem::Order);
    }
    let kind = match kind {
        b'b' => AofFileKind::Base,
        b'h' => AofFileKind::History,
        b'i' => AofFileKind::Incr,
        _ => return Err(ManifestProblem::Kind),
    };
    Ok((AofFile { name: name.clone(), seq }, kind))
}

/// The integer at the beginning of a text, 0 if there is none. As in the reference, bytes after the
/// digits are ignored.
fn leading_integer(text: &[u8]) -> i64 {
    let blank = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let (negative, digits) = match &text[blank..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let mut value: i64 = 0;
    for byte in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        let digit = i64::from(byte - b'0');
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
    }
    value
}

fn push_line(file: &AofFile, kind: AofFileKind, out: &mut Vec<u8>) {
    out.extend_from_slice(b"file ");
    if needs_quotes(&file.name) {
        quote::push_quoted(out, &file.name);
    } else {
        out.extend_from_slice(&file.name);
    }
    out.extend_from_slice(b" seq ");
    out.extend_from_slice(file.seq.to_string().as_bytes());
    out.extend_from_slice(match kind {
        AofFileKind::Base => b" type b\n",
        AofFileKind::History => b" type h\n",
        AofFileKind::Incr => b" type i\n",
    });
}

/// Whether a name has to be quoted. A name with an apostrophe is quoted, too. The reference does not quote
/// such a name, and then cannot read the manifest that it has written.
fn needs_quotes(name: &[u8]) -> bool {
    name.is_empty()
        || name.iter().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'"' | b'\\' | b'\''))
}

fn file_name(appendfilename: &[u8], seq: i64, suffix: &[u8]) -> Vec<u8> {
    let mut name = appendfilename.to_vec();
    name.push(b'.');
    // Numbers that the manifest assigns are positive.
    num::push_u64(&mut name, seq.unsigned_abs());
    name.extend_from_slice(suffix);
    name
}

/// The file name of the manifest.
pub fn manifest_name(appendfilename: &[u8]) -> Vec<u8> {
    [appendfilename, b".manifest"].concat()
}

/// Whether a text names a file without a folder.
fn is_base_name(name: &[u8]) -> bool {
    !name.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0))
}

impl ManifestProblem {
    /// The reference's text for this fault.
    pub fn text(self) -> &'static str {
        match self {
            ManifestProblem::Empty => "Found an empty AOF manifest",
            ManifestProblem::Line => "The AOF manifest file contains too long line",
            ManifestProblem::Format => "Invalid AOF manifest file format",
            ManifestProblem::Path => "File can't be a path, just a filename",
            ManifestProblem::TwoBases => "Found duplicate base file information",
            ManifestProblem::Order => "Found a non-monotonic sequence number",
            ManifestProblem::Kind => "Unknown AOF file type",
        }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem.text())
    }
}

impl std::error::Error for ManifestError {}

/// Entry point of the fuzzer: an accepted manifest is written and read back as the same manifest.
pub fn fuzz_manifest(data: &[u8]) {
    if let Ok(manifest) = Manifest::parse(data) {
        let text = manifest.to_bytes();
        // Two kinds of manifests are not read again: a manifest of comments alone has no line, and a quoted
        // name may exceed the longest line.
        let again = Manifest::parse(&text);
        if text.is_empty() || text.split(|byte| *byte == b'\n').any(|line| line.len() >= LINE_BYTES_MAX) {
            return;
        }
        assert_eq!(again, Ok(manifest));
    }
}

/// Maximum number of bytes of a line, including its line end.
const LINE_BYTES_MAX: usize = 1024;

/// The largest sequence number accepted, because the numbers of later files are counted from it and must be
/// readable again.
const SEQ_MAX: i64 = i64::MAX / 2;
