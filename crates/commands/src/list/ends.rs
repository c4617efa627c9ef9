//! Commands that add and remove elements at the ends.

use crate::args::{Args, FirstOfKeys, int_from};
use crate::ctx::WriteCtx;
use crate::element::reply_item;
use crate::error::CmdError;
use crate::list::common::{Side, before_adding, done_removing, list_of, push, remove, reply_len};
use crate::outcome::{Outcome, Run};
use sluice_keyspace::Key;

/// The lists to which a command pushes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PushTarget {
    /// Any list; a missing one is created.
    Any,
    /// Only a list that exists: LPUSHX and RPUSHX.
    Existing,
}

pub(super) fn lpush(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    push_all(ctx, args, Side::Left, PushTarget::Any)
}

pub(super) fn rpush(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    push_all(ctx, args, Side::Right, PushTarget::Any)
}

pub(super) fn lpushx(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    push_all(ctx, args, Side::Left, PushTarget::Existing)
}

pub(super) fn rpushx(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    push_all(ctx, args, Side::Right, PushTarget::Existing)
}

fn push_all(ctx: &mut WriteCtx<'_>, args: Args<'_>, side: Side, onto: PushTarget) -> Run {
    let (key, limits) = (args.key(1), ctx.limits.list);
    let edit = match onto {
        PushTarget::Any => Some(ctx.db.edit_or_create_list(key, limits)?),
        PushTarget::Existing => ctx.db.edit_list(key, limits)?,
    };
    let Some(mut edit) = edit else { return reply_len(&mut ctx.reply, 0) };
    let values = args.iter_from(2);
    before_adding(&mut edit, values.clone());
    let added = values.len();
    values.for_each(|value| push(&mut edit, side, value));
    let len = edit.value().len();
    edit.done(side.pushed(), added as u64);
    reply_len(&mut ctx.reply, len)
}

pub(super) fn lpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    pop(ctx, args, Side::Left, "lpop")
}

pub(super) fn rpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    pop(ctx, args, Side::Right, "rpop")
}

fn pop(ctx: &mut WriteCtx<'_>, args: Args<'_>, side: Side, name: &'static str) -> Run {
    if args.len() > 3 {
        return Err(CmdError::Arity(name));
    }
    if args.len() == 2 {
        if op_pop(ctx, args.key(1), side, Shape::Single)? == 0 {
            ctx.reply.null();
        }
        return Ok(Outcome::Done);
    }
    let count = int_from(args, 2, 0, "ERR value is out of range, must be positive")?;
    if count == 0 {
        match ctx.db.get_uncounted(args.key(1)) {
            Some(entry) => {
                list_of(entry)?;
                ctx.reply.array(0);
            }
            None => ctx.reply.null_array(),
        }
    } else if op_pop(ctx, args.key(1), side, Shape::Array(count))? == 0 {
        ctx.reply.null_array();
    }
    Ok(Outcome::Done)
}

/// Number of elements to take, and form of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One element, replied without an array.
    Single,
    /// At most this number of elements (1 or more), replied as an array.
    Array(usize),
}

/// Takes elements from an end and replies with them; the result is their number. An absent key gives 0
/// and no reply.
pub(crate) fn op_pop(
    ctx: &mut WriteCtx<'_>,
    key: Key<'_>,
    side: Side,
    shape: Shape,
) -> Result<usize, CmdError> {
    let Some(mut edit) = ctx.db.edit_list(key, ctx.limits.list)? else { return Ok(0) };
    let list = edit.value();
    let len = list.len();
    let count = match shape {
        Shape::Single => 1,
        Shape::Array(count) => {
            ctx.reply.array(count.min(len));
            count.min(len)
        }
    };
    let mut iter = match side {
        Side::Left => list.view().iter(0..count),
        Side::Right => list.view().iter_rev(len - count..len),
    };
    while let Some(item) = iter.next() {
        reply_item(&mut ctx.reply, item);
    }
    remove(&mut edit, side, count);
    done_removing(edit, side.popped(), count);
    Ok(count)
}

pub(super) fn lmpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let call = FirstOfKeys::parse(args, 1, Side::parse)?;
    for key in call.keys.clone() {
        if call.pop(ctx, args.key(key))? {
            return Ok(Outcome::Done);
        }
    }
    ctx.reply.null_array();
    Ok(Outcome::Done)
}

impl FirstOfKeys<Side> {
    /// Takes elements from the list of a key and replies with the key and the elements; `false`, without
    /// a reply, if there is no list.
    pub(super) fn pop(&self, ctx: &mut WriteCtx<'_>, key: Key<'_>) -> Result<bool, CmdError> {
        match ctx.db.get_uncounted(key) {
            Some(entry) => list_of(entry)?,
            None => return Ok(false),
        };
        ctx.reply.array(2);
        ctx.reply.bulk(key.bytes);
        let count = op_pop(ctx, key, self.end, Shape::Array(self.count))?;
        let name = self.end.pop_name();
        let argv = || vec![name.to_vec(), key.bytes.to_vec(), count.to_string().into_bytes()];
        ctx.db.effects.rewrite(argv);
        Ok(true)
    }
}
