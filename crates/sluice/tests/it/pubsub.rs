//! Publish/subscribe, end to end: messages arrive at their subscribers complete and in order, whatever
//! thread owns the connections.

use crate::common::{Client, Server, request, until};
use std::io::Read;

fn subscribers(server: &Server, count: usize, channel: &str) -> Vec<Client> {
    let confirmation = format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len());
    let subscribe = |_| {
        let mut client = server.client();
        client.check(&format!("SUBSCRIBE {channel}"), &confirmation);
        client
    };
    (0..count).map(subscribe).collect()
}

fn message(channel: &str, text: &[u8]) -> Vec<u8> {
    let head = format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n", channel.len(), text.len());
    [head.as_bytes(), text, b"\r\n"].concat()
}

#[test]
fn messages_arrive_in_order_at_every_subscriber() {
    let server = Server::start(&[]);
    let mut all = subscribers(&server, 20, "news");
    let mut publisher = server.client();
    let requests: Vec<u8> =
        (0..500).flat_map(|n| request(&[b"PUBLISH", b"news", format!("{n:04}").as_bytes()])).collect();
    publisher.send(requests).expect(":20\r\n".repeat(500));
    let expected: Vec<u8> = (0..500).flat_map(|n| message("news", format!("{n:04}").as_bytes())).collect();
    for client in &mut all {
        client.expect(&expected);
        client.check("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    }
}

#[test]
fn subscribers_keep_their_messages_while_threads_come_and_go() {
    let server = Server::start(&["--io-threads", "3", "--io-threads-always-active", "yes"]);
    let mut all = subscribers(&server, 10, "news");
    let mut control = server.client();
    let mut publisher = server.client();
    for round in 0..30 {
        let threads = [1, 3, 2][round % 3];
        control.check(&format!("CONFIG SET io-threads {threads}"), "+OK\r\n");
        let text = format!("round {round}");
        publisher.send(request(&[b"PUBLISH", b"news", text.as_bytes()])).expect(":10\r\n");
        for client in &mut all {
            client.expect(message("news", text.as_bytes()));
        }
    }
}

fn client_of_version_3(server: &Server) -> Client {
    let mut client = server.client();
    client.send("HELLO 3\r\n");
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"modules\r\n*0\r\n") {
        let mut byte = [0];
        client.stream.read_exact(&mut byte).unwrap();
        greeting.push(byte[0]);
    }
    client
}

#[test]
fn messages_of_many_channels_keep_their_order_on_io_threads() {
    let server = Server::start(&["--io-threads", "3", "--io-threads-always-active", "yes"]);
    let channels = ["a", "b", "c"];
    // Each client subscribes to the channels whose bits are set in half of its number; every second client
    // uses RESP3.
    let mut all: Vec<(usize, Client)> = (0..16)
        .map(|n| (n / 2, if n % 2 == 0 { server.client() } else { client_of_version_3(&server) }))
        .collect();
    for (n, (bits, client)) in all.iter_mut().enumerate() {
        let own = channels.iter().enumerate().filter(|(bit, _)| *bits >> bit & 1 == 1);
        for (count, (_, channel)) in own.enumerate() {
            let kind = if n % 2 == 0 { '*' } else { '>' };
            let confirmation = format!("{kind}3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:{}\r\n", count + 1);
            client.check(&format!("SUBSCRIBE {channel}"), &confirmation);
        }
    }
    let mut publisher = server.client();
    // Some messages go to one channel in runs, others to alternating channels. Their texts are short, or long
    // enough to be shared between the outputs. In total the messages exceed the buffers of the kernel.
    let sent: Vec<(usize, Vec<u8>)> = (0..900)
        .map(|n| ([n / 40 % 3, n % 3][n / 300 % 2], vec![b'a' + (n % 26) as u8; [10, 700, 9000][n % 7 % 3]]))
        .collect();
    let requests =
        sent.iter().map(|(channel, text)| request(&[b"PUBLISH", channels[*channel].as_bytes(), text]));
    publisher.send(requests.collect::<Vec<_>>().concat()).expect(":8\r\n".repeat(sent.len()));
    for (n, (bits, client)) in all.iter_mut().enumerate() {
        for (channel, text) in sent.iter().filter(|(channel, _)| *bits >> channel & 1 == 1) {
            let mut wanted = message(channels[*channel], text);
            if n % 2 == 1 {
                wanted[0] = b'>';
            }
            client.expect(&wanted);
        }
    }
    assert_eq!(publisher.info_number("pubsub_clients"), 14);
}

#[test]
fn large_messages_arrive_whole_in_both_versions() {
    let server = Server::start(&[]);
    let mut all = subscribers(&server, 5, "news");
    let mut three = client_of_version_3(&server);
    three.check("SUBSCRIBE news", ">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let mut publisher = server.client();
    for size in [1000, 4095, 5000, 100_000, 3_000_000] {
        let text: Vec<u8> = (0..size).map(|n| b'a' + (n % 23) as u8).collect();
        publisher.send(request(&[b"PUBLISH", b"news", &text])).expect(":6\r\n");
        let mut wanted = message("news", &text);
        for client in &mut all {
            client.expect(&wanted);
        }
        wanted[0] = b'>';
        three.expect(&wanted);
    }
}

#[test]
fn a_subscriber_that_never_reads_is_cut_at_its_limit_and_the_others_go_on() {
    let server = Server::start(&["--client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let mut all = subscribers(&server, 3, "news");
    let mut lazy = subscribers(&server, 1, "news").remove(0);
    let mut control = server.client();
    let mut publisher = server.client();
    let text = vec![b'x'; 50_000];
    let wanted = message("news", &text);
    let mut rounds = 0;
    until("the end of the one that does not read", || {
        publisher.send(request(&[b"PUBLISH", b"news", &text])).expect(":");
        let count = publisher.line();
        for client in &mut all {
            client.expect(&wanted);
        }
        rounds += 1;
        (count.trim() == "3").then_some(())
    });
    assert!(rounds >= 20, "{rounds} messages of 50,000 bytes are less than the limit");
    assert_eq!(control.info_number("client_output_buffer_limit_disconnections"), 1);
    assert!(server.log.wait("scheduled to be closed ASAP for overcoming of output buffer limits").is_some());
    let mut got = Vec::new();
    let _ = lazy.stream.read_to_end(&mut got);
    assert!(got.len() < wanted.len() * rounds);
    assert_eq!(control.info_number("pubsub_clients"), 3);
}

#[test]
fn an_expiry_is_told_without_a_command() {
    let server = Server::start(&["--notify-keyspace-events", "Ex"]);
    let mut listener = subscribers(&server, 1, "__keyevent@0__:expired").remove(0);
    let mut client = server.client();
    client.check("SET k v PX 10", "+OK\r\n");
    listener.expect(message("__keyevent@0__:expired", b"k"));
}

#[test]
fn subscriptions_end_with_their_connection() {
    let server = Server::start(&[]);
    let all = subscribers(&server, 5, "news");
    let mut control = server.client();
    control.check("PUBSUB NUMSUB news", "*2\r\n$4\r\nnews\r\n:5\r\n");
    drop(all);
    until("their end", || (control.info_number("pubsub_clients") == 0).then_some(()));
    control.check("PUBSUB CHANNELS", "*0\r\n");
    control.check("PUBLISH news x", ":0\r\n");
}
