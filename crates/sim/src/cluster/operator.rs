//! Operators: random commands in a storm (in a calm season only new names), and the repair after it, as by
//! `valkey-cli --cluster fix`.

use crate::cluster::act::{Failover, Order};
use crate::cluster::plan::Season;
use crate::cluster::sets;
use crate::cluster::view::{Opinion, Role, View};
use crate::cluster::world::World;
use sluice_cluster::{NodeId, SlotSet};
use std::collections::BTreeSet;

impl World {
    /// Sends a random command of an operator.
    pub(super) fn operate(&mut self, host: usize) -> Result<(), String> {
        let Some(view) = self.hosts[host].view() else { return Ok(()) };
        self.met.orders += 1;
        if self.plan.season == Season::Calm {
            return self.rename(host);
        }
        match self.rng.below(12) {
            0 => self.order(host, &Order::Bump).map(|_| ()),
            1 | 2 => self.contest(host, &view),
            3 | 4 => self.give(host, &view),
            5..=7 => self.fail_over(),
            8 => self.rename(host),
            9 => self.forget_everywhere(host, &view),
            10 => self.reset(host, &view),
            _ => {
                let other = self.rng.below(self.hosts.len() as u64) as usize;
                self.meet(host, other)
            }
        }
    }

    fn rename(&mut self, host: usize) -> Result<(), String> {
        let name = format!("name-{}", self.rng.below(1_000));
        self.configure(host, |settings| settings.announced.labels.human_name = name.into_bytes().into())
    }

    /// Makes a primary take a slot that it does not own in its view.
    fn contest(&mut self, host: usize, view: &View) -> Result<(), String> {
        if view.own().role != Role::Primary {
            return Ok(());
        }
        let theirs = sets::minus(&sets::range(0, 16_384), &view.own().slots);
        let drawn = self.rng.next_u64();
        // Half of the time a slot with keys is taken, if there is one, so that the node that loses the slot
        // has to delete the keys.
        let written = self.hosts.iter().fold(SlotSet::EMPTY, |all, host| sets::or(&all, &host.keys));
        let written = if drawn.is_multiple_of(2) { sets::and(&theirs, &written) } else { SlotSet::EMPTY };
        let slot = sets::pick(&written, drawn / 2).or_else(|| sets::pick(&theirs, drawn));
        let Some(slot) = slot else { return Ok(()) };
        self.met.contested += 1;
        let one = sets::range(slot.number(), slot.number() + 1);
        self.order(host, &Order::DelSlots(Box::new(one.clone())))?;
        self.order(host, &Order::AddSlots(Box::new(one)))?;
        if self.rng.below(2) == 0 {
            self.order(host, &Order::Bump)?;
        }
        Ok(())
    }

    /// Makes an owner give up some slots, and another node take one of them.
    fn give(&mut self, host: usize, view: &View) -> Result<(), String> {
        let slots = view.own().slots.clone();
        let Some(first) = sets::pick(&slots, self.rng.next_u64()) else { return Ok(()) };
        self.met.contested += 1;
        let some = sets::and(&slots, &sets::range(first.number(), first.number() + 3));
        self.order(host, &Order::DelSlots(Box::new(some)))?;
        let other = self.rng.below(self.hosts.len() as u64) as usize;
        if self.hosts[other].view().is_some_and(|view| view.own().role == Role::Primary) {
            let one = sets::range(first.number(), first.number() + 1);
            self.order(other, &Order::DelSlots(Box::new(one.clone())))?;
            self.order(other, &Order::AddSlots(Box::new(one)))?;
        }
        Ok(())
    }

    fn fail_over(&mut self) -> Result<(), String> {
        let replicas: Vec<usize> = (0..self.hosts.len())
            .filter(|host| {
                self.hosts[*host].view().is_some_and(|view| matches!(view.own().role, Role::Replica(Some(_))))
            })
            .collect();
        if replicas.is_empty() {
            return Ok(());
        }
        let replica = replicas[self.rng.below(replicas.len() as u64) as usize];
        let kinds = [Failover::Default, Failover::Default, Failover::Force, Failover::Takeover];
        let kind = kinds[self.rng.below(4) as usize];
        for _ in 0..1 + self.rng.below(2) {
            self.order(replica, &Order::Failover(kind))?;
        }
        Ok(())
    }

    fn forget_everywhere(&mut self, host: usize, view: &View) -> Result<(), String> {
        self.met.forgotten += 1;
        self.order_all(&Order::Forget(view.me), host)
    }

    /// Resets a node, but only if it has no slots, so that the cluster can still be repaired.
    fn reset(&mut self, host: usize, view: &View) -> Result<(), String> {
        if !view.own().slots.is_empty() {
            return Ok(());
        }
        self.met.resets += 1;
        let order = if self.rng.below(2) == 0 { Order::ResetSoft } else { Order::ResetHard };
        self.order(host, &order).map(|_| ())
    }

    /// Repairs a cluster that operators and lost files have divided, because nodes do not do that by
    /// themselves.
    pub(super) fn repair(&mut self) -> Result<(), String> {
        let timeout = self.plan.timeout_ms;
        if self.met.forgotten > 0 {
            // The repair first waits until the lists of forgotten nodes have expired, because nodes on them
            // are not admitted.
            self.run(self.plan.blacklist_ttl_s * 1_000 + 2_000)?;
        }
        self.run(4 * timeout + 2_500)?;
        for _ in 0..8 {
            if !self.repair_once()? {
                return Ok(());
            }
            self.met.repairs += 1;
            self.run(3 * timeout)?;
        }
        Ok(())
    }

