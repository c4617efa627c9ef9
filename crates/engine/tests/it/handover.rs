//! Tests the shutdown of a cluster node: replicas that take over, and clients that are redirected (M10 to
//! M13).

use crate::cluster::{Buses, joined};
use sluice_base::SessionKey;
use sluice_control::action::Action;
use sluice_control::persistence::ending::EndOrder;
use sluice_engine::EndBegun;
use sluice_replication::HistoryPoint;
use sluice_testkit::{Rig, RigLink};

const HEIR: &str = "cccccccccccccccccccccccccccccccccccccccc";
const ORDER: &str = "CLUSTER FAILOVER FORCE REPLICAID cccccccccccccccccccccccccccccccccccccccc";

fn has_ended(rig: &Rig) -> bool {
    rig.actions.iter().any(|action| matches!(action, Action::Shutdown))
}

fn has_logged(rig: &Rig, text: &str) -> bool {
    rig.process.log.iter().any(|(_, line)| line.contains(text))
}

/// A replica that announces itself with these words of REPLCONF, and takes the stream.
pub(crate) fn announced(rig: &mut Rig, words: &str) -> SessionKey {
    let replica = rig.connect();
    rig.run_as(replica, &format!("REPLCONF {words}"));
    rig.engine.feed(replica);
    rig.fed(replica);
    replica
}

fn acknowledge(rig: &mut Rig, replica: SessionKey) {
    let info = rig.run("INFO replication");
    let offset = info.split("master_repl_offset:").nth(1).unwrap().split("\\r").next().unwrap().to_owned();
    rig.argv_unread(replica, &[b"REPLCONF", b"ACK", offset.as_bytes()]);
    rig.end_iteration();
}

