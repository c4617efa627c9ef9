//! The library `struct`: values in C's layouts, packed and unpacked as by Roberto Ierusalimschy's
//! library 0.2.

use crate::fault::Fault;
use crate::native::{Ctx, Library, Native, NativeStep, State};
use crate::text::number::{to_i64, to_u64};
use crate::value::Value;

use super::output::{CHUNK, check_stack, cost, reserve};

const FUNCTIONS: &[Native] = &[
    Native::resumable("pack", pack, pack_on),
    Native::resumable("unpack", unpack, unpack_on),
    Native::resumable("size", size, size_on),
];

/// Maximum size of an integer in bytes.
const INTEGER_MAX: i32 = 32;

/// The alignment for `!` without a number.
const ALIGN_DEFAULT: i32 = 8;

/// Makes the table `struct`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    lib.table(b"struct", FUNCTIONS).map(drop)
}

/// Reads the options of a format.
#[derive(Clone, Copy)]
struct FormatReader {
    at: usize,
    big_endian: bool,
    align: usize,
}

/// An option, with its size in bytes and the padding bytes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackOption {
    letter: u8,
    size: usize,
    padding: usize,
}

impl FormatReader {
    fn new() -> FormatReader {
        FormatReader { at: 0, big_endian: false, align: 1 }
    }

    /// The next option, after `total` bytes of data; `None` at the format's end.
    fn next(&mut self, format: &[u8], total: usize) -> Result<Option<PackOption>, Fault> {
        let letter = match format.get(self.at) {
            None | Some(0) => return Ok(None),
            Some(&letter) => letter,
        };
        self.at += 1;
        let size = match letter {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(format, 1)? as usize,
            b'i' | b'I' => {
                let size = self.number(format, 4)?;
                if size > INTEGER_MAX {
                    return Err(Fault::text(format!(
                        "integral size {size} is larger than limit of {INTEGER_MAX}"
                    )));
                }
                size as usize
            }
            _ => 0,
        };
        let padding = match letter {
            b'c' => 0,
            _ if size == 0 => 0,
            _ => {
                let unit = size.min(self.align);
                (unit - (total & (unit - 1))) & (unit - 1)
            }
        };
        Ok(Some(PackOption { letter, size, padding }))
    }

    /// The work of reading the format since position `before`, as a number of bytes for [`cost`]: a number
    /// may have many leading zeros.
    fn read_since(&self, before: usize) -> usize {
        (self.at - before).saturating_mul(4)
    }

    /// Reads a number from the format; returns `default` if there is none.
    fn number(&mut self, format: &[u8], default: i32) -> Result<i32, Fault> {
        let mut value = None;
        while let Some(&digit @ b'0'..=b'9') = format.get(self.at) {
            let sum = value
                .unwrap_or(0i32)
                .checked_mul(10)
                .and_then(|sum| sum.checked_add(i32::from(digit - b'0')));
            value = Some(sum.ok_or_else(|| Fault::text("integral size overflow"))?);
            self.at += 1;
        }
        Ok(value.unwrap_or(default))
    }

    /// Applies an option that has no value.
    fn control(&mut self, format: &[u8], letter: u8) -> Result<(), Fault> {
        match letter {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(format, ALIGN_DEFAULT)?;
                if align <= 0 || !(align as u32).is_power_of_two() {
                    return Err(Fault::text(format!("alignment {align} is not a power of 2")));
                }
                self.align = align as usize;
            }
            _ => {
                let mut text = b"invalid format option '".to_vec();
                text.push(letter);
                text.push(b'\'');
                return Err(Fault::argument(1, text));
            }
        }
        Ok(())
    }

    fn order(&self, bytes: &mut [u8]) {
        if self.big_endian {
            bytes.reverse();
        }
    }
}

/// The state of a packing between two options.
struct StructPacking {
    format: FormatReader,
    out: Vec<u8>,
    argument: usize,
    text: Option<PackedText>,
}

