//! `cargo xtask tidy`: checks the project's rules, as far as a program can check them.
//!
//! Invariants: (1) a finding names file and line and says what to do; (2) exceptions from a rule are data,
//! under `docs/` or in a table of the rule's file, and one under `docs/` that is no longer needed is a
//! finding, too; (3) a rule is added when it was broken twice.

mod banned;
mod circles;
mod comments;
mod dependencies;
mod documents;
mod fence;
mod fields;
mod finding;
mod headers;
mod ids;
mod layers;
mod lengths;
mod limits;
mod methods;
mod names;
mod params;
mod public;
mod ratchet;
mod sizes;
mod source;
mod words;

use std::path::Path;
use std::process::Command;

use crate::args::Arguments;
use crate::error::{Error, Result};
use crate::shell;

use crate::table::read_table;
use finding::Finding;
use source::Source;

/// The task: runs every check and prints what each one finds. `--tighten` first lowers the entries of the
/// ratchet (`docs/tidy-ratchet.toml`) to the present counts. `--circles`, `--calls`, `--names` and `--words`,
/// each optionally followed by a word, print what the ratchet counts, and check nothing.
pub(crate) fn tidy(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let tighten = arguments.flag("--tighten");
    let lists = LISTS.map(|(flag, print)| arguments.flag(flag).then_some(print));
    let words = arguments.words()?;
    let root = shell::root();
    let files = tracked_files(&root)?;
    let sources = read_sources(&root, &files)?;
    if let Some(print) = lists.into_iter().flatten().next() {
        return print(&sources, words.first().map(String::as_str));
    }
    let (methods, calls) = methods::measure(&sources);
    let counted = [
        (&circles::CIRCLES, circles::measure(&sources)),
        (&methods::METHODS, methods),
        (&methods::CALLS, calls),
        (&names::SHARED, names::shared(&sources)),
        (&headers::FILE_NAMES, headers::file_names(&files)),
        (&words::WORDS, words::measure(&sources)),
    ];
    if tighten {
        let mut others = sizes::tightened(&root, &sources)?;
        others += &fields::tightened(&root, &sources)?;
        for (section, counts) in &counted {
            others += &section.tightened(&root, counts)?;
        }
        lengths::tighten(&root, &sources, &others)?;
    }
    let mut findings = findings(&root, &files, &sources)?;
    for (section, counts) in &counted {
        findings.extend(section.check(&root, counts)?);
    }
    if findings.is_empty() {
        println!("tidy: {} source files, nothing to say", sources.len());
        return Ok(());
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        println!("{}:{}: {}", finding.path, finding.line, finding.what);
    }
    Err(format!("{} findings", findings.len()).into())
}

/// A function that prints the items that a section of the ratchet counts: those that the word names, or
/// all.
type List = fn(&[Source], Option<&str>) -> Result<()>;

const LISTS: [(&str, List); 4] = [
    ("--circles", circles::print),
    ("--calls", methods::print),
    ("--names", names::print),
    ("--words", words::print),
];

/// The findings of all checks that keep no counts in the ratchet.
fn findings(root: &Path, files: &[String], sources: &[Source]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    findings.extend(layers::check(root)?);
    findings.extend(dependencies::check(root)?);
    findings.extend(fence::check(root, sources)?);
    findings.extend(banned::check(sources));
    findings.extend(lengths::check(root, sources)?);
    findings.extend(fields::check(root, sources)?);
    findings.extend(sizes::check(root, sources)?);
    findings.extend(params::check(sources));
    findings.extend(names::check(sources));
    findings.extend(public::check(&read_table(&root.join("docs/layers.toml"))?, sources));
    findings.extend(comments::check(sources));
    findings.extend(headers::check_headers(sources));
    findings.extend(headers::check_paths(root, files));
    findings.extend(limits::check(root, sources));
    findings.extend(ids::check(root, files, sources)?);
    findings.extend(documents::check(root, files)?);
    Ok(findings)
}

/// The paths of files that git tracks or would add, relative to the root, without files that are deleted
/// but whose deletion is not committed.
fn tracked_files(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let list = shell::output(&mut git)?;
    let mut files: Vec<String> =
        list.split('\0').filter(|name| !name.is_empty()).map(str::to_string).collect();
    files.retain(|name| root.join(name).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// The Rust files among `files`, scanned.
fn read_sources(root: &Path, files: &[String]) -> Result<Vec<Source>> {
    let rust = files.iter().filter(|name| name.ends_with(".rs"));
    rust.map(|name| {
        let text = std::fs::read_to_string(root.join(name))
            .map_err(|error| -> Error { format!("{name}: {error}").into() })?;
        Ok(Source::scan(name, &text))
    })
    .collect()
}
