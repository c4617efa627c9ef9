//! XACKDEL and XDELEX, as version 9.2 of the reference has them: entries are deleted, and what consumer
//! groups know of them is heeded.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::stream::common::INVALID_ID;
use sluice_keyspace::{Argv, Event, StreamEdit};
use sluice_value::StreamContext;
use sluice_value::stream::{Stream, StreamId};
use std::collections::BTreeMap;

/// What becomes of an entry that consumer groups know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceMode {
    /// It is deleted, and stays pending where it is.
    KeepRef,
    /// It is deleted, and pending nowhere.
    DelRef,
    /// It is deleted unless a group has it pending or may yet send it.
    Acked,
}

/// What the reply says of an id.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdFate {
    NotFound,
    Deleted,
    /// A group needs it.
    Needed,
}

impl IdFate {
    fn number(self) -> i64 {
        match self {
            IdFate::NotFound => -1,
            IdFate::Deleted => 1,
            IdFate::Needed => 2,
        }
    }
}

/// Reads `[KEEPREF | DELREF | ACKED] IDS numids`, from the argument at `at` on; the mode, and where the ids
/// begin. There are as many as were announced.
fn options(args: Args<'_>, mut at: usize) -> Result<(ReferenceMode, usize), CmdError> {
    let words = [
        ("KEEPREF", ReferenceMode::KeepRef),
        ("DELREF", ReferenceMode::DelRef),
        ("ACKED", ReferenceMode::Acked),
    ];
    let said = words.into_iter().find(|(word, _)| args.is(at, word)).map(|(_, mode)| mode);
    at += usize::from(said.is_some());
    if !args.is(at, "IDS") {
        return Err(CmdError::Syntax);
    }
    let count = args.int(at + 1)?;
    if count <= 0 {
        return Err(CmdError::text("ERR The IDs argument must be a positive integer"));
    }
    let first = at + 2;
    if i64::try_from(args.len().saturating_sub(first)) != Ok(count) {
        return Err(CmdError::Syntax);
    }
    Ok((said.unwrap_or(ReferenceMode::KeepRef), first))
}

/// What was done, for the reply and for replicas.
#[derive(Default)]
struct Removal {
    fates: Vec<i64>,
    deleted: Vec<StreamId>,
    /// Acknowledged ids, by group.
    acknowledged: BTreeMap<Vec<u8>, Vec<StreamId>>,
}

impl Removal {
    fn acknowledge(
        &mut self,
        stream: &mut Stream,
        context: &mut StreamContext,
        group: &[u8],
        id: StreamId,
    ) -> bool {
        let was_pending =
            stream.with_group(group, context, |group, _, copied| group.acknowledge(id, copied)) == Some(true);
        if was_pending {
            match self.acknowledged.get_mut(group) {
                Some(ids) => ids.push(id),
                None => drop(self.acknowledged.insert(group.to_vec(), vec![id])),
            }
        }
        was_pending
    }

    /// Makes an entry pending nowhere. Cost: O(groups).
    fn acknowledge_everywhere(&mut self, stream: &mut Stream, context: &mut StreamContext, id: StreamId) {
        let holders: Vec<Vec<u8>> = stream
            .groups()
            .filter(|group| group.pending(id).is_some())
            .map(|group| group.name().to_vec())
            .collect();
        for group in holders {
            self.acknowledge(stream, context, &group, id);
        }
    }

    fn delete(&mut self, stream: &mut Stream, context: &mut StreamContext, id: StreamId) -> bool {
        let was_there = stream.delete(id, context);
        if was_there {
            self.deleted.push(id);
        }
        was_there
    }

    /// Deletes an entry, with what groups know of it as `mode` says; or leaves an entry that a group needs.
    fn remove(
        &mut self,
        stream: &mut Stream,
        context: &mut StreamContext,
        mode: ReferenceMode,
        id: StreamId,
    ) -> IdFate {
        if mode == ReferenceMode::Acked && is_needed(stream, id) {
            return IdFate::Needed;
        }
        if mode == ReferenceMode::DelRef {
            // Also of an entry that is gone, of which this is all that is left.
            self.acknowledge_everywhere(stream, context, id);
        }
        match self.delete(stream, context, id) {
            true => IdFate::Deleted,
            false => IdFate::NotFound,
        }
    }

