//! COMMANDLOG, and SLOWLOG, the older name for its log of slow commands.

use crate::ctx::{LogCtx, ReportCtx};
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_numbers::commandlog::LogKind;

/// Number of entries that SLOWLOG GET shows by default.
const SHOWN_BY_DEFAULT: usize = 10;

fn kind(args: Args<'_>, index: usize) -> Result<LogKind, CmdError> {
    [("slow", LogKind::Slow), ("large-request", LogKind::LargeRequest), ("large-reply", LogKind::LargeReply)]
        .into_iter()
        .find(|(name, _)| args.is(index, name))
        .map(|(_, kind)| kind)
        .ok_or(CmdError::text("ERR type should be one of the following: slow, large-request, large-reply"))
}

/// The number of entries to show; -1 means all.
fn count(args: Args<'_>, index: usize) -> Result<usize, CmdError> {
    match args.int(index) {
        Ok(-1) => Ok(usize::MAX),
        Ok(n) if n >= 0 => Ok(n as usize),
        _ => Err(CmdError::text("ERR count should be greater than or equal to -1")),
    }
}

fn reply_entries(ctx: &mut ReportCtx<'_>, kind: LogKind, count: usize) -> Run {
    let entries = ctx.control.commandlog.newest(kind, count);
    ctx.reply.array(entries.len());
    for entry in entries {
        ctx.reply.array(6);
        ctx.reply.int(entry.id as i64);
        ctx.reply.int(entry.time_s);
        ctx.reply.int(entry.value);
        ctx.reply.array(entry.argv.len());
        for arg in &entry.argv {
            ctx.reply.bulk(arg);
        }
        ctx.reply.bulk(entry.peer.as_bytes());
        ctx.reply.bulk(&entry.name);
    }
    Ok(Outcome::Done)
}

fn reply_len(ctx: &mut ReportCtx<'_>, kind: LogKind) -> Run {
    ctx.reply.int(ctx.control.commandlog.len(kind) as i64);
    Ok(Outcome::Done)
}

fn clear(ctx: &mut LogCtx<'_>, kind: LogKind) -> Run {
    ctx.commandlog.clear(kind);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn get(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let count = count(args, 2)?;
    let kind = kind(args, 3)?;
    reply_entries(ctx, kind, count)
}

pub(super) fn len(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    reply_len(ctx, kind(args, 2)?)
}

pub(super) fn reset(ctx: &mut LogCtx<'_>, args: Args<'_>) -> Run {
    clear(ctx, kind(args, 2)?)
}

pub(super) fn slow_get(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let count = match args.len() {
        2 => SHOWN_BY_DEFAULT,
        3 => count(args, 2)?,
        _ => {
            let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
            text.extend_from_slice(sluice_commands::shown(args.at(1), 128));
            text.extend_from_slice(b"'. Try SLOWLOG HELP.");
            return Err(CmdError::owned(text));
        }
    };
    reply_entries(ctx, LogKind::Slow, count)
}

pub(super) fn slow_len(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    reply_len(ctx, LogKind::Slow)
}

pub(super) fn slow_reset(ctx: &mut LogCtx<'_>, _: Args<'_>) -> Run {
    clear(ctx, LogKind::Slow)
}
