//! Edits of streams: the way to a mutable stream.
//!
//! A stream changes where it lies. What happened is said as it happens; the end of the edit counts bytes and
//! hands over what was removed. A stream without entries stays.

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

    /// The stream, and what changing it needs.
    #[inline]
    pub fn parts(&mut self) -> (&mut Stream, &mut StreamContext) {
        (self.db.stream_mut(self.index), &mut self.context)
    }

    /// The stream, to look at.
    #[inline]
    pub fn stream(&self) -> &Stream {
        self.db.stream_at(self.index)
    }

    /// `event` happened to the key, which counts as so many changes.
    pub fn modified(&mut self, event: Event, changes: u64) {
        self.effects.key_modified(self.number, self.key, event, changes);
    }

    /// `event` is published besides one that says what has changed.
    pub fn publish_only(&mut self, event: Event) {
        self.effects.key_told(self.number, self.key, event);
    }

    /// `event` happened to what is not an entry: to groups, consumers, or the numbers of the stream. That
    /// counts as so many changes of the key, but no client that waits for entries is looked at.
    pub fn state_modified(&mut self, event: Event, changes: u64) {
        self.effects.state_modified(self.number, self.key, event, changes);
    }

    /// So many entries became pending, were acknowledged or changed their consumer: no event tells of that.
    pub fn pending_modified(&mut self, changes: u64) {
        if changes > 0 {
            self.state_modified(Event::Silent, changes);
        }
    }

    /// Clients that wait for the stream may be served.
    pub fn ready(&mut self) {
        self.effects.key_ready(self.number, self.key);
    }

    /// What the command left behind, for its form in the replication stream.
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
