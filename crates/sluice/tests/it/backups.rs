//! Backups as in `docs/operating.md`: the document's code blocks are run, and the files are restored by our
//! server and by the reference. A folder serves as the object store, which curl writes and reads through URLs
//! with `file:`.

use crate::common::guide::{Bash, block, reference, reference_tool};
use crate::common::{BINARY, Client, Dir, Server, free_port, until};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// The document with the commands.
const GUIDE: &str = include_str!("../../../../docs/operating.md");

/// Number of keys of the server that is backed up.
const KEYS: u32 = 2000;

fn filled(more: &[&str]) -> Server {
    let server = Server::start(more);
    let mut client = server.client();
    if more.contains(&"--requirepass") {
        client.check("AUTH secret", "+OK\r\n");
    }
    for number in 0..KEYS {
        client.send(format!("SET key:{number} value:{number}\r\n"));
    }
    client.expect("+OK\r\n".repeat(KEYS as usize));
    client.check("RPUSH list a b c", ":3\r\n").check("HSET hash field value", ":1\r\n");
    server
}

/// Whether this machine has the tools that the code blocks use; prints a note if not.
fn has_tools() -> bool {
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let has_cli = reference_tool("valkey-cli").is_some();
    if !has_curl || !has_cli {
        println!("skipped: needs curl, and SLUICE_PEER_SERVER with valkey-cli beside it");
    }
    has_curl && has_cli
}

/// The server programs that restore the backups: ours, and the reference if there is one.
fn restorers() -> Vec<String> {
    let reference = reference().map(|path| path.display().to_string());
    [BINARY.to_owned()].into_iter().chain(reference).collect()
}

/// Runs a code block that restores a backup, once with each server, and checks the keys.
fn restored(bash: &mut Bash, name: &str, store: &str, copy: &str) {
    for server in restorers() {
        let (folder, port) = (Dir::new(), free_port());
        let folder = folder.join("").trim_end_matches('/').to_owned();
        let names = [
            ("PORT", port.to_string()),
            ("STORE", store.to_owned()),
            ("COPY", copy.to_owned()),
            ("DIR", folder),
            ("SERVER", server.clone()),
        ];
        bash.run(name, &block(GUIDE, name), &names.each_ref().map(|(name, value)| (*name, value.as_str())));
        let mut client = Client::to("127.0.0.1", port);
        println!("{name} by {server}");
        client.check("DBSIZE", format!(":{}\r\n", KEYS + 2)).check("GET key:1999", "$10\r\nvalue:1999\r\n");
        client.check("LRANGE list 1 1", "*1\r\n$1\r\nb\r\n").check("HGET hash field", "$5\r\nvalue\r\n");
        until("the append-only file", || (client.info("aof_rewrite_in_progress") == "0").then_some(()));
        assert_eq!(client.info("aof_enabled"), "1");
    }
}

