//! Tests keyspace notifications: which events commands publish, for which keys, and in which order.

use sluice_testkit::Rig;

/// Commands, and the events of the last of them, as `db:event key`.
#[rustfmt::skip]
const ROWS: &[(&[&str], &str)] = &[
    (&["SET k v"], "0:set k"),
    (&["SET k v EX 100"], "0:set k; 0:expire k"),
    (&["SET k v NX", "SET k w NX"], ""),
    (&["SET k v", "SET k w KEEPTTL GET"], "0:set k"),
    (&["SETEX k 100 v"], "0:set k; 0:expire k"),
    (&["MSET a 1 b 2 a 3"], "0:set a; 0:set b; 0:set a"),
    (&["APPEND k v"], "0:append k"),
    (&["SETRANGE k 1 v"], "0:setrange k"),
    (&["INCR k"], "0:incrby k"),
    (&["SET k 1", "INCRBY k 5"], "0:incrby k"),
    (&["INCRBYFLOAT k 1.5"], "0:incrbyfloat k"),
    (&["INCREX k"], "0:incrby k"),
    (&["INCREX k BYFLOAT 1.5"], "0:incrbyfloat k"),
    (&["INCREX k EX 100"], "0:incrby k; 0:expire k"),
    (&["SET k 1 EX 100", "INCREX k PERSIST"], "0:incrby k; 0:persist k"),
    (&["SET k 1", "INCREX k PERSIST"], "0:incrby k"),
    (&["SET k 1", "INCREX k NX"], ""),
    (&["SET k 1", "INCREX k EXAT 1"], "0:expired k"),
    (&["XADD s 1-1 a b", "XADD s 1-2 a b", "XDELEX s IDS 3 1-1 1-2 1-3"], "0:xdel s"),
    (&["XADD s 1-1 a b", "XDELEX s IDS 1 1-3"], ""),
    (&["XADD s 1-1 a b", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XACKDEL s g IDS 1 1-1"], "0:xdel s"),
    (
        &[
            "XADD s 1-1 a b",
            "XGROUP CREATE s g 0",
            "XGROUP CREATE s h 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "XACKDEL s g ACKED IDS 1 1-1",
        ],
        "",
    ),
    (&["SET a 1", "RENAME a b"], "0:rename_from a; 0:rename_to b"),
    (&["MSET a 1 b 2", "RENAME a b"], "0:rename_from a; 0:rename_to b"),
    (&["SET a 1", "RENAME a a"], ""),
    (&["SET a 1", "MOVE a 3"], "0:move_from a; 3:move_to a"),
    (&["MOVE a 3"], ""),
    (&["SET a 1", "COPY a a DB 3", "MOVE a 3 REPLACE"], "0:move_from a; 3:move_to a"),
    (&["SET a 1", "COPY a b DB 2"], "2:copy_to b"),
    (&["SET a 1", "EXPIRE a 100"], "0:expire a"),
    (&["SET a 1", "EXPIRE a 100 XX"], ""),
    (&["SET a 1 EX 100", "PERSIST a"], "0:persist a"),
    (&["SET a 1 EX 100", "GETEX a PERSIST"], "0:persist a"),
    (&["MSET a 1 b 2", "DEL b nosuch a"], "0:del b; 0:del a"),
    (&["SET a 1", "GETDEL a"], "0:del a"),
    (&["SET a 1 PX 5", "!pass", "GET a"], "0:expired a"),
    (&["SET a 1 PX 5", "!pass", "SET a 2"], "0:expired a; 0:set a"),
    (&["SET a 1 PX 5", "!pass", "MGET a a"], "0:expired a"),
    (&["SET a 1 PX 5", "!pass", "!cron"], "0:expired a"),
    (&["RPUSH k a b"], "0:rpush k"),
    (&["LPUSH k a"], "0:lpush k"),
    (&["RPUSH k a", "LPUSHX k b"], "0:lpush k"),
    (&["RPUSH k a", "RPUSHX k b"], "0:rpush k"),
    (&["RPUSH k a", "LINSERT k BEFORE a b"], "0:linsert k"),
    (&["RPUSH k a", "LINSERT k BEFORE x b"], ""),
    (&["RPUSH k a", "LSET k 0 b"], "0:lset k"),
    (&["RPUSH k a b", "LREM k 0 a"], "0:lrem k"),
    (&["RPUSH k a b", "LREM k 0 x"], ""),
    (&["RPUSH k a", "LREM k 0 a"], "0:lrem k; 0:del k"),
    (&["RPUSH k a b", "LTRIM k 0 0"], "0:ltrim k"),
    (&["RPUSH k a b", "LTRIM k 0 -1"], "0:ltrim k"),
    (&["RPUSH k a b", "LTRIM k 5 6"], "0:ltrim k; 0:del k"),
    (&["RPUSH k a b", "LPOP k"], "0:lpop k"),
    (&["RPUSH k a b", "RPOP k 2"], "0:rpop k; 0:del k"),
    (&["RPUSH k a", "LPOP k"], "0:lpop k; 0:del k"),
    (&["RPUSH k a", "LPOP k 0"], ""),
    (&["RPUSH k a b c", "LMPOP 2 l k LEFT COUNT 2"], "0:lpop k"),
    (&["RPUSH k a", "LMPOP 1 k RIGHT"], "0:rpop k; 0:del k"),
    (&["RPUSH k a b", "LMOVE k l LEFT RIGHT"], "0:rpush l; 0:lpop k"),
    (&["RPUSH k a", "LMOVE k l RIGHT LEFT"], "0:lpush l; 0:rpop k; 0:del k"),
    (&["RPUSH k a b", "LMOVE k k LEFT RIGHT"], "0:rpush k; 0:lpop k"),
    (&["RPUSH k a", "RPOPLPUSH k k"], "0:lpush k; 0:rpop k"),
    (&["RPUSH k a", "RPOPLPUSH k l"], "0:lpush l; 0:rpop k; 0:del k"),
    (&["RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\""], "0:restore k"),
    (&["SET k x", "RESTORE k 10000 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE"], "0:restore k"),
    (&["SET k x", "RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE ABSTTL"], "0:del k"),
    (&["SET k x PX 5", "!pass", "RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\""], "0:expired k; 0:restore k"),
    (&["SET k x PX 5", "!pass", "RESTORE k 0 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" REPLACE"], "0:restore k"),
    (&["RESTORE k 1 \"\\x00\\x01vP\\x00^\\x22\\x07#\\x87j\\xed:\" ABSTTL"], ""),
];

#[test]
fn events_are_these_in_this_order() {
    for (lines, expected) in ROWS {
        let mut rig = Rig::new();
        rig.engine.record_events();
        let mut events = Vec::new();
        for line in *lines {
            rig.engine.take_events();
            match *line {
                "!pass" => rig.pass_ms(10),
                "!cron" => rig.cron(),
                line => assert!(!rig.run(line).starts_with('-'), "{line}"),
            }
            events = rig.engine.take_events();
        }
        assert_eq!(events.join("; "), *expected, "{lines:?}");
    }
}

#[test]
fn events_are_not_kept_where_nobody_listens() {
    let mut rig = Rig::new();
    rig.run("SET k v");
    assert!(rig.engine.take_events().is_empty());
}

#[test]
fn changes_count_the_same_whether_somebody_listens() {
    for (lines, _) in ROWS {
        let [silent, heard] = [false, true].map(|listens| {
            let mut rig = Rig::new();
            if listens {
                rig.engine.record_events();
            }
            for line in *lines {
                match *line {
                    "!pass" => rig.pass_ms(10),
                    "!cron" => rig.cron(),
                    line => drop(rig.run(line)),
                }
            }
            let info = rig.run("INFO persistence");
            let at = info.find("rdb_changes_since_last_save:").expect("a field");
            info[at..].split("\\r").next().unwrap_or_default().to_owned()
        });
        assert_eq!(silent, heard, "{lines:?}");
    }
}
