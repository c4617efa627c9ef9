//! Reads a log of commands that arrives in pieces.
//!
//! ```text
//!  start ──"REDIS", "VALKEY", "VCS"──► preamble (the RDB reader) ──end──► records
//!    └────────────anything else────────────────────────────────────────┘
//! ```
//!
//! Invariants: (1) the bytes kept are those of one record, which grow as they arrive and never by a length
//! that was announced; an annotation is not kept; (2) every split of a file brings the same items and the
//! same error; (3) what [`LogTail::valid_up_to`] names is the end of a record outside of a transaction: a
//! file that is cut there is well-formed; (4) a record is unfinished only as long as its bytes are the
//! beginning of a record: the first byte that no record can have there is an error, however few bytes are
//! there. What [`LogReader::end`] lets pass is a file that was cut off, and no other.

use super::error::{LogError, LogProblem};
use super::note::ReplicationNote;
use crate::rdb;
use memchr::memchr;
use sluice_base::num;
use sluice_resp::{AuthState, ParseLimits, Parser, Request, Requests, State};
use std::ops::RangeInclusive;

/// How a log is read.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// How a snapshot at the beginning is read.
    pub preamble: rdb::ReadOptions,
    /// Bytes that an argument may have.
    pub arg_bytes_max: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { preamble: rdb::ReadOptions::default(), arg_bytes_max: ARG_BYTES_MAX }
    }
}

/// Something in a log.
#[derive(Debug)]
pub enum LogItem<'a> {
    /// Something in the snapshot at the beginning.
    Preamble(rdb::Item<'a>),
    /// The snapshot has ended, with the right checksum; records follow.
    PreambleEnd,
    /// The records behind it were written at that time or later, seconds since the epoch.
    Timestamp(i64),
    /// Another annotation: where in a history of replication the data stand, if it says so.
    Annotation(Option<ReplicationNote>),
    /// A command, MULTI and EXEC too.
    Command(Request<'a>),
}

/// What [`LogReader::next`] returns.
#[derive(Debug)]
pub enum LogProgress<'a> {
    /// An item.
    Item(LogItem<'a>),
    /// Bytes have to be fed; without any the file ends here.
    More,
}

/// How far a log is in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTail {
    /// Bytes up to which it is.
    pub valid_up_to: u64,
    /// Lines up to there: one for each annotation, header and argument.
    pub valid_lines: u64,
    /// Where the transaction began that has not ended.
    pub transaction: Option<u64>,
    /// Bytes of a record, or of the snapshot at the beginning, whose end is missing.
    pub unfinished: u64,
}

impl LogTail {
    /// Whether the file may end here.
    pub fn is_complete(self) -> bool {
        self.transaction.is_none() && self.unfinished == 0
    }
}

/// A log being read: bytes go in by [`LogReader::feed`], items come out by [`LogReader::next`].
#[derive(Debug)]
pub struct LogReader {
    stage: LogStage,
    /// Whether the snapshot at the beginning has ended: its reader is still there.
    preamble_ended: bool,
    /// Where in the preamble what is not whole yet begins.
    preamble_at: u64,
    /// Bytes that were fed and are not read; the reader of a snapshot keeps its own.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are done with.
    at: usize,
    /// Bytes fed.
    fed: u64,
    /// Bytes of the file up to the end of the last record.
    offset: u64,
    /// Lines up to there.
    lines: u64,
    parser: Parser,
    requests: Requests,
    limits: ParseLimits,
    /// Bytes that an argument may have.
    arg_bytes_max: u64,
    preamble: rdb::ReadOptions,
    valid_up_to: u64,
    valid_lines: u64,
    transaction: Option<u64>,
}

/// What comes next.
#[derive(Debug)]
enum LogStage {
    /// Either kind of beginning.
    Start,
    Preamble(Box<rdb::Reader>),
    /// A record.
    Record,
    /// The rest of an annotation of which so many bytes are dropped.
    Annotation(u64),
}

