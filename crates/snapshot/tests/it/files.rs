//! Files that this server has written, and files that contradict themselves.

use crate::common::{Loaded, NOW, load, save, save_as, writer};
use sluice_keyspace::{Str, ValueRef};
use sluice_persist::rdb::{Text, Usage};
use sluice_snapshot::NotLoaded;
use sluice_testbase::content;
use sluice_value::stream::StreamId;

#[test]
fn keys_that_have_expired_stay_out() {
    let now_ms = NOW.unix_ms();
    let mut out = writer();
    out.db(0, 3, 2);
    out.string(b"gone", Text::Bytes(b"x"), Some(now_ms - 1000), Usage::Absent);
    out.string(b"dies", Text::Bytes(b"x"), Some(now_ms + 100_000), Usage::Absent);
    out.string(b"stays", Text::Bytes(b"x"), None, Usage::Absent);
    let loaded = load(&out.finish());
    assert!(loaded.said().contains("keys loaded: 2, keys expired: 1,"));
    assert_eq!(loaded.keyspace.db(0).len(), 2);
    let counts = loaded.result.unwrap().counts;
    assert_eq!((counts.expired, counts.loaded), (1, 2));
}

#[test]
fn a_file_of_endless_fields_takes_no_memory_of_the_log() {
    let mut out = writer();
    for _ in 0..100_000 {
        out.aux("valkey-ver", Text::Bytes(b"9.1.2"));
    }
    let loaded = load(&out.finish());
    assert!(loaded.result.is_ok());
    assert!(loaded.log.len() < 1_100, "{}", loaded.log.len());
}

#[test]
fn many_keys_of_all_kinds_come_in_whatever_order_they_stand_in() {
    let long = vec![b'x'; 5_000];
    let file = |twice: Option<usize>| {
        let mut out = writer();
        for db in [0usize, 3] {
            // The hint about the size is wrong; the load must neither trust nor need it.
            out.db(db, usize::MAX >> 8, 1);
            for n in 0..1_000usize {
                let text: &[u8] = if n.is_multiple_of(7) { &long } else { b"short" };
                let expiry = n.is_multiple_of(5).then_some(4_000_000_000_000);
                out.string(format!("key:{n}").as_bytes(), Text::Bytes(text), expiry, Usage::Absent);
                if twice == Some(n) {
                    out.string(format!("key:{n}").as_bytes(), Text::Bytes(text), None, Usage::Absent);
                }
            }
        }
        out.finish()
    };
    let Loaded { keyspace, result, .. } = load(&file(None));
    for number in [0, 3] {
        let db = keyspace.db(number);
        assert_eq!(db.len(), 1000);
        let entry = |name: &str| db.entry(db.find(keyspace.key(name.as_bytes())).unwrap().handle);
        assert!(matches!(entry("key:999").value(), ValueRef::Str(text) if text.to_vec() == b"short"));
        assert!(matches!(entry("key:994").value(), ValueRef::Str(text) if text.len() == 5000));
        assert_eq!(entry("key:995").expiry(), Some(4_000_000_000_000));
        assert_eq!(entry("key:996").expiry(), None);
    }
    assert_eq!(result.unwrap().counts.loaded, 2000);
    for n in [0, 6, 7, 31, 32, 999] {
        let loaded = load(&file(Some(n)));
        assert_eq!(loaded.result.as_ref().err(), Some(&NotLoaded::Failed));
        let said = loaded.said();
        assert!(said.ends_with(&format!("RDB has duplicated key 'key:{n}' in DB 0")), "{said}");
    }
}

/// A file with one value of this type, under the key `the key` in database 3.
fn of_value(kind: u8, value: &[u8]) -> Vec<u8> {
    [b"REDIS0011\xfe\x03", &[kind][..], b"\x07the key", value, b"\xff\0\0\0\0\0\0\0\0"].concat()
}

