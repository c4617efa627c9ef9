//! `cjson.encode`.
//!
//! Open tables, and a long string that is being written, are in the function's window (see [`Ctx`]) after the
//! argument: one slot for each level.

use crate::fault::Fault;
use crate::native::{Ctx, NativeStep, State};
use crate::text::decimal::{Alternate, Case, push_general};
use crate::text::number::{push_number, to_i32};
use crate::value::{Kind, StrRef, TableRef, Value};

use super::super::output::{CHUNK, cost, entry_from, fuel, reserve};
use super::settings::{SLOTS_MAX, Setting, read};

/// The state of a value whose parts are being written. In `Measure` and `Object`, `at` is a position among
/// the table's entries.
#[derive(Clone, Copy)]
enum JsonLevel {
    /// A table's keys are being checked, to decide whether it is an array.
    Measure { at: usize, max: i32, items: i32 },
    /// Elements of an array are being written.
    Array { at: i32, len: i32 },
    /// Entries of an object are being written. The next one is the entry at `at`. If `value` is set, the key
    /// of this entry has been written, and its value is next.
    Object { at: usize, first: bool, value: bool },
    /// A string is being written; the next byte is the one at `at`.
    Text { at: usize },
}

/// The state of an encoding between two steps.
struct PausedEncoding {
    out: Vec<u8>,
    levels: Vec<JsonLevel>,
    /// The number of open tables.
    depth: usize,
    /// The slots that encoding would use on the stack of PUC-Rio's Lua; their number limits the nesting.
    slots: usize,
    settings: EncodeSettings,
}

#[derive(Clone, Copy)]
struct EncodeSettings {
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    depth_max: usize,
    invalid_numbers: i32,
    precision: usize,
}

/// The output for each byte of a string: 0 means the byte itself, 1 means `\u00xx`, and a letter means a
/// backslash and this letter.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 32 {
        table[byte] = 1;
        byte += 1;
    }
    table[0x7f] = 1;
    table[b'\x08' as usize] = b'b';
    table[b'\t' as usize] = b't';
    table[b'\n' as usize] = b'n';
    table[b'\x0c' as usize] = b'f';
    table[b'\r' as usize] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table
};

pub(super) fn encode(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() != 1 {
        return Err(Fault::argument(1, "expected 1 argument"));
    }
    let settings = EncodeSettings {
        sparse_convert: read(ctx, Setting::SparseConvert) != 0,
        sparse_ratio: read(ctx, Setting::SparseRatio),
        sparse_safe: read(ctx, Setting::SparseSafe),
        depth_max: read(ctx, Setting::EncodeDepth).max(0) as usize,
        invalid_numbers: read(ctx, Setting::EncodeInvalid),
        precision: read(ctx, Setting::Precision).max(1) as usize,
    };
    let mut state = PausedEncoding { out: Vec::new(), levels: Vec::new(), depth: 0, slots: 1, settings };
    let value = ctx.arg(1);
    let (mut left, before) = (fuel(ctx), fuel(ctx));
    push_value(ctx, &mut state, value, &mut left)?;
    ctx.charge(before - left);
    run(ctx, state)
}

pub(super) fn encode_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<PausedEncoding>() else { return Ok(NativeStep::Return(0)) };
    run(ctx, *state)
}

