//! Tests of payloads that are dumped and restored, and of payloads that are refused.

use super::*;
use sluice_base::Rng;

/// A payload of this body and version with a valid checksum.
fn sealed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = [body, &version.to_le_bytes()].concat();
    let sum = sum(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

fn text(payload: &[u8]) -> Result<Vec<u8>, PayloadError> {
    match restore(payload, ReadOptions::default())? {
        Loaded::Str(text) => Ok(text.into_owned()),
        other => panic!("{other:?}"),
    }
}

/// The expected bytes are those that Valkey 9.1.2 dumps for the string `hello`.
#[test]
fn a_payload_has_the_reference_s_bytes() {
    let payload = dump(Dumped::Str(Text::Bytes(b"hello")), true);
    assert_eq!(payload, b"\x00\x05helloP\x00\xacX\x16\xe7\xfbfG\xfe");
    assert_eq!(text(&payload), Ok(b"hello".to_vec()));
}

#[test]
fn what_is_dumped_is_restored() {
    let mut rng = Rng::new(4);
    for len in [0, 1, 20, 21, 300, 70_000, 1_200_000] {
        for letters in [3, 256] {
            let value: Vec<u8> = (0..len).map(|_| rng.below(letters) as u8).collect();
            let pages = Pages::copy_from(&value);
            for compression in [true, false] {
                let payloads = [Dumped::Str(Text::Bytes(&value)), Dumped::Pages(&pages)]
                    .map(|dumped| dump(dumped, compression));
                for payload in payloads {
                    let restored = match restore(&payload, ReadOptions::default()) {
                        Ok(Loaded::Str(text)) => text.into_owned(),
                        Ok(Loaded::Pages(pages)) => pages.to_vec(),
                        other => panic!("{other:?}"),
                    };
                    assert!(restored == value);
                }
            }
        }
    }
}

/// The results are those of Valkey 9.1.2, except that version 81 is accepted here.
#[test]
fn versions_and_checksums() {
    let body = b"\x00\x03abc";
    for version in [1, 2, 9, 10, 11, 80, 81] {
        assert_eq!(text(&sealed(body, version)), Ok(b"abc".to_vec()));
    }
    for version in [0, 12, 13, 79, 82, 222, u16::MAX] {
        assert_eq!(text(&sealed(body, version)), Err(PayloadError::Footer));
        let relaxed = ReadOptions { unknown: Unknown::Skip, ..ReadOptions::default() };
        assert_eq!(restore(&sealed(body, version), relaxed).is_ok(), version != 0, "{version}");
    }
    let mut zero = sealed(body, 80);
    let len = zero.len();
    zero[len - 8..].fill(0);
    assert_eq!(text(&zero), Err(PayloadError::Footer));
    assert!(restore(&zero, ReadOptions { checksum: false, ..ReadOptions::default() }).is_ok());
    for short in 0..10 {
        assert_eq!(text(&vec![7; short]), Err(PayloadError::Footer));
    }
}

/// As in Valkey 9.1.2, bytes after the value are ignored, and a value may reach into the footer.
#[test]
fn values_may_be_shorter_than_the_payload_or_reach_into_the_footer() {
    assert_eq!(text(&sealed(b"\x00\x03abcdefg", 80)), Ok(b"abc".to_vec()));
    assert_eq!(text(&sealed(b"\x00\x0dabc", 80)).map(|text| text.len()), Ok(13));
    assert!(matches!(text(&sealed(b"\x00\x0eabc", 80)), Err(PayloadError::Bad(_))));
    assert_eq!(text(&sealed(b"\x00\xc3\x01\x00\x00", 80)), Ok(Vec::new()));
}

#[test]
fn what_is_malformed_or_not_there_is_told_apart() {
    let error = |body: &[u8], version| {
        let relaxed = ReadOptions { unknown: Unknown::Skip, ..ReadOptions::default() };
        restore(&sealed(body, version), relaxed).map(|_| ()).expect_err("it is refused")
    };
    let bad = |offset, problem| PayloadError::Bad(LoadError { offset, problem });
    assert!(matches!(error(b"\x04\x09\x01a", 80), PayloadError::Bad(_)));
    assert_eq!(error(b"\x07\x01\x00", 80), bad(0, Problem::Unknown(7)));
    assert_eq!(error(b"\xfa\x01\x00", 80), bad(0, Problem::Unknown(0xfa)));
    assert_eq!(error(b"\x01\x00", 80), bad(0, Problem::Length));
    assert_eq!(error(b"\x16\x00", 12), PayloadError::Foreign(22));
    assert_eq!(error(b"\x16\x00", 80), bad(0, Problem::Length));
    assert_eq!(error(b"\x12\x01\x03\x01a", 80), bad(2, Problem::List));
}

#[test]
fn noise_neither_panics_nor_grows() {
    let mut rng = Rng::new(78);
    let list = b"\x12\x02\x02\x0d\x0d\0\0\0\x02\0\x81a\x02\x81b\x02\xff\x01\x05hello\x50\0\0\0\0\0\0\0\0\0";
    for _ in 0..5000 {
        let mut noise = list.to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(noise.len() as u64) as usize;
            noise[at] = rng.next_u64() as u8;
        }
        fuzz_payload(&noise);
    }
    fuzz_payload(list);
}

