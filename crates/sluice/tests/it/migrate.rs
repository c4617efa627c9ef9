//! MIGRATE between real servers: from a server of ours to another, and to the reference and back.

use crate::common::reference::Reference;
use crate::common::{Client, Server, free_port, until};
use crate::threads::threads;
use std::time::{Duration, Instant};

fn digest(client: &mut Client, key: &str) -> String {
    client.send(format!("DEBUG DIGEST-VALUE {key}\r\n"));
    assert_eq!(client.line(), "*1");
    client.line()
}

/// Writes a small and a large value of each type; returns their keys.
fn fill(client: &mut Client) -> Vec<String> {
    let mut keys = Vec::new();
    for (name, count) in [("small", 3), ("large", 3000)] {
        for command in ["RPUSH list", "SADD set", "HSET hash", "ZADD zset", "XADD stream", "APPEND text"] {
            let (command, kind) = command.split_once(' ').unwrap();
            let key = format!("{name}:{kind}");
            for i in 0..count {
                let words = match command {
                    "HSET" => format!("f{i} v{i}"),
                    "ZADD" => format!("{i}.5 m{i}"),
                    "XADD" => format!("* f v{i}"),
                    _ => format!("e{i}"),
                };
                client.send(format!("{command} {key} {words}\r\n"));
                let header = client.line();
                if header.starts_with('$') {
                    client.line();
                }
            }
            keys.push(key);
        }
    }
    keys
}

/// Moves every key to the other server and back, and compares the values.
fn there_and_back(here: &mut Client, port: u16, there: &mut Client, back: u16) {
    let keys = fill(here);
    let before: Vec<String> = keys.iter().map(|key| digest(here, key)).collect();
    let all = keys.join(" ");
    here.check(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 20000 KEYS {all} nothing"), "+OK\r\n");
    here.check("DBSIZE", ":0\r\n");
    for (key, digest_before) in keys.iter().zip(&before) {
        assert_eq!(&digest(there, key), digest_before, "{key}");
    }
    for key in &keys {
        there.check(&format!("MIGRATE 127.0.0.1 {back} {key} 0 20000 COPY"), "+OK\r\n");
    }
    for (key, digest_before) in keys.iter().zip(&before) {
        assert_eq!(&digest(here, key), digest_before, "{key}");
    }
    there.check("DBSIZE", format!(":{}\r\n", keys.len()));
    let busy = "-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n";
    here.check(&format!("MIGRATE 127.0.0.1 {port} {} 0 5000", keys[0]), busy);
    here.check(&format!("MIGRATE 127.0.0.1 {port} {} 0 5000 REPLACE", keys[0]), "+OK\r\n");
}

#[test]
fn values_of_every_type_move_between_two_of_ours() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    there_and_back(&mut first.client(), second.port, &mut second.client(), first.port);
}

#[test]
fn values_of_every_type_move_to_the_reference_and_back() {
    let Some(reference) = Reference::start(&[]) else { return };
    let server = Server::start(&[]);
    there_and_back(&mut server.client(), reference.port, &mut reference.client(), server.port);
}

#[test]
fn times_to_live_and_databases_are_kept() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut here, mut there) = (first.client(), second.client());
    here.check("SET k v PX 100000", "+OK\r\n");
    here.check(&format!("MIGRATE 127.0.0.1 {} k 7 5000", second.port), "+OK\r\n");
    there.check("EXISTS k", ":0\r\n").check("SELECT 7", "+OK\r\n");
    let ttl: i64 = there.send("PTTL k\r\n").line()[1..].parse().unwrap();
    assert!((1..=100_000).contains(&ttl), "{ttl}");
    // The cached connection has database 7 selected.
    here.check("SET k w", "+OK\r\n");
    here.check(&format!("MIGRATE 127.0.0.1 {} k 0 5000", second.port), "+OK\r\n");
    there.check("GET k", "$1\r\nv\r\n").check("SELECT 0", "+OK\r\n").check("GET k", "$1\r\nw\r\n");
}

#[test]
fn connections_are_kept_for_a_while_and_made_again_when_they_have_ended() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut here, mut there) = (first.client(), second.client());
    let connections = there.info_number("total_connections_received");
    for _ in 0..3 {
        here.check("SET k v", "+OK\r\n");
        here.check(&format!("MIGRATE 127.0.0.1 {} k 0 5000 REPLACE", second.port), "+OK\r\n");
        assert_eq!(here.info("migrate_cached_sockets"), "1");
    }
    assert_eq!(there.info_number("total_connections_received"), connections + 1);
    there.check("CLIENT KILL TYPE normal SKIPME yes", ":1\r\n");
    here.check("SET k v", "+OK\r\n");
    here.check(&format!("MIGRATE 127.0.0.1 {} k 0 5000 REPLACE", second.port), "+OK\r\n");
    assert_eq!(there.info_number("total_connections_received"), connections + 2);
    until("the end of a connection that is not used", || {
        (here.info("migrate_cached_sockets") == "0").then_some(())
    });
}

