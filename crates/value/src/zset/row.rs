//! Rows: elements of a sorted set one behind the other, in order of score and member.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | bits 0–5 length of the member, 62: a u16 follows, 63: a u32 follows; bits 6–7 width of the score |
//! | 0, 2, 4 | the length where it follows, little endian |
//! | 2, 4, 6, 8 | the score: an integer of 16, 32 or 48 bits, or a double; little endian |
//! | … | the member |
//!
//! Invariants: (1) no function panics or reads beyond the bytes: of bytes that are no row it gives some elements or none;
//! (2) a score has one form: the narrowest that gives the same bits back, so -0 is a double.

/// An element as it stands in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowEntry<'a> {
    pub(super) member: &'a [u8],
    pub(super) score: f64,
    /// Bytes in the row.
    pub(super) len: usize,
}

/// Bytes of an element in a row.
pub(super) fn entry_len(member: &[u8], score: f64) -> usize {
    1 + length_bytes(member.len()) + width(score).bytes() + member.len()
}

fn length_bytes(len: usize) -> usize {
    match len {
        0..=SHORT_MAX => 0,
        LONG_MIN..=0xffff => 2,
        _ => 4,
    }
}

/// Writes an element to the front of `out`, which is long enough; how many bytes.
pub(super) fn write(out: &mut [u8], member: &[u8], score: f64) -> usize {
    let width = width(score);
    let len = member.len();
    let (low, extra) = match length_bytes(len) {
        0 => (len as u8, 0),
        2 => (LONG, 2),
        _ => (HUGE, 4),
    };
    out[0] = low | (width as u8) << 6;
    out[1..1 + extra].copy_from_slice(&(len as u32).to_le_bytes()[..extra]);
    let at = 1 + extra;
    let bits = match width {
        Width::Double => score.to_le_bytes(),
        Width::Int16 | Width::Int32 | Width::Int48 => (score as i64).to_le_bytes(),
    };
    let wide = width.bytes();
    out[at..at + wide].copy_from_slice(&bits[..wide]);
    out[at + wide..at + wide + len].copy_from_slice(member);
    at + wide + len
}

/// The element at the front of a row; `None` at the end.
#[inline]
pub(super) fn read(row: &[u8]) -> Option<RowEntry<'_>> {
    let (&head, rest) = row.split_first()?;
    let (len, rest, extra) = match head & 63 {
        LONG => {
            let (bytes, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*bytes)), rest, 2)
        }
        HUGE => {
            let (bytes, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(*bytes) as usize, rest, 4)
        }
        len => (usize::from(len), rest, 0),
    };
    let (score, rest, wide) = match head >> 6 {
        0 => {
            let (bytes, rest) = rest.split_first_chunk::<2>()?;
            (f64::from(i16::from_le_bytes(*bytes)), rest, 2)
        }
        1 => {
            let (bytes, rest) = rest.split_first_chunk::<4>()?;
            (f64::from(i32::from_le_bytes(*bytes)), rest, 4)
        }
        2 => {
            let ([a, b, c, d, e, f], rest) = rest.split_first_chunk::<6>()?;
            // Shifted down with its sign.
            (((i64::from_le_bytes([0, 0, *a, *b, *c, *d, *e, *f])) >> 16) as f64, rest, 6)
        }
        _ => {
            let (bytes, rest) = rest.split_first_chunk::<8>()?;
            (f64::from_le_bytes(*bytes), rest, 8)
        }
    };
    let member = rest.get(..len)?;
    Some(RowEntry { member, score, len: 1 + extra + wide + len })
}

/// The form of a score.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Int16 = 0,
    Int32 = 1,
    Int48 = 2,
    Double = 3,
}

impl Width {
    fn bytes(self) -> usize {
        match self {
            Width::Int16 => 2,
            Width::Int32 => 4,
            Width::Int48 => 6,
            Width::Double => 8,
        }
    }
}

fn width(score: f64) -> Width {
    let whole = score as i64;
    if (whole as f64).to_bits() != score.to_bits() {
        return Width::Double;
    }
    match whole {
        -0x8000..=0x7fff => Width::Int16,
        -0x8000_0000..=0x7fff_ffff => Width::Int32,
        -0x8000_0000_0000..=0x7fff_ffff_ffff => Width::Int48,
        _ => Width::Double,
    }
}

/// Longest member whose length is in the first byte.
const SHORT_MAX: usize = 61;
const LONG_MIN: usize = SHORT_MAX + 1;
const LONG: u8 = 62;
const HUGE: u8 = 63;

/// The elements of a row in order.
#[derive(Clone, Debug)]
pub(super) struct RowIter<'a> {
    rest: &'a [u8],
}

impl<'a> RowIter<'a> {
    pub(super) fn new(row: &'a [u8]) -> RowIter<'a> {
        RowIter { rest: row }
    }
}

impl<'a> Iterator for RowIter<'a> {
    type Item = RowEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<RowEntry<'a>> {
        let entry = read(self.rest)?;
        self.rest = self.rest.get(entry.len..)?;
        Some(entry)
    }
}

/// Where the element at `index` begins; the row's length where there is none.
pub(super) fn offset_of(row: &[u8], index: usize) -> usize {
    RowIter::new(row).take(index).map(|entry| entry.len).sum()
}

/// A member's place in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPlace {
    pub(super) index: usize,
    pub(super) score: f64,
}

/// The place of a member.
#[inline]
pub(super) fn find(row: &[u8], member: &[u8]) -> Option<RowPlace> {
    RowIter::new(row)
        .enumerate()
        .find(|(_, entry)| entry.member == member)
        .map(|(index, entry)| RowPlace { index, score: entry.score })
}

/// Cuts a row into pieces of at most `bytes_max` bytes of about the same size; an element that is longer is a piece of its own.
pub(super) fn cut(row: &[u8], bytes_max: usize) -> Vec<(&[u8], usize)> {
    let parts = row.len().div_ceil(bytes_max).max(1);
    let target = row.len() / parts;
    let mut pieces = Vec::with_capacity(parts + 1);
    let (mut from, mut at, mut count) = (0, 0, 0);
    for entry in RowIter::new(row) {
        let bytes = at - from;
        if count > 0 && (bytes + entry.len > bytes_max || bytes >= target) {
            pieces.push((&row[from..at], count));
            (from, count) = (at, 0);
        }
        at += entry.len;
        count += 1;
    }
    if count > 0 {
        pieces.push((&row[from..at], count));
    }
    pieces
}
