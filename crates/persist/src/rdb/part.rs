//! Parts of the frames of compressed files and streams, which are decoded one by one.

use super::error::Problem;

/// A decoded part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePart {
    /// The part has this many bytes.
    Read(usize),
    /// The part has this many bytes, and is the last one of its frame.
    Last(usize),
}

/// The reason why a part was not decoded.
#[derive(Debug)]
pub(super) enum PartStop {
    /// The part needs at least this many bytes.
    Need(usize),
    Bad(Problem),
}

/// An error for a malformed frame.
pub(super) fn bad<T>(reason: &'static str) -> Result<T, PartStop> {
    Err(PartStop::Bad(Problem::Frame(reason)))
}

/// The first `len` bytes of `input`, or [`PartStop::Need`] if it is shorter.
pub(super) fn head(input: &[u8], len: usize) -> Result<&[u8], PartStop> {
    input.get(..len).ok_or(PartStop::Need(len))
}