/// The names of the files of a folder.
fn files_of(folder: &Dir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// A folder that serves as an object store, and its address.
fn store() -> (Dir, String) {
    let folder = Dir::new();
    let address = format!("file://{}", folder.join("").trim_end_matches('/'));
    (folder, address)
}

#[test]
fn a_snapshot_from_a_running_server_is_restored() {
    if !has_tools() {
        return;
    }
    let server = filled(&[]);
    let (_folder, address) = store();
    let mut bash = Bash::new();
    let port = server.port.to_string();
    bash.run("backup", &block(GUIDE, "backup"), &[("PORT", &port), ("STORE", &address)]);
    restored(&mut bash, "restore", &address, "");
}

#[test]
fn a_copy_of_an_append_only_folder_is_restored_that_was_taken_under_writes() {
    if !has_tools() {
        return;
    }
    let server = filled(&["--appendonly", "yes", "--auto-aof-rewrite-percentage", "70"]);
    let (folder, address) = store();
    let mut bash = Bash::new();
    let (port, dir) = (server.port.to_string(), server.dir.join(""));
    let writer = Writer::start(&server);
    let names = [("PORT", port.as_str()), ("STORE", &address), ("DIR", dir.trim_end_matches('/'))];
    bash.run("backup-aof", &block(GUIDE, "backup-aof"), &names);
    assert!(writer.end() > 0);
    assert_eq!(server.client().config("auto-aof-rewrite-percentage"), "70");
    let copies = files_of(&folder);
    assert_eq!(copies.len(), 1, "{copies:?}");
    restored(&mut bash, "restore-aof", &address, &copies[0]);
}

/// If any step fails, nothing is uploaded, no part of the copy is left, and rewrites of the
/// server work as before.
#[test]
fn a_copy_of_an_append_only_folder_that_fails_leaves_all_as_it_was() {
    if !has_tools() {
        return;
    }
    let server = filled(&["--appendonly", "yes", "--auto-aof-rewrite-percentage", "70"]);
    let (folder, address) = store();
    let (port, dir) = (server.port.to_string(), server.dir.join(""));
    let dir = dir.trim_end_matches('/');
    let names = [("PORT", port.as_str()), ("STORE", &address), ("DIR", dir)];
    for program in ["cp", "cmp", "tar"] {
        let mut bash = Bash::new();
        bash.program(program, "#!/bin/sh\nexit 1\n");
        let block = block(GUIDE, "backup-aof").replace('\'', "'\\''");
        bash.run(program, &format!("sh -c '{block}' && exit 1 || true"), &names);
        assert_eq!(server.client().config("auto-aof-rewrite-percentage"), "70", "{program}");
        assert_eq!(files_of(&folder), [""; 0], "{program}");
        let left =
            std::fs::read_dir(dir).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        assert!(!left.into_iter().any(|name| name.starts_with("backup-")), "{program}");
    }
}

/// A client that changes one key until it is stopped.
struct Writer {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Writer {
    fn start(server: &Server) -> Writer {
        let mut client = server.client();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut written = 0;
            while !over.load(Relaxed) {
                client.check("SET key:0 again", "+OK\r\n");
                written += 1;
            }
            written
        });
        Writer { is_over, thread }
    }

    /// Stops the client; returns the number of its writes.
    fn end(self) -> u64 {
        self.is_over.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn what_the_timers_save_is_restored() {
    if !has_tools() {
        return;
    }
    let servers = [filled(&["--requirepass", "secret"]), filled(&["--requirepass", "secret"])];
    let (folder, address) = store();
    let mut bash = Bash::new();
    let named = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port)).join(" ");
    let script = include_str!("../../../../packaging/sluice-backup");
    bash.program("sluice-backup", script);
    let sets = folder.join("sets");
    let names = [
        ("SERVERS", named.as_str()),
        ("FOLDER", &sets),
        ("VALKEYCLI_AUTH", "secret"),
        ("REDISCLI_AUTH", "secret"),
        ("STORE", &address),
        ("SEND", "gzip <\"$FILE\" | curl --fail --silent --show-error --upload-file - $STORE/dump.rdb.gz"),
    ];
    bash.run("sluice-backup", "sluice-backup hourly", &names);
    assert_eq!(std::fs::read_dir(folder.join("sets/hourly")).unwrap().count(), servers.len());
    let port = servers[0].port.to_string();
    let look = block(GUIDE, "backup-age").replace("/daily", "/hourly");
    let names = [("FOLDER", sets.as_str()), ("HOST", "127.0.0.1"), ("PORT", &port)];
    bash.run("backup-age", &look, &names);
    let is_told = format!("(\n{look}) && exit 1 || true");
    let said = bash.says("backup-age", &is_told, &[("FOLDER", &sets), ("HOST", "127.0.0.1"), ("PORT", "1")]);
    assert_eq!(said, "no backup of 127.0.0.1:1 in 26 hours\n");
    restored(&mut bash, "restore", &address, "");
}
