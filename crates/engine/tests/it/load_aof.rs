//! Loading an append-only file: at the start, and by DEBUG LOADAOF. The test decides when the load runs.

use sluice_control::persistence::loading::LoadEnded;
use sluice_control::process::AppendOnlyFile;
use sluice_persist::rdb::{Compression, Text, Usage, Version, WriteOptions, Writer};
use sluice_snapshot::NotLoaded;
use sluice_testkit::Rig;

const LOADING: &str = "-LOADING Valkey is loading the dataset in memory";

/// Commands in the format of an append-only file.
fn log_of(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        words
            .iter()
            .for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
    }
    bytes
}

/// A server that starts with an append-only file of these files: first the base, then the increments.
fn starting(directives: &[(&str, &str)], files: &[Vec<u8>]) -> Rig {
    let mut rig = Rig::with(&[&[("appendonly", "yes")], directives].concat());
    let named = files.iter().enumerate().map(|(at, bytes)| match at {
        0 => ("base".to_owned(), bytes.clone()),
        at => (format!("incr.{at}"), bytes.clone()),
    });
    *rig.process.aof_parts.lock().expect("one thread") = named.collect();
    rig.holds_loads = true;
    let config = rig.engine.config().clone();
    let parts = rig.process.aof_files(&config, Vec::new(), 0);
    rig.engine.begin_aof_load_at_start(parts, &mut rig.process);
    rig.end_iteration();
    rig
}

/// A server that has loaded a log without a failed command.
pub(crate) fn load_log(directives: &[(&str, &str)], log: Vec<u8>) -> Rig {
    let mut rig = starting(directives, &[Vec::new(), log]);
    rig.loads.pop().expect("it was begun").run(&mut Nothing);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))), "{}", said(&rig));
    assert!(!said(&rig).contains("failed when they were replayed"), "{}", said(&rig));
    rig
}

fn said(rig: &Rig) -> String {
    rig.process.log.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ")
}

fn info(rig: &mut Rig, name: &str) -> String {
    let text = rig.run("INFO everything");
    let found = text.split("\\r\\n").find_map(|line| line.strip_prefix(&format!("{name}:")));
    found.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

/// The content of one of the files of the append-only file, by its index.
fn part(rig: &Rig, at: usize) -> Vec<u8> {
    rig.process.aof_parts.lock().expect("one thread")[at].1.clone()
}

/// PFCOUNT is not a write command, but a log contains it, because the estimate that it stores is part of the
/// value.
#[test]
fn pfcount_of_a_log_keeps_its_estimate() {
    let mut rig = starting(&[], &[log_of(&["SELECT 0", "PFADD p a b", "PFADD q a b", "PFCOUNT p"])]);
    rig.loads.pop().expect("it was begun").run(&mut Nothing);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    rig.check("PFADD fresh a b", ":1");
    let digest = |rig: &mut Rig, key: &str| rig.run(&format!("DEBUG DIGEST-VALUE {key}"));
    let before = digest(&mut rig, "fresh");
    assert_eq!(digest(&mut rig, "q"), before);
    rig.check("PFCOUNT fresh", ":2");
    assert_ne!(digest(&mut rig, "fresh"), before);
    assert_eq!(digest(&mut rig, "p"), digest(&mut rig, "fresh"));
}

#[test]
fn clients_are_answered_while_the_log_is_loaded_and_have_the_data_behind_it() {
    let base = log_of(&["SELECT 0", "SET a 1", "RPUSH list x y"]);
    let incr = log_of(&["SELECT 3", "SET b 2", "SELECT 0", "LPOP list"]);
    let size = base.len() + incr.len();
    let mut rig = starting(&[], &[base, incr]);
    rig.check("GET a", LOADING);
    rig.check("BGREWRITEAOF", LOADING);
    rig.check("ECHO x", "\"x\"");
    assert_eq!(info(&mut rig, "loading"), "1");
    assert_eq!(info(&mut rig, "aof_enabled"), "1");
    let job = rig.loads.pop().expect("it was begun");
    job.run(&mut Nothing);
    for name in ["loading_total_bytes", "loading_loaded_bytes"] {
        assert_eq!(info(&mut rig, name), size.to_string(), "{name}");
    }
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    for (line, wanted) in
        [("GET a", "\"1\""), ("LRANGE list 0 -1", "[\"y\"]"), ("SELECT 3", "+OK"), ("GET b", "\"2\"")]
    {
        rig.check(line, wanted);
    }
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "0");
    assert_eq!(info(&mut rig, "loading"), "0");
    let text = said(&rig);
    assert!(
        text.contains("DB loaded from base file base: ")
            && text.contains("DB loaded from incr file incr.1: ")
    );
    assert!(text.contains("DB loaded from append only file: "), "{text}");
}

