//! Work that only depends on time: dials, pings, suspicion, timeouts (G-2 to G-9, G-31, F-1).

use crate::addresses;
use crate::candidate;
use crate::failure;
use crate::link::{BusLink, LinkKind, SendQueue};
use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, Sureness, log};
use crate::manual;
use crate::meet;
use crate::migration::import;
use crate::node::{LinkOut, Ms, NodeIx, NodeStanding};
use crate::orphans;
use crate::output::{ClusterOutput, ClusterState};
use crate::send;
use crate::settings::Switch;
use crate::twins;
use crate::voter;
use crate::wire::ReceiveBuffer;
use sluice_base::mistake::{Mistake, is_made};

/// Number of nodes that are drawn for a random ping, of which one is pinged (G-7).
const RANDOM_DRAWS: usize = 5;
/// Number of cron runs from one random ping to the next.
const RANDOM_PING_ROUNDS: u64 = 10;
/// Milliseconds between two warnings of a node that could not read its own line of the file (N-26).
const UNSURE_WARNING_MS: u64 = 60_000;

/// Time between two crons: between two [`ClusterInput::Tick`](crate::ClusterInput)s.
pub const CRON_MS: Ms = 100;

/// Does the work of one [`ClusterInput::Tick`](crate::ClusterInput).
pub(crate) fn tick(m: &mut ClusterMachine) {
    m.cron.rounds += 1;
    m.blacklist.expire(m.time.now);
    let mut budget = dial_budget(m);
    close_unknown_links(m);
    for position in 0..m.table.positions() {
        let Some(ix) = m.table.at(position) else { continue };
        if ix != m.table.my_ix() && m.table.is_due(ix, m.time.now) {
            links_of(m, ix, &mut budget);
        }
    }
    if m.cron.rounds.is_multiple_of(RANDOM_PING_ROUNDS) && m.settings.debug.random_ping == Switch::Runs {
        ping_at_random(m);
    }
    let mut suspicion_at = None;
    for position in 0..m.table.positions() {
        let Some(ix) = m.table.at(position) else { continue };
        if ix != m.table.my_ix() {
            if m.table.is_due(ix, m.time.now) {
                contact(m, ix);
                m.table.set_due(ix, quiet_until(m, ix), failure::suspicion_at(m, ix));
            }
            suspicion_at = earlier(suspicion_at, m.table.suspicion_at(ix));
        }
    }
    m.cron.suspicion_at = suspicion_at;
    manual::tick(m);
    candidate::advance(m);
    orphans::tick(m);
    twins::tick(m);
    import::tick(m);
    voter::regain(m);
    if m.table.suspects() > 0 || m.cluster.state == ClusterState::Fail {
        m.todo.evaluate = true;
    }
    warn_if_unsure(m);
}

/// The time before which no work is due for a node as long as its state does not change; 0 if work may be due
/// at any tick. By default a healthy node needs one action in half a timeout: a PING, or the reaction to a
/// missing answer. In a cluster of 1,000 nodes nearly all nodes are healthy, so a tick skips most of them.
pub(crate) fn quiet_until(m: &ClusterMachine, ix: NodeIx) -> Ms {
    let node = m.table.node(ix);
    let place = &node.place;
    let is_well = node.standing == NodeStanding::Known
        && node.is_up()
        && matches!(place.link_out, LinkOut::Open(_))
        && place.link_in.is_some()
        && place.candidates.failing_since.is_none()
        && m.settings.link_sendbuf_limit_bytes == 0
        && !is_made(Mistake::SilenceByWallClock);
    let Some(pong) = node.clocks.pong_received.filter(|_| is_well) else { return 0 };
    match node.clocks.ping_sent {
        None => pong.saturating_add(m.settings.ping_after_ms()).saturating_sub(CRON_MS / 2),
        Some(sent) => sent.saturating_add(m.settings.node_timeout_ms / 2),
    }
}

fn earlier(one: Option<Ms>, other: Option<Ms>) -> Option<Ms> {
    one.into_iter().chain(other).min()
}

