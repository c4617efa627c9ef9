//! Tests the clock on a simulated machine whose true time the tests know.

use sluice_base::Rng;

use super::*;

/// A machine whose counter runs at a given rate, together with the true time.
#[derive(Clone, Debug)]
struct Fake {
    /// True monotonic time, in picoseconds.
    true_ps: u128,
    ticks_per_s: u64,
    unix_offset_ns: i64,
    /// The ticks that jumps have added; they are part of each reading of the counter.
    jump_ticks: u64,
    frozen_at: Option<u64>,
    /// The time that each reading takes, in picoseconds.
    read_ps: u128,
    /// Picoseconds by which the counter's oscillator is ahead of the kernel's clock, which NTP slews.
    ahead_ps: i128,
    /// Duration of a preemption in picoseconds, and a number `n`: on average, one in `n` readings is followed
    /// by a preemption.
    preempted: Option<(u128, u64)>,
    rng: Rng,
}

impl Fake {
    fn new(ticks_per_s: u64) -> Fake {
        Fake {
            true_ps: 5_000_000_000_000,
            ticks_per_s,
            unix_offset_ns: 1_700_000_000_000_000_000,
            jump_ticks: 0,
            frozen_at: None,
            read_ps: 20_000,
            ahead_ps: 0,
            preempted: None,
            rng: Rng::new(9),
        }
    }

    fn true_ns(&self) -> u64 {
        (self.true_ps / 1000) as u64
    }

    fn ticks(&self) -> u64 {
        let oscillated_ps = self.true_ps.saturating_add_signed(self.ahead_ps);
        let ticks = (oscillated_ps * u128::from(self.ticks_per_s) / 1_000_000_000_000) as u64;
        self.frozen_at.unwrap_or(ticks.wrapping_add(self.jump_ticks))
    }
}

impl Fake {
    /// A reading takes `read_ps`, half of it before the instant that the reading gives and half after.
    fn reading<T>(&mut self, tell: impl FnOnce(&Fake) -> T) -> T {
        self.true_ps += self.read_ps / 2;
        let told = tell(self);
        self.true_ps += self.read_ps / 2;
        if let Some((for_ps, one_in)) = self.preempted
            && self.rng.below(one_in) == 0
        {
            self.true_ps += for_ps;
        }
        told
    }
}

impl Machine for Fake {
    fn counter(&mut self) -> Option<u64> {
        Some(self.reading(Fake::ticks))
    }
    fn monotonic_ns(&mut self) -> u64 {
        self.reading(Fake::true_ns)
    }
    fn real_ns(&mut self) -> i64 {
        self.reading(|fake| fake.true_ns() as i64 + fake.unix_offset_ns)
    }
    fn counter_name(&self) -> &'static str {
        "fake"
    }
}

fn learned(ticks_per_s: u64) -> Clock<Fake> {
    let mut clock = Clock::new(Fake::new(ticks_per_s));
    for _ in 0..40 {
        clock.machine.true_ps += 500_000_000;
        clock.now();
    }
    clock
}

#[test]
fn both_times_stay_within_two_microseconds_of_the_truth_at_every_rate() {
    let mut rng = Rng::new(3);
    for ticks_per_s in [19_200_000, 24_000_000, 121_875_000, 1_000_000_000, 2_445_403_000, 5_000_000_000] {
        let mut clock = learned(ticks_per_s);
        assert!(matches!(clock.kind(), TimeSource::Counter { .. }));
        let mut last = clock.now();
        for _ in 0..50_000 {
            clock.machine.true_ps += u128::from(rng.below(300_000_000));
            let now = clock.now();
            assert!(now.mono_ns.abs_diff(clock.machine.true_ns()) <= 2_000, "{ticks_per_s} {now:?}");
            let real_us = (clock.machine.true_ns() as i64 + clock.machine.unix_offset_ns) / 1000;
            assert!(now.unix_us.abs_diff(real_us) <= 2, "{ticks_per_s} {now:?}");
            assert!(now.mono_ns >= last.mono_ns);
            assert!(now.unix_us >= last.unix_us);
            last = now;
        }
    }
}

#[test]
fn a_clock_says_that_it_is_learning_until_it_knows_the_rate() {
    let clock = Clock::new(Fake::new(2_000_000_000));
    assert!(clock.is_learning());
    let clock = learned(2_000_000_000);
    assert!(!clock.is_learning() && clock.kind() != TimeSource::Posix);
}

