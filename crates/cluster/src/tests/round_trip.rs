//! Tests that `nodes.conf` is written, read back, and used for a start.
use crate::conf;
use crate::node::{ClusterNode, NodeRole};
use crate::*;
use sluice_base::{Now, Rng};

/// The contents that a node's file should have: the node's table, in the table's order.
fn held(cluster: &Cluster) -> SavedCluster {
    let m = &cluster.machine;
    let node = |node: &ClusterNode| SavedNode {
        id: node.id,
        address: node.place.address.clone(),
        labels: node.place.labels.clone(),
        shard: Some(node.shown_shard()),
        role: match node.role {
            NodeRole::Unknown => SavedRole::Unknown,
            NodeRole::Primary => SavedRole::Primary,
            NodeRole::Replica(primary) => SavedRole::Replica(primary.map(|ix| m.table.node(ix).id)),
        },
        is_failed: node.is_failed(),
        is_without_address: node.is_without_address(),
        no_failover: node.marks.no_failover,
        config_epoch: if node.primary().is_some() { ClusterEpoch(0) } else { node.config_epoch },
        slots: node.slots.clone(),
    };
    let others = m.table.iter().filter(|(ix, _)| *ix != m.table.my_ix());
    let open = |slots: &std::collections::BTreeMap<HashSlot, crate::node::NodeIx>| {
        slots.iter().map(|(slot, ix)| (*slot, m.table.node(*ix).id)).collect()
    };
    SavedCluster {
        me: node(m.table.me()),
        own_line: OwnLine::Whole,
        others: others.map(|(_, other)| node(other)).collect(),
        migrating: open(&m.table.migrating),
        importing: open(&m.table.importing),
        epochs: SavedEpochs { current: m.epochs.current, last_vote: Some(m.epochs.last_vote) },
    }
}

fn draw_name(rng: &mut Rng) -> std::sync::Arc<[u8]> {
    let plain = (0..=255).filter(|byte| text::is_plain(&[*byte]));
    let plain: Vec<u8> = plain.collect();
    (0..rng.below(6)).map(|_| plain[rng.below(plain.len() as u64) as usize]).collect()
}

fn draw_labels(rng: &mut Rng) -> NodeLabels {
    NodeLabels {
        host_name: ["", "a.example.com", "b-2"][rng.below(3) as usize].into(),
        human_name: draw_name(rng),
        availability_zone: draw_name(rng),
        client_ipv4: (rng.below(3) == 0).then(|| (rng.next_u64() as u32).into()),
        client_ipv6: (rng.below(3) == 0)
            .then(|| std::net::Ipv6Addr::from(u128::from(rng.next_u64()) << 70).into()),
        client_port: [0, rng.next_u64() as u16][rng.below(2) as usize],
        client_tls_port: [0, rng.next_u64() as u16][rng.below(2) as usize],
    }
}

fn draw_node(rng: &mut Rng, ids: &[NodeId], number: usize) -> SavedNode {
    let any = |rng: &mut Rng| ids[rng.below(ids.len() as u64) as usize];
    let mut slots = SlotSet::EMPTY;
    for _ in 0..rng.below(5) {
        let first = rng.below(u64::from(SLOT_COUNT)) as u16;
        for slot in (first..first + rng.below(300) as u16).filter_map(HashSlot::new) {
            slots.insert(slot);
        }
    }
    SavedNode {
        id: ids[number],
        address: NodeAddress {
            ip: ["", "10.0.0.1", "fd00::1:2", "host"][rng.below(4) as usize].into(),
            tcp_port: rng.next_u64() as u16,
            tls_port: [0, rng.next_u64() as u16][rng.below(2) as usize],
            bus_port: rng.next_u64() as u16,
        },
        labels: draw_labels(rng),
        shard: (rng.below(4) > 0).then(|| ShardId::random(rng)),
        role: match rng.below(7) {
            0 => SavedRole::Unknown,
            1 => SavedRole::Replica(None),
            2 | 3 => SavedRole::Replica(Some(any(rng))),
            _ => SavedRole::Primary,
        },
        is_failed: rng.below(4) == 0,
        is_without_address: rng.below(6) == 0,
        no_failover: rng.below(4) == 0,
        config_epoch: ClusterEpoch(rng.next_u64() >> (1 + rng.below(63))),
        slots,
    }
}

