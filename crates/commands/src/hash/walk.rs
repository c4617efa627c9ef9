//! HRANDFIELD and HSCAN.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::element::reply_item;
use crate::error::CmdError;
use crate::generic::{parse_cursor, reply_scan_cursor};
use crate::hash::common::{FieldClock, hash_at};
use crate::name_filter::NameFilter;
use crate::outcome::{Outcome, Run};
use sluice_base::Rng;
use sluice_base::num::IntBuffer;
use sluice_resp::{Protocol, Reply};
use sluice_value::{HashField, HashRef};
use std::collections::HashSet;

/// Whether the reply contains values next to the fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DrawnParts {
    Names,
    Pairs,
}

pub(super) fn hrandfield(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    if args.len() == 2 {
        let field = hash_at(ctx, args)?.and_then(|hash| random(hash, clock, ctx.rng));
        match field {
            Some(field) => reply_item(&mut ctx.reply, field.name),
            None => ctx.reply.null(),
        }
        return Ok(Outcome::Done);
    }
    let count = match args.int(2)? {
        i64::MIN => {
            return Err(CmdError::text(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ));
        }
        count => count,
    };
    let shown = match args.len() {
        3 => DrawnParts::Names,
        4 if args.is(3, "WITHVALUES") => DrawnParts::Pairs,
        _ => return Err(CmdError::Syntax),
    };
    let output_max = ctx.limits.output[0].hard;
    if shown == DrawnParts::Pairs && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2
        || count < -REPEATED_MAX && output_max == 0
    {
        return Err(CmdError::text("ERR value is out of range"));
    }
    let Some(hash) = hash_at(ctx, args)? else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        repeated(ctx, hash, clock, wanted, shown);
    } else {
        distinct(ctx, hash, clock, wanted, shown);
    }
    Ok(Outcome::Done)
}

/// A random field that has not expired; `None` if all fields have expired.
fn random<'a>(hash: HashRef<'a>, clock: FieldClock, rng: &mut Rng) -> Option<HashField<'a>> {
    for _ in 0..RANDOM_TRIES {
        let field = hash.nth(rng.below(hash.len() as u64) as usize)?;
        if clock.is_live(&field) {
            return Some(field);
        }
    }
    let live = hash.iter().filter(|field| clock.is_live(field)).count();
    let rank = rng.below(live as u64) as usize;
    hash.iter().filter(|field| clock.is_live(field)).nth(rank)
}

fn reply_field(reply: &mut Reply<'_>, field: HashField<'_>, shown: DrawnParts) {
    if shown == DrawnParts::Pairs && reply.protocol() == Protocol::Resp3 {
        reply.array(2);
    }
    reply_item(reply, field.name);
    if shown == DrawnParts::Pairs {
        reply_item(reply, field.value);
    }
}

fn reply_count(reply: &mut Reply<'_>, count: usize, shown: DrawnParts) {
    let each = if shown == DrawnParts::Pairs && reply.protocol() == Protocol::Resp2 { 2 } else { 1 };
    reply.array(count * each);
}

/// Replies with `count` random fields, each drawn from all fields that have not expired. If all have expired,
/// the reply has no fields.
fn repeated(ctx: &mut ReadCtx<'_>, hash: HashRef<'_>, clock: FieldClock, count: usize, shown: DrawnParts) {
    // The live fields are listed if some fields have expired, or if finding a field by rank is slow.
    let listed: Option<Vec<HashField<'_>>> = (hash.row().is_some() || !clock.all_live(hash))
        .then(|| hash.iter().filter(|field| clock.is_live(field)).collect());
    let len = listed.as_ref().map_or(hash.len(), Vec::len);
    if len == 0 {
        return ctx.reply.array(0);
    }
    reply_count(&mut ctx.reply, count, shown);
    let output_max = ctx.limits.output[0].hard;
    for _ in 0..count {
        let rank = ctx.rng.below(len as u64) as usize;
        let field = match &listed {
            Some(listed) => listed.get(rank).copied(),
            None => hash.nth(rank),
        };
        if let Some(field) = field {
            reply_field(&mut ctx.reply, field, shown);
        }
        // The reply may be left unfinished, because it exceeds the client's output limit, and the client
        // is closed as soon as its output is checked.
        if output_max > 0 && ctx.reply.outbox().len() > output_max {
            return;
        }
    }
}

