//! Makes random values for command arguments, chosen by the name and type that the command's argument tree
//! gives for each argument.

use sluice_base::Rng;

/// Keys, mostly grouped by the type of value that commands create under them. There are few
/// keys, so that commands share them, and some have unusual bytes.
pub(super) const KEYS: &[&[u8]] = &[
    b"s0",
    b"s1",
    b"s2",
    b"s3",
    b"s4",
    b"n0",
    b"n1",
    b"n2",
    b"f0",
    b"{t}a",
    b"{t}b",
    b"long",
    b"l0",
    b"l1",
    b"l2",
    b"h0",
    b"h1",
    b"z0",
    b"z1",
    b"e0",
    b"e1",
    b"x0",
    b"x1",
    b"e2",
    b"p0",
    b"p1",
    b"p2",
    b"",
    b"bin\x00\r\n\xff",
    b"with space",
    b"*[a]?",
];

/// Integers at the limits of formats and types.
const EDGES: &[&str] = &[
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "4294967296",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4611686018427387904",
    "99999999999999999999999999",
];

/// Texts that are valid for only some numeric arguments, or for none: malformed integers, floating point
/// numbers, infinities, bounds of ranges.
const NEARLY: &[&str] = &[
    "",
    " 1",
    "1 ",
    "+1",
    "-0",
    "00",
    "01",
    "0x10",
    "1e3",
    "1.0",
    "1.5",
    "-1.5",
    ".5",
    "5.",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "+inf",
    "infinity",
    "1e400",
    "-1e400",
    "1e-400",
    "1,5",
    "one",
    "-",
    "+",
    "(1",
    "[a",
    "1\0",
    "0.1",
    "3.0e0",
    "1e17",
    "123456789012345678",
    "0.30000000000000004",
    "1.7976931348623157e308",
    "5e-324",
    "-9223372036854775808.5",
];

/// Words that are options of some command, and one word that is an option of none.
const OPTIONS: &[&str] = &[
    "NX",
    "XX",
    "GT",
    "LT",
    "GET",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "IFEQ",
    "COUNT",
    "MATCH",
    "TYPE",
    "REPLACE",
    "DB",
    "LIMIT",
    "WITHSCORES",
    "STORE",
    "ASYNC",
    "SYNC",
    "ABSTTL",
    "IDLETIME",
    "FREQ",
    "LEN",
    "IDX",
    "MINMATCHLEN",
    "PERSIST",
    "BIT",
    "BYTE",
    "NOSUCHOPTION",
];

/// A value for an argument.
pub(super) fn value(rng: &mut Rng, name: &str, kind: &str) -> Vec<u8> {
    match (name, kind) {
        (_, "key") => key(rng),
        (_, "pattern") => pattern(rng),
        ("index" | "db" | "index1" | "index2" | "destination-db", "integer") => database(rng),
        ("cursor", _) => rare(rng, "0"),
        ("seconds" | "milliseconds" | "ttl", _) => duration(rng),
        (_, "unix-time") => moment(rng),
        ("count", "integer") => match rng.below(4) {
            0 => integer(rng),
            _ => text(100 + rng.below(1000)),
        },
        ("type", _) => pick(rng, &["string", "list", "hash", "set", "zset", "stream", "STRING", "nosuch"]),
        ("encoding", _) => pick(rng, &["u8", "i5", "i64", "u63", "u64", "i65", "u0", "x1"]),
        ("offset" | "start" | "end" | "stop" | "min" | "max", "integer") => position(rng),
        ("field" | "member" | "member1" | "member2", _) if rng.below(10) < 8 => text_of("m", rng.below(8)),
        (_, "integer") => integer(rng),
        (_, "double") => float(rng),
        _ => content(rng),
    }
}

/// A value that is wrong for most arguments.
pub(super) fn hostile(rng: &mut Rng) -> Vec<u8> {
    match rng.below(6) {
        0 => pick(rng, EDGES),
        1 => pick(rng, NEARLY),
        2 => option(rng),
        3 => key(rng),
        4 => content(rng),
        _ => vec![0, 255, 13, 10, 34, 39, 92],
    }
}

/// A word of `OPTIONS`.
pub(super) fn option(rng: &mut Rng) -> Vec<u8> {
    pick(rng, OPTIONS)
}

/// A key of any type.
pub(super) fn key(rng: &mut Rng) -> Vec<u8> {
    KEYS[index(rng, KEYS.len())].to_vec()
}

/// A key that mostly holds a list.
pub(super) fn list_key(rng: &mut Rng) -> Vec<u8> {
    text_of("l", rng.below(3))
}

/// A key that mostly holds a value of the type whose keys begin with `name`.
pub(super) fn own_key(rng: &mut Rng, name: &str) -> Vec<u8> {
    text_of(name, rng.below(3))
}