/// A load thread that wakes no other thread and does not wait.
struct Nothing;

impl sluice_snapshot::LoadThread for Nothing {
    fn wake(&mut self) {}
    fn sleep(&mut self, _: u64) {}
    fn now(&mut self) -> sluice_base::Now {
        sluice_base::Now { mono_ns: 0, unix_us: 1_700_000_000_000_000 }
    }
}

#[test]
fn a_load_that_is_stopped_brings_nothing() {
    let mut rig = starting(&[], &[log_of(&["SET a 1"])]);
    rig.loads[0].progress().stop();
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Err(NotLoaded::Stopped))));
    rig.check("GET a", "nil");
}

#[test]
fn the_last_file_is_cut_off_behind_its_last_unit_and_another_is_refused() {
    let whole = log_of(&["SET a 1"]);
    let torn = [whole.clone(), log_of(&["MULTI", "SET b 1"])].concat();
    let mut rig = starting(&[], &[Vec::new(), whole.clone(), torn.clone()]);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    assert_eq!(part(&rig, 2), whole);
    let kept = rig.process.aof_kept.lock().expect("one thread").clone();
    assert_eq!(kept, [("incr.2.cut-1700000000".to_owned(), torn[whole.len()..].to_vec())]);
    assert!(said(&rig).contains(" are kept in incr.2.cut-1700000000, "), "{}", said(&rig));
    rig.check("DBSIZE", ":1");
    for (files, directives, wanted) in [
        (
            &[torn.clone(), whole.clone()],
            ("aof-load-truncated", "yes"),
            "the truncated file is not the last file",
        ),
        (
            &[whole.clone(), torn.clone()],
            ("aof-load-truncated", "no"),
            "Unexpected end of file reading the append only",
        ),
    ] {
        let mut rig = starting(&[directives], files);
        assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Err(NotLoaded::Failed))));
        assert!(said(&rig).contains(wanted), "{}", said(&rig));
        assert_eq!([part(&rig, 0), part(&rig, 1)], *files);
    }
}

#[test]
fn nothing_in_a_log_reaches_the_server_that_loads_it() {
    let lines =
        ["SET a 1", "FLUSHALL", "CONFIG SET maxmemory 1", "PUBLISH channel m", "DEBUG SLEEP 9", "SET b 1"];
    let mut rig = starting(&[("save", "1 1")], &[log_of(&lines)]);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    assert!(rig.process.snapshots.borrow().is_empty(), "FLUSHALL saves where there are save points");
    rig.check("CONFIG GET maxmemory", "[\"maxmemory\", \"0\"]");
    rig.check("KEYS *", "[\"b\"]");
    assert_eq!(rig.slept_us, 0);
    assert_eq!(info(&mut rig, "total_error_replies"), "0");
}

#[test]
fn a_delay_is_waited_for_behind_each_command() {
    let mut rig = starting(&[("key-load-delay", "30")], &[log_of(&["SET a 1", "SET b 1", "DEL a"])]);
    rig.finish_loads();
    assert_eq!(rig.slept_us, 90);
}

/// A server whose append-only file is turned on and has one file, to which the server appends.
fn appending() -> Rig {
    let mut rig = Rig::with(&[("appendonly", "yes")]);
    rig.engine.begin_aof();
    rig.process.aof_parts.lock().expect("one thread").push(("incr.1".to_owned(), Vec::new()));
    rig
}

#[test]
fn scripts_of_a_log_are_run() {
    let library =
        "#!lua\tname=l\nredis.register_function('two',function(k)\treturn\tredis.call('INCR',k[1])\tend)";
    let lines = [
        "SELECT 0",
        "EVAL redis.call('SET',KEYS[1],'100') 1 n",
        "MULTI",
        "EVAL redis.call('INCR',KEYS[1]) 1 n",
        "EXEC",
        &format!("FUNCTION LOAD {library}"),
        "FCALL two 1 n",
    ];
    let mut rig = starting(&[], &[log_of(&lines)]);
    rig.loads.pop().expect("it was begun").run(&mut Nothing);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    rig.check("GET n", "\"102\"");
}

