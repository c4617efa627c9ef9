//! Commands about the caller's own connection.

use crate::args::Args;
use crate::ctx::{Handler, Outcome, Route, Run, SessionCtx, route};
use crate::error::CmdError;
use sluice_command::specs::connection as specs;

pub(crate) const ROUTES: &[Route] =
    &[route(&specs::PING, Handler::Session(ping)), route(&specs::SELECT, Handler::Session(select))];

fn ping(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    match args.len() {
        1 => ctx.reply.simple(b"PONG"),
        2 => ctx.reply.bulk(args.at(1)),
        _ => return Err(CmdError::Arity("ping")),
    }
    Ok(Outcome::Done)
}

fn select(ctx: &mut SessionCtx<'_>, args: Args<'_>) -> Run {
    let number = args.int(1).map_err(|_| CmdError::text("ERR invalid DB index"))?;
    let number =
        usize::try_from(number).ok().filter(|n| *n < ctx.limits.databases).ok_or(CmdError::DbIndex)?;
    ctx.caller.db = number;
    ctx.reply.ok();
    Ok(Outcome::Done)
}
