//! MULTI, DISCARD, WATCH and UNWATCH. EXEC is in `exec/transaction.rs` of the engine.

use crate::ctx::{Handler, Route, TransactionCtx, route};
use sluice_command::specs::transactions as specs;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_subscriptions::watch::WatchedKey;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::DISCARD, Handler::Transaction(discard)),
    route(&specs::EXEC, Handler::Exec),
    route(&specs::MULTI, Handler::Transaction(multi)),
    route(&specs::UNWATCH, Handler::Transaction(unwatch)),
    route(&specs::WATCH, Handler::Transaction(watch)),
];

fn multi(ctx: &mut TransactionCtx<'_>, _: Args<'_>) -> Run {
    *ctx.transaction = Some(Box::default());
    ctx.caller.multi.queued = 0;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn discard(ctx: &mut TransactionCtx<'_>, _: Args<'_>) -> Run {
    if ctx.transaction.take().is_none() {
        return Err(CmdError::text("ERR DISCARD without MULTI"));
    }
    ctx.caller.leave_multi();
    ctx.watching.forget(ctx.key);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn watch(ctx: &mut TransactionCtx<'_>, args: Args<'_>) -> Run {
    for index in 1..args.len() {
        let expiry = ctx.db.stored(args.key(index)).and_then(|entry| entry.expiry());
        let expired = expiry.is_some_and(|at_ms| ctx.db.access.now.unix_ms() > at_ms);
        let watched = WatchedKey { db: ctx.db.number(), key: args.at(index).into(), expired };
        ctx.watching.watch(ctx.key, watched);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn unwatch(ctx: &mut TransactionCtx<'_>, _: Args<'_>) -> Run {
    ctx.watching.forget(ctx.key);
    ctx.reply.ok();
    Ok(Outcome::Done)
}
