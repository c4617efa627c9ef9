//! `cargo xtask conformance`: runs the units (test files) of the upstream suite against our server, and
//! compares the failed tests with the list of exclusions.
//!
//! The runner is not part of the repository: `SLUICE_SUITE` names it. It is called as `RUNNER --server PATH
//! --bin-dir FOLDER --json FILE [--skipfile FILE] [--extra WORDS] unit...` and writes, for each unit, the
//! names of the tests that passed and failed. The folder holds our check tools under the reference's names. A
//! file `reference.json` beside the runner lists the tests that the reference passes; without it, every
//! failed test counts.
//!
//! Invariants: (1) a test that the reference passes also passes here, or is excluded with a reason; (2) an
//! exclusion that is no longer needed is a failure, too, so the list stays current; (3) a unit that did not
//! finish, or is not in the report, is a failure, because the results of its tests are unknown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::args::Arguments;
use crate::binaries::{self, PEER_VARIABLE};
use crate::error::Result;
use crate::shell::Ran;
use crate::{glob, shell, table};

/// The environment variable with the path of the suite's runner.
const SUITE_VARIABLE: &str = "SLUICE_SUITE";

/// The option that makes the suite use TLS.
const TLS: &str = "--extra=--tls";

/// The file with the units to run and the tests that may fail.
const TABLE: &str = "conformance/excluded.toml";

/// The units, and the tests that may fail, of runs in which some nodes of a cluster are the reference's.
const MIXED_TABLE: &str = "conformance/mixed.toml";

/// One row of the table.
struct Exclusion {
    /// The unit, or a pattern of units.
    unit: String,
    /// The test's name, or a pattern.
    test: String,
    /// Whether the test is not even run, because it would hang or end its unit.
    skip: bool,
    /// Whether the unit ends at this test, because code between its tests fails, so that later tests do not
    /// run.
    ends: bool,
    /// Whether the test sometimes passes, because it depends on timing.
    at_times: bool,
    /// Whether the test fails only with forced I/O threads.
    threads_only: bool,
    /// Whether the test fails only over TLS.
    tls_only: bool,
    /// In a mixed run, the ports of our servers with which the test fails; `None` for either.
    ours: Option<Ports>,
    /// Maximum number of failed tests of a unit that the row covers; `None` for any number. This is for names
    /// that several tests share.
    count: Option<usize>,
    /// Number of failed names that the row has covered in this run.
    used: usize,
}

/// The ports at which our servers run in a mixed run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ports {
    Odd,
    Even,
}

impl Ports {
    fn parse(text: &str) -> Result<Ports> {
        match text {
            "odd" => Ok(Ports::Odd),
            "even" => Ok(Ports::Even),
            _ => Err(format!("ours are at odd or even ports, not at {text:?} ones").into()),
        }
    }
}

/// The table of exclusions.
struct Table {
    units: Vec<String>,
    /// Units that run without the tests of some tags, and those tags as arguments of the suite's `--tags`.
    tags: BTreeMap<String, String>,
    exclusions: Vec<Exclusion>,
}

/// The result of one unit.
struct Unit {
    name: String,
    passed: usize,
    /// Names that count and did not pass; a name that several tests share may occur more than once.
    missing: Vec<String>,
    finished: bool,
    seconds: f64,
}

/// The task: units by name, or by `FOLDER/*`, by default those of the table; `--server BIN`, `--jobs N`,
/// `--suggest`, `--io-threads`: with forced I/O threads; `--tls`: over TLS; `--mixed odd|even`: only the
/// servers at such ports are ours. `--report FILE` judges an existing report, without a run.
pub(crate) fn conformance(arguments: &[String]) -> Result<()> {
    run(arguments).map(drop)
}

