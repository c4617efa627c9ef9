//! Sets of bytes: classes such as `%a`, and sets in brackets.

/// 256 bits, one for each byte.
pub(super) type Bits = [u64; 4];

/// Whether `byte` is in the set.
#[inline]
pub(super) fn contains(set: &Bits, byte: u8) -> bool {
    set[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

pub(super) fn add(set: &mut Bits, byte: u8) {
    set[usize::from(byte >> 6)] |= 1 << (byte & 63);
}

/// Adds all bytes of another set.
pub(super) fn unite(set: &mut Bits, other: &Bits) {
    for (word, more) in set.iter_mut().zip(other) {
        *word |= more;
    }
}

/// The set of all bytes that are not in `set`.
pub(super) fn complement(set: &Bits) -> Bits {
    set.map(|word| !word)
}

/// The letters of the classes, in the order of [`CLASSES`].
const LETTERS: &[u8; 10] = b"acdlpsuwxz";

/// The classes, in the C locale.
const CLASSES: [Bits; 10] = {
    let mut classes = [[0; 4]; 10];
    let mut index = 0;
    while index < LETTERS.len() {
        let mut byte = 0u8;
        loop {
            if is_member(LETTERS[index], byte) {
                classes[index][(byte >> 6) as usize] |= 1 << (byte & 63);
            }
            if byte == u8::MAX {
                break;
            }
            byte += 1;
        }
        index += 1;
    }
    classes
};

/// The class of a letter after a percent sign; a capital letter means the complement. `None` if the
/// letter stands for itself.
pub(super) fn class(letter: u8) -> Option<Bits> {
    let lower = letter.to_ascii_lowercase();
    let index = LETTERS.iter().position(|&other| other == lower)?;
    Some(if letter.is_ascii_uppercase() { complement(&CLASSES[index]) } else { CLASSES[index] })
}

const fn is_member(letter: u8, byte: u8) -> bool {
    match letter {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => byte == 0,
    }
}
