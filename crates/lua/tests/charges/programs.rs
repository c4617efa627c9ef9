//! Instructions and library functions, each with an operand whose length `N` the test or the example chooses.
//! The budget that each of them uses must grow with its operand.

/// An entry of `ROWS`: the code that prepares an operand of length `N`, and the work that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub ready: &'static str,
    pub work: &'static str,
    /// Whether the operand is a string of any length; otherwise it is a list of values.
    pub is_text: bool,
}

const fn text(ready: &'static str, work: &'static str) -> Row {
    Row { ready, work, is_text: true }
}

const fn list(ready: &'static str, work: &'static str) -> Row {
    Row { ready, work, is_text: false }
}

/// The preparations. Most make a string `s`; TWO, SAME and NAMED also make a string `o` that equals `s` or
/// differs in its last byte; LIST and EMPTIED make a table `t` that has, or had, N elements.
const DIGITS: &str = "local s = ('1'):rep(N)";
const ZEROS: &str = "local s = ('0'):rep(N)";
const BLANKS: &str = "local s = (' '):rep(N) .. '1'";
const HEX: &str = "local s = '0x' .. ('a'):rep(N)";
const FRACTION: &str = "local s = '0.' .. ('3'):rep(N)";
const LETTERS: &str = "local s = ('a'):rep(N)";
const TWO: &str = "local s, o = ('a'):rep(N) .. 'x', ('a'):rep(N) .. 'y'";
const SAME: &str = "local s, o = ('a'):rep(N) .. 'x', ('a'):rep(N) .. 'x'";
const NAMED: &str = "local s, o, t = ('a'):rep(N) .. 'x', ('a'):rep(N) .. 'x', {} t[o] = 1";
const LIST: &str = "local t = {} for i = 1, N do t[i] = i end";
const EMPTIED: &str =
    "local t = {} for i = 1, N do t['k' .. i] = i end for i = 1, N do t['k' .. i] = nil end";

