//! One producer, one consumer: a ring whose two sides read each other's index only when they must.
//!
//! Lamport's ring ("Specifying concurrent program modules", 1983) with cached indexes (FastForward's and
//! MCRingBuffer's observation, as in Rigtorp's SPSCQueue): each side keeps a copy of the other side's
//! index, and loads the index again only when the ring seems full or empty by the copy. Publication is
//! deferred: [`Producer::stage`] writes a value, [`Producer::commit`] publishes all staged values with a
//! single store; [`Consumer::drain`] returns the emptied slots to the producer with a single store.
//!
//! ```text
//!  lines of the consumer:  head            (written by it, read by the producer when the ring seems full)
//!  lines of the producer:  tail, gone      (written by it, read by the consumer when the ring seems empty)
//!  slots:   head ..< tail hold values that the consumer may take
//!           tail ..< the producer's own tail hold staged values
//! ```
//!
//! Invariants: (1) `head <= tail <= staged tail <= head + capacity`, counted in wrapping indexes; (2) only
//! the consumer touches slots before `tail`, only the producer slots from `tail` on; (3) a producer that is
//! dropped commits its staged values. Memory: `capacity * size_of::<T>()` and 384 bytes.

#![allow(unsafe_code)]
// JUSTIFICATION: without it a value needs a lock of its own; see `slot.rs`.

use crate::padded::Padded;
use crate::primitive::{Arc, AtomicBool, AtomicUsize, Ordering, edge};
use crate::slot::Slot;
use crate::{Capacity, Full};

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
    let ring = Arc::new(Ring {
        head: Padded(AtomicUsize::new(start)),
        publication: Padded(Publication { tail: AtomicUsize::new(start), gone: AtomicBool::new(false) }),
        mask: capacity.mask(),
        slots: (0..capacity.count()).map(|_| Slot::new()).collect(),
    });
    let producer = Producer { ring: Arc::clone(&ring), tail: start, committed: start, head_seen: start };
    (producer, Consumer { ring, head: start, released: start, tail_seen: start })
}

/// The state that both sides share.
#[derive(Debug)]
struct Ring<T> {
    /// The oldest index that may still be in use; slots before it belong to the producer again.
    head: Padded<AtomicUsize>,
    publication: Padded<Publication>,
    mask: usize,
    slots: Box<[Slot<T>]>,
}

/// The producer's published state.
#[derive(Debug)]
struct Publication {
    /// One past the index of the newest value that the consumer may take.
    tail: AtomicUsize,
    /// Whether the producer was dropped, so that `tail` is final.
    gone: AtomicBool,
}

impl<T> Ring<T> {
    #[inline(always)]
    fn slot(&self, index: usize) -> &Slot<T> {
        &self.slots[index & self.mask]
    }
}

impl<T> Drop for Ring<T> {
    /// Drops the values that were not taken. No handle is left, and the reference count orders both
    /// handles' last stores before this.
    fn drop(&mut self) {
        let mut head = self.head.load(Ordering::Relaxed);
        let tail = self.publication.tail.load(Ordering::Relaxed);
        while head != tail {
            // SAFETY: no other handle is left; slots from head to tail were put and not taken, by (1) and
            // (2), since both handles publish their indexes when they are dropped.
            drop(unsafe { self.slot(head).take() });
            head = head.wrapping_add(1);
        }
    }
}

/// The handle that pushes. It cannot be cloned, so a ring has one producer.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// The next index to write; the values from index `committed` on are staged.
    tail: usize,
    /// The value last stored in the shared tail.
    committed: usize,
    /// The shared head as this side last loaded it; the true head may have advanced since.
    head_seen: usize,
}

