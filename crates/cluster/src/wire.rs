//! The bus's messages: what they hold, out of bytes and into bytes.
//!
//! A message is read whole or not at all: [`Message`] is what a message says after every rule about lengths, texts
//! and ids has been asked.

mod message;

pub use message::{
    Body, Extension, Flags, ForgottenNode, Gossip, GossipEntry, Header, LightBody, Message, MessageFlags, MessageType,
    Published,
};
