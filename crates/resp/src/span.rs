//! A range of bytes that represents an argument.

/// A run of bytes: of the parsed input, of the arena's own text for inline requests, or, if it begins
/// beyond every input, an argument [apart](crate::Apart).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Length in bytes; may be 0.
    pub len: usize,
}
