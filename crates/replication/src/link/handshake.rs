//! The dialogue before the snapshot or the stream: this server's introduction and the position of its data.
//!
//! PING is sent alone, because the password is sent only to a peer that has answered. Then all introductions
//! (AUTH and REPLCONF) are sent at once, and their answers are handled one by one. PSYNC, the request for the
//! data, follows.

use super::{Credentials, HistoryPoint, LinkDecision, LinkOutput, Surroundings, TransportOrder};
use sluice_base::LogLevel;
use sluice_resp::command::push_command;

/// The capability that announces that the connection itself checks its bytes, so that a snapshot needs no
/// checksum.
pub(super) const SKIPS_CHECKSUM: &[u8] = b"skip-rdb-checksum";

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Handshake {
    /// Bytes received from the primary that were not handled yet.
    input: Vec<u8>,
    awaited: Awaited,
    /// The introductions whose answers follow the answer to `awaited`, in reverse order, so that the next one
    /// is the last element.
    asked: Vec<Awaited>,
}

/// The question whose answer is awaited next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Pong,
    Auth,
    Port,
    Address,
    Capabilities,
    Version,
    NodeId,
    /// PSYNC. `is_partial`: whether the request has named a position.
    Sync {
        is_partial: bool,
    },
}

/// The result of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The answer is incomplete.
    More,
    /// The answer was handled, and the next one is awaited.
    GoOn,
    /// The primary refuses.
    Refused,
    /// The stream follows and begins at the position of this server's data.
    Continue { replid: Option<String>, rest: Vec<u8> },
    /// The snapshot is to be received on a connection of its own.
    DualChannel,
    /// A full synchronisation follows, beginning with the snapshot at this position.
    Full { point: HistoryPoint, rest: Vec<u8> },
}

/// Whether the request for the data asks the other server to become the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandsOver {
    Yes,
    No,
}

impl Handshake {
    /// Begins a handshake and appends the bytes to be sent to `out`.
    pub(super) fn begin(out: &mut Vec<u8>) -> Handshake {
        command(out, &[b"PING"]);
        Handshake { input: Vec::new(), awaited: Awaited::Pong, asked: Vec::new() }
    }

    /// Whether PSYNC, the request for the data, was sent.
    pub(super) fn has_asked(&self) -> bool {
        matches!(self.awaited, Awaited::Sync { .. })
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Handles the next complete answer. `hands_over`: whether the other server is asked to become the
    /// primary.
    pub(super) fn next(
        &mut self,
        around: &Surroundings<'_>,
        hands_over: HandsOver,
        out: &mut Vec<LinkOutput>,
    ) -> Answer {
        let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
            if self.input.len() <= LINE_BYTES_MAX {
                return Answer::More;
            }
            out.push(
                LinkDecision::Log(LogLevel::Warning, "The primary sent a line without an end".to_owned())
                    .into(),
            );
            return Answer::Refused;
        };
        let rest = self.input.split_off(end + 1);
        let line = std::mem::replace(&mut self.input, rest);
        let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
        // A primary that needs a long time for its answer sends empty lines as signs of life.
        if line.is_empty() {
            return Answer::GoOn;
        }
        match self.awaited {
            Awaited::Pong => self.pong(line, around, hands_over, out),
            Awaited::Auth if is_error(line) => {
                log(out, LogLevel::Warning, "Unable to AUTH to PRIMARY: ", line);
                Answer::Refused
            }
            // An error means that the other server does not take over the role. In this case no other
            // request, such as SYNC, is sent.
            Awaited::Sync { .. } if hands_over == HandsOver::Yes && is_error(line) => {
                log(out, LogLevel::Notice, NOT_TAKEN_OVER, line);
                Answer::Refused
            }
            Awaited::Sync { is_partial } => self.sync(line, is_partial, around, out),
            other => {
                if is_error(line) && other != Awaited::Auth {
                    let text =
                        format!("(Non critical) Primary does not understand REPLCONF {}: ", other.name());
                    log(out, LogLevel::Notice, &text, line);
                }
                self.take_next(around, hands_over, out);
                Answer::GoOn
            }
        }
    }

    /// Awaits the answer to the next introduction; after the last one, asks for the data.
    fn take_next(&mut self, around: &Surroundings<'_>, hands_over: HandsOver, out: &mut Vec<LinkOutput>) {
        self.awaited = match self.asked.pop() {
            Some(awaited) => awaited,
            None => ask_for_data(around, hands_over, out),
        };
    }

