//! The manual pages, in the macros of `man(7)`, which every viewer supports.
//!
//! `sluice.conf(5)` is made from the directive table, the other pages from the programs' usage and the
//! little text that is here.

use super::build::Build;
use super::usage::{self, CHECK_AOF, CHECK_RDB};
use sluice_config::{Honoured, Param, ParamId, ParamKind, Section, Traits, UnitOfMeasure};

/// A manual page of a program or a file.
pub(super) struct Page {
    /// The name of the page, such as `sluice-server`.
    name: &'static str,
    /// The section of the manual: 1 for programs, 5 for files.
    pub(super) section: u8,
    /// The source of the page, in roff.
    pub(super) text: String,
}

impl Page {
    /// The name of the file, such as `sluice-server.1`.
    pub(super) fn file_name(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }
}

/// Every page, dated and with the version of `build`.
pub(super) fn pages(build: &Build) -> Vec<Page> {
    let page = |name, section, about: &str, body: String| Page {
        name,
        section,
        text: head(name, section, about, build) + &body,
    };
    vec![
        page("sluice-server", 1, "in-memory data store for clients of Valkey and Redis", server()),
        page("sluice-check-rdb", 1, "check an RDB file", check_rdb()),
        page("sluice-check-aof", 1, "check an append-only file, and cut off what is broken", check_aof()),
        page("sluice.conf", 5, "configuration of sluice-server", conf()),
    ]
}

fn head(name: &str, section: u8, about: &str, build: &Build) -> String {
    let title = name.to_ascii_uppercase();
    let date = day(build.date);
    format!(
        ".\\\" Written by `cargo xtask package`.\n\
         .TH \"{title}\" \"{section}\" \"{date}\" \"Sluice {}\" \"Sluice\"\n\
         .SH NAME\n{} \\- {about}\n",
        build.version,
        escaped(name),
    )
}

