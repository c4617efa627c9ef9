//! Eviction of keys above `maxmemory`, and of clients above `maxmemory-clients`.

use crate::cluster::export_links::held_for_targets;
use crate::cluster::lost_keys::LostKeySteps;
use crate::core::Core;
use crate::persistence::background::Jobs;
use crate::replication::replicas::ReplicaFeeds;
use crate::upkeep::detached::DetachedSteps;
use sluice_base::LogLevel;
use sluice_base::Now;
use sluice_base::SessionKey;
use sluice_control::action::Action;
use sluice_control::between_units::BetweenUnits;
use sluice_control::process::Process;
use sluice_control::upkeep::evict::{Headroom, MemoryGauge};
use sluice_keyspace::EvictionRule;
use sluice_resp::Protocol;
use sluice_session::Closing;

/// Nanoseconds for which a reading of the allocator is used if less than a quarter of the limit is left.
const GAUGE_FRESH_NS: u64 = 1_000_000;
/// Nanoseconds for which a reading is used if a quarter of the limit or more is left. The cron takes a
/// reading at each run, and with `hz` above 4 its runs are less than this apart, so writes need not take
/// readings. A reading takes some 60 microseconds, and a client that writes seldom would wait for one with
/// each write.
const GAUGE_FAR_NS: u64 = 250_000_000;

/// Number of keys evicted between two readings of the clock.
const KEYS_PER_LOOK: u64 = 16;

/// Number of steps of `Keyspace::clear_remains` between two readings of the clock.
const STEPS_PER_LOOK: usize = 256;

/// Number of keys whose deletions are committed together.
const KEYS_PER_COMMIT: u64 = 128;

/// With up to this many clients, their sizes are checked in each iteration; with more, every
/// [`CLIENTS_EVERY_NS`].
const FEW_CLIENTS: usize = 256;

/// Nanoseconds between two checks of the clients' sizes if there are more than [`FEW_CLIENTS`].
const CLIENTS_EVERY_NS: u64 = 10_000_000;

/// Steps that evict keys, and close the largest clients.
pub(crate) struct Evictions<'a> {
    core: &'a mut Core,
}

impl<'a> Evictions<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> Evictions<'a> {
        Evictions { core }
    }
}

