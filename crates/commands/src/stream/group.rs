//! XGROUP.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::{CmdError, until_zero};
use crate::outcome::{Outcome, Run};
use crate::stream::common::{id_at, id_or_end, wrong_subcommand};
use sluice_keyspace::{Event, StreamEdit};
use sluice_value::stream::{ConsumerGroup, Stream, StreamId};

const NO_KEY: CmdError = CmdError::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);

fn no_group(args: Args<'_>) -> CmdError {
    let mut text = b"NOGROUP No such consumer group '".to_vec();
    text.extend_from_slice(until_zero(args.at(3)));
    text.extend_from_slice(b"' for key name '");
    text.extend_from_slice(until_zero(args.at(2)));
    text.push(b'\'');
    CmdError::owned(text)
}

/// The options of CREATE and SETID.
struct GroupOptions {
    mkstream: bool,
    entries_read: Option<u64>,
}

impl GroupOptions {
    fn parse(args: Args<'_>, is_create: bool) -> Result<GroupOptions, CmdError> {
        let mut options = GroupOptions { mkstream: false, entries_read: None };
        let mut at = 5;
        while at < args.len() {
            if is_create && args.is(at, "MKSTREAM") {
                options.mkstream = true;
                at += 1;
            } else if args.is(at, "ENTRIESREAD") && at + 1 < args.len() {
                let read = args.int(at + 1)?;
                if read < -1 {
                    return Err(CmdError::text("ERR value for ENTRIESREAD must be positive or -1"));
                }
                options.entries_read = u64::try_from(read).ok();
                at += 2;
            } else {
                return Err(wrong_subcommand("XGROUP", args));
            }
        }
        Ok(options)
    }
}

/// Number of words of CREATE with each option once.
const CREATE_WORDS_MAX: usize = 8;
/// Number of words of SETID with its option.
const SETID_WORDS_MAX: usize = 7;

/// Refuses a call with more than `words_max` words, because such a call repeats an option. A call that
/// repeats an option but omits another is accepted, as in the reference.
fn refuse_repeated(args: Args<'_>, words_max: usize) -> Result<(), CmdError> {
    if args.len() > words_max { Err(wrong_subcommand("XGROUP", args)) } else { Ok(()) }
}

/// The stream of a subcommand that needs an existing one.
fn edit<'e>(ctx: &'e mut WriteCtx<'_>, args: Args<'e>) -> Result<StreamEdit<'e>, CmdError> {
    ctx.db.edit_stream(args.key(2), ctx.limits.stream)?.ok_or(NO_KEY)
}

fn last_id_of(stream: Option<&Stream>) -> StreamId {
    stream.map_or(StreamId::MIN, |stream| stream.log().last_id())
}

pub(super) fn create(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = GroupOptions::parse(args, true)?;
    let (key, limits) = (args.key(2), ctx.limits.stream);
    let edit = ctx.db.edit_stream(key, limits)?;
    if edit.is_none() && !options.mkstream {
        return Err(NO_KEY);
    }
    refuse_repeated(args, CREATE_WORDS_MAX)?;
    let id = match until_zero(args.at(4)) {
        b"$" => last_id_of(edit.as_ref().map(StreamEdit::stream)),
        _ => id_at(args.at(4), 0)?,
    };
    let is_new = edit.is_none();
    let mut edit = match edit.is_some() {
        true => edit.expect("it was just looked at"),
        false => {
            drop(edit);
            ctx.db.create_stream(key, limits)
        }
    };
    let (stream, context) = edit.parts();
    if !stream.add_group(ConsumerGroup::new(args.at(3), id, options.entries_read), context) {
        return Err(CmdError::text("BUSYGROUP Consumer Group name already exists"));
    }
    if is_new {
        edit.modified(Event::XGroupCreate, 1);
    } else {
        edit.state_modified(Event::XGroupCreate, 1);
    }
    drop(edit);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn set_id(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = GroupOptions::parse(args, false)?;
    let mut edit = edit(ctx, args)?;
    let stream = edit.stream();
    if stream.group(args.at(3)).is_none() {
        return Err(no_group(args));
    }
    refuse_repeated(args, SETID_WORDS_MAX)?;
    let id = match until_zero(args.at(4)) {
        b"$" => last_id_of(Some(stream)),
        _ => id_or_end(args.at(4), 0)?,
    };
    let (stream, context) = edit.parts();
    stream.with_group(args.at(3), context, |group, _, copied| {
        group.set_position(id, options.entries_read, copied);
    });
    edit.state_modified(Event::XGroupSetId, 1);
    // Waiting clients are woken, because entries up to the group's former position may be new for them.
    edit.ready();
    drop(edit);
    ctx.reply.ok();
    Ok(Outcome::Done)
}

pub(super) fn destroy(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let mut edit = edit(ctx, args)?;
    let (stream, context) = edit.parts();
    let was_there = stream.remove_group(args.at(3), context);
    if was_there {
        edit.state_modified(Event::XGroupDestroy, 1);
        // Clients that wait for entries of the group are woken, and get an error.
        edit.ready();
    }
    drop(edit);
    ctx.reply.int(i64::from(was_there));
    Ok(Outcome::Done)
}

pub(super) fn create_consumer(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let now_ms = ctx.db.access.now.unix_ms();
    let mut edit = edit(ctx, args)?;
    let (stream, context) = edit.parts();
    let added = stream.with_group(args.at(3), context, |group, _, copied| {
        group.add_consumer(args.at(4), now_ms, copied).is_some()
    });
    let added = added.ok_or_else(|| no_group(args))?;
    if added {
        edit.state_modified(Event::XGroupCreateConsumer, 1);
    }
    drop(edit);
    ctx.reply.int(i64::from(added));
    Ok(Outcome::Done)
}

pub(super) fn delete_consumer(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let mut edit = edit(ctx, args)?;
    let (stream, context) = edit.parts();
    let removed = stream
        .with_group(args.at(3), context, |group, _, copied| group.remove_consumer(args.at(4), copied))
        .ok_or_else(|| no_group(args))?;
    if removed.is_some() {
        edit.state_modified(Event::XGroupDelConsumer, 1);
    }
    drop(edit);
    ctx.reply.int(removed.unwrap_or(0) as i64);
    Ok(Outcome::Done)
}
