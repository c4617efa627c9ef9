//! Tests of sorted sets in files and payloads: every form of all versions, the bytes that the reference
//! wrote, and malformed values.

use sluice_base::Bytes;
use sluice_collections::listpack;
use sluice_persist::rdb::{
    Compression, Dumped, Item, Loaded, LoadedEntry, PayloadError, Problem, ReadOptions, Reader, Usage,
    Version, WriteOptions, Writer, dump, restore,
};
use sluice_value::{Zset, ZsetContext, ZsetEncoding, ZsetLimits};
use std::collections::BTreeMap;

type Elements = Vec<(String, f64)>;

fn elements(zset: &Zset) -> Elements {
    zset.view()
        .iter_all()
        .map(|(member, score)| (String::from_utf8_lossy(member).into_owned(), score))
        .collect()
}

fn all(file: &[u8]) -> BTreeMap<String, (ZsetEncoding, Elements)> {
    let mut reader = Reader::of(file, ReadOptions::default());
    let mut found = BTreeMap::new();
    while let Some(item) = reader.next_of_whole().expect("the file is whole") {
        if let Item::LoadedEntry(LoadedEntry { key, value: Loaded::Zset(zset), .. }) = item {
            let key = String::from_utf8_lossy(&key).into_owned();
            found.insert(key, (zset.encoding(), elements(&zset)));
        }
    }
    found
}

/// The contents that `tests/corpus/README.md` describes.
fn wanted() -> BTreeMap<String, (ZsetEncoding, Elements)> {
    let row = |elements: &[(&str, f64)]| -> Elements {
        elements.iter().map(|(member, score)| ((*member).to_owned(), *score)).collect()
    };
    let small = row(&[
        ("m", f64::NEG_INFINITY),
        ("b", -7.0),
        ("", -0.5),
        ("7", 3e-7),
        ("a", 1.0),
        ("c", 2.5),
        ("d", 100_000.0),
        ("e", 12_345_678_901.0),
        ("p", f64::INFINITY),
    ]);
    let large = (0..300).map(|number| (format!("member:{number:04}"), f64::from(number) * 1.5)).collect();
    let x = "x".repeat(70);
    BTreeMap::from([
        ("small".to_owned(), (ZsetEncoding::Listpack, small)),
        ("large".to_owned(), (ZsetEncoding::Skiplist, large)),
        ("long".to_owned(), (ZsetEncoding::Skiplist, row(&[("zero", 0.0), ("y", 0.1), (&x, 1.0)]))),
        // A set of few elements is loaded as a listpack, even if it was larger before.
        ("shrunk".to_owned(), (ZsetEncoding::Listpack, row(&[("y", 2.0)]))),
    ])
}

const FILE: &[u8] = include_bytes!("../corpus/valkey-9.1.2-zsets.rdb");

#[test]
fn what_the_reference_wrote_is_read_and_written_again() {
    let found = all(FILE);
    assert_eq!(found, wanted());
    let mut file = Vec::new();
    let mut give = |piece: Bytes| file.extend_from_slice(&piece);
    let mut writer = Writer::new(WriteOptions {
        version: Version::Valkey,
        compression: Compression::Strings,
        checksum: true,
    });
    writer.db(0, found.len(), 0);
    for (key, (encoding, elements)) in &found {
        let mut context = ZsetContext::new(ZsetLimits::default(), Default::default());
        let sorted = elements.iter().map(|(member, score)| (member.as_bytes(), *score));
        let zset = Zset::from_sorted(sorted, *encoding, &mut context);
        writer.zset(key.as_bytes(), zset.view(), None, Usage::Absent, &mut give);
    }
    let rest = writer.finish();
    file.extend_from_slice(&rest);
    assert_eq!(all(&file), found);
}

#[test]
fn payloads_are_those_of_the_reference() {
    // The payloads are those that DUMP of Valkey 9.1.2 returned for `small`, `long` and `shrunk`.
    for (key, wanted) in PAYLOADS {
        let (encoding, sorted) = &self::wanted()[*key];
        // The reference dumped this set as a skip list, because it was larger before.
        let encoding = if *key == "shrunk" { ZsetEncoding::Skiplist } else { *encoding };
        let mut context = ZsetContext::new(ZsetLimits::default(), Default::default());
        let sorted = sorted
            .iter()
            .map(|(member, score)| (member.as_bytes(), if member == "zero" { -0.0 } else { *score }));
        let zset = Zset::from_sorted(sorted, encoding, &mut context);
        let payload = dump(Dumped::Zset(zset.view()), true);
        if *key == "long" {
            // The member is compressed, and compression has more than one valid result.
            let read = |payload: &[u8]| match restore(payload, ReadOptions::default()) {
                Ok(Loaded::Zset(zset)) => self::elements(&zset),
                other => panic!("{other:?}"),
            };
            assert_eq!(read(&payload), read(wanted));
            continue;
        }
        assert!(payload == *wanted, "{key}: {}", payload.escape_ascii());
    }
}

