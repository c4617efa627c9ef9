use super::*;
use crate::spec::{Arity, Cat, Group, SpecId};
use crate::specs::{connection, generic, list, server, string};

fn split(line: &str) -> Vec<&[u8]> {
    line.split_ascii_whitespace().map(str::as_bytes).collect()
}

/// Checks `position:flags` of each key, or the error, against the reference's reply for the same line.
fn check(line: &str, expected: &str) {
    let args = split(line);
    let top = crate::lookup(args[0]).expect("declared");
    let spec = args.get(1).and_then(|name| crate::lookup_sub(top, name)).unwrap_or(top);
    let answer = match getkeys(spec, &args) {
        Err(error) => error.wire().to_owned(),
        Ok(found) => {
            let key = |(at, flags): &(usize, KeyFlags)| {
                format!("{at}:{}", flags.names().collect::<Vec<_>>().join("+"))
            };
            found.iter().map(key).collect::<Vec<_>>().join(" ")
        }
    };
    assert_eq!(answer, expected, "{line}");
}

#[test]
fn keys_are_those_of_the_reference() {
    check("get k", "1:RO+access");
    check("lcs a b", "1:RO+access 2:RO+access");
    check("copy a b", "1:RO+access 2:OW+update");
    check("del a b c", "1:RM+delete 2:RM+delete 3:RM+delete");
    check("getex k ex 10", "1:RW+access+update");
    check("object encoding k", "2:RO");
    check("memory usage k", "2:RO");
    check("mset a 1 b 2", "1:OW+update 3:OW+update");
}

#[test]
fn keys_of_an_uneven_mset_go_as_far_as_they_can() {
    check("mset a b c", "1:OW+update 3:OW+update");
}

#[test]
fn a_count_of_keys_has_to_fit_the_arguments() {
    check("msetex 2 a 1 b 2", "2:OW+update 4:OW+update");
    check("msetex 1 a 1 ex 5", "2:OW+update");
    for count in [
        "2",
        "0",
        "-1",
        "+1",
        "01",
        "x",
        "99999999999999999999",
        "9223372036854775807",
        "18446744073709551615",
    ] {
        check(&format!("msetex {count} a 1"), "Invalid arguments specified for command");
    }
}

#[test]
fn set_reads_only_with_get() {
    check("set k v", "1:OW+update");
    check("set k v ifeq x", "1:OW+update");
    check("set k v ex 10 GET", "1:RW+access+update");
    check("set k v get\0x", "1:RW+access+update");
}

#[test]
fn set_takes_get_for_the_option_even_where_it_is_an_operand() {
    check("set k v ifeq get", "1:RW+access+update");
}

#[test]
fn calls_without_keys_are_refused() {
    for line in ["ping", "config get x", "object", "client list", "debug object k", "scan 0", "psync a b"] {
        check(line, "The command has no key arguments");
    }
    for line in ["get", "touch", "set k"] {
        check(line, "Invalid number of arguments specified for command");
    }
}

#[test]
fn an_invalid_call_adds_nothing() {
    let mut found = vec![(7, KeyFlags::RO)];
    assert_eq!(keys(&string::MSETEX, &split("msetex 3 a 1 b 2"), &mut found), Err(Invalid));
    assert_eq!(keys(&string::SET, &split("set k"), &mut found), Err(Invalid));
    assert_eq!(found, [(7, KeyFlags::RO)]);
}

#[test]
fn regress_a_number_of_keys_is_read_as_the_reference_reads_it() {
    let count = |text: &str| {
        let mut found = Vec::new();
        let args: Vec<&[u8]> = [&b"lmpop"[..], text.as_bytes(), b"a", b"b", b"left"].to_vec();
        keys(&list::LMPOP, &args, &mut found).map(|()| found.len())
    };
    for (text, wanted) in [("1e18", 1), ("2x", 2), (" 2", 2), ("+1", 1), ("02", 2), ("4294967298", 2)] {
        assert_eq!(count(text), Ok(wanted), "{text}");
    }
    for text in ["x", "", "0", "-1", "4294967296", "9223372036854775807", "99999999999999999999", "4"] {
        assert_eq!(count(text), Err(Invalid), "{text}");
    }
    for line in ["migrate h 1 k 0 1 keys", "migrate h 1 k 0 1 copy keys"] {
        let mut found = Vec::new();
        assert_eq!(keys(&generic::MIGRATE, &split(line), &mut found), Ok(()));
        assert_eq!(found.first().map(|key| key.0), Some(3), "{line}");
    }
}

