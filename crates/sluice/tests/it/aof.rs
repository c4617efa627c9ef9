//! The append-only file, end to end: the data after a restart, and after failures of disks, the machine
//! or the process.

use crate::common::{self, BINARY, Client, Dir, Server, free_port, has_switches, until};
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

/// Starts a server with an append-only file. The server's files are in `dir`, a folder that outlives the
/// server.
fn server_in(dir: &Dir, arguments: &[&str]) -> Server {
    server_with_fault(dir, arguments, None)
}

/// Like `server_in`, but file operations of the server fail according to `plan` (see
/// `crates/storage/src/faulty.rs`).
fn server_with_fault(dir: &Dir, arguments: &[&str], plan: Option<&str>) -> Server {
    Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join(""), "--appendonly", "yes"]).args(arguments);
        if let Some(plan) = plan {
            command.env("SLUICE_TEST_STORAGE", plan);
        }
    })
}

fn digest(client: &mut Client) -> String {
    client.send("DEBUG DIGEST\r\n").line()
}

/// Shuts a server down.
fn end(mut server: Server) {
    server.client().send("SHUTDOWN\r\n").expect_end();
    assert_eq!(server.wait().code(), Some(0));
}

fn read(dir: &Dir, name: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(dir.join(&format!("appendonlydir/{name}"))).unwrap()).into_owned()
}

