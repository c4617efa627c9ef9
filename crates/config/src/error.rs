//! The location of a configuration line, and the error that prevents the server's start. An error shows its
//! line without the secrets in it.

use crate::secret::{DirectiveName, HIDDEN, directive, names_secret, shown_part};
use sluice_base::quote;
use std::borrow::Cow;

/// Why a configuration was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A line of the configuration is wrong.
    Line(BadLine),
    /// An included file cannot be read.
    Include {
        /// The position of the `include` directive.
        location: Location,
        /// The path that the directive names.
        path: String,
        /// The error text of the system.
        reason: String,
    },
}

/// A line that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The file, line number and text of the line.
    pub location: Location,
    /// The reason, in the reference's words where it has the same check.
    pub reason: String,
}

/// The source of a line that is an option of the command line.
pub const COMMAND_LINE: &str = "command line";

/// The position of a directive in a file or on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file's name as given to [`crate::parse_file`] or by the loader; [`COMMAND_LINE`] for an option.
    pub source: String,
    /// Line number from 1; 0: no line is known. For [`crate::parse_file`] the command line's options follow
    /// the file's last line, as in the reference.
    pub line: usize,
    /// The line without blanks at its ends.
    pub text: String,
    /// Number of nested `include`s that lead to the file; 0 for the config file and the command line.
    pub depth: usize,
}

impl LoadError {
    /// The text for the operator, in several lines; `version` is the server's version. The first lines are
    /// the reference's. Lines of this server follow, for example the hint about comments, and how to list all
    /// errors at once.
    pub fn report(&self, version: &str) -> String {
        match self {
            LoadError::Line(bad) => {
                let Location { source, line, depth, .. } = &bad.location;
                let text = bad.location.shown();
                let reason = &bad.reason;
                let file = match depth {
                    0 => "the configuration file".to_owned(),
                    _ => format!("the included file '{source}'"),
                };
                format!(
                    "\n*** FATAL CONFIG FILE ERROR (Version {version}) ***\n\
                     Reading {file}, at line {line}\n>>> '{text}'\n{reason}\n{}{CHECK_HINT}",
                    bad.location.hint()
                )
            }
            LoadError::Include { location, path, reason } => {
                let Location { source, line, .. } = location;
                format!(
                    "Fatal error, can't open config file '{path}': {reason}\n\
                     The file is included by {source}, line {line}.\n{CHECK_HINT}"
                )
            }
        }
    }
}

/// A word of a `user` line with its secret hidden. A password or its digest follows after `>`, `<`, `#` or
/// `!`. A word that begins with an escape may be any of these. After `(` a password is not allowed, but a
/// password that was written there must not be shown by the error. `None`: the word has no secret.
pub(crate) fn without_secret(word: &str) -> Option<String> {
    let head = word.len() - word.trim_start_matches(['"', '\'', '(']).len();
    let shown = match word[head..].chars().next()? {
        '>' | '<' | '#' | '!' => head + 1,
        '\\' => head,
        _ => return None,
    };
    (shown < word.len()).then(|| format!("{}{HIDDEN}", &word[..shown]))
}

/// The words of a line, with their quotes: split at the blanks outside of quotes.
fn quoted_words(text: &str) -> Vec<&str> {
    let (mut quote, mut is_escaped, mut last) = (None, false, ' ');
    let splits = |char: char| {
        let before = std::mem::replace(&mut last, char);
        match quote {
            None if matches!(char, '"' | '\'') => quote = Some(char),
            None => return matches!(char, ' ' | '\t' | '\r' | '\n'),
            Some('"') if std::mem::take(&mut is_escaped) => {}
            Some('"') if char == '\\' => is_escaped = true,
            // Between single quotes a backslash is literal, except before a quote.
            Some('\'') if before == '\\' => {}
            Some(open) if char == open => quote = None,
            Some(_) => {}
        }
        false
    };
    text.split(splits).filter(|word| !word.is_empty()).collect()
}

/// The last line of a report.
const CHECK_HINT: &str =
    "sluice-server --check-config lists everything that is wrong with a configuration.\n";

/// The hint about `#` after a value, which other file formats take for a comment.
const COMMENT_HINT: &str = "a comment must stand on a line of its own";