/// Connects the third node to its primary, and returns the session of the replication link.
fn stream_of_heir(buses: &mut Buses) -> SessionKey {
    let rig = &mut buses.nodes[2].1;
    rig.engine.adopt_history(HistoryPoint { replid: "1".repeat(40), offset: 100 }, &mut rig.process);
    RigLink::streaming(rig)
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// Three nodes, of which the second has ordered its replica, the third, to take over, and waits for the
/// takeover. Also returns the client of SHUTDOWN, and a client whose write waits.
fn handing_over() -> (Buses, SessionKey, SessionKey) {
    let mut buses = joined();
    let stream = stream_of_heir(&mut buses);
    let rig = &mut buses.nodes[1].1;
    let replica = announced(rig, &format!("version 9.0.0 set-cluster-node-id {HEIR}"));
    rig.check("SET {a} 1", "+OK");
    let (asker, writer) = (rig.connect(), rig.connect());
    rig.argv_unread(asker, &words("SHUTDOWN FAILOVER"));
    rig.argv_unread(writer, &words("SET {a} 2"));
    rig.end_iteration();
    let fed = rig.fed(replica);
    assert!(fed.ends_with("REPLCONF GETACK *"), "{fed}");
    assert!(!has_logged(rig, "Perform auto failover"));
    acknowledge(rig, replica);
    assert_eq!(rig.fed(replica), ORDER);
    assert!(has_logged(rig, &format!("Perform auto failover to replica {HEIR} on shutdown.")));
    assert!(!has_ended(rig) && rig.output(writer).is_empty());
    rig.check("SHUTDOWN ABORT", "-ERR The shutdown can't be aborted: a replica is taking over.");

    let heir = &mut buses.nodes[2].1;
    heir.argv_unread(stream, &words("CLUSTER FAILOVER FORCE REPLICAID bbbb"));
    assert!(!has_logged(heir, "failover"), "another one is meant");
    heir.argv_unread(stream, &words(ORDER));
    assert!(has_logged(heir, "Forced failover primary request accepted (primary request from 'id="));
    (buses, asker, writer)
}

#[test]
fn cl_m10_m11_a_primary_waits_for_its_heir_and_then_for_its_clients() {
    let (mut buses, _, writer) = handing_over();
    buses.pass_ms(200);
    assert!(buses.nodes[2].1.run("ROLE").contains("master"));
    let rig = &mut buses.nodes[1].1;
    let moved = "MOVED 15495 10.0.0.1:7002";
    assert_eq!(String::from_utf8(rig.output(writer)).unwrap(), format!("-{moved}\r\n"));
    rig.check("READONLY", "+OK");
    rig.check("GET {a}", &format!("-{moved}"));
    rig.check("PING", "+PONG");
    assert!(has_logged(rig, "Clients are redirected before this node shuts down."));
    assert!(!rig.run("CLUSTER SLOTS").contains(":7001"));
    buses.pass_ms(2_600);
    assert!(!buses.nodes[0].1.run("CLUSTER SLOTS").contains(":7001"), "others have heard");
    assert!(!has_ended(&buses.nodes[1].1), "two clients are there");
    buses.pass_ms(500);
    assert!(has_ended(&buses.nodes[1].1));
}

#[test]
fn an_end_after_a_handover_does_not_wait_for_clients_that_have_gone_and_can_be_taken_back() {
    for has_gone in [true, false] {
        let (mut buses, asker, writer) = handing_over();
        buses.pass_ms(100);
        let rig = &mut buses.nodes[1].1;
        if has_gone {
            let client = rig.client;
            rig.engine.disconnect(client, &mut rig.process);
            rig.engine.disconnect(writer, &mut rig.process);
            assert!(!has_ended(rig), "others have to hear first");
            buses.pass_ms(300);
            assert!(has_ended(&buses.nodes[1].1));
            continue;
        }
        rig.check("SHUTDOWN ABORT", "+OK");
        rig.end_iteration();
        assert_eq!(rig.output(asker), b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
        assert!(rig.actions.iter().any(|action| matches!(action, Action::KeepRunning)));
        rig.check("READONLY", "+OK");
        assert!(!rig.run("GET {a}").contains("MOVED"), "it is a replica like others");
        buses.pass_ms(4_000);
        assert!(!has_ended(&buses.nodes[1].1));
    }
}

#[test]
fn cl_m6_an_heir_that_does_not_take_over_is_not_waited_for_for_ever() {
    let mut buses = joined();
    let rig = &mut buses.nodes[1].1;
    let replica = announced(rig, &format!("version 9.1.2 set-cluster-node-id {HEIR}"));
    rig.check("SET {a} 1", "+OK");
    rig.check("CONFIG SET shutdown-on-sigterm failover shutdown-timeout 2", "+OK");
    let order = EndOrder::of_flags(32);
    assert_eq!(rig.engine.begin_end(&order, &mut rig.process), EndBegun::Waits);
    rig.end_iteration();
    acknowledge(rig, replica);
    assert!(rig.fed(replica).ends_with(ORDER));
    buses.pass_ms(1_800);
    assert!(!has_ended(&buses.nodes[1].1));
    buses.pass_ms(300);
    let rig = &buses.nodes[1].1;
    assert!(has_ended(rig) && has_logged(rig, "The replica has not taken over in time. Exit anyway."));
}

/// A replica that took over would never get the writes of the open script, though the client's reply
/// says that they were made.
#[test]
fn a_primary_hands_nothing_over_while_a_script_stands_open() {
    let mut buses = joined();
    let rig = &mut buses.nodes[1].1;
    let replica = announced(rig, &format!("version 9.1.2 set-cluster-node-id {HEIR}"));
    rig.check("CONFIG SET busy-reply-threshold 10", "+OK");
    rig.check("SET {a} 1", "+OK");
    rig.end_iteration();
    acknowledge(rig, replica);
    let other = rig.connect();
    rig.process.us_each_look = 100;
    rig.check("EVAL \"redis.call('SET',KEYS[1],2) while true do end\" 1 {a}", "");
    (0..20).for_each(|_| rig.engine.advance_unit(&mut rig.process));
    rig.run_as(other, "SHUTDOWN NOSAVE FAILOVER");
    rig.end_iteration();
    assert!(rig.engine.has_open_unit() && !rig.fed(replica).contains("FAILOVER"));
    assert!(has_ended(rig), "{:?}", rig.process.log);
}

#[test]
fn cl_m10_whom_a_primary_does_not_ask() {
    let unable = "Unable to find a replica to perform the auto failover on shutdown.";
    let legacy = "Unable to perform auto failover on shutdown since there are legacy replicas.";
    for (replicas, line) in [
        (&[][..], unable),
        (&["version 9.1.2"], unable),
        // Gossip does not know the announced id (M12).
        (&["version 9.1.2 set-cluster-node-id dddddddddddddddddddddddddddddddddddddddd"], unable),
        (
            &["version 9.1.2 set-cluster-node-id cccccccccccccccccccccccccccccccccccccccc", "version 8.1.9"],
            legacy,
        ),
        (&["set-cluster-node-id cccccccccccccccccccccccccccccccccccccccc"], legacy),
    ] {
        let mut buses = joined();
        let rig = &mut buses.nodes[1].1;
        let replicas: Vec<SessionKey> = replicas.iter().map(|words| announced(rig, words)).collect();
        let asker = rig.connect();
        rig.argv_unread(asker, &words("SHUTDOWN FAILOVER"));
        rig.end_iteration();
        replicas.into_iter().for_each(|replica| acknowledge(rig, replica));
        assert!(has_logged(rig, line), "{:?}", rig.process.log);
        assert!(has_ended(rig));
    }
}

#[test]
fn cl_m13_safe_keeps_a_node_whose_vote_counts() {
    let refused = "This is a voting primary. Shutting down may cause the cluster to go down. Can't exit.";
    let mut buses = joined();
    let rig = &mut buses.nodes[1].1;
    for line in ["SHUTDOWN SAFE", "SHUTDOWN SAFE FAILOVER", "SHUTDOWN NOSAVE NOW SAFE"] {
        rig.process.log.clear();
        rig.check(line, "-ERR Errors trying to SHUTDOWN. Check logs.");
        assert!(has_logged(rig, refused) && !has_ended(rig), "{line}");
    }
    assert_eq!(rig.engine.begin_end(&EndOrder::of_flags(16), &mut rig.process), EndBegun::Refused);
    rig.argv_unread(rig.client, &words("SHUTDOWN SAFE FORCE"));
    assert!(has_ended(rig));
    assert!(has_logged(rig, "Shutting down may cause the cluster to go down. Exit anyway."));
    // A replica has no vote.
    let rig = &mut buses.nodes[2].1;
    rig.argv_unread(rig.client, &words("SHUTDOWN SAFE"));
    assert!(has_ended(rig));
}

#[test]
fn cl_n8_a_replica_that_ends_sends_its_readers_away() {
    let mut buses = joined();
    stream_of_heir(&mut buses);
    buses.pass_ms(1_000);
    assert!(buses.nodes[0].1.run("CLUSTER SLOTS").contains(":7002"));
    let rig = &mut buses.nodes[2].1;
    rig.check("READONLY", "+OK");
    rig.check("GET {a}", "nil");
    let asker = rig.connect();
    rig.argv_unread(asker, &words("SHUTDOWN FAILOVER"));
    rig.end_iteration();
    rig.check("GET {a}", "-MOVED 15495 10.0.0.1:7001");
    buses.pass_ms(100);
    assert!(!buses.nodes[0].1.run("CLUSTER SLOTS").contains(":7002"));
    assert!(!has_ended(&buses.nodes[2].1));
    buses.pass_ms(3_100);
    assert!(has_ended(&buses.nodes[2].1));
}

#[test]
fn a_replica_that_is_promoted_while_it_leaves_takes_no_write_that_would_end_with_it() {
    let mut buses = joined();
    let rig = &mut buses.nodes[2].1;
    let (asker, writer) = (rig.connect(), rig.connect());
    rig.argv_unread(asker, &words("SHUTDOWN NOSAVE FAILOVER"));
    rig.end_iteration();
    assert!(!has_ended(rig), "the writer is there still");
    rig.run_as(writer, "CLUSTER FAILOVER TAKEOVER");
    rig.argv_unread(writer, &words("SET {a} 2"));
    rig.end_iteration();
    assert!(rig.run("ROLE").contains("master"));
    assert!(rig.output(writer).is_empty(), "the write is held");
    rig.end_iteration();
    assert!(has_ended(rig));
}

#[test]
fn the_words_of_shutdown_about_clusters() {
    let mut rig = Rig::new();
    for line in ["SHUTDOWN FAILOVER", "SHUTDOWN NOSAVE failover SAFE NOW"] {
        rig.check(line, "-ERR SHUTDOWN FAILOVER is only supported in cluster mode.");
    }
    for line in ["SHUTDOWN FAILOVER ABORT", "SHUTDOWN SAFE ABORT", "SHUTDOWN FAILOVER WRONG"] {
        rig.check(line, "-ERR syntax error");
    }
    let mut node = Rig::node(None, &[]);
    for line in ["FORCE REPLICAID x", "REPLICAID x", "REPLICAID"] {
        node.check(&format!("CLUSTER FAILOVER {line}"), "-ERR syntax error");
    }
    rig.argv_unread(rig.client, &words("SHUTDOWN SAFE"));
    assert!(has_ended(&rig), "without a cluster nobody votes");
}

#[test]
fn cb_h14_a_unit_that_ends_too_late_is_lost_with_a_line_in_the_log() {
    let mut buses = joined();
    let rig = &mut buses.nodes[1].1;
    let replica = announced(rig, &format!("version 9.0.0 set-cluster-node-id {HEIR}"));
    rig.fed(replica);
    for (line, reply) in [("MULTI", "+OK"), ("RPUSH {a} 1", "+QUEUED"), ("DEBUG STAND-STILL 1000", "+QUEUED")]
    {
        rig.check(line, reply);
    }
    rig.check("RPUSH {a} 2", "+QUEUED");
    rig.check("EXEC", "");
    let writer = rig.connect();
    rig.check_as(writer, "SET {a}b 1", "");
    buses.nodes[2].1.check("CLUSTER FAILOVER TAKEOVER", "+OK");
    buses.pass_ms(500);
    let rig = &mut buses.nodes[1].1;
    assert!(rig.run_as(writer, "PING").is_empty(), "all are held while the unit stands open");
    assert!(!has_logged(rig, "are lost"));
    rig.pass_ms(1_000);
    rig.engine.advance_unit(&mut rig.process);
    let own = rig.client;
    assert_eq!(sluice_testkit::render(&rig.output(own)), "[:1, +OK, :2]");
    assert!(has_logged(rig, "its writes (2) are lost, although its client gets a normal reply."));
    let answer = sluice_testkit::render(&rig.output(writer));
    assert!(answer.starts_with("-MOVED 15495 10.0.0.1:7002"), "what was held meets the new owner: {answer}");
}
