//! Saving and loading, end to end: the data after a restart, and after failures of disks or the machine.

use crate::common::{self, BINARY, Client, Dir, Server, free_port, has_switches, until};
use std::path::Path;
use std::process::Command;

/// Starts a server whose files are in `dir`, a folder that outlives the server.
fn server_in(dir: &Dir, arguments: &[&str]) -> Server {
    server_with_fault(dir, arguments, None)
}

/// Like `server_in`, but file operations of the server fail according to `plan` (see
/// `crates/storage/src/faulty.rs`).
fn server_with_fault(dir: &Dir, arguments: &[&str], plan: Option<&str>) -> Server {
    Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]).args(arguments);
        if let Some(plan) = plan {
            command.env("SLUICE_TEST_STORAGE", plan);
        }
    })
}

fn digest(client: &mut Client) -> String {
    client.send("DEBUG DIGEST\r\n").line()
}

/// Writes strings and lists, one string with an expiry, into two databases.
fn fill(client: &mut Client, marker: &str) {
    client.check(&format!("SET text {marker}"), "+OK\r\n").check("SET int 1234567", "+OK\r\n");
    client.check(&format!("SET long {}", "abcdefghij".repeat(3000)), "+OK\r\n");
    client.check("SETRANGE pages 300000 end", ":300003\r\n");
    client.check("SET dies 1 PX 100000000", "+OK\r\n");
    for n in 0..300 {
        client.check(&format!("RPUSH list element:{n} {n}"), format!(":{}\r\n", 2 * n + 2));
    }
    client.check("RPUSH short a b 3", ":3\r\n");
    client.check("SELECT 9", "+OK\r\n").check("SET other db", "+OK\r\n").check("SELECT 0", "+OK\r\n");
}