fn names(dir: &Dir) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("appendonlydir")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Starts a server that must refuse to start, with exit status 1. Returns the server's log.
fn refused(dir: &Dir, arguments: &[&str]) -> String {
    let port = free_port().to_string();
    let output = Command::new(BINARY)
        .args(["--port", &port, "--dir", &dir.join(""), "--appendonly", "yes"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

/// Number of file operations of a start on an existing folder, which are syncs of the files, the folder and
/// its parent folder. The first write of a command is the next operation.
const START_STEPS: u64 = 4;

/// Writes values of all kinds, in two databases and in transactions.
fn fill(client: &mut Client) {
    client.check("SET text hello", "+OK\r\n").check("INCRBY int 1234567", ":1234567\r\n");
    client.check(&format!("SET long {}", "abcdefghij".repeat(3000)), "+OK\r\n");
    client.check("SETRANGE pages 300000 end", ":300003\r\n");
    client
        .check("SET lives 1 EX 100000", "+OK\r\n")
        .check("SET gone 1", "+OK\r\n")
        .check("DEL gone", ":1\r\n");
    for n in 0..100 {
        client.check(&format!("RPUSH list element:{n} {n}"), format!(":{}\r\n", 2 * n + 2));
    }
    client.check("MULTI", "+OK\r\n").check("SET a 1", "+QUEUED\r\n").check("LPOP list", "+QUEUED\r\n");
    client.check("EXEC", "*2\r\n+OK\r\n$9\r\nelement:0\r\n");
    client.check("SELECT 9", "+OK\r\n").check("SET other db", "+OK\r\n").check("SELECT 0", "+OK\r\n");
}

const FILES: [&str; 3] =
    ["appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof", "appendonly.aof.manifest"];

#[test]
fn what_was_written_is_there_after_a_restart() {
    for policy in ["always", "everysec", "no"] {
        let dir = Dir::new();
        let server = server_in(&dir, &["--appendfsync", policy]);
        assert!(
            server.log.wait("Creating AOF base file appendonly.aof.1.base.rdb on server start").is_some()
        );
        assert!(
            server.log.wait("Creating AOF incr file appendonly.aof.1.incr.aof on server start").is_some()
        );
        let mut client = server.client();
        fill(&mut client);
        let before = digest(&mut client);
        let expiry = client.send("PEXPIRETIME lives\r\n").line();
        end(server);
        assert_eq!(names(&dir), FILES);
        assert_eq!(
            read(&dir, FILES[2]),
            "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
        );
        let server = server_in(&dir, &["--appendfsync", policy]);
        let mut client = server.client();
        assert_eq!(digest(&mut client), before);
        assert_eq!(client.send("PEXPIRETIME lives\r\n").line(), expiry);
        assert_eq!(client.info("rdb_changes_since_last_save"), "0");
        assert!(server.log.wait("DB loaded from append only file: ").is_some());
        assert!(server.log.wait("Opening AOF incr file appendonly.aof.1.incr.aof on server start").is_some());
        client.check("SET behind 1", "+OK\r\n");
        end(server);
        server_in(&dir, &[]).client().check("GET behind", "$1\r\n1\r\n");
    }
}

#[test]
fn the_process_may_be_killed() {
    for policy in ["always", "everysec"] {
        let dir = Dir::new();
        let server = server_in(&dir, &["--appendfsync", policy]);
        let mut client = server.client();
        for n in 0..50 {
            client.check(&format!("SET key:{n} {n}"), "+OK\r\n");
        }
        if policy == "everysec" {
            until("the file", || (client.info("aof_buffer_length") == "0").then_some(()));
            until("the file", || read(&dir, FILES[1]).ends_with("key:49\r\n$2\r\n49\r\n").then_some(()));
        }
        drop(server);
        let server = server_in(&dir, &[]);
        server.client().check("GET key:49", "$2\r\n49\r\n").check("DBSIZE", ":50\r\n");
    }
}

#[test]
fn info_shows_the_file() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--appendfsync", "always"]);
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    assert_eq!(client.info("aof_enabled"), "1");
    assert_eq!(client.info("aof_last_write_status"), "ok");
    let size = |name| std::fs::metadata(dir.join(&format!("appendonlydir/{name}"))).unwrap().len();
    let sizes = size(FILES[0]) + size(FILES[1]);
    until("the size", || (client.info("aof_current_size") == sizes.to_string()).then_some(()));
    assert_eq!(client.info("aof_buffer_length"), "0");
}

#[test]
fn a_torn_end_is_cut_off_or_refused() {
    let whole = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    for torn in
        ["*3\r\n$3\r\nSET\r\n$1\r\nb", "*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\n1\r\n"]
    {
        let dir = Dir::new();
        end(server_in(&dir, &[]));
        let file = dir.join("appendonlydir/appendonly.aof.1.incr.aof");
        std::fs::write(&file, format!("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n{whole}{torn}")).unwrap();
        let said = refused(&dir, &["--aof-load-truncated", "no"]);
        assert!(
            said.contains("Unexpected end of file reading the append only file appendonly.aof.1.incr.aof.")
        );
        let server = server_in(&dir, &[]);
        server.client().check("GET a", "$1\r\n1\r\n").check("DBSIZE", ":1\r\n");
        assert!(server.log.wait("AOF appendonly.aof.1.incr.aof loaded anyway because").is_some());
        assert!(server.log.wait(" are kept in appendonly.aof.1.incr.aof.cut-").is_some());
        let sizes =
            FILES[..2].iter().map(|name| std::fs::metadata(dir.join(&format!("appendonlydir/{name}"))));
        let size: u64 = sizes.map(|file| file.unwrap().len()).sum();
        until("the size", || (server.client().info_number("aof_current_size") == size as i64).then_some(()));
        server.client().check("SET c 1", "+OK\r\n");
        end(server);
        assert!(!read(&dir, FILES[1]).contains('b'));
        // The part that was cut off is kept in a separate file, which the log names and `aof_current_size`
        // does not count.
        let cut: Vec<String> = names(&dir).into_iter().filter(|name| name.contains(".cut-")).collect();
        assert_eq!(cut.len(), 1, "{cut:?}");
        assert_eq!(read(&dir, &cut[0]), torn);
        server_in(&dir, &["--aof-load-truncated", "no"]).client().check("DBSIZE", ":2\r\n");
    }
}

#[test]
fn discard_ends_a_transaction_and_what_comes_behind_is_run() {
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let words: [&[&[u8]]; 8] = [
        &[b"MULTI"],
        &[b"SET", b"discarded", b"1"],
        &[b"DISCARD"],
        &[b"SET", b"a", b"1"],
        &[b"MULTI"],
        &[b"SET", b"b", b"1"],
        &[b"EXEC"],
        &[b"SET", b"c", b"1"],
    ];
    let text: Vec<u8> = words.iter().flat_map(|words| common::request(words)).collect();
    std::fs::write(dir.join("appendonlydir/appendonly.aof.1.incr.aof"), text).unwrap();
    let server = server_in(&dir, &[]);
    server.client().check("EXISTS a b c", ":3\r\n").check("DBSIZE", ":3\r\n");
}

#[test]
fn what_is_no_log_is_refused() {
    for (text, wanted) in [
        (
            "*3\r\n$3\r\nSET\r\n$1\r\na\r\n:1\r\n",
            "Bad file format reading the append only file appendonly.aof.1.incr.aof: ",
        ),
        (
            "*1\r\n$3\r\nbla\r\n",
            "Error reading the append only file appendonly.aof.1.incr.aof, error: unknown command 'bla', with args beginning \
             with: ",
        ),
        (
            "*2\r\n$6\r\nCONFIG\r\n$3\r\nbla\r\n",
            "Error reading the append only file appendonly.aof.1.incr.aof, error: unknown subcommand 'bla'. Try CONFIG HELP.",
        ),
        (
            "*1\r\n$3\r\nGET\r\n",
            "Error reading the append only file appendonly.aof.1.incr.aof, error: wrong number of arguments for 'get' command",
        ),
        ("*2\r\n$6\r\nSELECT\r\n$2\r\n99\r\n", "The append only file selects database 99"),
    ] {
        let dir = Dir::new();
        end(server_in(&dir, &[]));
        std::fs::write(dir.join("appendonlydir/appendonly.aof.1.incr.aof"), text).unwrap();
        let said = refused(&dir, &[]);
        assert!(said.contains(wanted), "{said}");
    }
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    std::fs::write(dir.join("appendonlydir/appendonly.aof.1.base.rdb"), "VALKEY080 no").unwrap();
    assert!(
        refused(&dir, &[])
            .contains("Error reading the RDB base file appendonly.aof.1.base.rdb, AOF loading aborted")
    );
    std::fs::remove_file(dir.join("appendonlydir/appendonly.aof.1.base.rdb")).unwrap();
    assert!(refused(&dir, &[]).contains("Unable to obtain the AOF file appendonly.aof.1.base.rdb length."));
    std::fs::write(dir.join("appendonlydir/appendonly.aof.manifest"), "nonsense\n").unwrap();
    let said = refused(&dir, &[]);
    assert!(
        said.contains("*** FATAL AOF MANIFEST FILE ERROR ***")
            && said.contains("Invalid AOF manifest file format")
    );
}

/// Bytes at the end of a file that are not the beginning of a command are refused and kept, even if the
/// reference would cut them off.
#[test]
fn what_was_not_cut_off_is_left_alone() {
    let whole = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    let lf = whole.replace("\r\n", "\n");
    let zeros = "\0".repeat(5000);
    for text in [
        lf.clone(),
        "*1\n$4\nPING\n".to_owned(),
        format!("{whole}{lf}"),
        format!("{whole}{zeros}"),
        format!("{whole}{}{zeros}", &whole[..24]),
        format!("{whole}hello"),
        format!("{whole}\r\n"),
        format!("{whole}*\x01\x02"),
        format!("{whole}*3\n"),
        format!("{whole}*3\r\n$3x"),
        format!("{whole}*1\r\n$4\r\npingX"),
        format!("{whole}#{}", "x".repeat(3000)),
        "REDI".to_owned(),
    ] {
        let dir = Dir::new();
        end(server_in(&dir, &[]));
        let file = dir.join("appendonlydir/appendonly.aof.1.incr.aof");
        std::fs::write(&file, &text).unwrap();
        let said = refused(&dir, &[]);
        let bad = "Bad file format reading the append only file appendonly.aof.1.incr.aof: ";
        assert!(said.contains(bad), "{}: {said}", text.escape_debug());
        assert_eq!(std::fs::read(&file).unwrap(), text.as_bytes());
        assert_eq!(names(&dir), FILES);
    }
}

/// If the file's name is so long that a time cannot be added to it, the torn end is kept under a short name.
#[test]
fn a_long_appendfilename_does_not_keep_a_torn_file_from_being_loaded() {
    let text = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*3\r\n$3\r\nSE";
    let dir = Dir::new();
    let long = "n".repeat(230);
    let arguments = ["--appendfilename", &long];
    end(server_in(&dir, &arguments));
    std::fs::write(dir.join(&format!("appendonlydir/{long}.1.incr.aof")), text).unwrap();
    let server = server_in(&dir, &arguments);
    server.client().check("GET a", "$1\r\n1\r\n");
    let kept: Vec<String> = names(&dir).into_iter().filter(|name| name.starts_with("cut-")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(read(&dir, &kept[0]), "*3\r\n$3\r\nSE");
    assert!(server.log.wait(&format!(" are kept in {}", kept[0])).is_some());
    end(server);
}

/// A snapshot of another server with a module's record, an auxiliary field with data, and no keys.
const FOREIGN: &[u8] = b"REDIS0011\xfa\x09redis-ver\x057.2.4\xfa\x13keydb-subexpire-key\x01m\
    \xf7\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x02\x01\x02\x05\x05\x03abc\0\xff\0\0\0\0\0\0\0\0";

/// The dropped records of another server's file survive the save and the rewrite that replace the file.
#[test]
fn a_file_whose_records_were_dropped_stays_under_a_second_name() {
    let dir = Dir::new();
    let start = || {
        Server::start_in(Dir::new(), |command| {
            command.args(["--dir", &dir.join("")]);
        })
    };
    std::fs::write(dir.join("dump.rdb"), FOREIGN).unwrap();
    // The file gets a second name only once, however often it is loaded.
    end_nosave(start());
    let server = start();
    assert!(server.log.wait("with the dropped records, is kept as dump.rdb.as-loaded-1, which").is_some());
    server.client().check("SET a 1", "+OK\r\n").check("SAVE", "+OK\r\n");
    end_nosave(server);
    assert_ne!(std::fs::read(dir.join("dump.rdb")).unwrap(), FOREIGN);
    assert_eq!(std::fs::read(dir.join("dump.rdb.as-loaded-1")).unwrap(), FOREIGN);
    assert!(!std::path::Path::new(&dir.join("dump.rdb.as-loaded-2")).exists());

    let dir = Dir::new();
    end(server_in(&dir, &[]));
    std::fs::write(dir.join("appendonlydir/appendonly.aof.1.base.rdb"), FOREIGN).unwrap();
    let server = server_in(&dir, &[]);
    let kept = "appendonly.aof.1.base.rdb.as-loaded-1";
    assert!(server.log.wait(&format!("with the dropped records, is kept as {kept}, which")).is_some());
    server.client().check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    until("the rewrite", || (!names(&dir).contains(&FILES[0].to_owned())).then_some(()));
    end(server);
    assert_eq!(std::fs::read(dir.join(&format!("appendonlydir/{kept}"))).unwrap(), FOREIGN);
    assert!(names(&dir).contains(&"appendonly.aof.2.base.rdb".to_owned()));
}

fn end_nosave(mut server: Server) {
    server.client().send("SHUTDOWN NOSAVE\r\n").expect_end();
    assert_eq!(server.wait().code(), Some(0));
}

/// A torn end is not cut off if there is no room for a copy of it.
#[test]
fn what_cannot_be_kept_is_not_cut_off() {
    if !has_switches() {
        return;
    }
    let text = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*3\r\n$3\r\nSE";
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let file = dir.join("appendonlydir/appendonly.aof.1.incr.aof");
    std::fs::write(&file, text).unwrap();
    let port = free_port().to_string();
    let output = Command::new(BINARY)
        .args(["--port", &port, "--dir", &dir.join(""), "--appendonly", "yes"])
        .env("SLUICE_TEST_STORAGE", "no-space:1:1000:0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be kept as appendonly.aof.1.incr.aof.cut-"), "{said}");
    assert_eq!(std::fs::read(&file).unwrap(), text.as_bytes());
}

/// The manifest of another server may list as history a file that is also loaded; such a file is kept.
#[test]
fn a_file_that_is_loaded_is_no_history() {
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let manifest = "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n\
                    file appendonly.aof.1.base.rdb seq 7 type h\nfile appendonly.aof.1.incr.aof seq 8 type h\n\
                    file appendonly.aof.manifest seq 9 type h\nfile superfluous seq 9 type h\n";
    std::fs::write(dir.join("appendonlydir/appendonly.aof.manifest"), manifest).unwrap();
    std::fs::write(dir.join("appendonlydir/superfluous"), "").unwrap();
    let server = server_in(&dir, &[]);
    assert!(server.log.wait("Removing the history file superfluous in the background").is_some());
    server.client().check("SET a 1", "+OK\r\n");
    end(server);
    assert_eq!(names(&dir), FILES);
    server_in(&dir, &[]).client().check("GET a", "$1\r\n1\r\n");
}

#[test]
fn only_the_last_file_may_be_torn() {
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let manifest = "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n\
                    file appendonly.aof.2.incr.aof seq 2 type i\n";
    std::fs::write(dir.join("appendonlydir/appendonly.aof.manifest"), manifest).unwrap();
    let set = |key: &str| format!("*3\r\n$3\r\nSET\r\n$1\r\n{key}\r\n$1\r\n1\r\n");
    let file = |n: u8| dir.join(&format!("appendonlydir/appendonly.aof.{n}.incr.aof"));
    std::fs::write(file(1), &set("a")[..20]).unwrap();
    std::fs::write(file(2), set("b")).unwrap();
    assert!(refused(&dir, &[]).contains("the truncated file is not the last file"));
    std::fs::write(file(1), set("a")).unwrap();
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn keys_past_their_expiry_live_until_the_log_deletes_them() {
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let commands: &[&[&[u8]]] = &[
        &[b"SET", b"a", b"1", b"PXAT", b"1000"],
        &[b"APPEND", b"a", b"2"],
        &[b"PERSIST", b"a"],
        &[b"SET", b"b", b"1"],
        &[b"PEXPIREAT", b"b", b"1000"],
    ];
    let text: Vec<u8> = commands.iter().flat_map(|words| common::request(words)).collect();
    std::fs::write(dir.join("appendonlydir/appendonly.aof.1.incr.aof"), text).unwrap();
    let server = server_in(&dir, &[]);
    server.client().check("GET a", "$2\r\n12\r\n").check("GET b", "$-1\r\n");
}

#[test]
fn a_log_of_one_file_is_taken_over() {
    let dir = Dir::new();
    let text: Vec<u8> = common::request(&[b"SET", b"a", b"1"]);
    dir.file("appendonly.aof", &String::from_utf8(text).unwrap());
    let server = server_in(&dir, &[]);
    assert!(
        server
            .log
            .wait("Successfully migrated an old-style AOF file (appendonly.aof) into the AOF directory (appendonlydir).")
            .is_some()
    );
    server.client().check("GET a", "$1\r\n1\r\n").check("SET b 1", "+OK\r\n");
    end(server);
    assert_eq!(names(&dir), ["appendonly.aof", "appendonly.aof.1.incr.aof", "appendonly.aof.manifest"]);
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn always_ends_the_process_when_it_cannot_write_or_sync() {
    if !has_switches() {
        return;
    }
    let sync =
        "Can't persist AOF for fsync error when the AOF fsync policy is 'always': I/O error. Exiting...";
    let write = "Can't recover from AOF write error when the AOF fsync policy is 'always'. Exiting...";
    for (fault, wanted) in [("sync-error", sync), ("write-error", write), ("no-space", write)] {
        let dir = Dir::new();
        end(server_in(&dir, &[]));
        let first = START_STEPS + if fault == "sync-error" { 2 } else { 1 };
        let plan = format!("{fault}:{first}:1:0");
        let mut server = server_with_fault(&dir, &["--appendfsync", "always"], Some(&plan));
        let mut client = server.client();
        client.send("SET a 1\r\n").expect_end();
        assert_eq!(server.wait().code(), Some(1));
        assert!(server.log.all().contains(wanted), "{}", server.log.all());
    }
}

#[test]
fn everysec_refuses_writes_while_the_disk_is_full_and_goes_on_after() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    // Several attempts to write fail, a second apart, because the refusals below need time on a busy machine.
    let server = server_with_fault(&dir, &[], Some(&format!("no-space:{}:7:0", START_STEPS + 1)));
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    until("the fault", || (client.info("aof_last_write_status") == "err").then_some(()));
    let refused = "-MISCONF Errors writing to the AOF file: No space left on device\r\n";
    client.check("SET b 1", refused).check("PING", refused).check("GET a", "$1\r\n1\r\n");
    // The write is tried again each second.
    assert!(server.log.wait("AOF write error looks solved. The server can write again.").is_some());
    // The writing thread logs the end of the fault before it notifies the main thread.
    until("the end of the fault", || (client.info("aof_last_write_status") == "ok").then_some(()));
    client.check("SET b 1", "+OK\r\n");
    end(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn an_end_whose_last_writes_are_not_on_disk_has_another_status() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let mut server = server_with_fault(&dir, &[], Some(&format!("no-space:{}:100000:0", START_STEPS + 1)));
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    until("the fault", || (client.info("aof_last_write_status") == "err").then_some(()));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(1));
    assert!(server.log.wait("The last writes are not on disk").is_some());
}

#[test]
fn everysec_refuses_writes_for_good_when_a_sync_has_failed() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let server = server_with_fault(&dir, &[], Some(&format!("sync-error:{}:1:0", START_STEPS + 2)));
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    assert!(server.log.wait("Fail to fsync the AOF file: I/O error").is_some());
    until("the fault", || (client.info("aof_last_write_status") == "err").then_some(()));
    client.check("SET b 1", "-MISCONF Errors writing to the AOF file: I/O error\r\n");
}

/// Simulates a crash of the machine at each file operation of a run; acknowledged writes must survive.
#[test]
fn a_crash_of_the_machine_at_any_step_loses_nothing_that_always_has_acknowledged() {
    if !has_switches() {
        return;
    }
    for step in 1..=24 {
        let dir = Dir::new();
        let plan = format!("crash:{step}:1:{}", step * 7);
        let arguments = ["--appendfsync", "always"];
        let port = free_port();
        let mut command = Command::new(BINARY);
        command.args([
            "--port",
            &port.to_string(),
            "--dir",
            &dir.join(""),
            "--save",
            "",
            "--appendonly",
            "yes",
        ]);
        command.args(arguments).env("SLUICE_TEST_STORAGE", plan);
        let mut server = Server::spawn(command, port, Dir::new());
        let mut acknowledged = 0;
        if server.log.wait("Ready to accept").is_some() {
            let mut client = server.client();
            for n in 1..=10 {
                use std::io::Read;
                client.send(format!("SET k {n}\r\n"));
                let mut reply = [0; 5];
                if client.stream.read_exact(&mut reply).is_err() {
                    break;
                }
                assert_eq!(&reply, b"+OK\r\n");
                acknowledged = n;
            }
        }
        drop(server.child.kill());
        server.wait();
        let server = server_in(&dir, &arguments);
        let mut client = server.client();
        let found: i64 = match client.send("GET k\r\n").line().as_str() {
            "$-1" => 0,
            _ => client.line().parse().unwrap(),
        };
        assert!(found >= acknowledged, "step {step}: {acknowledged} was acknowledged, {found} is there");
        assert!(found <= acknowledged + 1);
    }
}

/// Waits until no rewrite is under way or scheduled, and checks that the last one has succeeded.
fn rewritten(client: &mut Client) {
    until("the rewrite", || {
        let busy =
            client.info("aof_rewrite_in_progress") == "1" || client.info("aof_rewrite_scheduled") == "1";
        (!busy).then_some(())
    });
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
}

#[test]
fn a_rewrite_keeps_everything_and_removes_the_files_before() {
    for (policy, preamble) in [("always", "yes"), ("everysec", "yes"), ("everysec", "no")] {
        let dir = Dir::new();
        let arguments = ["--appendfsync", policy, "--aof-use-rdb-preamble", preamble];
        let server = server_in(&dir, &arguments);
        let mut client = server.client();
        fill(&mut client);
        let started = "+Background append only file rewriting started\r\n";
        client.check("BGREWRITEAOF", started).check("INCR int", ":1234568\r\n");
        rewritten(&mut client);
        assert!(server.log.wait("Background AOF rewrite finished successfully").is_some());
        let base = if preamble == "yes" { "appendonly.aof.2.base.rdb" } else { "appendonly.aof.2.base.aof" };
        let wanted = [base, "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"];
        until("the files before to go", || (names(&dir) == wanted).then_some(()));
        assert!(!read(&dir, "appendonly.aof.2.incr.aof").contains("hello"), "that is in the base");
        assert_eq!(read(&dir, base).starts_with("*2\r\n$6\r\nSELECT\r\n"), preamble == "no");
        let before = digest(&mut client);
        end(server);
        let server = server_in(&dir, &arguments);
        assert_eq!(digest(&mut server.client()), before);
    }
}

#[test]
fn writes_beside_rewrites_are_all_there() {
    let dir = Dir::new();
    let server = server_in(&dir, &[]);
    let mut client = server.client();
    client.check("DEBUG POPULATE 20000", "+OK\r\n");
    // The keys of DEBUG POPULATE are not written to the append-only file; the first rewrite saves them.
    for round in 0..3 {
        client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        for n in 0..2000 {
            let key = (n * 37 + round * 11) % 20000;
            client.check(&format!("APPEND key:{key} x"), ":");
            client.line();
        }
        client
            .check("FLUSHDB", "+OK\r\n")
            .check("DEBUG POPULATE 20000", "+OK\r\n")
            .check("SET mine 1", "+OK\r\n");
        rewritten(&mut client);
    }
    client
        .check("BGREWRITEAOF", "+Background append only file rewriting started\r\n")
        .check("DEL key:5", ":1\r\n");
    rewritten(&mut client);
    let before = digest(&mut client);
    end(server);
    assert_eq!(digest(&mut server_in(&dir, &[]).client()), before);
}

#[test]
fn the_file_is_turned_on_and_off_at_run_time() {
    let dir = Dir::new();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    let mut client = server.client();
    fill(&mut client);
    assert_eq!(client.info("aof_enabled"), "0");
    client.check("CONFIG SET appendonly yes", "+OK\r\n").check("SET behind 1", "+OK\r\n");
    assert_eq!(client.info("aof_enabled"), "1");
    rewritten(&mut client);
    assert_eq!(names(&dir), FILES);
    client.check("CONFIG SET appendonly no", "+OK\r\n").check("SET lost 1", "+OK\r\n");
    assert_eq!(client.info("aof_enabled"), "0");
    assert!(read(&dir, FILES[1]).contains("behind") && !read(&dir, FILES[1]).contains("lost"));
    client.check("CONFIG SET appendonly yes appendfsync always", "+OK\r\n").check("SET kept 1", "+OK\r\n");
    rewritten(&mut client);
    let before = digest(&mut client);
    drop(server);
    assert_eq!(digest(&mut server_in(&dir, &[]).client()), before);
}

#[test]
fn a_rewrite_without_the_file_leaves_a_base_alone() {
    let dir = Dir::new();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    let mut client = server.client();
    fill(&mut client);
    let before = digest(&mut client);
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    assert_eq!(names(&dir), ["appendonly.aof.1.base.rdb", "appendonly.aof.manifest"]);
    assert_eq!(client.info("aof_enabled"), "0");
    drop(server);
    assert_eq!(digest(&mut server_in(&dir, &[]).client()), before);
}

#[test]
fn files_that_no_manifest_names_are_moved_aside() {
    for left in [None, Some("# nothing\n")] {
        let dir = Dir::new();
        let folder = dir.path().join("appendonlydir");
        let server = server_in(&dir, &["--appendfsync", "always"]);
        server.client().check("SET a 1", "+OK\r\n").check("SET b 1", "+OK\r\n");
        drop(server);
        let manifest = std::fs::read(folder.join(FILES[2])).unwrap();
        let (base, increment) =
            (std::fs::read(folder.join(FILES[0])).unwrap(), std::fs::read(folder.join(FILES[1])).unwrap());
        for round in 1..=2 {
            match left {
                None => std::fs::remove_file(folder.join(FILES[2])).unwrap(),
                Some(text) => std::fs::write(folder.join(FILES[2]), text).unwrap(),
            }
            let server = server_in(&dir, &["--appendfsync", "always"]);
            server.client().check("DBSIZE", ":0\r\n").check("SET other 1", "+OK\r\n");
            for file in &FILES[..2] {
                let path = folder.join(file).display().to_string();
                let wanted = format!(
                    "{path} holds data, but is in no AOF manifest: it was not loaded. It was moved to {path}.unnamed-{round}"
                );
                assert!(server.log.wait(&wanted).is_some(), "{wanted}");
            }
            drop(server);
        }
        let aside = |file: &str, n: u32| std::fs::read(folder.join(format!("{file}.unnamed-{n}"))).unwrap();
        assert_eq!((aside(FILES[0], 1), aside(FILES[1], 1)), (base, increment));
        assert!(String::from_utf8_lossy(&aside(FILES[1], 2)).contains("other"));
        // Once an operator has restored the names of the files and the manifest, the data are loaded again.
        for file in &FILES[..2] {
            std::fs::rename(folder.join(format!("{file}.unnamed-1")), folder.join(file)).unwrap();
        }
        std::fs::write(folder.join(FILES[2]), manifest).unwrap();
        server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
    }
}

#[test]
fn a_rewrite_moves_aside_what_an_older_manifest_does_not_name() {
    let dir = Dir::new();
    let folder = dir.path().join("appendonlydir");
    end(server_in(&dir, &[]));
    for name in ["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof"] {
        std::fs::write(folder.join(name), name).unwrap();
    }
    let server = server_in(&dir, &[]);
    let mut client = server.client();
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    for name in ["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof"] {
        let aside = format!("{name}.unnamed-1");
        assert_eq!(read(&dir, &aside), name);
        assert!(server.log.wait(&format!("/{aside}")).is_some());
    }
}

/// The log line of a server that finds the append-only file of `dir` claimed by `holder`.
fn claimed(dir: &Dir, holder: &Server) -> String {
    let (file, pid) = (dir.join("appendonlydir"), holder.child.id());
    format!(
        "the append-only file {file}/appendonly.aof is in use: process {pid} holds {file}.appendonly.aof.lock."
    )
}

#[test]
fn the_file_is_claimed_where_it_is_when_the_working_directory_changes() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let server = server_in(&dir, &["--save", "", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    client.check(&format!("CONFIG SET dir {}", elsewhere.join("")), "+OK\r\n").check("SET b 1", "+OK\r\n");
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    assert!(!elsewhere.path().join("appendonlydir").exists());
    let said = refused(&dir, &["--save", ""]);
    assert!(said.contains(&claimed(&dir, &server)), "{said}");
    // Another server may use the new directory, because the append-only file is not there.
    end(server_in(&elsewhere, &["--save", ""]));
    // Turning the file off releases the claim; turning it on again creates the file in the new directory.
    client.check("CONFIG SET appendonly no", "+OK\r\n");
    end(server_in(&dir, &["--save", ""]));
    client.check("CONFIG SET appendonly yes", "+OK\r\n");
    rewritten(&mut client);
    let said = refused(&elsewhere, &["--save", ""]);
    assert!(said.contains(&claimed(&elsewhere, &server)), "{said}");
    server_in(&dir, &["--save", ""]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn a_rewrite_without_the_file_leaves_that_of_another_server_alone() {
    let dir = Dir::new();
    let first = server_in(&dir, &["--save", "", "--appendfsync", "always"]);
    first.client().check("SET a 1", "+OK\r\n");
    let second = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join(""), "--save", ""]);
    });
    let mut client = second.client();
    let before = names(&dir);
    client.send("BGREWRITEAOF\r\n").line();
    until("the failure", || (client.info("aof_last_bgrewrite_status") == "err").then_some(()));
    let wanted = claimed(&dir, &first);
    assert!(second.log.wait(&wanted).is_some(), "{wanted}");
    assert_eq!(names(&dir), before);
    first.client().check("SET b 1", "+OK\r\n");
    end(first);
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
    // The file is not claimed any more, and a rewrite claims the file only while the rewrite runs.
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    until("the thread to end", || (threads(&second, "aof") == 0).then_some(()));
    until("the claim", || (!dir.path().join("appendonlydir.appendonly.aof.lock").exists()).then_some(()));
}

#[test]
fn superfluous_files_stay_while_their_removal_is_turned_off() {
    let dir = Dir::new();
    let arguments = ["--aof-disable-auto-gc", "yes"];
    let server = server_in(&dir, &arguments);
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    client.check("SET b 1", "+OK\r\n");
    let (base, incr) = ("appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof");
    let all = [FILES[0], FILES[1], base, incr, FILES[2]];
    assert_eq!(names(&dir), all);
    assert!(read(&dir, FILES[2]).contains("appendonly.aof.1.incr.aof seq 1 type h\n"));
    end(server);
    let server = server_in(&dir, &arguments);
    let mut client = server.client();
    client.check("DBSIZE", ":2\r\n");
    assert_eq!(names(&dir), all);
    client.check("CONFIG SET aof-disable-auto-gc no", "+OK\r\n");
    until("the files before to go", || (names(&dir) == [base, incr, FILES[2]]).then_some(()));
    until("the manifest", || (!read(&dir, FILES[2]).contains("type h")).then_some(()));
}

#[test]
fn growth_begins_a_rewrite() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--auto-aof-rewrite-min-size", "20kb"]);
    let mut client = server.client();
    let value = "v".repeat(1000);
    for _ in 0..30 {
        client.check(&format!("SET k {value}"), "+OK\r\n");
    }
    assert!(server.log.wait("Starting automatic rewriting of AOF on ").is_some());
    assert!(server.log.wait("Background AOF rewrite finished successfully").is_some());
    until("a small file", || (client.info_number("aof_current_size") < 5000).then_some(()));
}

