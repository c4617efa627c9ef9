//! How many workers shall be active: a pure state machine, fed ten times a second.
//!
//! A worker takes receiving, parsing and sending off the executing thread. That pays when the executing thread is the
//! bottleneck *and* there is a processor to run the worker on; otherwise two threads share one processor and pay the hand-over
//! on top. So both are asked, and the answer is checked: a worker that was added and brought nothing is taken away again.
//!
//! Constants were chosen by a sweep over loads and numbers of processors.

/// What the policy sees of the last tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signals {
    /// Share of the time in which the executing thread had work, 0 to 1.
    pub main_busy: f64,
    /// Mean of the same over the active workers.
    pub workers_busy: f64,
    /// Processors that were idle, as a number of processors.
    pub idle_processors: f64,
    /// Commands executed.
    pub commands: u64,
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Workers that may be active: configured, and capped by processors.
    cap: usize,
    active: usize,
    pressed: u32,
    slack: u32,
    trial: Option<Trial>,
    /// Samples until another worker may be tried.
    holdoff: u32,
    /// How long the next failed trial holds off; doubles with each failure.
    penalty: u32,
    /// Recent commands per sample, newest last.
    recent: [u64; TRIAL_SAMPLES],
}

/// A worker on trial.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Workers before.
    from: usize,
    /// Commands in the samples before.
    before: u64,
    seen: u64,
    samples: u32,
}

/// The executing thread is pressed from this share on.
const PRESSED: f64 = 0.85;
/// A processor is free for another worker from this much idle time on.
const FREE_PROCESSOR: f64 = 0.6;
/// Workers are too many when all of them together do less than this share of what one fewer could do.
const SLACK: f64 = 0.5;
/// Samples in a row before a worker is added: so many that those it will be compared with were taken under the same load.
const PRESSED_SAMPLES: u32 = TRIAL_SAMPLES as u32 + 1;
/// Samples in a row before one is taken away.
const SLACK_SAMPLES: u32 = 10;
/// Samples before and after an addition that are compared.
const TRIAL_SAMPLES: usize = 5;
/// A trial succeeds when the rate grew to this share of before, in percent.
const TRIAL_GROWTH_PERCENT: u64 = 103;
/// Samples of holding off after the first failed trial: three seconds.
const FIRST_PENALTY: u32 = 30;
/// And at most: five minutes.
const LAST_PENALTY: u32 = 3000;

impl Policy {
    /// A policy that may use up to `cap` workers.
    pub fn new(cap: usize) -> Policy {
        Policy {
            cap,
            active: 0,
            pressed: 0,
            slack: 0,
            trial: None,
            holdoff: 0,
            penalty: FIRST_PENALTY,
            recent: [0; TRIAL_SAMPLES],
        }
    }

    /// How many workers shall be active.
    #[cfg(test)]
    fn active(&self) -> usize {
        self.active
    }

