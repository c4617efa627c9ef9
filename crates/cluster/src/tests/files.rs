//! Tests that messages and replies wait until the file on which they depend is durable.
use super::network::{Disk, Network};
use crate::*;

#[test]
fn cl_e53_slots_are_answered_and_told_when_they_are_durable() {
    let mut network = Network::cluster(3, 2);
    let slot = HashSlot::new(0).unwrap();
    network.command(0, ClusterCommand::DelSlots { slots: &[slot] });
    network.run(500);
    network.peers[2].disk = Disk::Stands;
    let answer = network.ask(2, ClusterCommand::AddSlots { slots: &[] });
    assert_eq!(answer, None, "an answer with a save waits, whatever it changed");
    network.write(2);
    let m = &mut network.peers[2].cluster.machine;
    m.table.unbind(slot);
    let answer = network.ask(2, ClusterCommand::AddSlots { slots: &[slot] });
    let ticket = network.last_ticket();
    assert_eq!(answer, None);
    network.run(1_000);
    assert_eq!(network.line(2, 2).unwrap().len(), 9, "the node itself knows of its slot");
    assert_eq!(network.line(1, 2).unwrap().len(), 8, "others are not told");
    let map = last_map(&network, 2);
    assert!(map.postponed.contains(slot), "requests to the slot wait");
    network.write(2);
    network.write(2);
    assert_eq!(network.answer(2, ticket), Some(ClusterAnswer::Ok));
    assert!(!last_map(&network, 2).postponed.contains(slot));
    network.peers[2].disk = Disk::Writes;
    network.write(2);
    network.run(1_000);
    assert_eq!(network.line(1, 2).unwrap()[8], "0");
}

/// Another node has taken the slot with a higher epoch, and this node's file without the slot is not written
/// yet or cannot be written.
#[test]
fn cl_e53_keys_of_a_lost_slot_may_go_when_a_file_is_without_the_slot() {
    let mut network = Network::cluster(3, 3);
    let slot = HashSlot::new(0).unwrap();
    let may_delete = |network: &Network| network.peers[0].cluster.may_delete_keys_of(slot);
    network.configure(0, |settings| settings.save_behavior = SaveBehavior::BestEffort);
    network.peers[0].disk = Disk::Stands;
    network.outbid(1, slot);
    let owner = last_map(&network, 0).owner(slot).map(|node| node.id);
    assert_eq!(owner, Some(network.id(1)));
    assert!(!may_delete(&network), "a start would take the slot for this node's");
    // The slot is imported again. Keys that are imported now would be deleted together with the old ones.
    let from = network.id(1);
    let action = SlotAction::Importing(from.as_bytes());
    let command = ClusterCommand::SetSlot(SetSlot { slot, action, keys: HasKeys::No });
    let now = network.now();
    network.peers[0].cluster.execute_at_once(now, "test", &command);
    network.step(0, &ClusterInput::UnitEnd);
    network.deliver();
    assert!(last_map(&network, 0).postponed.contains(slot));
    network.peers[0].disk = Disk::Fails;
    let generation = network.peers[0].standing.take().expect("a write").0;
    network.step(0, &ClusterInput::SaveFailed { generation });
    network.run(3_000);
    assert!(!may_delete(&network), "best-effort goes on without the file, and a start does not");
    network.peers[0].disk = Disk::Writes;
    network.run(3_000);
    assert!(may_delete(&network));
    assert!(!last_map(&network, 0).postponed.contains(slot));
    assert!(start_from_own_file(&mut network, 0).saved.me.slots.iter().all(|own| own != slot));
}

fn last_map(network: &Network, number: usize) -> std::sync::Arc<SlotMap> {
    let maps = network.peers[number].seen.iter().rev();
    let mut maps = maps.filter_map(|output| match output {
        ClusterOutput::Slots(map) => Some(map.clone()),
        _ => None,
    });
    maps.next().expect("a map")
}

#[test]
fn cl_k25_a_pong_never_waits_for_the_disk() {
    let mut network = Network::cluster(3, 3);
    network.peers[1].disk = Disk::Stands;
    network.command(0, ClusterCommand::BumpEpoch);
    network.run(4 * super::network::TIMEOUT_MS);
    for one in [0, 2] {
        assert_eq!(network.flags(one, 1), "master", "S-29: a slow disk is no dead node");
    }
}