impl<T> Producer<T> {
    /// Stages and commits `value`.
    ///
    /// # Errors
    /// `Full` when the ring holds `capacity` values.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        self.stage(value)?;
        self.commit();
        Ok(())
    }

    /// Writes `value` without publishing it: [`commit`](Self::commit) publishes.
    ///
    /// # Errors
    /// `Full` when the ring holds `capacity` values. All staged values have then been committed, so that
    /// the consumer can make room.
    #[inline]
    pub fn stage(&mut self, value: T) -> Result<(), Full<T>> {
        if !self.has_room() {
            return Err(Full(value));
        }
        // SAFETY: there is room, so by (1) and (2) this slot is the producer's, and the slot is empty: the
        // consumer's take happens before its store of head, and `head_seen` was loaded from that store.
        unsafe { self.ring.slot(self.tail).put(value) };
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Stages `values` until the iterator ends or the ring is full, and commits once. Returns the number
    /// staged. Takes a value from the iterator only when there is room for it.
    pub fn push_batch(&mut self, values: &mut impl Iterator<Item = T>) -> usize {
        let first = self.tail;
        while self.has_room() {
            let Some(value) = values.next() else { break };
            // SAFETY: as in `stage`.
            unsafe { self.ring.slot(self.tail).put(value) };
            self.tail = self.tail.wrapping_add(1);
        }
        self.commit();
        self.tail.wrapping_sub(first)
    }

    /// Publishes all staged values. Cost: one store, or none when nothing is staged.
    #[inline]
    pub fn commit(&mut self) {
        if self.has_staged() {
            // Release: the values are written before the consumer's acquire load of tail (`look`)
            // counts them.
            self.ring.publication.tail.store(self.tail, edge("spsc_commit", Ordering::Release));
            self.committed = self.tail;
        }
    }

    /// Whether a value was staged since the last commit.
    #[inline]
    pub(crate) fn has_staged(&self) -> bool {
        self.committed != self.tail
    }

    /// Number of values in the ring, including staged values; an upper bound while the consumer runs.
    pub fn len(&self) -> usize {
        // Relaxed: the number is used only for decisions about load; no slot is read because of it.
        self.tail.wrapping_sub(self.ring.head.load(Ordering::Relaxed))
    }

    /// Whether the consumer has taken all values and none is staged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of values that fit.
    pub fn capacity(&self) -> usize {
        self.ring.mask + 1
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        self.tail.wrapping_sub(self.head_seen) <= self.ring.mask || self.look()
    }

    /// Loads the consumer's index again and returns whether there is room. Commits first, because the
    /// consumer cannot take away values that it does not see.
    #[cold]
    fn look(&mut self) -> bool {
        self.commit();
        // Acquire: the consumer took the values before its release store of head (`Consumer::release`).
        self.head_seen = self.ring.head.load(edge("spsc_room", Ordering::Acquire));
        self.tail.wrapping_sub(self.head_seen) <= self.ring.mask
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.commit();
        // Release: the last commit is before the consumer's acquire load in `is_finished`.
        self.ring.publication.gone.store(true, edge("spsc_gone", Ordering::Release));
    }
}

/// The handle that takes values. It cannot be cloned, so a ring has one consumer.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// The next index to take.
    head: usize,
    /// The value last stored in the shared head: slots from here to `head` were emptied, but not yet
    /// returned to the producer.
    released: usize,
    /// The shared tail as this side last loaded it; the true tail may have advanced since.
    tail_seen: usize,
}

impl<T> Consumer<T> {
    /// Takes the oldest value and returns its slot to the producer at once; `None` when no value can be
    /// taken.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.tail_seen == self.head {
            self.look();
            if self.tail_seen == self.head {
                return None;
            }
        }
        let value = self.take();
        self.release();
        Some(value)
    }

    /// Takes up to `count_max` values that are visible now, the oldest first. Their slots are returned to
    /// the producer together when the iterator is dropped; values that the iterator did not yield stay in
    /// the ring.
    #[inline]
    pub fn drain(&mut self, count_max: usize) -> Drain<'_, T> {
        if self.tail_seen.wrapping_sub(self.head) < count_max {
            self.look();
        }
        let left = count_max.min(self.tail_seen.wrapping_sub(self.head));
        Drain { consumer: self, left }
    }

    /// Whether no value can be taken at the moment.
    pub fn is_empty(&mut self) -> bool {
        self.look();
        self.tail_seen == self.head
    }

    /// Whether the ring will stay empty, because the producer is gone and all its values are taken.
    pub fn is_finished(&mut self) -> bool {
        // Acquire: the producer's last commit is before its release store of `gone`, so the tail
        // loaded next is final.
        self.ring.publication.gone.load(edge("spsc_finished", Ordering::Acquire)) && self.is_empty()
    }

    /// The number of values that fit.
    pub fn capacity(&self) -> usize {
        self.ring.mask + 1
    }

    #[inline(always)]
    fn look(&mut self) {
        // Acquire: the values before tail were written before the producer's release store
        // (`Producer::commit`).
        self.tail_seen = self.ring.publication.tail.load(edge("spsc_look", Ordering::Acquire));
    }

    /// Takes the value at head. Callers have checked that head is before the last loaded tail.
    #[inline(always)]
    fn take(&mut self) -> T {
        debug_assert!(self.head != self.tail_seen);
        // SAFETY: head is before the tail that `look` acquired, so the slot was put, and by (2) is the
        // consumer's alone; moving head past the slot makes sure that its value is taken once.
        let value = unsafe { self.ring.slot(self.head).take() };
        self.head = self.head.wrapping_add(1);
        value
    }

    #[inline(always)]
    fn release(&mut self) {
        if self.released != self.head {
            // Release: the values were taken before the producer's acquire load of head (`Producer::look`)
            // lets the producer write their slots again.
            self.ring.head.store(self.head, edge("spsc_release", Ordering::Release));
            self.released = self.head;
        }
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // Publishes `head` for `Ring::drop`, in case a `Drain` was forgotten.
        self.release();
    }
}

/// An iterator that takes values out of a [`Consumer`].
#[derive(Debug)]
pub struct Drain<'a, T> {
    consumer: &'a mut Consumer<T>,
    /// Number of values that the iterator has yet to yield; all of them are visible.
    left: usize,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        Some(self.consumer.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Drain<'_, T> {}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.consumer.release();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
