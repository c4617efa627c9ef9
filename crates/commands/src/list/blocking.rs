//! The commands that wait for a list: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH.
//!
//! Each command first does what its variant without `B` does. If there is nothing to take, it waits for one
//! of its keys and is run again when the key holds a list; where it must not wait, for example in a
//! transaction, it replies as after a timeout. It is replicated as a command that does not wait: LPOP, RPOP,
//! LMOVE or RPOPLPUSH.

use super::ends::{Shape, op_pop};
use super::moving::op_move;
use crate::args::{Args, FirstOfKeys};
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::list::common::Side;
use crate::outcome::{Outcome, Run};
use crate::wait::{BlockOn, WaitFor};
use sluice_base::longdouble::LongDouble;
use sluice_value::Type;
use std::ops::Range;

pub(super) fn blpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    pop_first(ctx, args, Side::Left)
}

pub(super) fn brpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    pop_first(ctx, args, Side::Right)
}

fn pop_first(ctx: &mut WriteCtx<'_>, args: Args<'_>, side: Side) -> Run {
    let last = args.len() - 1;
    let deadline_ms = deadline_ms(ctx, args.at(last))?;
    for index in 1..last {
        let key = args.key(index);
        if !holds_list(ctx, key)? {
            continue;
        }
        ctx.reply.array(2);
        ctx.reply.bulk(key.bytes);
        op_pop(ctx, key, side, Shape::Single)?;
        ctx.db.effects.rewrite(|| vec![side.pop_name().to_vec(), key.bytes.to_vec()]);
        return Ok(Outcome::Done);
    }
    wait(ctx, 1..last, Type::List, deadline_ms)
}

pub(super) fn blmpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let call = FirstOfKeys::parse(args, 2, Side::parse)?;
    let deadline_ms = deadline_ms(ctx, args.at(1))?;
    for index in call.keys.clone() {
        if call.pop(ctx, args.key(index))? {
            return Ok(Outcome::Done);
        }
    }
    wait(ctx, call.keys, Type::List, deadline_ms)
}

pub(super) fn blmove(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (from, to) = (Side::parse(args, 3)?, Side::parse(args, 4)?);
    let deadline_ms = deadline_ms(ctx, args.at(5))?;
    if op_move(ctx, (args.key(1), from), (args.key(2), to))? {
        ctx.db.effects.rewrite(|| {
            let words = [&b"LMOVE"[..], args.at(1), args.at(2), args.at(3), args.at(4)];
            words.map(<[u8]>::to_vec).to_vec()
        });
        return Ok(Outcome::Done);
    }
    wait_for_one(ctx, deadline_ms)
}

pub(super) fn brpoplpush(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let deadline_ms = deadline_ms(ctx, args.at(3))?;
    if op_move(ctx, (args.key(1), Side::Right), (args.key(2), Side::Left))? {
        ctx.db.effects.rewrite(|| [&b"RPOPLPUSH"[..], args.at(1), args.at(2)].map(<[u8]>::to_vec).to_vec());
        return Ok(Outcome::Done);
    }
    wait_for_one(ctx, deadline_ms)
}

/// Whether a key holds a list; an error if it holds another type.
fn holds_list(ctx: &mut WriteCtx<'_>, key: sluice_keyspace::Key<'_>) -> Result<bool, CmdError> {
    match ctx.db.get_uncounted(key) {
        Some(entry) => super::list_of(entry).map(|_| true),
        None => Ok(false),
    }
}

fn wait_for_one(ctx: &mut WriteCtx<'_>, deadline_ms: u64) -> Run {
    if !ctx.may_wait {
        ctx.reply.null();
        return Ok(Outcome::Done);
    }
    wait(ctx, 1..2, Type::List, deadline_ms)
}

/// Waits for a value of a type under one of the keys at these positions. Where the command must not wait, it
/// replies as after a timeout.
pub(crate) fn wait(ctx: &mut WriteCtx<'_>, keys: Range<usize>, wanted: Type, deadline_ms: u64) -> Run {
    if !ctx.may_wait {
        ctx.reply.null_array();
        return Ok(Outcome::Done);
    }
    Ok(Outcome::Wait(Box::new(WaitFor::Keys(BlockOn {
        db: ctx.db.number(),
        first: keys.start,
        count: keys.len(),
        wanted,
        ends_without_key: false,
        deadline_ms,
    }))))
}

/// Parses a timeout in seconds, maybe with a fraction. The result is the time of the monotonic clock, in ms,
/// at which the wait ends; 0 means never. A fraction of a millisecond is rounded up.
pub(crate) fn deadline_ms(ctx: &WriteCtx<'_>, text: &[u8]) -> Result<u64, CmdError> {
    let seconds = LongDouble::parse(text)
        .ok_or(const { CmdError::text("ERR timeout is not a float or out of range") })?;
    let is_negative = text.starts_with(b"-");
    let now = ctx.db.access.now;
    match seconds.ceil_millis() {
        Some(0) => Ok(0),
        Some(ms) if ms > 0 && ms <= i64::MAX - now.unix_ms() => {
            // Rounded up, because a wait must not end early.
            Ok(now.mono_ns.div_ceil(1_000_000).saturating_add(ms.unsigned_abs()))
        }
        _ if is_negative => Err(CmdError::text("ERR timeout is negative")),
        _ => Err(CmdError::text("ERR timeout is out of range")),
    }
}
