//! Tests how other nodes' messages change a node's view of roles, slots and epochs.
use super::network::{Network, header_of};
use crate::*;

/// A cluster of three voters, in which node 3 is a replica of node 0.
fn with_replica() -> Network {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    let answer = network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    assert_eq!(answer, ClusterAnswer::Ok);
    network.run(1_000);
    network
}

fn role_changes(network: &Network, number: usize) -> Vec<RoleChange> {
    let seen = network.peers[number].seen.iter();
    seen.filter_map(|output| match output {
        ClusterOutput::Role(change) => Some(change.clone()),
        _ => None,
    })
    .collect()
}

#[test]
fn cl_r2_a_replica_is_one_for_all_and_of_its_primarys_shard() {
    let network = with_replica();
    for one in 0..4 {
        let line = network.line(one, 3).unwrap();
        assert!(line[2].ends_with("slave"), "{one}: {line:?}");
        assert_eq!(line[3], network.id(0).to_string());
        let m = &network.peers[one].cluster.machine;
        let (id0, id3) = (network.id(0), network.id(3));
        let shard = |id| m.table.node(m.table.find(&id).unwrap()).shown_shard();
        assert_eq!(shard(id0), shard(id3), "N-5, S-4 at node {one}");
        if one != 3 {
            let own = format!("Node {id3} (10.0.0.4:6379) is");
            let shard = shard(id0);
            assert!(network.has_logged(one, &format!("{own} no longer primary of shard ")), "E-16");
            assert!(network.has_logged(one, "; removed all 0 slot(s) it used to own"));
            assert!(network.has_logged(one, &format!("{own} now part of shard {shard}")));
            let replica = format!("{own} now a replica of node {id0} (10.0.0.1:6379) in shard {shard}");
            assert!(network.has_logged(one, &replica));
        }
    }
    assert!(matches!(
        role_changes(&network, 3)[..],
        [RoleChange::ReplicaOf { synchronisation: Synchronisation::Full, .. }]
    ));
}

#[test]
fn cl_r2_replicate_refuses() {
    let mut network = with_replica();
    let ids: Vec<NodeId> = (0..4).map(|number| network.id(number)).collect();
    let mut ask = |number: usize, node: &[u8]| {
        network.command(number, ClusterCommand::Replicate { node, data: HasKeys::No })
    };
    let error = |text: &str| ClusterAnswer::Error(text.to_owned());
    assert_eq!(ask(1, ids[1].as_bytes()), error("ERR Can't replicate myself"));
    assert_eq!(ask(1, ids[3].as_bytes()), error("ERR I can only replicate a master, not a replica."));
    assert_eq!(
        ask(1, ids[0].as_bytes()),
        error("ERR To set a master the node must be empty and without assigned slots.")
    );
    assert_eq!(ask(1, b"nobody"), error("ERR Unknown node nobody"));
    assert_eq!(ask(3, ids[0].as_bytes()), ClusterAnswer::Ok);
}

#[test]
fn cl_e15_e16_a_primary_follows_the_replica_that_took_over() {
    let mut network = with_replica();
    network.take_over(3);
    network.run(2_000);
    for one in 0..4 {
        assert!(network.flags(one, 3).ends_with("master"), "node {one}: {}", network.flags(one, 3));
        assert!(network.flags(one, 0).ends_with("slave"), "node {one}: {}", network.flags(one, 0));
        assert_eq!(network.line(one, 0).unwrap()[3], network.id(3).to_string());
        assert_eq!(network.peers[one].cluster.info().state, ClusterState::Ok);
    }
    assert!(
        network.has_logged(0, "Configuration change detected. Reconfiguring myself as a replica of node")
    );
    assert!(matches!(
        role_changes(&network, 0)[..],
        [RoleChange::ReplicaOf { synchronisation: Synchronisation::Partial, .. }]
    ));
    let emptied =
        network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::EmptySlots { .. }));
    assert!(!emptied, "E-15 (a): a replica's keys are its primary's to delete");
}

#[test]
fn cl_e19_e20_a_primary_that_was_away_learns_of_the_takeover() {
    let mut network = with_replica();
    let ip = network.peers[0].ip;
    network.kill(0);
    network.run(5_000);
    network.take_over(3);
    network.run(1_000);
    network.revive(0, ip);
    network.run(5_000);
    assert_eq!(network.flags(0, 0), "myself,slave");
    assert_eq!(network.line(1, 0).unwrap()[3], network.id(3).to_string());
    assert_eq!(network.flags(1, 0), "slave");
}

