//! Scenes: addresses that change, nodes that are forgotten and come back, old messages, claims at one epoch,
//! primaries that lose their replicas.

use crate::cluster::act::Order;
use crate::cluster::clock::MS;
use crate::cluster::plan::{Season, Share};
use crate::cluster::sets;
use crate::cluster::view::{Opinion, Role};
use crate::cluster::world::World;

impl World {
    pub(super) fn scene(&mut self, season: Season) -> Result<(), String> {
        self.met.scenes += 1;
        match season {
            Season::Moved { moved, .. } => self.all_move(moved),
            Season::Swapped => self.swap_clusters(),
            Season::Shuffled => self.shuffle(),
            Season::Forgotten => self.forget_one(),
            Season::Replaced => self.replace_one(),
            Season::LateWords => self.late_words(),
            Season::OneEpoch => self.claim_at_one_epoch(),
            Season::Orphaned => self.orphan_two(),
            Season::ByHand => self.hand_over(),
            // These seasons have no scene; the MEETs of `LostMeetings` are lost while the cluster is built.
            Season::LostMeetings | Season::Storm | Season::Calm | Season::Votes => Ok(()),
        }
    }

    /// Ends all processes, changes addresses by `change`, and starts them again.
    fn start_elsewhere(&mut self, change: impl FnOnce(&mut World)) -> Result<(), String> {
        let is_loud = self.rng.below(2) == 0;
        (0..self.hosts.len()).for_each(|host| self.crash(host, is_loud));
        change(self);
        for host in 0..self.hosts.len() {
            let wait_ms = self.rng.below(self.plan.timeout_ms);
            self.run(wait_ms / 4)?;
            self.start(host)?;
        }
        Ok(())
    }

    /// All nodes of a cluster, or half of them, start at new addresses, as pods do (D14).
    fn all_move(&mut self, moved: Share) -> Result<(), String> {
        self.start_elsewhere(|world| {
            for host in (0..world.hosts.len()).filter(|host| moved.has(*host)) {
                world.met.moves += 1;
                world.move_away(host);
            }
        })?;
        self.wait_until("S-27 at new addresses", 20 * self.plan.timeout_ms + 2_000, World::agree)
    }

    /// Two clusters start at each other's addresses (D10).
    fn swap_clusters(&mut self) -> Result<(), String> {
        self.start_elsewhere(|world| {
            let (one, other) = (world.members(0), world.members(1));
            for (one, other) in one.into_iter().zip(other) {
                world.met.moves += 2;
                let ip = world.hosts[one].ip;
                world.hosts[one].ip = std::mem::replace(&mut world.hosts[other].ip, ip);
            }
        })?;
        self.wait_until("S-27 at swapped addresses", 24 * self.plan.timeout_ms + 2_000, World::agree)
    }

    /// Half of the nodes exchange their addresses, and the scene checks that no living node is FAIL for
    /// long.
    fn shuffle(&mut self) -> Result<(), String> {
        let half = self.hosts.len().div_ceil(2).max(2);
        for host in 0..half {
            self.met.moves += 1;
            for (conn, _) in self.net.of_host(host) {
                self.net.kill(conn, self.now_ns, (&mut self.rng, &mut self.queue));
            }
        }
        let first = self.hosts[0].ip;
        for host in 0..half - 1 {
            self.hosts[host].ip = self.hosts[host + 1].ip;
        }
        self.hosts[half - 1].ip = first;
        self.nobody_fails_for_long()?;
        self.wait_until("S-27 after a shuffle", 20 * self.plan.timeout_ms, World::agree)
    }

