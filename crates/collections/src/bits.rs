//! Counts and searches bits of strings, and reads and writes integers of up to 64 bits in them.
//!
//! Bit 0 is the most significant bit of the first byte, as in the protocol.
//!
//! Invariant: no function reads past the end of its bytes. A field that reaches past the end has zeros there.

use crate::arch;

/// Number of set bits.
#[inline]
pub fn count(bytes: &[u8]) -> u64 {
    arch::count_ones(bytes)
}

/// Sets each register to the larger of its value and the number at the same index in `packed`. `packed` holds
/// six-bit numbers, four in three bytes, the first in the lowest bits.
pub fn raise_six_bits(packed: &[u8], registers: &mut [u8]) {
    arch::raise_six_bits(packed, registers);
}

/// Writes the registers into `packed` as numbers of six bits, four in three bytes. The values must fit in six
/// bits.
pub fn pack_six_bits(registers: &[u8], packed: &mut [u8]) {
    arch::pack_six_bits(registers, packed);
}

/// Position of the first bit equal to `wanted`, if there is one. O(bytes).
pub fn position(bytes: &[u8], wanted: bool) -> Option<usize> {
    // The value of a byte in which no bit equals `wanted`.
    let none = if wanted { 0x00 } else { 0xff };
    // Whole blocks are skipped first, because the compiler turns their loop into wide comparisons.
    let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
    let is_none =
        |block: &&[u8; BLOCK_BYTES]| block.iter().fold(0, |differs, byte| differs | (byte ^ none)) == 0;
    let skipped = blocks.iter().take_while(is_none).count() * BLOCK_BYTES;
    let rest = bytes.get(skipped..)?;
    let at = rest.iter().position(|byte| *byte != none)?;
    let differs = rest[at] ^ none;
    Some((skipped + at) * 8 + differs.leading_zeros() as usize)
}

/// The unsigned integer of `width` bits, at most 64, at bit `offset`.
pub fn field(bytes: &[u8], offset: usize, width: u32) -> u64 {
    debug_assert!(width <= 64);
    let window = window(bytes, offset / 8);
    let behind = 128 - (offset % 8) as u32 - width;
    (window >> behind) as u64 & mask(width)
}

/// Overwrites the integer of `width` bits at bit `offset`; `bytes` must contain it.
pub fn set_field(bytes: &mut [u8], offset: usize, width: u32, value: u64) {
    debug_assert!(width <= 64);
    debug_assert!(offset + width as usize <= bytes.len() * 8);
    let first = offset / 8;
    let behind = 128 - (offset % 8) as u32 - width;
    let kept = window(bytes, first) & !(u128::from(mask(width)) << behind);
    let window = (kept | u128::from(value & mask(width)) << behind).to_be_bytes();
    let touched = (offset % 8 + width as usize).div_ceil(8);
    if let Some(target) = bytes.get_mut(first..first + touched) {
        target.copy_from_slice(&window[..touched]);
    }
}

/// Sixteen bytes from `first` on as a big-endian number; bytes after the end are zeros.
fn window(bytes: &[u8], first: usize) -> u128 {
    let mut window = [0; 16];
    let there = bytes.get(first..).unwrap_or_default();
    let len = there.len().min(window.len());
    window[..len].copy_from_slice(&there[..len]);
    u128::from_be_bytes(window)
}

fn mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

/// Bytes compared at once.
const BLOCK_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;

    fn bit(bytes: &[u8], at: usize) -> bool {
        bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
    }

    /// Bytes with long stretches of zeros and ones.
    fn random(rng: &mut Rng, len: u64) -> Vec<u8> {
        let mut bytes = vec![if rng.below(2) == 0 { 0 } else { 0xff }; rng.below(len) as usize];
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next_u64() as u8;
            }
        }
        bytes
    }

    #[test]
    fn counting_and_finding_agree_with_a_loop_over_bits() {
        let mut rng = Rng::new(7);
        for _ in 0..3000 {
            let bytes = random(&mut rng, 700);
            let bits = || (0..bytes.len() * 8).map(|at| bit(&bytes, at));
            assert_eq!(count(&bytes), bits().filter(|bit| *bit).count() as u64);
            for wanted in [false, true] {
                assert_eq!(position(&bytes, wanted), bits().position(|bit| bit == wanted));
            }
        }
    }

    #[test]
    fn fields_agree_with_a_loop_over_bits() {
        let mut rng = Rng::new(8);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..24).map(|_| rng.next_u64() as u8).collect();
            let (offset, width) = (rng.below(128) as usize, 1 + rng.below(64) as u32);
            let naive = |bytes: &[u8]| {
                (0..width as usize).fold(0, |value, at| value << 1 | u64::from(bit(bytes, offset + at)))
            };
            assert_eq!(field(&bytes, offset, width), naive(&bytes));
            let (value, before) = (rng.next_u64(), bytes.clone());
            set_field(&mut bytes, offset, width, value);
            assert_eq!(naive(&bytes), value & mask(width));
            let is_kept = |at: &usize| *at < offset || *at >= offset + width as usize;
            for at in (0..bytes.len() * 8).filter(is_kept) {
                assert_eq!(bit(&bytes, at), bit(&before, at), "bit {at} of {offset}+{width}");
            }
        }
    }

    #[test]
    fn a_field_at_the_end_reads_zeros_behind_it() {
        assert_eq!(field(&[0xff], 4, 8), 0xf0);
        assert_eq!(field(&[0xff], 8, 64), 0);
        assert_eq!(field(&[], 0, 1), 0);
    }
}
