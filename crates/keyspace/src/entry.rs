//! The layout of an entry: one slab block with everything a small key needs.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | head word: bits 0–23 LRU/LFU clock, 24–28 form, 29 has expiry, 30 has slack, 31 free |
//! | 4 | 1 | key length; 255 for a key outside the block |
//! | 5 | k | the key, or the u32 index of a key outside |
//! | 5+k | 8 | expiry, ms since the epoch, little endian; only with bit 29 |
//! | … | n | payload: what the form says |
//! | … | s | slack: unused bytes, with bit 30; the last of them holds their number, 1 to 255 |
//!
//! Invariants: (1) the payload ends where the slack begins, so its length needs no field; (2) a key longer
//! than 254 bytes, and only such a key, is outside; (3) the payload of [`Form::StrInt`] is canonical: parsing
//! the decimal form gives the number back; (4) the form alone decides what the payload is: bytes of the
//! value, or the u32 index of a value outside.

use sluice_collections::slab::Slab;
use sluice_value::{HashEncoding, ListEncoding, SetEncoding, ZsetEncoding};

/// The head word, decoded on the fly.
#[derive(Clone, Copy)]
pub struct Head(pub u32);

/// Type, encoding and location of a value: a number of five bits. Unused numbers are reserved for new types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Form {
    /// A string that is an integer; the payload is a little-endian i64.
    StrInt = 0,
    /// A string's bytes, reported as `embstr` or `raw` by size.
    StrInline = 1,
    /// A string's bytes, reported by OBJECT ENCODING as `raw` at any length, because the string was built in
    /// pieces.
    StrInlineRaw = 2,
    /// A string outside the block; the value knows whether it is in one piece or in pages.
    StrOutside = 3,
    /// A list's bytes, as [`sluice_value::List::write_inline`] writes them, to be reported as a listpack.
    ListInlineListpack = 7,
    /// A list's bytes, to be reported as a quicklist.
    ListInlineQuicklist = 8,
    /// A list outside the block; the list itself knows its encoding.
    ListOutside = 9,
    /// A hash's bytes, as [`sluice_value::Hash::write_inline`] writes them, to be reported as a listpack.
    HashInlineListpack = 10,
    /// A hash's bytes, to be reported as a hash table.
    HashInlineHashtable = 11,
    /// A hash outside the block; the hash itself knows its encoding.
    HashOutside = 12,
    /// A stream, which is always outside the block.
    StreamOutside = 20,
    /// A sorted set's bytes, as [`sluice_value::Zset::write_inline`] writes them, to be reported as a
    /// listpack.
    ZsetInlineListpack = 17,
    /// A sorted set's bytes, to be reported as a skip list.
    ZsetInlineSkiplist = 18,
    /// A sorted set outside the block; the sorted set itself knows its encoding.
    ZsetOutside = 19,
    /// A set's bytes, as [`sluice_value::Set::write_inline`] writes them: an intset.
    SetInlineIntset = 13,
    /// A set's bytes, to be reported as a listpack.
    SetInlineListpack = 14,
    /// A set's bytes, to be reported as a hash table.
    SetInlineHashtable = 15,
    /// A set outside the block; the set itself knows its encoding.
    SetOutside = 16,
    /// A form of no value. `cargo xtask probe` compiles it in to test that every `match` which handles forms
    /// then fails to compile.
    #[cfg(sluice_probe = "form")]
    Probe = 31,
}

impl Form {
    /// The type of the value, and the encoding of a collection inside the block.
    #[inline]
    pub(crate) fn kind(self) -> FormKind {
        match self {
            Form::StrInt | Form::StrInline | Form::StrInlineRaw | Form::StrOutside => FormKind::Str,
            Form::ListInlineListpack => FormKind::List(Some(ListEncoding::Listpack)),
            Form::ListInlineQuicklist => FormKind::List(Some(ListEncoding::Quicklist)),
            Form::ListOutside => FormKind::List(None),
            Form::HashInlineListpack => FormKind::Hash(Some(HashEncoding::Listpack)),
            Form::HashInlineHashtable => FormKind::Hash(Some(HashEncoding::Hashtable)),
            Form::HashOutside => FormKind::Hash(None),
            Form::ZsetInlineListpack => FormKind::Zset(Some(ZsetEncoding::Listpack)),
            Form::ZsetInlineSkiplist => FormKind::Zset(Some(ZsetEncoding::Skiplist)),
            Form::ZsetOutside => FormKind::Zset(None),
            Form::SetInlineIntset => FormKind::Set(Some(SetEncoding::Intset)),
            Form::SetInlineListpack => FormKind::Set(Some(SetEncoding::Listpack)),
            Form::SetInlineHashtable => FormKind::Set(Some(SetEncoding::Hashtable)),
            Form::SetOutside => FormKind::Set(None),
            Form::StreamOutside => FormKind::Stream,
        }
    }

