//! Changes of the index. A replaced page with a second owner goes to the garbage.

use triomphe::Arc;

use super::{GROW_AT, IndexPage, MemberIndex, SHRINK_AT, entry_of, hash_of};
use crate::zset::paged::ShelfNode;
use crate::zset::paged::edit::Replaced;
use crate::zset::part::{ZsetPart, ZsetWork};

impl Replaced for IndexPage {
    fn part(node: ShelfNode<IndexPage>) -> ZsetPart {
        ZsetPart::Pages(node)
    }
}

impl MemberIndex {
    /// Adds the entry of a member that has this hash and is in this leaf.
    #[inline]
    pub(in crate::zset) fn insert(&mut self, hash: u32, leaf: u32, work: &mut ZsetWork<'_>) {
        self.pages = self.pages.max(1);
        let page = self.page_of(hash);
        self.push(page, entry_of(hash, leaf), work);
        self.len += 1;
        if self.len > self.pages * GROW_AT {
            self.split(work);
        }
    }

    /// Removes an entry. `leaf` is the number of the leaf that the entry names, and a hint of the entry's
    /// index in its page.
    pub(in crate::zset) fn remove(&mut self, hash: u32, leaf: (u32, usize), work: &mut ZsetWork<'_>) {
        self.change(hash, leaf, work, |entries, len, at| {
            entries[at] = entries[*len - 1];
            *len -= 1;
        });
        self.len -= 1;
        if self.pages > 1 && self.len < self.pages * SHRINK_AT {
            self.join(work);
        }
    }

    /// Records that a member has moved to leaf `to`. `from` is the number of the leaf that the entry has
    /// named so far, and a hint of the entry's index in its page.
    #[inline]
    pub(in crate::zset) fn moved(&mut self, hash: u32, from: (u32, usize), to: u32, work: &mut ZsetWork<'_>) {
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
        let Some(Some(page)) = self.paged.slot_mut(number, work) else { return };
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
        let Some(slot) = self.paged.slot_mut(number, work) else { return };
        let Some(page) = slot else {
            let page = IndexPage::with_room(&[entry], 0);
            work.heap += page.heap_bytes();
            *slot = Some(page);
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

    /// Stores a page with these entries, or no page if there are none.
    fn set_page(&mut self, number: usize, entries: &[u64], work: &mut ZsetWork<'_>) {
        let Some(slot) = self.paged.slot_mut(number, work) else { return };
        let new = (!entries.is_empty()).then(|| IndexPage::with_room(entries, 0));
        work.heap += new.as_ref().map_or(0, IndexPage::heap_bytes);
        if let Some(old) = std::mem::replace(slot, new) {
            work.heap -= old.heap_bytes();
            work.discard_page(old);
        }
    }

    fn split(&mut self, work: &mut ZsetWork<'_>) {
        let new = self.pages;
        let old = new - (1 << new.ilog2());
        let mask = ((new + 1).next_power_of_two() - 1) as u32;
        self.pages += 1;
        let entries = self.paged.get(old).map(|page| page.entries().to_vec()).unwrap_or_default();
        let (moved, kept): (Vec<u64>, Vec<u64>) =
            entries.iter().partition(|entry| (hash_of(**entry) & mask) as usize == new);
        self.set_page(old, &kept, work);
        self.set_page(new, &moved, work);
    }

    fn join(&mut self, work: &mut ZsetWork<'_>) {
        let last = self.pages - 1;
        let into = last - (1 << last.ilog2());
        self.pages = last;
        let mut all = self.paged.get(into).map(|page| page.entries().to_vec()).unwrap_or_default();
        all.extend(self.paged.get(last).map(IndexPage::entries).unwrap_or_default());
        self.set_page(last, &[], work);
        self.set_page(into, &all, work);
    }
}

fn replace_page(page: &mut IndexPage, new: IndexPage, work: &mut ZsetWork<'_>) {
    work.heap += new.heap_bytes();
    work.heap -= page.heap_bytes();
    work.discard_page(std::mem::replace(page, new));
}

impl ZsetWork<'_> {
    fn discard_page(&mut self, page: IndexPage) {
        // A page that seems shared becomes garbage, because its other owner may drop it at this moment, and
        // this thread would then have to free it.
        if !page.0.is_unique() {
            self.garbage.push(ZsetPart::Page(page));
        }
    }
}
