//! Freeing the keys of slots that were emptied at once (for example by CLUSTER FLUSHSLOT), in slices between
//! commands. Commands no longer find these keys; a client that caches one gets its invalidation when the key
//! is freed.

use crate::core::Core;
use sluice_base::Now;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;

/// Minimum duration of a slice, ns.
const SLICE_NS: u64 = 500_000;
/// Maximum duration of a slice, ns.
const SLICE_MAX_NS: u64 = 5_000_000;
/// A slice may take the time of the iteration's commands divided by this, so that keys do not pile up while
/// commands take long. The time between slices is not used for this, because an iteration is also long if the
/// machine has made the server wait.
const SHARE: u64 = 8;

/// The steps of freeing.
pub(crate) struct DetachedSteps<'a> {
    core: &'a mut Core,
}

impl<'a> DetachedSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> DetachedSteps<'a> {
        DetachedSteps { core }
    }
}

impl DetachedSteps<'_> {
    /// Frees keys for half a millisecond, or longer if commands take long; once an iteration.
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

    /// Frees some dozens of keys. Returns whether there were any. To be called while no command or
    /// transaction is in progress.
    pub(crate) fn free_some(&mut self, now: Now) -> bool {
        let Core { keyspace, effects, .. } = &mut *self.core;
        if !keyspace.free_detached(effects) {
            return false;
        }
        self.core.commit_unasked(now);
        true
    }

    /// Frees all detached keys.
    pub(crate) fn free_all(&mut self, now: Now) {
        while self.free_some(now) {}
    }
}
