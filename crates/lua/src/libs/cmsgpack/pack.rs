//! `cmsgpack.pack`.
//!
//! Open tables, and a long string that is being written, are in the function's window (see [`Ctx`]) after the
//! arguments: one slot for each level.

use crate::fault::Fault;
use crate::native::{Ctx, NativeStep, State};
use crate::text::number::{to_i32, to_i64};
use crate::value::{Kind, StrRef, TableRef, Value};

use super::super::output::{CHUNK, cost, entry_from, fuel, reserve};

/// The deepest nesting of tables; deeper tables are packed as nil.
const DEPTH_MAX: usize = 16;

/// The state of a value whose parts are being written. In `Check`, `Count` and `Map`, `at` is a position
/// among the table's entries.
#[derive(Clone, Copy)]
enum PackLevel {
    /// Keys are being checked, to decide whether the table is an array.
    Check { at: usize, max: i32, count: i32 },
    /// Entries of a map are being counted.
    Count { at: usize, count: u64 },
    /// Elements of an array are being written.
    Array { at: i64, len: i64 },
    /// Entries of a map are being written. The next one is the entry at `at`. If `value` is set, the key of
    /// this entry has been written, and its value is next.
    Map { at: usize, value: bool },
    /// A string is being written; the next byte is the one at `at`.
    Text { at: usize },
}

/// The state of a packing between two steps.
struct Packing {
    out: Vec<u8>,
    levels: Vec<PackLevel>,
    /// The number of arguments; `done` of them are packed.
    count: usize,
    done: usize,
}

pub(super) fn pack(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let count = ctx.count();
    if count == 0 {
        return Err(Fault::argument(0, "MessagePack pack needs input."));
    }
    run(ctx, Packing { out: Vec::new(), levels: Vec::new(), count, done: 0 })
}

pub(super) fn pack_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Packing>() else { return Ok(NativeStep::Return(0)) };
    run(ctx, *state)
}

