//! OBJECT: encoding and use of a value.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use sluice_keyspace::{CLOCK_MASK, Entry, lfu_decayed};

pub(super) fn encoding(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    match ctx.db.peek_quietly(args.key(2)) {
        Some(entry) => ctx.reply.bulk(entry.encoding().name().as_bytes()),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

pub(super) fn refcount(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    // The reference count is always 1, because a value belongs to its key.
    number(ctx, args, |_, _| Ok(1))
}

pub(super) fn freq(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    number(ctx, args, |ctx, entry| {
        if !ctx.limits.lfu {
            return Err(CmdError::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        let minutes = (ctx.db.access.now.unix_s() / 60) as u16;
        Ok(i64::from(lfu_decayed(entry.clock(), minutes, ctx.limits.lfu_decay)))
    })
}

pub(super) fn idletime(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    number(ctx, args, |ctx, entry| {
        if ctx.limits.lfu {
            return Err(CmdError::text(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
                 between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        let now = ctx.db.access.now.unix_s() as u32;
        Ok(i64::from(now.wrapping_sub(entry.clock()) & CLOCK_MASK))
    })
}

/// Replies with the number that `of` computes for the key's entry, or with null if the key does not exist.
fn number(
    ctx: &mut ReadCtx<'_>,
    args: Args<'_>,
    of: impl FnOnce(&ReadCtx<'_>, Entry<'_>) -> Result<i64, CmdError>,
) -> Run {
    match ctx.db.peek_quietly(args.key(2)) {
        Some(entry) => {
            let number = of(ctx, entry)?;
            ctx.reply.int(number);
        }
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}
