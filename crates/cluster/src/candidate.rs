//! This replica's own elections: when it stands, how it asks for votes, how it takes over (E-40 to E-47,
//! E-55), and a failover that an operator asks of it (M-1 to M-8).
//!
//! ```text
//!  Idle ─primary FAIL, data young enough─► Waiting ─time─► Requested ─quorum─► takes over, Idle
//!                                                              └─A passes─► Expired ─2A pass─► Idle
//! ```
//!
//! Invariants: (1) an election has one epoch, and a voter counts once in it; (2) a request for votes leaves
//! when its epoch is durable, and what a takeover tells leaves when the file with it is; (3) an answer counts
//! for the election that is open and for no other.

use crate::claims;
use crate::durable::Withheld;
use crate::epochs;
use crate::health;
use crate::id::{ClusterEpoch, NodeId};
use crate::link_key::LinkKey;
use crate::machine::{ClusterMachine, log};
use crate::node::{LinkOut, Ms, NodeIx};
use crate::output::ClusterOutput;
use crate::roles;
use crate::send;
use crate::wire::{BusHeader, MessageType};

/// The longest base delay of an election, ms.
const DELAY_MAX_MS: u64 = 500;
/// What a replica without data waits in addition, ms (E-42).
const WITHOUT_DATA_MS: u64 = 500;
/// How long an election is open at least, ms.
const ELECTION_MIN_MS: u64 = 2_000;
/// Milliseconds between two lines of the log that say the same about why no election is held.
const SAID_MS: u64 = 1_000;
/// The same for data that are too old.
const SAID_OF_AGE_MS: u64 = 10_000;

/// How far this replica's election is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ElectionStage {
    #[default]
    Idle,
    /// The request for votes leaves at this time.
    Waiting(Schedule),
    /// Votes were asked for, or will be when the epoch is durable.
    Requested { schedule: Schedule, epoch: ClusterEpoch, votes: Vec<NodeId> },
    /// Too few votes came in time.
    Expired(Schedule),
}

/// When an election begins, and by which order among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    at: Ms,
    rank: u64,
    /// Failed shards ahead of this one.
    shard_rank: u64,
    /// Voters are asked although they may not hold the primary for failed.
    forces: bool,
}

/// A failover that an operator has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WantedFailover {
    #[default]
    None,
    /// The primary was asked to pause; its offset is awaited.
    AwaitsOffset { end: Ms },
    /// The primary is paused at this offset.
    CatchesUp { end: Ms, goal: u64 },
    /// The election may begin, whatever the primary's health.
    MayStart { end: Ms },
}

impl WantedFailover {
    fn end(self) -> Option<Ms> {
        match self {
            WantedFailover::None => None,
            WantedFailover::AwaitsOffset { end }
            | WantedFailover::CatchesUp { end, .. }
            | WantedFailover::MayStart { end } => Some(end),
        }
    }

    fn may_start(self) -> bool {
        matches!(self, WantedFailover::MayStart { .. })
    }
}

/// What this node remembers as a candidate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidacy {
    pub(crate) stage: ElectionStage,
    pub(crate) wanted: WantedFailover,
    /// When the primary was heard last on the replication link; none: never in this process.
    pub(crate) contact: Option<Ms>,
    /// What was said last of why no election is held, and when.
    said: Option<(Obstacle, Ms)>,
}

impl Candidacy {
    /// Whether the end of the paused primary's stream is known and not reached.
    pub(crate) fn catches_up(&self) -> bool {
        matches!(self.wanted, WantedFailover::CatchesUp { .. })
    }
}

/// Why no election is held, or none is won yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    OldData,
    Delay,
    Expired,
    Votes,
}

/// How a failover by hand is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverKind {
    /// The primary pauses, and this replica has all of its data before it stands.
    Agreed,
    /// FORCE: the primary is not asked.
    Forced,
    /// TAKEOVER: nobody is asked.
    Takeover,
}

/// CLUSTER FAILOVER (M-1).
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
    let end = m.time.now.saturating_add(m.settings.manual_failover_timeout_ms);
    match kind {
        FailoverKind::Takeover => {
            log!(m, Notice, "Taking over the primary (user request from '{client}').");
            epochs::advance_alone(m);
            take_over(m, primary);
            return Ok(());
        }
        FailoverKind::Forced => {
            log!(m, Notice, "Forced failover user request accepted (user request from '{client}').");
            m.candidacy.wanted = WantedFailover::MayStart { end };
            restart(m);
        }
        FailoverKind::Agreed => {
            log!(m, Notice, "Manual failover user request accepted (user request from '{client}').");
            m.candidacy.wanted = WantedFailover::AwaitsOffset { end };
            send::failover_start(m, primary);
        }
    }
    advance(m);
    Ok(())
}

