//! Sorted sets.
//!
//! Each file has the handlers, which read arguments and write replies, and `op_` functions, which change the data.

mod add;
mod combine;
mod pop;
mod range;
mod remove;
mod walk;

use crate::args::Args;
use crate::ctx::{Handler, Outcome, ReadCtx, Route, Run, route};
use crate::error::CmdError;
use sluice_command::specs::sorted_set as specs;
use sluice_keyspace::Entry;
use sluice_resp::{Protocol, Reply};
use sluice_value::ZsetRef;

pub(crate) use add::{AddFlags, op_add};
pub(crate) use combine::store_sorted;
use range::{LexRange, ScoreRange};

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::BZMPOP, Handler::Write(pop::bzmpop)),
    route(&specs::BZPOPMAX, Handler::Write(pop::bzpopmax)),
    route(&specs::BZPOPMIN, Handler::Write(pop::bzpopmin)),
    route(&specs::ZADD, Handler::Write(add::zadd)),
    route(&specs::ZCARD, Handler::Read(zcard)),
    route(&specs::ZCOUNT, Handler::Read(zcount)),
    route(&specs::ZDIFF, Handler::Read(combine::zdiff)),
    route(&specs::ZDIFFSTORE, Handler::Write(combine::zdiffstore)),
    route(&specs::ZINCRBY, Handler::Write(add::zincrby)),
    route(&specs::ZINTER, Handler::Read(combine::zinter)),
    route(&specs::ZINTERCARD, Handler::Read(combine::zintercard)),
    route(&specs::ZINTERSTORE, Handler::Write(combine::zinterstore)),
    route(&specs::ZLEXCOUNT, Handler::Read(zlexcount)),
    route(&specs::ZMPOP, Handler::Write(pop::zmpop)),
    route(&specs::ZMSCORE, Handler::Read(zmscore)),
    route(&specs::ZPOPMAX, Handler::Write(pop::zpopmax)),
    route(&specs::ZPOPMIN, Handler::Write(pop::zpopmin)),
    route(&specs::ZRANDMEMBER, Handler::Read(walk::zrandmember)),
    route(&specs::ZRANGE, Handler::Read(range::zrange)),
    route(&specs::ZRANGEBYLEX, Handler::Read(range::zrangebylex)),
    route(&specs::ZRANGEBYSCORE, Handler::Read(range::zrangebyscore)),
    route(&specs::ZRANGESTORE, Handler::Write(range::zrangestore)),
    route(&specs::ZRANK, Handler::Read(zrank)),
    route(&specs::ZREM, Handler::Write(remove::zrem)),
    route(&specs::ZREMRANGEBYLEX, Handler::Write(remove::zremrangebylex)),
    route(&specs::ZREMRANGEBYRANK, Handler::Write(remove::zremrangebyrank)),
    route(&specs::ZREMRANGEBYSCORE, Handler::Write(remove::zremrangebyscore)),
    route(&specs::ZREVRANGE, Handler::Read(range::zrevrange)),
    route(&specs::ZREVRANGEBYLEX, Handler::Read(range::zrevrangebylex)),
    route(&specs::ZREVRANGEBYSCORE, Handler::Read(range::zrevrangebyscore)),
    route(&specs::ZREVRANK, Handler::Read(zrevrank)),
    route(&specs::ZSCAN, Handler::Read(walk::zscan)),
    route(&specs::ZSCORE, Handler::Read(zscore)),
    route(&specs::ZUNION, Handler::Read(combine::zunion)),
    route(&specs::ZUNIONSTORE, Handler::Write(combine::zunionstore)),
];

/// The sorted set of an entry, or what a command answers to another type.
#[inline]
pub(crate) fn zset_of(entry: Entry<'_>) -> Result<ZsetRef<'_>, CmdError> {
    Ok(entry.as_zset()?)
}

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
    for member in args.iter_from(2) {
        reply_score(&mut ctx.reply, zset.and_then(|zset| zset.score(member)));
    }
    Ok(Outcome::Done)
}

fn reply_score(reply: &mut Reply<'_>, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
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

/// How elements stand in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementsShown {
    /// Members alone.
    Members,
    /// Members and scores by turns; in the third version of the protocol in pairs.
    WithScores,
    /// Members and scores in pairs.
    Pairs,
    /// Members and scores by turns.
    Flat,
}

impl ElementsShown {
    /// What WITHSCORES asks for.
    fn with_scores(wanted: bool) -> ElementsShown {
        if wanted { ElementsShown::WithScores } else { ElementsShown::Members }
    }
}

/// Writes elements as an array.
fn reply_elements<'m>(
    reply: &mut Reply<'_>,
    elements: impl Iterator<Item = (&'m [u8], f64)>,
    count: usize,
    shown: ElementsShown,
) {
    let shown = reply_count(reply, count, shown);
    elements.for_each(|element| reply_element(reply, element, shown));
}

/// Writes how many elements follow; how each is shown.
fn reply_count(reply: &mut Reply<'_>, count: usize, shown: ElementsShown) -> ElementsShown {
    let shown = match (shown, reply.protocol()) {
        (ElementsShown::WithScores, Protocol::Resp2) => ElementsShown::Flat,
        (ElementsShown::WithScores, Protocol::Resp3) => ElementsShown::Pairs,
        (shown, _) => shown,
    };
    reply.array(if shown == ElementsShown::Flat { 2 * count } else { count });
    shown
}

#[inline]
fn reply_element(reply: &mut Reply<'_>, (member, score): (&[u8], f64), shown: ElementsShown) {
    if shown == ElementsShown::Pairs {
        reply.array(2);
    }
    reply.bulk(member);
    if shown != ElementsShown::Members {
        reply.double(score);
    }
}

/// An argument as a score.
fn score_at(args: Args<'_>, index: usize) -> Result<f64, CmdError> {
    args.get(index).and_then(sluice_base::num::parse_f64).ok_or(CmdError::NotFloat)
}