/// Called at the moment of [`crate::Cluster::deadline`], independently of the cron (F-26). Nodes that have
/// been silent for the node timeout T are suspected, and the cluster's state is evaluated.
pub(crate) fn expired(m: &mut ClusterMachine) {
    let mut suspicion_at = None;
    for position in 0..m.table.positions() {
        let Some(ix) = m.table.at(position).filter(|ix| *ix != m.table.my_ix()) else { continue };
        if !m.table.node(ix).is_handshake() && !m.table.node(ix).is_without_address() {
            failure::suspect(m, ix);
            suspicion_at = earlier(suspicion_at, failure::suspicion_at(m, ix));
        }
    }
    m.cron.suspicion_at = suspicion_at;
    m.todo.evaluate = true;
}

/// Maximum number of dials in one tick to nodes that were dialled recently and have not dialled back (G-2).
fn dial_budget(m: &ClusterMachine) -> i64 {
    let half = m.settings.node_timeout_ms / 2;
    let known = m.table.len() as u64;
    (known * 100).checked_div(half).map_or(0, |share| i64::try_from(share * 10).unwrap_or(i64::MAX))
}

/// Drops links whose queue is too long, ends a handshake that has timed out, looks up the host name of a
/// node that does not answer, and dials a node without an outgoing link.
fn links_of(m: &mut ClusterMachine, ix: NodeIx, budget: &mut i64) {
    limit_queues(m, ix);
    let reconnects = m.settings.debug.reconnection == Switch::Runs;
    if reconnects && meet::expire(m, ix) {
        return;
    }
    addresses::look_for(m, ix);
    if reconnects && m.table.node(ix).place.link_out == LinkOut::None {
        dial(m, ix, budget);
    }
}

fn dial(m: &mut ClusterMachine, ix: NodeIx, budget: &mut i64) {
    let now = m.time.now;
    let node = m.table.node(ix);
    if node.place.address.ip.is_empty() && node.place.candidates.addresses.is_empty() {
        return;
    }
    let pause = m.settings.node_timeout_ms / 20;
    let was_just_dialled = node.clocks.dialled.is_some_and(|at| now - at < pause);
    if node.place.link_in.is_none() && was_just_dialled {
        if *budget <= 0 {
            return;
        }
        *budget -= 1;
    }
    let Some((target, ip, port)) = addresses::next_target(m, ix) else { return };
    let link = m.links.insert(BusLink {
        kind: LinkKind::Out { node: ix, target },
        since: now,
        since_wall_ms: m.time.wall_ms,
        is_open: false,
        reads_extensions: false,
        pong_at: None,
        is_bound_there: false,
        queue: SendQueue::default(),
        inbox: ReceiveBuffer::default(),
        kept: 0,
    });
    let node = m.table.node_mut(ix);
    node.place.link_out = LinkOut::Dialling(link);
    node.clocks.dialled = Some(now);
    m.out.push_back(ClusterOutput::Dial { link, ip, port });
}

/// Drops a link whose queue exceeds the limit, with all queued messages (G-31).
fn limit_queues(m: &mut ClusterMachine, ix: NodeIx) {
    let limit = m.settings.link_sendbuf_limit_bytes;
    if limit == 0 {
        return;
    }
    let place = &m.table.node(ix).place;
    for (key, direction) in [(place.link_out.key(), "to"), (place.link_in, "from")] {
        let memory = key.and_then(|key| m.links.get(key)).map_or(0, |link| link.queue.memory());
        if let Some(key) = key.filter(|_| memory as u64 > limit) {
            log!(
                m,
                Warning,
                "Freeing cluster link({direction} node {}, used memory: {memory}) due to exceeding send buffer memory \
                 limit.",
                m.name(ix)
            );
            m.statistics.buffer_limit_exceeded += 1;
            m.close(key);
        }
    }
}

/// Closes incoming links that were not bound to a node in time (G-5).
fn close_unknown_links(m: &mut ClusterMachine) {
    let now = m.time.now;
    let limit = m.settings.handshake_ms();
    while let Some(key) = m.links.find_unbound(|link| now - link.since > limit) {
        m.close(key);
    }
}

