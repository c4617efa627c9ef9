//! The frame in which a primary sends a snapshot: a line that says how the snapshot ends, then the
//! snapshot.
//!
//! ```text
//!  \n \n $1234\r\n            <1234 bytes>
//!  \n    $EOF:<40 bytes>\r\n  <bytes> <the same 40 bytes>
//! ```
//!
//! Empty lines before that line are signs of life. The 40 bytes are a random mark, which is looked for only
//! at the end of the bytes received so far, because a primary sends nothing after the mark until the replica
//! answers.

/// The way in which the end of a snapshot is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The snapshot has this many bytes.
    Sized(u64),
    /// The snapshot ends with a random mark of 40 bytes.
    Marked,
}

/// The reason why no snapshot can be read from the received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramingError {
    /// The primary answers with this error.
    Refused(String),
    /// The line is not one that a primary would send.
    Protocol(String),
}

impl std::fmt::Display for FramingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FramingError::Refused(line) => write!(f, "PRIMARY aborted replication with an error: {line}"),
            FramingError::Protocol(line) => write!(
                f,
                "Bad protocol from PRIMARY, the first byte is not '$' (we received '{line}'), are you sure the host and \
                 port are right?"
            ),
        }
    }
}

/// Extracts the snapshot from the bytes that a connection receives.
#[derive(Debug, Default)]
pub struct Framing {
    /// The bytes of the first line that have arrived so far.
    line: Vec<u8>,
    state: FramingState,
}

#[derive(Debug, Default)]
enum FramingState {
    #[default]
    Line,
    Sized(u64),
    Marked {
        mark: Vec<u8>,
        /// The last bytes received, which may be the mark or its beginning.
        tail: Vec<u8>,
    },
    Ended,
}

impl Framing {
    /// Whether the whole snapshot has arrived.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, FramingState::Ended)
    }

    /// The number of bytes that may be read now, at most `room`. A snapshot of known size is not read
    /// past its end, because the replication stream follows.
    pub fn welcome(&self, room: usize) -> usize {
        match self.state {
            FramingState::Sized(left) => usize::try_from(left).unwrap_or(room).min(room),
            FramingState::Line | FramingState::Marked { .. } | FramingState::Ended => room,
        }
    }

    /// Reads the first line out of `bytes`. Returns the number of bytes that belong to the line, and the
    /// line's meaning once the line is complete.
    pub fn line(&mut self, bytes: &[u8]) -> Result<(usize, Option<Extent>), FramingError> {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if self.line.is_empty() => {}
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    return Ok((at + 1, Some(self.begin(&line)?)));
                }
                b'\r' => {}
                _ if self.line.len() >= LINE_BYTES_MAX => {
                    return Err(FramingError::Protocol(shown(&self.line)));
                }
                _ => self.line.push(*byte),
            }
        }
        Ok((bytes.len(), None))
    }

    fn begin(&mut self, line: &[u8]) -> Result<Extent, FramingError> {
        if line.starts_with(b"-") {
            return Err(FramingError::Refused(shown(line)));
        }
        let protocol = || FramingError::Protocol(shown(line));
        let rest = line.strip_prefix(b"$").ok_or_else(protocol)?;
        if let Some(mark) = rest.strip_prefix(b"EOF:") {
            if mark.len() != MARK_LEN {
                return Err(protocol());
            }
            self.state = FramingState::Marked { mark: mark.to_vec(), tail: Vec::with_capacity(2 * MARK_LEN) };
            return Ok(Extent::Marked);
        }
        let text = std::str::from_utf8(rest).map_err(|_| protocol())?;
        let size: u64 = text.parse().map_err(|_| protocol())?;
        self.state = if size == 0 { FramingState::Ended } else { FramingState::Sized(size) };
        Ok(Extent::Sized(size))
    }

    /// Takes bytes after the line and passes those of the snapshot to `give`. Returns the number of
    /// bytes that belong to the snapshot or its mark.
    pub fn payload<E>(
        &mut self,
        bytes: &[u8],
        give: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        match &mut self.state {
            FramingState::Line | FramingState::Ended => Ok(0),
            FramingState::Sized(left) => {
                let own = usize::try_from(*left).unwrap_or(bytes.len()).min(bytes.len());
                *left -= own as u64;
                if *left == 0 {
                    self.state = FramingState::Ended;
                }
                give(&bytes[..own])?;
                Ok(own)
            }
            FramingState::Marked { mark, tail } => {
                if bytes.len() >= MARK_LEN {
                    give(tail)?;
                    let (own, last) = bytes.split_at(bytes.len() - MARK_LEN);
                    give(own)?;
                    tail.clear();
                    tail.extend_from_slice(last);
                } else {
                    tail.extend_from_slice(bytes);
                    let before = tail.len().saturating_sub(MARK_LEN);
                    give(&tail[..before])?;
                    tail.drain(..before);
                }
                if tail == mark {
                    self.state = FramingState::Ended;
                }
                Ok(bytes.len())
            }
        }
    }
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned()
}

