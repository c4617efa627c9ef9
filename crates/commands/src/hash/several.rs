//! HSETEX and HGETEX, which take options, and HGETDEL. All of them act on several fields at once.

use super::expiry::{FIELD_COUNT, NamedFields, expiry_argv, has_passed, hdel_argv};
use super::write::{before_adding, set_field};
use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::hash::common::{ActedNames, FieldClock, reply_value};
use crate::outcome::{Outcome, Run};
use crate::string::ExpiryUnit;
use sluice_keyspace::{Argv, Event, HashEdit};
use sluice_value::HashExpiry;
use std::ops::Range;

/// The option about the expiry of the fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldExpiry {
    /// No option was given.
    NotGiven,
    Keep,
    Persist,
    /// The argument at this index gives the expiry, in this unit.
    Given(ExpiryUnit, usize),
}

/// The option that requires keys or fields to exist, or not to exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Any,
    Absent,
    Present,
}

/// The command whose options are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldCommand {
    Hsetex,
    Hgetex,
}

struct FieldOptions {
    key: Presence,
    fields: Presence,
    expiry: FieldExpiry,
}

impl FieldOptions {
    fn parse(args: Args<'_>, range: Range<usize>, asked: FieldCommand) -> Result<FieldOptions, CmdError> {
        let mut options =
            FieldOptions { key: Presence::Any, fields: Presence::Any, expiry: FieldExpiry::NotGiven };
        let mut i = range.start;
        while i < range.end {
            i += options.take(args, i, range.end, asked).ok_or(CmdError::Syntax)?;
        }
        Ok(options)
    }

    /// Reads the option at `i`; returns how many words it takes, its name included, or `None` if it is not
    /// valid here.
    fn take(&mut self, args: Args<'_>, i: usize, end: usize, asked: FieldCommand) -> Option<usize> {
        let stores = asked == FieldCommand::Hsetex;
        let want = |condition: &mut Presence, wanted: Presence| {
            (*condition == Presence::Any || *condition == wanted).then(|| *condition = wanted).map(|()| 1)
        };
        match () {
            () if stores && args.is(i, "NX") => return want(&mut self.key, Presence::Absent),
            () if stores && args.is(i, "XX") => return want(&mut self.key, Presence::Present),
            () if stores && args.is(i, "FNX") => return want(&mut self.fields, Presence::Absent),
            () if stores && args.is(i, "FXX") => return want(&mut self.fields, Presence::Present),
            () => {}
        }
        let simple = match () {
            () if stores && args.is(i, "KEEPTTL") => Some(FieldExpiry::Keep),
            () if !stores && args.is(i, "PERSIST") => Some(FieldExpiry::Persist),
            () => None,
        };
        if let Some(simple) = simple {
            let fits = self.expiry == FieldExpiry::NotGiven || self.expiry == simple;
            self.expiry = simple;
            return fits.then_some(1);
        }
        let unit = ExpiryUnit::of(args.at(i))?;
        let again = matches!(self.expiry, FieldExpiry::Given(before, _) if before == unit);
        if i + 1 >= end || !(again || self.expiry == FieldExpiry::NotGiven) {
            return None;
        }
        self.expiry = FieldExpiry::Given(unit, i + 1);
        Some(2)
    }

    /// The given time, if any, in ms since the epoch; zero counts as a time that has passed.
    fn at(&self, ctx: &WriteCtx<'_>, args: Args<'_>) -> Result<Option<i64>, CmdError> {
        let FieldExpiry::Given(unit, index) = self.expiry else { return Ok(None) };
        let amount = args.int(index)?;
        let at = Some(amount).filter(|amount| *amount >= 0);
        let at =
            at.and_then(|amount| crate::generic::expiry::time(amount, unit, ctx.db.access.now.unix_ms()));
        at.map(Some).ok_or(CmdError::InvalidExpire(ctx.spec.full_name))
    }
}

