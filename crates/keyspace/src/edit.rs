//! Edits: the way to a mutable collection.
//!
//! An edit begins with the check of the type, before anything changes, and ends by [`ListEdit::done`] or
//! [`ListEdit::unchanged`]. One that is dropped otherwise is a mistake of ours: debug builds panic, release builds record
//! the key as modified, since it may be. A collection without elements takes its key with it.

mod set;
mod zset;

pub use set::SetEdit;
pub use zset::ZsetEdit;

use crate::Key;
use crate::db::{Db, Meta, OpenList};
use crate::effects::{Effects, Event};
use sluice_value::{List, ListContext, ListEncoding, ListLimits, Value};

mod hash;
pub use hash::HashEdit;

/// A list that is being changed.
pub struct ListEdit<'a> {
    db: &'a mut Db,
    effects: &'a mut Effects,
    number: usize,
    key: Key<'a>,
    meta: Meta,
    len_before: usize,
    encoding_before: ListEncoding,
    context: ListContext,
    /// `None` once it is back in its entry.
    open: Option<OpenList>,
}

impl<'a> ListEdit<'a> {
    pub(crate) fn new(
        db: &'a mut Db,
        effects: &'a mut Effects,
        (number, key): (usize, Key<'a>),
        (meta, limits): (Meta, ListLimits),
        open: OpenList,
    ) -> ListEdit<'a> {
        let len_before = open.list.len();
        let encoding_before = open.list.encoding();
        let context = ListContext { limits, ..ListContext::default() };
        ListEdit { db, effects, number, key, meta, len_before, encoding_before, context, open: Some(open) }
    }

    /// The list, and what changing it needs.
    #[inline]
    pub fn parts(&mut self) -> (&mut List, &mut ListContext) {
        let open = self.open.as_mut().expect("it is there until the edit ends");
        (&mut open.list, &mut self.context)
    }

    /// The list, to look at.
    #[inline]
    pub fn list(&self) -> &List {
        &self.open.as_ref().expect("it is there until the edit ends").list
    }

    /// Ends the edit: `event` happened to the key, which counts as so many changes.
    pub fn done(mut self, event: Event, changes: u64) {
        self.close(event, changes);
    }

    /// Something else that happened to the key, before what the edit ends with. It counts as no change of its own.
    pub fn also(&mut self, event: Event) {
        self.effects.key_modified(self.number, self.key, event, 0);
    }

    /// Ends an edit that changed nothing and publishes `event` all the same. Transactions that watch the key do not fail.
    pub fn publish_unchanged(self, event: Event) {
        let (number, key) = (self.number, self.key);
        self.effects.key_told(number, key, event);
        self.unchanged();
    }

    /// Ends an edit that changed nothing, unless it be the encoding.
    pub fn unchanged(mut self) {
        if let Some(open) = self.open.take() {
            debug_assert_eq!(open.list.len(), self.len_before);
            if open.list.encoding() == self.encoding_before {
                self.db.close_unchanged(open);
            } else {
                let value = self.db.close_list(self.key, open, self.meta);
                self.effects.discard(value);
            }
        }
    }

    fn close(&mut self, event: Event, changes: u64) {
        let Some(open) = self.open.take() else { return };
        let len = open.list.len();
        let value = self.db.close_list(self.key, open, self.meta);
        self.effects.discard(value);
        for part in self.context.garbage.drain(..) {
            let copied = part.copied_bytes();
            self.effects.discard_part(Value::List(part), copied);
        }
        if self.len_before == 0 && len > 0 {
            self.effects.key_created(self.number, self.key);
        }
        self.effects.key_modified(self.number, self.key, event, changes);
        if len == 0 {
            self.effects.key_modified(self.number, self.key, Event::Del, 0);
        } else if len > self.len_before {
            self.effects.key_ready(self.number, self.key);
        }
    }
}

impl Drop for ListEdit<'_> {
    fn drop(&mut self) {
        if self.open.is_some() {
            self.close(Event::LSet, 1);
            // Where a test fails for another reason, that reason is what it should show.
            debug_assert!(std::thread::panicking(), "an edit was dropped without saying what it did");
        }
    }
}
