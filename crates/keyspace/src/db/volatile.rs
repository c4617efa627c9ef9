//! Hashes with fields that expire, ordered by their first expiry, so the expiry cycle looks only at
//! hashes with expired fields.

use sluice_base::heap;
use sluice_value::Value;
use std::collections::BTreeSet;

/// The hashes with fields that expire.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VolatileKeys {
    /// First expiry of a field, ms since the epoch, and key.
    by_expiry: BTreeSet<(i64, Box<[u8]>)>,
    /// Bytes of the keys, as the allocator rounds them.
    key_bytes: usize,
}

impl VolatileKeys {
    /// Records that the first expiry of a key's fields was `before` and is `after`; `None` if no field
    /// expires or the key holds no hash. Cost: O(log n) if they differ.
    #[inline]
    pub(super) fn change(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) {
        if before != after {
            self.set(key, before, after);
        }
    }

    fn set(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) {
        if let Some(at) = before
            && self.by_expiry.remove(&(at, key.into()))
        {
            self.key_bytes -= heap::block(key.len());
        }
        if let Some(at) = after
            && self.by_expiry.insert((at, key.into()))
        {
            self.key_bytes += heap::block(key.len());
        }
    }

    /// Whether this list contains all of `other`; for checks.
    pub(super) fn contains(&self, other: &VolatileKeys) -> bool {
        other.by_expiry.is_subset(&self.by_expiry)
    }

    /// Number of hashes in the list.
    pub(super) fn len(&self) -> usize {
        self.by_expiry.len()
    }

    /// The keys whose first field expired before `now_ms`, each with that time, in order of the time.
    pub(crate) fn due(&self, now_ms: i64) -> impl Iterator<Item = (i64, &[u8])> {
        self.by_expiry.iter().take_while(move |(at, _)| *at < now_ms).map(|(at, key)| (*at, &**key))
    }

    /// Bytes that the allocator has given.
    pub(super) fn footprint(&self) -> usize {
        heap::tree::<(i64, Box<[u8]>), ()>(self.by_expiry.len()) + self.key_bytes
    }
}

/// Earliest expiry of a field of a value, in ms; `None` if no field expires.
pub(super) fn earliest_in(value: &Value) -> Option<i64> {
    match value {
        Value::Hash(hash) => hash.view().earliest(),
        Value::Str(_)
        | Value::Pages(_)
        | Value::List(_)
        | Value::Stream(_)
        | Value::Zset(_)
        | Value::Set(_) => None,
    }
}
