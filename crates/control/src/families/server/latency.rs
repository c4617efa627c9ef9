//! LATENCY.

mod doctor;
mod graph;

use crate::ctx::{LogCtx, ReportCtx};
use sluice_base::Histogram;
use sluice_command::{Spec, lookup_full, table};
use sluice_commands::{Args, CmdError, Outcome, Run};

pub(super) fn latest(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    let events = ctx.control.latency.iter();
    ctx.reply.array(events.len());
    for (name, series) in events {
        let (time_s, ms) = series.samples.back().copied().unwrap_or_default();
        ctx.reply.array(6);
        ctx.reply.bulk(name.as_bytes());
        for number in [time_s, ms as i64, series.max_ms as i64, series.sum_ms as i64, series.count as i64] {
            ctx.reply.int(number);
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn history(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let Some(series) = ctx.control.latency.get(args.at(2)) else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    ctx.reply.array(series.samples.len());
    for (time_s, ms) in &series.samples {
        ctx.reply.array(2);
        ctx.reply.int(*time_s);
        ctx.reply.int(*ms as i64);
    }
    Ok(Outcome::Done)
}

pub(super) fn graph(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let Some(series) = ctx.control.latency.get(args.at(2)) else {
        return Err(CmdError::owned(
            [
                &b"ERR No samples available for event '"[..],
                sluice_commands::shown(args.at(2), usize::MAX),
                b"'",
            ]
            .concat(),
        ));
    };
    let name = String::from_utf8_lossy(args.at(2));
    let text = graph::draw(&name, series, ctx.now.unix_s());
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

pub(super) fn doctor(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    let text = doctor::report(ctx.control);
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

pub(super) fn reset(ctx: &mut LogCtx<'_>, args: Args<'_>) -> Run {
    let all = args.len() == 2;
    let reset = ctx.latency.reset(|name| all || args.iter_from(2).any(|event| event == name.as_bytes()));
    ctx.reply.int(reset as i64);
    Ok(Outcome::Done)
}

pub(super) fn histogram(ctx: &mut ReportCtx<'_>, args: Args<'_>) -> Run {
    let mut wanted: Vec<&'static Spec> = Vec::new();
    let mut add = |spec: &'static Spec| {
        if !wanted.iter().any(|known| known.id == spec.id) {
            wanted.push(spec);
        }
    };
    if args.len() == 2 {
        table::ALL.iter().for_each(|spec| add(spec));
    }
    for name in args.iter_from(2) {
        // The name of a container also stands for its subcommands.
        let Some(spec) = lookup_full(name) else { continue };
        add(spec);
        spec.subcommands.iter().for_each(|sub| add(sub));
    }
    let found: Vec<(&str, &Histogram)> = wanted
        .iter()
        .filter_map(|spec| {
            Some((spec.full_name, ctx.stats.commands.get(spec.id.0 as usize)?.latency.as_deref()?))
        })
        .collect();
    ctx.reply.map(found.len());
    for (name, histogram) in found {
        let buckets = histogram.cumulative_by_power_of_two();
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.map(2);
        ctx.reply.bulk(b"calls");
        ctx.reply.int(histogram.total() as i64);
        ctx.reply.bulk(b"histogram_usec");
        ctx.reply.map(buckets.len());
        for (usec, count) in buckets {
            ctx.reply.int(usec as i64);
            ctx.reply.int(count as i64);
        }
    }
    Ok(Outcome::Done)
}
