//! Integers and doubles as the wire writes them.
//!
//! Invariants: (1) [`parse_i64`] and `push_i64` are inverses, because only the canonical decimal form is a
//! number, so that a value kept as an integer prints as the bytes the client sent; (2) except for NaN,
//! [`push_f64`] prints what [`parse_f64`] reads back to the same bits.

use crate::grisu::{self, ShortestDigits};
use std::io::Write;

/// Parses the canonical decimal form of an `i64`: no plus sign, no spaces, no leading zeros, no `-0`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    if let [b'-', digits @ ..] = text {
        let magnitude = parse_u64(digits)?;
        if magnitude == 0 || magnitude > i64::MIN.unsigned_abs() {
            return None;
        }
        return Some((magnitude as i64).wrapping_neg());
    }
    i64::try_from(parse_u64(text)?).ok()
}

/// Parses the canonical decimal form of a `u64`: digits only, no leading zeros.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (&first, rest) = text.split_first()?;
    let mut value = u64::from(first.wrapping_sub(b'0'));
    if value > 9 || (value == 0 && !rest.is_empty()) || rest.len() > 19 {
        return None;
    }
    // Nineteen digits cannot overflow, so only the twentieth is added with a check.
    let (safe, last) = rest.split_at(rest.len().min(18));
    for &byte in safe {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    if let [byte] = last {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Appends the decimal form of `value`: 1 to 20 bytes.
#[inline]
pub(crate) fn push_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the decimal form of `value`: 1 to 20 bytes.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Length of the decimal form of `value`, sign included.
pub fn digits_i64(value: i64) -> usize {
    digits(value.unsigned_abs()) + usize::from(value < 0)
}

/// A buffer for the decimal form of an integer, without an allocation.
pub struct IntBuffer(itoa::Buffer);

impl IntBuffer {
    /// An empty buffer on the stack.
    #[inline]
    pub fn new() -> IntBuffer {
        IntBuffer(itoa::Buffer::new())
    }

    /// The decimal form of `value`.
    #[inline]
    pub fn format(&mut self, value: i64) -> &[u8] {
        self.0.format(value).as_bytes()
    }
}

impl Default for IntBuffer {
    fn default() -> IntBuffer {
        IntBuffer::new()
    }
}

/// The number of bytes that [`push_u64`] appends for `value`: 1 to 20.
#[inline]
pub fn digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Parses a double by the rules of scores and coordinates.
///
/// Accepts a decimal number with an optional sign, fraction and exponent, or `inf` or `infinity` in any
/// case. `None` if anything surrounds the number (spaces, NUL), for hexadecimal, for NaN, for a finite
/// text whose value is infinite, and for one that rounds to zero without being zero.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(whole) = parse_short_whole(text) {
        return Some(whole);
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    if value.is_nan() {
        return None;
    }
    if value.is_infinite() && text.iter().any(u8::is_ascii_digit) {
        return None;
    }
    if value == 0.0 && significand(text).any(|byte| matches!(byte, b'1'..=b'9')) {
        return None;
    }
    Some(value)
}

/// Parses a whole number of up to fifteen digits with an optional minus. Most scores are such numbers, and a
/// double holds each of them exactly.
#[inline]
fn parse_short_whole(text: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let mut value = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    let value = value as f64;
    Some(if is_negative { -value } else { value })
}

/// Parses the bound of a score range by the rules of a C string: up to the first NUL; an empty text is zero.
///
/// Unlike [`parse_f64`], a number that is too large is infinite, and one that is too small is zero.
pub fn parse_f64_bound(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    if end == 0 {
        return Some(0.0);
    }
    let value: f64 = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    (!value.is_nan()).then_some(value)
}

fn significand(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    text.iter().copied().take_while(|byte| !matches!(byte, b'e' | b'E'))
}

/// Appends `value` in the form of replies and listings: `inf`, `-inf`, `nan`, `-0`, a plain integer if
/// it is one within ±2^62, otherwise the digits of Grisu2. 1 to 25 bytes.
pub fn push_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
    } else if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if let Some(whole) = as_whole(value) {
        push_i64(out, whole);
    } else {
        push_digits(out, value);
    }
}

