//! Requests out of bytes, resumable at any byte.
//!
//! A request is `*<argc>\r\n` and argc times `$<len>\r\n<bytes>\r\n`, or a line of words. A client may stop anywhere; the
//! next call is given the bytes from the beginning of the unfinished request, longer than before.
//!
//! Invariants: (1) every split of a stream gives the same requests and the same error, but for lines over 64 KiB, which
//! are refused only while their end is not in sight; (2) bytes before [`Parser::at`] are not read again; (3) nothing is
//! allocated because of a number in the input, only because of bytes that are there.
//!
//! Two steps: `short_header` reads the headers that nearly all are, in a few instructions; whatever it does not
//! recognise, and every error, is the business of `header`, which is exact.

use std::ops::ControlFlow;

use memchr::{memchr, memchr2};
use sluice_base::quote::{self, Dialect};

use crate::requests::{Form, Requests, Span};

/// Whether the client has shown who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Anything up to the configured limits.
    Authenticated,
    /// Small requests only, and one per call, since the first may be the AUTH that lifts the limits.
    Unauthenticated,
}

/// What a request may be at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Counts and lengths up to these are in order; above them, `count_header` and `length_header` say what is wrong.
    argc_sure: usize,
    bulk_bytes_sure: usize,
    bulk_bytes_max: i64,
    batch_max: usize,
    admission: Admission,
}

impl Limits {
    /// `bulk_bytes_max` is `proto-max-bulk-len`; `batch_max` (at least 1 is used) bounds the requests per call.
    pub fn new(admission: Admission, bulk_bytes_max: u64, batch_max: usize) -> Limits {
        let bulk_bytes_max = i64::try_from(bulk_bytes_max).unwrap_or(i64::MAX);
        let (argc_sure, bulk_bytes_sure, batch_max) = match admission {
            Admission::Authenticated => (ARGC_MAX, bulk_bytes_max, batch_max.max(1)),
            Admission::Unauthenticated => {
                (UNAUTHENTICATED_ARGC_MAX, bulk_bytes_max.min(UNAUTHENTICATED_BULK_BYTES_MAX), 1)
            }
        };
        let (argc_sure, bulk_bytes_sure) = (argc_sure as usize, bulk_bytes_sure as usize);
        Limits { argc_sure, bulk_bytes_sure, bulk_bytes_max, batch_max, admission }
    }
}

/// What a client did wrong; the connection is closed after [`ParseError::message`] is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// No end of line within 64 KiB of words.
    BigInline,
    /// No end of line within 64 KiB of a `*` header.
    BigCount,
    /// No end of line within 64 KiB of a `$` header.
    BigLength,
    /// The count is no number or above 2^31 - 1.
    InvalidCount,
    /// More arguments than a client may send before AUTH.
    UnauthenticatedCount,
    /// A header does not begin with `$` but with this byte.
    ExpectedDollar(u8),
    /// The length is no number, negative or above `proto-max-bulk-len`.
    InvalidLength,
    /// A longer argument than a client may send before AUTH.
    UnauthenticatedLength,
    /// A quote of an inline request was not closed.
    UnbalancedQuotes,
    /// CR without LF after a header, or no CR LF after an argument.
    InvalidCrlf,
}

impl ParseError {
    /// The text of the error reply without `-` and line end; a byte of the client's may be in it.
    pub fn message(self) -> Vec<u8> {
        let what: &[u8] = match self {
            ParseError::BigInline => b"too big inline request",
            ParseError::BigCount => b"too big mbulk count string",
            ParseError::BigLength => b"too big bulk count string",
            ParseError::InvalidCount => b"invalid multibulk length",
            ParseError::UnauthenticatedCount => b"unauthenticated multibulk length",
            ParseError::ExpectedDollar(got) => &[b"expected '$', got '", &[got][..], b"'"].concat(),
            ParseError::InvalidLength => b"invalid bulk length",
            ParseError::UnauthenticatedLength => b"unauthenticated bulk length",
            ParseError::UnbalancedQuotes => b"unbalanced quotes in request",
            ParseError::InvalidCrlf => b"invalid CRLF in request",
        };
        [b"ERR Protocol error: ", what].concat()
    }
}

