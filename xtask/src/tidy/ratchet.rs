//! Counts under a ratchet: current values above a limit are recorded, and may only fall.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::finding::{Finding, RATCHET};
use crate::error::Result;
use crate::table::read_table;

/// Counts by name, each with a line of the file to look at, or 0.
pub(super) type Counts = BTreeMap<String, (usize, usize)>;

/// One section of the ratchet.
pub(super) struct Section {
    /// The name of the section in the ratchet.
    pub(super) name: &'static str,
    /// The comment of the section.
    pub(super) about: &'static str,
    /// Maximum count without an entry.
    pub(super) limit: usize,
    /// The unit of the count, in the plural.
    pub(super) unit: &'static str,
    /// Advice for counts above the limit.
    pub(super) advice: &'static str,
}

impl Section {
    /// Findings for counts above limit and ratchet, and for entries of the ratchet that allow more than
    /// the count. The path of a finding is the part of a name before the first `::`.
    pub(super) fn check(&self, root: &Path, now: &Counts) -> Result<Vec<Finding>> {
        Ok(self.compare(now, &self.read(root)?))
    }

    /// The section with the current counts: entries shrink or disappear, none is added or grows.
    pub(super) fn tightened(&self, root: &Path, now: &Counts) -> Result<String> {
        let mut text = format!("\n# {}\n[{}]\n", self.about, self.name);
        for (name, held) in self.read(root)? {
            let count = now.get(&name).map_or(0, |entry| entry.0).min(held);
            if count > self.limit {
                writeln!(text, "{name:?} = {count}")?;
            }
        }
        Ok(text)
    }

    fn read(&self, root: &Path) -> Result<BTreeMap<String, usize>> {
        let table = read_table(&root.join(RATCHET))?;
        let section = table.get(self.name).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let counts = section.into_iter();
        let counts =
            counts.filter_map(|(name, count)| Some((name, usize::try_from(count.as_integer()?).ok()?)));
        Ok(counts.collect())
    }

    fn compare(&self, now: &Counts, held: &BTreeMap<String, usize>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (name, &(count, line)) in now {
            let most = held.get(name).copied().unwrap_or(self.limit);
            if count > most {
                let path = name.split_once("::").map_or(name.as_str(), |(path, _)| path);
                let what = format!("{name}: {count} {}, {most} are allowed: {}", self.unit, self.advice);
                findings.push(Finding::new(path, line, what));
            }
        }
        for (name, &held) in held {
            if now.get(name).map_or(0, |entry| entry.0) < held {
                let what = format!(
                    "{name} has fewer {} than recorded: run `cargo xtask tidy --tighten` and commit",
                    self.unit
                );
                findings.push(Finding::new(RATCHET, 0, what));
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Counts, Section};

    #[test]
    fn the_ratchet_allows_what_it_records_and_no_more() {
        let section = Section { name: "a", about: "", limit: 5, unit: "things", advice: "divide" };
        let now = Counts::from([("a.rs::A".to_owned(), (8, 3)), ("b.rs::B".to_owned(), (5, 1))]);
        let found = |held: &[(&str, usize)]| {
            let held: BTreeMap<_, _> =
                held.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            let findings = section.compare(&now, &held);
            findings.into_iter().map(|finding| (finding.path, finding.line)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), [("a.rs".to_owned(), 3)]);
        assert_eq!(found(&[("a.rs::A", 8)]), []);
        assert_eq!(found(&[("a.rs::A", 7)]), [("a.rs".to_owned(), 3)]);
        assert_eq!(found(&[("a.rs::A", 9)]), [(super::RATCHET.to_owned(), 0)]);
        assert_eq!(found(&[("a.rs::A", 8), ("gone.rs::C", 6)]), [(super::RATCHET.to_owned(), 0)]);
    }
}
