//! Hashes.
//!
//! A field whose expiry is over is absent to every command but HLEN, which counts what is stored, as in the reference. Reading
//! deletes nothing: a write that meets such a field, or the expiry cycle, does.

mod expiry;
mod several;
mod slow;
mod walk;
mod write;

use crate::args::Args;
use crate::ctx::{Handler, Outcome, ReadCtx, Route, Run, route};
use crate::error::CmdError;
use sluice_base::num::{IntBuffer, parse_i64};
use sluice_command::specs::hash as specs;
use sluice_keyspace::{Access, ExpiryMode};
use sluice_resp::Reply;
use sluice_value::{HashField, HashRef, ListItem};

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::HDEL, Handler::Write(write::hdel)),
    route(&specs::HEXISTS, Handler::Read(hexists)),
    route(&specs::HEXPIRE, Handler::Write(expiry::hexpire)),
    route(&specs::HEXPIREAT, Handler::Write(expiry::hexpireat)),
    route(&specs::HEXPIRETIME, Handler::Read(expiry::hexpiretime)),
    route(&specs::HGET, Handler::Read(hget)),
    route(&specs::HGETALL, Handler::Read(hgetall)),
    route(&specs::HGETDEL, Handler::Write(several::hgetdel)),
    route(&specs::HGETEX, Handler::Write(several::hgetex)),
    route(&specs::HINCRBY, Handler::Write(write::hincrby)),
    route(&specs::HINCRBYFLOAT, Handler::Write(write::hincrbyfloat)),
    route(&specs::HKEYS, Handler::Read(hkeys)),
    route(&specs::HLEN, Handler::Read(hlen)),
    route(&specs::HMGET, Handler::Read(hmget)),
    route(&specs::HMSET, Handler::Write(write::hmset)),
    route(&specs::HPERSIST, Handler::Write(expiry::hpersist)),
    route(&specs::HPEXPIRE, Handler::Write(expiry::hpexpire)),
    route(&specs::HPEXPIREAT, Handler::Write(expiry::hpexpireat)),
    route(&specs::HPEXPIRETIME, Handler::Read(expiry::hpexpiretime)),
    route(&specs::HPTTL, Handler::Read(expiry::hpttl)),
    route(&specs::HRANDFIELD, Handler::Read(walk::hrandfield)),
    route(&specs::HSCAN, Handler::Read(walk::hscan)),
    route(&specs::HSET, Handler::Write(write::hset)),
    route(&specs::HSETEX, Handler::Write(several::hsetex)),
    route(&specs::HSETNX, Handler::Write(write::hsetnx)),
    route(&specs::HSTRLEN, Handler::Read(hstrlen)),
    route(&specs::HTTL, Handler::Read(expiry::httl)),
    route(&specs::HVALS, Handler::Read(hvals)),
];

/// By what time fields are absent.
#[derive(Clone, Copy, Debug)]
struct FieldClock {
    /// Fields with an earlier expiry are absent.
    now_ms: i64,
}

impl FieldClock {
    fn of(access: &Access) -> FieldClock {
        match access.expiry {
            ExpiryMode::Delete | ExpiryMode::Hide => FieldClock { now_ms: access.now.unix_ms() },
            // A primary's link, and an import source, see what is stored.
            ExpiryMode::Ignore => FieldClock { now_ms: i64::MIN },
        }
    }

    fn is_live(self, field: &HashField<'_>) -> bool {
        !field.is_expired(self.now_ms)
    }

    /// A field that has not expired.
    fn get<'a>(self, hash: HashRef<'a>, name: &[u8]) -> Option<HashField<'a>> {
        hash.get(name).filter(|field| self.is_live(field))
    }

    /// Whether no field of a hash has expired. O(1).
    fn all_live(self, hash: HashRef<'_>) -> bool {
        hash.earliest().is_none_or(|at| at >= self.now_ms)
    }
}

/// Writes a string of a hash as a bulk reply.
#[inline]
fn reply_item(reply: &mut Reply<'_>, item: ListItem<'_>) {
    match item {
        ListItem::Int(number) => reply.bulk_int(number),
        ListItem::Bytes(bytes) => reply.bulk(bytes),
        ListItem::Shared(bytes) => reply.bulk_shared(bytes),
    }
}

/// The value of a field, or null.
#[inline]
fn reply_value(reply: &mut Reply<'_>, field: Option<HashField<'_>>) {
    match field {
        Some(field) => reply_item(reply, field.value),
        None => reply.null(),
    }
}

/// The hash under the command's key, to read from.
#[inline]
fn hash_at<'a>(ctx: &mut ReadCtx<'a>, args: Args<'_>) -> Result<Option<HashRef<'a>>, CmdError> {
    match ctx.db.get(args.key(1)) {
        Some(entry) => Ok(Some(entry.as_hash()?)),
        None => Ok(None),
    }
}

/// An integer that a field holds.
fn int_of(item: ListItem<'_>) -> Option<i64> {
    match item {
        ListItem::Int(number) => Some(number),
        ListItem::Bytes(bytes) => parse_i64(bytes),
        ListItem::Shared(bytes) => parse_i64(bytes),
    }
}

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
    for group in args.member_groups(2, 1) {
        if let Some(hash) = hash {
            hash.prefetch_group(group.clone().map(|at| args.at(at)));
        }
        for at in group {
            reply_value(&mut ctx.reply, hash.and_then(|hash| clock.get(hash, args.at(at))));
        }
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

/// One string of each field.
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
