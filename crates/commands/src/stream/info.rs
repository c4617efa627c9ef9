//! XINFO.

use crate::args::Args;
use crate::ctx::ReadCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::stream::common::{reply_entry, reply_id, stream_of, wrong_subcommand};
use sluice_resp::Reply;
use sluice_value::stream::{ConsumerGroup, EntryLog, Stream, StreamConsumer, StreamId};

fn found<'a>(ctx: &mut ReadCtx<'a>, args: Args<'_>) -> Result<&'a Stream, CmdError> {
    stream_of(ctx.db.get(args.key(2)).ok_or(CmdError::NoSuchKey)?)
}

fn int(reply: &mut Reply<'_>, name: &str, value: u64) {
    reply.bulk(name.as_bytes());
    reply.int(value as i64);
}

fn id(reply: &mut Reply<'_>, name: &str, value: StreamId) {
    reply.bulk(name.as_bytes());
    reply_id(reply, value);
}

fn int_or_null(reply: &mut Reply<'_>, name: &str, value: Option<u64>) {
    reply.bulk(name.as_bytes());
    match value {
        Some(value) => reply.int(value as i64),
        None => reply.null(),
    }
}

pub(super) fn stream(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let stream = found(ctx, args)?;
    if args.len() == 3 {
        summary(&mut ctx.reply, stream);
        return Ok(Outcome::Done);
    }
    let has_count = args.len() == 6 && args.is(4, "COUNT");
    if !args.is(3, "FULL") || !(args.len() == 4 || has_count) {
        return Err(wrong_subcommand("XINFO", args));
    }
    let count = if has_count { args.int(5)? } else { FULL_COUNT };
    let count = if count < 0 { FULL_COUNT } else { count };
    let count = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    full(&mut ctx.reply, stream, count);
    Ok(Outcome::Done)
}

/// Without COUNT, or with a negative COUNT, FULL shows at most this many entries of the stream and of each
/// list of pending entries.
const FULL_COUNT: i64 = 10;

fn common(reply: &mut Reply<'_>, stream: &Stream) {
    let log = stream.log();
    int(reply, "length", log.len());
    int(reply, "radix-tree-keys", log.node_count() as u64);
    int(reply, "radix-tree-nodes", log.radix_nodes() as u64);
    id(reply, "last-generated-id", log.last_id());
    id(reply, "max-deleted-entry-id", log.max_deleted_id());
    int(reply, "entries-added", log.entries_added());
    id(reply, "recorded-first-entry-id", log.first_id());
}

fn summary(reply: &mut Reply<'_>, stream: &Stream) {
    reply.map(10);
    common(reply, stream);
    int(reply, "groups", stream.groups_len() as u64);
    let log = stream.log();
    let first = log.iter(StreamId::MIN, StreamId::MAX).next();
    let last = log.iter_rev(StreamId::MIN, StreamId::MAX).next();
    for (name, entry) in [("first-entry", first), ("last-entry", last)] {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => reply_entry(reply, entry),
            None => reply.null(),
        }
    }
}

fn full(reply: &mut Reply<'_>, stream: &Stream, count: usize) {
    let log = stream.log();
    reply.map(9);
    common(reply, stream);
    reply.bulk(b"entries");
    super::reply_entries(reply, log.iter(StreamId::MIN, StreamId::MAX), count);
    reply.bulk(b"groups");
    reply.array(stream.groups_len());
    for group in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(group.name());
        id(reply, "last-delivered-id", group.last_id());
        int_or_null(reply, "entries-read", group.entries_read());
        int_or_null(reply, "lag", lag(group, log));
        int(reply, "pel-count", group.pending_len() as u64);
        reply.bulk(b"pending");
        reply.array(group.pending_len().min(count));
        for entry in group.pending_from(StreamId::MIN).take(count) {
            reply.array(4);
            reply_id(reply, entry.id);
            reply.bulk(group.consumer_of(entry.consumer).map_or(b"", |consumer| consumer.name()));
            reply.int(entry.delivered_ms);
            reply.int(entry.deliveries as i64);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumers_len());
        group.consumers().for_each(|consumer| full_consumer(reply, group, consumer, count));
    }
}

fn full_consumer(reply: &mut Reply<'_>, group: &ConsumerGroup, consumer: &StreamConsumer, count: usize) {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(consumer.name());
    reply.bulk(b"seen-time");
    reply.int(consumer.seen_ms());
    reply.bulk(b"active-time");
    reply.int(consumer.active_ms());
    int(reply, "pel-count", consumer.pending_len() as u64);
    reply.bulk(b"pending");
    reply.array(consumer.pending_len().min(count));
    let ids = consumer.pending_from(StreamId::MIN).take(count);
    for entry in ids.filter_map(|id| group.pending(id)) {
        reply.array(3);
        reply_id(reply, entry.id);
        reply.int(entry.delivered_ms);
        reply.int(entry.deliveries as i64);
    }
}

/// Number of added entries that the group has not read yet; `None` if unknown.
fn lag(group: &ConsumerGroup, log: &EntryLog) -> Option<u64> {
    if log.entries_added() == 0 {
        return Some(0);
    }
    let read = match group.entries_read() {
        Some(read) if !log.has_gap_from(group.last_id()) => read,
        Some(_) | None => log.entries_up_to(group.last_id())?,
    };
    Some(log.entries_added().wrapping_sub(read))
}

pub(super) fn groups(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let stream = found(ctx, args)?;
    let reply = &mut ctx.reply;
    reply.array(stream.groups_len());
    for group in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(group.name());
        int(reply, "consumers", group.consumers_len() as u64);
        int(reply, "pending", group.pending_len() as u64);
        id(reply, "last-delivered-id", group.last_id());
        int_or_null(reply, "entries-read", group.entries_read());
        int_or_null(reply, "lag", lag(group, stream.log()));
    }
    Ok(Outcome::Done)
}

pub(super) fn consumers(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let now_ms = ctx.db.access.now.unix_ms();
    let group = found(ctx, args)?.group(args.at(3)).ok_or_else(|| no_group(args))?;
    let reply = &mut ctx.reply;
    reply.array(group.consumers_len());
    for consumer in group.consumers() {
        let since = |at_ms: i64| now_ms.saturating_sub(at_ms).max(0) as u64;
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        int(reply, "pending", consumer.pending_len() as u64);
        int(reply, "idle", since(consumer.seen_ms()));
        reply.bulk(b"inactive");
        match consumer.active_ms() {
            -1 => reply.int(-1),
            at_ms => reply.int(since(at_ms) as i64),
        }
    }
    Ok(Outcome::Done)
}

fn no_group(args: Args<'_>) -> CmdError {
    let mut text = b"NOGROUP No such consumer group '".to_vec();
    text.extend_from_slice(crate::error::until_zero(args.at(3)));
    text.extend_from_slice(b"' for key name '");
    text.extend_from_slice(crate::error::until_zero(args.at(2)));
    text.push(b'\'');
    CmdError::owned(text)
}
