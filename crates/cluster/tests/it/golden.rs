//! Checks the values that are read from messages of stock Valkey nodes, and that writing the messages gives
//! equal bytes.

use sluice_cluster::wire::{
    BusHeader, BusMessage, Extension, ForgottenNode, GossipEntry, LightBody, MessageBody, MessageFlags,
    NodeFlags, PublishedMessage, parse, write,
};
use sluice_cluster::{ClusterEpoch, HashSlot, NodeId, ShardId, SlotSet};

macro_rules! goldens {
    ($($name:literal),* $(,)?) => {
        /// All messages, with their names.
        pub(crate) const MESSAGES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../golden/", $name, ".bin")))),*];
    };
}

goldens![
    "meet-first",
    "meet-again",
    "ping-all-names",
    "pong-forgotten",
    "ping-paused",
    "pong-replica",
    "ping-pfail-entry",
    "fail",
    "mfstart",
    "auth-req-manual",
    "auth-req-automatic",
    "auth-ack",
    "update",
    "publish-light",
    "publish-light-empty",
    "publishshard",
];

const A: &[u8] = b"1335dccd34bc7ed4e1066419e873733e27aba1ba";
const B: &[u8] = b"2e810a0df8a3231d993b6751bdf2eb647f16f1d4";
const C: &[u8] = b"4b5eea6c2ba2c9967323e4dcdd372bd9b37ef981";
const D: &[u8] = b"81e63840e536cd020240fd9777b897465fef3c7d";
const E: &[u8] = b"160b9743b00262832d9073ffdc3772153f364cfc";

fn golden(name: &str) -> &'static [u8] {
    MESSAGES.iter().find(|(other, _)| *other == name).expect("a golden of this name").1
}

fn full(name: &str) -> (BusHeader<'static>, MessageBody<'static>) {
    match parse(golden(name)) {
        Ok(BusMessage::Full(header, body)) => (header, body),
        other => panic!("{name}: {other:?}"),
    }
}

fn node(id: &[u8]) -> NodeId {
    NodeId::parse(id).unwrap()
}

fn slots(first: u16, last: u16) -> SlotSet {
    let mut set = SlotSet::EMPTY;
    for number in first..=last {
        set.insert(HashSlot::new(number).unwrap());
    }
    set
}

#[test]
fn cl_w1_what_stock_nodes_send_is_written_to_the_byte() {
    for (name, bytes) in MESSAGES {
        let message = parse(bytes).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
        let mut out = Vec::new();
        write(&message, &mut out).unwrap();
        assert_eq!(out.len(), bytes.len(), "{name}");
        let differs = out.iter().zip(*bytes).position(|(ours, theirs)| ours != theirs);
        assert_eq!(differs, None, "{name}: offset of the first byte that differs");
    }
}

#[test]
fn cl_w1_a_first_meet_has_a_header_and_no_more() {
    let (header, body) = full("meet-first");
    let owned = slots(0, 5461);
    let expected = BusHeader {
        current_epoch: ClusterEpoch(1),
        config_epoch: ClusterEpoch(1),
        offset: 0,
        sender: node(A),
        slots: owned.bitmap(),
        replica_of: None,
        ip: "",
        port: 21001,
        other_port: 0,
        bus_port: 21101,
        flags: NodeFlags(0x1c11),
        is_down: true,
        message_flags: MessageFlags { is_paused: false, force_ack: false, reads_extensions: true },
    };
    assert_eq!(header, expected);
    let MessageBody::Meet(gossip) = body else { panic!("{body:?}") };
    assert_eq!((gossip.count(), gossip.has_extensions(), gossip.entries().count()), (0, false, 0));
}

