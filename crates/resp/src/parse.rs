//! Parses requests out of bytes; parsing resumes at any byte.
//!
//! A request is either `*<argc>\r\n`, followed by `argc` times `$<len>\r\n<bytes>\r\n`, or a line of
//! words. The input may end anywhere; the next call gets the same bytes again from the beginning of the
//! unfinished request, followed by more bytes.
//!
//! Invariants: (1) every split of a stream gives the same requests and the same error, except that a
//! line over 64 KiB is refused only while its end has not arrived; (2) once a request is known to be
//! unfinished, bytes before [`Parser::at`] are not read again; (3) a number in the input makes room for
//! at most 1,024 arguments; all other allocations are for bytes that have arrived.
//!
//! There are two paths for arrays. `quick` reads nearly all requests, namely complete ones with up to 1,024
//! arguments; it decides about most headers with one or two comparisons. Whatever `quick` does not recognise,
//! and every error, is left to `exact`, which starts again at the request's first byte. `inline` reads lines
//! of words.

use std::ops::ControlFlow;

use memchr::{memchr, memchr2};
use sluice_base::quote::{self, Dialect};
use sluice_base::{Bytes, heap};

use crate::apart::Apart;
use crate::requests::{RequestForm, Requests};
use crate::span::Span;

/// How far the sender of requests is trusted, which decides the limits of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthState {
    /// This server's primary, which may send arguments of up to 1 TiB, whatever limit is configured.
    Primary,
    /// An authenticated client, which may send requests within the configured limits.
    Authenticated,
    /// A client before AUTH, which may send small requests only. One call parses one request, because
    /// this may be the AUTH that lifts the limits.
    Unauthenticated,
}

/// Limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    /// A `*` count up to this is valid; `count_header` decides about a larger count.
    argc_quick: usize,
    /// A `$` length up to this is valid; `length_header` decides about a larger length.
    bulk_bytes_quick: usize,
    bulk_bytes_max: i64,
    batch_max: usize,
    admission: AuthState,
}

impl ParseLimits {
    /// `bulk_bytes_max` is `proto-max-bulk-len`; `batch_max` bounds the requests of one call, and 0
    /// counts as 1.
    pub fn new(admission: AuthState, bulk_bytes_max: u64, batch_max: usize) -> ParseLimits {
        let bulk_bytes_max = match admission {
            AuthState::Primary => PRIMARY_BULK_BYTES_MAX,
            AuthState::Authenticated | AuthState::Unauthenticated => {
                i64::try_from(bulk_bytes_max).unwrap_or(i64::MAX)
            }
        };
        let (argc_quick, bulk_bytes_quick, batch_max) = match admission {
            AuthState::Primary | AuthState::Authenticated => {
                (QUICK_ARGC_MAX, bulk_bytes_max, batch_max.max(1))
            }
            AuthState::Unauthenticated => {
                (UNAUTHENTICATED_ARGC_MAX as usize, bulk_bytes_max.min(UNAUTHENTICATED_BULK_BYTES_MAX), 1)
            }
        };
        ParseLimits {
            argc_quick,
            bulk_bytes_quick: bulk_bytes_quick as usize,
            bulk_bytes_max,
            batch_max,
            admission,
        }
    }
}

/// A protocol error of the client; the connection is closed after [`ParseError::message`] is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// An inline request has no end of line within 64 KiB.
    BigInline,
    /// A `*` header has no end of line within 64 KiB.
    BigCount,
    /// A `$` header has no end of line within 64 KiB.
    BigLength,
    /// The number of arguments is not a number, or is above 2^31 - 1.
    InvalidCount,
    /// The request has more arguments than a client may send before AUTH.
    UnauthenticatedCount,
    /// The header of an argument begins with this byte and not with `$`.
    ExpectedDollar(u8),
    /// The length of an argument is not a number, is negative, or is above `proto-max-bulk-len`.
    InvalidLength,
    /// An argument is longer than a client may send before AUTH.
    UnauthenticatedLength,
    /// A quote of an inline request was not closed.
    UnbalancedQuotes,
    /// A header ends with a CR without LF, or no CR LF follows an argument.
    InvalidCrlf,
}

impl ParseError {
    /// The text of the error reply without `-` and line end; it may contain one byte that the client sent.
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

/// Result of a call of [`Parser::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of bytes of the input that were used up. The next call's input begins after these bytes.
    pub consumed: usize,
    /// Why the parser stopped.
    pub state: State,
}

