//! CRC-16/XMODEM and the hash slot of a key.
//!
//! Polynomial 0x1021, initial value 0, nothing reflected: "123456789" gives 0x31c3.

/// The number of hash slots of a cluster.
pub const SLOT_COUNT: u16 = 16384;

/// The checksum of `bytes`. Cost: one table look-up per byte; the look-ups of four bytes are independent.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (fours, tail) = bytes.as_chunks::<4>();
    let crc = fours.iter().fold(0, |crc, &[a, b, c, d]: &[u8; 4]| {
        let [high, low] = u16::to_be_bytes(crc);
        let at = |zeros: usize, byte: u8| TABLES[zeros][usize::from(byte)];
        at(3, high ^ a) ^ at(2, low ^ b) ^ at(1, c) ^ at(0, d)
    });
    tail.iter().fold(crc, |crc, &byte| step(crc, byte))
}

/// The checksum with one more byte.
#[inline]
fn step(crc: u16, byte: u8) -> u16 {
    crc << 8 ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)]
}

/// The slot of `key`, below [`SLOT_COUNT`]: the hash of the bytes between the first `{` and the next `}`
/// if there are any, otherwise of the whole key.
#[inline]
pub fn key_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOT_COUNT - 1)
}

/// The slot of all names that `pattern` matches, if the pattern determines one: it has no wildcard (`*`,
/// `?`, `[` or a backslash), or a tag that is not empty and no wildcard before the tag's end.
pub fn pattern_slot(pattern: &[u8]) -> Option<u16> {
    let is_wild = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let Some(wild) = pattern.iter().position(is_wild) else { return Some(key_slot(pattern)) };
    let literal = &pattern[..wild];
    let tag = hash_tag(literal);
    (tag.len() < literal.len()).then(|| key_slot(literal))
}

/// The shortest name of letters and digits in `slot`, of 1 to 3 bytes; among those the first in the
/// order `0-9a-zA-Z`. `slot` must be below [`SLOT_COUNT`]. Cost: at most 3,907 steps, because the
/// checksum's low byte determines the last letter.
pub fn slot_tag(slot: u16) -> Vec<u8> {
    const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let [_, low] = slot.to_be_bytes();
    let last = (0..=u8::MAX).find(|byte| TABLES[0][usize::from(*byte)] as u8 == low);
    let whole = |head: &[u8]| {
        let crc = crc16(head);
        let last = last? ^ (crc >> 8) as u8;
        let is_it = last.is_ascii_alphanumeric() && step(crc, last) & (SLOT_COUNT - 1) == slot;
        is_it.then(|| [head, &[last]].concat())
    };
    let pairs = || ALPHABET.iter().flat_map(|a| ALPHABET.iter().map(|b| [*a, *b]));
    let short = whole(&[]).or_else(|| ALPHABET.iter().find_map(|a| whole(&[*a])));
    short.or_else(|| pairs().find_map(|head| whole(&head))).expect("three letters reach every slot")
}

/// The part of `key` that chooses its slot.
#[inline]
fn hash_tag(key: &[u8]) -> &[u8] {
    if !has_brace(key) {
        return key;
    }
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let tail = &key[open + 1..];
    match tail.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &tail[..close],
    }
}

/// Whether `key` has a `{`. Most keys have none, so they are scanned eight bytes at a time.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let has = |word: &[u8; 8]| {
        // A byte of `differing` is 0 where the key has a brace; subtracting 1 from it borrows into
        // its highest bit.
        let differing = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'{'));
        differing.wrapping_sub(ONES) & !differing & (ONES << 7) != 0
    };
    match key.last_chunk() {
        // The last word overlaps the one before, so the up to seven remaining bytes need no loop over single
        // bytes.
        Some(last) => key.as_chunks().0.iter().any(has) || has(last),
        None => key.contains(&b'{'),
    }
}

/// `TABLES[n][byte]` is the checksum of a byte followed by `n` zero bytes.
static TABLES: [[u16; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut n = 1;
    while n < 4 {
        let mut i = 0;
        while i < 256 {
            let before: u16 = tables[n - 1][i];
            tables[n][i] = before << 8 ^ tables[0][(before >> 8) as usize];
            i += 1;
        }
        n += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_that_of_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn agrees_with_the_bits_one_by_one_at_every_length() {
        let bytes: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
        for len in 0..=bytes.len() {
            let bits = bytes[..len].iter().fold(0u16, |crc, &byte| {
                (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| (crc << 1) ^ ((crc >> 15) * 0x1021))
            });
            assert_eq!(crc16(&bytes[..len]), bits, "length {len}");
        }
    }

    #[test]
    fn a_brace_is_found_wherever_it_is_and_nothing_is_taken_for_one() {
        for len in 0..40 {
            for other in [b'a', b'z', b'|', b'\x00', b'\xff', b'\xfb', b'}'] {
                let mut key = vec![other; len];
                assert!(!has_brace(&key));
                for at in 0..len {
                    key[at] = b'{';
                    assert!(has_brace(&key), "{at} of {len}");
                    key[at] = other;
                }
            }
        }
    }

    #[test]
    fn slots_are_those_of_the_reference() {
        for (key, slot) in SLOTS {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn the_first_tag_that_is_not_empty_chooses_the_slot() {
        for (key, tag) in [
            ("{a}b", "a"),
            ("x{a}b{c}", "a"),
            ("{}a", "{}a"),
            ("{a", "{a"),
            ("a}b", "a}b"),
            ("{{a}}", "{a"),
            ("}{a}", "a"),
            ("{}{a}", "{}{a}"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn cb_n4_every_slot_has_a_tag_of_its_own() {
        for slot in 0..SLOT_COUNT {
            let tag = slot_tag(slot);
            assert!((1..=3).contains(&tag.len()) && tag.iter().all(u8::is_ascii_alphanumeric));
            assert_eq!(key_slot(&tag), slot);
        }
        // Tags that CLUSTERSCAN of Valkey 9.1.2 names for these slots.
        for (slot, tag) in [(0, "06S"), (13_907, "0"), (1, "Qi"), (5, "460"), (7_000, "UW"), (16_383, "6ZJ")]
        {
            assert_eq!(slot_tag(slot), tag.as_bytes(), "{slot}");
        }
    }

    #[test]
    fn cb_g3_a_pattern_has_a_slot_where_its_wildcards_come_behind_its_tag() {
        for (pattern, same_as) in [
            ("foo", Some("foo")),
            ("{foo}*", Some("foo")),
            ("a{foo}?b", Some("foo")),
            ("{foo}[a]\\x", Some("foo")),
            ("{}x", Some("{}x")),
            ("", Some("")),
            ("*{foo}", None),
            ("{f*o}", None),
            ("{foo*", None),
            ("{}*", None),
            ("{}{foo}*", None),
            ("\\{foo}", None),
            ("foo*", None),
        ] {
            assert_eq!(
                pattern_slot(pattern.as_bytes()),
                same_as.map(|key| key_slot(key.as_bytes())),
                "{pattern}"
            );
        }
    }

    const SLOTS: [(&str, u16); 4] =
        [("foo", 12182), ("somekey", 11058), ("foo{hash_tag}", 2515), ("{}x", 10595)];
}
