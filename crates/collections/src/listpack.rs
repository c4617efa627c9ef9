//! The listpack: elements in a sequence of bytes, read from either end.
//!
//! | bytes | meaning |
//! |---|---|
//! | u32, little endian | size of the whole, these bytes and the end included |
//! | u16, little endian | how many elements; 65,535 when there are that many or more |
//! | entries | one after the other |
//! | `FF` | the end |
//!
//! [`entry`] describes an entry. Dumps and saved files hold listpacks; chunks of lists hold *rows*, which
//! are entries without header and end.
//!
//! Invariants: (1) no function panics, reads beyond the bytes, or trusts a length in them, so malformed bytes
//! give some elements or none; (2) a listpack is still a listpack after a change by these functions; (3) an
//! element has one encoding, the reference's: a string that is the canonical form of an integer is stored as
//! an integer.

pub mod entry;

pub use entry::Element;

/// Bytes of an empty listpack: the header and the end.
pub const EMPTY_LEN: usize = HEADER_LEN + 1;
/// Bytes before the first entry.
pub const HEADER_LEN: usize = 6;

const END: u8 = 0xff;
/// The value of the count that stands for this many elements or more.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// An empty listpack: a header and the end mark.
pub fn new() -> Vec<u8> {
    let mut listpack = vec![0; HEADER_LEN];
    listpack.push(END);
    set_header(&mut listpack, 0);
    listpack
}

/// The listpack of a row of `count` entries; replaces the contents of `out`.
pub fn of_row(row: &[u8], count: usize, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(EMPTY_LEN + row.len());
    out.resize(HEADER_LEN, 0);
    out.extend_from_slice(row);
    out.push(END);
    set_header(out, count);
}

/// Whether the bytes are a valid listpack. Checks the sizes, the count, and the encoding and both lengths of
/// every entry. Cost: O(n).
pub fn is_valid(listpack: &[u8]) -> bool {
    let Some((header, rest)) = listpack.split_first_chunk::<HEADER_LEN>() else { return false };
    let Some((&END, mut rest)) = rest.split_last() else { return false };
    let size = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let count = u16::from_le_bytes([header[4], header[5]]);
    if u32::try_from(listpack.len()) != Ok(size) {
        return false;
    }
    let mut seen = 0usize;
    while !rest.is_empty() {
        let Some(len) = entry::checked_len(rest) else { return false };
        rest = &rest[len..];
        seen += 1;
    }
    if count == COUNT_UNKNOWN { seen >= usize::from(COUNT_UNKNOWN) } else { seen == usize::from(count) }
}

/// The row of entries, without header and end; empty for too few bytes.
pub fn entries(listpack: &[u8]) -> &[u8] {
    listpack.get(HEADER_LEN..listpack.len().saturating_sub(1)).unwrap_or_default()
}

/// Number of elements. Cost: O(1), or O(n) from 65,535 elements on.
pub fn len(listpack: &[u8]) -> usize {
    match listpack.get(4..HEADER_LEN) {
        Some(&[low, high]) if [low, high] != COUNT_UNKNOWN.to_le_bytes() => {
            usize::from(u16::from_le_bytes([low, high]))
        }
        _ => entry::Iter::new(entries(listpack)).count(),
    }
}

/// Iterator over the elements, which can be read from both ends.
pub fn iter(listpack: &[u8]) -> entry::Iter<'_> {
    entry::Iter::new(entries(listpack))
}

/// The element at `index`. Cost: O(n), from the nearer end.
pub fn get(listpack: &[u8], index: usize) -> Option<Element<'_>> {
    let row = entries(listpack);
    let at = entry::seek(row, len(listpack), index)?;
    entry::read(row.get(at..)?).map(|(element, _)| element)
}

/// Inserts an element at an index, or at the end if the index is greater than the length. `false`, with the
/// listpack unchanged, if it would exceed 4 GiB or is malformed.
pub fn insert(listpack: &mut Vec<u8>, index: usize, value: &[u8]) -> bool {
    splice(listpack, index, 0, &[Element::of(value)])
}

/// Replaces the element at `index`; `false` if there is none, or if the listpack would be too large or is
/// malformed.
pub fn replace(listpack: &mut Vec<u8>, index: usize, value: &[u8]) -> bool {
    index < len(listpack) && splice(listpack, index, 1, &[Element::of(value)])
}

