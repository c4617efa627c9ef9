//! A fake machine against its own truth.

use sluice_base::Rng;

use super::*;

/// A machine whose counter runs at a given rate, with the true time in hand.
#[derive(Clone, Debug)]
struct Fake {
    /// True monotonic time, in picoseconds.
    true_ps: u128,
    ticks_per_s: u64,
    unix_offset_ns: i64,
    /// Added to the counter's reading.
    jump_ticks: u64,
    frozen_at: Option<u64>,
    /// Time each reading takes.
    read_ps: u128,
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
        }
    }

    fn true_ns(&self) -> u64 {
        (self.true_ps / 1000) as u64
    }

    fn ticks(&self) -> u64 {
        let ticks = (self.true_ps * u128::from(self.ticks_per_s) / 1_000_000_000_000) as u64;
        self.frozen_at.unwrap_or(ticks.wrapping_add(self.jump_ticks))
    }
}

impl Machine for Fake {
    fn counter(&mut self) -> Option<u64> {
        self.true_ps += self.read_ps;
        Some(self.ticks())
    }
    fn monotonic_ns(&mut self) -> u64 {
        self.true_ps += self.read_ps;
        self.true_ns()
    }
    fn real_ns(&mut self) -> i64 {
        self.true_ps += self.read_ps;
        self.true_ns() as i64 + self.unix_offset_ns
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
        assert!(matches!(clock.kind(), Kind::Counter { .. }));
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
fn a_counter_that_stops_is_found_out_and_time_goes_on() {
    let mut clock = learned(2_000_000_000);
    clock.machine.frozen_at = Some(clock.machine.ticks());
    let start = clock.now();
    for _ in 0..10_000 {
        clock.machine.true_ps += 1_000_000_000;
        clock.now();
    }
    assert_eq!(clock.kind(), Kind::Posix);
    let now = clock.now();
    assert!(now.mono_ns.abs_diff(clock.machine.true_ns()) <= 2_000);
    assert!(now.mono_ns - start.mono_ns >= 9_000_000_000);
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
