//! `cargo xtask clients`: small programs with the clients that people use, against the built server and
//! against a cluster of six of it.

use std::path::PathBuf;
use std::process::Command;

use crate::args::Arguments;
use crate::cluster::{Cluster, Replicas};
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
    let needs_cluster = names.is_empty() || names.iter().any(|name| name.ends_with("-cluster"));
    let cluster = if needs_cluster { Some(Cluster::start(&server, Replicas::One, &[])?) } else { None };
    if let Some(cluster) = &cluster {
        run.env("SLUICE_CLUSTER_PORTS", cluster.ports().join(" "));
    }
    let ran = shell::pass(run.arg(server).args(names))?;
    if let Some(cluster) = &cluster {
        cluster.is_unchanged()?;
    }
    Ok(ran)
}
