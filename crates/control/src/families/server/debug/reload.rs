//! DEBUG RELOAD: saves the data and loads it again.

use crate::action::Action;
use crate::ctx::DebugCtx;
use crate::persistence::loading::{LoadPlan, LoadPurpose, LoadSource, NOT_RELOADED, OldData};
use crate::persistence::saving;
use crate::persistence::saving::JobAsk;
use crate::process::Process;
use sluice_base::Now;
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor};
use sluice_config::param;
use sluice_snapshot::{Duplicates, LoadThread};

/// Loads the file into new databases. Outside of a transaction, the old databases are freed once the file's
/// header is known to be valid. NOFLUSH loads into the present databases.
pub(super) fn reload(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let (mut saves, mut old, mut duplicates) = (true, OldData::Freed, Duplicates::Refused);
    for i in 2..args.len() {
        match () {
            () if args.is(i, "MERGE") => duplicates = Duplicates::Replace,
            () if args.is(i, "NOFLUSH") => old = OldData::Filled,
            () if args.is(i, "NOSAVE") => saves = false,
            () => return Err(UNKNOWN_OPTION),
        }
    }
    // With NOFLUSH the data goes to the load's thread, which is impossible while a background job (a save, a
    // rewrite, or a snapshot for replicas) writes the data. Without NOFLUSH the data will be freed, so a save
    // in progress may be broken off.
    if old == OldData::Filled && ctx.control.persistence.is_writing {
        return Err(CmdError::text("ERR Background save already in progress"));
    }
    if saves {
        saving::in_place::save(ctx.data.keyspace(), ctx.control, ctx.process)
            .map_err(|_| CmdError::text("ERR"))?;
    }
    // A running background save is broken off only after the save above, because the background save
    // continues if that save fails.
    if ctx.control.persistence.saving.under_way.is_some() {
        ctx.control.persistence.asked.push(JobAsk::BreakSavesOff);
    }
    let name = ctx.control.config.bytes(param::DBFILENAME).to_vec();
    let source = ctx.process.snapshot_source(&name);
    let empty = ctx.data.empty_twin();
    let keyspace = match old {
        OldData::Freed | OldData::Kept => empty,
        OldData::Filled => std::mem::replace(ctx.data.keyspace_mut(), empty),
    };
    let plan = LoadPlan::new(LoadPurpose::Debug(ctx.session.key), old, duplicates);
    let job = ctx.control.begin_load(LoadSource::Snapshot(source), keyspace, plan, ctx.now);
    if ctx.may_wait {
        ctx.actions.push(Action::Load(Box::new(job)));
        return Ok(Outcome::Wait(Box::new(WaitFor::Load)));
    }
    // In a transaction the load runs here while all clients wait; the old data stays until the new
    // data is loaded.
    job.run(&mut Here(ctx.process));
    let loaded = ctx.control.end_load_here(&mut ctx.data, ctx.process);
    ctx.data.effects.do_not_propagate();
    loaded.map_err(|_| NOT_RELOADED)?;
    super::ok(ctx)
}

/// Runs a load on the main thread, in place of a thread of its own.
struct Here<'a>(&'a mut dyn Process);

impl LoadThread for Here<'_> {
    fn wake(&mut self) {}

    fn sleep(&mut self, microseconds: u64) {
        self.0.sleep(microseconds);
    }

    fn now(&mut self) -> Now {
        self.0.now()
    }
}

const UNKNOWN_OPTION: CmdError =
    CmdError::text("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
