//! HSET, HMSET, HSETNX, HDEL, HINCRBY and HINCRBYFLOAT.

use super::expiry::hdel_argv;
use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::hash::common::{ActedNames, FieldClock, int_of};
use crate::outcome::{Outcome, Run};
use sluice_base::longdouble::LongDouble;
use sluice_base::num::IntBuffer;
use sluice_keyspace::{Argv, Event, HashEdit};
use sluice_value::HashExpiry;

pub(super) fn hset(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let added = set_pairs(ctx, args)?;
    ctx.reply.int(added);
    Ok(Outcome::Done)
}

pub(super) fn hmset(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    set_pairs(ctx, args)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Stores the pairs of a command; the result is the number of new fields.
fn set_pairs(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Result<i64, CmdError> {
    if args.len() % 2 == 1 {
        return Err(CmdError::Arity(ctx.spec.full_name));
    }
    let clock = FieldClock::of(&ctx.db.access);
    let mut edit = ctx.db.edit_or_create_hash(args.key(1), ctx.limits.hash)?;
    before_adding(&mut edit, args, 2);
    let (mut added, mut met_expired) = (0, 0);
    for group in args.member_groups(2, 2) {
        edit.value().view().prefetch_group(group.clone().map(|at| args.at(at)));
        for at in group {
            let (name, value) = (args.at(at), args.at(at + 1));
            let (is_new, expired) = set_field(&mut edit, clock, name, value, HashExpiry::Clear);
            added += i64::from(is_new);
            met_expired += u64::from(expired);
        }
    }
    edit.met_expired(met_expired);
    edit.done(Event::HSet, (args.len() as u64 - 2) / 2);
    Ok(added)
}

/// Prepares the hash for the pairs from argument `first` on: see
/// [`sluice_value::Hash::convert_before_adding`].
pub(super) fn before_adding(edit: &mut HashEdit<'_>, args: Args<'_>, first: usize) {
    let (hash, context) = edit.parts();
    let texts = args.iter_from(first);
    let count = texts.len() / 2;
    hash.convert_before_adding(count, texts.map(<[u8]>::len).max().unwrap_or(0), context.limits);
}

/// Stores a field; the result is whether the field is new for clients, and whether it replaced an expired
/// field.
pub(super) fn set_field(
    edit: &mut HashEdit<'_>,
    clock: FieldClock,
    name: &[u8],
    value: &[u8],
    expiry: HashExpiry,
) -> (bool, bool) {
    let (hash, context) = edit.parts();
    // The old field is looked up only if a field may have expired; most hashes have no field with an expiry.
    let expired = !clock.all_live(hash.view())
        && hash.view().get(name).is_some_and(|field| field.is_expired(clock.now_ms));
    let expiry = if expired && expiry == HashExpiry::Keep { HashExpiry::Clear } else { expiry };
    let is_new = hash.set(name, value, expiry, context);
    (is_new || expired, expired)
}

pub(super) fn hsetnx(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let mut edit = ctx.db.edit_or_create_hash(args.key(1), ctx.limits.hash)?;
    if clock.get(edit.value().view(), args.at(2)).is_some() {
        edit.unchanged();
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    }
    before_adding(&mut edit, args, 2);
    let (_, expired) = set_field(&mut edit, clock, args.at(2), args.at(3), HashExpiry::Clear);
    edit.met_expired(u64::from(expired));
    edit.done(Event::HSet, 1);
    if expired {
        // HSETNX is propagated as HSET, because a replica may still have the field that has expired here.
        ctx.db.effects.rewrite(|| hset_argv(args.at(1), args.at(2), args.at(3), None));
    }
    ctx.reply.int(1);
    Ok(Outcome::Done)
}

/// The command that stores a value under a field with the given expiry, if any.
fn hset_argv(key: &[u8], name: &[u8], value: &[u8], expiry: Option<i64>) -> Argv {
    let mut argv = match expiry {
        None => vec![b"HSET".to_vec(), key.to_vec()],
        Some(at) => {
            let at = at.to_string().into_bytes();
            vec![b"HSETEX".to_vec(), key.to_vec(), b"PXAT".to_vec(), at, b"FIELDS".to_vec(), b"1".to_vec()]
        }
    };
    argv.extend([name.to_vec(), value.to_vec()]);
    argv
}

pub(super) fn hdel(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let is_told = ctx.db.effects.propagating;
    let Some(mut edit) = ctx.db.edit_hash(args.key(1), ctx.limits.hash)? else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    let (hash, context) = edit.parts();
    let all_live = clock.all_live(hash.view());
    // An expired field is absent for the client, and is left to the expiry cycle, which propagates its
    // deletion. The command is propagated without that field. A replica that deleted the field, too, could
    // empty the hash, and so delete a key that still exists here.
    let mut living = ActedNames::new(is_told);
    let removed = match all_live {
        true => hash.remove_each(args.iter_from(2), context) as u64,
        false => {
            let is_removed =
                |name: &&[u8]| clock.get(hash.view(), name).is_some() && hash.remove(name, context);
            args.iter_from(2).filter(is_removed).for_each(|name| living.push(name));
            living.count()
        }
    };
    match removed {
        0 => edit.unchanged(),
        removed => {
            edit.done(Event::HDel, removed);
            if !all_live {
                ctx.db.effects.rewrite(|| hdel_argv(args, living.names()));
            }
        }
    }
    ctx.reply.int(removed as i64);
    Ok(Outcome::Done)
}

pub(super) fn hincrby(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let amount = args.int(3)?;
    let clock = FieldClock::of(&ctx.db.access);
    let edit = ctx.db.edit_or_create_hash(args.key(1), ctx.limits.hash)?;
    let sum = match clock.get(edit.value().view(), args.at(2)) {
        None => Ok(amount),
        Some(field) => match int_of(field.value) {
            None => Err(CmdError::text("ERR hash value is not an integer")),
            Some(old) => {
                old.checked_add(amount).ok_or(CmdError::text("ERR increment or decrement would overflow"))
            }
        },
    };
    let sum = match sum {
        Ok(sum) => sum,
        Err(error) => {
            edit.unchanged();
            return Err(error);
        }
    };
    let mut buffer = IntBuffer::new();
    let text = buffer.format(sum);
    store_number((edit, clock), args, text, Event::HIncrBy).propagate(ctx, args, text, FloatResult::Integer);
    ctx.reply.int(sum);
    Ok(Outcome::Done)
}

/// Whether every replica that executes the command would compute the same number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FloatResult {
    Integer,
    Float,
}

/// A stored number: the expiry of its field, and whether the field had expired before.
struct StoredNumber {
    expiry: Option<i64>,
    expired: bool,
}

fn store_number(
    (mut edit, clock): (HashEdit<'_>, FieldClock),
    args: Args<'_>,
    text: &[u8],
    event: Event,
) -> StoredNumber {
    let (_, expired) = set_field(&mut edit, clock, args.at(2), text, HashExpiry::Keep);
    let expiry = edit.value().view().get(args.at(2)).and_then(|field| field.expiry);
    edit.met_expired(u64::from(expired));
    edit.done(event, 1);
    StoredNumber { expiry, expired }
}

impl StoredNumber {
    /// Propagates the sum instead of the amount if a replica may compute another sum, because machines and
    /// versions round differently, and because a replica may still have a field that has expired here.
    fn propagate(self, ctx: &mut WriteCtx<'_>, args: Args<'_>, text: &[u8], exact: FloatResult) {
        if exact == FloatResult::Float || self.expired || self.expiry.is_some() {
            ctx.db.effects.rewrite(|| hset_argv(args.at(1), args.at(2), text, self.expiry));
        }
    }
}

pub(super) fn hincrbyfloat(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let amount = LongDouble::parse(args.at(3)).ok_or(CmdError::NotFloat)?;
    if !amount.is_finite() {
        return Err(CmdError::text("ERR value is NaN or Infinity"));
    }
    let clock = FieldClock::of(&ctx.db.access);
    let edit = ctx.db.edit_or_create_hash(args.key(1), ctx.limits.hash)?;
    let old = match clock.get(edit.value().view(), args.at(2)) {
        None => LongDouble::parse(b"0"),
        Some(field) => LongDouble::parse(field.value.bytes(&mut IntBuffer::new())),
    };
    let error = match old.map(|old| old + amount) {
        Some(sum) if sum.is_finite() => {
            let mut text = Vec::with_capacity(32);
            sum.push(&mut text);
            store_number((edit, clock), args, &text, Event::HIncrByFloat).propagate(
                ctx,
                args,
                &text,
                FloatResult::Float,
            );
            ctx.reply.bulk(&text);
            return Ok(Outcome::Done);
        }
        Some(_) => CmdError::text("ERR increment would produce NaN or Infinity"),
        None => CmdError::text("ERR hash value is not a float"),
    };
    edit.unchanged();
    Err(error)
}
