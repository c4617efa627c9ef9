//! Edits: how a command changes a collection.
//!
//! An edit begins with the check of the type, before any change, and ends by [`Edit::done`],
//! [`Edit::unchanged`] or a `publish_unchanged`. Dropping it otherwise is a bug: debug builds panic, release
//! builds record the key as modified, because it may be. If a changed collection is empty at the end, its
//! key is deleted.

use crate::Key;
use crate::collection::{Collection, Variant};
use crate::db::{Db, Meta, Open};
use crate::effects::{Effects, Event};
use sluice_base::Bytes;
use sluice_value::{Hash, HashContext, List, ListContext, Set, SetContext, Value, Zset, ZsetContext};

/// A collection that is being changed.
pub struct Edit<'a, C: Editable> {
    db: &'a mut Db,
    effects: &'a mut Effects,
    number: usize,
    key: Key<'a>,
    meta: Meta,
    len_before: usize,
    encoding_before: C::Encoding,
    context: C::Context,
    /// Whether the event for a new key has already been recorded.
    is_told_new: bool,
    /// The open collection; `None` once it is back in its entry.
    open: Option<Open<C>>,
}

/// A list that is being changed.
pub type ListEdit<'a> = Edit<'a, List>;
/// A hash that is being changed.
pub type HashEdit<'a> = Edit<'a, Hash>;
/// A set that is being changed.
pub type SetEdit<'a> = Edit<'a, Set>;
/// A sorted set that is being changed.
pub type ZsetEdit<'a> = Edit<'a, Zset>;

impl<'a, C: Editable> Edit<'a, C> {
    pub(crate) fn new(
        db: &'a mut Db,
        effects: &'a mut Effects,
        (number, key): (usize, Key<'a>),
        (meta, limits): (Meta, C::Limits),
        open: Open<C>,
    ) -> Edit<'a, C> {
        let context = C::context(limits, db.hasher().seed());
        let (len_before, encoding_before) = (open.value.len(), open.value.encoding());
        let (is_told_new, open) = (false, Some(open));
        Edit { db, effects, number, key, meta, len_before, encoding_before, context, is_told_new, open }
    }

    /// The collection, and the context that changes need.
    #[inline]
    pub fn parts(&mut self) -> (&mut C, &mut C::Context) {
        let open = self.open.as_mut().expect("it is there until the edit ends");
        (&mut open.value, &mut self.context)
    }

    /// The collection, to read.
    #[inline]
    pub fn value(&self) -> &C {
        &self.open.as_ref().expect("it is there until the edit ends").value
    }

    /// Records another event of the key, before the event with which the edit ends. This event counts as no
    /// change.
    pub fn also(&mut self, event: Event) {
        if !self.value().is_empty() {
            self.record_new();
        }
        self.effects.key_modified(self.number, self.key, event, 0);
    }

    /// Ends the edit: `event` happened to the key, which counts as `changes` changes.
    pub fn done(mut self, event: Event, changes: u64) {
        self.close(event, changes);
    }

    /// Ends an edit that changed nothing, except possibly the encoding.
    pub fn unchanged(mut self) {
        if let Some(open) = self.open.take() {
            debug_assert_eq!(open.value.len(), self.len_before);
            if open.value.encoding() == self.encoding_before {
                self.db.close_unchanged(open);
            } else {
                let value = self.db.close(self.key, open, self.meta);
                self.effects.discard(value);
            }
        }
    }

    fn close(&mut self, event: Event, changes: u64) {
        let Some(open) = self.open.take() else { return };
        let len = open.value.len();
        let value = self.db.close(self.key, open, self.meta);
        self.effects.discard(value);
        C::discard_garbage(&mut self.context, self.effects);
        if len > 0 {
            self.record_new();
        }
        self.effects.key_modified(self.number, self.key, event, changes);
        if len == 0 {
            self.effects.key_modified(self.number, self.key, Event::Del, 0);
        } else if C::IS_WAITED_FOR && len > self.len_before {
            self.effects.key_ready(self.number, self.key);
        }
    }

