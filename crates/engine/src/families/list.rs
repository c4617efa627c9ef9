//! Lists.
//!
//! Each file has the handlers, which read arguments and write replies, and `op_` functions, which change the data: those are
//! what a command that waited runs when its turn comes.

pub(crate) mod blocking;
pub(crate) mod common;
mod ends;
mod find;
mod moving;
mod part;
mod slow;

use crate::args::Args;
use crate::exec::ctx::{Handler, ReadCtx, Route, route};
use crate::exec::outcome::{Outcome, Run};
use crate::families::list::common::{list_of, position, range, reply_item};
use sluice_command::specs::list as specs;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::BLMOVE, Handler::Write(blocking::blmove)),
    route(&specs::BLMPOP, Handler::Write(blocking::blmpop)),
    route(&specs::BLPOP, Handler::Write(blocking::blpop)),
    route(&specs::BRPOP, Handler::Write(blocking::brpop)),
    route(&specs::BRPOPLPUSH, Handler::Write(blocking::brpoplpush)),
    route(&specs::LINDEX, Handler::Read(lindex)),
    route(&specs::LINSERT, Handler::Write(part::linsert)),
    route(&specs::LLEN, Handler::Read(llen)),
    route(&specs::LMOVE, Handler::Write(moving::lmove)),
    route(&specs::LMPOP, Handler::Write(ends::lmpop)),
    route(&specs::LPOP, Handler::Write(ends::lpop)),
    route(&specs::LPOS, Handler::Read(find::lpos)),
    route(&specs::LPUSH, Handler::Write(ends::lpush)),
    route(&specs::LPUSHX, Handler::Write(ends::lpushx)),
    route(&specs::LRANGE, Handler::Read(lrange)),
    route(&specs::LREM, Handler::Write(part::lrem)),
    route(&specs::LSET, Handler::Write(part::lset)),
    route(&specs::LTRIM, Handler::Write(part::ltrim)),
    route(&specs::RPOP, Handler::Write(ends::rpop)),
    route(&specs::RPOPLPUSH, Handler::Write(moving::rpoplpush)),
    route(&specs::RPUSH, Handler::Write(ends::rpush)),
    route(&specs::RPUSHX, Handler::Write(ends::rpushx)),
];

fn llen(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = match ctx.db.get(args.key(1)) {
        Some(entry) => list_of(entry)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

fn lindex(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    let list = list_of(entry)?;
    let index = position(args.int(2)?, list.len());
    let found = index.and_then(|index| list.get(index, |item| reply_item(&mut ctx.reply, item)));
    if found.is_none() {
        ctx.reply.null();
    }
    Ok(Outcome::Done)
}

fn lrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let list = list_of(entry)?;
    let range = range(start, stop, list.len());
    if ctx.slow.suits(range.len()) {
        return ctx.slow.begin(|| slow::lrange(list, range));
    }
    ctx.reply.array(range.len());
    let mut iter = list.iter(range);
    while let Some(item) = iter.next() {
        reply_item(&mut ctx.reply, item);
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_list() {
        assert_eq!(range(0, -1, 5), 0..5);
        assert_eq!(range(-2, 100, 5), 3..5);
        assert_eq!(range(-100, 0, 5), 0..1);
        assert_eq!(range(i64::MIN, i64::MAX, 5), 0..5);
        for (start, stop) in [(3, 2), (5, 9), (0, -6), (i64::MAX, i64::MIN), (-1, -2)] {
            assert!(range(start, stop, 5).is_empty());
        }
        assert!(range(0, -1, 0).is_empty());
    }
}
