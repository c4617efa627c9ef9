//! Decides how many I/O threads run and are active, and which connections are to change their owner. The
//! policy is consulted ten times a second; `iteration/moves.rs` moves the connections.

use super::IoThreadId;
use super::balance::{Balance, Share};
use super::main_share::{MainShare, ShareSample};
use super::message::Settings;
use super::policy::{LoadSample, Policy};
use super::pool::{Pool, WorkTime};
use super::spin::{COMMANDS, Spin, SpinSample, would_be_idle};
use crate::host::{Host, NO_IO_THREADS};
use crate::test_switches;
use sluice_base::LogLevel;
use sluice_commands::Limits;
use sluice_config::param;
use sluice_daemon::usage::ThreadClock;
use sluice_engine::Engine;
use sluice_evloop::{Backend, Waker};
use std::sync::Arc;

/// Manages the number of I/O threads, and the distribution of connections among threads.
pub struct Manager {
    /// The threads and the rings.
    pub pool: Pool,
    /// The connections that are to change their owner.
    pub moves: Moves,
    policy: Policy,
    balance: Balance,
    main_share: MainShare,
    spin: Spin,
    /// The connections as the main thread last counted them.
    sockets: MainSockets,
    last: LastSample,
    /// The clock of the main thread's processor time.
    main_clock: ThreadClock,
    /// Monotonic ns of the last sample of the I/O threads' load.
    sampled_ns: u64,
    /// Number of I/O threads for which the configuration asks.
    configured: usize,
    /// Whether all I/O threads are active, whatever the load: `io-threads-always-active`.
    always: bool,
    /// When the next attempt is made to start threads that could not be started, monotonic ns.
    spawn_again_ns: u64,
    /// The settings that the I/O threads have.
    settings: Arc<Settings>,
    /// The limits from which `settings` were made.
    limits: Arc<Limits>,
}

/// Connections as the main thread counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct MainSockets {
    /// Number of slots in the table of clients, used or free.
    pub slots: usize,
    /// Number of connections that I/O threads were asked to return and still have.
    pub leaving: usize,
    /// Number of connections that always stay with the main thread, such as the link to the primary.
    pub bound: usize,
}

/// The counters at the last sample, from which the next sample's differences are computed.
#[derive(Debug, Default)]
struct LastSample {
    at_ns: u64,
    main: WorkTime,
    /// Nanoseconds that the main thread has spun.
    spun_ns: u64,
    commands: u64,
    idle_ticks: u64,
}

/// Connections that are to change their owner. A walk visits all clients, but only some of them in each
/// iteration, so that the length of an iteration does not depend on the number of connections.
#[derive(Debug, Default)]
pub struct Moves {
    /// Slot of the next client to visit.
    cursor: usize,
    /// First slot of the next walk. This is the slot after the last client that was moved, so that
    /// different clients move each time.
    start: usize,
    /// Number of slots that the walk has yet to visit.
    left: usize,
    /// Number of connections that each I/O thread is to give up, by the id of the thread.
    to_release: Vec<usize>,
    /// Number of connections of the main thread that are to go to I/O threads.
    to_hand_over: usize,
}

impl Moves {
    /// Whether a walk is under way.
    #[inline]
    pub fn are_pending(&self) -> bool {
        self.left > 0
    }

    /// Begins a walk over `slots` slots.
    fn begin(&mut self, slots: usize) {
        self.left = slots;
        self.cursor = self.start;
    }

    /// The next slot to visit in a table of `slots` slots; `None` at the walk's end.
    pub fn next_slot(&mut self, slots: usize) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let slot = if self.cursor < slots { self.cursor } else { 0 };
        self.cursor = slot + 1;
        Some(slot)
    }

    /// Whether the visited connection of an I/O thread is to be given up. If so, decrements the number of
    /// connections that this thread still has to give up.
    pub fn takes_from(&mut self, id: IoThreadId) -> bool {
        match self.to_release.get_mut(id.0) {
            Some(count) if *count > 0 => {
                *count -= 1;
                self.start = self.cursor;
                true
            }
            _ => false,
        }
    }

    /// Whether the visited connection of the main thread is to be given up.
    pub fn takes_from_main(&self) -> bool {
        self.to_hand_over > 0
    }

    /// Counts a connection of the main thread that has begun to move.
    pub fn took_from_main(&mut self) {
        self.to_hand_over = self.to_hand_over.saturating_sub(1);
        self.start = self.cursor;
    }

    fn set_release(&mut self, id: IoThreadId, count: usize) {
        if self.to_release.len() <= id.0 {
            self.to_release.resize(id.0 + 1, 0);
        }
        self.to_release[id.0] = count;
    }
}

