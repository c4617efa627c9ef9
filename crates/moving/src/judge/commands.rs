//! Judges the commands that were called: commands that are missing here, and commands of Redis
//! that differ here.

use crate::facts::CommandCalls;
use crate::finding::{FindingWeight, Findings};
use crate::shown::shown;
use sluice_command::lookup_full;

/// A finding lists at most this many commands by name.
pub(super) const COMMANDS_SHOWN: usize = 20;

/// Judges the calls of a server. `is_valkey` tells Valkey from Redis, some of whose commands differ from
/// those of the same name here.
pub(super) fn judge(verdict: &mut Findings, calls: &[CommandCalls], uptime_s: u64, is_valkey: bool) {
    let called = || calls.iter().filter(|command| command.calls > 0);
    let mut missing: Vec<&CommandCalls> =
        called().filter(|command| lookup_full(&command.name).is_none()).collect();
    missing.sort_by_key(|command| std::cmp::Reverse(command.calls));
    let known = called().count() - missing.len();
    let since = match uptime_s {
        0..86_400 => format!("{} hours", uptime_s / 3_600),
        _ => format!("{} days", uptime_s / 86_400),
    };
    verdict.works(
        "commands",
        format!("of the commands that were called, {known} are here; counted for {since} at most"),
    );
    missing.iter().take(COMMANDS_SHOWN).for_each(|command| name_missing(verdict, command));
    let more = missing.len().saturating_sub(COMMANDS_SHOWN);
    if more > 0 {
        let what = format!("{more} more commands that were called are not here");
        verdict.add(FindingWeight::Missing, "commands", what, "INFO commandstats lists them");
    }
    let differs =
        |command: &&CommandCalls| OTHERS_OF_REDIS.iter().find(|(name, _)| name.as_bytes() == command.name);
    for (command, (_, advice)) in called().filter(|_| !is_valkey).filter_map(|c| Some((c, differs(&c)?))) {
        let name = shown(&command.name).to_ascii_uppercase();
        let what = format!("{name} is another command here than in Redis (calls: {})", command.calls);
        verdict.add(FindingWeight::Look, "commands", what, advice);
    }
}

fn name_missing(verdict: &mut Findings, CommandCalls { name, calls, failed }: &CommandCalls) {
    let advice = advice_of(name);
    let name = shown(name).to_ascii_uppercase();
    let (weight, what) = match calls.saturating_sub(*failed) {
        0 => (
            FindingWeight::Look,
            format!("{name} is not here; all calls have failed there too (calls: {calls})"),
        ),
        _ => (
            FindingWeight::Missing,
            format!("{name} is not here (calls: {calls}, of these failed: {failed})"),
        ),
    };
    verdict.add(weight, "commands", what, advice);
}

/// What to do about a command that is missing here.
fn advice_of(name: &[u8]) -> &'static str {
    let begins = |part: &[u8]| name.starts_with(part);
    let replacement = REPLACEMENTS.iter().find(|(of, _)| of.as_bytes() == name);
    match name {
        _ if replacement.is_some() => replacement.map_or("", |(_, advice)| advice),
        b"backup" => BACKUP,
        _ if begins(b"backup|") => BACKUP,
        _ if begins(b"ph") => {
            "a Path Hash of Valkey 9.2, a type that is not here: HSET with the path in the key's name keeps the same fields"
        }
        _ if begins(b"himport") => "hashes by templates of Redis 8.10: HSET does the same field by field",
        _ if begins(b"cluster|") => {
            "find which tool calls it: docs/compat.md has the commands about clusters"
        }
        _ if name.contains(&b'.') => {
            "a command of a module, and there are no modules here: find the client that calls it"
        }
        _ if begins(b"v") => {
            "a command of vector sets, which are missing here: find the client that calls it"
        }
        _ => "find the client that calls it, and whether it has another way: docs/compat.md",
    }
}

/// The replacement for BACKUP of Redis 8.10.
const BACKUP: &str = "sluice-backup and its timers take and rotate snapshots, valkey-cli --rdb takes one: docs/operating.md, \"Backups\"";

/// Commands of Redis 8 that are missing here, and their replacements.
const REPLACEMENTS: [(&str, &str); 8] = [
    ("blmovem", "BLMOVE moves one element, which a script repeats with LMOVE"),
    ("cluster|migration", "CLUSTER MIGRATESLOTS moves slots as a whole"),
    ("digest", "SET IFEQ, SET IFNE and DELEX compare values themselves"),
    ("hotkeys|start", "HOTKEYS GET always counts here; hotkeys-top-k is the number of keys"),
    ("lmovem", "LMOVE moves one element, which a script repeats"),
    ("sdiffcard", "SDIFFSTORE returns the number of members"),
    ("sunioncard", "SUNIONSTORE returns the number of members"),
    ("xnack", "XCLAIM with IDLE gives a message to another consumer"),
];

/// Commands of Redis 8 that have Valkey's arguments and replies here.
const OTHERS_OF_REDIS: [(&str, &str); 4] = [
    ("delex", "IFDEQ, IFDNE and a DELEX without a condition are errors here: use IFEQ, IFNE, DEL"),
    ("hotkeys|get", "the reply has Valkey's form: change what reads it"),
    ("increx", "options and reply are those of Valkey 9.2: change the calls"),
    ("msetex", "the arguments are those of Valkey 9.1: look at the calls"),
];
