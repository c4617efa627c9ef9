//! The crates that are linked into the programs, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::error::Result;
use crate::shell;

/// An external crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependency {
    /// The name of the crate, as in `Cargo.toml`.
    pub(crate) name: String,
    /// The version of the crate, such as `1.2.3`.
    pub(crate) version: String,
    /// The licence, as an SPDX expression; empty where the crate names none.
    pub(crate) licence: String,
    /// The folder of the crate's sources.
    pub(crate) folder: PathBuf,
}

/// The packages whose dependencies are listed: those of the programs.
const ROOTS: [&str; 2] = ["sluice", "sluice-check"];

/// The metadata of the workspace and of all its dependencies for this target.
pub(crate) fn metadata() -> Result<Value> {
    let mut rustc = std::process::Command::new("rustc");
    let version = shell::output(rustc.arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let of = |more: &[&str]| {
        let mut metadata = shell::cargo();
        metadata
            .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", host])
            .args(more);
        metadata
    };
    // cargo is first called without a network, which suffices if the crates are downloaded already; a fresh
    // machine has to download them once.
    let here = of(&["--offline"]).output()?;
    let text =
        if here.status.success() { String::from_utf8(here.stdout)? } else { shell::output(&mut of(&[]))? };
    Ok(serde_json::from_str(&text)?)
}

/// Every external crate in `metadata`, sorted.
pub(crate) fn all(metadata: &Value) -> Vec<Dependency> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut all: Vec<Dependency> = packages.filter(|package| !package["source"].is_null()).map(of).collect();
    all.sort();
    all
}

/// The external crates that are linked into the programs, sorted: without those of tests and
/// build scripts.
pub(crate) fn of_product() -> Result<Vec<Dependency>> {
    let metadata = metadata()?;
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata resolves nothing")?;
    let by_id: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    let is_root = |package: &&&Value| package["name"].as_str().is_some_and(|name| ROOTS.contains(&name));
    let mut open: Vec<&str> =
        packages.iter().filter(is_root).filter_map(|root| root["id"].as_str()).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let linked = by_id.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten();
        open.extend(linked.filter(|dependency| is_linked(dependency)).filter_map(|d| d["pkg"].as_str()));
    }
    let mut product: Vec<Dependency> = packages
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| reached.contains(id)))
        .filter(|package| !package["source"].is_null())
        .map(|package| of(package))
        .collect();
    product.sort();
    if product.is_empty() {
        return Err("no crate of the programs was found in the metadata of cargo".into());
    }
    Ok(product)
}

/// Whether an edge of the graph is an ordinary dependency.
fn is_linked(dependency: &Value) -> bool {
    dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
}

fn of(package: &Value) -> Dependency {
    let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let manifest = PathBuf::from(field("manifest_path"));
    Dependency {
        name: field("name"),
        version: field("version"),
        licence: field("license"),
        folder: manifest.parent().map(PathBuf::from).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::of_product;

    #[test]
    fn the_product_has_its_crates_and_not_those_of_tests() {
        let names: Vec<String> =
            of_product().expect("metadata").into_iter().map(|crate_| crate_.name).collect();
        for name in ["rustls", "tikv-jemalloc-sys", "memchr"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        for name in ["loom", "rcgen", "rpm", "toml", "cc"] {
            assert!(!names.iter().any(|known| known == name), "{name}: {names:?}");
        }
    }
}
