//! XACK, XPENDING, XCLAIM and XAUTOCLAIM: entries that were sent to a consumer but not acknowledged.

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::stream::common::{
    INVALID_ID, id_at, interval_end, interval_start, no_group, reply_entry, reply_id, stream_of,
};
use sluice_base::num::parse_i64;
use sluice_keyspace::{Access, Argv, Event, StreamEdit};
use sluice_resp::Reply;
use sluice_value::stream::{ConsumerGroup, EntryLog, PendingEntry, Stream, StreamId};

/// The XCLAIM command for the replication stream (replicas and AOF) that makes these entries pending there,
/// all with the same delivery time and count. Arguments: key, group and consumer; the ids; delivery time and
/// count; the group's last id.
pub(super) fn claim_argv(
    (key, group, consumer): (&[u8], &[u8], &[u8]),
    ids: &[StreamId],
    (delivered_ms, deliveries): (i64, u64),
    last_id: StreamId,
) -> Argv {
    let mut argv: Argv = [&b"XCLAIM"[..], key, group, consumer, b"0"].map(<[u8]>::to_vec).to_vec();
    argv.extend(ids.iter().map(|id| id.to_text()));
    argv.push(b"TIME".to_vec());
    argv.push(delivered_ms.to_string().into_bytes());
    argv.push(b"RETRYCOUNT".to_vec());
    argv.push(deliveries.min(DELIVERIES_MAX).to_string().into_bytes());
    argv.extend([&b"FORCE"[..], b"JUSTID", b"LASTID"].map(<[u8]>::to_vec));
    argv.push(last_id.to_text());
    argv
}

/// The XGROUP CREATECONSUMER command for a consumer that no other command in the replication stream creates.
pub(super) fn consumer_argv((key, group): (&[u8], &[u8]), consumer: &[u8]) -> Argv {
    [&b"XGROUP"[..], b"CREATECONSUMER", key, group, consumer].map(<[u8]>::to_vec).to_vec()
}

/// The delivery count after one more delivery, limited to numbers that RETRYCOUNT accepts.
pub(super) fn delivered_again(deliveries: u64) -> u64 {
    deliveries.saturating_add(1).min(DELIVERIES_MAX)
}

/// The largest number that RETRYCOUNT accepts.
const DELIVERIES_MAX: u64 = i64::MAX as u64;

/// The XGROUP SETID command for the replication stream, which gives the group this last id and number of read
/// entries on replicas and in the AOF.
pub(super) fn position_argv(
    (key, group): (&[u8], &[u8]),
    last_id: StreamId,
    entries_read: Option<u64>,
) -> Argv {
    let mut argv: Argv = [&b"XGROUP"[..], b"SETID", key, group].map(<[u8]>::to_vec).to_vec();
    argv.push(last_id.to_text());
    argv.push(b"ENTRIESREAD".to_vec());
    // ENTRIESREAD accepts no number above `i64::MAX`. A larger count is propagated as unknown (-1).
    let read = entries_read.and_then(|read| i64::try_from(read).ok()).unwrap_or(-1);
    argv.push(read.to_string().into_bytes());
    argv
}

pub(super) fn xack(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    // This look-up counts an absent key as a miss, as a command that reads does.
    ctx.db.get(args.key(1));
    let edit = ctx.db.edit_stream(args.key(1), ctx.limits.stream)?;
    let Some(mut edit) = edit.filter(|edit| edit.stream().group(args.at(2)).is_some()) else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    // All ids are checked before the first acknowledgement.
    if args.iter_from(3).any(|text| StreamId::parse(text, 0).is_none()) {
        return Err(INVALID_ID);
    }
    let (stream, context) = edit.parts();
    let ids = args.iter_from(3).filter_map(|text| StreamId::parse(text, 0));
    let acknowledged = stream.with_group(args.at(2), context, |group, _, copied| {
        ids.filter(|id| group.acknowledge(*id, copied)).count()
    });
    let acknowledged = acknowledged.unwrap_or(0);
    edit.pending_modified(acknowledged as u64);
    drop(edit);
    ctx.reply.int(acknowledged as i64);
    Ok(Outcome::Done)
}

