//! Licences: the allowed ones for crates, and the text that lists them for users.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::dependencies::Dependency;
use crate::error::Result;

/// Whether the allowed licences alone satisfy an SPDX expression. A slash means OR, as in older crates.
pub(crate) fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let result = either(&mut words, allowed);
    words.next().is_none() && result == Some(true)
}

/// Parses a chain of OR; returns whether the allowed licences satisfy it, or `None` for an invalid
/// expression.
fn either<'a, I: Iterator<Item = &'a str>>(
    words: &mut std::iter::Peekable<I>,
    allowed: &[&str],
) -> Option<bool> {
    let mut met = both(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allowed)?;
    }
    Some(met)
}

/// Parses a chain of AND; returns the same as [`either`].
fn both<'a, I: Iterator<Item = &'a str>>(
    words: &mut std::iter::Peekable<I>,
    allowed: &[&str],
) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed)?;
    }
    Some(met)
}

/// Parses a licence, with its exception if it has one, or an expression in parentheses; returns the same as
/// [`either`].
fn one<'a, I: Iterator<Item = &'a str>>(
    words: &mut std::iter::Peekable<I>,
    allowed: &[&str],
) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let met = either(words, allowed)?;
        return words.next_if_eq(&")").map(|_| met);
    }
    if matches!(word, ")" | "OR" | "AND" | "WITH") {
        return None;
    }
    if words.next_if_eq(&"WITH").is_none() {
        return Some(allowed.contains(&word));
    }
    let with_exception = format!("{word} WITH {}", words.next()?);
    Some(allowed.contains(&with_exception.as_str()))
}

/// `THIRD-PARTY-LICENSES`: the crates of the programs, and the texts of their licences, each once.
pub(crate) fn text(product: &[Dependency]) -> Result<String> {
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for dependency in product {
        let named = format!("{} {}", dependency.name, dependency.version);
        list += &format!("{named}: {}\n", dependency.licence);
        for path in files(&dependency.folder)? {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            // Line ends and trailing blanks do not make a text different.
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            texts.entry(lines.join("\n").trim().to_owned()).or_default().push(named.clone());
        }
    }
    let mut by_crate: Vec<(Vec<String>, String)> = texts.into_iter().map(|(text, of)| (of, text)).collect();
    by_crate.sort();
    let rule = "-".repeat(80);
    let texts: String = by_crate
        .iter()
        .map(|(of, text)| format!("{rule}\n{}\n{rule}\n\n{text}\n\n", of.join("\n")))
        .collect();
    Ok(format!("{HEAD}\n{list}\n{texts}"))
}

const HEAD: &str = "\
The programs of Sluice contain the crates below, each under the licence behind its name, and the standard library of Rust
(MIT OR Apache-2.0, the Rust project's contributors). The texts of the licences follow, as the crates have them.
";

/// The licence files of a crate: in its folder, and in the folders directly below, which may have sources
/// in other languages.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    for folder in folders {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
            let begins = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE", "NOTICE"];
            if path.is_file() && begins.iter().any(|begin| name.starts_with(begin)) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, text};
    use crate::package::dependencies;

    #[test]
    fn expressions_are_met_by_what_is_allowed() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for met in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "MIT AND (ISC OR GPL-2.0)",
            "Apache-2.0 WITH LLVM-exception",
            "(GPL-2.0 AND X) OR ISC",
        ] {
            assert!(is_allowed(met, &allowed), "{met}");
        }
        for not in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "MIT OR", "(MIT", "MIT)", "MIT ISC", "OR MIT"]
        {
            assert!(!is_allowed(not, &allowed), "{not}");
        }
    }

    #[test]
    fn the_text_names_every_crate_and_has_its_licence() {
        let product = dependencies::of_product().expect("metadata");
        let text = text(&product).expect("texts");
        for dependency in &product {
            let line = format!("{} {}: {}\n", dependency.name, dependency.version, dependency.licence);
            assert!(text.contains(&line), "{line}");
        }
        assert!(text.contains("Jason Evans"), "jemalloc's licence, which lies beside its sources in C");
    }
}
