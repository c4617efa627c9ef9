//! HyperLogLog commands: propagation to replicas, and keyspace events. Calls and replies
//! are in `crates/commands/tests/it/hyperloglog.rs`.

use sluice_testkit::{Rig, render};

#[test]
fn counting_keeps_the_estimate_and_tells_replicas() {
    let mut rig = Rig::with(&[("notify-keyspace-events", "KEA")]);
    let replica = rig.replica();
    let listener = rig.connect();
    rig.run_as(listener, "PSUBSCRIBE __keyevent@0__:*");
    rig.check("PFADD h a b", ":1");
    assert_eq!(rig.fed(replica), "PFADD h a b");
    assert!(render(&rig.output(listener)).contains("pfadd"));
    rig.check("PFADD h a b", ":0");
    assert_eq!(rig.fed(replica), "");
    let watcher = rig.connect();
    rig.run_as(watcher, "WATCH h");
    rig.run_as(watcher, "MULTI");
    rig.run_as(watcher, "PING");
    rig.check("PFCOUNT h", ":2");
    assert_eq!(rig.fed(replica), "PFCOUNT h");
    assert_eq!(rig.output(listener), b"", "no event tells that an estimate was kept");
    assert_eq!(rig.run_as(watcher, "EXEC"), "nil-array", "but it is a change of the key");
    rig.check("PFCOUNT h", ":2");
    assert_eq!(rig.fed(replica), "");
    rig.check("PFCOUNT h h", ":2");
    assert_eq!(rig.fed(replica), "");
    rig.check("PFMERGE m h", "+OK");
    assert_eq!(rig.fed(replica), "PFMERGE m h");
    assert!(render(&rig.output(listener)).contains("pfadd"));
}
