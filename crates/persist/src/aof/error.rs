//! What can be wrong with a log of commands.

use crate::rdb::LoadError;
use sluice_resp::ParseError;
use std::fmt;

/// Why a log was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError {
    /// Bytes before the mistake.
    pub offset: u64,
    /// What is wrong there.
    pub problem: LogProblem,
}

/// What can be wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogProblem {
    /// The snapshot at the beginning.
    Preamble(LoadError),
    /// A record begins with this byte, which is neither `*` nor `#`.
    Marker(u8),
    /// The number of arguments is none, or below one.
    Count,
    /// An argument does not begin with `$`, but with this byte.
    Dollar(u8),
    /// The length of an argument is none, negative, or larger than the options allow.
    Length,
    /// No line end stands where one must.
    LineEnd,
    /// A line ends in LF alone, and not in CR LF.
    LineFeed,
    /// What stands at the end of the file behind a `#` is the beginning of no annotation.
    Annotation,
    /// A transaction begins inside of another.
    NestedMulti,
    /// A transaction ends that did not begin.
    ExecWithoutMulti,
}

impl LogProblem {
    /// What a parser of requests found.
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
