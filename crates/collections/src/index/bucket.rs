//! One bucket: a cache line of twelve tagged handles.
//!
//! ```text
//!  offset  size  meaning
//!  0       12    tags, one byte for each lane; 0 = the lane is empty (its handle word is then meaningless)
//!  12      4     number of the next bucket of the chain in the overflow pool, 0 = none
//!  16      48    handles, 32 bits for each lane
//! ```
//! The bucket is sixteen words rather than a struct of arrays, so that an access to the word of a lane needs
//! no bounds check after masking the lane.

use crate::arch;
use crate::slab::Handle;

/// Lanes of a bucket.
pub(super) const LANES: usize = 12;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    words: [u32; 16],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket { words: [0; 16] };

    /// Lanes with this tag, one bit each.
    #[inline(always)]
    pub(super) fn matching(&self, tag: u8) -> Lanes {
        let [a, b, c, d, ..] = self.words;
        Lanes(arch::lanes_equal([a, b, c, d], tag))
    }

    /// The empty lanes.
    #[inline(always)]
    pub(super) fn vacant(&self) -> Lanes {
        self.matching(0)
    }

    /// The lanes with a handle.
    #[inline(always)]
    pub(super) fn filled(&self) -> Lanes {
        Lanes(!self.vacant().0 & ((1 << LANES) - 1))
    }

    /// The handle in a filled lane; meaningless for an empty one.
    #[inline(always)]
    pub(super) fn handle(&self, lane: u32) -> Option<Handle> {
        Handle::from_raw(self.words[handle_word(lane)])
    }

    #[inline(always)]
    pub(super) fn tag(&self, lane: u32) -> u8 {
        (self.words[tag_word(lane)] >> tag_shift(lane)) as u8
    }

    /// Fills the lane, or replaces its contents.
    #[inline(always)]
    pub(super) fn set(&mut self, lane: u32, tag: u8, handle: Handle) {
        self.clear(lane);
        self.words[tag_word(lane)] |= u32::from(tag) << tag_shift(lane);
        self.words[handle_word(lane)] = handle.raw();
    }

    /// Replaces the handle of a filled lane.
    #[inline(always)]
    pub(super) fn replace(&mut self, lane: u32, handle: Handle) {
        self.words[handle_word(lane)] = handle.raw();
    }

    #[inline(always)]
    pub(super) fn clear(&mut self, lane: u32) {
        self.words[tag_word(lane)] &= !(0xff << tag_shift(lane));
    }

    /// The chain's next bucket in the overflow pool; 0 when there is none.
    #[inline(always)]
    pub(super) fn link(&self) -> u32 {
        self.words[LINK]
    }

    /// Sets the number of the next bucket.
    #[inline(always)]
    pub(super) fn set_link(&mut self, link: u32) {
        self.words[LINK] = link;
    }

    /// The handles of the bucket, lane by lane.
    #[inline]
    pub(super) fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.filled().filter_map(|lane| self.handle(lane))
    }

    /// Prefetches the bucket's cache line.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        arch::prefetch(self);
    }
}

/// A set of lanes, iterated from lane 0 up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lanes(pub(super) u32);

impl Lanes {
    #[inline(always)]
    pub(super) fn first(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros())
    }

    /// The lanes that are also in `mask`.
    #[inline(always)]
    pub(super) fn and(self, mask: u32) -> Lanes {
        Lanes(self.0 & mask)
    }

    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Iterator for Lanes {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let lane = self.first()?;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

const LINK: usize = 3;

#[inline(always)]
fn handle_word(lane: u32) -> usize {
    (lane as usize + 4) & 15
}

#[inline(always)]
fn tag_word(lane: u32) -> usize {
    // A lane is below twelve, so its word is 0, 1 or 2; the mask spares a bounds check.
    (lane as usize >> 2) & 3
}

#[inline(always)]
fn tag_shift(lane: u32) -> u32 {
    (lane & 3) * 8
}
