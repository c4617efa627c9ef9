//! Lists.
//!
//! Handlers read arguments and write replies. Functions whose name begins with `op_` change the data; they
//! are shared by the waiting and the non-waiting variant of a command.

pub(crate) mod blocking;
pub(crate) mod common;
mod ends;
mod find;
mod moving;
mod part;
mod slow;

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, route};
use crate::element::reply_item;
use crate::list::common::{list_of, position, range};
use crate::outcome::{Outcome, Run};
use sluice_command::specs::list as specs;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::BLMOVE, DataHandler::Write(blocking::blmove)),
    route(&specs::BLMPOP, DataHandler::Write(blocking::blmpop)),
    route(&specs::BLPOP, DataHandler::Write(blocking::blpop)),
    route(&specs::BRPOP, DataHandler::Write(blocking::brpop)),
    route(&specs::BRPOPLPUSH, DataHandler::Write(blocking::brpoplpush)),
    route(&specs::LINDEX, DataHandler::Read(lindex)),
    route(&specs::LINSERT, DataHandler::Write(part::linsert)),
    route(&specs::LLEN, DataHandler::Read(llen)),
    route(&specs::LMOVE, DataHandler::Write(moving::lmove)),
    route(&specs::LMPOP, DataHandler::Write(ends::lmpop)),
    route(&specs::LPOP, DataHandler::Write(ends::lpop)),
    route(&specs::LPOS, DataHandler::Read(find::lpos)),
    route(&specs::LPUSH, DataHandler::Write(ends::lpush)),
    route(&specs::LPUSHX, DataHandler::Write(ends::lpushx)),
    route(&specs::LRANGE, DataHandler::Read(lrange)),
    route(&specs::LREM, DataHandler::Write(part::lrem)),
    route(&specs::LSET, DataHandler::Write(part::lset)),
    route(&specs::LTRIM, DataHandler::Write(part::ltrim)),
    route(&specs::RPOP, DataHandler::Write(ends::rpop)),
    route(&specs::RPOPLPUSH, DataHandler::Write(moving::rpoplpush)),
    route(&specs::RPUSH, DataHandler::Write(ends::rpush)),
    route(&specs::RPUSHX, DataHandler::Write(ends::rpushx)),
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
    slow::ListElements::of(range).write(list, &mut ctx.reply, |_| false);
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
