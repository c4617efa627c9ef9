//! Strings.

mod common;
mod lcs;
mod many;
mod number;
mod options;
mod part;
mod set;

pub(crate) use options::ExpiryUnit;

use crate::args::Args;
use crate::exec::ctx::{Handler, ReadCtx, Route, WriteCtx, route};
use crate::exec::outcome::{Outcome, Run};
use crate::families::string::common::{reply_str, str_of};
use options::{Accepted, Expiry, Options};
use sluice_command::specs::string as specs;
use sluice_keyspace::Event;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::APPEND, Handler::Write(part::append)),
    route(&specs::DECR, Handler::Write(number::decr)),
    route(&specs::DECRBY, Handler::Write(number::decrby)),
    route(&specs::DELIFEQ, Handler::Write(delifeq)),
    route(&specs::GET, Handler::Read(get)),
    route(&specs::GETDEL, Handler::Write(getdel)),
    route(&specs::GETEX, Handler::Write(getex)),
    route(&specs::GETRANGE, Handler::Read(part::getrange)),
    route(&specs::GETSET, Handler::Write(set::getset)),
    route(&specs::INCR, Handler::Write(number::incr)),
    route(&specs::INCRBY, Handler::Write(number::incrby)),
    route(&specs::INCRBYFLOAT, Handler::Write(number::incrbyfloat)),
    route(&specs::LCS, Handler::Read(lcs::lcs)),
    route(&specs::MGET, Handler::Read(many::mget)),
    route(&specs::MSET, Handler::Write(many::mset)),
    route(&specs::MSETEX, Handler::Write(many::msetex)),
    route(&specs::MSETNX, Handler::Write(many::msetnx)),
    route(&specs::PSETEX, Handler::Write(set::psetex)),
    route(&specs::SET, Handler::Write(set::set)),
    route(&specs::SETEX, Handler::Write(set::setex)),
    route(&specs::SETNX, Handler::Write(set::setnx)),
    route(&specs::SETRANGE, Handler::Write(part::setrange)),
    route(&specs::STRLEN, Handler::Read(part::strlen)),
    route(&specs::SUBSTR, Handler::Read(part::getrange)),
];

fn get(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    match ctx.db.get(args.key(1)) {
        Some(entry) => reply_str(&mut ctx.reply, str_of(entry)?),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

fn getdel(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    let Some(entry) = ctx.db.get(key) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    reply_str(&mut ctx.reply, str_of(entry)?);
    remove(ctx, args);
    Ok(Outcome::Done)
}

fn delifeq(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let equal = match ctx.db.get_uncounted(args.key(1)) {
        Some(entry) => str_of(entry)?.is(args.at(2)),
        None => false,
    };
    if equal {
        remove(ctx, args);
    }
    ctx.reply.int(i64::from(equal));
    Ok(Outcome::Done)
}

/// Removes the first key, which is there, and propagates DEL, which means the same to a replica with another value.
fn remove(ctx: &mut WriteCtx<'_>, args: Args<'_>) {
    let key = args.key(1);
    ctx.db.remove(key, Event::Del);
    ctx.db.effects.rewrite(|| vec![b"DEL".to_vec(), key.bytes.to_vec()]);
}

fn getex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = Options::parse(args, 2, Accepted::Getex)?;
    let at = options.expiry.at(args, ctx.db.access.now.unix_ms(), "getex")?;
    let key = args.key(1);
    let Some(entry) = ctx.db.get(key) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    reply_str(&mut ctx.reply, str_of(entry)?);
    let expires = entry.expiry().is_some();
    match (options.expiry, at) {
        (Expiry::Persist, _) if expires => {
            ctx.db.set_expiry(key, None, Event::Persist);
            ctx.db.effects.rewrite(|| vec![b"PERSIST".to_vec(), key.bytes.to_vec()]);
        }
        (_, Some(at)) if options::has_passed(ctx, at) => {
            ctx.db.expire_now(key);
        }
        (_, Some(at)) => {
            ctx.db.set_expiry(key, Some(at), Event::Expire);
            let at = || at.to_string().into_bytes();
            ctx.db.effects.rewrite(|| vec![b"PEXPIREAT".to_vec(), key.bytes.to_vec(), at()]);
        }
        (_, None) => {}
    }
    Ok(Outcome::Done)
}
