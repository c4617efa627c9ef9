//! What tools do with a server: they take a snapshot over the network (`valkey-cli --rdb`) and insert many
//! commands (`--pipe`). The tests simulate the tools, and also run `bin/valkey-cli` of the reference if
//! `SLUICE_PEER_HOME` names the reference's folder.

use crate::common::{self, Client, Dir, Server, request};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The path of the reference's client; `None` if the environment names no folder.
fn reference_cli() -> Option<PathBuf> {
    let Some(home) = std::env::var_os("SLUICE_PEER_HOME") else {
        println!("skipped: SLUICE_PEER_HOME names no reference");
        return None;
    };
    Some(PathBuf::from(home).join("bin/valkey-cli"))
}

/// Runs the client against a server, with this input.
fn cli(binary: &PathBuf, server: &Server, arguments: &[&str], input: Vec<u8>) -> Output {
    let mut command = Command::new(binary);
    command.args(["-p", &server.port.to_string()]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

fn fill(client: &mut Client) {
    client.check("DEBUG POPULATE 3000 key 100", "+OK\r\n");
    client.check("RPUSH list a bb ccc", ":3\r\n").check("SETRANGE long 3000000 end", ":3000003\r\n");
    client
        .check("SELECT 9", "+OK\r\n")
        .check("SET dies 1 PX 100000000", "+OK\r\n")
        .check("SELECT 0", "+OK\r\n");
}

/// The digest of the data of a server that has loaded this snapshot at its start.
fn digest_of(snapshot: &[u8]) -> String {
    let dir = Dir::new();
    std::fs::write(dir.join("dump.rdb"), snapshot).unwrap();
    digest(&mut Server::start_in(dir, |_| {}).client())
}

fn digest(client: &mut Client) -> String {
    client.send("DEBUG DIGEST\r\n").line()
}

/// Reads the snapshot that the server sends to a client.
fn take_snapshot(client: &mut Client) -> Vec<u8> {
    // The server may send line ends before the snapshot, to show that it is still working.
    let line = client.line();
    let header = line.trim_start();
    let mut bytes = Vec::new();
    match header.strip_prefix("$EOF:") {
        Some(mark) => {
            // After the snapshot, the server closes the connection of a client that wants nothing else.
            client.stream.read_to_end(&mut bytes).unwrap();
            assert!(bytes.ends_with(mark.as_bytes()));
            bytes.truncate(bytes.len() - mark.len());
        }
        None => {
            let len = header.strip_prefix('$').and_then(|len| len.parse().ok());
            bytes.resize(len.unwrap_or_else(|| panic!("{header}")), 0);
            client.stream.read_exact(&mut bytes).unwrap();
        }
    }
    bytes
}

#[test]
fn a_snapshot_is_taken_over_the_wire_while_others_write() {
    let server = Server::start(&[]);
    let mut client = server.client();
    fill(&mut client);
    let before = digest(&mut client);
    for capability in ["eof", "psync2"] {
        let mut tool = server.client();
        tool.check(&format!("REPLCONF capa {capability}"), "+OK\r\n").check("REPLCONF rdb-only 1", "+OK\r\n");
        tool.send("SYNC\r\n");
        let snapshot = take_snapshot(&mut tool);
        client.check("SET later 1", "+OK\r\n").check("DEL later", ":1\r\n");
        assert_eq!(digest_of(&snapshot), before, "{capability}");
        // A client that wants only a snapshot does not stay as a replica.
        drop(tool);
        common::until("the tool's connection to end", || {
            (client.info("connected_slaves") == "0").then_some(())
        });
    }
    let mut tool = server.client();
    tool.check("REPLCONF capa eof", "+OK\r\n").check("REPLCONF rdb-only 1", "+OK\r\n");
    tool.check("REPLCONF rdb-filter-only functions", "+OK\r\n");
    tool.send("SYNC\r\n");
    assert_eq!(digest_of(&take_snapshot(&mut tool)), "+0000000000000000000000000000000000000000");
}

#[test]
fn a_replica_that_reads_late_gets_the_moment_at_which_it_asked_and_holds_nobody_up() {
    let server = Server::start(&["--rdbcompression", "no"]);
    let mut client = server.client();
    for capability in ["eof version 9.1.2", "psync2"] {
        client.check("DEBUG POPULATE 40000 key 1000", "+OK\r\n");
        let before = digest(&mut client);
        let mut replica = server.client();
        replica.check(&format!("REPLCONF rdb-only 1 capa {capability}"), "+OK\r\n");
        let syncs = client.info_number("sync_full");
        replica.send("SYNC\r\n");
        common::until("a snapshot for the replica", || {
            (client.info_number("sync_full") > syncs).then_some(())
        });
        client.check("DEBUG POPULATE 40000 key 500", "+OK\r\n");
        client.check("FLUSHDB", "+OK\r\n").check("SET later 1", "+OK\r\n");
        common::until("the snapshot to be made", || {
            (client.info("rdb_bgsave_in_progress") == "0").then_some(())
        });
        // The part of the snapshot that the replica has not read is kept: in memory 4 MiB and a piece that
        // was read ahead, and on disk the rest.
        let held = client.info_number("current_save_held_bytes");
        assert!(held < 8 << 20, "{held}");
        let names = std::fs::read_dir(server.dir.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("temp-")), "{names:?}");
        client.check("BGSAVE", "+Background saving started\r\n");
        let snapshot = take_snapshot(&mut replica);
        assert!(snapshot.len() > 40_000_000);
        assert_eq!(digest_of(&snapshot), before, "{capability}");
        common::until("the save, and the snapshot to be freed", || {
            (client.info_number("current_save_held_bytes") == 0).then_some(())
        });
        client.check("FLUSHDB", "+OK\r\n");
    }
}

#[test]
fn the_references_client_takes_a_snapshot() {
    let Some(binary) = reference_cli() else { return };
    let server = Server::start(&[]);
    let mut client = server.client();
    fill(&mut client);
    let before = digest(&mut client);
    let path = server.dir.join("taken.rdb");
    let output = cli(&binary, &server, &["--rdb", &path], Vec::new());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(digest_of(&std::fs::read(&path).unwrap()), before);
    let output = cli(&binary, &server, &["--rdb", "-"], Vec::new());
    assert!(output.status.success());
    assert_eq!(digest_of(&output.stdout), before);
    let output = cli(&binary, &server, &["--functions-rdb", &path], Vec::new());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(digest_of(&std::fs::read(&path).unwrap()), "+0000000000000000000000000000000000000000");
}

/// Commands for mass insertion, one of them invalid; and their number.
fn bulk() -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    for n in 0..20_000 {
        let number = n.to_string();
        bytes.extend(request(&[b"SET", format!("k{n}").as_bytes(), number.as_bytes()]));
        bytes.extend(request(&[b"RPUSH", b"list", number.as_bytes()]));
        if n == 10_000 {
            bytes.extend(request(&[b"INCR", b"list"]));
        }
    }
    bytes.extend_from_slice(b"SET inline 1\r\n");
    (bytes, 40_002)
}

