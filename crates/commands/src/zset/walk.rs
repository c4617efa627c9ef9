//! ZRANDMEMBER and ZSCAN.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::error::CmdError;
use crate::generic::{parse_cursor, reply_scan_cursor};
use crate::name_filter::NameFilter;
use crate::outcome::{Outcome, Run};
use crate::zset::common::{ElementsShown, reply_elements, zset_of};
use sluice_base::num::push_f64_17;
use sluice_resp::Reply;
use sluice_value::{Direction, ZsetEncoding, ZsetRef};
use std::collections::BTreeSet;

pub(super) fn zrandmember(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    if args.len() == 2 {
        return one_random(ctx, args);
    }
    let count = match args.int(2)? {
        i64::MIN => return Err(CmdError::text(OUT_OF_MAGNITUDE)),
        count => count,
    };
    if args.len() > 4 || args.len() == 4 && !args.is(3, "WITHSCORES") {
        return Err(CmdError::Syntax);
    }
    let with_scores = args.len() == 4;
    if with_scores && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(CmdError::text("ERR value is out of range"));
    }
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let zset = zset_of(entry)?;
    let shown = ElementsShown::with_scores(with_scores);
    let len = zset.len() as u64;
    if count < 0 {
        // A negative count allows repetitions.
        let count = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let rng = &mut *ctx.rng;
        let drawn = (0..count).filter_map(|_| at_rank(zset, rng.below(len)));
        reply_elements(&mut ctx.reply, drawn, count, shown);
        return Ok(Outcome::Done);
    }
    let count = count.unsigned_abs().min(len);
    if count == len {
        // All members are wanted: they are written in the reference's order.
        reply_elements(&mut ctx.reply, zset.iter(0..zset.len(), Direction::Down), zset.len(), shown);
        return Ok(Outcome::Done);
    }
    // If more than half are wanted, the ranks to leave out are drawn instead.
    let drawn = distinct(ctx.rng, len, count.min(len - count));
    let is_drawn = |rank: &u64| drawn.contains(rank) == (count <= len - count);
    if count <= len - count {
        reply_elements(
            &mut ctx.reply,
            drawn.iter().filter_map(|rank| at_rank(zset, *rank)),
            count as usize,
            shown,
        );
    } else {
        let kept =
            (0..len).zip(zset.iter_all()).filter(|(rank, _)| is_drawn(rank)).map(|(_, element)| element);
        reply_elements(&mut ctx.reply, kept, count as usize, shown);
    }
    Ok(Outcome::Done)
}

fn one_random(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let drawn = match ctx.db.get(args.key(1)) {
        Some(entry) => {
            let zset = zset_of(entry)?;
            at_rank(zset, ctx.rng.below(zset.len() as u64))
        }
        None => None,
    };
    match drawn {
        Some((member, _)) => ctx.reply.bulk(member),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

fn at_rank(zset: ZsetRef<'_>, rank: u64) -> Option<(&[u8], f64)> {
    let rank = rank as usize;
    zset.iter(rank..rank + 1, Direction::Up).next()
}

/// `count` different random numbers below `len`; `count` is at most half of `len`.
fn distinct(rng: &mut sluice_base::Rng, len: u64, count: u64) -> BTreeSet<u64> {
    let mut drawn = BTreeSet::new();
    while (drawn.len() as u64) < count {
        drawn.insert(rng.below(len));
    }
    drawn
}

const OUT_OF_MAGNITUDE: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";

pub(super) fn zscan(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut cursor = parse_cursor(args.at(2)).ok_or(CmdError::text("ERR invalid cursor"))?;
    let zset = match ctx.db.get(args.key(1)) {
        Some(entry) => zset_of(entry)?,
        None => {
            ctx.reply.array(2);
            ctx.reply.bulk(b"0");
            ctx.reply.array(0);
            return Ok(Outcome::Done);
        }
    };
    let options = ZscanOptions::parse(args)?;
    let mut filter = NameFilter::new(options.pattern);
    let mut found: Vec<(Vec<u8>, f64)> = Vec::new();
    let mut seen = 0;
    let mut steps = options.count.saturating_mul(STEPS_PER_ELEMENT);
    loop {
        cursor = zset.scan(cursor, &mut |member, score| {
            seen += 1;
            if filter.passes(member) {
                found.push((member.to_vec(), score));
            }
        });
        steps -= 1;
        if cursor == 0 || seen >= options.count || steps == 0 || filter.has_undecided() {
            break;
        }
    }
    let values = if options.without_scores { 1 } else { 2 };
    // The reference writes scores of a skip list with 17 digits.
    let is_listpack = zset.encoding() == ZsetEncoding::Listpack;
    let items = found.iter().map(|(member, score)| {
        move |reply: &mut Reply<'_>| {
            reply.bulk(member);
            match is_listpack {
                _ if values == 1 => {}
                true => reply.bulk_double(*score),
                false => {
                    let mut digits = Vec::with_capacity(SCORE_BYTES_MAX);
                    push_f64_17(&mut digits, *score);
                    reply.bulk(&digits);
                }
            }
        }
    });
    filter.reply(ctx, |ctx| reply_scan_cursor(ctx, cursor), values, items)
}

/// One call makes at most this many scan steps for each requested element.
const STEPS_PER_ELEMENT: u64 = 10;

/// A score with 17 digits fits in this many bytes.
const SCORE_BYTES_MAX: usize = 32;

/// The options of ZSCAN.
struct ZscanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: u64,
    without_scores: bool,
}

impl<'a> ZscanOptions<'a> {
    fn parse(args: Args<'a>) -> Result<ZscanOptions<'a>, CmdError> {
        let mut options = ZscanOptions { pattern: None, count: 10, without_scores: false };
        let mut i = 3;
        while i < args.len() {
            let value = args.get(i + 1);
            if args.is(i, "COUNT") && value.is_some() {
                let count = args.int(i + 1)?;
                options.count = u64::try_from(count).ok().filter(|n| *n > 0).ok_or(CmdError::Syntax)?;
                i += 1;
            } else if args.is(i, "MATCH") && value.is_some() {
                options.pattern = value.filter(|pattern| *pattern != b"*");
                i += 1;
            } else if args.is(i, "NOSCORES") {
                options.without_scores = true;
            } else if args.is(i, "NOVALUES") {
                return Err(CmdError::text("ERR NOVALUES option can only be used in HSCAN"));
            } else {
                return Err(CmdError::Syntax);
            }
            i += 1;
        }
        Ok(options)
    }
}
