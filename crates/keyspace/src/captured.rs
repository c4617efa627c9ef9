//! Entries that a cut (one moment of a database, see `db/cut.rs`) has captured, on their way to a
//! formatter: raw copies of their blocks, and shared references to the values outside the blocks. A
//! piece has no other owner, so it may go to another thread.

use crate::ValueRef;
use crate::entry::{self, Head, Name};
use crate::view::value_of;
use sluice_base::heap;
use sluice_value::Value;

/// A piece of one database's contents at a cut.
///
/// ```text
///  bytes   │ head 4 │ length 2 │ body ... │ head 4 │ length 2 │ body ... │
/// ```
pub struct Captured {
    /// The database's number at the cut.
    number: usize,
    bytes: Vec<u8>,
    /// The keys that are too long for their blocks, in the order of their entries.
    keys: Vec<Box<[u8]>>,
    /// The values outside the blocks, in the order of their entries.
    values: Vec<Value>,
    entries: usize,
    copied: usize,
    weight: usize,
}

impl std::fmt::Debug for Captured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Captured")
            .field("number", &self.number)
            .field("entries", &self.entries)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

/// An entry as it was at a cut.
#[derive(Clone, Copy)]
pub struct CapturedEntry<'a> {
    head: Head,
    body: &'a [u8],
    key: &'a [u8],
    value: Option<&'a Value>,
}

impl Captured {
    /// A piece of this weight in bytes is full, and so is a piece with [`Captured::BYTES_FULL`]
    /// bytes of entries.
    pub(crate) const WEIGHT_FULL: usize = 1 << 20;
    pub(crate) const BYTES_FULL: usize = 64 << 10;

    pub(crate) fn new(number: usize) -> Captured {
        let bytes = Vec::with_capacity(Captured::BYTES_FULL + ENTRY_BYTES_MAX);
        Captured { bytes, ..Captured::sparse(number) }
    }

    /// A piece with little memory, for a few entries only.
    pub(crate) fn sparse(number: usize) -> Captured {
        Captured {
            number,
            bytes: Vec::new(),
            keys: Vec::new(),
            values: Vec::new(),
            entries: 0,
            copied: 0,
            weight: 0,
        }
    }

    /// Adds an entry; the result is the number of bytes copied.
    pub(crate) fn push(
        &mut self,
        head: Head,
        body: &[u8],
        key: Option<&[u8]>,
        value: Option<&Value>,
    ) -> usize {
        let mut bytes = BEFORE_BODY + body.len();
        self.bytes.extend_from_slice(&head.0.to_le_bytes());
        self.bytes.extend_from_slice(&(body.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(body);
        if let Some(key) = key {
            bytes += key.len();
            self.keys.push(key.into());
        }
        if let Some(value) = value {
            self.weight += value.heap_bytes();
            self.values.push(value.share());
        }
        self.entries += 1;
        self.copied += bytes;
        self.weight += bytes;
        bytes
    }

    pub(crate) fn is_full(&self) -> bool {
        self.weight >= Captured::WEIGHT_FULL || self.bytes.len() >= Captured::BYTES_FULL
    }

    /// The database's number at the cut.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Number of entries in the piece.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of the entries, and of their keys and values outside as if these were copied. This is
    /// roughly the number of bytes to be written.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Number of bytes copied: everything except the values outside, which are shared.
    pub fn copied_bytes(&self) -> usize {
        self.copied
    }

    /// Bytes of the values that have no other owner left and are therefore freed with the piece. Cost:
    /// one step for each chunk or page of a value that is not shared.
    pub fn own_value_bytes(&self) -> usize {
        self.values.iter().map(Value::own_bytes).sum()
    }

    /// Bytes that the allocator holds for the piece, without the values outside.
    pub fn footprint(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| heap::block(key.len())).sum();
        heap::vec(&self.bytes) + heap::vec(&self.keys) + heap::vec(&self.values) + keys
    }

    /// The entries in the order in which they were captured.
    pub fn iter(&self) -> impl Iterator<Item = CapturedEntry<'_>> {
        let (mut rest, mut keys, mut values) = (&self.bytes[..], self.keys.iter(), self.values.iter());
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<4>()?;
            let (len, behind) = behind.split_first_chunk::<2>()?;
            let (body, behind) = behind.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
            rest = behind;
            let head = Head(u32::from_le_bytes(*head));
            let key = match entry::name_of(body) {
                Name::Inside(key) => key,
                Name::Outside(_) => keys.next()?,
            };
            let value = if head.form().is_outside() { Some(values.next()?) } else { None };
            Some(CapturedEntry { head, body, key, value })
        })
    }
}

impl<'a> CapturedEntry<'a> {
    /// The key's bytes, wherever the key was stored.
    pub fn key(self) -> &'a [u8] {
        self.key
    }

    /// The value at the time of the capture.
    pub fn value(self) -> ValueRef<'a> {
        let outside = || self.value.expect("an entry with a value outside was captured with the value");
        value_of(self.head, self.body, |_| outside())
    }

    /// Expiry, ms since the epoch; `None` if the key does not expire.
    pub fn expiry(self) -> Option<i64> {
        entry::expiry(self.head, self.body)
    }

    /// The access clock when the entry was captured.
    pub fn clock(self) -> u32 {
        self.head.clock()
    }
}

/// Bytes before an entry's body: head and length.
const BEFORE_BODY: usize = 6;
/// Length in bytes of the longest entry.
const ENTRY_BYTES_MAX: usize = BEFORE_BODY + sluice_collections::slab::Slab::MAX_BLOCK;
