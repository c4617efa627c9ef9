//! The servers' metadata of commands (names, arity, argument trees), and the comparison of this metadata.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{CLUSTER_ROWS, ROWS, Rule, WEIGHT};
use crate::error::Result;
use crate::glob;
use crate::wire::{Connection, Reply};

/// A command that both servers have, that has no subcommands, and that no rule excludes.
pub(crate) struct CommandEntry {
    /// The full name, `config|get`.
    pub(crate) name: String,
    /// The group in COMMAND DOCS, such as `string`.
    group: String,
    /// The words of the name, such as `CONFIG` and `GET`.
    pub(crate) words: Vec<String>,
    /// The argument tree after the name.
    pub(crate) arguments: Vec<Argument>,
    /// Relative frequency of the command in streams.
    pub(crate) weight: u32,
    /// Whether a call has at most one key, whatever its arguments.
    is_of_one_key: bool,
}

impl CommandEntry {
    /// Whether the command matches a pattern of full names or is in the group `@group`.
    pub(crate) fn is_meant(&self, pattern: &str) -> bool {
        match pattern.strip_prefix('@') {
            Some(group) => self.group == group,
            None => glob::matches(pattern, &self.name),
        }
    }
}

/// A node of an argument tree.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    /// `string`, `integer`, `double`, `key`, `pattern`, `unix-time`, `pure-token`, `oneof` or `block`.
    pub(crate) kind: String,
    /// The word that precedes the argument; `None` for an argument without a token.
    pub(crate) token: Option<String>,
    pub(crate) optional: bool,
    pub(crate) multiple: bool,
    /// Whether each repetition is preceded by the token.
    pub(crate) multiple_token: bool,
    pub(crate) items: Vec<Argument>,
}

/// The commands of the servers, and the rule for each, even if the command is never sent.
pub(crate) struct Grammar {
    /// The commands that streams may have.
    pub(crate) commands: Vec<CommandEntry>,
    /// The names of our server's commands, containers and subcommands included.
    pub(crate) names: BTreeSet<String>,
    /// The rule for every command of the reference.
    rules: BTreeMap<String, Rule>,
    /// Whether both servers are cluster nodes.
    pub(crate) is_of_clusters: bool,
}

impl Grammar {
    /// Asks both servers for their commands. Streams have our server's commands. The arguments come from the
    /// reference, so that an option that our server does not even document is sent, too.
    pub(crate) fn load(
        ours: &mut Connection,
        peer: &mut Connection,
        is_of_clusters: bool,
    ) -> Result<Grammar> {
        let own = names_of(&ours.ask(&[b"COMMAND"])?);
        let infos = peer.ask(&[b"COMMAND"])?;
        let docs = peer.ask(&[b"COMMAND", b"DOCS"])?;
        let mut grammar =
            Grammar { commands: Vec::new(), names: own, rules: BTreeMap::new(), is_of_clusters };
        for info in &infos.items {
            let name = info.items.first().map(Reply::string).unwrap_or_default();
            let doc = docs.field(&name);
            grammar.add(info, doc);
            for sub in info.items.get(9).map(|subs| subs.items.as_slice()).unwrap_or_default() {
                let full = sub.items.first().map(Reply::string).unwrap_or_default();
                let sub_doc = doc.and_then(|doc| doc.field("subcommands")).and_then(|subs| subs.field(&full));
                grammar.add(sub, sub_doc);
            }
        }
        grammar.commands.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(grammar)
    }

    /// Records a command's rule; adds the command unless a rule excludes it, ours lacks it, or it has
    /// subcommands.
    fn add(&mut self, info: &Reply, doc: Option<&Reply>) {
        let name = info.items.first().map(Reply::string).unwrap_or_default();
        let has_subcommands = info.items.get(9).is_some_and(|subs| !subs.items.is_empty());
        let list = |index: usize| -> Vec<String> {
            info.items
                .get(index)
                .map(|list| list.items.iter().map(Reply::string).collect())
                .unwrap_or_default()
        };
        let (rule, weight) = rule_for(&name, &list(2), &list(7), self.is_of_clusters);
        self.rules.insert(name.clone(), rule);
        if !self.names.contains(&name) || has_subcommands || rule == Rule::Skip {
            return;
        }
        let arguments = doc.and_then(|doc| doc.field("arguments")).map(tree).unwrap_or_default();
        let group = doc.and_then(|doc| doc.field("group")).map(Reply::string).unwrap_or_default();
        let words = name.split('|').map(str::to_uppercase).collect();
        let number = |index: usize| info.items.get(index).map(Reply::string);
        let is_of_one_key = number(3) == number(4) && !list(2).iter().any(|flag| flag == "movablekeys");
        self.commands.push(CommandEntry { name, group, words, arguments, weight, is_of_one_key });
    }

