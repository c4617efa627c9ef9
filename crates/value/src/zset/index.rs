//! From a member's hash to the leaf that holds the member, so that a member is found without its score.
//!
//! Linear hashing in pages of some forty entries: an entry is 32 bits of the hash and the number of a leaf. Which member of
//! the leaf is meant, the caller finds out: equal hashes are two candidates.
//!
//! Invariants: (1) with `pages` pages and `mask + 1` the power of two at or above `pages`, an entry is in page
//! `hash & mask`, or `hash & mask / 2` where there is no such page; (2) a page is split for every [`GROW_AT`] entries more;
//! (3) *scanning:* the hashes of a page, their bits reversed, are an interval. A cursor is a point of that line; a scan visits the
//! whole interval around the cursor and returns its end. Whatever is split or joined between two calls, an entry that is
//! there all the time is visited.

use sluice_base::heap;
use sluice_collections::prefetch_items;
use triomphe::{Arc, HeaderSlice};

use super::shelf::{Shelf, ShelfNode, Shelved};
use super::{ZsetPart, ZsetWork};

/// The index of a sorted set.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberIndex {
    shelf: Shelf<IndexPage>,
    pages: usize,
    len: usize,
}

/// Some entries.
#[derive(Clone, Debug)]
pub(super) struct IndexPage(Arc<HeaderSlice<PageHeader, [u64]>>);

#[derive(Clone, Copy, Debug)]
struct PageHeader {
    len: usize,
}

