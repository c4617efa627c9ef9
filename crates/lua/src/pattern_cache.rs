//! A cache of compiled patterns: programs use the same few patterns again and again, with short texts.

use crate::pattern::Matcher;

/// The number of matchers kept, each in a slot chosen by its pattern. The matchers take at most 250 KB,
/// because patterns longer than [`crate::pattern::KEPT_MAX`] are not kept.
const SLOTS: usize = 32;

/// Matchers by pattern. A matcher in use is not in the cache.
#[derive(Debug, Default)]
pub(crate) struct PatternCache {
    slots: [Option<Box<Matcher>>; SLOTS],
}

fn slot_of(pattern: &[u8]) -> usize {
    let [first, middle, last] = [0, pattern.len() / 2, pattern.len().saturating_sub(1)]
        .map(|at| usize::from(pattern.get(at).copied().unwrap_or(0)));
    (first + middle * 7 + last * 17 + pattern.len() * 29) % SLOTS
}

impl PatternCache {
    /// Takes the matcher of this pattern out, if there is one.
    pub(crate) fn take(&mut self, pattern: &[u8]) -> Option<Box<Matcher>> {
        self.slots[slot_of(pattern)].take_if(|matcher| matcher.text() == pattern)
    }

    /// Heap bytes of the matchers.
    pub(crate) fn footprint(&self) -> usize {
        self.slots.iter().flatten().map(|matcher| matcher.given_bytes()).sum()
    }

    /// Puts a matcher back, perhaps in place of another one. The matcher of a long pattern is dropped.
    pub(crate) fn give_back(&mut self, matcher: Box<Matcher>) {
        if !matcher.text().is_empty() {
            let slot = slot_of(matcher.text());
            self.slots[slot] = Some(matcher);
        }
    }
}