pub(super) fn hsetex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let fields = NamedFields::find(args, 1)?;
    let options = FieldOptions::parse(args, 2..fields.word, FieldCommand::Hsetex)?;
    fields.check(args, 2, FIELD_COUNT)?;
    let clock = FieldClock::of(&ctx.db.access);
    let key = args.key(1);
    let present = match ctx.db.get_uncounted(key) {
        Some(entry) => entry.as_hash().map(|_| true)?,
        None => false,
    };
    if options.key == Presence::Absent && present || options.key == Presence::Present && !present {
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    }
    let at = options.at(ctx, args)?;
    let passed = at.is_some_and(|at| has_passed(ctx, at));
    let names = || args.iter_from(fields.first).step_by(2);
    let is_told = ctx.db.effects.propagating;
    let edit = ctx.db.edit_or_create_hash(key, ctx.limits.hash)?;
    let view = edit.value().view();
    let allowed = names().all(|name| match options.fields {
        Presence::Any => true,
        Presence::Absent => clock.get(view, name).is_none(),
        Presence::Present => clock.get(view, name).is_some(),
    });
    if !allowed {
        edit.unchanged();
        ctx.reply.int(0);
        return Ok(Outcome::Done);
    }
    if passed {
        let deleted = set_in_the_past(edit, names(), is_told);
        ctx.db.effects.count_fields_deleted(names().len() as u64);
        if deleted.count() > 0 {
            ctx.db.effects.rewrite(|| hdel_argv(args, deleted.names()));
        }
    } else {
        let expiry = match (options.expiry, at) {
            (FieldExpiry::Keep, _) => HashExpiry::Keep,
            (_, Some(at)) => HashExpiry::At(at),
            (_, None) => HashExpiry::Clear,
        };
        let is_kept = is_told && expiry == HashExpiry::Keep && !clock.all_live(view);
        let is_expired = |name: &[u8]| view.get(name).is_some_and(|field| field.is_expired(clock.now_ms));
        let expired: Vec<Vec<u8>> =
            names().filter(|name| is_kept && is_expired(name)).map(<[u8]>::to_vec).collect();
        store(edit, clock, args, fields.first, expiry);
        if !expired.is_empty() {
            ctx.db.effects.propagate_expired_fields(ctx.db.number(), key, expired);
        }
        ctx.db.effects.rewrite(|| hsetex_argv(args, &fields, expiry));
    }
    ctx.reply.int(1);
    Ok(Outcome::Done)
}

/// Stores the pairs from argument `first` on.
fn store(mut edit: HashEdit<'_>, clock: FieldClock, args: Args<'_>, first: usize, expiry: HashExpiry) {
    before_adding(&mut edit, args, first);
    let mut met_expired = 0;
    for at in (first..args.len()).step_by(2) {
        met_expired += u64::from(set_field(&mut edit, clock, args.at(at), args.at(at + 1), expiry).1);
    }
    edit.met_expired(met_expired);
    let count = (args.len() - first) as u64 / 2;
    if matches!(expiry, HashExpiry::At(_)) {
        edit.also(Event::HSet);
        edit.done(Event::HExpire, count);
    } else {
        edit.done(Event::HSet, count);
    }
}

/// Deletes these fields, because they would be stored with an expiry that has passed. Returns the
/// names of the fields that existed, expired or not. If no field existed, the key counts as unchanged for
/// watching clients.
fn set_in_the_past<'a>(
    mut edit: HashEdit<'_>,
    names: impl Iterator<Item = &'a [u8]>,
    is_told: bool,
) -> ActedNames<'a> {
    let mut deleted = ActedNames::new(is_told);
    for name in names {
        let (hash, context) = edit.parts();
        if hash.remove(name, context) {
            deleted.push(name);
        }
    }
    edit.came_and_went();
    if deleted.count() == 0 {
        edit.publish_unchanged(&[Event::HSet, Event::HExpire, Event::HExpired]);
    } else {
        edit.also(Event::HSet);
        edit.also(Event::HExpire);
        edit.done(Event::HExpired, deleted.count());
    }
    deleted
}

