//! The timing of slices of active expiry.

use crate::core::Core;
use sluice_base::Now;
use sluice_base::mistake::{self, Mistake};
use sluice_config::param;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;
use sluice_keyspace::ExpireCycle;

/// Maximum nanoseconds of a slice: the longest that a client waits for it.
const SLICE_NS: u64 = 200_000;
/// Percentage of the time that slices take while clients work or deletions are propagated, at
/// `active-expire-effort` 1.
const SHARE_PERCENT: u64 = 25;
/// Increase of [`SHARE_PERCENT`] for each further step of the effort.
const SHARE_PERCENT_PER_EFFORT: u64 = 2;
/// Maximum nanoseconds of a slice that count. A slice takes longer if the thread was not scheduled, and the
/// rest is ignored.
const SPENT_NS_MAX: u64 = 5_000_000;
/// Nanoseconds after a command for which clients count as working.
const WORKING_NS: u64 = 5_000_000;

/// The cycle of active expiry, slice by slice.
pub(crate) struct ExpirySlices<'a> {
    pub(crate) core: &'a mut Core,
}

impl<'a> ExpirySlices<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> ExpirySlices<'a> {
        ExpirySlices { core }
    }
}

impl ExpirySlices<'_> {
    /// Begins a cycle, unless one is under way or expiry is held. Called in each period of the cron. A server
    /// with a primary expires only keys that its own clients have written.
    pub(crate) fn begin_expiry(&mut self, process: &mut dyn Process) {
        if !self.core.control.between_units(BetweenUnits::Expiry) {
            return;
        }
        self.core.refresh_derived();
        if self.core.control.is_expiry_held(process.now()) {
            self.core.upkeep.expiry.is_running = false;
            return;
        }
        if self.has_primary() {
            self.core.upkeep.expiry.is_running = false;
            if self.expire_local(process) {
                self.core.commit_unasked(process.recent());
                self.core.log_disconnected(process);
            }
            return;
        }
        self.core.control.replication.local_expiries.clear();
        if self.core.upkeep.expiry.is_running {
            self.core.stats.expiry.capped += 1;
            self.note_stale_share();
            return;
        }
        self.core.upkeep.expiry.is_running = true;
        self.core.upkeep.expiry.walk.begin(self.core.keyspace.databases());
        // Only commands executed from here on show that clients work.
        self.core.upkeep.expiry.commands = self.core.stats.total_commands;
    }

    pub(crate) fn take_expiry_slice(&mut self, process: &mut dyn Process) -> bool {
        if !self.core.upkeep.expiry.is_running || !self.core.control.between_units(BetweenUnits::Expiry) {
            return false;
        }
        self.core.refresh_derived();
        let start = process.now();
        if !self.is_slice_due(start.mono_ns) {
            return false;
        }
        // The rest of this cycle is left to the cycle that begins when expiry is no longer held.
        if self.core.control.is_expiry_held(start) || self.has_primary() {
            self.core.upkeep.expiry.is_running = false;
            return false;
        }
        let effort = self.core.control.config.int(param::ACTIVE_EXPIRE_EFFORT).clamp(1, 10) as u64 - 1;
        let has_deleted = self.expire_until(start.mono_ns + SLICE_NS, start, effort, process);
        if has_deleted {
            self.core.log_disconnected(process);
        }
        let end_ns = process.now().mono_ns;
        let spent_ns = end_ns.saturating_sub(start.mono_ns);
        self.core.stats.expiry.ns += spent_ns;
        self.core.stats.cron_ns += spent_ns;
        self.core.control.note_latency("expire-cycle", start, spent_ns);
        self.plan_slice(end_ns, spent_ns, effort);
        if self.core.upkeep.expiry.walk.is_over() {
            self.core.upkeep.expiry.is_running = false;
            self.note_stale_share();
        }
        true
    }

    /// Whether deletions of expired keys come from a primary.
    fn has_primary(&self) -> bool {
        self.core.control.replication.replica.is_some() && !mistake::is_made(Mistake::ReplicaExpires)
    }

    /// Runs steps of the cycle until it is over or `until_ns` has come. Returns whether a key was deleted.
    fn expire_until(&mut self, until_ns: u64, now: Now, effort: u64, process: &mut dyn Process) -> bool {
        let cycle = ExpireCycle {
            now_ms: now.unix_ms(),
            keys_per_round: (20 + 5 * effort) as usize,
            tolerated_percent: (10 - effort) as usize,
        };
        let mut has_deleted = false;
        while !self.core.upkeep.expiry.walk.is_over() {
            let done = self.core.keyspace.expire_step(
                cycle,
                &mut self.core.upkeep.expiry.walk,
                &mut self.core.effects,
            );
            self.core.upkeep.expiry.sampled += done.sampled;
            self.core.upkeep.expiry.expired += done.expired;
            if done.expired > 0 || done.fields > 0 {
                has_deleted = true;
                self.core.commit_unasked(now);
            }
            if process.now().mono_ns >= until_ns {
                break;
            }
        }
        has_deleted
    }

    /// Whether a slice may begin now. Notes whether clients work.
    fn is_slice_due(&mut self, now_ns: u64) -> bool {
        let commands = self.core.stats.total_commands;
        let expiry = &mut self.core.upkeep.expiry;
        if std::mem::replace(&mut expiry.commands, commands) != commands {
            expiry.worked_ns = Some(now_ns);
            expiry.next_ns = expiry.next_ns.max(expiry.shared_ns);
        }
        now_ns >= expiry.next_ns
    }

    /// Plans the start of the next slice after one that took `spent_ns`.
    fn plan_slice(&mut self, end_ns: u64, spent_ns: u64, effort: u64) {
        let share = SHARE_PERCENT + SHARE_PERCENT_PER_EFFORT * effort;
        let is_propagating = self.core.effects.propagating;
        let expiry = &mut self.core.upkeep.expiry;
        expiry.shared_ns = end_ns + spent_ns.min(SPENT_NS_MAX) * (100 - share) / share;
        let clients_work = expiry.worked_ns.is_some_and(|at_ns| end_ns.saturating_sub(at_ns) < WORKING_NS);
        expiry.next_ns = if clients_work || is_propagating { expiry.shared_ns } else { end_ns };
    }

    /// Updates the running average of INFO for the share of expired keys. A cycle that found none lowers it.
    fn note_stale_share(&mut self) {
        let sampled = std::mem::take(&mut self.core.upkeep.expiry.sampled);
        let expired = std::mem::take(&mut self.core.upkeep.expiry.expired);
        let percent = expired as f64 * 100.0 / sampled.max(1) as f64;
        self.core.stats.expiry.stale_percent = self.core.stats.expiry.stale_percent * 0.95 + percent * 0.05;
    }
}