/// A string that is being copied, from the last used argument: the current position, the end, and whether a
/// zero byte follows.
#[derive(Clone, Copy)]
struct PackedText {
    at: usize,
    size: usize,
    ends_with_zero: bool,
}

fn pack(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_str(1)?;
    // The reference pushes a nil after the arguments, and its error for a missing argument names that nil.
    ctx.push(Value::NIL);
    pack_fields(ctx, StructPacking { format: FormatReader::new(), out: Vec::new(), argument: 2, text: None })
}

fn pack_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<StructPacking>() else { return Ok(NativeStep::Return(0)) };
    pack_fields(ctx, *state)
}

fn pack_fields(ctx: &mut Ctx<'_>, mut state: StructPacking) -> Result<NativeStep, Fault> {
    let format = ctx.check_str(1)?;
    loop {
        if let Some(text) = state.text.take() {
            if !pack_piece(ctx, &mut state, text)? {
                return Ok(NativeStep::Pause(Box::new(state)));
            }
            continue;
        }
        let (total, before) = (state.out.len(), state.format.at);
        let Some(field) = state.format.next(ctx.heap.bytes(format), total)? else { break };
        reserve(ctx.heap, &mut state.out, field.padding + 64)?;
        state.out.resize(total + field.padding, 0);
        match field.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let number = ctx.check_number(state.argument)?;
                state.argument += 1;
                let value = if number < 0.0 { to_i64(number) as u64 } else { to_u64(number) };
                let mut bytes = [0; INTEGER_MAX as usize];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                let bytes = &mut bytes[..field.size];
                state.format.order(bytes);
                state.out.extend_from_slice(bytes);
            }
            b'x' => state.out.push(0),
            b'f' => {
                let mut bytes = (ctx.check_number(state.argument)? as f32).to_le_bytes();
                state.argument += 1;
                state.format.order(&mut bytes);
                state.out.extend_from_slice(&bytes);
            }
            b'd' => {
                let mut bytes = ctx.check_number(state.argument)?.to_le_bytes();
                state.argument += 1;
                state.format.order(&mut bytes);
                state.out.extend_from_slice(&bytes);
            }
            b'c' | b's' => pack_text(ctx, &mut state, field)?,
            letter => state.format.control(ctx.heap.bytes(format), letter)?,
        }
        if !ctx.charge(cost(state.out.len() - total + state.format.read_since(before))) {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
    let value = ctx.heap.take_string(state.out)?;
    ctx.one(value)
}

fn pack_text(ctx: &mut Ctx<'_>, state: &mut StructPacking, field: PackOption) -> Result<(), Fault> {
    let text = ctx.check_str(state.argument)?;
    state.argument += 1;
    let len = ctx.heap.bytes(text).len();
    let size = if field.size == 0 { len } else { field.size };
    if len < size {
        // The error names the next argument, because the reference increments the number before it makes
        // the error.
        return Err(Fault::argument(state.argument, "string too short"));
    }
    reserve(ctx.heap, &mut state.out, size + 1)?;
    state.text = Some(PackedText { at: 0, size, ends_with_zero: field.letter == b's' });
    Ok(())
}

/// Copies a piece of a string, for which memory was reserved before. Returns false if the budget
/// is used up.
fn pack_piece(ctx: &mut Ctx<'_>, state: &mut StructPacking, text: PackedText) -> Result<bool, Fault> {
    let source = ctx.check_str(state.argument - 1)?;
    let to = text.size.min(text.at + CHUNK);
    state.out.extend_from_slice(&ctx.heap.bytes(source)[text.at..to]);
    if to < text.size {
        state.text = Some(PackedText { at: to, ..text });
    } else if text.ends_with_zero {
        state.out.push(0);
    }
    Ok(ctx.charge(cost(to - text.at)))
}

/// The state of an unpacking between two options; the window has the results after the two arguments.
struct StructUnpacking {
    format: FormatReader,
    at: usize,
    count: usize,
    text: Option<UnpackedText>,
}

