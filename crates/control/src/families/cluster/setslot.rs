//! CLUSTER SETSLOT: opens a slot for a manual move, closes it, or assigns an owner.

use super::change::{execute, slot};
use crate::ctx::ClusterCtx;
use sluice_cluster::{ClusterCommand, HasKeys, SetSlot, SlotAction};
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};

const NO_ACTION: CmdError =
    CmdError::text("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");

/// CLUSTER SETSLOT. Replicas receive the command in the replication stream.
pub(super) fn setslot(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    if ctx.is_replica && !ctx.session.caller.is_primary() {
        return Err(CmdError::text("ERR Please use SETSLOT only with masters."));
    }
    if ctx.mode.machine.imports_under_way() > 0 {
        return Err(CmdError::text("ERR Slot import in progress."));
    }
    if ctx.mode.machine.has_exports() {
        return Err(CmdError::text("ERR Slot export in progress."));
    }
    let slot = slot(args, 2)?;
    let (action, rest) = if args.is(3, "STABLE") {
        (SlotAction::Stable, 4)
    } else if args.len() < 5 {
        return Err(NO_ACTION);
    } else if args.is(3, "MIGRATING") {
        (SlotAction::Migrating(args.at(4)), 5)
    } else if args.is(3, "IMPORTING") {
        (SlotAction::Importing(args.at(4)), 5)
    } else if args.is(3, "NODE") {
        (SlotAction::Node(args.at(4)), 5)
    } else {
        return Err(NO_ACTION);
    };
    let timeout_ms = timeout_ms(args, rest)?;
    let number = slot.number();
    let holds = (0..ctx.keyspace.databases()).any(|db| ctx.keyspace.db(db).slot_len(number) > 0);
    let keys = if holds { HasKeys::Yes } else { HasKeys::No };
    let command = ClusterCommand::SetSlot(SetSlot { slot, action, keys });
    let tells_first = ctx.may_wait && ctx.replicas > 0 && !ctx.session.caller.is_primary();
    if tells_first && !ctx.session.is_rerun {
        return tell_replicas(ctx, &command, timeout_ms);
    }
    if !tells_first {
        ctx.effects.force_to_replicas();
    }
    execute(ctx, command)
}

/// Sends the command to the replicas before this server executes it, so that no replica takes over without
/// this change (O-3).
fn tell_replicas(ctx: &mut ClusterCtx<'_>, command: &ClusterCommand<'_>, timeout_ms: u64) -> Run {
    ctx.mode.machine.check(command).map_err(CmdError::owned)?;
    ctx.effects.force_to_replicas();
    let deadline_ms = match timeout_ms {
        0 => 0,
        ms => (ctx.now.mono_ns / 1_000_000).saturating_add(ms),
    };
    Ok(Outcome::Wait(Box::new(WaitFor::ReplicasFirst { count: ctx.replicas, offset: 0, deadline_ms })))
}

/// Time for which SETSLOT waits for the replicas without the option TIMEOUT, in ms.
const WAIT_MS: u64 = 2_000;

/// The value of the option TIMEOUT, in ms (O-2). Unknown words after the action are ignored, as in the
/// reference.
fn timeout_ms(args: Args<'_>, from: usize) -> Result<u64, CmdError> {
    let Some(at) = (from..args.len()).find(|at| args.is(*at, "TIMEOUT")) else { return Ok(WAIT_MS) };
    if at + 1 == args.len() {
        return Err(CmdError::text("ERR Missing timeout value"));
    }
    let ms = args.int(at + 1).map_err(|_| CmdError::text("ERR timeout is not an integer or out of range"))?;
    u64::try_from(ms).map_err(|_| CmdError::text("ERR timeout is negative"))
}