/// The sorted set that is loaded from a value of this type, in a payload whose checksum is not compared.
fn load(kind: u8, value: &[u8]) -> Result<(ZsetEncoding, Elements), PayloadError> {
    let payload = [&[kind], value, &[80, 0], &[0; 8]].concat();
    let options = ReadOptions { checksum: false, ..ReadOptions::default() };
    match restore(&payload, options)? {
        Loaded::Zset(zset) => Ok((zset.encoding(), elements(&zset))),
        other => panic!("{other:?}"),
    }
}

fn is_refused(kind: u8, value: &[u8]) {
    match load(kind, value) {
        Err(PayloadError::Bad(error)) => {
            // A member that occurs twice is only found when the set is complete, even if the set comes from a
            // ziplist.
            let is_meant =
                error.problem == Problem::Zset || kind == 12 && error.problem == Problem::ZsetZiplist;
            assert!(is_meant, "{:?}: {}", error.problem, value.escape_ascii());
        }
        other => panic!("{other:?}: {}", value.escape_ascii()),
    }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 16_384);
    [&(0x4000 | bytes.len() as u16).to_be_bytes(), bytes].concat()
}

fn packed(elements: &[&str]) -> Vec<u8> {
    let mut listpack = listpack::new();
    for element in elements {
        assert!(listpack::push_back(&mut listpack, element.as_bytes()));
    }
    text(&listpack)
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
    text(&[&head[..], &(elements.len() as u16).to_le_bytes(), &body, b"\xff"].concat())
}

#[test]
fn every_form_is_read_and_put_in_order() {
    let wanted = vec![("a".to_owned(), -1.5), ("b".to_owned(), 2.0), ("c".to_owned(), 2.0)];
    let texts = b"\x03\x01c\x012\x01a\x04-1.5\x01b\x012";
    assert_eq!(load(3, texts), Ok((ZsetEncoding::Listpack, wanted.clone())));
    let infinite = vec![("m".to_owned(), f64::NEG_INFINITY), ("p".to_owned(), f64::INFINITY)];
    assert_eq!(load(3, b"\x02\x01p\xfe\x01m\xff"), Ok((ZsetEncoding::Listpack, infinite)));
    let doubles = [(b'c', 2.0f64), (b'b', 2.0), (b'a', -1.5)];
    let doubles =
        doubles.iter().flat_map(|(member, score)| [&[1, *member], &score.to_le_bytes()[..]].concat());
    let doubles: Vec<u8> = std::iter::once(3).chain(doubles).collect();
    assert_eq!(load(5, &doubles), Ok((ZsetEncoding::Listpack, wanted.clone())));
    let row = ["a", "-1.5", "b", "2", "c", "2"];
    assert_eq!(load(12, &ziplist(&row)), Ok((ZsetEncoding::Listpack, wanted.clone())));
    assert_eq!(load(17, &packed(&row)), Ok((ZsetEncoding::Listpack, wanted.clone())));
    // Elements that are out of order are sorted, because commands could not work on them as they are.
    assert_eq!(load(17, &packed(&["c", "2", "b", "2", "a", "-1.5"])), Ok((ZsetEncoding::Listpack, wanted)));
}

