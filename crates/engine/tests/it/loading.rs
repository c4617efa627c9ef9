//! Commands of clients while data are loaded, and the hand-over of the loaded data. The test decides
//! when the load runs.

use sluice_control::action::Action;
use sluice_control::persistence::loading::LoadEnded;
use sluice_snapshot::NotLoaded;
use sluice_testkit::Rig;

const LOADING: &str = "-LOADING Valkey is loading the dataset in memory";
const NOT_LOADED: &str = "-ERR Error trying to load the RDB dump, check server logs.";

fn log(rig: &mut Rig) -> String {
    let lines: Vec<String> = rig.process.log.drain(..).map(|(_, text)| text).collect();
    lines.join("; ")
}

fn field(rig: &mut Rig, field: &str) -> Option<String> {
    let text = rig.run("INFO everything");
    let found = text.split("\\r\\n").find_map(|line| line.strip_prefix(&format!("{field}:")));
    found.map(str::to_owned)
}

fn info(rig: &mut Rig, name: &str) -> String {
    field(rig, name).unwrap_or_else(|| panic!("no {name}"))
}

/// A server that has `count` keys and has saved them.
fn saved(directives: &[(&str, &str)], count: usize) -> Rig {
    let mut rig = Rig::with(directives);
    rig.run(&format!("DEBUG POPULATE {count}"));
    rig.check("SAVE", "+OK");
    rig.process.log.clear();
    rig
}

/// A server with data on which another client's DEBUG RELOAD is under way.
fn loading(directives: &[(&str, &str)], options: &str) -> (Rig, sluice_base::SessionKey) {
    let mut rig = saved(directives, 20);
    rig.holds_loads = true;
    let other = rig.connect();
    assert_eq!(rig.run_as(other, &format!("DEBUG RELOAD NOSAVE {options}")), "");
    (rig, other)
}

#[test]
fn the_start_loads_the_file_and_a_missing_one_is_none() {
    let mut rig = Rig::new();
    assert_eq!(rig.engine.begin_load_at_start(&mut rig.process), Ok(false), "there is no file");
    assert_eq!(log(&mut rig), "");
    rig.run("SET a 1");
    rig.check("SAVE", "+OK");
    for deletes in [false, true] {
        let mut other = Rig::new();
        other.process.snapshots = rig.process.snapshots.clone();
        other.holds_loads = true;
        assert_eq!(other.engine.begin_load_at_start(&mut other.process), Ok(true));
        other.check("GET a", LOADING);
        if deletes {
            // The file is already open, so its removal has no effect.
            other.process.snapshots.borrow_mut().clear();
        }
        assert_eq!(other.finish_loads(), Some(LoadEnded::Start(Ok(()))));
        let said = log(&mut other);
        assert!(said.contains("DB loaded from disk: ") && said.ends_with(" seconds"), "{said}");
        other.check("GET a", "\"1\"");
    }
    let mut other = Rig::new();
    other.process.snapshots.borrow_mut().insert(b"dump.rdb".to_vec(), b"garbagegarbage".to_vec());
    other.holds_loads = true;
    assert_eq!(other.engine.begin_load_at_start(&mut other.process), Ok(true));
    other.check("GET a", LOADING);
    assert_eq!(other.finish_loads(), Some(LoadEnded::Start(Err(NotLoaded::Failed))));
}

#[test]
fn commands_are_refused_or_allowed_as_their_flag_says() {
    let (mut rig, other) = loading(&[], "");
    for line in [
        "PING",
        "GET key:1",
        "SET a 1",
        "DBSIZE",
        "FLUSHALL",
        "SAVE",
        "BLPOP l 0",
        "EXISTS a",
        "SCAN 0",
        "DEBUG RELOAD",
        "DEBUG POPULATE 3",
        "SWAPDB 0 1",
        "MEMORY STATS",
    ] {
        rig.check(line, LOADING);
    }
    rig.check("CONFIG SET dir /tmp", LOADING);
    rig.check("CONFIG SET maxmemory 0", "+OK");
    rig.check("ECHO x", "\"x\"");
    rig.check("SELECT 1", "+OK");
    rig.check("SELECT 0", "+OK");
    rig.check("AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?");
    rig.check("LASTSAVE", &format!(":{}", rig.process.now.unix_us / 1_000_000));
    rig.check("PUBLISH a b", ":0");
    rig.check("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: ");
    rig.check("GET", "-ERR wrong number of arguments for 'get' command");
    assert_eq!(info(&mut rig, "loading"), "1");
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Debug));
    assert_eq!(rig.output(other), b"+OK\r\n");
    rig.check("PING", "+PONG");
    rig.check("DBSIZE", ":20");
    rig.check("GET key:1", "\"value:1\"");
    assert_eq!(info(&mut rig, "loading"), "0");
}

