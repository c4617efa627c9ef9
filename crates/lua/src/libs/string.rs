//! The library `string`: the functions without patterns and formats, and the library's table.

mod find;
mod formatted;
mod substitute;

use crate::fault::Fault;
use crate::native::{Ctx, Library, Native, NativeStep, State, push_text};
use crate::value::Value;
use crate::vm::operate::joined_len;

use super::output::{CHUNK, check_stack, cost, part, position, reserve};

/// The library's functions, in the order in which PUC-Rio's Lua registers them. [`open`] replaces `gmatch`
/// and `gfind` by a function that has an upvalue.
const FUNCTIONS: &[Native] = &[
    Native::plain("byte", byte),
    Native::plain("char", char),
    Native::plain("dump", dump),
    Native::resumable("find", find::find, find::search_on),
    Native::resumable("format", formatted::format, formatted::format_on),
    Native::resumable("gfind", find::gmatch, find::search_on),
    Native::resumable("gmatch", find::gmatch, find::search_on),
    Native::resumable("gsub", substitute::gsub, substitute::gsub_on),
    Native::plain("len", len),
    Native::resumable("lower", lower, rewrite_on),
    Native::resumable("match", find::match_pattern, find::search_on),
    Native::resumable("rep", rep, rewrite_on),
    Native::resumable("reverse", reverse, rewrite_on),
    Native::resumable("sub", sub, rewrite_on),
    Native::resumable("upper", upper, rewrite_on),
];

/// Makes the table `string`, and makes it the `__index` of strings.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    let table = lib.table(b"string", FUNCTIONS)?;
    let iterator =
        lib.function(Native::resumable("gmatch_iterator", find::gmatch_next, find::search_on), &[])?;
    let gmatch = lib.function(Native::plain("gmatch", find::gmatch), &[iterator])?;
    lib.field(table, b"gmatch", gmatch)?;
    lib.field(table, b"gfind", gmatch)?;
    let joiner = lib.function(Native::resumable("concat", join, join_on), &[])?;
    lib.heap.pin(joiner);
    lib.heap.joiner = joiner;
    lib.string_metatable(table)
}

fn len(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let string = ctx.check_str(1)?;
    let len = ctx.heap.bytes(string).len();
    ctx.one(Value::number(len as f64))
}

fn sub(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let string = ctx.check_str(1)?;
    let len = ctx.heap.bytes(string).len();
    let start = position(ctx.check_int(2)?, len).max(1);
    let end = position(ctx.opt_int(3, -1)?, len).min(len as i64);
    if start == 1 && end == len as i64 {
        return ctx.one(string.into());
    }
    let (from, to) = if start <= end { (start as usize - 1, end as usize) } else { (0, 0) };
    if to - from > CHUNK {
        return begin_rewrite(ctx, RewriteKind::Part(from), to - from);
    }
    ctx.charge(cost(to - from));
    let value = part(ctx, string, from, to)?;
    ctx.one(value)
}

fn byte(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let string = ctx.check_str(1)?;
    let len = ctx.heap.bytes(string).len();
    let start = position(ctx.opt_int(2, 1)?, len);
    let end = position(ctx.opt_int(3, start)?, len).min(len as i64);
    let start = start.max(1);
    if start > end {
        return Ok(NativeStep::Return(0));
    }
    let count = (end - start + 1) as usize;
    check_stack(ctx, count, "string slice too long")?;
    for index in start as usize - 1..end as usize {
        let byte = ctx.heap.bytes(string)[index];
        ctx.push(Value::number(f64::from(byte)));
    }
    ctx.charge(count as u64);
    Ok(NativeStep::Return(count))
}

fn char(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let count = ctx.count();
    let mut bytes = Vec::with_capacity(count);
    for index in 1..=count {
        let code = ctx.check_int(index)? as i32;
        let byte = u8::try_from(code).map_err(|_| Fault::argument(index, "invalid value"))?;
        bytes.push(byte);
    }
    ctx.charge(count as u64);
    let value = ctx.heap.take_string(bytes)?;
    ctx.one(value)
}

/// This machine has no bytecode, so the result is only the first bytes of PUC's format, which `loadstring`
/// refuses.
fn dump(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let function = ctx.check_function(1)?;
    if function.as_native().is_some() {
        return Err(Fault::text("unable to dump given function"));
    }
    let value = ctx.heap.new_string(b"\x1bLuaQ\0\x01\x04\x08\x04\x08\0")?;
    ctx.one(value)
}

/// A string that is made from the first argument, chunk by chunk.
struct Rewrite {
    kind: RewriteKind,
    out: Vec<u8>,
    len: usize,
}

#[derive(Clone, Copy)]
enum RewriteKind {
    Lower,
    Upper,
    Reverse,
    Repeat,
    /// The bytes from this position on.
    Part(usize),
}

