//! `cargo xtask package`: a deb and an rpm of the server, and packages that link other servers'
//! names to it.
//!
//! Invariants: (1) the same binaries, version and date give the same bytes, on any machine; (2) manual
//! pages and completions are generated from the directive table and the programs' usage; (3) both formats
//! have the same files, which `contents` lists once; only the folder of zsh completions differs.

pub(crate) mod archive;
pub(crate) mod build;
mod completions;
mod contents;
mod deb;
pub(crate) mod dependencies;
mod elf;
pub(crate) mod licences;
mod man;
mod rpm;
mod usage;

use std::path::{Path, PathBuf};

use crate::args::Arguments;
use crate::error::Result;
use crate::shell;

use build::{Build, build_programs, source_date, strip_programs};
use contents::Package;
pub(crate) use contents::configuration;

/// The task: `[--binaries FOLDER] [--out FOLDER] [--version V]`; without `--binaries` it builds the
/// programs as for a release.
pub(crate) fn package(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let binaries = arguments.option("--binaries")?;
    let out = arguments.option("--out")?.map_or_else(|| shell::target_dir().join("packages"), PathBuf::from);
    let version = arguments.option("--version")?.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    if !arguments.words()?.is_empty() {
        return Err("package takes no words, only --binaries, --out and --version".into());
    }
    let binaries = match binaries {
        Some(folder) => PathBuf::from(folder),
        None => build_programs()?,
    };
    std::fs::create_dir_all(&out)?;
    let programs = out.join("programs");
    strip_programs(&binaries, &programs)?;
    let licences = licences::text(&dependencies::of_product()?)?;
    for path in write(&Build { version, date: source_date()?, programs, licences }, &out)? {
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Writes every package in both formats; returns their paths.
pub(crate) fn write(build: &Build, out: &Path) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for package in [server(build)?, compat()] {
        let needs = if package.is_native { elf::needs(&build.programs)? } else { elf::Needs::default() };
        let name = format!("{}_{}-1_{}.deb", package.name, build.version, deb::architecture(&package));
        let deb = out.join(name);
        std::fs::write(&deb, deb::archive(&package, build, &needs)?)?;
        let name = format!("{}-{}-1.{}.rpm", package.name, build.version, rpm::architecture(&package));
        let rpm = out.join(name);
        std::fs::write(&rpm, rpm::archive(&package, build, &needs)?)?;
        written.extend([deb, rpm]);
    }
    Ok(written)
}

fn server(build: &Build) -> Result<Package> {
    Ok(Package {
        name: contents::SERVER,
        summary: "in-memory data store that takes the place of Valkey",
        description: "Sluice serves clients of Valkey 9.1 and Redis without a change on\n\
                      their side: the same protocol, commands, configuration file and\n\
                      file formats. Snapshots need no fork, and I/O threads start where\n\
                      they make the server faster.",
        entries: contents::server(build)?,
        is_native: true,
    })
}

fn compat() -> Package {
    Package {
        name: contents::COMPAT,
        summary: "names of Valkey's and Redis' servers for Sluice",
        description: "valkey-server, redis-server and their file checkers as links to\n\
                      those of Sluice, for scripts that call a server by such a name.",
        entries: contents::compat(),
        is_native: false,
    }
}

#[cfg(test)]
mod tests;