#[test]
fn a_transaction_runs_during_a_load_where_all_of_it_may() {
    let mut rig = saved(&[], 20);
    let (first, second) = (rig.connect(), rig.connect());
    for client in [first, second] {
        rig.run_as(client, "MULTI");
        rig.run_as(client, "ECHO x");
    }
    rig.run_as(first, "GET key:1");
    rig.holds_loads = true;
    let other = rig.connect();
    rig.run_as(other, "DEBUG RELOAD NOSAVE");
    let refused = format!("-EXECABORT Transaction discarded because of: {}", &LOADING[1..]);
    assert_eq!(rig.run_as(first, "EXEC"), refused);
    assert_eq!(rig.run_as(second, "EXEC"), "[\"x\"]");
    rig.check("MULTI", "+OK");
    rig.check("GET key:1", LOADING);
    rig.check("EXEC", "-EXECABORT Transaction discarded because of previous errors.");
}

#[test]
fn reload_within_a_transaction_waits_for_nothing() {
    let mut rig = saved(&[("key-load-delay", "2")], 20);
    rig.run("MULTI");
    rig.run("SET key:1 changed");
    rig.run("DEBUG RELOAD NOSAVE");
    rig.run("GET key:1");
    rig.check("EXEC", "[+OK, +OK, \"value:1\"]");
    assert!(rig.loads.is_empty());
    rig.run("MULTI");
    rig.run("DEBUG RELOAD NOSAVE NOFLUSH");
    rig.run("DBSIZE");
    rig.check("EXEC", &format!("[{NOT_LOADED}, :20]"));
}

#[test]
fn info_shows_how_far_the_load_is() {
    let (mut rig, _) = loading(&[], "");
    let start = (rig.process.now.unix_us / 1_000_000).to_string();
    assert_eq!(info(&mut rig, "loading_start_time"), start);
    assert_eq!(info(&mut rig, "loading_loaded_bytes"), "0");
    assert_eq!(info(&mut rig, "loading_eta_seconds"), "1");
    let size = rig.process.snapshots.borrow()[&b"dump.rdb"[..]].len();
    let job = rig.loads.pop().expect("it was begun");
    let progress = job.progress();
    job.run(&mut Nothing);
    for (name, wanted) in [
        ("loading_total_bytes", size.to_string()),
        ("loading_loaded_bytes", size.to_string()),
        ("loading_rdb_used_mem", "1048576".to_owned()),
        ("loading_loaded_perc", "100.00".to_owned()),
        ("rdb_last_load_keys_loaded", "20".to_owned()),
        ("rdb_last_load_keys_expired", "0".to_owned()),
        ("async_loading", "0".to_owned()),
    ] {
        assert_eq!(info(&mut rig, name), wanted, "{name}");
    }
    assert!(progress.chunk_memory().used_bytes > 20 * 16);
    rig.finish_loads();
    assert_eq!(field(&mut rig, "loading_start_time"), None);
    assert_eq!(info(&mut rig, "rdb_last_load_keys_loaded"), "20");
}

/// A load thread that wakes no other thread and does not wait.
struct Nothing;

impl sluice_snapshot::LoadThread for Nothing {
    fn wake(&mut self) {}
    fn sleep(&mut self, _: u64) {}
    fn now(&mut self) -> sluice_base::Now {
        sluice_base::Now { mono_ns: 0, unix_us: 0 }
    }
}

#[test]
fn the_log_says_how_far_a_load_is() {
    let (mut rig, _) = loading(&[], "");
    rig.cron();
    rig.pass_ms(4_000);
    rig.cron();
    assert_eq!(log(&mut rig), "");
    rig.pass_ms(2_000);
    rig.cron();
    assert_eq!(log(&mut rig), "Loading: 6 seconds so far");
}

#[test]
fn the_old_data_go_to_the_freeing_thread() {
    let (mut rig, _) = loading(&[], "");
    assert!(rig.actions.is_empty());
    rig.finish_loads();
    let freed = rig.actions.iter().map(|action| match action {
        Action::FreeDb(db) => db.len(),
        _ => 0,
    });
    assert_eq!(freed.sum::<usize>(), 20);
}

