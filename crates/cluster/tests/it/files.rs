//! Tests of files of stock Valkey nodes, and of the state that is read from them.

use sluice_cluster::conf::{self, ConfFile};
use sluice_cluster::{
    BusTransport, Cluster, ClusterEpoch, ClusterOutput, ClusterSettings, HashSlot, NodeId, OwnLine,
    ReplicaRules, SavedEpochs, SavedNode, SavedRole, ShardId, SlotSet,
};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// All files of stock nodes, with their names.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../golden/", $name, ".conf")))),*];
    };
}

files![
    "failed-peer",
    "importing",
    "primary-migrating",
    "primary-pieces",
    "replica",
    "stock-failed-replica",
    "stock-noaddr",
    "stock-open-slots",
    "stock-replica-nofailover",
    "stock-suspected",
];

const ONE: &str = "ecab95458f51de28a9f4f307e4093bfa4a8190d1";
const TWO: &str = "c8c3e9516715fe23571f21bd9e15f2800f2b0ab5";
const THREE: &str = "b2d6dc5b33f46f7257d1f89f166a58cb07ab1e72";
const FOUR: &str = "266e9539e9a30a33c3cc9d96e8d8bb836ddb2174";
const FIVE: &str = "9c86c3ef243c5659cb638e17f03c8a75ba0988db";
const SIX: &str = "c7fde62fd92988b0d03f6a5b9d98816a39dfe110";

fn read(name: &str) -> ConfFile {
    let text = FILES.iter().find(|(other, _)| *other == name).unwrap().1;
    conf::read(text.as_bytes(), BusTransport::Tcp).unwrap()
}

fn id(text: &str) -> NodeId {
    NodeId::parse(text.as_bytes()).unwrap()
}

fn slot(number: u16) -> HashSlot {
    HashSlot::new(number).unwrap()
}

fn node<'a>(file: &'a ConfFile, name: &str) -> &'a SavedNode {
    file.saved.others.iter().find(|node| node.id == id(name)).unwrap()
}

fn runs(slots: &SlotSet) -> Vec<(u16, u16)> {
    slots.runs().map(|(first, last)| (first.number(), last.number())).collect()
}

#[test]
fn cl_i4_files_of_stock_nodes_are_read_without_a_complaint_and_written_again() {
    let now = sluice_base::Now { mono_ns: 1_000_000_000_000, unix_us: 1_700_000_000_000_000 };
    for (name, text) in FILES {
        let file = read(name);
        assert_eq!(file.repairs, [], "{name}");
        assert_eq!(file.saved.own_line, OwnLine::Whole, "{name}");
        assert_eq!(file.saved.others.len(), text.lines().count() - 2, "{name}");
        let settings = {
            let replica = ReplicaRules { no_failover: file.saved.me.no_failover, ..Default::default() };
            ClusterSettings { replica, ..Default::default() }
        };
        let mut cluster = Cluster::start(now, settings.into(), 1, Some(text.as_bytes()), &[]).unwrap();
        let outputs = std::iter::from_fn(|| cluster.next_output());
        let written = outputs.filter_map(|output| match output {
            ClusterOutput::Persist { file, .. } => Some(file),
            _ => None,
        });
        let written = conf::read(&written.last().unwrap(), BusTransport::Tcp).unwrap();
        // The node's own ports and names are not compared, because they come from the settings and are empty
        // here. A replica's open slots are not compared, because they come with its primary's data.
        assert_eq!(written.saved.others, file.saved.others, "{name}");
        assert_eq!(written.saved.epochs, file.saved.epochs, "{name}");
        assert_eq!(written.saved.me.slots, file.saved.me.slots, "{name}");
        assert_eq!(written.saved.me.shard, file.saved.me.shard, "{name}");
        if file.saved.me.role == SavedRole::Primary {
            assert_eq!(written.saved.migrating, file.saved.migrating, "{name}");
            assert_eq!(written.saved.importing, file.saved.importing, "{name}");
        }
    }
}

#[test]
fn cl_n12_a_stock_node_with_all_announced_values() {
    let file = read("stock-open-slots");
    let me = &file.saved.me;
    assert_eq!((me.id, me.role, me.config_epoch), (id(ONE), SavedRole::Primary, ClusterEpoch(1)));
    let address = &me.address;
    assert_eq!(
        (&*address.ip, address.tcp_port, address.tls_port, address.bus_port),
        ("127.0.0.1", 25001, 7443, 25101)
    );
    assert_eq!(&*me.labels.host_name, "one.example.com");
    assert_eq!(&*me.labels.human_name, "größe-1".as_bytes());
    assert_eq!(&*me.labels.availability_zone, b"eu-1/b");
    assert_eq!(me.labels.client_ipv4, Some("10.9.8.7".parse().unwrap()));
    assert_eq!(me.labels.client_ipv6, Some("2001:db8::7".parse().unwrap()));
    assert_eq!((me.labels.client_port, me.labels.client_tls_port), (7001, 7002));
    assert_eq!(me.shard, ShardId::parse(b"1acecfab463fbb7afe8eb6cae10b6312acc678ce"));
    assert_eq!(runs(&me.slots), [(0, 5000), (5002, 5002), (5004, 5461)]);
    assert_eq!(file.saved.migrating, [(slot(7), id(TWO)), (slot(5461), id(THREE))]);
    assert_eq!(file.saved.importing, [(slot(6000), id(TWO)), (slot(16000), id(THREE))]);
    let epochs = SavedEpochs { current: ClusterEpoch(6), last_vote: Some(ClusterEpoch(0)) };
    assert_eq!(file.saved.epochs, epochs);
    assert_eq!(&*node(&file, TWO).address.ip, "::1");
    assert_eq!(&*node(&file, THREE).labels.host_name, "three");
}

#[test]
fn cl_n13_roles_and_failures_of_stock_files() {
    let replica = read("stock-replica-nofailover");
    assert_eq!(replica.saved.me.role, SavedRole::Replica(Some(id(ONE))));
    assert_eq!((replica.saved.me.no_failover, replica.saved.me.shard), (true, node(&replica, ONE).shard));
    assert_eq!(node(&replica, SIX).role, SavedRole::Replica(Some(id(TWO))));
    let noaddr = read("stock-noaddr");
    let four = node(&noaddr, FOUR);
    assert!(four.is_failed && four.is_without_address && four.address.ip.is_empty());
    assert!(node(&noaddr, FIVE).no_failover);
    let failed = read("stock-failed-replica");
    assert!(node(&failed, SIX).is_failed && !node(&failed, SIX).is_without_address);
    let suspected = read("stock-suspected");
    assert!(!node(&suspected, ONE).is_failed && !node(&suspected, TWO).is_failed, "a suspicion is not kept");
    assert!(node(&suspected, SIX).is_failed);
    let open = read("replica").saved.migrating;
    assert_eq!(open, [(slot(7), id("4b5eea6c2ba2c9967323e4dcdd372bd9b37ef981"))]);
}
