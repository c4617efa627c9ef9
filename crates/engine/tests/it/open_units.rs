//! Tests of an open unit, that is, a suspended transaction or script: the data that other clients see in the
//! meantime, and the work that waits for the unit's end. Here DEBUG STAND-STILL suspends transactions;
//! scripts are suspended in the same way.

use sluice_base::SessionKey;
use sluice_commands::MigrationOutcome;
use sluice_control::persistence::ending::EndOrder;
use sluice_control::persistence::saving::Ending;
use sluice_control::replication::role::SyncSource;
use sluice_testkit::Rig;

/// Makes the first client begin an EXEC of two commands that is suspended for a second between them.
fn open(rig: &mut Rig, before: &str, behind: &str) {
    assert_eq!(rig.run("MULTI"), "+OK");
    for line in [before, "DEBUG STAND-STILL 1000", behind] {
        assert_eq!(rig.run(line), "+QUEUED");
    }
    assert_eq!(rig.run("EXEC"), "", "the reply comes as a whole, at the end");
    assert!(rig.engine.has_open_unit());
}

/// Lets the second of the suspension pass. Returns the reply of the EXEC.
fn close(rig: &mut Rig) -> String {
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    assert!(!rig.engine.has_open_unit());
    own_answer(rig)
}

fn answer(rig: &mut Rig, client: SessionKey) -> String {
    sluice_testkit::render(&rig.output(client))
}

fn own_answer(rig: &mut Rig) -> String {
    let client = rig.client;
    answer(rig, client)
}

#[test]
fn others_are_held_and_go_on_in_their_order() {
    let mut rig = Rig::new();
    let clients: Vec<SessionKey> = (0..3).map(|_| rig.connect()).collect();
    open(&mut rig, "RPUSH l a", "RPUSH l b");
    for (number, client) in clients.iter().enumerate() {
        rig.check_as(*client, &format!("RPUSH l {number}"), "");
    }
    rig.pass_ms(999);
    rig.engine.advance_unit(&mut rig.process);
    assert!(rig.engine.has_open_unit(), "it is too early");
    assert_eq!(answer(&mut rig, clients[0]), "");
    rig.pass_ms(1);
    rig.engine.advance_unit(&mut rig.process);
    assert_eq!(own_answer(&mut rig), "[:1, +OK, :2]");
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(answer(&mut rig, *client), format!(":{}", number + 3));
    }
    rig.check("LRANGE l 0 -1", "[\"a\", \"b\", \"0\", \"1\", \"2\"]");
}

#[test]
fn whatever_is_asked_is_held_but_the_acknowledgements_of_replicas() {
    let mut rig = Rig::new();
    let replica = rig.replica();
    rig.fed(replica);
    let lines = ["PING", "INFO", "CLIENT LIST", "MULTI", "GET a", "CONFIG SET maxmemory 0", "SUBSCRIBE c"];
    let clients: Vec<SessionKey> = lines.iter().map(|_| rig.connect()).collect();
    open(&mut rig, "SET a 1", "SET b 2");
    for (client, line) in clients.iter().zip(lines) {
        rig.check_as(*client, line, "");
    }
    rig.argv(replica, &[b"REPLCONF", b"ACK", b"7"]);
    let state = rig.engine.session(replica).unwrap().caller.replica.as_ref().unwrap();
    assert_eq!(state.acked, 7);
    assert_eq!(close(&mut rig), "[+OK, +OK, +OK]");
    for client in clients {
        assert_ne!(answer(&mut rig, client), "");
    }
}

#[test]
fn replicas_and_the_append_only_file_get_it_as_one_at_its_end() {
    let mut rig = Rig::with(&[("appendonly", "yes")]);
    rig.engine.begin_aof();
    let replica = rig.replica();
    rig.run("SET before 1");
    rig.fed(replica);
    rig.appended();
    open(&mut rig, "SET a 1", "INCR a");
    rig.end_iteration();
    rig.cron();
    assert_eq!(rig.fed(replica), "");
    assert_eq!(rig.appended(), "");
    close(&mut rig);
    assert_eq!(rig.fed(replica), "MULTI; SET a 1; INCR a; EXEC");
    assert_eq!(rig.appended(), "MULTI SET a 1 INCR a EXEC");
}

