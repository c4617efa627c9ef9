//! Records the messages that hosts have exchanged, and checks each message of a node of ours against them.

use crate::cluster::host::{Host, OwnWord};
use crate::cluster::queue::HostId;
use crate::cluster::sets;
use crate::cluster::view::{Opinion, Role, View};
use sluice_cluster::wire::{self, BusHeader, BusMessage, MessageBody, NodeFlags};
use sluice_cluster::{HashSlot, NodeId, SlotMap, SlotSet};
use std::collections::{BTreeMap, BTreeSet};

/// Time for which a replica's header may still report the failure of its primary after the primary is well
/// again, ns.
const MOURNING_NS: u64 = 2_000_000_000;

/// The state that messages are checked against. Times are ns of the simulation.
#[derive(Default)]
pub(super) struct Ledger {
    /// The host that has, or had, each id.
    pub(super) ids: BTreeMap<NodeId, HostId>,
    /// The candidate that got a voter's vote in an epoch (S-21).
    votes: BTreeMap<(NodeId, u64), NodeId>,
    /// By candidate and epoch, the voters whose votes have arrived at the candidate (S-20).
    ballots: BTreeMap<(NodeId, u64), BTreeSet<NodeId>>,
    /// The winner of an epoch in a group (S-20).
    winners: BTreeMap<(usize, u64), NodeId>,
    /// By receiver and sender, when a whole message last arrived.
    pub(super) heard: BTreeMap<(HostId, HostId), u64>,
    /// By host, reporter and subject, when the subject was last reported to the host.
    reports: BTreeMap<(HostId, NodeId, NodeId), u64>,
    /// By host and primary, the last claim that arrived at the host since owners changed there.
    claims: BTreeMap<(HostId, NodeId), SlotSet>,
    /// By host and primary, the slots that the primary no longer claims, but owns in the host's view.
    dropped: BTreeMap<(HostId, NodeId), SlotSet>,
    /// By host, the voters that it knew when gossip about a failure last arrived.
    voters: BTreeMap<HostId, BTreeSet<NodeId>>,
    /// Since when a host has reported the failure of its primary although the primary is well in
    /// the host's view.
    mourning: BTreeMap<HostId, u64>,
    pub(super) votes_given: u64,
    pub(super) fails_told: u64,
    pub(super) updates_told: u64,
}

impl Ledger {
    /// Notes that a node has won an election; `votes` are those that a stock node has counted. Errors: two
    /// nodes have won one epoch. This is not an error if a stock node has counted votes that a node of ours
    /// would not have counted, or got a vote that a node of ours would not have given.
    pub(super) fn won(
        &mut self,
        (group, epoch): (usize, u64),
        id: NodeId,
        votes: &[(NodeId, u64)],
        hosts: &[Host],
    ) -> Result<(), String> {
        if is_by_defect(epoch, votes) {
            return Ok(());
        }
        let Some(first) = self.winners.get(&(group, epoch)).copied().filter(|first| *first != id) else {
            self.winners.insert((group, epoch), id);
            return Ok(());
        };
        // A stock node that has won gives a vote in the epoch that it has won (measured with 9.1.2). It
        // replaces a primary that may have voted for it in this epoch, so that one shard gives two votes.
        let is_stock = self.ids.get(&first).is_some_and(|host| !hosts[*host].is_ours());
        if is_stock && votes.iter().any(|(voter, _)| *voter == first) {
            return Ok(());
        }
        Err(format!("S-20: {first} and {id} have both won epoch {epoch}"))
    }

    /// Forgets the messages that arrived at a host's process, which has ended.
    pub(super) fn ended(&mut self, host: HostId) {
        self.reports.retain(|(to, _, _), _| *to != host);
        self.claims.retain(|(to, _), _| *to != host);
        self.dropped.retain(|(to, _), _| *to != host);
        self.mourning.remove(&host);
    }

