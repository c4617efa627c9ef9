//! Tests of MIGRATE: the request to the process, commands that wait until MIGRATE ends, and the deletions at
//! its end.

use sluice_base::SessionKey;
use sluice_commands::{Migration, MigrationOutcome};
use sluice_testkit::Rig;

/// Sends a line and leaves the client waiting. Returns the request to the process.
fn begin(rig: &mut Rig, client: SessionKey, line: &str) -> Migration {
    assert_eq!(rig.run_as(client, line), "");
    rig.migrations.pop().unwrap()
}

fn end(rig: &mut Rig, migration: &Migration, taken: &[usize], error: Option<&str>) {
    let error = error.map(|error| error.as_bytes().to_vec());
    let outcome = MigrationOutcome { taken: taken.to_vec(), error };
    rig.engine.end_migration(migration.id, outcome, &mut rig.process);
}

fn sent(migration: &Migration) -> String {
    let mut out = Vec::new();
    migration.push_auth(&mut out);
    migration.push_select(&mut out);
    (0..migration.key_count()).for_each(|number| migration.push_restore(number, &mut out));
    out.escape_ascii().to_string()
}

fn answer(rig: &mut Rig, client: SessionKey) -> String {
    String::from_utf8(rig.output(client)).unwrap()
}

#[test]
fn errors_are_the_reference_s() {
    let mut rig = Rig::new();
    rig.run("SET k v");
    let syntax = "-ERR syntax error";
    let keys = "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
    for (rest, reply) in [
        ("k 0 1000 bad", syntax),
        ("k x 1000", "-ERR value is not an integer or out of range"),
        ("k 0 x", "-ERR value is not an integer or out of range"),
        ("k 0 1000 AUTH", syntax),
        ("k 0 1000 AUTH2 a", syntax),
        ("k 0 1000 KEYS", keys),
        ("k 0 1000 COPY KEYS b", keys),
        ("none 0 1000", "+NOKEY"),
        ("\"\" 0 1000", "+NOKEY"),
        ("\"\" 0 1000 KEYS", "+NOKEY"),
        ("\"\" 0 1000 KEYS none nothing", "+NOKEY"),
    ] {
        rig.check(&format!("MIGRATE 127.0.0.1 6379 {rest}"), reply);
    }
    assert!(rig.migrations.is_empty());
}

#[test]
fn what_is_sent_is_what_the_values_were() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run("SET k v PX 100000");
    rig.run("SET n 1");
    let line = "MIGRATE there 7000 \"\" 3 1000 REPLACE AUTH2 me secret KEYS k none n";
    let migration = begin(&mut rig, client, line);
    assert_eq!((migration.host.as_str(), migration.port, migration.db), ("there", 7000, 3));
    // The requests have the values as they were when MIGRATE ran.
    let text = sent(&migration);
    let auth = "*3\\r\\n$4\\r\\nAUTH\\r\\n$2\\r\\nme\\r\\n$6\\r\\nsecret\\r\\n*2\\r\\n$6\\r\\nSELECT\\r\\n$1\\r\\n3\\r\\n";
    assert!(text.starts_with(auth), "{text}");
    let first = "*5\\r\\n$7\\r\\nRESTORE\\r\\n$1\\r\\nk\\r\\n$6\\r\\n100000\\r\\n$13\\r\\n\\x00\\x01vP\\x00";
    let second = "*5\\r\\n$7\\r\\nRESTORE\\r\\n$1\\r\\nn\\r\\n$1\\r\\n0\\r\\n$13\\r\\n\\x00\\xc0\\x01P\\x00";
    assert!(
        text.contains(first) && text.contains(second) && text.ends_with("$7\\r\\nREPLACE\\r\\n"),
        "{text}"
    );
}

#[test]
fn keys_go_when_they_were_taken_and_replicas_are_told() {
    let mut rig = Rig::new();
    let (client, replica) = (rig.connect(), rig.replica());
    rig.run("MSET a 1 b 2 c 3");
    rig.fed(replica);
    let migration = begin(&mut rig, client, "MIGRATE h 1 \"\" 0 1000 KEYS a b c a");
    // No key is deleted before the end.
    rig.check("MGET a b c", "[\"1\", \"2\", \"3\"]");
    end(&mut rig, &migration, &[0, 2], Some("ERR Target instance replied with error: BUSYKEY"));
    assert_eq!(answer(&mut rig, client), "-ERR Target instance replied with error: BUSYKEY\r\n");
    rig.check("MGET a b c", "[nil, \"2\", nil]");
    assert_eq!(rig.fed(replica), "DEL a c");
    let migration = begin(&mut rig, client, "MIGRATE h 1 b 0 1000");
    end(&mut rig, &migration, &[0], None);
    assert_eq!(answer(&mut rig, client), "+OK\r\n");
    assert_eq!(rig.fed(replica), "DEL b");
    assert_eq!(rig.run("DBSIZE"), ":0");
}

