//! Where a line of a configuration stands, and the error that ends the start.

/// Why a configuration was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// A line is wrong.
    Line(BadLine),
    /// An included file cannot be read.
    Include {
        /// Where the directive stands.
        place: Location,
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
    pub place: Location,
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
                let Location { source, line, text, depth } = &bad.place;
                let reason = &bad.reason;
                let file = match depth {
                    0 => "the configuration file".to_owned(),
                    _ => format!("the included file '{source}'"),
                };
                format!(
                    "\n*** FATAL CONFIG FILE ERROR (Version {version}) ***\n\
                     Reading {file}, at line {line}\n>>> '{text}'\n{reason}\n{}{CHECK_HINT}",
                    bad.place.hint()
                )
            }
            LoadError::Include { place, path, reason } => {
                let Location { source, line, .. } = place;
                format!(
                    "Fatal error, can't open config file '{path}': {reason}\n\
                     The file is included by {source}, line {line}.\n{CHECK_HINT}"
                )
            }
        }
    }
}

/// The last line of a report.
const CHECK_HINT: &str =
    "sluice-server --check-config lists everything that is wrong with a configuration.\n";

/// What a `#` behind a value is taken for surprises those who know other formats.
const COMMENT_HINT: &str = "a comment must stand on a line of its own";

impl Location {
    /// Lines for the operator beyond the reference's: none for most errors.
    fn hint(&self) -> String {
        if self.source == COMMAND_LINE {
            let name = self.text.split_whitespace().next().unwrap_or_default();
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
        let place = match self {
            LoadError::Line(bad) => &bad.place,
            LoadError::Include { place, .. } => place,
        };
        if place.line > 0 {
            write!(f, "{}:{}: ", place.source, place.line)?;
        }
        match self {
            LoadError::Line(bad) => f.write_str(bad.reason.trim_end())?,
            LoadError::Include { path, reason, .. } => {
                write!(f, "can't open config file '{path}': {reason}")?
            }
        }
        if place.line > 0 {
            write!(f, ": '{}'", place.text)?;
        }
        if place.has_comment_behind_words() { write!(f, " ({COMMENT_HINT})") } else { Ok(()) }
    }
}

/// A command that shall have another name.
#[derive(Clone, Debug)]
pub struct Rename {
    /// The command's name, as given.
    pub from: Vec<u8>,
    /// Its new name; empty removes it.
    pub to: Vec<u8>,
    pub(crate) place: Location,
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
        LoadError::Line(BadLine { place: self.place.clone(), reason: reason.into() })
    }
}
