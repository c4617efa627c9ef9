//! MODULE: this server has no modules.

use sluice_commands::{Args, CmdError, Outcome, Run, StaticCtx};

pub(crate) fn list(ctx: &mut StaticCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.array(0);
    Ok(Outcome::Done)
}

/// MODULE LOAD and LOADEX, which always fail.
pub(crate) fn load(_: &mut StaticCtx<'_>, _: Args<'_>) -> Run {
    Err(CmdError::text("ERR Error loading the extension: this server has no modules in C"))
}

pub(crate) fn unload(_: &mut StaticCtx<'_>, _: Args<'_>) -> Run {
    Err(CmdError::text("ERR Error unloading module: no such module with that name"))
}
