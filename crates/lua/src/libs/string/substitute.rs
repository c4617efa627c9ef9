//! The function `string.gsub`.
//!
//! The function's window (see [`Ctx`]) has the text, the pattern and the replacement in its first three
//! slots. The results of a called function follow the first `window` slots.

use crate::fault::Fault;
use crate::held::Held;
use crate::native::{Ctx, Indexed, NativeStep, State, push_text};
use crate::pattern::scan::find_byte;
use crate::pattern::{Anchor, Capture, Matcher, PatternError, PatternSearch, literal_byte};
use crate::value::{Kind, StrRef, Value};

use super::super::output::{cost, fuel, reserve};
use super::find::{capture_value, compile, push_captures};

/// The longest text for which [`replace_byte`] works in one step; `BYTE_TEMPLATE_MAX` is the longest
/// replacement of a byte. The result has at most a megabyte.
const BYTE_TEXT_MAX: usize = 4096;
const BYTE_TEMPLATE_MAX: usize = 256;

/// Maximum number of bytes that are reserved for the result at the first match.
const GUESS_MAX: usize = 64 << 10;

/// The state of a substitution between two steps.
struct Substitution {
    matcher: Box<Matcher>,
    out: Vec<u8>,
    /// The position at which the search for the next match begins, which is also that of the first byte
    /// that is not copied yet.
    from: usize,
    /// The number of replaced matches; `count_max` is the most that may be replaced.
    count: i64,
    count_max: i64,
    anchor: Anchor,
    replacement: Kind,
    /// Whether the replacement is a string without captures and the pattern has no anchor; see [`run_plain`].
    is_plain: bool,
    phase: SubstitutionPhase,
    window: usize,
    /// The guard by which the buffer's bytes count against the limit while a function is called.
    held: Option<Held>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SubstitutionPhase {
    /// The next match must be searched.
    Next,
    /// A search has been paused.
    Searching,
    /// The match with these bounds must be replaced by the replacement string.
    Found(usize, usize),
    /// A function has been called for the match with these bounds.
    Called(usize, usize),
    /// The whole result has been written.
    Done,
}

pub(super) fn gsub(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let text = ctx.check_str(1)?;
    let pattern = ctx.check_str(2)?;
    let len = ctx.heap.bytes(text).len();
    let count_max = i64::from(ctx.opt_int(4, len as i64 + 1)? as i32);
    let replacement = ctx.arg(3).kind();
    let mut is_plain = false;
    match replacement {
        Kind::Number | Kind::String => {
            let template = ctx.check_str(3)?;
            is_plain = !ctx.heap.bytes(template).contains(&b'%');
            if is_plain
                && len <= BYTE_TEXT_MAX
                && ctx.heap.bytes(template).len() <= BYTE_TEMPLATE_MAX
                && let Some(byte) = literal_byte(ctx.heap.bytes(pattern))
            {
                return replace_byte(ctx, text, template, byte, count_max);
            }
        }
        Kind::Table | Kind::Closure | Kind::Native => {}
        Kind::Nil | Kind::Boolean | Kind::LightUserdata | Kind::Userdata | Kind::Thread => {
            return Err(Fault::argument(3, "string/function/table expected"));
        }
    }
    let matcher = compile(ctx, pattern, 0)?;
    let anchor = if ctx.heap.bytes(pattern).first() == Some(&b'^') { Anchor::Here } else { Anchor::Anywhere };
    let window = ctx.count();
    let mut state = Substitution {
        matcher,
        out: Vec::new(),
        from: 0,
        count: 0,
        count_max,
        anchor,
        replacement,
        is_plain: is_plain && anchor == Anchor::Anywhere,
        phase: SubstitutionPhase::Next,
        window,
        held: None,
    };
    match run(ctx, &mut state)? {
        // The state is not boxed, because the substitution ended without a pause.
        SubstitutionStop::Done => {
            let step = finish(ctx, &mut state, text);
            ctx.heap.patterns.give_back(state.matcher);
            step
        }
        SubstitutionStop::OutOfFuel => Ok(NativeStep::Pause(Box::new(state))),
        SubstitutionStop::Call(values) => Ok(NativeStep::Call(values, Box::new(state))),
    }
}

/// Replaces a byte in a short text by a string, without a matcher. Programs often do this to split names of
/// keys.
fn replace_byte(
    ctx: &mut Ctx<'_>,
    text: StrRef,
    template: StrRef,
    byte: u8,
    count_max: i64,
) -> Result<NativeStep, Fault> {
    let (mut from, mut count, mut out) = (0, 0, Vec::new());
    while count < count_max
        && let Some(found) = find_byte(&ctx.heap.bytes(text)[from..], byte)
    {
        if count == 0 {
            out = ctx.heap.buffer();
            let len = ctx.heap.bytes(text).len();
            reserve(ctx.heap, &mut out, len)?;
        }
        let len = ctx.heap.bytes(template).len();
        reserve(ctx.heap, &mut out, found + len)?;
        out.extend_from_slice(&ctx.heap.bytes(text)[from..from + found]);
        out.extend_from_slice(ctx.heap.bytes(template));
        from += found + 1;
        count += 1;
    }
    ctx.charge(cost(from + out.len()) + count.unsigned_abs() / 2);
    let value = if count == 0 {
        text.into()
    } else {
        let len = ctx.heap.bytes(text).len();
        reserve(ctx.heap, &mut out, len - from)?;
        out.extend_from_slice(&ctx.heap.bytes(text)[from..]);
        ctx.heap.finish_buffer(out)?
    };
    ctx.push(value);
    ctx.push(Value::number(count as f64));
    Ok(NativeStep::Return(2))
}

pub(super) fn gsub_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(mut state) = state.downcast::<Substitution>() else { return Ok(NativeStep::Return(0)) };
    let text = ctx.check_str(1)?;
    match run(ctx, &mut state)? {
        SubstitutionStop::Done => {
            let step = finish(ctx, &mut state, text);
            ctx.heap.patterns.give_back(state.matcher);
            step
        }
        SubstitutionStop::OutOfFuel => Ok(NativeStep::Pause(state)),
        SubstitutionStop::Call(values) => Ok(NativeStep::Call(values, state)),
    }
}