#[test]
fn it_may_stand_still_again_and_its_time_is_the_sum() {
    let mut rig = Rig::new();
    rig.run("CONFIG RESETSTAT");
    rig.run("MULTI");
    for line in ["SET a 1", "DEBUG STAND-STILL 10", "SET b 1", "DEBUG STAND-STILL 10", "SET c 1"] {
        rig.run(line);
    }
    rig.run("EXEC");
    for _ in 0..2 {
        assert!(rig.engine.has_open_unit());
        rig.pass_ms(10);
        rig.engine.advance_unit(&mut rig.process);
    }
    assert_eq!(own_answer(&mut rig), "[+OK, +OK, +OK, +OK, +OK]");
    let info = rig.run("INFO commandstats");
    assert!(info.contains("cmdstat_exec:calls=1,usec=2,"), "its commands have their own time: {info}");
    assert!(info.contains("cmdstat_set:calls=3,"), "{info}");
}

#[test]
fn expired_keys_stay_until_its_end() {
    let mut rig = Rig::new();
    rig.run("SET short 1 PX 100");
    open(&mut rig, "SET a 1", "SET b 2");
    rig.pass_ms(500);
    rig.cron();
    assert_eq!(rig.engine.keyspace().db(0).len(), 2, "the keys before and of the unit");
    close(&mut rig);
    rig.cron();
    rig.check("DBSIZE", ":2");
}

#[test]
fn nothing_is_evicted_before_its_end() {
    let mut rig = Rig::with(&[("maxmemory-policy", "allkeys-lru"), ("maxmemory-eviction-tenacity", "100")]);
    rig.process.facts.used_memory = 0;
    rig.process.counts_data = true;
    (0..2000).for_each(|number| {
        rig.run(&format!("SET key:{number} {}", "v".repeat(1000)));
    });
    rig.run("MULTI");
    for line in ["CONFIG SET maxmemory 1mb", "DEBUG STAND-STILL 1000", "SET b 2"] {
        assert_eq!(rig.run(line), "+QUEUED");
    }
    rig.run("EXEC");
    assert!(rig.engine.has_open_unit());
    rig.cron();
    rig.end_iteration();
    assert_eq!(rig.engine.keyspace().db(0).len(), 2000);
    close(&mut rig);
    rig.cron();
    rig.end_iteration();
    assert!(rig.engine.keyspace().db(0).len() < 2000);
}

#[test]
fn a_save_begins_behind_it() {
    let mut rig = Rig::with(&[("save", "1 1")]);
    open(&mut rig, "SET a 1", "SET b 2");
    rig.pass_ms(5000);
    rig.cron();
    assert!(!rig.engine.has_job(), "no cut may show half of it");
    rig.engine.advance_unit(&mut rig.process);
    assert!(!rig.engine.has_open_unit());
    rig.pass_ms(100);
    rig.cron();
    assert!(rig.engine.has_job());
}

#[test]
fn a_save_that_had_begun_goes_on_and_shows_nothing_of_it() {
    let mut rig = Rig::new();
    rig.run("SET before 1");
    rig.process.background_room.set(0);
    rig.check("BGSAVE", "+Background saving started");
    open(&mut rig, "SET a 1", "DEL before");
    rig.process.background_room.set(usize::MAX);
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    close(&mut rig);
    rig.run("SHUTDOWN NOSAVE");
    let files = rig.process.snapshots.clone();
    let mut other = Rig::new();
    other.process.snapshots = files;
    other.check("DEBUG RELOAD NOSAVE", "+OK");
    other.check("KEYS *", "[\"before\"]");
}

