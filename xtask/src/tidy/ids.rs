//! Ids of requirements: every id that code and documents cite has a row in `docs/requirements.md`, every
//! row is cited, and the tests that a row names exist.
//!
//! An id with a dash (one of the letters Q, T, C, M, R, D, U) counts everywhere. An id without a dash counts
//! in the documents of `crates/evloop`; in the sources there, and under `bench`, only an id with the letter E
//! counts. The name of a function can cite, too. A name that begins with `io_` cites ids with a dash, and one
//! that begins with `ev_` cites ids without a dash.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::finding::Finding;
use super::source::{Source, is_word};
use crate::error::Result;

/// The file with the rows.
const REQUIREMENTS: &str = "docs/requirements.md";

/// Letters of ids with a dash.
const DASHED: &[&str] = &["Q", "T", "C", "M", "R", "D", "U"];

/// Letters of ids without a dash.
const PLAIN: &[&str] = &[
    "S", "R", "W", "WD", "B", "C", "K", "F", "FIFO", "NB", "PRI", "TCP", "I", "P", "Q", "L", "T", "WP", "E",
];

/// Compares the citations with the rows.
pub(super) fn check(root: &Path, files: &[String], sources: &[Source]) -> Result<Vec<Finding>> {
    let Ok(text) = std::fs::read_to_string(root.join(REQUIREMENTS)) else { return Ok(Vec::new()) };
    let mut cited: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let read = |name: &&String| [".rs", ".md", ".toml"].iter().any(|end| name.ends_with(end));
    let other = |name: &&String| name.as_str() != REQUIREMENTS && !name.ends_with("tidy/ids.rs");
    for name in files.iter().filter(read).filter(other) {
        let text = std::fs::read_to_string(root.join(name))?;
        for (index, line) in text.lines().enumerate() {
            for id in cited_by(name, line) {
                cited.entry(id).or_insert((name.clone(), index + 1));
            }
        }
    }
    Ok(compare(&text, &cited, &names_of_functions(sources)))
}

/// The ids that a line of the file `name` cites.
fn cited_by(name: &str, line: &str) -> Vec<String> {
    let mut found = ids(line, DASHED, "-");
    if name.starts_with("crates/evloop/") && name.ends_with(".md") {
        found.extend(ids(line, PLAIN, ""));
    } else if name.starts_with("crates/evloop/") || name.starts_with("bench/") {
        found.extend(ids(line, &["E"], ""));
    }
    if let Some((_, function)) = line.split_once("fn ") {
        found.extend(cited_by_test(function));
    }
    found
}

/// The ids in the name of a test.
fn cited_by_test(name: &str) -> Vec<String> {
    let (prefix, dash) = if name.starts_with("ev_") { ("ev_", "") } else { ("io_", "-") };
    let Some(rest) = name.strip_prefix(prefix) else { return Vec::new() };
    let id = |part: &str| {
        let digits = part.find(|c: char| c.is_ascii_digit())?;
        let (letters, number) = part.split_at(digits);
        let known = if dash.is_empty() { PLAIN } else { DASHED };
        let letters = letters.to_uppercase();
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && known.contains(&letters.as_str())).then(|| format!("{letters}{dash}{number}"))
    };
    rest.split('_').map_while(id).collect()
}

/// The ids in a text: letters, `dash`, one or two digits. Two ids with ` – ` between them include all ids
/// of the range.
fn ids(text: &str, letters: &[&str], dash: &str) -> Vec<String> {
    let mut found: Vec<(usize, &str, u32)> = Vec::new();
    for letter in letters {
        for (at, _) in text.match_indices(&format!("{letter}{dash}")) {
            let number = &text[at + letter.len() + dash.len()..];
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            let before = text[..at].chars().next_back().is_some_and(|c| is_word(c) || c == '-');
            let after = number[digits..].chars().next().is_some_and(|c| is_word(c) || c == '-');
            if !before && !after && (1..=2).contains(&digits) {
                found.push((at, letter, number[..digits].parse().expect("two digits")));
            }
        }
    }
    found.sort_unstable();
    let mut ids = Vec::new();
    for (index, &(at, letter, number)) in found.iter().enumerate() {
        let range = index.checked_sub(1).map(|last| found[last]).filter(|&(from, other, _)| {
            other == letter && text[from..at].trim_start_matches(is_word).trim() == "–"
        });
        let first = range.map_or(number, |(_, _, first)| first);
        ids.extend((first.min(number)..=number).map(|number| format!("{letter}{dash}{number}")));
    }
    // Duplicates are removed, because the first id of a range was also found separately.
    ids.dedup();
    ids
}

