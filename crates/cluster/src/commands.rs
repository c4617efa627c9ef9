//! Commands that change this node's state, or its view of other nodes.
//!
//! Invariants: (1) an answer that reports a change leaves when the file with the change is durable (E-53),
//! so the answer waits for the generation (the version of `nodes.conf`) that the change belongs to; only
//! MEET, FAILOVER, DEBUG CLUSTERLINK KILL and [`execute_at_once`] answer sooner; (2) errors leave at once.

use crate::address::Seen;
use crate::candidate;
use crate::durable::Withheld;
use crate::epochs;
use crate::failure;
use crate::id::{ClusterEpoch, NodeId, ShardId};
use crate::input::{ClusterCommand, HasKeys, LinkDirection, ResetKind, epoch_of};
use crate::machine::{ClusterMachine, VoteRight, log};
use crate::meet;
use crate::node::Initiator;
use crate::output::{ClusterAnswer, ClusterOutput, RoleChange, Synchronisation, Ticket};
use crate::roles::{self, OpenSlots};
use crate::setslot;
use crate::slots::{HashSlot, SlotSet};
use std::net::IpAddr;

/// Executes a command. The answer is an output, which leaves at once or when the file is durable.
pub(crate) fn execute(m: &mut ClusterMachine, ticket: Ticket, client: &str, command: &ClusterCommand<'_>) {
    let reads = matches!(
        command,
        ClusterCommand::Meet { .. }
            | ClusterCommand::Failover { .. }
            | ClusterCommand::CountFailureReports { .. }
            | ClusterCommand::KillLinks { .. }
    );
    match run(m, client, command) {
        Ok(answer) if reads => m.out.push_back(ClusterOutput::Reply { to: ticket, answer }),
        Ok(answer) => m.durable.hold(Withheld::Reply { to: ticket, answer }),
        Err(text) => m.out.push_back(ClusterOutput::Reply { to: ticket, answer: ClusterAnswer::Error(text) }),
    }
}

/// Executes a command whose client cannot wait. The answer therefore does not wait for the file.
pub(crate) fn execute_at_once(
    m: &mut ClusterMachine,
    client: &str,
    command: &ClusterCommand<'_>,
) -> ClusterAnswer {
    run(m, client, command).unwrap_or_else(ClusterAnswer::Error)
}

fn run(m: &mut ClusterMachine, client: &str, command: &ClusterCommand<'_>) -> Result<ClusterAnswer, String> {
    match command {
        ClusterCommand::Meet { ip, port, bus_port } => meet(m, client, ip, *port, *bus_port),
        ClusterCommand::Failover { kind } => candidate::command(m, client, *kind).map(|()| ClusterAnswer::Ok),
        ClusterCommand::Forget { node } => forget(m, node),
        ClusterCommand::Replicate { node, data } => replicate(m, node, *data),
        ClusterCommand::ReplicateNoOne => replicate_no_one(m, client),
        ClusterCommand::Reset { kind, data } => reset(m, client, *kind, *data),
        ClusterCommand::AddSlots { slots } => add_slots(m, slots),
        ClusterCommand::DelSlots { slots } => del_slots(m, slots),
        ClusterCommand::FlushSlots { data } => flush_slots(m, *data),
        ClusterCommand::BumpEpoch => Ok(bump(m)),
        ClusterCommand::SetConfigEpoch { epoch } => set_config_epoch(m, *epoch),
        ClusterCommand::SaveConfig => {
            m.save();
            Ok(ClusterAnswer::Ok)
        }
        ClusterCommand::CountFailureReports { node } => {
            let ix = m.known(node)?;
            Ok(ClusterAnswer::Integer(i64::from(failure::count_reports(m, ix))))
        }
        ClusterCommand::SetSlot(command) => setslot::execute(m, command),
        ClusterCommand::KillLinks { direction, node } => kill_links(m, *direction, node),
    }
}

/// CLUSTER MEET (G-12, X-11).
fn meet(
    m: &mut ClusterMachine,
    client: &str,
    ip: &str,
    port: i64,
    bus: Option<i64>,
) -> Result<ClusterAnswer, String> {
    let is_port = |port: i64| u16::try_from(port).ok().filter(|port| *port != 0);
    let base = is_port(port).ok_or_else(|| format!("ERR Invalid node address specified: {ip}:{port}"))?;
    let bus = match bus {
        Some(bus) => is_port(bus),
        None => is_port(i64::from(base) + 10_000),
    };
    let invalid = || format!("ERR Invalid node address specified: {ip}:{port}");
    let bus = bus.ok_or_else(invalid)?;
    let parsed: IpAddr = ip.parse().map_err(|_| invalid())?;
    log!(m, Notice, "Cluster meet {ip}:{port} (user request from '{client}').");
    let ip = parsed.to_string();
    let seen = Seen::new(&ip, base, 0, bus, m.settings.transport);
    meet::begin(m, &seen, Initiator::Met);
    Ok(ClusterAnswer::Ok)
}

