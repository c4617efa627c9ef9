//! One producer, many consumers: the queue that a pool of workers shares.
//!
//! Vyukov's bounded queue ("Bounded MPMC queue", 1024cores.net) with a single producer, so that pushing needs
//! no read-modify-write: each cell has a sequence number that says which side may use the cell. For the cell
//! of index `i`:
//!
//! | sequence | the cell | side that may use it |
//! |---|---|---|
//! | `i` | is free for index `i` | the producer |
//! | `i + 1` | holds the value of index `i` | the consumer that moves `head` past `i` |
//! | `i + capacity` | was emptied, free for the next lap | the producer |
//!
//! A push never reads `head`: the cell's sequence shows that the ring is full. Consumers compete for `head`
//! alone; a consumer that wins this race in [`Consumer::pop_batch`] takes several values.
//!
//! Invariants: (1) a cell is used only by the side that its sequence names; (2) only a consumer that saw the
//! cell of an index full moves `head` past this index, and `head` never moves back; (3) `head <= tail`,
//! counted in wrapping indexes.
//!
//! "Full" may be a false alarm: while a consumer is suspended between winning a cell and emptying it, the
//! producer finds that cell occupied one lap later, even if the other cells are free. Nothing is lost:
//! `push` gives the value back, and the caller has to process the value itself.
//!
//! Memory: `capacity * 16` bytes for values of one word, plus 256 bytes. `spmc/cells.rs` describes the layout
//! of the cells.

#![allow(unsafe_code)]
// JUSTIFICATION: without it a value needs a lock of its own; see `slot.rs`.

mod cells;

use crate::padded::Padded;
use crate::primitive::{Arc, AtomicUsize, Ordering, edge};
use crate::{Capacity, Full};
use cells::{Cell, Cells, CellsView};

/// Makes a ring for `capacity` values. Allocates once; the last handle frees the ring.
pub fn channel<T: Send>(capacity: Capacity) -> (Producer<T>, Consumer<T>) {
    starting_at(capacity, 0)
}

/// A ring whose first index is `start`: models and tests begin just before the indexes wrap.
#[cfg(any(test, loom))]
pub fn channel_at<T: Send>(capacity: Capacity, start: usize) -> (Producer<T>, Consumer<T>) {
    starting_at(capacity, start)
}

fn starting_at<T: Send>(capacity: Capacity, start: usize) -> (Producer<T>, Consumer<T>) {
    let ring =
        Arc::new(Ring { head: Padded(AtomicUsize::new(start)), cells: Padded(Cells::new(capacity, start)) });
    (Producer { ring: Arc::clone(&ring), tail: start }, Consumer { ring })
}

/// The state that all handles share.
#[derive(Debug)]
struct Ring<T> {
    /// The next index to take, written by consumers.
    head: Padded<AtomicUsize>,
    /// Never written after construction. Padded apart from `head`, so that reading `cells` does not fetch
    /// the line of `head`.
    cells: Padded<Cells<T>>,
}

impl<T> Drop for Ring<T> {
    /// Drops the values that were not taken. No handle is left, and the reference count orders the handles'
    /// last stores before this.
    fn drop(&mut self) {
        let cells = self.cells.view();
        let mut head = self.head.load(Ordering::Relaxed);
        while fullness(cells, head) == Fullness::Full {
            // SAFETY: the cell is full, and no handle is left that could move head.
            drop(unsafe { take(cells, head) });
            head = head.wrapping_add(1);
        }
    }
}

/// The handle that pushes. It cannot be cloned, so a ring has one producer.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// The next index to write.
    tail: usize,
}

impl<T> Producer<T> {
    /// Adds `value`; consumers may take it at once.
    ///
    /// # Errors
    /// `Full` when the cell of the oldest value is not free yet.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        let Some(cell) = free(self.ring.cells.view(), self.tail) else { return Err(Full(value)) };
        // SAFETY: `free` just found the cell at tail free, and this is the producer.
        unsafe { fill(cell, &mut self.tail, value) };
        Ok(())
    }

    /// Pushes `values` until the iterator ends or the ring is full. Returns the number pushed. Takes a
    /// value from the iterator only when there is room for it.
    pub fn push_batch(&mut self, values: &mut impl Iterator<Item = T>) -> usize {
        let first = self.tail;
        let cells = self.ring.cells.view();
        while let Some(cell) = free(cells, self.tail) {
            let Some(value) = values.next() else { break };
            // SAFETY: `free` found the cell at tail free, and this is the producer.
            unsafe { fill(cell, &mut self.tail, value) };
        }
        self.tail.wrapping_sub(first)
    }

    /// Number of values that no consumer has claimed; an upper bound while consumers run.
    pub fn len(&self) -> usize {
        // Relaxed: the number is used only for decisions about load. Head is never beyond this producer's
        // own tail, by (3).
        self.tail.wrapping_sub(self.ring.head.load(Ordering::Relaxed))
    }

    /// Whether every value has been claimed (and perhaps not yet worked on).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of values that fit.
    pub fn capacity(&self) -> usize {
        self.ring.cells.capacity()
    }
}

/// The cell of `tail`, if the producer may fill it.
#[inline(always)]
fn free<T>(cells: CellsView<'_, T>, tail: usize) -> Option<&Cell<T>> {
    let cell = cells.at(tail);
    // Acquire: the consumer that emptied this cell did so before its release store (`take`).
    (cell.sequence.load(edge("spmc_room", Ordering::Acquire)) == tail).then_some(cell)
}

