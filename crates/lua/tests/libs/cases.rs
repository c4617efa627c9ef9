//! Tables of cases, one for each group of functions. The expected values are the reference's; `e` calls a
//! function and shows its values or its error.

use super::check;

#[test]
fn string_cuts_and_repeats() {
    check(&[
        ("string.len('a\\0b')", "3"),
        ("string.sub('hello', 2, -2)", "ell"),
        ("string.sub('hello', -100, 100)", "hello"),
        ("string.sub('hello', 4, 2)", ""),
        ("string.sub('hello', 0)", "hello"),
        ("string.byte('abc', 1, -1)", "97|98|99"),
        ("string.byte('abc', 10)", ""),
        ("string.byte('abc')", "97"),
        ("e(string.byte, ('x'):rep(9000), 1, -1)", "stack overflow (string slice too long)"),
        ("string.char()", ""),
        ("string.char(104, 105)", "hi"),
        ("e(string.char, 256)", "bad argument #1 to '?' (invalid value)"),
        ("string.rep('ab', 3)", "ababab"),
        ("string.rep('ab', -1)", ""),
        ("#string.rep('abc', 100000)", "300000"),
        ("string.reverse('abc')", "cba"),
        ("string.lower('AbÉ')", "ab\\xc3\\x89"),
        ("string.upper('abz{')", "ABZ{"),
        ("string.len(12)", "2"),
        ("e(string.len, {})", "bad argument #1 to '?' (string expected, got table)"),
        ("e(string.len)", "bad argument #1 to '?' (string expected, got no value)"),
        ("type(string.dump(function() end))", "string"),
        ("loadstring(string.dump(function() end)) == nil", "true"),
        ("e(string.dump, tostring)", "unable to dump given function"),
        ("string.gfind == string.gmatch", "true"),
    ]);
}

#[test]
fn string_finds_and_replaces() {
    check(&[
        ("string.find('hello world', 'o w')", "5|7"),
        ("string.find('hello', 'l', -2)", "4|4"),
        ("string.find('hello', 'xyz')", "nil"),
        ("string.find('a.b', '.', 2, true)", "2|2"),
        ("string.find('', '')", "1|0"),
        ("string.find('abc', '', 10)", "4|3"),
        ("string.find('abc', '()b()')", "2|2|2|3"),
        ("string.match('key = value', '(%w+)%s*=%s*(%w+)')", "key|value"),
        ("string.match('2026-11-23', '%d+', 6)", "11"),
        ("string.match('abc', '^b')", "nil"),
        ("string.gsub('hello', 'l', 'L')", "heLLo|2"),
        ("string.gsub('hello', '', '-')", "-h-e-l-l-o-|6"),
        ("string.gsub('abc', '%w', '%0%0', 2)", "aabbc|2"),
        ("string.gsub('abc', '^a', 'x')", "xbc|1"),
        ("string.gsub('abc', 'b', {b = 7})", "a7c|1"),
        ("string.gsub('a-b-c', '-', '+')", "a+b+c|2"),
        ("string.gsub('a-b-c', '-', '+', 1)", "a+b-c|1"),
        ("string.gsub('a-b-c', '-', '+', 0)", "a-b-c|0"),
        ("string.gsub('-.-', '%-', '')", ".|2"),
        ("string.gsub('a.b%c*', '%.', 'long ')", "along b%c*|1"),
        ("string.gsub('a.b%c*', '%%', 7)", "a.b7c*|1"),
        ("string.gsub('a.b%c*', '*', 'x')", "a.b%cx|1"),
        ("string.gsub('a\\0b', '\\0', 'x')", "xax\\x00xbx|4"),
        ("string.gsub('a_b', '%_', ('x'):rep(300)):len()", "302"),
        ("string.gsub(('a_'):rep(3000), '_', ''):len()", "3000"),
        ("e(string.gsub, 'a)', ')', '')", "invalid pattern capture"),
        ("e(string.gsub, 'a%', '%', '')", "malformed pattern (ends with '%')"),
        ("string.gsub('abc', 'b', {})", "abc|1"),
        ("string.gsub('abc', '(b)(c)', function(x, y) return y .. x end)", "acb|1"),
        ("string.gsub('abc', '.', function() return false end)", "abc|3"),
        (
            "string.gsub('a b', '%w', setmetatable({}, {__index = function(_, k) return k .. k end}))",
            "aa bb|2",
        ),
        ("string.gsub('a', 'a', '%')", "\\x00|1"),
        ("e(string.gsub, 'a', 'a', '%2')", "invalid capture index"),
        ("e(string.gsub, 'a', 'a', true)", "bad argument #3 to '?' (string/function/table expected)"),
        ("e(string.gsub, 'a', 'a', function() return {} end)", "invalid replacement value (a table)"),
        ("e(string.find, 'a', '[a')", "malformed pattern (missing ']')"),
        ("e(string.find, 'a', '%')", "malformed pattern (ends with '%')"),
        (
            "(function() local o = '' for k, v in string.gmatch('a=1, b=2', '(%w+)=(%w+)') do o = o .. k .. v end return o end)()",
            "a1b2",
        ),
        ("(function() local n = 0 for _ in string.gmatch('abc', '') do n = n + 1 end return n end)()", "4"),
        (
            "(function() local n = 0 for _ in string.gmatch('^a^a', '^a') do n = n + 1 end return n end)()",
            "2",
        ),
    ]);
}