#[test]
fn migrations_one_after_the_other_have_one_thread_and_two_at_once_have_two() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut here, mut there) = (first.client(), second.client());
    let mut other = first.client();
    let count = || threads(&first).values().filter(|name| *name == "migrate").count();
    assert_eq!(count(), 0);
    for _ in 0..3 {
        here.check("SET k v", "+OK\r\n");
        here.check(&format!("MIGRATE 127.0.0.1 {} k 0 5000 REPLACE", second.port), "+OK\r\n");
        assert_eq!(count(), 1);
    }
    // The target is suspended, so that two migrations are in progress at once.
    second.signal("STOP");
    here.check("MSET k v l w", "+OK\r\n");
    here.send(format!("MIGRATE 127.0.0.1 {} k 0 20000 REPLACE\r\n", second.port));
    other.send(format!("MIGRATE 127.0.0.1 {} l 0 20000 REPLACE\r\n", second.port));
    until("a second thread", || (count() == 2).then_some(()));
    second.signal("CONT");
    here.expect("+OK\r\n");
    other.expect("+OK\r\n");
    there.check("GET l", "$1\r\nw\r\n");
    until("the end of threads that are not used", || (count() == 0).then_some(()));
}

#[test]
fn passwords_are_sent_and_refused_ones_told() {
    let (first, second) = (Server::start(&[]), Server::start(&["--requirepass", "right"]));
    let (mut here, mut there) = (first.client(), second.client());
    there.check("AUTH right", "+OK\r\n");
    here.check("SET k v", "+OK\r\n");
    let migrate = format!("MIGRATE 127.0.0.1 {} k 0 5000", second.port);
    let told = "-ERR Target instance replied with error: ";
    here.check(&migrate, format!("{told}NOAUTH Authentication required.\r\n"));
    let wrong = format!("{told}WRONGPASS invalid username-password pair or user is disabled.\r\n");
    here.check(&format!("{migrate} AUTH wrong"), wrong);
    here.check("EXISTS k", ":1\r\n");
    here.check(&format!("{migrate} AUTH right"), "+OK\r\n");
    here.check("SET k v", "+OK\r\n");
    here.check(&format!("{migrate} REPLACE AUTH2 default right"), "+OK\r\n");
    there.check("GET k", "$1\r\nv\r\n");
}

#[test]
fn a_target_that_is_silent_stops_nobody() {
    let (first, second) = (Server::start(&[]), Server::start(&[]));
    let (mut here, mut writer, mut mover) = (first.client(), first.client(), first.client());
    here.check("MSET moved 1 other 1", "+OK\r\n");
    second.signal("STOP");
    mover.send(format!("MIGRATE 127.0.0.1 {} moved 0 1500\r\n", second.port));
    until("the migration", || {
        here.bulk("CLIENT LIST").windows(11).any(|part| part == b"cmd=migrate").then_some(())
    });
    let began = Instant::now();
    for i in 0..200 {
        here.check(&format!("SET other {i}"), "+OK\r\n").check("GET moved", "$1\r\n1\r\n");
    }
    assert!(began.elapsed() < Duration::from_millis(1400), "{:?}", began.elapsed());
    writer.send("SET moved 2\r\n");
    mover.expect("-IOERR error or timeout reading to target instance\r\n");
    writer.expect("+OK\r\n");
    second.signal("CONT");
    here.check("GET moved", "$1\r\n2\r\n");
}

#[test]
fn a_target_that_is_not_there_is_told_as_the_reference_does() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.check("SET k v", "+OK\r\n");
    let writing = "-IOERR error or timeout writing to target instance\r\n";
    client.check(&format!("MIGRATE 127.0.0.1 {} k 0 1000", free_port()), writing);
    client.check("MIGRATE 127.0.0.1 xx k 0 1000", writing);
    client
        .check("MULTI", "+OK\r\n")
        .check(&format!("MIGRATE 127.0.0.1 {} k 0 1000", free_port()), "+QUEUED\r\n");
    client.check("EXEC", format!("*1\r\n{writing}"));
    client.check("GET k", "$1\r\nv\r\n");
}
