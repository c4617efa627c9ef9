//! Parts of the frames of compressed files and streams, which are decoded one by one.

use super::error::Problem;

/// A part of a frame that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FramePart {
    /// The part has so many bytes.
    Read(usize),
    /// The part has so many bytes, and is the last of its frame.
    Last(usize),
}

/// Why a part is not decoded.
#[derive(Debug)]
pub(super) enum PartStop {
    /// The part has at least so many bytes.
    Need(usize),
    Bad(Problem),
}

/// What is wrong with a frame.
pub(super) fn bad<T>(reason: &'static str) -> Result<T, PartStop> {
    Err(PartStop::Bad(Problem::Frame(reason)))
}

/// The first `len` bytes of what is not decoded.
pub(super) fn head(input: &[u8], len: usize) -> Result<&[u8], PartStop> {
    input.get(..len).ok_or(PartStop::Need(len))
}
