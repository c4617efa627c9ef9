//! The command line: what is asked of the program.

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

/// The argument that asks what is missing here of another server's use.
pub const CHECK_MOVE: &[u8] = b"--check-move";

/// `--version`'s line.
pub fn version() -> String {
    format!("Sluice server v={} compatible=valkey-{} bits={}\n", VERSION, COMPATIBLE, usize::BITS)
}

/// This server's own version, with the commit where the build knew it: `0.1.0+1a2b3c4d5e6f`.
pub const VERSION: &str = env!("SLUICE_VERSION");

/// The server whose place this one takes.
pub const COMPATIBLE: &str = "9.1.2";

/// `--help`'s text.
pub const HELP: &str = "\
Usage: sluice-server [CONFIG-FILE] [--DIRECTIVE VALUE...] [-]
       sluice-server --check-config [CONFIG-FILE] [--DIRECTIVE VALUE...]
       sluice-server --check-move HOST:PORT [--user NAME] [--pass-from-env VARIABLE] [--json] [--timeout SECONDS]
                     [--tls [CONFIG-FILE] [--tls-DIRECTIVE VALUE...]]
       sluice-server --example-conf | --version | --help

CONFIG-FILE is a Valkey configuration file; without one the defaults serve. Each --DIRECTIVE VALUE stands for a
line at the end of that file. A lone '-' reads further lines from standard input.

  --check-config   say everything that is wrong with the configuration, try its folders and addresses, and end
  --check-move     ask a running Redis or Valkey, which is only read, and say what of its use is missing here.
                   A password comes from the environment: VALKEYCLI_AUTH, REDISCLI_AUTH or VARIABLE.
                   Exit status: 0 all is fine, 1 something needs a look, 2 something is missing, 3 not judged
  --example-conf   print a configuration file with every directive and what it means
  --version        print the version
  --help           print this

Examples:
  sluice-server                                   serve on port 6379 of every address
  sluice-server /etc/sluice.conf --loglevel verbose
  sluice-server --port 7777 --save '' --requirepass secret
  sluice-server --check-move 10.0.0.7:6379        what would be missing if that server moved here
";

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