pub const ROWS: &[Row] = &[
    // Conversions of strings to numbers.
    text(DIGITS, "local x = s + 1"),
    text(DIGITS, "local x = 1 - s"),
    text(DIGITS, "local x = s * s"),
    text(DIGITS, "local x = s / 2"),
    text(DIGITS, "local x = s % 2"),
    text(DIGITS, "local x = s ^ 2"),
    text(DIGITS, "local x = -s"),
    text(ZEROS, "local x = -s"),
    text(BLANKS, "local x = -s"),
    text(HEX, "local x = -s"),
    text(FRACTION, "local x = -s"),
    text(LETTERS, "local x = tonumber(s)"),
    text(DIGITS, "local x = tonumber(s)"),
    text(DIGITS, "local x = tonumber(s, 10)"),
    text(DIGITS, "local x = tonumber(s, 16)"),
    text(ZEROS, "local x = tonumber(s, 36)"),
    text(BLANKS, "local x = tonumber(s, 7)"),
    text(ZEROS, "for i = s, 0 do break end"),
    text(ZEROS, "for i = 1, s do break end"),
    text(ZEROS, "for i = 1, 0, s .. '1' do break end"),
    text(DIGITS, "local x = ('%d'):format(s)"),
    text(DIGITS, "local x = ('%x'):format(s)"),
    text(DIGITS, "local x = ('%g'):format(s)"),
    text(ZEROS, "local x = ('%c'):format(s)"),
    text(ZEROS, "local x = ('x'):rep(s)"),
    text(ZEROS, "local x = ('x'):sub(s)"),
    text(ZEROS, "local x = ('x'):byte(s)"),
    text(ZEROS, "local x = string.char(s)"),
    text(ZEROS, "local x = ('x'):find('x', s)"),
    text(ZEROS, "local x = ('x'):gsub('x', 'y', s)"),
    text(ZEROS, "local x = unpack({}, s, 0)"),
    text(ZEROS, "local x = select(s .. '1', 1)"),
    text(ZEROS, "local x = table.concat({1}, '', s .. '1')"),
    text(ZEROS, "table.insert({}, s .. '1', 1)"),
    text(ZEROS, "local x = table.remove({1}, s)"),
    text(DIGITS, "local x = bit.tobit(s)"),
    text(DIGITS, "local x = bit.band(1, s)"),
    text(DIGITS, "local x = bit.lshift(s, 1)"),
    text(DIGITS, "local x = bit.tohex(s)"),
    text(DIGITS, "local x = math.floor(s)"),
    text(DIGITS, "local x = math.max(1, s)"),
    text(DIGITS, "local x = math.fmod(s, 2)"),
    text(ZEROS, "local x = math.ldexp(1, s)"),
    text(ZEROS, "local x = math.random(s .. '1')"),
    text(ZEROS, "math.randomseed(s)"),
    text(DIGITS, "local x = struct.pack('d', s)"),
    text(DIGITS, "local x = struct.pack('i4', s)"),
    text(ZEROS, "local x = struct.unpack('b', 'x', s .. '1')"),
    text(ZEROS, "local x = cmsgpack.unpack_limit('', s)"),
    text(ZEROS, "local x = cjson.encode_max_depth(s .. '9')"),
    text(ZEROS, "local x = pcall(error, 'x', s)"),
    text(ZEROS, "local x = collectgarbage('setpause', s)"),
    // Strings that are joined, copied, hashed and compared.
    text(LETTERS, "local x = s .. s"),
    text(LETTERS, "local x = 'x' .. s .. 1"),
    text(LETTERS, "local x = s .. setmetatable({}, {__concat = function(a) return a end}) .. s .. 'x'"),
    text(TWO, "local x = s == o"),
    text(SAME, "local x = s == o"),
    text(SAME, "local x = s ~= o"),
    text(TWO, "local x = s < o"),
    text(TWO, "local x = s <= o"),
    text(TWO, "local x = s > o"),
    text(TWO, "local x = rawequal(s, o)"),
    text(TWO, "local x = {s, o, s} table.sort(x)"),
    text(NAMED, "local x = t[s]"),
    text(NAMED, "t[s] = 1"),
    text(NAMED, "local x = rawget(t, s)"),
    text(NAMED, "local x = rawset(t, s, 1)"),
    text(NAMED, "local x = next(t, s)"),
    text(NAMED, "local x = setmetatable({}, {__index = t})[s]"),
    text(LETTERS, "local x = {[s .. 'x'] = 1}"),
    text(LETTERS, "local x = s:sub(2)"),
    text(LETTERS, "local x = s:upper()"),
    text(LETTERS, "local x = s:lower()"),
    text(LETTERS, "local x = s:reverse()"),
    text(LETTERS, "local x = ('x'):rep(N)"),
    text(LETTERS, "local x = s:rep(2)"),
    text(LETTERS, "local x = s:find('b')"),
    text(LETTERS, "local x = s:find('b', 1, true)"),
    text(LETTERS, "local x = s:find(s, 1, true)"),
    text(LETTERS, "local x = s:find('^a*b')"),
    text(LETTERS, "local x = s:find('[^a]')"),
    text(LETTERS, "local x = s:match('^(a*)$')"),
    text(LETTERS, "local x = s:match('.-$')"),
    text(LETTERS, "local x = ('x'):match(s)"),
    text(LETTERS, "local x = ('x'):find(s, 1, true)"),
    text(LETTERS, "local x = ('x'):gsub('x', s)"),
    text(LETTERS, "local x = ('x'):gsub('x', '%0' .. s)"),
    text(LETTERS, "local x = ('x'):gsub('x', function() return s end)"),
    text(LETTERS, "local x = ('x'):gsub('x', {x = s})"),
    text(LETTERS, "local x = s:gsub('a', 'b')"),
    text(LETTERS, "local x = s:gsub('b', 'a')"),
    text(LETTERS, "local x = s:gsub('.', '%0%0')"),
    text(LETTERS, "for x in s:gmatch('a+') do end"),
    text("local s = '(' .. ('a'):rep(N) .. ')'", "local x = s:match('%b()')"),
    text("local s = ('a'):rep(N) .. ('a'):rep(N)", "local x = s:match('^(a*)%1$')"),
    text(LETTERS, "local x = ('%s'):format(s .. 'x')"),
    text(LETTERS, "local x = ('%s.'):format(s)"),
    text(LETTERS, "local x = ('%q'):format(s)"),
    text(LETTERS, "local x = s:format()"),
    text(LETTERS, "local x = table.concat({s, s})"),
    text(LETTERS, "local x = table.concat({1, 2}, s)"),
    text(LETTERS, "local x = loadstring(s)"),
    text(LETTERS, "local x = loadstring('return 1', s)"),
    text(LETTERS, "local x, i = s, 0 load(function() i = i + 1 return i == 1 and x or nil end)"),
    text(LETTERS, "local x = load(function() end, s)"),
    text(LETTERS, "pcall(error, s)"),
    text(LETTERS, "pcall(error, s, 2)"),
    text(LETTERS, "pcall(function() error(s) end)"),
    text(LETTERS, "pcall(assert, false, s)"),
    text(LETTERS, "pcall(collectgarbage, s)"),
    text(LETTERS, "local x = cjson.encode(s)"),
    text("local s = ('\\n'):rep(N)", "local x = cjson.encode(s)"),
    text("local s = cjson.encode(('a'):rep(N))", "local x = cjson.decode(s)"),
    text("local s = (' '):rep(N) .. '1'", "local x = cjson.decode(s)"),
    text("local s = ('1'):rep(N)", "local x = cjson.decode(s)"),
    text("local s = '[' .. ('1,'):rep(N) .. '1]'", "local x = cjson.decode(s)"),
    text(LETTERS, "local x = cmsgpack.pack(s)"),
    text("local s = cmsgpack.pack(('a'):rep(N))", "local x = cmsgpack.unpack(s)"),
    text(LETTERS, "local x = struct.pack('s', s)"),
    text(LETTERS, "local x = struct.pack('c0', s)"),
    text("local s = ('a'):rep(N) .. '\\0'", "local x = struct.unpack('s', s)"),
    text(LETTERS, "local x = struct.unpack('c' .. N, s)"),
    text(ZEROS, "local x = struct.pack('i' .. s .. '4', 1)"),
    text(ZEROS, "local x = struct.unpack('i' .. s .. '1', 'x')"),
    text(ZEROS, "local x = struct.size('i' .. s .. '4')"),
    text("local s = ('x'):rep(N)", "local x = struct.size(s)"),
    // Tables.
    list(LIST, "for k in pairs(t) do end"),
    list(LIST, "for k in ipairs(t) do end"),
    list(LIST, "table.foreach(t, function() end)"),
    list(LIST, "table.foreachi(t, function() end)"),
    list(LIST, "local x = table.maxn(t)"),
    list(LIST, "table.insert(t, 1, 0)"),
    list(LIST, "table.remove(t, 1)"),
    list(LIST, "table.sort(t)"),
    list(LIST, "table.sort(t, function(a, b) return a > b end)"),
    list(LIST, "local x = table.concat(t)"),
    list(LIST, "local x = cjson.encode(t)"),
    list(LIST, "local x = cmsgpack.pack(t)"),
    list(
        "local s = cmsgpack.pack((function() local t = {} for i = 1, N do t[i] = i end return t end)())",
        "local x = cmsgpack.unpack(s)",
    ),
    list(EMPTIED, "local x = next(t)"),
    list(EMPTIED, "for k in pairs(t) do end"),
    list(EMPTIED, "local x = table.maxn(t)"),
    list(EMPTIED, "local x = cjson.encode(t)"),
    list(EMPTIED, "local x = cmsgpack.pack(t)"),
    list(EMPTIED, "for i = 1, N + 1 do t[i] = 1 end"),
    // `unpack` returns at most 7,000 values here, because its limit is about 8,000.
    list(
        "local t = {} for i = 1, N do t[i] = i end local n = math.min(N, 7000)",
        "local x = {unpack(t, 1, n)}",
    ),
];