/// Replies with `count` different random fields that have not expired, or with all of them if there are
/// fewer.
fn distinct(ctx: &mut ReadCtx<'_>, hash: HashRef<'_>, clock: FieldClock, count: usize, shown: DrawnParts) {
    let all_live = clock.all_live(hash);
    let live = |field: &HashField<'_>| clock.is_live(field);
    let len = if all_live { hash.len() } else { hash.iter().filter(live).count() };
    let count = count.min(len);
    reply_count(&mut ctx.reply, count, shown);
    if all_live && hash.row().is_none() && count <= len / 3 {
        let mut ranks = HashSet::with_capacity(count);
        while ranks.len() < count {
            let rank = ctx.rng.below(len as u64) as usize;
            if ranks.insert(rank)
                && let Some(field) = hash.nth(rank)
            {
                reply_field(&mut ctx.reply, field, shown);
            }
        }
        return;
    }
    // Each field is chosen with the probability `needed / left`, so every selection is equally likely.
    let (mut needed, mut left) = (count as u64, len as u64);
    for field in hash.iter().filter(live) {
        if ctx.rng.below(left) < needed {
            reply_field(&mut ctx.reply, field, shown);
            needed -= 1;
        }
        left -= 1;
    }
}

/// The options of HSCAN.
struct HscanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    shown: DrawnParts,
}

impl<'a> HscanOptions<'a> {
    fn parse(args: Args<'a>) -> Result<HscanOptions<'a>, CmdError> {
        let mut options = HscanOptions { pattern: None, count: 10, shown: DrawnParts::Pairs };
        let mut i = 3;
        while i < args.len() {
            let value = args.get(i + 1);
            if args.is(i, "COUNT") && value.is_some() {
                let count = args.int(i + 1)?;
                options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(CmdError::Syntax)?;
                i += 2;
            } else if args.is(i, "MATCH") && value.is_some() {
                options.pattern = value.filter(|pattern| *pattern != b"*");
                i += 2;
            } else if args.is(i, "NOVALUES") {
                options.shown = DrawnParts::Names;
                i += 1;
            } else if args.is(i, "NOSCORES") {
                return Err(CmdError::text("ERR NOSCORES option can only be used in ZSCAN"));
            } else {
                return Err(CmdError::Syntax);
            }
        }
        Ok(options)
    }
}

pub(super) fn hscan(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let cursor = parse_cursor(args.at(2)).ok_or(CmdError::text("ERR invalid cursor"))?;
    let clock = FieldClock::of(&ctx.db.access);
    let Some(hash) = hash_at(ctx, args)? else {
        ctx.reply.array(2);
        ctx.reply.bulk(b"0");
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    let options = HscanOptions::parse(args)?;
    let mut filter = NameFilter::new(options.pattern);
    let mut found = Vec::new();
    let next = hash.scan(cursor, options.count, |field| {
        if clock.is_live(&field) && filter.passes(field.name.bytes(&mut IntBuffer::new())) {
            found.push(field);
        }
    });
    let with_values = options.shown == DrawnParts::Pairs;
    let items = found.into_iter().map(|field| {
        move |reply: &mut Reply<'_>| {
            reply_item(reply, field.name);
            if with_values {
                reply_item(reply, field.value);
            }
        }
    });
    filter.reply(ctx, |ctx| reply_scan_cursor(ctx, next), if with_values { 2 } else { 1 }, items)
}

/// Number of random draws that may hit expired fields before the live fields are counted and one of them is
/// drawn by its rank.
const RANDOM_TRIES: usize = 50;
/// Largest number of fields in a reply with repeated fields if the client's output has no limit. The number
/// is limited because the whole reply is in memory.
const REPEATED_MAX: i64 = 1 << 27;
