//! Log of the keys and databases that a command accesses, for the check that the command declares them.
//!
//! Invariants: (1) a build without debug assertions has no list and records nothing; (2) between commands the
//! list is empty.

use crate::Key;
#[cfg(debug_assertions)]
use std::cell::RefCell;

/// A key that a command has looked up by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessedKey {
    /// Number of the key's database.
    pub db: usize,
    /// Copy of the key's bytes.
    pub key: Box<[u8]>,
    /// Whether the command has changed the key. The deletion of an expired key does not count.
    pub is_written: bool,
}

/// The keys and databases that a command has accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyAccessLog {
    /// Keys, in order of access; a key may appear more than once.
    pub keys: Vec<AccessedKey>,
    /// Databases accessed as a whole: counted, scanned, sampled, emptied or swapped.
    pub databases: Vec<usize>,
}

/// The recorder of a [`KeyAccessLog`]; empty in a build without debug assertions.
#[derive(Debug, Default)]
pub(super) struct AccessedKeys {
    #[cfg(debug_assertions)]
    is_on: bool,
    #[cfg(debug_assertions)]
    keys: Vec<AccessedKey>,
    #[cfg(debug_assertions)]
    databases: RefCell<Vec<usize>>,
}

impl AccessedKeys {
    #[cfg(debug_assertions)]
    pub(super) fn add(&mut self, db: usize, key: Key<'_>, is_written: bool) {
        if self.is_on {
            self.keys.push(AccessedKey { db, key: key.bytes.into(), is_written });
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(super) fn add(&mut self, _: usize, _: Key<'_>, _: bool) {}

    /// Starts recording with an empty list.
    pub(super) fn start(&mut self) {
        #[cfg(debug_assertions)]
        {
            *self = AccessedKeys { is_on: true, ..AccessedKeys::default() };
        }
    }

    /// Stops recording and returns the list.
    pub(super) fn take(&mut self) -> KeyAccessLog {
        #[cfg(debug_assertions)]
        {
            let AccessedKeys { keys, databases, .. } = std::mem::take(self);
            KeyAccessLog { keys, databases: databases.into_inner() }
        }
        #[cfg(not(debug_assertions))]
        KeyAccessLog::default()
    }

    #[cfg(debug_assertions)]
    pub(super) fn add_database(&self, db: usize) {
        if self.is_on {
            self.databases.borrow_mut().push(db);
        }
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(super) fn add_database(&self, _: usize) {}
}
