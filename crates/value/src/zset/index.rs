//! The index maps a member's hash to the leaf that holds the member, so that a member is found without its
//! score.
//!
//! It uses linear hashing with pages of about forty entries. An entry is 32 bits of the hash and the number
//! of a leaf. The caller searches the leaf for the member; if several members have one hash, the index gives
//! several candidate leaves.
//!
//! Invariants: (1) with `pages` pages and `mask + 1` the power of two at or above `pages`, an entry is in
//! page `hash & mask`, or `hash & mask / 2` if that page does not exist; (2) a page is split when an
//! insertion raises the mean number of entries above [`GROW_AT`], and two pages are joined when a removal
//! lowers this mean below [`SHRINK_AT`]; (3) *scanning:* the hashes of a page, with their bits reversed, are
//! an interval. A cursor is a hash with its bits reversed; a scan visits the whole interval that contains the
//! cursor and returns the interval's end. An entry that exists throughout a scan is visited, whatever pages
//! are split or joined between two calls.

mod edit;

use sluice_base::heap;
use sluice_collections::prefetch_items;
use triomphe::{Arc, HeaderSlice};

use super::paged::{PagedArray, Shelved};

/// The index of a large sorted set.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberIndex {
    paged: PagedArray<IndexPage>,
    pages: usize,
    len: usize,
}

/// A page of index entries, shared until it is written.
#[derive(Clone, Debug)]
pub(super) struct IndexPage(Arc<HeaderSlice<PageHeader, [u64]>>);

#[derive(Clone, Copy, Debug)]
struct PageHeader {
    len: usize,
}

/// Mean entries of a page above which a page is added.
const GROW_AT: usize = 40;
/// Mean entries of a page below which a page is removed.
const SHRINK_AT: usize = 16;
const OVERHEAD: usize = 8 + size_of::<PageHeader>();

fn entry_of(hash: u32, leaf: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(leaf)
}

fn hash_of(entry: u64) -> u32 {
    (entry >> 32) as u32
}

impl IndexPage {
    fn with_room(entries: &[u64], room: usize) -> IndexPage {
        let capacity = (heap::block(OVERHEAD + 8 * (entries.len() + room)) - OVERHEAD) / 8;
        let mut small = [0; 128];
        let header = PageHeader { len: entries.len() };
        if let Some(slots) = small.get_mut(..capacity) {
            slots[..entries.len()].copy_from_slice(entries);
            return IndexPage(Arc::from_header_and_slice(header, slots));
        }
        let mut slots = vec![0; capacity];
        slots[..entries.len()].copy_from_slice(entries);
        IndexPage(Arc::from_header_and_slice(header, &slots))
    }

    fn entries(&self) -> &[u64] {
        &self.0.slice[..self.0.header.len]
    }

    pub(super) fn is_shared(&self) -> bool {
        !self.0.is_unique()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        OVERHEAD + 8 * self.0.slice.len()
    }
}

impl Shelved for IndexPage {
    fn own_bytes(&self) -> usize {
        if self.0.is_unique() { self.heap_bytes() } else { 0 }
    }
}

impl MemberIndex {
    fn page_of(&self, hash: u32) -> usize {
        let top = self.pages.next_power_of_two();
        let page = hash as usize & (top - 1);
        if page < self.pages { page } else { page & (top / 2 - 1) }
    }

    /// The leaves that may hold a member of this hash, each with the index of the entry in its page.
    #[inline]
    pub(super) fn candidates(&self, hash: u32) -> impl Iterator<Item = (usize, u32)> + '_ {
        let page = if self.pages == 0 { None } else { self.paged.get(self.page_of(hash)) };
        let entries = page.map(IndexPage::entries).unwrap_or_default();
        let of_hash =
            move |(slot, entry): (usize, &u64)| (hash_of(*entry) == hash).then_some((slot, *entry as u32));
        entries.iter().enumerate().filter_map(of_hash)
    }

    /// Prefetches the slot of the page for a hash. [`MemberIndex::prefetch`] is to follow.
    pub(super) fn prefetch_slot(&self, hash: u32) {
        if self.pages > 0 {
            self.paged.prefetch(self.page_of(hash));
        }
    }

    /// Prefetches the page with the entries of a hash, which are to be read or changed soon.
    pub(super) fn prefetch(&self, hash: u32) {
        if self.pages > 0
            && let Some(page) = self.paged.get(self.page_of(hash))
        {
            prefetch_items(&page.0.slice);
        }
    }

    /// Visits hash and leaf of the entries around a cursor; returns the next cursor, 0 after the last.
    /// An entry may be visited twice.
    pub(super) fn scan(&self, cursor: u32, visit: &mut dyn FnMut(u32, u32)) -> u32 {
        if self.pages == 0 {
            return 0;
        }
        let hash = cursor.reverse_bits() as usize;
        let top = self.pages.next_power_of_two();
        // A page that is not split yet also holds the hashes that will go to the page split off from it.
        let low = hash & (top / 2).wrapping_sub(1) & (top - 1);
        let is_split = low + top / 2 < self.pages;
        let (page, bits) = match top.trailing_zeros() {
            0 => (0, 0),
            bits if is_split => (hash & (top - 1), bits),
            bits => (low, bits - 1),
        };
        let entries = self.paged.get(page).map(IndexPage::entries).unwrap_or_default();
        entries.iter().for_each(|entry| visit(hash_of(*entry), *entry as u32));
        let start = u64::from((page as u32).reverse_bits());
        let next = start + (1u64 << (32 - bits));
        u32::try_from(next).unwrap_or(0)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.paged.is_shared()
    }

    pub(super) fn own_bytes(&self) -> usize {
        self.paged.own_bytes()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
