//! XACKDEL and XDELEX, as in version 9.2 of the reference. Both delete entries in a way that takes references
//! of consumer groups into account.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::stream::common::INVALID_ID;
use sluice_keyspace::{Argv, Event, StreamEdit};
use sluice_value::StreamContext;
use sluice_value::stream::{Stream, StreamId};
use std::collections::BTreeMap;

/// Treatment of an entry that consumer groups refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceMode {
    /// The entry is deleted and stays pending in its groups.
    KeepRef,
    /// The entry is deleted and removed from all lists of pending entries.
    DelRef,
    /// The entry is deleted only if it was sent to every group and is pending in none.
    Acked,
}

/// Result for an id in the reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdFate {
    NotFound,
    Deleted,
    /// A group still needs the entry, so it was not deleted.
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

/// Reads `[KEEPREF | DELREF | ACKED] IDS numids` from the argument at `at` on; the result is the mode
/// and the position of the first id. The number of ids is checked.
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

/// The results of a command for its reply, and its changes for the replication stream.
#[derive(Default)]
struct Removal {
    fates: Vec<i64>,
    deleted: Vec<StreamId>,
    /// Acknowledged ids of each group.
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

    /// Removes an entry from the pending entries of all groups. Cost: O(groups).
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

    /// Deletes an entry and its references as `mode` demands, or leaves an entry that a group needs.
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
            // The references are removed even if the entry itself was deleted earlier.
            self.acknowledge_everywhere(stream, context, id);
        }
        match self.delete(stream, context, id) {
            true => IdFate::Deleted,
            false => IdFate::NotFound,
        }
    }

    /// The changes as one XACK for each group and one XDEL, for replicas that know neither XACKDEL nor
    /// XDELEX.
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

    /// Records the changes; the result is the numbers for the reply. Acknowledgements alone publish no event.
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

/// Whether a group has an entry pending, or may still send it. An entry that is no longer in the stream
/// is never sent.
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
    // All ids are checked before the first change.
    let ids = ids_from(args, first)?;
    let mut removal = Removal::default();
    let (stream, context) = edit.parts();
    for id in ids {
        let fate = if !removal.acknowledge(stream, context, group, id) {
            IdFate::NotFound
        } else {
            match removal.remove(stream, context, mode, id) {
                IdFate::Needed => IdFate::Needed,
                // An entry that was deleted earlier counts as deleted now.
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
