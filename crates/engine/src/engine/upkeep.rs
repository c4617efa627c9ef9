//! The work that the engine does by the clock.

use crate::cluster::driving::notice_standstill;
use crate::engine::Engine;
use crate::observe::page::PageRows;
use crate::observe::progress::tell_progress;
use crate::persistence::rewriting::Rewrites;
use crate::persistence::saving::Saves;
use crate::pubsub::tracking::TrackingSteps;
use crate::upkeep::compaction::CompactionSteps;
use crate::upkeep::cron::CronSteps;
use crate::upkeep::evict::Evictions;
use crate::upkeep::expire::ExpirySlices;
use crate::waiting::ending::WaitEnds;
use crate::waiting::migration::MigrationEnds;
use sluice_config::param;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;

impl Engine {
    /// Does the work that is due. Returns the number of milliseconds until the next call is needed.
    pub fn cron(&mut self, process: &mut dyn Process) -> u64 {
        self.core.refresh_derived();
        // A standstill must be noticed before requests that were held go on here.
        notice_standstill(&mut self.core, process);
        let now = process.now();
        let hz = self.core.control.config.int(param::HZ).clamp(1, 500);
        let period = 1000 / hz;
        let next_deadline_ms = WaitEnds::of(&mut self.core).expire_waits(now, process).unwrap_or(u64::MAX);
        let is_early = now.unix_ms() < self.core.upkeep.cron.next_ms
            && self.core.upkeep.cron.next_ms - now.unix_ms() <= period;
        let eviction_ms = Evictions::of(&mut self.core).evict_by_clock(!is_early, process);
        // If a stream was evicted, clients that wait for a consumer group of the stream are served now.
        self.serve_waiting(process);
        let compaction_ms = CompactionSteps::of(&mut self.core)
            .compact(!is_early, process)
            .min(eviction_ms)
            .min(TrackingSteps::of(&mut self.core).tracking_wait_ms());
        if is_early {
            let left_ms = (self.core.upkeep.cron.next_ms - now.unix_ms()) as u64;
            return left_ms.min(next_deadline_ms).min(compaction_ms);
        }
        self.core.upkeep.cron.next_ms = now.unix_ms() + period;
        self.end_pause(now, process);
        MigrationEnds::of(&mut self.core).end_paused_migrations(process);
        self.serve_waiting(process);
        self.check_entry_space(process);
        Saves::of(&mut self.core).save_if_due(now, process);
        Rewrites::of(&mut self.core).rewrite_if_due(now, process);
        self.serve_waiting(process);
        if !self.core.control.debug.cron_paused {
            ExpirySlices::of(&mut self.core).begin_expiry(process);
            self.serve_waiting(process);
            CronSteps::of(&mut self.core).walk_clients(now, hz, process);
            if self.core.control.debug.resizing && self.core.control.config.bool(param::ACTIVEREHASHING) {
                self.core.keyspace.shrink_step(64);
            }
        }
        if now.unix_s() != self.core.upkeep.cron.last_second {
            self.core.upkeep.cron.last_second = now.unix_s();
            CronSteps::of(&mut self.core).each_second(now, process);
        }
        self.core.control.clients.hot_keys.command.end_window(now.mono_ns);
        CronSteps::of(&mut self.core).sample_rates(now, process);
        tell_progress(&mut self.core, now, process);
        PageRows::of(&mut self.core).look_at_keys(now, hz as u64, process);
        self.core.stats.cron_ns += process.now().mono_ns.saturating_sub(now.mono_ns);
        compaction_ms.min(next_deadline_ms).min(period as u64)
    }

    fn end_pause(&mut self, now: sluice_base::Now, process: &mut dyn Process) {
        if self.core.control.clients.pause.until_ms != 0 && !self.core.control.clients.pause.active(now) {
            self.core.control.end_pause();
            self.serve_waiting(process);
        }
    }

    /// When expiry needs its next slice ([`Engine::expire_slice`]): monotonic nanoseconds, `u64::MAX` while
    /// there is nothing to do, or an open execution unit holds expiry back.
    #[inline]
    pub fn next_expiry_ns(&self) -> u64 {
        match self.core.upkeep.expiry.is_running && self.core.control.between_units(BetweenUnits::Expiry) {
            true => self.core.upkeep.expiry.next_ns,
            false => u64::MAX,
        }
    }

    /// Goes on with the cycle of expiry under way if a slice is due, and returns whether one was due. To be
    /// called while no command or transaction is in progress, once an iteration. While iterations execute
    /// commands, slices are due less often.
    pub fn expire_slice(&mut self, process: &mut dyn Process) -> bool {
        let was_due = ExpirySlices::of(&mut self.core).take_expiry_slice(process);
        self.serve_waiting(process);
        was_due
    }
}
