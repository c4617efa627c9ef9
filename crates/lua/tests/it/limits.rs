//! Tests of limits: a program that exceeds one fails with an error, and other programs are not affected.

use super::common::{answer, answer_of, machine, text};
use sluice_lua::{RunOutcome, compile};

#[test]
fn memory_that_runs_out_is_an_error_that_a_program_can_catch() {
    let hungry = [
        "local t = {} for i = 1, 1e8 do t[i] = i end",
        "local t = {} for i = 1, 1e8 do t['k' .. i] = i end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "return string.rep('abc', 2e9)",
        "local t = {} for i = 1, 1e7 do t[i] = {} end",
        "local t = {} for i = 1, 1e7 do t[i] = function() return i end end",
        "local t = {} for i = 1, 1e7 do t[i] = coroutine.create(function() end) end",
        "local t = {} for i = 1, 1e7 do t[i] = loadstring('return ' .. i) end",
        "local s = string.rep('a', 1e6) local t = {} for i = 1, 1e5 do t[i] = s:gsub('a', 'bb') end",
        "local s = string.rep('a', 1e6) local t = {} for i = 1, 1e5 do t[i] = s end return table.concat(t)",
        "local t = {} for i = 1, 1e7 do t[i] = string.format('%099d', i) end",
        "local t = {} for i = 1, 1e7 do t[i] = coroutine.wrap(function() coroutine.yield() end) t[i]() end",
    ];
    for source in hungry {
        let mut vm = machine(8 << 20);
        let caught = format!("local ok, e = pcall(function() {source} end) return ok, e");
        assert_eq!(answer_of(&mut vm, &caught), "false not enough memory", "{source}");
        assert_eq!(answer_of(&mut vm, source), "not enough memory", "{source}");
        assert!(vm.bytes() < 1 << 20, "{source}: {} bytes are left", vm.bytes());
        assert_eq!(answer_of(&mut vm, "return 1"), "1");
    }
}

#[test]
fn garbage_is_collected_before_memory_runs_out() {
    let mut vm = machine(4 << 20);
    for source in [
        "for i = 1, 300000 do local t = {i, i} end return 1",
        "local s for i = 1, 100000 do s = 'text number ' .. i .. ' that is long enough' end return 1",
        "local s = '' for i = 1, 3000 do s = s .. 'x' end return 1",
        "for i = 1, 20000 do coroutine.wrap(function() coroutine.yield(i) end)() end return 1",
        "local a = {} for i = 1, 200000 do a = {a = {}, b = function() return a end} a.a = a end return 1",
        "for i = 1, 30000 do loadstring('return function() return ' .. i .. ' end')() end return 1",
    ] {
        assert_eq!(answer_of(&mut vm, source), "1", "{source}");
    }
}

#[test]
fn the_collector_keeps_up_with_a_program() {
    for source in [
        "local s for i = 1, 1000000 do s = 's' .. i end return 1",
        "local t for i = 1, 400000 do t = {i} end return 1",
        "local f for i = 1, 400000 do f = function() return i end end return 1",
        "local s for i = 1, 300000 do s = 'text number ' .. i .. ' that is longer than a slot' end return 1",
    ] {
        let mut vm = machine(1 << 30);
        let proto = compile(source.as_bytes(), b"=test").expect("a program");
        let chunk = vm.load(&proto).expect("room");
        let (mut most, mut run) = (0, vm.start(chunk));
        while matches!(run.resume_unwatched(20_000), RunOutcome::OutOfBudget) {
            most = most.max(run.heap().bytes_in_use());
        }
        drop(vm.end());
        assert!(most < 6 << 20, "{most} bytes at most: {source}");
    }
}

#[test]
fn an_allocation_that_fails_anywhere_leaves_a_machine_that_works() {
    let source = "local t = {} for i = 1, 30 do t['key number ' .. i] = {i, tostring(i)} end
        local co = coroutine.wrap(function() for k, v in pairs(t) do coroutine.yield(k) end end)
        local s = '' for i = 1, 10 do s = s .. co() end
        local u = setmetatable({}, {__index = function(_, k) return k .. s end})
        return #(u.x .. string.rep('ab', 100) .. s:gsub('k', '%0%0') .. table.concat({1, 2, 3}, ', '))";
    let proto = compile(source.as_bytes(), b"=test").expect("a program");
    let mut vm = machine(64 << 20);
    let chunk = vm.load(&proto).expect("room");
    let base = vm.bytes();
    let (mut done, mut failed) = (0, 0);
    for extra in (0..40_000).step_by(61) {
        vm.set_limit(base + extra);
        let mut run = vm.start(chunk);
        match run.resume_unwatched(u64::MAX >> 2) {
            RunOutcome::Done => done += 1,
            RunOutcome::Failed(value) => {
                failed += 1;
                assert_eq!(text(&mut vm, value), "not enough memory");
            }
            outcome => panic!("{outcome:?}"),
        }
        drop(vm.end());
        assert_eq!(vm.bytes(), base, "with {extra} bytes");
    }
    assert!(done > 20 && failed > 100, "{done} runs had enough, {failed} had not");
}

