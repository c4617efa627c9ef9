//! Sends the commands of the check, and parses their replies into facts.
//!
//! | command | for |
//! |---|---|
//! | AUTH, CLIENT SETNAME, CLIENT NO-TOUCH, SELECT | the check's own connection |
//! | PING, INFO, INFO commandstats | what the server is, which commands are used |
//! | MODULE LIST, CONFIG GET *, ACL LIST, FUNCTION LIST, CLIENT LIST | what else is used |
//! | CLUSTER NODES; of each node PING, INFO, MODULE LIST, CLUSTER NODES | the cluster, where it is one |
//! | SCAN, TYPE, OBJECT ENCODING, MEMORY USAGE, DUMP | which types of values there are; do they load |
//!
//! Invariants: (1) the commands change nothing except the state of the check's own connection; (2) keys are
//! read in slices of [`SLICE`] with a pause between them, at most about [`KEYS_MAX`] keys in all; (3) DUMP is
//! sent for at most [`DUMPS_MAX`] keys, each of at most [`DUMP_BYTES_MAX`] bytes; (4) secrets in replies are
//! dropped here and do not become facts.

mod cluster;

use super::arguments::MovePlan;
use super::facts::{
    Asked, ClientGroup, ClientRole, CommandCalls, InfoFacts, KeySample, MoveFacts, PayloadFact, SettingFact,
    SettingValue, UnknownFact, WhyUnknown, field,
};
use super::peer::{NoAnswer, OpenPeer, Peer, enter};
use super::replies::{array, list_of, modules, named, text, text_of, unknown};
use sluice_config::names_secret;
use sluice_resp::Value;
use std::collections::BTreeMap;

/// The sample has at most about this many keys; each database has an equal share of them.
const KEYS_MAX: u64 = 10_000;
/// The COUNT of each SCAN, so about the number of keys in a slice.
const SLICE: &[u8] = b"100";
/// At most this many slices of all databases together are read, so that the check also ends at a server whose
/// SCAN finds no keys.
const SLICES_MAX: usize = 400;
/// At most this many keys of a slice are used, even if the server sends more.
const SLICE_KEYS_MAX: usize = 1_000;
/// The longest key that is used, in bytes; longer keys are passed over.
const KEY_BYTES_MAX: usize = 4_096;
/// Keys are sampled from at most this many databases.
const DATABASES_MAX: usize = 64;
/// DUMP is sent for at most this many keys in all.
const DUMPS_MAX: usize = 24;
/// DUMP is sent for at most this many keys of one type and encoding.
const DUMPS_OF_KIND: usize = 2;
/// The largest key for which DUMP is sent, by its MEMORY USAGE in bytes.
const DUMP_BYTES_MAX: i64 = 64 * 1024;
/// At most this many pairs of type and encoding are counted; further pairs are dropped.
const KINDS_MAX: usize = 64;
/// CLIENT LIST is not sent to a server with more clients than this, because the command visits all clients
/// in one go.
const CLIENTS_MAX: u64 = 20_000;

/// Asks the server for all facts. `open` connects to the other nodes of a cluster.
///
/// # Errors
/// The peer refuses the user or does not answer, so that nothing can be judged.
pub fn ask(peer: &mut dyn Peer, open: &mut OpenPeer<'_>, plan: &MovePlan) -> Result<MoveFacts, NoAnswer> {
    enter(peer, plan)?;
    // The replies are not checked, because older servers do not know these commands, and the check works
    // without them.
    peer.ask(&["CLIENT", "SETNAME", OWN_NAME])?;
    peer.ask(&["CLIENT", "NO-TOUCH", "ON"])?;
    let info = text_of("INFO", peer.ask(&["INFO"])?).map(|text| InfoFacts::read(&text));
    let calls = text_of("INFO commandstats", peer.ask(&["INFO", "commandstats"])?);
    let modules = list_of("MODULE LIST", peer.ask(&["MODULE", "LIST"])?).map(modules);
    let settings = list_of("CONFIG GET", peer.ask(&["CONFIG", "GET", "*"])?).map(settings);
    let users = list_of("ACL LIST", peer.ask(&["ACL", "LIST"])?);
    let libraries = list_of("FUNCTION LIST", peer.ask(&["FUNCTION", "LIST"])?).map(libraries);
    let clients = match info.as_ref().map_or(0, |info| info.number("connected_clients")) {
        many if many > CLIENTS_MAX => Err(UnknownFact { command: "CLIENT LIST", why: WhyUnknown::TooMuch }),
        _ => text_of("CLIENT LIST", peer.ask(&["CLIENT", "LIST"])?).map(|text| clients(&text)),
    };
    let cluster = match info.as_ref().is_ok_and(InfoFacts::is_node) {
        true => Some(cluster::cluster(peer.ask(&["CLUSTER", "NODES"])?, open, plan)),
        false => None,
    };
    let keys = keys(peer, info.as_ref().ok())?;
    let users = users.map(|lines| lines.iter().filter_map(text).map(without_digests).collect());
    Ok(MoveFacts {
        info,
        calls: calls.map(|text| commands(&text)),
        settings,
        modules,
        users,
        libraries,
        clients,
        cluster,
        keys,
    })
}