#[test]
fn string_formats() {
    check(&[
        ("string.format('%5.2f|%-5d|%05d|%+d', 3.14159, 42, 42, 42)", " 3.14|42   |00042|+42"),
        ("string.format('%s %s', 'a', 12)", "a 12"),
        ("string.format('%q', 'a\\n\"\\0')", "\"a\\\\x0a\\\"\\000\""),
        ("string.format('%x %X %o %c', 255, 255, 8, 65)", "ff FF 10 A"),
        ("string.format('%e %g', 12345.678, 0.0001)", "1.234568e+04 0.0001"),
        ("string.format('%%')", "%"),
        ("e(string.format, '%d', 'x')", "bad argument #2 to '?' (number expected, got string)"),
        ("e(string.format, '%d')", "bad argument #2 to '?' (no value)"),
        ("e(string.format, '%y', 1)", "invalid option '%y' to 'format'"),
        ("e(string.format, '%s', {})", "bad argument #2 to '?' (string expected, got table)"),
        ("#string.format('%s', ('x'):rep(200000))", "200000"),
        ("#string.format('%q', ('\\0'):rep(200000))", "800002"),
    ]);
}

#[test]
fn tables_grow_shrink_and_join() {
    check(&[
        ("table.concat({1, 2, 3}, ', ')", "1, 2, 3"),
        ("table.concat({})", ""),
        ("table.concat({1, 2, 3}, '-', 2, 3)", "2-3"),
        ("e(table.concat, {1, {}, 3})", "invalid value (table) at index 2 in table for 'concat'"),
        (
            "(function() local t = {1, 3} table.insert(t, 2, 2) table.insert(t, 4) return table.concat(t, ',') end)()",
            "1,2,3,4",
        ),
        ("e(table.insert, {})", "wrong number of arguments to 'insert'"),
        ("(function() local t = {1, 2, 3} return table.remove(t, 1), table.remove(t), #t end)()", "1|3|1"),
        ("select('#', table.remove({}))", "0"),
        ("table.maxn({1, 2, [10.5] = 1, x = 2})", "10.5"),
        ("table.getn({1, 2, 3})", "3"),
        ("e(table.setn, {}, 1)", "'setn' is obsolete"),
        ("table.foreach({a = 7}, function(k, v) return k .. v end)", "a7"),
        ("table.foreachi({5, 6, 7}, function(i, v) if v == 6 then return i end end)", "2"),
        ("e(table.foreach, {}, 1)", "bad argument #2 to '?' (function expected, got number)"),
    ]);
}