fn lower(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    rewrite_whole(ctx, RewriteKind::Lower)
}

fn upper(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    rewrite_whole(ctx, RewriteKind::Upper)
}

fn reverse(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    rewrite_whole(ctx, RewriteKind::Reverse)
}

fn rewrite_whole(ctx: &mut Ctx<'_>, kind: RewriteKind) -> Result<NativeStep, Fault> {
    let string = ctx.check_str(1)?;
    let len = ctx.heap.bytes(string).len();
    begin_rewrite(ctx, kind, len)
}

fn rep(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let string = ctx.check_str(1)?;
    // The conversion to C's `int` keeps the low 32 bits.
    let count = (ctx.check_int(2)? as i32).max(0) as usize;
    let len = ctx.heap.bytes(string).len().checked_mul(count).ok_or_else(Fault::memory)?;
    begin_rewrite(ctx, RewriteKind::Repeat, len)
}

fn begin_rewrite(ctx: &mut Ctx<'_>, kind: RewriteKind, len: usize) -> Result<NativeStep, Fault> {
    let mut out = Vec::new();
    reserve(ctx.heap, &mut out, len)?;
    go_on(ctx, Rewrite { kind, out, len })
}

fn rewrite_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Rewrite>() else { return Ok(NativeStep::Return(0)) };
    go_on(ctx, *state)
}

fn go_on(ctx: &mut Ctx<'_>, mut state: Rewrite) -> Result<NativeStep, Fault> {
    let string = ctx.check_str(1)?;
    while state.out.len() < state.len {
        let text = ctx.heap.bytes(string);
        let done = state.out.len();
        let count = CHUNK.min(state.len - done);
        match state.kind {
            RewriteKind::Lower => {
                state.out.extend(text[done..done + count].iter().map(u8::to_ascii_lowercase));
            }
            RewriteKind::Upper => {
                state.out.extend(text[done..done + count].iter().map(u8::to_ascii_uppercase));
            }
            RewriteKind::Reverse => {
                let end = text.len() - done;
                state.out.extend(text[end - count..end].iter().rev());
            }
            RewriteKind::Repeat if text.len() > CHUNK => {
                let from = done % text.len();
                state.out.extend_from_slice(&text[from..][..count.min(text.len() - from)]);
            }
            RewriteKind::Repeat => repeat(&mut state.out, text, state.len, count),
            RewriteKind::Part(from) => state.out.extend_from_slice(&text[from + done..][..count]),
        }
        let handled = state.out.len() - done;
        if !ctx.charge(cost(handled)) && state.out.len() < state.len {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
    let value = ctx.heap.take_string(state.out)?;
    ctx.one(value)
}

/// Appends whole copies of `text`: `count` bytes or slightly more, but at most up to `len` bytes in total.
fn repeat(out: &mut Vec<u8>, text: &[u8], len: usize, count: usize) {
    let end = len.min(out.len() + count.max(text.len()));
    if out.is_empty() {
        out.extend_from_slice(text);
    }
    // The buffer consists of whole copies, so it can be doubled.
    while out.len() < end {
        let missing = (end - out.len()).div_ceil(text.len()) * text.len();
        let copied = out.len().min(missing).min(len - out.len());
        out.extend_from_within(..copied);
    }
}

/// The state of a long concatenation between two steps: the string so far, the index of the next value, and
/// the number of its bytes that are written.
struct Joining {
    out: Vec<u8>,
    at: usize,
    written: usize,
}

/// Joins its arguments, which are strings and numbers. The operator `..` uses this function for long results.
fn join(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let mut out = Vec::new();
    let len = joined_len(ctx.heap, &ctx.stack[ctx.base..ctx.top]);
    reserve(ctx.heap, &mut out, len)?;
    join_pieces(ctx, Joining { out, at: 1, written: 0 })
}

fn join_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Joining>() else { return Ok(NativeStep::Return(0)) };
    join_pieces(ctx, *state)
}

fn join_pieces(ctx: &mut Ctx<'_>, mut state: Joining) -> Result<NativeStep, Fault> {
    while state.at <= ctx.count() {
        let value = ctx.arg(state.at);
        let before = state.out.len();
        let is_whole = match value.as_str() {
            Some(text) => {
                let rest = &ctx.heap.bytes(text)[state.written..];
                let count = rest.len().min(CHUNK);
                state.out.extend_from_slice(&rest[..count]);
                state.written += count;
                count == rest.len()
            }
            None => {
                push_text(ctx.heap, &mut state.out, value);
                true
            }
        };
        if is_whole {
            (state.at, state.written) = (state.at + 1, 0);
        }
        if !ctx.charge(cost(state.out.len() - before)) && state.at <= ctx.count() {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
    let value = ctx.heap.take_string(state.out)?;
    ctx.one(value)
}
