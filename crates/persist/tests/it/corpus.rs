//! Reads files that other servers wrote, and files of old versions that are assembled by hand, byte by byte
//! and at once.

use sluice_base::num::IntBuffer;
use sluice_persist::rdb::{
    Item, LoadError, Loaded, LoadedEntry, Problem, ReadOptions, ReadProgress, Reader, Unknown, Usage,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A field of a hash: name, value, expiry.
type Field = (Vec<u8>, Vec<u8>, Option<i64>);

/// The contents of a file.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    aux: BTreeMap<String, Vec<u8>>,
    functions: Vec<Vec<u8>>,
    strings: BTreeMap<(u64, String), Vec<u8>>,
    lists: BTreeMap<(u64, String), Vec<Vec<u8>>>,
    /// Fields sorted by name, with their values and expiries.
    hashes: BTreeMap<(u64, String), Vec<Field>>,
    /// Members, sorted.
    sets: BTreeMap<(u64, String), Vec<Vec<u8>>>,
    zsets: BTreeMap<(u64, String), Vec<(Vec<u8>, f64)>>,
    /// Number of entries, and for each group the numbers of pending entries and consumers.
    streams: BTreeMap<(u64, String), (u64, Vec<(usize, usize)>)>,
    expiries: BTreeMap<(u64, String), i64>,
    usages: Vec<Usage>,
    /// Number of skipped values of each type, by the type's name.
    skipped: BTreeMap<String, usize>,
    empty: usize,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(file: &[u8], piece: usize, unknown: Unknown) -> Result<Contents, LoadError> {
    let mut reader = Reader::new(ReadOptions { unknown, ..ReadOptions::default() });
    let mut pieces = file.chunks(piece);
    let (mut db, mut contents) = (0, Contents::default());
    loop {
        match reader.next()? {
            ReadProgress::Item(item) => match item {
                Item::Aux(name, value) => drop(contents.aux.insert(text(&name), value.into_owned())),
                Item::Db(number) => db = number,
                Item::Sizes(..) | Item::Slot(_) | Item::SlotImport { .. } | Item::ModuleRecord { .. } => {}
                Item::Function(code) => contents.functions.push(code.into_owned()),
                Item::LoadedEntry(entry) => contents.add(db, entry),
                Item::Empty { .. } => contents.empty += 1,
                Item::Skipped { kind, .. } => *contents.skipped.entry(kind.to_string()).or_default() += 1,
            },
            ReadProgress::More(offset) => match pieces.next() {
                Some(piece) => reader.feed(piece),
                None => return Err(LoadError { offset, problem: Problem::CutOff }),
            },
            ReadProgress::End => {
                assert_eq!(reader.rest(), b"");
                return Ok(contents);
            }
        }
    }
}

impl Contents {
    fn add(&mut self, db: u64, LoadedEntry { key, value, expiry_ms, usage, .. }: LoadedEntry<'_>) {
        let name = (db, text(&key));
        if let Some(at) = expiry_ms {
            self.expiries.insert(name.clone(), at);
        }
        self.usages.push(usage);
        match value {
            Loaded::Str(value) => drop(self.strings.insert(name, value.into_owned())),
            Loaded::Pages(pages) => drop(self.strings.insert(name, pages.to_vec())),
            Loaded::Stream(stream) => {
                let groups: Vec<_> =
                    stream.groups().map(|group| (group.pending_len(), group.consumers_len())).collect();
                self.streams.insert(name, (stream.log().len(), groups));
            }
            Loaded::List(list) => {
                let mut elements = Vec::new();
                let mut iter = list.view().iter(0..usize::MAX);
                while let Some(item) = iter.next() {
                    elements.push(item.bytes(&mut IntBuffer::new()).to_vec());
                }
                self.lists.insert(name, elements);
            }
            Loaded::Set(set) => {
                let mut members: Vec<Vec<u8>> =
                    set.view().iter().map(|item| item.bytes(&mut IntBuffer::new()).to_vec()).collect();
                members.sort();
                self.sets.insert(name, members);
            }
            Loaded::Hash(hash) => {
                let bytes = |item: sluice_value::ListItem<'_>| item.bytes(&mut IntBuffer::new()).to_vec();
                let view = hash.view();
                let fields = view.iter().map(|field| (bytes(field.name), bytes(field.value), field.expiry));
                let mut fields: Vec<Field> = fields.collect();
                fields.sort();
                self.hashes.insert(name, fields);
            }
            Loaded::Zset(zset) => {
                let elements = zset.view().iter_all().map(|(member, score)| (member.to_vec(), score));
                self.zsets.insert(name, elements.collect());
            }
        }
    }
}

fn corpus(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    std::fs::read(path).expect("the file is part of the repository")
}

fn both_ways(file: &[u8], unknown: Unknown) -> Contents {
    let whole = read(file, file.len(), unknown).expect("the file is well-formed");
    for piece in [1, 13, 512] {
        assert_eq!(read(file, piece, unknown).as_ref(), Ok(&whole));
    }
    whole
}

fn strings(rows: &[(u64, &str, &[u8])]) -> BTreeMap<(u64, String), Vec<u8>> {
    rows.iter().map(|(db, key, value)| ((*db, (*key).to_owned()), value.to_vec())).collect()
}

fn lists(rows: &[(u64, &str, Vec<String>)]) -> BTreeMap<(u64, String), Vec<Vec<u8>>> {
    let bytes = |list: &[String]| list.iter().map(|element| element.clone().into_bytes()).collect();
    rows.iter().map(|(db, key, list)| ((*db, (*key).to_owned()), bytes(list))).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn strings_and_lists_of_other_servers_are_read() {
    let numbers = |range: std::ops::Range<i32>| range.map(|number| number.to_string()).collect::<Vec<_>>();
    let all_bytes: Vec<u8> = (0..=255).collect();
    let wanted_strings = strings(&[
        (0, "s", b"hello"),
        (0, "i8", b"-7"),
        (0, "i16", b"-3000"),
        (0, "i32", b"1234567890"),
        (0, "i64", b"12345678901234"),
        (0, "neg64", b"-9223372036854775808"),
        (0, "empty", b""),
        (0, "bin", &all_bytes),
        (0, "lzf", &b"ab".repeat(200)),
        (0, "lz07", b"007"),
        (0, "zeros", &[0; 5000]),
        (0, "exp", b"v"),
        (0, "sr", b"\0\0\0\0\0\0\0\0\0\0x"),
        (0, "app", b"abc"),
        (3, "other", b"db"),
    ]);
    let small = ["a", "7", "-300", "", "70000", "8388607", "2147483647", "9223372036854775807"];
    let wanted_lists = lists(&[
        (0, "small", [words(&small), vec!["x".repeat(70)]].concat()),
        (0, "one", words(&["1"])),
        (0, "large", (0..1200).map(|number| format!("element:{number:04}")).collect()),
        (0, "plain", vec!["a".into(), "z".repeat(9000), "b".into()]),
        (3, "l3", numbers(0..100)),
    ]);
    for (name, version) in [("valkey-9.1.2", "9.1.2"), ("redis-8.0.6", "8.0.6"), ("redis-7.0.15", "7.0.15")] {
        let contents = both_ways(&corpus(&format!("{name}.rdb")), Unknown::Refuse);
        let field = if name.starts_with("valkey") { "valkey-ver" } else { "redis-ver" };
        assert_eq!(contents.aux.get(field).map(|text| text.as_slice()), Some(version.as_bytes()));
        assert!(contents.strings == wanted_strings, "{name}");
        assert!(contents.lists == wanted_lists, "{name}");
        let expiries =
            [((0, "exp".to_owned()), 33_177_117_420_123), ((0, "one".to_owned()), 33_177_117_420_123)];
        assert_eq!(contents.expiries, BTreeMap::from(expiries), "{name}");
    }
    for (name, is_idle) in [("lru", true), ("lfu", false)] {
        for server in ["valkey-9.1.2", "redis-8.0.6"] {
            let contents = both_ways(&corpus(&format!("{server}-{name}.rdb")), Unknown::Refuse);
            let elements = (0..300).map(|number| format!("e{number}")).collect();
            let wanted = lists(&[(0, "l", elements), (0, "three", numbers(0..20))]);
            assert_eq!(contents.strings, strings(&[(0, "lzf", &b"ab".repeat(200))]));
            assert!(contents.lists == wanted, "{server} {name}");
            assert_eq!(contents.usages.len(), 3);
            let fits = |usage: &Usage| match usage {
                Usage::Idle(seconds) => is_idle && *seconds < 100,
                Usage::Frequency(_) => !is_idle,
                Usage::Absent => false,
            };
            assert!(contents.usages.iter().all(fits), "{:?}", contents.usages);
        }
    }
}

#[test]
fn values_of_other_types_in_files_of_other_servers_are_named_or_passed_over() {
    for server in ["valkey-9.1.2", "redis-8.0.6"] {
        let file = corpus(&format!("{server}-types.rdb"));
        let contents = both_ways(&file, Unknown::Skip);
        // Redis writes a hash that has expiries of fields in a form of its own, which must be read.
        assert_eq!((contents.hashes.len(), contents.skipped.get("hash")), (4, None), "{server}");
        assert_eq!((contents.sets.len(), contents.skipped.get("set")), (3, None), "{server}");
        let streams =
            [((0, "x1".to_owned()), (1, vec![(1, 1), (0, 0)])), ((0, "x2".to_owned()), (0, Vec::new()))];
        assert_eq!(contents.streams, BTreeMap::from(streams), "{server}");
        assert_eq!(contents.strings, strings(&[(0, "s", b"v")]));
        assert_eq!(contents.lists, lists(&[(0, "last", words(&["a"]))]));
        assert_eq!(contents.zsets.len(), 2, "{:?}", contents.zsets);
        assert_eq!(contents.functions.len(), 1);
        assert!(contents.functions[0].starts_with(b"#!lua name=lib\n"));
        assert!(read(&file, 100, Unknown::Refuse).is_ok(), "{server}");
    }
}

/// A ziplist of short strings.
fn ziplist(elements: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    let (mut before, mut last) = (0, 10);
    for element in elements {
        last = 10 + body.len();
        body.extend_from_slice(&[before, element.len() as u8]);
        body.extend_from_slice(element.as_bytes());
        before = element.len() as u8 + 2;
    }
    let size = (11 + body.len()) as u32;
    let head = [size.to_le_bytes(), (last as u32).to_le_bytes()].concat();
    [&head[..], &(elements.len() as u16).to_le_bytes(), &body, b"\xff"].concat()
}

/// A file with the forms that the reference wrote in `version`, 1 to 10. Each form has its first version in
/// parentheses: lists as elements (1), as one ziplist (2), as several ziplists (7); expiries in seconds (1),
/// in ms (3); a checksum (5); auxiliary fields and the sizes of databases (7); last uses (9).
fn old_file(version: u32) -> Vec<u8> {
    let mut file = format!("REDIS{version:04}").into_bytes();
    let field = |file: &mut Vec<u8>, bytes: &[u8]| {
        file.push(bytes.len() as u8);
        file.extend_from_slice(bytes);
    };
    if version >= 7 {
        file.extend_from_slice(b"\xfa\x09redis-ver\x053.2.0");
    }
    file.extend_from_slice(b"\xfe\x05");
    if version >= 7 {
        file.extend_from_slice(b"\xfb\x05\x01");
    }
    file.extend_from_slice(b"\x00\x01i\xc1\x39\x30\x00\x01z\xc3\x09\x1e\x01bb\xe0\x11\x00\x01bb");
    if version >= 3 {
        file.push(0xfc);
        file.extend_from_slice(&33_177_117_420_123i64.to_le_bytes());
    } else {
        file.extend_from_slice(b"\xfd\xff\xff\xff\x7f");
    }
    if version >= 9 {
        file.extend_from_slice(b"\xf8\x07");
    }
    file.extend_from_slice(b"\x00\x01e\x01v\x01\x01l\x03\x01a\xc0\x07\x00");
    let packed = ziplist(&["ab", "c", ""]);
    if version >= 2 {
        file.extend_from_slice(b"\x0a\x02zl");
        field(&mut file, &packed);
    }
    if version >= 7 {
        file.extend_from_slice(b"\x0e\x02ql\x02");
        field(&mut file, &packed);
        field(&mut file, &ziplist(&["d"]));
    }
    file.push(0xff);
    if version >= 5 {
        let sum = crc::Crc::<u64>::new(&crc::CRC_64_REDIS).checksum(&file);
        file.extend_from_slice(&sum.to_le_bytes());
    }
    file
}

#[test]
fn files_of_versions_1_to_10_are_read() {
    for version in 1..=10 {
        let contents = both_ways(&old_file(version), Unknown::Refuse);
        assert_eq!(contents.strings, strings(&[(5, "i", b"12345"), (5, "z", &[b'b'; 30]), (5, "e", b"v")]));
        let mut wanted = vec![(5, "l", words(&["a", "7", ""]))];
        if version >= 2 {
            wanted.push((5, "zl", words(&["ab", "c", ""])));
        }
        if version >= 7 {
            wanted.push((5, "ql", words(&["ab", "c", "", "d"])));
        }
        assert_eq!(contents.lists, lists(&wanted), "version {version}");
        let at = if version >= 3 { 33_177_117_420_123 } else { i64::from(i32::MAX) * 1000 };
        assert_eq!(contents.expiries, BTreeMap::from([((5, "e".to_owned()), at)]));
        assert_eq!(contents.usages.contains(&Usage::Idle(7)), version >= 9);
        if version >= 5 {
            let mut wrong = old_file(version);
            wrong[14] ^= 1;
            assert!(read(&wrong, 7, Unknown::Skip).is_err());
        }
    }
}

/// Reads the assets of the reference's own test suite, in `$SLUICE_PEER_HOME/suite`. The test is skipped
/// without that variable.
#[test]
fn files_of_the_reference_s_suite_are_read_or_refused_for_a_reason() {
    let Some(home) = std::env::var_os("SLUICE_PEER_HOME") else {
        println!("skipped: SLUICE_PEER_HOME names no reference");
        return;
    };
    let assets = PathBuf::from(home).join("suite/tests/assets");
    let asset = |name: &str| std::fs::read(assets.join(name)).expect("the suite has the file");
    let number = |contents: &Contents, key: &str| contents.strings.get(&(0, key.to_owned())).cloned();
    let old = both_ways(&asset("list-quicklist.rdb"), Unknown::Refuse);
    assert_eq!(number(&old, "x"), Some(b"7".to_vec()));
    assert_eq!(old.lists.len(), 1);
    let all = both_ways(&asset("encodings.rdb"), Unknown::Skip);
    assert_eq!(number(&all, "number"), Some(b"10".to_vec()));
    assert_eq!(all.lists[&(0, "list_zipped".to_owned())].len(), 8);
    assert_eq!(all.lists[&(0, "list".to_owned())].len(), 24);
    assert_eq!(all.zsets.len(), 2);
    assert_eq!((all.hashes.len(), all.sets.len(), all.skipped.values().sum::<usize>()), (2, 4, 0));
    assert_eq!(
        number(&both_ways(&asset("encodings-rdb12.rdb"), Unknown::Refuse), "foo"),
        Some(b"bar".to_vec())
    );
    let future = asset("encodings-rdb987.rdb");
    assert_eq!(both_ways(&future, Unknown::Skip).lists, all.lists);
    let problem = |name: &str, unknown| read(&asset(name), 10, unknown).expect_err("it is refused").problem;
    assert_eq!(problem("encodings-rdb987.rdb", Unknown::Refuse), Problem::Version(987));
    assert_eq!(problem("encodings-rdb987-unknown-types.rdb", Unknown::Skip), Problem::Unknown(150));
    assert_eq!(problem("encodings-rdb75-unknown-types.rdb", Unknown::Skip), Problem::Unknown(150));
    let empty = both_ways(&asset("corrupt_empty_keys.rdb"), Unknown::Skip);
    assert!(empty.empty > 0 && empty.lists.is_empty());
}
