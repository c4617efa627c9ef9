//! XREAD and XREADGROUP.
//!
//! Both reply with existing entries. If there are none, BLOCK was given and waiting is allowed, the command
//! waits; it is run again when one of its keys changes, for example when an entry is added. In later runs,
//! `$` and `+` stand for the same ids as in the first run.

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::{CmdError, until_zero};
use crate::outcome::{Outcome, Run};
use crate::stream::claim::{claim_argv, consumer_argv, delivered_again, position_argv};
use crate::stream::common::{id_at, reply_entries, reply_entry, reply_id, stream_of};
use crate::wait::{BlockOn, WaitFor};
use sluice_base::Now;
use sluice_base::num::parse_i64;
use sluice_keyspace::{Argv, Event};
use sluice_resp::{Protocol, Reply};
use sluice_value::Type;
use sluice_value::stream::{ConsumerGroup, EntryLog, PendingEntry, Stream, StreamId};
use std::collections::BTreeMap;

/// The arguments of XREAD or XREADGROUP.
struct ReadCall<'a> {
    count: usize,
    /// Time of the monotonic clock, in ms, at which a wait ends, or 0 for a wait without end; `None` if the
    /// command does not wait.
    deadline_ms: Option<u64>,
    group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// Position of the first key among the arguments.
    first: usize,
    /// Number of keys.
    keys: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadKind {
    Plain,
    Group,
}

impl ReadKind {
    fn name(self) -> &'static str {
        match self {
            ReadKind::Plain => "xread",
            ReadKind::Group => "xreadgroup",
        }
    }
}

