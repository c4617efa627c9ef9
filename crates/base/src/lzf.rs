//! LZF, the compression of strings in RDB files and of the inner nodes of lists.
//!
//! A compressed string is a sequence of pieces:
//!
//! | first byte | then | meaning |
//! |---|---|---|
//! | `000lllll` | l + 1 bytes | these bytes |
//! | `lllooooo`, l from 1 to 6 | `oooooooo` | l + 2 bytes again, from o + 1 back |
//! | `111ooooo` | `llllllll`, `oooooooo` | l + 9 bytes again, from o + 1 back |

/// Compresses `input`, of less than 4 GiB, to at most `len_max` bytes; `None` when the result
/// would be longer.
pub fn compress(input: &[u8], len_max: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(len_max);
    // Short strings are frequent, so their tables are small.
    let bits = (usize::BITS - input.len().leading_zeros()).clamp(6, HASH_BITS_MAX);
    let mut seen = vec![0u32; 1 << bits];
    let (mut at, mut literals_from) = (0, 0);
    while let Some(three) = input.get(at..).and_then(|rest| rest.first_chunk::<3>()) {
        // Positions are stored plus one, because 0 means that there is none.
        let slot = &mut seen[hash(*three, bits)];
        let before = *slot as usize;
        *slot = at as u32 + 1;
        let distance = (at + 1).wrapping_sub(before);
        if before == 0 || distance > DISTANCE_MAX || input[before - 1..before + 2] != *three {
            at += 1;
            continue;
        }
        push_literals(&mut out, &input[literals_from..at]);
        let len = common(&input[before - 1..], &input[at..]);
        push_match(&mut out, len, distance - 1);
        if out.len() > len_max {
            return None;
        }
        at += len;
        literals_from = at;
    }
    push_literals(&mut out, &input[literals_from..]);
    (out.len() <= len_max).then_some(out)
}

fn hash(three: [u8; 3], bits: u32) -> usize {
    let word = u32::from_le_bytes([three[0], three[1], three[2], 0]);
    (word.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

fn common(earlier: &[u8], here: &[u8]) -> usize {
    earlier.iter().zip(here).take(MATCH_MAX).take_while(|(a, b)| a == b).count()
}

fn push_literals(out: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(LITERALS_MAX) {
        out.push((run.len() - 1) as u8);
        out.extend_from_slice(run);
    }
}

fn push_match(out: &mut Vec<u8>, len: usize, back: usize) {
    let high = (back >> 8) as u8;
    if len < 9 {
        out.push(((len - 2) as u8) << 5 | high);
    } else {
        out.extend_from_slice(&[7 << 5 | high, (len - 9) as u8]);
    }
    out.push(back as u8);
}

/// Decompresses `input` to exactly `len` bytes; `None` when it is malformed or has another length.
pub fn decompress(input: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    decompress_into(input, len, &mut out)?;
    Some(out)
}

/// Decompresses `input` to exactly `len` bytes, which replace the contents of `out`. `None` when it is
/// malformed or has another length; `out` then holds some bytes.
pub fn decompress_into(input: &[u8], len: usize, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    // No byte of the input yields more than `MATCH_MAX` bytes, so a false length cannot cause a large
    // allocation.
    if len > input.len().saturating_mul(MATCH_MAX) {
        return None;
    }
    out.reserve(len);
    let mut rest = input;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let long = usize::from(first >> 5);
        if long == 0 {
            let (literals, after) = rest.split_at_checked(usize::from(*first) + 1)?;
            out.extend_from_slice(literals);
            rest = after;
        } else {
            let mut count = long + 2;
            if long == 7 {
                let (more, after) = rest.split_first()?;
                count += usize::from(*more);
                rest = after;
            }
            let (low, after) = rest.split_first()?;
            rest = after;
            let back = (usize::from(first & 31) << 8 | usize::from(*low)) + 1;
            let from = out.len().checked_sub(back)?;
            if out.len() + count > len {
                return None;
            }
            // The piece may overlap its own output, so each round copies the bytes that exist already, which
            // doubles their number.
            let mut left = count;
            while left > 0 {
                let there = left.min(out.len() - from);
                out.extend_from_within(from..from + there);
                left -= there;
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(())
}

/// Maximum size of the table of positions, as a power of two.
const HASH_BITS_MAX: u32 = 13;
const DISTANCE_MAX: usize = 1 << 13;
const LITERALS_MAX: usize = 32;
const MATCH_MAX: usize = 264;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn random_text(rng: &mut Rng) -> Vec<u8> {
        let letters = 1 + rng.below(30);
        (0..rng.below(3000)).map(|_| rng.below(letters) as u8).collect()
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let mut rng = Rng::new(5);
        for _ in 0..2000 {
            let mut text = random_text(&mut rng);
            if rng.below(2) == 0 {
                text.extend_from_within(..);
            }
            let small = compress(&text, text.len() * 2 + 8).expect("fits");
            assert_eq!(decompress(&small, text.len()).as_deref(), Some(text.as_slice()));
        }
    }

    #[test]
    fn repetition_gets_small_and_noise_does_not() {
        assert!(compress(&[b'a'; 1000], 1000).expect("fits").len() < 20);
        let mut rng = Rng::new(1);
        let noise: Vec<u8> = (0..1000).map(|_| rng.next_u64() as u8).collect();
        assert_eq!(compress(&noise, 996), None);
    }

    #[test]
    fn what_the_reference_wrote_is_read() {
        let wrote = b"\x01aa\xe0W\x00\x01aa";
        assert_eq!(decompress(wrote, 100), Some(vec![b'a'; 100]));
    }

    #[test]
    fn noise_is_refused_or_read_but_never_more_than_asked() {
        let mut rng = Rng::new(9);
        for _ in 0..20_000 {
            let noise: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect();
            let len = rng.below(400) as usize;
            assert!(decompress(&noise, len).is_none_or(|out| out.len() == len));
        }
        assert_eq!(decompress(&[0, 1], usize::MAX), None);
    }
}