#[test]
fn a_disk_without_room_for_a_rewrite_is_told_before_it_is_full() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    let arguments = ["--auto-aof-rewrite-min-size", "1kb", "--auto-aof-rewrite-percentage", "1000000"];
    // The disk is reported as full, although no write fails.
    let server = server_with_fault(&dir, &arguments, Some("no-space:1000000:1:0"));
    let mut client = server.client();
    client.check(&format!("SET k {}", "v".repeat(2000)), "+OK\r\n");
    let said = "The AOF has grown and the disk has no room for a rewrite: 0 bytes are free";
    assert!(server.log.wait(said).is_some(), "{}", server.log.all());
    assert_eq!(client.info("aof_rewrites"), "0");
}

#[test]
fn a_rewrite_ends_the_fault_of_a_lost_file() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let server = server_with_fault(&dir, &[], Some(&format!("sync-error:{}:1:0", START_STEPS + 2)));
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n");
    until("the fault", || (client.info("aof_last_write_status") == "err").then_some(()));
    client.check("SET b 1", "-MISCONF Errors writing to the AOF file: I/O error\r\n");
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    until("the end of the fault", || (client.info("aof_last_write_status") == "ok").then_some(()));
    client.check("SET b 1", "+OK\r\n");
    end(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn a_rewrite_that_fails_leaves_the_files_before_in_force() {
    if !has_switches() {
        return;
    }
    let mut failures = 0;
    for fault in ["no-space", "write-error", "sync-error", "torn-rename"] {
        for step in START_STEPS + 1..=START_STEPS + 11 {
            let dir = Dir::new();
            end(server_in(&dir, &[]));
            // Replies do not wait for the disk, so that the counted file operations are those of the rewrite.
            let server =
                server_with_fault(&dir, &["--appendfsync", "no"], Some(&format!("{fault}:{step}:1:0")));
            let mut client = server.client();
            let begin = |client: &mut Client| {
                client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
                until("the rewrite", || (client.info("aof_rewrite_in_progress") == "0").then_some(()));
                client.info("aof_last_bgrewrite_status") == "ok"
            };
            failures += u32::from(!begin(&mut client));
            // The next rewrite succeeds, because the disk works again.
            assert!(begin(&mut client), "{fault} at {step}: {}", client.info("aof_last_bgrewrite_status"));
            client.check("SET a 1", "+OK\r\n");
            assert!(begin(&mut client));
            client.check("SET b 1", "+OK\r\n");
            end(server);
            server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
        }
    }
    assert!(failures > 8, "{failures} rewrites met a fault");
}

#[test]
fn a_file_that_was_turned_on_has_no_manifest_before_its_first_base() {
    if !has_switches() {
        return;
    }
    let mut failures = 0;
    for step in 1..=8 {
        let dir = Dir::new();
        let plan = format!("no-space:{step}:1:0");
        let server = server_with_fault(&dir, &["--appendonly", "no", "--appendfsync", "no"], Some(&plan));
        let mut client = server.client();
        fill(&mut client);
        until("the file", || (client.send("CONFIG SET appendonly yes\r\n").line() == "+OK").then_some(()));
        client.check("SET behind 1", "+OK\r\n");
        // The next attempt to write a base starts automatically.
        until("a base", || dir.path().join("appendonlydir").join(FILES[2]).exists().then_some(()));
        rewritten(&mut client);
        assert_eq!(names(&dir), FILES, "at step {step}");
        let (before, log) = (digest(&mut client), server.log.clone());
        end(server);
        failures += u32::from(log.all().contains("No space left on device"));
        assert_eq!(digest(&mut server_in(&dir, &[]).client()), before);
    }
    assert!(failures > 0, "none has met the fault");
}

#[test]
fn waitaof_waits_for_the_disk() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--appendfsync", "no"]);
    let mut client = server.client();
    client.check("WAITAOF 0 0 0", "*2\r\n:1\r\n:0\r\n");
    client.check("SET a 1", "+OK\r\n").check("WAITAOF 1 0 10", "*2\r\n:0\r\n:0\r\n");
    client.send("WAITAOF 1 0 0\r\n");
    server.client().check("CONFIG SET appendfsync everysec", "+OK\r\n");
    client.expect("*2\r\n:1\r\n:0\r\n");
    server.client().check("CONFIG SET appendonly no", "+OK\r\n");
    let refused = "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n";
    client.check("WAITAOF 1 0 0", refused);
}

