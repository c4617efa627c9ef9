//! Tests in which one growth of the heap fails in each run: in the first run the first growth, in the next
//! run the second, and so on, until the program ends before it reaches the failing growth.
//!
//! Growths are counted where memory is requested from the heap, in builds of unit tests only.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

use crate::api::{RunOutcome, Vm, compile};
use crate::code::LoadedChunk;
use crate::heap::Heap;

/// Maximum number of growths of one program that are made to fail.
const GROWTHS_MAX: u64 = 2500;

/// Programs that use every library as a server's scripts do; loops have few iterations.
const PROGRAMS: &[&str] = &[
    "local t = {} for i = 1, 40 do t['key number ' .. i] = {i, tostring(i), x = 1} t[i] = i end return #t",
    "local t = {1, 2, 3, x = 1, y = 2, [10] = 4} for k, v in pairs(t) do t[k] = v .. 'x' end return t[1]",
    "local function f(...) local t = {...} return select('#', ...), t, ... end return f(1, 2, 3, 'a', nil)",
    "local function f(a) return arg.n + #arg, a end local function g(n, ...) return f(n, ...) end return g(1, 2, 3)",
    "local function f(n) if n == 0 then return 0 end local a, b, c = n, n, n return a + f(n - 1) end return f(300)",
    "local a = {} for i = 1, 20 do local j = i a[i] = function() j = j + 1 return function() return j .. i end end end return a[3]()()",
    "local o = setmetatable({}, {__index = function(t, k) return k .. 'i' end, __newindex = function(t, k, v) rawset(t, k, v .. 'n') end, \
     __call = function(t, x) return x .. 'c' end, __concat = function(a, b) return 'cat' .. type(a) end, __add = function() return {} end, \
     __eq = function() return true end, __lt = function() return true end, __le = function() return true end, __len = function() return 7 end, \
     __unm = function() return 'unm' .. 1 end, __tostring = function() return 'text' .. 2 end}) \
     o.x = 1 return o.y .. o('z') .. (o .. 'a') .. type(o + 1) .. tostring(o < o) .. tostring(o <= o) .. -o .. tostring(o)",
    "local ok, e = pcall(function() local x = nil x.y = 1 end) local ok2, e2 = pcall(error, {code = 5}) return e .. tostring(e2.code)",
    "local ok, e = xpcall(function() error('first') end, function(e) return e .. ' handled ' .. tostring({}) end) return e",
    "local function f() error(setmetatable({}, {__index = function(t, k) return k .. '!' end})) end local ok, e = pcall(f) return e",
    "local c = coroutine.create(function(a) local b = coroutine.yield(a .. 'y') error(b .. 'e') end) \
     local x, y = coroutine.resume(c, 'a') local z, w = coroutine.resume(c, 'b') return y .. w .. coroutine.status(c)",
    "local n = 0 for v in coroutine.wrap(function() for i = 1, 12 do coroutine.yield(i .. 'v') end end) do n = n + #v end return n",
    "local c = {} for i = 1, 9 do c[i] = coroutine.wrap(function(...) local t = {...} while true do t = {coroutine.yield(#t, unpack(t))} end end) \
     c[i](1, 2, 3) end local s = 0 for i = 1, 9 do s = s + c[i](i, i) end return s",
    "local f = loadstring('local a, b = ... local function g(x) return x .. \\'k\\' .. (a or 1) end return g(b), {a = 1, [\\'b\\'] = g}') return f(1, 2)",
    "local n, e = loadstring('x = = 1', '=chunk') local parts = {'return ', '1 + ', '2'} local i = 0 \
     local g = load(function() i = i + 1 return parts[i] end) return e .. g()",
    "collectgarbage() local n = collectgarbage('count') collectgarbage('step') return type(n) .. tostring(tonumber('0x1f')) .. tostring(12.5)",
    "return table.concat({unpack({1, 2, 3})}, ',') .. tostring(next({5})) .. rawget({'a'}, 1) .. tostring(rawequal('a' .. 1, 'a1')) .. _VERSION",
    "local s = 'hello world from a pattern' return s:gsub('%w+', '<%0>') .. s:gsub('o', {o = '0', x = 1}) .. s:gsub('(l)(o?)', function(a, b) return b .. a end)",
    "local s, n = 'k1=v1, k2=v2, k3=a value that is longer than a slot holds', 0 for k, v in s:gmatch('(%w+)=([^,]+)') do n = n + #k + #v end return n",
    "local s = ('abc'):rep(300) return s:find('cab', 1, true) .. s:match('(a.)') .. #s:upper() .. s:reverse():sub(5, 90) .. s:lower():byte(3) .. #s:sub(2)",
    "return string.format('%d %5.2f %s %q %x %c %10s %-5d %i %g %e %o %u %%', 1, 2.5, ('x'):rep(200), 'q\\n\\0\"', 255, 65, 'pad', 7, 3, 1e20, 5, 8, 9)",
    "local s = ('long '):rep(100) return string.format('%s|%q|%.3s', s, s, s) .. string.char(65, 66, 67) .. #string.dump(function() end)",
    "local s = '' for i = 1, 30 do s = s .. i .. ', ' .. s:sub(1, 9) end return #s",
    "local t = {} for i = 1, 50 do t[i] = (i * 37) % 50 end table.sort(t) table.sort(t, function(a, b) return a > b end) return t[1]",
    "local t = {} for i = 1, 30 do t[i] = ('s'):rep(i % 7) .. i end table.sort(t) return table.concat(t, '-', 2, 20)",
    "local t = {} for i = 1, 30 do table.insert(t, i .. 'e') table.insert(t, 1, i) end table.remove(t) table.remove(t, 3) \
     local n = 0 table.foreach(t, function(k) n = n + k end) table.foreachi(t, function(i, v) n = n + i end) return n + table.maxn(t) + table.getn(t)",
    "return math.floor(1.5) + math.max(1, 2) .. math.pi .. math.random(5) .. math.fmod(7, 3) .. tostring(math.huge) .. math.ldexp(math.frexp(5))",
    "return bit.tohex(bit.band(255, 15)) .. bit.tohex(-1, 4) .. bit.bxor(1, 2) .. bit.lshift(1, 4) .. bit.bswap(1) .. os.clock()",
    "local t = {a = 1, b = {1, 2, {c = 'text that is longer than a slot holds'}}, d = cjson.null, e = true, f = 1.5, [1] = 'x'} \
     local s = cjson.encode({t, t, ('y\\n'):rep(100)}) return s .. #cjson.decode(s)",
    "local s = '{\"a\": [1, 2.5, -3e5, true, false, null, \"\\\\u00e9\\\\n text that is not short at all\"], \"b\": {\"c\": {}}, \"d\": []}' \
     local t = cjson.decode(s) local n = 0 for k, v in pairs(t) do n = n + 1 end return n .. tostring(pcall(cjson.decode, '[1, 2')) .. cjson.encode(t.a)",
    "cjson.encode_sparse_array(true) cjson.encode_max_depth(20) cjson.decode_max_depth(20) cjson.encode_number_precision(5) cjson.encode_keep_buffer(false) \
     return cjson.encode({1, nil, 3, [9] = 1 / 3}) .. cjson.encode(cjson.decode('{\"x\": [[[[1]]]]}'))",
    "local t = {a = 1, b = {1, 2, 3}, c = ('long '):rep(60), d = 1.5, e = -70000, f = true, g = {x = {y = {}}}} \
     local p = cmsgpack.pack(t, 'second', {1, 2}, 1e15) local a, b, c = cmsgpack.unpack(p) return #p .. b .. #c .. #a.c",
    "local p = cmsgpack.pack({1}, {2}, 'three', 4) local n, v = 0, nil local at, x = cmsgpack.unpack_one(p) local list = {cmsgpack.unpack_limit(p, 2, 0)} \
     return at .. type(x) .. #list .. tostring(pcall(cmsgpack.unpack, '\\147\\1'))",
    "local s = struct.pack('>I2i4bhd!8f c5 s L', 1, -2, 3, 4, 5.5, 6.5, 'fives', 'zero ended text', 9) \
     local a, b, c, d, e, f, g, h, i = struct.unpack('>I2i4bhd!8f c5 s L', s) return a .. b .. g .. h .. struct.size('!8 i1 d') .. i",
    "local s = struct.pack('I1c0I4c0', 3, 'abc', 100, ('z'):rep(100)) return struct.unpack('I1c0I4c0', s)",
    "local w = setmetatable({}, {__mode = 'kv'}) for i = 1, 20 do w[i] = {i} w[{}] = i end collectgarbage() return tostring(w[1])",
    "local t = {} for i = 1, 60 do t[i] = i end for i = 1, 60 do t[i] = nil end for i = 1, 20 do t['n' .. i] = i t[i * 1000] = i end return next(t) ~= nil",
];

