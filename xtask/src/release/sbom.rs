//! The bill of materials: CycloneDX 1.5 in JSON, from the output of `cargo metadata`.

use serde_json::{Value, json};

use crate::error::Result;
use crate::package::build::Build;
use crate::package::dependencies::Dependency;
use crate::shell;

/// The text of the bill.
pub(crate) fn text(product: &[Dependency], build: &Build) -> Result<String> {
    let checksums = checksums(&std::fs::read_to_string(shell::root().join("Cargo.lock"))?)?;
    let root = "sluice";
    let components: Vec<Value> = product.iter().map(|crate_| component(crate_, &checksums)).collect();
    let references: Vec<String> = product.iter().map(reference).collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": root,
                "version": build.version,
                "licenses": [{ "license": { "id": "BSD-3-Clause" } }],
            },
        },
        "components": components,
        "dependencies": [{ "ref": root, "dependsOn": references }],
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The package URL of a crate.
fn reference(dependency: &Dependency) -> String {
    // An unencoded plus sign, as in `0.7.1+5.3.1`, would mean a blank.
    format!("pkg:cargo/{}@{}", dependency.name, dependency.version.replace('+', "%2B"))
}

fn component(dependency: &Dependency, checksums: &toml::Table) -> Value {
    let reference = reference(dependency);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": dependency.name,
        "version": dependency.version,
        "purl": reference,
        "licenses": [{ "expression": dependency.licence.replace('/', " OR ") }],
    });
    let key = format!("{} {}", dependency.name, dependency.version);
    if let Some(checksum) = checksums.get(&key).and_then(toml::Value::as_str) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// The checksums of a lock file, by name and version.
fn checksums(lock: &str) -> Result<toml::Table> {
    let lock: toml::Table = lock.parse()?;
    let mut checksums = toml::Table::new();
    for package in lock.get("package").and_then(toml::Value::as_array).into_iter().flatten() {
        let field = |name: &str| package.get(name).and_then(toml::Value::as_str);
        if let (Some(name), Some(version), Some(sum)) = (field("name"), field("version"), field("checksum")) {
            checksums.insert(format!("{name} {version}"), sum.into());
        }
    }
    Ok(checksums)
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::package::build::Build;
    use crate::package::dependencies;

    #[test]
    fn every_crate_has_its_address_licence_and_checksum() {
        let product = dependencies::of_product().expect("metadata");
        let build = Build {
            version: "0.1.0".to_owned(),
            date: 0,
            programs: Default::default(),
            licences: String::new(),
        };
        let document: serde_json::Value =
            serde_json::from_str(&text(&product, &build).expect("a text")).expect("JSON");
        let components = document["components"].as_array().expect("a list");
        assert_eq!(components.len(), product.len());
        for component in components {
            assert!(component["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/")));
            assert_eq!(component["hashes"][0]["content"].as_str().map(str::len), Some(64), "{component}");
            assert!(component["licenses"][0]["expression"].as_str().is_some_and(|text| !text.is_empty()));
        }
    }
}
