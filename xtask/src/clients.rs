//! `cargo xtask clients`: runs small programs that use common client libraries, against the built server
//! and against a cluster of six nodes; then runs programs that read and write in a loop while primaries of
//! another cluster fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Arguments;
use crate::cluster::{Cluster, Replicas};
use crate::error::Result;
use crate::loops::SUFFIX;
use crate::shell::Ran;
use crate::{binaries, failovers, loops, shell};

/// Builds the server unless `--server` names one, and calls `e2e/clients/run`; each word chooses a client. A
/// word such as `go-redis-cluster` also chooses the program that reads and writes in a loop through this
/// client, and `go-redis-loop` only that program.
pub(crate) fn clients(arguments: &[String]) -> Result<()> {
    run(arguments).map(drop)
}

/// Like [`clients`]; distinguishes a skip from a pass.
pub(crate) fn run(arguments: &[String]) -> Result<Ran> {
    let mut arguments = Arguments::new(arguments);
    let server = match arguments.option("--server")? {
        Some(path) => Some(PathBuf::from(path)),
        None => binaries::build_server()?,
    };
    against(server, &arguments.words()?)
}

/// Runs the clients with these names, or all, against a server.
pub(crate) fn against(server: Option<PathBuf>, names: &[String]) -> Result<Ran> {
    let Some(server) = server else {
        println!("clients: skipped: the workspace has no server yet");
        return Ok(Ran::Skipped);
    };
    let through_failovers: Vec<String> = names.iter().filter_map(|name| loop_of(name)).collect();
    let programs: Vec<&String> = names.iter().filter(|name| !name.ends_with(SUFFIX)).collect();
    if names.is_empty() || !programs.is_empty() {
        each_by_itself(&server, &programs)?;
    }
    if names.is_empty() || !through_failovers.is_empty() {
        failovers::run(&server, &through_failovers)?;
    }
    Ok(Ran::Passed)
}

/// The name of the program that reads and writes in a loop through this client, if there is one.
fn loop_of(name: &str) -> Option<String> {
    match name.strip_suffix("-cluster") {
        // The reference's benchmark is no library, so it has no loop.
        Some("benchmark") => None,
        Some(library) => Some(loops::of(library)),
        None => name.ends_with(SUFFIX).then(|| name.to_owned()),
    }
}

/// Runs the programs with these names, or all, one after the other.
fn each_by_itself(server: &Path, names: &[&String]) -> Result<()> {
    let mut run = Command::new(shell::root().join("e2e/clients/run"));
    run.env("SLUICE_CLIENTS_CACHE", shell::target_dir().join("e2e"));
    let needs_cluster = names.is_empty() || names.iter().any(|name| name.ends_with("-cluster"));
    let cluster = if needs_cluster { Some(Cluster::start(server, Replicas::One, &[])?) } else { None };
    if let Some(cluster) = &cluster {
        run.env("SLUICE_CLUSTER_PORTS", cluster.ports().join(" "));
    }
    shell::run(run.arg(server).args(names))?;
    match &cluster {
        Some(cluster) => cluster.is_unchanged(),
        None => Ok(()),
    }
}
