//! CLUSTER SYNCSLOTS in the stream of a primary and in a log: which slots are on their way to the primary.
//!
//! Here no server moves slots by itself. What a replica, or who loads a log, hears of a move of others is
//! its two ends: ESTABLISH hides the slots, FINISH shows them. The keys come by commands of their own
//! between the two, and those of a move that has failed go by commands of their own, ahead of FINISH
//! . The messages of the two ends to each other, which the stream of a stock primary has as well, say
//! nothing here.

use super::change::slot;
use super::forms::refusal;
use crate::ctx::ImportsCtx;
use sluice_cluster::SlotSet;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_keyspace::{IMPORT_NAME_LEN, SlotImport};
use sluice_session::ClientKind;

/// What FINISH answers about a name that no import has.
const NO_IMPORT: CmdError = CmdError::text("ERR No such slot migration job");

pub(super) fn syncslots(ctx: &mut ImportsCtx<'_>, args: Args<'_>) -> Run {
    if !ctx.limits.is_cluster {
        return Err(CmdError::NO_CLUSTER);
    }
    if !matches!(ctx.caller.kind, ClientKind::Primary | ClientKind::Log) {
        return Err(refusal(args));
    }
    if args.is(2, "ESTABLISH") {
        let import = parse_establish(args)?;
        ctx.imports.begin(import);
        ctx.effects.force();
    } else if args.is(2, "FINISH") {
        let name = parse_finish(args)?;
        ctx.imports.end(name).ok_or(NO_IMPORT)?;
        ctx.effects.force();
    } else {
        ctx.effects.force_to_replicas();
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// A name or an id, which stands behind the word at this position.
fn id(args: Args<'_>, at: usize) -> Result<[u8; IMPORT_NAME_LEN], CmdError> {
    let word = args.get(at + 1).ok_or(CmdError::Syntax)?;
    word.try_into().map_err(|_| CmdError::Syntax)
}

/// Puts what was read where nothing is yet: no word stands twice.
fn put<T>(into: &mut Option<T>, value: T) -> Result<(), CmdError> {
    if into.replace(value).is_some() { Err(CmdError::Syntax) } else { Ok(()) }
}

/// `ESTABLISH SOURCE id NAME name SLOTSRANGE first last …`, in any order. The map is not asked: it
/// may be older than the command.
fn parse_establish(args: Args<'_>) -> Result<SlotImport, CmdError> {
    let (mut source, mut name, mut ranges) = (None, None, None);
    let mut at = 3;
    while at < args.len() {
        if args.is(at, "SOURCE") {
            put(&mut source, id(args, at)?)?;
            at += 2;
        } else if args.is(at, "NAME") {
            put(&mut name, id(args, at)?)?;
            at += 2;
        } else if args.is(at, "SLOTSRANGE") {
            let (found, end) = parse_ranges(args, at + 1)?;
            put(&mut ranges, found)?;
            at = end;
        } else {
            return Err(CmdError::Syntax);
        }
    }
    let (Some(source), Some(name), Some(ranges)) = (source, name, ranges) else {
        return Err(CmdError::Syntax);
    };
    Ok(SlotImport { name, source: Some(source), ranges: ranges.into() })
}

/// First and last slots from `at` on, up to what is no number, and where that stands. At most as many ranges
/// as there are slots: none meets another.
fn parse_ranges(args: Args<'_>, mut at: usize) -> Result<(Vec<(u16, u16)>, usize), CmdError> {
    let (mut ranges, mut seen) = (Vec::new(), SlotSet::EMPTY);
    while at < args.len() && args.int(at).is_ok() {
        let first = slot(args, at)?.number();
        if at + 1 == args.len() {
            return Err(CmdError::text("ERR No end slot for final slot range"));
        }
        let last = slot(args, at + 1)?.number();
        if first > last {
            return Err(CmdError::owned(format!(
                "ERR Start slot number {first} is greater than end slot number {last}."
            )));
        }
        let is_new = |slot| sluice_cluster::HashSlot::new(slot).is_some_and(|slot| seen.insert(slot));
        if !(first..=last).all(is_new) {
            let meets = |(a, b): &&(u16, u16)| *a <= last && first <= *b;
            let (a, b) = ranges.iter().find(meets).copied().unwrap_or((first, last));
            return Err(CmdError::owned(format!(
                "ERR Slot range {first}-{last} overlaps with previous range {a}-{b}."
            )));
        }
        ranges.push((first, last));
        at += 2;
    }
    match ranges.is_empty() {
        true => Err(CmdError::text("ERR No slot ranges specified")),
        false => Ok((ranges, at)),
    }
}

/// `FINISH STATE success|failed NAME name [MESSAGE text]`: the name. Both states end the hiding alike.
fn parse_finish(args: Args<'_>) -> Result<&[u8], CmdError> {
    let (mut name, mut has_state, mut at) = (None, false, 3);
    while at + 1 < args.len() {
        if args.is(at, "STATE") {
            let is_end = ["success", "failed", "cancelled"].iter().any(|word| args.is(at + 1, word));
            has_state = is_end;
        } else if args.is(at, "NAME") {
            name = Some(args.at(at + 1));
        } else if !args.is(at, "MESSAGE") {
            return Err(CmdError::Syntax);
        }
        at += 2;
    }
    name.filter(|_| has_state && at == args.len()).ok_or(CmdError::Syntax)
}
