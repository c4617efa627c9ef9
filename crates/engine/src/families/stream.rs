//! Streams.
//!
//! `add.rs` has what changes entries, `read.rs` what reads and waits, `group.rs` consumer groups, `claim.rs` pending entries,
//! `info.rs` XINFO.

mod add;
mod claim;
mod group;
mod info;
mod read;
mod slow;

use crate::args::Args;
use crate::ctx::{Handler, Outcome, ReadCtx, Route, Run, route};
use crate::error::CmdError;
use sluice_base::num::IntBuffer;
use sluice_command::specs::stream as specs;
use sluice_keyspace::Entry;
use sluice_resp::Reply;
use sluice_value::Direction;
use sluice_value::stream::{Element, EntryRef, Stream, StreamId};

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::XACK, Handler::Write(claim::xack)),
    route(&specs::XADD, Handler::Write(add::xadd)),
    route(&specs::XAUTOCLAIM, Handler::Write(claim::xautoclaim)),
    route(&specs::XCLAIM, Handler::Write(claim::xclaim)),
    route(&specs::XDEL, Handler::Write(add::xdel)),
    route(&specs::XGROUP_CREATE, Handler::Write(group::create)),
    route(&specs::XGROUP_CREATECONSUMER, Handler::Write(group::create_consumer)),
    route(&specs::XGROUP_DELCONSUMER, Handler::Write(group::delete_consumer)),
    route(&specs::XGROUP_DESTROY, Handler::Write(group::destroy)),
    route(&specs::XGROUP_HELP, Handler::Static(|ctx, _| help(&mut ctx.reply, &specs::XGROUP))),
    route(&specs::XGROUP_SETID, Handler::Write(group::set_id)),
    route(&specs::XINFO_CONSUMERS, Handler::Read(info::consumers)),
    route(&specs::XINFO_GROUPS, Handler::Read(info::groups)),
    route(&specs::XINFO_HELP, Handler::Static(|ctx, _| help(&mut ctx.reply, &specs::XINFO))),
    route(&specs::XINFO_STREAM, Handler::Read(info::stream)),
    route(&specs::XLEN, Handler::Read(xlen)),
    route(&specs::XPENDING, Handler::Read(claim::xpending)),
    route(&specs::XRANGE, Handler::Read(xrange)),
    route(&specs::XREAD, Handler::Read(read::xread)),
    route(&specs::XREADGROUP, Handler::Write(read::xreadgroup)),
    route(&specs::XREVRANGE, Handler::Read(xrevrange)),
    route(&specs::XSETID, Handler::Write(add::xsetid)),
    route(&specs::XTRIM, Handler::Write(add::xtrim)),
];

const INVALID_ID: CmdError = CmdError::text("ERR Invalid stream ID specified as stream command argument");

fn help(reply: &mut Reply<'_>, spec: &'static sluice_command::Spec) -> Run {
    let lines = sluice_command::derive::help::lines(spec);
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line.as_bytes()));
    Ok(Outcome::Done)
}

/// An id, where milliseconds alone stand for the id with this sequence number.
fn id_at(text: &[u8], seq: u64) -> Result<StreamId, CmdError> {
    StreamId::parse(text, seq).ok_or(INVALID_ID)
}

/// The same, or `-` for the least id and `+` for the greatest.
fn id_or_end(text: &[u8], seq: u64) -> Result<StreamId, CmdError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => id_at(text, seq),
    }
}

/// The first id of an interval: `(` in front excludes the id.
fn interval_start(text: &[u8]) -> Result<StreamId, CmdError> {
    match text.split_first() {
        Some((b'(', excluded)) if !excluded.is_empty() => {
            let next = id_at(excluded, 0)?.next();
            next.ok_or(const { CmdError::text("ERR invalid start ID for the interval") })
        }
        _ => id_or_end(text, 0),
    }
}

/// The last id of an interval.
fn interval_end(text: &[u8]) -> Result<StreamId, CmdError> {
    match text.split_first() {
        Some((b'(', excluded)) if !excluded.is_empty() => {
            let previous = id_at(excluded, u64::MAX)?.previous();
            previous.ok_or(const { CmdError::text("ERR invalid end ID for the interval") })
        }
        _ => id_or_end(text, u64::MAX),
    }
}

