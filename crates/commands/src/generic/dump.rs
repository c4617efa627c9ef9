//! DUMP and RESTORE: a value as a payload of bytes, and back.

mod slow;

use crate::args::Args;
use crate::ctx::{ReadCtx, WriteCtx};
use crate::error::CmdError;
use crate::generic::expiry::time;
use crate::outcome::{Outcome, Run};
use crate::string::ExpiryUnit;
use sluice_base::Bytes;
use sluice_keyspace::{Argv, CLOCK_MASK, Event, ExpiryMode, NewValue, Str, ValueRef};
use sluice_persist::rdb::{self, Dumped, Loaded, PayloadError, ReadOptions, Text, Unknown};
use std::borrow::Cow;

pub(super) fn dump(ctx: &mut ReadCtx<'_>, args: Args<'_>) -> Run {
    let Some(entry) = ctx.db.get(args.key(1)) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    let value = match entry.value() {
        ValueRef::Str(Str::Int(number)) => Dumped::Str(Text::Int(number)),
        ValueRef::Str(Str::Inline(bytes)) => Dumped::Str(Text::Bytes(bytes)),
        ValueRef::Str(Str::Shared(bytes)) => Dumped::Str(Text::Bytes(bytes)),
        ValueRef::Str(Str::Pages(pages)) => Dumped::Pages(pages),
        ValueRef::List(list) => Dumped::List(list, ctx.limits.list.max_listpack_size),
        ValueRef::Hash(hash) => Dumped::Hash(hash),
        ValueRef::Stream(stream) => Dumped::Stream(stream),
        ValueRef::Zset(zset) => Dumped::Zset(zset),
        ValueRef::Set(set) => Dumped::Set(set),
    };
    let is_slow = match value {
        Dumped::List(list, _) => ctx.slow.suits(list.len()),
        Dumped::Hash(hash) => ctx.slow.suits(hash.len()),
        Dumped::Zset(zset) => ctx.slow.suits(zset.len()),
        Dumped::Set(set) => ctx.slow.suits(set.len()),
        Dumped::Stream(stream) => ctx.slow.suits(usize::try_from(stream.log().len()).unwrap_or(usize::MAX)),
        Dumped::Str(_) | Dumped::Pages(_) => false,
    };
    if is_slow {
        let (fill, compress) = (ctx.limits.list.max_listpack_size, ctx.limits.rdb_compression);
        return ctx.slow.begin(|| slow::dump(entry.value(), fill, compress));
    }
    let payload = Bytes::from_vec(rdb::dump(value, ctx.limits.rdb_compression));
    ctx.reply.bulk_shared(&payload);
    Ok(Outcome::Done)
}

