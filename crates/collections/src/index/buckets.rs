//! A row of buckets that grows and shrinks at its end, in segments that never move.
//!
//! Invariants: (1) only the last segment may hold fewer than `SEGMENT` buckets; (2) every segment but the
//! first has its full capacity from the start, which is not written before it is used, so that a new segment
//! is no pause; the first grows by a fifth to a quarter, as an allocator's classes do, so that a small index
//! is small; (3) an empty last segment may be kept for the next push.

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

    /// Adds a bucket at the end and returns its index. At most one segment is allocated, or the first copied.
    pub(super) fn push(&mut self, bucket: Bucket) -> usize {
        let index = self.len();
        let number = index >> SEGMENT_BITS;
        if number == self.segments.len() {
            let capacity = if number == 0 { 1 } else { SEGMENT };
            if number == 0 {
                // Room for four lists of buckets, as a vector would make, is more than most indexes ever
                // hold.
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

    /// Takes the last bucket off. A segment is given back once half of the one before it is empty too, so
    /// that going back and forth over an edge allocates nothing.
    pub(super) fn pop(&mut self) -> Option<Bucket> {
        let last = self.len().checked_sub(1)?;
        let bucket = self.segments[last >> SEGMENT_BITS].pop();
        self.len -= 1;
        if self.segments.len() > 1 && last + SEGMENT / 2 <= (self.segments.len() - 1) * SEGMENT {
            self.segments.pop();
        }
        if let [first] = self.segments.as_mut_slice() {
            // Half is kept in reserve, so that going back and forth allocates nothing.
            if 2 * last <= first.capacity() {
                first.shrink_to(last);
            }
        }
        bucket
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bucket> {
        self.segments.iter().flatten()
    }

    /// Bytes allocated, those not written yet included.
    pub(super) fn bytes(&self) -> usize {
        let buckets = match self.segments.as_slice() {
            [only] => only.capacity(),
            segments => segments.len() * SEGMENT,
        };
        buckets * size_of::<Bucket>() + self.segments.capacity() * size_of::<Vec<Bucket>>()
    }
}

/// A row of overflow buckets, numbered from 1: eight bytes where there is none.
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

    /// Adds a bucket at the end and returns its number.
    pub(super) fn push(&mut self, bucket: Bucket) -> u32 {
        self.0.get_or_insert_with(|| Box::new(Buckets::new())).push(bucket) as u32 + 1
    }

    /// Takes the last bucket off.
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

/// The highest power of two that is not above `n`, which is not 0.
fn prev_power_of_two(n: usize) -> usize {
    1 << (usize::BITS - 1 - n.leading_zeros())
}

const NUMBERED: &str = "a link names a bucket of the pool";
const SEGMENT_BITS: u32 = 10;
/// Buckets of a full segment: 64 KiB.
const SEGMENT: usize = 1 << SEGMENT_BITS;
