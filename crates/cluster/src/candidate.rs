//! This replica's own elections, namely when an election begins, how votes are requested and how the replica
//! takes over (E-40 to E-47, E-55), and failovers that an operator orders (M1 to M8). In the diagram, *A* is
//! the time for which an election is open (`open_ms`).
//!
//! ```text
//!  Idle ─primary FAIL, data young enough─► Waiting ─time─► Requested ─quorum─► takes over, Idle
//!                                                              └─A passes─► Expired ─2A pass─► Idle
//! ```
//!
//! Invariants: (1) an election has one epoch, and each voter counts once in it; (2) a request for votes
//! leaves when its epoch is durable, and messages about a takeover leave when the file with the takeover is
//! durable; (3) a vote counts only for the election that is open.

use crate::candidacy::{ElectionStage, Obstacle, Schedule, WantedFailover};
use crate::durable::Withheld;
use crate::epochs;
use crate::health;
use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, Sureness, log};
use crate::node::{LinkOut, Ms, NodeIx};
use crate::roles;
use crate::send;
use crate::wire::{BusHeader, MessageType};
use sluice_base::mistake::{Mistake, is_made};

/// The longest base delay of an election, ms.
const DELAY_MAX_MS: u64 = 500;
/// Additional delay of a replica without data, ms (E-42).
const WITHOUT_DATA_MS: u64 = 500;
/// Shortest time for which an election is open, ms.
const ELECTION_MIN_MS: u64 = 2_000;
/// Shortest time for which votes are awaited if another replica asks for votes in the same epoch or a later
/// one, ms.
const SPLIT_MS: u64 = 500;
/// Milliseconds between two equal log lines about the reason why no election is held.
const SAID_MS: u64 = 1_000;
/// Milliseconds between two log lines about data that are too old.
const SAID_OF_AGE_MS: u64 = 10_000;

/// The kind of a manual failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverKind {
    /// The primary pauses writes, and this replica starts its election when it has all data.
    Agreed,
    /// FORCE: the election starts without the primary's agreement.
    Forced,
    /// The primary itself has ordered the failover, because it is about to end (M11).
    Ordered,
    /// TAKEOVER: the replica takes over without votes.
    Takeover,
}

/// CLUSTER FAILOVER (M1).
///
/// # Errors
/// The error for the client.
pub(crate) fn command(m: &mut ClusterMachine, client: &str, kind: FailoverKind) -> Result<(), String> {
    if m.table.me().is_primary() {
        return Err("ERR You should send CLUSTER FAILOVER to a replica".to_owned());
    }
    let Some(primary) = m.table.me().primary() else {
        return Err("ERR I'm a replica but my master is unknown to me".to_owned());
    };
    let link = m.table.node(primary).place.link_out.key();
    if kind == FailoverKind::Agreed && (m.table.node(primary).is_failed() || link.is_none()) {
        return Err("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE".to_owned());
    }
    if kind != FailoverKind::Takeover
        && let Some(state) = state_under_way(m)
    {
        // A failover under way is not restarted, because two controllers that both send the command would
        // delay each other's failovers (M-5).
        log!(
            m,
            Notice,
            "The election of a manual failover is under way already (user request from '{client}'): {state}."
        );
        return Ok(());
    }
    let end = m.time.now.saturating_add(m.settings.manual_failover_timeout_ms);
    match kind {
        FailoverKind::Takeover => {
            log!(m, Notice, "Taking over the primary (user request from '{client}').");
            epochs::advance_alone(m);
            roles::take_over(m, primary);
            return Ok(());
        }
        FailoverKind::Forced | FailoverKind::Ordered => {
            let by = if kind == FailoverKind::Ordered { "primary" } else { "user" };
            log!(m, Notice, "Forced failover {by} request accepted ({by} request from '{client}').");
            m.failover.candidacy.wanted = WantedFailover::MayStart { end, is_agreed: false };
            restart(m);
        }
        FailoverKind::Agreed => {
            log!(m, Notice, "Manual failover user request accepted (user request from '{client}').");
            m.failover.candidacy.wanted = WantedFailover::AwaitsOffset { end };
            send::failover_start(m, primary);
        }
    }
    advance(m);
    Ok(())
}