fn machine() -> Vm {
    let mut vm = Vm::new(64 << 20).expect("room for the libraries");
    vm.look_into_errors();
    vm.seal(true);
    vm
}

fn loaded(vm: &mut Vm, source: &str) -> Option<LoadedChunk> {
    let proto = compile(source.as_bytes(), b"=test").ok()?;
    Some(vm.load(&proto).expect("room for a chunk"))
}

/// The result of a run as a text, and whether it is an error.
fn outcome(vm: &mut Vm, chunk: LoadedChunk) -> (String, bool) {
    let mut run = vm.start(chunk);
    let outcome = run.resume_unwatched(u64::MAX >> 2);
    let (value, is_error) = match outcome {
        RunOutcome::Done => (run.results().first().copied().unwrap_or_default(), false),
        RunOutcome::Failed(value) => (value, true),
        outcome => panic!("{outcome:?}"),
    };
    let text = match (value.as_number(), value.as_str()) {
        (Some(number), _) => number.to_string(),
        (_, Some(text)) => String::from_utf8_lossy(vm.heap().bytes(text)).into_owned(),
        _ => value.type_name().to_string(),
    };
    (text, is_error)
}

/// A program that uses the collector and most libraries; the machine must still be able to run it after a
/// failed growth.
const CHECK: &str = "local t = {} for i = 1, 20 do t[i] = {i, 's' .. i} end table.sort(t, function(a, b) return a[1] > b[1] end) \
    local c = coroutine.wrap(function(a) return coroutine.yield(a .. '1') end) local s = c('c') \
    collectgarbage() local ok, e = pcall(error, 'thrown') \
    return #cjson.encode(t) .. s .. ('x'):rep(3):gsub('x', 'yz') .. cmsgpack.unpack(cmsgpack.pack('p')) .. struct.size('i') .. e .. loadstring('return 5')()";

