//! Arguments, look-ups and changes shared by the files of this family.

use crate::args::Args;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use sluice_keyspace::{Entry, Event, ListEdit};
use sluice_resp::Reply;
use sluice_value::ListRef;
use std::ops::Range;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The head of the list, index 0.
    Left,
    /// The tail of the list, index -1.
    Right,
}

impl Side {
    /// Reads the word LEFT or RIGHT at `index`.
    pub(crate) fn parse(args: Args<'_>, index: usize) -> Result<Side, CmdError> {
        if args.is(index, "LEFT") {
            Ok(Side::Left)
        } else if args.is(index, "RIGHT") {
            Ok(Side::Right)
        } else {
            Err(CmdError::Syntax)
        }
    }

    pub(crate) fn pushed(self) -> Event {
        match self {
            Side::Left => Event::LPush,
            Side::Right => Event::RPush,
        }
    }

    pub(crate) fn popped(self) -> Event {
        match self {
            Side::Left => Event::LPop,
            Side::Right => Event::RPop,
        }
    }

    /// The name of the command that pops at this end.
    pub(crate) fn pop_name(self) -> &'static [u8] {
        match self {
            Side::Left => b"LPOP",
            Side::Right => b"RPOP",
        }
    }
}

/// The list of an entry; an error for another type.
#[inline]
pub(crate) fn list_of(entry: Entry<'_>) -> Result<ListRef<'_>, CmdError> {
    Ok(entry.as_list()?)
}

/// The position given by an index; a negative index counts from the end. The position may be past the end;
/// `None` if it would be before the first element.
pub(crate) fn position(index: i64, len: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

/// The positions from `start` to `stop`, both included, cut to the positions that a list of `len` elements
/// has.
pub(crate) fn range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = position(start, len).unwrap_or(0);
    let Some(stop) = position(stop, len) else { return 0..0 };
    if start > stop || start >= len { 0..0 } else { start..stop.saturating_add(1).min(len) }
}

/// An integer argument other than `i64::MIN`, whose magnitude does not fit an `i64`.
pub(crate) fn int_with_magnitude(args: Args<'_>, index: usize) -> Result<i64, CmdError> {
    match args.int(index)? {
        i64::MIN => Err(CmdError::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        number => Ok(number),
    }
}

/// Ends an edit that removed or replaced `removed` elements; the list may become a listpack again.
pub(crate) fn done_removing(mut edit: ListEdit<'_>, event: Event, removed: usize) {
    let (list, context) = edit.parts();
    list.convert_after_removing(context.limits);
    match removed {
        0 => edit.publish_unchanged(event),
        removed => edit.done(event, removed as u64),
    }
}

/// Prepares the list for new elements: see [`sluice_value::List::convert_before_adding`].
pub(crate) fn before_adding<'v>(edit: &mut ListEdit<'_>, values: impl ExactSizeIterator<Item = &'v [u8]>) {
    let (list, context) = edit.parts();
    let count = values.len();
    list.convert_before_adding(count, values.map(<[u8]>::len).sum(), context.limits);
}

/// Adds an element at an end.
#[inline]
pub(crate) fn push(edit: &mut ListEdit<'_>, side: Side, value: &[u8]) {
    let (list, context) = edit.parts();
    match side {
        Side::Left => list.push_front(value, context),
        Side::Right => list.push_back(value, context),
    }
}

/// Removes `count` elements at an end.
#[inline]
pub(crate) fn remove(edit: &mut ListEdit<'_>, side: Side, count: usize) {
    let (list, context) = edit.parts();
    match side {
        Side::Left => list.remove_front(count, context),
        Side::Right => list.remove_back(count, context),
    }
}

/// Replies with a length.
pub(crate) fn reply_len(reply: &mut Reply<'_>, len: usize) -> Run {
    reply.int(len as i64);
    Ok(Outcome::Done)
}
