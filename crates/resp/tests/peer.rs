//! Compares the request parser with a running reference server, which must give the same replies to the same
//! streams.
//!
//! Runs if `SLUICE_PEER_ADDRESS` is `host:port` of a server; otherwise it reports that it was skipped. The
//! requests are PING, ECHO and unknown commands.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use sluice_base::Rng;
use sluice_resp::{AuthState, Outbox, ParseLimits, Parser, Protocol, Reply, Requests, State, Value, decode};

#[test]
fn streams_are_understood_as_the_reference_understands_them() {
    let Ok(address) = std::env::var("SLUICE_PEER_ADDRESS") else {
        eprintln!("skipped: SLUICE_PEER_ADDRESS is not set");
        return;
    };
    let mut rng = Rng::new(71);
    let mut failed = 0;
    for _ in 0..10_000 {
        let stream = hostile_stream(&mut rng);
        let (ours, state) = understood(&stream);
        failed += u32::from(matches!(state, State::Failed(_)));
        let theirs = answers(&address, &stream);
        assert_eq!(ours, theirs, "{}", stream.escape_ascii());
    }
    assert!((1000..9000).contains(&failed), "a mix is wanted, not {failed} errors of 10,000");
}

/// The replies to the requests that this parser finds, as far as the comparison needs them. Any request other
/// than a valid PING or ECHO gets only `unknown`.
fn understood(stream: &[u8]) -> (Vec<Value>, State) {
    let limits = ParseLimits::new(AuthState::Authenticated, 512 << 20, 1 << 20);
    let mut requests = Requests::new();
    let progress = Parser::new().parse(stream, &limits, &mut requests);
    let mut replies = Vec::new();
    for request in requests.iter(stream) {
        let args: Vec<&[u8]> = request.args().collect();
        let is = |name: &str| args[0].eq_ignore_ascii_case(name.as_bytes());
        replies.push(match args.len() {
            1 if is("ping") => Value::Simple(b"PONG".to_vec()),
            2 if is("ping") || is("echo") => Value::Bulk(args[1].to_vec()),
            _ => Value::Error(b"unknown".to_vec()),
        });
    }
    if let State::Failed(error) = progress.state {
        let mut outbox = Outbox::new();
        Reply::new(&mut outbox, Protocol::Resp2).error(&error.message());
        let (reply, _) = decode(&outbox.flatten()).expect("valid").expect("complete");
        replies.push(reply);
    }
    (replies, progress.state)
}

fn answers(address: &str, stream: &[u8]) -> Vec<Value> {
    let mut socket = TcpStream::connect(address).expect("the reference server answers");
    socket.write_all(stream).expect("sent");
    socket.shutdown(Shutdown::Write).expect("still open");
    let mut bytes = Vec::new();
    // A server that closes a connection with unread input resets it after the reply, so the error is ignored.
    let _ = socket.read_to_end(&mut bytes);
    let mut replies = Vec::new();
    let mut rest = &bytes[..];
    while let Some((value, len)) = decode(rest).expect("a reply") {
        replies.push(match value {
            Value::Error(text) if !text.starts_with(b"ERR Protocol error") => {
                Value::Error(b"unknown".to_vec())
            }
            other => other,
        });
        rest = &rest[len..];
    }
    replies
}

fn hostile_stream(rng: &mut Rng) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..1 + rng.below(4) {
        const LINES: [&[u8]; 12] = [
            b"PING\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"*2\r\n$4\r\nECHO\r\n$11\r\nhello world\r\n",
            b"*2\r\n$4\r\nPING\r\n$0\r\n\r\n",
            b"ECHO \"a b\\x41\\n\" \n",
            b"echo 'a\\'b'\"c\\\"\"\r\n",
            b"\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"ECHO a\\\r\n",
            b" \tECHO\tx\\\"y z\"\r\n",
            b"*3\r\n$4\r\nPING\r\n$1\r\na\r\n$1\r\nb\r\n",
        ];
        stream.extend_from_slice(LINES[rng.below(12) as usize]);
    }
    for _ in 0..rng.below(3) {
        let at = rng.below(stream.len() as u64) as usize;
        // No 0xff: the reference drops it from inline words on machines where the C type `char` is signed.
        const BYTES: &[u8] = b"**$$\r\r\n\n0119-+\"\"''\\\\ \x00\x0b\x0ca\xfe";
        let byte = BYTES[rng.below(BYTES.len() as u64) as usize];
        match rng.below(4) {
            0 => stream[at] = byte,
            1 => stream.insert(at, byte),
            2 => drop(stream.remove(at)),
            _ => stream.truncate(at + 1),
        }
        if stream.is_empty() {
            stream.push(byte);
        }
    }
    stream
}
