//! The upstream suite of Sentinel, with our server and the reference's sentinels.
//!
//! Neither the suite nor the sentinel is part of the repository. `SLUICE_SENTINEL_SUITE` names a checkout of
//! the reference, which the run copies; the sentinel lies beside the server that `SLUICE_PEER_SERVER` names.

use crate::binaries;
use crate::error::Result;
use crate::shell::{self, Ran};
use std::path::Path;
use std::process::Command;

/// The environment variable with the path of the checkout.
const SUITE_VARIABLE: &str = "SLUICE_SENTINEL_SUITE";

/// Programs of the reference that the suite calls by name.
const PROGRAMS: &[&str] =
    &["valkey-sentinel", "valkey-cli", "valkey-benchmark", "valkey-check-aof", "valkey-check-rdb"];

/// The suite's last line if every unit passed.
const GOOD: &str = "GOOD! No errors.";

/// Runs every unit, with further arguments for the suite. `--tls` needs `tcl-tls`, and openssl
/// for the suite's certificates.
pub(super) fn run(words: &[&str]) -> Result<Ran> {
    let suite = std::env::var_os(SUITE_VARIABLE).filter(|value| !value.is_empty());
    let (Some(suite), Some(peer)) = (suite, binaries::peer_server()) else {
        println!("sentinel: skipped: {SUITE_VARIABLE} or {} is not set", binaries::PEER_VARIABLE);
        return Ok(Ran::Skipped);
    };
    let ours = binaries::build_server()?.ok_or("there is no server to run")?;
    let folder = shell::target_dir().join("sentinel");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let programs = folder.join("bin");
    std::fs::create_dir_all(&programs)?;
    // The suite resolves relative paths in its own folder.
    let programs = std::path::absolute(programs)?;
    link(&ours, &programs.join("valkey-server"))?;
    let beside = peer.parent().unwrap_or(Path::new("."));
    for program in PROGRAMS {
        link(&beside.join(program), &programs.join(program))?;
    }
    let copy = folder.join("suite");
    let copied = Command::new("cp").arg("-r").arg(&suite).arg(&copy).status()?;
    if !copied.success() {
        return Err(format!("{} cannot be copied", suite.display()).into());
    }
    if words.contains(&"--tls") {
        let made = Command::new("./utils/gen-test-certs.sh").current_dir(&copy).output()?;
        if !made.status.success() {
            println!("sentinel: skipped: {}", String::from_utf8_lossy(&made.stderr));
            return Ok(Ran::Skipped);
        }
    }
    let output = Command::new("./runtest-sentinel")
        .args(words)
        .current_dir(&copy)
        .env("VALKEY_BIN_DIR", &programs)
        .output()
        .map_err(|error| format!("runtest-sentinel of {}: {error}", suite.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let steps = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    println!("sentinel: {} steps passed, {} failed", steps("OK"), steps("FAILED"));
    if output.status.success() && text.contains(GOOD) {
        return Ok(Ran::Passed);
    }
    for line in text.lines().filter(|line| line.contains("FAILED") || line.contains("exception")) {
        println!("{line}");
    }
    Err("the suite of Sentinel failed".into())
}

fn link(program: &Path, name: &Path) -> Result<()> {
    let program = std::path::absolute(program)?;
    std::os::unix::fs::symlink(program, name)?;
    Ok(())
}