/// Like [`conformance`]; distinguishes a skip from a pass.
pub(crate) fn run(arguments: &[String]) -> Result<Ran> {
    let mut arguments = Arguments::new(arguments);
    let server = arguments.option("--server")?.map(PathBuf::from);
    let jobs = arguments.number("--jobs", 2)?;
    let suggest = arguments.flag("--suggest");
    let report_file = arguments.option("--report")?.map(PathBuf::from);
    let threads = arguments.flag("--io-threads");
    let tls = arguments.flag("--tls");
    let mixed = arguments.option("--mixed")?.map(|ports| Ports::parse(&ports)).transpose()?;
    let mut more = Vec::new();
    if threads {
        more.push("--io-threads");
    }
    if tls {
        more.push(TLS);
    }
    let mut units = arguments.words()?;
    let Some(suite) = std::env::var_os(SUITE_VARIABLE).map(PathBuf::from) else {
        println!("conformance: skipped: {SUITE_VARIABLE} names no runner of the upstream suite");
        return Ok(Ran::Skipped);
    };
    let file = if mixed.is_some() { MIXED_TABLE } else { TABLE };
    let mut table = read(&shell::root().join(file))?;
    table.exclusions.retain(|entry| (threads || !entry.threads_only) && (tls || !entry.tls_only));
    table.exclusions.retain(|entry| entry.ours.is_none() || entry.ours == mixed);
    if tls {
        // Tests that the suite leaves out over TLS do not make an exclusion stale.
        table.exclusions.iter_mut().for_each(|entry| entry.at_times |= !entry.tls_only);
    }
    if units.is_empty() {
        units.clone_from(&table.units);
    }
    let wanted = expand(units, &table.units);
    let results = match report_file {
        Some(file) => serde_json::from_str(&std::fs::read_to_string(&file)?)?,
        None => {
            let server = if server.is_none() { binaries::build_server()? } else { server };
            let Some(server) = server else {
                println!("conformance: skipped: the workspace has no server yet");
                return Ok(Ran::Skipped);
            };
            link_tools(&server)?;
            let server = match mixed {
                Some(ports) => {
                    let Some(peer) = std::env::var_os(PEER_VARIABLE).map(PathBuf::from) else {
                        println!("conformance: skipped: {PEER_VARIABLE} names no server of the reference");
                        return Ok(Ran::Skipped);
                    };
                    write_script(&mixed_script(&server, &peer, ports)?)?
                }
                None => write_script(&format!("exec {} \"$@\"\n", quoted(&server)?))?,
            };
            call_suite(&suite, &server, jobs, &table, &wanted, &more)?
        }
    };
    let reference = read_reference(&suite)?;
    let units: Vec<Unit> = results.iter().map(|result| judge(result, reference.as_ref(), tls)).collect();
    let failures = report(&units, &mut table, suggest) + report_absent(&wanted, &units);
    if failures > 0 {
        println!("each unit's log: {}", shell::target_dir().join("conformance/logs").display());
        return Err(format!("{failures} names need mending, or a reason in {file}").into());
    }
    Ok(Ran::Passed)
}

/// The named units, with each `FOLDER/*` replaced by its units of the table.
fn expand(words: Vec<String>, known: &[String]) -> Vec<String> {
    let units = words.into_iter().flat_map(|word| match word.strip_suffix('*') {
        Some(start) => known.iter().filter(|unit| unit.starts_with(start)).cloned().collect(),
        None => vec![word],
    });
    units.collect()
}

/// The folder of our tools under the reference's names.
fn tools_folder() -> PathBuf {
    shell::target_dir().join("conformance/bin")
}

/// Links our check tools, which lie beside the server, into the folder of tools. If there are none beside the
/// server, the runner uses the reference's.
fn link_tools(server: &Path) -> Result<()> {
    let folder = tools_folder();
    std::fs::create_dir_all(&folder)?;
    let beside = server.parent().map(std::path::absolute).transpose()?.unwrap_or_default();
    for tool in ["check-rdb", "check-aof"] {
        let link = folder.join(format!("valkey-{tool}"));
        if link.is_symlink() {
            std::fs::remove_file(&link)?;
        }
        let own = beside.join(format!("sluice-{tool}"));
        if own.exists() {
            std::os::unix::fs::symlink(own, link)?;
        }
    }
    Ok(())
}