fn names(dir: &Dir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_was_saved_is_there_after_a_restart() {
    let dir = Dir::new();
    for (compression, magic) in [
        ("yes", &b"VALKEY080"[..]),
        ("no", b"VALKEY080"),
        ("lz4", b"VCS\x01\x01\0\x01"),
        ("zstd", b"VCS\x01\x02\0\x01"),
    ] {
        let server = server_in(&dir, &["--rdbcompression", compression]);
        let mut client = server.client();
        client.check("FLUSHALL", "+OK\r\n");
        fill(&mut client, "hello");
        let before = digest(&mut client);
        let expiry = client.send("PEXPIRETIME dies\r\n").line();
        client.check("SAVE", "+OK\r\n");
        assert_eq!(client.info("rdb_changes_since_last_save"), "0");
        client.check("SET lost 1", "+OK\r\n");
        assert!(std::fs::read(dir.join("dump.rdb")).unwrap().starts_with(magic), "{compression}");
        drop(server);
        let server = server_in(&dir, &[]);
        let mut client = server.client();
        assert_eq!(digest(&mut client), before);
        assert_eq!(client.send("PEXPIRETIME dies\r\n").line(), expiry);
        assert_eq!(client.info("rdb_last_load_keys_loaded"), "8");
        assert_eq!(client.info("loading"), "0");
        assert!(server.log.wait("DB loaded from disk: ").is_some());
        assert_eq!(names(&dir), ["dump.rdb"]);
    }
}

/// A compressed snapshot as the base of an append-only file is written, read, and verified at its end.
#[test]
fn a_base_of_the_append_only_file_may_be_compressed() {
    for (compression, number) in [("lz4", 1), ("zstd", 2)] {
        let dir = Dir::new();
        let server = server_in(
            &dir,
            &["--appendonly", "yes", "--appendfsync", "always", "--rdbcompression", compression],
        );
        let mut client = server.client();
        fill(&mut client, "hello");
        client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        until("the rewrite", || (client.info("aof_rewrite_in_progress") == "0").then_some(()));
        client.check("SET behind 1", "+OK\r\n");
        let before = digest(&mut client);
        drop(server);
        let folder = std::fs::read_dir(dir.join("appendonlydir")).unwrap();
        let bases = folder.map(|entry| entry.unwrap().path());
        let base = bases.into_iter().find(|path| path.to_string_lossy().ends_with(".base.rdb")).unwrap();
        let bytes = std::fs::read(&base).unwrap();
        assert_eq!(bytes[..7], [b'V', b'C', b'S', 1, number, 0, 1], "{compression}");
        let server = server_in(&dir, &["--appendonly", "yes"]);
        assert_eq!(digest(&mut server.client()), before, "{compression}");
    }
}

#[test]
fn reload_keeps_everything() {
    let server = Server::start(&[]);
    let mut client = server.client();
    fill(&mut client, "hello");
    let before = digest(&mut client);
    client.check("DEBUG RELOAD", "+OK\r\n");
    assert_eq!(digest(&mut client), before);
    assert!(server.log.wait("DB reloaded by DEBUG RELOAD").is_some());
}

#[test]
fn the_end_of_the_server_saves_where_there_are_save_points() {
    let dir = Dir::new();
    for (points, ending, kept) in [
        ("", "SHUTDOWN", "$-1\r\n"),
        ("100 1", "SHUTDOWN NOSAVE", "$-1\r\n"),
        ("100 1", "SHUTDOWN", "$1\r\n1\r\n"),
        ("", "TERM", "$-1\r\n"),
        ("100 1", "TERM", "$1\r\n1\r\n"),
    ] {
        let _ = std::fs::remove_file(dir.join("dump.rdb"));
        let mut server = server_in(&dir, &["--save", points]);
        let mut client = server.client();
        client.check("SET a 1", "+OK\r\n");
        match ending {
            "TERM" => server.signal("TERM"),
            command => client.send(format!("{command}\r\n")).expect_end(),
        }
        assert_eq!(server.wait().code(), Some(0));
        let said = server.log.all();
        assert_eq!(
            said.contains("Saving the final RDB snapshot before exiting."),
            kept != "$-1\r\n",
            "{said}"
        );
        server_in(&dir, &[]).client().check("GET a", kept);
    }
}

#[test]
fn a_full_disk_leaves_the_file_before_and_says_so() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    for (plan, wanted) in [
        ("no-space:1:1:0", "Failed opening the temp RDB file temp-"),
        (
            "no-space:2:1:0",
            "Write error saving DB on disk(write): No space left on device (0 bytes are free)",
        ),
        ("write-error:2:1:0", "Write error saving DB on disk(write): I/O error"),
        ("sync-error:3:1:0", "Write error saving DB on disk(fsync): I/O error"),
        ("torn-rename:4:1:0", "Error moving temp DB file temp-"),
        ("sync-error:5:1:0", "Failed to fsync directory while saving DB: I/O error"),
    ] {
        let mut first = server_in(&dir, &["--save", "100 1"]);
        first.client().check("SET a old", "+OK\r\n").send("SHUTDOWN\r\n").expect_end();
        first.wait();
        let server = server_with_fault(&dir, &[], Some(plan));
        let mut client = server.client();
        client.check("SET a new", "+OK\r\n").check("SAVE", "-ERR\r\n");
        assert!(server.log.wait(wanted).is_some(), "{wanted}");
        assert_eq!(client.info("rdb_changes_since_last_save"), "1");
        assert_eq!(names(&dir), ["dump.rdb"], "{plan}");
        let renamed = wanted.starts_with("Error moving") || wanted.starts_with("Failed to fsync");
        let left = if renamed { "$3\r\nnew\r\n" } else { "$3\r\nold\r\n" };
        server_in(&dir, &[]).client().check("GET a", left);
        // The disk works again, so the next save succeeds.
        client.check("SAVE", "+OK\r\n");
        server_in(&dir, &[]).client().check("GET a", "$3\r\nnew\r\n");
    }
}

