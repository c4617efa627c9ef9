//! Rules for comments: their width, and that each can be read without its neighbours.

use super::finding::Finding;
use super::source::Source;

/// Maximum columns of a comment, including its indentation. Code may have a few columns more, because
/// comments are read word by word, while code is skimmed.
const WIDTH_MAX: usize = 110;

/// Beginnings of comments, and of their paragraphs, that can only be read together with the text above.
const LEANING: [&str; 4] = ["The same", "Those of", "It is.", "It does."];

/// Finds comments that are too wide, and comments that depend on their neighbours. Diagrams and tables may
/// have any width.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().flat_map(|source| wide_lines(source).into_iter().chain(leaning_lines(source))).collect()
}

fn leaning_lines(source: &Source) -> Vec<Finding> {
    let text = |index: usize| match source.code[index].trim().is_empty() {
        true => source.comments[index].trim_start_matches(['/', '!']).trim_start(),
        false => "",
    };
    let is_prose = |index: usize| !text(index).is_empty() && !text(index).starts_with('#');
    let first_lines = (0..source.comments.len()).filter(|at| *at == 0 || !is_prose(at - 1));
    let leaning = first_lines.filter_map(|at| {
        let text = text(at);
        let begins = LEANING.iter().find(|begins| text.starts_with(**begins))?;
        let what = format!("a comment that begins `{begins}` leans on its neighbour: name what it is about");
        Some(Finding::new(&source.path, at + 1, what))
    });
    leaning.collect()
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
    fn wide_and_leaning_prose_is_found() {
        let long = "word ".repeat(22);
        assert_eq!(lines(&format!("//! {long}\n// short\n    /// {long}.\n")), [1, 3]);
        assert!(lines(&format!("//! {}\n", "x".repeat(WIDTH_MAX - 4))).is_empty());
        assert_eq!(lines(&format!("//! {}\n", "x".repeat(WIDTH_MAX - 3))), [1]);
        assert_eq!(lines("/// The same, to change.\nfn f() {}\n    /// It is.\n    A,\n"), [1, 3]);
        assert!(lines("/// A list.\n/// The same list twice.\nfn f() {} // The same\n").is_empty());
        assert_eq!(lines("//! The same twice.\nfn f() {\n    // The same again.\n"), [1, 3]);
        assert_eq!(lines("/// A list.\n///\n/// # Errors\n/// Those of the other.\nfn f() {}\n"), [4]);
        // Lines of code, of a table and of a diagram may be wide; the fence of one comment does not affect
        // the next.
        assert!(lines(&format!("let a = \"{long}\"; // {long}\n/// | {long} |\n")).is_empty());
        assert_eq!(lines(&format!("//! ```text\n//! {long}\n//! ```\n//! {long}\n")), [4]);
        assert_eq!(lines(&format!("/// ```text\nfn f() {{}}\n/// {long}\n")), [3]);
    }
}
