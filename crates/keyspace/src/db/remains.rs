//! What sorted sets hold for elements that are gone, cleared beside other work.

use super::Db;
use sluice_value::{Value, ZsetContext};

impl Db {
    /// Has a sorted set give back what it holds for elements that are gone, as many leaves as a budget
    /// allows; whether there was one.
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
            // Another value has its number since.
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

/// Steps of compaction that clearing a leaf counts for.
const STEPS_OF_LEAF: usize = 8;