/// The names of all functions.
fn names_of_functions(sources: &[Source]) -> BTreeSet<String> {
    let lines = sources.iter().flat_map(|source| &source.code);
    let names = lines.filter_map(|line| line.split_once("fn ").map(|(_, rest)| rest));
    names.map(|rest| rest.chars().take_while(|&c| is_word(c)).collect()).collect()
}

/// The differences between rows and citations, and between names in rows and functions.
fn compare(
    text: &str,
    cited: &BTreeMap<String, (String, usize)>,
    functions: &BTreeSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rows = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[_, id, _, tests, _] = cells.as_slice() else { continue };
        let known = ids(id, DASHED, "-").first() == Some(&id.to_string())
            || ids(id, PLAIN, "").first() == Some(&id.to_string());
        if !known {
            continue;
        }
        let mut say = |what: String| findings.push(Finding::new(REQUIREMENTS, index + 1, what));
        if !rows.insert(id.to_string()) {
            say(format!("{id} has a row already"));
        }
        if !cited.contains_key(id) {
            say(format!("nothing cites {id}: remove the row"));
        }
        if tests.is_empty() {
            say(format!("{id} says nothing of its test: name it, or say after a dash why there is none"));
        }
        for name in tests.split('`').skip(1).step_by(2).filter(|name| is_name_of_test(name)) {
            if !functions.range(name.to_string()..).next().is_some_and(|found| found.starts_with(name)) {
                say(format!("no function's name begins with {name}"));
            }
        }
    }
    for (id, (path, line)) in cited.iter().filter(|(id, _)| !rows.contains(*id)) {
        findings.push(Finding::new(path, *line, format!("cites {id}, which has no row in {REQUIREMENTS}")));
    }
    findings
}

/// Whether a word in backticks is the name of a test: an identifier of several parts.
fn is_name_of_test(name: &str) -> bool {
    name.contains('_') && name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_where_they_stand_alone() {
        assert_eq!(ids("so (Q-9), T-1; SHA-1, RESP-C-2, N-1, T-1x, C-123", DASHED, "-"), ["Q-9", "T-1"]);
        assert_eq!(
            ids("| P1 – P3 | Q1 R2 | WP7 E0004 xS1", PLAIN, ""),
            ["P1", "P2", "P3", "Q1", "R2", "WP7"]
        );
    }

    #[test]
    fn a_test_cites_by_its_name() {
        assert_eq!(cited_by_test("ev_s10_s11_watches_report_once() {"), ["S10", "S11"]);
        assert_eq!(cited_by_test("io_t3_workers_go()"), ["T-3"]);
        assert!(cited_by_test("io_threads_9_are_many()").is_empty());
        assert_eq!(cited_by("crates/x/src/a.rs", "    fn io_c5_x() { // see Q-1"), ["Q-1", "C-5"]);
    }

    #[test]
    fn ids_without_a_dash_count_at_the_event_loop_only() {
        assert_eq!(cited_by("crates/evloop/README.md", "echo (E4), S3"), ["E4", "S3"]);
        assert_eq!(cited_by("crates/evloop/benches/evloop.rs", "/// E4: T1"), ["E4"]);
        assert!(cited_by("docs/formats/rdb.md", "E4 C1").is_empty());
    }

    #[test]
    fn rows_citations_and_tests_have_to_agree() {
        let at = |line| ("a.rs".to_string(), line);
        let cited = BTreeMap::from([("Q-1".to_string(), at(1)), ("E4".to_string(), at(2))]);
        let functions = BTreeSet::from(["io_q1_order_is_kept".to_string()]);
        let text = "| id | requires | tested by |\n|---|---|---|\n| Q-1 | x | `io_q1`, `io_q1_gone`, `crates` |\n\
                    | Q-2 | x | – |\n| Q-1 | x |  |\n";
        let found: Vec<String> = compare(text, &cited, &functions).into_iter().map(|f| f.what).collect();
        assert_eq!(
            found,
            [
                "no function's name begins with io_q1_gone",
                "nothing cites Q-2: remove the row",
                "Q-1 has a row already",
                "Q-1 says nothing of its test: name it, or say after a dash why there is none",
                "cites E4, which has no row in docs/requirements.md",
            ]
        );
    }
}
