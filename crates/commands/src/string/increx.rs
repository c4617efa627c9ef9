//! INCREX, as in version 9.2 of the reference. The command adds an amount within bounds, and sets an expiry.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use crate::outcome::{Outcome, Run};
use crate::string::common::str_of;
use crate::string::options::{Condition, ExpiryOption, ExpiryUnit, has_passed};
use sluice_base::longdouble::LongDouble;
use sluice_base::num::parse_i64;
use sluice_keyspace::{Argv, Event, Key, NewValue, SetExpiry, Str};
use sluice_resp::Reply;
use std::cmp::Ordering;

const ENX_ALONE: CmdError = CmdError::text("ERR ENX flag requires an expiration");
const BOUNDS: CmdError = CmdError::text("ERR LBOUND can't be greater than UBOUND");

/// The options of a call; amounts and bounds are not parsed yet.
struct Increment<'a> {
    condition: Condition<'a>,
    expiry: ExpiryOption,
    /// Whether the expiry is set only on a key without one.
    only_first_expiry: bool,
    amount: Option<(NumberKind, &'a [u8])>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
}

/// The type of the numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Int,
    Float,
}

impl<'a> Increment<'a> {
    fn parse(args: Args<'a>) -> Result<Increment<'a>, CmdError> {
        let mut options = Increment {
            condition: Condition::Always,
            expiry: ExpiryOption::NotGiven,
            only_first_expiry: false,
            amount: None,
            lower: None,
            upper: None,
            saturates: false,
        };
        let mut i = 2;
        while i < args.len() {
            i += options.take(args, i).ok_or(CmdError::Syntax)?;
        }
        match options.expiry {
            ExpiryOption::Persist if options.only_first_expiry => Err(CmdError::Syntax),
            ExpiryOption::NotGiven if options.only_first_expiry => Err(ENX_ALONE),
            _ => Ok(options),
        }
    }

    /// Reads the option at `i`, if it is allowed there; returns how many words it takes, its name included.
    /// Returns `None` if the option is unknown or not allowed.
    fn take(&mut self, args: Args<'a>, i: usize) -> Option<usize> {
        if args.is(i, "NX") && matches!(self.condition, Condition::Always | Condition::Absent) {
            self.condition = Condition::Absent;
        } else if args.is(i, "XX") && matches!(self.condition, Condition::Always | Condition::Present) {
            self.condition = Condition::Present;
        } else if args.is(i, "ENX") {
            self.only_first_expiry = true;
        } else if args.is(i, "SATURATE") {
            self.saturates = true;
        } else if args.is(i, "PERSIST")
            && matches!(self.expiry, ExpiryOption::NotGiven | ExpiryOption::Persist)
        {
            self.expiry = ExpiryOption::Persist;
        } else {
            self.take_pair(args, i)?;
            return Some(2);
        }
        Some(1)
    }

    /// Reads the option at `i` and its value.
    fn take_pair(&mut self, args: Args<'a>, i: usize) -> Option<()> {
        let value = args.get(i + 1)?;
        let takes = |kind| self.amount.is_none_or(|(before, _)| before == kind);
        if args.is(i, "BYINT") && takes(NumberKind::Int) {
            self.amount = Some((NumberKind::Int, value));
        } else if args.is(i, "BYFLOAT") && takes(NumberKind::Float) {
            self.amount = Some((NumberKind::Float, value));
        } else if args.is(i, "LBOUND") {
            self.lower = Some(value);
        } else if args.is(i, "UBOUND") {
            self.upper = Some(value);
        } else {
            let unit = ExpiryUnit::of(args.at(i))?;
            let again = matches!(self.expiry, ExpiryOption::Given(before, _) if before == unit);
            if !again && self.expiry != ExpiryOption::NotGiven {
                return None;
            }
            self.expiry = ExpiryOption::Given(unit, i + 1);
        }
        Some(())
    }
}

/// The numbers of INCREX: 64-bit integers or long doubles.
trait IncrexNumber: Copy + PartialOrd {
    const ZERO: Self;
    const EVENT: Event;
    const BAD_AMOUNT: CmdError;
    const BAD_LOWER: CmdError;
    const BAD_UPPER: CmdError;
    /// The error if the applied amount cannot be represented.
    const TOO_FAR: CmdError;

