//! Slow reads, end to end: threads produce large replies while other clients are served, and clients that
//! do not read, or disconnect, delay no others.

use crate::common::{Client, Server, request, until};
use std::io::Read;

/// Number of elements of the list `l`, each of 100 bytes.
const ELEMENTS: usize = 100_000;

fn element(number: usize) -> String {
    format!("{number:0>100}")
}

/// Starts a server with the list `l` and one thread for slow reads.
fn server(arguments: &[&str]) -> Server {
    let server = Server::start(&[&["--slow-read-threads", "1"], arguments].concat());
    let mut client = server.client();
    for first in (0..ELEMENTS).step_by(1000) {
        let elements: Vec<String> = (first..first + 1000).map(element).collect();
        let words: Vec<&[u8]> = elements.iter().map(String::as_bytes).collect();
        client.send(request(&[&[&b"RPUSH"[..], b"l"][..], &words].concat()));
        assert_eq!(client.line(), format!(":{}", first + 1000));
    }
    server
}

fn expect_list(client: &mut Client, name_of: impl Fn(usize) -> String) {
    assert_eq!(client.line(), format!("*{ELEMENTS}"));
    let mut got = vec![0; ELEMENTS * (100 + 8)];
    client.stream.read_exact(&mut got).unwrap();
    let wanted: String = (0..ELEMENTS).map(|number| format!("$100\r\n{}\r\n", name_of(number))).collect();
    assert!(got == wanted.as_bytes());
}

#[test]
fn replies_are_whole_and_what_is_behind_them_comes_behind_them() {
    let server = server(&[]);
    let mut clients = [server.client(), server.client(), server.client()];
    for client in &mut clients {
        client.send("PING\r\nLRANGE l 0 -1\r\nSELECT 1\r\nDBSIZE\r\nSELECT 0\r\nLRANGE l 0 -1\r\nLLEN l\r\n");
    }
    for client in &mut clients {
        client.expect("+PONG\r\n");
        expect_list(client, element);
        client.expect("+OK\r\n:0\r\n+OK\r\n");
        expect_list(client, element);
        client.expect(format!(":{ELEMENTS}\r\n"));
    }
    let mut control = server.client();
    assert_eq!(control.info_number("slow_reads_total"), 6);
    until("the threads to be free", || (control.info_number("slow_reads_running") == 0).then_some(()));
    assert_eq!(control.info_number("slow_reads_retained_bytes"), 0);
}

#[test]
fn a_client_that_does_not_read_holds_up_others_for_a_second_at_most() {
    let server = server(&[]);
    let (mut lazy, mut control) = (server.client(), server.client());
    // The first reply is more than the buffers of both sockets hold.
    for _ in 0..3 {
        lazy.send("LRANGE l 0 -1\r\n");
    }
    until("it to begin", || (control.info_number("slow_reads_total") >= 1).then_some(()));
    control.check("LSET l 0 changed", "+OK\r\n").check("DEL l", ":1\r\n");
    let mut other = server.client();
    other.check("LRANGE l 0 -1", "*0\r\n");
    control.check("RPUSH l x", ":1\r\n");
    until("the thread to be free", || (control.info_number("slow_reads_running") == 0).then_some(()));
    // The first reply shows the data as they were at the time of the request.
    expect_list(&mut lazy, element);
    lazy.expect("*1\r\n$1\r\nx\r\n*1\r\n$1\r\nx\r\n");
}

#[test]
fn clients_that_go_leave_nothing_behind() {
    let server = server(&[]);
    let mut control = server.client();
    for round in 1..=5 {
        let mut clients = [server.client(), server.client(), server.client()];
        for client in &mut clients {
            client.send("LRANGE l 0 -1\r\nLRANGE l 0 -1\r\n");
        }
        until("one to begin", || (control.info_number("slow_reads_total") >= round).then_some(()));
        drop(clients);
        until("all to be gone", || (control.info_number("connected_clients") == 1).then_some(()));
        until("the thread to be free", || (control.info_number("slow_reads_running") == 0).then_some(()));
        assert_eq!(control.info_number("slow_reads_waiting"), 0);
    }
    let mut client = server.client();
    client.send("LRANGE l 0 -1\r\n");
    expect_list(&mut client, element);
}

#[test]
fn the_end_of_the_server_waits_for_no_slow_read() {
    let mut server = server(&[]);
    let (mut lazy, mut control) = (server.client(), server.client());
    lazy.send("LRANGE l 0 -1\r\nLRANGE l 0 -1\r\n");
    until("it to begin", || (control.info_number("slow_reads_total") >= 1).then_some(()));
    control.send("SHUTDOWN NOSAVE\r\n").expect_end();
    assert!(server.wait().success());
}

#[test]
fn strict_durability_holds_for_slow_reads() {
    let server = server(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = server.client();
    let last = ELEMENTS - 1;
    client.send(format!("LSET l {last} {}\r\nLRANGE l 0 -1\r\nPING\r\n", "x".repeat(100)));
    client.expect("+OK\r\n");
    expect_list(&mut client, |number| if number == last { "x".repeat(100) } else { element(number) });
    client.expect("+PONG\r\n");
}
