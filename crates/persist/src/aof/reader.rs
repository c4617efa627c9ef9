//! A reader of a log of commands that arrives in pieces.
//!
//! ```text
//!  start ──"REDIS", "VALKEY", "VCS"──► preamble (the RDB reader) ──end──► records
//!    └────────────anything else────────────────────────────────────────┘
//! ```
//!
//! Invariants: (1) when all items were read, only the bytes of one unfinished record are kept; their memory
//! grows as they arrive and never by an announced length; a long annotation is not kept; (2) every way of
//! cutting a file into pieces gives the same items and the same error; (3) [`LogTail::valid_up_to`] is the
//! end of a snapshot, or of a record outside of a transaction: a file that is truncated there is well-formed;
//! (4) a record is unfinished only as long as its bytes are the beginning of a record: the first impossible
//! byte is an error, however few bytes have arrived. So [`LogReader::end`] accepts a complete file and one
//! that was cut off (except in the magic of a snapshot), and no other.

use super::error::{LogError, LogProblem};
use super::note::ReplicationNote;
use crate::rdb;
use memchr::memchr;
use sluice_base::num;
use sluice_resp::{AuthState, ParseLimits, Parser, Request, Requests, State};
use std::ops::RangeInclusive;

/// Options of reading a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Options of reading a snapshot at the beginning.
    pub preamble: rdb::ReadOptions,
    /// Maximum number of bytes of an argument.
    pub arg_bytes_max: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { preamble: rdb::ReadOptions::default(), arg_bytes_max: ARG_BYTES_MAX }
    }
}

/// An item of a log.
#[derive(Debug)]
pub enum LogItem<'a> {
    /// An item of the snapshot at the beginning.
    Preamble(rdb::Item<'a>),
    /// The snapshot has ended without an error; records follow.
    PreambleEnd,
    /// The records that follow were written at this time or later, seconds since the epoch.
    Timestamp(i64),
    /// Another annotation, parsed if it is one about replication.
    Annotation(Option<ReplicationNote>),
    /// A command, including MULTI and EXEC.
    Command(Request<'a>),
}

/// The result of [`LogReader::next`].
#[derive(Debug)]
pub enum LogProgress<'a> {
    /// The next item of the log.
    Item(LogItem<'a>),
    /// More bytes have to be fed; if there are none, the file ends here.
    More,
}

/// The well-formed part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTail {
    /// Offset of the end of the last record that is outside of a transaction, or of the snapshot if no such
    /// record follows, in bytes; 0 if there is neither.
    pub valid_up_to: u64,
    /// Lines of records up to that offset: one for each annotation and each header, two for each argument.
    pub valid_lines: u64,
    /// Offset of the beginning of the transaction that has not ended, if there is one.
    pub transaction: Option<u64>,
    /// Number of bytes fed after the last complete record: of an unfinished record, or of the unfinished
    /// snapshot at the beginning.
    pub unfinished: u64,
}

impl LogTail {
    /// Whether the file may end here.
    pub fn is_complete(self) -> bool {
        self.transaction.is_none() && self.unfinished == 0
    }
}

/// A reader of a log: bytes are passed to [`LogReader::feed`], and [`LogReader::next`] returns items.
#[derive(Debug)]
pub struct LogReader {
    stage: LogStage,
    /// Whether the snapshot at the beginning has ended, while its reader still exists.
    preamble_ended: bool,
    /// Offset in the snapshot of the first item that is incomplete.
    preamble_at: u64,
    /// Bytes that were fed and not read yet, except those in the snapshot's reader.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were read.
    at: usize,
    /// Bytes that were fed so far.
    fed: u64,
    /// Offset of the end of the last record.
    offset: u64,
    /// Lines up to that offset.
    lines: u64,
    parser: Parser,
    requests: Requests,
    limits: ParseLimits,
    /// Maximum number of bytes of an argument.
    arg_bytes_max: u64,
    preamble: rdb::ReadOptions,
    valid_up_to: u64,
    valid_lines: u64,
    transaction: Option<u64>,
}

