//! Edits of streams: how a command changes a stream.
//!
//! A stream is changed in its place among the values. Each change is recorded when it happens; the end of
//! the edit updates the byte count and passes removed parts to the effects. A stream without entries
//! keeps its key.

use crate::Key;
use crate::db::Db;
use crate::effects::{Effects, Event};
use sluice_value::{Stream, StreamContext, StreamLimits};

/// A stream that is being changed.
pub struct StreamEdit<'a> {
    db: &'a mut Db,
    effects: &'a mut Effects,
    number: usize,
    key: Key<'a>,
    index: u32,
    heap_bytes_before: usize,
    context: StreamContext,
}

impl<'a> StreamEdit<'a> {
    pub(crate) fn new(
        db: &'a mut Db,
        effects: &'a mut Effects,
        (number, key): (usize, Key<'a>),
        limits: StreamLimits,
        index: u32,
    ) -> StreamEdit<'a> {
        let heap_bytes_before = db.stream_at(index).heap_bytes();
        let context = StreamContext { limits, ..StreamContext::default() };
        StreamEdit { db, effects, number, key, index, heap_bytes_before, context }
    }

    /// The stream, and the context that changes need.
    #[inline]
    pub fn parts(&mut self) -> (&mut Stream, &mut StreamContext) {
        (self.db.stream_mut(self.index), &mut self.context)
    }

    /// The stream, to read.
    #[inline]
    pub fn stream(&self) -> &Stream {
        self.db.stream_at(self.index)
    }

    /// Records that `event` happened to the key, as `changes` changes.
    pub fn modified(&mut self, event: Event, changes: u64) {
        self.effects.key_modified(self.number, self.key, event, changes);
    }

    /// Publishes `event` in addition to the event that records the change.
    pub fn publish_only(&mut self, event: Event) {
        self.effects.key_told(self.number, self.key, event);
    }

    /// Records an event of groups, consumers or the counters of the stream, as `changes` changes of the
    /// key. Clients that wait for entries are not woken.
    pub fn state_modified(&mut self, event: Event, changes: u64) {
        self.effects.state_modified(self.number, self.key, event, changes);
    }

    /// Counts entries that became pending, were acknowledged or changed their consumer; there is no
    /// event for this.
    pub fn pending_modified(&mut self, changes: u64) {
        if changes > 0 {
            self.state_modified(Event::Silent, changes);
        }
    }

    /// Wakes clients that wait for the stream.
    pub fn ready(&mut self) {
        self.effects.key_ready(self.number, self.key);
    }

    /// The effects of the command, to choose its form in the replication stream.
    pub fn effects(&mut self) -> &mut Effects {
        self.effects
    }
}

impl Drop for StreamEdit<'_> {
    fn drop(&mut self) {
        self.db.account_stream(self.index, self.heap_bytes_before);
        self.effects.count_copied(self.context.copied);
        self.context.garbage.drain(..).for_each(|part| self.effects.discard_stream(part));
    }
}