/// An election under way gives way to the one that was asked for by hand (M-5).
fn restart(m: &mut ClusterMachine) {
    if let ElectionStage::Waiting(_) | ElectionStage::Requested { .. } = m.candidacy.stage {
        log!(
            m,
            Warning,
            "Failover election in progress for epoch {}, but received a new manual failover. Resetting the election.",
            m.epochs.current
        );
    }
    m.candidacy.stage = ElectionStage::Idle;
}

/// A paused primary has told where its stream ends (M-4).
pub(crate) fn heard_of_pause(m: &mut ClusterMachine, sender: NodeIx, header: &BusHeader<'_>) {
    if let WantedFailover::AwaitsOffset { end } = m.candidacy.wanted
        && header.message_flags.is_paused
        && m.is_my_primary(sender)
    {
        let goal = header.offset;
        m.candidacy.wanted = WantedFailover::CatchesUp { end, goal };
        log!(m, Warning, "Received replication offset for paused primary manual failover: {goal}");
    }
}

/// Goes on with what is under way: called by the cron, and whenever something came that an election waits
/// for.
pub(crate) fn advance(m: &mut ClusterMachine) {
    if let WantedFailover::CatchesUp { end, goal } = m.candidacy.wanted
        && m.table.me().offset == goal
    {
        log!(m, Warning, "All primary replication stream processed, manual failover can start.");
        m.candidacy.wanted = WantedFailover::MayStart { end };
        restart(m);
    }
    if m.candidacy.wanted.end().is_some_and(|end| m.time.now > end) {
        log!(m, Warning, "Manual failover timed out.");
        m.candidacy.wanted = WantedFailover::None;
        m.candidacy.stage = ElectionStage::Idle;
    }
    let by_hand = m.candidacy.wanted.may_start();
    let primary = m.table.me().primary();
    let stands =
        |primary: &NodeIx| by_hand || m.table.node(*primary).is_failed() && !m.settings.replica_no_failover;
    let Some(primary) = primary.filter(stands) else {
        m.candidacy.stage = ElectionStage::Idle;
        if m.table.me().is_primary() {
            m.candidacy.wanted = WantedFailover::None;
        }
        return;
    };
    if !by_hand && has_old_data(m) {
        return say(m, Obstacle::OldData);
    }
    stand(m, primary, by_hand);
}

/// How long an election is open: *A*.
fn open_ms(m: &ClusterMachine) -> u64 {
    m.settings.node_timeout_ms.saturating_mul(2).max(ELECTION_MIN_MS)
}

/// Whether the data are older than the validity factor allows (E-41).
fn has_old_data(m: &ClusterMachine) -> bool {
    let factor = m.settings.replica_validity_factor;
    let timeout = m.settings.node_timeout_ms;
    let limit = m.settings.replica_ping_period_ms.saturating_add(timeout.saturating_mul(factor));
    let age = m.candidacy.contact.map_or(u64::MAX, |at| m.time.now.saturating_sub(at));
    let age = if age > timeout { age - timeout } else { age };
    factor != 0 && age > limit
}

