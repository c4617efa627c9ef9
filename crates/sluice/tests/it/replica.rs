//! A replica, end to end: of a primary played by the test, of the reference, and of a server of ours.

use crate::common::primary::{Link, PlayedPrimary, REPLID, snapshot};
use crate::common::reference::Reference;
use crate::common::{self, Client, Dir, Server, request, until};
use sluice_persist::rdb::{CompressionMethod, Packer};
use std::time::{Duration, Instant};

/// Starts a server that follows a primary played by the test; returns the server, the primary, and the
/// connection between them before the handshake.
fn following(arguments: &[&str]) -> (Server, PlayedPrimary, Link) {
    let primary = PlayedPrimary::new();
    let server = Server::start(arguments);
    server.client().check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
    let link = primary.accept();
    (server, primary, link)
}

/// Like `following`, but with the link up, at offset 0.
fn synchronised(arguments: &[&str]) -> (Server, PlayedPrimary, Link) {
    let (server, primary, mut link) = following(arguments);
    assert!(link.shake_hands().starts_with("PSYNC "));
    link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
    link.send_snapshot(&snapshot(&[("old", "1")]));
    up(&mut server.client());
    (server, primary, link)
}

fn up(client: &mut Client) {
    until("the link", || (client.info("master_link_status") == "up").then_some(()));
}

fn names(dir: &Dir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn temporary(dir: &Dir) -> Option<String> {
    names(dir).into_iter().find(|name| name.starts_with("temp-"))
}

#[test]
fn a_snapshot_and_the_stream_behind_it_arrive() {
    let (server, _primary, mut link) = synchronised(&[]);
    for line in [
        "* Replica main thread creating Bio thread to save RDB to disk",
        "* Replica bio thread: PRIMARY <-> REPLICA sync: receiving ",
        "* Replica bio thread: Done downloading RDB",
        "* Replica main thread detected RDB download completion in Bio thread",
        "* Loading the RDB and finalizing primary-replica sync...",
        "* PRIMARY <-> REPLICA sync: Finished with success",
    ] {
        assert!(server.log.wait(line).is_some(), "{line}");
    }
    let mut client = server.client();
    client.check("GET old", "$1\r\n1\r\n").check("DBSIZE", ":1\r\n");
    let select = "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
    let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    link.send([select, set].concat());
    let length = (select.len() + set.len()) as i64;
    until("the stream", || (client.info_number("master_repl_offset") == length).then_some(()));
    client.check("SELECT 3", "+OK\r\n").check("GET k", "$1\r\nv\r\n");
    assert_eq!(client.info("slave_repl_offset"), length.to_string());
    assert_eq!(client.info("master_replid"), REPLID);
    client.check("SET x 1", "-READONLY You can't write against a read only replica.\r\n");
}

/// The primary may accept a longer value than this server accepts from its clients.
#[test]
fn a_value_longer_than_proto_max_bulk_len_arrives_from_the_primary() {
    let limits = ["--proto-max-bulk-len", "1mb", "--client-query-buffer-limit", "1mb"];
    let (server, _primary, mut link) = synchronised(&limits);
    let stream = [request(&[b"SELECT", b"0"]), request(&[b"SET", b"k", &vec![b'x'; 2 << 20]])].concat();
    let length = stream.len() as i64;
    link.send(stream);
    let mut client = server.client();
    until("the stream", || (client.info_number("master_repl_offset") == length).then_some(()));
    client.check("STRLEN k", ":2097152\r\n");
}

#[test]
fn offsets_are_told_when_asked_and_a_transaction_counts_when_it_ends() {
    let (server, _primary, mut link) = synchronised(&[]);
    link.send(common::request(&[b"MULTI"]));
    link.send(common::request(&[b"SET", b"a", b"1"]));
    link.send(common::request(&[b"REPLCONF", b"GETACK", b"*"]));
    let exec = common::request(&[b"EXEC"]);
    link.send(&exec);
    let all = 15 + 27 + 37 + exec.len() as u64;
    // Before the end of the transaction acknowledgements have offset 0, and after it the offset of that end.
    link.acknowledged(all);
    let getack = common::request(&[b"REPLCONF", b"GETACK", b"*"]);
    link.send(&getack);
    // The GETACK itself is not part of the acknowledged offset.
    link.acknowledged(all);
    link.acknowledged(all + getack.len() as u64);
    server.client().check("GET a", "$1\r\n1\r\n");
}

#[test]
fn a_broken_link_goes_on_where_it_was() {
    let (server, primary, mut link) = synchronised(&[]);
    let mut client = server.client();
    link.send(common::request(&[b"SELECT", b"5"]));
    link.send(common::request(&[b"SET", b"a", b"1"]));
    link.acknowledged(23 + 27);
    // The beginning of a transaction is lost when the link ends.
    link.send(common::request(&[b"MULTI"]));
    link.send(common::request(&[b"SET", b"lost", b"1"]));
    drop(link);
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} 51"));
    link.send("+CONTINUE\r\n");
    link.send(common::request(&[b"SET", b"b", b"2"]));
    link.acknowledged(50 + 27);
    client.check("SELECT 5", "+OK\r\n").check("GET b", "$1\r\n2\r\n").check("EXISTS lost", ":0\r\n");
}

