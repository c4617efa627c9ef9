//! Commands whose argument trees say too little, or whose arguments could hurt the run.

use super::generate::Generator;
use super::values;

/// Parameters that a stream may change; each stream begins with their defaults.
pub(crate) const PARAMETERS: &[&str] = &[
    "active-expire-effort",
    "appendfsync",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "latency-monitor-threshold",
    "lazyfree-lazy-expire",
    "lazyfree-lazy-user-del",
    "lazyfree-lazy-user-flush",
    "list-compress-depth",
    "list-max-listpack-size",
    "loglevel",
    "lfu-decay-time",
    "lfu-log-factor",
    "maxmemory-samples",
    "notify-keyspace-events",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "stop-writes-on-bgsave-error",
    "tcp-keepalive",
    "timeout",
    "zset-max-listpack-entries",
];

/// Parameters that streams only ask for.
const ASKED: &[&str] = &[
    "appendonly",
    "databases",
    "maxmemory",
    "maxmemory-policy",
    "rdbcompression",
    "save",
    "*max-listpack*",
    "lfu-*",
];

/// Types that DEBUG PROTOCOL can show; a push would not be a reply.
const PROTOCOL: &[&str] = &[
    "string", "integer", "double", "null", "array", "set", "map", "bignum", "true", "false", "verbatim",
    "attrib",
];

/// Whether the call is made of fixed texts that must not be spoilt: a spoilt one could end or hang the server,
/// or ask for something that is compared elsewhere.
pub(super) fn is_fixed(name: &str) -> bool {
    matches!(name, "debug" | "config|set" | "command|info" | "client|unblock" | "flushall" | "swapdb")
}

/// Arguments for the commands whose tree says too little.
pub(super) fn arguments(generator: &mut Generator<'_>, name: &str) -> Option<Vec<Vec<u8>>> {
    let words = match name {
        "debug" if generator.chance(70) => vec![generator.token("PROTOCOL"), generator.pick(PROTOCOL)],
        "debug" => vec![generator.token("SLEEP"), b"0".to_vec()],
        "hello" => hello(generator),
        "select" => {
            vec![generator.pick(&["0", "0", "0", "1", "1", "2", "15", "16", "-1", "x", "1.0", "4294967296"])]
        }
        "swapdb" => vec![generator.pick(&["0", "1", "2"]), generator.pick(&["0", "1", "2", "16", "-1", "x"])],
        "config|get" if generator.chance(50) => vec![generator.pick(PARAMETERS)],
        "config|get" => vec![generator.pick(ASKED), generator.pick(PARAMETERS)],
        "config|set" => config_set(generator),
        "command|info" => vec![generator.pick(&[
            "get",
            "SET",
            "config|get",
            "nosuch",
            "append",
            "expire",
            "client|id",
            "del",
        ])],
        "client|setname" => vec![generator.pick(&["a", "", "with space", "b-c", "\n", "nam\u{e9}"])],
        "client|setinfo" => vec![
            generator.pick(&["LIB-NAME", "lib-ver", "LIB-OTHER", ""]),
            generator.pick(&["a", "1.2", "with space", "", "\n"]),
        ],
        "client|unblock" => vec![generator.pick(&["999999", "0", "-1", "x", "9223372036854775808"])],
        "auth" => {
            let user = generator.pick(&["default", "nobody"]);
            if generator.chance(50) { vec![user, b"pass".to_vec()] } else { vec![b"pass".to_vec()] }
        }
        _ => return None,
    };
    Some(words)
}

/// HELLO with a version, and sometimes more.
fn hello(generator: &mut Generator<'_>) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    if generator.chance(85) {
        words.push(generator.pick(&["2", "3", "3", "1", "4", "x", "", "3.0", "-1"]));
    }
    if generator.chance(15) {
        words.extend([generator.token("SETNAME"), generator.pick(&["a", "", "with space"])]);
    }
    if generator.chance(5) {
        words.extend([generator.token("AUTH"), b"default".to_vec(), generator.pick(&["", "pass"])]);
    }
    words
}

/// CONFIG SET of one or two parameters, with values that fit some of them.
fn config_set(generator: &mut Generator<'_>) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for _ in 0..1 + generator.below(2) {
        words.push(if generator.chance(4) {
            b"no-such-parameter".to_vec()
        } else {
            generator.pick(PARAMETERS)
        });
        let value = match generator.below(3) {
            0 => generator.pick(&["yes", "no", "1", "8", "64", "128", "-2", "1000"]),
            1 => generator
                .pick(&["everysec", "always", "notice", "warning", "KEA", "", "Kx", "64mb", "1k", "100%"]),
            _ => values::hostile(&mut generator.rng),
        };
        words.push(value);
    }
    words
}

/// Takes the sting out of a call: no expiry so near that it could come between the two servers, no draw so large that
/// it would fill the memory, no timeout that ends the connection.
pub(super) fn tame(name: &str, words: &mut [Vec<u8>]) {
    let expiring = ["expire", "pexpire", "setex", "psetex", "restore", "hexpire", "hpexpire"].contains(&name);
    for at in 1..words.len() {
        let before = words[at - 1].to_ascii_uppercase();
        let after_option = [b"EX".as_slice(), b"PX"].contains(&before.as_slice());
        if expiring || after_option {
            move_far(&mut words[at]);
        }
        if name == "msetex" && [b"EXAT".as_slice(), b"PXAT"].contains(&before.as_slice()) {
            move_past_away(&mut words[at]);
        }
        if name == "config|set" && before == b"TIMEOUT" && number(&words[at]).is_some_and(|n| n > 0) {
            words[at] = b"0".to_vec();
        }
        if name.ends_with("randmember") || name == "hrandfield" {
            let small = number(&words[at]).is_none_or(|n| n > -100);
            if !small {
                words[at] = b"-7".to_vec();
            }
        }
    }
}

/// A number that is a time between now and a few hours becomes one of months.
fn move_far(word: &mut Vec<u8>) {
    if let Some(near) = number(word).filter(|n| (1..10_000_000).contains(n)) {
        *word = (10_000_000 + near).to_string().into_bytes();
    }
}

/// A moment long past becomes one far away: MSETEX leaves a key that is there and expired, and whether RANDOMKEY or SCAN
/// meets it first is chance.
fn move_past_away(word: &mut Vec<u8>) {
    if number(word).is_some_and(|moment| (1..9_000_000_000_000).contains(&moment)) {
        *word = b"9000000000000".to_vec();
    }
}

/// The word as an integer.
fn number(word: &[u8]) -> Option<i128> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
