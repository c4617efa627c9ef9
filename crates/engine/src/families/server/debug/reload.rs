//! DEBUG RELOAD: the data saved and loaded again.

use crate::args::Args;
use crate::ctx::{DebugCtx, Run};
use crate::error::CmdError;
use crate::loading::{self, Duplicates};
use crate::process::LogLevel;
use crate::saving;
use sluice_config::param;

/// The file is loaded into databases of its own, which take the place of the old ones when the file was good to its end:
/// nothing is lost to one that is not. NOFLUSH loads into the databases that are there.
pub(super) fn reload(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let (mut saves, mut empties, mut duplicates) = (true, true, Duplicates::Refused);
    for i in 2..args.len() {
        match () {
            () if args.is(i, "MERGE") => duplicates = Duplicates::Replace,
            () if args.is(i, "NOFLUSH") => empties = false,
            () if args.is(i, "NOSAVE") => saves = false,
            () => return Err(UNKNOWN_OPTION),
        }
    }
    if saves {
        saving::save(ctx.data.keyspace(), ctx.control, ctx.process).map_err(|_| CmdError::text("ERR"))?;
    }
    let name = ctx.control.config.bytes(param::DBFILENAME).to_vec();
    let opened = ctx.process.open_snapshot(&name).unwrap_or_else(|reason| {
        let text = format!("Opening the RDB file {} failed: {reason}", name.escape_ascii());
        ctx.process.log(LogLevel::Warning, &text);
        None
    });
    let mut source = opened.ok_or(NOT_LOADED)?;
    let mut go_on = || true;
    let brought = if empties {
        let mut fresh = ctx.data.empty_twin();
        let loaded =
            loading::load(source.as_mut(), &mut fresh, ctx.control, duplicates, ctx.process, &mut go_on);
        let brought = loaded.map_err(|_| NOT_LOADED)?;
        ctx.data.replace(fresh);
        // Replicas keep what they have: to them nothing happened.
        ctx.data.effects.do_not_propagate();
        ctx.control.kept = brought.kept;
        brought.counts
    } else {
        let keyspace = ctx.data.keyspace_mut();
        let loaded =
            loading::load(source.as_mut(), keyspace, ctx.control, duplicates, ctx.process, &mut go_on);
        let brought = loaded.map_err(|_| NOT_LOADED)?;
        ctx.control.kept.merge(brought.kept);
        brought.counts
    };
    ctx.control.note_loaded(brought);
    ctx.process.log(LogLevel::Notice, "DB reloaded by DEBUG RELOAD");
    super::ok(ctx)
}

const UNKNOWN_OPTION: CmdError =
    CmdError::text("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
const NOT_LOADED: CmdError = CmdError::text("ERR Error trying to load the RDB dump, check server logs.");
