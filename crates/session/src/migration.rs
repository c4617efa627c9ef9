//! MIGRATE: keys that are copied to another server, and deleted here when that server has acknowledged them.
//!
//! ```text
//!  handler: roots of the values ──Action::Migrate──► thread of the process: DUMP's bytes, RESTORE there ──outcome──► deleted, answered
//!                    └── keys held: what would change them waits ──────────────────────────────────────────────────┘
//! ```
//!
//! The *moment* of a migration is the time at which its handler runs. The handler takes roots of the values
//! (second owners, which keep the values as they are), as a slow read does. Inside a transaction the client
//! cannot be suspended, so the main thread copies the keys itself, while every client waits.
//!
//! Invariants: (1) from the moment of a migration to its end, no client changes a key that is to be
//! deleted, so the deleted value is the value that the other server has; expiry and eviction may delete
//! the key earlier; (2) the keys that the other server has acknowledged are deleted, even if the client
//! is gone; (3) no key is deleted if this server has become a replica during the migration, because the
//! data are then the primary's; (4) at most `IN_FLIGHT_MAX` migrations at a time have roots on threads.

use sluice_base::SessionKey;
use sluice_commands::{Migration, MigrationOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// The migrations under way.
#[derive(Debug, Default)]
pub struct Migrations {
    in_flight: BTreeMap<u64, InFlight>,
    /// Hashes of the keys that are to be deleted. Changes of another key with the same hash also have to
    /// wait.
    held: BTreeSet<u64>,
    /// Migrations that ended while CLIENT PAUSE or a suspended transaction or script kept them from deleting
    /// their keys. They count as in flight until the keys are deleted.
    pub paused: Vec<(u64, MigrationOutcome)>,
    last_id: u64,
}

/// A migration under way.
#[derive(Debug)]
pub struct InFlight {
    /// Client that sent MIGRATE.
    pub client: SessionKey,
    /// Database of the keys.
    pub db: usize,
    /// Hash and name of each key.
    pub keys: Vec<(u64, Box<[u8]>)>,
    /// Whether the keys are deleted at the end, because COPY was not given.
    pub deletes: bool,
}

impl Migrations {
    /// Whether a command may have to wait for a migration.
    #[inline]
    pub fn are_under_way(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether no further migration may begin.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.in_flight.len() >= IN_FLIGHT_MAX
    }

    /// Whether a key with this hash is to be deleted.
    #[inline]
    pub fn hold(&self, hash: u64) -> bool {
        self.held.contains(&hash)
    }

    /// Whether any migration is to delete keys.
    #[inline]
    pub fn hold_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the migration with this id is to delete its keys.
    pub fn is_deleting(&self, id: u64) -> bool {
        self.in_flight.get(&id).is_some_and(|migration| migration.deletes)
    }

    /// Makes every migration keep its keys, because the data set is about to be replaced.
    pub fn keep_all(&mut self) {
        self.in_flight.values_mut().for_each(|migration| migration.deletes = false);
        self.held.clear();
    }

    /// Records that a migration begins, and gives it an id.
    pub fn begin(&mut self, client: SessionKey, db: usize, migration: &mut Migration) {
        self.last_id += 1;
        migration.id = self.last_id;
        let keys = migration.held();
        let deletes = !migration.copies;
        if deletes {
            self.held.extend(keys.iter().map(|(hash, _)| *hash));
        }
        self.in_flight.insert(migration.id, InFlight { client, db, keys, deletes });
    }

    /// Removes a migration that has ended, and releases its keys. Returns `None` if no migration has the id.
    pub fn end(&mut self, id: u64) -> Option<InFlight> {
        let ended = self.in_flight.remove(&id)?;
        self.held.clear();
        for other in self.in_flight.values().filter(|other| other.deletes) {
            self.held.extend(other.keys.iter().map(|(hash, _)| *hash));
        }
        Some(ended)
    }
}

/// At most this many migrations at a time have roots of values and threads of the process; further migrations
/// wait.
const IN_FLIGHT_MAX: usize = 64;
