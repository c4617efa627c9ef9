//! The differential test in cluster mode: three nodes of ours and three of the reference, with the same ids,
//! slots and announced ports. Each stream is sent to one node of each cluster, so that redirects are
//! compared, too.
//!
//! Invariants: (1) all data by which clients identify nodes is the same in both clusters; (2) streams do not
//! change slot owners or the nodes' knowledge of each other, but they open and close slots.

use std::path::Path;
use std::time::Duration;

use sluice_base::{Rng, key_slot};

use super::command::Command;
use super::generator::Generator;
use super::grammar::Grammar;
use super::scripts;
use super::values::KEYS;
use crate::error::Result;
use crate::server::{Server, free_port};
use crate::shell;
use crate::wire::Connection;

/// Number of nodes of a cluster.
pub(super) const NODES: usize = 3;

/// The first and the last slot of each node.
const SLOTS: [[u16; 2]; NODES] = [[0, 5_460], [5_461, 10_922], [10_923, 16_383]];

/// Hash tags whose slots each node owns.
const TAGS: [[&str; 3]; NODES] = [["{b}", "{f}", "{j}"], ["{c}", "{g}", "{k}"], ["{a}", "{d}", "{e}"]];

/// The ports that nodes announce to clients; no process listens on them.
const ANNOUNCED: [&str; NODES] = ["7001", "7002", "7003"];

/// Maximum time until a cluster serves.
const READY_MAX: Duration = Duration::from_secs(30);

/// Chances in percent. `OWN_CHANCE`: a command has keys of this node's slots; `STRAY_CHANCE`: a key has
/// another slot than the command's other keys; `ASKING_CHANCE`: a command follows ASKING.
const OWN_CHANCE: u64 = 75;
const STRAY_CHANCE: u64 = 3;
const ASKING_CHANCE: u64 = 4;

/// The id of a node.
fn id_of(node: usize) -> String {
    ["a", "b", "c"][node % NODES].repeat(40)
}

