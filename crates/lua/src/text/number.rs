//! Numbers out of text and into text.
//!
//! Invariants: (1) text is read as glibc's `strtod` and `strtoul` read it, because PUC's Lua calls these; (2)
//! a number becomes text as `printf("%.14g")` prints it; (3) nothing here allocates, and the cost is linear
//! in the length of the text.

use sluice_base::num::IntBuffer;

use super::decimal::{Alternate, Case, push_general};

/// Significant digits of a number that becomes text.
const DIGITS: usize = 14;

/// Below this magnitude a whole number has no more than [`DIGITS`] digits.
const WHOLE_BOUND: f64 = 1e14;

/// Appends `n` as Lua converts a number to text: `%.14g`. Without a number, `nan` or `-nan` by its sign.
pub(crate) fn push_number(out: &mut Vec<u8>, n: f64) {
    if n.abs() < WHOLE_BOUND && n.trunc() == n && (n != 0.0 || n.is_sign_positive()) {
        out.extend_from_slice(IntBuffer::new().format(n as i64));
        return;
    }
    push_general(out, n, DIGITS, Case::Lower, Alternate::No);
}

/// The number that the whole of `text` is, with white space around it; None where Lua's coercion fails.
///
/// Text ends at its first zero byte, as it does for C. Hexadecimal numbers, `inf`, `infinity`, `nan` and
/// `nan(…)` are numbers, because `strtod` takes them.
pub(crate) fn parse_number(text: &[u8]) -> Option<f64> {
    let text = c_text(text);
    let (number, used) = strtod(text)?;
    text[used..].iter().all(|&byte| is_space(byte)).then_some(number)
}

/// The number that the whole of `text` is in `base` (2 to 36), as `tonumber(text, base)` reads it by
/// `strtoul`: a minus wraps around, and what does not fit into 64 bits is their largest number.
pub(crate) fn parse_radix(text: &[u8], base: u32) -> Option<f64> {
    let text = c_text(text);
    let mut at = text.iter().take_while(|&&byte| is_space(byte)).count();
    let negative = text.get(at) == Some(&b'-');
    at += usize::from(matches!(text.get(at), Some(b'-' | b'+')));
    let digit = |at: usize| text.get(at).and_then(|&byte| (byte as char).to_digit(base));
    if base == 16
        && text.get(at) == Some(&b'0')
        && matches!(text.get(at + 1), Some(b'x' | b'X'))
        && digit(at + 2).is_some()
    {
        at += 2;
    }
    digit(at)?;
    let mut sum = Some(0u64);
    while let Some(value) = digit(at) {
        sum = sum.and_then(|sum| sum.checked_mul(u64::from(base))?.checked_add(u64::from(value)));
        at += 1;
    }
    if !text[at..].iter().all(|&byte| is_space(byte)) {
        return None;
    }
    let value = sum.map_or(u64::MAX, |sum| if negative { sum.wrapping_neg() } else { sum });
    Some(value as f64)
}

/// The number at the beginning of `text`, and how many bytes it takes with the white space before it; None
/// where there is none.
///
/// The longest beginning that is a number counts, as for `strtod`: of `1e+` that is `1`.
pub(crate) fn strtod(text: &[u8]) -> Option<(f64, usize)> {
    let start = text.iter().take_while(|&&byte| is_space(byte)).count();
    let negative = text.get(start) == Some(&b'-');
    let from = start + usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let rest = &text[from..];
    let (magnitude, used) =
        short_whole(rest).or_else(|| hexadecimal(rest)).or_else(|| decimal(rest)).or_else(|| named(rest))?;
    Some((if negative { -magnitude } else { magnitude }, from + used))
}

/// A whole number of at most 15 digits that nothing of a longer number follows.
fn short_whole(text: &[u8]) -> Option<(f64, usize)> {
    let mut sum = 0u64;
    let mut used = 0;
    while let Some(&byte @ b'0'..=b'9') = text.get(used) {
        if used == 15 {
            return None;
        }
        sum = sum * 10 + u64::from(byte - b'0');
        used += 1;
    }
    let goes_on = matches!(text.get(used), Some(b'.' | b'e' | b'E' | b'x' | b'X'));
    (used > 0 && !goes_on).then_some((sum as f64, used))
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = digits(text);
    let mut used = whole;
    if text.get(used) == Some(&b'.') {
        let fraction = digits(&text[used + 1..]);
        if whole + fraction == 0 {
            return None;
        }
        used += 1 + fraction;
    }
    if used == 0 {
        return None;
    }
    if matches!(text.get(used), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(used + 1), Some(b'-' | b'+')));
        let exponent = digits(&text[used + 1 + sign..]);
        if exponent > 0 {
            used += 1 + sign + exponent;
        }
    }
    let digits = std::str::from_utf8(&text[..used]).ok()?;
    Some((digits.parse().ok()?, used))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// `inf`, `infinity`, `nan`, `nan(letters)`, in either case.
