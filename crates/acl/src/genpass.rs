//! Passwords made from random bytes.

/// Bits of the password of ACL GENPASS without an argument.
pub const GENPASS_BITS_DEFAULT: i64 = 256;
/// The greatest number of bits that a call may request.
pub(crate) const GENPASS_BITS_MAX: i64 = 4096;

/// How many random bytes, 1 to 512, [`genpass`] needs for `bits`. `Err` is the text of the error reply if
/// `bits` is not in 1 to 4,096.
pub fn random_bytes_for(bits: i64) -> Result<usize, &'static str> {
    if !(1..=GENPASS_BITS_MAX).contains(&bits) {
        return Err(
            "ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        );
    }
    // `bits` is at most 4,096, so the number fits.
    Ok((bits as usize).div_ceil(8))
}

/// A password with one hexadecimal digit for every four bits, rounded up. `random` has the number of
/// bytes that [`random_bytes_for`] returns; with fewer bytes the password is shorter.
pub fn genpass(bits: i64, random: &[u8]) -> Result<String, &'static str> {
    let bytes = random_bytes_for(bits)?;
    let mut password = sluice_base::hex(&random[..random.len().min(bytes)]);
    password.truncate((bits as usize).div_ceil(4));
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_a_digit_for_each_four_bits() {
        for (bits, digits) in [(1, 1), (4, 1), (5, 2), (12, 3), (256, 64), (4096, 1024)] {
            let random = vec![0xab; random_bytes_for(bits).unwrap()];
            assert_eq!(genpass(bits, &random).unwrap().len(), digits);
        }
        assert_eq!(genpass(12, &[0x12, 0x34]).unwrap(), "123");
    }

    #[test]
    fn other_numbers_of_bits_are_refused() {
        for bits in [0, -1, 4097, i64::MIN, i64::MAX] {
            let text = "ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
            assert_eq!(genpass(bits, &[]), Err(text));
        }
    }
}