/// What a call of [`Parser::parse`] achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done with. The next call's input begins after them.
    pub consumed: usize,
    /// Why the parser stopped.
    pub state: State,
}

/// Why the parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Every byte was used, or the rest is the beginning of a request.
    Starved,
    /// The batch is full; there may be further requests.
    Full,
    /// What follows is not a request. The requests before it are valid and come first.
    Failed(ParseError),
}

/// Where a connection's unfinished request stands. 64 bytes and, for a request under way, its arguments so far.
#[derive(Debug)]
pub struct Parser {
    place: Place,
    /// Bytes missing of the argument under way.
    wanted: usize,
    /// Arguments so far, relative to the beginning of the request.
    args: Vec<Span>,
}

/// A position in a request.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The next byte to parse; the beginning of a header or of an argument's bytes.
    at: usize,
    /// From `at` to here there is no end of line.
    scanned: usize,
    /// Arguments still to come; 0 before the count was read.
    left: usize,
    /// Length of the argument at `at`, or [`NO_BULK`] before its header was read.
    bulk: usize,
}

/// How the arguments of a request ended.
enum Stop {
    Starved,
    Failed(ParseError),
}

impl Default for Parser {
    fn default() -> Self {
        Parser::new()
    }
}

impl Parser {
    /// A parser at the beginning of a stream; nothing is allocated.
    pub fn new() -> Parser {
        Parser { place: Place::start(0), wanted: 0, args: Vec::new() }
    }

    /// Parses as many complete requests of `input` as there are, up to the batch of `limits`, into `out`, which is
    /// cleared first.
    ///
    /// `input` begins where the last call's consumed bytes ended. After [`State::Failed`] the parser is spent.
    /// Cost: linear in the bytes not yet seen; arguments are stepped over.
    pub fn parse(&mut self, input: &[u8], limits: &Limits, out: &mut Requests) -> Progress {
        out.clear();
        let mut at = 0;
        if self.place.left > 0 {
            match self.resume(input, limits, out) {
                ControlFlow::Continue(next) => at = next,
                ControlFlow::Break(progress) => return progress,
            }
        }
        while at < input.len() {
            if out.len() >= limits.batch_max {
                return Progress { consumed: at, state: State::Full };
            }
            let step = if input[at] == b'*' {
                self.multibulk(input, at, limits, out)
            } else {
                self.inline(input, at, out)
            };
            match step {
                ControlFlow::Continue(next) => at = next,
                ControlFlow::Break(progress) => return progress,
            }
            self.place.scanned = 0;
        }
        Progress { consumed: at, state: State::Starved }
    }

    /// Bytes still missing of the argument under way with its line end, for the growth of a buffer; 0 when unknown.
    #[inline]
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Offset from the beginning of the unfinished request of the next byte to parse; 0 between requests.
    #[inline]
    pub fn at(&self) -> usize {
        self.place.at
    }

    /// Arguments of the unfinished request that are complete, and how many it has in all, when that is known.
    pub fn unfinished(&self) -> Option<(usize, usize)> {
        (self.place.left > 0).then(|| (self.args.len(), self.args.len() + self.place.left))
    }

    /// Bytes allocated for the unfinished request's arguments.
    pub fn capacity_bytes(&self) -> usize {
        self.args.capacity() * size_of::<Span>()
    }

