//! Intersections, unions and differences.

use super::slow;
use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::item_commands::{ItemCommands, is_told_by_result};
use crate::outcome::{Outcome, Run};
use crate::set::combine::{
    SetOperation, Visit, count_common, intersect, is_looked_up, subtract, unite_by_looking_up,
};
use crate::set::common::set_of;
use sluice_base::num::{IntBuffer, parse_i64};
use sluice_keyspace::{DbRef, Event, NewValue, SetExpiry};
use sluice_value::{Set, SetContext, SetGathering, SetLimits, SetRef, Type};
use std::ops::Range;

pub(super) fn sinter(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let sets = sets_of(&mut ctx.db, args, 1..args.len())?;
    answer(ctx, &sets, SetOperation::Inter)
}

pub(super) fn sdiff(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let sets = sets_of(&mut ctx.db, args, 1..args.len())?;
    answer(ctx, &sets, SetOperation::Diff)
}

pub(super) fn sunion(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let sets = sets_of(&mut ctx.db, args, 1..args.len())?;
    let limits = ctx.limits.set;
    answer(ctx, &sets, SetOperation::Union(limits))
}

pub(super) fn sinterstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, Event::SInterStore, |sets, limits| gathered(limits, |visit| intersect(sets, visit)))
}

pub(super) fn sdiffstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, Event::SDiffStore, |sets, limits| gathered(limits, |visit| subtract(sets, visit)))
}

pub(super) fn sunionstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, Event::SUnionStore, |sets, limits| {
        if is_looked_up(sets) {
            return gathered(limits, |visit| unite_by_looking_up(sets, visit));
        }
        // The stored set keeps each member once, so duplicates may be added.
        let (mut result, mut context) = (Set::default(), SetContext { limits, ..SetContext::default() });
        let mut digits = IntBuffer::new();
        for member in sets.iter().flatten().flat_map(|set| set.iter()) {
            result.add(member.bytes(&mut digits), &mut context);
        }
        result
    })
}

pub(super) fn sintercard(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    const FEW: CmdError = CmdError::text("ERR numkeys should be greater than 0");
    let count = parse_i64(args.at(1)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(FEW)?;
    if count > args.len() - 2 {
        return Err(CmdError::text("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut at = 2 + count;
    while at < args.len() {
        if !args.is(at, "LIMIT") || at + 1 == args.len() {
            return Err(CmdError::Syntax);
        }
        let given = parse_i64(args.at(at + 1)).and_then(|limit| usize::try_from(limit).ok());
        limit = given.ok_or(CmdError::text("ERR LIMIT can't be negative"))?;
        at += 2;
    }
    let sets = sets_of(&mut ctx.db, args, 2..2 + count)?;
    if ctx.slow.suits(SetOperation::Inter.visited(&sets)) {
        return ctx.slow.begin(|| slow::counted(&sets, limit));
    }
    ctx.reply.int(count_common(&sets, limit) as i64);
    Ok(Outcome::Done)
}

fn answer(ctx: &mut ReadCtx<'_>, sets: &[Option<SetRef<'_>>], operation: SetOperation) -> Run {
    if ctx.slow.suits(operation.visited(sets)) {
        return ctx.slow.begin(|| slow::combined(sets, operation));
    }
    operation.reply(sets, &mut ctx.reply);
    Ok(Outcome::Done)
}

/// The sets under the keys of these arguments; `None` for an absent key.
fn sets_of<'d>(
    db: &mut DbRef<'d>,
    args: Args<'_>,
    keys: Range<usize>,
) -> Result<Vec<Option<SetRef<'d>>>, CmdError> {
    keys.map(|at| db.get(args.key(at)).map(set_of).transpose()).collect()
}

/// A set of the members that `walk` visits, which are all different.
fn gathered(limits: SetLimits, walk: impl FnOnce(Visit<'_>)) -> Set {
    let (mut members, mut digits) = (SetGathering::new(limits), IntBuffer::new());
    walk(&mut |member| {
        members.push(member.bytes(&mut digits));
        true
    });
    members.finish()
}

/// Builds a set from the source sets with `make` and stores it under the first key; an empty set deletes the
/// key.
fn store(
    ctx: &mut WriteCtx<'_>,
    args: Args<'_>,
    event: Event,
    make: impl FnOnce(&[Option<SetRef<'_>>], SetLimits) -> Set,
) -> Run {
    let mut db = ctx.db.as_read_of((2..args.len()).map(|at| args.key(at)), Some(Type::Set));
    let sets = sets_of(&mut db, args, 2..args.len())?;
    let result = make(&sets, ctx.limits.set);
    drop(sets);
    let (target, len) = (args.key(1), result.len());
    let told = is_told_by_result(&ctx.db).then(|| result.share());
    let existed = match len {
        0 => ctx.db.remove_stored(target, Event::Del),
        _ => ctx.db.set(target, NewValue::Set(result), SetExpiry::Clear, event),
    };
    if let Some(told) = told {
        ctx.db.effects.rewrite_encoded(|| {
            let commands = ItemCommands::new((b"SADD", target.bytes), (told.len(), 1));
            let (mut commands, mut digits) = (commands.in_place_of(existed), IntBuffer::new());
            told.view().iter().for_each(|member| commands.push(&[member.bytes(&mut digits)]));
            commands.finish()
        });
    }
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}
