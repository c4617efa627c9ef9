//! Many producers, one consumer: a ring for each producer and a doorbell, a word with a bit for each ring.
//!
//! A worker stages responses in its own [`spsc`] ring and publishes a batch with one store and one ring of the bell
//! (`fetch_or` of its bit). The collector takes all bits with one swap and visits only rings that have something. No
//! two workers touch the same line for a value, and a worker that stops in the middle holds up nobody but itself.
//!
//! The bell always rings by a read-modify-write, even if the bit seems set: with a mere look first, a worker could see
//! the bit just before the collector takes it, and the collector the tail just before the worker stores it; then the
//! batch would wait for the next one. A fence between the store and the look costs as much as the `fetch_or`.
//!
//! Invariants: (1) after a publication, the bell or the collector's own notes have the lane's bit until the collector
//! has looked; (2) lane `n` is bit `n % 64` of word `n / 64`; (3) a number is given to one lane at a time, and again
//! only after the collector has seen the old one's end.
//! Memory: 128 bytes for each 64 lanes, and each open lane's ring.

use crate::padded::Padded;
use crate::primitive::{Arc, AtomicU64, Ordering, edge};
use crate::{Capacity, Full, spsc};

/// Makes a collector without lanes, for at most `lanes_max` at a time.
pub fn collector<T: Send>(lanes_max: usize) -> Collector<T> {
    let words = lanes_max.div_ceil(64);
    Collector {
        bells: Arc::new((0..words).map(|_| Padded(AtomicU64::new(0))).collect()),
        heard: vec![0; words].into_boxed_slice(),
        lanes: (0..lanes_max).map(|_| None).collect(),
        first: 0,
    }
}

/// The doorbells of all lanes.
type Bells = Arc<Box<[Padded<AtomicU64>]>>;

/// A worker's end.
#[derive(Debug)]
pub struct Lane<T> {
    // In this order: dropping commits what is staged and says that it was the last, then rings.
    producer: spsc::Producer<T>,
    bell: Bell,
    /// A refusal rang first, and `publish` has not told yet.
    rang_first: bool,
}

/// One bit of the doorbell; rings when it is dropped.
#[derive(Debug)]
struct Bell {
    words: Bells,
    lane: usize,
}

impl Bell {
    fn ring(&self) -> Rung {
        let bit = 1 << (self.lane % 64);
        // Release: the lane's tail was stored before the collector's acquire swap (`Collector::listen`) finds the bit.
        let before = self.words[self.lane / 64].fetch_or(bit, edge("lanes_ring", Ordering::Release));
        if before == 0 { Rung::First } else { Rung::Already }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // Nobody is left to wake the collector: `Lane` says that its owner publishes before it goes.
        let _ = self.ring();
    }
}

impl<T> Lane<T> {
    /// The lane's number, below `lanes_max`.
    pub fn number(&self) -> usize {
        self.bell.lane
    }

    /// Values that the collector has not taken, staged ones included; never less than there are.
    pub fn len(&self) -> usize {
        self.producer.len()
    }

    /// Whether the collector has taken everything.
    pub fn is_empty(&self) -> bool {
        self.producer.is_empty()
    }
}

impl<T> Lane<T> {
    /// Stages; nothing shared is written, unless the ring is full: then everything staged is shown and the bell rung.
    ///
    /// # Errors
    /// `Full` with the value while the collector is behind.
    #[inline]
    pub fn send(&mut self, value: T) -> Result<(), Full<T>> {
        let refused = self.producer.stage(value);
        if refused.is_err() {
            self.rang_first |= self.bell.ring() == Rung::First;
        }
        refused
    }

    /// Commits and rings; neither when nothing is new. Call it once after each batch, and before waiting for anything.
    #[inline]
    pub fn publish(&mut self) -> Rung {
        let mut first = std::mem::take(&mut self.rang_first);
        if self.producer.has_staged() {
            self.producer.commit();
            first |= self.bell.ring() == Rung::First;
        }
        if first { Rung::First } else { Rung::Already }
    }
}