#[test]
fn the_database_is_that_of_the_client() {
    let mut rig = Rig::new();
    let (client, replica) = (rig.connect(), rig.replica());
    rig.run("SET k zero");
    rig.run_as(client, "SELECT 5");
    rig.run_as(client, "SET k five");
    rig.fed(replica);
    let migration = begin(&mut rig, client, "MIGRATE h 1 k 0 1000");
    end(&mut rig, &migration, &[0], None);
    assert_eq!(rig.fed(replica), "DEL k");
    rig.check("GET k", "\"zero\"");
    assert_eq!(answer(&mut rig, client), "+OK\r\n");
    rig.check_as(client, "EXISTS k", ":0");
}

#[test]
fn what_would_change_the_keys_waits_and_nothing_else() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run("MSET moved 1 other 2");
    let migration = begin(&mut rig, client, "MIGRATE h 1 moved 0 1000");
    rig.check("GET moved", "\"1\"");
    rig.check("SET other 3", "+OK");
    let waiting: Vec<(SessionKey, &str)> =
        ["SET moved 9", "RENAME other moved", "FLUSHALL", "MIGRATE h 1 moved 0 1000"]
            .into_iter()
            .map(|line| (rig.connect(), line))
            .collect();
    let exec = rig.connect();
    rig.run_as(exec, "MULTI");
    rig.run_as(exec, "INCR counter");
    rig.check_as(exec, "EXEC", "");
    for (client, line) in &waiting {
        assert_eq!(rig.run_as(*client, line), "", "{line}");
    }
    rig.check("GET moved", "\"1\"");
    end(&mut rig, &migration, &[0], None);
    assert_eq!(answer(&mut rig, client), "+OK\r\n");
    assert_eq!(answer(&mut rig, exec), "*1\r\n:1\r\n");
    let answers: Vec<String> = waiting.iter().map(|(client, _)| answer(&mut rig, *client)).collect();
    assert_eq!(answers, ["+OK\r\n", "+OK\r\n", "+OK\r\n", "+NOKEY\r\n"]);
}

#[test]
fn copies_keep_nobody_back_and_delete_nothing() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run("RPUSH list a b");
    let migration = begin(&mut rig, client, "MIGRATE h 1 list 0 1000 COPY");
    let before = sent(&migration);
    rig.check("RPUSH list c", ":3");
    assert_eq!(sent(&migration), before);
    end(&mut rig, &migration, &[0], None);
    assert_eq!(answer(&mut rig, client), "+OK\r\n");
    rig.check("LLEN list", ":3");
}

#[test]
fn a_client_that_is_gone_leaves_no_copy_behind() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run("SET k v");
    let migration = begin(&mut rig, client, "MIGRATE h 1 k 0 1000");
    rig.engine.client_lost(client, &mut rig.process);
    rig.engine.disconnect(client, &mut rig.process);
    end(&mut rig, &migration, &[0], None);
    rig.check("EXISTS k", ":0");
    rig.check("SET k w", "+OK");
}

#[test]
fn a_server_that_became_a_replica_deletes_nothing() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run("SET k v");
    let migration = begin(&mut rig, client, "MIGRATE h 1 k 0 1000");
    rig.run("REPLICAOF 10.0.0.1 6379");
    assert!(answer(&mut rig, client).starts_with("-UNBLOCKED "));
    end(&mut rig, &migration, &[0], None);
    rig.check("EXISTS k", ":1");
}

#[test]
fn a_failover_waits_for_it() {
    let mut rig = Rig::new();
    let (client, replica) = (rig.connect(), rig.connect());
    rig.run_as(replica, "REPLCONF listening-port 7000 capa psync2");
    rig.engine.feed(replica);
    rig.run("SET k v");
    let migration = begin(&mut rig, client, "MIGRATE h 1 k 0 1000");
    rig.check("FAILOVER", "+OK");
    let acknowledge = |rig: &mut Rig| {
        let info = rig.run("INFO replication");
        let offset =
            info.split("master_repl_offset:").nth(1).unwrap().split("\\r").next().unwrap().to_owned();
        rig.argv_unread(replica, &[b"REPLCONF", b"ACK", offset.as_bytes()]);
        rig.end_iteration();
    };
    acknowledge(&mut rig);
    assert!(!rig.engine.is_failing_over());
    end(&mut rig, &migration, &[0], None);
    assert!(rig.fed(replica).contains("DEL k"));
    assert!(!rig.engine.is_failing_over());
    acknowledge(&mut rig);
    assert!(rig.engine.is_failing_over());
}

