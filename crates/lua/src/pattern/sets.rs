//! Sets of bytes: classes such as `%a`, and what brackets hold.

/// 256 bits, one for each byte.
pub(super) type Bits = [u64; 4];

/// Whether `byte` is in the set.
#[inline]
pub(super) fn contains(set: &Bits, byte: u8) -> bool {
    set[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

/// Adds a byte.
pub(super) fn add(set: &mut Bits, byte: u8) {
    set[usize::from(byte >> 6)] |= 1 << (byte & 63);
}

/// Adds all bytes of another set.
pub(super) fn unite(set: &mut Bits, other: &Bits) {
    for (word, more) in set.iter_mut().zip(other) {
        *word |= more;
    }
}

/// All bytes that the set does not hold.
pub(super) fn complement(set: &Bits) -> Bits {
    set.map(|word| !word)
}

/// The class of a letter behind a percent sign, in the C locale; a capital is its complement. None where the letter stands for itself.
pub(super) fn class(letter: u8) -> Option<Bits> {
    let is_member: fn(&u8) -> bool = match letter.to_ascii_lowercase() {
        b'a' => u8::is_ascii_alphabetic,
        b'c' => u8::is_ascii_control,
        b'd' => u8::is_ascii_digit,
        b'l' => u8::is_ascii_lowercase,
        b'p' => u8::is_ascii_punctuation,
        b's' => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => u8::is_ascii_uppercase,
        b'w' => u8::is_ascii_alphanumeric,
        b'x' => u8::is_ascii_hexdigit,
        b'z' => |byte| *byte == 0,
        _ => return None,
    };
    let mut set = [0; 4];
    (0..=255).filter(is_member).for_each(|byte| add(&mut set, byte));
    Some(if letter.is_ascii_uppercase() { complement(&set) } else { set })
}
