//! Turns the facts about another server into the findings of `--check-move`: what this server supports, what
//! an operator must look at, what this server lacks. The functions are pure.
//!
//! Invariant: of the other server's answers a finding quotes only names (of commands, directives, modules,
//! types, users, clients, libraries, nodes), directives that are no secrets, states, error codes, versions
//! and numbers; never a key, the value of a key, or a secret.

mod cluster;
mod commands;
mod settings;
mod versions;

use super::facts::{ClientGroup, ClientRole, InfoFacts, KeySample, MoveFacts};
use super::finding::{FindingWeight, Findings, LISTED, MoveFinding};
use super::replies::is_added;
use super::shown::shown;
use sluice_acl::{ConfigUsers, Users};
use sluice_persist::rdb::{self, PayloadError, ReadOptions};
use std::collections::{BTreeMap, BTreeSet};

/// Judges every part of the facts; a part that is not known becomes a finding as well.
pub fn judge(facts: &MoveFacts) -> Vec<MoveFinding> {
    let mut verdict = Findings::default();
    if let Some(info) = verdict.known("server", &facts.info) {
        server(&mut verdict, info);
        memory(&mut verdict, info);
        replication(&mut verdict, info);
        if let Some(cluster) = facts.cluster.as_ref().and_then(|facts| verdict.known("cluster", facts)) {
            cluster::judge(&mut verdict, cluster, info);
        } else if facts.cluster.is_none() {
            databases(&mut verdict, info);
        }
    }
    if let Some(calls) = verdict.known("commands", &facts.calls) {
        let uptime_s = facts.info.as_ref().map_or(0, |info| info.number("uptime_in_seconds"));
        let is_valkey = facts.info.as_ref().is_ok_and(|info| !info.text("valkey_version").is_empty());
        commands::judge(&mut verdict, calls, uptime_s, is_valkey);
    }
    if let Some(settings) = verdict.known("directives", &facts.settings) {
        settings::judge(&mut verdict, settings);
    }
    if let Some(list) = verdict.known("modules", &facts.modules) {
        modules(&mut verdict, list);
    }
    if let Some(lines) = verdict.known("users", &facts.users) {
        users(&mut verdict, lines);
    }
    if let Some(list) = verdict.known("functions", &facts.libraries) {
        libraries(&mut verdict, list);
    }
    if let Some(kinds) = verdict.known("clients", &facts.clients) {
        clients(&mut verdict, kinds);
    }
    if let Some(sample) = verdict.known("keys", &facts.keys) {
        let databases = facts.info.as_ref().map_or(0, InfoFacts::keys);
        keys(&mut verdict, sample, databases);
    }
    verdict.into_findings()
}

fn server(verdict: &mut Findings, info: &InfoFacts) {
    versions::judge(verdict, info);
    if info.is("redis_mode", "sentinel") {
        verdict.add(
            FindingWeight::Missing,
            "sentinel",
            "this is a Sentinel, which has no data",
            "check the servers that it watches; Sentinel itself is kept: docs/moving-in.md",
        );
    }
    if info.is("loading", "1") {
        verdict.add(
            FindingWeight::Look,
            "server",
            "the server is loading its data",
            "ask again when it has loaded",
        );
    }
}

fn memory(verdict: &mut Findings, info: &InfoFacts) {
    let (used, limit) = (info.number("used_memory"), info.number("maxmemory"));
    let policy = shown(info.text("maxmemory_policy"));
    match limit {
        0 => verdict.works("memory", format!("{} in use, no maxmemory", size(used))),
        limit => verdict.works(
            "memory",
            format!("{} in use of maxmemory {}, policy {policy}: set the same here", size(used), size(limit)),
        ),
    }
    if limit != 0 && used >= limit && policy == "noeviction" {
        verdict.add(
            FindingWeight::Look,
            "memory",
            "maxmemory is reached and nothing is evicted: writes are refused there",
            "data take another amount of memory here, mostly less: see used_memory after the first full sync",
        );
    }
}

fn replication(verdict: &mut Findings, info: &InfoFacts) {
    if info.is("role", "slave") {
        let link = shown(info.text("master_link_status"));
        verdict.add(
            FindingWeight::Look,
            "replication",
            format!("the server is a replica, its link is {link}"),
            "check its primary too, and move from the primary",
        );
    }
    let replicas = info.number("connected_slaves");
    if replicas > 0 {
        verdict.works(
            "replication",
            format!(
                "{replicas} replicas: after the move they follow this server by REPLICAOF, or are replaced"
            ),
        );
    }
}