#[test]
fn calls_and_syntax_have_a_depth() {
    let cases = [
        ("local function f() return 1 + f() end return pcall(f)", "false test:1: stack overflow"),
        ("local function f() return pcall(f) end return select('#', f()) > 100", "true"),
        (
            "local t = setmetatable({}, {}) getmetatable(t).__index = t return pcall(function() return t.x end)",
            "false test:1: loop in gettable",
        ),
        (
            "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) return pcall(function() return t.a end)",
            "false test:1: C stack overflow",
        ),
        ("return loadstring('return ' .. string.rep('(', 300) .. '1' .. string.rep(')', 300))", SYNTAX),
        ("return #tostring(loadstring(string.rep('do ', 1e5)))", "3"),
        ("return #tostring(loadstring(string.rep('function f() ', 1e5)))", "3"),
        ("return #tostring(loadstring('x = ' .. string.rep('{', 1e5)))", "3"),
        ("return #tostring(loadstring('x = ' .. string.rep('- ', 1e5)))", "3"),
        ("return type(loadstring('x = ' .. string.rep('a.', 1e5) .. 'b'))", "function"),
        ("return pcall(unpack, {}, 1, 1e8)", "false too many results to unpack"),
        ("return pcall(unpack, {1, 2, 3}, -2, 2147483647)", "false too many results to unpack"),
        ("local function f() return coroutine.wrap(f)() end return pcall(f)", DEEP),
    ];
    for (source, expected) in cases {
        let answer = answer(source);
        if expected == SYNTAX {
            assert!(answer.starts_with("nil [string ") && answer.ends_with(SYNTAX), "{answer}");
        } else if expected == DEEP {
            assert!(answer.ends_with("C stack overflow"), "{answer}");
        } else {
            assert_eq!(answer, expected, "{source}");
        }
    }
}

const SYNTAX: &str = "chunk has too many syntax levels";
const DEEP: &str = "an error of depth";

#[test]
fn a_run_that_never_ends_stops_at_each_budget() {
    for source in [
        "while true do end",
        "repeat until false",
        "for i = 1, 1e300 do end",
        "local function f() return f() end return f()",
        "for k in function() return 1 end do end",
        "while true do pcall(error) end",
        "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
        "string.rep('x', 1e6):gsub('.', function() while true do end end)",
        "local t = {} for i = 1, 1000 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end",
        "while true do string.find(string.rep('a', 1e5), 'b') end",
        "return loadstring('while true do end')()",
        "xpcall(error, function() while true do end end)",
        "return setmetatable({}, {__index = function() while true do end end}).x",
    ] {
        let mut vm = machine(64 << 20);
        let proto = compile(source.as_bytes(), b"=test").expect("a program");
        let chunk = vm.load(&proto).expect("room");
        let base = vm.bytes();
        let mut run = vm.start(chunk);
        for _ in 0..300 {
            assert!(matches!(run.resume_unwatched(1000), RunOutcome::OutOfBudget), "{source}");
        }
        drop(run.end());
        assert_eq!(vm.bytes(), base, "{source}");
    }
}

#[test]
fn long_texts_are_copied_in_pieces() {
    // A program packs or unpacks 8 MB in pieces of 64 KB, and 16 bytes cost a unit of the budget.
    for work in [
        "return #struct.pack('c0', s)",
        "return #struct.pack('s', s)",
        "return #struct.unpack('c8000000', s)",
        "return #struct.unpack('s', s .. '\\0')",
        "return #cmsgpack.pack(s)",
        "return #cmsgpack.unpack(cmsgpack.pack(s))",
    ] {
        let mut vm = machine(256 << 20);
        let source = format!("local s = string.rep('x', 8000000) {work}");
        let proto = compile(source.as_bytes(), b"=test").expect("a program");
        let chunk = vm.load(&proto).expect("room");
        let mut run = vm.start(chunk);
        let mut stops = 0;
        while matches!(run.resume_unwatched(1000), RunOutcome::OutOfBudget) {
            stops += 1;
        }
        let result = run.results()[0];
        let answer = text(&mut vm, result);
        assert!(answer.starts_with("80000"), "{answer}: {work}");
        // Making the string takes 122 pieces, and the call takes about as many. A piece costs more than a
        // slice's budget.
        assert!(stops > 240, "{stops} stops: {work}");
        drop(vm.end());
    }
}

