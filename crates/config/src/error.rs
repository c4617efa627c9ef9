//! Where a line of a configuration stands, and the error that ends the start. An error shows its line without
//! the secrets in it.

use crate::secret::{DirectiveName, HIDDEN, directive, names_secret, shown_part};
use sluice_base::quote;
use std::borrow::Cow;

/// Why a configuration was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A line is wrong.
    Line(BadLine),
    /// An included file cannot be read.
    Include {
        /// Where the directive stands.
        location: Location,
        /// What the directive named.
        path: String,
        /// The system's reason.
        reason: String,
    },
}

/// A line that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Where it stands.
    pub location: Location,
    /// What is wrong with it.
    pub reason: String,
}

/// The source of a line that is an option of the command line.
pub const COMMAND_LINE: &str = "command line";

/// Where a directive stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file's name as given to [`crate::parse_file`] or by the loader; [`COMMAND_LINE`] for an option.
    pub source: String,
    /// Counted from 1; for [`crate::parse_file`] the command line's options follow the file's last line, as
    /// in the reference.
    pub line: usize,
    /// The line without blanks at its ends.
    pub text: String,
    /// How many `include`s lead to it.
    pub depth: usize,
}

impl LoadError {
    /// What the operator reads: several lines, the first empty; `version` is the server's. The first lines
    /// are the reference's; ours follow them: where an option stands, what is wrong with a comment, how to
    /// see all errors at once.
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

/// A word of a line, as far as others may see it: behind `>`, `<`, `#` or `!` stands a password or its
/// digest. What begins with an escape may be any of these. Behind parentheses no password is allowed, which
/// whoever writes one there learns by the error. `None`: there is no secret in it.
pub(crate) fn without_secret(word: &str) -> Option<String> {
    let head = word.len() - word.trim_start_matches(['"', '\'', '(']).len();
    let shown = match word[head..].chars().next()? {
        '>' | '<' | '#' | '!' => head + 1,
        '\\' => head,
        _ => return None,
    };
    (shown < word.len()).then(|| format!("{}{HIDDEN}", &word[..shown]))
}

/// The words of a line, with their quotes: split at the blanks that stand outside of quotes.
fn quoted_words(text: &str) -> Vec<&str> {
    let (mut quote, mut is_escaped, mut last) = (None, false, ' ');
    let splits = |char: char| {
        let before = std::mem::replace(&mut last, char);
        match quote {
            None if matches!(char, '"' | '\'') => quote = Some(char),
            None => return matches!(char, ' ' | '\t' | '\r' | '\n'),
            Some('"') if std::mem::take(&mut is_escaped) => {}
            Some('"') if char == '\\' => is_escaped = true,
            // Between single quotes a backslash is itself, but for that ahead of a quote.
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

/// What a `#` behind a value is taken for surprises those who know other formats.
const COMMENT_HINT: &str = "a comment must stand on a line of its own";

impl Location {
    /// The line as others may see it: terminals and logs are read by many. Where quotes do not match, nothing
    /// is shown that stands behind the first secret.
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
            // A password with a blank ahead of it.
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

    /// Lines for the operator beyond the reference's: none for most errors.
    fn hint(&self) -> String {
        if self.source == COMMAND_LINE {
            let shown = self.shown();
            let name = shown.split_whitespace().next().unwrap_or_default();
            return format!("This line is from the command line: option --{name}.\n");
        }
        if self.has_comment_behind_words() {
            return format!("The line has a '#' behind its first word: {COMMENT_HINT}.\n");
        }
        String::new()
    }

    /// Whether a word of the line's, but the first, is `#`: what begins with it may be a password's hash. An
    /// option of the command line has no comments.
    fn has_comment_behind_words(&self) -> bool {
        self.source != COMMAND_LINE && self.text.split_whitespace().skip(1).any(|word| word == "#")
    }
}

/// One line that names file and line, for a list of errors: `a.conf:3: reason: 'the line'`, with a hint
/// behind it where a comment is taken for a value.
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
        if location.has_comment_behind_words() { write!(f, " ({COMMENT_HINT})") } else { Ok(()) }
    }
}

/// A command that shall have another name.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The command's name, as given.
    pub from: Vec<u8>,
    /// Its new name; empty removes it.
    pub to: Vec<u8>,
    pub(crate) location: Location,
}

/// Equal when they rename alike, wherever they stand.
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
