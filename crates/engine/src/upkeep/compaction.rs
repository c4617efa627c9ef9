//! Compaction of entries: short steps between the executions of commands, as long as memory can be regained.
//! A step takes half a millisecond, or `active-defrag-cycle-us` with `activedefrag`.
//!
//! Without `activedefrag` a step is made every 50 ms, one percent of the time. With it, the share of time
//! is between `active-defrag-cycle-min` and `active-defrag-cycle-max`, in proportion to the waste between
//! the two thresholds. Below `active-defrag-ignore-bytes` or the lower threshold, steps are as without
//! `activedefrag`. Large values are in the allocator's memory and are not moved.

use crate::core::Core;
use sluice_config::{Config, param};
use sluice_control::action::Action;
use sluice_control::process::Process;

/// The steps of compaction.
pub(crate) struct CompactionSteps<'a> {
    core: &'a mut Core,
}

impl<'a> CompactionSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> CompactionSteps<'a> {
        CompactionSteps { core }
    }
}

impl CompactionSteps<'_> {
    /// Makes a step if one is due. Returns the milliseconds until the next step. After a step that found
    /// nothing to do, `looks_again` says whether to look again.
    pub(crate) fn compact(&mut self, looks_again: bool, process: &mut dyn Process) -> u64 {
        let start = process.recent();
        let next_ns = self.core.upkeep.compaction.next_ns;
        if start.mono_ns < next_ns && !(looks_again && next_ns == NEVER_NS) {
            return next_ns.saturating_sub(start.mono_ns).div_ceil(1_000_000);
        }
        let pace = StepBudget::new(&self.core.control.config, &self.core.keyspace.chunk_memory());
        let wait_ns = if self.core.control.debug.cron_paused || !self.compact_for(pace.step_ns, process) {
            self.note_compaction(0, start.unix_ms());
            NEVER_NS
        } else {
            self.note_compaction(pace.percent, start.unix_ms());
            pace.step_ns * (100 - pace.percent) / pace.percent
        };
        let now = process.now();
        self.core.upkeep.compaction.next_ns = now.mono_ns.saturating_add(wait_ns);
        self.core.control.note_latency(
            "active-defrag-cycle",
            start,
            now.mono_ns.saturating_sub(start.mono_ns),
        );
        wait_ns.div_ceil(1_000_000)
    }

    /// Moves entries until the time is up. Returns `false` if there is nothing left to move, or nothing may
    /// be moved.
    fn compact_for(&mut self, budget_ns: u64, process: &mut dyn Process) -> bool {
        if self.core.has_job() {
            // Nothing is moved while a snapshot or a rewrite is made, because its view of the data refers to
            // entries by their location in memory.
            return false;
        }
        let databases = self.core.keyspace.databases();
        let mut start = None;
        self.core.upkeep.compaction.idle = 0;
        while self.core.upkeep.compaction.idle < databases {
            let done = self.core.keyspace.compact_step(self.core.upkeep.compaction.db, STEPS);
            let remains = self.core.keyspace.take_remains(self.core.upkeep.compaction.db);
            self.core.actions.extend(remains.into_iter().map(Action::FreeValue));
            self.core.stats.compaction.moved += done.moved;
            self.core.stats.compaction.abandoned += done.abandoned;
            if done.has_more {
                self.core.upkeep.compaction.idle = 0;
                // The clock is not read for databases that need no compaction.
                let now = process.now().mono_ns;
                if now.saturating_sub(*start.get_or_insert(now)) + STEPS_NS > budget_ns {
                    return true;
                }
            } else {
                self.core.upkeep.compaction.db = (self.core.upkeep.compaction.db + 1) % databases;
                self.core.upkeep.compaction.idle += 1;
            }
        }
        false
    }

    fn note_compaction(&mut self, percent: u64, now_ms: i64) {
        let stats = &mut self.core.stats.compaction;
        if percent > 0 && stats.since_ms == 0 {
            stats.since_ms = now_ms;
        } else if percent == 0 {
            stats.total_ms += stats.current_ms(now_ms);
            stats.since_ms = 0;
        }
        stats.running_percent = percent;
    }
}

