//! What a handler asks before it visits many elements.

use crate::exec::outcome::{Outcome, Run};
use crate::session::ReplyMode;
use crate::waiting::blocking::WaitFor;
use crate::waiting::production::SlowRead;
use crate::waiting::slow_reads::{BYTES_OF_ELEMENT, QUICK_MULTIPLE, RETAINED_BYTES_MAX, SlowReads};

/// What a handler asks whether another thread is to produce its reply.
pub struct SlowReadAsk<'a> {
    pub(crate) reads: &'a mut SlowReads,
    /// A read that visits more is slow.
    pub(crate) elements_max: usize,
    pub(crate) mode: ReplyMode,
    /// The client can wait for the reply: nothing of the same unit follows the command.
    pub(crate) may_wait: bool,
}

impl SlowReadAsk<'_> {
    /// Whether a read that visits so many elements is slow, and can be produced elsewhere. Where this is so, the handler ends with
    /// [`SlowReadAsk::begin`].
    #[inline]
    pub(crate) fn suits(&mut self, elements: usize) -> bool {
        elements > self.elements_max && self.is_possible(elements)
    }

    /// The same for so many bytes of strings.
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
        // Everybody waits two milliseconds for such a read, and its client would wait for as long as others take to read.
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

    /// Whether a command whose reply is to be produced elsewhere has to wait for a thread. One that changes the data asks before it does.
    #[cold]
    pub(crate) fn must_wait(&self) -> bool {
        self.mode == ReplyMode::On && !self.reads.has_free_thread()
    }

    /// Has the read that `make` returns produced, once a thread is free for it. A reply that nobody is sent is not produced.
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
