//! The 80-bit extended double of the x87, as INCRBYFLOAT and HINCRBYFLOAT compute with it.
//!
//! Clients and replicas see values that depend on its 64-bit significand, so it is emulated on every machine.
//! Texts are read as C's `strtold` reads them and printed with at most 17 digits after the point.
//!
//! Invariants: (1) every operation rounds once, to nearest, ties to even; (2) text of the usual size (up
//! to 19 digits, a small exponent) is read without big numbers; `rustc_apfloat`, which is exact for any
//! length, reads all other text.

use std::cmp::Ordering;
use std::ops::{Add, Neg, Sub};

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round};

use crate::num;

/// An extended double: finite, infinite, or NaN as the result of an addition or subtraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongDouble(X87DoubleExtended);

impl LongDouble {
    /// Zero, without a sign.
    pub const ZERO: LongDouble = LongDouble(X87DoubleExtended::ZERO);

    /// The largest finite value.
    pub fn largest() -> LongDouble {
        LongDouble(X87DoubleExtended::largest())
    }

    /// Reads all of `text`: decimal or hexadecimal, or `inf` or `infinity` in any case.
    ///
    /// `None` if anything surrounds the number, for NaN, for a finite text that overflows, for one that
    /// rounds to zero without being zero, and for 5,120 bytes or more. Cost: usually linear, otherwise
    /// quadratic in the digits.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let magnitude = match text {
            [b'0', b'x' | b'X', hex @ ..] => parse_hex(hex)?,
            [b'i' | b'I', ..] => {
                let infinite = text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity");
                infinite.then_some(X87DoubleExtended::INFINITY)?
            }
            decimal => parse_decimal(decimal)?,
        };
        Some(LongDouble(if negative { -magnitude } else { magnitude }))
    }

    /// Whether the value is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The value in seconds as milliseconds, rounded up. `None` for NaN and infinities, and when the
    /// milliseconds do not lie between the extremes of an `i64`.
    pub fn ceil_millis(self) -> Option<i64> {
        let thousand = X87DoubleExtended::from_u128(1000).value;
        let millis = self.0.mul_r(thousand, Round::NearestTiesToEven).value;
        if !millis.is_finite() {
            return None;
        }
        let mut exact = false;
        let whole = millis.to_i128_r(64, Round::TowardPositive, &mut exact);
        // A number out of range is converted to the largest or smallest integer, which is refused, too.
        i64::try_from(whole.value).ok().filter(|&value| value != i64::MAX && value != i64::MIN)
    }

    /// Appends the value with up to 17 digits after the point, without trailing zeros; zero has no sign.
    /// Appends nothing for a value that is not finite, otherwise 1 to 4,933 bytes, and a sign if the number
    /// is negative.
    pub fn push(self, out: &mut Vec<u8>) {
        if !self.is_finite() {
            return;
        }
        let bits = self.0.to_bits();
        let significand = bits as u64;
        let biased = ((bits >> 64) & 0x7fff) as i32;
        let negative = bits >> 79 == 1;
        let exp2 = biased.max(1) - EXPONENT_BIAS - 63;
        if exp2 >= 0 {
            if negative {
                out.push(b'-');
            }
            push_shifted(out, significand, exp2.unsigned_abs());
            return;
        }
        let (whole, fraction) = fixed(significand, exp2.unsigned_abs());
        if negative && (whole, fraction) != (0, 0) {
            out.push(b'-');
        }
        num::push_u64(out, whole);
        if fraction != 0 {
            // The digit 1 in front keeps the leading zeros of the fraction; the point replaces it.
            let point = out.len();
            num::push_u64(out, FRACTION_UNIT + fraction);
            out[point] = b'.';
            let zeros = out.iter().rev().take_while(|&&byte| byte == b'0').count();
            out.truncate(out.len() - zeros);
        }
    }
}

impl Add for LongDouble {
    type Output = LongDouble;

    /// The sum, rounded once. Infinite when it overflows, NaN for infinities of different signs.
    fn add(self, other: LongDouble) -> LongDouble {
        LongDouble(self.0.add_r(other.0, Round::NearestTiesToEven).value)
    }
}

impl Sub for LongDouble {
    type Output = LongDouble;

    /// The difference, rounded once. Infinite when it overflows, NaN for infinities of one sign.
    fn sub(self, other: LongDouble) -> LongDouble {
        LongDouble(self.0.sub_r(other.0, Round::NearestTiesToEven).value)
    }
}