/// The arguments of XPENDING after the group.
struct PendingRange<'a> {
    min_idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingRange<'a> {
    /// The range; `None` if a summary is requested.
    fn parse(args: Args<'a>) -> Result<Option<PendingRange<'a>>, CmdError> {
        if args.len() == 3 {
            return Ok(None);
        }
        if !(6..=9).contains(&args.len()) {
            return Err(CmdError::Syntax);
        }
        let (mut at, mut min_idle_ms) = (3, 0);
        if args.is(3, "IDLE") {
            min_idle_ms = args.int(4)?;
            if args.len() < 8 {
                return Err(CmdError::Syntax);
            }
            at = 5;
        }
        let count = usize::try_from(args.int(at + 2)?).unwrap_or(0);
        let (start, end) = (interval_start(args.at(at))?, interval_end(args.at(at + 1))?);
        Ok(Some(PendingRange { min_idle_ms, start, end, count, consumer: args.get(at + 3) }))
    }
}

pub(super) fn xpending(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let range = PendingRange::parse(args)?;
    let stream = match ctx.db.get(args.key(1)) {
        Some(entry) => Some(stream_of(entry)?),
        None => None,
    };
    let group = stream.and_then(|stream| stream.group(args.at(2)));
    let group = group.ok_or_else(|| no_group(args.at(1), args.at(2)))?;
    match range {
        None => pending_summary(&mut ctx.reply, group),
        Some(range) => range.reply(&mut ctx.reply, group, ctx.db.access.now.unix_ms()),
    }
    Ok(Outcome::Done)
}

fn pending_summary(reply: &mut Reply<'_>, group: &ConsumerGroup) {
    reply.array(4);
    reply.int(group.pending_len() as i64);
    let first = group.pending_from(StreamId::MIN).next().map(|entry| entry.id);
    let (Some(first), Some(last)) = (first, group.last_pending()) else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    reply_id(reply, first);
    reply_id(reply, last);
    let deferred = reply.defer();
    let mut len = 0;
    for consumer in group.consumers().filter(|consumer| consumer.pending_len() > 0) {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_int(consumer.pending_len() as i64);
        len += 1;
    }
    reply.end_array(deferred, len);
}

impl PendingRange<'_> {
    fn reply(&self, reply: &mut Reply<'_>, group: &ConsumerGroup, now_ms: i64) {
        let Some(name) = self.consumer else {
            let entries = group.pending_from(self.start);
            return self.reply_entries(reply, group, entries, now_ms);
        };
        match group.consumer(name) {
            Some(consumer) => {
                let ids = consumer.pending_from(self.start);
                self.reply_entries(reply, group, ids.filter_map(|id| group.pending(id)), now_ms);
            }
            None => reply.array(0),
        }
    }

    fn reply_entries(
        &self,
        reply: &mut Reply<'_>,
        group: &ConsumerGroup,
        entries: impl Iterator<Item = PendingEntry>,
        now_ms: i64,
    ) {
        let deferred = reply.defer();
        let mut len = 0;
        let idle = |entry: &PendingEntry| now_ms.saturating_sub(entry.delivered_ms);
        let wanted = entries
            .take_while(|entry| entry.id <= self.end)
            .filter(|entry| self.min_idle_ms == 0 || idle(entry) >= self.min_idle_ms);
        for entry in wanted.take(self.count) {
            reply.array(4);
            reply_id(reply, entry.id);
            reply.bulk(group.consumer_of(entry.consumer).map_or(b"", |consumer| consumer.name()));
            reply.int(idle(&entry).max(0));
            reply.int(entry.deliveries as i64);
            len += 1;
        }
        reply.end_array(deferred, len);
    }
}

/// The form of claimed entries in a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimReply {
    Entries,
    Ids,
}

/// The options of a claim: which entries may be claimed, what is stored for them, and how they are shown in
/// the reply.
#[derive(Clone, Copy)]
struct Claim {
    min_idle_ms: i64,
    now_ms: i64,
    delivered_ms: i64,
    retry_count: Option<u64>,
    force: bool,
    shown: ClaimReply,
}

/// The result of an attempt to claim an entry.
enum Claimed {
    /// The entry now belongs to the consumer.
    Taken,
    /// The entry was pending but is no longer in the stream, so it was removed from the pending entries.
    Gone,
    /// Nothing changed, because the entry is not pending, or has not been pending for long enough.
    Left,
}