/// A key for WATCH, of a type other than the stream type, because until 9.1.3 the reference does not count a
/// change of a consumer group as a change of its key.
pub(super) fn watched_key(rng: &mut Rng) -> Vec<u8> {
    let name = ["l", "p", "e", "h", "z"][index(rng, 5)];
    own_key(rng, name)
}

/// An index or a count of a list, from either end.
pub(super) fn list_index(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => integer(rng),
        1 => text(rng.below(300)),
        2..=4 => format!("-{}", 1 + rng.below(12)).into_bytes(),
        _ => text(rng.below(12)),
    }
}

/// A value for strings and elements: mostly short, about half of the time a number, sometimes at the edges of
/// encodings, sometimes long.
pub(super) fn content(rng: &mut Rng) -> Vec<u8> {
    match rng.below(18) {
        0..=4 => integer(rng),
        5 => float(rng),
        6 => pick(rng, EDGES),
        7 => pick(rng, NEARLY),
        8 => vec![b'x'; index(rng, 5) + 42],
        9 => vec![b'y'; index(rng, 5) + 62],
        10 => vec![b'z'; 1 + index(rng, 4096)],
        11 => (0..index(rng, 24)).map(|_| (rng.next_u64() & 255) as u8).collect(),
        12 => Vec::new(),
        // These texts have common parts, for LCS.
        13 => (0..index(rng, 60)).map(|_| b"abc"[index(rng, 3)]).collect(),
        // These integers are around the limits of shared integers, or have more digits than a double can hold
        // exactly.
        14 => pick(rng, &["9998", "9999", "10000", "-1", "1234567890123456789", "-1234567890123456789"]),
        _ => text_of("v", rng.below(6)),
    }
}

/// An integer, mostly a small one.
fn integer(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => pick(rng, EDGES),
        1 => pick(rng, NEARLY),
        2 => text(rng.next_u64() >> rng.below(64)),
        3 => format!("-{}", rng.below(1000)).into_bytes(),
        _ => text(rng.below(20)),
    }
}

/// A floating point number.
fn float(rng: &mut Rng) -> Vec<u8> {
    match rng.below(6) {
        0 => pick(rng, NEARLY),
        1 => integer(rng),
        2 => format!("{}e{}", rng.below(100), rng.below(40)).into_bytes(),
        _ => format!("{}{}.{}", if rng.below(3) == 0 { "-" } else { "" }, rng.below(100), rng.below(1000))
            .into_bytes(),
    }
}

/// A position in a string or list, from either end.
fn position(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0 => integer(rng),
        1 => text(rng.below(2_000_000)),
        // These positions are around the maximum string length with which the servers are configured.
        2 => text((1 << 20) - 4 + rng.below(8)),
        3..=4 => format!("-{}", 1 + rng.below(12)).into_bytes(),
        _ => text(rng.below(60)),
    }
}

/// A number of a database: mostly one of the first three.
fn database(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => pick(rng, &["15", "16", "-1", "abc", "1.0", "9223372036854775808", ""]),
        other => text(other % 3),
    }
}

/// A relative time: far away, past, out of range or invalid, but never near.
fn duration(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0 => pick(rng, EDGES),
        1 => pick(rng, NEARLY),
        2 => text(0),
        3 => format!("-{}", rng.below(1000)).into_bytes(),
        4 => pick(rng, &["9223372036854775", "9223370000000000", "92233720368547758"]),
        _ => text(10_000_000 + rng.below(90_000_000)),
    }
}

/// An absolute time: long past, far away or invalid.
fn moment(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0 => pick(rng, EDGES),
        1 => pick(rng, NEARLY),
        2 => text(rng.below(1000)),
        3 => pick(rng, &["-1", "0", "1", "1600000000"]),
        4 => text(9_000_000_000 + rng.below(1000)),
        _ => text(9_000_000_000_000 + rng.below(1_000_000)),
    }
}

/// A glob pattern for keys.
fn pattern(rng: &mut Rng) -> Vec<u8> {
    let patterns = [
        "*", "s*", "?0", "[a-m]*", "[^s]*", "*0", "s[0-2]", "\\*", "[", "nomatch", "", "h?ll*[", "{t}*",
        "[z-a]0", "**0",
    ];
    pick(rng, &patterns)
}

/// `usual` with a probability of 90 percent, otherwise a hostile value.
fn rare(rng: &mut Rng, usual: &str) -> Vec<u8> {
    if rng.below(10) == 0 { hostile(rng) } else { usual.as_bytes().to_vec() }
}

/// One of several texts.
fn pick(rng: &mut Rng, texts: &[&str]) -> Vec<u8> {
    texts[index(rng, texts.len())].as_bytes().to_vec()
}

/// An index below `bound`.
fn index(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap_or(0)
}

/// The decimal digits of a number.
fn text(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// A name with a number.
fn text_of(name: &str, number: u64) -> Vec<u8> {
    format!("{name}{number}").into_bytes()
}