    /// Takes note of a whole message before it is handed to a host.
    pub(super) fn comes(&mut self, to: (HostId, &mut Host), from: HostId, message: &[u8], now_ns: u64) {
        let (number, host) = to;
        self.heard.insert((number, from), now_ns);
        let Ok(BusMessage::Full(header, body)) = wire::parse(message) else { return };
        let mut epoch = header.current_epoch.0.max(header.config_epoch.0);
        if let MessageBody::Update { config_epoch, .. } = body {
            epoch = epoch.max(config_epoch.0);
        }
        host.heard_epoch = host.heard_epoch.max(epoch);
        // A vote is noted when it arrives, not when it is sent, because when it is sent the other end may not
        // have accepted the connection.
        if let (MessageBody::AuthAck, Some(candidate)) = (&body, host.id()) {
            self.ballots.entry((candidate, header.current_epoch.0)).or_default().insert(header.sender);
        }
        if let MessageBody::Ping(gossip) | MessageBody::Pong(gossip) | MessageBody::Meet(gossip) = body {
            // Only these messages claim slots. A message that a node has sent to itself, at its own
            // address, is no claim of another node.
            if header.replica_of.is_none() && host.id() != Some(header.sender) {
                self.claimed((number, host), header.sender, SlotSet::from_bitmap(header.slots));
            }
            let is_failing = |flags: NodeFlags| flags.0 & (NodeFlags::PFAIL.0 | NodeFlags::FAIL.0) != 0;
            let mut failing = gossip.entries().filter(|entry| is_failing(entry.flags)).peekable();
            if let Some(view) = failing.peek().and_then(|_| host.view()).filter(|_| host.is_ours()) {
                self.voters.insert(number, view.voters().copied().collect());
            }
            for entry in failing {
                self.reports.insert((number, header.sender, entry.node), now_ns);
            }
        }
    }

    /// Checks a message that a node of ours sends. Errors: the rule that the message breaks.
    pub(super) fn goes(
        &mut self,
        from: (HostId, &Host),
        to: Option<NodeId>,
        message: &[u8],
        (now_ns, timeout_ms): (u64, u64),
    ) -> Result<(), String> {
        let (number, host) = from;
        let (header, body) = match wire::parse(message) {
            Ok(BusMessage::Full(header, body)) => (header, body),
            Ok(BusMessage::Light(_)) => return Ok(()),
            Err(why) => return Err(format!("S-40: a message that cannot be read: {why:?}")),
        };
        self.is_durable(host, &header)?;
        Self::has_what_it_tells(host, &header, now_ns)?;
        self.mourns_the_dead((number, host), &header, now_ns)?;
        match body {
            MessageBody::AuthAck => self.vote(host, to, &header),
            MessageBody::Fail(about) => {
                self.fails_told += 1;
                self.has_quorum(number, host, about, (now_ns, timeout_ms))
            }
            MessageBody::Update { node, slots, .. } => {
                self.updates_told += 1;
                let Some(dropped) = self.dropped.get(&(number, node)) else { return Ok(()) };
                let more = sets::and(&SlotSet::from_bitmap(slots), dropped);
                if more.is_empty() {
                    return Ok(());
                }
                Err(format!("E-20: an UPDATE about {node} has {more:?}, which it has stopped claiming"))
            }
            _ => Ok(()),
        }
    }

    /// Takes note of a primary's claim. Slots that the host's map gives to the primary, but that are not in
    /// the claim, are no longer claimed (E-12).
    fn claimed(&mut self, (number, host): (HostId, &Host), primary: NodeId, slots: SlotSet) {
        let key = (number, primary);
        let before = self.claims.get(&key);
        if let Some(map) = host.map.as_ref().filter(|_| before != Some(&slots)) {
            let dropped = sets::minus(&owned_by(map, primary), &slots);
            self.dropped.insert(key, dropped);
            self.claims.insert(key, slots);
        }
    }

