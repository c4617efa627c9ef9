//! CLUSTER SETSLOT: a slot is opened for a move by hand, closed, or given an owner.

use super::change::{execute, slot};
use crate::exec::ctx::ClusterCtx;
use sluice_cluster::{ClusterCommand, HasKeys, SetSlot, SlotAction};
use sluice_commands::{Args, CmdError, Run};

const NO_ACTION: CmdError =
    CmdError::text("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP");

/// The replicas are told with the unit of the command; on them the command comes by the stream.
pub(super) fn setslot(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    if ctx.is_replica && !ctx.session.caller.is_primary() {
        return Err(CmdError::text("ERR Please use SETSLOT only with masters."));
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
    check_timeout(args, rest)?;
    let number = slot.number();
    let holds = (0..ctx.keyspace.databases()).any(|db| ctx.keyspace.db(db).slot_len(number) > 0);
    let keys = if holds { HasKeys::Yes } else { HasKeys::No };
    ctx.effects.force_to_replicas();
    execute(ctx, ClusterCommand::SetSlot(SetSlot { slot, action, keys }))
}

/// The option TIMEOUT (O-2). Unknown words behind the action are passed over, as the reference does.
fn check_timeout(args: Args<'_>, from: usize) -> Result<(), CmdError> {
    let Some(at) = (from..args.len()).find(|at| args.is(*at, "TIMEOUT")) else { return Ok(()) };
    if at + 1 == args.len() {
        return Err(CmdError::text("ERR Missing timeout value"));
    }
    let ms = args.int(at + 1).map_err(|_| CmdError::text("ERR timeout is not an integer or out of range"))?;
    match ms < 0 {
        true => Err(CmdError::text("ERR timeout is negative")),
        false => Ok(()),
    }
}
