//! Commands on strings that are numbers.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::common::str_of;
use sluice_base::longdouble::LongDouble;
use sluice_base::num::parse_i64;
use sluice_keyspace::{Event, NewValue, SetExpiry, Str};

const OVERFLOW: CmdError = CmdError::text("ERR increment or decrement would overflow");

pub(super) fn incr(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    add(ctx, args, 1)
}

pub(super) fn decr(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    add(ctx, args, -1)
}

pub(super) fn incrby(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    add(ctx, args, args.int(2)?)
}

pub(super) fn decrby(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let amount = args.int(2)?.checked_neg().ok_or(CmdError::text("ERR decrement would overflow"))?;
    add(ctx, args, amount)
}

#[inline]
fn add(ctx: &mut WriteCtx<'_>, args: Args<'_>, amount: i64) -> Run {
    let sum = ctx.db.update_int(args.key(1), Event::IncrBy, |entry| {
        let old = match entry {
            None => 0,
            Some(entry) => match str_of(entry)? {
                Str::Int(n) => n,
                text => text.in_one_piece(parse_i64).flatten().ok_or(CmdError::NotInteger)?,
            },
        };
        old.checked_add(amount).ok_or(OVERFLOW)
    })?;
    ctx.reply.int(sum);
    Ok(Outcome::Done)
}

pub(super) fn incrbyfloat(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    let old = match ctx.db.get_uncounted(key) {
        Some(entry) => str_of(entry)?.in_one_piece(LongDouble::parse).flatten(),
        None => LongDouble::parse(b"0"),
    };
    let (Some(old), Some(amount)) = (old, LongDouble::parse(args.at(2))) else {
        return Err(CmdError::NotFloat);
    };
    let sum = old + amount;
    if !sum.is_finite() {
        return Err(CmdError::text("ERR increment would produce NaN or Infinity"));
    }
    let mut text = Vec::with_capacity(32);
    sum.push(&mut text);
    ctx.db.set(key, NewValue::Plain(&text), SetExpiry::Keep, Event::IncrByFloat);
    ctx.reply.bulk(&text);
    // The sum is propagated instead of the amount, because other machines and versions may round differently.
    ctx.db.effects.rewrite(|| vec![b"SET".to_vec(), key.bytes.to_vec(), text, b"KEEPTTL".to_vec()]);
    Ok(Outcome::Done)
}