/// Time from a failure to start threads until the next attempt.
const SPAWN_AGAIN_NS: u64 = 10_000_000_000;
/// The usual length of a sample: the cron's period.
const SAMPLE_NS: u64 = 100_000_000;
/// Minimum time between two samples, because a shorter sample is too noisy.
const SAMPLE_NS_MIN: u64 = 50_000_000;
/// Values of more than this many bytes are sent to an I/O thread with a batch, and freed there.
const FREED_BY_IO_THREADS_BYTES: usize = 1024;

impl Manager {
    /// A manager without I/O threads. Called on the main thread, which `main` wakes. `ring` overrides the
    /// size of the rings, for tests; 0 means the usual size.
    pub fn new(engine: &Engine, main: Waker, backend: Backend, ring: usize) -> Manager {
        Manager {
            pool: Pool::new(main, backend, ring),
            moves: Moves::default(),
            policy: Policy::new(0),
            balance: Balance::default(),
            main_share: MainShare::default(),
            spin: Spin::new(test_switches::number(test_switches::SPIN).is_some()),
            sockets: MainSockets::default(),
            last: LastSample::default(),
            main_clock: ThreadClock::of_this_thread(),
            sampled_ns: 0,
            configured: 0,
            always: false,
            spawn_again_ns: 0,
            settings: settings_of(engine, 0),
            limits: engine.limits().clone(),
        }
    }

    /// Brings the number of threads in line with `io-threads`, at once or after later retries (T-7). Makes
    /// all threads active if `io-threads-always-active` is set.
    pub fn configure(&mut self, engine: &mut Engine, host: &mut Host, now_ns: u64, slots: usize) {
        let config = engine.config();
        let configured = config.int(param::IO_THREADS_NUM).max(1) as usize - 1;
        self.always = config.bool(param::IO_THREADS_ALWAYS_ACTIVE);
        if configured != self.configured {
            self.configured = configured;
            let cap = configured.min(processors().saturating_sub(1));
            self.policy.set_cap(cap);
            let before = self.pool.active();
            if self.pool.stop_above(configured) {
                self.recall(slots);
            }
            host.shown.io_threads.shrunk += u64::from(self.pool.active() < before);
            if configured == 0 {
                self.spin.stop();
                let text = "io-threads 1: the main thread serves all connections; the I/O threads end";
                host.note(LogLevel::Notice, text);
            } else {
                self.spawn(engine, host, now_ns);
                self.log_expectation(host, cap);
            }
            self.publish_state(engine, host);
        }
        // With `io-threads-always-active`, the I/O threads become active at once, not with the next sample.
        if self.always && self.configured > 0 {
            self.policy.assume(self.configured);
            self.arrange(self.configured, engine, host, slots, &[]);
        }
    }

    /// Publishes the state of the I/O threads for INFO, and sets the lazy-free threshold by their number.
    fn publish_state(&mut self, engine: &mut Engine, host: &mut Host) {
        // While I/O threads take connections, they also free smaller values. Such a value is not worth a
        // message of its own, but costs nothing if it is sent with a batch.
        let above = match self.pool.active() {
            0 => sluice_keyspace::LAZY_FREE_BYTES,
            _ => FREED_BY_IO_THREADS_BYTES,
        };
        engine.set_lazyfree_threshold(above);
        let shown = &mut host.shown.io_threads;
        shown.reason = match (self.configured, self.always) {
            (0, _) => NO_IO_THREADS,
            (_, true) => "io-threads-always-active is set",
            (_, false) => self.policy.reason(),
        };
        shown.active = self.pool.active();
        shown.is_spinning = self.spin_ns() > 0;
        shown.placed.kept = match self.pool.active() {
            0 => 0,
            _ => self.of_main(engine),
        };
        let counts = self.pool.counts();
        (shown.parks, shown.polls) = (counts.parks, counts.polls);
        shown.full = [self.pool.full(), counts.full];
        // One line for each configured I/O thread. Threads beyond that number are not shown, but the pool
        // keeps their times in case threads with these numbers are started again.
        shown.active_us = self.pool.active_ns().iter().map(|ns| ns / 1000).collect();
        shown.active_us.resize(self.configured, 0);
    }

