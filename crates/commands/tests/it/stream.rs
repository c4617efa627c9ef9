//! Behaviour of the stream commands. The replies are those of 9.1.2.

use crate::common::{Bench, check};

#[test]
fn adding_and_reading() {
    #[rustfmt::skip]
    check(&[
        ("XADD s 1-1 a 1 b 2", r#""1-1""#),
        ("XADD s 1-* a 3", r#""1-2""#),
        ("XADD s 2 f v", r#""2-0""#),
        ("XADD s 2-* f w", r#""2-1""#),
        ("XLEN s", ":4"),
        ("XRANGE s - +", r#"[["1-1", ["a", "1", "b", "2"]], ["1-2", ["a", "3"]], ["2-0", ["f", "v"]], ["2-1", ["f", "w"]]]"#),
        ("XRANGE s 1-2 2", r#"[["1-2", ["a", "3"]], ["2-0", ["f", "v"]], ["2-1", ["f", "w"]]]"#),
        ("XRANGE s 2 2", r#"[["2-0", ["f", "v"]], ["2-1", ["f", "w"]]]"#),
        ("XRANGE s (1-1 (2-1", r#"[["1-2", ["a", "3"]], ["2-0", ["f", "v"]]]"#),
        ("XRANGE s 5 +", "[]"),
        ("XRANGE s - + COUNT 1", r#"[["1-1", ["a", "1", "b", "2"]]]"#),
        ("XRANGE s - + COUNT 0", "nil-array"),
        ("XRANGE s - + COUNT -3", "nil-array"),
        ("XRANGE none - + COUNT 0", "[]"),
        ("XREVRANGE s + - COUNT 2", r#"[["2-1", ["f", "w"]], ["2-0", ["f", "v"]]]"#),
        ("XREVRANGE s (2-0 -", r#"[["1-2", ["a", "3"]], ["1-1", ["a", "1", "b", "2"]]]"#),
        ("XREVRANGE s - +", "[]"),
        ("XRANGE s (18446744073709551615-18446744073709551615 +", "-ERR invalid start ID for the interval"),
        ("XRANGE s - (0-0", "-ERR invalid end ID for the interval"),
        ("XREVRANGE s (0-0 -", "-ERR invalid end ID for the interval"),
        ("XRANGE s (- +", "-ERR Invalid stream ID specified as stream command argument"),
        ("XRANGE s x +", "-ERR Invalid stream ID specified as stream command argument"),
        ("XRANGE s - + COUNT", "-ERR syntax error"),
        ("XRANGE s - + COUNT x", "-ERR value is not an integer or out of range"),
        ("XRANGE s - + FOO 1", "-ERR syntax error"),
        ("XRANGE s - + COUNT 1 COUNT 2", r#"[["1-1", ["a", "1", "b", "2"]], ["1-2", ["a", "3"]]]"#),
        ("TYPE s", "+stream"),
        ("OBJECT ENCODING s", r#""stream""#),
        ("XLEN none", ":0"),
        ("XRANGE none - +", "[]"),
        ("XADD s 3-1 n 12 m -7 o 70000 p 99999999999999999999", r#""3-1""#),
        ("XRANGE s 3 3", r#"[["3-1", ["n", "12", "m", "-7", "o", "70000", "p", "99999999999999999999"]]]"#),
        ("XADD none NOMKSTREAM 1-1 a b", "nil"),
        ("EXISTS none", ":0"),
        ("XADD s NOMKSTREAM 4-1 a b", r#""4-1""#),
    ]);
}

#[test]
fn ids_that_xadd_takes() {
    #[rustfmt::skip]
    check(&[
        ("XADD s 0-0 a b", "-ERR The ID specified in XADD must be greater than 0-0"),
        ("XADD s 0 a b", "-ERR The ID specified in XADD must be greater than 0-0"),
        ("XADD s 0-* a b", r#""0-1""#),
        ("XADD s 0-1 a b", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("XADD s 0-* a b", r#""0-2""#),
        ("XADD s -0-* a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s 5-* a b", r#""5-0""#),
        ("XADD s 05-2 a b", r#""5-2""#),
        ("XADD s +6 a b", r#""6-0""#),
        ("XADD s 6--01 a b", r#""6-18446744073709551615""#),
        ("XADD s 6-* a b", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("XADD s 1-2-3 a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s 7- a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s -7 a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s 7-0x1 a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s 7-*x a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s 18446744073709551616-0 a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s 18446744073709551615-18446744073709551615 a b", r#""18446744073709551615-18446744073709551615""#),
        ("XADD s * a b", "-ERR The stream has exhausted the last possible ID, unable to add more items"),
        ("XADD s 1-1 a b", "-ERR The stream has exhausted the last possible ID, unable to add more items"),
        ("XADD s 5-* a b", "-ERR The stream has exhausted the last possible ID, unable to add more items"),
        ("XADD s", "-ERR wrong number of arguments for 'xadd' command"),
        ("XADD s 9", "-ERR wrong number of arguments for 'xadd' command"),
        ("XADD s 9 a", "-ERR wrong number of arguments for 'xadd' command"),
        ("XADD s 9 a b c", "-ERR wrong number of arguments for 'xadd' command"),
        ("XADD s NOMKSTREAM", "-ERR wrong number of arguments for 'xadd' command"),
        ("XADD s MAXLEN 5 9 a", "-ERR wrong number of arguments for 'xadd' command"),
    ]);
}

#[test]
fn trimming() {
    #[rustfmt::skip]
    check(&[
        ("CONFIG SET stream-node-max-entries 3", "+OK"),
        ("XADD s 1-1 a b", r#""1-1""#),
        ("XADD s 1-2 a b", r#""1-2""#),
        ("XADD s 1-3 a b", r#""1-3""#),
        ("XADD s 1-4 a b", r#""1-4""#),
        ("XADD s 1-5 a b", r#""1-5""#),
        ("XADD s 1-6 a b", r#""1-6""#),
        ("XADD s 1-7 a b", r#""1-7""#),
        ("XTRIM s MAXLEN ~ 5", ":0"),
        ("XTRIM s MAXLEN ~ 4", ":3"),
        ("XLEN s", ":4"),
        ("XTRIM s MAXLEN = 3", ":1"),
        ("XRANGE s - + COUNT 1", r#"[["1-5", ["a", "b"]]]"#),
        ("XADD s MAXLEN 2 1-8 a b", r#""1-8""#),
        ("XLEN s", ":2"),
        ("XTRIM s MINID 1-8", ":1"),
        ("XRANGE s - +", r#"[["1-8", ["a", "b"]]]"#),
        ("XTRIM s MINID ~ 9 LIMIT 0", ":1"),
        ("XLEN s", ":0"),
        ("EXISTS s", ":1"),
        ("XADD s 1-9 a b", r#""1-9""#),
        ("XADD s 1-10 a b", r#""1-10""#),
        ("XADD s MINID 1-10 1-11 a b", r#""1-11""#),
        ("XRANGE s - +", r#"[["1-10", ["a", "b"]], ["1-11", ["a", "b"]]]"#),
        ("XTRIM s MAXLEN 0", ":2"),
        ("XTRIM s MAXLEN 0", ":0"),
        ("XTRIM none MAXLEN 0", ":0"),
        ("XTRIM s MAXLEN -1", "-ERR The MAXLEN argument must be >= 0."),
        ("XTRIM s MAXLEN x", "-ERR value is not an integer or out of range"),
        ("XTRIM s MAXLEN", "-ERR wrong number of arguments for 'xtrim' command"),
        ("XTRIM s MAXLEN =", "-ERR value is not an integer or out of range"),
        ("XTRIM s MAXLEN 1 LIMIT 5", "-ERR syntax error, LIMIT cannot be used without the special ~ option"),
        ("XTRIM s MAXLEN ~ 1 LIMIT -1", "-ERR The LIMIT argument must be >= 0."),
        ("XTRIM s MAXLEN ~ 1 LIMIT", "-ERR syntax error"),
        ("XTRIM s LIMIT 4", "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"),
        ("XTRIM s LIMIT 0", "-ERR syntax error, XTRIM must be called with a trimming strategy"),
        ("XTRIM s FOO 4", "-ERR syntax error"),
        ("XTRIM s MINID x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XTRIM s MAXLEN 1 MINID 1", "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible"),
        ("XTRIM s MAXLEN 1 NOMKSTREAM", "-ERR syntax error"),
        ("XADD s LIMIT 5 9 a b", "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"),
        ("XADD s LIMIT 0 9 a b", "-ERR syntax error, LIMIT cannot be used without the special ~ option"),
        ("XADD s MAXLEN 1 MINID 1 9 a b", "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible"),
        ("XADD s MAXLEN ~ 9 a b", "-ERR Invalid stream ID specified as stream command argument"),
    ]);
}

#[test]
fn deleting() {
    #[rustfmt::skip]
    check(&[
        ("XADD s 1-1 a b", r#""1-1""#),
        ("XADD s 1-2 a b", r#""1-2""#),
        ("XADD s 1-3 a b", r#""1-3""#),
        ("XDEL s 1-2 1-2 9", ":1"),
        ("XRANGE s - +", r#"[["1-1", ["a", "b"]], ["1-3", ["a", "b"]]]"#),
        ("XDEL s x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XDEL s 1-1 x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XLEN s", ":2"),
        ("XDEL none x", ":0"),
        ("XDEL s 1-3", ":1"),
        ("XADD s 1-3 a b", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("XDEL s 1-1", ":1"),
        ("XLEN s", ":0"),
        ("EXISTS s", ":1"),
        ("XADD s 1-4 a b", r#""1-4""#),
        ("XINFO STREAM s", r#"["length", :1, "radix-tree-keys", :1, "radix-tree-nodes", :2, "last-generated-id", "1-4", "max-deleted-entry-id", "1-3", "entries-added", :4, "recorded-first-entry-id", "1-4", "groups", :0, "first-entry", ["1-4", ["a", "b"]], "last-entry", ["1-4", ["a", "b"]]]"#),
    ]);
}

#[test]
fn setting_ids() {
    #[rustfmt::skip]
    check(&[
        ("XSETID none 1", "-ERR no such key"),
        ("XADD s 5-5 a b", r#""5-5""#),
        ("XSETID s 5-4", "-ERR The ID specified in XSETID is smaller than the target stream top item"),
        ("XSETID s 6-6", "+OK"),
        ("XADD s 6-6 a b", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("XSETID s 7-7 ENTRIESADDED 9 MAXDELETEDID 3-3", "+OK"),
        ("XINFO STREAM s", r#"["length", :1, "radix-tree-keys", :1, "radix-tree-nodes", :2, "last-generated-id", "7-7", "max-deleted-entry-id", "3-3", "entries-added", :9, "recorded-first-entry-id", "5-5", "groups", :0, "first-entry", ["5-5", ["a", "b"]], "last-entry", ["5-5", ["a", "b"]]]"#),
        ("XSETID s 7-7 ENTRIESADDED 0", "-ERR The entries_added specified in XSETID is smaller than the target stream length"),
        ("XSETID s 7-7 ENTRIESADDED -1", "-ERR entries_added must be positive"),
        ("XSETID s 7-7 ENTRIESADDED x", "-ERR value is not an integer or out of range"),
        ("XSETID s 7-7 MAXDELETEDID 8", "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"),
        ("XSETID s 7-7 MAXDELETEDID x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XSETID s 7-7 FOO 1", "-ERR syntax error"),
        ("XSETID s 7-7 ENTRIESADDED", "-ERR syntax error"),
        ("XSETID s 3-1", "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"),
        ("XSETID s x", "-ERR Invalid stream ID specified as stream command argument"),
    ]);
}

#[test]
fn groups() {
    #[rustfmt::skip]
    check(&[
        ("XGROUP CREATE s g 0", "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."),
        ("XGROUP CREATE s g x", "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."),
        ("XGROUP CREATE s g 0 MKSTREAM", "+OK"),
        ("XGROUP CREATE s g 0", "-BUSYGROUP Consumer Group name already exists"),
        ("XGROUP CREATE s h $ ENTRIESREAD 3", "+OK"),
        ("XGROUP CREATE s i 0 ENTRIESREAD -2", "-ERR value for ENTRIESREAD must be positive or -1"),
        ("XGROUP CREATE s i 0 FOO", "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP."),
        ("XGROUP CREATE s i bad MKSTREAM MKSTREAM ENTRIESREAD 1", "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP."),
        ("XGROUP SETID s g bad ENTRIESREAD 1 ENTRIESREAD 1", "-ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP."),
        ("XGROUP SETID s none 0 ENTRIESREAD 1 ENTRIESREAD 1", "-NOGROUP No such consumer group 'none' for key name 's'"),
        ("XGROUP CREATE s i -", "-ERR Invalid stream ID specified as stream command argument"),
        ("XGROUP CREATE s i 0 ENTRIESREAD", "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP."),
        ("XGROUP SETID s g 5", "+OK"),
        ("XGROUP SETID s g + ENTRIESREAD 2", "+OK"),
        ("XGROUP SETID s none 0", "-NOGROUP No such consumer group 'none' for key name 's'"),
        ("XGROUP SETID s g x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XGROUP SETID s g 0 MKSTREAM", "-ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP."),
        ("XGROUP CREATECONSUMER s g c", ":1"),
        ("XGROUP CREATECONSUMER s g c", ":0"),
        ("XGROUP CREATECONSUMER s none c", "-NOGROUP No such consumer group 'none' for key name 's'"),
        ("XGROUP CREATECONSUMER none g c", "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."),
        ("XGROUP DELCONSUMER s g d", ":0"),
        ("XGROUP DELCONSUMER s g c", ":0"),
        ("XGROUP DELCONSUMER s none c", "-NOGROUP No such consumer group 'none' for key name 's'"),
        ("XGROUP DESTROY s none", ":0"),
        ("XGROUP DESTROY s h", ":1"),
        ("XGROUP DESTROY none h", "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."),
        ("XGROUP CREATE s", "-ERR wrong number of arguments for 'xgroup|create' command"),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :0, "pending", :0, "last-delivered-id", "18446744073709551615-18446744073709551615", "entries-read", :2, "lag", :0]]"#),
        ("XINFO CONSUMERS s g", "[]"),
        ("XINFO CONSUMERS s none", "-NOGROUP No such consumer group 'none' for key name 's'"),
        ("XINFO GROUPS none", "-ERR no such key"),
        ("XINFO STREAM none", "-ERR no such key"),
        ("XINFO STREAM s FOO", "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."),
        ("XINFO STREAM s FULL COUNT", "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."),
        ("XINFO STREAM s FULL COUNT x", "-ERR value is not an integer or out of range"),
        ("XINFO STREAM s FULL", r#"["length", :0, "radix-tree-keys", :0, "radix-tree-nodes", :1, "last-generated-id", "0-0", "max-deleted-entry-id", "0-0", "entries-added", :0, "recorded-first-entry-id", "0-0", "entries", [], "groups", [["name", "g", "last-delivered-id", "18446744073709551615-18446744073709551615", "entries-read", :2, "lag", :0, "pel-count", :0, "pending", [], "consumers", []]]]"#),
        ("XINFO STREAM s", r#"["length", :0, "radix-tree-keys", :0, "radix-tree-nodes", :1, "last-generated-id", "0-0", "max-deleted-entry-id", "0-0", "entries-added", :0, "recorded-first-entry-id", "0-0", "groups", :1, "first-entry", nil, "last-entry", nil]"#),
    ]);
}

#[test]
fn reading_with_groups() {
    #[rustfmt::skip]
    check(&[
        ("XADD s 1-1 a b", r#""1-1""#),
        ("XADD s 1-2 a b", r#""1-2""#),
        ("XADD s 1-3 a b", r#""1-3""#),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XREADGROUP GROUP g c COUNT 2 STREAMS s >", r#"[["s", [["1-1", ["a", "b"]], ["1-2", ["a", "b"]]]]]"#),
        ("XREADGROUP GROUP g d NOACK STREAMS s >", r#"[["s", [["1-3", ["a", "b"]]]]]"#),
        ("XREADGROUP GROUP g d STREAMS s >", "nil-array"),
        ("XREADGROUP GROUP g c STREAMS s 0", r#"[["s", [["1-1", ["a", "b"]], ["1-2", ["a", "b"]]]]]"#),
        ("XREADGROUP GROUP g c COUNT 1 STREAMS s 0", r#"[["s", [["1-1", ["a", "b"]]]]]"#),
        ("XREADGROUP GROUP g c STREAMS s 1-1", r#"[["s", [["1-2", ["a", "b"]]]]]"#),
        ("XREADGROUP GROUP g d STREAMS s 0", r#"[["s", []]]"#),
        ("XPENDING s g", r#"[:2, "1-1", "1-2", [["c", "2"]]]"#),
        ("XDEL s 1-1", ":1"),
        ("XREADGROUP GROUP g c STREAMS s 0", r#"[["s", [["1-1", nil-array], ["1-2", ["a", "b"]]]]]"#),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :2, "pending", :2, "last-delivered-id", "1-3", "entries-read", :3, "lag", :0]]"#),
        ("XACK s g 1-1 1-1 1-9", ":1"),
        ("XACK s g x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XACK s none x", ":0"),
        ("XACK none g x", ":0"),
        ("XPENDING s g", r#"[:1, "1-2", "1-2", [["c", "1"]]]"#),
        ("XREADGROUP GROUP none c STREAMS s >", "-NOGROUP No such key 's' or consumer group 'none' in XREADGROUP with GROUP option"),
        ("XREADGROUP GROUP g c STREAMS none >", "-NOGROUP No such key 'none' or consumer group 'g' in XREADGROUP with GROUP option"),
        ("XREADGROUP GROUP g c STREAMS s $", "-ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."),
        ("XREADGROUP GROUP g c STREAMS s +", "-ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set."),
        ("XREADGROUP GROUP g c STREAMS s x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XREADGROUP GROUP g c STREAMS s s >", "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."),
        ("XREADGROUP COUNT 1 NOACK STREAMS s t 0 0", "-ERR Missing GROUP option for XREADGROUP"),
        ("XREADGROUP GROUP g c COUNT x STREAMS s >", "-ERR value is not an integer or out of range"),
        ("XREADGROUP GROUP g c BLOCK -1 STREAMS s >", "-ERR timeout is negative"),
        ("XREADGROUP GROUP g c FOO STREAMS s >", "-ERR syntax error"),
        ("XGROUP DELCONSUMER s g c", ":1"),
        ("XPENDING s g", "[:0, nil, nil, nil-array]"),
    ]);
}

#[test]
fn reading() {
    #[rustfmt::skip]
    check(&[
        ("XADD s 1-1 a b", r#""1-1""#),
        ("XADD s 1-2 a b", r#""1-2""#),
        ("XADD t 7-0 a b", r#""7-0""#),
        ("XREAD STREAMS s 0", r#"[["s", [["1-1", ["a", "b"]], ["1-2", ["a", "b"]]]]]"#),
        ("XREAD COUNT 1 STREAMS s t 1-1 0", r#"[["s", [["1-2", ["a", "b"]]]], ["t", [["7-0", ["a", "b"]]]]]"#),
        ("XREAD STREAMS s t 1-2 7", "nil-array"),
        ("XREAD STREAMS s +", r#"[["s", [["1-2", ["a", "b"]]]]]"#),
        ("XREAD STREAMS s $", "nil-array"),
        ("XREAD STREAMS none +", "nil-array"),
        ("XREAD COUNT 0 STREAMS t 0", r#"[["t", [["7-0", ["a", "b"]]]]]"#),
        ("XREAD COUNT -5 STREAMS t 0", r#"[["t", [["7-0", ["a", "b"]]]]]"#),
        ("XREAD STREAMS s >", "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."),
        ("XREAD STREAMS s x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XREAD STREAMS s t 0", "-ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified."),
        ("XREAD BLOCK x STREAMS s 0", "-ERR timeout is not an integer or out of range"),
        ("XREAD BLOCK -1 STREAMS s 0", "-ERR timeout is negative"),
        ("XREAD BLOCK 9223372036854775807 STREAMS s 0", "-ERR timeout is out of range"),
        ("XREAD COUNT x STREAMS s 0", "-ERR value is not an integer or out of range"),
        ("XREAD FOO STREAMS s 0", "-ERR syntax error"),
        ("XREAD BLOCK 1 STREAMS", "-ERR syntax error"),
        ("XREAD GROUP g c STREAMS s 0", "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."),
        ("XREAD NOACK STREAMS s 0", "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."),
        ("XREAD STREAMS s 18446744073709551615-18446744073709551615", "nil-array"),
    ]);
}

#[test]
fn claiming() {
    #[rustfmt::skip]
    check(&[
        ("XADD s 1-1 a b", r#""1-1""#),
        ("XADD s 1-2 a b", r#""1-2""#),
        ("XADD s 1-3 a b", r#""1-3""#),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XREADGROUP GROUP g c STREAMS s >", r#"[["s", [["1-1", ["a", "b"]], ["1-2", ["a", "b"]], ["1-3", ["a", "b"]]]]]"#),
        ("XCLAIM s g d 0 1-1", r#"[["1-1", ["a", "b"]]]"#),
        ("XCLAIM s g d 0 1-2 JUSTID", r#"["1-2"]"#),
        ("XCLAIM s g d 99999999 1-3", "[]"),
        ("XCLAIM s g d 0 1-3 RETRYCOUNT 7 JUSTID", r#"["1-3"]"#),
        ("XPENDING s g", r#"[:3, "1-1", "1-3", [["d", "3"]]]"#),
        ("XACK s g 1-1", ":1"),
        ("XCLAIM s g d 0 1-1", "[]"),
        ("XCLAIM s g d 0 1-1 FORCE", r#"[["1-1", ["a", "b"]]]"#),
        ("XCLAIM s g d 0 9-9 FORCE", "[]"),
        ("XDEL s 1-2", ":1"),
        ("XCLAIM s g d 0 1-2", "[]"),
        ("XPENDING s g", r#"[:2, "1-1", "1-3", [["d", "2"]]]"#),
        ("XCLAIM s g d 0 5 LASTID 8-8", "[]"),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :2, "pending", :2, "last-delivered-id", "8-8", "entries-read", :3, "lag", :0]]"#),
        ("XAUTOCLAIM s g e 0 0 COUNT 1", r#"["1-3", [["1-1", ["a", "b"]]], []]"#),
        ("XAUTOCLAIM s g e 0 (1-1 JUSTID", r#"["0-0", ["1-3"], []]"#),
        ("XDEL s 1-3", ":1"),
        ("XAUTOCLAIM s g e 0 -", r#"["0-0", [["1-1", ["a", "b"]]], ["1-3"]]"#),
        ("XPENDING s g", r#"[:1, "1-1", "1-1", [["e", "1"]]]"#),
        ("XCLAIM none g d 0 1", "-NOGROUP No such key 'none' or consumer group 'g'"),
        ("XCLAIM s none d 0 1", "-NOGROUP No such key 's' or consumer group 'none'"),
        ("XCLAIM s g d x 1", "-ERR Invalid min-idle-time argument for XCLAIM"),
        ("XCLAIM s g d 0 x", "-ERR Unrecognized XCLAIM option 'x'"),
        ("XCLAIM s g d 0 1 IDLE x", "-ERR Invalid IDLE option argument for XCLAIM"),
        ("XCLAIM s g d 0 1 IDLE", "-ERR Unrecognized XCLAIM option 'IDLE'"),
        ("XCLAIM s g d 0 1 TIME x", "-ERR Invalid TIME option argument for XCLAIM"),
        ("XCLAIM s g d 0 1 RETRYCOUNT x", "-ERR Invalid RETRYCOUNT option argument for XCLAIM"),
        ("XCLAIM s g d 0 1 LASTID x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XAUTOCLAIM none g d 0 0", "-NOGROUP No such key 'none' or consumer group 'g'"),
        ("XAUTOCLAIM s none d 0 0", "-NOGROUP No such key 's' or consumer group 'none'"),
        ("XAUTOCLAIM s g d x 0", "-ERR Invalid min-idle-time argument for XAUTOCLAIM"),
        ("XAUTOCLAIM s g d 0 x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XAUTOCLAIM s g d 0 0 COUNT 0", "-ERR COUNT must be > 0"),
        ("XAUTOCLAIM s g d 0 0 COUNT", "-ERR syntax error"),
        ("XAUTOCLAIM s g d 0 0 COUNT 9223372036854775807", "-ERR COUNT must be > 0"),
        ("XAUTOCLAIM s g d 0 0 FOO", "-ERR syntax error"),
        ("XAUTOCLAIM s g d 0 (18446744073709551615-18446744073709551615", "-ERR invalid start ID for the interval"),
        ("XPENDING s g - + 10 none", "[]"),
        ("XPENDING s g x + 10", "-ERR Invalid stream ID specified as stream command argument"),
        ("XPENDING s g - + x", "-ERR value is not an integer or out of range"),
        ("XPENDING s g - +", "-ERR syntax error"),
        ("XPENDING s g IDLE 5 - + 10", "[]"),
        ("XPENDING s g IDLE 5 - +", "-ERR syntax error"),
        ("XPENDING s g IDLE x - + 10", "-ERR value is not an integer or out of range"),
        ("XPENDING s none", "-NOGROUP No such key 's' or consumer group 'none'"),
        ("XPENDING none g", "-NOGROUP No such key 'none' or consumer group 'g'"),
        ("XPENDING s g - + -4", "[]"),
    ]);
}

#[test]
fn other_types_are_refused() {
    #[rustfmt::skip]
    check(&[
        ("SET k v", "+OK"),
        ("XADD k 1 a b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XADD k x a b", "-ERR Invalid stream ID specified as stream command argument"),
        ("XLEN k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XRANGE k - +", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XREVRANGE k + -", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XDEL k 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XDEL k x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XTRIM k MAXLEN 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XSETID k 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XREAD STREAMS k 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XREAD STREAMS k x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XGROUP CREATE k g 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XGROUP DESTROY k g", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XREADGROUP GROUP g c STREAMS k >", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XACK k g 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XPENDING k g", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XCLAIM k g c 0 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XAUTOCLAIM k g c 0 0", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XINFO STREAM k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XINFO GROUPS k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XINFO CONSUMERS k g", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XADD s 1 a b", r#""1-0""#),
        ("GET s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LPUSH s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("APPEND s x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn entries_read_and_lag() {
    #[rustfmt::skip]
    check(&[
        ("XADD s 1 a b", r#""1-0""#),
        ("XADD s 2 a b", r#""2-0""#),
        ("XADD s 3 a b", r#""3-0""#),
        ("XADD s 4 a b", r#""4-0""#),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XGROUP CREATE s h 1", "+OK"),
        ("XGROUP CREATE s i 2", "+OK"),
        ("XGROUP CREATE s j $", "+OK"),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :0, "pending", :0, "last-delivered-id", "0-0", "entries-read", nil, "lag", :4], ["name", "h", "consumers", :0, "pending", :0, "last-delivered-id", "1-0", "entries-read", nil, "lag", :3], ["name", "i", "consumers", :0, "pending", :0, "last-delivered-id", "2-0", "entries-read", nil, "lag", nil], ["name", "j", "consumers", :0, "pending", :0, "last-delivered-id", "4-0", "entries-read", nil, "lag", :0]]"#),
        ("XDEL s 1", ":1"),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :0, "pending", :0, "last-delivered-id", "0-0", "entries-read", nil, "lag", :3], ["name", "h", "consumers", :0, "pending", :0, "last-delivered-id", "1-0", "entries-read", nil, "lag", :3], ["name", "i", "consumers", :0, "pending", :0, "last-delivered-id", "2-0", "entries-read", nil, "lag", :2], ["name", "j", "consumers", :0, "pending", :0, "last-delivered-id", "4-0", "entries-read", nil, "lag", :0]]"#),
        ("XDEL s 3", ":1"),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :0, "pending", :0, "last-delivered-id", "0-0", "entries-read", nil, "lag", nil], ["name", "h", "consumers", :0, "pending", :0, "last-delivered-id", "1-0", "entries-read", nil, "lag", nil], ["name", "i", "consumers", :0, "pending", :0, "last-delivered-id", "2-0", "entries-read", nil, "lag", nil], ["name", "j", "consumers", :0, "pending", :0, "last-delivered-id", "4-0", "entries-read", nil, "lag", :0]]"#),
        ("XREADGROUP GROUP g c COUNT 1 NOACK STREAMS s >", r#"[["s", [["2-0", ["a", "b"]]]]]"#),
        ("XREADGROUP GROUP h c NOACK STREAMS s >", r#"[["s", [["2-0", ["a", "b"]], ["4-0", ["a", "b"]]]]]"#),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :1, "pending", :0, "last-delivered-id", "2-0", "entries-read", nil, "lag", nil], ["name", "h", "consumers", :1, "pending", :0, "last-delivered-id", "4-0", "entries-read", :4, "lag", :0], ["name", "i", "consumers", :0, "pending", :0, "last-delivered-id", "2-0", "entries-read", nil, "lag", nil], ["name", "j", "consumers", :0, "pending", :0, "last-delivered-id", "4-0", "entries-read", nil, "lag", :0]]"#),
        ("XTRIM s MAXLEN 0", ":2"),
        ("XINFO GROUPS s", r#"[["name", "g", "consumers", :1, "pending", :0, "last-delivered-id", "2-0", "entries-read", nil, "lag", :0], ["name", "h", "consumers", :1, "pending", :0, "last-delivered-id", "4-0", "entries-read", :4, "lag", :0], ["name", "i", "consumers", :0, "pending", :0, "last-delivered-id", "2-0", "entries-read", nil, "lag", :0], ["name", "j", "consumers", :0, "pending", :0, "last-delivered-id", "4-0", "entries-read", nil, "lag", :0]]"#),
    ]);
}

const NOT_AN_ID: &str = "-ERR Invalid stream ID specified as stream command argument";

/// A stream with these entries, all of which were sent to two groups.
fn two_groups_with(entries: &[&str]) -> Bench {
    let mut bench = Bench::new();
    for id in entries {
        bench.check(&format!("XADD s {id} f v"), &format!("\"{id}\""));
    }
    for group in ["g", "h"] {
        bench.check(&format!("XGROUP CREATE s {group} 0"), "+OK");
        bench.run(&format!("XREADGROUP GROUP {group} c STREAMS s >"));
    }
    bench
}

fn pending(bench: &mut Bench, group: &str) -> String {
    let mut ids = Vec::new();
    for id in ["1-1", "1-2", "1-3"] {
        if bench.run(&format!("XPENDING s {group} {id} {id} 1")) != "[]" {
            ids.push(id);
        }
    }
    ids.join(" ")
}

#[test]
fn xackdel_acknowledges_and_deletes() {
    let mut bench = two_groups_with(&["1-1", "1-2", "1-3"]);
    // Without a mode, other groups keep their pending entries.
    bench.check("XACKDEL s g IDS 2 1-1 9-9", "[:1, :-1]");
    bench.check("XLEN s", ":2");
    assert_eq!(
        (pending(&mut bench, "g"), pending(&mut bench, "h")),
        ("1-2 1-3".into(), "1-1 1-2 1-3".into())
    );
    bench.check("XACKDEL s g KEEPREF IDS 1 1-1", "[:-1]");
    // An entry that is deleted already is acknowledged, and counts as deleted.
    bench.check("xackdel s h keepref ids 1 1-1", "[:1]");
    bench.check("XACKDEL s g DELREF IDS 1 1-2", "[:1]");
    assert_eq!((pending(&mut bench, "g"), pending(&mut bench, "h")), ("1-3".into(), "1-3".into()));
    bench.check("XLEN s", ":1");
    bench.check("XACKDEL s g DELREF IDS 2 1-3 1-3", "[:1, :-1]");
    bench.check("XLEN s", ":0");
    assert_eq!(pending(&mut bench, "h"), "");
}

#[test]
fn xackdel_acked_deletes_what_no_group_needs() {
    let mut bench = two_groups_with(&["1-1", "1-2", "1-3"]);
    bench.check("XACKDEL s g ACKED IDS 2 1-1 1-2", "[:2, :2]");
    bench.check("XLEN s", ":3");
    assert_eq!((pending(&mut bench, "g"), pending(&mut bench, "h")), ("1-3".into(), "1-1 1-2 1-3".into()));
    bench.check("XACKDEL s g ACKED IDS 1 1-1", "[:-1]");
    bench.check("XACKDEL s h ACKED IDS 1 1-1", "[:1]");
    bench.check("XLEN s", ":2");
    // A group that has not been sent the entry yet needs the entry, too.
    bench.check("XGROUP SETID s h 1-1", "+OK");
    bench.check("XACK s h 1-3", ":1");
    bench.check("XACKDEL s g ACKED IDS 1 1-3", "[:2]");
    bench.check("XGROUP SETID s h 1-3", "+OK");
    bench.check("XACKDEL s h ACKED IDS 1 1-2", "[:1]");
    bench.check("XRANGE s - +", "[[\"1-3\", [\"f\", \"v\"]]]");
    // A deleted entry cannot be sent; if it is pending in another group, it is needed all the same.
    let mut bench = two_groups_with(&["1-1", "1-2"]);
    bench.check("XDEL s 1-1 1-2", ":2");
    bench.check("XGROUP CREATE s new 0", "+OK");
    bench.check("XACKDEL s g ACKED IDS 1 1-1", "[:2]");
    bench.check("XACKDEL s h ACKED IDS 1 1-1", "[:1]");
    assert_eq!((pending(&mut bench, "g"), pending(&mut bench, "h")), ("1-2".into(), "1-2".into()));
}

#[test]
fn xdelex_deletes_and_heeds_groups() {
    let mut bench = two_groups_with(&["1-1", "1-2", "1-3"]);
    bench.check("XDELEX s IDS 3 1-1 9-9 1-1", "[:1, :-1, :-1]");
    assert_eq!(
        (pending(&mut bench, "g"), pending(&mut bench, "h")),
        ("1-1 1-2 1-3".into(), "1-1 1-2 1-3".into())
    );
    // DELREF also removes the references to a deleted entry.
    bench.check("XDELEX s DELREF IDS 2 1-1 1-2", "[:-1, :1]");
    assert_eq!((pending(&mut bench, "g"), pending(&mut bench, "h")), ("1-3".into(), "1-3".into()));
    bench.check("XDELEX s ACKED IDS 2 1-3 1-2", "[:2, :-1]");
    bench.check("XACK s g 1-3", ":1");
    bench.check("XDELEX s ACKED IDS 1 1-3", "[:2]");
    bench.check("XACK s h 1-3", ":1");
    bench.check("XGROUP CREATE s late 1-2", "+OK");
    bench.check("XDELEX s ACKED IDS 1 1-3", "[:2]");
    bench.check("XGROUP SETID s late 1-3", "+OK");
    bench.check("XDELEX s ACKED IDS 1 1-3", "[:1]");
    bench.check("XLEN s", ":0");
    bench.check("EXISTS s", ":1");
    // A deleted entry that is pending is still needed; without groups, no entry is needed.
    let mut bench = two_groups_with(&["1-1"]);
    bench.check("XDEL s 1-1", ":1");
    bench.check("XDELEX s ACKED IDS 1 1-1", "[:2]");
    bench.check("XADD alone 1-1 f v", "\"1-1\"");
    bench.check("XDELEX alone ACKED IDS 1 1-1", "[:1]");
}

#[test]
fn what_deletes_with_regard_to_groups_checks_its_arguments() {
    let mut bench = two_groups_with(&["1-1"]);
    bench.check("SET k v", "+OK");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for (command, name) in [("XACKDEL s g", "xackdel"), ("XDELEX s", "xdelex")] {
        let mut check = |rest: &str, expected: &str| bench.check(&format!("{command} {rest}"), expected);
        check("IDS 1", &format!("-ERR wrong number of arguments for '{name}' command"));
        check("IDS 2 1-1", "-ERR syntax error");
        check("IDS 1 1-1 1-2", "-ERR syntax error");
        check("IDS 9223372036854775807 1-1", "-ERR syntax error");
        check("IDS 0 1-1", "-ERR The IDs argument must be a positive integer");
        check("IDS -1 1-1", "-ERR The IDs argument must be a positive integer");
        check("IDS x 1-1", "-ERR value is not an integer or out of range");
        check("SOME 1 1-1", "-ERR syntax error");
        check("ACKED SOME 1 1-1", "-ERR syntax error");
        check("ACKED DELREF IDS 1 1-1", "-ERR syntax error");
        check("IDS 2 1-1 x", NOT_AN_ID);
    }
    bench.check("XLEN s", ":1");
    assert_eq!(pending(&mut bench, "g"), "1-1");
    bench.check("XACKDEL none g IDS 2 1-1 x", "[:-1, :-1]");
    bench.check("XACKDEL s none IDS 1 1-1", "[:-1]");
    bench.check("XDELEX none IDS 2 1-1 x", "[:-1, :-1]");
    bench.check("EXISTS none", ":0");
    bench.check("XACKDEL k g IDS 1 1-1", wrong_type);
    bench.check("XDELEX k IDS 1 1-1", wrong_type);
    bench.check("XDELEX s IDS 1 1", "[:-1]");
}
