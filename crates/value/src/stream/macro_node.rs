//! A macro node: consecutive entries of a stream in one row of bytes.
//!
//! The distribution of entries to nodes, and the bytes of each node's listpack in files, equal the
//! reference's, because clients can see which entries approximate trimming removes. The row itself is
//! denser than a listpack:
//!
//! | part | bytes |
//! |---|---|
//! | fields of the first entry | each as an element |
//! | of each entry: flags | one byte, see below |
//! | milliseconds, sequence number | LEB128, where the flags say so |
//! | fields and values | their number (LEB128) and each field before its value, or the values alone |
//!
//! Bits of the flags: 0 the entry is deleted; 1 it has the fields of the first entry; 2 its sequence number
//! is the expected one; 3–7 the milliseconds since the previous entry, or 31 if these follow as a number.
//!
//! An element is a listpack entry without the length at its end. The expected sequence number is the next one
//! in the same millisecond, and 0 in another millisecond. A different sequence number is written as its
//! distance from the expected one.
//!
//! Invariants: (1) ids ascend strictly; (2) `first` and `start` belong to the first entry that is not
//! deleted, and such an entry exists; (3) deleted entries stay in the node, are marked, and count towards its
//! size, as in the reference.

use super::StreamId;
use sluice_base::heap;
use sluice_collections::listpack::{self, Element, entry};

const DELETED: u8 = 1;
const SAME_FIELDS: u8 = 2;
const SEQ_EXPECTED: u8 = 4;
const MS_SHIFT: u32 = 3;
/// The value of the flags' bits for milliseconds if these follow as a number of their own.
const MS_APART: u8 = 31;

/// A node of the stream, whose entries are in one row of bytes.
#[derive(Clone, Debug)]
pub(super) struct MacroNode {
    /// The id of the first entry that the node ever had, which is the node's key.
    pub master: StreamId,
    /// The id of the last entry, deleted or not.
    pub last: StreamId,
    /// The id of the first entry that is not deleted.
    pub first: StreamId,
    start: u32,
    /// Entries that are not deleted.
    pub live: u32,
    /// Entries that are marked as deleted and still take room.
    pub deleted: u32,
    /// Number of fields of the first entry.
    fields: u32,
    /// Offset of the first entry in `row`.
    entries_at: u32,
    /// Bytes of the node's listpack, without those of the two counts.
    wire: u32,
    row: Vec<u8>,
}

/// The position of an entry in a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPosition {
    pub id: StreamId,
    /// Offset of the entry's flags.
    at: usize,
    /// Offset of the first field or value.
    body: usize,
    /// Offset of the next entry.
    end: usize,
    flags: u8,
    pub pairs: usize,
}

impl EntryPosition {
    pub(super) fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    pub(super) fn has_same_fields(&self) -> bool {
        self.flags & SAME_FIELDS != 0
    }
}

