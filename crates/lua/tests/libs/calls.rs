//! Random library calls, in families. Each call is a line of Lua that records the call's results.

use std::fmt::Write as _;

use sluice_base::Rng;

/// A generator of calls of one kind.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) call: fn(&mut Rng) -> String,
}

/// All families of calls that are tried.
pub(super) const FAMILIES: &[Family] = &[
    Family { name: "numbers", call: numbers },
    Family { name: "format", call: format_call },
    Family { name: "patterns", call: patterns },
    Family { name: "strings", call: strings },
    Family { name: "tables", call: tables },
    Family { name: "sort", call: sort },
    Family { name: "math", call: math },
    Family { name: "bit", call: bit },
    Family { name: "json encode", call: json_encode },
    Family { name: "json decode", call: json_decode },
    Family { name: "msgpack pack", call: pack },
    Family { name: "msgpack unpack", call: unpack },
    Family { name: "struct", call: structs },
];

fn one<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}

/// Bytes as a Lua literal.
fn quote(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => write!(out, "\\{}", *byte as char).expect("a string"),
            b' '..=b'~' => out.push(*byte as char),
            _ => write!(out, "\\{byte:03}").expect("a string"),
        }
    }
    out.push('"');
    out
}

/// A random string of at most `max` of the given parts.
fn joined(rng: &mut Rng, parts: &[&str], max: u64) -> Vec<u8> {
    (0..rng.below(max + 1)).flat_map(|_| one(rng, parts).as_bytes().to_vec()).collect()
}

fn any_text(rng: &mut Rng) -> Vec<u8> {
    match rng.below(4) {
        0 => joined(rng, &["a", "b", "ab", "ba"], 12),
        1 => joined(rng, &["hello", " ", "x=1", ",", "(", ")", "\0", "\n", "é", "%", "\""], 6),
        2 => (0..rng.below(20)).map(|_| rng.below(256) as u8).collect(),
        _ => joined(rng, &["0123456789", "abcdefghij", "ABC"], 30),
    }
}

fn number(rng: &mut Rng) -> String {
    match rng.below(9) {
        0 => format!("{}", rng.below(20) as i64 - 10),
        1 => format!("{}", rng.next_u64() as i64 >> rng.below(64)),
        2 => format!("{:e}", f64::from_bits(rng.next_u64() & !(1 << 62)))
            .replace("NaN", "(0/0)")
            .replace("inf", "(1/0)"),
        3 => format!("{}", (rng.below(2_000_000) as f64 - 1e6) / 1000.0),
        4 => one(
            rng,
            &[
                "0", "-0", "(1/0)", "(-1/0)", "(0/0)", "1e15", "1e14", "-1e14", "2^31", "2^32", "2^53",
                "2^63", "-2^63", "2^64",
            ],
        )
        .into(),
        5 => format!("{}", f64::from_bits(rng.next_u64() >> 2))
            .chars()
            .take(18)
            .collect::<String>()
            .replace("NaN", "1"),
        6 => format!("{}.5", rng.below(100)),
        7 => format!("(2^{})", rng.below(140) as i64 - 70),
        _ => format!("({} / {})", rng.below(1000) as i64 - 500, rng.below(999) + 1),
    }
}

fn scalar(rng: &mut Rng) -> String {
    match rng.below(8) {
        0..=2 => number(rng),
        3..=5 => quote(&any_text(rng)),
        6 => one(rng, &["true", "false", "cjson.null"]).into(),
        _ => one(rng, &["nil", "{}", "tostring"]).into(),
    }
}

/// A random index that is not a small integer. Large integers are left out, because they would take the
/// reference minutes.
fn odd_index(rng: &mut Rng) -> String {
    one(rng, &["nil", "'x'", "{}", "true", "'3'", "1.7", "2.5", "(0/0)"]).into()
}