#[test]
fn a_write_waits_before_the_file_as_it_is_told_and_its_reply_with_it() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--appendfsync", "always"]);
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n").check("DEBUG AOF-FLUSH-SLEEP 200000", "+OK\r\n");
    for n in 0..3 {
        let before = read(&dir, FILES[1]).len();
        let began = std::time::Instant::now();
        client.check(&format!("SET b {n}"), "+OK\r\n");
        assert!(began.elapsed().as_millis() >= 200, "{:?}", began.elapsed());
        assert!(read(&dir, FILES[1]).len() > before);
    }
    client.check("GET untouched", "$-1\r\n").check("DEBUG AOF-FLUSH-SLEEP 0", "+OK\r\n");
}

#[test]
fn a_client_that_ends_its_side_is_told_what_was_executed_and_not_durable() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--appendfsync", "always"]);
    let mut control = server.client();
    control.check("DEBUG AOF-FLUSH-SLEEP 200000", "+OK\r\n");
    // The client ends its side of the connection right after the requests, or while a reply waits for the
    // disk.
    for is_executed in [false, true] {
        let mut client = server.client();
        client.send("SET a 1\r\nBLPOP none 0\r\n");
        if is_executed {
            until("it is executed", || (control.info("blocked_clients") == "1").then_some(()));
        }
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut told = String::new();
        client.stream.read_to_string(&mut told).unwrap();
        assert_eq!(told, "+OK\r\n", "executed before the end: {is_executed}");
        until("it has gone", || (control.info("connected_clients") == "1").then_some(()));
        assert_eq!(control.info("blocked_clients"), "0");
    }
    // The client ends its side within a large argument, which has a separate buffer.
    let mut client = server.client();
    client.send(format!("SET a 1\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1000000\r\n{}", "v".repeat(100_000)));
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut told = String::new();
    client.stream.read_to_string(&mut told).unwrap();
    assert_eq!(told, "+OK\r\n");
    control.check("EXISTS b", ":0\r\n");
}

