//! The collector's cycles, and the slices in which cycles are done, during a run and between runs.

use super::machine::Machine;
use crate::gc::{self, Roots};
use crate::heap::SLICE_BYTES;
use crate::object::Coroutine;

/// Number of values that a slice of the collector processes after [`SLICE_BYTES`] allocated bytes, if the
/// multiplier is 100 percent.
const SLICE_WORK: usize = SLICE_BYTES / 16;

/// Number of values that a slice processes when a full collection must end before the run continues.
pub(crate) const FULL_WORK: usize = 8192;

/// Number of values that the collector processes for a unit of the budget.
const WORK_PER_UNIT: usize = 4;

impl Machine {
    /// Does a slice of a cycle, which processes about `work` values, or with `None` a full collection.
    /// Returns true when a cycle has ended.
    pub(crate) fn collect(&mut self, work: Option<usize>) -> bool {
        self.heap.slice_due = false;
        self.heap.strings.set_due(false);
        let top = self.used_slots();
        let co: &Coroutine = &self.co;
        let roots = Roots { running: co, thread: self.thread, top };
        let Some(work) = work else {
            gc::full(&mut self.heap, &mut self.code, &roots);
            return true;
        };
        let done = gc::slice(&mut self.heap, &mut self.code, &roots, work);
        if !done {
            self.heap.collector.next_slice = self.heap.bytes + SLICE_BYTES;
        } else if self.cycles_due > 0 {
            // The cycle counts as one that the run waits for, no matter whether the run or its host has
            // completed it.
            self.cycles_due -= 1;
            let heap = &mut self.heap;
            // Close to the limit, the next cycle begins halfway between the bytes in use and the limit.
            let halfway = heap.bytes + heap.limit.saturating_sub(heap.bytes) / 2;
            heap.collector.threshold = heap.collector.threshold.min(halfway);
            heap.collector.next_slice = heap.collector.threshold;
        }
        done
    }

    /// Does the slice that is due during a run. Does nothing if the loop exited only to charge work to the
    /// budget.
    pub(crate) fn collect_on(&mut self) {
        self.heap.strings.set_due(false);
        if !self.heap.slice_due {
            return;
        }
        // Close to the limit all garbage is collected before the program continues, because a delay is better
        // than an error.
        let is_close = self.heap.bytes > self.heap.limit - self.heap.limit / 8
            && self.heap.bytes > self.heap.collector.threshold;
        if is_close {
            return self.ask_for_cycles();
        }
        let work = SLICE_WORK * self.heap.collector.multiplier.clamp(100, 1000) / 100;
        self.collect(Some(work));
        self.budget -= (work / WORK_PER_UNIT) as i64;
    }

    /// Makes the run wait until all garbage is collected.
    pub(crate) fn ask_for_cycles(&mut self) {
        self.cycles_due = gc::cycles_of_all(&self.heap);
    }

    /// Completes the cycles that are due. Returns false if the budget is used up first.
    pub(crate) fn end_cycles(&mut self) -> bool {
        while self.cycles_due > 0 {
            if self.budget <= 0 {
                return false;
            }
            self.collect(Some(FULL_WORK));
            self.budget -= (FULL_WORK / WORK_PER_UNIT) as i64;
        }
        self.budget > 0
    }
}
