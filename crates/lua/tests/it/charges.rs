//! Tests that the budget which an instruction or a function uses grows with its operand. `cargo xtask deep
//! lua-charges` runs the same programs with random lengths and measures their time.

#[path = "../charges/programs.rs"]
mod programs;

use super::common::machine;
use programs::{ROWS, Row};
use sluice_lua::{RunOutcome, Vm, compile};

/// Maximum number of bytes, or of a list's elements, that may be processed for one unit of the budget.
const PER_UNIT_MAX: u64 = 64;

/// Units of the budget that a program uses with an operand of this length; `None` if it fails.
fn units(vm: &mut Vm, row: &Row, len: u64, work: &str) -> Option<u64> {
    let source = format!("local N = {len} {} {work}", row.ready);
    let proto = compile(source.as_bytes(), b"=test").unwrap_or_else(|_| panic!("a program: {source}"));
    let chunk = vm.load(&proto).expect("room");
    let (outcome, units) = vm.start(chunk).count_units(u64::MAX);
    let is_done = matches!(outcome, RunOutcome::Done);
    drop(vm.end());
    vm.unload(chunk);
    is_done.then_some(units)
}

#[test]
fn what_is_taken_of_the_budget_grows_with_the_operand() {
    let mut too_cheap = String::new();
    for row in ROWS {
        let (small, large) = if row.is_text { (1 << 10, 256 << 10) } else { (500, 5_000) };
        let mut vm = machine(1 << 30);
        let mut of = |len| Some(units(&mut vm, row, len, row.work)? - units(&mut vm, row, len, "")?);
        let (Some(few), Some(many)) = (of(small), of(large)) else {
            too_cheap.push_str(&format!("fails: {} {}\n", row.ready, row.work));
            continue;
        };
        if many < few + (large - small) / PER_UNIT_MAX {
            too_cheap.push_str(&format!(
                "{few} units for {small}, {many} for {large}: {} {}\n",
                row.ready, row.work
            ));
        }
    }
    assert!(too_cheap.is_empty(), "cheaper than a unit for {PER_UNIT_MAX} bytes:\n{too_cheap}");
}
