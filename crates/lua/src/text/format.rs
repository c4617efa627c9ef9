//! Directives of `string.format`, with the meaning that C's `printf` and PUC-Rio's Lua 5.1 (PUC) give them.
//!
//! [`scan`] parses a directive; one of the functions `push_…` formats its argument. The caller
//! fetches the arguments.
//!
//! Invariants: (1) width and precision are at most 99, so that no directive except `%q` and a `%s` without
//! precision writes more than 420 bytes; (2) error texts are PUC's.

use super::decimal::{Alternate, Case, push_fixed, push_general, push_scientific};
use super::number::{c_text, to_i32, to_i64, to_u64};

/// Maximum number of flags of a directive.
const FLAGS_MAX: usize = 5;

/// `%s` without a precision writes a text of at least this many bytes unchanged, zero bytes included.
pub(crate) const WHOLE_TEXT_MIN: usize = 100;

/// Flags, width and precision of a directive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldLayout {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

/// The conversion of a directive, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// `%c`: a byte.
    Byte,
    /// `%d`, `%i`: a signed whole number.
    Signed,
    /// `%o %u %x %X`: an unsigned whole number.
    Unsigned(Radix),
    /// `%e %E %f %g %G`: a floating-point number, by the letter.
    Float(u8),
    /// `%q`: a string as a Lua literal.
    Quoted,
    /// `%s`: a string.
    Text,
}

/// The base in which an unsigned number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Radix {
    /// `%o`: octal digits.
    Octal,
    /// `%u`: decimal digits.
    Decimal,
    /// `%x`: hexadecimal digits in lower case.
    HexLower,
    /// `%X`: hexadecimal digits in upper case.
    HexUpper,
}

/// A parsed directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    pub(crate) layout: FieldLayout,
    pub(crate) conversion: Conversion,
    /// Bytes of the directive in the format, without the percent sign.
    pub(crate) len: usize,
}

/// The error of a malformed directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectiveError {
    /// More than five flags.
    RepeatedFlags,
    /// A width or a precision has more than two digits.
    TooLong,
    /// An unknown conversion letter; 0 at the end of the format.
    Unknown(u8),
}

impl DirectiveError {
    /// The message of the error that `string.format` raises.
    pub(crate) fn text(self) -> Vec<u8> {
        match self {
            DirectiveError::RepeatedFlags => b"invalid format (repeated flags)".to_vec(),
            DirectiveError::TooLong => b"invalid format (width or precision too long)".to_vec(),
            DirectiveError::Unknown(letter) => {
                let mut text = b"invalid option '%".to_vec();
                text.extend((letter != 0).then_some(letter));
                text.extend_from_slice(b"' to 'format'");
                text
            }
        }
    }
}

/// Parses the directive that follows a percent sign.
pub(crate) fn scan(format: &[u8]) -> Result<Directive, DirectiveError> {
    let mut layout = FieldLayout::default();
    let mut at = 0;
    let byte = |at: usize| format.get(at).copied().unwrap_or(0);
    loop {
        match byte(at) {
            b'-' => layout.left = true,
            b'+' => layout.plus = true,
            b' ' => layout.space = true,
            b'#' => layout.alternate = true,
            b'0' => layout.zero = true,
            _ => break,
        }
        at += 1;
    }
    if at > FLAGS_MAX {
        return Err(DirectiveError::RepeatedFlags);
    }
    let two_digits = |at: &mut usize| {
        let from = *at;
        let mut value = 0;
        while *at < from + 2 && byte(*at).is_ascii_digit() {
            value = value * 10 + usize::from(byte(*at) - b'0');
            *at += 1;
        }
        value
    };
    layout.width = two_digits(&mut at);
    if byte(at) == b'.' {
        at += 1;
        layout.precision = Some(two_digits(&mut at));
    }
    if byte(at).is_ascii_digit() {
        return Err(DirectiveError::TooLong);
    }
    let conversion = conversion(byte(at)).ok_or(DirectiveError::Unknown(byte(at)))?;
    Ok(Directive { layout, conversion, len: at + 1 })
}

