//! DEBUG LOADAOF: the append-only file loaded again.

use crate::action::Action;
use crate::ctx::DebugCtx;
use crate::persistence::loading::{LoadPlan, LoadPurpose, LoadSource, OldData};
use crate::persistence::saving::JobAsk;
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};
use sluice_snapshot::Duplicates;

/// What was appended is written first. The files are loaded into databases of their own, which take the place
/// of the old ones when all of them were loaded.
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
    // What a save captures from here on would be the old data.
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

/// The transaction's own commands are appended behind it, and would be missing in the data.
const IN_TRANSACTION: CmdError = CmdError::text("ERR DEBUG LOADAOF is not allowed in transactions");
const NO_BASE: CmdError = CmdError::text(
    "ERR The append only file was turned on, and the rewrite that makes its first base has not ended yet",
);
