//! Arguments of stream commands. They have small given ids, so that both servers have the same ids, and so
//! that commands find existing entries.
//!
//! Invariant: no id depends on a server's clock, and no reply that is compared byte by byte
//! contains a time.

use super::generator::Generator;

type Words = Vec<Vec<u8>>;

/// The arguments of a stream command after its name; `None` for another command.
pub(super) fn arguments(generator: &mut Generator, name: &str) -> Option<Words> {
    if !name.starts_with('x') || name.ends_with("|help") {
        return None;
    }
    let key = generator.pick(KEYS);
    Some(match name {
        "xadd" => xadd(generator, key),
        "xdel" => [vec![key], ids(generator)].concat(),
        "xlen" | "xinfo|stream" | "xinfo|groups" => vec![key],
        "xtrim" => [vec![key], trimming(generator)].concat(),
        "xsetid" => xsetid(generator, key),
        "xrange" => [vec![key, end(generator, "-"), end(generator, "+")], count(generator)].concat(),
        "xrevrange" => [vec![key, end(generator, "+"), end(generator, "-")], count(generator)].concat(),
        "xread" => {
            let from = [id(generator), generator.pick(&["$", "+", "0"])];
            [count(generator), vec![b"STREAMS".to_vec(), key, generator.pick(KEYS)], from.to_vec()].concat()
        }
        "xreadgroup" => xreadgroup(generator, key),
        "xack" => [vec![key, generator.pick(GROUPS)], ids(generator)].concat(),
        "xpending" => vec![key, generator.pick(GROUPS)],
        "xclaim" => xclaim(generator, key),
        "xautoclaim" => {
            let claimed = vec![key, generator.pick(GROUPS), generator.pick(CONSUMERS), b"0".to_vec()];
            let options: &[&str] = &["JUSTID", "COUNT 1", "COUNT 3 JUSTID"];
            let rest = if generator.chance(50) { generator.pick(options) } else { Vec::new() };
            [claimed, vec![end(generator, "-")], split(&rest)].concat()
        }
        _ => groups(generator, name, key)?,
    })
}

/// The arguments of XGROUP's subcommands, and of XINFO CONSUMERS.
fn groups(generator: &mut Generator, name: &str, key: Vec<u8>) -> Option<Words> {
    let group = generator.pick(GROUPS);
    Some(match name {
        "xgroup|create" => {
            let options: &[&str] = &["", "MKSTREAM", "ENTRIESREAD 3", "MKSTREAM ENTRIESREAD -1"];
            let from = if generator.chance(50) { generator.pick(&["$", "0"]) } else { id(generator) };
            [vec![key, group, from], split(&generator.pick(options))].concat()
        }
        "xgroup|setid" => {
            let from = if generator.chance(50) { generator.pick(&["$", "0", "+"]) } else { id(generator) };
            [vec![key, group, from], split(&generator.pick(&["", "", "ENTRIESREAD 5"]))].concat()
        }
        "xgroup|destroy" | "xinfo|consumers" => vec![key, group],
        "xgroup|createconsumer" | "xgroup|delconsumer" => vec![key, group, generator.pick(CONSUMERS)],
        _ => return None,
    })
}

fn split(words: &[u8]) -> Words {
    words.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
}

/// An id that an entry may have.
fn id(generator: &mut Generator) -> Vec<u8> {
    format!("{}-{}", generator.below(MS_MAX), generator.below(4)).into_bytes()
}

fn ids(generator: &mut Generator) -> Words {
    (0..=generator.below(4)).map(|_| id(generator)).collect()
}

/// An end of a range: `whole`, or an inclusive or exclusive id.
fn end(generator: &mut Generator, whole: &str) -> Vec<u8> {
    match generator.below(4) {
        0 | 1 => whole.as_bytes().to_vec(),
        2 => id(generator),
        _ => [b"(".to_vec(), id(generator)].concat(),
    }
}

fn count(generator: &mut Generator) -> Words {
    if generator.chance(60) {
        return Vec::new();
    }
    vec![generator.token("COUNT"), generator.pick(&["0", "1", "3", "-1"])]
}

fn xadd(generator: &mut Generator, key: Vec<u8>) -> Words {
    let mut words = vec![key];
    if generator.chance(10) {
        words.push(generator.token("NOMKSTREAM"));
    }
    if generator.chance(25) {
        words.extend(trimming(generator));
    }
    // The sequence number is `*` in most ids, so that many entries can have the same milliseconds.
    let ms = generator.below(MS_MAX);
    words.push(match generator.chance(80) {
        true => format!("{ms}-*").into_bytes(),
        false => id(generator),
    });
    for _ in 0..=generator.below(3) {
        words.push(generator.pick(&["f", "g", "7", ""]));
        words.push(generator.pick(VALUES));
    }
    words
}

fn trimming(generator: &mut Generator) -> Words {
    let mut words = Vec::new();
    if generator.chance(50) {
        words.push(generator.token("MAXLEN"));
        words.extend(split(&generator.pick(&["", "", "=", "~"])));
        words.push(generator.below(40).to_string().into_bytes());
    } else {
        words.push(generator.token("MINID"));
        words.extend(split(&generator.pick(&["", "", "=", "~"])));
        words.push(id(generator));
    }
    if generator.chance(15) {
        words.extend([generator.token("LIMIT"), generator.pick(&["0", "3", "1000"])]);
    }
    words
}

fn xsetid(generator: &mut Generator, key: Vec<u8>) -> Words {
    let mut words = vec![key, id(generator)];
    if generator.chance(50) {
        words.extend([generator.token("ENTRIESADDED"), generator.below(200).to_string().into_bytes()]);
        words.extend([generator.token("MAXDELETEDID"), id(generator)]);
    }
    words
}

fn xreadgroup(generator: &mut Generator, key: Vec<u8>) -> Words {
    let mut words = vec![generator.token("GROUP"), generator.pick(GROUPS), generator.pick(CONSUMERS)];
    words.extend(count(generator));
    if generator.chance(20) {
        words.push(generator.token("NOACK"));
    }
    words.extend([generator.token("STREAMS"), key]);
    words.push(if generator.chance(70) { b">".to_vec() } else { id(generator) });
    words
}

fn xclaim(generator: &mut Generator, key: Vec<u8>) -> Words {
    let mut words = vec![key, generator.pick(GROUPS), generator.pick(CONSUMERS), b"0".to_vec()];
    words.extend(ids(generator));
    let options: &[&str] = &["", "FORCE", "JUSTID", "FORCE JUSTID", "RETRYCOUNT 3", "LASTID 9-1", "TIME 5"];
    words.extend(split(&generator.pick(options)));
    words
}

const KEYS: &[&str] = &["x0", "x0", "x1", "x1", "x2", "s0"];
const GROUPS: &[&str] = &["g0", "g1"];
const CONSUMERS: &[&str] = &["c0", "c1", "c2"];
const VALUES: &[&str] =
    &["v", "", "12", "-3", "70000", "9223372036854775807", "a rather longer value, as values go"];
/// Exclusive upper bound of the milliseconds in ids.
const MS_MAX: usize = 12;
