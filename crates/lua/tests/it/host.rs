//! Functions of the host, and requests to it.

use super::common::{PLENTY, text};
use sluice_lua::{Ctx, Fault, Native, NativeStep, RunOutcome, Value, Vm, compile};

fn ask(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_any(1)?;
    Ok(NativeStep::Request(7))
}

fn with_host() -> Vm {
    let mut vm = Vm::new(64 << 20).expect("room");
    vm.library().table(b"host", &[Native::plain("call", ask)]).expect("room");
    vm.seal(true);
    vm
}

/// Runs a program and answers each request with its first argument plus one, or with an error for a text.
fn run(source: &str, slice: u64) -> String {
    let mut vm = with_host();
    let proto = compile(source.as_bytes(), b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    if slice < 100 {
        run.stepwise();
    }
    loop {
        match run.resume(slice) {
            RunOutcome::Call(code) => {
                assert_eq!(code, 7);
                match run.request_args()[0].as_number() {
                    Some(number) => run.answer(&[Value::number(number + 1.0)]),
                    None => run.answer_error(Fault::text("refused")),
                }
            }
            RunOutcome::OutOfBudget => {}
            RunOutcome::Done => {
                let value = run.results().first().copied().unwrap_or_default();
                return text(&mut vm, value);
            }
            RunOutcome::Failed(value) => return text(&mut vm, value),
        }
    }
}

#[test]
fn requests_come_out_of_every_kind_of_call() {
    let cases = [
        ("return host.call(1)", "2"),
        ("return host.call(host.call(1))", "3"),
        ("local ok, e = pcall(host.call, 1) return e", "2"),
        ("local ok, e = pcall(host.call, 'x') return e", "refused"),
        ("host.call('x')", "test:1: refused"),
        ("local ok, e = pcall(function() return host.call('x') end) return e", "test:1: refused"),
        ("host.call()", "test:1: bad argument #1 to 'call' (value expected)"),
        ("return coroutine.wrap(function() return host.call(5) end)()", "6"),
        ("return setmetatable({}, {__index = function(_, k) return host.call(k) end})[3]", "4"),
        ("return setmetatable({}, {__add = function(a, b) return host.call(b) end}) + 8", "9"),
        (
            "local t = {3, 1, 2} table.sort(t, function(a, b) return host.call(a) < host.call(b) end) return t[1]",
            "1",
        ),
        ("return (('123'):gsub('%d', function(d) return host.call(tonumber(d)) end))", "234"),
        (
            "local s = 0 for i in function(_, i) i = host.call(i) if i < 5 then return i end end, nil, 0 do s = s + i end return s",
            "10",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(run(source, PLENTY), expected, "{source}");
        assert_eq!(run(source, 1), expected, "{source}, by single instructions");
    }
}

#[test]
fn globals_of_the_host_last_for_a_run() {
    let mut vm = Vm::new(64 << 20).expect("room");
    let keys = vm.declare(b"KEYS").expect("room");
    vm.seal(true);
    let proto = compile(b"return KEYS and KEYS[1]", b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    let table = run.heap().new_table(1, 0).expect("room");
    run.heap().set_int(table, 1, Value::number(5.0)).expect("room");
    run.set_global(keys, table.into()).expect("room");
    assert!(matches!(run.resume(PLENTY), RunOutcome::Done));
    assert_eq!(run.results()[0].as_number(), Some(5.0));
    drop(run.end());
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume(PLENTY), RunOutcome::Done));
    assert_eq!(run.results()[0], Value::FALSE);
}

#[test]
fn globals_of_the_host_stay_where_they_are_however_many_follow() {
    let mut vm = Vm::new(64 << 20).expect("room");
    let declared: Vec<_> =
        (0..200).map(|at| vm.declare(format!("HOST{at}").as_bytes()).expect("room")).collect();
    vm.seal(true);
    let proto =
        compile(b"for i = 0, 199 do if _G['HOST' .. i] ~= i then return i end end return 'all'", b"=test");
    let chunk = vm.load(&proto.expect("a program")).expect("room");
    let mut run = vm.start(chunk);
    for (at, global) in declared.iter().enumerate() {
        run.set_global(*global, Value::number(at as f64)).expect("room");
    }
    assert!(matches!(run.resume(PLENTY), RunOutcome::Done));
    let value = run.results()[0];
    assert_eq!(text(&mut vm, value), "all");
}

#[test]
fn globals_of_the_host_are_there_again_where_a_program_removed_them() {
    let mut vm = Vm::new(64 << 20).expect("room");
    let keys = vm.declare(b"KEYS").expect("room");
    vm.seal(false);
    let load = |vm: &mut Vm, source: &[u8]| {
        let proto = compile(source, b"=test").expect("a program");
        vm.load(&proto).expect("room")
    };
    let remove = load(&mut vm, b"KEYS = nil for i = 1, 300 do _G['other' .. i] = i end");
    let read = load(&mut vm, b"return KEYS");
    assert!(matches!(vm.start(remove).resume(PLENTY), RunOutcome::Done));
    drop(vm.end());
    let mut run = vm.start(read);
    run.set_global(keys, Value::number(5.0)).expect("room");
    assert!(matches!(run.resume(PLENTY), RunOutcome::Done));
    assert_eq!(run.results()[0].as_number(), Some(5.0));
}

#[test]
fn a_run_that_fails_has_no_results() {
    let mut vm = with_host();
    let good = vm.load(&compile(b"return 1, 2", b"=test").expect("a program")).expect("room");
    let bad = vm.load(&compile(b"error('no')", b"=test").expect("a program")).expect("room");
    let mut run = vm.start(good);
    assert!(matches!(run.resume(PLENTY), RunOutcome::Done));
    assert_eq!(run.results().len(), 2);
    drop(run.end());
    let mut run = vm.start(bad);
    assert!(matches!(run.resume(PLENTY), RunOutcome::Failed(_)));
    assert_eq!(run.results().len(), 0);
}
