//! Whether the parts of memory add up to what the allocator says: for tests, in builds with debug assertions.
//!
//! The parts are summed at the end of an iteration, when nothing is under way. Whatever is there at the first
//! sum is no part: later sums are held against how much was added since. Free blocks that threads keep for
//! themselves are a part, because the allocator counts them as given out.

use sluice_engine::MemoryPart;

/// The last sum, and the first.
#[derive(Debug, Default)]
pub struct Parts {
    first: Option<MemorySum>,
    last: MemorySum,
    parts: Vec<MemoryPart>,
}

/// What the allocator and the entries take, and the parts that are known, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct MemorySum {
    used: usize,
    parts: usize,
}

impl Parts {
    /// Learns the parts while so many bytes are used.
    pub fn learn(&mut self, used: usize, parts: Vec<MemoryPart>) {
        self.last = MemorySum { used, parts: parts.iter().map(|(_, bytes)| bytes).sum() };
        self.parts = parts;
        self.first.get_or_insert(self.last);
    }

    /// Lines for INFO, by what stands behind `memory_` in their names: none before the first sum.
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
