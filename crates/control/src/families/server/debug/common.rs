//! Helpers shared by the subcommands of DEBUG: two replies, and the parsing of a switch.

use crate::ctx::DebugCtx;
use sluice_commands::{Args, CmdError, Outcome, Run};

pub(crate) fn ok(ctx: &mut DebugCtx<'_>) -> Run {
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(crate) fn unknown(args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(sluice_commands::shown(args.at(1), 128));
    text.extend_from_slice(b"'. Try DEBUG HELP.");
    CmdError::owned(text)
}

/// The argument as a switch: only a number other than 0 is on, as in the reference.
pub(crate) fn switch(args: Args<'_>, index: usize) -> bool {
    args.int(index).is_ok_and(|n| n != 0)
}
