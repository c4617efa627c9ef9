//! Sizes of crates: keeps one crate from absorbing everything.
//!
//! `[crates]` of the ratchet has one row for each product crate: its maximum number of lines, and the
//! reason. All `.rs` files under `src/` count, comments included, without `tests.rs` and `tests/`. A
//! crate that outgrows its row needs another crate, or a larger number with its reason in the same row. A
//! row stays close to its crate's size, so that saved lines are not used up unnoticed.

use std::collections::BTreeMap;
use std::path::Path;

use super::finding::{Finding, RATCHET};
use super::names::is_product;
use super::source::Source;
use crate::error::Result;
use crate::table::read_table;

/// Maximum lines by which a row may exceed its crate.
const SLACK_LINES: usize = 400;

/// One row of `[crates]`.
struct Row {
    lines: usize,
    reason: String,
}

/// Checks each product crate against its row.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    Ok(compare(&measure(sources), &read(root)?))
}

/// The section with the current rows, in which a row that exceeds its crate by more than the slack is
/// lowered.
pub(super) fn tightened(root: &Path, sources: &[Source]) -> Result<String> {
    let now = measure(sources);
    let mut text = String::from(
        "\n# Lines that each product crate may have, and why. `xtask/src/tidy/sizes.rs` says what counts.\n[crates]\n",
    );
    for (name, row) in read(root)? {
        let Some(&lines) = now.get(name.as_str()) else { continue };
        let allowed = if lines + SLACK_LINES < row.lines { round_up(lines) } else { row.lines };
        text.push_str(&format!("{name} = {{ lines = {allowed}, reason = {:?} }}\n", row.reason));
    }
    Ok(text)
}

/// The next multiple of a hundred, as in the rows.
fn round_up(lines: usize) -> usize {
    lines.div_ceil(100) * 100
}

fn read(root: &Path) -> Result<BTreeMap<String, Row>> {
    let table = read_table(&root.join(RATCHET))?;
    let section = table.get("crates").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let row = |value: &toml::Value| {
        let lines = value.get("lines").and_then(toml::Value::as_integer);
        let reason = value.get("reason").and_then(toml::Value::as_str).unwrap_or("").to_owned();
        Row { lines: lines.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(0), reason }
    };
    Ok(section.iter().map(|(name, value)| (name.clone(), row(value))).collect())
}

/// Lines of each product crate.
fn measure(sources: &[Source]) -> BTreeMap<&str, usize> {
    let mut lines = BTreeMap::new();
    for source in sources.iter().filter(|source| is_product(&source.path)) {
        let is_test = source.path.ends_with("/tests.rs") || source.path.contains("/tests/");
        let name = source.path.strip_prefix("crates/").and_then(|path| path.split('/').next());
        if let Some(name) = name.filter(|_| !is_test) {
            // One line is subtracted, because the scanner counts the text after the last line break as a
            // line, too.
            *lines.entry(name).or_insert(0) += source.code.len().saturating_sub(1);
        }
    }
    lines
}

fn compare(now: &BTreeMap<&str, usize>, held: &BTreeMap<String, Row>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, &lines) in now {
        let path = format!("crates/{name}");
        let Some(row) = held.get(*name) else {
            let what =
                format!("no row of [crates] in {RATCHET} says how many lines it may have ({lines} today)");
            findings.push(Finding::new(&path, 0, what));
            continue;
        };
        if lines > row.lines {
            let what = format!(
                "{lines} lines, {} are allowed: move what does not need this crate, or raise the row with its reason",
                row.lines
            );
            findings.push(Finding::new(&path, 0, what));
        } else if lines + SLACK_LINES < row.lines {
            let what =
                format!("{name} has {lines} lines, its row {}: run `cargo xtask tidy --tighten`", row.lines);
            findings.push(Finding::new(RATCHET, 0, what));
        }
        if row.reason.split_whitespace().count() < 3 {
            let what = format!("the row of {name} in [crates] gives no reason");
            findings.push(Finding::new(RATCHET, 0, what));
        }
    }
    for name in held.keys().filter(|name| !now.contains_key(name.as_str())) {
        findings.push(Finding::new(RATCHET, 0, format!("no product crate {name}: remove it from [crates]")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Row, compare, measure};
    use crate::tidy::source::Source;

    #[test]
    fn lines_of_the_product_are_counted_without_tests() {
        let files = [
            "crates/a/src/lib.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/b/tests/c.rs",
            "crates/a/tests/it.rs",
        ];
        let sources: Vec<Source> =
            files.iter().map(|path| Source::scan(path, "// a\n\nfn f() {}\n")).collect();
        assert_eq!(measure(&sources), BTreeMap::from([("a", 3)]));
    }

    #[test]
    fn a_crate_stays_within_its_row_and_the_row_close_to_its_crate() {
        let held = |lines, reason: &str| {
            BTreeMap::from([("a".to_owned(), Row { lines, reason: reason.to_owned() })])
        };
        let now = |lines| BTreeMap::from([("a", lines)]);
        let reason = "what it is for";
        assert_eq!(compare(&now(1000), &held(1000, reason)).len(), 0);
        assert_eq!(compare(&now(1001), &held(1000, reason)).len(), 1);
        assert_eq!(compare(&now(599), &held(1000, reason)).len(), 1);
        assert_eq!(compare(&now(1000), &held(1000, "")).len(), 1);
        assert_eq!(compare(&now(1000), &BTreeMap::new()).len(), 1);
        assert_eq!(compare(&BTreeMap::new(), &held(1000, reason)).len(), 1);
    }
}
