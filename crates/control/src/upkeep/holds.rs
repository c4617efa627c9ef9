//! Conditions that hold expiry and eviction back.

use crate::Control;
use sluice_base::Now;

impl Control {
    /// Whether keys may be evicted: invariant (3) of `evict.rs`.
    pub fn may_evict(&self, now: Now) -> bool {
        let control = self;
        let is_primarys = control.replication.replica.is_some() && control.limits.eviction.is_left_to_primary;
        !control.is_write_paused(now) && control.persistence.load.is_none() && !is_primarys
    }

    /// Whether expiry is held back: by a switch of DEBUG, or by a condition of invariant (2) of `expire.rs`
    /// other than the role, which the callers check.
    pub fn is_expiry_held(&self, now: Now) -> bool {
        let control = self;
        !control.debug.active_expire
            || control.debug.cron_paused
            || control.limits.import_mode
            || control.is_write_paused(now)
            || control.persistence.pending_end.is_some()
    }
}
