//! SHUTDOWN.

use crate::action::Action;
use crate::args::Args;
use crate::ctx::{Outcome, Run, ServerCtx};
use crate::error::CmdError;
use crate::process::LogLevel;

/// What is to become of the data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Save {
    /// Saved if there are save points.
    ByConfig,
    /// Saved.
    Yes,
    /// Not saved.
    No,
}

/// Ends the server. A server that goes sends no reply. There is nothing to wait for, no replica and no child, so that no
/// ending is ever under way when ABORT comes.
pub(super) fn shutdown(ctx: &mut ServerCtx<'_>, args: Args<'_>) -> Run {
    let (mut save, mut force, mut abort) = (Save::ByConfig, false, false);
    for i in 1..args.len() {
        match () {
            () if args.is(i, "NOSAVE") && save != Save::Yes => save = Save::No,
            () if args.is(i, "SAVE") && save != Save::No => save = Save::Yes,
            () if args.is(i, "FORCE") => force = true,
            // What they would hurry or demand concerns replicas and clusters, and here nobody is waited for.
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
    let wanted = match save {
        Save::Yes => true,
        Save::ByConfig => !ctx.control.config.save_points().is_empty(),
        Save::No => false,
    };
    if save == Save::Yes && !force {
        ctx.process.log(LogLevel::Warning, REFUSED);
        return Err(CmdError::text("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    if wanted && ctx.keyspace.iter().any(|(_, db)| !db.is_empty()) {
        ctx.process.log(LogLevel::Warning, crate::action::NOTHING_SAVED);
    }
    ctx.actions.push(Action::Shutdown);
    Ok(Outcome::Done)
}

const REFUSED: &str = "SHUTDOWN SAVE is refused: this version keeps its data in memory only, and ending would lose it. \
                       SHUTDOWN NOSAVE ends all the same, and so does FORCE.";