#[test]
fn a_signal_does_not_end_a_server_that_cannot_save_and_the_next_one_asks_again() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    let mut server = server_with_fault(&dir, &["--save", "100 1"], Some("no-space:1:1:0"));
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    server.signal("TERM");
    assert!(server.log.wait("Errors trying to shut down the server. Check the logs").is_some());
    client.check("PING", "+PONG\r\n");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    server_in(&dir, &[]).client().check("GET a", "$1\r\n1\r\n");
}

/// Simulates a crash of the machine at each file operation of a save by `command`, and checks the data after
/// the next start.
fn crash_at_every_step(command: &str, seeds: u32) {
    let (mut old_left, mut new_left) = (0, 0);
    // A save of these data takes six file operations: create, two writes, sync, rename, and the sync of the
    // folder.
    for step in 1..=6 {
        for seed in 0..seeds {
            let dir = Dir::new();
            let server = server_in(&dir, &["--rdbcompression", "no"]);
            let mut client = server.client();
            fill(&mut client, "old");
            client.check("SAVE", "+OK\r\n");
            let old = digest(&mut client);
            drop(server);
            let plan = format!("crash:{step}:1:{seed}");
            let mut server = server_with_fault(&dir, &["--rdbcompression", "no"], Some(&plan));
            let mut client = server.client();
            client.check("SET text new", "+OK\r\n");
            let new = digest(&mut client);
            client.send(format!("{command}\r\n"));
            assert_eq!(server.wait().code(), Some(86), "step {step}: the machine has crashed");
            let server = server_in(&dir, &[]);
            let left = digest(&mut server.client());
            assert!(left == old || left == new, "step {step}, seed {seed}");
            *if left == new { &mut new_left } else { &mut old_left } += 1;
            assert_eq!(names(&dir), ["dump.rdb"], "the start has removed what was left over");
        }
    }
    assert!(old_left > 3 * seeds - 2 && new_left > 0, "{old_left} {new_left}");
}

#[test]
fn a_crash_of_the_machine_at_any_step_of_a_save_leaves_the_old_data_or_the_new() {
    if has_switches() {
        crash_at_every_step("SAVE", 3);
    }
}

/// Waits for the end of the background save; returns its result.
fn bgsave_outcome(client: &mut Client) -> String {
    until("the end of the save", || (client.info("rdb_bgsave_in_progress") == "0").then_some(()));
    client.info("rdb_last_bgsave_status")
}

#[test]
fn bgsave_keeps_the_moment_at_which_it_was_asked_while_writes_go_on() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--save", ""]);
    let mut client = server.client();
    fill(&mut client, "hello");
    client.check("DEBUG POPULATE 50000 key 100", "+OK\r\n");
    let before = digest(&mut client);
    client.check("BGSAVE", "+Background saving started\r\n");
    // All data are changed, deleted or moved during the save or after it. The file must not show these
    // changes.
    for n in 0..2000 {
        client.check(&format!("SET key:{} x", n * 7), "+OK\r\n");
    }
    client.check("LPUSH list front", ":601\r\n").check("SETRANGE pages 0 new", ":300003\r\n");
    client.check("DEL text", ":1\r\n").check("RENAME short long", "+OK\r\n").check("SWAPDB 0 9", "+OK\r\n");
    client.check("FLUSHDB", "+OK\r\n");
    assert_eq!(bgsave_outcome(&mut client), "ok");
    assert_eq!(names(&dir), ["dump.rdb"]);
    assert_eq!(digest(&mut server_in(&dir, &[]).client()), before);
    if let Some(reference) = Reference::start(&dir) {
        assert_eq!(digest(&mut reference.client()), before);
    }
}