/// The reason why a part of the substitution ended.
enum SubstitutionStop {
    Done,
    OutOfFuel,
    /// A function must be called. It is at the window's end, followed by its arguments; together they are
    /// this many values.
    Call(usize),
}

fn run(ctx: &mut Ctx<'_>, state: &mut Substitution) -> Result<SubstitutionStop, Fault> {
    let text = ctx.check_str(1)?;
    if state.is_plain {
        return run_plain(ctx, state, text);
    }
    let len = ctx.heap.bytes(text).len();
    if let SubstitutionPhase::Called(start, end) = state.phase {
        let value = ctx.arg(state.window + 1);
        ctx.truncate(state.window);
        append_value(ctx, state, text, value, (start, end))?;
        step_over(ctx, state, text, (start, end))?;
    }
    loop {
        match state.phase {
            SubstitutionPhase::Next if state.count >= state.count_max => {
                state.phase = SubstitutionPhase::Done
            }
            SubstitutionPhase::Next => {
                state.matcher.begin(state.from, state.anchor);
                state.phase = SubstitutionPhase::Searching;
            }
            SubstitutionPhase::Done => return Ok(SubstitutionStop::Done),
            SubstitutionPhase::Searching | SubstitutionPhase::Found(..) | SubstitutionPhase::Called(..) => {
                let mut left = fuel(ctx);
                let before = left;
                let found = state.matcher.search(ctx.heap.bytes(text), &mut left);
                let has_budget = ctx.charge(before - left);
                match found? {
                    PatternSearch::OutOfFuel => return Ok(SubstitutionStop::OutOfFuel),
                    PatternSearch::Nothing => state.phase = SubstitutionPhase::Done,
                    PatternSearch::Found(start, end) => {
                        if state.count == 0 {
                            // The buffer is made at the first match, about as long as the text, because the
                            // result usually has that length.
                            state.out = ctx.heap.buffer();
                            reserve(ctx.heap, &mut state.out, len.min(GUESS_MAX))?;
                        }
                        reserve(ctx.heap, &mut state.out, start - state.from)?;
                        state.out.extend_from_slice(&ctx.heap.bytes(text)[state.from..start]);
                        state.count += 1;
                        if let Some(values) = replace(ctx, state, text, (start, end))? {
                            state.phase = SubstitutionPhase::Called(start, end);
                            ctx.heap.held.hold(&mut state.held, state.out.capacity());
                            return Ok(SubstitutionStop::Call(values));
                        }
                        step_over(ctx, state, text, (start, end))?;
                        // The budget is checked here, because a search that succeeds at once never uses up
                        // its fuel by itself.
                        if !has_budget {
                            return Ok(SubstitutionStop::OutOfFuel);
                        }
                    }
                }
            }
        }
        if state.from > len {
            state.phase = SubstitutionPhase::Done;
        }
    }
}

