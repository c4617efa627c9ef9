//! Releases, in steps, the memory that sorted sets hold for removed elements.

use super::Db;
use sluice_value::{Value, ZsetContext};

impl Db {
    /// Makes the sorted set that was noted last release memory of removed elements, in as many leaves as
    /// the budget allows, but in at least one. The result is whether a set was noted.
    pub(super) fn clear_zset_remains(&mut self, budget: usize) -> bool {
        let Some(&index) = self.store.zsets_with_remains.last() else { return false };
        let has_more = match self.store.values.get_mut(index) {
            Some(Value::Zset(zset)) => {
                let before = zset.heap_bytes();
                let mut context = ZsetContext::default();
                let has_more = zset.clear_remains((budget / STEPS_OF_LEAF).max(1), &mut context);
                let now = zset.heap_bytes();
                self.store.remains.extend(context.take_garbage().map(Value::Zset));
                self.store.outside_bytes = self.store.outside_bytes + now - before;
                has_more
            }
            // The sorted set is gone, and its index is free or belongs to another value now.
            Some(
                Value::Str(_)
                | Value::Pages(_)
                | Value::List(_)
                | Value::Hash(_)
                | Value::Stream(_)
                | Value::Set(_),
            )
            | None => false,
        };
        if !has_more {
            self.store.zsets_with_remains.pop();
        }
        true
    }
}

/// Clearing a leaf counts as this many compaction steps.
const STEPS_OF_LEAF: usize = 8;
