//! The entries of a listpack, as a row of bytes without header and end.
//!
//! An entry consists of an encoding, the bytes that it announces, and the length of these two, which can be
//! read backwards:
//!
//! | first byte | then | element |
//! |---|---|---|
//! | `0xxxxxxx` | – | integer from 0 to 127 |
//! | `10llllll` | l bytes | string |
//! | `110xxxxx` | 1 byte | integer of 13 bits, big endian, two's complement |
//! | `1110llll` | 1 byte of the length, l bytes | string of up to 4,095 bytes |
//! | `F0` | u32 length, little endian, so many bytes | string |
//! | `F1`, `F2`, `F3`, `F4` | 2, 3, 4, 8 bytes, little endian | integer |
//!
//! The length at the end takes 1 to 5 bytes of 7 bits each, the last byte being the lowest; a set top
//! bit means that a higher byte precedes.

use sluice_base::num::parse_i64;

/// An element of a listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// A string that is the canonical form of an integer.
    Int(i64),
    /// Any other string, borrowed from the listpack.
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// The element that represents a string in a listpack.
    #[inline]
    pub fn of(value: &'a [u8]) -> Element<'a> {
        // Only a string that can be an integer is parsed, because most strings begin with a letter or are
        // longer than 20 bytes, the most that an integer has.
        match value {
            [b'0'..=b'9' | b'-', ..] if value.len() <= 20 => {
                parse_i64(value).map_or(Element::Bytes(value), Element::Int)
            }
            _ => Element::Bytes(value),
        }
    }
}

/// Number of bytes of an element's entry.
#[inline]
pub fn len(element: Element<'_>) -> usize {
    let head = body_len(element);
    head + back_len(head)
}

/// Bytes of the entry of a string of `bytes` bytes that is no integer.
pub fn string_len(bytes: usize) -> usize {
    let body = string_body_len(bytes);
    body + back_len(body)
}

/// Bytes of an element's entry without the length at the end, as [`write_body`] writes it.
pub fn body_len(element: Element<'_>) -> usize {
    match element {
        Element::Int(number) => match number {
            0..=127 => 1,
            -4096..=4095 => 2,
            -0x8000..=0x7fff => 3,
            -0x80_0000..=0x7f_ffff => 4,
            -0x8000_0000..=0x7fff_ffff => 5,
            _ => 9,
        },
        Element::Bytes(bytes) => string_body_len(bytes.len()),
    }
}

fn string_body_len(bytes: usize) -> usize {
    match bytes {
        0..64 => 1 + bytes,
        64..4096 => 2 + bytes,
        _ => 5 + bytes,
    }
}

/// Bytes of the length at the end of an entry.
#[inline]
fn back_len(body: usize) -> usize {
    match body {
        0..=127 => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    }
}

/// Writes an element's entry to the front of `out`, which must have room; returns its bytes.
#[inline]
pub fn write(out: &mut [u8], element: Element<'_>) -> usize {
    let body = write_body(out, element);
    let back = back_len(body);
    let mut left = body;
    for (index, byte) in out[body..body + back].iter_mut().rev().enumerate() {
        let more = if index + 1 < back { 0x80 } else { 0 };
        *byte = (left & 0x7f) as u8 | more;
        left >>= 7;
    }
    body + back
}

/// Writes an element without the length at its end, for rows that are only read forwards.
#[inline]
pub fn write_body(out: &mut [u8], element: Element<'_>) -> usize {
    match element {
        Element::Int(number) => write_int(out, number),
        Element::Bytes(bytes) => write_bytes(out, bytes),
    }
}

fn write_int(out: &mut [u8], number: i64) -> usize {
    let bytes = number.to_le_bytes();
    let (first, len) = match number {
        0..=127 => {
            out[0] = number as u8;
            return 1;
        }
        -4096..=4095 => {
            let bits = (number as u16) & 0x1fff;
            out[..2].copy_from_slice(&(0xc000 | bits).to_be_bytes());
            return 2;
        }
        -0x8000..=0x7fff => (INT_16, 2),
        -0x80_0000..=0x7f_ffff => (INT_24, 3),
        -0x8000_0000..=0x7fff_ffff => (INT_32, 4),
        _ => (INT_64, 8),
    };
    out[0] = first;
    out[1..=len].copy_from_slice(&bytes[..len]);
    1 + len
}

fn write_bytes(out: &mut [u8], bytes: &[u8]) -> usize {
    let head = match bytes.len() {
        len @ 0..64 => {
            out[0] = 0x80 | len as u8;
            1
        }
        len @ 64..4096 => {
            out[..2].copy_from_slice(&(0xe000 | len as u16).to_be_bytes());
            2
        }
        len => {
            out[0] = STRING_32;
            out[1..5].copy_from_slice(&(len as u32).to_le_bytes());
            5
        }
    };
    out[head..head + bytes.len()].copy_from_slice(bytes);
    head + bytes.len()
}

