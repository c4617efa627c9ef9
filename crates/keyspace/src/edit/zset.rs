//! Edits of sorted sets.

use crate::Key;
use crate::db::{Db, Meta, OpenZset};
use crate::effects::{Effects, Event};
use sluice_value::{Value, Zset, ZsetContext, ZsetEncoding};

/// A sorted set that is being changed.
pub struct ZsetEdit<'a> {
    db: &'a mut Db,
    effects: &'a mut Effects,
    number: usize,
    key: Key<'a>,
    meta: Meta,
    len_before: usize,
    encoding_before: ZsetEncoding,
    context: ZsetContext,
    /// `None` once the set is back in its entry.
    open: Option<OpenZset>,
}

impl<'a> ZsetEdit<'a> {
    pub(crate) fn new(
        db: &'a mut Db,
        effects: &'a mut Effects,
        (number, key): (usize, Key<'a>),
        (meta, context): (Meta, ZsetContext),
        open: OpenZset,
    ) -> ZsetEdit<'a> {
        let zset = db.zset_of(&open);
        let (len_before, encoding_before) = (zset.len(), zset.encoding());
        ZsetEdit { db, effects, number, key, meta, len_before, encoding_before, context, open: Some(open) }
    }

    /// The set, and what changing it needs.
    #[inline]
    pub fn parts(&mut self) -> (&mut Zset, &mut ZsetContext) {
        let open = self.open.as_mut().expect("it is there until the edit ends");
        (self.db.zset_of_mut(open), &mut self.context)
    }

    /// The set, to look at.
    #[inline]
    pub fn zset(&self) -> &Zset {
        self.db.zset_of(self.open.as_ref().expect("it is there until the edit ends"))
    }

    /// Ends the edit: `event` happened to the key, which counts as so many changes.
    pub fn done(mut self, event: Event, changes: u64) {
        self.close(event, changes);
    }

    /// Ends an edit that changed nothing, unless it be the encoding.
    pub fn unchanged(mut self) {
        let Some(open) = self.open.take() else { return };
        let zset = self.db.zset_of(&open);
        debug_assert_eq!(zset.len(), self.len_before);
        if zset.encoding() == self.encoding_before || zset.is_empty() {
            self.db.close_zset_unchanged(open);
        } else {
            let value = self.db.close_zset(self.key, open, self.meta);
            self.effects.discard(value);
        }
    }

    fn close(&mut self, event: Event, changes: u64) {
        let Some(open) = self.open.take() else { return };
        let len = self.db.zset_of(&open).len();
        let value = self.db.close_zset(self.key, open, self.meta);
        self.effects.discard(value);
        if let Some(garbage) = self.context.take_garbage() {
            let copied = garbage.copied_bytes();
            self.effects.discard_part(Value::Zset(garbage), copied);
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

impl Drop for ZsetEdit<'_> {
    fn drop(&mut self) {
        if self.open.is_some() {
            self.close(Event::ZAdd, 1);
            // Where a test fails for another reason, that reason is what it should show.
            debug_assert!(std::thread::panicking(), "an edit was dropped without saying what it did");
        }
    }
}
