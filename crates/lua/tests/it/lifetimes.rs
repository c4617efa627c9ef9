//! Tests of strings of each of the four lifetimes, of objects that are discarded at the end of their run, and
//! of heaps that outlast runs.

use super::common::{PLENTY, answer_of, machine, text};
use sluice_lua::{RunOutcome, Value, Vm, compile};

/// A library with two tables, functions that read and change them, one that makes garbage, and one that
/// counts its calls.
const LIBRARY: &str =
    "local kept = {} local names = {alpha = 1, ['a text that is longer than a slot holds'] = 2}
    return {
        get = function(k) return names[k] end,
        put = function(k, v) kept[k] = v end,
        find = function(k) return kept[k] end,
        make = function(n) local t = {} for i = 1, n do t[i] = {i} end return #t end,
        count = (function() local n = 0 return function() n = n + 1 return n end end)(),
    }";

/// A machine with the library loaded permanently, and the table of the library's functions.
fn with_library() -> (Vm, Value) {
    let mut vm = machine(64 << 20);
    let proto = compile(LIBRARY.as_bytes(), b"=library").expect("a library");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    let table = run.results()[0];
    vm.end_and_keep();
    vm.pin(table);
    (vm, table)
}

fn function(vm: &mut Vm, table: Value, name: &str) -> Value {
    let table = table.as_table().expect("a table");
    vm.heap().get_text(table, name.as_bytes())
}

/// Calls a function of the library in a separate run. The arguments are strings made in that run.
fn call(vm: &mut Vm, table: Value, name: &str, args: &[&str]) -> String {
    let function = function(vm, table, name);
    let mut run = vm.start_call(Value::NIL, &[]);
    run.resume_unwatched(1);
    drop(run.end());
    let args: Vec<Value> = args
        .iter()
        .map(|arg| match arg.parse::<f64>() {
            Ok(number) => Value::number(number),
            Err(_) => vm.heap().new_string(arg.as_bytes()).expect("room"),
        })
        .collect();
    let mut run = vm.start_call(function, &args);
    let outcome = run.resume_unwatched(PLENTY);
    assert!(matches!(outcome, RunOutcome::Done), "{outcome:?}");
    let result = run.results().first().copied().unwrap_or_default();
    let answer = text(vm, result);
    drop(vm.end());
    answer
}