/// A string that is being read, from the unpacking's position on.
struct UnpackedText {
    copy: Vec<u8>,
    /// The length of the string. As long as the zero byte that ends the string is not found, the number of
    /// bytes searched so far.
    size: usize,
    ends_with_zero: bool,
    is_found: bool,
}

fn unpack(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_str(1)?;
    ctx.check_str(2)?;
    let position = ctx.opt_int(3, 1)?;
    if position == 0 {
        return Err(Fault::argument(3, "offset must be 1 or greater"));
    }
    ctx.truncate(2);
    unpack_fields(
        ctx,
        StructUnpacking {
            format: FormatReader::new(),
            at: (position as usize).wrapping_sub(1),
            count: 0,
            text: None,
        },
    )
}

fn unpack_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<StructUnpacking>() else { return Ok(NativeStep::Return(0)) };
    unpack_fields(ctx, *state)
}

fn unpack_fields(ctx: &mut Ctx<'_>, mut state: StructUnpacking) -> Result<NativeStep, Fault> {
    let (format, data) = (ctx.check_str(1)?, ctx.check_str(2)?);
    let too_short = || Fault::argument(2, "data string too short");
    loop {
        if let Some(text) = state.text.take() {
            if !unpack_piece(ctx, &mut state, text)? {
                return Ok(NativeStep::Pause(Box::new(state)));
            }
            continue;
        }
        let before = state.format.at;
        let Some(field) = state.format.next(ctx.heap.bytes(format), state.at)? else { break };
        state.at = state.at.wrapping_add(field.padding);
        let rest = ctx.heap.bytes(data).get(state.at..).ok_or_else(too_short)?;
        let bytes = rest.get(..field.size).ok_or_else(too_short)?;
        check_stack(ctx, 2, "too many results")?;
        let mut used = field.size;
        match field.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = integer(bytes, &state.format, field.letter.is_ascii_lowercase());
                push(ctx, &mut state, Value::number(value));
            }
            b'x' => {}
            b'f' => {
                let mut word = [0; 4];
                word.copy_from_slice(bytes);
                state.format.order(&mut word);
                push(ctx, &mut state, Value::number(f64::from(f32::from_le_bytes(word))));
            }
            b'd' => {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                state.format.order(&mut word);
                push(ctx, &mut state, Value::number(f64::from_le_bytes(word)));
            }
            b'c' => {
                let size = if field.size == 0 { previous(ctx, &mut state)? } else { field.size };
                if ctx.heap.bytes(data)[state.at..].get(..size).is_none() {
                    return Err(too_short());
                }
                used = 0;
                let mut copy = Vec::new();
                reserve(ctx.heap, &mut copy, size)?;
                state.text = Some(UnpackedText { copy, size, ends_with_zero: false, is_found: true });
            }
            b's' => {
                let copy = Vec::new();
                state.text = Some(UnpackedText { copy, size: 0, ends_with_zero: true, is_found: false });
            }
            letter => state.format.control(ctx.heap.bytes(format), letter)?,
        }
        state.at += used;
        if !ctx.charge(cost(used + state.format.read_since(before))) {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
    push(ctx, &mut state, Value::NIL);
    let slot = ctx.count();
    // The position is a C integer in the reference, so a negative one stays negative.
    ctx.set(slot, Value::number(state.at.wrapping_add(1) as i64 as f64));
    Ok(NativeStep::Return(state.count))
}

