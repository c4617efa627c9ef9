//! Bytes that are invalid or borderline commands: the replies of both servers, and whether they
//! close the connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sluice_base::Rng;

use super::shrink::shrink;
use crate::error::Result;

/// Time without bytes after which a reply counts as complete; a difference is checked again
/// with the longer one.
const QUIET: [Duration; 2] = [Duration::from_millis(15), Duration::from_millis(250)];

/// Pieces of broken requests.
const PIECES: &[&[u8]] = &[
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n",
    b"*3\r\n$3\r\nSET\r\n$2\r\ns0\r\n$1\r\n1\r\n",
    b"*2\r\n$3\r\nGET\r\n$2\r\ns0\r\n",
    b"PING\r\n",
    b"ECHO \"a\\x41\\n b\" \r\n",
    b"ECHO 'a\\'b'\r\n",
    b"ECHO \"unbalanced\r\n",
    b"ECHO \"a\"b\r\n",
    b"\r\n",
    b"\n",
    b"  \r\n",
    b"PING\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*-10\r\n",
    b"*1048576\r\n",
    b"*1048577\r\n",
    b"*2147483648\r\n",
    b"*9223372036854775808\r\n",
    b"*+1\r\n",
    b"*01\r\n",
    b"* 1\r\n",
    b"*1 \r\n",
    b"*abc\r\n",
    b"*\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"*1\r\n$1048577\r\n",
    b"*1\r\n$536870913\r\n",
    b"*1\r\n$9223372036854775808\r\n",
    b"*1\r\n$x\r\n",
    b"*1\r\n$+4\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n:4\r\nPING\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n$4\r\nPINGxx",
    b"*1\r\n$4\nPING\r\n",
    b"GET / HTTP/1.1\r\n",
    b"post / HTTP/1.1\r\n",
    b"Host: localhost\r\n",
    b"*2\r\n$4\r\nPOST\r\n$1\r\n/\r\n",
    b"*2\r\n$5\r\nhost:\r\n$1\r\nx\r\n",
    b"SET s0 \"\\xff\\x0\\q\\t\"\r\n",
    b"'PING'\r\n",
    b"PING 'a'b\r\n",
    b"ECHO \"\\\r\n",
    b"QUIT\r\n",
    b"RESET\r\n",
    b"*1\r\n$4\r\nPI\0G\r\n",
];

/// Pieces of requests of a client that turns some replies off. None breaks the protocol, because the
/// reference does not close the connection if the reply to a protocol error is suppressed.
const PIECES_OF_REPLIES: &[&[u8]] = &[
    b"CLIENT REPLY OFF\r\n",
    b"CLIENT REPLY SKIP\r\n",
    b"CLIENT REPLY ON\r\n",
    b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nskip\r\n",
    b"CLIENT REPLY maybe\r\n",
    b"PING\r\n",
    b"ECHO a\r\n",
    b"SET s0 1\r\n",
    b"GET s0\r\n",
    b"NO-SUCH-COMMAND\r\n",
    b"GET\r\n",
    b"RESET\r\n",
];

/// Draws requests of a client that turns replies off and on.
pub(crate) fn bytes_of_replies(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..2 + rng.below(8) {
        bytes.extend_from_slice(PIECES_OF_REPLIES[index(rng, PIECES_OF_REPLIES.len())]);
    }
    bytes
}

/// The servers' password while requests of unauthenticated clients are compared.
pub(crate) const PASSWORD: &[u8] = b"pass";

/// Pieces of requests of a client that is not authenticated at first.
const PIECES_BEFORE_AUTH: &[&[u8]] = &[
    b"PING\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$3\r\nGET\r\n$2\r\ns0\r\n",
    b"*3\r\n$3\r\nSET\r\n$2\r\ns0\r\n$1\r\n1\r\n",
    b"NO-SUCH-COMMAND\r\n",
    b"GET\r\n",
    b"AUTH\r\n",
    b"AUTH pass\r\n",
    b"AUTH wrong\r\n",
    b"AUTH default pass\r\n",
    b"AUTH nobody pass\r\n",
    b"AUTH default pass more\r\n",
    b"*2\r\n$4\r\nauth\r\n$4\r\npass\r\n",
    b"HELLO 3 AUTH default wrong\r\n",
    b"RESET\r\n",
    b"QUIT\r\n",
    b"CLIENT REPLY ON\r\n",
    b"MULTI\r\n",
    b"EXEC\r\n",
    b"DISCARD\r\n",
    b"WATCH s0\r\n",
    b"BLPOP l0 0\r\n",
    // These pieces are at the limits for unauthenticated clients and above them: ten arguments of 16 KiB
    // each.
    b"*10\r\n",
    b"*11\r\n",
    b"*2\r\n$16384\r\n",
    b"*2\r\n$16385\r\n",
];

