//! Loading the append-only file, end to end: what clients see during a load, what ends a load, and DEBUG
//! LOADAOF. The parameter `key-load-delay` slows a load until a test sets it to 0.

use crate::common::{self, BINARY, Client, Dir, Server, free_port, until};
use std::process::Command;

const LOADING: &str = "-LOADING Valkey is loading the dataset in memory\r\n";
const INCR: &str = "appendonlydir/appendonly.aof.1.incr.aof";

fn server_in(dir: &Dir, arguments: &[&str]) -> Server {
    Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join(""), "--appendonly", "yes"]).args(arguments);
    })
}

fn end(mut server: Server) {
    server.client().send("SHUTDOWN\r\n").expect_end();
    assert_eq!(server.wait().code(), Some(0));
}

/// A folder with an append-only file that sets `keys` keys.
fn appended(keys: u32) -> Dir {
    let dir = Dir::new();
    let server = server_in(&dir, &[]);
    let mut client = server.client();
    for n in 0..keys {
        client.check(&format!("SET key:{n} {n}"), "+OK\r\n");
    }
    end(server);
    dir
}

/// Starts a server that loads the files in `dir`, so slowly that the load does not end by itself.
fn loading(dir: &Dir, arguments: &[&str]) -> Server {
    let port = free_port();
    let mut command = Command::new(BINARY);
    command.args(["--port", &port.to_string(), "--dir", &dir.join(""), "--save", "", "--appendonly", "yes"]);
    command.args(["--enable-debug-command", "yes", "--key-load-delay", "1000000"]);
    command.args(common::arm());
    command.args(arguments);
    let server = Server::spawn(command, port, Dir::new());
    assert!(server.log.wait("Reading RDB base file on AOF loading...").is_some(), "{}", server.log.all());
    server
}

fn let_go(client: &mut Client) {
    client.check("CONFIG SET key-load-delay 0", "+OK\r\n");
    until("the end of the load", || (client.info("loading") == "0").then_some(()));
}

fn rewritten(client: &mut Client) {
    until("the rewrite", || {
        let busy =
            client.info("aof_rewrite_in_progress") == "1" || client.info("aof_rewrite_scheduled") == "1";
        (!busy).then_some(())
    });
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
}

#[test]
fn clients_are_told_that_data_are_loading_and_served_when_they_are_there() {
    let dir = appended(200);
    let server = loading(&dir, &["--appendfsync", "always"]);
    let mut client = server.client();
    client.check("PING", LOADING).check("GET key:1", LOADING).check("SET a 1", LOADING);
    client.check("BGREWRITEAOF", LOADING).check("CONFIG SET appendonly no", LOADING);
    client.check("ECHO x", "$1\r\nx\r\n");
    assert_eq!(client.info("loading"), "1");
    assert_eq!(client.info("aof_enabled"), "1");
    let names = ["appendonlydir/appendonly.aof.1.base.rdb", INCR];
    let sizes = names.map(|name| std::fs::metadata(dir.join(name)).unwrap().len());
    until("the size", || {
        (client.info("loading_total_bytes") == sizes.iter().sum::<u64>().to_string()).then_some(())
    });
    let_go(&mut client);
    client.check("PING", "+PONG\r\n").check("DBSIZE", ":200\r\n").check("GET key:199", "$3\r\n199\r\n");
    client.check("SET behind 1", "+OK\r\n");
    for line in [
        "DB loaded from incr file appendonly.aof.1.incr.aof: ",
        "DB loaded from append only file: ",
        "Opening AOF incr file appendonly.aof.1.incr.aof on server start",
        "Ready to accept connections tcp",
    ] {
        assert!(server.log.wait(line).is_some(), "{line}");
    }
    drop(server);
    server_in(&dir, &[]).client().check("DBSIZE", ":201\r\n");
}

#[test]
fn shutdown_and_signals_end_a_load_at_once_and_leave_the_files_alone() {
    let dir = appended(200);
    let before = std::fs::read(dir.join(INCR)).unwrap();
    for ending in ["SHUTDOWN", "TERM", "KILL"] {
        let mut server = loading(&dir, &[]);
        match ending {
            "SHUTDOWN" => server.client().send("SHUTDOWN\r\n").expect_end(),
            signal => server.signal(signal),
        }
        let wanted = if ending == "KILL" { None } else { Some(0) };
        assert_eq!(server.wait().code(), wanted, "{ending}: {}", server.log.all());
        assert_eq!(std::fs::read(dir.join(INCR)).unwrap(), before);
    }
    server_in(&dir, &[]).client().check("DBSIZE", ":200\r\n");
}

#[test]
fn a_damaged_log_ends_a_server_that_has_clients_already() {
    let dir = appended(200);
    let mut bytes = std::fs::read(dir.join(INCR)).unwrap();
    bytes.extend_from_slice(b"nonsense");
    std::fs::write(dir.join(INCR), &bytes).unwrap();
    let mut server = loading(&dir, &[]);
    let mut client = server.client();
    client.check("PING", LOADING).send("CONFIG SET key-load-delay 0\r\n");
    assert_eq!(server.wait().code(), Some(1));
    let said = server.log.all();
    assert!(
        said.contains("Bad file format reading the append only file appendonly.aof.1.incr.aof: "),
        "{said}"
    );
    assert!(said.ends_with("Fatal error loading the DB, check server logs. Exiting."), "{said}");
    assert_eq!(std::fs::read(dir.join(INCR)).unwrap(), bytes);
}

