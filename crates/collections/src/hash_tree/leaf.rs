//! A leaf: some dozens of packed entries, preceded by one byte of each entry's hash, in one piece of memory.
//!
//! ```text
//!  head     │ tags       │ offsets         │ entries                                      │ unused
//!  40 bytes │ room bytes │ room × u16, LE  │ one after the other, in the order of slots   │
//! ```
//!
//! A look-up in a large table waits for memory twice: first for the cache lines from the head to the offsets,
//! which are prefetched together as soon as the leaf is known, and then for the cache line of the entry.
//!
//! | part of an entry | meaning |
//! |---|---|
//! | 1–2 bytes | bit 0: has an expiry; bit 1: long field; higher bits: length or index of the field |
//! | n bytes | the field, unless long |
//! | 8 bytes | the expiry, little endian; only with bit 0 |
//! | 1–2 bytes | bit 0: long value; higher bits: length or index of the value; not in trees of members |
//! | n bytes | the value, unless long |
//!
//! A *long* field or value (more than [`INSIDE_MAX`] bytes) is in the leaf's list of long strings; the entry
//! has only its index.
//!
//! A number of up to 127 takes one byte. A larger number takes two: the low seven bits with the top bit set,
//! then the remaining bits.
//!
//! Invariants: (1) `room` is a multiple of eight, so tags are compared eight at a time; (2) offsets
//! count from the first entry, so they stay the same when slots are added; (3) `earliest`, `volatile`
//! and `bulk_bytes` agree with the entries.

use super::field::{Content, Field, TreeText};
use crate::arch::prefetch;
use sluice_base::{Bytes, heap};
use std::ops::Range;
use triomphe::{Arc, HeaderSlice};

/// Entries with neighbouring hashes. A clone shares them; a writer copies them if they have another owner.
#[derive(Clone, Debug)]
pub(super) struct HashLeaf {
    body: Arc<LeafBody>,
}

type LeafBody = HeaderSlice<LeafHead, [Chunk]>;

/// The unit in which a leaf's memory is counted.
type Chunk = [u8; 8];

#[derive(Clone, Debug)]
struct LeafHead {
    long: Option<Box<Long>>,
    earliest: i64,
    /// Bytes of the fields as bulk strings of the wire protocol, without the long fields,
    /// which `Long::bulk_bytes` counts.
    bulk_bytes: u32,
    /// Bytes in use for tags, offsets and entries.
    used: u16,
    len: u16,
    room: u16,
    volatile: u16,
    content: Content,
}

/// The strings of a leaf with their own allocations; an empty string marks a free index.
#[derive(Clone, Debug, Default)]
struct Long {
    strings: Vec<Bytes>,
    heap: usize,
    /// Bytes of the fields among these strings, as bulk strings.
    bulk_bytes: usize,
}

/// Offsets of an entry's parts, from the beginning of the entry.
#[derive(Clone, Copy)]
struct LeafLayout {
    field: Stored,
    expiry: Option<i64>,
    /// Offset of the number in front of the value.
    value_at: usize,
    value: Stored,
    end: usize,
}

/// A string inside an entry, or the index of a long string.
#[derive(Clone, Copy)]
enum Stored {
    Inside { at: usize, len: usize },
    Long(usize),
}

/// Longest string in bytes that is stored in the leaf; a longer one has its own allocation.
pub(super) const INSIDE_MAX: usize = 512;
/// Number of slots that are added at a time.
const ROOM_STEP: usize = 8;
/// A leaf of at most this many bytes is shrunk whenever a smaller size class suffices.
const SMALL_BYTES: usize = 512;
/// The value of `earliest` where no field expires.
pub(super) const NEVER: i64 = i64::MAX;

impl LeafHead {
    fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Offset of the first entry.
    fn first(&self) -> usize {
        3 * usize::from(self.room)
    }

    fn offset_at(&self, slot: usize) -> usize {
        usize::from(self.room) + 2 * slot
    }

