//! This server as the primary of a reference server: full and partial synchronization,
//! restarts, slow replicas.

use crate::common::reference::Reference;
use crate::common::{self, BINARY, Client, Dir, Server, free_port, until};
use std::process::Command;

/// Starts a server on the given port, so that a test can restart it on the same port.
fn primary(dir: &Dir, port: u16, arguments: &[&str]) -> Server {
    let mut command = Command::new(BINARY);
    command
        .args(["--port", &port.to_string(), "--dir", &dir.join(""), "--enable-debug-command", "yes"])
        .args(arguments);
    command.args(["--save", "", "--repl-diskless-sync-delay", "0"]);
    let server = Server::spawn(command, port, Dir::new());
    assert!(server.log.wait("Ready to accept").is_some(), "{}", server.log.all());
    server
}

fn digest(client: &mut Client) -> String {
    client.send("DEBUG DIGEST\r\n").line()
}

/// Makes the reference a replica, and waits until its link is up.
fn follow(replica: &Reference, port: u16) -> Client {
    let mut client = replica.client();
    client.check(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK\r\n");
    until("the link", || (client.info("master_link_status") == "up").then_some(()));
    client
}

/// Waits until both servers have the same data.
fn until_equal(primary: &mut Client, replica: &mut Client) {
    until("equal data", || {
        let same = primary.info("master_repl_offset") == replica.info("master_repl_offset");
        (same && digest(primary) == digest(replica)).then_some(())
    });
}

#[test]
fn a_reference_replica_that_lost_its_link_goes_on_where_it_was() {
    let Some(reference) = Reference::start(&[]) else { return };
    let (dir, port) = (Dir::new(), free_port());
    let server = primary(&dir, port, &[]);
    let mut client = server.client();
    client.check("SET before 1", "+OK\r\n");
    let mut replica = follow(&reference, port);
    client.check("SELECT 5", "+OK\r\n").check("RPUSH list a b c", ":3\r\n");
    until_equal(&mut client, &mut replica);
    for round in 1..4 {
        client.check("CLIENT KILL TYPE replica", ":1\r\n");
        client.check(&format!("SET round {round}"), "+OK\r\n").check("INCR counter", format!(":{round}\r\n"));
        until("a partial resync", || (client.info_number("sync_partial_ok") == round).then_some(()));
        until_equal(&mut client, &mut replica);
    }
    assert_eq!(client.info_number("sync_full"), 1);
    assert_eq!(replica.info("master_replid"), client.info("master_replid"));
}

#[test]
fn a_reference_replica_goes_on_behind_our_restart_from_a_snapshot_and_from_a_log() {
    for arguments in [["--appendonly", "no"], ["--appendonly", "yes"]] {
        let Some(reference) = Reference::start(&[]) else { return };
        let (dir, port) = (Dir::new(), free_port());
        let mut server = primary(&dir, port, &arguments);
        let mut client = server.client();
        let mut replica = follow(&reference, port);
        client.check("SELECT 5", "+OK\r\n").check("RPUSH list a b c", ":3\r\n");
        until_equal(&mut client, &mut replica);
        let old = client.info("master_replid");
        let how = if arguments[1] == "yes" { "SHUTDOWN" } else { "SHUTDOWN SAVE" };
        client.send(format!("{how}\r\n")).expect_end();
        server.wait();
        let server = primary(&dir, port, &arguments);
        let mut client = server.client();
        assert_eq!(client.info("master_replid2"), old);
        until("a partial resync", || (client.info_number("sync_partial_ok") == 1).then_some(()));
        client.check("SET behind 1", "+OK\r\n");
        until_equal(&mut client, &mut replica);
        assert_eq!(client.info_number("sync_full"), 0);
        assert_eq!(replica.info("master_replid"), client.info("master_replid"));
    }
}

/// The link is cut while the SREM commands that propagate the SPOP are still being encoded, in the middle of
/// their transaction.
#[test]
fn a_reference_replica_that_loses_its_link_amid_a_large_pop_goes_on_where_it_was() {
    let Some(reference) = Reference::start(&[]) else { return };
    let (dir, port) = (Dir::new(), free_port());
    let server = primary(&dir, port, &["--appendonly", "yes", "--repl-backlog-size", "64mb"]);
    let (mut client, mut popper) = (server.client(), server.client());
    let mut replica = follow(&reference, port);
    let names: Vec<String> = (0..120_000).map(|number| format!("member:{number:030}")).collect();
    for round in 0..6 {
        client.check("DEL s", if round == 0 { ":0\r\n" } else { ":1\r\n" });
        for some in names.chunks(1000) {
            client.check(&format!("SADD s {}", some.join(" ")), ":1000\r\n");
        }
        until_equal(&mut client, &mut replica);
        popper.send("SPOP s 100000\r\n");
        for _ in 0..round * 10 {
            client.send("INCR n\r\n").line();
        }
        client.send("CLIENT KILL TYPE replica\r\n").line();
        client.send("INCR n\r\n").line();
        assert_eq!(popper.line(), "*100000");
        for _ in 0..200_000 {
            popper.line();
        }
        until("the link", || (client.info("connected_slaves") == "1").then_some(()));
        until_equal(&mut client, &mut replica);
    }
    assert_eq!(client.info_number("sync_full"), 1);
}

#[test]
fn after_a_crash_a_reference_replica_has_our_data_whatever_was_lost() {
    for policy in ["always", "everysec"] {
        let Some(reference) = Reference::start(&[]) else { return };
        let (dir, port) = (Dir::new(), free_port());
        let arguments = ["--appendonly", "yes", "--appendfsync", policy];
        let mut server = primary(&dir, port, &arguments);
        let mut client = server.client();
        let mut replica = follow(&reference, port);
        for n in 0..100 {
            client.check(&format!("RPUSH list {n}"), format!(":{}\r\n", n + 1));
        }
        server.signal("KILL");
        server.wait();
        let server = primary(&dir, port, &arguments);
        let mut client = server.client();
        client.send("RPUSH list last\r\n").line();
        until("the link", || (client.info("connected_slaves") == "1").then_some(()));
        until_equal(&mut client, &mut replica);
    }
}

#[test]
fn a_sleeping_replica_is_cut_only_where_the_backlog_has_no_room_for_it() {
    for (backlog, is_cut) in [("256mb", false), ("1mb", true)] {
        let Some(reference) = Reference::start(&[]) else { return };
        let (dir, port) = (Dir::new(), free_port());
        let limits = ["--client-output-buffer-limit", "replica 1mb 0 0", "--repl-backlog-size", backlog];
        let server = primary(&dir, port, &limits);
        let mut client = server.client();
        let mut replica = follow(&reference, port);
        replica.send("DEBUG SLEEP 3\r\n");
        let big = "v".repeat(1_000_000);
        for n in 0..40 {
            client
                .send(common::request(&[b"SET", format!("k{n}").as_bytes(), big.as_bytes()]))
                .expect("+OK\r\n");
        }
        let cut = client.info_number("client_output_buffer_limit_disconnections");
        assert_eq!(cut > 0, is_cut, "{backlog}: {cut}");
        replica.expect("+OK\r\n");
        until_equal(&mut client, &mut replica);
        assert_eq!(client.info_number("sync_full") > 1, is_cut);
    }
}

#[test]
fn a_reference_replica_takes_the_snapshot_on_a_second_channel() {
    let Some(reference) = Reference::start(&["--dual-channel-replication-enabled", "yes"]) else { return };
    let (dir, port) = (Dir::new(), free_port());
    let server = primary(&dir, port, &["--dual-channel-replication-enabled", "yes"]);
    let mut client = server.client();
    // The delays of the save take two seconds in total; more and shorter delays would take far longer on a
    // busy machine.
    client.check("DEBUG POPULATE 4000 key 100", "+OK\r\n");
    client.check("CONFIG SET rdb-key-save-delay 500", "+OK\r\n");
    let mut replica = reference.client();
    replica.check(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK\r\n");
    until("both channels", || (client.info("connected_slaves") == "2").then_some(()));
    let lines = client.bulk("INFO replication\r\n");
    let text = String::from_utf8_lossy(&lines).into_owned();
    assert!(text.contains("type=rdb-channel") && text.contains("state=bg_transfer"), "{text}");
    for n in 0..1000 {
        client.check(&format!("SET meanwhile:{n} {n}"), "+OK\r\n");
    }
    until("the link", || (replica.info("master_link_status") == "up").then_some(()));
    until_equal(&mut client, &mut replica);
    assert_eq!(client.info("connected_slaves"), "1");
    assert_eq!(client.info_number("replicas_waiting_psync"), 0);
    assert!(reference.log().contains("Dual channel"), "{}", reference.log());
}

#[test]
fn a_reference_replica_that_wants_the_length_takes_a_snapshot_from_disk() {
    let Some(reference) = Reference::start(&["--appendonly", "yes"]) else { return };
    let (dir, port) = (Dir::new(), free_port());
    let server = primary(&dir, port, &["--repl-diskless-sync", "no", "--appendonly", "yes"]);
    let mut client = server.client();
    client.check("DEBUG POPULATE 10000 key 100", "+OK\r\n");
    let mut replica = follow(&reference, port);
    until_equal(&mut client, &mut replica);
    assert!(
        reference.log().contains("receiving") && !reference.log().contains("EOF to disk"),
        "{}",
        reference.log()
    );
    // The WAITAOF below needs an append-only file on the replica's disk.
    until("its log", || (replica.info_number("aof_rewrite_in_progress") == 0).then_some(()));
    client.check("SET a 1", "+OK\r\n").check("WAIT 1 60000", ":1\r\n");
    client.check("WAITAOF 1 1 60000", "*2\r\n:1\r\n:1\r\n");
}

#[test]
fn an_end_waits_for_a_reference_replica() {
    let Some(reference) = Reference::start(&[]) else { return };
    let (dir, port) = (Dir::new(), free_port());
    let mut server = primary(&dir, port, &[]);
    let mut client = server.client();
    let mut replica = follow(&reference, port);
    for how in ["SHUTDOWN", "TERM"] {
        replica.send("DEBUG SLEEP 0.5\r\n");
        client.check(&format!("SET last {how}"), "+OK\r\n");
        match how {
            "TERM" => server.signal("TERM"),
            _ => drop(client.send("SHUTDOWN\r\n")),
        }
        assert!(server.wait().success());
        assert!(
            server.log.all().contains("1 of 1 replicas are in sync when shutting down."),
            "{}",
            server.log.all()
        );
        replica.expect("+OK\r\n").check("GET last", format!("${}\r\n{how}\r\n", how.len()));
        server = primary(&dir, port, &[]);
        client = server.client();
        until("the link", || (replica.info("master_link_status") == "up").then_some(()));
        until_equal(&mut client, &mut replica);
    }
}

#[test]
fn what_waits_behind_a_slow_snapshot_lies_on_disk() {
    let Some(reference) = Reference::start(&[]) else { return };
    let (dir, port) = (Dir::new(), free_port());
    // Data that are not written to disk yet count towards the output buffer limit of the replica. The limit
    // is therefore high enough (20 MB) for a disk that lags a little.
    let limits = ["--client-output-buffer-limit", "replica 20mb 0 0", "--repl-backlog-size", "1mb"];
    let server = primary(&dir, port, &limits);
    let mut client = server.client();
    client.check("DEBUG POPULATE 4000 key 100", "+OK\r\n");
    client.check("CONFIG SET rdb-key-save-delay 500", "+OK\r\n");
    let mut replica = reference.client();
    replica.check(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK\r\n");
    until("the snapshot", || (client.info("rdb_bgsave_in_progress") == "1").then_some(()));
    let big = "v".repeat(1_000_000);
    for n in 0..60 {
        client.send(common::request(&[b"SET", format!("k{n}").as_bytes(), big.as_bytes()])).expect("+OK\r\n");
    }
    let text = String::from_utf8_lossy(&client.bulk("INFO replication\r\n")).into_owned();
    assert!(text.contains("state=wait_bgsave"), "the snapshot was too quick for this test: {text}");
    assert!(client.info_number("mem_total_replication_buffers") < 25_000_000);
    client.check("CONFIG SET rdb-key-save-delay 0", "+OK\r\n");
    until("the link", || (replica.info("master_link_status") == "up").then_some(()));
    until_equal(&mut client, &mut replica);
    assert_eq!(client.info_number("sync_full"), 1);
    assert_eq!(client.info_number("client_output_buffer_limit_disconnections"), 0);
}