#[test]
fn loadaof_brings_what_was_appended_in_the_place_of_what_is_there() {
    let mut rig = appending();
    rig.run("SET a 1");
    rig.run("SET b 2");
    rig.run("DEL b");
    rig.run("DEBUG POPULATE 10");
    rig.check("DEBUG LOADAOF", "+OK");
    rig.check("KEYS *", "[\"a\"]");
    assert!(said(&rig).ends_with("Append Only File loaded by DEBUG LOADAOF"), "{}", said(&rig));
    rig.run("SET c 1");
    assert_eq!(rig.appended(), "SET c 1", "the load itself is not appended");
}

#[test]
fn loadaof_of_a_damaged_log_leaves_the_data_alone() {
    let mut rig = appending();
    rig.run("SET a 1");
    rig.run("DEBUG POPULATE 10");
    rig.process.aof_parts.lock().unwrap()[0].1 = b"nonsense".to_vec();
    rig.check("DEBUG LOADAOF", "-ERR Error trying to load the AOF files, check server logs.");
    rig.check("DBSIZE", ":11");
    assert!(said(&rig).contains("Bad file format reading the append only file incr.1"), "{}", said(&rig));
}

#[test]
fn loadaof_waits_for_its_turn() {
    let mut rig = appending();
    rig.run("MULTI");
    rig.run("SET a 1");
    rig.run("DEBUG LOADAOF");
    rig.check("EXEC", "[+OK, -ERR DEBUG LOADAOF is not allowed in transactions]");
    rig.holds_loads = true;
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "DEBUG LOADAOF"), "");
    rig.check("DEBUG LOADAOF", LOADING);
    rig.check("GET a", LOADING);
    rig.finish_loads();
    assert_eq!(rig.output(other), b"+OK\r\n");
    // Until the first base is in force, the manifest names no file that could be loaded.
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.check("CONFIG SET appendonly yes", "+OK");
    assert!(rig.run("DEBUG LOADAOF").starts_with("-ERR The append only file was turned on"));
    rig.check("GET a", "\"1\"");
}

#[test]
fn no_file_is_turned_on_while_data_are_loaded() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.check("SAVE", "+OK");
    rig.holds_loads = true;
    let other = rig.connect();
    rig.run_as(other, "DEBUG RELOAD");
    rig.check("CONFIG SET appendonly yes", LOADING);
    rig.finish_loads();
    rig.check("CONFIG GET appendonly", "[\"appendonly\", \"no\"]");
    rig.check("CONFIG SET appendonly yes", "+OK");
    assert_eq!(rig.process.aof_cuts.len(), 1);
}

/// A rewrite during a load would put an empty base in force.
#[test]
fn no_rewrite_begins_while_data_are_loaded() {
    let mut rig = appending();
    rig.run("CONFIG SET auto-aof-rewrite-min-size 1");
    rig.run("DEBUG POPULATE 10");
    rig.check("SAVE", "+OK");
    rig.holds_loads = true;
    rig.process.facts.aof.current_bytes = 1000;
    rig.process.facts.aof.base_bytes = 100;
    let other = rig.connect();
    rig.run_as(other, "DEBUG RELOAD");
    rig.pass_ms(200);
    rig.cron();
    assert!(rig.process.aof_cuts.is_empty());
    rig.finish_loads();
    rig.pass_ms(200);
    rig.cron();
    assert_eq!(rig.process.aof_cuts.len(), 1);
}

#[test]
fn a_directive_that_is_set_during_the_load_begins_no_rewrite() {
    let mut rig = starting(&[], &[log_of(&["SET a 1"])]);
    rig.check("CONFIG SET key-load-delay 0", "+OK");
    rig.pass_ms(200);
    rig.cron();
    assert!(rig.process.aof_cuts.is_empty());
    assert!(!rig.engine.has_job());
    rig.finish_loads();
    rig.check("GET a", "\"1\"");
}