/// A group in which a consumer claims entries.
struct Claiming<'a, 'c> {
    names: (&'a [u8], &'a [u8]),
    group: &'c mut ConsumerGroup,
    log: &'c EntryLog,
    consumer: u32,
    /// Whether the consumer is new and none of the commands for the replication stream so far names it, so
    /// that XGROUP CREATECONSUMER is needed.
    is_unnamed: bool,
    /// The commands for the replication stream; `None` if the stream has no reader.
    commands: Option<Vec<Argv>>,
    changes: u64,
    copied: &'c mut u64,
}

impl Claiming<'_, '_> {
    fn claim(&mut self, id: StreamId, claim: Claim, reply: &mut Reply<'_>) -> Claimed {
        let pending = self.group.pending(id);
        let Some(entry) = self.log.get(id) else {
            let Some(pending) = pending else { return Claimed::Left };
            self.propagate(pending);
            self.group.acknowledge(id, self.copied);
            return Claimed::Gone;
        };
        let before = match pending {
            Some(pending) => {
                let idle_ms = claim.now_ms.saturating_sub(pending.delivered_ms);
                if claim.min_idle_ms > 0 && idle_ms < claim.min_idle_ms {
                    return Claimed::Left;
                }
                pending
            }
            None if claim.force => {
                PendingEntry { id, delivered_ms: claim.now_ms, deliveries: 1, consumer: self.consumer }
            }
            None => return Claimed::Left,
        };
        let deliveries = match (claim.retry_count, claim.shown) {
            (Some(count), _) => count,
            (None, ClaimReply::Entries) => delivered_again(before.deliveries),
            (None, ClaimReply::Ids) => before.deliveries,
        };
        let after =
            PendingEntry { id, delivered_ms: claim.delivered_ms, deliveries, consumer: self.consumer };
        self.group.set_pending(after, self.copied);
        match claim.shown {
            ClaimReply::Entries => reply_entry(reply, entry),
            ClaimReply::Ids => reply_id(reply, id),
        }
        self.propagate(after);
        Claimed::Taken
    }

    fn propagate(&mut self, entry: PendingEntry) {
        self.changes += 1;
        self.is_unnamed &= entry.consumer != self.consumer;
        if let Some(commands) = &mut self.commands {
            let name = self.group.consumer_of(entry.consumer).map_or(&b""[..], |consumer| consumer.name());
            let ((key, group), times) = (self.names, (entry.delivered_ms, entry.deliveries));
            commands.push(claim_argv((key, group, name), &[entry.id], times, self.group.last_id()));
        }
    }
}

/// Runs `claim` for the consumer in `args`, which is created if missing, and propagates the changes; `None`
/// if the group does not exist. The second result of `claim` is whether the consumer was active.
fn claiming<R>(
    edit: &mut StreamEdit<'_>,
    args: Args<'_>,
    now_ms: i64,
    claim: impl FnOnce(&mut Claiming<'_, '_>) -> (R, bool),
) -> Option<R> {
    let propagating = edit.effects().propagating;
    let (stream, context) = edit.parts();
    let done = stream.with_group(args.at(2), context, |group, log, copied| {
        let added = group.add_consumer(args.at(3), now_ms, copied);
        let consumer = added.or_else(|| Some(group.consumer(args.at(3))?.number()))?;
        let mut claiming = Claiming {
            names: (args.at(1), args.at(2)),
            group,
            log,
            consumer,
            is_unnamed: added.is_some(),
            commands: propagating.then(Vec::new),
            changes: 0,
            copied,
        };
        let (result, is_active) = claim(&mut claiming);
        let Claiming { names, group, is_unnamed, mut commands, changes, copied, .. } = claiming;
        if let Some(commands) = commands.as_mut().filter(|_| is_unnamed) {
            commands.push(consumer_argv(names, args.at(3)));
        }
        group.note_seen(consumer, now_ms, is_active.then_some(now_ms), copied);
        Some((result, commands, changes, added.is_some()))
    });
    let (result, commands, changes, is_added) = done??;
    if is_added {
        edit.state_modified(Event::XGroupCreateConsumer, 1);
    }
    edit.pending_modified(changes);
    edit.effects().rewrite_as(|| commands.unwrap_or_default());
    Some(result)
}

fn has_group(stream: &Stream, args: Args<'_>) -> bool {
    stream.group(args.at(2)).is_some()
}

/// The arguments of XCLAIM after the consumer.
struct ClaimCall {
    claim: Claim,
    /// Position after the last id.
    ids_end: usize,
    last_id: StreamId,
}

