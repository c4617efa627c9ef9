//! ZRANGE and its variants: ranges of ranks, of scores and of members.

mod slow;

use super::combine::{longest, store_sorted, stored_elements};
use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::item_commands::is_told_by_result;
use crate::outcome::{Outcome, Run};
use crate::zset::common::{ElementsShown, reply_elements, zset_of};
use sluice_base::num::parse_f64_bound;
use sluice_keyspace::{Argv, Event};
use sluice_value::{Direction, Edge, Zset, ZsetEncoding, ZsetRef};
use std::ops::Range;

/// A range of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoreRange {
    from: Edge<'static>,
    to: Edge<'static>,
}

impl ScoreRange {
    /// Parses both bounds, which are floats; a leading `(` excludes the bound itself.
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<ScoreRange, CmdError> {
        let bound = |text: &[u8]| -> Result<(f64, bool), CmdError> {
            let (text, is_open) = match text.strip_prefix(b"(") {
                Some(text) => (text, true),
                None => (text, false),
            };
            let score =
                parse_f64_bound(text).ok_or(const { CmdError::text("ERR min or max is not a float") })?;
            Ok((score, is_open))
        };
        let from = match bound(min)? {
            (score, true) => Edge::AfterScore(score),
            (score, false) => Edge::Score(score),
        };
        let to = match bound(max)? {
            (score, true) => Edge::Score(score),
            (score, false) => Edge::AfterScore(score),
        };
        Ok(ScoreRange { from, to })
    }

    /// The ranks of the elements in the range.
    pub(super) fn ranks(self, zset: ZsetRef<'_>) -> Range<usize> {
        let start = zset.count_before(self.from);
        start..zset.count_before(self.to).max(start)
    }
}

/// A range of members, for sets in which all scores are the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct LexRange<'a> {
    min: LexBound<'a>,
    max: LexBound<'a>,
}

#[derive(Clone, Copy, Debug)]
enum LexBound<'a> {
    /// Before all members: `-`.
    Lowest,
    /// After all members: `+`.
    Highest,
    /// The member, included: `[member`.
    Closed(&'a [u8]),
    /// The member, excluded: `(member`.
    Open(&'a [u8]),
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Result<LexBound<'a>, CmdError> {
        match text {
            // In the reference the word ends at a zero byte.
            [b'-'] | [b'-', 0, ..] => Ok(LexBound::Lowest),
            [b'+'] | [b'+', 0, ..] => Ok(LexBound::Highest),
            [b'[', member @ ..] => Ok(LexBound::Closed(member)),
            [b'(', member @ ..] => Ok(LexBound::Open(member)),
            _ => Err(CmdError::text("ERR min or max not valid string range item")),
        }
    }
}