impl MacroNode {
    /// An empty node with the fields of its first entry; `pairs` are the fields and values of
    /// that entry, alternating.
    pub(super) fn new<'v>(master: StreamId, pairs: impl Iterator<Item = &'v [u8]>) -> MacroNode {
        MacroNode::with_fields(master, pairs.step_by(2).map(Element::of))
    }

    /// A node with these fields.
    pub(super) fn with_fields<'v>(master: StreamId, fields: impl Iterator<Item = Element<'v>>) -> MacroNode {
        let (mut row, mut count, mut wire) = (Vec::new(), 0, 0);
        for field in fields {
            push_element(&mut row, field);
            wire += entry::len(field);
            count += 1;
        }
        wire += listpack::EMPTY_LEN + int_len(i64::from(count)) + int_len(0);
        let entries_at = row.len() as u32;
        MacroNode {
            master,
            last: before(master),
            first: StreamId::MAX,
            start: 0,
            live: 0,
            deleted: 0,
            fields: count,
            entries_at,
            wire: wire as u32,
            row,
        }
    }

    /// Bytes allocated outside of the struct.
    pub(super) fn heap_bytes(&self) -> usize {
        heap::vec(&self.row)
    }

    /// Bytes of the node as a listpack.
    pub(super) fn wire_len(&self) -> usize {
        self.wire as usize + int_len(i64::from(self.live)) + int_len(i64::from(self.deleted))
    }

    /// Frees the room for more entries.
    pub(super) fn fit(&mut self) {
        if heap::block(self.row.len()) < heap::vec(&self.row) {
            self.row.shrink_to_fit();
        }
    }

    /// The fields of the first entry.
    pub(super) fn fields(&self) -> impl Iterator<Item = Element<'_>> {
        RowElements { row: &self.row[..self.entries_at as usize] }
    }

    fn are_fields<'v>(&self, pairs: impl Iterator<Item = &'v [u8]>) -> bool {
        let mut own = self.fields();
        let mut given = pairs.step_by(2);
        loop {
            match (own.next(), given.next()) {
                (None, None) => return true,
                (Some(own), Some(given)) if own == Element::of(given) => {}
                (Some(_), Some(_)) | (Some(_), None) | (None, Some(_)) => return false,
            }
        }
    }

    /// Appends an entry: fields and values alternating.
    pub(super) fn append<'v>(&mut self, id: StreamId, pairs: impl Iterator<Item = &'v [u8]> + Clone) {
        let same = self.are_fields(pairs.clone());
        let at = self.begin_entry(id, same, false);
        if same {
            let mut count = 0;
            for value in pairs.skip(1).step_by(2) {
                self.add(Element::of(value));
                count += 1;
            }
            self.end_entry(id, at, true, count);
        } else {
            let count = pairs.clone().count() / 2;
            push_varint(&mut self.row, count as u64);
            pairs.for_each(|element| self.add(Element::of(element)));
            self.end_entry(id, at, false, count);
        }
    }

    /// Appends an entry that was read from a file: values only, or fields and values alternating.
    pub(super) fn append_elements<'v>(
        &mut self,
        id: StreamId,
        (same, is_deleted): (bool, bool),
        pairs: usize,
        elements: impl Iterator<Item = Element<'v>>,
    ) {
        let at = self.begin_entry(id, same, is_deleted);
        if !same {
            push_varint(&mut self.row, pairs as u64);
        }
        elements.for_each(|element| self.add(element));
        if is_deleted {
            self.count_wire(id, same, pairs);
            self.deleted += 1;
            self.last = id;
        } else {
            self.end_entry(id, at, same, pairs);
        }
    }

    #[inline]
    fn add(&mut self, element: Element<'_>) {
        push_element(&mut self.row, element);
        self.wire += entry::len(element) as u32;
    }

    /// Writes the header of an entry and returns its offset.
    fn begin_entry(&mut self, id: StreamId, same: bool, is_deleted: bool) -> usize {
        let at = self.row.len();
        let ms = id.ms - self.last.ms;
        let expected = if ms == 0 { self.last.seq.wrapping_add(1) } else { 0 };
        let mut flags = if same { SAME_FIELDS } else { 0 } | if is_deleted { DELETED } else { 0 };
        if id.seq == expected {
            flags |= SEQ_EXPECTED;
        }
        let small = if ms < u64::from(MS_APART) { ms as u8 } else { MS_APART };
        self.row.push(flags | small << MS_SHIFT);
        if small == MS_APART {
            push_varint(&mut self.row, ms);
        }
        if id.seq != expected {
            push_varint(&mut self.row, id.seq.wrapping_sub(expected));
        }
        at
    }

    fn end_entry(&mut self, id: StreamId, at: usize, same: bool, pairs: usize) {
        self.count_wire(id, same, pairs);
        if self.live == 0 {
            (self.first, self.start) = (id, at as u32);
        }
        self.live += 1;
        self.last = id;
    }

    /// Counts the bytes that a listpack holds for an entry in addition to its elements.
    fn count_wire(&mut self, id: StreamId, same: bool, pairs: usize) {
        let parts = wire_parts(same, pairs);
        let ms = id.ms.wrapping_sub(self.master.ms) as i64;
        let seq = id.seq.wrapping_sub(self.master.seq) as i64;
        let number = if same { 0 } else { int_len(pairs as i64) };
        self.wire += (int_len(0) + int_len(ms) + int_len(seq) + number + int_len(parts)) as u32;
    }

    /// Reads the entry at an offset. `before` is the id of the previous entry. For the first entry that is
    /// not deleted, `before` does not matter, because the node stores that entry's id.
    fn read(&self, at: usize, before: StreamId) -> Option<EntryPosition> {
        let mut rest = self.row.get(at..)?;
        let (&flags, tail) = rest.split_first()?;
        rest = tail;
        let ms = match flags >> MS_SHIFT {
            MS_APART => read_varint(&mut rest)?,
            small => u64::from(small),
        };
        let expected = if ms == 0 { before.seq.wrapping_add(1) } else { 0 };
        let distance = if flags & SEQ_EXPECTED != 0 { 0 } else { read_varint(&mut rest)? };
        let seq = expected.wrapping_add(distance);
        let mut id = StreamId { ms: before.ms.wrapping_add(ms), seq };
        if at == self.start as usize && self.live > 0 {
            id = self.first;
        }
        let (pairs, elements) = if flags & SAME_FIELDS != 0 {
            (self.fields as usize, self.fields as usize)
        } else {
            let pairs = read_varint(&mut rest)? as usize;
            (pairs, pairs.saturating_mul(2))
        };
        let body = self.row.len() - rest.len();
        for _ in 0..elements {
            let (_, len) = entry::read_body(rest)?;
            rest = &rest[len..];
        }
        Some(EntryPosition { id, at, body, end: self.row.len() - rest.len(), flags, pairs })
    }

    /// The positions of entries, from the first entry that is not deleted on; deleted entries after it are
    /// included.
    pub(super) fn positions(&self) -> EntryPositions<'_> {
        EntryPositions { node: self, at: self.start as usize, before: StreamId::MIN }
    }

    /// Positions of all entries, from the beginning of the node on.
    pub(super) fn all_positions(&self) -> EntryPositions<'_> {
        // The id of the node's first entry was encoded relative to this id.
        EntryPositions { node: self, at: self.entries_at as usize, before: before(self.master) }
    }

    /// The elements of an entry: fields and values alternating, or only the values if the entry has
    /// the node's fields.
    pub(super) fn elements(&self, position: EntryPosition) -> impl Iterator<Item = Element<'_>> {
        RowElements { row: &self.row[position.body..position.end] }
    }

    /// Fields and values of an entry.
    pub(super) fn pairs(&self, position: EntryPosition) -> EntryPairs<'_> {
        let own = RowElements { row: &self.row[position.body..position.end] };
        let fields =
            position.has_same_fields().then(|| RowElements { row: &self.row[..self.entries_at as usize] });
        EntryPairs { fields, own }
    }

    /// Whether the node has an entry, not deleted, with this id or a greater one.
    pub(super) fn reaches(&self, id: StreamId) -> bool {
        self.last >= id && self.positions().any(|position| position.id >= id && !position.is_deleted())
    }

    /// The entry of this id, if it exists and is not deleted.
    pub(super) fn find(&self, id: StreamId) -> Option<EntryPosition> {
        if id < self.first || id > self.last {
            return None;
        }
        let position = self.positions().find(|position| position.id >= id)?;
        (position.id == id && !position.is_deleted()).then_some(position)
    }

    /// Marks an entry as deleted. The caller drops a node without live entries.
    pub(super) fn delete(&mut self, position: EntryPosition) {
        self.row[position.at] |= DELETED;
        self.live -= 1;
        self.deleted += 1;
        if position.at != self.start as usize || self.live == 0 {
            return;
        }
        let next = EntryPositions { node: self, at: position.end, before: position.id }
            .find(|next| !next.is_deleted());
        if let Some(next) = next {
            (self.first, self.start) = (next.id, next.at as u32);
        }
    }

    /// Writes the node as a listpack into `out`, whose old contents are replaced. `row` is a buffer.
    pub(super) fn write_listpack(&self, row: &mut Vec<u8>, out: &mut Vec<u8>) {
        row.clear();
        row.reserve(self.wire_len());
        let mut count = 0;
        let mut push = |row: &mut Vec<u8>, element| {
            let at = row.len();
            row.resize(at + entry::len(element), 0);
            entry::write(&mut row[at..], element);
            count += 1;
        };
        let int = |number: u64| Element::Int(number as i64);
        push(row, int(u64::from(self.live)));
        push(row, int(u64::from(self.deleted)));
        push(row, int(u64::from(self.fields)));
        self.fields().for_each(|field| push(row, field));
        push(row, int(0));
        for position in self.all_positions() {
            let same = position.has_same_fields();
            let flags = if position.is_deleted() { 1 } else { 0 } | if same { 2 } else { 0 };
            push(row, int(flags));
            push(row, int(position.id.ms.wrapping_sub(self.master.ms)));
            push(row, int(position.id.seq.wrapping_sub(self.master.seq)));
            if !same {
                push(row, int(position.pairs as u64));
            }
            self.elements(position).for_each(|element| push(row, element));
            push(row, Element::Int(wire_parts(same, position.pairs)));
        }
        listpack::of_row(row, count, out);
        debug_assert_eq!(out.len(), self.wire_len());
    }
}

