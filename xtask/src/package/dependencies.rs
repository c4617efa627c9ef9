//! The crates that are linked into the programs, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;

use crate::error::Result;
use crate::shell;

/// A crate from outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dependency {
    /// The crate's name.
    pub(crate) name: String,
    /// The crate's version.
    pub(crate) version: String,
    /// The licence, as an expression of SPDX; empty where the crate names none.
    pub(crate) licence: String,
    /// The folder of the crate's sources.
    pub(crate) folder: PathBuf,
}

/// The programs' packages.
const ROOTS: [&str; 2] = ["sluice", "sluice-check"];

/// The metadata of the workspace and of all that it uses on this kind of machine.
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
    // Without a network, as far as the crates are here: a fresh machine has to fetch them once.
    let here = of(&["--offline"]).output()?;
    let text =
        if here.status.success() { String::from_utf8(here.stdout)? } else { shell::output(&mut of(&[]))? };
    Ok(serde_json::from_str(&text)?)
}

/// Every crate from outside that `metadata` names, sorted.
pub(crate) fn all(metadata: &Value) -> Vec<Dependency> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut all: Vec<Dependency> = packages.filter(|package| !package["source"].is_null()).map(of).collect();
    all.sort();
    all
}

/// The crates from outside that become part of the programs, sorted: neither those of tests nor those of
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

/// Whether an edge of the graph is that of an ordinary dependency.
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
