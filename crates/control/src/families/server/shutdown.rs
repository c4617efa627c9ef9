//! SHUTDOWN.

use crate::action::Action;
use crate::ctx::ServerCtx;
use crate::persistence::ending;
use crate::persistence::ending::PendingEnd;
use crate::persistence::saving;
use crate::persistence::saving::Ending;
use sluice_base::LogLevel;
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};
use sluice_config::param;

/// Ends the server, once the replicas have everything or `shutdown-timeout` is over. A server that goes sends
/// no reply.
pub(super) fn shutdown(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let (mut ending, mut force, mut abort, mut at_once) = (Ending::ByConfig, false, false, false);
    for i in 1..args.len() {
        match () {
            () if args.is(i, "NOSAVE") && ending != Ending::Save => ending = Ending::NoSave,
            () if args.is(i, "SAVE") && ending != Ending::NoSave => ending = Ending::Save,
            () if args.is(i, "FORCE") => force = true,
            () if args.is(i, "NOW") => at_once = true,
            // These words are about clusters.
            () if ["SAFE", "FAILOVER"].iter().any(|word| args.is(i, word)) => {}
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
    // A unit stands open that is a part of what it will be: it is not saved.
    let busy = ctx.control.scripts.running.as_deref().filter(|_| *ctx.control.scripts.is_busy);
    if let Some(running) = busy.filter(|_| ending != Ending::NoSave) {
        return Err(running.busy_error());
    }
    let is_busy = busy.is_some();
    if let Some(pending) = ctx.control.persistence.pending_end.as_mut() {
        if is_busy {
            pending.give_up_saving(at_once.then_some(ctx.now));
        }
        pending.clients.push(ctx.session.key);
        return Ok(Outcome::Wait(Box::new(WaitFor::Shutdown)));
    }
    let timeout_s = ctx.control.config.int(param::SHUTDOWN_TIMEOUT);
    if !at_once
        && timeout_s > 0
        && ctx.may_wait
        && !ending::begin::are_replicas_at(ctx.control, ctx.sessions, ctx.control.replication.stream.offset)
    {
        let mut pending = PendingEnd::new(ending, force, ctx.control, ctx.now);
        pending.clients.push(ctx.session.key);
        ending::begin::begin(pending, ctx.control, ctx.process);
        return Ok(Outcome::Wait(Box::new(WaitFor::Shutdown)));
    }
    if !saving::in_place::prepare_end(ending, force, ctx.keyspace, ctx.control, ctx.process) {
        return Err(ending::NOT_ENDED);
    }
    ctx.actions.push(Action::Shutdown);
    Ok(Outcome::Done)
}

fn abort(ctx: &mut ServerCtx<'_>) -> Run {
    let was_waiting = std::mem::take(&mut ctx.control.debug.end_waits_for_cron);
    let was_pending =
        ctx.control.persistence.pending_end.as_mut().map(|pending| pending.is_aborted = true).is_some();
    if !was_waiting && !was_pending {
        return Err(CmdError::text("ERR No shutdown in progress."));
    }
    ctx.process.log(LogLevel::Notice, "Shutdown manually aborted.");
    if was_waiting {
        ctx.actions.push(Action::KeepRunning);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}
