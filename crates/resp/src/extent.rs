//! Finds the end of a reply while its bytes arrive, for callers that receive replies from an untrusted peer.
//!
//! Invariants: (1) the bytes of a text are not examined, and an unfinished line is scanned again only up
//! to [`LINE_BYTES_MAX`]; (2) nothing is allocated; (3) the caller's limits bound the bytes and the
//! values of a reply, and a reply that announces more is refused before all of it has arrived.

use crate::DecodeError;

/// Limits on the size of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Maximum length in bytes of the whole reply.
    pub bytes: usize,
    /// Maximum number of values in the whole reply, including aggregates.
    pub values: usize,
}

/// The reason why the search for the end of a reply was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentError {
    /// The bytes are not a reply.
    Wrong(DecodeError),
    /// The reply is larger than its limits, or has a line of more than [`LINE_BYTES_MAX`] bytes.
    TooLarge,
}

/// The search for the end of one reply.
#[derive(Clone, Copy, Debug)]
pub struct ReplyExtent {
    limits: ReplyLimits,
    /// Offset of the next value; beyond the input if a text is unfinished.
    at: usize,
    /// Number of announced values that were not reached yet.
    pending: usize,
    /// Number of values announced so far.
    values: usize,
}

impl ReplyExtent {
    /// A search that begins at the first byte of a reply.
    pub fn new(limits: ReplyLimits) -> ReplyExtent {
        ReplyExtent { limits, at: 0, pending: 1, values: 1 }
    }