/// A score as text is a decimal number in a double's range, `inf` or `infinity`. A text with other bytes
/// before or after the number is refused.
#[test]
fn the_text_of_a_score_is_a_decimal_number_or_refused() {
    let taken = [
        ("0", 0.0),
        ("-0", -0.0),
        ("007", 7.0),
        ("+1", 1.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1E5", 1e5),
        ("1e-05", 1e-5),
        ("4.9406564584124654e-324", 5e-324),
        ("1.7976931348623157e+308", f64::MAX),
        ("9007199254740993", 9_007_199_254_740_992.0),
        ("18446744073709551616", 18_446_744_073_709_551_616.0),
        ("inf", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
    ];
    let old = |score: &str| [b"\x01\x01m", &[score.len() as u8][..], score.as_bytes()].concat();
    let bits = |found: Result<(ZsetEncoding, Elements), PayloadError>| match found {
        Ok((_, elements)) => elements.into_iter().map(|(_, score)| score.to_bits()).collect(),
        Err(error) => panic!("{error:?}"),
    };
    for (score, wanted) in taken {
        let (packed, wanted) = (["m", score], vec![f64::to_bits(wanted)]);
        let found: [Vec<u64>; 2] = [load(12, &ziplist(&packed)), load(17, &self::packed(&packed))].map(bits);
        assert_eq!(found, [wanted.clone(), wanted.clone()], "{score}");
        // The format of Redis before version 4 cannot express a negative zero.
        let found: Vec<f64> = bits(load(3, &old(score))).into_iter().map(f64::from_bits).collect();
        assert_eq!(found, [f64::from_bits(wanted[0])], "{score}");
    }
    let refused = [
        "", " ", "0x10", "0x1p3", " 1", "\t1", "1 ", "1\n", "1\0", "\x001", "1e400", "-1e400", "1e-400",
        "1.8e308", "nan", "-nan", "NaN", "infi", "1e", "1e+", ".", "-", "+-1", "--1", "1_0", "1,5", "1.2.3",
        "1abc", "abc",
    ];
    for score in refused {
        is_refused(3, &old(score));
        is_refused(12, &ziplist(&["m", score]));
        is_refused(17, &packed(&["m", score]));
        is_refused(17, &packed(&["a", "1", "m", score]));
    }
    is_refused(3, b"\x01\x01m\xfd");
    for nan in [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)] {
        is_refused(5, &[b"\x01\x01m", &nan.to_le_bytes()[..]].concat());
    }
}

#[test]
fn the_number_of_elements_decides_what_a_listpack_becomes() {
    let names: Vec<String> =
        (0..129).flat_map(|number| [format!("m{number:03}"), number.to_string()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(load(17, &packed(&names[..256])).map(|found| found.0), Ok(ZsetEncoding::Listpack));
    assert_eq!(load(17, &packed(&names)).map(|found| found.0), Ok(ZsetEncoding::Skiplist));
    let long = "x".repeat(65);
    assert_eq!(load(17, &packed(&[&long, "1"])).map(|found| found.0), Ok(ZsetEncoding::Listpack));
    let texts = [&[1], &text(long.as_bytes())[..], b"\x011"].concat();
    assert_eq!(load(3, &texts).map(|found| found.0), Ok(ZsetEncoding::Skiplist));
}

#[test]
fn what_no_set_can_be_is_refused() {
    let nan = [&b"\x01\x01a"[..], &f64::NAN.to_le_bytes()].concat();
    is_refused(5, &nan);
    is_refused(3, b"\x01\x01a\xfd");
    is_refused(3, b"\x01\x01a\x03nan");
    is_refused(3, b"\x01\x01a\x02xy");
    is_refused(3, b"\x01\x01a\x00");
    is_refused(3, b"\x02\x01a\x011\x01a\x012");
    is_refused(17, &packed(&["a", "1", "b"]));
    is_refused(17, &packed(&["a", "x"]));
    is_refused(17, &packed(&["a", "nan"]));
    is_refused(17, &packed(&["a", "1", "b", "1", "a", "2"]));
    is_refused(17, &text(b"no listpack"));
    is_refused(12, &text(b"no ziplist"));
    is_refused(12, &ziplist(&["a"]));
    is_refused(12, &ziplist(&["1", "1", "1", "2"]));
    // One of many members occurs twice.
    let mut doubles = vec![0x80];
    doubles.extend_from_slice(&2001u32.to_be_bytes());
    for number in (0..2000).chain([1000]) {
        doubles.extend_from_slice(&text(format!("member:{number}").as_bytes()));
        doubles.extend_from_slice(&f64::from(doubles.len() as u32).to_le_bytes());
    }
    is_refused(5, &doubles);
}

#[test]
fn announced_lengths_cost_nothing() {
    for kind in [3, 5] {
        // 2^60 elements are announced, and one is there.
        let value = [&b"\x81\x10\0\0\0\0\0\0\0\x01a"[..], b"\x011"].concat();
        assert!(matches!(load(kind, &value), Err(PayloadError::Bad(_))));
    }
}

/// The payloads that DUMP of Valkey 9.1.2 returned with `rdbcompression yes`.
const PAYLOADS: &[(&str, &[u8])] = &[
    ("small", b"\x11@PP\x00\x00\x00\x12\x00\x81m\x02\x84-inf\x05\x81b\x02\xdf\xf9\x02\x80\x01\x84-0.5\x05\x07\x01\x843e-7\x05\x81a\x02\x01\x01\x81c\x02\x832.5\x04\x81d\x02\xf2\xa0\x86\x01\x04\x81e\x02\xf45\x1c\xdc\xdf\x02\x00\x00\x00\x09\x81p\x02\x83inf\x04\xffP\x00\x0c\xd5U}\x12\x89\xbf\xb2"),
    ("long", b"\x05\x03\xc3\x09@F\x01xx\xe09\x00\x01xx\x00\x00\x00\x00\x00\x00\xf0?\x01y\x9a\x99\x99\x99\x99\x99\xb9?\x04zero\x00\x00\x00\x00\x00\x00\x00\x80P\x00>}\x0e\xa9kQU\xef"),
    ("shrunk", b"\x05\x01\x01y\x00\x00\x00\x00\x00\x00\x00@P\x005!\xc0\xe6x\xce\xdc\xa1"),
];
