//! Finds names that several types of the product share, because such a name cannot be searched for.
//!
//! Counts declarations of structures, enumerations, unions and traits in the sources of the product's crates,
//! of any visibility, without tests. Two types may share a name, for example two drivers or two parsers.
//! Associated types and aliases are not counted.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::ratchet::{Counts, Section};
use super::source::{Source, is_word};
use crate::error::Result;

/// Maximum types with one name.
const SAME_NAME_MAX: usize = 2;

/// Names that types of several crates share, counted by ratchet.
pub(super) const SHARED: Section = Section {
    name: "names",
    about: "Names that types of several product crates have: how many such names.",
    limit: 0,
    unit: "names of types that several crates declare",
    advice: "`cargo xtask tidy --names` prints them; name what yours is",
};

/// The product's types: the path and line of each declaration, by name.
type Declared<'a> = BTreeMap<&'a str, Vec<(&'a str, usize)>>;

/// Checks the sources of all crates but those that support tests.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let crowded =
        declared_types(sources).into_iter().filter(|(_, locations)| locations.len() > SAME_NAME_MAX);
    crowded
        .flat_map(|(name, locations)| {
            let count = locations.len();
            let what = format!(
                "{count} types of the product are called {name}, {SAME_NAME_MAX} may be: name what this one is"
            );
            locations.into_iter().map(move |(path, line)| Finding::new(path, line, what.clone()))
        })
        .collect()
}

/// The number of names that types of several product crates share.
pub(super) fn shared(sources: &[Source]) -> Counts {
    let count = declared_types(sources).values().filter(|locations| is_shared(locations)).count();
    Counts::from([("crates".to_owned(), (count, 0))])
}

/// Prints the names, or one name, that types of several product crates share, with the declarations.
pub(super) fn print(sources: &[Source], only: Option<&str>) -> Result<()> {
    let types = declared_types(sources);
    let shared = types.iter().filter(|(_, locations)| is_shared(locations));
    for (name, locations) in shared.filter(|(name, _)| only.is_none_or(|only| only == **name)) {
        let shown: Vec<String> = locations.iter().map(|(path, line)| format!("{path}:{line}")).collect();
        println!("{name}: {}", shown.join(", "));
    }
    Ok(())
}

fn declared_types(sources: &[Source]) -> Declared<'_> {
    let mut types = Declared::new();
    for source in sources.iter().filter(|source| is_product(&source.path)) {
        for (index, code) in source.code.iter().enumerate().filter(|(index, _)| !source.test[*index]) {
            if let Some(name) = declared_type(code) {
                types.entry(name).or_default().push((&source.path, index + 1));
            }
        }
    }
    types
}

/// Whether the locations are in several crates.
fn is_shared(locations: &[(&str, usize)]) -> bool {
    let mut folders = locations.iter().filter_map(|(path, _)| path.split("/src/").next());
    let first = folders.next();
    folders.any(|folder| Some(folder) != first)
}

/// Whether a file is part of the product: a crate's own sources, without crates that support tests.
pub(super) fn is_product(path: &str) -> bool {
    let is_of_tests =
        ["crates/testbase/", "crates/testkit/", "crates/sim/"].iter().any(|folder| path.starts_with(folder));
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

/// The name in a line that declares an item with one of these keywords.
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
        assert_eq!(shared(&three)["crates"].0, 1);
        let one_crate = [file("crates/a/src/lib.rs"), file("crates/a/src/x.rs"), file("crates/sim/src/x.rs")];
        assert_eq!(shared(&one_crate)["crates"].0, 0);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/a/src/lib.rs", 2));
    }
}
