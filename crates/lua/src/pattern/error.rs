//! What a pattern can be refused for.

/// Captures of a pattern at most.
pub(crate) const CAPTURES_MAX: usize = 32;

/// Why a pattern cannot be matched further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// A percent sign at the end.
    EndsWithPercent,
    /// A set without its end.
    MissingBracket,
    /// `%f` without a set.
    MissingFrontierSet,
    /// `%b` without its two bytes.
    Unbalanced,
    /// More than [`CAPTURES_MAX`] captures.
    TooManyCaptures,
    /// `)` without `(`.
    InvalidCapture,
    /// A back reference to a capture that is open or is not there.
    InvalidCaptureIndex,
    /// A capture without its end.
    UnfinishedCapture,
    /// More items than the matcher holds.
    TooComplex,
}

impl PatternError {
    /// PUC's text.
    pub(crate) fn text(self) -> &'static str {
        match self {
            PatternError::EndsWithPercent => "malformed pattern (ends with '%')",
            PatternError::MissingBracket => "malformed pattern (missing ']')",
            PatternError::MissingFrontierSet => "missing '[' after '%f' in pattern",
            PatternError::Unbalanced => "unbalanced pattern",
            PatternError::TooManyCaptures => "too many captures",
            PatternError::InvalidCapture => "invalid pattern capture",
            PatternError::InvalidCaptureIndex => "invalid capture index",
            PatternError::UnfinishedCapture => "unfinished capture",
            PatternError::TooComplex => "pattern too complex",
        }
    }
}
