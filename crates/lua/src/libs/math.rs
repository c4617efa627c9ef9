//! The library `math`: C's functions, and a generator of random numbers whose state the host keeps.
//!
//! The generator is that of `drand48`, with 48 bits of state; a random number gets 31 of them. The host
//! passes the state on from run to run, because the reference's server has one generator for all scripts.

use crate::fault::Fault;
use crate::native::{Ctx, Library, Native, NativeStep};
use crate::value::Value;

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

const FUNCTIONS: &[Native] = &[
    Native::plain("abs", |ctx| one_number(ctx, f64::abs)),
    Native::plain("acos", |ctx| one_number(ctx, f64::acos)),
    Native::plain("asin", |ctx| one_number(ctx, f64::asin)),
    Native::plain("atan2", |ctx| two_numbers(ctx, f64::atan2)),
    Native::plain("atan", |ctx| one_number(ctx, f64::atan)),
    Native::plain("ceil", |ctx| one_number(ctx, f64::ceil)),
    Native::plain("cosh", |ctx| one_number(ctx, f64::cosh)),
    Native::plain("cos", |ctx| one_number(ctx, f64::cos)),
    Native::plain("deg", |ctx| one_number(ctx, |x| x / RADIANS_PER_DEGREE)),
    Native::plain("exp", |ctx| one_number(ctx, f64::exp)),
    Native::plain("floor", |ctx| one_number(ctx, f64::floor)),
    Native::plain("fmod", |ctx| two_numbers(ctx, |x, y| x % y)),
    Native::plain("frexp", frexp),
    Native::plain("ldexp", ldexp),
    Native::plain("log10", |ctx| one_number(ctx, f64::log10)),
    Native::plain("log", |ctx| one_number(ctx, f64::ln)),
    Native::plain("max", |ctx| extreme(ctx, |new, best| new > best)),
    Native::plain("min", |ctx| extreme(ctx, |new, best| new < best)),
    Native::plain("modf", modf),
    Native::plain("pow", |ctx| two_numbers(ctx, f64::powf)),
    Native::plain("rad", |ctx| one_number(ctx, |x| x * RADIANS_PER_DEGREE)),
    Native::plain("random", random),
    Native::plain("randomseed", randomseed),
    Native::plain("sinh", |ctx| one_number(ctx, f64::sinh)),
    Native::plain("sin", |ctx| one_number(ctx, f64::sin)),
    Native::plain("sqrt", |ctx| one_number(ctx, f64::sqrt)),
    Native::plain("tanh", |ctx| one_number(ctx, f64::tanh)),
    Native::plain("tan", |ctx| one_number(ctx, f64::tan)),
];

/// Makes the table `math`.
pub(crate) fn open(lib: &mut Library<'_>) -> Result<(), Fault> {
    let table = lib.table(b"math", FUNCTIONS)?;
    lib.field(table, b"pi", Value::number(std::f64::consts::PI))?;
    lib.field(table, b"huge", Value::number(f64::INFINITY))?;
    let fmod = lib.heap.get_text(table, b"fmod");
    lib.field(table, b"mod", fmod)
}

fn one_number(ctx: &mut Ctx<'_>, function: fn(f64) -> f64) -> Result<NativeStep, Fault> {
    let x = ctx.check_number(1)?;
    ctx.one(Value::number(function(x)))
}

fn two_numbers(ctx: &mut Ctx<'_>, function: fn(f64, f64) -> f64) -> Result<NativeStep, Fault> {
    // The reference checks the second argument first.
    let y = ctx.check_number(2)?;
    let x = ctx.check_number(1)?;
    ctx.one(Value::number(function(x, y)))
}

fn extreme(ctx: &mut Ctx<'_>, is_better: fn(f64, f64) -> bool) -> Result<NativeStep, Fault> {
    let mut best = ctx.check_number(1)?;
    for index in 2..=ctx.count() {
        let number = ctx.check_number(index)?;
        if is_better(number, best) {
            best = number;
        }
    }
    ctx.charge(ctx.count() as u64);
    ctx.one(Value::number(best))
}