/// The table of a node of the network in the form of a file, without open slots.
pub(super) fn saved(network: &Network, number: usize) -> SavedCluster {
    let m = &network.peers[number].cluster.machine;
    let node = |node: &crate::node::ClusterNode| SavedNode {
        id: node.id,
        address: node.place.address.clone(),
        labels: node.place.labels.clone(),
        shard: node.shard,
        role: match node.role {
            crate::node::NodeRole::Unknown => SavedRole::Unknown,
            crate::node::NodeRole::Primary => SavedRole::Primary,
            crate::node::NodeRole::Replica(primary) => {
                SavedRole::Replica(primary.map(|ix| m.table.node(ix).id))
            }
        },
        is_failed: node.is_failed(),
        is_without_address: node.is_without_address(),
        no_failover: node.marks.no_failover,
        config_epoch: node.config_epoch,
        slots: node.slots.clone(),
    };
    let others = m.table.iter().filter(|(ix, _)| *ix != m.table.my_ix());
    SavedCluster {
        me: node(m.table.me()),
        own_line: OwnLine::Whole,
        others: others.map(|(_, other)| node(other)).collect(),
        migrating: Vec::new(),
        importing: Vec::new(),
        epochs: SavedEpochs { current: m.epochs.current, last_vote: Some(m.epochs.last_vote) },
    }
}

/// Restarts a node from a file.
pub(super) fn restart(network: &mut Network, number: usize, saved: &SavedCluster) {
    let now = network.now();
    let settings = network.peers[number].settings.clone().into();
    network.peers[number].cluster = Cluster::load(now, settings, 99, saved, &[]);
    let ip = network.peers[number].ip;
    network.revive(number, ip);
    network.deliver();
}

#[test]
fn cl_n15_n17_a_node_goes_on_from_its_file() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    for number in [0, 3] {
        let file = saved(&network, number);
        network.kill(number);
        restart(&mut network, number, &file);
    }
    network.run(5_000);
    for one in 0..4 {
        assert!(network.flags(one, 3).ends_with("slave"), "node {one}");
        assert!(network.flags(one, 0).ends_with("master"), "node {one}");
        assert_eq!(network.peers[one].cluster.info().state, ClusterState::Ok);
    }
    let follows = network.peers[3].seen.iter().any(|output| matches!(output, ClusterOutput::Role(_)));
    assert!(follows, "R5");
}

/// With best-effort, a takeover may be announced although it is not written (E-53).
#[test]
fn cl_e16_a_takeover_that_its_file_does_not_know_is_made_good() {
    takeover_is_made_good(&ClusterInput::HasKeys(HasKeys::Yes), 1_000_000);
}

/// The shard has no keys, and the node's files show that it had none up to an offset of the stream.
#[test]
fn cl_e16_a_takeover_of_a_shard_without_keys_is_made_good() {
    takeover_is_made_good(&ClusterInput::Offset(100), 90);
}

/// `data` is the input by which the winner learns that its data are the shard's; the shard's earlier primary
/// is at `offset`. If a node without keys could become the primary again at a smaller offset, or beside a
/// primary without an offset, that primary would copy an empty data set.
fn takeover_is_made_good(data: &ClusterInput, offset: u64) {
    let mut network = Network::with_replicas();
    let forgetful = saved(&network, 3);
    network.take_over(3);
    network.run(1_000);
    assert!(network.flags(0, 0).ends_with("slave"), "{}", network.flags(0, 0));
    let epoch = network.peers[3].cluster.machine.table.me().config_epoch;
    network.kill(3);
    let file = saved(&network, 0);
    network.kill(0);
    restart(&mut network, 0, &file);
    restart(&mut network, 3, &forgetful);
    network.run(1_000);
    assert!(network.flags(3, 3).ends_with("slave"), "it does not know yet whether it has data");
    network.step(3, &ClusterInput::HasKeys(HasKeys::No));
    network.run(1_000);
    assert!(network.flags(3, 3).ends_with("slave"), "its primary would take a copy of nothing");
    network.step(3, &ClusterInput::Offset(50));
    for unfit in [0, 90] {
        network.step(0, &ClusterInput::Offset(unfit));
        network.run(1_000);
        assert!(network.flags(3, 3).ends_with("slave"), "at 50 beside {unfit}");
    }
    network.step(0, &ClusterInput::Offset(offset));
    network.step(3, data);
    network.run(1_200);
    assert!(network.flags(3, 3).ends_with("master"));
    assert_eq!(network.peers[3].cluster.info().state, ClusterState::Fail, "another may have won since");
    network.run(5_000);
    for one in 0..5 {
        assert!(network.flags(one, 3).ends_with("master"), "node {one}: {}", network.flags(one, 3));
        assert!(network.flags(one, 0).ends_with("slave"), "node {one}: {}", network.flags(one, 0));
        assert_eq!(network.peers[one].cluster.info().state, ClusterState::Ok, "node {one}");
    }
    assert_eq!(network.peers[3].cluster.machine.table.me().config_epoch, epoch, "of the election, no other");
}