/// A running server of the reference; killed on drop.
struct Reference(std::process::Child);

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the reference's server on the folder `dir`; returns `None` if the environment names no reference.
fn reference(dir: &Dir) -> Option<(Reference, u16)> {
    let Ok(binary) = std::env::var("SLUICE_PEER_SERVER") else {
        println!("skipped: SLUICE_PEER_SERVER names no reference");
        return None;
    };
    let port = free_port();
    let child = Command::new(binary)
        .args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", "", "--appendonly", "yes"])
        .args(["--enable-debug-command", "yes", "--logfile", "reference.log"])
        .spawn()
        .unwrap();
    let child = Reference(child);
    until("the reference", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    // The test waits for the end of the load, because until then DEBUG DIGEST of the reference covers only
    // the data loaded so far.
    let mut client = Client::to("127.0.0.1", port);
    until("the data", || (client.info("loading") == "0").then_some(()));
    Some((child, port))
}

#[test]
fn each_server_loads_the_folder_of_the_other() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--aof-timestamp-enabled", "yes"]);
    let mut client = server.client();
    fill(&mut client);
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    // The test attaches a replica, because only then does the file contain the replication offset.
    let mut replica = server.client();
    replica.send("SYNC\r\n");
    until("the replica", || {
        let text = String::from_utf8(client.bulk("INFO replication")).unwrap();
        text.contains("state=online").then_some(())
    });
    client.check("SET behind 1", "+OK\r\n");
    until("the file", || read(&dir, "appendonly.aof.2.incr.aof").contains("#REPL-OFFSET:").then_some(()));
    let ours = digest(&mut client);
    end(server);
    let Some((mut child, port)) = reference(&dir) else { return };
    let mut client = Client::to("127.0.0.1", port);
    assert_eq!(digest(&mut client), ours);
    client.check("FLUSHALL", "+OK\r\n");
    fill(&mut client);
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    client.check("SET theirs 1", "+OK\r\n");
    let theirs = digest(&mut client);
    client.send("SHUTDOWN\r\n").expect_end();
    assert!(child.0.wait().unwrap().success());
    assert_eq!(digest(&mut server_in(&dir, &[]).client()), theirs);
}

