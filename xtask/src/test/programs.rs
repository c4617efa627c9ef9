//! The test programs that cargo builds, and the folders in which they run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::error::Result;
use crate::shell;

/// A built test program.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The folder of the package, the working directory of its tests.
    pub(super) folder: PathBuf,
    package: String,
    /// The name of the target; `kind` is `lib`, `bin` or `test`.
    target: String,
    kind: String,
}

impl Program {
    /// Whether the program has the integration tests of this package.
    pub(super) fn is_integration_of(&self, package: &str) -> bool {
        self.kind == "test" && self.package == package
    }

    /// The line with which cargo would announce the program.
    pub(super) fn title(&self) -> String {
        match self.kind.as_str() {
            "test" => format!("{} tests/{}", self.package, self.target),
            _ => format!("{} unittests", self.package),
        }
    }

    /// The program's name in a list of tests.
    pub(super) fn short(&self) -> String {
        match self.kind.as_str() {
            "test" => format!("{} --test {}", self.package, self.target),
            _ => format!("{} --{}", self.package, self.kind),
        }
    }
}

/// Builds the tests of these packages, given as arguments of `cargo test`; returns the
/// programs, sorted by package.
pub(super) fn build(packages: &[&str]) -> Result<Vec<Program>> {
    let mut cargo = shell::cargo();
    cargo.arg("test").args(packages).args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).stdout(Stdio::piped()).output()?;
    if !output.status.success() {
        return Err(format!("the tests do not build: cargo ended with {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let mut programs: Vec<Program> = text.lines().filter_map(program).collect();
    programs.sort_by_key(Program::title);
    Ok(programs)
}

/// The test program in a message of cargo, if there is one.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let package = message["package_id"].as_str()?;
    // A package id is `path+file:///folder/crates/engine#sluice-engine@0.1.0`, or ends with `#0.1.0` if the
    // folder has the name of the package.
    let named = package.rsplit_once('#').map_or(package, |(_, named)| named);
    let name = match named.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => manifest.parent()?.file_name()?.to_string_lossy().into_owned(),
    };
    Some(Program {
        path,
        folder: manifest.parent()?.to_owned(),
        package: name,
        target: message["target"]["name"].as_str()?.to_owned(),
        kind: message["target"]["kind"][0].as_str()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn only_messages_about_test_programs_count() {
        let message = |test: bool, executable: &str| {
            format!(
                r##"{{"reason":"compiler-artifact","package_id":"path+file:///a/crates/engine#sluice-engine@0.1.0",
                "manifest_path":"/a/crates/engine/Cargo.toml","target":{{"kind":["test"],"name":"it"}},
                "profile":{{"test":{test}}},"executable":{executable}}}"##
            )
        };
        let found = program(&message(true, "\"/a/target/it-1\"")).expect("a program");
        assert_eq!(found.title(), "sluice-engine tests/it");
        assert!(found.is_integration_of("sluice-engine") && found.folder.ends_with("crates/engine"));
        assert!(program(&message(false, "\"/a/target/server\"")).is_none());
        assert!(program(&message(true, "null")).is_none());
        assert!(program("not JSON").is_none());
    }
}
