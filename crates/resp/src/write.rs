//! Writes replies as bytes, in the client's protocol version.
//!
//! A type that RESP2 lacks is written as the nearest type of RESP2: maps, sets and pushes as arrays,
//! doubles, big numbers and verbatim strings as bulk strings, booleans as 0 and 1. Attributes are left
//! out.
//!
//! Invariants: (1) simple strings, errors, doubles and big numbers contain no CR or LF, because these bytes
//! become spaces; (2) a method writes exactly one value, or the header of one aggregate or bulk string,
//! whose contents the caller writes next; only `raw` and `part_shared` append the given bytes unchanged,
//! whatever they are.

use sluice_base::{Bytes, num};

use crate::outbox::Outbox;

/// A version of the protocol, chosen with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Version 2, before HELLO and after HELLO 2.
    #[default]
    Resp2,
    /// Version 3, after HELLO 3.
    Resp3,
}

/// Appends replies to an outbox. A value is made for each command, which costs nothing.
#[derive(Debug)]
pub struct Reply<'a> {
    outbox: &'a mut Outbox,
    protocol: Protocol,
}

/// An aggregate whose length is not known yet. The matching `end_*` method of [`Reply`] ends it; nested
/// aggregates end innermost first.
#[derive(Debug)]
#[must_use = "the header is wrong until the aggregate is ended"]
pub struct Deferred {
    at: usize,
}

impl<'a> Reply<'a> {
    /// A writer to the end of `outbox`.
    #[inline]
    pub fn new(outbox: &'a mut Outbox, protocol: Protocol) -> Reply<'a> {
        Reply { outbox, protocol }
    }

    /// The protocol version of the replies.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The outbox to which the replies are appended.
    #[inline]
    pub fn outbox(&mut self) -> &mut Outbox {
        self.outbox
    }

    /// Writes the simple string `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// Appends bytes that already are one or more replies, or a part of a reply.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.outbox.push(bytes);
    }

    /// Writes a simple string; line ends in it become spaces.
    pub fn simple(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }

    /// Writes an error. `text` begins with the code, as in `ERR syntax error`. Line ends around the text
    /// are dropped.
    pub fn error(&mut self, text: &[u8]) {
        let start = text.iter().position(|byte| !is_line_end(byte)).unwrap_or(text.len());
        self.error_of_script(&text[start..]);
    }

    /// Writes an error of a script: line ends after the text are dropped, and line ends before or within
    /// the text become spaces.
    pub fn error_of_script(&mut self, text: &[u8]) {
        let end = text.iter().rposition(|byte| !is_line_end(byte)).map_or(0, |last| last + 1);
        self.line(b'-', &text[..end]);
    }

    /// Writes an integer reply, `:n`.
    #[inline]
    pub fn int(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// Writes a bulk string and copies its bytes.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        self.outbox.head().reserve(value.len() + HEADER_BYTES_MAX + 2);
        self.length(b'$', value.len());
        let head = self.outbox.head();
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }

    /// Writes a bulk string that shares `value` where sharing is cheaper than a copy.
    pub fn bulk_shared(&mut self, value: &Bytes) {
        if value.len() < SHARED_BYTES_MIN {
            return self.bulk(value);
        }
        self.bulk_header(value.len());
        self.part_shared(value);
        self.raw(b"\r\n");
    }

    /// Writes the header of a bulk string of `len` bytes. The caller writes the bytes, in any parts, and
    /// a line end.
    pub fn bulk_header(&mut self, len: usize) {
        self.length(b'$', len);
    }

    /// Appends part of a reply, and shares `part` where sharing is cheaper than a copy.
    pub fn part_shared(&mut self, part: &Bytes) {
        if part.len() < SHARED_BYTES_MIN {
            return self.raw(part);
        }
        self.outbox.push_shared(part.clone());
    }

