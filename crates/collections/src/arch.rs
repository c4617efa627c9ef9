//! Code that depends on the processor: comparing a bucket's tags at once, counting bits, converting
//! numbers of six bits, and prefetching.
//!
//! x86-64 uses SSE2, which its baseline contains, and AVX2 or AVX-512 if the processor has it. All other
//! processors use the portable code, which is also the oracle of the tests; only for prefetching there is
//! also an instruction of AArch64; other processors do not prefetch.

/// Lanes of a bucket: the tags in the first twelve bytes of its sixteen-byte head.
const LANES_MASK: u32 = 0xfff;

/// The lanes whose tag equals `tag`, one bit each. `head` holds the tags, four to a word, lane 0 in the
/// lowest byte; its fourth word is ignored.
#[inline(always)]
pub(crate) fn lanes_equal(head: [u32; 4], tag: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        // SAFETY: the only requirement is that the processor has SSE2, and the `cfg` says that the target
        // has.
        // JUSTIFICATION: three instructions instead of about thirty for every probe of the index.
        unsafe { lanes_equal_sse2(head, tag) }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    {
        lanes_equal_portable(head, tag)
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "sse2")]
#[inline]
fn lanes_equal_sse2(head: [u32; 4], tag: u8) -> u32 {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi32, _mm_set1_epi8};
    // The four words lie side by side, so this is one load.
    let tags = _mm_set_epi32(head[3] as i32, head[2] as i32, head[1] as i32, head[0] as i32);
    let equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8));
    _mm_movemask_epi8(equal) as u32 & LANES_MASK
}

/// Lanes with a matching tag, without SIMD. A byte of `x` is zero if its tag matches; no carry crosses from
/// one byte to the next, so exactly the zero bytes are found.
#[cfg_attr(all(target_arch = "x86_64", target_feature = "sse2"), allow(dead_code))]
#[inline]
fn lanes_equal_portable(head: [u32; 4], tag: u8) -> u32 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const REST: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let pattern = u64::from(tag) * LOW;
    let eight = |x: u64| {
        let x = x ^ pattern;
        let zero = !(((x & REST) + REST) | x | REST);
        // Gathers the top bit of every byte into one byte.
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    let first = u64::from(head[0]) | u64::from(head[1]) << 32;
    (eight(first) | eight(u64::from(head[2])) << 8) & LANES_MASK
}

/// Prefetches the cache lines of all items, which are to be read soon; of an item longer than a cache line,
/// only the first line. The items themselves are not read.
pub fn prefetch_items<T>(items: &[T]) {
    let step = (LINE_BYTES / size_of::<T>().max(1)).max(1);
    items.iter().step_by(step).for_each(|item| prefetch(item));
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Prefetches the cache line at `at`, which is to be read soon. Any address is allowed: a
/// prefetch never faults.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it reads nothing that the program can see and does not fault on any
        // address.
        // JUSTIFICATION: a lookup is two cache misses; asking early for a batch of keys overlaps them.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: as above; `prfm` changes no register, flag or memory, and does not fault.
        // JUSTIFICATION: as above; the intrinsic of this architecture is not stable.
        unsafe {
            core::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at.cast::<u8>(), options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = at;
    }
}

/// Number of set bits.
#[inline]
pub(crate) fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= WIDE_COUNT_BYTES_MIN && has_avx512_count() {
        // SAFETY: the only requirement is that the processor has these instructions, which was asked just
        // before.
        // JUSTIFICATION: one instruction counts the bits of eight words; BITCOUNT of 1 MB: bench/record,
        // `types`.
        return unsafe { count_ones_avx512(bytes) };
    }
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= WIDE_COUNT_BYTES_MIN && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the only requirement is that the processor has AVX2, which was asked just before.
        // JUSTIFICATION: 64 KiB in 1.6 us instead of 8.6, 4 KiB in 0.21 us instead of 0.49; measured alone,
        // in cache.
        return unsafe { count_ones_avx2(bytes) };
    }
    count_ones_portable(bytes)
}

/// The portable code, compiled for AVX2, so that the compiler counts thirty-two bytes at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn count_ones_avx2(bytes: &[u8]) -> u64 {
    count_ones_portable(bytes)
}

#[cfg(target_arch = "x86_64")]
fn has_avx512_count() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512vpopcntdq")
}

/// The portable code, compiled for the instruction that counts the bits of each word.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512vpopcntdq")]
fn count_ones_avx512(bytes: &[u8]) -> u64 {
    count_ones_portable(bytes)
}