fn named(text: &[u8]) -> Option<(f64, usize)> {
    let starts = |word: &[u8]| text.len() >= word.len() && text[..word.len()].eq_ignore_ascii_case(word);
    if starts(b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts(b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if !starts(b"nan") {
        return None;
    }
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let inside = text.get(4..).map_or(0, |rest| rest.iter().take_while(|byte| is_word(byte)).count());
    let closed = text.get(3) == Some(&b'(') && text.get(4 + inside) == Some(&b')');
    Some((f64::NAN, if closed { inside + 5 } else { 3 }))
}

/// The digits of a hexadecimal number as far as they count.
struct HexDigits {
    /// The first 60 to 64 bits.
    bits: u64,
    /// Whether a bit behind them is set.
    sticky: bool,
    /// The number is `bits * 2^exp`.
    exp: i64,
    /// Bytes read.
    used: usize,
}

/// `0x` with digits, a point and a binary exponent.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    if text.first() != Some(&b'0') || !matches!(text.get(1), Some(b'x' | b'X')) {
        return None;
    }
    let mut read = hex_digits(text)?;
    if matches!(text.get(read.used), Some(b'p' | b'P')) {
        let sign = text.get(read.used + 1);
        let from = read.used + 1 + usize::from(matches!(sign, Some(b'-' | b'+')));
        let count = digits(&text[from..]);
        if count > 0 {
            let value = text[from..from + count].iter().fold(0i64, |sum, byte| {
                sum.saturating_mul(10).saturating_add(i64::from(byte - b'0')).min(1 << 40)
            });
            read.exp += if sign == Some(&b'-') { -value } else { value };
            read.used = from + count;
        }
    }
    Some((scaled(read.bits, read.exp, read.sticky), read.used))
}

fn hex_digits(text: &[u8]) -> Option<HexDigits> {
    let mut read = HexDigits { bits: 0, sticky: false, exp: 0, used: 2 };
    let mut point = false;
    let mut any = false;
    loop {
        match text.get(read.used) {
            Some(b'.') if !point => point = true,
            Some(byte) if byte.is_ascii_hexdigit() => {
                let digit = (*byte as char).to_digit(16).map_or(0, u64::from);
                any = true;
                if read.bits >> 60 == 0 {
                    read.bits = read.bits << 4 | digit;
                    read.exp -= if point { 4 } else { 0 };
                } else {
                    read.sticky |= digit != 0;
                    read.exp += if point { 0 } else { 4 };
                }
            }
            _ => break,
        }
        read.used += 1;
    }
    any.then_some(read)
}

/// `bits * 2^exp`, rounded to the nearest double, halves to the even one; `sticky` says that bits behind are
/// lost.
fn scaled(bits: u64, exp: i64, sticky: bool) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let shift = bits.leading_zeros();
    let bits = bits << shift;
    // The leading bit is worth 2^top.
    let top = exp - i64::from(shift) + 63;
    if top > 1023 {
        return f64::INFINITY;
    }
    let kept = if top >= -1022 { 53 } else { 53 - (-1022 - top) };
    if kept < 0 {
        return 0.0;
    }
    let dropped = 64 - kept as u32;
    let (mantissa, rest) = if dropped == 64 { (0, bits) } else { (bits >> dropped, bits << (64 - dropped)) };
    let half = 1u64 << 63;
    let up = rest > half || rest == half && (sticky || mantissa & 1 == 1);
    let rounded = mantissa + u64::from(up);
    // The hidden bit adds one to the exponent, and so does a carry out of the mantissa.
    let base = if top >= -1022 { ((top + 1022) as u64) << 52 } else { 0 };
    f64::from_bits(base + rounded)
}

/// `text` as C sees it: up to the first zero byte.
pub(crate) fn c_text(text: &[u8]) -> &[u8] {
    text.iter().position(|&byte| byte == 0).map_or(text, |end| &text[..end])
}

/// `n` as C on x86-64 converts a double to `int64_t`: towards zero, and `i64::MIN` for what does not fit.
pub(crate) fn to_i64(n: f64) -> i64 {
    if (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&n) { n as i64 } else { i64::MIN }
}

/// `n` as C on x86-64 converts a double to `uint64_t`: negative numbers wrap around, and numbers from 2^64
/// on are 0.
pub(crate) fn to_u64(n: f64) -> u64 {
    const HALF: f64 = 9.223_372_036_854_776e18;
    if n >= HALF { to_i64(n - HALF) as u64 ^ 1 << 63 } else { to_i64(n) as u64 }
}

/// `n` as C on x86-64 converts a double to `int32_t`: towards zero, and `i32::MIN` for what does not fit.
pub(crate) fn to_i32(n: f64) -> i32 {
    if n > -2_147_483_649.0 && n < 2_147_483_648.0 { n as i32 } else { i32::MIN }
}

/// White space of the C locale.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests;
