//! A packed hash: fields and values alternate in a row of listpack entries, and several owners can share the
//! row.

use std::collections::HashSet;

use sluice_base::heap;
use sluice_collections::listpack::{Element, entry};
use triomphe::Arc;

use super::field::HashField;
use crate::ListItem;

#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    row: Arc<Vec<u8>>,
    len: usize,
}

/// A packed hash for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedRef<'a> {
    row: &'a [u8],
    len: usize,
}

/// Offsets of a field's name and value in a row, and of their end.
struct PairRange {
    start: usize,
    value_at: usize,
    end: usize,
}

/// A field's name, for the check that no name occurs twice.
#[derive(PartialEq, Eq, Hash)]
enum FieldName<'a> {
    Int(i64),
    Bytes(&'a [u8]),
}

/// Length in bytes of the header in front of the row of an inline hash. The header holds the number of
/// fields.
pub(super) const INLINE_HEADER_LEN: usize = 2;

impl<'a> PackedRef<'a> {
    pub(super) fn of_inline(bytes: &'a [u8]) -> PackedRef<'a> {
        match bytes.split_first_chunk::<INLINE_HEADER_LEN>() {
            Some((len, row)) => PackedRef { row, len: usize::from(u16::from_le_bytes(*len)) },
            None => PackedRef { row: &[], len: 0 },
        }
    }

    pub(super) fn len(self) -> usize {
        self.len
    }

    pub(super) fn row(self) -> &'a [u8] {
        self.row
    }

    pub(super) fn iter(self) -> PackedIter<'a> {
        PackedIter(entry::Iter::new(self.row))
    }

    fn find(self, name: &[u8]) -> Option<PairRange> {
        let wanted = Element::of(name);
        let mut at = 0;
        while at < self.row.len() {
            let (found, len) = entry::read(&self.row[at..])?;
            let value_at = at + len;
            let (_, value_len) = entry::read(self.row.get(value_at..)?)?;
            let end = value_at + value_len;
            if found == wanted {
                return Some(PairRange { start: at, value_at, end });
            }
            at = end;
        }
        None
    }

    pub(super) fn get(self, name: &[u8]) -> Option<HashField<'a>> {
        let pair = self.find(name)?;
        PackedIter(entry::Iter::new(&self.row[pair.start..pair.end])).next()
    }
}

/// The fields of a row.
#[derive(Clone, Debug)]
pub(super) struct PackedIter<'a>(entry::Iter<'a>);

impl<'a> Iterator for PackedIter<'a> {
    type Item = HashField<'a>;

    fn next(&mut self) -> Option<HashField<'a>> {
        let (name, value) = (self.0.next()?, self.0.next()?);
        Some(HashField { name: item(name), value: item(value), expiry: None })
    }
}

fn item(element: Element<'_>) -> ListItem<'_> {
    match element {
        Element::Int(number) => ListItem::Int(number),
        Element::Bytes(bytes) => ListItem::Bytes(bytes),
    }
}

impl Packed {
    /// A packed hash made of a row of well-formed entries; `None` if the last field has no value or a field
    /// occurs twice.
    pub(super) fn checked(row: &[u8]) -> Option<Packed> {
        let mut elements = entry::Iter::new(row);
        let mut names = HashSet::new();
        let mut len = 0;
        while let Some(name) = elements.next() {
            elements.next()?;
            let is_new = match name {
                Element::Int(number) => names.insert(FieldName::Int(number)),
                // The name is compared in its canonical form, because a row that another program wrote
                // may hold the digits of an integer as a string.
                Element::Bytes(bytes) => names.insert(match Element::of(bytes) {
                    Element::Int(number) => FieldName::Int(number),
                    Element::Bytes(bytes) => FieldName::Bytes(bytes),
                }),
            };
            if !is_new {
                return None;
            }
            len += 1;
        }
        Some(Packed { row: Arc::new(row.to_vec()), len })
    }

    pub(super) fn view(&self) -> PackedRef<'_> {
        PackedRef { row: &self.row, len: self.len }
    }

    pub(super) fn row(&self) -> &[u8] {
        &self.row
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_shared(&self) -> bool {
        !self.row.is_unique()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        heap::block(size_of::<usize>() + size_of::<Vec<u8>>()) + heap::vec(&self.row)
    }

    /// Replaces the contents, and reuses the memory if it has one owner.
    pub(super) fn load(&mut self, source: PackedRef<'_>) {
        match Arc::get_mut(&mut self.row) {
            Some(row) => {
                row.clear();
                row.extend_from_slice(source.row);
            }
            None => self.row = Arc::new(source.row.to_vec()),
        }
        self.len = source.len;
    }

    pub(super) fn write_inline(&self, out: &mut [u8]) {
        let (header, row) = out.split_at_mut(INLINE_HEADER_LEN);
        header.copy_from_slice(&(self.len as u16).to_le_bytes());
        row.copy_from_slice(&self.row);
    }

    /// Replaces a range of the row by the entries of these elements.
    fn splice(&mut self, range: std::ops::Range<usize>, elements: &[Element<'_>]) {
        let more: usize = elements.iter().map(|element| entry::len(*element)).sum();
        let row = Arc::make_mut(&mut self.row);
        let needed = row.len() + more;
        if needed > row.capacity() {
            // Reserves a quarter more than needed, so that most additions of a field do not copy the row.
            row.reserve_exact(heap::block(needed + needed / 4) - row.len());
        }
        let start = range.start;
        if range.len() == more {
            // The length stays the same, as when a counter changes, so the bytes are overwritten in place.
        } else {
            row.splice(range, std::iter::repeat_n(0, more));
        }
        let mut rest = &mut row[start..start + more];
        for element in elements {
            let written = entry::write(rest, *element);
            rest = &mut rest[written..];
        }
    }

    /// Sets the value of a field; returns whether the field is new.
    pub(super) fn set(&mut self, name: &[u8], value: &[u8]) -> bool {
        let value = Element::of(value);
        match self.view().find(name) {
            Some(pair) => {
                self.splice(pair.value_at..pair.end, &[value]);
                false
            }
            None => {
                let end = self.row.len();
                self.splice(end..end, &[Element::of(name), value]);
                self.len += 1;
                true
            }
        }
    }

    /// Removes a field; returns whether it existed.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(pair) = self.view().find(name) else { return false };
        self.splice(pair.start..pair.end, &[]);
        self.len -= 1;
        true
    }
}
