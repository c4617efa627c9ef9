//! XADD, XTRIM, XDEL and XSETID.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::{CmdError, until_zero};
use crate::outcome::{Outcome, Run};
use crate::stream::common::{INVALID_ID, id_at, reply_id};
use sluice_base::num::parse_i64;
use sluice_keyspace::{Argv, Event};
use sluice_value::stream::{NODE_BYTES_MAX, Stream, StreamContext, StreamId, TrimExtent, TrimTo};

/// The id that XADD requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedId {
    /// An id that the server chooses.
    Auto,
    /// An id with these milliseconds; the server chooses the sequence number.
    AutoSeq(u64),
    /// The id from the arguments.
    Given(StreamId),
}

/// How XADD or XTRIM trims the stream.
#[derive(Clone, Copy)]
struct Trimming {
    to: TrimTo,
    extent: TrimExtent,
    /// Position of the threshold among the arguments.
    threshold_at: usize,
}

/// The options of XADD and XTRIM.
struct AddOptions {
    trimming: Option<Trimming>,
    no_mkstream: bool,
    /// Used for XADD only: the id, and its position among the arguments.
    id: Option<(WantedId, usize)>,
}

/// The command whose options are parsed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parsed {
    Add,
    Trim,
}

/// The trimming options read so far.
#[derive(Default)]
struct TrimWords {
    to: Option<TrimTo>,
    threshold_at: usize,
    is_approximate: bool,
    limit: Option<i64>,
}

impl AddOptions {
    fn parse(ctx: &WriteCtx<'_>, args: Args<'_>, whose: Parsed) -> Result<AddOptions, CmdError> {
        let mut words = TrimWords::default();
        let (mut no_mkstream, mut id, mut at) = (false, None, 2);
        while at < args.len() {
            let has_value = at + 1 < args.len();
            if whose == Parsed::Add && until_zero(args.at(at)) == b"*" {
                id = Some((WantedId::Auto, at));
                break;
            }
            if has_value && (args.is(at, "MAXLEN") || args.is(at, "MINID")) {
                at = words.strategy(args, at)?;
            } else if has_value && args.is(at, "LIMIT") {
                at += 1;
                let limit = args.int(at)?;
                if limit < 0 {
                    return Err(CmdError::text("ERR The LIMIT argument must be >= 0."));
                }
                words.limit = Some(limit);
            } else if whose == Parsed::Add && args.is(at, "NOMKSTREAM") {
                no_mkstream = true;
            } else if whose == Parsed::Add {
                id = Some((wanted_id(args.at(at))?, at));
                break;
            } else {
                return Err(CmdError::Syntax);
            }
            at += 1;
        }
        Ok(AddOptions { trimming: words.finish(ctx, whose)?, no_mkstream, id })
    }
}

