//! Eviction: choosing the keys that make room, and deleting them.
//!
//! Unless keys are evicted at random, a choice examines a few random keys of each database. A pool keeps the
//! best candidates of all choices so far, so a choice is nearly as good as one among all keys. A candidate
//! that was used after it entered the pool, or that now expires later than when it entered, is dropped; in
//! this the pool differs from the reference's.
//!
//! Entries unused for a long time are in no cache, and waiting for them one after the other would be most of
//! the cost of a choice. Therefore the random numbers of each choice are drawn two choices ahead. The buckets
//! of the choice after next, the entries of the next choice and the best remaining candidate are prefetched.
//!
//! Invariants: (1) the pool is in the order of scores, the best candidate last; (2) a deleted entry has at
//! least the score of its candidate, even if its key was deleted and stored again after the candidate was
//! chosen; (3) each deletion is recorded by `Effects::evicted_key`.

use crate::dataset::Keyspace;
use crate::db::{Db, Found, IndexKind};
use crate::effects::Effects;
use crate::hasher::slot_of;
use crate::{CLOCK_MASK, Key, lfu_decayed};
use sluice_base::{Now, Rng, heap};
use sluice_collections::slab::Handle;
use std::iter::once;

/// Which key is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionOrder {
    /// The key whose last use is the longest ago.
    LeastRecent,
    /// The key that is used least often.
    LeastFrequent,
    /// The key that expires first.
    EndsFirst,
    /// A random key of the next database that has a key to evict.
    Random,
}

/// Which keys may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionKeys {
    /// All keys, with or without an expiry.
    All,
    /// Keys with an expiry.
    Volatile,
}

/// How keys are chosen for eviction.
#[derive(Clone, Copy, Debug)]
pub struct EvictionRule {
    /// Which key is evicted first.
    pub order: EvictionOrder,
    /// Which keys may be evicted.
    pub among: EvictionKeys,
    /// Number of keys of each database that a choice looks at: `maxmemory-samples`.
    pub samples: usize,
    /// Minutes after which the frequency counter decreases by one: `lfu-decay-time`.
    pub lfu_decay: u32,
    /// Present time, from which idle times are measured.
    pub now: Now,
}

/// The best candidates of all choices so far.
#[derive(Debug, Default)]
pub struct EvictionPool {
    candidates: Vec<Candidate>,
    /// Number of the next database, for the order `Random`.
    turn: usize,
    /// Random numbers that select the entries of the next choice and the one after it.
    draws: Option<[u64; 2]>,
    /// The name of the key evicted last; its memory is reused for the next name.
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    score: u64,
    db: usize,
    /// Hash of the key's name. With the handle, it finds the entry as long as the entry keeps its block.
    hash: u64,
    handle: Handle,
}

/// Number of candidates in the pool.
const POOL: usize = 16;
/// Longest name, in bytes, whose memory is reused for the next name.
const KEPT_NAME_BYTES: usize = 1024;

impl EvictionRule {
    /// The rank of an entry; the highest is evicted first. `None` if the entry may not be evicted.
    fn score(&self, db: &Db, handle: Handle) -> Option<u64> {
        let expiry = db.expiry(handle);
        if self.among == EvictionKeys::Volatile && expiry.is_none() {
            return None;
        }
        Some(match self.order {
            EvictionOrder::LeastRecent => {
                let clock = self.now.unix_s() as u32 & CLOCK_MASK;
                u64::from(clock.wrapping_sub(db.clock(handle)) & CLOCK_MASK)
            }
            EvictionOrder::LeastFrequent => {
                let minutes = (self.now.unix_s() / 60) as u16;
                255 - u64::from(lfu_decayed(db.clock(handle), minutes, self.lfu_decay))
            }
            EvictionOrder::EndsFirst => u64::MAX - expiry.unwrap_or(i64::MAX).max(0) as u64,
            EvictionOrder::Random => 0,
        })
    }

    fn sample(&self, db: &Db, rng: &mut Rng) -> Option<Handle> {
        match self.among {
            EvictionKeys::All => db.sample(rng),
            EvictionKeys::Volatile => db.sample_expires(rng),
        }
    }

    fn index(&self) -> IndexKind {
        match self.among {
            EvictionKeys::All => IndexKind::Keys,
            EvictionKeys::Volatile => IndexKind::Expires,
        }
    }
}

impl EvictionPool {
    /// Drops all candidates, because they were chosen by another rule.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }

    /// Heap bytes of the pool.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.candidates) + heap::vec(&self.name)
    }

    /// Looks at some keys of each database that has any; the result is whether any of these keys may be
    /// evicted.
    fn fill(&mut self, dbs: &[Db], rule: &EvictionRule, rng: &mut Rng) -> bool {
        let draw = rng.next_u64();
        let [present, next] = self.draws.get_or_insert_with(|| [rng.next_u64(), rng.next_u64()]);
        let (present, next) = (std::mem::replace(present, *next), std::mem::replace(next, draw));
        let mut has_keys = false;
        for (number, db) in dbs.iter().enumerate().filter(|(_, db)| !db.is_empty()) {
            db.prefetch_sample(rule.index(), draw);
            db.sample_from(rule.index(), next, rule.samples, |handle| db.prefetch(handle));
            let mut meet = |handle| {
                if let Some(score) = rule.score(db, handle) {
                    has_keys = true;
                    self.offer(score, number, db, handle);
                }
            };
            if db.sample_from(rule.index(), present, rule.samples, &mut meet) == 0 {
                // The drawn neighbourhood has no entry, which can happen in an index with far more room than
                // entries, so the whole index is searched for a random entry.
                rule.sample(db, rng).into_iter().for_each(meet);
            }
        }
        has_keys
    }

    fn offer(&mut self, score: u64, number: usize, db: &Db, handle: Handle) {
        let is_full = self.candidates.len() >= POOL;
        if is_full && score <= self.candidates[0].score {
            return;
        }
        let is_it = |candidate: &Candidate| candidate.handle == handle && candidate.db == number;
        if self.candidates.iter().any(is_it) {
            return;
        }
        if is_full {
            self.candidates.remove(0);
        }
        let hash = db.hasher().hash(db.key(handle));
        let at = self.candidates.partition_point(|candidate| candidate.score <= score);
        self.candidates.insert(at, Candidate { score, db: number, hash, handle });
    }

    /// Prefetches the best candidate, because the next choice may check whether it is still a candidate.
    fn prefetch_best(&self, dbs: &[Db]) {
        if let Some(Candidate { db, hash, handle, .. }) = self.candidates.last().copied()
            && let Some(db) = dbs.get(db)
        {
            db.prefetch_buckets(once(hash));
            db.prefetch(handle);
        }
    }
}

impl Db {
    /// Bytes of entries, values, keys and indexes, which eviction can free. Cost: one step for each
    /// table that is not empty.
    #[inline]
    pub fn data_bytes(&self) -> usize {
        if self.has_nothing() {
            // Most databases are empty and need no sum.
            return 0;
        }
        self.entry_bytes() + self.index_bytes() + self.expires_bytes()
    }

    /// The part of [`Db::data_bytes`] that is on the heap: all except the bytes in the entries' chunks.
    pub fn allocated_bytes(&self) -> usize {
        self.data_bytes().saturating_sub(self.chunk_memory().used_bytes)
    }
}

impl Keyspace {
    /// Bytes of all data. Cost: that of [`Db::data_bytes`] for each database.
    pub fn data_bytes(&self) -> usize {
        self.iter().map(|(_, db)| db.data_bytes()).sum()
    }

    /// Deletes the key that the rule chooses; `false` if no key may be evicted.
    pub fn evict(
        &mut self,
        rule: &EvictionRule,
        pool: &mut EvictionPool,
        rng: &mut Rng,
        effects: &mut Effects,
    ) -> bool {
        if rule.order == EvictionOrder::Random {
            return self.evict_any(rule, pool, rng, effects);
        }
        while pool.fill(self.dbs_mut(), rule, rng) {
            while let Some(Candidate { score, db, hash, handle }) = pool.candidates.pop() {
                let found = self.db(db).find_handle(hash, handle);
                // A key whose score has fallen since, or whose slot is now hidden, is no candidate any more.
                let is_candidate = |found: &Found| {
                    let is_shown = !self.db(db).tables.hides(slot_of(hash));
                    is_shown && rule.score(self.db(db), found.handle).is_some_and(|now| now >= score)
                };
                if let Some(found) = found.filter(is_candidate) {
                    self.remove_evicted(db, found, hash, &mut pool.name, effects);
                    pool.prefetch_best(self.dbs_mut());
                    return true;
                }
            }
        }
        false
    }

    /// Deletes a random key; the databases take turns.
    fn evict_any(
        &mut self,
        rule: &EvictionRule,
        pool: &mut EvictionPool,
        rng: &mut Rng,
        effects: &mut Effects,
    ) -> bool {
        let count = self.databases();
        for _ in 0..count {
            let number = pool.turn % count;
            pool.turn = (number + 1) % count;
            let Some(handle) = rule.sample(self.db(number), rng) else { continue };
            let hash = self.hasher().hash(self.db(number).key(handle));
            if let Some(found) = self.db(number).find_handle(hash, handle) {
                self.remove_evicted(number, found, hash, &mut pool.name, effects);
                return true;
            }
        }
        false
    }

    /// Deletes an entry; `name` is the buffer for its name.
    fn remove_evicted(
        &mut self,
        number: usize,
        found: Found,
        hash: u64,
        name: &mut Vec<u8>,
        effects: &mut Effects,
    ) {
        name.clear();
        name.extend_from_slice(self.db(number).key(found.handle));
        let key = Key { bytes: name, hash, arg: Key::NO_ARG };
        let value = self.dbs_mut()[number].remove(found, key);
        effects.discard(value);
        effects.evicted_key(number, key);
        if name.capacity() > KEPT_NAME_BYTES {
            *name = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyHasher, Layout, NewValue};
    use sluice_base::HashSeed;

    #[test]
    fn a_candidate_whose_block_another_key_has_is_none_any_more() {
        let mut keyspace = Keyspace::new(1, KeyHasher::new(HashSeed { k0: 1, k1: 2 }, Layout::One));
        keyspace.load(0, b"present", NewValue::Str(b"value"), None, 0);
        let db = keyspace.db(0);
        let handle = db.iter().next().expect("one key");
        let hash = db.hasher().hash(b"present");
        assert!(db.find_handle(hash, handle).is_some());
        // Hashes of other keys that the bucket does not distinguish from the hash of the present key.
        let alike: Vec<u64> = (0..10_000_u32)
            .map(|number| db.hasher().hash(&number.to_le_bytes()))
            .filter(|other| other >> 56 == hash >> 56)
            .collect();
        assert!(!alike.is_empty());
        assert!(alike.iter().all(|earlier| db.find_handle(*earlier, handle).is_none()));
    }
}