/// HSETEX with the time of expiry instead of a duration, and without its conditions, because they were met
/// here.
fn hsetex_argv(args: Args<'_>, fields: &NamedFields, expiry: HashExpiry) -> Argv {
    let mut argv = vec![b"HSETEX".to_vec(), args.at(1).to_vec()];
    match expiry {
        HashExpiry::Keep => argv.push(b"KEEPTTL".to_vec()),
        HashExpiry::At(at) => argv.extend([b"PXAT".to_vec(), at.to_string().into_bytes()]),
        HashExpiry::Clear => {}
    }
    argv.extend(args.iter_from(fields.word).map(<[u8]>::to_vec));
    argv
}

pub(super) fn hgetex(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let fields = NamedFields::find(args, 1)?;
    let options = FieldOptions::parse(args, 2..fields.word, FieldCommand::Hgetex)?;
    fields.check(args, 1, FIELD_COUNT)?;
    let clock = FieldClock::of(&ctx.db.access);
    let entry = ctx.db.get(args.key(1));
    entry.map(|entry| entry.as_hash()).transpose()?;
    let at = options.at(ctx, args)?;
    let passed = at.is_some_and(|at| has_passed(ctx, at));
    let is_told = ctx.db.effects.propagating;
    let Some(mut edit) = ctx.db.edit_hash(args.key(1), ctx.limits.hash)? else {
        ctx.reply.array(args.len() - fields.first);
        args.iter_from(fields.first).for_each(|_| ctx.reply.null());
        return Ok(Outcome::Done);
    };
    ctx.reply.array(args.len() - fields.first);
    let mut changed = ActedNames::new(is_told);
    for name in args.iter_from(fields.first) {
        let (hash, context) = edit.parts();
        let field = clock.get(hash.view(), name);
        reply_value(&mut ctx.reply, field);
        let Some(expiry) = field.map(|field| field.expiry) else { continue };
        let changes = match options.expiry {
            FieldExpiry::Persist if expiry.is_some() => hash.set_expiry(name, None, context),
            FieldExpiry::Given(..) if passed => hash.remove(name, context),
            FieldExpiry::Given(..) => hash.set_expiry(name, at, context),
            FieldExpiry::Persist | FieldExpiry::NotGiven | FieldExpiry::Keep => false,
        };
        if changes {
            changed.push(name);
        }
    }
    if changed.count() == 0 {
        edit.unchanged();
        return Ok(Outcome::Done);
    }
    let event = match at {
        None => Event::HPersist,
        Some(_) if passed => Event::HExpired,
        Some(_) => Event::HExpire,
    };
    edit.done(event, changed.count());
    if passed {
        ctx.db.effects.count_fields_deleted(changed.count());
    }
    ctx.db.effects.rewrite(|| match at {
        Some(_) if passed => hdel_argv(args, changed.names()),
        _ => expiry_argv(args, at, changed.names()),
    });
    Ok(Outcome::Done)
}

pub(super) fn hgetdel(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    if !args.is(2, "FIELDS") {
        return Err(CmdError::Syntax);
    }
    let fields = NamedFields { word: 2, first: 4 };
    fields.check(args, 1, FIELD_COUNT)?;
    let clock = FieldClock::of(&ctx.db.access);
    let is_told = ctx.db.effects.propagating;
    let Some(mut edit) = ctx.db.edit_hash(args.key(1), ctx.limits.hash)? else {
        ctx.reply.array(args.len() - fields.first);
        args.iter_from(fields.first).for_each(|_| ctx.reply.null());
        return Ok(Outcome::Done);
    };
    ctx.reply.array(args.len() - fields.first);
    let all_live = clock.all_live(edit.value().view());
    let mut removed = ActedNames::new(is_told && !all_live);
    for name in args.iter_from(fields.first) {
        let (hash, context) = edit.parts();
        let field = clock.get(hash.view(), name);
        reply_value(&mut ctx.reply, field);
        if field.is_some() && hash.remove(name, context) {
            removed.push(name);
        }
    }
    if removed.count() == 0 {
        edit.unchanged();
    } else {
        edit.done(Event::HDel, removed.count());
        if !all_live {
            ctx.db.effects.rewrite(|| hdel_argv(args, removed.names()));
        }
    }
    Ok(Outcome::Done)
}
