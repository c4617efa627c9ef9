//! `bit`: operations on the low 32 bits of numbers, as the library BitOp defines them.

use crate::fault::Fault;
use crate::native::{Ctx, Library, Native, NativeStep};
use crate::value::Value;

const FUNCTIONS: &[Native] = &[
    Native::plain("tobit", |ctx| one_word(ctx, |word| word)),
    Native::plain("bnot", |ctx| one_word(ctx, |word| !word)),
    Native::plain("band", |ctx| all_words(ctx, |a, b| a & b)),
    Native::plain("bor", |ctx| all_words(ctx, |a, b| a | b)),
    Native::plain("bxor", |ctx| all_words(ctx, |a, b| a ^ b)),
    Native::plain("lshift", |ctx| shift(ctx, |word, count| word << count)),
    Native::plain("rshift", |ctx| shift(ctx, |word, count| word >> count)),
    Native::plain("arshift", |ctx| shift(ctx, |word, count| (word as i32 >> count) as u32)),
    Native::plain("rol", |ctx| shift(ctx, u32::rotate_left)),
    Native::plain("ror", |ctx| shift(ctx, u32::rotate_right)),
    Native::plain("bswap", |ctx| one_word(ctx, u32::swap_bytes)),
    Native::plain("tohex", tohex),
];

/// Makes the table `bit`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    lib.table(b"bit", FUNCTIONS).map(drop)
}

/// The low 32 bits of an argument: rounded to nearest, ties to even, modulo 2^32.
///
/// BitOp adds 2^52 + 2^51 and takes the low bits of the sum. This function does so too, because the result
/// for numbers beyond 2^51 depends on it.
fn word(ctx: &Ctx<'_>, index: usize) -> Result<u32, Fault> {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    Ok((ctx.check_number(index)? + MAGIC).to_bits() as u32)
}

/// Returns a word as a signed number.
fn answer(ctx: &mut Ctx<'_>, word: u32) -> Result<NativeStep, Fault> {
    ctx.one(Value::number(f64::from(word as i32)))
}

fn one_word(ctx: &mut Ctx<'_>, operation: fn(u32) -> u32) -> Result<NativeStep, Fault> {
    let word = word(ctx, 1)?;
    answer(ctx, operation(word))
}

fn all_words(ctx: &mut Ctx<'_>, operation: fn(u32, u32) -> u32) -> Result<NativeStep, Fault> {
    let mut result = word(ctx, 1)?;
    for index in (2..=ctx.count()).rev() {
        result = operation(result, word(ctx, index)?);
    }
    ctx.charge(ctx.count() as u64);
    answer(ctx, result)
}

fn shift(ctx: &mut Ctx<'_>, operation: fn(u32, u32) -> u32) -> Result<NativeStep, Fault> {
    let (value, count) = (word(ctx, 1)?, word(ctx, 2)? & 31);
    answer(ctx, operation(value, count))
}

/// Returns the last digits of a word, at most eight; a negative number of digits means upper case. The number
/// is not negated, because the smallest integer has no positive counterpart: negating it caused
/// CVE-2024-31449.
fn tohex(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let value = word(ctx, 1)?;
    let count = if ctx.count() < 2 { 8 } else { word(ctx, 2)? as i32 };
    let digits = count.unsigned_abs().min(8) as usize;
    let text = if count < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let result = ctx.heap.new_string(&text.as_bytes()[8 - digits..])?;
    ctx.one(result)
}
