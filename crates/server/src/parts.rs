//! Whether the parts of memory add up to what the allocator says: for tests, in builds with debug assertions.
//!
//! The parts are summed at the end of an iteration, when nothing is under way. Whatever is there at the first
//! sum is no part: later sums are held against how much was added since. Free blocks that threads keep for
//! themselves are a part, because the allocator counts them as given out.

use sluice_engine::MemoryPart;

/// The last sum, and the first.
#[derive(Debug, Default)]
pub struct Parts {
    first: Option<Sum>,
    last: Sum,
    parts: Vec<MemoryPart>,
}

/// What the allocator and the entries take, and the parts that are known, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    used: usize,
    parts: usize,
}

impl Parts {
    /// Learns the parts while so many bytes are used.
    pub fn learn(&mut self, used: usize, parts: Vec<MemoryPart>) {
        self.last = Sum { used, parts: parts.iter().map(|(_, bytes)| bytes).sum() };
        self.parts = parts;
        self.first.get_or_insert(self.last);
    }

    /// Lines for INFO: none before the first sum.
    pub fn lines(&self) -> Vec<(String, String)> {
        let Some(first) = self.first else { return Vec::new() };
        let known = (first.used + self.last.parts).wrapping_sub(first.parts);
        let sums = [
            ("memory_parts_used", self.last.used.to_string()),
            ("memory_parts_bytes", known.to_string()),
            ("memory_unexplained_bytes", (self.last.used.wrapping_sub(known) as isize).to_string()),
        ];
        let sums = sums.into_iter().map(|(name, value)| (name.to_owned(), value));
        let each = |(name, bytes): &MemoryPart| (format!("memory_part_{name}"), bytes.to_string());
        sums.chain(self.parts.iter().map(each)).collect()
    }
}