#[test]
fn cl_n16_lines_in_any_order_make_one_consistent_table() {
    let network = Network::cluster(4, 3);
    let mut file = saved(&network, 1);
    // The file has two nodes that replicate each other, a replica of a primary without a line, the same slots
    // on two lines, and two lines of one node.
    let lost = NodeId::parse(&[b'x'; 40]).unwrap();
    let ids: Vec<NodeId> = file.others.iter().map(|node| node.id).collect();
    file.others[0].role = SavedRole::Replica(Some(ids[1]));
    file.others[1].role = SavedRole::Replica(Some(ids[0]));
    file.others[2].role = SavedRole::Replica(Some(lost));
    file.others[2].slots = file.me.slots.clone();
    file.importing = vec![(HashSlot::new(0).unwrap(), lost)];
    let again = file.others[0].clone();
    file.others.push(again);
    let cluster = Cluster::load(network.now(), ClusterSettings::default().into(), 5, &file, &[]);
    crate::invariants::check(&cluster.machine);
    assert_eq!(cluster.info().known_nodes, 5);
    assert!(cluster.nodes_text().contains(&format!("{lost} :0@0 noflags")));
}

#[test]
fn cl_n26_a_node_that_is_unsure_of_itself_serves_nothing_and_gives_no_vote() {
    let mut network = Network::cluster(3, 3);
    let mut file = saved(&network, 0);
    file.own_line = OwnLine::Damaged;
    network.kill(0);
    restart(&mut network, 0, &file);
    network.run(5_000);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Fail);
    assert!(network.has_logged(0, "The line of this node in the cluster configuration file was damaged"));
    let mut keys = SlotSet::EMPTY;
    keys.insert(HashSlot::new(3).unwrap());
    network.step(0, &ClusterInput::KeysIn(&keys));
    network.run(1_000);
    let emptied =
        network.peers[0].seen.iter().any(|output| matches!(output, ClusterOutput::EmptySlots { .. }));
    assert!(!emptied, "S-34");
    let again = start_from_own_file(&mut network, 0);
    assert_eq!(again.saved.own_line, OwnLine::Damaged, "a second start knows no more than the first");
    network.run(1_000);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Fail);
    let slots: Vec<HashSlot> = file.me.slots.iter().collect();
    assert_eq!(network.command(0, ClusterCommand::AddSlots { slots: &slots }), ClusterAnswer::Ok);
    network.run(1_000);
    assert_eq!(network.peers[0].cluster.info().state, ClusterState::Ok, "an operator has said what it is");
    let sure = start_from_own_file(&mut network, 0);
    assert_eq!((sure.repairs, sure.saved.own_line), (Vec::new(), OwnLine::Whole));
}

/// Nodes 0 to 2 are voters, and node 3, a replica of node 0, starts from a file in which its own line is
/// damaged and gives it the role `role`.
fn with_an_unsure_replica(role: impl Fn(NodeId) -> SavedRole) -> Network {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let mut file = saved(&network, 3);
    (file.own_line, file.me.role) = (OwnLine::Damaged, role(node));
    network.kill(3);
    restart(&mut network, 3, &file);
    network
}

fn replica_of(primary: NodeId) -> SavedRole {
    SavedRole::Replica(Some(primary))
}

#[test]
fn cl_n26_replicate_says_what_a_node_is_also_where_its_line_said_so() {
    let mut network = with_an_unsure_replica(replica_of);
    network.run(3_000);
    assert_eq!(network.peers[3].cluster.info().state, ClusterState::Fail);
    let node = network.id(0);
    let command = ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No };
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    network.run(300);
    assert_eq!(network.peers[3].cluster.info().state, ClusterState::Ok);
    let sure = start_from_own_file(&mut network, 3);
    assert_eq!((sure.repairs, sure.saved.own_line), (Vec::new(), OwnLine::Whole));
}

