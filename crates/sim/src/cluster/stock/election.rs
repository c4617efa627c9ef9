//! Elections and manual failovers (sections 5.4 to 5.6 and 6.1 of the specification).

use super::record::StockNode;
use super::state::{Election, Manual, Stock};
use crate::cluster::act::Act;
use crate::cluster::clock::written;
use sluice_cluster::NodeId;
use sluice_cluster::SlotSet;
use sluice_cluster::wire::{BusHeader, MessageBody, MessageFlags, MessageType, NodeFlags};

impl Stock {
    /// This node's replication offset (N-8). A primary's offset grows with time while writes are not paused;
    /// a replica has the offset that its primary sent last.
    pub(in crate::cluster) fn offset(&self) -> u64 {
        if self.own().has(NodeFlags::PRIMARY) {
            written(self.manual.paused_ms.unwrap_or(self.now))
        } else {
            self.own().offset
        }
    }

    /// A replica takes the offset in its primary's header. The first offset with the flag PAUSED is the goal
    /// that the replica must reach (M-4).
    pub(super) fn follow_offset(&mut self, sender: NodeId, header: &BusHeader<'_>) {
        if self.own().primary != Some(sender) {
            return;
        }
        self.own_mut().offset = header.offset;
        if header.message_flags.is_paused && self.manual.end.is_some() && self.manual.goal.is_none() {
            self.manual.goal = Some(header.offset);
            self.manual.can_start = true;
            self.todo.failover = true;
        }
    }

    pub(super) fn clear_manual(&mut self) {
        if self.manual.pauses_for.is_some() {
            self.out.push(Act::Unpause);
        }
        self.manual = Manual::default();
    }

    /// M6: ends a manual failover after its time limit, and pings the replica that the pause is for.
    pub(super) fn manual_tick(&mut self) {
        if self.manual.end.is_some_and(|end| self.now > end) {
            self.clear_manual();
        }
        let replica = self.manual.pauses_for.and_then(|id| self.nodes.get(&id)?.link_out);
        if let Some(number) = replica {
            self.gossip(number, MessageType::Ping);
        }
    }

    /// Handles MFSTART of a replica of this node (M-3).
    pub(super) fn pause_for(&mut self, number: u64, sender: NodeId) {
        if !self.own().has(NodeFlags::PRIMARY) || self.nodes[&sender].primary != Some(self.me) {
            return;
        }
        // A second request extends the pause of the first one, because no write is executed between the two
        // requests.
        let paused_ms = self.manual.paused_ms.unwrap_or(self.now);
        self.clear_manual();
        self.manual.end = Some(self.now + self.settings.manual_timeout_ms);
        self.manual.pauses_for = Some(sender);
        self.manual.paused_ms = Some(paused_ms);
        self.out.push(Act::Pause);
        self.gossip(number, MessageType::Ping);
    }

    /// Executes CLUSTER FAILOVER at this replica, with or without FORCE (M1, M7).
    pub(super) fn begin_manual(&mut self, is_forced: bool) {
        self.clear_manual();
        self.manual.end = Some(self.now + self.settings.manual_timeout_ms);
        if is_forced {
            self.manual.can_start = true;
        } else {
            self.ask_for_pause();
        }
        // The time 0 makes the next step schedule a new election (M-5).
        self.election.time = 0;
        self.todo.failover = true;
    }

    /// E-50, E-51: handles a request for this node's vote.
    pub(super) fn asked_for_vote(&mut self, candidate: NodeId, header: &BusHeader<'_>) {
        let may = self.own().is_voter()
            && self.health.is_safe_to_join
            && header.current_epoch.0 >= self.current_epoch
            && self.last_vote != self.current_epoch;
        let node = &self.nodes[&candidate];
        let primary = node.primary.and_then(|primary| self.nodes.get(&primary));
        let is_down = primary.is_some_and(|primary| primary.has(NodeFlags::FAIL));
        let may_win =
            node.has(NodeFlags::REPLICA) && primary.is_some() && (is_down || header.message_flags.force_ack);
        if !may || !may_win {
            return;
        }
        let slots = SlotSet::from_bitmap(header.slots);
        let newer = self.nodes.iter().find(|(_, owner)| {
            let claimed = crate::cluster::sets::minus(&owner.slots, &owner.unclaimed);
            owner.config_epoch > header.config_epoch.0
                && !crate::cluster::sets::and(&claimed, &slots).is_empty()
        });
        if let Some(owner) = newer.map(|(id, _)| *id) {
            return self.send_update(candidate, owner);
        }
        self.last_vote = self.current_epoch;
        self.todo.save = true;
        if let Some(number) = self.nodes[&candidate].link_out {
            self.send(number, &MessageBody::AuthAck);
        }
    }

    /// E-46 with its defect: a vote counts whether an election is open or not.
    pub(super) fn vote_came(&mut self, sender: NodeId, epoch: u64) {
        if self.nodes[&sender].is_voter() && epoch >= self.election.epoch {
            self.election.votes += 1;
            self.election.counted.push((sender, epoch));
            self.todo.failover = true;
        }
    }

