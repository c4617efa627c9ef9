//! Commands about the server that need only the command table, the time and the caller's database.

mod command;
mod lolwut;

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, StaticCtx, route};
use crate::outcome::{Outcome, Run};
use sluice_command::specs::server as specs;
use sluice_command::{Spec, derive};
use sluice_resp::Reply;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::COMMAND, DataHandler::Static(command::all)),
    route(&specs::COMMAND_COUNT, DataHandler::Static(command::count)),
    route(&specs::COMMAND_DOCS, DataHandler::Static(command::docs)),
    route(&specs::COMMAND_GETKEYS, DataHandler::Static(command::getkeys)),
    route(&specs::COMMAND_GETKEYSANDFLAGS, DataHandler::Static(command::getkeysandflags)),
    route(&specs::COMMAND_HELP, DataHandler::Static(|ctx, _| reply_help(ctx, &specs::COMMAND))),
    route(&specs::COMMAND_INFO, DataHandler::Static(command::info)),
    route(&specs::COMMAND_LIST, DataHandler::Static(command::list)),
    route(&specs::DBSIZE, DataHandler::Read(dbsize)),
    route(&specs::LOLWUT, DataHandler::Read(lolwut::lolwut)),
    route(&specs::TIME, DataHandler::Static(time)),
];

/// Writes lines as an array of simple strings, the form of every HELP.
pub fn reply_lines(reply: &mut Reply<'_>, lines: &[String]) {
    reply.array(lines.len());
    for line in lines {
        reply.simple(line.as_bytes());
    }
}

/// Replies to HELP of a container.
pub fn reply_help(ctx: &mut StaticCtx<'_>, container: &'static Spec) -> Run {
    reply_lines(&mut ctx.reply, &derive::help::lines(container));
    Ok(Outcome::Done)
}

fn dbsize(ctx: &mut ReadCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.int(ctx.db.len() as i64);
    Ok(Outcome::Done)
}

fn time(ctx: &mut StaticCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.array(2);
    ctx.reply.bulk_int(ctx.now.unix_s());
    ctx.reply.bulk_int(ctx.now.unix_us % 1_000_000);
    Ok(Outcome::Done)
}