#[test]
fn cl_n26_replicate_no_one_setslot_and_takeover_say_what_a_node_is() {
    let is_whole = |network: &mut Network| {
        network.run(300);
        start_from_own_file(network, 3).saved.own_line == OwnLine::Whole
    };
    let mut network = with_an_unsure_replica(replica_of);
    assert_eq!(network.command(3, ClusterCommand::ReplicateNoOne), ClusterAnswer::Ok);
    assert!(is_whole(&mut network));
    let mut network = with_an_unsure_replica(replica_of);
    network.run(3_000);
    let command = ClusterCommand::Failover { kind: FailoverKind::Takeover };
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    assert!(is_whole(&mut network));
    let mut network = with_an_unsure_replica(|_| SavedRole::Primary);
    network.run(3_000);
    let id = network.id(3);
    let (slot, action) = (HashSlot::new(7).unwrap(), SlotAction::Node(id.as_bytes()));
    let command = ClusterCommand::SetSlot(SetSlot { slot, action, keys: HasKeys::No });
    assert_eq!(network.command(3, command), ClusterAnswer::Ok);
    assert!(is_whole(&mut network));
}

#[test]
fn cl_n26_a_node_that_is_unsure_of_itself_follows_nobody_by_what_others_say() {
    // The primary of the replica's shard now has no slots, but a higher epoch (E-14).
    let mut network = with_an_unsure_replica(|_| SavedRole::Primary);
    let slots: Vec<HashSlot> = network.peers[0].cluster.machine.table.me().slots.iter().collect();
    assert_eq!(network.command(0, ClusterCommand::DelSlots { slots: &slots }), ClusterAnswer::Ok);
    network.command(0, ClusterCommand::BumpEpoch);
    network.run(3_000);
    assert!(!network.has_logged(3, "Reconfiguring myself as a replica"));
    assert_eq!(network.flags(3, 3), "myself,master");
    // The replica's primary now follows another node (E-16 item 3).
    let mut network = with_an_unsure_replica(replica_of);
    assert_eq!(network.command(0, ClusterCommand::DelSlots { slots: &slots }), ClusterAnswer::Ok);
    let other = network.id(1);
    let command = ClusterCommand::Replicate { node: other.as_bytes(), data: HasKeys::No };
    assert_eq!(network.command(0, command), ClusterAnswer::Ok);
    network.run(3_000);
    assert!(!network.has_logged(3, "I'm a sub-replica!"));
}

#[test]
fn cl_n26_a_node_that_is_unsure_of_itself_stands_for_nothing() {
    let mut network = with_an_unsure_replica(replica_of);
    network.run(1_000);
    let at = Some(network.now_ms);
    network.step(3, &ClusterInput::PrimaryContact { at });
    network.step(3, &ClusterInput::Offset(100));
    network.kill(0);
    network.run(9_000);
    assert!(network.flags(3, 0).contains("fail"));
    assert_eq!(network.flags(3, 3), "myself,slave");
    assert!(!network.has_logged(3, "Start of election"));
}

/// Restarts a node from the last file that it has written; returns the contents that were read from the file.
fn start_from_own_file(network: &mut Network, number: usize) -> conf::ConfFile {
    let (_, text) = network.peers[number].written.last().expect("a file").clone();
    let read = conf::read(text.as_bytes(), BusTransport::Tcp).expect("a file of ours");
    network.kill(number);
    restart(network, number, &read.saved);
    read
}

#[test]
fn cl_n27_epochs_that_are_unknown_bar_votes_until_others_have_told_theirs() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(1);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let mut file = saved(&network, 0);
    file.epochs = SavedEpochs::default();
    network.kill(0);
    network.kill(1);
    restart(&mut network, 0, &file);
    network.run(5_500);
    network.ask_for_vote(3, 0, 20, super::network::Force::Yes);
    assert!(network.has_logged(0, "it is not safe to vote in this moment"), "(a) 2T, K-5");
    network.run(10_000);
    network.ask_for_vote(3, 0, 21, super::network::Force::Yes);
    assert!(!network.has_logged(0, "Failover auth granted"), "(b) two voters other than me, K-6");
    let ip = network.peers[1].ip;
    network.revive(1, ip);
    network.run(5_000);
    assert!(network.has_logged(0, "this node votes again"));
    let epoch = network.peers[0].cluster.info().current_epoch.0;
    network.ask_for_vote(3, 0, epoch, super::network::Force::Yes);
    assert!(network.has_logged(0, &format!("already voted for epoch {epoch}")));
    network.ask_for_vote(3, 0, epoch + 1, super::network::Force::Yes);
    assert!(network.has_logged(0, "Failover auth granted"));
}

