//! Many producers, one consumer: a ring for each producer, and words with one bit for each ring that may hold
//! values.
//!
//! A producer stages values in its own [`spsc`] ring and publishes a batch with one store of the tail and one
//! `fetch_or` of its bit. The collector takes all bits of a word with one swap and visits only rings whose
//! bit was set. No two producers touch the same cache line for a value, and a producer that stops in the
//! middle of a batch delays no other producer.
//!
//! A publication always sets the bit by a read-modify-write, even if the bit seems set. With a load first, a
//! producer could see the bit just before the collector takes it, and the collector could see the tail just
//! before the producer stores it; then the batch would wait for the next one. A fence between the store and
//! the load costs as much as the `fetch_or`.
//!
//! Invariants: (1) after a publication, the shared words or the collector's own words have the lane's bit
//! until the collector has visited the lane; (2) lane `n` is bit `n % 64` of word `n / 64`; (3) only one
//! lane at a time has a given number, and the number is given to another lane only after the collector has
//! seen the end of the old lane. Memory: 128 bytes for each 64 lanes, some words for each lane, and each
//! open lane's ring.

use crate::padded::Padded;
use crate::primitive::{Arc, AtomicU64, Ordering, edge};
use crate::{Capacity, Full, spsc};

/// Makes a collector without lanes, for at most `lanes_max` at a time.
pub fn collector<T: Send>(lanes_max: usize) -> Collector<T> {
    let words = lanes_max.div_ceil(64);
    Collector {
        notify_words: Arc::new((0..words).map(|_| Padded(AtomicU64::new(0))).collect()),
        pending: vec![0; words].into_boxed_slice(),
        lanes: (0..lanes_max).map(|_| None).collect(),
        first: 0,
    }
}

/// The bits of all lanes.
type NotifyWords = Arc<Box<[Padded<AtomicU64>]>>;

/// The producer's end of one ring, for a single thread. The owner must call [`Lane::publish`] before dropping
/// the lane.
#[derive(Debug)]
pub struct Lane<T> {
    // The order of the two fields matters: dropping `producer` commits the staged values and marks the ring
    // as finished, and after that dropping `notify_bit` sets the bit.
    producer: spsc::Producer<T>,
    notify_bit: NotifyBit,
    /// Whether `send` found the ring full and its notification was [`Notified::First`], which `publish` has
    /// not reported yet.
    notified_first: bool,
}

/// One lane's bit, which is set once more when this handle is dropped.
#[derive(Debug)]
struct NotifyBit {
    words: NotifyWords,
    lane: usize,
}

impl NotifyBit {
    fn notify(&self) -> Notified {
        let bit = 1 << (self.lane % 64);
        // Release: the lane's tail was stored before the collector's acquire swap
        // (`Collector::take_notifications`) finds the bit.
        let before = self.words[self.lane / 64].fetch_or(bit, edge("lanes_notify", Ordering::Release));
        if before == 0 { Notified::First } else { Notified::Already }
    }
}

impl Drop for NotifyBit {
    fn drop(&mut self) {
        // No wake-up follows: the contract of `Lane` is that its owner publishes before dropping the lane.
        let _ = self.notify();
    }
}

impl<T> Lane<T> {
    /// The lane's number, below `lanes_max`.
    pub fn number(&self) -> usize {
        self.notify_bit.lane
    }

    /// Number of values that the collector has not taken, including staged values; an upper bound while
    /// the collector runs.
    pub fn len(&self) -> usize {
        self.producer.len()
    }

    /// Whether the collector has taken all values.
    pub fn is_empty(&self) -> bool {
        self.producer.is_empty()
    }
}

impl<T> Lane<T> {
    /// Stages a value. Unless the ring seems full, neither the shared tail nor the bit is written. If the
    /// ring seems full, all staged values are committed, and if it is indeed full, the bit is set.
    ///
    /// # Errors
    /// `Full` with the value while the lane's ring has no room.
    #[inline]
    pub fn send(&mut self, value: T) -> Result<(), Full<T>> {
        let refused = self.producer.stage(value);
        if refused.is_err() {
            self.notified_first |= self.notify_bit.notify() == Notified::First;
        }
        refused
    }

