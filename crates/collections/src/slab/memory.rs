//! Memory from the system: regions that chunks are carved from, and arrays that do not move once
//! they are long.
//!
//! Invariants:
//! 1. Every byte that [`Regions::carve`] returns is mapped, initialised and private to the process until the
//!    `Regions` value is dropped. A fresh page reads as zeros; the kernel provides a page when it is first
//!    touched.
//! 2. [`Regions::give_back`] leaves every byte mapped and initialised: on Linux the bytes are zeros,
//!    elsewhere zeros or their old values. Nothing in this crate depends on which of the two they are.
//! 3. The number of mappings does not depend on the number of chunks: a region is as large as everything
//!    reserved before it, between 1 and 64 MiB. 1 TiB of chunks takes about 16,400 mappings, of the 65,530
//!    that Linux allows by default.
//! 4. A [`StableVec`] of more than `SMALL` values is in one reserved mapping that is large enough for its
//!    greatest length, so that a push never copies more than `SMALL` values.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Reserved address space, handed out in pieces.
pub(super) struct Regions {
    /// Start and length in bytes of every mapping.
    mapped: Vec<(NonNull<u8>, usize)>,
    /// The part of the last region that was not handed out.
    next: *mut u8,
    left: usize,
    /// Bytes of all mappings.
    reserved: usize,
}

// SAFETY: the mappings belong to this value alone, and nothing in it depends on the thread.
// JUSTIFICATION: the slab that holds it moves between threads.
unsafe impl Send for Regions {}
// SAFETY: a shared `Regions` only returns its size.
// JUSTIFICATION: readers share the slab.
unsafe impl Sync for Regions {}

impl Regions {
    pub(super) const fn new() -> Regions {
        Regions { mapped: Vec::new(), next: null_mut(), left: 0, reserved: 0 }
    }

    /// `bytes` bytes of zeros, aligned to a page if every piece is a multiple of a page. `None` if the
    /// system refuses more address space.
    pub(super) fn carve(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        if self.left < bytes {
            let size = self.reserved.clamp(REGION_MIN, REGION_MAX).max(bytes);
            let start = reserve(size)?;
            self.mapped.push((start, size));
            self.reserved += size;
            (self.next, self.left) = (start.as_ptr(), size);
        }
        let piece = NonNull::new(self.next)?;
        self.next = self.next.wrapping_add(bytes);
        self.left -= bytes;
        Some(piece)
    }

    /// Gives the pages of a piece back to the system; the address space stays reserved. If the system
    /// refuses, nothing changes.
    ///
    /// # Safety
    /// - `at` and the `bytes` bytes from it lie in a piece that `carve` of this value returned.
    /// - No reference into these bytes exists.
    pub(super) unsafe fn give_back(&mut self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says that the range is mapped by `carve` and that no reference to the range is
        // left. The mapping stays valid, and its bytes stay initialised (2).
        // JUSTIFICATION: the only way to give pages back and keep the address.
        let _ = unsafe { madvise(at.as_ptr().cast::<c_void>(), bytes, GIVE_BACK) };
    }

    /// Bytes of reserved address space.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes that the list of mappings takes from the allocator.
    pub(super) fn list_bytes(&self) -> usize {
        self.mapped.capacity() * size_of::<(NonNull<u8>, usize)>()
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        for (start, bytes) in self.mapped.drain(..) {
            // SAFETY: `reserve` made this mapping of `bytes` bytes, it is unmapped once, and the slab that
            // handed its pieces out is being dropped.
            // JUSTIFICATION: the other half of `reserve`.
            let _ = unsafe { munmap(start.as_ptr().cast::<c_void>(), bytes) };
        }
    }
}

/// A vector whose values never move once there are more than `SMALL` of them.
pub(super) struct StableVec<T> {
    at: NonNull<T>,
    len: usize,
    /// Number of values for which there is memory: none, up to `SMALL` values in memory from the allocator,
    /// or more in a reserved mapping.
    room: usize,
}

// SAFETY: a `StableVec` owns its values, as a vector does.
// JUSTIFICATION: the slab that holds it moves between threads.
unsafe impl<T: Send> Send for StableVec<T> {}
// SAFETY: a shared `StableVec` gives out shared references alone.
// JUSTIFICATION: readers share the slab.
unsafe impl<T: Sync> Sync for StableVec<T> {}