#[test]
fn a_save_point_saves() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--save", "1 2"]);
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n").check("SET b 1", "+OK\r\n");
    until("the save", || (client.info("rdb_changes_since_last_save") == "0").then_some(()));
    assert!(server.log.wait("2 changes in 1 seconds. Saving...").is_some());
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn a_disk_that_fails_in_the_background_fails_the_save_and_writes_are_refused() {
    if !has_switches() {
        return;
    }
    // With many keys a save takes many writes. The writes after the failed one must not hide the failure.
    for (plan, keys) in [
        ("no-space:1:1:0", 1),
        ("no-space:2:1:0", 1),
        ("write-error:2:1:0", 1),
        ("sync-error:3:1:0", 1),
        ("sync-error:5:1:0", 1),
        ("no-space:2:1:0", 20_000),
        ("no-space:5:1:0", 20_000),
        ("write-error:4:1:0", 20_000),
    ] {
        let dir = Dir::new();
        let server =
            server_with_fault(&dir, &["--save", "1000 1000000", "--rdbcompression", "no"], Some(plan));
        let mut client = server.client();
        client
            .check(&format!("DEBUG POPULATE {keys} key 100"), "+OK\r\n")
            .check("SET a 1", "+OK\r\n")
            .check("BGSAVE", "+Background saving started\r\n");
        assert_eq!(bgsave_outcome(&mut client), "err", "{plan}");
        let refused = client.send("SET a 2\r\n").line();
        assert!(refused.starts_with("-MISCONF Valkey is configured to save RDB snapshots"), "{refused}");
        client.check("GET a", "$1\r\n1\r\n");
        // The disk works again, so the next save succeeds.
        client.check("BGSAVE", "+Background saving started\r\n");
        assert_eq!(bgsave_outcome(&mut client), "ok", "{plan}");
        client.check("SET a 2", "+OK\r\n");
        assert_eq!(names(&dir), ["dump.rdb", "dump.rdb.lock"], "{plan}");
    }
}

#[test]
fn a_crash_of_the_machine_at_any_step_of_a_save_in_the_background_leaves_the_old_data_or_the_new() {
    if has_switches() {
        crash_at_every_step("BGSAVE", 2);
    }
}

#[test]
fn a_save_that_is_broken_off_leaves_no_file_and_the_server_ends_at_once() {
    let dir = Dir::new();
    let mut server = server_in(&dir, &["--save", "", "--rdb-key-save-delay", "100000"]);
    let mut client = server.client();
    client.check("DEBUG POPULATE 1000", "+OK\r\n").check("BGSAVE", "+Background saving started\r\n");
    client.check("BGSAVE CANCEL", "+Background saving cancelled\r\n");
    assert_eq!(bgsave_outcome(&mut client), "ok");
    until("the removal", || names(&dir).is_empty().then_some(()));
    client.check("BGSAVE", "+Background saving started\r\n").send("SHUTDOWN NOSAVE\r\n").expect_end();
    assert_eq!(server.wait().code(), Some(0));
    // The next start removes the files that the thread could not remove.
    let server = server_in(&dir, &[]);
    assert!(names(&dir).is_empty());
    server.client().check("DBSIZE", ":0\r\n");
}

#[test]
fn the_second_signal_removes_the_file_of_the_save_at_the_end() {
    let dir = Dir::new();
    let mut server = server_in(&dir, &["--save", "900 1", "--rdb-key-save-delay", "100000"]);
    server.client().check("DEBUG POPULATE 1000", "+OK\r\n").check("SET a 1", "+OK\r\n");
    server.signal("INT");
    let temporary = format!("temp-{}.rdb", server.child.id());
    until("the file", || names(&dir).contains(&temporary).then_some(()));
    // The signal handler learns the name of the file soon after the file exists, at a moment that no command
    // shows. The save takes 100 seconds.
    std::thread::sleep(std::time::Duration::from_millis(200));
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(1));
    assert!(!names(&dir).iter().any(|name| name.ends_with(".rdb")), "{:?}", names(&dir));
}