/// Runs `work` with growth number `number` failing. Returns the result of `work`, and whether it ended with
/// fewer than `number` growths, so that none failed.
fn failing_at<T>(vm: &mut Vm, number: u64, work: impl FnOnce(&mut Vm) -> T) -> (T, bool) {
    vm.heap().growths_left = number;
    let answer = work(vm);
    let passed = std::mem::take(&mut vm.heap().growths_left) > 0;
    (answer, passed)
}

/// Runs a program as it is and inside `pcall`, each once for each of its growths, which fails in that run.
/// Returns the number of failed growths.
fn each_growth(vm: &mut Vm, source: &str, check: (LoadedChunk, &str)) -> u64 {
    let caught =
        format!("local ok, e = pcall(function() {source} end) if ok then return 'passed' end return e");
    let mut growths = 0;
    for (source, is_caught) in [(source, false), (caught.as_str(), true)] {
        let Some(chunk) = loaded(vm, source) else { return 0 };
        let expected = outcome(vm, chunk);
        drop(vm.end());
        let base = vm.bytes();
        for number in 1..=GROWTHS_MAX {
            let ((text, is_error), passed) = failing_at(vm, number, |vm| outcome(vm, chunk));
            drop(vm.end());
            if passed {
                assert_eq!((text, is_error), expected, "{source}");
                break;
            }
            growths += 1;
            if is_caught && is_error {
                // The failure was outside of the protected call: in returning its results, for example, or
                // in making its error.
                assert!(
                    text.contains("not enough memory") || text == "nil",
                    "growth {number}: {text}: {source}"
                );
            }
            assert_eq!(vm.bytes(), base, "growth {number} left bytes: {source}");
            if number % 16 == 1 {
                let answer = outcome(vm, check.0);
                drop(vm.end());
                assert_eq!(
                    (answer.0.as_str(), answer.1),
                    (check.1, false),
                    "behind growth {number}: {source}"
                );
            }
        }
    }
    while !vm.collect(1 << 16) {}
    growths
}

/// Whether a program runs few instructions and has few growths.
fn is_short(source: &str) -> bool {
    let mut vm = machine();
    let Some(chunk) = loaded(&mut vm, source) else { return false };
    vm.heap().growths_left = 1000;
    let mut run = vm.start(chunk);
    let outcome = run.resume_unwatched(100_000);
    let few = run.heap().growths_left > 0;
    vm.heap().growths_left = 0;
    few && !matches!(outcome, RunOutcome::OutOfBudget)
}

