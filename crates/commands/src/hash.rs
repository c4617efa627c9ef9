//! Hashes.
//!
//! An expired field is absent to every command except HLEN, which counts stored fields, as in the reference.
//! Reads delete nothing: an expired field is replaced by a write to it, or deleted by the expiry cycle or by
//! HSETEX with a time that has passed.

mod common;
mod expiry;
mod several;
mod slow;
mod walk;
mod write;

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, route};
use crate::element::reply_item;
use crate::hash::common::{FieldClock, hash_at, reply_value};
use crate::outcome::{Outcome, Run};
use sluice_base::num::IntBuffer;
use sluice_command::specs::hash as specs;
use sluice_value::{HashField, HashRef, ListItem};

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::HDEL, DataHandler::Write(write::hdel)),
    route(&specs::HEXISTS, DataHandler::Read(hexists)),
    route(&specs::HEXPIRE, DataHandler::Write(expiry::hexpire)),
    route(&specs::HEXPIREAT, DataHandler::Write(expiry::hexpireat)),
    route(&specs::HEXPIRETIME, DataHandler::Read(expiry::hexpiretime)),
    route(&specs::HGET, DataHandler::Read(hget)),
    route(&specs::HGETALL, DataHandler::Read(hgetall)),
    route(&specs::HGETDEL, DataHandler::Write(several::hgetdel)),
    route(&specs::HGETEX, DataHandler::Write(several::hgetex)),
    route(&specs::HINCRBY, DataHandler::Write(write::hincrby)),
    route(&specs::HINCRBYFLOAT, DataHandler::Write(write::hincrbyfloat)),
    route(&specs::HKEYS, DataHandler::Read(hkeys)),
    route(&specs::HLEN, DataHandler::Read(hlen)),
    route(&specs::HMGET, DataHandler::Read(hmget)),
    route(&specs::HMSET, DataHandler::Write(write::hmset)),
    route(&specs::HPERSIST, DataHandler::Write(expiry::hpersist)),
    route(&specs::HPEXPIRE, DataHandler::Write(expiry::hpexpire)),
    route(&specs::HPEXPIREAT, DataHandler::Write(expiry::hpexpireat)),
    route(&specs::HPEXPIRETIME, DataHandler::Read(expiry::hpexpiretime)),
    route(&specs::HPTTL, DataHandler::Read(expiry::hpttl)),
    route(&specs::HRANDFIELD, DataHandler::Read(walk::hrandfield)),
    route(&specs::HSCAN, DataHandler::Read(walk::hscan)),
    route(&specs::HSET, DataHandler::Write(write::hset)),
    route(&specs::HSETEX, DataHandler::Write(several::hsetex)),
    route(&specs::HSETNX, DataHandler::Write(write::hsetnx)),
    route(&specs::HSTRLEN, DataHandler::Read(hstrlen)),
    route(&specs::HTTL, DataHandler::Read(expiry::httl)),
    route(&specs::HVALS, DataHandler::Read(hvals)),
];

fn hget(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let hash = hash_at(ctx, args)?;
    reply_value(&mut ctx.reply, hash.and_then(|hash| clock.get(hash, args.at(2))));
    Ok(Outcome::Done)
}

fn hmget(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let hash = hash_at(ctx, args)?;
    ctx.reply.array(args.len() - 2);
    let names = args.iter_from(2);
    match hash {
        Some(hash) => hash.get_each(names, |field| {
            reply_value(&mut ctx.reply, field.filter(|field| clock.is_live(field)));
        }),
        None => names.for_each(|_| ctx.reply.null()),
    }
    Ok(Outcome::Done)
}

fn hexists(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let hash = hash_at(ctx, args)?;
    let found = hash.is_some_and(|hash| clock.get(hash, args.at(2)).is_some());
    ctx.reply.int(i64::from(found));
    Ok(Outcome::Done)
}

fn hstrlen(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let hash = hash_at(ctx, args)?;
    let field = hash.and_then(|hash| clock.get(hash, args.at(2)));
    let len = field.map_or(0, |field| field.value.bytes(&mut IntBuffer::new()).len());
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

fn hlen(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = hash_at(ctx, args)?.map_or(0, HashRef::len);
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

fn hgetall(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let Some(hash) = hash_at(ctx, args)? else {
        ctx.reply.map(0);
        return Ok(Outcome::Done);
    };
    if ctx.slow.suits(hash.len()) {
        return ctx.slow.begin(|| slow::read(hash, clock, slow::FieldParts::Pairs));
    }
    if clock.all_live(hash) {
        ctx.reply.map(hash.len());
        for field in hash.iter() {
            reply_item(&mut ctx.reply, field.name);
            reply_item(&mut ctx.reply, field.value);
        }
        return Ok(Outcome::Done);
    }
    let map = ctx.reply.defer();
    let mut count = 0;
    for field in hash.iter().filter(|field| clock.is_live(field)) {
        reply_item(&mut ctx.reply, field.name);
        reply_item(&mut ctx.reply, field.value);
        count += 1;
    }
    ctx.reply.end_map(map, count);
    Ok(Outcome::Done)
}

fn hkeys(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_each(ctx, args, slow::FieldParts::Names, |field| field.name)
}

fn hvals(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply_each(ctx, args, slow::FieldParts::Values, |field| field.value)
}

/// Replies with an array of one string for each field.
fn reply_each<'a>(
    ctx: &mut ReadCtx<'a>,
    args: Args<'_>,
    shown: slow::FieldParts,
    part: impl Fn(HashField<'a>) -> ListItem<'a>,
) -> Run {
    let clock = FieldClock::of(&ctx.db.access);
    let Some(hash) = hash_at(ctx, args)? else {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    };
    if ctx.slow.suits(hash.len()) {
        return ctx.slow.begin(|| slow::read(hash, clock, shown));
    }
    if clock.all_live(hash) {
        ctx.reply.array(hash.len());
        hash.iter().for_each(|field| reply_item(&mut ctx.reply, part(field)));
        return Ok(Outcome::Done);
    }
    let array = ctx.reply.defer();
    let mut count = 0;
    for field in hash.iter().filter(|field| clock.is_live(field)) {
        reply_item(&mut ctx.reply, part(field));
        count += 1;
    }
    ctx.reply.end_array(array, count);
    Ok(Outcome::Done)
}