/// Judges the databases of a server that is no node of a cluster.
fn databases(verdict: &mut Findings, info: &InfoFacts) {
    let Some((last, _)) = info.databases().max().filter(|(last, _)| *last > 0) else { return };
    let advice =
        format!("a node of a cluster has one database: cluster-databases {}", last.saturating_add(1));
    verdict.add(FindingWeight::Works, "databases", format!("the last one with keys is {last}"), &advice);
}

fn modules(verdict: &mut Findings, modules: &[(Vec<u8>, i64)]) {
    let others: Vec<_> = modules.iter().filter(|(name, _)| is_added(name)).collect();
    if others.is_empty() {
        verdict.works("modules", "none is loaded that was added to the server");
    }
    for (name, version) in others.iter().take(LISTED) {
        verdict.add(
            FindingWeight::Look,
            "modules",
            format!("{} {version} is loaded; there are no modules here", shown(name)),
            "harmless if this report has neither its commands nor its types: its records beside keys \
             are dropped at a load, and the log names it; take loadmodule out of the file",
        );
    }
}

/// Judges the roles, then each user with these roles. A refused line is split, and its rules about commands
/// are tried one by one.
fn users(verdict: &mut Findings, lines: &[Vec<u8>]) {
    let words = |line: &'_ Vec<u8>| -> Vec<Vec<u8>> {
        line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let (roles, users): (Vec<_>, Vec<_>) = lines.iter().map(words).partition(|words| is_role(words));
    let mut known = Users::new(false);
    let mut refused = Vec::new();
    for role in &roles {
        let Err(reason) = try_line(role, &mut known) else { continue };
        refused.push((role, reason));
        // An empty role takes the place of the refused one, so that users who have the role are not reported
        // as well.
        let _ = try_line(&role[..role.len().min(2)], &mut known);
    }
    let faulty_roles = refused.len();
    refused.extend(users.iter().filter_map(|user| Some((user, try_line(user, &mut known).err()?))));
    for (line, reason) in refused.iter().take(LISTED) {
        verdict.add(
            FindingWeight::Missing,
            "users",
            fault_of(line, reason),
            "a file with this line prevents the start: leave these rules out if the commands are not needed",
        );
    }
    if refused.len() > LISTED {
        let more = refused.len() - LISTED;
        let of = if faulty_roles > 0 { "users and roles" } else { "users" };
        verdict.add(
            FindingWeight::Missing,
            "users",
            format!("rules of {more} more {of} are refused"),
            "sluice-server --check-config with the file lists them",
        );
    }
    let taken = users.len() - (refused.len() - faulty_roles);
    let mut what = format!("{taken} of {} users have rules that are taken", users.len());
    if !roles.is_empty() {
        what += &format!(", {} of {} roles", roles.len() - faulty_roles, roles.len());
    }
    verdict.add(
        FindingWeight::Works,
        "users",
        what,
        match (roles.is_empty(), users.len()) {
            (true, ..=1) => "",
            (true, _) => "replication does not copy users: copy the aclfile or the user lines",
            (false, _) => {
                "replication does not copy users and roles: copy the aclfile or the user and role lines"
            }
        },
    );
}

/// Whether a line of ACL LIST describes a role (Valkey 9.2).
fn is_role(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|word| word == b"role")
}

/// The fault of a line: the rules about commands that are refused on their own, or `reason` if no rule is.
fn fault_of(words: &[Vec<u8>], reason: &str) -> String {
    let kind = if is_role(words) { "role" } else { "user" };
    let name = words.get(1).map_or_else(String::new, |name| shown(name));
    let name = if is_role(words) { format!("the role {name}") } else { name };
    // Only rules about commands are quoted in the finding: they hold only names, while patterns of keys and
    // channels may hold secrets.
    let rules = words.iter().skip(2).filter(|rule| matches!(rule.first(), Some(b'+' | b'-')));
    let alone = |rule: &[u8]| [kind.as_bytes(), b"probe", rule].map(<[u8]>::to_vec);
    let refused = rules.filter(|rule| try_line(&alone(rule), &mut Users::new(false)).is_err());
    let refused: Vec<String> = refused.take(LISTED).map(|rule| shown(rule)).collect();
    match refused.is_empty() {
        true => format!("the rules of {name} are refused here: {reason}"),
        false => format!("rules of {name} are refused here: {}", refused.join(" ")),
    }
}