fn conversion(letter: u8) -> Option<Conversion> {
    Some(match letter {
        b'c' => Conversion::Byte,
        b'd' | b'i' => Conversion::Signed,
        b'o' => Conversion::Unsigned(Radix::Octal),
        b'u' => Conversion::Unsigned(Radix::Decimal),
        b'x' => Conversion::Unsigned(Radix::HexLower),
        b'X' => Conversion::Unsigned(Radix::HexUpper),
        b'e' | b'E' | b'f' | b'g' | b'G' => Conversion::Float(letter),
        b'q' => Conversion::Quoted,
        b's' => Conversion::Text,
        _ => return None,
    })
}

/// Appends the byte with the number `n`. PUC takes the output of `sprintf` up to its first zero byte, so
/// byte 0 ends the text.
pub(crate) fn push_byte(out: &mut Vec<u8>, layout: &FieldLayout, n: f64) {
    let byte = to_i32(n) as u8;
    if byte == 0 {
        let padding = if layout.left { 0 } else { layout.width.saturating_sub(1) };
        out.extend(std::iter::repeat_n(b' ', padding));
        return;
    }
    pad(out, layout, Padding::Spaces, |out| out.push(byte));
}

/// Appends `n` as a signed integer.
pub(crate) fn push_signed(out: &mut Vec<u8>, layout: &FieldLayout, n: f64) {
    let value = to_i64(n);
    let sign: &[u8] = match (value < 0, layout.plus, layout.space) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (.., true) => b" ",
        _ => b"",
    };
    push_digits(out, layout, sign, value.unsigned_abs(), Radix::Decimal);
}

/// Appends `n` as an unsigned integer.
pub(crate) fn push_unsigned(out: &mut Vec<u8>, layout: &FieldLayout, radix: Radix, n: f64) {
    let value = to_u64(n);
    let prefix: &[u8] = match radix {
        Radix::HexLower if layout.alternate && value != 0 => b"0x",
        Radix::HexUpper if layout.alternate && value != 0 => b"0X",
        _ => b"",
    };
    push_digits(out, layout, prefix, value, radix);
}

fn push_digits(out: &mut Vec<u8>, layout: &FieldLayout, prefix: &[u8], value: u64, radix: Radix) {
    let mut digits = [0u8; 24];
    let mut start = digits.len();
    let (base, letters): (u64, &[u8; 16]) = match radix {
        Radix::Octal => (8, b"0123456789abcdef"),
        Radix::Decimal => (10, b"0123456789abcdef"),
        Radix::HexLower => (16, b"0123456789abcdef"),
        Radix::HexUpper => (16, b"0123456789ABCDEF"),
    };
    let mut rest = value;
    while rest > 0 {
        start -= 1;
        digits[start] = letters[(rest % base) as usize];
        rest /= base;
    }
    let mut count_min = layout.precision.unwrap_or(1);
    if layout.alternate && radix == Radix::Octal {
        count_min = count_min.max(digits.len() - start + 1);
        if value == 0 {
            count_min = 1.max(layout.precision.unwrap_or(1));
        }
    }
    let digits = &digits[start..];
    let mut zeros = count_min.saturating_sub(digits.len());
    if layout.zero && !layout.left && layout.precision.is_none() {
        zeros = zeros.max(layout.width.saturating_sub(prefix.len() + digits.len()));
    }
    pad(out, layout, Padding::Spaces, |out| {
        out.extend_from_slice(prefix);
        out.extend(std::iter::repeat_n(b'0', zeros));
        out.extend_from_slice(digits);
    });
}

/// Appends `n` in the form of the directive's letter: `e`, `E`, `f`, `g`, `G`.
pub(crate) fn push_float(out: &mut Vec<u8>, layout: &FieldLayout, letter: u8, n: f64) {
    let case = if letter.is_ascii_uppercase() { Case::Upper } else { Case::Lower };
    let alternate = if layout.alternate { Alternate::Yes } else { Alternate::No };
    let precision = layout.precision.unwrap_or(6);
    let padding = if layout.zero && n.is_finite() { Padding::ZerosAfterSign } else { Padding::Spaces };
    pad(out, layout, padding, |out| {
        if n.is_sign_positive() {
            out.extend(if layout.plus { Some(b'+') } else { layout.space.then_some(b' ') });
        }
        match letter {
            b'e' | b'E' => push_scientific(out, n, precision, case, alternate),
            b'f' => push_fixed(out, n, precision, case, alternate),
            _ => push_general(out, n, precision, case, alternate),
        }
    });
}