#[test]
fn cl_n27_epochs_that_are_unknown_bar_votes_for_two_timeouts() {
    let mut network = Network::cluster(3, 3);
    let mut file = saved(&network, 0);
    file.epochs = SavedEpochs::default();
    network.kill(0);
    restart(&mut network, 0, &file);
    network.run(5_900);
    assert!(!network.has_logged(0, "this node votes again"), "K-5");
    let again = start_from_own_file(&mut network, 0);
    assert_eq!(again.saved.epochs.last_vote, None, "a second start knows no more than the first");
    network.run(5_900);
    assert!(!network.has_logged(0, "this node votes again"), "K-5");
    network.run(300);
    assert!(network.has_logged(0, "this node votes again"));
    let known = start_from_own_file(&mut network, 0);
    assert_eq!((known.repairs, known.saved.epochs.last_vote.is_some()), (Vec::new(), true));
}

#[test]
fn cl_s23_a_vote_regained_tells_no_epoch_that_the_file_lacks() {
    let mut network = Network::cluster(3, 3);
    let mut file = saved(&network, 0);
    file.epochs = SavedEpochs::default();
    network.kill(0);
    restart(&mut network, 0, &file);
    network.run(5_900);
    network.peers[0].disk = super::network::Disk::Stands;
    let before = network.peers[1].cluster.info().current_epoch;
    assert_eq!(network.ask(0, ClusterCommand::BumpEpoch), None, "its answer waits for the file");
    network.run(1_000);
    assert!(network.has_logged(0, "this node votes again"));
    assert!(network.peers[0].cluster.info().current_epoch > before);
    assert_eq!(network.peers[1].cluster.info().current_epoch, before, "told before it was durable");
}

#[test]
fn cl_e4_bumpepoch_is_above_a_dead_node_of_the_same_epoch() {
    let mut network = Network::cluster(3, 3);
    let mut file = saved(&network, 0);
    let highest = file.epochs.current;
    file.me.config_epoch = highest;
    file.others.iter_mut().find(|node| node.id == network.id(2)).unwrap().config_epoch = highest;
    network.kill(2);
    network.kill(0);
    restart(&mut network, 0, &file);
    network.run(500);
    let bumped = ClusterAnswer::Status(format!("BUMPED {}", highest.0 + 1));
    assert_eq!(network.command(0, ClusterCommand::BumpEpoch), bumped);
    let still = ClusterAnswer::Status(format!("STILL {}", highest.0 + 1));
    assert_eq!(network.command(0, ClusterCommand::BumpEpoch), still);
}

#[test]
fn cl_s12_s23_an_epoch_that_was_told_while_the_vote_is_unknown_outlives_a_crash() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let mut file = saved(&network, 3);
    file.epochs = SavedEpochs { current: file.epochs.current, last_vote: None };
    network.kill(3);
    restart(&mut network, 3, &file);
    // A replica's line has its primary's epoch, so the epoch that the replica itself has taken is only in
    // `vars`.
    network.command(3, ClusterCommand::BumpEpoch);
    let told = network.peers[3].cluster.info().current_epoch;
    assert!(told > file.epochs.current);
    let (_, text) = network.peers[3].written.last().unwrap().clone();
    let again = conf::read(text.as_bytes(), BusTransport::Tcp).unwrap();
    assert_eq!(again.saved.epochs, SavedEpochs { current: told, last_vote: None });
    network.kill(3);
    restart(&mut network, 3, &again.saved);
    assert_eq!(network.peers[3].cluster.info().current_epoch, told);
}