#[test]
fn the_same_text_is_one_key_in_whichever_two_lifetimes_it_was_made() {
    // A constant of a chunk equals a name of a shared library.
    let mut vm = machine(64 << 20);
    assert_eq!(answer_of(&mut vm, "return type(string.sub)"), "function");
    // A string that is made in a run equals a name of a shared library.
    assert_eq!(answer_of(&mut vm, "return type(string['s' .. 'ub'])"), "function");
    // A constant equals a string that is made in a run; one pair is short, another long.
    let long = "local k = 'a text that is longer ' local t = {[k .. 'than a slot'] = 1} return t['a text that is longer than a slot']";
    assert_eq!(answer_of(&mut vm, "local t = {} t['a' .. 'b'] = 1 return t.ab"), "1");
    assert_eq!(answer_of(&mut vm, "local t = {ab = 2} return t['a' .. 'b']"), "2");
    assert_eq!(answer_of(&mut vm, long), "1");
    // Two chunks have equal constants.
    assert_eq!(answer_of(&mut vm, "local t = {xyz = 3} return loadstring('return (...).xyz')(t)"), "3");
    // A string that is made in a run equals a string of a library's heap.
    let (mut vm, library) = with_library();
    assert_eq!(call(&mut vm, library, "get", &["alpha"]), "1");
    assert_eq!(call(&mut vm, library, "get", &["a text that is longer than a slot holds"]), "2");
    assert_eq!(call(&mut vm, library, "put", &["made in a run", "5"]), "nil");
    assert_eq!(call(&mut vm, library, "find", &["made in a run"]), "5");
    // A name of a shared library equals a string of a library's heap.
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
        run.resume_unwatched(stop);
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
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
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

/// Runs a program with a pause and a slice of the collector after every `slice` instructions.
fn collecting(source: &str, slice: u64, work: usize) -> String {
    let mut vm = machine(64 << 20);
    let proto = compile(source.as_bytes(), b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    run.stepwise();
    let outcome = loop {
        match run.resume_unwatched(slice) {
            RunOutcome::OutOfBudget => {
                vm.collect(work);
                run = vm.run().expect("the run is open");
            }
            outcome => break outcome,
        }
    };
    assert!(matches!(outcome, RunOutcome::Done), "{outcome:?}");
    let result = run.results().first().copied().unwrap_or_default();
    let answer = text(&mut vm, result);
    drop(vm.end());
    answer
}

#[test]
fn weak_tables_lose_what_nobody_else_refers_to_and_nothing_else() {
    let values = "local w, kept = setmetatable({}, {__mode = 'v'}), {}
        for i = 1, 3000 do
          local v = {i} w[i] = v w['k' .. i] = v if i % 3 == 0 then kept[i] = v end
          local old = w[i - 700] if old and old[1] ~= i - 700 then return 'wrong' end
          if old and i % 11 == 0 then kept[i - 700] = old end
        end
        collectgarbage() collectgarbage()
        local n, others = 0, 0
        for k, v in pairs(w) do n = n + 1 if kept[v[1]] ~= v then others = others + 1 end end
        for k, v in pairs(kept) do if k % 3 == 0 and (w[k] ~= v or w['k' .. k] ~= v) then return 'lost' end end
        -- Registers that are not in use any more may refer to a few.
        if n < 2000 or others > 10 then return n .. ' ' .. others end
        return 'right'";
    let keys = "local w, kept = setmetatable({}, {__mode = 'k'}), {}
        for i = 1, 2000 do local k = {i} w[k] = i if i % 2 == 0 then kept[i] = k end end
        collectgarbage() collectgarbage()
        local n, others = 0, 0 for k, v in pairs(w) do if kept[v] == k then n = n + 1 else others = others + 1 end end
        return n == 1000 and others < 10 and 'right' or n .. ' ' .. others";
    for source in [values, keys] {
        for (slice, work) in [(PLENTY, 1), (1, 7), (3, 40), (50, 1000), (1000, 100_000)] {
            assert_eq!(collecting(source, slice, work), "right", "by {slice}, {work}: {source}");
        }
    }
}

#[test]
fn a_run_that_ends_in_the_middle_of_a_cycle_leaves_the_cycle_to_go_on() {
    let (mut vm, library) = with_library();
    for turn in 0..400 {
        call(&mut vm, library, "put", &["key", &format!("value number {turn}, which is not short")]);
        vm.collect(turn % 60 + 1);
        call(&mut vm, library, "make", &[&format!("{}", turn % 90)]);
        vm.collect(3);
    }
    assert_eq!(call(&mut vm, library, "find", &["key"]), "value number 399, which is not short");
    assert_eq!(call(&mut vm, library, "get", &["alpha"]), "1");
    assert_eq!(call(&mut vm, library, "get", &["a text that is longer than a slot holds"]), "2");
}

#[test]
fn a_collection_that_a_program_asks_for_stops_at_each_budget() {
    let source = "local t = {} for i = 1, 50000 do t[i] = {i} end t = nil collectgarbage() return collectgarbage('count') < 2000";
    let mut vm = machine(64 << 20);
    let proto = compile(source.as_bytes(), b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    let (mut stops, mut done) = (0, false);
    while !done {
        match run.resume_unwatched(1000) {
            RunOutcome::OutOfBudget => stops += 1,
            outcome => done = matches!(outcome, RunOutcome::Done),
        }
    }
    assert_eq!(run.results(), [Value::TRUE]);
    assert!(stops > 200, "{stops} stops");
}

#[test]
fn chunks_that_are_unloaded_give_their_bytes_back() {
    const CHUNKS: usize = 100_000;
    const KEPT: usize = 500;
    let mut vm = machine(64 << 20);
    let mut loaded = std::collections::VecDeque::new();
    let (mut most, mut given) = ([0, 0], [0, 0]);
    for number in 0..CHUNKS {
        let source = format!(
            "local function f(a) return a.field{number} .. 'the text of chunk number {number}' end \
             return f({{field{number} = 'x'}}) .. (function() return {number} end)()"
        );
        let proto = compile(source.as_bytes(), b"=test").expect("a program");
        let chunk = vm.load(&proto).expect("room");
        loaded.push_back((number, chunk));
        if loaded.len() > KEPT {
            let (_, oldest) = loaded.pop_front().expect("a chunk");
            assert!(vm.unload(oldest));
            assert!(!vm.unload(oldest), "it is unloaded once");
        }
        let half = number * 2 / CHUNKS;
        most[half] = most[half].max(vm.bytes());
        given[half] = given[half].max(vm.footprint());
        if number % 3 == 0 {
            // Runs the newest chunk, or the oldest of those that are kept.
            let (number, chunk) = if number % 2 == 0 { (number, chunk) } else { loaded[0] };
            let mut run = vm.start(chunk);
            assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
            let result = run.results()[0];
            assert_eq!(text(&mut vm, result), format!("xthe text of chunk number {number}{number}"));
            drop(vm.end());
        }
    }
    // All chunks ever loaded would take 160 MB together; the kept ones take 0.8 MB.
    assert!(most[0] < 2 << 20, "{most:?} bytes at most in each half");
    assert!(most[1] < most[0] + most[0] / 8, "{most:?} bytes at most in each half");
    // The footprint includes the tables of symbols and free slots.
    assert!(given[0] < 4 << 20 && given[1] < given[0] + given[0] / 8, "{given:?} bytes at most in each half");
}

#[test]
fn garbage_of_chunks_of_many_names_is_a_few_times_what_lives() {
    const KEPT: usize = 5;
    for (names, chunks) in [(6_000, 80), (30_000, 20)] {
        let mut vm = machine(1 << 30);
        let mut loaded = std::collections::VecDeque::new();
        let (mut lives, mut most) = (0, 0);
        for chunk in 0..chunks {
            let groups = names / 200;
            let calls = |group| (0..200).map(move |at| format!("f('chunk-{chunk}-{group}-{at}') "));
            let source: String = (0..groups)
                .map(|group| format!("do local f = f {}end ", calls(group).collect::<String>()))
                .collect();
            let proto = compile(source.as_bytes(), b"=test").expect("a program");
            let (chunk, brought) = vm.load_owned(proto).expect("room");
            assert!((44 * names..60 * names).contains(&brought), "{brought} bytes of {names} names");
            loaded.push_back(chunk);
            lives = brought * (KEPT + 1);
            if loaded.len() > KEPT {
                assert!(loaded.pop_front().is_some_and(|oldest| vm.unload(oldest)));
            }
            most = most.max(vm.bytes());
        }
        assert!(most < 4 * lives, "{most} bytes where {lives} live, of chunks of {names} names");
    }
}

#[test]
fn a_chunk_that_was_unloaded_does_not_run_and_one_that_runs_ends() {
    let mut vm = machine(64 << 20);
    let source = b"local t = {} for i = 1, 100 do t[i] = 'value ' .. i end return t[100] .. 'end'";
    let proto = compile(source, b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    run.stepwise();
    assert!(matches!(run.resume_unwatched(50), RunOutcome::OutOfBudget));
    assert!(vm.unload(chunk));
    for _ in 0..4 {
        while !vm.collect(1000) {}
    }
    let mut run = vm.run().expect("the run is open");
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    let result = run.results()[0];
    assert_eq!(text(&mut vm, result), "value 100end");
    drop(vm.end());
    // The slot of the unloaded chunk is given to another chunk.
    let proto = compile(b"return 'other'", b"=test").expect("a program");
    let other = vm.load(&proto).expect("room");
    let outcome = vm.start(chunk).resume_unwatched(PLENTY);
    assert!(matches!(outcome, RunOutcome::Failed(_)), "{outcome:?}");
    drop(vm.end());
    assert!(!vm.unload(chunk));
    let mut run = vm.start(other);
    assert!(matches!(run.resume_unwatched(PLENTY), RunOutcome::Done));
    drop(vm.end());
}
