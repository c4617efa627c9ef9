//! Active expiry: deleting expired keys that no command looks up, within a budget.
//!
//! The cycle walks each database's index of keys with an expiry, a few buckets at a time, from where it stopped last.
//! It goes on with a database while more than the tolerated share of what it met was expired, and stops altogether
//! when the caller's deadline has passed. The share and the walk follow the reference's published behaviour; walking the
//! index instead of sampling it means that no expired key is missed for longer than one pass.

use crate::Key;
use crate::dataset::Keyspace;
use crate::db::Meta;
use crate::edit::HashEdit;
use crate::effects::{Effects, Event};
use sluice_collections::slab::Handle;
use sluice_value::HashLimits;

/// How a cycle runs.
#[derive(Clone, Copy, Debug)]
pub struct ExpireCycle {
    /// Now, ms since the epoch.
    pub now_ms: i64,
    /// Keys looked at per round and database: 20 at effort 1, 5 more per further step of `active-expire-effort`.
    pub keys_per_round: usize,
    /// Share of expired keys, in percent, above which a database gets another round.
    pub tolerated_percent: usize,
}

/// What a cycle did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireOutcome {
    /// Keys deleted.
    pub expired: u64,
    /// Keys looked at.
    pub sampled: u64,
    /// It stopped because its deadline passed.
    pub timed_out: bool,
}

impl Keyspace {
    /// Runs the cycle over all databases, from `*first_db` on. `out_of_time` is asked between rounds and must become
    /// true; deletions leave their effects as `expired_by_write`.
    pub fn expire_cycle(
        &mut self,
        cycle: ExpireCycle,
        first_db: &mut usize,
        effects: &mut Effects,
        mut out_of_time: impl FnMut() -> bool,
    ) -> ExpireOutcome {
        let mut total = ExpireOutcome::default();
        let count = self.databases();
        let mut due: Vec<Handle> = Vec::new();
        for _ in 0..count {
            let number = *first_db % count;
            *first_db = (number + 1) % count;
            let mut walked = 0;
            while self.db(number).expires_len() > 0
                && walked < self.db(number).expires_len() + cycle.keys_per_round
            {
                let round = self.expire_round(number, cycle, effects, &mut due);
                walked += round.sampled as usize;
                total.expired += round.expired;
                total.sampled += round.sampled;
                if out_of_time() {
                    total.timed_out = true;
                    return total;
                }
                if round.expired as usize * 100 <= round.sampled as usize * cycle.tolerated_percent {
                    break;
                }
            }
        }
        total
    }

    fn expire_round(
        &mut self,
        number: usize,
        cycle: ExpireCycle,
        effects: &mut Effects,
        due: &mut Vec<Handle>,
    ) -> ExpireOutcome {
        let db = &mut self.dbs_mut()[number];
        let hasher = db.hasher();
        due.clear();
        let (mut sampled, mut ttl_sum, mut ttl_count) = (0, 0i64, 0i64);
        let mut buckets = cycle.keys_per_round * 20;
        let mut cursor = db.expire_cursor;
        while sampled < cycle.keys_per_round && buckets > 0 {
            cursor = db.scan_expires(cursor, |handle| {
                sampled += 1;
                match db.expiry(handle) {
                    Some(at) if at < cycle.now_ms => due.push(handle),
                    Some(at) => {
                        ttl_sum = ttl_sum.saturating_add(at - cycle.now_ms);
                        ttl_count += 1;
                    }
                    None => {}
                }
            });
            buckets -= 1;
            if cursor == 0 {
                break;
            }
        }
        db.expire_cursor = cursor;
        if ttl_count > 0 {
            let mean = ttl_sum / ttl_count;
            // A slow average: one round moves it by a fiftieth.
            db.avg_ttl_ms = if db.avg_ttl_ms == 0 { mean } else { db.avg_ttl_ms / 50 * 49 + mean / 50 };
        }
        let expired = due.len() as u64;
        for handle in due.drain(..) {
            let name: Box<[u8]> = db.key(handle).into();
            let key = Key::hashed(&name, hasher);
            let Some(found) = db.find(key) else { continue };
            effects.discard(db.remove(found, key));
            effects.expired(number, key);
        }
        ExpireOutcome { expired, sampled: sampled as u64, timed_out: false }
    }
}

/// What a cycle over fields did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldExpiry {
    /// Fields deleted.
    pub expired: u64,
    /// It stopped because its deadline passed.
    pub timed_out: bool,
}

impl Keyspace {
    /// Deletes fields of hashes whose expiry is over, hash by hash in the order of their expiry, until none is left or
    /// `out_of_time`, which is asked behind 64 fields.
    pub fn expire_fields(
        &mut self,
        now_ms: i64,
        effects: &mut Effects,
        mut out_of_time: impl FnMut() -> bool,
    ) -> FieldExpiry {
        let mut total = FieldExpiry::default();
        for number in 0..self.databases() {
            loop {
                let expired = self.expire_fields_of_one(number, now_ms, effects);
                if expired == 0 {
                    break;
                }
                total.expired += expired;
                if out_of_time() {
                    total.timed_out = true;
                    return total;
                }
            }
        }
        total
    }

    fn expire_fields_of_one(&mut self, number: usize, now_ms: i64, effects: &mut Effects) -> u64 {
        let db = &mut self.dbs_mut()[number];
        let Some(name) = db.volatile_due(now_ms) else { return 0 };
        let name: Box<[u8]> = name.into();
        let key = Key::hashed(&name, db.hasher());
        let Some(found) = db.find(key) else { return 0 };
        let mut fields = Vec::new();
        let meta = Meta { expiry: db.expiry(found.handle), clock: db.clock(found.handle) };
        let Some(open) = db.open(found) else { return 0 };
        let mut edit = HashEdit::new(db, effects, (number, key), (meta, HashLimits::default()), open);
        let (hash, context) = edit.parts();
        hash.remove_expired(now_ms, FIELDS_PER_STEP, context, |field| fields.push(field.to_vec()));
        let expired = fields.len() as u64;
        edit.done(Event::HExpired, 0);
        effects.fields_expired(number, key, fields);
        expired
    }
}

/// Fields that are deleted between two looks at the time, and by one command of the replication stream.
const FIELDS_PER_STEP: usize = 64;
