//! Parses and writes the messages of the bus.
//!
//! A message is parsed as a whole or not at all, so a [`BusMessage`] has passed every rule about lengths, ids
//! and epochs. Texts that may not be stored, and gossip with a malformed id, count as absent.

mod framing;
mod gossip;
mod invalid;
mod layout;
mod message;
mod parse;
mod write;

pub use framing::{BUFFER_MIN, BadPrefix, MESSAGE_MAX, MessagePrefix, ReceiveBuffer, ReceivedMessage};
pub use gossip::{AnnouncedLabels, GossipBuffer, PassedOver};
pub use invalid::{Breach, InvalidMessage};
pub use layout::{ENTRY_LEN, EXTENSIONS_MAX, HEADER_LEN, LIGHT_HEADER_LEN};
pub use message::{
    BusHeader, BusMessage, Extension, ForgottenNode, Gossip, GossipEntry, LightBody, MessageBody,
    MessageFlags, MessageType, NodeFlags, PublishedMessage,
};
pub use parse::parse;
pub use write::{TooLong, write};
