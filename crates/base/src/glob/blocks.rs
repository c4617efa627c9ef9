//! Finds the first match of the elements between two stars. The search compares 256 elements at a time, at
//! many positions of the text in parallel.
//!
//! ```text
//!  positions that may be a match   1 1 1 1 1 1 1 …     one bit each, PositionS at a time
//!  after elements 0–255            0 0 1 1 0 1 0 …     one pass over the text: a bit for each element that
//!  after elements 256–511          0 0 0 1 0 0 0 …     the bytes so far have matched, shifted by each byte
//! ```
//!
//! Cost: a pass takes one step for each position and for each of its elements, at most 256, a constant for
//! its table, and the time to read the elements' text. There is no pass once no position is left. No memory
//! is allocated.

use super::class::ByteSet;
use super::form::{elements_to_star, matches_all};
use super::source::{MatchWork, PatternSource};

/// The result of a search.
pub(super) enum SegmentFound {
    /// The elements match up to here: positions in the pattern and in the text.
    At {
        pattern: usize,
        text: usize,
    },
    Nowhere,
    /// The search would take more steps than it may.
    GaveUp,
}

/// Finds the first position of the text, from `from` on, at which the elements from `star` to the next star
/// match. If these elements end the pattern, their match has to end the text.
#[cold]
pub(super) fn find<S: PatternSource, W: MatchWork>(
    source: S,
    star: usize,
    text: &[u8],
    from: usize,
    work: &mut W,
) -> SegmentFound {
    let pattern = source.pattern();
    let (end, elements) = elements_to_star(source, star);
    let Some(last) = text.len().checked_sub(elements).filter(|last| *last >= from) else {
        return SegmentFound::Nowhere;
    };
    if end == pattern.len() {
        return match matches_all(source, star, &text[last..]) {
            true => SegmentFound::At { pattern: end, text: text.len() },
            false => SegmentFound::Nowhere,
        };
    }
    let segment = StarSegment { source, star, end };
    let (mut at, mut positions) = (from, POSITIONS_MIN);
    while at <= last {
        let count = positions.min(last - at + 1);
        let first = if elements <= 64 {
            segment.first_of::<1, W>(text, at, count, work)
        } else {
            segment.first_of::<4, W>(text, at, count, work)
        };
        match first {
            Err(GaveUp) => return SegmentFound::GaveUp,
            Ok(Some(index)) => return SegmentFound::At { pattern: end, text: at + index + elements },
            Ok(None) => at += count,
        }
        positions = (positions * 2).min(POSITIONS_MAX);
    }
    SegmentFound::Nowhere
}

struct GaveUp;

/// The elements between two stars.
struct StarSegment<S> {
    source: S,
    star: usize,
    end: usize,
}

impl<S: PatternSource> StarSegment<S> {
    /// The first of `count` positions from `at` on where the elements match.
    fn first_of<const WORDS: usize, W: MatchWork>(
        &self,
        text: &[u8],
        at: usize,
        count: usize,
        work: &mut W,
    ) -> Result<Option<usize>, GaveUp> {
        let mut left = [0_u64; POSITIONS_MAX / 64];
        let words = count.div_ceil(64);
        left[..words].fill(u64::MAX);
        if !count.is_multiple_of(64) {
            left[words - 1] = u64::MAX >> (64 - count % 64);
        }
        let (mut p, mut passed) = (self.star, 0);
        while p < self.end {
            let before = p;
            let part = ElementPart::<WORDS>::read(self.source, &mut p, self.end);
            let steps = count + part.elements + TABLE_STEPS + (p - before);
            work.count(steps);
            if !work.take(steps) {
                return Err(GaveUp);
            }
            part.keep_matching(&text[at + passed..][..count + part.elements - 1], &mut left[..words]);
            passed += part.elements;
            if left[..words].iter().all(|word| *word == 0) {
                return Ok(None);
            }
        }
        let found = left[..words].iter().enumerate().find(|(_, word)| **word != 0);
        Ok(found.map(|(index, word)| index * 64 + word.trailing_zeros() as usize))
    }
}

/// Up to 64 × `WORDS` elements, as a table: for each byte, the elements that match it.
struct ElementPart<const WORDS: usize> {
    elements: usize,
    matching: [[u64; WORDS]; 256],
}

impl<const WORDS: usize> ElementPart<WORDS> {
    /// Reads elements from `p` on, and moves `p` to their end.
    fn read<S: PatternSource>(source: S, p: &mut usize, end: usize) -> ElementPart<WORDS> {
        let mut part = ElementPart { elements: 0, matching: [[0; WORDS]; 256] };
        while *p < end && part.elements < 64 * WORDS {
            let (set, next) = source.element_set(*p);
            part.mark_edges(set);
            part.elements += 1;
            *p = next;
        }
        // So far the table marks the bytes at which membership changes. XOR with the preceding byte's entry
        // yields membership.
        for byte in 1..256 {
            let before = part.matching[byte - 1];
            part.matching[byte].iter_mut().zip(before).for_each(|(word, before)| *word ^= before);
        }
        part
    }

    fn mark_edges(&mut self, set: ByteSet) {
        let (word, bit) = (self.elements / 64, self.elements % 64);
        for byte in set.edges() {
            self.matching[usize::from(byte)][word] ^= 1 << bit;
        }
    }

    /// Clears the positions at which the elements do not match. The first position is the first
    /// byte of `text`.
    fn keep_matching(&self, text: &[u8], positions: &mut [u64]) {
        let (last_word, last_bit) = ((self.elements - 1) / 64, (self.elements - 1) % 64);
        let mut state = [0_u64; WORDS];
        // `positions` can be cleared in place, because each position is read before a match that begins
        // there can have ended.
        for (index, &byte) in text.iter().enumerate() {
            let mut carried = match positions.get(index / 64) {
                Some(word) => word >> (index % 64) & 1,
                None => 0,
            };
            for (word, mask) in state.iter_mut().zip(self.matching[usize::from(byte)]) {
                let shifted = *word << 1 | carried;
                carried = *word >> 63;
                *word = shifted & mask;
            }
            if let Some(begin) = (index + 1).checked_sub(self.elements)
                && state[last_word] >> last_bit & 1 == 0
            {
                positions[begin / 64] &= !(1 << (begin % 64));
            }
        }
    }
}

/// Number of positions that are searched first; it is small because a match is often near.
const POSITIONS_MIN: usize = 256;
/// Maximum number of positions that are searched at once.
const POSITIONS_MAX: usize = 8192;
/// Steps for building a table, in addition to those for its elements.
const TABLE_STEPS: usize = 256;
