//! Commands about keys of any type.

mod dump;
pub(crate) mod expiry;
mod migrate;
mod names;
mod object;
mod sort;
pub(crate) mod walk;

pub(crate) use dump::dumped;
pub(crate) use walk::{parse_cursor, reply_cursor};

use crate::args::Args;
use crate::exec::ctx::{Handler, ReadCtx, Route, WriteCtx, route};
use crate::exec::outcome::{Outcome, Run};
use sluice_command::specs::generic as specs;
use sluice_keyspace::Event;

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::COPY, Handler::Write(names::copy)),
    route(&specs::DEL, Handler::Write(del)),
    route(&specs::DUMP, Handler::Read(dump::dump)),
    route(&specs::EXISTS, Handler::Read(exists)),
    route(&specs::EXPIRE, Handler::Write(expiry::expire)),
    route(&specs::EXPIREAT, Handler::Write(expiry::expireat)),
    route(&specs::EXPIRETIME, Handler::Read(expiry::expiretime)),
    route(&specs::KEYS, Handler::Read(walk::keys)),
    route(&specs::MIGRATE, Handler::Write(migrate::migrate)),
    route(&specs::MOVE, Handler::Write(names::move_)),
    route(&specs::OBJECT_ENCODING, Handler::Read(object::encoding)),
    route(&specs::OBJECT_FREQ, Handler::Read(object::freq)),
    route(&specs::OBJECT_HELP, Handler::Session(object::help)),
    route(&specs::OBJECT_IDLETIME, Handler::Read(object::idletime)),
    route(&specs::OBJECT_REFCOUNT, Handler::Read(object::refcount)),
    route(&specs::PERSIST, Handler::Write(expiry::persist)),
    route(&specs::PEXPIRE, Handler::Write(expiry::pexpire)),
    route(&specs::PEXPIREAT, Handler::Write(expiry::pexpireat)),
    route(&specs::PEXPIRETIME, Handler::Read(expiry::pexpiretime)),
    route(&specs::PTTL, Handler::Read(expiry::pttl)),
    route(&specs::RANDOMKEY, Handler::Read(walk::randomkey)),
    route(&specs::RENAME, Handler::Write(names::rename)),
    route(&specs::RENAMENX, Handler::Write(names::renamenx)),
    route(&specs::RESTORE, Handler::Write(dump::restore)),
    route(&sluice_command::specs::server::RESTORE_ASKING, Handler::Write(dump::restore)),
    route(&specs::SCAN, Handler::Read(walk::scan)),
    route(&specs::SORT, Handler::Write(sort::sort)),
    route(&specs::SORT_RO, Handler::Read(sort::sort_ro)),
    route(&specs::TOUCH, Handler::Read(touch)),
    route(&specs::TTL, Handler::Read(expiry::ttl)),
    route(&specs::TYPE, Handler::Read(type_)),
    route(&specs::UNLINK, Handler::Write(del)),
];

/// DEL and UNLINK: what is large is freed by another thread either way.
fn del(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let mut removed = 0;
    let mut windows = args.key_windows(1..args.len(), 1);
    while let Some(window) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        for (_, key) in window.keys() {
            removed += i64::from(ctx.db.remove(*key, Event::Del));
        }
    }
    ctx.reply.int(removed);
    Ok(Outcome::Done)
}

fn exists(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut found = 0;
    let mut windows = args.key_windows(1..args.len(), 1);
    while let Some(window) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        found += window.keys().iter().filter(|(_, key)| ctx.db.peek(*key).is_some()).count() as i64;
    }
    ctx.reply.int(found);
    Ok(Outcome::Done)
}

fn touch(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut found = 0;
    let mut windows = args.key_windows(1..args.len(), 1);
    while let Some(window) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        found += window.keys().iter().filter(|(_, key)| ctx.db.get(*key).is_some()).count() as i64;
    }
    ctx.reply.int(found);
    Ok(Outcome::Done)
}

fn type_(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let name = ctx.db.peek(args.key(1)).map_or("none", |entry| entry.type_of().name());
    ctx.reply.simple(name.as_bytes());
    Ok(Outcome::Done)
}
