//! The keyspace: databases of keys, and the two handles through which commands reach them.
//!
//! A command gets [`DbRef`] or [`DbMut`], never a table. A look-up through either hides logically expired
//! keys, except with [`ExpiryMode::Ignore`]. A command changes data only through [`DbMut`] (or [`Dataset`],
//! for all databases at once), and its changes are recorded in [`Effects`].
//!
//! Invariants: (1) a command's handler refers to keys by name, never to tables, nor to entries that outlive
//! the handler; (2) except with [`ExpiryMode::Ignore`], no look-up finds a logically expired key; (3) time,
//! access clocks and random numbers are passed in as [`Access`].
#![forbid(unsafe_code)]

mod access;
mod captured;
mod collection;
mod dataset;
mod db;
mod edit;
mod effects;
mod entry;
mod evict;
mod expire;
mod hasher;
mod import_marks;
mod imports;
mod key_filter;
mod key_map;
mod new_value;
mod stream_edit;
mod view;

pub use access::{DbMut, DbRef, SetExpiry, StrEdit};
pub use captured::{Captured, CapturedEntry};
pub use dataset::{Dataset, Keyspace};
pub use db::{ChunkMemory, Compacted, CutState, Db, Entry, Found, ShownKeys};
pub use edit::{Edit, HashEdit, ListEdit, SetEdit, ZsetEdit};
pub use effects::{
    AccessedKey, Argv, Class, Classes, CommandSource, DbChange, Effects, EncodedCommands, Event,
    ExpiredFields, FlushedKeys, KeyAccessLog, KeyRef, LAZY_FREE_BYTES, LazyFreeThreshold, MessageListeners,
    ModifiedKey, PromisedCommands, Propagation,
};
pub use entry::CLOCK_MASK;
pub use evict::{EvictionKeys, EvictionOrder, EvictionPool, EvictionRule};
pub use expire::{ExpireCycle, ExpireOutcome, ExpireWalk};
pub use hasher::{KeyHasher, Layout, slot_of};
pub use import_marks::ImportMarks;
pub use imports::{IMPORT_NAME_LEN, SlotImport};
pub use key_filter::KeyFilter;
pub use key_map::KeyMap;
pub use new_value::NewValue;
pub use stream_edit::StreamEdit;
pub use view::{Str, ValueRef, WrongType};

use sluice_base::Now;
use sluice_value::Encoding;

/// A key with its hash, computed once per command.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The name of the key.
    pub bytes: &'a [u8],
    /// The key's hash by the keyspace's [`KeyHasher`]; holds the key's hash slot if the layout has slots.
    pub hash: u64,
    /// Position of the key in the command's arguments, or [`Key::NO_ARG`].
    pub arg: u16,
}

impl<'a> Key<'a> {
    /// `arg` of a key that is not one of the command's arguments.
    pub const NO_ARG: u16 = u16::MAX;

    /// A key that is not one of the command's arguments.
    #[inline]
    pub fn hashed(bytes: &'a [u8], hasher: KeyHasher) -> Key<'a> {
        Key { bytes, hash: hasher.hash(bytes), arg: Key::NO_ARG }
    }
}

/// Settings under which the running command looks up keys.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Time of the execution unit (a command, a transaction or a script); the same for all its commands.
    pub now: Now,
    /// What a look-up writes into the entry's access clock.
    pub touch: AccessUpdate,
    /// What happens to keys whose expiry has passed.
    pub expiry: ExpiryMode,
    /// Whether the command was accepted elsewhere, because this server's primary or the source of a slot
    /// migration has sent it or because it is read from the AOF. Limits on clients' requests are then not
    /// checked again. An import source counts as a client, although it sees expired keys as the primary does.
    pub must_obey: bool,
}

/// What a look-up writes into an entry's access clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessUpdate {
    /// Nothing is written. This is for a client with CLIENT NO-TOUCH (except in TOUCH), and for the server's
    /// own work.
    No {
        /// The access clock of new entries.
        fresh: u32,
    },
    /// The LRU clock, 24 bits.
    Lru(u32),
    /// Logarithmic frequency: 16 bits for the minutes of the clock, and a counter of 8 bits.
    Lfu {
        /// Present time in minutes, modulo 2^16.
        minutes: u16,
        /// Minutes after which the counter decreases by one: config `lfu-decay-time`; 0 turns decay off.
        decay: u32,
        /// Divisor of the odds of an increment: config `lfu-log-factor`.
        factor: u32,
        /// Random bits that decide whether this access increments the counter.
        dice: u32,
    },
}

/// What happens to keys past their expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryMode {
    /// Expired keys are hidden and deleted.
    Delete,
    /// Expired keys are hidden but stay, because a replica waits until its primary deletes them.
    Hide,
    /// Expired keys are visible. This is for the primary's link, the AOF and an import source.
    Ignore,
}

impl AccessUpdate {
    /// The access clock of a new entry.
    #[inline]
    pub fn fresh(self) -> u32 {
        match self {
            AccessUpdate::No { fresh } => fresh,
            AccessUpdate::Lru(clock) => clock,
            // A new key starts with a counter of 5, so it is not evicted at once.
            AccessUpdate::Lfu { minutes, .. } => u32::from(minutes) << 8 | 5,
        }
    }

    /// The access clock after a look-up of an entry whose clock was `old`.
    #[inline]
    pub fn after(self, old: u32) -> u32 {
        match self {
            AccessUpdate::No { .. } => old,
            AccessUpdate::Lru(clock) => clock,
            AccessUpdate::Lfu { minutes, decay, factor, dice } => {
                let counter = lfu_decayed(old, minutes, decay);
                u32::from(minutes) << 8 | u32::from(lfu_incremented(counter, factor, dice))
            }
        }
    }
}

/// The LFU counter of `clock` after the decay that is due at `minutes`. The counter loses one for each
/// `decay` minutes; with 0 there is no decay.
pub fn lfu_decayed(clock: u32, minutes: u16, decay: u32) -> u8 {
    let elapsed = u32::from(minutes.wrapping_sub((clock >> 8) as u16));
    let periods = elapsed.checked_div(decay).unwrap_or(0);
    ((clock & 255) as u8).saturating_sub(periods.min(255) as u8)
}

/// The counter after one more access, which counts with probability
/// 1 / (max(counter - 5, 0) * factor + 1), up to a counter of 255.
fn lfu_incremented(counter: u8, factor: u32, dice: u32) -> u8 {
    let base = u64::from(counter.saturating_sub(5));
    let odds = base * u64::from(factor) + 1;
    if u64::from(dice) * odds < 1 << 32 { counter.saturating_add(1) } else { counter }
}

/// The encoding that OBJECT ENCODING reports for a string: `embstr` if the reference would keep it with
/// its key in one piece of at most 128 bytes, otherwise `raw`. The piece consists of a header of 9 bytes, the
/// expiry of 8 bytes if there is one, the key with its header of 2 or 4 bytes, and the value with its header
/// of 4 bytes (9.1.2, measured over key lengths 1 to 120).
fn reference_string_encoding(key_len: usize, has_expiry: bool, value_len: usize) -> Encoding {
    let key = key_len + if key_len < 32 { 2 } else { 4 };
    let expiry = if has_expiry { 8 } else { 0 };
    if 9 + expiry + key + value_len + 4 <= 128 { Encoding::Embstr } else { Encoding::Raw }
}
