//! Hostile arguments: every command on data, in every form that its declaration documents, on keys of
//! every type, with numbers at the edges of their types, infinities, NaN, empty and long texts at each
//! index. No call may end the process, and each gets a reply.

use sluice_base::SessionKey;
use sluice_command::{Arg, ArgKind, Flags, Spec, table};
use sluice_testkit::Rig;

type Words = Vec<Vec<u8>>;

/// Values that are tried at each index of a call.
const HOSTILE: &[&str] = &[
    "",
    "0",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "4294967295",
    "-4294967297",
    "4611686018427387904",
    "1e400",
    "-1e400",
    "1.7976931348623157e308",
    "5e-324",
    "nan",
    "inf",
    "-inf",
    "0x7fffffffffffffff",
    "1e18",
    " 1",
    "+1",
    "18446744073709551615-18446744073709551615",
    "0-0",
    "-",
    "+",
    "$",
    ">",
    "*",
    "(",
    "[",
    "u64",
    "i64",
    "#9223372036854775807",
];

/// A key of each type, small and large, and one that is absent.
const KEYS: &[&str] = &[
    "str", "int", "long", "list", "biglist", "hash", "bighash", "set", "ints", "bigset", "zset", "bigzset",
    "stream", "hll", "bits", "geo", "none",
];

fn fill(rig: &mut Rig) {
    let number = |at: usize| at.to_string();
    let many = |from: usize| (from..from + 300).map(number).collect::<Vec<_>>().join(" ");
    let pairs = (0..300).map(|at| format!("{at} m{at}")).collect::<Vec<_>>().join(" ");
    let long = "x".repeat(70_000);
    for line in [
        "FLUSHALL".to_owned(),
        "SET str value".to_owned(),
        "SET int 9223372036854775807".to_owned(),
        format!("SET long {long}"),
        "RPUSH list a b 3 9223372036854775807".to_owned(),
        format!("RPUSH biglist {} {}", many(0), &long[..9000]),
        "HSET hash f v g 9223372036854775807 h 1.5".to_owned(),
        format!("HSET bighash {pairs}"),
        "HEXPIRE bighash 1000 FIELDS 1 7".to_owned(),
        "SADD set a b c".to_owned(),
        "SADD ints 1 2 -9223372036854775808".to_owned(),
        format!("SADD bigset x {}", many(0)),
        "ZADD zset 1 a -inf b inf c 1.7976931348623157e308 d".to_owned(),
        format!("ZADD bigzset {pairs}"),
        "XADD stream 1-1 f v".to_owned(),
        "XADD stream 18446744073709551614-18446744073709551615 f v".to_owned(),
        "XGROUP CREATE stream g 0".to_owned(),
        "XREADGROUP GROUP g c COUNT 1 STREAMS stream >".to_owned(),
        "PFADD hll a b c".to_owned(),
        "SETBIT bits 70000 1".to_owned(),
        "GEOADD geo 13.361389 38.115556 a 179.9 85 b".to_owned(),
    ] {
        let reply = rig.run(&line);
        assert!(!reply.starts_with('-'), "{}: {reply}", &line[..line.len().min(40)]);
    }
}

/// The commands on data. A command that blocks is never answered, because the clock does not move here; the
/// next call is another client's.
fn commands() -> impl Iterator<Item = &'static Spec> {
    let is_on_data =
        |spec: &&&Spec| spec.flags.has_any(Flags::WRITE.or(Flags::READONLY)) && spec.subcommands.is_empty();
    // MIGRATE connects to another server.
    table::ALL.iter().filter(is_on_data).copied().filter(|spec| spec.full_name != "migrate")
}

/// The words of a call: all required ones, and the `chosen`-th of those that are optional or alternatives.
struct Form<'k> {
    words: Words,
    key: &'k str,
    chosen: usize,
    met: usize,
}

impl Form<'_> {
    fn sequence(&mut self, args: &[Arg]) {
        for arg in args {
            let is_wanted = !arg.optional || {
                self.met += 1;
                self.met == self.chosen
            };
            if is_wanted {
                self.argument(arg);
            }
        }
    }

    fn argument(&mut self, arg: &Arg) {
        if !arg.token.is_empty() {
            self.words.push(arg.token.as_bytes().to_vec());
        }
        let name = arg.name;
        let text = match arg.kind {
            ArgKind::PureToken => return,
            ArgKind::Block(parts) => return self.sequence(parts),
            ArgKind::OneOf(parts) => {
                let before = self.met;
                self.met += parts.len();
                let at = self.chosen.checked_sub(before + 1).filter(|at| *at < parts.len());
                return self.argument(&parts[at.unwrap_or(0)]);
            }
            ArgKind::Key => self.key,
            ArgKind::Integer | ArgKind::Double | ArgKind::UnixTime => "1",
            ArgKind::String if matches!(name, "min" | "start" | "lower") => "0",
            ArgKind::String if name == "encoding" => "u8",
            ArgKind::String if name == "group" => "g",
            ArgKind::String | ArgKind::Pattern => "a",
        };
        self.words.push(text.as_bytes().to_vec());
    }
}

/// The different calls of a command with a key: one without options, and one for each option and alternative,
/// as far as `FORMS_MAX` permits.
fn forms(spec: &Spec, key: &str) -> Vec<Words> {
    let name = spec.full_name.split('|').map(|word| word.as_bytes().to_vec());
    let words: Words = name.collect();
    let mut all: Vec<Words> = Vec::new();
    for chosen in 0..FORMS_MAX {
        let mut form = Form { words: words.clone(), key, chosen, met: 0 };
        form.sequence(spec.args);
        let is_last = chosen > form.met;
        if !all.contains(&form.words) {
            all.push(form.words);
        }
        if is_last {
            break;
        }
    }
    all
}