    /// XACK for each group and XDEL, which those know that do not know these commands.
    fn commands(self, key: &[u8]) -> Vec<Argv> {
        let with_ids = |mut argv: Argv, ids: Vec<StreamId>| {
            argv.extend(ids.into_iter().map(StreamId::to_text));
            argv
        };
        let acks = self
            .acknowledged
            .into_iter()
            .map(|(group, ids)| with_ids(vec![b"XACK".to_vec(), key.to_vec(), group], ids));
        let mut commands: Vec<Argv> = acks.collect();
        if !self.deleted.is_empty() {
            commands.push(with_ids(vec![b"XDEL".to_vec(), key.to_vec()], self.deleted));
        }
        commands
    }

    /// Says what has changed; what the reply says of the ids. An entry that is only acknowledged makes no
    /// event.
    fn finish(mut self, mut edit: StreamEdit<'_>, key: &[u8]) -> Vec<i64> {
        let fates = std::mem::take(&mut self.fates);
        let acknowledged = self.acknowledged.values().map(Vec::len).sum::<usize>() as u64;
        let deleted = self.deleted.len() as u64;
        edit.pending_modified(acknowledged);
        if deleted > 0 {
            edit.modified(Event::XDel, deleted);
        }
        if acknowledged + deleted > 0 {
            edit.effects().rewrite_as(|| self.commands(key));
        }
        fates
    }
}

/// Whether a group has an entry pending, or may yet send it. What is in the stream no more is sent to nobody.
fn is_needed(stream: &Stream, id: StreamId) -> bool {
    let mut is_there = None;
    stream.groups().any(|group| {
        let is_ahead = group.last_id() < id;
        let may_be_sent = is_ahead && *is_there.get_or_insert_with(|| stream.log().get(id).is_some());
        may_be_sent || group.pending(id).is_some()
    })
}

fn ids_from(args: Args<'_>, first: usize) -> Result<Vec<StreamId>, CmdError> {
    args.iter_from(first).map(|text| StreamId::parse(text, 0).ok_or(INVALID_ID)).collect()
}

fn reply_fates(ctx: &mut WriteCtx<'_>, fates: &[i64]) {
    ctx.reply.array(fates.len());
    fates.iter().for_each(|fate| ctx.reply.int(*fate));
}

pub(super) fn xackdel(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (mode, first) = options(args, 3)?;
    let (key, group) = (args.key(1), args.at(2));
    let edit = ctx.db.edit_stream(key, ctx.limits.stream)?;
    let Some(mut edit) = edit.filter(|edit| edit.stream().group(group).is_some()) else {
        reply_fates(ctx, &vec![IdFate::NotFound.number(); args.len() - first]);
        return Ok(Outcome::Done);
    };
    // Nothing changes before all ids are known to be ids.
    let ids = ids_from(args, first)?;
    let mut removal = Removal::default();
    let (stream, context) = edit.parts();
    for id in ids {
        let fate = if !removal.acknowledge(stream, context, group, id) {
            IdFate::NotFound
        } else {
            match removal.remove(stream, context, mode, id) {
                IdFate::Needed => IdFate::Needed,
                // One that was deleted before counts as deleted.
                IdFate::Deleted | IdFate::NotFound => IdFate::Deleted,
            }
        };
        removal.fates.push(fate.number());
    }
    let fates = removal.finish(edit, key.bytes);
    reply_fates(ctx, &fates);
    Ok(Outcome::Done)
}

pub(super) fn xdelex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (mode, first) = options(args, 2)?;
    let key = args.key(1);
    let Some(mut edit) = ctx.db.edit_stream(key, ctx.limits.stream)? else {
        reply_fates(ctx, &vec![IdFate::NotFound.number(); args.len() - first]);
        return Ok(Outcome::Done);
    };
    let ids = ids_from(args, first)?;
    let mut removal = Removal::default();
    let (stream, context) = edit.parts();
    for id in ids {
        let fate = removal.remove(stream, context, mode, id);
        removal.fates.push(fate.number());
    }
    let fates = removal.finish(edit, key.bytes);
    reply_fates(ctx, &fates);
    Ok(Outcome::Done)
}