/// Why the parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All bytes were used up, or only the beginning of a request is left.
    Starved,
    /// The batch is full; more requests may follow in the input.
    Full,
    /// The next bytes are not a request. The requests before them are valid.
    Failed(ParseError),
}

/// A connection's position in its unfinished request. Memory: 72 bytes, plus the arguments read so far.
#[derive(Debug)]
pub struct Parser {
    position: ParsePosition,
    /// Number of missing bytes of the argument being read, including its line end; 0 if unknown.
    wanted: usize,
    /// The unfinished request's arguments read so far, relative to the beginning of the request.
    args: Vec<Span>,
    /// The arguments in `args` that are not in the input. The list is kept for the next request
    /// with such arguments.
    apart: Option<Box<Apart>>,
}

/// A position in a request.
#[derive(Clone, Copy, Debug)]
struct ParsePosition {
    /// Offset of the next byte to parse: the beginning of a header or of an argument's bytes.
    at: usize,
    /// Length of the range from `at` on that is known to contain no end of line.
    scanned: usize,
    /// Number of arguments that were not read completely; 0 before the `*` header was read.
    left: usize,
    /// Length of the argument at `at`; [`NO_BULK`] before its header was read; [`APART`] if only its
    /// line end is in the input.
    bulk: usize,
}