impl Location {
    /// The line without its secrets, because terminals and logs have many readers. Where quotes do not match,
    /// the text after the first secret is left out.
    fn shown(&self) -> Cow<'_, str> {
        let words = quoted_words(&self.text);
        let name = words.first().map_or("", |name| name.trim_matches(['"', '\'']));
        let whole = Cow::Borrowed(self.text.as_str());
        match directive(name.as_bytes()) {
            DirectiveName::Param if names_secret(name.as_bytes()) => {
                return match words.len() {
                    0 | 1 => whole,
                    _ => Cow::Owned(format!("{} {HIDDEN}", words[0])),
                };
            }
            DirectiveName::Users => {}
            DirectiveName::Param | DirectiveName::Plain => {
                return shown_part(&self.text, true).map_or(whole, Cow::Owned);
            }
            DirectiveName::Unknown => return shown_part(&self.text, false).map_or(whole, Cow::Owned),
        }
        let is_whole = quote::split_args(self.text.as_bytes(), quote::Dialect::Config).is_ok();
        let mut shown: Vec<Cow<'_, str>> = Vec::with_capacity(words.len());
        let mut has_secrets = false;
        for (at, word) in words.iter().enumerate() {
            // The word is a password if a blank separates it from its `>` or `<`.
            let is_password = at > 0 && matches!(words[at - 1], ">" | "<");
            let hidden = if is_password { Some(HIDDEN.to_owned()) } else { without_secret(word) };
            has_secrets |= hidden.is_some();
            shown.push(hidden.map_or(Cow::Borrowed(*word), Cow::Owned));
            if has_secrets && !is_whole {
                break;
            }
        }
        if has_secrets { Cow::Owned(shown.join(" ")) } else { Cow::Borrowed(&self.text) }
    }

    /// Additional lines for the operator; empty for most errors.
    fn hint(&self) -> String {
        if self.source == COMMAND_LINE {
            let shown = self.shown();
            let name = shown.split_whitespace().next().unwrap_or_default();
            return format!("This line is from the command line: option --{name}.\n");
        }
        if self.has_trailing_comment() {
            return format!("The line has a '#' behind its first word: {COMMENT_HINT}.\n");
        }
        String::new()
    }

    /// Whether a word of the line, other than its first, is a lone `#`. Longer words with `#` do not count,
    /// because they may be hashes of passwords. Options of the command line have no comments.
    fn has_trailing_comment(&self) -> bool {
        self.source != COMMAND_LINE && self.text.split_whitespace().skip(1).any(|word| word == "#")
    }
}

/// One line with file and line number, for a list of errors: `a.conf:3: reason: 'the line'`. A hint
/// follows where a value seems to be meant as a comment.
impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let location = match self {
            LoadError::Line(bad) => &bad.location,
            LoadError::Include { location, .. } => location,
        };
        if location.line > 0 {
            write!(f, "{}:{}: ", location.source, location.line)?;
        }
        match self {
            LoadError::Line(bad) => f.write_str(bad.reason.trim_end())?,
            LoadError::Include { path, reason, .. } => {
                write!(f, "can't open config file '{path}': {reason}")?
            }
        }
        if location.line > 0 {
            write!(f, ": '{}'", location.shown())?;
        }
        if location.has_trailing_comment() { write!(f, " ({COMMENT_HINT})") } else { Ok(()) }
    }
}

/// A `rename-command` directive.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The command's name, as given.
    pub from: Vec<u8>,
    /// The command's new name; empty removes the command.
    pub to: Vec<u8>,
    pub(crate) location: Location,
}

/// Equal when both names are equal, whatever the location.
impl PartialEq for Rename {
    fn eq(&self, other: &Rename) -> bool {
        (&self.from, &self.to) == (&other.from, &other.to)
    }
}

impl Rename {
    /// The error that there is no such command.
    pub fn unknown_command(&self) -> LoadError {
        self.error("No such command in rename-command")
    }

    /// The error that another command has the new name.
    pub fn name_taken(&self) -> LoadError {
        self.error("Target command name already exists")
    }

    fn error(&self, reason: &str) -> LoadError {
        LoadError::Line(BadLine { location: self.location.clone(), reason: reason.into() })
    }
}
