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
/// A slice may take this part of the time since the one before: where commands keep iterations long, what is
/// left to free does not pile up.
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
    /// Frees keys for half a millisecond, more where iterations are long; once an iteration.
    pub(crate) fn free_slice(&mut self, process: &mut dyn Process) {
        if !self.core.keyspace.has_detached() || !self.core.control.between_units(BetweenUnits::Cluster) {
            return;
        }
        let began = process.now();
        let since_ns = self.core.upkeep.detached_at_ns.map_or(0, |at_ns| began.mono_ns.saturating_sub(at_ns));
        let slice_ns = (since_ns / SHARE).clamp(SLICE_NS, SLICE_MAX_NS);
        while self.free_some(began) {
            let now_ns = process.now().mono_ns;
            self.core.upkeep.detached_at_ns = Some(now_ns);
            if now_ns.saturating_sub(began.mono_ns) >= slice_ns {
                return;
            }
        }
        self.core.upkeep.detached_at_ns = None;
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