#[test]
fn tables_are_sorted_as_puc_sorts() {
    check(&[
        (
            "(function() local t = {5, 2, 8, 1, 9} table.sort(t) return table.concat(t, ',') end)()",
            "1,2,5,8,9",
        ),
        (
            "(function() local t = {5, 2, 8, 1, 9} table.sort(t, function(a, b) return a > b end) return table.concat(t, ',') end)()",
            "9,8,5,2,1",
        ),
        ("(function() local t = {'b', 'a', 'B'} table.sort(t) return table.concat(t, ',') end)()", "B,a,b"),
        ("e(table.sort, {3, 1, 'x'})", "attempt to compare string with number"),
        ("e(table.sort, {1, 2, 3, 4, 5}, function() return true end)", "invalid order function for sorting"),
        ("e(table.sort, {1, 2}, 1)", "bad argument #2 to '?' (function expected, got number)"),
        (
            "(function() local t, n = {}, 0 for i = 1, 100 do t[i] = i * 37 % 101 end \
             table.sort(t, function(a, b) n = n + 1 return a < b end) return n, t[1], t[100] end)()",
            "616|1|100",
        ),
    ]);
}

#[test]
fn numbers_are_computed_as_c_does() {
    check(&[
        ("math.floor(-1.5), math.ceil(1.2), math.abs(-3)", "-2|2|3"),
        ("math.modf(-3.25)", "-3|-0.25"),
        ("math.modf(1/0)", "inf|0"),
        ("math.frexp(8)", "0.5|4"),
        ("math.ldexp(0.5, 4)", "8"),
        ("math.fmod(-7, 3), math.mod(7, -3)", "-1|1"),
        ("math.max(1, 5, 3), math.min(4, 2, 8)", "5|2"),
        ("math.deg(math.pi), math.rad(180) == math.pi", "180|true"),
        ("math.pow(2, 10), math.sqrt(2), math.huge", "1024|1.4142135623731|inf"),
        ("e(math.max)", "bad argument #1 to '?' (number expected, got no value)"),
        ("e(math.pow)", "bad argument #2 to '?' (number expected, got no value)"),
        (
            "(function() math.randomseed(0) return math.random(), math.random(10), math.random(-5, 5) end)()",
            "0.17082803611217|8|-4",
        ),
        ("e(math.random, 0)", "bad argument #1 to '?' (interval is empty)"),
        ("e(math.random, 2, 1)", "bad argument #2 to '?' (interval is empty)"),
        ("e(math.random, 1, 2, 3)", "wrong number of arguments"),
        ("type(os.clock())", "number"),
    ]);
}

#[test]
fn bits_are_those_of_32_bit_words() {
    check(&[
        ("bit.tobit(2 ^ 31), bit.tobit(2 ^ 32 + 1), bit.tobit(-1)", "-2147483648|1|-1"),
        ("bit.bnot(0), bit.band(255, 15, 7), bit.bor(1, 2, 4), bit.bxor(5, 1)", "-1|7|7|4"),
        ("bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-16, 2)", "-2147483648|15|-4"),
        ("bit.rol(0x12345678, 8), bit.ror(1, 1), bit.bswap(1)", "878082066|-2147483648|16777216"),
        ("bit.tohex(255), bit.tohex(255, 4), bit.tohex(-1, -2)", "000000ff|00ff|FF"),
        ("e(bit.band, 1, {})", "bad argument #2 to '?' (number expected, got table)"),
    ]);
}

