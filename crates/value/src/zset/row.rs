//! Rows: the elements of a sorted set in one piece of bytes, in order of score and member.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | bits 0–5 length of the member, 62: a u16 follows, 63: a u32 follows; bits 6–7 width of the score |
//! | 0, 2, 4 | the length where it follows, little endian |
//! | 2, 4, 6, 8 | the score: an integer of 16, 32 or 48 bits, or a double; little endian |
//! | … | the member |
//!
//! Invariants: (1) no function that reads a row panics or reads beyond it: malformed bytes give some elements
//! or none; (2) a score has one form, the narrowest that gives back the same bits, so -0 is a double.

use super::edge::Edge;

/// An element read from a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowEntry<'a> {
    pub(super) member: &'a [u8],
    pub(super) score: f64,
    /// Bytes of the element in the row.
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

/// Writes an element to the front of `out`, which must be long enough; returns the number of bytes.
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

/// The element at the front of a row; `None` for an empty row, or if the element is malformed.
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
    // Eight bytes are read at once, whatever the width of the score, if that many follow; usually they do,
    // because the member follows the score.
    let wide = 2 * (1 + usize::from(head >> 6));
    let score = match rest.first_chunk::<8>() {
        Some(bytes) => score_of(u64::from_le_bytes(*bytes), wide),
        None => {
            let mut bytes = [0; 8];
            bytes[..wide].copy_from_slice(rest.get(..wide)?);
            score_of(u64::from_le_bytes(bytes), wide)
        }
    };
    let rest = rest.get(wide..)?;
    let member = rest.get(..len)?;
    Some(RowEntry { member, score, len: 1 + extra + wide + len })
}

/// The score in the lowest `wide` bytes of `bits`.
#[inline]
fn score_of(bits: u64, wide: usize) -> f64 {
    if wide == 8 {
        return f64::from_bits(bits);
    }
    // The integer is shifted down with sign extension.
    let shift = 64 - 8 * wide as u32;
    ((bits << shift) as i64 >> shift) as f64
}

/// The encoded form of a score.
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

/// Longest member whose length fits in the first byte.
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

/// Offset of the element at `index`; the row's length if there is none.
pub(super) fn offset_of(row: &[u8], index: usize) -> usize {
    offset_from(row, RowGap::default(), index)
}

/// Offset of the element at `index`, searched from a position that is not after it.
pub(super) fn offset_from(row: &[u8], from: RowGap, index: usize) -> usize {
    let mut at = from.at;
    for _ in from.index..index {
        let Some(end) = element_end(row, at) else { break };
        at = end;
    }
    at
}

/// End of the element that begins at `at`; `None` at the end of the row, or if the element is cut off.
#[inline]
pub(super) fn element_end(row: &[u8], at: usize) -> Option<usize> {
    let (_, end) = member_range(row, at)?;
    (end <= row.len()).then_some(end)
}

/// A member's position in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPosition {
    pub(super) index: usize,
    pub(super) score: f64,
    /// Offsets of the element in the row: its first byte, and the first byte after it.
    pub(super) at: usize,
    pub(super) end: usize,
}

/// The position of a member. The scores of other elements are not decoded.
#[inline]
pub(super) fn find(row: &[u8], member: &[u8]) -> Option<RowPosition> {
    let (mut at, mut index) = (0, 0);
    loop {
        let (begin, end) = member_range(row, at)?;
        let found = row.get(begin..end)?;
        // Members of one length often differ only in their last byte, so it is compared first.
        if found.len() == member.len() && found.last() == member.last() && found == member {
            let score = read(&row[at..])?.score;
            return Some(RowPosition { index, score, at, end });
        }
        at = end;
        index += 1;
    }
}

/// Range of the member of the element at `at`; `None` at the end of the row.
#[inline]
fn member_range(row: &[u8], at: usize) -> Option<(usize, usize)> {
    let head = *row.get(at)?;
    let (len, extra) = match head & 63 {
        LONG => (usize::from(u16::from_le_bytes(*row.get(at + 1..)?.first_chunk()?)), 2),
        HUGE => (u32::from_le_bytes(*row.get(at + 1..)?.first_chunk()?) as usize, 4),
        len => (usize::from(len), 0),
    };
    let begin = at + 1 + extra + 2 * (1 + usize::from(head >> 6));
    Some((begin, begin + len))
}

/// A position between two elements of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowGap {
    /// Number of elements in front of the gap.
    pub(super) index: usize,
    /// Bytes of the elements in front of the gap.
    pub(super) at: usize,
}

/// The position of an edge in a row.
pub(super) fn gap_of(row: &[u8], edge: Edge<'_>) -> RowGap {
    gap_from(row, RowGap::default(), edge)
}

/// The position of an edge in a row, searched from a position in front of it.
#[inline]
pub(super) fn gap_from(row: &[u8], from: RowGap, edge: Edge<'_>) -> RowGap {
    let mut gap = from;
    if let Edge::Element(score, member) = edge {
        gap = gap_of_element(row, gap, score, member);
    }
    // This loop handles what the quick search leaves: elements with long members or at the end of the
    // row, and the other kinds of edges.
    for entry in RowIter::new(row.get(gap.at..).unwrap_or_default()) {
        if !edge.is_after(entry.score, || entry.member) {
            break;
        }
        gap.index += 1;
        gap.at += entry.len;
    }
    gap
}

/// The position of an element's edge, or an earlier position at which this search stops, because an element
/// there has a long member or too few bytes follow it. Every change of a score runs this search: members are
/// compared only where scores are equal, and no byte is read twice.
fn gap_of_element(row: &[u8], from: RowGap, of: f64, member: &[u8]) -> RowGap {
    let mut gap = from;
    while let Some((&head, rest)) = row.get(gap.at..).and_then(<[u8]>::split_first) {
        let Some(bytes) = rest.first_chunk::<8>() else { break };
        let (len, wide) = (usize::from(head & 63), 2 * (1 + usize::from(head >> 6)));
        let end = gap.at + 1 + wide + len;
        if len > SHORT_MAX || end > row.len() {
            break;
        }
        let score = score_of(u64::from_le_bytes(*bytes), wide);
        let is_before =
            score < of || score == of && rest.get(wide..wide + len).is_some_and(|found| found < member);
        if !is_before {
            break;
        }
        gap.index += 1;
        gap.at = end;
    }
    gap
}

/// Cuts a row into pieces of similar size, of at most `bytes_max` bytes; a longer element is a
/// piece of its own.
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