fn numbers(rng: &mut Rng) -> String {
    let digits = [
        "0",
        "1",
        "9",
        "5",
        ".",
        "e",
        "e-",
        "E+",
        "0x",
        "p",
        "p-",
        "a",
        "F",
        "-",
        "+",
        " ",
        "inf",
        "nan",
        "(",
        ")",
        "00",
        "123456789",
    ];
    let text = match rng.below(3) {
        0 => joined(rng, &digits, 6),
        1 => {
            let inner = number(rng);
            [
                joined(rng, &[" ", "\t", "-", "0"], 2),
                inner.into_bytes(),
                joined(rng, &[" ", "\n", "x", "\0"], 1),
            ]
            .concat()
        }
        _ => joined(rng, &["0", "1", "7", "8", "9", "a", "f", "z", "Z", "-", " ", "0x"], 24),
    };
    match rng.below(4) {
        0 => format!(
            "e(tonumber, {}, {})",
            quote(&text),
            one(rng, &["2", "8", "10", "16", "36", "7", "37", "1", "'x'"])
        ),
        1 => format!("e(tostring, {})", number(rng)),
        _ => format!("e(tonumber, {})", quote(&text)),
    }
}

fn format_call(rng: &mut Rng) -> String {
    let mut format = Vec::new();
    let mut arguments = String::new();
    for _ in 0..=rng.below(2) {
        format.extend(joined(rng, &["x", " ", "%%", "\0", "é"], 2));
        format.push(b'%');
        format.extend(joined(rng, &["-", "+", " ", "#", "0"], 3));
        format.extend(joined(rng, &["1", "5", "12", "20", "99", "3"], 1));
        format.extend(joined(rng, &[".", ".0", ".3", ".14", ".20", ".99"], 1));
        let letter = one(
            rng,
            &[
                "d", "i", "u", "o", "x", "X", "c", "e", "E", "f", "g", "G", "s", "q", "s", "g", "f", "", "y",
                ".",
            ],
        );
        format.extend_from_slice(letter.as_bytes());
        let argument = match letter {
            "s" | "q" if rng.below(5) > 0 => {
                let text = any_text(rng);
                quote(&if rng.below(4) == 0 { text.repeat(20) } else { text })
            }
            _ if rng.below(12) == 0 => scalar(rng),
            _ => number(rng),
        };
        if rng.below(15) > 0 {
            write!(arguments, ", {argument}").expect("a string");
        }
    }
    format!("e(string.format, {}{arguments})", quote(&format))
}

fn pattern(rng: &mut Rng) -> Vec<u8> {
    let items = [
        "a", "b", ".", "%a", "%d", "%s", "%w", "%W", "%x", "%z", "%p", "%u", "%l", "%c", "[ab]", "[^a]",
        "[a-c]", "[%d%s]", "[]]", "[^]]", "[a-]", "[%a_]", "%%", "%(", "h", "l", "o",
    ];
    let counts = ["", "", "", "*", "+", "-", "?"];
    let odd = [
        "(", ")", "()", "%1", "%2", "%b()", "%bab", "%bxx", "%f[%a]", "%f[^%a]", "%f", "$", "^", "[", "[a",
        "%", "%b", "\0", "]", "(a", "%9", "%0", "[%", "[a-%z]",
    ];
    let mut out = Vec::new();
    if rng.below(6) == 0 {
        out.push(b'^');
    }
    let mut open = 0;
    for _ in 0..=rng.below(5) {
        if rng.below(4) == 0 {
            out.push(b'(');
            open += 1;
        }
        if rng.below(7) == 0 {
            out.extend_from_slice(one(rng, &odd).as_bytes());
        } else {
            out.extend_from_slice(one(rng, &items).as_bytes());
            out.extend_from_slice(one(rng, &counts).as_bytes());
        }
        if open > 0 && rng.below(2) == 0 {
            out.push(b')');
            open -= 1;
        }
    }
    if rng.below(8) > 0 {
        out.extend(std::iter::repeat_n(b')', open));
    }
    if rng.below(6) == 0 {
        out.push(b'$');
    }
    out
}

