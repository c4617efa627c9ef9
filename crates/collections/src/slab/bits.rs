//! A set of blocks of one chunk, with one bit for each block.

#![forbid(unsafe_code)]

/// A set of the blocks of one chunk. 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockBits([u64; WORDS]);

impl BlockBits {
    /// The set without any block.
    pub const EMPTY: BlockBits = BlockBits([0; WORDS]);

    /// Whether a block is in the set; `true` for a number that no chunk has.
    #[inline]
    pub fn has(&self, block: u32) -> bool {
        self.0.get(block as usize / 64).is_none_or(|word| word >> (block % 64) & 1 != 0)
    }

    /// Adds a block; ignores a number that no chunk has.
    #[inline]
    pub fn add(&mut self, block: u32) {
        if let Some(word) = self.0.get_mut(block as usize / 64) {
            *word |= 1 << (block % 64);
        }
    }

    /// Adds every block from `block` on.
    pub(super) fn add_from(&mut self, block: u32) {
        for (word, first) in self.0.iter_mut().zip((0u32..).step_by(64)) {
            let before = block.saturating_sub(first);
            *word |= if before < 64 { !0 << before } else { 0 };
        }
    }

    /// The first block from `from` on that is not in the set.
    #[inline]
    pub fn next_absent(&self, from: u32) -> Option<u32> {
        let mut word = from as usize / 64;
        let mut absent = !self.0.get(word)? & (!0 << (from % 64));
        while absent == 0 {
            word += 1;
            absent = !*self.0.get(word)?;
        }
        Some(word as u32 * 64 + absent.trailing_zeros())
    }
}

const WORDS: usize = 4096 / 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_blocks_are_found_in_order() {
        let mut bits = BlockBits::EMPTY;
        bits.add_from(130);
        for block in [0, 1, 63, 64, 128] {
            bits.add(block);
        }
        let absent: Vec<u32> =
            std::iter::successors(bits.next_absent(0), |at| bits.next_absent(at + 1)).collect();
        let wanted: Vec<u32> = (2..63).chain(65..128).chain([129]).collect();
        assert_eq!(absent, wanted);
        assert!(bits.has(4095) && bits.has(130) && !bits.has(129) && bits.has(4096));
        assert_eq!(BlockBits::EMPTY.next_absent(4095), Some(4095));
        assert_eq!(BlockBits::EMPTY.next_absent(4096), None);
    }

    #[test]
    fn the_bounds_of_words_are_no_exception() {
        for from in [0, 1, 63, 64, 65, 4032, 4095, 4096] {
            let mut bits = BlockBits::EMPTY;
            bits.add_from(from);
            for block in 0..4096 {
                assert_eq!(bits.has(block), block >= from, "from {from}, block {block}");
            }
        }
    }
}