    /// The form of a head word. Panics if no form has the number, because memory is then corrupt.
    #[inline]
    fn of(word: u32) -> Form {
        match word >> FORM_SHIFT & 31 {
            0 => Form::StrInt,
            1 => Form::StrInline,
            2 => Form::StrInlineRaw,
            3 => Form::StrOutside,
            7 => Form::ListInlineListpack,
            8 => Form::ListInlineQuicklist,
            9 => Form::ListOutside,
            10 => Form::HashInlineListpack,
            11 => Form::HashInlineHashtable,
            12 => Form::HashOutside,
            20 => Form::StreamOutside,
            17 => Form::ZsetInlineListpack,
            18 => Form::ZsetInlineSkiplist,
            19 => Form::ZsetOutside,
            13 => Form::SetInlineIntset,
            14 => Form::SetInlineListpack,
            15 => Form::SetInlineHashtable,
            16 => Form::SetOutside,
            number => unknown(number),
        }
    }

    /// Whether the payload is the index of a value outside the block.
    #[inline]
    pub(crate) fn is_outside(self) -> bool {
        match self {
            Form::StrInt | Form::StrInline | Form::StrInlineRaw => false,
            Form::ListInlineListpack | Form::ListInlineQuicklist => false,
            Form::HashInlineListpack
            | Form::HashInlineHashtable
            | Form::ZsetInlineListpack
            | Form::ZsetInlineSkiplist => false,
            Form::SetInlineIntset | Form::SetInlineListpack | Form::SetInlineHashtable => false,
            Form::StrOutside
            | Form::ListOutside
            | Form::HashOutside
            | Form::StreamOutside
            | Form::ZsetOutside
            | Form::SetOutside => true,
        }
    }
}

/// Type of a value, with the encoding of a collection inside the block; `None` for a collection outside the
/// block, because the collection itself knows its encoding.
#[derive(Clone, Copy)]
pub(crate) enum FormKind {
    Str,
    List(Option<ListEncoding>),
    Hash(Option<HashEncoding>),
    Zset(Option<ZsetEncoding>),
    Set(Option<SetEncoding>),
    Stream,
}

/// Mask of the access clock (LRU or LFU) in the head word.
pub const CLOCK_MASK: u32 = (1 << 24) - 1;
const FORM_SHIFT: u32 = 24;
const HAS_EXPIRY: u32 = 1 << 29;
const HAS_SLACK: u32 = 1 << 30;
/// Length in bytes of the longest key inside the block.
pub(crate) const KEY_INSIDE_MAX: usize = 254;
/// Value of the key length byte for a key outside.
const KEY_OUTSIDE: u8 = 255;
/// Bytes before the key: the head word and the key's length.
const BEFORE_KEY: usize = 5;
/// Largest number of slack bytes that a block can record.
pub(crate) const SLACK_MAX: usize = 255;

impl Head {
    /// A head word for a new entry; slack is set when the payload is written.
    #[inline]
    pub fn new(clock: u32, form: Form) -> Head {
        Head(clock & CLOCK_MASK | (form as u32) << FORM_SHIFT)
    }
    #[inline]
    pub fn form(self) -> Form {
        Form::of(self.0)
    }
    /// Whether the entry has this form. Costs one comparison, whereas [`Head::form`] matches the number
    /// against those of all forms.
    #[inline]
    pub(crate) fn is_form(self, form: Form) -> bool {
        self.0 >> FORM_SHIFT & 31 == form as u32
    }
    #[inline]
    pub(crate) fn with_form(self, form: Form) -> Head {
        Head(self.0 & !(31 << FORM_SHIFT) | (form as u32) << FORM_SHIFT)
    }
    #[inline]
    pub(crate) fn has_expiry(self) -> bool {
        self.0 & HAS_EXPIRY != 0
    }
    #[inline]
    pub(crate) fn with_expiry(self, on: bool) -> Head {
        Head(if on { self.0 | HAS_EXPIRY } else { self.0 & !HAS_EXPIRY })
    }
    #[inline]
    fn has_slack(self) -> bool {
        self.0 & HAS_SLACK != 0
    }
    #[inline]
    fn with_slack_mark(self, on: bool) -> Head {
        Head(if on { self.0 | HAS_SLACK } else { self.0 & !HAS_SLACK })
    }
    #[inline]
    pub fn clock(self) -> u32 {
        self.0 & CLOCK_MASK
    }
    #[inline]
    pub(crate) fn with_clock(self, clock: u32) -> Head {
        Head(self.0 & !CLOCK_MASK | clock & CLOCK_MASK)
    }
}

/// A key as it is stored in its block.
#[derive(Clone, Copy)]
pub enum Name<'a> {
    /// The key itself, of at most [`KEY_INSIDE_MAX`] bytes.
    Inside(&'a [u8]),
    /// The index of a key outside the block.
    Outside(u32),
}

impl Name<'_> {
    /// Length in the block, without the length byte.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            Name::Inside(key) => key.len(),
            Name::Outside(_) => 4,
        }
    }

    /// Writes the key, or its index, to the beginning of `body`.
    #[inline]
    pub fn write(self, body: &mut [u8]) {
        match self {
            Name::Inside(key) => {
                debug_assert!(key.len() <= KEY_INSIDE_MAX);
                body[0] = key.len() as u8;
                body[1..1 + key.len()].copy_from_slice(key);
            }
            Name::Outside(index) => {
                body[0] = KEY_OUTSIDE;
                body[1..5].copy_from_slice(&index.to_le_bytes());
            }
        }
    }
}

