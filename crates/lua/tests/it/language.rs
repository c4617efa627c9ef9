//! Programs with their expected results, for test runs without the reference; `tests/oracle` compares many
//! more programs with the reference.

use super::common::answer;

#[test]
fn a_result_is_found_behind_arguments_that_nobody_asked_for() {
    let object = "setmetatable({}, {__tostring = function(...) return 'n' .. select('#', ...) end})";
    for more in ["", ", 'more'", ", nil, 'more', {}"] {
        assert_eq!(answer(&format!("return tostring({object}{more})")), "n1", "{more}");
    }
}

#[test]
fn programs_answer_as_lua_5_1_does() {
    let cases = [
        // Values and operators.
        ("return 1 + 2 * 3 ^ 2 .. ''", "19"),
        ("return 7 % 3, -7 % 3, 7 % -3, 5.5 % 2", "1 2 -2 1.5"),
        ("return 0/0, 1/0, -1/0", "-nan inf -inf"),
        ("return '10' + 5, '0x10' * 1, 10 .. 20", "15 16 1020"),
        ("return 1 < 2, 'a' < 'b', 'Z' < 'a', not nil", "true true true true"),
        ("return nil and 1, false or 2, 1 and 2, nil == false", "nil 2 2 false"),
        ("return ((1 or false) and true) or false", "true"),
        ("return -2 ^ 2, 2 ^ 3 ^ 2", "-4 512"),
        ("return #'a\\0b', '\\65\\066\\0677'", "3 ABC7"),
        ("return [==[a]]b]=]c]==]", "a]]b]=]c"),
        // Statements.
        ("local s = 0 for i = 10, 1, -3 do s = s + i end return s", "22"),
        ("local n = 0 repeat local k = n n = n + 1 until k >= 3 return n", "4"),
        ("local i, t = 1, {} i, t[i] = i + 1, 20 return i, t[1], t[2]", "2 20 nil"),
        ("local function f(...) return select('#', ...), ... end return f(nil, 2)", "2 nil 2"),
        ("local function f(...) return arg.n end return f(1, 2, 3)", "3"),
        ("local function f(n) if n == 0 then return 'end' end return f(n - 1) end return f(200000)", "end"),
        (
            "local f = {} for i = 1, 3 do f[i] = function() i = i + 1 return i end end return f[1](), f[1](), f[2]()",
            "2 3 3",
        ),
        // Tables.
        ("local t = {10, 20, 30, nil, 50} return #t, #{n = 1}, #{nil, nil, 3}", "5 0 3"),
        (
            "local t = {} for i = 1, 20 do t['k' .. i] = i end local s = '' for k in pairs(t) do s = s .. k .. ' ' end return s",
            ORDER,
        ),
        (
            "local t = {1, 2, 3, x = 1} t[2] = nil local s = '' for k in pairs(t) do s = s .. k end return s",
            "13x",
        ),
        // Metatables.
        ("return setmetatable({}, {__index = function(t, k) return k .. '!' end}).foo", "foo!"),
        (
            "local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, k, v * 2) end}) t.x = 5 return t.x",
            "10",
        ),
        (
            "local m = {__lt = function(a, b) return a.v < b.v end} local a, b = setmetatable({v = 1}, m), setmetatable({v = 2}, m) return a < b, a > b, a <= b",
            "true false true",
        ),
        (
            "local m = {__concat = function(a, b) return 'C' end} return 'a' .. setmetatable({}, m) .. 'b'",
            "aC",
        ),
        ("return #setmetatable({}, {__len = function() return 7 end})", "0"),
        ("return setmetatable({}, {__call = function(self, a) return a end})(5)", "5"),
        ("local w = setmetatable({}, {__mode = 'k'}) w[{}] = 1 collectgarbage() return next(w)", "nil"),
        (
            "local w = setmetatable({}, {__mode = 'v'}) w[1], w[2] = {}, 'text' collectgarbage() return w[1], w[2]",
            "nil text",
        ),
        // Errors.
        ("local t = {} t.x.y = 1", "test:1: attempt to index field 'x' (a nil value)"),
        ("local x = 5 x()", "test:1: attempt to call local 'x' (a number value)"),
        ("\nreturn {} < {}", "test:2: attempt to compare two table values"),
        ("return 1 < 'x'", "test:1: attempt to compare number with string"),
        ("return ('x'):nomethod()", "test:1: attempt to call method 'nomethod' (a nil value)"),
        ("string.rep()", "test:1: bad argument #1 to 'rep' (string expected, got no value)"),
        ("('x'):rep({})", "test:1: bad argument #1 to 'rep' (number expected, got table)"),
        ("local function f() error('m', 2) end f()", "test:1: m"),
        ("return pcall(error, {})", "false table"),
        ("return xpcall(function() error('x') end, function(e) return 'H' .. e end)", "false Htest:1: x"),
        (
            "return xpcall(function() error('x') end, function(e) error('y') end)",
            "false error in error handling",
        ),
        ("for i = 1, 'x' do end", "test:1: 'for' limit must be a number"),
        ("string.x = 1", "test:1: Attempt to modify a readonly table"),
        ("getmetatable('').__index = 1", "test:1: Attempt to modify a readonly table"),
        ("x = = 1", "test:1: unexpected symbol near '='"),
        ("x = 'abc\n'", "test:1: unfinished string near ''abc'"),
        // Coroutines.
        (
            "local g = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) return g(1), g(10)",
            "2 20",
        ),
        (
            "local c = coroutine.create(function() error('e') end) return coroutine.resume(c)",
            "false test:1: e",
        ),
        (
            "return coroutine.resume(coroutine.create(function() return pcall(coroutine.yield) end))",
            "true false attempt to yield across metamethod/C-call boundary",
        ),
        // Chunks.
        ("return loadstring('return 1 + 1')()", "2"),
        ("return loadstring('x =')", "nil [string \"x =\"]:1: unexpected symbol near '<eof>'"),
        (
            "return loadstring(string.dump(function() end))",
            "nil [string \"\u{1b}LuaQ\"]:1: unexpected symbol near 'char(27)'",
        ),
        ("local n = 0 return load(function() n = n + 1 return ({'return ', '7'})[n] end)()", "7"),
    ];
    for (source, expected) in cases {
        assert_eq!(answer(source), expected, "{source}");
    }
}

/// The order in which the reference walks a table of these keys.
const ORDER: &str = "k3 k18 k6 k1 k20 k19 k9 k7 k17 k15 k16 k14 k2 k10 k11 k5 k8 k4 k12 k13 ";
