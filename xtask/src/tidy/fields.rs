//! Limits the visible fields of structures, because a type with many fields that other modules may access
//! should be several types.
//!
//! Counts the named fields that are visible outside of their type's own module (`pub`, `pub(crate)`,
//! `pub(super)`) in the product's crates, without tests. A record of values that is created and read as a
//! whole, such as the facts for INFO, is no state, so the ratchet lists it with a reason. Other counts above
//! the limit are listed there, too, and may only fall.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::finding::{Finding, RATCHET};
use super::names::{declared_struct, is_product};
use super::ratchet::{Counts, Section};
use super::source::Source;
use crate::error::Result;
use crate::table::read_table;

/// Maximum number of fields of a structure that are visible to other modules.
const FIELDS: Section = Section {
    name: "fields",
    about: "Structures with more visible fields than the limit.",
    limit: 16,
    unit: "fields that others may touch",
    advice: "divide the structure into parts that each own what belongs together",
};

/// Records, with their reasons.
type Records = BTreeMap<String, String>;

/// Checks every structure against limit and ratchet.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let (records, large) = (read(root)?, measure(sources));
    let mut findings = FIELDS.check(root, &without(&large, &records))?;
    findings.extend(needless(&large, &records));
    Ok(findings)
}

/// The ratchet's sections with the current counts: entries shrink or disappear, none is added or grows.
pub(super) fn tightened(root: &Path, sources: &[Source]) -> Result<String> {
    let (records, large) = (read(root)?, measure(sources));
    let mut text = FIELDS.tightened(root, &without(&large, &records))?;
    text.push_str(
        "\n# Records that are made and read as a whole, exempt from that limit: type = reason.\n[records]\n",
    );
    for (name, reason) in &records {
        writeln!(text, "{name:?} = {reason:?}")?;
    }
    Ok(text)
}

/// Reads the records of the ratchet.
fn read(root: &Path) -> Result<Records> {
    let table = read_table(&root.join(RATCHET))?;
    let section = table.get("records").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    Ok(section.into_iter().map(|(key, value)| (key, value.as_str().unwrap_or("").to_string())).collect())
}

/// The structures that are not listed as records.
fn without(large: &Counts, records: &Records) -> Counts {
    let others = large.iter().filter(|(name, _)| !records.contains_key(*name));
    others.map(|(name, count)| (name.clone(), *count)).collect()
}

/// Records that do not exceed the limit.
fn needless(large: &Counts, records: &Records) -> Vec<Finding> {
    let names = records.keys().filter(|name| !large.contains_key(*name));
    let what = |name| format!("{name} is no structure above the limit: remove it from [records]");
    names.map(|name| Finding::new(RATCHET, 0, what(name))).collect()
}

/// The product's structures above the limit.
fn measure(sources: &[Source]) -> Counts {
    let mut large = Counts::new();
    for source in sources.iter().filter(|source| is_product(&source.path)) {
        for (line, code) in source.code.iter().enumerate().filter(|(line, _)| !source.test[*line]) {
            let Some(name) = declared_struct(code) else { continue };
            let fields = visible_fields(source, line);
            if fields > FIELDS.limit {
                large.insert(format!("{}::{name}", source.path), (fields, line + 1));
            }
        }
    }
    large
}

/// Visible named fields of the structure that is declared at `line`, without those in test code.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{FIELDS, Records, measure, needless, without};
    use crate::tidy::source::Source;

    /// A product file with one structure: `visible` visible fields, and one private field.
    fn with_fields(visible: usize) -> Source {
        let fields: String = (0..visible).map(|n| format!("    pub(crate) f{n}: fn(u8) -> u8,\n")).collect();
        let text = format!(
            "pub struct Unit;\n/// Words.\npub(crate) struct Much<T>\nwhere\n    T: Copy,\n{{\n{fields}    own: T,\n}}\n\
             pub struct Pair(pub u8, pub u8);\n"
        );
        Source::scan("crates/engine/src/much.rs", &text)
    }

    #[test]
    fn one_field_above_the_limit_is_counted() {
        assert_eq!(measure(&[with_fields(FIELDS.limit)]).len(), 0);
        let large = measure(&[with_fields(FIELDS.limit + 1)]);
        assert_eq!(large, BTreeMap::from([("crates/engine/src/much.rs::Much".to_owned(), (17, 3))]));
    }

    #[test]
    fn a_record_is_exempt_and_has_to_be_needed() {
        let name = "crates/engine/src/much.rs::Much";
        let records = Records::from([(name.to_owned(), "reason".to_owned())]);
        let large = measure(&[with_fields(20)]);
        assert_eq!((without(&large, &records).len(), without(&large, &Records::new()).len()), (0, 1));
        assert_eq!(needless(&large, &records).len(), 0);
        assert_eq!(needless(&measure(&[with_fields(3)]), &records).len(), 1);
    }

    #[test]
    fn fields_of_tests_and_types_of_other_crates_are_not_counted() {
        let mut source = with_fields(FIELDS.limit);
        source.code[6] = "    #[cfg(test)]".to_string() + &" ".repeat(8);
        assert_eq!(measure(&[source]).len(), 0);
        let other = Source::scan("crates/testkit/src/a.rs", &with_fields(20).code.join("\n"));
        assert_eq!(measure(&[other]).len(), 0);
    }
}
