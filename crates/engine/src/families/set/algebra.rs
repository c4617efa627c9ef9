//! Intersections, unions and differences.

use super::{reply_member, set_of, slow};
use crate::args::Args;
use crate::ctx::{Outcome, ReadCtx, Run, WriteCtx};
use crate::error::CmdError;
use sluice_base::num::{IntBuffer, parse_i64};
use sluice_keyspace::{DbRef, Event, NewValue, SetExpiry};
use sluice_resp::Reply;
use sluice_value::{
    ListItem, Set, SetContext, SetEncoding, SetFinder, SetGathering, SetLimits, SetRef, Type,
};
use std::ops::Range;

pub(super) fn sinter(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let sets = sets_of(&mut ctx.db, args, 1..args.len())?;
    answer(ctx, &sets, SetOperation::Inter)
}

pub(super) fn sdiff(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let sets = sets_of(&mut ctx.db, args, 1..args.len())?;
    answer(ctx, &sets, SetOperation::Diff)
}

pub(super) fn sunion(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let sets = sets_of(&mut ctx.db, args, 1..args.len())?;
    let limits = ctx.limits.set;
    answer(ctx, &sets, SetOperation::Union(limits))
}

pub(super) fn sinterstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, Event::SInterStore, |sets, limits| gathered(limits, |visit| intersect(sets, visit)))
}

pub(super) fn sdiffstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, Event::SDiffStore, |sets, limits| gathered(limits, |visit| subtract(sets, visit)))
}

pub(super) fn sunionstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, Event::SUnionStore, |sets, limits| {
        if is_looked_up(sets) {
            return gathered(limits, |visit| unite_by_looking_up(sets, visit));
        }
        // What is stored has each member once: all may be added.
        let (mut result, mut context) = (Set::default(), SetContext { limits, ..SetContext::default() });
        let mut digits = IntBuffer::new();
        for member in sets.iter().flatten().flat_map(|set| set.iter()) {
            result.add(member.bytes(&mut digits), &mut context);
        }
        result
    })
}