#[test]
fn cl_e19_e20_update_teaches_where_the_winner_is_not_reached() {
    let mut network = with_replica();
    let ip = network.peers[0].ip;
    network.kill(0);
    network.run(5_000);
    network.take_over(3);
    network.run(1_000);
    network.revive(0, ip);
    network.cut(0, 3);
    network.run(5_000);
    assert!(network.has_logged(0, "Processing UPDATE message received from"));
    assert_eq!(network.line(0, 0).unwrap()[3], network.id(3).to_string());
}

/// Node 1 starts with a file in which node 2 owns a slot of node 0, with an epoch that node 0 does not know.
/// Node 2 has given the slot up.
#[test]
fn cl_e20_nobody_is_told_what_a_node_has_not_claimed_since_the_start() {
    let mut network = Network::cluster(3, 3);
    let slot = HashSlot::new(0).unwrap();
    network.cut(0, 2);
    network.command(2, ClusterCommand::BumpEpoch);
    network.run(500);
    let (id0, id2) = (network.id(0), network.id(2));
    let mut file = super::files::saved(&network, 1);
    for node in &mut file.others {
        match node.id {
            id if id == id0 => _ = node.slots.remove(slot),
            id if id == id2 => _ = node.slots.insert(slot),
            _ => {}
        }
    }
    network.kill(1);
    network.cut(1, 2);
    super::files::restart(&mut network, 1, &file);
    network.run(500);
    assert_eq!(owner(&network, 1, slot), Some(id2), "by its file");
    assert_eq!(owner(&network, 0, slot), Some(id0));
    network.heal();
    network.run(3_000);
    for one in 0..3 {
        assert_eq!(owner(&network, one, slot), Some(id0), "node {one}");
    }
}

/// Node 1 has got a slot of node 0 by a grant, although node 0's epoch is now above node 1's. Node 3,
/// the replica of node 0, does not reach node 1.
#[test]
fn cl_e19_a_replica_learns_from_its_primary_who_owns_what_that_has_let_go() {
    let mut network = with_replica();
    let slot = HashSlot::new(0).unwrap();
    network.cut(1, 3);
    network.command(1, ClusterCommand::BumpEpoch);
    network.run(1_000);
    network.command(0, ClusterCommand::BumpEpoch);
    for number in 0..2 {
        let to = network.id(1);
        let m = &mut network.peers[number].cluster.machine;
        let to = m.table.find(&to).unwrap();
        m.table.unbind(slot);
        m.table.bind(slot, to);
        m.save();
        // Node 0 no longer claims the slot when node 1 binds it.
        network.run(1_000);
    }
    assert_eq!(owner(&network, 3, slot), Some(network.id(1)));
    network.take_over(3);
    network.heal();
    network.run(2_000);
    for one in 0..4 {
        assert_eq!(owner(&network, one, slot), Some(network.id(1)), "node {one}");
    }
}

/// Node 2 learns only from node 0 of the failover from node 0 to node 3.
#[test]
fn cl_e16_a_winner_is_not_held_to_claim_what_the_loser_had_let_go() {
    let mut network = with_replica();
    let (let_go, kept) = (HashSlot::new(0).unwrap(), HashSlot::new(1).unwrap());
    network.peers[2].cluster.machine.table.set_unclaimed(let_go);
    let none = SlotSet::EMPTY;
    let header = wire::BusHeader {
        current_epoch: ClusterEpoch(9),
        config_epoch: ClusterEpoch(9),
        ip: "10.0.0.1",
        replica_of: Some(network.id(3)),
        flags: wire::NodeFlags(0x1C12),
        ..header_of(network.id(0), &none)
    };
    let ping = wire::MessageBody::Ping(wire::Gossip::default());
    network.inject(0, 2, &wire::BusMessage::Full(header, ping));
    assert_eq!(owner(&network, 2, let_go), Some(network.id(3)));
    let table = &network.peers[2].cluster.machine.table;
    let winner = table.find(&network.id(3)).unwrap();
    let claimed = table.claimed_slots(winner);
    assert!(claimed.contains(kept) && !claimed.contains(let_go));
}

