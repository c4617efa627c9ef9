//! MONITOR: the caller receives every following command; `observe/logging.rs` of the engine sends them.

use crate::ctx::{Handler, Route, ServerCtx, route};
use sluice_command::specs::server as specs;
use sluice_commands::{Args, CmdError, Outcome, Run};

pub(crate) const ROUTES: &[Route] = &[route(&specs::MONITOR, Handler::Server(monitor))];

fn monitor(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    if !ctx.may_wait {
        return Err(CmdError::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let flags = &mut ctx.session.caller.flags;
    // A client that already receives a stream gets no second one, and no reply in the middle of the stream.
    if !flags.monitor && ctx.session.caller.replica.is_none() {
        ctx.session.caller.flags.monitor = true;
        ctx.control.clients.monitors.push(ctx.session.key);
        ctx.reply.ok();
    }
    Ok(Outcome::Done)
}