fn patterns(rng: &mut Rng) -> String {
    let mut text = any_text(rng);
    text.truncate(40);
    let (text, pattern) = (quote(&text), quote(&pattern(rng)));
    let position =
        one(rng, &["", ", 1", ", 2", ", -3", ", 0", ", 100", ", -100", ", nil", ", 1, true", ", 1, false"]);
    match rng.below(6) {
        0 => format!("e(string.find, {text}, {pattern}{position})"),
        1 => format!("e(string.match, {text}, {pattern}{position})"),
        2 => format!("e(iterate, {text}, {pattern})"),
        _ => {
            let with = match rng.below(6) {
                0 => "string.upper".to_string(),
                1 => "function(a, b) if b then return b end return #a end".to_string(),
                2 => "{a = 'X', b = false, ab = 7, [1] = 'one'}".to_string(),
                3 => "setmetatable({}, {__index = function(t, k) return '<' .. k .. '>' end})".to_string(),
                4 => scalar(rng),
                _ => quote(&joined(rng, &["%0", "%1", "%2", "%%", "x", "", "%", "%a", "<", "\0"], 4)),
            };
            let count = one(rng, &["", "", "", ", 1", ", 2", ", 0", ", -1", ", 'x'"]);
            format!("e(string.gsub, {text}, {pattern}, {with}{count})")
        }
    }
}

fn strings(rng: &mut Rng) -> String {
    let text = if rng.below(10) == 0 { scalar(rng) } else { quote(&any_text(rng)) };
    let index = |rng: &mut Rng| {
        if rng.below(12) == 0 { odd_index(rng) } else { format!("{}", rng.below(30) as i64 - 12) }
    };
    match rng.below(9) {
        0 => format!("e(string.sub, {text}, {}, {})", index(rng), index(rng)),
        1 => format!("e(string.sub, {text}, {})", index(rng)),
        2 => format!("e(string.byte, {text}, {}, {})", index(rng), index(rng)),
        3 => format!("e(string.rep, {text}, {})", index(rng)),
        4 => format!("e(string.{}, {text})", one(rng, &["len", "lower", "upper", "reverse", "byte"])),
        5 => {
            let codes: Vec<String> =
                (0..rng.below(5)).map(|_| format!("{}", rng.below(260) as i64 - 2)).collect();
            format!("e(string.char{}{})", if codes.is_empty() { "" } else { ", " }, codes.join(", "))
        }
        6 => format!(
            "e(string.find, {text}, {}, {}, true)",
            quote(&joined(rng, &["a", "b", "ab", "0", "x="], 3)),
            index(rng)
        ),
        7 => format!("e(string.gfind, {text})"),
        _ => format!(
            "e(string.{}, {})",
            one(rng, &["len", "rep", "sub", "byte", "char", "dump", "find", "format", "lower"]),
            scalar(rng)
        ),
    }
}

fn list(rng: &mut Rng, max: u64) -> String {
    let items: Vec<String> = (0..rng.below(max + 1))
        .map(|_| match rng.below(6) {
            0 => quote(&joined(rng, &["a", "b", "c"], 3)),
            1 if rng.below(4) == 0 => mixed(rng),
            _ => number(rng),
        })
        .collect();
    format!("{{{}}}", items.join(", "))
}

