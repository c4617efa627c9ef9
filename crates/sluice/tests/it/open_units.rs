//! Transactions that are suspended halfway by DEBUG STAND-STILL, with real sockets; `cargo xtask test` runs
//! these tests with I/O threads, too.

use super::common::{self, Client, Dir, Server};

/// Sends a transaction whose EXEC pauses between two writes. Once the server has answered the queued
/// commands, it has begun the EXEC, or begins it in the same batch.
fn begin(client: &mut Client, ms: u64) {
    client.send(format!("MULTI\r\nRPUSH l a\r\nDEBUG STAND-STILL {ms}\r\nRPUSH l b\r\nEXEC\r\n"));
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
}

#[test]
fn pipelines_of_others_are_held_and_keep_their_order() {
    if !common::has_switches() {
        return;
    }
    let server = Server::start(&[]);
    let mut owner = server.client();
    let mut others: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for _ in 0..3 {
        owner.send("DEL l\r\n").line();
        begin(&mut owner, 150);
        for (number, other) in others.iter_mut().enumerate() {
            other.send((0..50).map(|i| format!("RPUSH l {number}-{i}\r\n")).collect::<String>());
        }
        owner.expect("*3\r\n:1\r\n+OK\r\n:2\r\n");
        for other in &mut others {
            let lengths: Vec<u32> =
                (0..50).map(|_| other.line().trim_start_matches(':').parse().unwrap()).collect();
            assert!(lengths.is_sorted() && lengths[0] > 2, "nothing comes between a and b: {lengths:?}");
        }
        owner.check("LRANGE l 0 1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n").check("LLEN l", ":402\r\n");
    }
}

#[test]
fn a_signal_ends_the_server_behind_the_unit() {
    if !common::has_switches() {
        return;
    }
    let dir = Dir::new();
    let arguments = ["--dir", &dir.join(""), "--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start(&arguments);
    let mut owner = server.client();
    begin(&mut owner, 300);
    server.signal("TERM");
    assert!(server.wait().success());
    let again = Server::start(&arguments);
    again.client().check("LRANGE l 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

#[test]
fn a_killed_process_has_all_of_the_unit_or_nothing() {
    if !common::has_switches() {
        return;
    }
    let dir = Dir::new();
    let arguments = ["--dir", &dir.join(""), "--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start(&arguments);
    server.client().check("SET before 1", "+OK\r\n");
    begin(&mut server.client(), 60_000);
    drop(server);
    let again = Server::start(&arguments);
    again.client().check("EXISTS l", ":0\r\n").check("GET before", "$1\r\n1\r\n");
}
