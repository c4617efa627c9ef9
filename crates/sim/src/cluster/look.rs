//! The checks that are repeated during a run, five times a second (half as often with more than ten nodes).

use crate::cluster::clock::MS;
use crate::cluster::plan::Season;
use crate::cluster::queue::Event;
use crate::cluster::sets;
use crate::cluster::view::{Opinion, Role, View};
use crate::cluster::world::World;
use sluice_cluster::SlotSet;

/// Milliseconds between two rounds of checks.
const LOOK_MS: u64 = 200;
/// Milliseconds for which a primary serves no slots after its start (F-21).
const JOIN_MS: u64 = 2_000;

impl World {
    pub(super) fn look(&mut self) -> Result<(), String> {
        let every_ms = if self.hosts.len() > 10 { 2 * LOOK_MS } else { LOOK_MS };
        self.queue.push(self.now_ns + every_ms * MS, Event::Look);
        let views: Vec<(usize, View)> =
            (0..self.hosts.len()).filter_map(|host| Some((host, self.hosts[host].view()?))).collect();
        for (host, view) in &views {
            self.ledger.ids.insert(view.me, *host);
            if self.hosts[*host].is_ours() && self.hosts[*host].frozen_ns <= self.now_ns {
                self.look_at(*host, view)?;
            }
            if self.plan.season == Season::Calm {
                nobody_is_failing(*host, view, self.looks.bears_suspicion)?;
            }
        }
        self.one_owner(&views)?;
        self.keeps_its_replicas()?;
        self.write_somewhere(&views);
        Ok(())
    }

    fn look_at(&mut self, host: usize, view: &View) -> Result<(), String> {
        // A new slot that the host's file does not have yet does not count as owned, because no other node
        // knows of the new owner, and requests for the slot wait.
        let held = self.without_postponed(host, &view.own().slots);
        for slot in sets::and(&self.hosts[host].keys, &held).iter() {
            self.hosts[host].held_at.insert(slot.number(), view.own().epoch);
        }
        self.serves_with_a_quorum(host, view)?;
        self.pause_ends(host)?;
        self.follows_the_living(host, view)?;
        if self.plan.season == Season::Swapped
            && let Some(id) = self.ledger.strangers(view, self.hosts[host].group, &self.hosts)
        {
            return Err(format!("S-32: node {host} knows {id} of the other cluster"));
        }
        let (links, known) = (self.hosts[host].links.len(), view.nodes.len());
        if links > 64 + 4 * known {
            return Err(format!("S-38: node {host} has {links} links with {known} nodes known"));
        }
        Ok(())
    }

    /// The longest time between two ticks in the plan, ms.
    fn late_ms(&self) -> u64 {
        self.plan.late_tick_ms + 100
    }