    /// Takes note of new owners in the map of a host of ours. A slot that gets its owner by another node's
    /// message, as at a failover in its shard (E-16), does not count as one that the owner no longer claims.
    pub(super) fn owners_change(&mut self, number: HostId, map: &SlotMap) {
        for ((_, primary), dropped) in self.dropped.iter_mut().filter(|((to, _), _)| *to == number) {
            if !dropped.is_empty() {
                *dropped = sets::and(dropped, &owned_by(map, *primary));
            }
        }
        // Earlier claims are forgotten, so that the next claim of each primary is compared with the new
        // owners.
        self.claims.retain(|(to, _), _| *to != number);
    }

    /// Checks that a node of ours that wins an epoch has votes of a majority, given in this epoch (S-20
    /// relies on this).
    pub(super) fn has_majority(&self, host: &Host, epoch: u64) -> Result<(), String> {
        let Some(view) = host.view() else { return Ok(()) };
        let votes = self.ballots.get(&(view.me, epoch)).map_or(0, BTreeSet::len);
        let voters = view.voters().count();
        if votes <= voters / 2 {
            return Err(format!("S-20: {} wins epoch {epoch} with {votes} votes of {voters}", view.me));
        }
        Ok(())
    }

    /// Checks that a replica sends the offset 0 while it loads a full sync (N-8, for S-41 and S-25). With the
    /// offset of data that are being replaced, the replica would precede, in elections, other replicas that
    /// have data.
    fn has_what_it_tells(host: &Host, header: &BusHeader<'_>, now_ns: u64) -> Result<(), String> {
        if host.loads_until_ns > now_ns && header.offset != 0 {
            let (sender, offset) = (header.sender, header.offset);
            return Err(format!("N-8: {sender} tells the offset {offset} while it loads a full copy"));
        }
        Ok(())
    }

    /// Checks that a replica sends the flag MY_PRIMARY_FAIL only while its primary is FAIL, or shortly after
    /// (F-9). The primary's state is that in the sender's view at the end of the step that made the header.
    fn mourns_the_dead(
        &mut self,
        (number, host): (HostId, &Host),
        header: &BusHeader<'_>,
        now_ns: u64,
    ) -> Result<(), String> {
        let says_so = header.flags.contains(NodeFlags::MY_PRIMARY_FAIL);
        let is_failed = || {
            let view = host.view()?;
            let Role::Replica(Some(primary)) = view.own().role else { return None };
            Some(view.nodes.get(&primary)?.opinion == Opinion::Failed)
        };
        if !says_so || is_failed() == Some(true) {
            self.mourning.remove(&number);
            return Ok(());
        }
        let since_ns = *self.mourning.entry(number).or_insert(now_ns);
        if now_ns - since_ns > MOURNING_NS {
            return Err(format!("F-9: node {number} goes on telling that its primary has failed"));
        }
        Ok(())
    }

    /// Checks that a claim was in a durable file before it is sent, and that the header's epoch was in such a
    /// file or in a message received (S-23).
    fn is_durable(&self, host: &Host, header: &BusHeader<'_>) -> Result<(), String> {
        let is_replica = header.flags.contains(NodeFlags::REPLICA);
        let is_said = |word: &OwnWord| {
            word.id == header.sender
                && word.is_replica == is_replica
                && if is_replica {
                    header.replica_of.is_none() || word.replica_of == header.replica_of
                } else {
                    word.epoch == header.config_epoch.0 && word.slots.bitmap() == header.slots
                }
        };
        if !host.words.iter().rev().any(is_said) {
            let slots = SlotSet::from_bitmap(header.slots);
            return Err(format!(
                "S-23: {} tells that it is {:?} of {:?} at epoch {} with {slots:?}, and no file of it says so",
                header.sender, header.flags, header.replica_of, header.config_epoch
            ));
        }
        let known = host.durable_epoch.max(host.heard_epoch);
        if header.current_epoch.0 > known {
            return Err(format!(
                "S-23: {} tells of epoch {}, which nobody has told it and no file says (at most {known})",
                header.sender, header.current_epoch
            ));
        }
        Ok(())
    }

