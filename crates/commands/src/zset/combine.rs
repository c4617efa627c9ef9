//! ZUNION, ZINTER, ZDIFF, their storing variants, and ZINTERCARD.

mod slow;

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::item_commands::{ItemCommands, is_told_by_result};
use crate::outcome::{Outcome, Run};
use crate::zset::inputs::{CombineOptions, Members, NumkeysCall, SetOperation, keys_of};
use sluice_base::num::push_f64_shortest;
use sluice_keyspace::{EncodedCommands, Event, Key};
use sluice_value::Zset;

pub(super) fn zunion(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply(ctx, args, SetOperation::Union, "zunion")
}

pub(super) fn zinter(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply(ctx, args, SetOperation::Inter, "zinter")
}

pub(super) fn zdiff(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    reply(ctx, args, SetOperation::Diff, "zdiff")
}

pub(crate) fn reply(
    ctx: &mut ReadCtx<'_>,
    args: Args<'_>,
    operation: SetOperation,
    name: &'static str,
) -> Run {
    let keys = keys_of(args, 1, name)?;
    let options =
        if operation == SetOperation::Diff { CombineOptions::DiffReply } else { CombineOptions::Reply };
    let call = NumkeysCall::parse(|key| ctx.db.get(key), args, keys, options)?;
    if ctx.slow.suits(call.members()) {
        return ctx.slow.begin(|| slow::combined(&call, operation));
    }
    call.reply(operation, &mut ctx.reply);
    Ok(Outcome::Done)
}

pub(super) fn zintercard(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let keys = keys_of(args, 1, "zintercard")?;
    let mut call = NumkeysCall::parse(|key| ctx.db.get(key), args, keys, CombineOptions::Card)?;
    call.sources.sort_by_key(|source| source.members.len());
    // The cost is that of walking the smallest set, because its members are looked up in the others.
    if ctx.slow.suits(call.sources.first().map_or(0, |source| source.members.len())) {
        return ctx.slow.begin(|| slow::counted(&call));
    }
    ctx.reply.int(call.count() as i64);
    Ok(Outcome::Done)
}

pub(super) fn zunionstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, SetOperation::Union, ("zunionstore", Event::ZUnionStore))
}

pub(super) fn zinterstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, SetOperation::Inter, ("zinterstore", Event::ZInterStore))
}

pub(super) fn zdiffstore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    store(ctx, args, SetOperation::Diff, ("zdiffstore", Event::ZDiffStore))
}

fn store(
    ctx: &mut WriteCtx<'_>,
    args: Args<'_>,
    operation: SetOperation,
    (name, event): (&'static str, Event),
) -> Run {
    let keys = keys_of(args, 2, name)?;
    // These look-ups delete expired keys before the command is propagated, because a replica executes the
    // command with the keys that it has.
    for index in keys.clone() {
        if let Some(entry) = ctx.db.get(args.key(index)) {
            Members::of(entry.value())?;
        }
    }
    let limits = ctx.limits.zset;
    let mut context = ctx.db.zset_context(limits);
    let options =
        if operation == SetOperation::Diff { CombineOptions::DiffStore } else { CombineOptions::Store };
    let mut db = ctx.db.reading();
    let elements = NumkeysCall::parse(|key| db.look(key), args, keys, options)?.run(operation);
    let elements: Vec<(&[u8], f64)> = elements.iter().map(|(member, score)| (&**member, *score)).collect();
    let encoding = limits.encoding_for(elements.len(), longest(&elements));
    let new = Zset::from_sorted(elements.into_iter(), encoding, &mut context);
    let (target, told) = (args.key(1), is_told_by_result(&ctx.db).then(|| new.share()));
    let existed = store_sorted(ctx, target, new, event);
    if let Some(told) = told {
        ctx.db.effects.rewrite_encoded(|| stored_elements(target, existed, &told));
    }
    Ok(Outcome::Done)
}

/// The commands for the replication stream that delete any old value and then store a result.
pub(crate) fn stored_elements(key: Key<'_>, existed: bool, elements: &Zset) -> EncodedCommands {
    let commands = ItemCommands::new((b"ZADD", key.bytes), (elements.len(), 2));
    let (mut commands, mut text) = (commands.in_place_of(existed), Vec::with_capacity(32));
    for (member, score) in elements.view().iter_all() {
        text.clear();
        push_f64_shortest(&mut text, score);
        commands.push(&[&text, member]);
    }
    commands.finish()
}

/// Length in bytes of the longest member.
pub(super) fn longest(elements: &[(&[u8], f64)]) -> usize {
    elements.iter().map(|(member, _)| member.len()).max().unwrap_or(0)
}

/// Stores a result and replies with its size; an empty one deletes the key. Returns whether the key existed.
pub(crate) fn store_sorted(ctx: &mut WriteCtx<'_>, key: Key<'_>, new: Zset, event: Event) -> bool {
    let len = new.len();
    ctx.reply.int(len as i64);
    match len {
        0 => ctx.db.remove_stored(key, Event::Del),
        _ => ctx.db.store_zset(key, new, event),
    }
}
