//! `user` and `role` lines, kept unparsed: the caller interprets them.

use crate::error::{BadLine, COMMAND_LINE, LoadError, Location};

/// A `user` or `role` line of the configuration, not checked yet.
#[derive(Clone)]
pub struct UserLine {
    words: Vec<Vec<u8>>,
    all_channels: bool,
    location: Location,
}

/// Equal when the words and the default for channels are equal, whatever the location.
impl PartialEq for UserLine {
    fn eq(&self, other: &UserLine) -> bool {
        (&self.words, self.all_channels) == (&other.words, other.all_channels)
    }
}

/// Leaves out the words, because a rule may be a password.
impl std::fmt::Debug for UserLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserLine").finish_non_exhaustive()
    }
}

/// A user or role that is defined outside of the config file itself: a rewrite cannot change its line.
#[derive(Clone, Debug, PartialEq)]
pub struct OutsideUser {
    /// The name of the user or role.
    pub name: Vec<u8>,
    /// The canonical line as of the server's start, `user NAME …` or `role NAME …`.
    pub line: Vec<u8>,
    /// The included file, or [`COMMAND_LINE`].
    pub source: String,
}

impl UserLine {
    pub(crate) fn new(words: Vec<Vec<u8>>, all_channels: bool, location: Location) -> UserLine {
        UserLine { words, all_channels, location }
    }

    /// The words of the line: `user` or `role` in any case, then a name, then rules.
    /// The caller interprets them.
    pub fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }

    /// The value of [`crate::Config::all_channels_by_default`] when the line was read.
    pub fn all_channels(&self) -> bool {
        self.all_channels
    }

    /// The included file or [`COMMAND_LINE`] that has the line; `None` for the config file itself.
    pub fn outside_source(&self) -> Option<&str> {
        let outside = self.location.depth > 0 || self.location.source == COMMAND_LINE;
        outside.then_some(self.location.source.as_str())
    }

    /// The error that the line is not valid; `word` is the position of the word that the error shows.
    pub fn error(&self, word: usize, reason: &str) -> LoadError {
        let shown = self.words.get(word).map_or(&[][..], |word| crate::number::until_zero(word));
        // The word may be a rule that contains a password, so the password is hidden.
        let shown = String::from_utf8_lossy(shown);
        let shown = crate::error::without_secret(&shown).unwrap_or(shown.into_owned());
        let what = if self.is_role() { "role" } else { "user" };
        self.bad_line(format!("Error in {what} declaration '{shown}': {reason}"))
    }

    /// Whether the line describes a role.
    pub fn is_role(&self) -> bool {
        self.words.first().is_some_and(|first| first.eq_ignore_ascii_case(b"role"))
    }

    /// The error that the line is not valid, with a reason of the caller.
    pub fn bad_line(&self, reason: String) -> LoadError {
        LoadError::Line(BadLine { location: self.location.clone(), reason })
    }
}