    /// Writes the decimal form of `value` as a bulk string.
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes the text of a double as a bulk string, in both versions.
    pub fn bulk_double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(32);
        num::push_f64(&mut text, value);
        self.bulk(&text);
    }

    /// Writes null, which means that there is no value.
    #[inline]
    pub fn null(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes the null array, which means that there is no array.
    #[inline]
    pub fn null_array(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes the header of an array of `len` values.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }

    /// Writes the header of a map of `len` pairs.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len * 2),
            Protocol::Resp3 => self.length(b'%', len),
        }
    }

    /// Writes the header of a set of `len` values.
    pub fn set(&mut self, len: usize) {
        self.length(self.set_type(), len);
    }

    /// Writes the header of a push of `len` values.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len),
            Protocol::Resp3 => self.length(b'>', len),
        }
    }

    /// Writes the header of `len` attribute pairs that describe the next value. Returns whether the
    /// caller must write the pairs; this is false in RESP2, which has no attributes.
    #[must_use = "the pairs are owed only when this is true"]
    pub fn attribute(&mut self, len: usize) -> bool {
        match self.protocol {
            Protocol::Resp2 => false,
            Protocol::Resp3 => {
                self.length(b'|', len);
                true
            }
        }
    }

    /// Writes a double; in RESP2, its text as a bulk string.
    pub fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => self.bulk_double(value),
            Protocol::Resp3 => {
                let head = self.outbox.head();
                head.push(b',');
                num::push_f64(head, value);
                head.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Writes a double with these digits, which may be more precise than 64 bits.
    pub fn double_text(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b',', digits),
        }
    }

    /// Writes a boolean; in RESP2, the integer 0 or 1.
    pub fn boolean(&mut self, value: bool) {
        self.raw(match (self.protocol, value) {
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
        });
    }

    /// Writes an integer of any size, given in decimal; in RESP2, as a bulk string.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b'(', digits),
        }
    }

    /// Writes a text with a format of three letters, `txt` or `mkd`; in RESP2, the text alone as a bulk
    /// string.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.length(b'=', text.len() + 4);
                let head = self.outbox.head();
                head.extend_from_slice(format);
                head.push(b':');
                head.extend_from_slice(text);
                head.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Begins an aggregate whose length is given at its end.
    ///
    /// Room for one digit is left in the header. If the length has more digits, the bytes that were written
    /// since are moved.
    pub fn defer(&mut self) -> Deferred {
        let at = self.outbox.head().len();
        self.raw(b"*0\r\n");
        Deferred { at }
    }

    /// Ends an array of `len` values.
    pub fn end_array(&mut self, deferred: Deferred, len: usize) {
        self.end(deferred, b'*', len);
    }

    /// Ends a map of `len` pairs.
    pub fn end_map(&mut self, deferred: Deferred, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.end(deferred, b'*', len * 2),
            Protocol::Resp3 => self.end(deferred, b'%', len),
        }
    }

    /// Ends a set of `len` values.
    pub fn end_set(&mut self, deferred: Deferred, len: usize) {
        self.end(deferred, self.set_type(), len);
    }

    fn end(&mut self, deferred: Deferred, kind: u8, len: usize) {
        if len < 10 {
            self.outbox.splice(deferred.at, DEFERRED_BYTES, &[kind, b'0' + len as u8, b'\r', b'\n']);
            return;
        }
        let mut header = Vec::with_capacity(HEADER_BYTES_MAX);
        header.push(kind);
        num::push_u64(&mut header, len as u64);
        header.extend_from_slice(b"\r\n");
        self.outbox.splice(deferred.at, DEFERRED_BYTES, &header);
    }

    fn set_type(&self) -> u8 {
        match self.protocol {
            Protocol::Resp2 => b'*',
            Protocol::Resp3 => b'~',
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        let head = self.outbox.head();
        head.reserve(text.len() + 3);
        head.push(kind);
        let from = head.len();
        head.extend_from_slice(text);
        for byte in &mut head[from..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        head.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn length(&mut self, kind: u8, len: usize) {
        self.number(kind, len as i64);
    }

    #[inline]
    fn number(&mut self, kind: u8, value: i64) {
        let head = self.outbox.head();
        if (0..1000).contains(&value) {
            return push_short(head, kind, value as u16);
        }
        push_long(head, kind, value);
    }
}

// The function is not inlined, because its buffers would make a stack frame and saved registers necessary for
// short numbers as well.
#[inline(never)]
fn push_long(head: &mut Vec<u8>, kind: u8, value: i64) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(value).as_bytes();
    let mut line = [0; HEADER_BYTES_MAX];
    line[0] = kind;
    line[1..1 + digits.len()].copy_from_slice(digits);
    line[1 + digits.len()..3 + digits.len()].copy_from_slice(b"\r\n");
    head.extend_from_slice(&line[..3 + digits.len()]);
}

/// Writes a header with up to three digits. Eight bytes are stored at once, and the surplus is then
/// removed. This takes a third of the time of a copy whose length is not known at compile time.
#[inline]
fn push_short(head: &mut Vec<u8>, kind: u8, value: u16) {
    let (line, len) = match TWO_DIGITS.get(usize::from(value)) {
        Some(packed) => ((packed << 8 | u64::from(kind)).to_le_bytes(), (packed >> 56) as usize),
        None => {
            let digit = |d: u16| b'0' + d as u8;
            let (hundreds, tens, ones) = (value / 100, value / 10 % 10, value % 10);
            ([kind, digit(hundreds), digit(tens), digit(ones), b'\r', b'\n', 0, 0], 6)
        }
    };
    let end = head.len() + len;
    head.extend_from_slice(&line);
    head.truncate(end);
}

/// The headers of the numbers below 100, without the byte of the kind. An element has the digits and the line
/// end from the lowest byte on, and in the highest byte the header's length including the kind. Most values
/// have a length below 100, and the table takes only 13 cache lines.
static TWO_DIGITS: [u64; 100] = two_digits();

const fn two_digits() -> [u64; 100] {
    let mut all = [0; 100];
    let mut value = 0;
    while value < 100 {
        let (tens, ones) = (b'0' + value as u8 / 10, b'0' + value as u8 % 10);
        all[value] = match value < 10 {
            true => u64::from_le_bytes([ones, b'\r', b'\n', 0, 0, 0, 0, 4]),
            false => u64::from_le_bytes([tens, ones, b'\r', b'\n', 0, 0, 0, 5]),
        };
        value += 1;
    }
    all
}

/// Length in bytes of the longest header: a kind byte, twenty digits (or a sign and nineteen digits), and the
/// line end.
const HEADER_BYTES_MAX: usize = 23;
const DEFERRED_BYTES: usize = 4;
/// Values of at least this many bytes are shared, because a reference count and a second segment then cost
/// less than the copy.
const SHARED_BYTES_MIN: usize = 16 * 1024;

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests;