#[test]
fn a_full_synchronisation_begins_behind_it() {
    let mut rig = Rig::with(&[("repl-diskless-sync-delay", "0")]);
    let replica = rig.connect();
    let client = rig.connect();
    // The replica asks for a synchronisation in the same iteration, before the unit is open.
    rig.argv_unread(replica, &[b"PSYNC", b"?", b"-1"]);
    rig.argv_unread(client, &[b"MULTI"]);
    rig.argv_unread(client, &[b"SET", b"a", b"1"]);
    rig.argv_unread(client, &[b"DEBUG", b"STAND-STILL", b"1000"]);
    rig.argv_unread(client, &[b"SET", b"b", b"1"]);
    rig.argv_unread(client, &[b"EXEC"]);
    assert!(rig.engine.has_open_unit());
    rig.end_iteration();
    rig.cron();
    rig.end_iteration();
    assert!(!rig.engine.makes_full_sync());
    assert!(rig.engine.take_refused_between_units().contains(&"FullSync".to_owned()));
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    let sent = rig.output(replica);
    let has = |word: &[u8]| sent.windows(word.len()).any(|part| part == word);
    assert!(has(b"FULLRESYNC"), "{}", sent.escape_ascii());
}

#[test]
fn a_promotion_waits_for_its_end() {
    let mut rig = Rig::with(&[("replica-read-only", "no")]);
    rig.run("REPLICAOF 127.0.0.1 7000");
    let client = rig.connect();
    open(&mut rig, "SET a 1", "SET b 2");
    rig.check_as(client, "REPLICAOF NO ONE", "");
    rig.cron();
    assert!(rig.engine.primary().is_some());
    close(&mut rig);
    assert_eq!(answer(&mut rig, client), "+OK");
    assert!(rig.engine.primary().is_none());
}

#[test]
fn a_role_that_the_unit_itself_asks_for_comes_with_its_end() {
    let mut rig = Rig::new();
    rig.run("MULTI");
    for line in ["DEBUG STAND-STILL 1000", "REPLICAOF 127.0.0.1 7000", "SET b 2", "DEBUG STAND-STILL 1000"] {
        assert_eq!(rig.run(line), "+QUEUED");
    }
    rig.run("EXEC");
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    assert!(rig.engine.has_open_unit());
    assert!(rig.engine.primary().is_none());
    rig.end_iteration();
    assert!(rig.engine.take_refused_between_units().contains(&"Role".to_owned()));
    assert_eq!(close(&mut rig), "[+OK, +OK, +OK, +OK]");
    assert!(rig.engine.primary().is_some());
}

#[test]
fn what_a_migration_has_moved_is_deleted_behind_it() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run("SET k v");
    assert_eq!(rig.run_as(client, "MIGRATE there 7000 k 0 1000"), "");
    let migration = rig.migrations.pop().unwrap();
    // An EXEC that may write waits for a migration; an EXEC that reads does not.
    open(&mut rig, "EXISTS k", "EXISTS k");
    let keys = |rig: &Rig| rig.engine.keyspace().db(0).len();
    let outcome = MigrationOutcome { taken: vec![0], error: None };
    rig.engine.end_migration(migration.id, outcome, &mut rig.process);
    assert_eq!((answer(&mut rig, client).as_str(), keys(&rig)), ("", 1));
    assert!(rig.engine.take_refused_between_units().contains(&"Migration".to_owned()));
    assert_eq!(close(&mut rig), "[:1, +OK, :1]");
    assert_eq!(answer(&mut rig, client), "+OK");
    rig.check("EXISTS k", ":0");
}

#[test]
fn clients_that_wait_are_served_behind_it() {
    let mut rig = Rig::new();
    let waiting = rig.connect();
    rig.check_as(waiting, "BLPOP l 0", "");
    open(&mut rig, "RPUSH l a", "RPUSH l b");
    assert_eq!(answer(&mut rig, waiting), "");
    assert_eq!(close(&mut rig), "[:1, +OK, :2]");
    assert_eq!(answer(&mut rig, waiting), "[\"l\", \"a\"]");
}

