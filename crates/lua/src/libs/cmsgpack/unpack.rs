//! `cmsgpack.unpack`, `unpack_one` and `unpack_limit`.
//!
//! The first slot of the function's window (see [`Ctx`]) has the bytes, the second one the offset to be
//! returned. The results follow, and then two slots for each open array or map: its table, and the key whose
//! value is being read.

use crate::fault::Fault;
use crate::native::{Ctx, NativeStep, State};
use crate::value::{StrRef, TableRef, Value};

use super::super::output::{CHUNK, RecentTexts, append, cost, fuel, part, reserve};

/// Number of slots of a C function's stack in PUC-Rio's Lua. Here the number limits the values and the
/// nesting.
const SLOTS_MAX: usize = 8000;

/// The kind of a value, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PackedForm {
    Nil,
    Boolean(bool),
    Number(f64),
    /// A string of this many bytes follows.
    Text(usize),
    /// An array: this many values follow.
    Array(u64),
    /// A map: this many pairs of key and value follow.
    Map(u64),
}

/// The reason why bytes cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PackedError {
    Missing,
    BadFormat,
}

/// An array or map whose values are being read.
#[derive(Clone, Copy)]
enum Open {
    /// An array; `dense` means that no value so far is nil.
    Array { index: i64, left: u64, dense: bool },
    /// A map; `has_key` means that the key has been read and its value is next.
    Map { left: u64, has_key: bool },
}

/// The state of an unpacking between two steps.
struct Unpacking {
    at: usize,
    limit: i64,
    /// Whether the offset after the last value is returned, too.
    tells_offset: bool,
    /// The number of finished values.
    count: usize,
    open: Vec<Open>,
    /// The slots that unpacking would use on PUC's stack.
    slots: usize,
    /// A long string that is being copied.
    copy: Option<TextCopy>,
}

/// A string of which a part has been copied; in the source it ends at `end`.
struct TextCopy {
    copy: Vec<u8>,
    end: usize,
}

/// Reads the first bytes of a value; returns its kind, and the number of bytes read.
fn read(bytes: &[u8]) -> Result<(PackedForm, usize), PackedError> {
    let &first = bytes.first().ok_or(PackedError::Missing)?;
    let unsigned = |len: usize| -> Result<u64, PackedError> {
        let digits = bytes.get(1..1 + len).ok_or(PackedError::Missing)?;
        Ok(digits.iter().fold(0, |sum, &digit| sum << 8 | u64::from(digit)))
    };
    let signed = |len: usize| -> Result<f64, PackedError> {
        let shift = 64 - 8 * len as u32;
        Ok(((unsigned(len)? << shift) as i64 >> shift) as f64)
    };
    Ok(match first {
        0..=0x7f => (PackedForm::Number(f64::from(first)), 1),
        0x80..=0x8f => (PackedForm::Map(u64::from(first & 15)), 1),
        0x90..=0x9f => (PackedForm::Array(u64::from(first & 15)), 1),
        0xa0..=0xbf => (PackedForm::Text(usize::from(first & 31)), 1),
        0xc0 => (PackedForm::Nil, 1),
        0xc2 | 0xc3 => (PackedForm::Boolean(first == 0xc3), 1),
        0xca => (PackedForm::Number(f64::from(f32::from_bits(unsigned(4)? as u32))), 5),
        0xcb => (PackedForm::Number(f64::from_bits(unsigned(8)?)), 9),
        0xcc => (PackedForm::Number(unsigned(1)? as f64), 2),
        0xcd => (PackedForm::Number(unsigned(2)? as f64), 3),
        0xce => (PackedForm::Number(unsigned(4)? as f64), 5),
        // Unsigned numbers of 64 bits are read like signed ones, as in the reference.
        0xcf | 0xd3 => (PackedForm::Number(signed(8)?), 9),
        0xd0 => (PackedForm::Number(signed(1)?), 2),
        0xd1 => (PackedForm::Number(signed(2)?), 3),
        0xd2 => (PackedForm::Number(signed(4)?), 5),
        0xd9 => (PackedForm::Text(unsigned(1)? as usize), 2),
        0xda => (PackedForm::Text(unsigned(2)? as usize), 3),
        0xdb => (PackedForm::Text(unsigned(4)? as usize), 5),
        0xdc => (PackedForm::Array(unsigned(2)?), 3),
        0xdd => (PackedForm::Array(unsigned(4)?), 5),
        0xde => (PackedForm::Map(unsigned(2)?), 3),
        0xdf => (PackedForm::Map(unsigned(4)?), 5),
        0xe0..=0xff => (PackedForm::Number(f64::from(first as i8)), 1),
        0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(PackedError::BadFormat),
    })
}

