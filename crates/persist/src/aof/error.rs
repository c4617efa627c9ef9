//! Errors in a log of commands.

use crate::rdb::LoadError;
use sluice_resp::ParseError;
use std::fmt;

/// The reason why a log was refused, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// Offset of the fault, in bytes; for a fault in the snapshot, the offset of its [`LoadError`].
    pub offset: u64,
    /// The fault at that offset.
    pub problem: LogProblem,
}

/// Faults of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogProblem {
    /// The snapshot at the beginning is malformed.
    Preamble(LoadError),
    /// A record begins with this byte, which is neither `*` nor `#`.
    Marker(u8),
    /// The number of arguments is not a number, is less than 1, or is too large.
    Count,
    /// An argument does not begin with `$`, but with this byte.
    Dollar(u8),
    /// The length of an argument is not a number, is negative, or exceeds the options' limit.
    Length,
    /// A line end is missing.
    LineEnd,
    /// A line ends in LF, and not in CR LF.
    LineFeed,
    /// The last line of the file begins with `#` and has no end, and no server writes an annotation that
    /// begins like that.
    Annotation,
    /// A transaction begins inside another one.
    NestedMulti,
    /// EXEC appears without a MULTI before it.
    ExecWithoutMulti,
}

impl LogProblem {
    /// The fault for an error of the request parser.
    pub(super) fn of(error: ParseError) -> LogProblem {
        match error {
            ParseError::BigInline
            | ParseError::UnbalancedQuotes
            | ParseError::BigCount
            | ParseError::InvalidCount
            | ParseError::UnauthenticatedCount => LogProblem::Count,
            ParseError::BigLength | ParseError::InvalidLength | ParseError::UnauthenticatedLength => {
                LogProblem::Length
            }
            ParseError::ExpectedDollar(byte) => LogProblem::Dollar(byte),
            ParseError::InvalidCrlf => LogProblem::LineEnd,
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match &self.problem {
            LogProblem::Preamble(error) => write!(f, "RDB preamble: {error}"),
            LogProblem::Marker(byte) => write!(
                f,
                "a command or an annotation should begin at byte {offset}, with '*' or '#', not '{}'",
                byte.escape_ascii()
            ),
            LogProblem::Count => write!(f, "invalid number of arguments at byte {offset}"),
            LogProblem::Dollar(byte) => {
                write!(
                    f,
                    "an argument should begin at byte {offset}, with '$', not '{}'",
                    byte.escape_ascii()
                )
            }
            LogProblem::Length => write!(f, "invalid length of an argument at byte {offset}"),
            LogProblem::LineEnd => write!(f, "missing line end in the record at byte {offset}"),
            LogProblem::LineFeed => write!(
                f,
                "the record at byte {offset} has a line that ends in LF and not in CR LF: a program has converted the line ends \
                 of the file, as git does with text. Take the file from where it was not converted"
            ),
            LogProblem::Annotation => {
                write!(f, "the annotation at byte {offset} has no end, and is none that a server writes")
            }
            LogProblem::NestedMulti => write!(f, "MULTI inside of a transaction at byte {offset}"),
            LogProblem::ExecWithoutMulti => write!(f, "EXEC without MULTI at byte {offset}"),
        }
    }
}

impl std::error::Error for LogError {}