/// The reason why reading a request's arguments stopped early.
enum ArgumentsEnd {
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
        Parser { position: ParsePosition::START, wanted: 0, args: Vec::new(), apart: None }
    }

    /// Parses the complete requests of `input`, up to the batch of `limits`, into `out`, which
    /// is cleared first.
    ///
    /// `input` begins where the last call's consumed bytes ended. After [`State::Failed`] the parser must
    /// not be used again. Cost: linear in the bytes that no earlier call has examined; the bytes of
    /// arguments are skipped.
    pub fn parse(&mut self, input: &[u8], limits: &ParseLimits, out: &mut Requests) -> Progress {
        out.clear();
        let mut at = 0;
        while at < input.len() {
            if out.len() >= limits.batch_max {
                return Progress { consumed: at, state: State::Full };
            }
            if self.position.left == 0
                && let Some(next) = quick(input, at, limits, out)
            {
                at = next;
                self.position.scanned = 0;
                continue;
            }
            let step = match input[at] {
                b'*' => self.exact(input, at, limits, out),
                _ => self.inline(input, at, out),
            };
            match step {
                ControlFlow::Continue(next) => at = next,
                ControlFlow::Break(progress) => return progress,
            }
            self.position.scanned = 0;
        }
        Progress { consumed: at, state: State::Starved }
    }

    /// Number of missing bytes of the argument being read, including its line end; 0 if unknown. The
    /// caller makes room for as many bytes in its buffer.
    #[inline]
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Length of the argument being read, if the input has only its beginning, from [`Parser::at`] on.
    #[inline]
    pub fn begun(&self) -> Option<usize> {
        if self.position.bulk < APART { Some(self.position.bulk) } else { None }
    }

    /// Accepts the whole argument being read ([`Parser::begun`]), which the caller has received into
    /// memory of its own. From now on the input has no byte of the argument, and the byte after the
    /// argument is at [`Parser::at`].
    pub fn supply(&mut self, bytes: Bytes) {
        debug_assert_eq!(self.begun(), Some(bytes.len()));
        let span = self.apart.get_or_insert_default().push(self.position.at, bytes);
        self.args.push(span);
        self.position.bulk = APART;
        self.wanted = LINE_END;
    }

    /// The arguments of the unfinished request that were supplied.
    #[inline]
    pub fn apart(&self) -> &Apart {
        self.apart.as_deref().unwrap_or(Apart::NONE)
    }

    /// Number of bytes of the unfinished request that are missing from an input of `len` bytes; `None` if
    /// unknown. The number is known only while the request's last argument is read.
    pub fn missing(&self, len: usize) -> Option<usize> {
        if self.position.left != 1 || self.position.bulk == NO_BULK {
            return None;
        }
        (self.position.at + LINE_END).checked_add(self.position.in_input())?.checked_sub(len)
    }

    /// Offset, from the beginning of the unfinished request, of the next byte to parse; 0 between requests.
    #[inline]
    pub fn at(&self) -> usize {
        self.position.at
    }

    /// Bytes of heap memory of the unfinished request's arguments, as the allocator rounds them.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.args) + self.apart().footprint()
    }

    /// Bytes allocated for the unfinished request's arguments.
    pub fn capacity_bytes(&self) -> usize {
        self.args.capacity() * size_of::<Span>() + self.apart().heap_bytes()
    }

    /// Parses a request that begins at `at` with `*` and is unusual, unfinished or invalid, or resumes
    /// parsing it. The spans of its arguments count from the request's beginning until the request is
    /// complete, and are then moved once.
    #[inline(never)]
    fn exact(
        &mut self,
        input: &[u8],
        at: usize,
        limits: &ParseLimits,
        out: &mut Requests,
    ) -> ControlFlow<Progress, usize> {
        let request = &input[at..];
        if self.position.left == 0 {
            let (count, next) = match count_header(request, self.position.scanned, limits) {
                Ok(header) => header,
                Err(stop) => return self.stop(stop, at, input.len()),
            };
            if count <= 0 {
                return ControlFlow::Continue(at + next);
            }
            self.position = ParsePosition { at: next, scanned: 0, left: count as usize, bulk: NO_BULK };
        }
        if let Err(stop) = arguments(request, &mut self.position, limits, &mut self.args) {
            return self.stop(stop, at, input.len());
        }
        let mut raw = Span { start: at, len: self.position.at };
        let next = at + raw.len;
        for (slot, span) in out.room(self.args.len()).iter_mut().zip(&self.args) {
            // A request with arguments that were received apart (`apart.rs`) was unfinished, so it begins
            // at the start of the input. `at` is therefore 0, and the spans stay the same.
            *slot = Span { start: at.saturating_add(span.start), len: span.len };
        }
        if let Some(apart) = &mut self.apart
            && !apart.is_empty()
        {
            raw.len += apart.bytes();
            out.take_apart(apart);
        }
        out.conclude(self.args.len(), raw, RequestForm::Multibulk);
        self.args.clear();
        if self.args.capacity() > ARGS_KEPT {
            self.args = Vec::new();
        }
        self.position = ParsePosition::START;
        self.wanted = 0;
        ControlFlow::Continue(next)
    }

    /// Records which bytes were scanned and how many are missing, if parsing stops within the request that
    /// began at `start`.
    #[cold]
    fn stop(&mut self, stop: ArgumentsEnd, start: usize, len: usize) -> ControlFlow<Progress, usize> {
        let seen = len - start;
        let state = match stop {
            ArgumentsEnd::Failed(error) => State::Failed(error),
            ArgumentsEnd::Starved => State::Starved,
        };
        if self.position.bulk == NO_BULK {
            // The last byte may be the CR of an unfinished line end, so it is scanned again.
            self.position.scanned = seen.saturating_sub(self.position.at + 1);
            self.wanted = 0;
        } else {
            self.position.scanned = 0;
            self.wanted =
                (self.position.at + LINE_END).saturating_add(self.position.in_input()).saturating_sub(seen);
        }
        ControlFlow::Break(Progress { consumed: start, state })
    }

    /// Parses a line of words that begins at `at`. A line without words is skipped.
    #[inline(never)]
    fn inline(&mut self, input: &[u8], at: usize, out: &mut Requests) -> ControlFlow<Progress, usize> {
        let line = &input[at..];
        let scanned = self.position.scanned.min(line.len());
        // A NUL before the line end hides the line end, as in the reference.
        let end = match memchr2(b'\n', 0, &line[scanned..]) {
            Some(end) if line[scanned + end] == b'\n' => scanned + end,
            found => {
                let stop = if line.len() > LINE_BYTES_MAX {
                    ArgumentsEnd::Failed(ParseError::BigInline)
                } else {
                    ArgumentsEnd::Starved
                };
                let progress = self.stop(stop, at, input.len());
                if let Some(nul) = found {
                    self.position.scanned = scanned + nul;
                }
                return progress;
            }
        };
        let next = at + end + 1;
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        match split_words(line, out) {
            Err(quote::Unbalanced) => {
                self.stop(ArgumentsEnd::Failed(ParseError::UnbalancedQuotes), at, input.len())
            }
            Ok(0) => ControlFlow::Continue(next),
            Ok(argc) => {
                out.conclude(argc, Span { start: at, len: next - at }, RequestForm::Inline);
                ControlFlow::Continue(next)
            }
        }
    }
}

impl ParsePosition {
    const START: ParsePosition = ParsePosition { at: 0, scanned: 0, left: 0, bulk: NO_BULK };

    /// Number of bytes of the argument at `at` that are, or will be, in the input.
    fn in_input(&self) -> usize {
        if self.bulk == APART { 0 } else { self.bulk }
    }
}

