//! SHUTDOWN.

use crate::action::Action;
use crate::args::Args;
use crate::ctx::{Outcome, Run, ServerCtx};
use crate::error::CmdError;

/// Ends the server, or ends its ending. A server that goes sends no reply.
pub(super) fn shutdown(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let (mut save, mut now, mut force, mut abort) = (None, false, false, false);
    for i in 1..args.len() {
        match () {
            () if args.is(i, "NOSAVE") && save != Some(true) => save = Some(false),
            () if args.is(i, "SAVE") && save != Some(false) => save = Some(true),
            () if args.is(i, "NOW") => now = true,
            () if args.is(i, "FORCE") => force = true,
            // They concern clusters, of which this server is none.
            () if args.is(i, "SAFE") || args.is(i, "FAILOVER") => {}
            () if args.is(i, "ABORT") => abort = true,
            () => return Err(CmdError::Syntax),
        }
    }
    if abort {
        if args.len() > 2 {
            return Err(CmdError::Syntax);
        }
        if !std::mem::take(&mut ctx.control.shutting_down) {
            return Err(CmdError::text("ERR No shutdown in progress."));
        }
        ctx.actions.push(Action::AbortShutdown);
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    ctx.control.shutting_down = true;
    ctx.actions.push(Action::Shutdown { save, now, force });
    Ok(Outcome::Done)
}