#[test]
fn the_old_data_are_served_until_the_new_are_loaded() {
    let (server, primary, link) = synchronised(&[]);
    let mut client = server.client();
    drop(link);
    let mut link = primary.accept();
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 500\r\n"));
    let new = snapshot(&[("new", "2")]);
    link.send(format!("${}\r\n", new.len()));
    link.send(&new[..20]);
    // INFO has the fields about bytes only during a transfer.
    until("the transfer", || (client.info("master_sync_in_progress") == "1").then_some(()));
    until("its bytes", || (client.info("master_sync_read_bytes") == "20").then_some(()));
    client.check("GET old", "$1\r\n1\r\n");
    assert_eq!(client.info("master_sync_total_bytes"), new.len().to_string());
    assert_eq!(client.info("master_sync_left_bytes"), (new.len() - 20).to_string());
    assert_eq!(client.info("master_sync_in_progress"), "1");
    link.send(&new[20..]);
    up(&mut client);
    client.check("GET new", "$1\r\n2\r\n").check("EXISTS old", ":0\r\n");
    assert_eq!(client.info("master_repl_offset"), "500");
}

#[test]
fn d2_no_cron_of_a_second_stands_between_the_last_byte_and_the_load() {
    let (server, primary, mut link) = synchronised(&[]);
    let mut client = server.client();
    let new = snapshot(&[("new", "2")]);
    // The test takes the minimum of several measurements, because the machine may have other work.
    let mut least = Duration::MAX;
    for _ in 0..5 {
        link = again(&primary, link, REPLID);
        link.send(format!("${}\r\n", new.len()));
        link.send(&new[..20]);
        until("the transfer", || (client.info("master_sync_in_progress") == "1").then_some(()));
        let begun = Instant::now();
        link.send(&new[20..]);
        up(&mut client);
        least = least.min(begun.elapsed());
        // After several links in a row that were lost soon after their start, the replica would wait before
        // the next one. Each link here therefore lasts until an acknowledgement.
        link.acknowledged(700);
    }
    assert!(least < Duration::from_millis(400), "D-2: {least:?}");
}

#[test]
fn d1_d7_a_silent_primary_is_left_at_once() {
    let (server, _primary, mut link) = following(&[]);
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 0\r\n$1000000\r\nVALKEY080"));
    let mut client = server.client();
    until("the file", || temporary(&server.dir));
    assert_eq!(client.info("master_sync_total_bytes"), "1000000");
    let begun = Instant::now();
    client.check("REPLICAOF NO ONE", "+OK\r\n").check("PING", "+PONG\r\n");
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    until("the file's end", || temporary(&server.dir).is_none().then_some(()));
    link.expect_end();
    assert_eq!(client.info("role"), "master");
}

#[cfg(target_os = "linux")]
#[test]
fn the_thread_that_receives_keeps_to_bio_cpulist() {
    let (server, _primary, mut link) = following(&["--bio-cpulist", "0"]);
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 0\r\n$1000000\r\nVALKEY080"));
    let allowed = until("the thread", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
        let status =
            tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
        let mut own = status.filter(|status| status.starts_with("Name:\tbio_rdb_save\n"));
        let line = own.next()?.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"))?.to_owned();
        (line == "0").then_some(line)
    });
    assert_eq!(allowed, "0");
}

#[test]
fn d3_a_snapshot_that_is_damaged_replaces_neither_data_nor_file() {
    let (server, primary, link) = synchronised(&[]);
    let mut client = server.client();
    let file = std::fs::read(server.dir.join("dump.rdb")).unwrap();
    drop(link);
    let mut link = primary.accept();
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 500\r\n"));
    let mut bad = snapshot(&[("new", "2")]);
    let at = bad.len() - 12;
    bad[at] ^= 1;
    link.send_snapshot(&bad);
    server.log.wait("Replica main thread detected RDB download failure in Bio thread").unwrap();
    client.check("GET old", "$1\r\n1\r\n");
    assert_eq!(std::fs::read(server.dir.join("dump.rdb")).unwrap(), file);
    assert!(temporary(&server.dir).is_none());
    // The replica asks again, from its previous offset.
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} 1"));
}

#[test]
fn d5_no_temporary_file_survives_an_end_of_the_server() {
    let dir = Dir::new();
    let primary = PlayedPrimary::new();
    for ending in ["TERM", "KILL"] {
        let mut server = Server::start_in(Dir::new(), |command| {
            command.args(["--dir", &dir.join(""), "--replicaof", &format!("127.0.0.1 {}", primary.port)]);
        });
        let mut link = primary.accept();
        link.shake_hands();
        link.send(format!("+FULLRESYNC {REPLID} 0\r\n$1000000\r\nVALKEY080"));
        until("the file", || temporary(&dir));
        server.signal(ending);
        server.wait();
        assert_eq!(temporary(&dir).is_some(), ending == "KILL");
    }
    let _server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    assert!(temporary(&dir).is_none());
}