#[test]
fn a_wait_may_end_by_its_time() {
    let mut rig = Rig::new();
    let waiting = rig.connect();
    rig.check_as(waiting, "BLPOP l 0.1", "");
    open(&mut rig, "SET a 1", "SET b 2");
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(answer(&mut rig, waiting), "nil-array");
    assert!(rig.engine.has_open_unit());
}

#[test]
fn the_end_of_the_server_waits_for_it() {
    let mut rig = Rig::new();
    open(&mut rig, "SET a 1", "SET b 2");
    assert!(rig.engine.end_waits_for_cron(&mut rig.process), "a signal is looked at again by the cron");
    close(&mut rig);
    assert!(!rig.engine.end_waits_for_cron(&mut rig.process));
    assert!(rig.engine.prepare_end(&EndOrder::new(Ending::Save, false), &mut rig.process));
    assert!(!rig.process.snapshots.borrow().is_empty());
}

#[test]
fn shutdown_of_another_client_is_held() {
    let mut rig = Rig::new();
    let client = rig.connect();
    open(&mut rig, "SET a 1", "SET b 2");
    rig.check_as(client, "SHUTDOWN SAVE", "");
    assert!(!rig.actions.iter().any(|action| format!("{action:?}").starts_with("Shutdown")));
    close(&mut rig);
    assert!(rig.actions.iter().any(|action| format!("{action:?}").starts_with("Shutdown")));
}

#[test]
fn it_is_finished_for_a_client_that_has_gone() {
    for lost_before in [false, true] {
        let mut rig = Rig::new();
        let replica = rig.replica();
        let other = rig.connect();
        rig.fed(replica);
        open(&mut rig, "SET a 1", "SUBSCRIBE c");
        if lost_before {
            rig.engine.client_lost(rig.client, &mut rig.process);
            rig.end_iteration();
        }
        rig.engine.disconnect(rig.client, &mut rig.process);
        rig.check_as(other, "GET a", "");
        rig.pass_ms(1000);
        rig.engine.advance_unit(&mut rig.process);
        assert!(!rig.engine.has_open_unit());
        assert_eq!(answer(&mut rig, other), "\"1\"");
        assert_eq!(rig.fed(replica), "SET a 1");
        rig.check_as(other, "PUBSUB NUMSUB c", "[\"c\", :0]");
        rig.check_as(other, "DBSIZE", ":1");
    }
}

#[test]
fn it_is_finished_for_a_client_that_is_evicted() {
    let mut rig = Rig::with(&[("maxmemory-clients", "100mb")]);
    let other = rig.connect();
    rig.run(&format!("SET big {}", "x".repeat(400_000)));
    rig.run("CONFIG SET maxmemory-clients 100kb");
    rig.run("MULTI");
    for line in ["GET big", "DEBUG STAND-STILL 1000", "SET b 2"] {
        rig.run(line);
    }
    rig.run("EXEC");
    rig.end_iteration();
    assert!(rig.is_closing(rig.client), "the limit holds for it too");
    rig.engine.disconnect(rig.client, &mut rig.process);
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    rig.check_as(other, "GET b", "\"2\"");
}

#[test]
fn its_effects_of_config_are_seen_by_its_next_command() {
    let mut rig = Rig::new();
    rig.run("MULTI");
    for line in [
        "CONFIG SET list-max-listpack-size 1",
        "DEBUG STAND-STILL 1000",
        "RPUSH l a b c",
        "OBJECT ENCODING l",
    ] {
        rig.run(line);
    }
    rig.run("EXEC");
    assert_eq!(close(&mut rig), "[+OK, +OK, :3, \"quicklist\"]");
}

#[test]
fn it_stands_still_in_exec_alone() {
    let mut rig = Rig::new();
    rig.check("DEBUG STAND-STILL 10", "-ERR DEBUG STAND-STILL is for EXEC");
}