fn draw(rng: &mut Rng) -> SavedCluster {
    let ids: Vec<NodeId> = (0..1 + rng.below(12)).map(|_| NodeId::random(rng)).collect();
    let open = |rng: &mut Rng| {
        let slot = |rng: &mut Rng| HashSlot::new(rng.below(u64::from(SLOT_COUNT)) as u16);
        let open =
            (0..rng.below(40)).filter_map(|_| Some((slot(rng)?, ids[rng.below(ids.len() as u64) as usize])));
        open.collect()
    };
    SavedCluster {
        me: draw_node(rng, &ids, 0),
        own_line: OwnLine::Whole,
        others: (1..ids.len()).map(|number| draw_node(rng, &ids, number)).collect(),
        migrating: open(rng),
        importing: open(rng),
        epochs: SavedEpochs {
            current: ClusterEpoch(rng.next_u64() >> 2),
            last_vote: Some(ClusterEpoch(rng.next_u64() >> 2)),
        },
    }
}

/// Settings with which a node's own record stays as in the file.
fn settings(me: &SavedNode) -> ClusterSettings {
    let (address, labels) = (&me.address, me.labels.clone());
    ClusterSettings {
        replica: ReplicaRules { no_failover: me.no_failover, ..ReplicaRules::default() },
        announced: OwnAddress {
            ip: None,
            tcp_port: address.tcp_port,
            tls_port: address.tls_port,
            bus_port: address.bus_port,
            labels,
        },
        ..ClusterSettings::default()
    }
}

fn now() -> Now {
    Now { mono_ns: 1_000_000_000_000, unix_us: 1_700_000_000_000_000 }
}

/// The text of the first file that a node's state machine asks to write.
fn written(cluster: &mut Cluster) -> std::sync::Arc<[u8]> {
    while let Some(output) = cluster.next_output() {
        if let ClusterOutput::Persist { file, .. } = output {
            return file;
        }
    }
    panic!("a start writes the file");
}

#[test]
fn cl_i4_what_is_written_is_read_as_it_was() {
    let mut rng = Rng::new(25);
    for round in 0..400 {
        let saved = draw(&mut rng);
        let settings = std::sync::Arc::new(settings(&saved.me));
        let mut cluster = Cluster::load(now(), settings.clone(), 3, &saved, &[]);
        crate::invariants::check(&cluster.machine);
        for (_, node) in cluster.machine.table.iter() {
            let primary = node.primary().map(|ix| cluster.machine.table.node(ix).shown_shard());
            assert!(primary.is_none_or(|shard| shard == node.shown_shard()), "S-4, round {round}");
        }
        let file = written(&mut cluster);
        let read = conf::read(&file, BusTransport::Tcp).expect("a file of ours");
        assert_eq!(read.repairs, [], "round {round}");
        assert_eq!(read.saved, held(&cluster), "round {round}");
        let mut again = Cluster::start(now(), settings, 4, Some(&file), &[]).expect("a file of ours");
        crate::invariants::check(&again.machine);
        assert_eq!(written(&mut again).escape_ascii().to_string(), file.escape_ascii().to_string());
    }
}

#[test]
fn cl_n18_no_file_and_an_empty_one_make_a_new_node() {
    let settings = std::sync::Arc::new(ClusterSettings::default());
    for file in [None, Some(&b""[..])] {
        let mut cluster = Cluster::start(now(), settings.clone(), 4, file, &[]).expect("a start");
        let first = cluster.next_output();
        let expected = format!("No cluster configuration found, I'm {}", cluster.id());
        assert!(matches!(first, Some(ClusterOutput::Log(_, text)) if text == expected));
        written(&mut cluster);
    }
    assert!(Cluster::start(now(), settings, 4, Some(b"\n"), &[]).is_err(), "an identity is not guessed");
}

