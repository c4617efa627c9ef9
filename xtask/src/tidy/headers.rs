//! Headers and paths: every source begins with a description of its subject, and no file contains a path
//! of the machine that it was written on.

use std::path::Path;

use super::finding::Finding;
use super::ratchet::{Counts, Section};
use super::source::{Source, is_word};

/// File names that describe no subject, although a backtrace, a tab and a review show only the name of a
/// file.
const MECHANISMS: [&str; 3] = ["steps.rs", "util.rs", "helpers.rs"];

/// Files with such a name, counted by name.
pub(super) const FILE_NAMES: Section = Section {
    name: "file-names",
    about: "Files whose name is no noun of the matter.",
    limit: 0,
    unit: "files of that name",
    advice: "a file's name is a noun of the matter",
};

/// The number of `files` with each name of `MECHANISMS`.
pub(super) fn file_names(files: &[String]) -> Counts {
    let named = |name: &str| files.iter().filter(|path| path.rsplit('/').next() == Some(name)).count();
    MECHANISMS.iter().map(|name| ((*name).to_owned(), (named(name), 0))).collect()
}

/// Checks that the first line of each file is its `//!` header. A file named `tests.rs` needs none.
pub(super) fn check_headers(sources: &[Source]) -> Vec<Finding> {
    let what = "the first line must be `//!`: what this is and its invariants";
    let headed = |source: &Source| source.comments.first().is_some_and(|comment| comment.starts_with("//!"));
    let named = |source: &Source| source.path.ends_with("/tests.rs");
    let headless = sources.iter().filter(|source| !headed(source) && !named(source));
    headless.map(|source| Finding::new(&source.path, 1, what)).collect()
}

/// Checks that no tracked text names a folder of the machine that it was written on.
pub(super) fn check_paths(root: &Path, files: &[String]) -> Vec<Finding> {
    let mut banned = vec![root.to_string_lossy().into_owned()];
    banned.extend(["root", "work", "home", "Users"].map(|folder| format!("/{folder}/")));
    banned.extend(std::env::var("HOME").ok().filter(|home| home.len() > 1));
    let mut findings = Vec::new();
    for name in files {
        let Ok(text) = std::fs::read_to_string(root.join(name)) else { continue };
        for (index, line) in text.lines().enumerate() {
            if let Some(found) = banned.iter().find(|path| names(line, path)) {
                let what = format!("names {found}: a path of one machine means nothing on another");
                findings.push(Finding::new(name, index + 1, what));
            }
        }
    }
    findings
}

/// Whether `line` contains an absolute path that begins with `path`.
fn names(line: &str, path: &str) -> bool {
    let starts_path =
        |before: char| is_word(before) || matches!(before, '.' | '/' | '-' | '*' | '}' | '~' | ':');
    line.match_indices(path).any(|(at, _)| !line[..at].chars().next_back().is_some_and(starts_path))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn only_an_absolute_path_counts() {
        let folder = format!("/{}/", "work");
        assert!(names(&format!("see {folder}x"), &folder));
        assert!(names(&format!("\"{folder}x\""), &folder));
        assert!(!names(&format!("a{folder}x and https://host{folder}y"), &folder));
    }
}
