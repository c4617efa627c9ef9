//! Set commands: propagation to replicas, keyspace events, saves, and requests of one batch. Calls and
//! replies are in `crates/commands/tests/it/set.rs`.

use sluice_testkit::{Rig, render};

#[test]
fn what_changes_is_published_and_propagated() {
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
    check(&mut rig, "SADD a 1", "SADD a 1", "sadd");
    check(&mut rig, "SADD a 1", "", "");
    check(&mut rig, "SREM a 2", "", "");
    check(&mut rig, "SPOP a", "SREM a 1", "spop del");
    check(&mut rig, "SADD a 1 2", "SADD a 1 2", "sadd");
    check(&mut rig, "SPOP a 0", "", "");
    check(&mut rig, "SPOP a 2", "UNLINK a", "spop del");
    check(&mut rig, "SPOP a 2", "", "");
    check(&mut rig, "SADD a 1 2", "SADD a 1 2", "sadd");
    check(&mut rig, "SMOVE a b 1", "SMOVE a b 1", "srem sadd");
    check(&mut rig, "SMOVE a b 2", "SMOVE a b 2", "srem del sadd");
    check(&mut rig, "SMOVE b b 2", "", "");
    check(&mut rig, "SINTERSTORE c b", "SINTERSTORE c b", "sinterstore");
    check(&mut rig, "SUNIONSTORE c b", "SUNIONSTORE c b", "sunionstore");
    check(&mut rig, "SDIFFSTORE c b none", "SDIFFSTORE c b none", "sdiffstore");
    check(&mut rig, "SDIFFSTORE c b b", "SDIFFSTORE c b b", "del");
    check(&mut rig, "SDIFFSTORE c b b", "", "");
    check(&mut rig, "SREM b 1 2 3", "SREM b 1 2 3", "srem del");
    rig.run("CONFIG SET lazyfree-lazy-server-del no");
    check(&mut rig, "SADD a 1 2", "SADD a 1 2", "sadd");
    check(&mut rig, "SPOP a 5", "DEL a", "spop del");
}

#[test]
fn many_members_that_are_popped_propagate_in_several_commands() {
    let mut rig = Rig::new();
    let members: Vec<String> = (0..5000).map(|n| format!("m{n}")).collect();
    rig.run(&format!("SADD k {}", members.join(" ")));
    let replica = rig.replica();
    rig.run("SPOP k 2500");
    let fed = rig.fed(replica);
    let commands: Vec<&str> = fed.split("; ").collect();
    assert_eq!((commands[0], commands.len()), ("MULTI", 5), "MULTI, three commands, EXEC");
    let lens: Vec<usize> = commands[1..4].iter().map(|command| command.split(' ').count() - 2).collect();
    assert_eq!(lens, [1024, 1024, 452]);
}

#[test]
fn values_are_saved_and_loaded() {
    let mut rig = Rig::new();
    for (key, members) in
        [("ints", "1 2 70000"), ("pack", "a b 5"), ("table", &format!("a 1 {}", "x".repeat(70)))]
    {
        rig.run(&format!("SADD {key} {members}"));
        let (digest, encoding) =
            (rig.run(&format!("DEBUG DIGEST-VALUE {key}")), rig.run(&format!("OBJECT ENCODING {key}")));
        rig.check("DEBUG RELOAD", "+OK");
        assert_eq!(rig.run(&format!("DEBUG DIGEST-VALUE {key}")), digest);
        assert_eq!(rig.run(&format!("OBJECT ENCODING {key}")), encoding);
    }
}

#[test]
fn a_source_that_has_expired_is_deleted_before_the_result_is_stored() {
    let mut rig = Rig::with(&[("notify-keyspace-events", "KEA")]);
    rig.run("SADD a 1 2");
    rig.run("SADD b 1");
    rig.run("PEXPIRE b 1");
    rig.pass_ms(5);
    let (listener, replica) = (rig.connect(), rig.replica());
    rig.run_as(listener, "PSUBSCRIBE __keyevent@0__:*");
    rig.check("SDIFFSTORE c a b", ":2");
    let told = render(&rig.output(listener));
    let at = |event: &str| told.find(event).expect("the event is published");
    assert!(at("expired") < at("sdiffstore"));
    let fed = rig.fed(replica);
    assert!(fed.contains("UNLINK b; SDIFFSTORE c a b"), "{fed}");
}

/// Adds the members in the range `members` to a set, in requests of a hundred.
fn fill(rig: &mut Rig, key: &str, members: std::ops::Range<usize>) {
    for at in members.clone().step_by(100) {
        let names = (at..members.end.min(at + 100)).map(|member| format!(" member:{member}"));
        rig.run(&format!("SADD {key}{}", names.collect::<String>()));
    }
}

#[test]
fn requests_in_a_row_for_one_large_set_are_answered_one_by_one() {
    let mut rig = Rig::new();
    fill(&mut rig, "s", 0..3000);
    let client = rig.connect();
    let input =
        b"SADD s member:7\r\nSADD s\r\nSADD s new member:8\r\nSISMEMBER s new\r\nSCARD s\r\nSREM s new\r\n\
        GET s\r\nDEL s\r\nSADD s member:7\r\nHSET s f v\r\nSCARD s\r\n";
    let replies = rig.bytes(client, input);
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let expected = format!(
        ":0\r\n-ERR wrong number of arguments for 'sadd' command\r\n:1\r\n:1\r\n:3001\r\n:1\r\n{wrong}:1\r\n:1\r\n{wrong}:1\r\n"
    );
    assert_eq!(String::from_utf8_lossy(&replies), expected);
}
