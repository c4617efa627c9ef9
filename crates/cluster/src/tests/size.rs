//! Tests of a large cluster: the cost of a tick, and the news of many failures.
use crate::*;
use sluice_base::Now;

fn id(number: u32) -> NodeId {
    NodeId::parse(format!("{number:040}").as_bytes()).expect("digits")
}

/// A node that knows 999 others and has dialled all of them.
fn large() -> (Cluster, Vec<LinkKey>, Now) {
    let node = |number: u32| SavedNode {
        id: id(number),
        address: NodeAddress {
            ip: format!("10.1.{}.{}", number / 250, number % 250 + 1).into(),
            tcp_port: 6_379,
            tls_port: 0,
            bus_port: 16_379,
        },
        labels: NodeLabels::default(),
        shard: ShardId::parse(id(number).as_bytes()),
        role: SavedRole::Primary,
        is_failed: false,
        is_without_address: false,
        no_failover: false,
        config_epoch: ClusterEpoch(u64::from(number)),
        slots: SlotSet::EMPTY,
    };
    let saved = SavedCluster {
        me: node(0),
        own_line: OwnLine::Whole,
        others: (1..1_000).map(node).collect(),
        migrating: Vec::new(),
        importing: Vec::new(),
        epochs: SavedEpochs { current: ClusterEpoch(1_000), last_vote: Some(ClusterEpoch(0)) },
    };
    let now = Now { mono_ns: 1_000_000_000_000, unix_us: 1_700_000_000_000_000 };
    let mut cluster = Cluster::load(now, ClusterSettings::default().into(), 7, &saved, &[]);
    cluster.step(now, &ClusterInput::Tick);
    let mut links = Vec::new();
    while let Some(output) = cluster.next_output() {
        if let ClusterOutput::Dial { link, .. } = output {
            links.push(link);
        }
    }
    (cluster, links, now)
}

#[test]
fn cl_x10_a_cron_of_a_thousand_quiet_nodes_sends_nothing_and_asks_for_nothing() {
    let (mut cluster, links, mut now) = large();
    assert_eq!(links.len(), 999);
    for link in &links {
        cluster.step(now, &ClusterInput::Connected { link: *link });
    }
    let pings = std::iter::from_fn(|| cluster.next_output());
    assert_eq!(pings.filter(|output| matches!(output, ClusterOutput::Send { .. })).count(), 999);
    for _ in 0..15 {
        now.mono_ns += 100_000_000;
        now.unix_us += 100_000;
        cluster.step(now, &ClusterInput::Tick);
    }
    let outputs: Vec<ClusterOutput> = std::iter::from_fn(|| cluster.next_output()).collect();
    assert!(outputs.is_empty(), "{outputs:?}");
}

/// The outputs so far: the maps, and the generations of the files.
fn maps_and_files(cluster: &mut Cluster) -> (Vec<std::sync::Arc<SlotMap>>, Vec<Generation>) {
    let (mut maps, mut files) = (Vec::new(), Vec::new());
    while let Some(output) = cluster.next_output() {
        match output {
            ClusterOutput::Slots(map) => maps.push(map),
            ClusterOutput::Persist { generation, .. } => files.push(generation),
            _ => {}
        }
    }
    (maps, files)
}

#[test]
fn cl_f7_failures_that_are_told_together_give_one_map_and_their_file_none() {
    let (mut cluster, _, now) = large();
    let ip = std::net::IpAddr::from([10, 1, 0, 2]);
    let link = cluster.accept(now, ip, ip).expect("room");
    // Completes the writes of all files of the start; the first write is already in progress.
    let mut files = vec![Generation(1)];
    while let Some(generation) = files.pop() {
        cluster.step(now, &ClusterInput::Saved { generation });
        files.extend(maps_and_files(&mut cluster).1);
    }
    let header = super::network::header_of(id(1), &SlotSet::EMPTY);
    for about in 500..600 {
        let mut bytes = Vec::new();
        let body = wire::MessageBody::Fail(id(about));
        wire::write(&wire::BusMessage::Full(header, body), &mut bytes).expect("short");
        cluster.step(now, &ClusterInput::ReceivedMessage { link, bytes: &bytes });
        let (maps, more) = maps_and_files(&mut cluster);
        assert!(maps.is_empty(), "a map of the FAIL about node {about}");
        files.extend(more);
    }
    assert!(cluster.awaits_iteration_end());
    cluster.step(now, &ClusterInput::IterationEnd);
    assert!(!cluster.awaits_iteration_end());
    let (maps, more) = maps_and_files(&mut cluster);
    files.extend(more);
    let has_failed = |node: &&MapNode| matches!(node.health, NodeHealth::Fail { .. });
    let failed: Vec<usize> = maps.iter().map(|map| map.nodes.iter().filter(has_failed).count()).collect();
    assert_eq!((failed, files.len()), (vec![100], 1));
    // The file has no news of this node itself, so no map waits for it.
    cluster.step(now, &ClusterInput::Saved { generation: files[0] });
    let (maps, files) = maps_and_files(&mut cluster);
    assert_eq!((maps.len(), files.len()), (0, 1), "what came after the first file began is written, too");
}