fn assert_fed(client: &mut Client) {
    client.check("DBSIZE", ":20002\r\n").check("LLEN list", ":20000\r\n");
    client.check("LINDEX list -1", "$5\r\n19999\r\n").check("GET k19999", "$5\r\n19999\r\n");
    client.check("GET inline", "$1\r\n1\r\n");
}

#[test]
fn commands_are_fed_in_bulk_and_each_is_answered() {
    let server = Server::start(&[]);
    let (mut bytes, commands) = bulk();
    // The reply to this unique text shows that all earlier commands were answered.
    bytes.extend(request(&[b"ECHO", b"the end of it"]));
    let mut client = server.client();
    let mut writer = client.stream.try_clone().unwrap();
    let feeder = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    let (mut replies, mut errors) = (0, Vec::new());
    let mut lines = std::io::BufReader::new(&mut client.stream);
    loop {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        match line.as_bytes()[0] {
            b'$' => break,
            b'-' => errors.push(line),
            kind => assert!(matches!(kind, b'+' | b':'), "{line}"),
        }
        replies += 1;
    }
    feeder.join().unwrap();
    assert_eq!(replies, commands);
    assert_eq!(errors, ["-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"]);
    assert_fed(&mut server.client());
}

#[test]
fn the_references_client_feeds_commands() {
    let Some(binary) = reference_cli() else { return };
    let server = Server::start(&[]);
    let (bytes, commands) = bulk();
    let output = cli(&binary, &server, &["--pipe"], bytes);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("errors: 1, replies: {commands}")), "{output:?}");
    assert_eq!(output.status.code(), Some(1), "an error is the client's exit status");
    assert_fed(&mut server.client());
    let output = cli(&binary, &server, &["--pipe"], b"SET a 1\nINCR a\r\n".to_vec());
    assert!(output.status.success(), "{output:?}");
    server.client().check("GET a", "$1\r\n2\r\n");
}
