//! The config file: lines of words, and included files.

use sluice_base::quote::{Dialect, Unbalanced, split_args};

use crate::config::Config;
use crate::error::{BadLine, COMMAND_LINE, LoadError, Location, Rename};
use crate::row::{ParamId, Traits};
use crate::table::{RETIRED, param};
use crate::user_line::UserLine;
use crate::value::{Onto, Reason};

/// The work that some lines require from the process while the file is read, because later lines depend on
/// it.
pub trait Loader {
    /// Reads the files that an `include` names: all that match a pattern, each with its name, in order.
    ///
    /// A pattern without matches is an empty list; a plain path that cannot be read is an error, with the
    /// text of the system.
    fn include(&mut self, pattern: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String>;

    /// Changes to the folder of a `dir` line: relative paths of later lines start there. The error is the
    /// text of the system.
    fn enter(&mut self, folder: &[u8]) -> Result<(), String>;
}

/// A function as a loader: it reads included files, and every `dir` succeeds.
impl<F: FnMut(&[u8]) -> Result<Vec<(String, Vec<u8>)>, String>> Loader for F {
    fn include(&mut self, pattern: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        self(pattern)
    }

    fn enter(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

/// The configuration that `text` describes, followed by `options`, the lines of [`crate::CommandLine`].
///
/// `source` names the text in errors. If a parameter has several lines, the last wins; only lines of `save`,
/// `client-output-buffer-limit` and `announce-endpoint-for` add up.
pub fn parse_file(
    text: &[u8],
    source: &str,
    options: &[u8],
    loader: &mut dyn Loader,
) -> Result<Config, LoadError> {
    let mut load = Load::new(1, loader);
    // Lines of the options are counted from the end of the file, because the reference appends the options
    // to the file.
    let lines_before = text.split(|byte| *byte == b'\n').count();
    let _stopped =
        load.text(text, source, 0).and_then(|()| load.lines(options, COMMAND_LINE, 0, lines_before));
    load.contradictions();
    match load.errors.pop() {
        Some(error) => Err(error),
        None => Ok(load.config),
    }
}

/// The configuration that `texts` describe, each with the name that errors use, and all errors in them: a
/// wrong line leaves the configuration as it was. The list ends at a hundred errors.
pub fn check_texts(texts: &[(&str, &[u8])], loader: &mut dyn Loader) -> (Config, Vec<LoadError>) {
    let mut load = Load::new(ERRORS_MAX, loader);
    for (source, text) in texts {
        if load.text(text, source, 0).is_err() {
            break;
        }
    }
    load.contradictions();
    (load.config, load.errors)
}

/// A load under way.
struct Load<'a> {
    config: Config,
    /// Whether a `save` line has replaced the default save points.
    save_seen: bool,
    /// Files that were included so far, at any depth.
    included: usize,
    /// The errors so far, at most `errors_max`.
    errors: Vec<LoadError>,
    errors_max: usize,
    loader: &'a mut dyn Loader,
}

/// The number of errors has reached the limit: loading stops.
struct TooManyErrors;

/// Why a line was not accepted, before its location is known.
enum LineFailure {
    Here(Reason),
    /// The included file that could not be read, and the system's reason.
    Include(String, String),
    /// An included file reached the limit of errors, which are recorded already.
    TooManyErrors,
}

impl<T: Into<Reason>> From<T> for LineFailure {
    fn from(reason: T) -> LineFailure {
        LineFailure::Here(reason.into())
    }
}

impl<'a> Load<'a> {
    fn new(errors_max: usize, loader: &'a mut dyn Loader) -> Load<'a> {
        let config = Config::default();
        Load { config, save_seen: false, included: 0, errors: Vec::new(), errors_max, loader }
    }

    /// Loads the lines of `text` and records the errors in them.
    fn text(&mut self, text: &[u8], source: &str, depth: usize) -> Result<(), TooManyErrors> {
        self.lines(text, source, depth, 0)
    }

    /// Loads the lines of `text`, which follow `lines_before` other lines of the file.
    fn lines(
        &mut self,
        text: &[u8],
        source: &str,
        depth: usize,
        lines_before: usize,
    ) -> Result<(), TooManyErrors> {
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = trimmed(line);
            if matches!(line, [] | [b'#' | 0, ..]) {
                continue;
            }
            let location = || Location {
                source: source.into(),
                line: lines_before + index + 1,
                text: String::from_utf8_lossy(line).into_owned(),
                depth,
            };
            let Err(failed) = self.line(line, depth, &location) else { continue };
            self.errors.push(match failed {
                LineFailure::Here(reason) => {
                    LoadError::Line(BadLine { location: location(), reason: reason.into() })
                }
                LineFailure::Include(path, reason) => {
                    LoadError::Include { location: location(), path, reason }
                }
                LineFailure::TooManyErrors => return Err(TooManyErrors),
            });
            if self.errors.len() >= self.errors_max {
                return Err(TooManyErrors);
            }
        }
        Ok(())
    }