#[test]
fn d6_totals_are_unknown_then_the_size_or_zero() {
    let (server, _primary, mut link) = following(&[]);
    let mut client = server.client();
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
    until("the transfer", || (client.info("master_sync_in_progress") == "1").then_some(()));
    assert_eq!(client.info("master_sync_total_bytes"), "-1");
    link.send(format!("$EOF:{}\r\nVALKEY080", "m".repeat(40)));
    until("the metadata", || (client.info("master_sync_total_bytes") == "0").then_some(()));
    assert_eq!(client.info("master_sync_left_bytes"), "0");
    assert_eq!(client.info("master_sync_perc"), "0.00");
    let before = client.info_number("total_net_repl_input_bytes");
    assert!(before > 50, "{before}");
    client.check("CONFIG RESETSTAT", "+OK\r\n");
    assert_eq!(client.info_number("total_net_repl_input_bytes"), 0);
    link.send(vec![b'x'; 1000]);
    until("the bytes", || (client.info_number("total_net_repl_input_bytes") == 1000).then_some(()));
    client.check("REPLICAOF NO ONE", "+OK\r\n");
    // The figures of the receiving thread were merged with the main thread's, and are not counted twice.
    assert_eq!(client.info_number("total_net_repl_input_bytes"), 1000);
}

#[test]
fn stale_data_are_shown_unless_that_is_forbidden() {
    let (server, primary, link) = synchronised(&[]);
    let mut client = server.client();
    client.check("GET old", "$1\r\n1\r\n");
    client.check("CONFIG SET replica-serve-stale-data no", "+OK\r\n").check("GET old", "$1\r\n1\r\n");
    drop(link);
    let _link = primary.accept();
    until("the loss", || (client.info("master_link_status") == "down").then_some(()));
    let refusal = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";
    client.check("GET old", refusal).check("PING", refusal);
    client.check("CONFIG SET replica-serve-stale-data yes", "+OK\r\n").check("GET old", "$1\r\n1\r\n");
}

#[test]
fn expired_keys_are_hidden_and_deleted_by_the_primary_alone() {
    let (server, _primary, mut link) = synchronised(&[]);
    let mut client = server.client();
    link.send(common::request(&[b"SELECT", b"0"]));
    link.send(common::request(&[b"SET", b"gone", b"1", b"PXAT", b"1000"]));
    link.send(common::request(&[b"SET", b"stays", b"1"]));
    until("the stream", || (client.send("EXISTS stays\r\n").line() == ":1").then_some(()));
    client.check("GET gone", "$-1\r\n").check("EXISTS gone", ":0\r\n").check("DBSIZE", ":3\r\n");
    // For the primary the key still exists, so the replica applies commands to it.
    link.send(common::request(&[b"APPEND", b"gone", b"2"]));
    link.send(common::request(&[b"PERSIST", b"gone"]));
    until("the stream", || (client.send("EXISTS gone\r\n").line() == ":1").then_some(()));
    client.check("GET gone", "$2\r\n12\r\n");
    link.send(common::request(&[b"DEL", b"gone"]));
    until("the deletion", || (client.send("DBSIZE\r\n").line() == ":2").then_some(()));
}

#[test]
fn a_promoted_replica_takes_writes_and_has_a_history_of_its_own() {
    let (server, _primary, _link) = synchronised(&[]);
    let mut client = server.client();
    client.check("REPLICAOF NO ONE", "+OK\r\n").check("SET x 1", "+OK\r\n").check("GET old", "$1\r\n1\r\n");
    assert_eq!(client.info("role"), "master");
    assert_eq!(client.info("master_replid2"), REPLID);
    assert_eq!(client.info("second_repl_offset"), "1");
    assert_ne!(client.info("master_replid"), REPLID);
}

#[test]
fn clients_that_wait_are_told_that_the_role_has_changed() {
    let primary = PlayedPrimary::new();
    let server = Server::start(&[]);
    let mut waiting = server.client();
    waiting.send("BLPOP nothing 0\r\n");
    let mut client = server.client();
    until("the wait", || (client.info("blocked_clients") == "1").then_some(()));
    client.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
    waiting.expect(
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
    );
    waiting.expect_end();
}

