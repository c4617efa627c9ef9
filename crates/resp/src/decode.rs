//! Decodes replies, for tests, tools and `--check-move`; a running server decodes no replies.
//!
//! Invariants: (1) texts are kept byte for byte, so two servers can be compared; (2) nesting is bounded,
//! and no number in the input causes an allocation.

use sluice_base::num;

/// A decoded reply. The comment of each variant shows its type byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Simple string, `+`, without the line end.
    Simple(Vec<u8>),
    /// Error, `-`, with its code.
    Error(Vec<u8>),
    /// Integer of 64 bits, `:`.
    Int(i64),
    /// Bulk string, `$`, of any bytes.
    Bulk(Vec<u8>),
    /// Null bulk string of RESP2, `$-1`.
    NullBulk,
    /// Null array of RESP2, `*-1`.
    NullArray,
    /// Null of RESP3, `_`.
    Null,
    /// Array, `*`, whose elements may be nested.
    Array(Vec<Value>),
    /// Map, `%`: pairs in the order of the reply.
    Map(Vec<(Value, Value)>),
    /// Set, `~`: members in the order of the reply.
    Set(Vec<Value>),
    /// Push, `>`: the kind, then the data.
    Push(Vec<Value>),
    /// Attributes, `|`, and the value after them.
    Attributed(Vec<(Value, Value)>, Box<Value>),
    /// Double, `,`, as text.
    Double(Vec<u8>),
    /// Boolean, `#t` or `#f`.
    Boolean(bool),
    /// Big number, `(`, as text.
    BigNumber(Vec<u8>),
    /// Verbatim string, `=`, with its format.
    Verbatim([u8; 3], Vec<u8>),
    /// Bulk error, `!`, with its code.
    BulkError(Vec<u8>),
}

/// The error for bytes that cannot be the beginning of a reply, or for a reply that is nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset of the first invalid value.
    pub offset: usize,
}

/// Decodes the first reply of `input`: the value and its length in bytes, or `None` if the
/// reply is unfinished.
///
/// Cost: linear in `input`; a caller that retries after every byte pays for all bytes each time.
pub fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut cursor = ReplyCursor { input, at: 0 };
    match cursor.value(0) {
        Ok(value) => Ok(Some((value, cursor.at))),
        Err(Incomplete::Short) => Ok(None),
        Err(Incomplete::Wrong(offset)) => Err(DecodeError { offset }),
    }
}

/// Entry point of the fuzzer: as many bytes as were counted for a decoded reply must be enough to decode
/// it again, and one byte fewer must not be enough.
pub fn fuzz_reply(data: &[u8]) {
    if let Ok(Some((value, len))) = decode(data) {
        assert!(len <= data.len());
        assert_eq!(decode(&data[..len]), Ok(Some((value, len))));
        assert_eq!(decode(&data[..len - 1]), Ok(None));
    }
}

enum Incomplete {
    Short,
    Wrong(usize),
}

struct ReplyCursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> ReplyCursor<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Incomplete> {
        let start = self.at;
        if depth > DEPTH_MAX {
            return Err(Incomplete::Wrong(start));
        }
        let kind = *self.input.get(start).ok_or(Incomplete::Short)?;
        if !KINDS.contains(&kind) {
            return Err(Incomplete::Wrong(start));
        }
        let line = self.line()?;
        let wrong = Incomplete::Wrong(start);
        Ok(match (kind, line) {
            (b'+', text) => Value::Simple(text.to_vec()),
            (b'-', text) => Value::Error(text.to_vec()),
            (b':', text) => Value::Int(num::parse_i64(text).ok_or(wrong)?),
            (b'$', b"-1") => Value::NullBulk,
            (b'*', b"-1") => Value::NullArray,
            (b'_', b"") => Value::Null,
            (b'#', b"t") => Value::Boolean(true),
            (b'#', b"f") => Value::Boolean(false),
            (b',', text) if is_double(text) => Value::Double(text.to_vec()),
            (b'(', text) if is_integer(text) => Value::BigNumber(text.to_vec()),
            (b'$', len) => Value::Bulk(self.bulk(len, start)?.to_vec()),
            (b'!', len) => Value::BulkError(self.bulk(len, start)?.to_vec()),
            (b'=', len) => match self.bulk(len, start)? {
                [a, b, c, b':', text @ ..] => Value::Verbatim([*a, *b, *c], text.to_vec()),
                _ => return Err(wrong),
            },
            (b'*', len) => Value::Array(self.values(count(len, start)?, depth)?),
            (b'~', len) => Value::Set(self.values(count(len, start)?, depth)?),
            (b'>', len) => Value::Push(self.values(count(len, start)?, depth)?),
            (b'%', len) => Value::Map(self.pairs(count(len, start)?, depth)?),
            (b'|', len) => {
                let attributes = self.pairs(count(len, start)?, depth)?;
                Value::Attributed(attributes, Box::new(self.value(depth + 1)?))
            }
            _ => return Err(wrong),
        })
    }

    /// The rest of the line after its first byte.
    fn line(&mut self) -> Result<&'a [u8], Incomplete> {
        let tail = &self.input[self.at + 1..];
        let end = memchr::memchr(b'\r', tail).ok_or(Incomplete::Short)?;
        match tail.get(end + 1) {
            None => Err(Incomplete::Short),
            Some(b'\n') => {
                self.at += end + 3;
                Ok(&tail[..end])
            }
            Some(_) => Err(Incomplete::Wrong(self.at)),
        }
    }

    fn bulk(&mut self, len: &[u8], start: usize) -> Result<&'a [u8], Incomplete> {
        let len = count(len, start)?;
        let tail = &self.input[self.at..];
        let Some(end) = len.checked_add(2).filter(|&end| end <= tail.len()) else {
            return Err(Incomplete::Short);
        };
        if tail[len..end] != *b"\r\n" {
            return Err(Incomplete::Wrong(start));
        }
        self.at += end;
        Ok(&tail[..len])
    }

    fn values(&mut self, count: usize, depth: usize) -> Result<Vec<Value>, Incomplete> {
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(depth + 1)?);
        }
        Ok(values)
    }

    fn pairs(&mut self, count: usize, depth: usize) -> Result<Vec<(Value, Value)>, Incomplete> {
        let mut pairs = Vec::new();
        for _ in 0..count {
            pairs.push((self.value(depth + 1)?, self.value(depth + 1)?));
        }
        Ok(pairs)
    }
}

fn count(text: &[u8], start: usize) -> Result<usize, Incomplete> {
    let count = num::parse_u64(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(Incomplete::Wrong(start))
}

fn is_double(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
}

fn is_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

const KINDS: &[u8] = b"+-:$*_#,(!=~>%|";
const DEPTH_MAX: usize = 128;

#[cfg(test)]
mod tests;