/// CLUSTER FORGET (G-21).
fn forget(m: &mut ClusterMachine, text: &[u8]) -> Result<ClusterAnswer, String> {
    let id = NodeId::parse(text);
    let Some(ix) = id.and_then(|id| m.table.find(&id)) else {
        let is_forgotten = id.is_some_and(|id| m.blacklist.contains(&id, m.time.now));
        return if is_forgotten { Ok(ClusterAnswer::Ok) } else { m.known(text).map(|_| ClusterAnswer::Ok) };
    };
    if ix == m.table.my_ix() {
        return Err("ERR I tried hard but I can't forget myself...".to_owned());
    }
    if m.is_my_primary(ix) {
        return Err("ERR Can't forget my master!".to_owned());
    }
    m.blacklist.add(m.table.node(ix).id, m.settings.blacklist_ttl_s, m.time.now);
    m.delete(ix);
    Ok(ClusterAnswer::Ok)
}

/// CLUSTER REPLICATE (R2).
fn replicate(m: &mut ClusterMachine, text: &[u8], data: HasKeys) -> Result<ClusterAnswer, String> {
    let ix = m.known(text)?;
    if ix == m.table.my_ix() {
        return Err("ERR Can't replicate myself".to_owned());
    }
    if m.table.node(ix).is_replica() {
        return Err("ERR I can only replicate a master, not a replica.".to_owned());
    }
    let me = m.table.me();
    if me.is_primary() && (me.slot_count > 0 || data == HasKeys::Yes) {
        let text = "ERR To set a master the node must be empty and without assigned slots.";
        return Err(text.to_owned());
    }
    m.grow_sure();
    if m.is_my_primary(ix) {
        return Ok(ClusterAnswer::Ok);
    }
    roles::follow(m, ix, OpenSlots::Close, Synchronisation::Full);
    m.announce();
    Ok(ClusterAnswer::Ok)
}

/// CLUSTER REPLICATE NO ONE (R3).
fn replicate_no_one(m: &mut ClusterMachine, client: &str) -> Result<ClusterAnswer, String> {
    if m.table.me().is_primary() {
        return Ok(ClusterAnswer::Ok);
    }
    m.grow_sure();
    log!(m, Notice, "Stop replication and turning myself into empty primary (request from '{client}').");
    roles::stand_alone(m);
    m.out.push_back(ClusterOutput::Role(RoleChange::DropData));
    m.table.migrating.clear();
    m.table.importing.clear();
    new_shard(m);
    m.announce();
    Ok(ClusterAnswer::Ok)
}

fn new_shard(m: &mut ClusterMachine) {
    let shard = ShardId::random(&mut m.rng);
    m.table.me_mut().shard = Some(shard);
    log!(m, Notice, "Moving myself to a new shard {shard}.");
    m.save();
}

/// CLUSTER RESET (M20 to M23).
fn reset(
    m: &mut ClusterMachine,
    client: &str,
    kind: ResetKind,
    data: HasKeys,
) -> Result<ClusterAnswer, String> {
    if m.table.me().is_primary() && data == HasKeys::Yes {
        return Err("ERR CLUSTER RESET can't be called with master nodes containing keys".to_owned());
    }
    log!(m, Notice, "Cluster reset (user request from '{client}').");
    if m.table.me().is_replica() {
        roles::stand_alone(m);
        m.out.push_back(ClusterOutput::Role(RoleChange::DropData));
    }
    m.end_pause();
    m.table.migrating.clear();
    m.table.importing.clear();
    let slots = m.table.me().slots.clone();
    for slot in slots.iter() {
        m.unbind(slot);
    }
    m.channels_gone(slots);
    for position in 0..m.table.positions() {
        if let Some(ix) = m.table.at(position).filter(|ix| *ix != m.table.my_ix()) {
            m.delete(ix);
        }
    }
    // Incoming links that were never bound to a node are closed, too.
    while let Some(key) = m.links.find_unbound(|_| true) {
        m.close(key);
    }
    m.blacklist.clear();
    m.durable.forget_votes();
    m.keys.strays = SlotSet::EMPTY;
    new_shard(m);
    if kind == ResetKind::Hard {
        reset_identity(m);
    }
    m.grow_sure();
    m.reconsider();
    m.save();
    Ok(ClusterAnswer::Ok)
}

fn reset_identity(m: &mut ClusterMachine) {
    (m.epochs.current, m.epochs.last_vote) = (ClusterEpoch(0), ClusterEpoch(0));
    m.rights.votes = VoteRight::Free;
    let id = NodeId::random(&mut m.rng);
    let my_ix = m.table.my_ix();
    m.table.rename(my_ix, id);
    m.table.me_mut().config_epoch = ClusterEpoch(0);
    let view = m.view();
    m.durable.renamed(view);
    log!(m, Notice, "configEpoch set to 0 via CLUSTER RESET HARD");
    log!(m, Notice, "Node hard reset, now I'm {id}");
}

/// The slots of ADDSLOTS, if each is named once and has no owner; otherwise the error of the first
/// faulty one (K-10).
pub(crate) fn slots_to_add(m: &ClusterMachine, slots: &[HashSlot]) -> Result<SlotSet, String> {
    once(slots, |slot| m.table.owner(slot).is_none(), "already busy")
}