impl<'a> ReadCall<'a> {
    fn parse(args: Args<'a>, reader: ReadKind, now: Now) -> Result<ReadCall<'a>, CmdError> {
        let mut call =
            ReadCall { count: usize::MAX, deadline_ms: None, group: None, no_ack: false, first: 0, keys: 0 };
        let mut at = 1;
        while at < args.len() && call.first == 0 {
            let more = args.len() - at - 1;
            if args.is(at, "BLOCK") && more > 0 {
                call.deadline_ms = Some(deadline_ms(args.at(at + 1), now)?);
                at += 2;
            } else if args.is(at, "COUNT") && more > 0 {
                let count = usize::try_from(args.int(at + 1)?).unwrap_or(0);
                call.count = if count == 0 { usize::MAX } else { count };
                at += 2;
            } else if args.is(at, "STREAMS") && more > 0 {
                call.first = at + 1;
                call.keys = more / 2;
                if !more.is_multiple_of(2) {
                    return Err(unbalanced(reader));
                }
            } else if args.is(at, "GROUP") && more >= 2 {
                if reader == ReadKind::Plain {
                    return Err(CmdError::text(
                        "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                call.group = Some((args.at(at + 1), args.at(at + 2)));
                at += 3;
            } else if args.is(at, "NOACK") {
                if reader == ReadKind::Plain {
                    return Err(CmdError::text(
                        "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                    ));
                }
                call.no_ack = true;
                at += 1;
            } else {
                return Err(CmdError::Syntax);
            }
        }
        if call.first == 0 {
            return Err(CmdError::Syntax);
        }
        Ok(call)
    }

    fn wait_for(&self, db: usize, deadline_ms: u64, reader: ReadKind) -> Box<WaitFor> {
        Box::new(WaitFor::Keys(BlockOn {
            db,
            first: self.first,
            count: self.keys,
            wanted: Type::Stream,
            ends_without_key: reader == ReadKind::Group,
            deadline_ms,
        }))
    }
}

fn unbalanced(reader: ReadKind) -> CmdError {
    let sign = if reader == ReadKind::Plain { '$' } else { '>' };
    CmdError::owned(format!(
        "ERR Unbalanced '{}' list of streams: for each stream key an ID or '{sign}' must be specified.",
        reader.name()
    ))
}

/// The time at which a timeout in milliseconds ends, in ms of the monotonic clock; 0 means never.
fn deadline_ms(text: &[u8], now: Now) -> Result<u64, CmdError> {
    let ms = parse_i64(text).ok_or(CmdError::text("ERR timeout is not an integer or out of range"))?;
    match u64::try_from(ms) {
        Err(_) => Err(CmdError::text("ERR timeout is negative")),
        Ok(0) => Ok(0),
        Ok(_) if ms > i64::MAX - now.unix_ms() => Err(CmdError::text("ERR timeout is out of range")),
        // Rounded up, because a wait must not end early.
        Ok(ms) => Ok(now.mono_ns.div_ceil(1_000_000).saturating_add(ms)),
    }
}

/// The reply: streams with their entries. The number of streams is known only at the end.
struct StreamsReply {
    begun: Option<sluice_resp::Deferred>,
    len: usize,
}

impl StreamsReply {
    fn new() -> StreamsReply {
        StreamsReply { begun: None, len: 0 }
    }

    /// Begins a stream; its entries must follow.
    fn begin(&mut self, reply: &mut Reply<'_>, key: &[u8]) {
        if self.begun.is_none() {
            self.begun = Some(reply.defer());
        }
        self.len += 1;
        if reply.protocol() == Protocol::Resp2 {
            reply.array(2);
        }
        reply.bulk(key);
    }

    /// Ends the reply. Returns `false` if no stream was begun, so that nothing was written.
    fn end(self, reply: &mut Reply<'_>) -> bool {
        let Some(deferred) = self.begun else { return false };
        match reply.protocol() {
            Protocol::Resp2 => reply.end_array(deferred, self.len),
            Protocol::Resp3 => reply.end_map(deferred, self.len),
        }
        true
    }
}

fn last_entry(log: &EntryLog) -> Option<StreamId> {
    // The entry with the recorded last id may have been deleted.
    match log.get(log.last_id()) {
        Some(entry) => Some(entry.id()),
        None => log.iter_rev(StreamId::MIN, StreamId::MAX).next().map(|entry| entry.id()),
    }
}

pub(super) fn xread(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let now = ctx.db.access.now;
    let call = ReadCall::parse(args, ReadKind::Plain, now)?;
    let mut since = Vec::with_capacity(call.keys);
    let mut replaced = Vec::new();
    for index in 0..call.keys {
        let id_at_arg = call.first + call.keys + index;
        let stream = match ctx.db.get(args.key(call.first + index)) {
            Some(entry) => Some(stream_of(entry)?),
            None => None,
        };
        let text = args.at(id_at_arg);
        let id = read_from(text, stream)?;
        if matches!(until_zero(text), b"$" | b"+") {
            replaced.push((id_at_arg, id.to_text()));
        }
        since.push(id);
    }
    let mut streams = StreamsReply::new();
    for (index, since) in since.into_iter().enumerate() {
        let key = args.key(call.first + index);
        let Some(entry) = ctx.db.get(key) else { continue };
        let log = stream_of(entry)?.log();
        let Some(start) = since.next() else { continue };
        if last_entry(log).is_some_and(|last| last > since) {
            streams.begin(&mut ctx.reply, key.bytes);
            reply_entries(&mut ctx.reply, log.iter(start, StreamId::MAX), call.count);
        }
    }
    if streams.end(&mut ctx.reply) {
        return Ok(Outcome::Done);
    }
    match call.deadline_ms.filter(|_| ctx.may_wait) {
        Some(deadline_ms) => {
            let on = call.wait_for(ctx.db.number(), deadline_ms, ReadKind::Plain);
            Ok(Outcome::WaitSince(on, replaced))
        }
        None => {
            ctx.reply.null_array();
            Ok(Outcome::Done)
        }
    }
}

/// The id after which XREAD begins.
fn read_from(text: &[u8], stream: Option<&Stream>) -> Result<StreamId, CmdError> {
    let last_id = stream.map_or(StreamId::MIN, |stream| stream.log().last_id());
    match until_zero(text) {
        b"$" => Ok(last_id),
        // `+` stands for the last id, not for the last entry, so nothing is read if the entry with that id
        // was deleted.
        b"+" if stream.is_some_and(|stream| stream.log().len() > 0) => {
            Ok(last_id.previous().unwrap_or(last_id))
        }
        b"+" => Ok(last_id),
        b">" => Err(CmdError::text(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        _ => id_at(text, 0),
    }
}

/// The entries that XREADGROUP reads of a stream.
#[derive(Clone, Copy)]
enum GroupRead {
    /// Entries that were sent to no consumer yet.
    New,
    /// Pending entries of the consumer after an id.
    Pending(StreamId),
}

pub(super) fn xreadgroup(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let now = ctx.db.access.now;
    let call = ReadCall::parse(args, ReadKind::Group, now)?;
    let Some((group, consumer)) = call.group else {
        return Err(CmdError::text("ERR Missing GROUP option for XREADGROUP"));
    };
    let mut reads = Vec::with_capacity(call.keys);
    for index in 0..call.keys {
        let key = args.key(call.first + index);
        let stream = match ctx.db.get(key) {
            Some(entry) => Some(stream_of(entry)?),
            None => None,
        };
        if stream.and_then(|stream| stream.group(group)).is_none() {
            return Err(no_group_to_read(key.bytes, group));
        }
        reads.push(group_read(args.at(call.first + call.keys + index))?);
    }
    let turn = GroupTurn { group, consumer, now_ms: now.unix_ms(), count: call.count, no_ack: call.no_ack };
    let (mut streams, mut commands) = (StreamsReply::new(), Vec::new());
    for (index, read) in reads.into_iter().enumerate() {
        turn.serve(ctx, args.key(call.first + index), read, &mut streams, &mut commands)?;
    }
    ctx.db.effects.rewrite_as(|| commands);
    if streams.end(&mut ctx.reply) {
        return Ok(Outcome::Done);
    }
    match call.deadline_ms.filter(|_| ctx.may_wait) {
        Some(deadline_ms) => Ok(Outcome::Wait(call.wait_for(ctx.db.number(), deadline_ms, ReadKind::Group))),
        None => {
            ctx.reply.null_array();
            Ok(Outcome::Done)
        }
    }
}

fn group_read(text: &[u8]) -> Result<GroupRead, CmdError> {
    let meaningless = |sign: &str| {
        CmdError::owned(format!(
            "ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The {sign} ID would just return an empty result set."
        ))
    };
    match until_zero(text) {
        b">" => Ok(GroupRead::New),
        b"$" => Err(meaningless("$")),
        b"+" => Err(meaningless("+")),
        _ => match id_at(text, 0)? {
            // This id is the reference's marker for new entries, so a given id of this value means the
            // same as `>`.
            StreamId::MAX => Ok(GroupRead::New),
            id => Ok(GroupRead::Pending(id)),
        },
    }
}

fn no_group_to_read(key: &[u8], group: &[u8]) -> CmdError {
    let mut text = super::common::no_group(key, group).wire().into_owned();
    text.extend_from_slice(b" in XREADGROUP with GROUP option");
    CmdError::owned(text)
}

/// One execution of XREADGROUP for a group and a consumer.
struct GroupTurn<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    now_ms: i64,
    count: usize,
    no_ack: bool,
}

/// The changes made by reading, which the replication stream must contain. Ids are recorded only if commands
/// are propagated.
#[derive(Default)]
struct Delivered {
    /// Ids of new entries that became pending.
    ids: Vec<StreamId>,
    position: Option<(StreamId, Option<u64>)>,
    /// Ids of pending entries that were sent again, grouped by number of deliveries.
    again: BTreeMap<u64, Vec<StreamId>>,
}

impl GroupTurn<'_> {
    /// Reads one stream and writes its entries.
    fn serve(
        &self,
        ctx: &mut WriteCtx<'_>,
        key: sluice_keyspace::Key<'_>,
        read: GroupRead,
        streams: &mut StreamsReply,
        commands: &mut Vec<Argv>,
    ) -> Result<(), CmdError> {
        let WriteCtx { db, reply, limits, .. } = ctx;
        let propagating = db.effects.propagating;
        let Some(mut edit) = db.edit_stream(key, limits.stream)? else { return Ok(()) };
        let (stream, context) = edit.parts();
        let served = stream.with_group(self.group, context, |group, log, copied| {
            let added = group.add_consumer(self.consumer, self.now_ms, copied);
            let number = added.or_else(|| Some(group.consumer(self.consumer)?.number()));
            let Some(number) = number else {
                return (false, false, Delivered::default(), group.last_id());
            };
            let has_new = last_entry(log).is_some_and(|last| last > group.last_id());
            let (is_served, delivered) = match read {
                GroupRead::New if has_new => {
                    streams.begin(reply, key.bytes);
                    (true, self.deliver(group, log, number, reply, propagating, copied))
                }
                GroupRead::New => (false, Delivered::default()),
                GroupRead::Pending(behind) => {
                    streams.begin(reply, key.bytes);
                    (true, self.repeat(group, log, (number, behind), reply, propagating, copied))
                }
            };
            let active_ms = delivered.position.filter(|_| !self.no_ack).map(|_| self.now_ms);
            group.note_seen(number, self.now_ms, active_ms, copied);
            (added.is_some(), is_served, delivered, group.last_id())
        });
        let Some((is_added, is_served, delivered, last_id)) = served else { return Ok(()) };
        if is_added {
            edit.state_modified(Event::XGroupCreateConsumer, 1);
        }
        if is_served {
            edit.pending_modified(1);
        }
        if propagating {
            // Without new pending entries, no other command would create the consumer on replicas and in the
            // AOF.
            if is_added && delivered.ids.is_empty() {
                commands.push(consumer_argv((key.bytes, self.group), self.consumer));
            }
            self.propagate(key.bytes, delivered, last_id, commands);
        }
        Ok(())
    }

    /// Sends entries that were not sent to any consumer yet, and makes them pending unless NOACK was given.
    fn deliver(
        &self,
        group: &mut ConsumerGroup,
        log: &EntryLog,
        consumer: u32,
        reply: &mut Reply<'_>,
        propagating: bool,
        copied: &mut u64,
    ) -> Delivered {
        let mut delivered = Delivered::default();
        let Some(start) = group.last_id().next() else { return delivered };
        let (mut last_id, mut entries_read) = (group.last_id(), group.entries_read());
        let deferred = reply.defer();
        let mut len = 0;
        for entry in log.iter(start, StreamId::MAX).take(self.count) {
            let id = entry.id();
            reply_entry(reply, entry);
            len += 1;
            entries_read = match entries_read {
                Some(read) if last_id >= log.first_id() && !log.has_gap_from(last_id) => {
                    Some(read.wrapping_add(1))
                }
                before if log.entries_added() == 0 => before,
                Some(_) | None => log.entries_up_to(id),
            };
            last_id = id;
            if self.no_ack {
                continue;
            }
            let pending = PendingEntry { id, delivered_ms: self.now_ms, deliveries: 1, consumer };
            group.set_pending(pending, copied);
            if propagating {
                delivered.ids.push(id);
            }
        }
        reply.end_array(deferred, len);
        group.set_position(last_id, entries_read, copied);
        delivered.position = Some((last_id, entries_read));
        delivered
    }

    /// Sends the consumer's pending entries again, and counts another delivery of each entry that is still in
    /// the stream.
    fn repeat(
        &self,
        group: &mut ConsumerGroup,
        log: &EntryLog,
        (consumer, behind): (u32, StreamId),
        reply: &mut Reply<'_>,
        propagating: bool,
        copied: &mut u64,
    ) -> Delivered {
        let mut delivered = Delivered::default();
        let ids: Vec<StreamId> = match (behind.next(), group.consumer_of(consumer)) {
            (Some(from), Some(consumer)) => consumer.pending_from(from).take(self.count).collect(),
            (None, _) | (_, None) => Vec::new(),
        };
        reply.array(ids.len());
        for id in ids {
            match (log.get(id), group.pending(id)) {
                (Some(entry), Some(pending)) => {
                    reply_entry(reply, entry);
                    let deliveries = delivered_again(pending.deliveries);
                    let again = PendingEntry { delivered_ms: self.now_ms, deliveries, ..pending };
                    group.set_pending(again, copied);
                    if propagating {
                        delivered.again.entry(deliveries).or_default().push(id);
                    }
                }
                (None, _) | (_, None) => {
                    reply.array(2);
                    reply_id(reply, id);
                    reply.null_array();
                }
            }
        }
        delivered
    }

    /// Adds the commands for the replication stream. `last_id` is the group's last id.
    fn propagate(&self, key: &[u8], delivered: Delivered, last_id: StreamId, commands: &mut Vec<Argv>) {
        let names = (key, self.group, self.consumer);
        for (deliveries, ids) in &delivered.again {
            let claims = ids.chunks(CLAIMED_AT_ONCE);
            commands.extend(claims.map(|ids| claim_argv(names, ids, (self.now_ms, *deliveries), last_id)));
        }
        for id in delivered.ids {
            commands.push(claim_argv(names, &[id], (self.now_ms, 1), id));
        }
        if let Some((last_id, entries_read)) = delivered.position {
            commands.push(position_argv((key, self.group), last_id, entries_read));
        }
    }
}

/// Largest number of entries that one XCLAIM of the replication stream claims.
const CLAIMED_AT_ONCE: usize = 1024;