/// The reason why a part of a plain substitution ended.
enum PlainStop {
    Done,
    OutOfFuel,
    /// The buffer has no room for this many bytes.
    NoRoom(usize),
}

/// Replaces every match by one string. Text and replacement are looked up once instead of for each match.
fn run_plain(ctx: &mut Ctx<'_>, state: &mut Substitution, text: StrRef) -> Result<SubstitutionStop, Fault> {
    let template = ctx.check_str(3)?;
    let mut left = fuel(ctx);
    let before = left;
    loop {
        let stop = replace_plain(state, ctx.heap.bytes(text), ctx.heap.bytes(template), &mut left);
        let needed = match stop {
            Ok(PlainStop::NoRoom(needed)) => needed,
            _ => {
                ctx.charge(before - left);
                let is_done = matches!(stop?, PlainStop::Done);
                return Ok(if is_done { SubstitutionStop::Done } else { SubstitutionStop::OutOfFuel });
            }
        };
        if state.out.capacity() == 0 {
            // The result is usually about as long as the text; no bytes are written before the first match.
            state.out = ctx.heap.buffer();
            let len = ctx.heap.bytes(text).len();
            reserve(ctx.heap, &mut state.out, len.min(GUESS_MAX))?;
        }
        reserve(ctx.heap, &mut state.out, needed)?;
    }
}

fn replace_plain(
    state: &mut Substitution,
    text: &[u8],
    template: &[u8],
    left: &mut u64,
) -> Result<PlainStop, PatternError> {
    loop {
        let (start, end) = match state.phase {
            SubstitutionPhase::Found(start, end) => (start, end),
            SubstitutionPhase::Done => return Ok(PlainStop::Done),
            SubstitutionPhase::Next | SubstitutionPhase::Searching | SubstitutionPhase::Called(..) => {
                let is_end = state.count >= state.count_max || state.from > text.len();
                if state.phase == SubstitutionPhase::Next && is_end {
                    state.phase = SubstitutionPhase::Done;
                    continue;
                }
                if state.phase == SubstitutionPhase::Next {
                    state.matcher.begin(state.from, Anchor::Anywhere);
                    state.phase = SubstitutionPhase::Searching;
                }
                match state.matcher.search(text, left)? {
                    PatternSearch::OutOfFuel => return Ok(PlainStop::OutOfFuel),
                    PatternSearch::Nothing => {
                        state.phase = SubstitutionPhase::Done;
                        continue;
                    }
                    PatternSearch::Found(start, end) => (start, end),
                }
            }
        };
        // After an empty match the next byte is copied.
        let next = if start == end { (end + 1).min(text.len()) } else { end };
        let needed = start - state.from + template.len() + (next - end);
        if state.out.capacity() - state.out.len() < needed {
            state.phase = SubstitutionPhase::Found(start, end);
            return Ok(PlainStop::NoRoom(needed));
        }
        state.out.extend_from_slice(&text[state.from..start]);
        state.out.extend_from_slice(template);
        if next > end {
            state.out.extend_from_slice(&text[end..next]);
        }
        *left = left.saturating_sub(cost(needed));
        state.count += 1;
        let is_last = start == end && end == text.len();
        state.from = next;
        state.phase = if is_last { SubstitutionPhase::Done } else { SubstitutionPhase::Next };
    }
}

/// Continues after a match; after an empty one the next byte is copied.
fn step_over(
    ctx: &mut Ctx<'_>,
    state: &mut Substitution,
    text: StrRef,
    (start, end): (usize, usize),
) -> Result<(), Fault> {
    state.phase = SubstitutionPhase::Next;
    state.from = end;
    if end == start {
        match ctx.heap.bytes(text).get(start).copied() {
            Some(byte) => {
                reserve(ctx.heap, &mut state.out, 1)?;
                state.out.push(byte);
                state.from = start + 1;
            }
            None => state.phase = SubstitutionPhase::Done,
        }
    }
    if state.anchor == Anchor::Here {
        state.phase = SubstitutionPhase::Done;
    }
    Ok(())
}