/// An RDB file with a string, and with a value of a module whose type is unknown here.
fn partly_known() -> Vec<u8> {
    let mut file = Writer::new(WriteOptions {
        version: Version::Valkey,
        compression: Compression::Strings,
        checksum: true,
    });
    file.string(b"a", Text::Bytes(b"x"), None, Usage::Absent);
    let mut bytes = file.take();
    bytes.extend_from_slice(b"\x07\x01s\x81\0\0\0\0\0\0\0\x01\x01\x05\x02\x06\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x02ab\x00\xff\0\0\0\0\0\0\0\0");
    bytes
}

const RELAXED: (&str, &str) = ("rdb-version-check", "relaxed");

#[test]
fn a_log_whose_base_was_loaded_in_part_is_not_rewritten() {
    let mut rig = starting(&[RELAXED, ("auto-aof-rewrite-min-size", "1")], &[partly_known()]);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    rig.engine.begin_aof();
    rig.check("KEYS *", "[\"a\"]");
    rig.check("BGREWRITEAOF", "-ERR");
    assert!(said(&rig).contains("Not rewriting: the append-only file holds keys"), "{}", said(&rig));
    rig.process.log.clear();
    rig.process.facts.aof.current_bytes = 1000;
    rig.process.facts.aof.base_bytes = 100;
    for _ in 0..10 {
        rig.pass_ms(200);
        rig.cron();
    }
    assert_eq!(said(&rig).matches("Not rewriting: ").count(), 1, "growth says it once: {}", said(&rig));
    rig.holds_loads = false;
    // The RDB file is a different file, so a save loses nothing and does not replace the log.
    rig.check("SAVE", "+OK");
    rig.check("DEBUG RELOAD", "+OK");
    rig.check("BGREWRITEAOF", "-ERR");
    // A new first base does not replace the log, either.
    rig.check("CONFIG SET appendonly no", "+OK");
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server \
                   logs.";
    rig.check("CONFIG SET appendonly yes", refused);
    rig.check("CONFIG GET appendonly", "[\"appendonly\", \"no\"]");
    assert!(rig.process.aof_cuts.is_empty());
    assert!(!rig.engine.has_job());
}

#[test]
fn data_of_which_keys_are_missing_belong_to_no_history() {
    let note =
        |log: &[u8]| [log, format!("#REPL-ID:{}\r\n#REPL-OFFSET:7\r\n", "a".repeat(40)).as_bytes()].concat();
    let whole = log_of(&["SET a 1"]);
    for (base, offset) in [(whole, "7"), (partly_known(), "0")] {
        let mut rig = starting(&[RELAXED], &[base, note(b"")]);
        assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
        assert_eq!(info(&mut rig, "master_repl_offset"), offset);
    }
}

#[test]
fn an_rdb_file_that_was_loaded_in_part_is_kept_whatever_log_is_loaded_or_begun() {
    let mut rig = appending();
    rig.run("SET b 1");
    rig.run("CONFIG SET rdb-version-check relaxed");
    rig.process.snapshots.borrow_mut().insert(b"dump.rdb".to_vec(), partly_known());
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    rig.check("SAVE", "-ERR");
    rig.check("DEBUG LOADAOF", "+OK");
    rig.check("SAVE", "-ERR");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    // If a log began, the next start would ignore the RDB file.
    let mut rig = Rig::with(&[RELAXED]);
    rig.process.snapshots.borrow_mut().insert(b"dump.rdb".to_vec(), partly_known());
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    assert!(rig.run("CONFIG SET appendonly yes").starts_with("-ERR CONFIG SET failed"));
    rig.check("BGREWRITEAOF", "-ERR");
    assert!(said(&rig).contains("Not writing an append-only file: "), "{}", said(&rig));
    assert!(rig.process.aof_cuts.is_empty());
    rig.run("CONFIG SET dbfilename other.rdb");
    rig.check("CONFIG SET appendonly yes", "+OK");
    assert_eq!(rig.process.aof_cuts.len(), 1);
}

/// Bytes appended since the last call, in whole execution units.
fn appended(rig: &mut Rig) -> Vec<u8> {
    let mut bytes = Vec::new();
    rig.engine.take_aof(&mut bytes);
    bytes
}

fn replication(rig: &mut Rig) -> (String, String, String) {
    ["master_replid2", "second_repl_offset", "master_repl_offset"].map(|name| info(rig, name)).into()
}

