//! CLUSTER SLOT-STATS: counters of the slots of this node's shard.

use super::change::slot;
use super::forms::unknown_form;
use crate::cluster::slot_stats::SlotCounters;
use crate::ctx::ClusterCtx;
use sluice_cluster::{HashSlot, SLOT_COUNT, SlotMap};
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_config::param;
use std::cmp::Reverse;

/// The metrics of a slot, in the order of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    KeyCount,
    CpuUsec,
    BytesIn,
    BytesOut,
}

impl Metric {
    /// Metrics that are always shown.
    const ALWAYS: &[Metric] = &[Metric::KeyCount];
    /// Metrics shown while `cluster-slot-stats-enabled` is on.
    const ALL: &[Metric] = &[Metric::KeyCount, Metric::CpuUsec, Metric::BytesIn, Metric::BytesOut];

    fn name(self) -> &'static str {
        match self {
            Metric::KeyCount => "key-count",
            Metric::CpuUsec => "cpu-usec",
            Metric::BytesIn => "network-bytes-in",
            Metric::BytesOut => "network-bytes-out",
        }
    }
}

/// A slot with the number of its keys and its counters.
#[derive(Clone, Copy)]
struct SlotNumbers {
    slot: HashSlot,
    keys: u64,
    counters: SlotCounters,
}

impl SlotNumbers {
    fn value(&self, metric: Metric) -> u64 {
        match metric {
            Metric::KeyCount => self.keys,
            Metric::CpuUsec => self.counters.cpu_ns / 1_000,
            Metric::BytesIn => self.counters.bytes_in,
            Metric::BytesOut => self.counters.bytes_out,
        }
    }
}

/// The order of slots with ORDERBY.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotOrder {
    Ascending,
    Descending,
}

/// CLUSTER SLOT-STATS (L-1).
pub(super) fn slot_stats(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let metrics = match ctx.config.bool(param::CLUSTER_SLOT_STATS_ENABLED) {
        true => Metric::ALL,
        false => Metric::ALWAYS,
    };
    if args.is(2, "SLOTSRANGE") && args.len() == 5 {
        let (first, last) = (slot(args, 3)?.number(), slot(args, 4)?.number());
        if first > last {
            let text = format!("ERR Start slot number {first} is greater than end slot number {last}");
            return Err(CmdError::owned(text));
        }
        let shown = numbers(ctx, first, last);
        reply(ctx, &shown, metrics);
        return Ok(Outcome::Done);
    }
    if !args.is(2, "ORDERBY") {
        return Err(unknown_form(args));
    }
    let wanted = |metric: &&Metric| args.is(3, metric.name());
    let Some(metric) = metrics.iter().find(wanted) else {
        return Err(CmdError::text("ERR Unrecognized sort metric for ORDERBY."));
    };
    let (limit, direction) = order_of(args)?;
    let mut shown = numbers(ctx, 0, SLOT_COUNT - 1);
    // Both sorts are stable: slots with equal values stay in ascending order.
    match direction {
        SlotOrder::Ascending => shown.sort_by_key(|one| one.value(*metric)),
        SlotOrder::Descending => shown.sort_by_key(|one| Reverse(one.value(*metric))),
    }
    shown.truncate(limit);
    reply(ctx, &shown, metrics);
    Ok(Outcome::Done)
}

/// The maximum number of slots and the order for ORDERBY (L-2).
fn order_of(args: Args<'_>) -> Result<(usize, SlotOrder), CmdError> {
    const TWICE: CmdError = CmdError::text("ERR Multiple filters of the same type are disallowed.");
    const LIMIT: CmdError =
        CmdError::text("ERR Limit has to lie in between 1 and 16384 (maximum number of slots).");
    let (mut limit, mut direction) = (None, None);
    let mut at = 4;
    while at < args.len() {
        if args.is(at, "LIMIT") && at + 1 < args.len() {
            let number = args.int(at + 1).ok().and_then(|number| usize::try_from(number).ok());
            let number = number.filter(|number| (1..=usize::from(SLOT_COUNT)).contains(number));
            if limit.replace(number.ok_or(LIMIT)?).is_some() {
                return Err(TWICE);
            }
            at += 2;
            continue;
        }
        let said = match (args.is(at, "ASC"), args.is(at, "DESC")) {
            (true, _) => SlotOrder::Ascending,
            (_, true) => SlotOrder::Descending,
            (false, false) => return Err(CmdError::Syntax),
        };
        if direction.replace(said).is_some() {
            return Err(TWICE);
        }
        at += 1;
    }
    Ok((limit.unwrap_or(usize::from(SLOT_COUNT)), direction.unwrap_or(SlotOrder::Descending)))
}

/// The index of this shard's owner in the map, plus one, as in `SlotMap::owners`. `None` if this node
/// follows a primary that the map lacks.
fn shard_owner(map: &SlotMap) -> Option<usize> {
    let position = match map.my_primary {
        None => map.nodes.iter().position(|node| node.is_myself),
        Some(primary) => map.nodes.iter().position(|node| node.id == primary),
    };
    position.map(|position| position + 1)
}

/// The slots from `first` to `last` that this shard owns, with their key counts and counters.
fn numbers(ctx: &ClusterCtx<'_>, first: u16, last: u16) -> Vec<SlotNumbers> {
    let map = &ctx.mode.map;
    let Some(owner) = shard_owner(map) else { return Vec::new() };
    let is_own = |slot: &HashSlot| {
        map.owners.get(usize::from(slot.number())).is_some_and(|of| usize::from(*of) == owner)
    };
    let keys_of = |slot: HashSlot| {
        let databases = 0..ctx.keyspace.databases();
        databases.map(|number| ctx.keyspace.db(number).slot_len(slot.number()) as u64).sum()
    };
    let own = (first..=last).filter_map(HashSlot::new).filter(is_own);
    let with_numbers =
        own.map(|slot| SlotNumbers { slot, keys: keys_of(slot), counters: ctx.mode.slot_stats.of(slot) });
    with_numbers.collect()
}

fn reply(ctx: &mut ClusterCtx<'_>, shown: &[SlotNumbers], metrics: &[Metric]) {
    ctx.reply.array(shown.len());
    for one in shown {
        ctx.reply.array(2);
        ctx.reply.int(i64::from(one.slot.number()));
        ctx.reply.map(metrics.len());
        for metric in metrics {
            ctx.reply.bulk(metric.name().as_bytes());
            ctx.reply.int(i64::try_from(one.value(*metric)).unwrap_or(i64::MAX));
        }
    }
}
