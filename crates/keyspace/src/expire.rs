//! Active expiry: deleting expired keys and fields that no command looks up, in steps.
//!
//! A cycle visits each database once. In a database, a step deletes fields of the hash whose fields
//! expire first, and walks the index of keys with an expiry, a few buckets at a time, from where the
//! previous cycle stopped. A database gets another round while more than the tolerated share of a
//! round's keys was expired, until about as many keys were looked at as have an expiry. The share and the
//! walk follow the reference's published behaviour. Because the index is walked and not sampled, a pass
//! meets every expired key, except those whose bucket was merged during the pass into one already walked;
//! the next pass meets these.
//!
//! Invariant: a step deletes at most [`KEYS_PER_STEP`] keys and [`FIELDS_PER_STEP`] fields. It looks at no
//! more than [`DATABASES_PER_STEP`] databases, and at no more than `20 * keys_per_round` buckets of each. The
//! caller checks the time after each step. Steps are this small because the deletion of the last key of a
//! slab chunk can give pages back to the system, which is slow, and keys that expire together may empty
//! several chunks.

use crate::Key;
use crate::dataset::Keyspace;
use crate::db::{Db, IndexKind, Meta, VolatileDue};
use crate::edit::HashEdit;
use crate::effects::{Effects, Event};
use sluice_base::heap;
use sluice_collections::slab::Handle;
use sluice_value::HashLimits;

/// Settings of a cycle.
#[derive(Clone, Copy, Debug)]
pub struct ExpireCycle {
    /// Present time, ms since the epoch.
    pub now_ms: i64,
    /// Number of keys of a database that a round looks at: 20 at effort 1, and 5 more for each further step
    /// of `active-expire-effort`.
    pub keys_per_round: usize,
    /// Share of expired keys, in percent, above which a database gets another round.
    pub tolerated_percent: usize,
}

/// Progress of the cycle. It is created once; [`ExpireWalk::begin`] begins each cycle with the database after
/// the last one that was finished.
#[derive(Debug, Default)]
pub struct ExpireWalk {
    /// The database being visited, modulo the number of databases.
    db: usize,
    /// Number of databases still to visit, the present one included.
    dbs_left: usize,
    /// Number of keys still to look at in the present database; `None` before its first step.
    keys_left: Option<usize>,
    /// Number of steps in the present database that found hidden hashes alone.
    hidden_steps: usize,
    round: Round,
    /// Keys that a step is about to delete.
    due: Vec<Handle>,
}

/// Counts of the round so far.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    sampled: usize,
    expired: usize,
    /// Number of times the round has reached the end of the index.
    passes: usize,
    /// Sum of the remaining lives of the keys that have not expired, in ms.
    ttl_sum_ms: i64,
    ttl_count: i64,
}

impl ExpireWalk {
    /// Begins a cycle over `databases` databases. An unfinished cycle is abandoned.
    pub fn begin(&mut self, databases: usize) {
        self.dbs_left = databases;
        self.keys_left = None;
        self.hidden_steps = 0;
        self.round = Round::default();
    }

    /// Whether the current cycle has visited all databases.
    pub fn is_over(&self) -> bool {
        self.dbs_left == 0
    }

    /// Heap bytes of the buffer for keys.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.due)
    }

    fn next_db(&mut self) {
        self.db += 1;
        self.dbs_left -= 1;
        self.keys_left = None;
        self.hidden_steps = 0;
        self.round = Round::default();
    }
}

/// Result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireOutcome {
    /// Number of keys deleted.
    pub expired: u64,
    /// Number of keys looked at.
    pub sampled: u64,
    /// Number of hash fields deleted.
    pub fields: u64,
}

/// Maximum number of keys that a step deletes. The step looks at whole buckets, until it has looked at this
/// many keys, has reached the end of the index, or has looked at as many buckets as are allowed.
const KEYS_PER_STEP: usize = 8;

/// Maximum number of fields that a step deletes. A command that the cycle adds to the replication stream
/// therefore deletes at most this many fields.
const FIELDS_PER_STEP: usize = 64;

/// Maximum number of steps in a database and cycle that find hidden hashes alone. The next cycle continues
/// after these hashes.
const HIDDEN_STEPS: usize = 16;

/// Maximum number of databases that a step looks at to find one with keys or fields that expire.
const DATABASES_PER_STEP: usize = 64;

impl Keyspace {
    /// Runs the next step of a cycle. Deleted keys are noted in `Effects::expired_by_write`, as if a write
    /// had found them, and deleted fields in `Effects::expired_fields`; both are propagated.
    pub fn expire_step(
        &mut self,
        cycle: ExpireCycle,
        walk: &mut ExpireWalk,
        effects: &mut Effects,
    ) -> ExpireOutcome {
        let count = self.databases();
        for _ in 0..DATABASES_PER_STEP {
            if walk.is_over() {
                break;
            }
            let number = walk.db % count;
            let fields = self.expire_fields_of_one(number, cycle.now_ms, effects);
            let round = self.expire_keys(number, cycle, walk, effects);
            walk.hidden_steps += usize::from(fields.is_none());
            let has_more_fields = fields.map_or(walk.hidden_steps < HIDDEN_STEPS, |fields| fields > 0);
            let fields = fields.unwrap_or(0);
            if has_more_fields || walk.keys_left.is_some_and(|left| left > 0) {
                return ExpireOutcome { fields, ..round };
            }
            walk.next_db();
            if round.sampled > 0 {
                return round;
            }
        }
        ExpireOutcome::default()
    }