fn libraries(list: Vec<Value>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let part = |library: &Value, name| named(array(library), name).and_then(text).map(<[u8]>::to_vec);
    let one = |library: &Value| Some((part(library, "library_name")?, part(library, "engine")?));
    list.iter().filter_map(one).collect()
}

/// Parses INFO commandstats: lines `cmdstat_NAME:calls=7,…,failed_calls=1`.
fn commands(text: &[u8]) -> Vec<CommandCalls> {
    let of_line = |(name, value): (&Vec<u8>, &Vec<u8>)| {
        let name = name.strip_prefix(b"cmdstat_")?.to_ascii_lowercase();
        let failed = field(value, b"failed_calls").unwrap_or(0);
        Some(CommandCalls { name, calls: field(value, b"calls")?, failed })
    };
    InfoFacts::read(text).0.iter().filter_map(of_line).collect()
}

/// Names and values of directives. The value of a secret is dropped; a directive that is unknown here counts
/// as a secret if its name looks like that of a secret.
fn settings(list: Vec<Value>) -> Vec<SettingFact> {
    let one = |pair: &[Value]| {
        let (name, value) = (text(&pair[0])?.to_ascii_lowercase(), text(&pair[1])?);
        let value = match (names_secret(&name), value) {
            (false, value) => SettingValue::Plain(value.to_vec()),
            (true, b"") => SettingValue::NoSecret,
            (true, _) => SettingValue::Secret,
        };
        Some(SettingFact { name, value })
    };
    list.chunks_exact(2).filter_map(one).collect()
}

/// A line of ACL LIST in which `#0…0` replaces each digest, and `>-` each other word that holds a password.
fn without_digests(line: &[u8]) -> Vec<u8> {
    let words = line.split(|byte| *byte == b' ').map(|word| match word.first() {
        Some(b'#') => NO_DIGEST,
        Some(b'>' | b'<' | b'!') => b">-",
        _ => word,
    });
    words.collect::<Vec<_>>().join(&b' ')
}

/// The digest that replaces every other digest; no known password has this one.
const NO_DIGEST: &[u8] = b"#0000000000000000000000000000000000000000000000000000000000000000";

/// The number of clients of each group, without the check's own connection.
fn clients(text: &[u8]) -> BTreeMap<ClientGroup, u64> {
    let mut kinds = BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let part = |name: &[u8]| -> &[u8] {
            let words = line.split(|byte| *byte == b' ');
            words.filter_map(|word| word.strip_prefix(name)).next().unwrap_or_default()
        };
        let (name, library, flags) = (part(b"name="), part(b"lib-name="), part(b"flags="));
        if name == OWN_NAME.as_bytes() {
            continue;
        }
        let role = match flags {
            _ if name.starts_with(b"sentinel-") => ClientRole::Sentinel,
            flags if flags.contains(&b'S') => ClientRole::Replica,
            flags if flags.contains(&b't') => ClientRole::Tracking,
            _ => ClientRole::Usual,
        };
        let library = match role {
            ClientRole::Sentinel => b"".as_slice(),
            _ if library.is_empty() => name,
            _ => library,
        };
        let protocol = if part(b"resp=") == b"3" { 3 } else { 2 };
        let kind =
            ClientGroup { library: library.to_vec(), version: part(b"lib-ver=").to_vec(), protocol, role };
        if kinds.len() < CLIENT_KINDS_MAX || kinds.contains_key(&kind) {
            *kinds.entry(kind).or_insert(0) += 1;
        }
    }
    kinds
}

/// The name that the check gives its own connection.
const OWN_NAME: &str = "sluice-check-move";
/// At most this many groups of clients are counted; further groups are dropped.
const CLIENT_KINDS_MAX: usize = 200;