/// Duration of a step, and the share of the time that steps may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepBudget {
    step_ns: u64,
    percent: u64,
}

impl StepBudget {
    fn new(config: &Config, memory: &sluice_keyspace::ChunkMemory) -> StepBudget {
        let quiet = StepBudget { step_ns: STEP_NS, percent: 1 };
        let (used, wasted) =
            (memory.used_bytes as i64, memory.touched_bytes.saturating_sub(memory.used_bytes) as i64);
        if !config.bool(param::ACTIVEDEFRAG) || wasted < config.int(param::ACTIVE_DEFRAG_IGNORE_BYTES) {
            return quiet;
        }
        let waste = wasted.saturating_mul(100) / used.max(1);
        let lower = config.int(param::ACTIVE_DEFRAG_THRESHOLD_LOWER);
        let upper = config.int(param::ACTIVE_DEFRAG_THRESHOLD_UPPER);
        if waste < lower {
            return quiet;
        }
        let least = config.int(param::ACTIVE_DEFRAG_CYCLE_MIN);
        let most = config.int(param::ACTIVE_DEFRAG_CYCLE_MAX).max(least);
        let reached = (waste.min(upper) - lower).max(0);
        let percent = if upper > lower { least + (most - least) * reached / (upper - lower) } else { most };
        // With 0 the pause between two steps would be 0, too, and compaction would take all the time. In the
        // reference, 0 means as short as possible.
        let step_us = config.int(param::ACTIVE_DEFRAG_CYCLE_US).max(50);
        StepBudget { step_ns: step_us as u64 * 1000, percent: percent.clamp(1, 99) as u64 }
    }
}

/// Duration of a step without `activedefrag`, ns. One step every 50 ms takes one percent of the time.
const STEP_NS: u64 = 500_000;
/// The value of `next_ns` while no step is planned. Then each period of the cron looks again whether a chunk
/// has become sparse.
const NEVER_NS: u64 = u64::MAX;
/// Number of steps of the slab between two readings of the clock. There are few, because after a mass of
/// deletions each step returns a chunk of empty blocks, which takes the kernel 0.1 ms.
const STEPS: usize = 4;
/// Nanoseconds reserved for [`STEPS`] steps.
const STEPS_NS: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_keyspace::ChunkMemory;

    #[test]
    fn the_share_of_time_follows_the_waste() {
        let pace = |text: &str, used_mib: usize, touched_mib: usize| {
            let mut none = |_: &[u8]| Err("no include".to_owned());
            let config =
                sluice_config::parse_file(text.as_bytes(), "test", b"", &mut none).expect("a config");
            let memory = ChunkMemory { used_bytes: used_mib << 20, touched_bytes: touched_mib << 20 };
            let pace = StepBudget::new(&config, &memory);
            (pace.step_ns / 1000, pace.percent)
        };
        assert_eq!(pace("", 100, 1000), (500, 1), "activedefrag is off");
        assert_eq!(pace("activedefrag yes", 100, 150), (500, 1), "less than the bytes to ignore");
        assert_eq!(pace("activedefrag yes", 10_000, 10_900), (500, 1), "less than the lower threshold");
        assert_eq!(pace("activedefrag yes", 1000, 1550), (500, 13));
        assert_eq!(pace("activedefrag yes", 100, 1000), (500, 25));
        let tuned = "activedefrag yes\nactive-defrag-cycle-max 75\nactive-defrag-cycle-us 200\nactive-defrag-ignore-bytes 1mb";
        assert_eq!(pace(tuned, 10, 20), (200, 75));
        assert_eq!(pace("activedefrag yes\nactive-defrag-cycle-us 0", 100, 1000), (50, 25));
    }
}