#[test]
fn cl_w8_extensions_of_a_node_with_all_names() {
    let (_, body) = full("pong-forgotten");
    let MessageBody::Pong(gossip) = body else { panic!("{body:?}") };
    let shard = ShardId::parse(b"e4a8f66f9dbccafaa98814ae59a30fbfae08e016").unwrap();
    let expected = [
        Extension::HostName("a.example.com"),
        Extension::HumanName(b"alpha"),
        Extension::ClientIpv4("10.1.2.3".parse().unwrap()),
        Extension::ClientIpv6("fd00::1".parse().unwrap()),
        Extension::ClientPort(7001),
        Extension::ClientTlsPort(7002),
        Extension::AvailabilityZone(b"zone-1"),
        Extension::Forgotten(ForgottenNode { node: node(E), seconds: 59 }),
        Extension::Shard(shard),
    ];
    assert_eq!(gossip.extensions().collect::<Vec<_>>(), expected);
    assert_eq!(gossip.passed_over().count(), 0);
    let MessageBody::Ping(gossip) = full("ping-all-names").1 else { panic!("no PING") };
    assert_eq!(gossip.extensions().count(), 8);
}

#[test]
fn cl_w17_headers_of_a_replica_and_of_a_paused_primary() {
    let (header, _) = full("pong-replica");
    assert_eq!((header.sender, header.replica_of, header.flags), (node(B), Some(node(A)), NodeFlags(0x1c12)));
    assert_eq!(header.config_epoch, ClusterEpoch(1), "the primary's");
    assert_eq!(header.slots, slots(0, 5461).bitmap(), "the primary's");
    let (header, _) = full("ping-paused");
    assert!(header.message_flags.is_paused && !header.message_flags.force_ack);
    assert_eq!(header.flags, NodeFlags(0x1d11));
}

#[test]
fn cl_w2_a_request_for_votes_forces_acknowledgement() {
    for (name, flags) in [("auth-req-manual", 0x1c12), ("auth-req-automatic", 0x3c12)] {
        let (header, body) = full(name);
        assert_eq!(body, MessageBody::AuthRequest, "{name}");
        let expected = MessageFlags { is_paused: false, force_ack: true, reads_extensions: false };
        assert_eq!((header.message_flags, header.flags), (expected, NodeFlags(flags)), "{name}");
    }
    assert_eq!(full("auth-ack").1, MessageBody::AuthAck);
    assert_eq!(full("mfstart").1, MessageBody::ManualFailoverStart);
}

#[test]
fn cl_w6_an_entry_about_a_node_that_does_not_answer() {
    let (header, body) = full("ping-pfail-entry");
    assert_eq!(header.sender, node(C));
    let MessageBody::Ping(gossip) = body else { panic!("{body:?}") };
    let entries: Vec<GossipEntry<'_>> = gossip.entries().collect();
    assert_eq!(entries.len(), 2);
    let failing = entries.iter().find(|entry| entry.flags.contains(NodeFlags::PFAIL)).unwrap();
    assert_eq!((failing.node, failing.ip, failing.port), (node(B), "127.0.0.1", 21002));
    assert_eq!((failing.bus_port, failing.other_port), (21102, 0));
    // The entry is about an unanswered PING, sent half a second after the last answer. Both times are in
    // seconds, in November 2026.
    assert!(
        failing.ping_sent_s.abs_diff(failing.pong_received_s) <= 1 && failing.pong_received_s > 1_795_000_000
    );
    assert!(entries.iter().any(|entry| entry.ping_sent_s == 0));
}

#[test]
fn cl_w5_bodies_of_other_types() {
    let (header, body) = full("fail");
    assert_eq!((header.sender, body), (node(D), MessageBody::Fail(node(B))));
    let (header, body) = full("update");
    assert_eq!(header.sender, node(B));
    let owned = slots(0, 5461);
    assert_eq!(
        body,
        MessageBody::Update { config_epoch: ClusterEpoch(6), node: node(B), slots: owned.bitmap() }
    );
}

#[test]
fn cl_w4_published_messages_with_a_light_header() {
    let light = |name| match parse(golden(name)) {
        Ok(BusMessage::Light(body)) => body,
        other => panic!("{name}: {other:?}"),
    };
    let published = |channel, message| PublishedMessage { channel, message };
    assert_eq!(light("publish-light"), LightBody::Publish(published(b"news", b"hello")));
    assert_eq!(light("publish-light-empty"), LightBody::Publish(published("é".as_bytes(), b"")));
    assert_eq!(light("publishshard"), LightBody::PublishShard(published(b"{b}ch", b"sharded")));
}
