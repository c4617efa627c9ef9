//! How wide comments are.

use super::Finding;
use super::source::Source;

/// Columns of a comment at most, its indentation included. Code may have a few more: a comment is read, not
/// scanned.
const WIDTH_MAX: usize = 110;

/// Comments that are too wide. Diagrams and tables are as wide as they have to be.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(wide_lines).collect()
}

fn wide_lines(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_diagram = false;
    for (index, (code, comment)) in source.code.iter().zip(&source.comments).enumerate() {
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        if !code.trim().is_empty() || comment.is_empty() {
            in_diagram = false;
            continue;
        }
        if text.starts_with("```") {
            in_diagram = !in_diagram;
            continue;
        }
        let width = code.chars().count();
        if width > WIDTH_MAX && !in_diagram && !text.starts_with('|') {
            let what = format!("a comment of {width} columns, {WIDTH_MAX} are allowed");
            findings.push(Finding::new(&source.path, index + 1, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&[Source::scan("a.rs", text)]).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn only_wide_prose_is_found() {
        let long = "word ".repeat(22);
        assert_eq!(lines(&format!("//! {long}\n// short\n    /// {long}.\n")), [1, 3]);
        assert!(lines(&format!("//! {}\n", "x".repeat(WIDTH_MAX - 4))).is_empty());
        assert_eq!(lines(&format!("//! {}\n", "x".repeat(WIDTH_MAX - 3))), [1]);
        // Code, a table, a diagram; the fence of one comment says nothing of the next.
        assert!(lines(&format!("let a = \"{long}\"; // {long}\n/// | {long} |\n")).is_empty());
        assert_eq!(lines(&format!("//! ```text\n//! {long}\n//! ```\n//! {long}\n")), [4]);
        assert_eq!(lines(&format!("/// ```text\nfn f() {{}}\n/// {long}\n")), [3]);
    }
}
