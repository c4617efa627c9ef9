//! Values that leave their entry for another key or database, and values shared with another key.

use super::change::Meta;
use super::{Db, Found};
use crate::Key;
use crate::entry::{self, Form};
use crate::new_value::Payload;
use sluice_collections::slab::Handle;
use sluice_value::Value;

/// A value without its key, with expiry and access clock.
pub(crate) struct TakenValue {
    form: Form,
    /// The payload, when it is the value.
    inside: Vec<u8>,
    outside: Option<Value>,
    meta: Meta,
}

impl Db {
    /// Removes the entry at `found` and gives its value back. A value outside moves; at most a block's bytes
    /// are copied.
    pub(crate) fn take(&mut self, found: Found, key: Key<'_>) -> TakenValue {
        let (form, inside, meta) = self.inside_of(found.handle);
        let outside = self.remove(found, key);
        TakenValue { form, inside, outside, meta }
    }

    /// The value of an entry, to be stored under another key as well. A value outside is shared.
    pub(crate) fn copy_of(&self, handle: Handle) -> TakenValue {
        let (form, inside, meta) = self.inside_of(handle);
        let (word, body) = self.block(handle);
        let head = entry::Head(word.load(std::sync::atomic::Ordering::Relaxed));
        let is_outside = form.is_outside();
        let outside = is_outside.then(|| self.value_at(entry::payload(head, body)).share());
        TakenValue { form, inside, outside, meta }
    }

    /// Stores a value under a key that is absent.
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