fn checked(sources: &[&str]) -> u64 {
    let mut growths = 0;
    for source in sources {
        let mut vm = machine();
        let check = loaded(&mut vm, CHECK).expect("a program");
        let (expected, is_error) = outcome(&mut vm, check);
        assert!(!is_error, "{expected}");
        drop(vm.end());
        growths += each_growth(&mut vm, source, (check, &expected));
    }
    growths
}

#[test]
fn each_growth_of_programs_of_every_library_fails_in_turn() {
    let growths = checked(PROGRAMS);
    assert!(growths > 2000, "{growths} growths");
}

#[test]
fn each_growth_of_the_table_of_cases_fails_in_turn() {
    // Only short programs are run, because programs with long loops would take hours here.
    let lines = include_str!("../tests/oracle/lines.txt").lines();
    let lines: Vec<&str> = lines.filter(|line| is_short(line)).collect();
    assert!(lines.len() > 250, "{} programs", lines.len());
    let growths = checked(&lines);
    assert!(growths > 2400, "{growths} growths");
}

#[test]
fn each_growth_while_a_machine_is_made_and_a_chunk_loaded_fails_in_turn() {
    let proto = compile(PROGRAMS[6].as_bytes(), b"=test").expect("a program");
    let other = compile(PROGRAMS[5].as_bytes(), b"=test").expect("a program");
    let small = compile(b"return 1", b"=test").expect("a program");
    let mut failed = 0;
    for number in 1.. {
        let mut heap = Heap::new(64 << 20);
        heap.growths_left = number;
        if let Ok(mut vm) = Vm::over(heap) {
            assert!(vm.heap().growths_left > 0, "growth {number} failed, and the machine was made");
            break;
        }
        failed = number;
    }
    assert!(failed > 250, "{failed} growths of a machine");
    let mut vm = machine();
    // All garbage is collected before bytes are compared, because objects of a failed load remain as garbage
    // if they took free slots before the mark.
    whole(&mut vm);
    let mut base = vm.bytes();
    for number in 1.. {
        let (linked, passed) = failing_at(&mut vm, number, |vm| vm.link(&proto));
        if linked.is_err() {
            whole(&mut vm);
            assert_eq!(vm.bytes(), base, "growth {number} of a load left bytes");
            let first = vm.load(&small).expect("room for a small chunk");
            assert_eq!(outcome(&mut vm, first), ("1".to_string(), false));
            drop(vm.end());
            let other = vm.load(&other).expect("room for another chunk");
            assert_eq!(
                outcome(&mut vm, other),
                ("43".to_string(), false),
                "behind growth {number} of a load"
            );
            drop(vm.end());
            whole(&mut vm);
            base = vm.bytes();
            continue;
        }
        assert!(passed, "growth {number} failed, and the chunk was linked");
        break;
    }
}

/// Collects all garbage.
fn whole(vm: &mut Vm) {
    for _ in 0..2 {
        while !vm.collect(1 << 16) {}
    }
}

#[test]
fn each_growth_of_a_load_fails_where_an_unloaded_chunk_left_room() {
    let proto = compile(PROGRAMS[6].as_bytes(), b"=test").expect("a program");
    let mut vm = machine();
    let chunk = vm.load(&proto).expect("room");
    whole(&mut vm);
    let full = vm.bytes();
    assert!(vm.unload(chunk));
    whole(&mut vm);
    let base = vm.bytes();
    assert!(base < full);
    for number in 1.. {
        let (linked, passed) = failing_at(&mut vm, number, |vm| vm.link(&proto));
        if linked.is_ok() {
            assert!(passed, "growth {number} failed, and the chunk was linked");
            break;
        }
        whole(&mut vm);
        assert_eq!(vm.bytes(), base, "growth {number} of a load left bytes");
    }
    // A load does not fail because of one failed growth: it is tried again after all garbage was collected.
    vm.heap().growths_left = 3;
    let chunk = vm.load(&proto).expect("room at the second attempt");
    let (text, is_error) = outcome(&mut vm, chunk);
    assert!(!is_error && text.starts_with("yizccat"), "{text}");
    drop(vm.end());
    whole(&mut vm);
    assert_eq!(vm.bytes(), full);
}