    /// Counts a new field of `len` bytes.
    #[inline]
    fn add_bulk(&mut self, len: usize) {
        match &mut self.long {
            Some(long) if len > INSIDE_MAX => long.bulk_bytes += bulk_len(len),
            _ => self.bulk_bytes += bulk_len(len) as u32,
        }
    }

    /// Subtracts a removed field of `len` bytes.
    #[inline]
    fn subtract_bulk(&mut self, len: usize) {
        match &mut self.long {
            Some(long) if len > INSIDE_MAX => long.bulk_bytes -= bulk_len(len),
            _ => self.bulk_bytes -= bulk_len(len) as u32,
        }
    }
}

/// The chunks of a leaf's old memory, followed by zeroed chunks up to the new number.
struct Copied<'a> {
    from: &'a [Chunk],
    at: usize,
    len: usize,
}

impl Iterator for Copied<'_> {
    type Item = Chunk;

    #[inline]
    fn next(&mut self) -> Option<Chunk> {
        if self.at == self.len {
            return None;
        }
        self.at += 1;
        Some(self.from.get(self.at - 1).copied().unwrap_or([0; 8]))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len - self.at, Some(self.len - self.at))
    }
}

impl ExactSizeIterator for Copied<'_> {}

/// Bytes in front of a leaf's chunks: the count of owners and the head.
const FRONT: usize = size_of::<usize>() + size_of::<LeafHead>();

/// The number of chunks for this many bytes; they fill the allocator's size class.
fn chunks_for(bytes: usize) -> usize {
    (heap::block(FRONT + bytes) - FRONT) / size_of::<Chunk>()
}

impl HashLeaf {
    pub(super) fn new(content: Content) -> HashLeaf {
        HashLeaf::with_room(content, 0, 0)
    }

    /// An empty leaf with `room` slots, and room for `entries` bytes of entries.
    fn with_room(content: Content, room: usize, entries: usize) -> HashLeaf {
        debug_assert!(room.is_multiple_of(ROOM_STEP));
        let room = room as u16;
        let head = LeafHead {
            long: None,
            earliest: NEVER,
            bulk_bytes: 0,
            used: 3 * room,
            len: 0,
            room,
            volatile: 0,
            content,
        };
        let len = chunks_for(usize::from(3 * room) + entries);
        HashLeaf { body: Arc::from_header_and_iter(head, Copied { from: &[], at: 0, len }) }
    }

    /// Whether the leaf has no other owner.
    pub(super) fn is_unique(&self) -> bool {
        self.body.is_unique()
    }

    #[inline]
    fn head(&self) -> &LeafHead {
        &self.body.header
    }

