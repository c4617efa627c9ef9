//! Commands on parts of strings, and their length.

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::common::{reply_pages, reply_str, str_of};
use sluice_keyspace::{Event, NewValue, SetExpiry, Str};
use sluice_resp::Reply;
use std::ops::Range;

pub(super) fn strlen(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let len = match ctx.db.get(args.key(1)) {
        Some(entry) => str_of(entry)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

pub(super) fn append(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (key, more) = (args.key(1), args.at(2));
    let len = match ctx.db.get_uncounted(key) {
        None => {
            ctx.db.set(key, NewValue::Str(more), SetExpiry::Clear, Event::Append);
            more.len()
        }
        Some(entry) => {
            let len = str_of(entry)?.len();
            check_size(ctx, len, more)?;
            ctx.db.write_at(key, len, more, Event::Append)?
        }
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

pub(super) fn setrange(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let (key, value) = (args.key(1), args.at(3));
    let offset = usize::try_from(args.int(2)?).map_err(|_| CmdError::text("ERR offset is out of range"))?;
    let len = match ctx.db.get_uncounted(key) {
        Some(entry) => str_of(entry)?.len(),
        None => 0,
    };
    let len = if value.is_empty() {
        len
    } else {
        check_size(ctx, offset, value)?;
        ctx.db.write_at(key, offset, value, Event::SetRange)?
    };
    ctx.reply.int(len as i64);
    Ok(Outcome::Done)
}

/// Refuses `more` bytes at `offset` if the string would become longer than the largest allowed one.
fn check_size(ctx: &WriteCtx<'_>, offset: usize, more: &[u8]) -> Result<(), CmdError> {
    match offset.checked_add(more.len()) {
        Some(end) if end <= ctx.string_bytes_max() => Ok(()),
        _ => Err(CmdError::StringTooLong),
    }
}

pub(super) fn getrange(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let (start, end) = (args.int(2)?, args.int(3)?);
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.bulk(b"");
        return Ok(Outcome::Done);
    };
    let value = str_of(entry)?;
    let range = byte_range(start, end, value.len());
    if range.len() == value.len() {
        reply_str(&mut ctx.reply, value);
    } else {
        reply_part(&mut ctx.reply, value, range);
    }
    Ok(Outcome::Done)
}

fn reply_part(reply: &mut Reply<'_>, value: Str<'_>, range: Range<usize>) {
    match value {
        Str::Pages(pages) => reply_pages(reply, pages, range),
        Str::Int(_) | Str::Inline(_) | Str::Shared(_) => {
            value.in_one_piece(|bytes| reply.bulk(&bytes[range]));
        }
    }
}

/// The bytes from `start` to `end`, both included, of `len`; negative offsets count from the end, and
/// the result is clamped to the string. Two negative offsets in the wrong order select nothing, even if
/// clamping would move both to the first byte.
fn byte_range(start: i64, end: i64, len: usize) -> Range<usize> {
    if len == 0 || start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let clamp = |offset: i64| match usize::try_from(offset) {
        Ok(offset) => offset,
        Err(_) => len.saturating_sub(usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, end) = (clamp(start), clamp(end).min(len - 1));
    if start > end { 0..0 } else { start..end + 1 }
}
