//! Patterns that were compiled lately: programs call the same few again and again, with short texts.

use crate::pattern::Matcher;

/// Matchers that are kept, each in a slot that its pattern decides: 250 KB at most, whatever the patterns
/// are, since those that are longer than [`crate::pattern::KEPT_MAX`] are not kept.
const SLOTS: usize = 32;

/// Matchers by their pattern. One that is in use is not here.
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
    /// A matcher of this pattern that was given back, if it is still here.
    pub(crate) fn take(&mut self, pattern: &[u8]) -> Option<Box<Matcher>> {
        self.slots[slot_of(pattern)].take_if(|matcher| matcher.text() == pattern)
    }

    /// Bytes that the allocator has given for the matchers.
    pub(crate) fn footprint(&self) -> usize {
        self.slots.iter().flatten().map(|matcher| matcher.given_bytes()).sum()
    }

    /// Keeps a matcher, in the place of another one perhaps. One of a long pattern is dropped.
    pub(crate) fn give_back(&mut self, matcher: Box<Matcher>) {
        if !matcher.text().is_empty() {
            let slot = slot_of(matcher.text());
            self.slots[slot] = Some(matcher);
        }
    }
}