/// Starts a server whose syncs take `fsync_us` microseconds longer. The server holds back commands that write
/// while 100,000 bytes wait for the append-only file.
fn server_with_slow_disk(dir: &Dir, fsync_us: u64, arguments: &[&str]) -> Server {
    Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join(""), "--appendonly", "yes"]).args(arguments);
        command.env("SLUICE_TEST_FSYNC_US", fsync_us.to_string()).env("SLUICE_TEST_AOF_BACKLOG", "100000");
    })
}

#[test]
fn a_disk_that_stands_still_holds_back_those_who_write_and_nobody_else() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    let server = server_with_slow_disk(&dir, 2_000_000, &["--appendfsync", "always"]);
    let (mut client, mut writer) = (server.client(), server.client());
    writer.send("SET first 1\r\n");
    until("a sync", || (client.info("aof_pending_bio_fsync") == "1").then_some(()));
    let value = "v".repeat(10_000);
    for n in 0..30 {
        writer.send(format!("SET key:{n} {value}\r\n"));
    }
    until("the writer to wait", || (client.info("blocked_clients") == "1").then_some(()));
    let waiting = client.info_number("aof_buffer_length");
    // Even above the limit, the iteration in progress may read another 16 KiB of the writer's requests.
    assert!((100_000..100_000 + 40_000).contains(&waiting), "{waiting}");
    // Reads of keys without pending writes are answered at once, also with `always`.
    client.check("GET untouched", "$-1\r\n");
    assert_eq!(client.info("blocked_clients"), "1", "meanwhile the disk stood still");
    writer.expect("+OK\r\n".repeat(31));
    assert!(server.log.wait("The disk is too slow for the AOF file").is_some());
    assert!(server.log.wait("The disk has caught up with the AOF file").is_some());
    assert_eq!(client.info("aof_last_write_status"), "ok");
    client.check("DBSIZE", ":31\r\n");
    end(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":31\r\n");
}

#[test]
fn a_sync_that_takes_long_keeps_nothing_in_the_memory_of_the_process() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    let server = server_with_slow_disk(&dir, 3_000_000, &["--appendfsync", "everysec"]);
    let mut client = server.client();
    client.check("SET first 1", "+OK\r\n");
    until("a sync", || (client.info("aof_pending_bio_fsync") == "1").then_some(()));
    client.check("SET second 1", "+OK\r\n");
    until("the file", || read(&dir, FILES[1]).contains("second").then_some(()));
    client.check("WAITAOF 1 0 1", "*2\r\n:0\r\n:0\r\n");
    assert_eq!(client.info("aof_pending_bio_fsync"), "1", "the sync is under way still");
    drop(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

/// Begins a rewrite after a write that is not on disk yet.
fn begin_rewrite_behind_a_write(client: &mut Client) {
    client.check("SET first 1", "+OK\r\n");
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
}

#[test]
fn commands_that_write_wait_while_a_rewrite_begins_and_nothing_is_lost_with_the_process() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    let server = server_with_slow_disk(&dir, 2_000_000, &["--appendfsync", "everysec"]);
    let (mut client, mut writer) = (server.client(), server.client());
    begin_rewrite_behind_a_write(&mut client);
    writer.send("SET second 1\r\n");
    until("the writer to wait", || (client.info("blocked_clients") == "1").then_some(()));
    // Readers do not wait.
    client.check("GET first", "$1\r\n1\r\n").check("GET second", "$-1\r\n");
    writer.expect("+OK\r\n");
    assert!(
        read(&dir, FILES[2]).contains("appendonly.aof.2.incr.aof"),
        "the increment is there before the reply"
    );
    until("the file", || read(&dir, "appendonly.aof.2.incr.aof").contains("second").then_some(()));
    drop(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn an_rdb_file_beside_which_an_append_only_file_begins_outlives_the_saves_of_that_server() {
    let dir = Dir::new();
    let start = |arguments: &[&str]| {
        Server::start_in(Dir::new(), |command| {
            command.args(["--dir", &dir.join("")]).args(arguments);
        })
    };
    let server = start(&[]);
    server.client().check("SET a 1", "+OK\r\n").check("SAVE", "+OK\r\n");
    end(server);
    // As in the reference, the server starts without data.
    let server = start(&["--appendonly", "yes"]);
    assert!(server.log.wait("dump.rdb.not-loaded-1 is a second name of the file").is_some());
    server.client().check("DBSIZE", ":0\r\n").check("SAVE", "+OK\r\n");
    end(server);
    // The append-only file exists from now on, so the RDB file, whose content is older, gets no further name.
    end(start(&["--appendonly", "yes"]));
    assert!(!std::path::Path::new(&dir.join("dump.rdb.not-loaded-2")).exists());
    let server = start(&["--dbfilename", "dump.rdb.not-loaded-1"]);
    server.client().check("GET a", "$1\r\n1\r\n");
    assert!(
        server
            .log
            .wait("appendonlydir holds an append-only file, which was not loaded because appendonly is no")
            .is_some()
    );
    end(server);
}

#[test]
fn a_base_that_is_cut_off_is_refused_with_its_byte() {
    let dir = Dir::new();
    let server = server_in(&dir, &[]);
    let mut client = server.client();
    client.check("DEBUG POPULATE 100 key 10", "+OK\r\n");
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    rewritten(&mut client);
    end(server);
    let base = dir.join("appendonlydir/appendonly.aof.2.base.rdb");
    let bytes = std::fs::read(&base).unwrap();
    std::fs::write(&base, &bytes[..1000]).unwrap();
    let log = refused(&dir, &[]);
    let said =
        "AOF appendonly.aof.2.base.rdb: the file ends at byte 1000, within its RDB part: the item at byte ";
    assert!(log.contains(said), "{log}");
    let at: u64 = log.split(said).nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((950..1000).contains(&at), "{at}");
}

#[test]
fn the_end_of_a_rewrite_keeps_nothing_in_the_memory_of_the_process() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    let server = server_with_slow_disk(&dir, 3_000_000, &["--appendfsync", "everysec"]);
    let mut client = server.client();
    begin_rewrite_behind_a_write(&mut client);
    until("the base", || (threads(&server, "aof-base") == 1).then_some(()));
    client.check("SET second 1", "+OK\r\n");
    until("the file", || read(&dir, "appendonly.aof.2.incr.aof").contains("second").then_some(()));
    assert_eq!(client.info("aof_rewrite_in_progress"), "1", "it is not in force yet");
    drop(server);
    let server = server_in(&dir, &[]);
    server.client().check("DBSIZE", ":2\r\n");
    end(server);
}

#[test]
fn always_while_a_sync_is_lost_promises_nothing_before_a_rewrite() {
    if !has_switches() {
        return;
    }
    let dir = Dir::new();
    end(server_in(&dir, &[]));
    let plan = format!("sync-error:{}:1:0", START_STEPS + 2);
    let server = server_with_fault(&dir, &[], Some(&plan));
    // All replies to a connection that has written wait for the disk, so another client is used below.
    server.client().check("SET a 1", "+OK\r\n");
    let mut client = server.client();
    until("the fault", || (client.info("aof_last_write_status") == "err").then_some(()));
    client.check("CONFIG SET appendfsync always", "+OK\r\n");
    // The reply shows data that are not on disk, so it is sent only after a rewrite.
    let mut reader = server.client();
    reader.send("GET a\r\n");
    client.check("CONFIG SET rdb-key-save-delay 2000000", "+OK\r\n");
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    until("the increment", || read(&dir, FILES[2]).contains("appendonly.aof.2.incr.aof").then_some(()));
    assert_eq!(client.info("aof_last_write_status"), "err");
    client.check("SET b 1", "-MISCONF Errors writing to the AOF file: I/O error\r\n");
    reader.stream.set_nonblocking(true).unwrap();
    let early = std::io::Read::read(&mut reader.stream, &mut [0; 16]);
    assert_eq!(client.info("aof_rewrite_in_progress"), "1", "the look came before the end of the rewrite");
    assert_eq!(early.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    reader.stream.set_nonblocking(false).unwrap();
    reader.expect("$1\r\n1\r\n");
    assert!(server.log.wait("Background AOF rewrite finished successfully").is_some());
    until("the end of the fault", || (client.info("aof_last_write_status") == "ok").then_some(()));
    client.check("SET b 1", "+OK\r\n");
    end(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":2\r\n");
}

#[test]
fn the_end_of_a_server_whose_log_is_lost_says_so_and_sends_no_reply_that_waits() {
    if !has_switches() {
        return;
    }
    for policy in ["everysec", "always"] {
        let dir = Dir::new();
        end(server_in(&dir, &[]));
        let plan = format!("sync-error:{}:1:0", START_STEPS + 2);
        let mut server = server_with_fault(&dir, &[], Some(&plan));
        server.client().check("SET a 1", "+OK\r\n");
        let mut client = server.client();
        until("the fault", || (client.info("aof_last_write_status") == "err").then_some(()));
        client.check(&format!("CONFIG SET appendfsync {policy}"), "+OK\r\n");
        let mut reader = server.client();
        reader.send("GET a\r\n");
        if policy == "everysec" {
            reader.expect("$1\r\n1\r\n");
        }
        until("the reader's request", || (client.info("keyspace_hits") == "1").then_some(()));
        client.send("SHUTDOWN\r\n").expect_end();
        reader.expect_end();
        assert_eq!(server.wait().code(), Some(1));
        assert!(server.log.all().contains("The end of the AOF file may not be on disk"));
    }
}

/// Number of threads with this name in the server's process.
fn threads(server: &Server, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|comm| comm.trim_end() == name).count()
}

#[test]
fn one_thread_at_a_time_has_the_folder() {
    let dir = Dir::new();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    let mut client = server.client();
    assert_eq!(threads(&server, "aof"), 0);
    for n in 0..10 {
        client.check("CONFIG SET appendonly yes", "+OK\r\n").check(&format!("SET key:{n} 1"), "+OK\r\n");
        // A thread sets its name once it runs.
        until("its thread", || (threads(&server, "aof") == 1).then_some(()));
        if n % 2 == 0 {
            rewritten(&mut client);
            client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        }
        client.check("CONFIG SET appendonly no", "+OK\r\n");
        // The kernel still lists a thread for some microseconds after other threads have seen its end.
        until("its thread to end", || (threads(&server, "aof") == 0).then_some(()));
        // While the file is off, the thread exists only as long as a rewrite lasts.
        client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        assert!(threads(&server, "aof") <= 1);
        rewritten(&mut client);
        until("its thread to end", || (threads(&server, "aof") == 0).then_some(()));
    }
    let before = digest(&mut client);
    drop(server);
    assert_eq!(digest(&mut server_in(&dir, &[]).client()), before);
}

#[test]
fn shutdown_during_a_rewrite_leaves_no_temporary_file() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--rdb-key-save-delay", "1000000"]);
    let mut client = server.client();
    for n in 0..100 {
        client.check(&format!("SET key:{n} 1"), "+OK\r\n");
    }
    client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
    let has_temporary = || names(&dir).iter().any(|name| name.starts_with("temp-rewriteaof-bg-"));
    until("its file", || has_temporary().then_some(()));
    let log = server.log.clone();
    end(server);
    assert!(!has_temporary(), "{:?}", names(&dir));
    assert!(
        log.all().contains("Background AOF rewrite was stopped by the shutdown; the old AOF files are kept")
    );
    server_in(&dir, &[]).client().check("DBSIZE", ":100\r\n");
}