/// Starts the nodes of a cluster, each with `extra` and options of its own, and waits until they serve.
pub(super) fn start(binary: &Path, extra: &[String]) -> Result<Vec<Server>> {
    let mut nodes = Vec::new();
    let mut buses = Vec::new();
    for (node, [first, last]) in SLOTS.iter().enumerate() {
        let bus = free_port()?.to_string();
        let words = [
            ["--cluster-enabled", "yes"],
            ["--cluster-port", &bus],
            ["--cluster-databases", "16"],
            // The timeout is long, so that no node is suspected on a busy machine.
            ["--cluster-node-timeout", "60000"],
            ["--cluster-announce-client-port", ANNOUNCED[node]],
        ];
        let own: Vec<String> = words.iter().flatten().map(|word| (*word).to_owned()).collect();
        let (id, shard) = (id_of(node), ["1", "2", "3"][node].repeat(40));
        let file = format!(
            "{id} :0@0,,tls-port=0,shard-id={shard} myself,master - 0 0 {} connected {first}-{last}\n\
             vars currentEpoch 3 lastVoteEpoch 0\n",
            node + 1
        );
        let prepare = |folder: &Path| Ok(std::fs::write(folder.join("nodes.conf"), &file)?);
        nodes.push(Server::start_prepared(binary, &[extra, &own].concat(), &prepare)?);
        buses.push(bus);
    }
    for (node, bus) in nodes.iter().zip(&buses).skip(1) {
        let port = node.port.to_string();
        let words = [b"CLUSTER".as_slice(), b"MEET", b"127.0.0.1", port.as_bytes(), bus.as_bytes()];
        let reply = Connection::open(nodes[0].port)?.ask(&words)?;
        if reply.is_error() {
            return Err(format!("no node can be met: {}", reply.string()).into());
        }
    }
    let began = shell::now();
    for node in &nodes {
        while !serves(node)? {
            if began.elapsed() > READY_MAX {
                return Err(format!("a node does not serve:\n{}", node.log_tail()).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(nodes)
}

/// Whether a node lists all nodes with their slots, and reports that the cluster is in order.
fn serves(node: &Server) -> Result<bool> {
    let mut connection = Connection::open(node.port)?;
    let info = connection.ask(&[b"CLUSTER", b"INFO"])?.string();
    let list = connection.ask(&[b"CLUSTER", b"NODES"])?.string();
    let is_known = |other: usize| {
        let [first, last] = SLOTS[other];
        list.lines().any(|line| {
            line.starts_with(&id_of(other)) && line.ends_with(&format!(" connected {first}-{last}"))
        })
    };
    let is_whole = list.lines().count() == NODES && (0..NODES).all(is_known);
    Ok(is_whole && info.starts_with("cluster_state:ok"))
}

/// A slot that streams may open.
fn slot(generator: &mut Generator) -> String {
    let tag = TAGS[generator.below(NODES)][generator.below(3)];
    key_slot(tag.as_bytes()).to_string()
}

/// A valid or invalid word for a slot.
fn any_slot(generator: &mut Generator) -> Vec<u8> {
    if generator.chance(75) {
        return slot(generator).into_bytes();
    }
    generator.pick(&["0", "16383", "16384", "-1", "x", "", "1.0", "05", " 5", "99999999999999999999"])
}

/// The id of a node, or sometimes another word.
fn any_id(generator: &mut Generator) -> Vec<u8> {
    match generator.below(8) {
        0 => generator.pick(&["", "a", "*", "nosuch"]),
        1 => vec![b'd'; 40],
        2 => vec![b'a'; 41],
        3 => vec![b'A'; 40],
        _ => id_of(generator.below(NODES)).into_bytes(),
    }
}

/// Arguments of the subcommands of CLUSTER; `None` for other commands. Commands that would change the map,
/// except SETSLOT, get a form that is refused.
pub(super) fn arguments(generator: &mut Generator, name: &str) -> Option<Vec<Vec<u8>>> {
    let owned = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let words = match name.strip_prefix("cluster|")? {
        "addslots" | "delslots" => {
            let bad = generator.pick(&["16384", "x", "-1", ""]);
            match name {
                "cluster|addslots" => vec![any_slot(generator), any_slot(generator)],
                _ => vec![any_slot(generator), bad],
            }
        }
        "addslotsrange" | "delslotsrange" => match generator.below(5) {
            0 => owned(&["1", "5", "9"]),
            1 => owned(&["9", "5"]),
            2 => owned(&["9", "16384"]),
            3 => owned(&["x", "5"]),
            _ => owned(&["5", "9", "5", "x"]),
        },
        "countkeysinslot" | "keyslot" if generator.chance(90) => match name {
            "cluster|keyslot" => vec![super::values::key(&mut generator.rng)],
            _ => vec![any_slot(generator)],
        },
        // The count asks for all keys or none: which keys another count returns depends on a hash table.
        "getkeysinslot" => vec![any_slot(generator), generator.pick(&["100000", "100000", "0", "-1", "x"])],
        "slot-stats" => match generator.below(5) {
            0 => owned(&["ORDERBY", "KEY-COUNT", "LIMIT", "3"]),
            1 => owned(&["SLOTSRANGE", "9", "5"]),
            2 => owned(&["ORDERBY", "nosuch"]),
            3 => vec![b"SLOTSRANGE".to_vec(), any_slot(generator), any_slot(generator)],
            _ => {
                let slot = any_slot(generator);
                vec![b"slotsrange".to_vec(), slot.clone(), slot]
            }
        },
        "replicas" | "slaves" | "count-failure-reports" => vec![any_id(generator)],
        "forget" => vec![generator.pick(&["", "nosuch", "dddddddddddddddddddddddddddddddddddddddd"])],
        "replicate" => match generator.below(3) {
            0 => owned(&["NO", "ONE"]),
            1 => owned(&["NO"]),
            _ => vec![any_id(generator)],
        },
        "failover" => match generator.below(4) {
            0 => Vec::new(),
            1 => owned(&["FORCE"]),
            2 => owned(&["nosuch"]),
            _ => owned(&["takeover"]),
        },
        "set-config-epoch" => vec![generator.pick(&["0", "-1", "7", "x", "9223372036854775808"])],
        "meet" => match generator.below(5) {
            0 => owned(&["127.0.0.1", "x"]),
            1 => owned(&["127.0.0.1", "0"]),
            2 => owned(&["127.0.0.1", "7001", "x"]),
            3 => owned(&["127.0.0.1", "7001", "65536"]),
            _ => owned(&["nosuch host", "7001"]),
        },
        "setslot" => {
            let slot = if generator.chance(85) { slot(generator).into_bytes() } else { any_slot(generator) };
            let how =
                generator.pick(&["MIGRATING", "migrating", "IMPORTING", "IMPORTING", "nosuch", "STABLE"]);
            let with_id = !how.eq_ignore_ascii_case(b"stable") || generator.chance(5);
            let mut words = vec![slot, how];
            words.extend(with_id.then(|| any_id(generator)));
            if generator.chance(5) {
                words.extend(owned(&["TIMEOUT", "10"]));
            }
            words
        }
        _ => Vec::new(),
    };
    Some(words)
}

/// Whether a call of the command must not be changed, because another form could change the owner of a slot,
/// or have a reply in the order of a hash table.
pub(super) fn is_fixed(name: &str) -> bool {
    let harmless = ["keyslot", "countkeysinslot", "slot-stats", "nodes", "info", "slots", "shards", "myid"];
    name.strip_prefix("cluster|").is_some_and(|name| !harmless.contains(&name))
}

/// Whether a word is a key that drawn commands use: one of [`KEYS`], or one of the generators of single
/// types.
fn is_key(word: &[u8]) -> bool {
    let is_own = |word: &[u8]| matches!(word, [b'a'..=b'z', b'0'..=b'9']) && !b"muiv".contains(&word[0]);
    !word.is_empty() && (KEYS.contains(&word) || is_own(word))
}

/// Commands without keys, even if their words look like keys; CLUSTER KEYSLOT is treated as having one.
const KEYLESS: [&str; 7] = ["function|", "script|", "config|", "client|", "acl|", "command|", "cluster|"];

/// Gives the keys of a stream hash tags for `node`: mostly the same tag for all keys of a command or
/// transaction, and mostly a tag whose slot the node owns. First closes the slots that the previous stream
/// has opened. Sends ASKING before some commands.
pub(super) fn place(grammar: &Grammar, commands: Vec<Command>, seed: u64, node: usize) -> Vec<Command> {
    let mut generator = Generator { rng: Rng::new(seed ^ 0x51_07) };
    let close = |tag: &&str| {
        let slot = key_slot(tag.as_bytes()).to_string();
        let words = ["CLUSTER", "SETSLOT", &slot, "STABLE"];
        Command::of(words.iter().map(|word| word.as_bytes().to_vec()).collect())
    };
    let mut placed: Vec<Command> = TAGS.iter().flatten().map(close).collect();
    let mut tag = TAGS[node][0];
    let mut is_queueing = false;
    for mut command in commands {
        let name = grammar.full_name(&command.words);
        if !is_queueing || generator.chance(5) {
            let of = if generator.chance(OWN_CHANCE) { node } else { generator.below(NODES) };
            tag = TAGS[of][generator.below(3)];
        }
        // Transactions have no commands that publish, because after such a command the reference does not
        // check the keys of the EXEC (docs/compat.md).
        if is_queueing && name.starts_with("pub") {
            continue;
        }
        match name.as_str() {
            "watch" | "multi" => is_queueing = true,
            "exec" | "discard" | "unwatch" | "reset" | "quit" => is_queueing = false,
            _ => {}
        }
        let from = if scripts::is_call(&name) { 2 } else { 1 };
        // Calls of scripts have keys of one slot, because a reference node refuses all calls of scripts
        // permanently after a call with keys of two slots (docs/compat.md).
        let may_stray = !scripts::is_call(&name);
        for word in command.words.iter_mut().skip(from) {
            if KEYLESS.iter().any(|start| name.starts_with(start)) && name != "cluster|keyslot"
                || !is_key(word)
            {
                continue;
            }
            let stray = may_stray && generator.chance(STRAY_CHANCE);
            let tag = if stray { TAGS[generator.below(NODES)][generator.below(3)] } else { tag };
            word.splice(0..0, tag.bytes());
        }
        let plain = |word: &Vec<u8>| !word.is_empty() && word.iter().all(u8::is_ascii_alphanumeric);
        command.inline &= command.words.iter().all(plain);
        if command.client == 0 && !command.listens && !is_queueing && generator.chance(ASKING_CHANCE) {
            placed.push(Command::of(vec![b"ASKING".to_vec()]));
        }
        placed.push(command);
    }
    placed
}

/// The first words of a cluster's errors. Each must occur in a run of at least `REDIRECTED_COMMANDS`
/// commands.
pub(super) const REDIRECTS: [&str; 4] = ["-MOVED ", "-ASK ", "-TRYAGAIN ", "-CROSSSLOT "];

#[cfg(test)]
mod tests {
    use super::{SLOTS, TAGS};
    use sluice_base::key_slot;

    #[test]
    fn tags_are_those_of_slots_of_their_node() {
        for ([first, last], tags) in SLOTS.iter().zip(TAGS) {
            let slots = tags.map(|tag| key_slot(tag.as_bytes()));
            assert!(slots.iter().all(|slot| (first..=last).contains(&slot)), "{slots:?}");
        }
    }
}
