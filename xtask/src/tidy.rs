//! `cargo xtask tidy`: rules of the house that a program can check.
//!
//! Invariants: (1) a finding names file and line and says what to do; (2) what a rule allows beyond itself is
//! data under `docs/`, and an entry there that nothing needs any more is a finding too; (3) a rule is added
//! when it was broken twice.

mod banned;
mod circles;
mod comments;
mod dependencies;
mod fence;
mod fields;
mod headers;
mod ids;
mod layers;
mod lengths;
mod limits;
mod names;
mod params;
mod public;
mod source;

use std::path::Path;
use std::process::Command;

use crate::args::Arguments;
use crate::shell;
use crate::{Error, Result};

use source::Source;

/// Where the ratchet is: what a rule allows today, and may only shrink.
const RATCHET: &str = "docs/tidy-ratchet.toml";

/// One broken rule at one location.
pub(crate) struct Finding {
    /// The file, relative to the root.
    pub(crate) path: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    /// What is wrong and what to do.
    pub(crate) what: String,
}

impl Finding {
    /// A finding at `path:line`.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, what: what.into() }
    }
}

/// The task: runs every check and prints what each one finds. `--tighten` first writes the ratchet anew,
/// downwards. `--circles [CRATE]` prints the circles of files and their arrows, and checks nothing.
pub(crate) fn tidy(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let tighten = arguments.flag("--tighten");
    let circles = arguments.flag("--circles");
    let words = arguments.words()?;
    let root = shell::root();
    let files = tracked_files(&root)?;
    let sources = read_sources(&root, &files)?;
    if circles {
        return circles::print(&sources, words.first().map(String::as_str));
    }
    if tighten {
        let others = circles::tightened(&root, &sources)? + &fields::tightened(&root, &sources)?;
        lengths::tighten(&root, &sources, &others)?;
    }
    let mut findings = Vec::new();
    findings.extend(layers::check(&root)?);
    findings.extend(dependencies::check(&root)?);
    findings.extend(fence::check(&root, &sources)?);
    findings.extend(banned::check(&sources));
    findings.extend(lengths::check(&root, &sources)?);
    findings.extend(fields::check(&root, &sources)?);
    findings.extend(circles::check(&root, &sources)?);
    findings.extend(params::check(&sources));
    findings.extend(names::check(&sources));
    findings.extend(public::check(&read_table(&root.join("docs/layers.toml"))?, &sources));
    findings.extend(comments::check(&sources));
    findings.extend(headers::check_headers(&sources));
    findings.extend(headers::check_paths(&root, &files));
    findings.extend(limits::check(&root, &sources));
    findings.extend(ids::check(&root, &files, &sources)?);
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

/// Files that git knows or would take, relative to the root; those that are deleted but not yet committed
/// left out.
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

/// Reads one of our TOML tables; a file that is not there is an empty table.
pub(crate) fn read_table(path: &Path) -> Result<toml::Table> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.parse().map_err(|error| format!("{}: {error}", path.display()).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(toml::Table::new()),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}