/// Whether the call may have a reply as long as the client asks for, or takes as long as its arguments make
/// it: both are allowed.
fn takes_long(words: &[Vec<u8>]) -> bool {
    let name = words[0].to_ascii_lowercase();
    if name == b"lcs" {
        return words.iter().any(|word| word == b"long" || word == b"bits");
    }
    let draws = name.ends_with(b"randmember") || name == b"hrandfield";
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
    draws && words.iter().skip(2).filter_map(number).any(|count| count < -1_000_000)
}

struct Calls {
    rig: Rig,
    client: SessionKey,
    made: u64,
    refused: u64,
}

impl Calls {
    fn make(&mut self, spec: &Spec, words: &[Vec<u8>]) {
        if takes_long(words) {
            return;
        }
        let argv: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = self.rig.argv(self.client, &argv);
        self.made += 1;
        self.refused += u64::from(reply.starts_with(b"-"));
        if reply.is_empty() {
            let line = argv.join(&b' ');
            assert!(spec.flags.has(Flags::BLOCKING), "no answer to {}", line.escape_ascii());
            self.client = self.rig.connect();
        }
        if self.made.is_multiple_of(40) {
            fill(&mut self.rig);
        }
    }
}

#[test]
fn no_argument_ends_the_process_and_each_call_is_answered() {
    // Large offsets are refused, as with this setting in production.
    let mut rig = Rig::with(&[("proto-max-bulk-len", "1mb")]);
    fill(&mut rig);
    let client = rig.client;
    let mut calls = Calls { rig, client, made: 0, refused: 0 };
    let mut turn = 0;
    for spec in commands() {
        for key in KEYS {
            for words in forms(spec, key) {
                calls.make(spec, &words);
            }
        }
        for form in forms(spec, "?") {
            let name_words = spec.full_name.split('|').count();
            for at in name_words..form.len() {
                for hostile in HOSTILE {
                    turn += 1;
                    let key = KEYS[turn % KEYS.len()].as_bytes();
                    let mut words: Words = form
                        .iter()
                        .map(|word| if word == b"?" { key.to_vec() } else { word.clone() })
                        .collect();
                    words[at] = hostile.as_bytes().to_vec();
                    calls.make(spec, &words);
                }
            }
        }
        calls.rig.engine.keyspace().db(0).check();
    }
    // The test would prove nothing if all calls were refused, or there were none.
    assert!(calls.made > 50_000, "{}", calls.made);
    assert!(calls.refused * 100 / calls.made < 90, "{} of {}", calls.refused, calls.made);
}

/// The beginnings of commands, and the beginning of the reply to each if a million arguments are appended to
/// it: every number from 0 to 499,999, twice in a row.
type Rows = [(&'static [&'static str], &'static [u8])];

fn check_with_a_million_arguments(rows: &Rows) {
    let mut rig = Rig::new();
    let client = rig.client;
    let number = |at: usize| (at / 2).to_string().into_bytes();
    let words: Words = (0..1_000_000).map(number).collect();
    for (head, wanted) in rows {
        let argv: Vec<&[u8]> =
            head.iter().map(|word| word.as_bytes()).chain(words.iter().map(Vec::as_slice)).collect();
        let reply = rig.argv(client, &argv);
        let shown = &reply[..reply.len().min(60)];
        assert_eq!(shown, *wanted, "{head:?}: {}", shown.escape_ascii());
        rig.end_iteration();
    }
    rig.engine.keyspace().db(0).check();
}

#[test]
fn a_million_arguments_are_taken_by_lists_and_streams() {
    check_with_a_million_arguments(&[
        (&["RPUSH", "list"], b":1000000\r\n"),
        (&["XADD", "stream", "1-1"], b"$3\r\n1-1\r\n"),
    ]);
}

#[test]
fn a_million_arguments_are_taken_by_sets() {
    check_with_a_million_arguments(&[
        (&["SADD", "set"], b":500000\r\n"),
        (&["SREM", "set"], b":500000\r\n"),
        (&["SUNIONSTORE", "d"], b":0\r\n"),
    ]);
}

#[test]
fn a_million_arguments_are_taken_by_hashes() {
    check_with_a_million_arguments(&[
        (&["HSET", "hash"], b":500000\r\n"),
        (&["HDEL", "hash"], b":500000\r\n"),
    ]);
}

#[test]
fn a_million_arguments_are_taken_by_sorted_sets() {
    check_with_a_million_arguments(&[
        (&["ZADD", "zset"], b":500000\r\n"),
        (&["ZREM", "zset"], b":500000\r\n"),
    ]);
}

#[test]
fn a_million_arguments_are_taken_by_keys() {
    check_with_a_million_arguments(&[
        (&["MSET"], b"+OK\r\n"),
        (&["EXISTS"], b":1000000\r\n"),
        (&["DEL"], b":500000\r\n"),
    ]);
}

#[test]
fn a_million_arguments_are_taken_by_bitmaps_and_hyperloglogs() {
    check_with_a_million_arguments(&[
        (&["PFADD", "hll"], b":1\r\n"),
        (&["PFMERGE", "hll"], b"+OK\r\n"),
        (&["BITOP", "OR", "d"], b":0\r\n"),
    ]);
}

/// The largest number of calls that `forms` makes of one command.
const FORMS_MAX: usize = 60;