    /// Logs the conditions under which I/O threads become active, so that operators do not think that
    /// something is wrong when the threads are inactive under light load.
    fn log_expectation(&mut self, host: &mut Host, cap: usize) {
        let when = match self.always {
            true => "all take connections at once".to_owned(),
            false => format!(
                "up to {cap} of them take connections while the main thread is the bottleneck and a processor is free (this \
                 process has {}); see io_threads_reason in INFO server",
                processors()
            ),
        };
        let (wanted, ready) = (self.configured + 1, self.pool.threads());
        host.note(LogLevel::Notice, &format!("io-threads {wanted}: I/O threads ready: {ready}; {when}"));
    }

    fn spawn(&mut self, engine: &Engine, host: &mut Host, now_ns: u64) {
        self.renew_settings(engine);
        if let Err(error) = self.pool.spawn_up_to(self.configured, &self.settings) {
            let (got, count) = (self.pool.threads(), self.configured);
            let text = format!("Could not start all I/O threads: {error}. {got} of {count} run.");
            host.note(LogLevel::Warning, &text);
            self.spawn_again_ns = now_ns + SPAWN_AGAIN_NS;
        }
    }

    fn renew_settings(&mut self, engine: &Engine) {
        self.limits = engine.limits().clone();
        self.settings = settings_of(engine, self.spin_ns());
    }

    /// Sends the I/O threads new settings if the limits have changed, or if `configured` says that a
    /// configuration directive has changed.
    #[inline]
    pub fn send_settings(&mut self, engine: &Engine, configured: bool) {
        if self.pool.is_running() && (configured || !Arc::ptr_eq(&self.limits, engine.limits())) {
            self.renew_settings(engine);
            self.pool.publish(&self.settings);
        }
    }

    /// Decides how many I/O threads shall be active (by the policy, or all of them) and whether threads
    /// spin, and has connections move accordingly. Starts threads that could not be started before. Called
    /// ten times a second.
    pub fn manage(&mut self, engine: &mut Engine, host: &mut Host, now_ns: u64, sockets: MainSockets) {
        if !self.pool.is_running() && self.configured == 0 {
            return;
        }
        self.sockets = sockets;
        let slots = sockets.slots;
        let shares = self.sample_io_threads(now_ns);
        // With `io-threads-always-active`, the samples only decide whether threads spin. They are therefore
        // omitted while there are few commands, unless threads already spin or a test forces threads to
        // spin.
        let commands = engine.commands_executed().saturating_sub(self.last.commands);
        let is_quiet = self.always && !self.spin.needs_samples() && commands < COMMANDS;
        let sample = (!is_quiet).then(|| self.sample(engine, host, now_ns, &shares)).flatten();
        let wanted = if self.always {
            self.policy.assume(self.configured);
            // With `io-threads-always-active` the I/O threads get all connections.
            self.main_share.give_all();
            self.configured
        } else {
            match sample {
                Some(signals) => {
                    self.share_main(engine, signals);
                    self.policy.step(signals)
                }
                None => self.pool.active(),
            }
        };
        if let Some(signals) = sample {
            self.decide_spinning(engine, signals, wanted.min(self.pool.threads()));
        }
        if self.pool.threads() < self.configured && now_ns >= self.spawn_again_ns {
            self.spawn(engine, host, now_ns);
        }
        self.arrange(wanted, engine, host, slots, &shares);
    }

    /// Makes `wanted` I/O threads active, and has connections move accordingly. `shares`: the load of the
    /// I/O threads that were active until now; empty if it was not sampled.
    fn arrange(
        &mut self,
        wanted: usize,
        engine: &mut Engine,
        host: &mut Host,
        slots: usize,
        shares: &[Share],
    ) {
        let before = self.pool.active();
        self.pool.set_active(wanted);
        let now = self.pool.active();
        if now != before {
            host.shown.io_threads.grown += u64::from(now > before);
            host.shown.io_threads.shrunk += u64::from(now < before);
            let word = if now > before { "increased" } else { "decreased" };
            host.note(LogLevel::Debug, &format!("I/O threads {word} from {} to {}", before + 1, now + 1));
            self.recall(slots);
        } else {
            self.even_out(host, slots, shares);
        }
        if now > 0 {
            self.keep_share(engine, slots);
        }
        self.publish_state(engine, host);
    }