/// The date of a time as `2026-11-26`, in UTC.
fn day(seconds: u64) -> String {
    // Days are counted from the first of March of the year 0, so that the leap day is the last of a year.
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A text that roff prints unchanged.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.split('\n').map(|line| match line.as_bytes().first() {
        // At the beginning of a line these characters would start a roff command.
        Some(b'.' | b'\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Unchanged lines, indented.
fn verbatim(lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| escaped(line) + "\n").collect();
    format!(".RS 4\n.nf\n{lines}.fi\n.RE\n")
}

/// A paragraph with a tag, such as an option.
fn item(tag: &str, text: &str) -> String {
    format!(".TP\n.B {}\n{}\n", escaped(tag), escaped(text))
}

fn section(title: &str) -> String {
    format!(".SH {title}\n")
}

fn server() -> String {
    let usage = usage::server_part("Usage:", Some("CONFIG-FILE"));
    let usage: Vec<&str> = usage.iter().map(|line| line.trim_start_matches("Usage:").trim()).collect();
    let synopsis: String = usage
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| format!("{}\n.br\n", escaped(line)))
        .collect();
    let about = usage::server_part("CONFIG-FILE", Some("  --")).join("\n");
    let examples = usage::server_part("  sluice-server", None);
    let examples: Vec<&str> = examples.iter().map(|line| line.trim_start()).collect();
    let mut text = section("SYNOPSIS") + synopsis.trim_end_matches(".br\n");
    text += &(section("DESCRIPTION") + &escaped(about.trim()) + "\n");
    text += ".PP\nEvery directive of\n.BR sluice.conf (5)\nis an option as well.\n";
    text += &section("OPTIONS");
    text.extend(usage::server_options().iter().map(|option| item(option.name, option.about)));
    text += &section("SIGNALS");
    text.extend(SIGNALS.iter().map(|(name, about)| item(name, about)));
    text += &section("FILES");
    text.extend(FILES.iter().map(|(name, about)| item(name, about)));
    text += &(section("EXAMPLES") + &verbatim(&examples));
    text + &section("SEE ALSO")
        + ".BR sluice.conf (5),\n.BR sluice\\-check\\-rdb (1),\n.BR sluice\\-check\\-aof (1)\n"
}

const SIGNALS: [(&str, &str); 2] = [
    (
        "SIGTERM, SIGINT",
        "save if there are save points, and exit; shutdown-on-sigterm and shutdown-on-sigint change that",
    ),
    ("SIGALRM", "write to the log where the main thread is"),
];

const FILES: [(&str, &str); 4] = [
    ("/etc/sluice/sluice.conf", "the configuration that the service sluice-server reads"),
    ("/var/lib/sluice", "the data of the service"),
    ("/var/log/sluice/sluice-server.log", "the log of the service"),
    ("/run/sluice", "for sockets (unixsocket)"),
];

fn check_rdb() -> String {
    let mut text = section("SYNOPSIS") + &escaped(&format!("sluice-check-rdb {}", CHECK_RDB.trim())) + "\n";
    text += &section("DESCRIPTION");
    text += "Reads a whole RDB file of Valkey, Redis or Sluice, and reports whether a server will load \
             it; if not, the error with its byte and its key.\n";
    text += &section("OPTIONS");
    text += &item(
        "--stats",
        "print how many keys of each type there are, how large they are, and how many expire",
    );
    text += &item("--format table|info|csv", "how --stats prints; a table by default");
    text += &item("--output <file>", "print to a file");
    text += &item("--version, --help", "print the version, or the usage");
    text + &section("EXIT STATUS")
        + &item("0", "the file is good")
        + &item("1", "the file has an error, or cannot be read")
        + SEE_ALSO
}

fn check_aof() -> String {
    let mut text = section("SYNOPSIS") + &escaped(&format!("sluice-check-aof {}", CHECK_AOF.trim())) + "\n";
    text += &section("DESCRIPTION");
    text += "Reads the files that a manifest names, or one append\\-only file without a manifest, and \
             reports up to which byte they are good. Make a copy of the folder before a repair.\n";
    text += &section("OPTIONS");
    text += &item("--fix", "cut off what follows the last good command, after a question");
    text += &item(
        "--truncate-to-timestamp $timestamp",
        "cut off what was written after that time, in seconds since 1970; needs a file written with aof-timestamp-enabled",
    );
    text += &item("--version, --help", "print the version, or the usage");
    text + &section("EXIT STATUS")
        + &item("0", "the files are good, or have been repaired")
        + &item("1", "the files have an error, or cannot be read")
        + SEE_ALSO
}

const SEE_ALSO: &str = ".SH SEE ALSO\n.BR sluice\\-server (1),\n.BR sluice.conf (5)\n";

fn conf() -> String {
    let example = sluice_config::example_conf();
    let mut blocks = example.split("\n\n");
    // The preface of the example file consists of the comments before the first heading.
    let preface: Vec<&str> =
        blocks.next().unwrap_or_default().lines().map(|line| line.trim_start_matches(['#', ' '])).collect();
    let paragraphs = preface.split(|line| line.is_empty()).skip(1);
    let paragraphs: Vec<String> =
        paragraphs.map(|lines| lines.iter().map(|line| escaped(line) + "\n").collect()).collect();
    let mut text = section("SYNOPSIS") + "/etc/sluice/sluice.conf\n" + &section("DESCRIPTION");
    text += &paragraphs.join(".PP\n");
    text += ".PP\nTo read a directive of a running server:\n.BR \"CONFIG GET\" ;\nto change it:\n.BR \"CONFIG SET\" ;\nto write it to the file:\n.BR \"CONFIG REWRITE\" .\n";
    for chapter in Section::ALL {
        let listed = |id: &ParamId| id.param().section == chapter;
        let mut ids = ParamId::all().filter(listed).peekable();
        if ids.peek().is_some() {
            text += &section(&chapter.title().to_ascii_uppercase());
        }
        text.extend(ids.map(|id| directive(id.param(), &example)));
    }
    text + &section("SEE ALSO") + ".BR sluice\\-server (1)\n"
}

/// The entry of a directive: name, kind of value, description, default.
fn directive(param: &Param, example: &str) -> String {
    let mut text = format!(".TP\n.BI {} \" {}\"\n", escaped(param.name), escaped(&values(&param.kind)));
    // The text of a directive that the example file leaves out is taken from its row in the directive
    // table.
    let (prose, default) = described(param.name, example).unwrap_or_else(|| (row(param), String::new()));
    text += &(escaped(&prose) + "\n");
    if !default.is_empty() {
        text += &format!(".br\nDefault: {}\n", escaped(&default));
    }
    text
}

fn row(param: &Param) -> String {
    let effect = match param.honoured {
        Honoured::Yes => "",
        Honoured::NotYet(_) => " (Without effect yet.)",
        Honoured::Ignored(_) => " (Without effect.)",
    };
    let kept = if param.traits.has(Traits::HIDDEN) { " Not listed by CONFIG GET *." } else { "" };
    format!("{}{kept}{effect}", param.doc)
}

/// The description and the default of a directive in the example file.
fn described(name: &str, example: &str) -> Option<(String, String)> {
    let own = |line: &str| line.trim_start_matches("# ").split(' ').next() == Some(name);
    let block = example.split("\n\n").find(|block| {
        let mut lines = block.lines().filter(|line| !line.starts_with('#')).peekable();
        match lines.peek() {
            Some(_) => lines.all(own),
            // A directive without a value is a comment, the last one of its block.
            None => block.lines().last().is_some_and(|line| own(line) && line.ends_with("\"\"")),
        }
    })?;
    let lines: Vec<&str> = block.lines().collect();
    let settings = lines.iter().rev().take_while(|line| own(line)).count();
    let (prose, settings) = lines.split_at(lines.len() - settings);
    let prose: Vec<&str> = prose.iter().map(|line| line.trim_start_matches("# ")).collect();
    let set = settings.iter().filter(|line| !line.starts_with('#'));
    let defaults: Vec<&str> = set.map(|line| line.trim_start_matches(name).trim()).collect();
    Some((prose.join("\n"), defaults.join("; ")))
}

/// The placeholder for a directive's value, as a usage line would show it: `yes|no`, `bytes`, `host port`.
fn values(kind: &ParamKind) -> String {
    let joined = |names: Vec<&str>| names.join("|");
    match kind {
        ParamKind::Bool { .. } => "yes|no".to_owned(),
        ParamKind::Int { unit: UnitOfMeasure::Memory | UnitOfMeasure::SignedMemory, .. } => {
            "bytes".to_owned()
        }
        ParamKind::Int { unit: UnitOfMeasure::MemoryOrPercent, .. } => "bytes|percent%".to_owned(),
        ParamKind::Int { unit: UnitOfMeasure::Plain | UnitOfMeasure::Octal, .. } => "number".to_owned(),
        ParamKind::Text { .. } => "text".to_owned(),
        ParamKind::Choice { names, .. } => joined(names.iter().map(|(name, _)| *name).collect()),
        ParamKind::Flags { names } => joined(names.iter().map(|(name, _)| *name).collect()) + " ...",
        ParamKind::Save => "seconds changes ...".to_owned(),
        ParamKind::BufferLimits => "class hard soft seconds ...".to_owned(),
        ParamKind::OomValues => "number number number".to_owned(),
        ParamKind::List { .. } => "address ...".to_owned(),
        ParamKind::NotifyEvents => "letters".to_owned(),
        ParamKind::ReplicaOf => "host port".to_owned(),
        ParamKind::Percentiles => "percentile ...".to_owned(),
        ParamKind::EndpointRules => "network node endpoint ...".to_owned(),
    }
}

#[cfg(test)]
mod tests;