#[test]
fn a_temporary_file_of_another_container_is_left_alone() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--save", ""]);
    let temporary = format!("temp-{}.rdb", server.child.id());
    dir.file(&temporary, "its own");
    // A temporary file counts as being written as long as it is locked.
    let written = std::fs::File::open(dir.join(&temporary)).unwrap();
    written.try_lock().unwrap();
    server.client().check("SET a 1", "+OK\r\n").check("SAVE", "+OK\r\n");
    assert_eq!(std::fs::read_to_string(dir.join(&temporary)).unwrap(), "its own");
    assert_eq!(names(&dir), ["dump.rdb", &temporary]);
}

#[test]
fn saves_wait_behind_keys_as_they_are_told_and_a_save_under_way_is_told_anew() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--save", "", "--rdb-key-save-delay", "1000000000"]);
    let mut client = server.client();
    client.check("DEBUG POPULATE 3", "+OK\r\n").check("BGSAVE", "+Background saving started\r\n");
    client.check("CONFIG SET rdb-key-save-delay 100000", "+OK\r\n");
    assert_eq!(bgsave_outcome(&mut client), "ok");
    let began = std::time::Instant::now();
    client.check("SAVE", "+OK\r\n");
    assert!(began.elapsed().as_millis() >= 300, "{:?}", began.elapsed());
    drop(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":3\r\n");
}

