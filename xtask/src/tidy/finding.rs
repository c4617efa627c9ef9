//! Findings: the results of checks.

/// The file of the ratchet: the exceptions that are allowed today, and that may only shrink.
pub(super) const RATCHET: &str = "docs/tidy-ratchet.toml";

/// One broken rule at one location.
pub(crate) struct Finding {
    /// The file, relative to the root.
    pub(crate) path: String,
    /// Line, from 1; 0 for the whole file.
    pub(crate) line: usize,
    /// The violated rule, and advice.
    pub(crate) what: String,
}

impl Finding {
    /// A finding at `path:line`.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, what: what.into() }
    }
}
