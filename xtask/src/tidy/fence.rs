//! The unsafe fence: the files that may contain `unsafe`, and the comments that justify each use.

use std::collections::BTreeSet;
use std::path::Path;

use super::finding::Finding;
use super::source::{Source, words};
use crate::error::Result;

/// The list of files; a line `- ` followed by a path in backquotes is an entry.
const LIST: &str = "docs/unsafe.md";

/// Checks every source against the list, and the list against the sources.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(LIST)).unwrap_or_default();
    let listed = parse(&text);
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources {
        let lines = unsafe_lines(source);
        let Some(&first) = lines.first() else { continue };
        used.insert(source.path.clone());
        if !listed.contains(&source.path) {
            let what = format!(
                "unsafe outside the fence: write it safely, or list the file in {LIST} with its reason"
            );
            findings.push(Finding::new(&source.path, first + 1, what));
        }
        findings.extend(lines.iter().filter_map(|&line| check_use(source, line)));
        if !source.comments.iter().any(|comment| comment.contains("JUSTIFICATION:")) {
            let what =
                "no `// JUSTIFICATION:` in a file with unsafe: say what it buys, with the measured gain";
            findings.push(Finding::new(&source.path, first + 1, what));
        }
    }
    for path in listed.difference(&used) {
        findings.push(Finding::new(LIST, 0, format!("`{path}` has no unsafe any more: remove its line")));
    }
    Ok(findings)
}

/// The paths that the list names.
fn parse(text: &str) -> BTreeSet<String> {
    let entries = text.lines().filter_map(|line| line.trim_start().strip_prefix("- `"));
    entries
        .filter_map(|entry| entry.split('`').next())
        .filter(|path| path.ends_with(".rs"))
        .map(str::to_string)
        .collect()
}

/// Lines (from 0) with the keyword; attributes that forbid or deny it do not contain the word itself.
fn unsafe_lines(source: &Source) -> Vec<usize> {
    let has = |line: &&usize| words(&source.code[**line], "unsafe").next().is_some();
    (0..source.code.len()).collect::<Vec<_>>().iter().filter(has).copied().collect()
}

/// A finding if the use of `unsafe` on `line` lacks its comment.
fn check_use(source: &Source, line: usize) -> Option<Finding> {
    let code = &source.code[line];
    let at = words(code, "unsafe").next()?;
    let rest = code[at + "unsafe".len()..].trim_start();
    if code.trim_start().starts_with("#[unsafe") || rest.starts_with("extern") {
        return None;
    }
    let declares = rest.starts_with("fn") || rest.starts_with("trait");
    if declares && code[..at].contains("type ") || rest.starts_with("fn(") {
        return None; // the type of a function pointer
    }
    if declares && is_in_unsafe_impl(source, line) {
        return None; // the trait says what a caller must guarantee
    }
    let wanted = if declares { "# Safety" } else { "SAFETY:" };
    if comment_above(source, line).contains(wanted) || source.comments[line].contains(wanted) {
        return None;
    }
    let what = match declares {
        true => "an unsafe function without a `# Safety` section: say what a caller must guarantee",
        false => "unsafe without `// SAFETY:` above it: name what guarantees each condition",
    };
    Some(Finding::new(&source.path, line + 1, what))
}

/// Whether the item on `line` is in an `unsafe impl`: the nearest line above with less
/// indentation opens one.
fn is_in_unsafe_impl(source: &Source, line: usize) -> bool {
    let indent = |code: &str| code.len() - code.trim_start().len();
    let own = indent(&source.code[line]);
    let mut above = source.code[..line].iter().rev().filter(|code| !code.trim().is_empty());
    above.find(|code| indent(code) < own).is_some_and(|code| code.contains("unsafe impl"))
}

/// The comment lines above `line`; attributes and the beginning of the same statement are skipped.
fn comment_above(source: &Source, line: usize) -> String {
    let mut text = String::new();
    let mut seen_comment = false;
    for above in (0..line).rev() {
        let code = source.code[above].trim();
        if !source.comments[above].is_empty() {
            text.push_str(&source.comments[above]);
            text.push('\n');
            seen_comment = true;
        }
        let ends_before =
            code.ends_with(';') || code.ends_with('}') || code.ends_with('{') || code.ends_with(',');
        let attribute = code.starts_with("#[") || code.is_empty() && !source.comments[above].is_empty();
        if attribute {
            continue;
        }
        if seen_comment || ends_before || code.is_empty() {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{check_use, parse, unsafe_lines};
    use crate::tidy::source::Source;

    fn missing(text: &str) -> usize {
        let source = Source::scan("a.rs", text);
        unsafe_lines(&source).into_iter().filter_map(|line| check_use(&source, line)).count()
    }

    #[test]
    fn a_block_needs_a_comment_and_a_function_a_section() {
        assert_eq!(missing("fn f() {\n    unsafe { g() };\n}\n"), 1);
        assert_eq!(missing("fn f() {\n    // SAFETY: a reason.\n    unsafe { g() };\n}\n"), 0);
        assert_eq!(missing("// SAFETY: too far.\nfn f() {\n    a();\n    unsafe { g() };\n}\n"), 1);
        assert_eq!(
            missing(
                "fn f() {\n    // SAFETY: a reason,\n    // of two lines.\n    let a =\n        unsafe { g() };\n}\n"
            ),
            0
        );
        assert_eq!(missing("/// Does.\n///\n/// # Safety\n/// - always\n#[inline]\nunsafe fn f() {}\n"), 0);
        assert_eq!(missing("/// Does.\nunsafe fn f() {}\n"), 1);
        assert_eq!(missing("#![forbid(unsafe_code)]\n"), 0);
        assert_eq!(missing("// SAFETY: a reason.\nunsafe impl A for B {\n    unsafe fn f() {}\n}\n"), 0);
    }

    #[test]
    fn entries_are_paths_in_backquotes() {
        let paths = parse("# List\n- `crates/a/src/b.rs`: why\n- prose about `x`\n- `not a path`\n");
        assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["crates/a/src/b.rs"]);
    }
}