impl ClaimCall {
    fn parse(args: Args<'_>, access: &Access) -> Result<ClaimCall, CmdError> {
        let now_ms = access.now.unix_ms();
        let number =
            |at: usize, error: &'static str| args.get(at).and_then(parse_i64).ok_or(CmdError::text(error));
        let min_idle_ms = number(4, "ERR Invalid min-idle-time argument for XCLAIM")?.max(0);
        let mut at = 5;
        while args.get(at).is_some_and(|text| StreamId::parse(text, 0).is_some()) {
            at += 1;
        }
        let mut claim = Claim {
            min_idle_ms,
            now_ms,
            delivered_ms: now_ms,
            retry_count: None,
            force: false,
            shown: ClaimReply::Entries,
        };
        let (ids_end, mut last_id) = (at, StreamId::MIN);
        while at < args.len() {
            let has_value = at + 1 < args.len();
            if args.is(at, "FORCE") {
                claim.force = true;
            } else if args.is(at, "JUSTID") {
                claim.shown = ClaimReply::Ids;
            } else if args.is(at, "IDLE") && has_value {
                at += 1;
                let idle_ms = number(at, "ERR Invalid IDLE option argument for XCLAIM")?;
                claim.delivered_ms = now_ms.saturating_sub(idle_ms);
            } else if args.is(at, "TIME") && has_value {
                at += 1;
                claim.delivered_ms = number(at, "ERR Invalid TIME option argument for XCLAIM")?;
            } else if args.is(at, "RETRYCOUNT") && has_value {
                at += 1;
                let count = number(at, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                claim.retry_count = u64::try_from(count).ok();
            } else if args.is(at, "LASTID") && has_value {
                at += 1;
                last_id = id_at(args.at(at), 0)?;
            } else {
                let mut text = b"ERR Unrecognized XCLAIM option '".to_vec();
                text.extend_from_slice(crate::error::until_zero(args.at(at)));
                text.push(b'\'');
                return Err(CmdError::owned(text));
            }
            at += 1;
        }
        // A time in the future is accepted only from the primary and the AOF. The primary has used its own
        // clock, and in the AOF the time is from the clock when the file was written.
        if claim.delivered_ms < 0 || claim.delivered_ms > now_ms && !access.must_obey {
            claim.delivered_ms = now_ms;
        }
        Ok(ClaimCall { claim, ids_end, last_id })
    }
}

pub(super) fn xclaim(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let access = ctx.db.access;
    let now_ms = access.now.unix_ms();
    let WriteCtx { db, reply, limits, .. } = ctx;
    db.get(args.key(1));
    let edit = db.edit_stream(args.key(1), limits.stream)?;
    let edit = edit.filter(|edit| has_group(edit.stream(), args));
    let mut edit = edit.ok_or_else(|| no_group(args.at(1), args.at(2)))?;
    let call = ClaimCall::parse(args, &access)?;
    claiming(&mut edit, args, now_ms, |claiming| {
        let is_behind = call.last_id > claiming.group.last_id();
        if is_behind {
            let entries_read = claiming.group.entries_read();
            claiming.group.set_position(call.last_id, entries_read, claiming.copied);
        }
        let deferred = reply.defer();
        let mut len = 0;
        for id in (5..call.ids_end).filter_map(|at| StreamId::parse(args.at(at), 0)) {
            if matches!(claiming.claim(id, call.claim, reply), Claimed::Taken) {
                len += 1;
            }
        }
        reply.end_array(deferred, len);
        // If no pending entry has changed, no XCLAIM propagates the group's position, so XGROUP SETID does.
        if is_behind && claiming.changes == 0 {
            claiming.changes = 1;
            let position = (claiming.group.last_id(), claiming.group.entries_read());
            if let Some(commands) = &mut claiming.commands {
                commands.push(position_argv(claiming.names, position.0, position.1));
            }
        }
        ((), len > 0)
    });
    Ok(Outcome::Done)
}

/// The arguments of XAUTOCLAIM after the consumer.
struct AutoClaimCall {
    claim: Claim,
    start: StreamId,
    count: usize,
}

impl AutoClaimCall {
    fn parse(args: Args<'_>, now_ms: i64) -> Result<AutoClaimCall, CmdError> {
        let min_idle_ms = args.get(4).and_then(parse_i64);
        let min_idle_ms =
            min_idle_ms.ok_or(CmdError::text("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?.max(0);
        let start = interval_start(args.at(5))?;
        let (mut count, mut shown, mut at) = (100, ClaimReply::Entries, 6);
        while at < args.len() {
            if args.is(at, "COUNT") && at + 1 < args.len() {
                at += 1;
                let given = parse_i64(args.at(at)).filter(|count| (1..=AUTOCLAIM_COUNT_MAX).contains(count));
                let given = given.ok_or(CmdError::text("ERR COUNT must be > 0"))?;
                count = usize::try_from(given).unwrap_or(usize::MAX);
            } else if args.is(at, "JUSTID") {
                shown = ClaimReply::Ids;
            } else {
                return Err(CmdError::Syntax);
            }
            at += 1;
        }
        let claim =
            Claim { min_idle_ms, now_ms, delivered_ms: now_ms, retry_count: None, force: false, shown };
        Ok(AutoClaimCall { claim, start, count })
    }
}

/// The largest COUNT that the reference accepts; the limit follows from the size of its ids.
const AUTOCLAIM_COUNT_MAX: i64 = i64::MAX / 16;
/// XAUTOCLAIM examines at most COUNT times this many pending entries.
const ATTEMPTS_PER_CLAIM: usize = 10;

pub(super) fn xautoclaim(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let now_ms = ctx.db.access.now.unix_ms();
    let WriteCtx { db, reply, limits, .. } = ctx;
    // The key is looked up first, so that an absent key counts as a miss even if an invalid argument is
    // refused.
    db.get(args.key(1));
    let call = AutoClaimCall::parse(args, now_ms)?;
    let edit = db.edit_stream(args.key(1), limits.stream)?;
    let edit = edit.filter(|edit| has_group(edit.stream(), args));
    let mut edit = edit.ok_or_else(|| no_group(args.at(1), args.at(2)))?;
    claiming(&mut edit, args, now_ms, |claiming| {
        let attempts = call.count.saturating_mul(ATTEMPTS_PER_CLAIM);
        let mut ids: Vec<StreamId> = Vec::new();
        let (mut at, mut left, mut looked_at) = (Some(call.start), call.count, 0);
        let (mut taken, mut gone) = (Vec::new(), Vec::new());
        // The loop only decides which entries are claimed, because the reply begins with the id at which
        // the next call continues.
        while left > 0 && looked_at < attempts {
            if looked_at.is_multiple_of(BATCH) {
                ids = at.map_or_else(Vec::new, |from| next_ids(claiming.group, from));
            }
            let Some(id) = ids.get(looked_at % BATCH).copied() else {
                at = None;
                break;
            };
            looked_at += 1;
            at = id.next();
            match claiming.will(id, call.claim) {
                Claimed::Taken => {
                    taken.push(id);
                    left -= 1;
                }
                Claimed::Gone => {
                    gone.push(id);
                    left -= 1;
                }
                Claimed::Left => {}
            }
        }
        let next = at.and_then(|from| claiming.group.pending_from(from).next()).map(|entry| entry.id);
        reply.array(3);
        reply_id(reply, next.unwrap_or(StreamId::MIN));
        reply.array(taken.len());
        // Taken and missing entries are processed together in the order of their ids, so that their commands
        // stand in this order in the replication stream.
        let mut all: Vec<StreamId> = taken.iter().chain(&gone).copied().collect();
        all.sort_unstable();
        for id in all {
            claiming.claim(id, call.claim, reply);
        }
        reply.array(gone.len());
        gone.iter().for_each(|id| reply_id(reply, *id));
        ((), !taken.is_empty())
    });
    Ok(Outcome::Done)
}

/// Number of pending entries that are looked up together.
const BATCH: usize = 64;

fn next_ids(group: &ConsumerGroup, from: StreamId) -> Vec<StreamId> {
    group.pending_from(from).take(BATCH).map(|entry| entry.id).collect()
}

impl Claiming<'_, '_> {
    /// The result that [`Claiming::claim`] will have for a pending entry.
    fn will(&self, id: StreamId, claim: Claim) -> Claimed {
        let Some(pending) = self.group.pending(id) else { return Claimed::Left };
        if self.log.get(id).is_none() {
            return Claimed::Gone;
        }
        let idle_ms = claim.now_ms.saturating_sub(pending.delivered_ms);
        if claim.min_idle_ms > 0 && idle_ms < claim.min_idle_ms { Claimed::Left } else { Claimed::Taken }
    }
}
