//! Ziplists, which versions before 7 wrote where later versions write listpacks.
//!
//! | bytes | meaning |
//! |---|---|
//! | u32 | size of the whole |
//! | u32 | offset of the last entry |
//! | u16 | how many entries; 65,535 when there are that many or more |
//! | entries | one after the other |
//! | `FF` | the end |
//!
//! Numbers are little endian, except where stated otherwise. An entry begins with the size of the entry
//! before it: a byte up to 253, or `FE` and a u32. Then:
//!
//! | first byte | then | element |
//! |---|---|---|
//! | `00llllll` | l bytes | string |
//! | `01llllll` | the low 8 of 14 bits of l, l bytes | string |
//! | `80` | l as a u32, big endian, l bytes | string |
//! | `C0`, `D0`, `E0`, `F0`, `FE` | 2, 4, 8, 3, 1 bytes | integer |
//! | `F1`–`FD` | – | integer from 0 to 12 |

use sluice_base::num::IntBuffer;
use sluice_collections::listpack::entry::{len as entry_len, write};
use sluice_collections::listpack::{self, Element};

/// The elements as a listpack; `None` if the bytes are no ziplist, or the listpack would be too large.
pub(super) fn to_listpack(ziplist: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = ziplist.split_first_chunk::<HEADER_LEN>()?;
    let (&END, mut rest) = rest.split_last()? else { return None };
    let size = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let tail = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    let count = u16::from_le_bytes([header[8], header[9]]);
    if size as usize != ziplist.len() {
        return None;
    }
    let mut row = Vec::new();
    let (mut at, mut last, mut before, mut seen) = (HEADER_LEN, HEADER_LEN, 0, 0usize);
    while !rest.is_empty() {
        let len = entry(rest, before, &mut row)?;
        rest = rest.get(len..)?;
        (last, before) = (at, len);
        at += len;
        seen += 1;
    }
    let counted = if count == u16::MAX { seen >= usize::from(u16::MAX) } else { seen == usize::from(count) };
    if !counted || tail != last {
        return None;
    }
    let mut out = Vec::new();
    listpack::of_row(&row, seen, &mut out);
    Some(out)
}

/// Appends an element to a row of listpack entries. A whole list costs linear time: a row has no element
/// count, whereas `listpack::push_back` counts all elements at each call once there are 65,535 of them.
/// `None` if the listpack would exceed its header's range.
fn push(row: &mut Vec<u8>, value: &[u8]) -> Option<()> {
    let element = Element::of(value);
    let at = row.len();
    let end = at + entry_len(element);
    if end > ROW_BYTES_MAX {
        return None;
    }
    row.resize(end, 0);
    write(&mut row[at..], element);
    Some(())
}

/// Appends the element of the entry at the front of `rest`; returns the entry's size. `None` if the entry is
/// malformed, `before` is not the stated size of the previous entry, or the row would be too large.
fn entry(rest: &[u8], before: usize, row: &mut Vec<u8>) -> Option<usize> {
    let (said, head) = match rest.first()? {
        0xfe => (u32::from_le_bytes(*rest.get(1..)?.first_chunk()?) as usize, 5),
        0xff => return None,
        &len => (usize::from(len), 1),
    };
    if said != before {
        return None;
    }
    let (&first, body) = rest.get(head..)?.split_first()?;
    let (string, len) = match first {
        0..0x40 => (Some((0, usize::from(first))), 0),
        0x40..0x80 => (Some((1, usize::from(first & 0x3f) << 8 | usize::from(*body.first()?))), 0),
        // The low bits of this first byte have no meaning.
        0x80..0xc0 => (Some((4, u32::from_be_bytes(*body.first_chunk()?) as usize)), 0),
        0xc0 => (None, 2),
        0xd0 => (None, 4),
        0xe0 => (None, 8),
        0xf0 => (None, 3),
        0xfe => (None, 1),
        0xf1..=0xfd => (None, 0),
        0xc1..0xd0 | 0xd1..0xe0 | 0xe1..0xf0 | 0xff => return None,
    };
    if let Some((skip, len)) = string {
        let value = body.get(skip..)?.get(..len)?;
        push(row, value)?;
        return Some(head + 1 + skip + len);
    }
    let number = match len {
        0 => i64::from(first & 0x0f) - 1,
        len => {
            let mut bytes = [0; 8];
            bytes[8 - len..].copy_from_slice(body.get(..len)?);
            i64::from_le_bytes(bytes) >> (64 - 8 * len)
        }
    };
    push(row, IntBuffer::new().format(number))?;
    Some(head + 1 + len)
}

