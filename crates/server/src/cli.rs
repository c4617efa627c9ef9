//! The command line: what is asked of the program.

use sluice_moving::CHECK_MOVE;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// What the program is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Task {
    /// Serve, with these arguments of the configuration.
    Serve(Vec<Vec<u8>>),
    /// Only check the configuration.
    Check(Vec<Vec<u8>>),
    /// Only say what of another server's use is missing here: these are all words.
    CheckMove(Vec<Vec<u8>>),
    /// Say which version this is.
    Version,
    /// Say how the program is used.
    Help,
    /// Print the example configuration.
    ExampleConf,
}

/// Reads the arguments behind the program's name.
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

/// `--version`'s line.
pub fn version() -> String {
    format!("Sluice server v={} compatible=valkey-{} bits={}\n", VERSION, COMPATIBLE, usize::BITS)
}

/// This server's own version, with the commit where the build knew it: `0.1.0+1a2b3c4d5e6f`.
pub const VERSION: &str = env!("SLUICE_VERSION");

/// The server whose place this one takes.
pub const COMPATIBLE: &str = "9.1.2";

/// `--help`'s text; the manual page and the completions of shells are made of the same file.
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