#[inline(always)]
fn count_ones_portable(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole: u64 = words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
    whole + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// For fewer bytes than this the portable code is as fast, because the wide code first has to check the
/// processor's features.
#[cfg(target_arch = "x86_64")]
const WIDE_COUNT_BYTES_MIN: usize = 256;

/// Raises each register that is smaller to its number in `packed`, which holds numbers of six bits, four in
/// three bytes, the first in the low bits. Registers beyond the end of `packed` keep their values.
pub(crate) fn raise_six_bits(packed: &[u8], registers: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the only requirement is that the processor has AVX2, which was asked just before.
        // JUSTIFICATION: thirty-two registers at once; PFCOUNT and PFMERGE: bench/record, `types`.
        return unsafe { raise_six_bits_avx2(packed, registers) };
    }
    raise_six_bits_portable(packed, registers);
}

/// Writes the registers into `packed` as numbers of six bits, four in three bytes.
pub(crate) fn pack_six_bits(registers: &[u8], packed: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the only requirement is that the processor has AVX2, which was asked just before.
        // JUSTIFICATION: as above.
        return unsafe { pack_six_bits_avx2(registers, packed) };
    }
    pack_six_bits_portable(registers, packed);
}

fn raise_six_bits_portable(packed: &[u8], registers: &mut [u8]) {
    for (group, three) in registers.as_chunks_mut::<4>().0.iter_mut().zip(packed.as_chunks::<3>().0) {
        let [a, b, c] = *three;
        let four = [a & 63, a >> 6 | (b & 15) << 2, b >> 4 | (c & 3) << 4, c >> 2];
        for (register, value) in group.iter_mut().zip(four) {
            *register = (*register).max(value);
        }
    }
}

