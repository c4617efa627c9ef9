//! The process around a check.

use crate::console::Console;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// The words of the process, with the name that it was called by first, cut to its last part.
fn words_of_process() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(first) = words.first_mut()
        && let Some(name) = std::path::Path::new(first).file_name()
    {
        *first = name.to_owned();
    }
    words
}

/// Runs a check with the terminal of the process; its exit status.
pub fn run(check: fn(&[OsString], &mut Console<'_>) -> i32) -> ExitCode {
    let words = words_of_process();
    let program = words.first().map(|name| name.display().to_string()).unwrap_or_default();
    let mut out = io::stdout().lock();
    let mut answers = io::stdin().lock();
    let mut stderr = io::stderr();
    let bar: Option<&mut dyn Write> = if stderr.is_terminal() { Some(&mut stderr) } else { None };
    let now_ms = sluice_clock::Clock::system().now().unix_ms();
    let mut console = Console { out: &mut out, answers: &mut answers, bar, now_ms, program };
    let status = check(words.get(1..).unwrap_or_default(), &mut console);
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

/// The line of `--version`.
pub(crate) fn version(program: &str) -> String {
    format!("{program} v={} formats=valkey-9.1.2", env!("CARGO_PKG_VERSION"))
}