#[test]
fn cl_e16_a_replica_follows_its_primarys_new_primary() {
    let mut network = Network::cluster(5, 3);
    let node = network.id(0);
    for number in [3, 4] {
        network.command(number, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    }
    network.run(1_000);
    network.take_over(3);
    network.run(2_000);
    assert_eq!(network.line(4, 4).unwrap()[3], network.id(3).to_string(), "S-35");
    assert_eq!(network.line(1, 4).unwrap()[3], network.id(3).to_string());
}

#[test]
fn cl_e6_equal_epochs_part_and_the_greatest_id_stays() {
    let mut network = Network::of(3);
    for number in 0..3 {
        network.command(number, ClusterCommand::SetConfigEpoch { epoch: 5 });
    }
    let greatest = (0..3).max_by_key(|number| network.id(*number)).unwrap();
    network.meet(0, 1);
    network.meet(0, 2);
    network.run(5_000);
    let epochs: Vec<u64> = (0..3).map(|number| network.peers[number].cluster.info().my_epoch.0).collect();
    assert_eq!(epochs[greatest], 5);
    let mut distinct = epochs.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 3, "S-27: {epochs:?}");
}

#[test]
fn cl_e4_e5_epochs_of_commands() {
    let mut network = Network::cluster(3, 3);
    let answer = network.command(2, ClusterCommand::BumpEpoch);
    assert_eq!(answer, ClusterAnswer::Status("STILL 3".to_owned()));
    let answer = network.command(0, ClusterCommand::BumpEpoch);
    assert_eq!(answer, ClusterAnswer::Status("BUMPED 4".to_owned()));
    network.run(500);
    assert_eq!(network.line(1, 0).unwrap()[6], "4");
    let answer = network.command(0, ClusterCommand::SetConfigEpoch { epoch: 9 });
    let text = "ERR The user can assign a config epoch only when the node does not know any other node.";
    assert_eq!(answer, ClusterAnswer::Error(text.to_owned()));
}

#[test]
fn cl_e7_a_node_that_gets_slots_at_epoch_0_among_others_takes_a_new_epoch() {
    let slot = HashSlot::new(7).unwrap();
    let mut network = Network::of(3);
    network.command(0, ClusterCommand::AddSlots { slots: &[slot] });
    assert_eq!(network.peers[0].cluster.info().my_epoch, ClusterEpoch(0), "a node that knows nobody");
    network.command(0, ClusterCommand::SetConfigEpoch { epoch: 9 });
    network.meet(0, 1);
    network.meet(0, 2);
    network.run(2_000);
    // Nodes 1 and 2 are both at epoch 0. Only epochs of 0 collide here, so only one of the two takes a new
    // epoch.
    let at_zero = (1..3).find(|number| network.peers[*number].cluster.info().my_epoch == ClusterEpoch(0));
    let at_zero = at_zero.expect("the greater id stays");
    let id = network.id(at_zero);
    let other = HashSlot::new(8).unwrap();
    let add = ClusterCommand::AddSlots { slots: &[other] };
    assert_eq!(network.command(at_zero, add), ClusterAnswer::Ok);
    let info = network.peers[at_zero].cluster.info();
    assert!(info.my_epoch > ClusterEpoch(9) && info.my_epoch == info.current_epoch, "{info:?}");
    network.run(500);
    assert_eq!(network.line(0, at_zero).unwrap()[6], info.my_epoch.to_string());
    // SETSLOT of a slot that is not imported takes a new epoch only because the node is at epoch 0.
    network.peers[at_zero].cluster.machine.table.me_mut().config_epoch = ClusterEpoch(0);
    let slots = [other];
    assert_eq!(network.command(at_zero, ClusterCommand::DelSlots { slots: &slots }), ClusterAnswer::Ok);
    let action = SlotAction::Node(id.as_bytes());
    let command = ClusterCommand::SetSlot(SetSlot { slot: other, action, keys: HasKeys::No });
    assert_eq!(network.command(at_zero, command), ClusterAnswer::Ok);
    assert!(network.peers[at_zero].cluster.info().my_epoch > info.my_epoch);
}

#[test]
fn cl_e10_e15_a_slot_taken_by_a_higher_epoch_is_emptied_here() {
    let mut network = Network::cluster(3, 3);
    let slot = HashSlot::new(0).unwrap();
    network.outbid(1, slot);
    let emptied = network.peers[0].seen.iter().find_map(|output| match output {
        ClusterOutput::EmptySlots { slots, .. } => Some(slots.clone()),
        _ => None,
    });
    assert_eq!(emptied.unwrap().iter().collect::<Vec<_>>(), [slot]);
    let gone = network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::ChannelsGone(_)));
    assert!(gone, "P-6");
    assert_eq!(network.flags(0, 0), "myself,master");
}

