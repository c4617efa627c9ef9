//! Published faults of the Lua libraries in servers of this kind, each as a test, and tests of other calls
//! that take too much memory or time.

use super::{both, check, expression, machine, run};

/// CVE-2025-46817: a span of `unpack` that overflows an `int`.
#[test]
fn cve_2025_46817_a_span_that_overflows_is_refused() {
    check(&[
        ("e(unpack, {1, 2, 3}, -2, 2147483647)", "too many results to unpack"),
        ("e(unpack, {1, 2, 3}, 0, 2147483647)", "too many results to unpack"),
        ("e(unpack, {1, 2, 3}, -2147483648, -2)", "too many results to unpack"),
    ]);
}

/// CVE-2025-46818: changes of one script to the metatable of strings, or to a library, affect the
/// scripts of other users.
#[test]
fn cve_2025_46818_shared_tables_are_read_only() {
    let attempts = [
        "getmetatable('').__index = function() return 1 end",
        "string.len = nil",
        "rawset(string, 'len', nil)",
        "table.insert(table, 1)",
        "cjson.null = 1",
        "setmetatable(string, {})",
        "table.sort(_G, function() return true end) rawset(_G, 'a', 1)",
        "table.remove(math)  math.pi = 3",
        "bit.band = nil",
        "struct.pack = nil",
        "cmsgpack.pack = nil",
        "os.clock = nil",
    ];
    let mut vm = machine();
    for attempt in attempts {
        let answer = run(&mut vm, attempt.as_bytes(), u64::MAX / 4);
        assert_eq!(answer.first(), Some(&b'-'), "{attempt}: {}", answer.escape_ascii());
    }
    let answer = run(&mut vm, b"return ('ab'):len() .. tostring(math.pi)", u64::MAX / 4);
    assert_eq!(answer.escape_ascii().to_string(), "23.1415926535898");
}

/// CVE-2024-31449: `bit.tohex` with -2^31 digits, a number that has no positive counterpart.
#[test]
fn cve_2024_31449_tohex_of_the_smallest_number_of_digits() {
    check(&[
        ("bit.tohex(1, -2147483648)", "00000001"),
        ("bit.tohex(0xabcdef, -2147483648)", "00ABCDEF"),
        ("bit.tohex(0xabcdef, 2147483647)", "00abcdef"),
        ("bit.tohex(0xabcdef, 2147483648)", "00ABCDEF"),
    ]);
}

/// CVE-2022-24834: strings and tables whose encoding overflowed a buffer's length; CVE-2018-11218: depth
/// and sizes of MessagePack.
#[test]
fn cve_2022_24834_large_and_deep_values_end_in_errors() {
    check(&[
        ("#cjson.encode(('\\1'):rep(1000000))", "6000002"),
        (
            "e(function() local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t) end)",
            "user_script:3: Cannot serialise, excessive nesting (1001)",
        ),
        (
            "e(function() local t = {} t[1] = t return cjson.encode(t) end)",
            "user_script:3: Cannot serialise, excessive nesting (1001)",
        ),
        ("#e(function() local t = {} t[1] = t return cmsgpack.pack(t) end)", "17"),
        (
            "e(cjson.decode, ('['):rep(100000))",
            "Found too many nested data structures (1001) at character 1001",
        ),
        ("e(cmsgpack.unpack, ('\\145'):rep(100000))", "stack overflow (in function mp_decode_to_lua_array)"),
    ]);
    let huge = "local ok, text = pcall(cjson.encode, {('\\1'):rep(20000000), ('\\1'):rep(20000000), ('\\1'):rep(20000000)}) return tostring(text)";
    assert_eq!(both_large(huge), "not enough memory");
}

/// CVE-2018-11218 and CVE-2018-12326: lengths in packed data that exceed the data.
#[test]
fn cve_2018_11218_lengths_that_promise_more_are_missing_bytes() {
    for bytes in [
        "\\221\\255\\255\\255\\255",
        "\\223\\255\\255\\255\\255",
        "\\219\\255\\255\\255\\255",
        "\\220\\255\\255\\1",
        "\\217\\255",
    ] {
        assert_eq!(expression(&format!("e(cmsgpack.unpack, \"{bytes}\")")), "Missing bytes in input.");
    }
}

/// CVE-2018-11219 and CVE-2020-14147: sizes of `struct` that overflow.
#[test]
fn cve_2020_14147_sizes_that_overflow_are_refused() {
    check(&[
        ("e(struct.unpack, 'c2147483647', 'a')", "bad argument #2 to '?' (data string too short)"),
        ("e(struct.unpack, 'bc0', '\\127abc')", "bad argument #2 to '?' (data string too short)"),
        ("e(struct.pack, 'i2147483648', 1)", "integral size overflow"),
        ("e(struct.pack, 'i33', 1)", "integral size 33 is larger than limit of 32"),
        ("e(struct.unpack, 'I99999999999999999999', 'a')", "integral size overflow"),
        ("e(struct.unpack, 'b', 'a', -2147483648)", "bad argument #2 to '?' (data string too short)"),
        ("e(struct.unpack, 'b', 'a', 2 ^ 62)", "bad argument #2 to '?' (data string too short)"),
    ]);
}

/// Strings larger than the memory limit are an error that a script can catch.
#[test]
fn texts_beyond_the_limit_are_errors() {
    for call in [
        "string.rep, ('x'):rep(1000), 2147483647",
        "string.rep, 'x', 1000000000",
        "string.gsub, ('x'):rep(100000), 'x', ('y'):rep(100000)",
        "string.format, ('%s'):rep(1000), unpack((function() local t, s = {}, ('x'):rep(1000000) for i = 1, 1000 do t[i] = s end return t end)())",
        "table.concat, (function() local t, s = {}, ('x'):rep(1000000) for i = 1, 1000 do t[i] = s end return t end)()",
        "cmsgpack.pack, unpack((function() local t, s = {}, ('x'):rep(1000000) for i = 1, 1000 do t[i] = s end return t end)())",
        "struct.pack, ('s'):rep(1000), unpack((function() local t, s = {}, ('x'):rep(1000000) for i = 1, 1000 do t[i] = s end return t end)())",
    ] {
        let source = format!("local ok, text = pcall({call}) return tostring(text)");
        assert_eq!(both_large(&source), "not enough memory", "{call}");
    }
}

/// Patterns with endless backtracking are paused when the budget is used up, and need no space on the
/// process's stack. A pattern with too many open choices is an error.
#[test]
fn hostile_patterns_end_with_the_budget() {
    let source = b"return string.find(('a'):rep(40), ('a?'):rep(40) .. 'b') or string.find(('a'):rep(3000), '.-.-.-.-b')";
    let mut vm = machine();
    let proto = sluice_lua::compile(source, b"@user_script").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    for _ in 0..50 {
        assert!(matches!(run.resume_unwatched(10_000), sluice_lua::RunOutcome::OutOfBudget));
    }
    drop(vm.end());
    let deep = both(b"return tostring((string.find(('a'):rep(100000), ('a-'):rep(20000) .. '$')))");
    assert_eq!(deep, b"1");
    let source =
        "local ok, text = pcall(string.find, ('a'):rep(70000), ('a?'):rep(70000)) return tostring(text)";
    assert_eq!(both_large(source), "pattern too complex");
}

/// Runs a program that needs much memory, once in one piece and once in slices.
fn both_large(source: &str) -> String {
    let whole = run(&mut machine(), source.as_bytes(), u64::MAX / 4);
    let sliced = run(&mut machine(), source.as_bytes(), 5_000);
    assert_eq!(whole.len(), sliced.len());
    whole.escape_ascii().to_string()
}
