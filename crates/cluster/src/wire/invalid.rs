//! The reason why a message is dropped, with the broken rule, the offset and the log line.

use super::layout::name_of;
use std::fmt;

/// A message that is dropped as a whole. Its text is the line of the log, in the reference's words where
/// the reference has such a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMessage {
    /// The type's number, without the light bit.
    pub number: u16,
    /// The offset of the field that breaks the rule, in bytes from the message's start.
    pub at: usize,
    /// The rule that the message breaks.
    pub breach: Breach,
}

/// The rule that a message breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Not exactly one whole message (2.5, step 1). The framing never passes such bytes on.
    Framing,
    /// A light header on a type that does not allow one (W-4).
    Light,
    /// A version other than 1 (W-11). The reference does not log it.
    Version(u16),
    /// More gossip entries than the message has bytes for.
    GossipCount {
        /// Entries by the header's count.
        count: u16,
        /// The message's length in bytes.
        length: usize,
    },
    /// Extensions without the sender's flag EXT_DATA.
    ExtensionsUnannounced,
    /// An extension that ends after the message.
    ExtensionOverrun {
        /// The message's length in bytes.
        length: usize,
    },
    /// An extension whose length is no multiple of eight.
    ExtensionPadding(u32),
    /// An extension that is shorter than its own header, or than its type requires.
    ExtensionShort {
        /// The extension's number on the wire.
        kind: u16,
    },
    /// A text extension without a NUL.
    ExtensionText {
        /// The extension's number on the wire.
        kind: u16,
    },
    /// A channel name that ends after the message.
    ChannelOverrun {
        /// The message's length in bytes.
        length: usize,
    },
    /// A published message that ends after the bus message.
    PublishedOverrun {
        /// The message's length in bytes.
        length: usize,
    },
    /// A module's payload that ends after the message.
    ModuleOverrun {
        /// The message's length in bytes.
        length: usize,
    },
    /// A length that is not the sum of the message's parts.
    Length {
        /// The message's length in bytes.
        length: usize,
        /// The sum of the lengths of the parts.
        expected: usize,
    },
    /// The sender's id is malformed. If the link is in handshake, the handshake ends.
    SenderId,
    /// Another id is malformed: the primary's, one in the body, that of a forgotten node or of a shard.
    Id,
    /// An epoch of 2^63 or more.
    ClusterEpoch(u64),
}

impl InvalidMessage {
    /// The number of the broken requirement in `docs/formats/cluster-bus.md`.
    pub fn rule(&self) -> &'static str {
        match self.breach {
            Breach::Framing
            | Breach::GossipCount { .. }
            | Breach::ExtensionOverrun { .. }
            | Breach::ExtensionPadding(_)
            | Breach::ChannelOverrun { .. }
            | Breach::PublishedOverrun { .. }
            | Breach::ModuleOverrun { .. }
            | Breach::Length { .. } => "X-1",
            Breach::Light => "W-4",
            Breach::Version(_) => "W-11",
            Breach::ExtensionsUnannounced | Breach::ExtensionShort { .. } | Breach::ExtensionText { .. } => {
                "X-3"
            }
            Breach::SenderId | Breach::Id => "X-4",
            Breach::ClusterEpoch(_) => "X-7",
        }
    }

    /// Whether the message is logged; messages of another version are dropped without a log line.
    pub fn is_logged(&self) -> bool {
        !matches!(self.breach, Breach::Version(_))
    }
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name_of(self.number);
        let exceeds = "that exceeds total packet length";
        match self.breach {
            Breach::Framing => f.write_str("Bad message length or signature received on the Cluster bus."),
            Breach::Light => write!(
                f,
                "Packet of type '{name}' ({}) does not support light cluster header. Marking packet as invalid.",
                self.number
            ),
            Breach::Version(version) => {
                write!(f, "Received {name} packet of unknown version {version}")
            }
            Breach::GossipCount { count, length } => {
                write!(f, "Received invalid {name} packet with gossip count {count} {exceeds} ({length})")
            }
            Breach::ExtensionsUnannounced => {
                write!(f, "Received invalid {name} packet with extensions that its flags do not declare")
            }
            Breach::ExtensionOverrun { length } => {
                write!(f, "Received invalid {name} packet with extension data {exceeds} ({length})")
            }
            Breach::ExtensionPadding(bytes) => {
                write!(f, "Received a {name} packet without proper padding ({bytes} bytes)")
            }
            Breach::ExtensionShort { kind } => {
                write!(f, "Received invalid {name} packet with an extension of type {kind} that is too short")
            }
            Breach::ExtensionText { kind } => {
                write!(
                    f,
                    "Received invalid {name} packet with an extension of type {kind} whose text has no end"
                )
            }
            Breach::ChannelOverrun { length } => {
                write!(f, "Received invalid {name} packet with channel length {exceeds} ({length})")
            }
            Breach::PublishedOverrun { length } => {
                write!(f, "Received invalid {name} packet with message length {exceeds} ({length})")
            }
            Breach::ModuleOverrun { length } => {
                write!(f, "Received invalid {name} packet with module payload length {exceeds} ({length})")
            }
            Breach::Length { length, expected } => {
                write!(f, "Received invalid {name} packet of length {length} but expected length {expected}")
            }
            Breach::SenderId => {
                write!(f, "Received invalid {name} packet with an invalid sender ID")
            }
            Breach::Id => {
                write!(f, "Received invalid {name} packet with an invalid ID at offset {}", self.at)
            }
            Breach::ClusterEpoch(epoch) => {
                write!(f, "Received invalid {name} packet with the impossible epoch {epoch}")
            }
        }
    }
}