#[test]
fn role_and_errors_are_the_reference_s() {
    let (server, primary, mut link) = following(&[]);
    assert_eq!(link.request(), "PING");
    let mut client = server.client();
    let port = primary.port;
    client
        .send("ROLE\r\n")
        .expect(format!("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:{port}\r\n$9\r\nhandshake\r\n:-1\r\n"));
    client.check(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK Already connected to specified master\r\n");
    client.check("REPLICAOF localhost x", "-ERR Invalid master port\r\n");
    client.check("SLAVEOF localhost 70000", "-ERR Invalid master port\r\n");
    client.check("PSYNC ? -1", "-NOMASTERLINK Can't SYNC while not connected with my master\r\n");
    client.check("WAIT 0 0", "-ERR WAIT cannot be used with replica instances. Please also note that if a replica is configured \
                              to be writable (which is not the default) writes to replicas are just local and are not \
                              propagated.\r\n");
    assert_eq!(client.config("replicaof"), format!("127.0.0.1 {port}"));
}

#[test]
fn a_restart_goes_on_where_the_snapshot_stands() {
    let dir = Dir::new();
    let primary = PlayedPrimary::new();
    let start = || {
        Server::start_in(Dir::new(), |command| {
            command.args(["--dir", &dir.join(""), "--replicaof", &format!("127.0.0.1 {}", primary.port)]);
        })
    };
    let mut server = start();
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), "PSYNC ? -1");
    link.send(format!("+FULLRESYNC {REPLID} 100\r\n"));
    link.send_snapshot(&snapshot(&[("old", "1")]));
    link.send(common::request(&[b"SELECT", b"7"]));
    link.send(common::request(&[b"SET", b"a", b"1"]));
    link.acknowledged(150);
    server.client().send("SHUTDOWN SAVE\r\n");
    server.wait();
    let server = start();
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} 151"));
    link.send("+CONTINUE\r\n");
    link.send(common::request(&[b"SET", b"b", b"2"]));
    link.acknowledged(177);
    server.client().check("SELECT 7", "+OK\r\n").check("GET b", "$1\r\n2\r\n").check("GET a", "$1\r\n1\r\n");
}

/// The base of the new append-only file is the received RDB file if it was saved to disk and a base may be an
/// RDB file (`aof-use-rdb-preamble`). Otherwise, as after a load from memory, a rewrite makes the base.
#[test]
fn the_append_only_file_begins_again_with_the_data_of_the_primary() {
    for (load, preamble, reuses) in
        [("disabled", "yes", true), ("disabled", "no", false), ("flush-before-load", "yes", false)]
    {
        let dir = Dir::new();
        let start = |arguments: &[&str]| {
            Server::start_in(Dir::new(), |command| {
                command.args(["--dir", &dir.join(""), "--appendonly", "yes"]).args(arguments);
            })
        };
        let primary = PlayedPrimary::new();
        let mut server = start(&["--repl-diskless-load", load, "--aof-use-rdb-preamble", preamble]);
        let mut client = server.client();
        client.check("SET mine 1", "+OK\r\n");
        client.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
        let mut link = primary.accept();
        link.shake_hands();
        link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
        link.send_snapshot(&snapshot(&[("theirs", "1")]));
        up(&mut client);
        link.send(common::request(&[b"SELECT", b"0"]));
        link.send(common::request(&[b"SET", b"later", b"1"]));
        // The fields are read in this order, because a scheduled rewrite becomes one that is in progress.
        until("the new base", || {
            let is_done =
                client.info("aof_rewrite_scheduled") == "0" && client.info("aof_rewrite_in_progress") == "0";
            (is_done && client.info("aof_enabled") == "1").then_some(())
        });
        until("the stream", || (client.send("EXISTS later\r\n").line() == ":1").then_some(()));
        client.send("SHUTDOWN NOSAVE\r\n");
        server.wait();
        let log = server.log.all();
        let is_reused = log.contains("Reused RDB file from primary sync as AOF base file");
        let is_rewritten = log.contains("Background append only file rewriting started");
        // If not all of the old append-only file is on disk when the load ends, a rewrite makes the base.
        assert!(is_reused != is_rewritten && (reuses || is_rewritten), "{log}");
        let server = start(&[]);
        let mut client = server.client();
        client.check("EXISTS mine theirs later", ":2\r\n").check("GET later", "$1\r\n1\r\n");
    }
}

/// The disk needs seconds to finish the old append-only file. Clients do not wait for the disk, and a new
/// append-only file begins once the old one is finished.
#[test]
fn nobody_waits_for_the_append_only_file_that_a_synchronisation_ends() {
    let dir = Dir::new();
    let start = |arguments: &[&str]| {
        Server::start_in(Dir::new(), |command| {
            command.args(["--dir", &dir.join(""), "--appendonly", "yes"]).args(arguments);
        })
    };
    let primary = PlayedPrimary::new();
    let mut server = start(&["--appendfsync", "everysec"]);
    let mut client = server.client();
    client.check("SET mine 1", "+OK\r\n");
    client.check("DEBUG AOF-FLUSH-SLEEP 4000000", "+OK\r\n").check("SET slow 1", "+OK\r\n");
    client.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
    let mut link = primary.accept();
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
    let began = Instant::now();
    link.send_snapshot(&snapshot(&[("theirs", "1")]));
    let mut longest = Duration::ZERO;
    until("the link", || {
        let asked = Instant::now();
        let is_up = client.info("master_link_status") == "up";
        longest = longest.max(asked.elapsed());
        is_up.then_some(())
    });
    assert!(longest < Duration::from_secs(2) && began.elapsed() < Duration::from_secs(3), "{longest:?}");
    client.check("DEBUG AOF-FLUSH-SLEEP 0", "+OK\r\n");
    link.send(common::request(&[b"SELECT", b"0"]));
    link.send(common::request(&[b"SET", b"later", b"1"]));
    until("the new base", || {
        let is_done =
            client.info("aof_rewrite_scheduled") == "0" && client.info("aof_rewrite_in_progress") == "0";
        (is_done && client.info("aof_enabled") == "1").then_some(())
    });
    client.send("SHUTDOWN NOSAVE\r\n");
    server.wait();
    let server = start(&[]);
    server.client().check("EXISTS mine theirs later", ":2\r\n");
}

