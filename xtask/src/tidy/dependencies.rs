//! External crates: each is from the registry, with a checksum, and has an allowed licence.
//!
//! `deny.toml` lists the licences, also for `cargo deny`; this check needs neither `cargo deny` nor, after
//! the crates are downloaded, a network.

use std::path::Path;

use super::finding::Finding;
use crate::error::Result;
use crate::package::{dependencies, licences};
use crate::table::read_table;

/// The file of the allowed licences.
const DENY: &str = "deny.toml";

/// The file with the sources of the crates.
const LOCK: &str = "Cargo.lock";

/// The only allowed source of crates.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every crate of the lock file, and the licences of the crates for this target.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = sources(&read_table(&root.join(LOCK))?);
    let deny = read_table(&root.join(DENY))?;
    let allowed = deny.get("licenses").and_then(|table| table.get("allow")).and_then(toml::Value::as_array);
    let allowed: Vec<&str> = allowed.into_iter().flatten().filter_map(toml::Value::as_str).collect();
    for dependency in dependencies::all(&dependencies::metadata()?) {
        if !licences::is_allowed(&dependency.licence, &allowed) {
            let what = format!(
                "{} {} is under {:?}, which [licenses] does not allow: take another crate",
                dependency.name, dependency.version, dependency.licence
            );
            findings.push(Finding::new(DENY, 0, what));
        }
    }
    Ok(findings)
}

/// Crates of a lock file that are not from the registry, or without a checksum. Our crates have no source.
fn sources(lock: &toml::Table) -> Vec<Finding> {
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let foreign = packages.filter_map(|package| {
        let field = |name: &str| package.get(name).and_then(toml::Value::as_str);
        let source = field("source")?;
        if source == REGISTRY && field("checksum").is_some() {
            return None;
        }
        let name = field("name").unwrap_or_default();
        Some(Finding::new(
            LOCK,
            0,
            format!("{name} comes from {source}: only crates of the registry are allowed"),
        ))
    });
    foreign.collect()
}

#[cfg(test)]
mod tests {
    use super::sources;

    #[test]
    fn a_crate_from_a_repository_is_found() {
        let lock = "[[package]]\nname = 'ours'\n[[package]]\nname = 'good'\nchecksum = '1'\n\
                    source = 'registry+https://github.com/rust-lang/crates.io-index'\n\
                    [[package]]\nname = 'bad'\nsource = 'git+https://example.com/bad'\n";
        let found = sources(&lock.parse().expect("a table"));
        assert_eq!(found.len(), 1);
        assert!(found[0].what.starts_with("bad comes from git+"), "{}", found[0].what);
    }
}
