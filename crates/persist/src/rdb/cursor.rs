//! Primitives of the format, read from an input that may be incomplete.
//!
//! Invariant: no announced length is trusted: a text is returned when all its bytes are there; otherwise
//! more bytes are requested.

use super::error::{LoadError, Problem};
use super::form;
use sluice_base::lzf;
use std::borrow::Cow;

/// The reason why reading stops.
#[derive(Debug)]
pub(super) enum ReadStop {
    /// More bytes are needed.
    Need {
        /// With fewer bytes than this, counted from the beginning of the cursor's input, a retry is
        /// useless.
        total: usize,
        /// Offset in the file of the missing bytes.
        offset: u64,
    },
    /// The bytes are malformed. The error is boxed, so that the results of these functions are small.
    Bad(Box<LoadError>),
}

/// A position in the bytes that have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputCursor<'i> {
    input: &'i [u8],
    at: usize,
    /// Offset of `input` in the file.
    base: u64,
}

/// The beginning of a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum TextHead {
    /// The text is the digits of an integer, and was read completely.
    Int(i64),
    /// This many bytes follow.
    Plain(u64),
    /// `small` bytes follow that decompress to `len` bytes.
    Lzf { small: u64, len: u64 },
}

impl<'i> InputCursor<'i> {
    /// A cursor at the beginning of `input`, which is at offset `base` of the file.
    pub(super) fn new(input: &'i [u8], base: u64) -> InputCursor<'i> {
        InputCursor { input, at: 0, base }
    }

    /// Bytes of the input that were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Offset in the file.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// An error at `offset`.
    pub(super) fn bad<T>(&self, offset: u64, problem: Problem) -> Result<T, ReadStop> {
        Err(ReadStop::Bad(Box::new(LoadError { offset, problem })))
    }

    pub(super) fn take(&mut self, len: u64) -> Result<&'i [u8], ReadStop> {
        let end = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(self.at);
        let Some(bytes) = self.input.get(self.at..end) else {
            return Err(ReadStop::Need { total: end, offset: self.offset() });
        };
        self.at = end;
        Ok(bytes)
    }

    /// Takes the available bytes, at most `len`; needs more bytes if none is available. `len` is not 0.
    pub(super) fn take_some(&mut self, len: u64) -> Result<&'i [u8], ReadStop> {
        let there = (self.input.len() - self.at) as u64;
        self.take(len.min(there).max(1))
    }

    /// An array of bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadStop> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, ReadStop> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a length; special encodings of texts are malformed here.
    pub(super) fn len(&mut self) -> Result<u64, ReadStop> {
        let offset = self.offset();
        let first = self.byte()?;
        match self.len_from(first)? {
            Some(len) => Ok(len),
            None => self.bad(offset, Problem::Length),
        }
    }

    /// Reads a length whose first byte is `first`; `None` if `first` begins something else.
    fn len_from(&mut self, first: u8) -> Result<Option<u64>, ReadStop> {
        Ok(Some(match first {
            0..0x40 => u64::from(first),
            0x40..0x80 => u64::from(first & 0x3f) << 8 | u64::from(self.byte()?),
            form::LEN_32 => u64::from(u32::from_be_bytes(self.array()?)),
            form::LEN_64 => u64::from_be_bytes(self.array()?),
            _ => return Ok(None),
        }))
    }

    /// Reads the beginning of a text, up to its bytes.
    pub(super) fn text_head(&mut self) -> Result<TextHead, ReadStop> {
        let offset = self.offset();
        let first = self.byte()?;
        Ok(match first {
            form::INT_8 => TextHead::Int(i64::from(i8::from_le_bytes(self.array()?))),
            form::INT_16 => TextHead::Int(i64::from(i16::from_le_bytes(self.array()?))),
            form::INT_32 => TextHead::Int(i64::from(i32::from_le_bytes(self.array()?))),
            form::LZF => TextHead::Lzf { small: self.len()?, len: self.len()? },
            _ => match self.len_from(first)? {
                Some(len) => TextHead::Plain(len),
                None => return self.bad(offset, Problem::Length),
            },
        })
    }

    /// Reads a plain text and a plain or compressed text, both of less than 16 KiB. Together these are a key
    /// with a short string, and most files have millions of such pairs. `None`, with nothing read, if the
    /// texts have other forms, are incomplete or are malformed.
    #[inline]
    pub(super) fn short_pair(&mut self) -> Option<(&'i [u8], Cow<'i, [u8]>)> {
        let (key_len, rest) = short_len(self.input.get(self.at..)?)?;
        let (key, rest) = rest.split_at_checked(key_len)?;
        let (text, rest) = match rest.split_first()? {
            (&form::LZF, rest) => {
                let (small, rest) = short_len(rest)?;
                let (len, rest) = short_len(rest)?;
                let (packed, rest) = rest.split_at_checked(small)?;
                (Cow::Owned(lzf::decompress(packed, len)?), rest)
            }
            _ => {
                let (len, rest) = short_len(rest)?;
                let (text, rest) = rest.split_at_checked(len)?;
                (Cow::Borrowed(text), rest)
            }
        };
        self.at = self.input.len() - rest.len();
        Some((key, text))
    }

    /// Reads a text: plain, an integer's digits, or decompressed.
    pub(super) fn text(&mut self) -> Result<Cow<'i, [u8]>, ReadStop> {
        let offset = self.offset();
        match self.text_head()? {
            TextHead::Int(number) => Ok(Cow::Owned(number.to_string().into_bytes())),
            TextHead::Plain(len) => self.take(len).map(Cow::Borrowed),
            TextHead::Lzf { small, len } => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                match lzf::decompress(self.take(small)?, len) {
                    Some(text) => Ok(Cow::Owned(text)),
                    // As in the reference, the text is empty: the failed decompression yields no bytes, and
                    // none were announced.
                    None if len == 0 => Ok(Cow::Borrowed(b"")),
                    None => self.bad(offset, Problem::Compression),
                }
            }
        }
    }
}

/// A length of one or two bytes, and the bytes after it.
#[inline]
fn short_len(input: &[u8]) -> Option<(usize, &[u8])> {
    match *input {
        [first @ 0..0x40, ref rest @ ..] => Some((usize::from(first), rest)),
        [first @ 0x40..0x80, second, ref rest @ ..] => {
            Some((usize::from(first & 0x3f) << 8 | usize::from(second), rest))
        }
        _ => None,
    }
}
