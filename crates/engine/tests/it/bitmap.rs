//! Bitmap commands: propagation to replicas, and keyspace events. Calls and replies
//! are in `crates/commands/tests/it/bitmap.rs`.

use sluice_testkit::{Rig, render};

#[test]
fn a_write_that_changes_nothing_is_none() {
    let mut rig = Rig::with(&[("notify-keyspace-events", "KEA")]);
    let replica = rig.replica();
    let listener = rig.connect();
    rig.run_as(listener, "PSUBSCRIBE __keyevent@0__:*");
    let check = |rig: &mut Rig, line: &str, fed: &str, events: &str| {
        rig.run(line);
        assert_eq!(rig.fed(replica), fed, "what {line} propagates");
        let told = render(&rig.output(listener));
        let names: Vec<&str> = told.lines().filter_map(|line| line.rsplit("__:").next()).collect();
        let names: Vec<&str> = names.iter().filter_map(|line| line.split('"').next()).collect();
        assert_eq!(names.join(" "), events, "what {line} publishes");
    };
    check(&mut rig, "SETBIT k 7 1", "SETBIT k 7 1", "setbit");
    check(&mut rig, "SETBIT k 7 1", "", "");
    check(&mut rig, "SETBIT k 8 0", "SETBIT k 8 0", "setbit");
    check(&mut rig, "BITFIELD k SET u8 0 1", "", "");
    check(&mut rig, "BITFIELD k GET u8 0", "", "");
    check(&mut rig, "BITFIELD k INCRBY u8 0 1", "BITFIELD k INCRBY u8 0 1", "setbit");
    // The reference publishes nothing here either. Unlike in the reference, replicas get the growth
    // of the string.
    let grown = "BITFIELD k OVERFLOW FAIL INCRBY u2 30 9";
    check(&mut rig, grown, grown, "");
    check(&mut rig, "BITOP NOT d k", "BITOP NOT d k", "set");
    check(&mut rig, "BITOP NOT d none", "BITOP NOT d none", "del");
    check(&mut rig, "BITOP NOT d none", "", "");
}
