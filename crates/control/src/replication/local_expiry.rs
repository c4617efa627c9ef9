//! Expiry of keys that clients have written on a writable replica.
//!
//! A replica does not delete expired keys, because its primary sends the deletions. But the primary may never
//! send a deletion for a key to which a client of the replica gave an expiry. So these keys are remembered,
//! and the cron deletes them once they have expired.
//!
//! Invariants: (1) a key is remembered when a client's command leaves it with an expiry on a server that has
//! a primary; (2) a key that no longer has an expiry, or no longer exists, is forgotten when the cron reaches
//! it; (3) no key stays remembered after the data is emptied, after a load, or after the end of the role.

use sluice_keyspace::KeyMap;

/// The remembered keys, and the position of the cron.
#[derive(Debug, Default)]
pub struct LocalExpiries {
    keys: KeyMap<()>,
    /// The last key that the cron has checked; the next check continues after it.
    met: Option<(usize, Box<[u8]>)>,
}

impl LocalExpiries {
    /// Number of remembered keys.
    #[inline]
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Remembers a key that a client has given an expiry.
    pub fn add(&mut self, db: usize, name: &[u8]) {
        self.keys.entry(db, name);
    }

    /// Forgets a key; no effect for an unknown one.
    pub fn remove(&mut self, db: usize, name: &[u8]) {
        self.keys.remove(db, name);
    }

    /// Forgets all keys, and the position of the cron.
    pub fn clear(&mut self) {
        *self = LocalExpiries::default();
    }

    /// Bytes of heap memory that the remembered keys take. O(keys).
    pub fn footprint(&self) -> usize {
        let met = self.met.as_ref().map_or(0, |(_, key)| sluice_base::heap::block(key.len()));
        self.keys.footprint() + met
    }

    /// The key after the last one that was checked; after the end, the first key again. O(log n).
    pub fn next_key(&mut self) -> Option<(usize, Box<[u8]>)> {
        let behind = self.met.take();
        let next = behind.and_then(|(db, key)| self.keys.behind(db, &key)).or_else(|| self.keys.first());
        self.met.clone_from(&next);
        next
    }
}