#[test]
fn a_counter_that_stops_is_found_out_and_time_goes_on() {
    let mut clock = learned(2_000_000_000);
    clock.machine.frozen_at = Some(clock.machine.ticks());
    let start = clock.now();
    for _ in 0..10_000 {
        clock.machine.true_ps += 1_000_000_000;
        clock.now();
    }
    assert_eq!(clock.kind(), TimeSource::Posix);
    assert!(!clock.is_learning(), "it has given the counter up");
    let now = clock.now();
    assert!(now.mono_ns.abs_diff(clock.machine.true_ns()) <= 2_000);
    assert!(now.mono_ns - start.mono_ns >= 9_000_000_000);
}

/// Makes the counter jump, and then lets it agree with the kernel's clock for `agreement_ms` milliseconds.
fn doubt(clock: &mut Clock<Fake>, agreement_ms: u64) {
    clock.machine.jump_ticks = clock.machine.jump_ticks.wrapping_add(1 << 40);
    for _ in 0..agreement_ms {
        clock.machine.true_ps += 1_000_000_000;
        clock.now();
    }
}

#[test]
fn doubts_are_forgotten_after_a_time_of_agreement() {
    let mut clock = learned(2_000_000_000);
    for _ in 0..10 {
        doubt(&mut clock, 4000);
    }
    assert!(matches!(clock.kind(), TimeSource::Counter { .. }));
}

#[test]
fn doubts_without_agreement_between_them_end_the_use_of_the_counter() {
    let mut clock = learned(2_000_000_000);
    for _ in 0..DOUBTS_MAX {
        assert!(matches!(clock.kind(), TimeSource::Counter { .. }));
        doubt(&mut clock, 500);
    }
    assert_eq!(clock.kind(), TimeSource::Posix);
    doubt(&mut clock, 100_000);
    assert_eq!(clock.kind(), TimeSource::Posix, "that is final");
    assert!(clock.now().mono_ns.abs_diff(clock.machine.true_ns()) <= 2_000);
}

#[test]
fn the_source_of_the_time_is_said_once_and_its_loss_once() {
    let mut watch = SourceWatch::default();
    let mut clock = Clock::new(Fake::new(2_000_000_000));
    assert_eq!(watch.look(&clock), None, "it still learns");
    clock = learned(2_000_000_000);
    assert_eq!(watch.look(&clock), Some(News::Counter));
    doubt(&mut clock, 2);
    assert!(clock.is_learning());
    assert_eq!(watch.look(&clock), None, "one doubt is no loss");
    doubt(&mut clock, 500);
    assert_eq!(watch.look(&clock), None, "it is used again");
    for _ in 0..DOUBTS_MAX {
        doubt(&mut clock, 500);
    }
    assert_eq!(watch.look(&clock), Some(News::CounterGivenUp));
    assert_eq!(watch.look(&clock), None);
    let mut watch = SourceWatch::default();
    assert_eq!(watch.look(&Clock::new(System::without_counter())), Some(News::NoCounter));
}

#[test]
fn a_counter_that_jumps_either_way_never_takes_time_along() {
    for jump in [1_u64 << 40, 0_u64.wrapping_sub(1 << 40), 0_u64.wrapping_sub(1000)] {
        let mut clock = learned(2_000_000_000);
        let before = clock.now();
        clock.machine.jump_ticks = jump;
        let mut last = before;
        for _ in 0..100_000 {
            clock.machine.true_ps += 700_000;
            let now = clock.now();
            assert!(now.mono_ns >= last.mono_ns);
            assert!(now.mono_ns.abs_diff(clock.machine.true_ns()) <= 2_000, "{jump} {now:?}");
            last = now;
        }
    }
}

#[test]
fn a_real_step_of_the_wall_clock_is_followed_and_a_tiny_one_is_absorbed() {
    let mut clock = learned(2_445_403_000);
    let before = clock.now();
    clock.machine.unix_offset_ns -= 3_600_000_000_000;
    clock.machine.true_ps += 1_100_000_000;
    let after = clock.now();
    assert!(after.unix_us < before.unix_us - 3_599_000_000);
    assert!(after.mono_ns > before.mono_ns);
    clock.machine.unix_offset_ns -= 300_000;
    let before = clock.now();
    for _ in 0..50 {
        clock.machine.true_ps += 100_000_000;
        assert!(clock.now().unix_us >= before.unix_us);
    }
}