/// The id after which the id `master` would have the expected sequence number.
fn before(master: StreamId) -> StreamId {
    StreamId { ms: master.ms, seq: master.seq.wrapping_sub(1) }
}

/// Number of an entry's listpack elements before the last one, which states this number.
fn wire_parts(same: bool, pairs: usize) -> i64 {
    let elements = if same { pairs } else { 2 * pairs + 1 };
    elements as i64 + 3
}

fn int_len(number: i64) -> usize {
    entry::len(Element::Int(number))
}

#[inline]
fn push_element(row: &mut Vec<u8>, element: Element<'_>) {
    match element {
        Element::Bytes(bytes) if bytes.len() < 64 => {
            row.push(0x80 | bytes.len() as u8);
            row.extend_from_slice(bytes);
        }
        Element::Bytes(_) | Element::Int(_) => {
            let at = row.len();
            row.resize(at + entry::body_len(element), 0);
            entry::write_body(&mut row[at..], element);
        }
    }
}

#[inline]
fn push_varint(row: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        row.push(value as u8 | 0x80);
        value >>= 7;
    }
    row.push(value as u8);
}

#[inline]
fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

/// The entries of a node from an offset on.
pub(super) struct EntryPositions<'a> {
    node: &'a MacroNode,
    at: usize,
    before: StreamId,
}

impl Iterator for EntryPositions<'_> {
    type Item = EntryPosition;

    #[inline]
    fn next(&mut self) -> Option<EntryPosition> {
        let position = self.node.read(self.at, self.before)?;
        (self.at, self.before) = (position.end, position.id);
        Some(position)
    }
}

#[derive(Clone, Debug)]
struct RowElements<'a> {
    row: &'a [u8],
}

impl<'a> Iterator for RowElements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (element, len) = entry::read_body(self.row)?;
        self.row = &self.row[len..];
        Some(element)
    }
}

/// Iterator over fields with their values.
#[derive(Clone, Debug)]
pub struct EntryPairs<'a> {
    fields: Option<RowElements<'a>>,
    own: RowElements<'a>,
}

impl<'a> Iterator for EntryPairs<'a> {
    type Item = (Element<'a>, Element<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let field = match &mut self.fields {
            Some(fields) => fields.next(),
            None => self.own.next(),
        }?;
        Some((field, self.own.next()?))
    }
}
