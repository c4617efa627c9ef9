//! MEMORY.

use crate::ctx::{ReportCtx, ServerCtx};
use crate::observe::info::MemoryReport;
use sluice_commands::{Args, CmdError, Outcome, ReadCtx, Run};
use sluice_numbers::facts::Facts;
use sluice_numbers::info::lines::human;
use sluice_numbers::info::value::{difference, ratio};
use sluice_resp::Reply;
use sluice_scripts::state::ScriptFacts;

/// MEMORY USAGE: bytes of a key with its value. SAMPLES is checked but has no effect.
pub(super) fn usage(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut i = 3;
    while i < args.len() {
        if !args.is(i, "SAMPLES") || i + 1 >= args.len() {
            return Err(CmdError::Syntax);
        }
        if args.int(i + 1)? < 0 {
            return Err(CmdError::Syntax);
        }
        i += 2;
    }
    // An expired key takes memory until it is deleted, and this query is no reason to delete it.
    match ctx.db.stored(args.key(2)) {
        Some(entry) => ctx.reply.int(entry.size_bytes() as i64),
        None => ctx.reply.null(),
    }
    Ok(Outcome::Done)
}

pub(super) fn purge(ctx: &mut ServerCtx<'_>, _: Args<'_>) -> Run {
    ctx.process.purge_memory();
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn malloc_stats(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    let text = ctx.process.malloc_stats();
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(Outcome::Done)
}

pub(super) fn stats(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    let facts = ctx.process.facts(ctx.keyspace);
    let report = MemoryReport::new(&super::view(ctx, &facts));
    let own = ctx.session.caller.db;
    let used: Vec<(usize, i64, i64)> = ctx
        .keyspace
        .iter()
        .filter(|(number, db)| *number == own || !db.is_empty())
        .map(|(number, db)| (number, db.index_bytes() as i64, db.expires_bytes() as i64))
        .collect();
    ctx.reply.map(TOTALS + used.len() + RATIOS);
    let mut out = Pairs(&mut ctx.reply);
    totals(&mut out, &report, ctx.scripts);
    for (number, main, expires) in &used {
        out.0.bulk(format!("db.{number}").as_bytes());
        out.0.map(2);
        out.int("overhead.hashtable.main", *main);
        out.int("overhead.hashtable.expires", *expires);
    }
    let holding = used.iter().filter(|(number, ..)| !ctx.keyspace.db(*number).is_empty());
    let tables = holding.map(|(_, main, expires)| main + expires).sum();
    rest(&mut out, &report, &facts, tables);
    Ok(Outcome::Done)
}

/// Number of pairs written by [`totals`].
const TOTALS: usize = 13;
/// Number of pairs written by [`rest`].
const RATIOS: usize = 21;

/// Writes the pairs of a map reply.
struct Pairs<'r, 'a>(&'r mut Reply<'a>);

impl Pairs<'_, '_> {
    fn int(&mut self, name: &str, value: i64) {
        self.0.bulk(name.as_bytes());
        self.0.int(value);
    }

    fn double(&mut self, name: &str, value: f64) {
        self.0.bulk(name.as_bytes());
        self.0.double(value);
    }

    fn ratio(&mut self, name: &str, difference_name: &str, a: usize, b: usize) {
        self.double(name, ratio(a as u64, b as u64));
        self.int(difference_name, difference(a as u64, b as u64));
    }
}

fn totals(out: &mut Pairs<'_, '_>, report: &MemoryReport, scripts: ScriptFacts) {
    out.int("peak.allocated", report.peak as i64);
    out.int("total.allocated", report.used as i64);
    out.int("startup.allocated", report.startup as i64);
    out.int("replication.backlog", report.backlog as i64);
    out.int("replicas.repl.buffer", report.replica_buffers as i64);
    out.int("clients.slaves", report.replicas as i64);
    out.int("clients.normal", report.clients as i64);
    out.int("cluster.links", report.links as i64);
    out.int("cluster.slot_import", report.slot_imports as i64);
    out.int("cluster.slot_export", report.slot_exports as i64);
    out.int("aof.buffer", 0);
    out.int("lua.caches", scripts.eval_bytes as i64);
    out.int("functions.caches", scripts.function_bytes as i64);
}

fn rest(out: &mut Pairs<'_, '_>, report: &MemoryReport, facts: &Facts, tables: i64) {
    out.int("overhead.db.hashtable.lut", tables);
    out.int("overhead.db.hashtable.rehashing", 0);
    out.int("overhead.total", report.overhead as i64);
    out.int("db.dict.rehashing.count", 0);
    out.int("keys.count", report.keys as i64);
    let added = report.used.saturating_sub(report.startup);
    out.int("keys.bytes-per-key", added.checked_div(report.keys).unwrap_or(0) as i64);
    out.int("dataset.bytes", report.dataset as i64);
    out.double("dataset.percentage", report.dataset_percent());
    out.double("peak.percentage", report.peak_percent());
    out.int("allocator.allocated", facts.allocator_allocated as i64);
    out.int("allocator.active", facts.allocator_active as i64);
    out.int("allocator.resident", facts.allocator_resident as i64);
    out.int("allocator.muzzy", facts.allocator_muzzy as i64);
    let (allocated, active) = (facts.allocator_allocated, facts.allocator_active);
    out.ratio("allocator-fragmentation.ratio", "allocator-fragmentation.bytes", active, allocated);
    out.ratio("allocator-rss.ratio", "allocator-rss.bytes", facts.allocator_resident, active);
    out.ratio("rss-overhead.ratio", "rss-overhead.bytes", facts.resident, facts.allocator_resident);
    out.ratio("fragmentation", "fragmentation.bytes", facts.resident, report.used as usize);
}

/// Below this many bytes ratios are meaningless.
const SMALL_BYTES: u64 = 5 << 20;

pub(super) fn doctor(ctx: &mut ReportCtx<'_>, _: Args<'_>) -> Run {
    let facts = ctx.process.facts(ctx.keyspace);
    let report = MemoryReport::new(&super::view(ctx, &facts));
    ctx.reply.verbatim(b"txt", diagnosis(&report, &facts).as_bytes());
    Ok(Outcome::Done)
}

fn diagnosis(report: &MemoryReport, facts: &Facts) -> String {
    if report.used < SMALL_BYTES {
        return format!("{} in use: too little for a diagnosis.\n", human(report.used));
    }
    let mut findings = Vec::new();
    if report.peak as f64 > report.used as f64 * 1.5 {
        findings.push(format!(
            "Peak: {} were in use once, {} are now. The system may not get the difference back, and ratios below look \
             worse than they are until the memory is used again.",
            human(report.peak),
            human(report.used)
        ));
    }
    let resident = facts.resident as u64;
    if ratio(resident, report.used) > 1.4 {
        findings.push(format!(
            "Fragmentation: the process holds {} for {} in use. MEMORY PURGE may give some of it back.",
            human(resident),
            human(report.used)
        ));
    }
    if report.clients > report.used / 4 {
        findings.push(format!(
            "Clients: their buffers take {}. CLIENT LIST shows whose; client-output-buffer-limit bounds them.",
            human(report.clients)
        ));
    }
    if findings.is_empty() {
        return format!("{} in use, and nothing unusual about it.\n", human(report.used));
    }
    findings.iter().map(|finding| format!("* {finding}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnosis_names_what_is_unusual() {
        let report =
            MemoryReport { used: 10 << 20, peak: 100 << 20, clients: 5 << 20, ..MemoryReport::default() };
        let facts = Facts { resident: 30 << 20, ..Facts::default() };
        let text = diagnosis(&report, &facts);
        for word in ["* Peak: 100.00M", "* Fragmentation: ", "* Clients: "] {
            assert!(text.contains(word), "{text}");
        }
        let healthy = MemoryReport { used: 10 << 20, peak: 10 << 20, ..MemoryReport::default() };
        let facts = Facts { resident: 11 << 20, ..Facts::default() };
        assert_eq!(diagnosis(&healthy, &facts), "10.00M in use, and nothing unusual about it.\n");
        assert!(diagnosis(&MemoryReport::default(), &facts).contains("too little"));
    }
}
