//! Compiling and running untrusted source texts, for fuzzing.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

use crate::api::{RunOutcome, Vm, compile};

/// Maximum number of bytes that a program may use.
const LIMIT: usize = 4 << 20;

/// Number of units of the budget that a program may use.
const BUDGET: u64 = 20_000;

/// Compiles any bytes and runs the result, once without a break, and once in short slices between which the
/// collector does a part of its work. Nothing may panic, and an ended run must leave no bytes in use.
pub fn fuzz_source(data: &[u8]) {
    let Ok(proto) = compile(data, b"=fuzz") else { return };
    let Ok(mut vm) = Vm::new(LIMIT) else { return };
    vm.seal(true);
    let Ok(chunk) = vm.load(&proto) else { return };
    let base = vm.bytes();
    let mut run = vm.start(chunk);
    run.resume_unwatched(BUDGET);
    drop(run.end());
    assert!(vm.bytes() <= base, "a run that ended left bytes");
    let mut run = vm.start(chunk);
    run.stepwise();
    for _ in 0..BUDGET / 64 {
        if !matches!(run.resume_unwatched(64), RunOutcome::OutOfBudget) {
            break;
        }
        vm.collect(16);
        match vm.run() {
            Some(open) => run = open,
            None => return,
        }
    }
    drop(vm.end());
    assert!(vm.bytes() <= base, "a run that was stopped left bytes");
}