    /// Records conflicts between lines that are valid one by one.
    fn contradictions(&mut self) {
        if self.errors.len() < self.errors_max
            && self.config.bool(param::CLUSTER_ENABLED)
            && self.config.replica_of().is_some()
        {
            let reason = "replicaof directive not allowed in cluster mode";
            self.errors.push(self.config.cannot_apply(param::REPLICAOF, reason));
        }
    }

    fn line(
        &mut self,
        line: &[u8],
        depth: usize,
        location: &dyn Fn() -> Location,
    ) -> Result<(), LineFailure> {
        let words = split_args(line, Dialect::Config)
            .map_err(|Unbalanced| "Unbalanced quotes in configuration line")?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let Some((name, arguments)) = words.split_first() else { return Ok(()) };
        match ParamId::find(name) {
            Some(id) => {
                let before = self.config.value(id).clone();
                self.set(id, arguments)?;
                if id == param::DIR.any()
                    && let Err(reason) = self.loader.enter(self.config.bytes(param::DIR))
                {
                    self.config.values[usize::from(id.0)] = before;
                    return Err(reason.into());
                }
                let mut location = location();
                if id.param().traits.has(Traits::SENSITIVE) {
                    // If the line has a secret, only its name is kept, which suffices for later errors.
                    location.text = String::from_utf8_lossy(name).into_owned();
                }
                self.config.locations.0.push((id, location));
                Ok(())
            }
            None => self.directive(name, arguments, depth, location),
        }
    }

    fn set(&mut self, id: ParamId, arguments: &[&[u8]]) -> Result<(), Reason> {
        let multi = id.param().traits.has(Traits::MULTI_ARG);
        if !multi && arguments.len() != 1 {
            return Err("wrong number of arguments".into());
        }
        // A single argument may itself contain several quoted words: `--bind "a b"`. An argument with
        // unbalanced quotes has no words.
        let inner = match arguments {
            [only] if multi && !only.is_empty() => {
                Some(split_args(only, Dialect::Config).unwrap_or_default())
            }
            _ => None,
        };
        let words: Vec<&[u8]> = match &inner {
            Some(inner) => inner.iter().map(Vec::as_slice).collect(),
            None => arguments.to_vec(),
        };
        let first_save = id == param::SAVE.any() && !self.save_seen;
        let onto = if first_save { Onto::Replace } else { Onto::Extend };
        let value = id.param().parse(&words, self.config.value(id), onto)?;
        self.save_seen |= first_save;
        self.config.values[usize::from(id.0)] = value;
        Ok(())
    }

    fn directive(
        &mut self,
        name: &[u8],
        arguments: &[&[u8]],
        depth: usize,
        location: &dyn Fn() -> Location,
    ) -> Result<(), LineFailure> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match arguments {
            [_] if RETIRED.iter().any(|known| is(known)) => Ok(()),
            [path] if is("include") => self.include(path, depth),
            [from, to] if is("rename-command") => {
                self.config.renames.push(Rename {
                    from: from.to_vec(),
                    to: to.to_vec(),
                    location: location(),
                });
                Ok(())
            }
            [_, ..] if is("user") || is("role") => {
                let words = std::iter::once(&name).chain(arguments).map(|word| word.to_vec()).collect();
                let line = UserLine::new(words, self.config.all_channels_by_default(), location());
                self.config.user_lines.push(line);
                Ok(())
            }
            [_, ..] if is("loadmodule") => Err("Modules are not supported by this version".into()),
            [] if name.contains(&b'.') => Err("Module config specified without value".into()),
            _ if name.contains(&b'.') => Err("Modules are not supported by this version".into()),
            [] if is("sentinel") => Err("Sentinel mode is not supported by this version".into()),
            _ if is("sentinel") => Err("sentinel directive while not in sentinel mode".into()),
            _ => Err("Bad directive or wrong number of arguments".into()),
        }
    }

    fn include(&mut self, path: &[u8], depth: usize) -> Result<(), LineFailure> {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err("Included files are nested too deeply".into());
        }
        let files = self
            .loader
            .include(path)
            .map_err(|reason| LineFailure::Include(String::from_utf8_lossy(path).into_owned(), reason))?;
        for (source, text) in files {
            self.included += 1;
            if self.included > INCLUDED_MAX {
                return Err("Too many files are included".into());
            }
            self.text(&text, &source, depth + 1).map_err(|TooManyErrors| LineFailure::TooManyErrors)?;
        }
        Ok(())
    }
}

/// `line` without blanks at its ends.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|byte| !blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// Maximum number of errors of one check. An operator can read a list of this length, and the check of a
/// file that includes itself ends.
pub(crate) const ERRORS_MAX: usize = 100;

/// Maximum depth of includes: far more than anyone writes, but it ends the load of a file that includes
/// itself.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Maximum number of included files: a few files that include each other several times would otherwise be
/// read for years.
const INCLUDED_MAX: usize = 4096;
