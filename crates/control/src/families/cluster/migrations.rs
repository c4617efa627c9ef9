//! CLUSTER commands about slot migrations, for operators.

use super::ranges::{self, RangesJudge};
use crate::ctx::ClusterCtx;
use sluice_cluster::{ClusterInput, HashSlot, MigrationInput, SlotSet, SlotsToMove};
use sluice_commands::{Args, CmdError, Outcome, Run};

/// CLUSTER MIGRATESLOTS begins to move slots, each group to a node. No migration begins unless
/// all groups are valid; the migrations continue after the reply.
pub(super) fn migrate(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let groups = parse_groups(ctx, args)?;
    let client = ctx.client_line();
    step(ctx, MigrationInput::Begin { client: &client, groups: &groups });
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn parse_groups(ctx: &ClusterCtx<'_>, args: Args<'_>) -> Result<Vec<SlotsToMove>, CmdError> {
    let node = &ctx.mode.machine;
    node.may_import_at_all().map_err(CmdError::owned)?;
    let (mut groups, mut seen, mut at) = (Vec::new(), SlotSet::EMPTY, 2);
    while at < args.len() {
        if !args.is(at, "SLOTSRANGE") {
            return Err(CmdError::Syntax);
        }
        let (found, end) = ranges::parse(args, at + 1, Some(RangesJudge::Export(node)))?;
        let mut slots = found.iter().flat_map(|(first, last)| *first..=*last).filter_map(HashSlot::new);
        if !slots.all(|slot| seen.insert(slot)) {
            return Err(CmdError::text("ERR Slot ranges in migrations overlap"));
        }
        if end + 1 >= args.len() || !args.is(end, "NODE") {
            return Err(CmdError::Syntax);
        }
        let target = node.export_target(args.at(end + 1)).map_err(CmdError::owned)?;
        let range = |(first, last): &(u16, u16)| HashSlot::new(*first).zip(HashSlot::new(*last));
        groups.push(SlotsToMove { ranges: found.iter().filter_map(range).collect(), target });
        at = end + 2;
    }
    Ok(groups)
}

/// CLUSTER CANCELSLOTMIGRATIONS ends the migrations that this node has begun.
pub(super) fn cancel(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    if !ctx.mode.machine.has_exports() {
        return Err(CmdError::text("ERR No migrations ongoing"));
    }
    let client = ctx.client_line();
    step(ctx, MigrationInput::Cancel { client: &client });
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn step(ctx: &mut ClusterCtx<'_>, input: MigrationInput<'_>) {
    ctx.mode.machine.step(ctx.now, &ClusterInput::Migration(input));
}

/// CLUSTER GETSLOTMIGRATIONS.
pub(super) fn list(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    let mut rows: Vec<_> = ctx.mode.machine.migrations().collect();
    for row in &mut rows {
        let link = ctx.mode.moves.exports.iter().find(|link| link.job == row.name);
        if let Some(left) = link.and_then(|link| ctx.mode.exports().left(link.stream?)) {
            row.sizes[1].1 = i64::try_from(left).unwrap_or(i64::MAX);
        }
    }
    let reply = &mut ctx.reply;
    reply.array(rows.len());
    for row in rows {
        reply.map(if row.nodes.is_some() { 12 } else { 10 });
        let mut text = |name: &str, value: &[u8]| {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        };
        text("name", &row.name.0);
        text("operation", row.operation.as_bytes());
        text("slot_ranges", row.slot_ranges.as_bytes());
        if let Some((target, source)) = row.nodes {
            text("target_node", target.as_bytes());
            text("source_node", source.as_bytes());
        }
        let mut number = |(name, value): (&str, i64)| {
            reply.bulk(name.as_bytes());
            reply.int(value);
        };
        row.numbers.into_iter().for_each(&mut number);
        for (name, value) in [("state", row.state), ("message", row.message)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        row.sizes.into_iter().for_each(|(name, value)| {
            reply.bulk(name.as_bytes());
            reply.int(value);
        });
    }
    Ok(Outcome::Done)
}