    fn nobody_fails_for_long(&mut self) -> Result<(), String> {
        let mut since = std::collections::BTreeMap::new();
        for _ in 0..120 {
            self.run(self.plan.timeout_ms / 10)?;
            for (host, view) in self.views_of(0) {
                for (id, node) in &view.nodes {
                    if node.opinion != Opinion::Failed {
                        since.remove(&(host, *id));
                        continue;
                    }
                    let since_ns = *since.entry((host, *id)).or_insert(self.now_ns);
                    let failed_ms = (self.now_ns - since_ns) / MS;
                    if failed_ms > self.plan.timeout_ms {
                        return Err(format!(
                            "node {host} holds {id}, which lives, for FAIL for {failed_ms} ms"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// A node that all others have forgotten tries to come back by itself. It is admitted neither while it is
    /// on the lists of forgotten nodes nor later (S-32). After a reset it may be met.
    fn forget_one(&mut self) -> Result<(), String> {
        let last = self.hosts.len() - 1;
        let Some(id) = self.hosts[last].id() else { return Ok(()) };
        self.met.forgotten += 1;
        self.order_all(&Order::Forget(id), last)?;
        let is_unknown = |world: &World| {
            let mut views = world.views_of(0).into_iter().filter(|(host, _)| *host != last);
            match views.find(|(_, view)| view.nodes.contains_key(&id)) {
                Some((host, _)) => Err(format!("S-32: node {host} knows {id} again")),
                None => Ok(()),
            }
        };
        let listed_ms = self.plan.blacklist_ttl_s * 1_000;
        for at_ms in (0..listed_ms + 12 * self.plan.timeout_ms).step_by(100) {
            // The forgotten node is sometimes ordered to meet another one, too. Its MEET then has an id that
            // is on the list of forgotten nodes.
            if self.rng.below(20) == 0 && at_ms + self.plan.timeout_ms + 1_000 < listed_ms {
                let to = self.rng.below(last as u64) as usize;
                self.meet(last, to)?;
            }
            self.run(100)?;
            is_unknown(self)?;
        }
        self.order(last, &Order::ResetSoft)?;
        self.run(self.plan.disk_ms + 500)?;
        self.meet(0, last)?;
        self.come_back(last)
    }

    /// Repairs the cluster after a member has come back without slots and role, while other nodes have its
    /// former slots.
    fn come_back(&mut self, host: usize) -> Result<(), String> {
        self.run(3 * self.plan.timeout_ms)?;
        self.repair()?;
        self.wait_until("S-27 after a return", 20 * self.plan.timeout_ms, World::agree)?;
        self.trace(|| format!("node {host} is back"));
        Ok(())
    }

    /// Removes a node and adds it again at once: all others forget it, it is reset, and met.
    fn replace_one(&mut self) -> Result<(), String> {
        let last = self.hosts.len() - 1;
        let Some(id) = self.hosts[last].id() else { return Ok(()) };
        let hard = self.rng.below(2) == 0;
        self.met.resets += 1;
        self.order_all(&Order::Forget(id), last)?;
        self.order(last, if hard { &Order::ResetHard } else { &Order::ResetSoft })?;
        let wait_ms = self.rng.below(300);
        self.run(wait_ms)?;
        self.meet(0, last)?;
        self.come_back(last)
    }

    /// Two primaries lose their only replicas. Replicas of the third primary, which has three, move to them
    /// one by one until the third has only as many as it must keep (S-37). Then the dead nodes come back.
    fn orphan_two(&mut self) -> Result<(), String> {
        let timeout = self.plan.timeout_ms;
        let barrier = self.plan.migration_barrier;
        // Nodes 3 to 5 follow node 0, 6 follows 1, and 7 follows 2. One of the replicas of node 0 may be
        // dead (D16) only if all of them are ours, because a stock replica would wait for the dead one to
        // move.
        let others = (3..6).filter(|host| self.hosts[*host].is_ours());
        let is_ours = others.count() == 3;
        let dead =
            (is_ours && barrier == 1 && self.rng.below(2) == 0).then(|| 3 + self.rng.below(3) as usize);
        if let Some(dead) = dead {
            self.crash(dead, true);
        }
        let (first, second) = (6 + self.rng.below(2) as usize, self.rng.below(4_000));
        let is_loud = self.rng.below(2) == 0;
        self.crash(first, is_loud);
        self.run(second)?;
        self.crash(13 - first, !is_loud);
        let most = 3 - barrier - usize::from(dead.is_some());
        let are_moved = |world: &World| match world.followers().map(|of| of.len()) {
            [_, one, other] if usize::from(one > 0) + usize::from(other > 0) >= most.min(2) => Ok(()),
            counts => Err(format!("primaries have {counts:?} replicas that live")),
        };
        self.wait_until("S-37", 10_000 + 8 * timeout, are_moved)?;
        self.met.migrated += most.min(2) as u64;
        self.run(10_000 + 4 * timeout)?;
        for host in dead.into_iter().chain([6, 7]) {
            self.start(host)?;
        }
        self.wait_until("S-27 after replicas have moved", 20 * timeout + 10_000, World::agree)
    }

    /// The running replicas of nodes 0, 1 and 2, by their own view.
    pub(super) fn followers(&self) -> [Vec<usize>; 3] {
        let ids = [0, 1, 2].map(|host: usize| self.hosts[host].id());
        ids.map(|id| {
            let follows = |host: &usize| {
                let role = self.hosts[*host].view().map(|view| view.own().role);
                id.is_some() && role == Some(Role::Replica(id))
            };
            (0..self.hosts.len()).filter(follows).collect()
        })
    }

    /// Two primaries that are cut off from each other take the same epoch, and one of them takes a slot of
    /// the other. Neither yields to an equal epoch. The collision changes one of the epochs, and the node
    /// with the higher one gets the slot (E-6, E-10).
    fn claim_at_one_epoch(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            let views = self.views_of(0);
            let highest = views.iter().map(|(_, view)| view.current_epoch).max().unwrap_or(0);
            // Only nodes below the highest epoch are used, because BUMPEPOCH changes nothing at a node that
            // has the highest epoch.
            let mut able: Vec<usize> = Vec::new();
            for (host, view) in &views {
                if view.own().is_voter() && view.own().epoch < highest && view.current_epoch == highest {
                    able.push(*host);
                }
            }
            let [first, .., second] = able[..] else { return Err("no two primaries can collide".to_owned()) };
            let swaps = self.rng.below(2) == 0;
            let (taker, owner) = if swaps { (second, first) } else { (first, second) };
            let slots = self.hosts[owner].view().map(|view| view.own().slots.clone());
            let slot = slots.and_then(|slots| sets::pick(&slots, self.rng.next_u64()));
            let Some(slot) = slot else { return Err("an owner without slots".to_owned()) };
            for host in (0..self.hosts.len()).filter(|host| *host != taker && *host != owner) {
                self.part(taker, host);
                self.part(owner, host);
            }
            self.part(taker, owner);
            let one = Box::new(sets::range(slot.number(), slot.number() + 1));
            self.order(taker, &Order::DelSlots(one.clone()))?;
            self.order(taker, &Order::AddSlots(one))?;
            self.order(taker, &Order::Bump)?;
            self.order(owner, &Order::Bump)?;
            let epochs = [taker, owner].map(|host| self.hosts[host].view().map(|view| view.own().epoch));
            if epochs[0] != epochs[1] {
                return Err(format!("two epochs for one: {epochs:?}"));
            }
            self.met.contested += 1;
            self.run(2 * self.plan.disk_ms + self.plan.timeout_ms / 2)?;
            self.net.mend(|_, _| true, self.now_ns, &mut self.queue);
            self.run(self.plan.timeout_ms)?;
            self.wait_until("S-27 after claims at one epoch", 20 * self.plan.timeout_ms, World::agree)?;
            self.no_stray_keys()?;
        }
        Ok(())
    }

    /// A replica's messages from before its promotion arrive after the news of the promotion, on the
    /// replica's own connection (W-15). The old primary stays dead, and its other replicas follow the new one
    /// (V#3468).
    fn late_words(&mut self) -> Result<(), String> {
        let timeout = self.plan.timeout_ms;
        let candidate = self
            .plan
            .hosts
            .iter()
            .position(|host| host.is_stock && host.part != crate::cluster::plan::Part::Primary);
        let Some(candidate) = candidate else { return Ok(()) };
        for host in (0..self.hosts.len()).filter(|host| *host != candidate) {
            let way_ns = (timeout + self.rng.below(timeout)) * MS;
            if self.hosts[host].view().is_some_and(|view| matches!(view.own().role, Role::Replica(_))) {
                self.net.slow_ways.insert((candidate, host), way_ns);
            }
        }
        self.run(3 * timeout)?;
        self.crash(0, false);
        self.run(20 * timeout)?;
        let views = self.views_of(0);
        let winner = views.iter().find(|(host, _)| *host == candidate).map(|(_, view)| view.me);
        let is_won = views.iter().any(|(host, view)| *host == candidate && view.own().is_voter());
        if !is_won {
            return Err("S-28: nobody has taken over".to_owned());
        }
        for (host, view) in &views {
            if let Role::Replica(primary) = view.own().role
                && primary != winner
            {
                return Err(format!("S-35: node {host} follows {primary:?}, and not {winner:?}"));
            }
        }
        self.net.slow_ways.clear();
        self.heal()?;
        self.wait_until("S-27 after late words", 20 * timeout, World::agree)
    }
}
