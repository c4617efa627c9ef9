//! Asks the nodes of a cluster: the first node for its view of the cluster, every other node for its
//! version, modules and slots.
//!
//! Invariants: (1) at most [`NODES_MAX`] nodes are connected to, at addresses that the first node names,
//! with the password of the plan; (2) once [`SILENT_MAX`] nodes could not be asked, no further node is
//! tried.

use crate::arguments::MovePlan;
use crate::facts::{Asked, ClusterFacts, ClusterNodeFact, InfoFacts, NodeCondition, NodeView, OpenSlotFact};
use crate::peer::{NoAnswer, OpenPeer, enter};
use crate::replies::{list_of, modules, text_of};
use sluice_base::num::parse_u64;
use sluice_resp::Value;

/// At most this many nodes are asked in addition to the first one.
const NODES_MAX: usize = 200;
/// Once this many nodes could not be asked, no further node is tried, because each failed attempt can take
/// the whole timeout of a connection.
const SILENT_MAX: usize = 8;
const SLOTS: u16 = 16_384;

/// Parses the reply of CLUSTER NODES, and asks every other node that has not failed.
pub(super) fn cluster(reply: Value, open: &mut OpenPeer<'_>, plan: &MovePlan) -> Asked<ClusterFacts> {
    let text = text_of("CLUSTER NODES", reply)?;
    let mut facts = read(&text);
    let (mut asked, mut silent) = (0, 0);
    for node in
        facts.nodes.iter_mut().filter(|node| !node.is_asked_one && node.health != NodeCondition::Failed)
    {
        asked += 1;
        if asked > NODES_MAX || silent >= SILENT_MAX {
            continue;
        }
        let view = look_at(node, open, plan);
        silent += usize::from(view.is_err());
        node.view = Some(view);
    }
    Ok(facts)
}

/// Version, modules, and migrating or importing slots of another node, or the reason why they are unknown.
fn look_at(node: &ClusterNodeFact, open: &mut OpenPeer<'_>, plan: &MovePlan) -> Result<NodeView, String> {
    let mut peer = open(&node.host, node.port)?;
    let told = |why: NoAnswer| why.text(&node.name());
    enter(peer.as_mut(), plan).map_err(told)?;
    let info = text_of("INFO", peer.ask(&["INFO"]).map_err(told)?).map(|text| InfoFacts::read(&text));
    let modules = list_of("MODULE LIST", peer.ask(&["MODULE", "LIST"]).map_err(told)?).map(modules);
    let nodes = text_of("CLUSTER NODES", peer.ask(&["CLUSTER", "NODES"]).map_err(told)?);
    let open = nodes.map(|text| own_open_slots(&text));
    Ok(NodeView { info, modules, open })
}

/// The migrating and importing slots in the line of the node itself.
fn own_open_slots(text: &[u8]) -> Vec<OpenSlotFact> {
    let own = read(text).nodes.into_iter().find(|node| node.is_asked_one);
    own.map_or_else(Vec::new, |node| node.open)
}

/// Parses the reply of CLUSTER NODES. The first [`NODES_MAX`] + 1 nodes are kept, and also the asked node if
/// its line comes later.
pub(super) fn read(text: &[u8]) -> ClusterFacts {
    let (mut owned, mut nodes, mut omitted) = (vec![false; usize::from(SLOTS)], Vec::new(), 0);
    for line in text.split(|byte| *byte == b'\n') {
        // The slots of every node count, also of those that are not kept.
        let Some(node) = node_of(line, &mut owned) else { continue };
        if nodes.len() <= NODES_MAX || node.is_asked_one {
            nodes.push(node);
        } else {
            omitted += 1;
        }
    }
    ClusterFacts { nodes, omitted, uncovered: gaps_of(&owned) }
}

/// Parses a line `ID HOST:PORT@BUS[,NAME…] FLAGS PRIMARY PING PONG EPOCH LINK SLOT…`.
fn node_of(line: &[u8], owned: &mut [bool]) -> Option<ClusterNodeFact> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [_id, address, flags, _primary, _ping, _pong, _epoch, _link, slots @ ..] = words.as_slice() else {
        return None;
    };
    let end = address.iter().position(|byte| matches!(byte, b'@' | b',')).unwrap_or(address.len());
    let address = &address[..end];
    let colon = address.iter().rposition(|byte| *byte == b':')?;
    let port = parse_u64(&address[colon + 1..]).and_then(|port| u16::try_from(port).ok())?;
    let flags: Vec<&[u8]> = flags.split(|byte| *byte == b',').collect();
    let has = |name: &str| flags.contains(&name.as_bytes());
    let health = match ["fail", "noaddr", "handshake"].into_iter().any(has) {
        true => NodeCondition::Failed,
        false if has("fail?") => NodeCondition::Suspected,
        false => NodeCondition::Well,
    };
    let mut open = Vec::new();
    for word in slots {
        match open_slot(word) {
            Some(slot) => open.push(slot),
            None => own(word, owned),
        }
    }
    Some(ClusterNodeFact {
        host: String::from_utf8_lossy(&address[..colon]).into_owned(),
        port,
        is_asked_one: has("myself"),
        is_primary: has("master"),
        has_slots: slots.iter().any(|word| !word.starts_with(b"[") && !word.is_empty()),
        health,
        open,
        view: None,
    })
}

/// Parses `[SLOT->-ID]` or `[SLOT-<-ID]`.
fn open_slot(word: &[u8]) -> Option<OpenSlotFact> {
    let inner = word.strip_prefix(b"[")?;
    let dash = inner.iter().position(|byte| *byte == b'-')?;
    let slot = parse_u64(&inner[..dash]).and_then(|slot| u16::try_from(slot).ok())?;
    Some(OpenSlotFact { slot, leaves: inner[dash..].starts_with(b"->-") })
}

/// Marks the slots of a range, `FIRST-LAST` or `SLOT`, as owned.
fn own(word: &[u8], owned: &mut [bool]) {
    let mut ends = word.split(|byte| *byte == b'-');
    let mut next = || ends.next().and_then(parse_u64).and_then(|slot| usize::try_from(slot).ok());
    let Some(first) = next() else { return };
    let last = next().unwrap_or(first).min(owned.len() - 1);
    for slot in owned.iter_mut().take(last + 1).skip(first) {
        *slot = true;
    }
}

/// Ranges of slots without an owner, first and last slot of each.
fn gaps_of(owned: &[bool]) -> Vec<(u16, u16)> {
    let mut gaps: Vec<(u16, u16)> = Vec::new();
    for (slot, _) in (0..SLOTS).zip(owned).filter(|(_, is_owned)| !**is_owned) {
        match gaps.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => gaps.push((slot, slot)),
        }
    }
    gaps
}
