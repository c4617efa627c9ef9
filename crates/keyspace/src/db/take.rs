//! Values that move from their entry to another key or database, and values shared with another key. A value
//! *outside* is one that is stored apart from the entry's block.

use super::change::Meta;
use super::{Db, Found};
use crate::Key;
use crate::entry::{self, Form};
use crate::new_value::Payload;
use sluice_collections::slab::Handle;
use sluice_value::Value;

/// A value detached from its key, with expiry and access clock.
pub(crate) struct TakenValue {
    form: Form,
    /// The payload, if the value is inside the block.
    inside: Vec<u8>,
    outside: Option<Value>,
    meta: Meta,
}

impl Db {
    /// Removes the entry at `found` and returns its value. A value outside is moved; otherwise at most a
    /// block's bytes are copied.
    pub(crate) fn take(&mut self, found: Found, key: Key<'_>) -> TakenValue {
        let (form, inside, meta) = self.inside_of(found.handle);
        let outside = self.remove(found, key);
        TakenValue { form, inside, outside, meta }
    }

    /// A copy of an entry's value, to be stored under another key. A value outside is shared.
    pub(crate) fn copy_of(&self, handle: Handle) -> TakenValue {
        let (form, inside, meta) = self.inside_of(handle);
        let (word, body) = self.block(handle);
        let head = entry::Head(word.load(std::sync::atomic::Ordering::Relaxed));
        let is_outside = form.is_outside();
        let outside = is_outside.then(|| self.value_at(entry::payload(head, body)).share());
        TakenValue { form, inside, outside, meta }
    }

    /// Stores a value under an absent key.
    pub(crate) fn put(&mut self, key: Key<'_>, taken: TakenValue) -> Handle {
        let TakenValue { form, inside, outside, meta } = taken;
        let payload = match outside {
            Some(value) => Payload::Outside(form, value),
            None => Payload::moved(key.bytes.len(), meta.expiry.is_some(), form, inside),
        };
        self.insert_payload(key, payload, meta)
    }

    fn inside_of(&self, handle: Handle) -> (Form, Vec<u8>, Meta) {
        let head = self.head(handle);
        let form = self.lasting_form(handle);
        let inside = if form.is_outside() {
            Vec::new()
        } else {
            entry::payload(head, self.store.slab.body(handle)).to_vec()
        };
        (form, inside, Meta { expiry: self.expiry(handle), clock: head.clock() })
    }
}
