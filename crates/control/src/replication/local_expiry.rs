//! Expiry of what clients have written on a writable replica.
//!
//! A replica deletes no key that has expired: its primary's deletion comes. For keys that clients of the
//! replica itself gave an expiry no deletion may ever come, so these are remembered and the cron deletes them
//! when they have expired.
//!
//! Invariants: (1) a key is remembered when a client's command leaves it with an expiry on a server that has
//! a primary; (2) a key that has no expiry any more, or is gone, is forgotten when the cron meets it; (3)
//! nothing is remembered behind an emptied data set, a load, or the end of the role.

use sluice_keyspace::KeyMap;

/// The keys, and how far the cron is.
#[derive(Debug, Default)]
pub struct LocalExpiries {
    keys: KeyMap<()>,
    /// The last key that the cron has met; it goes on behind.
    met: Option<(usize, Box<[u8]>)>,
}

impl LocalExpiries {
    /// Number of keys.
    #[inline]
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Remembers a key.
    pub fn add(&mut self, db: usize, name: &[u8]) {
        self.keys.entry(db, name);
    }

    /// Forgets a key.
    pub fn remove(&mut self, db: usize, name: &[u8]) {
        self.keys.remove(db, name);
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        *self = LocalExpiries::default();
    }

    /// Bytes that the allocator has given. O(keys).
    pub fn footprint(&self) -> usize {
        let met = self.met.as_ref().map_or(0, |(_, key)| sluice_base::heap::block(key.len()));
        self.keys.footprint() + met
    }

    /// The next key, from the first on behind the last. O(log n).
    pub fn next_key(&mut self) -> Option<(usize, Box<[u8]>)> {
        let behind = self.met.take();
        let next = behind.and_then(|(db, key)| self.keys.behind(db, &key)).or_else(|| self.keys.first());
        self.met.clone_from(&next);
        next
    }
}
