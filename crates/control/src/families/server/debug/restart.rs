//! DEBUG RESTART and CRASH-AND-RECOVER: the process replaces itself, with its original arguments.

use crate::action::{Action, Crash};
use crate::ctx::DebugCtx;
use crate::families::server::config::rewrite_file;
use crate::persistence::ending::EndOrder;
use crate::persistence::saving::{self, Ending};
use sluice_base::LogLevel;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_config::Force;

/// Rewrites the configuration file, saves as at every shutdown, and ends: the client gets no reply.
pub(super) fn in_order(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    let delay_ms = delay_ms(args)?;
    // A server started without a configuration file has nothing to rewrite.
    let facts = ctx.process.facts(ctx.data.keyspace());
    if !facts.config_file.is_empty()
        && let Err(reason) = rewrite_file(ctx.control, ctx.process, Force::Changed)
    {
        let reason = String::from_utf8_lossy(&reason.wire()).into_owned();
        ctx.process.log(LogLevel::Warning, &format!("Can't restart: {reason}"));
        return Err(FAILED);
    }
    let order = EndOrder { at_once: true, ..EndOrder::new(Ending::ByConfig, false) };
    if !saving::in_place::prepare_end(&order, ctx.data.keyspace(), ctx.control, ctx.process) {
        return Err(FAILED);
    }
    ctx.actions.push(Action::Restart(delay_ms));
    Ok(Outcome::Done)
}

/// Replaces the process without saving. During the delay connections stay open, and threads that
/// write files finish.
pub(super) fn at_once(ctx: &mut DebugCtx<'_>, args: Args<'_>) -> Run {
    ctx.actions.push(Action::Crash(Crash::Recover(delay_ms(args)?)));
    Ok(Outcome::Done)
}

fn delay_ms(args: Args<'_>) -> Result<u64, CmdError> {
    match args.len() {
        // A negative delay counts as none.
        3 => Ok(u64::try_from(args.int(2)?).unwrap_or(0)),
        _ => Ok(0),
    }
}

const FAILED: CmdError = CmdError::text("ERR failed to restart the server. Check server logs.");
