//! Arguments of commands about sorted sets and geo points.

use super::command::Command;
use super::generator::Generator;
use super::values;
use sluice_base::Rng;

/// A key that mostly holds a sorted set.
pub(super) fn key(rng: &mut Rng) -> Vec<u8> {
    format!("z{}", rng.below(3)).into_bytes()
}

/// A value for an argument of a command about sorted sets or geo points; `None` if the argument's name is not
/// specific enough.
pub(super) fn value(rng: &mut Rng, name: &str, kind: &str) -> Option<Vec<u8>> {
    Some(match (name, kind) {
        ("score" | "increment" | "weight", _) => score(rng),
        ("min" | "max" | "start" | "stop", _) => bound(rng),
        ("longitude" | "latitude", _) => degrees(rng),
        ("radius" | "width" | "height", _) => {
            pick(rng, &["0", "1", "10", "100.5", "2000", "20000", "-1", "x"])
        }
        ("count" | "offset" | "limit", _) => pick(rng, &["0", "1", "2", "3", "10", "-1", "-3", "x"]),
        _ => return None,
    })
}

/// A score, mostly one of a few, so that elements share scores; sometimes one at the limits of a format.
fn score(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => values::value(rng, "", "double"),
        1 => pick(rng, &["inf", "-inf", "-0", "0.5", "-0.5", "1e20", "1e-7", "0.1", "0.30000000000000004"]),
        2 => pick(rng, &["32767", "32768", "-32769", "2147483648", "140737488355328", "9007199254740993"]),
        _ => rng.below(6).to_string().into_bytes(),
    }
}

/// A bound of a range of ranks, scores or members.
fn bound(rng: &mut Rng) -> Vec<u8> {
    match rng.below(16) {
        0 => values::value(rng, "", "double"),
        1..=3 => pick(rng, &["-", "+", "[m3", "(m3", "[m", "[m7", "(m0", "[", "("]),
        4..=6 => pick(rng, &["-inf", "+inf", "inf", "(1", "(3", "(-inf", "(inf"]),
        7..=8 => format!("-{}", 1 + rng.below(8)).into_bytes(),
        _ => rng.below(8).to_string().into_bytes(),
    }
}

/// A longitude or a latitude: mostly one of several near each other. The largest values are left out,
/// because around them the reference misses members.
fn degrees(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => pick(rng, &["179.9999999", "-180", "85.0511287", "-85.05112878", "86", "181", "x", "0"]),
        1..=3 => format!("{}.{:03}", rng.below(85), rng.below(1000)).into_bytes(),
        _ => format!(
            "{}{}.{:06}",
            if rng.below(3) == 0 { "-" } else { "" },
            rng.below(3),
            rng.below(1_000_000)
        )
        .into_bytes(),
    }
}

/// Arguments for the commands whose tree is incomplete.
pub(super) fn arguments(generator: &mut Generator, name: &str) -> Option<Vec<Vec<u8>>> {
    match name {
        // Only the blocking client waits long.
        "bzpopmin" | "bzpopmax" | "bzmpop" => {
            let timeout = generator.pick(&["0.001", "0.001", "0.002", "-1", "x", "nan", "1e300", ""]);
            Some(waiting_arguments(generator, name, key, &timeout))
        }
        "zrandmember" => Some(random_arguments(generator)),
        _ => None,
    }
}

/// The arguments of ZRANDMEMBER, without large negative counts, because their replies would be endless.
fn random_arguments(generator: &mut Generator) -> Vec<Vec<u8>> {
    let mut words = vec![key(&mut generator.rng)];
    if generator.chance(80) {
        words.push(generator.pick(&[
            "0",
            "1",
            "3",
            "100",
            "-1",
            "-7",
            "x",
            "9223372036854775807",
            "-9223372036854775808",
        ]));
        if generator.chance(50) {
            words.push(generator.pick(&["WITHSCORES", "withscores", "none"]));
        }
    }
    words
}

/// The arguments of a command that blocks on sorted sets.
pub(super) fn waiting_arguments(
    generator: &mut Generator,
    name: &str,
    key: fn(&mut Rng) -> Vec<u8>,
    timeout: &[u8],
) -> Vec<Vec<u8>> {
    let keys: Vec<Vec<u8>> = (0..1 + generator.below(3)).map(|_| key(&mut generator.rng)).collect();
    if name != "bzmpop" {
        return [keys, vec![timeout.to_vec()]].concat();
    }
    let number = match generator.below(12) {
        0 => generator.pick(&["0", "x", "-1"]),
        _ => keys.len().to_string().into_bytes(),
    };
    let end = generator.pick(&["MIN", "max", "MAX", "min", "up"]);
    let mut words = [vec![timeout.to_vec(), number], keys, vec![end]].concat();
    if generator.chance(40) {
        words.extend([generator.token("COUNT"), generator.pick(&["1", "2", "10", "0", "x"])]);
    }
    words
}

/// A ZADD of up to 180 elements, after which a sorted set may no longer be a listpack.
pub(super) fn many(generator: &mut Generator) -> Command {
    let mut words = vec![generator.pick(&["ZADD", "zadd"]), key(&mut generator.rng)];
    let (count, scores) = (1 + generator.below(180), 1 + generator.below(40));
    for number in 0..count {
        words.push(generator.below(scores).to_string().into_bytes());
        words.push(format!("m{number}").into_bytes());
    }
    Command::of(words)
}

/// A type and a sorted set in one of the encodings that files have had. It is valid, because the reference
/// checks less of it than our server does. `text` writes a text, `listpack` and `ziplist` a sequence of
/// elements.
pub(super) fn body(
    generator: &mut Generator,
    text: fn(&mut Generator, &[u8]) -> Vec<u8>,
    [listpack, ziplist]: [fn(&[Vec<u8>]) -> Vec<u8>; 2],
) -> Vec<u8> {
    let count = 1 + generator.below(9);
    let elements: Vec<(String, u32)> =
        (0..count).map(|number| (format!("m{number}"), (number / 2) as u32)).collect();
    let row: Vec<Vec<u8>> = elements
        .iter()
        .flat_map(|(member, score)| [member.clone().into_bytes(), score.to_string().into_bytes()])
        .collect();
    match generator.below(4) {
        0 => [vec![17], text(generator, &listpack(&row))].concat(),
        1 => [vec![12], text(generator, &ziplist(&row))].concat(),
        2 => {
            let mut body = vec![3, count as u8];
            for (member, score) in elements.iter().rev() {
                let score = score.to_string();
                body.extend(text(generator, member.as_bytes()));
                body.push(score.len() as u8);
                body.extend_from_slice(score.as_bytes());
            }
            body
        }
        _ => {
            let mut body = vec![5, count as u8];
            for (member, score) in elements.iter().rev() {
                body.extend(text(generator, member.as_bytes()));
                body.extend_from_slice(&f64::from(*score).to_le_bytes());
            }
            body
        }
    }
}

fn pick(rng: &mut Rng, texts: &[&str]) -> Vec<u8> {
    let at = usize::try_from(rng.below(texts.len() as u64)).unwrap_or(0);
    texts[at].as_bytes().to_vec()
}
