//! Look-ups and replies shared by the files of this family.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::element::reply_item;
use crate::error::CmdError;
use sluice_base::num::parse_i64;
use sluice_keyspace::{Access, ExpiryMode};
use sluice_resp::Reply;
use sluice_value::{HashField, HashRef, ListItem};

/// The time by which fields count as expired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldClock {
    /// Fields that expire earlier, in ms since the epoch, are absent.
    pub(super) now_ms: i64,
}

impl FieldClock {
    pub(crate) fn of(access: &Access) -> FieldClock {
        match access.expiry {
            ExpiryMode::Delete | ExpiryMode::Hide => FieldClock { now_ms: access.now.unix_ms() },
            // No field counts as expired for the primary's link and an import source.
            ExpiryMode::Ignore => FieldClock { now_ms: i64::MIN },
        }
    }

    pub(crate) fn is_live(self, field: &HashField<'_>) -> bool {
        !field.is_expired(self.now_ms)
    }

    /// The field, if it exists and has not expired.
    pub(crate) fn get<'a>(self, hash: HashRef<'a>, name: &[u8]) -> Option<HashField<'a>> {
        hash.get(name).filter(|field| self.is_live(field))
    }

    /// Whether no field of a hash has expired. O(1).
    pub(crate) fn all_live(self, hash: HashRef<'_>) -> bool {
        hash.earliest().is_none_or(|at| at >= self.now_ms)
    }
}

/// The fields on which a command has had an effect: their number, and also their names if the names are
/// propagated.
pub(crate) struct ActedNames<'a> {
    names: Vec<&'a [u8]>,
    count: u64,
    is_kept: bool,
}

impl<'a> ActedNames<'a> {
    /// An empty list. `is_kept`: whether the names are recorded, not only their number.
    pub(crate) fn new(is_kept: bool) -> ActedNames<'a> {
        ActedNames { names: Vec::new(), count: 0, is_kept }
    }

    #[inline]
    pub(crate) fn push(&mut self, name: &'a [u8]) {
        self.count += 1;
        if self.is_kept {
            self.names.push(name);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The names, which must have been recorded.
    pub(crate) fn names(&self) -> &[&'a [u8]] {
        debug_assert_eq!(self.names.len() as u64, self.count, "names that are asked for are kept");
        &self.names
    }
}

/// Replies with the value of a field, or null.
#[inline]
pub(crate) fn reply_value(reply: &mut Reply<'_>, field: Option<HashField<'_>>) {
    match field {
        Some(field) => reply_item(reply, field.value),
        None => reply.null(),
    }
}

/// The hash under the command's key, to read; `None` if the key does not exist.
#[inline]
pub(crate) fn hash_at<'a>(ctx: &mut ReadCtx<'a>, args: Args<'_>) -> Result<Option<HashRef<'a>>, CmdError> {
    match ctx.db.get(args.key(1)) {
        Some(entry) => Ok(Some(entry.as_hash()?)),
        None => Ok(None),
    }
}

/// The integer in a field's value; `None` if it is not an integer.
pub(crate) fn int_of(item: ListItem<'_>) -> Option<i64> {
    match item {
        ListItem::Int(number) => Some(number),
        ListItem::Bytes(bytes) => parse_i64(bytes),
        ListItem::Shared(bytes) => parse_i64(bytes),
    }
}