/// Number of bytes that a key of `key_len` bytes takes in its block, without the length byte.
#[inline]
pub(crate) fn name_len(key_len: usize) -> usize {
    if key_len > KEY_INSIDE_MAX { 4 } else { key_len }
}

/// Bytes of a block with a name of `name` bytes, maybe an expiry, and `payload` bytes.
#[inline]
pub(crate) fn block_len(name: usize, has_expiry: bool, payload: usize) -> usize {
    BEFORE_KEY + name + if has_expiry { 8 } else { 0 } + payload
}

/// Whether a string of `len` bytes and its key fit the largest block used for strings.
#[inline]
pub(crate) fn fits_string(key_len: usize, has_expiry: bool, len: usize) -> bool {
    len <= STRING_BLOCK_MAX && block_len(name_len(key_len), has_expiry, len) <= STRING_BLOCK_MAX
}

/// Largest block of a string, in bytes. A longer string has memory of its own, which grows by doubling and
/// which a snapshot shares. In a block, each APPEND would copy the whole string, and during a snapshot each
/// change would copy it first.
pub(crate) const STRING_BLOCK_MAX: usize = 1024;

/// Whether an entry with this key length and payload fits a slab block.
#[inline]
pub(crate) fn fits_inside(key_len: usize, has_expiry: bool, payload: usize) -> bool {
    payload <= Slab::MAX_BLOCK && block_len(name_len(key_len), has_expiry, payload) <= Slab::MAX_BLOCK
}

/// The key in `body`, the block without its head word.
#[inline]
pub(crate) fn name_of(body: &[u8]) -> Name<'_> {
    let len = body[0];
    if len == KEY_OUTSIDE {
        return Name::Outside(index_of(&body[1..]));
    }
    Name::Inside(&body[1..1 + usize::from(len)])
}

/// Whether the block holds this key inside, which must be at most [`KEY_INSIDE_MAX`] bytes long.
#[inline]
pub(crate) fn is_key(body: &[u8], key: &[u8]) -> bool {
    debug_assert!(key.len() <= KEY_INSIDE_MAX);
    body.first() == Some(&(key.len() as u8)) && body.get(1..1 + key.len()) == Some(key)
}

/// Offset of the first byte after the key.
#[inline]
fn name_end(body: &[u8]) -> usize {
    let len = body[0];
    if len == KEY_OUTSIDE { 5 } else { 1 + usize::from(len) }
}

/// Offset of the payload in `body`.
#[inline]
pub(crate) fn payload_at(head: Head, body: &[u8]) -> usize {
    name_end(body) + if head.has_expiry() { 8 } else { 0 }
}

/// Number of unused bytes at the end of `body`.
#[inline]
pub fn slack(head: Head, body: &[u8]) -> usize {
    if head.has_slack() { body.last().map_or(0, |slack| usize::from(*slack)) } else { 0 }
}

/// The payload in `body`, without slack.
#[inline]
pub fn payload(head: Head, body: &[u8]) -> &[u8] {
    let end = body.len() - slack(head, body);
    &body[payload_at(head, body)..end]
}

/// Marks the bytes of `body` from `end` on as slack; the result is the head word that records it.
#[inline]
pub(crate) fn with_end(head: Head, body: &mut [u8], end: usize) -> Head {
    let slack = body.len() - end;
    debug_assert!(slack <= SLACK_MAX);
    if slack > 0
        && let Some(last) = body.last_mut()
    {
        *last = slack as u8;
    }
    head.with_slack_mark(slack > 0)
}

/// The expiry in ms since the epoch, if the entry has one.
#[inline]
pub fn expiry(head: Head, body: &[u8]) -> Option<i64> {
    if !head.has_expiry() {
        return None;
    }
    let at = name_end(body);
    body.get(at..at + 8)?.try_into().ok().map(i64::from_le_bytes)
}

/// Overwrites the expiry of an entry that has one.
#[inline]
pub(crate) fn write_expiry(head: Head, body: &mut [u8], at_ms: i64) {
    debug_assert!(head.has_expiry());
    let at = name_end(body);
    body[at..at + 8].copy_from_slice(&at_ms.to_le_bytes());
}

/// The integer of a [`Form::StrInt`] payload.
#[inline]
pub(crate) fn int_of(payload: &[u8]) -> i64 {
    payload.first_chunk::<8>().map_or(0, |b| i64::from_le_bytes(*b))
}

/// The index of a key or a value outside.
#[inline]
pub(crate) fn index_of(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(u32::MAX, |b| u32::from_le_bytes(*b))
}

#[cold]
fn unknown(number: u32) -> ! {
    panic!("an entry of form {number}, which does not exist: memory is corrupt")
}

/// Panics because the form and the value have different types, which means that memory is corrupt.
#[cold]
pub(crate) fn corrupt_entry() -> ! {
    panic!("an entry's form and its value are of two types: memory is corrupt")
}

#[cfg(test)]
mod tests;
