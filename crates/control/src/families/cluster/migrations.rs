//! CLUSTER commands about atomic moves of slots, for operators. This node is the target of moves; no move
//! begins here.

use crate::ctx::ClusterCtx;
use sluice_commands::{Args, CmdError, Outcome, Run};

/// CLUSTER CANCELSLOTMIGRATIONS ends the moves that this node has begun.
pub(super) fn cancel(_: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    Err(CmdError::text("ERR No migrations ongoing"))
}

/// CLUSTER GETSLOTMIGRATIONS.
pub(super) fn list(ctx: &mut ClusterCtx<'_>, _: Args<'_>) -> Run {
    let rows: Vec<_> = ctx.mode.machine.migrations().collect();
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