const HEADER_LEN: usize = 10;
/// Maximum length in bytes of the entries, so that the size of the listpack fits in its header.
const ROW_BYTES_MAX: usize = u32::MAX as usize - 64;
const END: u8 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_collections::listpack::Element;

    const GOOD: &[u8] = b"\x29\0\0\0\x24\0\0\0\x08\0\0\x02ab\x04\xf1\x02\xfd\x02\xfe\xff\x03\xc0\x00\x80\x04\xf0\x00\x00\x80\x05\xd0\x00\x00\x00\
        \x80\x06\x02c1\xff";

    #[test]
    fn every_encoding_is_read() {
        let out = to_listpack(GOOD).expect("it is one");
        let numbers = [0, 12, -1, -32_768, -8_388_608, -2_147_483_648].map(Element::Int);
        let mut wanted = vec![Element::Bytes(b"ab")];
        wanted.extend(numbers);
        wanted.push(Element::Bytes(b"c1"));
        assert_eq!(listpack::iter(&out).collect::<Vec<_>>(), wanted);
        assert!(listpack::is_valid(&out));
        assert_eq!(to_listpack(b"\x0b\0\0\0\x0a\0\0\0\0\0\xff"), Some(listpack::new()));
    }

    #[test]
    fn long_strings_and_entries_are_read() {
        let mut bytes = vec![0; HEADER_LEN];
        bytes.extend(b"\x00\x41\x2c");
        bytes.extend([b'x'; 300]);
        bytes.extend(b"\xfe\x2f\x01\0\0\x80\0\0\x01\x2c");
        let last = bytes.len() - 10;
        bytes.extend([b'y'; 300]);
        bytes.push(END);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8] = 2;
        let out = to_listpack(&bytes).expect("it is one");
        let wanted = [[b'x'; 300], [b'y'; 300]];
        assert!(listpack::iter(&out).eq(wanted.iter().map(|value| Element::Bytes(value))));
    }

    #[test]
    fn a_long_ziplist_is_read_in_linear_time() {
        // `listpack::push_back`, which `to_listpack` avoids, counts all elements if there are 65,535 or
        // more. With it, 200 KB would take twenty seconds, and this test minutes.
        let count = 400_000;
        let mut bytes = vec![0; HEADER_LEN];
        bytes.extend(b"\x00\xf1");
        bytes.extend(b"\x02\xf1".repeat(count - 1));
        let last = bytes.len() - 2;
        bytes.push(END);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(listpack::len(&to_listpack(&bytes).expect("it is one")), count);
    }

    #[test]
    fn the_low_bits_of_a_long_strings_first_byte_mean_nothing() {
        for first in [0x80, 0x81, 0xbf] {
            let mut bytes = vec![0; HEADER_LEN];
            bytes.extend([0, first, 0, 0, 0, 1, b'a', END]);
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            bytes[4..8].copy_from_slice(&(HEADER_LEN as u32).to_le_bytes());
            bytes[8..10].copy_from_slice(&1u16.to_le_bytes());
            let out = to_listpack(&bytes).expect("it is one");
            assert_eq!(listpack::iter(&out).collect::<Vec<_>>(), [Element::Bytes(b"a")], "{first:#x}");
        }
    }

    #[test]
    fn what_is_no_ziplist_is_refused() {
        for cut in 0..GOOD.len() {
            assert_eq!(to_listpack(&GOOD[..cut]), None);
        }
        for at in (0..HEADER_LEN).chain([10, 14, 16, 18, GOOD.len() - 1]) {
            let mut bad = GOOD.to_vec();
            bad[at] ^= 1;
            assert_eq!(to_listpack(&bad), None, "{at}");
        }
    }
}