#[test]
fn a_restart_knows_where_in_the_history_of_replication_its_data_stand() {
    let mut rig = appending();
    let client = rig.client;
    rig.run("SET a 1");
    let unfed = appended(&mut rig);
    assert!(!unfed.contains(&b'#'), "nobody is fed");
    let replica = rig.replica();
    let replid = info(&mut rig, "master_replid");
    let mut logs = Vec::new();
    for line in ["SET b 1", "SET c 1"] {
        rig.argv_unread(client, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        rig.end_iteration();
        logs.push(String::from_utf8(appended(&mut rig)).unwrap());
    }
    let offset = info(&mut rig, "master_repl_offset");
    assert!(logs[0].contains(&format!("#REPL-ID:{replid}\r\n")), "{}", logs[0]);
    assert!(!logs[1].contains("#REPL-ID:"), "it is said once in a file");
    assert!(logs[1].ends_with(&format!("\r\n#REPL-OFFSET:{offset}\r\n")), "{}", logs[1]);
    // Messages that are only in the stream move the offset, too.
    rig.run("PUBLISH channel m");
    rig.end_iteration();
    let moved = info(&mut rig, "master_repl_offset");
    assert_eq!(appended(&mut rig), format!("#REPL-OFFSET:{moved}\r\n").as_bytes());
    rig.end_iteration();
    assert!(appended(&mut rig).is_empty());
    let log = [unfed, logs.concat().into_bytes(), format!("#REPL-OFFSET:{moved}\r\n").into_bytes()].concat();
    for (behind, is_known) in [(Vec::new(), true), (log_of(&["SET d 1"]), false), (log_of(&["MULTI"]), false)]
    {
        let mut restarted = starting(&[], &[[log.clone(), behind].concat()]);
        restarted.finish_loads();
        let next = (moved.parse::<u64>().unwrap() + 1).to_string();
        let known = (replid.clone(), next, moved.clone());
        let unknown = ("0".repeat(40), "-1".to_owned(), "0".to_owned());
        assert_eq!(replication(&mut restarted), if is_known { known } else { unknown });
        assert_ne!(info(&mut restarted, "master_replid"), "");
    }
    rig.engine.disconnect(replica, &mut rig.process);
}

/// A sync of the first file has failed, a rewrite has begun the second, and a crash has lost the end
/// of the first.
#[test]
fn data_between_which_a_crash_has_left_a_gap_belong_to_no_history() {
    let mut rig = appending();
    let (client, replica) = (rig.client, rig.replica());
    let write = |rig: &mut Rig, line: &str| {
        rig.argv_unread(client, &line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        rig.end_iteration();
    };
    write(&mut rig, "SET a 1");
    let whole = appended(&mut rig);
    write(&mut rig, "SET b 1");
    write(&mut rig, "BGREWRITEAOF");
    let (_, end, _) = rig.process.aof_cuts.last().cloned().unwrap();
    write(&mut rig, "SET c 1");
    let behind = appended(&mut rig);
    assert!(behind.starts_with(b"#REPL-ID:"), "{}", behind.escape_ascii());
    let offset = info(&mut rig, "master_repl_offset");
    // The first file is complete, lacks its end, or is lost entirely.
    let base = log_of(&["SELECT 0", "SET old 1"]);
    let cases = [([whole.clone(), end].concat(), true), (whole, false), (Vec::new(), false)];
    for (first, is_known) in cases {
        let mut restarted = starting(&[], &[base.clone(), first, behind.clone()]);
        assert_eq!(restarted.finish_loads(), Some(LoadEnded::Start(Ok(()))));
        let found = info(&mut restarted, "master_repl_offset");
        assert_eq!(found == offset, is_known, "{found}");
        assert_eq!(said(&restarted).contains("The end of the file before incr.2 is missing"), !is_known);
    }
    rig.engine.disconnect(replica, &mut rig.process);
}

/// A rewrite had begun the second file before there was a replica; the first replica came after a
/// restart, before any write.
#[test]
fn a_history_that_begins_in_a_file_is_no_gap() {
    let first = log_of(&["SELECT 0", "SET a 1"]);
    let mut rig = starting(&[], &[first.clone(), Vec::new()]);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    rig.engine.begin_aof();
    let replica = rig.replica();
    rig.end_iteration();
    let begin = appended(&mut rig);
    rig.run("SET b 1");
    rig.end_iteration();
    let offset = info(&mut rig, "master_repl_offset");
    let second = [begin.clone(), appended(&mut rig)].concat();
    assert!(second.starts_with(b"#REPL-ID:00000"), "{}", second.escape_ascii());
    let base = log_of(&["SELECT 0", "SET old 1"]);
    let mut restarted = starting(&[], &[base.clone(), first.clone(), second.clone()]);
    assert_eq!(restarted.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    assert!(!said(&restarted).contains("is missing"), "{}", said(&restarted));
    assert_eq!(info(&mut restarted, "master_repl_offset"), offset);
    // A gap of the former history stays a gap, because replicas of the new history may have the missing
    // writes.
    let lost = format!("#REPL-ID:{}\r\n#REPL-OFFSET:7\r\n", "a".repeat(40)).into_bytes();
    let mut restarted = starting(&[], &[base, first, [lost, second].concat()]);
    assert_eq!(restarted.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    assert!(said(&restarted).contains("is missing"), "{}", said(&restarted));
    assert_ne!(info(&mut restarted, "master_repl_offset"), offset);
    // After a failed sync it is unknown which writes a crash will lose.
    let mut rig = starting(&[], &[log_of(&["SELECT 0", "SET a 1"])]);
    assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))));
    rig.engine.begin_aof();
    rig.engine.report_aof_fault(Some("Input/output error".to_owned()));
    rig.replica();
    rig.end_iteration();
    assert!(
        appended(&mut rig).starts_with(format!("#REPL-ID:{}", info(&mut rig, "master_replid")).as_bytes())
    );
    rig.engine.disconnect(replica, &mut rig.process);
}

