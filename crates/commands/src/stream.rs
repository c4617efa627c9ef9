//! Streams.
//!
//! `add.rs` has the commands that add and delete entries, `read.rs` those that read and wait, `group.rs`
//! XGROUP, `claim.rs` the commands on pending entries, `remove.rs` deletions that respect groups, and
//! `info.rs` XINFO.

mod add;
mod claim;
mod common;
mod group;
mod info;
mod read;
mod remove;
mod slow;

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, route};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::server::reply_help;
use crate::stream::common::{interval_end, interval_start, reply_entries, stream_of};
use sluice_command::specs::stream as specs;
use sluice_value::Direction;
use sluice_value::stream::Stream;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::XACK, DataHandler::Write(claim::xack)),
    route(&specs::XACKDEL, DataHandler::Write(remove::xackdel)),
    route(&specs::XADD, DataHandler::Write(add::xadd)),
    route(&specs::XAUTOCLAIM, DataHandler::Write(claim::xautoclaim)),
    route(&specs::XCLAIM, DataHandler::Write(claim::xclaim)),
    route(&specs::XDEL, DataHandler::Write(add::xdel)),
    route(&specs::XDELEX, DataHandler::Write(remove::xdelex)),
    route(&specs::XGROUP_CREATE, DataHandler::Write(group::create)),
    route(&specs::XGROUP_CREATECONSUMER, DataHandler::Write(group::create_consumer)),
    route(&specs::XGROUP_DELCONSUMER, DataHandler::Write(group::delete_consumer)),
    route(&specs::XGROUP_DESTROY, DataHandler::Write(group::destroy)),
    route(&specs::XGROUP_HELP, DataHandler::Static(|ctx, _| reply_help(ctx, &specs::XGROUP))),
    route(&specs::XGROUP_SETID, DataHandler::Write(group::set_id)),
    route(&specs::XINFO_CONSUMERS, DataHandler::Read(info::consumers)),
    route(&specs::XINFO_GROUPS, DataHandler::Read(info::groups)),
    route(&specs::XINFO_HELP, DataHandler::Static(|ctx, _| reply_help(ctx, &specs::XINFO))),
    route(&specs::XINFO_STREAM, DataHandler::Read(info::stream)),
    route(&specs::XLEN, DataHandler::Read(xlen)),
    route(&specs::XPENDING, DataHandler::Read(claim::xpending)),
    route(&specs::XRANGE, DataHandler::Read(xrange)),
    route(&specs::XREAD, DataHandler::Read(read::xread)),
    route(&specs::XREADGROUP, DataHandler::Write(read::xreadgroup)),
    route(&specs::XREVRANGE, DataHandler::Read(xrevrange)),
    route(&specs::XSETID, DataHandler::Write(add::xsetid)),
    route(&specs::XTRIM, DataHandler::Write(add::xtrim)),
];

fn xlen(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = match ctx.db.get(args.key(1)) {
        Some(entry) => stream_of(entry)?.log().len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

fn xrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (start, end) = (interval_start(args.at(2))?, interval_end(args.at(3))?);
    let Some((stream, count)) = ranged(ctx, args)? else { return Ok(Outcome::Done) };
    if slow::suits(&mut ctx.slow, stream, (start, end), count) {
        return ctx.slow.begin(|| slow::range(stream, (start, end), count, Direction::Up));
    }
    reply_entries(&mut ctx.reply, stream.log().iter(start, end), count);
    Ok(Outcome::Done)
}

fn xrevrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (start, end) = (interval_start(args.at(3))?, interval_end(args.at(2))?);
    let Some((stream, count)) = ranged(ctx, args)? else { return Ok(Outcome::Done) };
    if start > end {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    }
    if slow::suits(&mut ctx.slow, stream, (start, end), count) {
        return ctx.slow.begin(|| slow::range(stream, (start, end), count, Direction::Down));
    }
    reply_entries(&mut ctx.reply, stream.log().iter_rev(start, end), count);
    Ok(Outcome::Done)
}

/// The stream of XRANGE and XREVRANGE, and the number of entries to return; `None` if the reply
/// is written already.
fn ranged<'a>(ctx: &mut ReadCtx<'a>, args: Args<'_>) -> Result<Option<(&'a Stream, usize)>, CmdError> {
    let mut count = None;
    let mut at = 4;
    while at < args.len() {
        if !args.is(at, "COUNT") || at + 1 >= args.len() {
            return Err(CmdError::Syntax);
        }
        count = Some(args.int(at + 1)?.max(0));
        at += 2;
    }
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.array(0);
        return Ok(None);
    };
    let stream = stream_of(entry)?;
    if count == Some(0) {
        ctx.reply.null_array();
        return Ok(None);
    }
    Ok(Some((stream, count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX)))))
}
