//! Handshakes.

use crate::pair::{context, handshake, options, sources};

#[test]
fn two_sessions_talk() {
    let context = context(&sources(), &options());
    let (mut server, mut client) = handshake(&context, &context, usize::MAX).expect("a handshake");
    let bytes = client.send(b"PING\r\n");
    server.receive(&bytes, usize::MAX).expect("received");
    assert_eq!(server.plain(), b"PING\r\n");
    let bytes = server.send(b"+PONG\r\n");
    client.receive(&bytes, 1).expect("received");
    assert_eq!(client.plain(), b"+PONG\r\n");
}
