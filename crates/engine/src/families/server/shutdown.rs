//! SHUTDOWN.

use crate::action::Action;
use crate::args::Args;
use crate::ctx::{Outcome, Run, ServerCtx};
use crate::error::CmdError;
use crate::process::LogLevel;
use crate::saving::{self, Ending};

/// Ends the server. A server that goes sends no reply. There is nothing to wait for, no replica and no child, so that ABORT
/// finds something to abort only where a signal came while the cron was paused.
pub(super) fn shutdown(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let (mut ending, mut force, mut abort) = (Ending::ByConfig, false, false);
    for i in 1..args.len() {
        match () {
            () if args.is(i, "NOSAVE") && ending != Ending::Save => ending = Ending::NoSave,
            () if args.is(i, "SAVE") && ending != Ending::NoSave => ending = Ending::Save,
            () if args.is(i, "FORCE") => force = true,
            // These words are about waiting for replicas, and about clusters. SHUTDOWN waits for no replica here.
            () if ["NOW", "SAFE", "FAILOVER"].iter().any(|word| args.is(i, word)) => {}
            () if args.is(i, "ABORT") => abort = true,
            () => return Err(CmdError::Syntax),
        }
    }
    if abort {
        return match args.len() {
            2 => self::abort(ctx),
            _ => Err(CmdError::Syntax),
        };
    }
    if !saving::prepare_end(ending, force, ctx.keyspace, ctx.control, ctx.process) {
        return Err(CmdError::text("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    ctx.actions.push(Action::Shutdown);
    Ok(Outcome::Done)
}

fn abort(ctx: &mut ServerCtx<'_>) -> Run {
    if !std::mem::take(&mut ctx.control.end_waits_for_cron) {
        return Err(CmdError::text("ERR No shutdown in progress."));
    }
    ctx.process.log(LogLevel::Notice, "Shutdown manually aborted.");
    ctx.actions.push(Action::KeepRunning);
    ctx.reply.ok();
    Ok(Outcome::Done)
}