/// Writes a script that executes the server. A script is used because the suite inspects the file that it
/// starts. From a binary that is linked to the system's C library it expects stack traces with the names of
/// the reference's functions, and from a script only some crash report.
fn write_script(lines: &str) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let script = shell::target_dir().join("conformance/server");
    std::fs::write(&script, format!("#!/bin/sh\n{lines}"))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// Lines of a script that executes one server or the other, depending on the port. If the config file (the
/// first argument) and the options after it name several ports, the last one counts.
fn mixed_script(server: &Path, peer: &Path, ports: Ports) -> Result<String> {
    let (ours, peer) = (quoted(server)?, quoted(peer)?);
    let (odd, even) = if ports == Ports::Odd { (ours, peer) } else { (peer, ours) };
    Ok(format!(
        r#"port=0 before=
if [ -f "$1" ]; then
  while read -r word value rest || [ -n "$word" ]; do
    if [ "$word" = port ]; then port=$value; fi
  done < "$1"
fi
for word in "$@"; do
  if [ "$before" = --port ]; then port=$word; fi
  before=$word
done
case $port in
  *[13579]) exec {odd} "$@" ;;
  *) exec {even} "$@" ;;
esac
"#
    ))
}

/// A path, quoted as a word for a shell.
fn quoted(path: &Path) -> Result<String> {
    Ok(format!("'{}'", std::path::absolute(path)?.display().to_string().replace('\'', r"'\''")))
}