    /// Records, once, that a key that was absent now exists.
    #[inline]
    fn record_new(&mut self) {
        if self.len_before == 0 && !self.is_told_new {
            self.is_told_new = true;
            self.effects.key_created(self.number, self.key);
        }
    }
}

impl Edit<'_, List> {
    /// Ends an edit that changed nothing but publishes `event`. Transactions that watch the key do not fail.
    pub fn publish_unchanged(self, event: Event) {
        self.effects.key_told(self.number, self.key, event);
        self.unchanged();
    }
}

impl Edit<'_, Hash> {
    /// Records the creation of a key that the edit deletes again, because the stored fields
    /// had expired already.
    pub fn came_and_went(&mut self) {
        self.record_new();
    }

    /// Ends an edit that changed nothing but publishes `events`, and `del` if the hash is empty.
    /// Transactions that watch the key do not fail.
    pub fn publish_unchanged(self, events: &[Event]) {
        let gone = self.value().is_empty().then_some(&Event::Del);
        events.iter().chain(gone).for_each(|event| self.effects.key_told(self.number, self.key, *event));
        self.unchanged();
    }

    /// Records that the edit replaced `count` expired fields.
    pub fn met_expired(&mut self, count: u64) {
        if count > 0 {
            self.also(Event::HExpired);
            self.effects.count_fields_deleted(count);
        }
    }
}

impl Edit<'_, Set> {
    /// Replaces the whole set.
    pub fn replace(&mut self, set: Set) {
        let old = std::mem::replace(self.parts().0, set);
        self.effects.discard(Some(old.into_value()));
    }
}

impl<C: Editable> Drop for Edit<'_, C> {
    fn drop(&mut self) {
        if self.open.is_some() {
            self.close(C::DEFAULT_EVENT, 1);
            // If a test is failing already, only that failure should be reported.
            debug_assert!(std::thread::panicking(), "an edit was dropped without saying what it did");
        }
    }
}

/// The properties of a collection type that matter at the end of an edit.
pub trait Editable: Collection {
    /// Whether clients can wait for a key to hold more elements.
    const IS_WAITED_FOR: bool;
    /// The event of an edit that was dropped without an end.
    const DEFAULT_EVENT: Event;

    /// Passes to `effects` the parts that changes have replaced, to be freed on another thread.
    fn discard_garbage(context: &mut Self::Context, effects: &mut Effects);
}

impl Editable for List {
    const IS_WAITED_FOR: bool = true;
    const DEFAULT_EVENT: Event = Event::LSet;

    #[inline]
    fn discard_garbage(context: &mut ListContext, effects: &mut Effects) {
        for part in context.garbage.drain(..) {
            let copied = part.copied_bytes();
            effects.discard_part(Value::List(part), copied);
        }
    }
}

impl Editable for Hash {
    const IS_WAITED_FOR: bool = false;
    const DEFAULT_EVENT: Event = Event::HSet;

    #[inline]
    fn discard_garbage(context: &mut HashContext, effects: &mut Effects) {
        discard_strings(&mut context.garbage, effects);
    }
}

impl Editable for Zset {
    const IS_WAITED_FOR: bool = true;
    const DEFAULT_EVENT: Event = Event::ZAdd;

    #[inline]
    fn discard_garbage(context: &mut ZsetContext, effects: &mut Effects) {
        if let Some(garbage) = context.take_garbage() {
            let copied = garbage.copied_bytes();
            effects.discard_part(Value::Zset(garbage), copied);
        }
    }
}

impl Editable for Set {
    const IS_WAITED_FOR: bool = false;
    const DEFAULT_EVENT: Event = Event::SAdd;

    #[inline]
    fn discard_garbage(context: &mut SetContext, effects: &mut Effects) {
        discard_strings(&mut context.garbage, effects);
    }
}

#[inline]
fn discard_strings(garbage: &mut Vec<Bytes>, effects: &mut Effects) {
    for bytes in garbage.drain(..) {
        effects.discard(Some(Value::Str(bytes)));
    }
}
