//! A synchronisation over two connections: the snapshot arrives on a connection of its own, while the stream
//! that follows the snapshot arrives on the connection of the handshake, the *main channel*.
//!
//! ```text
//!  main channel:     +DUALCHANNELSYNC ─────────────────────────► set-rdb-client-id, PSYNC ──+CONTINUE──► buffered ──loaded──► stream
//!  snapshot channel:        └──► REPLCONF ... rdb-channel, SYNC ──$ENDOFF──► └──► snapshot
//! ```
//!
//! `$ENDOFF` names the position of the snapshot in the history, from which the main channel asks for the
//! stream. The snapshot may be loaded before the primary has answered that request.

use super::handshake::{LINE_BYTES_MAX, SKIPS_CHECKSUM, command, is_replid, parse_offset, shown};
use super::{Credentials, HistoryPoint, Surroundings};

/// The connection of the handshake while the snapshot is received.
#[derive(Debug)]
pub(super) enum MainChannel {
    /// The snapshot arrives on this connection, because the synchronisation has only one.
    HasSnapshot,
    /// The primary was asked for the stream that follows the snapshot.
    Asked(StreamRequest),
    /// The stream after the snapshot is buffered. `told_ns`: when a sign of life was last sent to the
    /// primary, ns.
    Buffered { told_ns: u64 },
    /// The connection has ended after the primary's answer. The buffered bytes are still executed after the
    /// load.
    Ended,
    /// The connection has ended before the primary has answered.
    Lost,
}

/// The dialogue that precedes the snapshot on the snapshot's own connection.
#[derive(Debug, Default)]
pub(super) struct SnapshotGreeting {
    input: Vec<u8>,
    awaits_auth: bool,
    has_introduced: bool,
}

/// The next event on a snapshot's connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeted {
    /// The answer is incomplete.
    More,
    /// Send these bytes, which request the snapshot.
    Ask(Vec<u8>),
    /// The position of the snapshot, the primary's id of the client that receives the snapshot, and the bytes
    /// after the answer.
    Position { point: HistoryPoint, client: u64, rest: Vec<u8> },
    /// The primary sends no snapshot; the text is the reason.
    Refused(String),
}

impl SnapshotGreeting {
    /// Begins the dialogue and appends the bytes to be sent to `out`.
    pub(super) fn begin(around: &Surroundings<'_>, out: &mut Vec<u8>) -> SnapshotGreeting {
        let awaits_auth = around.credentials.is_some();
        match around.credentials {
            Some(Credentials { user: Some(user), password }) => command(out, &[b"AUTH", user, password]),
            Some(Credentials { user: None, password }) => command(out, &[b"AUTH", password]),
            None => {}
        }
        let port = around.port.to_string();
        let mut words: Vec<&[u8]> =
            vec![b"REPLCONF", b"capa", b"eof", b"rdb-only", b"1", b"rdb-channel", b"1"];
        if !around.address.is_empty() {
            words.extend([&b"ip-address"[..], around.address]);
        }
        words.extend([&b"listening-port"[..], port.as_bytes(), b"version", around.version.as_bytes()]);
        if around.skips_checksum {
            words.extend([&b"capa"[..], SKIPS_CHECKSUM]);
        }
        words.extend(around.codecs.iter().flat_map(|codec| [&b"capa"[..], codec]));
        command(out, &words);
        SnapshotGreeting { input: Vec::new(), awaits_auth, has_introduced: false }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Handles the next complete line.
    pub(super) fn next(&mut self) -> Greeted {
        loop {
            let line = match take_line(&mut self.input) {
                Ok(Some(line)) => line,
                Ok(None) => return Greeted::More,
                Err(reason) => return Greeted::Refused(reason),
            };
            // A primary that makes a snapshot sends empty lines as a sign of life.
            if line.is_empty() {
                continue;
            }
            if self.has_introduced {
                return self.read_position(&line);
            }
            if line.starts_with(b"-") {
                let what = if self.awaits_auth { "Unable to AUTH to Primary: " } else { OLD_PRIMARY };
                return Greeted::Refused(format!("{what}{}", shown(&line)));
            }
            if std::mem::take(&mut self.awaits_auth) {
                continue;
            }
            self.has_introduced = true;
            return Greeted::Ask(b"SYNC\r\n".to_vec());
        }
    }

    fn read_position(&mut self, line: &[u8]) -> Greeted {
        let text = String::from_utf8_lossy(line).into_owned();
        let mut words = text.strip_prefix("$ENDOFF:").unwrap_or_default().split(' ');
        let mut parsed = || {
            let offset = parse_offset(words.next()?)?;
            let replid = words.next().filter(|replid| is_replid(replid.as_bytes()))?.to_owned();
            // The database is not needed, because the snapshot itself names the database that the stream
            // has selected.
            let _db: i64 = words.next()?.parse().ok()?;
            let client = words.next()?.parse().ok()?;
            words.next().is_none().then_some((HistoryPoint { replid, offset }, client))
        };
        match parsed() {
            Some((point, client)) => {
                Greeted::Position { point, client, rest: std::mem::take(&mut self.input) }
            }
            None => Greeted::Refused(format!("Received unexpected $ENDOFF response: {}", shown(line))),
        }
    }
}

/// The request for the stream after a snapshot, on the main channel.
#[derive(Debug)]
pub(super) struct StreamRequest {
    input: Vec<u8>,
    /// Whether the primary has acknowledged the id of the snapshot's client, so that PSYNC was sent.
    is_named: bool,
}

/// The primary's answer on the main channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamAnswer {
    /// The answer is incomplete.
    More,
    /// Send these bytes, which request the stream.
    Ask(Vec<u8>),
    /// The stream follows, and begins with the bytes `rest`; `replid` is the new id of the history, if
    /// the primary has named one.
    Accepted { replid: Option<String>, rest: Vec<u8> },
    /// The primary does not send the stream; the text is the reason.
    Refused(String),
}

