//! The edit of a hash.

use crate::Key;
use crate::db::{Db, Meta, OpenHash};
use crate::effects::{Effects, Event};
use sluice_value::{Hash, HashContext, HashEncoding, HashLimits, Value};

/// A hash that is being changed. It ends by [`HashEdit::done`] or [`HashEdit::unchanged`].
pub struct HashEdit<'a> {
    db: &'a mut Db,
    effects: &'a mut Effects,
    number: usize,
    key: Key<'a>,
    meta: Meta,
    len_before: usize,
    encoding_before: HashEncoding,
    context: HashContext,
    /// The key is told to have come into being, even if nothing is left of it.
    is_told_new: bool,
    /// Events that come before the last one.
    events: Vec<Event>,
    /// `None` once it is back in its entry.
    open: Option<OpenHash>,
}

impl<'a> HashEdit<'a> {
    pub(crate) fn new(
        db: &'a mut Db,
        effects: &'a mut Effects,
        (number, key): (usize, Key<'a>),
        (meta, limits): (Meta, HashLimits),
        open: OpenHash,
    ) -> HashEdit<'a> {
        let len_before = open.hash.len();
        let encoding_before = open.hash.encoding();
        let context = HashContext { limits, ..HashContext::default() };
        let events = Vec::new();
        HashEdit {
            db,
            effects,
            number,
            key,
            meta,
            len_before,
            encoding_before,
            context,
            events,
            is_told_new: false,
            open: Some(open),
        }
    }

    /// The hash, and what changing it needs.
    #[inline]
    pub fn parts(&mut self) -> (&mut Hash, &mut HashContext) {
        let open = self.open.as_mut().expect("it is there until the edit ends");
        (&mut open.hash, &mut self.context)
    }

    /// The hash, to look at.
    #[inline]
    pub fn hash(&self) -> &Hash {
        &self.open.as_ref().expect("it is there until the edit ends").hash
    }

    /// Something else that happened to the key, before what the edit ends with. It counts as no change of its own.
    pub fn also(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Fields were stored whose time had passed already: a key that was absent came into being, and went.
    pub fn came_and_went(&mut self) {
        self.is_told_new = true;
    }

    /// So many fields whose time had passed were in the way of the edit.
    pub fn met_expired(&mut self, count: u64) {
        if count > 0 {
            self.also(Event::HExpired);
            self.effects.count_fields_deleted(count);
        }
    }

    /// Ends the edit: `event` happened to the key, which counts as so many changes.
    pub fn done(mut self, event: Event, changes: u64) {
        self.close(event, changes);
    }

    /// Ends an edit that changed no field.
    pub fn unchanged(mut self) {
        if let Some(open) = self.open.take() {
            debug_assert_eq!(open.hash.len(), self.len_before);
            if open.hash.encoding() == self.encoding_before {
                self.db.close_hash_unchanged(open);
            } else {
                let value = self.db.close_hash(self.key, open, self.meta);
                self.effects.discard(value);
            }
        }
    }

    fn close(&mut self, event: Event, changes: u64) {
        let Some(open) = self.open.take() else { return };
        let len = open.hash.len();
        let value = self.db.close_hash(self.key, open, self.meta);
        self.effects.discard(value);
        for bytes in self.context.garbage.drain(..) {
            self.effects.discard(Some(Value::Str(bytes)));
        }
        if self.len_before == 0 && (len > 0 || self.is_told_new) {
            self.effects.key_created(self.number, self.key);
        }
        for event in self.events.drain(..) {
            self.effects.key_modified(self.number, self.key, event, 0);
        }
        self.effects.key_modified(self.number, self.key, event, changes);
        if len == 0 {
            self.effects.key_modified(self.number, self.key, Event::Del, 0);
        }
    }
}

impl Drop for HashEdit<'_> {
    fn drop(&mut self) {
        if self.open.is_some() {
            self.close(Event::HSet, 1);
            // Where a test fails for another reason, that reason is what it should show.
            debug_assert!(std::thread::panicking(), "an edit was dropped without saying what it did");
        }
    }
}
