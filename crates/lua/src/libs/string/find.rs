//! The functions `string.find`, `match` and `gmatch`.
//!
//! The function's window (see [`Ctx`]) has the text in its first slot and the pattern in its second one.

use crate::fault::Fault;
use crate::native::{Ctx, NativeStep, State};
use crate::pattern::scan::{ScanProgress, find_text};
use crate::pattern::{Anchor, Capture, Matcher, PatternError, PatternSearch, is_special};
use crate::text::number::to_i64;
use crate::value::{StrRef, Value};

use super::super::output::{check_stack, cost, fuel, part, position};

/// The use of a match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Find,
    Match,
    /// A step of `gmatch`'s iterator; the window has the text and the pattern.
    Iterate,
}

/// A paused search.
enum Searching {
    /// A search for a plain string, which continues at this position.
    Plain(usize),
    /// A search for a pattern, which continues with this state of the match.
    Pattern(Box<Matcher>, Purpose),
}

impl From<PatternError> for Fault {
    fn from(error: PatternError) -> Fault {
        Fault::text(error.text())
    }
}

pub(super) fn find(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    begin(ctx, Purpose::Find)
}

pub(super) fn match_pattern(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    begin(ctx, Purpose::Match)
}

fn begin(ctx: &mut Ctx<'_>, purpose: Purpose) -> Result<NativeStep, Fault> {
    let text = ctx.check_str(1)?;
    let pattern = ctx.check_str(2)?;
    let len = ctx.heap.bytes(text).len();
    let from = (position(ctx.opt_int(3, 1)?, len).max(1) as usize - 1).min(len);
    let bytes = ctx.heap.bytes(pattern);
    if purpose == Purpose::Find && (ctx.arg(4).truthy() || !is_special(bytes)) {
        ctx.charge(cost(bytes.len()));
        return find_plain(ctx, from);
    }
    let matcher = compile(ctx, pattern, from)?;
    go_on(ctx, matcher, purpose)
}

/// Continues a search with a matcher, which goes back to the cache when the search ends.
fn go_on(ctx: &mut Ctx<'_>, mut matcher: Box<Matcher>, purpose: Purpose) -> Result<NativeStep, Fault> {
    match search(ctx, &mut matcher, purpose)? {
        Some(step) => {
            ctx.heap.patterns.give_back(matcher);
            Ok(step)
        }
        None => Ok(NativeStep::Pause(Box::new(Searching::Pattern(matcher, purpose)))),
    }
}

/// A matcher for a pattern that may begin with an anchor.
pub(super) fn compile(ctx: &mut Ctx<'_>, pattern: StrRef, from: usize) -> Result<Box<Matcher>, Fault> {
    let (skipped, anchor) = match ctx.heap.bytes(pattern).first() {
        Some(b'^') => (1, Anchor::Here),
        _ => (0, Anchor::Anywhere),
    };
    let mut matcher = matcher_of(ctx, pattern, skipped)?;
    matcher.begin(from, anchor);
    Ok(matcher)
}

/// A matcher for a pattern without its first `skipped` bytes, from the cache or new.
fn matcher_of(ctx: &mut Ctx<'_>, pattern: StrRef, skipped: usize) -> Result<Box<Matcher>, Fault> {
    let heap = &mut *ctx.heap;
    if let Some(matcher) = heap.patterns.take(&heap.strings.bytes(pattern)[skipped..]) {
        ctx.charge(4);
        return Ok(matcher);
    }
    let len = heap.bytes(pattern).len();
    heap.room(Matcher::footprint(len))?;
    ctx.charge(len as u64 + 4);
    Ok(Box::new(Matcher::new(&ctx.heap.bytes(pattern)[skipped..])))
}

pub(super) fn search_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Searching>() else { return Ok(NativeStep::Return(0)) };
    match *state {
        Searching::Plain(from) => find_plain(ctx, from),
        Searching::Pattern(matcher, purpose) => go_on(ctx, matcher, purpose),
    }
}

