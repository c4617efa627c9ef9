//! DEBUG LOADAOF: loads the append-only file again.

use crate::action::Action;
use crate::ctx::DebugCtx;
use crate::persistence::loading::{LoadPlan, LoadPurpose, LoadSource, OldData};
use crate::persistence::saving::JobAsk;
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};
use sluice_snapshot::Duplicates;

/// Writes pending bytes first, then loads the files into new databases, which replace the old ones after
/// all files were loaded.
pub(super) fn load_aof(ctx: &mut DebugCtx<'_>, _: Args<'_>) -> Run {
    if !ctx.may_wait {
        return Err(IN_TRANSACTION);
    }
    if ctx.control.persistence.rewriting.is_first {
        return Err(NO_BASE);
    }
    let mut pending = Vec::new();
    ctx.control.persistence.aof.take(&mut pending);
    let position = ctx.control.persistence.aof.position();
    let files = ctx.process.aof_files(&ctx.control.config, pending, position);
    // A running save would continue with the old data, so it is broken off.
    if ctx.control.persistence.saving.under_way.is_some() {
        ctx.control.persistence.asked.push(JobAsk::BreakSavesOff);
    }
    let purpose = LoadPurpose::Debug(ctx.session.key);
    let plan = LoadPlan::new(purpose, OldData::Freed, Duplicates::Refused);
    let job =
        ctx.control.begin_load(LoadSource::Aof(files, ctx.replay), ctx.data.empty_twin(), plan, ctx.now);
    ctx.actions.push(Action::Load(Box::new(job)));
    Ok(Outcome::Wait(Box::new(WaitFor::Load)))
}

/// A transaction is refused, because its earlier commands are appended only when it ends, so that the loaded
/// file, and thus the data, would lack them.
const IN_TRANSACTION: CmdError = CmdError::text("ERR DEBUG LOADAOF is not allowed in transactions");
const NO_BASE: CmdError = CmdError::text(
    "ERR The append only file was turned on, and the rewrite that makes its first base has not ended yet",
);