/// The state of a manual failover whose votes are requested and whose time is not over; `None` for any other.
fn state_under_way(m: &ClusterMachine) -> Option<String> {
    let candidacy = &m.failover.candidacy;
    let left = candidacy.wanted.end().and_then(|end| end.checked_sub(m.time.now))?;
    let forces = candidacy.open_election(m.epochs.current).is_some_and(|election| election.forces);
    let ElectionStage::Requested { epoch, votes, .. } = &candidacy.stage else { return None };
    let is_under_way = candidacy.wanted.may_start() && forces;
    is_under_way
        .then(|| format!("epoch {epoch}, {} of {} votes, timeout in {left} ms", votes.len(), quorum(m)))
}

/// Ends the election under way, so that the manually ordered one can begin (M5).
fn restart(m: &mut ClusterMachine) {
    if let ElectionStage::Waiting(_) | ElectionStage::Requested { .. } = m.failover.candidacy.stage {
        log!(
            m,
            Warning,
            "Failover election in progress for epoch {}, but received a new manual failover. Resetting the election.",
            m.epochs.current
        );
    }
    m.failover.candidacy.stage = ElectionStage::Idle;
}

/// Whether a manual failover waits until this replica has received the stream up to the paused primary's
/// offset.
pub(crate) fn awaits_offset(m: &ClusterMachine) -> bool {
    matches!(m.failover.candidacy.wanted, WantedFailover::CatchesUp { .. })
}

/// Handles the offset of the stream's end, which a paused primary has sent (M-4). The end may move although
/// clients do not write, because the primary deletes keys of lost slots. `is_on_own_link`: whether the
/// message arrived on the connection that this node has dialled, so that all earlier messages of the primary
/// have arrived, too.
pub(crate) fn heard_of_pause(
    m: &mut ClusterMachine,
    sender: NodeIx,
    header: &BusHeader<'_>,
    is_on_own_link: bool,
) {
    let is_paused = header.message_flags.is_paused || is_made(Mistake::GoalWithoutPause);
    if !m.is_my_primary(sender) {
        return;
    }
    if !is_paused {
        if is_on_own_link {
            pause_has_ended(m);
        }
        return;
    }
    let goal = header.offset;
    match m.failover.candidacy.wanted {
        WantedFailover::AwaitsOffset { end } => {
            m.failover.candidacy.wanted = WantedFailover::CatchesUp { end, goal };
            log!(m, Warning, "Received replication offset for paused primary manual failover: {goal}");
        }
        WantedFailover::CatchesUp { end, goal: old } if goal > old => {
            m.failover.candidacy.wanted = WantedFailover::CatchesUp { end, goal };
        }
        _ => {}
    }
}

/// Gives up an agreed failover (one for which the primary has paused writes), because the primary executes
/// writes again. Its process has restarted, or the time of the pause is over. A takeover would lose the
/// writes that the primary has acknowledged since then (S-26).
fn pause_has_ended(m: &mut ClusterMachine) {
    let is_agreed = matches!(
        m.failover.candidacy.wanted,
        WantedFailover::CatchesUp { .. } | WantedFailover::MayStart { is_agreed: true, .. }
    );
    if !is_agreed {
        return;
    }
    log!(m, Warning, "Manual failover stopped: my primary does not pause writes any more.");
    m.failover.candidacy.give_up();
}

/// Whether an election of this replica may soon depend on its offset, because its primary has failed or a
/// manual failover waits for data.
pub(crate) fn is_near(m: &ClusterMachine) -> bool {
    let is_failed = m.table.me().primary().is_some_and(|primary| m.table.node(primary).is_failed());
    is_failed || awaits_offset(m)
}

/// Begins or continues this replica's election. Called by the cron, after a command or a vote, and at the end
/// of an event loop iteration in which a message arrived that an election waits for. Only the messages of the
/// whole iteration show how many shards have failed and which replicas have more data; after the first
/// message alone, a replica could compute the same rank as another one.
pub(crate) fn advance(m: &mut ClusterMachine) {
    m.todo.elect = false;
    if let WantedFailover::CatchesUp { end, goal } = m.failover.candidacy.wanted
        && m.table.me().offset == goal
    {
        log!(m, Warning, "All primary replication stream processed, manual failover can start.");
        m.failover.candidacy.wanted = WantedFailover::MayStart { end, is_agreed: true };
        restart(m);
    }
    if m.failover.candidacy.wanted.end().is_some_and(|end| m.time.now > end) {
        log!(m, Warning, "Manual failover timed out.");
        m.failover.candidacy.wanted = WantedFailover::None;
        m.failover.candidacy.stage = ElectionStage::Idle;
    }
    let by_hand = m.failover.candidacy.wanted.may_start();
    let primary = m.table.me().primary();
    let stays = !m.settings.replica.no_failover && !m.failover.is_leaving;
    let may_stand = stays && m.rights.sureness == Sureness::Sure;
    let stands = |primary: &NodeIx| by_hand || m.table.node(*primary).is_failed() && may_stand;
    let Some(primary) = primary.filter(stands) else {
        m.failover.candidacy.stage = ElectionStage::Idle;
        if m.table.me().is_primary() {
            m.failover.candidacy.wanted = WantedFailover::None;
        }
        return;
    };
    if !by_hand && has_old_data(m) {
        return say(m, Obstacle::OldData);
    }
    stand(m, primary, by_hand);
}