fn tables(rng: &mut Rng) -> String {
    let list = list(rng, 8);
    let index = |rng: &mut Rng| {
        if rng.below(12) == 0 { odd_index(rng) } else { format!("{}", rng.below(12) as i64 - 3) }
    };
    match rng.below(9) {
        0 => format!("e(table.concat, {list}, {})", one(rng, &["''", "', '", "nil", "1", "{}"])),
        1 => format!("e(table.concat, {list}, '-', {}, {})", index(rng), index(rng)),
        2 => format!("local t = {list} e(table.insert, t, {}) all(t)", scalar(rng)),
        3 => format!("local t = {list} e(table.insert, t, {}, 'x') all(t)", index(rng)),
        4 => format!("local t = {list} e(table.remove, t) all(t)"),
        5 => format!("local t = {list} e(table.remove, t, {}) all(t)", index(rng)),
        6 => format!(
            "e(table.maxn, {{[{}] = 1, [{}] = 2, x = 3}})",
            index(rng).replace("nil", "1").replace("(0/0)", "1"),
            number(rng).replace("(0/0)", "1")
        ),
        7 => format!(
            "e(table.{}, {list}, function(k, v) all(k, v) if {} then return v end end)",
            one(rng, &["foreach", "foreachi"]),
            one(rng, &["false", "k == 3"])
        ),
        _ => format!(
            "e(table.{}, {})",
            one(rng, &["getn", "setn", "maxn", "concat", "insert", "remove", "foreach", "sort"]),
            if rng.below(2) == 0 { list } else { scalar(rng) }
        ),
    }
}

/// A random value whose text is the same in every process.
fn mixed(rng: &mut Rng) -> String {
    match rng.below(3) {
        0 => quote(&any_text(rng)),
        _ => one(rng, &["true", "cjson.null", "false", "'7'"]).into(),
    }
}

fn sort(rng: &mut Rng) -> String {
    let len = if rng.below(4) == 0 { rng.below(60) } else { rng.below(9) };
    let range = 1 + rng.below(12);
    let items: Vec<String> = match rng.below(8) {
        0 => (0..len).map(|_| quote(&joined(rng, &["a", "b", "B"], 3))).collect(),
        1 => (0..len).map(|_| number(rng)).collect(),
        2 => (0..len).map(|_| if rng.below(9) == 0 { mixed(rng) } else { number(rng) }).collect(),
        _ => (0..len).map(|_| format!("{}", rng.below(range))).collect(),
    };
    let items = items.join(", ");
    match rng.below(4) {
        0 => format!("local t = {{{items}}} e(table.sort, t) all(t)"),
        1 => {
            let order = one(
                rng,
                &[
                    "a < b",
                    "a > b",
                    "a <= b",
                    "true",
                    "false",
                    "(n % 3) == 0",
                    "tostring(a) < tostring(b)",
                    "n % 2",
                    "nil",
                    "error('x' .. n)",
                ],
            );
            format!(
                "local t, n = {{{items}}}, 0 e(table.sort, t, function(a, b) n = n + 1 return {order} end) all(t, n)"
            )
        }
        // The sequence of comparisons decides the order of elements with equal keys.
        2 => format!(
            "local t, n = {{}}, 0 for i, k in ipairs({{{items}}}) do t[i] = {{k = tostring(k), i = i}} end \
             e(table.sort, t, function(a, b) n = n + 1 return a.k < b.k end) local o = {{}} for i, v in ipairs(t) do o[i] = v.k .. v.i end all(o, n)"
        ),
        _ => format!(
            "local t = {{{items}}} e(table.sort, t, {}) all(t)",
            one(rng, &["function(a, b) t[#t] = nil return a < b end", "1", "nil", "false"])
        ),
    }
}

fn math(rng: &mut Rng) -> String {
    let name = one(
        rng,
        &[
            "abs", "acos", "asin", "atan2", "atan", "ceil", "cosh", "cos", "deg", "exp", "floor", "fmod",
            "frexp", "ldexp", "log10", "log", "max", "min", "modf", "pow", "rad", "sinh", "sin", "sqrt",
            "tanh", "tan", "mod",
        ],
    );
    if rng.below(6) == 0 {
        let seed = rng.below(1 << 33) as i64 - (1 << 32);
        return match rng.below(4) {
            0 => format!("math.randomseed({seed}) e(math.random)"),
            1 => format!("math.randomseed({seed}) e(math.random, {})", rng.below(100) as i64 - 5),
            2 => format!("math.randomseed({seed}) e(math.random, {}, {})", number(rng), number(rng)),
            _ => format!(
                "math.randomseed({seed}) e(math.random, {}, {})",
                rng.below(100) as i64 - 50,
                rng.below(100) as i64 - 20
            ),
        };
    }
    let arguments: Vec<String> =
        (0..rng.below(4)).map(|_| if rng.below(20) == 0 { scalar(rng) } else { number(rng) }).collect();
    format!("e(math.{name}{}{})", if arguments.is_empty() { "" } else { ", " }, arguments.join(", "))
}