    fn pong(
        &mut self,
        line: &[u8],
        around: &Surroundings<'_>,
        hands_over: HandsOver,
        out: &mut Vec<LinkOutput>,
    ) -> Answer {
        let is_fine = line.starts_with(b"+")
            || [&b"-NOAUTH"[..], b"-NOPERM", b"-ERR operation not permitted"]
                .iter()
                .any(|e| line.starts_with(e));
        if !is_fine {
            let quoted = [line, b"'"].concat();
            log(out, LogLevel::Warning, "Error reply to PING from primary: '", &quoted);
            return Answer::Refused;
        }
        out.push(
            LinkDecision::Log(
                LogLevel::Notice,
                "Primary replied to PING, replication can continue...".to_owned(),
            )
            .into(),
        );
        let mut bytes = Vec::new();
        let mut asked = Vec::new();
        if let Some(Credentials { user, password }) = around.credentials {
            match user {
                Some(user) => command(&mut bytes, &[b"AUTH", user, password]),
                None => command(&mut bytes, &[b"AUTH", password]),
            }
            asked.push(Awaited::Auth);
        }
        let port = around.port.to_string();
        command(&mut bytes, &[b"REPLCONF", b"listening-port", port.as_bytes()]);
        asked.push(Awaited::Port);
        if !around.address.is_empty() {
            command(&mut bytes, &[b"REPLCONF", b"ip-address", around.address]);
            asked.push(Awaited::Address);
        }
        let mut capabilities: Vec<&[u8]> = vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"];
        if around.dual_channel {
            capabilities.extend([&b"capa"[..], b"dual-channel"]);
        }
        if around.skips_checksum {
            capabilities.extend([&b"capa"[..], SKIPS_CHECKSUM]);
        }
        capabilities.extend(around.codecs.iter().flat_map(|codec| [&b"capa"[..], codec]));
        command(&mut bytes, &capabilities);
        asked.push(Awaited::Capabilities);
        command(&mut bytes, &[b"REPLCONF", b"version", around.version.as_bytes()]);
        asked.push(Awaited::Version);
        if let Some(id) = around.node_id {
            command(&mut bytes, &[b"REPLCONF", b"set-cluster-node-id", id]);
            asked.push(Awaited::NodeId);
        }
        asked.reverse();
        self.asked = asked;
        out.push(TransportOrder::Send(bytes).into());
        self.take_next(around, hands_over, out);
        Answer::GoOn
    }

    fn sync(
        &mut self,
        line: &[u8],
        is_partial: bool,
        around: &Surroundings<'_>,
        out: &mut Vec<LinkOutput>,
    ) -> Answer {
        if let Some(words) = line.strip_prefix(b"+FULLRESYNC ") {
            return self.full(words, out);
        }
        if let Some(words) = line.strip_prefix(b"+CONTINUE").filter(|_| is_partial) {
            return self.go_on(words, around, out);
        }
        if line == b"+DUALCHANNELSYNC" && around.dual_channel {
            let text = "Dual channel replication: PSYNC is not possible, initialize RDB channel.";
            out.push(LinkDecision::Log(LogLevel::Notice, text.to_owned()).into());
            return Answer::DualChannel;
        }
        if line.starts_with(b"-NOMASTERLINK") || line.starts_with(b"-LOADING") {
            let text = "Primary is currently unable to PSYNC but should be in the future: ";
            log(out, LogLevel::Notice, text, line);
            return Answer::Refused;
        }
        let text = match is_error(line) {
            true => "Primary does not support PSYNC or is in error state (reply: ",
            false => "Unexpected reply to PSYNC from primary: ",
        };
        let shown = if is_error(line) { [line, b")"].concat() } else { line.to_vec() };
        log(out, LogLevel::Notice, text, &shown);
        if line.starts_with(b"-NOAUTH") {
            out.push(LinkDecision::Log(LogLevel::Warning, PASSWORD_WANTED.to_owned()).into());
        }
        if !line.starts_with(b"-ERR unknown command") {
            return Answer::Refused;
        }
        out.push(LinkDecision::Log(LogLevel::Notice, "Retrying with SYNC...".to_owned()).into());
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"SYNC"]);
        out.push(TransportOrder::Send(bytes).into());
        // A primary that lacks PSYNC has no history in which a replica could continue.
        let point = HistoryPoint { replid: String::new(), offset: 0 };
        Answer::Full { point, rest: std::mem::take(&mut self.input) }
    }

    fn full(&mut self, words: &[u8], out: &mut Vec<LinkOutput>) -> Answer {
        let text = String::from_utf8_lossy(words).into_owned();
        let parsed = text.split_once(' ').and_then(|(replid, offset)| {
            let offset = parse_offset(offset.trim_end())?;
            is_replid(replid.as_bytes()).then(|| HistoryPoint { replid: replid.to_owned(), offset })
        });
        let Some(point) = parsed else {
            out.push(
                LinkDecision::Log(
                    LogLevel::Warning,
                    "Primary replied with wrong +FULLRESYNC syntax.".to_owned(),
                )
                .into(),
            );
            return Answer::Refused;
        };
        out.push(
            LinkDecision::Log(
                LogLevel::Notice,
                format!("Full resync from primary: {}:{}", point.replid, point.offset),
            )
            .into(),
        );
        Answer::Full { point, rest: std::mem::take(&mut self.input) }
    }

    fn go_on(&mut self, words: &[u8], around: &Surroundings<'_>, out: &mut Vec<LinkOutput>) -> Answer {
        out.push(
            LinkDecision::Log(
                LogLevel::Notice,
                "Successful partial resynchronization with primary.".to_owned(),
            )
            .into(),
        );
        let named = words.trim_ascii();
        let known = around.resume.map(|point| point.replid.as_bytes());
        let replid =
            (is_replid(named) && Some(named) != known).then(|| String::from_utf8_lossy(named).into_owned());
        if let Some(replid) = &replid {
            out.push(
                LinkDecision::Log(LogLevel::Notice, format!("Primary replication ID changed to {replid}"))
                    .into(),
            );
        }
        Answer::Continue { replid, rest: std::mem::take(&mut self.input) }
    }
}

