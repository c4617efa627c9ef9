//! Tests of stock Valkey nodes that start from files of this crate. The tests run if `SLUICE_PEER_SERVER`
//! names the reference.

use crate::reference::StockNode;
use sluice_base::{Now, Rng};
use sluice_cluster::{
    BusTransport, Cluster, ClusterEpoch, ClusterOutput, ClusterSettings, HashSlot, NodeAddress, NodeId,
    NodeLabels, OwnAddress, OwnLine, ReplicaRules, SLOT_COUNT, SavedCluster, SavedEpochs, SavedNode,
    SavedRole, ShardId, SlotSet, conf,
};

const PRIMARIES: usize = 5;
const NODES: usize = 9;

/// Draws a cluster whose first nodes are primaries and share most of the slots; the others are replicas. This
/// node is number `me`.
fn draw(rng: &mut Rng, me: usize) -> SavedCluster {
    let ids: Vec<NodeId> = (0..NODES).map(|_| NodeId::random(rng)).collect();
    let shards: Vec<ShardId> = (0..PRIMARIES).map(|_| ShardId::random(rng)).collect();
    let mut nodes: Vec<SavedNode> = (0..NODES)
        .map(|number| {
            let primary = if number < PRIMARIES { number } else { rng.below(PRIMARIES as u64) as usize };
            let is_gone = number != me && rng.below(5) == 0;
            SavedNode {
                id: ids[number],
                // Nobody listens at these addresses.
                address: if is_gone { NodeAddress::none() } else { address(number) },
                labels: draw_labels(rng),
                shard: Some(shards[primary]),
                role: match number < PRIMARIES {
                    true => SavedRole::Primary,
                    false => SavedRole::Replica(Some(ids[primary])),
                },
                is_failed: is_gone || (number != me && rng.below(4) == 0),
                is_without_address: is_gone,
                no_failover: rng.below(4) == 0,
                config_epoch: match number < PRIMARIES {
                    true => ClusterEpoch(1 + number as u64 * 1_000_000_007),
                    false => ClusterEpoch(0),
                },
                slots: SlotSet::EMPTY,
            }
        })
        .collect();
    let slots: Vec<HashSlot> = (0..SLOT_COUNT).filter_map(HashSlot::new).collect();
    for run in slots.chunks(97) {
        let owner = rng.below(PRIMARIES as u64 + 1) as usize;
        let owner = nodes.get_mut(owner).filter(|_| owner < PRIMARIES);
        if let Some(owner) = owner {
            run.iter().for_each(|slot| {
                owner.slots.insert(*slot);
            });
        }
    }
    let own = nodes.remove(me);
    let open = |rng: &mut Rng, is_mine: bool| {
        let slots = slots.iter().filter(|slot| own.slots.contains(**slot) == is_mine && rng.below(900) == 0);
        let other = ids[usize::from(me == 0)];
        slots.map(|slot| (*slot, other)).collect::<Vec<_>>()
    };
    let (migrating, importing) = match own.role {
        SavedRole::Primary => (open(rng, true), open(rng, false)),
        _ => (Vec::new(), Vec::new()),
    };
    let last_vote = Some(ClusterEpoch(4_999_999_999));
    let epochs = SavedEpochs { current: ClusterEpoch(5_000_000_000), last_vote };
    SavedCluster { me: own, own_line: OwnLine::Whole, others: nodes, migrating, importing, epochs }
}

fn address(number: usize) -> NodeAddress {
    NodeAddress {
        ip: ["127.0.0.1", "::1"][number % 2].into(),
        tcp_port: 1,
        tls_port: [0, 2][number / 2 % 2],
        bus_port: 3,
    }
}

