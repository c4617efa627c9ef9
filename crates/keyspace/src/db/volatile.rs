//! Which hashes have fields that expire, in the order of their first expiry: the expiry cycle looks at those
//! alone whose time has come.

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
    /// Notes that the first expiry of a key's fields was `before` and is `after`; none where no field
    /// expires, and where the key holds no hash. Cost: O(log n) where the two differ.
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

    /// Whether all of another's are among these; for checks.
    pub(super) fn contains(&self, other: &VolatileKeys) -> bool {
        other.by_expiry.is_subset(&self.by_expiry)
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        self.by_expiry.len()
    }

    /// The keys of fields that have expired before `now_ms`, each with the time; the one that expires first
    /// ahead.
    pub(crate) fn due(&self, now_ms: i64) -> impl Iterator<Item = (i64, &[u8])> {
        self.by_expiry.iter().take_while(move |(at, _)| *at < now_ms).map(|(at, key)| (*at, &**key))
    }

    /// Bytes that the allocator has given.
    pub(super) fn footprint(&self) -> usize {
        heap::tree::<(i64, Box<[u8]>), ()>(self.by_expiry.len()) + self.key_bytes
    }
}

/// The first expiry of a field of a value.
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
