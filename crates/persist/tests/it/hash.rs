//! Tests of hashes in files: all forms of all versions are read, and one form is written.

use sluice_base::Rng;
use sluice_base::num::IntBuffer;
use sluice_persist::rdb::{
    Compression, Item, LoadError, Loaded, LoadedEntry, Problem, ReadOptions, ReadProgress, Reader, Usage,
    Version, WriteOptions, Writer,
};
use sluice_value::{Hash, HashContext, HashEncoding, HashExpiry, HashLimits};

type Field = (Vec<u8>, Vec<u8>, Option<i64>);

fn fields(hash: &Hash) -> Vec<Field> {
    let bytes = |item: sluice_value::ListItem<'_>| item.bytes(&mut IntBuffer::new()).to_vec();
    let mut all: Vec<Field> =
        hash.view().iter().map(|field| (bytes(field.name), bytes(field.value), field.expiry)).collect();
    all.sort();
    all
}

/// The first hash of a file that arrives in pieces; `None` if the hash has no fields.
fn first(file: &[u8], piece: usize, options: ReadOptions) -> Result<Option<Hash>, LoadError> {
    let mut reader = Reader::new(options);
    let mut pieces = file.chunks(piece);
    loop {
        match reader.next()? {
            ReadProgress::Item(Item::LoadedEntry(LoadedEntry { value: Loaded::Hash(hash), .. })) => {
                return Ok(Some(hash));
            }
            ReadProgress::Item(Item::Empty { .. }) => return Ok(None),
            ReadProgress::Item(_) => {}
            ReadProgress::More(offset) => match pieces.next() {
                Some(piece) => reader.feed(piece),
                None => return Err(LoadError { offset, problem: Problem::CutOff }),
            },
            ReadProgress::End => panic!("the file holds no hash"),
        }
    }
}

fn of_value(value: &[u8], piece: usize) -> Result<Option<Hash>, LoadError> {
    // From 22 on, type numbers have other meanings in Redis than in Valkey. In this test 22 is Valkey's type,
    // and higher numbers are types of Redis.
    let magic: &[u8] = if value[0] > 22 { b"REDIS0012" } else { b"VALKEY080" };
    let file = [magic, &value[..1], b"\x01k", &value[1..], b"\xff\0\0\0\0\0\0\0\0"].concat();
    first(&file, piece, ReadOptions::default())
}

fn pair(name: &str, value: &str, expiry: Option<i64>) -> Field {
    (name.as_bytes().to_vec(), value.as_bytes().to_vec(), expiry)
}

#[test]
fn every_form_is_read_in_any_pieces() {
    let plain = vec![pair("f", "vvvv", None), pair("n", "5", None)];
    let cases: &[(&[u8], HashEncoding, Vec<Field>)] = &[
        (b"\x04\x02\x01f\xc3\x04\x04\x00v\x20\x00\x01n\xc0\x05", HashEncoding::Listpack, plain.clone()),
        (b"\x09\x10\x02\x01f\x04\x01vvvv_\x01n\x01\x005\xff", HashEncoding::Listpack, plain.clone()),
        (
            b"\x0d\x19\x19\0\0\0\x16\0\0\0\x04\0\0\x01f\x03\x04vvvv\x06\x01n\x03\xf6\xff",
            HashEncoding::Listpack,
            plain.clone(),
        ),
        (
            b"\x10\x15\x15\0\0\0\x04\0\x81f\x02\x84vvvv\x05\x81n\x02\x05\x01\xff",
            HashEncoding::Listpack,
            plain,
        ),
        (
            b"\x16\x02\x01f\x01v\x7b\0\0\0\0\0\0\0\x01n\x01w\xff\xff\xff\xff\xff\xff\xff\xff",
            HashEncoding::Hashtable,
            vec![pair("f", "v", Some(123)), pair("n", "w", None)],
        ),
        (
            b"\x18\x64\0\0\0\0\0\0\0\x02\x18\x01f\x01v\x00\x01n\x01w",
            HashEncoding::Hashtable,
            vec![pair("f", "v", Some(123)), pair("n", "w", None)],
        ),
        (
            b"\x19\x7b\0\0\0\0\0\0\0\x17\x17\0\0\0\x06\0\x81f\x02\x81v\x02\x7b\x01\x81n\x02\x81w\x02\x00\x01\xff",
            HashEncoding::Hashtable,
            vec![pair("f", "v", Some(123)), pair("n", "w", None)],
        ),
    ];
    for (value, encoding, wanted) in cases {
        for piece in [1, 3, 100] {
            let hash = of_value(value, piece).expect("the value is well-formed").expect("it has fields");
            assert_eq!((hash.encoding(), &fields(&hash)), (*encoding, wanted), "type {}", value[0]);
        }
    }
}

#[test]
fn hashes_of_release_candidates_of_redis_7_4_are_read() {
    // In type 22, each expiry counts from the epoch, and 0 stands for no expiry. Type 23 is a listpack
    // without an expiry in front of it.
    let cases: [&[u8]; 2] = [
        b"\x16\x02\x40\x7b\x01f\x01v\x00\x01n\x01w",
        b"\x17\x17\x17\0\0\0\x06\0\x81f\x02\x81v\x02\x7b\x01\x81n\x02\x81w\x02\x00\x01\xff",
    ];
    for value in cases {
        let file = [b"REDIS0012", &value[..1], b"\x01k", &value[1..], b"\xff\0\0\0\0\0\0\0\0"].concat();
        for piece in [1, 3, 100] {
            let hash = first(&file, piece, ReadOptions::default()).expect("well-formed").expect("has fields");
            let wanted = [pair("f", "v", Some(123)), pair("n", "w", None)];
            assert_eq!(fields(&hash), wanted, "type {}", value[0]);
        }
    }
    let empty = b"REDIS0012\x16\x01k\x00\xff\0\0\0\0\0\0\0\0";
    assert!(first(empty, 1, ReadOptions::default()).expect("an empty hash is no error").is_none());
}

