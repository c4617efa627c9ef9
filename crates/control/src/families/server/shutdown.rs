//! SHUTDOWN.

use crate::action::Action;
use crate::ctx::ServerCtx;
use crate::persistence::ending;
use crate::persistence::ending::begin;
use crate::persistence::ending::{ClusterEnd, EndOrder, EndStage, PendingEnd};
use crate::persistence::saving;
use crate::persistence::saving::Ending;
use sluice_base::LogLevel;
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};

/// SHUTDOWN: ends the server at once, or when the replicas have all data, when one of them has taken over, or
/// after `shutdown-timeout`. A successful shutdown sends no reply. ABORT cancels a shutdown that waits.
pub(super) fn shutdown(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let mut order = EndOrder::new(Ending::ByConfig, false);
    let mut abort = false;
    for i in 1..args.len() {
        match () {
            () if args.is(i, "NOSAVE") && order.ending != Ending::Save => order.ending = Ending::NoSave,
            () if args.is(i, "SAVE") && order.ending != Ending::NoSave => order.ending = Ending::Save,
            () if args.is(i, "FORCE") => order.force = true,
            () if args.is(i, "NOW") => order.at_once = true,
            () if args.is(i, "SAFE") => order.in_cluster.is_safe = true,
            () if args.is(i, "FAILOVER") => order.in_cluster.hands_over = true,
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
    let ClusterEnd { hands_over, .. } = order.in_cluster;
    if hands_over && ctx.control.cluster.is_none() {
        return Err(CmdError::text("ERR SHUTDOWN FAILOVER is only supported in cluster mode."));
    }
    // A busy script has made only a part of its changes, which must not be saved.
    let busy = ctx.control.scripts.running.as_deref().filter(|_| *ctx.control.scripts.is_busy);
    if let Some(running) = busy.filter(|_| order.ending != Ending::NoSave) {
        return Err(running.busy_error());
    }
    let is_busy = busy.is_some();
    if let Some(pending) = ctx.control.persistence.pending_end.as_mut() {
        if is_busy {
            pending.give_up_saving(order.at_once.then_some(ctx.now));
        }
        pending.clients.push(ctx.session.key);
        return Ok(Outcome::Wait(Box::new(WaitFor::Shutdown)));
    }
    if begin::is_refused(&order, ctx.control, ctx.process) {
        return Err(ending::NOT_ENDED);
    }
    if ctx.may_wait && begin::has_to_wait(&order, ctx.control, ctx.sessions) {
        let mut pending = PendingEnd::new(order, ctx.control, ctx.now);
        pending.clients.push(ctx.session.key);
        begin::begin(pending, ctx.control, ctx.sessions, ctx.process);
        return Ok(Outcome::Wait(Box::new(WaitFor::Shutdown)));
    }
    if !saving::in_place::prepare_end(&order, ctx.keyspace, ctx.control, ctx.process) {
        return Err(ending::NOT_ENDED);
    }
    ctx.actions.push(Action::Shutdown);
    Ok(Outcome::Done)
}

/// An aborted shutdown would permit writes, which the replica's takeover would lose.
const TOO_LATE: CmdError = CmdError::text("ERR The shutdown can't be aborted: a replica is taking over.");

fn abort(ctx: &mut ServerCtx<'_>) -> Run {
    let pending = ctx.control.persistence.pending_end.as_deref();
    if pending.is_some_and(|pending| pending.stage == EndStage::TakingOver) {
        return Err(TOO_LATE);
    }
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
