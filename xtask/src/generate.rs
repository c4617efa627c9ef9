//! `cargo xtask gen`: writes the files that are generated from the tables of the product: `sluice.conf`
//! and two parts of `docs/compat-tables.md`. With `--check` it only checks whether they are up to date.

use crate::conformance;
use crate::error::Result;
use sluice_config::{Honoured, PARAMS};
use std::fs;

const CONF: &str = "sluice.conf";
const COMPAT: &str = "docs/compat-tables.md";
const BEGIN: &str = "<!-- directives -->\n";
const END: &str = "<!-- /directives -->";
const NAMES_BEGIN: &str = "<!-- suite -->\n";
const NAMES_END: &str = "<!-- /suite -->";

/// Writes or checks the generated files.
pub(crate) fn generate(arguments: &[String]) -> Result<()> {
    let check = arguments.iter().any(|argument| argument == "--check");
    let compat = fs::read_to_string(COMPAT)?;
    let files = [(CONF, sluice_config::example_conf()), (COMPAT, with_names(&with_directives(&compat)?)?)];
    for (path, wanted) in files {
        let fresh = fs::read_to_string(path).is_ok_and(|present| present == wanted);
        if fresh {
            continue;
        }
        if check {
            return Err(format!("{path} is not what the tables say; run `cargo xtask gen`").into());
        }
        fs::write(path, wanted)?;
        println!("wrote {path}");
    }
    Ok(())
}

fn with_directives(page: &str) -> Result<String> {
    between(page, [BEGIN, END], &[waiting(), never()].concat())
}

fn with_names(page: &str) -> Result<String> {
    between(page, [NAMES_BEGIN, NAMES_END], &conformance::page_by_reason()?)
}

/// The page, with the text between two markers replaced.
fn between(page: &str, [begin, end]: [&str; 2], text: &str) -> Result<String> {
    let lost = |marker: &str| format!("{COMPAT} lost its marker {marker:?}");
    let from = page.find(begin).ok_or_else(|| lost(begin))? + begin.len();
    let to = page.find(end).ok_or_else(|| lost(end))?;
    Ok(format!("{}{text}{}", &page[..from], &page[to..]))
}

/// A chapter: its heading, and a table of directives with remarks.
fn chapter(heading: &str, columns: &str, rows: &[(&str, &str)]) -> String {
    let rows: String = rows.iter().map(|(name, remark)| format!("| `{name}` | {remark} |\n")).collect();
    format!("\n### {heading}\n\n| directive | {columns} |\n|---|---|\n{rows}")
}

/// The directives that take effect with a later feature, a chapter for each feature.
fn waiting() -> String {
    let mut features: Vec<(&str, Vec<(&str, &str)>)> = Vec::new();
    for param in &PARAMS {
        let Honoured::NotYet(feature) = param.honoured else { continue };
        // The text after a semicolon is a remark.
        let feature = feature.split(';').next().unwrap_or(feature);
        let row = (param.name, param.doc);
        match features.iter_mut().find(|(known, _)| *known == feature) {
            Some((_, rows)) => rows.push(row),
            None => features.push((feature, vec![row])),
        }
    }
    let chapters = features
        .iter()
        .map(|(feature, rows)| chapter(&format!("Waiting for {feature}"), "what it will do", rows));
    chapters.collect()
}

/// The directives that never take effect.
fn never() -> String {
    let rows: Vec<_> = PARAMS
        .iter()
        .filter_map(|param| match param.honoured {
            Honoured::Ignored(why) => Some((param.name, why)),
            Honoured::Yes | Honoured::NotYet(_) => None,
        })
        .collect();
    chapter("Never with an effect", "why", &rows)
}
