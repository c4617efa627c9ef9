//! FLUSHALL, FLUSHDB, SWAPDB.

use crate::ctx::DatasetCtx;
use sluice_commands::{Args, CmdError, Outcome, Run};

/// The thread that frees removed data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Free {
    /// The main thread, before the reply.
    Here,
    /// Another thread, after the reply.
    Elsewhere,
}

fn mode(ctx: &DatasetCtx<'_>, args: Args<'_>) -> Result<Free, CmdError> {
    match args.len() {
        1 if ctx.limits.lazy_user_flush => Ok(Free::Elsewhere),
        1 => Ok(Free::Here),
        2 if args.is(1, "ASYNC") => Ok(Free::Elsewhere),
        2 if args.is(1, "SYNC") => Ok(Free::Here),
        _ => Err(CmdError::Syntax),
    }
}

fn finish(ctx: &mut DatasetCtx<'_>, free: Free) -> Run {
    if free == Free::Here {
        ctx.data.effects.free_databases_here();
    }
    // The command is sent to replicas even if no key was removed, because replicas may still hold keys that
    // have expired here.
    ctx.data.effects.force();
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn flushall(ctx: &mut DatasetCtx<'_>, args: Args<'_>) -> Run {
    let free = mode(ctx, args)?;
    for number in 0..ctx.data.databases() {
        ctx.data.flush(number);
    }
    finish(ctx, free)
}

pub(super) fn flushdb(ctx: &mut DatasetCtx<'_>, args: Args<'_>) -> Run {
    let free = mode(ctx, args)?;
    ctx.data.flush(ctx.caller.db);
    finish(ctx, free)
}

pub(super) fn swapdb(ctx: &mut DatasetCtx<'_>, args: Args<'_>) -> Run {
    if ctx.limits.is_cluster {
        return Err(CmdError::text("ERR SWAPDB is not allowed in cluster mode"));
    }
    let index = |at: usize, text: &'static str| {
        args.int(at).ok().and_then(|n| i32::try_from(n).ok()).ok_or(CmdError::text(text))
    };
    let first = index(1, "ERR invalid first DB index")?;
    let second = index(2, "ERR invalid second DB index")?;
    let number =
        |n: i32| usize::try_from(n).ok().filter(|n| *n < ctx.limits.databases).ok_or(CmdError::DbIndex);
    ctx.data.swap(number(first)?, number(second)?);
    ctx.reply.ok();
    Ok(Outcome::Done)
}
