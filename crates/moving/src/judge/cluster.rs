//! Judges a cluster: faults to repair before a move, and the settings that the new nodes need.

use super::versions;
use crate::facts::{ClusterFacts, ClusterNodeFact, InfoFacts, NodeCondition, NodeView, OpenSlotFact};
use crate::finding::{FindingWeight, Findings, LISTED};
use crate::replies::is_added;
use crate::shown::shown;
use std::collections::{BTreeMap, BTreeSet};

/// Judges the cluster of the node that was asked, whose INFO is `own`.
pub(super) fn judge(verdict: &mut Findings, cluster: &ClusterFacts, own: &InfoFacts) {
    let of = |is_primary| cluster.nodes.iter().filter(move |node| node.is_primary == is_primary);
    let (shards, replicas) = (of(true).filter(|node| node.has_slots).count(), of(false).count());
    verdict.add(
        FindingWeight::Works,
        "cluster",
        format!("{shards} primaries with slots, {replicas} replicas"),
        "a cluster moves shard by shard, while it serves: docs/moving-in.md",
    );
    if cluster.omitted > 0 {
        verdict.add(
            FindingWeight::Look,
            "cluster",
            format!("{} further nodes are not counted, and were not asked", cluster.omitted),
            "run --check-move with the address of each of them",
        );
    }
    slots(verdict, cluster);
    health(verdict, cluster);
    let views: Vec<(&ClusterNodeFact, &NodeView)> =
        cluster.nodes.iter().filter_map(|node| Some((node, node.view.as_ref()?.as_ref().ok()?))).collect();
    for (node, view) in &views {
        let unknown = [view.info.as_ref().err(), view.modules.as_ref().err(), view.open.as_ref().err()];
        for unknown in unknown.into_iter().flatten() {
            verdict.unknown_at(&node.name(), "cluster", unknown);
        }
    }
    versions_of(verdict, &views, own);
    modules(verdict, &views);
    databases(verdict, &views, own);
}

/// Judges slots without an owner, and migrating and importing slots.
fn slots(verdict: &mut Findings, cluster: &ClusterFacts) {
    if !cluster.uncovered.is_empty() {
        let ranges = cluster.uncovered.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        verdict.add(
            FindingWeight::Look,
            "cluster",
            format!("slots without an owner: {}", listed(ranges)),
            "no node serves these slots: valkey-cli --cluster fix, before the move",
        );
    }
    let seen = |node: &ClusterNodeFact| -> Vec<OpenSlotFact> {
        let view = node.view.as_ref().and_then(|view| view.as_ref().ok());
        view.and_then(|view| view.open.as_ref().ok()).unwrap_or(&node.open).clone()
    };
    for node in &cluster.nodes {
        let open = seen(node);
        if open.is_empty() {
            continue;
        }
        let slots = open.iter().map(|OpenSlotFact { slot, leaves }| match leaves {
            true => format!("{slot} migrating"),
            false => format!("{slot} importing"),
        });
        verdict.add(
            FindingWeight::Look,
            "cluster",
            format!("open slots at {}: {}", node.name(), listed(slots)),
            "let the reshard end, or valkey-cli --cluster fix, before the move",
        );
    }
}

/// Reports nodes that have failed or are suspected to have failed, and nodes that were not or could not be
/// asked.
fn health(verdict: &mut Findings, cluster: &ClusterFacts) {
    for node in &cluster.nodes {
        let name = node.name();
        let what = match (node.health, &node.view) {
            (NodeCondition::Failed, _) => format!("{name} is marked as failed, or has no address"),
            (NodeCondition::Suspected, _) => {
                format!("{name} does not answer the node that was asked (fail?)")
            }
            (NodeCondition::Well, Some(Err(why))) => {
                let (what, advice) = (
                    format!("not judged: {name}: {}", shown(why.as_bytes())),
                    "run --check-move against that node; each node needs the user of the check",
                );
                verdict.add(FindingWeight::Look, "cluster", what, advice);
                continue;
            }
            (NodeCondition::Well, None) if !node.is_asked_one => format!("not judged: {name} was not asked"),
            (NodeCondition::Well, Some(Ok(_)) | None) => continue,
        };
        verdict.add(
            FindingWeight::Look,
            "cluster",
            what,
            "bring the node back or CLUSTER FORGET it at every node: a primary hands over when most primaries agree",
        );
    }
}

fn versions_of(verdict: &mut Findings, views: &[(&ClusterNodeFact, &NodeView)], own: &InfoFacts) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let infos = || views.iter().filter_map(|(_, view)| view.info.as_ref().ok());
    for info in infos().chain([own]) {
        *found.entry(versions::name(info)).or_insert(0) += 1;
    }
    let text: Vec<String> = found.iter().map(|(name, count)| format!("{name} at {count} nodes")).collect();
    verdict.works("cluster", format!("versions: {}", listed(text.into_iter())));
    let mut said = BTreeSet::from([versions::name(own)]);
    for info in infos() {
        if said.insert(versions::name(info)) {
            versions::judge(verdict, info);
        }
    }
}

fn modules(verdict: &mut Findings, views: &[(&ClusterNodeFact, &NodeView)]) {
    for (node, view) in views {
        let others = view.modules.iter().flatten().filter(|(name, _)| is_added(name));
        let names: Vec<String> = others.map(|(name, _)| shown(name)).collect();
        if !names.is_empty() {
            verdict.add(
                FindingWeight::Look,
                "modules",
                format!("loaded at {}: {}; there are no modules here", node.name(), listed(names.into_iter())),
                "check whether the commands and types of these modules are used: run --check-move against that node",
            );
        }
    }
}

/// Judges the databases that hold keys at any node.
fn databases(verdict: &mut Findings, views: &[(&ClusterNodeFact, &NodeView)], own: &InfoFacts) {
    let infos = views.iter().filter_map(|(_, view)| view.info.as_ref().ok());
    let used: BTreeSet<u64> =
        infos.chain([own]).flat_map(|info| info.databases().map(|(number, _)| number)).collect();
    match used.last() {
        Some(last) if *last > 0 => verdict.add(
            FindingWeight::Look,
            "cluster",
            format!("databases with keys: {}", listed(used.iter().map(u64::to_string))),
            &format!(
                "a node here has database 0 alone: start each with cluster-databases {} or more",
                last.saturating_add(1)
            ),
        ),
        _ => verdict.works("cluster", "all keys are in database 0"),
    }
}

/// Joins the first [`LISTED`] words with commas, and adds the number of the others.
fn listed(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.collect();
    let more = words.len().saturating_sub(LISTED);
    words.truncate(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    words.join(", ") + &more
}
