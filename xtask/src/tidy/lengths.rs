//! Lengths of functions and files, by ratchet: what is too long today is recorded and may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::finding::{Finding, RATCHET};
use super::source::Source;
use crate::error::Result;
use crate::table::read_table;

/// Lines a function may have, from `fn` to its closing brace. A test is as long as its list of cases.
const FUNCTION_LINES_MAX: usize = 70;

/// Lines a file may have, its tests not counted.
const FILE_LINES_MAX: usize = 900;

/// Recorded lengths, and the files that are lists.
struct Ratchet {
    functions: BTreeMap<String, usize>,
    files: BTreeMap<String, usize>,
    lists: BTreeMap<String, String>,
}

/// Names and lengths above the limits, with the line to point at.
type Long = BTreeMap<String, (usize, usize)>;

/// Checks every function and file against limit and ratchet.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let ratchet = read(root)?;
    let (functions, files) = measure(&ratchet, sources);
    let mut findings = compare(&functions, &ratchet.functions, "function", FUNCTION_LINES_MAX);
    findings.extend(compare(&files, &ratchet.files, "file", FILE_LINES_MAX));
    for (list, _) in
        ratchet.lists.iter().filter(|(list, _)| !sources.iter().any(|s| s.path.starts_with(*list)))
    {
        findings.push(Finding::new(RATCHET, 0, format!("no file under {list}: remove it from [lists]")));
    }
    Ok(findings)
}

/// Writes the ratchet anew with the lengths of today: entries shrink or go, none is added and none grows.
/// `others` are the sections of other checks, which are written after these.
pub(super) fn tighten(root: &Path, sources: &[Source], others: &str) -> Result<()> {
    let ratchet = read(root)?;
    let (functions, files) = measure(&ratchet, sources);
    let shrink = |recorded: &BTreeMap<String, usize>, long: &Long| -> BTreeMap<String, usize> {
        let kept =
            recorded.iter().filter_map(|(name, &lines)| Some((name.clone(), lines.min(long.get(name)?.0))));
        kept.collect()
    };
    let mut text = String::from(
        "# What `cargo xtask tidy` allows today and may only shrink: lengths above the limits, circles, fields.\n",
    );
    for (title, table) in
        [("functions", shrink(&ratchet.functions, &functions)), ("files", shrink(&ratchet.files, &files))]
    {
        write!(text, "\n[{title}]\n")?;
        for (name, lines) in table {
            writeln!(text, "{name:?} = {lines}")?;
        }
    }
    text.push_str(others);
    text.push_str("\n# Files that are lists, exempt from both limits: path or folder = reason.\n[lists]\n");
    for (path, reason) in &ratchet.lists {
        writeln!(text, "{path:?} = {reason:?}")?;
    }
    std::fs::write(root.join(RATCHET), text)?;
    Ok(())
}

/// Reads the ratchet.
fn read(root: &Path) -> Result<Ratchet> {
    let table = read_table(&root.join(RATCHET))?;
    let section = |name: &str| table.get(name).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let numbers = |name: &str| -> BTreeMap<String, usize> {
        let numbers = section(name).into_iter();
        numbers.filter_map(|(key, value)| Some((key, usize::try_from(value.as_integer()?).ok()?))).collect()
    };
    let lists =
        section("lists").into_iter().map(|(key, value)| (key, value.as_str().unwrap_or("").to_string()));
    Ok(Ratchet { functions: numbers("functions"), files: numbers("files"), lists: lists.collect() })
}

/// Functions (`path::name`, the longest of that name) and files above their limits.
fn measure(ratchet: &Ratchet, sources: &[Source]) -> (Long, Long) {
    let (mut functions, mut files) = (Long::new(), Long::new());
    for source in
        sources.iter().filter(|s| !ratchet.lists.keys().any(|list| s.path.starts_with(list.as_str())))
    {
        let file_lines = source.code.iter().zip(&source.test).filter(|(_, test)| !**test).count();
        if file_lines > FILE_LINES_MAX {
            files.insert(source.path.clone(), (file_lines, 0));
        }
        let product = |line: usize| source.test.get(line - 1) == Some(&false);
        let long = source.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
        for function in long.filter(|function| product(function.line)) {
            let entry = functions.entry(format!("{}::{}", source.path, function.name)).or_insert((0, 0));
            *entry = (*entry).max((function.lines, function.line));
        }
    }
    (functions, files)
}

/// What is longer than allowed, and what the ratchet allows beyond need.
fn compare(long: &Long, recorded: &BTreeMap<String, usize>, kind: &str, limit: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, &(lines, line)) in long {
        let allowed = recorded.get(name).copied().unwrap_or(limit);
        if lines > allowed {
            let (path, item) = name.split_once("::").unwrap_or((name, ""));
            let what = format!("{kind} {item} has {lines} lines, {allowed} are allowed: split it");
            findings.push(Finding::new(path, line, what));
        }
    }
    for (name, &lines) in recorded {
        let now = long.get(name).map_or(0, |entry| entry.0);
        if now < lines {
            let what =
                format!("{name} is shorter than recorded: run `cargo xtask tidy --tighten` and commit");
            findings.push(Finding::new(RATCHET, 0, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Long, compare};

    #[test]
    fn the_ratchet_allows_what_it_records_and_no_more() {
        let long = Long::from([("a.rs::f".to_string(), (80, 3))]);
        let recorded = |lines| [("a.rs::f".to_string(), lines)].into();
        assert_eq!(compare(&long, &recorded(80), "function", 70).len(), 0);
        assert_eq!(compare(&long, &recorded(79), "function", 70).len(), 1);
        assert_eq!(compare(&long, &recorded(90), "function", 70).len(), 1);
        assert_eq!(compare(&long, &[].into(), "function", 70).len(), 1);
        assert_eq!(compare(&Long::new(), &recorded(80), "function", 70).len(), 1);
    }
}