impl<'a> LexRange<'a> {
    pub(super) fn parse(min: &'a [u8], max: &'a [u8]) -> Result<LexRange<'a>, CmdError> {
        Ok(LexRange { min: LexBound::parse(min)?, max: LexBound::parse(max)? })
    }

    fn is_above_min(self, member: &[u8]) -> bool {
        match self.min {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Closed(min) => member >= min,
            LexBound::Open(min) => member > min,
        }
    }

    fn is_below_max(self, member: &[u8]) -> bool {
        match self.max {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Closed(max) => member <= max,
            LexBound::Open(max) => member < max,
        }
    }

    /// Whether no member can be in the range.
    fn is_empty(self) -> bool {
        match (self.min, self.max) {
            (LexBound::Highest, _) | (_, LexBound::Lowest) => true,
            (LexBound::Lowest, _) | (_, LexBound::Highest) => false,
            (LexBound::Closed(min), LexBound::Closed(max)) => min > max,
            (LexBound::Closed(min) | LexBound::Open(min), LexBound::Closed(max) | LexBound::Open(max)) => {
                min >= max
            }
        }
    }

    /// The ranks of the members in the range, as a walk from the lowest rank upwards finds them.
    pub(super) fn ranks(self, zset: ZsetRef<'_>) -> Range<usize> {
        self.ranks_towards(zset, Direction::Up)
    }

    /// The ranks of the range, as a walk in `direction` finds them; the direction matters only if scores
    /// differ.
    fn ranks_towards(self, zset: ZsetRef<'_>, direction: Direction) -> Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        match zset.encoding() {
            ZsetEncoding::Listpack => self.ranks_of_listpack(zset, direction),
            ZsetEncoding::Skiplist => {
                let start = match self.min {
                    LexBound::Lowest => 0,
                    LexBound::Highest => zset.len(),
                    LexBound::Closed(min) => zset.count_before(Edge::Member(min)),
                    LexBound::Open(min) => zset.count_before(Edge::AfterMember(min)),
                };
                let end = match self.max {
                    LexBound::Lowest => 0,
                    LexBound::Highest => zset.len(),
                    LexBound::Closed(max) => zset.count_before(Edge::AfterMember(max)),
                    LexBound::Open(max) => zset.count_before(Edge::Member(max)),
                };
                start..end.max(start)
            }
        }
    }

    /// The ranks that the reference finds by walking a listpack, even if scores differ.
    fn ranks_of_listpack(self, zset: ZsetRef<'_>, direction: Direction) -> Range<usize> {
        let len = zset.len();
        let first = zset.iter(0..1, Direction::Up).next();
        let last = zset.iter(len.saturating_sub(1)..len, Direction::Up).next();
        let (Some((first, _)), Some((last, _))) = (first, last) else { return 0..0 };
        if !self.is_above_min(last) || !self.is_below_max(first) {
            return 0..0;
        }
        let mut walk = zset.iter(0..len, direction).map(|(member, _)| member);
        let mut skipped = 0;
        let mut taken = 0;
        let enters = |member: &[u8]| match direction {
            Direction::Up => self.is_above_min(member),
            Direction::Down => self.is_below_max(member),
        };
        let stays = |member: &[u8]| match direction {
            Direction::Up => self.is_below_max(member),
            Direction::Down => self.is_above_min(member),
        };
        for member in walk.by_ref() {
            if enters(member) {
                taken = usize::from(stays(member));
                break;
            }
            skipped += 1;
        }
        if taken > 0 {
            taken += walk.take_while(|member| stays(member)).count();
        }
        match direction {
            Direction::Up => skipped..skipped + taken,
            Direction::Down => len - skipped - taken..len - skipped,
        }
    }
}

/// Whether all scores are the same, as a range of members requires. The range then has the same result in
/// each encoding. Cost: O(log n).
pub(super) fn has_one_score(zset: ZsetRef<'_>) -> bool {
    let score_at = |rank: usize| zset.iter(rank..rank + 1, Direction::Up).next().map(|(_, score)| score);
    zset.is_empty() || score_at(0) == score_at(zset.len() - 1)
}

/// The first and the last rank of a range that is not empty, as two arguments of a command.
pub(super) fn rank_words(ranks: &Range<usize>) -> [Vec<u8>; 2] {
    [ranks.start, ranks.end - 1].map(|rank| rank.to_string().into_bytes())
}

/// The ranks from `start` to `stop`, both included, clamped to `len` and counted in `direction`.
pub(super) fn rank_range(start: i64, stop: i64, len: usize, direction: Direction) -> Range<usize> {
    let rank = |index: i64| match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let start = rank(start).unwrap_or(0);
    let Some(stop) = rank(stop) else { return 0..0 };
    if start > stop || start >= len {
        return 0..0;
    }
    let end = stop.saturating_add(1).min(len);
    match direction {
        Direction::Up => start..end,
        Direction::Down => len - end..len - start,
    }
}

/// The kind of range and its bounds.
#[derive(Clone, Copy, Debug)]
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexRange<'a>),
}

/// The kind of bounds that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeBy {
    Rank,
    Score,
    Lex,
}

/// The parts of a range that the command's name determines; `None`: an option determines the part.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    by: Option<RangeBy>,
    direction: Option<Direction>,
    /// Whether the result is stored: WITHSCORES and XX are then refused.
    is_stored: bool,
}

