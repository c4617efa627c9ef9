//! Findings: what a check reports.

/// Where the ratchet is: what a rule allows today, and may only shrink.
pub(super) const RATCHET: &str = "docs/tidy-ratchet.toml";

/// One broken rule at one location.
pub(crate) struct Finding {
    /// The file, relative to the root.
    pub(crate) path: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    /// What is wrong and what to do.
    pub(crate) what: String,
}

impl Finding {
    /// A finding at `path:line`.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, what: what.into() }
    }
}
