//! SAVE, LASTSAVE, DEBUG RELOAD, and the save at the end of the server. Files are in memory here.

use sluice_control::action::Action;
use sluice_control::persistence::ending::EndOrder;
use sluice_control::persistence::saving::Ending;
use sluice_persist::rdb::{
    Compression, Item, ReadOptions, Reader, Text, Usage, Version, WriteOptions, Writer,
};
use sluice_testkit::Rig;

/// The log, a line for each entry.
fn log(rig: &mut Rig) -> String {
    let lines: Vec<String> = rig.process.log.drain(..).map(|(_, text)| text).collect();
    lines.join("; ")
}

fn file(rig: &Rig) -> Vec<u8> {
    rig.process.snapshots.borrow().get(&b"dump.rdb"[..]).cloned().expect("a snapshot was written")
}

fn put(rig: &Rig, bytes: &[u8]) {
    rig.process.snapshots.borrow_mut().insert(b"dump.rdb".to_vec(), bytes.to_vec());
}

fn info(rig: &mut Rig, field: &str) -> String {
    let text = rig.run("INFO persistence");
    let line = text.split("\\r\\n").find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
}

/// A writer of a snapshot file, which has written nothing yet.
fn writer() -> Writer {
    Writer::new(WriteOptions { version: Version::Valkey, compression: Compression::Strings, checksum: true })
}

#[test]
fn save_writes_the_file_and_counts_anew() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.run("RPUSH l x y");
    rig.pass_ms(5_000);
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "3");
    rig.check("SAVE", "+OK");
    assert_eq!(log(&mut rig), "DB saved on disk");
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "0");
    assert_eq!(info(&mut rig, "rdb_saves"), "1");
    let now_s = rig.process.now.unix_us / 1_000_000;
    rig.check("LASTSAVE", &format!(":{now_s}"));
    assert!(file(&rig).starts_with(b"VALKEY080"));
}

#[test]
fn a_save_that_fails_answers_an_error_and_counts_on() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.process.refuse_snapshots = Some("Failed opening the temp RDB file".into());
    rig.check("SAVE", "-ERR");
    assert_eq!(log(&mut rig), "Failed opening the temp RDB file");
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "1");
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "ok", "it speaks of saving in the background");
}

#[test]
fn save_goes_under_the_name_that_is_configured() {
    let mut rig = Rig::with(&[("dbfilename", "other.rdb")]);
    rig.check("SAVE", "+OK");
    assert_eq!(rig.process.snapshots.borrow().keys().collect::<Vec<_>>(), [b"other.rdb"]);
}

#[test]
fn reload_brings_every_value_back() {
    let mut rig = Rig::new();
    rig.run("SET int 12345");
    rig.run("SET text 'some text'");
    rig.run("SETRANGE pages 200000 end");
    rig.run("RPUSH l a 1 -7 'a longer element that is no number'");
    for n in 0..400 {
        rig.run(&format!("RPUSH long element:{n}:of:a:list:that:needs:more:than:one:node"));
    }
    rig.run("ZADD scores 1 a 2.5 b -inf '' 1e20 c");
    for n in 0..400 {
        rig.run(&format!("ZADD ranks {} member:{n}", n / 7));
    }
    rig.run("SET dies 1 PX 500000");
    rig.run("SELECT 3");
    rig.run("SET other db");
    let digest = rig.run("DEBUG DIGEST");
    rig.run("SELECT 0");
    let expiry = rig.run("PEXPIRETIME dies");
    rig.process.log.clear();
    rig.check("DEBUG RELOAD", "+OK");
    let said = log(&mut rig);
    assert!(said.starts_with("DB saved on disk; "), "{said}");
    assert!(
        said.contains(
            "RDB signature and version check passed. Flushing old data; \
             Loading RDB produced by Valkey version 9.1.2; RDB age 0 seconds; RDB memory usage"
        ),
        "{said}"
    );
    let done = "Done loading RDB, keys loaded: 9, keys expired: 0, all fields expired hashes: 0.; DB reloaded by DEBUG RELOAD";
    assert!(said.ends_with(done), "{said}");
    assert_eq!(rig.run("DEBUG DIGEST"), digest);
    rig.check("PEXPIRETIME dies", &expiry);
    rig.check("OBJECT ENCODING int", "\"int\"");
    rig.check("OBJECT ENCODING long", "\"quicklist\"");
    rig.check("OBJECT ENCODING scores", "\"listpack\"");
    rig.check("OBJECT ENCODING ranks", "\"skiplist\"");
    assert_eq!(info(&mut rig, "rdb_last_load_keys_loaded"), "9");
    assert_eq!(info(&mut rig, "rdb_saves"), "0", "SAVE alone is counted");
}

#[test]
fn reload_is_no_change_and_no_replica_hears_of_it() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    let replica = rig.replica();
    rig.check("DEBUG RELOAD", "+OK");
    assert_eq!(rig.fed(replica), "");
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "0");
}

