//! CLUSTER FLUSHSLOT.

use super::change::slot;
use super::forms::unknown_form;
use crate::ctx::DatasetCtx;
use sluice_commands::{Args, CmdError, Outcome, Run};
use sluice_keyspace::{Dataset, Event, Key};

/// A slot with at most this many keys is emptied key by key, which takes about 0.1 ms; detaching the keys to
/// free them later would take as long.
const FEW_KEYS: usize = 256;

/// CLUSTER FLUSHSLOT (G-20), whoever owns the slot. Many keys are detached at once and freed in slices,
/// even with `SYNC`: freeing them before the reply would stop the server. If clients receive an event for
/// each key, or another node receives the slot, all keys are deleted one by one before the reply, because the
/// next command may create one of the keys again.
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
    let keys: usize = ctx.data.keyspace().iter().map(|(_, db)| db.slot_len(slot)).sum();
    if keys > FEW_KEYS && !ctx.data.effects.flushed_keys.each_is_told() {
        ctx.data.detach_slot(slot);
    } else {
        delete_keys(&mut ctx.data, slot);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Deletes the keys of a slot one by one. Large values are freed on another thread.
fn delete_keys(data: &mut Dataset<'_>, slot: u16) {
    let hasher = data.keyspace().hasher();
    for number in 0..data.databases() {
        let mut cursor = 0;
        while data.keyspace().db(number).slot_len(slot) > 0 {
            let mut names = Vec::new();
            cursor =
                data.keyspace().walk_slot(number, slot, cursor, |entry| names.push(entry.key().to_vec()));
            let mut db = data.db(number);
            for name in names {
                db.remove(Key::hashed(&name, hasher), Event::Del);
                db.effects.flushed_keys.note(number, &name);
            }
        }
    }
}