#[test]
fn cl_e12_a_slot_that_its_owner_lets_go_stays_bound_and_yields_to_anyone() {
    let mut network = Network::cluster(3, 3);
    let slot = HashSlot::new(0).unwrap();
    network.command(0, ClusterCommand::DelSlots { slots: &[slot] });
    network.run(1_000);
    let (id0, id1) = (network.id(0), network.id(1));
    let owner = |network: &Network, number: usize| {
        let table = &network.peers[number].cluster.machine.table;
        table.owner(slot).map(|ix| table.node(ix).id)
    };
    assert_eq!(owner(&network, 2), Some(id0), "bound still");
    assert!(network.peers[2].cluster.machine.table.is_unclaimed(slot));
    let m = &mut network.peers[1].cluster.machine;
    m.table.unbind(slot);
    let my_ix = m.table.my_ix();
    m.table.bind(slot, my_ix);
    m.save();
    network.run(1_000);
    assert_eq!(owner(&network, 2), Some(id1), "although the epoch of the first owner is not below");
}

/// E-16 item 2, E-12. Node 1 receives late news of a failover from node 0 to node 3, and then the real
/// roles with the same epoch.
#[test]
fn cl_e16_slots_of_a_replica_are_their_claimants_at_any_epoch() {
    let mut network = with_replica();
    let (slot, none) = (HashSlot::new(0).unwrap(), SlotSet::EMPTY);
    let old = wire::BusHeader {
        current_epoch: ClusterEpoch(3),
        config_epoch: ClusterEpoch(1),
        ip: "10.0.0.1",
        replica_of: Some(network.id(3)),
        flags: wire::NodeFlags(0x1C12),
        ..header_of(network.id(0), &none)
    };
    let id0 = network.id(0);
    network.inject(0, 1, &wire::BusMessage::Full(old, wire::MessageBody::Ping(wire::Gossip::default())));
    assert_eq!(owner(&network, 1, slot), Some(network.id(3)), "a failover, as it looks");
    network.run(3_000);
    assert_eq!(network.flags(1, 3), "slave");
    assert_eq!(owner(&network, 1, slot), Some(id0));
    assert_eq!(owner(&network, 0, slot), Some(id0));
}

#[test]
fn cl_r30_keys_of_another_wait_for_its_own_claim() {
    let mut network = Network::cluster(3, 3);
    network.kill(2);
    let slot = HashSlot::new(16_383).unwrap();
    let mut keys = SlotSet::EMPTY;
    keys.insert(slot);
    network.step(0, &ClusterInput::KeysIn(&keys));
    network.run(1_000);
    let is_emptied = |network: &Network| {
        network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::EmptySlots { .. }))
    };
    assert!(!is_emptied(&network), "the owner has not spoken");
    let ip = network.peers[2].ip;
    network.revive(2, ip);
    network.run(2_000);
    assert!(is_emptied(&network));
}

#[test]
fn cl_r30_keys_without_an_owner_are_taken() {
    let mut network = Network::of(1);
    let keys: SlotSet = [77, 78, 99].into_iter().filter_map(HashSlot::new).collect();
    network.step(0, &ClusterInput::KeysIn(&keys));
    network.deliver();
    assert_eq!(network.line(0, 0).unwrap()[8..], ["77-78", "99"]);
    assert!(
        network.has_logged(0, "I have keys for unassigned slots 77-78 99. Taking responsibility for them.")
    );
}

#[test]
fn cl_r3_replicate_no_one_makes_an_empty_primary_of_a_new_shard() {
    let mut network = with_replica();
    let before = network.peers[3].cluster.machine.table.me().shown_shard();
    assert_eq!(network.command(3, ClusterCommand::ReplicateNoOne), ClusterAnswer::Ok);
    assert_ne!(network.peers[3].cluster.machine.table.me().shown_shard(), before);
    assert!(role_changes(&network, 3).contains(&RoleChange::DropData));
    network.run(1_000);
    assert_eq!(network.flags(0, 3), "master");
}

