//! What several files of this family use: arguments, look-ups, replies.

use crate::ctx::DebugCtx;
use sluice_commands::{Outcome, Run};

pub(crate) fn ok(ctx: &mut DebugCtx<'_>) -> Run {
    ctx.reply.ok();
    Ok(Outcome::Done)
}
