//! Runs a check as a process: arguments, terminal, exit status.

use crate::console::{Console, Meter};
use sluice_base::progress::ProgressDisplay;
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// The arguments of the process; the first one is the program's name without its path.
fn words_of_process() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(first) = words.first_mut()
        && let Some(name) = std::path::Path::new(first).file_name()
    {
        *first = name.to_owned();
    }
    words
}

/// Runs a check on the streams of the process; returns its exit status.
pub fn run(check: fn(&[OsString], &mut Console<'_>) -> i32) -> ExitCode {
    let words = words_of_process();
    let program = words.first().map(|name| name.display().to_string()).unwrap_or_default();
    let mut out = io::stdout().lock();
    let mut answers = io::stdin().lock();
    let mut stderr = io::stderr();
    let clock = RefCell::new(sluice_clock::Clock::system());
    let now_ms = clock.borrow_mut().now().unix_ms();
    let mut now_ns = || clock.borrow_mut().now().mono_ns;
    let display = display();
    let meter = Meter::new(&mut stderr, display, columns(), &mut now_ns);
    let meter = (display != ProgressDisplay::Nothing).then_some(meter);
    let mut console = Console { out: &mut out, answers: &mut answers, meter, now_ms, program };
    let status = check(words.get(1..).unwrap_or_default(), &mut console);
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

/// The form of the progress display that suits standard error.
fn display() -> ProgressDisplay {
    let (term, no_color) = (std::env::var_os("TERM"), std::env::var_os("NO_COLOR"));
    let is_terminal = io::stderr().is_terminal();
    ProgressDisplay::of(
        is_terminal,
        term.as_deref().map(OsStr::as_bytes),
        no_color.as_deref().map(OsStr::as_bytes),
    )
}

/// Columns of the terminal on standard error, 80 where it is no terminal.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// The output of `--version`.
pub(crate) fn version(program: &str) -> String {
    format!("{program} v={} formats=valkey-9.1.2", env!("CARGO_PKG_VERSION"))
}
