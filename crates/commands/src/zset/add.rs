//! ZADD and ZINCRBY.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::zset::common::score_at;
use sluice_keyspace::{Event, Key, ZsetEdit};
use sluice_value::ZsetEncoding;

/// The options of ZADD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddFlags {
    /// NX: existing members stay unchanged.
    pub(crate) nx: bool,
    /// XX: no member is added.
    pub(crate) xx: bool,
    /// GT: scores change only to greater ones.
    pub(crate) gt: bool,
    /// LT: scores change only to smaller ones.
    pub(crate) lt: bool,
    /// CH: the reply counts changed members too.
    pub(crate) ch: bool,
    /// INCR: the number is added to the score.
    pub(crate) incr: bool,
}

impl AddFlags {
    /// Reads the options, which follow the key; the result includes the position after them.
    fn parse(args: Args<'_>) -> (AddFlags, usize) {
        let mut flags = AddFlags::default();
        let mut at = 2;
        loop {
            // Options begin with a letter, but most commands have no options and so a number in this place.
            if !args.get(at).is_some_and(|word| word.first().is_some_and(u8::is_ascii_alphabetic)) {
                return (flags, at);
            }
            let flag = match () {
                () if args.is(at, "NX") => &mut flags.nx,
                () if args.is(at, "XX") => &mut flags.xx,
                () if args.is(at, "CH") => &mut flags.ch,
                () if args.is(at, "INCR") => &mut flags.incr,
                () if args.is(at, "GT") => &mut flags.gt,
                () if args.is(at, "LT") => &mut flags.lt,
                () => return (flags, at),
            };
            *flag = true;
            at += 1;
        }
    }

    /// Returns an error if the options contradict each other or do not fit `count` elements.
    fn check(self, count: usize) -> Result<(), CmdError> {
        if self.nx && self.xx {
            return Err(CmdError::text("ERR XX and NX options at the same time are not compatible"));
        }
        if self.nx && (self.gt || self.lt) || self.gt && self.lt {
            return Err(CmdError::text("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.incr && count > 1 {
            return Err(CmdError::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }
}

pub(super) fn zadd(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (flags, first) = AddFlags::parse(args);
    let words = args.len() - first;
    if words == 0 || !words.is_multiple_of(2) {
        return Err(CmdError::Syntax);
    }
    flags.check(words / 2)?;
    add_pairs(ctx, args, flags, first)
}

pub(super) fn zincrby(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    // If the number of ZINCRBY is the name of an option of ZADD, the reference takes it for the option and
    // misses the elements, because both commands share a parser.
    if AddFlags::parse(args).1 != 2 {
        return Err(CmdError::Syntax);
    }
    add_pairs(ctx, args, AddFlags { incr: true, ..AddFlags::default() }, 2)
}

fn add_pairs(ctx: &mut WriteCtx<'_>, args: Args<'_>, flags: AddFlags, first: usize) -> Run {
    let member = |pair: usize| args.at(first + 2 * pair + 1);
    if args.len() - first == 2 {
        let score = score_at(args, first)?;
        return op_add(ctx, args.key(1), flags, [(member(0), score)].into_iter());
    }
    let mut pairs = Vec::with_capacity((args.len() - first) / 2);
    for pair in 0..(args.len() - first) / 2 {
        pairs.push((member(pair), score_at(args, first + 2 * pair)?));
    }
    op_add(ctx, args.key(1), flags, pairs.iter().copied())
}

/// Adds elements to a sorted set, or changes their scores, and replies.
pub(crate) fn op_add<'m>(
    ctx: &mut WriteCtx<'_>,
    key: Key<'_>,
    flags: AddFlags,
    elements: impl ExactSizeIterator<Item = (&'m [u8], f64)> + Clone,
) -> Run {
    let limits = ctx.limits.zset;
    if flags.xx && ctx.db.look(key).is_none() {
        reply_added(ctx, flags, ZaddResult::default());
        return Ok(Outcome::Done);
    }
    let mut edit = ctx.db.edit_or_create_zset(key, limits)?;
    let zset = edit.parts().0;
    if zset.encoding() == ZsetEncoding::Listpack {
        let longest = elements.clone().map(|(member, _)| member.len()).max().unwrap_or(0);
        zset.convert_before_adding(elements.len(), longest, limits);
    }
    let mut added = ZaddResult::default();
    for (member, score) in elements {
        if let Err(error) = add_one(&mut edit, flags, (member, score), &mut added) {
            // Only INCR can fail, and it takes one element, so nothing was changed before.
            edit.unchanged();
            return Err(error);
        }
    }
    match added.new + added.changed {
        0 => edit.unchanged(),
        changes => edit.done(if flags.incr { Event::ZIncr } else { Event::ZAdd }, changes),
    }
    reply_added(ctx, flags, added);
    Ok(Outcome::Done)
}

/// Result of adding elements.
#[derive(Clone, Copy, Debug, Default)]
struct ZaddResult {
    new: u64,
    changed: u64,
    /// The new score of the last element that the options admitted; `None` if there is none.
    score: Option<f64>,
}

fn add_one(
    edit: &mut ZsetEdit<'_>,
    flags: AddFlags,
    (member, score): (&[u8], f64),
    added: &mut ZaddResult,
) -> Result<(), CmdError> {
    let (zset, context) = edit.parts();
    let mut is_nan = false;
    zset.change(member, context, |old| {
        let Some(old) = old else {
            if flags.xx {
                return None;
            }
            added.new += 1;
            added.score = Some(score);
            return added.score;
        };
        let new = if flags.incr { old + score } else { score };
        is_nan = new.is_nan();
        if flags.nx || is_nan || flags.gt && new <= old || flags.lt && new >= old {
            return None;
        }
        added.score = Some(new);
        if new == old {
            return None;
        }
        added.changed += 1;
        added.score
    });
    if is_nan && !flags.nx {
        return Err(CmdError::text("ERR resulting score is not a number (NaN)"));
    }
    Ok(())
}

fn reply_added(ctx: &mut WriteCtx<'_>, flags: AddFlags, added: ZaddResult) {
    match added.score {
        Some(score) if flags.incr => ctx.reply.double(score),
        None if flags.incr => ctx.reply.null(),
        Some(_) | None => {
            ctx.reply.int((added.new + if flags.ch { added.changed } else { 0 }) as i64);
        }
    }
}
