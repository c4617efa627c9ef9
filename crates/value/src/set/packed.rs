//! A packed set: its members are in a row of listpack entries, which several owners can share.

use std::collections::HashSet;

use sluice_base::heap;
use sluice_collections::listpack::{Element, entry};
use triomphe::Arc;

#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    row: Arc<Vec<u8>>,
    len: usize,
}

/// A packed set for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedRef<'a> {
    row: &'a [u8],
    len: usize,
}

/// Length in bytes of the header in front of the row of an inline set. The header has the number of members.
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

    pub(super) fn iter(self) -> entry::Iter<'a> {
        entry::Iter::new(self.row)
    }

    pub(super) fn contains(self, member: &[u8]) -> bool {
        self.find(member).is_some()
    }

    /// The range of a member's entry in the row.
    fn find(self, member: &[u8]) -> Option<std::ops::Range<usize>> {
        let wanted = Element::of(member);
        let mut at = 0;
        while let Some((found, len)) = self.row.get(at..).and_then(entry::read) {
            if found == wanted {
                return Some(at..at + len);
            }
            at += len;
        }
        None
    }
}

/// The form in which members are stored. It may differ from `element`, because a row that another program
/// wrote may hold the digits of an integer as a string.
fn canonical(element: Element<'_>) -> Element<'_> {
    match element {
        Element::Int(_) => element,
        Element::Bytes(bytes) => Element::of(bytes),
    }
}

impl Packed {
    /// A packed set made of a row of well-formed entries, with each member in its canonical form; `None` if a
    /// member occurs twice.
    pub(super) fn checked(row: &[u8]) -> Option<Packed> {
        let (mut numbers, mut strings) = (HashSet::new(), HashSet::new());
        let mut packed = Packed::default();
        for element in entry::Iter::new(row).map(canonical) {
            let is_new = match element {
                Element::Int(number) => numbers.insert(number),
                Element::Bytes(bytes) => strings.insert(bytes),
            };
            if !is_new {
                return None;
            }
            packed.push_element(element);
        }
        Some(packed)
    }

    /// A packed set of these distinct integers.
    pub(super) fn of_ints(ints: impl Iterator<Item = i64>) -> Packed {
        let mut packed = Packed::default();
        ints.for_each(|number| packed.push_element(Element::Int(number)));
        packed
    }

    pub(super) fn view(&self) -> PackedRef<'_> {
        PackedRef { row: &self.row, len: self.len }
    }

    pub(super) fn row(&self) -> &[u8] {
        &self.row
    }

    /// The row with its spare capacity.
    pub(super) fn vec(&self) -> &Vec<u8> {
        &self.row
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_shared(&self) -> bool {
        !self.row.is_unique()
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

    /// Adds a member that is absent.
    pub(super) fn push(&mut self, member: &[u8]) {
        self.push_element(Element::of(member));
    }

    fn push_element(&mut self, element: Element<'_>) {
        let row = Arc::make_mut(&mut self.row);
        let (start, more) = (row.len(), entry::len(element));
        let needed = start + more;
        if needed > row.capacity() {
            // Reserves a quarter more than needed, so that most additions of a member do not copy the row.
            row.reserve_exact(heap::block(needed + needed / 4) - start);
        }
        row.resize(needed, 0);
        entry::write(&mut row[start..], element);
        self.len += 1;
    }

    /// Removes a member; returns whether it existed.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(range) = self.view().find(member) else { return false };
        Arc::make_mut(&mut self.row).drain(range);
        self.len -= 1;
        true
    }
}
