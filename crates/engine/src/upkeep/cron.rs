//! Periodic work, such as output limits, idle clients, rates, and PING to replicas.

use crate::core::Core;
use crate::persistence::background::Jobs;
use crate::replication::full_sync::FullCopies;
use crate::replication::replicas::ReplicaFeeds;
use sluice_base::LogLevel;
use sluice_config::param;
use sluice_control::action::Action;
use sluice_control::process::Process;
use sluice_session::{ClientKind, Closing};

/// Steps of the cron: its walk over the clients, and its work of each second.
pub(crate) struct CronSteps<'a> {
    core: &'a mut Core,
}

impl<'a> CronSteps<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> CronSteps<'a> {
        CronSteps { core }
    }
}

impl CronSteps<'_> {
    /// Checks a share of the clients, so that each is checked about once a second: whether it is idle, its
    /// output is beyond the limit, or its query buffer is larger than needed. Also resets the recorded peak
    /// of its output to the present size, and notes its memory for the metrics endpoint and its page.
    pub(crate) fn walk_clients(&mut self, now: sluice_base::Now, hz: i64, process: &mut dyn Process) {
        let slots = self.core.sessions.slots();
        let share = (slots / hz as usize).max(slots.min(5));
        let timeout = self.core.control.config.int(param::TIMEOUT);
        let sums_memory = self.core.control.config.int(param::METRICS_PORT) != 0;
        let is_watched = self.core.upkeep.cron.page.gathers_clients(now);
        for _ in 0..share {
            let slot = self.core.upkeep.cron.next_client_slot % slots.max(1);
            self.core.upkeep.cron.next_client_slot = slot + 1;
            if slot == 0 && sums_memory {
                self.core.upkeep.cron.client_memory.begin();
            }
            if slot == 0 && is_watched {
                self.core.upkeep.cron.page.clients.begin();
            }
            let Some(session) = self.core.sessions.in_slot(slot) else { continue };
            if sums_memory {
                self.core.upkeep.cron.client_memory.so_far.add(session);
            }
            if is_watched {
                self.core.upkeep.cron.page.clients.add(session);
            }
            let key = session.key;
            let idle = now.unix_s() - session.caller.traffic.last_s;
            session.output_peak = sluice_base::heap::short(session.output_bytes());
            let flags = session.caller.flags;
            let exempt = session.caller.kind != ClientKind::Normal
                || flags.monitor
                || session.waiting.is_some()
                || session.caller.subscribed.is_any();
            if timeout > 0 && idle > timeout && !exempt {
                session.caller.closing = Closing::Now;
                self.core.control.clients.to_close.push(key);
                process.log(LogLevel::Verbose, "Closing idle client");
                continue;
            }
            if session.caller.traffic.input_bytes > 0 || session.caller.traffic.input_free > 0 {
                self.core.actions.push(Action::TrimInput { key, idle_s: idle });
            }
            ReplicaFeeds::of(self.core).check_output_limit(key, process);
        }
    }

    pub(crate) fn each_second(&mut self, now: sluice_base::Now, process: &mut dyn Process) {
        FullCopies::of(self.core).watch_full_syncs(now, process);
        ReplicaFeeds::of(self.core).limit_replicas(process);
        self.core.control.end_idle_history(now, process);
        self.core.control.forget_reserved(now);
        self.core.control.replication.count_good_replicas = true;
        Jobs::of(self.core).watch_job(now, process);
        self.core.stats.output_peaks.enter_second(now.unix_s());
        let period_s = self.core.control.config.int(param::REPL_PING_REPLICA_PERIOD);
        let period_ns = u64::try_from(period_s).unwrap_or(0).saturating_mul(1_000_000_000);
        // The first PING is sent a period after the start, so that the stream still ends at the offset of a
        // replica that reconnects. A new stream at offset 0 gets a PING at once, because in a cluster a
        // replica at offset 0 counts as one without data.
        let last_ns = *self.core.upkeep.cron.last_ping_ns.get_or_insert(now.mono_ns);
        let stream = &self.core.control.replication.stream;
        let is_new = stream.offset == 0 && stream.earlier.is_none();
        let is_due = is_new || now.mono_ns.saturating_sub(last_ns) >= period_ns;
        // No PING is sent during a failover, because the replica that the failover waits for must be able
        // to reach the end of the stream.
        if self.core.control.replication.failover.is_none()
            && !self.core.control.is_handing_over()
            && !self.core.control.replication.stream.replicas.is_empty()
            && is_due
        {
            self.core.upkeep.cron.last_ping_ns = Some(now.mono_ns);
            // The name of the command is in lower case, as in the reference.
            self.core.control.replication.stream.command_of_its_own([&b"ping"[..]].into_iter());
        }
    }

    pub(crate) fn sample_rates(&mut self, now: sluice_base::Now, process: &mut dyn Process) {
        let now_us = now.mono_ns / 1000;
        if now_us.saturating_sub(self.core.upkeep.cron.rate_at_us) < 100_000 {
            return;
        }
        self.core.upkeep.cron.rate_at_us = now_us;
        let counts = process.counts();
        let rates = &mut self.core.stats.rates;
        rates.ops.sample(self.core.stats.total_commands, now_us, 1_000_000);
        rates.input.sample(counts.net_input_bytes, now_us, 1_000_000);
        rates.output.sample(counts.net_output_bytes, now_us, 1_000_000);
        rates.repl_input.sample(counts.net_repl_input_bytes, now_us, 1_000_000);
        rates.cycles.sample(counts.cycles, now_us, 1_000_000);
        rates.cycle_us.sample(counts.cycle_us, counts.cycles, 1);
    }
}
