//! A client that keeps the server's output. Raw replies are compared byte by byte, and are parsed only when
//! they differ.
//!
//! Invariants: (1) a reply's bytes are exactly those that the server sent, attributes before it
//! included; (2) pushes are kept separately, in the order of their arrival; (3) an invalid
//! reply is an error, never a guess.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::error::Result;

/// Maximum wait for a reply, after which the server counts as hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// A parsed reply; covers only the part of RESP that comparisons need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reply {
    /// The type's first byte: `+ - : $ * _ # , ( ! = % ~ > |`.
    pub(crate) kind: u8,
    /// The content of a reply that is no aggregate; empty for aggregates and nulls.
    pub(crate) text: Vec<u8>,
    /// An aggregate's elements; keys and values in turn for maps.
    pub(crate) items: Vec<Reply>,
    /// Whether the reply is one of the nulls.
    pub(crate) null: bool,
}

/// The output of a server for a batch.
#[derive(Default)]
pub(crate) struct Answers {
    /// Raw replies in order; fewer than requested if there is an `end`.
    pub(crate) replies: Vec<Vec<u8>>,
    /// Raw pushes in order.
    pub(crate) pushes: Vec<Vec<u8>>,
    /// The reason why replies are missing, if any are.
    pub(crate) end: Option<End>,
}

/// The reason why a server stopped answering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Closed,
    Silent,
    Garbage,
}

/// A connection with its unparsed input.
pub(crate) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Connection {
    /// Connects to a port of this machine.
    pub(crate) fn open(port: u16) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, input: Vec::new() })
    }

    /// Sends `bytes`. An error is ignored, because reading the replies detects a closed connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _closed = self.stream.write_all(bytes);
    }

    /// The next reply, if it arrives within `patience`. Errors: the server has closed the connection, or
    /// sent invalid RESP.
    pub(crate) fn next_within(&mut self, patience: Duration) -> Result<Option<Vec<u8>>> {
        self.stream.set_read_timeout(Some(patience))?;
        let answers = self.receive(1);
        self.stream.set_read_timeout(Some(PATIENCE))?;
        match answers.end {
            None | Some(End::Silent) => Ok(answers.replies.into_iter().next()),
            Some(end) => Err(format!("a waiting client: {end:?}").into()),
        }
    }

    /// Reads `count` replies, and the pushes between them; fewer if the server closes, hangs or sends
    /// invalid RESP.
    pub(crate) fn receive(&mut self, count: usize) -> Answers {
        let mut answers = Answers::default();
        let mut at = 0;
        while answers.replies.len() < count {
            match extent(&self.input, at) {
                Ok(Some(end)) => {
                    let raw = self.input[at..end].to_vec();
                    if raw[0] == b'>' {
                        answers.pushes.push(raw)
                    } else {
                        answers.replies.push(raw)
                    }
                    at = end;
                    continue;
                }
                Ok(None) => answers.end = self.fill(),
                Err(()) => answers.end = Some(End::Garbage),
            }
            if answers.end.is_some() {
                break;
            }
        }
        self.input.drain(..at);
        answers
    }

    /// Reads replies and pushes in the order of their arrival, up to the first one for which `is_last` is
    /// true; this one is left out.
    pub(crate) fn receive_until(&mut self, is_last: fn(&[u8]) -> bool) -> (Vec<Vec<u8>>, Option<End>) {
        let (mut all, mut at) = (Vec::new(), 0);
        let end = loop {
            let end = match extent(&self.input, at) {
                Ok(Some(end)) => {
                    let raw = self.input[at..end].to_vec();
                    at = end;
                    if is_last(&raw) {
                        break None;
                    }
                    all.push(raw);
                    continue;
                }
                Ok(None) => self.fill(),
                Err(()) => Some(End::Garbage),
            };
            if end.is_some() {
                break end;
            }
        };
        self.input.drain(..at);
        (all, end)
    }

    /// Reads the available bytes; returns the reason if no more will come in time.
    fn fill(&mut self) -> Option<End> {
        let mut chunk = [0; 65_536];
        match self.stream.read(&mut chunk) {
            Ok(0) => Some(End::Closed),
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                None
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => None,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Some(End::Silent)
            }
            Err(_) => Some(End::Closed),
        }
    }

    /// Switches to a protocol version.
    pub(crate) fn speak(&mut self, resp: u8) -> Result<()> {
        let reply = self.ask(&[b"HELLO", resp.to_string().as_bytes()])?;
        if reply.is_error() {
            return Err(
                format!("HELLO {resp} is refused: {}; `--resp 2` goes without", reply.string()).into()
            );
        }
        Ok(())
    }

    /// Sends one command and parses its reply. Errors: no reply came in time, or it is invalid RESP.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Reply> {
        let mut bytes = Vec::new();
        encode(words, &mut bytes);
        self.send(&bytes);
        let answers = self.receive(1);
        let raw = answers.replies.first().ok_or_else(|| format!("no reply: {:?}", answers.end))?;
        parse(raw).ok_or_else(|| "a reply that is no RESP".into())
    }
}