#[test]
fn rows_agree_with_all_keys() {
    for spec in crate::table::ALL {
        for count in 0..8 {
            let args = vec![&b"2"[..]; count];
            let mut found = Vec::new();
            if spec.arity.accepts(count) && keys(spec, &args, &mut found).is_ok() {
                let first = found.first().map(|key| key.0);
                let row = key_row(spec);
                let fast = row.first(count);
                assert!(fast == first || fast.is_none() && movable(spec), "{} {count}", spec.full_name);
                if let Some(first) = fast {
                    let step = if row.are_pairs() { 2 } else { 1 };
                    let indexes = (0..=row.behind_first(count)).map(|n| first + n * step);
                    assert!(indexes.eq(found.iter().take(row.behind_first(count) + 1).map(|key| key.0)));
                }
            }
        }
    }
}

/// In a cluster, keys that a command's `KeyRow` does not cover are searched again; for SET, this would cost
/// hundreds of instructions.
#[test]
fn a_row_is_whole_where_a_function_changes_nothing_but_flags() {
    let functions =
        crate::table::ALL.into_iter().filter(|spec| matches!(spec.keys, Keys::Fn(..)) && is_row_whole(spec));
    let names: Vec<_> = functions.map(|spec| spec.full_name).collect();
    assert_eq!(names, ["set", "bitfield"]);
    for line in
        ["set k v", "set k v get", "set k v nx get ex 1", "bitfield k", "bitfield k get u8 0 set u8 0 1"]
    {
        let (args, mut found) = (split(line), Vec::new());
        let spec = crate::lookup(args[0]).expect("declared");
        routing_keys(spec, &args, &mut found);
        assert_eq!(found.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1], "{line}");
        let row = key_row(spec);
        assert_eq!((row.first(args.len()), row.behind_first(args.len())), (Some(1), 0), "{line}");
    }
}

#[test]
fn rows_are_within_the_arguments() {
    let del = key_row(&generic::DEL);
    assert_eq!([1, 2, 3].map(|count| del.first(count)), [None, Some(1), Some(1)]);
    assert_eq!([2, 3, 5].map(|count| del.behind_first(count)), [0, 1, 3]);
    let mset = key_row(&string::MSET);
    assert_eq!([3, 4, 5].map(|count| mset.behind_first(count)), [0, 1, 1]);
    assert!(mset.are_pairs() && !del.are_pairs());
    assert_eq!([2, 3].map(|count| key_row(&server::MEMORY_USAGE).first(count)), [None, Some(2)]);
    assert_eq!(key_row(&connection::PING).first(2), None);
}

#[test]
fn the_movablekeys_flag_says_what_the_key_specs_do() {
    for spec in crate::table::ALL {
        assert_eq!(spec.flags.has(crate::Flags::MOVABLE_KEYS), movable(spec), "{}", spec.full_name);
    }
}

/// An invented command, to test key specs that no command of the table uses.
fn with_keys(specs: &'static [KeySpec]) -> Spec {
    Spec {
        full_name: "x",
        subcommands: &[],
        group: Group::Generic,
        since: "",
        arity: Arity::AtLeast(1),
        flags: crate::Flags::NONE,
        acl: Cat::NONE,
        keys: Keys::Specs(specs),
        args: &[],
        tips: &[],
        history: &[],
        summary: "",
        complexity: "",
        deprecated: None,
        id: SpecId(0),
    }
}

fn positions(specs: &'static [KeySpec], line: &str) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    keys(&with_keys(specs), &split(line), &mut found).ok()?;
    Some(found.into_iter().map(|key| key.0).collect())
}

const fn after(word: &'static str, from: i8, last: i8, limit: u8) -> KeySpec {
    let find = Find::Range { last, step: 1, limit };
    KeySpec { begin: Begin::Keyword { word, from }, find, flags: KeyFlags::RO, notes: "" }
}

