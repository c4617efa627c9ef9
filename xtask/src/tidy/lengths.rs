//! Lengths of functions and files, by ratchet: current excesses are recorded and may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::finding::{Finding, RATCHET};
use super::ratchet::{Counts, Section};
use super::source::Source;
use crate::error::Result;
use crate::table::read_table;

/// Maximum number of lines of a function, from `fn` to its closing brace. Tests are exempt, because they are
/// lists of cases.
const FUNCTIONS: Section = Section {
    name: "functions",
    about: "Functions with more lines than the limit.",
    limit: 70,
    unit: "lines",
    advice: "split the function",
};

/// Maximum number of lines of a file, without its tests.
const FILES: Section = Section {
    name: "files",
    about: "Files with more lines than the limit.",
    limit: 900,
    unit: "lines",
    advice: "split the file",
};

/// Files and folders that are lists, each with a reason.
type Lists = BTreeMap<String, String>;

/// Checks every function and file against limit and ratchet.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let lists = read(root)?;
    let (functions, files) = measure(&lists, sources);
    let mut findings = FUNCTIONS.check(root, &functions)?;
    findings.extend(FILES.check(root, &files)?);
    for list in lists.keys().filter(|list| !sources.iter().any(|s| s.path.starts_with(list.as_str()))) {
        findings.push(Finding::new(RATCHET, 0, format!("no file under {list}: remove it from [lists]")));
    }
    Ok(findings)
}

/// Writes the ratchet again with the current lengths: entries shrink or disappear, none is added or
/// grows. `others` are the sections of other checks, which are written after these.
pub(super) fn tighten(root: &Path, sources: &[Source], others: &str) -> Result<()> {
    let lists = read(root)?;
    let (functions, files) = measure(&lists, sources);
    let mut text = String::from(
        "# What `cargo xtask tidy` allows today and may only shrink: lengths above the limits, circles, fields.\n",
    );
    text.push_str(&FUNCTIONS.tightened(root, &functions)?);
    text.push_str(&FILES.tightened(root, &files)?);
    text.push_str(others);
    text.push_str("\n# Files that are lists, exempt from both limits: path or folder = reason.\n[lists]\n");
    for (path, reason) in &lists {
        writeln!(text, "{path:?} = {reason:?}")?;
    }
    std::fs::write(root.join(RATCHET), text)?;
    Ok(())
}

/// Reads the lists of the ratchet.
fn read(root: &Path) -> Result<Lists> {
    let table = read_table(&root.join(RATCHET))?;
    let section = table.get("lists").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    Ok(section.into_iter().map(|(key, value)| (key, value.as_str().unwrap_or("").to_string())).collect())
}

/// Functions (`path::name`, the longest of that name) and files above their limits.
fn measure(lists: &Lists, sources: &[Source]) -> (Counts, Counts) {
    let (mut functions, mut files) = (Counts::new(), Counts::new());
    for source in sources.iter().filter(|s| !lists.keys().any(|list| s.path.starts_with(list.as_str()))) {
        let file_lines = source.code.iter().zip(&source.test).filter(|(_, test)| !**test).count();
        if file_lines > FILES.limit {
            files.insert(source.path.clone(), (file_lines, 0));
        }
        let product = |line: usize| source.test.get(line - 1) == Some(&false);
        let long = source.functions().into_iter().filter(|function| function.lines > FUNCTIONS.limit);
        for function in long.filter(|function| product(function.line)) {
            let entry = functions.entry(format!("{}::{}", source.path, function.name)).or_insert((0, 0));
            *entry = (*entry).max((function.lines, function.line));
        }
    }
    (functions, files)
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, Lists, measure};
    use crate::tidy::source::Source;

    #[test]
    fn a_function_above_the_limit_is_counted_but_in_a_list() {
        let text = |lines: usize| format!("fn f() {{\n{}}}\n", "    a();\n".repeat(lines - 2));
        let of = |lines, lists: &Lists| measure(lists, &[Source::scan("crates/a/src/b.rs", &text(lines))]).0;
        assert!(of(FUNCTIONS.limit, &Lists::new()).is_empty());
        let long = of(FUNCTIONS.limit + 1, &Lists::new());
        assert_eq!(long.get("crates/a/src/b.rs::f"), Some(&(71, 1)));
        let lists = Lists::from([("crates/a/".to_owned(), "a reason".to_owned())]);
        assert!(of(FUNCTIONS.limit + 1, &lists).is_empty());
    }
}