/// The part that is read next.
#[derive(Debug)]
enum LogStage {
    /// The first bytes, which decide between a snapshot and records.
    Start,
    Preamble(Box<rdb::Reader>),
    Record,
    /// The rest of an annotation, of which this many bytes were dropped.
    Annotation(u64),
}

/// A part of the input.
enum LogPart {
    Nothing,
    More,
    Preamble,
    Annotation(Option<ReplicationNote>),
    Timestamp(i64),
    /// A command, which begins at this offset of the buffer.
    Command(usize),
}

impl LogReader {
    /// A reader before the first byte.
    pub fn new(options: LogOptions) -> LogReader {
        LogReader {
            stage: LogStage::Start,
            preamble_ended: false,
            preamble_at: 0,
            buffer: Vec::new(),
            at: 0,
            fed: 0,
            offset: 0,
            lines: 0,
            parser: Parser::new(),
            requests: Requests::new(),
            limits: ParseLimits::new(AuthState::Authenticated, options.arg_bytes_max, 1),
            arg_bytes_max: options.arg_bytes_max,
            preamble: options.preamble,
            valid_up_to: 0,
            valid_lines: 0,
            transaction: None,
        }
    }

    /// Adds bytes that have arrived. Cost: the bytes are copied, and from time to time also those that the
    /// reader has kept.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.fed += bytes.len() as u64;
        if let LogStage::Preamble(reader) = &mut self.stage {
            reader.feed(bytes);
            return;
        }
        if self.at >= self.buffer.len() / 2 {
            self.buffer.drain(..self.at);
            self.at = 0;
            // The memory of a large record is freed with the record.
            if self.buffer.capacity() > KEPT_BYTES_MAX && self.buffer.len() < KEPT_BYTES_MAX {
                self.buffer.shrink_to(KEPT_BYTES_MAX);
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next item. No item follows an error.
    ///
    /// # Errors
    /// The first fault of the file. [`LogReader::tail`] returns the well-formed part before it.
    #[allow(clippy::should_implement_trait, reason = "items borrow from the reader")]
    pub fn next(&mut self) -> Result<LogProgress<'_>, LogError> {
        if self.preamble_ended {
            self.leave_preamble();
        }
        loop {
            match self.part()? {
                LogPart::Nothing => {}
                LogPart::More => return Ok(LogProgress::More),
                LogPart::Preamble => return self.next_of_preamble(),
                LogPart::Annotation(note) => return Ok(LogProgress::Item(LogItem::Annotation(note))),
                LogPart::Timestamp(seconds) => return Ok(LogProgress::Item(LogItem::Timestamp(seconds))),
                LogPart::Command(start) => {
                    let request = self.requests.at(0, &self.buffer[start..]);
                    return Ok(LogProgress::Item(LogItem::Command(request)));
                }
            }
        }
    }

    /// Offset of the end of the last item, or in the snapshot, of the end of the bytes decoded so far.
    pub fn offset(&self) -> u64 {
        match &self.stage {
            LogStage::Preamble(reader) => self.fed - reader.rest().len() as u64,
            LogStage::Start | LogStage::Record | LogStage::Annotation(_) => self.offset,
        }
    }

    /// The key whose value is being read in the snapshot at the beginning, or is malformed there, and the
    /// name of the value's type; `None` if there is no such value.
    pub fn under_way_in_preamble(&self) -> Option<(&[u8], &'static str)> {
        match &self.stage {
            LogStage::Preamble(reader) => reader.under_way(),
            LogStage::Start | LogStage::Record | LogStage::Annotation(_) => None,
        }
    }

    /// Offset in the snapshot of the item that was incomplete when it was last read.
    pub fn preamble_at(&self) -> u64 {
        self.preamble_at
    }

    /// Whether the snapshot at the beginning has begun and not ended.
    pub fn is_in_preamble(&self) -> bool {
        matches!(self.stage, LogStage::Preamble(_)) && !self.preamble_ended
    }

    /// The well-formed part of the file, up to the items that were read.
    pub fn tail(&self) -> LogTail {
        // An incomplete snapshot has no usable part.
        let offset = if self.preamble_ended { self.offset() } else { self.offset };
        LogTail {
            valid_up_to: if self.preamble_ended { offset } else { self.valid_up_to },
            valid_lines: self.valid_lines,
            transaction: self.transaction,
            unfinished: self.fed - offset,
        }
    }

    /// Ends the file and returns its well-formed part. The bytes after that part are the beginning
    /// of a record, a transaction or a snapshot.
    ///
    /// # Errors
    /// No record, transaction or snapshot begins with the bytes at the end, or these bytes are only the
    /// beginning of a snapshot's magic.
    pub fn end(&self) -> Result<LogTail, LogError> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        match (&self.stage, rest) {
            // The file is the beginning of a snapshot's magic. It is refused, because a part of a snapshot is
            // not usable, and no command begins like that.
            (LogStage::Start, [first, ..]) => self.bad(0, LogProblem::Marker(*first)),
            (LogStage::Annotation(_), _) => self.bad(0, LogProblem::Annotation),
            (LogStage::Record, [b'#', ..]) if !begins_annotation(rest) => self.bad(0, LogProblem::Annotation),
            (LogStage::Start | LogStage::Preamble(_) | LogStage::Record, _) => Ok(self.tail()),
        }
    }

