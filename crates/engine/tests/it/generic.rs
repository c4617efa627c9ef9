//! Commands about keys of any type: CLIENT NO-TOUCH, and clients that a stored sort serves. Calls and
//! replies are in `crates/commands/tests/it/generic.rs`.

use sluice_testkit::{Rig, render};

#[test]
fn no_touch_leaves_the_last_use_of_a_key_alone_but_for_touch() {
    let mut rig = Rig::new();
    rig.check("SET k v", "+OK");
    rig.check("CLIENT NO-TOUCH on", "+OK");
    rig.pass_ms(3000);
    rig.check("GET k", "\"v\"");
    rig.check("OBJECT IDLETIME k", ":3");
    rig.check("TOUCH k", ":1");
    rig.check("OBJECT IDLETIME k", ":0");
}

#[test]
fn a_stored_sort_is_published_propagated_and_serves_who_waits() {
    let mut rig = Rig::with(&[("notify-keyspace-events", "KEA")]);
    rig.run("RPUSH l 2 1");
    let replica = rig.replica();
    let (listener, waiter) = (rig.connect(), rig.connect());
    rig.run_as(listener, "PSUBSCRIBE __keyevent@0__:*");
    rig.run_as(waiter, "BLPOP d 0");
    rig.check("SORT l STORE d", ":2");
    assert!(render(&rig.output(listener)).contains("sortstore"));
    assert_eq!(render(&rig.output(waiter)), r#"["d", "1"]"#);
    assert_eq!(rig.fed(replica), "SORT l STORE d; LPOP d");
    rig.check("SORT none STORE d", ":0");
    assert_eq!(rig.fed(replica), "SORT none STORE d");
    rig.check("SORT none STORE d", ":0");
    assert_eq!(rig.fed(replica), "");
    rig.check("SORT l", r#"["1", "2"]"#);
    assert_eq!(rig.fed(replica), "");
}