#[test]
fn reload_knows_its_options() {
    let mut rig = Rig::new();
    let bad = "-ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
    rig.check("DEBUG RELOAD foo", bad);
    rig.check("DEBUG RELOAD NOSAVE foo", bad);
    rig.run("MSET a 1 b 2");
    rig.check("DEBUG RELOAD nosave", "-ERR Error trying to load the RDB dump, check server logs.");
    rig.check("SAVE", "+OK");
    rig.run("SET a changed");
    rig.run("SET c new");
    // A key that exists already makes the load fail.
    rig.check("DEBUG RELOAD NOSAVE NOFLUSH", "-ERR Error trying to load the RDB dump, check server logs.");
    assert!(log(&mut rig).contains("RDB has duplicated key "));
    rig.check("DEBUG RELOAD NOSAVE NOFLUSH MERGE", "+OK");
    rig.check("MGET a b c", "[\"1\", \"2\", \"new\"]");
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    rig.check("MGET a b c", "[\"1\", \"2\", nil]");
}

#[test]
fn a_watched_key_counts_as_changed_when_it_was_reloaded() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.run("WATCH a");
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "DEBUG RELOAD"), "+OK");
    rig.run("MULTI");
    rig.run("SET a 2");
    rig.check("EXEC", "nil-array");
}

#[test]
fn a_file_that_is_no_good_says_why_and_one_whose_header_is_not_leaves_the_data_as_they_are() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.check("SAVE", "+OK");
    let good = file(&rig);
    let mut broken = good.clone();
    *broken.last_mut().expect("it has bytes") ^= 1;
    let too_short = "Short read or OOM loading DB. Unrecoverable error, aborting now.";
    for (bytes, wanted, keeps) in [
        (b"garbagegarbage".to_vec(), "Wrong signature trying to load DB from file: garbagega", true),
        (b"REDIS0099\xff".to_vec(), "Can't handle RDB format version 99", true),
        (good[..good.len() - 20].to_vec(), too_short, false),
        (Vec::new(), too_short, true),
        (b"VALKEY".to_vec(), too_short, true),
        (broken, "-> RDB CRC error", false),
        (
            b"VALKEY080\x96\x01a".to_vec(),
            "Unknown type or opcode when loading DB. Unrecoverable error, aborting now.",
            true,
        ),
        (
            b"VALKEY080\xfe\x10".to_vec(),
            "FATAL: Data file was created with a Server configured to handle more than 16 databases. Set \
             databases, for a node of a cluster cluster-databases, to the number of the server that wrote the file",
            true,
        ),
    ] {
        put(&rig, &good);
        rig.check("DEBUG RELOAD NOSAVE", "+OK");
        put(&rig, &bytes);
        rig.process.log.clear();
        rig.check("DEBUG RELOAD NOSAVE", "-ERR Error trying to load the RDB dump, check server logs.");
        let said = log(&mut rig);
        let why =
            said.split_once("; RDB file integrity check failed at byte ").map_or(&*said, |(why, _)| why);
        assert!(why.ends_with(wanted), "{said}");
        assert_eq!(!said.contains("RDB signature and version check passed"), keeps, "{said}");
        rig.check("GET a", if keeps { "\"1\"" } else { "nil" });
        assert_eq!(info(&mut rig, "loading"), "0");
        // Keys that the data have lost may still be in the file, so no save replaces it.
        rig.check("SAVE", if keeps { "+OK" } else { "-ERR" });
    }
}

#[test]
fn libraries_of_a_file_are_written_again_and_what_is_not_understood_is_dropped_and_said() {
    let mut rig = Rig::new();
    let mut out = writer();
    out.aux("valkey-ver", Text::Bytes(b"9.1.2"));
    out.aux("from-elsewhere", Text::Bytes(b"dropped"));
    out.function(b"#!lua name=mylib\nserver.register_function('f', function() return 1 end)");
    out.db(0, 1, 0);
    out.string(b"a", Text::Bytes(b"x"), None, Usage::Absent);
    // The record of a module, which is in the file twice, has the module's number, its time (an opcode and a
    // number), a number, a string, and the end.
    let record = b"\xf7\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x02\x01\x02\x05\x05\x03abc\0";
    let bytes = [&out.take()[..], record, record, b"\xff\0\0\0\0\0\0\0\0"].concat();
    put(&rig, &bytes);
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    let said = log(&mut rig);
    assert_eq!(
        said.matches("Dropped records of module type ReJSON-RL (encoding version 3)").count(),
        1,
        "{said}"
    );
    assert!(said.contains("beside the keys: 2."), "{said}");
    assert!(said.contains("with the dropped records, is kept as dump.rdb.as-loaded-1"), "{said}");
    assert!(
        said.contains("Ignored auxiliary fields that have no meaning here: 1, by name from-elsewhere"),
        "{said}"
    );
    rig.check("FCALL f 0", ":1");
    // The file is loaded twice, but MERGE does not duplicate the libraries.
    rig.check("DEBUG RELOAD NOFLUSH MERGE", "+OK");
    rig.check("SAVE", "+OK");
    let bytes = file(&rig);
    let mut reader = Reader::of(&bytes, ReadOptions::default());
    let (mut fields, mut libraries) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_of_whole().expect("ours is well-formed") {
        match item {
            Item::ModuleRecord { module, .. } => panic!("a record of {module}"),
            Item::Aux(name, value) => fields.push((name.into_owned(), value.into_owned())),
            Item::Function(code) => libraries.push(code.into_owned()),
            _ => {}
        }
    }
    assert_eq!(fields.iter().filter(|(name, _)| name == b"from-elsewhere").count(), 0);
    assert_eq!(fields.iter().filter(|(name, _)| name == b"valkey-ver").count(), 1);
    assert_eq!(libraries.len(), 1);
    assert!(libraries[0].starts_with(b"#!lua name=mylib\n"));
}

