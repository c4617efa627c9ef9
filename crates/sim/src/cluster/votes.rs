//! Voters that are asked for a vote, crash between the vote and the write of their file, lose their epochs,
//! and are asked again (S-21).

use crate::cluster::act::Link;
use crate::cluster::file::Damage;
use crate::cluster::plan::Part;
use crate::cluster::view::View;
use crate::cluster::world::World;
use sluice_cluster::ClusterEpoch;
use sluice_cluster::wire::{self, BusHeader, BusMessage, MessageBody, MessageFlags, NodeFlags};

impl World {
    /// Runs rounds in which a voter is asked for its vote by two candidates in one epoch.
    pub(super) fn votes(&mut self) -> Result<(), String> {
        self.met.scenes += 1;
        for round in 0..6 {
            match round % 2 {
                0 => self.ask_twice()?,
                _ => self.ask_who_forgot()?,
            }
            self.heal()?;
            self.run(2_500 + 4 * self.plan.timeout_ms)?;
        }
        self.wait_until("S-27 after votes", 20 * self.plan.timeout_ms, World::agree)
    }

    fn ask_twice(&mut self) -> Result<(), String> {
        let is_primary = |host: &usize| self.plan.hosts[*host].part == Part::Primary;
        let voters: Vec<usize> = (0..self.hosts.len()).filter(is_primary).collect();
        let replicas: Vec<usize> = (0..self.hosts.len()).filter(|host| !is_primary(host)).collect();
        let voter = voters[self.rng.below(voters.len() as u64) as usize];
        let others = |voter: usize| voters.iter().copied().filter(move |other| *other != voter);
        let Some(view) = self.hosts[voter].view() else { return Ok(()) };
        let epoch = view.current_epoch + 1;
        let at = self.rng.below(replicas.len() as u64) as usize;
        let (first, second) = (replicas[at], replicas[(at + 1) % replicas.len()]);
        // Voter and replicas are cut off from all other nodes, which must not learn of the epoch.
        others(voter).for_each(|other| self.part(voter, other));
        for replica in &replicas {
            for host in (0..self.hosts.len()).filter(|host| *host != voter && host != replica) {
                self.part(*replica, host);
            }
        }
        self.canvass(first, voter, epoch)?;
        let wait_ms = self.rng.below(self.plan.disk_ms + 50);
        self.run(wait_ms)?;
        self.crash(voter, true);
        if self.rng.below(2) == 0 {
            self.spoil(voter, Damage::Epochs);
        }
        self.start(voter)?;
        // The voter then receives messages of some other voters. These may be fewer than it needs before it
        // votes again, or enough.
        let heard = self.rng.below(voters.len() as u64) as usize;
        for other in others(voter).take(heard).collect::<Vec<_>>() {
            self.join(voter, other);
        }
        let wait_ms = 2_100 + self.rng.below(6 * self.plan.timeout_ms);
        self.run(wait_ms)?;
        self.canvass(second, voter, epoch)?;
        self.run(self.plan.timeout_ms)
    }