    /// A request that begins at `at` with a star. Its spans go straight to `out`.
    #[inline]
    fn multibulk(
        &mut self,
        input: &[u8],
        at: usize,
        limits: &Limits,
        out: &mut Requests,
    ) -> ControlFlow<Progress, usize> {
        let (count, next) = match short_header(input, at, STAR_HEADER) {
            Some(header) if (1..=limits.argc_sure).contains(&header.0) => header,
            _ => match count_header(input, at, at + self.place.scanned, limits) {
                Ok((count, next)) if count <= 0 => return ControlFlow::Continue(next),
                Ok((count, next)) => (count as usize, next),
                Err(stop) => return self.stop(stop, at, input.len()),
            },
        };
        let first = out.args.len();
        let mut place = Place { at: next, scanned: 0, left: count, bulk: NO_BULK };
        match arguments(input, &mut place, limits, &mut out.args) {
            Ok(()) => {
                out.push(first, Span { start: at, len: place.at - at }, Form::Multibulk);
                ControlFlow::Continue(place.at)
            }
            Err(stop) => self.suspend(stop, place, at, input.len(), first, out),
        }
    }

    /// Keeps what is known of the request that began at `start` until more bytes come.
    #[cold]
    fn suspend(
        &mut self,
        stop: Stop,
        place: Place,
        start: usize,
        len: usize,
        first: usize,
        out: &mut Requests,
    ) -> ControlFlow<Progress, usize> {
        self.place = Place { at: place.at - start, scanned: 0, ..place };
        let spans = out.args.drain(first..);
        self.args.clear();
        self.args.extend(spans.map(|span| Span { start: span.start - start, len: span.len }));
        self.stop(stop, start, len)
    }

    /// Notes how far was looked and how much is missing, for a stop within the request that began at `start`.
    #[cold]
    fn stop(&mut self, stop: Stop, start: usize, len: usize) -> ControlFlow<Progress, usize> {
        let seen = len - start;
        let state = match stop {
            Stop::Failed(error) => State::Failed(error),
            Stop::Starved => State::Starved,
        };
        if self.place.bulk == NO_BULK {
            // The last byte may be the CR of a line end that is not all there: it is looked at again.
            self.place.scanned = seen.saturating_sub(self.place.at + 1);
            self.wanted = 0;
        } else {
            self.place.scanned = 0;
            self.wanted = (self.place.at + 2).saturating_add(self.place.bulk).saturating_sub(seen);
        }
        ControlFlow::Break(Progress { consumed: start, state })
    }

    /// Continues the request that `input` begins with. Its spans are complete only at its end, and are moved once.
    fn resume(&mut self, input: &[u8], limits: &Limits, out: &mut Requests) -> ControlFlow<Progress, usize> {
        let mut place = self.place;
        if short_header(input, place.at, DOLLAR_HEADER).is_some() {
            // The line that was looked through is complete, and the loop below would not take note of it.
            place.scanned = 0;
        }
        match arguments(input, &mut place, limits, &mut self.args) {
            Ok(()) => {
                out.args.append(&mut self.args);
                if self.args.capacity() > ARGS_KEPT {
                    self.args = Vec::new();
                }
                out.push(0, Span { start: 0, len: place.at }, Form::Multibulk);
                self.place = Place::start(0);
                self.wanted = 0;
                ControlFlow::Continue(place.at)
            }
            Err(stop) => {
                self.place = place;
                self.stop(stop, 0, input.len())
            }
        }
    }

    /// A line of words that begins at `at`. A line without words is passed over.
    fn inline(&mut self, input: &[u8], at: usize, out: &mut Requests) -> ControlFlow<Progress, usize> {
        let line = &input[at..];
        let scanned = self.place.scanned.min(line.len());
        // A NUL hides the line end behind it, as it does in the reference.
        let end = match memchr2(b'\n', 0, &line[scanned..]) {
            Some(end) if line[scanned + end] == b'\n' => scanned + end,
            found => {
                let stop = if line.len() > LINE_BYTES_MAX {
                    Stop::Failed(ParseError::BigInline)
                } else {
                    Stop::Starved
                };
                let progress = self.stop(stop, at, input.len());
                if let Some(nul) = found {
                    self.place.scanned = scanned + nul;
                }
                return progress;
            }
        };
        let next = at + end + 1;
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        let first = out.args.len();
        if split_words(line, out).is_err() {
            return self.stop(Stop::Failed(ParseError::UnbalancedQuotes), at, input.len());
        }
        if out.args.len() > first {
            out.push(first, Span { start: at, len: next - at }, Form::Inline);
        }
        ControlFlow::Continue(next)
    }
}