    fn next_of_preamble(&mut self) -> Result<LogProgress<'_>, LogError> {
        let LogStage::Preamble(reader) = &mut self.stage else { return Ok(LogProgress::More) };
        match reader.next() {
            Ok(rdb::ReadProgress::Item(item)) => Ok(LogProgress::Item(LogItem::Preamble(item))),
            Ok(rdb::ReadProgress::More(offset)) => {
                self.preamble_at = offset;
                Ok(LogProgress::More)
            }
            Ok(rdb::ReadProgress::End) => {
                self.preamble_ended = true;
                Ok(LogProgress::Item(LogItem::PreambleEnd))
            }
            Err(error) => Err(LogError { offset: error.offset, problem: LogProblem::Preamble(error) }),
        }
    }

    /// Leaves the snapshot, which has ended; the remaining bytes that were fed are records.
    fn leave_preamble(&mut self) {
        self.preamble_ended = false;
        let offset = self.offset();
        if let LogStage::Preamble(reader) = &self.stage {
            self.buffer.extend_from_slice(reader.rest());
        }
        (self.offset, self.valid_up_to, self.stage) = (offset, offset, LogStage::Record);
    }

    /// Reads the part that `stage` names.
    fn part(&mut self) -> Result<LogPart, LogError> {
        match &self.stage {
            LogStage::Start => Ok(self.start()),
            LogStage::Preamble(_) => Ok(LogPart::Preamble),
            LogStage::Annotation(skipped) => {
                let skipped = *skipped;
                Ok(self.annotation(skipped))
            }
            LogStage::Record => match self.buffer.get(self.at) {
                None => Ok(LogPart::More),
                Some(b'#') => Ok(self.annotation(0)),
                Some(b'*') => self.command(),
                Some(other) => self.bad(0, LogProblem::Marker(*other)),
            },
        }
    }

    /// An error, `behind` bytes after the last record.
    fn bad<T>(&self, behind: usize, problem: LogProblem) -> Result<T, LogError> {
        Err(LogError { offset: self.offset + behind as u64, problem })
    }

    fn start(&mut self) -> LogPart {
        let input = &self.buffer[self.at..];
        if rdb::MAGICS.iter().any(|magic| input.starts_with(magic)) {
            let mut reader = rdb::Reader::new(self.preamble);
            reader.feed(input);
            (self.buffer, self.at) = (Vec::new(), 0);
            self.stage = LogStage::Preamble(Box::new(reader));
            return LogPart::Preamble;
        }
        if rdb::MAGICS.iter().any(|magic| magic.starts_with(input)) {
            return LogPart::More;
        }
        self.stage = LogStage::Record;
        LogPart::Nothing
    }

    /// Reads an annotation of which `skipped` bytes were dropped.
    fn annotation(&mut self, skipped: u64) -> LogPart {
        let input = &self.buffer[self.at..];
        let Some(end) = memchr(b'\n', input) else {
            if skipped > 0 || input.len() > ANNOTATION_BYTES_MAX {
                self.stage = LogStage::Annotation(skipped + input.len() as u64);
                self.at = self.buffer.len();
            }
            return LogPart::More;
        };
        let found = if skipped == 0 { annotation_of(&input[..end]) } else { LogPart::Annotation(None) };
        self.stage = LogStage::Record;
        self.offset += skipped;
        self.advance(end + 1, 1);
        found
    }

    fn command(&mut self) -> Result<LogPart, LogError> {
        let input = &self.buffer[self.at..];
        match input.get(1) {
            None => return Ok(LogPart::More),
            Some(b'1'..=b'9') => {}
            // A client may send a request without arguments; a log has no such record.
            Some(_) => return self.bad(0, LogProblem::Count),
        }
        let progress = self.parser.parse(input, &self.limits, &mut self.requests);
        if self.requests.is_empty() {
            // The parser waits for the rest of a faulty line, because a client may still send it. In a file
            // the fault is reported at once.
            let fault = self.fault(input);
            return match (fault, progress.state) {
                (Some(problem), _) => self.bad(self.parser.at(), problem),
                (None, State::Failed(error)) => self.bad(self.parser.at(), LogProblem::of(error)),
                (None, State::Starved | State::Full) => Ok(LogPart::More),
            };
        }
        let start = self.at;
        let request = self.requests.at(0, input);
        let lines = 1 + 2 * request.args().len() as u64;
        let name = request.arg(0);
        if name.eq_ignore_ascii_case(b"multi") {
            if self.transaction.is_some() {
                return self.bad(0, LogProblem::NestedMulti);
            }
            self.transaction = Some(self.offset);
        } else if name.eq_ignore_ascii_case(b"exec") {
            if self.transaction.is_none() {
                return self.bad(0, LogProblem::ExecWithoutMulti);
            }
            self.transaction = None;
        } else if name.eq_ignore_ascii_case(b"discard") {
            self.transaction = None;
        }
        self.advance(progress.consumed, lines);
        Ok(LogPart::Command(start))
    }

    /// The fault at the parser's position in the record that `input` begins with; `None` if the bytes
    /// there begin the expected part. Cost: O(1).
    fn fault(&self, input: &[u8]) -> Option<LogProblem> {
        let rest = input.get(self.parser.at()..).unwrap_or_default();
        match (self.parser.begun(), self.parser.at()) {
            (Some(len), _) => line_end_fault(rest.get(len..).unwrap_or_default()),
            (None, 0) => header_fault(rest, b'*', 1..=ARGC_MAX, LogProblem::Count),
            (None, _) => header_fault(rest, b'$', 0..=self.arg_bytes_max, LogProblem::Length),
        }
    }

    /// Moves past the end of a record.
    fn advance(&mut self, bytes: usize, lines: u64) {
        self.at += bytes;
        self.offset += bytes as u64;
        self.lines += lines;
        if self.transaction.is_none() {
            (self.valid_up_to, self.valid_lines) = (self.offset, self.lines);
        }
    }
}

