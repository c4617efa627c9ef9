//! The edit of a set.

use crate::Key;
use crate::db::{Db, Meta, OpenSet};
use crate::effects::{Effects, Event};
use sluice_value::{Set, SetContext, SetEncoding, SetLimits, Value};

/// A set that is being changed. It ends by [`SetEdit::done`] or [`SetEdit::unchanged`].
pub struct SetEdit<'a> {
    db: &'a mut Db,
    effects: &'a mut Effects,
    number: usize,
    key: Key<'a>,
    meta: Meta,
    len_before: usize,
    encoding_before: SetEncoding,
    context: SetContext,
    /// `None` once it is back in its entry.
    open: Option<OpenSet>,
}

impl<'a> SetEdit<'a> {
    pub(crate) fn new(
        db: &'a mut Db,
        effects: &'a mut Effects,
        (number, key): (usize, Key<'a>),
        (meta, limits): (Meta, SetLimits),
        open: OpenSet,
    ) -> SetEdit<'a> {
        let len_before = open.set.len();
        let encoding_before = open.set.encoding();
        let context = SetContext { limits, ..SetContext::default() };
        SetEdit { db, effects, number, key, meta, len_before, encoding_before, context, open: Some(open) }
    }

    /// The set, and what changing it needs.
    #[inline]
    pub fn parts(&mut self) -> (&mut Set, &mut SetContext) {
        let open = self.open.as_mut().expect("it is there until the edit ends");
        (&mut open.set, &mut self.context)
    }

    /// The set, to look at.
    #[inline]
    pub fn set(&self) -> &Set {
        &self.open.as_ref().expect("it is there until the edit ends").set
    }

    /// Puts another set in place of the whole.
    pub fn replace(&mut self, set: Set) {
        let open = self.open.as_mut().expect("it is there until the edit ends");
        let old = std::mem::replace(&mut open.set, set);
        self.effects.discard(Some(Value::Set(old)));
    }

    /// Ends the edit: `event` happened to the key, which counts as so many changes.
    pub fn done(mut self, event: Event, changes: u64) {
        self.close(event, changes);
    }

    /// Ends an edit that changed no member.
    pub fn unchanged(mut self) {
        if let Some(open) = self.open.take() {
            debug_assert_eq!(open.set.len(), self.len_before);
            if open.set.encoding() == self.encoding_before {
                self.db.close_set_unchanged(open);
            } else {
                let value = self.db.close_set(self.key, open, self.meta);
                self.effects.discard(value);
            }
        }
    }

    fn close(&mut self, event: Event, changes: u64) {
        let Some(open) = self.open.take() else { return };
        let len = open.set.len();
        let value = self.db.close_set(self.key, open, self.meta);
        self.effects.discard(value);
        for bytes in self.context.garbage.drain(..) {
            self.effects.discard(Some(Value::Str(bytes)));
        }
        if self.len_before == 0 && len > 0 {
            self.effects.key_created(self.number, self.key);
        }
        self.effects.key_modified(self.number, self.key, event, changes);
        if len == 0 {
            self.effects.key_modified(self.number, self.key, Event::Del, 0);
        }
    }
}

impl Drop for SetEdit<'_> {
    fn drop(&mut self) {
        if self.open.is_some() {
            self.close(Event::SAdd, 1);
            // Where a test fails for another reason, that reason is what it should show.
            debug_assert!(std::thread::panicking(), "an edit was dropped without saying what it did");
        }
    }
}
