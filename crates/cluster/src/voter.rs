//! Votes for replicas that want to take over (E-50, E-51), and the right to vote after a damaged file (N-26,
//! N-27).

use crate::claims;
use crate::durable::Withheld;
use crate::id::NodeId;
use crate::machine::{ClusterMachine, Sureness, VoteRight, log};
use crate::migration::export;
use crate::node::{LinkOut, NodeIx};
use crate::send;
use crate::slots::SlotSet;
use crate::wire::BusHeader;
use sluice_base::mistake::{Mistake, is_made};

/// Handles a replica's request for a vote.
pub(crate) fn asked(m: &mut ClusterMachine, candidate: NodeIx, header: &BusHeader<'_>) {
    m.failover.candidacy.heard_rival(header.current_epoch);
    if m.failover.paused.replica() == Some(candidate) && is_made(Mistake::PauseEndsEarly) {
        m.end_pause();
    }
    if !m.table.me().is_voter() {
        return;
    }
    if let Err(reason) = judge(m, candidate, header) {
        m.statistics.votes_denied += 1;
        log!(m, Warning, "Failover auth denied to {} {reason}", m.name(candidate));
        return;
    }
    let epoch = m.epochs.current;
    m.epochs.last_vote = epoch;
    m.save();
    let to = m.table.node(candidate).id;
    let vote = Withheld::Vote { to, epoch };
    if is_made(Mistake::VoteBeforeFile) {
        send::release(m, vote);
    } else {
        m.durable.hold(vote);
    }
    m.statistics.votes_granted += 1;
    if m.table.node(candidate).primary() == Some(m.table.my_ix()) {
        // From now on, for as long as the candidate's election may be open, no slots are granted to the
        // target of a move, because they may become the candidate's.
        m.failover.voted_until = m.time.now.saturating_add(m.settings.node_timeout_ms.saturating_mul(2));
        export::fail_all(m, "Slots are no longer owned by myself");
    }
    log!(m, Notice, "Failover auth granted to {} for epoch {epoch}", m.name(candidate));
}

/// Checks whether the vote may be given; the error is the reason against it (E-50).
fn judge(m: &mut ClusterMachine, candidate: NodeIx, header: &BusHeader<'_>) -> Result<(), String> {
    let current = m.epochs.current;
    if !may_vote(m) {
        return Err("(it is not safe to vote in this moment)".to_owned());
    }
    if header.current_epoch < current {
        return Err(format!("(reqEpoch ({}) < curEpoch({current}))", header.current_epoch));
    }
    if m.epochs.last_vote == current {
        return Err(format!("(already voted for epoch {current})"));
    }
    let node = m.table.node(candidate);
    if !node.is_replica() {
        return Err(format!("for epoch {current}: it is a primary node"));
    }
    let Some(primary) = node.primary() else {
        return Err(format!("for epoch {current}: I don't know its primary"));
    };
    if !m.table.node(primary).is_failed() && !header.message_flags.force_ack {
        return Err(format!("for epoch {current}: its primary is up"));
    }
    if !matches!(node.place.link_out, LinkOut::Open(_)) {
        return Err("(no link to answer on)".to_owned());
    }
    // No vote is given while slots of this node are granted to another node, which may not have announced
    // them yet.
    if primary == m.table.my_ix() && export::has_granted(m) {
        return Err("(slots that it claims are granted to another node)".to_owned());
    }
    outdated(m, candidate, header)
}

/// Refuses a candidate that claims slots with an older epoch than their owner's, and sends it an UPDATE
/// about that owner.
fn outdated(m: &mut ClusterMachine, candidate: NodeIx, header: &BusHeader<'_>) -> Result<(), String> {
    let slots = SlotSet::from_bitmap(header.slots);
    let newer = slots.iter().find_map(|slot| {
        let owner = m.table.owner(slot).filter(|_| !m.table.is_unclaimed(slot))?;
        let epoch = m.table.node(owner).config_epoch;
        (epoch > header.config_epoch).then_some((slot, owner, epoch))
    });
    let Some((slot, owner, epoch)) = newer else { return Ok(()) };
    claims::correct_about(m, candidate, owner);
    Err(format!("(slot {} epoch ({epoch}) > reqConfigEpoch ({}))", slot.number(), header.config_epoch))
}

/// Whether this node may vote at all. It may if the delay after its start is over (F-21), the last write of
/// its file has succeeded, no write takes too long, and its epochs and role are known.
fn may_vote(m: &ClusterMachine) -> bool {
    m.cluster.is_safe_to_join
        && !m.durable.bars_votes(m.time.now, m.settings.node_timeout_ms)
        && m.rights.votes == VoteRight::Free
        && m.rights.sureness == Sureness::Sure
}

/// Records that a voter, or a replica of this node, has sent its epoch. Such nodes know of elections in which
/// this node may have voted (N-27).
pub(crate) fn heard(m: &mut ClusterMachine, sender: NodeIx) {
    let (id, is_voter) = (m.table.node(sender).id, m.table.node(sender).is_voter());
    let follows_me = m.table.node(sender).primary() == Some(m.table.my_ix());
    if let VoteRight::EpochUnknown { heard, .. } = &mut m.rights.votes
        && (is_voter || follows_me)
        && !heard.contains(&id)
    {
        heard.push(id);
    }
}

/// Restores this node's right to vote once every election in which it may have voted is over and known
/// (N-27). Called by the cron.
pub(crate) fn regain(m: &mut ClusterMachine) {
    let VoteRight::EpochUnknown { since, heard } = &m.rights.votes else { return };
    let wait = m.settings.node_timeout_ms.saturating_mul(2).max(2_000);
    if m.time.now - since <= wait || m.cluster.size == 0 {
        return;
    }
    if !have_spoken(m, heard) && !is_made(Mistake::EpochByTimeAlone) {
        return;
    }
    m.epochs.last_vote = m.epochs.current;
    m.rights.votes = VoteRight::Free;
    log!(m, Notice, "The cluster's epoch is {}: this node votes again.", m.epochs.current);
    m.save();
}

/// Whether so many voters other than this node have sent their epochs that at least one of them took part in
/// any election that was won. If this node is the only voter, its reachable replicas must have sent their
/// epochs.
fn have_spoken(m: &ClusterMachine, heard: &[NodeId]) -> bool {
    let size = m.cluster.size as usize;
    let known = |id: &&NodeId| m.table.find(id).is_some();
    if size == 1 {
        let replicas = &m.table.me().replicas;
        return replicas.iter().all(|ix| {
            let node = m.table.node(*ix);
            !node.is_up() || heard.contains(&node.id)
        });
    }
    let voters = heard
        .iter()
        .filter(known)
        .filter(|id| m.table.find(id).is_some_and(|ix| m.table.node(ix).is_voter()));
    let mine = usize::from(is_made(Mistake::EpochHeardFromMyself));
    voters.count() + mine >= (size / 2 + 1).min(size - 1)
}