/// Appends the words of `line` to `out`, after its last request, and returns the number of words.
fn split_words(mut line: &[u8], out: &mut Requests) -> Result<usize, quote::Unbalanced> {
    let mut argc = 0;
    loop {
        let start = out.words.len();
        match quote::next_word(line, Dialect::Inline, &mut out.words)? {
            None => return Ok(argc),
            Some(rest) => line = rest,
        }
        let word = Span { start, len: out.words.len() - start };
        out.room(argc + 1)[argc] = word;
        argc += 1;
    }
}

/// Reads arguments into `args` until none is left. If reading stops early, `position` is where to resume.
fn arguments(
    input: &[u8],
    position: &mut ParsePosition,
    limits: &ParseLimits,
    args: &mut Vec<Span>,
) -> Result<(), ArgumentsEnd> {
    while position.left > 0 {
        if position.bulk == NO_BULK {
            let from = position.at + std::mem::take(&mut position.scanned);
            (position.bulk, position.at) = length_header(input, position.at, from, limits)?;
        }
        let tail = &input[position.at..];
        let len = position.in_input();
        // A length is below 2^63, so adding `LINE_END` does not overflow.
        let Some(ended) = tail.get(..len + LINE_END) else { return Err(ArgumentsEnd::Starved) };
        if ended[len..] != *b"\r\n" {
            return Err(ArgumentsEnd::Failed(ParseError::InvalidCrlf));
        }
        if position.bulk != APART {
            args.push(Span { start: position.at, len });
        }
        position.at += len + LINE_END;
        position.bulk = NO_BULK;
        position.left -= 1;
    }
    Ok(())
}

/// Reads the request at `at` if it is complete, valid and not unusual, and returns the position after the
/// request. Otherwise returns `None`, and changes nothing.
#[inline(always)]
fn quick(input: &[u8], at: usize, limits: &ParseLimits, out: &mut Requests) -> Option<usize> {
    let (argc, mut rest) = short_header(input.get(at..)?, STAR_HEADER)?;
    if argc == 0 || argc > limits.argc_quick {
        return None;
    }
    for slot in out.room(argc) {
        let (bulk, tail) = short_header(rest, DOLLAR_HEADER)?;
        let (_, ended) = tail.split_at_checked(bulk)?;
        let (line_end, next) = ended.split_first_chunk::<2>()?;
        if *line_end != *b"\r\n" || bulk > limits.bulk_bytes_quick {
            return None;
        }
        *slot = Span { start: input.len() - tail.len(), len: bulk };
        rest = next;
    }
    let next = input.len() - rest.len();
    out.conclude(argc, Span { start: at, len: next - at }, RequestForm::Multibulk);
    Some(next)
}

/// Reads a header of up to nine digits. Returns the number and the bytes after the header, or `None` for any
/// other header.
///
/// `mould` is such a header with the digit 0. One load, one exclusive or and one comparison decide about a
/// header with one digit.
#[inline(always)]
fn short_header(text: &[u8], mould: [u8; 4]) -> Option<(usize, &[u8])> {
    let (head, tail) = text.split_first_chunk::<4>()?;
    let difference = u32::from_le_bytes(*head) ^ u32::from_le_bytes(mould);
    let digit = difference.rotate_right(8);
    if digit < 10 {
        return Some((digit as usize, tail));
    }
    // Lengths of two digits are as frequent as lengths of one digit, because most keys have some ten bytes.
    let difference = u32::from_le_bytes(*head) ^ u32::from_le_bytes([mould[0], b'0', b'0', b'\r']);
    let (tens, units) = (difference >> 8 & 0xff, difference >> 16 & 0xff);
    if difference & 0xff00_00ff == 0 && (1..10).contains(&tens) && units < 10 {
        return Some(((tens * 10 + units) as usize, tail.strip_prefix(b"\n")?));
    }
    longer_header(text, mould[0])
}

/// Reads a header of up to nine digits, usually three or more.
#[inline(never)]
fn longer_header(text: &[u8], kind: u8) -> Option<(usize, &[u8])> {
    let [first, digits @ ..] = text else { return None };
    if *first != kind || digits.first() == Some(&b'0') {
        return None;
    }
    let mut number = 0;
    for (index, byte) in digits.iter().enumerate().take(10) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let tail = digits[index..].strip_prefix(b"\r\n")?;
            return (index > 0).then_some((number, tail));
        }
        number = number * 10 + usize::from(digit);
    }
    None
}

