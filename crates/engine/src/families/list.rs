//! Lists.
//!
//! Each file has the handlers, which read arguments and write replies, and `op_` functions, which change the data: those are
//! what a command that waited runs when its turn comes.

pub(crate) mod blocking;
mod ends;
mod find;
mod moving;
mod part;
mod slow;

use crate::args::Args;
use crate::ctx::{Handler, Outcome, ReadCtx, Route, Run, route};
use crate::error::CmdError;
use sluice_base::num::parse_i64;
use sluice_command::specs::list as specs;
use sluice_keyspace::{Entry, Event, ListEdit};
use sluice_resp::Reply;
use sluice_value::{ListItem, ListRef};
use std::ops::Range;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::BLMOVE, Handler::Write(blocking::blmove)),
    route(&specs::BLMPOP, Handler::Write(blocking::blmpop)),
    route(&specs::BLPOP, Handler::Write(blocking::blpop)),
    route(&specs::BRPOP, Handler::Write(blocking::brpop)),
    route(&specs::BRPOPLPUSH, Handler::Write(blocking::brpoplpush)),
    route(&specs::LINDEX, Handler::Read(lindex)),
    route(&specs::LINSERT, Handler::Write(part::linsert)),
    route(&specs::LLEN, Handler::Read(llen)),
    route(&specs::LMOVE, Handler::Write(moving::lmove)),
    route(&specs::LMPOP, Handler::Write(ends::lmpop)),
    route(&specs::LPOP, Handler::Write(ends::lpop)),
    route(&specs::LPOS, Handler::Read(find::lpos)),
    route(&specs::LPUSH, Handler::Write(ends::lpush)),
    route(&specs::LPUSHX, Handler::Write(ends::lpushx)),
    route(&specs::LRANGE, Handler::Read(lrange)),
    route(&specs::LREM, Handler::Write(part::lrem)),
    route(&specs::LSET, Handler::Write(part::lset)),
    route(&specs::LTRIM, Handler::Write(part::ltrim)),
    route(&specs::RPOP, Handler::Write(ends::rpop)),
    route(&specs::RPOPLPUSH, Handler::Write(moving::rpoplpush)),
    route(&specs::RPUSH, Handler::Write(ends::rpush)),
    route(&specs::RPUSHX, Handler::Write(ends::rpushx)),
];

/// An end of a list, as commands name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The front.
    Left,
    /// The back.
    Right,
}

impl Side {
    /// The word at `index`.
    pub(crate) fn parse(args: Args<'_>, index: usize) -> Result<Side, CmdError> {
        if args.is(index, "LEFT") {
            Ok(Side::Left)
        } else if args.is(index, "RIGHT") {
            Ok(Side::Right)
        } else {
            Err(CmdError::Syntax)
        }
    }

    fn pushed(self) -> Event {
        match self {
            Side::Left => Event::LPush,
            Side::Right => Event::RPush,
        }
    }

    fn popped(self) -> Event {
        match self {
            Side::Left => Event::LPop,
            Side::Right => Event::RPop,
        }
    }

    /// The command that pops there.
    fn pop_name(self) -> &'static [u8] {
        match self {
            Side::Left => b"LPOP",
            Side::Right => b"RPOP",
        }
    }
}

/// Writes an element as a bulk reply.
#[inline]
fn reply_item(reply: &mut Reply<'_>, item: ListItem<'_>) {
    match item {
        ListItem::Int(number) => reply.bulk_int(number),
        ListItem::Bytes(bytes) => reply.bulk(bytes),
        ListItem::Shared(bytes) => reply.bulk_shared(bytes),
    }
}

/// The list of an entry, or what a command answers to another type.
#[inline]
fn list_of(entry: Entry<'_>) -> Result<ListRef<'_>, CmdError> {
    Ok(entry.as_list()?)
}

fn llen(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = match ctx.db.get(args.key(1)) {
        Some(entry) => list_of(entry)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

fn lindex(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    let list = list_of(entry)?;
    let index = position(args.int(2)?, list.len());
    let found = index.and_then(|index| list.get(index, |item| reply_item(&mut ctx.reply, item)));
    if found.is_none() {
        ctx.reply.null();
    }
    Ok(Outcome::Done)
}

fn lrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let list = list_of(entry)?;
    let range = range(start, stop, list.len());
    if ctx.slow.suits(range.len()) {
        return ctx.slow.begin(|| slow::lrange(list, range));
    }
    ctx.reply.array(range.len());
    let mut iter = list.iter(range);
    while let Some(item) = iter.next() {
        reply_item(&mut ctx.reply, item);
    }
    Ok(Outcome::Done)
}

/// The position that an index names; negative ones count from the end. It may be behind the end.
fn position(index: i64, len: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

/// The positions from `start` to `stop`, both included, of `len`; what lies outside is cut off.
fn range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let start = position(start, len).unwrap_or(0);
    let Some(stop) = position(stop, len) else { return 0..0 };
    if start > stop || start >= len { 0..0 } else { start..stop.saturating_add(1).min(len) }
}

/// An integer argument of at least `min`; else this error, whatever is wrong.
pub(crate) fn int_from(
    args: Args<'_>,
    index: usize,
    min: i64,
    error: &'static str,
) -> Result<usize, CmdError> {
    match args.get(index).and_then(parse_i64) {
        Some(number) if number >= min => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        Some(_) | None => Err(CmdError::text(error)),
    }
}

/// An integer argument but the smallest, whose magnitude is none.
fn int_with_magnitude(args: Args<'_>, index: usize) -> Result<i64, CmdError> {
    match args.int(index)? {
        i64::MIN => Err(CmdError::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        number => Ok(number),
    }
}

/// Ends an edit that took `removed` elements out: what is left may be a listpack again.
fn done_removing(mut edit: ListEdit<'_>, event: Event, removed: usize) {
    let (list, context) = edit.parts();
    list.convert_after_removing(context.limits);
    match removed {
        0 => edit.publish_unchanged(event),
        removed => edit.done(event, removed as u64),
    }
}

/// How a list is about to grow: see [`sluice_value::List::convert_before_adding`].
fn before_adding<'v>(edit: &mut ListEdit<'_>, values: impl ExactSizeIterator<Item = &'v [u8]>) {
    let (list, context) = edit.parts();
    let count = values.len();
    list.convert_before_adding(count, values.map(<[u8]>::len).sum(), context.limits);
}

/// Adds an element at an end.
#[inline]
fn push(edit: &mut ListEdit<'_>, side: Side, value: &[u8]) {
    let (list, context) = edit.parts();
    match side {
        Side::Left => list.push_front(value, context),
        Side::Right => list.push_back(value, context),
    }
}

/// Removes so many elements at an end.
#[inline]
fn remove(edit: &mut ListEdit<'_>, side: Side, count: usize) {
    let (list, context) = edit.parts();
    match side {
        Side::Left => list.remove_front(count, context),
        Side::Right => list.remove_back(count, context),
    }
}

/// Answers with a length.
fn reply_len(reply: &mut Reply<'_>, len: usize) -> Run {
    reply.int(len as i64);
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_list() {
        assert_eq!(range(0, -1, 5), 0..5);
        assert_eq!(range(-2, 100, 5), 3..5);
        assert_eq!(range(-100, 0, 5), 0..1);
        assert_eq!(range(i64::MIN, i64::MAX, 5), 0..5);
        for (start, stop) in [(3, 2), (5, 9), (0, -6), (i64::MAX, i64::MIN), (-1, -2)] {
            assert!(range(start, stop, 5).is_empty());
        }
        assert!(range(0, -1, 0).is_empty());
    }
}
