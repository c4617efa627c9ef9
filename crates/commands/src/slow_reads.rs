//! What a handler asks before it visits many elements.

use crate::outcome::{Outcome, Run};
use crate::production::SlowRead;
use crate::reply_mode::ReplyMode;
use crate::wait::WaitFor;

/// What the engine remembers of slow reads.
#[derive(Debug, Default)]
pub struct SlowReads {
    /// How many can be produced at a time; 0: none.
    pub threads: usize,
    /// Threads that produce one.
    pub running: usize,
    /// Of these, the ones that mostly wait for a client to take what it was given, as the server said last.
    pub held: usize,
    /// Bytes that only slow reads hold, as the server said last.
    pub retained_bytes: usize,
    /// Begun so far.
    pub total: u64,
    /// Reads so far that were slow and produced where they ran.
    pub in_place: u64,
}

impl SlowReads {
    /// Whether a read can begin.
    pub fn has_free_thread(&self) -> bool {
        self.running < self.threads
    }

    /// Whether slow clients have all threads: whoever waits for one waits for these clients, and not for
    /// work.
    pub fn are_threads_held(&self) -> bool {
        !self.has_free_thread() && self.held >= self.running
    }

    /// CONFIG RESETSTAT.
    pub fn reset_counts(&mut self) {
        (self.total, self.in_place) = (0, 0);
    }
}

/// What a handler asks whether another thread is to produce its reply.
pub struct SlowReadAsk<'a> {
    /// What is known of all of them.
    pub reads: &'a mut SlowReads,
    /// A read that visits more is slow.
    pub elements_max: usize,
    /// Whether the client is sent the reply.
    pub mode: ReplyMode,
    /// The client can wait for the reply: nothing of the same unit follows the command.
    pub may_wait: bool,
}

impl SlowReadAsk<'_> {
    /// Whether a read that visits so many elements is slow, and can be produced elsewhere. Where this is so,
    /// the handler ends with [`SlowReadAsk::begin`].
    #[inline]
    pub(crate) fn suits(&mut self, elements: usize) -> bool {
        elements > self.elements_max && self.is_possible(elements)
    }

    /// Whether another thread is to read so many bytes of strings.
    #[inline]
    pub(crate) fn suits_bytes(&mut self, bytes: usize) -> bool {
        self.suits(bytes / BYTES_OF_ELEMENT)
    }

    #[cold]
    fn is_possible(&mut self, elements: usize) -> bool {
        let is_clients = match self.mode {
            ReplyMode::On | ReplyMode::Off | ReplyMode::Skipping | ReplyMode::SkipNext => true,
            // A reply ends a replica.
            ReplyMode::Attaching | ReplyMode::Forbidden => false,
        };
        let can_begin = self.reads.threads > 0 && self.reads.retained_bytes < RETAINED_BYTES_MAX;
        // Everybody waits two milliseconds for such a read, and its client would wait for as long as others
        // take to read.
        let is_quick = elements / QUICK_MULTIPLE <= self.elements_max;
        let is_better_here = is_quick && self.reads.are_threads_held();
        let is_possible = is_clients && self.may_wait && can_begin && !is_better_here;
        self.reads.in_place += u64::from(!is_possible);
        is_possible
    }

    /// Elements that a read may visit where it runs: for reads that have to count them first.
    pub(crate) fn elements_max(&self) -> usize {
        self.elements_max
    }

    /// Whether a command whose reply is to be produced elsewhere has to wait for a thread. One that changes
    /// the data asks before it does.
    #[cold]
    pub(crate) fn must_wait(&self) -> bool {
        self.mode == ReplyMode::On && !self.reads.has_free_thread()
    }

    /// Has the read that `make` returns produced, once a thread is free for it. A reply that nobody is sent
    /// is not produced.
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

/// A read of so many times `slow-read-elements` is produced where it runs while slow readers have all
/// threads.
const QUICK_MULTIPLE: usize = 4;
/// Bytes that only slow reads hold; from here on reads are produced where they run.
const RETAINED_BYTES_MAX: usize = 64 << 20;
/// So many bytes of a string take as long as an element: 4,096 elements are 1 MiB.
const BYTES_OF_ELEMENT: usize = 256;