    /// Checks that a node serves slots only while it is in contact with a quorum of voters (S-24), and not
    /// before the delays after its start (F-21) and after its time in a minority (F-23).
    fn serves_with_a_quorum(&mut self, host: usize, view: &View) -> Result<(), String> {
        let timeout = self.plan.timeout_ms;
        let interval = if self.plan.ping_interval_ms > 0 { self.plan.ping_interval_ms } else { timeout / 2 };
        let limit_ms = timeout + 2 * interval + 4 * self.late_ms() + timeout / 20;
        let since_ns = self.now_ns.saturating_sub(limit_ms * MS);
        let voters = view.voters().count();
        let in_contact = view.voters().filter(|id| {
            let Some(other) = self.ledger.ids.get(id) else { return false };
            *other == host || self.ledger.heard.get(&(host, *other)).is_some_and(|at| *at >= since_ns)
        });
        let has_quorum = in_contact.count() > voters / 2;
        let serves = !view.served().is_empty();
        let record = &self.hosts[host];
        let up_ms = (self.now_ns - record.started_ns) / MS;
        let voters_ms = (self.now_ns - self.looks.voters_since(host, view.voters(), self.now_ns)) / MS;
        let thawed_ms = (self.now_ns - record.frozen_ns) / MS;
        let began = serves && !self.looks.served.insert(host, serves).unwrap_or(false);
        self.looks.served.insert(host, serves);
        if view.own().role != Role::Primary {
            // A replica that takes over serves at once: its time in the minority does not count (F-21, F-23).
            self.looks.minority.remove(&host);
            return Ok(());
        }
        if !serves {
            // The time in the minority begins only if the node knows voters, and after the delay of F-21,
            // in which a node does not look for a majority.
            let is_judged = up_ms > limit_ms.max(JOIN_MS * 102 / 100 + LOOK_MS);
            if !has_quorum && voters > 0 && is_judged && thawed_ms > limit_ms {
                self.looks.minority.insert(host, self.now_ns);
            }
            return Ok(());
        }
        if up_ms * 102 / 100 + LOOK_MS < JOIN_MS && !record.serves_at_once {
            return Err(format!("F-21: node {host} serves {up_ms} ms after its start"));
        }
        // After a long suspension a node may have had no answer from any other, so it must wait as after a
        // minority (F-23).
        if let Some(at) = record.stood_until_ns
            && voters > 1
            && (self.now_ns - at) / MS < timeout.clamp(500, 5_000) * 97 / 100
        {
            return Err(format!(
                "S-24: node {host} serves {} ms after it stood still",
                (self.now_ns - at) / MS
            ));
        }
        // A node notices that no other node answers only one node timeout after its start, after a short
        // suspension, or after it learned of a voter. Therefore none of these events may be recent.
        if !has_quorum && up_ms > limit_ms && thawed_ms > limit_ms && voters_ms > limit_ms {
            let heard = view.voters().filter_map(|id| self.ledger.ids.get(id)).map(|other| {
                let at = self.ledger.heard.get(&(host, *other));
                (*other, at.map(|at| (self.now_ns - at) / MS))
            });
            return Err(format!(
                "S-24: node {host} serves without a quorum of {voters} voters; of these it heard so many ms ago: \
                 {:?}; up for {up_ms}, thawed for {thawed_ms}, limit {limit_ms}",
                heard.collect::<Vec<_>>()
            ));
        }
        let rejoin_ms = timeout.clamp(500, 5_000) * 97 / 100;
        let minority_ns = self.looks.minority.get(&host).copied().unwrap_or(0).max(record.started_ns);
        let waited_ms = (self.now_ns - minority_ns) / MS;
        let was_out = self.looks.minority.get(&host).is_some_and(|at| *at > record.started_ns);
        // The tolerance includes a late tick, because the node's own last check may be earlier than this one.
        let tolerance_ms = 3 * LOOK_MS + timeout / 20 + self.plan.late_tick_ms;
        if began && was_out && waited_ms + tolerance_ms < rejoin_ms {
            return Err(format!("F-23: node {host} serves {waited_ms} ms after it was in a minority"));
        }
        Ok(())
    }

    /// Checks that a pause of writes ends in time (S-36).
    fn pause_ends(&self, host: usize) -> Result<(), String> {
        let Some(since_ns) = self.hosts[host].paused_ns else { return Ok(()) };
        let paused_ms = (self.now_ns - since_ns) / MS;
        let frozen_ms = self.hosts[host].frozen_ns.saturating_sub(since_ns) / MS;
        if paused_ms > 10_000 + frozen_ms + 4 * self.late_ms() {
            return Err(format!("S-36: node {host} pauses for {paused_ms} ms"));
        }
        Ok(())
    }

    /// Checks that no replica keeps following a FAIL primary while its shard has another primary with slots
    /// (S-35).
    fn follows_the_living(&mut self, host: usize, view: &View) -> Result<(), String> {
        let Role::Replica(Some(primary)) = view.own().role else {
            self.looks.follows_dead.remove(&host);
            return Ok(());
        };
        let is_dead = view.nodes.get(&primary).is_some_and(|node| node.opinion == Opinion::Failed);
        let shard = view.own().shard;
        let other = view.nodes.iter().find(|(id, node)| {
            **id != primary && node.is_voter() && node.shard == shard && node.opinion == Opinion::Up
        });
        let Some((other, _)) = other.filter(|_| is_dead) else {
            self.looks.follows_dead.remove(&host);
            return Ok(());
        };
        let since_ns = *self.looks.follows_dead.entry(host).or_insert(self.now_ns);
        if self.now_ns - since_ns > 6 * self.plan.timeout_ms * MS {
            return Err(format!("S-35: node {host} follows {primary}, which is FAIL, and not {other}"));
        }
        Ok(())
    }

    /// Checks that no replica leaves a primary that then has fewer replicas than it must keep (S-37). Node
    /// 0 of the scene has three replicas, and loses at most one more by a crash.
    fn keeps_its_replicas(&mut self) -> Result<(), String> {
        if self.plan.season != Season::Orphaned {
            return Ok(());
        }
        let left = self.followers()[0].len();
        self.looks.most_followers = self.looks.most_followers.max(left);
        if self.looks.most_followers == 3 && left < self.plan.migration_barrier {
            return Err(format!("S-37: node 0 keeps {left} replicas"));
        }
        Ok(())
    }