#[test]
fn cl_n18_g23_an_own_address_that_is_gone_is_written_anew() {
    let network = Network::cluster(2, 2);
    let file = saved(&network, 0);
    let start = |local: &[std::net::IpAddr]| {
        let mut cluster = Cluster::load(network.now(), ClusterSettings::default().into(), 5, &file, local);
        let text = cluster.nodes_text();
        let mut saves = false;
        while let Some(output) = cluster.next_output() {
            saves |= matches!(output, ClusterOutput::Persist { .. });
        }
        assert!(saves, "N-17: a start writes the file");
        text.lines().find(|line| line.contains("myself")).unwrap().split(' ').nth(1).unwrap().to_owned()
    };
    let ip = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    assert!(start(&[ip("10.0.0.1"), ip("127.0.0.1")]).starts_with("10.0.0.1:"));
    assert!(start(&[ip("10.0.3.3"), ip("127.0.0.1")]).starts_with("10.0.3.3:"));
    assert!(start(&[ip("10.0.3.3"), ip("10.0.3.4")]).starts_with(":"), "learned from the next PING");
}

#[test]
fn cl_n12_the_file_has_a_line_for_each_node_and_the_epochs() {
    let network = Network::cluster(3, 3);
    let (_, file) = network.peers[0].written.last().unwrap();
    assert_eq!(file.lines().count(), 4);
    // The node became a voter with its first slots, in epoch 1, so it does not vote in this epoch any more
    // (S-20).
    assert!(file.ends_with("vars currentEpoch 3 lastVoteEpoch 1\n"), "{file}");
    assert!(file.contains("myself,master - 0 0 1 connected 0-5461\n"), "{file}");
    assert!(file.contains(",,tls-port=0,shard-id="));
}

#[test]
fn cl_n26_a_node_that_is_unsure_of_itself_collides_with_nobody() {
    let mut network = Network::of(2);
    network.meet(0, 1);
    network.run(2_000);
    let smaller = usize::from(network.id(1) < network.id(0));
    let (_, file) = network.peers[smaller].written.last().unwrap().clone();
    let lines = file.lines().map(|line| match line.contains("myself") {
        true => line.split(' ').take(3).collect::<Vec<_>>().join(" ") + "\n",
        false => line.to_owned() + "\n",
    });
    let damaged: String = lines.collect();
    let ip = network.peers[smaller].ip;
    network.kill(smaller);
    let settings = network.peers[smaller].settings.clone().into();
    let cluster = Cluster::start(network.now(), settings, 7, Some(damaged.as_bytes()), &[]);
    network.peers[smaller].cluster = cluster.unwrap();
    network.revive(smaller, ip);
    network.run(2_000);
    // The other node has kept epoch 0, because it has the greater id.
    assert_eq!(network.peers[smaller].cluster.machine.table.me().config_epoch, ClusterEpoch(0));
}

#[test]
fn cl_f21_a_primary_that_has_come_back_says_for_two_seconds_that_it_does_not_know() {
    let mut network = Network::cluster(4, 3);
    let node = network.id(0);
    network.command(3, ClusterCommand::Replicate { node: node.as_bytes(), data: HasKeys::No });
    network.run(1_000);
    let (file, of_replica) = (saved(&network, 0), saved(&network, 3));
    network.kill(0);
    restart(&mut network, 0, &file);
    network.run(1_900);
    assert!(last_map(&network, 0).is_coming_back);
    network.run(300);
    let map = last_map(&network, 0);
    assert!(!map.is_coming_back && map.state == ClusterState::Ok, "it is what it was");

    // The restarted node can receive news from no node, so it stops waiting.
    [0, 1, 2, 3].into_iter().for_each(|number| network.kill(number));
    restart(&mut network, 0, &file);
    network.run(2_200);
    assert!(!last_map(&network, 0).is_coming_back);

    for number in [1, 2, 3] {
        let ip = network.peers[number].ip;
        network.revive(number, ip);
    }
    network.run(4_000);
    network.kill(0);
    network.take_over(3);
    restart(&mut network, 0, &file);
    assert!(last_map(&network, 0).is_coming_back);
    network.run(400);
    let map = last_map(&network, 0);
    assert!(!map.is_coming_back && map.my_primary == Some(network.id(3)), "it has heard");

    // Neither a replica nor a new node has to wait for news.
    network.kill(3);
    restart(&mut network, 3, &of_replica);
    let new = network.add(std::net::Ipv4Addr::new(10, 0, 0, 9));
    network.command(new, ClusterCommand::AddSlots { slots: &[HashSlot::new(0).unwrap()] });
    network.run(100);
    assert!(!last_map(&network, 3).is_coming_back && !last_map(&network, new).is_coming_back);
}
