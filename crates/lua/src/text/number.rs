//! Conversion of text to numbers, and of numbers to text.
//!
//! Invariants: (1) text is parsed as by glibc's `strtod` and `strtoul`, because PUC-Rio's Lua calls them; (2)
//! a number is printed as by `printf("%.14g")`; (3) parsing allocates nothing, and its cost is linear in the
//! length of the text.

use sluice_base::num::IntBuffer;

use super::decimal::{Alternate, Case, push_general};

/// Significant digits of a number's text.
const DIGITS: usize = 14;

/// A whole number below this magnitude has at most [`DIGITS`] digits.
const WHOLE_BOUND: f64 = 1e14;

/// Appends `n` as Lua converts a number to text: `%.14g`. A NaN becomes `nan` or `-nan`, depending on its
/// sign.
pub(crate) fn push_number(out: &mut Vec<u8>, n: f64) {
    if n.abs() < WHOLE_BOUND && n.trunc() == n && (n != 0.0 || n.is_sign_positive()) {
        out.extend_from_slice(IntBuffer::new().format(n as i64));
        return;
    }
    push_general(out, n, DIGITS, Case::Lower, Alternate::No);
}

/// The number in `text`, with white space allowed around it; `None` if Lua's coercion fails.
///
/// The text ends at its first zero byte, as in C. Hexadecimal numbers, `inf`, `infinity`, `nan` and
/// `nan(…)` are accepted, because `strtod` accepts them.
pub(crate) fn parse_number(text: &[u8]) -> Option<f64> {
    let (number, used) = strtod(text)?;
    is_blank(&text[used..]).then_some(number)
}

/// Whether `text` is only white space, up to its first zero byte.
fn is_blank(text: &[u8]) -> bool {
    matches!(text.get(spaces(text)), None | Some(0))
}

/// The number in `text` in `base` (2 to 36), as `tonumber(text, base)` parses it by `strtoul`: a negative
/// number wraps around, and a number beyond 64 bits becomes the largest 64-bit number.
pub(crate) fn parse_radix(text: &[u8], base: u32) -> Option<f64> {
    let mut at = spaces(text);
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
    at += leading_zeros(&text[at..]);
    let mut sum = Some(0u64);
    while let Some(before) = sum
        && let Some(value) = digit(at)
    {
        sum = before.checked_mul(u64::from(base)).and_then(|sum| sum.checked_add(u64::from(value)));
        at += 1;
    }
    // After an overflow the other digits are skipped, because they change nothing.
    at += digits_of(&text[at..], base as u8);
    if !is_blank(&text[at..]) {
        return None;
    }
    let value = sum.map_or(u64::MAX, |sum| if negative { sum.wrapping_neg() } else { sum });
    Some(value as f64)
}

/// The number at the beginning of `text`, and the number of bytes used, leading white space included;
/// `None` if there is no number.
///
/// The longest prefix that is a number counts, as for `strtod`: for `1e+` that is `1`.
pub(crate) fn strtod(text: &[u8]) -> Option<(f64, usize)> {
    let start = spaces(text);
    let negative = text.get(start) == Some(&b'-');
    let from = start + usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let rest = &text[from..];
    let (magnitude, used) =
        short_whole(rest).or_else(|| hexadecimal(rest)).or_else(|| decimal(rest)).or_else(|| named(rest))?;
    Some((if negative { -magnitude } else { magnitude }, from + used))
}

/// A whole number of at most 15 digits that is not the start of a longer number.
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
    let number = match used {
        0..=PLAIN_MAX => std::str::from_utf8(&text[..used]).ok()?.parse().ok()?,
        _ => long_decimal(&text[..used], whole)?,
    };
    Some((number, used))
}

/// Maximum number of bytes of a decimal number that is parsed in one step.
const PLAIN_MAX: usize = 2048;

/// Number of significant digits that are used to decide which double is nearest. After 768 digits it matters
/// only whether any further digit is not zero (Rust's `dec2flt` and others keep 768, too).
const DECISIVE: usize = 800;

