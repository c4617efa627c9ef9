//! Many producers, one consumer, one ring: kept to compare with [`lanes`](crate::lanes).
//!
//! A producer takes a *ticket*, the next index, with a fetch-and-add that cannot fail, then waits until the consumer
//! is less than a lap behind that index. "Waiting" is coming back: refused, it keeps the ticket and gives the value
//! back. (Ticket locks, and the bounded queues with reservation built on them: Mellor-Crummey 1987; Krizhanovsky,
//! "Lock-free multi-producer multi-consumer queue on ring buffer", 2013.)
//!
//! Two weaknesses that `lanes` does not have: everybody writes the line of `tail` for every value, and a producer that
//! stops between its ticket and its value holds up all values behind it.
//!
//! Invariants: (1) the holder of ticket `i` alone may fill the cell of `i`, once `i < head + capacity`; (2) only the
//! consumer empties cells and moves `head`; (3) a ticket that nobody will use any more is in `abandoned`.
//! Memory: `capacity * 16` bytes for values of a word, and 512.

#![allow(unsafe_code)]
// JUSTIFICATION: without it a value needs a lock of its own; see `slot.rs`.

use crate::padded::Padded;
use crate::primitive::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, edge};
use crate::response::{Collect, Respond, Rung};
use crate::slot::Slot;
use crate::{Capacity, Full};

/// Makes a ring for `capacity` values. Allocates once; the last handle frees.
pub fn channel<T: Send>(capacity: Capacity) -> (Producer<T>, Consumer<T>) {
    starting_at(capacity, 0)
}

/// A ring whose first index is `start`: models and tests begin just before the wrap.
#[cfg(any(test, loom))]
pub fn channel_at<T: Send>(capacity: Capacity, start: usize) -> (Producer<T>, Consumer<T>) {
    starting_at(capacity, start)
}

fn starting_at<T: Send>(capacity: Capacity, start: usize) -> (Producer<T>, Consumer<T>) {
    let cell = |_| Cell { full: AtomicBool::new(false), slot: Slot::new() };
    let ring = Arc::new(Ring {
        head: Padded(AtomicUsize::new(start)),
        tail: Padded(AtomicUsize::new(start)),
        abandoned: Padded(Abandoned { any: AtomicBool::new(false), tickets: Mutex::new(Vec::new()) }),
        mask: capacity.mask(),
        cells: (0..capacity.count()).map(cell).collect(),
    });
    let producer = Producer { ring: Arc::clone(&ring), ticket: None, head_seen: start, sent: false };
    (producer, Consumer { ring, head: start, released: start, skips: Vec::new() })
}

/// One place.
#[derive(Debug)]
struct Cell<T> {
    /// Whether the slot holds a value.
    full: AtomicBool,
    slot: Slot<T>,
}

/// Tickets of producers that were dropped before there was room for them.
#[derive(Debug)]
struct Abandoned {
    /// Whether there may be some: spares the consumer the lock.
    any: AtomicBool,
    tickets: Mutex<Vec<usize>>,
}

/// What all handles share.
#[derive(Debug)]
struct Ring<T> {
    /// Written by the consumer: tickets below `head + capacity` may be used.
    head: Padded<AtomicUsize>,
    /// Written by all producers: the next ticket.
    tail: Padded<AtomicUsize>,
    abandoned: Padded<Abandoned>,
    mask: usize,
    cells: Box<[Cell<T>]>,
}

impl<T> Ring<T> {
    #[inline(always)]
    fn cell(&self, index: usize) -> &Cell<T> {
        &self.cells[index & self.mask]
    }
}

impl<T> Drop for Ring<T> {
    /// Drops what nobody took. All handles are gone, and the reference count ordered their last stores before this.
    fn drop(&mut self) {
        for cell in self.cells.iter().filter(|cell| cell.full.load(Ordering::Relaxed)) {
            // SAFETY: `full` says that the slot was put and not taken, and nobody else is left.
            drop(unsafe { cell.slot.take() });
        }
    }
}

/// One of the producers; clone it for each thread.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// An index that is this producer's and not filled yet: the ring was full.
    ticket: Option<usize>,
    /// Head as last seen: the true one is this or later.
    head_seen: usize,
    /// Something went in since `publish` was called.
    sent: bool,
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        Producer { ring: Arc::clone(&self.ring), ticket: None, head_seen: self.head_seen, sent: false }
    }
}