/// Whether `%s` writes a text of `len` bytes unchanged, neither cut nor padded.
pub(crate) fn is_written_whole(layout: &FieldLayout, len: usize) -> bool {
    layout.precision.is_none() && len >= WHOLE_TEXT_MIN
}

/// Appends `text`, cut at its first zero byte and at the precision. A long text without precision
/// is appended whole.
pub(crate) fn push_text(out: &mut Vec<u8>, layout: &FieldLayout, text: &[u8]) {
    if is_written_whole(layout, text.len()) {
        out.extend_from_slice(text);
        return;
    }
    let cut = layout.precision.unwrap_or(usize::MAX).min(text.len());
    let text = c_text(&text[..cut]);
    pad(out, layout, Padding::Spaces, |out| out.extend_from_slice(text));
}

/// Appends `text` as a Lua literal.
pub(crate) fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    push_quoted_inside(out, text);
    out.push(b'"');
}

/// Appends a part of a text between the quotes of its literal. A byte becomes at most four.
pub(crate) fn push_quoted_inside(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            b'"' | b'\\' | b'\n' => out.extend_from_slice(&[b'\\', byte]),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\000"),
            _ => out.push(byte),
        }
    }
}

/// The bytes that fill an output on the left, up to its width.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Padding {
    Spaces,
    ZerosAfterSign,
}

/// Calls `write`, and pads the appended bytes to the width of `layout`.
fn pad(out: &mut Vec<u8>, layout: &FieldLayout, padding: Padding, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    let missing = layout.width.saturating_sub(out.len() - start);
    if missing == 0 {
        return;
    }
    if layout.left {
        out.extend(std::iter::repeat_n(b' ', missing));
        return;
    }
    let (at, fill) = match padding {
        Padding::Spaces => (start, b' '),
        Padding::ZerosAfterSign => {
            (start + usize::from(matches!(out.get(start), Some(b'-' | b'+' | b' '))), b'0')
        }
    };
    let end = out.len();
    out.extend(std::iter::repeat_n(fill, missing));
    out.copy_within(at..end, at + missing);
    out[at..at + missing].fill(fill);
}

/// Parses any bytes as a format, and formats a number and a text by each directive, for fuzzing.
pub fn fuzz_format(data: &[u8]) {
    let mut at = 0;
    while let Some(percent) = data[at..].iter().position(|&byte| byte == b'%') {
        at += percent + 1;
        let Ok(directive) = scan(&data[at..]) else { continue };
        at += directive.len;
        let number = data
            .get(..8)
            .map_or(0.5, |bits| bits.iter().fold(0u64, |sum, &bit| sum << 8 | u64::from(bit)) as f64);
        let numbers = [number, f64::from_bits(number.to_bits() ^ u64::from(data[0]) << 48)];
        for number in numbers {
            let (mut out, layout) = (Vec::new(), &directive.layout);
            match directive.conversion {
                Conversion::Byte => push_byte(&mut out, layout, number),
                Conversion::Signed => push_signed(&mut out, layout, number),
                Conversion::Unsigned(radix) => push_unsigned(&mut out, layout, radix, number),
                Conversion::Float(letter) => push_float(&mut out, layout, letter, number),
                Conversion::Quoted => push_quoted(&mut out, data),
                Conversion::Text => push_text(&mut out, layout, data),
            }
            let most = if directive.conversion == Conversion::Quoted {
                data.len() * 4 + 2
            } else {
                512.max(data.len())
            };
            assert!(out.len() <= most, "a directive writes what was asked for");
        }
    }
}

/// Parses any bytes as a number, converts that to text, and parses the text again, for fuzzing.
pub fn fuzz_number(data: &[u8]) {
    if let Some(number) = super::number::parse_number(data) {
        let mut text = Vec::new();
        super::number::push_number(&mut text, number);
        let back = super::number::parse_number(&text).expect("the text of a number is one");
        let near = (back - number).abs() <= number.abs() * 1e-13 || number.abs() < 1e-300;
        assert!(near || back == number || number.is_nan() || back.is_infinite());
    }
    for base in [2, 8, 16, 36] {
        let _: Option<f64> = super::number::parse_radix(data, base);
    }
}

#[cfg(test)]
mod tests;