/// The meaning of an annotation without its line end.
fn annotation_of(line: &[u8]) -> LogPart {
    if line.len() > ANNOTATION_BYTES_MAX {
        return LogPart::Annotation(None);
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let time = line.strip_prefix(TIME).and_then(num::parse_i64);
    time.map_or_else(|| LogPart::Annotation(ReplicationNote::parse(line)), LogPart::Timestamp)
}

/// The fault of an unfinished header: a marker, a number within a range, and a line end. `number` is the
/// fault of a wrong number.
fn header_fault(
    text: &[u8],
    marker: u8,
    range: RangeInclusive<u64>,
    number: LogProblem,
) -> Option<LogProblem> {
    let (first, rest) = text.split_first()?;
    if *first != marker {
        return Some(LogProblem::Dollar(*first));
    }
    let (digits, behind) = rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
    // A number that is out of range or has a leading zero stays invalid, because further digits only make it
    // larger and do not remove the zero.
    if !digits.is_empty() && !num::parse_u64(digits).is_some_and(|value| range.contains(&value)) {
        return Some(number);
    }
    match behind.first() {
        None => None,
        Some(b'\r' | b'\n') if !digits.is_empty() => line_end_fault(behind),
        Some(_) => Some(number),
    }
}

/// The fault of an unfinished line end.
fn line_end_fault(text: &[u8]) -> Option<LogProblem> {
    match text {
        [] | [b'\r'] | [b'\r', b'\n', ..] => None,
        [b'\n', ..] => Some(LogProblem::LineFeed),
        [..] => Some(LogProblem::LineEnd),
    }
}

/// Whether an unfinished line begins an annotation that servers write: a time, a position in a history
/// of replication, or a text of a later version.
fn begins_annotation(line: &[u8]) -> bool {
    if line.len() >= ANNOTATION_BYTES_MAX {
        return false;
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.strip_prefix(TIME) {
        Some(time) => time.strip_prefix(b"-").unwrap_or(time).iter().all(u8::is_ascii_digit),
        None => ReplicationNote::is_begun(line)
            .unwrap_or_else(|| line.iter().all(|byte| matches!(byte, b' '..=b'~'))),
    }
}

/// Entry point of the fuzzer: reads any bytes as a log, whole and in pieces, to the end or the first
/// fault. Both ways must give the same result, and the well-formed part must be well-formed without the rest,
/// too.
pub fn fuzz_aof(data: &[u8]) {
    let (whole, tail) = outline(data, usize::MAX);
    let (pieces, same) = outline(data, 1);
    assert_eq!(whole, pieces);
    // `unfinished` is not compared, because the number of bytes after the fault is unknown before they are
    // fed.
    assert_eq!(LogTail { unfinished: 0, ..tail }, LogTail { unfinished: 0, ..same });
    let valid = usize::try_from(tail.valid_up_to).ok().and_then(|len| data.get(..len));
    let (_, cut) = outline(valid.expect("no more is in order than there is"), usize::MAX);
    assert!(cut.is_complete());
    assert_eq!((cut.valid_up_to, cut.valid_lines), (tail.valid_up_to, tail.valid_lines));
}

/// A summary of the items that a reader returns when `data` is fed in pieces, of which the first has `piece`
/// bytes. The last line is the result.
fn outline(mut data: &[u8], mut piece: usize) -> (Vec<String>, LogTail) {
    let mut reader = LogReader::new(LogOptions::default());
    let mut lines = Vec::new();
    loop {
        match reader.next() {
            Ok(LogProgress::Item(LogItem::Command(request))) => {
                lines.push(format!("{:?}", request.args().collect::<Vec<_>>()));
            }
            Ok(LogProgress::Item(LogItem::Preamble(_))) => lines.push("preamble".to_owned()),
            Ok(LogProgress::Item(item)) => lines.push(format!("{item:?}")),
            Ok(LogProgress::More) if !data.is_empty() => {
                let (now, later) = data.split_at(piece.min(data.len()));
                reader.feed(now);
                (data, piece) = (later, piece % 7 + 1);
            }
            ended => {
                lines.push(format!("{ended:?}"));
                return (lines, reader.tail());
            }
        }
    }
}

/// The beginning of an annotation with a time.
const TIME: &[u8] = b"#TS:";
/// Maximum number of arguments of a command.
const ARGC_MAX: u64 = i32::MAX as u64;
/// Maximum number of bytes of memory that a reader keeps between records.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes of an unfinished annotation that are kept.
const ANNOTATION_BYTES_MAX: usize = 1024;
/// Default limit on the bytes of an argument, which is the default of `proto-max-bulk-len`.
const ARG_BYTES_MAX: u64 = 512 << 20;
