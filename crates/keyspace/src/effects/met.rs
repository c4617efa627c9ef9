//! The keys that a command meets, recorded for the check that a command declares its keys.
//!
//! Invariants: (1) a build without debug assertions has no list and records nothing; (2) between commands the
//! list is empty.

use crate::Key;

/// A key that a command has looked up by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetKey {
    /// Database.
    pub db: usize,
    /// Key.
    pub key: Box<[u8]>,
    /// Whether the command has changed the key. A deletion of a key that had expired is no change by the
    /// command.
    pub is_written: bool,
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct MetKeys {
    #[cfg(debug_assertions)]
    is_on: bool,
    #[cfg(debug_assertions)]
    keys: Vec<MetKey>,
}

impl MetKeys {
    #[cfg(debug_assertions)]
    pub(super) fn add(&mut self, db: usize, key: Key<'_>, is_written: bool) {
        if self.is_on {
            self.keys.push(MetKey { db, key: key.bytes.into(), is_written });
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(super) fn add(&mut self, _: usize, _: Key<'_>, _: bool) {}

    /// Begins an empty list.
    pub(super) fn start(&mut self) {
        #[cfg(debug_assertions)]
        {
            *self = MetKeys { is_on: true, keys: Vec::new() };
        }
    }

    /// Ends the list and gives it back.
    pub(super) fn take(&mut self) -> Vec<MetKey> {
        #[cfg(debug_assertions)]
        return std::mem::take(self).keys;
        #[cfg(not(debug_assertions))]
        Vec::new()
    }
}
