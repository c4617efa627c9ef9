//! Compares the constants in `docs/limits.md` with their values in the code.
//!
//! The document contains `crate::NAME = value`; a constant of that name in the crate's sources must have
//! exactly this value.

use std::path::Path;

use super::finding::Finding;
use super::source::Source;

/// The file of the limits.
const LIMITS: &str = "docs/limits.md";

/// Compares the document with the code.
pub(super) fn check(root: &Path, sources: &[Source]) -> Vec<Finding> {
    let Ok(text) = std::fs::read_to_string(root.join(LIMITS)) else { return Vec::new() };
    compare(&text, sources)
}

fn compare(text: &str, sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for claim in line.split('`').skip(1).step_by(2) {
            let Some((path, value)) = claim.split_once(" = ") else { continue };
            let Some((folder, name)) = path.split_once("::").filter(|(folder, _)| *folder != "crate") else {
                continue;
            };
            let found = values(folder, name, sources);
            if !found.iter().any(|found| found == value) {
                let what = match found.first() {
                    Some(other) => format!("{folder}::{name} is {other} and not {value}"),
                    None => format!("crates/{folder} has no constant {name}"),
                };
                findings.push(Finding::new(LIMITS, index + 1, what));
            }
        }
    }
    findings
}

/// The values of the constants with this name in a crate.
fn values(folder: &str, name: &str, sources: &[Source]) -> Vec<String> {
    let inside = format!("crates/{folder}/src/");
    let lines = sources.iter().filter(|source| source.path.starts_with(&inside)).flat_map(|s| &s.code);
    let declared = format!("const {name}: ");
    lines
        .filter_map(|line| line.split_once(&declared)?.1.split_once(" = ")?.1.strip_suffix(';'))
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Source, compare};

    #[test]
    fn a_bound_that_the_code_does_not_have_is_found() {
        let code = "pub(crate) const RING: usize = 4096;\nconst STEP: u64 = 1 << 20;\n";
        let sources = [Source::scan("crates/a/src/x.rs", code)];
        let text = "`crate::NAME = value`\n| `a::RING = 4096` and `a::STEP = 1 << 20` |\n\
                    | `a::RING = 512`, `a::GONE = 1`, `b::RING = 4096` |";
        let found: Vec<(usize, String)> =
            compare(text, &sources).into_iter().map(|finding| (finding.line, finding.what)).collect();
        let wanted =
            ["a::RING is 4096 and not 512", "crates/a has no constant GONE", "crates/b has no constant RING"];
        assert_eq!(found, wanted.map(|what| (3, what.to_string())));
    }
}