/// Draws requests of a client that is unauthenticated at first.
pub(crate) fn bytes_before_auth(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(5) {
        let piece = PIECES_BEFORE_AUTH[index(rng, PIECES_BEFORE_AUTH.len())];
        // Some pieces are repeated, because pending replies to unauthenticated clients are limited.
        let times = if rng.below(8) == 0 { 40 } else { 1 };
        (0..times).for_each(|_| bytes.extend_from_slice(piece));
        // RESET is the last piece, because our server parses requests that arrive in the same read after
        // RESET as those of an authenticated client.
        if piece.starts_with(b"RESET") {
            break;
        }
    }
    bytes
}

/// Draws a request that is mostly broken.
pub(crate) fn bytes(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=rng.below(4) {
        bytes.extend_from_slice(PIECES[index(rng, PIECES.len())]);
    }
    for _ in 0..rng.below(3) {
        let at = index(rng, bytes.len());
        match rng.below(4) {
            // The byte is never 255, because the reference drops such bytes from inline commands, which
            // ours does not copy.
            0 => bytes[at] = rng.below(255) as u8,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, b"0123456789-\r\n \"'\\"[index(rng, 17)]),
            _ => bytes.truncate(at.max(1)),
        }
        if bytes.is_empty() {
            bytes.push(b'\n');
        }
    }
    bytes
}

/// A long line or a long header, for the limits on both.
pub(crate) fn long_bytes(rng: &mut Rng) -> Vec<u8> {
    let length = 65_530 + index(rng, 24);
    let filler = [b'a', b' ', b'1', b'"'][index(rng, 4)];
    let mut bytes = [b"".as_slice(), b"*", b"*1\r\n$"][index(rng, 3)].to_vec();
    bytes.resize(bytes.len() + length, filler);
    if rng.below(2) == 0 {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Both replies to `bytes` if they differ even with the longer time.
pub(crate) fn differ(ports: [u16; 2], bytes: &[u8]) -> Result<Option<[Vec<u8>; 2]>> {
    let mut differing = None;
    for quiet in QUIET {
        let answers = [answer(ports[0], bytes, quiet)?, answer(ports[1], bytes, quiet)?];
        if answers[0] == answers[1] {
            return Ok(None);
        }
        differing = Some(answers);
    }
    Ok(differing)
}

/// The smallest part of `bytes` that was found to cause different replies, and these replies. The replies to
/// `bytes` itself must differ.
pub(crate) fn smallest(ports: [u16; 2], bytes: &[u8]) -> Result<(Vec<u8>, [Vec<u8>; 2])> {
    let mut answers = [Vec::new(), Vec::new()];
    let small = shrink(bytes, |part| {
        let found = differ(ports, part)?;
        let differs = found.is_some();
        answers = found.unwrap_or_else(|| std::mem::take(&mut answers));
        Ok(differs)
    })?;
    Ok((small, answers))
}

/// Everything that a server sends until it closes the connection, which `(closed)` at the end shows, or
/// sends nothing for the time `quiet`.
fn answer(port: u16, bytes: &[u8], quiet: Duration) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(quiet))?;
    let _closed = stream.write_all(bytes);
    let mut received = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => received.extend_from_slice(b"(closed)"),
            Ok(count) => {
                received.extend_from_slice(&chunk[..count]);
                continue;
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                received.extend_from_slice(b"(closed)");
            }
            Err(_) => {}
        }
        return Ok(received);
    }
}

/// The bytes in pieces of random lengths, so that a server receives requests in parts.
pub(crate) fn pieces<'a>(rng: &mut Rng, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let length = (1 + index(rng, 200)).min(bytes.len());
        let (piece, rest) = bytes.split_at(length);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// An index below `bound`.
fn index(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Rng, bytes, bytes_before_auth, pieces};
    use crate::wire::encode;

    #[test]
    fn pieces_are_the_whole() {
        let mut whole = Vec::new();
        encode(&["SET", "key", &"v".repeat(3000)], &mut whole);
        assert_eq!(pieces(&mut Rng::new(1), &whole).concat(), whole);
    }

    #[test]
    fn no_request_is_empty() {
        let mut rng = Rng::new(1);
        assert!((0..10_000).all(|_| !bytes(&mut rng).is_empty() && !bytes_before_auth(&mut rng).is_empty()));
    }
}
