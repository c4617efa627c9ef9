//! HOTKEYS, as in version 9.2 of the reference.

use crate::ctx::LogCtx;
use sluice_commands::{Args, Outcome, Run};

pub(super) fn get(ctx: &mut LogCtx<'_>, _: Args<'_>) -> Run {
    ctx.hot_keys.end_window(ctx.now.mono_ns);
    let keys = ctx.hot_keys.hottest();
    ctx.reply.array(keys.len());
    for key in keys {
        ctx.reply.map(3);
        ctx.reply.bulk(b"key");
        ctx.reply.bulk(key.name);
        ctx.reply.bulk(b"db");
        ctx.reply.int(i64::try_from(key.db).unwrap_or(i64::MAX));
        ctx.reply.bulk(b"qps");
        ctx.reply.int(i64::try_from(key.per_second).unwrap_or(i64::MAX));
    }
    Ok(Outcome::Done)
}

pub(super) fn reset(ctx: &mut LogCtx<'_>, _: Args<'_>) -> Run {
    ctx.hot_keys.forget(ctx.now.mono_ns);
    ctx.reply.ok();
    Ok(Outcome::Done)
}
