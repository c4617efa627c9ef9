//! READONLY and READWRITE: a setting of the connection, remembered and shown. Without a cluster it changes
//! nothing, and the reference answers OK as well: tools send READONLY without asking what they talk to.

use crate::ctx::{Handler, Route, SessionCtx, route};
use sluice_command::specs::cluster as specs;
use sluice_commands::{Args, Outcome, Run};

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::READONLY, Handler::Session(readonly)),
    route(&specs::READWRITE, Handler::Session(readwrite)),
];

fn readonly(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    ctx.caller.flags.read_only = true;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn readwrite(ctx: &mut SessionCtx<'_>, _: Args<'_>) -> Run {
    ctx.caller.flags.read_only = false;
    ctx.reply.ok();
    Ok(Outcome::Done)
}