#[test]
fn a_load_that_is_stopped_ends_without_data() {
    for (options, left) in [("", 20), ("NOFLUSH MERGE", 20)] {
        let (mut rig, other) = loading(&[], options);
        rig.loads[0].progress().stop();
        assert_eq!(rig.finish_loads(), Some(LoadEnded::Debug));
        assert_eq!(rig.output(other), format!("{NOT_LOADED}\r\n").as_bytes());
        rig.check("DBSIZE", &format!(":{left}"));
    }
}

#[test]
fn a_load_into_the_data_keeps_them_whatever_becomes_of_it() {
    let (mut rig, other) = loading(&[], "NOFLUSH");
    rig.check("GET key:1", LOADING);
    rig.finish_loads();
    assert_eq!(rig.output(other), format!("{NOT_LOADED}\r\n").as_bytes(), "a key is there already");
    rig.check("DBSIZE", ":20");
    rig.check("SAVE", "+OK");
    let (mut rig, other) = loading(&[], "NOFLUSH MERGE");
    rig.finish_loads();
    assert_eq!(rig.output(other), b"+OK\r\n");
    rig.check("DBSIZE", ":20");
}

#[test]
fn the_client_that_asked_may_go_and_is_not_blocked() {
    let (mut rig, other) = loading(&[], "");
    assert_eq!(info(&mut rig, "blocked_clients"), "0");
    let id = rig.engine.session(other).expect("connected").caller.id.0;
    rig.check(&format!("CLIENT UNBLOCK {id}"), ":0");
    rig.engine.disconnect(other, &mut rig.process);
    rig.finish_loads();
    rig.check("DBSIZE", ":20");
}

#[test]
fn a_key_that_is_watched_counts_as_changed_when_the_load_brings_it() {
    for is_there in [true, false] {
        let mut rig = saved(&[], 20);
        if !is_there {
            rig.run("DEL key:1");
        }
        rig.holds_loads = true;
        let other = rig.connect();
        rig.run_as(other, "DEBUG RELOAD NOSAVE");
        rig.run("WATCH key:1 other");
        rig.finish_loads();
        rig.run("MULTI");
        rig.check("EXEC", "nil-array");
    }
    let (mut rig, _) = loading(&[], "");
    rig.run("WATCH other");
    rig.finish_loads();
    rig.run("MULTI");
    rig.check("EXEC", "[]");
}

#[test]
fn no_replica_is_given_a_snapshot_of_half_the_data() {
    let mut rig = saved(&[], 20);
    let replica = rig.connect();
    rig.argv_unread(replica, &[b"SYNC"]);
    rig.holds_loads = true;
    let other = rig.connect();
    rig.run_as(other, "DEBUG RELOAD NOSAVE");
    rig.end_iteration();
    assert_eq!(info(&mut rig, "loading"), "1");
    let before = rig.output(replica);
    assert!(!before.windows(9).any(|bytes| bytes == b"VALKEY080"), "it was asked for before");
    rig.finish_loads();
    rig.end_iteration();
    let sent = rig.output(replica);
    assert!(sent.windows(6).any(|bytes| bytes == b"key:19"));
}

#[test]
fn shutdown_ends_a_load_and_saves_nothing() {
    for line in ["SHUTDOWN", "SHUTDOWN SAVE"] {
        let (mut rig, _) = loading(&[("save", "100 1")], "");
        let before = rig.process.snapshots.borrow().clone();
        rig.check(line, "");
        assert!(matches!(rig.actions.as_slice(), [Action::Shutdown]));
        assert_eq!(*rig.process.snapshots.borrow(), before);
        assert_eq!(log(&mut rig), "User requested shutdown...");
    }
}

#[test]
fn a_delay_is_waited_for_behind_each_key_or_now_and_then() {
    for (delay, wanted) in [("0", 0), ("30", 600), ("-5", 4), ("-1", 20), ("-2147483648", 0)] {
        let (mut rig, _) = loading(&[("key-load-delay", delay)], "");
        rig.finish_loads();
        assert_eq!(rig.slept_us, wanted, "{delay}");
    }
    // The setting may change during the load.
    let (mut rig, _) = loading(&[("key-load-delay", "1000000")], "");
    rig.check("CONFIG SET key-load-delay 0", "+OK");
    rig.finish_loads();
    assert_eq!(rig.slept_us, 0);
}
