//! Structures of state stay small enough to be known: a type with many fields that others may touch is
//! several types.
//!
//! Counts the named fields that are visible outside of their type's own module (`pub`, `pub(crate)`,
//! `pub(super)`) in the product's crates, without tests. A record of values that is made and read as a whole,
//! such as the facts behind INFO, is no state: the ratchet names it with a reason. Counts above the limit are
//! kept there too, and only fall.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::finding::{Finding, RATCHET};
use super::names::{declared_struct, is_product};
use super::source::Source;
use crate::error::Result;
use crate::table::read_table;

/// Fields of a structure that others may touch.
const VISIBLE_FIELDS_MAX: usize = 16;

/// Structures above the limit: `path::Name` to fields and line.
type Large = BTreeMap<String, (usize, usize)>;

/// Counts that the ratchet allows, and records with their reasons.
struct Allowed {
    counts: BTreeMap<String, usize>,
    records: BTreeMap<String, String>,
}

/// Checks every structure against limit and ratchet.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    Ok(compare(&measure(sources), &read(root)?))
}

/// The ratchet's sections with the counts of today: entries shrink or go, none is added and none grows.
pub(super) fn tightened(root: &Path, sources: &[Source]) -> Result<String> {
    let (allowed, large) = (read(root)?, measure(sources));
    let mut text = String::from("\n# Structures with more visible fields than the limit.\n[fields]\n");
    for (name, count) in &allowed.counts {
        if let Some((now, _)) = large.get(name) {
            writeln!(text, "{name:?} = {}", now.min(count))?;
        }
    }
    text.push_str(
        "\n# Records that are made and read as a whole, exempt from that limit: type = reason.\n[records]\n",
    );
    for (name, reason) in &allowed.records {
        writeln!(text, "{name:?} = {reason:?}")?;
    }
    Ok(text)
}

/// Reads the ratchet.
fn read(root: &Path) -> Result<Allowed> {
    let table = read_table(&root.join(RATCHET))?;
    let section = |name: &str| table.get(name).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let counts = section("fields").into_iter();
    let counts = counts.filter_map(|(key, value)| Some((key, usize::try_from(value.as_integer()?).ok()?)));
    let records = section("records").into_iter();
    let records = records.map(|(key, value)| (key, value.as_str().unwrap_or("").to_string()));
    Ok(Allowed { counts: counts.collect(), records: records.collect() })
}

/// The product's structures above the limit.
fn measure(sources: &[Source]) -> Large {
    let mut large = Large::new();
    for source in sources.iter().filter(|source| is_product(&source.path)) {
        for (line, code) in source.code.iter().enumerate().filter(|(line, _)| !source.test[*line]) {
            let Some(name) = declared_struct(code) else { continue };
            let fields = visible_fields(source, line);
            if fields > VISIBLE_FIELDS_MAX {
                large.insert(format!("{}::{name}", source.path), (fields, line + 1));
            }
        }
    }
    large
}

/// Visible named fields of the structure that is declared at `line`, those that only tests have left out.
fn visible_fields(source: &Source, line: usize) -> usize {
    let (mut depth, mut fields) = (0_usize, 0);
    for (index, code) in source.code.iter().enumerate().skip(line) {
        let is_field = depth == 1 && code.trim_start().starts_with("pub") && code.contains(':');
        fields += usize::from(is_field && !source.test[index]);
        for letter in code.chars() {
            match letter {
                '{' => depth += 1,
                '}' if depth <= 1 => return fields,
                '}' => depth -= 1,
                ';' if depth == 0 => return 0,
                _ => {}
            }
        }
    }
    fields
}

/// Structures above what is allowed, and entries of the ratchet that nothing needs.
fn compare(large: &Large, allowed: &Allowed) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, &(fields, line)) in large.iter().filter(|(name, _)| !allowed.records.contains_key(*name)) {
        let most = allowed.counts.get(name).copied().unwrap_or(VISIBLE_FIELDS_MAX);
        if fields > most {
            let (path, item) = name.split_once("::").unwrap_or((name, ""));
            let what = format!(
                "{item} has {fields} fields that others may touch, {most} are allowed: divide it into parts \
                 that each own what belongs together"
            );
            findings.push(Finding::new(path, line, what));
        }
    }
    for (name, &count) in &allowed.counts {
        if large.get(name).map_or(0, |entry| entry.0) < count {
            let what =
                format!("{name} has fewer fields than recorded: run `cargo xtask tidy --tighten` and commit");
            findings.push(Finding::new(RATCHET, 0, what));
        }
    }
    for name in allowed.records.keys().filter(|name| !large.contains_key(*name)) {
        let what = format!("{name} is no structure above the limit: remove it from [records]");
        findings.push(Finding::new(RATCHET, 0, what));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{Allowed, VISIBLE_FIELDS_MAX, compare, measure};
    use crate::tidy::source::Source;

    /// A product's file with one structure: so many visible fields, and one more that is private.
    fn with_fields(visible: usize) -> Source {
        let fields: String = (0..visible).map(|n| format!("    pub(crate) f{n}: fn(u8) -> u8,\n")).collect();
        let text = format!(
            "pub struct Unit;\n/// Words.\npub(crate) struct Much<T>\nwhere\n    T: Copy,\n{{\n{fields}    own: T,\n}}\n\
             pub struct Pair(pub u8, pub u8);\n"
        );
        Source::scan("crates/engine/src/much.rs", &text)
    }

    fn allowed(counts: &[(&str, usize)], records: &[&str]) -> Allowed {
        Allowed {
            counts: counts.iter().map(|(name, count)| ((*name).to_string(), *count)).collect(),
            records: records.iter().map(|name| ((*name).to_string(), "reason".to_string())).collect(),
        }
    }

    #[test]
    fn one_field_above_the_limit_is_a_finding() {
        let none = allowed(&[], &[]);
        assert_eq!(compare(&measure(&[with_fields(VISIBLE_FIELDS_MAX)]), &none).len(), 0);
        let findings = compare(&measure(&[with_fields(VISIBLE_FIELDS_MAX + 1)]), &none);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].path.as_str(), findings[0].line), ("crates/engine/src/much.rs", 3));
        assert!(findings[0].what.starts_with("Much has 17 fields"));
    }

    #[test]
    fn what_the_ratchet_allows_may_only_shrink() {
        let name = "crates/engine/src/much.rs::Much";
        let large = measure(&[with_fields(20)]);
        assert_eq!(compare(&large, &allowed(&[(name, 20)], &[])).len(), 0);
        assert_eq!(compare(&large, &allowed(&[(name, 19)], &[])).len(), 1);
        assert_eq!(compare(&large, &allowed(&[(name, 21)], &[])).len(), 1);
        assert_eq!(compare(&large, &allowed(&[], &[name])).len(), 0);
        assert_eq!(compare(&measure(&[with_fields(3)]), &allowed(&[(name, 20)], &[name])).len(), 2);
    }

    #[test]
    fn fields_of_tests_and_types_of_other_crates_are_not_counted() {
        let mut source = with_fields(VISIBLE_FIELDS_MAX);
        source.code[6] = "    #[cfg(test)]".to_string() + &" ".repeat(8);
        assert_eq!(measure(&[source]).len(), 0);
        let other = Source::scan("crates/testkit/src/a.rs", &with_fields(20).code.join("\n"));
        assert_eq!(measure(&[other]).len(), 0);
    }
}