fn fill(client: &mut Client, marker: &str) {
    for n in 0..200 {
        client.check(&format!("SET {marker}:{n} {}", "v".repeat(n + 1)), "+OK\r\n");
    }
    client.check(&format!("RPUSH {marker}:list a b c"), ":3\r\n");
    client
        .check("SELECT 2", "+OK\r\n")
        .check(&format!("SET {marker} other"), "+OK\r\n")
        .check("SELECT 0", "+OK\r\n");
    client.check("MULTI", "+OK\r\n").send("INCR counter\r\n").expect("+QUEUED\r\n");
    client.send(format!("SET {marker} 1 PX 100000000\r\n")).expect("+QUEUED\r\n");
    client.send("EXEC\r\n");
    client.line();
    client.line();
    client.line();
}

/// Waits until both servers have the same data.
fn same(a: &mut Client, b: &mut Client) {
    until("the same data", || {
        let [left, right] = [&mut *a, &mut *b].map(|client| client.send("DEBUG DIGEST\r\n").line());
        (left == right).then_some(())
    });
}

#[test]
fn a_replica_of_the_reference_has_its_data_however_they_are_sent() {
    for diskless in ["yes", "no"] {
        let Some(reference) =
            Reference::start(&["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"])
        else {
            return;
        };
        let mut theirs = reference.client();
        fill(&mut theirs, "before");
        let server = Server::start(&[]);
        let mut ours = server.client();
        ours.check(&format!("REPLICAOF 127.0.0.1 {}", reference.port), "+OK\r\n");
        up(&mut ours);
        fill(&mut theirs, "behind");
        same(&mut theirs, &mut ours);
        // The link is closed, and continues by a partial synchronization.
        ours.check("CLIENT KILL TYPE master", ":1\r\n");
        fill(&mut theirs, "again");
        up(&mut ours);
        same(&mut theirs, &mut ours);
        assert_eq!(
            (theirs.info("sync_full"), theirs.info("sync_partial_ok")),
            ("1".to_owned(), "1".to_owned())
        );
        theirs.check("WAIT 1 5000", ":1\r\n");
    }
}

#[test]
fn a_chain_of_replicas_has_one_history() {
    let first = Server::start(&[]);
    let mut writes = first.client();
    fill(&mut writes, "before");
    let (second, third) = (Server::start(&[]), Server::start(&[]));
    let (mut middle, mut last) = (second.client(), third.client());
    middle.check(&format!("REPLICAOF 127.0.0.1 {}", first.port), "+OK\r\n");
    up(&mut middle);
    last.check(&format!("REPLICAOF 127.0.0.1 {}", second.port), "+OK\r\n");
    up(&mut last);
    fill(&mut writes, "behind");
    same(&mut writes, &mut middle);
    same(&mut writes, &mut last);
    assert_eq!(writes.info("master_replid"), last.info("master_replid"));
    until("the same offset", || {
        (writes.info("master_repl_offset") == last.info("master_repl_offset")).then_some(())
    });
}

#[test]
fn a_snapshot_of_a_replica_says_which_database_its_primary_has_selected() {
    let (server, _primary, mut link) = synchronised(&[]);
    let mut middle = server.client();
    link.send("*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n");
    link.send("*3\r\n$3\r\nSET\r\n$6\r\nbefore\r\n$1\r\n1\r\n");
    until("the first key", || (middle.info("master_repl_offset") == "55").then_some(()));
    let third = Server::start(&[]);
    let mut last = third.client();
    last.check(&format!("REPLICAOF 127.0.0.1 {}", server.port), "+OK\r\n");
    up(&mut last);
    // The primary does not select the database again, so the last replica must learn from the snapshot which
    // database is selected.
    link.send("*3\r\n$3\r\nSET\r\n$6\r\nbehind\r\n$1\r\n1\r\n");
    until("the second key", || (last.info("master_repl_offset") == "87").then_some(()));
    last.check("EXISTS behind", ":0\r\n").check("SELECT 2", "+OK\r\n").check("GET behind", "$1\r\n1\r\n");
}

/// Begins another full sync of a synchronised server; returns the new connection.
fn again(primary: &PlayedPrimary, link: Link, replid: &str) -> Link {
    drop(link);
    let mut link = primary.accept();
    link.shake_hands();
    link.send(format!("+FULLRESYNC {replid} 700\r\n"));
    link
}