    /// A voter that has helped a candidate to a majority loses its epochs. It then receives messages of
    /// voters that know nothing of that election, or no messages at all. Then another candidate asks for
    /// its vote in the same epoch.
    fn ask_who_forgot(&mut self) -> Result<(), String> {
        let (mut voters, replicas): (Vec<usize>, Vec<usize>) =
            (0..self.hosts.len()).partition(|host| self.plan.hosts[*host].part == Part::Primary);
        let majority = voters.len() / 2 + 1;
        let at = self.rng.below(voters.len() as u64) as usize;
        voters.rotate_left(at);
        let (helpers, others) = voters.split_at(majority);
        let at = self.rng.below(replicas.len() as u64) as usize;
        let (first, second) = (replicas[at], replicas[(at + 1) % replicas.len()]);
        let known = (0..self.hosts.len()).filter_map(|host| Some(self.hosts[host].view()?.current_epoch));
        let epoch = known.max().unwrap_or(0) + 1;
        // Only the nodes that take part in the election learn of it. Messages under way are lost, so
        // that no message of the new epoch waits for the end of a cut.
        for one in 0..self.hosts.len() {
            for other in (one + 1)..self.hosts.len() {
                let takes_part = |host: &usize| *host == first || helpers.contains(host);
                let is_open = takes_part(&one) && takes_part(&other) && (one == first || other == first);
                if !is_open {
                    self.part(one, other);
                    self.net.kill_between(one, other, self.now_ns, (&mut self.rng, &mut self.queue));
                }
            }
        }
        self.run(300)?;
        for helper in helpers {
            self.canvass(first, *helper, epoch)?;
        }
        self.run(self.plan.disk_ms + 50)?;
        let forgetful = helpers[0];
        self.crash(forgetful, true);
        self.spoil(forgetful, Damage::Epochs);
        self.part(first, forgetful);
        self.start(forgetful)?;
        let heard = self.rng.below(others.len() as u64 + 1) as usize;
        for other in &others[..heard] {
            self.join(forgetful, *other);
        }
        let wait_ms = (2 * self.plan.timeout_ms).max(2_000) + 2_200 + self.rng.below(self.plan.timeout_ms);
        self.run(wait_ms)?;
        self.join(forgetful, second);
        for _ in 0..4 * self.plan.timeout_ms / 100 {
            if self.link_to(second, forgetful).is_some() && self.link_to(forgetful, second).is_some() {
                break;
            }
            self.run(100)?;
        }
        self.run(200 + 4 * self.plan.delays.usual_ms)?;
        self.canvass(second, forgetful, epoch)?;
        self.run(self.plan.timeout_ms)
    }

    pub(super) fn part(&mut self, one: usize, other: usize) {
        self.net.cut(one, other);
        self.net.cut(other, one);
    }

    pub(super) fn join(&mut self, one: usize, other: usize) {
        let is_theirs = |from, to| (from, to) == (one, other) || (from, to) == (other, one);
        self.net.mend(is_theirs, self.now_ns, &mut self.queue);
    }

    /// A replica asks a voter for its vote in a manual failover, in an epoch that the replica has
    /// reached by itself.
    fn canvass(&mut self, replica: usize, voter: usize, epoch: u64) -> Result<(), String> {
        let Some(view) = self.hosts[replica].view() else { return Ok(()) };
        let Some(link) = self.link_to(replica, voter) else { return Ok(()) };
        let message = request(&view, epoch);
        let Some((conn, side)) = self.hosts[replica].links.get(&link).copied() else { return Ok(()) };
        self.trace(|| format!("node {replica} asks node {voter} for its vote in epoch {epoch}"));
        let message = std::sync::Arc::from(message);
        self.net.send((conn, side), &message, self.now_ns, (&mut self.rng, &mut self.queue));
        let durable = (self.hosts[voter].durable_epoch, self.hosts[voter].durable_vote);
        self.trace(|| format!("node {voter} has epoch and vote {durable:?} in its file"));
        self.run(5 + 2 * self.plan.delays.usual_ms)
    }

    /// A link that a host has dialled to another one; `None` if there is none.
    pub(super) fn link_to(&self, from: usize, to: usize) -> Option<Link> {
        let links = self.hosts[from].links.iter().filter(|(_, (_, side))| *side == 0);
        let mut to_other = links.filter(|(_, (conn, _))| {
            self.net.get(*conn).and_then(|conn| conn.ends[1]).is_some_and(|end| end.host == to)
        });
        to_other.next().map(|(link, _)| *link)
    }
}

fn request(view: &View, epoch: u64) -> Vec<u8> {
    let primary = match view.own().role {
        crate::cluster::view::Role::Replica(primary) => primary,
        _ => None,
    };
    let slots = primary.and_then(|primary| view.nodes.get(&primary)).map(|node| node.slots.clone());
    let slots = slots.unwrap_or(sluice_cluster::SlotSet::EMPTY);
    let header = BusHeader {
        current_epoch: ClusterEpoch(epoch),
        config_epoch: ClusterEpoch(view.own().epoch),
        offset: 1,
        sender: view.me,
        slots: slots.bitmap(),
        replica_of: primary,
        ip: "",
        port: 6_379,
        other_port: 0,
        bus_port: 16_379,
        flags: NodeFlags(0x1C12),
        is_down: false,
        message_flags: MessageFlags { force_ack: true, ..MessageFlags::default() },
    };
    let mut bytes = Vec::new();
    wire::write(&BusMessage::Full(header, MessageBody::AuthRequest), &mut bytes).unwrap_or_default();
    bytes
}