fn run(ctx: &mut Ctx<'_>, mut state: PausedEncoding) -> Result<NativeStep, Fault> {
    let mut left = fuel(ctx);
    loop {
        let before = left;
        let Some(&level) = state.levels.last() else {
            let value = ctx.heap.take_string(state.out)?;
            return ctx.one(value);
        };
        let open = ctx.arg(1 + state.levels.len());
        match (level, open.as_table(), open.as_str()) {
            (JsonLevel::Text { at }, _, Some(text)) => push_part(ctx, &mut state, text, at, &mut left)?,
            (JsonLevel::Measure { .. }, Some(table), _) => measure(ctx, &mut state, table, &mut left)?,
            (JsonLevel::Array { .. }, Some(table), _) => elements(ctx, &mut state, table, &mut left)?,
            (JsonLevel::Object { .. }, Some(table), _) => entries(ctx, &mut state, table, &mut left)?,
            // This does not happen, because the slot of each level has a value of the level's kind.
            _ => close(ctx, &mut state),
        }
        left = left.saturating_sub(1);
        if !ctx.charge(before - left) || left == 0 {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
}

fn fail(value: Value, reason: &str) -> Fault {
    Fault::text(format!("Cannot serialise {}: {reason}", value.type_name()))
}

/// Writes a value; opens a level for a table or a long string.
#[inline]
fn push_value(
    ctx: &mut Ctx<'_>,
    state: &mut PausedEncoding,
    value: Value,
    left: &mut u64,
) -> Result<(), Fault> {
    match value.kind() {
        Kind::String => match value.as_str() {
            Some(text) => push_text(ctx, state, text, left),
            None => Ok(()),
        },
        Kind::Number => push_json_number(ctx, state, value),
        Kind::Boolean => {
            reserve(ctx.heap, &mut state.out, 8)?;
            state.out.extend_from_slice(if value.truthy() { b"true" } else { b"false" });
            Ok(())
        }
        Kind::Nil | Kind::LightUserdata => {
            reserve(ctx.heap, &mut state.out, 8)?;
            state.out.extend_from_slice(b"null");
            Ok(())
        }
        Kind::Table => {
            state.depth += 1;
            if state.depth > state.settings.depth_max || state.slots + 3 > SLOTS_MAX {
                return Err(Fault::text(format!("Cannot serialise, excessive nesting ({})", state.depth)));
            }
            open(ctx, state, value, JsonLevel::Measure { at: 0, max: 0, items: 0 })
        }
        Kind::Closure | Kind::Native | Kind::Userdata | Kind::Thread => {
            Err(fail(value, "type not supported"))
        }
    }
}

fn open(ctx: &mut Ctx<'_>, state: &mut PausedEncoding, value: Value, level: JsonLevel) -> Result<(), Fault> {
    state.levels.push(level);
    ctx.truncate(state.levels.len());
    ctx.push(value);
    Ok(())
}

fn close(ctx: &mut Ctx<'_>, state: &mut PausedEncoding) {
    state.levels.pop();
    ctx.truncate(1 + state.levels.len());
}

fn push_json_number(ctx: &mut Ctx<'_>, state: &mut PausedEncoding, value: Value) -> Result<(), Fault> {
    let number = value.as_number().unwrap_or(0.0);
    reserve(ctx.heap, &mut state.out, 32)?;
    if !number.is_finite() {
        match state.settings.invalid_numbers {
            0 => return Err(fail(value, "must not be NaN or Inf")),
            1 if number.is_nan() => {
                state.out.extend_from_slice(b"nan");
                return Ok(());
            }
            1 => {}
            _ => {
                state.out.extend_from_slice(b"null");
                return Ok(());
            }
        }
    }
    match state.settings.precision {
        14 => push_number(&mut state.out, number),
        precision => push_general(&mut state.out, number, precision, Case::Lower, Alternate::No),
    }
    Ok(())
}

fn push_text(
    ctx: &mut Ctx<'_>,
    state: &mut PausedEncoding,
    text: StrRef,
    left: &mut u64,
) -> Result<(), Fault> {
    let len = ctx.heap.bytes(text).len();
    if len > CHUNK {
        reserve(ctx.heap, &mut state.out, len + 2)?;
        state.out.push(b'"');
        return open(ctx, state, text.into(), JsonLevel::Text { at: 0 });
    }
    reserve(ctx.heap, &mut state.out, len + 2)?;
    let bytes = ctx.heap.bytes(text);
    let escaped = bytes.iter().filter(|&&byte| ESCAPES[usize::from(byte)] != 0).count();
    if escaped > 0 {
        reserve(ctx.heap, &mut state.out, len + 2 + escaped * 5)?;
    }
    let bytes = ctx.heap.bytes(text);
    state.out.push(b'"');
    if escaped == 0 {
        state.out.extend_from_slice(bytes);
    } else {
        push_escaped(&mut state.out, bytes);
    }
    state.out.push(b'"');
    if len >= 16 {
        *left = left.saturating_sub(cost(len));
    }
    Ok(())
}

/// Appends a string with its quotes.
pub(super) fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|&byte| ESCAPES[usize::from(byte)] != 0) {
        out.extend_from_slice(&rest[..plain]);
        let byte = rest[plain];
        match ESCAPES[usize::from(byte)] {
            1 => {
                out.extend_from_slice(b"\\u00");
                out.push(b"0123456789abcdef"[usize::from(byte >> 4)]);
                out.push(b"0123456789abcdef"[usize::from(byte & 15)]);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
}

/// Writes a part of a long string.
fn push_part(
    ctx: &mut Ctx<'_>,
    state: &mut PausedEncoding,
    text: StrRef,
    at: usize,
    left: &mut u64,
) -> Result<(), Fault> {
    let end = ctx.heap.bytes(text).len().min(at + CHUNK);
    reserve(ctx.heap, &mut state.out, (end - at) * 6 + 1)?;
    let bytes = ctx.heap.bytes(text);
    push_escaped(&mut state.out, &bytes[at..end]);
    *left = left.saturating_sub(cost(end - at));
    if end == bytes.len() {
        state.out.push(b'"');
        close(ctx, state);
    } else if let Some(level) = state.levels.last_mut() {
        *level = JsonLevel::Text { at: end };
    }
    Ok(())
}

/// Checks keys: a table is an array if it has keys, and all are positive integers and not too sparse. Keys
/// that are too sparse are an error, or make the table an object, depending on the settings.
fn measure(
    ctx: &mut Ctx<'_>,
    state: &mut PausedEncoding,
    table: TableRef,
    left: &mut u64,
) -> Result<(), Fault> {
    let Some(&JsonLevel::Measure { mut at, mut max, mut items }) = state.levels.last() else { return Ok(()) };
    let entries = ctx.heap.tables.at(table.0);
    let mut is_object = false;
    loop {
        if *left == 0 {
            if let Some(level) = state.levels.last_mut() {
                *level = JsonLevel::Measure { at, max, items };
            }
            return Ok(());
        }
        *left -= 1;
        let Some((found, key, _)) = entry_from(entries, at, left) else { break };
        at = found + 1;
        match key.as_number() {
            Some(number) if number >= 1.0 && number.floor() == number => {
                if number > f64::from(max) {
                    max = to_i32(number);
                }
                items += 1;
            }
            _ => {
                is_object = true;
                break;
            }
        }
    }
    let settings = &state.settings;
    if !is_object
        && settings.sparse_ratio > 0
        && max > items.wrapping_mul(settings.sparse_ratio)
        && max > settings.sparse_safe
    {
        if !settings.sparse_convert {
            return Err(fail(table.into(), "excessively sparse array"));
        }
        is_object = true;
    }
    reserve(ctx.heap, &mut state.out, 1)?;
    let is_array = !is_object && max > 0;
    state.out.push(if is_array { b'[' } else { b'{' });
    state.slots += if is_array { 1 } else { 2 };
    if let Some(level) = state.levels.last_mut() {
        *level = if is_array {
            JsonLevel::Array { at: 0, len: max }
        } else {
            JsonLevel::Object { at: 0, first: true, value: false }
        };
    }
    Ok(())
}

fn elements(
    ctx: &mut Ctx<'_>,
    state: &mut PausedEncoding,
    table: TableRef,
    left: &mut u64,
) -> Result<(), Fault> {
    let depth = state.levels.len();
    let Some(&JsonLevel::Array { mut at, len }) = state.levels.last() else { return Ok(()) };
    while at < len && *left > 0 && !ctx.heap.is_due() {
        reserve(ctx.heap, &mut state.out, 1)?;
        if at > 0 {
            state.out.push(b',');
        }
        at += 1;
        *left -= 1;
        state.levels[depth - 1] = JsonLevel::Array { at, len };
        let value = ctx.heap.get_int(table, i64::from(at));
        push_value(ctx, state, value, left)?;
        if state.levels.len() != depth {
            return Ok(());
        }
    }
    if at >= len {
        reserve(ctx.heap, &mut state.out, 1)?;
        state.out.push(b']');
        state.depth -= 1;
        state.slots -= 1;
        close(ctx, state);
    }
    Ok(())
}

fn entries(
    ctx: &mut Ctx<'_>,
    state: &mut PausedEncoding,
    table: TableRef,
    left: &mut u64,
) -> Result<(), Fault> {
    let depth = state.levels.len();
    while let Some(&JsonLevel::Object { at, first, value: is_value }) = state.levels.last() {
        if *left == 0 || ctx.heap.is_due() || state.levels.len() != depth {
            return Ok(());
        }
        *left -= 1;
        let Some((found, key, value)) = entry_from(ctx.heap.tables.at(table.0), at, left) else {
            reserve(ctx.heap, &mut state.out, 1)?;
            state.out.push(b'}');
            state.depth -= 1;
            state.slots -= 2;
            close(ctx, state);
            return Ok(());
        };
        reserve(ctx.heap, &mut state.out, 4)?;
        if !is_value {
            if !first {
                state.out.push(b',');
            }
            state.levels[depth - 1] = JsonLevel::Object { at: found, first: false, value: true };
            push_key(ctx, state, key, left)?;
            if state.levels.len() != depth {
                return Ok(());
            }
        }
        reserve(ctx.heap, &mut state.out, 1)?;
        state.out.push(b':');
        state.levels[depth - 1] = JsonLevel::Object { at: found + 1, first: false, value: false };
        push_value(ctx, state, value, left)?;
    }
    Ok(())
}

fn push_key(ctx: &mut Ctx<'_>, state: &mut PausedEncoding, key: Value, left: &mut u64) -> Result<(), Fault> {
    if let Some(text) = key.as_str() {
        return push_text(ctx, state, text, left);
    }
    if key.as_number().is_none() {
        return Err(fail(key, "table key must be a number or string"));
    }
    state.out.push(b'"');
    push_json_number(ctx, state, key)?;
    reserve(ctx.heap, &mut state.out, 2)?;
    state.out.push(b'"');
    Ok(())
}
