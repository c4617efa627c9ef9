//! `probe`: tests that the compiler finds every location that reads values.
//!
//! A build with `--cfg sluice_probe="..."` has an additional kind of value that no code handles. Each
//! location that reads, copies, saves, digests, measures or frees values must then cause a compile error,
//! because its `match` is not exhaustive. A location that compiles would silently treat a new type as another
//! one.

use crate::args::Arguments;
use crate::error::{Error, Result};
use crate::shell::{self, Ran};

/// One build: the added kind, the package that must not compile, and the files that the errors must name.
struct Probe {
    cfg: &'static str,
    package: &'static str,
    files: &'static [&'static str],
}

const PROBES: &[Probe] = &[
    // This build adds a variant of `Value`: errors must occur where values are measured, shared and freed.
    Probe { cfg: "variant", package: "sluice-value", files: &["crates/value/src/lib.rs"] },
    // This build adds a variant of `Form`: errors must occur where entries are read, moved or changed in
    // place.
    Probe {
        cfg: "form",
        package: "sluice-keyspace",
        files: &[
            "crates/keyspace/src/db/in_place.rs",
            "crates/keyspace/src/entry.rs",
            "crates/keyspace/src/view.rs",
        ],
    },
    // This build makes `Value` non-exhaustive: errors must occur where the keyspace matches it.
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
    // This build makes `ValueRef` non-exhaustive: errors must occur where commands match it (DUMP, SORT,
    // ZUNION, slow reads, digests, DEBUG OBJECT).
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
    // This build makes `ValueRef` non-exhaustive: errors must occur where snapshots match it.
    Probe { cfg: "value-ref", package: "sluice-snapshot", files: &["crates/snapshot/src/write.rs"] },
];

pub(crate) fn probe(arguments: &[String]) -> Result<()> {
    Arguments::new(arguments).words()?;
    run().map(drop)
}

/// All probes, as a step of `ci`.
pub(crate) fn run() -> Result<Ran> {
    PROBES.iter().try_for_each(check)?;
    Ok(Ran::Passed)
}

fn check(probe: &Probe) -> Result<()> {
    let mut cargo = shell::cargo();
    cargo.env("RUSTFLAGS", format!("--cfg sluice_probe=\"{}\"", probe.cfg));
    // The build has a folder of its own, because these flags would invalidate all other builds.
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

/// Whether a line of the compiler's output reports a non-exhaustive match in that file.
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
