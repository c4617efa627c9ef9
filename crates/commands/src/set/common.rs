//! What several files of this family use: arguments, look-ups, replies.

use crate::error::CmdError;
use sluice_keyspace::Entry;
use sluice_resp::Reply;
use sluice_value::{ListItem, SetRef};

/// The set of an entry, or what a command answers to another type.
#[inline]
pub(crate) fn set_of(entry: Entry<'_>) -> Result<SetRef<'_>, CmdError> {
    Ok(entry.as_set()?)
}

/// Writes a member as a bulk reply.
#[inline]
pub(crate) fn reply_member(reply: &mut Reply<'_>, member: ListItem<'_>) {
    match member {
        ListItem::Int(number) => reply.bulk_int(number),
        ListItem::Bytes(bytes) => reply.bulk(bytes),
        ListItem::Shared(bytes) => reply.bulk_shared(bytes),
    }
}