    /// E-40 to E-47: schedules an election, asks for votes, and takes over with a majority.
    pub(super) fn failover(&mut self) {
        let own = self.own();
        let Some(primary) = own.primary.filter(|id| self.nodes.contains_key(id)) else { return };
        let is_down = self.nodes[&primary].has(NodeFlags::FAIL);
        if !own.has(NodeFlags::REPLICA) || !(is_down || self.manual.can_start) {
            return;
        }
        let timeout = self.settings.timeout_ms;
        let valid = (2 * timeout).max(2_000);
        let d = (timeout / 30).min(500);
        let is_over = self.election.time != 0 && self.now > self.election.time + 2 * valid;
        let mut is_new = false;
        if self.election.time == 0 || is_over {
            self.schedule(primary, d);
            is_new = true;
        }
        if !self.election.is_sent && !self.manual.can_start && !is_new {
            self.move_ranks(primary, d);
        }
        if self.now < self.election.time || self.now > self.election.time + valid {
            return;
        }
        if !self.election.is_sent {
            self.request_votes();
        } else if self.election.votes >= self.quorum() {
            let epoch = self.election.epoch;
            self.out.push(Act::Won { epoch, votes: self.election.counted.clone() });
            if self.own().config_epoch < epoch {
                self.own_mut().config_epoch = epoch;
            }
            self.take_over();
        }
    }

    /// E-42, E-43: sets the time of the next election by this replica's ranks.
    fn schedule(&mut self, primary: NodeId, d: u64) {
        let (rank, frank) = (self.rank(primary), self.frank());
        let jitter = self.rng.below(d + 1);
        let offset_wait = if self.offset() == 0 { 500 } else { 0 };
        let mut time = self.now + d + jitter + 2 * d * rank + offset_wait + d * frank;
        let is_best = rank == 0 && frank == 0 && self.offset() != 0 && self.all_mourn(primary);
        if self.manual.can_start || is_best {
            time = self.now;
        }
        self.election = Election {
            time,
            rank,
            frank,
            epoch: self.election.epoch,
            is_forced: self.manual.can_start || is_best,
            ..Election::default()
        };
        let siblings: Vec<u64> = self.siblings(primary).filter_map(|(_, node)| node.link_out).collect();
        for number in siblings {
            self.gossip(number, MessageType::Pong);
        }
    }

    /// The other replicas of this node's primary.
    fn siblings(&self, primary: NodeId) -> impl Iterator<Item = (&NodeId, &StockNode)> {
        self.nodes.iter().filter(move |(id, node)| **id != self.me && node.primary == Some(primary))
    }

    fn rank(&self, primary: NodeId) -> u64 {
        let mine = self.offset();
        let ahead = self.siblings(primary).filter(|(id, node)| {
            !node.has(NodeFlags::NOFAILOVER)
                && (node.offset > mine || (node.offset == mine && **id < self.me))
        });
        ahead.count() as u64
    }

    /// The number of failed voters that have a replica and whose shards precede this node's shard.
    fn frank(&self) -> u64 {
        let shard = self.own().shard;
        let ahead = self.nodes.iter().filter(|(id, node)| {
            node.is_voter()
                && node.has(NodeFlags::FAIL)
                && node.shard < shard
                && self.nodes.values().any(|replica| replica.primary == Some(**id))
        });
        ahead.count() as u64
    }

    /// Whether every replica of this node's primary reports that the primary has failed.
    fn all_mourn(&self, primary: NodeId) -> bool {
        let mut replicas = self.nodes.values().filter(|node| node.primary == Some(primary));
        replicas.all(|node| node.has(NodeFlags::MY_PRIMARY_FAIL))
    }

    /// E-44: moves a scheduled election when this replica's ranks change.
    fn move_ranks(&mut self, primary: NodeId, d: u64) {
        let (rank, frank) = (self.rank(primary), self.frank());
        let election = &mut self.election;
        let moved = |time: u64, from: u64, to: u64, step: u64| (time + step * to).saturating_sub(step * from);
        election.time = moved(election.time, election.rank, rank, 2 * d);
        election.time = moved(election.time, election.frank, frank, d).max(1);
        (election.rank, election.frank) = (rank, frank);
        if rank == 0 && frank == 0 && self.offset() != 0 && self.all_mourn(primary) {
            self.election.time = self.election.time.min(self.now);
            self.election.is_forced = true;
        }
    }

    /// E-45: asks all nodes for votes in a new epoch.
    fn request_votes(&mut self) {
        self.current_epoch += 1;
        self.election.epoch = self.current_epoch;
        self.election.is_sent = true;
        let flags = MessageFlags { force_ack: self.election.is_forced, ..MessageFlags::default() };
        self.tell_all(&MessageBody::AuthRequest, flags);
        self.todo.save = true;
    }

    /// E-55: becomes a primary with the slots of the former one.
    pub(super) fn take_over(&mut self) {
        let Some(old) = self.own().primary else { return };
        let slots = self.nodes.get_mut(&old).map(|old| std::mem::replace(&mut old.slots, SlotSet::EMPTY));
        let own = self.own_mut();
        own.become_primary();
        own.slots = slots.unwrap_or(SlotSet::EMPTY);
        self.clear_manual();
        self.election.time = 0;
        self.evaluate();
        self.todo.save = true;
        self.pong_to_all();
    }
}