    fn parse(text: &[u8]) -> Option<Self>;
    /// Returns an error if the number is not allowed as an amount.
    fn check_amount(self) -> Result<(), CmdError>;
    /// Parses the value of a string.
    fn of(text: Str<'_>) -> Result<Self, CmdError>;
    /// The smallest and the largest number.
    fn range() -> (Self, Self);
    /// The sum, and its position relative to the bounds. The position is `Equal` if the sum is within the
    /// bounds.
    fn add(self, amount: Self, bounds: (Self, Self)) -> (Self, Ordering);
    /// The difference `self - other`; `None` if it cannot be represented.
    fn less(self, other: Self) -> Option<Self>;
    fn push(self, out: &mut Vec<u8>);
    fn reply(self, reply: &mut Reply<'_>);
    fn stored<'t>(self, text: &'t [u8]) -> NewValue<'t>;
}

impl IncrexNumber for i64 {
    const ZERO: i64 = 0;
    const EVENT: Event = Event::IncrBy;
    const BAD_AMOUNT: CmdError = CmdError::text("ERR Increment is not an integer or out of range");
    const BAD_LOWER: CmdError = CmdError::text("ERR LBOUND is not an integer or out of range");
    const BAD_UPPER: CmdError = CmdError::text("ERR UBOUND is not an integer or out of range");
    const TOO_FAR: CmdError = CmdError::text("ERR applied increment would overflow");

    fn parse(text: &[u8]) -> Option<i64> {
        parse_i64(text)
    }
    fn check_amount(self) -> Result<(), CmdError> {
        Ok(())
    }
    fn of(text: Str<'_>) -> Result<i64, CmdError> {
        match text {
            Str::Int(number) => Ok(number),
            text => text.in_one_piece(parse_i64).flatten().ok_or(CmdError::NotInteger),
        }
    }
    fn range() -> (i64, i64) {
        (i64::MIN, i64::MAX)
    }
    fn add(self, amount: i64, (lower, upper): (i64, i64)) -> (i64, Ordering) {
        // The sum has 128 bits and cannot overflow. A sum that an `i64` cannot hold is treated like any other
        // sum that is out of bounds.
        let sum = i128::from(self) + i128::from(amount);
        let side = if sum > i128::from(upper) {
            Ordering::Greater
        } else if sum < i128::from(lower) {
            Ordering::Less
        } else {
            Ordering::Equal
        };
        (sum as i64, side)
    }
    fn less(self, other: i64) -> Option<i64> {
        self.checked_sub(other)
    }
    fn push(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.to_string().as_bytes());
    }
    fn reply(self, reply: &mut Reply<'_>) {
        reply.int(self);
    }
    fn stored<'t>(self, _: &'t [u8]) -> NewValue<'t> {
        NewValue::Int(self)
    }
}

impl IncrexNumber for LongDouble {
    const ZERO: LongDouble = LongDouble::ZERO;
    const EVENT: Event = Event::IncrByFloat;
    const BAD_AMOUNT: CmdError = CmdError::text("ERR Increment is not a valid float");
    const BAD_LOWER: CmdError = CmdError::text("ERR LBOUND is not a valid float");
    const BAD_UPPER: CmdError = CmdError::text("ERR UBOUND is not a valid float");
    const TOO_FAR: CmdError = CmdError::text("ERR applied increment would be Infinity");

    fn parse(text: &[u8]) -> Option<LongDouble> {
        LongDouble::parse(text)
    }
    fn check_amount(self) -> Result<(), CmdError> {
        const INFINITE: CmdError = CmdError::text("ERR BYFLOAT increment cannot be Infinity");
        if self.is_finite() { Ok(()) } else { Err(INFINITE) }
    }
    fn of(text: Str<'_>) -> Result<LongDouble, CmdError> {
        const INFINITE: CmdError = CmdError::text("ERR value cannot be Infinity");
        let value = text.in_one_piece(LongDouble::parse).flatten().ok_or(CmdError::NotFloat)?;
        if value.is_finite() { Ok(value) } else { Err(INFINITE) }
    }
    fn range() -> (LongDouble, LongDouble) {
        (-LongDouble::largest(), LongDouble::largest())
    }
    fn add(self, amount: LongDouble, (lower, upper): (LongDouble, LongDouble)) -> (LongDouble, Ordering) {
        let sum = self + amount;
        let side = if sum > upper {
            Ordering::Greater
        } else if sum < lower {
            Ordering::Less
        } else {
            Ordering::Equal
        };
        (sum, side)
    }
    fn less(self, other: LongDouble) -> Option<LongDouble> {
        Some(self - other).filter(|difference| difference.is_finite())
    }
    fn push(self, out: &mut Vec<u8>) {
        LongDouble::push(self, out);
    }
    fn reply(self, reply: &mut Reply<'_>) {
        let mut text = Vec::with_capacity(32);
        LongDouble::push(self, &mut text);
        reply.double_text(&text);
    }
    fn stored<'t>(self, text: &'t [u8]) -> NewValue<'t> {
        NewValue::Plain(text)
    }
}

