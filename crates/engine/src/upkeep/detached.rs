//! Keys of slots that were emptied at once (CLUSTER FLUSHSLOT) are freed in slices between units. No command
//! meets them any more; clients that cache one learn of it when it is freed.

use crate::core::Core;
use sluice_base::Now;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;

/// How long a slice takes at least, ns.
const SLICE_NS: u64 = 500_000;
/// How long it takes at most, ns.
const SLICE_MAX_NS: u64 = 5_000_000;
/// A slice may take this part of the time that commands took in the iteration: where they take long, what is
/// left to free does not pile up. The time between slices says nothing: an iteration is long, too, where the
/// machine has let the server wait.
const SHARE: u64 = 8;

/// The steps of freeing.
pub(crate) struct DetachedSteps<'a> {
    core: &'a mut Core,
}

impl<'a> DetachedSteps<'a> {
    /// Works on this core.
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> DetachedSteps<'a> {
        DetachedSteps { core }
    }
}

impl DetachedSteps<'_> {
    /// Frees keys for half a millisecond, more where commands take long; once an iteration.
    pub(crate) fn free_slice(&mut self, process: &mut dyn Process) {
        if !self.core.keyspace.has_detached() || !self.core.control.between_units(BetweenUnits::Cluster) {
            return;
        }
        let began = process.now();
        let slice_ns = (self.core.stats.iteration.command_ns / SHARE).clamp(SLICE_NS, SLICE_MAX_NS);
        while self.free_some(began) {
            if process.now().mono_ns.saturating_sub(began.mono_ns) >= slice_ns {
                return;
            }
        }
    }

    /// Frees some dozens of keys; whether there were any. To be called between units.
    pub(crate) fn free_some(&mut self, now: Now) -> bool {
        let Core { keyspace, effects, .. } = &mut *self.core;
        if !keyspace.free_detached(effects) {
            return false;
        }
        self.core.commit_unasked(now);
        true
    }

    /// Frees all of them.
    pub(crate) fn free_all(&mut self, now: Now) {
        while self.free_some(now) {}
    }
}
