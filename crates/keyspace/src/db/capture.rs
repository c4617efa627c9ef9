//! The steps of a cut: what captures an entry, and when. `db/cut.rs` defines the cut and its invariants.

use super::cut::{ChunkCut, Cut, CutState};
use super::freeing::is_ahead_of_cut;
use super::{Db, Store};
use crate::captured::Captured;
use crate::entry::{self, Head, Name};
use sluice_base::heap;
use sluice_collections::slab::{BlockBits, Handle, Slab};
use std::sync::atomic::Ordering::Relaxed;

/// What causes the capture of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CapturedBy {
    Cursor,
    Change,
}

impl Store {
    /// Captures an entry for the open cut, unless its block need not be captured, or no cut is open.
    fn capture(&mut self, handle: Handle, by: CapturedBy) {
        let Store { slab, values, keys, cut, .. } = self;
        let Some(cut) = cut.as_deref_mut() else { return };
        let (chunk, block) = Slab::chunk_and_block(handle);
        let Some(bits) = cut.bits(slab, chunk) else { return };
        if bits.has(block) {
            return;
        }
        bits.add(block);
        debug_assert!(cut.left > 0, "an entry is captured once (1)");
        cut.left = cut.left.saturating_sub(1);
        let (word, body) = slab.block(handle);
        let head = Head(word.load(Relaxed));
        let key = match entry::name_of(body) {
            Name::Inside(_) => None,
            Name::Outside(index) => keys.get(index),
        };
        let is_outside = head.form().is_outside();
        let value = is_outside.then(|| values.get(entry::index_of(entry::payload(head, body)))).flatten();
        if cut.captured.back().is_none_or(Captured::is_full) {
            cut.captured.push_back(Captured::new(cut.number));
        }
        let Some(into) = cut.captured.back_mut() else { return };
        let weight_before = into.weight();
        let bytes = into.push(head, body, key.map(|key| &key[..]), value);
        cut.waiting_bytes += bytes;
        cut.waiting_weight += into.weight() - weight_before;
        if by == CapturedBy::Change {
            cut.by_changes.0 += 1;
            cut.by_changes.1 += bytes as u64;
        }
    }

    /// Captures an entry that is about to be freed, if an open cut has not captured it yet.
    #[cold]
    pub(super) fn capture_changed(&mut self, handle: Handle) {
        self.capture(handle, CapturedBy::Change);
    }

    /// Marks a block as not part of the open cut, because the block was allocated after the cut was opened,
    /// or the entry's slot was detached before the cut was opened.
    #[cold]
    pub(super) fn note_born(&mut self, handle: Handle) {
        let Store { slab, cut, .. } = self;
        let (chunk, block) = Slab::chunk_and_block(handle);
        if let Some(bits) = cut.as_deref_mut().and_then(|cut| cut.bits(slab, chunk)) {
            bits.add(block);
        }
    }
}

impl Db {
    /// Called before every change or release of a block, or of the value or key outside to which it refers;
    /// only entries of detached slots are released without this call (`db/freeing.rs`). A change of expiry,
    /// form or slack (the unused bytes of the block) counts, a change of the access clock does not. Costs one
    /// predicted branch if no cut is open and no walk is in progress.
    #[inline(always)]
    pub(super) fn before_change(&mut self, handle: Handle) {
        if self.store.is_watched {
            self.capture_changing(handle);
        }
    }

    #[cold]
    fn capture_changing(&mut self, handle: Handle) {
        self.store.capture(handle, CapturedBy::Change);
        self.store.capture_ahead(handle);
    }

    /// Opens a cut, which captures each entry in the state that the entry has now. `number` is the database's
    /// number; it is stored in each piece (`Captured`). Cost: one step for each chunk and for each detached
    /// table.
    pub fn begin_cut(&mut self, number: usize) {
        debug_assert!(self.store.cut.is_none(), "one cut at a time");
        let entries = self.len();
        self.store.cut = Some(Box::new(Cut::new(&self.store.slab, number, entries)));
        self.detached.note_cut();
        self.store.look_for_watchers();
    }

    /// Progress of the cut; `None` if no cut is open.
    #[inline]
    pub fn cut_state(&self) -> Option<CutState> {
        let cut = self.store.cut.as_deref()?;
        Some(CutState {
            left: cut.left,
            changed: cut.by_changes.0,
            changed_bytes: cut.by_changes.1,
            waiting_bytes: cut.waiting_bytes,
            waiting_weight: cut.waiting_weight,
        })
    }