#[test]
fn a_file_that_is_no_good_ends_the_start() {
    for (bytes, wanted) in [
        (&b"garbagegarbage"[..], "Wrong signature trying to load DB from file: garbagega"),
        (b"REDIS0099", "Can't handle RDB format version 99"),
        (b"", "unexpected end of file at byte 0"),
        (b"VCS\x01\x03\0\x01", "Can't handle the compression of the RDB file"),
        (b"VCS\x01\x01\0\x01\x04\x22\x4d\x18\x40\x40\0", "the header of the LZ4 frame is damaged at byte 7"),
        (PATH_HASH, "key 'tree' at byte 11 holds a value of type path hash, which this version cannot load"),
        (b"VALKEY080\xfe\x00\x00\x01a\x01b\xff\x01\x00\x00\x00\x00\x00\x00\x00", "RDB CRC error"),
        (
            b"VALKEY080\xfe\x00\x00\x01a\x01b\x00\x01a\x01b\xff\0\0\0\0\0\0\0\0",
            "RDB has duplicated key 'a' in DB 0",
        ),
    ] {
        let dir = Dir::new();
        std::fs::write(dir.join("dump.rdb"), bytes).unwrap();
        let (port, pid_file) = (free_port().to_string(), dir.join("pid"));
        let arguments = ["--port", &port, "--dir", &dir.join(""), "--pidfile", &pid_file];
        let output = Command::new(BINARY).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(wanted), "{said}");
        assert!(said.ends_with("Fatal error loading the DB, check server logs. Exiting.\n"), "{said}");
        // Scripts read the last two lines of the log, so no line may come between the reason and the final
        // message.
        assert!(!said.contains("Removing the pid file") && !Path::new(&pid_file).exists(), "{said}");
        let is_damaged = said.contains("Terminating server after rdb file reading failure.");
        assert_eq!(is_damaged, wanted == "RDB CRC error" || wanted.contains("LZ4"), "{said}");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            std::fs::read(dir.join("dump.rdb")).unwrap(),
            bytes,
            "the file stays for whoever mends it"
        );
    }
    // A folder at the path of the RDB file ends the start, too.
    let dir = Dir::new();
    std::fs::create_dir(dir.join("dump.rdb")).unwrap();
    let port = free_port().to_string();
    let output = Command::new(BINARY).args(["--port", &port, "--dir", &dir.join("")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// An RDB file with a Path Hash `tree`, which has one path, and a string `k`.
const PATH_HASH: &[u8] =
    b"VALKEY081\xfe\x00\x17\x04tree\x01\x02/a\x01\x01f\x01v\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";

#[test]
fn files_of_version_81_are_read_and_80_is_written() {
    let mut digests = Vec::new();
    for name in ["rdb81-lz4.rdb", "rdb81-zstd.rdb"] {
        let dir = Dir::new();
        let file = format!("{}/../persist/tests/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(file, dir.join("dump.rdb")).unwrap();
        let server = server_in(&dir, &[]);
        let mut client = server.client();
        client.check("DBSIZE", ":1501\r\n").check("HGET hash b", "$1\r\n2\r\n").check("SAVE", "+OK\r\n");
        digests.push(digest(&mut client));
        assert!(std::fs::read(dir.join("dump.rdb")).unwrap().starts_with(b"VALKEY080"));
        drop(server);
        // The saved file has the data of the compressed one, in the format that every version 9 reads.
        digests.push(digest(&mut server_in(&dir, &[]).client()));
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
    // A skipped key must stay in the file, so the file is not overwritten.
    let dir = Dir::new();
    std::fs::write(dir.join("dump.rdb"), PATH_HASH).unwrap();
    let server = server_in(&dir, &["--rdb-version-check", "relaxed"]);
    let mut client = server.client();
    client.check("DBSIZE", ":1\r\n").check("GET k", "$1\r\nv\r\n");
    assert!(client.send("SAVE\r\n").line().starts_with('-'));
    assert_eq!(std::fs::read(dir.join("dump.rdb")).unwrap(), PATH_HASH);
}

#[test]
fn a_disk_that_reads_little_at_a_time_or_fails_loses_nothing() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    let server = server_in(&dir, &["--rdbcompression", "no"]);
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n").check("RPUSH l x yy zzz", ":3\r\n").check("SELECT 9", "+OK\r\n");
    // This value is longer than one read returns.
    client.check("SETRANGE long 3000000 end", ":3000003\r\n");
    let before = digest(&mut client);
    client.check("SAVE", "+OK\r\n");
    drop(server);
    let saved = std::fs::read(dir.join("dump.rdb")).unwrap();
    // The first million reads, or seven reads from the third on, return only a single byte each.
    for plan in ["short-read:1:1000000:0", "short-read:3:7:0"] {
        let server = server_with_fault(&dir, &[], Some(plan));
        assert_eq!(digest(&mut server.client()), before, "{plan}");
    }
    // The first read fails, or the third one.
    for plan in ["read-error:1:1:0", "read-error:3:1:0"] {
        let port = free_port().to_string();
        let mut command = Command::new(BINARY);
        command.args(["--port", &port, "--dir", &dir.join("")]).env("SLUICE_TEST_STORAGE", plan);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("I/O error"), "{plan} {said}");
        assert!(said.ends_with("Fatal error loading the DB, check server logs. Exiting.\n"), "{plan} {said}");
        assert_eq!(output.status.code(), Some(1), "{plan}");
    }
    assert_eq!(std::fs::read(dir.join("dump.rdb")).unwrap(), saved, "what cannot be read is not replaced");
    assert_eq!(names(&dir), ["dump.rdb"]);
}

/// Runs a server that must refuse to start; returns its log.
fn refused(dir: &Dir, arguments: &[&str]) -> String {
    let port = free_port().to_string();
    let mut command = Command::new(BINARY);
    let output = command.args(["--port", &port, "--dir", &dir.join("")]).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_second_server_that_would_write_the_same_file_is_refused() {
    let dir = Dir::new();
    let mut first = server_in(&dir, &["--save", "100 1"]);
    assert_eq!(names(&dir), ["dump.rdb.lock"]);
    let said = refused(&dir, &["--save", "900 1"]);
    let file = dir.join("dump.rdb");
    let wanted = format!(
        "the RDB file {file} is in use: process {} holds {file}.lock. Two servers would overwrite each other's data",
        first.child.id()
    );
    assert!(said.contains(&wanted), "{said}");
    // A server with another file, or with none, may start.
    let second = server_in(&dir, &["--save", "100 1", "--dbfilename", "other.rdb"]);
    let third = server_in(&dir, &["--save", ""]);
    let mut client = third.client();
    // CONFIG SET claims the file of the new configuration, or refuses the whole change.
    let reply = client.send("CONFIG SET maxmemory 1gb save '1 1'\r\n").line();
    assert!(
        reply.starts_with("-ERR CONFIG SET failed (possibly related to argument 'save') - the RDB file "),
        "{reply}"
    );
    client.check("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    client.check("CONFIG SET dbfilename third.rdb save '1 1'", "+OK\r\n");
    assert_eq!(names(&dir), ["dump.rdb.lock", "other.rdb.lock", "third.rdb.lock"]);
    client.check("CONFIG SET save ''", "+OK\r\n");
    assert_eq!(names(&dir), ["dump.rdb.lock", "other.rdb.lock"]);
    // A change of `dir` releases the claim in the old directory.
    let elsewhere = Dir::new();
    let mut client = second.client();
    client.check(&format!("CONFIG SET dir {}", elsewhere.join("")), "+OK\r\n");
    assert_eq!(
        (names(&dir), names(&elsewhere)),
        (vec!["dump.rdb.lock".to_owned()], vec!["other.rdb.lock".to_owned()])
    );
    let other = server_in(&elsewhere, &["--save", "1 1"]);
    let mut client = other.client();
    client.check("CONFIG SET dbfilename x.rdb", "+OK\r\n");
    let reply = client.send(format!("CONFIG SET dir {}\r\n", dir.join(""))).line();
    assert_eq!(reply, "+OK");
    let reply = client.send("CONFIG SET dbfilename dump.rdb\r\n").line();
    assert!(reply.contains(&format!("process {} holds", first.child.id())), "{reply}");
    drop(other);
    // A claim ends with the process that has made it, however the process ends.
    first.signal("KILL");
    first.wait();
    let mut next = server_in(&dir, &["--save", "100 1"]);
    next.client().send("SHUTDOWN NOSAVE\r\n").expect_end();
    assert_eq!(next.wait().code(), Some(0));
    assert_eq!(names(&dir), ["x.rdb.lock"], "what a killed server left is used again, or stays");
}

#[test]
fn what_another_process_saves_is_left_alone() {
    let dir = Dir::new();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let left_over = format!("temp-{}.rdb", ended.id());
    let alive = format!("temp-{}.rdb", std::process::id());
    let of_rewrite = format!("temp-rewriteaof-bg-{}.aof", ended.id());
    for name in [&left_over, &of_rewrite, &alive, "temp-x.rdb"] {
        std::fs::write(dir.join(name), "REDIS0011 a part").unwrap();
    }
    // This file has the name of a temporary file, but its content is no RDB file.
    let foreign = format!("temp-1.{}.rdb", ended.id());
    std::fs::write(dir.join(&foreign), "notes").unwrap();
    let server = server_in(&dir, &[]);
    assert!(server.log.wait(&format!("Kept {foreign}: ")).is_some());
    std::fs::remove_file(dir.join(&foreign)).unwrap();
    assert!(server.log.wait(&format!("Removed {left_over}")).is_some());
    assert!(server.log.wait(&format!("Removed {of_rewrite}")).is_some());
    assert_eq!(names(&dir), [alive, "temp-x.rdb".to_owned()]);
}

#[test]
fn the_file_goes_where_the_configuration_says() {
    let dir = Dir::new();
    std::fs::create_dir(dir.join("sub")).unwrap();
    let server = server_in(&dir, &[]);
    let mut client = server.client();
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'dbfilename') - dbfilename can't be a path, just a filename\r\n";
    client.check("CONFIG SET dbfilename a/b", refused);
    client.check(&format!("CONFIG SET dir {} dbfilename other.rdb", dir.join("sub")), "+OK\r\n");
    client.check("SAVE", "+OK\r\n");
    assert!(Path::new(&dir.join("sub/other.rdb")).exists());
    assert_eq!(names(&dir), ["sub"]);
    // A save cannot replace a folder.
    client.check(&format!("CONFIG SET dir {} dbfilename sub", dir.join("")), "+OK\r\n");
    client.check("SAVE", "-ERR\r\n");
    assert!(server.log.wait("on the final destination sub (in server root dir ").is_some());
    assert_eq!(names(&dir), ["sub"]);
}

/// A running server of the reference that uses the same files.
struct Reference {
    child: std::process::Child,
    port: u16,
}

impl Reference {
    /// Starts the reference's server; returns `None` if the environment names no reference.
    fn start(dir: &Dir) -> Option<Reference> {
        let Ok(binary) = std::env::var("SLUICE_PEER_SERVER") else {
            println!("skipped: SLUICE_PEER_SERVER names no reference");
            return None;
        };
        let port = free_port();
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", ""])
            .args(["--enable-debug-command", "yes", "--logfile", "reference.log"])
            .spawn()
            .unwrap();
        until("the reference", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(Reference { child, port })
    }

    fn client(&self) -> Client {
        Client::to("127.0.0.1", self.port)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_reference_loads_what_we_save_and_we_load_what_it_saves() {
    let dir = Dir::new();
    let ours = server_in(&dir, &[]);
    let mut client = ours.client();
    fill(&mut client, "from-us");
    let saved = digest(&mut client);
    client.check("SAVE", "+OK\r\n");
    drop(ours);
    let Some(reference) = Reference::start(&dir) else { return };
    let mut client = reference.client();
    assert_eq!(digest(&mut client), saved);
    client.check("FLUSHALL", "+OK\r\n");
    fill(&mut client, "from-them");
    let script = "#!lua name=kept\nserver.register_function('f', function() return 1 end)";
    client.send(common::request(&[b"FUNCTION", b"LOAD", script.as_bytes()])).expect("$4\r\nkept\r\n");
    let saved = digest(&mut client);
    client.check("SAVE", "+OK\r\n");
    drop(reference);
    let ours = server_in(&dir, &[]);
    let mut client = ours.client();
    assert_eq!(digest(&mut client), saved);
    // The function library that the reference saved is also in the file that our server saves.
    client.check("SAVE", "+OK\r\n");
    drop(ours);
    let reference = Reference::start(&dir).unwrap();
    let mut client = reference.client();
    assert_eq!(digest(&mut client), saved);
    client.check("FCALL f 0", ":1\r\n");
}

#[test]
fn what_a_save_alone_holds_is_no_reason_to_refuse_a_write() {
    let server = Server::start(&["--save", "", "--rdb-key-save-delay", "50000"]);
    let mut client = server.client();
    let set = |client: &mut Client, number: usize, letter: &str| {
        let value = letter.repeat(1 << 20);
        client.send(format!("*3\r\n$3\r\nSET\r\n$7\r\nkey:{number:03}\r\n${}\r\n{value}\r\n", value.len()));
        client.line()
    };
    for number in 0..40 {
        assert_eq!(set(&mut client, number, "a"), "+OK");
    }
    let used = client.info_number("used_memory");
    // The limit has room for arguments that are passed between threads, and for values that another thread is
    // freeing.
    client.check(&format!("CONFIG SET maxmemory {}", used + (10 << 20)), "+OK\r\n");
    client.check("BGSAVE", "+Background saving started\r\n");
    // Each value is replaced by one of the same size, so without a save all writes would be accepted.
    for number in 0..40 {
        assert_eq!(set(&mut client, number, "b"), "+OK", "{number}");
    }
    // Writes that would be refused without a save are still refused.
    let refused = (40..60).map(|number| set(&mut client, number, "c")).find(|line| line.starts_with("-OOM"));
    assert!(refused.is_some());
}
