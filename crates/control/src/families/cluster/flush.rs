//! CLUSTER FLUSHSLOT.

use super::change::slot;
use super::forms::unknown_form;
use crate::ctx::DatasetCtx;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_keyspace::{Event, Key};

/// Names that are held beside the keys that they are taken from.
const KEYS_AT_ONCE: usize = 64;

/// CLUSTER FLUSHSLOT (G-20): of whomever the slot is. Large values are freed on another thread, whatever
/// `SYNC` says: their number is that of the keys, which are removed here one by one in any case.
pub(super) fn flushslot(ctx: &mut DatasetCtx<'_>, args: Args<'_>) -> Run {
    if !ctx.limits.is_cluster {
        return Err(CmdError::NO_CLUSTER);
    }
    if args.len() > 4 {
        return Err(unknown_form(args));
    }
    let slot = slot(args, 2)?.number();
    if args.len() == 4 && !args.is(3, "SYNC") && !args.is(3, "ASYNC") {
        return Err(CmdError::Syntax);
    }
    for number in 0..ctx.data.databases() {
        let hasher = ctx.data.keyspace().hasher();
        loop {
            let db = ctx.data.keyspace().db(number);
            let some = db.slot_iter(slot).take(KEYS_AT_ONCE);
            let names: Vec<Vec<u8>> = some.map(|handle| db.entry(handle).key().to_vec()).collect();
            if names.is_empty() {
                break;
            }
            let mut db = ctx.data.db(number);
            for name in names {
                db.remove(Key::hashed(&name, hasher), Event::Del);
                db.effects.flushed_keys.note(number, &name);
            }
        }
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}
