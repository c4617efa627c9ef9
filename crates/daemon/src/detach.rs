//! Becoming a daemon: fork once, before any thread or event loop exists.

use nix::unistd::{ForkResult, fork, setsid};

/// Leaves the terminal: the parent ends, the child continues in a new session, with `/dev/null` as its
/// standard streams.
///
/// Must be called while the process has one thread.
pub fn leave_terminal() -> std::io::Result<()> {
    // SAFETY: no other thread exists yet (the caller's contract), so the child's copy of the process is
    // whole.
    // JUSTIFICATION: there is no safe fork; the reference's `daemonize yes` needs one.
    match unsafe { fork() }? {
        ForkResult::Parent { .. } => std::process::exit(0),
        ForkResult::Child => {}
    }
    setsid()?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}