    /// Decides how many connections the main thread keeps. Changes nothing while the policy tries out another
    /// I/O thread.
    fn share_main(&mut self, engine: &Engine, signals: LoadSample) {
        if !self.policy.is_trying() {
            self.main_share.step(ShareSample {
                main_busy: signals.main_busy,
                io_threads_busy: signals.io_threads_busy,
                io_threads: self.pool.active(),
                connections: self.pool.all_connections(),
                of_main: self.of_main(engine),
                may_take: !self.policy.may_grow(signals),
            });
        }
    }

    /// Decides whether threads spin. `io_threads`: how many I/O threads take connections from now on.
    fn decide_spinning(&mut self, engine: &Engine, signals: LoadSample, io_threads: usize) {
        let before = self.spin_ns();
        self.spin.step(SpinSample {
            io_threads,
            main_busy: signals.main_busy,
            io_threads_busy: signals.io_threads_busy,
            idle_processors: signals.idle_processors,
            commands: signals.commands,
        });
        if self.spin_ns() != before {
            self.renew_settings(engine);
            self.pool.publish(&self.settings);
        }
    }

    /// How long threads poll for work before they sleep, ns; 0 if they do not poll.
    #[inline]
    pub fn spin_ns(&self) -> u64 {
        self.spin.ns()
    }

    /// How many connections the main thread keeps while I/O threads are active.
    fn kept(&self) -> usize {
        match test_switches::number(test_switches::KEPT) {
            None => self.main_share.kept(),
            // With the test switch, the number changes with each sample, so that connections move back
            // and forth.
            Some(most) => (self.sampled_ns / SAMPLE_NS % most.saturating_add(1)) as usize,
        }
    }

    /// Number of connections that the main thread has and may give away. Connections that I/O threads were
    /// asked to return count only when they have arrived.
    fn of_main(&self, engine: &Engine) -> usize {
        engine.connections().all.saturating_sub(self.pool.all_connections() + self.sockets.bound)
    }

    /// Whether a connection that was just accepted, or returned by an I/O thread, stays with the main
    /// thread.
    pub fn keeps_another(&self, engine: &Engine) -> bool {
        // `of_main` includes this connection.
        self.pool.active() == 0 || self.of_main(engine) <= self.kept()
    }

    /// Starts moving connections so that the main thread finally has the number of connections that it is to
    /// keep (`kept`).
    fn keep_share(&mut self, engine: &Engine, slots: usize) {
        let (has, keeps) = (self.of_main(engine), self.kept());
        self.moves.to_hand_over = has.saturating_sub(keeps);
        // Connections that I/O threads are about to return are not requested again.
        let missing = keeps.saturating_sub(has.saturating_add(self.sockets.leaving));
        if self.moves.are_pending() {
            // The walk that is under way moves the connections.
        } else if has > keeps {
            self.moves.to_release.clear();
            self.moves.begin(slots);
        } else if missing > 0 {
            self.moves.to_release.clear();
            let active = self.pool.active_ids();
            let each = missing.div_ceil(active.len().max(1));
            active.iter().for_each(|id| self.moves.set_release(*id, each));
            self.moves.begin(slots);
        }
    }

    /// Begins to take back the connections of inactive I/O threads, and the connections that active
    /// threads have beyond an even share.
    fn recall(&mut self, slots: usize) {
        self.moves.to_release.clear();
        for id in self.pool.active_ids() {
            self.moves.set_release(id, self.pool.surplus(id));
        }
        self.moves.begin(slots);
    }

    /// Begins to move connections away from an I/O thread that is busier than the others.
    fn even_out(&mut self, host: &mut Host, slots: usize, shares: &[Share]) {
        if let Some(wanted) = self.balance.step(shares) {
            self.moves.set_release(wanted.id, wanted.count);
            self.moves.begin(slots);
            host.shown.io_threads.placed.balanced += wanted.count as u64;
        }
    }

    /// The load of each active I/O thread since the last sample; empty if the last sample is too recent,
    /// or no thread is active.
    fn sample_io_threads(&mut self, now_ns: u64) -> Vec<Share> {
        let wall_ns = now_ns.saturating_sub(self.sampled_ns);
        if wall_ns < SAMPLE_NS_MIN {
            return Vec::new();
        }
        self.sampled_ns = now_ns;
        self.pool.sample(wall_ns)
    }