const STRING_32: u8 = 0xf0;
const INT_16: u8 = 0xf1;
const INT_24: u8 = 0xf2;
const INT_32: u8 = 0xf3;
const INT_64: u8 = 0xf4;

/// The element at the front of a row and the number of bytes of its entry; `None` at the end of the row and
/// for malformed bytes. The length at the entry's end is not checked, and may even be missing.
#[inline]
pub fn read(row: &[u8]) -> Option<(Element<'_>, usize)> {
    let (element, body) = read_body(row)?;
    Some((element, body + back_len(body)))
}

/// The element at the front of a row whose entries have no length at the end, and the bytes of its entry.
#[inline]
pub fn read_body(row: &[u8]) -> Option<(Element<'_>, usize)> {
    let (&first, rest) = row.split_first()?;
    let (element, body) = match first {
        0..0x80 => (Element::Int(i64::from(first)), 1),
        0x80..0xc0 => {
            let len = usize::from(first & 0x3f);
            (Element::Bytes(rest.get(..len)?), 1 + len)
        }
        0xc0..0xe0 => {
            let bits = u16::from(first & 0x1f) << 8 | u16::from(*rest.first()?);
            // The shifts extend the sign, which is the thirteenth bit.
            (Element::Int(i64::from((bits << 3) as i16 >> 3)), 2)
        }
        0xe0..0xf0 => {
            let len = usize::from(first & 0x0f) << 8 | usize::from(*rest.first()?);
            (Element::Bytes(rest.get(1..1 + len)?), 2 + len)
        }
        STRING_32 => {
            let len = u32::from_le_bytes(*rest.first_chunk()?) as usize;
            (Element::Bytes(rest.get(4..)?.get(..len)?), 5 + len)
        }
        INT_16 => (Element::Int(i64::from(i16::from_le_bytes(*rest.first_chunk()?))), 3),
        INT_24 => {
            let [low, middle, high] = *rest.first_chunk()?;
            (Element::Int(i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)), 4)
        }
        INT_32 => (Element::Int(i64::from(i32::from_le_bytes(*rest.first_chunk()?))), 5),
        INT_64 => (Element::Int(i64::from_le_bytes(*rest.first_chunk()?)), 9),
        _ => return None,
    };
    Some((element, body))
}

/// Length of the last entry of a row, read from the end of the entry; `None` if the row is empty or the
/// length is impossible.
#[inline]
pub(crate) fn last_len(row: &[u8]) -> Option<usize> {
    let mut body = 0;
    for (index, byte) in row.iter().rev().take(5).enumerate() {
        body |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let len = body + index + 1;
            return (body > 0 && len <= row.len()).then_some(len);
        }
    }
    None
}

/// The element at the back of a row and the bytes of its entry.
#[inline]
pub(crate) fn read_back(row: &[u8]) -> Option<(Element<'_>, usize)> {
    let len = last_len(row)?;
    let (element, _) = read(&row[row.len() - len..])?;
    Some((element, len))
}

/// Bytes of the entry at the front of a row, if the entry is complete and the length at its end is right.
pub(crate) fn checked_len(row: &[u8]) -> Option<usize> {
    let (_, len) = read(row)?;
    let whole = row.get(..len)?;
    (last_len(whole) == Some(len)).then_some(len)
}

/// Offset of the element at `index` in a row of `count` elements. Cost: O(n), counted from the nearer end.
pub fn seek(row: &[u8], count: usize, index: usize) -> Option<usize> {
    if index >= count {
        return None;
    }
    if index <= count / 2 {
        let mut at = 0;
        for _ in 0..index {
            at += read(row.get(at..)?)?.1;
        }
        (at < row.len()).then_some(at)
    } else {
        let mut end = row.len();
        for _ in index..count {
            end -= last_len(&row[..end])?;
        }
        Some(end)
    }
}

/// Iterator over the elements of a row, which can be read from both ends.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    row: &'a [u8],
}

impl<'a> Iter<'a> {
    /// An iterator over all elements of a row.
    #[inline]
    pub fn new(row: &'a [u8]) -> Iter<'a> {
        Iter { row }
    }

    /// The entries that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.row
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (element, len) = read(self.row)?;
        self.row = self.row.get(len..).unwrap_or_default();
        Some(element)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (element, len) = read_back(self.row)?;
        self.row = &self.row[..self.row.len() - len];
        Some(element)
    }
}
