//! Writes elements of collections as replies: list elements, fields and values of hashes, members of sets.

use sluice_resp::Reply;
use sluice_value::ListItem;

/// Writes an element as a bulk reply.
#[inline]
pub(crate) fn reply_item(reply: &mut Reply<'_>, item: ListItem<'_>) {
    match item {
        ListItem::Int(number) => reply.bulk_int(number),
        ListItem::Bytes(bytes) => reply.bulk(bytes),
        ListItem::Shared(bytes) => reply.bulk_shared(bytes),
    }
}
