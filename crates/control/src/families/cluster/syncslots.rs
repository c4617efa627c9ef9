//! CLUSTER SYNCSLOTS in the stream of a primary: what a replica hears of slots that move to its primary.
//!
//! Here no server moves slots by itself, and a replica needs nothing of the two ends of a move: the keys come
//! by commands of their own, and those of a move that has failed go by commands of their own, ahead of its
//! FINISH. The keys of a move that is under way are shown like others.

use super::forms::not_yet;
use crate::ctx::ClusterCtx;
use sluice_commands::{Args, Outcome, Run};

pub(super) fn syncslots(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    if !ctx.session.caller.is_primary() {
        return not_yet(ctx, args);
    }
    ctx.effects.force_to_replicas();
    ctx.reply.ok();
    Ok(Outcome::Done)
}
