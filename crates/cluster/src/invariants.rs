//! Invariants of the machine's state, which tests and fuzzers check after each step (S-1 to S-12).
use crate::machine::ClusterMachine;
use crate::node::{ClusterNode, NodeHealth, NodeRole};
use crate::slots::{HashSlot, SLOT_COUNT};

/// Panics if an invariant does not hold.
pub(crate) fn check(m: &ClusterMachine) {
    epochs(m);
    // Every step that changes an owner outputs a new map, so the owners are checked only after such steps.
    if m.out.iter().any(|output| matches!(output, crate::ClusterOutput::Slots(_))) {
        slots(m);
    }
    roles(m);
    links(m);
    assert!(m.durable.is_consistent(), "S-6, S-7: what is held waits, and one write is under way");
}

fn epochs(m: &ClusterMachine) {
    for (_, node) in m.table.iter() {
        assert!(node.config_epoch <= m.epochs.current, "S-1: a configEpoch above currentEpoch");
    }
    assert!(m.epochs.last_vote <= m.epochs.current, "S-1: a vote above currentEpoch");
    assert!(m.durable.published.current_epoch <= m.epochs.current, "no epoch is published that is not known");
}

fn slots(m: &ClusterMachine) {
    let mut owned = vec![0_u16; m.table.positions() as usize];
    for slot in (0..SLOT_COUNT).filter_map(HashSlot::new) {
        if let Some(ix) = m.table.owner(slot) {
            owned[ix.0 as usize] += 1;
            assert!(m.table.node(ix).slots.contains(slot), "S-2: the owner's bitmap lacks a slot");
        }
    }
    for (ix, node) in m.table.iter() {
        assert_eq!(node.slot_count, owned[ix.0 as usize], "S-2: counts");
        assert_eq!(node.slot_count, node.slots.len(), "S-2: bitmaps");
        assert!(
            ix != m.table.my_ix() || !node.is_replica() || node.slot_count == 0,
            "S-2: a replica owns a slot"
        );
    }
}

fn roles(m: &ClusterMachine) {
    let is_suspected = |node: &ClusterNode| node.health == NodeHealth::PFail;
    let suspects = m.table.iter().filter(|(_, node)| is_suspected(node)).count();
    assert_eq!(m.table.suspects(), suspects, "suspects are counted");
    for (ix, node) in m.table.iter() {
        for replica in &node.replicas {
            assert!(m.table.has(*replica), "S-3: a replica that is gone");
            assert_eq!(m.table.node(*replica).primary(), Some(ix), "S-3: a replica of another");
        }
        if let NodeRole::Replica(Some(primary)) = node.role {
            assert!(m.table.has(primary), "S-3: a primary that is gone");
            assert_eq!(
                m.table.node(primary).replicas.iter().filter(|r| **r == ix).count(),
                1,
                "S-3: listed once"
            );
            assert!(!m.table.leads_to(primary, ix), "S-3: a circle of primaries");
        }
        let ids: Vec<_> = node.replicas.iter().map(|r| m.table.node(*r).id).collect();
        assert!(ids.is_sorted(), "replicas are sorted by id");
        let is_quiet = ix == m.table.my_ix() || crate::cron::quiet_until(m, ix) > m.time.now;
        assert!(is_quiet || m.table.is_due(ix, m.time.now), "the cron would pass over a node");
        for by in node.reports.reporters() {
            assert!(m.table.has(crate::node::NodeIx(by)), "G-22: a report of a node that is gone");
        }
    }
}

fn links(m: &ClusterMachine) {
    for (ix, node) in m.table.iter() {
        for key in [node.place.link_out.key(), node.place.link_in].into_iter().flatten() {
            assert_eq!(
                m.links.get(key).and_then(|link| link.node()),
                Some(ix),
                "S-5: a link of another node"
            );
        }
    }
    for (key, link) in m.links.iter() {
        if let Some(ix) = link.node() {
            let place = &m.table.node(ix).place;
            assert!(place.link_out.key() == Some(key) || place.link_in == Some(key), "S-5: a link too many");
        }
    }
    let unknown = m.links.iter().filter(|(_, link)| link.node().is_none()).map(|(key, _)| key);
    assert!(unknown.eq(m.links.without_node().map(|(key, _)| key)), "links without a node are known apart");
    if let Some(replica) = m.failover.paused.replica() {
        assert!(m.table.has(replica), "S-9: paused for a node that is gone");
    }
}