/// Whether the collector may still be unaware of something that was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a collector that sleeps has to be woken on the first ring"]
pub enum Rung {
    /// Nothing to announce, or the bell rang before and the collector has not looked since: it will look anyway.
    Already,
    /// The first ring since the collector looked: if it sleeps, it has to be woken.
    First,
}

/// The end that gathers from all lanes.
#[derive(Debug)]
pub struct Collector<T> {
    bells: Bells,
    /// Bits taken from the bell whose lanes are not seen empty yet.
    heard: Box<[u64]>,
    /// Open lanes by number.
    lanes: Box<[Option<spsc::Consumer<T>>]>,
    /// Rotates, so that no lane is always the first.
    first: usize,
}

impl<T: Send> Collector<T> {
    /// Opens a lane for `capacity` values, or none when `lanes_max` are open. Its owner publishes before dropping it. The
    /// first [`collect`](Collector::collect) that finds a dropped lane empty frees its ring and its number. Allocates.
    pub fn open(&mut self, capacity: Capacity) -> Option<Lane<T>> {
        let lane = self.lanes.iter().position(Option::is_none)?;
        let (producer, consumer) = spsc::channel(capacity);
        self.lanes[lane] = Some(consumer);
        Some(Lane { producer, bell: Bell { words: Arc::clone(&self.bells), lane }, rang_first: false })
    }
}

impl<T> Collector<T> {
    /// How many lanes are open.
    pub fn lanes(&self) -> usize {
        self.lanes.iter().flatten().count()
    }

    /// Whether no bell rang and no lane is left half gathered: what to look at before sleeping. Costs one load for each
    /// 64 lanes.
    pub fn is_quiet(&self) -> bool {
        let rung = self.bells.iter().any(|bell| bell.load(Ordering::Relaxed) != 0);
        !rung && self.heard.iter().all(|&bits| bits == 0)
    }

    /// Takes the bits of the bells.
    #[inline]
    fn listen(&mut self) {
        for (bell, heard) in self.bells.iter().zip(&mut self.heard) {
            // Relaxed: a look that spares the swap in the usual case of silence; too old, it costs one round.
            if bell.load(Ordering::Relaxed) != 0 {
                // Acquire: the lanes' tails were stored before the release `fetch_or` (`Bell::ring`).
                *heard |= bell.swap(0, edge("lanes_listen", Ordering::Acquire));
            }
        }
    }

    /// Gathers from one lane whose bit was heard, and forgets the bit if that emptied it.
    #[inline]
    fn visit(&mut self, lane: usize, count_max: usize, each: &mut impl FnMut(T)) -> usize {
        let mut count = 0;
        if let Some(consumer) = &mut self.lanes[lane] {
            let drain = consumer.drain(count_max);
            count = drain.len();
            drain.for_each(each);
            if count == count_max && !consumer.is_empty() {
                return count;
            }
            if consumer.is_finished() {
                self.lanes[lane] = None;
            }
        }
        // A later commit rings again, and the bell was emptied before this lane was seen empty: nothing is missed.
        self.heard[lane / 64] &= !(1 << (lane % 64));
        count
    }
}

impl<T> Collector<T> {
    /// Gives up to `count_max` values of each lane that has any to `each`; returns how many. If `each` panics, the
    /// lane's remaining values stay for the next call.
    pub fn collect(&mut self, count_max: usize, each: &mut impl FnMut(T)) -> usize {
        self.listen();
        self.first = self.first.wrapping_add(1);
        let (words, turn) = (self.heard.len(), self.first % 64);
        let mut count = 0;
        for nth in 0..words {
            let word = (self.first / 64 + nth) % words;
            let mut bits = self.heard[word].rotate_right(turn as u32);
            while bits != 0 {
                let bit = (bits.trailing_zeros() as usize + turn) % 64;
                count += self.visit(word * 64 + bit, count_max, each);
                bits &= bits - 1;
            }
        }
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
