//! The largest keys, and in a cluster the largest hash slots, found by a scan of all entries in slices.

use sluice_base::crc16::SLOT_COUNT;
use sluice_base::{HashSeed, key_slot, siphash13};
use sluice_keyspace::{Entry, Keyspace, Layout, ValueRef};
use sluice_value::Type;
use std::sync::Arc;

/// Number of keys shown.
pub const KEYS_SHOWN: usize = 20;
/// Number of slots shown.
const SLOTS_SHOWN: usize = 20;
/// Bytes kept of a key's name.
const NAME_BYTES_MAX: usize = 256;
/// The seed by which whole names are hashed. It is fixed, because equal hashes only leave a key out of
/// the list.
const NAME_SEED: HashSeed = HashSeed { k0: 1, k1: 2 };
/// The clock is read after about this many entries. Each entry costs two or three cache misses.
const ENTRIES_AT_ONCE: u64 = 64;

/// One of the largest keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeKey {
    /// Number of the database.
    pub db: usize,
    /// The key's name, or its first 256 bytes.
    pub name: Box<[u8]>,
    /// Whether `name` is only the beginning of the key's name.
    pub is_cut: bool,
    /// Hash of the whole name.
    name_hash: u64,
    /// Bytes of key and value, as MEMORY USAGE answers.
    pub bytes: usize,
    /// Type of the value.
    pub kind: Type,
    /// Number of elements of a collection, or of bytes of a string.
    pub elements: u64,
}

/// The size of a hash slot, over all databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeSlot {
    /// Number of the hash slot.
    pub slot: u16,
    /// Number of keys in the slot.
    pub keys: u64,
    /// Bytes of these keys with their values, as MEMORY USAGE answers.
    pub bytes: u64,
}

/// The sizes of all hash slots, from a complete scan.
#[derive(Clone, Debug, Default)]
pub struct SlotLook {
    /// The slots that have keys, in ascending order.
    pub slots: Arc<[LargeSlot]>,
    /// End of the scan, in seconds since the epoch; 0 if no scan has been completed.
    pub ended_s: i64,
}

/// The scan of all entries, and the largest keys and slots found.
#[derive(Debug, Default)]
pub struct KeyScan {
    db: usize,
    cursor: u64,
    /// Number of entries seen in the current scan.
    seen: u64,
    /// Number of completed scans.
    passes: u64,
    /// The largest keys of the current scan, and of the last complete one; each list begins with the largest.
    so_far: Vec<LargeKey>,
    last: Vec<LargeKey>,
    /// Sizes of all slots in the current scan; empty if keys have no slots, or none has been seen yet.
    slots: Vec<LargeSlot>,
    /// Sizes of all slots from the last complete scan.
    slot_look: SlotLook,
}

/// The largest keys and slots known at present.
#[derive(Clone, Debug, Default)]
pub struct LargestKeys {
    /// The largest keys, largest first.
    pub keys: Vec<LargeKey>,
    /// The largest slots, largest first.
    pub slots: Vec<LargeSlot>,
    /// Number of entries seen in the current scan.
    pub seen: u64,
    /// Whether a scan has been completed, so that the result covers all entries.
    pub is_whole: bool,
}

impl KeyScan {
    /// Scans entries until the end of the scan or until `is_over` returns true, which is called after about
    /// `ENTRIES_AT_ONCE` entries and after each database. `now_s` is in seconds since the epoch.
    pub fn step(&mut self, keyspace: &Keyspace, now_s: i64, mut is_over: impl FnMut() -> bool) {
        loop {
            if self.db >= keyspace.databases() {
                return self.end_pass(now_s);
            }
            self.step_in(keyspace);
            if is_over() {
                return;
            }
        }
    }

