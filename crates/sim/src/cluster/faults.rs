//! The faults of a storm, and the storm itself.

use crate::cluster::act::{File, Order};
use crate::cluster::clock::MS;
use crate::cluster::file::{self, Damage};
use crate::cluster::net::Delays;
use crate::cluster::queue::Event;
use crate::cluster::view::{Opinion, Role, View};
use crate::cluster::world::World;
use sluice_cluster::{NodeId, wire};
use std::net::Ipv4Addr;

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Crash,
    Cut,
    Kill,
    Freeze,
    Disk,
    Wall,
    Operator,
    Garbage,
    File,
    Address,
}

impl World {
    /// Runs a phase with all faults, then one without faults, in which all nodes must come to agree.
    pub(super) fn storm(&mut self) -> Result<(), String> {
        self.looks.writes = true;
        self.is_stormy = true;
        self.net.delays = self.plan.delays;
        self.queue.push(self.now_ns, Event::Fault);
        self.run(self.plan.storm_ms)?;
        self.heal()?;
        self.repair()?;
        self.wait_until("S-27", 20 * self.plan.timeout_ms, World::agree)?;
        self.no_stray_keys()?;
        self.met.agreed += 1;
        self.stays_bounded()?;
        self.drill()
    }

    /// Runs a phase with only delays and wrong clocks, in which no node may be suspected; then some nodes
    /// restart.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.queue.push(self.now_ns, Event::Fault);
        self.run(self.plan.storm_ms)?;
        self.met.calms += 1;
        self.plan.rates = Default::default();
        self.restart_some()?;
        self.wait_until("S-27", 20 * self.plan.timeout_ms, World::agree)
    }

    /// Checks that a node that restarts within eight tenths of the timeout becomes FAIL at no node (S-29).
    fn restart_some(&mut self) -> Result<(), String> {
        let (delays, late_ms) = (self.net.delays, self.plan.late_tick_ms);
        (self.net.delays, self.plan.late_tick_ms) = (Delays { usual_ms: 2, ..Delays::default() }, 0);
        // The messages that are still late arrive in this time.
        self.run(self.plan.timeout_ms)?;
        self.looks.bears_suspicion = true;
        for _ in 0..6 {
            let host = self.rng.below(self.hosts.len() as u64) as usize;
            let is_loud = self.rng.below(2) == 0;
            self.crash(host, is_loud);
            let away_ms = self.rng.below(self.plan.timeout_ms * 8 / 10 + 1);
            self.run(away_ms)?;
            self.start(host)?;
            self.met.restarts += 1;
            let pause_ms = self.plan.timeout_ms + self.rng.below(2 * self.plan.timeout_ms);
            self.run(pause_ms)?;
        }
        self.looks.bears_suspicion = false;
        (self.net.delays, self.plan.late_tick_ms) = (delays, late_ms);
        Ok(())
    }

    /// Ends all faults, and starts every node.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.trace(|| "nothing goes wrong any more".to_owned());
        self.is_stormy = false;
        self.plan.rates = Default::default();
        self.net.mend(|_, _| true, self.now_ns, &mut self.queue);
        self.net.delays.late_one_in = 0;
        self.net.delays.slow_one_in = 0;
        self.plan.disk_ms = self.plan.disk_ms.min(self.plan.timeout_ms / 4);
        for number in 0..self.hosts.len() {
            let host = &mut self.hosts[number];
            host.disk.is_full = false;
            host.frozen_ns = host.frozen_ns.min(self.now_ns);
            self.thaw(number)?;
            // All connections are closed, because slow ones would stay slow.
            for (conn, _) in self.net.of_host(number) {
                self.net.kill(conn, self.now_ns, (&mut self.rng, &mut self.queue));
            }
            self.start(number)?;
        }
        Ok(())
    }

    /// Causes one fault, drawn by the rates of the plan, and schedules the next one. Does nothing if all
    /// rates are 0.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        let rates = self.plan.rates;
        let all = [
            (Fault::Crash, rates.crash),
            (Fault::Cut, rates.cut),
            (Fault::Kill, rates.kill),
            (Fault::Freeze, rates.freeze),
            (Fault::Disk, rates.disk),
            (Fault::Wall, rates.wall),
            (Fault::Operator, rates.operator),
            (Fault::Garbage, rates.garbage),
            (Fault::File, rates.file),
            (Fault::Address, rates.address),
        ];
        let sum: u64 = all.iter().map(|(_, weight)| weight).sum();
        if sum == 0 {
            return Ok(());
        }
        let mut drawn = self.rng.below(sum);
        for (fault, weight) in all {
            if drawn < weight {
                self.strike(fault)?;
                break;
            }
            drawn -= weight;
        }
        let pause_ms = 50 + self.rng.below(self.plan.timeout_ms / 2);
        self.queue.push(self.now_ns + pause_ms * MS, Event::Fault);
        Ok(())
    }

    fn strike(&mut self, fault: Fault) -> Result<(), String> {
        let host = self.rng.below(self.hosts.len() as u64) as usize;
        self.trace(|| format!("{fault:?}, perhaps of node {host}"));
        match fault {
            Fault::Crash => self.fall(host),
            Fault::Cut => {
                self.cut_somebody(host);
                Ok(())
            }
            Fault::Kill => {
                if let Some(conn) = self.net.any(&mut self.rng) {
                    self.met.kills += 1;
                    self.net.kill(conn, self.now_ns, (&mut self.rng, &mut self.queue));
                }
                Ok(())
            }
            Fault::Freeze => {
                self.met.freezes += 1;
                let until_ns = self.now_ns + self.rng.below(5 * self.plan.timeout_ms) * MS;
                // A suspension does not shorten an earlier one that is still in progress, because waiting
                // events keep waiting until the end of the longer one.
                self.hosts[host].frozen_ns = self.hosts[host].frozen_ns.max(until_ns);
                Ok(())
            }
            Fault::Disk => {
                let until_ns = self.now_ns + self.rng.below(4 * self.plan.timeout_ms) * MS;
                self.hosts[host].disk.is_full = true;
                self.queue.push(until_ns, Event::DiskHeals(host));
                Ok(())
            }
            Fault::Wall => {
                if self.hosts[host].is_ours() {
                    self.met.wall_jumps += 1;
                    let hours = 3_600_000 * self.rng.below(5) as i64 - 7_200_000;
                    self.hosts[host].clock.wall_off_ms = hours + self.rng.below(3_000) as i64;
                }
                Ok(())
            }
            Fault::Operator => self.operate(host),
            Fault::Garbage => self.send_garbage(host),
            Fault::File => self.lose_file(host),
            Fault::Address => {
                self.met.moves += 1;
                self.fall(host)?;
                self.move_away(host);
                Ok(())
            }
        }
    }

    /// Ends a process, which starts again after a while.
    fn fall(&mut self, host: usize) -> Result<(), String> {
        let is_loud = self.rng.below(2) == 0;
        self.crash(host, is_loud);
        let after_ms = match self.rng.below(3) {
            0 => self.rng.below(200),
            _ => self.rng.below(5 * self.plan.timeout_ms),
        };
        self.queue.push(self.now_ns + after_ms * MS, Event::Start(host));
        Ok(())
    }

    /// Gives the host an address that no host had before.
    pub(super) fn move_away(&mut self, host: usize) {
        let [a, b, c, d] = self.hosts[host].ip.octets();
        self.hosts[host].ip = Ipv4Addr::new(a, b + 1, c, d);
    }

    /// Cuts a host off from all other hosts in both directions, or from one other host in one direction or in
    /// both.
    fn cut_somebody(&mut self, host: usize) {
        self.met.cuts += 1;
        let until_ns = self.now_ns + self.rng.below(5 * self.plan.timeout_ms) * MS;
        if self.rng.below(3) == 0 {
            for other in (0..self.hosts.len()).filter(|other| *other != host) {
                self.net.cut(host, other);
                self.net.cut(other, host);
            }
            return self.queue.push(until_ns, Event::Mend(host, None));
        }
        let other = self.rng.below(self.hosts.len() as u64) as usize;
        let both = self.rng.below(2) == 0;
        self.net.cut(host, other);
        self.queue.push(until_ns, Event::Mend(host, Some(other)));
        if both {
            self.net.cut(other, host);
            self.queue.push(until_ns, Event::Mend(other, Some(host)));
        }
    }

    /// Crashes a process, and removes its file or a part of the file.
    fn lose_file(&mut self, number: usize) -> Result<(), String> {
        if !self.is_alive(number) {
            return Ok(());
        }
        let view = self.hosts[number].view();
        self.fall(number)?;
        let damages = [Damage::Lost, Damage::Epochs, Damage::OwnLine];
        let damage = damages[self.rng.below(3) as usize];
        self.spoil(number, damage);
        if damage == Damage::OwnLine {
            self.hosts[number].was = self.hosts[number].was.take().or(view);
        }
        Ok(())
    }

    /// Damages the file of a node that does not run; a node that loses the whole file loses its keys, too. A
    /// stock node may lose its file, but gets no damaged one, which the reference could not read.
    pub(super) fn spoil(&mut self, number: usize, damage: Damage) {
        let host = &mut self.hosts[number];
        host.disk.file = match (&host.disk.file, damage) {
            (_, Damage::Lost) => {
                host.keys = sluice_cluster::SlotSet::EMPTY;
                None
            }
            (Some(File::Text(text)), _) => Some(File::Text(file::damage(text, damage).into())),
            (kept, _) => kept.clone(),
        };
        self.met.damaged_files += 1;
    }

    /// Sends a node of ours bytes that are no message, or a message with wrong bits, from a host that is no
    /// node. Bytes that a node cannot read must change nothing there (S-40).
    fn send_garbage(&mut self, number: usize) -> Result<(), String> {
        let Some(before) = self.hosts[number].view().filter(|_| self.hosts[number].is_ours()) else {
            return Ok(());
        };
        let mut bytes = b"RCmb\0\0\x0a\x00\0\x01\x18\xeb\0\0\0\0".to_vec();
        bytes.extend((0..2_544).map(|_| if self.rng.below(4) == 0 { self.rng.below(256) as u8 } else { 0 }));
        let flips = self.rng.below(4);
        for _ in 0..flips {
            let at = self.rng.below(64) as usize;
            bytes[at] ^= 1 << self.rng.below(8);
        }
        if wire::parse(&bytes).is_ok() {
            return Ok(());
        }
        self.met.garbage += 1;
        let now = self.hosts[number].clock.now(self.now_ns);
        let host = &mut self.hosts[number];
        let Some(link) = host.accept(now, Ipv4Addr::new(192, 0, 2, 1)) else { return Ok(()) };
        let cut = self.rng.below(bytes.len() as u64) as usize;
        for part in [&bytes[..cut], &bytes[cut..]] {
            self.step(number, |host, now| host.received(now, link, part))?;
        }
        self.step(number, |host, now| host.closed(now, link))?;
        let Some(after) = self.hosts[number].view() else { return Ok(()) };
        let same = before.current_epoch == after.current_epoch
            && before.nodes.len() == after.nodes.len()
            && before.nodes.iter().all(|(id, node)| {
                after.nodes.get(id).is_some_and(|other| {
                    (node.role, node.epoch, node.opinion) == (other.role, other.epoch, other.opinion)
                        && node.slots == other.slots
                })
            });
        if same { Ok(()) } else { Err(format!("S-40: garbage has changed node {number}")) }
    }

    /// Runs a drill, in which all nodes agree at first: a node dies (S-31), another one takes over, and the
    /// dead node comes back.
    fn drill(&mut self) -> Result<(), String> {
        let victim = self.rng.below(self.hosts.len() as u64) as usize;
        let Some(view) = self.hosts[victim].view() else { return Ok(()) };
        let id = view.me;
        let voters = view.voters().count();
        if view.own().is_voter() && voters - 1 < voters / 2 + 1 {
            return Ok(());
        }
        let timeout = self.plan.timeout_ms;
        // A stock node takes a replica for a primary for ever, if the replica was a primary of the shard
        // with a higher epoch than its present primary (E-16.2); it gives such a replica no vote.
        let mut views = self.views_of(0);
        views.retain(|(host, _)| !self.hosts[*host].is_ours());
        // The drill is left out if a stock replica has another map of the primary's slots than the primary,
        // because the replica takes over by its own map: a slot that this map gives to a replica of another
        // shard, with an epoch above the owner's, stays there for ever (E-12).
        let holds_less = |(_, heir): &(usize, View)| {
            heir.own().role == Role::Replica(Some(id)) && heir.nodes[&id].slots != view.own().slots
        };
        if views.iter().any(holds_less) {
            return Ok(());
        }
        let is_replica = |heir: NodeId| {
            views.iter().all(|(_, view)| {
                view.nodes.get(&heir).is_some_and(|node| node.role == Role::Replica(Some(id)))
            })
        };
        let has_heir = (0..self.hosts.len()).any(|host| {
            (!self.hosts[host].is_ours() || self.plan.hosts[host].stands)
                && self.hosts[host]
                    .view()
                    .is_some_and(|view| view.own().role == Role::Replica(Some(id)) && is_replica(view.me))
        });
        self.trace(|| format!("drill: node {victim} dies"));
        self.crash(victim, false);
        let fails = |world: &World| {
            let mut views = world.views_of(0).into_iter();
            match views
                .find(|(_, view)| view.nodes.get(&id).is_none_or(|node| node.opinion != Opinion::Failed))
            {
                Some((host, _)) => Err(format!("node {host} does not hold {id} for FAIL")),
                None => Ok(()),
            }
        };
        // The time limit covers the time until the last node marks PFAIL, until the reports of the other
        // nodes arrive, and until FAIL has reached all nodes.
        self.wait_until("S-31", 4 * timeout + 2_000, fails)?;
        if view.own().is_voter() && has_heir {
            let slots = view.own().slots.clone();
            let is_taken = |world: &World| {
                let views = world.views_of(0);
                let served = views
                    .iter()
                    .any(|(_, view)| view.own().slots == slots && view.own().role == Role::Primary);
                if served { Ok(()) } else { Err(format!("nobody has the slots of {id}")) }
            };
            self.wait_until("S-28", 24 * timeout, is_taken)?;
        }
        self.start(victim)?;
        self.wait_until("S-31, S-27 of a node that is back", 20 * timeout, World::agree)?;
        self.met.drills += 1;
        Ok(())
    }

    /// Checks that a node at rest sends no more pings and pongs than the number of nodes and the ping
    /// interval require, and no MEET (S-38).
    fn stays_bounded(&mut self) -> Result<(), String> {
        let window_ms = 4 * self.plan.timeout_ms;
        self.hosts.iter_mut().for_each(|host| host.sent = [0; 11]);
        self.run(window_ms)?;
        let interval_ms = if self.plan.ping_interval_ms > 0 {
            self.plan.ping_interval_ms
        } else {
            self.plan.timeout_ms / 2
        };
        // Nodes send pings at ticks, and up to half a tick before the interval is over.
        let interval_ms = interval_ms.saturating_sub(50).max(100);
        let known = self.hosts.len() as u64;
        for (number, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.is_ours()) {
            let most = known * (window_ms / interval_ms + 2) + window_ms / 1_000 + 2;
            let [pings, pongs, meets, ..] = host.sent;
            if pings > most || pongs > most + 2 * known || meets > 0 {
                return Err(format!(
                    "S-38: node {number} sends {:?} in {window_ms} ms, at most {most}",
                    host.sent
                ));
            }
        }
        Ok(())
    }

    /// Sends an order to all running nodes except `but`; the answers are not checked.
    pub(super) fn order_all(&mut self, order: &Order, but: usize) -> Result<(), String> {
        for host in 0..self.hosts.len() {
            if host != but && self.is_alive(host) {
                self.order(host, order)?;
            }
        }
        Ok(())
    }
}