#[test]
fn a_base_says_where_in_the_history_its_data_stand() {
    for preamble in ["yes", "no"] {
        let mut rig = appending();
        rig.run(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        rig.run("SET a 1");
        rig.replica();
        rig.run("SET b 1");
        rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
        let (_, before, _) = rig.process.aof_cuts.pop().unwrap();
        let (replid, offset) = (info(&mut rig, "master_replid"), info(&mut rig, "master_repl_offset"));
        let end = format!("#REPL-ID:{replid}\r\n#REPL-DB:0\r\n#REPL-OFFSET:{offset}\r\n");
        assert!(before.ends_with(end.as_bytes()), "{}", before.escape_ascii());
        while rig.engine.has_job() {
            rig.engine.save_slice(1_000_000, &mut rig.process);
        }
        let base = rig.process.snapshots.borrow()[&b""[..]].clone();
        let next = (offset.parse::<u64>().unwrap() + 1).to_string();
        let mut restarted = starting(&[], &[base.clone(), Vec::new()]);
        restarted.finish_loads();
        assert_eq!(replication(&mut restarted), (replid, next, offset), "{preamble}");
        restarted.check("DBSIZE", ":2");
        let mut restarted = starting(&[], &[base, log_of(&["SET c 1"])]);
        restarted.finish_loads();
        assert_eq!(replication(&mut restarted).1, "-1");
    }
}

/// A primary may return as a replica. The stream that it then gets is in the database that its own stream had
/// selected.
#[test]
fn the_file_of_a_primary_says_which_database_its_stream_has_selected() {
    let mut rig = appending();
    let replica = rig.replica();
    for (line, db) in [
        ("SELECT 3", Some(0)),
        ("SET a 1", Some(3)),
        ("SELECT 1", None),
        ("SET a 2", Some(1)),
        ("SET a 3", None),
    ] {
        rig.run(line);
        rig.end_iteration();
        let log = String::from_utf8(appended(&mut rig)).unwrap();
        let found = log.split("#REPL-DB:").nth(1).and_then(|rest| rest.split('\r').next()?.parse().ok());
        assert_eq!(found, db, "{line}: {log}");
    }
    rig.engine.disconnect(replica, &mut rig.process);
}

#[test]
fn a_snapshot_says_where_in_the_history_its_data_stand() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.replica();
    rig.run("SET b 1");
    rig.check("SAVE", "+OK");
    let (replid, offset) = (info(&mut rig, "master_replid"), info(&mut rig, "master_repl_offset"));
    let mut restarted = Rig::new();
    restarted.process.snapshots = rig.process.snapshots.clone();
    assert_eq!(restarted.engine.begin_load_at_start(&mut restarted.process), Ok(true));
    restarted.end_iteration();
    let next = (offset.parse::<u64>().unwrap() + 1).to_string();
    assert_eq!(replication(&mut restarted), (replid, next, offset));
    // DEBUG RELOAD does not count as a restart.
    rig.check("DEBUG RELOAD", "+OK");
    assert_eq!(replication(&mut rig).1, "-1");
}