    /// Checks that two nodes that exchange messages do not serve one slot at one epoch for long (S-22).
    fn one_owner(&mut self, views: &[(usize, View)]) -> Result<(), String> {
        let limit_ns = (10 * self.plan.timeout_ms + 2 * self.plan.disk_ms) * MS;
        for (at, (one, of_one)) in views.iter().enumerate() {
            for (other, of_other) in &views[at + 1..] {
                let talk = |a: &View, b: &View| {
                    a.nodes.get(&b.me).is_some_and(|seen| seen.has_link_out && seen.opinion == Opinion::Up)
                };
                let is_quiet = self.net.is_cut(*one, *other) || self.net.is_cut(*other, *one);
                let both = of_one.own().epoch == of_other.own().epoch
                    && !sets::and(&of_one.served(), &of_other.served()).is_empty();
                if !both || is_quiet || !talk(of_one, of_other) || !talk(of_other, of_one) {
                    self.looks.two_owners.remove(&(*one, *other));
                    continue;
                }
                let since_ns = *self.looks.two_owners.entry((*one, *other)).or_insert(self.now_ns);
                if self.now_ns - since_ns > limit_ns {
                    return Err(format!("S-22: nodes {one} and {other} serve a slot at one epoch"));
                }
            }
        }
        Ok(())
    }

    /// A client writes a key to a node of ours that serves the key's slot.
    fn write_somewhere(&mut self, views: &[(usize, View)]) {
        if !self.looks.writes || views.is_empty() {
            return;
        }
        let (host, view) = &views[self.rng.below(views.len() as u64) as usize];
        let slot = sets::pick(&self.without_postponed(*host, &view.served()), self.rng.next_u64());
        if let Some(slot) = slot.filter(|_| self.hosts[*host].is_ours()) {
            self.hosts[*host].keys.insert(slot);
        }
    }

    /// The given slots without those that the host's file does not have yet, because requests for these wait.
    fn without_postponed(&self, host: usize, slots: &SlotSet) -> SlotSet {
        match &self.hosts[host].map {
            Some(map) => sets::minus(slots, &map.postponed),
            None => slots.clone(),
        }
    }

    /// Deletes a node's keys in these slots. Checks that another node owns them with a higher epoch than this
    /// node had when it owned them (S-34). This node's present epoch may be higher, because of other slots.
    pub(super) fn empty(&mut self, host: usize, slots: &SlotSet) -> Result<(), String> {
        self.met.emptied += 1;
        let Some(view) = self.hosts[host].view() else { return Ok(()) };
        let gone = sets::and(&self.hosts[host].keys, slots);
        for slot in gone.iter() {
            let owner = view.nodes.iter().find(|(_, node)| node.slots.contains(slot));
            // The present epoch is used if it is the lower one, because a reset lowers the epoch.
            let held_at = self.hosts[host].held_at.get(&slot.number()).copied();
            let held_at = held_at.map_or(view.own().epoch, |at| at.min(view.own().epoch));
            let is_right = owner.is_some_and(|(id, node)| *id != view.me && node.epoch > held_at);
            if !is_right {
                let owner = owner.map(|(id, node)| (*id, node.epoch));
                return Err(format!(
                    "S-34: node {host}, which held slot {} at epoch {held_at}, deletes its keys: {owner:?}",
                    slot.number()
                ));
            }
        }
        self.hosts[host].keys = sets::minus(&self.hosts[host].keys, slots);
        Ok(())
    }

    /// Checks at the end that no primary has keys in slots of other owners (S-34).
    pub(super) fn no_stray_keys(&self) -> Result<(), String> {
        for (number, host) in self.hosts.iter().enumerate() {
            let Some(view) = host.view().filter(|view| view.own().role == Role::Primary) else { continue };
            let strays = sets::minus(&host.keys, &view.own().slots);
            if !strays.is_empty() {
                return Err(format!("S-34: node {number} keeps keys of {strays:?}, which it does not own"));
            }
        }
        Ok(())
    }
}

/// Checks that no node is FAIL, and that no node is suspected unless `bears_suspicion` is set (S-29, S-30).
fn nobody_is_failing(host: usize, view: &View, bears_suspicion: bool) -> Result<(), String> {
    let is_borne = |opinion| opinion == Opinion::Up || (bears_suspicion && opinion == Opinion::Suspected);
    match view.nodes.iter().find(|(_, node)| !is_borne(node.opinion)) {
        Some((id, node)) => Err(format!("S-29: node {host} holds {id} for {:?}", node.opinion)),
        None => Ok(()),
    }
}
