//! Sorted sets.
//!
//! Handlers read arguments and write replies. Functions whose name begins with `op_` also change the data,
//! and several handlers share them.

mod add;
mod combine;
pub(crate) mod common;
pub(crate) mod inputs;
mod pop;
mod range;
mod remove;
mod walk;

pub(crate) use add::{AddFlags, op_add};
pub(crate) use combine::{store_sorted, stored_elements};

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, route};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::zset::common::{reply_score, zset_of};
use range::{LexRange, ScoreRange};
use sluice_command::specs::sorted_set as specs;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::BZMPOP, DataHandler::Write(pop::bzmpop)),
    route(&specs::BZPOPMAX, DataHandler::Write(pop::bzpopmax)),
    route(&specs::BZPOPMIN, DataHandler::Write(pop::bzpopmin)),
    route(&specs::ZADD, DataHandler::Write(add::zadd)),
    route(&specs::ZCARD, DataHandler::Read(zcard)),
    route(&specs::ZCOUNT, DataHandler::Read(zcount)),
    route(&specs::ZDIFF, DataHandler::Read(combine::zdiff)),
    route(&specs::ZDIFFSTORE, DataHandler::Write(combine::zdiffstore)),
    route(&specs::ZINCRBY, DataHandler::Write(add::zincrby)),
    route(&specs::ZINTER, DataHandler::Read(combine::zinter)),
    route(&specs::ZINTERCARD, DataHandler::Read(combine::zintercard)),
    route(&specs::ZINTERSTORE, DataHandler::Write(combine::zinterstore)),
    route(&specs::ZLEXCOUNT, DataHandler::Read(zlexcount)),
    route(&specs::ZMPOP, DataHandler::Write(pop::zmpop)),
    route(&specs::ZMSCORE, DataHandler::Read(zmscore)),
    route(&specs::ZPOPMAX, DataHandler::Write(pop::zpopmax)),
    route(&specs::ZPOPMIN, DataHandler::Write(pop::zpopmin)),
    route(&specs::ZRANDMEMBER, DataHandler::Read(walk::zrandmember)),
    route(&specs::ZRANGE, DataHandler::Read(range::zrange)),
    route(&specs::ZRANGEBYLEX, DataHandler::Read(range::zrangebylex)),
    route(&specs::ZRANGEBYSCORE, DataHandler::Read(range::zrangebyscore)),
    route(&specs::ZRANGESTORE, DataHandler::Write(range::zrangestore)),
    route(&specs::ZRANK, DataHandler::Read(zrank)),
    route(&specs::ZREM, DataHandler::Write(remove::zrem)),
    route(&specs::ZREMRANGEBYLEX, DataHandler::Write(remove::zremrangebylex)),
    route(&specs::ZREMRANGEBYRANK, DataHandler::Write(remove::zremrangebyrank)),
    route(&specs::ZREMRANGEBYSCORE, DataHandler::Write(remove::zremrangebyscore)),
    route(&specs::ZREVRANGE, DataHandler::Read(range::zrevrange)),
    route(&specs::ZREVRANGEBYLEX, DataHandler::Read(range::zrevrangebylex)),
    route(&specs::ZREVRANGEBYSCORE, DataHandler::Read(range::zrevrangebyscore)),
    route(&specs::ZREVRANK, DataHandler::Read(zrevrank)),
    route(&specs::ZSCAN, DataHandler::Read(walk::zscan)),
    route(&specs::ZSCORE, DataHandler::Read(zscore)),
    route(&specs::ZUNION, DataHandler::Read(combine::zunion)),
    route(&specs::ZUNIONSTORE, DataHandler::Write(combine::zunionstore)),
];

fn zcard(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = match ctx.db.get(args.key(1)) {
        Some(entry) => zset_of(entry)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

fn zscore(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let score = match ctx.db.get(args.key(1)) {
        Some(entry) => zset_of(entry)?.score(args.at(2)),
        None => None,
    };
    reply_score(&mut ctx.reply, score);
    Ok(Outcome::Done)
}

fn zmscore(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let zset = match ctx.db.get(args.key(1)) {
        Some(entry) => Some(zset_of(entry)?),
        None => None,
    };
    ctx.reply.array(args.len() - 2);
    let members = args.iter_from(2);
    match zset {
        Some(zset) => zset.score_each(members, |score| reply_score(&mut ctx.reply, score)),
        None => members.for_each(|_| reply_score(&mut ctx.reply, None)),
    }
    Ok(Outcome::Done)
}

fn zcount(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let range = ScoreRange::parse(args.at(2), args.at(3))?;
    let count = match ctx.db.get(args.key(1)) {
        Some(entry) => range.ranks(zset_of(entry)?).len(),
        None => 0,
    };
    ctx.reply.int(count as i64);
    Ok(Outcome::Done)
}

fn zlexcount(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let range = LexRange::parse(args.at(2), args.at(3))?;
    let count = match ctx.db.get(args.key(1)) {
        Some(entry) => range.ranks(zset_of(entry)?).len(),
        None => 0,
    };
    ctx.reply.int(count as i64);
    Ok(Outcome::Done)
}

fn zrank(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    rank(ctx, args, "zrank", |rank, _| rank)
}

fn zrevrank(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    rank(ctx, args, "zrevrank", |rank, len| len - 1 - rank)
}

fn rank(
    ctx: &mut ReadCtx<'_>,
    args: Args<'_>,
    name: &'static str,
    counted: impl FnOnce(usize, usize) -> usize,
) -> Run {
    if args.len() > 4 {
        return Err(CmdError::Arity(name));
    }
    let with_score = args.len() == 4;
    if with_score && !args.is(3, "WITHSCORE") {
        return Err(CmdError::Syntax);
    }
    let found = match ctx.db.get(args.key(1)) {
        Some(entry) => {
            let zset = zset_of(entry)?;
            zset.rank(args.at(2)).map(|(rank, score)| (counted(rank, zset.len()), score))
        }
        None => None,
    };
    match found {
        Some((rank, score)) if with_score => {
            ctx.reply.array(2);
            ctx.reply.int(rank as i64);
            ctx.reply.double(score);
        }
        Some((rank, _)) => ctx.reply.int(rank as i64),
        None if with_score => ctx.reply.null_array(),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}
