//! A leaf: some dozens of packed entries with a byte of each one's hash in front.
//!
//! ```text
//!  tags       │ offsets         │ entries
//!  room bytes │ room × u16, LE  │ one behind the other, in the order of the slots
//! ```
//!
//! | part of an entry | meaning |
//! |---|---|
//! | 1–2 bytes | bit 0: has an expiry; bit 1: the field is long; above: length of the field, or its index among the long strings |
//! | n bytes | the field, unless long |
//! | 8 bytes | the expiry, little endian; only with bit 0 |
//! | 1–2 bytes | bit 0: the value is long; above: length of the value, or its index; absent from trees of members |
//! | n bytes | the value, unless long |
//!
//! A number of up to 127 takes one byte, others two: the low seven bits with the top bit set, then the rest.
//!
//! Invariants: (1) `room` is a multiple of eight, so tags are compared eight at a time; (2) offsets count
//! from the first entry, so that the room for slots grows without a change of them; (3) `earliest` and
//! `volatile` agree with the entries.

use super::field::{Content, Field, TreeText};
use crate::arch::prefetch;
use sluice_base::{Bytes, heap};

/// Some entries whose hashes are neighbours.
#[derive(Clone, Debug)]
pub(super) struct HashLeaf {
    bytes: Vec<u8>,
    long: Option<Box<Long>>,
    earliest: i64,
    len: u16,
    room: u16,
    volatile: u16,
    content: Content,
}

/// The strings of a leaf that have memory of their own; an empty one is a free slot.
#[derive(Clone, Debug, Default)]
struct Long {
    strings: Vec<Bytes>,
    heap: usize,
}

/// Where the parts of an entry are, from its beginning.
#[derive(Clone, Copy)]
struct LeafLayout {
    field: Stored,
    expiry: Option<i64>,
    /// Where the number in front of the value is.
    value_at: usize,
    value: Stored,
    end: usize,
}

/// A string in an entry, or the index of a long one.
#[derive(Clone, Copy)]
enum Stored {
    Inside { at: usize, len: usize },
    Long(usize),
}

/// Strings of more bytes have memory of their own.
pub(super) const INSIDE_MAX: usize = 512;
/// Slots are added so many at a time.
const ROOM_STEP: usize = 8;
/// A leaf of up to so many bytes has no room that it does not need.
const SMALL_BYTES: usize = 512;
/// What `earliest` is where no field expires.
pub(super) const NEVER: i64 = i64::MAX;

impl HashLeaf {
    pub(super) fn new(content: Content) -> HashLeaf {
        HashLeaf { bytes: Vec::new(), long: None, earliest: NEVER, len: 0, room: 0, volatile: 0, content }
    }

    /// A leaf of members that differ, each with its hash. No memory is copied twice.
    pub(super) fn of_members<'t>(
        members: impl ExactSizeIterator<Item = (u64, TreeText<'t>)> + Clone,
    ) -> HashLeaf {
        let mut leaf = HashLeaf::new(Content::Members);
        let bytes = members.clone().map(|(_, name)| HashLeaf::entry_len_max(name.bytes().len())).sum();
        leaf.make_room(members.len().next_multiple_of(ROOM_STEP), bytes);
        members.for_each(|(hash, name)| leaf.push(hash, name, TreeText::Bytes(b""), None));
        leaf
    }