    /// The length of the reply in bytes, or `None` while it is unfinished. `input` has all bytes received
    /// since the reply's first byte, and grows with each call. The bytes found may still be no valid
    /// reply: only [`decode`](crate::decode()) checks the inside of texts and numbers.
    ///
    /// # Errors
    /// See [`ExtentError`]; after an error the search is over.
    pub fn find(&mut self, input: &[u8]) -> Result<Option<usize>, ExtentError> {
        while self.pending > 0 {
            if self.at > self.limits.bytes {
                return Err(ExtentError::TooLarge);
            }
            let Some(rest) = input.get(self.at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
            let line_max = LINE_BYTES_MAX.min(self.limits.bytes - self.at);
            let head = &rest[..rest.len().min(line_max + 2)];
            let Some(end) = memchr::memchr(b'\r', head) else {
                return if rest.len() > line_max { Err(ExtentError::TooLarge) } else { Ok(None) };
            };
            match rest.get(end + 1) {
                None => return Ok(None),
                Some(b'\n') => {}
                Some(_) => return Err(self.wrong()),
            }
            self.pending -= 1;
            match (rest[0], &rest[1..end.max(1)]) {
                (b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(', _) | (b'$' | b'*', b"-1") => {
                    self.at += end + 2;
                }
                (b'$' | b'!' | b'=', digits) => {
                    let len = self.number(digits)?;
                    let next = self.at.checked_add(end + 4).and_then(|at| at.checked_add(len));
                    self.at = next.ok_or(ExtentError::TooLarge)?;
                }
                (kind @ (b'*' | b'~' | b'>' | b'%' | b'|'), digits) => {
                    let count = self.number(digits)?;
                    let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                    // An attribute does not count as the value that it describes, because that value
                    // follows it.
                    let own = usize::from(kind == b'|');
                    self.announce(count.saturating_mul(each).saturating_add(own))?;
                    self.at += end + 2;
                }
                _ => return Err(self.wrong()),
            }
        }
        match self.at {
            at if at > self.limits.bytes => Err(ExtentError::TooLarge),
            at if at > input.len() => Ok(None),
            at => Ok(Some(at)),
        }
    }

    fn announce(&mut self, count: usize) -> Result<(), ExtentError> {
        self.values = self.values.saturating_add(count);
        if self.values > self.limits.values {
            return Err(ExtentError::TooLarge);
        }
        self.pending += count;
        Ok(())
    }

    fn number(&self, digits: &[u8]) -> Result<usize, ExtentError> {
        let number = sluice_base::num::parse_u64(digits).ok_or(self.wrong())?;
        usize::try_from(number).map_err(|_| ExtentError::TooLarge)
    }

    fn wrong(&self) -> ExtentError {
        ExtentError::Wrong(DecodeError { offset: self.at })
    }
}

/// The longest line of a reply that the search accepts, in bytes. Simple strings, errors and numbers are
/// lines, and so are headers; bulk texts are not.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Entry point of the fuzzer: the search must find the same end as decoding, into however many pieces the
/// bytes are cut. The first byte gives the length of a piece.
pub fn fuzz_extent(data: &[u8]) {
    let Some((&step, data)) = data.split_first() else { return };
    let limits = ReplyLimits { bytes: 1 << 20, values: 1 << 16 };
    let whole = ReplyExtent::new(limits).find(data);
    let mut extent = ReplyExtent::new(limits);
    let mut cut = Ok(None);
    for end in (0..data.len()).step_by(usize::from(step).max(1)).chain([data.len()]) {
        cut = extent.find(&data[..end]);
        if cut != Ok(None) {
            break;
        }
    }
    // `TooLarge` is not compared, because whether an unfinished line is too long depends on how much of
    // the line has arrived.
    if cut != Err(ExtentError::TooLarge) && whole != Err(ExtentError::TooLarge) {
        assert_eq!(cut, whole);
    }
    if let (Ok(Some((_, len))), Ok(found)) = (crate::decode(data), whole) {
        assert_eq!(found, Some(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReplyLimits = ReplyLimits { bytes: 200, values: 12 };

    fn find(input: &[u8]) -> Result<Option<usize>, ExtentError> {
        ReplyExtent::new(LIMITS).find(input)
    }

    #[test]
    fn the_end_is_found_whatever_follows_and_however_the_bytes_come() {
        let replies: [&[u8]; 9] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b"$-1\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"*0\r\n",
            b"*3\r\n:1\r\n*1\r\n$1\r\nx\r\n_\r\n",
            b"%2\r\n+a\r\n#t\r\n+b\r\n,1.5\r\n",
            b"|1\r\n+k\r\n+v\r\n~1\r\n=7\r\ntxt:abc\r\n",
            b">2\r\n(123\r\n!3\r\nERR\r\n",
        ];
        for reply in replies {
            let text = String::from_utf8_lossy(reply);
            assert_eq!(find(&[reply, b"+more\r\n"].concat()), Ok(Some(reply.len())), "{text}");
            let mut extent = ReplyExtent::new(LIMITS);
            for end in 0..reply.len() {
                assert_eq!(extent.find(&reply[..end]), Ok(None), "{text} up to {end}");
            }
            assert_eq!(extent.find(reply), Ok(Some(reply.len())), "{text}");
            (1..9).for_each(|step| fuzz_extent(&[&[step], reply].concat()));
        }
    }

    #[test]
    fn what_is_too_large_is_refused_as_soon_as_it_is_announced() {
        for input in
            ["$201\r\n", "$18446744073709551615\r\n", "*12\r\n", "*9999999999999999999\r\n", "%6\r\n"]
        {
            let refused = ReplyExtent::new(LIMITS).find(format!("{input}+x\r\n").as_bytes());
            assert_eq!(refused, Err(ExtentError::TooLarge), "{input}");
        }
        assert_eq!(find(&[b'+'; 300]), Err(ExtentError::TooLarge));
        assert_eq!(find("*1\r\n".repeat(60).as_bytes()), Err(ExtentError::TooLarge));
    }

    #[test]
    fn random_bytes_end_where_decoding_ends() {
        let words: [&[u8]; 14] = [
            b"*2", b"%1", b"|1", b"~0", b"$1", b"$-1", b"x", b":5", b"+a", b"\r\n", b"\r\n", b"\r\n", b"*-1",
            b"#t",
        ];
        let mut rng = sluice_base::Rng::new(4);
        for _ in 0..20_000 {
            let mut data = vec![1 + rng.below(5) as u8];
            for _ in 0..rng.below(16) {
                data.extend_from_slice(words[rng.below(words.len() as u64) as usize]);
            }
            fuzz_extent(&data);
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for input in ["HTTP/1.1 400\r\n", "\r\n", "$x\r\n", "*-2\r\n", "+a\rb", ":"] {
            let refused = find(input.as_bytes());
            let is_wrong = matches!(refused, Err(ExtentError::Wrong(_)));
            assert!(is_wrong || input == ":", "{input}: {refused:?}");
        }
    }
}