#[test]
fn sorted_sets_come_back_from_a_base_of_commands() {
    let mut rig = appending();
    rig.run("CONFIG SET aof-use-rdb-preamble no");
    rig.run("ZADD small 1 a 2.5 b -inf '' 1e20 c 0.1 d");
    for n in 0..300 {
        rig.run(&format!("ZADD large {} member:{n}", f64::from(n) / 8.0));
    }
    let digest = rig.run("DEBUG DIGEST");
    rig.check("BGREWRITEAOF", "+Background append only file rewriting started");
    while rig.engine.has_job() {
        rig.engine.save_slice(1_000_000, &mut rig.process);
    }
    let base = rig.process.snapshots.borrow()[&b""[..]].clone();
    let text = String::from_utf8_lossy(&base).into_owned();
    assert!(text.contains("ZADD") && !text.starts_with("VALKEY"), "{text}");
    let mut restarted = starting(&[], &[base, Vec::new()]);
    restarted.finish_loads();
    restarted.check("DEBUG DIGEST", &digest);
    restarted.check("OBJECT ENCODING small", "\"listpack\"");
    restarted.check("OBJECT ENCODING large", "\"skiplist\"");
}

/// Keys of a file in a database that does not exist here are neither put into another one nor lost, because
/// the load fails.
#[test]
fn a_file_with_more_databases_than_there_are_is_not_loaded() {
    let remedy = "This server has 4 databases: set databases, for a node of a cluster cluster-databases, \
                  to the number of the server that wrote the file";
    for (lines, found) in [
        (&["SELECT 4", "SET a 1"][..], "selects database 4"),
        (&["SELECT 0", "MULTI", "SET a 1", "SELECT 9", "SET a 2", "EXEC"], "selects database 9"),
        (
            &["SELECT 0", "SET a 1", "SWAPDB 0 4", "SET b 1"],
            "has a 'swapdb' with a database that does not exist",
        ),
        (&["SELECT 0", "SET a 1", "MOVE a 9"], "has a 'move' with a database that does not exist"),
        (&["SELECT 0", "SET a 1", "COPY a b DB 4"], "has a 'copy' with a database that does not exist"),
    ] {
        let mut rig = starting(&[("databases", "4")], &[log_of(lines)]);
        let ended = rig.finish_loads();
        assert!(matches!(ended, Some(LoadEnded::Start(Err(NotLoaded::Failed)))), "{lines:?}");
        assert!(said(&rig).contains(found) && said(&rig).contains(remedy), "{lines:?}: {}", said(&rig));
    }
}

/// Each row has a limit on requests, lower than a value that was accepted earlier; a command of the log that
/// this limit would refuse in a request; and a query with its reply.
pub(crate) const LOWERED: [(&str, &str, &str, &str, &str); 7] = [
    ("proto-max-bulk-len", "1mb", "SETRANGE k 2000000 x", "STRLEN k", ":2000001"),
    ("proto-max-bulk-len", "1mb", "SETBIT k 16000000 1", "STRLEN k", ":2000001"),
    ("proto-max-bulk-len", "1mb", "BITFIELD k SET u8 16000000 1", "STRLEN k", ":2000001"),
    (
        "script-memory-limit",
        "500kb",
        "EVAL redis.call('SET',KEYS[1],('x'):rep(2000000)) 1 k",
        "STRLEN k",
        ":2000000",
    ),
    (
        "script-memory-limit",
        "500kb",
        "FUNCTION LOAD #!lua\tname=l\nlocal\ts=('x'):rep(2000000)server.register_function('f',function()return(#s)end)",
        "FUNCTION STATS",
        "[\"running_script\", nil, \"engines\", [\"LUA\", [\"libraries_count\", :1, \"functions_count\", :1]]]",
    ),
    ("maxmemory", "1", "SET k x", "STRLEN k", ":1"),
    ("maxmemory", "1", "EVAL redis.call('SET',KEYS[1],'x') 1 k", "STRLEN k", ":1"),
];

