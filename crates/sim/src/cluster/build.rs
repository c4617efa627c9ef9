//! Builds a cluster without faults: gives the nodes epochs and slots, lets them meet, and makes replicas.

use crate::cluster::act::Order;
use crate::cluster::plan::Part;
use crate::cluster::sets;
use crate::cluster::world::World;
use sluice_cluster::SLOT_COUNT;

impl World {
    /// Builds the clusters of the plan.
    pub(super) fn build(&mut self) -> Result<(), String> {
        self.run(2_500)?;
        let groups = self.hosts.iter().map(|host| host.group).max().unwrap_or(0) + 1;
        for group in 0..groups {
            self.share_slots(group)?;
        }
        self.run(self.plan.disk_ms + 100)?;
        let is_met_later = self.plan.season == crate::cluster::plan::Season::LostMeetings;
        for group in (0..groups).filter(|_| !is_met_later) {
            let members = self.members(group);
            for other in &members[1..] {
                self.meet(members[0], *other)?;
            }
        }
        let wait_ms = 3 * self.plan.timeout_ms.max(1_000) + 4 * self.plan.disk_ms + 500;
        if !is_met_later {
            self.wait_until("S-33", wait_ms, |world| world.have_met())?;
        } else {
            self.lose_meetings()?;
        }
        self.wait_until("S-27 of a new cluster", 20 * self.plan.timeout_ms, World::agree)?;
        if !self.plan.sets_epochs {
            self.greatest_has_not_moved()?;
        }
        self.attach_replicas()?;
        self.wait_until("S-27 with replicas", 20 * self.plan.timeout_ms, World::agree)
    }

    pub(super) fn members(&self, group: usize) -> Vec<usize> {
        (0..self.hosts.len()).filter(|host| self.hosts[*host].group == group).collect()
    }

    pub(super) fn meet(&mut self, from: usize, to: usize) -> Result<(), String> {
        let ip = self.hosts[to].ip.to_string();
        self.order(from, &Order::Meet(ip)).map(|_| ())
    }

    fn share_slots(&mut self, group: usize) -> Result<(), String> {
        let members = self.members(group);
        let is_primary = |host: &&usize| self.plan.hosts[**host].part == Part::Primary;
        let primaries: Vec<usize> = members.iter().filter(is_primary).copied().collect();
        if self.plan.sets_epochs {
            for (host, epoch) in members.iter().zip(1..) {
                self.order(*host, &Order::SetEpoch(epoch))?;
            }
        }
        let share = SLOT_COUNT.div_ceil(primaries.len() as u16);
        for (host, at) in primaries.into_iter().zip(0_u16..) {
            let slots = sets::range(at * share, (at + 1) * share);
            self.order(host, &Order::AddSlots(Box::new(slots)))?;
        }
        Ok(())
    }

    /// Checks that the node with the greatest id still has epoch 0, at which all nodes began (E-6).
    fn greatest_has_not_moved(&self) -> Result<(), String> {
        for group in [0, 1] {
            let views = self.views_of(group);
            let Some((_, view)) = views.iter().max_by_key(|(_, view)| view.me) else { continue };
            if view.own().epoch != 0 {
                return Err(format!("E-6: {} has the greatest id, and epoch {}", view.me, view.own().epoch));
            }
        }
        Ok(())
    }

    fn attach_replicas(&mut self) -> Result<(), String> {
        for number in 0..self.hosts.len() {
            let Part::ReplicaOf(primary) = self.plan.hosts[number].part else { continue };
            if let Some(id) = self.hosts[primary].id() {
                self.order(number, &Order::Replicate(id))?;
            }
        }
        Ok(())
    }

    /// For a while, each connection on which a MEET is sent is lost. The handshakes must still continue.
    fn lose_meetings(&mut self) -> Result<(), String> {
        self.run(self.plan.timeout_ms.max(1_000) + 500)?;
        self.net.eats_meets = true;
        for other in 1..self.hosts.len() {
            self.meet(0, other)?;
        }
        self.run(self.plan.timeout_ms.max(1_000) / 2)?;
        self.net.eats_meets = false;
        let wait_ms = 3 * self.plan.timeout_ms.max(1_000) + 4 * self.plan.disk_ms + 500;
        self.wait_until("S-33 after lost MEETs", wait_ms, |world| world.have_met())
    }

    /// Runs until `holds` returns no error. Errors: the last error of `holds` when the time is over.
    pub(super) fn wait_until(
        &mut self,
        what: &str,
        most_ms: u64,
        holds: impl Fn(&World) -> Result<(), String>,
    ) -> Result<(), String> {
        let step_ms = (self.plan.timeout_ms / 4).max(100);
        let mut waited_ms = 0;
        loop {
            match holds(self) {
                Ok(()) => return Ok(()),
                Err(why) if waited_ms >= most_ms => {
                    return Err(format!("{what}: not within {most_ms} ms: {why}"));
                }
                Err(_) => {}
            }
            self.run(step_ms)?;
            waited_ms += step_ms;
        }
    }
}