fn no_group(key: &[u8], group: &[u8]) -> CmdError {
    let mut text = b"NOGROUP No such key '".to_vec();
    text.extend_from_slice(crate::error::until_zero(key));
    text.extend_from_slice(b"' or consumer group '");
    text.extend_from_slice(crate::error::until_zero(group));
    text.push(b'\'');
    CmdError::owned(text)
}

/// What a subcommand answers to arguments that it does not know.
fn wrong_subcommand(container: &str, args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(crate::error::shown(args.at(1), 128));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    CmdError::owned(text)
}

/// The stream of an entry, or what a command answers to another type.
fn stream_of(entry: Entry<'_>) -> Result<&Stream, CmdError> {
    Ok(entry.as_stream()?)
}

fn reply_id(reply: &mut Reply<'_>, id: StreamId) {
    let mut buffer = [IntText::new(), IntText::new()];
    let mut text = [0; StreamId::TEXT_MAX];
    let mut len = 0;
    let mut push = |bytes: &[u8]| {
        text[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    let [ms, seq] = &mut buffer;
    push(ms.format(id.ms));
    push(b"-");
    push(seq.format(id.seq));
    reply.bulk(&text[..len]);
}

/// The digits of an unsigned number.
struct IntText {
    digits: [u8; 20],
}

impl IntText {
    fn new() -> IntText {
        IntText { digits: [0; 20] }
    }

    fn format(&mut self, mut number: u64) -> &[u8] {
        let mut at = self.digits.len();
        loop {
            at -= 1;
            self.digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return &self.digits[at..];
            }
        }
    }
}

#[inline]
fn reply_element(reply: &mut Reply<'_>, element: Element<'_>) {
    match element {
        Element::Int(number) => reply.bulk(IntBuffer::new().format(number)),
        Element::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// An entry: its id, and its fields and values.
fn reply_entry(reply: &mut Reply<'_>, entry: EntryRef<'_>) {
    reply.array(2);
    reply_id(reply, entry.id());
    reply.array(2 * entry.len());
    for (field, value) in entry.pairs() {
        reply_element(reply, field);
        reply_element(reply, value);
    }
}

fn xlen(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = match ctx.db.get(args.key(1)) {
        Some(entry) => stream_of(entry)?.log().len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

fn xrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (start, end) = (interval_start(args.at(2))?, interval_end(args.at(3))?);
    let Some((stream, count)) = ranged(ctx, args)? else { return Ok(Outcome::Done) };
    if slow::suits(&mut ctx.slow, stream, (start, end), count) {
        return ctx.slow.begin(|| slow::range(stream, (start, end), count, Direction::Up));
    }
    reply_entries(&mut ctx.reply, stream.log().iter(start, end), count);
    Ok(Outcome::Done)
}

fn xrevrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (start, end) = (interval_start(args.at(3))?, interval_end(args.at(2))?);
    let Some((stream, count)) = ranged(ctx, args)? else { return Ok(Outcome::Done) };
    if start > end {
        ctx.reply.array(0);
        return Ok(Outcome::Done);
    }
    if slow::suits(&mut ctx.slow, stream, (start, end), count) {
        return ctx.slow.begin(|| slow::range(stream, (start, end), count, Direction::Down));
    }
    reply_entries(&mut ctx.reply, stream.log().iter_rev(start, end), count);
    Ok(Outcome::Done)
}

/// The stream of XRANGE and XREVRANGE, and how many entries it wants; `None` where the reply is written.
fn ranged<'a>(ctx: &mut ReadCtx<'a>, args: Args<'_>) -> Result<Option<(&'a Stream, usize)>, CmdError> {
    let mut count = None;
    let mut at = 4;
    while at < args.len() {
        if !args.is(at, "COUNT") || at + 1 >= args.len() {
            return Err(CmdError::Syntax);
        }
        count = Some(args.int(at + 1)?.max(0));
        at += 2;
    }
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.array(0);
        return Ok(None);
    };
    let stream = stream_of(entry)?;
    if count == Some(0) {
        ctx.reply.null_array();
        return Ok(None);
    }
    Ok(Some((stream, count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX)))))
}

/// At most so many entries; how many there were.
fn reply_entries<'a>(
    reply: &mut Reply<'_>,
    entries: impl Iterator<Item = EntryRef<'a>>,
    count: usize,
) -> usize {
    let deferred = reply.defer();
    let mut len = 0;
    for entry in entries.take(count) {
        reply_entry(reply, entry);
        len += 1;
    }
    reply.end_array(deferred, len);
    len
}