    /// Commits the staged values and sets the bit; does neither if no value is staged. The owner calls
    /// this once after each batch, and before each wait.
    #[inline]
    pub fn publish(&mut self) -> Notified {
        let mut first = std::mem::take(&mut self.notified_first);
        if self.producer.has_staged() {
            self.producer.commit();
            first |= self.notify_bit.notify() == Notified::First;
        }
        if first { Notified::First } else { Notified::Already }
    }
}

/// Whether the collector may still be unaware of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a collector that sleeps has to be woken on the first notification"]
pub enum Notified {
    /// No wake-up is needed, because no value is new, or because the collector was notified before and has
    /// not looked since.
    Already,
    /// This is the first notification of the lane's group of 64 lanes since the collector looked, so a
    /// sleeping collector has to be woken.
    First,
}

/// The consumer's end of all lanes.
#[derive(Debug)]
pub struct Collector<T> {
    notify_words: NotifyWords,
    /// Bits that were taken from the shared words, for lanes that `visit` has not found empty since then.
    pending: Box<[u64]>,
    /// Open lanes by number.
    lanes: Box<[Option<spsc::Consumer<T>>]>,
    /// The number of calls of `collect`. Each call computes the word and the bit at which it begins from this
    /// number, so that no lane is always the first.
    first: usize,
}

impl<T: Send> Collector<T> {
    /// Opens a lane for `capacity` values; `None` when `lanes_max` lanes are open. The lane's owner
    /// publishes before dropping the lane. The first [`collect`](Collector::collect) that finds a dropped
    /// lane empty frees its ring and its number. Allocates. Cost: O(`lanes_max` and `capacity`).
    pub fn open(&mut self, capacity: Capacity) -> Option<Lane<T>> {
        let lane = self.lanes.iter().position(Option::is_none)?;
        let (producer, consumer) = spsc::channel(capacity);
        self.lanes[lane] = Some(consumer);
        Some(Lane {
            producer,
            notify_bit: NotifyBit { words: Arc::clone(&self.notify_words), lane },
            notified_first: false,
        })
    }
}

impl<T> Collector<T> {
    /// How many lanes are open.
    pub fn lanes(&self) -> usize {
        self.lanes.iter().flatten().count()
    }

    /// Whether no bit is set and every visited lane was left empty; to be checked before sleeping. Cost:
    /// one load for each 64 lanes.
    pub fn is_quiet(&self) -> bool {
        let is_notified = self.notify_words.iter().any(|word| word.load(Ordering::Relaxed) != 0);
        !is_notified && self.pending.iter().all(|&bits| bits == 0)
    }

    /// Takes the bits out of the shared words.
    #[inline]
    fn take_notifications(&mut self) {
        for (word, pending) in self.notify_words.iter().zip(&mut self.pending) {
            // Relaxed: the load avoids the swap in the usual case of no notification; after a stale value,
            // the notification is found by the next `collect`.
            if word.load(Ordering::Relaxed) != 0 {
                // Acquire: the lanes' tails were stored before the release `fetch_or` (`NotifyBit::notify`).
                *pending |= word.swap(0, edge("lanes_take", Ordering::Acquire));
            }
        }
    }

    /// Gathers values of one lane whose bit is pending, and clears the bit if the lane is empty afterwards.
    /// An empty lane whose producer was dropped is freed.
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
        // No value is missed, because the shared bit was taken before this lane was seen empty, and any
        // later commit sets the shared bit again.
        self.pending[lane / 64] &= !(1 << (lane % 64));
        count
    }
}

impl<T> Collector<T> {
    /// Passes up to `count_max` values of each notified lane to `each`; returns the number of values. If
    /// `each` panics, the lane's remaining values stay for the next call.
    pub fn collect(&mut self, count_max: usize, each: &mut impl FnMut(T)) -> usize {
        self.take_notifications();
        self.first = self.first.wrapping_add(1);
        let (words, rotation) = (self.pending.len(), self.first % 64);
        let mut count = 0;
        for nth in 0..words {
            let word = (self.first / 64 + nth) % words;
            let mut bits = self.pending[word].rotate_right(rotation as u32);
            while bits != 0 {
                let bit = (bits.trailing_zeros() as usize + rotation) % 64;
                count += self.visit(word * 64 + bit, count_max, each);
                bits &= bits - 1;
            }
        }
        count
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