/// Samples the keys of at most `DATABASES_MAX` databases, or of database 0 if INFO is unknown. If the server
/// refuses SELECT or SCAN, or its reply to SCAN is malformed, the whole sample is unknown.
fn keys(peer: &mut dyn Peer, info: Option<&InfoFacts>) -> Result<Asked<KeySample>, NoAnswer> {
    let databases: Vec<u64> = match info {
        Some(info) => info.databases().map(|(number, _)| number).take(DATABASES_MAX).collect(),
        None => vec![0],
    };
    let (mut sample, mut slices) = (KeySample::default(), 0);
    let share = KEYS_MAX / databases.len().max(1) as u64;
    for number in databases {
        if let refused @ Value::Error(_) = peer.ask(&["SELECT", &number.to_string()])? {
            return Ok(Err(unknown("SELECT", &refused)));
        }
        let until = sample.looked_at + share;
        let mut cursor = b"0".to_vec();
        while sample.looked_at < until && slices < SLICES_MAX {
            slices += 1;
            let reply = peer.ask_all(&[vec![b"SCAN", &cursor, b"COUNT", SLICE]])?.pop();
            let parts = match list_of("SCAN", reply.unwrap_or(Value::Null)) {
                Ok(parts) => parts,
                Err(refused) => return Ok(Err(refused)),
            };
            let [next, found] = parts.as_slice() else {
                return Ok(Err(UnknownFact { command: "SCAN", why: WhyUnknown::Strange }));
            };
            cursor = text(next).unwrap_or(b"0").to_vec();
            let found = array(found).iter().filter_map(text).filter(|key| key.len() <= KEY_BYTES_MAX);
            slice(peer, &found.take(SLICE_KEYS_MAX).collect::<Vec<_>>(), &mut sample)?;
            if cursor == b"0" || cursor.len() > 20 {
                break;
            }
            peer.pause();
        }
    }
    Ok(Ok(sample))
}

/// Reads type and encoding of the keys of a slice, and the payloads of some.
fn slice(peer: &mut dyn Peer, keys: &[&[u8]], sample: &mut KeySample) -> Result<(), NoAnswer> {
    if keys.is_empty() {
        return Ok(());
    }
    let pairs = keys.iter().flat_map(|key| [vec![b"TYPE", *key], vec![b"OBJECT", b"ENCODING", *key]]);
    let replies = peer.ask_all(&pairs.collect::<Vec<_>>())?;
    for (key, pair) in keys.iter().zip(replies.chunks_exact(2)) {
        sample.looked_at += 1;
        let (Some(kind), encoding) = (text(&pair[0]), text(&pair[1]).unwrap_or_default()) else {
            sample.refused += 1;
            continue;
        };
        // The key has been deleted or has expired since SCAN.
        if kind == b"none" {
            continue;
        }
        let both = (kind.to_vec(), encoding.to_vec());
        if sample.kinds.len() < KINDS_MAX || sample.kinds.contains_key(&both) {
            *sample.kinds.entry(both).or_insert(0) += 1;
        }
        let is_same = |fact: &&PayloadFact| (&*fact.kind, &*fact.encoding) == (kind, encoding);
        let dumped = sample.payloads.iter().filter(is_same).count();
        if dumped < DUMPS_OF_KIND && sample.payloads.len() < DUMPS_MAX {
            let payload = payload(peer, key)?;
            let (kind, encoding) = (kind.to_vec(), encoding.to_vec());
            sample.payloads.extend(payload.map(|payload| PayloadFact { kind, encoding, payload }));
        }
    }
    Ok(())
}

/// The payload of a small key, or the reason that it is not known; `None` for a large key and for one that no
/// longer exists.
fn payload(peer: &mut dyn Peer, key: &[u8]) -> Result<Option<Asked<Vec<u8>>>, NoAnswer> {
    let usage = peer.ask_all(&[vec![b"MEMORY", b"USAGE", key, b"SAMPLES", b"5"]])?.pop();
    match usage {
        Some(Value::Int(bytes)) if bytes <= DUMP_BYTES_MAX => {}
        Some(Value::Error(text)) => return Ok(Some(Err(unknown("MEMORY USAGE", &Value::Error(text))))),
        _ => return Ok(None),
    }
    Ok(match peer.ask_all(&[vec![b"DUMP", key]])?.pop() {
        Some(Value::Bulk(payload)) => Some(Ok(payload)),
        Some(refused @ Value::Error(_)) => Some(Err(unknown("DUMP", &refused))),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
