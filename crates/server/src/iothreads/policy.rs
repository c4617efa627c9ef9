//! Decides how many I/O threads shall be active. This is a pure state machine that takes a step ten times a
//! second.
//!
//! An I/O thread does the receiving, parsing and sending for the main thread. This pays if the main
//! thread is the bottleneck *and* a processor is free for the I/O thread; otherwise two threads share one
//! processor, and handing requests over costs additional time. Both conditions are therefore required,
//! and each decision is checked: an I/O thread that did not increase the throughput is made inactive
//! again.
//!
//! The constants come from the model in the tests below and from runs on two and on sixteen
//! processors; see `docs/design/io-threads.md`.

/// The load in the last tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadSample {
    /// The part of the time, 0 to 1, in which the main thread had work, or in which it was on a processor if
    /// this part is larger.
    pub main_busy: f64,
    /// Mean busy share of the active I/O threads, measured in the same way.
    pub io_threads_busy: f64,
    /// Idle processors, as a number of processors.
    pub idle_processors: f64,
    /// Number of commands executed in a tenth of a second.
    pub commands: u64,
}

/// The state machine that decides how many I/O threads are active.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Number of I/O threads that may be active: the configured number, limited by the number of processors.
    cap: usize,
    active: usize,
    pressed: u32,
    slack: u32,
    trial: Option<Trial>,
    /// Number of samples until another I/O thread may be tried.
    holdoff: u32,
    /// The highest rate, in commands per `TRIAL_SAMPLES` samples, that was measured before a trial that
    /// then failed; 0 after a success.
    failed_at: u64,
    /// Number of samples for which no I/O thread is tried after the next failed trial. The number doubles
    /// with each trial that fails while the load lasts.
    penalty: u32,
    /// Numbers of commands in the most recent samples, newest last.
    recent: [u64; TRIAL_SAMPLES],
    thresholds: Thresholds,
    /// Whether the main thread, or the I/O threads, were busy enough in the last sample to be the bottleneck.
    bottleneck: bool,
}

/// A trial of additional I/O threads.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Number of active I/O threads before the trial.
    from: usize,
    /// Number of commands in the [`TRIAL_SAMPLES`] samples before the trial.
    before: u64,
    /// Number of commands since the trial began, without the commands of the first [`SETTLE_SAMPLES`]
    /// samples.
    seen: u64,
    /// Number of samples since the trial began.
    samples: u32,
}

/// The conditions for trying an I/O thread.
#[derive(Clone, Copy, Debug)]
struct Thresholds {
    /// Without I/O threads, the main thread is the bottleneck if its busy share is at least this.
    main: f64,
    /// With I/O threads, more are tried if the mean busy share of the I/O threads is at least this.
    io_threads: f64,
    /// A processor counts as free for another I/O thread if the idle processors are at least this number.
    free_processor: f64,
}

/// The thresholds in use, chosen by the sweep in the tests below. Its table is in
/// `docs/design/io-threads.md`.
///
/// A saturated I/O thread still sleeps briefly between its iterations, so it counts as busy for four fifths
/// of the time (0.77 to 0.86 were measured), and `io_threads` has to be well below this share. It is 0.5,
/// because at this share or above another thread may shorten the waits; the trial shows whether the thread
/// does.
const THRESHOLDS: Thresholds = Thresholds { main: 0.85, io_threads: 0.5, free_processor: 0.6 };
/// If several I/O threads are active, there are too many of them if all of them and the main thread together
/// do less than this share of the work that the I/O threads could do. The share is half of
/// [`Thresholds::io_threads`]. Since a trial at most doubles the number of threads, threads that were just
/// added then do not count as too many.
const SLACK: f64 = 0.25;
/// The last I/O thread becomes inactive if the main thread alone would be busy for less than this share of
/// the time.
const SLACK_OF_LAST: f64 = 0.5;
/// Number of consecutive samples under pressure (with a bottleneck and a free processor) before an I/O
/// thread is added. It is large enough that the samples with which the trial is compared were taken under
/// the same load.
const PRESSED_SAMPLES: u32 = TRIAL_SAMPLES as u32 + 1;
/// Number of consecutive samples with slack (too little work for the I/O threads) before an I/O thread
/// becomes inactive.
const SLACK_SAMPLES: u32 = 10;
/// Number of samples before an addition, and after it, that are compared.
const TRIAL_SAMPLES: usize = 5;
/// Number of samples right after an addition that are not compared, because connections are moving.
const SETTLE_SAMPLES: u32 = 2;
/// A trial succeeds if the rate grew to at least this share of the rate before, in percent.
const GROWTH_PERCENT: u64 = 103;
/// The share of the former rate, in percent, with which a trial succeeds if only one I/O thread can be
/// added.
const ONLY_ONE_PERCENT: u64 = 90;
/// If the rate fell below this share of the rate before, in percent, the load ended during the trial.
/// Such a trial shows nothing, and does not make the penalty longer.
const LOAD_ENDED_PERCENT: u64 = 50;
/// A failed trial does not apply to a higher load. When the rate is at least this share, in percent, of
/// the rate before the failed trial, the next trial need not wait.
const LOAD_GREW_PERCENT: u64 = 115;
/// Number of samples (three seconds) without a trial after the first failed trial.
const FIRST_PENALTY: u32 = 30;
/// Maximum number of samples (five minutes) without a trial after a failed trial.
const LAST_PENALTY: u32 = 3000;