pub(super) fn unpack(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    begin(ctx, 0, 0)
}

pub(super) fn unpack_one(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let offset = ctx.opt_int(2, 0)?;
    begin(ctx, 1, offset)
}

pub(super) fn unpack_limit(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let limit = ctx.check_int(2)?;
    let offset = ctx.opt_int(3, 0)?;
    begin(ctx, limit, offset)
}

fn begin(ctx: &mut Ctx<'_>, limit: i64, offset: i64) -> Result<NativeStep, Fault> {
    let source = ctx.check_str(1)?;
    let slots = if limit == 0 && offset == 0 { ctx.count() } else { 1 };
    let len = ctx.heap.bytes(source).len();
    if offset < 0 || limit < 0 {
        return Err(Fault::text(format!(
            "Invalid request to unpack with offset of {} and limit of {}.",
            offset as i32, len as i32
        )));
    }
    if offset as u64 > len as u64 {
        return Err(Fault::text(format!(
            "Start offset {} greater than input length {}.",
            offset as i32, len as i32
        )));
    }
    let tells_offset = limit != 0 || offset != 0;
    let limit = if tells_offset { limit } else { i64::from(i32::MAX) };
    ctx.truncate(1);
    ctx.push(Value::NIL);
    let at = offset as usize;
    run(ctx, Unpacking { at, limit, tells_offset, count: 0, open: Vec::new(), slots, copy: None })
}

pub(super) fn unpack_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Unpacking>() else { return Ok(NativeStep::Return(0)) };
    run(ctx, *state)
}

fn run(ctx: &mut Ctx<'_>, mut state: Unpacking) -> Result<NativeStep, Fault> {
    let Some(source) = ctx.arg(1).as_str() else { return Ok(NativeStep::Return(0)) };
    let len = ctx.heap.bytes(source).len();
    let mut left = fuel(ctx);
    let mut charged = left;
    let mut texts = RecentTexts::new();
    loop {
        if state.open.is_empty() && (state.at >= len || state.count as i64 >= state.limit) {
            ctx.charge(charged - left);
            return finish(ctx, &state, len);
        }
        if left == 0 || ctx.heap.is_due() {
            ctx.charge(charged - left);
            return Ok(NativeStep::Pause(Box::new(state)));
        }
        left -= 1;
        if let Err(fault) = state.step(ctx, &mut texts, source, &mut left) {
            ctx.charge(charged - left);
            return Err(fault);
        }
        if charged - left >= 1024 {
            ctx.charge(charged - left);
            charged = left;
        }
    }
}

fn finish(ctx: &mut Ctx<'_>, state: &Unpacking, len: usize) -> Result<NativeStep, Fault> {
    if !state.tells_offset {
        return Ok(NativeStep::Return(state.count));
    }
    if state.slots + 1 > SLOTS_MAX {
        return Err(Fault::text("stack overflow (in function mp_unpack_full)"));
    }
    let offset = if state.at == len { -1.0 } else { state.at as f64 };
    ctx.set(2, Value::number(offset));
    Ok(NativeStep::Return(state.count + 1))
}

impl Unpacking {
    /// Copies a piece of a long string from the reading position on. At the string's end, stores it as a
    /// value.
    fn copy_on(
        &mut self,
        ctx: &mut Ctx<'_>,
        source: StrRef,
        mut copy: TextCopy,
        left: &mut u64,
    ) -> Result<(), Fault> {
        let to = copy.end.min(self.at + CHUNK);
        copy.copy.extend_from_slice(&ctx.heap.bytes(source)[self.at..to]);
        *left = left.saturating_sub(cost(to - self.at));
        self.at = to;
        if to < copy.end {
            self.copy = Some(copy);
            return Ok(());
        }
        let value = ctx.heap.take_string(copy.copy)?;
        self.store(ctx, value)
    }