#[test]
fn libraries_are_dumped_and_restored() {
    let libraries: [&[u8]; 3] = [b"#!lua name=a\n", &[b'x'; 20_000], b"7"];
    for compression in [false, true] {
        let payload = dump_functions(libraries.into_iter(), compression);
        let records = restore_functions(&payload, ReadOptions::default()).unwrap();
        let restored: Vec<_> = records.map(|code| code.unwrap().into_owned()).collect();
        assert_eq!(restored, libraries);
    }
    assert_eq!(dump_functions(std::iter::empty(), true), sealed(b"", VERSION_VALKEY as u16));
}

#[test]
fn payloads_that_are_no_libraries_are_refused() {
    let last = |body: &[u8]| {
        let payload = sealed(body, 11);
        let records = restore_functions(&payload, ReadOptions::default())?;
        records.last().map_or(Ok(Vec::new()), |last| last.map(|code| code.into_owned()))
    };
    assert_eq!(last(b"\xf5\x02ab"), Ok(b"ab".to_vec()));
    assert_eq!(last(b"\xf5\x02ab\xf6"), Err(FunctionsError::Old));
    assert_eq!(last(b"\xf5\x02ab\x00\x01a"), Err(FunctionsError::NotFunction));
    assert_eq!(last(b"\xf5\xff"), Err(FunctionsError::Bad));
    assert_eq!(last(b"\xf5\x3fab"), Err(FunctionsError::Bad));
    let mut wrong = sealed(b"\xf5\x02ab", 11);
    wrong[1] ^= 1;
    let refused = restore_functions(&wrong, ReadOptions::default());
    assert_eq!(refused.err(), Some(FunctionsError::Footer));
    assert!(restore_functions(b"short", ReadOptions::default()).is_err());
}

/// Strings, sets, hashes and sorted sets that are stored element by element, and lists that are stored as
/// nodes, have the same meaning in all versions that Valkey supports. A sorted set in a listpack does not,
/// because it may be out of order.
#[test]
fn large_collections_of_known_versions_are_the_same_for_valkey() {
    let same: [&[u8]; 5] = [
        b"\x00\x01v",
        b"\x02\x01\x01m",
        b"\x04\x01\x01f\x01v",
        b"\x05\x01\x01m\x00\x00\x00\x00\x00\x00\xf8?",
        b"\x12\x01\x02\x0d\x0d\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff",
    ];
    for body in same {
        for (version, is_same) in [(9, true), (11, true), (12, false), (80, true), (81, false)] {
            let payload = sealed(body, version);
            assert!(version == 12 || restore(&payload, ReadOptions::default()).is_ok(), "{body:?}");
            assert_eq!(is_same_for_valkey(&payload), is_same, "{body:?} {version}");
        }
    }
    let listpack = b"\x11\x11\x11\x00\x00\x00\x04\x00\x81a\x02\x09\x01\x81b\x02\x02\x01\xff";
    assert!(restore(&sealed(listpack, 80), ReadOptions::default()).is_ok());
    assert!(!is_same_for_valkey(&sealed(listpack, 80)));
    // Payloads that could mean something else to Valkey are refused: those in which a member or a field
    // occurs twice, a score is invalid, or a node has a wrong count.
    let refused: [&[u8]; 4] = [
        b"\x02\x02\x01m\x01m",
        b"\x04\x02\x01f\x01v\x01f\x01w",
        b"\x05\x01\x01m\x00\x00\x00\x00\x00\x00\xf8\x7f",
        b"\x12\x01\x02\x0d\x0d\x00\x00\x00\x03\x00\x81a\x02\x81b\x02\xff",
    ];
    for body in refused {
        assert!(restore(&sealed(body, 80), ReadOptions::default()).is_err(), "{body:?}");
    }
}
