//! `user` and `role` lines: kept as they stand, for whoever knows what a user is.

use crate::error::{BadLine, COMMAND_LINE, LoadError, Location};

/// A `user` or `role` line of the configuration, not judged yet.
#[derive(Clone)]
pub struct UserLine {
    words: Vec<Vec<u8>>,
    all_channels: bool,
    location: Location,
}

/// Equal when they say the same, wherever they stand.
impl PartialEq for UserLine {
    fn eq(&self, other: &UserLine) -> bool {
        (&self.words, self.all_channels) == (&other.words, other.all_channels)
    }
}

/// A rule may be a password.
impl std::fmt::Debug for UserLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserLine").finish_non_exhaustive()
    }
}

/// A user or role whose line does not stand in the config file itself: a rewrite cannot change that line.
#[derive(Clone, Debug, PartialEq)]
pub struct OutsideUser {
    /// What it is called.
    pub name: Vec<u8>,
    /// Its canonical line, `user NAME …` or `role NAME …`, at the start.
    pub line: Vec<u8>,
    /// The included file, or [`COMMAND_LINE`].
    pub source: String,
}

impl UserLine {
    pub(crate) fn new(words: Vec<Vec<u8>>, all_channels: bool, location: Location) -> UserLine {
        UserLine { words, all_channels, location }
    }

    /// The words of the line, `user` or `role` in whatever case first, then a name; what they mean is for the
    /// caller to say.
    pub fn words(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }

    /// What [`crate::Config::all_channels_by_default`] was where the line stands.
    pub fn all_channels(&self) -> bool {
        self.all_channels
    }

    /// The file or the command line that has the line, where that is not the config file itself.
    pub fn outside_source(&self) -> Option<&str> {
        let outside = self.location.depth > 0 || self.location.source == COMMAND_LINE;
        outside.then_some(self.location.source.as_str())
    }

    /// The error that the line cannot be taken; `word` is the position of the word that the error shows.
    pub fn error(&self, word: usize, reason: &str) -> LoadError {
        let shown = self.words.get(word).map_or(&[][..], |word| crate::number::until_zero(word));
        // The word may be a rule.
        let shown = String::from_utf8_lossy(shown);
        let shown = crate::error::without_secret(&shown).unwrap_or(shown.into_owned());
        let what = if self.is_role() { "role" } else { "user" };
        self.bad_line(format!("Error in {what} declaration '{shown}': {reason}"))
    }

    /// Whether the line describes a role.
    pub fn is_role(&self) -> bool {
        self.words.first().is_some_and(|first| first.eq_ignore_ascii_case(b"role"))
    }

    /// The error that the line cannot be taken, with a reason of the caller's own.
    pub fn bad_line(&self, reason: String) -> LoadError {
        LoadError::Line(BadLine { location: self.location.clone(), reason })
    }
}
