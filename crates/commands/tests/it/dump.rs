//! DUMP and RESTORE. The payloads and replies are those of Valkey 9.1.2; payloads of version 81 are those of
//! Valkey 9.2.

use crate::common::{Bench, check};

#[test]
#[rustfmt::skip]
fn a_payload_is_that_of_the_reference() {
    check(&[
        ("SET k v", "+OK"),
        ("DUMP k", "\"\\x00\\x01vP\\x00^\"\\x07#\\x87j\\xed:\""),
        ("DUMP nokey", "nil"),
        ("DUMP", "-ERR wrong number of arguments for 'dump' command"),
        ("DUMP k k", "-ERR wrong number of arguments for 'dump' command"),
        ("RESTORE new 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "+OK"),
        ("GET new", "\"v\""),
        ("TTL new", ":-1"),
        ("RESTORE old 0 \"\\x00\\x01v\\x0b\\x00\\xf8\\xd7s\\xc1\\xe4\\xa7cG\"", "+OK"),
        ("GET old", "\"v\""),
        ("RESTORE l 0 \"\\x01\\x02\\x01a\\xc0\\x05P\\x00\\x88\\x89\\xbe\\x18n\\x9d\\xdcc\"", "+OK"),
        ("LRANGE l 0 -1", "[\"a\", \"5\"]"),
        ("OBJECT ENCODING l", "\"listpack\""),
    ]);
}

#[test]
#[rustfmt::skip]
fn restore_refuses_in_the_reference_s_order() {
    check(&[
        ("SET k v", "+OK"),
        ("RESTORE k 0", "-ERR wrong number of arguments for 'restore' command"),
        ("RESTORE k x y z", "-ERR syntax error"),
        ("RESTORE k x y IDLETIME", "-ERR syntax error"),
        ("RESTORE k x y FREQ 1 IDLETIME 1", "-ERR syntax error"),
        ("RESTORE k x y IDLETIME 1 FREQ 1", "-ERR syntax error"),
        ("RESTORE k x y IDLETIME x", "-ERR value is not an integer or out of range"),
        ("RESTORE k x y IDLETIME -1", "-ERR Invalid IDLETIME value, must be >= 0"),
        ("RESTORE k x y FREQ 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ("RESTORE k x y FREQ -1", "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ("RESTORE k x y FREQ x", "-ERR value is not an integer or out of range"),
        ("RESTORE k x y", "-BUSYKEY Target key name already exists."),
        ("RESTORE k x y REPLACE", "-ERR value is not an integer or out of range"),
        ("RESTORE k -1 y REPLACE", "-ERR Invalid TTL value, must be >= 0"),
        ("RESTORE k 0 y REPLACE", "-ERR DUMP payload version or checksum are wrong"),
        ("RESTORE k 0 \"\\x00\\x01vR\\x00\\xe7\\x0f\\xeb\\x9c.sg\\x02\" REPLACE", "-ERR DUMP payload version or checksum are wrong"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xee:\" REPLACE", "-ERR DUMP payload version or checksum are wrong"),
        ("RESTORE k 0 \"\\x00\\x0evP\\x00m\\xebDn\\x09\\xc3\\xcf+\" REPLACE", "-ERR Bad data format"),
        ("RESTORE k 0 \"\\x01\\x00P\\x00\\x94\\xd2\\xec]\\xf2E$\\xa2\" REPLACE", "-ERR Bad data format"),
        ("GET k", "\"v\""),
        ("RESTORE n 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" FREQ 1 FREQ 2 REPLACE replace ABSTTL", "+OK"),
    ]);
}

/// Redis 5 wrote wrong lengths, which the entries correct. A macro node without any entry left is
/// refused if a length is given, as in the reference.
#[test]
#[rustfmt::skip]
fn a_stream_that_lacks_all_of_its_entries_is_refused() {
    check(&[
        ("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK"),
        ("RESTORE s 0 \"\\x15\\x01\\x10\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x1d\\x1d\\x00\\x00\\x00\\x0a\\x00\\x00\\x01\\x01\\x01\\x01\\x01\\x81\\x66\\x02\\x00\\x01\\x03\\x01\\x00\\x01\\x00\\x01\\x81\\x76\\x02\\x04\\x01\\xff\\x01\\x01\\x01\\x00\\x00\\x01\\x01\\x01\\x00\\x50\\x00\\x31\\x32\\x33\\x34\\x35\\x36\\x37\\x38\"", "-ERR Bad data format"),
        ("RESTORE none 0 \"\\x15\\x01\\x10\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x1d\\x1d\\x00\\x00\\x00\\x0a\\x00\\x00\\x01\\x01\\x01\\x01\\x01\\x81\\x66\\x02\\x00\\x01\\x03\\x01\\x00\\x01\\x00\\x01\\x81\\x76\\x02\\x04\\x01\\xff\\x00\\x01\\x01\\x00\\x00\\x01\\x01\\x01\\x00\\x50\\x00\\x31\\x32\\x33\\x34\\x35\\x36\\x37\\x38\"", "+OK"),
        ("RESTORE s 0 \"\\x15\\x00\\x01\\x01\\x01\\x00\\x00\\x01\\x01\\x01\\x00\\x50\\x00\\x31\\x32\\x33\\x34\\x35\\x36\\x37\\x38\"", "+OK"),
        ("XLEN s", ":0"),
    ]);
}

#[test]
#[rustfmt::skip]
fn payloads_of_version_81_are_taken() {
    let path_hash = "RESTORE p 0 \"\\x17\\x02\\x02/a\\x02\\x01f\\x01v\\x01g\\xc0\\x05\\x02/b\\x01\\x01h\\x01wQ\\x00/\\xa9M\\xe6\\xa4$7\\xe7\"";
    check(&[
        ("RESTORE k 0 \"\\x00\\x01vQ\\x007\\xfd\\xbaPz\\xf5\\x04\\xb3\"", "+OK"),
        ("GET k", "\"v\""),
        (path_hash, "-ERR values of type path hash are not supported by this version"),
        ("CONFIG SET rdb-version-check relaxed", "+OK"),
        (path_hash, "-ERR values of type path hash are not supported by this version"),
        // DUMP writes version 80 nevertheless.
        ("DUMP k", "\"\\x00\\x01vP\\x00^\"\\x07#\\x87j\\xed:\""),
    ]);
}

#[test]
#[rustfmt::skip]
fn versions_and_checksums_that_are_not_known_are_taken_where_that_is_set() {
    check(&[
        ("CONFIG SET rdb-version-check relaxed", "+OK"),
        ("RESTORE k 0 \"\\x00\\x01vR\\x00\\xe7\\x0f\\xeb\\x9c.sg\\x02\"", "+OK"),
        ("RESTORE k 0 \"\\x16\\x00\\x0c\\x00l*z\\x1b\\xb8\\xdc\\x16{\" REPLACE", "-ERR Unsupported foreign data type: 22"),
        ("CONFIG SET rdb-version-check strict", "+OK"),
        ("RESTORE k 0 \"\\x00\\x01vR\\x00\\xe7\\x0f\\xeb\\x9c.sg\\x02\" REPLACE", "-ERR DUMP payload version or checksum are wrong"),
        ("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xee:\" REPLACE", "+OK"),
        ("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0", "+OK"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xee:\" REPLACE", "-ERR DUMP payload version or checksum are wrong"),
    ]);
}

#[test]
#[rustfmt::skip]
fn restore_sets_the_expiry_and_the_last_use() {
    check(&[
        ("RESTORE k 5000 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "+OK"),
        ("PTTL k", ":5000"),
        ("RESTORE k 33177117420123 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" ABSTTL REPLACE", "+OK"),
        ("PEXPIRETIME k", ":33177117420123"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE IDLETIME 1000", "+OK"),
        ("OBJECT IDLETIME k", ":1000"),
        ("TTL k", ":-1"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE IDLETIME 4294967301", "+OK"),
        ("OBJECT IDLETIME k", ":5"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE FREQ 7", "+OK"),
        ("OBJECT IDLETIME k", ":0"),
        ("RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" ABSTTL REPLACE", "+OK"),
        ("EXISTS k", ":0"),
        ("RESTORE k 9223372036854775807 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\"", "-ERR invalid expire time in 'restore' command"),
        ("EXISTS k", ":0"),
        ("RESTORE k 9223372036854775807 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" ABSTTL", "+OK"),
        ("PEXPIRETIME k", ":9223372036854775807"),
        ("CONFIG SET maxmemory-policy allkeys-lfu", "+OK"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" FREQ 100 REPLACE", "+OK"),
        ("OBJECT FREQ k", ":100"),
        ("RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" IDLETIME 100 REPLACE", "+OK"),
        ("OBJECT FREQ k", ":5"),
    ]);
}

#[test]
fn what_is_dumped_is_restored_in_every_encoding() {
    let mut bench = Bench::new();
    let long = "x".repeat(70_000);
    let paged = "y".repeat(1_500_000);
    let many: Vec<String> = (0..3000).map(|number| format!("element:{number}")).collect();
    bench.run("MSET int 12345 text hello empty \"\"");
    bench.run(&format!("SET long {long}"));
    bench.run(&format!("SET paged {paged}"));
    bench.run("APPEND raw abc");
    bench.run("RPUSH small a 7 \"\" -300");
    bench.run(&format!("RPUSH large {} {long}", many.join(" ")));
    for key in ["int", "text", "empty", "long", "paged", "raw", "small", "large"] {
        let reply = bench.argv(&[b"DUMP", key.as_bytes()]);
        let (header, payload) =
            reply.split_at(reply.iter().position(|byte| *byte == b'\n').expect("a line") + 1);
        assert_eq!(header, format!("${}\r\n", payload.len() - 2).as_bytes());
        let payload = &payload[..payload.len() - 2];
        let restored = bench.argv(&[b"RESTORE", b"again", b"0", payload, b"REPLACE"]);
        assert_eq!(restored, b"+OK\r\n");
        let digests = bench.run(&format!("DEBUG DIGEST-VALUE {key} again"));
        let (one, other) = digests.split_once(", ").expect("two digests");
        assert_eq!(one.trim_matches('['), other.trim_matches(']'), "{key}");
        let encoding = bench.run(&format!("OBJECT ENCODING {key}"));
        if key != "raw" {
            assert_eq!(bench.run("OBJECT ENCODING again"), encoding, "{key}");
        }
    }
}

/// The reference refuses these lengths since 9.1.3; older versions crash.
#[test]
fn lengths_beyond_all_memory_are_bad_data() {
    let mut bench = Bench::new();
    bench.run("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    let end = "P\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00";
    for length in ["\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff", "\\x7f\\xff\\xff\\xff\\xff\\xff\\xff\\xff"] {
        // The heads are those of a string, a list node, a set member, and a hash field.
        for head in ["\\x00", "\\x12\\x01\\x02", "\\x02\\x01", "\\x04\\x01"] {
            bench.check(&format!("RESTORE k 0 \"{head}\\x81{length}abc{end}\""), "-ERR Bad data format");
        }
    }
}