    /// Runs a step of a round over the keys of a database, unless all are done (`keys_left` is 0).
    fn expire_keys(
        &mut self,
        number: usize,
        cycle: ExpireCycle,
        walk: &mut ExpireWalk,
        effects: &mut Effects,
    ) -> ExpireOutcome {
        let len = self.db(number).shown().expires_len();
        let left = walk.keys_left.unwrap_or(len + cycle.keys_per_round);
        if len == 0 || left == 0 {
            walk.keys_left = Some(0);
            return ExpireOutcome::default();
        }
        let (step, is_pass_over) = self.expire_some(number, cycle, walk, effects);
        walk.round.passes += usize::from(is_pass_over);
        let round = walk.round;
        // A round that reaches the end of the index without a key continues at the beginning, because it may
        // have begun in empty buckets at the end.
        let has_seen_all = is_pass_over && (round.sampled > 0 || round.passes == 2);
        let is_round_over = round.sampled >= cycle.keys_per_round || has_seen_all;
        let mut is_enough = false;
        if is_round_over {
            is_enough = round.expired * 100 <= round.sampled * cycle.tolerated_percent;
            walk.round = Round::default();
            self.dbs_mut()[number].learn_ttl(round);
        }
        walk.keys_left = Some(if is_enough { 0 } else { left.saturating_sub(step.sampled as usize) });
        step
    }

    /// Looks at the next keys of a round and deletes the expired ones; the result has the counts, and whether
    /// the walk reached the end of the index.
    fn expire_some(
        &mut self,
        number: usize,
        cycle: ExpireCycle,
        walk: &mut ExpireWalk,
        effects: &mut Effects,
    ) -> (ExpireOutcome, bool) {
        let ExpireWalk { round, due, .. } = walk;
        let db = &mut self.dbs_mut()[number];
        let hasher = db.hasher();
        due.clear();
        let (mut sampled, mut is_pass_over) = (0, false);
        let mut buckets = cycle.keys_per_round * 20;
        let mut cursor = db.expire_cursor;
        while sampled < KEYS_PER_STEP && buckets > 0 {
            let bucket = cursor;
            cursor = db.tables.walk(IndexKind::Expires, bucket, |handle| {
                sampled += 1;
                match db.expiry(handle) {
                    Some(at) if at < cycle.now_ms => due.push(handle),
                    Some(at) => {
                        round.ttl_sum_ms = round.ttl_sum_ms.saturating_add(at - cycle.now_ms);
                        round.ttl_count += 1;
                    }
                    None => {}
                }
            });
            buckets -= 1;
            if due.len() > KEYS_PER_STEP {
                // The rest of the bucket is left to the next step.
                sampled -= due.len() - KEYS_PER_STEP;
                due.truncate(KEYS_PER_STEP);
                cursor = bucket;
                break;
            }
            if cursor == 0 {
                is_pass_over = true;
                break;
            }
        }
        db.expire_cursor = cursor;
        let expired = due.len();
        for handle in due.drain(..) {
            let name: Box<[u8]> = db.key(handle).into();
            let key = Key::hashed(&name, hasher);
            let Some(found) = db.find(key) else { continue };
            effects.discard(db.remove(found, key));
            effects.expired(number, key);
        }
        (round.sampled, round.expired) = (round.sampled + sampled, round.expired + expired);
        let step = ExpireOutcome { expired: expired as u64, sampled: sampled as u64, fields: 0 };
        (step, is_pass_over)
    }

    /// Deletes expired fields of the next hash that has some; the result is the number of deleted fields, or
    /// `None` if only hashes of hidden or detached slots were looked at.
    fn expire_fields_of_one(&mut self, number: usize, now_ms: i64, effects: &mut Effects) -> Option<u64> {
        let db = &mut self.dbs_mut()[number];
        let name = match db.next_volatile_due(now_ms) {
            VolatileDue::Hash(name) => name,
            VolatileDue::Unknown => return None,
            VolatileDue::None => return Some(0),
        };
        let key = Key::hashed(&name, db.hasher());
        let Some(found) = db.find(key) else { return Some(0) };
        let mut fields = Vec::new();
        let meta = Meta { expiry: db.expiry(found.handle), clock: db.clock(found.handle) };
        let Some(open) = db.open(found) else { return Some(0) };
        let mut edit = HashEdit::new(db, effects, (number, key), (meta, HashLimits::default()), open);
        let (hash, context) = edit.parts();
        hash.remove_expired(now_ms, FIELDS_PER_STEP, context, |field| fields.push(field.to_vec()));
        let expired = fields.len() as u64;
        edit.done(Event::HExpired, 0);
        effects.fields_expired(number, key, fields);
        Some(expired)
    }
}

impl Db {
    /// Moves the running average of INFO towards the mean remaining life of a round's keys that have not
    /// expired, by a fiftieth of the difference; the first mean becomes the average.
    fn learn_ttl(&mut self, round: Round) {
        if round.ttl_count > 0 {
            let mean = round.ttl_sum_ms / round.ttl_count;
            self.avg_ttl_ms = if self.avg_ttl_ms == 0 { mean } else { self.avg_ttl_ms / 50 * 49 + mean / 50 };
        }
    }
}