/// Whether the open election probably cannot get a majority of the votes of its epoch, because another
/// replica has asked for votes in that epoch or a later one, and all votes should have arrived by now (D23).
/// The wait counts from the moment when the request left, after this node's file was written, and doubles
/// with each split election (up to *A*), so that the votes arrive while an election is open even if voters
/// write their files slowly.
fn is_split(m: &ClusterMachine) -> bool {
    let candidacy = &m.failover.candidacy;
    let ElectionStage::Requested { epoch, .. } = &candidacy.stage else { return false };
    let first = delay_ms(m).saturating_mul(4).max(SPLIT_MS);
    let patience = first.saturating_mul(1 << candidacy.splits.min(16)).min(open_ms(m));
    candidacy.rival >= *epoch && candidacy.asked_at.is_some_and(|at| m.time.now.saturating_sub(at) > patience)
}

/// How long an election is open, ms; *A* in the diagram above.
fn open_ms(m: &ClusterMachine) -> u64 {
    m.settings.node_timeout_ms.saturating_mul(2).max(ELECTION_MIN_MS)
}

/// Whether the data are older than the validity factor allows (E-41).
fn has_old_data(m: &ClusterMachine) -> bool {
    let factor = m.settings.replica.validity_factor;
    let timeout = m.settings.node_timeout_ms;
    let limit = m.settings.replica.ping_period_ms.saturating_add(timeout.saturating_mul(factor));
    let age = m.failover.candidacy.contact.map_or(u64::MAX, |at| m.time.now.saturating_sub(at));
    let age = if age > timeout { age - timeout } else { age };
    factor != 0 && age > limit
}

/// Advances the election to its next stage, if that is due.
fn stand(m: &mut ClusterMachine, primary: NodeIx, by_hand: bool) {
    let (now, open) = (m.time.now, open_ms(m));
    if !by_hand && is_split(m) && !has_won(m) {
        log!(
            m,
            Notice,
            "Another replica requests votes as well, and neither has a majority. Starting another election."
        );
        m.failover.candidacy.stage = ElectionStage::Idle;
        m.failover.candidacy.splits = m.failover.candidacy.splits.saturating_add(1);
    }
    let scheduled = match &m.failover.candidacy.stage {
        ElectionStage::Idle => None,
        ElectionStage::Waiting(schedule)
        | ElectionStage::Requested { schedule, .. }
        | ElectionStage::Expired(schedule) => Some(schedule.at),
    };
    if scheduled.is_none_or(|at| now.saturating_sub(at) > open.saturating_mul(2)) {
        schedule(m, primary, by_hand);
    } else if !by_hand {
        reschedule(m, primary);
    }
    match m.failover.candidacy.stage.clone() {
        ElectionStage::Waiting(schedule) if now < schedule.at => say(m, Obstacle::Delay),
        ElectionStage::Waiting(schedule) if now - schedule.at > open => expire(m, schedule),
        ElectionStage::Waiting(schedule) => request(m, schedule),
        ElectionStage::Requested { .. } if has_won(m) => win(m, primary),
        ElectionStage::Requested { schedule, .. } if now - schedule.at > open => expire(m, schedule),
        ElectionStage::Requested { .. } => say(m, Obstacle::Votes),
        ElectionStage::Expired(_) => say(m, Obstacle::Expired),
        ElectionStage::Idle => {}
    }
}

/// Whether the open election has the votes of a majority.
fn has_won(m: &ClusterMachine) -> bool {
    matches!(&m.failover.candidacy.stage, ElectionStage::Requested { votes, .. } if votes.len() as u64 >= quorum(m))
}

fn quorum(m: &ClusterMachine) -> u64 {
    u64::from(health::quorum(m.cluster.size))
}

fn expire(m: &mut ClusterMachine, schedule: Schedule) {
    m.failover.candidacy.stage = ElectionStage::Expired(schedule);
    say(m, Obstacle::Expired);
}

