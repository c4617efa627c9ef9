//! Random numbers, words and orders, from which commands are made.
//!
//! Invariant: a draw is a function of the seed and of the previous draws.

use sluice_base::Rng;

/// A source of random draws.
pub(super) struct Generator {
    pub(super) rng: Rng,
}

impl Generator {
    /// A generator whose draws are a function of `seed`.
    pub(super) fn new(seed: u64) -> Generator {
        Generator { rng: Rng::new(seed) }
    }

    /// A word of the grammar in upper, lower or mixed case.
    pub(super) fn token(&mut self, word: &str) -> Vec<u8> {
        let mut word = word.as_bytes().to_vec();
        match self.below(4) {
            0 => word.make_ascii_lowercase(),
            1 => {
                let at = self.below(word.len());
                word[at] = word[at].to_ascii_lowercase();
            }
            _ => {}
        }
        word
    }

    /// True with a probability of `percent` percent.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// An index below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).unwrap_or(0)
    }

    /// One of several texts.
    pub(super) fn pick(&mut self, texts: &[&str]) -> Vec<u8> {
        texts[self.below(texts.len())].as_bytes().to_vec()
    }

    /// Puts the items into a random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}
