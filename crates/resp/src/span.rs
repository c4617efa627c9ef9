//! A range of bytes that represents an argument.

/// A range of the parsed input, or of the arena's own text for inline requests. A span that begins beyond
/// the end of any input stands for an argument [apart](crate::Apart).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Length in bytes; may be 0.
    pub len: usize,
}
