//! SPOP and SRANDMEMBER.

use super::slow;
use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::element::reply_item;
use crate::error::CmdError;
use crate::item_commands::{ItemCommands, promised_removals};
use crate::outcome::{Outcome, Run};
use crate::reply_mode::ReplyMode;
use crate::set::common::set_of;
use sluice_base::Rng;
use sluice_base::num::{IntBuffer, parse_i64};
use sluice_keyspace::{EncodedCommands, Event, Key};
use sluice_value::{ListItem, Set, SetEncoding, SetRef, Value};
use std::collections::HashSet;

/// Calls `visit` with `count` different random members; `count` is less than the size of the set. Cost:
/// O(count · log n), or O(n).
fn draw(set: SetRef<'_>, count: usize, rng: &mut Rng, mut visit: impl FnMut(ListItem<'_>)) {
    let len = set.len();
    if set.encoding() != SetEncoding::Hashtable || count.saturating_mul(DENSE) > len {
        // Each member is drawn with the probability `left / (len - at)`, so every selection is equally
        // likely.
        let mut left = count;
        for (at, member) in set.iter().enumerate() {
            if rng.below((len - at) as u64) < left as u64 {
                visit(member);
                left -= 1;
            }
        }
        return;
    }
    // This is Robert Floyd's algorithm, in which each step adds one rank and no random number is discarded.
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

/// If more than one in this many members is drawn, the whole set is walked.
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
        Some(member) => reply_item(&mut ctx.reply, member),
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
        // A count above `REPEATED_MAX` is refused, because the reply alone could take all memory.
        if wanted > REPEATED_MAX {
            return Err(CmdError::text("ERR value is out of range"));
        }
        reply.array(wanted);
        for _ in 0..wanted {
            if let Some(member) = set.nth(ctx.rng.below(set.len() as u64) as usize) {
                reply_item(reply, member);
            }
        }
    } else if wanted >= set.len() {
        reply.array(set.len());
        set.iter().for_each(|member| reply_item(reply, member));
    } else {
        reply.array(wanted);
        draw(set, wanted, ctx.rng, |member| reply_item(reply, member));
    }
    Ok(Outcome::Done)
}

/// Largest number of members in a reply with repeated members.
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
        reply_item(&mut ctx.reply, member);
        member.bytes(&mut IntBuffer::new()).to_vec()
    });
    let member = drawn.expect("a set in the keyspace has members, and the rank is below their number");
    let was_there = set.remove(&member, context);
    debug_assert!(was_there, "what is drawn is found");
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
    let is_slow = count.min(len) >= CUT_FROM && ctx.slow.suits(count.min(len));
    if is_slow && ctx.slow.must_wait() {
        edit.unchanged();
        return ctx.slow.begin(|| slow::popped(Vec::new()));
    }
    if count >= len {
        let whole = std::mem::replace(edit.parts().0, Set::new(SetEncoding::Intset, ctx.limits.set));
        edit.done(Event::SPop, len as u64);
        let name: &[u8] = if ctx.limits.lazy_server_del { b"UNLINK" } else { b"DEL" };
        ctx.db.effects.rewrite(|| vec![name.to_vec(), key.bytes.to_vec()]);
        return give_away(ctx, vec![whole], is_slow);
    }
    if count >= CUT_FROM
        && let Some(pieces) = cut(edit.parts().0, count, ctx.rng)
    {
        let rest = edit.value();
        if is_little(rest.len(), count) && rest.len() <= ctx.limits.set.max_entries {
            let rest = rest_of(rest, &[], ctx.limits.set);
            edit.replace(rest);
        }
        edit.done(Event::SPop, count as u64);
        tell_of(ctx, key, &pieces, count, is_slow);
        return give_away(ctx, pieces, is_slow);
    }
    let mut drawn = Vec::with_capacity(count);
    ctx.reply.set(count);
    draw(edit.value().view(), count, ctx.rng, |member| {
        drawn.push(member.bytes(&mut IntBuffer::new()).to_vec());
        reply_item(&mut ctx.reply, member);
    });
    // If few members are left, the reference makes a new set of them, so a hash table can become a listpack
    // again. The encoding is chosen in the same way here.
    if edit.value().encoding() != SetEncoding::Listpack && is_little(len - count, count) {
        let rest = rest_of(edit.value(), &drawn, ctx.limits.set);
        edit.replace(rest);
    } else {
        let (set, context) = edit.parts();
        drawn.iter().for_each(|member| {
            set.remove(member, context);
        });
    }
    edit.done(Event::SPop, count as u64);
    let members = drawn.iter().map(|member| ListItem::Bytes(member));
    ctx.db.effects.rewrite_encoded(|| removals(key, count, members));
    Ok(Outcome::Done)
}

