//! Expiry of fields: the HEXPIRE family, HPERSIST, and the HTTL family.

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::generic::expiry::{Conditions, rounded_seconds, time};
use crate::hash::common::{ActedNames, FieldClock, hash_at};
use crate::outcome::{Outcome, Run};
use crate::string::ExpiryUnit;
use sluice_keyspace::{Argv, Event, ExpiryMode};

/// The error if the number after FIELDS is not the number of fields given.
pub(super) const FIELD_COUNT: CmdError =
    CmdError::text("ERR numfields should be greater than 0 and match the provided number of fields");

/// The fields given in a command, after the word FIELDS and their number.
pub(super) struct NamedFields {
    /// Index of the word FIELDS among the arguments.
    pub word: usize,
    /// Index of the first field among the arguments.
    pub first: usize,
}

impl NamedFields {
    /// Finds the word FIELDS, from the argument at `from` on.
    pub(super) fn find(args: Args<'_>, from: usize) -> Result<NamedFields, CmdError> {
        let word = (from..args.len() - 1).find(|index| args.is(*index, "FIELDS")).ok_or(FIELD_COUNT)?;
        Ok(NamedFields { word, first: word + 2 })
    }

    /// Reads the word FIELDS, which must be at this index.
    fn at(args: Args<'_>, word: usize) -> Result<NamedFields, CmdError> {
        if args.is(word, "FIELDS") {
            Ok(NamedFields { word, first: word + 2 })
        } else {
            Err(CmdError::Syntax)
        }
    }

    /// Checks the number of fields against the arguments; `each` is the number of arguments for each field.
    pub(super) fn check(&self, args: Args<'_>, each: usize, error: CmdError) -> Result<(), CmdError> {
        let count = args.int(self.first - 1)?;
        let there = args.len().saturating_sub(self.first);
        let fits = usize::try_from(count).ok().and_then(|count| count.checked_mul(each)) == Some(there);
        if fits && there > 0 { Ok(()) } else { Err(error) }
    }
}

pub(super) fn hexpire(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::Seconds)
}

pub(super) fn hpexpire(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::Ms)
}

pub(super) fn hexpireat(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::AtSeconds)
}

pub(super) fn hpexpireat(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    expire_by(ctx, args, ExpiryUnit::AtMs)
}

/// Whether a new expiry has passed already. Always false while expired fields are not deleted, for
/// example on a replica or in import mode.
pub(super) fn has_passed(ctx: &WriteCtx<'_>, at_ms: i64) -> bool {
    ctx.db.access.expiry == ExpiryMode::Delete && at_ms <= ctx.db.access.now.unix_ms()
}

fn expire_by(ctx: &mut WriteCtx<'_>, args: Args<'_>, unit: ExpiryUnit) -> Run {
    let fields = NamedFields::find(args, 3)?;
    let conditions = Conditions::parse(args, 3..fields.word)?;
    fields.check(args, 1, FIELD_COUNT)?;
    let amount = args.int(2)?;
    let at = Some(amount).filter(|amount| *amount >= 0);
    let at = at.and_then(|amount| time(amount, unit, ctx.db.access.now.unix_ms()));
    let at = at.ok_or(CmdError::InvalidExpire(ctx.spec.full_name))?;
    let clock = FieldClock::of(&ctx.db.access);
    let passed = has_passed(ctx, at);
    let is_told = ctx.db.effects.propagating;
    let Some(mut edit) = ctx.db.edit_hash(args.key(1), ctx.limits.hash)? else {
        return reply_all(ctx, args, &fields, NO_FIELD);
    };
    ctx.reply.array(args.len() - fields.first);
    let all_live = clock.all_live(edit.value().view());
    let (mut set, mut deleted) = (ActedNames::new(is_told && !all_live), ActedNames::new(is_told));
    for name in args.iter_from(fields.first) {
        let (hash, context) = edit.parts();
        let answer = match clock.get(hash.view(), name) {
            None => NO_FIELD,
            Some(field) if !conditions.allow(field.expiry, at) => 0,
            Some(_) if passed => {
                hash.remove(name, context);
                deleted.push(name);
                DELETED
            }
            Some(_) => {
                hash.set_expiry(name, Some(at), context);
                set.push(name);
                1
            }
        };
        ctx.reply.int(answer);
    }
    if set.count() > 0 {
        edit.done(Event::HExpire, set.count());
        ctx.db.effects.rewrite(|| match all_live {
            true => hpexpireat_argv(args, at),
            false => expiry_argv(args, Some(at), set.names()),
        });
    } else if deleted.count() > 0 {
        edit.done(Event::HExpired, deleted.count());
        ctx.db.effects.count_fields_deleted(deleted.count());
        ctx.db.effects.rewrite(|| hdel_argv(args, deleted.names()));
    } else {
        edit.unchanged();
    }
    Ok(Outcome::Done)
}

