//! Compares the table with facts that the reference server reports in COMMAND INFO and COMMAND DOCS:
//! everything except the prose, which must only be present.
//!
//! `facts/reference-commands.txt` has a paragraph for each command: its full name, then one fact
//! on each line.

use std::collections::BTreeMap;

use sluice_command::derive::{acl, keys};
use sluice_command::{Arg, Begin, Find, Flags, KeySpec, Spec, lookup_full, table};

const FACTS: &str = include_str!("facts/reference-commands.txt");

fn facts() -> BTreeMap<&'static str, Vec<&'static str>> {
    let paragraph = |text: &'static str| {
        let mut lines = text.lines();
        (lines.next().expect("a paragraph has a name"), lines.map(str::trim_end).collect())
    };
    FACTS.split("\n\n").filter(|text| !text.trim().is_empty()).map(paragraph).collect()
}

/// The facts of a spec as lines of the file.
fn rendered(spec: &Spec) -> Vec<String> {
    let mut out = Vec::new();
    let range = keys::legacy_range(spec);
    let names = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(" ");
    let cats = acl::categories(spec).names().map(|name| format!("@{name}")).collect::<Vec<_>>().join(" ");
    let arity = NEWER_ARITY.iter().find(|newer| newer.0 == spec.full_name);
    out.push(format!(" arity {}", arity.map_or(spec.arity.wire(), |newer| newer.1)));
    out.push(format!(" group {}", spec.group.name()));
    out.push(format!(" since {}", spec.since));
    out.push(format!(" flags {}", names(&mut spec.flags.names())));
    out.push(format!(" acl {cats}"));
    out.push(format!(" range {} {} {}", range.first, range.last, range.step));
    spec.tips.iter().for_each(|tip| out.push(format!(" tip {tip}")));
    let older = spec.history.iter().filter(|(version, _)| !is_newer(version));
    older.for_each(|(version, _)| out.push(format!(" history {version}")));
    let marks = [(spec.deprecated.is_some(), "deprecated"), (spec.flags.has(Flags::SYSCMD), "syscmd")];
    if marks.iter().any(|mark| mark.0) {
        let shown = names(&mut marks.iter().filter(|mark| mark.0).map(|mark| mark.1));
        out.push(format!(" doc {shown}"));
    }
    if let Some((since, replaced_by)) = spec.deprecated {
        out.push(format!(" deprecated {since} {replaced_by}"));
    }
    if !spec.complexity.is_empty() {
        out.push(" complexity".to_owned());
    }
    spec.keys.specs().iter().for_each(|one| key_spec(one, &mut out));
    spec.args.iter().filter(|one| !is_newer(one.since)).for_each(|one| arg(one, 0, &mut out));
    spec.subcommands.iter().for_each(|sub| out.push(format!(" sub {}", sub.full_name)));
    out
}

fn key_spec(spec: &KeySpec, out: &mut Vec<String>) {
    let begin = match spec.begin {
        Begin::Index(at) => format!("index {at}"),
        Begin::Keyword { word, from } => format!("keyword {word} {from}"),
        Begin::Unknown => "unknown".to_owned(),
    };
    let find = match spec.find {
        Find::Range { last, step, limit } => format!("range {last} {step} {limit}"),
        Find::KeyNum { num_index, first, step } => format!("keynum {num_index} {first} {step}"),
        Find::Unknown => "unknown".to_owned(),
    };
    let remark = if spec.notes.is_empty() { "" } else { " / remark" };
    let flags = spec.flags.names().collect::<Vec<_>>().join(" ");
    out.push(format!(" key {flags} / {begin} / {find}{remark}"));
}

fn arg(arg: &Arg, depth: usize, out: &mut Vec<String>) {
    let mut line = format!(" arg {}{} {}", "  ".repeat(depth), arg.kind.name(), arg.name);
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            line.extend([" ", name, value]);
        }
    };
    fact("shown=", arg.display);
    fact("token=", arg.token);
    fact("key-spec=", &arg.key_spec.map(|at| at.to_string()).unwrap_or_default());
    arg.flag_names().for_each(|flag| fact("", flag));
    fact("since=", arg.since);
    fact("deprecated=", arg.deprecated_since);
    fact("", if arg.summary.is_empty() { "" } else { "remark" });
    out.push(line);
    let older = arg.kind.parts().iter().filter(|part| !is_newer(part.since));
    older.for_each(|part| self::arg(part, depth + 1, out));
}

#[test]
fn every_fact_of_the_table_is_that_of_the_reference() {
    let facts = facts();
    for spec in table::ALL.into_iter().filter(|spec| !is_newer(spec.since)) {
        let reference =
            facts.get(spec.full_name).unwrap_or_else(|| panic!("{}: unknown there", spec.full_name));
        let ours = rendered(spec);
        let newer: Vec<String> = spec
            .subcommands
            .iter()
            .filter(|sub| is_newer(sub.since))
            .map(|sub| format!(" sub {}", sub.full_name))
            .collect();
        let ours: Vec<&str> = ours
            .iter()
            .map(|line| line.trim_end())
            .filter(|line| !newer.iter().any(|sub| sub == line))
            .collect();
        assert_eq!(ours, *reference, "{}", spec.full_name);
    }
}

/// Whether a command or an option is newer than the version of the reference from which the facts were taken.
fn is_newer(since: &str) -> bool {
    since.starts_with("9.2")
}

/// Commands for which newer options allow more arguments, with their arity before these options.
const NEWER_ARITY: &[(&str, i64)] = &[("exec", 1), ("move", 3), ("sismember", 3)];

#[test]
fn the_facts_are_complete() {
    assert_eq!(facts().len(), 399);
    assert_eq!(facts().keys().filter(|name| !name.contains('|')).count(), 257);
}

/// Groups that are declared completely; the list grows until it contains all groups.
const COMPLETE: &[&str] = &[
    "string",
    "list",
    "hash",
    "set",
    "bitmap",
    "hyperloglog",
    "stream",
    "sorted-set",
    "geo",
    "connection",
    "transactions",
    "pubsub",
    "scripting",
];

#[test]
fn complete_groups_miss_no_command() {
    for (name, lines) in facts() {
        let group =
            lines.iter().find_map(|line| line.strip_prefix(" group ")).expect("every command has a group");
        assert!(!COMPLETE.contains(&group) || lookup_full(name.as_bytes()).is_some(), "{name}");
    }
}

#[test]
fn prose_is_there() {
    for spec in table::ALL {
        assert!(spec.summary.ends_with('.'), "{}", spec.full_name);
        assert!(spec.history.iter().all(|(_, text)| text.ends_with('.')), "{}", spec.full_name);
    }
}