fn run(ctx: &mut Ctx<'_>, mut state: Packing) -> Result<NativeStep, Fault> {
    let mut left = fuel(ctx);
    loop {
        let before = left;
        match state.levels.last().copied() {
            None if state.done == state.count => {
                let value = ctx.heap.take_string(state.out)?;
                return ctx.one(value);
            }
            None => {
                state.done += 1;
                let value = ctx.arg(state.done);
                push_value(ctx, &mut state, value, &mut left)?;
            }
            Some(level) => {
                let open = ctx.arg(state.count + state.levels.len());
                match (level, open.as_table(), open.as_str()) {
                    (PackLevel::Text { at }, _, Some(text)) => {
                        push_part(ctx, &mut state, text, at, &mut left)?
                    }
                    (PackLevel::Check { .. }, Some(table), _) => check(ctx, &mut state, table, &mut left)?,
                    (PackLevel::Count { .. }, Some(table), _) => count(ctx, &mut state, table, &mut left)?,
                    (PackLevel::Array { .. }, Some(table), _) => elements(ctx, &mut state, table, &mut left)?,
                    (PackLevel::Map { .. }, Some(table), _) => entries(ctx, &mut state, table, &mut left)?,
                    // This does not happen, because the slot of each level has a value of the level's kind.
                    _ => close(ctx, &mut state),
                }
            }
        }
        left = left.saturating_sub(1);
        if !ctx.charge(before - left) || left == 0 {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
}

/// Writes a value; opens a level for a table or a long string.
#[inline]
fn push_value(ctx: &mut Ctx<'_>, state: &mut Packing, value: Value, left: &mut u64) -> Result<(), Fault> {
    reserve(ctx.heap, &mut state.out, 9)?;
    match value.kind() {
        Kind::Number => push_number(&mut state.out, value.as_number().unwrap_or(0.0)),
        Kind::Boolean => state.out.push(if value.truthy() { 0xc3 } else { 0xc2 }),
        Kind::String => {
            if let Some(text) = value.as_str() {
                return push_text(ctx, state, text, left);
            }
        }
        Kind::Table if state.levels.len() < DEPTH_MAX => {
            open(ctx, state, value, PackLevel::Check { at: 0, max: 0, count: 0 });
        }
        Kind::Table
        | Kind::Nil
        | Kind::LightUserdata
        | Kind::Closure
        | Kind::Native
        | Kind::Userdata
        | Kind::Thread => state.out.push(0xc0),
    }
    Ok(())
}

fn open(ctx: &mut Ctx<'_>, state: &mut Packing, value: Value, level: PackLevel) {
    ctx.truncate(state.count + state.levels.len());
    ctx.push(value);
    state.levels.push(level);
}

fn close(ctx: &mut Ctx<'_>, state: &mut Packing) {
    state.levels.pop();
    ctx.truncate(state.count + state.levels.len());
}

/// Writes a number in its shortest exact form: an integer if it is one, otherwise four bytes if
/// these are exact.
pub(super) fn push_number(out: &mut Vec<u8>, number: f64) {
    let whole = to_i64(number);
    if whole as f64 == number {
        push_integer(out, whole);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn push_integer(out: &mut Vec<u8>, number: i64) {
    let bytes = number.to_be_bytes();
    let (form, len) = match number {
        -32..=0x7f => return out.push(bytes[7]),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(form);
    out.extend_from_slice(&bytes[8 - len..]);
}

/// Writes the length of a string, an array or a map: in the short form, or in 8 (strings only),
/// 16 or 32 bits.
fn push_len(out: &mut Vec<u8>, len: u64, short: (u8, u64), forms: [Option<u8>; 3]) {
    let bytes = len.to_be_bytes();
    match (len, forms) {
        _ if len < short.1 => out.push(short.0 | len as u8),
        (0..=0xff, [Some(form), ..]) => out.extend_from_slice(&[form, bytes[7]]),
        (0..=0xffff, [_, Some(form), _]) => out.extend_from_slice(&[form, bytes[6], bytes[7]]),
        (_, [.., form]) => {
            out.push(form.unwrap_or(0xc0));
            out.extend_from_slice(&bytes[4..]);
        }
    }
}

fn push_text(ctx: &mut Ctx<'_>, state: &mut Packing, text: StrRef, left: &mut u64) -> Result<(), Fault> {
    let len = ctx.heap.bytes(text).len();
    reserve(ctx.heap, &mut state.out, len + 5)?;
    push_len(&mut state.out, len as u64, (0xa0, 32), [Some(0xd9), Some(0xda), Some(0xdb)]);
    if len > CHUNK {
        open(ctx, state, text.into(), PackLevel::Text { at: 0 });
        return Ok(());
    }
    state.out.extend_from_slice(ctx.heap.bytes(text));
    if len >= 16 {
        *left = left.saturating_sub(cost(len));
    }
    Ok(())
}

/// Writes a part of a long string. Memory for the whole string was reserved before its first part.
fn push_part(
    ctx: &mut Ctx<'_>,
    state: &mut Packing,
    text: StrRef,
    at: usize,
    left: &mut u64,
) -> Result<(), Fault> {
    let end = ctx.heap.bytes(text).len().min(at + CHUNK);
    let bytes = ctx.heap.bytes(text);
    state.out.extend_from_slice(&bytes[at..end]);
    *left = left.saturating_sub(cost(end - at));
    if end == bytes.len() {
        close(ctx, state);
    } else {
        replace(state, PackLevel::Text { at: end });
    }
    Ok(())
}

fn replace(state: &mut Packing, level: PackLevel) {
    if let Some(last) = state.levels.last_mut() {
        *last = level;
    }
}

/// Checks keys: a table is an array if its keys are the integers from 1 to their count.
fn check(ctx: &mut Ctx<'_>, state: &mut Packing, table: TableRef, left: &mut u64) -> Result<(), Fault> {
    let Some(&PackLevel::Check { mut at, mut max, mut count }) = state.levels.last() else { return Ok(()) };
    let table = ctx.heap.tables.at(table.0);
    let is_array = loop {
        if *left == 0 {
            replace(state, PackLevel::Check { at, max, count });
            return Ok(());
        }
        *left -= 1;
        let Some((found, key, _)) = entry_from(table, at, left) else { break max == count };
        at = found + 1;
        match key.as_number() {
            Some(number) if number > 0.0 && f64::from(to_i32(number)) == number => {
                max = max.max(to_i32(number));
                count = count.wrapping_add(1);
            }
            _ => break false,
        }
    };
    if !is_array {
        replace(state, PackLevel::Count { at: 0, count: 0 });
        return Ok(());
    }
    reserve(ctx.heap, &mut state.out, 5)?;
    push_len(&mut state.out, u64::from(count.unsigned_abs()), (0x90, 16), [None, Some(0xdc), Some(0xdd)]);
    replace(state, PackLevel::Array { at: 0, len: i64::from(count) });
    Ok(())
}

fn count(ctx: &mut Ctx<'_>, state: &mut Packing, table: TableRef, left: &mut u64) -> Result<(), Fault> {
    let Some(&PackLevel::Count { mut at, mut count }) = state.levels.last() else { return Ok(()) };
    let table = ctx.heap.tables.at(table.0);
    loop {
        if *left == 0 {
            replace(state, PackLevel::Count { at, count });
            return Ok(());
        }
        *left -= 1;
        let Some((found, ..)) = entry_from(table, at, left) else { break };
        at = found + 1;
        count += 1;
    }
    reserve(ctx.heap, &mut state.out, 5)?;
    push_len(&mut state.out, count, (0x80, 16), [None, Some(0xde), Some(0xdf)]);
    replace(state, PackLevel::Map { at: 0, value: false });
    Ok(())
}

fn elements(ctx: &mut Ctx<'_>, state: &mut Packing, table: TableRef, left: &mut u64) -> Result<(), Fault> {
    let depth = state.levels.len();
    let Some(&PackLevel::Array { mut at, len }) = state.levels.last() else { return Ok(()) };
    while at < len && *left > 0 && !ctx.heap.is_due() {
        at += 1;
        *left -= 1;
        state.levels[depth - 1] = PackLevel::Array { at, len };
        let value = ctx.heap.get_int(table, at);
        push_value(ctx, state, value, left)?;
        if state.levels.len() != depth {
            return Ok(());
        }
    }
    if at >= len {
        close(ctx, state);
    }
    Ok(())
}

fn entries(ctx: &mut Ctx<'_>, state: &mut Packing, table: TableRef, left: &mut u64) -> Result<(), Fault> {
    let depth = state.levels.len();
    while let Some(&PackLevel::Map { at, value: is_value }) = state.levels.last() {
        if *left == 0 || ctx.heap.is_due() || state.levels.len() != depth {
            return Ok(());
        }
        *left -= 1;
        let Some((found, key, value)) = entry_from(ctx.heap.tables.at(table.0), at, left) else {
            close(ctx, state);
            return Ok(());
        };
        if !is_value {
            state.levels[depth - 1] = PackLevel::Map { at: found, value: true };
            push_value(ctx, state, key, left)?;
            if state.levels.len() != depth {
                return Ok(());
            }
        }
        state.levels[depth - 1] = PackLevel::Map { at: found + 1, value: false };
        push_value(ctx, state, value, left)?;
    }
    Ok(())
}