#[test]
fn limits_that_were_lowered_lose_nothing_of_what_was_accepted() {
    for (directive, value, line, question, answer) in LOWERED {
        // The value is accepted at a start from a log.
        let mut rig = starting(&[(directive, value)], &[log_of(&["SELECT 0", line])]);
        rig.loads.pop().expect("it was begun").run(&mut Nothing);
        assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))), "{directive}: {}", said(&rig));
        rig.check(question, answer);
        rig.holds_loads = false;
        // The value is accepted from a snapshot, written by the server that has accepted it before.
        assert_eq!(
            rig.run(&format!("CONFIG SET {directive} 0")).starts_with("+OK"),
            directive != "proto-max-bulk-len"
        );
        rig.check("DEBUG RELOAD", "+OK");
        assert_eq!(rig.run(&format!("CONFIG SET {directive} {value}")), "+OK");
        rig.check("DEBUG RELOAD NOSAVE", "+OK");
        rig.check(question, answer);
    }
}

/// Pages of zeros take no memory, so strings of a log need a bound although the limits do not apply to them.
#[test]
fn no_log_makes_a_string_whose_bits_cannot_be_counted() {
    let largest = 1u64 << 40;
    let (last, bit) = (largest - 1, 8 * largest - 1);
    for (line, is_made) in [
        (format!("SETRANGE k {last} x"), true),
        (format!("SETRANGE k {largest} x"), false),
        ("SETRANGE k 9223372036854775806 x".to_owned(), false),
        (format!("SETBIT k {bit} 1"), true),
        ("SETBIT k 9223372036854775807 1".to_owned(), false),
        ("BITFIELD k SET u8 #1152921504606846975 1".to_owned(), false),
    ] {
        let mut rig = starting(&[], &[log_of(&["SELECT 0", &line])]);
        rig.loads.pop().expect("it was begun").run(&mut Nothing);
        assert_eq!(rig.finish_loads(), Some(LoadEnded::Start(Ok(()))), "{line}: {}", said(&rig));
        rig.check("STRLEN k", &format!(":{}", if is_made { largest } else { 0 }));
        rig.check(
            "BITPOS k 1 -1",
            &format!(
                ":{}",
                if !is_made {
                    -1
                } else if line.starts_with("SETBIT") {
                    bit as i64
                } else {
                    bit as i64 - 6
                }
            ),
        );
        assert_eq!(said(&rig).contains("commands of the append only file"), !is_made, "{line}");
    }
}

/// A library whose program takes memory without end has a bound in a file as well, and the start names that
/// library. Descriptions are outside of the memory of the library's Lua machine, and may take an eighth of
/// its bound.
#[test]
fn a_library_that_takes_memory_without_end_is_refused_at_the_start_by_its_name() {
    let code = "#!lua\tname=endless\nlocal\ts=('x'):rep(16777216)while\ttrue\tdo\tserver.register_function{\
                function_name='f',callback=function()end,description=s}end";
    let length = u32::try_from(code.len()).expect("it is short").to_be_bytes();
    let base = [b"REDIS0011\xf5\x80", &length[..], code.as_bytes(), b"\xff", &[0; 8]].concat();
    let log = |line: &str| log_of(&["SELECT 0", "SET k x", line]);
    for (limit, wanted) in [("0", "more than 2048 MiB"), ("3gb", "more than 3072 MiB")] {
        for file in [base.clone(), log(&format!("FUNCTION LOAD {code}"))] {
            let mut rig = starting(&[("script-memory-limit", limit)], &[file]);
            rig.loads.pop().expect("it was begun").run(&mut Nothing);
            let ended = rig.finish_loads();
            assert!(
                matches!(ended, Some(LoadEnded::Start(Err(NotLoaded::Failed)))),
                "{ended:?}: {}",
                said(&rig)
            );
            let said = said(&rig);
            for text in ["the library 'endless' needs", wanted, "script-memory-limit above that"] {
                assert!(said.contains(text), "{text}: {said}");
            }
        }
    }
}