#[test]
fn shutdown_and_waitaof_before_the_first_base() {
    let dir = Dir::new();
    let mut server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join(""), "--rdb-key-save-delay", "100000"]);
    });
    let mut client = server.client();
    client.check("DEBUG POPULATE 1000", "+OK\r\n").check("CONFIG SET appendonly yes", "+OK\r\n");
    client.check("SET a 1", "+OK\r\n").check("WAITAOF 1 0 1500", "*2\r\n:0\r\n:0\r\n");
    client.check("SHUTDOWN", "-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    let mut waiter = server.client();
    waiter.check("SET b 1", "+OK\r\n").send("WAITAOF 1 0 0\r\n");
    until("the waiter", || (client.info("blocked_clients") == "1").then_some(()));
    client.check("CONFIG SET appendonly no", "+OK\r\n");
    waiter.expect("-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n");
    client.check("CONFIG SET appendonly yes", "+OK\r\n");
    client.send("SHUTDOWN NOSAVE\r\n").expect_end();
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.log.all().contains("Writing initial AOF. Exit anyway."));
}

/// Simulates a crash of the machine at the file operation `step`, while the append-only file is turned off
/// and on. Returns `None` if the run ends before that operation.
fn crash_while_switching(step: u64, seed: u64) -> Option<()> {
    let dir = Dir::new();
    let first = server_in(&dir, &["--appendfsync", "always"]);
    for n in 1..=3 {
        first.client().check("INCR n", format!(":{n}\r\n"));
    }
    end(first);
    let plan = format!("crash:{}:1:{seed}", START_STEPS + step);
    let mut server = server_with_fault(&dir, &["--appendfsync", "always"], Some(&plan));
    let mut client = server.client();
    let (mut given, mut kept) = (3, 3);
    let mut goes_on = true;
    for line in [
        "INCR n",
        "CONFIG SET appendonly no",
        "INCR n",
        "CONFIG SET appendonly yes",
        "INCR n",
        "wait",
        "INCR n",
        "INCR n",
    ] {
        let is_on = line != "INCR n" || given != 4 && given != 5;
        goes_on = goes_on && switch(&mut client, line, &mut given, &mut kept, is_on);
    }
    if goes_on {
        assert!(step > 15);
        return None;
    }
    assert_eq!(server.wait().code(), Some(86), "step {step}: the machine has crashed");
    let server = server_in(&dir, &[]);
    let found = String::from_utf8(server.client().bulk("GET n")).unwrap().parse::<i64>().unwrap();
    assert!((kept..=given).contains(&found), "step {step}, seed {seed}: {kept} <= {found} <= {given}");
    Some(())
}

/// Sends `line`, or waits for the end of a rewrite if `line` is `wait`; returns whether the server has
/// answered. Counts the increments in `given`. Writes while the file is off, or on without a base, may be
/// lost until the base is in force, so an answer raises `kept` only if `is_kept` is set.
fn switch(client: &mut Client, line: &str, given: &mut i64, kept: &mut i64, is_kept: bool) -> bool {
    use std::io::{Read, Write};
    if line == "wait" {
        // Waits until the rewrite has finished, or the machine has crashed.
        return until("the rewrite", || {
            let mut text = [0; 32768];
            client.stream.write_all(b"INFO persistence\r\n").ok();
            let len = client.stream.read(&mut text).unwrap_or(0);
            let text = String::from_utf8_lossy(&text[..len]);
            if len == 0 {
                return Some(false);
            }
            text.contains("aof_rewrite_in_progress:0").then_some(true)
        });
    }
    *given += i64::from(line == "INCR n");
    let mut reply = [0; 64];
    let has_answered = client.stream.write_all(format!("{line}\r\n").as_bytes()).is_ok()
        && client.stream.read(&mut reply).unwrap_or(0) > 0;
    if has_answered && is_kept && line == "INCR n" {
        *kept = *given;
    }
    has_answered
}

#[test]
fn a_crash_of_the_machine_while_the_file_is_turned_off_and_on_keeps_what_was_promised() {
    if !has_switches() {
        return;
    }
    let mut crashes = 0;
    for seed in 0..2 {
        crashes += (1..).map_while(|step| crash_while_switching(step, seed)).count();
    }
    assert!(crashes > 30, "{crashes}");
}