/// Asserts that a reading lies between the true times before and after the call, give or take 2 us.
fn check_reading(clock: &mut Clock<Fake>) -> Now {
    let before_ns = clock.machine.true_ns();
    let now = clock.now();
    let after_ns = clock.machine.true_ns();
    assert!(now.mono_ns + 2_000 >= before_ns, "{before_ns} {now:?}");
    assert!(now.mono_ns <= after_ns + 2_000, "{after_ns} {now:?}");
    let unix_us = |ns: u64| (ns as i64 + clock.machine.unix_offset_ns).div_euclid(1000);
    assert!(now.unix_us + 2 >= unix_us(before_ns), "{before_ns} {now:?}");
    assert!(now.unix_us <= unix_us(after_ns) + 2, "{after_ns} {now:?}");
    now
}

#[test]
fn being_descheduled_between_readings_shifts_nothing() {
    for ticks_per_s in [19_200_000, 1_000_000_000, 2_445_403_000] {
        let mut clock = learned(ticks_per_s);
        clock.machine.preempted = Some((400_000_000, 200));
        let mut last = clock.now();
        for step in 0..60_000_u128 {
            clock.machine.true_ps += 1_000_000 * (step % 700);
            let now = check_reading(&mut clock);
            assert!(now.mono_ns >= last.mono_ns);
            assert!(now.unix_us >= last.unix_us);
            last = now;
        }
        assert!(matches!(clock.kind(), TimeSource::Counter { .. }), "preemption is no reason for doubt");
    }
}

#[test]
fn a_kernel_clock_that_is_slewed_is_followed_within_the_bound() {
    for ppm in [-500_i128, 500] {
        let mut clock = learned(2_000_000_000);
        for _ in 0..60_000 {
            let step_ps = 130_000_000;
            clock.machine.true_ps += step_ps;
            clock.machine.ahead_ps += step_ps as i128 * ppm / 1_000_000;
            check_reading(&mut clock);
        }
        assert!(matches!(clock.kind(), TimeSource::Counter { .. }));
    }
}

#[test]
fn a_counter_that_wraps_around_goes_unnoticed() {
    let mut clock = learned(5_000_000_000);
    // The counter wraps within the next milliseconds.
    let to_end = u64::MAX - clock.machine.ticks();
    let mut fresh = Fake { jump_ticks: to_end - 20_000_000, ..clock.machine.clone() };
    fresh.true_ps += 1;
    clock = Clock::new(fresh);
    let mut wrapped = false;
    let mut last = clock.machine.ticks();
    for _ in 0..60_000 {
        clock.machine.true_ps += 3_000_000;
        check_reading(&mut clock);
        wrapped |= clock.machine.ticks() < last;
        last = clock.machine.ticks();
    }
    assert!(wrapped);
    assert!(matches!(clock.kind(), TimeSource::Counter { .. }));
}

#[test]
fn clocks_of_many_threads_agree() {
    // Each thread passes its reading on to the next thread, whose reading may be earlier by at most the sum
    // of both clocks' errors.
    let threads = 4;
    let baton = std::sync::Arc::new(std::sync::Mutex::new(Clock::system().now()));
    let runners: Vec<_> = (0..threads)
        .map(|_| {
            let baton = baton.clone();
            std::thread::spawn(move || {
                let mut clock = Clock::system();
                for _ in 0..20_000 {
                    let mut last = baton.lock().expect("lock");
                    let now = clock.now();
                    assert!(now.mono_ns + 50_000 >= last.mono_ns, "{last:?} {now:?}");
                    assert!(now.unix_us + 50 >= last.unix_us, "{last:?} {now:?}");
                    *last = now;
                }
            })
        })
        .collect();
    runners.into_iter().for_each(|runner| runner.join().expect("no thread saw time run back"));
}

#[test]
fn this_machine_agrees_with_its_kernel() {
    let mut clock = Clock::system();
    let mut machine = System::without_counter();
    let until = machine.monotonic_ns() + 60_000_000;
    let mut last = clock.now();
    while machine.monotonic_ns() < until {
        let before = machine.monotonic_ns();
        let now = clock.now();
        let after = machine.monotonic_ns();
        assert!(now.mono_ns + 50_000 >= before && now.mono_ns <= after + 50_000);
        assert!(now.mono_ns >= last.mono_ns);
        last = now;
    }
}
