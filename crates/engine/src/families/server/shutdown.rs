//! SHUTDOWN.

use crate::action::Action;
use crate::args::Args;
use crate::ctx::{Outcome, Run, ServerCtx};
use crate::error::CmdError;
use crate::saving::{self, Ending};

/// Ends the server. A server that goes sends no reply. There is nothing to wait for, no replica and no child, so that no
/// ending is ever under way when ABORT comes.
pub(super) fn shutdown(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let (mut ending, mut force, mut abort) = (Ending::ByConfig, false, false);
    for i in 1..args.len() {
        match () {
            () if args.is(i, "NOSAVE") && ending != Ending::Save => ending = Ending::NoSave,
            () if args.is(i, "SAVE") && ending != Ending::NoSave => ending = Ending::Save,
            () if args.is(i, "FORCE") => force = true,
            // These words are about waiting for replicas, and about clusters. SHUTDOWN waits for no replica here.
            () if ["NOW", "SAFE", "FAILOVER"].iter().any(|word| args.is(i, word)) => {}
            () if args.is(i, "ABORT") => abort = true,
            () => return Err(CmdError::Syntax),
        }
    }
    if abort {
        return Err(match args.len() {
            2 => CmdError::text("ERR No shutdown in progress."),
            _ => CmdError::Syntax,
        });
    }
    if !saving::prepare_end(ending, force, ctx.keyspace, ctx.control, ctx.process) {
        return Err(CmdError::text("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    ctx.actions.push(Action::Shutdown);
    Ok(Outcome::Done)
}
