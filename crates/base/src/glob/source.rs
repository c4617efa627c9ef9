//! The pattern that a match reads, and the limit of its steps.

use super::class::{ByteSet, LetterCase};

/// The limit or the count of a match's steps.
pub(super) trait MatchWork {
    /// Steps for each byte of pattern and text that matching byte by byte may take before the search in
    /// blocks takes over.
    const CREDIT: usize = 8;

    /// Counts steps of either kind, byte by byte or in blocks; only the tests keep the count.
    #[inline(always)]
    fn count(&mut self, _steps: usize) {}

    /// Takes steps for a search in blocks; `false` if the limit is exceeded.
    fn take(&mut self, steps: usize) -> bool;
}

/// A pattern in a form whose elements can be read one by one. Positions are offsets in its bytes.
pub(super) trait PatternSource: Copy {
    /// Whether every byte equals only itself.
    const IS_EXACT: bool;
    type LetterCase: LetterCase;

    fn pattern(&self) -> &[u8];

    /// Whether the class that begins at `p`, after its bracket, holds `byte`, and the position after the
    /// class.
    fn class(self, p: usize, byte: u8) -> (bool, usize);

    /// The bytes that the class at `p`, after its bracket, holds, and the position after the class.
    fn class_set(self, p: usize) -> (ByteSet, usize);

    /// Whether the element at `p`, which is not a star, matches `byte`, and the position after the
    /// element. At the end of the pattern nothing matches.
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

    /// The bytes that the element at `p` matches, and the position after it. `p` is before the end
    /// of the pattern.
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