impl Place {
    fn start(at: usize) -> Place {
        Place { at, scanned: 0, left: 0, bulk: NO_BULK }
    }
}

fn split_words(mut line: &[u8], out: &mut Requests) -> Result<(), quote::Unbalanced> {
    loop {
        let start = out.words.len();
        match quote::next_word(line, Dialect::Inline, &mut out.words)? {
            None => return Ok(()),
            Some(rest) => line = rest,
        }
        out.args.push(Span { start, len: out.words.len() - start });
    }
}

/// Reads arguments into `args` until none is left. On a stop, `place` is where to go on.
#[inline]
fn arguments(input: &[u8], place: &mut Place, limits: &Limits, args: &mut Vec<Span>) -> Result<(), Stop> {
    while place.left > 0 {
        if place.bulk == NO_BULK {
            (place.bulk, place.at) = match short_header(input, place.at, DOLLAR_HEADER) {
                Some(header) if header.0 <= limits.bulk_bytes_sure => header,
                _ => {
                    let from = place.at + std::mem::take(&mut place.scanned);
                    length_header(input, place.at, from, limits)?
                }
            };
        }
        let tail = &input[place.at..];
        // Lengths are below 2^63, so that two more do not overflow.
        let Some(ended) = tail.get(..place.bulk + 2) else { return Err(Stop::Starved) };
        if ended[place.bulk..] != *b"\r\n" {
            return Err(Stop::Failed(ParseError::InvalidCrlf));
        }
        args.push(Span { start: place.at, len: place.bulk });
        place.at += place.bulk + 2;
        place.bulk = NO_BULK;
        place.left -= 1;
    }
    Ok(())
}

/// Reads a header of up to nine digits at `at`: the number, and the position after it. `None` if it is another.
///
/// `mould` is such a header with the digit 0. One load, one exclusive or and one comparison decide about one digit.
#[inline(always)]
fn short_header(input: &[u8], at: usize, mould: [u8; 4]) -> Option<(usize, usize)> {
    let tail = input.get(at..)?;
    let head: &[u8; 4] = tail.first_chunk()?;
    let difference = u32::from_le_bytes(*head) ^ u32::from_le_bytes(mould);
    let digit = difference.rotate_right(8);
    if digit < 10 {
        return Some((digit as usize, at + 4));
    }
    if head[0] != mould[0] {
        return None;
    }
    let (number, len) = longer_number(&tail[1..])?;
    Some((number, at + 1 + len))
}

/// Reads two to nine digits and a line end: the number, and the bytes it takes.
#[inline(never)]
fn longer_number(text: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0usize;
    for (index, byte) in text.iter().enumerate().take(10) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let ended = index > 1 && text[0] != b'0' && *byte == b'\r' && text.get(index + 1) == Some(&b'\n');
            return ended.then_some((number, index + 2));
        }
        number = number * 10 + usize::from(digit);
    }
    None
}

/// Reads the header `*<count>` at `at`; `from` is where to look for its end.
#[cold]
fn count_header(input: &[u8], at: usize, from: usize, limits: &Limits) -> Result<(i64, usize), Stop> {
    let end = line_end(input, at, from, ParseError::BigCount)?;
    if input[end + 1] != b'\n' {
        return Err(Stop::Failed(ParseError::InvalidCrlf));
    }
    let count = sluice_base::num::parse_i64(&input[at + 1..end]);
    match count {
        Some(count) if count <= ARGC_MAX => {
            if limits.admission == Admission::Unauthenticated && count > UNAUTHENTICATED_ARGC_MAX {
                return Err(Stop::Failed(ParseError::UnauthenticatedCount));
            }
            Ok((count, end + 2))
        }
        _ => Err(Stop::Failed(ParseError::InvalidCount)),
    }
}

