//! HyperLogLogs.

mod common;
mod debug;

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, WriteCtx, route};
use crate::error::CmdError;
use crate::hyperloglog::common::{checked, read};
use crate::item_commands::is_told_by_result;
use crate::outcome::{Outcome, Run};
use sluice_command::specs::hyperloglog as specs;
use sluice_keyspace::{Entry, Event, Str, StrEdit};
use sluice_value::hll::{self, ESTIMATE, Hll, HllEncoding, REGISTERS, RegisterMark, Registers};

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::PFADD, DataHandler::Write(pfadd)),
    route(&specs::PFCOUNT, DataHandler::Keeping(pfcount)),
    route(&specs::PFDEBUG, DataHandler::Write(debug::pfdebug)),
    route(&specs::PFMERGE, DataHandler::Write(pfmerge)),
    route(&specs::PFSELFTEST, DataHandler::Static(debug::pfselftest)),
];

/// Raises each of `registers` that is lower than the entry's register to that value; the result is the
/// entry's encoding.
fn merge(entry: Entry<'_>, registers: &mut Registers) -> Result<HllEncoding, CmdError> {
    let (text, encoding, _) = checked(entry)?;
    match text {
        Str::Inline(bytes) => hll::merge(bytes, encoding, registers)?,
        Str::Shared(bytes) => hll::merge(bytes, encoding, registers)?,
        Str::Int(_) | Str::Pages(_) => hll::merge(&text.to_vec(), encoding, registers)?,
    }
    Ok(encoding)
}

fn pfadd(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    let marks = args.iter_from(2).map(RegisterMark::of);
    let changes = match ctx.db.get_uncounted(key).map(checked).transpose()? {
        Some((_, HllEncoding::Dense, _)) => {
            let mut edit = ctx.db.edit_str(key, 0)?;
            let changes = marks.filter(|mark| raise_dense(&mut edit, *mark)).count() as u64;
            if changes > 0 {
                invalidate(&mut edit);
            }
            end(edit, changes);
            changes
        }
        Some((text, HllEncoding::Sparse, _)) => {
            let hll = Hll::read(text.to_vec())?;
            add(ctx, args, hll, marks, 0)?
        }
        None => add(ctx, args, Hll::empty(), marks, 1)?,
    };
    ctx.reply.int(i64::from(changes > 0));
    Ok(Outcome::Done)
}

/// Adds elements to `hll`, which is new or a copy of the key's value, and stores it under the key if anything
/// has changed. `changes` is the number of changes made so far; the result is the new number.
fn add(
    ctx: &mut WriteCtx<'_>,
    args: Args<'_>,
    mut hll: Hll,
    marks: impl Iterator<Item = RegisterMark>,
    mut changes: u64,
) -> Result<u64, CmdError> {
    for mark in marks {
        changes += u64::from(hll.add(mark, ctx.limits.hll_sparse_bytes_max)?);
    }
    let mut edit = ctx.db.edit_str(args.key(1), 0)?;
    if changes > 0 {
        hll.invalidate_estimate();
        edit.replace(hll.into_bytes());
    }
    end(edit, changes);
    Ok(changes)
}

fn end(edit: StrEdit<'_, '_>, changes: u64) {
    match changes {
        0 => edit.unchanged(),
        changes => edit.done(Event::PfAdd, changes),
    }
}

/// Raises a register in place; the result is whether it was lower.
fn raise_dense(edit: &mut StrEdit<'_, '_>, mark: RegisterMark) -> bool {
    let (at, len) = mark.dense_range();
    let mut bytes = [0; 2];
    edit.text().copy_at(at, &mut bytes[..len]);
    let Some(raised) = mark.raised_dense(bytes) else { return false };
    edit.write(at, &raised[..len]);
    true
}

/// Marks the stored estimate as out of date, in place.
fn invalidate(edit: &mut StrEdit<'_, '_>) {
    let mut estimate = [0; 8];
    edit.text().copy_at(ESTIMATE.start, &mut estimate);
    let invalid = hll::invalidated(estimate);
    if invalid != estimate {
        edit.write(ESTIMATE.start, &invalid);
    }
}

/// The estimate of a single HyperLogLog is stored in its value, which counts as a change; the estimate of
/// several HyperLogLogs is not stored.
fn pfcount(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let estimate = if args.len() == 2 { count_one(ctx, args)? } else { count_union(ctx, args)? };
    ctx.reply.int(estimate as i64);
    Ok(Outcome::Done)
}

fn count_one(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Result<u64, CmdError> {
    let key = args.key(1);
    let Some(entry) = ctx.db.get(key) else { return Ok(0) };
    let (text, _, header) = checked(entry)?;
    if let Some(estimate) = hll::kept_estimate(&header) {
        return Ok(estimate);
    }
    let estimate = Hll::read(text.to_vec())?.estimate()?;
    let mut edit = ctx.db.edit_str(key, 0)?;
    edit.write(ESTIMATE.start, &estimate.to_le_bytes());
    edit.done(Event::Silent, 1);
    Ok(estimate)
}

fn count_union(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Result<u64, CmdError> {
    let mut registers = [0; REGISTERS];
    for at in 1..args.len() {
        // Keys are read one by one, because a key with another type ends the command, and later keys are then
        // not touched, even if they have expired.
        let mut db = ctx.db.as_read_of(std::iter::once(args.key(at)), None);
        if let Some(entry) = db.get(args.key(at)) {
            merge(entry, &mut registers)?;
        }
    }
    Ok(hll::estimate(&registers))
}

fn pfmerge(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let mut registers: Registers = [0; REGISTERS];
    let mut is_dense = false;
    let mut target = None;
    for at in 1..args.len() {
        let mut db = ctx.db.as_read_of(std::iter::once(args.key(at)), None);
        let Some(entry) = db.get(args.key(at)) else { continue };
        is_dense |= merge(entry, &mut registers)? == HllEncoding::Dense;
        if at == 1 {
            target = Some(read(entry)?);
        }
    }
    let mut target = target.unwrap_or_else(Hll::empty);
    if is_dense {
        // The target's registers are already merged into `registers`, so `registers` can replace them.
        target.set_dense(&registers)?;
    } else {
        target.merge_from(&registers, ctx.limits.hll_sparse_bytes_max)?;
    }
    target.invalidate_estimate();
    let (key, merged) = (args.key(1), target.into_bytes());
    let told = is_told_by_result(&ctx.db).then(|| merged.clone());
    let mut edit = ctx.db.edit_str(key, 0)?;
    edit.replace(merged);
    edit.done(Event::PfAdd, 1);
    if let Some(text) = told {
        let words = || vec![b"SET".to_vec(), key.bytes.to_vec(), text.to_vec(), b"KEEPTTL".to_vec()];
        ctx.db.effects.rewrite(words);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}