/// Appends a command in RESP.
pub(crate) fn encode(words: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The header line at `at`: its type, its content, and the position of the next line. `None`
/// while it is incomplete.
fn header(input: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let kind = *input.get(at)?;
    let rest = &input[at + 1..];
    let length = rest.iter().position(|&byte| byte == b'\n')?;
    Some((kind, rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]), at + 1 + length + 1))
}

/// Parses the number in a header.
fn number(text: &[u8]) -> std::result::Result<i64, ()> {
    std::str::from_utf8(text).map_err(drop)?.parse().map_err(drop)
}

/// The number of elements that follow an aggregate's header.
fn elements(kind: u8, length: i64) -> u64 {
    let length = u64::try_from(length).unwrap_or(0);
    if matches!(kind, b'%' | b'|') { length.saturating_mul(2) } else { length }
}

/// The end of the reply that starts at `at`; `None` while it is incomplete, `Err` for invalid RESP.
fn extent(input: &[u8], mut at: usize) -> std::result::Result<Option<usize>, ()> {
    let mut open = 1_u64;
    while open > 0 {
        let Some((kind, text, next)) = header(input, at) else { return Ok(None) };
        at = next;
        open -= 1;
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'=' | b'!' => {
                let length = number(text)?;
                if let Ok(length) = usize::try_from(length) {
                    at = at.checked_add(length).and_then(|at| at.checked_add(2)).ok_or(())?;
                }
                if at > input.len() {
                    return Ok(None);
                }
            }
            b'*' | b'~' | b'>' => open = open.checked_add(elements(kind, number(text)?)).ok_or(())?,
            b'%' => open = open.checked_add(elements(kind, number(text)?)).ok_or(())?,
            b'|' => {
                open =
                    open.checked_add(elements(kind, number(text)?)).and_then(|n| n.checked_add(1)).ok_or(())?
            }
            _ => return Err(()),
        }
    }
    Ok(Some(at))
}

/// Parses one complete reply; attributes before it are dropped. `None` for invalid RESP.
pub(crate) fn parse(raw: &[u8]) -> Option<Reply> {
    let mut at = 0;
    parse_at(raw, &mut at)
}

/// Parses the reply at `at` and moves `at` to its end.
fn parse_at(raw: &[u8], at: &mut usize) -> Option<Reply> {
    let (kind, text, next) = header(raw, *at)?;
    *at = next;
    let mut reply = Reply { kind, text: Vec::new(), items: Vec::new(), null: kind == b'_' };
    match kind {
        b'$' | b'=' | b'!' => match usize::try_from(number(text).ok()?) {
            Ok(length) => {
                reply.text = raw.get(*at..*at + length)?.to_vec();
                *at += length + 2;
            }
            Err(_) => reply.null = true,
        },
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            let length = number(text).ok()?;
            reply.null = length < 0;
            for _ in 0..elements(kind, length) {
                reply.items.push(parse_at(raw, at)?);
            }
            if kind == b'|' {
                return parse_at(raw, at);
            }
        }
        _ => reply.text = text.to_vec(),
    }
    Some(reply)
}

impl Reply {
    /// The content as text, for names and numbers.
    pub(crate) fn string(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// The value of `name` in a map, or in an array of names and values.
    pub(crate) fn field(&self, name: &str) -> Option<&Reply> {
        self.items.chunks_exact(2).find(|pair| pair[0].text == name.as_bytes()).map(|pair| &pair[1])
    }

    /// Whether the reply is an error.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self.kind, b'-' | b'!')
    }
}

#[cfg(test)]
mod tests {
    use super::{extent, parse};

    #[test]
    fn every_prefix_of_a_reply_is_incomplete() {
        let raw = b"%1\r\n$1\r\na\r\n*3\r\n:1\r\n$-1\r\n|1\r\n+k\r\n+v\r\n=5\r\ntxt:x\r\n";
        assert_eq!(extent(raw, 0), Ok(Some(raw.len())));
        for end in 0..raw.len() {
            assert_eq!(extent(&raw[..end], 0), Ok(None), "prefix of {end} bytes");
        }
    }

    #[test]
    fn nulls_and_maps_are_parsed() {
        let reply = parse(b"%1\r\n+a\r\n*-1\r\n").expect("RESP");
        assert!(reply.field("a").expect("the field").null);
        assert!(extent(b"?1\r\n", 0).is_err());
    }
}