fn modf(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let x = ctx.check_number(1)?;
    let fraction = if x.is_infinite() { 0.0f64.copysign(x) } else { (x - x.trunc()).copysign(x) };
    ctx.push(Value::number(x.trunc()));
    ctx.push(Value::number(fraction));
    Ok(NativeStep::Return(2))
}

fn frexp(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let x = ctx.check_number(1)?;
    let (fraction, exponent) = split(x);
    ctx.push(Value::number(fraction));
    ctx.push(Value::number(f64::from(exponent)));
    Ok(NativeStep::Return(2))
}

/// The number as a fraction, whose absolute value is from 0.5 up to 1, and the exponent of the power of two
/// by which the fraction is multiplied. Zeros, infinities and NaN are returned unchanged, with the exponent
/// 0.
fn split(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (scaled, shift) = if x.abs() < f64::MIN_POSITIVE { (x * 2f64.powi(54), 54) } else { (x, 0) };
    let bits = scaled.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent - shift)
}

fn ldexp(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    // The reference checks the second argument first.
    let exponent = ctx.check_int(2)? as i32;
    let x = ctx.check_number(1)?;
    ctx.one(Value::number(scale(x, exponent)))
}

/// `x * 2^exponent`, rounded once.
fn scale(x: f64, exponent: i32) -> f64 {
    let (fraction, own) = split(x);
    if fraction == 0.0 || !fraction.is_finite() {
        return x;
    }
    let exponent = own.saturating_add(exponent);
    if exponent > 1024 {
        return f64::INFINITY.copysign(x);
    }
    if exponent < -1080 {
        return 0.0f64.copysign(x);
    }
    // Each branch multiplies twice, so that no factor is outside the range of normal numbers. Only the last
    // multiplication of the second branch may round.
    if exponent >= -1021 {
        return fraction * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
    }
    fraction * 2f64.powi(-1021) * 2f64.powi(exponent + 1021)
}

/// The next 31 bits of the generator, as by `lrand48`.
fn next_random(state: &mut u64) -> u32 {
    *state = (state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb)) & ((1 << 48) - 1);
    (*state >> 17) as u32
}

fn random(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    const SPAN: u32 = i32::MAX as u32;
    let bits = next_random(&mut ctx.heap.host.random);
    let fraction = f64::from(bits % SPAN) / f64::from(SPAN);
    let (low, high) = match ctx.count() {
        0 => return ctx.one(Value::number(fraction)),
        1 => {
            let high = ctx.check_int(1)? as i32;
            if high < 1 {
                return Err(Fault::argument(1, "interval is empty"));
            }
            (1, high)
        }
        2 => {
            let (low, high) = (ctx.check_int(1)? as i32, ctx.check_int(2)? as i32);
            if low > high {
                return Err(Fault::argument(2, "interval is empty"));
            }
            (low, high)
        }
        _ => return Err(Fault::text("wrong number of arguments")),
    };
    // C's `int` wraps around if the interval is wider than its range.
    let width = high.wrapping_sub(low).wrapping_add(1);
    ctx.one(Value::number((fraction * f64::from(width)).floor() + f64::from(low)))
}

fn randomseed(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let seed = ctx.check_int(1)? as u32;
    ctx.heap.host.random = u64::from(seed) << 16 | 0x330e;
    Ok(NativeStep::Return(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_split_and_scaled_as_c_does() {
        assert_eq!(split(8.0), (0.5, 4));
        assert_eq!(split(-3.0), (-0.75, 2));
        assert_eq!(split(5e-324), (0.5, -1073));
        assert_eq!(split(f64::MAX), (1.0 - f64::EPSILON / 2.0, 1024));
        assert_eq!(scale(0.5, 4), 8.0);
        assert_eq!(scale(1.0, -1074), 5e-324);
        assert_eq!(scale(1.0, -1075), 0.0);
        assert_eq!(scale(1.5, -1075), 5e-324);
        assert_eq!(scale(5e-324, 1074), 1.0);
        assert_eq!(scale(f64::MAX, 1), f64::INFINITY);
        assert_eq!(scale(f64::MAX, 0), f64::MAX);
        assert_eq!(scale(-1.0, i32::MAX), f64::NEG_INFINITY);
        assert_eq!(scale(-1.0, i32::MIN).to_bits(), (-0.0f64).to_bits());
    }
}