/// Maximum length in bytes of the first line.
const LINE_BYTES_MAX: usize = 1024;
/// Length in bytes of a mark.
const MARK_LEN: usize = 40;
/// The log shows at most this many bytes of a line.
const SHOWN_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const MARK: &str = "0123456789abcdefghij0123456789abcdefghij";

    /// The result for bytes that arrive in pieces of this size: the snapshot, the bytes after it, and whether
    /// the snapshot has ended.
    fn parse(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>, bool), FramingError> {
        let (mut framing, mut snapshot, mut rest) = (Framing::default(), Vec::new(), Vec::new());
        let mut extent = None;
        for mut piece in bytes.chunks(piece) {
            if extent.is_none() {
                let (used, found) = framing.line(piece)?;
                (piece, extent) = (&piece[used..], found);
            }
            let give = &mut |bytes: &[u8]| {
                snapshot.extend_from_slice(bytes);
                Ok::<(), Infallible>(())
            };
            let used = framing.payload(piece, give).unwrap_or(0);
            rest.extend_from_slice(&piece[used..]);
        }
        Ok((snapshot, rest, framing.has_ended()))
    }

    #[test]
    fn a_snapshot_of_a_known_size_ends_where_the_stream_begins() {
        for piece in 1..30 {
            let parsed = parse(b"\n\r\n$10\r\n0123456789*1\r\n$4\r\nPING\r\n", piece);
            assert_eq!(parsed, Ok((b"0123456789".to_vec(), b"*1\r\n$4\r\nPING\r\n".to_vec(), true)));
        }
    }

    #[test]
    fn a_snapshot_with_a_mark_ends_with_the_mark() {
        for (piece, len) in (1..120).flat_map(|piece| [0, 1, 39, 40, 41, 100].map(|len| (piece, len))) {
            let payload: Vec<u8> = (0..len).map(|i| b'a' + (i % 7) as u8).collect();
            let bytes = [format!("\n$EOF:{MARK}\r\n").as_bytes(), &payload, MARK.as_bytes()].concat();
            assert_eq!(parse(&bytes, piece), Ok((payload, Vec::new(), true)), "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        assert!(matches!(parse(b"-ERR no\r\n", 3), Err(FramingError::Refused(line)) if line == "-ERR no"));
        for line in ["HTTP/1.1 400\r\n", "$\r\n", "$-5\r\n", "$12x\r\n", "$EOF:short\r\n", "+OK\r\n"] {
            assert!(matches!(parse(line.as_bytes(), 4), Err(FramingError::Protocol(_))), "{line}");
        }
        assert!(parse(&[b'$'; 3000], 100).is_err(), "a line without end");
    }

    #[test]
    fn one_that_is_cut_off_has_not_ended() {
        let text = format!("$EOF:{MARK}\r\nabcdef{}", &MARK[..39]);
        assert!(!parse(text.as_bytes(), 8).unwrap().2);
        assert!(!parse(b"$7\r\nabcdef", 8).unwrap().2);
    }

    #[test]
    fn no_more_is_welcome_than_belongs_to_the_snapshot() {
        let mut framing = Framing::default();
        assert_eq!(framing.welcome(4096), 4096);
        framing.line(b"$10\r\n").unwrap();
        assert_eq!(framing.welcome(4096), 10);
    }
}