/// Searches for the end of a string, or copies a piece of the string; a string that is copied completely
/// becomes a value. Returns false if the budget is used up.
fn unpack_piece(
    ctx: &mut Ctx<'_>,
    state: &mut StructUnpacking,
    mut text: UnpackedText,
) -> Result<bool, Fault> {
    let data = ctx.check_str(2)?;
    let rest = &ctx.heap.bytes(data)[state.at..];
    if !text.is_found {
        let ahead = &rest[text.size..];
        let ahead = &ahead[..ahead.len().min(CHUNK)];
        if ahead.is_empty() {
            return Err(Fault::text("unfinished string in data"));
        }
        let zero = ahead.iter().position(|&byte| byte == 0);
        let searched = zero.unwrap_or(ahead.len());
        text.size += searched;
        if zero.is_some() {
            text.is_found = true;
            reserve(ctx.heap, &mut text.copy, text.size)?;
        }
        state.text = Some(text);
        return Ok(ctx.charge(cost(searched)));
    }
    let from = text.copy.len();
    let to = text.size.min(from + CHUNK);
    text.copy.extend_from_slice(&rest[from..to]);
    if to == text.size {
        state.at += text.size + usize::from(text.ends_with_zero);
        let value = ctx.heap.take_string(text.copy)?;
        push(ctx, state, value);
    } else {
        state.text = Some(text);
    }
    Ok(ctx.charge(cost(to - from)))
}

fn push(ctx: &mut Ctx<'_>, state: &mut StructUnpacking, value: Value) {
    ctx.push(value);
    state.count += 1;
}

/// Removes the last result, a number, and returns it as the size of the next string.
fn previous(ctx: &mut Ctx<'_>, state: &mut StructUnpacking) -> Result<usize, Fault> {
    let last = ctx.arg(ctx.count());
    let number = if state.count == 0 { None } else { ctx.to_number(last) };
    let number = number.ok_or_else(|| Fault::text("format 'c0' needs a previous size"))?;
    let count = ctx.count() - 1;
    ctx.truncate(count);
    state.count -= 1;
    Ok(usize::try_from(to_u64(number)).unwrap_or(usize::MAX))
}

/// An integer of any size; bits beyond 64 are dropped.
fn integer(bytes: &[u8], format: &FormatReader, signed: bool) -> f64 {
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if format.big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) };
    if !signed {
        return value as f64;
    }
    // The reference's sign extension takes the shift count modulo 64, because the processor does.
    let mask = u64::MAX << ((bytes.len() as u32).wrapping_mul(8).wrapping_sub(1) & 63);
    let value = if value & mask != 0 { value | mask } else { value };
    value as i64 as f64
}

/// The state of computing a size, between two options.
struct Sizing {
    format: FormatReader,
    total: usize,
}

fn size(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_str(1)?;
    size_fields(ctx, Sizing { format: FormatReader::new(), total: 0 })
}

fn size_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Sizing>() else { return Ok(NativeStep::Return(0)) };
    size_fields(ctx, *state)
}

fn size_fields(ctx: &mut Ctx<'_>, mut state: Sizing) -> Result<NativeStep, Fault> {
    let format = ctx.check_str(1)?;
    loop {
        let before = state.format.at;
        let Some(field) = state.format.next(ctx.heap.bytes(format), state.total)? else { break };
        state.total = state.total.saturating_add(field.padding);
        match (field.letter, field.size) {
            (b's', _) => return Err(Fault::argument(1, "option 's' has no fixed size")),
            (b'c', 0) => return Err(Fault::argument(1, "option 'c0' has no fixed size")),
            (letter, _) if !letter.is_ascii_alphanumeric() => {
                state.format.control(ctx.heap.bytes(format), letter)?;
            }
            _ => {}
        }
        state.total = state.total.saturating_add(field.size);
        if !ctx.charge(cost(state.format.read_since(before))) {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
    ctx.one(Value::number(state.total as f64))
}

/// Reads any bytes as a format, for fuzzing.
pub fn fuzz_struct(data: &[u8]) {
    let mut format = FormatReader::new();
    let mut total = 0usize;
    while let Ok(Some(field)) = format.next(data, total) {
        assert!(field.padding < 8 || field.padding < format.align);
        total = total.saturating_add(field.padding).saturating_add(field.size);
        if !field.letter.is_ascii_alphanumeric() && format.control(data, field.letter).is_err() {
            break;
        }
    }
}