/// Appends `value` by its shortest digits, also if it is a whole number: 1e+15 and not 1000000000000000.
/// 1 to 25 bytes.
pub fn push_f64_shortest(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() && value != 0.0 {
        push_digits(out, value);
    } else {
        push_f64(out, value);
    }
}

/// Appends `value` with 17 significant digits without trailing zeros, as C's `%.17g` does: 0.1 is
/// 0.10000000000000001. 1 to 24 bytes.
pub fn push_f64_17(out: &mut Vec<u8>, value: f64) {
    const DIGITS: i32 = 17;
    if !value.is_finite() || value == 0.0 {
        return push_f64(out, value);
    }
    // A whole number of up to 15 digits, which most scores are, has no further digits.
    if value.abs() < 1e15 && value.trunc() == value {
        return push_i64(out, value as i64);
    }
    let mut text = [0; 32];
    let mut rest = &mut text[..];
    // The buffer holds 17 digits, a point, an `e`, and after it an exponent of up to four bytes.
    if write!(rest, "{:.16e}", value.abs()).is_err() {
        return;
    }
    let written = 32 - rest.len();
    let Some(mantissa_len) = text[..written].iter().position(|byte| *byte == b'e') else { return };
    let exponent = parse_i64(&text[mantissa_len + 1..written]).unwrap_or(0) as i32;
    // Removes the point by moving the first digit to its place.
    text[1] = text[0];
    let digits = &text[1..mantissa_len];
    let len = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..len];
    if value < 0.0 {
        out.push(b'-');
    }
    // This is the number of digits in front of the point, if the text has no exponent.
    let ahead = usize::try_from(exponent + 1).unwrap_or(0);
    if !(-4..DIGITS).contains(&exponent) {
        out.push(digits[0]);
        if len > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a vector does not fail.
        let _ = write!(out, "e{sign}{:02}", exponent.abs());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', exponent.unsigned_abs() as usize - 1));
        out.extend_from_slice(digits);
    } else if len <= ahead {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', ahead - len));
    } else {
        out.extend_from_slice(&digits[..ahead]);
        out.push(b'.');
        out.extend_from_slice(&digits[ahead..]);
    }
}

/// Appends a finite number other than zero by the digits of Grisu2.
fn push_digits(out: &mut Vec<u8>, value: f64) {
    if value < 0.0 {
        out.push(b'-');
    }
    layout(out, &grisu::shortest(value.abs()));
}

/// Appends digits in the layout of the wire: plain if that is short, else `d.ddde±x`.
fn layout(out: &mut Vec<u8>, digits: &ShortestDigits) {
    let text = &digits.text[..digits.len];
    let len = digits.len as i32;
    let point = digits.exp10 + len;
    let magnitude = (point - 1).abs();
    if digits.exp10 >= 0 && magnitude < len + 7 {
        out.extend_from_slice(text);
        out.resize(out.len() + digits.exp10 as usize, b'0');
        return;
    }
    if digits.exp10 < 0 && (digits.exp10 > -7 || magnitude < 4) {
        if point <= 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + point.unsigned_abs() as usize, b'0');
            out.extend_from_slice(text);
        } else {
            let (whole, fraction) = text.split_at(point as usize);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
        return;
    }
    out.push(text[0]);
    if digits.len > 1 {
        out.push(b'.');
        out.extend_from_slice(&text[1..]);
    }
    out.extend_from_slice(if point < 1 { b"e-" } else { b"e+" });
    push_u64(out, u64::from(magnitude.unsigned_abs()));
}

/// `value` as an integer, if it is one within ±2^62. Such values print in full, larger
/// ones in shortest digits.
#[inline]
pub(crate) fn as_whole(value: f64) -> Option<i64> {
    const BOUND: f64 = (1u64 << 62) as f64;
    if !(-BOUND..=BOUND).contains(&value) {
        return None;
    }
    let whole = value as i64;
    (whole as f64 == value).then_some(whole)
}

#[cfg(test)]
mod tests;