#[test]
fn a_load_takes_over_behind_it() {
    let mut rig = Rig::with(&[("replica-read-only", "no")]);
    rig.run("SET old 1");
    rig.run("SAVE");
    rig.run("SET new 1");
    rig.run("REPLICAOF 127.0.0.1 7000");
    rig.holds_loads = true;
    open(&mut rig, "SET a 1", "EXISTS new a");
    rig.engine.begin_sync_load(SyncSource::File, &mut rig.process);
    assert!(rig.finish_loads().is_none(), "the rest of the unit meets the data of before");
    assert!(rig.engine.take_refused_between_units().contains(&"Load".to_owned()));
    assert_eq!(close(&mut rig), "[+OK, +OK, :2]");
    assert!(rig.finish_loads().is_some());
    assert_eq!(rig.engine.keyspace().db(0).len(), 1);
}

#[test]
fn its_messages_to_itself_go_to_nobody_else() {
    let mut rig = Rig::with(&[("maxmemory", "100mb")]);
    rig.run("HELLO 3");
    rig.run("SUBSCRIBE c");
    let other = rig.connect();
    open(&mut rig, "PUBLISH c inside", "SET b 2");
    rig.check_as(other, "GET a", "");
    let sent = close(&mut rig);
    let (reply, push) = (sent.find(":1").unwrap(), sent.find("inside").unwrap());
    assert!(reply < push, "its own message comes behind the whole reply: {sent}");
}

#[test]
fn what_others_send_it_meanwhile_stands_before_its_reply() {
    let mut rig = Rig::new();
    open(&mut rig, "GET a", "GET b");
    let client = rig.client;
    rig.engine.protocol_error(client, b"ERR Protocol error: test", b"", &mut rig.process);
    let sent = close(&mut rig);
    assert!(sent.starts_with("-ERR Protocol error: test"), "{sent}");
    assert!(sent.ends_with("[nil, +OK, nil]"), "{sent}");
}

#[test]
fn a_change_of_the_configuration_is_noticed_by_the_next_command() {
    let mut rig = Rig::new();
    let listener = rig.connect();
    rig.run_as(listener, "SUBSCRIBE __keyevent@0__:set");
    rig.run("MULTI");
    rig.run("CONFIG SET notify-keyspace-events KEA");
    rig.run("SET a 1");
    assert_eq!(rig.run("EXEC"), "[+OK, +OK]");
    assert!(answer(&mut rig, listener).contains("\"a\""), "the command behind CONFIG SET is told of");
}

#[test]
fn keys_that_are_watched_may_expire() {
    let mut rig = Rig::new();
    let other = rig.connect();
    let keys: Vec<String> = (0..100).map(|number| format!("k:{number}")).collect();
    for key in &keys {
        rig.run(&format!("SET {key} 1 PX 10"));
    }
    rig.run_as(other, &format!("WATCH {}", keys.join(" ")));
    rig.pass_ms(500);
    rig.cron();
    rig.check("DBSIZE", ":0");
}

#[test]
fn a_save_point_waits_without_a_word() {
    let mut rig = Rig::with(&[("save", "1 1")]);
    open(&mut rig, "SET a 1", "SET b 2");
    for _ in 0..4 {
        rig.pass_ms(200);
        rig.cron();
    }
    assert!(!rig.process.log.iter().any(|(_, line)| line.contains("Saving...")));
    assert!(rig.engine.take_refused_between_units().contains(&"Save".to_owned()));
}

#[test]
fn what_is_saved_at_the_end_shows_no_part_of_a_unit() {
    let mut rig = Rig::new();
    let client = rig.connect();
    rig.run("SET before 1");
    rig.run_as(client, "SHUTDOWN SAVE");
    rig.run("MULTI");
    for line in ["SET a 1", "DEBUG STAND-STILL 1000", "SET b 2"] {
        rig.run(line);
    }
    assert_eq!(rig.run("EXEC"), "[+OK, +OK, +OK]", "no unit stands open behind the save of the end");
    rig.engine.save_rest(&mut rig.process);
    let mut other = Rig::new();
    other.process.snapshots = rig.process.snapshots.clone();
    other.check("DEBUG RELOAD NOSAVE", "+OK");
    other.check("EXISTS a b", ":2");
}

