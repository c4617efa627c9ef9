//! The memory that allocations take once the allocator has rounded them up, for computing sizes of
//! structures.
//!
//! The size classes are jemalloc's on a 64-bit machine: four for each power of two, and pages beyond
//! them. This module neither allocates nor asks the allocator, so crates without an allocator can use
//! it; a test of the server compares it with the allocator.

use std::collections::VecDeque;

/// Bytes that an allocation of `bytes` bytes takes; 0 for an empty one.
pub const fn block(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    if bytes <= 8 {
        return 8;
    }
    if bytes <= 128 {
        return bytes.next_multiple_of(16);
    }
    if bytes > CLASSES_MAX {
        return bytes.next_multiple_of(PAGE);
    }
    // The group of four classes that ends with a power of two.
    let group_end = bytes.next_power_of_two();
    bytes.next_multiple_of(group_end / 8)
}

/// Bytes that a box of a `T` takes.
pub const fn boxed<T>() -> usize {
    block(size_of::<T>())
}

/// Bytes that a reference-counted `T` takes.
pub const fn counted<T>() -> usize {
    block(2 * size_of::<usize>() + size_of::<T>())
}

/// Bytes that the buffer of a vector takes.
pub fn vec<T>(vec: &Vec<T>) -> usize {
    block(vec.capacity() * size_of::<T>())
}

/// Bytes that the buffer of a queue takes.
pub fn deque<T>(deque: &VecDeque<T>) -> usize {
    block(deque.capacity() * size_of::<T>())
}

/// Approximate bytes that the nodes of a tree of `len` pairs take. A tree does not report how full its nodes
/// are, so two thirds are assumed. The result is exact up to eleven pairs.
pub const fn tree<K, V>(len: usize) -> usize {
    let leaf = block(16 + TREE_NODE * (size_of::<K>() + size_of::<V>()));
    match len {
        0 => 0,
        1..=TREE_NODE => leaf,
        // There is about one inner node for eight leaves, and an inner node has twelve more words
        // than a leaf.
        _ => {
            let leaves = len.div_ceil(TREE_NODE * 2 / 3);
            leaves * leaf + leaves.div_ceil(8) * (leaf + 8 * (TREE_NODE + 1))
        }
    }
}

/// A size in 32 bits, for display; [`u32::MAX`] for larger sizes.
pub fn short(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The largest size class; larger requests are rounded up to pages.
const CLASSES_MAX: usize = 16 * 1024;
const PAGE: usize = 4096;
/// Maximum pairs in a node of the standard library's trees.
const TREE_NODE: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_classes_lie_between_two_powers_of_two() {
        let classes = [
            (0, 0),
            (1, 8),
            (8, 8),
            (9, 16),
            (48, 48),
            (49, 64),
            (128, 128),
            (129, 160),
            (257, 320),
            (1024, 1024),
            (1025, 1280),
            (12_800, 14_336),
            (65_537, 69_632),
        ];
        for (bytes, class) in classes {
            assert_eq!(block(bytes), class, "{bytes}");
        }
    }
}
