//! Parses one line of `nodes.conf` (N-10, N-11, N-15).

use crate::address::{BusTransport, NodeAddress, NodeLabels};
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::saved::{SavedNode, SavedRole};
use crate::slots::{HashSlot, SlotSet};
use crate::text;
use sluice_base::quote::{Dialect, next_word};
use std::str::FromStr;

/// Number of words on the line of a node before the node's slots.
const WORDS_MIN: usize = 8;
/// Difference between the bus port and the port of clients, for lines that name no bus port.
const BUS_PORT_OFFSET: u16 = 10_000;

/// The reason why a line cannot be read, in words that end a sentence of the log.
pub(super) type Damage = &'static str;

/// A line from which neither a node nor epochs can be read.
pub(super) struct Unreadable {
    pub(super) why: Damage,
}

/// The contents of a line.
pub(super) enum ConfLine {
    Node(Box<NodeLine>),
    Vars(VarsLine),
}

/// A `vars` line: the epochs of the cluster, the unknown names, and the reason that a value could not be
/// read.
#[derive(Default)]
pub(super) struct VarsLine {
    pub(super) current: Option<ClusterEpoch>,
    pub(super) last_vote: Option<ClusterEpoch>,
    pub(super) unknown: Vec<Vec<u8>>,
    pub(super) damage: Option<Damage>,
}

/// A node, with the fields of its line that could be read.
pub(super) struct NodeLine {
    pub(super) node: SavedNode,
    pub(super) is_me: bool,
    pub(super) migrating: Vec<(HashSlot, NodeId)>,
    pub(super) importing: Vec<(HashSlot, NodeId)>,
    pub(super) notes: Vec<LineNote>,
    /// The reason that not all fields could be read.
    pub(super) damage: Option<Damage>,
}

/// A part of a line that is ignored.
pub(super) enum LineNote {
    UnknownFlag(Vec<u8>),
    UnknownField(Vec<u8>),
    BadValue(&'static str),
    OpenSlotOfAnother,
}

/// Reads a line; `None` for a blank one.
pub(super) fn read(line: &[u8], transport: BusTransport) -> Result<Option<ConfLine>, Unreadable> {
    let (words, damage) = split(line);
    match words.first() {
        None => damage.map_or(Ok(None), |why| Err(Unreadable { why })),
        Some(word) if word.eq_ignore_ascii_case(b"vars") => {
            Ok(Some(ConfLine::Vars(vars(&words[1..], damage))))
        }
        Some(id) => {
            let Some(id) = NodeId::parse(id) else { return Err(Unreadable { why: "its id is invalid" }) };
            let Some(flags) = words.get(2) else { return Err(Unreadable { why: TOO_SHORT }) };
            let mut line = node(id, flags);
            line.damage = line.damage.or(damage);
            let rest = fill(&mut line, &words, transport);
            line.damage = line.damage.or(rest.err());
            Ok(Some(ConfLine::Node(Box::new(line))))
        }
    }
}

const TOO_SHORT: Damage = "it has fewer than eight fields";

/// The words of a line, up to the first that cannot be split off.
fn split(line: &[u8]) -> (Vec<Vec<u8>>, Option<Damage>) {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let mut word = Vec::new();
        match next_word(rest, Dialect::Config, &mut word) {
            Ok(Some(after)) => {
                words.push(word);
                rest = after;
            }
            // The splitter takes a zero byte for the end of the line. The byte is reported, because slots may
            // follow it.
            Ok(None) => return (words, rest.contains(&0).then_some("it has a zero byte")),
            Err(_) => return (words, Some("its quotes do not end")),
        }
    }
}

fn vars(words: &[Vec<u8>], damage: Option<Damage>) -> VarsLine {
    let mut vars = VarsLine { damage, ..VarsLine::default() };
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            vars.damage = vars.damage.or(Some("its last name has no value"));
            continue;
        };
        let epoch = match name.as_slice() {
            b"currentEpoch" => &mut vars.current,
            b"lastVoteEpoch" => &mut vars.last_vote,
            _ => {
                vars.unknown.push(name.clone());
                continue;
            }
        };
        *epoch = (*epoch).max(self::epoch(value));
        if self::epoch(value).is_none() {
            vars.damage = vars.damage.or(Some(NO_EPOCH));
        }
    }
    vars
}

const NO_EPOCH: Damage = "an epoch is not a number below 2^63";