/// Entries for each page before another is made.
const GROW_AT: usize = 40;
/// Entries for each page below which one is given back.
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
    fn part(node: ShelfNode<IndexPage>) -> ZsetPart {
        ZsetPart::Pages(node)
    }

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

    /// The leaves that may hold a member of this hash, each with the entry's place in its page.
    #[inline]
    pub(super) fn candidates(&self, hash: u32) -> impl Iterator<Item = (usize, u32)> + '_ {
        let page = if self.pages == 0 { None } else { self.shelf.get(self.page_of(hash)) };
        let entries = page.map(IndexPage::entries).unwrap_or_default();
        let of_hash =
            move |(slot, entry): (usize, &u64)| (hash_of(*entry) == hash).then_some((slot, *entry as u32));
        entries.iter().enumerate().filter_map(of_hash)
    }

    /// Asks the processor for the place of the page of a hash. What follows soon is [`MemberIndex::prefetch`].
    pub(super) fn prefetch_place(&self, hash: u32) {
        if self.pages > 0 {
            self.shelf.prefetch(self.page_of(hash));
        }
    }

    /// Asks the processor for the entries of a hash, which are to be changed soon.
    pub(super) fn prefetch(&self, hash: u32) {
        if self.pages > 0
            && let Some(page) = self.shelf.get(self.page_of(hash))
        {
            prefetch_items(&page.0.slice);
        }
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, hash: u32, leaf: u32, work: &mut ZsetWork<'_>) {
        self.pages = self.pages.max(1);
        let page = self.page_of(hash);
        self.push(page, entry_of(hash, leaf), work);
        self.len += 1;
        if self.len > self.pages * GROW_AT {
            self.split(work);
        }
    }

    /// Takes an entry out. It names the leaf, and may be at this place of its page.
    pub(super) fn remove(&mut self, hash: u32, leaf: (u32, usize), work: &mut ZsetWork<'_>) {
        self.change(hash, leaf, work, |entries, len, at| {
            entries[at] = entries[*len - 1];
            *len -= 1;
        });
        self.len -= 1;
        if self.pages > 1 && self.len < self.pages * SHRINK_AT {
            self.join(work);
        }
    }

    /// Says that a member has moved to another leaf. Its entry names the one it was in, and may be at this place of its page.
    pub(super) fn moved(&mut self, hash: u32, from: (u32, usize), to: u32, work: &mut ZsetWork<'_>) {
        self.change(hash, from, work, |entries, _, at| entries[at] = entry_of(hash, to));
    }

    fn change(
        &mut self,
        hash: u32,
        (leaf, slot): (u32, usize),
        work: &mut ZsetWork<'_>,
        change: impl FnOnce(&mut [u64], &mut usize, usize),
    ) {
        let (number, wanted) = (self.page_of(hash), entry_of(hash, leaf));
        let Some(Some(page)) = self.shelf.place(number, work) else { return };
        let entries = page.entries();
        let is_there = entries.get(slot) == Some(&wanted);
        let at = if is_there { Some(slot) } else { entries.iter().position(|entry| *entry == wanted) };
        debug_assert!(at.is_some(), "every member has an entry");
        let Some(at) = at else { return };
        if !page.0.is_unique() {
            let copy = IndexPage::with_room(page.entries(), 0);
            replace_page(page, copy, work);
        }
        if let Some(inner) = Arc::get_mut(&mut page.0) {
            change(&mut inner.slice, &mut inner.header.len, at);
        }
    }

    fn push(&mut self, number: usize, entry: u64, work: &mut ZsetWork<'_>) {
        let Some(place) = self.shelf.place(number, work) else { return };
        let Some(page) = place else {
            let page = IndexPage::with_room(&[entry], 0);
            work.heap += page.heap_bytes();
            *place = Some(page);
            return;
        };
        let len = page.0.header.len;
        if page.0.slice.len() == len || !page.0.is_unique() {
            let copy = IndexPage::with_room(page.entries(), 1);
            replace_page(page, copy, work);
        }
        if let Some(inner) = Arc::get_mut(&mut page.0) {
            inner.slice[len] = entry;
            inner.header.len = len + 1;
        }
    }

    /// Puts the entries of a page in its place, or nothing.
    fn set_page(&mut self, number: usize, entries: &[u64], work: &mut ZsetWork<'_>) {
        let Some(place) = self.shelf.place(number, work) else { return };
        let new = (!entries.is_empty()).then(|| IndexPage::with_room(entries, 0));
        work.heap += new.as_ref().map_or(0, IndexPage::heap_bytes);
        if let Some(old) = std::mem::replace(place, new) {
            work.heap -= old.heap_bytes();
            work.discard_page(old);
        }
    }

    fn split(&mut self, work: &mut ZsetWork<'_>) {
        let new = self.pages;
        let old = new - (1 << new.ilog2());
        let mask = ((new + 1).next_power_of_two() - 1) as u32;
        self.pages += 1;
        let entries = self.shelf.get(old).map(|page| page.entries().to_vec()).unwrap_or_default();
        let (moved, kept): (Vec<u64>, Vec<u64>) =
            entries.iter().partition(|entry| (hash_of(**entry) & mask) as usize == new);
        self.set_page(old, &kept, work);
        self.set_page(new, &moved, work);
    }

    fn join(&mut self, work: &mut ZsetWork<'_>) {
        let last = self.pages - 1;
        let into = last - (1 << last.ilog2());
        self.pages = last;
        let mut all = self.shelf.get(into).map(|page| page.entries().to_vec()).unwrap_or_default();
        all.extend(self.shelf.get(last).map(IndexPage::entries).unwrap_or_default());
        self.set_page(last, &[], work);
        self.set_page(into, &all, work);
    }

    /// Visits hash and leaf of the entries around a cursor; the next cursor, 0 behind the last. An entry may be visited twice.
    pub(super) fn scan(&self, cursor: u32, visit: &mut dyn FnMut(u32, u32)) -> u32 {
        if self.pages == 0 {
            return 0;
        }
        let hash = cursor.reverse_bits() as usize;
        let top = self.pages.next_power_of_two();
        // A page that was not split yet holds the hashes of its other half too.
        let low = hash & (top / 2).wrapping_sub(1) & (top - 1);
        let is_split = low + top / 2 < self.pages;
        let (page, bits) = match top.trailing_zeros() {
            0 => (0, 0),
            bits if is_split => (hash & (top - 1), bits),
            bits => (low, bits - 1),
        };
        let entries = self.shelf.get(page).map(IndexPage::entries).unwrap_or_default();
        entries.iter().for_each(|entry| visit(hash_of(*entry), *entry as u32));
        let start = u64::from((page as u32).reverse_bits());
        let next = start + (1u64 << (32 - bits));
        u32::try_from(next).unwrap_or(0)
    }

    pub(super) fn is_shared(&self) -> bool {
        self.shelf.is_shared()
    }

    pub(super) fn own_bytes(&self) -> usize {
        self.shelf.own_bytes()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

fn replace_page(page: &mut IndexPage, new: IndexPage, work: &mut ZsetWork<'_>) {
    work.heap += new.heap_bytes();
    work.heap -= page.heap_bytes();
    work.discard_page(std::mem::replace(page, new));
}

impl ZsetWork<'_> {
    fn discard_page(&mut self, page: IndexPage) {
        // What has another owner may lose it this moment: then freeing it would be this thread's.
        if !page.0.is_unique() {
            self.garbage.push(ZsetPart::Page(page));
        }
    }
}