#[test]
fn buffers_of_calls_that_nest_are_within_the_limit() {
    let mut vm = machine(16 << 20);
    let nested = [
        "local big = ('x'):rep(2000000) local function f(n) \
         return (('ab'):gsub('.', function(c) if n > 0 and c == 'b' then f(n - 1) end return big end)) end return #f(100)",
        "local big = ('x'):rep(2000000) local function f(n) local pieces = {'--', big, '', n > 0} \
         local i = 0 local g, e = load(function() i = i + 1 if i == 4 and n > 0 then f(n - 1) end if i == 3 then return '--' end \
         return pieces[i] end) if not g then error(e, 0) end return g end return type(f(100))",
    ];
    for source in nested {
        let caught = format!("return pcall(function() {source} end)");
        assert_eq!(answer_of(&mut vm, &caught), "false not enough memory", "{source}");
        assert_eq!(answer_of(&mut vm, "return #('y'):rep(12000000)"), "12000000", "behind {source}");
    }
}

#[test]
fn slots_of_a_stack_that_a_native_function_adds_are_counted() {
    let source = "local t = {} for i = 1, 7000 do t[i] = i end collectgarbage() local before = collectgarbage('count') \
        for i = 1, 50 do coroutine.wrap(function() return select('#', unpack(t)) end)() end return collectgarbage('count') >= before";
    assert_eq!(answer(source), "true");
}

/// The number of slices of `budget` units that a program takes.
fn slices(source: &str, budget: u64) -> usize {
    let mut vm = machine(256 << 20);
    let chunk = vm.load(&compile(source.as_bytes(), b"=test").expect("a program")).expect("room");
    let (mut slices, mut run) = (1, vm.start(chunk));
    while matches!(run.resume_unwatched(budget), RunOutcome::OutOfBudget) {
        slices += 1;
    }
    slices
}

#[test]
fn an_instruction_that_works_much_takes_much_of_the_budget() {
    let dear = [
        // Doubles whose halves have equal sums fall into one chain of the table.
        "local t, k = {}, struct.pack for i = 1, 3000 do t[struct.unpack('<d', k('<I4I4', i, 0x40000000 - i))] = i end",
        // Comparisons of strings that differ only in their last byte.
        "local a, b = ('x'):rep(1e6) .. 'a', ('x'):rep(1e6) .. 'b' for i = 1, 300 do local c = a == b end",
        "local a, b = ('x'):rep(1e6) .. 'a', ('x'):rep(1e6) .. 'b' for i = 1, 300 do local c = a < b end",
        "local a, b = ('x'):rep(1e6) .. 'a', ('x'):rep(1e6) .. 'b' local t = {b, a, b, a, b, a, b, a} for i = 1, 20 do table.sort(t) end",
        // A traversal that has to skip all removed entries each time.
        "local t = {} for i = 1, 8000 do t['k' .. i] = i end for i = 1, 8000 do t[next(t)] = nil end",
        "local t = {} for i = 1, 8000 do t['k' .. i] = i end for i = 1, 8000 do for k in pairs(t) do t[k] = nil break end end",
        // Empty tables with room for many entries.
        "local e = {} for i = 1, 30000 do e['k' .. i] = i end for i = 1, 30000 do e['k' .. i] = nil end \
         local t = {} for i = 1, 500 do t[i] = e end return #cjson.encode(t)",
        "local e = {} for i = 1, 30000 do e['k' .. i] = i end for i = 1, 30000 do e['k' .. i] = nil end \
         local t = {} for i = 1, 500 do t[i] = e end return #cmsgpack.pack(t)",
        // The length of a table whose border is searched linearly.
        "local t = {} for i = 1, 33000 do t['k' .. i] = i end for i = 1, 33000 do t['k' .. i] = nil end \
         for i = 0, 31 do t[2 ^ i] = i end for i = 8000, 1, -1 do t[i] = i end for i = 1, 1000 do local n = #t end",
    ];
    for source in dear {
        let taken = slices(source, 10_000);
        assert!(taken > 100, "{taken} slices: {source}");
    }
}