pub(super) fn sintercard(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    const FEW: CmdError = CmdError::text("ERR numkeys should be greater than 0");
    let count = parse_i64(args.at(1)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(FEW)?;
    if count > args.len() - 2 {
        return Err(CmdError::text("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut at = 2 + count;
    while at < args.len() {
        if !args.is(at, "LIMIT") || at + 1 == args.len() {
            return Err(CmdError::Syntax);
        }
        let given = parse_i64(args.at(at + 1)).and_then(|limit| usize::try_from(limit).ok());
        limit = given.ok_or(CmdError::text("ERR LIMIT can't be negative"))?;
        at += 2;
    }
    let sets = sets_of(&mut ctx.db, args, 2..2 + count)?;
    if ctx.slow.suits(SetOperation::Inter.visited(&sets)) {
        return ctx.slow.begin(|| slow::counted(&sets, limit));
    }
    ctx.reply.int(count_common(&sets, limit) as i64);
    Ok(Outcome::Done)
}

/// How many members all of the sets have, counted up to a limit; 0: none.
pub(super) fn count_common(sets: &[Option<SetRef<'_>>], limit: usize) -> usize {
    let mut found = 0;
    intersect(sets, &mut |_| {
        found += 1;
        found != limit
    });
    found
}

/// What is made of several sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum SetOperation {
    Inter,
    Diff,
    /// With the limits of the set that remembers what was seen.
    Union(SetLimits),
}

impl SetOperation {
    /// How many members are walked.
    fn visited(self, sets: &[Option<SetRef<'_>>]) -> usize {
        let mut lens = sets.iter().map(|set| set.map_or(0, SetRef::len));
        match self {
            SetOperation::Inter => lens.min().unwrap_or(0),
            SetOperation::Diff => lens.next().unwrap_or(0),
            SetOperation::Union(_) => lens.sum(),
        }
    }

    /// The result as a reply.
    pub(super) fn reply(self, sets: &[Option<SetRef<'_>>], reply: &mut Reply<'_>) {
        let deferred = reply.defer();
        let mut count = 0;
        let visit: Visit<'_> = &mut |member| {
            reply_member(reply, member);
            count += 1;
            true
        };
        match self {
            SetOperation::Inter => intersect(sets, visit),
            SetOperation::Diff => subtract(sets, visit),
            SetOperation::Union(limits) => unite(sets, limits, visit),
        }
        reply.end_set(deferred, count);
    }
}

fn answer(ctx: &mut ReadCtx<'_>, sets: &[Option<SetRef<'_>>], operation: SetOperation) -> Run {
    if ctx.slow.suits(operation.visited(sets)) {
        return ctx.slow.begin(|| slow::combined(sets, operation));
    }
    operation.reply(sets, &mut ctx.reply);
    Ok(Outcome::Done)
}

/// What the keys of these arguments hold.
fn sets_of<'d>(
    db: &mut DbRef<'d>,
    args: Args<'_>,
    keys: Range<usize>,
) -> Result<Vec<Option<SetRef<'d>>>, CmdError> {
    keys.map(|at| db.get(args.key(at)).map(set_of).transpose()).collect()
}

/// Sees a member; whether the next one is wanted.
type Visit<'v> = &'v mut dyn FnMut(ListItem<'_>) -> bool;

/// Visits what is in all of the sets. Cost: the members of the smallest, looked up in each other.
fn intersect(sets: &[Option<SetRef<'_>>], visit: Visit<'_>) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<SetRef<'_>>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    let mut others: Vec<_> = others.iter().map(|set| set.finder()).collect();
    let mut digits = IntBuffer::new();
    for member in smallest.iter() {
        let bytes = member.bytes(&mut digits);
        if others.iter_mut().all(|set| set.contains(bytes)) && !visit(member) {
            return;
        }
    }
}

/// Visits what is in the first set and in none of the others.
fn subtract(sets: &[Option<SetRef<'_>>], visit: Visit<'_>) {
    let Some((Some(first), others)) = sets.split_first() else { return };
    let mut others: Vec<_> = others.iter().flatten().map(|set| set.finder()).collect();
    let mut digits = IntBuffer::new();
    for member in first.iter() {
        let bytes = member.bytes(&mut digits);
        if !others.iter_mut().any(|set| set.contains(bytes)) && !visit(member) {
            return;
        }
    }
}

/// Visits what is in any of the sets, once.
fn unite(sets: &[Option<SetRef<'_>>], limits: SetLimits, visit: Visit<'_>) {
    if is_looked_up(sets) {
        return unite_by_looking_up(sets, visit);
    }
    let (mut seen, mut digits) = (Set::new(SetEncoding::Hashtable, limits), IntBuffer::new());
    let mut context = SetContext { limits, ..SetContext::default() };
    for member in sets.iter().flatten().flat_map(|set| set.iter()) {
        if seen.add(member.bytes(&mut digits), &mut context) && !visit(member) {
            return;
        }
    }
}

/// Whether a union looks each member up in the sets before its own, and does not remember those that were visited: a look-up
/// in the order of a table takes a fifth of an insertion.
fn is_looked_up(sets: &[Option<SetRef<'_>>]) -> bool {
    let mut before_last = sets.iter().flatten();
    let _last = before_last.next_back();
    let searched: usize = before_last.clone().map(|set| set.searched_len()).sum();
    before_last.count() < LOOKED_UP_MAX && searched <= SEARCHED_LEN_MAX
}

/// Sets of a union in which a member is looked up, and one.
const LOOKED_UP_MAX: usize = 5;
/// To search rows of more members, all rows together, takes longer than an insertion into a table.
const SEARCHED_LEN_MAX: usize = 128;

/// Visits what is in any of the sets, once: of each set, what is in none before it.
fn unite_by_looking_up(sets: &[Option<SetRef<'_>>], visit: Visit<'_>) {
    let mut before: Vec<SetFinder<'_>> = Vec::new();
    let mut digits = IntBuffer::new();
    for set in sets.iter().flatten() {
        for member in set.iter() {
            let bytes = member.bytes(&mut digits);
            if !before.iter_mut().any(|set| set.contains(bytes)) && !visit(member) {
                return;
            }
        }
        before.push(set.finder());
    }
}

/// The set of the members that `walk` visits, which differ.
fn gathered(limits: SetLimits, walk: impl FnOnce(Visit<'_>)) -> Set {
    let (mut members, mut digits) = (SetGathering::new(limits), IntBuffer::new());
    walk(&mut |member| {
        members.push(member.bytes(&mut digits));
        true
    });
    members.finish()
}

/// Stores what `make` makes of the sets under the first key, which goes where that is empty.
fn store(
    ctx: &mut WriteCtx<'_>,
    args: Args<'_>,
    event: Event,
    make: impl FnOnce(&[Option<SetRef<'_>>], SetLimits) -> Set,
) -> Run {
    let mut db = ctx.db.as_read_of((2..args.len()).map(|at| args.key(at)), Some(Type::Set));
    let sets = sets_of(&mut db, args, 2..args.len())?;
    let result = make(&sets, ctx.limits.set);
    drop(sets);
    let (target, len) = (args.key(1), result.len());
    if len == 0 {
        ctx.db.remove_stored(target, Event::Del);
    } else {
        ctx.db.set(target, NewValue::Set(result), SetExpiry::Clear, event);
    }
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set of so many members that reports this encoding.
    fn set(encoding: SetEncoding, len: usize) -> Set {
        let (mut set, mut context) = (Set::new(encoding, SetLimits::default()), SetContext::default());
        for number in 0..len {
            let member = match encoding {
                SetEncoding::Intset => number.to_string(),
                SetEncoding::Listpack | SetEncoding::Hashtable => format!("m{number}"),
            };
            set.add(member.as_bytes(), &mut context);
        }
        assert_eq!((set.encoding(), set.len()), (encoding, len));
        set
    }

    #[test]
    fn a_union_looks_members_up_where_rows_are_short_together() {
        let (row, short, ints, tree) = (
            set(SetEncoding::Listpack, 100),
            set(SetEncoding::Listpack, 28),
            set(SetEncoding::Intset, 400),
            set(SetEncoding::Hashtable, 3000),
        );
        for (sets, expected) in [
            (&[&row, &tree][..], true),
            (&[&row, &short, &tree], true),
            (&[&row, &ints, &short, &tree, &row], true),
            (&[&row, &row, &tree], false),
            (&[&row, &short, &short, &tree], false),
            (&[&tree, &tree, &tree, &tree, &tree], true),
            (&[&tree, &tree, &tree, &tree, &tree, &tree], false),
            (&[&row], true),
            (&[], true),
        ] {
            let views: Vec<Option<SetRef<'_>>> = sets.iter().map(|set| Some(set.view())).collect();
            assert_eq!(
                is_looked_up(&views),
                expected,
                "{:?}",
                sets.iter().map(|set| set.len()).collect::<Vec<_>>()
            );
        }
    }
}