#[test]
fn the_last_use_of_a_key_comes_back_where_the_policy_wants_it() {
    let mut rig = Rig::with(&[("maxmemory-policy", "allkeys-lru")]);
    rig.run("SET a 1");
    rig.pass_ms(50_000);
    rig.check("DEBUG RELOAD", "+OK");
    rig.check("OBJECT IDLETIME a", ":50");
    let mut rig = Rig::with(&[("maxmemory-policy", "allkeys-lfu")]);
    rig.run("SET a 1");
    let before = rig.run("OBJECT FREQ a");
    rig.check("DEBUG RELOAD", "+OK");
    rig.check("OBJECT FREQ a", &before);
}

/// Loads files of another server. In some of them, records or fields with data are dropped.
#[test]
fn no_save_replaces_a_file_whose_records_were_dropped_and_which_has_no_second_name() {
    let record = b"\xf7\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x02\x01\x02\x05\x05\x03abc\0";
    let cases: [(&'static str, &[u8], bool); 4] = [
        ("redis-ver", record, true),
        ("keydb-subexpire-key", b"", true),
        ("mvcc-tstamp", b"", false),
        ("redis-ver", b"", false),
    ];
    for (field, record, is_kept) in cases {
        let mut rig = Rig::new();
        rig.process.has_no_second_names = true;
        let mut out = writer();
        out.aux(field, Text::Bytes(b"1"));
        out.db(0, 1, 0);
        out.string(b"a", Text::Bytes(b"x"), None, Usage::Absent);
        let bytes = [&out.take()[..], record, b"\xff\0\0\0\0\0\0\0\0"].concat();
        put(&rig, &bytes);
        rig.check("DEBUG RELOAD NOSAVE", "+OK");
        let said = log(&mut rig);
        assert_eq!(said.contains("cannot have a second name: Operation not permitted"), is_kept, "{said}");
        assert_eq!(rig.run("SAVE").starts_with("-ERR"), is_kept, "{field}");
        assert_eq!(file(&rig) == bytes, is_kept, "{field}");
    }
}

#[test]
fn types_that_are_not_there_are_named_or_passed_over() {
    let mut file = writer();
    file.string(b"a", Text::Bytes(b"x"), None, Usage::Absent);
    let mut bytes = file.take();
    // The bytes are a value of a module, and then the end without a checksum.
    bytes.extend_from_slice(b"\x07\x01s\x81\0\0\0\0\0\0\0\x01\x01\x05\x02\x06\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x02ab\x00\xff\0\0\0\0\0\0\0\0");
    let mut rig = Rig::new();
    put(&rig, &bytes);
    rig.check("DEBUG RELOAD NOSAVE", "-ERR Error trying to load the RDB dump, check server logs.");
    assert!(log(&mut rig).contains("key 's' at byte"));
    rig.run("CONFIG SET rdb-version-check relaxed");
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    rig.check("KEYS *", "[\"a\"]");
    assert!(log(&mut rig).contains("keys of unsupported types skipped: 1"));
    // The file has more than was loaded, so no save may replace it.
    rig.check("SAVE", "-ERR");
    assert!(log(&mut rig).starts_with("Not saving: "));
    rig.check("SHUTDOWN SAVE", "-ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(*rig.process.snapshots.borrow().get(&b"dump.rdb"[..]).expect("there"), bytes);
    rig.run("CONFIG SET dbfilename other.rdb");
    rig.check("SAVE", "+OK");
    rig.check("DEBUG RELOAD", "+OK");
    rig.run("CONFIG SET dbfilename dump.rdb");
    rig.check("SAVE", "+OK");
}

#[test]
fn shutdown_saves_where_that_is_wanted() {
    for (points, line, saves) in [
        ("100 1", "SHUTDOWN", true),
        ("100 1", "SHUTDOWN NOSAVE", false),
        ("\"\"", "SHUTDOWN", false),
        ("\"\"", "SHUTDOWN SAVE", true),
    ] {
        let mut rig = Rig::with(&[("save", points)]);
        rig.run("SET a 1");
        rig.check(line, "");
        assert!(matches!(rig.actions.as_slice(), [Action::Shutdown]));
        let said = log(&mut rig);
        let saving =
            "User requested shutdown...; Saving the final RDB snapshot before exiting.; DB saved on disk";
        assert_eq!(said, if saves { saving } else { "User requested shutdown..." }, "{points} {line}");
    }
}

#[test]
fn a_server_that_cannot_save_does_not_end_unless_forced() {
    let mut rig = Rig::with(&[("save", "100 1")]);
    rig.run("SET a 1");
    rig.process.refuse_snapshots = Some("no disk".into());
    for line in ["SHUTDOWN", "SHUTDOWN SAVE"] {
        rig.check(line, "-ERR Errors trying to SHUTDOWN. Check logs.");
        assert!(rig.actions.is_empty());
        let said = log(&mut rig);
        let wanted = "no disk; Error trying to save the DB, can't exit.; \
                      Errors trying to shut down the server. Check the logs for more information.";
        assert!(said.ends_with(wanted), "{said}");
    }
    assert!(
        !rig.engine.prepare_end(&EndOrder::new(Ending::ByConfig, false), &mut rig.process),
        "nor by a signal"
    );
    rig.check("SHUTDOWN FORCE", "");
    assert!(matches!(rig.actions.as_slice(), [Action::Shutdown]));
}

#[test]
fn what_is_written_behind_shutdown_is_saved_too() {
    let mut rig = Rig::with(&[("save", "100 1")]);
    rig.run("SET a 1");
    rig.run("SHUTDOWN");
    let saved = file(&rig);
    // This is another client's command in the same iteration.
    rig.run("SET b 2");
    rig.engine.save_rest(&mut rig.process);
    assert_ne!(file(&rig), saved);
    let mut other = Rig::new();
    other.process.snapshots = rig.process.snapshots.clone();
    other.check("DEBUG RELOAD NOSAVE", "+OK");
    other.check("MGET a b", "[\"1\", \"2\"]");
    // Without save points there is no save, now or later.
    let mut rig = Rig::with(&[("save", "\"\"")]);
    rig.run("SHUTDOWN");
    rig.run("SET b 2");
    rig.engine.save_rest(&mut rig.process);
    assert!(rig.process.snapshots.borrow().is_empty());
}

#[test]
fn flushall_saves_the_empty_data_where_there_are_save_points() {
    let mut rig = Rig::with(&[("save", "100 1")]);
    rig.run("SET a 1");
    rig.check("FLUSHALL", "+OK");
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "0");
    assert_eq!(log(&mut rig), "DB saved on disk");
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
    rig.check("DBSIZE", ":0");
    // Replicas are still served.
    let replica = rig.replica();
    rig.run("SET a 1");
    rig.run("FLUSHALL");
    assert_eq!(rig.fed(replica), "SET a 1; FLUSHALL");
    let mut rig = Rig::with(&[("save", "\"\"")]);
    rig.run("SET a 1");
    rig.check("FLUSHALL", "+OK");
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "2");
}

