//! The positions of fields in messages, and the lengths of their parts (2.1 to 2.3 of the specification of
//! the bus).

use super::message::MessageType;
use crate::id::ID_LEN;
use crate::slots::BITMAP_LEN;

/// The first bytes of every message.
pub(super) const SIGNATURE: &[u8; 4] = b"RCmb";
/// The version of messages, the same in all releases (W-11).
pub(super) const VERSION: u16 = 1;

pub(super) const LENGTH: usize = 4;
pub(super) const VERSION_AT: usize = 8;
pub(super) const PORT: usize = 10;
pub(super) const TYPE: usize = 12;
pub(super) const COUNT: usize = 14;
pub(super) const CURRENT_EPOCH: usize = 16;
pub(super) const CONFIG_EPOCH: usize = 24;
pub(super) const OFFSET: usize = 32;
pub(super) const SENDER: usize = 40;
pub(super) const SLOTS: usize = 80;
pub(super) const REPLICA_OF: usize = 2_128;
pub(super) const IP: usize = 2_168;
pub(super) const EXTENSIONS: usize = 2_214;
pub(super) const OTHER_PORT: usize = 2_246;
pub(super) const BUS_PORT: usize = 2_248;
pub(super) const FLAGS: usize = 2_250;
pub(super) const STATE: usize = 2_252;
pub(super) const MESSAGE_FLAGS: usize = 2_253;

/// Bytes of a full header.
pub const HEADER_LEN: usize = 2_256;
/// Bytes of a light header.
pub const LIGHT_HEADER_LEN: usize = 16;
/// The bit in a message's type that marks a light header (W-4).
pub(super) const LIGHT: u16 = 0x8000;

/// Bytes of an address, a NUL included.
pub(super) const IP_LEN: usize = 46;
/// Bytes of a gossip entry.
pub const ENTRY_LEN: usize = 104;
/// Bytes of the two lengths before a channel and a message.
pub(super) const PUBLISHED_LEN: usize = 8;
/// Bytes before a module's payload: module, length, type.
pub(super) const MODULE_LEN: usize = 13;
/// Bytes of the body of UPDATE.
pub(super) const UPDATE_LEN: usize = 8 + ID_LEN + BITMAP_LEN;

/// Bytes of an extension's header: length, type, two zero bytes.
pub(super) const EXTENSION_HEAD: usize = 8;
/// The most bytes of extensions that are written into one message, and also the number of bytes that the
/// length limit of received messages allows for extensions. The largest case is a full list of
/// forgotten nodes: 1,024 extensions of 56 bytes are 56 KiB.
pub const EXTENSIONS_MAX: usize = 64 * 1_024;

/// The bits of `MessageFlags` in byte 2253 of the header (W-2).
pub(super) const PAUSED: u8 = 1;
pub(super) const FORCE_ACK: u8 = 2;
pub(super) const EXT_DATA: u8 = 4;

/// The numbers of the extensions on the wire.
pub(super) mod extension {
    pub(crate) const HOST_NAME: u16 = 0;
    pub(crate) const HUMAN_NAME: u16 = 1;
    pub(crate) const FORGOTTEN: u16 = 2;
    pub(crate) const SHARD: u16 = 3;
    pub(crate) const CLIENT_IPV4: u16 = 4;
    pub(crate) const CLIENT_IPV6: u16 = 5;
    pub(crate) const CLIENT_PORT: u16 = 6;
    pub(crate) const CLIENT_TLS_PORT: u16 = 7;
    pub(crate) const ZONE: u16 = 8;
}

/// Whether an extension is the secret that Redis 8 sends under the number that is `CLIENT_IPV4` here: 40
/// hexadecimal digits without NUL, longer than any IPv4 address.
pub(super) fn is_secret_of_redis(kind: u16, payload: &[u8]) -> bool {
    kind == extension::CLIENT_IPV4 && payload.len() == 40 && payload.iter().all(u8::is_ascii_hexdigit)
}

/// The `N` bytes of `bytes` from `at` on; zeros if `bytes` is too short, which callers have excluded.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// The big-endian number at `at`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(field(bytes, at))
}

/// The big-endian number at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(field(bytes, at))
}

/// The big-endian number at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(field(bytes, at))
}

/// The bytes before the first NUL; `None` without one.
pub(super) fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    bytes.iter().position(|&byte| byte == 0).map(|end| &bytes[..end])
}

impl MessageType {
    /// All types, by number.
    pub const ALL: [MessageType; 11] = [
        MessageType::Ping,
        MessageType::Pong,
        MessageType::Meet,
        MessageType::Fail,
        MessageType::Publish,
        MessageType::AuthRequest,
        MessageType::AuthAck,
        MessageType::Update,
        MessageType::ManualFailoverStart,
        MessageType::Module,
        MessageType::PublishShard,
    ];

    /// The type with this number, without the light bit; `None` for an unknown number.
    pub fn from_number(number: u16) -> Option<MessageType> {
        MessageType::ALL.get(usize::from(number)).copied()
    }

    /// The type's number on the wire, without the light bit.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The type's name in INFO and in the log (W-5).
    pub fn name(self) -> &'static str {
        match self {
            MessageType::Ping => "ping",
            MessageType::Pong => "pong",
            MessageType::Meet => "meet",
            MessageType::Fail => "fail",
            MessageType::Publish => "publish",
            MessageType::AuthRequest => "auth-req",
            MessageType::AuthAck => "auth-ack",
            MessageType::Update => "update",
            MessageType::ManualFailoverStart => "mfstart",
            MessageType::Module => "module",
            MessageType::PublishShard => "publishshard",
        }
    }

    /// Whether the type may have a light header (W-4). These are the types whose length depends on clients.
    pub fn may_be_light(self) -> bool {
        matches!(self, MessageType::Publish | MessageType::Module | MessageType::PublishShard)
    }
}

/// The name in the log of a type with this number.
pub(super) fn name_of(number: u16) -> &'static str {
    MessageType::from_number(number).map_or("unknown", MessageType::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cl_w5_types_have_the_numbers_of_the_wire() {
        for (number, kind) in (0_u16..).zip(MessageType::ALL) {
            assert_eq!((kind.number(), MessageType::from_number(number)), (number, Some(kind)));
        }
        assert_eq!(MessageType::from_number(11), None);
    }

    #[test]
    fn cl_w1_fields_follow_each_other_without_gaps() {
        assert_eq!(SLOTS + BITMAP_LEN, REPLICA_OF);
        assert_eq!(REPLICA_OF + ID_LEN, IP);
        assert_eq!(IP + IP_LEN, EXTENSIONS);
        assert_eq!(EXTENSIONS + 2 + 30, OTHER_PORT);
        assert_eq!(MESSAGE_FLAGS + 3, HEADER_LEN);
        assert_eq!(HEADER_LEN + UPDATE_LEN, 4_352);
    }
}
