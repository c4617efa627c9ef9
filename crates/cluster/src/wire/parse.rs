//! Parses one whole message.
//!
//! Invariants: (1) the parser allocates no memory; (2) a parsed message has passed every rule about
//! lengths, ids and epochs (only gossip may have malformed ids, and is ignored then), so that its reader can
//! change state without further checks; (3) the parser accepts the same messages as the reference, except for
//!

use super::invalid::{Breach, InvalidMessage};
use super::layout::{self, extension, field, u16_at, u32_at, u64_at, until_nul};
use super::message::{
    BusHeader, BusMessage, Gossip, LightBody, MessageBody, MessageFlags, MessageType, NodeFlags,
    PublishedMessage,
};
use crate::id::{ClusterEpoch, ID_LEN, NodeId, ShardId};
use crate::slots::BITMAP_LEN;
use crate::text;

/// Parses `bytes`, which are one whole message.
///
/// Cost: constant, except for gossip: each entry and each extension is checked once.
pub fn parse(bytes: &[u8]) -> Result<BusMessage<'_>, InvalidMessage> {
    let raw = u16_at(bytes, layout::TYPE);
    let number = raw & !layout::LIGHT;
    let message = RawMessage { bytes, number };
    let is_light = raw & layout::LIGHT != 0;
    let least = if is_light { layout::LIGHT_HEADER_LEN } else { layout::HEADER_LEN };
    let is_whole = u32_at(bytes, layout::LENGTH) as usize == bytes.len();
    if !bytes.starts_with(layout::SIGNATURE) || bytes.len() < least || !is_whole {
        return Err(message.invalid(0, Breach::Framing));
    }
    let kind = MessageType::from_number(number);
    if is_light && !kind.is_some_and(MessageType::may_be_light) {
        return Err(message.invalid(layout::TYPE, Breach::Light));
    }
    let version = u16_at(bytes, layout::VERSION_AT);
    if version != layout::VERSION {
        return Err(message.invalid(layout::VERSION_AT, Breach::Version(version)));
    }
    if is_light {
        return message.light(kind).map(BusMessage::Light);
    }
    let body = message.body(kind)?;
    Ok(BusMessage::Full(message.header()?, body))
}

/// A message with a correct length, whose other fields are being checked.
#[derive(Clone, Copy)]
struct RawMessage<'a> {
    bytes: &'a [u8],
    number: u16,
}

impl<'a> RawMessage<'a> {
    fn invalid(self, at: usize, breach: Breach) -> InvalidMessage {
        InvalidMessage { number: self.number, at, breach }
    }

