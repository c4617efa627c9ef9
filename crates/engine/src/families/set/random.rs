//! SPOP and SRANDMEMBER.

use super::{reply_member, set_of};
use crate::args::Args;
use crate::ctx::{Outcome, ReadCtx, Run, WriteCtx};
use crate::error::CmdError;
use sluice_base::Rng;
use sluice_base::num::{IntBuffer, parse_i64};
use sluice_keyspace::{Argv, Event, Key};
use sluice_value::{ListItem, Set, SetEncoding, SetRef};
use std::collections::HashSet;

/// Calls `visit` with `count` different members drawn at random, fewer than there are. Cost: O(count · log n), or O(n).
fn draw(set: SetRef<'_>, count: usize, rng: &mut Rng, mut visit: impl FnMut(ListItem<'_>)) {
    let len = set.len();
    if set.encoding() != SetEncoding::Hashtable || count.saturating_mul(DENSE) > len {
        // Each member is taken with the chance that fills what is left to be drawn.
        let mut left = count;
        for (at, member) in set.iter().enumerate() {
            if rng.below((len - at) as u64) < left as u64 {
                visit(member);
                left -= 1;
            }
        }
        return;
    }
    // Robert Floyd's way: each step adds one rank, and no draw is thrown away.
    let mut ranks = HashSet::with_capacity(count);
    for bound in len - count..len {
        let drawn = rng.below(bound as u64 + 1) as usize;
        let rank = if ranks.insert(drawn) { drawn } else { bound };
        ranks.insert(rank);
        if let Some(member) = set.nth(rank) {
            visit(member);
        }
    }
}

/// Where more than one member of so many is drawn, the set is walked.
const DENSE: usize = 3;

pub(super) fn srandmember(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    if args.len() > 3 {
        return Err(CmdError::Syntax);
    }
    if args.len() == 3 {
        return srandmember_count(ctx, args);
    }
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    let set = set_of(entry)?;
    match set.nth(ctx.rng.below(set.len() as u64) as usize) {
        Some(member) => reply_member(&mut ctx.reply, member),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

fn srandmember_count(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let count = match args.int(2)? {
        i64::MIN => {
            return Err(CmdError::text(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ));
        }
        count => count,
    };
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let set = set_of(entry)?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let reply = &mut ctx.reply;
    if count < 0 {
        // The reply alone would take more memory than there is.
        if wanted > REPEATED_MAX {
            return Err(CmdError::text("ERR value is out of range"));
        }
        reply.array(wanted);
        for _ in 0..wanted {
            if let Some(member) = set.nth(ctx.rng.below(set.len() as u64) as usize) {
                reply_member(reply, member);
            }
        }
    } else if wanted >= set.len() {
        reply.array(set.len());
        set.iter().for_each(|member| reply_member(reply, member));
    } else {
        reply.array(wanted);
        draw(set, wanted, ctx.rng, |member| reply_member(reply, member));
    }
    Ok(Outcome::Done)
}

/// Members that one call returns at most, where they may be returned again and again.
const REPEATED_MAX: usize = 1 << 27;

pub(super) fn spop(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    match args.len() {
        2 => spop_one(ctx, args),
        3 => spop_count(ctx, args),
        _ => Err(CmdError::Syntax),
    }
}

fn spop_one(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    let Some(mut edit) = ctx.db.edit_set(key, ctx.limits.set)? else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    let (set, context) = edit.parts();
    let rank = ctx.rng.below(set.len() as u64) as usize;
    let drawn = set.view().nth(rank).map(|member| {
        reply_member(&mut ctx.reply, member);
        member.bytes(&mut IntBuffer::new()).to_vec()
    });
    let member = drawn.expect("a set in the keyspace has members, and the rank is below their number");
    set.remove(&member, context);
    edit.done(Event::SPop, 1);
    ctx.db.effects.rewrite(|| vec![b"SREM".to_vec(), key.bytes.to_vec(), member]);
    Ok(Outcome::Done)
}

fn spop_count(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let count = parse_i64(args.at(2)).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(CmdError::text("ERR value is out of range, must be positive"))?;
    let key = args.key(1);
    let Some(mut edit) = ctx.db.edit_set(key, ctx.limits.set)? else {
        ctx.reply.set(0);
        return Ok(Outcome::Done);
    };
    let len = edit.value().len();
    if count == 0 {
        edit.unchanged();
        ctx.reply.set(0);
        return Ok(Outcome::Done);
    }
    if count >= len {
        ctx.reply.set(len);
        edit.value().view().iter().for_each(|member| reply_member(&mut ctx.reply, member));
        let empty = Set::new(SetEncoding::Intset, ctx.limits.set);
        edit.replace(empty);
        edit.done(Event::SPop, len as u64);
        let name: &[u8] = if ctx.limits.lazy_server_del { b"UNLINK" } else { b"DEL" };
        ctx.db.effects.rewrite(|| vec![name.to_vec(), key.bytes.to_vec()]);
        return Ok(Outcome::Done);
    }
    let mut drawn = Vec::with_capacity(count);
    ctx.reply.set(count);
    draw(edit.value().view(), count, ctx.rng, |member| {
        drawn.push(member.bytes(&mut IntBuffer::new()).to_vec());
        reply_member(&mut ctx.reply, member);
    });
    // The reference makes a new set of what is left where that is little: a hash table becomes a listpack again.
    if edit.value().encoding() != SetEncoding::Listpack && (len - count).saturating_mul(LITTLE) <= count {
        let rest = rest_of(edit.value(), &drawn, ctx.limits.set);
        edit.replace(rest);
    } else {
        let (set, context) = edit.parts();
        drawn.iter().for_each(|member| {
            set.remove(member, context);
        });
    }
    edit.done(Event::SPop, count as u64);
    ctx.db.effects.rewrite_as(|| removals(key, drawn));
    Ok(Outcome::Done)
}

/// What is left is little where this many times as much is less than what was drawn.
const LITTLE: usize = 5;

/// The set without what was drawn, in the encoding that it begins with.
fn rest_of(set: &Set, drawn: &[Vec<u8>], limits: sluice_value::SetLimits) -> Set {
    let drawn: HashSet<&[u8]> = drawn.iter().map(Vec::as_slice).collect();
    let encoding = match set.encoding() {
        SetEncoding::Intset => SetEncoding::Intset,
        SetEncoding::Listpack | SetEncoding::Hashtable => SetEncoding::Listpack,
    };
    let mut rest = Set::new(encoding, limits);
    let mut context = sluice_value::SetContext { limits, ..Default::default() };
    let mut digits = IntBuffer::new();
    for member in set.view().iter() {
        let bytes = member.bytes(&mut digits);
        if !drawn.contains(bytes) {
            rest.add(bytes, &mut context);
        }
    }
    rest
}

/// The members as commands that remove them, some at a time.
fn removals(key: Key<'_>, members: Vec<Vec<u8>>) -> Vec<Argv> {
    let mut members = members.into_iter();
    let mut commands = Vec::new();
    while members.len() > 0 {
        let mut argv = vec![b"SREM".to_vec(), key.bytes.to_vec()];
        argv.extend(members.by_ref().take(REMOVED_AT_ONCE));
        commands.push(argv);
    }
    commands
}

/// Members that one SREM of the replication stream removes at most.
const REMOVED_AT_ONCE: usize = 1024;