    /// Reads a value, or closes an array or a map.
    #[inline]
    fn step(
        &mut self,
        ctx: &mut Ctx<'_>,
        texts: &mut RecentTexts,
        source: StrRef,
        left: &mut u64,
    ) -> Result<(), Fault> {
        if let Some(copy) = self.copy.take() {
            return self.copy_on(ctx, source, copy, left);
        }
        if let Some(Open::Array { left: 0, .. } | Open::Map { left: 0, .. }) = self.open.last() {
            return self.close(ctx);
        }
        let slots = self.slots
            + usize::from(matches!(
                self.open.last(),
                Some(Open::Array { .. } | Open::Map { has_key: true, .. })
            ));
        let bytes = ctx.heap.bytes(source);
        if self.at < bytes.len() && slots + 1 > SLOTS_MAX {
            let hint = "too many return values at once; use unpack_one or unpack_limit instead.";
            return Err(Fault::text(format!("stack overflow ({hint})")));
        }
        let (form, used) = read(&bytes[self.at..]).map_err(fault)?;
        self.at += used;
        let value = match form {
            PackedForm::Nil => Value::NIL,
            PackedForm::Boolean(truth) => Value::boolean(truth),
            PackedForm::Number(number) => Value::number(number),
            PackedForm::Text(count) => {
                let Some(end) = self.at.checked_add(count).filter(|&end| end <= bytes.len()) else {
                    return Err(fault(PackedError::Missing));
                };
                if count > CHUNK {
                    // A long string is copied in several steps.
                    let mut copy = Vec::new();
                    reserve(ctx.heap, &mut copy, count)?;
                    return self.copy_on(ctx, source, TextCopy { copy, end }, left);
                }
                let value = if count <= 22 {
                    let mut short = [0; 22];
                    let short = &mut short[..count];
                    short.copy_from_slice(&bytes[self.at..end]);
                    texts.string(ctx.heap, short)?
                } else {
                    part(ctx, source, self.at, end)?
                };
                self.at = end;
                *left = left.saturating_sub(if count < 16 { 0 } else { cost(count) });
                value
            }
            PackedForm::Array(count) => {
                return self.begin(ctx, slots, Open::Array { index: 0, left: count, dense: true });
            }
            PackedForm::Map(count) => {
                return self.begin(ctx, slots, Open::Map { left: count, has_key: false });
            }
        };
        self.store(ctx, value)
    }

    fn begin(&mut self, ctx: &mut Ctx<'_>, slots: usize, open: Open) -> Result<(), Fault> {
        if matches!(open, Open::Array { .. }) && slots + 2 > SLOTS_MAX {
            return Err(Fault::text("stack overflow (in function mp_decode_to_lua_array)"));
        }
        self.slots = slots + 1;
        let table = ctx.heap.new_table(0, 0)?;
        ctx.truncate(2 + self.count + 2 * self.open.len());
        ctx.push(table.into());
        ctx.push(Value::NIL);
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Fault> {
        let slot = 1 + self.count + 2 * self.open.len();
        let table = ctx.arg(slot);
        self.open.pop();
        self.slots -= 1;
        if let Some(Open::Array { .. } | Open::Map { has_key: true, .. }) = self.open.last() {
            self.slots -= 1;
        }
        self.store(ctx, table)
    }

    /// Stores a finished value in the innermost open array or map, or as a result.
    #[inline]
    fn store(&mut self, ctx: &mut Ctx<'_>, value: Value) -> Result<(), Fault> {
        let slot = 1 + self.count + 2 * self.open.len();
        match self.open.last_mut() {
            None => {
                ctx.truncate(2 + self.count);
                ctx.push(value);
                self.count += 1;
                self.slots += 1;
                Ok(())
            }
            Some(Open::Array { index, left, dense }) => {
                *index += 1;
                *left -= 1;
                *dense &= !value.is_nil();
                let (index, dense) = (*index, *dense);
                let Some(table) = table_at(ctx, slot) else { return Ok(()) };
                if dense {
                    append(ctx.heap, table, index, value)
                } else {
                    ctx.heap.set_int(table, index, value)
                }
            }
            Some(Open::Map { has_key: has_key @ false, .. }) => {
                *has_key = true;
                ctx.set(slot + 1, value);
                Ok(())
            }
            Some(Open::Map { left, has_key }) => {
                *has_key = false;
                *left -= 1;
                let Some(table) = table_at(ctx, slot) else { return Ok(()) };
                ctx.heap.set(table, ctx.arg(slot + 1), value)
            }
        }
    }
}

fn table_at(ctx: &Ctx<'_>, slot: usize) -> Option<TableRef> {
    ctx.arg(slot).as_table()
}

fn fault(error: PackedError) -> Fault {
    Fault::text(match error {
        PackedError::Missing => "Missing bytes in input.",
        PackedError::BadFormat => "Bad data format in input.",
    })
}

/// Reads any bytes as values, whose lengths may exceed the bytes that follow, for fuzzing.
pub fn fuzz_packed(data: &[u8]) {
    let mut at = 0;
    while let Ok((form, used)) = read(&data[at..]) {
        at += used;
        if let PackedForm::Text(count) = form {
            match at.checked_add(count) {
                Some(end) if end <= data.len() => at = end,
                _ => break,
            }
        }
        if let PackedForm::Number(number) = form {
            let mut out = Vec::new();
            super::pack::push_number(&mut out, number);
            let Ok((PackedForm::Number(back), _)) = read(&out) else { panic!("a number reads back") };
            assert!(back == number || back.is_nan() && number.is_nan(), "a number reads back");
        }
    }
    assert!(at <= data.len());
}
