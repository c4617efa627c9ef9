//! Decides, before a handler visits many elements, whether another thread produces the reply.

use crate::outcome::{Outcome, Run};
use crate::production::SlowRead;
use crate::reply_mode::ReplyMode;
use crate::wait::WaitFor;

/// State of slow reads, kept by the engine.
#[derive(Debug, Default)]
pub struct SlowReads {
    /// Number of threads for slow reads; if it is 0, replies are always produced on the main thread.
    pub threads: usize,
    /// Number of threads that are producing a reply.
    pub running: usize,
    /// Number of running threads that mostly wait for a slow client to read its reply, as last reported
    /// by the server.
    pub held: usize,
    /// Bytes that only slow reads hold, as last reported by the server.
    pub retained_bytes: usize,
    /// Number of slow reads begun; CONFIG RESETSTAT sets it to 0.
    pub total: u64,
    /// Number of reads that were slow but produced on the main thread; CONFIG RESETSTAT sets it to 0.
    pub in_place: u64,
}

impl SlowReads {
    /// Whether a thread is free for another read.
    pub fn has_free_thread(&self) -> bool {
        self.running < self.threads
    }

    /// Whether slow clients occupy all threads, so that a new read would wait for these clients and not for
    /// other reads.
    pub fn are_threads_held(&self) -> bool {
        !self.has_free_thread() && self.held >= self.running
    }

    /// Resets both counts, for CONFIG RESETSTAT.
    pub fn reset_counts(&mut self) {
        (self.total, self.in_place) = (0, 0);
    }
}

/// Decides for one command whether another thread produces its reply.
pub struct SlowReadAsk<'a> {
    /// State of all slow reads.
    pub reads: &'a mut SlowReads,
    /// Number of elements above which a read is slow.
    pub elements_max: usize,
    /// Whether the client receives the reply.
    pub mode: ReplyMode,
    /// Whether the client can wait for the reply; `false`, for example, inside a transaction or a script,
    /// because further commands of the transaction or script may follow.
    pub may_wait: bool,
}

impl SlowReadAsk<'_> {
    /// Whether a read of `elements` elements is slow and another thread can produce its reply. If so,
    /// the handler ends with [`SlowReadAsk::begin`].
    #[inline]
    pub(crate) fn suits(&mut self, elements: usize) -> bool {
        elements > self.elements_max && self.is_possible(elements)
    }

    /// Whether another thread should read `bytes` bytes of strings.
    #[inline]
    pub(crate) fn suits_bytes(&mut self, bytes: usize) -> bool {
        self.suits(bytes / BYTES_OF_ELEMENT)
    }

    #[cold]
    fn is_possible(&mut self, elements: usize) -> bool {
        let is_clients = match self.mode {
            ReplyMode::On | ReplyMode::Off | ReplyMode::Skipping | ReplyMode::SkipNext => true,
            // No thread produces a reply for a replica, because a reply would end the replica's connection.
            ReplyMode::Attaching | ReplyMode::Forbidden => false,
        };
        let can_begin = self.reads.threads > 0 && self.reads.retained_bytes < RETAINED_BYTES_MAX;
        // A quick read is produced here while slow clients occupy all threads. It delays all clients by two
        // milliseconds, but for a thread it would have to wait until other clients have read their replies.
        let is_quick = elements / QUICK_MULTIPLE <= self.elements_max;
        let is_better_here = is_quick && self.reads.are_threads_held();
        let is_possible = is_clients && self.may_wait && can_begin && !is_better_here;
        self.reads.in_place += u64::from(!is_possible);
        is_possible
    }

    /// Number of elements that a read may visit on the main thread, for reads that have to count them first.
    pub(crate) fn elements_max(&self) -> usize {
        self.elements_max
    }

    /// Whether a command whose reply another thread should produce must wait for a thread. A command
    /// that changes the data checks this before the change.
    #[cold]
    pub(crate) fn must_wait(&self) -> bool {
        self.mode == ReplyMode::On && !self.reads.has_free_thread()
    }

    /// Starts the read that `make` returns, or waits for a free thread. Nothing is produced if the client
    /// receives no reply.
    #[cold]
    pub(crate) fn begin(&self, make: impl FnOnce() -> SlowRead) -> Run {
        if self.mode != ReplyMode::On {
            return Ok(Outcome::Done);
        }
        if self.must_wait() {
            return Ok(Outcome::Wait(Box::new(WaitFor::SlowRead { since_ns: 0 })));
        }
        Ok(Outcome::Produce(Box::new(make())))
    }
}

/// Factor of `slow-read-elements` up to which a read is produced on the main thread while slow clients
/// occupy all threads.
const QUICK_MULTIPLE: usize = 4;
/// If slow reads alone hold this many bytes, replies are produced on the main thread.
const RETAINED_BYTES_MAX: usize = 64 << 20;
/// Number of bytes of a string that count as one element, so that 4,096 elements are 1 MiB.
const BYTES_OF_ELEMENT: usize = 256;
