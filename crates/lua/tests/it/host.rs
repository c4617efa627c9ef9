//! Tests of functions that the host provides, and of requests to the host.

use super::common::{PLENTY, text};
use sluice_lua::{
    Ctx, DiscardedRun, Fault, LoadedChunk, Native, NativeStep, Pinned, RunLimit, RunOutcome, Value, Vm,
    compile,
};

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

/// Runs a program and answers each request with the request's first argument plus one, or with an error if
/// the argument is a string.
fn run(source: &str, slice: u64) -> String {
    let mut vm = with_host();
    let proto = compile(source.as_bytes(), b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    if slice < 100 {
        run.stepwise();
    }
    loop {
        match run.resume_unwatched(slice) {
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
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    assert_eq!(run.results()[0].as_number(), Some(5.0));
    drop(run.end());
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
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
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
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
    assert!(matches!(vm.start(remove).resume_unwatched(PLENTY), RunOutcome::Done));
    drop(vm.end());
    let mut run = vm.start(read);
    run.set_global(keys, Value::number(5.0)).expect("room");
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    assert_eq!(run.results()[0].as_number(), Some(5.0));
}

#[test]
fn a_run_that_fails_has_no_results() {
    let mut vm = with_host();
    let good = vm.load(&compile(b"return 1, 2", b"=test").expect("a program")).expect("room");
    let bad = vm.load(&compile(b"error('no')", b"=test").expect("a program")).expect("room");
    let mut run = vm.start(good);
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    assert_eq!(run.results().len(), 2);
    drop(run.end());
    let mut run = vm.start(bad);
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Failed(_)));
    assert_eq!(run.results().len(), 0);
}

/// Runs a library, and pins each function that the library registers, as a host does.
fn library(vm: &mut Vm, source: &[u8]) -> (LoadedChunk, Vec<Pinned>) {
    let chunk = vm.load(&compile(source, b"@lib").expect("a program")).expect("room");
    let mut pins = Vec::new();
    vm.start(chunk);
    loop {
        let mut run = vm.run().expect("an open run");
        match run.resume_unwatched(PLENTY) {
            RunOutcome::Call(_) => {
                let function = run.request_args()[0];
                run.answer(&[]);
                pins.push(vm.pin(function));
            }
            RunOutcome::Done => break,
            outcome => panic!("{outcome:?}"),
        }
    }
    drop(vm.end());
    (chunk, pins)
}

fn called(vm: &mut Vm, pin: Pinned) -> String {
    let function = vm.pinned(pin);
    let argument = vm.heap().new_string(b"an argument that is made between two runs").expect("room");
    let mut run = vm.start_call(function, &[argument]);
    let outcome = run.resume_unwatched(PLENTY);
    let value = match outcome {
        RunOutcome::Failed(value) => value,
        _ => run.results().first().copied().unwrap_or_default(),
    };
    let shown = text(vm, value);
    drop(vm.end());
    shown
}

#[test]
fn pinned_functions_outlive_the_run_that_made_them_until_they_are_unpinned() {
    let mut vm = with_host();
    let base = {
        for _ in 0..2 {
            while !vm.collect(1 << 16) {}
        }
        vm.bytes()
    };
    let source = b"local n, long = 0, ('x'):rep(1000000) host.call(function(a) n = n + 1 return n .. #long .. #a end) \
        host.call(function() return 'second' end)";
    for _ in 0..3 {
        let (chunk, pins) = library(&mut vm, source);
        assert_eq!(called(&mut vm, pins[0]), "1100000041");
        assert_eq!(called(&mut vm, pins[0]), "2100000041");
        assert_eq!(called(&mut vm, pins[1]), "second");
        assert!(vm.unload(chunk) && !vm.unload(chunk));
        for _ in 0..2 {
            while !vm.collect(1 << 16) {}
        }
        assert_eq!(called(&mut vm, pins[0]), "3100000041");
        assert!(vm.unpin(pins[0]) && !vm.unpin(pins[0]));
        // After `unpin`, a pin is not valid for the new value in its slot.
        let other = vm.pin(Value::TRUE);
        assert_eq!((vm.pinned(pins[0]), vm.pinned(other)), (Value::NIL, Value::TRUE));
        assert!(vm.unpin(other) && vm.unpin(pins[1]));
        assert_eq!(called(&mut vm, pins[0]), "attempt to call a nil value");
    }
    for _ in 0..2 {
        while !vm.collect(1 << 16) {}
    }
    assert!(vm.bytes() < base + 10_000, "{} bytes, {base} before", vm.bytes());
}

#[test]
fn a_machine_and_its_garbage_can_go_to_another_thread() {
    fn goes<T: Send>() {}
    goes::<Vm>();
    goes::<DiscardedRun>();
}

/// A function for missing globals that fails with the reference's error.
fn no_global(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let name = ctx.check_str(2)?;
    let name = String::from_utf8_lossy(ctx.heap.bytes(name)).into_owned();
    Err(Fault::text(format!("Script attempted to access nonexistent global variable '{name}'")))
}

#[test]
fn globals_can_have_a_metatable_of_the_host() {
    let mut vm = Vm::new(64 << 20).expect("room");
    let globals = vm.globals();
    let mut library = vm.library();
    let index = library.function(Native::plain("index", no_global), &[]).expect("room");
    let meta = library.heap.new_table(0, 1).expect("room");
    library.field(meta, b"__index", index).expect("room");
    library.heap.set_metatable(globals, Some(meta)).expect("not read-only yet");
    vm.seal(true);
    assert_eq!(
        super::common::answer_of(&mut vm, "\nreturn other"),
        "test:2: Script attempted to access nonexistent global variable 'other'"
    );
    assert_eq!(super::common::answer_of(&mut vm, "return type(pairs)"), "function");
}

#[test]
fn a_native_function_can_be_what_is_run() {
    for (argument, wanted) in [(Value::number(4.0), "5"), (Value::TRUE, "refused")] {
        let mut vm = with_host();
        let chunk = vm.load(&compile(b"return host.call", b"=test").expect("a program")).expect("room");
        let mut run = vm.start(chunk);
        assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
        let function = run.results()[0];
        let pin = vm.pin(function);
        vm.end_and_keep();
        let function = vm.pinned(pin);
        let mut run = vm.start_call(function, &[argument]);
        assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Call(7)));
        match run.request_args()[0].as_number() {
            Some(number) => run.answer(&[Value::number(number + 1.0)]),
            None => run.answer_error(Fault::text("refused")),
        }
        let outcome = run.resume_unwatched(PLENTY);
        let value = match outcome {
            RunOutcome::Failed(value) => value,
            _ => run.results()[0],
        };
        assert!(run.failed_at().is_none());
        assert_eq!(text(&mut vm, value), wanted);
    }
}

/// The host notes the time after each request and never checks the limit itself, but the deadline must still
/// hold.
#[test]
fn a_deadline_is_met_by_a_host_that_only_notes_the_time() {
    let mut vm = with_host();
    let proto = compile(b"while true do host.call(1) end", b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    let mut limit = RunLimit::until(0, 50_000);
    let mut now_ns = 0;
    let mut requests = 0;
    while let RunOutcome::Call(_) = run.resume(&mut limit, &mut || now_ns) {
        requests += 1;
        assert!(requests < 1000, "the deadline has passed long ago");
        now_ns += 1000;
        limit.note_time(now_ns);
        run.answer(&[]);
    }
    assert_eq!(requests, 50);
    // Under this limit the run does not continue; under the next one it does.
    assert!(matches!(run.resume(&mut limit, &mut || now_ns), RunOutcome::OutOfBudget));
    let mut next = RunLimit::until(now_ns, now_ns + 1);
    assert!(matches!(run.resume(&mut next, &mut || now_ns), RunOutcome::Call(_)));
}
