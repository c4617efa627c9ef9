//! What memory costs once an allocator has rounded a request up: for sums of the parts of memory.
//!
//! The classes are jemalloc's on a 64-bit machine: four to each power of two, and pages beyond them. Nothing
//! is allocated or asked here, so that crates that know no allocator can use these functions; a test of the
//! server holds them against the allocator.

use std::collections::VecDeque;

/// Bytes that a request for `bytes` takes. A request for none takes none.
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

/// Bytes that a count of owners with a `T` takes.
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

/// Bytes that the nodes of a tree of `len` pairs take, about: a tree does not say how full its nodes are, and
/// two thirds are assumed. Exact up to eleven pairs.
pub const fn tree<K, V>(len: usize) -> usize {
    let leaf = block(16 + TREE_NODE * (size_of::<K>() + size_of::<V>()));
    match len {
        0 => 0,
        1..=TREE_NODE => leaf,
        // One inner node with twelve more words stands above some eight leaves.
        _ => {
            let leaves = len.div_ceil(TREE_NODE * 2 / 3);
            leaves * leaf + leaves.div_ceil(8) * (leaf + 8 * (TREE_NODE + 1))
        }
    }
}

/// A size for display, in as few bytes as may be: [`u32::MAX`] for more.
pub fn short(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The largest class; what is larger is rounded up to pages.
const CLASSES_MAX: usize = 16 * 1024;
const PAGE: usize = 4096;
/// Pairs in a node of the standard library's trees at most.
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