#[test]
fn hashes_without_fields_are_passed_over() {
    for value in [
        &b"\x04\x00"[..],
        b"\x16\x00",
        b"\x0d\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff",
        b"\x10\x07\x07\0\0\0\0\0\xff",
    ] {
        assert!(of_value(value, 1).expect("an empty hash is no error").is_none(), "type {}", value[0]);
    }
}

#[test]
fn a_field_twice_or_without_a_value_or_with_a_negative_expiry_is_refused() {
    for value in [
        &b"\x04\x02\x01f\x01v\x01f\x01w"[..],
        b"\x16\x02\x01f\x01v\x7b\0\0\0\0\0\0\0\x01f\x01w\x7b\0\0\0\0\0\0\0",
        b"\x16\x01\x01f\x01v\xfe\xff\xff\xff\xff\xff\xff\xff",
        b"\x16\x01\x01f\x01v\0\0\0\0\0\0\0\x80",
        b"\x18\x64\0\0\0\0\0\0\0\x02\x01\x01f\x01v\x01\x01f\x01v",
        b"\x18\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x03\x01f\x01v",
        b"\x18\xfb\xff\xff\xff\xff\xff\xff\xff\x01\x01\x01f\x01v",
        b"\x19\0\0\0\0\0\0\0\0\x0d\x0d\0\0\0\x02\0\x81f\x02\x81v\x02\xff",
        b"\x19\0\0\0\0\0\0\0\0\x10\x10\0\0\0\x03\0\x81f\x02\x81v\x02\x81x\x02\xff",
        b"\x19\0\0\0\0\0\0\0\0\x02lp",
        b"\x09\x02\x00\xff",
        b"\x09\x07\x02\x01f\x01\x00v\xff",
        b"\x09\x0c\x02\x01f\x01\x00v\x01f\x01\x00w\xff",
        b"\x10\x13\x13\0\0\0\x04\0\x81f\x02\x81v\x02\x81f\x02\x81w\x02\xff",
        b"\x10\x10\x10\0\0\0\x03\0\x81f\x02\x81v\x02\x81g\x02\xff",
        b"\x0d\x0e\x0e\0\0\0\x0a\0\0\0\x01\0\0\x01f\xff",
        b"\x10\x02ab",
    ] {
        let error = of_value(value, 100).expect_err("it is refused");
        let (problem, text) = match value[0] {
            9 => (Problem::Zipmap, "Zipmap integrity check failed"),
            _ => (Problem::Hash, "integrity check failed for a hash"),
        };
        assert_eq!(error.problem, problem, "{value:?}");
        assert_eq!(error.to_string(), format!("{text} at byte {}", error.offset));
    }
}

#[test]
fn the_thresholds_decide_about_the_encoding() {
    let limits = |max_entries, max_value| ReadOptions {
        hash: HashLimits { max_entries, max_value, ..HashLimits::default() },
        ..ReadOptions::default()
    };
    let read = |value: &[u8], options| {
        let file = [b"VALKEY080", &value[..1], b"\x01k", &value[1..], b"\xff\0\0\0\0\0\0\0\0"].concat();
        let hash = first(&file, 100, options).expect("the value is well-formed");
        hash.expect("it has fields").encoding()
    };
    let pairs = b"\x04\x02\x01f\x04vvvv\x01n\x01w";
    assert_eq!(read(pairs, limits(2, 4)), HashEncoding::Listpack);
    assert_eq!(read(pairs, limits(1, 4)), HashEncoding::Hashtable);
    assert_eq!(read(pairs, limits(2, 3)), HashEncoding::Hashtable);
    let listpack = b"\x10\x15\x15\0\0\0\x04\0\x81f\x02\x84vvvv\x05\x81n\x02\x05\x01\xff";
    assert_eq!(read(listpack, limits(2, 3)), HashEncoding::Listpack, "of a listpack the number alone counts");
    assert_eq!(read(listpack, limits(1, 64)), HashEncoding::Hashtable);
}

#[test]
fn what_is_written_is_read_again() {
    let mut rng = Rng::new(5);
    for seed in 0..60 {
        let mut context = HashContext::default();
        let mut hash = Hash::new();
        let count = [1, 5, 600, 3000][seed % 4];
        for number in 0..count {
            let value = match rng.below(20) {
                0 => vec![b'v'; 1 + rng.below(40_000) as usize / (1 + count / 100)],
                1 => rng.next_u64().to_string().into_bytes(),
                _ => vec![b'w'; rng.below(60) as usize],
            };
            let expiry = match seed % 3 {
                0 if rng.below(3) == 0 => HashExpiry::At(rng.below(1 << 50) as i64),
                _ => HashExpiry::Clear,
            };
            hash.set(format!("f{number}").as_bytes(), &value, expiry, &mut context);
        }
        for version in [Version::Valkey, Version::Common] {
            let options =
                WriteOptions { version, compression: Compression::of_strings(seed % 2 == 0), checksum: true };
            let mut writer = Writer::new(options);
            let mut file = Vec::new();
            writer.hash(b"k", hash.view(), None, Usage::Absent, &mut |piece| file.extend_from_slice(&piece));
            file.extend(writer.finish());
            let read = first(&file, 1000, ReadOptions::default()).expect("it is well-formed");
            let read = read.expect("it has fields");
            let mut wanted = fields(&hash);
            if version == Version::Common {
                wanted.iter_mut().for_each(|field| field.2 = None);
            }
            assert_eq!(fields(&read), wanted);
        }
    }
}
