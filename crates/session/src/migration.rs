//! MIGRATE: keys that another server is given, and that are deleted here when it has them.
//!
//! ```text
//!  handler: roots of the values ──Action::Migrate──► thread of the process: DUMP's bytes, RESTORE there ──outcome──► deleted, answered
//!                    └── keys held: what would change them waits ──────────────────────────────────────────────────┘
//! ```
//!
//! The *moment* of a migration is when its handler runs: the handler takes roots of the values, as a slow
//! read does. Inside a transaction, where nobody can wait, the process does the same in place, and everybody
//! waits.
//!
//! Invariants: (1) between that moment and the end no client changes a key that is to be deleted, so what is
//! deleted is what the other server has; expiry and eviction may take it earlier; (2) the keys that the other
//! server has acknowledged are deleted, whatever became of the client meanwhile; (3) nothing is deleted when
//! this server has become a replica meanwhile: the data are the primary's; (4) no more than `IN_FLIGHT_MAX`
//! migrations have roots.

use sluice_base::SessionKey;
use sluice_commands::{Migration, MigrationOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// The migrations under way.
#[derive(Debug, Default)]
pub struct Migrations {
    in_flight: BTreeMap<u64, InFlight>,
    /// Hashes of the keys that are to be deleted; one that others share holds these back too.
    held: BTreeSet<u64>,
    /// Migrations that have ended while CLIENT PAUSE, or a unit that stands open, kept them from deleting
    /// their keys. They count as in flight until then.
    pub paused: Vec<(u64, MigrationOutcome)>,
    last_id: u64,
}

/// A migration under way.
#[derive(Debug)]
pub struct InFlight {
    /// Client of the command.
    pub client: SessionKey,
    /// Database of the keys.
    pub db: usize,
    /// Hashes and names.
    pub keys: Vec<(u64, Box<[u8]>)>,
    /// The keys are deleted in the end.
    pub deletes: bool,
}

impl Migrations {
    /// Whether some command may have to wait.
    #[inline]
    pub fn are_under_way(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether no further one may begin.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.in_flight.len() >= IN_FLIGHT_MAX
    }

    /// Whether a key with this hash is to be deleted.
    #[inline]
    pub fn hold(&self, hash: u64) -> bool {
        self.held.contains(&hash)
    }

    /// Whether any key is to be deleted.
    #[inline]
    pub fn hold_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether a migration is to delete keys in the end.
    pub fn is_deleting(&self, id: u64) -> bool {
        self.in_flight.get(&id).is_some_and(|migration| migration.deletes)
    }

    /// The data will be others: nothing is deleted.
    pub fn keep_all(&mut self) {
        self.in_flight.values_mut().for_each(|migration| migration.deletes = false);
        self.held.clear();
    }

    /// Notes the begin of a migration, and gives the migration its id.
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

    /// Forgets a migration at its end, and holds its keys no longer; `None` where no migration has the id.
    pub fn end(&mut self, id: u64) -> Option<InFlight> {
        let ended = self.in_flight.remove(&id)?;
        self.held.clear();
        for other in self.in_flight.values().filter(|other| other.deletes) {
            self.held.extend(other.keys.iter().map(|(hash, _)| *hash));
        }
        Some(ended)
    }
}

/// Migrations that have roots of values, and threads of the process, at a time: further ones wait.
const IN_FLIGHT_MAX: usize = 64;