#[test]
fn json_is_written_and_read() {
    check(&[
        ("cjson.encode({1, 'a', true, cjson.null})", "[1,\"a\",true,null]"),
        ("cjson.encode({})", "{}"),
        ("cjson.encode({[1] = 1, [3] = 3})", "[1,null,3]"),
        ("cjson.encode({a = {b = {}}})", "{\"a\":{\"b\":{}}}"),
        ("cjson.encode('/\\1\\127')", "\"\\/\\u0001\\u007f\""),
        ("cjson.encode(0.1)", "0.1"),
        ("e(cjson.encode, 0/0)", "Cannot serialise number: must not be NaN or Inf"),
        ("e(cjson.encode, {[1] = 1, [1000] = 1})", "Cannot serialise table: excessively sparse array"),
        ("e(cjson.encode, tostring)", "Cannot serialise function: type not supported"),
        ("e(cjson.encode, {[true] = 1})", "Cannot serialise boolean: table key must be a number or string"),
        ("cjson.decode('[1, 2.5, \"x\"]')[3]", "x"),
        ("cjson.decode('{\"a\": {\"b\": [null]}}').a.b[1] == cjson.null", "true"),
        ("cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\"')", "\\xc3\\xa9\\xf0\\x9f\\x98\\x80"),
        ("e(cjson.decode, '[1')", "Expected comma or array end but found T_END at character 3"),
        ("e(cjson.decode, '{1}')", "Expected object key string but found T_NUMBER at character 2"),
        ("e(cjson.decode, '{\"a\" 1}')", "Expected colon but found T_NUMBER at character 6"),
        ("e(cjson.decode, '\"\\\\x\"')", "Expected value but found invalid escape code at character 2"),
        ("e(cjson.decode, '1 2')", "Expected the end but found T_NUMBER at character 3"),
        ("e(cjson.decode, '\\0\\0')", "JSON parser does not support UTF-16 or UTF-32"),
        ("#cjson.decode(cjson.encode(('x'):rep(200000)))", "200000"),
        ("(function() cjson.encode_number_precision(3) local s = cjson.encode(1/3) return s end)()", "0.333"),
        (
            "(function() local own = cjson.new() own.encode_number_precision(3) return own.encode(1/3), cjson.encode(1/3) end)()",
            "0.333|0.33333333333333",
        ),
    ]);
}

#[test]
fn settings_of_json_are_gone_with_the_run() {
    let mut vm = super::machine();
    let mut run =
        |source: &str| super::run(&mut vm, source.as_bytes(), u64::MAX / 4).escape_ascii().to_string();
    assert_eq!(run("cjson.encode_number_precision(3) return cjson.encode(1/3)"), "0.333");
    assert_eq!(run("return cjson.encode(1/3)"), "0.33333333333333");
}

#[test]
fn messages_are_packed_and_unpacked() {
    check(&[
        ("cmsgpack.unpack(cmsgpack.pack(1, -1, 1.5, 'a', true, nil, 300))", "1|-1|1.5|a|true|nil|300"),
        ("cmsgpack.pack({1, 2}, {a = 1})", "\\x92\\x01\\x02\\x81\\xa1a\\x01"),
        ("cmsgpack.unpack_one(cmsgpack.pack(1, 2), 0)", "1|1"),
        ("cmsgpack.unpack_one(cmsgpack.pack(1, 2), 1)", "-1|2"),
        ("cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)", "2|1|2"),
        ("e(cmsgpack.pack)", "bad argument #0 to '?' (MessagePack pack needs input.)"),
        ("e(cmsgpack.unpack, '\\193')", "Bad data format in input."),
        ("e(cmsgpack.unpack, '\\146\\1')", "Missing bytes in input."),
        ("e(cmsgpack.unpack_one, 'a', 5)", "Start offset 5 greater than input length 1."),
        ("#cmsgpack.unpack(cmsgpack.pack(('x'):rep(200000)))", "200000"),
    ]);
}

#[test]
fn structures_are_packed_and_unpacked() {
    check(&[
        ("struct.pack('>I2', 258)", "\\x01\\x02"),
        ("struct.unpack('<i4', '\\255\\255\\255\\255')", "-1|5"),
        ("struct.unpack('bc0', '\\3abcd')", "abc|5"),
        ("struct.unpack('s', 'ab\\0c')", "ab|4"),
        ("struct.size('!4bi')", "8"),
        ("e(struct.size, 's')", "bad argument #1 to '?' (option 's' has no fixed size)"),
        ("e(struct.pack, 'z', 1)", "bad argument #1 to '?' (invalid format option 'z')"),
        ("e(struct.unpack, 'i4', 'abc')", "bad argument #2 to '?' (data string too short)"),
        ("struct.unpack('>d', struct.pack('>d', 0.1))", "0.1|9"),
    ]);
}
