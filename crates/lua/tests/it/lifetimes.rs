//! The four lifetimes of a string, regions that are cut off, heaps that last.

use super::common::{PLENTY, answer_of, machine, text};
use sluice_lua::{RunOutcome, Value, Vm, compile};

/// A library of the host with a table, and a function that looks a key up in it.
const LIBRARY: &str =
    "local kept = {} local names = {alpha = 1, ['a text that is longer than a slot holds'] = 2}
    return {
        get = function(k) return names[k] end,
        put = function(k, v) kept[k] = v end,
        find = function(k) return kept[k] end,
        make = function(n) local t = {} for i = 1, n do t[i] = {i} end return #t end,
        count = (function() local n = 0 return function() n = n + 1 return n end end)(),
    }";

/// A machine with the library loaded for good, and its functions.
fn with_library() -> (Vm, Value) {
    let mut vm = machine(64 << 20);
    let proto = compile(LIBRARY.as_bytes(), b"=library").expect("a library");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume(PLENTY), RunOutcome::Done));
    let table = run.results()[0];
    vm.end_and_keep();
    vm.pin(table);
    (vm, table)
}

fn function(vm: &mut Vm, table: Value, name: &str) -> Value {
    let table = table.as_table().expect("a table");
    vm.heap().get_text(table, name.as_bytes())
}

/// Calls a function of the library in a run of its own. The arguments are texts made in the run.
fn call(vm: &mut Vm, table: Value, name: &str, args: &[&str]) -> String {
    let function = function(vm, table, name);
    let mut run = vm.start_call(Value::NIL, &[]);
    run.resume(1);
    drop(run.end());
    let args: Vec<Value> = args
        .iter()
        .map(|arg| match arg.parse::<f64>() {
            Ok(number) => Value::number(number),
            Err(_) => vm.heap().new_string(arg.as_bytes()).expect("room"),
        })
        .collect();
    let mut run = vm.start_call(function, &args);
    let outcome = run.resume(PLENTY);
    assert!(matches!(outcome, RunOutcome::Done), "{outcome:?}");
    let result = run.results().first().copied().unwrap_or_default();
    let answer = text(vm, result);
    drop(vm.end());
    answer
}

#[test]
fn the_same_text_is_one_key_in_whichever_two_lifetimes_it_was_made() {
    // Constant of a chunk and name of a shared library, in both orders.
    let mut vm = machine(64 << 20);
    assert_eq!(answer_of(&mut vm, "return type(string.sub)"), "function");
    // String of a run and name of a shared library.
    assert_eq!(answer_of(&mut vm, "return type(string['s' .. 'ub'])"), "function");
    // Constant and string of a run, short and long.
    let long = "local k = 'a text that is longer ' local t = {[k .. 'than a slot'] = 1} return t['a text that is longer than a slot']";
    assert_eq!(answer_of(&mut vm, "local t = {} t['a' .. 'b'] = 1 return t.ab"), "1");
    assert_eq!(answer_of(&mut vm, "local t = {ab = 2} return t['a' .. 'b']"), "2");
    assert_eq!(answer_of(&mut vm, long), "1");
    // Constants of two chunks.
    assert_eq!(answer_of(&mut vm, "local t = {xyz = 3} return loadstring('return (...).xyz')(t)"), "3");
    // String of a run and string of a library's heap.
    let (mut vm, library) = with_library();
    assert_eq!(call(&mut vm, library, "get", &["alpha"]), "1");
    assert_eq!(call(&mut vm, library, "get", &["a text that is longer than a slot holds"]), "2");
    assert_eq!(call(&mut vm, library, "put", &["made in a run", "5"]), "nil");
    assert_eq!(call(&mut vm, library, "find", &["made in a run"]), "5");
    // Name of a shared library and string of a library's heap.
    assert_eq!(call(&mut vm, library, "put", &["sub", "7"]), "nil");
    assert_eq!(call(&mut vm, library, "find", &["sub"]), "7");
}

#[test]
fn a_run_that_ends_leaves_nothing() {
    let mut vm = machine(64 << 20);
    let source = "local t = {} for i = 1, 100 do t[i] = {tostring(i)} end return coroutine.wrap(function() return #t end)()";
    let proto = compile(source.as_bytes(), b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let base = vm.bytes();
    for stop in [1, 10, 100, 1000, PLENTY] {
        let mut run = vm.start(chunk);
        run.stepwise();
        run.resume(stop);
        drop(run.end());
        assert_eq!(vm.bytes(), base, "dropped after {stop} instructions");
    }
}

#[test]
fn a_large_region_is_handed_out() {
    let mut vm = machine(256 << 20);
    let proto =
        compile(b"local t = {} for i = 1, 100000 do t[i] = {i} end return #t", b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let base = vm.bytes();
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume(PLENTY), RunOutcome::Done));
    let garbage = run.end().expect("a large region is handed out");
    assert!(garbage.parts() > 0);
    assert_eq!(vm.bytes(), base);
    assert_eq!(answer_of(&mut vm, "return string.rep('x', 3)"), "xxx");
}

#[test]
fn a_library_keeps_what_was_given_to_it_and_no_more() {
    let (mut vm, library) = with_library();
    let base = vm.bytes();
    for turn in 1..=50 {
        assert_eq!(call(&mut vm, library, "count", &[]), turn.to_string());
        assert_eq!(call(&mut vm, library, "make", &["3000"]), "3000");
    }
    assert_eq!(vm.bytes(), base, "numbers in an upvalue keep no region");
    for turn in 0..2000 {
        call(&mut vm, library, "put", &["key", &format!("value number {turn}, which is not short")]);
        vm.collect(2000);
    }
    assert_eq!(call(&mut vm, library, "find", &["key"]), "value number 1999, which is not short");
    while !vm.collect(1 << 20) {}
    while !vm.collect(1 << 20) {}
    assert!(vm.bytes() < base + 4096, "{} bytes at first, {} now", base, vm.bytes());
    assert_eq!(call(&mut vm, library, "find", &["key"]), "value number 1999, which is not short");
}

#[test]
fn regress_what_a_stack_still_names_of_a_run_that_is_gone_is_not_marked() {
    let mut vm = machine(64 << 20);
    assert_eq!(
        answer_of(
            &mut vm,
            "local function f(n) local t, s = {n}, 's' .. n if n > 0 then f(n - 1) end end f(50)"
        ),
        ""
    );
    assert_eq!(answer_of(&mut vm, "local a, b, c, d collectgarbage() return 1"), "1");
}
