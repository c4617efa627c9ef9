//! Numbers of config files, beyond those of `sluice_base::num`: memory sizes with suffixes, and C's lenient
//! integers.

/// The text before the first zero byte: the reference ends numbers and names there, wherever
/// they are C strings.
pub(crate) fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number of bytes: digits, then nothing or `b`, `k`, `kb`, `m`, `mb`, `g`, `gb` in any case.
///
/// Text without digits is zero, as in the reference. `None` for another suffix, for more than 127 digits, and
/// for a result above 64 bits, which the reference lets wrap.
pub fn memory(text: &[u8]) -> Option<u64> {
    let text = until_zero(text);
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let unit: u64 = match suffix.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if digits.len() > 127 {
        return None;
    }
    let mut value: u64 = 0;
    for digit in digits {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    value.checked_mul(unit)
}

/// The shortest text of a number of bytes: in `gb`, `mb` or `kb` if it is a multiple of one of them.
pub(crate) fn memory_text(bytes: u64) -> String {
    for (shift, suffix) in [(30, "gb"), (20, "mb"), (10, "kb")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// An integer as C's `strtoll` parses it: leading blanks, then a sign; empty text is zero, and numbers out of
/// range saturate. `None` when characters are left over.
pub(crate) fn lenient_int(text: &[u8], base: u8) -> Option<i64> {
    let text = until_zero(text);
    let blanks = text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len());
    let (negative, digits) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        // The empty text is zero; in any other text without digits, characters are left over.
        return text.is_empty().then_some(0);
    }
    let mut value: i128 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit >= base {
            return None;
        }
        value = (value * i128::from(base) + i128::from(digit)).min(1 << 64);
    }
    let signed = if negative { -value } else { value };
    Some(signed.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

/// Six decimals without trailing zeros.
pub(crate) fn decimal_text(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// C's `isspace` in the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