/// The range that a command requests.
#[derive(Clone, Copy, Debug)]
struct RangeCall<'a> {
    bounds: Bounds<'a>,
    direction: Direction,
    /// The two numbers of LIMIT: how many elements are skipped, and how many are returned. A negative limit
    /// means all; [`RangeCall::ranks`] explains negative offsets.
    offset: i64,
    limit: i64,
    with_scores: bool,
    /// Whether the reply for an absent key differs from that for an empty range.
    tells_absence: bool,
}

impl<'a> RangeCall<'a> {
    /// Parses a range; `at` is the position of the first bound.
    fn parse(args: Args<'a>, at: usize, fixed: Fixed) -> Result<RangeCall<'a>, CmdError> {
        let (mut by, mut direction) = (fixed.by, fixed.direction);
        let (mut offset, mut limit, mut with_scores) = (0, -1, false);
        let mut tells_absence = false;
        let mut i = at + 2;
        while i < args.len() {
            if !fixed.is_stored && args.is(i, "WITHSCORES") {
                with_scores = true;
            } else if !fixed.is_stored && args.is(i, "XX") {
                tells_absence = true;
            } else if args.is(i, "LIMIT") && i + 2 < args.len() {
                (offset, limit) = (args.int(i + 1)?, args.int(i + 2)?);
                i += 2;
            } else if fixed.direction.is_none() && direction.is_none() && args.is(i, "REV") {
                direction = Some(Direction::Down);
            } else if fixed.by.is_none() && by.is_none() && args.is(i, "BYLEX") {
                by = Some(RangeBy::Lex);
            } else if fixed.by.is_none() && by.is_none() && args.is(i, "BYSCORE") {
                by = Some(RangeBy::Score);
            } else {
                return Err(CmdError::Syntax);
            }
            i += 1;
        }
        let (by, direction) = (by.unwrap_or(RangeBy::Rank), direction.unwrap_or(Direction::Up));
        if limit != -1 && by == RangeBy::Rank {
            return Err(CmdError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == RangeBy::Lex {
            return Err(CmdError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (min, max) = match direction {
            Direction::Up => (args.at(at), args.at(at + 1)),
            Direction::Down => (args.at(at + 1), args.at(at)),
        };
        let bounds = match by {
            RangeBy::Rank => Bounds::Ranks(args.int(at)?, args.int(at + 1)?),
            RangeBy::Score => Bounds::Scores(ScoreRange::parse(min, max)?),
            RangeBy::Lex => Bounds::Members(LexRange::parse(min, max)?),
        };
        Ok(RangeCall { bounds, direction, offset, limit, with_scores, tells_absence })
    }

    /// Whether the encoding of the set may affect the result; another server may have another encoding.
    fn asks_encoding(&self, zset: ZsetRef<'_>) -> bool {
        match self.bounds {
            Bounds::Ranks(..) => false,
            Bounds::Scores(_) => self.offset < 0,
            Bounds::Members(_) => self.offset < 0 || !has_one_score(zset),
        }
    }

    /// The requested ranks of the elements of a set.
    fn ranks(&self, zset: ZsetRef<'_>) -> Range<usize> {
        let all = match self.bounds {
            Bounds::Ranks(start, stop) => return rank_range(start, stop, zset.len(), self.direction),
            Bounds::Scores(range) => range.ranks(zset),
            Bounds::Members(range) => range.ranks_towards(zset, self.direction),
        };
        let offset = match usize::try_from(self.offset) {
            Ok(offset) => offset.min(all.len()),
            // In the reference, a negative offset counts from the end if the set is a skiplist, and
            // selects nothing if it is a listpack.
            Err(_) => {
                let from_end = usize::try_from(self.offset.unsigned_abs()).unwrap_or(usize::MAX);
                match all.len().checked_sub(from_end) {
                    Some(offset) if zset.encoding() == ZsetEncoding::Skiplist => offset,
                    Some(_) | None => return 0..0,
                }
            }
        };
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX).min(all.len() - offset);
        match self.direction {
            Direction::Up => all.start + offset..all.start + offset + count,
            Direction::Down => all.end - offset - count..all.end - offset,
        }
    }
}

pub(super) fn zrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_range(ctx, args, None, None)
}

pub(super) fn zrevrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_range(ctx, args, Some(RangeBy::Rank), Some(Direction::Down))
}

pub(super) fn zrangebyscore(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_range(ctx, args, Some(RangeBy::Score), Some(Direction::Up))
}

pub(super) fn zrevrangebyscore(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_range(ctx, args, Some(RangeBy::Score), Some(Direction::Down))
}

pub(super) fn zrangebylex(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_range(ctx, args, Some(RangeBy::Lex), Some(Direction::Up))
}

pub(super) fn zrevrangebylex(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_range(ctx, args, Some(RangeBy::Lex), Some(Direction::Down))
}

fn reply_range(
    ctx: &mut ReadCtx<'_>,
    args: Args<'_>,
    by: Option<RangeBy>,
    direction: Option<Direction>,
) -> Run {
    let call = RangeCall::parse(args, 2, Fixed { by, direction, is_stored: false })?;
    let Some(entry) = ctx.db.get(args.key(1)) else {
        match call.tells_absence {
            true => ctx.reply.null_array(),
            false => ctx.reply.array(0),
        }
        return Ok(Outcome::Done);
    };
    let zset = zset_of(entry)?;
    let ranks = call.ranks(zset);
    let (count, shown) = (ranks.len(), ElementsShown::with_scores(call.with_scores));
    if ctx.slow.suits(count) {
        return ctx.slow.begin(|| slow::range(zset, ranks, call.direction, shown));
    }
    reply_elements(&mut ctx.reply, zset.iter(ranks, call.direction), count, shown);
    Ok(Outcome::Done)
}

pub(super) fn zrangestore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let call = RangeCall::parse(args, 3, Fixed { by: None, direction: None, is_stored: true })?;
    let limits = ctx.limits.zset;
    let mut context = ctx.db.zset_context(limits);
    let mut by_encoding = None;
    let new = match ctx.db.get(args.key(2)) {
        Some(entry) => {
            let zset = zset_of(entry)?;
            let ranks = call.ranks(zset);
            by_encoding = call.asks_encoding(zset).then(|| ranks.clone());
            let elements: Vec<(&[u8], f64)> = zset.iter(ranks, Direction::Up).collect();
            let encoding = limits.encoding_for(elements.len(), longest(&elements));
            Zset::from_sorted(elements.into_iter(), encoding, &mut context)
        }
        None => Zset::new(ZsetEncoding::Listpack),
    };
    let (target, told) = (args.key(1), is_told_by_result(&ctx.db).then(|| new.share()));
    let existed = store_sorted(ctx, target, new, Event::ZRangeStore);
    if let Some(told) = told {
        ctx.db.effects.rewrite_encoded(|| stored_elements(target, existed, &told));
    } else if let Some(ranks) = by_encoding {
        ctx.db.effects.rewrite(|| stored_ranks(args, &ranks));
    }
    Ok(Outcome::Done)
}

/// The command for the replication stream: ZRANGESTORE with these ranks, which are the same in each encoding,
/// or DEL of the target if there are no ranks.
fn stored_ranks(args: Args<'_>, ranks: &Range<usize>) -> Argv {
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Argv>();
    if ranks.is_empty() {
        return words(&[b"DEL", args.at(1)]);
    }
    let mut argv = words(&[args.at(0), args.at(1), args.at(2)]);
    argv.extend(rank_words(ranks));
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ranks_are_cut_to_the_set_in_both_directions() {
        assert_eq!(rank_range(0, -1, 5, Direction::Up), 0..5);
        assert_eq!(rank_range(-2, 100, 5, Direction::Up), 3..5);
        assert_eq!(rank_range(0, 1, 5, Direction::Down), 3..5);
        assert_eq!(rank_range(-1, -1, 5, Direction::Down), 0..1);
        for direction in [Direction::Up, Direction::Down] {
            assert_eq!(rank_range(i64::MIN, i64::MAX, 5, direction), 0..5);
            for (start, stop) in [(3, 2), (5, 9), (0, -6), (i64::MAX, i64::MIN), (-1, -2)] {
                assert!(rank_range(start, stop, 5, direction).is_empty());
            }
        }
    }
}
