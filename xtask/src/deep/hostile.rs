//! Runs hostile clients and files, each against a fresh server. Measures how long the PING of a bystander
//! waits meanwhile, whether SCRIPT KILL and FUNCTION KILL are served, and how much memory the server takes.
//!
//! Invariants: (1) each program has a server of its own, and a bystander whose longest wait has a bound; (2)
//! a program that fails at its own purpose counts as failed, because a script that ends with an unexpected
//! error measures nothing; (3) a program whose only fault is a wait that other load on the machine may have
//! caused is run again, at most `ATTEMPTS` times in total, and the output has each attempt.

mod bystander;
mod files;
mod functions;
mod globs;
mod natives;
mod program;
mod scene;
mod tracking;

use std::path::Path;

use crate::shell::{self, Ran};
use crate::{Result, binaries};

/// Runs the programs whose names begin with `only`, against `ours` or a release of the checked-out commit.
pub(super) fn run(ours: Option<&Path>, only: Option<&str>) -> Result<Ran> {
    let binary = match ours {
        Some(ours) => std::path::absolute(ours)?,
        None => binaries::build_server()?.ok_or("there is no server to run")?,
    };
    let mut programs = functions::programs();
    programs.extend(natives::programs());
    programs.extend(globs::programs());
    programs.extend(tracking::programs());
    programs.extend(files::programs());
    programs.retain(|program| program.name.starts_with(only.unwrap_or_default()));
    if programs.is_empty() {
        return Err("no hostile program has a name that begins so".into());
    }
    let (began, all) = (shell::now(), programs.len());
    let mut failed = Vec::new();
    for program in &programs {
        let faults = program.attempts(&binary);
        if !faults.is_empty() {
            println!("hostile: {}: FAILED: {}", program.name, faults.join("; "));
            failed.push(format!("  {}: {}", program.name, faults.join("; ")));
        }
    }
    println!("hostile: {} of {all} programs held in {}", all - failed.len(), shell::seconds(began.elapsed()));
    match failed.is_empty() {
        true => Ok(Ran::Passed),
        false => Err(format!("hostile programs that did harm:\n{}", failed.join("\n")).into()),
    }
}