/// The slots of DELSLOTS, if each is named once and has an owner. A slot that was granted to the target of a
/// move is refused, because the target may own the slot by now. If an ADDSLOTS followed, clients that wait to
/// write would write here.
pub(crate) fn slots_to_delete(m: &ClusterMachine, slots: &[HashSlot]) -> Result<SlotSet, String> {
    let slots = once(slots, |slot| m.table.owner(slot).is_some(), "already unassigned")?;
    match m.keys.moves.granted().any(|slot| slots.contains(slot)) {
        true => Err(EXPORTED.to_owned()),
        false => Ok(slots),
    }
}

/// The error of commands about slots that the target of a move may own already; SETSLOT answers with the
/// same text.
const EXPORTED: &str = "ERR Slot export in progress.";

fn once(slots: &[HashSlot], is_fit: impl Fn(HashSlot) -> bool, otherwise: &str) -> Result<SlotSet, String> {
    let mut set = SlotSet::EMPTY;
    for &slot in slots {
        if !is_fit(slot) {
            return Err(format!("ERR Slot {} is {otherwise}", slot.number()));
        }
        if !set.insert(slot) {
            return Err(format!("ERR Slot {} specified multiple times", slot.number()));
        }
    }
    Ok(set)
}

/// CLUSTER ADDSLOTS and ADDSLOTSRANGE (K-10).
fn add_slots(m: &mut ClusterMachine, slots: &[HashSlot]) -> Result<ClusterAnswer, String> {
    let slots = slots_to_add(m, slots)?;
    m.grow_sure();
    epochs::leave_zero(m);
    if !m.table.me().is_voter() {
        epochs::takes_seat(m);
    }
    let my_ix = m.table.my_ix();
    for slot in slots.iter() {
        m.table.importing.remove(&slot);
        m.table.bind(slot, my_ix);
        m.keys.strays.remove(slot);
    }
    m.reconsider();
    m.save();
    Ok(ClusterAnswer::Ok)
}

/// CLUSTER DELSLOTS and DELSLOTSRANGE (K-10).
fn del_slots(m: &mut ClusterMachine, slots: &[HashSlot]) -> Result<ClusterAnswer, String> {
    let slots = slots_to_delete(m, slots)?;
    for slot in slots.iter() {
        m.unbind(slot);
    }
    m.channels_gone(slots);
    m.save();
    Ok(ClusterAnswer::Ok)
}

/// CLUSTER FLUSHSLOTS; refused while this node has keys, or slots that the target of a move may own already.
fn flush_slots(m: &mut ClusterMachine, data: HasKeys) -> Result<ClusterAnswer, String> {
    if data == HasKeys::Yes {
        return Err("ERR DB must be empty to perform CLUSTER FLUSHSLOTS.".to_owned());
    }
    if m.keys.moves.granted().next().is_some() {
        return Err(EXPORTED.to_owned());
    }
    let slots = m.table.me().slots.clone();
    for slot in slots.iter() {
        m.unbind(slot);
    }
    m.channels_gone(slots);
    m.save();
    Ok(ClusterAnswer::Ok)
}

/// CLUSTER BUMPEPOCH (E-4).
fn bump(m: &mut ClusterMachine) -> ClusterAnswer {
    match epochs::bump(m) {
        Some(epoch) => ClusterAnswer::Status(format!("BUMPED {epoch}")),
        None => ClusterAnswer::Status(format!("STILL {}", m.table.me().config_epoch)),
    }
}

/// CLUSTER SET-CONFIG-EPOCH (E-5).
fn set_config_epoch(m: &mut ClusterMachine, number: i64) -> Result<ClusterAnswer, String> {
    let Some(epoch) = epoch_of(number) else {
        return Err(format!("ERR Invalid config epoch specified: {number}"));
    };
    if m.table.len() > 1 {
        let text = "ERR The user can assign a config epoch only when the node does not know any other node.";
        return Err(text.to_owned());
    }
    if m.table.me().config_epoch != ClusterEpoch(0) {
        return Err("ERR Node config epoch is already non-zero".to_owned());
    }
    m.table.me_mut().config_epoch = epoch;
    m.epochs.current = m.epochs.current.max(epoch);
    m.todo.map = true;
    m.save();
    Ok(ClusterAnswer::Ok)
}

/// DEBUG CLUSTERLINK KILL (V-10).
fn kill_links(
    m: &mut ClusterMachine,
    direction: LinkDirection,
    node: &[u8],
) -> Result<ClusterAnswer, String> {
    let ix = m.known(node)?;
    if ix == m.table.my_ix() {
        return Err("ERR Cannot free cluster link(s) to myself".to_owned());
    }
    if direction != LinkDirection::From {
        m.drop_link_out(ix);
    }
    if direction != LinkDirection::To
        && let Some(key) = m.table.node(ix).place.link_in
    {
        m.close(key);
    }
    Ok(ClusterAnswer::Ok)
}