impl<T> Producer<T> {
    /// Adds `value`; the consumer takes it when it has taken all that have earlier tickets.
    ///
    /// # Errors
    /// `Full` while the consumer is a lap behind. The producer keeps its place in the order: it has to come back with
    /// this value or another, or be dropped, for those behind it wait.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        let index = match self.ticket.take() {
            Some(index) => index,
            // Relaxed: hands out numbers; what is in the cells travels with `full` and `head`.
            None => self.ring.tail.fetch_add(1, Ordering::Relaxed),
        };
        if index.wrapping_sub(self.head_seen) > self.ring.mask {
            // Acquire: the consumer emptied the cell before its release store of head (`Consumer::release`).
            self.head_seen = self.ring.head.load(edge("ticket_room", Ordering::Acquire));
            if index.wrapping_sub(self.head_seen) > self.ring.mask {
                self.ticket = Some(index);
                return Err(Full(value));
            }
        }
        let cell = self.ring.cell(index);
        // SAFETY: by (1) the cell is this producer's; the take before happens before the head that was acquired.
        unsafe { cell.slot.put(value) };
        // Release: the value is in before the consumer's acquire load of `full` (`Consumer::pop_unreleased`).
        cell.full.store(true, edge("ticket_publish", Ordering::Release));
        self.sent = true;
        Ok(())
    }

    /// Whether this producer was refused and holds a place that others may be waiting behind.
    pub fn holds_ticket(&self) -> bool {
        self.ticket.is_some()
    }

    /// How many values fit.
    pub fn capacity(&self) -> usize {
        self.ring.mask + 1
    }
}

impl<T> Drop for Producer<T> {
    /// Leaves an unused ticket to the consumer, which skips it. The only lock here; the consumer takes it only when a
    /// ticket was left.
    fn drop(&mut self) {
        if let Some(index) = self.ticket.take() {
            if let Ok(mut tickets) = self.ring.abandoned.tickets.lock() {
                tickets.push(index);
            }
            // Relaxed: a hint to look under the lock, which orders the rest.
            self.ring.abandoned.any.store(true, Ordering::Relaxed);
        }
    }
}

impl<T> Respond<T> for Producer<T> {
    #[inline]
    fn send(&mut self, value: T) -> Result<(), Full<T>> {
        self.push(value)
    }

    /// Everything is visible already; there is no bell, so whoever sent something has to wake a sleeper.
    #[inline]
    fn publish(&mut self) -> Rung {
        if std::mem::take(&mut self.sent) { Rung::First } else { Rung::Already }
    }
}

/// The only consumer.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// The next index to take.
    head: usize,
    /// What the shared head says.
    released: usize,
    /// Abandoned tickets at or behind `head`.
    skips: Vec<usize>,
}

impl<T> Consumer<T> {
    /// Takes the value of the oldest ticket, if it is there.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let value = self.pop_unreleased();
        self.release();
        value
    }

    /// How many values fit.
    pub fn capacity(&self) -> usize {
        self.ring.mask + 1
    }

    /// Takes without giving the place back.
    #[inline(always)]
    fn pop_unreleased(&mut self) -> Option<T> {
        loop {
            let cell = self.ring.cell(self.head);
            // Acquire: the value was in before the producer's release store (`Producer::push`).
            if cell.full.load(edge("ticket_look", Ordering::Acquire)) {
                // SAFETY: the cell is full, and by (2) the consumer's alone until head is released past it.
                let value = unsafe { cell.slot.take() };
                // Relaxed: the release store of head comes after it and orders both.
                cell.full.store(false, Ordering::Relaxed);
                self.head = self.head.wrapping_add(1);
                return Some(value);
            }
            if !self.skip() {
                return None;
            }
        }
    }

    /// Moves past the ticket at head if it was abandoned.
    #[cold]
    fn skip(&mut self) -> bool {
        let abandoned = &self.ring.abandoned;
        if abandoned.any.load(Ordering::Relaxed)
            && let Ok(mut tickets) = abandoned.tickets.lock()
        {
            // Under the lock: who adds one after this sets the hint after this.
            abandoned.any.store(false, Ordering::Relaxed);
            self.skips.append(&mut tickets);
        }
        let Some(nth) = self.skips.iter().position(|&index| index == self.head) else { return false };
        self.skips.swap_remove(nth);
        self.head = self.head.wrapping_add(1);
        true
    }

    #[inline(always)]
    fn release(&mut self) {
        if self.released != self.head {
            // Release: the cells were emptied before a producer's acquire load of head (`Producer::push`) lets it fill
            // them again.
            self.ring.head.store(self.head, edge("ticket_release", Ordering::Release));
            self.released = self.head;
        }
    }
}

impl<T> Collect<T> for Consumer<T> {
    /// Here `count_max` counts the values of all senders together: the ring does not know whose they are. If `each`
    /// panics, the places that were emptied are given back by the next call.
    fn collect(&mut self, count_max: usize, each: &mut impl FnMut(T)) -> usize {
        let mut count = 0;
        while count < count_max
            && let Some(value) = self.pop_unreleased()
        {
            count += 1;
            each(value);
        }
        self.release();
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