    fn light(self, kind: Option<MessageType>) -> Result<LightBody<'a>, InvalidMessage> {
        let at = layout::LIGHT_HEADER_LEN;
        match kind {
            Some(MessageType::Publish) => Ok(LightBody::Publish(self.published(at)?)),
            Some(MessageType::PublishShard) => Ok(LightBody::PublishShard(self.published(at)?)),
            Some(MessageType::Module) => self.module(at).map(|()| LightBody::Module),
            _ => Err(self.invalid(layout::TYPE, Breach::Light)),
        }
    }

    /// Checks first that the parts fill exactly the message's length, as the reference does, and then
    /// the body's contents.
    fn body(self, kind: Option<MessageType>) -> Result<MessageBody<'a>, InvalidMessage> {
        let at = layout::HEADER_LEN;
        let Some(kind) = kind else { return Ok(MessageBody::Unknown(self.number)) };
        Ok(match kind {
            MessageType::Ping => MessageBody::Ping(self.gossip()?),
            MessageType::Pong => MessageBody::Pong(self.gossip()?),
            MessageType::Meet => MessageBody::Meet(self.gossip()?),
            MessageType::Fail => {
                self.expect_length(at + ID_LEN)?;
                MessageBody::Fail(self.node_at(at)?)
            }
            MessageType::Publish => MessageBody::Publish(self.published(at)?),
            MessageType::PublishShard => MessageBody::PublishShard(self.published(at)?),
            MessageType::AuthRequest => self.expect_length(at).map(|()| MessageBody::AuthRequest)?,
            MessageType::AuthAck => self.expect_length(at).map(|()| MessageBody::AuthAck)?,
            MessageType::ManualFailoverStart => {
                self.expect_length(at).map(|()| MessageBody::ManualFailoverStart)?
            }
            MessageType::Module => self.module(at).map(|()| MessageBody::Module)?,
            MessageType::Update => {
                self.expect_length(at + layout::UPDATE_LEN)?;
                MessageBody::Update {
                    config_epoch: self.epoch_at(at)?,
                    node: self.node_at(at + 8)?,
                    slots: self.bitmap_at(at + 8 + ID_LEN),
                }
            }
        })
    }

    fn header(self) -> Result<BusHeader<'a>, InvalidMessage> {
        let bytes = self.bytes;
        let sender: [u8; ID_LEN] = field(bytes, layout::SENDER);
        let sender = NodeId::parse(&sender).ok_or(self.invalid(layout::SENDER, Breach::SenderId))?;
        let primary: [u8; ID_LEN] = field(bytes, layout::REPLICA_OF);
        let replica_of = if primary == [0; ID_LEN] { None } else { Some(self.node_at(layout::REPLICA_OF)?) };
        let ip = until_nul(&bytes[layout::IP..layout::IP + layout::IP_LEN]);
        let flags = bytes[layout::MESSAGE_FLAGS];
        Ok(BusHeader {
            current_epoch: self.epoch_at(layout::CURRENT_EPOCH)?,
            config_epoch: self.epoch_at(layout::CONFIG_EPOCH)?,
            offset: u64_at(bytes, layout::OFFSET),
            sender,
            slots: self.bitmap_at(layout::SLOTS),
            replica_of,
            // a text that may not be stored counts as absent.
            ip: ip.and_then(text::ip).unwrap_or_default(),
            port: u16_at(bytes, layout::PORT),
            other_port: u16_at(bytes, layout::OTHER_PORT),
            bus_port: u16_at(bytes, layout::BUS_PORT),
            flags: NodeFlags(u16_at(bytes, layout::FLAGS)),
            is_down: bytes[layout::STATE] != 0,
            message_flags: MessageFlags {
                is_paused: flags & layout::PAUSED != 0,
                force_ack: flags & layout::FORCE_ACK != 0,
                reads_extensions: flags & layout::EXT_DATA != 0,
            },
        })
    }

    fn published(self, at: usize) -> Result<PublishedMessage<'a>, InvalidMessage> {
        let length = self.bytes.len();
        let start = at + layout::PUBLISHED_LEN;
        // A message without room for its two lengths has a wrong length.
        let rest =
            self.bytes.get(start..).ok_or(self.invalid(at, Breach::Length { length, expected: start }))?;
        let (channel_len, message_len) =
            (u32_at(self.bytes, at) as usize, u32_at(self.bytes, at + 4) as usize);
        let overrun = self.invalid(at, Breach::ChannelOverrun { length });
        let (channel, rest) = rest.split_at_checked(channel_len).ok_or(overrun)?;
        let overrun = self.invalid(at + 4, Breach::PublishedOverrun { length });
        let (message, rest) = rest.split_at_checked(message_len).ok_or(overrun)?;
        if !rest.is_empty() {
            return Err(
                self.invalid(layout::LENGTH, Breach::Length { length, expected: length - rest.len() })
            );
        }
        Ok(PublishedMessage { channel, message })
    }

    fn module(self, at: usize) -> Result<(), InvalidMessage> {
        let length = self.bytes.len();
        let start = at + layout::MODULE_LEN;
        let rest =
            self.bytes.get(start..).ok_or(self.invalid(at, Breach::Length { length, expected: start }))?;
        let payload = u32_at(self.bytes, at + 8) as usize;
        if payload > rest.len() {
            return Err(self.invalid(at + 8, Breach::ModuleOverrun { length }));
        }
        self.expect_length(start + payload)
    }

    fn gossip(self) -> Result<Gossip<'a>, InvalidMessage> {
        let length = self.bytes.len();
        let count = u16_at(self.bytes, layout::COUNT);
        let end = layout::HEADER_LEN + layout::ENTRY_LEN * usize::from(count);
        let Some(entries) = self.bytes.get(layout::HEADER_LEN..end) else {
            return Err(self.invalid(layout::COUNT, Breach::GossipCount { count, length }));
        };
        let end_of_extensions = self.check_extensions(end)?;
        self.expect_length(end_of_extensions)?;
        let has_none = u16_at(self.bytes, layout::EXTENSIONS) == 0;
        let extensions = if has_none { None } else { self.bytes.get(end..) };
        let is_invalid = |entry: &&[u8]| NodeId::parse(&entry[..ID_LEN]).is_none();
        let invalid_ids = entries.chunks_exact(layout::ENTRY_LEN).filter(is_invalid).count() as u16;
        Ok(Gossip { entries, invalid_ids, extensions })
    }

    /// Checks the extensions from `at` on; returns the offset of their end.
    fn check_extensions(self, mut at: usize) -> Result<usize, InvalidMessage> {
        let count = u16_at(self.bytes, layout::EXTENSIONS);
        if count > 0 && self.bytes[layout::MESSAGE_FLAGS] & layout::EXT_DATA == 0 {
            return Err(self.invalid(layout::EXTENSIONS, Breach::ExtensionsUnannounced));
        }
        let overrun = Breach::ExtensionOverrun { length: self.bytes.len() };
        for _ in 0..count {
            let rest = self.bytes.get(at..).unwrap_or_default();
            if rest.len() < layout::EXTENSION_HEAD {
                return Err(self.invalid(at, overrun));
            }
            let (length, kind) = (u32_at(rest, 0), u16_at(rest, 4));
            if length % 8 != 0 {
                return Err(self.invalid(at, Breach::ExtensionPadding(length)));
            }
            let extension = rest.get(..length as usize).ok_or(self.invalid(at, overrun))?;
            let payload = extension.get(layout::EXTENSION_HEAD..);
            let payload = payload.ok_or(self.invalid(at, Breach::ExtensionShort { kind }))?;
            check_payload(kind, payload).map_err(|breach| self.invalid(at, breach))?;
            at += extension.len();
        }
        Ok(at)
    }

    fn expect_length(self, expected: usize) -> Result<(), InvalidMessage> {
        let length = self.bytes.len();
        if length == expected {
            return Ok(());
        }
        Err(self.invalid(layout::LENGTH, Breach::Length { length, expected }))
    }

    fn node_at(self, at: usize) -> Result<NodeId, InvalidMessage> {
        NodeId::parse(&field::<ID_LEN>(self.bytes, at)).ok_or(self.invalid(at, Breach::Id))
    }

    fn epoch_at(self, at: usize) -> Result<ClusterEpoch, InvalidMessage> {
        let epoch = ClusterEpoch(u64_at(self.bytes, at));
        if epoch < ClusterEpoch::END {
            Ok(epoch)
        } else {
            Err(self.invalid(at, Breach::ClusterEpoch(epoch.0)))
        }
    }

    /// The bitmap at `at`; the length of the message was checked before.
    fn bitmap_at(self, at: usize) -> &'a [u8; BITMAP_LEN] {
        const NONE: &[u8; BITMAP_LEN] = &[0; BITMAP_LEN];
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).unwrap_or(NONE)
    }
}

/// Checks the payload of an extension; an extension of unknown type passes.
fn check_payload(kind: u16, payload: &[u8]) -> Result<(), Breach> {
    let at_least = |least: usize| {
        if payload.len() < least { Err(Breach::ExtensionShort { kind }) } else { Ok(()) }
    };
    match kind {
        _ if layout::is_secret_of_redis(kind, payload) => Ok(()),
        extension::HOST_NAME
        | extension::HUMAN_NAME
        | extension::CLIENT_IPV4
        | extension::CLIENT_IPV6
        | extension::ZONE => until_nul(payload).map(|_| ()).ok_or(Breach::ExtensionText { kind }),
        extension::FORGOTTEN => {
            at_least(ID_LEN + 8)?;
            NodeId::parse(&payload[..ID_LEN]).map(|_| ()).ok_or(Breach::Id)
        }
        extension::SHARD => {
            at_least(ID_LEN)?;
            ShardId::parse(&payload[..ID_LEN]).map(|_| ()).ok_or(Breach::Id)
        }
        extension::CLIENT_PORT | extension::CLIENT_TLS_PORT => at_least(2),
        _ => Ok(()),
    }
}
