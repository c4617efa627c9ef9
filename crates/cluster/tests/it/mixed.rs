//! Tests of stock Valkey nodes and nodes of ours in one cluster, over sockets. The tests run if
//! `SLUICE_PEER_SERVER` names the reference.

use crate::reference::{StockNode, free_port};
use crate::sockets::SocketNode;
use sluice_base::{Bytes, Rng};
use sluice_cluster::wire::{
    AnnouncedLabels, BusHeader, BusMessage, GossipBuffer, MessageBody, MessageFlags, NodeFlags,
    ReceiveBuffer, ReceivedMessage, parse, write,
};
use sluice_cluster::{
    BITMAP_LEN, ClusterCommand, ClusterEpoch, ClusterInput, ClusterOutput, ClusterSettings, ClusterState,
    HasKeys, HashSlot, NodeId, NodeLabels, OwnAddress, PublishScope, SLOT_COUNT, ShardId,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

const STOCK: [&str; 4] = ["--cluster-node-timeout", "1000", "--cluster-ping-interval", "100"];

fn settings(announced: OwnAddress) -> ClusterSettings {
    ClusterSettings { node_timeout_ms: 1_000, ping_interval_ms: 100, announced, ..ClusterSettings::default() }
}

fn labels() -> NodeLabels {
    NodeLabels {
        host_name: "ours.example.com".into(),
        human_name: "größe".as_bytes().into(),
        availability_zone: b"eu-1".as_slice().into(),
        client_ipv4: Some(Ipv4Addr::new(10, 1, 2, 3)),
        client_ipv6: Some("fd00::3".parse().unwrap()),
        client_port: 7_001,
        client_tls_port: 7_002,
    }
}

fn slots(first: u16, last: u16) -> Vec<HashSlot> {
    (first..=last).filter_map(HashSlot::new).collect()
}

/// The fields of a node's line in a stock node's CLUSTER NODES.
fn line(stock: &mut StockNode, id: &str) -> Option<Vec<String>> {
    let text = stock.call(&["cluster", "nodes"]);
    let line = text.lines().find(|line| line.starts_with(id))?;
    Some(line.split(' ').map(str::to_owned).collect())
}

/// A number in a stock node's CLUSTER INFO.
fn number(stock: &mut StockNode, name: &str) -> u64 {
    let info = stock.call(&["cluster", "info"]);
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// A stock node's log lines with complaints about our messages.
fn complaints(stock: &StockNode) -> Vec<String> {
    let words = ["Bad message", "nvalid", "without proper padding", "unknown", "mismatching"];
    let log = stock.log();
    log.lines().filter(|line| words.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
}

/// A cluster of two stock nodes and one node of ours, which has met the first stock node. Each node has some
/// slots.
fn cluster() -> Option<(StockNode, StockNode, SocketNode)> {
    let mut one = StockNode::start(None, &STOCK)?;
    let mut two = StockNode::start(None, &STOCK)?;
    one.call(&["cluster", "addslotsrange", "0", "5000"]);
    two.call(&["cluster", "addslotsrange", "5001", "10000"]);
    one.call(&["cluster", "set-config-epoch", "1"]);
    two.call(&["cluster", "set-config-epoch", "2"]);
    let (port, bus_port) = (two.port.to_string(), two.bus_port.to_string());
    assert_eq!(one.call(&["cluster", "meet", "127.0.0.1", &port, &bus_port]), "+OK");
    let announced = OwnAddress { tcp_port: 6_379, labels: labels(), ..OwnAddress::default() };
    let mut ours = SocketNode::start(settings(announced), 5);
    ours.command(ClusterCommand::SetConfigEpoch { epoch: 3 });
    ours.command(ClusterCommand::AddSlots { slots: &slots(10_001, SLOT_COUNT - 1) });
    let (port, bus_port) = (i64::from(one.port), Some(i64::from(one.bus_port)));
    ours.command(ClusterCommand::Meet { ip: "127.0.0.1", port, bus_port });
    Some((one, two, ours))
}

/// Whether a line describes a connected primary that has slots.
fn is_well(line: Option<&Vec<String>>) -> bool {
    line.is_some_and(|line| line[2].ends_with("master") && line[7] == "connected" && line.len() > 8)
}

/// Runs until the three nodes know each other and the cluster's state is `ok` for all of them.
fn settle(one: &mut StockNode, two: &mut StockNode, ours: &mut SocketNode) {
    let (my_id, first, second) =
        (ours.cluster.id().to_string(), one.call(&["cluster", "myid"]), two.call(&["cluster", "myid"]));
    ours.run_until("three nodes know each other", |ours| {
        [&first, &second].iter().all(|id| is_well(ours.line(id).as_ref()))
            && is_well(line(one, &my_id).as_ref())
            && is_well(line(two, &my_id).as_ref())
            && is_well(line(one, &second).as_ref())
            && ours.cluster.info().state == ClusterState::Ok
            && one.call(&["cluster", "info"]).contains("cluster_state:ok")
            && two.call(&["cluster", "info"]).contains("cluster_state:ok")
    });
}

#[test]
fn cl_i2_a_node_of_ours_and_two_stock_nodes_know_each_other() {
    let Some((mut one, mut two, mut ours)) = cluster() else { return };
    settle(&mut one, &mut two, &mut ours);
    let my_id = ours.cluster.id().to_string();
    let shown = line(&mut two, &my_id).unwrap();
    assert_eq!(shown[1], format!("10.1.2.3:7001@{},ours.example.com", ours.bus_port));
    assert_eq!((shown[6].as_str(), shown[8].as_str()), ("3", "10001-16383"));
    let shards = two.call(&["cluster", "shards"]);
    assert!(shards.contains("ours.example.com") && shards.contains("eu-1"), "{shards}");
    let file = two.call(&["cluster", "saveconfig"])
        + &std::fs::read_to_string(two.folder().join("nodes.conf")).unwrap();
    assert!(file.contains("nodename=größe") && file.contains("client-ipv6=fd00::3"), "{file}");
    assert_eq!((complaints(&one), complaints(&two)), (Vec::new(), Vec::new()));
    for stock in [&mut one, &mut two] {
        assert!(number(stock, "cluster_stats_messages_ping_received") > 0);
        assert!(number(stock, "cluster_stats_messages_pong_received") > 0);
        assert_eq!(number(stock, "cluster_known_nodes"), 3);
    }
}

#[test]
fn cl_p1_published_messages_pass_between_a_node_of_ours_and_stock_nodes() {
    let Some((mut one, mut two, mut ours)) = cluster() else { return };
    settle(&mut one, &mut two, &mut ours);
    one.call(&["publish", "news", "hello"]);
    ours.run_until("a message of a stock node", |ours| {
        ours.seen.iter().any(|output| match output {
            ClusterOutput::Deliver { channel, message, scope } => {
                (&**channel, &**message, *scope) == (b"news", b"hello", PublishScope::All)
            }
            _ => false,
        })
    });
    let (channel, message) = (Bytes::copy_from(b"news"), Bytes::copy_from(b"from ours"));
    ours.step(&ClusterInput::Publish { channel: &channel, message: &message, scope: PublishScope::All });
    ours.run_until("a message of ours", |_| {
        number(&mut one, "cluster_stats_messages_publish_received") == 1
            && number(&mut two, "cluster_stats_messages_publish_received") == 2
    });
    assert_eq!((complaints(&one), complaints(&two)), (Vec::new(), Vec::new()));
}

#[test]
fn cl_f5_a_node_of_ours_and_a_stock_one_condemn_a_dead_stock_node() {
    let Some((mut one, mut two, mut ours)) = cluster() else { return };
    settle(&mut one, &mut two, &mut ours);
    let second = two.call(&["cluster", "myid"]);
    drop(two);
    ours.run_until("a dead node is FAIL for both", |ours| {
        [ours.line(&second), line(&mut one, &second)]
            .iter()
            .all(|line| line.as_ref().is_some_and(|line| line[2] == "master,fail"))
    });
    assert!(
        number(&mut one, "cluster_stats_messages_fail_received") + ours.cluster.info().statistics.fails > 0
    );
    assert_eq!(complaints(&one), Vec::<String>::new());
}

#[test]
fn cl_r1_a_node_of_ours_is_a_replica_for_stock_nodes() {
    let Some((mut one, mut two, mut ours)) = cluster() else { return };
    settle(&mut one, &mut two, &mut ours);
    let first = one.call(&["cluster", "myid"]);
    ours.command(ClusterCommand::DelSlots { slots: &slots(10_001, SLOT_COUNT - 1) });
    ours.command(ClusterCommand::Replicate { node: first.as_bytes(), data: HasKeys::No });
    let my_id = ours.cluster.id().to_string();
    ours.run_until("stock nodes show a replica", |_| {
        [&mut one, &mut two]
            .into_iter()
            .all(|stock| line(stock, &my_id).is_some_and(|line| line[2] == "slave" && line[3] == first))
    });
    assert_eq!((complaints(&one), complaints(&two)), (Vec::new(), Vec::new()));
}

/// A header of a new primary.
fn header(sender: NodeId, bus_port: u16) -> BusHeader<'static> {
    BusHeader {
        current_epoch: ClusterEpoch(0),
        config_epoch: ClusterEpoch(0),
        offset: 0,
        sender,
        slots: &[0; BITMAP_LEN],
        replica_of: None,
        ip: "",
        port: 6_379,
        other_port: 0,
        bus_port,
        flags: NodeFlags(0x1c11),
        is_down: false,
        message_flags: MessageFlags { is_paused: false, force_ack: false, reads_extensions: true },
    }
}

/// Reads the next message of a connection, and passes it to `then`.
fn next_message(stream: &mut TcpStream, then: impl FnOnce(&BusMessage<'_>)) {
    let (mut inbox, mut buffer) = (ReceiveBuffer::new(), [0; 1_000]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "the stock node has closed the connection");
        let mut bytes = &buffer[..count];
        match inbox.next(&mut bytes, 0, |_| true) {
            Some(ReceivedMessage::BusMessage(bytes)) => return then(&parse(bytes).unwrap()),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

#[test]
fn cl_g12_a_stock_node_answers_a_meet_by_hand_and_lists_who_sent_it() {
    let Some(mut stock) = StockNode::start(None, &STOCK) else { return };
    let stock_id = stock.call(&["cluster", "myid"]);
    let mut rng = Rng::new(77);
    let (id, shard, bus_port) = (NodeId::random(&mut rng), ShardId::random(&mut rng), free_port());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, bus_port)).unwrap();
    let mut told = GossipBuffer::new();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, stock.bus_port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut packet = Vec::new();
    // The first message on a link has no extensions (W-9).
    write(&BusMessage::Full(header(id, bus_port), MessageBody::Meet(told.gossip())), &mut packet).unwrap();
    stream.write_all(&packet).unwrap();
    next_message(&mut stream, |answer| {
        let BusMessage::Full(header, MessageBody::Pong(_)) = answer else { panic!("{answer:?}") };
        assert_eq!(header.sender.to_string(), stock_id);
        assert_eq!(header.flags, NodeFlags(0x1c11), "a stock primary at rest");
        assert_eq!(header.bus_port, stock.bus_port);
    });
    // The stock node dials back and sends a PING.
    let (mut back, _) = listener.accept().unwrap();
    back.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    next_message(&mut back, |question| {
        assert!(matches!(question, BusMessage::Full(_, MessageBody::Ping(_))), "{question:?}");
    });
    let labels = labels();
    let announced = AnnouncedLabels {
        host_name: &labels.host_name,
        human_name: &labels.human_name,
        client_ipv4: labels.client_ipv4,
        client_ipv6: labels.client_ipv6,
        client_port: labels.client_port,
        client_tls_port: labels.client_tls_port,
        availability_zone: &labels.availability_zone,
        shard,
    };
    told.announce(&announced, std::iter::empty());
    let answer = |stream: &mut TcpStream| {
        let mut packet = Vec::new();
        write(&BusMessage::Full(header(id, bus_port), MessageBody::Pong(told.gossip())), &mut packet)
            .unwrap();
        stream.write_all(&packet).unwrap();
    };
    // The first answer ends the handshake. The second one comes from a node that is known by now, so that its
    // names count (W-10).
    answer(&mut back);
    next_message(&mut back, |_| {});
    answer(&mut back);
    let shown = (0..400).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        line(&mut stock, &id.to_string()).filter(|line| line[1].contains("ours.example.com"))
    });
    let shown = shown.unwrap_or_else(|| panic!("{}", stock.call(&["cluster", "nodes"])));
    assert_eq!(shown[1], format!("10.1.2.3:7001@{bus_port},ours.example.com"));
    assert_eq!((shown[2].as_str(), shown[7].as_str()), ("master", "connected"));
    assert_eq!(complaints(&stock), Vec::<String>::new());
}