#[test]
fn a_value_that_is_refused_is_named_by_key_type_and_database() {
    let cases: [(u8, &[u8], &str); 9] = [
        (0, b"\xc3\x04\x05\x00v\x20\x00", "string"),
        (10, b"\x03abc", "list"),
        (18, b"\x01\x07\x01a", "list"),
        (2, b"\x02\x01a\x01a", "set"),
        (11, b"\x03abc", "set"),
        (5, b"\x02\x01m\0\0\0\0\0\0\0\0\x01m\0\0\0\0\0\0\xf0\x3f", "zset"),
        (4, b"\x02\x01f\x01v\x01f\x01w", "hash"),
        (16, b"\x03abc", "hash"),
        (15, b"\x01\x03abc\x03abc", "stream"),
    ];
    for (kind, value, name) in cases {
        let loaded = load(&of_value(kind, value));
        assert_eq!(loaded.result.as_ref().err(), Some(&NotLoaded::Failed));
        let said = loaded.said();
        let wanted = format!("belongs to key 'the key' in database 3, of type {name};");
        assert!(said.contains(&wanted), "type {kind}: {said}");
    }
}

#[test]
fn a_stream_that_contradicts_its_entries_is_put_right() {
    // `NODE` has a single entry, 1-1. The totals after the nodes are the length, the last id, and zero
    // groups.
    const NODE: &[u8] = b"\x01\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\x1d\x1d\0\0\0\x0a\0\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01\
        \x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01\xff";
    let cases: [(&[u8], &[u8], u64, &str); 4] = [
        (NODE, b"\x05\x01\x01\x00", 1, "stream of 1 entries with stored length 5"),
        (NODE, b"\x00\x01\x01\x00", 1, "stream of 1 entries with stored length 0"),
        (NODE, b"\x01\x00\x01\x00", 1, "stream with a last id below the id of an entry"),
        (b"\x00", b"\x05\x01\x01\x00", 0, "stream of 0 entries with stored length 5"),
    ];
    for (nodes, totals, len, words) in cases {
        let loaded = load(&of_value(15, &[nodes, totals].concat()));
        let said = loaded.said();
        assert!(said.contains(&format!("Key 'the key' in database 3 was repaired: {words}")), "{said}");
        let db = loaded.keyspace.db(3);
        let found = db.find(loaded.keyspace.key(b"the key")).unwrap();
        let ValueRef::Stream(stream) = db.entry(found.handle).value() else { panic!("a stream") };
        assert_eq!(
            (stream.log().len(), stream.log().last_id()),
            (len, StreamId { ms: 1, seq: 1 }),
            "{words}"
        );
        // A file written from the loaded keyspace is well-formed.
        let again = load(&save(&loaded.keyspace));
        assert!(again.result.is_ok() && !again.said().contains("was repaired"));
        assert_eq!(content(&again.keyspace), content(&loaded.keyspace));
    }
}

/// A file in a frame of LZ4 or Zstd ends with zeros in place of a checksum, because the frame has a checksum
/// of its own.
#[test]
fn a_file_in_a_frame_with_a_checksum_was_checked() {
    let mut out = writer();
    out.string(b"key", Text::Bytes(b"value"), None, Usage::Absent);
    let keyspace = load(&out.finish()).keyspace;
    const UNCHECKED: &str = "RDB file was saved with checksum disabled: no check performed.";
    for method in ["lz4", "zstd", "yes"] {
        for (rdbchecksum, is_unchecked) in [("yes", false), ("no", true)] {
            let text = format!("rdbcompression {method}\nrdbchecksum {rdbchecksum}\n");
            let loaded = load(&save_as(&keyspace, &text));
            assert_eq!(loaded.result.as_ref().unwrap().counts.loaded, 1);
            let said = loaded.said();
            assert_eq!(said.contains(UNCHECKED), is_unchecked, "{text}: {said}");
        }
    }
}

#[test]
fn what_is_written_is_what_is_read() {
    let mut out = writer();
    out.db(0, 3, 1);
    out.string(b"int", Text::Int(12345), None, Usage::Absent);
    out.string(b"dies", Text::Bytes(b"x"), Some(4_000_000_000_000), Usage::Absent);
    out.string(b"long", Text::Bytes(&[b'x'; 200_000]), None, Usage::Absent);
    out.db(9, 1, 0);
    out.string(b"int", Text::Bytes(b"other database"), None, Usage::Absent);
    let first = load(&out.finish());
    let file = save(&first.keyspace);
    assert!(file.starts_with(b"VALKEY080") && file.len() < 10_000, "long strings are compressed");
    let second = load(&file);
    assert_eq!(content(&second.keyspace), content(&first.keyspace));
    assert_eq!(second.result.unwrap().counts.loaded, 4);
    let db = second.keyspace.db(0);
    let found = db.find(second.keyspace.key(b"int")).unwrap();
    assert!(matches!(db.entry(found.handle).value(), ValueRef::Str(Str::Int(12345))));
}