/// Fills the cell of `tail` and advances `tail`.
///
/// # Safety
/// - The caller is the producer, and `free` gave it this cell for this `tail`.
#[inline(always)]
unsafe fn fill<T>(cell: &Cell<T>, tail: &mut usize, value: T) {
    // SAFETY: the cell's sequence is `tail`, so by (1) the cell is the producer's, and the previous `take`
    // happens before the acquire load in `free`.
    unsafe { cell.slot.put(value) };
    *tail = tail.wrapping_add(1);
    // Release: the value is written before a consumer's acquire load (`fullness`) finds the cell full.
    cell.sequence.store(*tail, edge("spmc_publish", Ordering::Release));
}

/// A handle that takes values; clone it for each consuming thread.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
}

impl<T> Clone for Consumer<T> {
    fn clone(&self) -> Self {
        Consumer { ring: Arc::clone(&self.ring) }
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest value; `None` when the ring is empty or other consumers claimed the last
    /// values first.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let (index, _) = self.claim(1)?;
        // SAFETY: `claim` gave this index to this thread.
        Some(unsafe { take(self.ring.cells.view(), index) })
    }

    /// Claims up to `count_max` values at once and appends them to `values`, the oldest first. Returns the
    /// number taken. Room in `values` is reserved before values are claimed.
    pub fn pop_batch(&mut self, values: &mut Vec<T>, count_max: usize) -> usize {
        let count_max = count_max.min(self.capacity());
        values.reserve(count_max);
        let Some((first, count)) = self.claim(count_max) else { return 0 };
        let cells = self.ring.cells.view();
        // SAFETY: `claim` gave these indexes to this thread.
        values.extend((0..count).map(|nth| unsafe { take(cells, first.wrapping_add(nth)) }));
        count
    }

    /// Whether no value can be taken at the moment.
    pub fn is_empty(&self) -> bool {
        let mut head = self.ring.head.load(Ordering::Relaxed);
        loop {
            match fullness(self.ring.cells.view(), head) {
                Fullness::Empty => return true,
                Fullness::Full => return false,
                Fullness::Passed => head = self.ring.head.load(Ordering::Relaxed),
            }
        }
    }

    /// The number of values that fit.
    pub fn capacity(&self) -> usize {
        self.ring.cells.capacity()
    }

    /// Moves head past up to `count_max` full cells. Returns the first index and the number of cells, at
    /// least 1. The caller then owns these cells and must take the value of each. `None` when the cell at
    /// head is empty, or `count_max` is 0.
    #[inline(always)]
    fn claim(&self, count_max: usize) -> Option<(usize, usize)> {
        let cells = self.ring.cells.view();
        let mut head = self.ring.head.load(Ordering::Relaxed);
        loop {
            let is_full = |nth: &usize| fullness(cells, head.wrapping_add(*nth)) == Fullness::Full;
            let count = (0..count_max).take_while(is_full).count();
            if count > 0 {
                let next = head.wrapping_add(count);
                // Relaxed: the exchange decides only who owns the cells. Their contents are acquired by the
                // loads of their sequences and released by the stores of their sequences. Head never
                // returns to an earlier value, so if head is unchanged, no consumer has used these cells
                // since they were seen full.
                let (won, lost) = (Ordering::Relaxed, Ordering::Relaxed);
                match self.ring.head.compare_exchange_weak(head, next, won, lost) {
                    Ok(_) => return Some((head, count)),
                    Err(seen) => head = seen,
                }
            } else if count_max == 0 || fullness(cells, head) == Fullness::Empty {
                return None;
            } else {
                // The cell was passed, or is full by now. The sequence advanced after head did, and the
                // acquire load saw the advance: this load of head cannot be as old as the last.
                head = self.ring.head.load(Ordering::Relaxed);
            }
        }
    }
}

/// The state of a cell for a consumer that wants to take at an index.
#[derive(Debug, PartialEq, Eq)]
enum Fullness {
    /// The value of this index is in the cell.
    Full,
    /// The producer has not filled the cell for this index yet.
    Empty,
    /// Another consumer has taken the value of this index, so the index is out of date.
    Passed,
}

#[inline(always)]
fn fullness<T>(cells: CellsView<'_, T>, index: usize) -> Fullness {
    // Acquire: the producer's value was written before its release store (`fill`).
    let sequence = cells.at(index).sequence.load(edge("spmc_look", Ordering::Acquire));
    match sequence.wrapping_sub(index.wrapping_add(1)).cast_signed() {
        0 => Fullness::Full,
        ..0 => Fullness::Empty,
        1.. => Fullness::Passed,
    }
}

/// Empties the cell of `index`.
///
/// # Safety
/// - The caller saw the cell full (`fullness`) and then moved `head` past `index` itself, or is alone with
///   the ring.
#[inline(always)]
unsafe fn take<T>(cells: CellsView<'_, T>, index: usize) -> T {
    let cell = cells.at(index);
    // SAFETY: the producer's put happens before the acquire load that saw the sequence; by (1) and (2) no
    // other thread touches the cell until the store below.
    let value = unsafe { cell.slot.take() };
    // Release: the value is out before the producer's acquire load (`free`) finds the cell empty.
    cell.sequence.store(index.wrapping_add(cells.capacity()), edge("spmc_release", Ordering::Release));
    value
}

#[cfg(all(test, not(loom)))]
mod tests;