/// A decimal number without sign.
fn number<T: FromStr>(word: &[u8]) -> Option<T> {
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(word).ok()?.parse().ok()).flatten()
}

fn epoch(word: &[u8]) -> Option<ClusterEpoch> {
    number(word).map(ClusterEpoch).filter(|epoch| *epoch < ClusterEpoch::END)
}

/// A node with only its id and flags.
fn node(id: NodeId, flags: &[u8]) -> NodeLine {
    let mut line = NodeLine {
        node: SavedNode {
            id,
            address: NodeAddress::none(),
            labels: NodeLabels::default(),
            shard: None,
            role: SavedRole::Unknown,
            is_failed: false,
            is_without_address: false,
            no_failover: false,
            config_epoch: ClusterEpoch(0),
            slots: SlotSet::EMPTY,
        },
        is_me: false,
        migrating: Vec::new(),
        importing: Vec::new(),
        notes: Vec::new(),
        damage: None,
    };
    let (mut is_primary, mut is_replica, mut is_handshake) = (false, false, false);
    for flag in flags.split(|byte| *byte == b',') {
        match flag.to_ascii_lowercase().as_slice() {
            b"myself" => line.is_me = true,
            b"master" | b"primary" => is_primary = true,
            b"slave" | b"replica" => is_replica = true,
            b"fail" => line.node.is_failed = true,
            b"handshake" => is_handshake = true,
            b"noaddr" => line.node.is_without_address = true,
            b"nofailover" => line.node.no_failover = true,
            // A suspicion (`fail?`) is not restored, because this process will itself suspect the node if the
            // node does not answer.
            b"fail?" | b"noflags" => {}
            _ => line.notes.push(LineNote::UnknownFlag(flag.to_vec())),
        }
    }
    line.node.role = match (is_primary, is_replica) {
        (true, false) => SavedRole::Primary,
        (false, true) => SavedRole::Replica(None),
        _ => SavedRole::Unknown,
    };
    if is_primary && is_replica {
        line.damage = Some("its flags say both primary and replica");
    } else if is_handshake && !line.is_me {
        line.damage = Some("its node was in handshake, so that its id is not its own");
    }
    line
}

/// Fills in the other fields, up to the first that cannot be read.
fn fill(line: &mut NodeLine, words: &[Vec<u8>], transport: BusTransport) -> Result<(), Damage> {
    place(line, words.get(1).ok_or(TOO_SHORT)?, transport)?;
    let primary = words.get(3).ok_or(TOO_SHORT)?;
    let primary = match primary.as_slice() {
        b"-" => None,
        id => Some(NodeId::parse(id).ok_or("the id of its primary is invalid")?),
    };
    match &mut line.node.role {
        SavedRole::Replica(of) => *of = primary,
        SavedRole::Primary if primary.is_some() => return Err("a primary has no primary"),
        SavedRole::Primary | SavedRole::Unknown => {}
    }
    let config_epoch = epoch(words.get(6).ok_or(TOO_SHORT)?).ok_or(NO_EPOCH)?;
    // The epoch on the line of a replica is that of its primary.
    if !matches!(line.node.role, SavedRole::Replica(Some(_))) {
        line.node.config_epoch = config_epoch;
    }
    let slots = words.get(WORDS_MIN..).ok_or(TOO_SHORT)?;
    for word in slots {
        match word.as_slice() {
            [b'[', inner @ .., b']'] => open_slot(line, inner)?,
            word => range(&mut line.node.slots, word)?,
        }
    }
    Ok(())
}

const BAD_SLOTS: Damage = "its slots are invalid";

fn slot(word: &[u8]) -> Result<HashSlot, Damage> {
    number(word).and_then(HashSlot::new).ok_or(BAD_SLOTS)
}

/// Adds a slot `n` or a range `n-n` to `slots`.
fn range(slots: &mut SlotSet, word: &[u8]) -> Result<(), Damage> {
    let mut ends = word.splitn(2, |byte| *byte == b'-');
    let first = slot(ends.next().unwrap_or_default())?;
    let last = ends.next().map_or(Ok(first), slot)?;
    if first > last {
        return Err(BAD_SLOTS);
    }
    (first.number()..=last.number()).filter_map(HashSlot::new).for_each(|slot| {
        slots.insert(slot);
    });
    Ok(())
}

