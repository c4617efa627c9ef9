//! Helpers for the tests of all queues: numbers from a seed, values that count themselves until they are
//! dropped, and a simple queue as a model.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Capacity, Full};

/// First indexes: zero, one, and indexes so close to the wrap that every test crosses it.
pub(crate) const STARTS: [usize; 4] = [0, 1, usize::MAX - 5, usize::MAX];

/// Capacities: the smallest, some in between, and one for which the layout `permuted` of `spmc/cells.rs`
/// moves cells (64 or more).
pub(crate) const CAPACITIES: [usize; 4] = [2, 4, 8, 128];

pub(crate) fn capacity(count: usize) -> Capacity {
    Capacity::new(count).expect("tests use powers of two")
}

/// Pseudorandom numbers from a seed (Marsaglia's xorshift).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// A value on the heap that counts itself in `alive` until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) value: Box<usize>,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    pub(crate) fn new(value: usize, alive: &Arc<AtomicUsize>) -> Counted {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted { value: Box::new(value), alive: Arc::clone(alive) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A bounded queue so simple that it cannot be wrong.
pub(crate) struct Twin {
    pub(crate) values: VecDeque<usize>,
    capacity: usize,
}

impl Twin {
    pub(crate) fn new(capacity: usize) -> Twin {
        Twin { values: VecDeque::new(), capacity }
    }

    pub(crate) fn push(&mut self, value: usize) -> Result<(), Full<usize>> {
        if self.values.len() == self.capacity {
            return Err(Full(value));
        }
        self.values.push_back(value);
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<usize> {
        self.values.pop_front()
    }
}

/// Runs `check` for every start and capacity, with 23 seeds each.
pub(crate) fn everywhere(check: impl Fn(usize, usize, &mut Numbers)) {
    for start in STARTS {
        for capacity in CAPACITIES {
            for seed in 1..24 {
                check(start, capacity, &mut Numbers::new(seed));
            }
        }
    }
}

/// A value made of its producer's number and its index among that producer's values.
pub(crate) fn stamp(producer: usize, nth: usize) -> Box<(usize, usize)> {
    Box::new((producer, nth))
}

/// Asserts that the lists of several consumers, each in the order of arrival, together have every stamp
/// exactly once, and that each consumer got each producer's values in order.
// The stamps are boxed, so that the tests also cover the memory to which the boxes point.
#[allow(clippy::vec_box)]
pub(crate) fn check_stamps(got: &[Vec<Box<(usize, usize)>>], producers: usize, each: usize) {
    let mut seen = vec![false; producers * each];
    for values in got {
        let mut next = vec![0; producers];
        for stamp in values {
            let (producer, nth) = **stamp;
            assert!(nth >= next[producer], "producer {producer}: {nth} after {}", next[producer]);
            next[producer] = nth + 1;
            assert!(!std::mem::replace(&mut seen[producer * each + nth], true), "{stamp:?} twice");
        }
    }
    assert!(seen.iter().all(|&seen| seen), "something was lost");
}