/// The stages of an election.
fn stand(m: &mut ClusterMachine, primary: NodeIx, by_hand: bool) {
    let (now, open) = (m.time.now, open_ms(m));
    let scheduled = match &m.candidacy.stage {
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
    match m.candidacy.stage.clone() {
        ElectionStage::Waiting(schedule) if now < schedule.at => say(m, Obstacle::Delay),
        ElectionStage::Waiting(schedule) if now - schedule.at > open => expire(m, schedule),
        ElectionStage::Waiting(schedule) => request(m, schedule),
        ElectionStage::Requested { votes, .. } if votes.len() as u64 >= quorum(m) => win(m, primary),
        ElectionStage::Requested { schedule, .. } if now - schedule.at > open => expire(m, schedule),
        ElectionStage::Requested { .. } => say(m, Obstacle::Votes),
        ElectionStage::Expired(_) => say(m, Obstacle::Expired),
        ElectionStage::Idle => {}
    }
}

fn quorum(m: &ClusterMachine) -> u64 {
    u64::from(health::quorum(m.cluster.size))
}

fn expire(m: &mut ClusterMachine, schedule: Schedule) {
    m.candidacy.stage = ElectionStage::Expired(schedule);
    say(m, Obstacle::Expired);
}

/// The base delay *d*.
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
    m.candidacy.stage = ElectionStage::Waiting(schedule);
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

/// The other replicas of my primary learn my offset.
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

/// Replicas of my primary that have more of its data than I have; of two with as much, the one with the
/// smaller id is ahead.
fn rank(m: &ClusterMachine, primary: NodeIx) -> u64 {
    let me = m.table.me();
    let is_ahead = |ix: &&NodeIx| {
        let other = m.table.node(**ix);
        let has_more = other.offset > me.offset || other.offset == me.offset && other.id < me.id;
        **ix != m.table.my_ix() && !other.marks.no_failover && has_more
    };
    m.table.node(primary).replicas.iter().filter(is_ahead).count() as u64
}

/// Failed voters with replicas whose shards come ahead of mine.
fn shard_rank(m: &ClusterMachine) -> u64 {
    let factor = m.settings.replica_validity_factor;
    let limit = m.settings.node_timeout_ms.saturating_mul(factor);
    let mine = m.table.me().shown_shard();
    let is_ahead = |node: &crate::node::ClusterNode| {
        let is_young = node.failed_since().is_some_and(|since| factor == 0 || m.time.now - since <= limit);
        is_young && node.is_voter() && !node.replicas.is_empty() && node.shown_shard() < mine
    };
    m.table.iter().filter(|(_, node)| is_ahead(node)).count() as u64
}

/// Whether nobody can be ahead of me: I have data, and every replica of my primary holds the primary for
/// failed (E-43).
fn is_best_ranked(m: &ClusterMachine, primary: NodeIx, rank: u64, shard_rank: u64) -> bool {
    let all_say_so = m.table.node(primary).replicas.iter().all(|ix| m.table.node(*ix).marks.my_primary_fail);
    m.table.me().offset != 0 && rank == 0 && shard_rank == 0 && all_say_so
}

/// Offsets of others came: the time moves with the ranks (E-44).
fn reschedule(m: &mut ClusterMachine, primary: NodeIx) {
    let ElectionStage::Waiting(mut schedule) = m.candidacy.stage else { return };
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
    m.candidacy.stage = ElectionStage::Waiting(schedule);
}

/// Asks for votes, once the epoch of the election is durable (E-45, E-53).
fn request(m: &mut ClusterMachine, schedule: Schedule) {
    let epoch = m.epochs.current.next();
    m.epochs.current = epoch;
    let of = m.table.node(m.table.primary_of(m.table.my_ix())).config_epoch;
    log!(m, Notice, "Starting a failover election for epoch {epoch}, node config epoch is {of}");
    m.candidacy.stage = ElectionStage::Requested { schedule, epoch, votes: Vec::new() };
    m.save();
    m.durable.hold(Withheld::VoteRequest { epoch });
}

/// The epoch of a request is durable: the request leaves, unless the election is over.
pub(crate) fn epoch_is_durable(m: &mut ClusterMachine, epoch: ClusterEpoch) {
    if let ElectionStage::Requested { schedule, epoch: open, .. } = m.candidacy.stage
        && open == epoch
    {
        send::vote_request(m, epoch, schedule.forces);
    }
}

/// A vote (E-46).
pub(crate) fn voted(m: &mut ClusterMachine, voter: NodeIx, header: &BusHeader<'_>) {
    let (id, is_voter) = (m.table.node(voter).id, m.table.node(voter).is_voter());
    if let ElectionStage::Requested { epoch, votes, .. } = &mut m.candidacy.stage
        && is_voter
        && header.current_epoch == *epoch
        && !votes.contains(&id)
    {
        votes.push(id);
        advance(m);
    }
}

/// Enough votes came (E-47).
fn win(m: &mut ClusterMachine, primary: NodeIx) {
    let ElectionStage::Requested { epoch, .. } = m.candidacy.stage else { return };
    log!(m, Notice, "Failover election won: I'm the new primary.");
    if m.table.me().config_epoch < epoch {
        m.table.me_mut().config_epoch = epoch;
        log!(m, Notice, "configEpoch set to {epoch} after successful failover");
    }
    take_over(m, primary);
}

/// This replica becomes the primary of its shard (E-55).
fn take_over(m: &mut ClusterMachine, old: NodeIx) {
    let (shard, my_ix) = (m.table.me().shown_shard(), m.table.my_ix());
    log!(
        m,
        Notice,
        "Setting myself to primary in shard {shard} after failover; my old primary is {}",
        m.name(old)
    );
    roles::stand_alone(m);
    let slots = m.table.node(old).slots.clone();
    for slot in slots.iter() {
        m.table.unbind(slot);
        m.table.bind(slot, my_ix);
    }
    m.channels_gone(slots);
    m.candidacy.stage = ElectionStage::Idle;
    m.candidacy.wanted = WantedFailover::None;
    // What the data hold of slots that are another's is found as at a start (R-30).
    m.out.push_back(ClusterOutput::AskKeys);
    m.reconsider();
    m.save();
    m.announce();
    claims::forget_strays(m);
}

/// One line of the log, unless the same was said a moment ago.
fn say(m: &mut ClusterMachine, obstacle: Obstacle) {
    let pause = if obstacle == Obstacle::OldData { SAID_OF_AGE_MS } else { SAID_MS };
    if m.candidacy.said.is_some_and(|(last, at)| last == obstacle && m.time.now - at < pause) {
        return;
    }
    m.candidacy.said = Some((obstacle, m.time.now));
    let votes = match &m.candidacy.stage {
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
