//! Two releases of one commit, built in two folders, must be identical.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::shell::{self, Ran};

/// Names of different lengths, so that a path inside a program would shift the bytes after it.
const FOLDERS: [&str; 2] = ["a", "another-folder"];

/// Builds both releases and compares their checksums.
pub(super) fn run() -> Result<Ran> {
    let folder = std::path::absolute(shell::target_dir().join("reproducible"))?;
    let copies = FOLDERS.map(|name| folder.join(name));
    // Both copies are made before the first build, because a build takes so long that another commit may be
    // made meanwhile.
    for copy in &copies {
        if copy.exists() {
            std::fs::remove_dir_all(copy)?;
        }
        let mut clone = Command::new("git");
        shell::run(clone.args(["clone", "--quiet", "--local"]).arg(shell::root()).arg(copy))?;
    }
    let mut sums = Vec::new();
    for copy in &copies {
        sums.push(release(copy, &folder.join("xtask"))?);
    }
    if sums[0] == sums[1] {
        return Ok(Ran::Passed);
    }
    let other: Vec<&str> = sums[1].lines().collect();
    let different: Vec<&str> = sums[0].lines().filter(|line| !other.contains(line)).collect();
    Err(format!("these files are others in the second folder:\n{}", different.join("\n")).into())
}

/// Makes a release in a copy of the repository with the `xtask` of that copy; returns its checksums.
fn release(copy: &Path, xtask: &Path) -> Result<String> {
    let mut build = Command::new(shell::cargo().get_program());
    build.current_dir(copy).args(["build", "--quiet", "--locked", "--package", "xtask", "--target-dir"]);
    shell::run(build.arg(xtask))?;
    let mut release = Command::new(xtask.join("debug/xtask"));
    release.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target")).env_remove("SOURCE_DATE_EPOCH");
    shell::run(release.arg("release"))?;
    Ok(std::fs::read_to_string(copy.join("target/release-files/SHA256SUMS"))?)
}
