//! SET and its older variants.

use super::options::{Condition, ExpiryOption, ExpiryUnit, Options, OptionsOf, expiry_at, has_passed};
use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::common::{reply_str, str_of};
use sluice_base::Bytes;
use sluice_command::is_word;
use sluice_keyspace::{Argv, Event, Key, NewValue, SetExpiry};

pub(super) fn set(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    if args.len() == 3 {
        match args.shared(2) {
            None => ctx.db.set(args.key(1), NewValue::Str(args.at(2)), SetExpiry::Clear, Event::Set),
            Some(bytes) => set_shared(ctx, args.key(1), bytes),
        };
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    let options = Options::parse(args, 3, OptionsOf::Set)?;
    let at = options.expiry.at(args, ctx.db.access.now.unix_ms(), "set")?;
    let stores = look_before(ctx, args, options)?;
    if stores {
        store(ctx, args, options, at);
    }
    match (options.get, stores) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

/// Sets a large value. Not inlined, because small values are more frequent.
#[cold]
#[inline(never)]
fn set_shared(ctx: &mut WriteCtx<'_>, key: Key<'_>, value: &Bytes) -> bool {
    ctx.db.set(key, NewValue::StrShared(value), SetExpiry::Clear, Event::Set)
}

/// Whether the condition is true. With GET, replies with the old value.
fn look_before(ctx: &mut WriteCtx<'_>, args: Args<'_>, options: Options<'_>) -> Result<bool, CmdError> {
    if !options.get && options.condition == Condition::Always {
        return Ok(true);
    }
    let key = args.key(1);
    let found = if options.get { ctx.db.get(key) } else { ctx.db.look(key) };
    if options.get {
        match found {
            Some(entry) => reply_str(&mut ctx.reply, str_of(entry)?),
            None => ctx.reply.null(),
        }
    }
    Ok(match (options.condition, found) {
        (Condition::Always, _) => true,
        (Condition::Absent, found) => found.is_none(),
        (Condition::Present, found) => found.is_some(),
        (Condition::Equal(wanted), Some(entry)) => str_of(entry)?.is(wanted),
        (Condition::Equal(_), None) => false,
        (Condition::Different(refused), Some(entry)) => !str_of(entry)?.is(refused),
        (Condition::Different(_), None) => true,
    })
}

fn store(ctx: &mut WriteCtx<'_>, args: Args<'_>, options: Options<'_>, at: Option<i64>) {
    let key = args.key(1);
    if let Some(at) = at
        && has_passed(ctx, at)
    {
        ctx.db.expire_now(key);
        return;
    }
    ctx.db.set(key, args.string(2), options.expiry.to_set(at), Event::Set);
    let is_newer = matches!(options.condition, Condition::Different(_));
    match (options.expiry, at) {
        // The client's command is propagated unchanged, because it contains the time already.
        (ExpiryOption::Given(ExpiryUnit::AtMs, _), _) if !is_newer => {}
        (_, Some(at)) => ctx.db.effects.rewrite(|| set_pxat(args.at(0), key, args.at(2), at)),
        (_, None) if is_newer => ctx.db.effects.rewrite(|| without_condition(args, options.expiry)),
        (_, None) if options.get => ctx.db.effects.rewrite(|| without_get(args)),
        (_, None) => {}
    }
}

/// SET with the time of expiry, so that the delay of propagation does not matter.
fn set_pxat(name: &[u8], key: Key<'_>, value: &[u8], at_ms: i64) -> Argv {
    let at = at_ms.to_string().into_bytes();
    vec![name.to_vec(), key.bytes.to_vec(), value.to_vec(), b"PXAT".to_vec(), at]
}

/// SET without the options IFNE and GET. Replicas of version 9.1 do not know IFNE, and need not check its
/// condition, because it was true here.
fn without_condition(args: Args<'_>, expiry: ExpiryOption) -> Argv {
    let mut argv: Argv = args.iter_from(0).take(3).map(<[u8]>::to_vec).collect();
    if expiry == ExpiryOption::Keep {
        argv.push(b"KEEPTTL".to_vec());
    }
    argv
}

/// SET without its option GET, for replicas and the AOF, which read no reply. A word `GET` that is the
/// operand of IFEQ is kept.
fn without_get(args: Args<'_>) -> Argv {
    let mut argv: Argv = args.iter_from(0).take(3).map(<[u8]>::to_vec).collect();
    let mut rest = args.iter_from(3);
    while let Some(arg) = rest.next() {
        if is_word(arg, "GET") {
            continue;
        }
        argv.push(arg.to_vec());
        if is_word(arg, "IFEQ") {
            argv.extend(rest.next().map(<[u8]>::to_vec));
        }
    }
    argv
}

pub(super) fn setnx(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    let absent = ctx.db.look(key).is_none();
    if absent {
        ctx.db.set(key, args.string(2), SetExpiry::Clear, Event::Set);
    }
    ctx.reply.int(i64::from(absent));
    Ok(Outcome::Done)
}

pub(super) fn setex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    set_for(ctx, args, ExpiryUnit::Seconds)
}

pub(super) fn psetex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    set_for(ctx, args, ExpiryUnit::Ms)
}

fn set_for(ctx: &mut WriteCtx<'_>, args: Args<'_>, unit: ExpiryUnit) -> Run {
    let at = expiry_at(args, 2, unit, ctx.db.access.now.unix_ms(), ctx.spec.full_name)?;
    let (key, value) = (args.key(1), args.at(3));
    ctx.db.set(key, args.string(3), SetExpiry::At(at), Event::Set);
    ctx.db.effects.rewrite(|| set_pxat(b"SET", key, value, at));
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn getset(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (key, value) = (args.key(1), args.at(2));
    match ctx.db.get(key) {
        Some(entry) => reply_str(&mut ctx.reply, str_of(entry)?),
        None => ctx.reply.null(),
    }
    ctx.db.set(key, args.string(2), SetExpiry::Clear, Event::Set);
    ctx.db.effects.rewrite(|| vec![b"SET".to_vec(), key.bytes.to_vec(), value.to_vec()]);
    Ok(Outcome::Done)
}