/// Pings the node with the oldest pong among some that are drawn at random (G-7).
fn ping_at_random(m: &mut ClusterMachine) {
    let positions = u64::from(m.table.positions());
    let mut oldest: Option<(u64, NodeIx)> = None;
    for _ in 0..RANDOM_DRAWS {
        let Some(ix) = m.table.at(m.rng.below(positions) as u32) else { continue };
        let node = m.table.node(ix);
        let is_out = ix == m.table.my_ix()
            || node.is_handshake()
            || node.place.link_out == LinkOut::None
            || node.clocks.ping_sent.is_some();
        let pong = node.clocks.pong_received.unwrap_or(0);
        if !is_out && oldest.is_none_or(|(at, _)| pong < at) {
            oldest = Some((pong, ix));
        }
    }
    if let Some((_, ix)) = oldest {
        send::ping(m, ix);
    }
}

/// Does the work for one node: repeats a MEET, drops a dead link, sends a due ping, suspects a silent node.
fn contact(m: &mut ClusterMachine, ix: NodeIx) {
    if m.table.node(ix).is_handshake() || m.table.node(ix).is_without_address() {
        return;
    }
    let sure = m.rights.sureness == Sureness::Sure;
    if sure && m.settings.debug.reconnection == Switch::Runs {
        meet::repeat_meet(m, ix);
    }
    drop_if_dead(m, ix);
    let now = m.time.now;
    let node = m.table.node(ix);
    let pong = node.clocks.pong_received.unwrap_or(0);
    // A PING is due half a tick early, because a PONG arrives shortly after the tick that sent its PING.
    // Without this allowance, the tick that should send the next PING would come a moment too early.
    let since = now.saturating_sub(pong) + CRON_MS / 2;
    let is_due = since > m.settings.ping_after_ms() || node.clocks.pong_received.is_none();
    if node.place.link_out != LinkOut::None && node.clocks.ping_sent.is_none() && is_due {
        send::ping(m, ix);
    }
    failure::suspect(m, ix);
}

/// Drops an outgoing link if a PING has been unanswered, and no data have arrived, for half a node timeout
/// (G-9). A link younger than a node timeout is kept.
fn drop_if_dead(m: &mut ClusterMachine, ix: NodeIx) {
    let now = m.time.now;
    let timeout = m.settings.node_timeout_ms;
    let node = m.table.node(ix);
    // The link is looked up only if a PING is unanswered, because the cron calls this often, and nearly all
    // nodes have answered.
    let is_silent = node.clocks.ping_sent.is_some_and(|sent| now.saturating_sub(sent) > timeout / 2);
    if !is_silent || now.saturating_sub(node.clocks.data_received) <= timeout / 2 {
        return;
    }
    let Some(key) = node.place.link_out.key() else { return };
    if m.links.get(key).is_some_and(|link| now - link.since > timeout) {
        m.close(key);
    }
}

fn warn_if_unsure(m: &mut ClusterMachine) {
    let now = m.time.now;
    if let Sureness::Unsure { warned } = &mut m.rights.sureness
        && warned.is_none_or(|at| now - at >= UNSURE_WARNING_MS)
    {
        *warned = Some(now);
        log!(
            m,
            Warning,
            "The line of this node in the cluster configuration file was damaged: this node serves no \
             slot and does not vote until CLUSTER RESET, REPLICATE, ADDSLOTS or SETSLOT says what it is."
        );
    }
}

/// Handles an outgoing link that is now established. The first message on it is a PING or MEET (G-6).
pub(crate) fn connected(m: &mut ClusterMachine, key: LinkKey) {
    let Some(link) = m.links.get_mut(key) else { return };
    let LinkKind::Out { node: ix, .. } = link.kind else { return };
    link.is_open = true;
    m.table.node_mut(ix).place.link_out = LinkOut::Open(key);
    send::ping_or_meet(m, ix);
}
