//! Timers in a 4-ary heap over a slab. A cancelled timer is removed at once.
//!
//! Invariants: (1) `heap[i].at_ns <= heap[child].at_ns` for the four children `4 i + 1 ..= 4 i + 4`; equal
//! times are ordered by insertion; (2) `slots[heap[i].slot].heap_index == i`; (3) a slot's generation grows
//! when its timer ends, so an old [`TimerId`] cancels nothing. Cost of insert, cancel and expiry: O(log n),
//! without tombstones.

use crate::handle::Token;
use sluice_base::heap;
/// The handle of a timer until it fires or is cancelled; afterwards it has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId {
    slot: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct HeapEntry {
    at_ns: u64,
    /// Insertion number: timers of equal times fire in the order in which they were set. The number
    /// wraps, so that an entry is 16 bytes and four siblings are a cache line; timers of equal times on
    /// both sides of the wrap may fire in either order, once in four billion timers.
    order: u32,
    slot: u32,
}

const _: () = assert!(size_of::<HeapEntry>() == 16);

impl HeapEntry {
    #[inline]
    fn before(&self, other: &HeapEntry) -> bool {
        // Time and insertion number are compared as one number, because that needs no branch.
        let key = |entry: &HeapEntry| u128::from(entry.at_ns) << 32 | u128::from(entry.order);
        key(self) < key(other)
    }
}

#[derive(Clone, Copy, Debug)]
struct TimerSlot {
    token: Token,
    generation: u32,
    /// Index in the heap, or [`FREE`].
    heap_index: u32,
}

/// The timers of one loop; usable separately, with any unit of time.
#[derive(Debug, Default)]
pub struct Timers {
    heap: Vec<HeapEntry>,
    slots: Vec<TimerSlot>,
    free: Vec<u32>,
    order: u32,
}

impl Timers {
    /// Bytes that the allocator holds for the timers.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.heap) + heap::vec(&self.slots) + heap::vec(&self.free)
    }

    /// Sets a timer for `at_ns`. Cost: O(log n).
    pub fn insert(&mut self, at_ns: u64, token: Token) -> TimerId {
        let index = self.heap.len() as u32;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(TimerSlot { token, generation: 0, heap_index: FREE });
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 timers fit in memory")
            }
        };
        let entry = &mut self.slots[slot as usize];
        entry.token = token;
        entry.heap_index = index;
        let id = TimerId { slot, generation: entry.generation };
        self.order = self.order.wrapping_add(1);
        self.heap.push(HeapEntry { at_ns, order: self.order, slot });
        self.rise(index as usize);
        id
    }

    /// Cancels a timer; returns its token, if it was set.
    pub fn cancel(&mut self, id: TimerId) -> Option<Token> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation != id.generation || slot.heap_index == FREE {
            return None;
        }
        Some(self.remove(slot.heap_index as usize).1)
    }

    /// The time at which the first timer is due.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.at_ns)
    }

    /// Removes and returns the timer with the earliest time if it is due.
    #[inline]
    pub fn pop_due(&mut self, now_ns: u64) -> Option<(TimerId, Token)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        Some(self.remove(0))
    }

    /// Number of timers that are set.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn remove(&mut self, index: usize) -> (TimerId, Token) {
        let removed = self.heap[index];
        let last = self.heap.pop().expect("holds at least the entry at `index`");
        if index < self.heap.len() {
            // The last entry of the heap fills the hole, and usually belongs near the bottom. Moving the hole
            // down to a leaf before the entry is placed saves comparisons with that entry.
            let hole = self.dig(index);
            self.heap[hole] = last;
            self.rise(hole);
        }
        let slot = &mut self.slots[removed.slot as usize];
        let id = TimerId { slot: removed.slot, generation: slot.generation };
        slot.heap_index = FREE;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(removed.slot);
        (id, slot.token)
    }

    fn rise(&mut self, mut index: usize) {
        let entry = self.heap[index];
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.put(index, self.heap[parent]);
            index = parent;
        }
        self.put(index, entry);
    }

    /// Moves the least child up at each level below `index`, and returns the hole at the end of the path.
    fn dig(&mut self, mut index: usize) -> usize {
        let len = self.heap.len();
        loop {
            let first = ARITY * index + 1;
            let least = match self.heap.get(first..first + ARITY) {
                Some([a, b, c, d]) => {
                    // Compares two pairs, then the winners, because the comparisons of the pairs do not
                    // depend on each other.
                    let left = usize::from(b.before(a));
                    let right = 2 + usize::from(d.before(c));
                    let (winner, other) = (self.heap[first + left], self.heap[first + right]);
                    first + if other.before(&winner) { right } else { left }
                }
                _ if first >= len => return index,
                _ => (first + 1..len).fold(first, |least, child| {
                    if self.heap[child].before(&self.heap[least]) { child } else { least }
                }),
            };
            self.put(index, self.heap[least]);
            index = least;
        }
    }

    #[inline]
    fn put(&mut self, index: usize, entry: HeapEntry) {
        self.heap[index] = entry;
        self.slots[entry.slot as usize].heap_index = index as u32;
    }
}

const ARITY: usize = 4;
const FREE: u32 = u32::MAX;

#[cfg(test)]
mod tests;
