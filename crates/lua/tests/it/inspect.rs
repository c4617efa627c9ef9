//! Tests of what a debugger sees: lines, local variables and callers.

use super::common::{machine, text};
use sluice_lua::{LineWatch, Native, NativeStep, RunOutcome, Value, Vm, compile, describe};

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

/// Runs a program instruction by instruction, and calls `look` where a line begins. Requests are answered
/// with 7.
fn step(vm: &mut Vm, source: &str, mut look: impl FnMut(&mut Vm, u32)) {
    let proto = compile(source.as_bytes(), b"@test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    vm.start(chunk).stepwise();
    let mut watch = LineWatch::default();
    loop {
        let mut run = vm.run().expect("a run");
        let begins =
            run.next_position().filter(|position| watch.notice(position)).map(|position| position.line);
        if let Some(line) = begins {
            look(vm, line);
            run = vm.run().expect("a run");
        }
        match run.resume_unwatched(1) {
            RunOutcome::OutOfBudget => {}
            RunOutcome::Call(_) => run.answer(&[Value::number(7.0)]),
            outcome => break assert!(matches!(outcome, RunOutcome::Done), "{outcome:?}"),
        }
    }
    drop(vm.end());
}

fn asking_machine() -> Vm {
    let mut vm = Vm::new(64 << 20).expect("room");
    let ask = Native::plain("ask", |_| Ok(NativeStep::Request(1)));
    vm.library().table(b"host", &[ask]).expect("room");
    vm.seal(true);
    vm
}

const LOOPS: &str = "local x\nx=1\nlocal t={}\nfor i=1,2 do\n t[i]=i\nend\nfor k,v in pairs(t) do\n x=v\nend\n\
    local function f(a,...)\n return a\nend\nlocal y = f(\n 1)\nif x==1 then x=2\nelse x=3 end\n\
    while x>0 do x=x-1 end\nreturn x\n";

/// The expected lines are those at which the reference's debugger stops.
#[test]
fn lines_are_those_of_the_reference() {
    let cases: [(&str, &[u32]); 5] = [
        (LOOPS, &[2, 3, 4, 5, 4, 5, 4, 7, 8, 7, 8, 7, 12, 13, 14, 13, 11, 15, 16, 17, 17, 17, 17, 18]),
        ("local ok,e = pcall(function()\n return 1\nend)\nreturn 2", &[1, 3, 1, 2, 4]),
        (
            "local co=coroutine.wrap(function(n)\n local z=n\n coroutine.yield(z)\n return 9\nend)\n\
             local a=co(1)\nlocal b=co(2)\nreturn b",
            &[1, 5, 1, 6, 2, 3, 7, 4, 8],
        ),
        ("local a = host.ask()\nlocal b = pcall(error, 'x')\nreturn a", &[1, 2, 3]),
        ("local a\nlocal b\nlocal function f(p) p = nil\n return p\nend\nreturn f(a)", &[5, 6, 3, 4]),
    ];
    for (source, wanted) in cases {
        let mut found = Vec::new();
        step(&mut asking_machine(), source, |_, line| found.push(line));
        assert_eq!(found, wanted, "{source}");
    }
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
            let locals: Vec<_> =
                run.locals(0).into_iter().map(|(name, value)| (name.to_vec(), value)).collect();
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

#[test]
fn values_are_described_with_what_is_in_them() {
    let shown = |source: &str, limit: usize| {
        let mut vm = machine(16 << 20);
        let chunk = vm.load(&compile(source.as_bytes(), b"@test").expect("a program")).expect("room");
        let mut run = vm.start(chunk);
        assert!(matches!(run.resume_unwatched(100_000), RunOutcome::Done));
        let value = run.results()[0];
        let mut out = Vec::new();
        describe(run.objects(), value, &mut out, limit);
        String::from_utf8(out).expect("a text")
    };
    assert_eq!(shown("return {1, 2.5, {k = 'v'}, true}", 1000), "{1; 2.5; {[k]=v; }; true; }");
    assert_eq!(shown("return {[2] = 1e100}", 1000), "{[2]=1e+100; }");
    assert_eq!(shown("return 12345678901234", 1000), "1.23457e+13");
    assert_eq!(shown("return nil", 1000), "nil");
    assert!(shown("return pairs", 1000).starts_with(" \"function@0x"));
    let cycle = shown("local t = {} t.a = t return t", 1000);
    assert_eq!(cycle.matches('{').count(), 10, "{cycle}");
    assert!(cycle.contains("{[<max recursion level reached! Nested table?>]=<max"), "{cycle}");
    let wide = shown("local t = {} for i = 1, 100 do t[i] = t end return t", 5000);
    assert!(wide.len() < 5200, "{}", wide.len());
}
