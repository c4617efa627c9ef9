//! `probe`: proof that the compiler names every location that reads values.
//!
//! A build with `--cfg sluice_probe="..."` has one more kind of value, of which no code knows. Each location
//! that reads, copies, saves, digests, measures or frees values must be a compile error then: a `match` that
//! is not exhaustive. A location that compiles would treat a new type as something else, without a word.

use crate::args::Arguments;
use crate::error::{Error, Result};
use crate::shell::{self, Ran};

/// One build: what is added, the package that must not compile, and the files that the errors have to name.
struct Probe {
    cfg: &'static str,
    package: &'static str,
    files: &'static [&'static str],
}

const PROBES: &[Probe] = &[
    // A variant of `Value`: measuring, sharing, freeing.
    Probe { cfg: "variant", package: "sluice-value", files: &["crates/value/src/lib.rs"] },
    // A variant of `Form`: reading an entry, moving it, changing it where it stands.
    Probe {
        cfg: "form",
        package: "sluice-keyspace",
        files: &[
            "crates/keyspace/src/db/in_place.rs",
            "crates/keyspace/src/entry.rs",
            "crates/keyspace/src/view.rs",
        ],
    },
    // `Value` as seen by the keyspace.
    Probe {
        cfg: "value",
        package: "sluice-keyspace",
        files: &[
            "crates/keyspace/src/db/in_place.rs",
            "crates/keyspace/src/db/remains.rs",
            "crates/keyspace/src/db/volatile.rs",
            "crates/keyspace/src/view.rs",
        ],
    },
    // `ValueRef` as seen by commands: DUMP, SORT, ZUNION, slow reads, digests, DEBUG OBJECT.
    Probe {
        cfg: "value-ref",
        package: "sluice-commands",
        files: &[
            "crates/commands/src/debug.rs",
            "crates/commands/src/digest.rs",
            "crates/commands/src/generic/dump.rs",
            "crates/commands/src/generic/sort.rs",
            "crates/commands/src/production.rs",
            "crates/commands/src/zset/inputs.rs",
        ],
    },
    // `ValueRef` as seen by snapshots.
    Probe { cfg: "value-ref", package: "sluice-snapshot", files: &["crates/snapshot/src/write.rs"] },
];

/// Runs every probe.
pub(crate) fn probe(arguments: &[String]) -> Result<()> {
    Arguments::new(arguments).words()?;
    run().map(drop)
}

/// All probes, as a step.
pub(crate) fn run() -> Result<Ran> {
    PROBES.iter().try_for_each(check)?;
    Ok(Ran::Passed)
}

fn check(probe: &Probe) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.env("RUSTFLAGS", format!("--cfg sluice_probe=\"{}\"", probe.cfg));
    // Its own folder: the flags would make every other build start over.
    cargo.env("CARGO_TARGET_DIR", shell::target_dir().join("probe"));
    let output = cargo
        .args(["check", "--quiet", "--lib", "--message-format", "short", "--package", probe.package])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let missing: Vec<&str> = probe.files.iter().filter(|file| !is_named(&said, file)).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "with sluice_probe=\"{}\" these files compile, or did not get to it: {}\n{said}",
        probe.cfg,
        missing.join(", ")
    );
    Err(Error::from(text))
}

/// Whether a line of the compiler reports a match in that file that is not exhaustive.
fn is_named(said: &str, file: &str) -> bool {
    said.lines().any(|line| line.starts_with(&format!("{file}:")) && line.contains("E0004"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_that_error_in_that_file_counts() {
        let said = "crates/a/src/b.rs:1:2: error[E0004]: non-exhaustive patterns\nc.rs:1:1: error[E0308]: mismatched types";
        assert!(is_named(said, "crates/a/src/b.rs"));
        assert!(!is_named(said, "crates/a/src"));
        assert!(!is_named(said, "c.rs"));
    }
}
