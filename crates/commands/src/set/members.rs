//! SADD, SREM, SMOVE, SCARD, SISMEMBER, SMISMEMBER and SMEMBERS.

use super::slow;
use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::element::reply_item;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::set::common::set_of;
use sluice_keyspace::Event;

pub(super) fn sadd(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let count = args.len() - 2;
    let mut edit = ctx.db.edit_or_create_set(args.key(1), ctx.limits.set, args.at(2), count)?;
    let (set, context) = edit.parts();
    set.convert_before_adding(count, context.limits);
    let mut added = 0;
    for group in args.member_groups(2, 1) {
        set.view().prefetch_group(group.clone().map(|at| args.at(at)));
        added += group.filter(|at| set.add(args.at(*at), context)).count();
    }
    match added {
        0 => edit.unchanged(),
        added => edit.done(Event::SAdd, added as u64),
    }
    ctx.reply.int(added as i64);
    Ok(Outcome::Done)
}

pub(super) fn srem(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let mut removed = 0;
    if let Some(mut edit) = ctx.db.edit_set(args.key(1), ctx.limits.set)? {
        let (set, context) = edit.parts();
        removed = set.remove_each(args.iter_from(2), context);
        match removed {
            0 => edit.unchanged(),
            removed => edit.done(Event::SRem, removed as u64),
        }
    }
    ctx.reply.int(removed as i64);
    Ok(Outcome::Done)
}

pub(super) fn smove(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let moved = op_smove(ctx, args)?;
    ctx.reply.int(i64::from(moved));
    Ok(Outcome::Done)
}

fn op_smove(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Result<bool, crate::CmdError> {
    let (from, to, member) = (args.key(1), args.key(2), args.at(3));
    // Both keys are looked up before either type is checked, so that an expired key is deleted in any case.
    let source = ctx.db.get_uncounted(from).map(|entry| set_of(entry).map(|set| set.contains(member)));
    let target = ctx.db.get_uncounted(to).map(|entry| set_of(entry).map(|_| ()));
    let Some(is_member) = source else { return Ok(false) };
    let is_member = is_member?;
    target.transpose()?;
    if from.bytes == to.bytes || !is_member {
        return Ok(is_member);
    }
    if let Some(mut edit) = ctx.db.edit_set(from, ctx.limits.set)? {
        let (set, context) = edit.parts();
        set.remove(member, context);
        edit.done(Event::SRem, 1);
    }
    let mut edit = ctx.db.edit_or_create_set(to, ctx.limits.set, member, 1)?;
    let (set, context) = edit.parts();
    if set.add(member, context) {
        edit.done(Event::SAdd, 1);
    } else {
        edit.unchanged();
    }
    Ok(true)
}

pub(super) fn scard(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = match ctx.db.get(args.key(1)) {
        Some(entry) => set_of(entry)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

pub(super) fn sismember(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let tells_absence = args.len() > 3;
    if tells_absence && !(args.len() == 4 && args.is(3, "XX")) {
        return Err(CmdError::Syntax);
    }
    let answer = match ctx.db.get(args.key(1)) {
        Some(entry) => i64::from(set_of(entry)?.contains(args.at(2))),
        None => -i64::from(tells_absence),
    };
    ctx.reply.int(answer);
    Ok(Outcome::Done)
}

pub(super) fn smismember(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let set = ctx.db.get(args.key(1)).map(set_of).transpose()?;
    ctx.reply.array(args.len() - 2);
    let members = args.iter_from(2);
    match set {
        Some(set) => set.contains_each(members, |is_member| ctx.reply.int(i64::from(is_member))),
        None => members.for_each(|_| ctx.reply.int(0)),
    }
    Ok(Outcome::Done)
}

pub(super) fn smembers(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.set(0);
        return Ok(Outcome::Done);
    };
    let set = set_of(entry)?;
    if ctx.slow.suits(set.len()) {
        return ctx.slow.begin(|| slow::members(set));
    }
    ctx.reply.set(set.len());
    set.iter().for_each(|member| reply_item(&mut ctx.reply, member));
    Ok(Outcome::Done)
}
