//! What COMMAND says of a command, in the form of the wire.

use sluice_command::{Doc, Spec, derive};
use sluice_resp::{Outbox, Protocol, Reply};
use std::collections::BTreeMap;

/// Entries of COMMAND INFO that clients asked for, in the form of the wire: clients ask when they connect.
/// Some hundred bytes each.
#[derive(Debug, Default)]
pub struct CommandEntries {
    /// By command, and whether it is for RESP3.
    kept: BTreeMap<(u16, bool), Box<[u8]>>,
}

impl CommandEntries {
    /// The entry of a command.
    pub(crate) fn entry(&mut self, spec: &Spec, protocol: Protocol) -> &[u8] {
        self.kept.entry((spec.id.0, protocol == Protocol::Resp3)).or_insert_with(|| {
            let mut outbox = Outbox::new();
            reply_doc(&mut Reply::new(&mut outbox, protocol), &derive::info::info(spec));
            outbox.flatten().into()
        })
    }
}

/// Writes a tree to the client.
pub(crate) fn reply_doc(reply: &mut Reply<'_>, doc: &Doc) {
    match doc {
        Doc::Map(parts) => {
            reply.map(parts.len());
            for (name, value) in parts {
                reply.bulk(name.as_bytes());
                reply_doc(reply, value);
            }
        }
        Doc::Array(parts) => {
            reply.array(parts.len());
            parts.iter().for_each(|part| reply_doc(reply, part));
        }
        Doc::Set(parts) => {
            reply.set(parts.len());
            parts.iter().for_each(|part| reply_doc(reply, part));
        }
        Doc::Str(text) => reply.bulk(text.as_bytes()),
        Doc::Status(text) => reply.simple(text.as_bytes()),
        Doc::StatusText(text) => reply.simple(text.as_bytes()),
        Doc::Int(number) => reply.int(*number),
        Doc::Null => reply.null(),
    }
}