impl Neg for LongDouble {
    type Output = LongDouble;

    fn neg(self) -> LongDouble {
        LongDouble(-self.0)
    }
}

impl PartialOrd for LongDouble {
    fn partial_cmp(&self, other: &LongDouble) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

/// Entry point of the fuzzer: what can be read can be printed, and what is printed can be read.
pub fn fuzz_long_double(data: &[u8]) {
    if let Some(value) = LongDouble::parse(data).filter(|value| value.is_finite()) {
        let mut text = Vec::new();
        value.push(&mut text);
        assert!(LongDouble::parse(&text).is_some());
        let _ = value.ceil_millis();
    }
}

/// `significand / 2^shift` as a whole number and units of 10^-17, rounded.
fn fixed(significand: u64, shift: u32) -> (u64, u64) {
    let whole = significand.checked_shr(shift).unwrap_or(0);
    let rest = if shift < 64 { significand & ((1 << shift) - 1) } else { significand };
    let product = u128::from(rest) * u128::from(FRACTION_UNIT);
    // The product is below 2^121, so after a shift by 122 or more it is less than half a unit.
    if shift > 121 {
        return (whole, 0);
    }
    let mut units = (product >> shift) as u64;
    let remainder = product & ((1 << shift) - 1);
    let half = 1u128 << (shift - 1);
    if remainder > half || (remainder == half && units % 2 == 1) {
        units += 1;
    }
    if units == FRACTION_UNIT { (whole + 1, 0) } else { (whole, units) }
}

/// Appends `significand * 2^shift`. Cost: quadratic in `shift`, some 300 µs for the largest value there is.
fn push_shifted(out: &mut Vec<u8>, significand: u64, mut shift: u32) {
    // The number in little-endian limbs of nine digits each.
    let mut limbs = vec![significand % LIMB, significand / LIMB % LIMB, significand / LIMB / LIMB];
    while shift > 0 {
        let step = shift.min(32);
        shift -= step;
        let mut carry = 0;
        for limb in &mut limbs {
            let value = (*limb << step) + carry;
            *limb = value % LIMB;
            carry = value / LIMB;
        }
        while carry > 0 {
            limbs.push(carry % LIMB);
            carry /= LIMB;
        }
    }
    while limbs.last() == Some(&0) && limbs.len() > 1 {
        limbs.pop();
    }
    num::push_u64(out, limbs[limbs.len() - 1]);
    for &limb in limbs.iter().rev().skip(1) {
        let mut text = [b'0'; 9];
        let mut rest = limb;
        for digit in text.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&text);
    }
}

/// A number without its sign, taken apart: digits with at most one point, and the exponent.
struct DecimalParts<'a> {
    digits: &'a [u8],
    /// Number of digits after the point.
    scale: usize,
    exponent: i64,
    zero: bool,
}

fn split<'a>(text: &'a [u8], mark: u8, is_digit: fn(&u8) -> bool) -> Option<DecimalParts<'a>> {
    let end = text.iter().position(|byte| byte.eq_ignore_ascii_case(&mark)).unwrap_or(text.len());
    let (digits, exponent) = text.split_at(end);
    let point = digits.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &digits[digits.len()..]),
    };
    let valid = whole.iter().chain(fraction).all(is_digit);
    if !valid || whole.len() + fraction.len() == 0 {
        return None;
    }
    let exponent = match exponent {
        [] => 0,
        [_, b'-', digits @ ..] => -parse_exponent(digits)?,
        [_, b'+', digits @ ..] | [_, digits @ ..] => parse_exponent(digits)?,
    };
    let zero = digits.iter().all(|&byte| matches!(byte, b'0' | b'.'));
    Some(DecimalParts { digits, scale: fraction.len(), exponent, zero })
}

/// The value of an exponent's digits, capped at about 10^9, beyond which all exponents act alike.
fn parse_exponent(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let fold = |value: i64, &byte: &u8| (value * 10 + i64::from(byte - b'0')).min(1_000_000_000);
    Some(digits.iter().fold(0, fold))
}

fn parse_decimal(text: &[u8]) -> Option<X87DoubleExtended> {
    let parts = split(text, b'e', u8::is_ascii_digit)?;
    if parts.zero {
        return Some(X87DoubleExtended::ZERO);
    }
    if let Some(value) = parse_short(&parts) {
        return Some(value);
    }
    let top = parts.exponent + significant(&parts) - parts.scale as i64;
    if !(-DECIMAL_EXPONENT_MAX..=DECIMAL_EXPONENT_MAX).contains(&top) {
        return None;
    }
    parse_long("", &parts, 'e')
}

