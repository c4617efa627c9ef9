//! What happens to keys, as notifications will name it: which events, of which keys, in which order.
#![allow(missing_docs)]

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
    (&["SET a 1", "RENAME a b"], "0:rename_from a; 0:rename_to b"),
    (&["MSET a 1 b 2", "RENAME a b"], "0:rename_from a; 0:rename_to b"),
    (&["SET a 1", "RENAME a a"], ""),
    (&["SET a 1", "MOVE a 3"], "0:move_from a; 3:move_to a"),
    (&["MOVE a 3"], ""),
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