/// The rows of the table as a table of `docs/compat-tables.md`: the reason or the planned feature, and the
/// names.
pub(crate) fn page_by_reason() -> Result<String> {
    let table = table::read_table(&shell::root().join(TABLE))?;
    let entries = table.get("excluded").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for entry in &entries {
        let text = |name: &str| entry.get(name).and_then(toml::Value::as_str).unwrap_or_default();
        let reason = match text("feature").strip_prefix("none: ") {
            Some(why) => format!("never: {why}"),
            None => format!("with {}", text("feature")),
        };
        let name = format!("{}: {}", text("unit"), text("test").replace('|', "\\|"));
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons.sort_by_key(|(reason, names)| (reason.starts_with("never"), usize::MAX - names.len()));
    let rows = reasons.iter().map(|(reason, names)| format!("| {reason} | {} |\n", names.join("; ")));
    Ok(format!("\n| passes | unit: name |\n|---|---|\n{}\n", rows.collect::<String>()))
}

/// Reads the table in the file `path`.
fn read(path: &Path) -> Result<Table> {
    let table = table::read_table(path)?;
    let list = |name: &str| table.get(name).and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let mut exclusions = Vec::new();
    for entry in list("excluded") {
        let text = |name: &str| entry.get(name).and_then(toml::Value::as_str).filter(|text| !text.is_empty());
        let needed = |name: &str| text(name).ok_or_else(|| format!("{TABLE}: {entry} has no {name}"));
        needed("reason")?;
        needed("feature")?;
        let flag = |name: &str| entry.get(name).and_then(toml::Value::as_bool).unwrap_or(false);
        let (skip, ends, threads_only, tls_only) =
            (flag("skip"), flag("ends"), flag("io-threads"), flag("tls"));
        let (unit, test) = (needed("unit")?.to_string(), needed("test")?.to_string());
        let at_times = flag("at-times");
        let ours = text("ours").map(Ports::parse).transpose()?;
        let count = entry.get("count").and_then(toml::Value::as_integer);
        let count = count.map(usize::try_from).transpose()?;
        if count == Some(0) || (count.is_some() && (skip || test.contains('*') || unit.contains('*'))) {
            return Err(format!("{TABLE}: {entry}: a count is of one name that is run, and not 0").into());
        }
        exclusions.push(Exclusion {
            unit,
            test,
            skip,
            ends,
            at_times,
            threads_only,
            tls_only,
            ours,
            count,
            used: 0,
        });
    }
    let units = list("units").iter().filter_map(toml::Value::as_str).map(str::to_string).collect();
    let tags = table.get("tags").and_then(toml::Value::as_table).into_iter().flatten();
    let tags = tags.filter_map(|(unit, tags)| Some((unit.clone(), tags.as_str()?.to_string()))).collect();
    Ok(Table { units, tags, exclusions })
}

/// Runs the units and returns the runner's report. Units with left-out tags are run by separate calls.
fn call_suite(
    suite: &Path,
    server: &Path,
    jobs: u64,
    table: &Table,
    units: &[String],
    more: &[&str],
) -> Result<Vec<Value>> {
    let (tagged, plain): (Vec<String>, Vec<String>) =
        units.iter().cloned().partition(|unit| table.tags.contains_key(unit));
    let mut results = Vec::new();
    if !plain.is_empty() {
        results = call_runner(suite, server, jobs, table, &plain, more)?;
    }
    for unit in tagged {
        // The runner takes all further words for the suite as one word.
        let is_tls = more.contains(&TLS);
        let tags =
            format!("{}--tags {}", if is_tls { "--extra=--tls " } else { "--extra=" }, table.tags[&unit]);
        let more: Vec<&str> =
            more.iter().copied().filter(|word| *word != TLS).chain([tags.as_str()]).collect();
        results.extend(call_runner(suite, server, 1, table, &[unit], &more)?);
    }
    Ok(results)
}

/// Runs units and returns the runner's report. The runner's exit status only says that some test failed.
fn call_runner(
    suite: &Path,
    server: &Path,
    jobs: u64,
    table: &Table,
    units: &[String],
    more: &[&str],
) -> Result<Vec<Value>> {
    let folder = shell::target_dir().join("conformance");
    std::fs::create_dir_all(&folder)?;
    let (json, skipfile) = (folder.join("report.json"), folder.join("skip"));
    if json.exists() {
        std::fs::remove_file(&json)?;
    }
    let skipped = table.exclusions.iter().filter(|entry| entry.skip).map(|entry| skip_line(&entry.test));
    std::fs::write(&skipfile, skipped.map(|line| line + "\n").collect::<String>())?;
    let mut command = Command::new(suite);
    command.arg("--bin-dir").arg(tools_folder());
    command.arg("--server").arg(server).arg("--json").arg(&json).arg("--skipfile").arg(&skipfile);
    command.arg("--logs").arg(folder.join("logs")).args(["-j", &jobs.to_string()]).args(more).args(units);
    let status = command.status().map_err(|error| format!("{}: {error}", suite.display()))?;
    let text = std::fs::read_to_string(&json)
        .map_err(|error| format!("the suite wrote no report ({status}): {}: {error}", json.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// A line of the suite's skip file: a name, or a slash and a regular expression.
fn skip_line(test: &str) -> String {
    if !test.contains('*') {
        return test.to_string();
    }
    let mut expression = String::new();
    for letter in test.chars() {
        match letter {
            '*' => expression.push_str(".*"),
            letter if letter.is_alphanumeric() || letter == ' ' => expression.push(letter),
            letter => expression.extend(['\\', letter]),
        }
    }
    format!("/^{expression}$")
}

/// Names that the reference passes, by unit, if the runner's folder has the list.
fn read_reference(suite: &Path) -> Result<Option<Value>> {
    match std::fs::read_to_string(suite.with_file_name("reference.json")) {
        Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
        Err(_) => Ok(None),
    }
}

/// The name of a failed test without the file's name, which the suite appends to it.
fn bare_name(test: &str) -> &str {
    match test.rsplit_once(" in tests/") {
        Some((name, file)) if file.ends_with(".tcl") => name,
        _ => test,
    }
}

/// Compares one unit's names with the reference's. The reference's names are from runs without TLS. Over
/// TLS, a failed name counts if the reference passes it without TLS, or if it is about TLS.
fn judge(result: &Value, reference: Option<&Value>, is_tls: bool) -> Unit {
    let name = result["unit"].as_str().unwrap_or_default().to_string();
    let names = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let passed = names(&result["names"]);
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &passed {
        *left.entry(name).or_default() += 1;
    }
    let failed = || [names(&result["failed"]), names(&result["exceptions"])].concat();
    let wanted = match reference.map(|reference| &reference[&name]).filter(|list| list.is_array()) {
        Some(list) if !is_tls => names(list),
        Some(list) => {
            let known = names(list);
            let counts = |test: &String| known.contains(test) || test.to_lowercase().contains("tls");
            failed().into_iter().map(|test| bare_name(&test).to_owned()).filter(counts).collect()
        }
        None => [passed.clone(), failed()].concat(),
    };
    let mut missing = Vec::new();
    for test in wanted {
        match left.get_mut(test.as_str()).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => missing.push(test),
        }
    }
    let finished = result["finished"].as_bool().unwrap_or(false);
    Unit { name, passed: passed.len(), missing, finished, seconds: result["seconds"].as_f64().unwrap_or(0.0) }
}

/// Prints a table of the units and all failures: failed tests that no exclusion covers, stale exclusions, and
/// units that did not finish. Returns the number of failures.
fn report(units: &[Unit], table: &mut Table, suggest: bool) -> usize {
    let mut unknown = Vec::new();
    println!("\n{:32} {:>7} {:>9} {:>8} {:>9}", "unit", "passed", "excluded", "failed", "seconds");
    for unit in units {
        let (mut excluded, mut failed) = (0, 0);
        for test in &unit.missing {
            if exclude(&mut table.exclusions, &unit.name, test) {
                excluded += 1;
            } else {
                failed += 1;
                unknown.push((&unit.name, test));
            }
        }
        let note = if unit.finished { "" } else { "  did not finish" };
        println!("{:32} {:7} {excluded:9} {failed:8} {:9.1}{note}", unit.name, unit.passed, unit.seconds);
    }
    for (unit, test) in &unknown {
        if suggest {
            println!("\n[[excluded]]\nunit = {unit:?}\ntest = {test:?}\nreason = \"\"\nfeature = \"\"");
        } else {
            println!("failed: {unit}: {test}");
        }
    }
    let stale: Vec<&Exclusion> =
        table.exclusions.iter().filter(|entry| is_stale(entry, units, &table.units)).collect();
    for entry in &stale {
        println!("stale: {}: {}: it passes or is gone; remove its exclusion", entry.unit, entry.test);
    }
    let ends_early = |unit: &Unit| table.exclusions.iter().any(|entry| entry.ends && entry.unit == unit.name);
    let unfinished: Vec<&Unit> = units.iter().filter(|unit| !unit.finished && !ends_early(unit)).collect();
    for unit in &unfinished {
        println!("failed: {}: it did not come to its end", unit.name);
    }
    unknown.len() + stale.len() + unfinished.len()
}

/// Prints the requested units that are missing in the runner's report; returns their number.
fn report_absent(wanted: &[String], units: &[Unit]) -> usize {
    let absent = wanted.iter().filter(|name| !units.iter().any(|unit| &unit.name == *name));
    absent.map(|name| println!("failed: {name}: the runner's report does not have it")).count()
}

/// Whether an exclusion covers the name; counts its use.
fn exclude(exclusions: &mut [Exclusion], unit: &str, test: &str) -> bool {
    let mut covered = false;
    for entry in exclusions {
        let is_meant = glob::matches(&entry.unit, unit) && glob::matches(&entry.test, test);
        if is_meant && entry.count.is_none_or(|count| entry.used < count) {
            entry.used += 1;
            covered = true;
        }
    }
    covered
}

/// Whether the exclusion could have been used in this run, but was not used, or was used less often than it
/// allows. A pattern of units could be used when every unit of the table ran.
fn is_stale(entry: &Exclusion, ran: &[Unit], all: &[String]) -> bool {
    let named = ran.iter().any(|unit| unit.name == entry.unit);
    let complete = all.iter().all(|unit| ran.iter().any(|ran| &ran.name == unit));
    !entry.at_times && entry.used < entry.count.unwrap_or(1) && (named || complete)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::{Exclusion, Ports, Table, judge, mixed_script, report, report_absent, skip_line};

    fn table(test: &str) -> Table {
        let entry = Exclusion {
            unit: "unit/a".into(),
            test: test.into(),
            skip: false,
            ends: false,
            at_times: false,
            threads_only: false,
            tls_only: false,
            ours: None,
            count: None,
            used: 0,
        };
        Table { units: vec!["unit/a".into()], tags: BTreeMap::new(), exclusions: vec![entry] }
    }

    #[test]
    fn a_name_that_the_reference_passes_must_pass_or_be_excluded() {
        let reference = json!({"unit/a": ["one", "two", "two", "three"]});
        let result = json!({"unit": "unit/a", "names": ["one", "two", "extra"], "failed": ["three"], "finished": true});
        let unit = judge(&result, Some(&reference), false);
        assert_eq!(unit.missing, ["two", "three"]);
        assert_eq!(report(&[judge(&result, Some(&reference), false)], &mut table("t*"), false), 0);
        assert_eq!(report(&[unit], &mut table("three"), false), 1);
    }

    #[test]
    fn an_exclusion_that_nothing_needs_is_stale() {
        let result = json!({"unit": "unit/a", "names": ["one"], "failed": [], "finished": true});
        assert_eq!(report(&[judge(&result, None, false)], &mut table("one"), false), 1);
    }

    #[test]
    fn a_unit_that_did_not_finish_or_was_not_reported_fails() {
        let result = json!({"unit": "unit/a", "names": ["one"], "failed": ["two"], "finished": false});
        assert_eq!(report(&[judge(&result, None, false)], &mut table("two"), false), 1);
        let mut table = table("two");
        table.exclusions[0].ends = true;
        assert_eq!(report(&[judge(&result, None, false)], &mut table, false), 0);
        let units = [judge(&result, None, false)];
        assert_eq!(report_absent(&["unit/a".to_owned(), "unit/b".to_owned()], &units), 1);
    }

    #[test]
    fn an_exclusion_with_a_count_covers_that_many_of_its_name() {
        let reference = json!({"unit/a": ["one", "two", "two"]});
        let failures = |passed: &[&str]| {
            let result = json!({"unit": "unit/a", "names": passed, "finished": true});
            let mut table = table("two");
            table.exclusions[0].count = Some(1);
            report(&[judge(&result, Some(&reference), false)], &mut table, false)
        };
        assert_eq!(failures(&["one", "two"]), 0);
        assert_eq!(failures(&["one"]), 1, "the other test of that name failed as well");
        assert_eq!(failures(&["one", "two", "two"]), 1, "it is stale");
    }

    #[test]
    fn a_mixed_script_becomes_the_server_of_the_last_port() {
        let folder = std::env::temp_dir().join(format!("sluice-it's-mixed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let server = |name: &str| {
            let path = folder.join(name);
            write(&path, &format!("#!/bin/sh\necho {name} $$\n"));
            path
        };
        let (ours, peer) = (server("ours"), server("theirs"));
        let (script, file) = (folder.join("script"), folder.join("file"));
        for (ports, text, words, wanted) in [
            (Ports::Odd, "port 7001\nport 7002\n", &[][..], "theirs"),
            (Ports::Odd, "cluster-port 8000\nport 7001", &[], "ours"),
            (Ports::Even, "port 7001\n", &[], "theirs"),
            (Ports::Odd, "port 7002\n", &["--port", "7001", "--save", ""], "ours"),
            (Ports::Even, "port 7001\n", &["--save", "", "--port", "7002"], "ours"),
        ] {
            std::fs::write(&file, text).expect("a file");
            let lines = mixed_script(&ours, &peer, ports).expect("a script");
            write(&script, &format!("#!/bin/sh\n{lines}"));
            let mut command = Command::new(&script);
            let child = command.arg(&file).args(words).stdout(Stdio::piped()).spawn().expect("a process");
            let id = child.id();
            let output = child.wait_with_output().expect("its output");
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                format!("{wanted} {id}\n"),
                "{text:?} {words:?}"
            );
        }
        std::fs::remove_dir_all(&folder).expect("the folder goes");
    }

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).expect("a program");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }

    #[test]
    fn patterns_become_expressions_in_the_skip_file() {
        assert_eq!(skip_line("a (b)"), "a (b)");
        assert_eq!(skip_line("a (b) *"), "/^a \\(b\\) .*$");
    }
}