fn parse_hex(text: &[u8]) -> Option<X87DoubleExtended> {
    let parts = split(text, b'p', u8::is_ascii_hexdigit)?;
    if parts.zero {
        return Some(X87DoubleExtended::ZERO);
    }
    let top = parts.exponent + 4 * (significant(&parts) - parts.scale as i64);
    if !(-BINARY_EXPONENT_MAX..=BINARY_EXPONENT_MAX).contains(&top) {
        return None;
    }
    parse_long("0x", &parts, 'p')
}

/// The number of digits after leading zeros.
fn significant(parts: &DecimalParts<'_>) -> i64 {
    let zeros = parts.digits.iter().take_while(|&&byte| matches!(byte, b'0' | b'.'));
    let counted = parts.digits.iter().filter(|&&byte| byte != b'.').count();
    (counted - zeros.filter(|&&byte| byte == b'0').count()) as i64
}

fn parse_long(prefix: &str, parts: &DecimalParts<'_>, mark: char) -> Option<X87DoubleExtended> {
    let digits = std::str::from_utf8(parts.digits).ok()?;
    let text = format!("{prefix}{digits}{mark}{}", parts.exponent);
    let value = X87DoubleExtended::from_str_r(&text, Round::NearestTiesToEven).ok()?.value;
    (value.is_finite() && !value.is_zero()).then_some(value)
}

/// The value of a number with up to 19 digits and a power of ten whose odd factor fits in 63 bits.
fn parse_short(parts: &DecimalParts<'_>) -> Option<X87DoubleExtended> {
    if significant(parts) > 19 {
        return None;
    }
    let exp10 = i32::try_from(parts.exponent - parts.scale as i64).ok()?;
    if exp10.unsigned_abs() > FIVES_MAX {
        return None;
    }
    let digits = parts.digits.iter().filter(|&&byte| byte != b'.');
    let number = digits.fold(0u64, |value, &byte| value * 10 + u64::from(byte - b'0'));
    let fives = 5u64.pow(exp10.unsigned_abs());
    if exp10 >= 0 {
        return Some(rounded(u128::from(number) * u128::from(fives), Rest::None, exp10));
    }
    // With the number's top bit set the quotient has 65 bits or more, so there is at least one bit to round
    // by in addition to the remainder.
    let shift = number.leading_zeros();
    let dividend = u128::from(number << shift) << 64;
    let divisor = u128::from(fives);
    let rest = if dividend % divisor == 0 { Rest::None } else { Rest::Some };
    Some(rounded(dividend / divisor, rest, exp10 - 64 - shift as i32))
}

/// Whether a nonzero remainder was cut off below the last bit.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    None,
    Some,
}

/// `(value + rest) * 2^exp2`, rounded; `value` is not zero, and has 65 bits or more if there is a rest.
fn rounded(value: u128, rest: Rest, mut exp2: i32) -> X87DoubleExtended {
    let width = 128 - value.leading_zeros();
    let mut significand = if width <= 64 {
        exp2 -= 64 - width as i32;
        (value as u64) << (64 - width)
    } else {
        let cut = width - 64;
        exp2 += cut as i32;
        let kept = (value >> cut) as u64;
        let below = value & ((1 << cut) - 1);
        let half = 1u128 << (cut - 1);
        let up = below > half || (below == half && (rest == Rest::Some || kept % 2 == 1));
        kept.wrapping_add(u64::from(up))
    };
    if significand == 0 {
        // The significand has been rounded up to the next power of two.
        significand = 1 << 63;
        exp2 += 1;
    }
    let biased = (exp2 + 63 + EXPONENT_BIAS) as u128;
    X87DoubleExtended::from_bits(biased << 64 | u128::from(significand))
}

const TEXT_BYTES_MAX: usize = 5 * 1024;
const EXPONENT_BIAS: i32 = 16383;
const FRACTION_UNIT: u64 = 100_000_000_000_000_000;
const LIMB: u64 = 1_000_000_000;
/// The largest power of five that `parse_short` uses; 5^27 is below 2^63.
const FIVES_MAX: u32 = 27;
/// Beyond this decimal exponent every value is infinite or zero, because the range ends at 1.19e4932 and
/// 3.6e-4951.
const DECIMAL_EXPONENT_MAX: i64 = 4960;
const BINARY_EXPONENT_MAX: i64 = 16500;

#[cfg(test)]
mod tests;