    /// The rule for a command with these arguments. A scan that starts in the middle of a table can only be
    /// compared by shape, because each server has its own cursors.
    pub(crate) fn rule(&self, arguments: &[Vec<u8>]) -> Rule {
        let name = self.full_name(arguments);
        let cursor = arguments.get(if name == "scan" || name == "clusterscan" { 1 } else { 2 });
        match self.rules.get(&name) {
            Some(Rule::Scan) if cursor.is_some_and(|cursor| cursor != b"0") => Rule::Shape,
            rule => rule.copied().unwrap_or(Rule::Exact),
        }
    }

    /// Whether calls of the command with this name have at most one key.
    pub(crate) fn is_of_one_key(&self, name: &str) -> bool {
        self.commands.iter().any(|entry| entry.name == name && entry.is_of_one_key)
    }

    /// Whether both servers have a command of this full name.
    pub(crate) fn has_own(&self, name: &str) -> bool {
        self.names.contains(name) && self.rules.contains_key(name)
    }

    /// Whether ours has a command of this full name, or neither server has one, so that the reply must be an
    /// error.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name) || !self.rules.contains_key(name)
    }

    /// The full name of a command as it was sent, in lower case.
    pub(crate) fn full_name(&self, arguments: &[Vec<u8>]) -> String {
        let word =
            |index: usize| arguments.get(index).map(|word| String::from_utf8_lossy(word).to_lowercase());
        let name = word(0).unwrap_or_default();
        // A zero byte ends the name of a subcommand, but not that of a command.
        let second = word(1).unwrap_or_default();
        let full = format!("{name}|{}", second.split('\0').next().unwrap_or_default());
        if self.names.contains(&full) { full } else { name }
    }
}

/// The rule and weight of a command: from the first matching row, otherwise from its flags and tips.
fn rule_for(name: &str, flags: &[String], tips: &[String], is_of_clusters: bool) -> (Rule, u32) {
    let ahead = CLUSTER_ROWS.iter().filter(|_| is_of_clusters);
    if let Some(row) = ahead.chain(ROWS).find(|row| glob::matches(row.pattern, name)) {
        return (row.rule, row.weight);
    }
    let tip = |wanted: &str| tips.iter().any(|tip| tip == wanted);
    if flags.iter().any(|flag| flag == "blocking") {
        return (Rule::Skip, 0);
    }
    if tip("nondeterministic_output") {
        return (Rule::Shape, WEIGHT);
    }
    if tip("nondeterministic_output_order") { (Rule::Unordered, WEIGHT) } else { (Rule::Exact, WEIGHT) }
}

/// Every name in a reply to COMMAND, subcommands included.
fn names_of(infos: &Reply) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for info in &infos.items {
        names.extend(info.items.first().map(Reply::string));
        let subs = info.items.get(9).map(|subs| subs.items.as_slice()).unwrap_or_default();
        names.extend(subs.iter().filter_map(|sub| sub.items.first().map(Reply::string)));
    }
    names
}

/// The argument tree in a reply to COMMAND DOCS.
fn tree(arguments: &Reply) -> Vec<Argument> {
    let text = |argument: &Reply, name: &str| argument.field(name).map(Reply::string);
    let node = |argument: &Reply| {
        let flags: Vec<String> = argument
            .field("flags")
            .map(|flags| flags.items.iter().map(Reply::string).collect())
            .unwrap_or_default();
        let flag = |wanted: &str| flags.iter().any(|flag| flag == wanted);
        Argument {
            name: text(argument, "name").unwrap_or_default(),
            kind: text(argument, "type").unwrap_or_default(),
            token: text(argument, "token"),
            optional: flag("optional"),
            multiple: flag("multiple"),
            multiple_token: flag("multiple_token"),
            items: argument.field("arguments").map(tree).unwrap_or_default(),
        }
    };
    arguments.items.iter().map(node).collect()
}

/// Fields that contain prose or history, whose text is our own.
const PROSE: &[&str] = &["summary", "complexity", "history", "notes"];