fn find_plain(ctx: &mut Ctx<'_>, from: usize) -> Result<NativeStep, Fault> {
    let (text, pattern) = (ctx.check_str(1)?, ctx.check_str(2)?);
    let (text, pattern) = (ctx.heap.bytes(text), ctx.heap.bytes(pattern));
    let len = pattern.len();
    let mut left = fuel(ctx);
    let before = left;
    let found = find_text(text, pattern, from, &mut left);
    ctx.charge(before - left);
    match found {
        ScanProgress::Found(at) => {
            ctx.push(Value::number(at as f64 + 1.0));
            ctx.push(Value::number((at + len) as f64));
            Ok(NativeStep::Return(2))
        }
        ScanProgress::Nothing => ctx.one(Value::NIL),
        ScanProgress::OutOfFuel(at) => Ok(NativeStep::Pause(Box::new(Searching::Plain(at)))),
    }
}

/// Continues a search; `None` if the budget is used up.
fn search(ctx: &mut Ctx<'_>, matcher: &mut Matcher, purpose: Purpose) -> Result<Option<NativeStep>, Fault> {
    let text = ctx.check_str(1)?;
    let (start, end) = match step(ctx, matcher, text)? {
        PatternSearch::Found(start, end) => (start, end),
        PatternSearch::Nothing => return ctx.one(Value::NIL).map(Some),
        PatternSearch::OutOfFuel => return Ok(None),
    };
    match purpose {
        Purpose::Find => {
            ctx.push(Value::number(start as f64 + 1.0));
            ctx.push(Value::number(end as f64));
            let count = matcher.capture_count();
            push_captures(ctx, matcher, text, count, (start, end))?;
            Ok(Some(NativeStep::Return(count + 2)))
        }
        Purpose::Match | Purpose::Iterate => {
            if purpose == Purpose::Iterate {
                let next = if end == start { end + 1 } else { end };
                ctx.set_upvalue(3, Value::number(next as f64));
            }
            let count = matcher.capture_count().max(1);
            push_captures(ctx, matcher, text, count, (start, end))?;
            Ok(Some(NativeStep::Return(count)))
        }
    }
}

/// Continues a search with the units that are left in the budget.
pub(super) fn step(ctx: &mut Ctx<'_>, matcher: &mut Matcher, text: StrRef) -> Result<PatternSearch, Fault> {
    let mut left = fuel(ctx);
    let before = left;
    let found = matcher.search(ctx.heap.bytes(text), &mut left);
    ctx.charge(before - left);
    Ok(found?)
}

/// Pushes the first `count` captures of a match.
pub(super) fn push_captures(
    ctx: &mut Ctx<'_>,
    matcher: &Matcher,
    text: StrRef,
    count: usize,
    (start, end): (usize, usize),
) -> Result<(), Fault> {
    check_stack(ctx, count, "too many captures")?;
    for index in 0..count {
        let value = capture_value(ctx, matcher, text, index, (start, end))?;
        ctx.push(value);
    }
    Ok(())
}

/// A capture as a value.
pub(super) fn capture_value(
    ctx: &mut Ctx<'_>,
    matcher: &Matcher,
    text: StrRef,
    index: usize,
    (start, end): (usize, usize),
) -> Result<Value, Fault> {
    match matcher.capture(index, start, end)? {
        Capture::Position(position) => Ok(Value::number(position as f64)),
        Capture::Text(from, to) => {
            if from == 0 && to == ctx.heap.bytes(text).len() {
                return Ok(text.into());
            }
            ctx.charge(cost(to - from));
            part(ctx, text, from, to)
        }
    }
}

/// Makes the iterator: its upvalues are the text, the pattern, and the position of the next search.
pub(super) fn gmatch(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let text = ctx.check_str(1)?;
    let pattern = ctx.check_str(2)?;
    let template = ctx.upvalue(1);
    let iterator = ctx.new_native(template, &[text.into(), pattern.into(), Value::number(0.0)])?;
    ctx.one(iterator)
}

pub(super) fn gmatch_next(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let (text, pattern, from) = (ctx.upvalue(1), ctx.upvalue(2), ctx.upvalue(3));
    ctx.truncate(0);
    ctx.push(text);
    ctx.push(pattern);
    let (text, pattern) = (ctx.check_str(1)?, ctx.check_str(2)?);
    let from = to_i64(from.as_number().unwrap_or(0.0)) as usize;
    if from > ctx.heap.bytes(text).len() {
        return ctx.one(Value::NIL);
    }
    // An anchor has no meaning here, because the `gmatch` of PUC-Rio's Lua treats it as an ordinary
    // byte.
    let mut matcher = matcher_of(ctx, pattern, 0)?;
    matcher.begin(from, Anchor::Anywhere);
    go_on(ctx, matcher, Purpose::Iterate)
}