    /// Bytes of the entry of a member of so many bytes; a byte more where the member has memory of its own
    /// and a small index.
    pub(super) fn entry_len_max(len: usize) -> usize {
        if len > INSIDE_MAX { 2 } else { number_len(len << 2) + len }
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn volatile(&self) -> usize {
        usize::from(self.volatile)
    }

    pub(super) fn earliest(&self) -> i64 {
        self.earliest
    }

    /// Bytes of the entries.
    pub(super) fn entry_bytes(&self) -> usize {
        self.bytes.len() - self.first()
    }

    /// Bytes allocated, the leaf's own included. O(1).
    pub(super) fn heap_bytes(&self) -> usize {
        let long =
            self.long.as_ref().map_or(0, |long| heap::boxed::<Long>() + heap::vec(&long.strings) + long.heap);
        heap::block(size_of::<usize>() + size_of::<HashLeaf>()) + heap::vec(&self.bytes) + long
    }

    /// Where the first entry is.
    fn first(&self) -> usize {
        3 * usize::from(self.room)
    }

    fn offset_at(&self, slot: usize) -> usize {
        usize::from(self.room) + 2 * slot
    }

    fn offset(&self, slot: usize) -> usize {
        let at = self.offset_at(slot);
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn set_offset(&mut self, slot: usize, offset: usize) {
        let at = self.offset_at(slot);
        let offset = u16::try_from(offset).expect("entries of one leaf have less than 64 KiB");
        self.bytes[at..at + 2].copy_from_slice(&offset.to_le_bytes());
    }

    /// Moves the entries' offsets from a slot on.
    fn move_offsets(&mut self, from: usize, added: usize, removed: usize) {
        let Some(last) = self.len().checked_sub(1).filter(|last| *last >= from) else { return };
        // Offsets ascend: where the last one fits, all do, and the loop below needs no check of its own.
        let moved = self.offset(last) + added - removed;
        assert!(u16::try_from(moved).is_ok(), "entries of one leaf have less than 64 KiB");
        let step = (added as u16).wrapping_sub(removed as u16);
        let range = self.offset_at(from)..self.offset_at(last + 1);
        let (offsets, _) = self.bytes[range].as_chunks_mut::<2>();
        for offset in offsets {
            *offset = u16::from_le_bytes(*offset).wrapping_add(step).to_le_bytes();
        }
    }

    /// The bytes from the beginning of an entry on.
    fn entry(&self, slot: usize) -> &[u8] {
        &self.bytes[self.first() + self.offset(slot)..]
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
        if self.content == Content::Fields {
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
                let long = self.long.as_ref().expect("an entry names a long string of its leaf");
                TreeText::Shared(&long.strings[index])
            }
        }
    }

    /// The field of a slot.
    pub(super) fn name(&self, slot: usize) -> &[u8] {
        let bytes = self.entry(slot);
        let (head, at) = read_number(bytes, 0);
        match stored(head >> 1, at) {
            Stored::Inside { at, len } => &bytes[at..at + len],
            long @ Stored::Long(_) => self.part(slot, long).bytes(),
        }
    }

    /// All that a slot holds.
    pub(super) fn get(&self, slot: usize) -> Field<'_> {
        let layout = self.layout(slot);
        Field {
            name: self.part(slot, layout.field),
            value: self.part(slot, layout.value),
            expiry: layout.expiry,
        }
    }