    /// The bytes of tags, offsets and entries.
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.body.slice.as_flattened()[..usize::from(self.head().used)]
    }

    fn capacity(&self) -> usize {
        self.body.slice.as_flattened().len()
    }

    /// The head and all bytes, unused ones included, for writing. A shared leaf is copied first.
    #[inline]
    fn parts(&mut self) -> (&mut LeafHead, &mut [u8]) {
        if !self.is_unique() {
            self.move_to(chunks_for(usize::from(self.head().used)));
        }
        let body = Arc::get_mut(&mut self.body).expect("who has no other owner, or was just made");
        (&mut body.header, body.slice.as_flattened_mut())
    }

    /// Reallocates the leaf with this number of chunks.
    #[inline(never)]
    fn move_to(&mut self, len: usize) {
        let head = match Arc::get_mut(&mut self.body) {
            Some(body) => {
                let head = &mut body.header;
                LeafHead { long: head.long.take(), ..*head }
            }
            None => self.head().clone(),
        };
        let from = &self.body.slice[..usize::from(head.used).div_ceil(size_of::<Chunk>())];
        self.body = Arc::from_header_and_iter(head, Copied { from, at: 0, len });
    }

    /// A leaf of distinct members, each with its hash. Each member is copied only once.
    pub(super) fn of_members<'t>(
        members: impl ExactSizeIterator<Item = (u64, TreeText<'t>)> + Clone,
    ) -> HashLeaf {
        let bytes = members.clone().map(|(_, name)| HashLeaf::entry_len_max(name.bytes().len())).sum();
        let mut leaf =
            HashLeaf::with_room(Content::Members, members.len().next_multiple_of(ROOM_STEP), bytes);
        members.for_each(|(hash, name)| leaf.push(hash, name, TreeText::Bytes(b""), None));
        leaf
    }

    /// The most bytes of the entry of a member of `len` bytes. A long member with a small index takes one
    /// byte less.
    pub(super) fn entry_len_max(len: usize) -> usize {
        if len > INSIDE_MAX { 2 } else { number_len(len << 2) + len }
    }

    pub(super) fn len(&self) -> usize {
        self.head().len()
    }

    pub(super) fn volatile(&self) -> usize {
        usize::from(self.head().volatile)
    }

    pub(super) fn earliest(&self) -> i64 {
        self.head().earliest
    }

    /// Bytes of the entries.
    pub(super) fn entry_bytes(&self) -> usize {
        usize::from(self.head().used) - self.head().first()
    }

    /// Bytes of the fields as bulk strings: `$`, the length, an end of line, the field, an end of line. O(1).
    pub(super) fn bulk_bytes(&self) -> usize {
        let long = self.head().long.as_ref().map_or(0, |long| long.bulk_bytes);
        self.head().bulk_bytes as usize + long
    }

    /// Bytes allocated, the leaf's own included. O(1).
    pub(super) fn heap_bytes(&self) -> usize {
        let long = self.head().long.as_ref();
        let long = long.map_or(0, |long| heap::boxed::<Long>() + heap::vec(&long.strings) + long.heap);
        heap::block(FRONT + self.capacity()) + long
    }

    #[inline]
    fn offset(&self, slot: usize) -> usize {
        let at = self.head().offset_at(slot);
        let bytes = self.bytes();
        usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
    }

    /// Moves the offsets of all entries from a slot on.
    fn move_offsets(&mut self, from: usize, added: usize, removed: usize) {
        let (head, bytes) = self.parts();
        if from >= head.len() {
            return;
        }
        // `step` may be negative, so it is added with wrapping. The new offsets fit in 16 bits, because they
        // are below `used`, which has been checked.
        let step = (added as u16).wrapping_sub(removed as u16);
        let (offsets, _) = bytes[head.offset_at(from)..head.offset_at(head.len())].as_chunks_mut::<2>();
        for offset in offsets {
            *offset = u16::from_le_bytes(*offset).wrapping_add(step).to_le_bytes();
        }
    }

    /// The bytes from the beginning of an entry on.
    #[inline]
    fn entry(&self, slot: usize) -> &[u8] {
        &self.bytes()[self.head().first() + self.offset(slot)..]
    }

    fn layout(&self, slot: usize) -> LeafLayout {
        let bytes = self.entry(slot);
        let (head, mut at) = read_number(bytes, 0);
        let field = stored(head >> 1, at);
        at += field.inside_len();
        let expiry = (head & 1 != 0).then(|| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            i64::from_le_bytes(number)
        });
        at += if expiry.is_some() { 8 } else { 0 };
        let value_at = at;
        let mut value = Stored::Inside { at, len: 0 };
        if self.head().content == Content::Fields {
            let (number, next) = read_number(bytes, at);
            value = stored(number, next);
            at = next + value.inside_len();
        }
        LeafLayout { field, expiry, value_at, value, end: at }
    }

    fn part(&self, slot: usize, stored: Stored) -> TreeText<'_> {
        match stored {
            Stored::Inside { at, len } => TreeText::Bytes(&self.entry(slot)[at..at + len]),
            Stored::Long(index) => {
                let long = self.head().long.as_ref().expect("an entry names a long string of its leaf");
                TreeText::Shared(&long.strings[index])
            }
        }
    }

    /// The name of the field in a slot.
    pub(super) fn name(&self, slot: usize) -> &[u8] {
        let bytes = self.entry(slot);
        let (head, at) = read_number(bytes, 0);
        match stored(head >> 1, at) {
            Stored::Inside { at, len } => &bytes[at..at + len],
            long @ Stored::Long(_) => self.part(slot, long).bytes(),
        }
    }

    /// The field in a slot.
    pub(super) fn get(&self, slot: usize) -> Field<'_> {
        let layout = self.layout(slot);
        Field {
            name: self.part(slot, layout.field),
            value: self.part(slot, layout.value),
            expiry: layout.expiry,
        }
    }

    /// Prefetches head, tags and offsets; to be called before [`HashLeaf::prefetch_entry`].
    #[inline]
    pub(super) fn prefetch(&self) {
        let front = (&raw const self.body.header).cast::<u8>();
        for line in 0..4 {
            prefetch(front.wrapping_add(64 * line));
        }
    }

    /// Prefetches the entry that probably belongs to a field with this hash.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u64) {
        let bytes = self.bytes();
        let (groups, _) = bytes[..usize::from(self.head().room)].as_chunks::<8>();
        for (group, tags) in groups.iter().enumerate() {
            let equal = equal_tags(*tags, hash);
            if equal != 0 {
                let slot = 8 * group + equal.trailing_zeros() as usize / 8;
                let entry = bytes.as_ptr().wrapping_add(self.head().first() + self.offset(slot));
                prefetch(entry);
                prefetch(entry.wrapping_add(64));
                return;
            }
        }
    }

    /// The slot of a field.
    pub(super) fn find(&self, hash: u64, name: &[u8]) -> Option<usize> {
        self.prefetch();
        let (groups, _) = self.bytes()[..usize::from(self.head().room)].as_chunks::<8>();
        for (group, tags) in groups.iter().enumerate() {
            let mut equal = equal_tags(*tags, hash);
            while equal != 0 {
                let slot = 8 * group + equal.trailing_zeros() as usize / 8;
                if slot < self.len() && self.name(slot) == name {
                    return Some(slot);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// The slot of a field that was in `slot` before a few removals.
    pub(super) fn find_near(&self, slot: usize, hash: u64, name: &[u8]) -> Option<usize> {
        if slot < self.len() && self.name(slot) == name { Some(slot) } else { self.find(hash, name) }
    }

    /// Adds an absent field.
    #[inline]
    pub(super) fn push(&mut self, hash: u64, name: TreeText<'_>, value: TreeText<'_>, expiry: Option<i64>) {
        self.push_tagged(tag_of(hash), name, value, expiry);
    }

    fn push_tagged(&mut self, tag: u8, name: TreeText<'_>, value: TreeText<'_>, expiry: Option<i64>) {
        if self.head().len == self.head().room {
            self.add_room();
        }
        let field_len = name.bytes().len();
        let name = self.keep(name);
        let value = if self.head().content == Content::Fields { Some(self.keep(value)) } else { None };
        let name_number = name.header_number() << 1 | usize::from(expiry.is_some());
        let value_len =
            value.as_ref().map_or(0, |value| number_len(value.header_number()) + value.inside().len());
        let expiry_len = if expiry.is_some() { 8 } else { 0 };
        let name_len = number_len(name_number) + name.inside().len();
        self.reserve(name_len + expiry_len + value_len);
        let offset = self.entry_bytes();
        let (head, bytes) = self.parts();
        let (slot, mut at) = (head.len(), usize::from(head.used));
        bytes[slot] = tag;
        let offset_at = head.offset_at(slot);
        bytes[offset_at..offset_at + 2].copy_from_slice(&(offset as u16).to_le_bytes());
        at = put_number(bytes, at, name_number);
        at = put(bytes, at, name.inside());
        if let Some(expires) = expiry {
            at = put(bytes, at, &expires.to_le_bytes());
            head.volatile += 1;
            head.earliest = head.earliest.min(expires);
        }
        if let Some(value) = value {
            at = put_number(bytes, at, value.header_number());
            at = put(bytes, at, value.inside());
        }
        head.len += 1;
        head.used = checked_len(at);
        head.add_bulk(field_len);
    }

    /// Makes room for `more` bytes, rounded up to the allocator's size class.
    fn reserve(&mut self, more: usize) {
        let needed = usize::from(self.head().used) + more;
        if needed > self.capacity() || !self.is_unique() {
            self.move_to(chunks_for(needed));
        }
    }

    /// Frees memory if a third is unused, or, in a small leaf, if a smaller size class suffices.
    fn give_back(&mut self) {
        let (len, capacity) = (usize::from(self.head().used), self.capacity());
        let fits = chunks_for(len);
        let is_less = fits * size_of::<Chunk>() < capacity;
        if is_less && (capacity <= SMALL_BYTES || len + len / 2 < capacity) {
            self.move_to(fits);
        }
    }

    fn add_room(&mut self) {
        self.reserve(3 * ROOM_STEP);
        let (head, bytes) = self.parts();
        let (room, len) = (usize::from(head.room), usize::from(head.used));
        bytes.copy_within(3 * room..len, 3 * (room + ROOM_STEP));
        bytes.copy_within(room..3 * room, room + ROOM_STEP);
        bytes[room..room + ROOM_STEP].fill(0);
        bytes[3 * room + ROOM_STEP..3 * (room + ROOM_STEP)].fill(0);
        head.room += ROOM_STEP as u16;
        head.used = checked_len(len + 3 * ROOM_STEP);
    }

    /// Stores a string, in the list of long strings if it is long; returns the form for the entry.
    fn keep<'a>(&mut self, part: TreeText<'a>) -> Kept<'a> {
        let bytes = match part {
            TreeText::Bytes(bytes) if bytes.len() <= INSIDE_MAX => return Kept::Inside(bytes),
            TreeText::Bytes(bytes) => Bytes::copy_from(bytes),
            TreeText::Shared(bytes) => bytes.clone(),
        };
        let long = self.parts().0.long.get_or_insert_default();
        long.heap += bytes.footprint();
        let free = long.strings.iter().position(|string| string.is_empty());
        let index = free.unwrap_or(long.strings.len());
        match free {
            Some(free) => long.strings[free] = bytes,
            None => long.strings.push(bytes),
        }
        Kept::Long(index)
    }

    /// Moves a long string from the list to `garbage`; does nothing for a string inside the entry.
    fn release(&mut self, stored: Stored, garbage: &mut Vec<Bytes>) {
        let Stored::Long(index) = stored else { return };
        let (head, _) = self.parts();
        if let Some(long) = &mut head.long {
            let bytes = std::mem::take(&mut long.strings[index]);
            long.heap -= bytes.footprint();
            garbage.push(bytes);
            if long.heap == 0 {
                head.long = None;
            }
        }
    }

    /// Changes the length of a part of an entry to `len` bytes; returns the part for writing. `part`
    /// counts from the beginning of the entry.
    fn resize(&mut self, slot: usize, part: Range<usize>, len: usize) -> &mut [u8] {
        let at = self.head().first() + self.offset(slot) + part.start;
        if part.len() != len {
            self.reserve(len.saturating_sub(part.len()));
            let (head, bytes) = self.parts();
            let used = usize::from(head.used);
            bytes.copy_within(at + part.len()..used, at + len);
            head.used = checked_len(used - part.len() + len);
            self.move_offsets(slot + 1, len, part.len());
            self.give_back();
        }
        &mut self.parts().1[at..at + len]
    }

    /// Replaces the value of a slot.
    pub(super) fn set_value(&mut self, slot: usize, value: &[u8], garbage: &mut Vec<Bytes>) {
        let layout = self.layout(slot);
        self.release(layout.value, garbage);
        let kept = self.keep(TreeText::Bytes(value));
        let number_len = number_len(kept.header_number());
        let part = self.resize(slot, layout.value_at..layout.end, number_len + kept.inside().len());
        put_number(part, 0, kept.header_number());
        part[number_len..].copy_from_slice(kept.inside());
    }

    /// Replaces the expiry of a slot.
    pub(super) fn set_expiry(&mut self, slot: usize, expiry: Option<i64>) {
        let layout = self.layout(slot);
        let before = layout.value_at - if layout.expiry.is_some() { 8 } else { 0 };
        match (layout.expiry, expiry) {
            (None, None) => return,
            (Some(_), Some(at)) | (None, Some(at)) => {
                self.resize(slot, before..layout.value_at, 8).copy_from_slice(&at.to_le_bytes());
            }
            (Some(_), None) => {
                self.resize(slot, before..layout.value_at, 0);
            }
        }
        let first = self.head().first() + self.offset(slot);
        let (head, bytes) = self.parts();
        bytes[first] = bytes[first] & !1 | u8::from(expiry.is_some());
        head.volatile = head.volatile + u16::from(expiry.is_some()) - u16::from(layout.expiry.is_some());
        if layout.expiry == Some(head.earliest) {
            self.find_earliest();
        } else {
            head.earliest = head.earliest.min(expiry.unwrap_or(NEVER));
        }
    }

    fn find_earliest(&mut self) {
        let expiries = (0..self.len()).filter_map(|slot| self.layout(slot).expiry);
        let earliest = expiries.min().unwrap_or(NEVER);
        self.parts().0.earliest = earliest;
    }

    pub(super) fn remove(&mut self, slot: usize, garbage: &mut Vec<Bytes>) {
        let layout = self.layout(slot);
        let field_len = self.part(slot, layout.field).bytes().len();
        self.parts().0.subtract_bulk(field_len);
        self.release(layout.field, garbage);
        self.release(layout.value, garbage);
        self.resize(slot, 0..layout.end, 0);
        let (head, bytes) = self.parts();
        let (len, room) = (head.len(), usize::from(head.room));
        bytes.copy_within(slot + 1..len, slot);
        bytes.copy_within(room + 2 * (slot + 1)..room + 2 * len, room + 2 * slot);
        head.len -= 1;
        if layout.expiry.is_some() {
            head.volatile -= 1;
            if layout.expiry == Some(head.earliest) {
                self.find_earliest();
            }
        }
    }

    /// Adds all fields of another leaf.
    pub(super) fn append(&mut self, other: &HashLeaf) {
        (0..other.len()).for_each(|slot| self.push_slot_of(other, slot));
    }

    /// Adds the field in a slot of another leaf.
    fn push_slot_of(&mut self, other: &HashLeaf, slot: usize) {
        let tag = other.bytes()[slot];
        if other.head().long.is_none() && other.head().volatile == 0 {
            self.push_entry(tag, &other.entry(slot)[..other.entry_len(slot)]);
            return;
        }
        let field = other.get(slot);
        self.push_tagged(tag, field.name, field.value, field.expiry);
    }

    /// Adds an entry without an expiry and without long strings.
    fn push_entry(&mut self, tag: u8, entry: &[u8]) {
        if self.head().len == self.head().room {
            self.add_room();
        }
        self.reserve(entry.len());
        let offset = self.entry_bytes();
        let (head, bytes) = self.parts();
        let (slot, at) = (head.len(), usize::from(head.used));
        bytes[slot] = tag;
        let offset_at = head.offset_at(slot);
        bytes[offset_at..offset_at + 2].copy_from_slice(&(offset as u16).to_le_bytes());
        head.len += 1;
        head.used = checked_len(put(bytes, at, entry));
        head.add_bulk(read_number(entry, 0).0 >> 2);
    }

    /// Bytes of the entry in a slot.
    fn entry_len(&self, slot: usize) -> usize {
        let end = if slot + 1 < self.len() { self.offset(slot + 1) } else { self.entry_bytes() };
        end - self.offset(slot)
    }

    /// A new leaf with copies of the fields in the slots for which `belong` returns true.
    pub(super) fn part_of(&self, belong: impl Fn(usize) -> bool) -> HashLeaf {
        let slots = || (0..self.len()).filter(|slot| belong(*slot));
        let (count, bytes) =
            slots().fold((0usize, 0usize), |(count, bytes), slot| (count + 1, bytes + self.entry_len(slot)));
        // The memory for all entries is allocated at once, so that nothing is copied twice.
        let mut part = HashLeaf::with_room(self.head().content, count.next_multiple_of(ROOM_STEP), bytes);
        slots().for_each(|slot| part.push_slot_of(self, slot));
        part
    }

    /// A slot whose expiry is `bound` or earlier.
    pub(super) fn find_expired(&self, bound: i64) -> Option<usize> {
        (0..self.len()).find(|slot| self.layout(*slot).expiry.is_some_and(|at| at <= bound))
    }
}

/// A stored string: inside the entry, or in the list of long strings.
enum Kept<'a> {
    Inside(&'a [u8]),
    Long(usize),
}

impl<'a> Kept<'a> {
    fn inside(&self) -> &'a [u8] {
        match self {
            Kept::Inside(bytes) => bytes,
            Kept::Long(_) => b"",
        }
    }

    fn header_number(&self) -> usize {
        match self {
            Kept::Inside(bytes) => bytes.len() << 1,
            Kept::Long(index) => index << 1 | 1,
        }
    }
}

