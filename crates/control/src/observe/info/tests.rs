//! Checks the table of INFO's fields by itself and against the documentation.

use sluice_numbers::info::families::{FAMILIES, FamilyKind};
use sluice_numbers::info::fields::{FIELDS, FieldKind, FieldUnit, InfoField};
use std::collections::HashSet;
use std::fmt::Write;

fn unit_name(unit: FieldUnit) -> &'static str {
    match unit {
        FieldUnit::Count => "",
        FieldUnit::Bytes => "bytes",
        FieldUnit::Seconds => "seconds",
        FieldUnit::Milliseconds => "milliseconds",
        FieldUnit::Microseconds => "microseconds",
        FieldUnit::Percent => "percent",
        FieldUnit::Ratio => "ratio",
    }
}

/// The rows as a Markdown table.
fn markdown() -> String {
    let mut out = String::from(
        "| field of INFO | section | kind | unit | metric | meaning |\n|---|---|---|---|---|---|\n",
    );
    for InfoField { name, kind, unit, help, metric, human, section, .. } in &FIELDS {
        let kind = match kind {
            FieldKind::Counter => "counter",
            FieldKind::Gauge => "gauge",
            FieldKind::Text => "text",
            FieldKind::Record => "record",
        };
        let human = if *human { ", `…_human`" } else { "" };
        let metric = if metric.is_empty() { String::new() } else { format!("`{metric}`") };
        let unit = unit_name(*unit);
        writeln!(out, "| `{name}`{human} | {section} | {kind} | {unit} | {metric} | {help} |").unwrap();
    }
    out
}

/// The metric families that belong to no field of INFO, as a Markdown table.
fn markdown_of_families() -> String {
    let mut out = String::from("| metric | kind | meaning |\n|---|---|---|\n");
    for family in &FAMILIES {
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge if family.name == "redis_commands_latencies_usec" => "histogram",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Info => "info",
        };
        writeln!(out, "| `{}` | {kind} | {} |", family.name, family.help).unwrap();
    }
    out
}

const PAGE: &str = "docs/fields.md";

/// The page with both tables inserted between their marks.
fn with_tables(page: &str) -> String {
    let mut page = page.to_owned();
    for (mark, table) in [("fields", markdown()), ("metrics", markdown_of_families())] {
        let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
        let from = page.find(&begin).expect("the mark where the table begins") + begin.len();
        let to = page.find(&end).expect("the mark where the table ends");
        page.replace_range(from..to, &table);
    }
    page
}

/// With `SLUICE_WRITE_TABLES` in the environment, the test writes the tables.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads the documentation")]
fn the_documentation_has_every_row() {
    let path = format!("{}/../../{PAGE}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let wanted = with_tables(&page);
    if std::env::var_os("SLUICE_WRITE_TABLES").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    } else if page != wanted {
        let how = "SLUICE_WRITE_TABLES=1 cargo test -p sluice-control --lib documentation";
        panic!("the tables of {PAGE} are not what the rows say; `{how}` writes them");
    }
}

#[test]
fn no_two_rows_share_a_name_or_a_metric() {
    let mut names = HashSet::new();
    assert!(FIELDS.iter().all(|field| names.insert(field.name)), "a field has two rows");
    let mut metrics = HashSet::new();
    let of_fields = FIELDS.iter().map(|field| field.metric).filter(|metric| !metric.is_empty());
    for metric in of_fields.chain(FAMILIES.iter().map(|family| family.name)) {
        // In OpenMetrics the family of a counter has the counter's name without `_total`.
        let family = metric.strip_suffix("_total").unwrap_or(metric);
        assert!(metrics.insert(family), "{metric}");
    }
}

/// Readers see a text of `# HELP` without the row before it, so the text must not refer to that row.
#[test]
fn no_text_leans_on_the_row_before() {
    let of_fields = FIELDS.iter().map(|field| (field.name, field.help));
    for (name, help) in of_fields.chain(FAMILIES.iter().map(|family| (family.name, family.help))) {
        let begins = ["the same", "that ", "those ", "their ", "it ", "why that", "such "];
        let within =
            [" of it ", " in it ", " of them ", " in them ", " of these ", "of that name ", " such "];
        let leans = begins.iter().any(|word| help.starts_with(word));
        let help = format!("{help} ");
        assert!(!leans && !within.iter().any(|word| help.contains(word)), "{name}: {help}");
    }
}

#[test]
fn names_say_whose_they_are_and_what_their_numbers_do() {
    for field in &FIELDS {
        assert!(
            matches!(field.kind, FieldKind::Counter | FieldKind::Gauge) || field.metric.is_empty(),
            "{field:?}"
        );
        assert!(field.name.contains('*') || field.label.is_empty(), "{field:?}");
    }
    let of_fields = FIELDS.iter().filter(|field| !field.metric.is_empty());
    let all = of_fields.map(|field| (field.metric, field.kind == FieldKind::Counter, field.help));
    let further =
        FAMILIES.iter().map(|family| (family.name, family.kind == FamilyKind::Counter, family.help));
    for (name, is_counter, help) in all.chain(further) {
        let is_ours = name.starts_with("sluice_");
        assert!(is_ours || name.starts_with("redis_"), "{name}");
        assert!(name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_')), "{name}");
        // Dashboards rely on the types and names of redis_exporter, so these names are exempt from the rule.
        assert!(!is_ours || is_counter == name.ends_with("_total"), "{name}");
        assert!(!help.is_empty() && !help.contains(['\\', '"', '\n']), "{name}");
    }
}
