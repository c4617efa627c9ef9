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

/// Where a directive stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file's name as given to [`crate::parse_file`] or by the loader.
    pub source: String,
    /// Counted from 1; the command line's options follow the file's last line.
    pub line: usize,
    /// The line without blanks at its ends.
    pub text: String,
    /// How many `include`s lead to it.
    pub depth: usize,
}

impl LoadError {
    /// What the operator reads: several lines, the first empty; `version` is the server's.
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
                     Reading {file}, at line {line}\n>>> '{text}'\n{reason}\n"
                )
            }
            LoadError::Include { path, reason, .. } => {
                format!("Fatal error, can't open config file '{path}': {reason}\n")
            }
        }
    }
}

/// One line that names file and line, for a list of errors: `a.conf:3: reason: 'the line'`.
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
        if place.line > 0 { write!(f, ": '{}'", place.text) } else { Ok(()) }
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
