//! Why a message is dropped: rule, offset and the reference's text.

use super::layout::name_of;
use std::fmt;

/// A message that is dropped whole, and why. Its text is the line of the log: that of the reference where
/// it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMessage {
    /// The type's number, without the light bit.
    pub number: u16,
    /// The offset of the field that breaks the rule, in bytes from the message's start.
    pub at: usize,
    /// The rule.
    pub breach: Breach,
}

/// The rule that a message breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// Not one whole message, or none at all (2.5, step 1). Framing lets none of these through.
    Framing,
    /// A light header on a type that has none (W-4).
    Light,
    /// A version other than 1 (W-11). The reference does not log it.
    Version(u16),
    /// More gossip entries than bytes for them.
    GossipCount {
        /// Entries that the header counts.
        count: u16,
        /// The message's length.
        length: usize,
    },
    /// Extensions although the sender does not say that it reads them.
    ExtensionsUnannounced,
    /// An extension beyond the message's end.
    ExtensionOverrun {
        /// The message's length.
        length: usize,
    },
    /// An extension whose length is no multiple of eight.
    ExtensionPadding(u32),
    /// An extension that is shorter than its type needs.
    ExtensionShort {
        /// The extension's number.
        kind: u16,
    },
    /// A text of an extension without a NUL.
    ExtensionText {
        /// The extension's number.
        kind: u16,
    },
    /// A channel beyond the message's end.
    ChannelOverrun {
        /// The message's length.
        length: usize,
    },
    /// A published message beyond the bus message's end.
    PublishedOverrun {
        /// The message's length.
        length: usize,
    },
    /// A module's payload beyond the message's end.
    ModuleOverrun {
        /// The message's length.
        length: usize,
    },
    /// A length that is not the sum of the message's parts.
    Length {
        /// The message's length.
        length: usize,
        /// What the parts add up to.
        expected: usize,
    },
    /// The sender's id is none. On a link to a node in handshake the handshake ends.
    SenderId,
    /// Another id is none: the primary's, that of a body, of a forgotten node or of a shard.
    Id,
    /// An epoch of 2^63 or more.
    ClusterEpoch(u64),
}

impl InvalidMessage {
    /// The requirement that the message breaks, as `docs/formats/cluster-bus.md` numbers them.
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

    /// Whether the log has a line about the message; another version is passed over in silence.
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
                write!(f, "Received invalid {name} packet with extensions that its flags do not announce")
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
                write!(f, "Received invalid {name} packet with a sender ID that is none")
            }
            Breach::Id => {
                write!(f, "Received invalid {name} packet with an ID that is none at offset {}", self.at)
            }
            Breach::ClusterEpoch(epoch) => {
                write!(f, "Received invalid {name} packet with epoch {epoch}, which none can reach")
            }
        }
    }
}