/// The keys of a file in database 0, sorted.
fn keys_in(bytes: &[u8]) -> Vec<String> {
    let mut rig = Rig::new();
    put(&rig, bytes);
    rig.run("DEBUG RELOAD NOSAVE");
    let keys = rig.run("KEYS *");
    let mut keys: Vec<String> = keys.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    keys.sort();
    keys
}

/// Lets time pass, and then runs the cron.
fn pass(rig: &mut Rig, ms: u64) {
    rig.pass_ms(ms);
    rig.cron();
}

fn slice_once(rig: &mut Rig) {
    for _ in 0..200 {
        rig.engine.save_slice(20_000, &mut rig.process);
    }
}

fn slices(rig: &mut Rig) -> u32 {
    let mut count = 0;
    while rig.engine.has_job() {
        rig.engine.save_slice(20_000, &mut rig.process);
        count += 1;
        assert!(count < 100_000, "a save that does not end");
    }
    count
}

#[test]
fn bgsave_writes_what_was_there_when_it_was_asked() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.run("RPUSH l x y");
    rig.run("SELECT 3");
    rig.run("SET there 1");
    rig.check("BGSAVE", "+Background saving started");
    rig.check("BGSAVE", "-ERR Background save already in progress");
    rig.check("BGSAVE SCHEDULE", "-ERR Background save already in progress");
    rig.check("SAVE", "-ERR Background save already in progress");
    rig.run("SET late 1");
    rig.run("DEL there");
    rig.run("SELECT 0");
    rig.run("SET a 2");
    assert_eq!(info(&mut rig, "rdb_bgsave_in_progress"), "1");
    assert_eq!(info(&mut rig, "current_save_keys_total"), "3");
    assert_eq!(info(&mut rig, "current_save_keys_changed"), "2");
    let copied: u64 = info(&mut rig, "current_cow_size").parse().expect("a number");
    assert!(copied > 0);
    slices(&mut rig);
    assert_eq!(info(&mut rig, "rdb_bgsave_in_progress"), "0");
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "ok");
    assert_eq!(info(&mut rig, "rdb_last_cow_size"), copied.to_string());
    assert_eq!(info(&mut rig, "rdb_changes_since_last_save"), "3", "those since the save began");
    assert!(log(&mut rig).ends_with("Background saving terminated with success"));
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    other.check("GET a", "\"1\"");
    other.check("LRANGE l 0 -1", "[\"x\", \"y\"]");
    other.run("SELECT 3");
    other.check("EXISTS there late", ":1");
}