    fn step_in(&mut self, keyspace: &Keyspace) {
        let db = keyspace.db(self.db);
        if db.is_empty() {
            return self.enter_next();
        }
        let has_slots = db.hasher().layout() == Layout::PerSlot;
        if has_slots && self.slots.is_empty() {
            self.slots = (0..SLOT_COUNT).map(|slot| LargeSlot { slot, ..LargeSlot::default() }).collect();
        }
        let until = self.seen + ENTRIES_AT_ONCE;
        while self.seen < until {
            let (mut cursor, number) = (self.cursor, self.db);
            cursor = db.scan(cursor, |handle| {
                self.seen += 1;
                let entry = db.entry(handle);
                let bytes = entry.size_bytes();
                if has_slots {
                    self.count_in_slot(entry.key(), bytes);
                }
                self.look_at(number, entry, bytes);
            });
            self.cursor = cursor;
            if cursor == 0 {
                return self.enter_next();
            }
        }
    }

    fn enter_next(&mut self) {
        (self.db, self.cursor) = (self.db + 1, 0);
    }

    fn end_pass(&mut self, now_s: i64) {
        self.last = std::mem::take(&mut self.so_far);
        let slots = self.slots.drain(..).filter(|slot| slot.keys > 0).collect();
        self.slot_look = SlotLook { slots, ended_s: now_s };
        (self.db, self.cursor, self.seen) = (0, 0, 0);
        self.passes += 1;
    }

    fn count_in_slot(&mut self, key: &[u8], bytes: usize) {
        if let Some(slot) = self.slots.get_mut(usize::from(key_slot(key))) {
            slot.keys += 1;
            slot.bytes += bytes as u64;
        }
    }

    /// The largest of these slots, largest first. O(slots).
    fn largest_slots(slots: &[LargeSlot]) -> Vec<LargeSlot> {
        let mut slots: Vec<LargeSlot> = slots.iter().filter(|slot| slot.keys > 0).copied().collect();
        slots.sort_unstable_by_key(|slot| (std::cmp::Reverse(slot.bytes), slot.slot));
        slots.truncate(SLOTS_SHOWN);
        slots
    }

    fn look_at(&mut self, db: usize, entry: Entry<'_>, bytes: usize) {
        let is_full = self.so_far.len() == KEYS_SHOWN;
        if is_full && self.so_far.last().is_some_and(|least| least.bytes >= bytes) {
            return;
        }
        let (name, kind) = (entry.key(), entry.type_of());
        let kept = name.get(..NAME_BYTES_MAX).unwrap_or(name);
        let is_cut = kept.len() < name.len();
        let name_hash = siphash13(NAME_SEED, name);
        // A scan may return an entry twice.
        if self.so_far.iter().any(|key| key.db == db && key.name_hash == name_hash && *key.name == *kept) {
            return;
        }
        let at = self.so_far.partition_point(|key| key.bytes >= bytes);
        let (name, elements) = (kept.into(), elements(entry.value()));
        let key = LargeKey { db, name, is_cut, name_hash, bytes, kind, elements };
        self.so_far.insert(at, key);
        self.so_far.truncate(KEYS_SHOWN);
    }

    /// The sizes of slots from the last complete scan.
    pub fn slot_look(&self) -> SlotLook {
        self.slot_look.clone()
    }

    /// Resets the scan and its results.
    pub fn clear(&mut self) {
        if self.seen > 0 || self.passes > 0 {
            *self = KeyScan::default();
        }
    }

    /// The results of the last complete scan, or of the current one if there is none.
    pub fn found(&self) -> LargestKeys {
        let is_whole = self.passes > 0;
        let (keys, slots) = match is_whole {
            true => (self.last.clone(), KeyScan::largest_slots(&self.slot_look.slots)),
            false => (self.so_far.clone(), KeyScan::largest_slots(&self.slots)),
        };
        LargestKeys { keys, slots, seen: self.seen, is_whole }
    }
}

fn elements(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Str(string) => string.len() as u64,
        ValueRef::List(list) => list.len() as u64,
        ValueRef::Hash(hash) => hash.len() as u64,
        ValueRef::Stream(stream) => stream.log().len(),
        ValueRef::Zset(zset) => zset.len() as u64,
        ValueRef::Set(set) => set.len() as u64,
    }
}
