//! CLUSTER commands about the keys of a slot, in the caller's database (D-4).

use crate::ctx::ClusterCtx;
use sluice_cluster::SLOT_COUNT;
use sluice_commands::{Args, CmdError, Outcome, Run};

/// The slot's number; `None` if it is out of range.
fn number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOT_COUNT)
}

pub(super) fn key_slot(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    ctx.reply.int(i64::from(sluice_base::key_slot(args.at(2))));
    Ok(Outcome::Done)
}

/// Number of keys of a slot in the caller's database; 0 while the slot's keys are being deleted (G-22).
fn keys_in_slot(ctx: &ClusterCtx<'_>, slot: u16) -> usize {
    match ctx.keyspace.is_leaving(slot) {
        true => 0,
        false => ctx.keyspace.db(ctx.session.caller.db).slot_len(slot),
    }
}

/// CLUSTER COUNTKEYSINSLOT (G-10).
pub(super) fn count_keys_in_slot(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    let slot = number(args.int(2)?).ok_or(CmdError::text("ERR Invalid slot"))?;
    let keys = keys_in_slot(ctx, slot);
    ctx.reply.int(i64::try_from(keys).unwrap_or(i64::MAX));
    Ok(Outcome::Done)
}

/// CLUSTER GETKEYSINSLOT (G-11).
pub(super) fn get_keys_in_slot(ctx: &mut ClusterCtx<'_>, args: Args<'_>) -> Run {
    const REFUSED: CmdError = CmdError::text("ERR Invalid slot or number of keys");
    let (slot, count) = (args.int(2)?, args.int(3)?);
    let slot = number(slot).ok_or(REFUSED)?;
    let count = usize::try_from(count).map_err(|_| REFUSED)?;
    let (db, count) = (ctx.keyspace.db(ctx.session.caller.db), count.min(keys_in_slot(ctx, slot)));
    ctx.reply.array(count);
    db.slot_iter(slot).take(count).for_each(|handle| ctx.reply.bulk(db.entry(handle).key()));
    Ok(Outcome::Done)
}