    /// Why so many are active: for an operator who expected more.
    pub fn reason(&self) -> &'static str {
        if self.cap == 0 {
            "no worker can run: the machine has no second processor for this process"
        } else if self.trial.is_some() {
            "workers are on trial"
        } else if self.active > 0 {
            "workers are active: they bring more than they cost"
        } else if self.holdoff > 0 {
            "no worker is active: a trial brought nothing; it will be tried again"
        } else if self.pressed > 0 {
            "no worker is active yet: the executing thread has just become the bottleneck"
        } else {
            "no worker is active: the executing thread is not the bottleneck, or no processor is free"
        }
    }

    /// Takes a sample; returns how many workers shall be active from now on.
    pub fn step(&mut self, signals: Signals) -> usize {
        self.holdoff = self.holdoff.saturating_sub(1);
        if let Some(trial) = &mut self.trial {
            trial.seen += signals.commands;
            trial.samples += 1;
            if trial.samples as usize >= TRIAL_SAMPLES {
                self.judge();
            }
        } else if self.is_pressed(signals) {
            self.grow();
        } else if self.is_slack(signals) {
            self.active -= 1;
            self.slack = 0;
        }
        self.recent.rotate_left(1);
        self.recent[TRIAL_SAMPLES - 1] = signals.commands;
        self.active
    }

    fn is_pressed(&mut self, signals: Signals) -> bool {
        let bottleneck = if self.active == 0 { signals.main_busy } else { signals.workers_busy };
        let pressed = bottleneck >= PRESSED && signals.idle_processors >= FREE_PROCESSOR;
        self.pressed = if pressed { self.pressed + 1 } else { 0 };
        self.pressed >= PRESSED_SAMPLES && self.active < self.cap && self.holdoff == 0
    }

    /// Half as many again, so that a large machine is reached in a few steps; two to begin with, since one worker does
    /// hardly more than the executing thread did alone.
    fn grow(&mut self) {
        let before = self.recent.iter().sum();
        let from = self.active;
        let more = if from == 0 { 2 } else { (from / 2).max(1) };
        self.active = (from + more).min(self.cap);
        self.pressed = 0;
        self.slack = 0;
        self.trial = Some(Trial { from, before, seen: 0, samples: 0 });
    }

    fn judge(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        if trial.seen.saturating_mul(100) >= trial.before.saturating_mul(TRIAL_GROWTH_PERCENT) {
            self.penalty = FIRST_PENALTY;
            return;
        }
        self.active = trial.from;
        self.holdoff = self.penalty;
        self.penalty = (self.penalty * 2).min(LAST_PENALTY);
    }

    fn is_slack(&mut self, signals: Signals) -> bool {
        if self.active == 0 {
            return false;
        }
        let fewer = (self.active - 1) as f64;
        let work = signals.workers_busy * self.active as f64 + signals.main_busy;
        // With no worker left the executing thread does it all.
        let slack = work < SLACK * (fewer + 1.0);
        self.slack = if slack { self.slack + 1 } else { 0 };
        self.slack >= SLACK_SAMPLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with a load: how much it executes with so many workers.
    struct Machine {
        processors: f64,
        /// Processor time that the load generator takes on this machine.
        load: f64,
        /// Commands per sample that are asked for.
        asked: u64,
    }

    /// Commands per sample that one thread alone executes, and that the executing thread does when workers read and write.
    const ALONE: u64 = 10_000;
    const WITH_WORKERS: u64 = 60_000;
    /// And what a worker reads and writes: a little more than one thread alone, which executes as well.
    const WORKER: u64 = 10_500;

    impl Machine {
        fn run(&self, policy: &mut Policy, samples: usize) {
            for _ in 0..samples {
                let active = policy.active();
                let share = (self.processors / (1.0 + active as f64 + self.load)).min(1.0);
                let capacity = match active {
                    0 => ALONE as f64,
                    n => (n as f64 * WORKER as f64).min(WITH_WORKERS as f64),
                } * share;
                let done = capacity.min(self.asked as f64);
                let (main_busy, workers_busy) = match active {
                    0 => (done / (ALONE as f64 * share), 0.0),
                    n => (done / WITH_WORKERS as f64, done / (n as f64 * WORKER as f64 * share)),
                };
                let used = main_busy + workers_busy * active as f64 + self.load;
                policy.step(Signals {
                    main_busy: main_busy.min(1.0),
                    workers_busy: workers_busy.min(1.0),
                    idle_processors: (self.processors - used).max(0.0),
                    commands: done as u64,
                });
            }
        }
    }

    #[test]
    fn workers_are_added_while_they_bring_something() {
        let mut policy = Policy::new(7);
        Machine { processors: 16.0, load: 4.0, asked: 1_000_000 }.run(&mut policy, 200);
        assert!(policy.active() >= 5, "{} workers", policy.active());
    }

    #[test]
    fn a_machine_without_a_free_processor_gets_no_worker() {
        let mut policy = Policy::new(7);
        Machine { processors: 2.0, load: 1.0, asked: 1_000_000 }.run(&mut policy, 500);
        assert_eq!(policy.active(), 0);
    }

    #[test]
    fn io_t3_workers_go_when_the_load_ends_and_do_not_come_back() {
        let mut policy = Policy::new(7);
        Machine { processors: 16.0, load: 4.0, asked: 1_000_000 }.run(&mut policy, 200);
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
    fn a_worker_that_brings_nothing_is_taken_away_and_tried_ever_more_rarely() {
        let mut policy = Policy::new(7);
        let signals = Signals { main_busy: 1.0, workers_busy: 1.0, idle_processors: 8.0, commands: 1000 };
        let mut active_samples = 0;
        for _ in 0..3000 {
            active_samples += policy.step(signals);
        }
        assert!(active_samples < 100, "{active_samples}");
    }

    #[test]
    fn the_cap_holds() {
        let mut policy = Policy::new(2);
        Machine { processors: 64.0, load: 8.0, asked: 10_000_000 }.run(&mut policy, 500);
        assert!(policy.active() <= 2);
    }
}