    /// Captures more entries, in the order of blocks, until the oldest piece is full or `budget` steps were
    /// made. A step visits one entry or ends a chunk. Returns the oldest piece if it is full, or if no entry
    /// is left to capture. Returns `None` if no piece is ready, if all pieces were taken, or if no cut is
    /// open.
    pub fn advance_cut(&mut self, budget: usize) -> Option<Captured> {
        let mut steps = budget;
        while steps > 0 {
            let cut = self.store.cut.as_deref_mut()?;
            if cut.left == 0 || cut.captured.front().is_some_and(Captured::is_full) {
                break;
            }
            let chunk = cut.at;
            if chunk as usize >= cut.chunks.len() {
                debug_assert_eq!(cut.left, 0, "the cursor met every entry (1)");
                cut.left = 0;
                break;
            }
            steps -= 1;
            let next = cut.bits(&self.store.slab, chunk).and_then(|bits| bits.next_absent(0));
            let handle = next.and_then(|block| Slab::handle_at(chunk, block));
            match handle {
                Some(handle) => self.capture_chunk(handle, &mut steps),
                None => {
                    cut.chunks[chunk as usize] = ChunkCut::Done;
                    cut.at += 1;
                }
            }
        }
        let cut = self.store.cut.as_deref_mut()?;
        let is_ready = cut.left == 0 || cut.captured.front().is_some_and(Captured::is_full);
        let piece = if is_ready { cut.captured.pop_front() } else { None }?;
        cut.waiting_bytes -= piece.copied_bytes();
        cut.waiting_weight -= piece.weight();
        Some(piece)
    }

    /// Takes the oldest captured piece if it is full, without capturing more entries; otherwise `None`.
    pub fn take_captured(&mut self) -> Option<Captured> {
        let cut = self.store.cut.as_deref_mut()?;
        let piece = cut.captured.pop_front_if(|piece| piece.is_full())?;
        cut.waiting_bytes -= piece.copied_bytes();
        cut.waiting_weight -= piece.weight();
        Some(piece)
    }

    /// Captures entries of one chunk from `first` on, until the chunk ends, the steps are used up or the
    /// oldest piece is full. Entries of slots that were detached before the cut are skipped.
    fn capture_chunk(&mut self, first: Handle, steps: &mut usize) {
        let (chunk, mut block) = Slab::chunk_and_block(first);
        loop {
            match Slab::handle_at(chunk, block) {
                Some(handle) if is_ahead_of_cut(self, handle) => self.store.note_born(handle),
                Some(handle) => self.store.capture(handle, CapturedBy::Cursor),
                None => {}
            }
            let Some(cut) = self.store.cut.as_deref_mut() else { return };
            if *steps == 0 || cut.captured.front().is_some_and(Captured::is_full) {
                return;
            }
            *steps -= 1;
            match cut.bits(&self.store.slab, chunk).and_then(|bits| bits.next_absent(block + 1)) {
                Some(next) => block = next,
                None => return,
            }
        }
    }

    /// Ends the cut, complete or not. Returns what was captured but not taken, for the caller to free on
    /// another thread, because a piece may be the last owner of a large value.
    pub fn end_cut(&mut self) -> impl Iterator<Item = Captured> {
        let cut = self.store.cut.take();
        self.store.look_for_watchers();
        cut.into_iter().flat_map(|cut| cut.captured)
    }

    /// Whether a cut is open.
    #[inline]
    pub(super) fn is_cut(&self) -> bool {
        self.store.cut.is_some()
    }

    /// Bytes of the cut, without the values that it shares.
    pub(super) fn cut_bytes(&self) -> usize {
        let Some(cut) = self.store.cut.as_deref() else { return 0 };
        let touched = cut.chunks.iter().filter(|chunk| matches!(chunk, ChunkCut::Touched(_))).count();
        let captured: usize = cut.captured.iter().map(Captured::footprint).sum();
        heap::block(size_of::<Cut>())
            + heap::vec(&cut.chunks)
            + touched * heap::block(size_of::<BlockBits>())
            + heap::deque(&cut.captured)
            + captured
    }
}