#[test]
fn inside_a_transaction_it_happens_in_place() {
    let mut rig = Rig::new();
    let replica = rig.replica();
    rig.process.migration_outcome = MigrationOutcome { taken: vec![0], error: None };
    rig.check("MULTI", "+OK");
    rig.run("SET y 1");
    rig.run("MIGRATE h 1 y 0 1000");
    rig.run("EXISTS y");
    rig.check("EXEC", "[+OK, +OK, :0]");
    assert_eq!(rig.fed(replica), "MULTI; SET y 1; DEL y; EXEC");
    assert!(rig.process.migrated[0].starts_with(b"*4\r\n$7\r\nRESTORE\r\n$1\r\ny\r\n"));
    let error = b"IOERR error or timeout writing to target instance".to_vec();
    rig.process.migration_outcome = MigrationOutcome { taken: Vec::new(), error: Some(error) };
    rig.run("SET y 1");
    rig.check("MULTI", "+OK");
    rig.run("MIGRATE h 1 y 0 1000");
    rig.check("EXEC", "[-IOERR error or timeout writing to target instance]");
    rig.check("EXISTS y", ":1");
}

#[test]
fn secrets_are_hidden() {
    let mut rig = Rig::new();
    let monitor = rig.connect();
    rig.run_as(monitor, "MONITOR");
    rig.run("MIGRATE h 1 \"\" 0 1000 AUTH secret KEYS none");
    rig.run("MIGRATE h 1 none 0 1000 AUTH2 me secret COPY");
    let shown = answer(&mut rig, monitor);
    assert!(shown.contains("\"AUTH\" \"(redacted)\" \"KEYS\" \"none\""), "{shown}");
    assert!(shown.contains("\"AUTH2\" \"(redacted)\" \"(redacted)\" \"COPY\""), "{shown}");
}

#[test]
fn regress_a_migration_deletes_nothing_while_a_pause_keeps_writes_back() {
    let mut rig = Rig::new();
    let (client, copier, writer) = (rig.connect(), rig.connect(), rig.connect());
    let replica = rig.replica();
    rig.run("MSET moved 1 copied 2");
    rig.fed(replica);
    let migration = begin(&mut rig, client, "MIGRATE h 1 moved 0 1000");
    let copy = begin(&mut rig, copier, "MIGRATE h 1 copied 0 1000 COPY");
    rig.check("CLIENT PAUSE 3000 WRITE", "+OK");
    end(&mut rig, &migration, &[0], None);
    end(&mut rig, &copy, &[0], None);
    rig.pass_ms(1000);
    rig.cron();
    rig.check("GET moved", "\"1\"");
    assert_eq!((rig.fed(replica), answer(&mut rig, client)), (String::new(), String::new()));
    assert_eq!(answer(&mut rig, copier), "+OK\r\n", "a copy changes nothing");
    assert_eq!(rig.run_as(writer, "APPEND moved x"), "");
    rig.pass_ms(2100);
    rig.cron();
    assert_eq!(answer(&mut rig, client), "+OK\r\n");
    assert_eq!(answer(&mut rig, writer), ":1\r\n", "its key was held until it was gone");
    assert_eq!(rig.fed(replica), "DEL moved; APPEND moved x");
}

#[test]
fn a_migration_that_a_pause_keeps_is_followed_by_what_the_clients_do_then() {
    for (line, deletes) in [("CLIENT UNPAUSE", true), ("REPLICAOF 127.0.0.1 1", false)] {
        let mut rig = Rig::new();
        let client = rig.connect();
        rig.run("SET moved 1");
        let migration = begin(&mut rig, client, "MIGRATE h 1 moved 0 1000");
        rig.check("CLIENT PAUSE 3000 WRITE", "+OK");
        end(&mut rig, &migration, &[0], None);
        rig.check(line, "+OK");
        rig.pass_ms(3100);
        rig.cron();
        assert_eq!(rig.engine.keyspace().db(0).is_empty(), deletes, "{line}");
    }
}

/// The deletions of a migration count as its client's changes.
#[test]
fn the_client_is_told_of_its_own_deletion_behind_the_reply_or_not_at_all() {
    let push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    for options in ["", "NOLOOP", "BCAST", "BCAST NOLOOP"] {
        let mut rig = Rig::new();
        let [client, other] = [rig.connect(), rig.connect()];
        for of in [client, other] {
            rig.run_as(of, "HELLO 3");
            rig.run_as(of, &format!("CLIENT TRACKING ON {options}"));
        }
        rig.run("SET k v");
        for of in [client, other] {
            rig.output(of);
            rig.run_as(of, "GET k");
        }
        let migration = begin(&mut rig, client, "MIGRATE 127.0.0.1 6379 k 0 1000");
        end(&mut rig, &migration, &[0], None);
        let own = if options.contains("NOLOOP") { "" } else { push };
        assert_eq!(answer(&mut rig, client), format!("+OK\r\n{own}"), "{options}");
        assert_eq!(answer(&mut rig, other), push, "{options}");
    }
}