/// The value of a decimal number with many digits, computed from its first [`DECISIVE`] digits and one
/// digit for all others. `whole` digits are before the point. The other digits are checked some dozens at a
/// time, up to the first that is not zero.
fn long_decimal(text: &[u8], whole: usize) -> Option<f64> {
    let (whole, after) = text.split_at(whole);
    let fraction = match after {
        [b'.', rest @ ..] => &rest[..digits(rest)],
        _ => &[],
    };
    let mantissa = whole.len() + if after.first() == Some(&b'.') { 1 + fraction.len() } else { 0 };
    let exponent = text.get(mantissa + 1..).map_or(0, exponent_of);
    let zeros = match leading_zeros(whole) {
        zeros if zeros == whole.len() => zeros + leading_zeros(fraction),
        zeros => zeros,
    };
    let mut line = [0; DECISIVE + EXPONENT_MAX];
    let (mut len, mut goes_on) = (0, false);
    for part in [whole.get(zeros..), fraction.get(zeros.saturating_sub(whole.len())..)].into_iter().flatten()
    {
        let (kept, rest) = part.split_at(part.len().min(DECISIVE - len));
        line[len..len + kept.len()].copy_from_slice(kept);
        len += kept.len();
        goes_on = goes_on || leading_zeros(rest) < rest.len();
    }
    if len == 0 {
        return Some(0.0);
    }
    // The power of ten of the last digit that is passed on, which represents all omitted digits.
    let last = whole.len() as i64 - zeros as i64 - 1 - len as i64 + exponent;
    let mut power = IntBuffer::new();
    let power = power.format(last);
    line[len] = b'0' + u8::from(goes_on);
    line[len + 1] = b'e';
    line[len + 2..][..power.len()].copy_from_slice(power);
    std::str::from_utf8(&line[..len + 2 + power.len()]).ok()?.parse().ok()
}

/// Maximum number of bytes after the significant digits: a digit for the others, `e`, and a power of ten.
const EXPONENT_MAX: usize = 24;

/// An exponent with its sign, clamped: beyond the length of any text every number is zero or infinite.
fn exponent_of(text: &[u8]) -> i64 {
    const BOUND: i64 = 1 << 40;
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = &digits[leading_zeros(digits)..];
    let sum = digits.iter().take(13).fold(0i64, |sum, byte| sum * 10 + i64::from(byte.wrapping_sub(b'0')));
    let sum = if digits.len() > 12 { BOUND } else { sum.min(BOUND) };
    if is_negative { -sum } else { sum }
}

/// The number of digits at the beginning of `text`.
fn digits(text: &[u8]) -> usize {
    prefix(text, |byte| byte.wrapping_sub(b'0') < 10)
}

fn leading_zeros(text: &[u8]) -> usize {
    prefix(text, |byte| byte == b'0')
}

/// The number of bytes of white space at the beginning of `text`.
fn spaces(text: &[u8]) -> usize {
    if text.first().is_none_or(|byte| !is_space(*byte)) { 0 } else { prefix(text, is_space) }
}

/// The number of digits of a base from 2 to 36 at the beginning of `text`.
fn digits_of(text: &[u8], base: u8) -> usize {
    let (numerals, letters) = (base.min(10), base.saturating_sub(10));
    prefix(text, |byte| byte.wrapping_sub(b'0') < numerals || (byte | 0x20).wrapping_sub(b'a') < letters)
}

/// The number of bytes at the beginning of `text` for which `is_of_kind` is true. Works on blocks without a
/// branch for each byte, which the compiler turns into vector instructions.
#[inline(always)]
pub(crate) fn prefix(text: &[u8], is_of_kind: impl Fn(u8) -> bool) -> usize {
    const BLOCK: usize = 64;
    let blocks = text.chunks_exact(BLOCK);
    let whole =
        blocks.take_while(|block| block.iter().fold(true, |all, byte| all & is_of_kind(*byte))).count();
    let rest = &text[whole * BLOCK..];
    whole * BLOCK + rest.iter().take_while(|byte| is_of_kind(**byte)).count()
}

