//! The layout of an entry: one slab block with everything a small key needs.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | head word: bits 0–23 access clock, 24–26 slack, 27–28 kind, 29 has expiry, 30 key outside, 31 raw |
//! | 4 | 1 | key length (0 when the key is outside) |
//! | 5 | k | key |
//! | 5+k | 8 | expiry, ms since the epoch, little endian; only with bit 29 |
//! | … | n | payload: bytes of the string, an i64, or the u32 index of a [`Large`] |
//!
//! Invariants: (1) `slack` is the number of unused bytes at the end, so the payload's length needs no field: below 8, but
//! up to 11 in the smallest block, where kind 3 stands for `Inline` with 8 to be added; (2) a key longer than 255 bytes, and only such a key, is outside, in the entry's [`Large`]; (3) the payload
//! of kind `Int` is canonical: parsing the decimal form gives it back.

use sluice_collections::slab::Slab;
use sluice_value::Value;

/// What an entry keeps outside its block.
#[derive(Debug)]
pub struct Large {
    /// The key, when it is longer than 255 bytes.
    pub key: Option<Box<[u8]>>,
    /// The value.
    pub value: Value,
}

/// The head word, decoded on the fly.
#[derive(Clone, Copy)]
pub struct Head(pub u32);

/// Kind of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The string's bytes.
    Inline,
    /// A little-endian i64.
    Int,
    /// A little-endian u32: index of a [`Large`].
    Large,
}

/// Bits of the access clock (LRU or LFU).
pub const CLOCK_MASK: u32 = (1 << 24) - 1;
const SLACK_SHIFT: u32 = 24;
const KIND_SHIFT: u32 = 27;
/// Kind bits of an inline string with a slack of 8 or more: a key of at most two bytes with a value as short.
const ROOMY: u32 = 3;
const HAS_EXPIRY: u32 = 1 << 29;
const KEY_OUTSIDE: u32 = 1 << 30;
const RAW: u32 = 1 << 31;
/// Longest key kept in the block.
pub const KEY_INSIDE_MAX: usize = 255;
/// Bytes before the key: the head word and the key's length.
const BEFORE_KEY: usize = 5;

impl Head {
    /// A head word for an entry of this shape; slack is set when the payload is written.
    pub fn new(clock: u32, kind: Kind) -> Head {
        Head(clock & CLOCK_MASK).with_kind(kind)
    }
    #[inline]
    pub fn slack(self) -> usize {
        let more = if self.0 >> KIND_SHIFT & 3 == ROOMY { 8 } else { 0 };
        (self.0 >> SLACK_SHIFT & 7) as usize + more
    }
    /// Sets the slack; 8 and above for kind `Inline` only, whose other blocks are never that empty.
    #[inline]
    pub fn with_slack(self, slack: usize) -> Head {
        debug_assert!(slack < 8 || slack < 16 && self.kind() == Kind::Inline);
        let cleared = self.with_kind(self.kind()).0 & !(7 << SLACK_SHIFT);
        let roomy = if slack < 8 { 0 } else { ROOMY << KIND_SHIFT };
        Head(cleared | roomy | (slack as u32 & 7) << SLACK_SHIFT)
    }
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 >> KIND_SHIFT & 3 {
            0 | ROOMY => Kind::Inline,
            1 => Kind::Int,
            _ => Kind::Large,
        }
    }
    #[inline]
    pub fn with_kind(self, kind: Kind) -> Head {
        Head(self.0 & !(3 << KIND_SHIFT) | (kind as u32) << KIND_SHIFT)
    }
    #[inline]
    pub fn has_expiry(self) -> bool {
        self.0 & HAS_EXPIRY != 0
    }
    pub fn with_expiry(self, on: bool) -> Head {
        Head(if on { self.0 | HAS_EXPIRY } else { self.0 & !HAS_EXPIRY })
    }
    #[inline]
    pub fn key_outside(self) -> bool {
        self.0 & KEY_OUTSIDE != 0
    }
    pub fn with_key_outside(self, on: bool) -> Head {
        Head(if on { self.0 | KEY_OUTSIDE } else { self.0 & !KEY_OUTSIDE })
    }
    /// The string was built by pieces: OBJECT ENCODING says `raw` whatever its length.
    pub fn is_raw(self) -> bool {
        self.0 & RAW != 0
    }
    #[inline]
    pub fn with_raw(self, on: bool) -> Head {
        Head(if on { self.0 | RAW } else { self.0 & !RAW })
    }
    #[inline]
    pub fn clock(self) -> u32 {
        self.0 & CLOCK_MASK
    }
    #[inline]
    pub fn with_clock(self, clock: u32) -> Head {
        Head(self.0 & !CLOCK_MASK | clock & CLOCK_MASK)
    }
}

/// Bytes of a block with a key of `key_len` inside, maybe an expiry, and `payload` bytes.
#[inline]
pub fn block_len(key_inside: usize, has_expiry: bool, payload: usize) -> usize {
    BEFORE_KEY + key_inside + if has_expiry { 8 } else { 0 } + payload
}

/// Whether an entry with that key and payload fits a slab block.
#[inline]
pub fn fits_inline(key_len: usize, has_expiry: bool, payload: usize) -> bool {
    key_len <= KEY_INSIDE_MAX
        && payload <= Slab::MAX_BLOCK
        && block_len(key_len, has_expiry, payload) <= Slab::MAX_BLOCK
}

/// The key inside `body` (the block without its head word).
#[inline]
pub fn key_of(body: &[u8]) -> &[u8] {
    let len = body[0] as usize;
    &body[1..1 + len]
}

/// Where the payload of `body` begins.
#[inline]
pub fn payload_at(head: Head, body: &[u8]) -> usize {
    1 + body[0] as usize + if head.has_expiry() { 8 } else { 0 }
}

/// The payload's bytes.
#[inline]
pub fn payload(head: Head, body: &[u8]) -> &[u8] {
    let end = body.len() - head.slack();
    &body[payload_at(head, body)..end]
}

/// The expiry in ms since the epoch, if the entry has one.
#[inline]
pub fn expiry(head: Head, body: &[u8]) -> Option<i64> {
    if !head.has_expiry() {
        return None;
    }
    let at = 1 + body[0] as usize;
    body.get(at..at + 8)?.try_into().ok().map(i64::from_le_bytes)
}

/// Overwrites the expiry of an entry that has one.
pub fn write_expiry(head: Head, body: &mut [u8], at_ms: i64) {
    debug_assert!(head.has_expiry());
    let at = 1 + body[0] as usize;
    body[at..at + 8].copy_from_slice(&at_ms.to_le_bytes());
}

/// The integer of an `Int` payload.
#[inline]
pub fn int_of(payload: &[u8]) -> i64 {
    payload.first_chunk::<8>().map_or(0, |b| i64::from_le_bytes(*b))
}

/// The index of a `Large` payload.
#[inline]
pub fn index_of(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(u32::MAX, |b| u32::from_le_bytes(*b))
}
