//! Measures the time that a unit of the budget takes, for the instructions and functions in `ROWS` with
//! operands of random lengths: `cargo run --release -p sluice-lua --example charges [seed [rounds]]`, or
//! `cargo xtask deep lua-charges`.
//!
//! The time is the thread's processor time, which depends little on other work of the computer. In each try,
//! a program's time for a unit is compared with that of a loop that computes a sum. The exit status is 1 if
//! a program's unit takes more than [`FACTOR`] times as much in each of its tries, or if no program could be
//! measured.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

#[path = "../tests/charges/programs.rs"]
mod programs;

mod clock;

use programs::{ROWS, Row};
use sluice_base::Rng;
use sluice_lua::{RunOutcome, Vm, compile};

/// Maximum time for a unit, as a multiple of the time for a unit of a plain loop. Ten thousand units at this
/// maximum take 4 ms.
const FACTOR: f64 = 256.0;
/// A program is reported only if all of this many tries are too slow, because a disturbance does not affect
/// all of them.
const TRIES: usize = 3;
/// Maximum binary logarithm, rounded down, of the length of a string (which is thus shorter than 128 MiB) and
/// of a list.
const BITS_MAX: [u64; 2] = [26, 20];
/// If the work takes fewer units, the time of a single unit cannot be measured.
const UNITS_MIN: f64 = 200.0;

/// Nanoseconds and units that a program takes; `None` if it fails.
fn cost(source: &str) -> Option<(f64, f64)> {
    let mut vm = Vm::new(4 << 30).ok()?;
    vm.seal(true);
    let chunk = vm.load(&compile(source.as_bytes(), b"=charges").ok()?).ok()?;
    let mut run = vm.start(chunk);
    let before = clock::now();
    let (outcome, units) = run.count_units(u64::MAX);
    let spent = clock::now().saturating_sub(before);
    matches!(outcome, RunOutcome::Done).then_some((spent.as_secs_f64() * 1e9, units as f64))
}

/// Nanoseconds for a unit of the row's work with an operand of this length; `None` if the work takes too few
/// units, or a program fails.
fn unit_ns(row: &Row, len: u64) -> Option<f64> {
    let ready = format!("local N = {len} {}", row.ready);
    let (base_ns, base) = cost(&ready)?;
    // Short operands are processed many times in a loop. The loop's own units take an ordinary time.
    let times = (4096 / len).max(1);
    let (ns, units) = cost(&format!("{ready} for n = 1, {times} do {} end", row.work))?;
    (units - base >= UNITS_MIN).then(|| (ns - base_ns).max(0.0) / (units - base))
}

fn main() -> std::process::ExitCode {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>().unwrap_or(1));
    let (seed, rounds) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(4));
    let mut rng = Rng::new(seed);
    let (mut dear, mut judged, mut worst) = (0, 0, 0.0_f64);
    for row in ROWS {
        for _ in 0..rounds {
            let bits = rng.below(BITS_MAX[usize::from(!row.is_text)] + 1);
            let len = (1 << bits) + rng.below(1 << bits) / 2;
            let factor = (0..TRIES)
                .map_while(|_| {
                    let (ns, units) = cost("local x = 0 for i = 1, 1000000 do x = x + i end")?;
                    Some(unit_ns(row, len)? / (ns / units))
                })
                .reduce(f64::min);
            let Some(factor) = factor else { continue };
            judged += 1;
            worst = worst.max(factor);
            if factor > FACTOR {
                dear += 1;
                println!("{factor:.0} times a plain unit, with {len}: {} {}", row.ready, row.work);
            }
        }
    }
    println!("seed {seed}: {judged} judged, {dear} beyond {FACTOR} times, {worst:.0} times at worst");
    u8::from(dear > 0 || judged == 0).into()
}