#[test]
fn what_is_not_asked_for_well_is_refused() {
    let mut rig = Rig::new();
    rig.check("BGSAVE NOW", "-ERR syntax error");
    rig.check("BGSAVE SCHEDULE CANCEL", "-ERR syntax error");
    rig.check("BGSAVE CANCEL", "-ERR Background saving is currently not in progress or scheduled");
}

#[test]
fn a_save_asked_for_in_a_transaction_begins_behind_it() {
    let mut rig = Rig::new();
    rig.run("MULTI");
    rig.run("BGSAVE");
    rig.run("SET a 1");
    rig.check("EXEC", "[+Background saving scheduled, +OK]");
    assert!(!rig.engine.has_job());
    pass(&mut rig, 200);
    assert!(rig.engine.has_job());
    slices(&mut rig);
    assert_eq!(keys_in(&file(&rig)), ["a"]);
    rig.run("MULTI");
    rig.run("BGSAVE");
    rig.run("BGSAVE CANCEL");
    rig.check("EXEC", "[+Background saving scheduled, +Scheduled background saving cancelled]");
    pass(&mut rig, 200);
    assert!(!rig.engine.has_job(), "it was cancelled");
}

#[test]
fn a_save_that_is_broken_off_leaves_the_file_before() {
    for end in ["BGSAVE CANCEL", "FLUSHALL"] {
        let mut rig = Rig::new();
        rig.run("CONFIG SET save ''");
        rig.run("SET a 1");
        rig.run("SAVE");
        let before = file(&rig);
        rig.run("SET b 1");
        rig.run("BGSAVE");
        rig.run(end);
        assert!(!rig.engine.has_job());
        assert_eq!(info(&mut rig, "rdb_bgsave_in_progress"), "0");
        assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "ok");
        assert_eq!(file(&rig), before);
        // The broken-off save has ended, so the next save is complete.
        rig.run("SET c 1");
        rig.run("BGSAVE");
        slices(&mut rig);
        let wanted: &[&str] = if end == "FLUSHALL" { &["c"] } else { &["a", "b", "c"] };
        assert_eq!(keys_in(&file(&rig)), wanted);
    }
}

#[test]
fn flushdb_and_swapdb_do_not_disturb_a_save() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 3000 k 10");
    rig.run("SELECT 1");
    rig.run("SET one 1");
    rig.run("BGSAVE");
    rig.engine.save_slice(1000, &mut rig.process);
    rig.run("SWAPDB 0 1");
    rig.run("FLUSHDB SYNC");
    rig.run("SET two 2");
    rig.run("SWAPDB 0 5");
    slices(&mut rig);
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    other.check("DBSIZE", ":3000");
    other.run("SELECT 1");
    other.check("GET one", "\"1\"");
    other.check("DBSIZE", ":1");
}

#[test]
fn a_transaction_of_many_writes_and_a_disk_that_stands_still_hold_no_one_up() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 100000 k 100");
    rig.run("RPUSH large a");
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    for _ in 0..2000 {
        rig.engine.save_slice(20_000, &mut rig.process);
    }
    let captured: u64 = info(&mut rig, "current_save_keys_processed").parse().expect("a number");
    assert!((1000..100_000).contains(&captured), "the cursor waits for the disk: {captured}");
    rig.run("MULTI");
    for i in 0..20_000 {
        rig.run(&format!("SET k:{i} changed"));
    }
    rig.run("EXEC");
    rig.run("DEL large");
    rig.process.background_room.set(usize::MAX);
    slices(&mut rig);
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    other.check("DBSIZE", ":100001");
    for i in (0..20_000).step_by(501) {
        other.check(&format!("STRLEN k:{i}"), ":100");
    }
}

#[test]
fn a_disk_that_does_nothing_for_a_minute_fails_the_save_and_writes_are_refused_until_one_succeeds() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 1000 k 100");
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    for _ in 0..10 {
        rig.engine.save_slice(20_000, &mut rig.process);
    }
    pass(&mut rig, 59_000);
    assert!(rig.engine.has_job());
    rig.check("SET a 1", "+OK");
    pass(&mut rig, 3_000);
    assert!(!rig.engine.has_job());
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "err");
    assert!(rig.run("SET a 1").starts_with("-MISCONF Valkey is configured to save RDB snapshots, but"));
    assert!(rig.run("PING").starts_with("-MISCONF"));
    rig.check("STRLEN k:1", ":100");
    rig.run("CONFIG SET stop-writes-on-bgsave-error no");
    rig.check("SET a 1", "+OK");
    rig.run("CONFIG SET stop-writes-on-bgsave-error yes");
    assert!(rig.run("SET a 1").starts_with("-MISCONF"));
    rig.process.background_room.set(usize::MAX);
    rig.run("BGSAVE");
    slices(&mut rig);
    rig.check("SET a 1", "+OK");
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "ok");
}