/// RESTORE and RESTORE-ASKING: stores the value of a payload.
pub(super) fn restore(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let key = args.key(1);
    let options = RestoreOptions::parse(args)?;
    if !options.replace && ctx.db.get_uncounted(key).is_some() {
        return Err(CmdError::text("BUSYKEY Target key name already exists."));
    }
    let ttl = args.int(2)?;
    if ttl < 0 {
        return Err(CmdError::text("ERR Invalid TTL value, must be >= 0"));
    }
    let now_ms = ctx.db.access.now.unix_ms();
    let unit = if options.absttl { ExpiryUnit::AtMs } else { ExpiryUnit::Ms };
    let value = load(ctx, args.at(3))?;
    let at = time(ttl, unit, now_ms).ok_or(CmdError::InvalidExpire(ctx.spec.full_name))?;
    let expiry = (ttl != 0).then_some(at);
    if expiry.is_some_and(|at| at <= now_ms) && ctx.db.access.expiry == ExpiryMode::Delete {
        if options.replace && ctx.db.remove_stored(key, Event::Del) {
            let name: &[u8] = if ctx.limits.lazy_server_del { b"UNLINK" } else { b"DEL" };
            ctx.db.effects.rewrite(|| vec![name.to_vec(), args.at(1).to_vec()]);
        }
        ctx.reply.ok();
        return Ok(Outcome::Done);
    }
    let (expiry, clock) = (expiry.map(|at| at.max(0)), options.clock(ctx));
    let told = told(ctx, args, &value, (!options.absttl && ttl != 0).then_some(at));
    match value {
        Loaded::Str(Cow::Borrowed(text)) => ctx.db.restore(key, NewValue::Str(text), expiry, clock),
        // A decompressed string becomes the value without a copy.
        Loaded::Str(Cow::Owned(text)) => {
            let text = Bytes::from_vec(text);
            ctx.db.restore(key, NewValue::StrShared(&text), expiry, clock);
        }
        Loaded::Pages(pages) => ctx.db.restore(key, NewValue::Pages(pages), expiry, clock),
        Loaded::List(list) => ctx.db.restore(key, NewValue::List(list), expiry, clock),
        Loaded::Hash(hash) => ctx.db.restore(key, NewValue::Hash(hash), expiry, clock),
        Loaded::Stream(stream) => ctx.db.restore(key, NewValue::Stream(stream), expiry, clock),
        Loaded::Zset(zset) => ctx.db.restore(key, NewValue::Zset(zset), expiry, clock),
        Loaded::Set(set) => ctx.db.restore(key, NewValue::Set(set), expiry, clock),
    }
    if let Some(argv) = told {
        ctx.db.effects.rewrite(|| argv);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Decodes the value of a payload.
fn load<'p>(ctx: &WriteCtx<'_>, payload: &'p [u8]) -> Result<Loaded<'p>, CmdError> {
    let options = ReadOptions {
        // A payload from the primary or the AOF was accepted before, so it is accepted whatever
        // `rdb-version-check` says.
        unknown: match ctx.limits.any_rdb_version || ctx.db.access.must_obey {
            true => Unknown::Skip,
            false => Unknown::Refuse,
        },
        checksum: !ctx.limits.skip_checksum,
        list: ctx.limits.list,
        hash: ctx.limits.hash,
        zset: ctx.limits.zset,
        member_seed: ctx.db.member_seed(),
        set: ctx.limits.set,
    };
    rdb::restore(payload, options).map_err(|error| match error {
        PayloadError::Footer => CmdError::text("ERR DUMP payload version or checksum are wrong"),
        // The error contains neither key nor value, because others may read the log.
        PayloadError::Bad(error) => CmdError::BadData(format!("RESTORE refused a payload: {error}").into()),
        PayloadError::Foreign(kind) => CmdError::owned(format!("ERR Unsupported foreign data type: {kind}")),
        // The reference has no text for this case; this text names the type.
        PayloadError::Unsupported(name) => {
            CmdError::owned(format!("ERR values of type {name} are not supported by this version"))
        }
    })
}

/// The command as it is propagated; `None` if the request is propagated unchanged, or nothing is propagated.
/// `at_ms` is the time of expiry; it replaces a time to live, so that the delay of propagation does not
/// matter. A payload that other servers would refuse or decode differently is replaced with the payload that
/// DUMP would return. To recognize such a payload, only its version and type are checked, because encoding
/// every value again would take as long as decoding it.
fn told(ctx: &WriteCtx<'_>, args: Args<'_>, value: &Loaded<'_>, at_ms: Option<i64>) -> Option<Argv> {
    if !ctx.db.effects.propagating {
        return None;
    }
    let is_same = !ctx.limits.skip_checksum && rdb::is_same_for_valkey(args.at(3));
    if is_same && at_ms.is_none() {
        return None;
    }
    let mut argv: Argv = args.iter_from(0).take(2).map(<[u8]>::to_vec).collect();
    argv.push(at_ms.map_or_else(|| args.at(2).to_vec(), |at| at.to_string().into_bytes()));
    argv.push(match is_same {
        true => args.at(3).to_vec(),
        false => rdb::dump(value.dumped(ctx.limits.list.max_listpack_size), ctx.limits.rdb_compression),
    });
    argv.extend(args.iter_from(4).map(<[u8]>::to_vec));
    argv.extend(at_ms.map(|_| b"ABSTTL".to_vec()));
    Some(argv)
}

/// The options of RESTORE.
#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absttl: bool,
    /// IDLETIME: seconds since the last use.
    idle_s: Option<i64>,
    /// FREQ: the LFU counter.
    frequency: Option<u8>,
}

impl RestoreOptions {
    fn parse(args: Args<'_>) -> Result<RestoreOptions, CmdError> {
        let mut options = RestoreOptions::default();
        let mut i = 4;
        while i < args.len() {
            let has_value = i + 1 < args.len();
            if args.is(i, "REPLACE") {
                options.replace = true;
            } else if args.is(i, "ABSTTL") {
                options.absttl = true;
            } else if args.is(i, "IDLETIME") && has_value && options.frequency.is_none() {
                i += 1;
                let idle = Some(args.int(i)?).filter(|idle| *idle >= 0);
                options.idle_s = Some(idle.ok_or(IDLETIME_NEGATIVE)?);
            } else if args.is(i, "FREQ") && has_value && options.idle_s.is_none() {
                i += 1;
                let frequency = u8::try_from(args.int(i)?);
                options.frequency = Some(frequency.map_err(|_| FREQ_OUT_OF_RANGE)?);
            } else {
                return Err(CmdError::Syntax);
            }
            i += 1;
        }
        Ok(options)
    }

    /// The LRU/LFU clock that FREQ requests with an LFU policy, or IDLETIME with any other policy; `None`
    /// without that option.
    fn clock(&self, ctx: &WriteCtx<'_>) -> Option<u32> {
        let now_s = ctx.db.access.now.unix_s();
        if ctx.limits.lfu {
            let minutes = (now_s / 60) as u16;
            self.frequency.map(|counter| u32::from(minutes) << 8 | u32::from(counter))
        } else {
            // The difference is taken modulo 2^24, as the clock is counted.
            self.idle_s.map(|idle| (now_s as u32).wrapping_sub(idle as u32) & CLOCK_MASK)
        }
    }
}

const IDLETIME_NEGATIVE: CmdError = CmdError::text("ERR Invalid IDLETIME value, must be >= 0");
const FREQ_OUT_OF_RANGE: CmdError = CmdError::text("ERR Invalid FREQ value, must be >= 0 and <= 255");