impl Awaited {
    /// The REPLCONF option of the introduction; empty for other questions.
    fn name(self) -> &'static str {
        match self {
            Awaited::Port => "listening-port",
            Awaited::Address => "ip-address",
            Awaited::Capabilities => "capa",
            Awaited::Version => "VERSION",
            Awaited::NodeId => "SET-CLUSTER-NODE-ID",
            Awaited::Pong | Awaited::Auth | Awaited::Sync { .. } => "",
        }
    }
}

/// Asks for the stream from the present position on, or for a full synchronisation if there is no position.
fn ask_for_data(around: &Surroundings<'_>, hands_over: HandsOver, out: &mut Vec<LinkOutput>) -> Awaited {
    let mut bytes = Vec::new();
    match around.resume {
        Some(HistoryPoint { replid, offset }) => {
            let next = (offset.saturating_add(1)).to_string();
            let text = format!("Trying a partial resynchronization (request {replid}:{next}).");
            out.push(LinkDecision::Log(LogLevel::Notice, text).into());
            let words = [&b"PSYNC"[..], replid.as_bytes(), next.as_bytes(), b"FAILOVER"];
            command(&mut bytes, if hands_over == HandsOver::Yes { &words } else { &words[..3] });
        }
        None => {
            let text = "Partial resynchronization not possible (no cached primary)";
            out.push(LinkDecision::Log(LogLevel::Notice, text.to_owned()).into());
            command(&mut bytes, &[b"PSYNC", b"?", b"-1"]);
        }
    }
    out.push(TransportOrder::Send(bytes).into());
    Awaited::Sync { is_partial: around.resume.is_some() }
}

/// Parses an offset of a history. `None` if the text is no number, or a number above `i64::MAX`, because
/// no primary reaches such an offset, and lengths that are added to it must not overflow.
pub(super) fn parse_offset(text: &str) -> Option<u64> {
    text.parse().ok().filter(|offset| *offset <= i64::MAX as u64)
}

/// Appends a command as an array of strings.
pub(super) fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    push_command(out, words.iter().copied());
}

fn log(out: &mut Vec<LinkOutput>, level: LogLevel, text: &str, line: &[u8]) {
    out.push(LinkDecision::Log(level, format!("{text}{}", shown(line))).into());
}

/// The beginning of a line, as the log shows it.
pub(super) fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned()
}

fn is_error(line: &[u8]) -> bool {
    line.starts_with(b"-")
}

pub(super) fn is_replid(text: &[u8]) -> bool {
    text.len() == 40 && text.iter().all(u8::is_ascii_alphanumeric)
}

const NOT_TAKEN_OVER: &str = "The replica refused the failover: ";

/// In the log this text follows the reference's line, which reports the refusal but not the remedy.
const PASSWORD_WANTED: &str =
    "The primary requires a password: set primaryauth, and primaryuser if the primary has users";

/// Maximum length in bytes of a line; the handshake ends if more bytes arrive without a line end.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024;
/// The log shows at most this many bytes of an answer.
const SHOWN_BYTES: usize = 256;
