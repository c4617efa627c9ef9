//! What a debugger sees: lines, local variables, callers.

use super::common::{machine, text};
use sluice_lua::{RunOutcome, Vm, compile};

const PROGRAM: &str = "local a = 1
local function f(n)
  local m = n * 2
  return m
end
local b = f(21)
for i = 1, 2 do
  b = b + i
end
return b";

/// Runs instruction by instruction, and has each new line looked at: the first of a function, another than the last of that function, or
/// the same again behind a jump backward.
fn step(vm: &mut Vm, source: &str, mut look: impl FnMut(&mut Vm, u32)) {
    let proto = compile(source.as_bytes(), b"@test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    vm.start(chunk).stepwise();
    let mut last: Vec<Option<(u32, u32)>> = Vec::new();
    loop {
        let place = vm.run().and_then(|run| run.next_place().map(|place| (place.depth, place.line, place.instruction)));
        if let Some((depth, line, instruction)) = place {
            last.resize(depth, None);
            let before = last[depth - 1].replace((line, instruction));
            if before.is_none_or(|(l, i)| l != line || instruction <= i) {
                look(vm, line);
            }
        }
        match vm.run().expect("a run").resume(1) {
            RunOutcome::OutOfBudget => {}
            outcome => break assert!(matches!(outcome, RunOutcome::Done), "{outcome:?}"),
        }
    }
    drop(vm.end());
}

#[test]
fn lines_come_as_they_run() {
    let mut vm = machine(16 << 20);
    let mut lines = Vec::new();
    step(&mut vm, PROGRAM, |_, line| lines.push(line));
    assert_eq!(lines, [1, 5, 6, 3, 4, 7, 8, 7, 8, 7, 10]);
}

#[test]
fn local_variables_have_their_names_and_values() {
    let mut vm = machine(16 << 20);
    let mut seen = Vec::new();
    step(&mut vm, PROGRAM, |vm, line| {
        if line == 4 || line == 8 {
            let run = vm.run().expect("a run");
            let locals: Vec<_> = run.locals(0).into_iter().map(|(name, value)| (name.to_vec(), value)).collect();
            let outer = run.locals(1).len();
            let shown: Vec<String> = locals
                .into_iter()
                .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(&name), text(vm, value)))
                .collect();
            seen.push((line, shown.join(" "), outer));
        }
    });
    assert_eq!(seen[0], (4, "n=21 m=42".to_string(), 2));
    assert!(seen[1].1.starts_with("a=1 f=function b=42") && seen[1].1.ends_with("i=1"), "{seen:?}");
}

#[test]
fn callers_have_their_names_and_lines() {
    let mut vm = machine(16 << 20);
    let mut seen = Vec::new();
    step(&mut vm, PROGRAM, |vm, line| {
        if line == 3 {
            seen = vm.run().expect("a run").callers();
        }
    });
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].name.as_deref(), seen[0].line, seen[0].is_chunk), (Some(&b"f"[..]), 3, false));
    assert_eq!((seen[1].line, seen[1].is_chunk), (6, true));
}
