//! Commands on keys of any type.

mod dump;
pub(crate) mod expiry;
mod migrate;
mod names;
mod object;
mod sort;
pub(crate) mod walk;

pub use walk::{KeyWalk, slot_of_cursor};
pub(crate) use walk::{parse_cursor, reply_scan_cursor};

use crate::args::Args;
use crate::ctx::{DataHandler, DataRoute, ReadCtx, WriteCtx, route};
use crate::outcome::{Outcome, Run};
use crate::server::reply_help;
use sluice_command::specs::generic as specs;
use sluice_keyspace::Event;

pub(crate) const ROUTES: &[DataRoute] = &[
    route(&specs::COPY, DataHandler::Write(names::copy)),
    route(&specs::DEL, DataHandler::Write(del)),
    route(&specs::DUMP, DataHandler::Read(dump::dump)),
    route(&specs::EXISTS, DataHandler::Read(exists)),
    route(&specs::EXPIRE, DataHandler::Write(expiry::expire)),
    route(&specs::EXPIREAT, DataHandler::Write(expiry::expireat)),
    route(&specs::EXPIRETIME, DataHandler::Read(expiry::expiretime)),
    route(&specs::KEYS, DataHandler::Read(walk::keys)),
    route(&specs::MIGRATE, DataHandler::Write(migrate::migrate)),
    route(&specs::MOVE, DataHandler::Write(names::move_)),
    route(&specs::OBJECT_ENCODING, DataHandler::Read(object::encoding)),
    route(&specs::OBJECT_FREQ, DataHandler::Read(object::freq)),
    route(&specs::OBJECT_HELP, DataHandler::Static(|ctx, _| reply_help(ctx, &specs::OBJECT))),
    route(&specs::OBJECT_IDLETIME, DataHandler::Read(object::idletime)),
    route(&specs::OBJECT_REFCOUNT, DataHandler::Read(object::refcount)),
    route(&specs::PERSIST, DataHandler::Write(expiry::persist)),
    route(&specs::PEXPIRE, DataHandler::Write(expiry::pexpire)),
    route(&specs::PEXPIREAT, DataHandler::Write(expiry::pexpireat)),
    route(&specs::PEXPIRETIME, DataHandler::Read(expiry::pexpiretime)),
    route(&specs::PTTL, DataHandler::Read(expiry::pttl)),
    route(&specs::RANDOMKEY, DataHandler::Read(walk::randomkey)),
    route(&specs::RENAME, DataHandler::Write(names::rename)),
    route(&specs::RENAMENX, DataHandler::Write(names::renamenx)),
    route(&specs::RESTORE, DataHandler::Write(dump::restore)),
    route(&sluice_command::specs::server::RESTORE_ASKING, DataHandler::Write(dump::restore)),
    route(&specs::SCAN, DataHandler::Read(walk::scan)),
    route(&specs::SORT, DataHandler::Write(sort::sort)),
    route(&specs::SORT_RO, DataHandler::Read(sort::sort_ro)),
    route(&specs::TOUCH, DataHandler::Read(touch)),
    route(&specs::TTL, DataHandler::Read(expiry::ttl)),
    route(&specs::TYPE, DataHandler::Read(type_)),
    route(&specs::UNLINK, DataHandler::Write(del)),
];

/// DEL and UNLINK. In both commands, large values are freed by another thread.
fn del(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let mut removed = 0;
    let mut windows = args.key_windows(1..args.len(), 1);
    while let Some(keys) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        for (_, key) in keys {
            removed += i64::from(ctx.db.remove(*key, Event::Del));
        }
    }
    ctx.reply.int(removed);
    Ok(Outcome::Done)
}

fn exists(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut found = 0;
    let mut windows = args.key_windows(1..args.len(), 1);
    while let Some(keys) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        found += keys.iter().filter(|(_, key)| ctx.db.peek(*key).is_some()).count() as i64;
    }
    ctx.reply.int(found);
    Ok(Outcome::Done)
}

fn touch(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let mut found = 0;
    let mut windows = args.key_windows(1..args.len(), 1);
    while let Some(keys) = windows.next(|keys| ctx.db.prefetch(keys.iter().map(|(_, key)| key.hash))) {
        found += keys.iter().filter(|(_, key)| ctx.db.get(*key).is_some()).count() as i64;
    }
    ctx.reply.int(found);
    Ok(Outcome::Done)
}

fn type_(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let name = ctx.db.peek(args.key(1)).map_or("none", |entry| entry.type_of().name());
    ctx.reply.simple(name.as_bytes());
    Ok(Outcome::Done)
}
