//! A synchronisation over two connections: the snapshot comes on one of its own, and the stream behind it
//! meanwhile on that of the handshake, the *main channel*.
//!
//! ```text
//!  main channel:     +DUALCHANNELSYNC ─────────────────────────► set-rdb-client-id, PSYNC ──+CONTINUE──► buffered ──loaded──► stream
//!  snapshot channel:        └──► REPLCONF ... rdb-channel, SYNC ──$ENDOFF──► └──► snapshot
//! ```
//!
//! `$ENDOFF` names the position of the snapshot in the history: the main channel asks for what comes behind.
//! The snapshot may be loaded before the primary has answered that.

use super::handshake::{LINE_BYTES_MAX, SKIPS_CHECKSUM, command, is_replid, parse_offset, shown};
use super::{Credentials, HistoryPoint, Surroundings};

/// The connection of the handshake while a snapshot comes.
#[derive(Debug)]
pub(super) enum MainChannel {
    /// The snapshot comes on it.
    HasSnapshot,
    /// The primary was asked for what comes behind the snapshot.
    Asked(StreamRequest),
    /// What comes behind the snapshot is buffered; when the primary was last told that this server lives, ns.
    Buffered { told_ns: u64 },
    /// The connection has ended behind the snapshot: what was buffered is of use.
    Ended,
    /// The connection has ended before the primary has answered.
    Lost,
}

/// What is said on a snapshot's connection before the snapshot.
#[derive(Debug, Default)]
pub(super) struct SnapshotGreeting {
    input: Vec<u8>,
    awaits_auth: bool,
    has_introduced: bool,
}

/// What has come on a snapshot's connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeted {
    /// More has to come.
    More,
    /// The snapshot is asked for.
    Ask(Vec<u8>),
    /// The position of the snapshot, the client that it goes to, and what has come behind.
    Position { point: HistoryPoint, client: u64, rest: Vec<u8> },
    /// There is none, for this reason.
    Refused(String),
}

impl SnapshotGreeting {
    /// Begins; what is to be sent goes to `out`.
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

    /// Takes the next line, if it has come.
    pub(super) fn next(&mut self) -> Greeted {
        loop {
            let line = match take_line(&mut self.input) {
                Ok(Some(line)) => line,
                Ok(None) => return Greeted::More,
                Err(reason) => return Greeted::Refused(reason),
            };
            // A primary that makes a snapshot says so that it lives.
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
            // The snapshot names the database that the stream has selected.
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

/// The request for what comes behind a snapshot, on the main channel.
#[derive(Debug)]
pub(super) struct StreamRequest {
    input: Vec<u8>,
    /// The primary knows which snapshot it is about.
    is_named: bool,
}

/// What the primary has answered on the main channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamAnswer {
    /// More has to come.
    More,
    /// The stream is asked for.
    Ask(Vec<u8>),
    /// The stream follows, in the history of this id where it is another; these bytes of it have come.
    Accepted { replid: Option<String>, rest: Vec<u8> },
    /// There is none, for this reason.
    Refused(String),
}

impl StreamRequest {
    /// Begins; what is to be sent goes to `out`.
    pub(super) fn begin(client: u64, out: &mut Vec<u8>) -> StreamRequest {
        command(out, &[b"REPLCONF", b"set-rdb-client-id", client.to_string().as_bytes()]);
        StreamRequest { input: Vec::new(), is_named: false }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Takes the next line, if it has come. `point`: where the snapshot stands.
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

/// Takes a line, without its end.
fn take_line(input: &mut Vec<u8>) -> Result<Option<Vec<u8>>, String> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return match input.len() <= LINE_BYTES_MAX {
            true => Ok(None),
            false => Err("The primary answers with a line without end".to_owned()),
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