impl Stored {
    fn inside_len(self) -> usize {
        match self {
            Stored::Inside { len, .. } => len,
            Stored::Long(_) => 0,
        }
    }
}

fn stored(number: usize, at: usize) -> Stored {
    if number & 1 == 0 { Stored::Inside { at, len: number >> 1 } } else { Stored::Long(number >> 1) }
}

/// The number at `at`, and the offset after it.
fn read_number(bytes: &[u8], at: usize) -> (usize, usize) {
    let low = usize::from(bytes[at]);
    if low < 0x80 {
        return (low, at + 1);
    }
    (low & 0x7f | usize::from(bytes[at + 1]) << 7, at + 2)
}

/// Bytes of a bulk string of `len` bytes.
fn bulk_len(len: usize) -> usize {
    let digits = match len {
        0..1000 => 1 + usize::from(len > 9) + usize::from(len > 99),
        _ => len.ilog10() as usize + 1,
    };
    len + digits + 5
}

fn number_len(number: usize) -> usize {
    if number < 0x80 { 1 } else { 2 }
}

/// Writes a number at `at`; returns the offset after it.
fn put_number(bytes: &mut [u8], at: usize, number: usize) -> usize {
    if number < 0x80 {
        bytes[at] = number as u8;
        return at + 1;
    }
    bytes[at] = number as u8 | 0x80;
    bytes[at + 1] = (number >> 7) as u8;
    at + 2
}

/// Writes a string at `at`; returns the offset after it.
fn put(bytes: &mut [u8], at: usize, text: &[u8]) -> usize {
    bytes[at..at + text.len()].copy_from_slice(text);
    at + text.len()
}

/// A length in one leaf. Leaves stay far below the limit, because they are split at 4 KiB.
fn checked_len(len: usize) -> u16 {
    u16::try_from(len).expect("a leaf has less than 64 KiB")
}

/// Sets the top bit of each byte whose tag equals that of `hash`. The byte above such a byte may be
/// marked in error, so the caller compares the names as well.
#[inline(always)]
fn equal_tags(tags: [u8; 8], hash: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let differ = u64::from_le_bytes(tags) ^ (u64::from(tag_of(hash)) * ONES);
    differ.wrapping_sub(ONES) & !differ & (ONES << 7)
}

/// The byte of a hash that distinguishes slots; tree nodes use the top bits instead.
fn tag_of(hash: u64) -> u8 {
    hash as u8
}
