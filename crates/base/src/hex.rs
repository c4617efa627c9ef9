//! Bytes as text: two lower-case hexadecimal digits for each byte.

/// `bytes` as lower-case hexadecimal digits, the form of run ids and digests.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn each_byte_is_two_lower_case_digits() {
        assert_eq!(hex(&[0x00, 0x0a, 0xff]), "000aff");
        assert_eq!(hex(&[]), "");
    }
}
