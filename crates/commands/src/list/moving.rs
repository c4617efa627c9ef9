//! Commands that move elements from list to list.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::list::common::{Side, before_adding, done_removing, list_of, push, remove};
use crate::outcome::{Outcome, Run};
use sluice_base::num::IntBuffer;
use sluice_keyspace::Key;

pub(super) fn lmove(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (from, to) = (Side::parse(args, 3)?, Side::parse(args, 4)?);
    if !op_move(ctx, (args.key(1), from), (args.key(2), to))? {
        ctx.reply.null();
    }
    Ok(Outcome::Done)
}

pub(super) fn rpoplpush(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    if !op_move(ctx, (args.key(1), Side::Right), (args.key(2), Side::Left))? {
        ctx.reply.null();
    }
    Ok(Outcome::Done)
}

/// Moves an element and replies with it; `false`, without a reply, if the source list does not exist.
pub(crate) fn op_move(
    ctx: &mut WriteCtx<'_>,
    (source, from): (Key<'_>, Side),
    (target, to): (Key<'_>, Side),
) -> Result<bool, CmdError> {
    let limits = ctx.limits.list;
    let Some(entry) = ctx.db.get_uncounted(source) else { return Ok(false) };
    let list = list_of(entry)?;
    let at = match from {
        Side::Left => 0,
        Side::Right => list.len() - 1,
    };
    let moved = list.get(at, |item| item.bytes(&mut IntBuffer::new()).to_vec());
    let Some(value) = moved else { return Ok(false) };
    let values = std::iter::once(value.as_slice());
    if source.bytes == target.bytes {
        let Some(mut edit) = ctx.db.edit_list(source, limits)? else { return Ok(false) };
        remove(&mut edit, from, 1);
        before_adding(&mut edit, values);
        push(&mut edit, to, &value);
        edit.also(to.pushed());
        done_removing(edit, from.popped(), 1);
    } else {
        let mut edit = ctx.db.edit_or_create_list(target, limits)?;
        before_adding(&mut edit, values);
        push(&mut edit, to, &value);
        edit.done(to.pushed(), 0);
        if let Some(mut edit) = ctx.db.edit_list(source, limits)? {
            remove(&mut edit, from, 1);
            done_removing(edit, from.popped(), 1);
        }
    }
    ctx.reply.bulk(&value);
    Ok(true)
}
