//! The bus's messages: what they hold, out of bytes and into bytes.
//!
//! A message is read whole or not at all: [`Message`] is what a message says after every rule about
//! lengths, texts and ids has been asked.

mod framing;
mod gossip;
mod invalid;
mod layout;
mod message;
mod parse;
mod write;

pub use framing::{BUFFER_MIN, BadPrefix, MESSAGE_MAX, Prefix, ReceiveBuffer, Received};
pub use gossip::{Announced, GossipBuffer, PassedOver};
pub use invalid::{Breach, Invalid};
pub use layout::{ENTRY_LEN, EXTENSIONS_MAX, HEADER_LEN, LIGHT_HEADER_LEN};
pub use message::{
    Body, Extension, Flags, ForgottenNode, Gossip, GossipEntry, Header, LightBody, Message, MessageFlags,
    MessageType, Published,
};
pub use parse::parse;
pub use write::{TooLong, write};
