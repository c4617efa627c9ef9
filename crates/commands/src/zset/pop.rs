//! ZPOPMIN, ZPOPMAX, ZMPOP and their blocking variants.
//!
//! A blocking command first does what its variant without `B` does. If there is nothing to take, it
//! waits for one of its keys and is run again when the key holds a sorted set. The replication stream gets
//! ZPOPMIN or ZPOPMAX.

use crate::args::{Args, FirstOfKeys, int_from};
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::list::blocking::{deadline_ms, wait};
use crate::outcome::{Outcome, Run};
use crate::zset::common::{ElementsShown, reply_elements, zset_of};
use sluice_keyspace::{Event, Key};
use sluice_value::{Direction, Type};

/// The end from which elements are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PopEnd {
    Min,
    Max,
}

impl PopEnd {
    /// Reads the word MIN or MAX at `index`.
    fn parse(args: Args<'_>, index: usize) -> Result<PopEnd, CmdError> {
        if args.is(index, "MIN") {
            Ok(PopEnd::Min)
        } else if args.is(index, "MAX") {
            Ok(PopEnd::Max)
        } else {
            Err(CmdError::Syntax)
        }
    }

    fn event(self) -> Event {
        match self {
            PopEnd::Min => Event::ZPopMin,
            PopEnd::Max => Event::ZPopMax,
        }
    }

    /// The name of the command that pops at this end.
    fn pop_name(self) -> &'static [u8] {
        match self {
            PopEnd::Min => b"ZPOPMIN",
            PopEnd::Max => b"ZPOPMAX",
        }
    }
}

pub(super) fn zpopmin(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    pop(ctx, args, PopEnd::Min)
}

pub(super) fn zpopmax(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    pop(ctx, args, PopEnd::Max)
}

fn pop(ctx: &mut WriteCtx<'_>, args: Args<'_>, end: PopEnd) -> Run {
    if args.len() > 3 {
        return Err(CmdError::Syntax);
    }
    let (count, shown) = match args.len() {
        2 => (1, ElementsShown::Flat),
        _ => {
            let count = int_from(args, 2, 0, "ERR value is out of range, must be positive")?;
            (count, ElementsShown::WithScores)
        }
    };
    if count == 0 {
        if let Some(entry) = ctx.db.get_uncounted(args.key(1)) {
            zset_of(entry)?;
        }
        ctx.reply.array(0);
    } else if !op_pop(ctx, args.key(1), end, (count, shown))? {
        ctx.reply.array(0);
    }
    Ok(Outcome::Done)
}

/// Takes up to `count` elements from an end and replies with them; `false`, without a reply, if the
/// key is absent.
fn op_pop(
    ctx: &mut WriteCtx<'_>,
    key: Key<'_>,
    end: PopEnd,
    (count, shown): (usize, ElementsShown),
) -> Result<bool, CmdError> {
    let Some(mut edit) = ctx.db.edit_zset(key, ctx.limits.zset)? else { return Ok(false) };
    let zset = edit.value().view();
    let len = zset.len();
    let count = count.min(len);
    let (ranks, direction) = match end {
        PopEnd::Min => (0..count, Direction::Up),
        PopEnd::Max => (len - count..len, Direction::Down),
    };
    reply_elements(&mut ctx.reply, zset.iter(ranks.clone(), direction), count, shown);
    let (zset, context) = edit.parts();
    zset.remove_ranks(ranks, context);
    edit.done(end.event(), count as u64);
    Ok(true)
}

impl FirstOfKeys<PopEnd> {
    /// Takes elements from the first sorted set that exists; `false`, without a reply, if none does.
    fn pop_first(&self, ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Result<bool, CmdError> {
        for index in self.keys.clone() {
            let key = args.key(index);
            let count = match ctx.db.get_uncounted(key) {
                Some(entry) => zset_of(entry)?.len().min(self.count),
                None => continue,
            };
            ctx.reply.array(2);
            ctx.reply.bulk(key.bytes);
            op_pop(ctx, key, self.end, (count, ElementsShown::Pairs))?;
            let name = self.end.pop_name();
            let argv = || vec![name.to_vec(), key.bytes.to_vec(), count.to_string().into_bytes()];
            ctx.db.effects.rewrite(argv);
            return Ok(true);
        }
        Ok(false)
    }
}

pub(super) fn zmpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let call = FirstOfKeys::parse(args, 1, PopEnd::parse)?;
    if !call.pop_first(ctx, args)? {
        ctx.reply.null_array();
    }
    Ok(Outcome::Done)
}

pub(super) fn bzmpop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let call = FirstOfKeys::parse(args, 2, PopEnd::parse)?;
    let deadline_ms = deadline_ms(ctx, args.at(1))?;
    if call.pop_first(ctx, args)? {
        return Ok(Outcome::Done);
    }
    wait(ctx, call.keys, Type::Zset, deadline_ms)
}

pub(super) fn bzpopmin(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    blocking_pop(ctx, args, PopEnd::Min)
}

pub(super) fn bzpopmax(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    blocking_pop(ctx, args, PopEnd::Max)
}

fn blocking_pop(ctx: &mut WriteCtx<'_>, args: Args<'_>, end: PopEnd) -> Run {
    let last = args.len() - 1;
    let deadline_ms = deadline_ms(ctx, args.at(last))?;
    for index in 1..last {
        let key = args.key(index);
        let Some(mut edit) = ctx.db.edit_zset(key, ctx.limits.zset)? else { continue };
        let zset = edit.value().view();
        let rank = match end {
            PopEnd::Min => 0,
            PopEnd::Max => zset.len() - 1,
        };
        ctx.reply.array(3);
        ctx.reply.bulk(key.bytes);
        for (member, score) in zset.iter(rank..rank + 1, Direction::Up) {
            ctx.reply.bulk(member);
            ctx.reply.double(score);
        }
        let (zset, context) = edit.parts();
        zset.remove_ranks(rank..rank + 1, context);
        edit.done(end.event(), 1);
        ctx.db.effects.rewrite(|| vec![end.pop_name().to_vec(), key.bytes.to_vec()]);
        return Ok(Outcome::Done);
    }
    wait(ctx, 1..last, Type::Zset, deadline_ms)
}
