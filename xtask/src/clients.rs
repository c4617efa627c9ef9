//! `cargo xtask clients`: small programs with the clients that people use, against the built server.

use std::path::PathBuf;
use std::process::Command;

use crate::args::Arguments;
use crate::error::Result;
use crate::shell::Ran;
use crate::{binaries, shell};

/// Builds the server unless `--server` names one, and hands over to `e2e/clients/run`; words choose clients.
pub(crate) fn clients(arguments: &[String]) -> Result<()> {
    run(arguments).map(drop)
}

/// As [`clients`]; tells a skip from a pass.
pub(crate) fn run(arguments: &[String]) -> Result<Ran> {
    let mut arguments = Arguments::new(arguments);
    let server = match arguments.option("--server")? {
        Some(path) => Some(PathBuf::from(path)),
        None => binaries::build_server()?,
    };
    against(server, &arguments.words()?)
}

/// The clients of these names, or all, against a server.
pub(crate) fn against(server: Option<PathBuf>, names: &[String]) -> Result<Ran> {
    let Some(server) = server else {
        println!("clients: skipped: the workspace has no server yet");
        return Ok(Ran::Skipped);
    };
    let mut run = Command::new(shell::root().join("e2e/clients/run"));
    run.env("SLUICE_CLIENTS_CACHE", shell::target_dir().join("e2e"));
    shell::pass(run.arg(server).args(names))
}