    /// Checks that a voter votes for only one candidate in an epoch (S-21), and that a vote was in a durable
    /// file before it is sent (S-23).
    fn vote(&mut self, host: &Host, to: Option<NodeId>, header: &BusHeader<'_>) -> Result<(), String> {
        self.votes_given += 1;
        let (voter, epoch) = (header.sender, header.current_epoch.0);
        if host.durable_vote < epoch {
            return Err(format!(
                "S-23: {voter} votes in epoch {epoch}; its file has voted in {}",
                host.durable_vote
            ));
        }
        let Some(to) = to else { return Ok(()) };
        match self.votes.insert((voter, epoch), to) {
            Some(other) if other != to => {
                Err(format!("S-21: {voter} votes for {to} in epoch {epoch}, and has voted for {other}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that FAIL about a node is sent only if a quorum of voters has reported the node within two
    /// node timeouts and a second, or if another node answered at its address (F-4, F-5).
    fn has_quorum(
        &self,
        number: HostId,
        host: &Host,
        about: NodeId,
        (now_ns, timeout_ms): (u64, u64),
    ) -> Result<(), String> {
        let Some(view) = host.view() else { return Ok(()) };
        let Some(subject) = view.nodes.get(&about) else { return Ok(()) };
        if subject.is_nowhere {
            return Ok(());
        }
        // The allowance is for a clock that is off by a hundredth, and for the time between
        // arrival and handling.
        let limit_ns = (2 * timeout_ms + 1_000) * 1_020_000 + 1_000_000;
        let is_fresh = |voter: &NodeId| {
            let at = self.reports.get(&(number, *voter, about));
            at.is_some_and(|at| now_ns - at <= limit_ns)
        };
        // The node uses the number of voters at the end of its previous step (F-20). This check uses the
        // present number or the one before the last gossip about a failure, whichever is smaller. The report
        // of a node that was a voter then counts, too, because the message's extensions, which follow its
        // gossip, may have removed this node from the table (G-21).
        let now: BTreeSet<NodeId> = view.voters().copied().collect();
        let before = self.voters.get(&number).unwrap_or(&now);
        let votes = now.union(before).filter(|voter| **voter != view.me && is_fresh(voter)).count()
            + usize::from(view.own().is_voter());
        let size = now.len().min(before.len());
        if votes < size / 2 + 1 {
            return Err(format!("F-5: FAIL of {about} is told with {votes} reports of {size} voters"));
        }
        Ok(())
    }

    /// The id, if there is one, of a node in the view whose host belongs to another group than `group`.
    pub(super) fn strangers(&self, view: &View, group: usize, hosts: &[Host]) -> Option<NodeId> {
        let is_strange = |id: &&NodeId| self.ids.get(id).is_some_and(|host| hosts[*host].group != group);
        view.nodes.keys().find(is_strange).copied()
    }
}

/// The slots that a node owns in a map.
fn owned_by(map: &SlotMap, id: NodeId) -> SlotSet {
    let at = map.nodes.iter().zip(1_u16..).find(|(node, _)| node.id == id).map(|(_, at)| at);
    let mut slots = SlotSet::EMPTY;
    for (owner, slot) in map.owners.iter().zip(0_u16..) {
        if let Some(slot) = HashSlot::new(slot).filter(|_| Some(*owner) == at) {
            slots.insert(slot);
        }
    }
    slots
}

/// Whether a stock node has counted votes of another epoch, or a voter twice (D-2).
fn is_by_defect(epoch: u64, votes: &[(NodeId, u64)]) -> bool {
    let voters: BTreeSet<&NodeId> = votes.iter().map(|(voter, _)| voter).collect();
    voters.len() < votes.len() || votes.iter().any(|(_, of)| *of != epoch)
}