/// Overwrites the values with these numbers, each of one MiB; a save under way continues to hold the old
/// values.
fn overwrite(rig: &mut Rig, numbers: std::ops::Range<u32>) {
    let value = "y".repeat(1 << 20);
    for n in numbers {
        rig.check(&format!("SET large:{n} {value}"), "+OK");
    }
}

#[test]
fn a_save_whose_thread_gets_no_processor_fails_before_it_holds_the_data_twice() {
    let mut rig = Rig::with(&[("save", "")]);
    overwrite(&mut rig, 0..90);
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    slice_once(&mut rig);
    overwrite(&mut rig, 0..50);
    pass(&mut rig, 10_000);
    slice_once(&mut rig);
    assert!(rig.engine.has_job(), "that is within the budget");
    overwrite(&mut rig, 50..90);
    slice_once(&mut rig);
    pass(&mut rig, 1_000);
    slice_once(&mut rig);
    assert!(rig.engine.has_job(), "the thread may still be at it");
    pass(&mut rig, 2_000);
    slice_once(&mut rig);
    assert!(!rig.engine.has_job());
    assert!(log(&mut rig).contains("Saving was stopped: "));
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "err");
    // Writers are not stopped.
    rig.check("SET a 1", "+OK");
}

#[test]
fn a_unit_may_capture_more_than_the_budget_where_the_thread_keeps_up() {
    let mut rig = Rig::with(&[("save", "")]);
    overwrite(&mut rig, 0..90);
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    slice_once(&mut rig);
    overwrite(&mut rig, 0..90);
    slice_once(&mut rig);
    rig.process.background_room.set(usize::MAX);
    pass(&mut rig, 1_900);
    slices(&mut rig);
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "ok");
    assert!(!rig.engine.has_job());
}

#[test]
fn a_disk_that_stands_still_for_seventy_seconds_lets_no_command_wait() {
    let mut rig = Rig::with(&[("save", "")]);
    rig.run("DEBUG POPULATE 20000 k 100");
    let other = rig.connect();
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    for second in 0..70 {
        slice_once(&mut rig);
        for n in 0..100 {
            rig.check(&format!("SET k:{} changed", second * 100 + n), "+OK");
        }
        assert_eq!(rig.run_as(other, &format!("GET k:{}", second * 100)), "\"changed\"");
        pass(&mut rig, 1_000);
        assert_eq!(rig.engine.has_job(), second < 59, "second {second}");
    }
    assert!(log(&mut rig).contains("Saving made no progress for 60 seconds and was stopped: check the disk"));
    rig.check("DBSIZE", ":20000");
}

#[test]
fn save_points_begin_saves() {
    let mut rig = Rig::new();
    rig.run("CONFIG SET save '10 2'");
    rig.run("SET a 1");
    pass(&mut rig, 20_000);
    assert!(!rig.engine.has_job(), "one change is too few");
    rig.run("SET b 1");
    pass(&mut rig, 200);
    assert!(rig.engine.has_job());
    assert!(log(&mut rig).contains("2 changes in 10 seconds. Saving..."));
    slices(&mut rig);
    rig.run("SET b 2");
    rig.run("SET b 3");
    pass(&mut rig, 9_000);
    assert!(!rig.engine.has_job(), "nine seconds are too few");
    pass(&mut rig, 2_200);
    assert!(rig.engine.has_job());
    slices(&mut rig);
    // A failed save is tried again five seconds later.
    rig.process.refuse_snapshots = Some("no".into());
    rig.run("SET b 4");
    rig.run("SET b 5");
    pass(&mut rig, 11_200);
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "err");
    rig.process.refuse_snapshots = None;
    pass(&mut rig, 4_000);
    assert!(!rig.engine.has_job());
    pass(&mut rig, 2_500);
    assert!(rig.engine.has_job());
}

/// This test and the two after it repeat crashes that tests found in the reference's own save without a fork,
/// at the corresponding steps of the save here.
#[test]
fn regress_forkless_rename_over_a_key_that_is_not_saved_yet() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 2000 k 20");
    rig.run(&format!("SET from {}", "f".repeat(5000)));
    rig.run(&format!("SET onto {}", "o".repeat(6000)));
    rig.run("BGSAVE");
    rig.check("RENAME from onto", "+OK");
    rig.check("RENAME k:1 k:2", "+OK");
    slices(&mut rig);
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    other.check("DBSIZE", ":2002");
    other.check("STRLEN from", ":5000");
    other.check("STRLEN onto", ":6000");
    other.check("EXISTS k:1 k:2", ":2");
}

#[test]
fn regress_forkless_reads_of_a_compressed_list_while_it_is_saved() {
    let mut rig = Rig::with(&[("list-compress-depth", "1")]);
    for n in 0..3000 {
        rig.run(&format!("RPUSH l element:{n}:{}", "x".repeat(100)));
    }
    rig.run("BGSAVE");
    rig.process.background_room.set(0);
    let read = rig.run("LRANGE l 0 -1");
    rig.run("LSET l 1500 changed");
    rig.process.background_room.set(usize::MAX);
    slices(&mut rig);
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    assert!(other.run("LRANGE l 0 -1") == read, "the list as it was when the save began");
}