/// Reads the header `*<count>` at the beginning of `request`; the search for its end starts at `from`.
fn count_header(request: &[u8], from: usize, limits: &ParseLimits) -> Result<(i64, usize), ArgumentsEnd> {
    let end = line_end(request, 0, from, ParseError::BigCount)?;
    if request[end + 1] != b'\n' {
        return Err(ArgumentsEnd::Failed(ParseError::InvalidCrlf));
    }
    match sluice_base::num::parse_i64(&request[1..end]) {
        Some(count) if count <= ARGC_MAX => {
            if limits.admission == AuthState::Unauthenticated && count > UNAUTHENTICATED_ARGC_MAX {
                return Err(ArgumentsEnd::Failed(ParseError::UnauthenticatedCount));
            }
            Ok((count, end + 2))
        }
        _ => Err(ArgumentsEnd::Failed(ParseError::InvalidCount)),
    }
}

/// Reads the header `$<length>` at `at`; the search for its end starts at `from`.
fn length_header(
    input: &[u8],
    at: usize,
    from: usize,
    limits: &ParseLimits,
) -> Result<(usize, usize), ArgumentsEnd> {
    let end = line_end(input, at, from, ParseError::BigLength)?;
    if input[at] != b'$' {
        return Err(ArgumentsEnd::Failed(ParseError::ExpectedDollar(input[at])));
    }
    if input[end + 1] != b'\n' {
        return Err(ArgumentsEnd::Failed(ParseError::InvalidCrlf));
    }
    match sluice_base::num::parse_i64(&input[at + 1..end]) {
        Some(length) if (0..=limits.bulk_bytes_max).contains(&length) => {
            if limits.admission == AuthState::Unauthenticated && length > UNAUTHENTICATED_BULK_BYTES_MAX {
                return Err(ArgumentsEnd::Failed(ParseError::UnauthenticatedLength));
            }
            Ok((length as usize, end + 2))
        }
        _ => Err(ArgumentsEnd::Failed(ParseError::InvalidLength)),
    }
}

/// Position of the first CR of the line at `at`, if the byte after the CR has arrived as well.
fn line_end(input: &[u8], at: usize, from: usize, too_big: ParseError) -> Result<usize, ArgumentsEnd> {
    let Some(offset) = input.get(from..).and_then(|tail| memchr(b'\r', tail)) else {
        let big = input.len().saturating_sub(at) > LINE_BYTES_MAX;
        return Err(if big { ArgumentsEnd::Failed(too_big) } else { ArgumentsEnd::Starved });
    };
    let end = from + offset;
    if end + 1 < input.len() { Ok(end) } else { Err(ArgumentsEnd::Starved) }
}

/// Entry point of the fuzzer: parses `data` whole and in pieces, and compares the results.
pub fn fuzz_requests(data: &[u8]) {
    let Some((&seed, stream)) = data.split_first() else { return };
    let admission = if seed & 1 == 0 { AuthState::Authenticated } else { AuthState::Unauthenticated };
    let limits = ParseLimits::new(admission, 1 << 20, usize::from(seed >> 5) + 1);
    // The stream is cut to this length, because whether a longer line is refused depends on the pieces in
    // which it arrives.
    let stream = &stream[..stream.len().min(LINE_BYTES_MAX)];
    let whole = replay(stream, &limits, &mut |rest| rest);
    let mut rng = sluice_base::Rng::new(u64::from(seed));
    let pieces = replay(stream, &limits, &mut |rest| 1 + rng.below(rest as u64) as usize);
    assert_eq!(whole, pieces, "a split must not change what is understood");
}

/// Parses a stream of which `piece(rest)` bytes arrive at a time. Returns all requests, and the error or
/// the number of bytes left over.
fn replay(
    stream: &[u8],
    limits: &ParseLimits,
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
        let raw: usize = out.iter(input).map(|request| request.wire_len()).sum();
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
const APART: usize = usize::MAX - 1;
/// Length in bytes of the line end after an argument.
const LINE_END: usize = 2;
const STAR_HEADER: [u8; 4] = *b"*0\r\n";
const DOLLAR_HEADER: [u8; 4] = *b"$0\r\n";
/// Maximum length in bytes of an argument from the primary, and of any string. Sums of such lengths do not
/// overflow.
const PRIMARY_BULK_BYTES_MAX: i64 = 1 << 40;
/// Number of arguments for which room is made at once; room for more arguments is made as they arrive.
const QUICK_ARGC_MAX: usize = 1024;
const LINE_BYTES_MAX: usize = 64 * 1024;
const ARGC_MAX: i64 = i32::MAX as i64;
const UNAUTHENTICATED_ARGC_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: i64 = 16384;
/// Number of spans that a connection keeps between two large requests.
const ARGS_KEPT: usize = 64;

#[cfg(test)]
mod tests;