fn bit(rng: &mut Rng) -> String {
    let name = one(
        rng,
        &[
            "tobit", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "bswap",
            "tohex",
        ],
    );
    let arguments: Vec<String> =
        (0..rng.below(4)).map(|_| if rng.below(20) == 0 { scalar(rng) } else { number(rng) }).collect();
    format!("e(bit.{name}{}{})", if arguments.is_empty() { "" } else { ", " }, arguments.join(", "))
}

/// A random value, which may contain tables.
fn value(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 || rng.below(3) == 0 {
        return scalar(rng);
    }
    match rng.below(4) {
        0 => {
            let items: Vec<String> = (0..rng.below(5)).map(|_| value(rng, depth - 1)).collect();
            format!("{{{}}}", items.join(", "))
        }
        1 => {
            let entries: Vec<String> = (0..rng.below(6))
                .map(|_| format!("[{}] = {}", quote(&any_text(rng)), value(rng, depth - 1)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        2 => {
            let entries: Vec<String> = (0..rng.below(4))
                .map(|_| format!("[{}] = {}", rng.below(30) as i64 - 1, value(rng, depth - 1)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => {
            let key = number(rng).replace("(0/0)", "1");
            format!("{{[{key}] = {}, {}}}", value(rng, depth - 1), value(rng, depth - 1))
        }
    }
}

fn json_encode(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => format!(
            "cjson.encode_number_precision({}) e(cjson.encode, {}) cjson.encode_number_precision(14)",
            1 + rng.below(14),
            value(rng, 2)
        ),
        1 => format!(
            "cjson.encode_invalid_numbers({}) e(cjson.encode, {}) cjson.encode_invalid_numbers(false)",
            one(rng, &["true", "'null'", "'on'", "'off'"]),
            value(rng, 2)
        ),
        2 => format!(
            "cjson.encode_sparse_array({}, {}, {}) e(cjson.encode, {}) cjson.encode_sparse_array(false, 2, 10)",
            one(rng, &["true", "false"]),
            1 + rng.below(3),
            rng.below(20),
            value(rng, 2)
        ),
        3 => format!(
            "e(cjson.{}, {}) cjson.encode_max_depth(1000) cjson.decode_max_depth(1000) cjson.encode_number_precision(14) \
             cjson.encode_invalid_numbers(false) cjson.decode_invalid_numbers(true) cjson.encode_keep_buffer(true) \
             cjson.encode_sparse_array(false, 2, 10)",
            one(
                rng,
                &[
                    "encode_sparse_array",
                    "encode_max_depth",
                    "decode_max_depth",
                    "encode_number_precision",
                    "encode_keep_buffer",
                    "encode_invalid_numbers",
                    "decode_invalid_numbers",
                ]
            ),
            scalar(rng)
        ),
        4 => format!("e(cjson.encode, deep({}, {}))", one(rng, &["3", "999", "1000", "1001"]), scalar(rng)),
        _ => format!("e(cjson.encode, {})", value(rng, 3)),
    }
}

fn json_text(rng: &mut Rng, depth: u64) -> String {
    match rng.below(if depth == 0 { 5 } else { 8 }) {
        0 => number(rng).replace(['(', ')'], "").replace("2^", "2"),
        1 => one(
            rng,
            &[
                "true", "false", "null", "inf", "-nan", "0x1F", "01", "1e5", "-0", "1.5E-3", "+1",
                "Infinity", "nul",
            ],
        )
        .into(),
        2..=4 => {
            let parts = [
                "a",
                "\\n",
                "\\\"",
                "\\\\",
                "\\/",
                "\\u0041",
                "\\u00e9",
                "\\u20ac",
                "\\ud83d\\ude00",
                "\\ud83d",
                "é",
                " ",
                "\\x",
                "\0",
                "\\u12",
            ];
            let plain = if rng.below(4) == 0 { &parts[..] } else { &parts[..8] };
            format!("\"{}\"", String::from_utf8_lossy(&joined(rng, plain, 5)))
        }
        5 => {
            let items: Vec<String> = (0..rng.below(5)).map(|_| json_text(rng, depth - 1)).collect();
            format!("[{}]", items.join(one(rng, &[",", ", ", " ,\n", ","])))
        }
        _ => {
            let entries: Vec<String> = (0..rng.below(5))
                .map(|_| {
                    format!(
                        "\"{}\"{}{}",
                        one(rng, &["a", "b", "c", "key", "", "1", "\\u0062"]),
                        one(rng, &[":", " : ", ":"]),
                        json_text(rng, depth - 1)
                    )
                })
                .collect();
            format!("{{{}}}", entries.join(","))
        }
    }
}

fn json_decode(rng: &mut Rng) -> String {
    let mut text = json_text(rng, 3).into_bytes();
    if rng.below(2) == 0 && !text.is_empty() {
        let at = rng.below(text.len() as u64) as usize;
        match rng.below(4) {
            0 => text.truncate(at),
            1 => text[at] = rng.below(256) as u8,
            2 => text.insert(at, one(rng, &[",", "]", "}", "[", "{", "\"", ":", " ", "1"]).as_bytes()[0]),
            _ => drop(text.remove(at)),
        }
    }
    let text = quote(&text);
    match rng.below(8) {
        0 => format!(
            "cjson.decode_invalid_numbers(false) e(cjson.decode, {text}) cjson.decode_invalid_numbers(true)"
        ),
        1 => format!(
            "cjson.decode_max_depth({}) e(cjson.decode, {text}) cjson.decode_max_depth(1000)",
            1 + rng.below(3)
        ),
        2 => format!("e(function(s) return cjson.encode(cjson.decode(s)) end, {text})"),
        _ => format!("e(cjson.decode, {text})"),
    }
}

fn pack(rng: &mut Rng) -> String {
    let values: Vec<String> = (0..1 + rng.below(3)).map(|_| value(rng, 3)).collect();
    match rng.below(6) {
        0 => format!("e(cmsgpack.pack, deep({}, {}))", 10 + rng.below(10), scalar(rng)),
        1 => format!(
            "e(cmsgpack.pack, ('x'):rep({}))",
            one(rng, &["31", "32", "255", "256", "65535", "65536"])
        ),
        2 => {
            format!("e(function(...) return cmsgpack.unpack(cmsgpack.pack(...)) end, {})", values.join(", "))
        }
        3 => format!(
            "local t = {{}} for i = 1, {} do t[{}i] = i end e(cmsgpack.pack, t)",
            one(rng, &["15", "16", "17", "65535", "65536"]),
            one(rng, &["", "'k' .. "])
        ),
        _ => format!("e(cmsgpack.pack, {})", values.join(", ")),
    }
}

fn packed(rng: &mut Rng, out: &mut Vec<u8>, depth: u64) {
    let forms: &[u8] = &[
        0x00, 0x7f, 0xa0, 0xa3, 0xc0, 0xc2, 0xc3, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3,
        0xd9, 0xda, 0xdb, 0xe0, 0xff, 0xdc, 0xdd, 0xde, 0xdf, 0x90, 0x92, 0x80, 0x82, 0xc1, 0xd4,
    ];
    let form = forms[rng.below(forms.len() as u64) as usize];
    out.push(form);
    let count = 1 + rng.below(3);
    let width = match form {
        0xcc | 0xd0 | 0xd9 => 1,
        0xcd | 0xd1 | 0xda | 0xdc | 0xde => 2,
        0xce | 0xd2 | 0xca | 0xdb | 0xdd | 0xdf => 4,
        0xcf | 0xd3 | 0xcb => 8,
        _ => 0,
    };
    let is_len = matches!(form, 0xd9..=0xdf);
    if is_len {
        out.extend_from_slice(&count.to_be_bytes()[8 - width..]);
    } else {
        out.extend((0..width).map(|_| rng.below(256) as u8));
    }
    match form {
        0xa3 => out.extend_from_slice(b"abc"),
        0xd9..=0xdb => out.extend((0..count).map(|_| b'a' + rng.below(26) as u8)),
        0xdc | 0xdd | 0x92 if depth > 0 => {
            (0..if form == 0x92 { 2 } else { count }).for_each(|_| packed(rng, out, depth - 1));
        }
        0xde | 0xdf | 0x82 if depth > 0 => {
            for _ in 0..if form == 0x82 { 2 } else { count } {
                out.push(if rng.below(9) == 0 { 0xc0 } else { rng.below(100) as u8 });
                packed(rng, out, depth - 1);
            }
        }
        _ => {}
    }
}

fn unpack(rng: &mut Rng) -> String {
    let mut bytes = Vec::new();
    (0..1 + rng.below(3)).for_each(|_| packed(rng, &mut bytes, 3));
    if rng.below(3) == 0 {
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = rng.below(256) as u8,
            _ => drop(bytes.remove(at)),
        }
    }
    let bytes = quote(&bytes);
    match rng.below(5) {
        0 => format!("e(cmsgpack.unpack_one, {bytes}, {})", rng.below(8) as i64 - 1),
        1 => format!("e(cmsgpack.unpack_limit, {bytes}, {}, {})", rng.below(4) as i64 - 1, rng.below(6)),
        2 => format!(
            "e(cmsgpack.{}, {}, {})",
            one(rng, &["unpack", "unpack_one", "unpack_limit"]),
            scalar(rng),
            scalar(rng)
        ),
        _ => format!("e(cmsgpack.unpack, {bytes})"),
    }
}

fn structs(rng: &mut Rng) -> String {
    let options = [
        "b", "B", "h", "H", "l", "L", "i", "I", "i1", "i2", "i3", "i4", "i8", "I7", "i16", "f", "d", "s",
        "c0", "c3", "c", "x", ">", "<", "!", "!2", "!4", "!8", "!16", " ", "T", "bc0",
    ];
    let odd = ["z", "i33", "i0", "!3", "!0", "c99", "i99999999999", "\0", "-", "1", "c2147483647"];
    let mut format = joined(rng, &options, 5);
    if rng.below(8) == 0 {
        format.extend_from_slice(one(rng, &odd).as_bytes());
    }
    let format = quote(&format);
    match rng.below(5) {
        0 => format!("e(struct.size, {format})"),
        1 | 2 => {
            let arguments: Vec<String> = (0..1 + rng.below(6))
                .map(|_| match rng.below(6) {
                    0 => quote(&any_text(rng)),
                    1 => format!("{}", rng.below(300)),
                    _ => number(rng),
                })
                .collect();
            format!("e(struct.pack, {format}, {})", arguments.join(", "))
        }
        _ => {
            let data: Vec<u8> = (0..rng.below(40))
                .map(|_| if rng.below(3) == 0 { 0 } else { rng.below(256) as u8 })
                .collect();
            format!(
                "e(struct.unpack, {format}, {}{})",
                quote(&data),
                one(rng, &["", "", ", 2", ", 0", ", -1", ", 40", ", 5"])
            )
        }
    }
}