#[test]
fn loadaof_brings_what_was_appended() {
    let dir = Dir::new();
    for policy in ["always", "everysec", "no"] {
        let server = server_in(&dir, &["--appendfsync", policy]);
        let (mut client, mut other) = (server.client(), server.client());
        client.check("FLUSHALL", "+OK\r\n").check("SET a 1", "+OK\r\n").check("SET b 1 EX 1000", "+OK\r\n");
        let digest = client.send("DEBUG DIGEST\r\n").line();
        // Keys of DEBUG POPULATE are not written to the append-only file.
        client.check("DEBUG POPULATE 100", "+OK\r\n");
        client.send("SET c 1\r\nDEL c\r\nDEBUG LOADAOF\r\nDBSIZE\r\n").expect("+OK\r\n:1\r\n+OK\r\n:2\r\n");
        assert_eq!(client.send("DEBUG DIGEST\r\n").line(), digest);
        assert!(server.log.wait("Append Only File loaded by DEBUG LOADAOF").is_some());
        // The file is loaded twice more: slowly while another client is connected, and then during a rewrite.
        client.check("CONFIG SET key-load-delay 1000000", "+OK\r\n").send("DEBUG LOADAOF\r\n");
        until("the load", || (other.info("loading") == "1").then_some(()));
        other.check("PING", LOADING).check("DEBUG LOADAOF", LOADING);
        let_go(&mut other);
        client.expect("+OK\r\n").check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        client.check("DEBUG LOADAOF", "+OK\r\n");
        rewritten(&mut client);
        client.check("SET d 1", "+OK\r\n").check("DEBUG LOADAOF", "+OK\r\n").check("DBSIZE", ":3\r\n");
        end(server);
    }
    let server = server_in(&dir, &[]);
    server.client().check("DBSIZE", ":3\r\n");
}

#[test]
fn loadaof_waits_until_what_was_appended_is_written() {
    let dir = Dir::new();
    let server = server_in(&dir, &["--appendfsync", "no"]);
    let mut client = server.client();
    client.check("DEBUG AOF-FLUSH-SLEEP 200000", "+OK\r\n");
    client.check("SET a 1", "+OK\r\n").check("DEBUG LOADAOF", "+OK\r\n").check("GET a", "$1\r\n1\r\n");
    client.check("DEBUG AOF-FLUSH-SLEEP x", "+OK\r\n");
}

#[test]
fn loadaof_without_the_file_loads_what_is_there() {
    let dir = appended(3);
    let server = Server::start_in(Dir::new(), |command| {
        command.args(["--dir", &dir.join("")]);
    });
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n").check("DEBUG LOADAOF", "+OK\r\n").check("DBSIZE", ":3\r\n");
    std::fs::write(dir.join(INCR), "nonsense").unwrap();
    client.check("DEBUG LOADAOF", "-ERR Error trying to load the AOF files, check server logs.\r\n");
    client.check("DBSIZE", ":3\r\n");
    // A torn end is cut off only at a start.
    std::fs::write(dir.join(INCR), "*1\r\n$5\r\nMULTI\r\n").unwrap();
    client.check("DEBUG LOADAOF", "-ERR Error trying to load the AOF files, check server logs.\r\n");
    assert_eq!(std::fs::read(dir.join(INCR)).unwrap(), b"*1\r\n$5\r\nMULTI\r\n");
}

#[test]
fn a_restart_shows_where_in_the_history_of_replication_the_data_stand() {
    let dir = Dir::new();
    let server = server_in(&dir, &[]);
    let (mut client, mut replica) = (server.client(), server.client());
    replica.send("SYNC\r\n");
    until("the replica", || {
        let text = String::from_utf8(client.bulk("INFO replication")).unwrap();
        text.contains("state=online").then_some(())
    });
    client.check("SET a 1", "+OK\r\n");
    let (replid, offset) = (client.info("master_replid"), client.info_number("master_repl_offset"));
    assert!(offset > 0);
    end(server);
    let server = server_in(&dir, &[]);
    let mut client = server.client();
    assert_eq!(client.info("master_replid2"), replid);
    assert_ne!(client.info("master_replid"), replid);
    // The primary may have written a PING to the stream after `offset` was read.
    let resumed = client.info_number("master_repl_offset");
    assert!(resumed >= offset, "{resumed} after {offset}");
    assert_eq!(client.info_number("second_repl_offset"), resumed + 1);
    // Even without a replica, the history continues under the id of this run, so that a replica that returns
    // can continue the history.
    client.check("SET b 1", "+OK\r\n");
    let (replid, offset) = (client.info("master_replid"), client.info_number("master_repl_offset"));
    assert!(offset > resumed);
    end(server);
    let server = server_in(&dir, &[]);
    let mut client = server.client();
    assert_eq!(client.info("master_replid2"), replid);
    assert_eq!(client.info_number("master_repl_offset"), offset);
    assert_eq!(client.info_number("second_repl_offset"), offset + 1);
}
