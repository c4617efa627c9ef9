//! What a match walks, and what limits its steps.

use super::class::{ByteSet, LetterCase};

/// What limits or counts the steps of a match.
pub(super) trait MatchWork {
    /// Steps for each byte of pattern and text before elements are looked for in blocks.
    const CREDIT: usize = 8;

    /// Counts steps of the plain walk.
    #[inline(always)]
    fn count(&mut self, _steps: usize) {}

    /// Takes steps of a search in blocks; `false` where they are too many.
    fn take(&mut self, steps: usize) -> bool;
}

/// A pattern as it is walked: positions are of its bytes.
pub(super) trait PatternSource: Copy {
    /// Every byte equals itself alone.
    const IS_EXACT: bool;
    type LetterCase: LetterCase;

    fn pattern(&self) -> &[u8];

    /// Whether the class that begins at `p`, after its bracket, holds `byte`, and the position after it.
    fn class(self, p: usize, byte: u8) -> (bool, usize);

    /// The bytes that the class at `p` holds, and the position after it.
    fn class_set(self, p: usize) -> (ByteSet, usize);

    /// Whether the element at `p` matches `byte`, and the position after it; the element is not a star. Where
    /// the pattern has ended, nothing matches.
    #[inline(always)]
    fn step(self, p: usize, byte: u8) -> (bool, usize) {
        let pattern = self.pattern();
        match pattern.get(p) {
            None => (false, p),
            Some(b'?') => (true, p + 1),
            Some(b'[') => self.class(p + 1, byte),
            Some(b'\\') if p + 1 < pattern.len() => {
                (Self::LetterCase::fold(pattern[p + 1]) == Self::LetterCase::fold(byte), p + 2)
            }
            Some(&literal) => (Self::LetterCase::fold(literal) == Self::LetterCase::fold(byte), p + 1),
        }
    }

    /// The bytes that the element at `p` matches, and the position after it; the pattern has not ended.
    fn element_set(self, p: usize) -> (ByteSet, usize) {
        let pattern = self.pattern();
        match pattern[p] {
            b'?' => (ByteSet::ALL, p + 1),
            b'[' => self.class_set(p + 1),
            b'\\' if p + 1 < pattern.len() => (ByteSet::folded::<Self::LetterCase>(pattern[p + 1]), p + 2),
            literal => (ByteSet::folded::<Self::LetterCase>(literal), p + 1),
        }
    }

    /// The position after the element at `p`.
    fn after(self, p: usize) -> usize {
        let pattern = self.pattern();
        match pattern[p] {
            b'[' => self.class(p + 1, 0).1,
            b'\\' if p + 1 < pattern.len() => p + 2,
            _ => p + 1,
        }
    }
}
