//! Compaction of a database: the slab moves entries out of sparse chunks, and the indexes follow.
//!
//! A move changes no entry, only its handle. Compaction must not run while another part of the server keeps
//! handles from one command to the next.

use super::Db;
use super::tables::IndexKind;
use crate::dataset::Keyspace;
use sluice_collections::slab::Move;
use sluice_value::Value;

/// Result of a compaction step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Number of entries moved.
    pub moved: u64,
    /// Number of moves undone because no index pointed to the block. Always 0, unless the server has a
    /// defect.
    pub abandoned: u64,
    /// Whether there may be more to do, because the budget was used up or the step was spent on a sorted set.
    pub has_more: bool,
}

impl Db {
    /// Moves entries out of sparse chunks, with at most `budget` steps. A step examines a block or searches
    /// for a chunk, in constant time. While sorted sets hold memory of removed elements, a call makes one of
    /// them release some of it instead. Nothing moves while a detached slot has keys left to free.
    pub fn compact_step(&mut self, budget: usize) -> Compacted {
        let mut done = Compacted::default();
        if self.clear_zset_remains(budget) {
            done.has_more = true;
            return done;
        }
        if !self.detached.is_empty() {
            return done;
        }
        let mut left = budget;
        while let Some(step) = self.store.slab.next_move(&mut left) {
            if self.follow(step) {
                self.store.slab.finish_move(step);
                done.moved += 1;
            } else {
                debug_assert!(false, "every block of a database is an entry");
                self.store.slab.cancel_move(step);
                done.abandoned += 1;
            }
        }
        done.has_more = left == 0;
        done
    }

    /// Points the indexes to the copy of an entry; `false`, and no change, if they do not contain the entry.
    fn follow(&mut self, step: Move) -> bool {
        let hash = self.hash_of(step.to);
        for kind in [IndexKind::Keys, IndexKind::Expires] {
            match (self.tables.index(kind, hash).find(hash, |handle| handle == step.from), kind) {
                (Some(position), _) => self.tables.replace(kind, hash, position, step.to),
                (None, IndexKind::Keys) => return false,
                (None, IndexKind::Expires) => {}
            }
        }
        true
    }
}

impl Keyspace {
    /// Compacts one database ([`Db::compact_step`]), whose number must be below [`Keyspace::databases`].
    pub fn compact_step(&mut self, number: usize, budget: usize) -> Compacted {
        self.dbs_mut()[number].compact_step(budget)
    }

    /// Makes one sorted set of a database release memory of removed elements, with about `budget` steps and
    /// at least one leaf; the result is whether a set was noted for that. No entry is moved.
    pub fn clear_remains(&mut self, number: usize, budget: usize) -> bool {
        self.dbs_mut()[number].clear_zset_remains(budget)
    }

    /// Takes the parts of sorted sets that compaction steps and `Keyspace::clear_remains` have replaced, to
    /// be freed on another thread.
    pub fn take_remains(&mut self, number: usize) -> Vec<Value> {
        std::mem::take(&mut self.dbs_mut()[number].store.remains)
    }
}
