//! Binaries of the servers that tasks run: ours, which cargo builds, and the reference's, which an
//! environment variable names.
//!
//! Invariant: `None` means that there is no such server, so that a task can skip; a failed
//! build is an error.

use std::path::PathBuf;

use crate::error::Result;
use crate::shell;

/// The environment variable with the path of the reference server's binary.
pub(crate) const PEER_VARIABLE: &str = "SLUICE_PEER_SERVER";

/// Builds a release of the server and of the check tools beside it; `None` while the workspace has no server.
pub(crate) fn build_server() -> Result<Option<PathBuf>> {
    if !shell::root().join("crates/sluice/Cargo.toml").exists() {
        return Ok(None);
    }
    let mut build = shell::cargo();
    build.args(["build", "--release", "--package", "sluice", "--package", "sluice-check"]);
    shell::run(&mut build)?;
    Ok(Some(shell::target_dir().join("release/sluice-server")))
}

/// Builds the server with debug assertions; `None` while the workspace has no server.
pub(crate) fn build_checked_server() -> Result<Option<PathBuf>> {
    if !shell::root().join("crates/sluice/Cargo.toml").exists() {
        return Ok(None);
    }
    shell::run(shell::cargo().args(["build", "--package", "sluice", "--package", "sluice-check"]))?;
    Ok(Some(shell::target_dir().join("debug/sluice-server")))
}

/// The reference server's binary, if the environment names one.
pub(crate) fn peer_server() -> Option<PathBuf> {
    std::env::var_os(PEER_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}
