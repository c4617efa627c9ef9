//! Compares the sum of the memory of all known parts of the server with the allocator's figure, for tests, in
//! builds with debug assertions.
//!
//! The parts are measured at the end of an iteration, when no operation is under way. The difference between
//! sum and figure at the first measurement counts as memory outside of all parts, so later sums are compared
//! by their growth since the first one. Free blocks in the threads' caches are a part, because the allocator
//! counts them as allocated.

use sluice_engine::MemoryPart;

/// The first and the last sum, and the parts of the last sum.
#[derive(Debug, Default)]
pub struct Parts {
    first: Option<MemorySum>,
    last: MemorySum,
    parts: Vec<MemoryPart>,
}

/// The bytes used according to the allocator and the entries, and the sum of the known parts.
#[derive(Clone, Copy, Debug, Default)]
struct MemorySum {
    used: usize,
    parts: usize,
}

impl Parts {
    /// Records the parts, measured while `used` bytes are in use.
    pub fn learn(&mut self, used: usize, parts: Vec<MemoryPart>) {
        self.last = MemorySum { used, parts: parts.iter().map(|(_, bytes)| bytes).sum() };
        self.parts = parts;
        self.first.get_or_insert(self.last);
    }

    /// Lines for INFO: the name of each field without the prefix `memory_`, and the value; empty before the
    /// first sum.
    pub fn lines(&self) -> Vec<(String, i64)> {
        let Some(first) = self.first else { return Vec::new() };
        let known = (first.used + self.last.parts).wrapping_sub(first.parts);
        let sums = [
            ("parts_used", self.last.used as i64),
            ("parts_bytes", known as i64),
            ("unexplained_bytes", self.last.used.wrapping_sub(known) as i64),
        ];
        let sums = sums.into_iter().map(|(name, value)| (name.to_owned(), value));
        let each = |(name, bytes): &MemoryPart| (format!("part_{name}"), *bytes as i64);
        sums.chain(self.parts.iter().map(each)).collect()
    }
}