    /// The load since the last sample; `None` if the last sample is too recent, or `shares` lacks the
    /// active threads.
    fn sample(&mut self, engine: &Engine, host: &Host, now_ns: u64, shares: &[Share]) -> Option<LoadSample> {
        let wall = now_ns.saturating_sub(self.last.at_ns);
        let active = self.pool.active();
        if wall < SAMPLE_NS_MIN || (shares.is_empty() && active > 0) {
            return None;
        }
        let spun_ns = host.work.spun_ns;
        let spent_ns = match self.main_clock.spent_ns() {
            Some(spent_ns) => spent_ns.saturating_sub(spun_ns),
            None => self.last.main.spent_ns,
        };
        let main = WorkTime { active_ns: host.work.active_ns, spent_ns };
        let commands = engine.commands_executed();
        let main_busy = main.busy_since(self.last.main, wall);
        let io_threads_busy = match active {
            0 => 0.0,
            n => shares.iter().map(|share| share.busy).sum::<f64>() / n as f64,
        };
        // Reading /proc/stat costs some ten microseconds, so it is read only if the idle time can matter.
        let mut idle_processors = 0.0;
        let known_ticks = std::mem::take(&mut self.last.idle_ticks);
        if main_busy > 0.5 || active > 0 {
            let ticks = idle_ticks();
            self.last.idle_ticks = ticks;
            if known_ticks != 0 {
                let idle_ns = ticks.saturating_sub(known_ticks) as f64 * tick_ns();
                // The quota also bounds the idle processors, because under a quota an idle processor may
                // not be available to this process.
                let ours = processors() as f64 - main_busy - io_threads_busy * active as f64;
                // A processor on which a thread has spun counts as idle.
                let spun = spun_ns.saturating_sub(self.last.spun_ns) as f64 / wall as f64 + self.pool.spun();
                idle_processors = would_be_idle(idle_ns / wall as f64, spun).min(ours).max(0.0);
            }
        }
        let commands_seen = commands.saturating_sub(self.last.commands);
        let signals = LoadSample {
            main_busy,
            io_threads_busy,
            idle_processors,
            commands: (commands_seen as f64 * SAMPLE_NS as f64 / wall as f64) as u64,
        };
        self.last = LastSample { at_ns: now_ns, main, spun_ns, commands, idle_ticks: self.last.idle_ticks };
        Some(signals)
    }
}

/// The settings that I/O threads need, from the engine's settings and `spin_ns`.
fn settings_of(engine: &Engine, spin_ns: u64) -> Arc<Settings> {
    let limits = engine.limits();
    Arc::new(Settings {
        preparer: engine.preparer(),
        limits: limits.clone(),
        gather_depth: match engine.config().int(param::EVENT_LOOP_BATCH_WAIT_US) {
            0 => u64::from(u32::MAX),
            _ => engine.config().uint(param::EVENT_LOOP_BATCH_WAIT_DEPTH),
        },
        spin_ns,
    })
}

/// Number of processors that this process may use: the smaller of the size of its affinity mask and the quota
/// of its control group, which is rounded down, but is at least 1.
fn processors() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    allowed.max(1)
}

/// Idle time of this process's processors since the machine started, in ticks; 0 if the system does
/// not report it.
fn idle_ticks() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/stat") else { return 0 };
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok();
    let ours = |number: usize| allowed.is_none_or(|set| set.is_set(number).unwrap_or(false));
    let mut ticks = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        if number.is_some_and(ours) {
            // The columns are user, nice, system, idle, iowait.
            ticks += words.skip(3).take(2).filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
        }
    }
    ticks
}

/// Nanoseconds in a tick, usually ten million.
fn tick_ns() -> f64 {
    let hz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten();
    1e9 / hz.filter(|hz| *hz > 0).unwrap_or(100) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_sees_every_slot_once_and_begins_behind_the_last_that_was_taken() {
        let mut moves = Moves::default();
        for expected in [[0, 1, 2, 3, 4], [2, 3, 4, 0, 1], [4, 0, 1, 2, 3]] {
            moves.set_release(IoThreadId(0), 2);
            moves.begin(5);
            let mut seen = Vec::new();
            while let Some(slot) = moves.next_slot(5) {
                moves.takes_from(IoThreadId(0));
                seen.push(slot);
            }
            assert_eq!(seen, expected);
            assert!(!moves.are_pending());
        }
    }

    #[test]
    fn an_io_thread_gives_up_as_many_as_were_counted() {
        let mut moves = Moves::default();
        moves.set_release(IoThreadId(2), 2);
        let taken = |moves: &mut Moves, id| (0..5).filter(|_| moves.takes_from(IoThreadId(id))).count();
        assert_eq!((taken(&mut moves, 2), taken(&mut moves, 0), taken(&mut moves, 9)), (2, 0, 0));
    }
}