/// Adds the user or role in a line of ACL LIST to `known`.
fn try_line(words: &[Vec<u8>], known: &mut Users) -> Result<(), &'static str> {
    let mut line = ConfigUsers::default();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    line.add(&words, false).map_err(|fault| fault.error.text())?;
    line.define(known).map(drop).map_err(|_| "a command, category or role is not known")
}

fn libraries(verdict: &mut Findings, libraries: &[(Vec<u8>, Vec<u8>)]) {
    let is_lua = |engine: &[u8]| engine.eq_ignore_ascii_case(b"lua");
    for (name, engine) in libraries.iter().filter(|(_, engine)| !is_lua(engine)).take(LISTED) {
        let what = format!("library {} is written for the engine {}", shown(name), shown(engine));
        verdict.add(
            FindingWeight::Missing,
            "functions",
            what,
            "the only engine is LUA: rewrite the library in Lua",
        );
    }
    let lua = libraries.iter().filter(|(_, engine)| is_lua(engine)).count();
    if lua > 0 {
        verdict.works("functions", format!("libraries in Lua: {lua}; they move with the data"));
    }
}

fn clients(verdict: &mut Findings, kinds: &BTreeMap<ClientGroup, u64>) {
    let of = |role| kinds.iter().filter(move |(kind, _)| kind.role == role);
    let sum = |role| of(role).map(|(_, count)| count).sum::<u64>();
    let mut lines: Vec<_> = of(ClientRole::Usual).chain(of(ClientRole::Tracking)).collect();
    lines.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (kind, count) in lines.iter().take(LISTED) {
        let name = match kind.library.is_empty() {
            true => "clients without a name".to_owned(),
            false => format!("{} {}", shown(&kind.library), shown(&kind.version)).trim_end().to_owned(),
        };
        verdict.works("clients", format!("{count} of {name}, RESP{}", kind.protocol));
    }
    if lines.len() > LISTED {
        verdict.works("clients", format!("{} more kinds of clients", lines.len() - LISTED));
    }
    let is_redis_py = |kind: &ClientGroup| kind.library.starts_with(b"redis-py");
    if of(ClientRole::Tracking).any(|(kind, _)| is_redis_py(kind)) {
        verdict.add(
            FindingWeight::Look,
            "clients",
            "redis-py with its client-side cache",
            "that cache refuses servers that report the name Valkey, as this one does: turn the cache \
             off, or use valkey-py",
        );
    }
    if sum(ClientRole::Sentinel) > 0 {
        verdict.add(
            FindingWeight::Works,
            "sentinel",
            "Sentinel watches the server; Sentinel of Valkey 9.1 watches this one as well",
            "move one replica after the other: docs/moving-in.md",
        );
    }
    let replicas = sum(ClientRole::Replica);
    if replicas > 0 {
        verdict.works("clients", format!("{replicas} connections of replicas"));
    }
}

/// Judges the types of the sampled keys. `all` is the number of keys in all databases.
fn keys(verdict: &mut Findings, sample: &KeySample, all: u64) {
    let mut types: BTreeMap<&[u8], u64> = BTreeMap::new();
    for ((kind, _), count) in &sample.kinds {
        *types.entry(kind).or_insert(0) += count;
    }
    let (known, foreign): (Vec<_>, Vec<_>) =
        types.into_iter().partition(|(kind, _)| TYPES.contains(&String::from_utf8_lossy(kind).as_ref()));
    let known: Vec<String> =
        known.into_iter().map(|(kind, count)| format!("{count} {}", shown(kind))).collect();
    if sample.looked_at == 0 {
        verdict.works("keys", "there is no key");
    } else if !known.is_empty() {
        let known = known.join(", ");
        let looked_at = sample.looked_at;
        verdict.works("keys", format!("of {looked_at} keys that were looked at, of {all} in all: {known}"));
    }
    for (kind, count) in foreign {
        verdict.add(
            FindingWeight::Missing,
            "keys",
            format!("{count} of {} keys are of the type {}", sample.looked_at, shown(kind)),
            "a type of a module: a file or a full sync with such a key is refused, unless \
             rdb-version-check relaxed skips these keys",
        );
    }
    if sample.refused > 0 {
        verdict.add(
            FindingWeight::Look,
            "keys",
            format!("not judged: {} keys, to which this user has no right", sample.refused),
            "ask again as a user with the rights that docs/moving-in.md lists",
        );
    }
    payloads(verdict, sample);
}

