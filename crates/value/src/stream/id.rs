//! Ids of entries: milliseconds and a sequence number.

use sluice_base::num::{parse_i64, parse_u64};

/// The id of an entry. Ids order entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds; since the Unix epoch if the server has chosen the id.
    pub ms: u64,
    /// Sequence number, which distinguishes entries of one millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least id, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest possible id, after which no entry can be added.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };
    /// Bytes of the longest text of an id.
    pub const TEXT_MAX: usize = 41;

    /// The id with these parts.
    pub const fn new(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    /// The next id; `None` after [`StreamId::MAX`].
    #[must_use]
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// The previous id; `None` for [`StreamId::MIN`].
    #[must_use]
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    /// The id that a text names. A text of milliseconds alone names the id with the sequence number
    /// `seq`. As in the reference, the text ends at a NUL, and a number may have the prefixes that
    /// the C library accepts.
    pub fn parse(text: &[u8], seq: u64) -> Option<StreamId> {
        let text = StreamId::text_of(text)?;
        match text.iter().position(|byte| *byte == b'-') {
            None => Some(StreamId { ms: number(text)?, seq }),
            Some(dash) => Some(StreamId { ms: number(&text[..dash])?, seq: number(&text[dash + 1..])? }),
        }
    }

    /// The milliseconds of a text such as `5-*`; `None` for any other text.
    pub fn parse_with_any_seq(text: &[u8]) -> Option<u64> {
        let text = StreamId::text_of(text)?;
        // The first dash ends the milliseconds, even if the text begins with it.
        let dash = text.iter().position(|byte| *byte == b'-')?;
        if &text[dash..] == b"-*" { number(&text[..dash]) } else { None }
    }

    fn text_of(text: &[u8]) -> Option<&[u8]> {
        (text.len() <= TEXT_BYTES_MAX).then(|| text.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// Appends the text of the id.
    pub(crate) fn push_text(self, out: &mut Vec<u8>) {
        sluice_base::num::push_u64(out, self.ms);
        out.push(b'-');
        sluice_base::num::push_u64(out, self.seq);
    }

    /// The text of the id.
    pub fn to_text(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(StreamId::TEXT_MAX);
        self.push_text(&mut out);
        out
    }

    /// The id as 16 bytes, big endian, as in files.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    /// The id of 16 bytes from a file.
    pub fn from_bytes(bytes: [u8; 16]) -> StreamId {
        let number = u128::from_be_bytes(bytes);
        StreamId { ms: (number >> 64) as u64, seq: number as u64 }
    }
}

/// Bytes of the longest text that is parsed as an id.
const TEXT_BYTES_MAX: usize = 127;

/// A number within an id: digits, or a text that `strtoull` accepts completely, except for a canonical
/// negative number.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_u64(text) {
        return Some(number);
    }
    if parse_i64(text).is_some() {
        // A negative number in its canonical form is refused; in other forms, such as `-05`, it wraps around
        // as with `strtoull`.
        return None;
    }
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | 0x09..=0x0d)).count();
    let text = &text[spaces..];
    let (digits, is_negative) = match text.split_first() {
        Some((b'-', digits)) => (digits, true),
        Some((b'+', digits)) => (digits, false),
        _ => (text, false),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}
