//! Strings.

use crate::args::Args;
use crate::ctx::{Handler, Outcome, ReadCtx, Route, Run, WriteCtx, route};
use crate::error::CmdError;
use sluice_command::specs::string as specs;
use sluice_keyspace::{Event, Payload, SetExpiry, Str};
use sluice_resp::Reply;

pub(crate) const ROUTES: &[Route] =
    &[route(&specs::GET, Handler::Read(get)), route(&specs::SET, Handler::Write(set))];

/// Strings of at least so many bytes are sent from where they lie; below it, copying is cheaper.
const SHARE_BYTES: usize = 16 * 1024;

/// Writes a string as a bulk reply.
#[inline]
pub(crate) fn reply_str(reply: &mut Reply<'_>, value: Str<'_>) {
    match value {
        Str::Inline(bytes) => reply.bulk(bytes),
        Str::Int(n) => reply.bulk_int(n),
        Str::Shared(bytes) if bytes.len() >= SHARE_BYTES => reply.bulk_shared(bytes),
        Str::Shared(bytes) => reply.bulk(bytes),
    }
}

fn get(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    match ctx.db.get(args.key(1)) {
        Some(entry) => reply_str(&mut ctx.reply, entry.str().ok_or(CmdError::WrongType)?),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

/// When SET stores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition<'a> {
    Always,
    Absent,
    Present,
    Equal(&'a [u8]),
}

/// SET's options.
struct SetOptions<'a> {
    condition: Condition<'a>,
    get: bool,
    expiry: SetExpiry,
    /// The expiry came as anything but PXAT: replicas are told the time itself.
    relative: bool,
}

fn set(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    if args.len() == 3 {
        ctx.db.set(key, Payload::Str(args.at(2)), SetExpiry::Clear, Event::Set);
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    let options = set_options(args, ctx.db.access.now.unix_ms())?;
    set_with(ctx, args, options)
}

fn set_with(ctx: &mut WriteCtx<'_>, args: Args<'_>, options: SetOptions<'_>) -> Run {
    let key = args.key(1);
    let needs_value = options.get || matches!(options.condition, Condition::Equal(_));
    let found = if needs_value { ctx.db.get(key) } else { ctx.db.look(key) };
    if needs_value && found.is_some_and(|entry| entry.str().is_none()) {
        return Err(CmdError::WrongType);
    }
    let allowed = match options.condition {
        Condition::Always => true,
        Condition::Absent => found.is_none(),
        Condition::Present => found.is_some(),
        Condition::Equal(wanted) => {
            found.and_then(|entry| entry.str()).is_some_and(|value| value.with(|bytes| bytes == wanted))
        }
    };
    if options.get {
        match found.and_then(|entry| entry.str()) {
            Some(value) => reply_str(&mut ctx.reply, value),
            None => ctx.reply.null(),
        }
    }
    if !allowed {
        if !options.get {
            ctx.reply.null();
        }
        return Ok(Outcome::Done);
    }
    store(ctx, args, &options);
    if !options.get {
        ctx.reply.ok();
    }
    Ok(Outcome::Done)
}

fn store(ctx: &mut WriteCtx<'_>, args: Args<'_>, options: &SetOptions<'_>) {
    let key = args.key(1);
    if let SetExpiry::At(at) = options.expiry
        && at <= ctx.db.access.now.unix_ms()
    {
        // A time that has passed: the key is as good as deleted, and is.
        ctx.db.remove(key, Event::Del);
        ctx.db.effects.rewrite(|| vec![b"DEL".to_vec(), key.bytes.to_vec()]);
        return;
    }
    ctx.db.set(key, Payload::Str(args.at(2)), options.expiry, Event::Set);
    if let SetExpiry::At(at) = options.expiry
        && options.relative
    {
        let value = args.at(2);
        ctx.db.effects.rewrite(|| {
            let at = at.to_string().into_bytes();
            vec![b"SET".to_vec(), key.bytes.to_vec(), value.to_vec(), b"PXAT".to_vec(), at]
        });
    }
}

fn set_options<'a>(args: Args<'a>, now_ms: i64) -> Result<SetOptions<'a>, CmdError> {
    let mut options =
        SetOptions { condition: Condition::Always, get: false, expiry: SetExpiry::Clear, relative: false };
    let mut i = 3;
    while i < args.len() {
        let next = args.get(i + 1);
        let free = options.expiry == SetExpiry::Clear;
        if args.is(i, "NX") && matches!(options.condition, Condition::Always | Condition::Absent) {
            options.condition = Condition::Absent;
        } else if args.is(i, "XX") && matches!(options.condition, Condition::Always | Condition::Present) {
            options.condition = Condition::Present;
        } else if args.is(i, "IFEQ") && options.condition == Condition::Always && next.is_some() {
            options.condition = Condition::Equal(next.unwrap_or_default());
            i += 1;
        } else if args.is(i, "GET") {
            options.get = true;
        } else if args.is(i, "KEEPTTL") && matches!(options.expiry, SetExpiry::Clear | SetExpiry::Keep) {
            options.expiry = SetExpiry::Keep;
        } else if let Some(unit) = ExpiryUnit::of(args.at(i))
            && free
            && next.is_some()
        {
            options.expiry = SetExpiry::At(expiry_at(args, i + 1, unit, now_ms, "set")?);
            options.relative = unit != ExpiryUnit::AtMs;
            i += 1;
        } else {
            return Err(CmdError::Syntax);
        }
        i += 1;
    }
    Ok(options)
}

/// How an expiry is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiryUnit {
    Seconds,
    Ms,
    AtSeconds,
    AtMs,
}

impl ExpiryUnit {
    pub(crate) fn of(word: &[u8]) -> Option<ExpiryUnit> {
        [
            ("EX", ExpiryUnit::Seconds),
            ("PX", ExpiryUnit::Ms),
            ("EXAT", ExpiryUnit::AtSeconds),
            ("PXAT", ExpiryUnit::AtMs),
        ]
        .into_iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, unit)| unit)
    }
}

/// The time, ms since the epoch, that the argument at `index` means; it must be positive and expressible.
pub(crate) fn expiry_at(
    args: Args<'_>,
    index: usize,
    unit: ExpiryUnit,
    now_ms: i64,
    command: &'static str,
) -> Result<i64, CmdError> {
    let amount = args.int(index)?;
    if amount <= 0 {
        return Err(CmdError::InvalidExpire(command));
    }
    let ms = match unit {
        ExpiryUnit::Seconds | ExpiryUnit::AtSeconds => amount.checked_mul(1000),
        ExpiryUnit::Ms | ExpiryUnit::AtMs => Some(amount),
    };
    let at = match unit {
        ExpiryUnit::Seconds | ExpiryUnit::Ms => ms.and_then(|ms| ms.checked_add(now_ms)),
        ExpiryUnit::AtSeconds | ExpiryUnit::AtMs => ms,
    };
    at.ok_or(CmdError::InvalidExpire(command))
}
