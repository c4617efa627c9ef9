//! A row of buckets that grows and shrinks at its end, in segments that never move.
//!
//! Invariants: (1) every segment but the first is full-size; the first is smaller while it is the only one, so that a
//! small index is small; (2) buckets at and beyond `len` are empty.

use super::bucket::Bucket;

pub(super) struct Buckets {
    segments: Vec<Box<[Bucket]>>,
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

    /// Adds a bucket at the end and returns its index. At most one segment is allocated and at most half of one copied.
    pub(super) fn push(&mut self, bucket: Bucket) -> usize {
        let index = self.len;
        if index == self.capacity() {
            self.grow();
        }
        self.len += 1;
        *self.at_mut(index) = bucket;
        index
    }

    /// Takes the last bucket off. A segment is given back once half of the one before it is empty too, so that going
    /// back and forth over an edge allocates nothing.
    pub(super) fn pop(&mut self) -> Option<Bucket> {
        self.len = self.len.checked_sub(1)?;
        let last = self.len;
        let bucket = std::mem::replace(self.at_mut(last), Bucket::EMPTY);
        match self.segments.len() {
            0 | 1 => self.shrink_first(),
            segments if self.len + SEGMENT / 2 <= (segments - 1) * SEGMENT => {
                self.segments.pop();
            }
            _ => {}
        }
        Some(bucket)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bucket> {
        self.segments.iter().flat_map(|segment| segment.iter()).take(self.len)
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.capacity() * size_of::<Bucket>() + self.segments.capacity() * size_of::<Box<[Bucket]>>()
    }

    fn capacity(&self) -> usize {
        match self.segments.as_slice() {
            [] => 0,
            [first] => first.len(),
            more => more.len() * SEGMENT,
        }
    }

    #[cold]
    fn grow(&mut self) {
        match self.segments.as_mut_slice() {
            [] => self.segments.push(segment(1)),
            [first] if first.len() < SEGMENT => resize(first, 2 * first.len()),
            _ => self.segments.push(segment(SEGMENT)),
        }
    }

    fn shrink_first(&mut self) {
        if let [first] = self.segments.as_mut_slice()
            && 4 * self.len <= first.len()
            && first.len() > 1
        {
            let half = first.len() / 2;
            resize(first, half);
        }
    }
}

/// Moves what fits into a segment of another size.
fn resize(old: &mut Box<[Bucket]>, len: usize) {
    let mut new = segment(len);
    for (to, from) in new.iter_mut().zip(old.iter()) {
        *to = *from;
    }
    *old = new;
}

fn segment(len: usize) -> Box<[Bucket]> {
    vec![Bucket::EMPTY; len].into_boxed_slice()
}

const SEGMENT_BITS: u32 = 10;
/// Buckets of a full segment: 64 KiB.
pub(super) const SEGMENT: usize = 1 << SEGMENT_BITS;
