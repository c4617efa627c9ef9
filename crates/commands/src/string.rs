//! Strings.

mod common;
mod increx;
mod lcs;
mod many;
mod number;
mod options;
mod part;
mod set;

pub(crate) use options::ExpiryUnit;

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, WriteCtx, route};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::common::{reply_str, str_of};
use options::{ExpiryOption, Options, OptionsOf};
use sluice_command::specs::string as specs;
use sluice_keyspace::{Event, Str};

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::APPEND, DataHandler::Write(part::append)),
    route(&specs::DECR, DataHandler::Write(number::decr)),
    route(&specs::DECRBY, DataHandler::Write(number::decrby)),
    route(&specs::DELEX, DataHandler::Write(delex)),
    route(&specs::DELIFEQ, DataHandler::Write(delifeq)),
    route(&specs::GET, DataHandler::Read(get)),
    route(&specs::GETDEL, DataHandler::Write(getdel)),
    route(&specs::GETEX, DataHandler::Write(getex)),
    route(&specs::GETRANGE, DataHandler::Read(part::getrange)),
    route(&specs::GETSET, DataHandler::Write(set::getset)),
    route(&specs::INCR, DataHandler::Write(number::incr)),
    route(&specs::INCRBY, DataHandler::Write(number::incrby)),
    route(&specs::INCRBYFLOAT, DataHandler::Write(number::incrbyfloat)),
    route(&specs::INCREX, DataHandler::Write(increx::increx)),
    route(&specs::LCS, DataHandler::Read(lcs::lcs)),
    route(&specs::MGET, DataHandler::Read(many::mget)),
    route(&specs::MSET, DataHandler::Write(many::mset)),
    route(&specs::MSETEX, DataHandler::Write(many::msetex)),
    route(&specs::MSETNX, DataHandler::Write(many::msetnx)),
    route(&specs::PSETEX, DataHandler::Write(set::psetex)),
    route(&specs::SET, DataHandler::Write(set::set)),
    route(&specs::SETEX, DataHandler::Write(set::setex)),
    route(&specs::SETNX, DataHandler::Write(set::setnx)),
    route(&specs::SETRANGE, DataHandler::Write(part::setrange)),
    route(&specs::STRLEN, DataHandler::Read(part::strlen)),
    route(&specs::SUBSTR, DataHandler::Read(part::getrange)),
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
    remove_if(ctx, args, |text| text.is(args.at(2)))
}

fn delex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let wants_equal = match (args.is(2, "IFEQ"), args.is(2, "IFNE")) {
        (true, _) => true,
        (_, true) => false,
        (false, false) => return Err(CmdError::Syntax),
    };
    remove_if(ctx, args, |text| text.is(args.at(3)) == wants_equal)
}

/// Removes the first key if `holds` is true for its string, and replies with the number of removed keys.
fn remove_if(ctx: &mut WriteCtx<'_>, args: Args<'_>, holds: impl FnOnce(Str<'_>) -> bool) -> Run {
    let removes = match ctx.db.get_uncounted(args.key(1)) {
        Some(entry) => holds(str_of(entry)?),
        None => false,
    };
    if removes {
        remove(ctx, args);
    }
    ctx.reply.int(i64::from(removes));
    Ok(Outcome::Done)
}

/// Removes the first key, which exists. DEL is propagated in place of the command, because DEL removes the
/// key even on a replica whose value differs.
fn remove(ctx: &mut WriteCtx<'_>, args: Args<'_>) {
    let key = args.key(1);
    ctx.db.remove(key, Event::Del);
    ctx.db.effects.rewrite(|| vec![b"DEL".to_vec(), key.bytes.to_vec()]);
}

fn getex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = Options::parse(args, 2, OptionsOf::Getex)?;
    let at = options.expiry.at(args, ctx.db.access.now.unix_ms(), "getex")?;
    let key = args.key(1);
    let Some(entry) = ctx.db.get(key) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    reply_str(&mut ctx.reply, str_of(entry)?);
    let expires = entry.expiry().is_some();
    match (options.expiry, at) {
        (ExpiryOption::Persist, _) if expires => {
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
