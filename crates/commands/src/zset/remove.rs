//! ZREM and ZREMRANGEBY...

use super::range::{LexRange, ScoreRange, has_one_score, rank_range, rank_words};
use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::outcome::{Outcome, Run};
use sluice_keyspace::Event;
use sluice_value::{Direction, ZsetRef};
use std::ops::Range;

pub(super) fn zrem(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let Some(mut edit) = ctx.db.edit_zset(args.key(1), ctx.limits.zset)? else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    let (zset, context) = edit.parts();
    let removed = args.iter_from(2).filter(|member| zset.remove(member, context).is_some()).count();
    match removed {
        0 => edit.unchanged(),
        removed => edit.done(Event::ZRem, removed as u64),
    }
    ctx.reply.int(removed as i64);
    Ok(Outcome::Done)
}

pub(super) fn zremrangebyrank(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (start, stop) = (args.int(2)?, args.int(3)?);
    remove_range(ctx, args, Event::ZRemRangeByRank, |zset| rank_range(start, stop, zset.len(), Direction::Up))
}

pub(super) fn zremrangebyscore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let range = ScoreRange::parse(args.at(2), args.at(3))?;
    remove_range(ctx, args, Event::ZRemRangeByScore, |zset| range.ranks(zset))
}

pub(super) fn zremrangebylex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let range = LexRange::parse(args.at(2), args.at(3))?;
    let mut found = None;
    remove_range(ctx, args, Event::ZRemRangeByLex, |zset| {
        let ranks = range.ranks(zset);
        found = (!has_one_score(zset)).then(|| ranks.clone());
        ranks
    })?;
    if let Some(ranks) = found.filter(|ranks| !ranks.is_empty()) {
        // If scores differ, the range depends on the encoding, so its ranks are propagated.
        ctx.db.effects.rewrite(|| {
            let words = [&b"ZREMRANGEBYRANK"[..], args.at(1)].map(<[u8]>::to_vec);
            words.into_iter().chain(rank_words(&ranks)).collect()
        });
    }
    Ok(Outcome::Done)
}

fn remove_range(
    ctx: &mut WriteCtx<'_>,
    args: Args<'_>,
    event: Event,
    ranks: impl FnOnce(ZsetRef<'_>) -> Range<usize>,
) -> Run {
    let Some(mut edit) = ctx.db.edit_zset(args.key(1), ctx.limits.zset)? else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    let ranks = ranks(edit.value().view());
    let removed = ranks.len();
    if removed == 0 {
        edit.unchanged();
    } else {
        let (zset, context) = edit.parts();
        zset.remove_ranks(ranks, context);
        edit.done(event, removed as u64);
    }
    ctx.reply.int(removed as i64);
    Ok(Outcome::Done)
}
