//! Commands that change elements in the middle.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::list::common::{before_adding, done_removing, int_with_magnitude, position, range, reply_len};
use crate::outcome::{Outcome, Run};
use sluice_keyspace::Event;

pub(super) fn linsert(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let behind = match () {
        () if args.is(2, "AFTER") => 1,
        () if args.is(2, "BEFORE") => 0,
        () => return Err(CmdError::Syntax),
    };
    let Some(mut edit) = ctx.db.edit_list(args.key(1), ctx.limits.list)? else {
        return reply_len(&mut ctx.reply, 0);
    };
    // The encoding is prepared for the element whether or not the pivot is found, as in the reference.
    before_adding(&mut edit, args.iter_from(4));
    let (list, context) = edit.parts();
    let Some(pivot) = list.view().iter(0..usize::MAX).find_equal(args.at(3)) else {
        edit.unchanged();
        ctx.reply.int(-1);
        return Ok(Outcome::Done);
    };
    list.insert(pivot + behind, args.at(4), context);
    let len = list.len();
    edit.done(Event::LInsert, 1);
    reply_len(&mut ctx.reply, len)
}

pub(super) fn lset(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let Some(mut edit) = ctx.db.edit_list(args.key(1), ctx.limits.list)? else {
        return Err(CmdError::NoSuchKey);
    };
    let index = match args.int(2) {
        Ok(index) => index,
        Err(error) => {
            edit.unchanged();
            return Err(error);
        }
    };
    before_adding(&mut edit, args.iter_from(3));
    let (list, context) = edit.parts();
    let set = position(index, list.len()).is_some_and(|index| list.set(index, args.at(3), context));
    if !set {
        edit.unchanged();
        return Err(CmdError::OutOfRange);
    }
    done_removing(edit, Event::LSet, 1);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn lrem(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let count = int_with_magnitude(args, 2)?;
    let Some(mut edit) = ctx.db.edit_list(args.key(1), ctx.limits.list)? else {
        return reply_len(&mut ctx.reply, 0);
    };
    let (list, context) = edit.parts();
    let removed = list.remove_equal(count, args.at(3), context);
    if removed == 0 {
        edit.unchanged();
    } else {
        done_removing(edit, Event::LRem, removed);
    }
    reply_len(&mut ctx.reply, removed)
}

pub(super) fn ltrim(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    if let Some(mut edit) = ctx.db.edit_list(args.key(1), ctx.limits.list)? {
        let (list, context) = edit.parts();
        let len = list.len();
        list.trim(range(start, stop, len), context);
        let removed = len - list.len();
        // The event is published even if nothing was removed.
        done_removing(edit, Event::LTrim, removed);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}