#[test]
fn a_snapshot_can_be_loaded_from_the_connection() {
    for mode in ["on-empty-db", "flush-before-load", "swapdb"] {
        for is_sized in [true, false] {
            let (server, primary, mut link) = following(&["--repl-diskless-load", mode]);
            link.shake_hands();
            link.send(format!("+FULLRESYNC {REPLID} 10\r\n"));
            let file = snapshot(&[("new", "2")]);
            match is_sized {
                true => link.send_snapshot(&file),
                false => {
                    let mark = "e".repeat(40);
                    link.send(format!("$EOF:{mark}\r\n"));
                    link.send(&file);
                    link.send(mark);
                }
            }
            // After a snapshot with an end mark, a primary waits for the replica's acknowledgement.
            link.acknowledged(10);
            link.send(common::request(&[b"SELECT", b"0"]));
            link.send(common::request(&[b"SET", b"behind", b"3"]));
            link.acknowledged(10 + 23 + 32);
            let mut client = server.client();
            client.check("GET new", "$1\r\n2\r\n").check("GET behind", "$1\r\n3\r\n");
            assert!(!names(&server.dir).contains(&"dump.rdb".to_owned()), "{mode}: nothing goes by disk");
            drop(link);
            let mut link = primary.accept();
            assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} 66"), "{mode}");
        }
    }
}

#[test]
fn swapdb_serves_and_keeps_the_old_data() {
    let (server, primary, link) = synchronised(&["--repl-diskless-load", "swapdb"]);
    let mut client = server.client();
    let mut link = again(&primary, link, REPLID);
    let mut bad = snapshot(&[("new", "2")]);
    // Only the checksum is wrong, so everything before it is read without an error.
    let at = bad.len() - 1;
    bad[at] ^= 1;
    link.send(format!("${}\r\n", bad.len()));
    link.send(&bad[..at]);
    until("the load", || (client.info("async_loading") == "1").then_some(()));
    client.check("GET old", "$1\r\n1\r\n");
    assert_eq!(client.info("loading"), "0");
    link.send(&bad[at..]);
    // The load has failed, and the data and the offset are unchanged.
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} 1"));
    client.check("GET old", "$1\r\n1\r\n");
    // The next snapshot belongs to another history. Clients are refused during its load, and its failure
    // brings the old data back.
    let other = "f".repeat(40);
    link.send(format!("+FULLRESYNC {other} 5\r\n$1000\r\nVALKEY080"));
    until("the load", || (client.info("loading") == "1").then_some(()));
    client.check("GET old", "-LOADING Valkey is loading the dataset in memory\r\n");
    drop(link);
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} 1"));
    client.check("GET old", "$1\r\n1\r\n");
}

#[test]
fn nothing_is_freed_before_the_header_was_judged() {
    let (server, primary, link) = synchronised(&["--repl-diskless-load", "flush-before-load"]);
    let mut client = server.client();
    drop(link);
    for header in ["<html>no snapshot", "VALKEY999", "REDIS0099"] {
        let mut link = primary.accept();
        link.shake_hands();
        link.send(format!("+FULLRESYNC {REPLID} 700\r\n$10000\r\n{header}"));
        link.expect_end();
        until("the end of the load", || (client.info("loading") == "0").then_some(()));
        client.check("GET old", "$1\r\n1\r\n");
    }
}

#[test]
fn d7_a_primary_that_falls_silent_is_left_after_repl_timeout() {
    for mode in ["disabled", "swapdb", "flush-before-load"] {
        let (server, primary, mut link) = following(&["--repl-timeout", "1", "--repl-diskless-load", mode]);
        link.shake_hands();
        link.send(format!("+FULLRESYNC {REPLID} 0\r\n$10000\r\nVALKEY080"));
        let said = "Timeout receiving bulk data from PRIMARY...";
        assert!(server.log.wait(said).is_some(), "{mode}");
        link.expect_end();
        let mut link = primary.accept();
        link.shake_hands();
        link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
        link.send_snapshot(&snapshot(&[("new", "2")]));
        up(&mut server.client());
        server.client().check("GET new", "$1\r\n2\r\n");
    }
}

#[test]
fn a_restart_from_the_append_only_file_goes_on_where_it_stands() {
    let dir = Dir::new();
    let primary = PlayedPrimary::new();
    let start = || {
        Server::start_in(Dir::new(), |command| {
            command.args(["--dir", &dir.join(""), "--appendonly", "yes"]);
            // The received file becomes the base only if the old append-only file is closed by the end of the
            // load; the delay postpones this end.
            command.args(["--key-load-delay", "1000000"]);
            command.args(["--replicaof", &format!("127.0.0.1 {}", primary.port)]);
        })
    };
    let mut server = start();
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), "PSYNC ? -1");
    link.send(format!("+FULLRESYNC {REPLID} 100\r\n"));
    link.send_snapshot(&snapshot(&[("old", "1")]));
    let mut client = server.client();
    up(&mut client);
    assert!(server.log.wait("Reused RDB file from primary sync as AOF base file").is_some());
    link.send(common::request(&[b"SELECT", b"7"]));
    link.send(common::request(&[b"SET", b"a", b"1"]));
    // A restart must know this SELECT, although no write follows.
    link.send(common::request(&[b"SELECT", b"3"]));
    link.acknowledged(173);
    client.send("SHUTDOWN NOSAVE\r\n");
    server.wait();
    let server = start();
    let mut link = primary.accept();
    assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} 174"));
    link.send("+CONTINUE\r\n");
    link.send(common::request(&[b"SET", b"b", b"2"]));
    link.acknowledged(200);
    let mut client = server.client();
    client.check("SELECT 7", "+OK\r\n").check("GET a", "$1\r\n1\r\n").check("EXISTS b", ":0\r\n");
    client.check("SELECT 3", "+OK\r\n").check("GET b", "$1\r\n2\r\n");
}