/// Reads the header `$<length>` at `at`; `from` is where to look for its end.
#[cold]
fn length_header(input: &[u8], at: usize, from: usize, limits: &Limits) -> Result<(usize, usize), Stop> {
    let end = line_end(input, at, from, ParseError::BigLength)?;
    if input[at] != b'$' {
        return Err(Stop::Failed(ParseError::ExpectedDollar(input[at])));
    }
    if input[end + 1] != b'\n' {
        return Err(Stop::Failed(ParseError::InvalidCrlf));
    }
    match sluice_base::num::parse_i64(&input[at + 1..end]) {
        Some(length) if (0..=limits.bulk_bytes_max).contains(&length) => {
            if limits.admission == Admission::Unauthenticated && length > UNAUTHENTICATED_BULK_BYTES_MAX {
                return Err(Stop::Failed(ParseError::UnauthenticatedLength));
            }
            Ok((length as usize, end + 2))
        }
        _ => Err(Stop::Failed(ParseError::InvalidLength)),
    }
}

/// The position of the first CR of the line at `at`, when the byte behind it is there too.
fn line_end(input: &[u8], at: usize, from: usize, too_big: ParseError) -> Result<usize, Stop> {
    let Some(offset) = input.get(from..).and_then(|tail| memchr(b'\r', tail)) else {
        let big = input.len().saturating_sub(at) > LINE_BYTES_MAX;
        return Err(if big { Stop::Failed(too_big) } else { Stop::Starved });
    };
    let end = from + offset;
    if end + 1 < input.len() { Ok(end) } else { Err(Stop::Starved) }
}

/// What the fuzzer calls: parses `data` whole and in pieces and compares.
pub fn fuzz_requests(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let admission = if seed & 1 == 0 { Admission::Authenticated } else { Admission::Unauthenticated };
    let limits = Limits::new(admission, 1 << 20, usize::from(seed >> 5) + 1);
    // Whether a longer line is refused depends on how it arrives.
    let stream = &stream[..stream.len().min(LINE_BYTES_MAX)];
    let whole = replay(stream, &limits, &mut |rest| rest);
    let mut rng = sluice_base::Rng::new(u64::from(seed));
    let pieces = replay(stream, &limits, &mut |rest| 1 + rng.below(rest as u64) as usize);
    assert_eq!(whole, pieces, "a split must not change what is understood");
}

/// Everything a stream says, given `piece(rest)` bytes at a time: requests, and the error or the bytes left over.
fn replay(
    stream: &[u8],
    limits: &Limits,
    piece: &mut dyn FnMut(usize) -> usize,
) -> (Vec<Vec<Vec<u8>>>, Result<usize, ParseError>) {
    let mut parser = Parser::new();
    let mut out = Requests::new();
    let mut seen = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        let input = &stream[start..end];
        let progress = parser.parse(input, limits, &mut out);
        seen.extend(out.iter(input).map(|request| request.args().map(<[u8]>::to_vec).collect::<Vec<_>>()));
        let raw: usize = out.iter(input).map(|request| request.raw().len()).sum();
        assert!(raw <= progress.consumed);
        start += progress.consumed;
        match progress.state {
            State::Failed(error) => return (seen, Err(error)),
            State::Full => {}
            State::Starved if end == stream.len() => return (seen, Ok(stream.len() - start)),
            State::Starved => end += piece(stream.len() - end),
        }
    }
}

const NO_BULK: usize = usize::MAX;
const STAR_HEADER: [u8; 4] = *b"*0\r\n";
const DOLLAR_HEADER: [u8; 4] = *b"$0\r\n";
const LINE_BYTES_MAX: usize = 64 * 1024;
const ARGC_MAX: i64 = i32::MAX as i64;
const UNAUTHENTICATED_ARGC_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: i64 = 16384;
/// Spans kept by a connection between two large requests.
const ARGS_KEPT: usize = 64;

#[cfg(test)]
mod tests;
