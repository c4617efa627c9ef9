//! COMMAND: information about the command table.

use crate::args::Args;
use crate::ctx::StaticCtx;
use crate::entries::reply_doc;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use sluice_base::glob::Pattern;
use sluice_command::derive::info::Filter;
use sluice_command::derive::keys::{self, GetKeysError};
use sluice_command::{Doc, KeyFlags, Named, Spec, derive, lookup_full, table};

pub(super) fn all(ctx: &mut StaticCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.array(table::TOP.len());
    table::TOP.into_iter().for_each(|spec| reply_doc(&mut ctx.reply, &derive::info::info(spec)));
    Ok(Outcome::Done)
}

pub(super) fn info(ctx: &mut StaticCtx<'_>, args: Args<'_>) -> Run {
    if args.len() == 2 {
        return all(ctx, args);
    }
    let specs = args.iter_from(2).map(lookup_full);
    ctx.reply.array(specs.len());
    for spec in specs {
        match spec {
            Some(spec) => ctx.reply.raw(ctx.entries.entry(spec, ctx.reply.protocol())),
            None => reply_doc(&mut ctx.reply, &Doc::Null),
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn docs(ctx: &mut StaticCtx<'_>, args: Args<'_>) -> Run {
    let specs: Vec<&Spec> = match args.len() {
        2 => table::TOP.to_vec(),
        _ => args.iter_from(2).filter_map(lookup_full).collect(),
    };
    ctx.reply.map(specs.len());
    for spec in specs {
        ctx.reply.bulk(spec.full_name.as_bytes());
        reply_doc(&mut ctx.reply, &derive::docs::docs(spec));
    }
    Ok(Outcome::Done)
}

pub(super) fn count(ctx: &mut StaticCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.int(table::TOP.len() as i64);
    Ok(Outcome::Done)
}

pub(super) fn list(ctx: &mut StaticCtx<'_>, args: Args<'_>) -> Run {
    let filter = match (args.len(), args.get(4)) {
        (2, _) => Filter::All,
        (5, Some(value)) if args.is(2, "FILTERBY") => match args {
            _ if args.is(3, "MODULE") => Filter::Module(value),
            _ if args.is(3, "ACLCAT") => Filter::Category(value),
            _ if args.is(3, "PATTERN") => Filter::Pattern(value),
            _ => return Err(CmdError::Syntax),
        },
        _ => return Err(CmdError::Syntax),
    };
    let pattern = match filter {
        Filter::Pattern(text) => Pattern::nocase(text),
        Filter::All | Filter::Module(_) | Filter::Category(_) => Pattern::nocase(b""),
    };
    let names = derive::info::list(filter, |_, name| pattern.matches(name));
    ctx.reply.array(names.len());
    for name in names {
        ctx.reply.bulk(name.as_bytes());
    }
    Ok(Outcome::Done)
}

/// The keys of the call that is given by the arguments from the third on.
fn keys_of<'a>(args: Args<'a>) -> Result<Vec<(&'a [u8], KeyFlags)>, CmdError> {
    let call: Vec<&[u8]> = args.iter_from(2).collect();
    let found = match table::resolve(&call) {
        Named::Command(spec) => keys::getkeys(spec, &call),
        Named::Unknown | Named::UnknownSubcommand(_) => Err(GetKeysError::UnknownCommand),
    };
    let found = found.map_err(|error| CmdError::owned(format!("ERR {}", error.wire())))?;
    Ok(found.into_iter().filter_map(|(at, flags)| Some((*call.get(at)?, flags))).collect())
}

pub(super) fn getkeys(ctx: &mut StaticCtx<'_>, args: Args<'_>) -> Run {
    let found = keys_of(args)?;
    ctx.reply.array(found.len());
    for (key, _) in found {
        ctx.reply.bulk(key);
    }
    Ok(Outcome::Done)
}

pub(super) fn getkeysandflags(ctx: &mut StaticCtx<'_>, args: Args<'_>) -> Run {
    let found = keys_of(args)?;
    ctx.reply.array(found.len());
    for (key, flags) in found {
        ctx.reply.array(2);
        ctx.reply.bulk(key);
        reply_doc(&mut ctx.reply, &derive::info::key_flags(flags));
    }
    Ok(Outcome::Done)
}