pub(super) fn increx(ctx: &mut WriteCtx<'_>, args: Args<'_>) -> Run {
    let options = Increment::parse(args)?;
    match options.amount {
        None => add(ctx, args, &options, 1),
        Some((NumberKind::Int, amount)) => add::<i64>(ctx, args, &options, amount_of(amount)?),
        Some((NumberKind::Float, amount)) => add::<LongDouble>(ctx, args, &options, amount_of(amount)?),
    }
}

fn amount_of<N: IncrexNumber>(text: &[u8]) -> Result<N, CmdError> {
    let amount = N::parse(text).ok_or(N::BAD_AMOUNT)?;
    amount.check_amount()?;
    Ok(amount)
}

fn bounds_of<N: IncrexNumber>(options: &Increment<'_>) -> Result<(N, N), CmdError> {
    let (least, greatest) = N::range();
    let bound = |text: Option<&[u8]>, default: N, error: CmdError| match text {
        Some(text) => N::parse(text).ok_or(error),
        None => Ok(default),
    };
    let lower = bound(options.lower, least, N::BAD_LOWER)?;
    let upper = bound(options.upper, greatest, N::BAD_UPPER)?;
    if lower > upper { Err(BOUNDS) } else { Ok((lower, upper)) }
}

fn add<N: IncrexNumber>(ctx: &mut WriteCtx<'_>, args: Args<'_>, options: &Increment<'_>, amount: N) -> Run {
    let bounds = bounds_of::<N>(options)?;
    let at = options.expiry.at(args, ctx.db.access.now.unix_ms(), "increx")?;
    let key = args.key(1);
    let found = ctx.db.get_uncounted(key);
    let (is_there, expires) = (found.is_some(), found.is_some_and(|entry| entry.expiry().is_some()));
    let old = match found {
        Some(entry) => N::of(str_of(entry)?)?,
        None => N::ZERO,
    };
    let wanted = match options.condition {
        Condition::Absent => !is_there,
        Condition::Present => is_there,
        Condition::Always | Condition::Equal(_) | Condition::Different(_) => true,
    };
    let (sum, side) = old.add(amount, bounds);
    let new = match side {
        Ordering::Equal => Some(sum),
        Ordering::Less => options.saturates.then_some(bounds.0),
        Ordering::Greater => options.saturates.then_some(bounds.1),
    };
    let Some(new) = new.filter(|_| wanted) else {
        reply_pair(ctx, old, N::ZERO);
        return Ok(Outcome::Done);
    };
    let applied = new.less(old).ok_or(N::TOO_FAR)?;
    let fate = match (options.expiry, at) {
        (ExpiryOption::Persist, _) => ExpiryFate::Persists,
        (_, Some(at)) if !(options.only_first_expiry && expires) => ExpiryFate::EndsAt(at),
        _ => ExpiryFate::Keeps,
    };
    store(ctx, key, new, fate, expires);
    reply_pair(ctx, new, applied);
    Ok(Outcome::Done)
}

/// The change of the expiry.
#[derive(Clone, Copy)]
enum ExpiryFate {
    Keeps,
    Persists,
    /// The key expires at this time, ms since the epoch.
    EndsAt(i64),
}

/// Stores the sum, or deletes the key if its new expiry has passed already. The command is propagated as a
/// SET of the sum, because other machines and versions may round differently, and version 9.1 does not know
/// INCREX.
fn store<N: IncrexNumber>(ctx: &mut WriteCtx<'_>, key: Key<'_>, new: N, fate: ExpiryFate, expires: bool) {
    let expiry = match fate {
        ExpiryFate::EndsAt(at) if has_passed(ctx, at) => {
            ctx.db.expire_now(key);
            return;
        }
        ExpiryFate::EndsAt(at) => SetExpiry::At(at),
        ExpiryFate::Keeps | ExpiryFate::Persists => SetExpiry::Keep,
    };
    let mut text = Vec::with_capacity(32);
    new.push(&mut text);
    ctx.db.set(key, new.stored(&text), expiry, N::EVENT);
    if matches!(fate, ExpiryFate::Persists) && expires {
        ctx.db.set_expiry(key, None, Event::Persist);
    }
    ctx.db.effects.rewrite(|| {
        let mut argv: Argv = vec![b"SET".to_vec(), key.bytes.to_vec(), text];
        match fate {
            ExpiryFate::Keeps => argv.push(b"KEEPTTL".to_vec()),
            ExpiryFate::Persists => {}
            ExpiryFate::EndsAt(at) => argv.extend([b"PXAT".to_vec(), at.to_string().into_bytes()]),
        }
        argv
    });
}

/// Replies with the value after the command and the amount that was added.
fn reply_pair<N: IncrexNumber>(ctx: &mut WriteCtx<'_>, value: N, applied: N) {
    ctx.reply.array(2);
    value.reply(&mut ctx.reply);
    applied.reply(&mut ctx.reply);
}