impl TrimWords {
    /// Reads MAXLEN or MINID at `at` with its threshold; the result is the position of the threshold.
    fn strategy(&mut self, args: Args<'_>, mut at: usize) -> Result<usize, CmdError> {
        if self.to.is_some() {
            return Err(CmdError::text(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        let is_len = args.is(at, "MAXLEN");
        self.is_approximate = false;
        if at + 2 < args.len() {
            self.is_approximate = until_zero(args.at(at + 1)) == b"~";
            at += usize::from(self.is_approximate || until_zero(args.at(at + 1)) == b"=");
        }
        at += 1;
        self.threshold_at = at;
        self.to = Some(if is_len {
            let max = args.int(at)?;
            let max = u64::try_from(max);
            TrimTo::Len(max.map_err(|_| CmdError::text("ERR The MAXLEN argument must be >= 0."))?)
        } else {
            TrimTo::MinId(id_at(args.at(at), 0)?)
        });
        Ok(at)
    }

    fn finish(self, ctx: &WriteCtx<'_>, whose: Parsed) -> Result<Option<Trimming>, CmdError> {
        let Some(to) = self.to else {
            if self.limit.is_some_and(|limit| limit > 0) {
                return Err(CmdError::text(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                ));
            }
            if whose == Parsed::Trim {
                return Err(CmdError::text(
                    "ERR syntax error, XTRIM must be called with a trimming strategy",
                ));
            }
            if self.limit.is_some() {
                return Err(LIMIT_WITHOUT_APPROXIMATION);
            }
            return Ok(None);
        };
        // For a command from the primary or the AOF, the extent of trimming is already decided, so no limit
        // applies.
        let must_obey = ctx.db.access.must_obey;
        if self.limit.is_some() && !self.is_approximate && !must_obey {
            return Err(LIMIT_WITHOUT_APPROXIMATION);
        }
        let limit = match self.limit {
            _ if must_obey => 0,
            Some(limit) => limit.unsigned_abs(),
            None => default_limit(ctx),
        };
        let extent = if self.is_approximate { TrimExtent::Nodes(limit) } else { TrimExtent::Exact };
        Ok(Some(Trimming { to, extent, threshold_at: self.threshold_at }))
    }
}

const LIMIT_WITHOUT_APPROXIMATION: CmdError =
    CmdError::text("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// Largest number of entries that approximate trimming removes without LIMIT: as many as fit in a hundred
/// nodes, but at most a million, or 10,000 if the number of entries of a node is not limited.
fn default_limit(ctx: &WriteCtx<'_>) -> u64 {
    match ctx.limits.stream.node_max_entries.saturating_mul(100) {
        0 => 10_000,
        limit => limit.min(1_000_000),
    }
}

fn wanted_id(text: &[u8]) -> Result<WantedId, CmdError> {
    if let Some(ms) = StreamId::parse_with_any_seq(text) {
        return Ok(WantedId::AutoSeq(ms));
    }
    id_at(text, 0).map(WantedId::Given)
}

impl WantedId {
    /// The id of the new entry; `None` if it would not be greater than `last`.
    fn after(self, last: StreamId, now_ms: u64) -> Option<StreamId> {
        let id = match self {
            WantedId::Given(id) => id,
            WantedId::Auto if now_ms > last.ms => StreamId::new(now_ms, 0),
            WantedId::Auto => last.next()?,
            WantedId::AutoSeq(ms) if ms == last.ms => StreamId::new(ms, last.seq.checked_add(1)?),
            WantedId::AutoSeq(ms) => StreamId::new(ms, 0),
        };
        (id > last).then_some(id)
    }
}

pub(super) fn xadd(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = AddOptions::parse(ctx, args, Parsed::Add)?;
    let wrong_arity = CmdError::Arity("xadd");
    let Some((wanted, id_at)) = options.id else { return Err(wrong_arity) };
    let elements = args.len() - id_at - 1;
    if elements < 2 || !elements.is_multiple_of(2) {
        return Err(wrong_arity);
    }
    if wanted == WantedId::Given(StreamId::MIN) {
        return Err(CmdError::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let bytes: usize = args.iter_from(id_at + 1).map(<[u8]>::len).sum();
    let is_too_large = bytes > NODE_BYTES_MAX;
    let now_ms = ctx.db.access.now.unix_ms().unsigned_abs();
    let (key, limits) = (args.key(1), ctx.limits.stream);
    let edit = ctx.db.edit_stream(key, limits)?;
    if edit.is_none() && options.no_mkstream {
        ctx.reply.null();
        return Ok(Outcome::Done);
    }
    let last = edit.as_ref().map_or(StreamId::MIN, |edit| edit.stream().log().last_id());
    if last == StreamId::MAX {
        return Err(CmdError::text(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        ));
    }
    let Some(id) = wanted.after(last, now_ms) else {
        return Err(CmdError::text(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        ));
    };
    if is_too_large {
        return Err(CmdError::text("ERR Elements are too large to be stored"));
    }
    let mut edit = match edit.is_some() {
        true => edit.expect("it was just looked at"),
        false => {
            drop(edit);
            ctx.db.create_stream(key, limits)
        }
    };
    let (stream, context) = edit.parts();
    stream.append(id, args.iter_from(id_at + 1), context);
    let trimmed = options.trimming.map(|trimming| trimming.trim(stream, context));
    let threshold = options.trimming.and_then(|trimming| trimming.exact_threshold(stream));
    edit.modified(Event::XAdd, 1);
    if trimmed.is_some_and(|trimmed| trimmed > 0) {
        edit.publish_only(Event::XTrim);
    }
    edit.ready();
    let is_given = matches!(wanted, WantedId::Given(_));
    if !is_given || threshold.is_some() {
        edit.effects().rewrite(|| {
            let mut argv = args.to_vecs();
            argv[id_at] = if is_given { argv[id_at].clone() } else { id.to_text() };
            if let Some(threshold) = threshold {
                threshold.put(&mut argv);
            }
            argv
        });
    }
    drop(edit);
    reply_id(&mut ctx.reply, id);
    Ok(Outcome::Done)
}

/// The result of approximate trimming, as an exact threshold.
struct ExactThreshold {
    at: usize,
    text: Vec<u8>,
}

impl ExactThreshold {
    fn put(self, argv: &mut Argv) {
        argv[self.at - 1] = b"=".to_vec();
        argv[self.at] = self.text;
    }
}

impl Trimming {
    fn trim(self, stream: &mut Stream, context: &mut StreamContext) -> u64 {
        stream.trim(self.to, self.extent, context)
    }

    /// The exact threshold with which a replica trims to the same stream; `None` if the requested trimming is
    /// exact already.
    fn exact_threshold(self, stream: &Stream) -> Option<ExactThreshold> {
        if self.extent == TrimExtent::Exact {
            return None;
        }
        let text = match self.to {
            TrimTo::Len(_) => stream.log().len().to_string().into_bytes(),
            // If no entry is left, the threshold must be above all removed ids.
            TrimTo::MinId(_) if stream.log().len() == 0 => StreamId::MAX.to_text(),
            TrimTo::MinId(_) => stream.log().first_id().to_text(),
        };
        Some(ExactThreshold { at: self.threshold_at, text })
    }
}

pub(super) fn xtrim(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = AddOptions::parse(ctx, args, Parsed::Trim)?;
    let Some(trimming) = options.trimming else { return Err(CmdError::Syntax) };
    let Some(mut edit) = ctx.db.edit_stream(args.key(1), ctx.limits.stream)? else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    let (stream, context) = edit.parts();
    let removed = trimming.trim(stream, context);
    let threshold = trimming.exact_threshold(stream);
    if removed > 0 {
        edit.modified(Event::XTrim, removed);
        if let Some(threshold) = threshold {
            edit.effects().rewrite(|| {
                let mut argv = args.to_vecs();
                threshold.put(&mut argv);
                argv
            });
        }
    }
    drop(edit);
    ctx.reply.int(removed as i64);
    Ok(Outcome::Done)
}

pub(super) fn xdel(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let Some(mut edit) = ctx.db.edit_stream(args.key(1), ctx.limits.stream)? else {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    };
    // All ids are checked before the first change.
    if args.iter_from(2).any(|text| StreamId::parse(text, 0).is_none()) {
        return Err(INVALID_ID);
    }
    let (stream, context) = edit.parts();
    let ids = args.iter_from(2).filter_map(|text| StreamId::parse(text, 0));
    let deleted = ids.filter(|id| stream.delete(*id, context)).count() as u64;
    if deleted > 0 {
        edit.modified(Event::XDel, deleted);
    }
    drop(edit);
    ctx.reply.int(deleted as i64);
    Ok(Outcome::Done)
}

pub(super) fn xsetid(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let id = id_at(args.at(2), 0)?;
    let (mut entries_added, mut max_deleted_id) = (None, StreamId::MIN);
    let mut at = 3;
    while at < args.len() {
        let has_value = at + 1 < args.len();
        if has_value && args.is(at, "ENTRIESADDED") {
            let added = args.get(at + 1).and_then(parse_i64).ok_or(CmdError::NotInteger)?;
            let added = u64::try_from(added);
            entries_added = Some(added.map_err(|_| CmdError::text("ERR entries_added must be positive"))?);
        } else if has_value && args.is(at, "MAXDELETEDID") {
            max_deleted_id = id_at(args.at(at + 1), 0)?;
            if id < max_deleted_id {
                return Err(CmdError::text(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(CmdError::Syntax);
        }
        at += 2;
    }
    let edit = ctx.db.edit_stream(args.key(1), ctx.limits.stream)?;
    let mut edit = edit.ok_or(CmdError::NoSuchKey)?;
    let log = edit.stream().log();
    if id < log.max_deleted_id() {
        return Err(CmdError::text(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
        ));
    }
    if let Some(top) = log.iter_rev(StreamId::MIN, StreamId::MAX).next().map(|entry| entry.id()) {
        if id < top {
            return Err(CmdError::text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if entries_added.is_some_and(|added| added < log.len()) {
            return Err(CmdError::text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    let max_deleted_id = if max_deleted_id == StreamId::MIN { log.max_deleted_id() } else { max_deleted_id };
    let entries_added = entries_added.unwrap_or(log.entries_added());
    edit.parts().0.set_ids(id, max_deleted_id, entries_added);
    edit.state_modified(Event::XSetId, 1);
    drop(edit);
    ctx.reply.ok();
    Ok(Outcome::Done)
}
