//! CRC-16/XMODEM and the hash slot of a key.
//!
//! Polynomial 0x1021, initial value 0, nothing reflected: "123456789" gives 0x31c3.

/// The number of hash slots of a cluster.
pub const SLOT_COUNT: u16 = 16384;

/// The checksum of `bytes`. Cost: one table look-up per byte.
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of `key`, below [`SLOT_COUNT`]: of the bytes between its first `{` and the next `}` when there are any,
/// else of all of it.
#[inline]
pub fn key_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOT_COUNT - 1)
}

/// The part of `key` that chooses its slot.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let tail = &key[open + 1..];
    match tail.iter().position(|&byte| byte == b'}') {
        None | Some(0) => key,
        Some(close) => &tail[..close],
    }
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
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

    const SLOTS: [(&str, u16); 4] =
        [("foo", 12182), ("somekey", 11058), ("foo{hash_tag}", 2515), ("{}x", 10595)];
}
