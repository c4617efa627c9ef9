//! An array of buckets that grows and shrinks at its end, in segments of which only the first ever moves.
//!
//! Invariants: (1) all buckets lie in the first segments without a gap, and every segment before the one with
//! the last bucket is full; (2) every segment but the first has its full capacity from the start, which is
//! not written before it is used, so that a new segment causes no pause; the first segment grows by one
//! bucket, and from four buckets on by a seventh to a quarter, as an allocator's size classes do, so that a
//! small index takes little memory; (3) an empty segment may follow the one with the last bucket and is kept
//! for the next pushes.

use super::bucket::Bucket;

pub(super) struct Buckets {
    segments: Vec<Vec<Bucket>>,
    len: u32,
}

impl Buckets {
    pub(super) const fn new() -> Buckets {
        Buckets { segments: Vec::new(), len: 0 }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> &Bucket {
        &self.segments[index >> SEGMENT_BITS][index & (SEGMENT - 1)]
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, index: usize) -> &mut Bucket {
        &mut self.segments[index >> SEGMENT_BITS][index & (SEGMENT - 1)]
    }

    /// Appends a bucket and returns its index. At most one segment is allocated, or the first one copied.
    pub(super) fn push(&mut self, bucket: Bucket) -> usize {
        let index = self.len();
        let number = index >> SEGMENT_BITS;
        if number == self.segments.len() {
            let capacity = if number == 0 { 1 } else { SEGMENT };
            if number == 0 {
                // A vector would reserve room for four segments, which is more than most indexes ever have.
                self.segments.reserve_exact(1);
            }
            self.segments.push(Vec::with_capacity(capacity));
        }
        let segment = &mut self.segments[number];
        if segment.len() == segment.capacity() {
            segment.reserve_exact((prev_power_of_two(segment.len()) / 4).max(1));
        }
        segment.push(bucket);
        self.len += 1;
        index
    }

    /// Removes the last bucket. A segment is freed once half of the segment before it is empty, too, so
    /// that alternating pushes and pops at a boundary allocate nothing.
    pub(super) fn pop(&mut self) -> Option<Bucket> {
        let last = self.len().checked_sub(1)?;
        let bucket = self.segments[last >> SEGMENT_BITS].pop();
        self.len -= 1;
        if self.segments.len() > 1 && last + SEGMENT / 2 <= (self.segments.len() - 1) * SEGMENT {
            self.segments.pop();
        }
        if let [first] = self.segments.as_mut_slice() {
            // The segment shrinks only once half of it is unused, so that alternating pushes and
            // pops allocate nothing.
            if 2 * last <= first.capacity() {
                first.shrink_to(last);
            }
        }
        bucket
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bucket> {
        self.segments.iter().flatten()
    }

    /// Bytes allocated, including those not written yet.
    pub(super) fn bytes(&self) -> usize {
        let buckets = match self.segments.as_slice() {
            [only] => only.capacity(),
            segments => segments.len() * SEGMENT,
        };
        buckets * size_of::<Bucket>() + self.segments.capacity() * size_of::<Vec<Bucket>>()
    }
}

/// An array of overflow buckets, numbered from 1. An empty pool takes eight bytes.
pub(super) struct OverflowPool(Option<Box<Buckets>>);

impl OverflowPool {
    pub(super) const fn new() -> OverflowPool {
        OverflowPool(None)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |buckets| buckets.len())
    }

    /// The highest number; 0 when there is no bucket.
    pub(super) fn last(&self) -> u32 {
        self.len() as u32
    }

    #[inline]
    pub(super) fn at(&self, number: u32) -> &Bucket {
        self.0.as_ref().expect(NUMBERED).at(number as usize - 1)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, number: u32) -> &mut Bucket {
        self.0.as_mut().expect(NUMBERED).at_mut(number as usize - 1)
    }

    /// Appends a bucket and returns its number.
    pub(super) fn push(&mut self, bucket: Bucket) -> u32 {
        self.0.get_or_insert_with(|| Box::new(Buckets::new())).push(bucket) as u32 + 1
    }

    /// Removes the last bucket.
    pub(super) fn pop(&mut self) {
        if let Some(buckets) = &mut self.0 {
            buckets.pop();
            if buckets.len() == 0 {
                self.0 = None;
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bucket> {
        self.0.iter().flat_map(|buckets| buckets.iter())
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |buckets| size_of::<Buckets>() + buckets.bytes())
    }
}

/// The highest power of two that is at most `n`, which is not 0.
fn prev_power_of_two(n: usize) -> usize {
    1 << (usize::BITS - 1 - n.leading_zeros())
}

const NUMBERED: &str = "a link names a bucket of the pool";
const SEGMENT_BITS: u32 = 10;
/// Buckets of a full segment: 64 KiB.
const SEGMENT: usize = 1 << SEGMENT_BITS;
