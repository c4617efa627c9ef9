//! The command stream of a primary, which may be compressed.
//!
//! `docs/formats/rdb.md` describes the bytes: an envelope, and frames that are flushed whenever the
//! primary has no more to send. A stream without an envelope is plain.

use super::error::LoadError;
use super::frame::{MAGIC, PackedContents, Unpacked, Unpacker};
use std::fmt;

/// A stream that arrives in pieces.
#[derive(Debug)]
pub struct PackedStream {
    form: StreamForm,
}

/// The form of the stream.
#[derive(Debug)]
enum StreamForm {
    /// Too few bytes have arrived to decide whether the stream is compressed; the variant holds these bytes.
    Undecided(Vec<u8>),
    Plain,
    Compressed(Box<Unpacker>),
}

/// The reason why a stream cannot be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The stream is malformed.
    Bad(LoadError),
    /// The bytes of one `feed` decompress to more than 1 GiB.
    TooMuch,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Bad(error) => {
                write!(f, "the compressed stream is malformed: {error}")
            }
            StreamError::TooMuch => {
                write!(f, "the compressed stream has more than {} bytes", BURST_BYTES_MAX)
            }
        }
    }
}

impl Default for PackedStream {
    fn default() -> PackedStream {
        PackedStream { form: StreamForm::Undecided(Vec::new()) }
    }
}

impl PackedStream {
    /// Adds bytes that have arrived, and appends the commands to `plain`. The bytes of an incomplete block
    /// are kept until the block is complete.
    ///
    /// # Errors
    /// The reason why the stream cannot be continued. The commands before the fault have been appended to
    /// `plain`.
    pub fn feed(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), StreamError> {
        match &mut self.form {
            StreamForm::Plain => plain.extend_from_slice(bytes),
            StreamForm::Compressed(unpacker) => {
                unpacker.feed(bytes);
                return self.unpack(plain);
            }
            StreamForm::Undecided(start) => {
                start.extend_from_slice(bytes);
                // Empty lines, which a primary sends as a sign of life, are passed on; they do not show
                // whether the stream is compressed.
                let lines = start.iter().take_while(|byte| **byte == b'\n').count();
                plain.extend(start.drain(..lines));
                if start.starts_with(MAGIC) {
                    // Checksums are verified here, because the frames of Valkey's streams have checksums
                    // of blocks, though none of the whole contents.
                    let unpacker = Unpacker::new(PackedContents::Stream, std::mem::take(start), true);
                    self.form = StreamForm::Compressed(Box::new(unpacker));
                    return self.unpack(plain);
                }
                if !MAGIC.starts_with(start.as_slice()) {
                    plain.append(start);
                    self.form = StreamForm::Plain;
                }
            }
        }
        Ok(())
    }

    fn unpack(&mut self, plain: &mut Vec<u8>) -> Result<(), StreamError> {
        let StreamForm::Compressed(unpacker) = &mut self.form else { return Ok(()) };
        let bound = plain.len().saturating_add(BURST_BYTES_MAX);
        while unpacker.step(plain).map_err(StreamError::Bad)? == Unpacked::Part {
            if plain.len() > bound {
                return Err(StreamError::TooMuch);
            }
        }
        Ok(())
    }

    /// Number of bytes that are held back.
    pub fn held_bytes(&self) -> usize {
        match &self.form {
            StreamForm::Undecided(start) => start.capacity(),
            StreamForm::Plain => 0,
            StreamForm::Compressed(unpacker) => unpacker.rest().len(),
        }
    }
}

/// Entry point of the fuzzer: the stream `data` must give the same result whether it arrives whole or in
/// pieces.
pub fn fuzz_packed_stream(data: &[u8]) {
    let run = |piece: usize| {
        let (mut stream, mut plain) = (PackedStream::default(), Vec::new());
        let outcome = data.chunks(piece).try_for_each(|piece| stream.feed(piece, &mut plain));
        (plain, outcome)
    };
    assert_eq!(run(data.len().max(1)), run(3));
}

/// Number of bytes to which the input of one [`PackedStream::feed`] may decompress: the maximum of a
/// client's query buffer. A single receive reads only some ten KiB, so normal data stay below this.
const BURST_BYTES_MAX: usize = 1 << 30;
