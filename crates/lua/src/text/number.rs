//! Text of numbers: replaced by the library's.

/// Appends a number as `%.14g` prints it.
pub(crate) fn push_number(out: &mut Vec<u8>, number: f64) {
    out.extend_from_slice(number.to_string().as_bytes());
}

/// The number that a text says.
pub(crate) fn parse_number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