/// The thread of the append-only file begins to handle the first snapshot only after a second one was
/// received. The base must nevertheless be the first snapshot, because the appended commands continue that
/// one.
#[test]
fn a_second_snapshot_does_not_become_the_base_in_place_of_the_first() {
    if !common::has_switches() {
        return;
    }
    let dir = Dir::new();
    let start = |arguments: &[&str], slow_us: &str| {
        Server::start_in(Dir::new(), |command| {
            command.args(["--dir", &dir.join("")]).args(arguments);
            command.env("SLUICE_TEST_FSYNC_US", slow_us);
        })
    };
    let primary = PlayedPrimary::new();
    // The delay lets the old file be closed by the end of the load, because only then does the received file
    // become the base.
    let mut server = start(&["--appendonly", "yes", "--key-load-delay", "5000000"], "2000000");
    let mut client = server.client();
    client.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
    let mut link = primary.accept();
    link.shake_hands();
    link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
    link.send_snapshot(&snapshot(&[("a", "1")]));
    up(&mut client);
    link.send([request(&[b"SELECT", b"0"]), request(&[b"INCR", b"a"])].concat());
    until("the stream", || (client.send("GET a\r\n").line() == "$1" && client.line() == "2").then_some(()));
    drop(link);
    let mut link = primary.accept();
    assert!(link.shake_hands().starts_with(&format!("PSYNC {REPLID} ")));
    link.send(format!("+FULLRESYNC {REPLID} 1000\r\n"));
    link.send_snapshot(&snapshot(&[("a", "100")]));
    // After this line of the log the new base is in force.
    assert!(server.log.wait("Successfully renamed the temporary AOF base file").is_some());
    server.child.kill().unwrap();
    server.wait();
    let server = start(&["--appendonly", "yes"], "0");
    server.client().check("GET a", "$1\r\n2\r\n");
}