/// Parses `inf`, `infinity`, `nan` or `nan(WORD)` (`WORD`: letters, digits and `_`). The case of the letters
/// does not matter.
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
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let inside = text.get(4..).map_or(0, |rest| prefix(rest, is_word));
    let closed = text.get(3) == Some(&b'(') && text.get(4 + inside) == Some(&b')');
    Some((f64::NAN, if closed { inside + 5 } else { 3 }))
}

/// The significant digits of a hexadecimal number.
struct HexDigits {
    /// The first digits: 61 to 64 significant bits, or fewer if the number is shorter.
    bits: u64,
    /// Whether any later bit is set.
    sticky: bool,
    /// The number is `bits * 2^exp`.
    exp: i64,
    /// The number of bytes parsed.
    used: usize,
}

/// Parses `0x` with hexadecimal digits, perhaps a point among them, and perhaps a binary exponent.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    if text.first() != Some(&b'0') || !matches!(text.get(1), Some(b'x' | b'X')) {
        return None;
    }
    let mut read = hex_digits(text)?;
    if matches!(text.get(read.used), Some(b'p' | b'P')) {
        let from = read.used + 1 + usize::from(matches!(text.get(read.used + 1), Some(b'-' | b'+')));
        let count = digits(&text[from..]);
        if count > 0 {
            read.exp += exponent_of(&text[read.used + 1..from + count]);
            read.used = from + count;
        }
    }
    Some((scaled(read.bits, read.exp, read.sticky), read.used))
}

fn hex_digits(text: &[u8]) -> Option<HexDigits> {
    let mut read = HexDigits { bits: 0, sticky: false, exp: 0, used: 2 };
    let (whole, after) = text[2..].split_at(digits_of(&text[2..], 16));
    let fraction = match after {
        [b'.', rest @ ..] => &rest[..digits_of(rest, 16)],
        _ => &[],
    };
    read.used += whole.len() + if after.first() == Some(&b'.') { 1 + fraction.len() } else { 0 };
    for (part, before_point) in [(whole, true), (fraction, false)] {
        let zeros = if read.bits == 0 { leading_zeros(part) } else { 0 };
        let mut at = zeros;
        while read.bits >> 60 == 0
            && let Some(byte) = part.get(at)
        {
            read.bits = read.bits << 4 | (*byte as char).to_digit(16).map_or(0, u64::from);
            at += 1;
        }
        let rest = &part[at..];
        read.sticky = read.sticky || leading_zeros(rest) < rest.len();
        read.exp += 4 * if before_point { rest.len() as i64 } else { -(at as i64) };
    }
    (whole.len() + fraction.len() > 0).then_some(read)
}

/// `bits * 2^exp`, rounded to the nearest double, ties to even; `sticky` means that nonzero bits after them
/// were dropped.
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
    // The hidden bit increases the exponent by one, and so does a carry out of the mantissa.
    let base = if top >= -1022 { ((top + 1022) as u64) << 52 } else { 0 };
    f64::from_bits(base + rounded)
}

/// The part of `text` that C sees: up to the first zero byte.
pub(crate) fn c_text(text: &[u8]) -> &[u8] {
    &text[..prefix(text, |byte| byte != 0)]
}

/// Converts a double to `int64_t` as C does on x86-64: towards zero, and to `i64::MIN` if out of range.
pub(crate) fn to_i64(n: f64) -> i64 {
    if (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&n) { n as i64 } else { i64::MIN }
}

/// Converts a double to `uint64_t` as C does on x86-64: negative numbers wrap around, numbers from 2^64 on
/// become 0, and numbers below -2^63 and NaN become 2^63.
pub(crate) fn to_u64(n: f64) -> u64 {
    const HALF: f64 = 9.223_372_036_854_776e18;
    if n >= HALF { to_i64(n - HALF) as u64 ^ 1 << 63 } else { to_i64(n) as u64 }
}

/// Converts a double to `int32_t` as C does on x86-64: towards zero, and to `i32::MIN` if out of range.
pub(crate) fn to_i32(n: f64) -> i32 {
    if n > -2_147_483_649.0 && n < 2_147_483_648.0 { n as i32 } else { i32::MIN }
}

/// White space of the C locale.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests;