/// Parses an open slot, without its brackets.
fn open_slot(line: &mut NodeLine, inner: &[u8]) -> Result<(), Damage> {
    let at = inner.iter().position(|byte| *byte == b'-').ok_or(BAD_SLOTS)?;
    let slot = slot(&inner[..at])?;
    let (open, id) = match &inner[at..] {
        [b'-', b'>', b'-', id @ ..] => (&mut line.migrating, id),
        [b'-', b'<', b'-', id @ ..] => (&mut line.importing, id),
        _ => return Err(BAD_SLOTS),
    };
    let id = NodeId::parse(id).ok_or("the id of an open slot's other node is invalid")?;
    if line.is_me {
        open.push((slot, id));
    } else if !line.notes.iter().any(|note| matches!(note, LineNote::OpenSlotOfAnother)) {
        line.notes.push(LineNote::OpenSlotOfAnother);
    }
    Ok(())
}

/// Ports that are named by fields of their own.
#[derive(Default)]
struct NamedPorts {
    tcp: Option<u16>,
    tls: Option<u16>,
}

/// Parses the second field: address, host name and named values.
fn place(line: &mut NodeLine, word: &[u8], transport: BusTransport) -> Result<(), Damage> {
    let mut fields = word.split(|byte| *byte == b',');
    let address = fields.next().unwrap_or_default();
    let colon = address.iter().rposition(|byte| *byte == b':').ok_or("its address has no port")?;
    let (ip, ports) = (&address[..colon], &address[colon + 1..]);
    let host = fields.next().unwrap_or_default();
    let mut named = NamedPorts::default();
    for field in fields.filter(|field| !field.is_empty()) {
        named_field(line, field, &mut named);
    }
    let notes = &mut line.notes;
    let mut ports = ports.splitn(2, |byte| *byte == b'@');
    let port: u16 = value(notes, "port", number(ports.next().unwrap_or_default()));
    let bus_port = match ports.next() {
        Some(word) => value(notes, "bus port", number(word)),
        None if port == 0 => 0,
        None => value(notes, "bus port", port.checked_add(BUS_PORT_OFFSET)),
    };
    let (tcp_port, tls_port) = match (named.tcp, named.tls, transport) {
        (Some(tcp), Some(tls), _) => (tcp, tls),
        (Some(tcp), None, _) => (tcp, port),
        (None, Some(tls), _) => (port, tls),
        // The line has only one port, because an old version wrote it.
        (None, None, BusTransport::Tcp) => (port, 0),
        (None, None, BusTransport::Tls) => (0, port),
    };
    let ip = value(notes, "ip", text::ip(ip));
    line.node.address = NodeAddress { ip: ip.into(), tcp_port, tls_port, bus_port };
    line.node.labels.host_name = value(notes, "hostname", text::host_name(host)).into();
    Ok(())
}

/// The value that was read. If there is none, returns the default and reports that the value in the file is
/// ignored.
fn value<T: Default>(notes: &mut Vec<LineNote>, name: &'static str, read: Option<T>) -> T {
    if read.is_none() {
        notes.push(LineNote::BadValue(name));
    }
    read.unwrap_or_default()
}

/// Parses an additional field `name=value`.
fn named_field(line: &mut NodeLine, field: &[u8], ports: &mut NamedPorts) {
    let at = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
    let (name, text) = (&field[..at], field.get(at + 1..).unwrap_or_default());
    let (labels, notes) = (&mut line.node.labels, &mut line.notes);
    let plain = |check: fn(&[u8]) -> Result<(), text::TextError>| check(text).ok().map(|()| text.to_vec());
    match name {
        b"shard-id" => line.node.shard = value(notes, "shard-id", ShardId::parse(text).map(Some)),
        b"nodename" => labels.human_name = value(notes, "nodename", plain(text::check_human_name)).into(),
        b"availability-zone" => {
            labels.availability_zone = value(notes, "availability-zone", plain(text::check_zone)).into();
        }
        b"tcp-port" => ports.tcp = Some(value(notes, "tcp-port", number(text))),
        b"tls-port" => ports.tls = Some(value(notes, "tls-port", number(text))),
        b"client-tcp-port" => labels.client_port = value(notes, "client-tcp-port", number(text)),
        b"client-tls-port" => labels.client_tls_port = value(notes, "client-tls-port", number(text)),
        b"client-ipv4" => labels.client_ipv4 = value(notes, "client-ipv4", text::client_ipv4(text).ok()),
        b"client-ipv6" => labels.client_ipv6 = value(notes, "client-ipv6", text::client_ipv6(text).ok()),
        _ => notes.push(LineNote::UnknownField(name.to_vec())),
    }
}
