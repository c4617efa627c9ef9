//! Keeps documents readable: bounds the words of a table's cells, the rows of a table, and the words of the
//! documents that users read first. Tables in generated text, between the marks `<!-- NAME -->` and `<!--
//! /NAME -->` with a name of [`GENERATED`], are left out.

use std::path::Path;

use super::finding::Finding;
use crate::error::Result;

/// Maximum words of a table's cell.
const CELL_WORDS_MAX: usize = 40;
/// Maximum rows of a table, without its head.
const ROWS_MAX: usize = 40;
/// Names of the marks around generated text.
const GENERATED: [&str; 4] = ["fields", "metrics", "directives", "suite"];
/// Maximum words of each document. The maximum of compat.md leaves some room for new differences from
/// Valkey.
const WORDS_MAX: [(&str, usize); 4] =
    [("README.md", 600), ("CHANGELOG.md", 1600), ("docs/compat.md", 9000), ("docs/performance.md", 2000)];

/// Finds cells, tables and documents among `files` that are too long. Tables are checked in `docs/` and in
/// the documents of [`WORDS_MAX`].
pub(super) fn check(root: &Path, files: &[String]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in files.iter().filter(|name| name.ends_with(".md")) {
        let bound = WORDS_MAX.iter().find(|(document, _)| document == name);
        if bound.is_none() && !name.starts_with("docs/") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(name))?;
        findings.extend(tables(name, &text));
        let words = text.split_whitespace().count();
        if let Some((_, most)) = bound.filter(|(_, most)| words > *most) {
            findings.push(Finding::new(name, 0, format!("{words} words, {most} are allowed")));
        }
    }
    Ok(findings)
}

/// Cells and tables of one document that are too long.
fn tables(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut in_code, mut is_generated, mut rows) = (false, false, 0);
    for (index, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            in_code = !in_code;
        }
        let mark = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
        if let Some(mark) = mark.filter(|_| !in_code) {
            let name = mark.strip_prefix('/');
            is_generated = GENERATED.contains(&mark)
                || is_generated && name.is_none_or(|name| !GENERATED.contains(&name));
        }
        if line.starts_with('|') && !in_code && !is_generated {
            rows += 1;
            let words = cells(line).map(|cell| cell.split_whitespace().count()).max().unwrap_or(0);
            if words > CELL_WORDS_MAX {
                let what =
                    format!("a cell of {words} words, {CELL_WORDS_MAX} are allowed: write a paragraph");
                findings.push(Finding::new(path, index + 1, what));
            }
            continue;
        }
        // The head has two rows.
        if rows > ROWS_MAX + 2 {
            let count = rows - 2;
            let what = format!("a table of {count} rows ends here, {ROWS_MAX} are allowed: write headings");
            findings.push(Finding::new(path, index, what));
        }
        rows = 0;
    }
    findings
}

/// The cells of a row; `\|` is a character of a cell.
fn cells(row: &str) -> impl Iterator<Item = String> {
    const BAR: char = '\u{1}';
    let row = row.replace("\\|", &BAR.to_string());
    let cells: Vec<String> = row.split('|').map(|cell| cell.replace(BAR, "|")).collect();
    cells.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        tables("docs/a.md", text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn long_cells_and_long_tables_are_found() {
        let cell = |words: usize| format!("| {} | b |\n", "word ".repeat(words));
        assert_eq!(lines(&format!("| a | b |\n|---|---|\n{}{}", cell(40), cell(41))), [4]);
        let table = |rows: usize| format!("| a | b |\n|---|---|\n{}", cell(1).repeat(rows));
        assert!(lines(&table(ROWS_MAX)).is_empty());
        assert_eq!(lines(&format!("{}\ntext\n", table(ROWS_MAX + 1))), [ROWS_MAX + 3]);
        assert!(lines(&format!("{}\n{}", table(30), table(30))).is_empty(), "two tables");
    }

    #[test]
    fn what_is_generated_and_code_may_be_long() {
        let cell = format!("| {} |\n", "word ".repeat(50));
        assert!(lines(&format!("<!-- fields -->\n{cell}<!-- /fields -->\n")).is_empty());
        assert_eq!(lines(&format!("<!-- fields -->\n{cell}<!-- /fields -->\n{cell}")), [4]);
        assert!(lines(&format!("```\n{cell}```\n")).is_empty());
        let escaped = format!("| {} \\| {} |\n", "word ".repeat(30), "word ".repeat(30));
        assert_eq!(lines(&escaped), [1], "one cell");
        assert_eq!(lines(&format!("<!-- a note -->\n{cell}")), [2], "no mark of what is generated");
        assert_eq!(lines(&format!("```\n<!-- suite -->\n```\n{cell}")), [4], "a mark within code");
    }

    #[test]
    fn documents_have_bounds_of_words() {
        let root = std::env::temp_dir().join(format!("tidy-documents-{}", std::process::id()));
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(root.join("README.md"), "word ".repeat(601)).unwrap();
        std::fs::write(root.join("docs/compat.md"), "word ".repeat(9000)).unwrap();
        std::fs::write(root.join("OTHER.md"), "word ".repeat(9001)).unwrap();
        let files = ["README.md", "docs/compat.md", "OTHER.md"].map(str::to_owned);
        let found = check(&root, &files).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.iter().map(|finding| &*finding.path).collect::<Vec<_>>(), ["README.md"]);
    }
}