/// Tries to load the payloads of the sample, as a full sync would.
fn payloads(verdict: &mut Findings, sample: &KeySample) {
    let mut said = BTreeSet::new();
    let mut loaded = 0;
    let versions = sample.payloads.iter().filter_map(|fact| Some(version_of(fact.payload.as_ref().ok()?)));
    if let Some(version) = versions.max().filter(|version| !is_read(*version)) {
        verdict.add(
            FindingWeight::Missing,
            "keys",
            format!("the server writes RDB version {version}, which is not read here"),
            "neither its files nor a full sync load: use a version of this server that reads them, or \
             move by a tool that reads and writes",
        );
    }
    for fact in &sample.payloads {
        let is_known = TYPES.contains(&String::from_utf8_lossy(&fact.kind).as_ref());
        match &fact.payload {
            Err(unknown) if said.insert(format!("{unknown:?}")) => verdict.unknown("keys", unknown),
            // A payload of a module's type is not tried, because the type has a finding already.
            Ok(payload) if is_known => match rdb::restore_entry(payload, options_for(payload)) {
                Ok(entry) => {
                    loaded += 1;
                    if entry.mended.is_some() && said.insert("mended".to_owned()) {
                        verdict.add(
                            FindingWeight::Look,
                            "keys",
                            "a stream has a length or last id that its entries contradict",
                            "its entries count: a file or full sync is loaded, and the log names the keys",
                        );
                    }
                }
                // This is an RDB type that only Redis writes. RESTORE refuses it, but a file or a full sync
                // that contains it is loaded.
                Err(PayloadError::Foreign(_)) if is_of_redis(payload) => loaded += 1,
                Err(_) if said.insert(format!("{:?} {:?}", fact.kind, fact.encoding)) => verdict.add(
                    FindingWeight::Missing,
                    "keys",
                    format!(
                        "a value of the type {}, encoding {}, of RDB version {} does not load here",
                        shown(&fact.kind),
                        shown(&fact.encoding),
                        version_of(payload)
                    ),
                    "try the move with a copy: the log names what does not load",
                ),
                Err(_) => {}
            },
            Err(_) | Ok(_) => {}
        }
    }
    if loaded > 0 {
        let versions: BTreeSet<u16> =
            sample.payloads.iter().filter_map(|fact| Some(version_of(fact.payload.as_ref().ok()?))).collect();
        let versions: Vec<String> = versions.iter().map(u16::to_string).collect();
        let what = format!("{loaded} values were dumped and load here, RDB version {}", versions.join(", "));
        verdict.works("keys", what);
    }
}

/// The RDB version in the footer of a payload; 0 where the payload is too short.
fn version_of(payload: &[u8]) -> u16 {
    let footer = payload.len().checked_sub(10).and_then(|at| payload.get(at..at + 2));
    footer.map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Whether files and full syncs of an RDB version are read: those up to Redis 8, and those of Valkey
/// 9.0 to 9.2.
fn is_read(version: u16) -> bool {
    matches!(version, 0..=13 | 80 | 81)
}

/// The options for a payload: a full sync of Redis 8 is read, though RESTORE refuses its payloads.
fn options_for(payload: &[u8]) -> ReadOptions {
    let unknown = if is_of_redis(payload) { rdb::Unknown::Skip } else { rdb::Unknown::Refuse };
    ReadOptions { unknown, ..ReadOptions::default() }
}

/// Whether a payload is of a version of Redis whose files and full syncs are read, though RESTORE
/// refuses its payloads.
fn is_of_redis(payload: &[u8]) -> bool {
    (12..=13).contains(&version_of(payload))
}

/// A number of bytes as KiB, MiB or GiB.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes / 1024),
        1_048_576..10_737_418_240 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// The types of values that this server has.
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];
#[cfg(test)]
mod tests;
