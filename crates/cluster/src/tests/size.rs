//! A large cluster: what a cron costs.
use crate::*;
use sluice_base::Now;

fn id(number: u32) -> NodeId {
    NodeId::parse(format!("{number:040}").as_bytes()).expect("digits")
}

/// A node that knows 999 others, all dialled.
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