/// The base delay of an election, ms.
fn delay_ms(m: &ClusterMachine) -> u64 {
    (m.settings.node_timeout_ms / 30).min(DELAY_MAX_MS)
}

/// Sets the time of the request for votes (E-42, E-43).
fn schedule(m: &mut ClusterMachine, primary: NodeIx, by_hand: bool) {
    let delay = delay_ms(m);
    let (rank, shard_rank) = if by_hand { (0, 0) } else { (rank(m, primary), shard_rank(m)) };
    let is_best = !by_hand && is_best_ranked(m, primary, rank, shard_rank);
    let offset = m.table.me().offset;
    let drawn = delay + if delay > 0 { m.rng.below(delay) } else { 0 };
    let wait = match by_hand || is_best {
        true => 0,
        false => {
            let without_data = if offset == 0 { WITHOUT_DATA_MS } else { 0 };
            drawn + 2 * delay * rank + without_data + delay * shard_rank
        }
    };
    let schedule = Schedule { at: m.time.now + wait, rank, shard_rank, forces: by_hand || is_best };
    m.failover.candidacy.stage = ElectionStage::Waiting(schedule);
    log!(
        m,
        Notice,
        "Start of election delayed for {wait} milliseconds (rank #{rank}, primary rank #{shard_rank}, offset {offset})."
    );
    if is_best {
        log!(m, Notice, "This is the best ranked replica and can initiate the election immediately.");
    }
    tell_siblings(m, primary);
}

/// Sends this replica's offset to the other replicas of its primary.
fn tell_siblings(m: &mut ClusterMachine, primary: NodeIx) {
    let mine = m.table.my_ix();
    let siblings: Vec<LinkKey> = m
        .table
        .node(primary)
        .replicas
        .iter()
        .filter(|ix| **ix != mine)
        .filter_map(|ix| match m.table.node(*ix).place.link_out {
            LinkOut::Open(key) => Some(key),
            LinkOut::None | LinkOut::Dialling(_) => None,
        })
        .collect();
    siblings.into_iter().for_each(|key| send::gossip(m, key, MessageType::Pong));
}

/// The number of replicas of this node's primary that precede this one, because they have more data, or as
/// much data and a smaller id. Replicas with NOFAILOVER do not count.
fn rank(m: &ClusterMachine, primary: NodeIx) -> u64 {
    let me = m.table.me();
    let is_ahead = |ix: &&NodeIx| {
        let other = m.table.node(**ix);
        let has_more = other.offset > me.offset || other.offset == me.offset && other.id < me.id;
        **ix != m.table.my_ix() && !other.marks.no_failover && has_more
    };
    m.table.node(primary).replicas.iter().filter(is_ahead).count() as u64
}

/// The number of recently failed primaries that have slots, replicas, and a smaller shard id than this node.
/// With a validity factor of 0, all failed primaries count, not only recent failures.
fn shard_rank(m: &ClusterMachine) -> u64 {
    let factor = m.settings.replica.validity_factor;
    let limit = m.settings.node_timeout_ms.saturating_mul(factor);
    let mine = m.table.me().shown_shard();
    let is_ahead = |node: &crate::node::ClusterNode| {
        let is_young = node.failed_since().is_some_and(|since| factor == 0 || m.time.now - since <= limit);
        is_young && node.is_voter() && !node.replicas.is_empty() && node.shown_shard() < mine
    };
    m.table.iter().filter(|(_, node)| is_ahead(node)).count() as u64
}

/// Whether no other replica can precede this one, because its ranks are 0, it has data, and every replica of
/// its primary considers the primary failed (E-43).
fn is_best_ranked(m: &ClusterMachine, primary: NodeIx, rank: u64, shard_rank: u64) -> bool {
    let all_say_so = m.table.node(primary).replicas.iter().all(|ix| m.table.node(*ix).marks.my_primary_fail);
    m.table.me().offset != 0 && rank == 0 && shard_rank == 0 && all_say_so
}

