//! Conversion of doubles to decimal digits, as `%e`, `%f` and `%g` of C print them without flags for the sign
//! and without a width.
//!
//! Invariants: (1) the digits are those of the exact value, rounded to nearest, ties to even; (2) no buffer
//! is longer than [`DIGITS_MAX`] bytes.

use std::fmt::Write;

/// Room for the longest text: 309 digits, a point and 99 more, and a sign.
const DIGITS_MAX: usize = 416;

/// The case of exponent letters, `inf` and `nan`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Lower case: `e`, `inf`, `nan`.
    Lower,
    /// Upper case: `E`, `INF`, `NAN`.
    Upper,
}

/// The flag `#`: the decimal point and trailing zeros are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alternate {
    /// The directive does not have the flag.
    No,
    /// The directive has the flag.
    Yes,
}

/// A text of bounded length on the stack.
struct DecimalText {
    bytes: [u8; DIGITS_MAX],
    len: usize,
}

impl DecimalText {
    fn new() -> DecimalText {
        DecimalText { bytes: [0; DIGITS_MAX], len: 0 }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for DecimalText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Decimal digits of a number that is not negative, and the power of ten of the first digit.
struct Digits {
    text: [u8; 104],
    len: usize,
    exp10: i32,
}

/// Appends `inf` or `nan` with the sign of `value`. Returns false, and appends nothing, for a
/// finite number.
pub(crate) fn push_not_finite(out: &mut Vec<u8>, value: f64, case: Case) -> bool {
    if value.is_finite() {
        return false;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    out.extend_from_slice(match (value.is_nan(), case) {
        (true, Case::Lower) => b"nan",
        (true, Case::Upper) => b"NAN",
        (false, Case::Lower) => b"inf",
        (false, Case::Upper) => b"INF",
    });
    true
}

/// Appends the output of `%.{precision}e`; `precision` is at most 99.
pub(crate) fn push_scientific(
    out: &mut Vec<u8>,
    value: f64,
    precision: usize,
    case: Case,
    alternate: Alternate,
) {
    if push_not_finite(out, value, case) {
        return;
    }
    push_sign(out, value);
    let digits = exact(value.abs(), precision + 1);
    push_exponential(out, &digits, precision, case, alternate);
}

/// Appends the output of `%.{precision}f`; `precision` is at most 99.
pub(crate) fn push_fixed(out: &mut Vec<u8>, value: f64, precision: usize, case: Case, alternate: Alternate) {
    if push_not_finite(out, value, case) {
        return;
    }
    let mut line = DecimalText::new();
    write!(line, "{value:.precision$}").expect("309 digits, a point and 99 digits fit");
    out.extend_from_slice(line.text());
    if precision == 0 && alternate == Alternate::Yes {
        out.push(b'.');
    }
}

/// Appends the output of `%.{precision}g`; `precision` is at most 99.
pub(crate) fn push_general(
    out: &mut Vec<u8>,
    value: f64,
    precision: usize,
    case: Case,
    alternate: Alternate,
) {
    if push_not_finite(out, value, case) {
        return;
    }
    push_sign(out, value);
    let precision = precision.max(1);
    let mut digits = significant(value.abs(), precision);
    let exp10 = digits.exp10;
    if alternate == Alternate::No {
        while digits.len > 1 && digits.text[digits.len - 1] == b'0' {
            digits.len -= 1;
        }
    }
    if exp10 < -4 || exp10 >= precision as i32 {
        push_exponential(out, &digits, digits.len - 1, case, alternate);
        return;
    }
    let text = &digits.text[..digits.len];
    if exp10 < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exp10 - 1) as usize));
        out.extend_from_slice(text);
        return;
    }
    let whole = exp10 as usize + 1;
    if text.len() <= whole {
        out.extend_from_slice(text);
        out.extend(std::iter::repeat_n(b'0', whole - text.len()));
        out.extend((alternate == Alternate::Yes).then_some(b'.'));
    } else {
        out.extend_from_slice(&text[..whole]);
        out.push(b'.');
        out.extend_from_slice(&text[whole..]);
    }
}

fn push_sign(out: &mut Vec<u8>, value: f64) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
}

/// Appends one digit, a point, `precision` digits, and an exponent of at least two digits.
fn push_exponential(out: &mut Vec<u8>, digits: &Digits, precision: usize, case: Case, alternate: Alternate) {
    out.push(digits.text[0]);
    if precision > 0 || alternate == Alternate::Yes {
        out.push(b'.');
    }
    out.extend_from_slice(&digits.text[1..digits.len]);
    out.push(if case == Case::Lower { b'e' } else { b'E' });
    out.push(if digits.exp10 < 0 { b'-' } else { b'+' });
    let magnitude = digits.exp10.unsigned_abs();
    if magnitude >= 100 {
        out.push(b'0' + (magnitude / 100) as u8);
    }
    out.push(b'0' + (magnitude / 10 % 10) as u8);
    out.push(b'0' + (magnitude % 10) as u8);
}

/// The first `count` digits (1 to 100) of a number that is not negative.
///
/// If fewer than 16 digits are needed, the shortest digits that read back as the number are rounded. This
/// equals rounding the exact value: a midpoint between the two candidates would itself be a shorter text that
/// reads back, or a closer one of the same length. Two cases need the exact digits: a tie of the shortest
/// digits, and subnormal numbers, which have few digits.
fn significant(value: f64, count: usize) -> Digits {
    if count >= 16 || value < f64::MIN_POSITIVE {
        return exact(value, count);
    }
    let mut line = DecimalText::new();
    write!(line, "{value:e}").expect("17 digits and an exponent fit");
    let mut digits = split(line.text());
    if digits.len > count {
        let tail = &digits.text[count..digits.len];
        let tie = tail[0] == b'5' && tail[1..].iter().all(|&digit| digit == b'0');
        if tie {
            return exact(value, count);
        }
        let up = tail[0] >= b'5';
        digits.len = count;
        if up {
            round_up(&mut digits);
        }
    }
    while digits.len < count {
        digits.text[digits.len] = b'0';
        digits.len += 1;
    }
    digits
}

/// Adds one to the last digit.
fn round_up(digits: &mut Digits) {
    for index in (0..digits.len).rev() {
        if digits.text[index] != b'9' {
            digits.text[index] += 1;
            return;
        }
        digits.text[index] = b'0';
    }
    digits.text[0] = b'1';
    digits.exp10 += 1;
}

/// The first `count` digits of the exact value.
fn exact(value: f64, count: usize) -> Digits {
    let mut line = DecimalText::new();
    write!(line, "{value:.0$e}", count - 1).expect("100 digits and an exponent fit");
    split(line.text())
}

/// Parses a text of the form `d.ddde-dd`.
fn split(text: &[u8]) -> Digits {
    let mut digits = Digits { text: [b'0'; 104], len: 0, exp10: 0 };
    let mut bytes = text.iter();
    for &byte in bytes.by_ref() {
        match byte {
            b'e' => break,
            b'.' => {}
            digit => {
                digits.text[digits.len] = digit;
                digits.len += 1;
            }
        }
    }
    let negative = bytes.as_slice().first() == Some(&b'-');
    let exponent = bytes.filter(|&&byte| byte != b'-').fold(0, |sum, byte| sum * 10 + i32::from(byte - b'0'));
    digits.exp10 = if negative { -exponent } else { exponent };
    digits
}
