//! Hashes with fields that expire, ordered by their first expiry, so that the expiry cycle looks only at
//! hashes with expired fields.

use sluice_base::heap;
use sluice_value::Value;
use std::collections::BTreeSet;
use std::ops::Bound;

/// First expiry of a field, ms since the epoch, and the hash's key.
pub(super) type FirstExpiry = (i64, Box<[u8]>);

/// The hashes with fields that expire; hashes of detached slots stay in the list until they are freed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VolatileKeys {
    by_expiry: BTreeSet<FirstExpiry>,
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

    /// The hashes whose first field expired before `now_ms`, in order of that time; if `position` is
    /// given, only the hashes after it.
    pub(super) fn due(
        &self,
        position: Option<&FirstExpiry>,
        now_ms: i64,
    ) -> impl Iterator<Item = &FirstExpiry> {
        let from = position.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_expiry.range((from, Bound::Unbounded)).take_while(move |(at, _)| *at < now_ms)
    }

    /// Heap bytes of the list, as the allocator rounds them.
    pub(super) fn footprint(&self) -> usize {
        heap::tree::<FirstExpiry, ()>(self.by_expiry.len()) + self.key_bytes
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
