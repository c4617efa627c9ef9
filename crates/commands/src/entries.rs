//! The COMMAND INFO entry of a command, encoded as a reply.

use sluice_command::{Doc, Spec, derive};
use sluice_resp::{Outbox, Protocol, Reply};
use std::collections::BTreeMap;

/// Cache of encoded COMMAND INFO entries, because clients request them when they connect. An entry has some
/// hundred bytes.
#[derive(Debug, Default)]
pub struct CommandEntries {
    /// Entries by command id and by whether the protocol is RESP3.
    kept: BTreeMap<(u16, bool), Box<[u8]>>,
}

impl CommandEntries {
    /// The encoded entry of a command, made at the first request.
    pub(crate) fn entry(&mut self, spec: &Spec, protocol: Protocol) -> &[u8] {
        self.kept.entry((spec.id.0, protocol == Protocol::Resp3)).or_insert_with(|| {
            let mut outbox = Outbox::new();
            reply_doc(&mut Reply::new(&mut outbox, protocol), &derive::info::info(spec));
            outbox.flatten().into()
        })
    }
}

/// Writes a reply tree.
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
