//! One word for one type: a name that several types of the product have says nothing in a search.
//!
//! Counts declarations of structures, enumerations, unions and traits in the sources of the product's crates,
//! whatever their visibility, without tests. The same name for two types is allowed: two drivers, two
//! parsers. Associated types and aliases are no types of their own and are not counted.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{Source, is_word};

/// Types of one name.
const SAME_NAME_MAX: usize = 2;

/// Checks the sources of all crates but those that serve tests.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut types: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(&source.path)) {
        for (index, code) in source.code.iter().enumerate().filter(|(index, _)| !source.test[*index]) {
            if let Some(name) = declared_type(code) {
                types.entry(name).or_default().push((&source.path, index + 1));
            }
        }
    }
    let shared = types.into_iter().filter(|(_, locations)| locations.len() > SAME_NAME_MAX);
    shared
        .flat_map(|(name, locations)| {
            let count = locations.len();
            let what = format!(
                "{count} types of the product are called {name}, {SAME_NAME_MAX} may be: name what this one is"
            );
            locations.into_iter().map(move |(path, line)| Finding::new(path, line, what.clone()))
        })
        .collect()
}

/// Whether a file belongs to what ships: a crate's own sources, without those of crates that serve tests.
pub(super) fn is_product(path: &str) -> bool {
    let is_of_tests = ["crates/testkit/", "crates/sim/"].iter().any(|folder| path.starts_with(folder));
    path.starts_with("crates/") && path.contains("/src/") && !is_of_tests
}

/// The name of the type that a line declares.
fn declared_type(code: &str) -> Option<&str> {
    declared(code, &["struct ", "enum ", "union ", "trait "])
}

/// The name of the structure that a line declares.
pub(super) fn declared_struct(code: &str) -> Option<&str> {
    declared(code, &["struct "])
}

/// The name of what a line declares by one of these words.
fn declared<'a>(code: &'a str, words: &[&str]) -> Option<&'a str> {
    let mut rest = code.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = match public.strip_prefix('(') {
            Some(restricted) => restricted.split_once(')')?.1.trim_start(),
            None => public.strip_prefix(' ')?,
        };
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let rest = words.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_whatever_their_visibility() {
        for (code, name) in [
            ("pub struct Waker {", Some("Waker")),
            ("    pub(in crate::sys) enum Kind<'a> {", Some("Kind")),
            ("pub(crate) unsafe trait Primitive: Sized {", Some("Primitive")),
            ("struct Word(u32);", Some("Word")),
            ("type Alias = Word;", None),
            ("let structure = 1;", None),
            ("pub fn trait_of() {}", None),
        ] {
            assert_eq!(declared_type(code), name, "{code}");
        }
    }

    #[test]
    fn the_third_type_of_a_name_is_one_too_many() {
        let file = |path: &str| {
            Source::scan(path, "//! x\nstruct Slot;\n#[cfg(test)]\nmod tests { struct Slot; }\n")
        };
        let two = [file("crates/a/src/lib.rs"), file("crates/b/src/x.rs"), file("crates/testkit/src/lib.rs")];
        assert!(check(&two).is_empty());
        let three = [file("crates/a/src/lib.rs"), file("crates/b/src/x.rs"), file("crates/c/src/x.rs")];
        let found = check(&three);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/a/src/lib.rs", 2));
    }
}
