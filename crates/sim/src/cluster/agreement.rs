//! Checks whether nodes agree (S-27, S-33): their views of each other, and their files.

use crate::cluster::act::File;
use crate::cluster::host::Host;
use crate::cluster::sets;
use crate::cluster::view::{Opinion, Role, SeenNode, View};
use crate::cluster::world::World;
use sluice_cluster::{NodeId, SavedRole, SlotSet};
use std::collections::{BTreeMap, BTreeSet};

impl World {
    /// The views of the running nodes of a group.
    pub(super) fn views_of(&self, group: usize) -> Vec<(usize, View)> {
        let members = self.members(group).into_iter();
        members.filter_map(|host| Some((host, self.hosts[host].view()?))).collect()
    }

    fn groups(&self) -> usize {
        self.hosts.iter().map(|host| host.group).max().unwrap_or(0) + 1
    }

    /// Checks that each node knows every other node of its group by its real id, with two links (S-33).
    pub(super) fn have_met(&self) -> Result<(), String> {
        for group in 0..self.groups() {
            let views = self.views_of(group);
            for (host, view) in &views {
                for (other, of_other) in &views {
                    let Some(seen) = view.nodes.get(&of_other.me) else {
                        return Err(format!("node {host} does not know node {other}"));
                    };
                    if host != other && !(seen.has_link_out && seen.has_link_in) {
                        let (out, back) = (seen.has_link_out, seen.has_link_in);
                        return Err(format!("node {host} has links {out} {back} with node {other}"));
                    }
                }
                if let Some(id) = view.nodes.iter().find(|(_, node)| node.is_handshake).map(|(id, _)| id) {
                    return Err(format!("node {host} is in handshake with {id}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that all nodes of each group have the same view, also in their files (S-27).
    pub(super) fn agree(&self) -> Result<(), String> {
        self.have_met()?;
        for group in 0..self.groups() {
            let views = self.views_of(group);
            let own: BTreeMap<NodeId, &SeenNode> =
                views.iter().map(|(_, view)| (view.me, view.own())).collect();
            let stock: BTreeSet<NodeId> = views
                .iter()
                .filter(|(host, _)| !self.hosts[*host].is_ours())
                .map(|(_, view)| view.me)
                .collect();
            let told_beyond = self.hosts.iter().filter(|host| host.told_beyond_file);
            let beyond: BTreeSet<NodeId> = told_beyond.filter_map(Host::id).collect();
            distinct_epochs(&own)?;
            let covered: u32 =
                own.values().filter(|node| node.is_voter()).map(|node| u32::from(node.slots.len())).sum();
            for (host, view) in &views {
                agrees(*host, view, &own, (&stock, &beyond))?;
                if covered == 16_384 && !view.is_ok && view.stuck.is_empty() {
                    return Err(format!("node {host} holds the cluster for down"));
                }
                self.file_agrees(*host, view)?;
            }
            self.no_twins(&own, &stock)?;
        }
        Ok(())
    }

    /// Checks that no node of ours without slots and keys stays a primary if another primary of its shard has
    /// slots or a higher epoch (D-7).
    fn no_twins(&self, own: &BTreeMap<NodeId, &SeenNode>, stock: &BTreeSet<NodeId>) -> Result<(), String> {
        let primaries = || own.iter().filter(|(_, node)| node.role == Role::Primary);
        for (id, node) in primaries().filter(|(id, node)| !stock.contains(id) && node.slots.is_empty()) {
            let has_keys = self.hosts.iter().any(|host| host.id() == Some(*id) && !host.keys.is_empty());
            let above = primaries().find(|(_, other)| {
                other.shard == node.shard && (!other.slots.is_empty() || other.epoch > node.epoch)
            });
            if let Some((above, _)) = above.filter(|_| !has_keys) {
                return Err(format!("D-7: {id} and {above} are primaries of one shard"));
            }
        }
        Ok(())
    }

    /// Checks that the file of a node of ours agrees with the node's view.
    fn file_agrees(&self, host: usize, view: &View) -> Result<(), String> {
        let Some(File::Text(text)) = &self.hosts[host].disk.file else { return Ok(()) };
        let saved = crate::cluster::file::read(text)?;
        if self.hosts[host].disk.is_writing() || saved.others.len() + 1 != view.nodes.len() {
            return Err(format!("the file of node {host} is not written, or has other nodes"));
        }
        for node in saved.others.iter().chain([&saved.me]) {
            let role = match node.role {
                SavedRole::Primary => Role::Primary,
                SavedRole::Replica(primary) => Role::Replica(primary),
                SavedRole::Unknown => Role::Unknown,
            };
            let is_same = view.nodes.get(&node.id).is_some_and(|seen| {
                // Epochs are compared for voters only, because a replica's line has its primary's epoch,
                // which a start does not read.
                let is_epoch = !seen.is_voter() || seen.epoch == node.config_epoch.0;
                seen.role == role && seen.slots == node.slots && is_epoch
            });
            if !is_same {
                return Err(format!("the file of node {host} has another {}", node.id));
            }
        }
        Ok(())
    }
}

fn distinct_epochs(own: &BTreeMap<NodeId, &SeenNode>) -> Result<(), String> {
    let mut epochs = BTreeMap::new();
    for (id, node) in own.iter().filter(|(_, node)| node.role == Role::Primary) {
        if let Some(other) = epochs.insert(node.epoch, id) {
            return Err(format!("{id} and {other} are both at epoch {}", node.epoch));
        }
    }
    Ok(())
}

/// Checks that a node's view of each other node agrees with that node's view of itself.
fn agrees(
    host: usize,
    view: &View,
    own: &BTreeMap<NodeId, &SeenNode>,
    (stock, beyond): (&BTreeSet<NodeId>, &BTreeSet<NodeId>),
) -> Result<(), String> {
    // `View::stuck` names nodes of which the view keeps old state. Slots that the view gives to them are not
    // compared.
    let stuck = view.nodes.iter().filter(|(id, _)| view.stuck.contains(id));
    let stuck = stuck.fold(SlotSet::EMPTY, |all, (_, node)| sets::or(&all, &node.slots));
    for (id, seen) in &view.nodes {
        let Some(truth) = own.get(id) else { return Err(format!("node {host} knows {id}, who is nobody")) };
        let differs = |what: &str, here: String, there: String| {
            Err(format!("node {host} holds of {id}: {what} {here}; it is {there}"))
        };
        if view.stuck.contains(id) {
            continue;
        }
        if seen.role != truth.role {
            return differs("role", format!("{:?}", seen.role), format!("{:?}", truth.role));
        }
        // Epoch 0 need not agree for a primary that was a replica before, because a replica's own epoch is in
        // no file. The primary therefore begins at 0 again, while other nodes remember the former epoch. With
        // its first slots a node of ours takes a new epoch (E-7), while a stock node stays at 0.
        let is_lost = truth.role == Role::Primary && (!truth.is_voter() || stock.contains(id));
        // Other nodes may keep a higher epoch that the node announced without having it in its file. Their
        // views are right, because another node may have yielded to that epoch.
        let is_forgotten = beyond.contains(id) && seen.epoch > truth.epoch;
        let has_epoch = !(is_lost && truth.epoch == 0 || is_forgotten);
        if seen.epoch != truth.epoch && has_epoch {
            return differs("epoch", seen.epoch.to_string(), truth.epoch.to_string());
        }
        if sets::minus(&seen.slots, &stuck) != sets::minus(&truth.slots, &stuck) {
            return differs("slots", format!("{:?}", seen.slots), format!("{:?}", truth.slots));
        }
        if seen.opinion != Opinion::Up || seen.is_nowhere {
            return differs("health", format!("{:?}", seen.opinion), "alive".to_owned());
        }
        if seen.shard != truth.shard {
            return differs("shard", format!("{:?}", seen.shard), format!("{:?}", truth.shard));
        }
        // A replica must follow a primary of its own shard (S-35).
        if let Role::Replica(primary) = truth.role {
            let above = primary.and_then(|primary| own.get(&primary));
            if above.is_none_or(|above| above.role != Role::Primary || above.shard != truth.shard) {
                return Err(format!(
                    "S-35: {id} follows {primary:?}, which is {:?}",
                    above.map(|above| above.role)
                ));
            }
        }
    }
    Ok(())
}