impl StreamRequest {
    /// Begins the request and appends the bytes to be sent to `out`.
    pub(super) fn begin(client: u64, out: &mut Vec<u8>) -> StreamRequest {
        command(out, &[b"REPLCONF", b"set-rdb-client-id", client.to_string().as_bytes()]);
        StreamRequest { input: Vec::new(), is_named: false }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Handles the next complete line. `point`: the position of the snapshot.
    pub(super) fn next(&mut self, point: &HistoryPoint) -> StreamAnswer {
        loop {
            let line = match take_line(&mut self.input) {
                Ok(Some(line)) => line,
                Ok(None) => return StreamAnswer::More,
                Err(reason) => return StreamAnswer::Refused(reason),
            };
            if line.is_empty() {
                continue;
            }
            if line.starts_with(b"-") {
                return StreamAnswer::Refused(shown(&line));
            }
            if !std::mem::replace(&mut self.is_named, true) {
                let mut bytes = Vec::new();
                let next = point.offset.saturating_add(1).to_string();
                command(&mut bytes, &[b"PSYNC", point.replid.as_bytes(), next.as_bytes()]);
                return StreamAnswer::Ask(bytes);
            }
            let Some(words) = line.strip_prefix(b"+CONTINUE") else {
                return StreamAnswer::Refused(shown(&line));
            };
            let named = words.trim_ascii();
            let replid = (is_replid(named) && named != point.replid.as_bytes())
                .then(|| String::from_utf8_lossy(named).into_owned());
            return StreamAnswer::Accepted { replid, rest: std::mem::take(&mut self.input) };
        }
    }
}

/// Takes a line off the input, without its line end; `None` if the line is incomplete. Errors: more than
/// `LINE_BYTES_MAX` bytes have arrived without a line end.
fn take_line(input: &mut Vec<u8>) -> Result<Option<Vec<u8>>, String> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return match input.len() <= LINE_BYTES_MAX {
            true => Ok(None),
            false => Err("The primary sent a line without an end".to_owned()),
        };
    };
    let rest = input.split_off(end + 1);
    let mut line = std::mem::replace(input, rest);
    line.truncate(end);
    if line.ends_with(b"\r") {
        line.pop();
    }
    Ok(Some(line))
}

const OLD_PRIMARY: &str =
    "Server does not support sync with offset, dual channel sync approach cannot be used: ";