fn owner(network: &Network, number: usize, slot: HashSlot) -> Option<NodeId> {
    let table = &network.peers[number].cluster.machine.table;
    table.owner(slot).map(|ix| table.node(ix).id)
}

/// Makes node 1 import slot 0 from node 0, as CLUSTER SETSLOT does.
fn with_import(network: &mut Network) -> HashSlot {
    let slot = HashSlot::new(0).unwrap();
    let from = network.id(0);
    let table = &mut network.peers[1].cluster.machine.table;
    let from = table.find(&from).unwrap();
    table.importing.insert(slot, from);
    slot
}

#[test]
fn cl_e13_an_importer_takes_the_slot_that_its_source_lets_go() {
    let mut network = Network::cluster(3, 3);
    let slot = with_import(&mut network);
    network.command(0, ClusterCommand::DelSlots { slots: &[slot] });
    network.run(1_000);
    for one in 0..3 {
        assert_eq!(owner(&network, one, slot), Some(network.id(1)), "node {one}");
    }
    assert_eq!(network.peers[1].cluster.info().my_epoch, ClusterEpoch(4));
    assert!(network.peers[1].cluster.machine.table.importing.is_empty());
}

#[test]
fn cl_e11_open_slots_name_the_winner_of_a_failover_that_its_loser_tells_of() {
    let mut network = with_replica();
    let slot = with_import(&mut network);
    let other = HashSlot::new(6_000).unwrap();
    let table = &mut network.peers[1].cluster.machine.table;
    let from = table.importing[&slot];
    table.migrating.insert(other, from);
    network.cut(1, 3);
    let command = ClusterCommand::Failover { kind: FailoverKind::Takeover };
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    network.run(1_000);
    let table = &network.peers[1].cluster.machine.table;
    assert_eq!(table.node(table.importing[&slot]).id, network.id(3));
    assert_eq!(table.node(table.migrating[&other]).id, network.id(3));
    // The log lines have the reference's words, because the reference's tests look for them.
    let lines = [
        "Failover occurred in migration source. Update importing source for slot 0 to node",
        "Failover occurred in migration target. Slot 6000 is now being migrated to node",
        "A failover occurred in migration source. Update importing source of 1 slot(s) to node",
        "A failover occurred in migration target. Update migrating target of 1 slot(s) to node",
    ];
    for line in lines {
        assert!(network.has_logged(1, line), "{line}");
    }
}

#[test]
fn cl_e11_an_import_of_a_slot_that_went_elsewhere_is_closed() {
    let mut network = Network::cluster(3, 3);
    let slot = with_import(&mut network);
    let m = &mut network.peers[2].cluster.machine;
    m.table.unbind(slot);
    let my_ix = m.table.my_ix();
    m.table.bind(slot, my_ix);
    network.cut(0, 2);
    network.command(2, ClusterCommand::SaveConfig);
    network.run(1_000);
    assert_eq!(owner(&network, 1, slot), Some(network.id(2)));
    assert!(network.peers[1].cluster.machine.table.importing.is_empty());
    assert!(network.has_logged(1, "is no longer being imported from node"));
}

#[test]
fn cl_k7_equal_epochs_rebind_nothing() {
    let mut network = Network::cluster(3, 3);
    let slots = network.peers[0].cluster.machine.table.me().slots.clone();
    let header = wire::BusHeader {
        current_epoch: ClusterEpoch(3),
        config_epoch: ClusterEpoch(1),
        ip: "10.0.0.3",
        ..header_of(network.id(2), &slots)
    };
    network.inject(2, 1, &wire::BusMessage::Full(header, wire::MessageBody::Ping(wire::Gossip::default())));
    assert_eq!(owner(&network, 1, HashSlot::new(0).unwrap()), Some(network.id(0)));
}

#[test]
fn cl_e17_a_node_without_slots_is_a_replica_whatever_its_epoch() {
    let mut network = Network::cluster(4, 3);
    let (first, own) = (network.id(0), network.id(3));
    // Node 1 has received node 3's new shard before node 3's new role.
    let m = &mut network.peers[1].cluster.machine;
    let (primary, ix) = (m.table.find(&first).unwrap(), m.table.find(&own).unwrap());
    m.table.node_mut(ix).shard = m.table.node(primary).shard;
    network.command(3, ClusterCommand::Replicate { node: first.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    assert_eq!(network.flags(1, 3), "slave", "its epoch is 4, its primary's 1");
}
