//! Layers: the allowed imports between crates, from `docs/layers.toml`, compared with the
//! output of `cargo metadata`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::finding::Finding;
use crate::error::Result;
use crate::shell;
use crate::table::read_table;

/// The file of the table.
const TABLE: &str = "docs/layers.toml";

/// Features with test support, which no build of a product may enable.
const TEST_FEATURES: &[&str] = &["sim"];

/// One crate of the table.
struct Layer {
    /// The number of the layer, 0 at the bottom; `None` for crates that only serve development.
    stratum: Option<i64>,
    /// Folder names of the crates that this one's product code may import.
    imports: Vec<String>,
}

/// Checks the table itself, then every dependency of every crate of the workspace.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let table = read_table(&root.join(TABLE))?;
    let layers = parse(&table)?;
    let mut findings = check_table(&layers);
    let external = table.get("external").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let mut metadata = shell::cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let metadata: Value = serde_json::from_str(&shell::output(&mut metadata)?)?;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = folder(package["name"].as_str().unwrap_or_default());
        let Some(layer) = layers.get(name) else {
            findings.push(Finding::new(
                TABLE,
                0,
                format!("crate {name} is missing: give it a stratum and its imports"),
            ));
            continue;
        };
        let manifest = manifest_of(package, root);
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let imported = dependency["name"].as_str().unwrap_or_default();
            findings.extend(check_features(dependency).map(|what| Finding::new(&manifest, 0, what)));
            let what = if dependency["path"].is_null() {
                check_external(&external, name, imported)
            } else {
                check_import(
                    &layers,
                    name,
                    layer,
                    folder(imported),
                    dependency["kind"].as_str() == Some("dev"),
                )
            };
            findings.extend(what.map(|what| Finding::new(&manifest, 0, what)));
        }
    }
    Ok(findings)
}

/// The table's `[crate.NAME]` entries.
fn parse(table: &toml::Table) -> Result<BTreeMap<String, Layer>> {
    let crates = table
        .get("crate")
        .and_then(toml::Value::as_table)
        .ok_or("docs/layers.toml has no [crate.*] tables")?;
    let mut layers = BTreeMap::new();
    for (name, entry) in crates {
        let imports = entry.get("imports").and_then(toml::Value::as_array).into_iter().flatten();
        let imports = imports.filter_map(toml::Value::as_str).map(str::to_string).collect();
        let stratum = entry.get("stratum").and_then(toml::Value::as_integer);
        layers.insert(name.clone(), Layer { stratum, imports });
    }
    Ok(layers)
}

/// Checks that the table allows each crate to import only crates of lower strata. A crate of stratum 0 may
/// also import others of stratum 0; Cargo refuses cycles among these.
fn check_table(layers: &BTreeMap<String, Layer>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, layer) in layers {
        let Some(own) = layer.stratum else { continue };
        for import in &layer.imports {
            let other = layers.get(import).and_then(|layer| layer.stratum);
            let down = other.is_some_and(|other| other < own || (other == 0 && own == 0));
            if !down {
                let what = format!("{name} may not import {import}: imports point to a lower stratum");
                findings.push(Finding::new(TABLE, 0, what));
            }
        }
    }
    findings
}

/// The fault, if any, in the import of `imported`, another crate of the workspace, by the crate `name`.
fn check_import(
    layers: &BTreeMap<String, Layer>,
    name: &str,
    layer: &Layer,
    imported: &str,
    for_tests: bool,
) -> Option<String> {
    // A crate may name itself for its tests, to enable a feature that no product enables.
    if for_tests && imported == name {
        return None;
    }
    if layer.stratum.is_none() || layer.imports.iter().any(|import| import == imported) {
        return None;
    }
    let target = layers.get(imported)?;
    let tests_may = target.stratum.is_none() || target.stratum < layer.stratum;
    if for_tests && tests_may {
        return None;
    }
    Some(format!(
        "{name} may not import {imported}: move the code down, or change docs/layers.toml and say why"
    ))
}

/// The fault of the features that a dependency enables, if there is one.
fn check_features(dependency: &Value) -> Option<String> {
    let wanted = dependency["features"].as_array()?;
    let feature = wanted.iter().filter_map(Value::as_str).find(|feature| TEST_FEATURES.contains(feature))?;
    let name = dependency["name"].as_str().unwrap_or_default();
    (dependency["kind"].as_str() != Some("dev")).then(|| {
        format!(
            "{name} with the feature {feature}, which is for tests: only [dev-dependencies] may enable it"
        )
    })
}

/// The fault of an external dependency, if there is one.
fn check_external(external: &toml::Table, name: &str, imported: &str) -> Option<String> {
    if external.contains_key(imported) {
        return None;
    }
    Some(format!("{name} depends on {imported}: add it with its reason under [external] in docs/layers.toml"))
}

/// A package's name in the table: that of its folder.
fn folder(package: &str) -> &str {
    package.strip_prefix("sluice-").unwrap_or(package)
}

/// A package's manifest, relative to the root.
fn manifest_of(package: &Value, root: &Path) -> String {
    let path = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::{check_features, check_import, check_table, parse};

    const TABLE: &str = "
        [crate.base]
        stratum = 0
        imports = []
        [crate.value]
        stratum = 1
        imports = ['base']
        [crate.command]
        stratum = 1
        imports = ['base']
        [crate.testkit]
    ";

    #[test]
    fn an_import_outside_the_list_is_found_and_tests_may_import_what_lies_below() {
        let layers = parse(&TABLE.parse().expect("a table")).expect("layers");
        let command = &layers["command"];
        assert!(check_import(&layers, "command", command, "base", false).is_none());
        assert!(check_import(&layers, "command", command, "value", false).is_some());
        assert!(check_import(&layers, "command", command, "value", true).is_some());
        assert!(check_import(&layers, "command", command, "testkit", true).is_none());
        assert!(check_import(&layers, "command", command, "testkit", false).is_some());
    }

    #[test]
    fn a_crate_may_import_itself_for_its_tests_alone() {
        let layers = parse(&TABLE.parse().expect("a table")).expect("layers");
        assert!(check_import(&layers, "command", &layers["command"], "command", true).is_none());
        assert!(check_import(&layers, "command", &layers["command"], "command", false).is_some());
    }

    #[test]
    fn a_feature_for_tests_is_enabled_by_tests_alone() {
        let wants = |kind: Option<&str>, feature: &str| {
            check_features(&serde_json::json!({"name": "x", "kind": kind, "features": [feature]})).is_some()
        };
        assert!(wants(None, "sim") && wants(Some("build"), "sim"));
        assert!(!wants(Some("dev"), "sim") && !wants(None, "std"));
    }

    #[test]
    fn a_table_that_lets_siblings_import_each_other_is_refused() {
        let table = TABLE.replacen("imports = ['base']", "imports = ['command']", 1);
        assert_eq!(check_table(&parse(&table.parse().expect("a table")).expect("layers")).len(), 1);
        assert!(check_table(&parse(&TABLE.parse().expect("a table")).expect("layers")).is_empty());
    }
}
