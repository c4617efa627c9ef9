//! SAVE, BGSAVE and BGREWRITEAOF.

use crate::ctx::ServerCtx;
use crate::persistence::saving;
use crate::persistence::saving::{JobAsk, Why};
use sluice_base::LogLevel;
use sluice_commands::{Args, CmdError, Outcome, Run};

pub(super) fn save(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    if ctx.control.rdb_began_s().is_some() {
        return Err(IN_PROGRESS);
    }
    ctx.control.persistence.saves += 1;
    saving::in_place::save(ctx.keyspace, ctx.control, ctx.process).map_err(|_| CmdError::text("ERR"))?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// BGSAVE: requests a save that begins after this command, with the data that the command has seen. In a
/// transaction, and with SCHEDULE during other background work, the save is scheduled for later. CANCEL
/// cancels a save.
pub(super) fn bgsave(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let mut schedule = false;
    match args.len() {
        1 => {}
        2 if args.is(1, "SCHEDULE") => schedule = true,
        2 if args.is(1, "CANCEL") => return cancel(ctx),
        _ => return Err(CmdError::Syntax),
    }
    if ctx.control.rdb_began_s().is_some() {
        return Err(IN_PROGRESS);
    }
    if !ctx.may_wait {
        ctx.control.persistence.saving.scheduled = true;
        ctx.process.log(LogLevel::Notice, "Background saving scheduled to run after transaction execution");
        ctx.reply.simple(b"Background saving scheduled");
    } else if ctx.control.works_in_background()
        || ctx.control.persistence.rewriting.is_snapshot_wanted(ctx.process)
    {
        if !schedule {
            return Err(OTHER_JOB);
        }
        ctx.control.persistence.saving.scheduled = true;
        ctx.process.log(LogLevel::Notice, "Background saving scheduled due to user request");
        ctx.reply.simple(b"Background saving scheduled");
    } else {
        ctx.control.persistence.asked.push(JobAsk::Save(Why::Command));
        ctx.reply.simple(b"Background saving started");
    }
    Ok(Outcome::Done)
}

fn cancel(ctx: &mut ServerCtx<'_>) -> Run {
    let is_under_way = ctx.control.rdb_began_s().is_some();
    let saving = &mut ctx.control.persistence.saving;
    if is_under_way {
        ctx.control.persistence.asked.push(JobAsk::BreakSavesOff);
        ctx.process.log(LogLevel::Notice, "Background saving will be aborted due to user request");
        ctx.reply.simple(b"Background saving cancelled");
    } else if std::mem::take(&mut saving.scheduled) {
        let text = "Scheduled background saving will be cancelled due to user request";
        ctx.process.log(LogLevel::Notice, text);
        ctx.reply.simple(b"Scheduled background saving cancelled");
    } else {
        return Err(CmdError::text("ERR Background saving is currently not in progress or scheduled"));
    }
    Ok(Outcome::Done)
}

/// BGREWRITEAOF: requests a rewrite that begins after this command, or later if background work is in
/// progress or the command runs in a transaction.
pub(super) fn bgrewriteaof(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    let is_busy = ctx.control.works_in_background();
    if ctx.control.persistence.rewriting.began_s.is_some() {
        return Err(
            const { CmdError::text("ERR Background append only file rewriting already in progress") },
        );
    }
    if let Some(line) = ctx.control.rewrite_refusal() {
        ctx.process.log(LogLevel::Warning, line);
        return Err(CmdError::text("ERR"));
    }
    let rewriting = &mut ctx.control.persistence.rewriting;
    if is_busy || !ctx.may_wait {
        rewriting.scheduled = true;
        rewriting.failures = 0;
        ctx.reply.simple(b"Background append only file rewriting scheduled");
    } else {
        ctx.control.persistence.asked.push(JobAsk::Rewrite);
        ctx.reply.simple(b"Background append only file rewriting started");
    }
    Ok(Outcome::Done)
}

const IN_PROGRESS: CmdError = CmdError::text("ERR Background save already in progress");
const OTHER_JOB: CmdError = CmdError::text(
    "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE \
     whenever possible.",
);
