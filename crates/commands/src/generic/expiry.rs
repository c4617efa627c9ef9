//! Expiry of keys: the EXPIRE family, PERSIST, and the TTL family.

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::ExpiryUnit;
use sluice_keyspace::{Argv, Event, ExpiryMode};
use std::ops::Range;

pub(super) fn expire(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::Seconds)
}

pub(super) fn pexpire(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::Ms)
}

pub(super) fn expireat(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::AtSeconds)
}

pub(super) fn pexpireat(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::AtMs)
}

fn expire_by(ctx: &mut WriteCtx<'_>, args: Args<'_>, unit: ExpiryUnit) -> Run {
    let key = args.key(1);
    let conditions = Conditions::parse(args, 3..args.len())?;
    let now_ms = ctx.db.access.now.unix_ms();
    let at = time(args.int(2)?, unit, now_ms).ok_or(CmdError::InvalidExpire(ctx.spec.full_name))?;
    let Some(entry) = ctx.db.get_uncounted(key) else { return answer(ctx, false) };
    if !conditions.allow(entry.expiry(), at) {
        return answer(ctx, false);
    }
    if at <= now_ms && ctx.db.access.expiry == ExpiryMode::Delete {
        ctx.db.expire_now(key);
        return answer(ctx, true);
    }
    // A time before the epoch is possible here only while expired keys are not deleted, as in import mode.
    // The time 0 has the same effect.
    let at = at.max(0);
    ctx.db.set_expiry(key, Some(at), Event::Expire);
    if unit != ExpiryUnit::AtMs {
        ctx.db.effects.rewrite(|| pexpireat_argv(args, at));
    }
    answer(ctx, true)
}

fn answer(ctx: &mut WriteCtx<'_>, done: bool) -> Run {
    ctx.reply.int(i64::from(done));
    Ok(Outcome::Done)
}

/// The command rewritten as PEXPIREAT, so that the delay of propagation does not matter.
fn pexpireat_argv(args: Args<'_>, at_ms: i64) -> Argv {
    let mut argv = vec![b"PEXPIREAT".to_vec(), args.at(1).to_vec(), at_ms.to_string().into_bytes()];
    argv.extend(args.iter_from(3).map(<[u8]>::to_vec));
    argv
}

/// The time given by `amount`, in ms since the epoch; the time may be in the past. `None` if it does not fit
/// 64 bits.
pub(crate) fn time(amount: i64, unit: ExpiryUnit, now_ms: i64) -> Option<i64> {
    match unit {
        ExpiryUnit::Seconds => amount.checked_mul(1000)?.checked_add(now_ms),
        ExpiryUnit::Ms => amount.checked_add(now_ms),
        ExpiryUnit::AtSeconds => amount.checked_mul(1000),
        ExpiryUnit::AtMs => Some(amount),
    }
}

/// The options NX, XX, GT and LT of the EXPIRE and HEXPIRE families.
#[derive(Clone, Copy, Default)]
pub(crate) struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    /// Reads the options in a range of the arguments.
    pub(crate) fn parse(args: Args<'_>, range: Range<usize>) -> Result<Conditions, CmdError> {
        let mut this = Conditions::default();
        for i in range {
            let flag = if args.is(i, "NX") {
                &mut this.nx
            } else if args.is(i, "XX") {
                &mut this.xx
            } else if args.is(i, "GT") {
                &mut this.gt
            } else if args.is(i, "LT") {
                &mut this.lt
            } else {
                return Err(CmdError::owned(
                    [&b"ERR Unsupported option "[..], crate::error::shown(args.at(i), usize::MAX)].concat(),
                ));
            };
            *flag = true;
        }
        if this.nx && (this.xx || this.gt || this.lt) {
            return Err(CmdError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if this.gt && this.lt {
            return Err(CmdError::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(this)
    }

    /// Whether `at` may replace `current`. A key or field without an expiry lives for ever, which is later
    /// than any time.
    pub(crate) fn allow(self, current: Option<i64>, at: i64) -> bool {
        !(self.nx && current.is_some()
            || self.xx && current.is_none()
            || self.gt && current.is_none_or(|current| at <= current)
            || self.lt && current.is_some_and(|current| at >= current))
    }
}

pub(super) fn persist(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    let expires = ctx.db.get_uncounted(key).is_some_and(|entry| entry.expiry().is_some());
    if expires {
        ctx.db.set_expiry(key, None, Event::Persist);
    }
    answer(ctx, expires)
}

pub(super) fn ttl(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiry(ctx, args, |at, now_ms| rounded_seconds(at.saturating_sub(now_ms).max(0)))
}

pub(super) fn pttl(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiry(ctx, args, |at, now_ms| at.saturating_sub(now_ms).max(0))
}

pub(super) fn expiretime(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiry(ctx, args, |at, _| rounded_seconds(at))
}

pub(super) fn pexpiretime(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiry(ctx, args, |at, _| at)
}

/// Replies with the number that `of` computes from the key's expiry and the time: -1 without an expiry,
/// -2 without a key.
#[inline]
fn reply_expiry(ctx: &mut ReadCtx<'_>, args: Args<'_>, of: impl FnOnce(i64, i64) -> i64) -> Run {
    let now_ms = ctx.db.access.now.unix_ms();
    let number = match ctx.db.peek(args.key(1)).map(|entry| entry.expiry()) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => of(at, now_ms),
    };
    ctx.reply.int(number);
    Ok(Outcome::Done)
}

/// Rounds to the nearest second, halves up. `ms` must not be negative.
pub(crate) fn rounded_seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}