#[test]
fn cl_n25_repairs_are_logged_at_their_level() {
    let text = "1335dccd34bc7ed4e1066419e873733e27aba1ba h:1@2,,new=1 myself,master - 0 0 3 connected 0-99\n";
    let start = |log_level| {
        let settings = ClusterSettings { log_level, ..ClusterSettings::default() };
        let mut cluster =
            Cluster::start(now(), settings.into(), 4, Some(text.as_bytes()), &[]).expect("a start");
        let mut lines = Vec::new();
        while let Some(output) = cluster.next_output() {
            if let ClusterOutput::Log(level, text) = output {
                lines.push((level, text));
            }
        }
        lines
    };
    use sluice_base::LogLevel;
    let is_notice = |(level, text): &(LogLevel, String)| {
        *level == LogLevel::Notice && text.ends_with("line 1: the unknown field 'new' is ignored.")
    };
    let is_warning = |(level, text): &(LogLevel, String)| {
        *level == LogLevel::Warning && text.starts_with("The cluster configuration file lacks the epochs")
    };
    assert!(start(LogLevel::Notice).iter().any(is_notice));
    assert!(start(LogLevel::Warning).iter().any(is_warning));
    assert!(!start(LogLevel::Warning).iter().any(is_notice));
}

#[test]
fn cl_r5_a_replica_whose_primary_has_no_address_waits_for_one() {
    let me = "1335dccd34bc7ed4e1066419e873733e27aba1ba h:1@2 myself,slave \
              2e810a0df8a3231d993b6751bdf2eb647f16f1d4 0 0 3 connected\nvars currentEpoch 3 lastVoteEpoch 0\n";
    let follows = |text: String| {
        let mut cluster =
            Cluster::start(now(), ClusterSettings::default().into(), 4, Some(text.as_bytes()), &[])
                .expect("a start");
        std::iter::from_fn(|| cluster.next_output()).any(|output| matches!(output, ClusterOutput::Role(_)))
    };
    assert!(!follows(me.to_owned()));
    let primary = "2e810a0df8a3231d993b6751bdf2eb647f16f1d4 10.0.0.2:1@2 master - 0 0 3 connected\n";
    assert!(follows(format!("{me}{primary}")));
}

/// A primary with the id `number`, in digits.
fn primary(number: usize, slots: SlotSet) -> SavedNode {
    let mut node =
        draw_node(&mut Rng::new(1), &[NodeId::parse(format!("{number:040}").as_bytes()).unwrap()], 0);
    node.role = SavedRole::Primary;
    node.slots = slots;
    node
}

#[test]
fn cl_n25_a_second_line_of_a_node_gives_it_no_slot() {
    let slots = |number| {
        let mut slots = SlotSet::EMPTY;
        slots.insert(HashSlot::new(number).unwrap());
        slots
    };
    let mut saved = draw(&mut Rng::new(2));
    saved.me = primary(0, slots(0));
    saved.others = vec![primary(1, slots(1)), primary(1, slots(2)), primary(0, slots(3))];
    let cluster = Cluster::load(now(), ClusterSettings::default().into(), 5, &saved, &[]);
    crate::invariants::check(&cluster.machine);
    let counts = cluster.machine.table.iter().map(|(_, node)| node.slot_count);
    assert_eq!(counts.take(2).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn cl_x10_nodes_that_are_named_alone_are_bounded_too() {
    let mut saved = draw(&mut Rng::new(2));
    saved.me.role = SavedRole::Primary;
    (saved.migrating, saved.importing) = (Vec::new(), Vec::new());
    saved.others = (1..2_500).map(|number| primary(number, SlotSet::EMPTY)).collect();
    for (number, node) in saved.others.iter_mut().enumerate() {
        let of = format!("{:040}", 10_000 + number);
        node.role = SavedRole::Replica(NodeId::parse(of.as_bytes()));
    }
    for count in [500, 1_500, 2_499] {
        let mut some = saved.clone();
        some.others.truncate(count);
        let cluster = Cluster::load(now(), ClusterSettings::default().into(), 5, &some, &[]);
        assert_eq!(cluster.info().known_nodes, (2 * count + 1).min(NODES_MAX));
    }
}