impl Evictions<'_> {
    fn note_room(&mut self, room: Headroom, now: Now) -> Headroom {
        self.core.upkeep.eviction.is_running = room == Headroom::Later;
        self.core.stats.eviction.memory_exceeded.note(room != Headroom::Enough, now);
        room
    }

    /// Bytes of memory as `maxmemory` counts them.
    fn counted_memory(&mut self, process: &mut dyn Process) -> usize {
        let now_ns = process.recent().mono_ns;
        let gauge = self.core.upkeep.eviction.gauge;
        let limit = self.core.control.limits.maxmemory;
        let is_far = self.gauged_bytes() < limit - limit / 4;
        let fresh_ns = if is_far { GAUGE_FAR_NS } else { GAUGE_FRESH_NS };
        let is_fresh = gauge.read_at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < fresh_ns);
        if !is_fresh {
            let uncounted = Jobs::of(self.core).held_by_job()
                + self.core.control.clients.slow_reads.retained_bytes
                + ReplicaFeeds::of(self.core).held_for_replicas()
                + held_for_targets(self.core)
                + self.left_garbage_bytes()
                + self.core.control.persistence.aof.promised_bytes()
                + if self.core.control.persistence.aof.is_on() {
                    process.aof().buffer_bytes as usize
                } else {
                    0
                };
            let counted_bytes = process.counted_memory(&self.core.keyspace).saturating_sub(uncounted);
            let data_bytes = self.core.keyspace.data_bytes();
            self.core.upkeep.eviction.gauge =
                MemoryGauge { read_at_ns: Some(now_ns), counted_bytes, data_bytes };
        }
        self.gauged_bytes()
    }

    /// Bytes that count for `maxmemory`, estimated from the last reading.
    fn gauged_bytes(&self) -> usize {
        let MemoryGauge { counted_bytes, data_bytes, .. } = self.core.upkeep.eviction.gauge;
        (counted_bytes + self.core.keyspace.data_bytes()).saturating_sub(data_bytes)
    }

    /// Bytes of values and databases that are to be freed by another thread and were not handed over yet.
    fn left_garbage_bytes(&self) -> usize {
        let bytes = |action: &Action| match action {
            Action::FreeValue(value) if !value.is_shared() => value.heap_bytes(),
            Action::FreeDb(db) => db.allocated_bytes(),
            _ => 0,
        };
        self.core.actions.iter().map(bytes).sum()
    }

    /// Frees garbage, and then evicts keys, while `maxmemory` is exceeded, until the time is up. To be called
    /// between commands or transactions, if there is a limit; `proto` is that of the client whose command is
    /// about to run.
    #[cold]
    pub(crate) fn make_room(&mut self, proto: Protocol, process: &mut dyn Process) -> Headroom {
        let limit = self.core.control.limits.maxmemory;
        let now = process.recent();
        if !self.core.control.between_units(BetweenUnits::Eviction) {
            return Headroom::Enough;
        }
        self.core.refresh_derived();
        if limit == 0 || self.counted_memory(process) <= limit || !self.core.control.may_evict(now) {
            return self.note_room(Headroom::Enough, now);
        }
        let room = self.free_lost(now, process).or_else(|| self.clear_remains(now, process));
        if let Some(room) = room {
            return self.note_room(room, process.now());
        }
        let rule = self.core.control.limits.eviction.rule.filter(|_| !self.core.control.limits.import_mode);
        let Some((order, among)) = rule else {
            return self.note_room(Headroom::None, now);
        };
        if self.core.upkeep.eviction.rule.replace((order, among)) != Some((order, among)) {
            self.core.upkeep.eviction.pool.clear();
        }
        let eviction = self.core.control.limits.eviction;
        let lfu_decay = self.core.control.limits.lfu_decay;
        let rule = EvictionRule { order, among, samples: eviction.samples, lfu_decay, now };
        let mut evicted = 0;
        let room = loop {
            let Core { keyspace, upkeep, rng, effects, .. } = &mut *self.core;
            let state = &mut upkeep.eviction;
            if !keyspace.evict(&rule, &mut state.pool, rng, effects) {
                break Headroom::None;
            }
            evicted += 1;
            if self.gauged_bytes() <= limit {
                break Headroom::Enough;
            }
            if evicted % KEYS_PER_COMMIT == 0 {
                self.core.commit_unasked_before(now, proto);
            }
            if evicted % KEYS_PER_LOOK == 0
                && process.now().mono_ns.saturating_sub(now.mono_ns) >= eviction.budget_ns
            {
                break Headroom::Later;
            }
        };
        self.core.commit_unasked_before(now, proto);
        let end = process.now();
        self.core.control.note_latency("eviction-cycle", now, end.mono_ns.saturating_sub(now.mono_ns));
        self.note_room(room, end)
    }

    /// Frees keys of detached slots (`upkeep/detached.rs`), and deletes keys of slots that another node owns
    /// now, before a key is evicted or a command is refused. `None` if that was not enough.
    fn free_lost(&mut self, now: Now, process: &mut dyn Process) -> Option<Headroom> {
        let (limit, budget_ns) =
            (self.core.control.limits.maxmemory, self.core.control.limits.eviction.budget_ns);
        while DetachedSteps::of(self.core).free_some(now) || LostKeySteps::of(self.core).delete_some(process)
        {
            if self.gauged_bytes() <= limit {
                return Some(Headroom::Enough);
            }
            if process.now().mono_ns.saturating_sub(now.mono_ns) >= budget_ns {
                return Some(Headroom::Later);
            }
        }
        None
    }

    /// Frees the memory that sorted sets hold for removed elements, before a key is evicted or a command
    /// is refused. `None` if that was not enough.
    fn clear_remains(&mut self, now: Now, process: &mut dyn Process) -> Option<Headroom> {
        if self.core.has_job() {
            // Nothing is freed while a snapshot or rewrite is made. Compaction, which frees this memory at
            // other times, does nothing then either.
            return None;
        }
        let (limit, budget_ns) =
            (self.core.control.limits.maxmemory, self.core.control.limits.eviction.budget_ns);
        for db in 0..self.core.keyspace.databases() {
            while self.core.keyspace.clear_remains(db, STEPS_PER_LOOK) {
                let remains = self.core.keyspace.take_remains(db);
                self.core.actions.extend(remains.into_iter().map(Action::FreeValue));
                if self.gauged_bytes() <= limit {
                    return Some(Headroom::Enough);
                }
                if process.now().mono_ns.saturating_sub(now.mono_ns) >= budget_ns {
                    return Some(Headroom::Later);
                }
            }
        }
        None
    }

    /// Goes on with an eviction that had no time left, or checks whether one is needed. Returns the
    /// milliseconds until the next call.
    pub(crate) fn evict_by_clock(&mut self, looks: bool, process: &mut dyn Process) -> u64 {
        if self.core.control.limits.maxmemory == 0 || !(looks || self.core.upkeep.eviction.is_running) {
            return u64::MAX;
        }
        if looks {
            // The last reading is discarded, so that a new one is taken now: between readings only changes
            // of the data's bytes are noticed.
            self.core.upkeep.eviction.gauge.read_at_ns = None;
        }
        let room = self.make_room(Protocol::Resp2, process);
        self.core.log_disconnected(process);
        if room == Headroom::Later { 0 } else { u64::MAX }
    }

    /// Closes the largest clients while all clients together take `maxmemory-clients` or more. Once an
    /// iteration.
    pub(crate) fn evict_clients(&mut self, process: &mut dyn Process) {
        let limit = self.core.control.limits.maxmemory_clients;
        if limit == 0 {
            return;
        }
        let now = process.recent();
        if self.core.sessions.len() > FEW_CLIENTS && now.mono_ns < self.core.upkeep.eviction.next_clients_ns {
            return;
        }
        self.core.upkeep.eviction.next_clients_ns = now.mono_ns + CLIENTS_EVERY_NS;
        let (mut sum, mut largest) = self.client_sizes();
        if sum < limit {
            return;
        }
        largest.sort_unstable_by_key(|(bytes, _)| *bytes);
        while sum >= limit {
            let Some((bytes, key)) = largest.pop() else {
                process.log(LogLevel::Warning, "Over client maxmemory after evicting all evictable clients");
                return;
            };
            sum -= bytes;
            self.evict_client(key, process);
        }
    }

    /// Bytes of all clients that `maxmemory-clients` counts, and of each client that may be closed.
    fn client_sizes(&self) -> (usize, Vec<(usize, SessionKey)>) {
        let (mut sum, mut evictable) = (0, Vec::new());
        for session in self.core.sessions.iter() {
            let caller = &session.caller;
            let is_moving = caller.is_import() || caller.is_export();
            let is_spared = caller.replica.is_some() || caller.is_primary() || is_moving;
            if is_spared || caller.closing == Closing::Now {
                continue;
            }
            let bytes = session.total_bytes(self.core.control.clients.line_sources());
            sum += bytes;
            if !session.caller.flags.no_evict {
                evictable.push((bytes, session.key));
            }
        }
        (sum, evictable)
    }

    fn evict_client(&mut self, key: SessionKey, process: &mut dyn Process) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let mut text = String::from("Evicting client: ");
        session.push_line(
            process.recent().unix_s(),
            self.core.control.clients.line_sources(),
            None,
            &mut text,
        );
        process.log(LogLevel::Notice, &text);
        session.caller.closing = Closing::Now;
        self.core.control.clients.to_close.push(key);
        self.core.stats.eviction.clients += 1;
    }
}
