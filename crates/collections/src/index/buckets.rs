//! A row of buckets that grows and shrinks at its end, in segments that never move.
//!
//! Invariants: (1) only the last segment may hold fewer than `SEGMENT` buckets; (2) every segment but the first has its
//! full capacity from the start, which is not written before it is used, so that a new segment is no pause; the first
//! grows by doubling, so that a small index is small; (3) an empty last segment may be kept for the next push.

use super::bucket::Bucket;

pub(super) struct Buckets {
    segments: Vec<Vec<Bucket>>,
    len: usize,
}

impl Buckets {
    pub(super) const fn new() -> Buckets {
        Buckets { segments: Vec::new(), len: 0 }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn at(&self, index: usize) -> &Bucket {
        &self.segments[index >> SEGMENT_BITS][index & (SEGMENT - 1)]
    }

    #[inline(always)]
    pub(super) fn at_mut(&mut self, index: usize) -> &mut Bucket {
        &mut self.segments[index >> SEGMENT_BITS][index & (SEGMENT - 1)]
    }

    /// Adds a bucket at the end and returns its index. At most one segment is allocated, or half of the first copied.
    pub(super) fn push(&mut self, bucket: Bucket) -> usize {
        let index = self.len;
        let number = index >> SEGMENT_BITS;
        if number == self.segments.len() {
            let capacity = if number == 0 { 1 } else { SEGMENT };
            if number == 0 {
                // Room for four lists of buckets, as a vector would make, is more than most indexes ever hold.
                self.segments.reserve_exact(1);
            }
            self.segments.push(Vec::with_capacity(capacity));
        }
        let segment = &mut self.segments[number];
        if segment.len() == segment.capacity() {
            segment.reserve_exact(segment.len());
        }
        segment.push(bucket);
        self.len += 1;
        index
    }

    /// Takes the last bucket off. A segment is given back once half of the one before it is empty too, so that going
    /// back and forth over an edge allocates nothing.
    pub(super) fn pop(&mut self) -> Option<Bucket> {
        let last = self.len.checked_sub(1)?;
        let bucket = self.segments[last >> SEGMENT_BITS].pop();
        self.len = last;
        if self.segments.len() > 1 && self.len + SEGMENT / 2 <= (self.segments.len() - 1) * SEGMENT {
            self.segments.pop();
        }
        if let [first] = self.segments.as_mut_slice() {
            // The smallest ones keep no reserve: an index without entries is as small as it began.
            let wasted =
                |capacity| if capacity <= 2 { 2 * self.len <= capacity } else { 4 * self.len <= capacity };
            while first.capacity() > 0 && wasted(first.capacity()) {
                first.shrink_to(first.capacity() / 2);
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

const SEGMENT_BITS: u32 = 10;
/// Buckets of a full segment: 64 KiB.
const SEGMENT: usize = 1 << SEGMENT_BITS;