impl Policy {
    /// A policy that may use up to `cap` I/O threads.
    pub fn new(cap: usize) -> Policy {
        Policy {
            cap,
            active: 0,
            pressed: 0,
            slack: 0,
            trial: None,
            holdoff: 0,
            failed_at: 0,
            penalty: FIRST_PENALTY,
            recent: [0; TRIAL_SAMPLES],
            thresholds: THRESHOLDS,
            bottleneck: false,
        }
    }

    /// Sets how many I/O threads may be used. Active threads stay active, as far as `cap` allows.
    pub fn set_cap(&mut self, cap: usize) {
        self.cap = cap;
        self.assume(self.active);
    }

    /// Sets the number of active I/O threads, at most the cap, by a decision outside of this policy.
    pub fn assume(&mut self, active: usize) {
        if active.min(self.cap) != self.active {
            self.active = active.min(self.cap);
            (self.trial, self.pressed, self.slack) = (None, 0, 0);
        }
    }

    /// Whether a trial is under way. The caller makes no other change then, because its effect would be
    /// attributed to the trial.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Whether another I/O thread may be added now, provided that the present threads are busy enough.
    pub fn may_grow(&self, signals: LoadSample) -> bool {
        let is_free = signals.idle_processors >= self.thresholds.free_processor;
        self.active < self.cap && self.holdoff == 0 && is_free
    }

    /// How many I/O threads shall be active.
    #[cfg(test)]
    fn active(&self) -> usize {
        self.active
    }