fn draw_labels(rng: &mut Rng) -> NodeLabels {
    let mut pick = |texts: &[&'static str]| texts[rng.below(texts.len() as u64) as usize];
    NodeLabels {
        host_name: pick(&["", "a.example.com"]).into(),
        human_name: pick(&["", "größe", "!", "a'b\"c"]).replace(['\'', '"', '!'], "-").into_bytes().into(),
        availability_zone: pick(&["", "eu-1/b"]).as_bytes().into(),
        client_ipv4: pick(&["1.2.3.4", ""]).parse().ok(),
        client_ipv6: pick(&["fd00::1", ""]).parse().ok(),
        client_port: if rng.below(2) == 0 { 0 } else { 7_001 },
        client_tls_port: if rng.below(2) == 0 { 0 } else { 7_002 },
    }
}

/// The file that a node of ours writes at its start.
fn written(saved: &SavedCluster) -> std::sync::Arc<[u8]> {
    let (own, labels) = (&saved.me.address, saved.me.labels.clone());
    let (tcp_port, tls_port, bus_port) = (own.tcp_port, own.tls_port, own.bus_port);
    let settings = ClusterSettings {
        replica: ReplicaRules { no_failover: saved.me.no_failover, ..ReplicaRules::default() },
        announced: OwnAddress { ip: None, tcp_port, tls_port, bus_port, labels },
        ..ClusterSettings::default()
    };
    let now = Now { mono_ns: 1_000_000_000_000, unix_us: 1_700_000_000_000_000 };
    let mut cluster = Cluster::load(now, settings.into(), 1, saved, &[]);
    let outputs = std::iter::from_fn(|| cluster.next_output());
    let files = outputs.filter_map(|output| match output {
        ClusterOutput::Persist { file, .. } => Some(file),
        _ => None,
    });
    files.last().unwrap()
}

#[test]
fn cl_i4_stock_nodes_start_from_our_files_and_keep_what_they_say() {
    let mut rng = Rng::new(91);
    for me in [0, PRIMARIES, 1, PRIMARIES + 1] {
        let file = written(&draw(&mut rng, me));
        let ours = conf::read(&file, BusTransport::Tcp).unwrap();
        assert_eq!(ours.repairs, []);
        let no_failover = if ours.saved.me.no_failover { "yes" } else { "no" };
        let arguments = ["--cluster-node-timeout", "600000", "--cluster-replica-no-failover", no_failover];
        let Some(mut stock) = StockNode::start(Some(&file), &arguments) else { return };
        assert_eq!(stock.call(&["cluster", "myid"]), ours.saved.me.id.to_string());
        assert_eq!(stock.call(&["cluster", "saveconfig"]), "+OK");
        let text = std::fs::read(stock.folder().join("nodes.conf")).unwrap();
        let theirs = conf::read(&text, BusTransport::Tcp).unwrap();
        let by_id = |saved: &SavedCluster| {
            let mut others = saved.others.clone();
            others.sort_by_key(|node| node.id);
            others
        };
        for (our, their) in by_id(&ours.saved).iter().zip(&by_id(&theirs.saved)) {
            assert_eq!(our, their, "from {}", file.escape_ascii());
        }
        // A node's own address and names come from its directives.
        let (our, their) = (&ours.saved, &theirs.saved);
        assert_eq!((our.others.len(), our.epochs), (their.others.len(), their.epochs));
        assert_eq!((our.me.id, our.me.shard, our.me.role), (their.me.id, their.me.shard, their.me.role));
        assert_eq!((our.me.config_epoch, &our.me.slots), (their.me.config_epoch, &their.me.slots));
        assert_eq!((&our.migrating, &our.importing), (&their.migrating, &their.importing));
        let own = format!(":{}@{}", stock.port, stock.bus_port);
        let nodes = stock.call(&["cluster", "nodes"]);
        let line = nodes.lines().find(|line| line.contains("myself")).unwrap();
        assert!(line.contains(&own) || our.me.labels.client_port != 0, "{line}");
        assert!(!stock.log().contains("Unrecoverable"), "{}", stock.log());
    }
}