#[test]
fn regress_forkless_a_transaction_touches_keys_on_both_sides_of_the_cursor() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 5000 k 20");
    rig.run("BGSAVE");
    rig.engine.save_slice(1, &mut rig.process);
    rig.run("MULTI");
    for n in (0..5000).step_by(7) {
        rig.run(&format!("SET k:{n} {}", "y".repeat(n % 300)));
        rig.run(&format!("DEL k:{}", n + 1));
    }
    rig.run("EXEC");
    rig.check("EXEC", "-ERR EXEC without MULTI");
    slices(&mut rig);
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    other.check("DBSIZE", ":5000");
    for n in (0..5000).step_by(131) {
        other.check(&format!("STRLEN k:{n}"), ":20");
    }
}

#[test]
fn a_load_breaks_a_save_off_and_none_begins_meanwhile() {
    let mut rig = Rig::with(&[("save", "10 1")]);
    rig.run("DEBUG POPULATE 3000 k 10");
    rig.run("SAVE");
    rig.run("SET a 1");
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    rig.check("DEBUG RELOAD NOSAVE NOFLUSH MERGE", "-ERR Background save already in progress");
    rig.holds_loads = true;
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "DEBUG RELOAD NOSAVE"), "");
    assert!(!rig.engine.has_job());
    assert_eq!(info(&mut rig, "rdb_bgsave_in_progress"), "0");
    rig.process.background_room.set(usize::MAX);
    pass(&mut rig, 20_000);
    assert!(!rig.engine.has_job(), "a save point: but there is nothing to save");
    rig.finish_loads();
    rig.check("DBSIZE", ":3000");
    pass(&mut rig, 20_000);
    slices(&mut rig);
    assert_eq!(keys_in(&file(&rig)).len(), 3000);
}

#[test]
fn a_database_that_has_become_empty_before_it_is_emptied_is_saved_as_it_was() {
    let mut rig = Rig::new();
    rig.run("SELECT 1");
    rig.run("SET k v");
    rig.run("BGSAVE");
    rig.run("MOVE k 0");
    rig.run("FLUSHDB");
    slices(&mut rig);
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    other.check("DBSIZE", ":0");
    other.run("SELECT 1");
    other.check("GET k", "\"v\"");
}

#[test]
fn a_database_that_was_emptied_is_freed_when_it_is_captured_and_not_with_the_save() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 30000 k 10");
    rig.run("SELECT 1");
    rig.run("DEBUG POPULATE 3000 k 10");
    rig.run("BGSAVE");
    rig.engine.save_slice(1000, &mut rig.process);
    rig.run("FLUSHDB ASYNC");
    let frees = |rig: &Rig| rig.actions.iter().filter(|action| matches!(action, Action::FreeDb(_))).count();
    assert_eq!(frees(&rig), 0, "the cut needs it");
    for _ in 0..100 {
        rig.engine.save_slice(1000, &mut rig.process);
        rig.run("PING");
        if frees(&rig) > 0 {
            break;
        }
    }
    assert_eq!(frees(&rig), 1);
    assert!(rig.engine.has_job());
    let captured: u64 = info(&mut rig, "current_save_keys_processed").parse().expect("a number");
    assert!((3000..20_000).contains(&captured), "{captured}");
    slices(&mut rig);
    // A key of which nothing is left to capture is not kept at all.
    assert_eq!(keys_in(&file(&rig)).len(), 30_000);
    let mut other = Rig::new();
    put(&other, &file(&rig));
    other.run("DEBUG RELOAD NOSAVE");
    other.run("SELECT 1");
    other.check("DBSIZE", ":3000");
}

#[test]
fn what_changes_capture_is_given_to_the_thread_however_far_behind_it_is() {
    let mut rig = Rig::new();
    rig.run("DEBUG POPULATE 60000 k 1000");
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    for _ in 0..2000 {
        rig.engine.save_slice(20_000, &mut rig.process);
    }
    let captured =
        |rig: &mut Rig| -> u64 { info(rig, "current_save_keys_processed").parse().expect("a number") };
    let before = captured(&mut rig);
    assert!(before < 20_000, "the cursor stands still: {before}");
    for i in 20_000..60_000 {
        rig.run(&format!("SET k:{i} changed"));
    }
    let waiting: usize = info(&mut rig, "current_save_held_bytes").parse().expect("a number");
    rig.engine.save_slice(20_000, &mut rig.process);
    let given: usize = rig.process.background_given.get();
    assert!(given as u64 > before + 30_000, "{given} of {before} and the changed");
    assert!(waiting > 30 << 20, "{waiting}");
    rig.process.background_room.set(usize::MAX);
    slices(&mut rig);
    assert_eq!(keys_in(&file(&rig)).len(), 60_000);
}