    /// The reason for the number of active threads, for operators who expect more.
    pub fn reason(&self) -> &'static str {
        if self.cap == 0 {
            "no I/O thread can run: this process may use one processor only"
        } else if self.trial.is_some() {
            "I/O threads are on trial"
        } else if self.active > 0 {
            "I/O threads are active: throughput is higher with them"
        } else if self.holdoff > 0 {
            "no I/O thread is active: a trial brought no gain; another trial follows"
        } else if self.pressed > 0 {
            "no I/O thread is active yet: the main thread has just become the bottleneck"
        } else if self.bottleneck {
            "no I/O thread is active: the main thread is the bottleneck, but no processor is free"
        } else {
            "no I/O thread is active: the main thread is not the bottleneck"
        }
    }

    /// Processes a sample. Returns how many I/O threads shall be active from now on.
    pub fn step(&mut self, signals: LoadSample) -> usize {
        self.holdoff = self.holdoff.saturating_sub(1);
        if self.holdoff > 0 && is_share(self.recent_commands(), self.failed_at, LOAD_GREW_PERCENT) {
            self.holdoff = 0;
        }
        self.note_pressure(signals);
        if let Some(trial) = &mut self.trial {
            trial.samples += 1;
            if trial.samples > SETTLE_SAMPLES {
                trial.seen += signals.commands;
            }
            if trial.samples >= SETTLE_SAMPLES + TRIAL_SAMPLES as u32 {
                self.judge();
            }
        } else if self.pressed >= PRESSED_SAMPLES && self.active < self.cap && self.holdoff == 0 {
            self.grow(signals.idle_processors);
        } else if self.is_slack(signals) {
            self.active -= 1;
            self.slack = 0;
        }
        self.recent.rotate_left(1);
        self.recent[TRIAL_SAMPLES - 1] = signals.commands;
        self.active
    }

    /// Counts consecutive samples under pressure, i.e. with a bottleneck and a free processor. Samples of a
    /// trial count as well, so that after a successful trial the next addition can follow at once; all
    /// samples in [`Policy::recent`] were then taken with the present number of I/O threads.
    fn note_pressure(&mut self, signals: LoadSample) {
        self.bottleneck = match self.active {
            0 => signals.main_busy >= self.thresholds.main,
            _ => signals.io_threads_busy >= self.thresholds.io_threads,
        };
        let is_pressed = self.bottleneck && signals.idle_processors >= self.thresholds.free_processor;
        self.pressed = if is_pressed { self.pressed + 1 } else { 0 };
    }

    /// Doubles the number of active I/O threads, so that a large machine is fully used after a few steps
    /// (T-4). Adds no more threads than there are idle processors (but at least one), and no more than
    /// `cap` allows. The first step makes two threads active, because one I/O thread does hardly more than
    /// the main thread did alone.
    fn grow(&mut self, idle_processors: f64) {
        let before = self.recent_commands();
        let from = self.active;
        let more = match from {
            0 => 2,
            _ => from.min(idle_processors as usize).max(1),
        };
        self.active = (from + more).min(self.cap);
        self.pressed = 0;
        self.slack = 0;
        self.trial = Some(Trial { from, before, seen: 0, samples: 0 });
    }

    fn judge(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        // If only one I/O thread is allowed, it may lower the rate by a tenth during the trial, because
        // after the trial the main thread serves some of the connections itself (`main_share.rs`), which
        // increases the rate.
        let is_only_one = trial.from == 0 && self.active == 1;
        if is_share(trial.seen, trial.before, if is_only_one { ONLY_ONE_PERCENT } else { GROWTH_PERCENT }) {
            (self.penalty, self.failed_at) = (FIRST_PENALTY, 0);
            return;
        }
        self.active = trial.from;
        self.pressed = 0;
        self.failed_at = self.failed_at.max(trial.before);
        self.holdoff = FIRST_PENALTY;
        if is_share(trial.seen, trial.before, LOAD_ENDED_PERCENT) {
            self.holdoff = self.penalty;
            self.penalty = (self.penalty * 2).min(LAST_PENALTY);
        }
    }

    /// Number of commands in the last `TRIAL_SAMPLES` samples.
    fn recent_commands(&self) -> u64 {
        self.recent.iter().fold(0, |sum, commands| sum.saturating_add(*commands))
    }

    fn is_slack(&mut self, signals: LoadSample) -> bool {
        if self.active == 0 {
            return false;
        }
        let work = signals.io_threads_busy * self.active as f64 + signals.main_busy;
        // Without the last I/O thread, the main thread would do all of the work.
        let slack = match self.active {
            1 => work < SLACK_OF_LAST,
            active => work < SLACK * active as f64,
        };
        self.slack = if slack { self.slack + 1 } else { 0 };
        self.slack >= SLACK_SAMPLES
    }
}