    /// Asks the processor for the leaf itself, ahead of [`HashLeaf::prefetch_tags`].
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(self);
        // The fields behind the count of owners may begin a line later.
        prefetch(&raw const self.content);
    }

    /// Asks the processor for tags and offsets, ahead of [`HashLeaf::prefetch_entry`].
    #[inline]
    pub(super) fn prefetch_tags(&self) {
        let tags = self.bytes.as_ptr();
        prefetch(tags);
        prefetch(tags.wrapping_add(64));
        prefetch(tags.wrapping_add(128));
    }

    /// Asks the processor for the entry that a field with this hash probably has.
    #[inline]
    pub(super) fn prefetch_entry(&self, hash: u64) {
        let (groups, _) = self.bytes[..usize::from(self.room)].as_chunks::<8>();
        for (group, tags) in groups.iter().enumerate() {
            let equal = equal_tags(*tags, hash);
            if equal != 0 {
                let slot = 8 * group + equal.trailing_zeros() as usize / 8;
                let entry = self.bytes.as_ptr().wrapping_add(self.first() + self.offset(slot));
                prefetch(entry);
                prefetch(entry.wrapping_add(64));
                return;
            }
        }
    }

    /// The slot of a field.
    pub(super) fn find(&self, hash: u64, name: &[u8]) -> Option<usize> {
        // The offsets are on their way while the tags are compared.
        if let Some(offsets) = self.bytes.get(usize::from(self.room)..) {
            prefetch(offsets.as_ptr());
            prefetch(offsets[offsets.len().min(64)..].as_ptr());
        }
        let (groups, _) = self.bytes[..usize::from(self.room)].as_chunks::<8>();
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

    /// The slot of a field that had this one a few removals ago.
    pub(super) fn find_near(&self, slot: usize, hash: u64, name: &[u8]) -> Option<usize> {
        if slot < self.len() && self.name(slot) == name { Some(slot) } else { self.find(hash, name) }
    }

    /// Adds a field that is absent.
    pub(super) fn push(&mut self, hash: u64, name: TreeText<'_>, value: TreeText<'_>, expiry: Option<i64>) {
        if self.len == self.room {
            self.add_room();
        }
        let slot = self.len();
        let offset = self.entry_bytes();
        self.bytes[slot] = tag_of(hash);
        self.set_offset(slot, offset);
        self.len += 1;
        let name = self.keep(name);
        let value = if self.content == Content::Fields { Some(self.keep(value)) } else { None };
        let name_len = name.header_number() << 1;
        let value_len =
            value.as_ref().map_or(0, |value| number_len(value.header_number()) + value.inside().len());
        let expiry_len = if expiry.is_some() { 8 } else { 0 };
        self.reserve(number_len(name_len) + name.inside().len() + expiry_len + value_len);
        put_number(&mut self.bytes, name_len | usize::from(expiry.is_some()));
        self.bytes.extend_from_slice(name.inside());
        if let Some(at) = expiry {
            self.bytes.extend_from_slice(&at.to_le_bytes());
            self.volatile += 1;
            self.earliest = self.earliest.min(at);
        }
        if let Some(value) = value {
            put_number(&mut self.bytes, value.header_number());
            self.bytes.extend_from_slice(value.inside());
        }
    }

    /// Makes room for more bytes: exactly what the allocator gives for them.
    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            self.bytes.reserve_exact(heap::block(needed) - self.bytes.len());
        }
    }

    /// Gives memory back where a third is unused, and of a few hundred bytes whatever the allocator takes.
    fn give_back(&mut self) {
        let (len, capacity) = (self.bytes.len(), self.bytes.capacity());
        let fits = heap::block(len);
        if fits < capacity && (capacity <= SMALL_BYTES || len + len / 2 < capacity) {
            self.bytes.shrink_to(fits);
        }
    }

    fn add_room(&mut self) {
        self.reserve(3 * ROOM_STEP);
        let room = usize::from(self.room);
        let len = self.bytes.len();
        self.bytes.resize(len + 3 * ROOM_STEP, 0);
        self.bytes.copy_within(3 * room..len, 3 * (room + ROOM_STEP));
        self.bytes.copy_within(room..3 * room, room + ROOM_STEP);
        self.bytes[room..room + ROOM_STEP].fill(0);
        self.bytes[3 * room + ROOM_STEP..3 * (room + ROOM_STEP)].fill(0);
        self.room += ROOM_STEP as u16;
    }

    /// Gives an empty leaf its slots, and room for so many bytes of entries.
    fn make_room(&mut self, room: usize, entries: usize) {
        debug_assert!(self.bytes.is_empty() && room.is_multiple_of(ROOM_STEP));
        self.bytes.reserve_exact(heap::block(3 * room + entries));
        self.bytes.resize(3 * room, 0);
        self.room = room as u16;
    }

    /// Gives a long string a slot; hands back what the entry says of a string.
    fn keep<'a>(&mut self, part: TreeText<'a>) -> Kept<'a> {
        let bytes = match part {
            TreeText::Bytes(bytes) if bytes.len() <= INSIDE_MAX => return Kept::Inside(bytes),
            TreeText::Bytes(bytes) => Bytes::copy_from(bytes),
            TreeText::Shared(bytes) => bytes.clone(),
        };
        let long = self.long.get_or_insert_default();
        long.heap += bytes.footprint();
        let free = long.strings.iter().position(|string| string.is_empty());
        let index = free.unwrap_or(long.strings.len());
        match free {
            Some(free) => long.strings[free] = bytes,
            None => long.strings.push(bytes),
        }
        Kept::Long(index)
    }

    /// Takes a long string out of its slot.
    fn release(&mut self, stored: Stored, garbage: &mut Vec<Bytes>) {
        if let (Stored::Long(index), Some(long)) = (stored, &mut self.long) {
            let bytes = std::mem::take(&mut long.strings[index]);
            long.heap -= bytes.footprint();
            garbage.push(bytes);
            if long.heap == 0 {
                self.long = None;
            }
        }
    }

    /// Replaces a part of an entry, counted from its beginning.
    fn splice(&mut self, slot: usize, part: std::ops::Range<usize>, with: &[u8]) {
        let at = self.first() + self.offset(slot);
        let range = at + part.start..at + part.end;
        if part.len() == with.len() {
            self.bytes[range].copy_from_slice(with);
            return;
        }
        self.reserve(with.len().saturating_sub(part.len()));
        let (removed, added) = (part.len(), with.len());
        self.bytes.splice(range, with.iter().copied());
        self.move_offsets(slot + 1, added, removed);
        self.give_back();
    }

    /// Replaces the value of a slot.
    pub(super) fn set_value(&mut self, slot: usize, value: &[u8], garbage: &mut Vec<Bytes>) {
        let layout = self.layout(slot);
        self.release(layout.value, garbage);
        let kept = self.keep(TreeText::Bytes(value));
        let inside = kept.inside();
        // In place where the length stays: what counters and fixed records do.
        if let Stored::Inside { at, len } = layout.value
            && matches!(kept, Kept::Inside(_))
            && inside.len() == len
        {
            self.splice(slot, at..at + len, inside);
            return;
        }
        let mut head = Vec::with_capacity(2 + inside.len());
        put_number(&mut head, kept.header_number());
        head.extend_from_slice(inside);
        self.splice(slot, layout.value_at..layout.end, &head);
    }

    /// Replaces the expiry of a slot.
    pub(super) fn set_expiry(&mut self, slot: usize, expiry: Option<i64>) {
        let layout = self.layout(slot);
        match (layout.expiry, expiry) {
            (None, None) => return,
            (Some(_), Some(at)) => {
                self.splice(slot, layout.value_at - 8..layout.value_at, &at.to_le_bytes());
            }
            (None, Some(at)) => {
                self.splice(slot, layout.value_at..layout.value_at, &at.to_le_bytes());
                self.volatile += 1;
            }
            (Some(_), None) => {
                self.splice(slot, layout.value_at - 8..layout.value_at, &[]);
                self.volatile -= 1;
            }
        }
        let first = self.first() + self.offset(slot);
        self.bytes[first] = self.bytes[first] & !1 | u8::from(expiry.is_some());
        if layout.expiry == Some(self.earliest) {
            self.find_earliest();
        } else {
            self.earliest = self.earliest.min(expiry.unwrap_or(NEVER));
        }
    }

    fn find_earliest(&mut self) {
        let expiries = (0..self.len()).filter_map(|slot| self.layout(slot).expiry);
        self.earliest = expiries.min().unwrap_or(NEVER);
    }

    /// Removes a slot.
    pub(super) fn remove(&mut self, slot: usize, garbage: &mut Vec<Bytes>) {
        let layout = self.layout(slot);
        self.release(layout.field, garbage);
        self.release(layout.value, garbage);
        self.splice(slot, 0..layout.end, &[]);
        let (len, room) = (self.len(), usize::from(self.room));
        self.bytes.copy_within(slot + 1..len, slot);
        self.bytes.copy_within(room + 2 * (slot + 1)..room + 2 * len, room + 2 * slot);
        self.len -= 1;
        if layout.expiry.is_some() {
            self.volatile -= 1;
            if layout.expiry == Some(self.earliest) {
                self.find_earliest();
            }
        }
        self.give_back();
    }

    /// Adds what another leaf holds. `hash_of` gives the hash of a field.
    pub(super) fn append(&mut self, other: &HashLeaf, hash_of: impl Fn(&[u8]) -> u64) {
        for slot in 0..other.len() {
            let field = other.get(slot);
            self.push(hash_of(field.name.bytes()), field.name, field.value, field.expiry);
        }
    }

    /// A leaf with the slots that, by their numbers and hashes, `belong`, out of this one.
    pub(super) fn part_of(&self, hashes: &[u64], belong: impl Fn(usize, u64) -> bool) -> HashLeaf {
        let mut part = HashLeaf::new(self.content);
        let slots = || hashes.iter().enumerate().filter(|(slot, hash)| belong(*slot, **hash));
        let (count, bytes) = slots()
            .fold((0usize, 0usize), |(count, bytes), (slot, _)| (count + 1, bytes + self.layout(slot).end));
        // At once, so that nothing is copied twice.
        part.make_room(count.next_multiple_of(ROOM_STEP), bytes);
        for (slot, hash) in slots() {
            let field = self.get(slot);
            part.push(*hash, field.name, field.value, field.expiry);
        }
        part
    }

    /// A slot whose expiry is `bound` or earlier.
    pub(super) fn find_expired(&self, bound: i64) -> Option<usize> {
        (0..self.len()).find(|slot| self.layout(*slot).expiry.is_some_and(|at| at <= bound))
    }
}

/// A string that has its location: in the entry, or among the long ones.
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

/// The number at `at`, and where it ends.
fn read_number(bytes: &[u8], at: usize) -> (usize, usize) {
    let low = usize::from(bytes[at]);
    if low < 0x80 {
        return (low, at + 1);
    }
    (low & 0x7f | usize::from(bytes[at + 1]) << 7, at + 2)
}

fn number_len(number: usize) -> usize {
    if number < 0x80 { 1 } else { 2 }
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    if number < 0x80 {
        out.push(number as u8);
    } else {
        out.push(number as u8 | 0x80);
        out.push((number >> 7) as u8);
    }
}

/// The top bit of each tag that is the hash's, and now and then of one above it: the name decides.
#[inline(always)]
fn equal_tags(tags: [u8; 8], hash: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let differ = u64::from_le_bytes(tags) ^ (u64::from(tag_of(hash)) * ONES);
    differ.wrapping_sub(ONES) & !differ & (ONES << 7)
}

/// The byte of a hash by which slots are told apart: tree nodes tell by the top bits.
fn tag_of(hash: u64) -> u8 {
    hash as u8
}