/// For each policy, the test begins new rounds for this long. In each round the process is started, loaded
/// and killed, which takes more than three seconds.
const KILLING: Duration = Duration::from_secs(8);
/// Number of concurrent writing clients.
const WRITERS: u64 = 4;

/// The times at which the elements that a client has appended to its list were acknowledged.
#[derive(Default)]
struct Appended {
    acknowledged: Vec<Instant>,
}

/// Appends the numbers after `from` to a list until the connection ends. Every tenth number is appended in a
/// transaction that also sets a key to this number.
fn append_until_the_end(port: u16, list: u64, from: u64) -> Appended {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = Client::to("127.0.0.1", port).stream;
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    let mut appended = Appended::default();
    for n in (from + 1).. {
        let push = format!("RPUSH list:{list} {n}\r\n");
        let request = match n % 10 {
            0 => format!("MULTI\r\n{push}SET last:{list} {n}\r\nEXEC\r\n"),
            _ => push,
        };
        if stream.write_all(request.as_bytes()).is_err() {
            break;
        }
        // The last of these lines is the transaction's second reply, or the only reply.
        let lines = if n % 10 == 0 { 6 } else { 1 };
        let mut line = String::new();
        if (0..lines).any(|_| replies.read_line(&mut line).unwrap_or(0) == 0) {
            break;
        }
        appended.acknowledged.push(Instant::now());
    }
    appended
}

/// Checks that the elements of a list are 1, 2, 3 …, and returns their number.
fn elements(client: &mut Client, list: u64) -> u64 {
    client.send(format!("LRANGE list:{list} 0 -1\r\n"));
    let count: u64 = client.line().strip_prefix('*').unwrap().parse().unwrap();
    for n in 1..=count {
        client.line();
        assert_eq!(client.line(), n.to_string(), "list {list}: a gap, or an element twice");
    }
    count
}

/// Starts the process repeatedly, kills it while clients write and the file is rewritten, and checks the
/// writes that `policy` promises. Returns the number of rounds.
fn kill_in_a_loop(policy: &str) -> u32 {
    let dir = Dir::new();
    let begun = Instant::now();
    let mut there = [0; WRITERS as usize];
    let mut rounds = 0;
    let mut promised_by_all = 0;
    while begun.elapsed() < KILLING {
        rounds += 1;
        let mut server = server_in(&dir, &["--appendfsync", policy, "--auto-aof-rewrite-min-size", "50kb"]);
        let port = server.port;
        let from = there;
        let writers: Vec<_> = (0..WRITERS)
            .map(|list| std::thread::spawn(move || append_until_the_end(port, list, from[list as usize])))
            .collect();
        // The load lasts longer than a second, so that some writes are older than a second at the end. Its
        // duration differs from round to round.
        let load = Duration::from_millis(3000 + u64::from(rounds) * 37 % 400);
        let since = Instant::now();
        let mut client = server.client();
        until("the load to be long enough", || {
            if rounds % 2 == 0 && client.info("aof_rewrite_in_progress") == "0" {
                client.send("BGREWRITEAOF\r\n").line();
            }
            (since.elapsed() >= load).then_some(())
        });
        let killed = Instant::now();
        server.child.kill().unwrap();
        server.wait();
        let server = server_in(&dir, &[]);
        let mut client = server.client();
        for (list, writer) in (0..).zip(writers) {
            let Appended { acknowledged } = writer.join().unwrap();
            let promised = match policy {
                "always" => acknowledged.len(),
                _ => acknowledged.partition_point(|at| *at + Duration::from_secs(1) < killed),
            };
            promised_by_all += promised;
            let found = elements(&mut client, list);
            let promised = from[list as usize] + promised as u64;
            assert!(found >= promised, "{policy}, list {list}: {promised} were promised, {found} are there");
            let last = found / 10 * 10;
            let wanted = if last == 0 {
                "$-1\r\n".to_owned()
            } else {
                format!("${}\r\n{last}\r\n", last.to_string().len())
            };
            client.check(&format!("GET last:{list}"), wanted);
            there[list as usize] = found;
        }
        end(server);
    }
    assert!(promised_by_all > 0, "the load was none");
    rounds
}

#[test]
fn a_killed_process_keeps_what_always_has_acknowledged() {
    assert!(kill_in_a_loop("always") > 1);
}

#[test]
fn a_killed_process_keeps_all_but_the_last_second_under_everysec() {
    assert!(kill_in_a_loop("everysec") > 1);
}

/// Reads the set's size repeatedly until the pop has left `left` members, and increments a number after that.
/// Returns the number of increments that were acknowledged before the server died.
fn count_behind_a_pop(port: u16, left: u64) -> u64 {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut acknowledged = 0;
    let mut ask = |request: &str| {
        let mut line = [0; 64];
        stream.write_all(request.as_bytes()).ok()?;
        let len = stream.read(&mut line).ok().filter(|len| *len > 0)?;
        Some(String::from_utf8_lossy(&line[..len]).into_owned())
    };
    loop {
        match ask("SCARD s\r\n") {
            Some(size) if size == format!(":{left}\r\n") => {}
            Some(_) => continue,
            None => return acknowledged,
        }
        match ask("INCR behind\r\n") {
            Some(_) => acknowledged += 1,
            None => return acknowledged,
        }
    }
}

/// The commands of a large pop are logged over many iterations, and writes after the pop must follow these
/// commands in the file.
#[test]
fn a_process_that_is_killed_amid_a_large_pop_has_all_of_it_ahead_of_what_follows_or_neither() {
    let (members, popped) = (120_000_u64, 100_000_u64);
    for round in 0..8_u64 {
        let policy = if round % 2 == 0 { "always" } else { "everysec" };
        let dir = Dir::new();
        let mut server = server_in(&dir, &["--appendfsync", policy]);
        let mut client = server.client();
        let names: Vec<String> = (0..members).map(|number| format!("member:{number:030}")).collect();
        for some in names.chunks(1000) {
            client.check(&format!("SADD s {}", some.join(" ")), ":1000\r\n");
        }
        client.check("WAITAOF 1 0 0", "*2\r\n:1\r\n:0\r\n");
        let port = server.port;
        let counting = std::thread::spawn(move || count_behind_a_pop(port, members - popped));
        client.send(format!("SPOP s {popped}\r\n"));
        let mut other = server.client();
        until("the pop", || {
            (other.send("SCARD s\r\n").line() == format!(":{}", members - popped)).then_some(())
        });
        if round < 6 {
            std::thread::sleep(Duration::from_millis(10 * round));
        } else {
            other.send("SET other 1\r\n").expect("+OK\r\n");
            other.check("WAITAOF 1 0 0", "*2\r\n:1\r\n:0\r\n");
        }
        server.child.kill().unwrap();
        server.wait();
        let acknowledged = counting.join().unwrap();
        let server = server_in(&dir, &[]);
        let mut client = server.client();
        let left = client.send("SCARD s\r\n").line();
        let is_popped = left == format!(":{}", members - popped);
        assert!(is_popped || left == format!(":{members}"), "{policy}, round {round}: {left}");
        let behind: u64 = client.send("INCR behind\r\n").line()[1..].parse::<u64>().unwrap() - 1;
        assert!(is_popped || behind == 0, "{policy}, round {round}: {behind} are there without the pop");
        assert!(policy != "always" || behind >= acknowledged, "round {round}: {behind} of {acknowledged}");
        assert!(is_popped || round < 6, "{policy}, round {round}: WAITAOF has confirmed the pop");
        end(server);
    }
}

#[test]
fn a_file_whose_increment_cannot_be_made_is_not_turned_on() {
    let dir = Dir::new();
    let taken = dir.join("appendonlydir/temp-appendonly.aof.incr/x");
    std::fs::create_dir_all(&taken).unwrap();
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join(""), "--save", ""]);
    });
    let mut client = server.client();
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - Unable to turn on AOF. Check server \
                   logs.\r\n";
    client.check("CONFIG SET appendonly yes", refused);
    assert!(server.log.wait("Can't open the append-only file temp-appendonly.aof.incr: ").is_some());
    client.check("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    client.check("SET a 1", "+OK\r\n");
    std::fs::remove_dir_all(dir.join("appendonlydir/temp-appendonly.aof.incr")).unwrap();
    client.check("CONFIG SET appendonly yes", "+OK\r\n");
    rewritten(&mut client);
    end(server);
}
