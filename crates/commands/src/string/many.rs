//! Commands on several strings at once.

use super::options::{Condition, ExpiryOption, ExpiryUnit, Options, OptionsOf};
use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::common::reply_str;
use sluice_keyspace::{Argv, Entry, Event, SetExpiry, WrongType};
use std::ops::Range;

pub(super) fn mget(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    ctx.reply.array(args.len() - 1);
    let mut windows = args.key_windows(1..args.len(), 1);
    while let Some(keys) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        for (_, key) in keys {
            match ctx.db.get(*key).map(Entry::as_str) {
                Some(Ok(value)) => reply_str(&mut ctx.reply, value),
                Some(Err(WrongType)) | None => ctx.reply.null(),
            }
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn mset(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let pairs = all_pairs(ctx, args)?;
    store(ctx, args, pairs, SetExpiry::Clear);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn msetnx(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let pairs = all_pairs(ctx, args)?;
    let stores = allowed(ctx, args, pairs.clone(), Condition::Absent);
    if stores {
        store(ctx, args, pairs, SetExpiry::Clear);
    }
    ctx.reply.int(i64::from(stores));
    Ok(Outcome::Done)
}

pub(super) fn msetex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let count = args.int(1).ok().and_then(|n| i32::try_from(n).ok()).and_then(|n| usize::try_from(n).ok());
    let count = count
        .filter(|count| *count > 0)
        .ok_or(CmdError::text("ERR invalid numkeys value or out of range"))?;
    let pairs = 2..2 + 2 * count;
    if pairs.end > args.len() {
        return Err(CmdError::Syntax);
    }
    let end = pairs.end;
    let options = Options::parse(args, end, OptionsOf::Msetex)?;
    let at = options.expiry.at(args, ctx.db.access.now.unix_ms(), "msetex")?;
    let stores = allowed(ctx, args, pairs.clone(), options.condition);
    if stores {
        // A time that has passed is stored all the same. The keys are then hidden, and deleted at the next
        // look-up.
        store(ctx, args, pairs, options.expiry.to_set(at));
        if let (ExpiryOption::Given(unit, index), Some(at)) = (options.expiry, at)
            && unit != ExpiryUnit::AtMs
        {
            ctx.db.effects.rewrite(|| with_pxat(args, end, index, at));
        }
    }
    ctx.reply.int(i64::from(stores));
    Ok(Outcome::Done)
}

/// Positions of the keys and values: all arguments after the command's name. Returns an error if a value is
/// missing.
fn all_pairs(ctx: &WriteCtx<'_>, args: Args<'_>) -> Result<Range<usize>, CmdError> {
    if args.len() % 2 == 1 { Ok(1..args.len()) } else { Err(CmdError::Arity(ctx.spec.full_name)) }
}

fn allowed(ctx: &mut WriteCtx<'_>, args: Args<'_>, pairs: Range<usize>, condition: Condition<'_>) -> bool {
    let mut keys = pairs.step_by(2);
    let is_there = |i| ctx.db.look(args.key(i)).is_some();
    match condition {
        Condition::Always | Condition::Equal(_) | Condition::Different(_) => true,
        Condition::Absent => !keys.any(is_there),
        Condition::Present => keys.all(is_there),
    }
}

fn store(ctx: &mut WriteCtx<'_>, args: Args<'_>, pairs: Range<usize>, expiry: SetExpiry) {
    let mut windows = args.key_windows(pairs, 2);
    while let Some(keys) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        for (i, key) in keys {
            ctx.db.set(*key, args.string(i + 1), expiry, Event::Set);
        }
    }
}

/// The command with its expiry replaced by PXAT; `index` is the position of the expiry's amount. `options` is
/// the position of the first option. An expiry may be repeated in the same unit, and the last expiry counts.
/// Earlier ones are dropped, because a second unit in addition to PXAT would be refused.
fn with_pxat(args: Args<'_>, options: usize, index: usize, at_ms: i64) -> Argv {
    let words = args.to_vecs();
    let mut argv = words[..options].to_vec();
    let mut i = options;
    while let Some(word) = words.get(i) {
        if ExpiryUnit::of(word).is_none() {
            argv.push(word.clone());
            i += 1;
            continue;
        }
        if i + 1 == index {
            argv.extend([b"PXAT".to_vec(), at_ms.to_string().into_bytes()]);
        }
        i += 2;
    }
    argv
}
