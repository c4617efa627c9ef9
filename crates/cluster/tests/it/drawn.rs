//! Random messages, with the memory that they borrow from.

use sluice_base::Rng;
use sluice_cluster::wire::{
    AnnouncedLabels, BusHeader, BusMessage, ForgottenNode, GossipBuffer, GossipEntry, LightBody, MessageBody,
    MessageFlags, NodeFlags, PublishedMessage,
};
use sluice_cluster::{BITMAP_LEN, ClusterEpoch, NodeId, ShardId};

/// The memory that a random message borrows from.
pub(crate) struct Drawn {
    header: Box<BusHeader<'static>>,
    slots: Box<[u8; BITMAP_LEN]>,
    gossip: GossipBuffer,
    channel: Vec<u8>,
    message: Vec<u8>,
    kind: u64,
    node: NodeId,
    /// The parts that the gossip was made of, for comparison.
    pub(crate) announced: Option<AnnouncedLabels<'static>>,
    pub(crate) forgotten: Vec<ForgottenNode>,
    pub(crate) entries: Vec<GossipEntry<'static>>,
}

const NONE: &[u8; BITMAP_LEN] = &[0; BITMAP_LEN];
const IPS: [&str; 4] =
    ["127.0.0.1", "fd00::1:2", "host-1.example.org", "111111111111111111111111111111111111111111111"];

impl Drawn {
    pub(crate) fn new(rng: &mut Rng) -> Drawn {
        let mut slots = Box::new([0; BITMAP_LEN]);
        slots.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8 & rng.next_u64() as u8);
        let (gossip, announced, forgotten, entries) = draw_gossip(rng);
        let bytes = |rng: &mut Rng, bound| (0..rng.below(bound)).map(|_| rng.next_u64() as u8).collect();
        let channel = bytes(rng, 20);
        let message = bytes(rng, 5_000);
        let has_extensions = gossip.gossip().has_extensions();
        let header = BusHeader {
            current_epoch: ClusterEpoch(rng.next_u64() >> 1),
            config_epoch: ClusterEpoch(rng.next_u64() >> 1),
            offset: rng.next_u64(),
            sender: NodeId::random(rng),
            slots: NONE,
            replica_of: (rng.below(2) == 0).then(|| NodeId::random(rng)),
            ip: if rng.below(2) == 0 { "" } else { IPS[rng.below(4) as usize] },
            port: rng.next_u64() as u16,
            other_port: rng.next_u64() as u16,
            bus_port: rng.next_u64() as u16,
            flags: NodeFlags(rng.next_u64() as u16),
            is_down: rng.below(2) == 0,
            message_flags: MessageFlags {
                is_paused: rng.below(2) == 0,
                force_ack: rng.below(2) == 0,
                reads_extensions: has_extensions || rng.below(2) == 0,
            },
        };
        let (kind, node) = (rng.below(15), NodeId::random(rng));
        Drawn {
            header: Box::new(header),
            slots,
            gossip,
            channel,
            message,
            kind,
            node,
            announced,
            forgotten,
            entries,
        }
    }

    pub(crate) fn message(&self) -> BusMessage<'_> {
        let gossip = || self.gossip.gossip();
        let published = || PublishedMessage { channel: &self.channel, message: &self.message };
        let body = match self.kind {
            0 => MessageBody::Ping(gossip()),
            1 => MessageBody::Pong(gossip()),
            2 => MessageBody::Meet(gossip()),
            3 => MessageBody::Fail(self.node),
            4 => MessageBody::Publish(published()),
            5 => MessageBody::PublishShard(published()),
            6 => MessageBody::AuthRequest,
            7 => MessageBody::AuthAck,
            8 => MessageBody::Update {
                config_epoch: self.header.config_epoch,
                node: self.node,
                slots: &self.slots,
            },
            9 => MessageBody::ManualFailoverStart,
            10 => MessageBody::Module,
            11 => MessageBody::Unknown(11 + self.header.port % 100),
            12 => return BusMessage::Light(LightBody::Publish(published())),
            13 => return BusMessage::Light(LightBody::PublishShard(published())),
            _ => return BusMessage::Light(LightBody::Module),
        };
        BusMessage::Full(BusHeader { slots: &self.slots, ..*self.header }, body)
    }
}

type Gossiped =
    (GossipBuffer, Option<AnnouncedLabels<'static>>, Vec<ForgottenNode>, Vec<GossipEntry<'static>>);

fn draw_gossip(rng: &mut Rng) -> Gossiped {
    let mut gossip = GossipBuffer::new();
    let entries: Vec<_> = (0..rng.below(6)).map(|_| draw_entry(rng)).collect();
    for entry in &entries {
        assert!(gossip.push(entry));
    }
    if rng.below(3) == 0 {
        return (gossip, None, Vec::new(), entries);
    }
    let forgotten: Vec<_> = (0..rng.below(3))
        .map(|_| ForgottenNode { node: NodeId::random(rng), seconds: rng.next_u64() })
        .collect();
    let zones: [&[u8]; 3] = [b"", b"z", b"zone-1/\xff"];
    let announced = AnnouncedLabels {
        host_name: ["", "a", "a.example", "eight.xy"][rng.below(4) as usize],
        human_name: [&b""[..], b"seven..", b"eight...", b"\xc3\xa9"][rng.below(4) as usize],
        client_ipv4: (rng.below(2) == 0).then(|| (rng.next_u64() as u32).into()),
        client_ipv6: (rng.below(2) == 0).then(|| std::net::Ipv6Addr::from(u128::from(rng.next_u64())).into()),
        client_port: rng.below(3) as u16,
        client_tls_port: rng.below(3) as u16,
        availability_zone: zones[rng.below(3) as usize],
        shard: ShardId::random(rng),
    };
    gossip.announce(&announced, forgotten.iter().copied());
    (gossip, Some(announced), forgotten, entries)
}

fn draw_entry(rng: &mut Rng) -> GossipEntry<'static> {
    GossipEntry {
        node: NodeId::random(rng),
        ping_sent_s: rng.next_u64() as u32,
        pong_received_s: rng.next_u64() as u32,
        ip: IPS[rng.below(4) as usize],
        port: rng.next_u64() as u16 | 1,
        other_port: rng.next_u64() as u16,
        bus_port: rng.next_u64() as u16,
        flags: NodeFlags(rng.next_u64() as u16),
    }
}