impl<T: Copy> StableVec<T> {
    /// An empty array, which allocates nothing.
    pub(super) const fn new() -> StableVec<T> {
        StableVec { at: NonNull::dangling(), len: 0, room: 0 }
    }

    /// Appends a value to an array of at most `max` values; `max` must be the same at every call. `None`,
    /// with no change, if the array is full or the system has no address space.
    pub(super) fn push(&mut self, value: T, max: usize) -> Option<()> {
        if self.len == self.room {
            self.grow(max)?;
        }
        // SAFETY: `len < room`, and `at` is memory for `room` values.
        // JUSTIFICATION: a directory of a million chunks must not be copied when it grows.
        unsafe { self.at.add(self.len).write(value) };
        self.len += 1;
        Some(())
    }

    #[inline(always)]
    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` values are written, and change only through `&mut self`.
        // JUSTIFICATION: as for `push`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    #[inline(always)]
    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and `&mut self` excludes every other reference.
        // JUSTIFICATION: as for `push`.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }

    /// Bytes taken from the allocator, or touched in the reserved mapping.
    pub(super) fn bytes(&self) -> usize {
        if self.room <= SMALL { self.room * size_of::<T>() } else { self.len * size_of::<T>() }
    }

    #[cold]
    fn grow(&mut self, max: usize) -> Option<()> {
        let room = if self.room == 0 { max.min(SMALL) } else { max };
        if room <= self.len {
            return None;
        }
        let fresh = if room <= SMALL {
            let layout = small_layout::<T>(room);
            // SAFETY: the layout is not empty: `room` is above `len`, and `T` has a size (asserted in
            // `small_layout`).
            // JUSTIFICATION: a small slab must not take a mapping for each of its arrays.
            let start = unsafe { alloc(layout) };
            NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)).cast::<T>()
        } else {
            reserve(room * size_of::<T>())?.cast::<T>()
        };
        // SAFETY: both are memory for at least `len` values, and `fresh` was made just now, so that they do
        // not overlap.
        // JUSTIFICATION: as for `push`; at most `SMALL` values.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr(), fresh.as_ptr(), self.len) };
        self.release();
        (self.at, self.room) = (fresh, room);
        Some(())
    }
}

impl<T> StableVec<T> {
    fn release(&mut self) {
        if self.room > SMALL {
            // SAFETY: an array with more room than `SMALL` lies in a mapping of this size that `reserve`
            // made, and the caller forgets it.
            // JUSTIFICATION: the other half of `reserve`.
            let _ = unsafe { munmap(self.at.as_ptr().cast::<c_void>(), self.room * size_of::<T>()) };
        } else if self.room > 0 {
            // SAFETY: `grow` took this memory from the allocator with this layout, and the caller forgets it.
            // JUSTIFICATION: the other half of `alloc`.
            unsafe { dealloc(self.at.as_ptr().cast(), small_layout::<T>(self.room)) };
        }
    }
}

impl<T> Drop for StableVec<T> {
    fn drop(&mut self) {
        self.release();
    }
}

/// Maps `bytes` bytes of address space that takes no memory until it is touched.
fn reserve(bytes: usize) -> Option<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address of the system's choice replaces nothing.
    // JUSTIFICATION: zeroed memory whose pages come one by one and go back one by one, without a mapping per
    // chunk.
    let start = unsafe { mmap_anonymous(null_mut(), bytes, access, MapFlags::PRIVATE | NO_RESERVE) };
    NonNull::new(start.ok()?.cast())
}

fn small_layout<T>(room: usize) -> Layout {
    const { assert!(size_of::<T>() > 0) };
    Layout::array::<T>(room).expect("64 small values do not overflow a size")
}

const REGION_MIN: usize = 1 << 20;
const REGION_MAX: usize = 64 << 20;
/// Values that an array keeps in memory from the allocator.
const SMALL: usize = 64;
#[cfg(target_os = "linux")]
const NO_RESERVE: MapFlags = MapFlags::NORESERVE;
#[cfg(not(target_os = "linux"))]
const NO_RESERVE: MapFlags = MapFlags::empty();
/// On Linux the pages are freed at once; elsewhere the system frees them when it needs memory.
#[cfg(target_os = "linux")]
const GIVE_BACK: Advice = Advice::LinuxDontNeed;
#[cfg(not(target_os = "linux"))]
const GIVE_BACK: Advice = Advice::DontNeed;
