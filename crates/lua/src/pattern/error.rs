//! Errors of patterns.

/// Maximum number of captures of a pattern.
pub(crate) const CAPTURES_MAX: usize = 32;

/// The reason why a match cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// The pattern ends with a percent sign.
    EndsWithPercent,
    /// A set has no closing bracket.
    MissingBracket,
    /// `%f` is not followed by a set.
    MissingFrontierSet,
    /// `%b` is not followed by two bytes.
    Unbalanced,
    /// More than [`CAPTURES_MAX`] captures.
    TooManyCaptures,
    /// `)` has no matching `(`.
    InvalidCapture,
    /// A back reference to a capture that is open or does not exist, or a replacement string names a capture
    /// that does not exist.
    InvalidCaptureIndex,
    /// A capture has no closing parenthesis.
    UnfinishedCapture,
    /// The pattern has more items than the matcher allows.
    TooComplex,
}

impl PatternError {
    /// The error message, as in PUC-Rio's Lua.
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
