//! Moves and copies values to other keys or databases: RENAME, RENAMENX, COPY, MOVE.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use sluice_keyspace::Argv;

pub(super) fn rename(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (from, to) = (args.key(1), args.key(2));
    ctx.db.get_uncounted(from).ok_or(CmdError::NoSuchKey)?;
    if from.bytes != to.bytes {
        ctx.db.rename(from, to);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn renamenx(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (from, to) = (args.key(1), args.key(2));
    ctx.db.get_uncounted(from).ok_or(CmdError::NoSuchKey)?;
    let free = from.bytes != to.bytes && ctx.db.get_uncounted(to).is_none();
    if free {
        ctx.db.rename(from, to);
    }
    ctx.reply.int(i64::from(free));
    Ok(Outcome::Done)
}

pub(super) fn move_(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let replace = args.len() > 3;
    if replace && !(args.len() == 4 && args.is(3, "REPLACE")) {
        return Err(CmdError::Syntax);
    }
    let key = args.key(1);
    let number = db_number(ctx, args, 2)?;
    if number == ctx.db.number() {
        return Err(CmdError::SameObject);
    }
    let is_there = ctx.db.get_uncounted(key).is_some();
    let is_taken = is_there && ctx.db.other(number).is_some_and(|mut to| to.get_uncounted(key).is_some());
    let moves = is_there && (replace || !is_taken);
    if moves {
        ctx.db.move_to(key, number);
        if replace {
            ctx.db.effects.rewrite_as(|| as_older_commands(args, is_taken));
        }
    }
    ctx.reply.int(i64::from(moves));
    Ok(Outcome::Done)
}

/// MOVE with REPLACE, expressed in commands that replicas of version 9.1 know. COPY, too, can replace a key,
/// and needs no SELECT.
fn as_older_commands(args: Args<'_>, is_taken: bool) -> Vec<Argv> {
    let owned = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Argv>();
    let (key, number) = (args.at(1), args.at(2));
    match is_taken {
        false => vec![owned(&[args.at(0), key, number])],
        true => vec![owned(&[b"COPY", key, key, b"DB", number, b"REPLACE"]), owned(&[b"DEL", key])],
    }
}

pub(super) fn copy(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (from, to) = (args.key(1), args.key(2));
    let mut number = ctx.db.number();
    let mut replace = false;
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "REPLACE") {
            replace = true;
        } else if args.is(i, "DB") && i + 1 < args.len() {
            i += 1;
            number = db_number(ctx, args, i)?;
        } else {
            return Err(CmdError::Syntax);
        }
        i += 1;
    }
    if number == ctx.db.number() && from.bytes == to.bytes {
        return Err(CmdError::SameObject);
    }
    let copies = ctx.db.get(from).is_some()
        && ctx.db.other(number).is_some_and(|mut target| target.get_uncounted(to).is_none() || replace);
    if copies {
        ctx.db.copy_to(from, number, to);
    }
    ctx.reply.int(i64::from(copies));
    Ok(Outcome::Done)
}

/// The number of the database given by the argument at `index`.
fn db_number(ctx: &mut WriteCtx<'_>, args: Args<'_>, index: usize) -> Result<usize, CmdError> {
    let number = i32::try_from(args.int(index)?).map_err(|_| NOT_32_BITS)?;
    usize::try_from(number).ok().filter(|n| ctx.db.other(*n).is_some()).ok_or(CmdError::DbIndex)
}

/// The text of the reference, including its faulty grammar.
const NOT_32_BITS: CmdError =
    CmdError::text("ERR value is out of range, value must between -2147483648 and 2147483647");