/// Propagates the removal of the members in `pieces`. A very large removal is encoded later if a slow read
/// produces the reply, because then no further command of the same transaction or script can follow.
fn tell_of(ctx: &mut WriteCtx<'_>, key: Key<'_>, pieces: &[Set], count: usize, is_slow: bool) {
    let is_propagated = ctx.db.effects.propagating;
    let is_promised = is_propagated && is_slow && count >= PROMISED_FROM;
    match is_promised.then(|| promised_removals(key.bytes, pieces)).flatten() {
        Some(commands) => ctx.db.effects.rewrite_encoded(|| commands),
        None => {
            let members = pieces.iter().flat_map(|piece| piece.view().iter());
            ctx.db.effects.rewrite_encoded(|| removals(key, count, members));
        }
    }
}

/// Replies with members that were removed from the set. Another thread frees them, and also produces the
/// reply if producing it is slow.
fn give_away(ctx: &mut WriteCtx<'_>, pieces: Vec<Set>, is_slow: bool) -> Run {
    let is_sent = ctx.slow.mode == ReplyMode::On;
    if is_slow && is_sent {
        let pieces: Vec<Value> = pieces.into_iter().map(Value::Set).collect();
        pieces.iter().for_each(|piece| ctx.db.effects.leave_to_others(piece));
        return ctx.slow.begin(|| slow::popped(pieces));
    }
    if is_sent {
        ctx.reply.set(pieces.iter().map(Set::len).sum());
        let members = pieces.iter().flat_map(|piece| piece.view().iter());
        members.for_each(|member| reply_item(&mut ctx.reply, member));
    }
    pieces.into_iter().for_each(|piece| ctx.db.effects.discard(Some(Value::Set(piece))));
    Ok(Outcome::Done)
}

/// Removes `count` members, fewer than all, from a large set in a few steps, each of which takes a run of
/// neighbours in the order of the members' hashes. Clients do not know the hashes, because the server's seed
/// is secret. Every member has the same probability of being removed. `None` if the set is too small to be a
/// tree.
fn cut(set: &mut Set, count: usize, rng: &mut Rng) -> Option<Vec<Set>> {
    let len = set.len();
    let rank_of = |section: usize| (len as u128 * section as u128 / SECTIONS as u128) as usize;
    // Number of members that are drawn below a rank. With this formula, the number drawn from each section is
    // proportional to the section's size, and never greater. `chance` decides in which sections one member
    // more is drawn if the proportion is not a whole number.
    let chance = u128::from(rng.below(len as u64));
    let drawn_before = |rank: usize| ((count as u128 * rank as u128 + chance) / len as u128) as usize;
    let mut pieces = Vec::new();
    // Sections are cut from the last to the first, so that the ranks before a cut stay valid.
    for section in (0..SECTIONS).rev() {
        let (start, end) = (rank_of(section), rank_of(section + 1));
        let (section_len, wanted) = (end - start, drawn_before(end) - drawn_before(start));
        if wanted == 0 {
            continue;
        }
        let first = start + rng.below(section_len as u64) as usize;
        let straight = wanted.min(end - first);
        pieces.extend(set.take_ranks(first..first + straight)?);
        if straight < wanted {
            pieces.extend(set.take_ranks(start..start + wanted - straight)?);
        }
    }
    Some(pieces)
}

/// Number of sections of a large set from each of which a run of neighbours is taken.
const SECTIONS: usize = 8;
/// Number of members from which on runs of neighbours are taken instead of single members.
const CUT_FROM: usize = 1024;

/// Number of members from which on the removal is encoded later. Encoding fewer takes at most a millisecond.
const PROMISED_FROM: usize = 16_384;

/// Whether the reference makes a new set of the members that are left.
fn is_little(left: usize, drawn: usize) -> bool {
    left.saturating_mul(LITTLE) <= drawn
}

/// Few members are left if this multiple of their number is at most the number drawn.
const LITTLE: usize = 5;

/// The set without the drawn members, in the encoding of a new set.
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

/// The commands that remove `count` members, each a limited number of them.
fn removals<'m>(key: Key<'_>, count: usize, members: impl Iterator<Item = ListItem<'m>>) -> EncodedCommands {
    let mut commands = ItemCommands::new((b"SREM", key.bytes), (count, 1));
    members.for_each(|member| commands.push(&[member.bytes(&mut IntBuffer::new())]));
    commands.finish()
}