#[test]
fn a_keyword_is_searched_forwards() {
    static STREAMS: [KeySpec; 1] = [after("STREAMS", 1, -1, 2)];
    assert_eq!(positions(&STREAMS, "xread count 2 Streams a b 0 0"), Some(vec![4, 5]));
    assert_eq!(positions(&STREAMS, "xread streams a 0"), Some(vec![2]));
    assert_eq!(positions(&STREAMS, "xread count 2"), Some(vec![]));
    assert_eq!(positions(&STREAMS, "xread streams"), Some(vec![]));
    assert_eq!(positions(&STREAMS, "xread streams a"), None);
    static STORE: [KeySpec; 1] = [after("STORE", 5, 0, 0)];
    assert_eq!(positions(&STORE, "x store b c d e store k"), Some(vec![7]));
    assert_eq!(positions(&STORE, "x"), Some(vec![]));
}

#[test]
fn a_keyword_is_searched_backwards() {
    static KEYS: [KeySpec; 1] = [after("KEYS", -2, -1, 0)];
    assert_eq!(positions(&KEYS, "migrate h p keys 0 keys a b"), Some(vec![6, 7]));
    assert_eq!(positions(&KEYS, "keys keys a"), Some(vec![]));
    assert_eq!(positions(&KEYS, "x keys"), Some(vec![]));
    assert_eq!(positions(&KEYS, "x"), Some(vec![]));
}

#[test]
fn names_that_are_no_keys_are_left_out() {
    static CHANNEL: [KeySpec; 1] = [KeySpec {
        begin: Begin::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        flags: KeyFlags::NOT_KEY,
        notes: "",
    }];
    assert_eq!(positions(&CHANNEL, "spublish c m"), Some(vec![]));
    assert_eq!(KeyRow::of(&with_keys(&CHANNEL)).first(3), None);
    assert!(!has_keys(&with_keys(&CHANNEL)));
}

/// [`keys_that_fit`] reports no key of a call whose number of keys does not fit. Therefore only commands
/// that refuse such a call may have keys besides the counted ones.
#[test]
fn keys_beside_counted_ones_are_those_of_commands_that_refuse_0() {
    let is_counted = |spec: &KeySpec| matches!(spec.find, Find::KeyNum { .. });
    let with_others: Vec<&str> = crate::table::ALL
        .iter()
        .filter(|spec| spec.keys.specs().iter().any(is_counted) && spec.keys.specs().len() > 1)
        .map(|spec| spec.full_name)
        .collect();
    assert_eq!(with_others, ["zdiffstore", "zinterstore", "zunionstore"]);
}

#[test]
fn no_arguments_make_keys_panic_or_leave_the_arguments() {
    let words: [&[u8]; 9] =
        [b"", b"0", b"1", b"2", b"-1", b"9223372036854775807", b"18446744073709551615", b"get", b"k"];
    static ODD: [KeySpec; 4] = [
        after("get", -3, -2, 0),
        after("get", 3, -2, 3),
        KeySpec {
            begin: Begin::Index(255),
            find: Find::Range { last: -128, step: 0, limit: 255 },
            flags: KeyFlags::RO,
            notes: "",
        },
        KeySpec {
            begin: Begin::Index(1),
            find: Find::KeyNum { num_index: 1, first: 255, step: 255 },
            flags: KeyFlags::RO,
            notes: "",
        },
    ];
    let odd = with_keys(&ODD);
    let each: Vec<Spec> = ODD.chunks(1).map(with_keys).collect();
    let mut rng = sluice_base::Rng::new(7);
    for spec in crate::table::ALL.into_iter().chain(&each).chain([&odd]) {
        for _ in 0..300 {
            let count = rng.below(9) as usize;
            let args: Vec<&[u8]> =
                (0..count).map(|_| words[rng.below(words.len() as u64) as usize]).collect();
            let mut found = Vec::new();
            let valid = keys(spec, &args, &mut found);
            assert!(found.iter().all(|key| key.0 < args.len()));
            assert!(valid.is_ok() || found.is_empty());
        }
    }
}