/// Changes the time of the election when the ranks have changed, because of offsets received from other
/// replicas or because other primaries have failed or recovered; a replica that has become the best ranked
/// one starts immediately (E-44).
fn reschedule(m: &mut ClusterMachine, primary: NodeIx) {
    let ElectionStage::Waiting(mut schedule) = m.failover.candidacy.stage else { return };
    if m.time.now >= schedule.at {
        return;
    }
    let delay = delay_ms(m);
    let (rank, shard_rank) = (rank(m, primary), shard_rank(m));
    let moved = |at: Ms, now: u64, was: u64, step: u64| {
        let (more, less) = (now.saturating_sub(was) * step, was.saturating_sub(now) * step);
        (at + more).saturating_sub(less)
    };
    if rank != schedule.rank {
        schedule.at = moved(schedule.at, rank, schedule.rank, 2 * delay);
        let added = (rank as i64 - schedule.rank as i64) * 2 * delay as i64;
        log!(m, Notice, "Replica rank updated to #{rank}, added {added} milliseconds of delay.");
    }
    if shard_rank != schedule.shard_rank {
        schedule.at = moved(schedule.at, shard_rank, schedule.shard_rank, delay);
        let added = (shard_rank as i64 - schedule.shard_rank as i64) * delay as i64;
        log!(m, Notice, "Failed primary rank updated to #{shard_rank}, added {added} milliseconds of delay.");
    }
    (schedule.rank, schedule.shard_rank) = (rank, shard_rank);
    if is_best_ranked(m, primary, rank, shard_rank) {
        log!(m, Notice, "Myself become the best ranked replica, initiate the election immediately.");
        (schedule.at, schedule.forces) = (m.time.now, true);
    }
    m.failover.candidacy.stage = ElectionStage::Waiting(schedule);
}

/// Asks for votes, once the epoch of the election is durable (E-45, E-53).
fn request(m: &mut ClusterMachine, schedule: Schedule) {
    let epoch = m.epochs.current.next();
    m.epochs.current = epoch;
    let of = m.table.node(m.table.primary_of(m.table.my_ix())).config_epoch;
    log!(m, Notice, "Starting a failover election for epoch {epoch}, node config epoch is {of}");
    m.failover.candidacy.stage = ElectionStage::Requested { schedule, epoch, votes: Vec::new() };
    m.failover.candidacy.asked_at = None;
    m.save();
    m.durable.hold(Withheld::VoteRequest { epoch });
}

/// Counts a vote for the open election (E-46); any other vote is ignored.
pub(crate) fn voted(m: &mut ClusterMachine, voter: NodeIx, header: &BusHeader<'_>) {
    let (id, is_voter) = (m.table.node(voter).id, m.table.node(voter).is_voter());
    if let ElectionStage::Requested { epoch, votes, .. } = &mut m.failover.candidacy.stage
        && is_voter
        && (header.current_epoch == *epoch || is_made(Mistake::VotesOfAnyEpoch))
        && !votes.contains(&id)
    {
        votes.push(id);
        advance(m);
    }
}

/// Takes over with a majority of votes (E-47).
fn win(m: &mut ClusterMachine, primary: NodeIx) {
    let ElectionStage::Requested { epoch, .. } = m.failover.candidacy.stage else { return };
    log!(m, Notice, "Failover election won: I'm the new primary.");
    if m.table.me().config_epoch < epoch {
        m.table.me_mut().config_epoch = epoch;
        log!(m, Notice, "configEpoch set to {epoch} after successful failover");
    }
    m.failover.candidacy.splits = 0;
    roles::take_over(m, primary);
}

/// Logs why no election is held, unless the last such line gave the same reason and is recent.
fn say(m: &mut ClusterMachine, obstacle: Obstacle) {
    let pause = if obstacle == Obstacle::OldData { SAID_OF_AGE_MS } else { SAID_MS };
    if m.failover.candidacy.said.is_some_and(|(last, at)| last == obstacle && m.time.now - at < pause) {
        return;
    }
    m.failover.candidacy.said = Some((obstacle, m.time.now));
    let votes = match &m.failover.candidacy.stage {
        ElectionStage::Requested { votes, .. } => votes.len(),
        ElectionStage::Idle | ElectionStage::Waiting(_) | ElectionStage::Expired(_) => 0,
    };
    let needed = quorum(m);
    let counts = format!("Needed quorum: {needed}. Number of votes received so far: {votes}");
    let text = match obstacle {
        Obstacle::OldData => {
            "Disconnected from primary for longer than allowed. Please check the 'cluster-replica-validity-factor' \
             configuration option."
                .to_owned()
        }
        Obstacle::Delay => "Waiting the delay before I can start a new failover.".to_owned(),
        Obstacle::Expired => format!("Failover attempt expired. {counts}"),
        Obstacle::Votes => format!("Waiting for votes, but majority still not reached. {counts}"),
    };
    log!(m, Notice, "Currently unable to failover: {text}");
}