fn pack_six_bits_portable(registers: &[u8], packed: &mut [u8]) {
    for (three, group) in packed.as_chunks_mut::<3>().0.iter_mut().zip(registers.as_chunks::<4>().0) {
        let [a, b, c, d] = group.map(|value| value & 63);
        *three = [a | b << 6, b >> 2 | c << 4, c >> 4 | d << 2];
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn raise_six_bits_avx2(packed: &[u8], registers: &mut [u8]) {
    use core::arch::x86_64::*;
    let spread = _mm256_setr_epi8(
        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10,
        11, -1,
    );
    let mut done = 0;
    for group in registers.as_chunks_mut::<WIDE_REGISTERS>().0 {
        // Each half needs twelve bytes, but a load reads sixteen.
        let Some(bytes) = packed.get(done / 4 * 3..).and_then(<[u8]>::first_chunk::<WIDE_PACKED>) else {
            break;
        };
        // SAFETY: sixteen bytes from the beginning of 28 are read.
        // JUSTIFICATION: a load from memory has no safe form.
        let low = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        // SAFETY: the last sixteen of the 28 bytes are read.
        // JUSTIFICATION: as above.
        let high = unsafe { _mm_loadu_si128(bytes[12..].as_ptr().cast()) };
        // SAFETY: the group has 32 bytes.
        // JUSTIFICATION: as above.
        let old = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
        // Each 32 bits hold four numbers of six bits, which are spread to bytes.
        let four = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), spread);
        let first = _mm256_and_si256(four, _mm256_set1_epi32(0x3f));
        let second = _mm256_slli_epi32::<2>(_mm256_and_si256(four, _mm256_set1_epi32(0xfc0)));
        let third = _mm256_slli_epi32::<4>(_mm256_and_si256(four, _mm256_set1_epi32(0x3_f000)));
        let fourth = _mm256_slli_epi32::<6>(_mm256_and_si256(four, _mm256_set1_epi32(0xfc_0000)));
        let new = _mm256_or_si256(_mm256_or_si256(first, second), _mm256_or_si256(third, fourth));
        // SAFETY: the group has 32 bytes.
        // JUSTIFICATION: a store to memory has no safe form.
        unsafe { _mm256_storeu_si256(group.as_mut_ptr().cast(), _mm256_max_epu8(old, new)) };
        done += WIDE_REGISTERS;
    }
    raise_six_bits_portable(packed.get(done / 4 * 3..).unwrap_or_default(), &mut registers[done..]);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn pack_six_bits_avx2(registers: &[u8], packed: &mut [u8]) {
    use core::arch::x86_64::*;
    let gather = _mm256_setr_epi8(
        0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1,
        -1, -1, -1,
    );
    let mut done = 0;
    for group in registers.as_chunks::<WIDE_REGISTERS>().0 {
        // Each half has twelve bytes, but a store writes sixteen. The four bytes too many are overwritten
        // later.
        let rest = packed.get_mut(done / 4 * 3..);
        let Some(bytes) = rest.and_then(<[u8]>::first_chunk_mut::<WIDE_PACKED>) else { break };
        // SAFETY: the group has 32 bytes.
        // JUSTIFICATION: a load from memory has no safe form.
        let all = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
        let first = _mm256_and_si256(all, _mm256_set1_epi32(0x3f));
        let second = _mm256_and_si256(_mm256_srli_epi32::<2>(all), _mm256_set1_epi32(0xfc0));
        let third = _mm256_and_si256(_mm256_srli_epi32::<4>(all), _mm256_set1_epi32(0x3_f000));
        let fourth = _mm256_and_si256(_mm256_srli_epi32::<6>(all), _mm256_set1_epi32(0xfc_0000));
        let four = _mm256_or_si256(_mm256_or_si256(first, second), _mm256_or_si256(third, fourth));
        let four = _mm256_shuffle_epi8(four, gather);
        // SAFETY: sixteen bytes from the beginning of 28 are written.
        // JUSTIFICATION: a store to memory has no safe form.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm256_castsi256_si128(four)) };
        // SAFETY: the last sixteen of the 28 bytes are written.
        // JUSTIFICATION: as above.
        unsafe { _mm_storeu_si128(bytes[12..].as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(four)) };
        done += WIDE_REGISTERS;
    }
    pack_six_bits_portable(&registers[done..], packed.get_mut(done / 4 * 3..).unwrap_or_default());
}

/// Registers of six bits that AVX2 handles at once.
#[cfg(target_arch = "x86_64")]
const WIDE_REGISTERS: usize = 32;
/// Packed bytes that must exist for `WIDE_REGISTERS` registers: their 24 bytes, and four more that are
/// read or written with them.
#[cfg(target_arch = "x86_64")]
const WIDE_PACKED: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;

    #[test]
    fn both_ways_of_counting_bits_agree_with_a_loop() {
        let mut rng = Rng::new(2);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..rng.below(600)).map(|_| rng.next_u64() as u8).collect();
            let naive: u64 =
                bytes.iter().map(|byte| (0..8).filter(|bit| byte >> bit & 1 == 1).count() as u64).sum();
            assert_eq!(count_ones(&bytes), naive);
            assert_eq!(count_ones_portable(&bytes), naive);
        }
    }

    #[test]
    fn both_ways_of_reading_and_writing_six_bits_agree_with_a_loop_over_bits() {
        let mut rng = Rng::new(3);
        for _ in 0..2000 {
            let groups = rng.below(40) as usize;
            let packed: Vec<u8> = (0..3 * groups).map(|_| rng.next_u64() as u8).collect();
            let before: Vec<u8> = (0..4 * groups).map(|_| rng.below(64) as u8).collect();
            let bit = |at: usize| packed[at / 8] >> (at % 8) & 1;
            let number = |register: usize| (0..6).fold(0, |sum, at| sum | bit(6 * register + at) << at);
            let naive: Vec<u8> =
                before.iter().enumerate().map(|(register, old)| number(register).max(*old)).collect();
            for raise in [raise_six_bits, raise_six_bits_portable] {
                let mut registers = before.clone();
                raise(&packed, &mut registers);
                assert_eq!(registers, naive);
            }
            let numbers: Vec<u8> = (0..4 * groups).map(number).collect();
            for pack in [pack_six_bits, pack_six_bits_portable] {
                let mut again = vec![0xaa; 3 * groups];
                pack(&numbers, &mut again);
                assert_eq!(again, packed);
            }
        }
    }

    #[test]
    fn both_ways_of_comparing_tags_agree_with_a_loop() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            // Only a few different values are used, so that matches, zeros and neighbours differing by one
            // are common.
            let bytes: [u8; 16] =
                std::array::from_fn(|_| [0, 1, 0x7f, 0x80, 0x81, 0xff][rng.below(6) as usize]);
            let head: [u32; 4] =
                std::array::from_fn(|i| u32::from_le_bytes([0, 1, 2, 3].map(|j| bytes[4 * i + j])));
            let tag = [0, 1, 0x7f, 0x80, 0x81, 0xff][rng.below(6) as usize];
            let naive = (0..12).filter(|&lane| bytes[lane] == tag).fold(0, |mask, lane| mask | 1 << lane);
            assert_eq!(lanes_equal(head, tag), naive);
            assert_eq!(lanes_equal_portable(head, tag), naive);
        }
    }
}
