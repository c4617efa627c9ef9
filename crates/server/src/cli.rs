//! The command line: the task that the arguments select.

use sluice_moving::CHECK_MOVE;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The task of the program.
#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    /// Serve, with these arguments as configuration.
    Serve(Vec<Vec<u8>>),
    /// Check this configuration only.
    Check(Vec<Vec<u8>>),
    /// Report the features that another server uses and Sluice lacks; holds all words of the command line.
    CheckMove(Vec<Vec<u8>>),
    /// Print the line of the version.
    Version,
    /// Print the help text.
    Help,
    /// Print the example configuration.
    ExampleConf,
}

/// Finds the task in the arguments after the program's name.
pub fn task_of(arguments: Vec<OsString>) -> Task {
    let mut words: Vec<Vec<u8>> = arguments.into_iter().map(OsStringExt::into_vec).collect();
    match words.first().map(Vec::as_slice) {
        Some(b"-v" | b"--version") if words.len() == 1 => return Task::Version,
        Some(b"-h" | b"--help") if words.len() == 1 => return Task::Help,
        Some(b"--example-conf") if words.len() == 1 => return Task::ExampleConf,
        _ => {}
    }
    if words.iter().any(|word| word == CHECK_MOVE) {
        return Task::CheckMove(words);
    }
    match words.iter().position(|word| word == b"--check-config") {
        Some(at) => {
            words.remove(at);
            Task::Check(words)
        }
        None => Task::Serve(words),
    }
}

/// The line that `--version` prints.
pub fn version() -> String {
    format!("Sluice server v={} compatible=valkey-{} bits={}\n", VERSION, COMPATIBLE, usize::BITS)
}

/// This server's own version, with the commit if the build knows the commit: `0.1.0+1a2b3c4d5e6f`.
pub const VERSION: &str = env!("SLUICE_VERSION");

/// The version of Valkey with which this server is compatible.
pub const COMPATIBLE: &str = "9.1.2";

/// The text of `--help`; the manual page and the shell completions are generated from the same file.
pub const HELP: &str = include_str!("help.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_ask_for_something_else_than_serving_stand_alone() {
        let task = |words: &[&str]| task_of(words.iter().map(OsString::from).collect());
        assert_eq!(task(&["--version"]), Task::Version);
        assert_eq!(task(&["--help"]), Task::Help);
        assert_eq!(task(&["a.conf", "--check-config"]), Task::Check(vec![b"a.conf".to_vec()]));
        let words = [b"--check-move".to_vec(), b"h:1".to_vec()];
        assert_eq!(task(&["--check-move", "h:1"]), Task::CheckMove(words.to_vec()));
        assert_eq!(task(&["--port", "1"]), Task::Serve(vec![b"--port".to_vec(), b"1".to_vec()]));
    }
}
