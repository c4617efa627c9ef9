//! Expiry of keys whose expiry time was set by clients of a replica.

use crate::core::Core;
use crate::upkeep::expire::ExpirySlices;
use sluice_command::derive::keys::keys;
use sluice_command::specs::generic;
use sluice_command::{Flags, KeyFlags, Spec};
use sluice_commands::Args;
use sluice_control::process::Process;
use sluice_keyspace::{Access, AccessUpdate, ExpiryMode, Keyspace};
use sluice_session::Session;

/// Number of keys checked between two readings of the clock.
const KEYS_PER_LOOK: usize = 64;

/// Maximum nanoseconds for one call of the cron.
const BUDGET_NS: u64 = 1_000_000;

impl Core {
    /// Remembers the keys that a client's command has written on a replica, if they have an expiry time now.
    #[cold]
    pub(crate) fn note_local_expiries(&mut self, session: &Session, spec: &Spec, args: Args<'_>, db: usize) {
        if self.control.replication.replica.is_none()
            || session.caller.is_primary()
            || !spec.flags.has(Flags::WRITE)
        {
            return;
        }
        let all: Vec<&[u8]> = args.iter_from(0).collect();
        let mut found = Vec::new();
        if keys(spec, &all, &mut found).is_err() {
            return;
        }
        // MOVE and COPY may write into a database that is not the client's.
        let leaves_db = [generic::MOVE.id, generic::COPY.id].contains(&spec.id);
        let dbs = if leaves_db { 0..self.keyspace.databases() } else { db..db + 1 };
        for (index, _) in found.into_iter().filter(|(_, flags)| !flags.has(KeyFlags::RO)) {
            for db in dbs.clone() {
                if expiry_of(&self.keyspace, db, args.at(index)).is_some() {
                    self.control.replication.local_expiries.add(db, args.at(index));
                }
            }
        }
    }
}

impl ExpirySlices<'_> {
    /// Deletes those keys that clients of this replica have written and that have expired, as far as the time
    /// allows. Returns whether there were any.
    pub(crate) fn expire_local(&mut self, process: &mut dyn Process) -> bool {
        let start = process.now();
        let access = Access {
            now: start,
            touch: AccessUpdate::No { fresh: 0 },
            expiry: ExpiryMode::Delete,
            must_obey: false,
        };
        let mut deleted = false;
        for met in 0..self.core.control.replication.local_expiries.count() {
            let is_look = met % KEYS_PER_LOOK == KEYS_PER_LOOK - 1;
            if is_look && process.now().mono_ns.saturating_sub(start.mono_ns) > BUDGET_NS {
                break;
            }
            let Some((db, name)) = self.core.control.replication.local_expiries.next_key() else { break };
            let expiry = expiry_of(&self.core.keyspace, db, &name);
            let is_over = expiry.is_some_and(|at_ms| start.unix_ms() > at_ms);
            if is_over {
                let key = self.core.keyspace.key(&name);
                self.core.keyspace.write(db, access, &mut self.core.effects).delete_if_expired(key);
                deleted = true;
            }
            if is_over || expiry.is_none() {
                self.core.control.replication.local_expiries.remove(db, &name);
            }
        }
        deleted
    }
}

/// Expiry time of a key, milliseconds since the epoch; `None` if the key has none or does not exist.
fn expiry_of(keyspace: &Keyspace, db: usize, name: &[u8]) -> Option<i64> {
    let db = keyspace.db(db);
    let entry = db.find(keyspace.key(name))?;
    db.expiry(entry.handle)
}