    /// One round of repairs; `true` if something was repaired.
    fn repair_once(&mut self) -> Result<bool, String> {
        let views = self.views_of(0);
        let mut acted = self.restore_the_unsure(&views)?;
        let ids: BTreeSet<NodeId> = views.iter().map(|(_, view)| view.me).collect();
        for (host, view) in &views {
            for (id, node) in view.nodes.iter().filter(|(id, node)| !ids.contains(id) && !node.is_handshake) {
                acted = true;
                self.leave(*host, view, *id, &views)?;
                self.trace(|| format!("{id} is nobody: {:?}", node.role));
                self.order(*host, &Order::Forget(*id))?;
            }
        }
        if acted {
            // The lists of forgotten nodes expire before any node is met.
            self.run(self.plan.blacklist_ttl_s * 1_000 + 2_000)?;
            return Ok(true);
        }
        let Some((first, of_first)) = views.iter().max_by_key(|(_, view)| view.nodes.len()) else {
            return Ok(false);
        };
        for (host, view) in &views {
            // A link alone does not show that the node is reached, because a link that is being dialled to an
            // address without a host exists as well.
            let is_reached = of_first
                .nodes
                .get(&view.me)
                .is_some_and(|seen| *host == *first || (seen.has_link_out && seen.opinion == Opinion::Up));
            if !is_reached || !view.nodes.contains_key(&of_first.me) {
                acted = true;
                self.meet(*first, *host)?;
            }
        }
        if acted {
            return Ok(true);
        }
        Ok(self.cover(&views)? || self.attach_the_lost(&views)?)
    }

    /// Makes a replica of a node that no longer exists follow another primary, or resets the replica if it
    /// knows no other primary.
    fn leave(&mut self, host: usize, view: &View, id: NodeId, views: &[(usize, View)]) -> Result<(), String> {
        if view.own().role != Role::Replica(Some(id)) {
            return Ok(());
        }
        let primary = views.iter().find(|(other, of_other)| {
            *other != host && of_other.own().is_voter() && view.nodes.contains_key(&of_other.me)
        });
        match primary {
            Some((_, primary)) => self.order(host, &Order::Replicate(primary.me)).map(|_| ()),
            None => self.order(host, &Order::ResetSoft).map(|_| ()),
        }
    }

    /// Gives nodes whose own line was damaged their former role (N-26).
    fn restore_the_unsure(&mut self, views: &[(usize, View)]) -> Result<bool, String> {
        let mut acted = false;
        for (host, view) in views {
            let Some(was) = self.hosts[*host].was.take() else { continue };
            acted = true;
            self.hosts[*host].keys = SlotSet::EMPTY;
            match was.own().role {
                // The former primary must be a primary in the node's view, because otherwise the node
                // refuses to follow it.
                Role::Replica(Some(primary))
                    if views.iter().any(|(_, view)| view.me == primary)
                        && view.nodes.get(&primary).is_some_and(|seen| seen.role == Role::Primary) =>
                {
                    self.order(*host, &Order::Replicate(primary))?;
                }
                _ => {
                    self.order(*host, &Order::ResetSoft)?;
                    // The node gets a new epoch, because its own is lost and other nodes remember a higher
                    // one.
                    self.order(*host, &Order::Bump)?;
                }
            }
        }
        Ok(acted)
    }

    /// Gives slots without an owner to a primary, with an epoch that all nodes accept.
    fn cover(&mut self, views: &[(usize, View)]) -> Result<bool, String> {
        let mut claimed = SlotSet::EMPTY;
        for (_, view) in views.iter().filter(|(_, view)| view.own().role == Role::Primary) {
            claimed = sets::or(&claimed, &view.own().slots);
        }
        let missing = sets::minus(&sets::range(0, 16_384), &claimed);
        if missing.is_empty() {
            return Ok(false);
        }
        let primaries = views.iter().filter(|(_, view)| view.own().role == Role::Primary);
        let Some((host, view)) = primaries.max_by_key(|(host, view)| (view.own().slots.len(), *host)) else {
            return Err("no primary is left".to_owned());
        };
        let owned = view.nodes.values().fold(SlotSet::EMPTY, |all, node| sets::or(&all, &node.slots));
        let busy = sets::and(&owned, &missing);
        if !busy.is_empty() {
            self.order(*host, &Order::DelSlots(Box::new(busy)))?;
        }
        self.order(*host, &Order::AddSlots(Box::new(missing)))?;
        self.order(*host, &Order::Bump)?;
        Ok(true)
    }

    /// Gives a primary to replicas that know none.
    fn attach_the_lost(&mut self, views: &[(usize, View)]) -> Result<bool, String> {
        let mut acted = false;
        for (host, view) in views {
            let is_lost = match view.own().role {
                Role::Replica(None) => true,
                Role::Replica(Some(primary)) => !view.nodes.contains_key(&primary),
                _ => false,
            };
            let primary = views.iter().find(|(_, view)| view.own().is_voter());
            if let Some((_, primary)) = primary.filter(|_| is_lost) {
                acted = true;
                self.order(*host, &Order::Replicate(primary.me))?;
            }
        }
        Ok(acted)
    }
}