/// Appends the replacement of a match. If a function must be called for the replacement, pushes the
/// function and its arguments, and returns their number.
fn replace(
    ctx: &mut Ctx<'_>,
    state: &mut Substitution,
    text: StrRef,
    (start, end): (usize, usize),
) -> Result<Option<usize>, Fault> {
    match state.replacement {
        Kind::Table => {
            let key = capture_value(ctx, &state.matcher, text, 0, (start, end))?;
            let table = ctx.arg(3);
            match ctx.index(table, key)? {
                Indexed::Value(value) => {
                    append_value(ctx, state, text, value, (start, end))?;
                    Ok(None)
                }
                Indexed::Call(function, object, key) => {
                    ctx.push(function);
                    ctx.push(object);
                    ctx.push(key);
                    Ok(Some(3))
                }
            }
        }
        Kind::Closure | Kind::Native => {
            let count = state.matcher.capture_count().max(1);
            ctx.push(ctx.arg(3));
            push_captures(ctx, &state.matcher, text, count, (start, end))?;
            Ok(Some(count + 1))
        }
        Kind::Number
        | Kind::String
        | Kind::Nil
        | Kind::Boolean
        | Kind::LightUserdata
        | Kind::Userdata
        | Kind::Thread => {
            expand(ctx, state, text, (start, end))?;
            Ok(None)
        }
    }
}

/// Appends the replacement string with its captures.
fn expand(
    ctx: &mut Ctx<'_>,
    state: &mut Substitution,
    text: StrRef,
    (start, end): (usize, usize),
) -> Result<(), Fault> {
    let template = ctx.check_str(3)?;
    let len = ctx.heap.bytes(template).len();
    reserve(ctx.heap, &mut state.out, len)?;
    ctx.charge(cost(len));
    let mut at = 0;
    while at < len {
        let rest = &ctx.heap.bytes(template)[at..];
        let literal = rest.iter().position(|&byte| byte == b'%').unwrap_or(rest.len());
        state.out.extend_from_slice(&rest[..literal]);
        at += literal;
        if at == len {
            break;
        }
        // After a percent sign at the end of the string, PUC-Rio's Lua reads the zero byte that follows the
        // string.
        let letter = rest.get(literal + 1).copied().unwrap_or(0);
        at += 2;
        if !letter.is_ascii_digit() {
            reserve(ctx.heap, &mut state.out, 1 + len.saturating_sub(at))?;
            state.out.push(letter);
            continue;
        }
        let capture = match letter {
            b'0' => Capture::Text(start, end),
            _ => state.matcher.capture(usize::from(letter - b'1'), start, end)?,
        };
        append_capture(ctx, &mut state.out, text, capture, len.saturating_sub(at))?;
    }
    Ok(())
}

/// Appends a capture, and keeps room for `rest` bytes after it.
fn append_capture(
    ctx: &mut Ctx<'_>,
    out: &mut Vec<u8>,
    text: StrRef,
    capture: Capture,
    rest: usize,
) -> Result<(), Fault> {
    match capture {
        Capture::Position(position) => {
            reserve(ctx.heap, out, 24 + rest)?;
            crate::text::number::push_number(out, position as f64);
        }
        Capture::Text(from, to) => {
            reserve(ctx.heap, out, to - from + rest)?;
            out.extend_from_slice(&ctx.heap.bytes(text)[from..to]);
            ctx.charge(cost(to - from));
        }
    }
    Ok(())
}

/// Appends the value from a table or a function; for nil and false, the matched text itself.
fn append_value(
    ctx: &mut Ctx<'_>,
    state: &mut Substitution,
    text: StrRef,
    value: Value,
    (start, end): (usize, usize),
) -> Result<(), Fault> {
    if !value.truthy() {
        return append_capture(ctx, &mut state.out, text, Capture::Text(start, end), 0);
    }
    let len = value.as_str().map_or(32, |string| ctx.heap.bytes(string).len());
    reserve(ctx.heap, &mut state.out, len)?;
    ctx.charge(cost(len));
    if push_text(ctx.heap, &mut state.out, value) {
        Ok(())
    } else {
        Err(Fault::text(format!("invalid replacement value (a {})", value.type_name())))
    }
}

fn finish(ctx: &mut Ctx<'_>, state: &mut Substitution, text: StrRef) -> Result<NativeStep, Fault> {
    let len = ctx.heap.bytes(text).len();
    let from = state.from.min(len);
    let value = if state.count == 0 {
        text.into()
    } else {
        reserve(ctx.heap, &mut state.out, len - from)?;
        state.out.extend_from_slice(&ctx.heap.bytes(text)[from..]);
        ctx.charge(cost(len - from));
        ctx.heap.finish_buffer(std::mem::take(&mut state.out))?
    };
    ctx.push(value);
    ctx.push(Value::number(state.count as f64));
    Ok(NativeStep::Return(2))
}