/// What a part of the input turned out to be.
enum LogPart {
    Nothing,
    More,
    Preamble,
    Annotation(Option<ReplicationNote>),
    Timestamp(i64),
    /// A command, which begins there in the buffer.
    Command(usize),
}

impl LogReader {
    /// A log of which no byte has arrived.
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

    /// Takes bytes that have arrived. Cost: a copy of them, and of what is kept now and then.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.fed += bytes.len() as u64;
        if let LogStage::Preamble(reader) = &mut self.stage {
            reader.feed(bytes);
            return;
        }
        if self.at >= self.buffer.len() / 2 {
            self.buffer.drain(..self.at);
            self.at = 0;
            // The memory of a large record goes with the record.
            if self.buffer.capacity() > KEPT_BYTES_MAX && self.buffer.len() < KEPT_BYTES_MAX {
                self.buffer.shrink_to(KEPT_BYTES_MAX);
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next item. After an error there is none.
    ///
    /// # Errors
    /// What is wrong with the file, and where. [`LogReader::tail`] says what is in order before.
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

    /// Bytes of the file up to the end of the last item.
    pub fn offset(&self) -> u64 {
        match &self.stage {
            LogStage::Preamble(reader) => self.fed - reader.rest().len() as u64,
            LogStage::Start | LogStage::Record | LogStage::Annotation(_) => self.offset,
        }
    }

    /// The key of the snapshot at the beginning whose value is being read, or is malformed, and the name of
    /// its type.
    pub fn under_way_in_preamble(&self) -> Option<(&[u8], &'static str)> {
        match &self.stage {
            LogStage::Preamble(reader) => reader.under_way(),
            LogStage::Start | LogStage::Record | LogStage::Annotation(_) => None,
        }
    }

    /// The byte of the preamble at which begins what was not whole when it was read last.
    pub fn preamble_at(&self) -> u64 {
        self.preamble_at
    }

    /// Whether the snapshot at the beginning has begun and not ended.
    pub fn is_in_preamble(&self) -> bool {
        matches!(self.stage, LogStage::Preamble(_)) && !self.preamble_ended
    }

    /// How far the file is in order with the items that were read.
    pub fn tail(&self) -> LogTail {
        // Of a snapshot no part is in order without the rest.
        let offset = if self.preamble_ended { self.offset() } else { self.offset };
        LogTail {
            valid_up_to: if self.preamble_ended { offset } else { self.valid_up_to },
            valid_lines: self.valid_lines,
            transaction: self.transaction,
            unfinished: self.fed - offset,
        }
    }

    /// The file ends here: how far it is in order. The bytes behind that were cut off, and nothing else.
    ///
    /// # Errors
    /// What stands at the end is the beginning of nothing that a log has.
    pub fn end(&self) -> Result<LogTail, LogError> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        match (&self.stage, rest) {
            // A part of a snapshot's first word: no part of a snapshot is of use, and no command begins so.
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

    /// What was fed behind the snapshot is records.
    fn leave_preamble(&mut self) {
        self.preamble_ended = false;
        let offset = self.offset();
        if let LogStage::Preamble(reader) = &self.stage {
            self.buffer.extend_from_slice(reader.rest());
        }
        (self.offset, self.valid_up_to, self.stage) = (offset, offset, LogStage::Record);
    }

    /// Reads the part that the stage asks for.
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

    /// What is wrong, so many bytes behind the last record.
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

    /// Reads an annotation of which so many bytes were dropped.
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
            // A client may send no argument at all. A log has no such record.
            Some(_) => return self.bad(0, LogProblem::Count),
        }
        let progress = self.parser.parse(input, &self.limits, &mut self.requests);
        if self.requests.is_empty() {
            // A client may still send the end of a line that is wrong already. In a file nothing comes.
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

    /// What is wrong where the parser stands in the record that `input` begins with; `None` where the bytes
    /// there are the beginning of what must stand there. Cost: O(1).
    fn fault(&self, input: &[u8]) -> Option<LogProblem> {
        let rest = input.get(self.parser.at()..).unwrap_or_default();
        match (self.parser.begun(), self.parser.at()) {
            (Some(len), _) => line_end_fault(rest.get(len..).unwrap_or_default()),
            (None, 0) => header_fault(rest, b'*', 1..=ARGC_MAX, LogProblem::Count),
            (None, _) => header_fault(rest, b'$', 0..=self.arg_bytes_max, LogProblem::Length),
        }
    }

    /// A record has ended.
    fn advance(&mut self, bytes: usize, lines: u64) {
        self.at += bytes;
        self.offset += bytes as u64;
        self.lines += lines;
        if self.transaction.is_none() {
            (self.valid_up_to, self.valid_lines) = (self.offset, self.lines);
        }
    }
}

/// What an annotation says, its line end left out.
fn annotation_of(line: &[u8]) -> LogPart {
    if line.len() > ANNOTATION_BYTES_MAX {
        return LogPart::Annotation(None);
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let time = line.strip_prefix(TIME).and_then(num::parse_i64);
    time.map_or_else(|| LogPart::Annotation(ReplicationNote::parse(line)), LogPart::Timestamp)
}

/// What is wrong with a header of this kind, a number of this range and a line end, of which more may come;
/// `number`: what a wrong number is called.
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
    // More digits make it larger, and a zero in front stays one.
    if !digits.is_empty() && !num::parse_u64(digits).is_some_and(|value| range.contains(&value)) {
        return Some(number);
    }
    match behind.first() {
        None => None,
        Some(b'\r' | b'\n') if !digits.is_empty() => line_end_fault(behind),
        Some(_) => Some(number),
    }
}

/// What is wrong with a line end of which more may come.
fn line_end_fault(text: &[u8]) -> Option<LogProblem> {
    match text {
        [] | [b'\r'] | [b'\r', b'\n', ..] => None,
        [b'\n', ..] => Some(LogProblem::LineFeed),
        [..] => Some(LogProblem::LineEnd),
    }
}

/// Whether a line whose end is missing is the beginning of an annotation as servers write them: a time, a
/// place in a history of replication, or another text of a later version.
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

/// Reads any bytes as a log, fed as a whole and in pieces, to the end or the first mistake: both ways must
/// bring the same, and what is in order must stay so when the rest is cut off. For fuzzing.
pub fn fuzz_aof(data: &[u8]) {
    let (whole, tail) = outline(data, usize::MAX);
    let (pieces, same) = outline(data, 1);
    assert_eq!(whole, pieces);
    // How many bytes there are behind the position of a mistake is not known before they are fed.
    assert_eq!(LogTail { unfinished: 0, ..tail }, LogTail { unfinished: 0, ..same });
    let valid = usize::try_from(tail.valid_up_to).ok().and_then(|len| data.get(..len));
    let (_, cut) = outline(valid.expect("no more is in order than there is"), usize::MAX);
    assert!(cut.is_complete());
    assert_eq!((cut.valid_up_to, cut.valid_lines), (tail.valid_up_to, tail.valid_lines));
}

/// What a reader brings, in short, when it is fed `data` in pieces of at first that many bytes; its last line
/// says how it ended.
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

/// What an annotation with a time begins with.
const TIME: &[u8] = b"#TS:";
/// Arguments that a command may have.
const ARGC_MAX: u64 = i32::MAX as u64;
/// Bytes of memory that a reader keeps between records.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Bytes of an annotation that are kept while its end is missing.
const ANNOTATION_BYTES_MAX: usize = 1024;
/// Bytes that an argument may have if nobody says otherwise: what `proto-max-bulk-len` is by default.
const ARG_BYTES_MAX: u64 = 512 << 20;