/// Whether `part` is at least `percent` percent of `whole`.
fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    part.saturating_mul(100) >= whole.saturating_mul(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of a machine under load. It shows how much the machine executes with a given number of I/O
    /// threads.
    #[derive(Clone, Copy)]
    struct Machine {
        processors: f64,
        /// Processor time that the load generator needs for a command, as a multiple of the time that a
        /// server with one thread needs for it.
        load: f64,
        /// Number of commands that the clients request in a sample.
        asked: u64,
    }

    /// Number of commands that the main thread alone executes in a sample.
    const ALONE: u64 = 10_000;
    /// Number of commands that the main thread executes in a sample if I/O threads read and write.
    const WITH_IO_THREADS: u64 = 60_000;
    /// Number of commands that an I/O thread reads and writes in a sample. It is a little more than
    /// [`ALONE`], because the I/O thread does not execute the commands.
    const IO_THREAD: u64 = 10_500;
    /// The busy share of a saturated I/O thread, which sleeps briefly between its iterations.
    const IO_THREAD_BUSY: f64 = 0.8;

    impl Machine {
        fn run(&self, policy: &mut Policy, samples: usize) {
            for _ in 0..samples {
                policy.step(self.signals(policy.active()));
            }
        }

        /// The sample of this machine with `active` active I/O threads.
        fn signals(&self, active: usize) -> LoadSample {
            let (alone, with_io_threads, io_thread) =
                (ALONE as f64, WITH_IO_THREADS as f64, IO_THREAD as f64);
            let n = active as f64;
            // The number of commands that the threads can process if each has a processor. The slower kind of
            // thread determines it.
            let by_threads = if active == 0 { alone } else { with_io_threads.min(n * io_thread) };
            let wanted = by_threads.min(self.asked as f64);
            // The time that the processors need for a command. More threads than processors cost context
            // switches.
            let ours = if active == 0 { 1.0 / alone } else { 1.0 / with_io_threads + 1.0 / io_thread };
            let each = ours + self.load / alone;
            let switches = if 1.0 + n + self.load > self.processors { 1.15 } else { 1.0 };
            let done = wanted.min(self.processors / (each * switches));
            // A thread that waits for a processor is within its iteration, and therefore counts as busy.
            let (main_busy, io_threads_busy) = match active {
                0 => (wanted / alone, 0.0),
                _ => (wanted / with_io_threads, IO_THREAD_BUSY * wanted / (n * io_thread)),
            };
            let used = done * each;
            LoadSample {
                main_busy: main_busy.min(1.0),
                io_threads_busy: io_threads_busy.min(1.0),
                idle_processors: (self.processors - used).max(0.0),
                commands: done as u64,
            }
        }
    }

    /// Simulates a machine for ten minutes, with readings that vary by a tenth. Returns the throughput as
    /// a share of the possible throughput, and how often the number of I/O threads changed.
    fn play(thresholds: Thresholds, machine: &Machine) -> (f64, usize) {
        let mut policy = Policy { thresholds, ..Policy::new(7) };
        let mut rng = sluice_base::Rng::new(1);
        let (mut done, mut changes) = (0.0, 0);
        for _ in 0..6000 {
            let active = policy.active();
            let signals = machine.signals(active);
            done += signals.commands as f64;
            let scatter = |rng: &mut sluice_base::Rng| 0.95 + rng.below(100) as f64 / 1000.0;
            policy.step(LoadSample {
                main_busy: (signals.main_busy * scatter(&mut rng)).min(1.0),
                io_threads_busy: (signals.io_threads_busy * scatter(&mut rng)).min(1.0),
                idle_processors: signals.idle_processors * scatter(&mut rng),
                commands: (signals.commands as f64 * scatter(&mut rng)) as u64,
            });
            changes += usize::from(policy.active() != active);
        }
        let best = (0..=7).map(|n| machine.signals(n).commands).max().unwrap_or(0);
        (done / (best as f64 * 6000.0), changes)
    }

    /// The machines by which the thresholds are judged.
    fn worlds() -> [(&'static str, Machine); 4] {
        [
            ("16 processors, saturated", Machine { processors: 16.0, load: 0.5, asked: 1_000_000 }),
            ("4 processors, saturated", Machine { processors: 4.0, load: 0.5, asked: 1_000_000 }),
            ("2 processors, shared with the load", Machine { processors: 2.0, load: 1.0, asked: 1_000_000 }),
            ("16 processors, half loaded", Machine { processors: 16.0, load: 1.0, asked: ALONE / 2 }),
        ]
    }

    /// the thresholds are chosen by a sweep. `cargo test -p sluice-server io_r13 -- --nocapture`
    /// prints the table of the sweep.
    #[test]
    fn io_r13_the_thresholds_lie_where_the_sweep_is_flat() {
        let mut changes_of_low = 0;
        for (name, machine) in worlds() {
            println!("{name}: share of the possible throughput (changes of the number of I/O threads)");
            let cell = |thresholds| {
                let (share, changes) = play(thresholds, &machine);
                format!("{share:.3} ({changes})")
            };
            for main in [0.10, 0.30, 0.50, 0.70, 0.85, 0.95] {
                let cells = [0.3, 0.6, 0.9]
                    .map(|free_processor| cell(Thresholds { main, free_processor, ..THRESHOLDS }));
                println!("  main thread {main:.2}, free .3 .6 .9:  {}", cells.join("  "));
            }
            for io_threads in [0.10, 0.30, 0.50, 0.70, 0.85, 0.95] {
                let cells = [0.3, 0.6, 0.9]
                    .map(|free_processor| cell(Thresholds { io_threads, free_processor, ..THRESHOLDS }));
                println!("  I/O threads {io_threads:.2}, free .3 .6 .9:  {}", cells.join("  "));
            }
            let (share, changes) = play(THRESHOLDS, &machine);
            assert!(share > 0.97 && changes < 10, "{name}: {share} {changes}");
            let low = Thresholds { main: 0.3, free_processor: 0.3, ..THRESHOLDS };
            changes_of_low += play(low, &machine).1;
        }
        // The sweep is meaningful only if some threshold is worse than the others.
        assert!(changes_of_low > 40, "{changes_of_low}");
        let (_, sixteen) = &worlds()[0];
        let (share, _) = play(Thresholds { io_threads: 0.85, ..THRESHOLDS }, sixteen);
        assert!(share < 0.6, "I/O threads that doze are never so busy, and two are not enough: {share}");
    }

    #[test]
    fn io_t4_all_of_a_large_machine_is_used_within_three_seconds() {
        let mut policy = Policy::new(7);
        Machine { processors: 16.0, load: 0.5, asked: 1_000_000 }.run(&mut policy, 30);
        assert!(policy.active() >= 6, "{} I/O threads", policy.active());
    }

    #[test]
    fn an_main_thread_that_is_half_busy_gets_no_io_thread() {
        let (_, half_loaded) = &worlds()[3];
        assert_eq!(play(THRESHOLDS, half_loaded).1, 0);
    }

    #[test]
    fn io_threads_are_added_while_they_bring_something() {
        let mut policy = Policy::new(7);
        Machine { processors: 16.0, load: 0.5, asked: 1_000_000 }.run(&mut policy, 200);
        assert!(policy.active() >= 5, "{} I/O threads", policy.active());
    }

    #[test]
    fn a_machine_without_a_free_processor_gets_no_io_thread() {
        let mut policy = Policy::new(7);
        Machine { processors: 2.0, load: 1.0, asked: 1_000_000 }.run(&mut policy, 500);
        assert_eq!(policy.active(), 0);
    }

    #[test]
    fn io_t3_io_threads_go_when_the_load_ends_and_do_not_come_back() {
        let mut policy = Policy::new(7);
        Machine { processors: 16.0, load: 0.5, asked: 1_000_000 }.run(&mut policy, 200);
        assert!(policy.active() > 0);
        let idle = Machine { processors: 16.0, load: 0.0, asked: 10 };
        idle.run(&mut policy, 100);
        assert_eq!(policy.active(), 0, "gone within ten seconds");
        for _ in 0..1000 {
            idle.run(&mut policy, 1);
            assert_eq!(policy.active(), 0);
        }
    }

    #[test]
    fn a_io_thread_that_brings_nothing_is_taken_away_and_tried_ever_more_rarely() {
        let mut policy = Policy::new(7);
        let signals =
            LoadSample { main_busy: 1.0, io_threads_busy: 1.0, idle_processors: 8.0, commands: 1000 };
        let mut active_samples = 0;
        for _ in 0..3000 {
            active_samples += policy.step(signals);
        }
        assert!(active_samples < 100, "{active_samples}");
    }

    #[test]
    fn a_load_that_ends_during_a_trial_does_not_hold_off_the_next() {
        let mut policy = Policy::new(7);
        let busy = Machine { processors: 16.0, load: 0.5, asked: 1_000_000 };
        let idle = Machine { processors: 16.0, load: 0.5, asked: 10 };
        for _ in 0..20 {
            while policy.trial.is_none() {
                busy.run(&mut policy, 1);
            }
            idle.run(&mut policy, 100);
            assert_eq!((policy.active(), policy.holdoff), (0, 0));
        }
        busy.run(&mut policy, 40);
        assert!(policy.active() >= 5, "{} I/O threads", policy.active());
    }

    #[test]
    fn a_failed_trial_says_nothing_of_a_load_that_has_grown() {
        let mut policy = Policy::new(7);
        // Two I/O threads are half busy and process all commands that the clients request.
        let modest = Machine { processors: 16.0, load: 1.0, asked: 14_000 };
        let heavy = Machine { asked: 1_000_000, ..modest };
        policy.assume(2);
        modest.run(&mut policy, 3000);
        assert_eq!(policy.active(), 2);
        assert!(policy.holdoff > 100, "trials failed again and again: {}", policy.holdoff);
        heavy.run(&mut policy, 40);
        assert!(policy.active() >= 5, "{} I/O threads", policy.active());
    }

    /// Simulates clients that wait for each reply. `rate_of` returns the number of commands in a sample,
    /// given the number of active I/O threads and the number of the sample. Returns how often the number
    /// of I/O threads changed.
    fn closed_loop(policy: &mut Policy, samples: usize, rate_of: impl Fn(usize, usize) -> f64) -> usize {
        let mut changes = 0;
        for sample in 0..samples {
            let active = policy.active();
            let rate = rate_of(active, sample);
            let (main, io_threads) = match active {
                0 => (rate / ALONE as f64, 0.0),
                n => (rate / WITH_IO_THREADS as f64, IO_THREAD_BUSY * rate / (n as f64 * IO_THREAD as f64)),
            };
            policy.step(LoadSample {
                main_busy: main.min(1.0),
                io_threads_busy: io_threads.min(IO_THREAD_BUSY),
                idle_processors: 8.0,
                commands: rate as u64,
            });
            changes += usize::from(policy.active() != active);
        }
        changes
    }

    #[test]
    fn io_threads_that_bring_a_little_are_no_slack() {
        let mut policy = Policy::new(7);
        policy.assume(2);
        // Four threads shorten the waits; more threads do not.
        let changes =
            closed_loop(&mut policy, 3000, |active, _| if active <= 2 { 14_000.0 } else { 14_440.0 });
        assert!(changes <= 2, "{changes}");
    }

    #[test]
    fn a_load_that_swings_is_tried_ever_more_rarely() {
        for (swing, period) in [(0.05, 100), (0.2, 100), (0.2, 300), (0.3, 50)] {
            let mut policy = Policy::new(7);
            policy.assume(2);
            let changes = closed_loop(&mut policy, 6000, |_, sample| {
                let turn = (sample % period) as f64 / period as f64 * std::f64::consts::TAU;
                15_000.0 * (1.0 + swing * turn.sin())
            });
            println!("{swing} in {period}: {changes}");
            assert!(changes < 60, "swing {swing}, period {period}: {changes} changes");
        }
    }

    #[test]
    fn a_trial_that_halves_the_rate_is_not_repeated_at_once() {
        let mut policy = Policy::new(7);
        let changes = closed_loop(&mut policy, 3000, |active, _| if active == 0 { 9_500.0 } else { 4_000.0 });
        let trials = 3000 / (FIRST_PENALTY as usize + TRIAL_SAMPLES);
        assert!(changes > 0 && changes <= 2 * trials, "{changes}");
    }

    #[test]
    fn the_only_io_thread_need_not_pay_by_itself() {
        for (with_it, stays) in [(9_600.0, 1), (8_000.0, 0)] {
            let mut policy = Policy::new(1);
            closed_loop(&mut policy, 20, |active, _| if active == 0 { 10_000.0 } else { with_it });
            assert_eq!(policy.active(), stays);
        }
    }

    #[test]
    fn another_cap_keeps_the_io_threads_that_are_active() {
        let mut policy = Policy::new(4);
        let machine = Machine { processors: 16.0, load: 0.5, asked: 1_000_000 };
        machine.run(&mut policy, 200);
        assert_eq!(policy.active(), 4);
        policy.set_cap(7);
        assert_eq!(policy.active(), 4);
        policy.set_cap(2);
        assert_eq!(policy.active(), 2);
        policy.assume(7);
        assert_eq!(policy.active(), 2, "no more than the cap");
    }

    #[test]
    fn the_cap_holds() {
        let mut policy = Policy::new(2);
        Machine { processors: 64.0, load: 8.0, asked: 10_000_000 }.run(&mut policy, 500);
        assert!(policy.active() <= 2);
    }
}