/// The command rewritten as HPEXPIREAT, so that the delay of propagation does not matter.
fn hpexpireat_argv(args: Args<'_>, at_ms: i64) -> Argv {
    let mut argv = vec![b"HPEXPIREAT".to_vec(), args.at(1).to_vec(), at_ms.to_string().into_bytes()];
    argv.extend(args.iter_from(3).map(<[u8]>::to_vec));
    argv
}

/// The command that changes the expiry of these fields only. A replica still has the fields that have expired
/// here, and a command that names those fields would revive them.
pub(super) fn expiry_argv(args: Args<'_>, at: Option<i64>, names: &[&[u8]]) -> Argv {
    let mut argv = match at {
        Some(at) => vec![b"HPEXPIREAT".to_vec(), args.at(1).to_vec(), at.to_string().into_bytes()],
        None => vec![b"HPERSIST".to_vec(), args.at(1).to_vec()],
    };
    argv.extend([b"FIELDS".to_vec(), names.len().to_string().into_bytes()]);
    argv.extend(names.iter().map(|name| name.to_vec()));
    argv
}

/// HDEL of some fields.
pub(super) fn hdel_argv(args: Args<'_>, names: &[&[u8]]) -> Argv {
    let mut argv = vec![b"HDEL".to_vec(), args.at(1).to_vec()];
    argv.extend(names.iter().map(|name| name.to_vec()));
    argv
}

/// Replies with the same number for every field.
fn reply_all(ctx: &mut WriteCtx<'_>, args: Args<'_>, fields: &NamedFields, answer: i64) -> Run {
    ctx.reply.array(args.len() - fields.first);
    args.iter_from(fields.first).for_each(|_| ctx.reply.int(answer));
    Ok(Outcome::Done)
}

pub(super) fn hpersist(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let fields = NamedFields::at(args, 2)?;
    fields.check(args, 1, FIELD_COUNT)?;
    let clock = FieldClock::of(&ctx.db.access);
    let is_told = ctx.db.effects.propagating;
    let Some(mut edit) = ctx.db.edit_hash(args.key(1), ctx.limits.hash)? else {
        return reply_all(ctx, args, &fields, NO_FIELD);
    };
    ctx.reply.array(args.len() - fields.first);
    let all_live = clock.all_live(edit.value().view());
    let mut changed = ActedNames::new(is_told && !all_live);
    for name in args.iter_from(fields.first) {
        let (hash, context) = edit.parts();
        let answer = match clock.get(hash.view(), name).map(|field| field.expiry) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(_)) => {
                hash.set_expiry(name, None, context);
                changed.push(name);
                1
            }
        };
        ctx.reply.int(answer);
    }
    if changed.count() == 0 {
        edit.unchanged();
    } else {
        edit.done(Event::HPersist, changed.count());
        if !all_live {
            ctx.db.effects.rewrite(|| expiry_argv(args, None, changed.names()));
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn httl(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiries(ctx, args, |at, now_ms| rounded_seconds(at.saturating_sub(now_ms).max(0)))
}

pub(super) fn hpttl(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiries(ctx, args, |at, now_ms| at.saturating_sub(now_ms).max(0))
}

pub(super) fn hexpiretime(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiries(ctx, args, |at, _| rounded_seconds(at))
}

pub(super) fn hpexpiretime(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_expiries(ctx, args, |at, _| at)
}

/// Replies with the number that `of` computes from each field's expiry and the time.
fn reply_expiries(ctx: &mut ReadCtx<'_>, args: Args<'_>, of: impl Fn(i64, i64) -> i64) -> Run {
    let fields = NamedFields::at(args, 2)?;
    fields.check(args, 1, CmdError::Syntax)?;
    let clock = FieldClock::of(&ctx.db.access);
    let now_ms = ctx.db.access.now.unix_ms();
    let hash = hash_at(ctx, args)?;
    ctx.reply.array(args.len() - fields.first);
    for name in args.iter_from(fields.first) {
        let answer = match hash.and_then(|hash| clock.get(hash, name)).map(|field| field.expiry) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(at)) => of(at, now_ms),
        };
        ctx.reply.int(answer);
    }
    Ok(Outcome::Done)
}

/// Reply for a field that does not exist.
const NO_FIELD: i64 = -2;
/// Reply for a field without an expiry.
const NO_EXPIRY: i64 = -1;
/// Reply for a field that was deleted because its new expiry has passed.
const DELETED: i64 = 2;