#[test]
fn nobody_is_served_behind_a_unit_that_has_come_out_of_a_pause() {
    let mut rig = Rig::new();
    let (waiting, other) = (rig.connect(), rig.connect());
    rig.check_as(waiting, "BLPOP l 0.5", "");
    for line in ["MULTI", "RPUSH l x", "DEBUG STAND-STILL 1000", "LPOP l"] {
        rig.run_as(other, line);
    }
    rig.run("CLIENT PAUSE 200 WRITE");
    rig.run_as(other, "EXEC");
    rig.pass_ms(300);
    rig.cron();
    assert!(rig.engine.has_open_unit());
    rig.pass_ms(300);
    rig.cron();
    assert_eq!(answer(&mut rig, waiting), "nil-array", "its time is over");
}

#[test]
fn a_signal_that_waits_for_it_can_be_aborted() {
    let mut rig = Rig::new();
    let other = rig.connect();
    open(&mut rig, "SET a 1", "SET b 2");
    assert!(rig.engine.end_waits_for_cron(&mut rig.process));
    rig.run_as(other, "SHUTDOWN ABORT");
    close(&mut rig);
    assert_eq!(answer(&mut rig, other), "+OK");
}

#[test]
fn a_save_that_was_asked_for_begins_while_no_load_is_under_way() {
    let mut rig = Rig::with(&[("replica-read-only", "no")]);
    rig.run("SET old 1");
    rig.run("SAVE");
    rig.run("REPLICAOF 127.0.0.1 7000");
    rig.holds_loads = true;
    rig.run("MULTI");
    for line in ["DEBUG STAND-STILL 1000", "CONFIG SET appendonly yes", "DEBUG STAND-STILL 1000", "SET b 2"] {
        assert_eq!(rig.run(line), "+QUEUED");
    }
    rig.run("EXEC");
    rig.pass_ms(1000);
    rig.engine.advance_unit(&mut rig.process);
    assert!(rig.engine.has_open_unit());
    assert!(rig.engine.take_refused_between_units().contains(&"Rewrite".to_owned()));
    rig.engine.begin_sync_load(SyncSource::File, &mut rig.process);
    assert_eq!(close(&mut rig), "[+OK, +OK, +OK, +OK]");
    assert!(!rig.engine.has_job());
}

#[test]
fn a_history_that_nobody_follows_ends_behind_it() {
    let mut rig = Rig::with(&[("repl-backlog-ttl", "1")]);
    let replica = rig.replica();
    rig.run("SET before 1");
    rig.engine.disconnect(replica, &mut rig.process);
    let id = rig.run("INFO replication");
    open(&mut rig, "SET a 1", "SET b 2");
    for _ in 0..9 {
        rig.pass_ms(1100);
        rig.cron();
    }
    assert!(rig.engine.take_refused_between_units().contains(&"History".to_owned()));
    rig.engine.advance_unit(&mut rig.process);
    let replid =
        |text: &str| text.split("\\r\\n").find(|line| line.starts_with("master_replid:")).map(str::to_owned);
    assert_eq!(replid(&rig.run("INFO replication")), replid(&id));
}

/// Tests work that becomes due only because time passes.
#[test]
fn what_the_clock_brings_is_refused_meanwhile() {
    let mut rig = Rig::with(&[("maxmemory", "1gb"), ("save", "1 1")]);
    let waiting = rig.connect();
    rig.check_as(waiting, "BLPOP l 0", "");
    rig.run("MULTI");
    for line in
        ["RPUSH l a", "DEBUG STAND-STILL 60000", "REPLICAOF 127.0.0.1 7000", "DEBUG STAND-STILL 60000"]
    {
        rig.run(line);
    }
    rig.run("EXEC");
    rig.end_iteration();
    rig.pass_ms(2000);
    rig.cron();
    assert!(rig.engine.end_waits_for_cron(&mut rig.process));
    let refused = rig.engine.take_refused_between_units().join(" ");
    for what in ["Save", "Rewrite", "History", "Expiry", "Eviction", "Service", "End"] {
        assert!(refused.contains(what), "{what} of {refused}");
    }
}