#[test]
fn what_the_cut_alone_holds_is_no_reason_to_refuse_a_write() {
    let mib = 1 << 20;
    let held = |rig: &mut Rig| -> usize { info(rig, "current_save_held_bytes").parse().expect("a number") };
    let mut rig = Rig::with(&[("maxmemory", "100mb")]);
    for number in 0..20 {
        rig.run(&format!("SET s:{number} {}", "v".repeat(mib / 2)));
        rig.run(&format!("RPUSH l:{number} {}", "v".repeat(mib / 2)));
    }
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    rig.engine.save_slice(1_000_000, &mut rig.process);
    let before = held(&mut rig);
    for number in 0..20 {
        // The expiry time of a captured value changes, and the value stays where it is.
        rig.run(&format!("EXPIRE s:{number} 1000"));
    }
    assert!(held(&mut rig) < before + mib, "{} after {before}", held(&mut rig));
    for number in 0..20 {
        rig.run(&format!("SET s:{number} other"));
        rig.run(&format!("DEL l:{number}"));
    }
    let after = held(&mut rig);
    assert!((19 * mib..23 * mib).contains(&(after - before)), "{after} after {before}");
    // Used memory is set to its value at this point: the data have shrunk, and the snapshot holds their
    // former size. The last reading was far below the limit, and is used until the cron reads the memory
    // again.
    rig.process.facts.used_memory = (100 << 20) + after - 1;
    rig.pass_ms(300);
    rig.check("SET more 1", "+OK");
    rig.process.facts.used_memory = (100 << 20) + after + mib;
    rig.pass_ms(2);
    assert!(rig.run("SET more 1").starts_with("-OOM"));
    rig.process.background_room.set(usize::MAX);
    rig.engine.save_slice(0, &mut rig.process);
    slices(&mut rig);
    rig.process.facts.used_memory = (100 << 20) - 1;
    rig.pass_ms(2);
    rig.check("SET more 1", "+OK");
    rig.process.facts.used_memory = (100 << 20) + mib;
    rig.pass_ms(2);
    assert!(rig.run("SET more 1").starts_with("-OOM"));
}

#[test]
fn a_save_under_way_goes_on_when_the_one_that_would_replace_it_fails() {
    let mut rig = Rig::new();
    rig.run("SET a 1");
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    rig.process.refuse_snapshots = Some("no space".to_owned());
    rig.check("DEBUG RELOAD", "-ERR");
    assert!(rig.engine.has_job(), "nothing was saved, so nothing is broken off");
    assert!(!rig.engine.prepare_end(&EndOrder::new(Ending::Save, false), &mut rig.process));
    assert!(rig.engine.has_job(), "the server goes on, and its save with it");
    rig.process.refuse_snapshots = None;
    rig.process.background_room.set(usize::MAX);
    slices(&mut rig);
    assert_eq!(info(&mut rig, "rdb_last_bgsave_status"), "ok");
    assert_eq!(keys_in(&file(&rig)), ["a"]);
    rig.process.background_room.set(0);
    rig.run("BGSAVE");
    assert!(rig.engine.prepare_end(&EndOrder::new(Ending::Save, false), &mut rig.process));
    assert!(!rig.engine.has_job(), "a younger file is there");
}

/// A file of database 3 with one value, of this type, under the key `the key`.
fn of_value(kind: u8, value: &[u8]) -> Vec<u8> {
    [b"REDIS0011\xfe\x03", &[kind][..], b"\x07the key", value, b"\xff\0\0\0\0\0\0\0\0"].concat()
}

#[test]
fn a_score_of_minus_zero_stays_one_where_a_listpack_or_ziplist_says_it() {
    // These are the replies of the reference for member `m`.
    let (minus, plain) =
        ("+aa66151a75d42f177dce99dcb02453641c77f6d8", "+669bd9943b43e6b31f3ab60847ee6a38dd154aba");
    let cases: [(u8, &[u8], &str); 5] = [
        (17, b"\x0e\x0e\0\0\0\x02\0\x81m\x02\x82-0\x03\xff", minus),
        (17, b"\x10\x10\0\0\0\x02\0\x81m\x02\x84-0e5\x05\xff", minus),
        (12, b"\x12\x12\0\0\0\x0d\0\0\0\x02\0\x00\x01m\x03\x02-0\xff", minus),
        // The score is put into a listpack element by element, which makes it an integer.
        (3, b"\x01\x01m\x02-0", plain),
        (5, b"\x01\x01m\0\0\0\0\0\0\0\x80", plain),
    ];
    for (kind, value, wanted) in cases {
        let mut rig = Rig::new();
        put(&rig, &of_value(kind, value));
        rig.check("DEBUG RELOAD NOSAVE", "+OK");
        rig.check("SELECT 3", "+OK");
        for _ in 0..2 {
            let found = rig.run("DEBUG DIGEST-VALUE \"the key\"");
            assert!(found.contains(&wanted[1..]), "type {kind}: {found}");
            rig.check("DEBUG RELOAD", "+OK");
        }
    }
}