/// The primary runs its cron only once a second here. It must nevertheless send missing data at the speed of
/// the socket.
#[test]
fn a_replica_that_was_held_up_is_not_fed_at_the_pace_of_the_cron() {
    let primary =
        Server::start(&["--hz", "1", "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"]);
    let replica = Server::start(&["--enable-debug-command", "yes"]);
    let mut to_replica = replica.client();
    to_replica.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
    up(&mut to_replica);
    to_replica.send("DEBUG SLEEP 1\r\n");
    let value = vec![b'x'; 256 * 1024];
    let mut client = primary.client();
    for _ in 0..256 {
        client.send(request(&[b"SET", b"k", &value])).expect("+OK\r\n");
    }
    let end = client.info_number("master_repl_offset");
    to_replica.expect("+OK\r\n");
    let begun = Instant::now();
    until("the stream", || (to_replica.info_number("slave_repl_offset") >= end).then_some(()));
    // At the pace of the cron the 64 MiB would take 32 seconds, because each second only a window of 1 MiB
    // would be sent, and another one after the acknowledgement of that second.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}

/// The test plays a 9.2 primary with `repl-compression`. The snapshot is compressed, and so is the stream,
/// from the first byte after each of its starts.
#[test]
fn a_primary_may_compress_the_snapshot_and_the_stream() {
    for (load, number) in [("disabled", 1), ("swapdb", 2), ("disabled", 2)] {
        let setting = if number == 2 { "zstd" } else { "lz4" };
        let arguments = ["--repl-compression", setting, "--repl-diskless-load", load];
        let (server, primary, mut link) = following(&arguments);
        let mut client = server.client();
        let mut said = Vec::new();
        while !said.last().is_some_and(|request: &String| request.starts_with("PSYNC")) {
            said.push(link.request());
            match said.last().unwrap().as_str() {
                "PING" => link.send("+PONG\r\n"),
                other if other.starts_with("PSYNC") => {}
                _ => link.send("+OK\r\n"),
            }
        }
        let takes = if number == 2 {
            "capa eof capa psync2 capa lz4 capa zstd"
        } else {
            "capa eof capa psync2 capa lz4"
        };
        assert!(said.contains(&format!("REPLCONF {takes}")), "{said:?}");
        // From the version, a 9.2 primary knows that the snapshot may not contain commands.
        assert!(said.contains(&"REPLCONF version 9.1.2".to_owned()), "{said:?}");
        link.send(format!("+FULLRESYNC {REPLID} 0\r\n$EOF:{}\r\n", "m".repeat(40)));
        let codec = if number == 2 { CompressionMethod::Zstd } else { CompressionMethod::Lz4 };
        let mut packer = Packer::of_file(codec, true);
        packer.feed(&snapshot(&[("old", &"1".repeat(10_000))]));
        link.send([packer.finish(), "m".repeat(40).into_bytes()].concat());
        up(&mut client);
        client.check("STRLEN old", ":10000\r\n");
        let commands = [request(&[b"SELECT", b"0"]), request(&[b"SET", b"k", &vec![b'v'; 100_000]])].concat();
        let stream = packed_stream(number, &commands);
        for piece in stream.chunks(1000) {
            link.send(piece);
        }
        let end = commands.len() as u64;
        link.acknowledged(end);
        client.check("STRLEN k", ":100000\r\n");
        // The link is cut, and continues with a partial synchronization. The compressed stream then begins
        // with its header again.
        drop(link);
        let mut link = primary.accept();
        assert_eq!(link.shake_hands(), format!("PSYNC {REPLID} {}", end + 1));
        let more = request(&[b"APPEND", b"k", b"w"]);
        link.send([b"+CONTINUE\r\n", &packed_stream(number, &more)[..]].concat());
        link.acknowledged(end + more.len() as u64);
        client.check("STRLEN k", ":100001\r\n");
        // Malformed data end the link, and the applied commands stay.
        link.send(b"garbage that no block begins with");
        link.expect_end();
        client.check("STRLEN k", ":100001\r\n");
    }
}

/// The commands as a compressed stream of raw blocks, in a frame that does not end.
fn packed_stream(number: u8, commands: &[u8]) -> Vec<u8> {
    let mut packed = vec![b'V', b'C', b'S', 1, number, 0, 2];
    packed.extend_from_slice(match number {
        1 => b"\x04\x22\x4d\x18\x40\x40\xc0",
        _ => b"\x28\xb5\x2f\xfd\0\x38",
    });
    for block in commands.chunks(60_000) {
        match number {
            1 => packed.extend_from_slice(&(block.len() as u32 | 1 << 31).to_le_bytes()),
            _ => packed.extend_from_slice(&((block.len() as u32) << 3).to_le_bytes()[..3]),
        }
        packed.extend_from_slice(block);
    }
    packed
}

/// In a synchronization without a fork, a 9.2 primary puts commands into the snapshot for 9.2 replicas. If a
/// primary does so for this server nevertheless, the snapshot is refused, and the old data stay.
#[test]
fn a_snapshot_with_commands_in_it_is_refused() {
    for load in ["disabled", "swapdb"] {
        let (server, primary, mut link) = following(&["--repl-diskless-load", load]);
        let mut client = server.client();
        link.shake_hands();
        link.send(format!("+FULLRESYNC {REPLID} 0\r\n"));
        link.send_snapshot(&snapshot(&[("old", "1")]));
        up(&mut client);
        drop(link);
        let mut link = primary.accept();
        link.shake_hands();
        link.send(format!("+FULLRESYNC {REPLID} 50\r\n$EOF:{}\r\n", "m".repeat(40)));
        let update = request(&[b"SET", b"new", b"1"]);
        let end = [b"\xff\0\0\0\0\0\0\0\0", "m".repeat(40).as_bytes()].concat();
        link.send([b"VALKEY081\xfe\0\xf2", &update[..], &end].concat());
        assert!(server.log.wait("unknown type or opcode 242").is_some(), "{load}");
        if load == "swapdb" {
            client.check("GET old", "$1\r\n1\r\n");
        }
    }
}

#[test]
fn full_copies_between_servers_of_ours_are_compressed() {
    for (setting, by) in [("zstd", "compressed by Zstd"), ("lz4", "compressed by LZ4")] {
        for load in ["disabled", "swapdb"] {
            let arguments = [
                "--repl-compression",
                setting,
                "--repl-diskless-sync-delay",
                "0",
                "--repl-diskless-load",
                load,
            ];
            let (primary, replica) = (Server::start(&arguments), Server::start(&arguments));
            let mut client = primary.client();
            for number in 0..2000 {
                let value =
                    format!("{{\"id\": {number}, \"name\": \"somebody\", \"active\": true}}").repeat(10);
                client.send(request(&[b"SET", format!("key:{number}").as_bytes(), value.as_bytes()]));
                client.expect("+OK\r\n");
            }
            let mut to_replica = replica.client();
            to_replica.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port), "+OK\r\n");
            up(&mut to_replica);
            assert!(primary.log.wait(by).is_some());
            let sent = client.info_number("total_net_repl_output_bytes");
            assert!(sent < 300_000, "{setting}: {sent} bytes for 1.1 MB");
            client.check("SET behind 1", "+OK\r\n");
            let end = client.info_number("master_repl_offset");
            until("the stream", || (to_replica.info_number("slave_repl_offset") >= end).then_some(()));
            to_replica.check("GET behind", "$1\r\n1\r\n").check("DBSIZE", ":2001\r\n");
            let digest = |client: &mut Client| client.send("DEBUG DIGEST\r\n").line();
            assert_eq!(digest(&mut client), digest(&mut to_replica));
        }
    }
}
