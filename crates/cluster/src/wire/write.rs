//! Writes messages in the form of the reference: messages of every type have every field of the header, and
//! unused fields have zeros (W-1).

use super::gossip::ip_field;
use super::layout;
use super::message::{BusHeader, BusMessage, Gossip, LightBody, MessageBody, MessageType, PublishedMessage};
use crate::id::ID_LEN;

/// A message of 4 GiB or more, which its length field cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Appends `message` to `out`, or nothing if the message is too long.
///
/// A message that [`super::parse()`] returned is equal after it is written and parsed again. Gossip is
/// copied; a module's message is written empty, and one of unknown type as a header only, because their
/// other bytes are not kept.
pub fn write(message: &BusMessage<'_>, out: &mut Vec<u8>) -> Result<(), TooLong> {
    let length = u32::try_from(length(message)).map_err(|_| TooLong)?;
    out.reserve(length as usize);
    match message {
        BusMessage::Full(header, body) => {
            push_header(out, length, header, body);
            push_body(out, body);
        }
        BusMessage::Light(body) => {
            let (kind, published) = match body {
                LightBody::Publish(published) => (MessageType::Publish, Some(published)),
                LightBody::PublishShard(published) => (MessageType::PublishShard, Some(published)),
                LightBody::Module => (MessageType::Module, None),
            };
            push_start(out, length);
            push_u16s(out, [0, kind.number() | layout::LIGHT, 0]);
            match published {
                Some(published) => push_published(out, published),
                None => out.extend_from_slice(&[0; layout::MODULE_LEN]),
            }
        }
    }
    Ok(())
}

fn length(message: &BusMessage<'_>) -> usize {
    let published = |published: &PublishedMessage<'_>| {
        layout::PUBLISHED_LEN.saturating_add(published.channel.len()).saturating_add(published.message.len())
    };
    match message {
        BusMessage::Full(_, body) => layout::HEADER_LEN.saturating_add(match body {
            MessageBody::Ping(gossip) | MessageBody::Pong(gossip) | MessageBody::Meet(gossip) => {
                gossip.entries.len() + gossip.extensions.map_or(0, <[u8]>::len)
            }
            MessageBody::Fail(_) => ID_LEN,
            MessageBody::Publish(text) | MessageBody::PublishShard(text) => published(text),
            MessageBody::AuthRequest
            | MessageBody::AuthAck
            | MessageBody::ManualFailoverStart
            | MessageBody::Unknown(_) => 0,
            MessageBody::Update { .. } => layout::UPDATE_LEN,
            MessageBody::Module => layout::MODULE_LEN,
        }),
        BusMessage::Light(body) => layout::LIGHT_HEADER_LEN.saturating_add(match body {
            LightBody::Publish(text) | LightBody::PublishShard(text) => published(text),
            LightBody::Module => layout::MODULE_LEN,
        }),
    }
}

fn push_start(out: &mut Vec<u8>, length: u32) {
    out.extend_from_slice(layout::SIGNATURE);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&layout::VERSION.to_be_bytes());
}

fn push_u16s<const N: usize>(out: &mut Vec<u8>, numbers: [u16; N]) {
    for number in numbers {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn push_header(out: &mut Vec<u8>, length: u32, header: &BusHeader<'_>, body: &MessageBody<'_>) {
    let gossip = gossip_of(body);
    let count = gossip.map_or(0, Gossip::count);
    let extensions = gossip.map_or(0, Gossip::extension_count);
    push_start(out, length);
    push_u16s(out, [header.port, number_of(body), count]);
    for number in [header.current_epoch.0, header.config_epoch.0, header.offset] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(header.sender.as_bytes());
    out.extend_from_slice(header.slots);
    out.extend_from_slice(header.replica_of.as_ref().map_or(&[0; ID_LEN], |primary| primary.as_bytes()));
    out.extend_from_slice(&ip_field(header.ip));
    push_u16s(out, [extensions]);
    out.extend_from_slice(&[0; layout::OTHER_PORT - layout::EXTENSIONS - 2]);
    push_u16s(out, [header.other_port, header.bus_port, header.flags.0]);
    let flags = header.message_flags;
    // A message with extensions always has the flag that its sender reads extensions.
    let reads_extensions = flags.reads_extensions || extensions > 0;
    let bits = [
        (flags.is_paused, layout::PAUSED),
        (flags.force_ack, layout::FORCE_ACK),
        (reads_extensions, layout::EXT_DATA),
    ];
    let first = bits.iter().filter(|(is_set, _)| *is_set).fold(0, |first, (_, bit)| first | bit);
    out.extend_from_slice(&[u8::from(header.is_down), first, 0, 0]);
}

fn gossip_of<'a>(body: &'a MessageBody<'a>) -> Option<&'a Gossip<'a>> {
    match body {
        MessageBody::Ping(gossip) | MessageBody::Pong(gossip) | MessageBody::Meet(gossip) => Some(gossip),
        MessageBody::Fail(_)
        | MessageBody::Publish(_)
        | MessageBody::PublishShard(_)
        | MessageBody::AuthRequest
        | MessageBody::AuthAck
        | MessageBody::Update { .. }
        | MessageBody::ManualFailoverStart
        | MessageBody::Module
        | MessageBody::Unknown(_) => None,
    }
}

fn number_of(body: &MessageBody<'_>) -> u16 {
    let kind = match body {
        MessageBody::Ping(_) => MessageType::Ping,
        MessageBody::Pong(_) => MessageType::Pong,
        MessageBody::Meet(_) => MessageType::Meet,
        MessageBody::Fail(_) => MessageType::Fail,
        MessageBody::Publish(_) => MessageType::Publish,
        MessageBody::PublishShard(_) => MessageType::PublishShard,
        MessageBody::AuthRequest => MessageType::AuthRequest,
        MessageBody::AuthAck => MessageType::AuthAck,
        MessageBody::Update { .. } => MessageType::Update,
        MessageBody::ManualFailoverStart => MessageType::ManualFailoverStart,
        MessageBody::Module => MessageType::Module,
        MessageBody::Unknown(number) => return *number,
    };
    kind.number()
}

fn push_body(out: &mut Vec<u8>, body: &MessageBody<'_>) {
    match body {
        MessageBody::Ping(gossip) | MessageBody::Pong(gossip) | MessageBody::Meet(gossip) => {
            out.extend_from_slice(gossip.entries);
            out.extend_from_slice(gossip.extensions.unwrap_or_default());
        }
        MessageBody::Fail(node) => out.extend_from_slice(node.as_bytes()),
        MessageBody::Publish(published) | MessageBody::PublishShard(published) => {
            push_published(out, published)
        }
        MessageBody::AuthRequest
        | MessageBody::AuthAck
        | MessageBody::ManualFailoverStart
        | MessageBody::Unknown(_) => {}
        MessageBody::Update { config_epoch, node, slots } => {
            out.extend_from_slice(&config_epoch.0.to_be_bytes());
            out.extend_from_slice(node.as_bytes());
            out.extend_from_slice(*slots);
        }
        MessageBody::Module => out.extend_from_slice(&[0; layout::MODULE_LEN]),
    }
}

/// Appends a published message with its lengths. The lengths fit into their fields, because the length of the
/// whole bus message does.
fn push_published(out: &mut Vec<u8>, published: &PublishedMessage<'_>) {
    for part in [published.channel, published.message] {
        out.extend_from_slice(&(part.len() as u32).to_be_bytes());
    }
    out.extend_from_slice(published.channel);
    out.extend_from_slice(published.message);
}