#[test]
fn what_a_program_sets_of_the_collector_is_its_own() {
    let mut vm = machine(64 << 20);
    assert_eq!(answer_of(&mut vm, "collectgarbage('stop') return collectgarbage('setpause', 1000)"), "200");
    assert_eq!(
        answer_of(&mut vm, "return collectgarbage('setpause', 100), collectgarbage('setstepmul', 0)"),
        "200 200"
    );
    // If the first program had stopped the collector for the second program, too, the second would run out of
    // memory.
    assert_eq!(
        answer_of(
            &mut vm,
            "for i = 1, 100000 do local t = {i, i, i, i, i, i, i, i} end for i = 1, 200 do local s = ('x'):rep(1e6) end return 1"
        ),
        "1"
    );
}

#[test]
fn the_stack_of_a_run_that_is_kept_is_not_counted_behind_it() {
    let mut vm = machine(64 << 20);
    let program = |source: &str| compile(source.as_bytes(), b"=test").expect("a program");
    let keeper = "local n = 0 local function f(i) if i == 0 then return 0 end return 1 + f(i - 1) end \
        return function() n = {} return f(16000) end";
    let chunk = vm.load(&program(keeper)).expect("room");
    let large = vm.load(&program("local t = {} for i = 1, 200000 do t[i] = {} end return #t")).expect("room");
    let mut run = vm.start(chunk);
    assert!(matches!(run.resume_unwatched(u64::MAX), RunOutcome::Done));
    let function = run.results()[0];
    let pin = vm.pin(function);
    drop(vm.end());
    let base = vm.bytes();
    for _ in 0..20 {
        let function = vm.pinned(pin);
        assert!(matches!(vm.start_call(function, &[]).resume_unwatched(u64::MAX), RunOutcome::Done));
        drop(vm.end());
        assert!(matches!(vm.start(large).resume_unwatched(u64::MAX), RunOutcome::Done));
        drop(vm.end());
    }
    for _ in 0..2 {
        while !vm.collect(1 << 16) {}
    }
    assert!(vm.bytes() < base + 50_000, "{} bytes, {base} before", vm.bytes());
}

/// The programs have lists of a million jumps. A compiler that walked a list for each added jump would take
/// hours.
#[test]
fn long_lists_of_jumps_take_time_in_proportion() {
    let too_long = "test:1: control structure too long near '<eof>'";
    let rows = [
        ("local x if x then ", "elseif x then ", " end", too_long),
        ("local a, b return a", " or b", "", too_long),
        ("local a, b return a", " and b", "", too_long),
        (
            "local x while true do ",
            "if x then break end ",
            "end",
            "test:1: control structure too long near 'end'",
        ),
    ];
    for (before, each, behind, wanted) in rows {
        let source = [before, &each.repeat(1_000_000), behind].concat();
        let got =
            compile(source.as_bytes(), b"=test").map(drop).map_err(|text| String::from_utf8(text).unwrap());
        assert_eq!(got, Err(wanted.to_owned()), "{each}");
    }
}

#[test]
fn lists_of_jumps_lead_where_they_should() {
    let mut vm = machine(64 << 20);
    let many = |before: &str, each: &str, behind: &str| [before, &each.repeat(3000), behind].concat();
    for (source, wanted) in [
        (many("local a, b = nil, 7 return a", " or a", " or b"), "7"),
        (many("local a, b = 1, 7 return a", " and a", " and b"), "7"),
        (many("local a, b = false, 7 return a", " or a and b", " or not (a or b)"), "false"),
        (
            many(
                "local x, n = 5, 0 if x == 1 then n = 1 ",
                "elseif x == 2 then n = 2 ",
                "else n = 3 end return n",
            ),
            "3",
        ),
        (
            many(
                "local x, n = 2, 0 if x == 1 then n = 1 ",
                "elseif x == 2 then n = n + 2 ",
                "else n = 3 end return n",
            ),
            "2",
        ),
        (many("local n = 0 while true do n = n + 1 ", "if n == 9 then break end ", "end return n"), "9"),
        (
            many(
                "local n = 0 repeat n = n + 1 local f = function() return n end ",
                "if n == 4 then break end ",
                "until f() > 6 return n",
            ),
            "4",
        ),
        (many("local a = 1 return not (a", " and a", ")"), "false"),
        (many("local a, b = nil, 2 local c = a", " or a", " or b == 2 return c"), "true"),
    ] {
        assert_eq!(answer_of(&mut vm, &source), wanted, "{}", &source[..40]);
    }
}

#[test]
fn a_function_has_so_many_local_variables_in_all() {
    let mut vm = machine(256 << 20);
    let program = |count: usize| format!("{} return 1", "do local a end ".repeat(count));
    assert_eq!(answer_of(&mut vm, &program(32_767)), "1");
    assert_eq!(answer_of(&mut vm, &program(32_768)), "too many local variables");
}