/// Removes `count` elements from `index` on, or fewer if there are fewer.
pub fn delete(listpack: &mut Vec<u8>, index: usize, count: usize) {
    splice(listpack, index, count, &[]);
}

/// Adds an element at the front; `false` if the listpack would be too large or is malformed.
pub fn push_front(listpack: &mut Vec<u8>, value: &[u8]) -> bool {
    insert(listpack, 0, value)
}

/// Adds an element at the back; `false` if the listpack would be too large or is malformed.
pub fn push_back(listpack: &mut Vec<u8>, value: &[u8]) -> bool {
    let Some((&END, _)) = listpack.split_last() else { return false };
    let (count, at) = (len(listpack), listpack.len() - 1);
    splice_bytes(listpack, at..at, &[Element::of(value)], count + 1)
}

/// Removes the first element after `read` has seen it.
pub fn pop_front<R>(listpack: &mut Vec<u8>, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
    let seen = iter(listpack).next().map(read)?;
    delete(listpack, 0, 1);
    Some(seen)
}

/// Removes the last element after `read` has seen it.
pub fn pop_back<R>(listpack: &mut Vec<u8>, read: impl FnOnce(Element<'_>) -> R) -> Option<R> {
    let seen = iter(listpack).next_back().map(read)?;
    let last = len(listpack).saturating_sub(1);
    delete(listpack, last, 1);
    Some(seen)
}

/// Replaces `removed` elements from `index` on by `added`; `false` if the listpack would be too large or is
/// malformed.
fn splice(listpack: &mut Vec<u8>, index: usize, removed: usize, added: &[Element<'_>]) -> bool {
    let count = len(listpack);
    let index = index.min(count);
    let removed = removed.min(count - index);
    let row = entries(listpack);
    let offset = |index| if index == count { Some(row.len()) } else { entry::seek(row, count, index) };
    let (Some(from), Some(to)) = (offset(index), offset(index + removed)) else { return false };
    if from > to {
        return false;
    }
    splice_bytes(listpack, HEADER_LEN + from..HEADER_LEN + to, added, count - removed + added.len())
}

fn splice_bytes(
    listpack: &mut Vec<u8>,
    at: std::ops::Range<usize>,
    added: &[Element<'_>],
    count: usize,
) -> bool {
    let more: usize = added.iter().map(|element| entry::len(*element)).sum();
    if listpack.len() < EMPTY_LEN || u32::try_from(listpack.len() + more).is_err() {
        return false;
    }
    // The listpack is extended once, and the new entries are written into the gap.
    let from = at.start;
    listpack.splice(at, std::iter::repeat_n(0, more));
    let mut rest = &mut listpack[from..from + more];
    for element in added {
        let written = entry::write(rest, *element);
        rest = &mut rest[written..];
    }
    set_header(listpack, count);
    true
}

/// Writes the size and the count into the header.
fn set_header(listpack: &mut [u8], count: usize) {
    let size = listpack.len() as u32;
    if let Some(header) = listpack.first_chunk_mut::<HEADER_LEN>() {
        let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
        header[..4].copy_from_slice(&size.to_le_bytes());
        header[4..].copy_from_slice(&count.to_le_bytes());
    }
}

/// Entry point of the fuzzer: reads and changes any bytes as a listpack.
pub fn fuzz_listpack(data: &[u8]) {
    let valid = is_valid(data);
    let forward = iter(data).count();
    assert!(!valid || forward == len(data));
    assert!(!valid || iter(data).rev().count() == forward);
    let (&first, _) = data.split_first().unwrap_or((&0, &[]));
    let index = usize::from(first);
    let seen = get(data, index).is_some();
    assert!(!valid || seen == (index < forward));
    let mut changed = data.to_vec();
    insert(&mut changed, index, &data[..index.min(data.len())]);
    replace(&mut changed, index / 2, b"1234567");
    push_front(&mut changed, b"-4096");
    push_back(&mut changed, b"text");
    delete(&mut changed, index / 3, 2);
    pop_front(&mut changed, |_| ());
    pop_back(&mut changed, |_| ());
    assert!(!valid || is_valid(&changed));
}

#[cfg(test)]
mod tests;