/// The differences of our COMMAND INFO and COMMAND DOCS from the reference's, for the commands that ours
/// has. Both connections use RESP3, which distinguishes sets and maps from arrays.
pub(crate) fn metadata_differences(ours: &mut Connection, peer: &mut Connection) -> Result<Vec<String>> {
    let mut differences = Vec::new();
    let by_name = |reply: &Reply| -> BTreeMap<String, Reply> {
        let named =
            reply.items.iter().map(|info| (info.items.first().map(Reply::string).unwrap_or_default(), info));
        named.map(|(name, info)| (name, info.clone())).collect()
    };
    let (own, reference) = (by_name(&ours.ask(&[b"COMMAND"])?), by_name(&peer.ask(&[b"COMMAND"])?));
    for (name, info) in &own {
        match reference.get(name) {
            None if NEWER.contains(&name.as_str()) => {}
            None => differences.push(format!("{name}: the reference has no such command")),
            Some(expected) => differ(&format!("COMMAND INFO {name}"), info, expected, &mut differences),
        }
    }
    let (own, reference) = (ours.ask(&[b"COMMAND", b"DOCS"])?, peer.ask(&[b"COMMAND", b"DOCS"])?);
    for pair in own.items.chunks_exact(2) {
        let name = pair[0].string();
        if let Some(expected) = reference.field(&name) {
            differ(&format!("COMMAND DOCS {name}"), &pair[1], expected, &mut differences);
        }
    }
    Ok(differences)
}

/// Commands and subcommands of versions later than the reference's.
const NEWER: &[&str] = &[
    "acl|delrole",
    "acl|digest",
    "acl|getrole",
    "acl|roles",
    "acl|setrole",
    "client|maint_notifications",
    "config|info",
    "delex",
    "hotkeys",
    "increx",
    "xackdel",
    "xdelex",
];

/// The paths of fields that differ because a command has more arguments in a version later than the
/// reference's.
const NEWER_FACTS: &[&str] = &[
    "COMMAND INFO exec[1]",
    "COMMAND DOCS exec.arguments",
    "COMMAND INFO move[1]",
    "COMMAND INFO sismember[1]",
];

/// Whether an argument in COMMAND DOCS is an option of a version later than the reference's.
fn is_newer_option(argument: &Reply) -> bool {
    argument.kind == b'%' && argument.field("since").is_some_and(|since| since.string().starts_with("9.2"))
}

/// Appends the paths at which two replies differ. Ignored are the order of maps and of sets without nested
/// elements, prose, and the additions of versions later than the reference's.
fn differ(path: &str, ours: &Reply, peer: &Reply, out: &mut Vec<String>) {
    let subcommands = path.ends_with("[9]");
    match (ours.kind, peer.kind) {
        (b'%', b'%') => {
            let keys = |reply: &Reply| -> BTreeSet<String> {
                reply.items.chunks_exact(2).map(|pair| pair[0].string()).collect()
            };
            let prose = |key: &&String| !PROSE.contains(&key.as_str());
            for key in keys(ours).union(&keys(peer)).filter(prose) {
                let inner = format!("{path}.{key}");
                match (ours.field(key), peer.field(key)) {
                    (Some(a), Some(b)) => differ(&inner, a, b, out),
                    (Some(_), None) if NEWER.contains(&key.as_str()) => {}
                    (Some(_), None) if NEWER_FACTS.contains(&inner.as_str()) => {}
                    (Some(_), None) => out.push(format!("{inner}: the reference has no such field")),
                    (None, _) => out.push(format!("{inner}: missing")),
                }
            }
        }
        (b'~', b'~') if ours.items.iter().chain(&peer.items).all(|item| item.items.is_empty()) => {
            let set = |reply: &Reply| reply.items.iter().map(Reply::string).collect::<BTreeSet<_>>();
            if set(ours) != set(peer) {
                out.push(format!("{path}: ours {:?}, theirs {:?}", set(ours), set(peer)));
            }
        }
        (b'*', b'*') if subcommands => {
            for sub in &ours.items {
                let name = sub.items.first().map(Reply::string).unwrap_or_default();
                let expected = peer
                    .items
                    .iter()
                    .find(|peer| peer.items.first().map(Reply::string).as_ref() == Some(&name));
                match expected {
                    Some(expected) => differ(&format!("{path} {name}"), sub, expected, out),
                    None if NEWER.contains(&name.as_str()) => {}
                    None => out.push(format!("{path} {name}: the reference has no such subcommand")),
                }
            }
        }
        (b'*', b'*') | (b'~', b'~')
            if ours.items.iter().filter(|item| !is_newer_option(item)).count() == peer.items.len() =>
        {
            let older = ours.items.iter().filter(|item| !is_newer_option(item));
            for (index, (a, b)) in older.zip(&peer.items).enumerate() {
                differ(&format!("{path}[{index}]"), a, b, out);
            }
        }
        _ if ours == peer || NEWER_FACTS.contains(&path) => {}
        _ => out.push(format!("{path}: ours {}, theirs {}", brief(ours), brief(peer))),
    }
}

/// A reply as one short line.
fn brief(reply: &Reply) -> String {
    match reply.items.len() {
        0 => format!("{}{:?}", reply.kind as char, reply.string()),
        count => format!("{}{count} elements", reply.kind as char),
    }
}
